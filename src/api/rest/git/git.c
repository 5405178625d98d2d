/*
 * /api/sandboxes/{id}/git/…: one handler for all routes. A table has the operation of each route and
 * the fields that it takes, in the body or, for GET and DELETE, in the query.
 */
#include <errno.h>
#include <string.h>
#include "api/fields.h"
#include "api/idempotency.h"
#include "api/kit/git_view.h"
#include "api/rest/rest_internal.h"

#define AT(member) offsetof(struct atoll_git_request, member)
#define TEXT(name, member, max)                               \
    {                                                         \
        name, ATOLL_FIELD_STRING, AT(member), 0, max, NULL, 0 \
    }
#define FLAG(name, member)                                \
    {                                                     \
        name, ATOLL_FIELD_BOOL, AT(member), 0, 0, NULL, 0 \
    }
#define NUMBER(name, member, min, max)                       \
    {                                                        \
        name, ATOLL_FIELD_U32, AT(member), min, max, NULL, 0 \
    }
#define PATH_MAX_BYTES 4096
#define REF_MAX_BYTES 512
#define MESSAGE_MAX_BYTES 65536
#define FILES_MAX 16384
#define COMMITS_MAX 10000

#define COMMON                                                                 \
    TEXT("path", path, PATH_MAX_BYTES), TEXT("user", user, 64),                \
    {                                                                          \
        "timeoutSeconds", ATOLL_FIELD_MILLI, AT(timeout_ms), 1, 86400, NULL, 0 \
    }
#define REF TEXT("ref", ref, REF_MAX_BYTES)
#define NAME TEXT("name", name, REF_MAX_BYTES)
#define MESSAGE TEXT("message", message, MESSAGE_MAX_BYTES)
#define FILES                                                          \
    {                                                                  \
        "files", ATOLL_FIELD_STRINGS, AT(files), 0, FILES_MAX, NULL, 0 \
    }
#define REMOTE                                                                         \
    TEXT("remote", remote, REF_MAX_BYTES), FLAG("insecureTls", insecure_tls),          \
    {                                                                                  \
        "credentials", ATOLL_FIELD_OBJECT, AT(credentials), 0, 0, credential_fields, 0 \
    }
#define AUTHOR                                                  \
    {                                                           \
        "author", ATOLL_FIELD_OBJECT, 0, 0, 0, author_fields, 0 \
    }
#define END \
    {       \
        0   \
    }

static const struct atoll_field credential_fields[] = {
    {"username", ATOLL_FIELD_STRING, offsetof(struct atoll_git_credentials, username), 0, 4095,
     NULL, 0},
    {"password", ATOLL_FIELD_STRING, offsetof(struct atoll_git_credentials, password), 1, 4095,
     NULL, 0},
    {"host", ATOLL_FIELD_STRING, offsetof(struct atoll_git_credentials, host), 1, 255, NULL, 0},
    END,
};
static const struct atoll_field author_fields[] = {
    {"name", ATOLL_FIELD_STRING, AT(author_name), 1, 255, NULL, 0},
    {"email", ATOLL_FIELD_STRING, AT(author_email), 1, 255, NULL, 0},
    END,
};

typedef const struct atoll_field fields_of;

static fields_of clone[] = {COMMON,
                            REMOTE,
                            TEXT("url", url, 2047),
                            REF,
                            TEXT("commit", commit, 64),
                            NUMBER("depth", depth, 1, 1000000),
                            FLAG("submodules", submodules),
                            FLAG("bare", bare),
                            END};
static fields_of init[] = {COMMON, REF, FLAG("bare", bare), END};
static fields_of status[] = {COMMON, FLAG("ignored", ignored), END};
static fields_of add[] = {COMMON, FILES, FLAG("all", all), END};
static fields_of commit[] = {COMMON,
                             FILES,
                             MESSAGE,
                             AUTHOR,
                             FLAG("all", all),
                             FLAG("amend", amend),
                             FLAG("allowEmpty", allow_empty),
                             END};
static fields_of history[] = {
    COMMON, REF, FILES, NUMBER("limit", limit, 1, COMMITS_MAX), NUMBER("skip", skip, 0, 1000000000),
    END};
static fields_of diff[] = {
    COMMON, REF, FILES, TEXT("to", to, REF_MAX_BYTES), FLAG("staged", staged), END};
static fields_of checkout[] = {COMMON, REF, FLAG("create", create), FLAG("force", force), END};
static fields_of reset[] = {COMMON, REF, FILES, TEXT("mode", mode, 16), END};
static fields_of restore[] = {
    COMMON, REF, FILES, FLAG("staged", staged), FLAG("worktree", worktree), END};
static fields_of fetch[] = {COMMON,
                            REMOTE,
                            REF,
                            NUMBER("depth", depth, 1, 1000000),
                            FLAG("prune", prune),
                            FLAG("tags", tags),
                            END};
