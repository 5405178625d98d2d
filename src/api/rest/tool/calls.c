/* Records of calls of tools, newest first; and calls that wait for a human. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "api/api_internal.h"
#include "api/fields.h"
#include "api/rest/rest_internal.h"
#include "base/text.h"
#include "guard/guard.h"
#include "store/tool_calls.h"

#define LIMIT_DEFAULT 100
#define LIMIT_MAX 1000

static struct atoll_guard *guard_of(const struct atoll_api_call *call)
{
    return call->api->config.guard;
}

static void write_record(struct atoll_json_out *out, const char *key,
                         const struct atoll_store_tool_call *row)
{
    atoll_json_open(out, key, '{');
    atoll_json_text(out, "id", row->id);
    atoll_json_text_or_null(out, "sandbox_id", row->sandbox_id);
    atoll_json_text(out, "tool", row->tool);
    atoll_json_raw(out, "arguments", row->arguments);
    atoll_json_text(out, "state", row->state);
    atoll_json_text(out, "decision", row->decision);
    atoll_json_text(out, "decided_by", row->decided_by);
    atoll_json_text_or_null(out, "reason", row->reason);
    atoll_json_bool(out, "is_error", row->is_error);
    atoll_json_u64(out, "result_bytes", row->result_bytes);
    atoll_json_time(out, "started_at", row->started_unix_ms);
    atoll_json_i64(out, "waited_ms", row->waited_ms);
    atoll_json_i64(out, "duration_ms", row->duration_ms);
    atoll_json_close(out, '}');
}

struct page {
    struct atoll_json_out *out;
    uint64_t left;
    int64_t last;
    bool more;
};

static int add_record(void *arg, const struct atoll_store_tool_call *row,
                      struct atoll_error *err ATOLL_UNUSED)
{
    struct page *page = arg;

    if (page->left == 0) {
        page->more = true;
        return 0;
    }
    page->left--;
    page->last = row->number;
    write_record(page->out, NULL, row);
    return 0;
}

/* sandbox_id NULL: all of the tenant. The cursor is the number of the last record shown. */
static void list(struct atoll_api_call *call, const char *sandbox_id)
{
    uint64_t limit = LIMIT_DEFAULT, before = INT64_MAX;
    struct atoll_json_out out;
    struct atoll_error error;
    struct atoll_buf buf;
    struct page page = {.out = &out};
    char cursor[24];
    int r = atoll_api_query_u64(call, "limit", 1, LIMIT_MAX, &limit, &error);

    if (r == 0)
        r = atoll_api_query_u64(call, "cursor", 1, INT64_MAX, &before, &error);
    if (!atoll_api_reply_begin(call, r < 0 ? &error : NULL, &buf, &out))
        return;
    page.left = limit;
    atoll_json_open(&out, NULL, '{');
    atoll_json_open(&out, "calls", '[');
    r = atoll_guard_each_record(guard_of(call), call->caller.tenant, sandbox_id, (int64_t)before,
                                (uint32_t)limit + 1, add_record, &page, &error);
    if (r < 0) {
        atoll_buf_done(&buf);
        atoll_api_fail(call, &error);
        return;
    }
    atoll_json_close(&out, ']');
    (void)snprintf(cursor, sizeof(cursor), "%lld", (long long)page.last);
    atoll_json_text_or_null(&out, "next_cursor", page.more ? cursor : "");
    atoll_json_close(&out, '}');
    atoll_api_reply(call, 200, &out);
}

void atoll_rest_tool_calls(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                           size_t n ATOLL_UNUSED)
{
    list(call, NULL);
}

void atoll_rest_sandbox_tool_calls(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                                   size_t n ATOLL_UNUSED)
{
    list(call, call->params.id);
}

/* Approvals. */

static void write_approval(struct atoll_json_out *out, const char *key,
                           const struct atoll_guard_approval *a)
{
    atoll_json_open(out, key, '{');
    atoll_json_text(out, "id", a->id);
    atoll_json_text_or_null(out, "sandbox_id", a->sandbox_id);
    atoll_json_text(out, "tool", a->tool);
    atoll_json_raw(out, "arguments", a->arguments);
    atoll_json_text(out, "state", "waiting");
    atoll_json_text(out, "asked_by", a->by);
    atoll_json_text(out, "reason", a->reason);
    atoll_json_time(out, "asked_at", a->asked_unix_ms);
    atoll_json_time(out, "expires_at", a->expires_unix_ms);
    atoll_json_close(out, '}');
}

