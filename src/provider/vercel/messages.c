#include "provider/vercel/messages.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/text.h"

#define MIB_OF_VCPU 2048
#define MORE_MIN_MS 1000

/* Answers. */

static int not_one(struct atoll_error *err)
{
    return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, EBADMSG,
                      "the service's answer does not describe a sandbox");
}

/* States of sessions and sandboxes. Others, such as "pending", change by themselves. A session that stops is
 * never used again. */
static const struct {
    const char *name;
    int state;
    const char *cause;
} states[] = {
    {"running", ATOLL_REMOTE_RUNS, ""},
    {"stopping", ATOLL_REMOTE_STOPPED, "is stopping it"},
    {"snapshotting", ATOLL_REMOTE_STOPPED, "is stopping it for a snapshot"},
    {"stopped", ATOLL_REMOTE_STOPPED, "has stopped it: its time was over, or it was stopped there"},
    {"failed", ATOLL_REMOTE_STOPPED, "reports that it failed"},
    {"aborted", ATOLL_REMOTE_STOPPED, "has aborted it"},
};

static void take_state(const json_t *object, struct atoll_vercel_remote *r)
{
    const char *state = json_string_value(json_object_get(object, "status"));

    r->of.changing = true;
    for (size_t i = 0; state && i < ATOLL_ARRAY_LEN(states); i++)
        if (strcmp(state, states[i].name) == 0) {
            r->of.changing = false;
            r->of.state = states[i].state;
            atoll_remote_set_cause(&r->of, states[i].cause, "");
        }
}

int atoll_vercel_read_sandbox(const json_t *sandbox, struct atoll_vercel_remote *ret,
                              struct atoll_error *err)
{
    struct atoll_vercel_remote r = {0};

    if (!atoll_remote_take_field(sandbox, "name", r.of.handle, sizeof(r.of.handle)) ||
        !r.of.handle[0] || !atoll_remote_is_made_of(r.of.handle, "-_"))
        return not_one(err);
    take_state(sandbox, &r);
    atoll_remote_take_id(json_object_get(sandbox, "tags"), r.of.id);
    *ret = r;
    return 0;
}

static bool take_route(const json_t *routes, uint16_t port, struct atoll_vercel_remote *r)
{
    size_t i;
    json_t *route;

    json_array_foreach(routes, i, route)
    {
        if (json_integer_value(json_object_get(route, "port")) != port)
            continue;
        if (!atoll_remote_take_field(route, "url", r->url, sizeof(r->url)) ||
            !atoll_remote_is_token(r->url) ||
            !atoll_remote_take_field(route, "subdomain", r->subdomain, sizeof(r->subdomain)) ||
            !atoll_remote_is_made_of(r->subdomain, "-_"))
            return false;
    }
    return true;
}

void atoll_vercel_read_times(const json_t *session, struct atoll_vercel_remote *remote)
{
    int64_t began = (int64_t)atoll_remote_take_count(session, "startedAt");
    int64_t timeout = (int64_t)atoll_remote_take_count(session, "timeout");

    if (began == 0)
        began = (int64_t)atoll_remote_take_count(session, "createdAt");
    if (began > 0)
        remote->began_unix_ms = began;
    if (timeout > 0)
        remote->timeout_ms = timeout;
}

int atoll_vercel_read_answer(const json_t *answer, uint16_t port, struct atoll_vercel_remote *ret,
                             struct atoll_error *err)
{
    const json_t *session = json_object_get(answer, "session");
    struct atoll_vercel_remote r;

    if (atoll_vercel_read_sandbox(json_object_get(answer, "sandbox"), &r, err) < 0)
        return -EBADMSG;
    if (!atoll_remote_take_field(session, "id", r.session, sizeof(r.session)) || !r.session[0] ||
        !atoll_remote_is_made_of(r.session, "-_") ||
        !take_route(json_object_get(answer, "routes"), port, &r))
        return not_one(err);
    take_state(session, &r);
    atoll_vercel_read_times(session, &r);
    *ret = r;
    return 0;
}

