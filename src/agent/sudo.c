/*
 * sudo for a sandbox without set-uid programs: the agent, which is root inside, runs the command
 * for the client in a new session, on the client's descriptors. The caller's ids are the socket's
 * peer credentials.
 *
 * If the client exits before its command, the command gets SIGHUP, as after a closed terminal, and
 * SIGKILL if it does not exit.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include "agent/sudo_internal.h"

#define CLIENTS_MAX 16
#define QUEUE_MAX (16 * 1024)
/* Time limit for the client's request. */
#define ASK_MS 5000
#define HANGUP_MS 1000

struct client {
    struct atoll_agent_sudo *sudo;
    bool open; /* the client is connected */
    pid_t pid; /* of the command; 0: none */
    struct atoll_agent_sudo_caller caller;
    struct atoll_channel channel;
    struct atoll_watch watch;
    struct atoll_timer timer;
};

struct atoll_agent_sudo {
    struct atoll_agent *agent;
    int fd; /* owned */
    struct atoll_watch watch;
    struct client clients[CLIENTS_MAX];
};

static bool is_free(const struct client *c)
{
    return !c->open && c->pid == 0;
}

static void kill_group(void *arg)
{
    struct client *c = arg;
    if (c->pid != 0)
        (void)kill(-c->pid, SIGKILL);
}

static void close_client(struct client *c)
{
    if (!c->open)
        return;
    c->open = false;
    atoll_timer_cancel(&c->timer);
    atoll_watch_close(&c->watch);
    atoll_channel_done(&c->channel);
    if (c->pid == 0)
        return;
    (void)kill(-c->pid, SIGHUP);
    (void)kill(-c->pid, SIGCONT); /* a stopped process would not handle SIGHUP */
    atoll_timer_set(&c->timer, c->sudo->agent->loop, HANGUP_MS, kill_group, c);
}

static void ask_timeout(void *arg)
{
    close_client(arg);
}

/* Answers are small: if the client's socket does not accept one, the client is closed. */
static void answer(struct client *c, uint16_t type, const struct atoll_msg_desc *desc,
                   const void *msg)
{
    if (atoll_channel_send(&c->channel, type, 0, desc, msg, NULL, 0) < 0 ||
        atoll_channel_flush(&c->channel) < 0)
        (void)shutdown(c->channel.fd, SHUT_RDWR); /* handled like the client's exit */
}

static int exit_code_of(const struct atoll_error *err)
{
    if (err->kind == ATOLL_ERR_NOT_FOUND)
        return 127;
    return err->errnum == EACCES ? 126 : 1;
}

static int on_run(struct client *c, struct atoll_frame *frame)
{
    struct atoll_agent *a = c->sudo->agent;
    struct atoll_sudo_run run;
    struct atoll_error err;
    int r;

    if (c->pid != 0 || frame->nfds != ATOLL_SUDO_FDS)
        return -EPROTO;
    r = atoll_msg_decode(&atoll_sudo_run_desc, frame->payload, frame->len, &run, &err);
    if (r < 0)
        return r;
    atoll_timer_cancel(&c->timer);
    r = atoll_agent_sudo_start(a, &c->caller, &run, frame->fds, &err);
    atoll_msg_done(&atoll_sudo_run_desc, &run);
    if (r < 0) {
        struct atoll_sudo_error msg = {.text = err.text, .code = exit_code_of(&err)};
        answer(c, ATOLL_SUDO_ERROR, &atoll_sudo_error_desc, &msg);
        return -EPIPE;
    }
    c->pid = r;
    answer(c, ATOLL_SUDO_STARTED, NULL, NULL);
    return 0;
}

static int on_signal(struct client *c, const struct atoll_frame *frame)
{
    static const int allowed[] = {SIGINT,  SIGTERM, SIGQUIT, SIGHUP, SIGWINCH,
                                  SIGUSR1, SIGUSR2, SIGCONT, SIGTSTP};
    struct atoll_sudo_signal msg;
    int r = atoll_msg_decode(&atoll_sudo_signal_desc, frame->payload, frame->len, &msg, NULL);

    if (r < 0)
        return r;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(allowed); i++)
        if (c->pid != 0 && msg.signal == allowed[i])
            (void)kill(-c->pid, msg.signal);
    return 0;
}

