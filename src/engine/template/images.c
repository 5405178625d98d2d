/*
 * What pulls, exports and archives of images share: the registry client, the blobs on disk, and the
 * versions that images become.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "base/memory.h"
#include "base/text.h"
#include "engine/json_memory.h"
#include "engine/template/images_internal.h"
#include "engine/template/version_sbom.h"

#define QUEUE_MAX 1024
#define IMAGE_BYTES (UINT64_C(32) << 30)
#define BLOB_DAYS 1 /* how long blobs of pulls that did not finish are kept, in days */
#define LIST_MAX 32
#define NAME_MAX_BYTES (ATOLL_IMAGE_HOST_MAX + ATOLL_IMAGE_PATH_MAX)

void atoll_images_cancel(int cancel_fd)
{
    const uint64_t one = 1;

    if (cancel_fd >= 0)
        (void)!write(cancel_fd, &one, sizeof(one));
}

int atoll_images_open_blobs(const struct atoll_images *images, const char *tenant)
{
    int fd;

    if (!atoll_text_is_name(tenant))
        return -EINVAL;
    if (mkdirat(images->blobs_fd, tenant, 0700) < 0 && errno != EEXIST)
        return -errno;
    fd = openat(images->blobs_fd, tenant, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

void atoll_images_drop_blob(int blobs_fd, const char *digest)
{
    char name[ATOLL_IMAGE_DIGEST_MAX];

    (void)unlinkat(blobs_fd, atoll_image_blob_name(digest, name), 0);
}

/* Versions. */

/* HOST/PATH: the name of the template. */
static void name_of(const struct atoll_image_reference *ref, char out[NAME_MAX_BYTES])
{
    (void)snprintf(out, NAME_MAX_BYTES, "%s/%s", ref->host, ref->path);
}

int atoll_images_store(struct atoll_images *images, const struct atoll_images_version *version,
                       struct atoll_buf *layers, struct atoll_template_view *ret,
                       struct atoll_error *err)
{
    char name[NAME_MAX_BYTES], reference[ATOLL_IMAGE_REFERENCE_MAX];
    char *config = atoll_json_dump(version->config, JSON_COMPACT | JSON_SORT_KEYS);
    const struct atoll_version_new made = {
        .owner = version->tenant,
        .name = version->name ? version->name : name,
        .is_image_name = !version->name,
        .tags = version->name ? NULL : version->ref->tag,
        .digest = version->digest + strlen("sha256:"),
        .layers = atoll_buf_str(layers),
        .config_json = config,
        .source = "image",
        .definition = version->name ? NULL : atoll_image_reference_text(version->ref, reference),
    };
    int r;

    if (!config)
        return atoll_fail_errno(err, ENOMEM, "image");
    name_of(version->ref, name);
    r = atoll_version_add(images->engine, &made, ret, err);
    free(config);
    if (r == 0)
        atoll_version_sbom_soon(images->engine, ret->id);
    return r;
}

int atoll_image_template(const char *image, char out[static ATOLL_IMAGE_NAME_MAX],
                         struct atoll_error *err)
{
    struct atoll_image_reference ref;
    int r = atoll_image_reference_parse(image, &ref, err);

    if (r == 0)
        (void)snprintf(out, ATOLL_IMAGE_NAME_MAX, "%s/%s%s%s", ref.host, ref.path,
                       *ref.digest ? "@" : ":", *ref.digest ? ref.digest : ref.tag);
    return r;
}

int atoll_image_find(struct atoll_engine *engine, const char *tenant, const char *image,
                     struct atoll_template_view *ret, struct atoll_error *err)
{
    char name[ATOLL_IMAGE_NAME_MAX];
    int r = atoll_image_template(image, name, err);

    if (r < 0)
        return r;
    return atoll_template_resolve(engine, tenant ? tenant : ATOLL_OPERATOR_TENANT, name, ret, err);
}

/* Whether a stack has the layer. */
static bool contains(const char *layers, const char *layer)
{
    size_t n = strlen(layer);

    for (const char *at = layers; (at = strstr(at, layer)) != NULL; at += n)
        if ((at == layers || at[-1] == ' ') && (at[n] == ' ' || at[n] == '\0'))
            return true;
    return false;
}

struct search {
    const char *layer;
    bool found;
};

static void look(void *arg, const struct atoll_template_view *version, const char *tags)
{
    struct search *s = arg;

    (void)tags;
    s->found = s->found || contains(version->layers, s->layer);
}

bool atoll_images_has_layer(const struct atoll_images *images, const char *tenant,
                            const char *layer)
{
    struct search search = {.layer = layer, .found = strcmp(tenant, ATOLL_OPERATOR_TENANT) == 0};
    struct atoll_template_view view;
    size_t pos = 0;

    while (!search.found && atoll_templates_next(images->engine, &pos, &view))
        if (*view.layers && atoll_template_may_use(&view, tenant))
            atoll_template_each_version(images->engine, view.owner, view.name, look, &search);
    return search.found;
}

/* Life. */

/* Removes blobs of pulls that ended long ago, and the directories of tenants without blobs. */
static void sweep(int fd, bool is_top)
{
    int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = copy < 0 ? NULL : fdopendir(copy);
    const time_t oldest = time(NULL) - BLOB_DAYS * 24 * 60 * 60;
    struct dirent *entry;
    struct stat st;

    if (copy >= 0 && !dir)
        (void)close(copy);
    while (dir && (entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] == '.' || fstatat(fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        if (is_top && S_ISDIR(st.st_mode)) {
            ATOLL_AUTOCLOSE int tenant =
                openat(fd, entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
            if (tenant >= 0)
                sweep(tenant, false);
            (void)unlinkat(fd, entry->d_name, AT_REMOVEDIR);
        } else if (st.st_mtime < oldest) {
            (void)unlinkat(fd, entry->d_name, 0);
        }
    }
    if (dir)
        (void)closedir(dir);
}

static int open_blobs(struct atoll_images *images, struct atoll_error *err)
{
    if (mkdirat(images->engine->state_fd, "blobs", 0700) < 0 && errno != EEXIST)
        return atoll_fail_errno(err, errno, "make blobs");
    images->blobs_fd =
        openat(images->engine->state_fd, "blobs", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (images->blobs_fd < 0)
        return atoll_fail_errno(err, errno, "open blobs");
    sweep(images->blobs_fd, true);
    return 0;
}

/* Splits a list, in place; returns how many there are, -E2BIG. */
static int split(char *list, const char *ret[static LIST_MAX])
{
    int n = 0;

    for (char *word; list && (word = strsep(&list, ", \t")) != NULL;) {
        if (!*word)
            continue;
        if (n == LIST_MAX)
            return -E2BIG;
        ret[n++] = word;
    }
    return n;
}

static int open_registry(struct atoll_images *images, const struct atoll_images_config *config,
                         struct atoll_error *err)
{
    ATOLL_AUTOFREE char *mirror_list = config->mirrors ? strdup(config->mirrors) : NULL;
    ATOLL_AUTOFREE char *host_list = config->insecure ? strdup(config->insecure) : NULL;
    const char *texts[LIST_MAX], *insecure[LIST_MAX];
    struct atoll_image_mirror mirrors[LIST_MAX];
    int m = split(mirror_list, texts), n = split(host_list, insecure);
    const struct atoll_image_registry_config registry = {.mirrors = mirrors,
                                                         .mirror_count = (size_t)m,
                                                         .insecure = insecure,
                                                         .insecure_count = (size_t)n};

    if (m < 0 || n < 0)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, E2BIG,
                          "more than %d mirrors or insecure hosts of images", LIST_MAX);
    for (int i = 0; i < m; i++) {
        char *equals = strchr(texts[i], '=');

        if (!equals || equals == texts[i])
            return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                              "a mirror of images is HOST=URL, such as "
                              "docker.io=https://mirror.example (got \"%.200s\")",
                              texts[i]);
        *equals = '\0';
        mirrors[i] = (struct atoll_image_mirror){.host = texts[i], .url = equals + 1};
    }
    return atoll_image_registry_new(&registry, &images->registry, err);
}

int atoll_images_new(struct atoll_engine *engine, const struct atoll_images_config *config,
                     struct atoll_images **ret, struct atoll_error *err)
{
    struct atoll_images *images = atoll_alloc(sizeof(*images));
    int r;

    images->engine = engine;
    images->blobs_fd = ATOLL_NO_FD;
    images->max_bytes = config->max_bytes ? config->max_bytes : IMAGE_BYTES;
    atoll_map_init(&images->pulls);
    atoll_list_init(&images->all);
    atoll_list_init(&images->archives);
    atoll_list_init(&images->exports);
    atoll_list_init(&images->loads);
    atoll_list_init(&images->sboms);
    if (config->logins && !(images->logins = strdup(config->logins)))
        abort();
    r = open_blobs(images, err);
    if (r == 0)
        r = open_registry(images, config, err);
    if (r == 0)
        r = atoll_workers_new(engine->loop, ATOLL_PULL_THREADS, QUEUE_MAX, &images->workers, err);
    if (r < 0) {
        (void)atoll_images_free(images);
        return r;
    }
    *ret = images;
    return 0;
}

void atoll_images_stop(struct atoll_images *images)
{
    if (!images || images->stopping)
        return;
    images->stopping = true;
    atoll_pulls_cancel(images);
    atoll_image_archives_cancel(images);
    atoll_exports_cancel(images);
    atoll_loads_cancel(images);
    atoll_version_sboms_cancel(images);
    images->workers = atoll_workers_free(images->workers);
}

struct atoll_images *atoll_images_free(struct atoll_images *images)
{
    if (!images)
        return NULL;
    atoll_images_stop(images);
    atoll_pulls_done(images);
    atoll_image_archives_done(images);
    atoll_exports_done(images);
    atoll_loads_done(images);
    atoll_version_sboms_done(images);
    atoll_map_done(&images->pulls);
    images->registry = atoll_image_registry_free(images->registry);
    if (images->blobs_fd >= 0)
        (void)close(images->blobs_fd);
    free(images->logins);
    free(images);
    return NULL;
}
