#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/wait.h>
#include "base/fd.h"
#include "base/log.h"
#include "spawn/plan_run.h"
#include "sys/netspace.h"
#include "sys/ns.h"

int atoll_step_network(struct atoll_plan_run *b, const void *step, struct atoll_error *err)
{
    const struct atoll_plan_run_status sockets = {.op = ATOLL_PLAN_NETWORK};
    struct atoll_netspace space;
    ssize_t sent;
    int r;

    (void)step;
    if (!b->new_network) /* must never change the host's network */
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "no network namespace");
    r = atoll_netspace_open(&space);
    if (r < 0)
        return atoll_fail_errno(err, -r, "set up the network");
    sent = atoll_fd_send(b->status_fd, &sockets, sizeof(sockets), (int[]){space.tcp, space.udp}, 2);
    (void)close(space.tcp);
    (void)close(space.udp);
    return sent < 0 ? atoll_fail_errno(err, (int)-sent, "hand out the sockets") : 0;
}

static _Noreturn void try_network(void)
{
    struct atoll_netspace space;
    int r;

    atoll_sys_leave_descriptors(STDERR_FILENO);
    r = atoll_sys_network_up();
    if (r == 0)
        r = atoll_netspace_open(&space);
    _exit(-r & 0xff);
}

bool atoll_network_works(bool root)
{
    pid_t pid = atoll_sys_clone(root ? CLONE_NEWNET : CLONE_NEWUSER | CLONE_NEWNET, -1, NULL);
    int status = 0, errnum;

    if (pid == 0)
        try_network();
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    errnum = pid < 0 ? -pid : WIFEXITED(status) ? WEXITSTATUS(status) : ECHILD;
    if (errnum != 0)
        atoll_log(ATOLL_LOG_WARN,
                  "sandboxes cannot have a network: this kernel lacks nftables with tproxy, or "
                  "IPv6, or does not let this user have them",
                  "error", strerror(errnum), NULL);
    return errnum == 0;
}
