/*
 * A session: a shell or a command in the sandbox, with or without a terminal. The command runs by the
 * same WebSocket as `atoll exec`; its output is taken only as fast as the client reads, and the client's
 * input is read only as fast as the command takes it.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include "client/attach.h"
#include "client/compose.h"
#include "ssh/ssh.h"

#define ENV_MAX 32
#define ENV_BYTES_MAX ((size_t)4096)
#define NOT_STARTED 127 /* exit status, as of a shell */
#define SIDE_MAX 1000   /* columns and rows */

struct session {
    struct atoll_ssh_channel base;
    struct atoll_client_process *process; /* owned; NULL: nothing was requested yet */
    char *env[ENV_MAX + 1];               /* owned, and its items */
    size_t env_count;
    bool has_pty, started, input_ended, finished;
    unsigned cols, rows;
    const uint8_t *waiting; /* output for the client, borrowed from the last event */
    size_t waiting_n;
    bool waiting_is_error;
    int early_signal; /* came before the command had started */
};

static struct session *session_of(void *arg)
{
    return ATOLL_CONTAINER_OF((struct atoll_ssh_channel *)arg, struct session, base);
}

/* For the user, beside the output of the command. */
static void tell(struct session *s, const char *text)
{
    char line[600];
    int n = snprintf(line, sizeof(line), "atoll: %.500s%s", text, s->has_pty ? "\r\n" : "\n");

    (void)ssh_channel_write_stderr(s->base.channel, line, (uint32_t)n);
}

static void conclude(struct session *s)
{
    (void)ssh_channel_send_eof(s->base.channel);
    s->finished = true;
}

static void fail(struct session *s, const struct atoll_error *err)
{
    tell(s, err->text);
    /* Of a command that was lost on the way the status is not known: then none is sent. */
    if (!s->started)
        (void)ssh_channel_request_send_exit_status(s->base.channel, NOT_STARTED);
    conclude(s);
}

/* Starting. */

static bool add_env(struct session *s, const char *name, const char *value)
{
    char *item;

    if (s->env_count == ENV_MAX || strlen(name) + strlen(value) > ENV_BYTES_MAX ||
        asprintf(&item, "%s=%s", name, value) < 0)
        return false;
    s->env[s->env_count++] = item;
    return true;
}

static int add_terminal(const struct session *s, json_t *request, struct atoll_error *err)
{
    if (json_object_set_new(request, "stdin", json_true()) < 0 ||
        (s->has_pty && json_object_set_new(request, "pty",
                                           json_pack("{s:i, s:i}", "cols", (int)s->cols, "rows",
                                                     (int)s->rows)) < 0))
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, ENOMEM, "no memory for the request");
    return 0;
}

static int start(struct session *s, const char *const *argv, struct atoll_error *err)
{
    const struct atoll_client_command command = {
        .size = sizeof(command), .argv = argv, .env = (const char *const *)s->env};
    struct atoll_ssh_link *link = s->base.link;
    ATOLL_AUTOJSON json_t *request = json_object();
    struct atoll_link_target target;
    int r = atoll_compose_command(request, &command, err);

    if (r == 0)
        r = add_terminal(s, request, err);
    if (r == 0)
        r = atoll_link_target(&target, err, "/api/sandboxes/%s/execs/stream", link->sandbox_id);
    if (r == 0)
        r = atoll_attach_open(link->client, target.text, link->sandbox_id, request, &s->process,
                              err);
    return r;
}

/* 0: the request is granted, even if the command then cannot start: the client is told why. */
static int begin(struct session *s, const char *const *argv)
{
    struct atoll_error err;

    if (s->process || s->finished)
        return -1; /* one command for each channel (RFC 4254 section 6.5) */
    if (start(s, argv, &err) < 0)
        fail(s, &err);
    return 0;
}

/* What the client asks for. */

#define FIND_SHELL                    \
    "for s in \"$SHELL\" bash sh; do" \
    " command -v \"$s\" >/dev/null 2>&1 && exec "

static int on_shell(ssh_session session ATOLL_UNUSED, ssh_channel channel ATOLL_UNUSED, void *arg)
{
    static const char *const argv[] = {"sh", "-c", FIND_SHELL "\"$s\" -l; done", NULL};

    return begin(session_of(arg), argv);
}

