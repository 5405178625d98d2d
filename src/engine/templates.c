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
#include "base/text.h"
#include "engine/engine_internal.h"

/*
 * Templates: `host`, and imported root filesystems. A template is a small file
 * state/templates/<name>.json that names a layer; several may share one.
 */

#define RECORD_MAX_BYTES 4096

static struct atoll_template *add(struct atoll_engine *engine, const char *name)
{
    struct atoll_template *t = atoll_map_get(&engine->templates, name);

    if (t)
        return t;
    t = calloc(1, sizeof(*t));
    if (!t || atoll_text_copy(t->name, sizeof(t->name), name) < 0 ||
        atoll_map_put(&engine->templates, t->name, t) < 0) {
        free(t);
        return NULL;
    }
    return t;
}

/* A record that does not parse is reported and left alone: it may be from a newer version. */
static void load_one(struct atoll_engine *engine, int dir, const char *file)
{
    char text[RECORD_MAX_BYTES], name[65];
    size_t len = strlen(file);
    json_int_t base, size, created;
    struct atoll_template *t;
    const char *digest;
    json_t *root;

    if (len <= 5 || len - 5 >= sizeof(name) || strcmp(file + len - 5, ".json") != 0)
        return;
    memcpy(name, file, len - 5);
    name[len - 5] = '\0';
    if (!atoll_text_is_name(name) || atoll_fd_read_file(dir, file, text, sizeof(text)) < 0)
        return;
    root = json_loads(text, 0, NULL);
    if (json_unpack(root, "{s:s, s:I, s:I, s:I}", "digest", &digest, "layer_base", &base,
                    "size_bytes", &size, "created_unix_ms", &created) < 0 ||
        !atoll_text_is_name(digest) || (t = add(engine, name)) == NULL) {
        atoll_log(ATOLL_LOG_WARN, "template record is not understood", "file", file, NULL);
    } else {
        (void)!atoll_text_copy(t->digest, sizeof(t->digest), digest);
        t->kind = ATOLL_TEMPLATE_ROOTFS;
        t->layer_base = (uint32_t)base;
        t->size_bytes = (uint64_t)size;
        t->created_unix_ms = created;
    }
    json_decref(root);
}

int atoll_templates_load(struct atoll_engine *engine, struct atoll_error *err)
{
    struct atoll_template *host = add(engine, "host");
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
    while ((entry = readdir(dir)) != NULL)
        load_one(engine, dirfd(dir), entry->d_name);
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

/* Written whole under another name, then put in place. */
int atoll_template_save(struct atoll_engine *engine, const struct atoll_template *t,
                        struct atoll_error *err)
{
    char path[96], temporary[104], text[RECORD_MAX_BYTES];
    ATOLL_AUTOCLOSE int fd = ATOLL_NO_FD;
    int r;

    (void)snprintf(path, sizeof(path), "templates/%s.json", t->name);
    (void)snprintf(temporary, sizeof(temporary), "%s.new", path);
    (void)snprintf(
        text, sizeof(text),
        "{\"digest\":\"%s\",\"layer_base\":%u,\"size_bytes\":%llu,\"created_unix_ms\":%lld}\n",
        t->digest, t->layer_base, (unsigned long long)t->size_bytes, (long long)t->created_unix_ms);
    fd = openat(engine->state_fd, temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    r = fd < 0 ? -errno : atoll_fd_write_all(fd, text, strlen(text));
    if (r == 0 &&
        (fsync(fd) < 0 || renameat(engine->state_fd, temporary, engine->state_fd, path) < 0))
        r = -errno;
    return r < 0 ? atoll_fail_errno(err, -r, "save template %s", t->name) : 0;
}

static struct atoll_template_view view_of(const struct atoll_template *t)
{
    return (struct atoll_template_view){t->name, t->kind, t->digest, t->size_bytes,
                                        t->created_unix_ms};
}

bool atoll_templates_next(struct atoll_engine *engine, size_t *pos, struct atoll_template_view *ret)
{
    struct atoll_template *t = atoll_map_next(&engine->templates, pos);

    if (t)
        *ret = view_of(t);
    return t != NULL;
}

struct atoll_template *atoll_template_put(struct atoll_engine *engine, const char *name,
                                          const char *digest, uint64_t size_bytes,
                                          uint32_t layer_base)
{
    struct atoll_template *t = add(engine, name);

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
        if (s->template_ref == t)
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

void atoll_templates_remove(struct atoll_engine *engine, const char *name, atoll_done_fn *done,
                            void *arg)
{
    struct atoll_template *t = atoll_map_get(&engine->templates, name);
    struct atoll_error err;
    char path[96], digest[72];

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
    (void)snprintf(path, sizeof(path), "templates/%s.json", t->name);
    (void)unlinkat(engine->state_fd, path, 0);
    memcpy(digest, t->digest, sizeof(digest));
    (void)atoll_map_remove(&engine->templates, t->name);
    free(t);
    if (layer_shared(engine, digest))
        done(arg, NULL);
    else
        engine->home->provider->ops->drop_layer(engine->home->provider, digest, done, arg);
}
