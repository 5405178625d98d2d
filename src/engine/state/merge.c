#include "engine/state/merge.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/memory.h"
#include "base/metrics.h"
#include "base/switches.h"
#include "engine/json_memory.h"
#include "engine/state/capture.h"
#include "engine/state/capture_queue.h"
#include "engine/state/compare.h"
#include "engine/state/diff.h"
#include "sandbox/programs.h"

/*
 * First all forks are looked at, each for itself and then any two of them, and nothing is written if there are conflicts.
 * Two forks are compared by what each has changed since it was made. Then they are merged one after the other:
 * atoll-diff makes a stream of what is to be written, in a builder sandbox, and atoll-diff in the target carries it out.
 * It writes nothing before it has the whole stream, and then goes on without the daemon. What the target has changed
 * since it was looked at is not written; it is a conflict, too.
 */
#define LINES_MAX 2000
#define WRITER_MAX ((size_t)1 << 20) /* of what the command that writes prints */
#define APPLY_MS (5 * 60 * 1000)

struct fork {
    char *base, *now; /* stacks, held; owned, or NULL */
};

struct merging {
    struct atoll_engine *engine;
    struct atoll_list node; /* in engine->merges */
    char target[ATOLL_ID_LEN + 1];
    char (*from)[ATOLL_ID_LEN + 1]; /* owned */
    size_t count, at;
    size_t earlier; /* a fork before `at`, while both are compared */
    char prefer[8];
    bool dry_run, writing;
    char *ours;         /* a stack, held; owned, or NULL */
    struct fork *forks; /* of each of `from`; owned */
    json_t *changes, *conflicts;
    struct atoll_reader *reader; /* of the command that writes */
    struct atoll_buf refused;    /* its stdout: conflicts */
    bool lost;                   /* a part of it */
    char said[200];
    atoll_merge_fn *done;
    void *arg;
};

static void drop_stack(struct merging *m, char **stack)
{
    if (*stack)
        atoll_layers_release(m->engine, *stack);
    free(ATOLL_TAKE_PTR(*stack));
}

static void drop_stacks(struct merging *m)
{
    drop_stack(m, &m->ours);
    for (size_t i = 0; i < m->count; i++) {
        drop_stack(m, &m->forks[i].base);
        drop_stack(m, &m->forks[i].now);
    }
}

static void merging_free(struct merging *m)
{
    atoll_list_remove(&m->node);
    drop_stacks(m);
    m->reader = atoll_reader_close(m->reader);
    atoll_buf_done(&m->refused);
    json_decref(m->changes);
    json_decref(m->conflicts);
    free(m->forks);
    free(m->from);
    free(m);
}

static void fail(struct merging *m, const struct atoll_error *error)
{
    atoll_metric_add(ATOLL_METRIC_MERGES, ATOLL_LABELS("failed"), 1);
    m->done(m->arg, NULL, error);
    merging_free(m);
}

static void end(struct merging *m)
{
    bool conflicts = json_array_size(m->conflicts) > 0;
    json_t *report = json_pack("{s:b, s:O, s:O}", "merged", !conflicts && !m->dry_run, "changes",
                               m->changes, "conflicts", m->conflicts);
    char *text = report ? atoll_json_dump(report, JSON_COMPACT) : NULL;

    atoll_metric_add(ATOLL_METRIC_MERGES, ATOLL_LABELS(conflicts ? "conflicts" : "done"), 1);
    m->done(m->arg, text ? text : "{}", NULL);
    free(text);
    json_decref(report);
    merging_free(m);
}

static int hold(struct merging *m, const char *stack, char **ret, struct atoll_error *err)
{
    int r = atoll_layers_hold(m->engine, stack, err);

    if (r < 0)
        return r;
    *ret = strdup(stack);
    if (!*ret)
        abort(); /* the daemon is crash-only */
    return 0;
}

/* A sandbox of the tenant of the target. */
static int find(struct merging *m, const char *id, struct atoll_sandbox **ret,
                struct atoll_error *err)
{
    const struct atoll_sandbox *target = atoll_engine_find(m->engine, m->target);
    struct atoll_sandbox *s = atoll_engine_find(m->engine, id);

    if (!target || !s || strcmp(s->spec.tenant, target->spec.tenant) != 0)
        return atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT, "there is no sandbox %.32s",
                          target ? id : m->target);
    if (!s->provider->ops->caps(s->provider)->snapshot_layers)
        return atoll_fail(err, ATOLL_ERR_UNIMPLEMENTED, ENOTSUP,
                          "provider %s has no layers that could be merged", s->provider->ops->name);
    *ret = s;
    return 0;
}

static void next_fork(struct merging *m);