static int on_exec(ssh_session session ATOLL_UNUSED, ssh_channel channel ATOLL_UNUSED,
                   const char *command, void *arg)
{
    const char *const argv[] = {"sh", "-c",    FIND_SHELL "\"$s\" -c \"$1\"; done",
                                "sh", command, NULL};

    return begin(session_of(arg), argv);
}

#define FIND_SFTP                                                                             \
    "for s in /usr/lib/openssh/sftp-server /usr/lib/ssh/sftp-server /usr/libexec/sftp-server" \
    " /usr/libexec/openssh/sftp-server \"$(command -v sftp-server)\"; do"                     \
    " [ -x \"$s\" ] && "

/* Whether the sandbox has a server for sftp: the client wants to know before it starts. */
static bool has_sftp(const struct session *s)
{
    static const char *const argv[] = {"sh", "-c", FIND_SFTP "exit 0; done; exit 1", NULL};
    const struct atoll_client_command command = {.size = sizeof(command), .argv = argv};
    const struct atoll_ssh_link *link = s->base.link;
    struct atoll_client_result *result = NULL;
    bool found = atoll_client_exec(link->client, link->sandbox_id, &command, &result, NULL) == 0 &&
                 result->end == ATOLL_CLIENT_EXITED && result->exit_code == 0;

    atoll_client_result_free(result);
    return found;
}

static int on_subsystem(ssh_session session ATOLL_UNUSED, ssh_channel channel ATOLL_UNUSED,
                        const char *name, void *arg)
{
    static const char *const argv[] = {"sh", "-c", FIND_SFTP "exec \"$s\"; done; exit 127", NULL};

    return strcmp(name, "sftp") == 0 && has_sftp(session_of(arg)) ? begin(session_of(arg), argv)
                                                                  : -1;
}

/* 0: the client has no terminal itself. */
static unsigned side(int n, unsigned unknown)
{
    return n < 1 ? unknown : n > SIDE_MAX ? SIDE_MAX : (unsigned)n;
}

static int on_pty(ssh_session session ATOLL_UNUSED, ssh_channel channel ATOLL_UNUSED,
                  const char *term, int cols, int rows, int x ATOLL_UNUSED, int y ATOLL_UNUSED,
                  void *arg)
{
    struct session *s = session_of(arg);

    if (s->process || s->finished || (*term && !add_env(s, "TERM", term)))
        return -1;
    s->has_pty = true;
    s->cols = side(cols, 80);
    s->rows = side(rows, 24);
    return 0;
}

static int on_resize(ssh_session session ATOLL_UNUSED, ssh_channel channel ATOLL_UNUSED, int cols,
                     int rows, int x ATOLL_UNUSED, int y ATOLL_UNUSED, void *arg)
{
    struct session *s = session_of(arg);
    struct atoll_error err;

    if (!s->has_pty)
        return -1;
    s->cols = side(cols, 80);
    s->rows = side(rows, 24);
    return s->process ? atoll_attach_resize(s->process, s->cols, s->rows, &err) : 0;
}

/* Language and terminal, as servers usually accept them; others could change what programs do. */
static bool is_accepted(const char *name)
{
    return strcmp(name, "LANG") == 0 || strncmp(name, "LC_", 3) == 0 ||
           strcmp(name, "COLORTERM") == 0;
}

static int on_env(ssh_session session ATOLL_UNUSED, ssh_channel channel ATOLL_UNUSED,
                  const char *name, const char *value, void *arg)
{
    struct session *s = session_of(arg);

    return !s->process && is_accepted(name) && add_env(s, name, value) ? 0 : -1;
}

static int number_of(const char *name)
{
    for (int i = 1; i < NSIG; i++) {
        const char *known = sigabbrev_np(i);
        if (known && strcmp(known, name) == 0)
            return i;
    }
    return 0;
}

static void send_signal(struct session *s, int signo)
{
    struct atoll_error err;

    if (signo > 0 && s->started && !s->finished &&
        atoll_attach_signal(s->process, signo, true, &err) < 0 && err.kind == ATOLL_ERR_UNAVAILABLE)
        tell(s, err.text);
}

