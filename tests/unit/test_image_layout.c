/*
 * Archives with images: OCI layouts and docker save, made here; see also the corpus of the fuzzer.
 */
#include "test.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include "base/buf.h"
#include "base/tar.h"
#include "image/layout.h"

#define ARCHIVE_MAX ((size_t)4 << 20)
#define LAYER "the bytes of a layer"

static struct {
    struct atoll_buf archive;
    char layer[ATOLL_IMAGE_DIGEST_MAX], config_digest[ATOLL_IMAGE_DIGEST_MAX];
    char config[512], manifest[1024], manifest_digest[ATOLL_IMAGE_DIGEST_MAX];
} w;

static void add(const char *name, const char *bytes)
{
    static const char zeros[ATOLL_TAR_BLOCK];
    const struct atoll_tar_entry entry = {
        .type = ATOLL_TAR_FILE, .name = name, .mode = 0644, .size = strlen(bytes)};

    assert_int_equal(atoll_tar_head(&w.archive, &entry), 0);
    assert_int_equal(atoll_buf_appends(&w.archive, bytes), 0);
    assert_int_equal(atoll_buf_append(&w.archive, zeros, atoll_tar_padding(strlen(bytes))), 0);
}

static void add_link(const char *name, const char *target)
{
    const struct atoll_tar_entry entry = {
        .type = ATOLL_TAR_SYMLINK, .name = name, .target = target, .mode = 0777};

    assert_int_equal(atoll_tar_head(&w.archive, &entry), 0);
}

static void add_blob(const char *bytes)
{
    char digest[ATOLL_IMAGE_DIGEST_MAX], path[128];

    atoll_image_digest(bytes, strlen(bytes), digest);
    (void)snprintf(path, sizeof(path), "blobs/sha256/%s", digest + 7);
    add(path, bytes);
}

static int setup(void **state)
{
    (void)state;
    memset(&w, 0, sizeof(w));
    atoll_buf_init(&w.archive, ARCHIVE_MAX);
    atoll_image_digest(LAYER, strlen(LAYER), w.layer);
    (void)snprintf(w.config, sizeof(w.config),
                   "{\"os\":\"linux\",\"config\":{},\"rootfs\":{\"diff_ids\":[\"%s\"]}}", w.layer);
    atoll_image_digest(w.config, strlen(w.config), w.config_digest);
    (void)snprintf(w.manifest, sizeof(w.manifest),
                   "{\"schemaVersion\":2,\"config\":{\"mediaType\":\"" ATOLL_IMAGE_MEDIA_CONFIG
                   "\",\"digest\":\"%s\",\"size\":%zu},\"layers\":[{\"mediaType\":"
                   "\"" ATOLL_IMAGE_MEDIA_LAYER "\",\"digest\":\"%s\",\"size\":%zu}]}",
                   w.config_digest, strlen(w.config), w.layer, strlen(LAYER));
    atoll_image_digest(w.manifest, strlen(w.manifest), w.manifest_digest);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    atoll_buf_done(&w.archive);
    return 0;
}

static int archive_fd(void)
{
    static const char zeros[2 * ATOLL_TAR_BLOCK];
    int fd = memfd_create("archive", MFD_CLOEXEC);
    size_t n;

    assert_int_equal(atoll_buf_append(&w.archive, zeros, sizeof(zeros)), 0);
    n = atoll_buf_size(&w.archive);
    assert_int_equal(write(fd, atoll_buf_head(&w.archive), n), (ssize_t)n);
    return fd;
}

/* Reads image 0, which must be the one of setup(). */
static void check_image(const struct atoll_image_layout *l, int fd, const char *digest)
{
    struct atoll_image_layout_image *image = calloc(1, sizeof(*image));
    struct atoll_error err = {0};
    char bytes[sizeof(LAYER)] = "";

    if (atoll_image_layout_read(l, 0, NULL, image, &err) < 0)
        fail_msg("%s", err.text);
    assert_string_equal(image->digest, digest);
    assert_string_equal(image->config_text, w.config);
    assert_int_equal(image->layer_count, 1);
    assert_int_equal(image->layers[0].size, strlen(LAYER));
    assert_int_equal(pread(fd, bytes, strlen(LAYER), (off_t)image->layers[0].offset),
                     (ssize_t)strlen(LAYER));
    assert_string_equal(bytes, LAYER);
    atoll_image_layout_image_done(image);
    free(image);
}

