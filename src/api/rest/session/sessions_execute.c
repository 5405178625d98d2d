/*
 * Runs code in a session. The call waits for the end. If the client disconnects meanwhile, the code
 * continues; its record and output are kept with the sandbox's commands.
 */
#include <errno.h>
#include <string.h>
#include "api/api_internal.h"
#include "api/idempotency.h"
#include "api/rest/rest_internal.h"
#include "api/rest/session/contexts_view.h"
#include "api/rest/session/session_files.h"
#include "api/rest/session/sessions_view.h"
#include "api/rest/views.h"
#include "base/text.h"

struct execute {
    struct atoll_api_call *call;
    struct atoll_body body;
    struct atoll_session_execute request; /* borrowed from body */
    char session[33];
};

struct execute_fields {
    const char *session, *code, *language;
    const json_t *files, *timeout;
};

#define AT(member) offsetof(struct execute_fields, member)
static const struct atoll_field execute_fields[] = {
    {"code", ATOLL_FIELD_STRING, AT(code), 0, (double)ATOLL_BODY_FILES, NULL, 0},
    {"language", ATOLL_FIELD_STRING, AT(language), 1, 64, NULL, 0},
    {"files", ATOLL_FIELD_JSON, AT(files), 0, 0, NULL, 0},
    {"timeout", ATOLL_FIELD_JSON, AT(timeout), 0, 0, NULL, 0},
    {0},
};
/* The deprecated route takes the id in the body. */
static const struct atoll_field session_field[] = {
    {"session_id", ATOLL_FIELD_STRING, AT(session), 1, 32, NULL, 0},
    {0},
};
#undef AT

static void execute_free(struct execute *x)
{
    atoll_body_done(&x->body);
    free(x);
}

/* Response. */

static void view_stream(struct atoll_json_out *out, const struct atoll_session_result *result,
                        int stream, const char *key, const char *truncated)
{
    const uint8_t *bytes = result->streams[stream].bytes;
    size_t n = result->streams[stream].len;

    /* Do not cut in the middle of a character. */
    if (result->streams[stream].truncated)
        n -= atoll_json_utf8_open_tail(bytes, n);
    atoll_json_bytes(out, key, bytes, n);
    if (result->streams[stream].truncated)
        atoll_json_bool(out, truncated, true);
}

static void view_error(struct atoll_json_out *out, const struct atoll_session_result *result)
{
    const struct atoll_session_error *e = &result->error;

    if (!e->name[0]) {
        atoll_json_null(out, "error");
        return;
    }
    atoll_json_open(out, "error", '{');
    atoll_json_text(out, "name", e->name);
    atoll_json_text(out, "value", e->value);
    atoll_json_bytes(out, "traceback", e->traceback, e->traceback_len);
    atoll_view_result(out, "evidence", result->end);
    atoll_json_close(out, '}');
}

static void view_execution(struct atoll_json_out *out, const struct atoll_session_result *result)
{
    atoll_json_open(out, NULL, '{');
    atoll_json_text(out, "execution_id", result->exec_id);
    view_stream(out, result, ATOLL_STREAM_STDOUT, "stdout", "stdout_truncated");
    view_stream(out, result, ATOLL_STREAM_STDERR, "stderr", "stderr_truncated");
    if (result->context) {
        atoll_view_context_results(out, "results", result->context);
        atoll_json_u64(out, "execution_count", result->context->execution_count);
    } else {
        atoll_json_open(out, "results", '[');
        atoll_json_close(out, ']');
    }
    view_error(out, result);
    if (result->end->kind == ATOLL_END_EXITED)
        atoll_json_i64(out, "exit_code", result->end->code);
    else
        atoll_json_null(out, "exit_code");
    atoll_view_artifacts(out, "artifacts", result->artifacts, result->artifact_count, true);
    atoll_json_bool(out, "artifacts_complete", result->artifacts_complete);
    atoll_json_i64(out, "duration_ms", result->end->duration_ms);
    atoll_json_close(out, '}');
}

static void executed(void *arg, const struct atoll_session_result *result,
                     const struct atoll_error *error)
{
    struct execute *x = arg;
    struct atoll_buf buf;
    struct atoll_json_out out;

    if (atoll_api_reply_begin(x->call, error, &buf, &out)) {
        view_execution(&out, result);
        atoll_api_reply(x->call, 200, &out);
    }
    execute_free(x);
}

/* Request. */

static int parse(struct execute *x, const uint8_t *bytes, size_t n, bool older,
                 struct atoll_error *err)
{
    struct execute_fields f = {0};
    const struct atoll_field_set sets[] = {{execute_fields, &f}, {session_field, &f}};
    struct atoll_rest_session_files files = {0};
    int r = atoll_body_parse(&x->body, bytes, n, err);

    if (r == 0)
        r = atoll_fields_decode(&x->body, x->body.root, "", sets, older ? 2 : 1, err);
    if (r == 0 && !f.code)
        r = atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "code is missing: a string");
    if (r == 0)
        r = atoll_fields_timeout(f.timeout, "timeout", &x->request.timeout_ms, err);
    if (r == 0)
        r = atoll_rest_session_files_decode(f.files, &x->body, &files, err);
    if (r == 0 && older && (!f.session || !atoll_text_is_id(f.session)))
        r = atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                       "session_id is missing, or not the id of a session");
    if (r == 0 && older)
        r = atoll_api_enter_session(x->call, f.session, err);
    if (r < 0)
        return r;
    x->request.has_timeout = f.timeout != NULL;
    x->request.code = f.code;
    x->request.code_len = strlen(f.code);
    x->request.language = f.language;
    x->request.files = files.files;
    x->request.file_count = files.count;
    return atoll_text_copy(x->session, sizeof(x->session),
                           older ? f.session : x->call->params.session);
}

static void execute(struct atoll_api_call *call, const uint8_t *bytes, size_t n, bool older)
{
    struct execute *x;
    struct atoll_error error;

    if (atoll_idempotency_check(call, bytes, n))
        return;
    x = atoll_api_alloc(sizeof(*x));
    x->call = call;
    if (parse(x, bytes, n, older, &error) == 0) {
        atoll_sessions_execute(call->api->config.sessions, x->session, &x->request, executed, x);
        return;
    }
    execute_free(x);
    atoll_api_fail(call, &error);
}

void atoll_rest_session_execute(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    execute(call, bytes, n, false);
}

void atoll_rest_e2b_execute(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    execute(call, bytes, n, true);
}