static void on_signal(ssh_session session ATOLL_UNUSED, ssh_channel channel ATOLL_UNUSED,
                      const char *name, void *arg)
{
    struct session *s = session_of(arg);

    if (s->started)
        send_signal(s, number_of(name));
    else
        s->early_signal = number_of(name);
}

/* The end of the command. */

/* Signals that RFC 4254 section 6.10 names; others have a name of our own. */
static const char *exit_signal_name(int signo, char *out, size_t cap)
{
    static const char *const standard[] = {"ABRT", "ALRM", "FPE",  "HUP",  "ILL",  "INT", "KILL",
                                           "PIPE", "QUIT", "SEGV", "TERM", "USR1", "USR2"};
    const char *name = sigabbrev_np(signo);

    for (size_t i = 0; name && i < ATOLL_ARRAY_LEN(standard); i++)
        if (strcmp(name, standard[i]) == 0)
            return name;
    if (name)
        (void)snprintf(out, cap, "%s@atoll", name);
    else
        (void)snprintf(out, cap, "%d@atoll", signo);
    return out;
}

static void report_signal(struct session *s, int signo, const char *why)
{
    char own[32];

    (void)ssh_channel_request_send_exit_signal(
        s->base.channel, exit_signal_name(signo, own, sizeof(own)), 0, why, "");
}

static void report(struct session *s)
{
    const struct atoll_client_result *result = atoll_client_process_result(s->process);
    char text[400];

    switch (result ? result->end : ATOLL_CLIENT_LOST) {
    case ATOLL_CLIENT_EXITED:
        (void)ssh_channel_request_send_exit_status(s->base.channel, result->exit_code);
        break;
    case ATOLL_CLIENT_SIGNALED:
        report_signal(s, result->signal, "");
        break;
    case ATOLL_CLIENT_OOM_KILLED:
        tell(s, "the command was killed: the sandbox has no memory left");
        report_signal(s, SIGKILL, "out of memory");
        break;
    case ATOLL_CLIENT_TIMED_OUT:
    case ATOLL_CLIENT_KILLED_BY:
        (void)snprintf(text, sizeof(text), "the command was killed by %.300s",
                       result->who && *result->who ? result->who : "the daemon");
        tell(s, text);
        report_signal(s, result->signal > 0 ? result->signal : SIGKILL, text);
        break;
    case ATOLL_CLIENT_LOST:
        (void)snprintf(text, sizeof(text), "how the command ended is not known: %.300s",
                       result && result->reason ? result->reason : "no record");
        tell(s, text);
        break;
    }
    conclude(s);
}

/* Moving bytes. */

static void take_event(struct session *s, const struct atoll_client_event *event)
{
    char text[120];

    switch (event->kind) {
    case ATOLL_CLIENT_EVENT_STARTED:
        s->started = true;
        send_signal(s, s->early_signal);
        break;
    case ATOLL_CLIENT_EVENT_OUTPUT:
        s->waiting = event->bytes;
        s->waiting_n = event->size;
        s->waiting_is_error = event->stream == ATOLL_CLIENT_STDERR && !s->has_pty;
        break;
    case ATOLL_CLIENT_EVENT_DROPPED:
        (void)snprintf(text, sizeof(text), "%llu bytes of output were dropped",
                       (unsigned long long)(event->to - event->from));
        tell(s, text);
        break;
    case ATOLL_CLIENT_EVENT_END:
        break;
    }
}

/* False: the client takes no more now. */
static bool send_waiting(struct session *s)
{
    while (s->waiting_n > 0) {
        size_t n = ATOLL_MIN(s->waiting_n, atoll_ssh_room(&s->base));
        int sent = n == 0 ? 0
                   : s->waiting_is_error
                       ? ssh_channel_write_stderr(s->base.channel, s->waiting, (uint32_t)n)
                       : ssh_channel_write(s->base.channel, s->waiting, (uint32_t)n);

        if (sent <= 0)
            return false;
        s->waiting += sent;
        s->waiting_n -= (size_t)sent;
    }
    return true;
}

