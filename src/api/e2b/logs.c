/*
 * The log of a sandbox: when its commands started, and how they ended. It does not contain their
 * output, which goes to the client that started them.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "api/e2b/e2b_internal.h"

#define LIMIT 1000
#define MESSAGE_MAX 400
#define ENTRY_MAX 4096 /* of a message whose characters are all escaped, with its fields */

enum level { LEVEL_DEBUG, LEVEL_INFO, LEVEL_WARN, LEVEL_ERROR };
static const char *const level_names[] = {"debug", "info", "warn", "error"};

struct entry {
    int64_t unix_ms;
    size_t number; /* order of entries with the same time */
    const struct atoll_exec *exec;
    bool is_end;
};

struct filter {
    int64_t from_ms, to_ms;
    uint64_t limit;
    bool backward;
    enum level level;   /* the minimum level */
    const char *search; /* NULL: any */
};

static void write_command(const struct atoll_exec_view *v, char *out, size_t cap)
{
    size_t len = 0;

    out[0] = '\0';
    for (const char *const *arg = v->argv; arg && *arg && len < cap; arg++)
        len += (size_t)snprintf(out + len, cap - len, "%s%s", len ? " " : "", *arg);
}

/* Writes the message of an entry; returns its level. */
static enum level describe(const struct entry *e, char *out, size_t cap)
{
    char command[MESSAGE_MAX - 100];
    const struct atoll_exec_result *r;
    struct atoll_exec_view v;

    atoll_exec_get(e->exec, &v);
    write_command(&v, command, sizeof(command));
    r = v.result;
    if (!e->is_end) {
        (void)snprintf(out, cap, "started: %s", command);
        return LEVEL_INFO;
    }
    if (r->kind == ATOLL_END_EXITED) {
        (void)snprintf(out, cap, "exited with status %d: %s", r->code, command);
        return r->code == 0 ? LEVEL_INFO : LEVEL_WARN;
    }
    (void)snprintf(out, cap, "%s%s%.60s: %s", atoll_end_kind_name(r->kind), r->reason[0] ? " " : "",
                   r->reason, command);
    return r->kind == ATOLL_END_OOM_KILLED || r->kind == ATOLL_END_LOST ? LEVEL_ERROR : LEVEL_WARN;
}

static int by_time(const void *left, const void *right)
{
    const struct entry *a = left, *b = right;

    if (a->unix_ms != b->unix_ms)
        return a->unix_ms < b->unix_ms ? -1 : 1;
    return a->number < b->number ? -1 : a->number > b->number;
}

/* All entries, oldest first. */
static struct entry *gather(struct atoll_sandbox *sandbox, size_t *ret_count)
{
    const struct atoll_exec *exec;
    struct atoll_exec_view v;
    struct entry *entries;
    size_t pos = 0, count = 0, at = 0;

    while (atoll_sandbox_next_exec(sandbox, &pos))
        count++;
    entries = atoll_api_alloc((2 * count + 1) * sizeof(*entries));
    for (pos = 0; at + 2 <= 2 * count && (exec = atoll_sandbox_next_exec(sandbox, &pos));) {
        atoll_exec_get(exec, &v);
        entries[at] = (struct entry){v.started_unix_ms, at, exec, false};
        at++;
        if (!v.result)
            continue;
        entries[at] = (struct entry){v.started_unix_ms + v.result->duration_ms, at, exec, true};
        at++;
    }
    qsort(entries, at, sizeof(*entries), by_time);
    *ret_count = at;
    return entries;
}

static bool passes(const struct filter *f, const struct entry *e)
{
    char message[MESSAGE_MAX];

    if (e->unix_ms < f->from_ms || e->unix_ms > f->to_ms)
        return false;
    return describe(e, message, sizeof(message)) >= f->level &&
           (!f->search || strstr(message, f->search));
}

static void write_entry(struct atoll_json_out *out, const struct entry *e)
{
    char message[MESSAGE_MAX], pid[12];
    enum level level = describe(e, message, sizeof(message));
    struct atoll_exec_view v;

    atoll_exec_get(e->exec, &v);
    (void)snprintf(pid, sizeof(pid), "%u", v.pid);
    atoll_json_open(out, NULL, '{');
    atoll_json_time(out, "timestamp", e->unix_ms);
    atoll_json_text(out, "level", level_names[level]);
    atoll_json_text(out, "message", message);
    atoll_json_open(out, "fields", '{');
    atoll_json_text(out, "exec_id", v.id);
    atoll_json_text(out, "pid", pid);
    atoll_json_close(out, '}');
    atoll_json_close(out, '}');
}

