#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/rand.h"
#include "engine/engine.h"
#include "engine/json_memory.h"
#include "guard/guard_internal.h"
#include "guard/redact.h"

/*
 * The life of a call: rules, interceptors, rules again if an interceptor has changed the arguments, a human if one of
 * them asks; then the tool; then interceptors again, for the result. The strictest of all verdicts holds.
 */

#define NO_POLICY "no policy"

static void call_free(struct atoll_guard_call *call)
{
    if (call->gone)
        *call->gone = true;
    atoll_guard_hook_drop(call);
    atoll_timer_cancel(&call->timer);
    atoll_list_remove(&call->node);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(call->policies); i++)
        (void)atoll_guard_policy_free(call->policies[i]);
    json_decref(call->args);
    json_decref(call->data);
    free(call->text);
    free(call->shown);
    free(call);
}

/* The record of a call that has ended cannot fail it any more. */
static void record_end(struct atoll_guard_call *call, const char *state, const char *reason,
                       size_t result_bytes)
{
    struct atoll_error err;

    call->state = state;
    if (atoll_guard_record(call, reason, result_bytes, &err) < 0)
        atoll_log(ATOLL_LOG_ERROR, "record of a tool call not written", "call", call->id, "error",
                  err.text, NULL);
}

static void fail(struct atoll_guard_call *call, const struct atoll_error *error)
{
    const struct atoll_guard_ops *ops = call->ops;
    void *arg = call->arg;

    call_free(call);
    ops->decided(arg, NULL, error);
}

/* --- decisions --- */

static void decided(struct atoll_guard_call *call)
{
    struct atoll_error error;

    call->decided_ms = atoll_clock_ms();
    if (call->decision.verdict != ATOLL_GUARD_DENY) {
        call->verdict = "allow";
        call->state = "running";
        if (atoll_guard_record(call, call->decision.reason, 0, &error) < 0)
            fail(call, &error); /* no call without a record */
        else
            call->ops->decided(call->arg, call, NULL);
        return;
    }
    call->verdict = "deny";
    record_end(call, "denied", call->decision.reason, 0);
    (void)atoll_fail(&error, ATOLL_ERR_PERMISSION_DENIED, EPERM,
                     "this call is not allowed (%s): %s", call->decision.by, call->decision.reason);
    fail(call, &error);
}

static void stricter(struct atoll_guard_call *call, const struct atoll_guard_decision *other)
{
    if (other->verdict > call->decision.verdict)
        call->decision = *other;
}

static void deny(struct atoll_guard_call *call, const char *by, const char *reason)
{
    call->decision.verdict = ATOLL_GUARD_DENY;
    (void)snprintf(call->decision.by, sizeof(call->decision.by), "%s", by);
    (void)snprintf(call->decision.reason, sizeof(call->decision.reason), "%s", reason);
}

/* What the rules of both policies say about the arguments as they are now. */
static int apply_rules(struct atoll_guard_call *call, struct atoll_error *err)
{
    static const char *const whose[] = {"policy of the tenant", "policy of the sandbox"};
    struct atoll_guard_subject subject;
    int r = call->ops->describe(call->arg, call->args, &subject, err);

    for (size_t i = 0; r == 0 && i < ATOLL_ARRAY_LEN(call->policies); i++) {
        struct atoll_guard_decision one;
        char by[sizeof(one.by)];

        if (!call->policies[i])
            continue;
        atoll_guard_decide(call->policies[i], &subject, &one);
        (void)snprintf(by, sizeof(by), "%s, %.32s", whose[i], one.by);
        memcpy(one.by, by, sizeof(by));
        if (one.verdict > call->decision.verdict || strcmp(call->decision.by, NO_POLICY) == 0)
            call->decision = one;
    }
    return r;
}

/* --- humans --- */

