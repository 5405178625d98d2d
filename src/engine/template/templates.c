#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/switches.h"
#include "base/text.h"
#include "engine/engine_internal.h"
#include "engine/json_memory.h"
#include "sandbox/stack.h"

/*
 * Templates: `host`, imported root file systems, and images that a provider keeps. A template is a
 * small file state/templates/<name>.json that names an image, or a layer that templates may share.
 * Templates of one tenant are in <tenant>@<name>.json.
 */

#define RECORD_MAX_BYTES 4096

static void key_of(const char *owner, const char *name, char key[131])
{
    (void)snprintf(key, 131, "%s%s%s", owner, *owner ? "@" : "", name);
}

static struct atoll_template *get(struct atoll_engine *engine, const char *owner, const char *name)
{
    char key[131];

    key_of(owner, name, key);
    return atoll_map_get(&engine->templates, key);
}

static struct atoll_template *add(struct atoll_engine *engine, const char *owner, const char *name)
{
    struct atoll_template *t = get(engine, owner, name);

    if (t)
        return t;
    t = calloc(1, sizeof(*t));
    if (!t || atoll_text_copy(t->name, sizeof(t->name), name) < 0 ||
        atoll_text_copy(t->owner, sizeof(t->owner), owner) < 0) {
        free(t);
        return NULL;
    }
    key_of(owner, name, t->key);
    if (atoll_map_put(&engine->templates, t->key, t) < 0) {
        free(t);
        return NULL;
    }
    return t;
}

struct atoll_template *atoll_template_find(struct atoll_engine *engine, const char *tenant,
                                           const char *name)
{
    struct atoll_template *own = get(engine, tenant, name);
    return own ? own : get(engine, "", name);
}

/* "NAME.json" or "OWNER@NAME.json". */
static bool split_file(const char *file, char owner[65], char name[65])
{
    const char *at = strchr(file, '@');
    const char *rest = at ? at + 1 : file;
    size_t len = strlen(rest), n = at ? (size_t)(at - file) : 0;

    if (len <= 5 || len - 5 > 64 || n > 64 || strcmp(rest + len - 5, ".json") != 0)
        return false;
    memcpy(owner, file, n);
    owner[n] = '\0';
    memcpy(name, rest, len - 5);
    name[len - 5] = '\0';
    return atoll_text_is_name(name) && (!at || atoll_text_is_name(owner));
}

static bool read_record(json_t *root, struct atoll_template *ret)
{
    json_int_t base = 0, size, created;
    const char *digest, *provider = "", *image = "";

    if (json_unpack(root, "{s:s, s?I, s:I, s:I, s?s, s?s}", "digest", &digest, "layer_base", &base,
                    "size_bytes", &size, "created_unix_ms", &created, "provider", &provider,
                    "image", &image) < 0 ||
        (!*image && !atoll_text_is_name(digest)) ||
        atoll_text_copy(ret->digest, sizeof(ret->digest), digest) < 0 ||
        atoll_text_copy(ret->provider, sizeof(ret->provider), provider) < 0 ||
        atoll_text_copy(ret->image, sizeof(ret->image), image) < 0)
        return false;
    ret->kind = *image ? ATOLL_TEMPLATE_IMAGE : ATOLL_TEMPLATE_ROOTFS;
    ret->layer_base = (uint32_t)base;
    ret->size_bytes = (uint64_t)size;
    ret->created_unix_ms = created;
    return true;
}

/* A malformed record is logged and left alone: it may be from a newer version. */
static void load_one(struct atoll_engine *engine, int dir, const char *file)
{
    char text[RECORD_MAX_BYTES], owner[65], name[65];
    struct atoll_template read = {0};
    struct atoll_template *t;
    json_t *root;

    if (!split_file(file, owner, name) || atoll_fd_read_file(dir, file, text, sizeof(text)) < 0)
        return;
    root = atoll_json_load_own(text);
    if (!read_record(root, &read) || (t = add(engine, owner, name)) == NULL) {
        atoll_log(ATOLL_LOG_WARN, "template record is malformed", "file", file, NULL);
    } else {
        memcpy(read.name, t->name, sizeof(read.name));
        memcpy(read.owner, t->owner, sizeof(read.owner));
        memcpy(read.key, t->key, sizeof(read.key));
        *t = read;
    }
    json_decref(root);
}

