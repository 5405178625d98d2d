/*
 * Routes and error bodies.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "api/errors.h"
#include "api/router.h"
#include "base/text.h"

static const struct atoll_route rows[] = {
    {ATOLL_GET, "/", ATOLL_SCOPE_READ, 0, NULL, NULL},
    {ATOLL_GET, "/boxes", ATOLL_SCOPE_READ, 0, NULL, NULL},
    {ATOLL_POST, "/boxes", ATOLL_SCOPE_WRITE, 0, NULL, NULL},
    {ATOLL_GET, "/boxes/{id}/execs/stream", ATOLL_SCOPE_READ, 0, NULL, NULL},
    {ATOLL_GET, "/boxes/{id}/execs/{exec}", ATOLL_SCOPE_READ, 0, NULL, NULL},
    {ATOLL_DELETE, "/boxes/{id}", ATOLL_SCOPE_WRITE, 0, NULL, NULL},
    {ATOLL_PUT, "/templates/{name}", ATOLL_SCOPE_WRITE, 0, NULL, NULL},
    {ATOLL_DELETE, "/templates/{name}", ATOLL_SCOPE_WRITE, 0, NULL, NULL},
    {ATOLL_GET, "/sessions/{session}/artifacts/{path}", ATOLL_SCOPE_READ, 0, NULL, NULL},
    {ATOLL_GET, "/sandboxes/{sandboxID}", ATOLL_SCOPE_READ, 0, NULL, NULL},
    {ATOLL_GET, "/proxy/{port}/{rest}", ATOLL_SCOPE_READ, 0, NULL, NULL},
};
/* A parameter that only this table has. */
static const struct atoll_param_kind params[] = {
    {"{sandboxID}", offsetof(struct atoll_route_params, id), 33, atoll_text_is_id, NULL, '-',
     "Invalid sandbox ID"},
};
static const struct atoll_routes table = {rows, ATOLL_ARRAY_LEN(rows), NULL, params,
                                          ATOLL_ARRAY_LEN(params)};
static const struct atoll_routes *const tables[] = {&table};

struct found {
    const struct atoll_route *route;
    struct atoll_route_params params;
    char allow[ATOLL_ROUTE_ALLOW_MAX];
    struct atoll_error err;
};

static int match(struct found *f, enum atoll_http_method method, const char *path)
{
    *f = (struct found){0};
    return atoll_router_match(tables, 1, method, path, &f->params, f->allow, &f->route, &f->err);
}

static void paths_find_their_row(void **state)
{
    static const struct {
        enum atoll_http_method method;
        const char *path;
        size_t row;
    } cases[] = {
        {ATOLL_GET, "/", 0},
        {ATOLL_GET, "/boxes", 1},
        {ATOLL_HEAD, "/boxes", 1},
        {ATOLL_POST, "/boxes", 2},
        {ATOLL_GET, "/boxes/a1/execs/stream", 3},
        {ATOLL_GET, "/boxes/a1/execs/00ff", 4},
        {ATOLL_DELETE, "/boxes/a1", 5},
        {ATOLL_PUT, "/templates/My.Name-1", 6},
    };
    static const struct {
        const char *path, *rest;
    } rests[] = {
        {"/proxy/80/a/b/", "a/b/"},
        {"/proxy/80//", "/"},
        {"/proxy/80/", ""},
        {"/proxy/80", ""},
    };
    struct found f;

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(cases); i++) {
        assert_int_equal(match(&f, cases[i].method, cases[i].path), 0);
        assert_ptr_equal(f.route, &rows[cases[i].row]);
    }
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(rests); i++) {
        assert_int_equal(match(&f, ATOLL_GET, rests[i].path), 0);
        assert_string_equal(f.params.port, "80");
        assert_string_equal(f.params.path, rests[i].rest);
    }
    assert_true(match(&f, ATOLL_GET, "/proxy") < 0 && f.err.kind == ATOLL_ERR_NOT_FOUND);
    assert_true(match(&f, ATOLL_GET, "/proxy/") < 0 && f.err.kind == ATOLL_ERR_NOT_FOUND);
    assert_int_equal(match(&f, ATOLL_GET, "/boxes/a1/execs/00ff"), 0);
    assert_string_equal(f.params.id, "a1");
    assert_string_equal(f.params.exec, "00ff");
    assert_string_equal(f.params.name, "");
    assert_null(f.params.path);
}

