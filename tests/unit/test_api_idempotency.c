/*
 * Requests that are sent again, over a real HTTP server with an engine made of memory: while the
 * first is under way, after its client went away, and after it failed.
 */
#include "test_api_util.h"

static const char *create(const char *key, const char *body)
{
    char *text;
    const char *answer;

    assert_true(asprintf(&text,
                         "POST /api/sandboxes HTTP/1.1\r\nHost: x\r\nIdempotency-Key: %s\r\n"
                         "Content-Length: %zu\r\n\r\n%s",
                         key, strlen(body), body) > 0);
    answer = rig_ask(&rig, text);
    free(text);
    return answer;
}

static void vanish(void)
{
    close(rig.fd);
    rig.fd = -1;
    rig_connect(&rig);
    rig_turn(&rig);
}

static void the_same_key_gives_the_same_answer(void **state)
{
    (void)state;
    assert_has(create("k1", "{}"), "HTTP/1.1 201 ");
    assert_has(create("k1", "{}"), "Idempotency-Replayed: true\r\n");
    assert_has(create("k1", "{}"), "\"id\":\"box0\"");
    assert_int_equal(fake.made, 1);
    assert_has(create("k1", "{\"metadata\":{}}"), "HTTP/1.1 409 ");
    assert_has(create("k2", "{}"), "\"id\":\"box1\"");
}

static void under_way_is_not_done(void **state)
{
    (void)state;
    fake.hold = true;
    (void)create("k", "{}");
    vanish();
    assert_has(create("k", "{}"), "\"code\":\"aborted\"");
    fake_release();
    assert_int_equal(fake.destroyed, 0);
    assert_has(create("k", "{}"), "\"id\":\"box0\"");
    assert_int_equal(fake.made, 1);
}

static void a_failure_may_be_tried_again(void **state)
{
    (void)state;
    (void)atoll_fail(&fake.fail_next, ATOLL_ERR_UNAVAILABLE, EAGAIN, "not now");
    assert_has(create("k", "{}"), "HTTP/1.1 503 ");
    assert_has(create("k", "{}"), "HTTP/1.1 201 ");
    assert_has(create("k2", "{\"nonsense\":1}"), "HTTP/1.1 400 ");
    assert_has(create("k2", "{}"), "HTTP/1.1 201 ");
}

/* Far more keys than are kept: the oldest go, and nothing breaks. */
static void the_oldest_are_forgotten(void **state)
{
    char key[32];

    (void)state;
    assert_has(create("first", "{}"), "\"id\":\"box0\"");
    for (int i = 0; i < 4200; i++) {
        fake.made = 1;
        (void)snprintf(key, sizeof(key), "key-%d", i);
        assert_has(create(key, "{}"), "HTTP/1.1 201 ");
    }
    fake.made = 2;
    assert_has(create("first", "{}"), "\"id\":\"box2\"");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_same_key_gives_the_same_answer),
        TEST(under_way_is_not_done),
        TEST(a_failure_may_be_tried_again),
        TEST(the_oldest_are_forgotten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
