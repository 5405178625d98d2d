/*
 * The attacker's side of the daemon: requests, sandboxes and tenants. See raid.h.
 */
#include "tools/verify/attacks/raid.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include "base/clock.h"
#include "base/rand.h"
#include "base/text.h"

#define REPLY_MAX ((size_t)32 * 1024 * 1024)
#define BUSY_TRIES 60
#define BUSY_MS 100
#define MARK_LEN 26

/* Outcomes. */

static void say(struct atoll_raid_outcome *o, bool append, const char *fmt, va_list ap)
    __attribute__((format(printf, 3, 0)));

static void say(struct atoll_raid_outcome *o, bool append, const char *fmt, va_list ap)
{
    size_t used = append ? strlen(o->text) : 0;

    if (used > 0 && used + 3 < sizeof(o->text))
        used += (size_t)snprintf(o->text + used, sizeof(o->text) - used, "; ");
    (void)vsnprintf(o->text + used, sizeof(o->text) - used, fmt, ap);
}

void atoll_outcome_found(struct atoll_raid_outcome *o, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    say(o, o->verdict == ATOLL_VERDICT_FOUND, fmt, ap);
    va_end(ap);
    o->verdict = ATOLL_VERDICT_FOUND;
}

void atoll_outcome_unknown(struct atoll_raid_outcome *o, const char *fmt, ...)
{
    va_list ap;

    if (o->verdict != ATOLL_VERDICT_HOLDS)
        return;
    va_start(ap, fmt);
    say(o, false, fmt, ap);
    va_end(ap);
    o->verdict = ATOLL_VERDICT_UNKNOWN;
}

void atoll_outcome_note(struct atoll_raid_outcome *o, const char *fmt, ...)
{
    va_list ap;

    if (o->verdict != ATOLL_VERDICT_HOLDS)
        return;
    va_start(ap, fmt);
    say(o, false, fmt, ap);
    va_end(ap);
}

/* Requests. */

static int ask_once(struct atoll_raid *raid, const struct atoll_ask *ask,
                    struct atoll_http_reply *reply)
{
    const char *own = atoll_link_authorization(raid->v->client);
    struct atoll_http_field fields[ATOLL_ARRAY_LEN(ask->extra) + 3] = {0};
    struct atoll_error err;
    size_t n = 0;

    if (ask->key)
        fields[n++] = (struct atoll_http_field){"X-API-Key", ask->key};
    else if (*own)
        fields[n++] = (struct atoll_http_field){"Authorization", own};
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(ask->extra) && ask->extra[i].name; i++)
        fields[n++] = ask->extra[i];
    if (atoll_http_client_request(raid->http, ask->method, ask->target, fields, ask->body,
                                  ask->size, REPLY_MAX, reply, &err) < 0) {
        memset(reply, 0, sizeof(*reply));
        return 0;
    }
    return reply->status;
}

int atoll_raid_ask(struct atoll_raid *raid, const struct atoll_ask *ask,
                   struct atoll_http_reply *reply)
{
    const struct timespec pause = {.tv_nsec = BUSY_MS * 1000000L};
    int status = 0;

    for (int i = 0; i < BUSY_TRIES; i++) {
        status = ask_once(raid, ask, reply);
        if (status != 429 || !ask->key || ask->once)
            return status;
        atoll_http_reply_done(reply);
        memset(reply, 0, sizeof(*reply));
        (void)nanosleep(&pause, NULL);
    }
    return status;
}

#define SANDBOXES "/api/sandboxes/"

static void forget(struct atoll_raid *raid, char *id)
{
    if (strcmp(raid->box, id) == 0) {
        raid->box[0] = '\0';
        raid->probe_there = false;
    }
    id[0] = '\0';
}

/* Notes the end of a sandbox of ours; if it was already gone, another client has removed it. */
static void note_end(struct atoll_raid *raid, const char *target, int status)
{
    const char *id = target + strlen(SANDBOXES);
    size_t n;

    if (strncmp(target, SANDBOXES, strlen(SANDBOXES)) != 0 || (status != 204 && status != 404))
        return;
    n = strcspn(id, "/?");
    for (size_t i = 0; id[n] != '/' && i < ATOLL_RAID_BOXES_MAX; i++)
        if (strlen(raid->boxes[i]) == n && n > 0 && strncmp(raid->boxes[i], id, n) == 0) {
            raid->missed |= status == 404;
            forget(raid, raid->boxes[i]);
        }
}