static void check_archive(size_t count, const char *name, const char *digest)
{
    struct atoll_image_layout *l = NULL;
    struct atoll_error err = {0};
    int fd = archive_fd();

    if (atoll_image_layout_open(fd, &l, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(atoll_image_layout_count(l), count);
    assert_string_equal(atoll_image_layout_name(l, 0), name);
    check_image(l, fd, digest);
    (void)atoll_image_layout_close(l);
    (void)close(fd);
}

/* What opening, or else reading the first image, fails with. */
static void check_refused(enum atoll_error_kind kind, const char *text)
{
    struct atoll_image_layout_image *image = calloc(1, sizeof(*image));
    struct atoll_image_layout *l = NULL;
    struct atoll_error err = {0};
    int fd = archive_fd(), r = atoll_image_layout_open(fd, &l, &err);

    if (r == 0)
        r = atoll_image_layout_read(l, 0, NULL, image, &err);
    assert_true(r < 0);
    if (err.kind != kind || !strstr(err.text, text))
        fail_msg("%s: %s", atoll_error_kind_name(err.kind), err.text);
    (void)atoll_image_layout_close(l);
    (void)close(fd);
    free(image);
}

static void add_index(const char *name)
{
    char index[1024];

    (void)snprintf(index, sizeof(index),
                   "{\"manifests\":[{\"mediaType\":\"" ATOLL_IMAGE_MEDIA_MANIFEST
                   "\",\"digest\":\"%s\",\"size\":%zu,\"annotations\":{"
                   "\"org.opencontainers.image.ref.name\":\"%s\"}}]}",
                   w.manifest_digest, strlen(w.manifest), name);
    add("index.json", index);
}

static void oci_layouts(void **state)
{
    (void)state;
    add("oci-layout", "{\"imageLayoutVersion\":\"1.0.0\"}");
    add_index("alpine:3");
    add_blob(w.manifest);
    add_blob(w.config);
    add_blob(LAYER);
    check_archive(1, "docker.io/library/alpine:3", w.manifest_digest);
}

static void a_tag_alone_is_no_name(void **state)
{
    (void)state;
    add_index("latest");
    add_blob(w.manifest);
    add_blob(w.config);
    add_blob(LAYER);
    check_archive(1, "", w.manifest_digest);
}

static void add_docker(const char *layer)
{
    char text[1024];

    (void)snprintf(text, sizeof(text),
                   "[{\"Config\":\"c.json\",\"RepoTags\":[\"alpine:3\",\"ghcr.io/x/y:1\"],"
                   "\"Layers\":[\"%s\"]}]",
                   layer);
    add("manifest.json", text);
    add("./c.json", w.config);
}

static void docker_save(void **state)
{
    (void)state;
    add("abc/layer.tar", LAYER);
    add_docker("abc/layer.tar");
    check_archive(2, "docker.io/library/alpine:3", w.config_digest);
}

static void links_to_layers_are_followed(void **state)
{
    (void)state;
    add("abc.tar", LAYER);
    add_link("x/y/layer.tar", "../../abc.tar");
    add_docker("x/y/layer.tar");
    check_archive(2, "docker.io/library/alpine:3", w.config_digest);
}

static void links_stay_in_the_archive(void **state)
{
    (void)state;
    add_link("a/layer.tar", "../../etc/passwd");
    add_docker("a/layer.tar");
    check_refused(ATOLL_ERR_INVALID_ARGUMENT, "incomplete");
}

static void loops_of_links_end(void **state)
{
    (void)state;
    add_link("a", "b");
    add_link("b", "a");
    add_docker("a");
    check_refused(ATOLL_ERR_INVALID_ARGUMENT, "incomplete");
}

static void other_archives_are_refused(void **state)
{
    (void)state;
    add("etc/passwd", "root");
    check_refused(ATOLL_ERR_INVALID_ARGUMENT, "no image");
}

static void compressed_archives_are_named(void **state)
{
    static const char gzip[ATOLL_TAR_BLOCK] = "\x1f\x8b\x08";

    (void)state;
    assert_int_equal(atoll_buf_append(&w.archive, gzip, sizeof(gzip)), 0);
    check_refused(ATOLL_ERR_INVALID_ARGUMENT, "gzip");
}

static void documents_match_their_digest(void **state)
{
    char path[128];

    (void)state;
    add_index("alpine:3");
    (void)snprintf(path, sizeof(path), "blobs/sha256/%s", w.manifest_digest + 7);
    add(path, w.config);
    check_refused(ATOLL_ERR_DATA_LOSS, "does not match");
}

static void missing_blobs_are_named(void **state)
{
    (void)state;
    add_index("alpine:3");
    add_blob(w.manifest);
    add_blob(w.config);
    check_refused(ATOLL_ERR_INVALID_ARGUMENT, w.layer + 7);
}

static void cut_archives_are_refused(void **state)
{
    const struct atoll_tar_entry entry = {
        .type = ATOLL_TAR_FILE, .name = "manifest.json", .mode = 0644, .size = (uint64_t)1 << 40};

    (void)state;
    assert_int_equal(atoll_tar_head(&w.archive, &entry), 0);
    check_refused(ATOLL_ERR_INVALID_ARGUMENT, "cut off");
}

static int open_layer(void *arg, size_t i, const struct atoll_image_descriptor *layer,
                      struct atoll_error *err)
{
    const size_t *missing = arg;
    int fd = memfd_create("layer", MFD_CLOEXEC);

    (void)err;
    assert_int_equal(i, 0);
    assert_string_equal(layer->digest, w.layer);
    assert_true(write(fd, LAYER, strlen(LAYER) - *missing) >= 0);
    return fd;
}

static int write_archive(size_t missing, const struct atoll_image_reference *name, int fd,
                         struct atoll_error *err)
{
    const struct atoll_image_layout_new what = {.name = name,
                                                .manifest = w.manifest,
                                                .manifest_len = strlen(w.manifest),
                                                .config = w.config,
                                                .config_len = strlen(w.config),
                                                .open_layer = open_layer,
                                                .arg = &missing};

    return atoll_image_layout_write(fd, &what, err);
}

static void written_archives_are_read(void **state)
{
    struct atoll_image_reference name;
    struct atoll_image_layout *l = NULL;
    struct atoll_error err = {0};
    int fd = memfd_create("archive", MFD_CLOEXEC);

    (void)state;
    assert_int_equal(atoll_image_reference_parse("ghcr.io/x/y:1", &name, &err), 0);
    if (write_archive(0, &name, fd, &err) < 0 || atoll_image_layout_open(fd, &l, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(atoll_image_layout_count(l), 1);
    assert_string_equal(atoll_image_layout_name(l, 0), "ghcr.io/x/y:1");
    check_image(l, fd, w.config_digest);
    (void)atoll_image_layout_close(l);
    (void)close(fd);
}

static void short_layers_are_not_written(void **state)
{
    struct atoll_error err = {0};
    int fd = memfd_create("archive", MFD_CLOEXEC);

    (void)state;
    assert_true(write_archive(1, NULL, fd, &err) < 0);
    assert_int_equal(err.kind, ATOLL_ERR_DATA_LOSS);
    (void)close(fd);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(oci_layouts),
        TEST(a_tag_alone_is_no_name),
        TEST(docker_save),
        TEST(links_to_layers_are_followed),
        TEST(links_stay_in_the_archive),
        TEST(loops_of_links_end),
        TEST(other_archives_are_refused),
        TEST(compressed_archives_are_named),
        TEST(documents_match_their_digest),
        TEST(missing_blobs_are_named),
        TEST(cut_archives_are_refused),
        TEST(written_archives_are_read),
        TEST(short_layers_are_not_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
