/* What a sandbox may reach: targets, decisions, internal addresses, and policies as JSON. */
#include <arpa/inet.h>
#include <string.h>
#include "engine/provider/providers.h"
#include "network/policy.h"
#include "test.h"

static struct in6_addr address_of(const char *text)
{
    struct in6_addr address;
    char mapped[64];

    if (!strchr(text, ':')) {
        snprintf(mapped, sizeof(mapped), "::ffff:%s", text);
        text = mapped;
    }
    assert_int_equal(inet_pton(AF_INET6, text, &address), 1);
    return address;
}

static struct atoll_network_policy *policy_of(const char *text)
{
    struct atoll_network_policy *policy = NULL;
    struct atoll_error err;
    json_t *json = json_loads(text, 0, NULL);

    assert_non_null(json);
    if (atoll_network_policy_parse(json, &policy, &err) < 0)
        fail_msg("%s: %s", text, err.text);
    json_decref(json);
    return policy;
}

/* Text, and how it is printed. */
static const char *const targets[][2] = {
    {"example.org", "example.org"},
    {"EXAMPLE.org.", "example.org"},
    {"*.Example.Org", "*.example.org"},
    {"xn--bcher-kva.example", "xn--bcher-kva.example"},
    {"registry", "registry"},
    {"_dmarc.example.org", "_dmarc.example.org"},
    {"1.example.org", "1.example.org"},
    {"example.org:443", "example.org:443"},
    {"*.example.org:8000-8100", "*.example.org:8000-8100"},
    {"example.org:80-80", "example.org:80"},
    {"*", "*"},
    {"*:443", "*:443"},
    {"203.0.113.7", "203.0.113.7"},
    {"203.0.113.7/32", "203.0.113.7"},
    {"203.0.113.7/24", "203.0.113.0/24"},
    {"203.0.113.0/24:22", "203.0.113.0/24:22"},
    {"0.0.0.0/0", "0.0.0.0/0"},
    {"::/0", "::/0"},
    {"2001:DB8::1", "2001:db8::1"},
    {"[2001:db8::1]", "2001:db8::1"},
    {"2001:db8:ffff::/33", "2001:db8:8000::/33"},
    {"[2001:db8::1]:443", "[2001:db8::1]:443"},
    {"[2001:db8::/32]:1-65535", "[2001:db8::/32]:1-65535"},
    {"::ffff:203.0.113.7", "203.0.113.7"},
    {"::ffff:203.0.113.7/120", "203.0.113.0/24"},
};

static const char *const bad_targets[] = {
    "",
    " ",
    "exa mple",
    "*example.org",
    "*.*.org",
    "a.*.org",
    "*.",
    ".",
    ".example.org",
    "example..org",
    "example.org..",
    "-a.org",
    "a-.org",
    ("b\xc3\xbc"
     "cher.example"),
    "https://example.org",
    "example.org/path",
    "example.org:",
    "example.org:0",
    "example.org:65536",
    "example.org:80-",
    "example.org:90-80",
    "example.org:80,81",
    "203.0.113.0/33",
    "203.0.113.0/",
    "203.0.113",
    "203.0.113.256",
    "2130706433",
    "0x7f000001",
    "a.0x7f",
    "2001:db8::/129",
    "[2001:db8::1",
    "[2001:db8::1]x",
    "[example.org]:443",
    "[203.0.113.7]:443",
    "fe80::1%eth0",
    "*.203.0.113.7",
    "1234567890123456789012345678901234567890123456789012345678901234.org",
};

static void test_targets(void **state)
{
    char text[ATOLL_NETWORK_TARGET_TEXT];
    struct atoll_network_target t;
    struct atoll_error err;

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(targets); i++) {
        for (size_t j = 0; j < 2; j++) {
            if (atoll_network_target_parse(targets[i][j], &t, &err) < 0)
                fail_msg("%s", err.text);
            atoll_network_target_print(&t, text, sizeof(text));
            assert_string_equal(text, targets[i][1]);
            atoll_network_target_done(&t);
        }
    }
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(bad_targets); i++) {
        if (atoll_network_target_parse(bad_targets[i], &t, &err) == 0)
            fail_msg("\"%s\" is accepted", bad_targets[i]);
        assert_int_equal(err.kind, ATOLL_ERR_INVALID_ARGUMENT);
        assert_non_null(strstr(err.text, bad_targets[i]));
        assert_non_null(strstr(err.text, "for example \"*.example.org\""));
    }
}

/* The longest name, and one byte more. */
static void test_longest_name(void **state)
{
    char name[300] = "", text[ATOLL_NETWORK_TARGET_TEXT];
    struct atoll_network_target t;

    (void)state;
    for (int i = 0; i < 63; i++)
        strcat(name, "abc.");
    strcat(name, "z");
    assert_int_equal(strlen(name), 253);
    strcat(name, ":10000-20000");
    assert_int_equal(atoll_network_target_parse(name, &t, NULL), 0);
    atoll_network_target_print(&t, text, sizeof(text));
    assert_string_equal(text, name);
    atoll_network_target_done(&t);
    memcpy(name + 253, "z", 2);
    assert_true(atoll_network_target_parse(name, &t, NULL) < 0);
}

