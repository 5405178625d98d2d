/*
 * Single file operations, each done with the file system identity of the request's user.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include "agent/agent_internal.h"

#define DIR_MODE 0755
#define MODE_BITS 07777

uint8_t atoll_agent_entry_type(mode_t mode)
{
    if (S_ISREG(mode))
        return ATOLL_ENTRY_FILE;
    if (S_ISDIR(mode))
        return ATOLL_ENTRY_DIRECTORY;
    return S_ISLNK(mode) ? ATOLL_ENTRY_SYMLINK : ATOLL_ENTRY_OTHER;
}

int atoll_agent_entry_read(struct atoll_agent *a, int dir_fd, const char *name, const char *path,
                           struct atoll_agent_entry *ret_entry)
{
    struct atoll_agent_entry *e = ret_entry;
    struct stat st;

    if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH) < 0)
        return -errno;
    e->msg = (struct atoll_am_entry){
        .path = path,
        .type = atoll_agent_entry_type(st.st_mode),
        .mode = st.st_mode & MODE_BITS,
        .uid = st.st_uid,
        .gid = st.st_gid,
        .owner = atoll_agent_user_name(a, st.st_uid, e->owner),
        .group = atoll_agent_group_name(a, st.st_gid, e->group),
        .size_bytes = (uint64_t)st.st_size,
        .mtime_ms = (int64_t)st.st_mtim.tv_sec * 1000 + st.st_mtim.tv_nsec / 1000000,
        .target = "",
    };
    if (S_ISLNK(st.st_mode)) {
        ssize_t n = readlinkat(dir_fd, name, e->target, sizeof(e->target) - 1);
        if (n < 0)
            return -errno;
        e->target[n] = '\0';
        e->msg.target = e->target;
    }
    return 0;
}

/* Replies with the entry at `path`, opened with flags (O_NOFOLLOW or 0). */
static int reply_entry(struct atoll_agent *a, uint32_t request, const char *path, int flags,
                       const char *attributes, struct atoll_error *err)
{
    struct atoll_agent_entry entry;
    ATOLL_AUTOCLOSE int fd = atoll_agent_path_open(AT_FDCWD, path, O_PATH | flags);
    int r = fd < 0 ? fd : atoll_agent_entry_read(a, fd, "", path, &entry);

    if (r < 0)
        return atoll_agent_path_fail(err, -r, path);
    if (*attributes)
        atoll_agent_entry_add_details(&entry, fd, "", attributes);
    atoll_agent_reply(a, request, &atoll_am_entry_desc, &entry.msg);
    return ATOLL_AGENT_ANSWERED;
}

int atoll_agent_on_file_stat(struct atoll_agent *a, uint32_t request, const void *message,
                             struct atoll_error *err)
{
    const struct atoll_am_path *msg = message;
    ATOLL_AGENT_AUTO_PATH struct atoll_agent_path p;
    int r = atoll_agent_path_init(&p, a, msg->user, msg->path, err);

    return r < 0 ? r
                 : reply_entry(a, request, p.text, msg->follow ? 0 : O_NOFOLLOW, msg->attributes,
                               err);
}

/* Gives the entry that was just created under this name to the user. */
static int give_name(const struct atoll_agent_user *user, int dir_fd, const char *name,
                     const char *path, struct atoll_error *err)
{
    if (user->as_root && fchownat(dir_fd, name, user->uid, user->gid, AT_SYMLINK_NOFOLLOW) < 0)
        return atoll_agent_path_fail(err, errno, path);
    return 0;
}

int atoll_agent_on_file_mkdir(struct atoll_agent *a, uint32_t request, const void *message,
                              struct atoll_error *err)
{
    const struct atoll_am_mkdir *msg = message;
    ATOLL_AGENT_AUTO_PATH struct atoll_agent_path p;
    ATOLL_AUTOCLOSE int dir_fd = ATOLL_NO_FD;
    uint32_t mode = msg->mode ? msg->mode & MODE_BITS : DIR_MODE;
    const char *name;
    int r = atoll_agent_path_init(&p, a, msg->user, msg->path, err);

    if (r < 0)
        return r;
    if (msg->parents) {
        r = atoll_agent_path_make_dirs(&p.user, p.text, mode, err);
    } else {
        dir_fd = atoll_agent_path_open_parent(p.text, &name, err);
        r = dir_fd < 0 ? dir_fd : 0;
        if (r == 0 && mkdirat(dir_fd, name, mode) < 0)
            r = atoll_agent_path_fail(err, errno, p.text);
        else if (r == 0)
            r = give_name(&p.user, dir_fd, name, p.text, err);
    }
    return r < 0 ? r : reply_entry(a, request, p.text, 0, "", err);
}

