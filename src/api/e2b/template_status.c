/*
 * GET /templates/{id}/builds/{build}/status and /logs: the state of a build, and its log in the form
 * of E2B. Clients count entries of the log; the engine counts bytes. The place where a client
 * continues is remembered, so that a poll reads only what is new.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "api/e2b/e2b_internal.h"
#include "api/e2b/template_requests.h"
#include "base/memory.h"
#include "base/text.h"
#include "engine/build/build.h"
#include "engine/json_memory.h"

#define ENTRIES_MAX 100
#define LINE_MAX ((size_t)1024 * 1024)
#define SCAN_MAX \
    (UINT64_C(256) << 10) /* bytes of the log that one request reads, if it reads a line */
#define MESSAGE_MAX 4096

/* Reading the log. */

struct entry {
    int64_t unix_ms;
    const char *level;
    int line;      /* number of the client's step; 0: none */
    char *message; /* owned */
};

struct log {
    struct atoll_engine *engine;
    const char *id;
    uint64_t offset; /* of the first byte in buf */
    uint64_t scanned;
    bool any; /* a line was read */
    struct atoll_buf buf;
    struct atoll_error error; /* of the last read; ignored: the log ends there */
};

static void log_open(struct log *l, struct atoll_engine *engine, const char *id, uint64_t offset)
{
    *l = (struct log){.engine = engine, .id = id, .offset = offset};
    atoll_buf_init(&l->buf, 2 * LINE_MAX);
}

/* The next line, parsed; NULL at the end. The caller owns it. */
static json_t *log_next(struct log *l)
{
    const char *end = NULL;
    uint8_t *tail;
    json_t *line;
    size_t n;

    for (;;) {
        n = atoll_buf_size(&l->buf);
        end = n ? memchr(atoll_buf_head(&l->buf), '\n', n) : NULL;
        if (end || n >= LINE_MAX || (l->any && l->scanned >= SCAN_MAX) ||
            atoll_buf_reserve(&l->buf, 65536, &tail) < 0)
            break;
        ssize_t r = atoll_make_log(l->engine, l->id, l->offset + n, tail, 65536, &l->error);
        if (r <= 0)
            break;
        atoll_buf_commit(&l->buf, (size_t)r);
        l->scanned += (uint64_t)r;
    }
    if (!end)
        return NULL;
    n = (size_t)(end - (const char *)atoll_buf_head(&l->buf)) + 1;
    line = atoll_json_load(atoll_buf_head(&l->buf), n - 1, 0, NULL);
    atoll_buf_consume(&l->buf, n);
    l->offset += n;
    l->any = true;
    return line ? line : json_object();
}

static int int_of(const json_t *line, const char *name)
{
    return (int)json_integer_value(json_object_get(line, name));
}

static const char *text_of(const json_t *line, const char *name)
{
    const char *text = json_string_value(json_object_get(line, name));
    return text ? text : "";
}

/* An entry as clients show it. False: the line is not shown. */
static bool take_entry(const json_t *line, struct entry *ret)
{
    const char *kind = text_of(line, "kind"), *text = text_of(line, "text");
    bool is_step = strcmp(kind, "step") == 0, is_done = strcmp(kind, "done") == 0;
    char number[32] = "";
    size_t cap = strlen(text) + 80;

    *ret = (struct entry){.unix_ms = json_integer_value(json_object_get(line, "t")),
                          .level = "info",
                          .line = int_of(line, "line")};
    if (strcmp(kind, "end") == 0 || (is_done && !json_is_true(json_object_get(line, "cached"))))
        return false;
    if (strcmp(kind, "warning") == 0)
        ret->level = "warn";
    else if (strcmp(kind, "error") == 0)
        ret->level = "error";
    if (is_step)
        (void)snprintf(number, sizeof(number), "[%d/%d] ", int_of(line, "step"),
                       int_of(line, "of"));
    else if (is_done)
        (void)snprintf(number, sizeof(number), "[%d] CACHED", int_of(line, "step"));
    ret->message = malloc(cap);
    if (!ret->message)
        abort();
    (void)snprintf(ret->message, cap, "%s%s", number, text);
    return true;
}

