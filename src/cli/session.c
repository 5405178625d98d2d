/*
 * The loop first handles events of the command until one of them is output that has to be written. Then
 * it polls four descriptors: the command's connection, a signalfd, standard input (while the daemon
 * accepts more), and the output descriptor (while output is waiting).
 */
#include "cli/session.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include "base/clock.h"
#include "cli/output.h"
#include "cli/print.h"
#include "cli/terminal.h"
#include "client/attach.h"

#define INPUT_CHUNK (64u * 1024)
/* A pipe that polls as writable accepts this many bytes without blocking (PIPE_BUF). */
#define OUTPUT_CHUNK 4096u
#define SIGNAL_TIMEOUT_MS 5000
/* How long a command may run on after SIGPIPE, when our output pipe has no reader any more. */
#define PIPE_GRACE_MS 2000
#define KEEP_ALIVE_MS 25000 /* while output cannot be written: see client/attach.h */

struct session {
    struct atoll_cli *cli;
    const struct atoll_cli_session_plan *plan;
    struct atoll_cli_outcome *outcome;
    struct atoll_client_process *process; /* owned */
    int signal_fd;                        /* owned */
    sigset_t old_mask;
    bool reads_stdin;
    bool started, ended;
    bool shows_progress; /* a progress line is on the terminal */
    int interrupts;
    int gave_up;                       /* signal that made us give up; 0: we did not */
    bool left;                         /* by Ctrl-P Ctrl-Q */
    bool saw_ctrl_p;                   /* as the last byte of input; it was not sent yet */
    int64_t give_up_ms, keep_alive_ms; /* deadlines on atoll_clock_ms(); 0: not set */

    /* Output not yet written; borrowed from the process until its next event. */
    const uint8_t *out;
    size_t out_n;
    int out_fd;
};

static int wait_signals(struct session *s, struct atoll_error *err)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH};
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigset_t mask;

    (void)sigemptyset(&mask);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(signals); i++)
        (void)sigaddset(&mask, signals[i]);
    /* In raw mode only `kill` sends SIGTSTP. Handle it, to leave raw mode before stopping. */
    if (s->plan->pty)
        (void)sigaddset(&mask, SIGTSTP);
    (void)sigaction(SIGPIPE, &ignore, NULL);
    (void)sigprocmask(SIG_BLOCK, &mask, &s->old_mask);
    s->signal_fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
    return s->signal_fd < 0 ? atoll_fail_errno(err, errno, "signalfd") : 0;
}

bool atoll_cli_stdin_is_null(void)
{
    struct stat st;

    if (fstat(STDIN_FILENO, &st) < 0)
        return true;
    return S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3);
}

static json_t *window_size(void)
{
    unsigned cols, rows;

    atoll_cli_terminal_size(&cols, &rows);
    return json_pack("{s:i, s:i}", "cols", (int)cols, "rows", (int)rows);
}

/* Hides the UNAVAILABLE error of a send: the daemon has closed the connection, and the reason is in
 * what it sent before, which the next receive returns. */
static int ignore_closed(struct session *s, int r, const struct atoll_error *err)
{
    if (r >= 0 || err->kind != ATOLL_ERR_UNAVAILABLE)
        return r;
    s->reads_stdin = false;
    return 0;
}

static int send_resize(struct session *s, struct atoll_error *err)
{
    unsigned cols, rows;

    atoll_cli_terminal_size(&cols, &rows);
    return ignore_closed(s, atoll_attach_resize(s->process, cols, rows, err), err);
}

/* Progress before the command starts (an image is pulled), redrawn on one line of the terminal. */
static void show_progress(void *arg, const char *text)
{
    struct session *s = arg;

    (void)fputs("\r\033[K", stderr);
    atoll_cli_put(stderr, text);
    (void)fflush(stderr);
    s->shows_progress = true;
}

static void clear_progress(struct session *s)
{
    if (s->shows_progress)
        (void)fputs("\r\033[K", stderr);
    s->shows_progress = false;
}

static int open_session(struct session *s, struct atoll_error *err)
{
    json_t *request = s->plan->request;
    int r;

    s->reads_stdin = s->plan->visits ? !atoll_cli_stdin_is_null()
                                     : s->plan->interactive || s->plan->pty ||
                                           (!isatty(STDIN_FILENO) && !atoll_cli_stdin_is_null());
    if ((s->reads_stdin && json_object_set_new(request, "stdin", json_true()) < 0) ||
        (s->plan->pty && json_object_set_new(request, "pty", window_size()) < 0))
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, ENOMEM, "no memory for the request");
    r = atoll_cli_open(s->cli, err);
    if (r < 0)
        return r;
    r = atoll_attach_open(s->cli->client, s->plan->target, s->outcome->sandbox_id, request,
                          &s->process, err);
    if (r == 0 && isatty(STDERR_FILENO))
        atoll_attach_on_progress(s->process, show_progress, s);
    return r;
}

