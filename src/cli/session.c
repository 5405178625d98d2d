/*
 * How it works. The loop first takes messages off the WebSocket until one of them is output that
 * has to be written; then it polls four descriptors: the WebSocket, a signalfd, standard input
 * while the daemon has room for more, and the descriptor with output waiting.
 *
 * Signals are passed on by a request of their own and not by the WebSocket, where they would queue
 * behind input that the command does not read.
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

#define INPUT_CHUNK (64u * 1024)
#define INPUT_PENDING_MAX (256u * 1024)
/* What a pipe that polls as writable takes without blocking. */
#define OUTPUT_CHUNK 4096u
#define SIGNAL_TIMEOUT_MS 5000
/* For a command whose output nobody reads any more to end by itself. */
#define PIPE_GRACE_MS 2000
/* The daemon takes a client for dead that says nothing for 90 s, as one does that is waiting for
 * its own reader. */
#define KEEP_ALIVE_MS 25000

struct session {
    struct atoll_cli *cli;
    const struct atoll_cli_session_plan *plan;
    struct atoll_cli_outcome *outcome;
    struct atoll_wsc *ws; /* owned */
    int signal_fd;        /* owned */
    sigset_t old_mask;
    bool reads_stdin;
    bool started, ended;
    int interrupts;
    int gave_up;                       /* the signal it was for, 0 while we have not */
    int64_t give_up_ms, keep_alive_ms; /* on the clock, 0: not set */

    /* Output not yet written; borrowed from ws until the next receive. */
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
    /* In raw mode only `kill` sends it, and the terminal must not be left raw. */
    if (s->plan->pty)
        (void)sigaddset(&mask, SIGTSTP);
    (void)sigaction(SIGPIPE, &ignore, NULL);
    (void)sigprocmask(SIG_BLOCK, &mask, &s->old_mask);
    s->signal_fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
    return s->signal_fd < 0 ? atoll_fail_errno(err, errno, "signalfd") : 0;
}

/* Nothing will ever come from /dev/null, so the command can do without a pipe. */
static bool stdin_is_null(void)
{
    struct stat st;

    if (fstat(STDIN_FILENO, &st) < 0)
        return true;
    return S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3);
}

static int send_text(struct session *s, json_t *message, struct atoll_error *err)
{
    ATOLL_AUTOFREE char *text = message ? json_dumps(message, JSON_COMPACT) : NULL;

    if (!text)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "an argument or variable is not valid UTF-8");
    return atoll_wsc_send(s->ws, false, text, strlen(text), err);
}

static json_t *window_size(void)
{
    unsigned cols, rows;

    atoll_cli_terminal_size(&cols, &rows);
    return json_pack("{s:i, s:i}", "cols", (int)cols, "rows", (int)rows);
}

/* A daemon that no longer listens has already said why: receiving will tell. */
static int forgive(struct session *s, int r, const struct atoll_error *err)
{
    if (r >= 0 || err->kind != ATOLL_ERR_UNAVAILABLE)
        return r;
    s->reads_stdin = false;
    return 0;
}

static int send_resize(struct session *s, struct atoll_error *err)
{
    ATOLL_CLI_AUTOJSON json_t *message = json_pack("{s:o}", "resize", window_size());
    return forgive(s, send_text(s, message, err), err);
}

static int open_session(struct session *s, struct atoll_error *err)
{
    json_t *request = s->plan->request;
    int r;

    s->reads_stdin =
        s->plan->interactive || s->plan->pty || (!isatty(STDIN_FILENO) && !stdin_is_null());
    if ((s->reads_stdin && json_object_set_new(request, "stdin", json_true()) < 0) ||
        (s->plan->pty && json_object_set_new(request, "pty", window_size()) < 0))
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, ENOMEM, "no memory for the request");
    r = atoll_cli_websocket(s->cli, s->plan->target, &s->ws, err);
    return r < 0 ? r : send_text(s, request, err);
}

static void close_session(struct session *s)
{
    atoll_cli_terminal_restore();
    if (s->signal_fd >= 0) {
        (void)close(ATOLL_TAKE_FD(s->signal_fd));
        (void)sigprocmask(SIG_SETMASK, &s->old_mask, NULL);
    }
    s->ws = atoll_wsc_free(s->ws);
}

