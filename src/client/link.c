/*
 * Finding the daemon, and requests to it. See link.h.
 */
#include "client/link.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "base/text.h"
#include "net/url.h"

#define SYSTEM_SOCKET "/run/atoll/atoll.sock"
#define TIMEOUT_MS (60 * 1000)
#define HINT_START \
    "start one with `atoll up` (or run atolld), or set ATOLL_SOCKET or ATOLL_URL to its address"

struct atoll_client {
    char where[512];
    struct atoll_http_client *http; /* owned */
    int timeout_ms;
    char authorization[512]; /* "Bearer KEY", or "" */
    char hint[512];          /* remedy for the last error, or "" */
    char request_id[64];     /* of the last error, or "" */
};

/* Finding it. */

static bool exists(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0;
}

/* The socket of this user's own daemon: the first of the two default paths that exists, else the path
 * that a daemon would use. */
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

static int find_daemon(struct atoll_client *client, const char *address, struct atoll_error *err)
{
    const char *socket_path = getenv("ATOLL_SOCKET");
    const char *url = getenv("ATOLL_URL");
    const char *found = SYSTEM_SOCKET;
    char own[sizeof(client->where)];

    if (address && *address)
        found = address;
    else if (socket_path && *socket_path)
        found = socket_path;
    else if (url && *url)
        found = url;
    else if (geteuid() != 0 && find_user_socket(own, sizeof(own)) == 0)
        found = own;
    /* A name without a slash is a socket in the current directory; net/http_client.h needs a slash. */
    if ((size_t)snprintf(client->where, sizeof(client->where), "%s%s",
                         strchr(found, '/') ? "" : "./", found) >= sizeof(client->where))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, ENAMETOOLONG,
                          "the address of the daemon is too long");
    return 0;
}

static const char *or_env(const char *value, const char *name)
{
    return value ? value : getenv(name);
}

int atoll_link_set_key(struct atoll_client *client, const char *key, struct atoll_error *err)
{
    if ((size_t)snprintf(client->authorization, sizeof(client->authorization), "Bearer %s", key) >=
        sizeof(client->authorization))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "the API key is too long");
    return 0;
}

static int set_key(struct atoll_client *client, const char *key, struct atoll_error *err)
{
    if (!key || !*key || strncmp(client->where, "http", 4) != 0)
        return 0;
    return atoll_link_set_key(client, key, err);
}

static int set_up(struct atoll_client *client, const struct atoll_client_options *options,
                  struct atoll_error *err)
{
    const char *insecure = getenv("ATOLL_INSECURE");
    int r = find_daemon(client, options->address, err);

    if (r == 0)
        r = atoll_http_client_open(client->where, &client->http, err);
    if (r == 0)
        r = set_key(client, or_env(options->api_key, "ATOLL_API_KEY"), err);
    if (r == 0)
        r = atoll_http_client_set_trust(
            client->http, or_env(options->ca_file, "ATOLL_CA_FILE"),
            options->insecure || (insecure && strcmp(insecure, "1") == 0), err);
    if (r == 0)
        atoll_client_set_timeout(client, options->timeout_ms);
    return r;
}

int atoll_link_open(const struct atoll_client_options *options, struct atoll_client **ret_client,
                    struct atoll_error *err)
{
    struct atoll_client *client = calloc(1, sizeof(*client));
    struct atoll_client_options own;
    int r;

    if (!client)
        return atoll_fail_errno(err, ENOMEM, "client");
    r = atoll_link_import(&own, sizeof(own), options, err);
    if (r == 0)
        r = set_up(client, &own, err);
    if (r < 0)
        atoll_client_close(client);
    else
        *ret_client = client;
    return r;
}

void atoll_client_close(struct atoll_client *client)
{
    if (client) {
        (void)atoll_http_client_close(client->http);
        free(client);
    }
}

const char *atoll_client_address(const struct atoll_client *client)
{
    return client->where;
}

void atoll_client_set_timeout(struct atoll_client *client, int timeout_ms)
{
    client->timeout_ms = timeout_ms ? timeout_ms : TIMEOUT_MS;
    atoll_http_client_set_timeout(client->http, client->timeout_ms);
}

int atoll_link_timeout(const struct atoll_client *client)
{
    return client->timeout_ms;
}

const char *atoll_link_authorization(const struct atoll_client *client)
{
    return client->authorization;
}

char *atoll_link_hint(struct atoll_client *client)
{
    return client->hint;
}

