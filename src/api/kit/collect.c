#include "api/kit/collect.h"

#include <errno.h>
#include <string.h>

static void take(struct atoll_collect *c, const struct atoll_reader_item *item)
{
    struct atoll_buf *buf = &c->streams[item->stream];
    size_t room = ATOLL_COLLECT_MAX - atoll_buf_size(buf);

    /* Output after a gap is dropped: the result could not show where bytes are missing. */
    if (item->kind == ATOLL_READ_GAP)
        c->truncated[item->stream] = true;
    if (c->truncated[item->stream])
        return;
    if (item->length > room)
        c->truncated[item->stream] = true;
    if (atoll_buf_append(buf, item->data, (size_t)ATOLL_MIN(item->length, (uint64_t)room)) < 0)
        c->truncated[item->stream] = true;
    /* Do not cut in the middle of a character. */
    if (c->truncated[item->stream])
        buf->len -= atoll_json_utf8_open_tail(atoll_buf_head(buf), atoll_buf_size(buf));
}

static void pump(void *arg)
{
    struct atoll_collect *c = arg;
    struct atoll_reader_item item;
    struct atoll_error error;
    int r;

    while ((r = atoll_reader_next(c->reader, &item)) > 0) {
        if (item.kind == ATOLL_READ_END) {
            c->ended(c->arg, item.result, NULL);
            return;
        }
        take(c, &item);
    }
    if (r < 0) {
        (void)atoll_fail_errno(&error, -r, "reading the output of a command");
        c->ended(c->arg, NULL, &error);
    } else {
        atoll_reader_forget(c->reader, 0, 0);
    }
}

void atoll_collect_start(struct atoll_collect *c, struct atoll_exec *exec,
                         void (*ended)(void *arg, const struct atoll_exec_result *result,
                                       const struct atoll_error *error),
                         void *arg)
{
    struct atoll_error error;

    *c = (struct atoll_collect){.ended = ended, .arg = arg};
    for (int i = ATOLL_STREAM_STDOUT; i <= ATOLL_STREAM_STDERR; i++)
        atoll_buf_init(&c->streams[i], ATOLL_COLLECT_MAX);
    if (atoll_reader_open(exec, 0, 0, pump, c, &c->reader, &error) < 0) {
        ended(arg, NULL, &error);
    } else {
        atoll_reader_follow(c->reader);
        pump(c);
    }
}

void atoll_collect_done(struct atoll_collect *c)
{
    if (c->reader)
        c->reader = atoll_reader_close(c->reader);
    for (int i = ATOLL_STREAM_STDOUT; i <= ATOLL_STREAM_STDERR; i++)
        atoll_buf_done(&c->streams[i]);
}

void atoll_collect_write(const struct atoll_collect *c, struct atoll_json_out *out)
{
    static const struct {
        const char *key, *truncated;
    } names[] = {
        [ATOLL_STREAM_STDOUT] = {"stdout", "stdout_truncated"},
        [ATOLL_STREAM_STDERR] = {"stderr", "stderr_truncated"},
    };

    for (int i = ATOLL_STREAM_STDOUT; i <= ATOLL_STREAM_STDERR; i++) {
        const struct atoll_buf *buf = &c->streams[i];
        atoll_json_bytes(out, names[i].key, atoll_buf_head(buf), atoll_buf_size(buf));
        if (c->truncated[i])
            atoll_json_bool(out, names[i].truncated, true);
    }
}
