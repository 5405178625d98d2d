#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/rand.h"
#include "base/text.h"
#include "engine/engine_internal.h"
#include "engine/network/network.h"
#include "engine/state/checkpoint_thin.h"

/*
 * Commands: started through the agent, their output is written to a journal as it comes, and they
 * end with exactly one result. Output is acknowledged to the agent only after it is in the journal.
 */

#define ACK_EVERY_BYTES (64 * 1024)
/* The part of a command line that is kept; the agent gets all of it. */
#define ARGV_KEPT_BYTES 4096
#define ARGV_KEPT_STRINGS 256
#define EXECS_MAX \
    4096 /* kept per sandbox, including ended ones; the oldest ended are dropped first */

const char *atoll_end_kind_name(enum atoll_end_kind kind)
{
    static const char *const names[] = {
        [ATOLL_END_EXITED] = "exited",       [ATOLL_END_SIGNALED] = "signaled",
        [ATOLL_END_TIMED_OUT] = "timed_out", [ATOLL_END_OOM_KILLED] = "oom_killed",
        [ATOLL_END_KILLED_BY] = "killed_by", [ATOLL_END_LOST] = "lost"};
    return kind >= ATOLL_END_EXITED && kind <= ATOLL_END_LOST ? names[kind] : "unknown";
}

static uint64_t journal_max(const struct atoll_exec *x)
{
    return x->held ? 0 : x->sandbox->engine->config.journal_max_bytes;
}

static struct atoll_exec *exec_new(struct atoll_sandbox *s, const struct atoll_exec_start *start)
{
    struct atoll_exec *x = calloc(1, sizeof(*x));
    char journal[64];

    if (!x)
        return NULL;
    x->refs = 1;
    x->engine = s->engine;
    x->sandbox = s;
    memcpy(x->sandbox_id, s->spec.id, sizeof(x->sandbox_id));
    atoll_rand_bytes(&x->number, sizeof(x->number));
    (void)snprintf(x->id, sizeof(x->id), "%016llx", (unsigned long long)x->number);
    x->argv =
        atoll_strings_dup_some(start->argv, ARGV_KEPT_BYTES, ARGV_KEPT_STRINGS, &x->argv_left_out);
    x->user = strdup(start->user && *start->user ? start->user
                     : s->options.user           ? s->options.user
                                                 : "");
    x->cwd = strdup(start->cwd && *start->cwd ? start->cwd
                    : s->options.workdir      ? s->options.workdir
                                              : "");
    x->pty = start->pty;
    x->held = start->held;
    x->checkpoint = start->number;
    x->agent_knows = true; /* the agent that starts it does */
    x->started_unix_ms = atoll_clock_unix_ms();
    x->started_ms = atoll_clock_ms();
    x->asked_us = atoll_clock_us();
    atoll_list_init(&x->readers);
    (void)snprintf(journal, sizeof(journal), "%s-%s", x->sandbox_id, x->id);
    atoll_journal_init(&x->journal, s->engine->journal_fd, journal, journal_max(x));
    if (!x->argv || !x->user || !x->cwd) {
        atoll_exec_unref(x);
        return NULL;
    }
    return x;
}

void atoll_exec_unref(struct atoll_exec *x)
{
    if (--x->refs > 0)
        return;
    atoll_timer_cancel(&x->awaiting);
    atoll_journals_release(x);
    if (x->kept)
        atoll_journal_rest(&x->journal);
    else
        atoll_journal_remove(&x->journal); /* no client can read it any more */
    atoll_strings_free(x->argv);
    free(x->user);
    free(x->cwd);
    free(x);
}

/* Removes it from its sandbox. Readers may still hold it. */
static void exec_drop(struct atoll_exec *x)
{
    atoll_quota_exec_leave(x);
    (void)atoll_map_remove(&x->sandbox->execs, x->id);
    atoll_list_remove(&x->node);
    atoll_journals_leave_sandbox(x);
    x->sandbox = NULL;
    atoll_exec_unref(x);
}

bool atoll_exec_drop_some(struct atoll_sandbox *s, size_t most)
{
    for (; most > 0 && !atoll_list_empty(&s->exec_list); most--) {
        struct atoll_exec *x = ATOLL_CONTAINER_OF(s->exec_list.next, struct atoll_exec, node);
        if (s->life.recorded && x->started_unix_ms >= s->life.execs_from_unix_ms)
            atoll_ended_output_keep(x);
        exec_drop(x);
    }
    return !atoll_list_empty(&s->exec_list);
}

