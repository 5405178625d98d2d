/*
 * The agent's part of saving a sandbox to disk. A checkpoint cannot contain sockets that the host
 * has made: the agent closes its own and all connections, and listens again as soon as its
 * directory is there again, which is after the restore. Before, the daemon removes the directory.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "agent/agent_internal.h"
#include "base/fd.h"
#include "proto/sudo_proto.h"

#define AGAIN_MS 50

/* Sockets below it are gVisor's own. */
#define IN_MEMORY "/dev/shm/"

static bool is_saved(const struct atoll_agent *a, const char *path)
{
    return path[0] != '/' || strcmp(path, a->config.listen_path) == 0 ||
           strcmp(path, ATOLL_SUDO_SOCKET) == 0 || strncmp(path, IN_MEMORY, strlen(IN_MEMORY)) == 0;
}

/* gVisor ends a sandbox whose checkpoint fails, so what cannot be saved is found out before. */
static int check_sockets(const struct atoll_agent *a, struct atoll_error *err)
{
    FILE *list = fopen("/proc/net/unix", "re");
    char line[512];
    int r = 0;

    while (list && r == 0 && fgets(line, sizeof(line), list)) {
        char *path = strchr(line, '/');

        line[strcspn(line, "\n")] = '\0';
        if (path && !is_saved(a, path))
            r = atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EBUSY,
                           "a process has a unix socket at %.200s, which cannot be saved; end it, "
                           "or pause the sandbox without toDisk",
                           path);
    }
    if (list)
        (void)fclose(list);
    return r;
}

static void listen_again(void *arg)
{
    struct atoll_agent *a = arg;
    struct atoll_error err;
    int fd = a->config.listen(a->config.listen_path, a->config.listen_mode, &err);

    if (fd < 0) {
        atoll_timer_set(&a->leave, a->loop, AGAIN_MS, listen_again, a);
        return;
    }
    a->config.listen_fd = fd;
    (void)!fcntl(fd, F_SETFD, FD_CLOEXEC);
    (void)!atoll_agent_listen(a, &err);
    if (a->config.allow_sudo)
        atoll_agent_sudo_open(a);
}

static void leave(void *arg)
{
    struct atoll_agent *a = arg;

    if (a->sudo) {
        atoll_agent_sudo_close(a);
        (void)unlink(ATOLL_SUDO_SOCKET);
    }
    atoll_watch_close(&a->listen_watch);
    if (a->config.listen_fd >= 0)
        (void)close(ATOLL_TAKE_FD(a->config.listen_fd));
    atoll_agent_accepted_drop_all(a);
    atoll_agent_tunnels_drop(a);
    atoll_agent_conn_close(a); /* the last one: the daemon waits for it */
    atoll_timer_set(&a->leave, a->loop, AGAIN_MS, listen_again, a);
}

int atoll_agent_on_leave(struct atoll_agent *a, uint32_t request, const void *message,
                         struct atoll_error *err)
{
    int r;

    (void)request;
    (void)message;
    if (!a->config.listen)
        return atoll_fail(err, ATOLL_ERR_UNIMPLEMENTED, EOPNOTSUPP, "this agent does not listen");
    r = check_sockets(a, err);
    if (r == 0) /* after the answer was sent */
        atoll_timer_set(&a->leave, a->loop, AGAIN_MS, leave, a);
    return r;
}
