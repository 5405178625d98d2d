/*
 * What stands between the engine and a provider: the adapter for straight-line providers with its
 * deadlines and cancelling, and the wrapper that tries again and refuses.
 */
#include "test.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "base/metrics.h"
#include "provider/call.h"
#include "provider/checked.h"
#include "provider/sync_internal.h"

/* A provider that does as it is told. */

static struct {
    atomic_int creates, freed;
    int fail_first; /* so many creates */
    enum atoll_error_kind kind;
    int retry_ms;
    bool hang; /* until cancelled */
    int other_fd;
} script;

static int fail_as_told(struct atoll_error *err)
{
    int r = atoll_fail(err, script.kind, EIO, "as told");

    err->retry_ms = script.retry_ms;
    return r;
}

static uint32_t missing(const struct atoll_sync_provider *p, const struct atoll_spec *spec)
{
    (void)p;
    (void)spec;
    return ATOLL_LIMIT_DISK;
}

static int create(struct atoll_sync_provider *p, const struct atoll_sync_call *call,
                  struct atoll_spec *spec, int *ret_fd, struct atoll_error *err)
{
    struct pollfd pfd = {.fd = call->cancel_fd, .events = POLLIN};
    int pair[2];

    (void)p;
    if (atomic_fetch_add(&script.creates, 1) < script.fail_first)
        return fail_as_told(err);
    if (script.hang && poll(&pfd, 1, 10000) > 0 && atoll_sync_cancelled(call))
        return atoll_fail(err, ATOLL_ERR_ABORTED, ECANCELED, "cancelled");
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return atoll_fail_errno(err, errno, "socketpair");
    script.other_fd = pair[1];
    *ret_fd = pair[0];
    memcpy(spec->handle, "its-name", 9);
    return 0;
}

static int list(struct atoll_sync_provider *p, const struct atoll_sync_call *call,
                void (*each)(void *arg, const char *id, const char *handle, bool alive), void *arg,
                struct atoll_error *err)
{
    (void)p;
    (void)call;
    (void)err;
    each(arg, "abcdefghijklmnopqrstuvwxyz", "one", true);
    each(arg, "too-short", "two", true);
    return 0;
}

static int health(struct atoll_sync_provider *p, const struct atoll_sync_call *call, char *detail,
                  size_t cap, struct atoll_error *err)
{
    (void)p;
    (void)err;
    (void)snprintf(detail, cap, "%d ms left", atoll_sync_left_ms(call) > 1000);
    return 0;
}

static struct atoll_sync_provider *told_free(struct atoll_sync_provider *p)
{
    (void)p;
    script.freed++;
    return NULL;
}

static const struct atoll_sync_ops told_ops = {
    .name = "told",
    .caps = {.isolation = "none", .networks = 1},
    .missing_limits = missing,
    .create = create,
    .list = list,
    .health = health,
    .free = told_free,
};
static struct atoll_sync_provider told = {&told_ops};

static int never(struct atoll_sync_provider *p, const struct atoll_sync_call *call,
                 const struct atoll_spec *spec, struct atoll_error *err)
{
    (void)p;
    (void)call;
    (void)spec;
    return atoll_fail(err, ATOLL_ERR_INTERNAL, EIO, "nobody calls this");
}

static const struct atoll_sync_ops able_ops = {.name = "able",
                                               .caps = {.isolation = "none", .pause = true},
                                               .pause = never,
                                               .free = told_free};

/* The world around it. */

struct world {
    struct atoll_loop *loop;
    struct atoll_workers *workers;
    struct atoll_checked_group group;
    struct atoll_provider *provider, *inner; /* the latter is its own */
    int ended;
    int fd;
    char text[ATOLL_ERROR_TEXT_MAX];
    enum atoll_error_kind kind;
    bool another;
};

static void open_world(struct world *w)
{
    struct atoll_error err;

    memset(&script, 0, sizeof(script));
    memset(w, 0, sizeof(*w));
    atoll_metrics_reset();
    w->group.first_delay_ms = 1;
    assert_int_equal(atoll_loop_new(&w->loop, &err), 0);
    assert_int_equal(atoll_workers_new(w->loop, 2, 10, &w->workers, &err), 0);
    assert_int_equal(atoll_sync_wrap(w->loop, w->workers, &told, &w->inner, &err), 0);
    assert_int_equal(atoll_checked_wrap(w->loop, &w->group, NULL, w->inner, &w->provider, &err), 0);
}

