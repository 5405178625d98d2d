#include "api/kit/file_receive.h"

#include <errno.h>
#include "base/metrics.h"

struct receive {
    struct atoll_api_call *call;
    struct atoll_upload *upload; /* ours to finish or drop */
    atoll_entry_fn *done;
    void *arg;
};

/* Leaves nothing of it in the sandbox. */
static void end(struct receive *r, const struct atoll_error *error)
{
    struct receive was = *r;

    was.call->on_gone = NULL;
    atoll_upload_drop(was.upload);
    free(r);
    was.done(was.arg, NULL, error);
}

static void gone(struct atoll_api_call *call)
{
    struct atoll_error error;

    (void)atoll_fail(&error, ATOLL_ERR_CANCELED, ECANCELED, "the client disconnected");
    end(call->state, &error);
}

static void data(void *arg, struct atoll_http_request *req, const uint8_t *bytes, size_t n)
{
    struct receive *r = arg;
    struct atoll_error error;
    int result = atoll_upload_write(r->upload, bytes, n);

    atoll_metric_add(ATOLL_METRIC_BYTES, ATOLL_LABELS("files", "in"), (double)n);
    if (result > 0)
        atoll_http_body_pause(req);
    if (result >= 0)
        return;
    (void)atoll_upload_fail(result, &error);
    (void)atoll_wrap(&error, "writing the file");
    end(r, &error);
}

/* A failure shows at the next write. */
static void ready(void *arg)
{
    struct receive *r = arg;
    atoll_http_body_resume(r->call->req);
}

static void complete(void *arg, struct atoll_http_request *req ATOLL_UNUSED)
{
    struct receive *r = arg;
    struct receive was = *r;

    was.call->on_gone = NULL;
    free(r);
    atoll_upload_finish(was.upload, was.done, was.arg);
}

static void opened(void *arg, struct atoll_upload *upload, const struct atoll_error *error)
{
    struct receive *r = arg;
    struct atoll_api_call *call = r->call;

    if (error) {
        struct receive was = *r;

        free(r);
        was.done(was.arg, NULL, error);
        return;
    }
    r->upload = upload;
    call->state = r;
    if (!call->req) {
        gone(call);
        return;
    }
    call->on_gone = gone;
    atoll_upload_on_ready(upload, ready, r);
    atoll_http_body_stream(call->req, data, complete, r);
}

void atoll_file_receive(struct atoll_api_call *call,
                        const struct atoll_file_receive_request *request, atoll_entry_fn *done,
                        void *arg)
{
    struct receive *r = atoll_api_alloc(sizeof(*r));

    *r = (struct receive){.call = call, .done = done, .arg = arg};
    atoll_files_create(call->engine, request->sandbox_id, request->user, request->path,
                       request->mode, opened, r);
}