static void a_path_at_the_end_is_all_that_is_left(void **state)
{
    struct found f;

    (void)state;
    assert_int_equal(match(&f, ATOLL_GET, "/sessions/s1/artifacts/a/b c/d.txt"), 0);
    assert_string_equal(f.params.session, "s1");
    assert_string_equal(f.params.path, "a/b c/d.txt");
    assert_string_equal(f.params.id, "");
    assert_int_equal(match(&f, ATOLL_GET, "/sessions/s1/artifacts//x"), 0);
    assert_string_equal(f.params.path, "/x");
    assert_int_equal(match(&f, ATOLL_GET, "/sessions/s1/artifacts/"), -ENOENT);
    assert_int_equal(match(&f, ATOLL_GET, "/sessions/s1/artifacts"), -ENOENT);
    assert_int_equal(match(&f, ATOLL_GET, "/sessions/S1/artifacts/x"), -EINVAL);
    assert_true(match(&f, ATOLL_PUT, "/sessions/s1/artifacts/x/y") < 0);
    assert_string_equal(f.allow, "GET, HEAD");
}

static void other_paths_are_not_found(void **state)
{
    static const char *const paths[] = {
        "*",       "/box",          "/boxes/",           "/boxes//execs/1",
        "/boxess", "/boxes/a1/x/y", "/boxes/a1/execs/1/"};
    struct found f;

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(paths); i++) {
        assert_int_equal(match(&f, ATOLL_GET, paths[i]), -ENOENT);
        assert_int_equal(f.err.kind, ATOLL_ERR_NOT_FOUND);
        assert_string_equal(f.allow, "");
    }
}

static void other_methods_are_told_what_works(void **state)
{
    struct found f;

    (void)state;
    assert_true(match(&f, ATOLL_PUT, "/boxes") < 0);
    assert_int_equal(f.err.kind, ATOLL_ERR_UNIMPLEMENTED);
    assert_string_equal(f.allow, "GET, HEAD, POST");
    assert_true(match(&f, ATOLL_OPTIONS, "/boxes/a1") < 0);
    assert_string_equal(f.allow, "DELETE");
}

static void parameters_are_checked(void **state)
{
    static const char *const bad[] = {"/boxes/-A", "/boxes/.b", "/boxes/a b", "/boxes/\xc3\xa4",
                                      ("/boxes/01234567890123456789012345678901"
                                       "234567890123456789012345678901234")};
    struct found f;

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(bad); i++) {
        assert_int_equal(match(&f, ATOLL_DELETE, bad[i]), -EINVAL);
        assert_int_equal(f.err.kind, ATOLL_ERR_INVALID_ARGUMENT);
    }
    assert_int_equal(match(&f, ATOLL_PUT, "/templates/.hidden"), -EINVAL);
    /* A row for another method that matched before does not make it a question of the method. */
    assert_int_equal(match(&f, ATOLL_DELETE, "/templates/.hidden"), -EINVAL);
    assert_string_equal(f.allow, "");
}

static void kinds_have_their_status(void **state)
{
    static const struct {
        enum atoll_error_kind kind;
        int errnum, status;
    } cases[] = {
        {ATOLL_ERR_INVALID_ARGUMENT, 0, 400},
        {ATOLL_ERR_OUT_OF_RANGE, 0, 400},
        {ATOLL_ERR_UNAUTHENTICATED, 0, 401},
        {ATOLL_ERR_PERMISSION_DENIED, 0, 403},
        {ATOLL_ERR_NOT_FOUND, 0, 404},
        {ATOLL_ERR_ALREADY_EXISTS, 0, 409},
        {ATOLL_ERR_FAILED_PRECONDITION, 0, 409},
        {ATOLL_ERR_ABORTED, 0, 409},
        {ATOLL_ERR_RESOURCE_EXHAUSTED, EAGAIN, 429},
        {ATOLL_ERR_RESOURCE_EXHAUSTED, ENOSPC, 507},
        {ATOLL_ERR_RESOURCE_EXHAUSTED, EDQUOT, 507},
        {ATOLL_ERR_DEADLINE_EXCEEDED, 0, 504},
        {ATOLL_ERR_UNIMPLEMENTED, 0, 501},
        {ATOLL_ERR_UNAVAILABLE, 0, 503},
        {ATOLL_ERR_INTERNAL, 0, 500},
        {ATOLL_ERR_UNKNOWN, 0, 500},
        {ATOLL_ERR_DATA_LOSS, 0, 500},
    };

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(cases); i++) {
        struct atoll_error error = {.kind = cases[i].kind, .errnum = cases[i].errnum};
        assert_int_equal(atoll_api_status_of(&error), cases[i].status);
    }
}

static const char *error_json_for(struct atoll_buf *buf, const struct atoll_error *error,
                                  const char *file)
{
    struct atoll_json_out out;

    atoll_buf_clear(buf);
    atoll_json_out_init(&out, buf);
    atoll_json_open(&out, NULL, '{');
    atoll_api_error_write(&out, error, "r-1", file);
    atoll_json_close(&out, '}');
    return atoll_buf_str(buf);
}

