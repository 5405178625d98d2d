/*
 * The log of a sandbox: when its commands started, and how they ended. It does not contain their
 * output, which goes to the client that started them. It can be read after the end of the sandbox as
 * long as its record is kept.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "api/e2b/e2b_internal.h"
#include "engine/sandbox/ended.h"

#define LIMIT 1000
#define MESSAGE_MAX 400
#define ENTRY_MAX 4096 /* of a message whose characters are all escaped, with its fields */

enum level { LEVEL_DEBUG, LEVEL_INFO, LEVEL_WARN, LEVEL_ERROR };
static const char *const level_names[] = {"debug", "info", "warn", "error"};

struct entry {
    int64_t unix_ms;
    size_t number; /* order of entries with the same time */
    enum level level;
    uint32_t pid;
    char exec_id[17];
    char *message; /* owned */
};

struct log {
    struct entry *entries; /* owned */
    size_t count, cap;
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

/* Writes the message about its end; returns its level. */
static enum level describe_end(const struct atoll_exec_result *r, const char *command, char *out,
                               size_t cap)
{
    if (r->kind == ATOLL_END_EXITED) {
        (void)snprintf(out, cap, "exited with status %d: %s", r->code, command);
        return r->code == 0 ? LEVEL_INFO : LEVEL_WARN;
    }
    (void)snprintf(out, cap, "%s%s%.60s: %s", atoll_end_kind_name(r->kind), r->reason[0] ? " " : "",
                   r->reason, command);
    return r->kind == ATOLL_END_OOM_KILLED || r->kind == ATOLL_END_LOST ? LEVEL_ERROR : LEVEL_WARN;
}

static void add_entry(struct log *log, const struct atoll_exec_view *v, int64_t unix_ms,
                      enum level level, const char *message)
{
    struct entry *e;

    if (log->count == log->cap) {
        log->cap = log->cap ? 2 * log->cap : 64;
        log->entries = reallocarray(log->entries, log->cap, sizeof(log->entries[0]));
        if (!log->entries)
            abort(); /* bounded by the commands that the engine keeps */
    }
    e = &log->entries[log->count];
    *e = (struct entry){.unix_ms = unix_ms, .number = log->count, .level = level, .pid = v->pid};
    (void)snprintf(e->exec_id, sizeof(e->exec_id), "%s", v->id);
    e->message = strdup(message);
    if (!e->message)
        abort();
    log->count++;
}

static void add_exec(void *arg, const struct atoll_exec_view *v)
{
    char command[MESSAGE_MAX - 100], message[MESSAGE_MAX];
    enum level level;

    write_command(v, command, sizeof(command));
    (void)snprintf(message, sizeof(message), "started: %s", command);
    add_entry(arg, v, v->started_unix_ms, LEVEL_INFO, message);
    if (!v->result)
        return;
    level = describe_end(v->result, command, message, sizeof(message));
    add_entry(arg, v, v->started_unix_ms + v->result->duration_ms, level, message);
}

static int by_time(const void *left, const void *right)
{
    const struct entry *a = left, *b = right;

    if (a->unix_ms != b->unix_ms)
        return a->unix_ms < b->unix_ms ? -1 : 1;
    return a->number < b->number ? -1 : a->number > b->number;
}

static void log_free(struct log *log)
{
    for (size_t i = 0; i < log->count; i++)
        free(log->entries[i].message);
    free(log->entries);
}

/* All entries, oldest first. NOT_FOUND. */
static int gather(const struct atoll_api_call *call, struct log *log, struct atoll_error *err)
{
    struct atoll_sandbox *sandbox = atoll_engine_find(call->engine, call->params.id);
    const struct atoll_exec *exec;
    struct atoll_exec_view v;
    size_t pos = 0;
    int r = 0;

    if (call->ended)
        r = atoll_ended_execs(call->engine, call->params.id, add_exec, log, err);
    else if (!sandbox)
        r = atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT, "there is no sandbox %s", call->params.id);
    while (r == 0 && sandbox && (exec = atoll_sandbox_next_exec(sandbox, &pos))) {
        atoll_exec_get(exec, &v);
        add_exec(log, &v);
    }
    if (log->count > 1)
        qsort(log->entries, log->count, sizeof(log->entries[0]), by_time);
    return r;
}

static bool passes(const struct filter *f, const struct entry *e)
{
    return e->unix_ms >= f->from_ms && e->unix_ms <= f->to_ms && e->level >= f->level &&
           (!f->search || strstr(e->message, f->search));
}

static void write_entry(struct atoll_json_out *out, const struct entry *e)
{
    char pid[12];

    (void)snprintf(pid, sizeof(pid), "%u", e->pid);
    atoll_json_open(out, NULL, '{');
    atoll_json_time(out, "timestamp", e->unix_ms);
    atoll_json_text(out, "level", level_names[e->level]);
    atoll_json_text(out, "message", e->message);
    atoll_json_open(out, "fields", '{');
    atoll_json_text(out, "exec_id", e->exec_id);
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

static void reply(struct atoll_api_call *call, const struct filter *f, bool both)
{
    struct log log = {0};
    struct atoll_error error;
    struct atoll_buf buf;
    struct atoll_json_out out;

    if (gather(call, &log, &error) < 0) {
        log_free(&log);
        atoll_api_fail(call, &error);
        return;
    }
    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '{');
    if (both) {
        write_list(&out, "logs", f, log.entries, log.count, write_line);
        write_list(&out, "logEntries", f, log.entries, log.count, write_entry);
    } else {
        write_list(&out, "logs", f, log.entries, log.count, write_entry);
    }
    atoll_json_close(&out, '}');
    log_free(&log);
    atoll_api_reply(call, 200, &out);
}

void atoll_e2b_logs_v1(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                       size_t n ATOLL_UNUSED)
{
    struct filter f = {.to_ms = INT64_MAX, .limit = LIMIT};
    struct atoll_error error;
    uint64_t start = 0;

    if (atoll_api_query_u64(call, "start", 0, INT64_MAX, &start, &error) < 0 ||
        atoll_api_query_u64(call, "limit", 0, LIMIT, &f.limit, &error) < 0) {
        atoll_api_fail(call, &error);
        return;
    }
    f.from_ms = (int64_t)start;
    reply(call, &f, true);
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
    struct atoll_error error;
    uint64_t cursor = UINT64_MAX;

    if (atoll_api_query_u64(call, "cursor", 0, INT64_MAX, &cursor, &error) < 0 ||
        atoll_api_query_u64(call, "limit", 0, LIMIT, &f.limit, &error) < 0 ||
        take_words(call, &f, &error) < 0) {
        atoll_api_fail(call, &error);
        return;
    }
    if (cursor != UINT64_MAX && f.backward)
        f.to_ms = (int64_t)cursor;
    else if (cursor != UINT64_MAX)
        f.from_ms = (int64_t)cursor;
    reply(call, &f, false);
}