int atoll_agent_on_workdir(struct atoll_agent *a, uint32_t request ATOLL_UNUSED,
                           const void *message, struct atoll_error *err)
{
    const struct atoll_am_mkdir *msg = message;
    ATOLL_AGENT_AUTO_PATH struct atoll_agent_path p;
    int r = atoll_agent_path_init(&p, a, msg->user, msg->path, err);

    if (r < 0)
        return r;
    /* Also where it cannot be made: then commands fail, and say why. */
    memcpy(a->workdir, p.text, sizeof(a->workdir));
    a->config.workdir = a->workdir;
    return atoll_agent_path_make_dirs(&p.user, p.text, DIR_MODE, err);
}

int atoll_agent_on_file_rename(struct atoll_agent *a, uint32_t request, const void *message,
                               struct atoll_error *err)
{
    const struct atoll_am_two_paths *msg = message;
    ATOLL_AGENT_AUTO_PATH struct atoll_agent_path from;
    ATOLL_AUTOCLOSE int from_fd = ATOLL_NO_FD, to_fd = ATOLL_NO_FD;
    const char *from_name, *to_name;
    char to[ATOLL_AGENT_PATH_MAX];
    int r = atoll_agent_path_init(&from, a, msg->user, msg->from, err);

    if (r == 0)
        r = atoll_agent_path_absolute(&from.user, msg->to, to, err);
    if (r < 0)
        return r;
    from_fd = atoll_agent_path_open_parent(from.text, &from_name, err);
    if (from_fd < 0)
        return from_fd;
    to_fd = atoll_agent_path_open_parent(to, &to_name, err);
    if (to_fd < 0)
        return to_fd;
    if (renameat(from_fd, from_name, to_fd, to_name) < 0) {
        int errnum = errno;
        bool about_to = errnum == EXDEV || errnum == ENOTEMPTY || errnum == EEXIST ||
                        errnum == EISDIR || atoll_errno_is_full(errnum);
        return atoll_agent_path_fail(err, errnum, about_to ? to : from.text);
    }
    return reply_entry(a, request, to, O_NOFOLLOW, "", err);
}

int atoll_agent_on_file_chmod(struct atoll_agent *a, uint32_t request, const void *message,
                              struct atoll_error *err)
{
    const struct atoll_am_chmod *msg = message;
    ATOLL_AGENT_AUTO_PATH struct atoll_agent_path p;
    ATOLL_AUTOCLOSE int fd = ATOLL_NO_FD;
    char link[32];
    int r = atoll_agent_path_init(&p, a, msg->user, msg->path, err);

    (void)request;
    if (r < 0)
        return r;
    fd = atoll_agent_path_open(AT_FDCWD, p.text, O_PATH);
    if (fd < 0)
        return atoll_agent_path_fail(err, -fd, p.text);
    /* fchmod needs a readable file and fchmodat2 Linux 6.6; a path below /proc works everywhere. */
    if (chmod(atoll_agent_path_of_fd(fd, link), msg->mode & MODE_BITS) < 0)
        return atoll_agent_path_fail(err, errno, p.text);
    return 0;
}

int atoll_agent_on_file_chown(struct atoll_agent *a, uint32_t request, const void *message,
                              struct atoll_error *err)
{
    const struct atoll_am_chown *msg = message;
    ATOLL_AGENT_AUTO_PATH struct atoll_agent_path p;
    ATOLL_AUTOCLOSE int fd = ATOLL_NO_FD;
    uint32_t uid, gid;
    int r = atoll_agent_path_init(&p, a, msg->user, msg->path, err);

    (void)request;
    if (r == 0)
        r = atoll_agent_owner_find(a, msg->owner, msg->group, &uid, &gid, err);
    if (r < 0)
        return r;
    fd = atoll_agent_path_open(AT_FDCWD, p.text, O_PATH);
    if (fd < 0)
        return atoll_agent_path_fail(err, -fd, p.text);
    if (fchownat(fd, "", uid, gid, AT_EMPTY_PATH) < 0)
        return errno == EINVAL ? atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                                            "owner or group is not mapped into this sandbox")
                               : atoll_agent_path_fail(err, errno, p.text);
    return 0;
}

int atoll_agent_on_file_symlink(struct atoll_agent *a, uint32_t request, const void *message,
                                struct atoll_error *err)
{
    const struct atoll_am_two_paths *msg = message;
    ATOLL_AGENT_AUTO_PATH struct atoll_agent_path p;
    ATOLL_AUTOCLOSE int dir_fd = ATOLL_NO_FD;
    const char *name;
    int r = atoll_agent_path_init(&p, a, msg->user, msg->to, err);

    (void)request;
    if (r < 0)
        return r;
    dir_fd = atoll_agent_path_open_parent(p.text, &name, err);
    if (dir_fd < 0)
        return dir_fd;
    if (symlinkat(msg->from, dir_fd, name) < 0)
        return atoll_agent_path_fail(err, errno, p.text);
    return give_name(&p.user, dir_fd, name, p.text, err);
}