static void close_world(struct world *w)
{
    if (w->provider)
        (void)w->provider->ops->free(w->provider);
    w->workers = atoll_workers_free(w->workers);
    w->loop = atoll_loop_free(w->loop);
    assert_int_equal(script.freed, 1);
}

static void wait_ended(struct world *w, int wanted)
{
    struct atoll_error err;

    while (w->ended < wanted)
        assert_int_equal(atoll_loop_step(w->loop, 5000, &err), 0);
}

static void created(void *arg, int fd, uint64_t boot_us, const struct atoll_error *error)
{
    struct world *w = arg;

    (void)boot_us;
    w->ended++;
    w->fd = fd;
    w->kind = error ? error->kind : ATOLL_ERR_NONE;
    w->another = error && error->another;
}

static void done(void *arg, const struct atoll_error *error)
{
    struct world *w = arg;

    w->ended++;
    w->kind = error ? error->kind : ATOLL_ERR_NONE;
    (void)snprintf(w->text, sizeof(w->text), "%s", error ? error->text : "");
}

static void each(void *arg, const char *id, const char *handle, bool alive)
{
    struct world *w = arg;
    (void)snprintf(w->text + strlen(w->text), sizeof(w->text) - strlen(w->text), "%s=%s%d;", id,
                   handle, alive);
}

static void told_health(void *arg, const char *detail, const struct atoll_error *error)
{
    struct world *w = arg;

    done(arg, error);
    (void)snprintf(w->text, sizeof(w->text), "%s", detail);
}

static void calls_go_through(void **state)
{
    struct atoll_spec spec = {.id = "abcdefghijklmnopqrstuvwxyz"};
    struct world w;

    (void)state;
    open_world(&w);
    assert_int_equal(w.provider->ops->missing_limits(w.provider, &spec), ATOLL_LIMIT_DISK);
    w.provider->ops->create(w.provider, &spec, created, &w);
    wait_ended(&w, 1);
    assert_true(w.kind == ATOLL_ERR_NONE && w.fd >= 0);
    assert_string_equal(spec.handle, "its-name");
    assert_int_equal(write(script.other_fd, "x", 1), 1);
    (void)close(w.fd);
    (void)close(script.other_fd);
    w.provider->ops->health(w.provider, told_health, &w);
    wait_ended(&w, 2);
    assert_string_equal(w.text, "1 ms left");
    close_world(&w);
}

static void listed(void *arg, const struct atoll_error *error)
{
    struct world *w = arg;

    assert_null(error);
    w->ended++;
}

static void lists_hold_only_ids(void **state)
{
    struct world w;

    (void)state;
    open_world(&w);
    w.provider->ops->list(w.provider, each, listed, &w);
    wait_ended(&w, 1);
    assert_string_equal(w.text, "abcdefghijklmnopqrstuvwxyz=one1;");
    close_world(&w);
}

static int try_create(enum atoll_error_kind kind, int fail_first, enum atoll_error_kind *ret)
{
    struct atoll_spec spec = {.id = "abcdefghijklmnopqrstuvwxyz"};
    struct world w;

    open_world(&w);
    script.kind = kind;
    script.fail_first = fail_first;
    w.provider->ops->create(w.provider, &spec, created, &w);
    wait_ended(&w, 1);
    if (w.fd >= 0) {
        (void)close(w.fd);
        (void)close(script.other_fd);
    }
    *ret = w.kind;
    close_world(&w);
    return script.creates;
}

static void what_may_pass_is_tried_again(void **state)
{
    enum atoll_error_kind kind;

    (void)state;
    assert_int_equal(try_create(ATOLL_ERR_UNAVAILABLE, 2, &kind), 3);
    assert_int_equal(kind, ATOLL_ERR_NONE);
    assert_int_equal(try_create(ATOLL_ERR_DEADLINE_EXCEEDED, 100, &kind), ATOLL_CHECKED_TRIES);
    assert_int_equal(kind, ATOLL_ERR_DEADLINE_EXCEEDED);
    assert_int_equal(try_create(ATOLL_ERR_INVALID_ARGUMENT, 100, &kind), 1);
    assert_int_equal(kind, ATOLL_ERR_INVALID_ARGUMENT);
}

