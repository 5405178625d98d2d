/*
 * See http.h. Raw sockets because a library's cost would be measured along with the daemon's.
 */
#include "http.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#define CALL_TIMEOUT_S 60 /* a daemon that hangs is a result too, not a hanging benchmark */

int atoll_http_open(struct atoll_http *h, const char *socket_path, struct atoll_error *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const struct timeval timeout = {.tv_sec = CALL_TIMEOUT_S};

    h->fd = ATOLL_NO_FD;
    h->status = 0;
    h->body = h->in;
    h->body_len = 0;
    if (strlen(socket_path) >= sizeof(address.sun_path))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, ENAMETOOLONG, "socket path too long");
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", socket_path);
    ATOLL_AUTOCLOSE int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return atoll_fail_errno(err, errno, "socket");
    if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)) < 0 ||
        connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
        return atoll_fail_errno(err, errno, "connect to %s", socket_path);
    h->fd = ATOLL_TAKE_FD(fd);
    return 0;
}

void atoll_http_close(struct atoll_http *h)
{
    if (h->fd >= 0)
        (void)close(ATOLL_TAKE_FD(h->fd));
}

static int send_request(struct atoll_http *h, const char *method, const char *path,
                        const char *json, struct atoll_error *err)
{
    size_t body_len = json ? strlen(json) : 0;
    int n = snprintf(h->out, sizeof(h->out),
                     "%s %s HTTP/1.1\r\nHost: localhost\r\n%sContent-Length: %zu\r\n\r\n%s", method,
                     path, json ? "Content-Type: application/json\r\n" : "", body_len,
                     json ? json : "");
    if (n < 0 || (size_t)n >= sizeof(h->out))
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, EMSGSIZE, "request too long");
    for (size_t sent = 0; sent < (size_t)n;) {
        ssize_t w = send(h->fd, h->out + sent, (size_t)n - sent, MSG_NOSIGNAL);
        if (w < 0 && errno == EINTR)
            continue;
        if (w < 0)
            return atoll_fail_errno(err, errno, "send %s %s", method, path);
        sent += (size_t)w;
    }
    return 0;
}

/* Status and Content-Length of the head that ends at `end`; -1 as length when there is none. */
static int parse_head(struct atoll_http *h, const char *end, long *ret_length,
                      struct atoll_error *err)
{
    *ret_length = -1;
    if (sscanf(h->in, "HTTP/1.1 %3d", &h->status) != 1)
        return atoll_fail(err, ATOLL_ERR_INTERNAL, EPROTO, "not an HTTP/1.1 response");
    for (const char *line = strstr(h->in, "\r\n"); line && line < end;
         line = strstr(line + 2, "\r\n")) {
        if (strncasecmp(line + 2, "content-length:", 15) == 0)
            *ret_length = strtol(line + 17, NULL, 10);
    }
    if (h->status == 204)
        *ret_length = 0;
    if (*ret_length < 0 || *ret_length > ATOLL_HTTP_MAX)
        return atoll_fail(err, ATOLL_ERR_INTERNAL, EPROTO, "response %d without a usable length",
                          h->status);
    return 0;
}

static int receive_response(struct atoll_http *h, struct atoll_error *err)
{
    size_t have = 0, need = SIZE_MAX;
    while (have < need) {
        if (have == ATOLL_HTTP_MAX)
            return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, EMSGSIZE, "response too long");
        ssize_t n = recv(h->fd, h->in + have, ATOLL_HTTP_MAX - have, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return atoll_fail_errno(err, n < 0 ? errno : ECONNRESET, "receive");
        have += (size_t)n;
        h->in[have] = '\0';
        char *end = need == SIZE_MAX ? strstr(h->in, "\r\n\r\n") : NULL;
        if (end) {
            long length;
            int r = parse_head(h, end, &length, err);
            if (r < 0)
                return r;
            h->body = end + 4;
            h->body_len = (size_t)length;
            need = (size_t)(h->body - h->in) + (size_t)length;
        }
    }
    if (have > need)
        return atoll_fail(err, ATOLL_ERR_INTERNAL, EPROTO, "bytes after the response");
    return 0;
}

int atoll_http_call(struct atoll_http *h, const char *method, const char *path, const char *json,
                    int expect, struct atoll_error *err)
{
    int r = send_request(h, method, path, json, err);
    if (r < 0)
        return r;
    r = receive_response(h, err);
    if (r < 0)
        return atoll_wrap(err, "%s %s", method, path);
    if (h->status != expect)
        return atoll_fail(err, ATOLL_ERR_INTERNAL, EPROTO, "%s %s: status %d instead of %d: %.200s",
                          method, path, h->status, expect, h->body);
    return 0;
}

/* Behind the string that starts at the quote `s`. */
static const char *skip_string(const char *s)
{
    for (s++; *s && *s != '"'; s++) {
        if (*s == '\\' && s[1])
            s++;
    }
    return *s ? s + 1 : s;
}

const char *atoll_http_find(const char *json, int depth, const char *key)
{
    size_t key_len = strlen(key);
    int level = 0;
    while (*json) {
        if (*json != '"') {
            level += *json == '{' || *json == '[';
            level -= *json == '}' || *json == ']';
            json++;
            continue;
        }
        const char *text = json + 1;
        json = skip_string(json);
        if (level != depth || (size_t)(json - text) != key_len + 1 ||
            memcmp(text, key, key_len) != 0)
            continue;
        const char *value = json + strspn(json, " \t\r\n");
        if (*value == ':') /* a key and not a value of the same text */
            return value + 1 + strspn(value + 1, " \t\r\n");
    }
    return NULL;
}
