/*
 * The code interpreter: contexts of Python (interpreter/contexts.h). Code runs over a WebSocket: the
 * client sends one text with the code, then gets the output as JSON texts.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "api/api_internal.h"
#include "api/daytona/toolbox_internal.h"
#include "api/kit/context_stream.h"

#define LANGUAGE "python"
#define MESSAGE_MAX ATOLL_BODY_FILES
#define TEXT_MAX ((double)ATOLL_BODY_FILES)
#define OUT_MAX ((size_t)64 * 1024)
#define TIMEOUT_MS (600 * 1000u)
#define REQUEST_MS (30 * 1000)
#define CLOSE_TIMEOUT 4008 /* SDKs make a timeout error of it */

/* Contexts. */

static void write_context(struct atoll_json_out *out, const struct atoll_api_call *call,
                          const struct atoll_context_view *view)
{
    const struct atoll_exec *driver = atoll_toolbox_find_exec(call, view->exec_id);
    struct atoll_sandbox_view sandbox = {0};
    struct atoll_exec_view exec = {0};

    if (driver)
        atoll_exec_get(driver, &exec);
    if (atoll_engine_find(call->engine, call->params.id))
        atoll_sandbox_get(atoll_engine_find(call->engine, call->params.id), &sandbox);
    atoll_json_open(out, NULL, '{');
    atoll_json_text(out, "id", view->id);
    atoll_json_text(out, "cwd", view->cwd);
    atoll_json_time(out, "createdAt",
                    exec.started_unix_ms ? exec.started_unix_ms : sandbox.created_unix_ms);
    atoll_json_bool(out, "active", true);
    atoll_json_text(out, "language", view->language);
    atoll_json_close(out, '}');
}

static void created(void *arg, const struct atoll_context_view *view,
                    const struct atoll_error *error)
{
    struct atoll_api_call *call = arg;
    struct atoll_buf buf;
    struct atoll_json_out out;

    if (!atoll_api_reply_begin(call, error, &buf, &out))
        return;
    write_context(&out, call, view);
    atoll_api_reply(call, 200, &out);
}

struct creating {
    struct atoll_api_call *call;
    struct atoll_body body;
    const char *cwd, *language;
};

/* Clients expect an absolute path. */
static void looked(void *arg, const struct atoll_am_entry *entry, const struct atoll_error *error)
{
    struct creating *c = arg;
    const struct atoll_context_create create = {.sandbox_id = c->call->params.id,
                                                .language = c->language ? c->language : LANGUAGE,
                                                .cwd = error ? NULL : entry->path};

    if (error)
        atoll_toolbox_path_fail(c->call, error);
    else
        atoll_contexts_create(c->call->api->config.contexts, &create, created, c->call);
    atoll_body_done(&c->body);
    free(c);
}

void atoll_daytona_context_create(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    static const struct atoll_field fields[] = {
        {"cwd", ATOLL_FIELD_STRING, offsetof(struct creating, cwd), 0, ATOLL_TOOLBOX_PATH_MAX, NULL,
         0},
        {"language", ATOLL_FIELD_STRING, offsetof(struct creating, language), 0, 64, NULL, 0},
        ATOLL_FIELDS_TOLERANT,
        {0},
    };
    struct creating *c;

    if (!atoll_api_contexts(call))
        return;
    c = atoll_api_alloc(sizeof(*c));
    c->call = call;
    if (!atoll_toolbox_decode(call, &c->body, bytes, n, fields, c)) {
        free(c);
        return;
    }
    if (c->language && *c->language && strcmp(c->language, LANGUAGE) != 0) {
        atoll_daytona_refuse(call, 400, NULL,
                             "unsupported language: %.64s; only python is supported", c->language);
        atoll_body_done(&c->body);
        free(c);
        return;
    }
    c->language = NULL;
    atoll_files_stat(call->engine, call->params.id, NULL, c->cwd && *c->cwd ? c->cwd : ".", looked,
                     c);
}

void atoll_daytona_context_list(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                                size_t n ATOLL_UNUSED)
{
    struct atoll_contexts *contexts = atoll_api_contexts(call);
    struct atoll_context_view view;
    struct atoll_buf buf;
    struct atoll_json_out out;

    if (!contexts)
        return;
    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '{');
    atoll_json_open(&out, "contexts", '[');
    for (size_t pos = 0; atoll_contexts_next(contexts, call->params.id, &pos, &view);)
        if (!view.is_default)
            write_context(&out, call, &view);
    atoll_json_close(&out, ']');
    atoll_json_close(&out, '}');
    atoll_api_reply(call, 200, &out);
}

