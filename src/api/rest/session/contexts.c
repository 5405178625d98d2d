/*
 * Persistent interpreters: contexts of a sandbox, and code run in them. With "Accept:
 * application/x-ndjson" the lines of an execution are streamed, otherwise collected until its end.
 * If the client disconnects, the code is interrupted.
 */
#include <errno.h>
#include <string.h>
#include <strings.h>
#include "api/api_internal.h"
#include "api/fields.h"
#include "api/idempotency.h"
#include "api/kit/context_stream.h"
#include "api/kit/list_reply.h"
#include "api/rest/rest_internal.h"
#include "api/rest/session/contexts_view.h"

#define NDJSON "application/x-ndjson"

static void view_context(struct atoll_json_out *out, const struct atoll_context_view *view)
{
    atoll_json_open(out, NULL, '{');
    atoll_json_text(out, "context_id", view->id);
    atoll_json_text(out, "sandbox_id", view->sandbox_id);
    atoll_json_text(out, "language", view->language);
    atoll_json_text_or_null(out, "cwd", view->cwd);
    atoll_json_text_or_null(out, "user", view->user);
    atoll_json_text_or_null(out, "exec_id", view->exec_id);
    atoll_json_bool(out, "default", view->is_default);
    atoll_json_close(out, '}');
}

/* Create, list, remove. */

static void created(void *arg, const struct atoll_context_view *view,
                    const struct atoll_error *error)
{
    struct atoll_api_call *call = arg;
    struct atoll_buf buf;
    struct atoll_json_out out;

    if (!atoll_api_reply_begin(call, error, &buf, &out))
        return;
    view_context(&out, view);
    atoll_api_reply(call, 201, &out);
}

void atoll_rest_context_create(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
#define AT(member) offsetof(struct atoll_context_create, member)
    static const struct atoll_field fields[] = {
        {"language", ATOLL_FIELD_STRING, AT(language), 1, 32, NULL, 0},
        {"cwd", ATOLL_FIELD_STRING, AT(cwd), 1, 1024, NULL, 0},
        {"user", ATOLL_FIELD_STRING, AT(user), 1, 64, NULL, 0},
        {0},
    };
#undef AT
    struct atoll_context_create create = {.sandbox_id = call->params.id};
    struct atoll_contexts *contexts;
    struct atoll_body body = {0};
    struct atoll_error error;
    int r;

    if (atoll_idempotency_check(call, bytes, n) || !(contexts = atoll_api_contexts(call)))
        return;
    r = atoll_body_decode(&body, bytes, n, fields, &create, &error);
    if (r == 0 && !create.language)
        create.language = "python";
    if (r == 0)
        atoll_contexts_create(contexts, &create, created, call);
    else
        atoll_api_fail(call, &error);
    atoll_body_done(&body);
}

void atoll_rest_context_list(struct atoll_api_call *call, const uint8_t *bytes ATOLL_UNUSED,
                             size_t n ATOLL_UNUSED)
{
    struct atoll_contexts *contexts;
    struct atoll_context_view view;
    struct atoll_list_reply *list;
    struct atoll_error error;
    size_t pos = 0;

    if (!atoll_rest_find_sandbox(call, &error)) {
        atoll_api_fail(call, &error);
        return;
    }
    contexts = atoll_api_contexts(call);
    if (!contexts)
        return;
    list = atoll_list_reply_new(call, "contexts", ']');
    while (atoll_contexts_next(contexts, call->params.id, &pos, &view))
        view_context(&list->out, &view);
    atoll_list_reply_done(list, NULL);
}

void atoll_rest_context_remove(struct atoll_api_call *call, const uint8_t *bytes ATOLL_UNUSED,
                               size_t n ATOLL_UNUSED)
{
    struct atoll_contexts *contexts = atoll_api_contexts(call);

    if (contexts)
        atoll_contexts_destroy(contexts, call->params.id, call->params.name, atoll_rest_done, call);
}

void atoll_rest_context_restart(struct atoll_api_call *call, const uint8_t *bytes ATOLL_UNUSED,
                                size_t n ATOLL_UNUSED)
{
    struct atoll_contexts *contexts = atoll_api_contexts(call);

    if (contexts)
        atoll_contexts_restart(contexts, call->params.id, call->params.name, atoll_rest_done, call);
}

/* Executing code. */

struct execute {
    struct atoll_api_call *call;
    struct atoll_context_collect collect;
};

static void execute_free(struct execute *x)
{
    atoll_context_collect_done(&x->collect);
    free(x);
}

