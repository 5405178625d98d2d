/*
 * Many sandboxes at once: `create COUNT JOBS`, `exec JOBS` (/usr/bin/true in every one that is
 * alive) and `destroy JOBS` on stdin. Each answers one line
 *     done COUNT failed COUNT seconds SECONDS [first error: TEXT]
 * JOBS threads with a connection each share the work. What is still alive at the end of stdin is
 * destroyed.
 */
#include "client_api.h"
#include "rounds.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define FLEET_MAX 10000
#define JOBS_MAX 64

enum action { CREATE, EXEC, DESTROY };

struct fleet {
    const char *socket_path;
    enum action action;
    size_t count;                     /* slots in use by the current command */
    char (*ids)[ATOLL_CLIENT_ID_MAX]; /* owned; "" is a slot without a sandbox */
    atomic_size_t next;               /* the slot the next free thread takes */
    atomic_size_t done, failed;
    pthread_mutex_t lock; /* for first_error */
    struct atoll_error first_error;
};

struct worker {
    struct fleet *fleet;
    struct atoll_http http;
    pthread_t thread;
};

static int act(struct fleet *f, struct atoll_http *h, char *id, struct atoll_error *err)
{
    int r;
    switch (f->action) {
    case CREATE:
        return atoll_client_create(h, id, err);
    case EXEC:
        return atoll_client_exec_true(h, id, err);
    case DESTROY:
        r = atoll_client_destroy(h, id, err);
        if (r >= 0)
            id[0] = '\0';
        return r;
    }
    return -EINVAL;
}

static void note_failure(struct fleet *f, const struct atoll_error *err)
{
    atomic_fetch_add(&f->failed, 1);
    (void)pthread_mutex_lock(&f->lock);
    if (!f->first_error.text[0])
        f->first_error = *err;
    (void)pthread_mutex_unlock(&f->lock);
}

static void *work(void *arg)
{
    struct worker *w = arg;
    struct fleet *f = w->fleet;

    for (;;) {
        size_t slot = atomic_fetch_add(&f->next, 1);
        struct atoll_error err = {0};
        if (slot >= f->count)
            return NULL;
        if (f->action != CREATE && !f->ids[slot][0])
            continue;
        int r = w->http.fd >= 0 ? 0 : atoll_http_open(&w->http, f->socket_path, &err);
        if (r >= 0)
            r = act(f, &w->http, f->ids[slot], &err);
        if (r >= 0) {
            atomic_fetch_add(&f->done, 1);
            continue;
        }
        note_failure(f, &err);
        atoll_http_close(&w->http); /* in an unknown state: start over with a fresh one */
    }
}

static int run_action(struct fleet *f, enum action action, size_t jobs, struct atoll_error *err)
{
    ATOLL_AUTOFREE struct worker *workers = calloc(jobs, sizeof(*workers));
    size_t started = 0;
    int r = 0;
    if (!workers)
        return atoll_fail_errno(err, ENOMEM, "workers");
    f->action = action;
    f->next = f->done = f->failed = 0;
    f->first_error = (struct atoll_error){0};

    for (size_t i = 0; i < jobs && r >= 0; i++) {
        workers[i].fleet = f;
        r = atoll_http_open(&workers[i].http, f->socket_path, err);
    }
    double start = atoll_rounds_now_ms();
    for (; started < jobs && r >= 0; started++) {
        r = -pthread_create(&workers[started].thread, NULL, work, &workers[started]);
        if (r < 0) {
            r = atoll_fail_errno(err, -r, "start a thread");
            break;
        }
    }
    for (size_t i = 0; i < started; i++)
        (void)pthread_join(workers[i].thread, NULL);
    double seconds = (atoll_rounds_now_ms() - start) / 1e3;
    for (size_t i = 0; i < jobs; i++) {
        if (workers[i].fleet)
            atoll_http_close(&workers[i].http);
    }
    if (r < 0)
        return r;
    printf("done %zu failed %zu seconds %.4f%s%s\n", (size_t)f->done, (size_t)f->failed, seconds,
           f->failed ? " first error: " : "", f->first_error.text);
    (void)fflush(stdout);
    return 0;
}

static bool any_alive(const struct fleet *f)
{
    for (size_t i = 0; i < f->count; i++) {
        if (f->ids[i][0])
            return true;
    }
    return false;
}

static int command(struct fleet *f, const char *line, struct atoll_error *err)
{
    size_t count = 0, jobs = 0;
    enum action action;
    if (sscanf(line, "create %zu %zu", &count, &jobs) == 2)
        action = CREATE;
    else if (sscanf(line, "exec %zu", &jobs) == 1)
        action = EXEC;
    else if (sscanf(line, "destroy %zu", &jobs) == 1)
        action = DESTROY;
    else
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "unknown command %s", line);
    if (jobs < 1 || jobs > JOBS_MAX || count > FLEET_MAX)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "at most %d sandboxes, %d jobs",
                          FLEET_MAX, JOBS_MAX);
    if (action == CREATE) {
        if (any_alive(f))
            return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EBUSY,
                              "destroy the last ones first");
        f->count = count;
    }
    return run_action(f, action, jobs, err);
}

int atoll_client_fleet(const char *socket_path, struct atoll_error *err)
{
    ATOLL_AUTOFREE char(*ids)[ATOLL_CLIENT_ID_MAX] = calloc(FLEET_MAX, sizeof(*ids));
    struct fleet f = {.socket_path = socket_path, .ids = ids, .lock = PTHREAD_MUTEX_INITIALIZER};
    char line[128];
    int r = ids ? 0 : atoll_fail_errno(err, ENOMEM, "sandbox ids");

    printf("ready\n");
    (void)fflush(stdout);
    while (r >= 0 && !atoll_rounds_stopped() && fgets(line, sizeof(line), stdin))
        r = command(&f, line, err);
    if (ids && any_alive(&f)) {
        struct atoll_error ignored;
        int cleaned = run_action(&f, DESTROY, 8, &ignored);
        if (r >= 0 && cleaned < 0) {
            *err = ignored;
            r = cleaned;
        }
    }
    return r;
}