int atoll_raid_call(struct atoll_raid *raid, const char *method, const char *target,
                    const char *body)
{
    ATOLL_AUTOREPLY struct atoll_http_reply reply = {0};
    const struct atoll_ask ask = {
        .method = method, .target = target, .body = body, .size = body ? strlen(body) : 0};
    int status = atoll_raid_ask(raid, &ask, &reply);

    if (strcmp(method, "DELETE") == 0)
        note_end(raid, target, status);
    return status;
}

static bool is_gone(struct atoll_raid *raid, const char *id)
{
    ATOLL_AUTOJSON json_t *view = NULL;
    char target[ATOLL_RAID_ID_MAX + sizeof(SANDBOXES)];

    (void)snprintf(target, sizeof(target), SANDBOXES "%s", id);
    if (atoll_raid_call(raid, "GET", target, NULL) == 404)
        return true;
    view = atoll_raid_json(raid, "GET", target, NULL);
    return strcmp(atoll_link_text(view, "state", ""), "stopping") == 0;
}

bool atoll_raid_was_disturbed(struct atoll_raid *raid)
{
    bool disturbed = raid->missed;

    raid->missed = false;
    for (size_t i = 0; i < ATOLL_RAID_BOXES_MAX; i++)
        if (raid->boxes[i][0] && is_gone(raid, raid->boxes[i])) {
            disturbed = true;
            forget(raid, raid->boxes[i]);
        }
    return disturbed;
}

/* Like atoll_link_target(), which does not take a va_list: supports up to four %s. */
int atoll_raid_callf(struct atoll_raid *raid, const char *method, const char *fmt, ...)
{
    struct atoll_link_target target;
    const char *args[4] = {"", "", "", ""};
    struct atoll_error err;
    size_t n = 0;
    va_list ap;

    va_start(ap, fmt);
    for (const char *p = fmt; (p = strstr(p, "%s")) && n < ATOLL_ARRAY_LEN(args); p += 2)
        args[n++] = va_arg(ap, const char *);
    va_end(ap);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    if (atoll_link_target(&target, &err, fmt, args[0], args[1], args[2], args[3]) < 0)
        return 0;
#pragma GCC diagnostic pop
    return atoll_raid_call(raid, method, target.text, NULL);
}

json_t *atoll_raid_json(struct atoll_raid *raid, const char *method, const char *target,
                        const char *body)
{
    ATOLL_AUTOREPLY struct atoll_http_reply reply = {0};
    const struct atoll_ask ask = {
        .method = method, .target = target, .body = body, .size = body ? strlen(body) : 0};
    int status = atoll_raid_ask(raid, &ask, &reply);

    if (status < 200 || status > 299)
        return NULL;
    return atoll_link_parse_json(atoll_buf_head(&reply.body), atoll_buf_size(&reply.body));
}

bool atoll_raid_alive(struct atoll_raid *raid, struct atoll_raid_outcome *o, const char *after)
{
    int status = atoll_raid_call(raid, "GET", "/healthz", NULL);

    if (status == 200)
        return true;
    atoll_outcome_found(o, "after %s the daemon no longer answers (%d)", after, status);
    return false;
}

/* Sandboxes. */

static void remember(struct atoll_raid *raid, const char *id)
{
    for (size_t i = 0; i < ATOLL_RAID_BOXES_MAX; i++)
        if (!raid->boxes[i][0]) {
            (void)!atoll_text_copy(raid->boxes[i], ATOLL_RAID_ID_MAX, id);
            return;
        }
}

bool atoll_raid_make(struct atoll_raid *raid, struct atoll_raid_outcome *o, const char *key,
                     const char *body, char *ret_id)
{
    ATOLL_AUTOREPLY struct atoll_http_reply reply = {0};
    ATOLL_AUTOJSON json_t *sandbox = NULL;
    char own[200];
    struct atoll_ask ask = {.method = "POST", .target = "/api/sandboxes", .key = key};
    const char *id;
    int status;

    (void)snprintf(own, sizeof(own),
                   "{\"metadata\":{\"purpose\":\"atoll verify %s\"},\"waive\":[\"all\"],"
                   "\"limits\":{\"timeoutSeconds\":900}}",
                   raid->mark);
    ask.body = body ? body : own;
    ask.size = strlen(ask.body);
    status = atoll_raid_ask(raid, &ask, &reply);
    sandbox = status == 201
                  ? atoll_link_parse_json(atoll_buf_head(&reply.body), atoll_buf_size(&reply.body))
                  : NULL;
    id = atoll_link_text(sandbox, "id", "");
    if (!*id || atoll_text_copy(ret_id, ATOLL_RAID_ID_MAX, id) < 0) {
        atoll_outcome_unknown(o, "no sandbox could be made for it (%d: %.200s)", status,
                              atoll_buf_size(&reply.body) ? atoll_buf_str(&reply.body) : "");
        return false;
    }
    remember(raid, id);
    return true;
}

