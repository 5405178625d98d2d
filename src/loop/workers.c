#include "loop/workers.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "base/fd.h"
#include "sys/thread.h"

/* First in, first out. */
struct queue {
    struct atoll_job *first, **last;
    size_t count;
};

struct atoll_workers {
    struct atoll_watch ended; /* on event_fd */
    int event_fd;
    unsigned max, started, idle;
    size_t queue_max;
    pthread_t *threads; /* owned, `max` of them */
    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct queue waiting, running, finished; /* under lock, as are started, idle and ending */
    bool ending;
};

static void queue_init(struct queue *q)
{
    *q = (struct queue){.last = &q->first};
}

static void queue_push(struct queue *q, struct atoll_job *job)
{
    job->next = NULL;
    *q->last = job;
    q->last = &job->next;
    q->count++;
}

/* Takes out the job that `at` points to. */
static struct atoll_job *queue_take(struct queue *q, struct atoll_job **at)
{
    struct atoll_job *job = *at;

    *at = job->next;
    if (!job->next)
        q->last = at;
    q->count--;
    return job;
}

static struct atoll_job *queue_pop(struct queue *q)
{
    return q->first ? queue_take(q, &q->first) : NULL;
}

static bool is_same(const char *a, const char *b)
{
    return a && b && strcmp(a, b) == 0;
}

static bool may_run(const struct atoll_workers *w, const struct atoll_job *job)
{
    unsigned own = 0;

    for (const struct atoll_job *r = w->running.first; r; r = r->next) {
        if (is_same(r->lane, job->lane))
            return false;
        own += is_same(r->owner, job->owner);
    }
    return !job->owner || own < w->max - w->running.count || own == 0;
}

/* The first that may run, which is running then; NULL when there is none. */
static struct atoll_job *next_job(struct atoll_workers *w)
{
    for (struct atoll_job **at = &w->waiting.first; *at; at = &(*at)->next)
        if (may_run(w, *at)) {
            struct atoll_job *job = queue_take(&w->waiting, at);
            queue_push(&w->running, job);
            return job;
        }
    return NULL;
}

static void stop_running(struct atoll_workers *w, const struct atoll_job *job)
{
    struct atoll_job **at = &w->running.first;

    while (*at != job)
        at = &(*at)->next;
    (void)queue_take(&w->running, at);
}

static void tell_loop(struct atoll_workers *w)
{
    const uint64_t one = 1;
    (void)!write(w->event_fd, &one, sizeof(one));
}

static void *work(void *arg)
{
    struct atoll_workers *w = arg;
    struct atoll_job *job;

    atoll_thread_enter();
    (void)pthread_mutex_lock(&w->lock);
    for (;;) {
        while (!(job = next_job(w)) && !w->ending) {
            w->idle++;
            (void)pthread_cond_wait(&w->wake, &w->lock);
            w->idle--;
        }
        if (!job)
            break;
        (void)pthread_mutex_unlock(&w->lock);
        job->run(job);
        (void)pthread_mutex_lock(&w->lock);
        stop_running(w, job);
        queue_push(&w->finished, job);
        tell_loop(w);
    }
    (void)pthread_mutex_unlock(&w->lock);
    return NULL;
}

/* Ends those jobs that were finished when it was called: one of them may submit another. */
static void end_jobs(struct atoll_workers *w)
{
    struct queue finished;
    struct atoll_job *job;

    (void)pthread_mutex_lock(&w->lock);
    finished = w->finished;
    if (!finished.first)
        finished.last = &finished.first;
    queue_init(&w->finished);
    (void)pthread_mutex_unlock(&w->lock);
    while ((job = queue_pop(&finished)) != NULL)
        job->done(job);
}

static void on_ended(void *arg, uint32_t events)
{
    struct atoll_workers *w = arg;
    uint64_t count;

    (void)events;
    (void)!read(w->event_fd, &count, sizeof(count));
    end_jobs(w);
}

int atoll_workers_new(struct atoll_loop *loop, unsigned threads, size_t queue_max,
                      struct atoll_workers **ret, struct atoll_error *err)
{
    struct atoll_workers *w = calloc(1, sizeof(*w));
    int r;

    if (!w)
        return atoll_fail_errno(err, ENOMEM, "workers");
    w->max = threads;
    w->queue_max = queue_max;
    w->threads = calloc(threads, sizeof(*w->threads));
    w->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    r = !w->threads ? -ENOMEM : w->event_fd < 0 ? -errno : 0;
    if (r == 0)
        r = atoll_watch_open(&w->ended, loop, w->event_fd, EPOLLIN, on_ended, w);
    if (r < 0) {
        if (w->event_fd >= 0)
            (void)close(w->event_fd);
        free(w->threads);
        free(w);
        return atoll_fail_errno(err, -r, "workers");
    }
    (void)pthread_mutex_init(&w->lock, NULL);
    (void)pthread_cond_init(&w->wake, NULL);
    queue_init(&w->waiting);
    queue_init(&w->running);
    queue_init(&w->finished);
    *ret = w;
    return 0;
}

struct atoll_workers *atoll_workers_free(struct atoll_workers *w)
{
    struct atoll_job *job;

    if (!w)
        return NULL;
    (void)pthread_mutex_lock(&w->lock);
    w->ending = true;
    while ((job = queue_pop(&w->waiting)) != NULL)
        queue_push(&w->finished, job);
    (void)pthread_cond_broadcast(&w->wake);
    (void)pthread_mutex_unlock(&w->lock);
    for (unsigned i = 0; i < w->started; i++)
        (void)pthread_join(w->threads[i], NULL);
    end_jobs(w);
    atoll_watch_close(&w->ended);
    (void)close(w->event_fd);
    (void)pthread_cond_destroy(&w->wake);
    (void)pthread_mutex_destroy(&w->lock);
    free(w->threads);
    free(w);
    return NULL;
}

/* The daemon's signals are the loop's business: a thread that took one would hide it. */
static int start_thread(struct atoll_workers *w)
{
    sigset_t all, before;
    int r;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    r = pthread_create(&w->threads[w->started], NULL, work, w);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (r == 0)
        w->started++;
    return -r;
}

int atoll_workers_start(struct atoll_workers *w, struct atoll_error *err)
{
    int r = 0;

    (void)pthread_mutex_lock(&w->lock);
    if (w->started == 0)
        r = start_thread(w);
    (void)pthread_mutex_unlock(&w->lock);
    return r < 0 ? atoll_fail_errno(err, -r, "start a worker thread") : 0;
}

void atoll_workers_count(struct atoll_workers *w, size_t *ret_waiting, size_t *ret_running)
{
    (void)pthread_mutex_lock(&w->lock);
    *ret_waiting = w->waiting.count;
    *ret_running = w->running.count;
    (void)pthread_mutex_unlock(&w->lock);
}

int atoll_workers_submit(struct atoll_workers *w, struct atoll_job *job, struct atoll_error *err)
{
    int r = 0;

    (void)pthread_mutex_lock(&w->lock);
    if (w->waiting.count >= w->queue_max + w->idle || w->ending)
        r = atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, EAGAIN,
                       "%zu calls wait for a worker already", w->waiting.count);
    /* Without a single thread the job would wait for ever; with some it only waits longer. */
    if (r == 0 && w->idle <= w->waiting.count && w->started < w->max && start_thread(w) < 0 &&
        w->started == 0)
        r = atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, EAGAIN, "no thread can be started");
    if (r == 0) {
        queue_push(&w->waiting, job);
        (void)pthread_cond_signal(&w->wake);
    }
    (void)pthread_mutex_unlock(&w->lock);
    return r;
}
