/*
 * The code interpreter of a sandbox, port 49999. Contexts run as root in /home/user, as these
 * clients expect. There is always one context for Python and one for JavaScript, started at first
 * use. Errors are plain text, repeated in the status line, which is what clients show.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "api/api_internal.h"
#include "api/e2b/e2b.h"
#include "api/fields.h"
#include "api/kit/context_stream.h"

#define TRAFFIC_HEADER "e2b-traffic-access-token"
#define USER "root"
#define CWD "/home/user"
#define DEFAULT_LANGUAGE "python"
#define TEXT_MAX ((double)ATOLL_BODY_FILES)
#define LINES_TYPE "application/x-ndjson"

static void execute(struct atoll_api_call *call, const uint8_t *bytes, size_t n);

/* Responses. */

static void reply_text(struct atoll_api_call *call, int status, const char *text)
{
    if (call->req)
        atoll_http_set_reason(call->req, text);
    atoll_api_reply_text(call, status, "text/plain; charset=utf-8", text, strlen(text));
}

/* These clients expect status 500 for a language that is not installed. */
static void fail(struct atoll_api_call *call, int status, const struct atoll_error *error)
{
    char text[120];

    if (error->kind == ATOLL_ERR_FAILED_PRECONDITION ||
        error->kind == ATOLL_ERR_DEADLINE_EXCEEDED) {
        reply_text(call, 500, error->text);
    } else if (status == 404 && call->route && call->params.name[0]) {
        (void)snprintf(text, sizeof(text), "Context %s not found", call->params.name);
        reply_text(call, 404, text);
    } else if (status == 500) {
        (void)snprintf(text, sizeof(text), "internal error of the daemon (%s)", call->request_id);
        reply_text(call, 500, text);
    } else {
        reply_text(call, status, error->text);
    }
}

/* They expect status 500 for an unknown language, too. */
static void fail_start(struct atoll_api_call *call, const struct atoll_error *error)
{
    if (error->kind == ATOLL_ERR_INVALID_ARGUMENT)
        reply_text(call, 500, error->text);
    else
        atoll_api_fail(call, error);
}

static void reply_null(void *arg, const struct atoll_error *error)
{
    struct atoll_api_call *call = arg;

    if (error)
        fail_start(call, error);
    else
        atoll_api_reply_text(call, 200, "application/json", "null", 4);
}

/* Access checks. */

static int check_traffic(const struct atoll_api_call *call, struct atoll_error *err)
{
    const char *shown = atoll_http_header(call->req, TRAFFIC_HEADER);
    char token[ATOLL_TOKEN_LEN + 1];

    atoll_e2b_traffic_token(call->api, call->params.id, token);
    if (atoll_token_fits(shown, token))
        return 0;
    return atoll_fail(err, ATOLL_ERR_PERMISSION_DENIED, EACCES, "%s",
                      shown ? "Sandbox is secured with traffic access token. Provided traffic "
                              "access token is invalid."
                            : "Sandbox is secured with traffic access token. Token header "
                              "'" TRAFFIC_HEADER "' is missing");
}

/* Running code requires the envd token, as running commands does. The SDKs send it with
 * /execute, but not with requests about contexts (JavaScript 2.8, Python 2.11): those need no
 * token, but a wrong one is refused. */
static int check_access(const struct atoll_api_call *call, struct atoll_error *err)
{
    const char *shown = atoll_http_header(call->req, ATOLL_E2B_TOKEN_HEADER);
    char token[ATOLL_TOKEN_LEN + 1];

    if (!call->route || call->route->scope == ATOLL_SCOPE_PUBLIC ||
        (!shown && call->route->handler != execute))
        return 0;
    atoll_e2b_envd_token(call->api, call->params.id, token);
    if (atoll_token_fits(shown, token))
        return 0;
    return atoll_fail(err, ATOLL_ERR_UNAUTHENTICATED, EACCES, "%s", ATOLL_E2B_UNAUTHORIZED);
}