json_t *atoll_vercel_read_list(const json_t *answer, char *ret_cursor, size_t cap)
{
    const json_t *pagination = json_object_get(answer, "pagination");

    if (!atoll_remote_take_field(pagination, "next", ret_cursor, cap))
        ret_cursor[0] = '\0';
    return json_incref(json_object_get(answer, "sandboxes"));
}

int64_t atoll_vercel_more_ms(const struct atoll_vercel_remote *remote, uint32_t lease_s,
                             int64_t now_unix_ms)
{
    int64_t left = remote->began_unix_ms + remote->timeout_ms - now_unix_ms;

    /* A clock that differs must not make the session shorter than it is, or longer than a lease. */
    left = ATOLL_MIN(ATOLL_MAX(left, INT64_C(0)), remote->timeout_ms);
    return ATOLL_MAX((int64_t)lease_s * 1000 - left, (int64_t)MORE_MIN_MS);
}

/* Lines of a command. */

struct run {
    struct atoll_remote_exit *ret;
    char out[sizeof(((struct atoll_remote_exit *)0)->text)], err[200];
    bool ended;
};

static void add_text(char *out, size_t cap, const char *text)
{
    size_t n = strlen(out);

    (void)snprintf(out + n, cap - n, "%s", text ? text : "");
}

static int bad_line(struct atoll_error *err)
{
    return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, EBADMSG,
                      "the service's answer is not that of a command");
}

/* An error ends the stream, except one that says that output is missing. */
static int take_error(const json_t *data, struct atoll_error *err)
{
    const char *code = json_string_value(json_object_get(data, "code"));
    const char *text = json_string_value(json_object_get(data, "message"));

    if (code && strcmp(code, "output_truncated") == 0)
        return 0;
    return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, EIO,
                      "the service does not say how the command ended: %.100s",
                      text ? text : "no reason given");
}

static int take_line(struct run *run, const json_t *line, struct atoll_error *err)
{
    const json_t *command = json_object_get(line, "command"),
                 *code = json_object_get(command, "exitCode"),
                 *data = json_object_get(line, "data");
    const char *stream = json_string_value(json_object_get(line, "stream"));

    if (json_is_object(command) && json_is_integer(code)) {
        run->ret->code = (int)json_integer_value(code);
        run->ended = json_integer_value(code) >= 0 && json_integer_value(code) <= 255;
        return run->ended ? 0 : bad_line(err);
    }
    if (json_is_object(command))
        return 0;
    if (stream && strcmp(stream, "error") == 0)
        return take_error(data, err);
    if (!stream || !json_is_string(data))
        return bad_line(err);
    if (strcmp(stream, "stdout") == 0)
        add_text(run->out, sizeof(run->out), json_string_value(data));
    else if (strcmp(stream, "stderr") == 0)
        add_text(run->err, sizeof(run->err), json_string_value(data));
    return 0;
}

int atoll_vercel_read_run(const void *bytes, size_t n, struct atoll_remote_exit *ret,
                          struct atoll_error *err)
{
    struct atoll_remote_exit exit = {0};
    struct run run = {.ret = &exit};
    const char *at = bytes, *end = at ? at + n : at;
    int r = 0;

    while (r == 0 && at < end) {
        const char *next = memchr(at, '\n', (size_t)(end - at));
        size_t len = (size_t)((next ? next : end) - at);
        json_t *line = len > 0 ? json_loadb(at, len, 0, NULL) : NULL;

        if (line)
            r = take_line(&run, line, err);
        else if (len > 0 && strspn(at, " \t\r") < len)
            r = bad_line(err);
        json_decref(line);
        at += len + (next != NULL);
    }
    if (r == 0 && !run.ended)
        r = atoll_fail(err, ATOLL_ERR_UNAVAILABLE, EIO,
                       "the service's answer ends before the command");
    if (r < 0)
        return r;
    (void)snprintf(exit.text, sizeof(exit.text), "%s",
                   exit.code == 0 && run.out[0] ? run.out : run.err);
    *ret = exit;
    return 0;
}

