/*
 * The client of registries: finding and getting, with a registry that can misbehave.
 */
#include "image/registry_internal.h"
#include "image_registry.h"

/* Finding. */

static void an_image_is_found(void **state)
{
    char digest[ATOLL_IMAGE_DIGEST_MAX], version[128];
    const struct atoll_image_call call = within(30000);
    const struct atoll_image_reference ref = at_version("");
    struct atoll_error err;

    (void)state;
    find_must("");
    (void)snprintf(version, sizeof(version), "@%s", w.manifest_digest);
    find_must(version);
    assert_int_equal(atoll_image_registry_digest(w.registry, &ref, &call, digest, &err), 0);
    assert_string_equal(digest, w.manifest_digest);
    /* Whether the host has TLS was asked once. */
    assert_int_equal(fake_asked(w.http, "GET /v2/\n"), 1);
}

static void an_index_leads_to_the_platform(void **state)
{
    char index[1024];
    struct atoll_image_platform here;

    (void)state;
    atoll_image_platform_here(&here);
    (void)snprintf(index, sizeof(index),
                   "{\"mediaType\":\"" ATOLL_IMAGE_MEDIA_INDEX "\",\"manifests\":[{\"mediaType\":"
                   "\"" ATOLL_IMAGE_MEDIA_MANIFEST "\",\"digest\":\"%s\",\"size\":%zu,"
                   "\"platform\":{\"os\":\"linux\",\"architecture\":\"%s\"}}]}",
                   w.manifest_digest, strlen(w.manifest), here.arch);
    w.index = index;
    find_must(":list");
    (void)snprintf(index, sizeof(index), "{\"manifests\":[]}");
    (void)find_fails(":list", NULL, ATOLL_ERR_NOT_FOUND);
    (void)snprintf(index, sizeof(index), "<html>");
    (void)find_fails(":list", NULL, ATOLL_ERR_FAILED_PRECONDITION);
}

static void what_is_not_there_is_said(void **state)
{
    struct atoll_error err;

    (void)state;
    err = find_fails(":none", NULL, ATOLL_ERR_NOT_FOUND);
    assert_non_null(strstr(err.text, "MANIFEST_UNKNOWN"));
    assert_non_null(strstr(err.text, "/a/b:none"));
}

static void manifests_match_their_digest(void **state)
{
    static const char other[] =
        "sha256:0000000000000000000000000000000000000000000000000000000000000000";
    char version[128];

    (void)state;
    w.said_digest = other;
    (void)find_fails("", NULL, ATOLL_ERR_DATA_LOSS);
    w.said_digest = NULL;
    (void)snprintf(version, sizeof(version), "@%s", w.manifest_digest);
    w.manifest[strlen(w.manifest) - 1] = ' ';
    (void)find_fails(version, NULL, ATOLL_ERR_DATA_LOSS);
}

/* Logins. */

static void tokens_are_got_and_kept(void **state)
{
    (void)state;
    w.auth = WANTS_BEARER;
    w.token = 1;
    find_must("");
    assert_int_equal(fake_asked(w.http, "/token?"), 1);
    assert_int_equal(fake_asked(w.http, "service=test%20registry&scope=repository%3Aa%2Fb%3Apull"),
                     1);
    find_must("");
    assert_int_equal(fake_asked(w.http, "/token?"), 1);
    w.token = 2; /* the registry forgets the first */
    find_must("");
    get_must();
    assert_int_equal(fake_asked(w.http, "/token?"), 2);
}

static void tokens_are_of_one_login(void **state)
{
    struct atoll_image_login good = {0}, bad = {0};
    struct atoll_image_call call = within(30000);
    struct atoll_error err = {0};

    (void)state;
    atoll_image_login_set(&good, "user", "pass");
    atoll_image_login_set(&bad, "user", "wrong");
    w.auth = WANTS_BEARER;
    w.token_login = "\r\nAuthorization: " BASIC "\r\n";
    call.login = &good;
    assert_int_equal(find("", &call, &err), 0);
    err = find_fails("", &bad, ATOLL_ERR_UNAUTHENTICATED);
    assert_non_null(strstr(err.hint, "docker login 127.0.0.1:"));
    (void)find_fails("", NULL, ATOLL_ERR_UNAUTHENTICATED);
    atoll_image_login_done(&good);
    atoll_image_login_done(&bad);
}

static void identity_tokens_are_exchanged(void **state)
{
    struct atoll_image_login login = {.identity_token = strdup("refresh")};
    struct atoll_image_call call = within(30000);
    struct atoll_error err = {0};

    (void)state;
    w.auth = WANTS_BEARER;
    call.login = &login;
    assert_int_equal(find("", &call, &err), 0);
    assert_int_equal(fake_asked(w.http, "POST /token\n"), 1);
    atoll_image_login_done(&login);
}