static void deleted(void *arg, const struct atoll_error *error)
{
    static const char text[] = "{\"message\":\"Context deleted successfully\"}";

    if (error)
        atoll_api_fail(arg, error);
    else
        atoll_api_reply_text(arg, 200, "application/json", text, sizeof(text) - 1);
}

void atoll_daytona_context_delete(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                                  size_t n ATOLL_UNUSED)
{
    struct atoll_contexts *contexts = atoll_api_contexts(call);
    struct atoll_context_view view;

    if (!contexts)
        return;
    if (!atoll_contexts_find(contexts, call->params.id, call->params.template, &view)) {
        atoll_daytona_refuse(call, 404, NULL, "context not found");
        return;
    }
    if (view.is_default)
        atoll_daytona_refuse(call, 400, NULL, "the default context cannot be deleted");
    else
        atoll_contexts_destroy(contexts, call->params.id, view.id, deleted, call);
}

/* Executions. */

struct run {
    struct atoll_ws_link w;
    struct atoll_contexts *contexts;
    struct atoll_execution *execution; /* NULL: none runs */
    struct atoll_timer late;           /* the request does not come */
    struct atoll_buf out;
    bool asked;
};

struct request {
    const char *code, *context;
    const char *const *env;
    const json_t *timeout;
};

static void run_free(struct run *x)
{
    x->execution = atoll_execution_abandon(x->execution);
    atoll_timer_cancel(&x->late);
    atoll_ws_link_close(&x->w);
    atoll_buf_done(&x->out);
    free(x);
}

static void run_fail(struct run *x, uint16_t code, const char *text)
{
    if (x->w.ws)
        atoll_ws_close(x->w.ws, code, text);
}

/* Lines of the context have more members than clients of Daytona know; they ignore those. */
static void on_line(void *arg, enum atoll_context_line_kind kind, const char *json, size_t n)
{
    struct run *x = arg;

    if (kind == ATOLL_LINE_COUNT || kind == ATOLL_LINE_RESULT || !x->w.ws)
        return;
    if (kind == ATOLL_LINE_ERROR && x->execution && atoll_execution_timed_out(x->execution))
        return; /* the daemon has interrupted it */
    if (atoll_ws_send(x->w.ws, false, json, n) == -ENOBUFS)
        run_fail(x, ATOLL_WS_INTERNAL, "the output is read too slowly");
    else if (x->execution && atoll_ws_pending(x->w.ws) > ATOLL_HTTP_HIGH_WATER)
        atoll_execution_pause(x->execution);
}

/*
 * Code that took too long ends with CLOSE_TIMEOUT. If its interpreter could be interrupted and goes on,
 * `interrupted` is sent before: the SDK for TypeScript returns the output so far then, the one for
 * Python ignores that message.
 */
static void on_ended(void *arg, const struct atoll_error *error)
{
    struct run *x = arg;
    bool is_late = x->execution && atoll_execution_timed_out(x->execution);
    bool is_killed = is_late && atoll_execution_end(x->execution);
    struct atoll_json_out out;

    x->execution = NULL;
    if (!x->w.ws)
        return;
    if (error && !is_killed) {
        run_fail(x, error->kind == ATOLL_ERR_NOT_FOUND ? ATOLL_WS_POLICY : ATOLL_WS_INTERNAL,
                 error->text);
        return;
    }
    if (!is_killed) {
        out = atoll_toolbox_ws_begin(&x->out, "control");
        atoll_json_text(&out, "text", is_late ? "interrupted" : "completed");
        atoll_toolbox_ws_send(&x->w, &out);
    }
    if (is_late)
        run_fail(x, CLOSE_TIMEOUT, "execution timed out");
    else
        atoll_ws_close(x->w.ws, ATOLL_WS_NORMAL, NULL);
}

static const struct atoll_context_events events = {on_line, on_ended};

