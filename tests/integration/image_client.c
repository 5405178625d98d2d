/*
 * The client of registries as a program, for tests with real registries.
 *
 *   image-client [OPTION VALUE]... find REFERENCE
 *   image-client [OPTION VALUE]... pull REFERENCE DIR        blobs, config and manifest.json to DIR
 *   image-client [OPTION VALUE]... push REFERENCE DIR [FROM] what pull made; FROM: a repository with the blobs
 *   image-client save REFERENCE DIR FILE                     an archive of what pull made
 *   image-client archive FILE
 *
 * Options: platform, config (Docker's config.json), mirror (HOST=URL), insecure (HOST), ca, public (1: no
 * private addresses), deadline (ms). Prints one JSON object: the image, or {"error", "kind", "hint"}.
 */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "base/fd.h"
#include "image/layout.h"
#include "image/registry.h"

static const char *option[7];
enum { PLATFORM, CONFIG, MIRROR, INSECURE, CA, PUBLIC, DEADLINE };
static const char *const names[] = {"platform", "config", "mirror",  "insecure",
                                    "ca",       "public", "deadline"};

static struct atoll_image_registry *registry;
static struct atoll_image_call call;
static struct atoll_image_login login;
static struct atoll_image image;

static int print(json_t *json)
{
    char *text = json_dumps(json, JSON_COMPACT);

    (void)puts(text);
    free(text);
    json_decref(json);
    return 0;
}

static json_t *layers_json(void)
{
    json_t *list = json_array();

    for (size_t i = 0; i < image.manifest.layer_count; i++)
        (void)json_array_append_new(list, json_string(image.manifest.layers[i].digest));
    return list;
}

static int print_image(void)
{
    return print(json_pack("{s:s, s:s, s:o, s:O}", "digest", image.digest, "index",
                           image.index_digest, "layers", layers_json(), "config",
                           image.config.config));
}

static int find(const struct atoll_image_reference *ref, struct atoll_error *err)
{
    struct atoll_image_platform platform;
    int r = 0;

    if (option[PLATFORM])
        r = atoll_image_platform_parse(option[PLATFORM], &platform, err);
    if (r == 0)
        r = atoll_image_registry_find(registry, ref, option[PLATFORM] ? &platform : NULL, &call,
                                      &image, err);
    return r;
}

static int keep(int dir_fd, const char *name, const char *text, size_t n, struct atoll_error *err)
{
    int r = atoll_fd_replace_file(dir_fd, name, text, n);

    return r < 0 ? atoll_fail_errno(err, -r, "%s", name) : 0;
}

static int pull(const struct atoll_image_reference *ref, int dir_fd, struct atoll_error *err)
{
    char name[ATOLL_IMAGE_DIGEST_MAX];
    int r = find(ref, err);

    for (size_t i = 0; r == 0 && i < image.manifest.layer_count; i++)
        r = atoll_image_registry_get_blob(registry, ref, &image.manifest.layers[i], dir_fd, &call,
                                          err);
    if (r == 0)
        r = keep(dir_fd, atoll_image_blob_name(image.manifest.config.digest, name),
                 image.config_text, image.config_len, err);
    return r < 0 ? r : keep(dir_fd, "manifest.json", image.manifest_text, image.manifest_len, err);
}

static int put(const struct atoll_image_reference *ref, const struct atoll_image_descriptor *blob,
               int dir_fd, const char *from, struct atoll_error *err)
{
    char name[ATOLL_IMAGE_DIGEST_MAX];
    ATOLL_AUTOCLOSE int fd =
        openat(dir_fd, atoll_image_blob_name(blob->digest, name), O_RDONLY | O_CLOEXEC);

    return atoll_image_registry_put_blob(registry, ref, blob, fd, from, &call, err);
}

static int push(const struct atoll_image_reference *ref, int dir_fd, const char *from,
                struct atoll_error *err)
{
    static char text[1 << 20];
    int n = atoll_fd_read_file(dir_fd, "manifest.json", text, sizeof(text));
    struct atoll_image_manifest *m = &image.manifest;
    int r = n < 0 ? atoll_fail_errno(err, -n, "manifest.json")
                  : atoll_image_manifest_parse(text, (size_t)n, m, err);

    if (r == 0)
        r = put(ref, &m->config, dir_fd, from, err);
    for (size_t i = 0; r == 0 && i < m->layer_count; i++)
        r = put(ref, &m->layers[i], dir_fd, from, err);
    return r < 0 ? r
                 : atoll_image_registry_put_manifest(registry, ref, m->media, text, (size_t)n,
                                                     &call, err);
}

static int open_layer(void *arg, size_t i, const struct atoll_image_descriptor *layer,
                      struct atoll_error *err)
{
    char name[ATOLL_IMAGE_DIGEST_MAX];
    int fd = openat(*(int *)arg, atoll_image_blob_name(layer->digest, name), O_RDONLY | O_CLOEXEC);

    return fd < 0 ? atoll_fail_errno(err, errno, "layer %zu", i) : fd;
}