static void basic_logins(void **state)
{
    struct atoll_image_login login = {0};
    struct atoll_image_call call = within(30000);
    struct atoll_error err = {0};

    (void)state;
    w.auth = WANTS_BASIC;
    err = find_fails("", NULL, ATOLL_ERR_UNAUTHENTICATED);
    assert_non_null(strstr(err.text, "wants a login"));
    assert_non_null(strstr(err.hint, "docker login"));
    atoll_image_login_set(&login, "user", "wrong");
    (void)find_fails("", &login, ATOLL_ERR_UNAUTHENTICATED);
    atoll_image_login_set(&login, "user", "pass");
    call.login = &login;
    assert_int_equal(find("", &call, &err), 0);
    atoll_image_login_done(&login);
    (void)snprintf(login.helper, sizeof(login.helper), "docker-credential-desktop");
    err = find_fails("", &login, ATOLL_ERR_UNAUTHENTICATED);
    assert_non_null(strstr(err.hint, "docker-credential-desktop"));
}

static void what_is_private_may_not_exist(void **state)
{
    struct atoll_error err;

    (void)state;
    w.auth = WANTS_BEARER;
    w.token_status = 403;
    err = find_fails("", NULL, ATOLL_ERR_NOT_FOUND);
    assert_non_null(strstr(err.text, "does not exist, or it is private"));
    assert_non_null(strstr(err.hint, "docker login"));
    w.token_status = 404;
    (void)find_fails("", NULL, ATOLL_ERR_FAILED_PRECONDITION);
}

/* Trouble. */

static void passing_failures_are_tried_again(void **state)
{
    static const int statuses[] = {429, 500, 502, 503};

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(statuses); i++) {
        w.failure = statuses[i];
        w.failures = 1;
        find_must("");
    }
    w.failures = 1;
    get_must();
}

static void lasting_failures_are_told(void **state)
{
    struct atoll_error err;

    (void)state;
    w.failure = 502;
    w.failures = 100;
    (void)find_fails("", NULL, ATOLL_ERR_UNAVAILABLE);
    w.failure = 429;
    w.failure_headers = "Retry-After: 3600\r\n";
    w.failures = 1; /* that long is not waited for */
    err = find_fails("", NULL, ATOLL_ERR_RESOURCE_EXHAUSTED);
    assert_int_equal(err.retry_ms, 3600 * 1000);
}

static void a_registry_that_is_down(void **state)
{
    const struct atoll_image_call call = within(1000);
    struct atoll_image_reference ref = at_version("");
    struct atoll_image image;
    struct atoll_error err = {0};

    (void)state;
    (void)snprintf(ref.host, sizeof(ref.host), "127.0.0.1:1");
    assert_true(atoll_image_registry_find(w.registry, &ref, NULL, &call, &image, &err) < 0);
    assert_int_equal(err.kind, ATOLL_ERR_UNAVAILABLE);
    assert_non_null(strstr(err.text, "127.0.0.1:1/a/b"));
}

static void silence_ends(void **state)
{
    struct atoll_image_call call = within(300);
    struct atoll_error err = {0};
    const uint64_t one = 1;

    (void)state;
    w.silent = true;
    assert_true(find("", &call, &err) < 0);
    assert_int_equal(err.kind, ATOLL_ERR_DEADLINE_EXCEEDED);
    call = within(30000);
    call.cancel_fd = eventfd(0, EFD_CLOEXEC);
    assert_int_equal(write(call.cancel_fd, &one, sizeof(one)), sizeof(one));
    assert_true(find("", &call, &err) < 0);
    assert_int_equal(err.kind, ATOLL_ERR_ABORTED);
    w.silent = false; /* and between tries */
    w.failure = 503;
    w.failures = 100;
    assert_true(find("", &call, &err) < 0);
    assert_int_equal(err.kind, ATOLL_ERR_ABORTED);
    (void)close(call.cancel_fd);
}

/* Blobs. */

static void blobs_are_got_once(void **state)
{
    (void)state;
    get_must();
    get_must();
    assert_int_equal(fake_asked(w.http, "/blobs/"), 1);
}

static void broken_downloads_continue(void **state)
{
    (void)state;
    w.cut = 40000;
    w.cuts = 2;
    get_must();
    assert_int_equal(fake_asked(w.http, "/blobs/"), 3);
}