/* POST …/signal. A command that is gone by now needs none, so failure is not reported. */
static void signal_command(struct session *s, int signo, bool tree)
{
    struct atoll_cli_target target;
    struct atoll_error ignored;
    char name[ATOLL_CLI_SIGNAL_MAX];
    ATOLL_CLI_AUTOJSON json_t *body =
        json_pack("{s:s, s:b}", "signal", atoll_cli_signal_name(signo, name), "tree", tree ? 1 : 0);

    s->outcome->signal_sent = signo;
    atoll_cli_set_timeout(s->cli, SIGNAL_TIMEOUT_MS);
    if (atoll_cli_target(&target, &ignored, "/api/sandboxes/%s/execs/%s/signal",
                         s->outcome->sandbox_id, s->outcome->exec_id) == 0 &&
        atoll_cli_call(s->cli, "POST", target.text, body, NULL, &ignored) < 0)
        s->outcome->signal_sent = 0;
}

static void destroy_sandbox(struct session *s)
{
    struct atoll_cli_target target;
    struct atoll_error error;

    atoll_cli_set_timeout(s->cli, SIGNAL_TIMEOUT_MS);
    if (atoll_cli_target(&target, &error, "/api/sandboxes/%s", s->outcome->sandbox_id) < 0)
        return;
    /* The daemon may be faster: it destroys what its client has left. */
    if (atoll_cli_call(s->cli, "DELETE", target.text, NULL, NULL, &error) < 0 &&
        error.kind != ATOLL_ERR_NOT_FOUND)
        atoll_cli_say("sandbox %s could not be destroyed: %s", s->outcome->sandbox_id, error.text);
}

static void give_up(struct session *s, int signo)
{
    s->gave_up = signo;
    s->ended = true;
    s->ws = atoll_wsc_free(s->ws);
    if (!s->started)
        return;
    if (s->plan->owns_sandbox)
        destroy_sandbox(s);
    else
        signal_command(s, SIGKILL, true);
}

/* Stops like any program would, but with the terminal in order. */
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
    if (!s->started || s->interrupts++ > 0)
        give_up(s, signo);
    else
        /* A terminal would signal the whole job; only `kill` aims at one process. */
        signal_command(s, signo, signo != SIGTERM);
    return 0;
}

static int copy_id(char *out, size_t cap, const json_t *message, const char *key,
                   struct atoll_error *err)
{
    const char *id = atoll_cli_text(message, key, NULL);

    if (!id)
        return 0;
    if (strlen(id) >= cap || atoll_cli_check_id("daemon's", id, err) < 0)
        return atoll_fail(err, ATOLL_ERR_DATA_LOSS, EPROTO, "the daemon sent a malformed id");
    memcpy(out, id, strlen(id) + 1);
    return 0;
}

static int on_start(struct session *s, const json_t *message, struct atoll_error *err)
{
    struct atoll_cli_outcome *o = s->outcome;
    int r = copy_id(o->exec_id, sizeof(o->exec_id), message, "exec_id", err);

    if (r == 0)
        r = copy_id(o->sandbox_id, sizeof(o->sandbox_id), message, "sandbox_id", err);
    if (r == 0 && s->plan->pty)
        r = atoll_cli_terminal_raw(err);
    s->started = r == 0;
    return r;
}

static int on_text(struct session *s, const uint8_t *bytes, size_t n, struct atoll_error *err)
{
    ATOLL_CLI_AUTOJSON json_t *message = atoll_cli_parse_json(bytes, n);
    json_t *result = json_object_get(message, "result");

    if (json_object_get(message, "error"))
        return atoll_cli_daemon_error(s->cli, message, 0, err);
    if (json_is_object(result)) {
        s->outcome->result = json_incref(result);
        s->ended = true;
        return 0;
    }
    atoll_cli_outcome_gap(s->outcome, json_object_get(message, "truncated"), false);
    if (!s->started && json_object_get(message, "exec_id"))
        return on_start(s, message, err);
    return 0;
}

static int on_message(struct session *s, bool binary, const uint8_t *bytes, size_t n,
                      struct atoll_error *err)
{
    if (!binary)
        return on_text(s, bytes, n, err);
    if (n < 2 || (bytes[0] != ATOLL_CLI_STDOUT && bytes[0] != ATOLL_CLI_STDERR))
        return 0;
    if (atoll_cli_outcome_take(s->outcome, bytes[0], bytes + 1, n - 1))
        return 0;
    s->out_fd = bytes[0];
    s->out = bytes + 1;
    s->out_n = n - 1;
    return 0;
}

