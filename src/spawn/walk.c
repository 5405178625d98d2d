#include "spawn/walk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "spawn/paths.h"
#include "sys/tree.h"

#define BYTES_MAX ((size_t)64 * 1024 * 1024)

struct atoll_walk_item {
    struct atoll_walk_item *below;
    char path[];
};

int atoll_walk_join(char ret[static ATOLL_WALK_PATH], const char *dir, const char *name)
{
    int n = snprintf(ret, ATOLL_WALK_PATH, "%s%s%s", dir, *dir ? "/" : "", name);

    return n >= ATOLL_WALK_PATH ? -ENAMETOOLONG : 0;
}

int atoll_walk_push(struct atoll_walk *walk, const char *path)
{
    size_t n = strlen(path) + 1;
    struct atoll_walk_item *item = walk->bytes + n > BYTES_MAX ? NULL : malloc(sizeof(*item) + n);

    if (!item)
        return -ENOMEM;
    memcpy(item->path, path, n);
    item->below = walk->top;
    walk->top = item;
    walk->bytes += n;
    return 0;
}

bool atoll_walk_pop(struct atoll_walk *walk, char ret[static ATOLL_WALK_PATH])
{
    struct atoll_walk_item *item = walk->top;

    if (!item)
        return false;
    walk->top = item->below;
    walk->bytes -= strlen(item->path) + 1;
    (void)snprintf(ret, ATOLL_WALK_PATH, "%s", item->path);
    free(item);
    return true;
}

void atoll_walk_done(struct atoll_walk *walk)
{
    char path[ATOLL_WALK_PATH];

    while (atoll_walk_pop(walk, path))
        ;
}

uint64_t atoll_walk_bytes(const struct stat *st)
{
    return ATOLL_MIN((uint64_t)st->st_size, (uint64_t)st->st_blocks * 512);
}

uint64_t atoll_walk_share(const struct stat *st)
{
    return atoll_walk_bytes(st) / ATOLL_MAX((uint64_t)st->st_nlink, UINT64_C(1));
}

int atoll_walk_remove(int dir, const char *name)
{
    struct stat st;
    int r = fstat(dir, &st) < 0 ? -errno : atoll_tree_remove(dir, name);

    return r == 0 && futimens(dir, (struct timespec[]){st.st_atim, st.st_mtim}) < 0 ? -errno : r;
}

static int count_directory(struct atoll_walk *walk, int fd, const char *path, bool keep_sockets,
                           struct atoll_walk_sum *sum)
{
    DIR *dir = fdopendir(fd);
    struct dirent *entry;
    char below[ATOLL_WALK_PATH];
    struct stat st;
    int r = 0;

    if (!dir) {
        r = -errno;
        (void)close(fd);
        return r;
    }
    while (r == 0 && (entry = readdir(dir)) != NULL) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        if (fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            r = -errno;
        if (r == 0 && S_ISSOCK(st.st_mode) && !keep_sockets) {
            r = atoll_walk_remove(dirfd(dir), entry->d_name);
            continue;
        }
        sum->files++;
        if (r == 0 && S_ISREG(st.st_mode))
            sum->bytes += atoll_walk_share(&st);
        if (r == 0 && S_ISDIR(st.st_mode))
            r = atoll_walk_join(below, path, entry->d_name);
        if (r == 0 && S_ISDIR(st.st_mode))
            r = atoll_walk_push(walk, below);
    }
    (void)closedir(dir);
    return r;
}

static int walk_all(int top, bool keep_sockets, struct atoll_walk_sum *ret)
{
    struct atoll_walk walk = {0};
    char path[ATOLL_WALK_PATH];
    int r = atoll_walk_push(&walk, "");

    *ret = (struct atoll_walk_sum){0};
    while (r == 0 && atoll_walk_pop(&walk, path)) {
        int fd = atoll_paths_open(top, *path ? path : ".", O_RDONLY | O_DIRECTORY);

        r = fd < 0 ? fd : count_directory(&walk, fd, path, keep_sockets, ret);
    }
    atoll_walk_done(&walk);
    return r;
}

int atoll_walk_count(int top, struct atoll_walk_sum *ret)
{
    return walk_all(top, true, ret);
}

int atoll_walk_remove_sockets(int top, struct atoll_walk_sum *ret)
{
    return walk_all(top, false, ret);
}
