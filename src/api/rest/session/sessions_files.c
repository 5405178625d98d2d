/*
 * The files in a session's working directory: list, download, write. All other file operations use
 * the handlers of sandboxes.
 */
#include <errno.h>
#include <string.h>
#include "api/api_internal.h"
#include "api/rest/file/files.h"
#include "api/rest/rest_internal.h"
#include "api/rest/session/session_files.h"
#include "api/rest/session/sessions_view.h"
#include "base/text.h"

/* List. */

struct listing {
    struct atoll_api_call *call;
    const char *key;
};

static void listed(void *arg, const struct atoll_session_artifact *files, size_t count,
                   bool complete, const struct atoll_error *error)
{
    struct listing *l = arg;
    struct atoll_buf buf;
    struct atoll_json_out out;

    if (atoll_api_reply_begin(l->call, error, &buf, &out)) {
        atoll_json_open(&out, NULL, '{');
        atoll_view_artifacts(&out, l->key, files, count, false);
        atoll_json_bool(&out, "complete", complete);
        atoll_json_close(&out, '}');
        atoll_api_reply(l->call, 200, &out);
    }
    free(l);
}

void atoll_rest_session_files_list(struct atoll_api_call *call, const char *key)
{
    struct listing *l = atoll_api_alloc(sizeof(*l));

    *l = (struct listing){call, key};
    atoll_sessions_list_files(call->api->config.sessions, call->params.session, listed, l);
}

void atoll_rest_e2b_file_list(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                              size_t n ATOLL_UNUSED)
{
    atoll_rest_session_files_list(call, "files");
}

/* Download. */

void atoll_rest_session_files_send(struct atoll_api_call *call)
{
    struct atoll_rest_file_target target = {.path = call->params.path};
    struct atoll_error error;

    if (*target.path == '/' || strlen(target.path) > ATOLL_REST_PATH_MAX) {
        (void)atoll_fail(&error, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                         "the path of an artifact is one below the working directory");
        atoll_api_fail(call, &error);
        return;
    }
    atoll_rest_file_send(call, &target);
}

/* GET /api/e2b/files?session_id=…: the list, or with path a file. */
void atoll_rest_e2b_file_get(struct atoll_api_call *call, const uint8_t *body, size_t n)
{
    const char *session = atoll_http_query(call->req, "session_id");
    struct atoll_error error;
    int r = 0;

    if (!session ||
        atoll_text_copy(call->params.session, sizeof(call->params.session), session) < 0 ||
        !atoll_text_is_id(session))
        r = atoll_fail(&error, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                       "?session_id= is missing, or not the id of a session");
    if (r == 0)
        r = atoll_api_enter_session(call, session, &error);
    if (r < 0)
        atoll_api_fail(call, &error);
    else if (atoll_http_query(call->req, "path"))
        atoll_rest_file_download(call, body, n);
    else
        atoll_rest_session_files_list(call, "files");
}

/* The deprecated route: {"session_id","path","content"}. */

struct writing {
    struct atoll_api_call *call;
    struct atoll_body body;
    struct atoll_session_file file; /* borrowed from body */
};

static struct atoll_api_call *writing_free(struct writing *w)
{
    struct atoll_api_call *call = w->call;

    atoll_body_done(&w->body);
    free(w);
    return call;
}

static void written(void *arg, const struct atoll_am_entry *entry, const struct atoll_error *error)
{
    atoll_rest_file_entry(writing_free(arg), entry, error);
}

static int parse_write(struct writing *w, const uint8_t *bytes, size_t n, struct atoll_error *err)
{
    const char *session;
    char id[33] = "";
    int r = atoll_body_parse(&w->body, bytes, n, err);

    if (r < 0)
        return r;
    session = json_string_value(json_object_get(w->body.root, "session_id"));
    if (!session || atoll_text_copy(id, sizeof(id), session) < 0 || !atoll_text_is_id(id))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "session_id is missing, or not the id of a session");
    /* The other fields describe a file. */
    (void)json_object_del(w->body.root, "session_id");
    r = atoll_rest_session_file_decode(w->body.root, "", &w->body, &w->file, err);
    return r < 0 ? r : atoll_api_enter_session(w->call, id, err);
}

void atoll_rest_e2b_file_write(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    struct writing *w = atoll_api_alloc(sizeof(*w));
    struct atoll_error error;

    w->call = call;
    if (parse_write(w, bytes, n, &error) < 0) {
        atoll_api_fail(writing_free(w), &error);
        return;
    }
    atoll_files_put(call->engine, call->params.id, NULL, w->file.path, w->file.mode, w->file.bytes,
                    w->file.len, written, w);
}
