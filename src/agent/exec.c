/*
 * Commands: start, signal, resize, resume, list, forget. A command is kept, with its unacknowledged
 * output and its exit record, until the daemon sends FORGET.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include "agent/agent_internal.h"
#include "base/clock.h"
#include "base/rand.h"
#include "sys/pty.h"

#define WINDOW_MIN 4096
#define COLS_DEFAULT 80
#define ROWS_DEFAULT 24

struct atoll_agent_exec *atoll_agent_exec_get(struct atoll_agent *a, uint64_t id)
{
    ATOLL_LIST_FOREACH (&a->execs, node) {
        struct atoll_agent_exec *exec = ATOLL_CONTAINER_OF(node, struct atoll_agent_exec, node);
        if (exec->id == id)
            return exec;
    }
    return NULL;
}

struct atoll_agent_exec *atoll_agent_exec_by_pid(struct atoll_agent *a, pid_t pid)
{
    ATOLL_LIST_FOREACH (&a->execs, node) {
        struct atoll_agent_exec *exec = ATOLL_CONTAINER_OF(node, struct atoll_agent_exec, node);
        if (exec->pid == pid && !exec->reaped)
            return exec;
    }
    return NULL;
}

struct atoll_agent_exec *atoll_agent_exec_free(struct atoll_agent_exec *exec)
{
    if (!exec)
        return NULL;
    if (exec->node.next)
        exec->agent->exec_count--;
    atoll_list_remove(&exec->node);
    atoll_list_remove(&exec->ready);
    atoll_timer_cancel(&exec->timeout);
    atoll_timer_cancel(&exec->settle);
    atoll_agent_stdin_done(exec);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(exec->streams); i++)
        atoll_agent_stream_done(&exec->streams[i]);
    free(exec->rings);
    free(exec);
    return NULL;
}

static void auto_free_exec(struct atoll_agent_exec **exec)
{
    *exec = atoll_agent_exec_free(*exec);
}

void atoll_agent_execs_detach(struct atoll_agent *a)
{
    ATOLL_LIST_FOREACH (&a->execs, node) {
        struct atoll_agent_exec *exec = ATOLL_CONTAINER_OF(node, struct atoll_agent_exec, node);
        exec->attached = false;
        exec->in.request = 0;
        atoll_list_remove(&exec->ready);
    }
}

void atoll_agent_execs_drop(struct atoll_agent *a)
{
    ATOLL_LIST_FOREACH (&a->execs, node)
        (void)atoll_agent_exec_free(ATOLL_CONTAINER_OF(node, struct atoll_agent_exec, node));
}

/* The descriptors of a new command: `child` becomes its stdio, the others are the agent's ends. */
struct stdio {
    int child[3];     /* owned, except the shared /dev/null */
    int in, out, err; /* owned */
};

static void stdio_done(struct stdio *io)
{
    const int fds[] = {io->child[0], io->child[1], io->child[2], io->in, io->out, io->err};

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(fds); i++)
        if (fds[i] >= 0)
            (void)close(fds[i]);
}

/* Creates a pipe; the agent's end, ends[ours], is non-blocking. The user owns it, or could not open
 * /dev/stdout and the like. An agent without privilege cannot give it away, and need not. */
static int make_pipe(int ends[2], int ours, const struct atoll_agent_user *user)
{
    if (pipe2(ends, O_CLOEXEC) < 0)
        return -errno;
    (void)!fchown(ends[0], user->uid, user->gid);
    return fcntl(ends[ours], F_SETFL, O_NONBLOCK) < 0 ? -errno : 0;
}

static int open_pipes(struct stdio *io, bool with_stdin, const struct atoll_agent_user *user)
{
    int in[2] = {ATOLL_NO_FD, ATOLL_NO_FD}, out[2] = {ATOLL_NO_FD, ATOLL_NO_FD};
    int err[2] = {ATOLL_NO_FD, ATOLL_NO_FD};
    int r = with_stdin ? make_pipe(in, 1, user) : 0;

    if (r == 0)
        r = make_pipe(out, 0, user);
    if (r == 0)
        r = make_pipe(err, 0, user);
    *io = (struct stdio){{in[0], out[1], err[1]}, in[1], out[0], err[0]};
    return r;
}

