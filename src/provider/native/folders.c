#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include "base/text.h"
#include "provider/native/native_internal.h"

/*
 * Folders of the host: who may mount which. atoll-spawn has the same list without the tenants, and opens the folders.
 */

static int refuse(struct atoll_error *err, const char *path, const char *why)
{
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "--host-folders: %.200s %s", path,
                      why);
}

/* Requests name folders without links. A folder that is missing stays as it is written: a request for it is refused. */
static int resolve(const struct atoll_native *n, struct atoll_host_folder *folder,
                   struct atoll_error *err)
{
    char real[PATH_MAX], state[PATH_MAX];

    if (realpath(folder->path, real) &&
        atoll_text_copy(folder->path, sizeof(folder->path), real) < 0)
        return refuse(err, folder->path, "leads to a path that is too long");
    if (atoll_folder_is_kernel(folder->path))
        return refuse(err, folder->path, "leads to /, /proc, /sys or /dev");
    if (realpath(n->state_dir, state) && atoll_text_is_below(folder->path, state))
        return refuse(err, folder->path, "is in the state directory");
    return 0;
}

int atoll_native_read_folders(struct atoll_native *n, const char *text, struct atoll_error *err)
{
    int r = atoll_host_folders_parse(text ? text : "", &n->folders, err);

    for (size_t i = 0; r == 0 && i < n->folders.count; i++)
        r = resolve(n, &n->folders.items[i], err);
    return r;
}

int atoll_native_check_folders(const struct atoll_native *n, const struct atoll_spec *spec,
                               struct atoll_error *err)
{
    bool is_operator = *n->operator&& strcmp(spec->tenant, n->operator) == 0;
    int r = 0;

    for (size_t i = 0; r == 0 && i < spec->mount_count; i++)
        if (*spec->mounts[i].source)
            r = atoll_host_folders_permit(&n->folders, spec->mounts[i].source,
                                          atoll_folder_access_of(&spec->mounts[i]), spec->tenant,
                                          is_operator, err);
    return r;
}
