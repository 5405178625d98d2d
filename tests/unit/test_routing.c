/*
 * Who makes a sandbox: a table of wishes, who is chosen, and what is said when nobody can.
 */
#include "test.h"

#include <stdio.h>
#include <string.h>
#include "engine/provider/providers.h"
#include "engine/provider/routing.h"

#define NET(mode) (1u << ATOLL_NETWORK_##mode)

static const struct atoll_provider_caps native = {.isolation = "namespaces",
                                                  .templates = true,
                                                  .layers = true,
                                                  .pause = true,
                                                  .persistent = true,
                                                  .read_only = true,
                                                  .networks = NET(NONE)};
static const struct atoll_provider_caps no_freezer = {.isolation = "namespaces",
                                                      .templates = true,
                                                      .layers = true,
                                                      .networks = NET(NONE)};
static const struct atoll_provider_caps docker = {.isolation = "container",
                                                  .images = true,
                                                  .pause = true,
                                                  .networks =
                                                      NET(NONE) | NET(ISOLATED) | NET(BRIDGE)};
static const struct atoll_provider_caps cloud = {.isolation = "microvm",
                                                 .remote = true,
                                                 .own_templates = true,
                                                 .networks = NET(NONE) | NET(BRIDGE)};

struct offers {
    struct atoll_route_offer list[4];
};

static struct offers usual(void)
{
    return (struct offers){{{.name = "native", .caps = &native},
                            {.name = "docker", .caps = &docker, .has_image = true},
                            {.name = "e2b", .caps = &cloud},
                            {.name = "fake", .caps = &native, .named_only = true}}};
}

/* "native,docker" or the error's text. */
static const char *route(const struct atoll_route_request *wish, const struct offers *offers,
                         struct atoll_error *err)
{
    static char text[200];
    uint8_t chosen[ATOLL_PROVIDERS_MAX];
    int n = atoll_route(wish, offers->list, 4, chosen, err);
    size_t at = 0;

    *text = '\0';
    for (int i = 0; i < n; i++)
        at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%s", i ? "," : "",
                               offers->list[chosen[i]].name);
    return n < 0 ? err->text : text;
}

/* "first,second": the order after atoll_route_place(). */
static void placement_sorts(void **state)
{
    static const struct {
        enum atoll_placement placement;
        size_t sandboxes[3];
        uint32_t weights[3];
        uint8_t first[3];
    } rows[] = {
        {ATOLL_PLACE_ORDER, {9, 0, 1}, {0}, {0, 1, 2}},
        {ATOLL_PLACE_SPREAD, {0, 0, 0}, {0}, {0, 1, 2}},
        {ATOLL_PLACE_SPREAD, {2, 1, 0}, {0}, {2, 1, 0}},
        {ATOLL_PLACE_SPREAD, {1, 1, 0}, {9, 1, 1}, {2, 0, 1}},
        {ATOLL_PLACE_WEIGHT, {0, 0, 0}, {1, 3, 0}, {1, 0, 2}},
        {ATOLL_PLACE_WEIGHT, {0, 3, 1}, {1, 3, 1}, {0, 1, 2}},
        {ATOLL_PLACE_WEIGHT, {1, 2, 9}, {1, 3, 1}, {1, 0, 2}},
    };

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(rows); i++) {
        struct atoll_route_offer offers[3] = {0};
        uint8_t chosen[] = {0, 1, 2};

        for (size_t k = 0; k < 3; k++) {
            offers[k].sandboxes = rows[i].sandboxes[k];
            offers[k].weight = rows[i].weights[k];
        }
        atoll_route_place(rows[i].placement, offers, chosen, 3);
        assert_memory_equal(chosen, rows[i].first, 3);
    }
}