/* Creates the terminal with the user's identity, so that the user owns it. */
static int open_terminal(struct stdio *io, const struct atoll_am_exec_start *msg)
{
    struct winsize size = {.ws_col = (unsigned short)(msg->cols ? msg->cols : COLS_DEFAULT),
                           .ws_row = (unsigned short)(msg->rows ? msg->rows : ROWS_DEFAULT)};
    int unlock = 0;

    io->out = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
    if (io->out < 0 || ioctl(io->out, TIOCSPTLCK, &unlock) < 0 ||
        ioctl(io->out, TIOCSWINSZ, &size) < 0)
        return -errno;
    io->child[0] = atoll_pty_peer(io->out);
    if (io->child[0] < 0)
        return io->child[0];
    io->child[1] = fcntl(io->child[0], F_DUPFD_CLOEXEC, 3);
    io->child[2] = fcntl(io->child[0], F_DUPFD_CLOEXEC, 3);
    /* A second descriptor for writing, because epoll watches a descriptor only once. */
    io->in = fcntl(io->out, F_DUPFD_CLOEXEC, 3);
    return io->child[1] < 0 || io->child[2] < 0 || io->in < 0 ? -errno : 0;
}

static int open_stdio(struct atoll_agent *a, const struct atoll_agent_exec *exec,
                      const struct atoll_am_exec_start *msg, const struct atoll_agent_user *user,
                      struct stdio *io, struct atoll_error *err)
{
    int r;

    if (exec->pty) {
        r = atoll_agent_become(a, user, err);
        if (r < 0)
            return r;
        r = open_terminal(io, msg);
        atoll_agent_unbecome(a);
    } else {
        r = open_pipes(io, msg->flags & ATOLL_EXEC_STDIN, user);
    }
    if (r == -EMFILE || r == -ENFILE || r == -ENOSPC)
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, -r,
                          "the sandbox has too many open files or terminals");
    return r < 0 ? atoll_fail_errno(err, -r, "open %s", exec->pty ? "a terminal" : "pipes") : 0;
}

/* Moves the agent's ends to the exec. */
static int take_stdio(struct atoll_agent_exec *exec, struct stdio *io)
{
    int r = atoll_agent_stream_open(&exec->streams[0], exec, ATOLL_STREAM_STDOUT,
                                    ATOLL_TAKE_FD(io->out));
    if (r == 0 && io->err >= 0)
        r = atoll_agent_stream_open(&exec->streams[1], exec, ATOLL_STREAM_STDERR,
                                    ATOLL_TAKE_FD(io->err));
    if (r == 0 && io->in >= 0)
        r = atoll_agent_stdin_open(exec, ATOLL_TAKE_FD(io->in));
    return r;
}

static struct atoll_agent_exec *exec_new(struct atoll_agent *a,
                                         const struct atoll_am_exec_start *msg)
{
    struct atoll_agent_exec *exec = calloc(1, sizeof(*exec));
    uint32_t window = msg->window ? msg->window : ATOLL_AGENT_WINDOW_DEFAULT;
    uint64_t mark;

    if (!exec)
        return NULL;
    exec->agent = a;
    exec->id = msg->exec;
    exec->pty = msg->flags & ATOLL_EXEC_PTY;
    exec->window =
        ATOLL_MIN(ATOLL_MAX(window, (uint32_t)WINDOW_MIN), (uint32_t)ATOLL_AGENT_WINDOW_MAX);
    exec->in.fd = ATOLL_NO_FD;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(exec->streams); i++) {
        exec->streams[i].exec = exec;
        exec->streams[i].fd = ATOLL_NO_FD;
    }
    exec->rings = malloc((exec->pty ? 1 : 2) * (size_t)exec->window);
    if (!exec->rings)
        return atoll_agent_exec_free(exec);
    atoll_rand_bytes(&mark, sizeof(mark));
    (void)snprintf(exec->mark, sizeof(exec->mark), "%016llx", (unsigned long long)mark);
    return exec;
}

