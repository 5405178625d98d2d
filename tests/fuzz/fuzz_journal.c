/*
 * Journals of commands as a dead daemon left them on disk: any bytes at all. What is taken up can be
 * read from any place, each byte once and in order, and more can be added to it. The first
 * byte gives the size of the reader's buffer, the second where it begins.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include "base/fd.h"
#include "engine/exec/journal.h"
#include "fuzz.h"
#include "sys/tree.h"

#define NAME "journal"
#define MAX_BYTES 4096

static char scratch[64];
static int scratch_fd = ATOLL_NO_FD;

static void leave(void)
{
    (void)!atoll_tree_remove(AT_FDCWD, scratch);
}

static void enter(void)
{
    (void)snprintf(scratch, sizeof(scratch), "%s/atoll-fuzz-XXXXXX",
                   access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    FUZZ_CHECK(mkdtemp(scratch));
    (void)atexit(leave);
    scratch_fd = open(scratch, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    FUZZ_CHECK(scratch_fd >= 0);
}

static void write_file(const uint8_t *data, size_t size)
{
    ATOLL_AUTOCLOSE int fd =
        openat(scratch_fd, NAME, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    FUZZ_CHECK(fd >= 0 && atoll_fd_write_all(fd, data, size) == 0);
}

/* How many bytes of each stream there are from a place on: each after the other, none twice. */
static void read_all(struct atoll_journal *j, uint64_t from, size_t cap, uint64_t ret_seen[3])
{
    struct atoll_journal_cursor cursor = {.want = {0, from, from}};
    uint64_t next[3] = {0, from, from};
    uint8_t buf[512];
    uint64_t offset, len;
    size_t pieces = 0;
    int stream, r;

    while ((r = atoll_journal_read(j, &cursor, buf, cap, &stream, &offset, &len)) > 0) {
        FUZZ_CHECK(stream == 1 || stream == 2);
        FUZZ_CHECK(r == 2 || (r == 1 && len <= cap));
        FUZZ_CHECK(len > 0 && offset == next[stream]);
        next[stream] = offset + len;
        FUZZ_CHECK(next[stream] <= j->seen[stream]);
        FUZZ_CHECK(++pieces <= 2 * j->size + 1); /* it comes to an end */
    }
    FUZZ_CHECK(r == 0);
    memcpy(ret_seen, next, sizeof(next));
}

static void go_on(struct atoll_journal *j, size_t cap)
{
    static const uint8_t more[] = "more";
    uint64_t seen[3];

    for (int stream = 1; stream <= 2; stream++) {
        FUZZ_CHECK(atoll_journal_append(j, stream, j->seen[stream], more, sizeof(more), true) == 0);
        FUZZ_CHECK(atoll_journal_append(j, stream, j->seen[stream] + 1, more, 1, true) == -EBADMSG);
    }
    read_all(j, 0, cap, seen);
    FUZZ_CHECK(seen[1] == j->seen[1] && seen[2] == j->seen[2]);
    FUZZ_CHECK(atoll_journal_forget(j) == 0 && j->size == j->head);
    read_all(j, 0, cap, seen);
    FUZZ_CHECK(seen[1] == j->kept[1] && seen[2] == j->kept[2]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct atoll_journal j;
    uint64_t seen[3];
    size_t cap;

    if (size < 2)
        return 0;
    if (scratch_fd < 0)
        enter();
    cap = (size_t)data[0] + 1;
    write_file(data + 2, size - 2);
    atoll_journal_init(&j, scratch_fd, NAME, MAX_BYTES);
    FUZZ_CHECK(atoll_journal_reopen(&j, data[1] & 1) == 0 && j.size <= size - 2);
    FUZZ_CHECK(j.head <= j.size && (!(data[1] & 1) || j.head == j.size));
    for (int stream = 1; stream <= 2; stream++)
        FUZZ_CHECK(j.kept[stream] <= j.seen[stream]);
    read_all(&j, 0, cap, seen);
    read_all(&j, data[1], cap, seen);
    atoll_journal_rest(&j);
    read_all(&j, UINT64_MAX - 1, cap, seen);
    go_on(&j, cap);
    atoll_journal_remove(&j);
    return 0;
}
