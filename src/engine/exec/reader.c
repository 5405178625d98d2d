#include <errno.h>
#include <string.h>
#include "engine/engine_internal.h"

/*
 * Readers of an exec's output. Each has its own position in the journal and is woken when there is
 * more output, or when the command has ended.
 *
 * Output that following readers have not released is not acknowledged to the agent, unless the
 * journal keeps it. So the command blocks in the sandbox, and nothing is lost if the daemon dies.
 */

#define PIECE_MAX (64 * 1024)
#define FORGET_BYTES (64 * 1024) /* do not empty the journal's tail before it has this size */
/* At this size of the tail the command blocks until all of it is released, so that the tail can be
 * emptied. */
#define TAIL_BYTES ((uint64_t)1 << 20)
/* How long after recovery the followers of a command can come back: as long as libatoll retries.
 * After the first came back, the others have OTHERS_MS. */
#define AWAITED_MS 15000
#define OTHERS_MS 2000

struct atoll_reader {
    struct atoll_list node;  /* in exec->readers */
    struct atoll_exec *exec; /* referenced */
    struct atoll_journal_cursor cursor;
    uint64_t used[3];         /* following: offset up to which it has released each stream */
    struct atoll_timer first; /* wakes it once after opening */
    void (*ready)(void *arg);
    void *arg;
    unsigned round; /* exec->round when it was woken last */
    bool follows;
    bool finished; /* END was given */
    uint8_t *buf;  /* owned; allocated with the first piece */
};

static void wake(void *arg)
{
    struct atoll_reader *reader = arg;
    reader->ready(reader->arg);
}

static uint64_t place(const struct atoll_exec *exec, int stream, uint64_t offset)
{
    return offset == ATOLL_READ_FROM_END ? exec->journal.seen[stream] : offset;
}

int atoll_reader_open(struct atoll_exec *exec, uint64_t stdout_offset, uint64_t stderr_offset,
                      void (*ready)(void *arg), void *arg, struct atoll_reader **ret,
                      struct atoll_error *err)
{
    struct atoll_reader *reader = calloc(1, sizeof(*reader));

    if (!reader)
        return atoll_fail_errno(err, ENOMEM, "reader");
    reader->exec = exec;
    reader->cursor.want[ATOLL_STREAM_STDOUT] = place(exec, ATOLL_STREAM_STDOUT, stdout_offset);
    reader->cursor.want[ATOLL_STREAM_STDERR] = place(exec, ATOLL_STREAM_STDERR, stderr_offset);
    if (stdout_offset == ATOLL_READ_FROM_END && stderr_offset == ATOLL_READ_FROM_END) {
        reader->cursor.at = exec->journal.size;
        reader->cursor.emptied = exec->journal.emptied;
    }
    reader->ready = ready;
    reader->arg = arg;
    reader->round = exec->round;
    exec->refs++;
    atoll_list_push_back(&exec->readers, &reader->node);
    /* Output that exists already does not cause a wake-up by itself. */
    if (exec->ended || exec->journal.size > 0)
        atoll_timer_set(&reader->first, exec->engine->loop, 0, wake, reader);
    *ret = reader;
    return 0;
}

uint64_t atoll_readers_used(const struct atoll_exec *exec, int stream)
{
    uint64_t n = exec->journal.seen[stream];

    if (exec->awaited || (exec->held && exec->followers == 0))
        n = 0;
    ATOLL_LIST_FOREACH (&exec->readers, node) {
        const struct atoll_reader *reader = ATOLL_CONTAINER_OF(node, struct atoll_reader, node);
        if (reader->follows)
            n = ATOLL_MIN(n, reader->used[stream]);
    }
    return ATOLL_MAX(n, exec->journal.kept[stream]);
}

bool atoll_readers_hold(const struct atoll_exec *exec)
{
    return exec->held || exec->awaited || exec->followers > 0;
}

/* Whether the followers have released the tail, up to ATOLL_READER_LESS_MAX bytes: a reader keeps
 * an incomplete UTF-8 character unreleased, but has a copy of these bytes, as the agent has. */
static bool is_used_up(const struct atoll_exec *exec, int stream, uint64_t used)
{
    const uint64_t seen = exec->journal.seen[stream];

    ATOLL_LIST_FOREACH (&exec->readers, node) {
        const struct atoll_reader *reader = ATOLL_CONTAINER_OF(node, struct atoll_reader, node);
        if (reader->follows && reader->cursor.want[stream] < seen)
            return false;
    }
    return used + ATOLL_READER_LESS_MAX >= seen;
}