static const struct {
    const char *address;
    bool internal;
} addresses[] = {
    {"0.0.0.0", true},
    {"10.1.2.3", true},
    {"11.0.0.0", false},
    {"100.63.255.255", false},
    {"100.64.0.1", true},
    {"100.127.255.255", true},
    {"100.128.0.0", false},
    {"127.0.0.1", true},
    {"169.254.169.254", true},
    {"172.15.255.255", false},
    {"172.16.0.1", true},
    {"172.31.255.255", true},
    {"172.32.0.0", false},
    {"192.0.0.8", true},
    {"192.0.2.1", false}, /* documentation */
    {"192.168.1.1", true},
    {"198.18.0.1", true},
    {"198.51.100.1", false}, /* documentation */
    {"203.0.113.1", false},  /* documentation */
    {"8.8.8.8", false},
    {"224.0.0.1", true},
    {"240.0.0.1", true},
    {"255.255.255.255", true},
    {"::", true},
    {"::1", true},
    {"::10.0.0.1", true},
    {"::8.8.8.8", true},
    {"fe80::1", true},
    {"febf::1", true},
    {"fec0::1", true},
    {"fc00::1", true},
    {"fd61:746f:6c6c::1", true},
    {"ff02::1", true},
    {"100::1", true},
    {"2001::1", true},
    {"2001:db8::1", false}, /* documentation */
    {"2606:4700::1111", false},
    {"64:ff9b::10.0.0.1", true},
    {"64:ff9b::8.8.8.8", false},
    {"64:ff9b:1::8.8.8.8", true},
    {"2002:7f00:1::", true},
    {"2002:808:808::1", false},
    {"::ffff:0:169.254.169.254", true},
};

static void test_internal(void **state)
{
    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(addresses); i++) {
        struct in6_addr address = address_of(addresses[i].address);
        struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_addr = address};
        struct sockaddr_in v4 = {.sin_family = AF_INET};

        if (atoll_network_is_internal(&address) != addresses[i].internal)
            fail_msg("%s: internal should be %d", addresses[i].address, addresses[i].internal);
        assert_int_equal(atoll_network_is_public((const void *)&v6), !addresses[i].internal);
        memcpy(&v4.sin_addr, address.s6_addr + 12, sizeof(v4.sin_addr));
        if (IN6_IS_ADDR_V4MAPPED(&address))
            assert_int_equal(atoll_network_is_public((const void *)&v4), !addresses[i].internal);
    }
    assert_false(atoll_network_is_public(&(struct sockaddr){.sa_family = AF_UNIX}));
}

/* Decisions: a policy, a destination, the result. `name` or `address` may be NULL. */
#define LISTS \
    "{\"allow\":[\"*.example.org\",\"db.test:5432\",\"203.0.113.0/24\"],\"deny\":[\"bad.example.org\"]}"
#define E2B                                                                              \
    "{\"rules\":[{\"allow\":\"ok.test\"},{\"allow\":\"203.0.113.7\"},{\"deny\":\"*\"}]," \
    "\"default\":\"allow\"}"
#define WITHOUT_RANGE "{\"deny\":[\"203.0.113.0/24\",\"evil.test\",\"mail.test:25\"]}"
#define BOTH_FAMILIES "{\"deny\":[\"0.0.0.0/0\",\"::/0\"]}"

