/* The network of a request: its mode and its policy, and what views show of it. */
#include <string.h>
#include "engine/engine_internal.h"
#include "engine/network/request.h"
#include "engine/provider/providers.h"
#include "test.h"

static const struct {
    const char *mode, *network; /* of the request; NULL: not given */
    uint32_t mbps;
    const char *result; /* the mode, or the beginning of an error */
    const char *policy; /* NULL: none */
} rows[] = {
    {NULL, NULL, 0, "none", NULL},
    {NULL, "{}", 0, "none", NULL},
    {NULL, NULL, 10, "none", NULL},
    {"bridge", NULL, 0, "bridge", NULL},
    {"bridge", NULL, 10, "bridge",
     "{\"default\":\"allow\",\"rules\":[],\"transforms\":[],\"mbps\":10}"},
    {NULL, "{\"mode\":\"bridge\"}", 0, "bridge", NULL},
    {"bridge", "{\"mode\":\"bridge\",\"allow\":[]}", 0, "bridge", NULL},
    {NULL, "{\"allow\":[\"a.test\"]}", 0, "bridge",
     "{\"default\":\"deny\",\"rules\":[{\"allow\":\"a.test\"}],\"transforms\":[]}"},
    {NULL, "{\"deny\":[\"a.test\"]}", 0, "bridge",
     "{\"default\":\"allow\",\"rules\":[{\"deny\":\"a.test\"}],\"transforms\":[]}"},
    {NULL, "{\"default\":\"deny\"}", 0, "bridge",
     "{\"default\":\"deny\",\"rules\":[],\"transforms\":[]}"},
    {NULL, "{\"name\":\"team1\"}", 0, "isolated",
     "{\"default\":\"deny\",\"rules\":[],\"transforms\":[],\"network\":\"team1\"}"},
    {"isolated", NULL, 0, "isolated",
     "{\"default\":\"deny\",\"rules\":[],\"transforms\":[],\"network\":\"default\"}"},
    {"bridge", "{\"name\":\"team1\"}", 0, "bridge",
     "{\"default\":\"allow\",\"rules\":[],\"transforms\":[],\"network\":\"team1\"}"},
    {"wide", NULL, 0, "networkMode must be \"none\", \"isolated\" or \"bridge\" (got \"wide\")",
     NULL},
    {NULL, "{\"mode\":\"wide\"}", 0, "network.mode must be", NULL},
    {NULL, "{\"mode\":7}", 0, "network.mode must be", NULL},
    {"none", "{\"mode\":\"bridge\"}", 0, "networkMode is \"none\" and network.mode is \"bridge\"",
     NULL},
    {"none", "{\"allow\":[\"a.test\"]}", 0, "network has a policy, and its mode is \"none\"", NULL},
    {"isolated", "{\"allow\":[\"a.test\"]}", 0, "network has rules, and its mode \"isolated\"",
     NULL},
    {"bridge", "{\"mbps\":5}", 6, "networkMbps and network.mbps differ", NULL},
    {NULL, "{\"allow\":[\"a.test\",\"exa mple\"]}", 0, "network.allow[1]: \"exa mple\" is not",
     NULL},
};

static void modes_and_policies(void **state)
{
    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(rows); i++) {
        json_t *network = rows[i].network ? json_loads(rows[i].network, 0, NULL) : NULL;
        const struct atoll_network_request request = {
            .mode = rows[i].mode, .network = network, .mbps = rows[i].mbps};
        enum atoll_network mode;
        struct atoll_error err;
        char *policy = NULL;
        int r = atoll_network_request_check(&request, &mode, &policy, &err);
        const char *result = r < 0 ? err.text : atoll_network_name(mode);

        if (strncmp(result, rows[i].result, strlen(rows[i].result)) != 0)
            fail_msg("row %zu: %s", i, result);
        if (rows[i].policy)
            assert_string_equal(policy, rows[i].policy);
        else
            assert_null(policy);
        free(policy);
        json_decref(network);
    }
}

static void views_hide_secrets(void **state)
{
    json_t *view = atoll_network_view(
        ATOLL_NETWORK_BRIDGE,
        "{\"default\":\"allow\",\"rules\":[],\"transforms\":[{\"domain\":\"a.test\",\"headers\":"
        "{\"A\":\"secret1\",\"B\":\"Bearer ${secret.k}\"}}],"
        "\"proxy\":{\"address\":\"p.test:1\",\"username\":\"u\",\"password\":\"secret2\"}}");
    char *text = json_dumps(view, JSON_COMPACT);

    (void)state;
    assert_string_equal(
        text, "{\"mode\":\"bridge\",\"default\":\"allow\",\"rules\":[],\"transforms\":[{\"domain\":"
              "\"a.test\",\"headers\":{\"A\":\"***\",\"B\":\"Bearer ${secret.k}\"}}],\"proxy\":"
              "{\"address\":\"p.test:1\",\"username\":\"u\",\"password\":\"***\"}}");
    free(text);
    json_decref(view);
    view = atoll_network_view(ATOLL_NETWORK_NONE, NULL);
    assert_int_equal(json_object_size(view), 1);
    json_decref(view);
}

/* What atoll-egress gets for a sandbox, by its mode and by what the operator permits. */
static void modes_and_bounds(void **state)
{
    static const struct {
        const char *most;
        enum atoll_network mode;
        const char *policy, *bound;
    } cases[] = {
        {"", ATOLL_NETWORK_BRIDGE, "{}", "{\"deny\":[\"evil.test\"],\"internal\":[]}"},
        {"t=none", ATOLL_NETWORK_BRIDGE, "{\"default\":\"deny\"}",
         "{\"deny\":[\"*\"],\"internal\":[]}"},
        {"isolated", ATOLL_NETWORK_BRIDGE, "{}", "{\"deny\":[\"*\"],\"internal\":[]}"},
        {"", ATOLL_NETWORK_ISOLATED, "{\"default\":\"deny\",\"network\":\"default\"}",
         "{\"deny\":[\"*\"],\"internal\":[]}"},
        {"none", ATOLL_NETWORK_ISOLATED, "{\"default\":\"deny\"}",
         "{\"deny\":[\"*\"],\"internal\":[]}"},
    };

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(cases); i++) {
        const struct atoll_engine_config config = {.network_most = cases[i].most,
                                                   .network_deny = "evil.test"};
        struct atoll_engine *engine = calloc(1, sizeof(*engine));
        struct atoll_sandbox *s = calloc(1, sizeof(*s));
        struct atoll_error err;

        assert_int_equal(atoll_operator_networks_open(&engine->operator_networks, &config, &err),
                         0);
        s->engine = engine;
        s->spec.network = cases[i].mode;
        (void)strcpy(s->spec.tenant, "t");
        assert_string_equal(atoll_network_policy_of(s), cases[i].policy);
        assert_string_equal(atoll_network_bound_of(s), cases[i].bound);
        atoll_operator_networks_close(&engine->operator_networks);
        free(s);
        free(engine);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(modes_and_policies),
        cmocka_unit_test(views_hide_secrets),
        cmocka_unit_test(modes_and_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