/* Errors. */

/* Improves the error of a request that got no answer: adds the address and a hint. */
static int explain(struct atoll_client *client, struct atoll_error *err)
{
    int errnum = err->errnum;

    if (err->kind != ATOLL_ERR_UNAVAILABLE)
        return atoll_wrap(err, "daemon at %s", client->where);
    if (strncmp(err->text, "cannot reach", 12) != 0)
        return -(errnum > 0 ? errnum : EIO); /* the text already explains it */
    if (errnum == EACCES || errnum == EPERM)
        (void)snprintf(
            client->hint, sizeof(client->hint),
            "the socket belongs to another user: run as that user, or use ATOLL_URL with "
            "ATOLL_API_KEY");
    else if (geteuid() != 0 && exists(SYSTEM_SOCKET))
        (void)snprintf(client->hint, sizeof(client->hint),
                       HINT_START "; root's daemon is at " SYSTEM_SOCKET " (sudo atoll …)");
    else
        (void)snprintf(client->hint, sizeof(client->hint), HINT_START);
    return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, errnum, "cannot reach the daemon at %.256s%s%s",
                      client->where, errnum ? ": " : "", errnum ? strerror(errnum) : "");
}

static enum atoll_error_kind kind_of_name(const char *name)
{
    for (int kind = ATOLL_ERR_NONE; kind <= ATOLL_ERR_UNAUTHENTICATED; kind++)
        if (strcmp(atoll_error_kind_name((enum atoll_error_kind)kind), name) == 0)
            return (enum atoll_error_kind)kind;
    return ATOLL_ERR_UNKNOWN;
}

int atoll_link_daemon_error(struct atoll_client *client, const json_t *message, int status,
                            struct atoll_error *err)
{
    const json_t *error = json_object_get(message, "error");
    const char *text = atoll_link_text(error, "message", NULL);
    const char *request = atoll_link_text(error, "request_id", NULL);
    enum atoll_error_kind kind = kind_of_name(atoll_link_text(error, "code", ""));

    (void)snprintf(client->hint, sizeof(client->hint), "%s", atoll_link_text(error, "hint", ""));
    (void)snprintf(client->request_id, sizeof(client->request_id), "%s", request ? request : "");
    if (kind == ATOLL_ERR_UNAUTHENTICATED)
        (void)snprintf(client->hint, sizeof(client->hint),
                       "put the key from the file api-key of the daemon's state directory into "
                       "ATOLL_API_KEY");
    if (!text)
        return atoll_fail(err, kind, EPROTO, "the daemon answered with status %d", status);
    if (kind == ATOLL_ERR_INTERNAL && request)
        return atoll_fail(err, kind, EREMOTEIO, "%s (request %s in the daemon's log)", text,
                          request);
    return atoll_fail(err, kind, EREMOTEIO, "%s", text);
}

/* Requests. */

struct headers {
    struct atoll_http_field fields[4];
};

static struct headers headers_of(struct atoll_client *client, bool json,
                                 const char *idempotency_key)
{
    struct headers h = {0};
    size_t n = 0;

    client->hint[0] = client->request_id[0] = '\0';
    if (*client->authorization)
        h.fields[n++] = (struct atoll_http_field){"Authorization", client->authorization};
    if (json)
        h.fields[n++] = (struct atoll_http_field){"Content-Type", "application/json"};
    if (idempotency_key)
        h.fields[n++] = (struct atoll_http_field){"Idempotency-Key", idempotency_key};
    return h;
}

int atoll_link_target(struct atoll_link_target *ret, struct atoll_error *err, const char *fmt, ...)
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

/* Converts a reply to JSON or an error, and frees it. */
static int finish(struct atoll_client *client, struct atoll_http_reply *reply, json_t **ret_reply,
                  struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *value = NULL;
    bool failed = reply->status < 200 || reply->status > 299;
    size_t n = atoll_buf_size(&reply->body);
    int status = reply->status;

    if (n > 0 && (failed || ret_reply))
        value = atoll_link_parse_json(atoll_buf_head(&reply->body), n);
    atoll_http_reply_done(reply);
    if (failed)
        return atoll_link_daemon_error(client, value, status, err);
    if (!ret_reply)
        return 0;
    if (n > 0 && !value)
        return atoll_fail(err, ATOLL_ERR_DATA_LOSS, EPROTO, "the daemon's answer is not JSON");
    *ret_reply = value ? ATOLL_TAKE_PTR(value) : json_null();
    return 0;
}