static int frame_came(void *arg, struct atoll_frame *frame)
{
    struct client *c = arg;
    int r = -EPROTO;

    if (frame->type == ATOLL_SUDO_RUN)
        r = on_run(c, frame);
    else if (frame->type == ATOLL_SUDO_SIGNAL)
        r = on_signal(c, frame);
    for (size_t i = 0; i < frame->nfds; i++)
        (void)close(frame->fds[i]);
    return r;
}

static void client_ready(void *arg, uint32_t events)
{
    struct client *c = arg;

    (void)events;
    if (atoll_channel_receive(&c->channel, frame_came, c) < 0)
        close_client(c);
}

static void take_client(struct atoll_agent_sudo *s, struct client *c, int fd)
{
    struct ucred peer;
    socklen_t len = sizeof(peer);

    *c = (struct client){.sudo = s};
    if (atoll_channel_init(&c->channel, fd, QUEUE_MAX) < 0 ||
        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0 ||
        atoll_watch_open(&c->watch, s->agent->loop, fd, EPOLLIN, client_ready, c) < 0) {
        atoll_channel_done(&c->channel);
        return;
    }
    c->open = true;
    c->caller = (struct atoll_agent_sudo_caller){peer.uid, peer.gid};
    atoll_timer_set(&c->timer, s->agent->loop, ASK_MS, ask_timeout, c);
}

static void client_came(void *arg, uint32_t events)
{
    struct atoll_agent_sudo *s = arg;
    int fd = accept4(s->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    (void)events;
    if (fd < 0) {
        /* A connection that cannot be accepted would be reported in a loop: sudo is switched
         * off. */
        if (errno == EMFILE || errno == ENFILE || errno == ENOMEM)
            atoll_watch_close(&s->watch);
        return;
    }
    for (size_t i = 0; i < CLIENTS_MAX; i++)
        if (is_free(&s->clients[i])) {
            take_client(s, &s->clients[i], fd);
            return;
        }
    (void)close(fd);
}

bool atoll_agent_sudo_reaped(struct atoll_agent *a, pid_t pid, int status)
{
    for (size_t i = 0; a->sudo && i < CLIENTS_MAX; i++) {
        struct client *c = &a->sudo->clients[i];
        struct atoll_sudo_exit msg = {0};
        if (c->pid != pid || pid == 0)
            continue;
        c->pid = 0;
        atoll_timer_cancel(&c->timer);
        if (WIFEXITED(status))
            msg.code = WEXITSTATUS(status);
        else
            msg.signal = WTERMSIG(status);
        if (c->open) {
            answer(c, ATOLL_SUDO_EXIT, &atoll_sudo_exit_desc, &msg);
            close_client(c);
        }
        return true;
    }
    return false;
}

bool atoll_agent_sudo_works(const struct atoll_agent *a)
{
    return a->sudo && a->config.many_ids;
}

/* Every user inside may connect; sudo_command.c decides who may run a command. */
static int listen_at(const char *path)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int r;

    if (fd < 0)
        return -errno;
    (void)snprintf(at.sun_path, sizeof(at.sun_path), "%s", path);
    (void)unlink(path);
    (void)umask(0111);
    r = bind(fd, (struct sockaddr *)&at, sizeof(at)) < 0 || listen(fd, CLIENTS_MAX) < 0 ? -errno
                                                                                        : 0;
    (void)umask(0);
    if (r < 0) {
        (void)close(fd);
        return r;
    }
    return fd;
}

void atoll_agent_sudo_open(struct atoll_agent *a)
{
    struct atoll_agent_sudo *s;
    int fd;

    if ((mkdir("/run", 0755) < 0 && errno != EEXIST) ||
        (mkdir(ATOLL_SUDO_DIR, 0755) < 0 && errno != EEXIST))
        return;
    fd = listen_at(ATOLL_SUDO_SOCKET);
    if (fd < 0)
        return;
    s = calloc(1, sizeof(*s));
    if (!s || atoll_watch_open(&s->watch, a->loop, fd, EPOLLIN, client_came, s) < 0) {
        (void)close(fd);
        free(s);
        return;
    }
    s->agent = a;
    s->fd = fd;
    a->sudo = s;
}

void atoll_agent_sudo_close(struct atoll_agent *a)
{
    if (!a->sudo)
        return;
    for (size_t i = 0; i < CLIENTS_MAX; i++) {
        close_client(&a->sudo->clients[i]);
        atoll_timer_cancel(&a->sudo->clients[i].timer);
    }
    atoll_watch_close(&a->sudo->watch);
    (void)close(a->sudo->fd);
    free(ATOLL_TAKE_PTR(a->sudo));
}