static void compare(struct merging *m, bool stream, atoll_compare_fn *done)
{
    const struct atoll_sandbox *s = atoll_engine_find(m->engine, m->target);
    const struct atoll_comparison comparison = {.tenant = s ? s->spec.tenant : "",
                                                .from = m->forks[m->at].base,
                                                .to = m->forks[m->at].now,
                                                .ours = m->ours,
                                                .prefer = *m->prefer ? m->prefer : NULL,
                                                .stream = stream,
                                                .lines = LINES_MAX};

    atoll_compare(m->engine, &comparison, done, m);
}

/* Writing. */

/* The program runs in the target, which is hostile: only these are taken over. */
static const char *side_of(const json_t *line, const char *name)
{
    static const char *const states[] = {"added", "removed"};
    const char *given = json_string_value(json_object_get(line, name));

    for (size_t i = 0; given && i < ATOLL_ARRAY_LEN(states); i++)
        if (strcmp(given, states[i]) == 0)
            return states[i];
    return "changed";
}

/* Paths of this fork that were not written. */
static void drop_changes(struct merging *m, const json_t *paths)
{
    json_t *kept = json_array(), *one;
    size_t i;

    json_array_foreach(m->changes, i, one)
    {
        const char *path = json_string_value(json_object_get(one, "path"));
        const char *from = json_string_value(json_object_get(one, "from"));

        if (!path || !from || strcmp(from, m->from[m->at]) != 0 || !json_object_get(paths, path))
            (void)json_array_append(kept, one);
    }
    json_decref(m->changes);
    m->changes = kept;
}

/* Takes over what the command has printed. Whether there is a conflict. */
static bool add_refused(struct merging *m)
{
    const char *line = (const char *)atoll_buf_head(&m->refused);
    const char *stop = line + atoll_buf_size(&m->refused), *newline;
    json_t *paths = json_object();
    bool any;

    while (line < stop && (newline = memchr(line, '\n', (size_t)(stop - line))) != NULL) {
        json_t *object =
            atoll_json_load(line, (size_t)(newline - line), JSON_REJECT_DUPLICATES, NULL);
        json_t *path = json_object_get(object, "conflict");

        if (json_is_string(path))
            (void)json_object_set_new(paths, json_string_value(path), json_true());
        if (json_is_string(path) && json_array_size(m->conflicts) < LINES_MAX)
            (void)json_array_append_new(
                m->conflicts,
                json_pack("{s:O, s:s, s:s, s:s}", "path", path, "ours", side_of(object, "ours"),
                          "theirs", side_of(object, "theirs"), "from", m->from[m->at]));
        json_decref(object);
        line = newline + 1;
    }
    any = json_object_size(paths) > 0;
    if (any)
        drop_changes(m, paths);
    json_decref(paths);
    return any;
}

static void on_written(struct merging *m)
{
    if (atoll_buf_size(&m->refused) > 0 && add_refused(m)) {
        end(m);
    } else {
        m->at++;
        next_fork(m);
    }
}

static void on_output(void *arg)
{
    struct merging *m = arg;
    struct atoll_reader_item item;
    struct atoll_error err;
    int r = 0;

    while (m->reader && (r = atoll_reader_next(m->reader, &item)) > 0) {
        if (item.kind == ATOLL_READ_DATA && item.stream == ATOLL_STREAM_STDERR)
            (void)snprintf(m->said, sizeof(m->said), "%.*s",
                           (int)ATOLL_MIN(item.length, sizeof(m->said) - 1),
                           (const char *)item.data);
        if (item.kind == ATOLL_READ_DATA && item.stream == ATOLL_STREAM_STDOUT)
            m->lost = m->lost || atoll_buf_append(&m->refused, item.data, (size_t)item.length) < 0;
        if (item.kind == ATOLL_READ_GAP && item.stream == ATOLL_STREAM_STDOUT)
            m->lost = true;
        if (item.kind != ATOLL_READ_END)
            continue;
        bool ok = item.result->kind == ATOLL_END_EXITED && item.result->code == 0;
        m->reader = atoll_reader_close(m->reader);
        if (ok && m->lost) {
            (void)atoll_fail(&err, ATOLL_ERR_ABORTED, EIO,
                             "the list of what was not written is lost: compare the sandboxes");
            fail(m, &err);
        } else if (ok) {
            on_written(m);
        } else {
            (void)atoll_fail(&err, ATOLL_ERR_ABORTED, EIO,
                             "the changes could not be written, or not all of them: %.150s",
                             m->said);
            fail(m, &err);
        }
        return;
    }
    if (r < 0) {
        (void)atoll_fail_errno(&err, -r, "reading the output of the command that writes");
        fail(m, &err);
    }
}

struct writing {
    struct merging *m;
    size_t n;
    uint8_t bytes[];
};

