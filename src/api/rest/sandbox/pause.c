/*
 * Pause, resume and stop. A paused sandbox keeps its processes, frozen; a stopped one keeps only
 * its disk. Each call returns the sandbox in its new state.
 */
#include <errno.h>
#include "api/fields.h"
#include "api/rest/rest_internal.h"
#include "api/rest/views.h"

static void changed(void *arg, const struct atoll_error *error)
{
    struct atoll_api_call *call = arg;
    struct atoll_error gone;
    const struct atoll_sandbox *sandbox = error ? NULL : atoll_rest_find_sandbox(call, &gone);
    struct atoll_buf buf;
    struct atoll_json_out out;

    if (!sandbox) {
        atoll_api_fail(call, error ? error : &gone);
        return;
    }
    atoll_api_reply_init(&buf, &out);
    atoll_view_sandbox(&out, NULL, sandbox);
    atoll_api_reply(call, 200, &out);
}

struct pause_request {
    bool keep_processes, to_disk;
};

static const struct atoll_field pause_fields[] = {
    {"keepProcesses", ATOLL_FIELD_BOOL, offsetof(struct pause_request, keep_processes), 0, 0, NULL,
     0},
    {"toDisk", ATOLL_FIELD_BOOL, offsetof(struct pause_request, to_disk), 0, 0, NULL, 0},
    {0},
};

void atoll_rest_sandbox_pause(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    struct pause_request request = {.keep_processes = true};
    struct atoll_body body;
    struct atoll_error error;
    int r = atoll_body_decode(&body, bytes, n, pause_fields, &request, &error);

    atoll_body_done(&body);
    if (r == 0 && request.to_disk && !request.keep_processes)
        r = atoll_fail(&error, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                       "toDisk keeps the processes: it cannot be combined with "
                       "keepProcesses false");
    if (r < 0)
        atoll_api_fail(call, &error);
    else if (request.to_disk)
        atoll_engine_pause_to_disk(call->engine, call->params.id, ATOLL_REST_WHO, changed, call);
    else
        atoll_engine_pause(call->engine, call->params.id, request.keep_processes, ATOLL_REST_WHO,
                           changed, call);
}

void atoll_rest_sandbox_resume(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                               size_t n ATOLL_UNUSED)
{
    atoll_engine_resume(call->engine, call->params.id, changed, call);
}

void atoll_rest_sandbox_stop(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                             size_t n ATOLL_UNUSED)
{
    atoll_engine_stop(call->engine, call->params.id, ATOLL_REST_WHO, ATOLL_STOP_WRITTEN, changed,
                      call);
}
