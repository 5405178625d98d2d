#include "spawn/id_block.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/fd.h"
#include "base/text.h"
#include "spawn/paths.h"

/* All of 2^28 up to 15 * 2^28: below are ids that hosts use, above those that mean nobody. */
#define BLOCK_BITS 27
#define BLOCKS 28
#define RANGE_BITS 16

struct block {
    uint32_t number;
    struct timespec taken; /* last; zero when never */
};

static void block_path(uint32_t block, char path[static 32])
{
    (void)snprintf(path, 32, "/run/atoll/ids-%u", block);
}

static bool is_reserved(int fd, const char *state)
{
    static const char disks[] = "/disks";
    char owner[PATH_MAX + sizeof(disks)];
    ssize_t n = pread(fd, owner, PATH_MAX, 0);

    if (n <= 0)
        return false;
    owner[n] = '\0';
    if (strcmp(owner, state) == 0)
        return false;
    memcpy(owner + n, disks, sizeof(disks));
    return atoll_paths_holds_entries(owner);
}

static void reserve(int fd, const char *state)
{
    if (ftruncate(fd, 0) == 0 && pwrite(fd, state, strlen(state), 0) < 0)
        (void)!ftruncate(fd, 0); /* free for all is what it is without */
}

/* 1: it is ours now; 0: another instance has it, or, unless `any`, may want it again. */
static int try_block(struct atoll_spawn_host *host, uint32_t block, bool any,
                     struct atoll_error *err)
{
    char path[32], state[PATH_MAX];
    int fd;

    block_path(block, path);
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return atoll_fail_errno(err, errno, "open %s", path);
    if (!getcwd(state, sizeof(state)))
        *state = '\0';
    if (flock(fd, LOCK_EX | LOCK_NB) < 0 || (!any && is_reserved(fd, state))) {
        (void)close(fd);
        return 0;
    }
    reserve(fd, state);
    host->id_base = (block + 1) << BLOCK_BITS;
    host->id_slots = 1u << (BLOCK_BITS - RANGE_BITS);
    return 1;
}

static uint32_t remembered_block(const struct atoll_spawn_host *host)
{
    char text[16];
    uint64_t block;

    if (atoll_fd_read_file(host->state_fd, "id-block", text, sizeof(text)) < 0 ||
        atoll_text_u64(text, 1, BLOCKS, &block) < 0)
        return 0;
    return (uint32_t)block;
}

static void remember_block(const struct atoll_spawn_host *host, uint32_t block)
{
    ATOLL_AUTOCLOSE int fd =
        openat(host->state_fd, "id-block", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    if (fd >= 0)
        (void)dprintf(fd, "%u", block);
}

static int by_age(const void *a, const void *b)
{
    const struct timespec *s = &((const struct block *)a)->taken;
    const struct timespec *t = &((const struct block *)b)->taken;

    if (s->tv_sec != t->tv_sec)
        return s->tv_sec < t->tv_sec ? -1 : 1;
    return (s->tv_nsec > t->tv_nsec) - (s->tv_nsec < t->tv_nsec);
}

static void list_blocks(struct block blocks[static BLOCKS])
{
    for (uint32_t i = 0; i < BLOCKS; i++) {
        struct stat st = {0};
        char path[32];

        block_path(i + 1, path);
        (void)stat(path, &st);
        blocks[i] = (struct block){.number = i + 1, .taken = st.st_mtim};
    }
    qsort(blocks, BLOCKS, sizeof(*blocks), by_age);
}

int atoll_id_block_take(struct atoll_spawn_host *host, struct atoll_error *err)
{
    uint32_t last = remembered_block(host);
    struct block blocks[BLOCKS];
    int r;

    if (mkdir("/run/atoll", 0755) < 0 && errno != EEXIST)
        return atoll_fail_errno(err, errno, "make /run/atoll");
    r = last ? try_block(host, last, true, err) : 0;
    list_blocks(blocks);
    for (uint32_t i = 0; r == 0 && i < 2 * BLOCKS; i++) {
        uint32_t number = blocks[i % BLOCKS].number;
        r = try_block(host, number, i >= BLOCKS, err);
        if (r > 0 && !last)
            remember_block(host, number);
    }
    if (r == 0)
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, EAGAIN,
                          "all %d id blocks are taken by other instances", BLOCKS);
    return r < 0 ? r : 0;
}