static const struct {
    const char *policy, *name, *address;
    uint16_t port;
    bool allow;
    enum atoll_network_reason reason;
} decisions[] = {
    {"{}", "any.test", "8.8.8.8", 80, true, ATOLL_NETWORK_BY_DEFAULT},
    {"{}", NULL, "8.8.8.8", 80, true, ATOLL_NETWORK_BY_DEFAULT},
    {"{}", "any.test", NULL, 0, true, ATOLL_NETWORK_BY_DEFAULT},
    {"{}", "any.test", "10.0.0.1", 80, false, ATOLL_NETWORK_BY_INTERNAL},
    {"{\"allow\":[\"*\"]}", NULL, "169.254.169.254", 80, false, ATOLL_NETWORK_BY_INTERNAL},
    {"{\"default\":\"deny\"}", "any.test", "8.8.8.8", 80, false, ATOLL_NETWORK_BY_DEFAULT},
    {"{\"default\":\"deny\"}", "any.test", NULL, 0, false, ATOLL_NETWORK_BY_DEFAULT},

    {LISTS, "a.example.org", "8.8.8.8", 443, true, ATOLL_NETWORK_BY_RULE},
    {LISTS, "A.B.EXAMPLE.ORG.", "8.8.8.8", 443, true, ATOLL_NETWORK_BY_RULE},
    {LISTS, "example.org", "8.8.8.8", 443, false, ATOLL_NETWORK_BY_DEFAULT},
    {LISTS, "badexample.org", "8.8.8.8", 443, false, ATOLL_NETWORK_BY_DEFAULT},
    {LISTS, "a.example.org.evil.test", "8.8.8.8", 443, false, ATOLL_NETWORK_BY_DEFAULT},
    {LISTS, "bad.example.org", "8.8.8.8", 443, false, ATOLL_NETWORK_BY_RULE},
    {LISTS, "Bad.example.org.", "8.8.8.8", 443, false, ATOLL_NETWORK_BY_RULE},
    {LISTS, "db.test", "8.8.8.8", 5432, true, ATOLL_NETWORK_BY_RULE},
    {LISTS, "db.test", "8.8.8.8", 5433, false, ATOLL_NETWORK_BY_DEFAULT},
    {LISTS, NULL, "8.8.8.8", 443, false, ATOLL_NETWORK_BY_DEFAULT},
    {LISTS, NULL, "203.0.113.9", 443, true, ATOLL_NETWORK_BY_RULE},
    {LISTS, NULL, "::ffff:203.0.113.9", 443, true, ATOLL_NETWORK_BY_RULE},
    {LISTS, NULL, "203.0.112.9", 443, false, ATOLL_NETWORK_BY_DEFAULT},
    {LISTS, NULL, "64:ff9b::203.0.113.9", 443, false, ATOLL_NETWORK_BY_DEFAULT},
    {LISTS, "bad.example.org", "203.0.113.9", 443, false, ATOLL_NETWORK_BY_RULE},
    {LISTS, "bad.example.org", NULL, 0, false, ATOLL_NETWORK_BY_RULE},
    {LISTS, "db.test", NULL, 0, true, ATOLL_NETWORK_BY_RULE},
    {LISTS, "other.test", NULL, 0, true, ATOLL_NETWORK_BY_RULE}, /* may be in 203.0.113.0/24 */
    {"{\"allow\":[\"a.test\"]}", "other.test", NULL, 0, false, ATOLL_NETWORK_BY_DEFAULT},

    {E2B, "ok.test", "8.8.8.8", 443, true, ATOLL_NETWORK_BY_RULE},
    {E2B, NULL, "203.0.113.7", 443, true, ATOLL_NETWORK_BY_RULE},
    {E2B, NULL, "203.0.113.8", 443, false, ATOLL_NETWORK_BY_RULE},
    {E2B, "other.test", "2606:4700::1", 443, false, ATOLL_NETWORK_BY_RULE},
    {"{\"deny\":[\"*\"]}", "other.test", NULL, 0, false, ATOLL_NETWORK_BY_RULE},

    {WITHOUT_RANGE, NULL, "203.0.113.7", 443, false, ATOLL_NETWORK_BY_RULE},
    {WITHOUT_RANGE, NULL, "64:ff9b::203.0.113.7", 443, false, ATOLL_NETWORK_BY_RULE},
    {WITHOUT_RANGE, NULL, "2002:cb00:7107::1", 443, false, ATOLL_NETWORK_BY_RULE},
    {WITHOUT_RANGE, "x.test", "8.8.8.8", 443, true, ATOLL_NETWORK_BY_DEFAULT},
    {WITHOUT_RANGE, "x.test", NULL, 0, true, ATOLL_NETWORK_BY_DEFAULT},
    {WITHOUT_RANGE, "evil.test", NULL, 0, false, ATOLL_NETWORK_BY_RULE},
    {WITHOUT_RANGE, "mail.test", NULL, 0, true, ATOLL_NETWORK_BY_DEFAULT},
    {WITHOUT_RANGE, "mail.test", "8.8.8.8", 25, false, ATOLL_NETWORK_BY_RULE},

    {BOTH_FAMILIES, "x.test", NULL, 0, false, ATOLL_NETWORK_BY_RULE},
    {"{\"deny\":[\"0.0.0.0/0\"]}", "x.test", NULL, 0, true, ATOLL_NETWORK_BY_DEFAULT},
    {"{\"deny\":[\"::/0\"]}", NULL, "8.8.8.8", 80, true, ATOLL_NETWORK_BY_DEFAULT},
    {"{\"allow\":[\"::/0\"]}", NULL, "8.8.8.8", 80, false, ATOLL_NETWORK_BY_DEFAULT},
    {"{\"allow\":[\"::/0\"]}", NULL, "2606:4700::1", 80, true, ATOLL_NETWORK_BY_RULE},
    {"{\"allow\":[\"*:443\"]}", NULL, "8.8.8.8", 443, true, ATOLL_NETWORK_BY_RULE},
    {"{\"allow\":[\"*:443\"]}", NULL, "8.8.8.8", 80, false, ATOLL_NETWORK_BY_DEFAULT},
};

