/*
 * The client of registries: putting.
 */
#include "image_registry.h"

static void put_must(const char *from)
{
    const struct atoll_image_reference ref = at_version("");
    const struct atoll_image_descriptor blob = layer();
    const struct atoll_image_call call = within(30000);
    struct atoll_error err = {0};
    int fd = memfd_create("blob", MFD_CLOEXEC);

    assert_int_equal(write(fd, w.blob, BLOB_LEN), BLOB_LEN);
    if (atoll_image_registry_put_blob(w.registry, &ref, &blob, fd, from, &call, &err) < 0)
        fail_msg("%s", err.text);
    (void)close(fd);
}

static void blobs_are_put_once(void **state)
{
    (void)state;
    w.auth = WANTS_BEARER;
    put_must(NULL);
    assert_int_equal(w.upload_len, BLOB_LEN);
    assert_memory_equal(w.upload, w.blob, BLOB_LEN);
    assert_true(w.uploaded);
    put_must(NULL);
    assert_int_equal(fake_asked(w.http, "POST "), 1);
    assert_int_equal(fake_asked(w.http, "%3Apull%2Cpush"), 1);
}

static void broken_uploads_continue(void **state)
{
    (void)state;
    w.breaks = 2;
    put_must(NULL);
    assert_int_equal(w.upload_len, BLOB_LEN);
    assert_memory_equal(w.upload, w.blob, BLOB_LEN);
    assert_int_equal(fake_asked(w.http, "PATCH "), 3);
    assert_int_equal(fake_asked(w.http, "POST "), 1);
}

static void blobs_are_mounted(void **state)
{
    (void)state;
    w.mounts = true;
    put_must("c/d");
    assert_int_equal(fake_asked(w.http, "&from=c/d"), 1);
    assert_int_equal(fake_asked(w.http, "PATCH "), 0);
    w.mounts = false; /* the registry does not know the other repository */
    put_must("c/d");
    assert_int_equal(w.upload_len, BLOB_LEN);
}

static void manifests_are_put(void **state)
{
    const struct atoll_image_reference ref = at_version(":new");
    const struct atoll_image_call call = within(30000);
    struct atoll_error err = {0};

    (void)state;
    assert_int_equal(atoll_image_registry_put_manifest(w.registry, &ref, ATOLL_IMAGE_MEDIA_MANIFEST,
                                                       w.manifest, strlen(w.manifest), &call, &err),
                     0);
    assert_non_null(strstr(w.stored, "/v2/a/b/manifests/new {"));
    assert_non_null(strstr(w.stored, w.digest));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(blobs_are_put_once),
        TEST(broken_uploads_continue),
        TEST(blobs_are_mounted),
        TEST(manifests_are_put),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
