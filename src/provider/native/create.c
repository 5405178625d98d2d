/*
 * Makes a native sandbox: plan → spawn → connect to the agent.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/text.h"
#include "provider/disk_image.h"
#include "provider/native/native_internal.h"
#include "sandbox/seccomp.h"
#include "sys/unix_socket.h"

struct creation {
    struct atoll_native *n;
    struct atoll_spec spec;
    struct atoll_spec *ret_spec; /* borrowed from the caller while `done` is set */
    struct atoll_native_id_waiter waiter;
    atoll_provider_created_fn *done; /* NULL: was called with DEADLINE_EXCEEDED */
    void *arg;
    struct atoll_timer silence;
    struct atoll_error error; /* why the sandbox is being removed again */
    bool cleared;             /* a leftover with the same id was removed */
    unsigned lost;            /* n->lost when it took its ids */
};

static void fail_creation(struct creation *c, const struct atoll_error *error)
{
    if (!c->spec.resume_disk) {
        atoll_native_forget(c->n, c->spec.id);
        if (c->spec.persistent) /* for the case that atoll-spawn died before it could */
            atoll_disk_image_drop_kept(c->n->state_dir, c->spec.id);
    }
    atoll_timer_cancel(&c->silence);
    if (c->done)
        c->done(c->arg, ATOLL_NO_FD, 0, error);
    free(c);
}

/* The deadline is over. The create keeps its ids until atoll-spawn answers, and is removed then. */
static void too_late(void *arg)
{
    struct creation *c = arg;
    struct atoll_error err;

    (void)atoll_native_silent(&err, c->n->answer_ms);
    ATOLL_TAKE_PTR(c->done)(c->arg, ATOLL_NO_FD, 0, &err);
}

int atoll_native_connect(struct atoll_native *n, const char *id, struct atoll_error *err)
{
    char dir[4096], name[48];
    int fd;

    (void)snprintf(dir, sizeof(dir), "%s/sandboxes", n->state_dir);
    (void)snprintf(name, sizeof(name), "%s.sock", id);
    fd = atoll_unix_connect(dir, name);
    if (fd == -EAGAIN) /* the agent does not accept; its state is unknown */
        return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, EAGAIN,
                          "the sandbox's agent does not answer");
    return fd < 0 ? atoll_fail_errno(err, -fd, "connect to the agent") : fd;
}

static void on_taken_down(void *arg, const struct atoll_reply *answer)
{
    struct creation *c = arg;

    (void)answer; /* atoll-spawn has logged what could not be removed */
    fail_creation(c, &c->error);
}

/* The sandbox runs but cannot be reached: removes it. */
static void take_down(struct creation *c, const struct atoll_error *error)
{
    struct atoll_sm_remove msg = {.id = c->spec.id, .keep_disk = c->spec.resume_disk};
    struct atoll_error err;

    c->error = *error;
    if (atoll_rpc_ask(c->n->rpc, ATOLL_SPAWN_REMOVE, &atoll_sm_remove_desc, &msg, on_taken_down, c,
                      &err) < 0)
        fail_creation(c, error);
}

static int send_plan(struct creation *c, struct atoll_error *err);

static void on_cleared(void *arg, const struct atoll_reply *answer)
{
    struct creation *c = arg;
    struct atoll_error err;

    if (answer->error || !c->done)
        fail_creation(c, answer->error);
    else if (send_plan(c, &err) < 0)
        fail_creation(c, &err);
}

/* An earlier daemon died after it requested this start and before it stored the result. No
 * client has the result, and only the disk matters: remove the processes and start again. */
static bool remove_leftover(struct creation *c, const struct atoll_error *error)
{
    struct atoll_sm_remove msg = {.id = c->spec.id, .keep_disk = true};
    struct atoll_error err;

    if (error->kind != ATOLL_ERR_ALREADY_EXISTS || !c->spec.resume_disk || c->cleared || !c->done)
        return false;
    c->cleared = true;
    return atoll_rpc_ask(c->n->rpc, ATOLL_SPAWN_REMOVE, &atoll_sm_remove_desc, &msg, on_cleared, c,
                         &err) == 0;
}

static void on_created(void *arg, const struct atoll_reply *answer)
{
    struct creation *c = arg;
    struct atoll_sm_created created;
    struct atoll_error err;
    int fd;

    if (answer->error) {
        if (!remove_leftover(c, answer->error))
            fail_creation(c, answer->error);
        return;
    }
    if (atoll_msg_decode(&atoll_sm_created_desc, answer->frame->payload, answer->frame->len,
                         &created, &err) < 0) {
        fail_creation(c, &err);
        return;
    }
    fd = c->done ? atoll_native_connect(c->n, c->spec.id, &err)
                 : atoll_fail(&err, ATOLL_ERR_ABORTED, ECANCELED, "the request was cancelled");
    if (fd < 0) {
        take_down(c, &err);
        return;
    }
    atoll_timer_cancel(&c->silence);
    atoll_native_keep_sockets(c->n, c->spec.id, answer->frame);
    c->done(c->arg, fd, created.boot_us, NULL);
    free(c);
}