void atoll_exec_drop_all(struct atoll_sandbox *s)
{
    ATOLL_LIST_FOREACH (&s->exec_list, node)
        exec_drop(ATOLL_CONTAINER_OF(node, struct atoll_exec, node));
    atoll_map_done(&s->execs);
}

static bool is_stored(const struct atoll_exec *x)
{
    return x->sandbox && !x->sandbox->hidden;
}

int atoll_exec_enlist_all(struct atoll_sandbox *s, struct atoll_error *err)
{
    int r = 0;

    ATOLL_LIST_FOREACH (&s->exec_list, node) {
        struct atoll_exec *x = ATOLL_CONTAINER_OF(node, struct atoll_exec, node);
        atoll_quota_exec_enter(x);
        atoll_journals_move(x);
        if (r == 0)
            r = atoll_persist_exec(s->engine, x, err);
    }
    return r;
}

/* Skips running ones: a server that was started first must not keep the others from being dropped.
 * NULL when all run. */
static struct atoll_exec *oldest_ended(struct atoll_sandbox *s)
{
    ATOLL_LIST_FOREACH (&s->exec_list, node) {
        struct atoll_exec *x = ATOLL_CONTAINER_OF(node, struct atoll_exec, node);
        if (x->ended)
            return x;
    }
    return NULL;
}

static int remember(struct atoll_sandbox *s, struct atoll_exec *x, struct atoll_error *err)
{
    if (s->execs.used >= EXECS_MAX) {
        struct atoll_exec *oldest = oldest_ended(s);
        if (!oldest)
            return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, EAGAIN,
                              "%d commands run in this sandbox already", EXECS_MAX);
        atoll_lifetime_forget(s, oldest);
        if (is_stored(oldest))
            atoll_persist_drop_exec(s->engine, oldest);
        exec_drop(oldest);
    }
    if (atoll_map_put(&s->execs, x->id, x) < 0)
        return atoll_fail_errno(err, ENOMEM, "exec");
    atoll_list_push_back(&s->exec_list, &x->node);
    atoll_quota_exec_enter(x);
    return 0;
}

static void measure_end(const struct atoll_exec_result *result)
{
    atoll_metric_observe(ATOLL_METRIC_EXEC_SECONDS, ATOLL_NO_LABELS,
                         (double)result->duration_ms / 1e3);
    atoll_metric_add(ATOLL_METRIC_EXECS_ENDED, ATOLL_LABELS(atoll_end_kind_name(result->kind)), 1);
    atoll_metric_add(ATOLL_METRIC_BYTES, ATOLL_LABELS("exec", "out"),
                     (double)(result->stdout_bytes + result->stderr_bytes));
}

void atoll_exec_finish(struct atoll_exec *x, const struct atoll_exec_result *result)
{
    struct atoll_error err;

    if (x->ended)
        return;
    x->ended = true;
    atoll_quota_exec_leave(x);
    x->result = *result;
    if (x->result.duration_ms == 0) /* the agent did not report it */
        x->result.duration_ms = atoll_clock_ms() - x->started_ms;
    measure_end(&x->result);
    if (is_stored(x))
        (void)!atoll_persist_exec(x->sandbox->engine, x, &err);
    if (x->sandbox) {
        x->sandbox->life.used_ms = atoll_clock_ms();
        atoll_events_emit(x->sandbox->engine, "exec.ended", x->sandbox, x->id,
                          atoll_end_kind_name(result->kind));
    }
    x->refs++; /* a reader that gets the end may destroy the sandbox, and so free this */
    atoll_readers_notify(x);
    if (atoll_list_empty(&x->readers))
        atoll_journal_rest(&x->journal);
    atoll_journals_charge(x);
    atoll_exec_unref(x);
}

