/*
 * Two tenants of one daemon: ids of the other tenant, malformed ids, and a tenant that sends too many
 * requests.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/rand.h"
#include "base/text.h"
#include "net/url.h"
#include "tools/verify/attacks/attacks_internal.h"

#define ROUTES_MAX 300
#define FLOOD 800

/* D20. */

struct theirs {
    char id[ATOLL_RAID_ID_MAX], exec[ATOLL_RAID_ID_MAX];
};

/* Fills the parameters of a route's path with ids of the other tenant. */
static void fill_route(const char *path, const char *id, const char *exec, char *out, size_t cap)
{
    const struct {
        const char *name, *value;
    } names[] = {{"{id}", id},     {"{session}", id}, {"{exec}", exec},
                 {"{port}", "80"}, {"{name}", "x"},   {"{path}", "x"}};
    size_t used = 0;

    while (*path && used + 64 < cap) {
        bool named = false;
        for (size_t i = 0; !named && i < ATOLL_ARRAY_LEN(names); i++)
            if (strncmp(path, names[i].name, strlen(names[i].name)) == 0) {
                used += (size_t)snprintf(out + used, cap - used, "%s", names[i].value);
                path += strlen(names[i].name);
                named = true;
            }
        if (!named)
            out[used++] = *path++;
    }
    (void)snprintf(out + used, cap - used, "?path=x&to=y&target=z&mode=600&owner=user");
}

/* The text of an answer without the sandbox id and the request id. */
static void essence(const struct atoll_http_reply *reply, const char *id, char *out, size_t cap)
{
    ATOLL_AUTOJSON json_t *body =
        atoll_link_parse_json(atoll_buf_head(&reply->body), atoll_buf_size(&reply->body));
    json_t *error = json_object_get(body, "error");
    ATOLL_AUTOFREE char *text = NULL;
    char *at;

    (void)json_object_del(error, "request_id");
    text = body ? json_dumps(body, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    while (text && (at = strstr(text, id)))
        memset(at, '?', strlen(id));
    (void)snprintf(out, cap, "%d %s", reply->status, text ? text : "");
}

static void ask_as_other(struct atoll_raid *raid, const char *method, const char *path,
                         const char *id, const char *exec, char *out, size_t cap)
{
    ATOLL_AUTOREPLY struct atoll_http_reply reply = {0};
    bool has_body =
        strcmp(method, "POST") == 0 || strcmp(method, "PUT") == 0 || strcmp(method, "PATCH") == 0;
    char target[300];
    const struct atoll_ask ask = {.method = method,
                                  .target = target,
                                  .key = raid->tenants[1].key,
                                  .body = has_body ? "{}" : NULL,
                                  .size = has_body ? 2 : 0};

    fill_route(path, id, exec, target, sizeof(target));
    (void)atoll_raid_ask(raid, &ask, &reply);
    essence(&reply, id, out, cap);
}

static void try_route(struct atoll_raid *raid, struct atoll_raid_outcome *o, const char *method,
                      const char *path, const struct theirs *theirs)
{
    char foreign[1000], unknown[1000], absent[ATOLL_ID_LEN + 1], exec[ATOLL_RAID_ID_MAX];

    atoll_rand_id(absent, ATOLL_ID_LEN);
    (void)snprintf(exec, sizeof(exec), "%s", theirs->exec);
    ask_as_other(raid, method, path, theirs->id, theirs->exec, foreign, sizeof(foreign));
    ask_as_other(raid, method, path, absent, exec, unknown, sizeof(unknown));
    if (strcmp(foreign, unknown) != 0)
        atoll_outcome_found(o, "%s %s tells a foreign id from an unknown one: %.80s, %.80s", method,
                            path, foreign, unknown);
    else if (foreign[0] == '2' || foreign[0] == '5' || foreign[0] == '0')
        atoll_outcome_found(o, "%s %s with a foreign id was answered %.80s", method, path, foreign);
}

/* Tries every route with an id in the daemon's OpenAPI description. */
static size_t try_routes(struct atoll_raid *raid, struct atoll_raid_outcome *o,
                         const struct theirs *theirs)
{
    static const char *const methods[] = {"get", "post", "put", "patch", "delete"};
    static const char *const upper[] = {"GET", "POST", "PUT", "PATCH", "DELETE"};
    ATOLL_AUTOJSON json_t *document = atoll_raid_json(raid, "GET", "/api/openapi.json", NULL);
    json_t *paths = json_object_get(document, "paths"), *path;
    const char *name;
    size_t tried = 0;

    json_object_foreach(paths, name, path)
    {
        if (!strstr(name, "{id}") && !strstr(name, "{session}"))
            continue;
        for (size_t i = 0; i < ATOLL_ARRAY_LEN(methods) && tried < ROUTES_MAX; i++)
            if (json_object_get(path, methods[i])) {
                try_route(raid, o, upper[i], name, theirs);
                tried++;
            }
    }
    return tried;
}

/* The same for the routes of E2B's API, which has its own description. */
static size_t try_e2b_routes(struct atoll_raid *raid, struct atoll_raid_outcome *o,
                             const struct theirs *theirs)
{
    static const struct {
        const char *method, *path;
    } routes[] = {{"GET", "/sandboxes/{id}"},          {"POST", "/sandboxes/{id}/timeout"},
                  {"POST", "/sandboxes/{id}/pause"},   {"POST", "/sandboxes/{id}/resume"},
                  {"POST", "/sandboxes/{id}/connect"}, {"GET", "/sandboxes/{id}/metrics"},
                  {"GET", "/sandboxes/{id}/logs"},     {"POST", "/sandboxes/{id}/refreshes"},
                  {"DELETE", "/sandboxes/{id}"}};

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(routes); i++)
        try_route(raid, o, routes[i].method, routes[i].path, theirs);
    return ATOLL_ARRAY_LEN(routes);
}

