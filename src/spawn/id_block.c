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
#include "base/switches.h"
#include "base/text.h"
#include "spawn/paths.h"

/* Blocks 1 to 28 cover the ids from 2^27 to 29 * 2^27: hosts use lower ids themselves, and ids near
 * 2^32 are special. */
#define RANGE_BITS 16
#define FIRST_FILE "id-block" /* in the state directory: the block taken at start */
#define MORE_FILE "id-blocks" /* the other blocks, each followed by a space */

struct block {
    uint32_t number;
    struct timespec taken; /* last time; zero: never */
};

struct atoll_id_blocks {
    const struct atoll_spawn_host *host; /* borrowed */
    /* In the host's mount namespace, which has the lock files and other state directories. */
    int run_fd, root_fd;
    char state[PATH_MAX]; /* path of the state directory, as in the lock files */
    struct {
        uint32_t number;
        int fd; /* holds the lock */
    } held[ATOLL_ID_BLOCKS];
    size_t count;
    uint32_t lost; /* bit n: block n was ours, and another instance has it now */
};

/* Tests can lower the maximum, so that they need neither thousands of sandboxes nor the blocks of
 * other instances. */
static size_t most_blocks(void)
{
    return atoll_weakened("id_ranges") ? 2 : ATOLL_ID_BLOCKS;
}

uint32_t atoll_id_block_ranges(void)
{
    return atoll_weakened("id_ranges") ? 4 : 1u << (ATOLL_ID_BLOCK_BITS - RANGE_BITS);
}

static void block_name(uint32_t block, char name[static 16])
{
    (void)snprintf(name, 16, "ids-%u", block);
}

static bool is_reserved(const struct atoll_id_blocks *blocks, int fd)
{
    static const char disks[] = "/disks";
    char owner[PATH_MAX + sizeof(disks)];
    ssize_t n = pread(fd, owner, PATH_MAX, 0);

    if (n <= 0)
        return false;
    owner[n] = '\0';
    if (strcmp(owner, blocks->state) == 0)
        return false;
    memcpy(owner + n, disks, sizeof(disks));
    return atoll_paths_holds_entries(blocks->root_fd, owner + strspn(owner, "/"));
}

static void reserve(int fd, const char *state)
{
    if (ftruncate(fd, 0) == 0 && pwrite(fd, state, strlen(state), 0) < 0)
        (void)!ftruncate(fd, 0); /* without an owner any instance may take it */
}

/* 1: taken. 0: another instance holds it or, unless `any`, has disks in it. */
static int try_block(struct atoll_id_blocks *blocks, uint32_t block, bool any,
                     struct atoll_error *err)
{
    char name[16];
    int fd;