void atoll_view_context_results(struct atoll_json_out *out, const char *key,
                                const struct atoll_context_collect *k)
{
    atoll_json_open(out, key, '[');
    if (atoll_buf_size(&k->results) > 0 && out->error == 0)
        out->error =
            atoll_buf_append(out->buf, atoll_buf_head(&k->results), atoll_buf_size(&k->results));
    atoll_json_close(out, ']');
    if (k->results_truncated)
        atoll_json_bool(out, "results_truncated", true);
}

static void view_error(struct atoll_json_out *out, const json_t *error)
{
    static const char *const keys[] = {"name", "value", "traceback"};

    if (!error) {
        atoll_json_null(out, "error");
        return;
    }
    atoll_json_open(out, "error", '{');
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(keys); i++) {
        const json_t *text = json_object_get(error, keys[i]);
        atoll_json_bytes(out, keys[i], json_string_value(text), json_string_length(text));
    }
    atoll_json_close(out, '}');
}

static void view_execution(struct atoll_json_out *out, const struct atoll_context_collect *k)
{
    static const struct {
        const char *key, *truncated;
    } names[] = {
        [ATOLL_STREAM_STDOUT] = {"stdout", "stdout_truncated"},
        [ATOLL_STREAM_STDERR] = {"stderr", "stderr_truncated"},
    };

    atoll_json_open(out, NULL, '{');
    for (int i = ATOLL_STREAM_STDOUT; i <= ATOLL_STREAM_STDERR; i++) {
        atoll_json_bytes(out, names[i].key, atoll_buf_head(&k->text[i]),
                         atoll_buf_size(&k->text[i]));
        if (k->truncated[i])
            atoll_json_bool(out, names[i].truncated, true);
    }
    atoll_view_context_results(out, "results", k);
    view_error(out, k->error);
    atoll_json_u64(out, "executionCount", k->execution_count);
    atoll_json_close(out, '}');
}

static void ended(void *arg, const struct atoll_error *error)
{
    struct execute *x = arg;
    struct atoll_buf buf;
    struct atoll_json_out out;

    if (atoll_api_reply_begin(x->call, error, &buf, &out)) {
        view_execution(&out, &x->collect);
        atoll_api_reply(x->call, 200, &out);
    }
    execute_free(x);
}

static void client_gone(struct atoll_api_call *call)
{
    execute_free(call->state);
    atoll_api_drop(call);
}

struct execute_fields {
    const char *code;
    const char *const *env;
    const json_t *timeout;
};

static int take_run(const struct execute_fields *f, struct atoll_context_run *ret,
                    struct atoll_error *err)
{
    if (!f->code)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "code is missing: a string");
    *ret = (struct atoll_context_run){.code = f->code, .code_len = strlen(f->code), .env = f->env};
    return atoll_fields_timeout(f->timeout, "timeoutSeconds", &ret->timeout_ms, err);
}

static bool wants_lines(const struct atoll_http_request *req)
{
    const char *accept = atoll_http_header(req, "accept");
    return accept && strcasestr(accept, NDJSON);
}

static void run(struct atoll_api_call *call, struct atoll_contexts *contexts,
                const struct atoll_context_run *what)
{
    struct execute *x;

    if (wants_lines(call->req)) {
        atoll_context_stream(call, call->params.id, call->params.name, what, NDJSON);
        return;
    }
    x = atoll_api_alloc(sizeof(*x));
    x->call = call;
    call->state = x;
    call->on_gone = client_gone;
    atoll_context_collect_start(&x->collect, contexts, call->params.id, call->params.name, what,
                                ended, x);
}

void atoll_rest_context_execute(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
#define AT(member) offsetof(struct execute_fields, member)
    static const struct atoll_field fields[] = {
        {"code", ATOLL_FIELD_STRING, AT(code), 0, (double)ATOLL_BODY_FILES, NULL, 0},
        {"env", ATOLL_FIELD_ENV, AT(env), 0, 0, NULL, 0},
        {"timeoutSeconds", ATOLL_FIELD_JSON, AT(timeout), 0, 0, NULL, 0},
        {0},
    };
#undef AT
    struct execute_fields f = {0};
    struct atoll_contexts *contexts = atoll_api_contexts(call);
    struct atoll_context_run what;
    struct atoll_body body;
    struct atoll_error error;
    int r;

    if (!contexts)
        return;
    r = atoll_body_decode(&body, bytes, n, fields, &f, &error);
    if (r == 0)
        r = take_run(&f, &what, &error);
    if (r == 0)
        run(call, contexts, &what);
    else
        atoll_api_fail(call, &error);
    atoll_body_done(&body);
}