static void try_lists(struct atoll_raid *raid, struct atoll_raid_outcome *o, const char *id)
{
    static const char *const lists[] = {
        "/api/sandboxes", "/api/sandboxes?all=true", "/api/stats", "/api/health",
        "/api/sessions",  "/api/artifacts",          "/sandboxes", "/v2/sandboxes"};

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(lists); i++) {
        ATOLL_AUTOREPLY struct atoll_http_reply reply = {0};
        const struct atoll_ask ask = {
            .method = "GET", .target = lists[i], .key = raid->tenants[1].key};
        (void)atoll_raid_ask(raid, &ask, &reply);
        if (atoll_buf_size(&reply.body) > 0 &&
            memmem(atoll_buf_head(&reply.body), atoll_buf_size(&reply.body), id, strlen(id)))
            atoll_outcome_found(o, "%s shows what belongs to another tenant", lists[i]);
    }
}

/* Requests of the other tenant that claim to be from the first one. */
static void try_acting(struct atoll_raid *raid, struct atoll_raid_outcome *o, const char *id)
{
    ATOLL_AUTOREPLY struct atoll_http_reply reply = {0};
    char target[100];
    const struct atoll_ask ask = {.method = "GET",
                                  .target = target,
                                  .key = raid->tenants[1].key,
                                  .extra = {{"X-Atoll-Tenant", raid->tenants[0].name}}};

    (void)snprintf(target, sizeof(target), "/api/sandboxes/%s", id);
    if (atoll_raid_ask(raid, &ask, &reply) == 200)
        atoll_outcome_found(o, "a key acted for another tenant");
}

void atoll_attack_foreign_ids(struct atoll_raid *raid, struct atoll_raid_outcome *o)
{
    struct theirs theirs;
    char out[64];
    size_t tried;

    if (!atoll_raid_key(raid, o, 0) || !atoll_raid_key(raid, o, 1) ||
        !atoll_raid_make(raid, o, raid->tenants[0].key, NULL, theirs.id))
        return;
    if (!atoll_raid_start(raid, theirs.id, "sleep 60", theirs.exec))
        atoll_outcome_unknown(o, "nothing could be started for the other tenant");
    tried = try_routes(raid, o, &theirs) + try_e2b_routes(raid, o, &theirs);
    try_lists(raid, o, theirs.id);
    try_acting(raid, o, theirs.id);
    if (atoll_raid_sh(raid, theirs.id, NULL, "echo here", out, sizeof(out)) != 0)
        atoll_outcome_found(o, "another tenant ended a sandbox");
    (void)atoll_raid_drop(raid, theirs.id);
    if (tried < 40)
        atoll_outcome_unknown(o, "the daemon describes only %zu routes", tried);
    atoll_outcome_note(o, "%zu routes: an id of another tenant is answered like one that never was",
                       tried);
}

