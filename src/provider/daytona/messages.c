#include "provider/daytona/messages.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/text.h"

/* Answers. */

/* States of the service. Others, such as "creating", change by themselves. */
static const struct {
    const char *name;
    int state;
    bool gone;
} states[] = {
    {"started", ATOLL_REMOTE_RUNS, false},     {"paused", ATOLL_REMOTE_PAUSED, false},
    {"stopped", ATOLL_REMOTE_STOPPED, false},  {"archived", ATOLL_REMOTE_STOPPED, false},
    {"error", ATOLL_REMOTE_STOPPED, false},    {"build_failed", ATOLL_REMOTE_STOPPED, false},
    {"destroyed", ATOLL_REMOTE_STOPPED, true}, {"destroying", ATOLL_REMOTE_STOPPED, true},
};

static void take_state(const json_t *answer, struct atoll_daytona_remote *r)
{
    const char *state = json_string_value(json_object_get(answer, "state"));
    const char *reason = json_string_value(json_object_get(answer, "errorReason"));

    r->of.changing = true;
    for (size_t i = 0; state && i < ATOLL_ARRAY_LEN(states); i++)
        if (strcmp(state, states[i].name) == 0) {
            r->of.changing = false;
            r->of.state = states[i].state;
            r->gone = states[i].gone;
        }
    if (r->of.state == ATOLL_REMOTE_STOPPED && reason && *reason)
        atoll_remote_set_cause(&r->of, "reports an error: ", reason);
}

int atoll_daytona_read_remote(const json_t *answer, struct atoll_daytona_remote *ret,
                              struct atoll_error *err)
{
    struct atoll_daytona_remote r = {0};

    if (!atoll_remote_take_field(answer, "id", r.of.handle, sizeof(r.of.handle)) ||
        !r.of.handle[0] || !atoll_remote_is_made_of(r.of.handle, "-_") ||
        !atoll_remote_take_field(answer, "toolboxProxyUrl", r.toolbox, sizeof(r.toolbox)) ||
        !atoll_remote_is_token(r.toolbox))
        return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, EBADMSG,
                          "the service's answer does not describe a sandbox");
    take_state(answer, &r);
    if (!r.gone)
        atoll_remote_take_id(json_object_get(answer, "labels"), r.of.id);
    *ret = r;
    return 0;
}

json_t *atoll_daytona_read_list(json_t *answer, char *ret_cursor, size_t cap)
{
    if (!json_is_object(answer))
        return json_incref(answer);
    if (!atoll_remote_take_field(answer, "nextCursor", ret_cursor, cap))
        ret_cursor[0] = '\0';
    return json_incref(json_object_get(answer, "items"));
}

bool atoll_daytona_read_preview(const char *url, unsigned port, char *out, size_t cap)
{
    const char *host = strstr(url, "://");
    char number[8];
    int n = snprintf(number, sizeof(number), "%u-", port);
    size_t len;

    if (!host || strncmp(host + 3, number, (size_t)n) != 0)
        return false;
    host += 3 + n;
    len = strcspn(host, "/?#");
    n = snprintf(out, cap, "{port}-%.*s", (int)len, host);
    return n > 0 && (size_t)n < cap && atoll_remote_is_made_of(out + 6, "-.:");
}

/* Refusals. */

static const struct atoll_remote_rule rules[] = {
    {401, NULL, ATOLL_ERR_UNAUTHENTICATED, EACCES,
     "set api_key_env or api_key_file of this provider"},
    /* "Sandbox state change in progress" */
    {409, NULL, ATOLL_ERR_UNAVAILABLE, EAGAIN, NULL},
    {410, NULL, ATOLL_ERR_NOT_FOUND, ENOENT, NULL},
    {422, NULL, ATOLL_ERR_UNIMPLEMENTED, EOPNOTSUPP, NULL},
};
const struct atoll_remote_service atoll_daytona_service = {
    .name = "the Daytona service",
    .label = "daytona",
    .key_header = "Authorization: Bearer ",
    .credential = "daytona.apiKey",
    .rules = rules,
    .rule_count = ATOLL_ARRAY_LEN(rules),
};

/* Requests. */

int atoll_daytona_form(struct atoll_buf *out, const char *path, const void *bytes, size_t n)
{
    static const char part[] = "--" ATOLL_DAYTONA_BOUNDARY "\r\nContent-Disposition: form-data; ";
    int r = atoll_buf_appendf(out, "%sname=\"files[0].path\"\r\n\r\n%s\r\n", part, path);

    if (r == 0)
        r = atoll_buf_appendf(out,
                              "%sname=\"files[0].file\"; filename=\"agent\"\r\n"
                              "Content-Type: application/octet-stream\r\n\r\n",
                              part);
    if (r == 0)
        r = atoll_buf_append(out, bytes, n);
    return r < 0 ? r : atoll_buf_appends(out, "\r\n--" ATOLL_DAYTONA_BOUNDARY "--\r\n");
}