void atoll_readers_settle(struct atoll_exec *exec)
{
    struct atoll_journal *j = &exec->journal;
    const uint64_t used[] = {0, atoll_readers_used(exec, ATOLL_STREAM_STDOUT),
                             atoll_readers_used(exec, ATOLL_STREAM_STDERR)};
    bool all = is_used_up(exec, ATOLL_STREAM_STDOUT, used[ATOLL_STREAM_STDOUT]) &&
               is_used_up(exec, ATOLL_STREAM_STDERR, used[ATOLL_STREAM_STDERR]);

    /* After the end the tail is kept: the agent has dropped its copy. */
    if (exec->ended || !exec->sandbox || exec->sandbox->engine->ending)
        return;
    if (!all && j->size - j->head >= TAIL_BYTES)
        return;
    /* If emptying fails, the file grows until it is full, and then readers get a gap. */
    if (all && j->size - j->head >= FORGET_BYTES)
        (void)!atoll_journal_forget(j);
    atoll_journals_charge(exec);
    for (int stream = ATOLL_STREAM_STDOUT; stream <= ATOLL_STREAM_STDERR; stream++)
        atoll_exec_acknowledge(exec, stream, used[stream]);
}

static void waited_enough(void *arg)
{
    struct atoll_exec *exec = arg;

    exec->awaited = false;
    atoll_readers_settle(exec);
}

void atoll_readers_await(struct atoll_exec *exec)
{
    if (exec->awaited)
        atoll_timer_set(&exec->awaiting, exec->sandbox->engine->loop,
                        exec->followers > 0 ? OTHERS_MS : AWAITED_MS, waited_enough, exec);
}

void atoll_reader_follow(struct atoll_reader *reader)
{
    if (reader->follows)
        return;
    reader->follows = true;
    memcpy(reader->used, reader->cursor.want, sizeof(reader->used));
    if (reader->exec->followers++ == 0 && reader->exec->awaiting.loop)
        atoll_readers_await(reader->exec);
}

struct atoll_reader *atoll_reader_close(struct atoll_reader *reader)
{
    if (!reader)
        return NULL;
    atoll_timer_cancel(&reader->first);
    atoll_list_remove(&reader->node);
    if (reader->follows) {
        reader->exec->followers--;
        atoll_readers_settle(reader->exec);
    }
    if (reader->exec->ended && atoll_list_empty(&reader->exec->readers))
        atoll_journal_rest(&reader->exec->journal);
    atoll_journals_charge(reader->exec);
    atoll_exec_unref(reader->exec);
    free(reader->buf);
    free(reader);
    return NULL;
}

/* A gap at the end of a stream, with no kept output after it, is reported once all else was
 * read. */
static bool next_gap(struct atoll_reader *reader, struct atoll_reader_item *ret)
{
    const struct atoll_journal *j = &reader->exec->journal;

    for (int stream = ATOLL_STREAM_STDOUT; stream <= ATOLL_STREAM_STDERR; stream++) {
        uint64_t *want = &reader->cursor.want[stream];
        if (*want >= j->seen[stream])
            continue;
        *ret = (struct atoll_reader_item){.kind = ATOLL_READ_GAP,
                                          .stream = stream,
                                          .offset = *want,
                                          .length = j->seen[stream] - *want};
        *want = j->seen[stream];
        return true;
    }
    return false;
}

int atoll_reader_next(struct atoll_reader *reader, struct atoll_reader_item *ret)
{
    struct atoll_exec *exec = reader->exec;
    uint64_t offset, len;
    int stream, r;

    if (reader->finished)
        return 0;
    if (exec->journal.size > 0 && !reader->buf) {
        reader->buf = malloc(PIECE_MAX);
        if (!reader->buf)
            return -ENOMEM;
    }
    r = atoll_journal_read(&exec->journal, &reader->cursor, reader->buf, PIECE_MAX, &stream,
                           &offset, &len);
    if (r < 0)
        return r;
    if (r > 0) {
        *ret = (struct atoll_reader_item){.kind = r == 1 ? ATOLL_READ_DATA : ATOLL_READ_GAP,
                                          .stream = stream,
                                          .offset = offset,
                                          .length = len,
                                          .data = reader->buf};
        return 1;
    }
    if (next_gap(reader, ret))
        return 1;
    if (!exec->ended)
        return 0;
    reader->finished = true;
    *ret = (struct atoll_reader_item){.kind = ATOLL_READ_END, .result = &exec->result};
    return 1;
}

void atoll_reader_forget(struct atoll_reader *reader, size_t stdout_less, size_t stderr_less)
{
    const size_t less[] = {0, stdout_less, stderr_less};

    if (!reader->follows)
        return;
    for (int stream = ATOLL_STREAM_STDOUT; stream <= ATOLL_STREAM_STDERR; stream++)
        reader->used[stream] = reader->cursor.want[stream] - less[stream];
    atoll_readers_settle(reader->exec);
}

void atoll_readers_notify(struct atoll_exec *exec)
{
    /* A reader may close itself or other readers, open new ones or end the command, which wakes all
     * of them in a nested round; and closing the last one may free the exec. So hold a reference,
     * and search the list from the start after each callback. A reader that was woken moves to the
     * end of the list. */
    const unsigned round = ++exec->round;

    exec->refs++;
    while (!atoll_list_empty(&exec->readers) && exec->round == round) {
        struct atoll_reader *reader =
            ATOLL_CONTAINER_OF(exec->readers.next, struct atoll_reader, node);
        if (reader->round == round)
            break;
        reader->round = round;
        atoll_list_remove(&reader->node);
        atoll_list_push_back(&exec->readers, &reader->node);
        reader->ready(reader->arg);
    }
    atoll_exec_unref(exec);
}