    block_name(block, name);
    fd = openat(blocks->run_fd, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return atoll_fail_errno(err, errno, "open /run/atoll/%s", name);
    if (flock(fd, LOCK_EX | LOCK_NB) < 0 || (!any && is_reserved(blocks, fd))) {
        (void)close(fd);
        return 0;
    }
    reserve(fd, blocks->state);
    blocks->held[blocks->count].number = block;
    blocks->held[blocks->count++].fd = fd;
    return 1;
}

static uint32_t remembered_first(const struct atoll_id_blocks *blocks)
{
    char text[16];
    uint64_t block;

    if (atoll_fd_read_file(blocks->host->state_fd, FIRST_FILE, text, sizeof(text)) < 0 ||
        atoll_text_u64(text, 1, ATOLL_ID_BLOCKS, &block) < 0)
        return 0;
    return (uint32_t)block;
}

static void remember_first(const struct atoll_id_blocks *blocks, uint32_t block)
{
    ATOLL_AUTOCLOSE int fd =
        openat(blocks->host->state_fd, FIRST_FILE, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    if (fd >= 0)
        (void)dprintf(fd, "%u", block);
}

static int remember_more(const struct atoll_id_blocks *blocks, struct atoll_error *err)
{
    ATOLL_AUTOCLOSE int fd = ATOLL_NO_FD;
    char text[ATOLL_ID_BLOCKS * 4 + 1] = "";
    size_t at = 0;
    int r;

    for (size_t i = 1; i < blocks->count; i++)
        at += (size_t)snprintf(text + at, sizeof(text) - at, "%u ", blocks->held[i].number);
    for (uint32_t n = 1; n <= ATOLL_ID_BLOCKS; n++)
        if (blocks->lost & 1u << n)
            at += (size_t)snprintf(text + at, sizeof(text) - at, "%u ", n);
    if (at == 0)
        return unlinkat(blocks->host->state_fd, MORE_FILE, 0) < 0 && errno != ENOENT
                   ? atoll_fail_errno(err, errno, "remove " MORE_FILE)
                   : 0;
    fd = openat(blocks->host->state_fd, MORE_FILE, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    r = fd < 0 ? -errno : atoll_fd_write_all(fd, text, at);
    return r < 0 ? atoll_fail_errno(err, -r, "write " MORE_FILE) : 0;
}

/* Takes the blocks of the previous run, also those without disks: leftover processes of that run
 * may still use their ids. The daemon gives back the ones it does not need. */
static int take_remembered(struct atoll_id_blocks *blocks, struct atoll_error *err)
{
    char text[ATOLL_ID_BLOCKS * 4 + 1], *rest = text, *word;
    bool has_disks = atoll_paths_holds_entries(blocks->host->state_fd, "disks");
    int r = 0;

    if (atoll_fd_read_file(blocks->host->state_fd, MORE_FILE, text, sizeof(text)) < 0)
        return 0;
    while (r >= 0 && (word = strsep(&rest, " \n")) != NULL) {
        uint64_t number;

        if (atoll_text_u64(word, 1, ATOLL_ID_BLOCKS, &number) < 0 ||
            number == blocks->held[0].number)
            continue;
        r = try_block(blocks, (uint32_t)number, true, err);
        if (r == 0 && has_disks)
            blocks->lost |= 1u << number;
    }
    return r < 0 ? r : remember_more(blocks, err);
}

static int by_age(const void *a, const void *b)
{
    const struct timespec *s = &((const struct block *)a)->taken;
    const struct timespec *t = &((const struct block *)b)->taken;

    if (s->tv_sec != t->tv_sec)
        return s->tv_sec < t->tv_sec ? -1 : 1;
    return (s->tv_nsec > t->tv_nsec) - (s->tv_nsec < t->tv_nsec);
}

static void list_by_age(const struct atoll_id_blocks *blocks,
                        struct block list[static ATOLL_ID_BLOCKS])
{
    for (uint32_t i = 0; i < ATOLL_ID_BLOCKS; i++) {
        struct stat st = {0};
        char name[16];

        block_name(i + 1, name);
        (void)fstatat(blocks->run_fd, name, &st, AT_SYMLINK_NOFOLLOW);
        list[i] = (struct block){.number = i + 1, .taken = st.st_mtim};
    }
    qsort(list, ATOLL_ID_BLOCKS, sizeof(*list), by_age);
}

/* 1 if it took a block. `any`: a block reserved for another instance's disks is acceptable, too. */
static int take_oldest(struct atoll_id_blocks *blocks, bool any, struct atoll_error *err)
{
    struct block list[ATOLL_ID_BLOCKS];
    int r = 0;

    list_by_age(blocks, list);
    for (size_t i = 0; r == 0 && i < (any ? 2 : 1) * ATOLL_ID_BLOCKS; i++)
        r = try_block(blocks, list[i % ATOLL_ID_BLOCKS].number, i >= ATOLL_ID_BLOCKS, err);
    return r;
}

static int take_first(struct atoll_id_blocks *blocks, struct atoll_error *err)
{
    uint32_t last = remembered_first(blocks);
    int r = last ? try_block(blocks, last, true, err) : 0;

    if (r == 0)
        r = take_oldest(blocks, true, err);
    if (r == 0)
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, EAGAIN,
                          "all %d id blocks are taken by other instances", ATOLL_ID_BLOCKS);
    if (r > 0 && !last)
        remember_first(blocks, blocks->held[0].number);
    return r < 0 ? r : 0;
}

int atoll_id_blocks_open(const struct atoll_spawn_host *host, struct atoll_id_blocks **ret,
                         struct atoll_error *err)
{
    struct atoll_id_blocks *blocks;
    int r;

    if (mkdir("/run/atoll", 0755) < 0 && errno != EEXIST)
        return atoll_fail_errno(err, errno, "make /run/atoll");
    blocks = calloc(1, sizeof(*blocks));
    if (!blocks)
        return atoll_fail_errno(err, ENOMEM, "id blocks");
    blocks->host = host;
    blocks->run_fd = open("/run/atoll", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    blocks->root_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (blocks->run_fd < 0 || blocks->root_fd < 0)
        r = atoll_fail_errno(err, errno, "open /run/atoll");
    else if (!getcwd(blocks->state, sizeof(blocks->state)))
        r = atoll_fail_errno(err, errno, "name the state directory");
    else
        r = take_first(blocks, err);
    if (r == 0)
        r = take_remembered(blocks, err);
    if (r < 0) {
        free(blocks); /* the process exits, which releases descriptors and locks */
        return r;
    }
    *ret = blocks;
    return 0;
}

int atoll_id_blocks_take(struct atoll_id_blocks *blocks, uint32_t *ret_base,
                         struct atoll_error *err)
{
    int r = blocks->count < most_blocks() ? take_oldest(blocks, false, err) : 0;

    if (r < 0)
        return r;
    if (r == 0)
        return atoll_fail(
            err, ATOLL_ERR_RESOURCE_EXHAUSTED, EAGAIN,
            "this daemon has %zu of the host's %d blocks of %u id ranges and all are in use; other "
            "instances of Atoll on this host have the rest: destroy sandboxes, or stop another "
            "instance",
            blocks->count, ATOLL_ID_BLOCKS, atoll_id_block_ranges());
    r = remember_more(blocks, err);
    *ret_base = blocks->held[blocks->count - 1].number << ATOLL_ID_BLOCK_BITS;
    if (r < 0) { /* after a restart its disks would have no ids */
        struct atoll_error ignored;
        (void)!atoll_id_blocks_give(blocks, *ret_base, &ignored);
    }
    return r;
}

int atoll_id_blocks_give(struct atoll_id_blocks *blocks, uint32_t base, struct atoll_error *err)
{
    for (size_t i = 1; i < blocks->count; i++) {
        int fd = blocks->held[i].fd;

        if (blocks->held[i].number << ATOLL_ID_BLOCK_BITS != base)
            continue;
        (void)!ftruncate(fd, 0);
        /* Explicit, because a process being started may hold a copy of the descriptor. */
        (void)flock(fd, LOCK_UN);
        (void)close(fd);
        blocks->held[i] = blocks->held[--blocks->count];
        return remember_more(blocks, err);
    }
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                      "not an id block that can be returned");
}

size_t atoll_id_blocks_list(const struct atoll_id_blocks *blocks,
                            uint32_t bases[static ATOLL_ID_BLOCKS])
{
    for (size_t i = 0; i < blocks->count; i++)
        bases[i] = blocks->held[i].number << ATOLL_ID_BLOCK_BITS;
    return blocks->count;
}