static void close_session(struct session *s)
{
    clear_progress(s);
    atoll_cli_terminal_restore();
    if (s->signal_fd >= 0) {
        (void)close(ATOLL_TAKE_FD(s->signal_fd));
        (void)sigprocmask(SIG_SETMASK, &s->old_mask, NULL);
    }
    atoll_client_process_free(s->process);
    s->process = NULL;
}

/* Failure is not reported: the command may just have ended. */
static void signal_command(struct session *s, int signo, bool tree)
{
    struct atoll_error ignored;

    atoll_cli_set_timeout(s->cli, SIGNAL_TIMEOUT_MS);
    s->outcome->signal_sent =
        atoll_attach_signal(s->process, signo, tree, &ignored) < 0 ? 0 : signo;
}

static void destroy_sandbox(struct session *s)
{
    struct atoll_client_error error;

    atoll_cli_set_timeout(s->cli, SIGNAL_TIMEOUT_MS);
    /* NOT_FOUND is success: the daemon destroys the sandbox too when its client disconnects. */
    if (atoll_client_sandbox_destroy(s->cli->client, s->outcome->sandbox_id, &error) < 0 &&
        error.code != ATOLL_CLIENT_NOT_FOUND)
        atoll_cli_say("sandbox %s could not be destroyed: %s", s->outcome->sandbox_id,
                      error.message);
}

static void give_up(struct session *s, int signo)
{
    s->gave_up = signo;
    s->ended = true;
    atoll_attach_hang_up(s->process);
    if (!s->started || s->plan->visits)
        return;
    if (s->plan->owns_sandbox)
        destroy_sandbox(s);
    else
        signal_command(s, SIGKILL, true);
}

/* SIGTSTP: restores the terminal, stops this process, and returns to raw mode on SIGCONT. */
static int suspend(struct session *s, struct atoll_error *err)
{
    int r;

    atoll_cli_terminal_restore();
    (void)raise(SIGSTOP);
    r = atoll_cli_terminal_raw(err);
    return r < 0 ? r : send_resize(s, err);
}

static int on_signal(struct session *s, struct atoll_error *err)
{
    struct signalfd_siginfo info;
    int signo;

    if (read(s->signal_fd, &info, sizeof(info)) != (ssize_t)sizeof(info))
        return 0;
    signo = (int)info.ssi_signo;
    if (signo == SIGWINCH)
        return s->plan->pty && s->started ? send_resize(s, err) : 0;
    if (signo == SIGTSTP)
        return suspend(s, err);
    if (!s->started || s->plan->visits || s->interrupts++ > 0)
        give_up(s, signo);
    else
        /* The signals of a terminal are for all processes of the command; SIGTERM is for one. */
        signal_command(s, signo, signo != SIGTERM);
    return 0;
}

static int on_start(struct session *s, struct atoll_error *err)
{
    struct atoll_cli_outcome *o = s->outcome;
    int r;

    clear_progress(s);
    r = s->plan->pty ? atoll_cli_terminal_raw(err) : 0;
    (void)snprintf(o->exec_id, sizeof(o->exec_id), "%s", atoll_client_process_exec_id(s->process));
    (void)snprintf(o->sandbox_id, sizeof(o->sandbox_id), "%s", atoll_attach_sandbox_id(s->process));
    s->started = r == 0;
    return r;
}

static int on_event(struct session *s, const struct atoll_client_event *e, struct atoll_error *err)
{
    switch (e->kind) {
    case ATOLL_CLIENT_EVENT_STARTED:
        return on_start(s, err);
    case ATOLL_CLIENT_EVENT_END:
        s->outcome->result = json_incref(atoll_attach_record(s->process));
        s->ended = true;
        break;
    case ATOLL_CLIENT_EVENT_DROPPED:
        atoll_cli_outcome_gap(s->outcome, e->stream, e->from, e->to, false);
        break;
    case ATOLL_CLIENT_EVENT_OUTPUT:
        if (atoll_cli_outcome_take(s->outcome, e->stream, e->bytes, e->size))
            break;
        s->out_fd = e->stream;
        s->out = e->bytes;
        s->out_n = e->size;
        break;
    }
    return 0;
}

