/*
 * POST …/files/batch: several files in one request.
 */
#include <errno.h>
#include <stdio.h>
#include "api/kit/file_batch.h"
#include "api/rest/rest_internal.h"
#include "api/rest/views.h"
#include "base/text.h"

struct batch_call {
    struct atoll_file_batch batch;
    struct atoll_api_call *call;
    struct atoll_body body;
    struct atoll_buf buf;
    struct atoll_json_out out;
};

struct batch_fields {
    const char *user;
    const json_t *files;
};

static const struct atoll_field batch_fields[] = {
    {"user", ATOLL_FIELD_STRING, offsetof(struct batch_fields, user), 0, 64, NULL, 0},
    {"files", ATOLL_FIELD_JSON, offsetof(struct batch_fields, files), 0, 0, NULL, 0},
    {0},
};

static void batch_each(void *arg, const struct atoll_am_entry *entry)
{
    struct batch_call *c = arg;
    atoll_view_entry(&c->out, NULL, entry);
}

static void batch_done(void *arg, const struct atoll_error *error)
{
    struct batch_call *c = arg;

    if (error) {
        atoll_buf_done(&c->buf);
        atoll_api_fail(c->call, error);
    } else {
        atoll_json_close(&c->out, ']');
        atoll_json_close(&c->out, '}');
        atoll_api_reply(c->call, 200, &c->out);
    }
    atoll_body_done(&c->body);
    free(c);
}

void atoll_rest_file_batch(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    struct batch_call *c = atoll_api_alloc(sizeof(*c));
    struct batch_fields request = {0};
    struct atoll_field_set set = {batch_fields, &request};
    struct atoll_error error;
    int r = atoll_body_parse(&c->body, bytes, n, &error);

    c->call = call;
    atoll_api_reply_init(&c->buf, &c->out);
    if (r == 0)
        r = atoll_fields_decode(&c->body, c->body.root, "", &set, 1, &error);
    if (r == 0 && !request.files)
        r = atoll_fail(&error, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "files is missing: an array");
    if (r == 0)
        r = atoll_file_batch_check(&c->body, request.files, &error);
    if (r < 0) {
        batch_done(c, &error);
        return;
    }
    atoll_json_open(&c->out, NULL, '{');
    atoll_json_open(&c->out, "entries", '[');
    c->batch =
        (struct atoll_file_batch){.engine = call->engine,
                                  .body = &c->body,
                                  .files = request.files,
                                  .user = request.user && *request.user ? request.user : NULL,
                                  .each = batch_each,
                                  .done = batch_done,
                                  .arg = c};
    (void)!atoll_text_copy(c->batch.sandbox_id, sizeof(c->batch.sandbox_id), call->params.id);
    atoll_file_batch_write(&c->batch);
}