static void requirements_choose(void **state)
{
    static const struct {
        struct atoll_route_request wish;
        const char *chosen;
    } rows[] = {
        {{0}, "native,docker,e2b"},
        {{.provider = "auto"}, "native,docker,e2b"},
        {{.provider = "docker"}, "docker"},
        {{.provider = "fake"}, "fake"},
        {{.isolation = "microvm"}, "e2b"},
        {{.isolation = "container"}, "docker"},
        {{.image = "debian:12"}, "docker"},
        {{.template_name = "mine"}, "native,docker"},
        {{.network = ATOLL_NETWORK_BRIDGE}, "docker,e2b"},
        {{.network = ATOLL_NETWORK_ISOLATED}, "docker"},
        {{.persistent = true}, "native"},
        {{.read_only = true}, "native"},
        {{.pauses = true}, "native,docker"},
        {{.provider = "e2b", .template_name = "theirs"}, "e2b"},
    };
    struct offers offers = usual();
    struct atoll_error err;

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(rows); i++)
        assert_string_equal(route(&rows[i].wish, &offers, &err), rows[i].chosen);
}

static void who_is_down_full_or_short_is_passed_over(void **state)
{
    struct offers offers = usual();
    struct atoll_route_request any = {0};
    struct atoll_error err;

    (void)state;
    offers.list[0].down = true;
    offers.list[0].reason = "it sleeps";
    assert_string_equal(route(&any, &offers, &err), "docker,e2b");
    offers.list[1].max_sandboxes = offers.list[1].sandboxes = 3;
    assert_string_equal(route(&any, &offers, &err), "e2b");
    offers = usual();
    offers.list[0].missing = ATOLL_LIMIT_DISK;
    assert_string_equal(route(&any, &offers, &err), "docker,e2b");
    offers = usual();
    offers.list[1].has_image = false;
    assert_string_equal(route(&any, &offers, &err), "native,e2b");
}

static void errors_say_why_of_each(void **state)
{
    struct offers offers = usual();
    struct atoll_route_request wish = {.gpus = 1};
    struct atoll_error err;
    const char *text = route(&wish, &offers, &err);

    (void)state;
    assert_int_equal(err.kind, ATOLL_ERR_UNIMPLEMENTED);
    assert_non_null(strstr(text, "native has no GPUs; docker has no GPUs; e2b has no GPUs"));
    wish = (struct atoll_route_request){.provider = "e2b", .persistent = true};
    text = route(&wish, &offers, &err);
    assert_int_equal(err.kind, ATOLL_ERR_UNIMPLEMENTED);
    assert_non_null(strstr(text, "e2b cannot keep the disk of a sandbox (persistent); native can"));
    wish = (struct atoll_route_request){.provider = "e2b", .read_only = true};
    text = route(&wish, &offers, &err);
    assert_non_null(strstr(text, "e2b cannot make the root read-only (readOnly); native can"));
    wish = (struct atoll_route_request){
        .provider = "docker", .network = ATOLL_NETWORK_BRIDGE, .policy = true};
    text = route(&wish, &offers, &err);
    assert_int_equal(err.kind, ATOLL_ERR_UNIMPLEMENTED);
    assert_non_null(strstr(text, "docker cannot enforce a network policy"));
    wish = (struct atoll_route_request){
        .provider = "docker", .network = ATOLL_NETWORK_BRIDGE, .denies = true};
    text = route(&wish, &offers, &err);
    assert_int_equal(err.kind, ATOLL_ERR_UNIMPLEMENTED);
    assert_non_null(strstr(text, "docker cannot enforce what the operator denies"));
    wish = (struct atoll_route_request){.pauses = true, .isolation = "namespaces"};
    offers.list[0].caps = &no_freezer;
    text = route(&wish, &offers, &err);
    assert_int_equal(err.kind, ATOLL_ERR_UNIMPLEMENTED);
    assert_non_null(strstr(text, "no cgroup freezer (run atolld as root, or request that they"));
    wish = (struct atoll_route_request){.provider = "moon"};
    text = route(&wish, &offers, &err);
    assert_int_equal(err.kind, ATOLL_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(text, "no provider moon; there are: native, docker, e2b, fake"));
    for (size_t i = 0; i < 4; i++) {
        offers.list[i].down = true;
        offers.list[i].reason = "nobody answers";
    }
    text = route(&(struct atoll_route_request){.image = "x"}, &offers, &err);
    assert_int_equal(err.kind, ATOLL_ERR_UNAVAILABLE); /* trying later may help */
    assert_non_null(strstr(text, "docker is down: nobody answers"));
}

