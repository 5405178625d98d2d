/*
 * What the E2B facade keeps about a sandbox, the tokens it makes, and what it thinks of networks.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "api/api_internal.h"
#include "api/e2b/e2b_internal.h"
#include "engine/engine_internal.h"
#include "provider/absent.h"
#include "test.h"

static struct atoll_template host_template = {.name = "host"};
static struct atoll_version host = {.tmpl = &host_template};

static void get(char *facade_json, struct atoll_e2b_facts *ret)
{
    struct atoll_sandbox sandbox = {.version = &host, .options.facade_json = facade_json};
    struct atoll_error err;

    assert_int_equal(atoll_absent_new("nobody", &sandbox.provider, &err), 0);
    atoll_list_init(&sandbox.exec_list);
    atoll_e2b_facts_get(&sandbox, ret);
    (void)sandbox.provider->ops->free(sandbox.provider);
}

static void facts_come_back(void **state)
{
    struct atoll_e2b_facts in = {
        .made_here = true,
        .template_id = "team/base:default",
        .alias = "base",
        .secure = true,
        .public_traffic = true,
        .auto_resume = true,
        .mask_host = "localhost:${PORT}",
        .network = json_pack("{s:[s]}", "denyOut", "0.0.0.0/0"),
        .lifecycle = json_pack("{s:s}", "onTimeout", "pause"),
        .allow_internet = 0,
    };
    struct atoll_e2b_facts out;
    char *text = atoll_e2b_facts_json(&in);

    (void)state;
    get(text, &out);
    assert_true(out.made_here && out.secure && out.public_traffic && out.auto_resume);
    assert_string_equal(out.template_id, in.template_id);
    assert_string_equal(out.alias, in.alias);
    assert_string_equal(out.mask_host, in.mask_host);
    assert_true(json_equal(out.network, in.network));
    assert_true(json_equal(out.lifecycle, in.lifecycle));
    assert_int_equal(out.allow_internet, 0);
    free(text);
    atoll_e2b_facts_done(&in);
    atoll_e2b_facts_done(&out);
}

static void what_others_made_is_closed(void **state)
{
    static char foreign[] = "{\"facade\":\"other\",\"secure\":false,\"public_traffic\":true}";
    static char broken[] = "{";
    char *const cases[] = {NULL, foreign, broken};
    struct atoll_e2b_facts facts;
    char *again;

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(cases); i++) {
        get(cases[i], &facts);
        assert_true(facts.secure);
        assert_false(facts.made_here || facts.public_traffic || facts.auto_resume);
        assert_string_equal(facts.template_id, "host");
        assert_string_equal(facts.alias, "");
        assert_int_equal(facts.allow_internet, -1);
        assert_null(facts.network);
        again = atoll_e2b_facts_json(&facts);
        atoll_e2b_facts_done(&facts);
        get(again, &facts);
        assert_false(facts.made_here); /* nor by keeping something about it */
        atoll_e2b_facts_done(&facts);
        free(again);
    }
}

static void tokens_are_of_one_sandbox_and_purpose(void **state)
{
    struct atoll_api one = {0}, other = {0};
    char tokens[4][ATOLL_TOKEN_LEN + 1], again[ATOLL_TOKEN_LEN + 1];

    (void)state;
    memset(one.config.url_secret, 1, ATOLL_URL_SECRET_BYTES);
    memset(other.config.url_secret, 2, ATOLL_URL_SECRET_BYTES);
    atoll_e2b_envd_token(&one, "abc", tokens[0]);
    atoll_e2b_envd_token(&one, "abd", tokens[1]);
    atoll_e2b_traffic_token(&one, "abc", tokens[2]);
    atoll_e2b_envd_token(&other, "abc", tokens[3]);
    atoll_e2b_envd_token(&one, "abc", again);
    assert_string_equal(tokens[0], again);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(strlen(tokens[i]), ATOLL_TOKEN_LEN);
        assert_int_equal(strcspn(tokens[i], "+/="), ATOLL_TOKEN_LEN);
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(tokens[i], tokens[j]);
    }
}

static int check_network(const char *text, bool denied, struct atoll_error *err)
{
    json_t *network = json_loads(text, 0, NULL);
    int r;

    assert_non_null(network);
    r = atoll_e2b_network_check(network, denied, err);
    json_decref(network);
    return r;
}

