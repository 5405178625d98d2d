#include "provider/docker/http_internal.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define PATH_MAX_BYTES 4096
#define CONNECTIONS 8
#define INSPECT_MS 10000 /* deadline of a GET; other requests have that of their operation */

/* The engine reports most failures as 500; a retry does not mend them. */
static const struct atoll_remote_rule rules[] = {
    {401, NULL, ATOLL_ERR_PERMISSION_DENIED, EACCES, NULL},
    {403, NULL, ATOLL_ERR_PERMISSION_DENIED, EACCES, NULL},
    {500, NULL, ATOLL_ERR_INTERNAL, EIO, NULL},
    {501, NULL, ATOLL_ERR_INTERNAL, EIO, NULL},
};
static const struct atoll_remote_service service = {
    .name = "the Docker engine",
    .label = "docker",
    .rules = rules,
    .rule_count = ATOLL_ARRAY_LEN(rules),
};

static bool is_set(const char *text)
{
    return text && *text;
}

/* Sets the base URL, and the path of a unix socket, which the config owns. */
static int set_address(struct atoll_docker_http *h, const struct atoll_docker_http_config *c,
                       const char **ret_socket, struct atoll_error *err)
{
    bool tls = is_set(c->ca) || is_set(c->cert) || is_set(c->key);
    int n;

    if (strncmp(c->host, "unix://", 7) == 0 && c->host[7] == '/') {
        *ret_socket = c->host + 7;
        h->base = strdup("http://docker");
        return h->base ? 0 : atoll_fail_errno(err, ENOMEM, "address");
    }
    if (strncmp(c->host, "tcp://", 6) != 0 || strpbrk(c->host + 6, "/?#@ "))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "the Docker host must be unix:///PATH or tcp://HOST:PORT");
    n = asprintf(&h->base, "%s://%s", tls ? "https" : "http", c->host + 6);
    if (n < 0)
        h->base = NULL;
    return n < 0 ? atoll_fail_errno(err, ENOMEM, "address") : 0;
}

int atoll_docker_http_new(const struct atoll_docker_http_config *config,
                          struct atoll_docker_http **ret, struct atoll_error *err)
{
    struct atoll_docker_http *h = calloc(1, sizeof(*h));
    struct atoll_remote_http_config remote = {
        .service = &service,
        .ca = config->ca,
        .cert = config->cert,
        .key = config->key,
        .connections = config->connections ? config->connections : CONNECTIONS,
        .direct = true,
        .http1 = true,
    };
    int r;

    if (!h)
        return atoll_fail_errno(err, ENOMEM, "Docker client");
    (void)pthread_mutex_init(&h->lock, NULL);
    (void)snprintf(h->version, sizeof(h->version), ATOLL_DOCKER_API);
    r = set_address(h, config, &remote.socket_path, err);
    if (r == 0)
        r = atoll_remote_http_new(&remote, &h->remote, err);
    if (r < 0)
        h = atoll_docker_http_free(h);
    *ret = h;
    return r;
}

struct atoll_docker_http *atoll_docker_http_free(struct atoll_docker_http *h)
{
    if (!h)
        return NULL;
    (void)pthread_mutex_destroy(&h->lock);
    h->remote = atoll_remote_http_free(h->remote);
    free(h->base);
    free(h);
    return NULL;
}

int atoll_docker_http_refused(long status, const char *body, size_t n, struct atoll_error *err)
{
    struct atoll_remote_rule rule = atoll_remote_rule_of(&service, status, NULL);
    ATOLL_AUTOFREE char *message = atoll_remote_text(body, n, "message", NULL);

    return atoll_fail(err, rule.kind, rule.errnum, "Docker: %.300s",
                      message && *message ? message : "no reason given");
}

/* --- one request --- */

/* Clears `Expect:`: the engine accepts bodies without it. */
static int headers_of(const struct atoll_docker_ask *ask, struct curl_slist **ret,
                      struct atoll_error *err)
{
    int r = atoll_remote_header(ret, err, "Expect:");

    if (r == 0 && (ask->json || ask->read))
        r = atoll_remote_header(ret, err, "Content-Type: application/%s",
                                ask->json ? "json" : "x-tar");
    if (r == 0 && ask->read)
        r = atoll_remote_header(ret, err, "Transfer-Encoding: chunked");
    if (r == 0 && ask->header)
        r = atoll_remote_header(ret, err, "%s", ask->header);
    return r;
}

/* Sends one request; any HTTP status is a success. Operations start with GET requests: their short
 * deadline detects an engine that does not answer. */
static int transfer(struct atoll_docker_http *h, const struct atoll_sync_call *call,
                    const char *version, const char *body, const struct atoll_docker_ask *ask,
                    struct atoll_remote_answer *ret, struct atoll_error *err)
{
    ATOLL_REMOTE_AUTOSLIST struct curl_slist *headers = NULL;
    char url[PATH_MAX_BYTES];
    bool get = strcmp(ask->method, "GET") == 0;
    struct atoll_remote_request request = {
        .method = ask->method,
        .url = url,
        .body = get || ask->read ? NULL : body,
        .body_len = strlen(body),
        .read = ask->read,
        .read_arg = ask->read_arg,
        .sink = ask->sink,
        .sink_arg = ask->sink_arg,
        .header = "Api-Version",
        .timeout_ms = get ? INSPECT_MS : 0,
        .slow = ask->slow,
    };
    int r;