static void test_decisions(void **state)
{
    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(decisions); i++) {
        struct atoll_network_policy *policy = policy_of(decisions[i].policy);
        struct atoll_network_decision d;
        struct in6_addr address = {0};

        if (decisions[i].address)
            address = address_of(decisions[i].address);
        d = atoll_network_decide(policy, NULL,
                                 &(struct atoll_network_query){
                                     .name = decisions[i].name,
                                     .address = decisions[i].address ? &address : NULL,
                                     .port = decisions[i].port,
                                 },
                                 false);
        if (d.allow != decisions[i].allow || d.reason != decisions[i].reason)
            fail_msg("row %zu: allow %d reason %d", i, d.allow, (int)d.reason);
        atoll_network_policy_free(policy);
    }
}

static void test_bound(void **state)
{
    static const char text[] = "{\"deny\":[\"evil.test\",\"198.51.100.0/24\"],"
                               "\"internal\":[\"10.0.0.0/24:443\",\"wiki.corp\",\"203.0.113.1\"]}";
    static const struct {
        const char *name, *address;
        uint16_t port;
        bool own, allow;
        enum atoll_network_reason reason;
    } rows[] = {
        {"x.test", "8.8.8.8", 443, false, true, ATOLL_NETWORK_BY_RULE},
        {"evil.test", "8.8.8.8", 443, false, false, ATOLL_NETWORK_BY_OPERATOR},
        {"x.test", "198.51.100.9", 443, false, false, ATOLL_NETWORK_BY_OPERATOR},
        {"x.test", "10.0.0.9", 443, false, true, ATOLL_NETWORK_BY_RULE},
        {"x.test", "10.0.0.9", 80, false, false, ATOLL_NETWORK_BY_INTERNAL},
        {"x.test", "10.0.1.9", 443, false, false, ATOLL_NETWORK_BY_INTERNAL},
        {"wiki.corp", "10.9.9.9", 80, false, true, ATOLL_NETWORK_BY_RULE},
        {"x.test", "8.8.8.8", 80, true, false, ATOLL_NETWORK_BY_INTERNAL},
        {"x.test", "203.0.113.1", 80, true, true, ATOLL_NETWORK_BY_RULE},
        {"evil.test", NULL, 0, false, false, ATOLL_NETWORK_BY_OPERATOR},
    };
    struct atoll_network_policy *policy = policy_of("{\"allow\":[\"*\"]}");
    struct atoll_network_bound *bound, *again;
    json_t *json = json_loads(text, 0, NULL), *out;

    (void)state;
    assert_int_equal(atoll_network_bound_parse(json, &bound, NULL), 0);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(rows); i++) {
        struct in6_addr address = address_of(rows[i].address ? rows[i].address : "::");
        struct atoll_network_decision d =
            atoll_network_decide(policy, bound,
                                 &(struct atoll_network_query){
                                     rows[i].name, rows[i].address ? &address : NULL, rows[i].port},
                                 rows[i].own);
        if (d.allow != rows[i].allow || d.reason != rows[i].reason)
            fail_msg("row %zu: allow %d reason %d", i, d.allow, (int)d.reason);
    }
    out = atoll_network_bound_json(bound);
    assert_true(json_equal(json, out));
    assert_int_equal(atoll_network_bound_parse(NULL, &again, NULL), 0);
    assert_int_equal(again->rule_count + again->internal_count, 0);
    json_decref(out);
    json_decref(json);
    atoll_network_bound_free(bound);
    atoll_network_bound_free(again);
    atoll_network_policy_free(policy);
}

static void test_list(void **state)
{
    struct atoll_error err;
    json_t *list = NULL;

    (void)state;
    assert_int_equal(atoll_network_list_parse(" a.test, 203.0.113.0/24:25,,*.b.test ", &list, &err),
                     0);
    assert_int_equal(json_array_size(list), 3);
    assert_string_equal(json_string_value(json_array_get(list, 1)), "203.0.113.0/24:25");
    json_decref(list);
    assert_int_equal(atoll_network_list_parse(NULL, &list, &err), 0);
    assert_int_equal(json_array_size(list), 0);
    json_decref(list);
    assert_true(atoll_network_list_parse("a.test,b..test", &list, &err) < 0);
    assert_non_null(strstr(err.text, "\"b..test\" is not a domain"));
}

/* The widest mode of a tenant, from the text of --network-max. */
static void test_most(void **state)
{
    static const struct {
        const char *text, *tenant;
        int most; /* -1: bad text */
    } rows[] = {
        {"", "a", ATOLL_NETWORK_BRIDGE},
        {"none", "a", ATOLL_NETWORK_NONE},
        {"isolated", "a", ATOLL_NETWORK_ISOLATED},
        {"bridge,a=none", "a", ATOLL_NETWORK_NONE},
        {"a=bridge, none", "a", ATOLL_NETWORK_BRIDGE},
        {"a=bridge, none", "b", ATOLL_NETWORK_NONE},
        {"aa=none", "a", ATOLL_NETWORK_BRIDGE},
        {"all", "a", -1},
        {"a=wide", "b", -1},
        {"=none", "a", -1},
        {"a=", "a", -1},
    };

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(rows); i++) {
        enum atoll_network most = ATOLL_NETWORK_NONE;
        int r = atoll_network_most(rows[i].text, rows[i].tenant, &most);
        if ((r < 0 ? -1 : (int)most) != rows[i].most)
            fail_msg("\"%s\" for %s: %d", rows[i].text, rows[i].tenant, (int)most);
    }
}

