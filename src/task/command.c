#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "base/memory.h"
#include "base/text.h"
#include "task/task_internal.h"

/*
 * Commands of steps. Each runs as
 *   /bin/sh -c 'exec "$@"' MARK COMMAND …
 * so that MARK, the name of the shell, is in the stored arguments of the command.
 */
#define MARK_AT 3
#define MARK "atoll-task"
#define PARTIAL_MAX ((size_t)1024 * 1024) /* a longer line is passed in pieces */

struct atoll_task_command {
    struct atoll_task *task;
    struct atoll_task_command_request request; /* argv and env are not kept */
    char mark[128];
    char sandbox_id[ATOLL_ID_LEN + 1];
    char exec_id[33];            /* "" until it is started */
    struct atoll_reader *reader; /* owned */
    struct atoll_timer stall;
    bool stalled;
    double cpu_seconds; /* of the sandbox, at cpu_ms; 0: not known */
    int64_t cpu_ms;
    uint64_t logged[ATOLL_STREAM_STDERR + 1]; /* what the log has already */
    struct atoll_buf partial[ATOLL_STREAM_STDERR + 1];
    struct atoll_buf tail;
    bool dropped;    /* while it is being started */
    char killer[64]; /* who wants it to be killed as soon as it runs; "": it is not to be killed */
};

static void command_free(struct atoll_task_command *c)
{
    atoll_timer_cancel(&c->stall);
    c->reader = atoll_reader_close(c->reader);
    atoll_buf_done(&c->partial[ATOLL_STREAM_STDOUT]);
    atoll_buf_done(&c->partial[ATOLL_STREAM_STDERR]);
    atoll_buf_done(&c->tail);
    free(c);
}

static void finish(struct atoll_task_command *c, const struct atoll_exec_result *result,
                   const struct atoll_error *error)
{
    struct atoll_task *task = c->task;
    struct atoll_error stalled;

    task->command = NULL;
    if (c->stalled && !error && result->kind != ATOLL_END_EXITED) {
        (void)atoll_fail(&stalled, ATOLL_ERR_DEADLINE_EXCEEDED, ETIMEDOUT,
                         "the command printed nothing for %u s, used no CPU time, and was killed; "
                         "stallSeconds and stallCpuPercent of the task or its agent say when; "
                         "`atoll task retry %s%s` runs it again",
                         c->request.stall_ms / 1000, task->id, atoll_task_repo_option(task));
        error = &stalled;
    }
    if (atoll_buf_size(&c->tail) > 0)
        c->tail.len--; /* the last newline */
    c->request.done(task, result, atoll_buf_str(&c->tail), error);
    command_free(c);
}

/* --- output --- */

static void add_tail(struct atoll_task_command *c, const char *text, size_t n)
{
    if (n > ATOLL_TASK_TAIL_MAX) {
        text += n - ATOLL_TASK_TAIL_MAX;
        n = ATOLL_TASK_TAIL_MAX;
    }
    if (atoll_buf_size(&c->tail) + n + 1 > ATOLL_TASK_TAIL_MAX + 1)
        atoll_buf_consume(&c->tail, ATOLL_MIN(atoll_buf_size(&c->tail),
                                              atoll_buf_size(&c->tail) + n - ATOLL_TASK_TAIL_MAX));
    (void)!atoll_buf_append(&c->tail, text, n);
    (void)!atoll_buf_appends(&c->tail, "\n");
}

/* One line, whose last byte is in front of the offset `end`. */
static void pass_line(struct atoll_task_command *c, int stream, const char *line, size_t n,
                      uint64_t end)
{
    add_tail(c, line, n);
    if (!c->request.quiet && end > c->logged[stream])
        atoll_task_log_output(c->task, stream, line, n, end);
    if (c->request.line && stream == ATOLL_STREAM_STDOUT)
        c->request.line(c->task, line, n);
}

static void pass_partial(struct atoll_task_command *c, int stream, uint64_t end)
{
    struct atoll_buf *partial = &c->partial[stream];

    if (atoll_buf_size(partial) > 0)
        pass_line(c, stream, atoll_buf_str(partial), atoll_buf_size(partial), end);
    atoll_buf_clear(partial);
}

static void take(struct atoll_task_command *c, const struct atoll_reader_item *item)
{
    struct atoll_buf *partial = &c->partial[item->stream];
    const char *bytes = (const char *)item->data;
    size_t left = (size_t)item->length;

    while (left > 0) {
        const char *newline = memchr(bytes, '\n', left);
        size_t n = newline ? (size_t)(newline - bytes) : left;
        size_t room = PARTIAL_MAX - atoll_buf_size(partial);
        uint64_t at = item->offset + item->length - left;

        n = ATOLL_MIN(n, room);
        (void)!atoll_buf_append(partial, bytes, n);
        if (newline && bytes + n == newline) {
            n++;
            if (atoll_buf_size(partial) == 0)
                pass_line(c, item->stream, "", 0, at + n);
            pass_partial(c, item->stream, at + n);
        } else if (atoll_buf_size(partial) == PARTIAL_MAX) {
            pass_partial(c, item->stream, at + n);
        }
        bytes += n;
        left -= n;
    }
}