static void view_entry(struct atoll_json_out *out, const struct entry *e)
{
    char step[16];

    atoll_json_open(out, NULL, '{');
    atoll_json_time(out, "timestamp", e->unix_ms);
    atoll_json_text(out, "level", e->level);
    atoll_json_text(out, "message", e->message);
    (void)snprintf(step, sizeof(step), "%d", e->line);
    if (e->line > 0)
        atoll_json_text(out, "step", step);
    atoll_json_close(out, '}');
}

/* A page of the log. */
struct page {
    struct entry entries[ENTRIES_MAX];
    size_t count;
};

static void page_done(struct page *p)
{
    for (size_t i = 0; i < p->count; i++)
        free(p->entries[i].message);
    free(p);
}

/* The entries from number `first`. place: remembers where the last page ended, so that a request which is too
 * far from there for one read gets nearer each time. */
static struct page *read_page(struct atoll_engine *engine, const char *id, uint64_t first,
                              size_t limit, struct atoll_e2b_place *place)
{
    struct page *p = atoll_alloc(sizeof(*p));
    bool known = place->entries <= first;
    uint64_t number = known ? place->entries : 0;
    struct log log;
    json_t *line;

    log_open(&log, engine, id, known ? place->offset : 0);
    while (p->count < limit && (line = log_next(&log))) {
        struct entry e;
        bool shown = take_entry(line, &e);

        json_decref(line);
        if (!shown)
            continue;
        if (number++ >= first)
            p->entries[p->count++] = e;
        else
            free(e.message);
    }
    place->entries = number;
    place->offset = log.offset;
    atoll_buf_done(&log.buf);
    return p;
}

/* The state. */

struct state {
    const char *name;
    bool failed;
    char message[MESSAGE_MAX];
    char step[16]; /* "": unknown */
};

/* The errors that the agent has for a command, as E2B writes them. */
static void explain_run(const struct atoll_error *error, const char *command, char *out, size_t cap)
{
    static const char unknown[] = "unknown user ";
    const char *user = strstr(error->text, unknown);

    if (user)
        (void)snprintf(out, cap,
                       "failed to run command '%s': command failed: unauthenticated: invalid "
                       "username: '%.64s'",
                       command, user + sizeof(unknown) - 1);
    else
        (void)snprintf(out, cap, "failed to run command '%s': %s", command, error->text);
}

static void explain(const struct atoll_make_view *make, struct state *ret)
{
    static const char run[] = "RUN ";
    const char *text = make->error_text ? make->error_text : "";

    ret->failed = true;
    (void)snprintf(ret->step, sizeof(ret->step), "%d", make->error_line);
    if (make->error_line == 0)
        (void)snprintf(ret->step, sizeof(ret->step), "%s",
                       make->version && *make->version ? "finalize" : "base");
    if (strncmp(text, run, strlen(run)) == 0)
        explain_run(make->error, text + strlen(run), ret->message, sizeof(ret->message));
    else
        (void)snprintf(ret->message, sizeof(ret->message), "%s", make->error->text);
}

static const char *const names[] = {
    [ATOLL_MAKE_WAITING] = "waiting", [ATOLL_MAKE_RUNNING] = "building",
    [ATOLL_MAKE_READY] = "ready",     [ATOLL_MAKE_FAILED] = "error",
    [ATOLL_MAKE_CANCELED] = "error",
};

/* From the request, the engine's build, or the version that a forgotten build made. */
static int find_state(const struct atoll_api_call *call, const char *id,
                      const struct atoll_e2b_request *q, struct state *ret, struct atoll_error *err)
{
    struct atoll_template_view version;
    struct atoll_make_view make;

    *ret = (struct state){.name = "waiting"};
    if (q && q->failed) {
        ret->name = "error";
        ret->failed = true;
        (void)snprintf(ret->message, sizeof(ret->message), "%s", q->error.text);
        (void)snprintf(ret->step, sizeof(ret->step), "base");
        return 0;
    }
    if (atoll_make_find(call->engine, call->caller.tenant, id, &make, err) == 0) {
        ret->name = names[make.state];
        if (make.state == ATOLL_MAKE_FAILED || make.state == ATOLL_MAKE_CANCELED)
            explain(&make, ret);
        return 0;
    }
    if (q && !q->started)
        return 0;
    ret->name = "ready";
    if (atoll_version_find(call->engine, id, &version, err) == 0 &&
        atoll_e2b_template_sees(call, &version))
        return 0;
    return atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT, "build '%.64s' not found", id);
}

