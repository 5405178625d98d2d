/*
 * The connection to atoll-spawn. If it breaks, the sandboxes have died with atoll-spawn. Its keeper
 * starts another one, and the provider reconnects without blocking.
 */
#include <errno.h>
#include <stdio.h>
#include "base/log.h"
#include "provider/native/native_internal.h"

#define FIRST_DELAY_MS 2
#define DELAY_MAX_MS 1000
/* A new atoll-spawn is usually ready after some milliseconds. If the keeper has not started one
 * after this time, it may never come. */
#define PATIENCE_MS 5000
#define HELLO_MS 5000

static int on_event(void *arg, struct atoll_frame *frame)
{
    struct atoll_native *n = arg;
    struct atoll_sm_exited msg;
    struct atoll_error err;

    if (frame->type != ATOLL_SPAWN_EXITED ||
        atoll_msg_decode(&atoll_sm_exited_desc, frame->payload, frame->len, &msg, &err) < 0)
        return -EBADMSG;
    n->base.events->exited(n->base.events_arg, msg.id,
                           &(struct atoll_provider_exit){msg.code, msg.signal, msg.oom_kills,
                                                         msg.memory_peak_bytes, msg.cpu_us});
    return 0;
}

static void on_lost(void *arg, const char *why);
static const struct atoll_rpc_events rpc_events = {.event = on_event, .lost = on_lost};

static int use_ranges(struct atoll_native *n, struct atoll_error *err)
{
    struct atoll_id_pool slots;
    int r = atoll_spawn_info_ids(&n->spawn, &slots);

    if (r < 0)
        return atoll_fail_errno(err, -r, "id ranges");
    atoll_id_ranges_open(&n->homes, &slots);
    return 0;
}

int atoll_native_connect_spawn(struct atoll_native *n, struct atoll_error *err)
{
    int fd;
    char texts[ATOLL_HOST_FOLDERS_MAX][sizeof(n->folders.items[0].path) + 2];
    const char *folders[ATOLL_HOST_FOLDERS_MAX + 1] = {NULL};
    int r;

    for (size_t i = 0; i < n->folders.count; i++) {
        (void)snprintf(texts[i], sizeof(texts[i]), "%d:%s", (int)n->folders.items[i].access,
                       n->folders.items[i].path);
        folders[i] = texts[i];
    }
    r = atoll_spawn_connect(n->state_dir, n->spawn_program, folders, &fd, &n->spawn, err);

    if (r < 0)
        return r;
    r = use_ranges(n, err);
    if (r < 0) {
        (void)close(fd);
        return r;
    }
    return atoll_rpc_open(n->loop, fd, &atoll_spawn_protocol, &rpc_events, n, &n->rpc, err);
}

int atoll_native_absent(const struct atoll_native *n, struct atoll_error *err)
{
    if (!n->absence.told)
        return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, EPIPE,
                          "atoll-spawn died and is being started again; try again");
    return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, EPIPE, ATOLL_SPAWN_GONE);
}

static void tell_lost(void *arg)
{
    struct atoll_native *n = arg;
    struct atoll_error err;

    if (n->absence.told)
        return;
    n->absence.told = true;
    if (!n->rpc) {
        (void)atoll_native_absent(n, &err);
        atoll_log(ATOLL_LOG_ERROR, "atoll-spawn was not started again", "error", err.text, NULL);
    }
    n->base.events->lost(n->base.events_arg, "atoll-spawn died, and its sandboxes with it");
}

static void try_again(void *arg);

static void try_later(struct atoll_native *n)
{
    n->absence.rpc = atoll_rpc_close(n->absence.rpc);
    atoll_timer_set(&n->absence.again, n->loop, n->absence.delay_ms, try_again, n);
    n->absence.delay_ms = ATOLL_MIN(n->absence.delay_ms * 2, (int64_t)DELAY_MAX_MS);
}

static void on_no_answer(void *arg)
{
    try_later(arg);
}

static void on_hello(void *arg, const struct atoll_reply *answer)
{
    struct atoll_native *n = arg;
    struct atoll_error err;

    if (answer->error) {
        /* The connection ended, which on_lost() handles, or it speaks another version: try again
         * later. */
        atoll_timer_set(&n->absence.again, n->loop, DELAY_MAX_MS, on_no_answer, n);
        return;
    }
    if (atoll_spawn_read_hello(answer->frame, &n->spawn, &err) < 0 || use_ranges(n, &err) < 0) {
        atoll_log(ATOLL_LOG_ERROR, "atoll-spawn cannot be used", "error", err.text, NULL);
        atoll_timer_set(&n->absence.again, n->loop, DELAY_MAX_MS, on_no_answer, n);
        return;
    }
    n->plan_host.pool = n->spawn.pool;
    n->plan_host.folders = n->spawn.folders;
    n->rpc = ATOLL_TAKE_PTR(n->absence.rpc);
    atoll_timer_cancel(&n->absence.again);
    atoll_timer_cancel(&n->absence.patience);
    atoll_log(ATOLL_LOG_INFO, "atoll-spawn is back", NULL);
    tell_lost(n);
}

static void try_again(void *arg)
{
    struct atoll_native *n = arg;
    struct atoll_error err;
    int fd = atoll_spawn_try(n->state_dir);

    if (fd < 0 || atoll_rpc_open(n->loop, fd, &atoll_spawn_protocol, &rpc_events, n,
                                 &n->absence.rpc, &err) < 0) {
        try_later(n);
        return;
    }
    atoll_timer_set(&n->absence.again, n->loop, HELLO_MS, on_no_answer, n);
    if (atoll_rpc_ask(n->absence.rpc, ATOLL_SPAWN_HELLO, &atoll_sm_hello_desc, &atoll_spawn_hello,
                      on_hello, n, &err) < 0)
        try_later(n);
}

/* For the connection in use and for the one in its handshake. */
static void on_lost(void *arg, const char *why)
{
    struct atoll_native *n = arg;

    if (n->ending) {
        n->rpc = atoll_rpc_close(n->rpc);
        atoll_native_end_return(n);
        return;
    }
    if (!n->rpc) {
        try_later(n);
        return;
    }
    n->rpc = atoll_rpc_close(n->rpc);
    n->lost++;
    atoll_native_drop_all_sockets(n);
    atoll_log(ATOLL_LOG_ERROR, "atoll-spawn is gone", "why", why, NULL);
    n->absence.told = false;
    n->absence.delay_ms = FIRST_DELAY_MS;
    atoll_timer_set(&n->absence.patience, n->loop, PATIENCE_MS, tell_lost, n);
    try_later(n);
}

void atoll_native_end_return(struct atoll_native *n)
{
    atoll_timer_cancel(&n->absence.again);
    atoll_timer_cancel(&n->absence.patience);
    n->absence.rpc = atoll_rpc_close(n->absence.rpc);
}