static void test_needs_name(void **state)
{
    static const struct {
        const char *policy, *bound, *address;
        uint16_t port;
        bool needed;
    } rows[] = {
        {"{}", "{}", "8.8.8.8", 80, false},
        {"{\"allow\":[\"a.test\"]}", "{}", "8.8.8.8", 80, true},
        {"{\"allow\":[\"a.test:443\"]}", "{}", "8.8.8.8", 80, false},
        {"{\"allow\":[\"a.test:443\"]}", "{}", "8.8.8.8", 443, true},
        {"{\"allow\":[\"a.test\",\"8.8.8.8\"]}", "{}", "8.8.8.8", 443, false},
        {"{\"deny\":[\"a.test\"]}", "{}", "8.8.8.8", 443, true},
        {"{\"deny\":[\"8.8.8.8\",\"a.test\"]}", "{}", "8.8.8.8", 443, false},
        {"{\"deny\":[\"a.test\",\"8.8.8.8\"]}", "{}", "8.8.8.8", 443, false},
        {"{\"deny\":[\"a.test\"],\"default\":\"deny\"}", "{}", "8.8.8.8", 443, false},
        {"{\"allow\":[\"a.test\"]}", "{}", "10.0.0.1", 80, false},
        {"{\"allow\":[\"a.test\"]}", "{\"internal\":[\"a.test\"]}", "10.0.0.1", 80, true},
        {"{}", "{\"deny\":[\"a.test\"]}", "8.8.8.8", 80, true},
        {"{\"allow\":[\"a.test\"]}", "{\"deny\":[\"8.8.8.8\"]}", "8.8.8.8", 80, false},
        {"{\"transforms\":[{\"domain\":\"a.test\"}]}", "{}", "8.8.8.8", 80, true},
    };

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(rows); i++) {
        struct atoll_network_policy *policy = policy_of(rows[i].policy);
        struct atoll_network_bound *bound;
        struct in6_addr address = address_of(rows[i].address);
        json_t *json = json_loads(rows[i].bound, 0, NULL);

        assert_int_equal(atoll_network_bound_parse(json, &bound, NULL), 0);
        if (atoll_network_needs_name(policy, bound, &address, rows[i].port, false) !=
            rows[i].needed)
            fail_msg("row %zu: needed should be %d", i, rows[i].needed);
        json_decref(json);
        atoll_network_bound_free(bound);
        atoll_network_policy_free(policy);
    }
}

static void test_transforms(void **state)
{
    struct atoll_network_policy *policy = policy_of(
        "{\"transforms\":[{\"domain\":\"api.test\",\"headers\":{\"X-Key\":\"${secret.k}\"}},"
        "{\"domain\":\"*.test\",\"forward\":\"https://mirror.test/x\"},"
        "{\"domain\":\"fixed.example\",\"status\":404,\"body\":\"line\\n\"}]}");

    (void)state;
    assert_ptr_equal(atoll_network_find_transform(policy, "API.test."), &policy->transforms[0]);
    assert_ptr_equal(atoll_network_find_transform(policy, "b.test"), &policy->transforms[1]);
    assert_int_equal(atoll_network_find_transform(policy, "fixed.example")->status, 404);
    assert_null(atoll_network_find_transform(policy, "test"));
    assert_null(atoll_network_find_transform(policy, NULL));
    atoll_network_policy_free(policy);
}

static bool header_at(const void *arg, size_t i, const char **ret_name, const char **ret_value)
{
    const char *const *headers = arg;

    if (!headers[2 * i])
        return false;
    *ret_name = headers[2 * i];
    *ret_value = headers[2 * i + 1];
    return true;
}