/* Handles the events that have arrived, up to output that must be written first. */
static int receive(struct session *s, struct atoll_error *err)
{
    while (!s->ended && s->out_n == 0) {
        const struct atoll_client_event *event;
        int r = atoll_attach_next(s->process, 0, &event, err);
        if (r > 0)
            r = on_event(s, event, err);
        else if (r == 0)
            return 0;
        if (r < 0)
            return r;
    }
    return 0;
}

/* The reader of our output is gone. Sends SIGPIPE to the command, as if it had written to the pipe. */
static void on_broken_pipe(struct session *s)
{
    s->outcome->closed[s->out_fd] = true;
    s->out_n = 0;
    if (s->out_fd != STDOUT_FILENO || s->give_up_ms)
        return;
    if (s->plan->visits) {
        give_up(s, SIGPIPE);
        return;
    }
    signal_command(s, SIGPIPE, false);
    s->give_up_ms = atoll_clock_ms() + PIPE_GRACE_MS;
}

static int write_output(struct session *s, struct atoll_error *err)
{
    struct pollfd ready = {.fd = s->out_fd, .events = POLLOUT};

    while (s->out_n > 0 && poll(&ready, 1, 0) > 0) {
        ssize_t n = write(s->out_fd, s->out, ATOLL_MIN(s->out_n, OUTPUT_CHUNK));
        if (n < 0 && (errno == EINTR || errno == EAGAIN))
            break;
        if (n < 0 && errno != EPIPE)
            return atoll_fail_errno(err, errno, "writing the command's output");
        if (n < 0) {
            on_broken_pipe(s);
            break;
        }
        s->out += n;
        s->out_n -= (size_t)n;
    }
    return 0;
}

/* The process object may hold buffered events, which poll() does not see: handles all of them, until
 * output cannot be written. */
static int drain(struct session *s, struct atoll_error *err)
{
    int r = receive(s, err);

    while (r == 0 && s->out_n > 0) {
        r = write_output(s, err);
        if (r < 0 || s->out_n > 0)
            return r;
        r = receive(s, err);
    }
    return r;
}

#define CTRL_P 0x10
#define CTRL_Q 0x11

/* Looks for Ctrl-P Ctrl-Q in input[1…n], and returns where the bytes to send begin and how many they
 * are. input[0] is room for a Ctrl-P that was held back. A Ctrl-P at the end is held back. */
static const uint8_t *find_leave(struct session *s, uint8_t *input, size_t *n)
{
    uint8_t *begin = input + 1;

    if (s->saw_ctrl_p) {
        *--begin = CTRL_P;
        ++*n;
    }
    for (size_t i = 0; i + 1 < *n && !s->left; i++)
        if (begin[i] == CTRL_P && begin[i + 1] == CTRL_Q) {
            s->left = s->ended = true;
            *n = i;
        }
    s->saw_ctrl_p = !s->left && *n > 0 && begin[*n - 1] == CTRL_P;
    *n -= s->saw_ctrl_p;
    return begin;
}

static int read_input(struct session *s, struct atoll_error *err)
{
    static uint8_t chunk[1 + INPUT_CHUNK];
    ssize_t n = read(STDIN_FILENO, chunk + 1, INPUT_CHUNK);
    const uint8_t *begin = chunk + 1;
    size_t len = n > 0 ? (size_t)n : 0;
    int r = 0;

    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return 0;
    /* A read error (the terminal is gone) counts as end of file. */
    if (n <= 0)
        s->reads_stdin = false;
    if (s->plan->visits && s->plan->pty)
        begin = find_leave(s, chunk, &len);
    if (len > 0)
        r = (int)atoll_attach_write(s->process, begin, len, err);
    else if (n <= 0 && !s->plan->visits)
        r = atoll_attach_close_input(s->process, err);
    return ignore_closed(s, ATOLL_MIN(r, 0), err);
}

static int poll_timeout(const struct session *s)
{
    int64_t now = atoll_clock_ms(), until = INT64_MAX;

    if (s->give_up_ms)
        until = s->give_up_ms;
    if (s->out_n > 0)
        until = ATOLL_MIN(until, s->keep_alive_ms);
    if (until == INT64_MAX)
        return -1;
    return (int)ATOLL_MAX(until - now, 0);
}

