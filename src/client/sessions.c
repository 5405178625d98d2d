/* Sessions and the code they run. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/base64.h"
#include "client/compose.h"

/* No timeout while code runs: the daemon answers when the code has ended. */
#define NO_TIMEOUT (-1)

struct session {
    struct atoll_client_session public; /* first: what the caller has a pointer to */
    json_t *view;                       /* owned */
    char *json;                         /* owned */
};

struct execution {
    struct atoll_client_execution public; /* first */
    json_t *view;                         /* owned */
    char *json;                           /* owned */
    struct atoll_buf output[ATOLL_CLIENT_STREAMS];
};

static int no_answer(struct atoll_error *err)
{
    return atoll_fail(err, ATOLL_ERR_DATA_LOSS, EPROTO, "the daemon's answer is malformed");
}

static char *dump(const json_t *view)
{
    return json_dumps(view, JSON_COMPACT | JSON_REAL_PRECISION(15));
}

static int session_new(json_t *view, struct atoll_client_session **ret_session,
                       struct atoll_error *err)
{
    struct session *s = calloc(1, sizeof(*s));

    if (s) {
        s->view = json_incref(view);
        s->json = dump(view);
    }
    if (!s || !s->json) {
        atoll_client_session_free(s ? &s->public : NULL);
        return no_answer(err);
    }
    s->public = (struct atoll_client_session){
        .id = atoll_link_text(view, "session_id", ""),
        .sandbox_id = atoll_link_text(view, "sandbox_id", ""),
        .environment = atoll_link_text(view, "environment", ""),
        .state = atoll_link_text(view, "state", ""),
        .url = atoll_link_text(view, "url", ""),
        .json = s->json,
    };
    *ret_session = &s->public;
    return 0;
}

void atoll_client_session_free(struct atoll_client_session *public)
{
    struct session *s = (struct session *)public;

    if (s) {
        json_decref(s->view);
        free(s->json);
        free(s);
    }
}

static int create(struct atoll_client *client, const char *environment,
                  const struct atoll_client_sandbox_options *sandbox,
                  struct atoll_client_session **ret_session, struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *request = json_object();
    ATOLL_AUTOJSON json_t *reply = NULL;
    int r = atoll_compose_text(request, "environment", environment ? environment : "", err);

    if (r == 0 && sandbox)
        r = atoll_compose_sandbox(request, sandbox, err);
    (void)json_object_del(request, "template"); /* the environment has its own */
    if (r == 0)
        r = atoll_link_call(client, "POST", "/api/sessions", request, &reply, err);
    return r < 0 ? r : session_new(reply, ret_session, err);
}

int atoll_client_session_create(struct atoll_client *client, const char *environment,
                                const struct atoll_client_sandbox_options *sandbox,
                                struct atoll_client_session **ret_session,
                                struct atoll_client_error *error)
{
    struct atoll_error err;
    int r = create(client, environment, sandbox, ret_session, &err);
    return atoll_link_conclude(client, r, &err, error);
}

/* METHOD /api/sessions/ID<action>. */
static int act(struct atoll_client *client, const char *method, const char *id, const char *action,
               json_t *body, json_t **ret_reply, struct atoll_error *err)
{
    struct atoll_link_target target;
    int r = atoll_link_check_id("session", id, err);

    if (r == 0)
        r = atoll_link_target(&target, err, "/api/sessions/%s", id);
    if (r < 0)
        return r;
    strncat(target.text, action, sizeof(target.text) - strlen(target.text) - 1);
    return atoll_link_call(client, method, target.text, body, ret_reply, err);
}

int atoll_client_session_get(struct atoll_client *client, const char *id,
                             struct atoll_client_session **ret_session,
                             struct atoll_client_error *error)
{
    ATOLL_AUTOJSON json_t *reply = NULL;
    struct atoll_error err;
    int r = act(client, "GET", id, "", NULL, &reply, &err);

    if (r == 0)
        r = session_new(reply, ret_session, &err);
    return atoll_link_conclude(client, r, &err, error);
}

int atoll_client_session_destroy(struct atoll_client *client, const char *id,
                                 struct atoll_client_error *error)
{
    struct atoll_error err;
    int r = act(client, "DELETE", id, "", NULL, NULL, &err);
    return atoll_link_conclude(client, r, &err, error);
}