static int launch(struct atoll_agent *a, struct atoll_agent_exec *exec,
                  const struct atoll_am_exec_start *msg, const struct atoll_agent_user *user,
                  const struct stdio *io, struct atoll_error *err)
{
    struct atoll_agent_env_spec spec = {user,           exec->mark,   exec->pty,
                                        msg->env.items, msg->env.len, a->config.base_env};
    /* One slot before argv[0] and one for the NULL at the end. */
    ATOLL_AUTOFREE const char **argv = calloc(msg->argv.len + 2, sizeof(*argv));
    char cwd[ATOLL_AGENT_PATH_MAX];
    struct atoll_agent_env env;
    struct atoll_agent_launch l = {.user = user, .terminal = exec->pty ? 0 : -1, .cwd = cwd};
    int r;

    if (!argv)
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, ENOMEM, "no memory for the arguments");
    memcpy(argv + 1, msg->argv.items, msg->argv.len * sizeof(*argv));
    r = atoll_agent_path_absolute(user, msg->cwd, cwd, err);
    if (r < 0)
        return r;
    r = atoll_agent_env_init(&env, &spec, err);
    if (r < 0)
        return r;
    l.argv = argv + 1;
    l.envp = env.vars;
    l.path = atoll_agent_env_get(&env, "PATH");
    l.cwd_optional = *msg->cwd == '\0' && !a->config.workdir;
    for (int i = 0; i < 3; i++)
        l.stdio[i] = io->child[i] >= 0 ? io->child[i] : a->null_fd;
    r = atoll_agent_launch(a, &l, err);
    atoll_agent_env_done(&env);
    return r;
}

static void time_is_up(void *arg)
{
    struct atoll_agent_exec *exec = arg;

    exec->timed_out = true;
    (void)atoll_agent_tree_kill(exec->agent, exec, SIGKILL);
}

void atoll_agent_execs_hold(struct atoll_agent *a)
{
    ATOLL_LIST_FOREACH (&a->execs, node) {
        struct atoll_agent_exec *exec = ATOLL_CONTAINER_OF(node, struct atoll_agent_exec, node);
        if (!exec->timeout.loop)
            continue;
        exec->held_ms = ATOLL_MAX(exec->timeout.at_ms - atoll_clock_ms(), (int64_t)1);
        atoll_timer_cancel(&exec->timeout);
    }
}

void atoll_agent_execs_release(struct atoll_agent *a)
{
    ATOLL_LIST_FOREACH (&a->execs, node) {
        struct atoll_agent_exec *exec = ATOLL_CONTAINER_OF(node, struct atoll_agent_exec, node);
        if (exec->held_ms > 0 && !exec->reaped)
            atoll_timer_set(&exec->timeout, a->loop, exec->held_ms, time_is_up, exec);
        exec->held_ms = 0;
    }
}

static int check_start(struct atoll_agent *a, const struct atoll_am_exec_start *msg,
                       struct atoll_error *err)
{
    if (msg->argv.len == 0)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "no command was given");
    if (msg->cols > UINT16_MAX || msg->rows > UINT16_MAX)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "the terminal is too large");
    if (atoll_agent_exec_get(a, msg->exec))
        return atoll_fail(err, ATOLL_ERR_ALREADY_EXISTS, EEXIST, "command %llu already exists",
                          (unsigned long long)msg->exec);
    if (a->exec_count >= a->config.max_execs)
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, EBUSY,
                          "the sandbox has %zu commands already", a->exec_count);
    return 0;
}

