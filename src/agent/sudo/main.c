/*
 * `sudo` inside a sandbox. Set-uid programs do not work there, so this asks the agent to run the
 * command on our descriptors and waits for its end. The agent decides by our user id, which it gets
 * from the kernel; there are no passwords.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include "agent/sudo/options.h"
#include "agent/sudo/terminal.h"
#include "base/fd.h"
#include "proto/sudo_proto.h"

/* Signals that are forwarded to the command. */
static const int forwarded[] = {SIGINT, SIGTERM, SIGQUIT, SIGHUP, SIGUSR1, SIGUSR2, SIGCONT};

extern char **environ;

struct session {
    struct atoll_channel channel;
    struct atoll_sudo_terminal terminal;
    int signal_fd;
    int status; /* exit status; -1 while the command runs */
};

static int complain(const char *what)
{
    (void)fprintf(stderr, "sudo: %s\n", what);
    return 1;
}

static int connect_agent(void)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX, .sun_path = ATOLL_SUDO_SOCKET};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0) {
        int errnum = errno;
        if (fd >= 0)
            (void)close(fd);
        return -errnum;
    }
    return fd;
}

static size_t count(char *const *items)
{
    size_t n = 0;
    while (items[n])
        n++;
    return n;
}

static struct atoll_strv strv(char *const *items, size_t len)
{
    return (struct atoll_strv){(const char **)(uintptr_t)items, len};
}

static int ask(struct session *s, const struct atoll_sudo_options *o)
{
    int cwd = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    int fds[ATOLL_SUDO_FDS];
    struct atoll_sudo_run run = {.flags = o->flags,
                                 .user = o->user,
                                 .group = o->group,
                                 .argv = strv(o->command, count(o->command)),
                                 .env = strv(environ, count(environ)),
                                 .vars = strv(o->vars, o->var_count),
                                 .terminal = (uint32_t)(s->terminal.first + 1)};
    int r;

    if (cwd < 0)
        cwd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; i < 3; i++)
        fds[i] = s->terminal.is_ours[i] ? s->terminal.slave : i;
    fds[3] = cwd;
    r = atoll_channel_send(&s->channel, ATOLL_SUDO_RUN, 1, &atoll_sudo_run_desc, &run, fds,
                           ATOLL_SUDO_FDS);
    (void)close(cwd);
    while (r == 0) {
        struct pollfd p = {.fd = s->channel.fd, .events = POLLOUT};
        r = atoll_channel_flush(&s->channel);
        if (r == 0 && poll(&p, 1, -1) < 0 && errno != EINTR)
            r = -errno;
    }
    return r < 0 ? r : 0;
}

static void on_error(struct session *s, const struct atoll_frame *frame)
{
    struct atoll_sudo_error e;

    s->status = 1;
    if (atoll_msg_decode(&atoll_sudo_error_desc, frame->payload, frame->len, &e, NULL) < 0)
        return;
    s->status = e.code;
    (void)complain(e.text);
}

static void on_exit_frame(struct session *s, const struct atoll_frame *frame)
{
    struct atoll_sudo_exit e;

    s->status = 1;
    if (atoll_msg_decode(&atoll_sudo_exit_desc, frame->payload, frame->len, &e, NULL) == 0)
        s->status = e.signal ? 128 + e.signal : e.code;
}

static int frame_came(void *arg, struct atoll_frame *frame)
{
    struct session *s = arg;

    for (size_t i = 0; i < frame->nfds; i++)
        (void)close(frame->fds[i]);
    if (frame->type == ATOLL_SUDO_ERROR)
        on_error(s, frame);
    else if (frame->type == ATOLL_SUDO_EXIT)
        on_exit_frame(s, frame);
    return 0;
}

static void send_signal(struct session *s, int signo)
{
    struct atoll_sudo_signal msg = {.signal = signo};

    if (atoll_channel_send(&s->channel, ATOLL_SUDO_SIGNAL, 2, &atoll_sudo_signal_desc, &msg, NULL,
                           0) == 0)
        (void)!atoll_channel_flush(&s->channel);
}

static void signal_came(struct session *s)
{
    struct signalfd_siginfo info;

    if (read(s->signal_fd, &info, sizeof(info)) != (ssize_t)sizeof(info))
        return;
    if (info.ssi_signo == SIGWINCH && s->terminal.master >= 0)
        atoll_sudo_terminal_resize(&s->terminal); /* the kernel sends SIGWINCH to the command */
    else
        send_signal(s, (int)info.ssi_signo);
}

static int open_signals(void)
{
    sigset_t set;

    (void)sigemptyset(&set);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(forwarded); i++)
        (void)sigaddset(&set, forwarded[i]);
    (void)sigaddset(&set, SIGWINCH);
    if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
        return -errno;
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* Copies bytes and forwards signals until the command has ended. Returns the exit status. */
static int attend(struct session *s)
{
    enum { AGENT, SIGNALS, MASTER, TTY, COUNT };

    atoll_sudo_terminal_handed_over(&s->terminal);
    while (s->status < 0) {
        struct pollfd p[COUNT] = {
            [AGENT] = {.fd = s->channel.fd, .events = POLLIN},
            [SIGNALS] = {.fd = s->signal_fd, .events = POLLIN},
            [MASTER] = {.fd = s->terminal.master, .events = POLLIN},
            [TTY] = {.fd = s->terminal.tty_in, .events = POLLIN},
        };
        if (poll(p, COUNT, -1) < 0 && errno != EINTR)
            return complain(strerror(errno));
        if (p[SIGNALS].revents)
            signal_came(s);
        if (p[MASTER].revents)
            atoll_sudo_terminal_output(&s->terminal);
        if (p[TTY].revents)
            atoll_sudo_terminal_input(&s->terminal);
        if (p[AGENT].revents && atoll_channel_receive(&s->channel, frame_came, s) < 0 &&
            s->status < 0)
            return complain("the sandbox's agent has closed the connection");
    }
    atoll_sudo_terminal_drain(&s->terminal);
    return s->status;
}

int main(int argc, char **argv)
{
    struct session s = {.signal_fd = -1, .status = -1};
    struct atoll_sudo_options o;
    int status, fd;

    if (!atoll_sudo_options_parse(&o, argc, argv, &status))
        return status;
    fd = connect_agent();
    if (fd == -ENOENT || fd == -ECONNREFUSED)
        return complain("sudo is not available in this sandbox");
    if (fd < 0 || atoll_channel_init(&s.channel, fd, ATOLL_FRAME_PAYLOAD_MAX + 64 * 1024) < 0)
        return complain(strerror(fd < 0 ? -fd : EIO));
    s.signal_fd = open_signals();
    if (s.signal_fd < 0)
        return complain("cannot receive signals");
    if (atoll_sudo_terminal_open(&s.terminal) < 0)
        return complain("cannot open a terminal");
    if (ask(&s, &o) < 0) {
        atoll_sudo_terminal_close(&s.terminal);
        return complain("arguments and environment are too long");
    }
    status = attend(&s);
    atoll_sudo_terminal_close(&s.terminal);
    return status;
}
