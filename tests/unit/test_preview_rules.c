/*
 * What names a preview, and what passes between a browser and a sandbox.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "api/preview_rules.h"
#include "base/trace.h"

#define ID "abcdefghijklmnopqrstuvwxyz"

static void hosts(void **state)
{
    static const struct {
        const char *host;
        bool is_preview;
    } rows[] = {
        {"8000-" ID ".localhost", true},
        {"1-" ID ".localhost:1", true},
        {"65535-" ID ".localhost:65535", true},
        {"8000-01234567890123456789.localhost", true},
        {"", false},
        {"localhost", false},
        {"0-" ID ".localhost", false},
        {"08000-" ID ".localhost", false},
        {"65536-" ID ".localhost", false},
        {"123456-" ID ".localhost", false},
        {"-" ID ".localhost", false},
        {"8000" ID ".localhost", false},
        {"8000-0123456789012345678.localhost", false},                       /* 19 */
        {"8000-01234567890123456789012345678901234567890.localhost", false}, /* 41 */
        {"8000-" ID ".localhost.", false},
        {"8000-" ID ".LOCALHOST", false},
        {"8000-ABCDEFGHIJKLMNOPQRSTUVWXYZ.localhost", false},
        {"8000-" ID ".localhostx", false},
        {"8000-" ID ".xlocalhost", false},
        {"8000-" ID ".a.localhost", false},
        {"x.8000-" ID ".localhost", false},
        {"8000-" ID ".localhost:", false},
        {"8000-" ID ".localhost:123456", false},
        {"8000-" ID ".localhost:1x", false},
        {"8000-" ID ".localhost/x", false},
        {"8000-" ID ".localhost@evil", false},
        {" 8000-" ID ".localhost", false},
        {"8000-" ID "%2elocalhost", false},
        {"8000-" ID, false},
        {"8000-" ID ".", false},
    };
    struct atoll_preview_name name;

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(rows); i++)
        if (atoll_preview_parse_host(rows[i].host, "localhost", &name) != rows[i].is_preview)
            fail_msg("wrong verdict on %s", rows[i].host);
    assert_true(atoll_preview_parse_host("8000-" ID ".p.example.com:443", "p.example.com", &name));
    assert_int_equal(name.port, 8000);
    assert_string_equal(name.sandbox_id, ID);
    assert_false(atoll_preview_parse_host("8000-" ID ".pxexample.com", "p.example.com", &name));
}

static void domains(void **state)
{
    (void)state;
    assert_true(atoll_preview_in_domain("a.localhost", "localhost"));
    assert_true(atoll_preview_in_domain("a.b.LocalHost.:80", "localhost"));
    assert_false(atoll_preview_in_domain("localhost", "localhost"));
    assert_false(atoll_preview_in_domain("alocalhost", "localhost"));
    assert_false(atoll_preview_in_domain("a.localhost.evil", "localhost"));
}

static void own_hosts(void **state)
{
    static const char *const names[] = {"box.example.com", NULL};
    static const char *const own[] = {"localhost",          "LOCALHOST:80", "127.0.0.1",
                                      "10.1.2.3:7070",      "[::1]",        "[fe80::1]:80",
                                      "box.example.com:443"};
    static const char *const foreign[] = {"",
                                          "evil",
                                          "localhost.evil",
                                          "127.0.0.1.evil",
                                          "127.0.0",
                                          "1.2.3.4.5",
                                          "[::1",
                                          "::1",
                                          "[::1]x",
                                          "localhost:",
                                          "localhost:123456",
                                          "[]",
                                          "[evil]",
                                          "box.example.co",
                                          "xbox.example.com"};

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(own); i++)
        if (!atoll_host_is_own(own[i], names))
            fail_msg("%s is ours", own[i]);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(foreign); i++)
        if (atoll_host_is_own(foreign[i], names))
            fail_msg("%s is not ours", foreign[i]);
}

static void paths(void **state)
{
    static const char *const wrong[] = {
        "/preview",           "/preview/",           "/preview/" ID,       "/preview/" ID "/",
        "/preview/" ID "/0/", "/preview/" ID "/x/",  "/previews/" ID "/1", "/preview/short/1/",
        "/PREVIEW/" ID "/1",  "/preview/" ID "/1x/", "/preview//1/"};
    struct atoll_preview_name name;
    const char *rest;

    (void)state;
    assert_true(atoll_preview_parse_path("/preview/" ID "/8000/a/b?c", &name, &rest));
    assert_int_equal(name.port, 8000);
    assert_string_equal(rest, "/a/b?c");
    assert_true(atoll_preview_parse_path("/preview/" ID "/8000", &name, &rest));
    assert_string_equal(rest, "");
    assert_true(atoll_preview_parse_path("/preview/" ID "/8000?x=/y", &name, &rest));
    assert_string_equal(rest, "?x=/y");
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(wrong); i++)
        if (atoll_preview_parse_path(wrong[i], &name, &rest))
            fail_msg("%s is no preview", wrong[i]);
}