void atoll_rest_approval_list(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                              size_t n ATOLL_UNUSED)
{
    struct atoll_guard_approval a;
    struct atoll_json_out out;
    struct atoll_buf buf;
    size_t pos = 0;

    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '{');
    atoll_json_open(&out, "approvals", '[');
    while (atoll_guard_next_approval(guard_of(call), atoll_api_list_tenant(call), &pos, &a))
        write_approval(&out, NULL, &a);
    atoll_json_close(&out, ']');
    atoll_json_close(&out, '}');
    atoll_api_reply(call, 200, &out);
}

struct found {
    struct atoll_api_call *call;
    struct atoll_json_out *out;
    bool seen;
};

static int show_record(void *arg, const struct atoll_store_tool_call *row,
                       struct atoll_error *err ATOLL_UNUSED)
{
    struct found *found = arg;

    if (!atoll_api_sees(found->call, row->tenant))
        return 0;
    found->seen = true;
    write_record(found->out, NULL, row);
    return 0;
}

static int not_found(const struct atoll_api_call *call, struct atoll_error *err)
{
    return atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT, "approval %.64s does not exist",
                      call->params.name);
}

/* One that waits, or the record of one that is decided. */
static void reply_approval(struct atoll_api_call *call)
{
    struct atoll_guard_approval a;
    struct atoll_json_out out;
    struct atoll_error error;
    struct atoll_buf buf;
    struct found found = {.call = call, .out = &out};
    int r = atoll_guard_find_approval(guard_of(call), call->params.name, &a, &error);

    atoll_api_reply_init(&buf, &out);
    if (r == 0 && atoll_api_sees(call, a.tenant)) {
        found.seen = true;
        write_approval(&out, NULL, &a);
    } else if (r < 0) {
        r = atoll_guard_find_record(guard_of(call), call->params.name, show_record, &found, &error);
    }
    if (r >= 0 && !found.seen)
        r = not_found(call, &error);
    if (r >= 0) {
        atoll_api_reply(call, 200, &out);
        return;
    }
    atoll_buf_done(&buf);
    atoll_api_fail(call, &error);
}

void atoll_rest_approval_get(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                             size_t n ATOLL_UNUSED)
{
    reply_approval(call);
}

static int see_record(void *arg, const struct atoll_store_tool_call *row,
                      struct atoll_error *err ATOLL_UNUSED)
{
    struct found *found = arg;

    found->seen = atoll_api_sees(found->call, row->tenant);
    return 0;
}

/* Whether the caller may see the call, whatever its state. */
static int check_seen(struct atoll_api_call *call, struct atoll_error *err)
{
    struct found found = {.call = call};
    int r = atoll_guard_find_record(guard_of(call), call->params.name, see_record, &found, err);

    return r < 0 || found.seen ? ATOLL_MIN(r, 0) : not_found(call, err);
}

void atoll_rest_approval_answer(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    struct {
        const char *decision, *reason;
    } q = {0};
    static const struct atoll_field fields[] = {
        {"decision", ATOLL_FIELD_STRING, 0, 1, 16, NULL, 0},
        {"reason", ATOLL_FIELD_STRING, sizeof(char *), 0, 200, NULL, 0},
        {0},
    };
    char by[64];
    struct atoll_body body;
    struct atoll_error error;
    int r = atoll_body_decode(&body, bytes, n, fields, &q, &error);
    bool allow = q.decision && strcmp(q.decision, "allow") == 0;

    if (r == 0 && !allow && (!q.decision || strcmp(q.decision, "deny") != 0))
        r = atoll_fail(&error, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                       "decision must be allow or deny");
    if (r == 0)
        r = check_seen(call, &error);
    if (*call->caller.key_id)
        (void)snprintf(by, sizeof(by), "key %.32s", call->caller.key_id);
    else
        (void)snprintf(by, sizeof(by), "uid %u", (unsigned)call->caller.uid);
    if (r == 0)
        r = atoll_guard_answer(guard_of(call), call->params.name, allow, by, q.reason, &error);
    if (r < 0)
        atoll_api_fail(call, &error);
    else
        reply_approval(call);
    atoll_body_done(&body);
}