static int check_timers(struct session *s, struct atoll_error *err)
{
    int64_t now = atoll_clock_ms();

    if (s->give_up_ms && now >= s->give_up_ms) {
        give_up(s, SIGPIPE);
        return 0;
    }
    if (s->out_n == 0) {
        s->keep_alive_ms = now + KEEP_ALIVE_MS;
    } else if (now >= s->keep_alive_ms) {
        s->keep_alive_ms = now + KEEP_ALIVE_MS;
        return ignore_closed(s, atoll_attach_keep_alive(s->process, err), err);
    }
    return 0;
}

static int step(struct session *s, struct atoll_error *err)
{
    bool takes_input = s->started && s->reads_stdin && atoll_attach_takes_input(s->process);
    /* While output waits, do not receive: POLLIN of a closed connection would make poll() spin. */
    short events = (short)(atoll_client_process_events(s->process) & (s->out_n > 0 ? ~POLLIN : ~0));
    struct pollfd fds[] = {
        {.fd = s->signal_fd, .events = POLLIN},
        {.fd = takes_input ? STDIN_FILENO : -1, .events = POLLIN},
        {.fd = s->out_n > 0 ? s->out_fd : -1, .events = POLLOUT},
        {.fd = events ? atoll_client_process_fd(s->process) : -1, .events = events},
    };
    int r = 0;

    if (poll(fds, ATOLL_ARRAY_LEN(fds), poll_timeout(s)) < 0 && errno != EINTR)
        return atoll_fail_errno(err, errno, "poll");
    if (fds[0].revents)
        r = on_signal(s, err);
    if (r == 0 && !s->ended && fds[2].revents)
        r = write_output(s, err);
    if (r == 0 && !s->ended && fds[1].revents)
        r = read_input(s, err);
    if (r == 0 && !s->ended && s->out_n > 0 && fds[3].revents) {
        r = ignore_closed(s, atoll_attach_flush(s->process, err), err);
        if (r < 0 && err->kind == ATOLL_ERR_DEADLINE_EXCEEDED)
            r = 0;
    }
    if (r == 0 && !s->ended)
        r = check_timers(s, err);
    return r;
}

/* Follows the command's journal after the connection was lost, for example because the daemon was
 * restarted. Input is not resumed, so this is not done for a PTY. */
static int resume_output(struct session *s, struct atoll_error *err)
{
    int r;

    if (s->out_n > 0)
        s->outcome->seen[s->out_fd] -= s->out_n;
    atoll_cli_say("connection to the daemon lost; resuming the output");
    r = atoll_cli_output_read(s->cli, s->outcome, true, err);
    /* The connection that would have destroyed the sandbox at its end is gone. */
    if (s->plan->owns_sandbox)
        destroy_sandbox(s);
    return r;
}

int atoll_cli_session_run(struct atoll_cli *cli, const struct atoll_cli_session_plan *plan,
                          struct atoll_cli_outcome *outcome, struct atoll_error *err)
{
    struct session s = {.cli = cli, .plan = plan, .outcome = outcome, .signal_fd = ATOLL_NO_FD};
    int r = open_session(&s, err);

    if (r == 0)
        r = wait_signals(&s, err);
    while (r == 0 && !s.ended) {
        r = drain(&s, err);
        if (r == 0 && !s.ended)
            r = step(&s, err);
    }
    close_session(&s);
    if (r < 0 && s.started && !plan->pty && !plan->visits && err->kind == ATOLL_ERR_UNAVAILABLE)
        r = resume_output(&s, err);
    if (r < 0)
        return r;
    if (s.left)
        atoll_cli_say("left command %s, which continues", outcome->exec_id);
    return s.gave_up ? 128 + s.gave_up : 0;
}

int atoll_cli_session_attach(struct atoll_cli *cli, const char *sandbox, json_t *request,
                             bool interactive, bool pty, struct atoll_error *err)
{
    struct atoll_cli_outcome outcome;
    struct atoll_link_target target;
    struct atoll_cli_session_plan plan = {
        .target = target.text, .request = request, .interactive = interactive, .pty = pty};
    int r = atoll_link_target(&target, err, "/api/sandboxes/%s/execs/stream", sandbox);

    if (r < 0)
        return r;
    atoll_cli_outcome_init(&outcome, cli->json);
    (void)snprintf(outcome.sandbox_id, sizeof(outcome.sandbox_id), "%s", sandbox);
    r = atoll_cli_session_run(cli, &plan, &outcome, err);
    if (r == 0)
        r = atoll_cli_outcome_report(&outcome, err);
    atoll_cli_outcome_done(&outcome);
    return r;
}
