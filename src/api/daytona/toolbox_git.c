/*
 * Git repositories of a sandbox: /git of the toolbox. A table has the operation of each route, the fields
 * that it takes and how it answers; git/git.h does the work.
 */
#include <stdio.h>
#include <string.h>
#include "api/daytona/toolbox_internal.h"
#include "api/errors.h"
#include "api/kit/git_view.h"
#include "git/git.h"
#include "git/porcelain.h"

#define AT(member) offsetof(struct atoll_git_request, member)
#define TEXT(name, member, max)                               \
    {                                                         \
        name, ATOLL_FIELD_STRING, AT(member), 0, max, NULL, 0 \
    }
#define FLAG(name, member)                                \
    {                                                     \
        name, ATOLL_FIELD_BOOL, AT(member), 0, 0, NULL, 0 \
    }
#define FILES                                                      \
    {                                                              \
        "files", ATOLL_FIELD_STRINGS, AT(files), 0, 16384, NULL, 0 \
    }
#define REPOSITORY TEXT("path", path, ATOLL_TOOLBOX_PATH_MAX)
#define LOGIN \
    TEXT("username", credentials.username, 4095), TEXT("password", credentials.password, 4095)
#define NAME_MAX_BYTES 512
#define END                \
    ATOLL_FIELDS_TOLERANT, \
    {                      \
        0                  \
    }
#define HISTORY_MAX 10000

typedef const struct atoll_field fields_of;

static fields_of clone[] = {REPOSITORY,
                            LOGIN,
                            TEXT("url", url, 2047),
                            TEXT("branch", ref, NAME_MAX_BYTES),
                            TEXT("commit_id", commit, 64),
                            FLAG("insecure_skip_tls", insecure_tls),
                            {"depth", ATOLL_FIELD_U32, AT(depth), 0, 1000000, NULL, 0},
                            END};
static fields_of add[] = {REPOSITORY, FILES, END};
static fields_of commit[] = {REPOSITORY,
                             TEXT("message", message, 65536),
                             TEXT("author", author_name, 255),
                             TEXT("email", author_email, 255),
                             FLAG("allow_empty", allow_empty),
                             END};
static fields_of transfer[] = {REPOSITORY,
                               LOGIN,
                               TEXT("branch", ref, NAME_MAX_BYTES),
                               TEXT("remote", remote, NAME_MAX_BYTES),
                               FLAG("set_upstream", set_upstream),
                               END};
static fields_of checkout[] = {REPOSITORY, TEXT("branch", ref, NAME_MAX_BYTES), END};
static fields_of branch[] = {REPOSITORY, TEXT("name", name, NAME_MAX_BYTES), END};
static fields_of init[] = {REPOSITORY, FLAG("bare", bare),
                           TEXT("initial_branch", ref, NAME_MAX_BYTES), END};
static fields_of reset[] = {REPOSITORY, FILES, TEXT("mode", mode, 16),
                            TEXT("target", ref, NAME_MAX_BYTES), END};
static fields_of restore[] = {REPOSITORY,
                              FILES,
                              TEXT("source", ref, NAME_MAX_BYTES),
                              FLAG("staged", staged),
                              FLAG("worktree", worktree),
                              END};
static fields_of remote[] = {
    REPOSITORY,           TEXT("name", name, NAME_MAX_BYTES), TEXT("url", url, 2047),
    FLAG("fetch", fetch), FLAG("overwrite", force),           END};
static fields_of config[] = {REPOSITORY, TEXT("key", name, NAME_MAX_BYTES),
                             TEXT("value", value, 65536), TEXT("scope", scope, 16), END};
static fields_of identity[] = {REPOSITORY, TEXT("name", author_name, 255),
                               TEXT("email", author_email, 255), TEXT("scope", scope, 16), END};
static fields_of login[] = {LOGIN, TEXT("host", value, 255), TEXT("protocol", mode, 16), END};
/* In the query. */
static fields_of repository[] = {REPOSITORY, END};
static fields_of config_key[] = {REPOSITORY, TEXT("key", name, NAME_MAX_BYTES),
                                 TEXT("scope", scope, 16), END};

/* Answers. */

static const char *state_of(enum atoll_git_state state)
{
    static const char *const names[] = {
        [ATOLL_GIT_UNMODIFIED] = "Unmodified", [ATOLL_GIT_MODIFIED] = "Modified",
        [ATOLL_GIT_TYPE_CHANGED] = "Modified", [ATOLL_GIT_ADDED] = "Added",
        [ATOLL_GIT_DELETED] = "Deleted",       [ATOLL_GIT_RENAMED] = "Renamed",
        [ATOLL_GIT_COPIED] = "Copied",         [ATOLL_GIT_UNMERGED] = "Updated but unmerged",
        [ATOLL_GIT_UNTRACKED] = "Untracked",   [ATOLL_GIT_IGNORED] = "Untracked",
    };

    return names[state];
}