static void networks_are_checked(void **state)
{
    static const char *const good[] = {
        "{}",
        "{\"allowOut\":[\"1.1.1.1\",\"10.0.0.0/8\",\"::1/128\"],\"denyOut\":[\"8.8.8.8/32\"]}",
        "{\"allowOut\":[\"api.example.com\",\"*.example.org\"],\"denyOut\":[\"0.0.0.0/0\"]}",
        "{\"allowOut\":null,\"egressProxy\":null,\"rules\":null,\"new\":{\"x\":1}}",
        "{\"egressProxy\":{\"address\":\"proxy:1080\",\"password\":\"x\"}}",
        "{\"rules\":{\"example.com\":[{\"transform\":{\"headers\":{\"A\":\"b\"}}}]}}",
        "{\"httpsPorts\":[443,8443],\"maskRequestHost\":\"h:${PORT}\",\"allowPublicTraffic\":true}",
    };
    static const struct {
        const char *text, *says;
    } bad[] = {
        {"{\"denyOut\":[\"example.com\"]}", "invalid denied CIDR example.com"},
        {"{\"denyOut\":[\"10.0.0.0/33\"]}", "invalid denied CIDR 10.0.0.0/33"},
        {"{\"allowOut\":[\"example.com\"]}", "you must include 'ALL_TRAFFIC' in deny out"},
        {"{\"allowOut\":[\"a b\"],\"denyOut\":[\"0.0.0.0/0\"]}", "a b"},
        {"{\"allowOut\":\"1.1.1.1\"}", "network.allowOut must be an array"},
        {"{\"allowOut\":[1]}", "network.allowOut must be an array"},
        {"{\"rules\":{\"example.com\":[{},{}]}}", "one rule"},
        {"{\"rules\":{\"a b\":[{}]}}", "invalid domain"},
        {"{\"egressProxy\":{}}", "egressProxy"},
        {"{\"httpsPorts\":[0]}", "httpsPorts"},
        {"{\"maskRequestHost\":\"a\\r\\nb\"}", "maskRequestHost"},
        {"{\"maskRequestHost\":\"\"}", "maskRequestHost"},
        {"{\"allowPublicTraffic\":1}", "allowPublicTraffic"},
        {"[]", "network must be an object"},
    };
    struct atoll_error err;

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(good); i++)
        assert_int_equal(check_network(good[i], false, &err), 0);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(bad); i++) {
        assert_true(check_network(bad[i].text, false, &err) < 0);
        assert_int_equal(err.kind, ATOLL_ERR_INVALID_ARGUMENT);
        assert_non_null(strstr(err.text, bad[i].says));
    }
    assert_int_equal(check_network("{\"allowOut\":[\"example.com\"]}", true, &err), 0);
}

static void secrets_of_networks_are_not_kept(void **state)
{
    json_t *network = json_loads(
        "{\"allowOut\":[\"1.1.1.1\"],\"allowPublicTraffic\":false,\"unknown\":1,"
        "\"egressProxy\":{\"address\":\"p:1\",\"username\":\"u\",\"password\":\"hunter2\"},"
        "\"rules\":{\"a.com\":[{\"transform\":{\"headers\":{\"K\":\"hunter2\","
        "\"T\":\"Bearer ${e2b.secrets.x}\"}}}]}}",
        0, NULL);
    json_t *old = json_loads("{\"denyOut\":[\"9.9.9.9\"],\"maskRequestHost\":\"m\"}", 0, NULL);
    json_t *kept = atoll_e2b_network_keep(network, NULL);
    json_t *updated = atoll_e2b_network_keep(network, old);
    char *text = json_dumps(kept, JSON_COMPACT);

    (void)state;
    assert_null(strstr(text, "hunter2"));
    assert_null(strstr(text, "unknown"));
    assert_non_null(strstr(text, "Bearer ${e2b.secrets.x}"));
    assert_non_null(strstr(text, "\"username\":\"u\""));
    assert_true(json_is_false(json_object_get(kept, "allowPublicTraffic")));
    /* An update replaces what goes out and leaves what comes in. */
    assert_null(json_object_get(updated, "denyOut"));
    assert_null(json_object_get(updated, "allowPublicTraffic"));
    assert_string_equal(json_string_value(json_object_get(updated, "maskRequestHost")), "m");
    free(text);
    json_decref(network);
    json_decref(old);
    json_decref(kept);
    json_decref(updated);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(facts_come_back),
        cmocka_unit_test(what_others_made_is_closed),
        cmocka_unit_test(tokens_are_of_one_sandbox_and_purpose),
        cmocka_unit_test(networks_are_checked),
        cmocka_unit_test(secrets_of_networks_are_not_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
