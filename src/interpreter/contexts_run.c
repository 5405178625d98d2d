/*
 * Executions: each is one request to the interpreter and the lines that answer it. Callbacks may
 * call any function, including those that abandon the execution or remove the context. After a
 * callback both are looked up again before use, and functions hold a reference to the context.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "interpreter/contexts_internal.h"
#include "interpreter/explain.h"

/* How long an interrupt may take before the interpreter is killed. */
#define INTERRUPT_GRACE_MS 5000
#define PAUSED_RETRY_MS 1000
#define WHO_INTERRUPTS "the daemon, to interrupt the code"
#define WHO_KILLS "the daemon, because the code could not be interrupted"

/* Calling the caller's callbacks. */

/* Takes ownership of json. */
static void emit(struct atoll_context *c, enum atoll_context_line_kind kind, char *json)
{
    ATOLL_AUTOFREE char *line = json;
    struct atoll_execution *e = c->current;

    if (kind == ATOLL_LINE_ERROR && e->failed)
        return;
    e->counted |= kind == ATOLL_LINE_COUNT;
    e->failed |= kind == ATOLL_LINE_ERROR;
    if (e->events.line)
        e->events.line(e->arg, kind, line, strlen(line));
}

/* Makes the last callback of an execution that is detached from its context, and frees it. */
static void report_end(struct atoll_execution *e, const struct atoll_error *error)
{
    if (e->events.ended)
        e->events.ended(e->arg, error);
    atoll_execution_free(e);
}

static struct atoll_execution *take_current(struct atoll_context *c)
{
    atoll_timer_cancel(&c->limit);
    atoll_timer_cancel(&c->interrupt_grace);
    c->interrupted = false;
    if (c->current)
        c->current->ending = true;
    return ATOLL_TAKE_PTR(c->current);
}

static struct atoll_execution *take_queued(struct atoll_context *c)
{
    struct atoll_execution *e;

    if (atoll_list_empty(&c->queue))
        return NULL;
    e = ATOLL_CONTAINER_OF(c->queue.next, struct atoll_execution, node);
    atoll_list_remove(&e->node);
    e->ending = true;
    c->queued--;
    return e;
}

static void describe_timeout(const struct atoll_context *c, char *out, size_t cap, const char *more)
{
    (void)snprintf(out, cap, "stopped after %.3f s, its time limit%s",
                   (double)(atoll_clock_ms() - c->current->started_ms) / 1000, more);
}

/* Interrupts and time limits. */

static bool is_paused(const struct atoll_context *c)
{
    struct atoll_sandbox *s = atoll_engine_peek(c->contexts->config.engine, c->sandbox_id);
    struct atoll_sandbox_view view;

    if (s)
        atoll_sandbox_get(s, &view);
    return s && view.state == ATOLL_SANDBOX_PAUSED;
}

static void interrupt_expired(void *arg)
{
    struct atoll_context *c = arg;

    /* The end line may be among the lines that were not delivered yet; a paused sandbox cannot
     * react. */
    if (c->current->paused || is_paused(c))
        atoll_timer_set(&c->interrupt_grace, c->contexts->config.loop, INTERRUPT_GRACE_MS,
                        interrupt_expired, c);
    else if (c->driver)
        atoll_driver_signal(c->driver, SIGKILL, true, WHO_KILLS);
}

void atoll_context_interrupt(struct atoll_context *c)
{
    if (c->interrupted || !c->driver)
        return;
    c->interrupted = true;
    atoll_driver_signal(c->driver, SIGINT, false, WHO_INTERRUPTS);
    atoll_timer_set(&c->interrupt_grace, c->contexts->config.loop, INTERRUPT_GRACE_MS,
                    interrupt_expired, c);
}

static void limit_expired(void *arg)
{
    struct atoll_context *c = arg;

    if (is_paused(c)) { /* the time limit does not run while paused */
        atoll_timer_set(&c->limit, c->contexts->config.loop, PAUSED_RETRY_MS, limit_expired, c);
        return;
    }
    c->current->timed_out = true;
    atoll_context_interrupt(c);
}

/* Running the queue. */

static void begin(struct atoll_context *c, struct atoll_execution *e)
{
    if (c->is_default && !c->is_used)
        atoll_engine_note_interpreter(c->contexts->config.engine, c->sandbox_id, c->language->name);
    c->is_used = true;
    c->current = e;
    e->ending = false;
    e->started_ms = atoll_clock_ms();
    memcpy(e->exec_id, c->exec_id, sizeof(e->exec_id));
    atoll_context_save(
        c, true); /* before the request is sent: the next daemon must know that code may run */
    if (e->timeout_ms > 0)
        atoll_timer_set(&c->limit, c->contexts->config.loop, e->timeout_ms, limit_expired, c);
    atoll_driver_set_resting(c->driver, false);
    atoll_driver_write(c->driver, e->request, e->request_len);
    atoll_shares_drop(&c->contexts->pending, c->owner, e->request_len);
    free(ATOLL_TAKE_PTR(e->request));
    e->request_len = 0;
}

