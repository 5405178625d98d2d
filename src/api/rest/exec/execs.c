#include <errno.h>
#include <string.h>
#include "api/kit/body_pump.h"
#include "api/kit/paging.h"
#include "api/rest/requests.h"
#include "api/rest/rest_internal.h"
#include "api/rest/sandbox/ended.h"
#include "api/rest/views.h"

struct atoll_exec *atoll_rest_find_exec(struct atoll_engine *engine, const char *sandbox_id,
                                        const char *exec_id, struct atoll_error *err)
{
    struct atoll_sandbox *sandbox = atoll_engine_find(engine, sandbox_id);
    struct atoll_exec *exec = sandbox ? atoll_sandbox_find_exec(sandbox, exec_id) : NULL;

    if (!sandbox)
        (void)atoll_engine_no_sandbox(sandbox_id, err);
    else if (!exec)
        (void)atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT, "sandbox %s has no exec %s", sandbox_id,
                         exec_id);
    return exec;
}

/* Finds the exec in the route. NULL: the call has been answered. */
static struct atoll_exec *find_or_fail(struct atoll_api_call *call)
{
    struct atoll_error error;
    struct atoll_exec *exec =
        atoll_rest_find_exec(call->engine, call->params.id, call->params.exec, &error);

    if (!exec)
        atoll_api_fail(call, &error);
    return exec;
}

/* Reading records. */

static int by_age(const void *left, const void *right)
{
    struct atoll_exec_view a, b;

    atoll_exec_get(*(struct atoll_exec *const *)left, &a);
    atoll_exec_get(*(struct atoll_exec *const *)right, &b);
    return atoll_page_compare(a.started_unix_ms, a.id, b.started_unix_ms, b.id);
}

/* Bounded by the number of records that the engine keeps per sandbox. */
static struct atoll_exec **gather(struct atoll_sandbox *sandbox, const struct atoll_page *page,
                                  size_t *ret_count)
{
    struct atoll_exec **found, *exec;
    struct atoll_exec_view view;
    size_t pos = 0, count = 0, kept = 0;

    while (atoll_sandbox_next_exec(sandbox, &pos))
        count++;
    found = atoll_api_alloc((count + 1) * sizeof(struct atoll_exec *));
    for (pos = 0; kept < count && (exec = atoll_sandbox_next_exec(sandbox, &pos));) {
        atoll_exec_get(exec, &view);
        if (atoll_page_has(page, view.started_unix_ms, view.id))
            found[kept++] = exec;
    }
    qsort(found, kept, sizeof(struct atoll_exec *), by_age);
    *ret_count = kept;
    return found;
}

void atoll_rest_exec_list(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                          size_t n ATOLL_UNUSED)
{
    struct atoll_error error;
    struct atoll_sandbox *sandbox;
    struct atoll_page page;
    struct atoll_exec **found;
    struct atoll_exec_view last;
    struct atoll_buf buf;
    struct atoll_json_out out;
    size_t count, shown;

    if (call->ended) {
        atoll_rest_ended_execs(call);
        return;
    }
    sandbox = atoll_rest_find_sandbox(call, &error);
    if (!sandbox || atoll_page_take(call, &page, &error) < 0) {
        atoll_api_fail(call, &error);
        return;
    }
    found = gather(sandbox, &page, &count);
    shown = atoll_page_shown(&page, count);
    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '{');
    atoll_json_open(&out, "execs", '[');
    for (size_t i = 0; i < shown; i++)
        atoll_view_exec(&out, NULL, found[i]);
    atoll_json_close(&out, ']');
    if (shown < count) {
        atoll_exec_get(found[shown - 1], &last);
        atoll_page_write(&out, last.started_unix_ms, last.id);
    }
    free(found);
    atoll_json_close(&out, '}');
    atoll_api_reply(call, 200, &out);
}

void atoll_rest_exec_get(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                         size_t n ATOLL_UNUSED)
{
    const struct atoll_exec *exec;
    struct atoll_buf buf;
    struct atoll_json_out out;

    if (call->ended) {
        atoll_rest_ended_exec(call);
        return;
    }
    exec = find_or_fail(call);
    if (!exec)
        return;
    atoll_api_reply_init(&buf, &out);
    atoll_view_exec(&out, NULL, exec);
    atoll_api_reply(call, 200, &out);
}

/* Operations on a running command. */

void atoll_rest_exec_signal(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    struct atoll_rest_signal request = {0};
    struct atoll_exec *exec;
    struct atoll_body body;
    struct atoll_error error;
    int signo = 0;
    int r = atoll_body_decode(&body, bytes, n, atoll_rest_signal_fields, &request, &error);

    if (r == 0)
        r = atoll_rest_signal_check(&request, &signo, &error);
    if (r < 0)
        atoll_api_fail(call, &error);
    else if ((exec = find_or_fail(call)))
        atoll_exec_signal(exec, signo, request.tree, ATOLL_REST_WHO, atoll_rest_done, call);
    atoll_body_done(&body);
}

void atoll_rest_exec_resize(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    struct atoll_rest_size size = {0};
    struct atoll_exec *exec;
    struct atoll_body body;
    struct atoll_error error;
    int r = atoll_body_decode(&body, bytes, n, atoll_rest_size_fields, &size, &error);

    if (r == 0)
        r = atoll_rest_size_check(&size, &error);
    if (r < 0)
        atoll_api_fail(call, &error);
    else if ((exec = find_or_fail(call)))
        atoll_exec_resize(exec, size.cols, size.rows, atoll_rest_done, call);
    atoll_body_done(&body);
}

/* Standard input of any length. */

struct input {
    struct atoll_api_call *call;
    struct atoll_body_pump pump;
    bool close, wrote;
};

static void write_input(void *arg, const uint8_t *bytes, size_t n, atoll_done_fn *done,
                        void *done_arg)
{
    struct input *in = arg;
    struct atoll_error error;
    struct atoll_exec *exec =
        atoll_rest_find_exec(in->call->engine, in->call->params.id, in->call->params.exec, &error);

    in->wrote = true;
    if (exec)
        atoll_exec_write(exec, bytes, n, false, done, done_arg);
    else
        done(done_arg, &error);
}

/* A command that ended after it had taken all input is not an error. */
static void input_closed(void *arg, const struct atoll_error *error)
{
    struct input *in = arg;

    atoll_rest_done(in->call, error && error->errnum == ESRCH && in->wrote ? NULL : error);
    free(in);
}

static void input_ended(void *arg, const struct atoll_error *error)
{
    struct input *in = arg;
    struct atoll_api_call *call = in->call;
    struct atoll_exec *exec;

    if (error) {
        atoll_api_fail(call, error);
    } else if (!in->close) {
        atoll_api_reply_empty(call, 204);
    } else if ((exec = find_or_fail(call))) {
        atoll_exec_write(exec, NULL, 0, true, input_closed, in);
        return;
    }
    free(in);
}

void atoll_rest_exec_stdin(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                           size_t n ATOLL_UNUSED)
{
    struct atoll_error error;
    struct input *in;
    bool close;

    if (atoll_api_query_flag(call, "close", &close, &error) < 0) {
        atoll_api_fail(call, &error);
        return;
    }
    if (!find_or_fail(call))
        return;
    in = atoll_api_alloc(sizeof(*in));
    in->call = call;
    in->close = close;
    atoll_body_pump_start(&in->pump, call, write_input, input_ended, in);
}