static void targets(void **state)
{
    const char *authority;
    size_t n;

    (void)state;
    assert_string_equal(atoll_target_path("/a?b", &authority, &n), "/a?b");
    assert_null(authority);
    assert_string_equal(atoll_target_path("http://h:1/a", &authority, &n), "/a");
    assert_int_equal(n, 3);
    assert_memory_equal(authority, "h:1", 3);
    assert_string_equal(atoll_target_path("HTTPS://h?q", &authority, &n), "?q");
    assert_int_equal(n, 1);
}

static void answers(void **state)
{
    static const char *const kept[] = {
        "Content-Type",
        "ETag",
        "content-RANGE",
        "Location",
        "X-Total-Count",
        "Cache-Control",
        "Vary",
        "Sec-WebSocket-Accept",
        "Upgrade",
        "Mcp-Session-Id",
        "Accept-Ranges",
        "Last-Modified",
        "Content-Disposition",
        "Allow",
        "Access-Control-Allow-Origin",
    };
    static const char *const origin_wide[] = {
        "NEL",
        "Report-To",
        "Reporting-Endpoints",
        "Alt-Svc",
        "WWW-Authenticate",
        "Set-Cookie",
        "Strict-Transport-Security",
        "Service-Worker-Allowed",
        "Public-Key-Pins",
        "Expect-CT",
        "Accept-CH",
        "Critical-CH",
        "Permissions-Policy",
        "Feature-Policy",
        "Origin-Agent-Cluster",
        "Document-Policy",
        "Speculation-Rules",
        "No-Vary-Search",
        "Use-As-Dictionary",
        "Link",
        "Refresh",
        "Cross-Origin-Opener-Policy",
        "Cross-Origin-Embedder-Policy",
        "Content-Security-Policy-Report-Only",
        "Access-Control-Allow-Private-Network",
        "SourceMap",
        "Supports-Loading-Mode",
        "Observe-Browsing-Topics",
        "Set-Login",
        "Activate-Storage-Access",
        "Made-Up-Tomorrow",
        "Allowed",
        "Content",
        "",
    };
    static const char *const never[] = {"Clear-Site-Data",     "X-Accel-Redirect", "X-Sendfile",
                                        "X-SENDFILE2",         "X-Reproxy-URL",    "X-Atoll-Tenant",
                                        "X-Lighttpd-Send-File"};

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(kept); i++)
        if (!atoll_preview_may_answer(kept[i], ATOLL_PREVIEW_API_ORIGIN))
            fail_msg("%s is missed", kept[i]);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(origin_wide); i++) {
        if (atoll_preview_may_answer(origin_wide[i], ATOLL_PREVIEW_API_ORIGIN))
            fail_msg("%s reaches the API's origin", origin_wide[i]);
        if (!atoll_preview_may_answer(origin_wide[i], ATOLL_PREVIEW_OWN_HOST))
            fail_msg("%s is the preview's own business", origin_wide[i]);
    }
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(never); i++)
        if (atoll_preview_may_answer(never[i], ATOLL_PREVIEW_OWN_HOST) ||
            atoll_preview_may_answer(never[i], ATOLL_PREVIEW_API_ORIGIN))
            fail_msg("%s reaches beyond its host", never[i]);
}

static void assert_stripped(const char *target, const char *expected, bool found)
{
    char out[200];

    assert_int_equal(atoll_preview_strip_token(target, "tok", out), found);
    assert_string_equal(out, expected);
}

static void assert_without(const char *target, const char *expected, bool found)
{
    char out[100];

    assert_int_equal(atoll_preview_strip_parameter(target, "KEY", out), found);
    assert_string_equal(out, expected);
}

static void parameters(void **state)
{
    (void)state;
    assert_without("/a", "/a", false);
    assert_without("/a?b=c&d", "/a?b=c&d", false);
    assert_without("/a?KEYS=c&b=KEY", "/a?KEYS=c&b=KEY", false);
    assert_without("/a?KEY=c", "/a", true);
    assert_without("/a?b=%20&KEY=c&d", "/a?b=%20&d", true);
    assert_without("/a?%4bE%59=c&d=e&KEY", "/a?d=e", true);
    assert_without("http://x/a?b=%zz&c=d", "http://x/a?c=d", true); /* unknown: not passed on */
}

