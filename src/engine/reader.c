#include <errno.h>
#include <string.h>
#include "engine/engine_internal.h"

/*
 * Readers of an exec's output: each has its own place in the journal and is woken when there is
 * more, or when the command has ended.
 */

#define PIECE_MAX (64 * 1024)
#define FORGET_BYTES (64 * 1024) /* emptying the journal is not worth it before */

struct atoll_reader {
    struct atoll_list node;  /* in exec->readers */
    struct atoll_exec *exec; /* referenced */
    struct atoll_journal_cursor cursor;
    struct atoll_timer first; /* wakes it once after opening */
    void (*ready)(void *arg);
    void *arg;
    bool finished; /* END was given */
    uint8_t *buf;  /* owned, from the first piece on */
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
    exec->refs++;
    atoll_list_push_back(&exec->readers, &reader->node);
    /* What is there already would wake nobody. */
    if (exec->ended || exec->journal.size > 0)
        atoll_timer_set(&reader->first, exec->sandbox->engine->loop, 0, wake, reader);
    *ret = reader;
    return 0;
}

struct atoll_reader *atoll_reader_close(struct atoll_reader *reader)
{
    if (!reader)
        return NULL;
    atoll_timer_cancel(&reader->first);
    atoll_list_remove(&reader->node);
    if (reader->exec->ended && atoll_list_empty(&reader->exec->readers))
        atoll_journal_rest(&reader->exec->journal);
    atoll_exec_unref(reader->exec);
    free(reader->buf);
    free(reader);
    return NULL;
}

/* What was forgotten before this reader got to it. */
static bool next_forgotten(struct atoll_reader *reader, struct atoll_reader_item *ret)
{
    const struct atoll_journal *j = &reader->exec->journal;

    for (int stream = ATOLL_STREAM_STDOUT; stream <= ATOLL_STREAM_STDERR; stream++) {
        uint64_t *want = &reader->cursor.want[stream];
        if (*want >= j->first[stream])
            continue;
        *ret = (struct atoll_reader_item){.kind = ATOLL_READ_GAP,
                                          .stream = stream,
                                          .offset = *want,
                                          .length = j->first[stream] - *want};
        *want = j->first[stream];
        return true;
    }
    return false;
}

/* What the journal had no room for: told once the command has ended and the rest was read. */
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
    size_t len;
    int stream, r;
    uint64_t offset;

    if (reader->finished)
        return 0;
    if (next_forgotten(reader, ret))
        return 1;
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
        *ret = (struct atoll_reader_item){.kind = ATOLL_READ_DATA,
                                          .stream = stream,
                                          .offset = offset,
                                          .length = len,
                                          .data = reader->buf};
        return 1;
    }
    if (!exec->ended)
        return 0;
    if (next_gap(reader, ret))
        return 1;
    reader->finished = true;
    *ret = (struct atoll_reader_item){.kind = ATOLL_READ_END, .result = &exec->result};
    return 1;
}

bool atoll_reader_is_cut(const struct atoll_reader *reader, int stream)
{
    const struct atoll_journal *j = &reader->exec->journal;

    return j->kept[stream] < j->seen[stream];
}

static bool has_all(const struct atoll_reader *reader)
{
    const struct atoll_journal *j = &reader->exec->journal;

    return reader->cursor.want[ATOLL_STREAM_STDOUT] >= j->seen[ATOLL_STREAM_STDOUT] &&
           reader->cursor.want[ATOLL_STREAM_STDERR] >= j->seen[ATOLL_STREAM_STDERR];
}

void atoll_reader_forget(struct atoll_reader *reader)
{
    struct atoll_exec *exec = reader->exec;

    if (!exec->held)
        return;
    /* A file that cannot be emptied grows until it is full, and readers are told of the gap. */
    if (exec->journal.size >= FORGET_BYTES && has_all(reader))
        (void)!atoll_journal_forget(&exec->journal);
    for (int stream = ATOLL_STREAM_STDOUT; stream <= ATOLL_STREAM_STDERR; stream++)
        atoll_exec_acknowledge(exec, stream, reader->cursor.want[stream]);
}

void atoll_readers_notify(struct atoll_exec *exec)
{
    /* A reader may close itself or its neighbours, and with the last one the exec may go: hold it,
     * and start over after each call that changed the list. */
    struct atoll_list woken;
    bool ended = exec->ended;

    exec->refs++;
    atoll_list_init(&woken);
    while (!atoll_list_empty(&exec->readers)) {
        struct atoll_reader *reader =
            ATOLL_CONTAINER_OF(exec->readers.next, struct atoll_reader, node);
        atoll_list_remove(&reader->node);
        atoll_list_push_back(&woken, &reader->node);
        reader->ready(reader->arg);
    }
    while (!atoll_list_empty(&woken)) {
        struct atoll_list *node = woken.next;
        atoll_list_remove(node);
        atoll_list_push_back(&exec->readers, node);
    }
    if (exec->ended != ended) /* by one of them: those woken before it do not know */
        atoll_readers_notify(exec);
    atoll_exec_unref(exec);
}