void atoll_exec_end_all(struct atoll_sandbox *s, enum atoll_end_kind kind, const char *reason)
{
    const struct atoll_provider_exit oom = s->oom;
    struct atoll_exec_result result = {.kind = kind};
    struct atoll_engine *engine = s->engine;
    char id[ATOLL_ID_LEN + 1];

    memcpy(id, s->spec.id, sizeof(id));
    atoll_checkpoints_tell_ends(s);
    if (atoll_map_get(&engine->sandboxes, id) != s) /* a client that was told destroyed it */
        return;
    (void)snprintf(result.reason, sizeof(result.reason), "%s", reason);
    s->oom = (struct atoll_provider_exit){0}; /* the sandbox may be recreated or started again */
    if (kind == ATOLL_END_LOST && oom.oom_kills > 0) {
        result.kind = ATOLL_END_OOM_KILLED;
        result.oom_kills = (uint32_t)ATOLL_MIN(oom.oom_kills, (uint64_t)UINT32_MAX);
        result.oom_peak_bytes = oom.memory_peak_bytes;
        result.oom_limit_bytes = s->spec.limits.memory_bytes;
    }
    if (result.kind != ATOLL_END_LOST)
        result.signal = 9;
    ATOLL_LIST_FOREACH (&s->exec_list, node) {
        struct atoll_exec *x = ATOLL_CONTAINER_OF(node, struct atoll_exec, node);
        result.stdout_bytes = x->journal.seen[ATOLL_STREAM_STDOUT];
        result.stderr_bytes = x->journal.seen[ATOLL_STREAM_STDERR];
        /* An exec whose start is in progress ends with the answer to the start, which fails as
         * well. */
        if (!x->started)
            atoll_exec_finish(x, &result);
    }
}

/* Start. */

static void measure_start(const struct atoll_exec *x, const struct atoll_error *error)
{
    const char *provider = x->sandbox ? x->sandbox->provider->ops->name : "";

    if (error)
        atoll_metric_add(ATOLL_METRIC_EXEC_START_ERRORS,
                         ATOLL_LABELS(provider, atoll_error_kind_name(error->kind)), 1);
    else
        atoll_metric_observe(ATOLL_METRIC_EXEC_START_SECONDS, ATOLL_LABELS(provider),
                             (double)(atoll_clock_us() - x->asked_us) / 1e6);
}

/* The agent's error, with advice if it is about a program that the sandbox does not have. */
static const struct atoll_error *with_advice(const struct atoll_error *error,
                                             struct atoll_error *copy)
{
    if (!error || error->kind != ATOLL_ERR_NOT_FOUND || error->errnum != ENOENT || *error->hint)
        return error;
    *copy = *error;
    atoll_advise(copy, "its template does not have this program; see docs/troubleshooting.md");
    return copy;
}

static void on_started(void *arg, const struct atoll_reply *answer)
{
    struct atoll_exec *x = arg;
    atoll_exec_fn *fn = ATOLL_TAKE_PTR(x->started);
    struct atoll_am_exec_started started;
    const struct atoll_error *error = answer->error;
    struct atoll_error err;

    if (!error && atoll_msg_decode(&atoll_am_exec_started_desc, answer->frame->payload,
                                   answer->frame->len, &started, &err) < 0)
        error = &err;
    measure_start(x, error);
    error = with_advice(error, &err);
    if (error) {
        if (x->sandbox)
            atoll_checkpoint_failed(x->sandbox, x->checkpoint);
        fn(x->started_arg, NULL, error);
        if (is_stored(x))
            atoll_persist_drop_exec(x->sandbox->engine, x);
        if (x->sandbox)
            exec_drop(x);
    } else {
        x->pid = started.pid;
        if (x->sandbox && x->checkpoint)
            atoll_checkpoint_started(x->sandbox, x->checkpoint, x);
        if (x->sandbox)
            atoll_events_emit(x->sandbox->engine, "exec.started", x->sandbox, x->id, "");
        fn(x->started_arg, x, NULL);
    }
    atoll_exec_unref(x);
}

/* The command's variables override the sandbox's, and these override those of its network. */
static const char **join_env(const struct atoll_sandbox *s, const char *const *env, size_t *ret_len)
{
    const char *const *const lists[] = {atoll_network_trust_env(s), s->options.env, env};
    size_t n = 0;
    const char **all;

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(lists); i++)
        n += atoll_strings_count(lists[i]);
    all = calloc(n + 1, sizeof(*all));
    *ret_len = 0;
    for (size_t i = 0; all && i < ATOLL_ARRAY_LEN(lists); i++)
        for (size_t k = 0; lists[i] && lists[i][k]; k++)
            all[(*ret_len)++] = lists[i][k];
    return all;
}

