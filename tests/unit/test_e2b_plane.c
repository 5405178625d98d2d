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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_sandbox_does_not_take_the_watchers_of_another, set_up,
                                        tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