static int save(char **args, struct atoll_error *err)
{
    static char text[1 << 20], config[1 << 20];
    ATOLL_AUTOCLOSE int dir_fd = open(args[2], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ATOLL_AUTOCLOSE int fd = open(args[3], O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    int n = atoll_fd_read_file(dir_fd, "manifest.json", text, sizeof(text)), m = 0;
    char name[ATOLL_IMAGE_DIGEST_MAX];
    struct atoll_image_reference ref;
    int r = atoll_image_reference_parse(args[1], &ref, err);

    if (r == 0)
        r = atoll_image_manifest_parse(text, (size_t)ATOLL_MAX(n, 0), &image.manifest, err);
    if (r == 0)
        m = atoll_fd_read_file(dir_fd, atoll_image_blob_name(image.manifest.config.digest, name),
                               config, sizeof(config));
    return r < 0 ? r
                 : atoll_image_layout_write(
                       fd,
                       &(struct atoll_image_layout_new){.name = &ref,
                                                        .manifest = text,
                                                        .manifest_len = (size_t)n,
                                                        .config = config,
                                                        .config_len = (size_t)ATOLL_MAX(m, 0),
                                                        .open_layer = open_layer,
                                                        .arg = &dir_fd},
                       err);
}

static int at_registry(char **args, struct atoll_error *err)
{
    struct atoll_image_mirror mirror = {0};
    const struct atoll_image_registry_config config = {
        .mirrors = &mirror,
        .mirror_count = option[MIRROR] ? 1 : 0,
        .insecure = &option[INSECURE],
        .insecure_count = option[INSECURE] ? 1 : 0,
        .ca = option[CA],
    };
    struct atoll_image_reference ref;
    ATOLL_AUTOFREE char *host = option[MIRROR] ? strdup(option[MIRROR]) : NULL;
    ATOLL_AUTOCLOSE int dir_fd = args[2] ? open(args[2], O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    int r = atoll_image_reference_parse(args[1], &ref, err);

    if (host) {
        host[strcspn(host, "=")] = '\0';
        mirror = (struct atoll_image_mirror){host, host + strlen(host) + 1};
    }
    if (r == 0)
        r = atoll_image_registry_new(&config, &registry, err);
    if (r == 0 && option[CONFIG])
        r = atoll_image_login_load(option[CONFIG], ref.host, &login, err);
    call = (struct atoll_image_call){
        .deadline_ms = atoll_clock_ms() + (option[DEADLINE] ? atol(option[DEADLINE]) : 60000),
        .cancel_fd = -1,
        .login = &login,
        .allow_private = !option[PUBLIC],
    };
    if (r < 0)
        return r;
    if (strcmp(args[0], "push") == 0)
        return push(&ref, dir_fd, args[3], err);
    return strcmp(args[0], "pull") == 0 ? pull(&ref, dir_fd, err) : find(&ref, err);
}

static json_t *layout_image(const struct atoll_image_layout *l, size_t i, struct atoll_error *err)
{
    struct atoll_image_layout_image *one = calloc(1, sizeof(*one));
    json_t *layers = json_array(), *json = NULL;

    if (atoll_image_layout_read(l, i, NULL, one, err) == 0) {
        for (size_t k = 0; k < one->layer_count; k++)
            (void)json_array_append_new(layers, json_pack("{s:I, s:I, s:s}", "offset",
                                                          (json_int_t)one->layers[k].offset, "size",
                                                          (json_int_t)one->layers[k].size, "diffId",
                                                          one->config.diff_ids[k]));
        json = json_pack("{s:s, s:s, s:O}", "name", atoll_image_layout_name(l, i), "digest",
                         one->digest, "layers", layers);
        atoll_image_layout_image_done(one);
    }
    json_decref(layers);
    free(one);
    return json;
}

static int archive(const char *path, struct atoll_error *err)
{
    ATOLL_AUTOCLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct atoll_image_layout *l = NULL;
    json_t *list = json_array(), *one;
    int r = atoll_image_layout_open(fd, &l, err);

    for (size_t i = 0; r == 0 && i < atoll_image_layout_count(l); i++) {
        one = layout_image(l, i, err);
        r = one ? json_array_append_new(list, one) : -1;
    }
    (void)atoll_image_layout_close(l);
    if (r < 0)
        json_decref(list);
    return r < 0 ? r : print(list);
}

int main(int argc, char **argv)
{
    struct atoll_error err = {0};
    bool known = true;
    int at = 1, r;

    while (known && argc > at + 1) {
        known = false;
        for (size_t i = 0; i < ATOLL_ARRAY_LEN(names); i++)
            if (strcmp(argv[at], names[i]) == 0) {
                option[i] = argv[at + 1];
                known = true;
            }
        at += known ? 2 : 0;
    }
    if (argc < at + 2)
        return 2;
    if (strcmp(argv[at], "archive") == 0)
        r = archive(argv[at + 1], &err);
    else if (strcmp(argv[at], "save") == 0 && argc == at + 4)
        r = save(argv + at, &err) < 0 ? -1 : print(json_object());
    else if ((r = at_registry(argv + at, &err)) == 0)
        r = strcmp(argv[at], "push") == 0 ? print(json_object()) : print_image();
    if (r < 0)
        (void)print(json_pack("{s:s, s:s, s:s}", "error", err.text, "kind",
                              atoll_error_kind_name(err.kind), "hint", err.hint));
    (void)atoll_image_registry_free(registry);
    atoll_image_login_done(&login);
    atoll_image_done(&image);
    return r < 0;
}