static void on_started(void *arg, struct atoll_exec *exec, const struct atoll_error *error)
{
    struct writing *w = arg;
    struct merging *m = w->m;
    struct atoll_error err;

    if (!error && atoll_reader_open(exec, 0, 0, on_output, m, &m->reader, &err) < 0)
        error = &err;
    if (!error) {
        atoll_fault_die("merge.write");
        atoll_exec_feed(exec, w->bytes, w->n);
    }
    free(w);
    if (error)
        fail(m, error);
}

static void on_stream(void *arg, const uint8_t *bytes, size_t n, const struct atoll_error *error)
{
    static const char *const argv[] = {ATOLL_DIFF_PROGRAM, "--apply", NULL};
    const struct atoll_exec_start start = {.argv = argv,
                                           .user = "root",
                                           .cwd = "/",
                                           .timeout_ms = APPLY_MS,
                                           .stdin_open = true,
                                           .is_command = true};
    struct merging *m = arg;
    struct writing *w;

    if (error) {
        fail(m, error);
        return;
    }
    drop_stacks(m);
    w = atoll_alloc(sizeof(*w) + n);
    w->m = m;
    w->n = n;
    atoll_buf_clear(&m->refused);
    m->lost = false;
    if (n > 0)
        memcpy(w->bytes, bytes, n);
    atoll_engine_exec(m->engine, m->target, &start, on_started, w);
}

/* Looking. */

static void add_line(struct merging *m, const char *line, size_t n, const char *with,
                     bool *ret_conflict)
{
    json_t *object = atoll_json_load(line, n, JSON_REJECT_DUPLICATES, NULL);
    json_t *path = json_object_get(object, "conflict");
    json_t *list = path ? m->conflicts : m->changes;

    *ret_conflict = *ret_conflict || path;
    if (path)
        (void)json_object_set(object, "path", path);
    if (path)
        (void)json_object_del(object, "conflict");
    if (json_is_object(object) && !json_object_get(object, "summary") &&
        json_array_size(list) < LINES_MAX) {
        (void)json_object_set_new(object, "from", json_string(m->from[m->at]));
        if (with)
            (void)json_object_set_new(object, "with", json_string(with));
        (void)json_array_append(list, object);
    }
    json_decref(object);
}

/* with: the fork that was compared with the present one; NULL: the target was. Whether there is a conflict. */
static bool add_lines(struct merging *m, const uint8_t *bytes, size_t n, const char *with)
{
    const char *line = (const char *)bytes, *stop = line ? line + n : NULL;
    bool conflict = false;

    while (line < stop) {
        const char *newline = memchr(line, '\n', (size_t)(stop - line));
        const char *next = newline ? newline : stop;

        add_line(m, line, (size_t)(next - line), with, &conflict);
        line = next + 1;
    }
    return conflict;
}

static void on_looked(void *arg, const uint8_t *bytes, size_t n, const struct atoll_error *error)
{
    struct merging *m = arg;
    bool conflict;

    if (error) {
        fail(m, error);
        return;
    }
    conflict = add_lines(m, bytes, n, NULL);
    if (m->writing && conflict) {
        end(m);
    } else if (m->writing || (m->count == 1 && !conflict && !m->dry_run)) {
        m->writing = true;
        compare(m, true, on_stream);
    } else {
        drop_stack(m, &m->ours);
        m->at++;
        next_fork(m);
    }
}

/* Forks that conflict with each other. */

static void compare_pair(struct merging *m);

static void on_compared(void *arg, const uint8_t *bytes, size_t n, const struct atoll_error *error)
{
    struct merging *m = arg;

    if (error) {
        fail(m, error);
        return;
    }
    (void)add_lines(m, bytes, n, m->from[m->earlier]);
    if (++m->earlier == m->at) {
        m->at++;
        m->earlier = 0;
    }
    compare_pair(m);
}

static void begin_writing(struct merging *m)
{
    drop_stacks(m);
    if (m->dry_run || json_array_size(m->conflicts) > 0) {
        end(m);
        return;
    }
    m->writing = true;
    m->at = 0;
    (void)json_array_clear(m->changes);
    next_fork(m);
}

static void compare_pair(struct merging *m)
{
    const struct atoll_sandbox *s = atoll_engine_find(m->engine, m->target);
    struct atoll_comparison comparison = {.tenant = s ? s->spec.tenant : "", .lines = LINES_MAX};

    if (m->at >= m->count) {
        begin_writing(m);
        return;
    }
    comparison.from = m->forks[m->at].base;
    comparison.to = m->forks[m->at].now;
    comparison.ours = m->forks[m->earlier].now;
    comparison.since = m->forks[m->earlier].base;
    atoll_compare(m->engine, &comparison, on_compared, m);
}