static int send_start(struct atoll_exec *x, const struct atoll_exec_start *start,
                      struct atoll_error *err)
{
    ATOLL_AUTOFREE const char **env = NULL;
    struct atoll_am_exec_start msg = {
        .exec = x->number,
        .flags = (start->pty ? ATOLL_EXEC_PTY : 0) | (start->stdin_open ? ATOLL_EXEC_STDIN : 0),
        .user = x->user,
        .cwd = x->cwd,
        .argv = {(const char **)(uintptr_t)start->argv, atoll_strings_count(start->argv)},
        .timeout_ms = start->timeout_ms,
        .cols = start->cols,
        .rows = start->rows,
    };

    env = join_env(x->sandbox, start->env, &msg.env.len);
    if (!env)
        return atoll_fail_errno(err, ENOMEM, "environment");
    msg.env.items = env;
    return atoll_sandbox_ask(x->sandbox, ATOLL_AGENT_EXEC_START, &atoll_am_exec_start_desc, &msg,
                             on_started, x, err);
}

int atoll_exec_refuse_empty(struct atoll_error *err)
{
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                      "cmd is missing: the command and its arguments, an array of strings");
}

void atoll_engine_exec_now(struct atoll_engine *engine, const char *sandbox_id,
                           const struct atoll_exec_start *given, atoll_exec_fn *done, void *arg)
{
    struct atoll_exec_start own = *given;
    const struct atoll_exec_start *start = &own;
    struct atoll_sandbox *s;
    struct atoll_exec *x = NULL;
    struct atoll_error err;
    int r = atoll_engine_running(engine, sandbox_id, &s, &err);

    if (r == 0 && !own.argv) {
        own.argv = (const char *const *)s->command;
        r = own.argv ? 0 : atoll_exec_refuse_empty(&err);
    }
    if (r == 0 && (r = atoll_room_admit(engine, &err)) < 0 && s->checkpoints)
        (void)atoll_checkpoints_halve(s); /* the next command may find room */
    if (r == 0)
        r = atoll_lifetime_admit(s, &err);
    if (r == 0 && own.is_command && own.number == 0 && s->checkpoints) {
        atoll_checkpoint_before(s, start, done, arg);
        return;
    }
    if (r == 0) {
        x = exec_new(s, start);
        r = x ? remember(s, x, &err) : atoll_fail_errno(&err, ENOMEM, "exec");
        if (r < 0 && x)
            atoll_exec_unref(x);
    }
    if (r < 0) {
        s = own.number ? atoll_map_get(&engine->sandboxes, sandbox_id) : NULL;
        if (s)
            atoll_checkpoint_failed(s, own.number);
        done(arg, NULL, &err);
        return;
    }
    x->started = done;
    x->started_arg = arg;
    x->refs++; /* of the pending answer */
    /* Stored before it can run: if the daemon dies in between, the next one finds the row. */
    r = is_stored(x) ? atoll_persist_exec(engine, x, &err) : 0;
    if (r == 0)
        r = send_start(x, start, &err);
    if (r < 0) {
        x->started = NULL;
        atoll_checkpoint_failed(s, x->checkpoint);
        if (is_stored(x))
            atoll_persist_drop_exec(engine, x);
        exec_drop(x);
        atoll_exec_unref(x);
        done(arg, NULL, &err);
    }
}

/* Events of the agent. It is untrusted: a malformed event ends the connection. */

struct atoll_exec *atoll_exec_by_number(struct atoll_sandbox *s, uint64_t number)
{
    char id[17];

    (void)snprintf(id, sizeof(id), "%016llx", (unsigned long long)number);
    return atoll_map_get(&s->execs, id);
}

void atoll_exec_acknowledge(struct atoll_exec *x, int stream, uint64_t offset)
{
    struct atoll_am_ack ack = {x->number, (uint8_t)stream, offset};

    if (offset < x->acked[stream] + ACK_EVERY_BYTES || !x->sandbox || !x->sandbox->agent)
        return;
    x->acked[stream] = ack.offset;
    (void)!atoll_rpc_tell(x->sandbox->agent, ATOLL_AGENT_EXEC_ACK, &atoll_am_ack_desc, &ack);
}