int atoll_agent_on_exec_start(struct atoll_agent *a, uint32_t request, const void *message,
                              struct atoll_error *err)
{
    const struct atoll_am_exec_start *msg = message;
    struct stdio io ATOLL_CLEANUP(stdio_done) = {
        {ATOLL_NO_FD, ATOLL_NO_FD, ATOLL_NO_FD}, ATOLL_NO_FD, ATOLL_NO_FD, ATOLL_NO_FD};
    ATOLL_CLEANUP(auto_free_exec) struct atoll_agent_exec *exec = NULL;
    struct atoll_agent_user user;
    struct atoll_am_exec_started started;
    int r = check_start(a, msg, err);

    if (r == 0)
        atoll_agent_views_touch(a);
    if (r == 0)
        r = atoll_agent_user_find(a, msg->user, &user, err);
    if (r < 0)
        return r;
    exec = exec_new(a, msg);
    if (!exec)
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, ENOMEM, "no memory for the command");
    r = open_stdio(a, exec, msg, &user, &io, err);
    if (r < 0)
        return r;
    r = take_stdio(exec, &io);
    if (r < 0)
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, -r, "cannot watch more pipes");
    exec->oom_base = atoll_agent_oom_kills(a);
    r = launch(a, exec, msg, &user, &io, err);
    if (r < 0)
        return r;
    exec->pid = r;
    exec->started_unix_ms = atoll_clock_unix_ms();
    exec->attached = true;
    if (msg->timeout_ms > 0)
        atoll_timer_set(&exec->timeout, a->loop, msg->timeout_ms, time_is_up, exec);
    atoll_list_push_back(&a->execs, &exec->node);
    a->exec_count++;
    started.pid = (uint32_t)exec->pid;
    exec = NULL;
    atoll_agent_reply(a, request, &atoll_am_exec_started_desc, &started);
    return ATOLL_AGENT_ANSWERED;
}

static int find(struct atoll_agent *a, uint64_t id, struct atoll_agent_exec **ret_exec,
                struct atoll_error *err)
{
    struct atoll_agent_exec *exec = atoll_agent_exec_get(a, id);

    if (!exec)
        return atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT, "there is no command %llu",
                          (unsigned long long)id);
    *ret_exec = exec;
    return 0;
}

static void note_signal(struct atoll_agent_exec *exec, const struct atoll_am_signal *msg)
{
    exec->signals_sent |= 1ull << (msg->signal - 1);
    (void)snprintf(exec->who, sizeof(exec->who), "%s", msg->who);
}

/* As PID 1 of the namespace, kill(-1) signals all other processes atomically, so no fork
 * escapes. */
static int signal_every(struct atoll_agent *a, const struct atoll_am_signal *msg)
{
    bool first = getpid() == 1;

    ATOLL_LIST_FOREACH (&a->execs, node) {
        struct atoll_agent_exec *exec = ATOLL_CONTAINER_OF(node, struct atoll_agent_exec, node);
        if (!exec->reaped)
            note_signal(exec, msg);
        if (!first)
            (void)atoll_agent_tree_kill(a, exec, msg->signal);
    }
    if (first)
        (void)kill(-1, msg->signal); /* ESRCH: no other process exists */
    return 0;
}

int atoll_agent_on_exec_signal(struct atoll_agent *a, uint32_t request, const void *message,
                               struct atoll_error *err)
{
    const struct atoll_am_signal *msg = message;
    struct atoll_agent_exec *exec = NULL;
    bool every = msg->exec == ATOLL_EXEC_EVERY && msg->tree;
    int r = every ? 0 : find(a, msg->exec, &exec, err);

    (void)request;
    if (r < 0)
        return r;
    if (msg->signal < 1 || msg->signal > 64)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "%d is not a signal number",
                          msg->signal);
    if (every)
        return signal_every(a, msg);
    if (exec->reaped && !msg->tree)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, ESRCH, "the command has ended");
    note_signal(exec, msg);
    if (msg->tree)
        (void)atoll_agent_tree_kill(a, exec, msg->signal);
    else if (kill(exec->pid, msg->signal) < 0)
        return atoll_fail_errno(err, errno, "send signal %d", msg->signal);
    return 0;
}

