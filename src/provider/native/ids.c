/*
 * Id ranges of native sandboxes. atoll-spawn holds blocks of them, which all instances of Atoll on
 * a host share. The daemon requests another block when a create finds no free range, and gives back
 * a block that has become empty while the others have enough free ranges.
 */
#include <errno.h>
#include <string.h>
#include "base/log.h"
#include "base/memory.h"
#include "base/metrics.h"
#include "provider/native/native_internal.h"

/* Part of a block that must be free elsewhere before another block is given back. */
#define SPARE_PART 4

void atoll_native_note_ids(const struct atoll_native *n)
{
    atoll_metric_set(ATOLL_METRIC_ID_RANGES, ATOLL_LABELS("used"), n->homes.slots.used);
    atoll_metric_set(ATOLL_METRIC_ID_RANGES, ATOLL_LABELS("held"), n->homes.slots.count);
}

static void tell_waiters(struct atoll_native *n, const struct atoll_error *error)
{
    struct atoll_list waiters;

    /* A waiter may wait again from inside its callback. */
    atoll_list_init(&waiters);
    while (!atoll_list_empty(&n->id_waiters)) {
        struct atoll_list *node = n->id_waiters.next;

        atoll_list_remove(node);
        atoll_list_push_back(&waiters, node);
    }
    while (!atoll_list_empty(&waiters)) {
        struct atoll_native_id_waiter *w =
            ATOLL_CONTAINER_OF(waiters.next, struct atoll_native_id_waiter, node);

        atoll_list_remove(&w->node);
        w->done(w, error);
    }
}

/* An older atoll-spawn that cannot take more blocks: it runs until the operator restarts it. */
static void describe_old_spawn(const struct atoll_native *n, struct atoll_error *err)
{
    (void)atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, EAGAIN,
                     "all %u id ranges are in use, one for each sandbox; destroy some, or restart "
                     "the daemon and its atoll-spawn, which is of an older version and cannot take "
                     "more",
                     n->homes.slots.count);
}

static void on_ids(void *arg, const struct atoll_reply *answer)
{
    struct atoll_native *n = arg;
    struct atoll_error err = {0};
    struct atoll_sm_ids ids;
    int r = 0;

    n->asking_ids = false;
    if (answer->error && answer->error->kind == ATOLL_ERR_UNIMPLEMENTED)
        describe_old_spawn(n, &err);
    else if (answer->error)
        err = *answer->error;
    else if (atoll_msg_decode(&atoll_sm_ids_desc, answer->frame->payload, answer->frame->len, &ids,
                              &err) == 0)
        r = atoll_id_pool_add(&n->homes.slots, ids.base, ids.slots);
    if (r < 0)
        (void)atoll_fail_errno(&err, -r, "id ranges");
    tell_waiters(n, err.kind != ATOLL_ERR_NONE ? &err : NULL);
}

static int ask_ids(struct atoll_native *n, struct atoll_error *err)
{
    int r;

    if (n->asking_ids)
        return 0;
    r = n->rpc ? atoll_rpc_ask(n->rpc, ATOLL_SPAWN_TAKE_IDS, NULL, NULL, on_ids, n, err)
               : atoll_native_absent(n, err);
    n->asking_ids = r == 0;
    return r;
}

int atoll_native_more_ids(struct atoll_native *n, struct atoll_native_id_waiter *waiter,
                          struct atoll_error *err)
{
    int r = ask_ids(n, err);

    if (r == 0)
        atoll_list_push_back(&n->id_waiters, &waiter->node);
    return r;
}

static void on_given(void *arg, const struct atoll_reply *answer)
{
    (void)arg;
    if (answer->error)
        atoll_log(ATOLL_LOG_WARN, "id block not given back", "error", answer->error->text, NULL);
}

void atoll_native_forget(struct atoll_native *n, const char *id)
{
    struct atoll_sm_ids ids = {0};
    struct atoll_error err;

    atoll_id_ranges_forget(&n->homes, id);
    while (n->rpc &&
           (ids.base = atoll_id_pool_drop(&n->homes.slots, n->spawn.id_slots / SPARE_PART)) != 0)
        (void)!atoll_rpc_ask(n->rpc, ATOLL_SPAWN_GIVE_IDS, &atoll_sm_ids_desc, &ids, on_given, NULL,
                             &err);
    atoll_native_note_ids(n);
}

/* Health: atoll-spawn answers, and there is a range for one more sandbox. */

struct checkup {
    struct atoll_native_id_waiter waiter;
    struct atoll_native *n;
    atoll_provider_health_fn *done; /* NULL: already called */
    void *arg;
    struct atoll_timer silence;
};

static void finish(struct checkup *c, const struct atoll_error *error)
{
    atoll_timer_cancel(&c->silence);
    if (c->done)
        c->done(c->arg, "", error);
    free(c);
}

static void on_more(struct atoll_native_id_waiter *waiter, const struct atoll_error *error)
{
    finish(ATOLL_CONTAINER_OF(waiter, struct checkup, waiter), error);
}

static void on_pong(void *arg, const struct atoll_reply *answer)
{
    struct checkup *c = arg;
    const struct atoll_error *error = answer->error;

    /* An older atoll-spawn answers UNIMPLEMENTED, which shows that it works. */
    finish(c, error && error->kind != ATOLL_ERR_UNIMPLEMENTED ? error : NULL);
}

static void too_late(void *arg)
{
    struct checkup *c = arg;
    struct atoll_error err;

    (void)atoll_native_silent(&err, ATOLL_NATIVE_LIST_MS);
    ATOLL_TAKE_PTR(c->done)(c->arg, "", &err);
}

void atoll_native_health(struct atoll_provider *p, atoll_provider_health_fn *done, void *arg)
{
    struct atoll_native *n = atoll_native_of(p);
    struct checkup *c = atoll_alloc(sizeof(*c));
    struct atoll_error err;
    int r;

    *c = (struct checkup){.waiter.done = on_more, .n = n, .done = done, .arg = arg};
    if (n->homes.slots.count > 0 && n->homes.slots.used == n->homes.slots.count)
        r = atoll_native_more_ids(n, &c->waiter, &err);
    else if (n->rpc)
        r = atoll_rpc_ask(n->rpc, ATOLL_SPAWN_PING, NULL, NULL, on_pong, c, &err);
    else
        r = atoll_native_absent(n, &err);
    if (r < 0) {
        finish(c, &err);
        return;
    }
    atoll_timer_set(&c->silence, n->loop, ATOLL_MIN(n->answer_ms, (int64_t)ATOLL_NATIVE_LIST_MS),
                    too_late, c);
}