static void text(struct atoll_json_out *out, const char *key, const char *value)
{
    atoll_json_bytes(out, key, value, strlen(value));
}

static void view_status(struct atoll_json_out *out, struct atoll_git_cursor *c)
{
    struct atoll_git_head head;
    struct atoll_git_file file;

    atoll_git_status_head(c, &head);
    atoll_json_open(out, NULL, '{');
    text(out, "currentBranch", *head.branch ? head.branch : "HEAD");
    atoll_json_bool(out, "detached", !*head.branch);
    atoll_json_u64(out, "ahead", head.ahead);
    atoll_json_u64(out, "behind", head.behind);
    atoll_json_bool(out, "branchPublished", head.has_counts);
    text(out, "upstream", head.upstream);
    atoll_json_open(out, "fileStatus", '[');
    while (atoll_git_status_next(c, &file)) {
        atoll_json_open(out, NULL, '{');
        text(out, "name", file.path);
        text(out, "extra", file.from);
        atoll_json_text(out, "staging", state_of(file.staging));
        atoll_json_text(out, "worktree", state_of(file.worktree));
        atoll_json_close(out, '}');
    }
    atoll_json_close(out, ']');
    atoll_json_close(out, '}');
}

static void view_branches(struct atoll_json_out *out, struct atoll_git_cursor *c)
{
    struct atoll_git_branch b;

    atoll_json_open(out, NULL, '{');
    text(out, "current", atoll_git_branch_current(c));
    atoll_json_open(out, "branches", '[');
    while (atoll_git_branch_next(c, &b))
        text(out, NULL, b.name);
    atoll_json_close(out, ']');
    atoll_json_close(out, '}');
}

static void view_commit(struct atoll_json_out *out, struct atoll_git_cursor *c)
{
    struct atoll_git_commit made = {.hash = ""};

    (void)atoll_git_branch_current(c);
    if (!atoll_git_commit_next(c, &made))
        made.hash = "";
    atoll_json_open(out, NULL, '{');
    text(out, "hash", made.hash);
    atoll_json_close(out, '}');
}

static void view_history(struct atoll_json_out *out, struct atoll_git_cursor *c)
{
    struct atoll_git_commit each;

    atoll_json_open(out, NULL, '[');
    while (atoll_git_commit_next(c, &each)) {
        atoll_json_open(out, NULL, '{');
        text(out, "hash", each.hash);
        text(out, "author", each.author);
        text(out, "email", each.author_email);
        text(out, "message", each.message);
        text(out, "timestamp", each.authored_at);
        atoll_json_close(out, '}');
    }
    atoll_json_close(out, ']');
}

static void view_remotes(struct atoll_json_out *out, struct atoll_git_cursor *c)
{
    struct atoll_git_remote each;

    atoll_json_open(out, NULL, '{');
    atoll_json_open(out, "remotes", '[');
    while (atoll_git_remote_next(c, &each)) {
        if (each.push)
            continue;
        atoll_json_open(out, NULL, '{');
        atoll_json_bytes(out, "name", each.name, each.name_len);
        text(out, "url", each.url);
        atoll_json_close(out, '}');
    }
    atoll_json_close(out, ']');
    atoll_json_close(out, '}');
}

/* The last value counts, as for git. */
static void view_config(struct atoll_json_out *out, struct atoll_git_cursor *c)
{
    struct atoll_git_entry each;
    const char *value = NULL;

    while (atoll_git_entry_next(c, &each))
        value = each.has_value ? each.value : "true";
    atoll_json_open(out, NULL, '{');
    if (value)
        text(out, "value", value);
    else
        atoll_json_null(out, "value");
    atoll_json_close(out, '}');
}