    atoll_remote_answer_done(ret);
    *ret = (struct atoll_remote_answer){0};
    if ((size_t)snprintf(url, sizeof(url), "%s%s%s%s", h->base, *version ? "/v" : "", version,
                         ask->path) >= sizeof(url))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, ENAMETOOLONG, "request is too long");
    r = headers_of(ask, &headers, err);
    request.headers = headers;
    return r < 0 ? r : atoll_remote_http_ask(h->remote, call, &request, ret, err);
}

static int refused(const struct atoll_remote_answer *answer, struct atoll_error *err)
{
    return atoll_docker_http_refused(answer->status, (const char *)atoll_buf_head(&answer->body),
                                     atoll_buf_size(&answer->body), err);
}

/* --- versions --- */

/* "1.41" as 1041; 0 if malformed. */
static unsigned version_number(const char *text)
{
    unsigned major, minor;
    return sscanf(text, "%3u.%3u", &major, &minor) == 2 ? major * 1000 + minor : 0;
}

int atoll_docker_http_version(struct atoll_docker_http *h, const struct atoll_sync_call *call,
                              char version[16], struct atoll_error *err)
{
    ATOLL_REMOTE_AUTOANSWER struct atoll_remote_answer answer = {0};
    struct atoll_docker_ask ask = {.method = "GET", .path = "/_ping"};
    bool known;
    int r;

    (void)pthread_mutex_lock(&h->lock);
    known = h->negotiated;
    memcpy(version, h->version, sizeof(h->version));
    (void)pthread_mutex_unlock(&h->lock);
    if (known)
        return 0;
    r = transfer(h, call, "", "", &ask, &answer, err);
    if (r == 0 && answer.status != 200)
        r = refused(&answer, err);
    if (r == 0 && version_number(answer.header) < version_number(ATOLL_DOCKER_API))
        r = atoll_fail(err, ATOLL_ERR_UNIMPLEMENTED, EPROTO,
                       "this Docker engine is too old: it speaks API %.16s, " ATOLL_DOCKER_API
                       " (Engine 20.10) is needed",
                       *answer.header ? answer.header : "of unknown version");
    if (r < 0)
        return r;
    (void)pthread_mutex_lock(&h->lock);
    h->negotiated = true;
    (void)pthread_mutex_unlock(&h->lock);
    return 0;
}

/* Newer engines have dropped old API versions, and name the oldest they accept. */
static bool take_newer(struct atoll_docker_http *h, struct atoll_buf *body, char version[16])
{
    static const char words[] = "Minimum supported API version is ";
    const char *at = strstr(atoll_buf_str(body), words);
    unsigned major, minor;

    if (!at || sscanf(at + sizeof(words) - 1, "%3u.%3u", &major, &minor) != 2 ||
        major * 1000 + minor <= version_number(version))
        return false;
    (void)snprintf(version, 16, "%u.%u", major, minor);
    (void)pthread_mutex_lock(&h->lock);
    memcpy(h->version, version, sizeof(h->version));
    (void)pthread_mutex_unlock(&h->lock);
    return true;
}

static int converse(struct atoll_docker_http *h, const struct atoll_sync_call *call,
                    const char *body, const struct atoll_docker_ask *ask,
                    struct atoll_remote_answer *answer, json_t **ret_json, struct atoll_error *err)
{
    char version[16];
    int r = atoll_docker_http_version(h, call, version, err);

    if (r == 0)
        r = transfer(h, call, version, body, ask, answer, err);
    if (r == 0 && answer->status == 400 && !ask->read && take_newer(h, &answer->body, version))
        r = transfer(h, call, version, body, ask, answer, err);
    if (r < 0)
        return r;
    if (answer->status / 100 != 2 && answer->status != 304)
        return refused(answer, err);
    if (ret_json)
        *ret_json = atoll_buf_size(&answer->body) > 0
                        ? json_loadb((const char *)atoll_buf_head(&answer->body),
                                     atoll_buf_size(&answer->body), 0, NULL)
                        : NULL;
    return (int)answer->status;
}

int atoll_docker_http_ask(struct atoll_docker_http *h, const struct atoll_sync_call *call,
                          const struct atoll_docker_ask *ask, json_t **ret_json,
                          struct atoll_error *err)
{
    ATOLL_REMOTE_AUTOANSWER struct atoll_remote_answer answer = {0};
    ATOLL_DOCKER_AUTOJSON json_t *json = ask->json;
    ATOLL_AUTOFREE char *body = json ? json_dumps(json, JSON_COMPACT) : strdup("");

    if (!body)
        return atoll_fail_errno(err, ENOMEM, "request");
    return converse(h, call, body, ask, &answer, ret_json, err);
}

int atoll_docker_http_askf(struct atoll_docker_http *h, const struct atoll_sync_call *call,
                           json_t **ret_json, struct atoll_error *err, const char *method,
                           const char *path, ...)
{
    ATOLL_AUTOFREE char *text = NULL;
    struct atoll_docker_ask ask = {.method = method};
    va_list args;
    int n;

    va_start(args, path);
    n = vasprintf(&text, path, args);
    va_end(args);
    if (n < 0) {
        text = NULL;
        return atoll_fail_errno(err, ENOMEM, "request");
    }
    ask.path = text;
    return atoll_docker_http_ask(h, call, &ask, ret_json, err);
}

char *atoll_docker_escape(const char *text)
{
    char *escaped = curl_easy_escape(NULL, text, 0);
    char *copy = escaped ? strdup(escaped) : NULL;

    curl_free(escaped);
    return copy;
}