/* What the operator says about each, held against what is asked for. */
static void sizes_and_languages_choose(void **state)
{
    static const struct {
        struct atoll_limits asked;
        const char *chosen;
    } rows[] = {
        {{0}, "native,docker,e2b"},
        {{.memory_bytes = UINT64_C(512) << 20}, "native,docker,e2b"},
        {{.memory_bytes = UINT64_C(513) << 20}, "docker,e2b"},
        {{.cpu_millis = 2001}, "native,e2b"},
        {{.disk_bytes = UINT64_C(2) << 30}, "native,docker"},
        {{.pids = 1000}, "native,e2b"},
        {{.timeout_s = 3601}, "native,docker"},
        {{.memory_bytes = UINT64_C(1) << 30, .timeout_s = 7200}, "docker"},
    };
    struct offers offers = usual();
    struct atoll_route_request wish = {0};
    struct atoll_error err;
    const char *text;

    (void)state;
    offers.list[0].most.memory_bytes = UINT64_C(512) << 20;
    offers.list[1].most = (struct atoll_limits){.cpu_millis = 2000, .pids = 999};
    offers.list[2].most = (struct atoll_limits){.disk_bytes = 1 << 30, .timeout_s = 3600};
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(rows); i++) {
        wish.limits = rows[i].asked;
        assert_string_equal(route(&wish, &offers, &err), rows[i].chosen);
    }
    wish.limits = (struct atoll_limits){
        .memory_bytes = UINT64_C(1) << 30, .cpu_millis = 4000, .timeout_s = 86400};
    text = route(&wish, &offers, &err);
    assert_int_equal(err.kind, ATOLL_ERR_INVALID_ARGUMENT);
    assert_string_equal(text,
                        "no provider can make it: native gives at most 512 MiB of memory; "
                        "docker gives at most 2 CPUs; e2b gives at most 3600 seconds of life");
    offers.list[1].lacks_language = offers.list[2].lacks_language = true;
    wish = (struct atoll_route_request){.language = "r"};
    assert_string_equal(route(&wish, &offers, &err), "native");
    wish.isolation = "microvm";
    text = route(&wish, &offers, &err);
    assert_int_equal(err.kind, ATOLL_ERR_UNIMPLEMENTED);
    assert_non_null(strstr(text, "e2b does not run r"));
}

/* A service's own templates are for those who name the service. */
static void own_templates_are_named(void **state)
{
    struct offers offers = usual();
    struct atoll_route_request wish = {.template_name = "mine", .isolation = "microvm"};
    struct atoll_error err;

    (void)state;
    assert_non_null(strstr(route(&wish, &offers, &err),
                           "e2b cannot run the template mine (name the provider for one of its "
                           "own)"));
}

/* Only this host's own words explain why it cannot enforce a limit. */
static void short_of_limits(void **state)
{
    struct offers offers = usual();
    struct atoll_route_request wish = {.provider = "native"};
    struct atoll_error err;

    (void)state;
    offers.list[0].missing = offers.list[2].missing = ATOLL_LIMIT_DISK | ATOLL_LIMIT_PIDS;
    assert_string_equal(route(&wish, &offers, &err), "native");
    wish.provider = "e2b";
    assert_non_null(strstr(route(&wish, &offers, &err), "cannot enforce these limits: pids,disk"));
    assert_int_equal(err.kind, ATOLL_ERR_FAILED_PRECONDITION);
}

