/*
 * atoll-ssh: an SSH server whose users are tokens of sandboxes (docs/ssh.md). The daemon starts it with
 * the listening socket as descriptor 3 and its state directory as argument. This process accepts, keeps
 * the bounds, and parses nothing: each connection has a process of its own (connection.c), which is a
 * client of the API like any other. It ends with the daemon.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include "base/log.h"
#include "net/address.h"
#include "ssh/connection.h"
#include "ssh/host_key.h"
#include "sys/caps.h"
#include "sys/landlock.h"
#include "sys/ns.h"

#define LISTEN_FD 3
#define BACKLOG 512
#define OWN_DIR "ssh" /* below the state directory; the daemon has made it */
#define CLIENTS_MAX 512
#define UNKNOWN_MAX 128     /* that have not authenticated; further ones wait in the backlog */
#define UNKNOWN_EACH_MAX 64 /* of one address; further ones are closed */

struct client {
    pid_t pid;
    int report_fd; /* owned; a byte: it has authenticated; its end: the process has ended */
    bool known;
    char source[ATOLL_ADDRESS_SOURCE_MAX];
};

struct keeper {
    int daemon_fd;
    ssh_key key;
    struct client clients[CLIENTS_MAX];
    struct pollfd polls[CLIENTS_MAX + 2];
    size_t count, unknown;
};

/* What a process of a client must not have. */
static void leave_keeper(struct keeper *k)
{
    (void)close(LISTEN_FD);
    (void)close(k->daemon_fd);
    for (size_t i = 0; i < k->count; i++)
        (void)close(k->clients[i].report_fd);
}

static size_t unknown_of(const struct keeper *k, const char *source)
{
    size_t n = 0;

    for (size_t i = 0; i < k->count; i++)
        n += !k->clients[i].known && strcmp(k->clients[i].source, source) == 0;
    return n;
}

/* Takes ownership of fd. */
static void start_client(struct keeper *k, int fd, const char *peer, const char *source)
{
    struct client *c = &k->clients[k->count];
    int report[2];

    if (pipe2(report, O_CLOEXEC) < 0) {
        (void)close(fd);
        return;
    }
    c->pid = fork();
    if (c->pid == 0) {
        struct atoll_ssh_accepted accepted = {fd, report[1], k->key, peer};

        leave_keeper(k);
        (void)close(report[0]);
        atoll_ssh_serve(&accepted);
        exit(0);
    }
    (void)close(fd);
    (void)close(report[1]);
    if (c->pid < 0) {
        (void)close(report[0]);
        return;
    }
    c->report_fd = report[0];
    c->known = false;
    (void)snprintf(c->source, sizeof(c->source), "%s", source);
    k->count++;
    k->unknown++;
}

static void accept_client(struct keeper *k)
{
    struct sockaddr_storage address;
    socklen_t n = sizeof(address);
    char peer[64], source[ATOLL_ADDRESS_SOURCE_MAX];
    int fd = accept4(LISTEN_FD, (struct sockaddr *)&address, &n, SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (fd < 0)
        return;
    atoll_address_format((const struct sockaddr *)&address, n, peer, sizeof(peer));
    atoll_address_source(peer, source);
    if (unknown_of(k, source) >= UNKNOWN_EACH_MAX)
        (void)close(fd);
    else
        start_client(k, fd, peer, source);
}

static void hear_client(struct keeper *k, size_t i)
{
    struct client *c = &k->clients[i];
    char byte;

    if (!c->known)
        k->unknown--;
    if (read(c->report_fd, &byte, 1) > 0) {
        c->known = true;
        return;
    }
    (void)close(c->report_fd);
    (void)waitpid(c->pid, NULL, 0);
    *c = k->clients[--k->count];
}

static void serve(struct keeper *k)
{
    for (;;) {
        bool full = k->count == CLIENTS_MAX || k->unknown >= UNKNOWN_MAX;
        size_t n = k->count;

        k->polls[0] = (struct pollfd){.fd = full ? -1 : LISTEN_FD, .events = POLLIN};
        k->polls[1] = (struct pollfd){.fd = k->daemon_fd, .events = POLLIN};
        for (size_t i = 0; i < n; i++)
            k->polls[2 + i] = (struct pollfd){.fd = k->clients[i].report_fd, .events = POLLIN};
        if (poll(k->polls, 2 + n, -1) < 0)
            continue;
        if (k->polls[1].revents)
            return; /* the daemon has ended */
        for (size_t i = n; i-- > 0;)
            if (k->polls[2 + i].revents)
                hear_client(k, i);
        if (k->polls[0].revents)
            accept_client(k);
    }
}

/* Keeps what is needed to become another user, if it is root. */
static int drop_rights(struct atoll_error *err)
{
    const uint64_t keep =
        ATOLL_CAP_BIT(CAP_SETUID) | ATOLL_CAP_BIT(CAP_SETGID) | ATOLL_CAP_BIT(CAP_SETPCAP);
    int r = geteuid() == 0 ? atoll_caps_keep(keep) : 0;

    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    return r < 0 ? atoll_fail_errno(err, -r, "dropping capabilities") : 0;
}

static int open_keeper(struct keeper *k, const char *state, struct atoll_error *err)
{
    ATOLL_AUTOCLOSE int state_fd = open(state, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    char own[4200];
    int r;

    if (state_fd < 0)
        return atoll_fail_errno(err, errno, "open the state directory");
    k->daemon_fd = atoll_sys_pidfd_open(getppid());
    if (k->daemon_fd < 0)
        return atoll_fail_errno(err, -k->daemon_fd, "watch the daemon");
    r = atoll_ssh_host_key_open(state_fd, &k->key, err);
    if (r < 0)
        return r;
    (void)snprintf(own, sizeof(own), "%.4096s/" OWN_DIR, state);
    if (chdir(own) < 0)
        return atoll_fail_errno(err, errno, "the directory " OWN_DIR);
    r = atoll_landlock_prepare(own);
    if (r < 0)
        return atoll_fail_errno(err, -r, "Landlock");
    r = drop_rights(err);
    if (r == 0 && listen(LISTEN_FD, BACKLOG) < 0)
        r = atoll_fail_errno(err, errno, "listen");
    return r;
}

int main(int argc, char **argv)
{
    static struct keeper keeper;
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    struct atoll_error err;
    int r;

    (void)setsid();
    (void)sigaction(SIGPIPE, &ignore, NULL);
    (void)fcntl(LISTEN_FD, F_SETFD, FD_CLOEXEC);
    if (argc != 2)
        r = atoll_fail(&err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                       "usage: atoll-ssh STATE_DIR 3<&SOCKET");
    else
        r = open_keeper(&keeper, argv[1], &err);
    if (r < 0) {
        atoll_log(ATOLL_LOG_ERROR, "atoll-ssh cannot start", "error", err.text, NULL);
        return 1;
    }
    serve(&keeper);
    return 0;
}