/* The careless server looks up ids without checking their owner. */
void atoll_control_foreign_ids(struct atoll_raid *raid, struct atoll_raid_outcome *o)
{
    static const struct {
        const char *id, *owner;
    } table[] = {{"aaaaaaaaaaaaaaaaaaaaaaaaaa", "first"}};
    static const char *const ids[] = {"aaaaaaaaaaaaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbbbbbbbbbbbb"};
    int answers[2];

    (void)raid;
    for (int i = 0; i < 2; i++)
        answers[i] = strcmp(table[0].id, ids[i]) == 0 ? 200 : 404;
    if (answers[0] != answers[1])
        atoll_outcome_found(o,
                            "a table without owners answers %d to a foreign id and %d to an "
                            "unknown one",
                            answers[0], answers[1]);
}

/* D21. "@C" stands for the canary's path, percent-encoded; "@L" for 4096 letters. */

static const char *const ids[] = {
    "..",    "%2e%2e", ".",         "%2e",   "..%2fcanary", "..%2f..%2f..%2f..%2f..@C",
    "@C",    "%00",    "a%00b",     "a%0ab", "a%0d%0ab",    "A",
    "a_b",   "a.b",    "*",         "-rf",   "a;b",         "a%20b",
    "$(id)", "a:b",    "%c0%ae",    "%ff",   "@L",          "con",
    "a%2fb", "a%5cb",  "%25%32%65", "lo",    "0",           "%F0%9F%92%A3",
};

static const char *const places[] = {
    "GET /api/sandboxes/%s",
    "POST /api/sandboxes/%s/heartbeat",
    "GET /api/sandboxes/%s/files?path=x",
    "GET /api/sessions/%s",
    "GET /api/artifacts/%s",
    "GET /api/artifacts/%s/x",
    "DELETE /api/artifacts/%s",
    "DELETE /api/keys/%s",
    "GET /preview/%s/80/",
    "GET /sandboxes/%s",
};

static bool write_id(const struct atoll_raid *raid, const char *id, struct atoll_buf *out)
{
    int r = 0;

    for (; r == 0 && *id; id++) {
        if (id[0] == '@' && id[1] == 'C')
            r = atoll_url_encode(out, raid->canary, false);
        for (int i = 0; r == 0 && id[0] == '@' && id[1] == 'L' && i < 64; i++)
            r = atoll_buf_appends(
                out, "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx");
        if (id[0] == '@')
            id++;
        else if (r == 0)
            r = atoll_buf_append(out, id, 1);
    }
    return r == 0;
}

static void try_id(struct atoll_raid *raid, struct atoll_raid_outcome *o, const char *place,
                   const char *id)
{
    char credentials[600];
    const char *at = strstr(place, "%s");
    struct atoll_buf request, answer;
    bool closed;
    int status = -1, r;

    atoll_buf_init(&request, 16 * 1024);
    atoll_buf_init(&answer, 64 * 1024);
    r = atoll_buf_append(&request, place, (size_t)(at - place));
    if (r == 0 && write_id(raid, id, &request))
        r = atoll_buf_appendf(
            &request, "%s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n%s\r\n", at + 2,
            atoll_raid_credentials(raid, credentials, sizeof(credentials)));
    if (r == 0)
        status = atoll_raid_raw(raid, false, atoll_buf_head(&request), atoll_buf_size(&request),
                                ATOLL_RAID_WAIT_MS, &answer, &closed);
    if (atoll_raid_leaks(raid, atoll_buf_head(&answer), atoll_buf_size(&answer)))
        atoll_outcome_found(o, "the id %.60s gave a file of the host", id);
    if (status >= 0 && (status < 400 || status >= 500))
        atoll_outcome_found(o, "the id %.60s in %s was answered %d", id, place, status);
    atoll_buf_done(&request);
    atoll_buf_done(&answer);
}

