/*
 * Merges of forks into a sandbox, and tries.
 */
#include "engine/state/merge.h"
#include <errno.h>
#include <string.h>
#include "api/fields.h"
#include "api/rest/rest_internal.h"
#include "base/text.h"

#define TRIES_MAX 32

/* A report that is JSON already. */
static void reported(void *arg, const char *report_json, const struct atoll_error *error)
{
    struct atoll_buf buf;
    struct atoll_json_out out;

    if (!atoll_api_reply_begin(arg, error, &buf, &out))
        return;
    atoll_json_raw(&out, NULL, report_json);
    atoll_api_reply(arg, 200, &out);
}

struct merge_request {
    const char *const *from;
    const char *prefer;
    bool dry_run;
};

#define AT(member) offsetof(struct merge_request, member)
static const struct atoll_field merge_fields[] = {
    {"from", ATOLL_FIELD_STRINGS, AT(from), 1, ATOLL_MERGE_FORKS_MAX, NULL, 0},
    {"prefer", ATOLL_FIELD_STRING, AT(prefer), 1, 16, NULL, 0},
    {"dryRun", ATOLL_FIELD_BOOL, AT(dry_run), 0, 0, NULL, 0},
    {0},
};
#undef AT

static int check_merge(const struct merge_request *q, struct atoll_error *err)
{
    if (!q->from || !q->from[0])
        return atoll_fail(
            err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
            "from is missing: the ids of the sandboxes to merge, an array of strings");
    for (const char *const *id = q->from; *id; id++)
        if (!atoll_text_is_id(*id))
            return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                              "from must be ids of sandboxes");
    if (q->prefer && strcmp(q->prefer, "ours") != 0 && strcmp(q->prefer, "theirs") != 0)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "prefer must be \"ours\" or \"theirs\"");
    return 0;
}

void atoll_rest_sandbox_merge(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    struct merge_request q = {0};
    struct atoll_body body;
    struct atoll_error err;
    int r = atoll_body_decode(&body, bytes, n, merge_fields, &q, &err);

    if (r == 0)
        r = check_merge(&q, &err);
    if (r < 0)
        atoll_api_fail(call, &err);
    else
        atoll_engine_merge(
            call->engine, call->params.id,
            &(struct atoll_merge_request){.from = q.from, .prefer = q.prefer, .dry_run = q.dry_run},
            reported, call);
    atoll_body_done(&body);
}

#define AT(member) offsetof(struct atoll_try_request, member)
static const struct atoll_field try_fields[] = {
    {"cmd", ATOLL_FIELD_STRINGS, AT(argv), 1, 65536, NULL, 0},
    {"count", ATOLL_FIELD_U32, AT(count), 1, TRIES_MAX, NULL, 0},
    {"env", ATOLL_FIELD_ENV, AT(env), 0, 0, NULL, 0},
    {"user", ATOLL_FIELD_STRING, AT(user), 0, 64, NULL, 0},
    {"cwd", ATOLL_FIELD_STRING, AT(cwd), 0, 4095, NULL, 0},
    {"timeoutSeconds", ATOLL_FIELD_MILLI, AT(timeout_ms), 0, 86400, NULL, 0},
    {0},
};
#undef AT

void atoll_rest_sandbox_try(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    struct atoll_try_request q = {.count = 2};
    struct atoll_body body;
    struct atoll_error err;
    int r = atoll_body_decode(&body, bytes, n, try_fields, &q, &err);

    if (r == 0 && (!q.argv || !q.argv[0]))
        r = atoll_exec_refuse_empty(&err);
    if (r < 0)
        atoll_api_fail(call, &err);
    else
        atoll_engine_try(call->engine, call->params.id, &q, reported, call);
    atoll_body_done(&body);
}