int atoll_templates_load(struct atoll_engine *engine, struct atoll_error *err)
{
    struct atoll_template *host = add(engine, "", "host");
    struct dirent *entry;
    DIR *dir;
    int fd;

    if (!host)
        return atoll_fail_errno(err, ENOMEM, "templates");
    host->kind = ATOLL_TEMPLATE_HOST;
    host->created_unix_ms = atoll_clock_unix_ms();
    if (mkdirat(engine->state_fd, "templates", 0700) < 0 && errno != EEXIST)
        return atoll_fail_errno(err, errno, "make templates");
    fd = openat(engine->state_fd, "templates", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir)
        return atoll_fail_errno(err, errno, "open templates");
    while ((entry = readdir(dir)) != NULL) {
        const char *end = strrchr(entry->d_name, '.');
        if (end && strcmp(end, ".new") == 0) /* a daemon died while it wrote this file */
            (void)unlinkat(dirfd(dir), entry->d_name, 0);
        else
            load_one(engine, dirfd(dir), entry->d_name);
    }
    (void)closedir(dir);
    return 0;
}

void atoll_templates_done(struct atoll_engine *engine)
{
    size_t pos = 0;
    struct atoll_template *t;

    while ((t = atoll_map_next(&engine->templates, &pos)) != NULL)
        free(t);
    atoll_map_done(&engine->templates);
}

/* Writes a temporary file and renames it, so that the record is complete or absent. */
int atoll_template_save(struct atoll_engine *engine, const struct atoll_template *t,
                        struct atoll_error *err)
{
    char path[160], temporary[168], text[RECORD_MAX_BYTES];
    ATOLL_AUTOCLOSE int fd = ATOLL_NO_FD;
    int r;

    (void)snprintf(path, sizeof(path), "templates/%s.json", t->key);
    (void)snprintf(temporary, sizeof(temporary), "%s.new", path);
    (void)snprintf(text, sizeof(text),
                   "{\"digest\":\"%s\",\"layer_base\":%u,\"size_bytes\":%llu,"
                   "\"created_unix_ms\":%lld%s%s%s%s%s}\n",
                   t->digest, t->layer_base, (unsigned long long)t->size_bytes,
                   (long long)t->created_unix_ms, *t->image ? ",\"provider\":\"" : "", t->provider,
                   *t->image ? "\",\"image\":\"" : "", t->image, *t->image ? "\"" : "");
    r = atoll_fault("templates.save");
    if (r != 0)
        return atoll_fail_errno(err, r, "save template %s", t->name);
    fd = openat(engine->state_fd, temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    r = fd < 0 ? -errno : atoll_fd_write_all(fd, text, strlen(text));
    if (r == 0)
        r = -atoll_fault("templates.rename");
    if (r == 0 &&
        (fsync(fd) < 0 || renameat(engine->state_fd, temporary, engine->state_fd, path) < 0))
        r = -errno;
    if (r < 0)
        (void)unlinkat(engine->state_fd, temporary, 0);
    return r < 0 ? atoll_fail_errno(err, -r, "save template %s", t->name) : 0;
}

struct atoll_template_view atoll_template_get(const struct atoll_template *t)
{
    return (struct atoll_template_view){.name = t->name,
                                        .kind = t->kind,
                                        .digest = t->digest,
                                        .size_bytes = t->size_bytes,
                                        .created_unix_ms = t->created_unix_ms,
                                        .owner = t->owner,
                                        .provider = t->provider};
}

bool atoll_templates_find(struct atoll_engine *engine, const char *tenant, const char *name,
                          struct atoll_template_view *ret)
{
    const struct atoll_template *t = atoll_template_find(engine, tenant, name);

