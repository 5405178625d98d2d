/*
 * The agent's part of a pause. The daemon freezes all processes from outside, including the agent,
 * but clocks continue: time limits of commands are suspended before and continued after. A request
 * can also kill all processes; processes started afterwards see the state of a new boot: no other
 * processes and a new boot_id.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include "agent/agent_internal.h"
#include "base/rand.h"

#define CHECK_MS 2
#define CHECKS_MAX 5000 /* ten seconds */

/* True if no process is left and all exit events were sent to the daemon. */
static bool all_gone(struct atoll_agent *a)
{
    struct atoll_agent_processes ps = {0};
    size_t left = 0;

    ATOLL_LIST_FOREACH (&a->execs, node) {
        const struct atoll_agent_exec *exec =
            ATOLL_CONTAINER_OF(node, struct atoll_agent_exec, node);
        if (!exec->ended || (exec->attached && !exec->exit_sent))
            return false;
    }
    if (a->pid != 1) /* other processes are not the sandbox's */
        return true;
    if (atoll_agent_processes_read(a, &ps) < 0)
        return false;
    left = ps.len;
    atoll_agent_processes_done(&ps);
    return left == 0;
}

static void check_gone(void *arg)
{
    struct atoll_agent *a = arg;
    uint32_t request = a->ending_request;
    struct atoll_error err;

    if (!all_gone(a) && a->ending_checks++ < CHECKS_MAX) {
        atoll_timer_set(&a->ending, a->loop, CHECK_MS, check_gone, a);
        return;
    }
    a->ending_request = 0;
    if (a->ending_checks <= CHECKS_MAX) {
        atoll_agent_reply(a, request, NULL, NULL);
        return;
    }
    (void)atoll_fail(&err, ATOLL_ERR_UNAVAILABLE, EBUSY,
                     "some processes do not exit after SIGKILL; try again");
    atoll_agent_error(a, request, &err);
}

/* Rewrites the file, which is mounted over the kernel's boot_id. */
static void renew_boot_id(struct atoll_agent *a)
{
    char text[ATOLL_UUID_LEN + 2];

    if (a->config.boot_id_fd < 0)
        return;
    atoll_rand_uuid(text);
    (void)strcat(text, "\n");
    (void)!pwrite(a->config.boot_id_fd, text, strlen(text), 0);
}

int atoll_agent_on_pause(struct atoll_agent *a, uint32_t request, const void *message,
                         struct atoll_error *err)
{
    const struct atoll_am_pause *msg = message;
    const struct atoll_am_signal end = {ATOLL_EXEC_EVERY, SIGKILL, 1, msg->who};
    int r;

    if (a->ending_request)
        return atoll_fail(err, ATOLL_ERR_ABORTED, EBUSY, "the processes are already being killed");
    atoll_agent_execs_hold(a);
    if (!msg->end_processes)
        return 0;
    r = atoll_agent_on_exec_signal(a, request, &end, err);
    if (r < 0)
        return r;
    renew_boot_id(a);
    a->ending_request = request;
    a->ending_checks = 0;
    atoll_timer_set(&a->ending, a->loop, CHECK_MS, check_gone, a);
    return ATOLL_AGENT_ANSWERED;
}

int atoll_agent_on_resume(struct atoll_agent *a, uint32_t request, const void *message,
                          struct atoll_error *err)
{
    (void)request;
    (void)message;
    (void)err;
    atoll_agent_execs_release(a);
    return 0;
}

void atoll_agent_pause_drop(struct atoll_agent *a)
{
    atoll_timer_cancel(&a->ending);
    a->ending_request = 0;
}