/* The status of the transform that is chosen for each request; 0: no transform is. */
static void test_matching(void **state)
{
    struct atoll_network_policy *policy = policy_of(
        "{\"transforms\":["
        "{\"domain\":\"a.test\",\"match\":{\"path\":{\"startsWith\":\"/v1/\"},\"method\":[\"get\"]},"
        "\"status\":201},"
        "{\"domain\":\"a.test\",\"match\":{\"path\":{\"exact\":\"/one two\"}},\"status\":202},"
        "{\"domain\":\"a.test\",\"match\":{\"queryString\":[{\"key\":{\"exact\":\"k\"},"
        "\"value\":{\"startsWith\":\"a b\"}},{\"key\":{\"exact\":\"m\"}}]},\"status\":203},"
        "{\"domain\":\"a.test\",\"match\":{\"headers\":[{\"key\":{\"exact\":\"x-key\"},"
        "\"value\":{\"exact\":\"V\"}}]},\"status\":204},"
        "{\"domain\":\"b.test\",\"match\":{\"method\":[\"PUT\"]},\"status\":205}]}");
    static const char *const plain[] = {"Host", "a.test", NULL};
    static const char *const keyed[] = {"X-KEY", "V", NULL}, *const other[] = {"X-Key", "v", NULL};
    static const struct {
        const char *name, *method, *target;
        const char *const *headers;
        int status;
    } rows[] = {
        {"a.test", "GET", "/v1/x", plain, 201},
        {"a.test", "POST", "/v1/x", plain, 0},
        {"a.test", "GET", "/%761/x?y", plain, 201},
        {"a.test", "GET", "https://a.test/v1/x", plain, 201},
        {"a.test", "GET", "/v1", plain, 0},
        {"a.test", "POST", "/one%20two", plain, 202},
        {"a.test", "POST", "/one+two", plain, 0},
        {"a.test", "GET", "/?m&k=a+b+c", plain, 203},
        {"a.test", "GET", "/?k=a%20bc&m=", plain, 203},
        {"a.test", "GET", "/?k=ab&m", plain, 0},
        {"a.test", "GET", "/?k=a+b", plain, 0},
        {"a.test", "GET", "", plain, 0},
        {"a.test", "GET", "/", keyed, 204},
        {"a.test", "GET", "/", other, 0},
        {"b.test", "PUT", "/a/../b", plain, 205}, /* it does not depend on the path */
        {"c.test", "GET", "/a/../b", plain, 0},
        {"a.test", "GET", "/v1/../b", plain, 400},
        {"a.test", "GET", "/v1/..", plain, 400},
        {"a.test", "GET", "/v1/%2e%2e/b", plain, 400},
        {"a.test", "GET", "/v1%2fb", plain, 400},
        {"a.test", "GET", "/v1//b", plain, 400},
        {"a.test", "GET", "/v1/%252e", plain, 400},
        {"a.test", "GET", "/v1\\b", plain, 400},
        {"a.test", "GET", "/v1/%00", plain, 400},
        {"a.test", "GET", "/./v1/", plain, 400},
    };

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(rows); i++) {
        const struct atoll_network_message message = {rows[i].method, rows[i].target, header_at,
                                                      rows[i].headers};
        const struct atoll_network_transform *t =
            atoll_network_transform_of(policy, rows[i].name, &message);
        if ((t ? t->status : 0) != rows[i].status)
            fail_msg("%s %s: %d", rows[i].method, rows[i].target, t ? t->status : 0);
    }
    atoll_network_policy_free(policy);
}

static void test_names_without_a_server(void **state)
{
    struct atoll_network_policy *policy = policy_of(
        "{\"transforms\":["
        "{\"domain\":\"a.test\",\"match\":{\"method\":[\"PUT\"]},\"status\":205},"
        "{\"domain\":\"b.test\",\"match\":{\"method\":[\"PUT\"]},\"status\":205},"
        "{\"domain\":\"b.test\",\"forward\":\"https://x.test\"},"
        "{\"domain\":\"c.test\",\"match\":{\"method\":[\"PUT\"]},\"headers\":{\"A\":\"b\"}},"
        "{\"domain\":\"c.test\",\"status\":404}]}");

    (void)state;
    assert_false(atoll_network_goes_elsewhere(policy, "a.test"));
    assert_true(atoll_network_goes_elsewhere(policy, "b.test"));
    assert_false(atoll_network_goes_elsewhere(policy, "c.test"));
    assert_false(atoll_network_goes_elsewhere(policy, "d.test"));
    atoll_network_policy_free(policy);
}