/* The context's id; false: the WebSocket is closed. */
static bool find_context(struct run *x, const char *id, struct atoll_context_view *ret)
{
    const struct atoll_context_create create = {.sandbox_id = x->w.sandbox_id,
                                                .language = LANGUAGE};
    struct atoll_error error;

    if (id && *id && strcmp(id, "default") != 0) {
        if (atoll_contexts_find(x->contexts, x->w.sandbox_id, id, ret))
            return true;
        run_fail(x, ATOLL_WS_POLICY, "context not found");
        return false;
    }
    if (atoll_contexts_default(x->contexts, &create, ret, &error) == 0)
        return true;
    run_fail(x, ATOLL_WS_INTERNAL, error.text);
    return false;
}

static void execute(struct run *x, const struct request *request, uint32_t timeout_ms)
{
    const struct atoll_context_run run = {.code = request->code,
                                          .code_len = strlen(request->code),
                                          .env = request->env,
                                          .timeout_ms = timeout_ms};
    struct atoll_context_view view;
    struct atoll_execution *e;

    if (!find_context(x, request->context, &view))
        return;
    e = atoll_contexts_execute(x->contexts, x->w.sandbox_id, view.id, &run, &events, x);
    if (e) /* NULL: it has ended */
        x->execution = e;
}

static void on_message(void *arg, struct atoll_ws *ws ATOLL_UNUSED, bool binary ATOLL_UNUSED,
                       const uint8_t *bytes, size_t n)
{
#define AT(member) offsetof(struct request, member)
    static const struct atoll_field fields[] = {
        {"code", ATOLL_FIELD_STRING, AT(code), 0, TEXT_MAX, NULL, 0},
        {"contextId", ATOLL_FIELD_STRING, AT(context), 0, ATOLL_TOOLBOX_KEY_MAX, NULL, 0},
        {"envs", ATOLL_FIELD_ENV, AT(env), 0, 0, NULL, 0},
        {"timeout", ATOLL_FIELD_JSON, AT(timeout), 0, 0, NULL, 0},
        ATOLL_FIELDS_TOLERANT,
        {0},
    };
#undef AT
    struct run *x = arg;
    struct request request = {0};
    uint32_t timeout_ms = TIMEOUT_MS;
    struct atoll_error error;
    struct atoll_body body;
    int r;

    if (x->asked)
        return;
    x->asked = true;
    atoll_timer_cancel(&x->late);
    r = atoll_body_decode(&body, bytes, n, fields, &request, &error);
    if (r == 0)
        r = atoll_fields_timeout(request.timeout, "timeout", &timeout_ms, &error);
    if (r < 0)
        run_fail(x, ATOLL_WS_POLICY, error.text);
    else if (!request.code || !*request.code)
        run_fail(x, ATOLL_WS_POLICY, "code must be given");
    else
        execute(x, &request, timeout_ms);
    atoll_body_done(&body);
}

static void on_drain(void *arg, struct atoll_ws *ws ATOLL_UNUSED)
{
    struct run *x = arg;

    if (x->execution)
        atoll_execution_resume(x->execution);
}

static void on_close(void *arg, struct atoll_ws *ws ATOLL_UNUSED, uint16_t code ATOLL_UNUSED)
{
    run_free(arg);
}

static const struct atoll_ws_callbacks ws_callbacks = {on_message, on_drain, on_close};

static void drop(struct atoll_api_session *session)
{
    run_free(ATOLL_CONTAINER_OF(session, struct run, w.session));
}

static void too_late(void *arg)
{
    run_fail(arg, ATOLL_WS_POLICY, "the request did not arrive in time");
}

void atoll_daytona_interpreter_execute(struct atoll_api_call *call,
                                       const uint8_t *body ATOLL_UNUSED, size_t n ATOLL_UNUSED)
{
    struct atoll_contexts *contexts = atoll_api_contexts(call);
    struct run *x;

    if (!contexts)
        return;
    if (!atoll_ws_wanted(call->req)) {
        atoll_daytona_refuse(call, 400, NULL,
                             "this is a WebSocket; the request must ask for an upgrade");
        return;
    }
    x = atoll_api_alloc(sizeof(*x));
    x->contexts = contexts;
    atoll_buf_init(&x->out, OUT_MAX);
    if (atoll_toolbox_ws_accept(&x->w, call, &ws_callbacks, x, MESSAGE_MAX, drop))
        atoll_timer_set(&x->late, x->w.loop, REQUEST_MS, too_late, x);
    else
        run_free(x);
}
