#pragma once
#include "loop/loop.h"

/*
 * A few threads for work that blocks: a job runs there as straight-line code and its end is told on the
 * loop's thread. Jobs start in the order they came; there is a most of them that may wait. Of one owner
 * only so many run that as many threads are free for others; those beyond wait while others pass. Of one
 * lane one runs at a time, in the order they came.
 *
 * Thread: everything here belongs to the loop's, except a job's `run`, which must touch nothing that
 * is the loop's. Signals are blocked on the workers.
 */
struct atoll_workers;

struct atoll_job {
    void (*run)(struct atoll_job *job);  /* on a worker */
    void (*done)(struct atoll_job *job); /* on the loop, after run; may free the job */
    const char *owner;                   /* NULL: not of a tenant; lives as long as the job */
    const char *lane;                    /* NULL: in no lane; lives as long as the job */
    struct atoll_job *next;              /* the pool's */
};

/* threads at most run at once and are started as they are needed; queue_max more may wait. */
int atoll_workers_new(struct atoll_loop *loop, unsigned threads, size_t queue_max,
                      struct atoll_workers **ret, struct atoll_error *err) ATOLL_MUST_CHECK;
/* Waits for the jobs under way, whose done() is then called as that of those which never ran: run
 * tells them apart by what it leaves in its job. */
struct atoll_workers *atoll_workers_free(struct atoll_workers *workers);

/* Starts one thread now, so that a job is never refused for want of a first one. */
int atoll_workers_start(struct atoll_workers *workers, struct atoll_error *err) ATOLL_MUST_CHECK;

/* Jobs that wait and jobs that run. */
void atoll_workers_count(struct atoll_workers *workers, size_t *ret_waiting, size_t *ret_running);

/* The job is the caller's and must live until done. RESOURCE_EXHAUSTED when too many wait already;
 * then neither run nor done is called. */
int atoll_workers_submit(struct atoll_workers *workers, struct atoll_job *job,
                         struct atoll_error *err) ATOLL_MUST_CHECK;