/* Code. */

/* Reads "stdout", or "stdout_base64" if the output was not text. */
static int fill_output(struct execution *x, int stream, const char *name)
{
    struct atoll_client_output *out = &x->public.output[stream];
    struct atoll_buf *buf = &x->output[stream];
    const json_t *coded;
    char key[32];

    (void)snprintf(key, sizeof(key), "%s_truncated", name);
    out->truncated = json_is_true(json_object_get(x->view, key));
    (void)snprintf(key, sizeof(key), "%s_base64", name);
    coded = json_object_get(x->view, key);
    if (!json_is_string(coded)) {
        const json_t *text = json_object_get(x->view, name);
        out->bytes = json_is_string(text) ? json_string_value(text) : "";
        out->size = json_string_length(text);
        return 0;
    }
    atoll_buf_init(buf, ATOLL_LINK_REPLY_MAX);
    if (atoll_base64_decode(buf, json_string_value(coded), json_string_length(coded)) < 0)
        return -EPROTO;
    out->bytes = atoll_buf_str(buf);
    out->size = atoll_buf_size(buf);
    return 0;
}

static void fill_execution(struct execution *x)
{
    const json_t *error = json_object_get(x->view, "error");
    double code = atoll_link_number(x->view, "exit_code", -1);

    x->public.id = atoll_link_text(x->view, "execution_id", "");
    x->public.exit_code = code >= 0 && code <= 255 ? (int)code : -1;
    x->public.error_name = atoll_link_text(error, "name", "");
    x->public.error_value = atoll_link_text(error, "value", "");
    x->public.error_traceback = atoll_link_text(error, "traceback", "");
    x->public.duration_seconds = atoll_link_number(x->view, "duration_ms", 0) / 1000;
    x->public.json = x->json;
}

static int execution_new(json_t *view, struct atoll_client_execution **ret_execution,
                         struct atoll_error *err)
{
    struct execution *x = calloc(1, sizeof(*x));

    if (x) {
        x->view = json_incref(view);
        x->json = dump(view);
    }
    if (!x || !x->json || fill_output(x, ATOLL_CLIENT_STDOUT, "stdout") < 0 ||
        fill_output(x, ATOLL_CLIENT_STDERR, "stderr") < 0) {
        atoll_client_execution_free(x ? &x->public : NULL);
        return no_answer(err);
    }
    fill_execution(x);
    *ret_execution = &x->public;
    return 0;
}

void atoll_client_execution_free(struct atoll_client_execution *public)
{
    struct execution *x = (struct execution *)public;

    if (!x)
        return;
    for (int i = 0; i < ATOLL_CLIENT_STREAMS; i++)
        atoll_buf_done(&x->output[i]);
    json_decref(x->view);
    free(x->json);
    free(x);
}

static int execute(struct atoll_client *client, const char *id, const char *code,
                   const struct atoll_client_code_options *options, json_t **ret_reply,
                   struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *request = json_object();
    struct atoll_client_code_options o;
    int timeout_ms = atoll_link_timeout(client);
    int r = atoll_link_import(&o, sizeof(o), options, err);

    if (r == 0)
        r = atoll_compose_text(request, "code", code ? code : "", err);
    if (r == 0)
        r = atoll_compose_text(request, "language", o.language, err);
    if (r == 0 && atoll_compose_number(request, "timeout", o.timeout_seconds) < 0)
        r = atoll_fail_errno(err, ENOMEM, "request");
    if (r < 0)
        return r;
    atoll_client_set_timeout(client, NO_TIMEOUT);
    r = act(client, "POST", id, "/execute", request, ret_reply, err);
    atoll_client_set_timeout(client, timeout_ms);
    return r;
}

int atoll_client_session_execute(struct atoll_client *client, const char *id, const char *code,
                                 const struct atoll_client_code_options *options,
                                 struct atoll_client_execution **ret_execution,
                                 struct atoll_client_error *error)
{
    ATOLL_AUTOJSON json_t *reply = NULL;
    struct atoll_error err;
    int r = execute(client, id, code, options, &reply, &err);

    if (r == 0)
        r = execution_new(reply, ret_execution, &err);
    return atoll_link_conclude(client, r, &err, error);
}
