#include "api/errors.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "engine/provider/providers.h"

/* First match wins; errnum 0 matches any. */
static const struct {
    enum atoll_error_kind kind;
    int errnum;
    int status;
    const char *hint;
} rows[] = {
    {ATOLL_ERR_CANCELED, 0, 499, NULL},
    {ATOLL_ERR_INVALID_ARGUMENT, 0, 400, NULL},
    {ATOLL_ERR_DEADLINE_EXCEEDED, 0, 504,
     "try again, or allow more time; see docs/troubleshooting.md"},
    {ATOLL_ERR_NOT_FOUND, 0, 404, NULL},
    {ATOLL_ERR_ALREADY_EXISTS, 0, 409, "choose another name, or remove what is there"},
    {ATOLL_ERR_PERMISSION_DENIED, 0, 403, NULL},
    {ATOLL_ERR_RESOURCE_EXHAUSTED, ENOSPC, 507,
     "delete files in the sandbox, or create it with a larger limits.diskMB or limits.inodes"},
    {ATOLL_ERR_RESOURCE_EXHAUSTED, EDQUOT, 507,
     "delete files in the sandbox, or create it with a larger limits.diskMB or limits.inodes"},
    {ATOLL_ERR_RESOURCE_EXHAUSTED, EMSGSIZE, 413, "send a smaller body, or in several requests"},
    {ATOLL_ERR_RESOURCE_EXHAUSTED, ETIME, 429,
     "create a sandbox with a larger lifetime.cpuSeconds or lifetime.outputBytes"},
    {ATOLL_ERR_RESOURCE_EXHAUSTED, 0, 429, "free what is no longer needed, or try again later"},
    {ATOLL_ERR_FAILED_PRECONDITION, 0, 409, NULL},
    {ATOLL_ERR_ABORTED, 0, 409, "try again"},
    {ATOLL_ERR_OUT_OF_RANGE, 0, 400, NULL},
    {ATOLL_ERR_UNIMPLEMENTED, 0, 501, NULL},
    {ATOLL_ERR_UNAVAILABLE, 0, 503, "try again in a moment"},
    {ATOLL_ERR_UNAUTHENTICATED, 0, 401,
     "send a key as \"Authorization: Bearer KEY\" or \"X-API-Key: KEY\": the one in the file api-key "
     "of the daemon's state directory, or one from atoll key create"},
    {ATOLL_ERR_INTERNAL, 0, 500, "look for the request id in the daemon's log"},
};

static size_t find_row(const struct atoll_error *error)
{
    size_t i = 0;

    /* The last row also covers kinds without a row of their own, which clients should never see. */
    while (
        i + 1 < ATOLL_ARRAY_LEN(rows) &&
        (rows[i].kind != error->kind || (rows[i].errnum != 0 && rows[i].errnum != error->errnum)))
        i++;
    return i;
}

int atoll_api_status_of(const struct atoll_error *error)
{
    return rows[find_row(error)].status;
}

const char *atoll_api_hint_of(const struct atoll_error *error)
{
    size_t row = find_row(error);

    /* An internal error is only in the log; its own hint is hidden as well. */
    if (rows[row].status == 500)
        return rows[row].hint;
    if (*error->hint)
        return error->hint;
    /* Omit the hint if the text already says it. */
    return strstr(error->text, "try again") ? NULL : rows[row].hint;
}

/* The errno, for programs that need more detail than the code. Omitted for invalid arguments,
 * where the text is exact, and for authentication failures, which reveal no reason. */
static void write_evidence(struct atoll_json_out *out, const struct atoll_error *error)
{
    const char *name = error->errnum > 0 ? strerrorname_np(error->errnum) : NULL;

    if (!name || error->kind == ATOLL_ERR_INVALID_ARGUMENT ||
        error->kind == ATOLL_ERR_UNAUTHENTICATED)
        return;
    atoll_json_open(out, "evidence", '{');
    atoll_json_text(out, "errno", name);
    atoll_json_close(out, '}');
}

static void write_hint(struct atoll_json_out *out, const char *hint, const char *file)
{
    const char *name = file && *file ? strstr(hint, ATOLL_PROVIDERS_FILE) : NULL;
    ATOLL_AUTOFREE char *whole = NULL;

    if (name && asprintf(&whole, "%.*s%s%s", (int)(name - hint), hint, file,
                         name + strlen(ATOLL_PROVIDERS_FILE)) < 0)
        whole = NULL;
    atoll_json_text(out, "hint", whole ? whole : hint);
}

void atoll_api_error_write(struct atoll_json_out *out, const struct atoll_error *error,
                           const char *request_id, const char *file)
{
    bool is_internal = atoll_api_status_of(error) == 500;
    const char *hint = atoll_api_hint_of(error);

    atoll_json_open(out, "error", '{');
    atoll_json_text(out, "code",
                    atoll_error_kind_name(is_internal ? ATOLL_ERR_INTERNAL : error->kind));
    atoll_json_text(out, "message", is_internal ? "internal error of the daemon" : error->text);
    if (hint)
        write_hint(out, hint, file);
    atoll_json_text(out, "request_id", request_id);
    if (!is_internal)
        write_evidence(out, error);
    atoll_json_close(out, '}');
}
