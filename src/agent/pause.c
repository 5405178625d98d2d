/*
 * What the agent does around a pause. The daemon makes the processes stand still from outside, the
 * agent with them; but clocks go on, so time limits of commands are taken out before and put back
 * after. Where the processes are to be ended instead, that happens here, and whatever is started
 * afterwards finds what it would find after a boot: nobody else, and another boot_id.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include "agent/agent_internal.h"
#include "base/rand.h"

#define LOOK_MS 2
#define LOOKS_MAX 5000 /* ten seconds */

/* True when nobody is left and the daemon has been sent every end. */
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
    if (a->pid != 1) /* processes of others are none of our business there */
        return true;
    if (atoll_agent_processes_read(a, &ps) < 0)
        return false;
    left = ps.len;
    atoll_agent_processes_done(&ps);
    return left == 0;
}

static void look(void *arg)
{
    struct atoll_agent *a = arg;
    uint32_t request = a->ending_request;
    struct atoll_error err;

    if (!all_gone(a) && a->ending_looks++ < LOOKS_MAX) {
        atoll_timer_set(&a->ending, a->loop, LOOK_MS, look, a);
        return;
    }
    a->ending_request = 0;
    if (a->ending_looks <= LOOKS_MAX) {
        atoll_agent_reply(a, request, NULL, NULL);
        return;
    }
    (void)atoll_fail(&err, ATOLL_ERR_UNAVAILABLE, EBUSY,
                     "some processes do not end, even when they are killed; try again");
    atoll_agent_error(a, request, &err);
}

/* The mount shows the same file. */
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
        return atoll_fail(err, ATOLL_ERR_ABORTED, EBUSY, "the processes are being ended already");
    atoll_agent_execs_hold(a);
    if (!msg->end_processes)
        return 0;
    r = atoll_agent_on_exec_signal(a, request, &end, err);
    if (r < 0)
        return r;
    renew_boot_id(a);
    a->ending_request = request;
    a->ending_looks = 0;
    atoll_timer_set(&a->ending, a->loop, LOOK_MS, look, a);
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