static fields_of pull[] = {
    COMMON, REMOTE, REF, AUTHOR, FLAG("rebase", rebase), FLAG("ffOnly", ff_only), END};
static fields_of push[] = {COMMON,
                           REMOTE,
                           REF,
                           FLAG("force", force),
                           FLAG("setUpstream", set_upstream),
                           FLAG("tags", tags),
                           FLAG("delete", remove),
                           END};
static fields_of branches[] = {COMMON, FLAG("remotes", remotes), END};
static fields_of branch[] = {COMMON, NAME, REF, FLAG("checkout", create), END};
static fields_of named[] = {COMMON, NAME, END};
static fields_of named_force[] = {COMMON, NAME, FLAG("force", force), END};
static fields_of plain[] = {COMMON, END};
static fields_of remote[] = {COMMON, NAME, TEXT("url", url, 2047), FLAG("replace", force), END};
static fields_of tag[] = {COMMON, NAME, REF, MESSAGE, AUTHOR, FLAG("force", force), END};
static fields_of stash[] = {COMMON, MESSAGE, FLAG("untracked", all), END};
static fields_of stash_apply[] = {COMMON, NUMBER("index", index, 0, 10000), FLAG("drop", remove),
                                  END};
static fields_of stash_drop[] = {COMMON, NUMBER("index", index, 0, 10000), END};
static fields_of config[] = {COMMON, NAME, TEXT("scope", scope, 16), END};
static fields_of config_set[] = {COMMON, NAME, TEXT("scope", scope, 16),
                                 TEXT("value", value, MESSAGE_MAX_BYTES), END};

#define GIT "/api/sandboxes/{id}/git"
#define QUERY "path, user, timeoutSeconds"
#define IN_QUERY ATOLL_BODY_NONE
#define BODY ATOLL_BODY_JSON

/* method, path, scope, body, operation, fields, names of the query's parameters */
#define ROUTES(X)                                                                              \
    X(POST, "/clone", WRITE, BODY, CLONE, clone, "")                                           \
    X(POST, "/init", WRITE, BODY, INIT, init, "")                                              \
    X(GET, "/status", READ, IN_QUERY, STATUS, status, QUERY ", ignored")                       \
    X(POST, "/add", WRITE, ATOLL_BODY_FILES, ADD, add, "")                                     \
    X(POST, "/commit", WRITE, ATOLL_BODY_FILES, COMMIT, commit, "")                            \
    X(GET, "/log", READ, IN_QUERY, LOG, history, QUERY ", ref, files, limit, skip")            \
    X(GET, "/diff", READ, IN_QUERY, DIFF, diff, QUERY ", ref, to, files, staged")              \
    X(POST, "/checkout", WRITE, BODY, CHECKOUT, checkout, "")                                  \
    X(POST, "/reset", WRITE, ATOLL_BODY_FILES, RESET, reset, "")                               \
    X(POST, "/restore", WRITE, ATOLL_BODY_FILES, RESTORE, restore, "")                         \
    X(POST, "/fetch", WRITE, BODY, FETCH, fetch, "")                                           \
    X(POST, "/pull", WRITE, BODY, PULL, pull, "")                                              \
    X(POST, "/push", WRITE, BODY, PUSH, push, "")                                              \
    X(GET, "/branches", READ, IN_QUERY, BRANCHES, branches, QUERY ", remotes")                 \
    X(POST, "/branches", WRITE, BODY, BRANCH_CREATE, branch, "")                               \
    X(DELETE, "/branches", WRITE, IN_QUERY, BRANCH_DELETE, named_force, QUERY ", name, force") \
    X(GET, "/remotes", READ, IN_QUERY, REMOTES, plain, QUERY)                                  \
    X(POST, "/remotes", WRITE, BODY, REMOTE_ADD, remote, "")                                   \
    X(DELETE, "/remotes", WRITE, IN_QUERY, REMOTE_REMOVE, named, QUERY ", name")               \
    X(GET, "/tags", READ, IN_QUERY, TAGS, plain, QUERY)                                        \
    X(POST, "/tags", WRITE, BODY, TAG_CREATE, tag, "")                                         \
    X(DELETE, "/tags", WRITE, IN_QUERY, TAG_DELETE, named, QUERY ", name")                     \
    X(GET, "/stash", READ, IN_QUERY, STASHES, plain, QUERY)                                    \
    X(POST, "/stash", WRITE, BODY, STASH_PUSH, stash, "")                                      \
    X(POST, "/stash/apply", WRITE, BODY, STASH_APPLY, stash_apply, "")                         \
    X(DELETE, "/stash", WRITE, IN_QUERY, STASH_DROP, stash_drop, QUERY ", index")              \
    X(GET, "/config", READ, IN_QUERY, CONFIG, config, QUERY ", name, scope")                   \
    X(PUT, "/config", WRITE, BODY, CONFIG_SET, config_set, "")                                 \
    X(DELETE, "/config", WRITE, IN_QUERY, CONFIG_UNSET, config, QUERY ", name, scope")

