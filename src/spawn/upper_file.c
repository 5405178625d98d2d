#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/fs.h>
#include <linux/posix_acl.h>
#include <linux/posix_acl_xattr.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>
#include "base/fd.h"
#include "spawn/upper.h"

/*
 * One file: its content, and the attributes of files and directories.
 */

#define CHUNK ((size_t)256 * 1024)
#define NAMES_MAX 65536
#define VALUE_MAX 65536
#define OVERLAY_USER "user.overlay."
#define OVERLAY_TRUSTED "trusted.overlay."
#define NOBODY 65534u

uint32_t atoll_upper_owner(const struct atoll_upper_options *o, uint32_t id)
{
    uint32_t inside = id - o->from_base;

    if (o->from_base == o->to_base)
        return id;
    /* overlayfs makes whiteouts with the ids of the host. */
    return o->to_base + (inside < ATOLL_UPPER_IDS ? inside : NOBODY);
}

/* For file systems that cannot copy inside the kernel. */
static int copy_by_hand(int from, int to, off_t at, off_t end)
{
    static char chunk[CHUNK]; /* one thread, in a process of its own */

    while (at < end) {
        ssize_t n = pread(from, chunk, ATOLL_MIN(sizeof(chunk), (size_t)(end - at)), at);
        ssize_t done = 0;

        if (n <= 0)
            return n < 0 ? -errno : 0; /* it has become shorter */
        while (done < n) {
            ssize_t w = pwrite(to, chunk + done, (size_t)(n - done), at + done);
            if (w < 0 && errno != EINTR)
                return -errno;
            done += ATOLL_MAX(w, 0);
        }
        at += n;
    }
    return 0;
}

static int copy_range(int from, int to, off_t at, off_t end)
{
    static bool by_hand; /* one file system to another, for all files of the process */

    while (at < end && !by_hand) {
        loff_t in = at, out = at;
        ssize_t n = copy_file_range(from, &in, to, &out, (size_t)(end - at), 0);

        if (n < 0 && errno == EINTR)
            continue;
        by_hand = n < 0 && (errno == EXDEV || errno == ENOSYS || errno == EOPNOTSUPP);
        if (by_hand || (n < 0 && errno == EINVAL))
            break;
        if (n <= 0)
            return n < 0 ? -errno : 0;
        at += n;
    }
    return at < end ? copy_by_hand(from, to, at, end) : 0;
}

/* The data without the holes. The file may become shorter meanwhile, and the copy with it. */
static int copy_data(int from, int to, off_t end)
{
    off_t at = 0, copied = 0;

    while (at < end) {
        off_t data = lseek(from, at, SEEK_DATA), hole;
        int r;

        if (data < 0 && errno == ENXIO)
            break; /* the rest is a hole */
        if (data < 0)
            data = at;
        hole = lseek(from, data, SEEK_HOLE);
        hole = hole < 0 || hole > end ? end : hole;
        r = data < hole ? copy_range(from, to, data, hole) : 0;
        if (r < 0)
            return r;
        at = copied = hole;
    }
    return copied < end && ftruncate(to, end) < 0 ? -errno : 0;
}

int atoll_upper_content(int from, int to, const struct stat *st)
{
    static bool clones = true; /* as above */
    off_t end = st->st_size;

    if (end == 0 || (clones && ioctl(to, FICLONE, from) == 0))
        return 0;
    clones = clones && errno != EXDEV && errno != EOPNOTSUPP && errno != ENOTTY;
    /* Most files of most trees. ftruncate() alone would take an eighth of the whole time. */
    if ((size_t)end <= CHUNK && st->st_blocks * 512 >= end)
        return copy_range(from, to, 0, end);
    return copy_data(from, to, end);
}

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* Ids in the value, which are those of the host here. */
static void move_ids(const struct atoll_upper_options *o, const char *name, uint8_t *value,
                     size_t n)
{
    struct posix_acl_xattr_entry entry;
    struct vfs_ns_cap_data cap;

    if (strcmp(name, "security.capability") == 0 && n == sizeof(cap)) {
        memcpy(&cap, value, sizeof(cap));
        cap.rootid = atoll_upper_owner(o, cap.rootid);
        memcpy(value, &cap, sizeof(cap));
    }
    if (!begins(name, "system.posix_acl_"))
        return;
    for (size_t at = sizeof(struct posix_acl_xattr_header); at + sizeof(entry) <= n;
         at += sizeof(entry)) {
        memcpy(&entry, value + at, sizeof(entry));
        if (entry.e_tag == ACL_USER || entry.e_tag == ACL_GROUP)
            entry.e_id = atoll_upper_owner(o, entry.e_id);
        memcpy(value + at, &entry, sizeof(entry));
    }
}