static void a_registry_without_ranges(void **state)
{
    (void)state;
    w.cut = 40000;
    w.cuts = 1;
    w.no_range = true;
    get_must();
}

static void put_part(const void *bytes, size_t n)
{
    char name[ATOLL_IMAGE_DIGEST_MAX], path[128];
    int fd;

    (void)snprintf(path, sizeof(path), "%s.part", atoll_image_blob_name(w.digest, name));
    fd = openat(w.dir_fd, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_int_equal(write(fd, bytes, n), (ssize_t)n);
    (void)close(fd);
}

static void parts_of_earlier_calls_are_used(void **state)
{
    (void)state;
    put_part(w.blob, 60000);
    w.cut = 40000; /* more than is missing */
    w.cuts = 1;
    get_must();
    assert_int_equal(fake_asked(w.http, "/blobs/"), 1);
}

static void whole_parts_need_no_request(void **state)
{
    (void)state;
    put_part(w.blob, BLOB_LEN);
    get_must();
    assert_int_equal(fake_asked(w.http, "/blobs/"), 0);
}

static void bad_parts_are_dropped(void **state)
{
    static const char zeros[BLOB_LEN + 1];
    static const size_t sizes[] = {1, 60000, BLOB_LEN, BLOB_LEN + 1};
    char name[ATOLL_IMAGE_DIGEST_MAX];

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(sizes); i++) {
        put_part(zeros, sizes[i]);
        get_must();
        assert_int_equal(unlinkat(w.dir_fd, atoll_image_blob_name(w.digest, name), 0), 0);
    }
}

static void wrong_content_is_refused(void **state)
{
    (void)state;
    w.flipped = true;
    (void)get_fails(ATOLL_ERR_DATA_LOSS);
    assert_false(has_file(".part"));
    w.flipped = false;
    w.longer = true;
    (void)get_fails(ATOLL_ERR_DATA_LOSS);
    assert_false(has_file(".part"));
    w.longer = false;
    get_must();
}

static void *get_in_thread(void *arg)
{
    struct atoll_error err = {0};

    (void)arg;
    return (void *)(intptr_t)get(&err);
}

static void one_download_serves_all_callers(void **state)
{
    pthread_t threads[4];
    void *result;

    (void)state;
    w.cut = 40000;
    w.cuts = 1; /* lasts long enough for all of them to come */
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, get_in_thread, NULL), 0);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(threads); i++) {
        assert_int_equal(pthread_join(threads[i], &result), 0);
        assert_ptr_equal(result, NULL);
    }
    assert_int_equal(fake_asked(w.http, "/blobs/"), 2);
    get_must();
}

/* Where requests go. */

static void redirects_do_not_get_the_login(void **state)
{
    (void)state;
    w.auth = WANTS_BEARER;
    w.redirects = true;
    get_must();
    assert_int_equal(fake_asked(w.other, "/blobs/"), 1);
}

static void private_addresses_need_permission(void **state)
{
    struct atoll_image_call call = within(30000);
    const struct atoll_image_reference ref = at_version("");
    const struct atoll_image_descriptor blob = layer();
    const char *insecure[] = {w.http->url + strlen("http://")};
    struct atoll_error err = {0};

    (void)state;
    find_must(""); /* there is a connection with permission */
    call.allow_private = false;
    assert_true(find("", &call, &err) < 0);
    assert_int_equal(err.kind, ATOLL_ERR_PERMISSION_DENIED);
    /* The operator names the registry, but not where it redirects to. */
    new_client(&(struct atoll_image_registry_config){.insecure = insecure, .insecure_count = 1});
    assert_int_equal(find("", &call, &err), 0);
    w.redirects = true;
    assert_true(atoll_image_registry_get_blob(w.registry, &ref, &blob, w.dir_fd, &call, &err) < 0);
    assert_int_equal(err.kind, ATOLL_ERR_PERMISSION_DENIED);
    assert_int_equal(fake_asked(w.other, "/"), 0);
}

/* A registry that the operator did not name must not lead a tenant's pull to a host that the operator named:
 * those have private addresses. */