/* Given, and canonical. */
static const char *const forms[][2] = {
    {"{}", "{\"default\":\"allow\",\"rules\":[],\"transforms\":[]}"},
    {"{\"mode\":\"bridge\",\"allow\":[],\"deny\":null}",
     "{\"default\":\"allow\",\"rules\":[],\"transforms\":[]}"},
    {"{\"allow\":[\"A.test.\"],\"deny\":[\"10.1.2.3/8\"]}",
     "{\"default\":\"deny\",\"rules\":[{\"deny\":\"10.0.0.0/8\"},{\"allow\":\"a.test\"}],"
     "\"transforms\":[]}"},
    {"{\"allow\":[\"a.test\"],\"default\":\"allow\"}",
     "{\"default\":\"allow\",\"rules\":[{\"allow\":\"a.test\"}],\"transforms\":[]}"},
    {"{\"rules\":[{\"allow\":\"a.test\"},{\"deny\":\"*\"}]}",
     "{\"default\":\"allow\",\"rules\":[{\"allow\":\"a.test\"},{\"deny\":\"*\"}],"
     "\"transforms\":[]}"},
    {"{\"name\":\"team1\",\"mbps\":10,\"proxy\":{\"address\":\"[2001:db8::1]:1080\","
     "\"username\":\"u\",\"password\":\"p\"}}",
     "{\"default\":\"allow\",\"rules\":[],\"transforms\":[],\"network\":\"team1\",\"mbps\":10,"
     "\"proxy\":{\"address\":\"[2001:db8::1]:1080\",\"username\":\"u\",\"password\":\"p\"}}"},
    {"{\"transforms\":[{\"domain\":\"A.test\",\"headers\":{\"X-A\":\"b\"},\"status\":200}]}",
     "{\"default\":\"allow\",\"rules\":[],\"transforms\":[{\"domain\":\"a.test\","
     "\"headers\":{\"X-A\":\"b\"},\"status\":200}]}"},
    {"{\"transforms\":[{\"domain\":\"a.test\",\"status\":200,\"responseHeaders\":{\"X-B\":\"c\"}}]}",
     "{\"default\":\"allow\",\"rules\":[],\"transforms\":[{\"domain\":\"a.test\","
     "\"headers\":{},\"status\":200,\"responseHeaders\":{\"X-B\":\"c\"}}]}"},
};

static void test_canonical(void **state)
{
    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(forms); i++) {
        for (size_t j = 0; j < 2; j++) {
            struct atoll_network_policy *policy = policy_of(forms[i][j]);
            json_t *json = atoll_network_policy_json(policy);
            char *text = json_dumps(json, JSON_COMPACT);
            assert_string_equal(text, forms[i][1]);
            free(text);
            json_decref(json);
            atoll_network_policy_free(policy);
        }
    }
}

/* A bad policy, and a part of the error. */
static const char *const refused[][2] = {
    {"[]", "network must be an object"},
    {"{\"alow\":[]}", "network has no field \"alow\""},
    {"{\"allow\":\"a.test\"}", "network.allow must be an array of at most 1000 entries"},
    {"{\"allow\":[\"a\",\"b\",\"c\",\"exa mple\"]}",
     "network.allow[3]: \"exa mple\" is not a domain, address or range; for example "
     "\"*.example.org\", \"203.0.113.0/24\" or \"example.org:443\""},
    {"{\"deny\":[\"a.test\",7]}", "network.deny[1] must be a string"},
    {"{\"rules\":[{\"allow\":\"a\"},{\"deny\":\"?\"}]}", "network.rules[1]: \"?\""},
    {"{\"rules\":[{\"allow\":\"a\",\"deny\":\"b\"}]}", "network.rules[0] must be an object with"},
    {"{\"rules\":[{\"alow\":\"a\"}]}", "network.rules[0] has no field \"alow\""},
    {"{\"rules\":[\"a\"]}", "network.rules[0] must be an object"},
    {"{\"rules\":[{\"allow\":\"a\"}],\"deny\":[\"b\"]}", "network has either rules"},
    {"{\"default\":\"maybe\"}", "network.default must be \"allow\" or \"deny\""},
    {"{\"mbps\":-1}", "network.mbps must be"},
    {"{\"mbps\":1.5}", "network.mbps must be"},
    {"{\"network\":\"a b\"}", "network.network must be a name"},
    {"{\"name\":\"a/b\"}", "network.name must be a name"},
    {"{\"proxy\":{}}", "network.proxy.address must be HOST:PORT"},
    {"{\"proxy\":{\"address\":\"a.test\"}}", "network.proxy.address must be HOST:PORT"},
    {"{\"proxy\":{\"address\":\"*.test:1\"}}", "network.proxy.address must be HOST:PORT"},
    {"{\"proxy\":{\"address\":\"203.0.113.0/24:1\"}}", "network.proxy.address must be HOST:PORT"},
    {"{\"proxy\":{\"address\":\"a.test:1\",\"password\":\"p\"}}", "needs a username"},
    {"{\"proxy\":{\"address\":\"a.test:1\",\"username\":\"\\u0007\"}}", "control characters"},
    {"{\"transforms\":[{}]}", "network.transforms[0].domain must be a string"},
    {"{\"transforms\":[{\"domain\":\"a.test\",\"match\":1}]}", "[0].match must be an object"},
    {"{\"transforms\":[{\"domain\":\"a.test\",\"match\":{\"host\":1}}]}", "host"},
    {"{\"transforms\":[{\"domain\":\"a.test\",\"match\":{\"path\":\"/\"}}]}",
     "[0].match.path must be {\"exact\": TEXT}"},
    {"{\"transforms\":[{\"domain\":\"a.test\",\"match\":{\"path\":{\"regex\":\".\"}}}]}",
     "regular expressions are not supported"},
    {"{\"transforms\":[{\"domain\":\"a.test\",\"match\":{\"method\":[]}}]}",
     "[0].match.method must be an array of 1 to 20"},
    {"{\"transforms\":[{\"domain\":\"a.test\",\"match\":{\"headers\":[{}]}}]}",
     "[0].match.headers[0] must be an object with key"},
    {"{\"transforms\":[{\"domain\":\"8.8.8.8\"}]}",
     "network.transforms[0].domain must be a domain"},
    {"{\"transforms\":[{\"domain\":\"a.test:1\"}]}", "must be a domain without a port"},
    {"{\"transforms\":[{\"domain\":\"a.test\",\"headers\":{\"a b\":\"\"}}]}",
     "network.transforms[0].headers: \"a b\" is not the name of a header"},
    {"{\"transforms\":[{\"domain\":\"a.test\",\"headers\":{\"Content-Length\":\"1\"}}]}",
     "network.transforms[0].headers: the header \"Content-Length\" cannot be set"},
    {"{\"transforms\":[{\"domain\":\"a.test\",\"headers\":{\"a\":\"\\r\\nb: c\"}}]}",
     "network.transforms[0].headers.a must be a string without control characters"},
    {"{\"transforms\":[{\"domain\":\"a.test\",\"headers\":{\"a\":null}}]}",
     "network.transforms[0].headers.a must be a string"},
    {"{\"transforms\":[{\"domain\":\"a.test\",\"forward\":\"ftp://x\"}]}",
     "network.transforms[0].forward must be a URL"},
    {"{\"transforms\":[{\"domain\":\"a.test\",\"forward\":\"http://u@x/\"}]}", "must be a URL"},
    {"{\"transforms\":[{\"domain\":\"a.test\",\"status\":99}]}", "from 200 to 599"},
    {"{\"transforms\":[{\"domain\":\"a.test\",\"body\":\"x\"}]}", "body needs a status"},
    {"{\"transforms\":[{\"domain\":\"a.test\",\"responseHeaders\":{\"A\":\"b\"}}]}",
     "network.transforms[0].responseHeaders needs a status"},
    {"{\"transforms\":[{\"domain\":\"a.test\",\"status\":200,\"responseHeaders\":{\"Upgrade\":\"b\"}}]}",
     "network.transforms[0].responseHeaders: the header \"Upgrade\" cannot be set"},
    {"{\"transforms\":[{\"domain\":\"a.test\",\"status\":200,\"forward\":\"http://x\"}]}",
     "network.transforms[0] has either forward or status"},
};