/* Errors, by which SDKs choose exceptions. Status 0: that of the kind. */
static const struct {
    int status;
    const char *code;
} problems[ATOLL_GIT_PROBLEMS] = {
    [ATOLL_GIT_AUTH_FAILED] = {401, "GIT_AUTH_FAILED"},
    [ATOLL_GIT_REMOTE_NOT_FOUND] = {404, "GIT_REPO_NOT_FOUND"},
    [ATOLL_GIT_NOT_A_REPOSITORY] = {404, "GIT_REPO_NOT_FOUND"},
    [ATOLL_GIT_PATH_NOT_FOUND] = {404, "FILE_NOT_FOUND"},
    [ATOLL_GIT_REF_NOT_FOUND] = {404, "GIT_BRANCH_NOT_FOUND"},
    [ATOLL_GIT_NO_REMOTE] = {400, NULL},
    [ATOLL_GIT_UNREACHABLE] = {502, "GIT_TRANSPORT_FAILED"},
    [ATOLL_GIT_CONFLICT] = {409, "GIT_MERGE_CONFLICT"},
    [ATOLL_GIT_DIRTY] = {409, "GIT_DIRTY_WORKTREE"},
    [ATOLL_GIT_NON_FAST_FORWARD] = {409, "GIT_PUSH_REJECTED"},
    [ATOLL_GIT_REMOTE_REJECTED] = {422, "GIT_REMOTE_REJECTED"},
    [ATOLL_GIT_TIMED_OUT] = {408, NULL},
};

/* Daytona's members, and "git" as in our own API: SDKs show one line, but git's words and the files are there. */
static void fail(struct atoll_api_call *call, const struct atoll_git_result *result,
                 const struct atoll_error *error)
{
    struct atoll_buf buf;
    struct atoll_json_out out;
    enum atoll_git_problem problem;
    const char *code;
    int status;

    if (!result->failure) {
        atoll_api_fail(call, error);
        return;
    }
    problem = result->failure->problem;
    status = problems[problem].status;
    status = status ? status : atoll_api_status_of(error);
    code = problems[problem].code;
    if (problem == ATOLL_GIT_EXISTS && result->op == ATOLL_GIT_BRANCH_CREATE)
        code = "GIT_BRANCH_EXISTS";
    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '{');
    atoll_daytona_error_members(&out, call, status, code, error->text);
    atoll_git_view_failure(&out, result->failure);
    atoll_json_close(&out, '}');
    atoll_api_reply(call, status, &out);
}

/* Requests. */

/* SDKs send "" for what a user did not give; a user name alone is of no use. */
static void drop_empty(struct atoll_git_request *r)
{
    const char **const texts[] = {&r->ref,
                                  &r->remote,
                                  &r->commit,
                                  &r->scope,
                                  &r->mode,
                                  &r->credentials.password,
                                  &r->credentials.username};

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(texts); i++)
        if (*texts[i] && !**texts[i])
            *texts[i] = NULL;
    if (!r->credentials.password)
        r->credentials.username = NULL;
}

typedef void view_fn(struct atoll_json_out *out, struct atoll_git_cursor *c);

#define BODY ATOLL_BODY_JSON
#define LONG ATOLL_BODY_FILES
#define NONE ATOLL_BODY_NONE

/* method, path, scope, body, operation, fields, status, view */
#define ROUTES(X)                                                             \
    X(POST, "/clone", WRITE, BODY, CLONE, clone, 200, NULL)                   \
    X(GET, "/status", READ, NONE, STATUS, repository, 200, view_status)       \
    X(GET, "/branches", READ, NONE, BRANCHES, repository, 200, view_branches) \
    X(POST, "/branches", WRITE, BODY, BRANCH_CREATE, branch, 201, NULL)       \
    X(DELETE, "/branches", WRITE, BODY, BRANCH_DELETE, branch, 204, NULL)     \
    X(POST, "/checkout", WRITE, BODY, CHECKOUT, checkout, 200, NULL)          \
    X(POST, "/add", WRITE, LONG, ADD, add, 200, NULL)                         \
    X(POST, "/commit", WRITE, BODY, COMMIT, commit, 200, view_commit)         \
    X(POST, "/push", WRITE, BODY, PUSH, transfer, 200, NULL)                  \
    X(POST, "/pull", WRITE, BODY, PULL, transfer, 200, NULL)                  \
    X(GET, "/history", READ, NONE, LOG, repository, 200, view_history)        \
    X(POST, "/init", WRITE, BODY, INIT, init, 201, NULL)                      \
    X(POST, "/reset", WRITE, LONG, RESET, reset, 200, NULL)                   \
    X(POST, "/restore", WRITE, LONG, RESTORE, restore, 200, NULL)             \
    X(GET, "/remotes", READ, NONE, REMOTES, repository, 200, view_remotes)    \
    X(POST, "/remotes", WRITE, BODY, REMOTE_ADD, remote, 201, NULL)           \
    X(GET, "/config", READ, NONE, CONFIG, config_key, 200, view_config)       \
    X(POST, "/config", WRITE, BODY, CONFIG_SET, config, 200, NULL)            \
    X(POST, "/config/user", WRITE, BODY, IDENTITY_SET, identity, 200, NULL)   \
    X(POST, "/credentials", WRITE, BODY, CREDENTIALS_STORE, login, 200, NULL)

