#include "cli/client.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "base/text.h"
#include "net/url.h"

#define SYSTEM_SOCKET "/run/atoll/atoll.sock"
#define HINT_START "start it with `atolld`, or say where it is with ATOLL_SOCKET or ATOLL_URL"

void atoll_cli_init(struct atoll_cli *cli)
{
    *cli = (struct atoll_cli){0};
}

void atoll_cli_done(struct atoll_cli *cli)
{
    cli->client = atoll_http_client_close(cli->client);
}

void atoll_cli_set_timeout(struct atoll_cli *cli, int timeout_ms)
{
    cli->timeout_ms = timeout_ms;
    if (cli->client)
        atoll_http_client_set_timeout(cli->client, timeout_ms);
}

static bool exists(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0;
}

/* The socket of this user's own daemon: the first of its two usual places where there is one, or
 * else the one where it would be. */
static int find_user_socket(char *out, size_t cap)
{
    const struct {
        const char *dir, *rest;
    } places[] = {{getenv("XDG_RUNTIME_DIR"), "/atoll/atoll.sock"},
                  {getenv("HOME"), "/.local/state/atoll/atoll.sock"}};
    char path[512];
    bool found = false;

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(places); i++) {
        if (!places[i].dir || !*places[i].dir ||
            (size_t)snprintf(path, sizeof(path), "%s%s", places[i].dir, places[i].rest) >= cap)
            continue;
        if (!found || exists(path))
            memcpy(out, path, strlen(path) + 1);
        if (exists(path))
            return 0;
        found = true;
    }
    return found ? 0 : -ENOENT;
}

static int find_daemon(struct atoll_cli *cli, struct atoll_error *err)
{
    const char *socket_path = getenv("ATOLL_SOCKET");
    const char *url = getenv("ATOLL_URL");
    const char *found = SYSTEM_SOCKET;
    char own[sizeof(cli->where)];

    if (socket_path && *socket_path)
        found = socket_path;
    else if (url && *url)
        found = url;
    else if (geteuid() != 0 && find_user_socket(own, sizeof(own)) == 0)
        found = own;
    /* A bare name is a socket in the current directory; the client wants to see a slash. */
    if ((size_t)snprintf(cli->where, sizeof(cli->where), "%s%s", strchr(found, '/') ? "" : "./",
                         found) >= sizeof(cli->where))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, ENAMETOOLONG,
                          "the address of the daemon is too long");
    return 0;
}

static int open_client(struct atoll_cli *cli, struct atoll_error *err)
{
    const char *key = getenv("ATOLL_API_KEY");
    int r = 0;

    if (cli->client)
        return 0;
    if (!*cli->where)
        r = find_daemon(cli, err);
    if (r == 0)
        r = atoll_http_client_open(cli->where, &cli->client, err);
    if (r < 0)
        return r;
    if (cli->timeout_ms)
        atoll_http_client_set_timeout(cli->client, cli->timeout_ms);
    if (!key || !*key || strncmp(cli->where, "http", 4) != 0)
        return 0;
    if ((size_t)snprintf(cli->authorization, sizeof(cli->authorization), "Bearer %s", key) >=
        sizeof(cli->authorization))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "ATOLL_API_KEY is too long");
    return 0;
}

struct headers {
    struct atoll_http_field fields[3];
};

static struct headers headers_of(const struct atoll_cli *cli, bool json)
{
    struct headers h = {0};
    size_t n = 0;

    if (*cli->authorization)
        h.fields[n++] = (struct atoll_http_field){"Authorization", cli->authorization};
    if (json)
        h.fields[n++] = (struct atoll_http_field){"Content-Type", "application/json"};
    return h;
}

/* A request that got no answer: says where we looked and what to do. */
static int explain(struct atoll_cli *cli, struct atoll_error *err)
{
    int errnum = err->errnum;

    if (err->kind != ATOLL_ERR_UNAVAILABLE)
        return atoll_wrap(err, "daemon at %s", cli->where);
    if (strncmp(err->text, "cannot reach", 12) != 0)
        return -(errnum > 0 ? errnum : EIO); /* it was lost later, or has no address: as told */
    if (errnum == EACCES || errnum == EPERM)
        (void)snprintf(
            cli->hint, sizeof(cli->hint),
            "the socket belongs to another user: run as that user, or use ATOLL_URL with "
            "ATOLL_API_KEY");
    else if (geteuid() != 0 && exists(SYSTEM_SOCKET))
        (void)snprintf(cli->hint, sizeof(cli->hint),
                       HINT_START "; one of root's is at " SYSTEM_SOCKET " (sudo atoll …)");
    else
        (void)snprintf(cli->hint, sizeof(cli->hint), HINT_START);
    return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, errnum, "cannot reach the daemon at %.256s%s%s",
                      cli->where, errnum ? ": " : "", errnum ? strerror(errnum) : "");
}

int atoll_cli_target(struct atoll_cli_target *ret, struct atoll_error *err, const char *fmt, ...)
{
    struct atoll_buf out;
    va_list ap;
    int r = 0;

    atoll_buf_init(&out, sizeof(ret->text) - 1);
    va_start(ap, fmt);
    while (r == 0 && *fmt) {
        size_t n = strcspn(fmt, "%");
        r = atoll_buf_append(&out, fmt, n);
        fmt += n;
        if (r == 0 && *fmt) {
            r = atoll_url_encode(&out, va_arg(ap, const char *), false);
            fmt += 2; /* "%s" */
        }
    }
    va_end(ap);
    if (r == 0)
        r = atoll_text_copy(ret->text, sizeof(ret->text), atoll_buf_str(&out));
    atoll_buf_done(&out);
    if (r < 0)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, ENAMETOOLONG, "a path is too long");
    return 0;
}

