#include "api/kit/progress.h"

#include "api/errors.h"
#include "api/kit/feed.h"

#define LINE_MAX ((size_t)8 * 1024 * 1024) /* the config of an image may be large */

void atoll_progress_init(struct atoll_progress *p, struct atoll_api_call *call)
{
    *p = (struct atoll_progress){.call = call};
    atoll_buf_init(&p->line, LINE_MAX);
}

struct atoll_json_out atoll_progress_line(struct atoll_progress *p)
{
    struct atoll_json_out out;

    atoll_buf_clear(&p->line);
    atoll_json_out_init(&out, &p->line);
    atoll_json_open(&out, NULL, '{');
    return out;
}

/* Ignores a failed write: on_gone reports the disconnect. */
static void send_line(struct atoll_progress *p, struct atoll_json_out *out)
{
    if (!p->begun)
        atoll_api_begin(p->call, 200, "application/x-ndjson", -1);
    p->begun = true;
    atoll_json_close(out, '}');
    if (out->error == 0 && atoll_buf_append(&p->line, "\n", 1) == 0)
        (void)!atoll_http_write(p->call->req, atoll_buf_head(&p->line), atoll_buf_size(&p->line));
}

void atoll_progress_say(struct atoll_progress *p, const char *text)
{
    struct atoll_json_out out;

    if (p->begun && atoll_http_pending(p->call->req) > ATOLL_FEED_PENDING_MAX)
        return;
    out = atoll_progress_line(p);
    atoll_json_text(&out, "progress", text);
    send_line(p, &out);
}

void atoll_progress_end(struct atoll_progress *p, struct atoll_json_out *out,
                        const struct atoll_error *error)
{
    struct atoll_api_call *call = p->call;
    struct atoll_json_out failed;

    call->on_gone = NULL;
    if (error && !p->begun) {
        atoll_progress_drop(p);
        atoll_api_fail(call, error);
        return;
    }
    if (error) {
        failed = atoll_progress_line(p);
        atoll_api_error_write(&failed, error, call->request_id, atoll_api_operators_file(call));
        out = &failed;
    }
    send_line(p, out);
    atoll_progress_drop(p);
    atoll_api_end(call);
}

void atoll_progress_drop(struct atoll_progress *p)
{
    atoll_buf_done(&p->line);
}