/* What the operator could have instead, or should do. */
static void advice_names_what_would_do(void **state)
{
    static const struct atoll_route_kind list[] = {
        {"stone", "{}", true, {.isolation = "walls", .templates = true, .networks = NET(NONE)}},
        {"docker", "{host: x}", false, {.isolation = "container", .images = true}},
        {"ship", "{}", false, {.isolation = "sea", .images = true, .networks = NET(ISOLATED)}},
    };
    static const struct atoll_route_kinds kinds = {list, ATOLL_ARRAY_LEN(list)}, none = {NULL, 0};
    static const struct {
        struct atoll_route_request wish;
        const char *hint; /* part of it; "": there is none */
    } rows[] = {
        {{.provider = "stone"}, "restarts atolld; then `atoll providers`"},
        {{.provider = "stone"}, "\nproviders:\n  stone: {}"},
        {{.provider = "ship"}, "SIGHUP"},
        {{.provider = "moon"}, ", under any name: "},
        {{.provider = "a: b"}, ""},
        {{.isolation = "walls"}, "\n  stone: {}"},
        {{.isolation = "walls", .provider = "auto"}, "\n  stone: {}"},
        {{.isolation = "walls", .provider = "native"}, "\n  stone: {}"},
        {{.isolation = "sea", .network = ATOLL_NETWORK_ISOLATED}, "\n  ship: {}"},
        {{.isolation = "sea"}, ""}, /* not with that network */
        {{.isolation = "air"}, "isolation can be one of these: walls, container, sea"},
        {{.gpus = 1}, ""},
        {{.persistent = true, .image = "x"}, ""}, /* no kind has both */
        {{.limits = {.memory_bytes = UINT64_C(1) << 40}}, ""},
    };
    struct offers offers = usual();
    struct atoll_error err;
    uint8_t chosen[ATOLL_PROVIDERS_MAX];

    (void)state;
    for (size_t i = 0; i < 3; i++)
        offers.list[i].most.memory_bytes = 1 << 30;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(rows); i++) {
        assert_true(atoll_route(&rows[i].wish, offers.list, 4, chosen, &err) < 0);
        atoll_route_advise(&rows[i].wish, offers.list, 4, &kinds, &err);
        assert_true(*rows[i].hint ? strstr(err.hint, rows[i].hint) != NULL : !*err.hint);
        assert_true(atoll_route(&rows[i].wish, offers.list, 4, chosen, &err) < 0);
        atoll_route_advise(&rows[i].wish, offers.list, 4, &none, &err);
        assert_string_equal(err.hint, "");
    }
    /* One that only has to be named comes before one that is not there. */
    offers.list[0] = offers.list[1];
    assert_true(atoll_route(&(struct atoll_route_request){.persistent = true}, offers.list, 4,
                            chosen, &err) < 0);
    atoll_route_advise(&(struct atoll_route_request){.persistent = true}, offers.list, 4, &kinds,
                       &err);
    assert_string_equal(err.hint, "provider fake can, but is used only for requests that name it");
}

static void who_is_down_says_when_it_is_tried_again(void **state)
{
    struct offers offers = usual();
    struct atoll_route_request wish = {.provider = "docker"};
    struct atoll_error err;
    char reason[200];

    (void)state;
    offers.list[1].down = true;
    offers.list[1].reason = "nobody answers";
    offers.list[1].retry_ms = 7001;
    assert_string_equal(route(&wish, &offers, &err),
                        "it cannot be made there: docker is down: nobody answers (it is tried "
                        "again in 8 s)");
    assert_int_equal(err.retry_ms, 7001);
    offers.list[1].retry_ms = 0;
    assert_non_null(strstr(route(&wish, &offers, &err), "(it is tried again right now)"));
    assert_int_equal(err.retry_ms, 0);
    /* However much there is to say. */
    memset(reason, 'x', sizeof(reason) - 1);
    reason[sizeof(reason) - 1] = '\0';
    offers.list[1].reason = reason;
    offers.list[1].retry_ms = INT64_MAX / 2;
    assert_non_null(strstr(route(&wish, &offers, &err), " s)"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(placement_sorts),
        cmocka_unit_test(requirements_choose),
        cmocka_unit_test(who_is_down_full_or_short_is_passed_over),
        cmocka_unit_test(errors_say_why_of_each),
        cmocka_unit_test(short_of_limits),
        cmocka_unit_test(sizes_and_languages_choose),
        cmocka_unit_test(own_templates_are_named),
        cmocka_unit_test(advice_names_what_would_do),
        cmocka_unit_test(who_is_down_says_when_it_is_tried_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