static void expired(void *arg)
{
    struct atoll_guard_call *call = arg;
    char reason[sizeof(call->decision.reason)];

    (void)snprintf(reason, sizeof(reason),
                   "no user allowed it in time: %.120s. Try again, and have it allowed meanwhile "
                   "with: atoll approvals --watch",
                   call->decision.reason);
    atoll_guard_call_answer(call, false, "timeout", reason);
}

static uint32_t ask_seconds(const struct atoll_guard_call *call)
{
    uint32_t seconds = 0;

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(call->policies); i++) {
        uint32_t own = call->policies[i] ? atoll_guard_policy_ask_s(call->policies[i]) : 0;

        if (own && (!seconds || own < seconds))
            seconds = own;
    }
    return seconds ? seconds : ATOLL_GUARD_ASK_S;
}

static bool queue_is_full(const struct atoll_guard_call *call)
{
    const struct atoll_list *head = &call->guard->waiting;
    size_t all = 0, own = 0;

    for (const struct atoll_list *node = head->next; node != head; node = node->next) {
        const struct atoll_guard_call *other =
            ATOLL_CONTAINER_OF(node, struct atoll_guard_call, node);

        own += strcmp(other->tenant, call->tenant) == 0;
        all++;
    }
    return all >= ATOLL_GUARD_WAITING_MAX || own >= ATOLL_GUARD_WAITING_TENANT_MAX;
}

static void ask(struct atoll_guard_call *call)
{
    struct atoll_guard *guard = call->guard;
    uint32_t seconds = ask_seconds(call);
    struct atoll_error error;

    if (queue_is_full(call) || guard->draining) {
        deny(call, "queue",
             guard->draining ? "the daemon is being stopped"
                             : "too many calls wait for approval: answer them first");
        decided(call);
        return;
    }
    call->state = "waiting";
    call->verdict = "ask";
    if (atoll_guard_record(call, call->decision.reason, 0, &error) < 0) {
        fail(call, &error);
        return;
    }
    call->expires_unix_ms = atoll_clock_unix_ms() + (int64_t)seconds * 1000;
    atoll_list_push_back(&guard->waiting, &call->node);
    atoll_timer_set(&call->timer, guard->config.loop, (int64_t)seconds * 1000, expired, call);
    atoll_engine_emit(guard->config.engine, call->sandbox_id, "approval.requested", call->id);
}

void atoll_guard_call_answer(struct atoll_guard_call *call, bool allow, const char *by,
                             const char *reason)
{
    static const char *const said[] = {"it was denied", "it was allowed"};

    atoll_timer_cancel(&call->timer);
    atoll_list_remove(&call->node);
    call->decision.verdict = allow ? ATOLL_GUARD_ALLOW : ATOLL_GUARD_DENY;
    (void)snprintf(call->decision.by, sizeof(call->decision.by), "approval: %.50s", by);
    (void)snprintf(call->decision.reason, sizeof(call->decision.reason), "%s",
                   reason && *reason ? reason : said[allow]);
    atoll_engine_emit(call->guard->config.engine, call->sandbox_id, "approval.answered", call->id);
    decided(call);
}

/* --- interceptors --- */

/* After the last interceptor of the first phase. */
static void conclude(struct atoll_guard_call *call)
{
    struct atoll_error error;
    char *shown;

    if (call->changed) {
        shown = atoll_guard_redact(call->args);
        if (shown) {
            free(call->shown);
            call->shown = shown;
        }
        if (apply_rules(call, &error) < 0) {
            deny(call, "interceptor", error.text);
            decided(call);
            return;
        }
    }
    if (call->decision.verdict == ATOLL_GUARD_ASK)
        ask(call);
    else
        decided(call);
}

static void finish(struct atoll_guard_call *call)
{
    const struct atoll_guard_ops *ops = call->ops;
    char *text = call->text;
    json_t *data = call->data;
    bool is_error = call->is_error, changed = call->result_changed;
    void *arg = call->arg;

    record_end(call, "done", call->decision.reason, strlen(text));
    call->text = NULL;
    call->data = NULL;
    call_free(call);
    ops->finished(arg, text, data, is_error, changed);
    json_decref(data);
    free(text);
}

