/* Builds that nobody waits for any more: whenever that is, their image does not stay. */
#include <errno.h>
#include <string.h>
#include "engine/engine_internal.h"
#include "test.h"

static struct atoll_engine engine;
static struct atoll_provider_entry slot;
static atoll_provider_image_fn *built;
static void *built_arg;
static unsigned cancelled, dropped;

static const struct atoll_provider_caps *caps(struct atoll_provider *p)
{
    static const struct atoll_provider_caps builds = {.builds = true};

    (void)p;
    return &builds;
}

static void build(struct atoll_provider *p, const struct atoll_provider_build *b,
                  atoll_provider_said_fn *said, atoll_provider_image_fn *done, void *arg)
{
    (void)p;
    (void)said;
    (void)close(b->context_fd);
    built = done;
    built_arg = arg;
}

static void cancel_build(struct atoll_provider *p, const char *image)
{
    (void)p;
    (void)image;
    cancelled++;
}

static void drop_image(struct atoll_provider *p, const char *image, atoll_provider_done_fn *done,
                       void *arg)
{
    (void)p;
    (void)image;
    dropped++;
    done(arg, NULL);
}

static const struct atoll_provider_ops ops = {.name = "builder",
                                              .caps = caps,
                                              .build = build,
                                              .cancel_build = cancel_build,
                                              .drop_image = drop_image};
static struct atoll_provider provider = {.ops = &ops};

static char no_bound[] = ""; /* of the operator, for networks */

static int set_up(void **state)
{
    (void)state;
    memset(&engine, 0, sizeof(engine));
    cancelled = dropped = 0;
    atoll_templates_init(&engine);
    atoll_map_init(&engine.sandboxes);
    atoll_list_init(&engine.builds);
    slot = (struct atoll_provider_entry){.engine = &engine, .provider = &provider};
    engine.entries[0] = &slot;
    engine.entry_count = 1;
    engine.operator_networks.most = no_bound;
    assert_int_equal(atoll_loop_new(&engine.loop, NULL), 0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    assert_true(atoll_list_empty(&engine.builds));
    engine.loop = atoll_loop_free(engine.loop);
    return 0;
}

static struct atoll_build *start(void)
{
    const struct atoll_build_request wish = {.name = "made"};
    struct atoll_error err;
    struct atoll_build *b = NULL;

    assert_int_equal(atoll_build_start(&engine, &wish, &b, &err), 0);
    return b;
}

static void succeed(void)
{
    const struct atoll_provider_image image = {.size_bytes = 1};

    built(built_arg, &image, NULL);
}

static void dropped_before_its_end(void **state)
{
    (void)state;
    atoll_build_drop(start());
    assert_int_equal(cancelled, 1);
    assert_int_equal(dropped, 0);
    succeed();
    assert_int_equal(dropped, 1);
}

/* The provider may be done with the files before whoever sends them is. */
static void dropped_after_its_end(void **state)
{
    struct atoll_build *b = start();

    (void)state;
    succeed();
    atoll_build_drop(b);
    assert_int_equal(cancelled, 0);
    assert_int_equal(dropped, 1);
}

static void dropped_after_it_failed(void **state)
{
    struct atoll_build *b = start();
    struct atoll_error err;

    (void)state;
    (void)atoll_fail(&err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "no Dockerfile");
    built(built_arg, NULL, &err);
    atoll_build_drop(b);
    assert_int_equal(dropped, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(dropped_before_its_end),
        TEST(dropped_after_its_end),
        TEST(dropped_after_it_failed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