/* The line is JSON in a string: E2B's command line parses it and needs a level. */
static void write_line(struct atoll_json_out *out, const struct entry *e)
{
    struct atoll_json_out line;
    struct atoll_buf buf;

    atoll_buf_init(&buf, ENTRY_MAX);
    atoll_json_out_init(&line, &buf);
    write_entry(&line, e);
    if (line.error == 0)
        line.error = atoll_buf_append(&buf, "", 1);
    atoll_json_open(out, NULL, '{');
    atoll_json_time(out, "timestamp", e->unix_ms);
    atoll_json_text(out, "line", line.error == 0 ? (const char *)atoll_buf_head(&buf) : "{}");
    atoll_json_close(out, '}');
    atoll_buf_done(&buf);
}

static void write_list(struct atoll_json_out *out, const char *key, const struct filter *f,
                       const struct entry *entries, size_t count,
                       void (*write)(struct atoll_json_out *out, const struct entry *e))
{
    uint64_t left = f->limit;

    atoll_json_open(out, key, '[');
    for (size_t i = 0; i < count && left > 0; i++) {
        const struct entry *e = &entries[f->backward ? count - 1 - i : i];
        if (!passes(f, e))
            continue;
        write(out, e);
        left--;
    }
    atoll_json_close(out, ']');
}

static void reply(struct atoll_api_call *call, struct atoll_sandbox *sandbox,
                  const struct filter *f, bool both)
{
    size_t count;
    struct entry *entries = gather(sandbox, &count);
    struct atoll_buf buf;
    struct atoll_json_out out;

    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '{');
    if (both) {
        write_list(&out, "logs", f, entries, count, write_line);
        write_list(&out, "logEntries", f, entries, count, write_entry);
    } else {
        write_list(&out, "logs", f, entries, count, write_entry);
    }
    atoll_json_close(&out, '}');
    free(entries);
    atoll_api_reply(call, 200, &out);
}

void atoll_e2b_logs_v1(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                       size_t n ATOLL_UNUSED)
{
    struct filter f = {.to_ms = INT64_MAX, .limit = LIMIT};
    struct atoll_sandbox *sandbox;
    struct atoll_error error;
    uint64_t start = 0;

    if (atoll_api_query_u64(call, "start", 0, INT64_MAX, &start, &error) < 0 ||
        atoll_api_query_u64(call, "limit", 0, LIMIT, &f.limit, &error) < 0 ||
        !(sandbox = atoll_e2b_find(call, &error))) {
        atoll_api_fail(call, &error);
        return;
    }
    f.from_ms = (int64_t)start;
    reply(call, sandbox, &f, true);
}

static int take_words(const struct atoll_api_call *call, struct filter *f, struct atoll_error *err)
{
    const char *direction = atoll_http_query(call->req, "direction");
    const char *level = atoll_http_query(call->req, "level");
    size_t i = 0;

    f->search = atoll_http_query(call->req, "search");
    f->backward = direction && strcmp(direction, "backward") == 0;
    if (direction && !f->backward && strcmp(direction, "forward") != 0)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "direction must be forward or backward (got \"%.48s\")", direction);
    while (level && i < ATOLL_ARRAY_LEN(level_names) && strcmp(level, level_names[i]) != 0)
        i++;
    if (i == ATOLL_ARRAY_LEN(level_names))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "level must be debug, info, warn or error (got \"%.48s\")", level);
    f->level = (enum level)i;
    return 0;
}

void atoll_e2b_logs(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                    size_t n ATOLL_UNUSED)
{
    struct filter f = {.to_ms = INT64_MAX, .limit = LIMIT};
    struct atoll_sandbox *sandbox;
    struct atoll_error error;
    uint64_t cursor = UINT64_MAX;

    if (atoll_api_query_u64(call, "cursor", 0, INT64_MAX, &cursor, &error) < 0 ||
        atoll_api_query_u64(call, "limit", 0, LIMIT, &f.limit, &error) < 0 ||
        take_words(call, &f, &error) < 0 || !(sandbox = atoll_e2b_find(call, &error))) {
        atoll_api_fail(call, &error);
        return;
    }
    if (cursor != UINT64_MAX && f.backward)
        f.to_ms = (int64_t)cursor;
    else if (cursor != UINT64_MAX)
        f.from_ms = (int64_t)cursor;
    reply(call, sandbox, &f, false);
}