static void a_cancelled_create_gives_up(void **state)
{
    struct atoll_spec spec = {.id = "abcdefghijklmnopqrstuvwxyz"};
    struct world w;

    (void)state;
    open_world(&w);
    script.hang = true;
    w.provider->ops->create(w.provider, &spec, created, &w);
    while (script.creates == 0)
        (void)usleep(1000);
    w.provider->ops->cancel(w.provider, &spec);
    wait_ended(&w, 1);
    assert_int_equal(w.kind, ATOLL_ERR_ABORTED);
    close_world(&w);
}

static void one_that_waits_for_its_next_try_can_be_cancelled(void **state)
{
    struct atoll_spec spec = {.id = "abcdefghijklmnopqrstuvwxyz"};
    struct atoll_error err;
    struct world w;

    (void)state;
    open_world(&w);
    script.kind = ATOLL_ERR_UNAVAILABLE;
    script.fail_first = 100;
    script.retry_ms = 60000;
    w.provider->ops->create(w.provider, &spec, created, &w);
    while (script.creates == 0)
        (void)usleep(1000);
    assert_int_equal(atoll_loop_step(w.loop, 5000, &err), 0); /* its end arrives */
    w.provider->ops->cancel(w.provider, &spec);
    assert_int_equal(w.ended, 0); /* never from inside */
    wait_ended(&w, 1);
    assert_int_equal(w.kind, ATOLL_ERR_UNAVAILABLE);
    assert_int_equal(script.creates, 1);
    close_world(&w);
}

/* The second create of a tenant, whose first one does not get on. */
static void one_that_waits_too_long_says_nothing_of_the_provider(void **state)
{
    struct atoll_spec spec = {.id = "abcdefghijklmnopqrstuvwxyz"};
    struct atoll_spec next = {.id = "bbcdefghijklmnopqrstuvwxyz"};
    struct world w;

    (void)state;
    open_world(&w);
    script.hang = true;
    w.inner->ops->create(w.inner, &spec, created, &w);
    while (script.creates == 0)
        (void)usleep(1000);
    w.inner->ops->create(w.inner, &next, created, &w);
    atoll_sync_work_of(atoll_sync_of(w.inner)->callee.calls.prev)->how.deadline_ms = 0;
    w.inner->ops->health(w.inner, told_health, &w);
    wait_ended(&w, 1); /* which does not wait for them */
    assert_int_equal(w.kind, ATOLL_ERR_NONE);
    w.inner->ops->cancel(w.inner, &spec);
    wait_ended(&w, 3);
    assert_int_equal(script.creates, 1);
    assert_int_equal(w.kind, ATOLL_ERR_DEADLINE_EXCEEDED);
    assert_true(w.another);
    close_world(&w);
}

/* Freed while a call is under way: it is told to give up, and nobody is told how it ended. */
static void freeing_waits_for_nobody(void **state)
{
    struct atoll_spec spec = {.id = "abcdefghijklmnopqrstuvwxyz"};
    struct world w;

    (void)state;
    open_world(&w);
    script.hang = true;
    w.provider->ops->create(w.provider, &spec, created, &w);
    while (script.creates == 0)
        (void)usleep(1000);
    w.provider = w.provider->ops->free(w.provider);
    close_world(&w);
    assert_int_equal(w.ended, 0);
}

static void refusals_name_who_can(void **state)
{
    static struct atoll_sync_provider able = {&able_ops};
    struct atoll_spec spec = {.id = "abcdefghijklmnopqrstuvwxyz"};
    struct atoll_provider *inner, *other;
    struct atoll_error err;
    struct world w;

    (void)state;
    open_world(&w);
    w.provider->ops->pause(w.provider, &spec, done, &w);
    assert_int_equal(w.ended, 1);
    assert_int_equal(w.kind, ATOLL_ERR_UNIMPLEMENTED);
    assert_string_equal(w.text, "provider told cannot pause sandboxes");
    assert_int_equal(atoll_sync_wrap(w.loop, w.workers, &able, &inner, &err), 0);
    assert_int_equal(atoll_checked_wrap(w.loop, &w.group, NULL, inner, &other, &err), 0);
    w.provider->ops->pause(w.provider, &spec, done, &w);
    assert_string_equal(w.text, "provider told cannot pause sandboxes; able can");
    (void)other->ops->free(other);
    script.freed = 0;
    close_world(&w);
}

