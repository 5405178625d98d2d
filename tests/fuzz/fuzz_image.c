/*
 * What registries, archives and Docker's config.json say about images: names, manifests, indexes, configs,
 * logins, challenges, and tar files with images in them. The first byte chooses which.
 */
#include <string.h>
#include <sys/mman.h>
#include "fuzz.h"
#include "image/challenge.h"
#include "image/layout.h"
#include "image/login.h"
#include "image/manifest.h"

static void check_digest(const char *digest)
{
    FUZZ_CHECK(atoll_image_is_digest(digest));
}

static void fuzz_reference(const char *text, size_t n)
{
    char whole[ATOLL_IMAGE_REFERENCE_MAX], brief[ATOLL_IMAGE_REFERENCE_MAX];
    char again[ATOLL_IMAGE_REFERENCE_MAX];
    struct atoll_image_reference ref, other;
    struct atoll_error err = {0};

    (void)n;
    if (atoll_image_reference_parse(text, &ref, &err) < 0) {
        FUZZ_CHECK(err.kind == ATOLL_ERR_INVALID_ARGUMENT);
        return;
    }
    FUZZ_CHECK(atoll_image_is_host(ref.host) && *ref.path && (*ref.tag || *ref.digest));
    FUZZ_CHECK(!strpbrk(ref.path, "?#%@: \\\"\r\n") && !strstr(ref.path, "..") &&
               ref.path[0] != '/');
    /* Both forms mean the same image. */
    atoll_image_reference_text(&ref, whole);
    FUZZ_CHECK(atoll_image_reference_parse(whole, &other, &err) == 0);
    FUZZ_CHECK(strcmp(atoll_image_reference_text(&other, again), whole) == 0);
    atoll_image_reference_short(&ref, brief);
    FUZZ_CHECK(atoll_image_reference_parse(brief, &other, &err) == 0);
    FUZZ_CHECK(strcmp(atoll_image_reference_text(&other, again), whole) == 0);
}

static void fuzz_manifest(const char *text, size_t n)
{
    static struct atoll_image_manifest m, again;
    enum atoll_image_document kind;
    struct atoll_error err = {0};
    char *written;

    (void)!atoll_image_document_kind(text, n, "application/json", &kind, &err);
    if (atoll_image_manifest_parse(text, n, &m, &err) < 0)
        return;
    FUZZ_CHECK(m.layer_count <= ATOLL_IMAGE_LAYERS_MAX);
    check_digest(m.config.digest);
    for (size_t i = 0; i < m.layer_count; i++)
        check_digest(m.layers[i].digest);
    written = atoll_image_manifest_write(&m);
    FUZZ_CHECK(written && atoll_image_manifest_parse(written, strlen(written), &again, &err) == 0);
    FUZZ_CHECK(memcmp(&m, &again, sizeof(m)) == 0);
    free(written);
}

static void fuzz_index(const char *text, size_t n)
{
    static const struct atoll_image_platform amd64 = {"linux", "amd64", ""},
                                             arm = {"linux", "arm", "v7"};
    struct atoll_image_descriptor d;
    struct atoll_error err = {0};

    if (atoll_image_index_choose(text, n, &amd64, &d, &err) == 0)
        check_digest(d.digest);
    if (atoll_image_index_choose(text, n, &arm, &d, &err) == 0)
        check_digest(d.digest);
    FUZZ_CHECK(strnlen(err.text, sizeof(err.text)) < sizeof(err.text));
}

static void fuzz_config(const char *text, size_t n)
{
    struct atoll_image_config c;
    struct atoll_error err = {0};

    if (atoll_image_config_parse(text, n, &c, &err) < 0)
        return;
    FUZZ_CHECK(json_is_object(c.config) && c.diff_id_count <= ATOLL_IMAGE_LAYERS_MAX);
    FUZZ_CHECK(atoll_image_config_check(c.config, &err) == 0);
    for (size_t i = 0; i < c.diff_id_count; i++)
        check_digest(c.diff_ids[i]);
    atoll_image_config_done(&c);
}

static void fuzz_login(const char *text, size_t n)
{
    static const char *const hosts[] = {"docker.io", "h", "localhost:5000"};
    struct atoll_image_login login;
    struct atoll_error err = {0};

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(hosts); i++)
        if (atoll_image_login_find(text, n, hosts[i], &login, &err) == 0) {
            FUZZ_CHECK(!login.user == !login.password);
            atoll_image_login_done(&login);
        } else {
            FUZZ_CHECK(err.kind == ATOLL_ERR_FAILED_PRECONDITION);
        }
}

static void fuzz_challenge(const char *text, size_t n)
{
    struct atoll_image_challenge c;

    (void)n;
    atoll_image_challenge_parse(text, &c);
    FUZZ_CHECK(c.kind != ATOLL_IMAGE_BEARER || *c.realm);
}

static void fuzz_platform(const char *text, size_t n)
{
    struct atoll_image_platform p, again;
    struct atoll_error err = {0};
    char out[100];

    (void)n;
    if (atoll_image_platform_parse(text, &p, &err) < 0)
        return;
    FUZZ_CHECK(atoll_image_platform_parse(atoll_image_platform_text(&p, out), &again, &err) == 0);
}

static void read_images(const struct atoll_image_layout *l, size_t n)
{
    static struct atoll_image_layout_image image;
    struct atoll_error err = {0};

    for (size_t i = 0; i < atoll_image_layout_count(l); i++) {
        if (atoll_image_layout_read(l, i, NULL, &image, &err) < 0)
            continue;
        FUZZ_CHECK(image.layer_count == image.config.diff_id_count);
        for (size_t k = 0; k < image.layer_count; k++)
            FUZZ_CHECK(image.layers[k].offset <= n &&
                       image.layers[k].size <= n - image.layers[k].offset);
        atoll_image_layout_image_done(&image);
    }
}

static void fuzz_layout(const char *text, size_t n)
{
    struct atoll_image_layout *l = NULL;
    struct atoll_error err = {0};
    int fd = memfd_create("archive", MFD_CLOEXEC);

    FUZZ_CHECK(fd >= 0 && write(fd, text, n) == (ssize_t)n);
    if (atoll_image_layout_open(fd, &l, &err) == 0)
        read_images(l, n);
    else
        FUZZ_CHECK(err.kind == ATOLL_ERR_INVALID_ARGUMENT ||
                   err.kind == ATOLL_ERR_RESOURCE_EXHAUSTED);
    (void)atoll_image_layout_close(l);
    (void)close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const kinds[])(const char *, size_t) = {
        fuzz_reference, fuzz_manifest,  fuzz_index,    fuzz_config,
        fuzz_login,     fuzz_challenge, fuzz_platform, fuzz_layout};
    char *text;

    if (size < 1)
        return 0;
    text = calloc(1, size);
    FUZZ_CHECK(text);
    memcpy(text, data + 1, size - 1);
    kinds[data[0] % ATOLL_ARRAY_LEN(kinds)](text, size - 1);
    free(text);
    return 0;
}