json_t *atoll_cli_parse_json(const void *bytes, size_t n)
{
    /* Output of commands may hold NUL bytes. */
    return json_loadb(bytes, n, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
}

static enum atoll_error_kind kind_of_name(const char *name)
{
    for (int kind = ATOLL_ERR_NONE; kind <= ATOLL_ERR_UNAUTHENTICATED; kind++)
        if (strcmp(atoll_error_kind_name((enum atoll_error_kind)kind), name) == 0)
            return (enum atoll_error_kind)kind;
    return ATOLL_ERR_UNKNOWN;
}

int atoll_cli_daemon_error(struct atoll_cli *cli, const json_t *message, int status,
                           struct atoll_error *err)
{
    const json_t *error = json_object_get(message, "error");
    const char *text = atoll_cli_text(error, "message", NULL);
    const char *request = atoll_cli_text(error, "request_id", NULL);
    enum atoll_error_kind kind = kind_of_name(atoll_cli_text(error, "code", ""));

    (void)snprintf(cli->hint, sizeof(cli->hint), "%s", atoll_cli_text(error, "hint", ""));
    if (kind == ATOLL_ERR_UNAUTHENTICATED)
        (void)snprintf(cli->hint, sizeof(cli->hint),
                       "put the key from the file api-key of the daemon's state directory into "
                       "ATOLL_API_KEY");
    if (!text)
        return atoll_fail(err, kind, EPROTO, "the daemon answered with status %d", status);
    if (kind == ATOLL_ERR_INTERNAL && request)
        return atoll_fail(err, kind, EREMOTEIO, "%s (request %s in the daemon's log)", text,
                          request);
    return atoll_fail(err, kind, EREMOTEIO, "%s", text);
}

/* Turns a reply into JSON or an error, and releases it. */
static int finish(struct atoll_cli *cli, struct atoll_http_reply *reply, json_t **ret_reply,
                  struct atoll_error *err)
{
    ATOLL_CLI_AUTOJSON json_t *value = NULL;
    bool failed = reply->status < 200 || reply->status > 299;
    size_t n = atoll_buf_size(&reply->body);
    int status = reply->status;

    if (n > 0 && (failed || ret_reply))
        value = atoll_cli_parse_json(atoll_buf_head(&reply->body), n);
    atoll_http_reply_done(reply);
    if (failed)
        return atoll_cli_daemon_error(cli, value, status, err);
    if (!ret_reply)
        return 0;
    if (n > 0 && !value)
        return atoll_fail(err, ATOLL_ERR_DATA_LOSS, EPROTO, "the daemon's answer is no JSON");
    *ret_reply = value ? ATOLL_TAKE_PTR(value) : json_null();
    return 0;
}

int atoll_cli_call(struct atoll_cli *cli, const char *method, const char *target, json_t *body,
                   json_t **ret_reply, struct atoll_error *err)
{
    ATOLL_AUTOFREE char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
    struct atoll_http_reply reply;
    struct headers headers;
    int r;

    if (body && !text)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "the request is no valid UTF-8");
    r = open_client(cli, err);
    if (r < 0)
        return r;
    headers = headers_of(cli, body != NULL);
    r = atoll_http_client_request(cli->client, method, target, headers.fields, text,
                                  text ? strlen(text) : 0, ATOLL_CLI_REPLY_MAX, &reply, err);
    return r < 0 ? explain(cli, err) : finish(cli, &reply, ret_reply, err);
}

int atoll_cli_stream(struct atoll_cli *cli, const char *method, const char *target,
                     const struct atoll_http_transfer *transfer, json_t **ret_reply,
                     struct atoll_error *err)
{
    struct atoll_http_reply reply;
    struct headers headers;
    int r = open_client(cli, err);

    if (r < 0)
        return r;
    headers = headers_of(cli, false);
    r = atoll_http_client_stream(cli->client, method, target, headers.fields, transfer,
                                 ATOLL_CLI_REPLY_MAX, &reply, err);
    if (r < 0)
        return err->kind == ATOLL_ERR_CANCELED ? r : explain(cli, err);
    return finish(cli, &reply, ret_reply, err);
}

int atoll_cli_websocket(struct atoll_cli *cli, const char *target, struct atoll_wsc **ret_ws,
                        struct atoll_error *err)
{
    struct atoll_http_reply reply;
    struct headers headers;
    int r = open_client(cli, err);

    if (r < 0)
        return r;
    headers = headers_of(cli, false);
    r = atoll_http_client_websocket(cli->client, target, headers.fields, ATOLL_CLI_REPLY_MAX,
                                    &reply, ret_ws, err);
    if (r == 0)
        return 0;
    if (err->kind == ATOLL_ERR_FAILED_PRECONDITION)
        return finish(cli, &reply, NULL, err);
    return explain(cli, err);
}

int atoll_cli_check_id(const char *what, const char *id, struct atoll_error *err)
{
    if (atoll_text_is_id(id))
        return 0;
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "\"%s\" is no %s id", id, what);
}

const char *atoll_cli_text(const json_t *object, const char *key, const char *otherwise)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : otherwise;
}

double atoll_cli_number(const json_t *object, const char *key, double otherwise)
{
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : otherwise;
}

int atoll_cli_print_json(const json_t *value, struct atoll_error *err)
{
    if (json_dumpf(value, stdout, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(15)) < 0 ||
        fputc('\n', stdout) == EOF || fflush(stdout) == EOF)
        return atoll_fail_errno(err, errno, "standard output");
    return 0;
}