static void only_named_registries_lead_to_named_hosts(void **state)
{
    const char *insecure[] = {"inside.example:5000"};
    const struct atoll_image_mirror mirrors[] = {{"docker.io", "https://mirror.example"}};
    enum { PUBLIC, ANY, UNVERIFIED, REFUSED };
    static const struct {
        const char *origin, *url;
        bool allow_private;
        int client;
    } cases[] = {
        {"https://inside.example:5000", "https://inside.example:5000/v2/", false, UNVERIFIED},
        {"http://inside.example:5000", "http://inside.example:5000/v2/", false, UNVERIFIED},
        {"https://mirror.example", "https://mirror.example/v2/", false, ANY},
        {"https://mirror.example", "https://inside.example:5000/blob", false, UNVERIFIED},
        {"https://mirror.example", "https://other.example/blob", false, PUBLIC},
        {"https://evil.example", "https://inside.example:5000/secret", false, PUBLIC},
        {"https://evil.example", "http://inside.example:5000/secret", false, REFUSED},
        {"https://evil.example", "https://mirror.example/secret", false, PUBLIC},
        {"https://evil.example", "https://mirror.example/secret", true, ANY},
    };
    struct atoll_image_call call = within(30000);
    struct atoll_image_place place = {0};
    struct atoll_remote_http *got;
    struct atoll_error err;

    (void)state;
    new_client(&(struct atoll_image_registry_config){
        .insecure = insecure, .insecure_count = 1, .mirrors = mirrors, .mirror_count = 1});
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(cases); i++) {
        struct atoll_remote_http *const clients[] = {w.registry->public, w.registry->any,
                                                     w.registry->unverified, NULL};
        (void)snprintf(place.origin, sizeof(place.origin), "%s", cases[i].origin);
        call.allow_private = cases[i].allow_private;
        got = NULL;
        assert_int_equal(
            atoll_image_client_for(w.registry, &place, cases[i].url, &call, &got, &err) < 0,
            cases[i].client == REFUSED);
        assert_ptr_equal(got, clients[cases[i].client]);
    }
}

static void mirrors_go_first(void **state)
{
    char url[128];
    struct atoll_image_mirror mirror = {.host = w.http->url + strlen("http://"), .url = url};
    struct atoll_image_login login = {0};
    struct atoll_image_call call = within(30000);
    struct atoll_error err = {0};

    (void)state;
    (void)snprintf(url, sizeof(url), "%s/cache/", w.other->url);
    new_client(&(struct atoll_image_registry_config){.mirrors = &mirror, .mirror_count = 1});
    /* It has the blob under its own path, and no manifest; it does not get the login. */
    atoll_image_login_set(&login, "user", "pass");
    call.login = &login;
    w.auth = WANTS_BASIC;
    assert_int_equal(find("", &call, &err), 0);
    assert_int_equal(fake_asked(w.other, "GET /v2/cache/a/b/manifests/latest"), 1);
    get_must();
    assert_int_equal(fake_asked(w.other, "GET /v2/cache/a/b/blobs/"), 1);
    assert_int_equal(fake_asked(w.http, w.digest), 0);
    atoll_image_login_done(&login);
}

static void mirrors_are_checked(void **state)
{
    static const struct atoll_image_mirror bad[] = {
        {"docker.io", "mirror"}, {"docker.io", "ftp://x"}, {"a b", "https://x"}, {"", "https://x"}};
    static const char *const hosts[] = {"http://x", "", "a/b"};
    struct atoll_image_registry *r = NULL;
    struct atoll_error err;

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(bad); i++) {
        assert_true(
            atoll_image_registry_new(
                &(struct atoll_image_registry_config){.mirrors = &bad[i], .mirror_count = 1}, &r,
                &err) < 0);
        assert_int_equal(err.kind, ATOLL_ERR_INVALID_ARGUMENT);
    }
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(hosts); i++)
        assert_true(
            atoll_image_registry_new(
                &(struct atoll_image_registry_config){.insecure = &hosts[i], .insecure_count = 1},
                &r, &err) < 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_image_is_found),
        TEST(an_index_leads_to_the_platform),
        TEST(what_is_not_there_is_said),
        TEST(manifests_match_their_digest),
        TEST(tokens_are_got_and_kept),
        TEST(tokens_are_of_one_login),
        TEST(identity_tokens_are_exchanged),
        TEST(basic_logins),
        TEST(what_is_private_may_not_exist),
        TEST(passing_failures_are_tried_again),
        TEST(lasting_failures_are_told),
        TEST(a_registry_that_is_down),
        TEST(silence_ends),
        TEST(blobs_are_got_once),
        TEST(broken_downloads_continue),
        TEST(a_registry_without_ranges),
        TEST(parts_of_earlier_calls_are_used),
        TEST(whole_parts_need_no_request),
        TEST(bad_parts_are_dropped),
        TEST(wrong_content_is_refused),
        TEST(one_download_serves_all_callers),
        TEST(redirects_do_not_get_the_login),
        TEST(private_addresses_need_permission),
        TEST(only_named_registries_lead_to_named_hosts),
        TEST(mirrors_go_first),
        TEST(mirrors_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