/* Takes what has arrived, up to output that must be written first. */
static int receive(struct session *s, struct atoll_error *err)
{
    while (!s->ended && s->out_n == 0) {
        const uint8_t *bytes;
        bool binary;
        size_t n;
        int r = atoll_wsc_recv(s->ws, 0, &binary, &bytes, &n, err);
        if (r > 0)
            r = on_message(s, binary, bytes, n, err);
        else if (r == 0)
            return 0;
        if (r < 0)
            return r;
    }
    return 0;
}

/* Our reader has gone: the command should learn that as it would without us between. */
static void on_broken_pipe(struct session *s)
{
    s->outcome->closed[s->out_fd] = true;
    s->out_n = 0;
    if (s->out_fd != STDOUT_FILENO || s->give_up_ms)
        return;
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

/* Messages may wait inside the WebSocket, where poll() does not see them: takes all, until there is
 * none or output cannot be written. */
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

static int read_input(struct session *s, struct atoll_error *err)
{
    static uint8_t chunk[1 + INPUT_CHUNK]; /* first byte: channel 0, standard input */
    ssize_t n = read(STDIN_FILENO, chunk + 1, INPUT_CHUNK);

    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return 0;
    /* An error (the terminal is gone) ends the input like its end does: by an empty message. */
    if (n <= 0) {
        s->reads_stdin = false;
        n = 0;
    }
    return forgive(s, atoll_wsc_send(s->ws, true, chunk, 1 + (size_t)n, err), err);
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
        return forgive(s, atoll_wsc_send(s->ws, false, "{}", 2, err), err);
    }
    return 0;
}

static int step(struct session *s, struct atoll_error *err)
{
    bool takes_input = s->started && s->reads_stdin && atoll_wsc_pending(s->ws) < INPUT_PENDING_MAX;
    /* With output waiting there is nothing to receive for, only to send; and a connection that has
     * ended would wake us for ever. */
    short ws_events = (short)(atoll_wsc_events(s->ws) & (s->out_n > 0 ? ~POLLIN : ~0));
    struct pollfd fds[] = {
        {.fd = s->signal_fd, .events = POLLIN},
        {.fd = takes_input ? STDIN_FILENO : -1, .events = POLLIN},
        {.fd = s->out_n > 0 ? s->out_fd : -1, .events = POLLOUT},
        {.fd = ws_events ? atoll_wsc_fd(s->ws) : -1, .events = ws_events},
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
        r = forgive(s, atoll_wsc_flush(s->ws, 0, err), err);
        if (r < 0 && err->kind == ATOLL_ERR_DEADLINE_EXCEEDED)
            r = 0;
    }
    if (r == 0 && !s->ended)
        r = check_timers(s, err);
    return r;
}

/* The daemon keeps the output, so a command without a terminal can be taken up again after the
 * daemon was restarted. What was typed meanwhile is lost, which is why a PTY is not. */
static int take_up_again(struct session *s, struct atoll_error *err)
{
    int r;

    if (s->out_n > 0)
        s->outcome->seen[s->out_fd] -= s->out_n;
    atoll_cli_say("connection to the daemon lost; taking the output up again");
    r = atoll_cli_output_read(s->cli, s->outcome, true, err);
    /* The one who would have done that has forgotten us. */
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
    if (r < 0 && s.started && !plan->pty && err->kind == ATOLL_ERR_UNAVAILABLE)
        r = take_up_again(&s, err);
    if (r < 0)
        return r;
    return s.gave_up ? 128 + s.gave_up : 0;
}

int atoll_cli_session_attach(struct atoll_cli *cli, const char *sandbox, json_t *request,
                             bool interactive, bool pty, struct atoll_error *err)
{
    struct atoll_cli_outcome outcome;
    struct atoll_cli_target target;
    struct atoll_cli_session_plan plan = {
        .target = target.text, .request = request, .interactive = interactive, .pty = pty};
    int r = atoll_cli_target(&target, err, "/api/sandboxes/%s/execs/stream", sandbox);

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