static void go_on(struct atoll_guard_call *call)
{
    bool stops = call->phase == ATOLL_GUARD_BEFORE && call->decision.verdict == ATOLL_GUARD_DENY;

    if (!stops && atoll_guard_hook_next(call))
        return;
    if (call->phase == ATOLL_GUARD_AFTER)
        finish(call);
    else
        conclude(call);
}

static void replace_text(struct atoll_guard_call *call, const char *text)
{
    char *copy = strdup(text);

    if (!copy)
        abort();
    free(call->text);
    call->text = copy;
    call->result_changed = call->phase == ATOLL_GUARD_AFTER;
}

static void withhold(struct atoll_guard_call *call, const char *name, const char *reason)
{
    char text[500];

    (void)snprintf(text, sizeof(text), "The result was withheld by %.64s: %.300s", name, reason);
    replace_text(call, text);
    json_decref(call->data);
    call->data = NULL;
    call->is_error = true;
}

/* A text that is replaced takes the data with it, which has the same content. */
static void take_result(struct atoll_guard_call *call, const json_t *result)
{
    const char *text = json_string_value(json_object_get(result, "text"));
    json_t *data = json_object_get(result, "data");
    const json_t *is_error = json_object_get(result, "is_error");

    if (text)
        replace_text(call, text);
    if (text || json_is_object(data)) {
        json_decref(call->data);
        call->data = json_is_object(data) ? json_incref(data) : NULL;
    }
    if (json_is_boolean(is_error))
        call->is_error = json_is_true(is_error);
}

static int take_arguments(struct atoll_guard_call *call, const json_t *given,
                          struct atoll_error *err)
{
    json_t *args;
    int r;

    if (!json_is_object(given))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "arguments is not an object");
    args = json_deep_copy(given);
    r = args ? call->ops->check(call->arg, args, err) : atoll_fail_errno(err, ENOMEM, "arguments");
    if (r < 0) {
        json_decref(args);
        return r;
    }
    json_decref(call->args);
    call->args = args;
    call->changed = true;
    return 0;
}

/* An answer of the first phase. */
static int take_decision(struct atoll_guard_call *call, const char *name, const json_t *answer,
                         struct atoll_error *err)
{
    const char *verdict = json_string_value(json_object_get(answer, "decision"));
    const char *reason = json_string_value(json_object_get(answer, "reason"));
    const json_t *args = json_object_get(answer, "arguments");
    struct atoll_guard_decision one = {.verdict = ATOLL_GUARD_ALLOW};

    if (json_object_get(answer, "decision") &&
        atoll_guard_verdict_by_name(verdict, &one.verdict) < 0)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "decision is not allow, ask or deny");
    if (args && !json_is_null(args) && one.verdict != ATOLL_GUARD_DENY) {
        int r = take_arguments(call, args, err);

        if (r < 0)
            return r;
    }
    (void)snprintf(one.by, sizeof(one.by), "interceptor %.48s", name);
    (void)snprintf(one.reason, sizeof(one.reason), "%.290s",
                   reason && *reason ? reason : "it gave no reason");
    stricter(call, &one);
    return 0;
}

void atoll_guard_hook_answered(struct atoll_guard_call *call, const char *name, bool fails_open,
                               const json_t *answer, const struct atoll_error *error)
{
    const char *verdict = json_string_value(json_object_get(answer, "decision"));
    const char *reason = json_string_value(json_object_get(answer, "reason"));
    struct atoll_error err;
    char by[64];
    int r = 0;

    (void)snprintf(by, sizeof(by), "interceptor %.48s", name);
    if (!error && call->phase == ATOLL_GUARD_BEFORE) {
        r = take_decision(call, name, answer, &err);
        error = r < 0 ? &err : NULL;
    } else if (!error && verdict && strcmp(verdict, "deny") == 0) {
        withhold(call, by, reason ? reason : "it gave no reason");
    } else if (!error) {
        take_result(call, json_object_get(answer, "result"));
    }
    if (error && !fails_open && call->phase == ATOLL_GUARD_BEFORE)
        deny(call, by, error->text);
    else if (error && !fails_open)
        withhold(call, by, error->text);
    else if (error)
        atoll_log(ATOLL_LOG_WARN, "interceptor failed, the call goes on", "interceptor", name,
                  "error", error->text, NULL);
    go_on(call);
}

