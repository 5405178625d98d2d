#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "base/fd.h"
#include "base/text.h"
#include "provider/disk_image.h"
#include "provider/native/native_internal.h"

/*
 * Volumes: directories volumes/TENANT/NAME of the state directory, or ext4 images, which have a limit. atoll-spawn makes one when a sandbox
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

static void describe(const struct statx *st, struct atoll_provider_volume *ret)
{
    if (st->stx_mask & STATX_BTIME)
        ret->created_unix_ms =
            st->stx_btime.tv_sec * INT64_C(1000) + st->stx_btime.tv_nsec / 1000000;
    if (!S_ISREG(st->stx_mode))
        return;
    /* The journal was added to the size that was asked for. */
    ret->size_bytes = st->stx_size - ATOLL_MIN(st->stx_size, ATOLL_DISK_IMAGE_JOURNAL_BYTES);
    ret->used_bytes = ATOLL_MIN(st->stx_blocks * 512, ret->size_bytes);
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
        if (statx(dirfd(dir), entry->d_name, AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS | STATX_BTIME,
                  &st) == 0)
            describe(&st, &volume);
        each(arg, &volume);
    }
    if (dir)
        (void)closedir(dir);
    done(arg, NULL);
}

/* Sets the limit of those that the sandbox makes. */
static int choose_limit(const struct atoll_native *n, struct atoll_spec *spec, bool is_free,
                        struct atoll_error *err)
{
    if (!is_free && n->volume_bytes && spec->volume_bytes > n->volume_bytes)
        return atoll_fail(
            err, ATOLL_ERR_RESOURCE_EXHAUSTED, EAGAIN,
            "a volume may have %llu MiB: the operator sets \"native: {volume_mb: N}\" "
            "in providers.yaml",
            (unsigned long long)(n->volume_bytes >> 20));
    if (!is_free && !spec->volume_bytes)
        spec->volume_bytes = n->volume_bytes;
    if (spec->volume_bytes && (!n->spawn.volume_images || !n->images))
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EOPNOTSUPP,
                          "this host cannot limit the size of volumes (root, loop devices and "
                          "mkfs.ext4 are needed); \"native: {volume_mb: 0}\" in providers.yaml "
                          "gives up the limit");
    return 0;
}

static int too_many(const char *tenant, size_t count, size_t most, struct atoll_error *err)
{
    if (most == 0)
        return atoll_fail(err, ATOLL_ERR_PERMISSION_DENIED, EPERM,
                          "the operator has not permitted volumes: set \"native: {volumes: N}\" in "
                          "providers.yaml");
    return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, EAGAIN,
                      "tenant %s has %zu volumes, the most it may have is %zu; remove some "
                      "(`atoll volume rm`)",
                      tenant, count, most);
}

static size_t most_of(const struct atoll_native *n, const char *tenant)
{
    return strcmp(tenant, n->free_tenant) == 0 ? ATOLL_NATIVE_VOLUMES : n->volumes;
}

static size_t count_in(DIR *dir)
{
    struct dirent *entry;
    size_t count = 0;

    while (dir && (entry = readdir(dir)) != NULL)
        count += atoll_text_is_name(entry->d_name);
    return count;
}

int atoll_native_check_copy(const struct atoll_native *n, const char *tenant, const char *from,
                            const char *to, struct atoll_error *err)
{
    DIR *dir = open_tenant(n, tenant);
    size_t count = count_in(dir);
    struct stat st = {0}, other;
    bool has = dir && fstatat(dirfd(dir), from, &st, AT_SYMLINK_NOFOLLOW) == 0;
    bool is_taken = dir && fstatat(dirfd(dir), to, &other, AT_SYMLINK_NOFOLLOW) == 0;

    if (dir)
        (void)closedir(dir);
    if (!has)
        return atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT, "there is no volume %s", from);
    if (is_taken)
        return atoll_fail(err, ATOLL_ERR_ALREADY_EXISTS, EEXIST, "volume %s exists", to);
    if (!S_ISREG(st.st_mode))
        return atoll_fail(
            err, ATOLL_ERR_FAILED_PRECONDITION, EOPNOTSUPP,
            "volume %s has no size of its own, so it cannot be copied as it is at one "
            "moment; volumes made with \"sizeMB\" (--size) can",
            from);
    return count < most_of(n, tenant) ? 0 : too_many(tenant, count, most_of(n, tenant), err);
}

int atoll_native_check_volumes(const struct atoll_native *n, struct atoll_spec *spec,
                               bool *ret_makes, struct atoll_error *err)
{
    DIR *dir = spec->mount_count ? open_tenant(n, spec->tenant) : NULL;
    bool is_free = strcmp(spec->tenant, n->free_tenant) == 0;
    size_t most = most_of(n, spec->tenant), count = count_in(dir), missing = 0;
    struct stat st;

    for (size_t i = 0; i < spec->mount_count; i++)
        missing += *spec->mounts[i].volume && (!dir || fstatat(dirfd(dir), spec->mounts[i].volume,
                                                               &st, AT_SYMLINK_NOFOLLOW) < 0);
    if (dir)
        (void)closedir(dir);
    *ret_makes = missing > 0;
    if (missing == 0)
        return 0;
    if (count + missing <= most)
        return choose_limit(n, spec, is_free, err);
    return too_many(spec->tenant, count, most, err);
}
