#include "api/kit/volumes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "base/text.h"

/* Finding. */

struct finding {
    struct atoll_volume_found volume;
    char name[sizeof(((struct atoll_mount *)0)->volume)];
    atoll_volume_found_fn *done;
    void *arg;
};

static void look_at(void *arg, const struct atoll_volume_view *v)
{
    struct finding *f = arg;

    if (strcmp(v->name, f->name) == 0)
        f->volume = (struct atoll_volume_found){true, v->created_unix_ms};
}

static void looked(void *arg, const struct atoll_error *error)
{
    struct finding *f = arg;

    f->done(f->arg, &f->volume, error);
    free(f);
}

void atoll_volume_find(struct atoll_engine *engine, const char *tenant, const char *name,
                       atoll_volume_found_fn *done, void *arg)
{
    struct finding *f = calloc(1, sizeof(*f));

    if (!f)
        abort(); /* small objects: the daemon is crash-only */
    f->done = done;
    f->arg = arg;
    if (atoll_text_copy(f->name, sizeof(f->name), name) < 0)
        f->name[0] = '\0'; /* no volume has such a name */
    atoll_volumes_list(engine, tenant, NULL, look_at, looked, f);
}

/* Mounts. */

bool atoll_mount_is_named(const char *volume, const char *path)
{
    const struct atoll_mount *m = NULL;

    return volume && path && *path == '/' && atoll_text_is_name(volume) &&
           strlen(volume) < sizeof(m->volume) && strlen(path) < sizeof(m->path);
}

int atoll_mounts_add(struct atoll_body *body, struct atoll_options *options, const char *volume,
                     const char *path, bool read_only, struct atoll_error *err)
{
    struct atoll_mount *mounts = (struct atoll_mount *)(uintptr_t)options->mounts;
    size_t n = options->mount_count;
    struct atoll_mount *m;

    if (n == ATOLL_MOUNTS_MAX)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, E2BIG,
                          "a sandbox has at most %d volumes", ATOLL_MOUNTS_MAX);
    if (!mounts) {
        mounts = calloc(ATOLL_MOUNTS_MAX, sizeof(*mounts));
        if (!mounts)
            return atoll_fields_no_memory(err);
        atoll_body_take(body, mounts);
        options->mounts = mounts;
    }
    m = &mounts[n];
    m->read_only = read_only;
    if (atoll_text_copy(m->volume, sizeof(m->volume), volume) < 0 ||
        atoll_text_copy(m->path, sizeof(m->path), path) < 0)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, ENAMETOOLONG,
                          "volumes: a name has at most 64 bytes, a path at most %zu",
                          sizeof(m->path) - 1);
    options->mount_count = n + 1;
    return atoll_mount_check(m, mounts, n, err);
}