/* The name in the layer; NULL: not part of it. A tenant can set user.overlay.* attributes where they mean
 * nothing, but in a layer they would. */
static const char *name_in_layer(const struct atoll_upper_options *o, const char *name)
{
    if (begins(name, OVERLAY_TRUSTED) || begins(name, OVERLAY_USER)) {
        const char *prefix = o->userxattr ? OVERLAY_USER : OVERLAY_TRUSTED;

        if (begins(name, prefix) && strcmp(name + strlen(prefix), "opaque") == 0)
            return OVERLAY_USER "opaque";
        /* Such attributes of a tenant, which overlayfs has renamed. */
        return o->userxattr && begins(name, OVERLAY_USER "overlay.") ? name : NULL;
    }
    return begins(name, "user.") || begins(name, "system.posix_acl_") ||
                   strcmp(name, "security.capability") == 0
               ? name
               : NULL;
}

/* A directory that was moved without its content, or a file without its data. */
static bool refers_elsewhere(const struct atoll_upper_options *o, const char *name)
{
    return !o->userxattr && (strcmp(name, OVERLAY_TRUSTED "redirect") == 0 ||
                             strcmp(name, OVERLAY_TRUSTED "metacopy") == 0);
}

static int copy_xattr(const struct atoll_upper_options *o, int from, int to, const char *name)
{
    static uint8_t value[VALUE_MAX];
    const char *as = name_in_layer(o, name);
    ssize_t n;

    if (refers_elsewhere(o, name))
        return -EOPNOTSUPP;
    n = as ? fgetxattr(from, name, value, sizeof(value)) : -1;
    if (n < 0)
        return as && errno != ENODATA ? -errno : 0;
    move_ids(o, name, value, (size_t)n);
    return fsetxattr(to, as, value, (size_t)n, 0) < 0 ? -errno : 0;
}

static int copy_xattrs(const struct atoll_upper_options *o, int from, int to)
{
    static char names[NAMES_MAX];
    ssize_t n = flistxattr(from, names, sizeof(names));
    int r = 0;

    if (n < 0)
        return errno == EOPNOTSUPP ? 0 : -errno;
    for (const char *name = names; r == 0 && name < names + n; name += strlen(name) + 1)
        r = copy_xattr(o, from, to, name);
    return r;
}

int atoll_upper_clear(int to)
{
    static char names[NAMES_MAX];
    ssize_t n = flistxattr(to, names, sizeof(names));

    for (const char *name = names; n > 0 && name < names + n; name += strlen(name) + 1)
        if (fremovexattr(to, name) < 0 && errno != ENODATA)
            return -errno;
    return n < 0 && errno != EOPNOTSUPP ? -errno : 0;
}

int atoll_upper_attributes(const struct atoll_upper_options *o, int from, int to,
                           const struct stat *st)
{
    const struct timespec times[] = {st->st_atim, st->st_mtim};
    int r;

    if (fchown(to, atoll_upper_owner(o, st->st_uid), atoll_upper_owner(o, st->st_gid)) < 0)
        return -errno;
    r = copy_xattrs(o, from, to);
    if (r < 0)
        return r;
    /* The owner's change removes set-id bits and capabilities, so they come after it. */
    return fchmod(to, st->st_mode & 07777) < 0 || futimens(to, times) < 0 ? -errno : 0;
}