static const char *error_json(struct atoll_buf *buf, const struct atoll_error *error)
{
    return error_json_for(buf, error, NULL);
}

static void hints_name_the_file_to_those_who_may_know(void **state)
{
    struct atoll_buf buf;
    struct atoll_error error;

    (void)state;
    atoll_buf_init(&buf, 4096);
    (void)atoll_fail(&error, ATOLL_ERR_UNAVAILABLE, 0, "not there");
    assert_non_null(strstr(error_json(&buf, &error), "\"hint\":\"try again in a moment\""));
    (void)atoll_fail(&error, ATOLL_ERR_UNAVAILABLE, 0, "too many; try again");
    assert_null(strstr(error_json(&buf, &error), "hint")); /* it is said once */
    atoll_advise(&error, "look at providers.yaml\n%s", "providers:");
    assert_non_null(
        strstr(error_json(&buf, &error), "\"hint\":\"look at providers.yaml\\nproviders:\""));
    assert_non_null(strstr(error_json_for(&buf, &error, "/a/b.yaml"),
                           "\"hint\":\"look at /a/b.yaml\\nproviders:\""));
    assert_non_null(strstr(error_json_for(&buf, &error, ""), "look at providers.yaml"));
    (void)atoll_fail(&error, ATOLL_ERR_NOT_FOUND, 0, "no hint of the one before");
    assert_null(strstr(error_json_for(&buf, &error, "/a/b.yaml"), "\"hint\""));
    (void)atoll_fail(&error, ATOLL_ERR_INTERNAL, EIO, "inside");
    atoll_advise(&error, "open /secret");
    assert_null(strstr(error_json(&buf, &error), "secret"));
    atoll_buf_done(&buf);
}

static void internal_errors_keep_their_text(void **state)
{
    struct atoll_buf buf;
    struct atoll_error error;

    (void)state;
    atoll_buf_init(&buf, 4096);
    (void)atoll_fail(&error, ATOLL_ERR_NOT_FOUND, ENOENT, "no box \"x\"");
    assert_string_equal(error_json(&buf, &error),
                        "{\"error\":{\"code\":\"not_found\",\"message\":\"no box \\\"x\\\"\","
                        "\"request_id\":\"r-1\",\"evidence\":{\"errno\":\"ENOENT\"}}}");
    (void)atoll_fail(&error, ATOLL_ERR_INTERNAL, EIO, "open /secret/path: I/O error");
    assert_null(strstr(error_json(&buf, &error), "secret"));
    assert_non_null(strstr(atoll_buf_str(&buf), "\"code\":\"internal\""));
    (void)atoll_fail(&error, ATOLL_ERR_DATA_LOSS, EIO, "lost /secret/path");
    assert_null(strstr(error_json(&buf, &error), "secret"));
    atoll_buf_done(&buf);
}

/* Old clients of E2B write the id with that of a machine behind it. */
static void what_follows_a_foreign_id_is_cut_off(void **state)
{
    static const char *const good[] = {"/sandboxes/abc", "/sandboxes/abc-6532622b",
                                       "/sandboxes/abc-x-Y", "/sandboxes/abc-"};
    static const char *const bad[] = {"/sandboxes/ABC", "/sandboxes/-x", "/sandboxes/a_b",
                                      "/sandboxes/012345678901234567890123456789012"};
    struct found f;

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(good); i++) {
        assert_int_equal(match(&f, ATOLL_GET, good[i]), 0);
        assert_string_equal(f.params.id, "abc");
    }
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(bad); i++) {
        assert_true(match(&f, ATOLL_GET, bad[i]) < 0);
        assert_int_equal(f.err.kind, ATOLL_ERR_INVALID_ARGUMENT);
        assert_string_equal(f.err.text, "Invalid sandbox ID");
    }
    /* Our own are whole: a name may have such a part. */
    assert_int_equal(match(&f, ATOLL_DELETE, "/boxes/abc-x"), 0);
    assert_string_equal(f.params.id, "abc-x");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths_find_their_row),
        cmocka_unit_test(a_path_at_the_end_is_all_that_is_left),
        cmocka_unit_test(other_paths_are_not_found),
        cmocka_unit_test(other_methods_are_told_what_works),
        cmocka_unit_test(parameters_are_checked),
        cmocka_unit_test(kinds_have_their_status),
        cmocka_unit_test(internal_errors_keep_their_text),
        cmocka_unit_test(hints_name_the_file_to_those_who_may_know),
        cmocka_unit_test(what_follows_a_foreign_id_is_cut_off),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
