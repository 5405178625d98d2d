#include "api/kit/exec_pump.h"

#include <errno.h>
#include <string.h>
#include "api/json_out.h"

/* Bytes passed per turn of the loop before other connections are served. */
#define TURN_MAX ((size_t)1024 * 1024)
/* What an item counts at least: small ones cost time, too. */
#define ITEM_MIN ((size_t)1024)
#define KEEP_ALIVE_MIN_MS 1000
#define NO_MORE 2

static size_t pending(const struct atoll_exec_pump *p)
{
    if (p->config.req)
        return atoll_http_pending(p->config.req);
    return p->config.ws ? atoll_ws_pending(p->config.ws) : 0;
}

/* Lets the daemon forget output that the client's socket has taken; if it has not yet, this is
 * tried again when it has. */
static void release(struct atoll_exec_pump *p)
{
    if (pending(p) == 0)
        atoll_reader_forget(p->reader, p->held[ATOLL_STREAM_STDOUT].len,
                            p->held[ATOLL_STREAM_STDERR].len);
    else if (p->config.req)
        atoll_http_await_empty(p->config.req);
    else
        atoll_ws_await_empty(p->config.ws);
}

/* Passing items. */

static int pass(struct atoll_exec_pump *p, int stream, uint64_t offset, const uint8_t *bytes,
                size_t n)
{
    return n > 0 ? p->config.ops->data(p->config.arg, stream, offset, bytes, n) : 0;
}

/* Passes held bytes that will not be completed. */
static int pass_held(struct atoll_exec_pump *p, int stream)
{
    size_t n = p->held[stream].len;

    p->held[stream].len = 0;
    return pass(p, stream, p->held[stream].offset, p->held[stream].bytes, n);
}

static int pass_all_held(struct atoll_exec_pump *p)
{
    int r = pass_held(p, ATOLL_STREAM_STDOUT);
    return r ? r : pass_held(p, ATOLL_STREAM_STDERR);
}

static int pass_characters(struct atoll_exec_pump *p, int stream, uint64_t offset,
                           const uint8_t *bytes, size_t n)
{
    uint8_t joined[ATOLL_EXEC_PUMP_SLICE_MAX + sizeof(p->held[0].bytes)];
    size_t held = p->held[stream].len, tail;

    memcpy(joined, p->held[stream].bytes, held);
    memcpy(joined + held, bytes, n);
    offset -= held;
    n += held;
    tail = atoll_json_utf8_open_tail(joined, n);
    n -= tail;
    memcpy(p->held[stream].bytes, joined + n, tail);
    p->held[stream].len = tail;
    p->held[stream].offset = offset + n;
    return pass(p, stream, offset, joined, n);
}

static int pass_data(struct atoll_exec_pump *p, const struct atoll_reader_item *item)
{
    const struct atoll_exec_pump_ops *ops = p->config.ops;
    int r = 0;

    for (uint64_t at = 0; r == 0 && at < item->length; at += ops->slice) {
        size_t n = (size_t)ATOLL_MIN(item->length - at, (uint64_t)ops->slice);
        r = (ops->whole_characters ? pass_characters : pass)(p, item->stream, item->offset + at,
                                                             item->data + at, n);
    }
    return r;
}

static int pass_gap(struct atoll_exec_pump *p, const struct atoll_reader_item *item)
{
    int r = pass_held(p, item->stream);
    return r ? r : p->config.ops->gap(p->config.arg, item);
}

/* Returns 1 after the last action, as the callbacks do. */
static int pass_end(struct atoll_exec_pump *p, const struct atoll_exec_result *result)
{
    int r = pass_all_held(p);

    if (r == 0)
        p->config.ops->end(p->config.arg, result);
    return r ? r : 1;
}

/* Reads and passes one item. 0: read on; 1: do not touch the pump; NO_MORE: for now. */
static int step(struct atoll_exec_pump *p, size_t *passed)
{
    struct atoll_reader_item item;
    int r = atoll_reader_next(p->reader, &item);

    if (r < 0)
        return r;
    if (r == 0)
        return p->config.follow ? NO_MORE : pass_end(p, NULL);
    if (item.kind == ATOLL_READ_END)
        return pass_end(p, item.result);
    r = item.kind == ATOLL_READ_GAP ? pass_gap(p, &item) : pass_data(p, &item);
    *passed += item.kind == ATOLL_READ_GAP ? ITEM_MIN : ATOLL_MAX((size_t)item.length, ITEM_MIN);
    if (r == 0)
        p->sent_ms = atoll_loop_now_ms(p->config.loop);
    return r;
}

static void run(void *arg)
{
    struct atoll_exec_pump *p = arg;
    size_t passed = 0;
    int r = 0;

    if (!p->reader || p->turn.loop)
        return;
    while (r == 0 && pending(p) <= ATOLL_HTTP_HIGH_WATER) {
        if (passed > TURN_MAX) {
            atoll_timer_set(&p->turn, p->config.loop, 0, run, p);
            return;
        }
        r = step(p, &passed);
    }
    if (r == NO_MORE)
        release(p);
    else if (r < 0 && r != -EPIPE)
        p->config.ops->failed(p->config.arg, r);
}

static void drained(void *arg, struct atoll_http_request *req ATOLL_UNUSED)
{
    run(arg);
}

static void silent(void *arg)
{
    struct atoll_exec_pump *p = arg;
    int64_t silent_ms = atoll_loop_now_ms(p->config.loop) - p->sent_ms;

    if (silent_ms >= p->config.keep_alive_ms && pending(p) <= ATOLL_HTTP_HIGH_WATER) {
        if (p->config.ops->keep_alive(p->config.arg) != 0)
            return;
        p->sent_ms = atoll_loop_now_ms(p->config.loop);
        silent_ms = 0;
    }
    atoll_timer_set(&p->silence, p->config.loop,
                    ATOLL_MAX(p->config.keep_alive_ms - silent_ms, (int64_t)KEEP_ALIVE_MIN_MS),
                    silent, p);
}

int atoll_exec_pump_open(struct atoll_exec_pump *p, struct atoll_exec *exec,
                         const struct atoll_exec_pump_config *config, struct atoll_error *err)
{
    int r = atoll_reader_open(exec, config->from[0], config->from[1], run, p, &p->reader, err);

    if (r < 0)
        return r;
    p->config = *config;
    p->sent_ms = atoll_loop_now_ms(config->loop);
    if (config->follow)
        atoll_reader_follow(p->reader);
    if (config->req)
        atoll_http_on_drain(config->req, drained, p);
    if (config->keep_alive_ms > 0)
        atoll_timer_set(&p->silence, config->loop, config->keep_alive_ms, silent, p);
    return 0;
}

void atoll_exec_pump_run(struct atoll_exec_pump *p)
{
    run(p);
}

void atoll_exec_pump_close(struct atoll_exec_pump *p)
{
    if (p->reader)
        p->reader = atoll_reader_close(p->reader);
    atoll_timer_cancel(&p->turn);
    atoll_timer_cancel(&p->silence);
}