static const struct spec {
    enum atoll_git_op op;
    const struct atoll_field *fields;
    int status;
    view_fn *view;
} specs[] = {
#define X(method, path, scope, body, op, fields, status, view) \
    {ATOLL_GIT_##op, fields, status, view},
    ROUTES(X)
#undef X
};

static const struct atoll_route rows[];

static const struct spec *spec_of(const struct atoll_api_call *call)
{
    return &specs[(size_t)(call->route - rows) % ATOLL_ARRAY_LEN(specs)];
}

static void done(void *arg, const struct atoll_git_result *result, const struct atoll_error *error)
{
    struct atoll_api_call *call = arg;
    const struct spec *spec = spec_of(call);
    struct atoll_git_cursor c = {result->bytes, result->len};
    struct atoll_buf buf;
    struct atoll_json_out out;

    if (error) {
        fail(call, result, error);
    } else if (spec->view && result->truncated) {
        /* SDKs have no place for a mark: a part would look like everything. */
        atoll_daytona_refuse(call, 413, NULL,
                             "git %s: the answer is larger than %zu MiB: run git as a command",
                             atoll_git_op_name(result->op), ATOLL_GIT_OUTPUT_MAX >> 20);
    } else if (!spec->view) {
        atoll_api_reply_empty(call, spec->status);
    } else {
        atoll_api_reply_init(&buf, &out);
        spec->view(&out, &c);
        atoll_api_reply(call, spec->status, &out);
    }
}

/* All rows of the query are texts. False: the call has been refused. */
static bool take_query(struct atoll_api_call *call, const struct spec *spec,
                       struct atoll_git_request *request)
{
    const char *first = spec->op == ATOLL_GIT_CONFIG ? "key" : "path";

    if (!atoll_toolbox_query(call, first))
        return false;
    for (const struct atoll_field *f = spec->fields; f->type == ATOLL_FIELD_STRING; f++) {
        const char *value = atoll_http_query(call->req, f->name);
        if (value && (double)strlen(value) > f->max) {
            atoll_daytona_refuse(call, 400, NULL, "%s is too long", f->name);
            return false;
        }
        *(const char **)((char *)request + f->offset) = value && *value ? value : NULL;
    }
    return true;
}

/* Where Daytona differs from git/git.h. buf: for texts, of the caller. */
static void adapt(struct atoll_git_request *r, char *text_buf, size_t cap)
{
    const char *scheme = r->mode ? r->mode : "https", *host = r->value;

    if (r->op == ATOLL_GIT_CREDENTIALS_STORE) {
        (void)snprintf(text_buf, cap, "%s://%s/", scheme, host && *host ? host : "github.com");
        r->url = text_buf;
        r->mode = r->value = NULL;
    }
    if ((r->op == ATOLL_GIT_CONFIG_SET || r->op == ATOLL_GIT_IDENTITY_SET) && !r->scope)
        r->scope = "global";
    if (r->op == ATOLL_GIT_LOG)
        r->limit = HISTORY_MAX;
    if (r->op == ATOLL_GIT_BRANCH_DELETE)
        r->force = true; /* also a branch that is not merged */
    if (r->files && !r->files[0])
        r->files = NULL;
}

static void serve(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    const struct spec *spec = spec_of(call);
    struct atoll_git_request request = {.op = spec->op};
    struct atoll_body body = {0};
    char url[300];

    if (call->route->body_max == ATOLL_BODY_NONE) {
        if (!take_query(call, spec, &request))
            return;
    } else if (!atoll_toolbox_decode(call, &body, bytes, n, spec->fields, &request)) {
        return;
    }
    drop_empty(&request);
    adapt(&request, url, sizeof(url));
    atoll_git_run(call->engine, call->params.id, &request, done, call);
    atoll_body_done(&body);
}

static const struct atoll_route rows[] = {
#define X(method, path, scope, body, op, fields, status, view) \
    {ATOLL_##method, ATOLL_DAYTONA_TOOLBOX "/git" path, ATOLL_SCOPE_##scope, body, serve, NULL},
    ROUTES(X)
#undef X
#define X(method, path, scope, body, op, fields, status, view) \
    {ATOLL_##method, ATOLL_DAYTONA_TOOLBOX_OLD "/git" path, ATOLL_SCOPE_##scope, body, serve, NULL},
        ROUTES(X)
#undef X
};

const struct atoll_routes atoll_daytona_git_routes = {
    rows, ATOLL_ARRAY_LEN(rows), &atoll_daytona_toolbox_protocol, atoll_daytona_params,
    ATOLL_DAYTONA_PARAM_COUNT};