static void tokens(void **state)
{
    (void)state;
    assert_stripped("/", "/", false);
    assert_stripped("/?", "/?", false);
    assert_stripped("/?token=tok", "/", true);
    assert_stripped("/?token=tok&a=b", "/?a=b", true);
    assert_stripped("/?a=b&token=tok", "/?a=b", true);
    assert_stripped("/?a=b&token=tok&c", "/?a=b&c", true);
    assert_stripped("/?token=tok&token=tok", "/", true);
    assert_stripped("/?token=other", "/?token=other", false);
    assert_stripped("/?token=toke", "/?token=toke", false);
    assert_stripped("/?xtoken=tok", "/?xtoken=tok", false);
    assert_stripped("/?a=1&&b=2", "/?a=1&&b=2", false);
}

static void assert_cookies(const char *cookies, const char *expected)
{
    char out[200];

    atoll_preview_strip_cookies(cookies, out);
    assert_string_equal(out, expected);
}

static void cookies(void **state)
{
    const char *found;
    size_t n;

    (void)state;
    assert_cookies("", "");
    assert_cookies("a=1; b=2", "a=1; b=2");
    assert_cookies("a=1;b=2", "a=1;b=2");
    assert_cookies("atoll_preview=x", "");
    assert_cookies("atoll_preview=x; a=1", "a=1");
    assert_cookies("a=1; ATOLL_x=y; b=2", "a=1; b=2");
    assert_cookies(";; a=1 ;; ", "a=1");
    found = atoll_preview_find_cookie("a=1;  atoll_preview=xyz ; b", &n);
    assert_non_null(found);
    assert_int_equal(n, 3);
    assert_memory_equal(found, "xyz", 3);
    assert_null(atoll_preview_find_cookie("a=atoll_preview=1; xatoll_preview=2", &n));
    assert_null(atoll_preview_find_cookie("atoll_preview=", &n));
}

static void assert_set_cookie(const char *value, const char *expected)
{
    char out[200];

    assert_int_equal(atoll_preview_clean_set_cookie(value, out), expected != NULL);
    if (expected)
        assert_string_equal(out, expected);
}

static void set_cookies(void **state)
{
    (void)state;
    assert_set_cookie("a=1", "a=1");
    assert_set_cookie("a=1; Path=/; HttpOnly", "a=1; Path=/; HttpOnly");
    assert_set_cookie("a=1; Domain=localhost; Path=/", "a=1; Path=/");
    assert_set_cookie("a=1;DOMAIN = x;Path=/", "a=1;Path=/");
    assert_set_cookie("a=1; domain", "a=1");
    assert_set_cookie("a=1; domains=x", "a=1; domains=x");
    assert_set_cookie("domain=1", "domain=1");
    assert_set_cookie("atoll_preview=1", NULL);
    assert_set_cookie("  Atoll_x=1", NULL);
    assert_set_cookie("", "");
}

static void keys(void **state)
{
    (void)state;
    assert_true(atoll_preview_holds_key("Bearer atl_0123456789abcdef0123"));
    assert_true(atoll_preview_holds_key("x atl_a atl_0123456789abcdef"));
    assert_true(atoll_preview_holds_key("e2b_6162636465666768696a6b6c6d6e6f70"));
    assert_false(atoll_preview_holds_key("Bearer atl_short"));
    assert_false(atoll_preview_holds_key("Basic dTpw"));
}

static void traces(void **state)
{
    struct atoll_trace a, b;
    char text[ATOLL_TRACE_TEXT_MAX];

    (void)state;
    atoll_trace_init(&a, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
    atoll_trace_init(&b, "cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more");
    assert_string_equal(a.id, "0af7651916cd43dd8448eb211c80319c");
    assert_string_equal(a.flags, "01");
    assert_string_not_equal(a.span, b.span);
    assert_string_equal(a.id, b.id);
    assert_int_equal(strlen(atoll_trace_format(&a, text)), 55);
    atoll_trace_init(&b, text);
    assert_string_equal(b.id, a.id);
    atoll_trace_init(&a, NULL);
    assert_string_equal(a.id, "");
    atoll_trace_init(&a, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more");
    assert_string_equal(a.id, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hosts),       cmocka_unit_test(domains), cmocka_unit_test(own_hosts),
        cmocka_unit_test(paths),       cmocka_unit_test(targets), cmocka_unit_test(answers),
        cmocka_unit_test(parameters),  cmocka_unit_test(tokens),  cmocka_unit_test(cookies),
        cmocka_unit_test(set_cookies), cmocka_unit_test(keys),    cmocka_unit_test(traces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