static void test_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(refused); i++) {
        struct atoll_network_policy *policy = NULL;
        struct atoll_error err = {0};
        json_t *json = json_loads(refused[i][0], 0, NULL);

        assert_non_null(json);
        if (atoll_network_policy_parse(json, &policy, &err) == 0)
            fail_msg("%s is accepted", refused[i][0]);
        assert_int_equal(err.kind, ATOLL_ERR_INVALID_ARGUMENT);
        if (!strstr(err.text, refused[i][1]))
            fail_msg("%s: \"%s\" lacks \"%s\"", refused[i][0], err.text, refused[i][1]);
        assert_null(policy);
        json_decref(json);
    }
}

/* Many rules that are long do not become a row of the store and a message without bounds. */
static void test_large(void **state)
{
    struct atoll_network_policy *policy = NULL;
    struct atoll_error err;
    char name[256] = "";
    json_t *list = json_array(), *json;

    (void)state;
    for (int i = 0; i < 60; i++)
        strcat(name, "abc.");
    strcat(name, "z");
    for (int i = 0; i < ATOLL_NETWORK_RULES_MAX; i++)
        json_array_append_new(list, json_string("a.test"));
    json = json_pack("{s:O}", "deny", list);
    assert_int_equal(atoll_network_policy_parse(json, &policy, &err), 0);
    assert_int_equal(policy->rule_count, ATOLL_NETWORK_RULES_MAX);
    atoll_network_policy_free(policy);
    json_object_set_new(json, "allow", json_pack("[s]", "b.test"));
    assert_true(atoll_network_policy_parse(json, &policy, &err) < 0);
    json_object_del(json, "allow");
    for (size_t i = 0; i < ATOLL_NETWORK_RULES_MAX; i++)
        json_array_set_new(list, i, json_string(name));
    assert_true(atoll_network_policy_parse(json, &policy, &err) < 0);
    assert_non_null(strstr(err.text, "too large"));
    json_decref(json);
    json_decref(list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_targets),
        cmocka_unit_test(test_longest_name),
        cmocka_unit_test(test_internal),
        cmocka_unit_test(test_decisions),
        cmocka_unit_test(test_bound),
        cmocka_unit_test(test_needs_name),
        cmocka_unit_test(test_transforms),
        cmocka_unit_test(test_matching),
        cmocka_unit_test(test_names_without_a_server),
        cmocka_unit_test(test_canonical),
        cmocka_unit_test(test_list),
        cmocka_unit_test(test_most),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_large),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
