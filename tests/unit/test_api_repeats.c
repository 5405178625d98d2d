/*
 * Requests without a key that are sent again (api/repeats.h), as clients of Vercel's API send them: while
 * the first is under way, and after its answer could not be sent.
 */
#include "test_api_util.h"

#define SANDBOXES "/vercel/api/v2/sandboxes"

static const char *post(const char *path, const char *body)
{
    char *text;
    const char *answer;

    assert_true(asprintf(&text, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %zu\r\n\r\n%s",
                         path, strlen(body), body) > 0);
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

static void the_second_gets_the_answer_of_the_first(void **state)
{
    (void)state;
    fake.hold = true;
    (void)post(SANDBOXES, "{}");
    vanish();
    assert_string_equal(post(SANDBOXES, "{}"), "");
    fake_release();
    rig_turn(&rig);
    assert_has(rig_text(&rig), "\"currentSessionId\":\"sbx_box0");
    assert_int_equal(fake.made, 1);
    assert_int_equal(fake.destroyed, 0);
}

static void another_body_is_another_request(void **state)
{
    (void)state;
    fake.hold = true;
    (void)post(SANDBOXES, "{}");
    vanish();
    (void)post(SANDBOXES, "{\"projectId\":\"p\"}");
    fake_release();
    rig_turn(&rig);
    assert_int_equal(fake.made, 2);
    assert_int_equal(fake.destroyed, 1); /* whose client is gone */
}

static void clients_that_stay_are_not_repeated(void **state)
{
    (void)state;
    assert_has(post(SANDBOXES, "{}"), "HTTP/1.1 200 ");
    assert_has(post(SANDBOXES, "{}"), "HTTP/1.1 200 ");
    assert_int_equal(fake.made, 2);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_second_gets_the_answer_of_the_first),
        TEST(another_body_is_another_request),
        TEST(clients_that_stay_are_not_repeated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