static struct atoll_exec *find_exec(const struct atoll_task_command *c)
{
    struct atoll_sandbox *sandbox = atoll_engine_find(c->task->tasks->config.engine, c->sandbox_id);

    return sandbox ? atoll_sandbox_find_exec(sandbox, c->exec_id) : NULL;
}

static void killed(void *arg ATOLL_UNUSED, const struct atoll_error *error ATOLL_UNUSED)
{
}

static void kill_it(const struct atoll_task_command *c, const char *who)
{
    struct atoll_exec *exec = find_exec(c);

    if (exec)
        atoll_exec_signal(exec, SIGKILL, true, who, killed, NULL);
}

static void is_silent(void *arg);

static void expect_output(struct atoll_task_command *c)
{
    if (c->request.stall_ms && !c->stalled)
        atoll_timer_set(&c->stall, c->task->tasks->config.loop, c->request.stall_ms, is_silent, c);
}

/* A command that prints nothing may be at work: then the sandbox uses CPU time. */
static bool is_at_work(struct atoll_task_command *c, const struct atoll_sandbox_stats *stats)
{
    int64_t now_ms = atoll_clock_ms(), since_ms = c->cpu_ms;
    double used = stats ? stats->cpu_seconds - c->cpu_seconds : 0;

    c->cpu_ms = stats ? now_ms : 0;
    c->cpu_seconds = stats ? stats->cpu_seconds : 0;
    return since_ms && stats && now_ms > since_ms &&
           100000 * used / (double)(now_ms - since_ms) >= c->request.stall_cpu_percent;
}

static void end_if_idle(struct atoll_task *task, const struct atoll_sandbox_stats *stats)
{
    struct atoll_task_command *c = task->command;

    if (!c || !c->request.stall_ms ||
        c->stall.loop) /* another command, or it has printed something */
        return;
    if (is_at_work(c, stats)) {
        expect_output(c);
        return;
    }
    c->stalled = true;
    kill_it(c, "the task, because it does nothing");
}

static void is_silent(void *arg)
{
    struct atoll_task_command *c = arg;

    atoll_task_figures(c->task, end_if_idle);
}

/* What the sandbox has used before the command. */
static void note_cpu(struct atoll_task *task, const struct atoll_sandbox_stats *stats)
{
    if (task->command && task->command->request.stall_ms && !task->command->cpu_ms)
        (void)is_at_work(task->command, stats);
}

static void pump(void *arg)
{
    struct atoll_task_command *c = arg;
    struct atoll_reader_item item;
    struct atoll_exec_result end;
    struct atoll_error error;
    int r;

    expect_output(c);
    while ((r = atoll_reader_next(c->reader, &item)) > 0) {
        if (item.kind == ATOLL_READ_END) {
            end = *item.result;
            pass_partial(c, ATOLL_STREAM_STDOUT, end.stdout_bytes);
            pass_partial(c, ATOLL_STREAM_STDERR, end.stderr_bytes);
            finish(c, &end, NULL);
            return;
        }
        if (item.kind == ATOLL_READ_DATA)
            take(c, &item);
        else if (item.kind == ATOLL_READ_GAP)
            atoll_task_log(c->task, "info", "%llu bytes of output are not kept",
                           (unsigned long long)item.length);
    }
    if (r == 0) {
        atoll_reader_forget(c->reader, 0, 0);
        return;
    }
    (void)atoll_fail_errno(&error, -r, "reading the output of a command");
    finish(c, NULL, &error);
}

/* --- start --- */

static void follow(struct atoll_task_command *c, struct atoll_exec *exec)
{
    struct atoll_exec_view view;
    struct atoll_error error;

    atoll_exec_get(exec, &view);
    (void)!atoll_text_copy(c->exec_id, sizeof(c->exec_id), view.id);
    if (atoll_reader_open(exec, 0, 0, pump, c, &c->reader, &error) < 0) {
        finish(c, NULL, &error);
        return;
    }
    atoll_reader_follow(c->reader);
    if (c->request.stall_ms)
        atoll_task_figures(c->task, note_cpu);
    if (*c->killer)
        kill_it(c, c->killer);
    pump(c);
}

static void started(void *arg, struct atoll_exec *exec, const struct atoll_error *error)
{
    struct atoll_task_command *c = arg;

    if (c->dropped)
        command_free(c);
    else if (error)
        finish(c, NULL, error);
    else
        follow(c, exec);
}