int atoll_link_call_once(struct atoll_client *client, const char *method, const char *target,
                         json_t *body, const char *idempotency_key, json_t **ret_reply,
                         struct atoll_error *err)
{
    ATOLL_AUTOFREE char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
    struct headers headers = headers_of(client, body != NULL, idempotency_key);
    struct atoll_http_reply reply;
    int r;

    if (body && !text)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "the request is not valid UTF-8");
    r = atoll_http_client_request(client->http, method, target, headers.fields, text,
                                  text ? strlen(text) : 0, ATOLL_LINK_REPLY_MAX, &reply, err);
    return r < 0 ? explain(client, err) : finish(client, &reply, ret_reply, err);
}

int atoll_link_call(struct atoll_client *client, const char *method, const char *target,
                    json_t *body, json_t **ret_reply, struct atoll_error *err)
{
    return atoll_link_call_once(client, method, target, body, NULL, ret_reply, err);
}

int atoll_link_call_text(struct atoll_client *client, const char *method, const char *target,
                         const char *text, char **ret_text, struct atoll_error *err)
{
    struct headers headers = headers_of(client, text != NULL, NULL);
    struct atoll_http_reply reply;
    int r = atoll_http_client_request(client->http, method, target, headers.fields, text,
                                      text ? strlen(text) : 0, ATOLL_LINK_REPLY_MAX, &reply, err);

    if (r < 0)
        return explain(client, err);
    if (reply.status < 200 || reply.status > 299)
        return finish(client, &reply, NULL, err);
    if (ret_text)
        *ret_text = strndup(atoll_buf_size(&reply.body) ? atoll_buf_str(&reply.body) : "",
                            atoll_buf_size(&reply.body));
    atoll_http_reply_done(&reply);
    return ret_text && !*ret_text ? atoll_fail_errno(err, ENOMEM, "the answer") : 0;
}

int atoll_link_stream(struct atoll_client *client, const char *method, const char *target,
                      const struct atoll_http_transfer *transfer, json_t **ret_reply,
                      struct atoll_error *err)
{
    struct headers headers = headers_of(client, false, NULL);
    struct atoll_http_reply reply;
    int r = atoll_http_client_stream(client->http, method, target, headers.fields, transfer,
                                     ATOLL_LINK_REPLY_MAX, &reply, err);

    if (r < 0)
        return err->kind == ATOLL_ERR_CANCELED ? r : explain(client, err);
    return finish(client, &reply, ret_reply, err);
}

int atoll_link_websocket(struct atoll_client *client, const char *target, struct atoll_wsc **ret_ws,
                         struct atoll_error *err)
{
    struct headers headers = headers_of(client, false, NULL);
    struct atoll_http_reply reply;
    int r = atoll_http_client_websocket(client->http, target, headers.fields, ATOLL_LINK_REPLY_MAX,
                                        &reply, ret_ws, err);

    if (r == 0)
        return 0;
    if (err->kind == ATOLL_ERR_FAILED_PRECONDITION)
        return finish(client, &reply, NULL, err);
    return explain(client, err);
}

/* Public. */

int atoll_link_conclude(struct atoll_client *client, int r, const struct atoll_error *err,
                        struct atoll_client_error *ret)
{
    if (r >= 0 || !ret)
        return r;
    memset(ret, 0, sizeof(*ret));
    ret->code = (enum atoll_client_code)err->kind;
    ret->errnum = err->errnum;
    (void)snprintf(ret->message, sizeof(ret->message), "%s", err->text);
    (void)snprintf(ret->hint, sizeof(ret->hint), "%s", client ? client->hint : "");
    (void)snprintf(ret->request_id, sizeof(ret->request_id), "%s",
                   client ? client->request_id : "");
    return r;
}

int atoll_client_open(const struct atoll_client_options *options, struct atoll_client **ret_client,
                      struct atoll_client_error *error)
{
    struct atoll_error err;
    int r = atoll_link_open(options, ret_client, &err);
    return atoll_link_conclude(NULL, r, &err, error);
}

int atoll_client_request(struct atoll_client *client, const char *method, const char *target,
                         const char *json, char **ret_json, struct atoll_client_error *error)
{
    struct atoll_error err;
    int r = atoll_link_call_text(client, method, target, json, ret_json, &err);
    return atoll_link_conclude(client, r, &err, error);
}