static void on_theirs(void *arg, const char *stack,
                      const struct atoll_snapshot_facts *facts ATOLL_UNUSED,
                      const struct atoll_error *error)
{
    struct merging *m = arg;
    struct atoll_error err;

    if (!error && hold(m, stack, &m->forks[m->at].now, &err) < 0)
        error = &err;
    if (error)
        fail(m, error);
    else
        compare(m, false, on_looked);
}

static void capture_theirs(void *arg, const struct atoll_error *error)
{
    struct merging *m = arg;
    struct atoll_sandbox *s = NULL;
    struct atoll_error err;

    if (!error && (find(m, m->from[m->at], &s, &err) < 0 || atoll_capture_check(s, &err) < 0))
        error = &err;
    if (error)
        fail(m, error);
    else
        atoll_capture_layer(s, "merge", on_theirs, m);
}

static void on_ours(void *arg, const char *stack,
                    const struct atoll_snapshot_facts *facts ATOLL_UNUSED,
                    const struct atoll_error *error)
{
    struct merging *m = arg;
    struct atoll_sandbox *s;
    const char *base;
    struct atoll_error err;

    if (error) {
        fail(m, error);
        return;
    }
    if (hold(m, stack, &m->ours, &err) < 0 || find(m, m->from[m->at], &s, &err) < 0 ||
        atoll_moment_find(s, ATOLL_MOMENT_START, &base, &err) < 0 ||
        hold(m, base, &m->forks[m->at].base, &err) < 0)
        fail(m, &err);
    else
        atoll_capture_await(s, NULL, capture_theirs, m);
}

static void capture_ours(void *arg, const struct atoll_error *error)
{
    struct merging *m = arg;
    struct atoll_sandbox *s = NULL;
    struct atoll_error err;

    if (!error && (find(m, m->target, &s, &err) < 0 || atoll_capture_check(s, &err) < 0))
        error = &err;
    if (error)
        fail(m, error);
    else
        atoll_capture_layer(s, "merge", on_ours, m);
}

static void next_fork(struct merging *m)
{
    struct atoll_sandbox *target;
    struct atoll_error err;

    if (m->at < m->count) {
        if (find(m, m->target, &target, &err) < 0)
            fail(m, &err);
        else
            atoll_capture_await(target, NULL, capture_ours, m);
    } else if (m->writing) {
        end(m);
    } else {
        m->at = *m->prefer ? m->count : 1; /* what decides conflicts decides these, too */
        compare_pair(m);
    }
}

static int check(struct merging *m, const struct atoll_merge_request *q, struct atoll_error *err)
{
    struct atoll_sandbox *s;
    int r = find(m, m->target, &s, err);

    if (r == 0 && (m->count == 0 || m->count > ATOLL_MERGE_FORKS_MAX))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "name 1 to %d sandboxes",
                          ATOLL_MERGE_FORKS_MAX);
    if (r == 0)
        r = atoll_engine_running(m->engine, m->target, &s, err);
    for (size_t i = 0; r == 0 && i < m->count; i++) {
        (void)snprintf(m->from[i], sizeof(m->from[i]), "%s", q->from[i]);
        if (strcmp(m->from[i], m->target) == 0)
            return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                              "a sandbox cannot be merged into itself");
        r = find(m, m->from[i], &s, err);
        if (r == 0)
            r = atoll_capture_check(s, err);
    }
    return r;
}

void atoll_engine_merge(struct atoll_engine *engine, const char *sandbox_id,
                        const struct atoll_merge_request *request, atoll_merge_fn *done, void *arg)
{
    struct merging *m = atoll_alloc(sizeof(*m));
    struct atoll_error err;

    *m = (struct merging){.engine = engine,
                          .dry_run = request->dry_run,
                          .changes = json_array(),
                          .conflicts = json_array(),
                          .done = done,
                          .arg = arg};
    atoll_buf_init(&m->refused, WRITER_MAX);
    m->count = request->from ? atoll_strings_count(request->from) : 0;
    m->from = atoll_alloc((m->count + 1) * sizeof(*m->from));
    m->forks = atoll_alloc((m->count + 1) * sizeof(*m->forks));
    (void)snprintf(m->target, sizeof(m->target), "%s", sandbox_id);
    (void)snprintf(m->prefer, sizeof(m->prefer), "%s", request->prefer ? request->prefer : "");
    atoll_list_push_back(&engine->merges, &m->node);
    if (check(m, request, &err) < 0)
        fail(m, &err);
    else
        next_fork(m);
}

void atoll_merges_done(struct atoll_engine *engine)
{
    ATOLL_LIST_FOREACH (&engine->merges, node)
        merging_free(ATOLL_CONTAINER_OF(node, struct merging, node));
}