int atoll_agent_on_exec_resize(struct atoll_agent *a, uint32_t request, const void *message,
                               struct atoll_error *err)
{
    const struct atoll_am_resize *msg = message;
    struct winsize size = {.ws_col = (unsigned short)msg->cols,
                           .ws_row = (unsigned short)msg->rows};
    struct atoll_agent_exec *exec = NULL;
    int r = find(a, msg->exec, &exec, err);

    (void)request;
    if (r < 0)
        return r;
    if (msg->cols < 1 || msg->cols > UINT16_MAX || msg->rows < 1 || msg->rows > UINT16_MAX)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "a terminal has 1 to 65535 columns and rows");
    if (!exec->pty || exec->streams[0].fd < 0)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, ENOTTY,
                          exec->pty ? "the command has ended" : "the command has no terminal");
    if (ioctl(exec->streams[0].fd, TIOCSWINSZ, &size) < 0)
        return atoll_fail_errno(err, errno, "resize the terminal");
    return 0;
}

int atoll_agent_on_exec_resume(struct atoll_agent *a, uint32_t request, const void *message,
                               struct atoll_error *err)
{
    const struct atoll_am_resume *msg = message;
    struct atoll_agent_exec *exec = NULL;
    int r = find(a, msg->exec, &exec, err);

    if (r == 0)
        r = atoll_agent_stream_resume(&exec->streams[0], msg->stdout_offset, err);
    if (r == 0)
        r = atoll_agent_stream_resume(&exec->streams[1], msg->stderr_offset, err);
    if (r < 0)
        return r;
    exec->attached = true;
    exec->exit_sent = false;
    atoll_agent_reply(a, request, NULL, NULL);
    atoll_agent_output_ready(exec);
    return ATOLL_AGENT_ANSWERED;
}

int atoll_agent_on_exec_list(struct atoll_agent *a, uint32_t request, const void *message,
                             struct atoll_error *err)
{
    (void)message;
    (void)err;
    ATOLL_LIST_FOREACH (&a->execs, node) {
        const struct atoll_agent_exec *exec =
            ATOLL_CONTAINER_OF(node, struct atoll_agent_exec, node);
        struct atoll_am_exec_info info = {.exec = exec->id,
                                          .pid = (uint32_t)exec->pid,
                                          .ended = exec->ended,
                                          .stdout_bytes = exec->streams[0].produced,
                                          .stderr_bytes = exec->streams[1].produced,
                                          .stdin_bytes = exec->in.taken,
                                          .started_unix_ms = exec->started_unix_ms,
                                          .stdout_acked = exec->streams[0].acked,
                                          .stderr_acked = exec->streams[1].acked};
        atoll_agent_part(a, request, &atoll_am_exec_info_desc, &info);
    }
    return 0;
}

int atoll_agent_on_exec_ack(struct atoll_agent *a, uint32_t request, const void *message,
                            struct atoll_error *err)
{
    const struct atoll_am_ack *msg = message;
    struct atoll_agent_exec *exec = atoll_agent_exec_get(a, msg->exec);

    (void)request;
    (void)err;
    if (!exec || msg->stream < ATOLL_STREAM_STDOUT || msg->stream > ATOLL_STREAM_STDERR)
        return 0; /* forgotten meanwhile */
    return atoll_agent_stream_ack(&exec->streams[msg->stream - ATOLL_STREAM_STDOUT], msg->offset);
}

int atoll_agent_on_exec_forget(struct atoll_agent *a, uint32_t request, const void *message,
                               struct atoll_error *err)
{
    const struct atoll_am_exec_ref *msg = message;
    struct atoll_agent_exec *exec = atoll_agent_exec_get(a, msg->exec);

    (void)request;
    (void)err;
    if (exec && exec->ended)
        (void)atoll_agent_exec_free(exec);
    return 0;
}