    if (t)
        *ret = atoll_template_get(t);
    return t != NULL;
}

bool atoll_templates_next(struct atoll_engine *engine, size_t *pos, struct atoll_template_view *ret)
{
    struct atoll_template *t = atoll_map_next(&engine->templates, pos);

    if (t)
        *ret = atoll_template_get(t);
    return t != NULL;
}

struct atoll_template *atoll_template_put(struct atoll_engine *engine, const char *name,
                                          const char *digest, uint64_t size_bytes,
                                          uint32_t layer_base)
{
    struct atoll_template *t = add(engine, "", name);

    if (!t || atoll_text_copy(t->digest, sizeof(t->digest), digest) < 0)
        return NULL;
    t->kind = ATOLL_TEMPLATE_ROOTFS;
    t->layer_base = layer_base;
    t->size_bytes = size_bytes;
    t->created_unix_ms = atoll_clock_unix_ms();
    return t;
}

bool atoll_template_in_use(struct atoll_engine *engine, const struct atoll_template *t)
{
    size_t pos = 0;
    struct atoll_sandbox *s;

    while ((s = atoll_map_next(&engine->sandboxes, &pos)) != NULL)
        if (s->template_ref == t && !s->pool_class)
            return true;
    return false;
}

static bool layer_shared(struct atoll_engine *engine, const char *digest)
{
    size_t pos = 0;
    struct atoll_template *t;

    while ((t = atoll_map_next(&engine->templates, &pos)) != NULL)
        if (strcmp(t->digest, digest) == 0)
            return true;
    return false;
}

/* Whether a sandbox, which may be stopped, or a template uses the layer. */
static bool layer_used(struct atoll_engine *engine, const char *digest)
{
    const struct atoll_sandbox *s;
    size_t pos = 0;

    while ((s = atoll_map_next(&engine->sandboxes, &pos)) != NULL)
        if ((strcmp(s->spec.layer, digest) == 0 || atoll_stack_has(s->spec.layers, digest)) &&
            !s->pool_class)
            return true;
    return layer_shared(engine, digest);
}

void atoll_layer_release(struct atoll_engine *engine, const char *digest)
{
    if (!layer_used(engine, digest))
        engine->builder->provider->ops->drop_layer(engine->builder->provider, digest,
                                                   atoll_done_ignore, NULL);
}

void atoll_template_undo(struct atoll_engine *engine, struct atoll_template *t,
                         const struct atoll_template *was)
{
    char digest[sizeof(t->digest)];

    memcpy(digest, t->digest, sizeof(digest));
    if (*was->name) {
        *t = *was;
    } else {
        (void)atoll_map_remove(&engine->templates, t->key);
        free(t);
    }
    atoll_layer_release(engine, digest);
}

void atoll_templates_sweep(struct atoll_engine *engine)
{
    int fd = openat(engine->state_fd, "layers", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *entry;

    if (fd >= 0 && !dir)
        (void)close(fd);
    while (dir && (entry = readdir(dir)) != NULL)
        if (entry->d_name[0] != '.' && !layer_used(engine, entry->d_name))
            engine->builder->provider->ops->drop_layer(engine->builder->provider, entry->d_name,
                                                       atoll_done_ignore, NULL);
    if (dir)
        (void)closedir(dir);
}

/* Succeeds if the provider is not configured any more. */
static void drop_image(struct atoll_engine *engine, const char *provider, const char *image,
                       atoll_done_fn *done, void *arg)
{
    struct atoll_provider_entry *provider_entry = atoll_provider_entry_by_name(engine, provider);

    if (provider_entry && provider_entry->provider->ops->drop_image)
        provider_entry->provider->ops->drop_image(provider_entry->provider, image, done, arg);
    else
        done(arg, NULL);
}

int atoll_template_keep_image(struct atoll_engine *engine, const char *owner, const char *name,
                              const struct atoll_provider_entry *provider_entry, const char *image,
                              const struct atoll_provider_image *made, struct atoll_template **ret,
                              struct atoll_error *err)
{
    const struct atoll_template *old = get(engine, owner, name);
    struct atoll_template was = old ? *old : (struct atoll_template){0};
    const char *provider = provider_entry->provider->ops->name;
    struct atoll_template *t = add(engine, owner, name);
    int r;

    if (!t)
        return atoll_fail_errno(err, ENOMEM, "template");
    t->kind = ATOLL_TEMPLATE_IMAGE;
    t->size_bytes = made->size_bytes;
    t->created_unix_ms = atoll_clock_unix_ms();
    (void)snprintf(t->digest, sizeof(t->digest), "%s", made->digest);
    (void)snprintf(t->image, sizeof(t->image), "%s", image);
    (void)snprintf(t->provider, sizeof(t->provider), "%s", provider);
    r = atoll_template_save(engine, t, err);
    if (r == 0) {
        if (*was.image)
            drop_image(engine, was.provider, was.image, atoll_done_ignore, NULL);
        *ret = t;
        return 0;
    }
    if (*was.name) {
        *t = was;
    } else {
        (void)atoll_map_remove(&engine->templates, t->key);
        free(t);
    }
    drop_image(engine, provider, image, atoll_done_ignore, NULL);
    return r;
}

size_t atoll_templates_count(struct atoll_engine *engine, const char *owner)
{
    const struct atoll_template *t;
    size_t pos = 0, n = 0;

    while ((t = atoll_map_next(&engine->templates, &pos)) != NULL)
        n += strcmp(t->owner, owner) == 0;
    return n;
}

int atoll_template_check(struct atoll_engine *engine, const char *owner, const char *name,
                         enum atoll_template_kind kind, struct atoll_error *err)
{
    struct atoll_template *old = get(engine, owner, name);
    struct atoll_template *shared = get(engine, "", name);

    if (!atoll_text_is_name(name))
        return atoll_fail(
            err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
            "a template's name is 1 to 64 letters, digits, dots, dashes or underscores");
    if (shared && shared->kind == ATOLL_TEMPLATE_HOST)
        return atoll_fail(err, ATOLL_ERR_ALREADY_EXISTS, EEXIST, "the template %s is built in",
                          name);
    if (!old && shared)
        return atoll_fail(err, ATOLL_ERR_ALREADY_EXISTS, EEXIST,
                          "%s is the name of a shared template: choose another", name);
    if (old && old->kind != kind)
        return atoll_fail(err, ATOLL_ERR_ALREADY_EXISTS, EEXIST,
                          "template %s exists and is of another kind: remove it first", name);
    if (old && atoll_template_in_use(engine, old))
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EBUSY,
                          "template %s is in use: destroy its sandboxes or choose another name",
                          name);
    return 0;
}

void atoll_templates_remove(struct atoll_engine *engine, const char *owner, const char *name,
                            atoll_done_fn *done, void *arg)
{
    struct atoll_template *t = get(engine, owner ? owner : "", name);
    struct atoll_error err;
    char path[160], digest[72], provider[65], image[64];

    if (!t) {
        (void)atoll_fail(&err, ATOLL_ERR_NOT_FOUND, ENOENT, "there is no template %.64s", name);
        done(arg, &err);
        return;
    }
    if (t->kind == ATOLL_TEMPLATE_HOST || atoll_template_in_use(engine, t)) {
        (void)atoll_fail(&err, ATOLL_ERR_FAILED_PRECONDITION, EBUSY,
                         t->kind == ATOLL_TEMPLATE_HOST
                             ? "the template %s is built in and cannot be removed"
                             : "template %s is in use: destroy its sandboxes first",
                         t->name);
        done(arg, &err);
        return;
    }
    (void)snprintf(path, sizeof(path), "templates/%s.json", t->key);
    atoll_fault_die("templates.remove");
    if (unlinkat(engine->state_fd, path, 0) < 0 && errno != ENOENT) {
        (void)atoll_fail_errno(&err, errno, "remove the record of template %s", t->name);
        done(arg, &err);
        return;
    }
    atoll_pool_leave_template(engine, t);
    memcpy(digest, t->digest, sizeof(digest));
    memcpy(provider, t->provider, sizeof(provider));
    memcpy(image, t->image, sizeof(image));
    (void)atoll_map_remove(&engine->templates, t->key);
    free(t);
    if (*image)
        drop_image(engine, provider, image, done, arg);
    else if (layer_shared(engine, digest))
        done(arg, NULL);
    else
        engine->builder->provider->ops->drop_layer(engine->builder->provider, digest, done, arg);
}
