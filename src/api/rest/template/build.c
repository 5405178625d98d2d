/*
 * POST /api/templates/{name}/build: builds a template from a Dockerfile. The body is a tar archive
 * of the build context, passed on as it arrives. The response starts after the body has ended: one
 * line of JSON per line of build output, and a last line with the result.
 */
#include <errno.h>
#include <string.h>
#include "api/errors.h"
#include "api/kit/body_pump.h"
#include "api/kit/feed.h"
#include "api/rest/rest_internal.h"
#include "api/rest/views.h"
#include "engine/provider/providers.h"

#define LINE_MAX ((size_t)64 * 1024)

struct build {
    struct atoll_api_call *call;
    struct atoll_build *build; /* owned; to be finished or dropped */
    struct atoll_body_pump pump;
    struct atoll_buf line;
    uint64_t left_out; /* lines dropped because the client was slow */
};

static void build_done(struct build *b)
{
    atoll_buf_done(&b->line);
    free(b);
}

/* Response. */

static struct atoll_json_out line_begin(struct build *b)
{
    struct atoll_json_out out;

    atoll_buf_clear(&b->line);
    atoll_json_out_init(&out, &b->line);
    atoll_json_open(&out, NULL, '{');
    return out;
}

/* Ignores a failed write: on_gone reports the disconnect. */
static void line_send(struct build *b, struct atoll_json_out *out)
{
    atoll_json_close(out, '}');
    if (out->error == 0 && atoll_buf_append(&b->line, "\n", 1) == 0)
        (void)!atoll_http_write(b->call->req, atoll_buf_head(&b->line), atoll_buf_size(&b->line));
}

static void tell_left_out(struct build *b)
{
    struct atoll_json_out out;

    if (b->left_out == 0)
        return;
    out = line_begin(b);
    atoll_json_open(&out, "truncated", '{');
    atoll_json_u64(&out, "lines", b->left_out);
    atoll_json_close(&out, '}');
    line_send(b, &out);
    b->left_out = 0;
}

static void said(void *arg, const char *text)
{
    struct build *b = arg;
    struct atoll_json_out out;

    if (atoll_http_pending(b->call->req) > ATOLL_FEED_PENDING_MAX) {
        b->left_out++;
        return;
    }
    tell_left_out(b);
    out = line_begin(b);
    atoll_json_bytes(&out, "output", (const uint8_t *)text, strlen(text));
    line_send(b, &out);
}

static void built(void *arg, const struct atoll_template_view *view,
                  const struct atoll_error *error)
{
    struct build *b = arg;
    struct atoll_api_call *call = b->call;
    struct atoll_json_out out;

    tell_left_out(b);
    out = line_begin(b);
    if (error)
        atoll_api_error_write(&out, error, call->request_id, atoll_api_operators_file(call));
    else
        atoll_view_template(&out, "template", view);
    line_send(b, &out);
    call->on_gone = NULL;
    build_done(b);
    atoll_api_end(call);
}

static void client_gone(struct atoll_api_call *call)
{
    struct build *b = call->state;

    atoll_build_drop(b->build);
    build_done(b);
    atoll_api_drop(call);
}

/* Build context. */

static void write_files(void *arg, const uint8_t *bytes, size_t n, atoll_done_fn *done,
                        void *done_arg)
{
    struct build *b = arg;

    atoll_build_write(b->build, bytes, n, done, done_arg);
}

static void files_ended(void *arg, const struct atoll_error *error)
{
    struct build *b = arg;
    struct atoll_api_call *call = b->call;

    if (error) {
        atoll_build_drop(b->build);
        build_done(b);
        atoll_api_fail(call, error);
        return;
    }
    call->state = b;
    call->on_gone = client_gone;
    atoll_api_begin(call, 200, "application/x-ndjson", -1);
    atoll_build_finish(b->build, said, built, b);
}

static int read_request(const struct atoll_api_call *call, struct atoll_build_request *ret,
                        struct atoll_error *err)
{
    const char *network = atoll_http_query(call->req, "network");
    uint64_t memory_mb = 0;
    int r;

    *ret = (struct atoll_build_request){
        .name = call->params.name,
        .provider = atoll_http_query(call->req, "provider"),
        .dockerfile = atoll_http_query(call->req, "file"),
    };
    if (network && (atoll_network_by_name(network, &ret->network) < 0 ||
                    ret->network == ATOLL_NETWORK_ISOLATED))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "?network= must be none or bridge (got \"%.32s\")", network);
    r = atoll_api_query_u64(call, "memoryMB", 16, 1048576, &memory_mb, err);
    ret->memory_bytes = memory_mb << 20;
    return r;
}

void atoll_rest_template_build(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                               size_t n ATOLL_UNUSED)
{
    struct build *b = atoll_api_alloc(sizeof(*b));
    struct atoll_build_request request;
    struct atoll_error error;
    int r = read_request(call, &request, &error);

    b->call = call;
    atoll_buf_init(&b->line, LINE_MAX);
    if (r == 0)
        r = atoll_build_start(call->engine, &request, &b->build, &error);
    if (r < 0) {
        build_done(b);
        atoll_api_fail(call, &error);
        return;
    }
    atoll_body_pump_start(&b->pump, call, write_files, files_ended, b);
}