/* Refusals. */

static const struct atoll_remote_rule rules[] = {
    {401, NULL, ATOLL_ERR_UNAUTHENTICATED, EACCES, "check the token of this provider"},
    {402, NULL, ATOLL_ERR_RESOURCE_EXHAUSTED, EDQUOT, "the plan of the team does not allow it"},
    /* Vercel's answer to a token that it does not know, as well. */
    {403, NULL, ATOLL_ERR_UNAUTHENTICATED, EACCES,
     "check the token, the team and the project of this provider"},
    /* The name exists: it is of an earlier try, and is removed before the next one. */
    {409, NULL, ATOLL_ERR_UNAVAILABLE, EAGAIN, NULL},
    {410, NULL, ATOLL_ERR_NOT_FOUND, ENOENT, NULL},
    /* "sandbox_stopping", "sandbox_snapshotting" */
    {422, NULL, ATOLL_ERR_UNAVAILABLE, EAGAIN, NULL},
};
const struct atoll_remote_service atoll_vercel_service = {
    .name = "the Vercel service",
    .label = "vercel",
    .key_header = "Authorization: Bearer ",
    .credential = "vercel.token",
    .message = "error.message",
    .code = "error.code",
    .scoped = true,
    .rules = rules,
    .rule_count = ATOLL_ARRAY_LEN(rules),
};

/* Requests. */

bool atoll_vercel_read_scope(const char *scope, struct atoll_vercel_scope *ret)
{
    struct atoll_vercel_scope s = {"", ""};
    char rest;

    if (sscanf(scope ? scope : "- -", "%63s %63s %c", s.team, s.project, &rest) != 2 ||
        !atoll_remote_is_made_of(s.team, "-_") || !atoll_remote_is_made_of(s.project, "-_"))
        return false;
    if (strcmp(s.team, "-") == 0)
        s.team[0] = '\0';
    if (strcmp(s.project, "-") == 0)
        s.project[0] = '\0';
    *ret = s;
    return true;
}

char *atoll_vercel_request_path(const char *scope, const char *path, const char *project_name)
{
    struct atoll_vercel_scope s = {"", ""};
    bool project = atoll_vercel_read_scope(scope, &s) && project_name && s.project[0];
    char *out;

    return asprintf(&out, "%s%s%s%s%s%s%s%s", path, strchr(path, '?') ? "" : "?",
                    s.team[0] ? "teamId=" : "", s.team, s.team[0] && project ? "&" : "",
                    project ? project_name : "", project ? "=" : "", project ? s.project : "") < 0
               ? NULL
               : out;
}

bool atoll_vercel_put_source(json_t *body, const char *name)
{
    if (!name || !*name)
        return false;
    if (strncmp(name, "snap_", 5) == 0) {
        (void)json_object_set_new(body, "source",
                                  json_pack("{s:s, s:s}", "type", "snapshot", "snapshotId", name));
        return false;
    }
    if (strpbrk(name, "/:")) {
        (void)json_object_set_new(body, "image", json_string(name));
        return false;
    }
    (void)json_object_set_new(body, "runtime", json_string(name));
    return true;
}

uint32_t atoll_vercel_vcpus(const struct atoll_limits *limits, uint32_t waived)
{
    uint64_t cpus = waived & ATOLL_LIMIT_CPU ? 0 : ((uint64_t)limits->cpu_millis + 999) / 1000;
    uint64_t piece = (uint64_t)MIB_OF_VCPU << 20;
    uint64_t memory = waived & ATOLL_LIMIT_MEMORY
                          ? 0
                          : limits->memory_bytes / piece + !!(limits->memory_bytes % piece);
    uint64_t n = ATOLL_MAX(cpus, memory);

    if (n > 1)
        n += n % 2;
    return (uint32_t)ATOLL_MIN(n, (uint64_t)UINT32_MAX);
}
