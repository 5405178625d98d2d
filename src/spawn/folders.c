#include "spawn/folders.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "base/fd.h"
#include "base/log.h"
#include "base/text.h"
#include "spawn/keeper.h"
#include "sys/mnt.h"

#define LIST_MAX (ATOLL_HOST_FOLDERS_MAX * 260)

int atoll_folders_keep(char *const *arguments, int count, int *ret_list, int *ret_fds,
                       struct atoll_error *err)
{
    ATOLL_AUTOCLOSE int list = memfd_create("folders", MFD_CLOEXEC);
    int r = list < 0 ? -errno : 0;

    /* The rows of the list: access, + or - for a folder that does not exist, path. */
    if (count > ATOLL_HOST_FOLDERS_MAX)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, E2BIG, "too many folders of the host");
    for (int i = 0; r == 0 && i < count; i++) {
        const char *a = arguments[i];
        char row[260];

        if (a[0] < '0' + ATOLL_FOLDER_COW || a[0] > '0' + ATOLL_FOLDER_WRITE || a[1] != ':' ||
            a[2] != '/' || strlen(a) > 257)
            return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "not a folder of the host");
        ret_fds[i] = open(a + 2, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        (void)snprintf(row, sizeof(row), "%c%c%s", a[0], ret_fds[i] < 0 ? '-' : '+', a + 2);
        r = atoll_fd_write_all(list, row, strlen(row) + 1);
    }
    if (r < 0)
        return atoll_fail_errno(err, -r, "list the folders of the host");
    *ret_list = ATOLL_TAKE_FD(list);
    return 0;
}

/* The directories above the state directory, as far as a mount of one of them would show it. */
static int know_state(struct atoll_spawn_folders *folders, int state_fd)
{
    int at = fcntl(state_fd, F_DUPFD_CLOEXEC, 0), up;
    struct stat st;

    while (at >= 0 && fstat(at, &st) == 0) {
        size_t n = folders->state_depth;

        if (n > 0 && folders->state[n - 1].dev == st.st_dev &&
            folders->state[n - 1].ino == st.st_ino) {
            (void)close(at); /* the root */
            return 0;
        }
        if (n == ATOLL_ARRAY_LEN(folders->state)) {
            (void)close(at);
            return -ENAMETOOLONG;
        }
        folders->state[n].dev = st.st_dev;
        folders->state[n].ino = st.st_ino;
        folders->state_depth++;
        up = openat(at, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
        (void)close(at);
        at = up;
    }
    return -errno;
}

/* A descriptor of the mount namespace that is left is of no use: as root a copy of the mount takes its place. */
static void take(struct atoll_spawn_folder *folder, bool exists, int fd, bool root)
{
    struct stat st;

    folder->fd = ATOLL_NO_FD;
    if (!exists || fcntl(fd, F_SETFD, FD_CLOEXEC) < 0 || fstat(fd, &st) < 0) {
        atoll_log(ATOLL_LOG_WARN, "a folder of the host is missing and cannot be mounted", "folder",
                  folder->path, NULL);
        folder->path[0] = '\0';
        return;
    }
    folder->dev = st.st_dev;
    folder->ino = st.st_ino;
    if (root) {
        folder->fd = atoll_mnt_clone(fd, "", false);
        if (folder->fd < 0) {
            atoll_log(ATOLL_LOG_WARN, "a folder of the host cannot be mounted", "folder",
                      folder->path, "error", strerror(-folder->fd), NULL);
            folder->fd = ATOLL_NO_FD;
            folder->path[0] = '\0';
        }
    }
    (void)close(fd);
}

int atoll_folders_open(struct atoll_spawn_folders *folders, int state_fd, bool root,
                       struct atoll_error *err)
{
    char list[LIST_MAX];
    ssize_t n = pread(ATOLL_KEEPER_LIST_FD, list, sizeof(list), 0);
    int r;

    *folders = (struct atoll_spawn_folders){0};
    if (n < 0)
        return atoll_fail_errno(err, errno, "read the list of folders");
    (void)close(ATOLL_KEEPER_LIST_FD);
    for (const char *at = list; at < list + n && folders->count < ATOLL_HOST_FOLDERS_MAX;) {
        struct atoll_spawn_folder *folder = &folders->items[folders->count];

        folder->most = (enum atoll_folder_access)(at[0] - '0');
        r = atoll_text_copy(folder->path, sizeof(folder->path), at + 2);
        if (r < 0)
            return atoll_fail_errno(err, -r, "list of folders");
        take(folder, at[1] == '+', ATOLL_KEEPER_FOLDERS_FD + (int)folders->count, root);
        folders->count++;
        at += strlen(at) + 1;
    }
    r = folders->count > 0 ? know_state(folders, state_fd) : 0;
    return r < 0 ? atoll_fail_errno(err, -r, "the directories above the state directory") : 0;
}

int atoll_folders_show(struct atoll_spawn_folders *folders, int root_fd, struct atoll_error *err)
{
    char name[32];
    int r = 0;

    if (folders->count == 0)
        return 0;
    if (mkdirat(root_fd, "folders", 0700) < 0)
        r = -errno;
    for (size_t i = 0; r == 0 && i < folders->count; i++) {
        struct atoll_spawn_folder *folder = &folders->items[i];

        if (folder->fd < 0)
            continue;
        (void)snprintf(name, sizeof(name), "folders/%zu", i);
        r = mkdirat(root_fd, name, 0700) < 0 ? -errno : atoll_mnt_attach(folder->fd, root_fd, name);
        (void)close(ATOLL_TAKE_FD(folder->fd));
    }
    return r < 0 ? atoll_fail_errno(err, -r, "show the folders of the host") : 0;
}
