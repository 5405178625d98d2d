#include "api/kit/file_send.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/metrics.h"
#include "base/text.h"
#include "net/url.h"

/* Bytes sent per turn before other connections get theirs. */
#define TURN_MAX ((size_t)1024 * 1024)

struct looking {
    struct atoll_file_part part;
    void (*done)(void *arg, const struct atoll_file_part *part);
    void *arg;
};

static void look(void *arg)
{
    struct looking *l = arg;
    ssize_t n = atoll_tenant_file_peek(l->part.file);

    if (n == -EAGAIN)
        return;              /* it is called again */
    l->part.to_end = n != 0; /* an error comes again, when it is read */
    l->done(l->arg, &l->part);
    free(l);
}

void atoll_file_whole(struct atoll_tenant_file *file, uint64_t size_bytes,
                      void (*done)(void *arg, const struct atoll_file_part *part), void *arg)
{
    const struct atoll_file_part part = {.file = file, .length = size_bytes};
    struct looking *l;

    if (size_bytes > 0) {
        done(arg, &part);
        return;
    }
    l = atoll_api_alloc(sizeof(*l));
    *l = (struct looking){part, done, arg};
    atoll_tenant_file_on_ready(file, look, l);
    look(l);
}

/* The next piece. 1: sent, 0: that was all, -EPIPE: on_gone follows, -EAGAIN: on_ready does, -errno: cut
 * off. */
static int send_piece(struct atoll_file_pump *p, size_t *sent)
{
    struct atoll_file_part *part = &p->part;
    bool wanted = part->to_end || part->length > 0;
    const uint8_t *piece;
    ssize_t n = wanted ? atoll_tenant_file_read(part->file, &piece) : 0;
    int r;

    if (n < 0)
        return (int)n;
    if (n == 0)
        return wanted && !part->to_end ? -ENODATA : 0;
    r = atoll_http_write(p->call->req, piece, (size_t)n);
    if (r < 0)
        return r;
    atoll_metric_add(ATOLL_METRIC_BYTES, ATOLL_LABELS("files", "out"), (double)n);
    if (!part->to_end)
        part->length -= (uint64_t)n;
    *sent += (size_t)n;
    return 1;
}

static void pump(void *arg)
{
    struct atoll_file_pump *p = arg;
    struct atoll_api_call *call = p->call;
    size_t sent = 0;
    int r = 1;

    if (p->turn.loop || !p->part.file)
        return;
    while (r > 0) {
        if (atoll_http_pending(call->req) > ATOLL_HTTP_HIGH_WATER)
            return;
        if (sent >= TURN_MAX) {
            atoll_timer_set(&p->turn, atoll_http_loop(call->req), 0, pump, p);
            return;
        }
        r = send_piece(p, &sent);
    }
    if (r != -EPIPE && r != -EAGAIN)
        p->ended(p->arg, r);
}

static void drained(void *arg, struct atoll_http_request *req ATOLL_UNUSED)
{
    pump(arg);
}

void atoll_file_pump_start(struct atoll_file_pump *p, struct atoll_api_call *call,
                           const struct atoll_file_part *part, void (*ended)(void *arg, int r),
                           void *arg)
{
    *p = (struct atoll_file_pump){.call = call, .part = *part, .ended = ended, .arg = arg};
    if (!part->to_end)
        atoll_tenant_file_cut(part->file, part->offset, part->length);
    atoll_tenant_file_on_ready(part->file, pump, p);
    atoll_http_on_drain(call->req, drained, p);
    pump(p);
}

void atoll_file_pump_close(struct atoll_file_pump *p)
{
    p->part.file = atoll_tenant_file_close(p->part.file);
    atoll_timer_cancel(&p->turn);
}

/* A file as the whole response. */

static void sending_free(struct atoll_file_pump *p)
{
    atoll_file_pump_close(p);
    free(p);
}

static void client_gone(struct atoll_api_call *call)
{
    sending_free(call->state);
    atoll_api_drop(call);
}

static void sent_all(void *arg, int r)
{
    struct atoll_file_pump *p = arg;
    struct atoll_api_call *call = p->call;

    sending_free(p);
    /* Content-Length was sent: an abort shows the client that a shorter file is not complete. */
    if (r < 0)
        atoll_api_abort(call,
                        r == -ENODATA ? "the file became shorter while it was read" : strerror(-r));
    else
        atoll_api_end(call);
}

void atoll_file_send(struct atoll_api_call *call, int status, const char *content_type,
                     const struct atoll_file_part *part)
{
    struct atoll_file_pump *p = atoll_api_alloc(sizeof(*p));
    struct atoll_file_part sent = *part;

    call->state = p;
    call->on_gone = client_gone;
    atoll_api_begin(call, status, content_type, part->to_end ? -1 : (int64_t)part->length);
    /* To HEAD the head is the whole answer. */
    if (atoll_http_method(call->req) == ATOLL_HEAD) {
        sent.length = 0;
        sent.to_end = false;
    }
    atoll_file_pump_start(p, call, &sent, sent_all, p);
}

int atoll_file_cut_range(const char *text, struct atoll_file_part *part)
{
    uint64_t size = part->length, from, to = UINT64_MAX;
    char first[24];
    const char *dash;

    if (strncmp(text, "bytes=", 6) != 0 || !(dash = strchr(text + 6, '-')) || strchr(text, ',') ||
        dash - text - 6 >= (ptrdiff_t)sizeof(first))
        return 0;
    (void)snprintf(first, sizeof(first), "%.*s", (int)(dash - text - 6), text + 6);
    if (dash[1] && atoll_text_u64(dash + 1, 0, INT64_MAX, &to) < 0)
        return 0;
    if (!first[0]) { /* the last so many */
        if (!dash[1])
            return 0;
        from = size > to ? size - to : 0;
        to = UINT64_MAX;
    } else if (atoll_text_u64(first, 0, INT64_MAX, &from) < 0) {
        return 0;
    }
    if (from >= size || to < from)
        return -ERANGE;
    part->offset = from;
    part->length = ATOLL_MIN(to, size - 1) - from + 1;
    return 1;
}

void atoll_file_name_header(struct atoll_http_request *req, const char *disposition,
                            const char *name)
{
    struct atoll_buf value;

    atoll_buf_init(&value, 4 * ATOLL_FILE_NAME_MAX);
    if (atoll_buf_appendf(&value, "%s; filename*=UTF-8''", disposition) == 0 &&
        atoll_url_encode(&value, name, false) == 0)
        (void)atoll_http_set_header(req, "Content-Disposition", atoll_buf_str(&value));
    atoll_buf_done(&value);
    (void)atoll_http_set_header(req, "X-Content-Type-Options", "nosniff");
}