/* Others may use a version that is shared, but its log is its owner's. */
static bool may_read_log(const struct atoll_api_call *call, const char *id,
                         const struct atoll_e2b_request *q)
{
    struct atoll_template_view version;
    struct atoll_make_view make;
    struct atoll_error ignored;

    return q || atoll_make_find(call->engine, call->caller.tenant, id, &make, &ignored) == 0 ||
           (atoll_version_find(call->engine, id, &version, &ignored) == 0 &&
            strcmp(version.owner, call->caller.tenant) == 0);
}

static void view_entries(struct atoll_json_out *out, const char *key, const struct page *p)
{
    atoll_json_open(out, key, '[');
    for (size_t i = 0; i < p->count; i++)
        view_entry(out, &p->entries[i]);
    atoll_json_close(out, ']');
}

static void view_status(struct atoll_json_out *out, const char *template_id, const char *id,
                        const struct state *s, const struct page *p)
{
    atoll_json_text(out, "templateID", template_id);
    atoll_json_text(out, "buildID", id);
    atoll_json_text(out, "status", s->name);
    atoll_json_open(out, "logs", '[');
    for (size_t i = 0; i < p->count; i++)
        atoll_json_text(out, NULL, p->entries[i].message);
    atoll_json_close(out, ']');
    view_entries(out, "logEntries", p);
    if (!s->failed)
        return;
    atoll_json_open(out, "reason", '{');
    atoll_json_text(out, "message", s->message);
    if (s->step[0])
        atoll_json_text(out, "step", s->step);
    atoll_json_open(out, "logEntries", '[');
    atoll_json_close(out, ']');
    atoll_json_close(out, '}');
}

/* Splits "BUILD/status" and "BUILD/logs". */
static int split(const char *path, char id[ATOLL_VERSION_ID_LEN + 1], bool *ret_logs,
                 struct atoll_error *err)
{
    size_t n = strcspn(path, "/");

    *ret_logs = strcmp(path + n, "/logs") == 0;
    if (n > ATOLL_VERSION_ID_LEN || (!*ret_logs && strcmp(path + n, "/status") != 0))
        return atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT, "build '%.64s' not found", path);
    memcpy(id, path, n);
    id[n] = '\0';
    return 0;
}

void atoll_e2b_template_build_get(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                                  size_t n ATOLL_UNUSED)
{
    char id[ATOLL_VERSION_ID_LEN + 1];
    struct atoll_e2b_request *q = NULL;
    uint64_t first = 0, limit = ENTRIES_MAX;
    struct atoll_error error;
    struct atoll_buf buf;
    struct atoll_json_out out;
    struct state state;
    struct page *page;
    bool logs;
    int r = split(call->params.path, id, &logs, &error);

    if (r == 0)
        r = atoll_api_query_u64(call, "logsOffset", 0, UINT32_MAX, &first, &error);
    if (r == 0)
        r = atoll_api_query_u64(call, "limit", 0, ENTRIES_MAX, &limit, &error);
    if (r == 0) {
        q = atoll_e2b_request_find(atoll_e2b_plane_of(call->api), call->caller.tenant, id);
        r = find_state(call, id, q, &state, &error);
    }
    if (r < 0) {
        atoll_api_fail(call, &error);
        return;
    }
    page = read_page(call->engine, id, first, may_read_log(call, id, q) ? (size_t)limit : 0,
                     atoll_e2b_place_of(atoll_e2b_plane_of(call->api), id));
    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '{');
    if (logs)
        view_entries(&out, "logs", page);
    else
        view_status(&out, call->params.template, id, &state, page);
    atoll_json_close(&out, '}');
    page_done(page);
    atoll_api_reply(call, 200, &out);
}