void atoll_attack_ids_as_paths(struct atoll_raid *raid, struct atoll_raid_outcome *o)
{
    static const char *const tenants[] = {"../../x", "a/b", "-x", ".", "a b"};
    int probe = atoll_raid_connect(raid, false);

    if (probe < 0) {
        atoll_outcome_unknown(o, "raw bytes cannot be sent: %s", strerror(-probe));
        return;
    }
    (void)close(probe);
    for (size_t p = 0; p < ATOLL_ARRAY_LEN(places); p++)
        for (size_t i = 0; i < ATOLL_ARRAY_LEN(ids); i++)
            try_id(raid, o, places[p], ids[i]);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(tenants); i++) {
        ATOLL_AUTOREPLY struct atoll_http_reply reply = {0};
        const struct atoll_ask ask = {
            .method = "GET", .target = "/api/sandboxes", .extra = {{"X-Atoll-Tenant", tenants[i]}}};
        int status = atoll_raid_ask(raid, &ask, &reply);
        if (status != 400 && status != 403)
            atoll_outcome_found(o, "the tenant %s was answered %d", tenants[i], status);
    }
    (void)atoll_raid_canaries_sing(raid, o, "an id");
    (void)atoll_raid_alive(raid, o, "strange ids");
    atoll_outcome_note(o, "%zu strange ids in %zu places: refused before any use",
                       ATOLL_ARRAY_LEN(ids), ATOLL_ARRAY_LEN(places));
}

/* The careless server stores objects in directories named after their ids. */
void atoll_control_ids_as_paths(struct atoll_raid *raid, struct atoll_raid_outcome *o)
{
    char path[1200], text[100];
    ssize_t n;

    (void)snprintf(path, sizeof(path), "%s/drop/%s", raid->v->scratch, "../canary");
    n = atoll_raid_read_file(path, text, sizeof(text));
    if (n > 0 && atoll_raid_leaks(raid, text, (size_t)n))
        atoll_outcome_found(o, "an id with dots in it, used as a path, led out");
}

/* D32. */

static size_t count(const char *text, const char *word)
{
    size_t n = 0;

    for (; (text = strstr(text, word)); text += strlen(word))
        n++;
    return n;
}

void atoll_attack_noisy_tenant(struct atoll_raid *raid, struct atoll_raid_outcome *o)
{
    ATOLL_AUTOREPLY struct atoll_http_reply reply = {0};
    struct atoll_ask ask = {.method = "GET", .target = "/api/sandboxes", .once = true};
    struct atoll_buf request, answer;
    size_t served, slowed;
    bool closed;
    int r = 0;

    if (!atoll_raid_key(raid, o, 0) || !(ask.key = atoll_raid_key(raid, o, 1)))
        return;
    atoll_buf_init(&request, (size_t)1024 * 1024);
    atoll_buf_init(&answer, (size_t)4 * 1024 * 1024);
    for (int i = 0; r == 0 && i < FLOOD; i++)
        r = atoll_buf_appendf(
            &request, "GET /api/sandboxes HTTP/1.1\r\nHost: localhost\r\n%sX-API-Key: %s\r\n\r\n",
            i == FLOOD - 1 ? "Connection: close\r\n" : "", raid->tenants[0].key);
    if (r == 0)
        (void)atoll_raid_raw(raid, false, atoll_buf_head(&request), atoll_buf_size(&request),
                             ATOLL_RAID_WAIT_MS, &answer, &closed);
    served = count(atoll_buf_str(&answer), "HTTP/1.1 200");
    slowed = count(atoll_buf_str(&answer), "HTTP/1.1 429");
    atoll_buf_done(&request);
    atoll_buf_done(&answer);
    if (atoll_raid_ask(raid, &ask, &reply) != 200)
        atoll_outcome_found(o, "beside a noisy tenant another one was answered %d", reply.status);
    if (served == 0)
        atoll_outcome_unknown(o, "the noisy tenant was not served at all");
    else if (slowed == 0)
        atoll_outcome_found(o, "%zu requests of one key in a row were not slowed down (--key-rate)",
                            served);
    atoll_outcome_note(
        o,
        "of %d requests in a row %zu were served and %zu told to wait; another tenant "
        "was served (numbers of sandboxes and commands: "
        "tests/integration/test_access.py)",
        FLOOD, served, slowed);
}

void atoll_control_noisy_tenant(struct atoll_raid *raid, struct atoll_raid_outcome *o)
{
    size_t served = 0;

    (void)raid;
    /* The careless server has no rate limit. */
    for (int i = 0; i < FLOOD; i++)
        served++;
    if (served == FLOOD)
        atoll_outcome_found(o, "a server that does not count served all %d", FLOOD);
}
