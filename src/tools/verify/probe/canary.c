/*
 * "atoll-probe --canary key=value...": plays a target that must not be reachable: the host or a second
 * sandbox. It makes sockets, locks and shared memory with the given names, prints "ready", and cleans up
 * when it is terminated or after ten minutes.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ipc.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tools/verify/probe/probe.h"

#define LIFE_SECONDS 600

static volatile sig_atomic_t ending;

static void on_signal(int sig)
{
    (void)sig;
    ending = 1;
}

static _Noreturn void give_up(const char *what)
{
    fprintf(stderr, "canary: %s: %s\n", what, strerror(errno));
    exit(1);
}

/* Connections complete in the backlog; accept() is not needed. */
static void listen_tcp(const char *address, const char *port)
{
    struct sockaddr_in sa = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)strtol(port, NULL, 10))};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

    if (fd < 0 || inet_pton(AF_INET, address, &sa.sin_addr) != 1)
        give_up(address);
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) != 0 ||
        bind(fd, (struct sockaddr *)&sa, sizeof(sa)) != 0 || listen(fd, 64) != 0)
        give_up("listen");
}

static void listen_abstract(const char *name)
{
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    size_t len = strnlen(name, sizeof(sa.sun_path) - 1);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    memcpy(sa.sun_path + 1, name, len);
    if (fd < 0 ||
        bind(fd, (struct sockaddr *)&sa,
             (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + len)) != 0 ||
        listen(fd, 64) != 0)
        give_up("abstract socket");
}

static int open_resolver(const char *port)
{
    struct sockaddr_in sa = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)strtol(port, NULL, 10)),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || bind(fd, (struct sockaddr *)&sa, sizeof(sa)) != 0)
        give_up("resolver");
    return fd;
}

/* Failure is ignored: an image may not have the file, and another process may hold the lock. */
static void lock_file(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if ((fd < 0 && errno != ENOENT) ||
        (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0 && errno != EWOULDBLOCK))
        give_up(path);
}

static void leave_shm(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);

    if (fd < 0)
        give_up(path);
    close(fd);
}

static int leave_segment(const char *key)
{
    int id = shmget((key_t)strtol(key, NULL, 0), 4096, IPC_CREAT | 0666);

    if (id < 0)
        give_up("shmget");
    return id;
}

/* Echoes queries; for the check any answer proves that the service is reachable. */
static void serve(int resolver)
{
    struct pollfd p = {.fd = resolver, .events = POLLIN};
    char packet[512];

    while (!ending) {
        struct sockaddr_storage from;
        socklen_t len = sizeof(from);
        ssize_t n;

        if (poll(&p, 1, -1) != 1)
            continue;
        n = recvfrom(resolver, packet, sizeof(packet), 0, (struct sockaddr *)&from, &len);
        if (n > 0 && sendto(resolver, packet, (size_t)n, 0, (struct sockaddr *)&from, len) < 0)
            give_up("answer");
    }
}

int probe_canary(void)
{
    const struct sigaction sa = {.sa_handler = on_signal};
    const char *addr = probe_arg("addr"), *shm = probe_arg("shm");
    int segment = -1, resolver = -1;
    char path[256] = "";

    sigaction(SIGTERM, &sa, NULL);
    sigaction(SIGINT, &sa, NULL);
    sigaction(SIGALRM, &sa, NULL);
    alarm(LIFE_SECONDS);
    if (probe_arg("port") != NULL)
        listen_tcp("127.0.0.1", probe_arg("port"));
    if (probe_arg("port") != NULL && addr != NULL && *addr != '\0')
        listen_tcp(addr, probe_arg("port"));
    if (probe_arg("abstract") != NULL)
        listen_abstract(probe_arg("abstract"));
    if (probe_arg("flock") != NULL)
        lock_file(probe_arg("flock"));
    if (probe_arg("dns") != NULL)
        resolver = open_resolver(probe_arg("dns"));
    if (shm != NULL) {
        snprintf(path, sizeof(path), "/dev/shm/%s", shm);
        leave_shm(path);
    }
    if (probe_arg("sysv") != NULL)
        segment = leave_segment(probe_arg("sysv"));
    puts("ready");
    fflush(stdout);
    serve(resolver);
    if (path[0] != '\0')
        unlink(path);
    if (segment >= 0)
        shmctl(segment, IPC_RMID, NULL);
    return 0;
}