static int send_plan(struct creation *c, struct atoll_error *err)
{
    struct atoll_native *n = c->n;
    struct atoll_sm_create create = {.id = c->spec.id};
    struct atoll_buf plan;
    int r;

    if (!n->rpc)
        return atoll_native_absent(n, err);
    atoll_buf_init(&plan, ATOLL_PLAN_MAX);
    r = atoll_plan_build(&n->plan_host, &c->spec, &n->seccomp, &plan, err);
    if (r == 0) {
        create.plan = (struct atoll_bytes){atoll_buf_head(&plan), atoll_buf_size(&plan)};
        r = atoll_rpc_ask(n->rpc, ATOLL_SPAWN_CREATE, &atoll_sm_create_desc, &create, on_created, c,
                          err);
    }
    atoll_buf_done(&plan);
    if (r == 0)
        atoll_timer_set(&c->silence, n->loop, n->answer_ms, too_late, c);
    return r;
}

static void images_ready(void *arg, const struct atoll_error *error)
{
    struct creation *c = arg;
    struct atoll_error err;

    if (!error && c->lost != c->n->lost) {
        (void)atoll_fail(&err, ATOLL_ERR_UNAVAILABLE, EPIPE, "atoll-spawn died during the request");
        error = &err;
    }
    if (error)
        fail_creation(c, error);
    else if (send_plan(c, &err) < 0)
        fail_creation(c, &err);
}

/* The image of the disk is there; the next is that of volumes. */
static void image_ready(void *arg, const struct atoll_error *error)
{
    struct creation *c = arg;
    struct atoll_native *n = c->n;
    struct atoll_error err;
    bool makes = false;
    char image[64];

    if (!error && atoll_native_check_volumes(n, &c->spec, &makes, &err) < 0)
        error = &err;
    if (error || !makes || !c->spec.volume_bytes) {
        images_ready(c, error);
        return;
    }
    atoll_plan_volume_image(&c->spec, image, sizeof(image));
    atoll_disk_image_make(n->loop, n->state_dir, image, c->spec.volume_bytes,
                          atoll_plan_volume_inodes(&c->spec), true, images_ready, c);
}

static void have_ids(struct creation *c)
{
    struct atoll_native *n = c->n;
    char image[64];

    c->ret_spec->outside_id = c->spec.outside_id;
    c->spec.cow_disk = c->spec.resume_disk ? atoll_disk_image_is_cow(n->state_dir, c->spec.id)
                                           : atoll_plan_wants_cow(&n->plan_host, &c->spec);
    if (!c->spec.cow_disk) /* only there checkpoints count for the disk */
        c->ret_spec->history_bytes = c->spec.history_bytes = 0;
    atoll_native_note_ids(n);
    if (!c->spec.resume_disk &&
        atoll_plan_needs_image(&n->plan_host, &c->spec, image, sizeof(image))) {
        atoll_disk_image_make(n->loop, n->state_dir, image, c->spec.limits.disk_bytes,
                              c->spec.limits.inodes, c->spec.persistent, image_ready, c);
        return;
    }
    image_ready(c, NULL);
}

static void drop_creation(struct creation *c, const struct atoll_error *error)
{
    atoll_timer_cancel(&c->silence);
    if (c->done)
        c->done(c->arg, ATOLL_NO_FD, 0, error);
    free(c);
}

static void take_ids(struct creation *c);

static void on_more_ids(struct atoll_native_id_waiter *waiter, const struct atoll_error *error)
{
    struct creation *c = ATOLL_CONTAINER_OF(waiter, struct creation, waiter);

    atoll_timer_cancel(&c->silence);
    c->lost = c->n->lost;
    if (error || !c->done)
        drop_creation(c, error);
    else
        take_ids(c);
}

/* Takes an id range; requests another block if all ranges are taken. */
static void take_ids(struct creation *c)
{
    struct atoll_error err;
    int r = atoll_id_ranges_take(&c->n->homes, &c->spec, &err);

    if (r == 0) {
        have_ids(c);
        return;
    }
    if (err.kind == ATOLL_ERR_RESOURCE_EXHAUSTED)
        r = atoll_native_more_ids(c->n, &c->waiter, &err);
    if (r < 0)
        drop_creation(c, &err);
    else
        atoll_timer_set(&c->silence, c->n->loop, c->n->answer_ms, too_late, c);
}

void atoll_native_create(struct atoll_provider *p, struct atoll_spec *spec,
                         atoll_provider_created_fn *done, void *arg)
{
    struct atoll_native *n = atoll_native_of(p);
    struct creation *c = calloc(1, sizeof(*c));
    struct atoll_error err;

    if (!c) {
        (void)atoll_fail_errno(&err, ENOMEM, "sandbox");
        done(arg, ATOLL_NO_FD, 0, &err);
        return;
    }
    *c = (struct creation){.n = n,
                           .spec = *spec,
                           .ret_spec = spec,
                           .waiter.done = on_more_ids,
                           .done = done,
                           .arg = arg,
                           .lost = n->lost};
    /* The ranges of an atoll-spawn that died are invalid for its successor. */
    if (!n->rpc) {
        (void)atoll_native_absent(n, &err);
        drop_creation(c, &err);
        return;
    }
    if (atoll_native_check_folders(n, &c->spec, &err) < 0 ||
        (!c->spec.resume_disk &&
         atoll_plan_check_disk(&n->plan_host, &c->spec, n->images, &err) < 0)) {
        drop_creation(c, &err);
        return;
    }
    take_ids(c);
}
