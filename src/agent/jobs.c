/*
 * Long requests in small steps: listing or removing a large tree must not delay reaping and
 * timeouts of commands. Jobs wait while the queue to the daemon is full.
 */
#include <errno.h>
#include "agent/agent_internal.h"

int atoll_agent_job_add(struct atoll_agent *a, struct atoll_agent_job *job, struct atoll_error *err)
{
    if (a->job_count >= ATOLL_AGENT_JOBS_MAX)
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, EBUSY,
                          "%d long file operations are running already, try again later",
                          ATOLL_AGENT_JOBS_MAX);
    atoll_list_push_back(&a->jobs, &job->node);
    a->job_count++;
    return 0;
}

static void drop(struct atoll_agent *a, struct atoll_agent_job *job)
{
    atoll_list_remove(&job->node);
    a->job_count--;
    job->free(job);
}

void atoll_agent_jobs_run(struct atoll_agent *a)
{
    ATOLL_LIST_FOREACH (&a->jobs, node) {
        struct atoll_agent_job *job = ATOLL_CONTAINER_OF(node, struct atoll_agent_job, node);
        struct atoll_error err = {0};
        int r;

        if (!atoll_agent_conn_has_room(a))
            return;
        r = job->step(a, job, &err);
        if (r > 0)
            continue;
        if (r < 0)
            atoll_agent_error(a, job->request, &err);
        else if (job->request != 0)
            atoll_agent_reply(a, job->request, NULL, NULL);
        drop(a, job);
    }
}

bool atoll_agent_jobs_waiting(const struct atoll_agent *a)
{
    /* Without room EPOLLOUT wakes the loop. */
    return !atoll_list_empty(&a->jobs) && atoll_agent_conn_has_room(a);
}

void atoll_agent_jobs_drop(struct atoll_agent *a)
{
    ATOLL_LIST_FOREACH (&a->jobs, node)
        drop(a, ATOLL_CONTAINER_OF(node, struct atoll_agent_job, node));
}