const char *atoll_raid_box(struct atoll_raid *raid, struct atoll_raid_outcome *o)
{
    if (!raid->box[0] && !atoll_raid_make(raid, o, NULL, NULL, raid->box))
        raid->box[0] = '\0';
    return raid->box[0] ? raid->box : NULL;
}

int atoll_raid_drop(struct atoll_raid *raid, const char *id)
{
    return atoll_raid_callf(raid, "DELETE", SANDBOXES "%s", id);
}

int atoll_raid_sh(struct atoll_raid *raid, const char *id, const char *user, const char *script,
                  char *out, size_t cap)
{
    const char *const argv[] = {"sh", "-c", script, NULL};
    const struct atoll_client_command command = {.size = sizeof(command),
                                                 .argv = argv,
                                                 .user = user,
                                                 .timeout_seconds = 30,
                                                 .output_max_bytes = cap ? cap : 1024};
    struct atoll_client_result *result = NULL;
    int status;

    if (cap)
        out[0] = '\0';
    if (atoll_client_exec(raid->v->client, id, &command, &result, NULL) < 0)
        return -1;
    status = result->end == ATOLL_CLIENT_EXITED ? result->exit_code : -1;
    if (cap)
        (void)snprintf(out, cap, "%s", result->output[ATOLL_CLIENT_STDOUT].bytes);
    atoll_client_result_free(result);
    return status;
}

bool atoll_raid_start(struct atoll_raid *raid, const char *id, const char *script,
                      char *ret_exec_id)
{
    ATOLL_AUTOJSON json_t *body =
        json_pack("{s:[s,s,s], s:i}", "cmd", "sh", "-c", script, "timeoutSeconds", 60);
    ATOLL_AUTOFREE char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
    ATOLL_AUTOJSON json_t *made = NULL;
    struct atoll_link_target target;
    struct atoll_error err;

    if (!text || atoll_link_target(&target, &err, "/api/sandboxes/%s/execs", id) < 0)
        return false;
    made = atoll_raid_json(raid, "POST", target.text, text);
    return atoll_text_copy(ret_exec_id, ATOLL_RAID_ID_MAX, atoll_link_text(made, "exec_id", "")) ==
               0 &&
           *ret_exec_id;
}

bool atoll_raid_put_probe(struct atoll_raid *raid, struct atoll_raid_outcome *o, const char *id)
{
    ATOLL_AUTOCLOSE int fd = open(raid->v->probe ? raid->v->probe : "", O_RDONLY | O_CLOEXEC);
    struct atoll_client_error error;

    if (fd >= 0 && atoll_client_file_write_fd(raid->v->client, id, NULL, ATOLL_RAID_PROBE, 0755, fd,
                                              &error) >= 0)
        return true;
    atoll_outcome_unknown(o, "the probe cannot be put into a sandbox: %s",
                          fd < 0 ? strerror(errno) : error.message);
    return false;
}

bool atoll_raid_arm(struct atoll_raid *raid, struct atoll_raid_outcome *o)
{
    const char *id = atoll_raid_box(raid, o);

    if (id && !raid->probe_there)
        raid->probe_there = atoll_raid_put_probe(raid, o, id);
    return id && raid->probe_there;
}

/* Tenants. */

static bool make_key(struct atoll_raid *raid, struct atoll_raid_tenant *tenant)
{
    ATOLL_AUTOJSON json_t *made = NULL;
    char body[200];

    (void)snprintf(body, sizeof(body), "{\"tenant\":\"%s\",\"scope\":\"write\"}", tenant->name);
    made = atoll_raid_json(raid, "POST", "/api/keys", body);
    return made &&
           atoll_text_copy(tenant->key, sizeof(tenant->key), atoll_link_text(made, "key", "")) ==
               0 &&
           atoll_text_copy(tenant->key_id, sizeof(tenant->key_id),
                           atoll_link_text(made, "id", "")) == 0 &&
           tenant->key[0];
}

const char *atoll_raid_key(struct atoll_raid *raid, struct atoll_raid_outcome *o, int which)
{
    if (!raid->tenants_tried) {
        raid->tenants_tried = true;
        for (int i = 0; i < ATOLL_RAID_TENANTS; i++) {
            (void)snprintf(raid->tenants[i].name, sizeof(raid->tenants[i].name), "verify-%.8s-%c",
                           raid->mark, 'a' + i);
            if (!make_key(raid, &raid->tenants[i]))
                raid->tenants[i].key[0] = '\0';
        }
    }
    if (raid->tenants[which].key[0])
        return raid->tenants[which].key;
    atoll_outcome_unknown(o, "it needs keys of two tenants, and only an admin can make them");
    return NULL;
}

