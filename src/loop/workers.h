#pragma once
#include "loop/loop.h"

/*
 * A thread pool for blocking work: a job runs on a worker thread, and its completion is reported on the
 * loop's thread. Jobs start in the order of submission; the length of the queue is limited. An owner's
 * next job starts only if more threads are idle than the owner already uses; until then jobs of other
 * owners overtake it. Jobs of one lane run one at a time, in order.
 *
 * Thread: the loop's, except `run` of a job, which must not touch data of the loop's thread. Signals are
 * blocked on the workers.
 */
struct atoll_workers;

struct atoll_job {
    void (*run)(struct atoll_job *job);  /* on a worker */
    void (*done)(struct atoll_job *job); /* on the loop, after run; may free the job */
    const char *owner;                   /* the tenant, or NULL; valid as long as the job */
    const char *lane;                    /* NULL: in no lane; valid as long as the job */
    struct atoll_job *next;              /* used by the pool */
};

/* Starts up to `threads` threads, when they are needed; up to queue_max jobs may wait. */
int atoll_workers_new(struct atoll_loop *loop, unsigned threads, size_t queue_max,
                      struct atoll_workers **ret, struct atoll_error *err) ATOLL_MUST_CHECK;
/* Waits for running jobs, then calls done() of all jobs, including those that never ran: done() tells
 * them apart by what run() stored in the job. */
struct atoll_workers *atoll_workers_free(struct atoll_workers *workers);

/* Starts one thread now, so that a job is never refused because the first thread cannot start. */
int atoll_workers_start(struct atoll_workers *workers, struct atoll_error *err) ATOLL_MUST_CHECK;

/* Number of waiting and of running jobs. */
void atoll_workers_count(struct atoll_workers *workers, size_t *ret_waiting, size_t *ret_running);

/* The caller owns the job, which must stay valid until done() was called. RESOURCE_EXHAUSTED if too many
 * jobs wait; then neither run() nor done() is called. */
int atoll_workers_submit(struct atoll_workers *workers, struct atoll_job *job,
                         struct atoll_error *err) ATOLL_MUST_CHECK;