static const struct atoll_provider_caps *all_caps(struct atoll_provider *p)
{
    static const struct atoll_provider_caps caps = {.builds = true,
                                                    .loads = true,
                                                    .snapshots = true,
                                                    .snapshot_layers = true,
                                                    .volumes = true,
                                                    .volume_copies = true,
                                                    .pause = true,
                                                    .reclaim = true,
                                                    .save = true,
                                                    .persistent = true,
                                                    .set_limits = true,
                                                    .set_network = true,
                                                    .stats = true,
                                                    .sockets = true};

    (void)p;
    return &caps;
}

/* Every row of the table has a call, facts of its own, and is refused if its member is missing. */
static void operations_are_rows(void **state)
{
    struct atoll_callee callee;
    struct atoll_provider *p = &callee.base;
    enum atoll_op ops[] = {
#define OPERATION(NAME, ...) ATOLL_OP_##NAME,
#include "provider/operations.def"
    };

    (void)state;
    atoll_callee_init(&callee, "full", sizeof(struct atoll_call), NULL);
    callee.ops.caps = all_caps;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(ops); i++) {
        assert_int_equal(ops[i], i);
        assert_true(atoll_op_is_supported(p, ops[i]));
        assert_true(*atoll_op_facts[i].verb);
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(atoll_op_facts[i].name, atoll_op_facts[k].name);
    }
#define OPERATION(NAME, member, ...) \
    callee.ops.member = NULL;        \
    assert_false(atoll_op_is_supported(p, ATOLL_OP_##NAME));
#include "provider/operations.def"
}

static void delays(void **state)
{
    struct atoll_error error = {.kind = ATOLL_ERR_UNAVAILABLE};
    const int64_t budget = 10000;

    (void)state;
    /* a half to one and a half of 100, 200, 400; then no more */
    assert_int_equal(atoll_checked_delay_ms(1, &error, 100, 0, budget, 0), 50);
    assert_int_equal(atoll_checked_delay_ms(1, &error, 100, 0, budget, 100), 150);
    assert_int_equal(atoll_checked_delay_ms(2, &error, 100, 0, budget, 0), 100);
    assert_int_equal(atoll_checked_delay_ms(3, &error, 100, 0, budget, 0), 200);
    assert_int_equal(atoll_checked_delay_ms(4, &error, 100, 0, budget, 0), -1);
    /* who says when is believed, within the budget */
    error.retry_ms = 3000;
    assert_int_equal(atoll_checked_delay_ms(1, &error, 100, 0, budget, 0), 3000);
    assert_int_equal(atoll_checked_delay_ms(1, &error, 100, 8000, budget, 0), -1);
    /* without a budget there is one try, however short the delay */
    error.retry_ms = 0;
    assert_int_equal(atoll_checked_delay_ms(1, &error, 1, 0, 0, 0), -1);
    error = (struct atoll_error){.kind = ATOLL_ERR_NOT_FOUND};
    assert_int_equal(atoll_checked_delay_ms(1, &error, 100, 0, budget, 0), -1);
    error.kind = ATOLL_ERR_DEADLINE_EXCEEDED;
    assert_int_equal(atoll_checked_delay_ms(1, &error, 100, budget, budget, 0), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_go_through),
        cmocka_unit_test(lists_hold_only_ids),
        cmocka_unit_test(what_may_pass_is_tried_again),
        cmocka_unit_test(a_cancelled_create_gives_up),
        cmocka_unit_test(one_that_waits_for_its_next_try_can_be_cancelled),
        cmocka_unit_test(one_that_waits_too_long_says_nothing_of_the_provider),
        cmocka_unit_test(freeing_waits_for_nobody),
        cmocka_unit_test(refusals_name_who_can),
        cmocka_unit_test(operations_are_rows),
        cmocka_unit_test(delays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