static void pump_output(struct session *s)
{
    const struct atoll_client_event *event;
    struct atoll_error err;

    while (!s->finished && send_waiting(s)) {
        int r;

        if (atoll_client_process_result(s->process)) {
            report(s);
            return;
        }
        r = atoll_attach_next(s->process, 0, &event, &err);
        if (r < 0)
            fail(s, &err);
        if (r <= 0)
            return;
        take_event(s, event);
    }
}

/* The end of the client's input closes that of the command; a terminal has none. */
static void end_input(struct session *s)
{
    struct atoll_error err;

    s->input_ended = true;
    if (!s->has_pty)
        (void)!atoll_attach_close_input(s->process, &err);
}

/* Errors of writing are ignored: the command has closed its input or ended, and the next event tells. */
static void pump_input(struct session *s)
{
    uint8_t bytes[ATOLL_SSH_PIECE];
    struct atoll_error err;

    while (s->started && !s->input_ended && atoll_attach_takes_input(s->process)) {
        int n = atoll_ssh_read(&s->base, bytes, sizeof(bytes));

        if (n > 0)
            (void)!atoll_attach_write(s->process, bytes, (size_t)n, &err);
        else if (n < 0)
            end_input(s);
        if (n <= 0)
            break;
    }
    (void)!atoll_attach_flush(s->process, &err);
}

static bool pump(struct atoll_ssh_channel *c)
{
    struct session *s = ATOLL_CONTAINER_OF(c, struct session, base);
    short events;

    if (s->process && !s->finished) {
        pump_output(s);
        pump_input(s);
    }
    if (s->finished || !s->process) {
        atoll_ssh_watch(c, ATOLL_NO_FD, 0);
        return !s->finished;
    }
    events = atoll_client_process_events(s->process);
    if (s->waiting_n > 0)
        events &= (short)~POLLIN;
    atoll_ssh_watch(c, atoll_client_process_fd(s->process), events);
    return true;
}

static bool is_ready(const struct atoll_ssh_channel *c)
{
    const struct session *s = ATOLL_CONTAINER_OF(c, struct session, base);

    if (!s->process || s->finished)
        return s->finished;
    if (s->waiting_n > 0 && atoll_ssh_room(c) > 0)
        return true;
    return s->started && !s->input_ended && (c->unread > 0 || c->ended) &&
           atoll_attach_takes_input(s->process);
}

static void tick(struct atoll_ssh_channel *c)
{
    struct session *s = ATOLL_CONTAINER_OF(c, struct session, base);
    struct atoll_error err;

    if (s->process && !s->finished)
        (void)!atoll_attach_keep_alive(s->process, &err);
}

static void hang_up(struct atoll_ssh_channel *c)
{
    struct session *s = ATOLL_CONTAINER_OF(c, struct session, base);
    struct atoll_error err;

    if (s->started && !s->finished)
        (void)!atoll_attach_signal(s->process, SIGHUP, true, &err);
    s->finished = true;
}

static void free_session(struct atoll_ssh_channel *c)
{
    struct session *s = ATOLL_CONTAINER_OF(c, struct session, base);

    atoll_ssh_watch(c, ATOLL_NO_FD, 0);
    atoll_client_process_free(s->process);
    for (size_t i = 0; i < s->env_count; i++)
        free(s->env[i]);
    free(s);
}

struct atoll_ssh_channel *atoll_ssh_session_new(struct atoll_ssh_link *link)
{
    struct session *s = calloc(1, sizeof(*s));
    ssh_channel channel = s ? ssh_channel_new(link->session) : NULL;

    if (!channel) {
        free(s);
        return NULL;
    }
    s->base = (struct atoll_ssh_channel){.link = link,
                                         .channel = channel,
                                         .pump = pump,
                                         .is_ready = is_ready,
                                         .tick = tick,
                                         .hang_up = hang_up,
                                         .free = free_session,
                                         .fd = ATOLL_NO_FD};
    s->base.callbacks =
        (struct ssh_channel_callbacks_struct){.channel_signal_function = on_signal,
                                              .channel_pty_request_function = on_pty,
                                              .channel_shell_request_function = on_shell,
                                              .channel_pty_window_change_function = on_resize,
                                              .channel_exec_request_function = on_exec,
                                              .channel_env_request_function = on_env,
                                              .channel_subsystem_request_function = on_subsystem};
    atoll_ssh_listen(&s->base);
    return &s->base;
}