static int on_output(struct atoll_sandbox *s, const struct atoll_am_output *out)
{
    struct atoll_exec *x = atoll_exec_by_number(s, out->exec);
    uint64_t before, size;
    int r;

    if (out->stream != ATOLL_STREAM_STDOUT && out->stream != ATOLL_STREAM_STDERR)
        return -EBADMSG;
    if (!x || x->ended)
        return 0;
    before = x->journal.seen[out->stream];
    atoll_journals_make_room(x, out->data.len);
    size = x->journal.size;
    r = atoll_journal_append(&x->journal, out->stream, out->offset, out->data.data, out->data.len,
                             atoll_readers_hold(x));
    if (r == -EBADMSG)
        return r;
    if (x->journal.size == size)
        atoll_metric_add(ATOLL_METRIC_OUTPUT_DROPPED, ATOLL_NO_LABELS,
                         (double)(x->journal.seen[out->stream] - before));
    if (r < 0 && r != -EDQUOT) /* the daemon's disk failed: readers get a gap */
        atoll_log(ATOLL_LOG_ERROR, "output not kept", "sandbox", s->spec.id, "exec", x->id, "error",
                  strerror(-r), NULL);
    atoll_readers_settle(x);
    atoll_journals_charge(x);
    atoll_lifetime_output(s, x->journal.seen[out->stream] - before);
    atoll_readers_notify(x);
    return 0;
}

static int on_ended(struct atoll_sandbox *s, const struct atoll_am_exit *e)
{
    struct atoll_exec *x = atoll_exec_by_number(s, e->exec);
    struct atoll_am_exec_ref ref = {e->exec};
    const struct atoll_engine *engine = s->engine;
    char id[sizeof(s->spec.id)];
    bool unsaved = false;
    struct atoll_exec_result result = {
        .kind = (enum atoll_end_kind)e->kind,
        .code = e->code,
        .signal = e->signal,
        .user_us = e->user_us,
        .system_us = e->system_us,
        .max_rss_bytes = e->max_rss_bytes,
        .oom_kills = e->oom_kills,
        .oom_pid = e->oom_pid,
        .oom_peak_bytes = e->oom_peak_bytes,
        .oom_limit_bytes = e->oom_limit_bytes,
        .stdout_bytes = e->stdout_bytes,
        .stderr_bytes = e->stderr_bytes,
    };

    if (e->kind < ATOLL_END_EXITED || e->kind > ATOLL_END_KILLED_BY)
        return -EBADMSG;
    (void)snprintf(result.reason, sizeof(result.reason), "%s", e->who);
    (void)snprintf(result.oom_process, sizeof(result.oom_process), "%s", e->oom_process);
    if (x && e->ended_unix_ms > x->started_unix_ms)
        result.duration_ms = e->ended_unix_ms - x->started_unix_ms;
    if (x && (x->journal.seen[ATOLL_STREAM_STDOUT] != e->stdout_bytes ||
              x->journal.seen[ATOLL_STREAM_STDERR] != e->stderr_bytes))
        return -EBADMSG;
    if (x && x->checkpoint && !x->ended && s->checkpoints) {
        atoll_checkpoint_after(x, &result);
        return 0;
    }
    memcpy(id, s->spec.id, sizeof(id));
    /* The end is stored before the agent may drop its record. */
    if (x) {
        x->refs++; /* it may be dropped meanwhile */
        atoll_exec_finish(x, &result);
        unsaved = x->unsaved;
        atoll_exec_unref(x);
    }
    if (atoll_map_get(&engine->sandboxes, id) != s) /* a client that was told destroyed it */
        return 0;
    if (s->agent && !unsaved)
        (void)!atoll_rpc_tell(s->agent, ATOLL_AGENT_EXEC_FORGET, &atoll_am_exec_ref_desc, &ref);
    return 0;
}

int atoll_exec_on_event(struct atoll_sandbox *s, struct atoll_frame *frame)
{
    struct atoll_am_output out;
    struct atoll_am_exit e;
    struct atoll_error err;

    switch (frame->type) {
    case ATOLL_AGENT_EXEC_OUTPUT:
        if (atoll_msg_decode(&atoll_am_output_desc, frame->payload, frame->len, &out, &err) < 0)
            return -EBADMSG;
        return on_output(s, &out);
    case ATOLL_AGENT_EXEC_EXIT:
        if (atoll_msg_decode(&atoll_am_exit_desc, frame->payload, frame->len, &e, &err) < 0)
            return -EBADMSG;
        return on_ended(s, &e);
    default:
        return 0; /* an event that only newer agents send */
    }
}

/* Recovery. */

