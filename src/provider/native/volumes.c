#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "base/fd.h"
#include "base/text.h"
#include "provider/native/native_internal.h"

/*
 * Volumes: directories volumes/TENANT/NAME of the state directory. atoll-spawn makes one when a sandbox
 * mounts it and removes it; the daemon sees the names, but not the files, which belong to the ids of
 * sandboxes.
 */

/* The directory of the tenant's volumes, or NULL with errno. */
static DIR *open_tenant(const struct atoll_native *n, const char *tenant)
{
    char path[4096];
    int fd;
    DIR *dir;

    if ((size_t)snprintf(path, sizeof(path), "%s/volumes/%s", n->state_dir, tenant) >= sizeof(path))
        errno = ENAMETOOLONG;
    fd = atoll_text_is_name(tenant) ? open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
                                    : -1;
    dir = fd < 0 ? NULL : fdopendir(fd);
    if (fd >= 0 && !dir)
        (void)close(fd);
    return dir;
}

void atoll_native_list_volumes(struct atoll_provider *p, const char *tenant,
                               atoll_provider_volume_fn *each, atoll_provider_done_fn *done,
                               void *arg)
{
    DIR *dir = open_tenant(atoll_native_of(p), tenant);
    struct atoll_provider_volume volume;
    struct dirent *entry;
    struct statx st;

    while (dir && (entry = readdir(dir)) != NULL) {
        if (!atoll_text_is_name(entry->d_name))
            continue;
        volume = (struct atoll_provider_volume){0};
        (void)snprintf(volume.name, sizeof(volume.name), "%.64s", entry->d_name);
        if (statx(dirfd(dir), entry->d_name, AT_SYMLINK_NOFOLLOW, STATX_BTIME, &st) == 0 &&
            st.stx_mask & STATX_BTIME)
            volume.created_unix_ms =
                st.stx_btime.tv_sec * INT64_C(1000) + st.stx_btime.tv_nsec / 1000000;
        each(arg, &volume);
    }
    if (dir)
        (void)closedir(dir);
    done(arg, NULL);
}

int atoll_native_check_volumes(const struct atoll_native *n, const struct atoll_spec *spec,
                               struct atoll_error *err)
{
    DIR *dir = spec->mount_count ? open_tenant(n, spec->tenant) : NULL;
    size_t most = strcmp(spec->tenant, n->free_tenant) == 0 ? ATOLL_NATIVE_VOLUMES : n->volumes;
    size_t count = 0, missing = 0;
    struct dirent *entry;
    struct stat st;

    while (dir && (entry = readdir(dir)) != NULL)
        count += atoll_text_is_name(entry->d_name);
    for (size_t i = 0; i < spec->mount_count; i++)
        missing +=
            !dir || fstatat(dirfd(dir), spec->mounts[i].volume, &st, AT_SYMLINK_NOFOLLOW) < 0;
    if (dir)
        (void)closedir(dir);
    if (missing == 0 || count + missing <= most)
        return 0;
    if (most == 0)
        return atoll_fail(err, ATOLL_ERR_PERMISSION_DENIED, EPERM,
                          "the operator has not permitted volumes: set \"native: {volumes: N}\" in "
                          "providers.yaml");
    return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, EAGAIN,
                      "tenant %s has %zu volumes, the most it may have is %zu; remove some "
                      "(`atoll volume rm`)",
                      spec->tenant, count, most);
}