void atoll_context_next(struct atoll_context *c)
{
    if (c->is_gone || c->current || atoll_list_empty(&c->queue))
        return;
    if (!c->driver)
        atoll_driver_start(c);
    else if (c->driver->ready)
        begin(c, take_queued(c));
}

static void finish(struct atoll_context *c)
{
    struct atoll_execution *e;
    char why[120];

    atoll_context_save(c, false);
    atoll_driver_set_resting(c->driver, true);
    if (c->current->timed_out && !c->current->failed) {
        describe_timeout(c, why, sizeof(why), "");
        emit(c, ATOLL_LINE_ERROR, atoll_line_make_error("TimedOut", why, ""));
    }
    e = take_current(c);
    if (e)
        report_end(e, NULL);
    atoll_context_next(c);
}

/* Reports once why the variables of earlier executions are lost. */
static void report_lost(struct atoll_context *c)
{
    char text[ATOLL_ARRAY_LEN(c->lost) + 100];

    if (!c->lost[0] || !c->current)
        return;
    (void)snprintf(text, sizeof(text),
                   "the interpreter had ended (%s): this is a new one, without its variables\n",
                   c->lost);
    c->lost[0] = '\0';
    emit(c, ATOLL_LINE_STDERR, atoll_line_make_stderr(text));
}

static void take_line(struct atoll_context *c, struct atoll_line *line)
{
    const struct atoll_execution *e = c->current;
    char *json = ATOLL_TAKE_PTR(line->json), *renamed;
    char why[120];

    if (line->kind == ATOLL_LINE_COUNT && e->counted) {
        free(json);
        return;
    }
    if (line->kind == ATOLL_LINE_ERROR && e->timed_out) {
        describe_timeout(c, why, sizeof(why), "");
        renamed = atoll_line_rename_error(json, line->len, "TimedOut", why);
        free(json);
        json = renamed;
    }
    if (line->kind == ATOLL_LINE_ERROR && e->is_command)
        json = atoll_line_hint_error(json);
    emit(c, line->kind, json);
    if (line->kind == ATOLL_LINE_COUNT)
        report_lost(c);
}

/* Once per execution: untrusted code could cause any number of warnings. */
static void warn(struct atoll_context *c, const char *text)
{
    if (!c->current || c->current->warned)
        return;
    c->current->warned = true;
    emit(c, ATOLL_LINE_STDERR, atoll_line_make_stderr(text));
}

void atoll_context_on_line(struct atoll_context *c, const char *bytes, size_t n)
{
    struct atoll_line line;

    if (!c->current || n == 0)
        return;
    c->refs++;
    switch (atoll_line_parse(bytes, n, c->current->id, &line)) {
    case ATOLL_DRIVER_LINE:
        take_line(c, &line);
        break;
    case ATOLL_DRIVER_END:
        finish(c);
        break;
    case ATOLL_DRIVER_NOISE:
        warn(c, "the interpreter sent an invalid line, which was dropped\n");
        break;
    case ATOLL_DRIVER_NO_MEMORY:
        atoll_driver_give_up(c->driver, ATOLL_WHO_NO_MEMORY);
        break;
    case ATOLL_DRIVER_OTHER:
    case ATOLL_DRIVER_READY:
    case ATOLL_DRIVER_FAILED:
        break;
    }
    atoll_line_done(&line);
    atoll_context_unref(c);
}

void atoll_context_on_long_line(struct atoll_context *c)
{
    if (c->current)
        emit(c, ATOLL_LINE_ERROR,
             atoll_line_make_error("OutputTooLong",
                                   "one piece of the output was longer than 32 MiB, or too many "
                                   "long ones were under way; it was left out",
                                   ""));
}

/* Start and end of the interpreter. */

static void call_waiters(struct atoll_context *c, const struct atoll_error *error)
{
    struct atoll_context_view view;

    while (!atoll_list_empty(&c->waiters)) {
        struct atoll_context_waiter *w =
            ATOLL_CONTAINER_OF(c->waiters.next, struct atoll_context_waiter, node);
        atoll_list_remove(&w->node);
        atoll_context_view(c, &view);
        if (w->made)
            w->made(w->arg, error ? NULL : &view, error);
        else
            w->done(w->arg, error);
        free(w);
    }
}

void atoll_context_ready(struct atoll_context *c)
{
    c->refs++;
    c->is_starting = false;
    atoll_context_save(c, false);
    atoll_driver_set_resting(c->driver, true);
    call_waiters(c, NULL);
    atoll_context_next(c);
    atoll_context_unref(c);
}