void atoll_exec_read_result(const struct atoll_store_exec *row, struct atoll_exec_result *ret)
{
    *ret = (struct atoll_exec_result){
        .kind = (enum atoll_end_kind)row->kind,
        .code = row->code,
        .signal = row->signal,
        .user_us = row->user_us,
        .system_us = row->system_us,
        .max_rss_bytes = row->max_rss_bytes,
        .oom_kills = row->oom_kills,
        .oom_pid = row->oom_pid,
        .oom_peak_bytes = row->oom_peak_bytes,
        .oom_limit_bytes = row->oom_limit_bytes,
        .stdout_bytes = row->stdout_bytes,
        .stderr_bytes = row->stderr_bytes,
        .duration_ms = row->duration_ms,
    };
    (void)snprintf(ret->reason, sizeof(ret->reason), "%s", row->reason);
    (void)snprintf(ret->oom_process, sizeof(ret->oom_process), "%s", row->oom_process);
}

int atoll_exec_restore(struct atoll_sandbox *s, const struct atoll_store_exec *row,
                       struct atoll_error *err)
{
    char **argv = atoll_strings_split(row->argv, row->argv_len);
    struct atoll_exec_start start = {.argv = (const char *const *)argv,
                                     .user = row->user,
                                     .cwd = row->cwd,
                                     .pty = row->pty,
                                     .held = row->held};
    struct atoll_exec *x = argv ? exec_new(s, &start) : NULL;
    unsigned long long number;
    char journal[64];
    int r;

    atoll_strings_free(argv);
    if (!x)
        return atoll_fail_errno(err, ENOMEM, "exec");
    if (sscanf(row->id, "%16llx", &number) != 1 || strlen(row->id) != 16) {
        atoll_exec_unref(x);
        return atoll_fail(err, ATOLL_ERR_DATA_LOSS, EBADMSG, "stored command has the id %s",
                          row->id);
    }
    x->number = number;
    (void)snprintf(x->id, sizeof(x->id), "%016llx", number);
    x->argv_left_out = ATOLL_MAX(x->argv_left_out, row->argv_left_out);
    x->pid = row->pid;
    x->started_unix_ms = row->started_unix_ms;
    x->started_ms = atoll_clock_ms() - (atoll_clock_unix_ms() - row->started_unix_ms);
    x->ended = row->kind != 0;
    atoll_exec_read_result(row, &x->result);
    (void)snprintf(journal, sizeof(journal), "%s-%s", x->sandbox_id, x->id);
    atoll_journal_init(&x->journal, s->engine->journal_fd, journal, journal_max(x));
    x->awaited = !x->ended && !x->held;
    r = atoll_journal_reopen(&x->journal, !x->ended);
    if (r == 0)
        r = remember(s, x, err);
    else
        r = atoll_fail_errno(err, -r, "open journal");
    if (r < 0) {
        atoll_exec_unref(x);
        return r;
    }
    atoll_journals_charge(x);
    if (x->ended) { /* the result counts output that the journal does not have */
        atoll_journal_rest(&x->journal);
        x->journal.seen[ATOLL_STREAM_STDOUT] = x->result.stdout_bytes;
        x->journal.seen[ATOLL_STREAM_STDERR] = x->result.stderr_bytes;
    }
    return 0;
}

/* Lookup. */

struct atoll_exec *atoll_sandbox_find_exec(struct atoll_sandbox *s, const char *exec_id)
{
    struct atoll_exec *x = atoll_map_get(&s->execs, exec_id);
    return x && !x->started ? x : NULL;
}

struct atoll_exec *atoll_sandbox_next_exec(struct atoll_sandbox *s, size_t *pos)
{
    struct atoll_exec *x;

    while ((x = atoll_map_next(&s->execs, pos)) != NULL && x->started)
        ;
    return x;
}

void atoll_exec_get(const struct atoll_exec *x, struct atoll_exec_view *ret)
{
    *ret = (struct atoll_exec_view){
        .id = x->id,
        .sandbox_id = x->sandbox_id,
        .user = x->user,
        .cwd = x->cwd,
        .argv = (const char *const *)x->argv,
        .argv_left_out = x->argv_left_out,
        .pid = x->pid,
        .pty = x->pty,
        .held = x->held,
        .started_unix_ms = x->started_unix_ms,
        .result = x->ended ? &x->result : NULL,
    };
}