/* Beginning and end. */

static int make_canaries(struct atoll_raid *raid, struct atoll_error *err)
{
    int r;

    (void)atoll_raid_path(raid, "canary", raid->canary, sizeof(raid->canary));
    (void)atoll_raid_path(raid, "drop", raid->drop, sizeof(raid->drop));
    r = atoll_raid_write_file(raid->canary, raid->mark, strlen(raid->mark));
    if (r == 0 && mkdir(raid->drop, 0777) < 0 && errno != EEXIST)
        r = -errno;
    if (r < 0)
        return atoll_fail_errno(err, -r, "canaries in %s", raid->v->scratch);
    /* Writable for all users, so that only the daemon's checks protect it. */
    (void)chmod(raid->drop, 0777);
    (void)chmod(raid->canary, 0666);
    return 0;
}

static pid_t peer_of(const struct atoll_raid *raid)
{
    ATOLL_AUTOCLOSE int fd = atoll_raid_connect(raid, false);
    struct ucred peer;
    socklen_t len = sizeof(peer);

    if (fd < 0 || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0 || peer.pid <= 1)
        return 0;
    return peer.pid;
}

/* Finds the daemon's TCP port and preview domain in the URL of a preview. */
static void find_tcp(struct atoll_raid *raid)
{
    struct atoll_raid_outcome ignored = {0};
    const char *id = atoll_raid_box(raid, &ignored), *url, *host;
    ATOLL_AUTOJSON json_t *preview = NULL;
    struct atoll_link_target target;
    struct atoll_error err;
    unsigned port;

    if (!id || atoll_link_target(&target, &err, "/api/sandboxes/%s/previews", id) < 0)
        return;
    preview = atoll_raid_json(raid, "POST", target.text, "{\"port\":9}");
    url = atoll_link_text(preview, "url", "");
    host = strchr(url, '.');
    if (strncmp(url, "http://", 7) == 0 && host &&
        sscanf(host + 1, "%255[^:/]:%u", raid->domain, &port) == 2 && port <= UINT16_MAX) {
        raid->tcp_port = (uint16_t)port;
        /* The daemon may not listen on the loopback. */
        int fd = atoll_raid_connect(raid, true);
        if (fd < 0)
            raid->tcp_port = 0;
        else
            (void)close(fd);
    }
    (void)atoll_raid_callf(raid, "DELETE", "/api/sandboxes/%s/previews/9", id);
}

int atoll_raid_init(struct atoll_raid *raid, const struct atoll_verify *v, struct atoll_error *err)
{
    const char *insecure = getenv("ATOLL_INSECURE");
    int r;

    memset(raid, 0, sizeof(*raid));
    raid->v = v;
    raid->slow_fd = ATOLL_NO_FD;
    atoll_rand_id(raid->mark, MARK_LEN);
    r = atoll_http_client_open(atoll_client_address(v->client), &raid->http, err);
    if (r == 0)
        r = atoll_http_client_set_trust(raid->http, getenv("ATOLL_CA_FILE"),
                                        insecure && strcmp(insecure, "1") == 0, err);
    if (r == 0) {
        atoll_http_client_set_timeout(raid->http, ATOLL_RAID_WAIT_MS);
        r = make_canaries(raid, err);
    }
    /* Use the client for the first request: its errors have hints. */
    if (r == 0)
        r = atoll_link_call(v->client, "GET", "/healthz", NULL, NULL, err);
    if (r == 0) {
        static const char half[] = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Never-";
        raid->daemon = peer_of(raid);
        raid->slow_fd = atoll_raid_connect(raid, false);
        raid->slow_since_ms = atoll_clock_ms();
        if (raid->slow_fd >= 0)
            (void)send(raid->slow_fd, half, sizeof(half) - 1, MSG_NOSIGNAL);
        find_tcp(raid);
    }
    return r;
}

void atoll_raid_done(struct atoll_raid *raid)
{
    for (size_t i = 0; raid->http && i < ATOLL_RAID_BOXES_MAX; i++)
        if (raid->boxes[i][0])
            (void)atoll_raid_drop(raid, raid->boxes[i]);
    for (size_t i = 0; raid->http && i < ATOLL_RAID_TENANTS; i++)
        if (raid->tenants[i].key_id[0])
            (void)atoll_raid_callf(raid, "DELETE", "/api/keys/%s", raid->tenants[i].key_id);
    raid->http = atoll_http_client_close(raid->http);
    if (raid->slow_fd >= 0)
        (void)close(raid->slow_fd);
}