/* Ends all executions with this error. */
static void fail_all(struct atoll_context *c, const struct atoll_error *error)
{
    struct atoll_execution *e = take_current(c);
    struct atoll_list waiting;

    /* Executions that callbacks request meanwhile are not failed. */
    atoll_list_init(&waiting);
    for (struct atoll_execution *q; (q = take_queued(c));)
        atoll_list_push_back(&waiting, &q->node);
    if (e)
        report_end(e, error);
    while (!atoll_list_empty(&waiting)) {
        e = ATOLL_CONTAINER_OF(waiting.next, struct atoll_execution, node);
        atoll_list_remove(&e->node);
        report_end(e, error);
    }
}

void atoll_context_start_failed(struct atoll_context *c, const struct atoll_error *error)
{
    c->refs++;
    fail_all(c, error);
    call_waiters(c, error);
    atoll_context_unref(c);
}

/* Whether the sandbox has ended or is ending. */
static bool is_over(const struct atoll_context *c)
{
    struct atoll_sandbox *s = atoll_engine_peek(c->contexts->config.engine, c->sandbox_id);
    struct atoll_sandbox_view view;

    if (!s)
        return true;
    atoll_sandbox_get(s, &view);
    return view.state == ATOLL_SANDBOX_STOPPING || view.state == ATOLL_SANDBOX_FAILED;
}

static void explain_death(struct atoll_context *c, const struct atoll_exec_result *end,
                          const char *tail)
{
    struct atoll_session_error why;
    char value[1200];

    atoll_session_explain(NULL, end, NULL, 0, &why);
    if (end->kind == ATOLL_END_EXITED && end->code == 0)
        (void)snprintf(why.name, sizeof(why.name), "ExitCode");
    if (c->current->timed_out) {
        (void)snprintf(why.name, sizeof(why.name), "TimedOut");
        describe_timeout(c, why.value, sizeof(why.value), "");
    }
    (void)snprintf(value, sizeof(value),
                   "%s%sthe interpreter ended with the code, and its variables are gone", why.value,
                   why.value[0] ? "; " : "");
    emit(c, ATOLL_LINE_ERROR, atoll_line_make_error(why.name, value, tail));
}

void atoll_context_died(struct atoll_context *c, const struct atoll_exec_result *end,
                        const char *tail)
{
    struct atoll_execution *e;
    struct atoll_error error;

    if (c->is_pooled) { /* in a pooled sandbox: no client uses it */
        atoll_context_take_out(c);
        atoll_context_unref(c);
        return;
    }
    c->refs++;
    c->exec_id[0] = '\0';
    if (c->current)
        c->current->end = end;
    /* Remember the loss if no caller is told of it now. Also if the sandbox ends: it may be a stop,
     * after which the context is used again. */
    if (!c->current || !c->current->events.line)
        (void)snprintf(c->lost, sizeof(c->lost), "%s%s%.150s", atoll_end_kind_name(end->kind),
                       end->reason[0] ? ", by " : "", end->reason);
    if (is_over(c)) {
        (void)atoll_fail(&error, ATOLL_ERR_UNAVAILABLE, ESHUTDOWN, "sandbox %s has ended%s%.150s",
                         c->sandbox_id, end->reason[0] ? ": " : "", end->reason);
        fail_all(c, &error);
    } else {
        atoll_context_save(c, false);
        if (c->current)
            explain_death(c, end, tail);
        e = take_current(c);
        if (e)
            report_end(e, NULL);
        atoll_context_next(c);
    }
    atoll_context_unref(c);
}

static void abort_one(struct atoll_execution *e, const char *name, const char *why)
{
    ATOLL_AUTOFREE char *line = atoll_line_make_error(name, why, "");

    if (e->events.line && !e->failed)
        e->events.line(e->arg, ATOLL_LINE_ERROR, line, strlen(line));
    report_end(e, NULL);
}

void atoll_context_abort(struct atoll_context *c, const char *name, const char *why)
{
    struct atoll_execution *e = take_current(c);
    struct atoll_error error;

    c->refs++;
    (void)atoll_fail(&error, ATOLL_ERR_ABORTED, ECANCELED, "%s", why);
    do {
        if (e)
            abort_one(e, name, why);
    } while ((e = take_queued(c)));
    call_waiters(c, &error);
    atoll_context_unref(c);
}

/* After a restart the interpreter may run code whose caller is gone, or may not have received it.
 * SIGINT ends what runs; the answer to an empty request of our own shows that the interpreter is
 * idle again. An interpreter that got only a part of the old request cannot parse ours: it ends, or
 * is killed when the time to react is over. */
void atoll_context_settle(struct atoll_context *c)
{
    struct atoll_execution *e = atoll_execution_new(c);
    int n = asprintf(&e->request, "{\"id\":%llu,\"op\":\"execute\",\"code\":\"\",\"env\":{}}\n",
                     (unsigned long long)e->id);

    if (n < 0)
        abort(); /* a small fixed object: the daemon is crash-only */
    e->request_len = (size_t)n;
    atoll_shares_add(&c->contexts->pending, c->owner, e->request_len);
    begin(c, e);
    atoll_context_interrupt(c);
}
