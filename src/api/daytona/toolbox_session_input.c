/*
 * Input of a command of a session. It is shown in the log of the command, as a terminal would: a small
 * process writes it to the relay's output first.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "api/daytona/toolbox_internal.h"

#define ECHO_MAX ((size_t)100 * 1024) /* longer input is not shown */
#define ECHO_MS 5000                  /* the log does not take more: the command is held back */

struct input {
    struct atoll_api_call *call;
    struct atoll_buf data;
    char relay_id[17];
    struct atoll_toolbox_output echo;
};

static void input_free(struct input *in)
{
    atoll_toolbox_output_done(&in->echo);
    atoll_buf_done(&in->data);
    free(in);
}

static void refuse_ended(struct atoll_api_call *call)
{
    atoll_daytona_refuse(call, 410, ATOLL_TOOLBOX_COMMAND_ENDED, "command has already completed");
}

static void written(void *arg, const struct atoll_error *error)
{
    struct input *in = arg;

    if (error && error->kind == ATOLL_ERR_FAILED_PRECONDITION)
        refuse_ended(in->call);
    else if (error)
        atoll_api_fail(in->call, error);
    else
        atoll_api_reply_empty(in->call, 204);
    input_free(in);
}

static void send_data(struct input *in)
{
    struct atoll_exec *relay = atoll_toolbox_find_exec(in->call, in->relay_id);

    in->call->on_gone = NULL;
    if (relay) {
        atoll_exec_write(relay, atoll_buf_head(&in->data), atoll_buf_size(&in->data), false,
                         written, in);
        return;
    }
    refuse_ended(in->call);
    input_free(in);
}

static void shown(void *arg, const struct atoll_exec_result *result ATOLL_UNUSED,
                  const struct atoll_error *error ATOLL_UNUSED)
{
    send_data(arg);
}

static void client_gone(struct atoll_api_call *call)
{
    input_free(call->state);
    atoll_api_drop(call);
}

static void echo_started(void *arg, struct atoll_exec *exec, const struct atoll_error *error)
{
    struct input *in = arg;
    struct atoll_api_call *call = in->call;

    if (error || !call->req) {
        send_data(in);
        return;
    }
    call->state = in;
    call->on_gone = client_gone;
    atoll_toolbox_output_start(&in->echo, atoll_http_loop(call->req), exec, true, shown, in);
}

static void show(struct input *in, uint32_t pid)
{
    char target[40];
    const char *const argv[] = {
        "sh", "-c", "printf %s \"$1\" >\"$2\"", "sh", atoll_buf_str(&in->data), target, NULL};
    const struct atoll_exec_start start = {.argv = argv, .timeout_ms = ECHO_MS};

    (void)snprintf(target, sizeof(target), "/proc/%u/fd/1", pid);
    atoll_engine_exec(in->call->engine, in->call->params.id, &start, echo_started, in);
}

static void give(struct atoll_api_call *call, const struct atoll_exec_view *relay, const char *data)
{
    struct input *in = atoll_api_alloc(sizeof(*in));
    size_t n = strlen(data);
    int r;

    in->call = call;
    (void)snprintf(in->relay_id, sizeof(in->relay_id), "%s", relay->id);
    atoll_buf_init(&in->data, n + 2);
    r = atoll_buf_append(&in->data, data, n);
    if (r == 0 && (n == 0 || data[n - 1] != '\n'))
        r = atoll_buf_append(&in->data, "\n", 1);
    if (r < 0) {
        atoll_daytona_refuse(call, 503, NULL, "out of memory");
        input_free(in);
    } else if (n <= ECHO_MAX && strcmp(relay->argv[ATOLL_RELAY_ECHO], "echo") == 0) {
        show(in, relay->pid);
    } else {
        send_data(in);
    }
}

void atoll_daytona_command_input(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    static const struct atoll_field fields[] = {
        {"data", ATOLL_FIELD_STRING, 0, 0, (double)ATOLL_BODY_FILES, NULL, 0},
        ATOLL_FIELDS_TOLERANT,
        {0},
    };
    struct {
        const char *data;
    } request = {0};
    struct atoll_toolbox_session session;
    struct atoll_exec_view view;
    struct atoll_exec *relay;
    struct atoll_body body;

    if (!atoll_toolbox_session_find(call, &session))
        return;
    relay = atoll_toolbox_command_find(call, &session);
    if (!relay || !atoll_toolbox_decode(call, &body, bytes, n, fields, &request))
        return;
    atoll_exec_get(relay, &view);
    if (!request.data)
        atoll_daytona_refuse(call, 400, ATOLL_TOOLBOX_BAD_BODY,
                             "invalid request body: data must be given");
    else if (view.result || session.view.result)
        refuse_ended(call);
    else
        give(call, &view, request.data);
    atoll_body_done(&body);
}
