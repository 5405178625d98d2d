#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "engine/artifact/artifacts.h"
#include "task/swarm_internal.h"

/*
 * Ephemeral swarms: with a lease that a client renews, or with a lifetime. At the end its tasks are cancelled; when
 * the last one has ended, their sandboxes, files and logs, the memory and the swarm itself are removed.
 */
#define LOOK_MS 3600000 /* clocks may be set: looks at least so often */
#define WHO "the end of a swarm's lease"

static double seconds_of(const struct atoll_swarm *s, const char *name)
{
    return json_number_value(json_object_get(s->request, name));
}

/* 0: never. */
static int64_t end_of(const struct atoll_swarm *s)
{
    double lifetime = seconds_of(s, "lifetimeSeconds");
    int64_t end = lifetime > 0 ? s->created_unix_ms + (int64_t)(1000 * lifetime) : 0;

    return s->lease_unix_ms > 0 && (end == 0 || s->lease_unix_ms < end) ? s->lease_unix_ms : end;
}

static void extend(struct atoll_swarm *s)
{
    s->lease_unix_ms = atoll_clock_unix_ms() + (int64_t)(1000 * seconds_of(s, "leaseSeconds"));
}

void atoll_swarm_lease_begin(struct atoll_swarm *s)
{
    if (seconds_of(s, "leaseSeconds") > 0)
        extend(s);
}

/* --- the end --- */

struct leftover {
    struct atoll_engine *engine;
    char sandbox_id[ATOLL_ID_LEN + 1];
};

static void destroyed(void *arg, const struct atoll_error *error ATOLL_UNUSED)
{
    struct leftover *l = arg;
    struct atoll_error ignored;

    (void)!atoll_artifacts_remove(l->engine, l->sandbox_id, &ignored);
    free(l);
}

/* A sandbox that the request named is not the task's. */
static void remove_sandbox(const struct atoll_swarm *s, const struct atoll_task_view *view)
{
    const char *id = json_string_value(json_object_get(view->facts, "sandbox_id"));
    struct leftover *l;

    if (!id || json_object_get(view->request, "sandboxId"))
        return;
    l = atoll_alloc(sizeof(*l));
    l->engine = s->swarms->tasks->config.engine;
    (void)snprintf(l->sandbox_id, sizeof(l->sandbox_id), "%.*s", ATOLL_ID_LEN, id);
    if (atoll_engine_find(l->engine, id))
        atoll_engine_destroy(l->engine, id, WHO, destroyed, l);
    else
        destroyed(l, NULL);
}

static void remove_all(struct atoll_swarm *s)
{
    struct atoll_tasks *tasks = s->swarms->tasks;
    struct atoll_error error;

    for (size_t i = 0; i < json_array_size(s->members); i++) {
        const char *id =
            json_string_value(json_object_get(json_array_get(s->members, i), "task_id"));
        struct atoll_task_view view;

        if (!id || atoll_tasks_find(tasks, NULL, id, &view, &error) < 0)
            continue;
        remove_sandbox(s, &view);
        if (atoll_tasks_remove(tasks, id, &error) < 0)
            atoll_log(ATOLL_LOG_WARN, "task of a swarm is not removed", "task", id, "error",
                      error.text, NULL);
    }
    if (atoll_swarm_forget(s, &error) < 0)
        atoll_log(ATOLL_LOG_ERROR, "swarm is not removed", "swarm", s->id, "error", error.text,
                  NULL);
}

static void look(void *arg)
{
    struct atoll_swarm *s = arg;

    if (!s->expired && atoll_clock_unix_ms() < end_of(s)) {
        atoll_swarm_lease_arm(s);
        return;
    }
    s->expired = true;
    if (!atoll_swarm_has_ended(s))
        atoll_swarm_stop(s); /* comes back here when the last member has ended */
    else
        remove_all(s);
}

void atoll_swarm_lease_arm(struct atoll_swarm *s)
{
    int64_t left = end_of(s) - atoll_clock_unix_ms();

    if (s->expired)
        left = 0;
    if (end_of(s) > 0 && (!s->expired || atoll_swarm_has_ended(s)))
        atoll_timer_set(&s->expiry, s->swarms->tasks->config.loop,
                        ATOLL_MAX((int64_t)0, ATOLL_MIN(left, (int64_t)LOOK_MS)), look, s);
}

int atoll_swarms_heartbeat(struct atoll_swarms *swarms, const char *id, struct atoll_error *err)
{
    struct atoll_swarm *s = atoll_swarm_get(swarms, NULL, id, err);

    if (!s)
        return -ENOENT;
    if (s->lease_unix_ms == 0)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EINVAL,
                          "swarm %s has no lease: give leaseSeconds when it is made", id);
    if (s->expired)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, ETIME,
                          "the lease of swarm %s has ended: it is being removed", id);
    extend(s);
    atoll_swarm_save(s);
    atoll_swarm_lease_arm(s);
    return 0;
}