static struct atoll_exec *find_marked(const struct atoll_task_command *c)
{
    struct atoll_sandbox *sandbox = atoll_engine_find(c->task->tasks->config.engine, c->sandbox_id);
    struct atoll_exec *exec;
    size_t pos = 0;

    while (sandbox && (exec = atoll_sandbox_next_exec(sandbox, &pos))) {
        struct atoll_exec_view view;
        size_t i = 0;

        atoll_exec_get(exec, &view);
        while (view.argv[i] && i < MARK_AT)
            i++;
        if (view.argv[i] && strcmp(view.argv[i], c->mark) == 0)
            return exec;
    }
    return NULL;
}

bool atoll_task_has_mark(const struct atoll_task *task, const char *const *argv)
{
    char start[64];
    size_t i = 0;

    (void)snprintf(start, sizeof(start), MARK ".%s.", task->id);
    while (argv[i] && i < MARK_AT)
        i++;
    return argv[i] && strncmp(argv[i], start, strlen(start)) == 0;
}

static void start(struct atoll_task_command *c, const struct atoll_task_command_request *request)
{
    size_t n = 0;
    const char **argv;

    while (request->argv[n])
        n++;
    argv = calloc(n + MARK_AT + 2, sizeof(*argv));
    if (!argv)
        abort();
    argv[0] = "/bin/sh";
    argv[1] = "-c";
    argv[2] = "exec \"$@\"";
    argv[MARK_AT] = c->mark;
    memcpy(argv + MARK_AT + 1, request->argv, n * sizeof(*argv));
    atoll_engine_exec(c->task->tasks->config.engine, c->sandbox_id,
                      &(struct atoll_exec_start){.argv = argv,
                                                 .env = request->env,
                                                 .user = request->user,
                                                 .cwd = request->cwd,
                                                 .timeout_ms = request->timeout_ms,
                                                 .is_command = request->shown != NULL,
                                                 .shown_from = MARK_AT + 1},
                      started, c);
    free(argv);
}

void atoll_task_command_run(struct atoll_task *task,
                            const struct atoll_task_command_request *request)
{
    struct atoll_task_command *c;
    struct atoll_exec *exec;

    /* A step that had no command to kill when it was canceled. */
    if (task->steps.error.kind != ATOLL_ERR_NONE) {
        struct atoll_error canceled = task->steps.error;
        request->done(task, NULL, "", &canceled);
        return;
    }
    c = atoll_alloc(sizeof(*c));
    c->task = task;
    c->request = *request;
    c->request.argv = c->request.env = NULL;
    c->request.shown = c->request.user = c->request.cwd = c->request.sandbox_id = NULL;
    (void)!atoll_text_copy(c->sandbox_id, sizeof(c->sandbox_id),
                           request->sandbox_id ? request->sandbox_id
                                               : atoll_task_fact(task, "sandbox_id"));
    (void)snprintf(c->mark, sizeof(c->mark), MARK ".%s.%s.%u.%u", task->id, request->name,
                   task->attempt, task->tries);
    atoll_buf_init(&c->partial[ATOLL_STREAM_STDOUT], PARTIAL_MAX + 1);
    atoll_buf_init(&c->partial[ATOLL_STREAM_STDERR], PARTIAL_MAX + 1);
    atoll_buf_init(&c->tail, (size_t)2 * ATOLL_TASK_TAIL_MAX + 8);
    task->command = c;
    exec = find_marked(c);
    if (exec) {
        atoll_task_log_offsets(task, c->logged);
        follow(c, exec);
    } else {
        if (request->shown)
            atoll_task_log(task, "command", "%s", request->shown);
        start(c, request);
    }
}

void atoll_task_command_kill(struct atoll_task *task, const char *who)
{
    if (!task->command)
        return;
    (void)snprintf(task->command->killer, sizeof(task->command->killer), "%s", who);
    kill_it(task->command, who);
}

void atoll_task_command_drop(struct atoll_task *task)
{
    struct atoll_task_command *c = task->command;

    task->command = NULL;
    if (c && (c->reader || *c->exec_id))
        command_free(c);
    else if (c)
        c->dropped = true;
}

void atoll_task_describe_end(const struct atoll_exec_result *result, char *out, size_t cap)
{
    if (result->kind == ATOLL_END_EXITED)
        (void)snprintf(out, cap, "exited with status %d", result->code);
    else if (result->kind == ATOLL_END_SIGNALED)
        (void)snprintf(out, cap, "was ended by signal %d", result->signal);
    else
        (void)snprintf(out, cap, "ended: %s%s%s", atoll_end_kind_name(result->kind),
                       *result->reason ? ": " : "", result->reason);
}