static const struct {
    enum atoll_git_op op;
    const struct atoll_field *fields;
} specs[] = {
#define X(method, path, scope, body, op, fields, query) {ATOLL_GIT_##op, fields},
    ROUTES(X)
#undef X
};

/* The query. */

#define QUERY_FILES_MAX 256

static int take_files(const struct atoll_api_call *call, struct atoll_body *body,
                      const char *const **ret, struct atoll_error *err)
{
    const char **files = atoll_api_alloc((QUERY_FILES_MAX + 1) * sizeof(*files));
    const char *value;
    size_t n = 0, pos = 0;

    atoll_body_take(body, files);
    while ((value = atoll_http_query_next(call->req, "files", &pos))) {
        if (n == QUERY_FILES_MAX)
            return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                              "?files= may be given %d times", QUERY_FILES_MAX);
        files[n++] = value;
    }
    if (n > 0)
        *ret = (const char *const *)files;
    return 0;
}

static int take_seconds(const struct atoll_api_call *call, const struct atoll_field *f,
                        uint32_t *ret_ms, struct atoll_error *err)
{
    uint64_t seconds = 0;
    int r = atoll_api_query_u64(call, f->name, 1, (uint64_t)f->max, &seconds, err);

    *ret_ms = (uint32_t)(seconds * 1000);
    return r;
}

static int take_parameter(const struct atoll_api_call *call, struct atoll_body *body,
                          const struct atoll_field *f, void *into, struct atoll_error *err)
{
    const char *text = atoll_http_query(call->req, f->name);
    uint64_t number = 0;
    int r;

    switch (f->type) {
    case ATOLL_FIELD_BOOL:
        return atoll_api_query_flag(call, f->name, into, err);
    case ATOLL_FIELD_U32:
        r = atoll_api_query_u64(call, f->name, (uint64_t)f->min, (uint64_t)f->max, &number, err);
        *(uint32_t *)into = (uint32_t)number;
        return r;
    case ATOLL_FIELD_MILLI:
        return take_seconds(call, f, into, err);
    case ATOLL_FIELD_STRINGS:
        return take_files(call, body, into, err);
    default:
        if (text && (double)strlen(text) > f->max)
            return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "?%s= is too long", f->name);
        *(const char **)into = text;
        return 0;
    }
}

static int take_query(const struct atoll_api_call *call, struct atoll_body *body,
                      const struct atoll_field *fields, struct atoll_git_request *request,
                      struct atoll_error *err)
{
    int r = 0;

    for (const struct atoll_field *f = fields; r == 0 && f->name; f++)
        r = take_parameter(call, body, f, (char *)request + f->offset, err);
    return r;
}

/* Answers. */

static void view_failure(const struct atoll_api_call *call, struct atoll_json_out *out)
{
    atoll_git_view_failure(out, call->state);
}

static void done(void *arg, const struct atoll_git_result *result, const struct atoll_error *error)
{
    struct atoll_api_call *call = arg;
    struct atoll_buf buf;
    struct atoll_json_out out;

    if (result->failure) {
        call->state = (void *)result->failure;
        call->error_more = view_failure;
    }
    if (!atoll_api_reply_begin(call, error, &buf, &out))
        return;
    if (atoll_git_view(&out, result)) {
        atoll_api_reply(call, 200, &out);
    } else {
        atoll_buf_done(&buf);
        atoll_api_reply_empty(call, 204);
    }
}

/* Erases the credentials of the request in jansson's memory, which is about to be freed. */
static void wipe(const struct atoll_git_request *request)
{
    const char *const texts[] = {request->credentials.password, request->url};

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(texts); i++)
        if (texts[i])
            explicit_bzero((void *)(uintptr_t)texts[i], strlen(texts[i]));
}

static const struct atoll_route rows[];

static void serve(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    size_t at = (size_t)(call->route - rows);
    struct atoll_git_request request = {.op = specs[at].op};
    struct atoll_body body = {0};
    struct atoll_error error;
    int r;

    if (call->route->body_max == ATOLL_BODY_NONE)
        r = take_query(call, &body, specs[at].fields, &request, &error);
    else if (atoll_idempotency_check(call, bytes, n))
        return;
    else
        r = atoll_body_decode(&body, bytes, n, specs[at].fields, &request, &error);
    if (r == 0)
        atoll_git_run(call->engine, call->params.id, &request, done, call);
    else
        atoll_api_fail(call, &error);
    wipe(&request);
    atoll_body_done(&body);
}

static const struct atoll_route rows[] = {
#define X(method, path, scope, body, op, fields, query) \
    {ATOLL_##method, GIT path, ATOLL_SCOPE_##scope, body, serve, query},
    ROUTES(X)
#undef X
};

const struct atoll_routes atoll_rest_git_routes = {.rows = rows, .count = ATOLL_ARRAY_LEN(rows)};