/* --- calls --- */

static int begin(struct atoll_guard_call *call, const struct atoll_guard_request *request,
                 struct atoll_error *err)
{
    struct atoll_guard_policy *tenants = atoll_guard_tenant_policy(call->guard, request->tenant);
    struct atoll_guard_subject subject;
    json_t *json;
    int r = call->ops->describe(call->arg, call->args, &subject, err);

    if (r < 0)
        return r;
    (void)snprintf(call->tool, sizeof(call->tool), "%s",
                   subject.tool ? subject.tool : subject.mcp_name);
    call->shown = atoll_guard_redact(call->args);
    if (!call->shown)
        return atoll_fail_errno(err, ENOMEM, "arguments");
    if (tenants)
        call->policies[0] = atoll_guard_policy_ref(tenants);
    json = atoll_json_load_own(request->sandbox_policy);
    if (json)
        r = atoll_guard_policy_parse(json, &call->policies[1], err);
    json_decref(json);
    (void)snprintf(call->decision.by, sizeof(call->decision.by), NO_POLICY);
    return r < 0 ? r : apply_rules(call, err);
}

struct atoll_guard_call *atoll_guard_call_begin(struct atoll_guard *guard,
                                                const struct atoll_guard_request *request)
{
    struct atoll_guard_call *call = atoll_alloc(sizeof(*call));
    struct atoll_error error;
    bool gone = false;

    *call = (struct atoll_guard_call){
        .guard = guard,
        .args = json_incref(request->args),
        .ops = request->ops,
        .arg = request->arg,
        .state = "running",
        .verdict = "allow",
        .started_unix_ms = atoll_clock_unix_ms(),
        .started_ms = atoll_clock_ms(),
    };
    atoll_rand_id(call->id, sizeof(call->id));
    (void)snprintf(call->tenant, sizeof(call->tenant), "%s", request->tenant);
    (void)snprintf(call->sandbox_id, sizeof(call->sandbox_id), "%s", request->sandbox_id);
    if (begin(call, request, &error) < 0) {
        fail(call, &error);
        return NULL;
    }
    call->gone = &gone;
    go_on(call);
    if (gone)
        return NULL;
    call->gone = NULL;
    return call;
}

json_t *atoll_guard_call_args(const struct atoll_guard_call *call)
{
    return call->args;
}

void atoll_guard_call_end(struct atoll_guard_call *call, const char *text, const json_t *data,
                          bool is_error)
{
    replace_text(call, text);
    call->data = data ? json_incref((json_t *)data) : NULL;
    call->is_error = is_error;
    call->phase = ATOLL_GUARD_AFTER;
    call->hook = 0;
    go_on(call);
}

void atoll_guard_call_fail(struct atoll_guard_call *call, const struct atoll_error *error)
{
    call->is_error = true;
    record_end(call, "failed", error->text, 0);
    call_free(call);
}

void atoll_guard_call_drop(struct atoll_guard_call *call)
{
    bool waited = !call->decided_ms;

    if (waited) {
        call->verdict = "deny";
        (void)snprintf(call->decision.by, sizeof(call->decision.by), "client");
        if (call->node.next)
            atoll_engine_emit(call->guard->config.engine, call->sandbox_id, "approval.answered",
                              call->id);
    }
    record_end(call, "canceled",
               waited ? "the client went away before it was decided; it did not run"
                      : "the client went away",
               0);
    call_free(call);
}
