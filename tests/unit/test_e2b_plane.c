/*
 * What strangers and neighbours can use up of the sandbox plane of the E2B facade, with an engine made
 * of memory.
 */
#include "api/e2b/plane.h"
#include "test_api_util.h"

/* A call of envd in a sandbox. */
static const char *call_in(const char *sandbox, const char *method, const char *body)
{
    char token[ATOLL_E2B_TOKEN_LEN + 1], text[1024];

    atoll_e2b_envd_token(api, sandbox, token);
    (void)snprintf(
        text, sizeof(text),
        "POST /filesystem.Filesystem/%s HTTP/1.1\r\nHost: x\r\nE2b-Sandbox-Id: %s\r\n"
        "E2b-Sandbox-Port: %d\r\nX-Access-Token: %s\r\nContent-Type: application/json\r\n"
        "Content-Length: %zu\r\n\r\n%s",
        method, sandbox, ATOLL_E2B_ENVD_PORT, token, strlen(body), body);
    return rig_ask(&rig, text);
}

static void make_box(void)
{
    assert_has(
        rig_ask(&rig, "POST /api/sandboxes HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"),
        "HTTP/1.1 201 ");
}

static void one_sandbox_does_not_take_the_watchers_of_another(void **state)
{
    const char *answer = "";
    char id[18], body[64];
    int made = 0;

    (void)state;
    make_box();
    make_box();
    while (made < 2000 && strstr(answer = call_in("box0", "CreateWatcher", "{}"), "watcherId")) {
        assert_int_equal(sscanf(strstr(answer, "watcherId"), "watcherId\":\"%17[a-z0-9]", id), 1);
        made++;
    }
    assert_int_equal(made, 32);
    assert_has(answer, "HTTP/1.1 429 ");
    assert_has(answer, "{\"code\":\"resource_exhausted\",\"message\":"
                       "\"the sandbox has 32 watchers already, remove one first\"}");
    assert_has(call_in("box1", "CreateWatcher", "{}"), "watcherId");
    (void)snprintf(body, sizeof(body), "{\"watcherId\":\"%s\"}", id);
    assert_has(call_in("box0", "RemoveWatcher", body), "HTTP/1.1 200 ");
    assert_has(call_in("box0", "CreateWatcher", "{}"), "watcherId");
}

static const char *ask_signed(const char *signature)
{
    char text[256] = "GET /files?path=/f&signature=";
    size_t n = strlen(text);

    for (; *signature; signature++) /* "+" would be a space */
        n += (size_t)snprintf(text + n, sizeof(text) - n, "%%%02x", (unsigned)*signature);
    (void)snprintf(text + n, sizeof(text) - n, " HTTP/1.1\r\nHost: x\r\n\r\n");
    return rig_ask(&rig, text);
}

static void looking_for_a_signature_is_limited(void **state)
{
    struct atoll_api_config config = {
        .engine = &fake, .loop = rig.loop, .wrong_key_rate = {.per_second = 1, .burst = 2}};
    char token[ATOLL_E2B_TOKEN_LEN + 1], right[ATOLL_E2B_SIGNATURE_MAX];
    const char *answer = "";

    (void)state;
    api = atoll_api_free(api);
    api = atoll_api_new(&config);
    make_box();
    atoll_e2b_envd_token(api, "box0", token);
    atoll_e2b_sign(&(struct atoll_e2b_signed){"/f", "read", "", ""}, token, right);
    for (int i = 0; i < 10; i++) /* right ones cost nothing */
        assert_has(ask_signed(right), "HTTP/1.1 200 ");
    assert_has(ask_signed("v1_x"), "HTTP/1.1 401 ");
    /* None is looked for while too many were wrong, which a slow machine may have to try again. */
    for (int i = 0; i < 1000 && !strstr(answer, "HTTP/1.1 429 "); i++) {
        while (!strstr(ask_signed("v1_x"), "HTTP/1.1 429 "))
            ;
        answer = ask_signed(right);
    }
    assert_has(answer, "HTTP/1.1 429 ");
    assert_has(answer, "too many requests with invalid signatures");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_sandbox_does_not_take_the_watchers_of_another, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(looking_for_a_signature_is_limited, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
