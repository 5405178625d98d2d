/*
 * Waiting for the end of a process, and signals. A signal can escalate: if the process has not ended
 * after some time, a second one follows.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include "api/daytona/toolbox_internal.h"

#define WAIT_MAX_MS (24 * 3600 * 1000)
#define ESCALATE_MAX_MS (60 * 1000)

struct waiting {
    struct atoll_api_call *call;
    struct atoll_reader *reader; /* owned; for the end only */
    struct atoll_timer deadline;
    int escalate_to; /* the signal after the deadline; 0: none */
};

static void waiting_free(struct waiting *w)
{
    (void)atoll_reader_close(w->reader);
    atoll_timer_cancel(&w->deadline);
    free(w);
}

static void client_gone(struct atoll_api_call *call)
{
    waiting_free(call->state);
    atoll_api_drop(call);
}

static void signaled(void *arg, const struct atoll_error *error)
{
    if (error && error->kind != ATOLL_ERR_FAILED_PRECONDITION) /* else it has just ended */
        atoll_api_fail(arg, error);
    else
        atoll_api_reply_empty(arg, 204);
}

static void reply_result(struct atoll_api_call *call, const struct atoll_exec_result *result)
{
    struct atoll_buf buf;
    struct atoll_json_out out;

    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '{');
    if (result)
        atoll_toolbox_process_result(&out, result);
    else
        atoll_json_text(&out, "reason", "timed_out");
    atoll_json_close(&out, '}');
    atoll_api_reply(call, 200, &out);
}

/* result NULL: the process runs, and the time is up. */
static void wait_over(struct waiting *w, const struct atoll_exec_result *result)
{
    struct atoll_api_call *call = w->call;
    int escalate_to = w->escalate_to;
    struct atoll_exec_view view;
    struct atoll_exec *exec;

    call->on_gone = NULL;
    if (!escalate_to) {
        reply_result(call, result);
        waiting_free(w);
        return;
    }
    waiting_free(w);
    if (result) {
        atoll_api_reply_empty(call, 204);
        return;
    }
    exec = atoll_toolbox_process_find(call, &view);
    if (exec)
        atoll_exec_signal(exec, escalate_to, true, ATOLL_TOOLBOX_WHO, signaled, call);
}

static void time_is_up(void *arg)
{
    wait_over(arg, NULL);
}

static void fail(struct waiting *w, int errnum)
{
    struct atoll_api_call *call = w->call;
    struct atoll_error error;

    call->on_gone = NULL;
    waiting_free(w);
    (void)atoll_fail_errno(&error, errnum, "wait for the process");
    atoll_api_fail(call, &error);
}

static void look_for_end(void *arg)
{
    struct waiting *w = arg;
    struct atoll_reader_item item;
    int r;

    while ((r = atoll_reader_next(w->reader, &item)) > 0 && item.kind != ATOLL_READ_END)
        ;
    if (r > 0)
        wait_over(w, item.result);
    else if (r < 0)
        fail(w, -r);
}

static void wait_for(struct atoll_api_call *call, struct atoll_exec *exec, uint64_t ms,
                     int escalate_to)
{
    struct waiting *w = atoll_api_alloc(sizeof(*w));
    struct atoll_error error;

    w->call = call;
    w->escalate_to = escalate_to;
    if (atoll_reader_open(exec, ATOLL_READ_FROM_END, ATOLL_READ_FROM_END, look_for_end, w,
                          &w->reader, &error) < 0) {
        free(w);
        atoll_api_fail(call, &error);
        return;
    }
    call->state = w;
    call->on_gone = client_gone;
    if (ms > 0)
        atoll_timer_set(&w->deadline, atoll_http_loop(call->req), (int64_t)ms, time_is_up, w);
    look_for_end(w);
}

void atoll_daytona_process_wait(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                                size_t n ATOLL_UNUSED)
{
    struct atoll_exec_view view;
    struct atoll_exec *exec = atoll_toolbox_process_find(call, &view);
    struct atoll_error error;
    uint64_t ms = 0;

    if (!exec)
        return;
    if (atoll_api_query_u64(call, "timeoutMs", 0, WAIT_MAX_MS, &ms, &error) < 0)
        atoll_api_fail(call, &error);
    else
        wait_for(call, exec, ms, 0);
}

/* Signals. */

/* "SIGTERM", "TERM"; 0: there is no such signal. */
static int signal_of(const char *name)
{
    const char *abbreviation;

    if (strncmp(name, "SIG", 3) == 0)
        name += 3;
    for (int i = 1; i < NSIG; i++) {
        abbreviation = sigabbrev_np(i);
        if (abbreviation && strcmp(abbreviation, name) == 0)
            return i;
    }
    return 0;
}

struct request {
    const char *signal, *escalate_to;
    uint32_t after_ms;
    struct atoll_api_call *call;
    int number, second;
    char exec_id[17];
};

static void first_sent(void *arg, const struct atoll_error *error)
{
    struct request *q = arg;
    struct atoll_api_call *call = q->call;
    struct atoll_exec *exec = atoll_toolbox_find_exec(call, q->exec_id);
    uint32_t after_ms = q->after_ms;
    int second = q->second;

    free(q);
    if (error || after_ms == 0 || !exec || !call->req)
        signaled(call, error);
    else
        wait_for(call, exec, after_ms, second);
}

void atoll_daytona_process_signal(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
#define AT(member) offsetof(struct request, member)
    static const struct atoll_field fields[] = {
        {"signal", ATOLL_FIELD_STRING, AT(signal), 0, 32, NULL, 0},
        {"escalateTo", ATOLL_FIELD_STRING, AT(escalate_to), 0, 32, NULL, 0},
        {"escalateAfterMs", ATOLL_FIELD_U32, AT(after_ms), 0, ESCALATE_MAX_MS, NULL, 0},
        ATOLL_FIELDS_TOLERANT,
        {0},
    };
#undef AT
    struct request *q = atoll_api_alloc(sizeof(*q));
    struct atoll_exec_view view;
    struct atoll_body body;
    struct atoll_exec *exec;

    if (!atoll_toolbox_decode(call, &body, bytes, n, fields, q)) {
        free(q);
        return;
    }
    q->call = call;
    q->number = signal_of(q->signal ? q->signal : "SIGTERM");
    q->second = signal_of(q->escalate_to ? q->escalate_to : "SIGKILL");
    atoll_body_done(&body);
    exec = atoll_toolbox_process_find(call, &view);
    if (exec && q->number && q->second) {
        (void)snprintf(q->exec_id, sizeof(q->exec_id), "%s", view.id);
        atoll_exec_signal(exec, q->number, true, ATOLL_TOOLBOX_WHO, first_sent, q);
        return;
    }
    if (exec)
        atoll_daytona_refuse(call, 400, ATOLL_TOOLBOX_BAD_BODY, "there is no such signal");
    free(q);
}
