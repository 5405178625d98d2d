#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "guard/guard_internal.h"
#include "guard/redact.h"
#include "store/tool_calls.h"

/*
 * Records: a row is written before a call runs or waits, and again when it has ended. And the queue of calls that wait
 * for a human, which is the list of those that do.
 */
#define PRUNE_EVERY 64

static const struct atoll_store_tool_calls_most most = {.of_sandbox = 1000,
                                                        .of_tenant = 20000,
                                                        .all = 200000};

/* The reason may have been written by a model or a webhook. */
static void make_printable(const char *text, char *out, size_t cap)
{
    size_t n = 0;

    for (; *text && n + 1 < cap; text++)
        out[n++] = (unsigned char)*text < ' ' ? ' ' : *text;
    out[n] = '\0';
    while (n > 0 && ((unsigned char)out[n - 1] & 0xc0) == 0x80 && n + 1 >= cap)
        out[--n] = '\0';
}

int atoll_guard_record(struct atoll_guard_call *call, const char *reason, size_t result_bytes,
                       struct atoll_error *err)
{
    struct atoll_guard *guard = call->guard;
    int64_t now = atoll_clock_ms();
    char text[400];
    struct atoll_store_tool_call row = {
        .id = call->id,
        .tenant = call->tenant,
        .sandbox_id = call->sandbox_id,
        .tool = call->tool,
        .arguments = call->shown,
        .state = call->state,
        .decision = call->verdict,
        .decided_by = call->decision.by,
        .reason = text,
        .is_error = call->is_error,
        .result_bytes = result_bytes,
        .started_unix_ms = call->started_unix_ms,
        .waited_ms = (call->decided_ms ? call->decided_ms : now) - call->started_ms,
        .duration_ms = call->decided_ms ? now - call->decided_ms : 0,
    };
    bool is_new = call->number == 0;
    int r;

    make_printable(reason, text, sizeof(text));
    if (is_new)
        call->number = ++guard->number;
    row.number = call->number;
    r = atoll_store_put_tool_call(guard->config.store, &row, err);
    if (r == 0 && is_new && ++guard->unpruned >= PRUNE_EVERY) {
        guard->unpruned = 0;
        r = atoll_store_prune_tool_calls(guard->config.store, call->tenant, call->sandbox_id, &most,
                                         err);
    }
    return r;
}

/* --- the queue --- */

static void view(const struct atoll_guard_call *call, struct atoll_guard_approval *ret)
{
    *ret = (struct atoll_guard_approval){
        .id = call->id,
        .tenant = call->tenant,
        .sandbox_id = call->sandbox_id,
        .tool = call->tool,
        .arguments = call->shown,
        .by = call->decision.by,
        .reason = call->decision.reason,
        .asked_unix_ms = call->started_unix_ms,
        .expires_unix_ms = call->expires_unix_ms,
    };
}

bool atoll_guard_next_approval(const struct atoll_guard *guard, const char *tenant, size_t *pos,
                               struct atoll_guard_approval *ret)
{
    size_t at = 0;

    for (const struct atoll_list *node = guard->waiting.next; node != &guard->waiting;
         node = node->next, at++) {
        const struct atoll_guard_call *call =
            ATOLL_CONTAINER_OF(node, struct atoll_guard_call, node);

        if (at < *pos || (tenant && strcmp(call->tenant, tenant) != 0))
            continue;
        *pos = at + 1;
        view(call, ret);
        return true;
    }
    return false;
}

static struct atoll_guard_call *find(const struct atoll_guard *guard, const char *id)
{
    for (struct atoll_list *node = guard->waiting.next; node != &guard->waiting;
         node = node->next) {
        struct atoll_guard_call *call = ATOLL_CONTAINER_OF(node, struct atoll_guard_call, node);

        if (strcmp(call->id, id) == 0)
            return call;
    }
    return NULL;
}

static int not_found(const char *id, struct atoll_error *err)
{
    return atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT, "no call %.32s waits for an approval", id);
}

int atoll_guard_find_approval(const struct atoll_guard *guard, const char *id,
                              struct atoll_guard_approval *ret, struct atoll_error *err)
{
    const struct atoll_guard_call *call = find(guard, id);

    if (!call)
        return not_found(id, err);
    view(call, ret);
    return 0;
}

static int say_how(void *arg, const struct atoll_store_tool_call *row, struct atoll_error *err)
{
    const char **id = arg;

    *id = NULL;
    return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EALREADY,
                      "call %s is decided already: %s, by %s", row->id, row->decision,
                      row->decided_by);
}

int atoll_guard_answer(struct atoll_guard *guard, const char *id, bool allow, const char *by,
                       const char *reason, struct atoll_error *err)
{
    struct atoll_guard_call *call = find(guard, id);
    const char *wanted = id;
    int r;

    if (call) {
        atoll_guard_call_answer(call, allow, by, reason);
        return 0;
    }
    r = atoll_store_find_tool_call(guard->config.store, id, say_how, &wanted, err);
    return r == 0 ? not_found(id, err) : r;
}

int atoll_guard_each_record(const struct atoll_guard *guard, const char *tenant,
                            const char *sandbox_id, int64_t before, uint32_t count,
                            atoll_guard_record_fn *fn, void *arg, struct atoll_error *err)
{
    return atoll_store_each_tool_call(guard->config.store, tenant, sandbox_id, before, count, fn,
                                      arg, err);
}

int atoll_guard_find_record(const struct atoll_guard *guard, const char *id,
                            atoll_guard_record_fn *fn, void *arg, struct atoll_error *err)
{
    return atoll_store_find_tool_call(guard->config.store, id, fn, arg, err);
}