static int admit(struct atoll_api_call *call, struct atoll_error *err)
{
    const struct atoll_sandbox *sandbox = atoll_engine_find(call->engine, call->params.id);
    struct atoll_e2b_facts facts;
    bool is_public, is_secure;

    if (!sandbox)
        return atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT, "The sandbox was not found");
    atoll_e2b_facts_get(sandbox, &facts);
    is_public = facts.public_traffic;
    is_secure = facts.secure;
    atoll_e2b_facts_done(&facts);
    if ((!is_public && check_traffic(call, err) < 0) || (is_secure && check_access(call, err) < 0))
        return -EACCES;
    atoll_api_act_for_owner(call, ATOLL_SCOPE_WRITE, "sandbox-port");
    return 0;
}

/* Contexts. */

static int find_default(struct atoll_api_call *call, struct atoll_contexts *contexts,
                        const char *language, struct atoll_context_view *ret,
                        struct atoll_error *err)
{
    const struct atoll_context_create create = {
        .sandbox_id = call->params.id, .language = language, .cwd = CWD, .user = USER};

    return atoll_contexts_default(contexts, &create, ret, err);
}

static void view_context(struct atoll_json_out *out, const struct atoll_context_view *view)
{
    atoll_json_open(out, NULL, '{');
    atoll_json_text(out, "id", view->id);
    atoll_json_text(out, "language", view->language);
    atoll_json_text(out, "cwd", *view->cwd ? view->cwd : CWD);
    atoll_json_close(out, '}');
}

static void health(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                   size_t n ATOLL_UNUSED)
{
    atoll_api_reply_text(call, 200, "application/json", "\"OK\"", 4);
}

static void created(void *arg, const struct atoll_context_view *view,
                    const struct atoll_error *error)
{
    struct atoll_api_call *call = arg;
    struct atoll_buf buf;
    struct atoll_json_out out;

    if (error) {
        fail_start(call, error);
        return;
    }
    atoll_api_reply_init(&buf, &out);
    view_context(&out, view);
    atoll_api_reply(call, 200, &out);
}

static void create(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
#define AT(member) offsetof(struct atoll_context_create, member)
    static const struct atoll_field fields[] = {
        {"language", ATOLL_FIELD_STRING, AT(language), 0, TEXT_MAX, NULL, 0},
        {"cwd", ATOLL_FIELD_STRING, AT(cwd), 0, TEXT_MAX, NULL, 0},
        ATOLL_FIELDS_TOLERANT,
        {0},
    };
#undef AT
    struct atoll_context_create request = {
        .sandbox_id = call->params.id, .language = DEFAULT_LANGUAGE, .cwd = CWD, .user = USER};
    struct atoll_contexts *contexts = atoll_api_contexts(call);
    struct atoll_body body;
    struct atoll_error error;
    int r;

    if (!contexts)
        return;
    r = atoll_body_decode(&body, bytes, n, fields, &request, &error);
    if (r == 0)
        atoll_contexts_create(contexts, &request, created, call);
    else
        atoll_api_fail(call, &error);
    atoll_body_done(&body);
}

static void list(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                 size_t n ATOLL_UNUSED)
{
    static const char *const always[] = {"python", "javascript"};
    struct atoll_contexts *contexts = atoll_api_contexts(call);
    struct atoll_context_view view;
    struct atoll_buf buf;
    struct atoll_json_out out;
    struct atoll_error error;

    if (!contexts)
        return;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(always); i++)
        (void)!find_default(call, contexts, always[i], &view, &error);
    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '[');
    /* Clients expect the context created last at the end, so the defaults come first. */
    for (int defaults = 1; defaults >= 0; defaults--)
        for (size_t pos = 0; atoll_contexts_next(contexts, call->params.id, &pos, &view);)
            if (view.is_default == (defaults == 1))
                view_context(&out, &view);
    atoll_json_close(&out, ']');
    atoll_api_reply(call, 200, &out);
}

static void restart(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                    size_t n ATOLL_UNUSED)
{
    struct atoll_contexts *contexts = atoll_api_contexts(call);

    if (contexts)
        atoll_contexts_restart(contexts, call->params.id, call->params.name, reply_null, call);
}

static void destroy(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                    size_t n ATOLL_UNUSED)
{
    struct atoll_contexts *contexts = atoll_api_contexts(call);

    if (contexts)
        atoll_contexts_destroy(contexts, call->params.id, call->params.name, reply_null, call);
}

/* Executing code. */

struct request {
    const char *code, *context, *language;
    const char *const *env;
};

#define AT(member) offsetof(struct request, member)
static const struct atoll_field request_fields[] = {
    {"code", ATOLL_FIELD_STRING, AT(code), 0, TEXT_MAX, NULL, 0},
    {"context_id", ATOLL_FIELD_STRING, AT(context), 0, TEXT_MAX, NULL, 0},
    {"language", ATOLL_FIELD_STRING, AT(language), 0, TEXT_MAX, NULL, 0},
    {"env_vars", ATOLL_FIELD_ENV, AT(env), 0, 0, NULL, 0},
    ATOLL_FIELDS_TOLERANT,
    {0},
};
#undef AT

static int take_request(struct atoll_body *body, const uint8_t *bytes, size_t n,
                        struct request *ret, struct atoll_error *err)
{
    int r = atoll_body_decode(body, bytes, n, request_fields, ret, err);

    if (r == 0 && !ret->code)
        r = atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "code is missing: a string");
    if (r == 0 && ret->context && ret->language)
        r = atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                       "Only one of context_id or language can be provided");
    return r;
}

static void run(struct atoll_api_call *call, struct atoll_contexts *contexts,
                const struct request *q)
{
    const struct atoll_context_run what = {
        .code = q->code, .code_len = strlen(q->code), .env = q->env};
    struct atoll_context_view view;
    struct atoll_error error;
    char text[120];

    if (q->context && !atoll_contexts_find(contexts, call->params.id, q->context, &view)) {
        (void)snprintf(text, sizeof(text), "Context %.64s not found", q->context);
        reply_text(call, 404, text);
    } else if (!q->context &&
               find_default(call, contexts, q->language ? q->language : DEFAULT_LANGUAGE, &view,
                            &error) < 0) {
        fail_start(call, &error);
    } else {
        atoll_context_stream(call, call->params.id, view.id, &what, LINES_TYPE);
    }
}

static void execute(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    struct atoll_contexts *contexts = atoll_api_contexts(call);
    struct request q = {0};
    struct atoll_body body;
    struct atoll_error error;

    if (!contexts)
        return;
    if (take_request(&body, bytes, n, &q, &error) == 0)
        run(call, contexts, &q);
    else
        atoll_api_fail(call, &error);
    atoll_body_done(&body);
}

#define WRITE ATOLL_SCOPE_WRITE
#define READ ATOLL_SCOPE_READ
#define NONE ATOLL_BODY_NONE

/* clang-format off */
static const struct atoll_route rows[] = {
    {ATOLL_GET,    "/health",                  ATOLL_SCOPE_PUBLIC, NONE, health, NULL},
    {ATOLL_POST,   "/execute",                 WRITE, ATOLL_BODY_FILES,  execute, NULL},
    {ATOLL_POST,   "/contexts",                WRITE, ATOLL_BODY_JSON,   create, NULL},
    {ATOLL_GET,    "/contexts",                READ,  NONE,              list, NULL},
    {ATOLL_POST,   "/contexts/{name}/restart", WRITE, NONE,              restart, NULL},
    {ATOLL_DELETE, "/contexts/{name}",         WRITE, NONE,              destroy, NULL},
};
/* clang-format on */

static const struct atoll_protocol protocol = {.fail = fail, .admit = admit};

const struct atoll_routes atoll_e2b_interpreter_routes = {.rows = rows,
                                                          .count = ATOLL_ARRAY_LEN(rows),
                                                          .protocol = &protocol};
