/*
 * Language servers in the sandbox, where its template has them. Paths of documents can be relative, as in
 * other requests; a server gets absolute URIs.
 */
#include "api/daytona/toolbox_lsp.h"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include "api/daytona/daytona_internal.h"
#include "api/kit/exec_kill.h"
#include "api/kit/file_read.h"
#include "api/kit/json_value.h"
#include "net/url.h"

#define KIND "daytona-lsp"
enum { LANGUAGE = ATOLL_RELAY_KIND + 1, PROJECT };
#define PROJECT_MAX 1024 /* it is found again by this argument */
#define LANGUAGE_MAX 32
#define DOCUMENT_MAX ((size_t)4 * 1024 * 1024)
#define FILE_SCHEME "file://"

static const struct server {
    const char *language, *program, *script;
} servers[] = {
    {"python", "pylsp", "exec pylsp"},
    {"typescript", "typescript-language-server", "exec typescript-language-server --stdio"},
    {"javascript", "typescript-language-server", "exec typescript-language-server --stdio"},
};

/* What this client can do: it understands plain results. */
static const char capabilities[] =
    "{\"textDocument\":{\"completion\":{\"completionItem\":{\"snippetSupport\":true,"
    "\"commitCharactersSupport\":true,\"documentationFormat\":[\"markdown\",\"plaintext\"],"
    "\"deprecatedSupport\":true,\"preselectSupport\":true},\"contextSupport\":true},"
    "\"documentSymbol\":{},\"synchronization\":{}},\"workspace\":{\"symbol\":{}}}";

void atoll_toolbox_lsp_free(struct atoll_toolbox_lsp *l)
{
    atoll_lsp_close(&l->request);
    atoll_toolbox_output_done(&l->files);
    json_decref(l->symbols);
    atoll_body_done(&l->body);
    free(l->uri_text);
    free(l);
}

void atoll_toolbox_lsp_fail(struct atoll_toolbox_lsp *l, const struct atoll_error *error)
{
    struct atoll_api_call *call = l->call;

    call->on_gone = NULL;
    if (error->kind == ATOLL_ERR_FAILED_PRECONDITION || error->kind == ATOLL_ERR_INVALID_ARGUMENT)
        atoll_daytona_refuse(call, 400, NULL, "%s", error->text);
    else
        atoll_toolbox_path_fail(call, error);
    atoll_toolbox_lsp_free(l);
}

static void client_gone(struct atoll_api_call *call)
{
    atoll_toolbox_lsp_free(call->state);
    atoll_api_drop(call);
}

void atoll_toolbox_lsp_hold(struct atoll_toolbox_lsp *l)
{
    l->call->state = l;
    l->call->on_gone = client_gone;
}

static void reply_empty(struct atoll_toolbox_lsp *l)
{
    l->call->on_gone = NULL;
    atoll_api_reply_empty(l->call, 200);
    atoll_toolbox_lsp_free(l);
}

/* A notification or a request that the client does not wait for. */
static void told(void *arg, const struct atoll_error *error)
{
    if (error)
        atoll_toolbox_lsp_fail(arg, error);
    else
        reply_empty(arg);
}

void atoll_toolbox_lsp_reply(struct atoll_toolbox_lsp *l, const json_t *value)
{
    struct atoll_buf buf;
    struct atoll_json_out out;

    l->call->on_gone = NULL;
    atoll_api_reply_init(&buf, &out);
    atoll_json_value(&out, NULL, value);
    atoll_api_reply(l->call, 200, &out);
    atoll_toolbox_lsp_free(l);
}

char *atoll_toolbox_lsp_uri(const char *path)
{
    struct atoll_buf text;
    char *ret;

    atoll_buf_init(&text, sizeof(FILE_SCHEME) + 3 * strlen(path));
    if (atoll_buf_appends(&text, FILE_SCHEME) < 0 || atoll_url_encode(&text, path, true) < 0)
        abort();
    ret = strdup(atoll_buf_str(&text));
    if (!ret)
        abort();
    atoll_buf_done(&text);
    return ret;
}

/* Servers. */

static bool is_server(const struct atoll_exec_view *v, const char *language, const char *project)
{
    return !v->result && atoll_toolbox_is_kind(v, KIND) && v->argv[PROJECT] &&
           strcmp(v->argv[LANGUAGE], language) == 0 && strcmp(v->argv[PROJECT], project) == 0;
}

static struct atoll_exec *find_server(const struct atoll_toolbox_lsp *l)
{
    struct atoll_sandbox *sandbox = atoll_engine_find(l->call->engine, l->call->params.id);
    struct atoll_exec_view view;
    struct atoll_exec *exec;

    for (size_t pos = 0; sandbox && (exec = atoll_sandbox_next_exec(sandbox, &pos));) {
        atoll_exec_get(exec, &view);
        if (is_server(&view, l->language, l->project))
            return exec;
    }
    return NULL;
}

struct atoll_exec *atoll_toolbox_lsp_server(struct atoll_toolbox_lsp *l)
{
    struct atoll_exec *server = find_server(l);
    struct atoll_error error;

    if (server)
        return server;
    (void)atoll_fail(&error, ATOLL_ERR_FAILED_PRECONDITION, 0, "server not initialized");
    atoll_toolbox_lsp_fail(l, &error);
    return NULL;
}

void atoll_toolbox_lsp_ask(struct atoll_toolbox_lsp *l, const char *method, json_t *params,
                           atoll_lsp_fn *done)
{
    struct atoll_api_call *call = l->call;
    struct atoll_exec *server = NULL;

    if (!call->req) {
        atoll_toolbox_lsp_free(l);
        atoll_api_drop(call);
    } else {
        server = atoll_toolbox_lsp_server(l);
    }
    if (!server) {
        json_decref(params);
        return;
    }
    atoll_toolbox_lsp_hold(l);
    atoll_lsp_ask(&l->request, atoll_http_loop(call->req), call->engine, server, method, params,
                  done, l);
}

/* What clients send. */

static bool refuse_missing(struct atoll_toolbox_lsp *l, const char *name, size_t max)
{
    atoll_daytona_refuse(l->call, 400, NULL, "%s is required, with at most %zu bytes", name, max);
    atoll_toolbox_lsp_free(l);
    return false;
}

static bool is_given(const char *text, size_t max)
{
    return text && *text && strlen(text) <= max;
}

static bool check(struct atoll_toolbox_lsp *l, bool about_document)
{
    if (!is_given(l->language, LANGUAGE_MAX))
        return refuse_missing(l, "languageId", LANGUAGE_MAX);
    if (!is_given(l->project, PROJECT_MAX))
        return refuse_missing(l, "pathToProject", PROJECT_MAX);
    if (about_document && !is_given(l->uri, ATOLL_TOOLBOX_PATH_MAX))
        return refuse_missing(l, "uri", ATOLL_TOOLBOX_PATH_MAX);
    return true;
}

/* NULL: the call has been refused. */
static struct atoll_toolbox_lsp *from_body(struct atoll_api_call *call, const uint8_t *bytes,
                                           size_t n, bool about_document)
{
#define AT(member) offsetof(struct atoll_toolbox_lsp, member)
    static const struct atoll_field fields[] = {
        {"languageId", ATOLL_FIELD_STRING, AT(language), 0, LANGUAGE_MAX, NULL, 0},
        {"pathToProject", ATOLL_FIELD_STRING, AT(project), 0, PROJECT_MAX, NULL, 0},
        {"uri", ATOLL_FIELD_STRING, AT(uri), 0, ATOLL_TOOLBOX_PATH_MAX, NULL, 0},
        {"position", ATOLL_FIELD_JSON, AT(position), 0, 0, NULL, 0},
        {"context", ATOLL_FIELD_JSON, AT(context), 0, 0, NULL, 0},
        ATOLL_FIELDS_TOLERANT,
        {0},
    };
#undef AT
    struct atoll_toolbox_lsp *l = atoll_api_alloc(sizeof(*l));

    l->call = call;
    if (!atoll_toolbox_decode(call, &l->body, bytes, n, fields, l)) {
        free(l);
        return NULL;
    }
    return check(l, about_document) ? l : NULL;
}

static const char *query_text(struct atoll_toolbox_lsp *l, const char *name)
{
    const char *value = atoll_http_query(l->call->req, name);
    char *copy = value ? strdup(value) : NULL;

    if (value && !copy)
        abort();
    if (copy)
        atoll_body_take(&l->body, copy);
    return copy;
}

static struct atoll_toolbox_lsp *from_query(struct atoll_api_call *call, bool about_document)
{
    struct atoll_toolbox_lsp *l = atoll_api_alloc(sizeof(*l));

    l->call = call;
    l->language = query_text(l, "languageId");
    l->project = query_text(l, "pathToProject");
    l->uri = query_text(l, "uri");
    l->query = query_text(l, "query");
    return check(l, about_document) ? l : NULL;
}

static const char *path_of(const char *uri)
{
    size_t n = sizeof(FILE_SCHEME) - 1;

    return strncmp(uri, FILE_SCHEME, n) == 0 && uri[n] ? uri + n : uri;
}

/* Start and stop. */

static const struct server *server_of(const char *language)
{
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(servers); i++)
        if (strcmp(servers[i].language, language) == 0)
            return &servers[i];
    return NULL;
}

static void ignore(void *arg ATOLL_UNUSED, const struct atoll_error *error ATOLL_UNUSED)
{
}

static void initialized(void *arg, const json_t *result ATOLL_UNUSED, int code ATOLL_UNUSED,
                        const struct atoll_error *error)
{
    struct atoll_toolbox_lsp *l = arg;
    struct atoll_exec *server = error ? NULL : atoll_toolbox_find_exec(l->call, l->exec_id);

    if (server) {
        l->call->on_gone = NULL;
        atoll_lsp_tell(server, "initialized", json_object(), told, l);
        return;
    }
    server = atoll_toolbox_find_exec(l->call, l->exec_id);
    if (server)
        atoll_exec_signal(server, SIGKILL, true, ATOLL_TOOLBOX_WHO, ignore, NULL);
    l->call->on_gone = NULL;
    atoll_daytona_refuse(l->call, 500, NULL, "error starting LSP server: %s: %s",
                         server_of(l->language)->program, error ? error->text : "it has ended");
    atoll_toolbox_lsp_free(l);
}

static void started(void *arg, struct atoll_exec *exec, const struct atoll_error *error)
{
    struct atoll_toolbox_lsp *l = arg;
    struct atoll_exec_view view;

    if (error) {
        atoll_toolbox_lsp_fail(l, error);
        return;
    }
    atoll_exec_set_resting(exec, true);
    atoll_exec_get(exec, &view);
    (void)snprintf(l->exec_id, sizeof(l->exec_id), "%s", view.id);
    atoll_toolbox_lsp_ask(l, "initialize",
                          json_pack("{s:n,s:{s:s},s:s,s:o}", "processId", "clientInfo", "name",
                                    "atoll", "rootUri", l->uri_text, "capabilities",
                                    json_loads(capabilities, 0, NULL)),
                          initialized);
}

static void project_found(void *arg, const struct atoll_am_entry *entry,
                          const struct atoll_error *error)
{
    struct atoll_toolbox_lsp *l = arg;
    const char *argv[] = {"sh", "-c", NULL, KIND, l->language, l->project, NULL};
    struct atoll_exec_start start = {.argv = argv, .stdin_open = true};

    if (error) {
        atoll_toolbox_lsp_fail(l, error);
        return;
    }
    argv[2] = server_of(l->language)->script;
    l->uri_text = atoll_toolbox_lsp_uri(entry->path);
    start.cwd = entry->path;
    atoll_engine_exec(l->call->engine, l->call->params.id, &start, started, l);
}

void atoll_daytona_lsp_start(struct atoll_api_call *call, const uint8_t *body, size_t n)
{
    struct atoll_toolbox_lsp *l = from_body(call, body, n, false);

    if (!l)
        return;
    if (!server_of(l->language)) {
        atoll_daytona_refuse(call, 400, NULL, "unsupported language: %s", l->language);
        atoll_toolbox_lsp_free(l);
    } else if (find_server(l)) {
        reply_empty(l);
    } else {
        atoll_files_stat(call->engine, call->params.id, NULL, l->project, project_found, l);
    }
}

static void killed(void *arg, const struct atoll_error *error)
{
    if (error && error->kind != ATOLL_ERR_FAILED_PRECONDITION)
        atoll_api_fail(arg, error);
    else
        atoll_api_reply_empty(arg, 200);
}

/* A server has nothing to save: the client keeps the documents. */
void atoll_daytona_lsp_stop(struct atoll_api_call *call, const uint8_t *body, size_t n)
{
    struct atoll_toolbox_lsp *l = from_body(call, body, n, false);
    struct atoll_exec *server = l ? find_server(l) : NULL;

    if (l && !server)
        atoll_daytona_refuse(call, 400, NULL, "no server for language: %s", l->language);
    if (l)
        atoll_toolbox_lsp_free(l);
    if (server)
        atoll_exec_kill(call, server, true, ATOLL_TOOLBOX_WHO, killed);
}

/* Documents. */

static void document_read(void *arg, const uint8_t *bytes, size_t n, uint32_t mode ATOLL_UNUSED,
                          const struct atoll_error *error)
{
    struct atoll_toolbox_lsp *l = arg;
    struct atoll_exec *server;
    struct atoll_error failure;
    json_t *text;

    if (error) {
        atoll_toolbox_lsp_fail(l, error);
        return;
    }
    text = json_stringn((const char *)bytes, n);
    if (!text) {
        (void)atoll_fail(&failure, ATOLL_ERR_INVALID_ARGUMENT, 0, "the document is not UTF-8");
        atoll_toolbox_lsp_fail(l, &failure);
        return;
    }
    server = atoll_toolbox_lsp_server(l);
    if (!server)
        json_decref(text);
    else
        atoll_lsp_tell(server, "textDocument/didOpen",
                       json_pack("{s:{s:s,s:s,s:i,s:o}}", "textDocument", "uri", l->uri_text,
                                 "languageId", l->language, "version", 1, "text", text),
                       told, l);
}

static void open_found(void *arg, const struct atoll_am_entry *entry,
                       const struct atoll_error *error)
{
    struct atoll_toolbox_lsp *l = arg;

    if (error) {
        atoll_toolbox_lsp_fail(l, error);
        return;
    }
    l->uri_text = atoll_toolbox_lsp_uri(entry->path);
    atoll_file_read_whole(l->call->engine, l->call->params.id, path_of(l->uri), DOCUMENT_MAX,
                          document_read, l);
}

static json_t *document(const struct atoll_toolbox_lsp *l)
{
    return json_pack("{s:{s:s}}", "textDocument", "uri", l->uri_text);
}

static void close_found(void *arg, const struct atoll_am_entry *entry,
                        const struct atoll_error *error)
{
    struct atoll_toolbox_lsp *l = arg;
    struct atoll_exec *server;

    if (error) {
        atoll_toolbox_lsp_fail(l, error);
        return;
    }
    l->uri_text = atoll_toolbox_lsp_uri(entry->path);
    server = atoll_toolbox_lsp_server(l);
    if (server)
        atoll_lsp_tell(server, "textDocument/didClose", document(l), told, l);
}

static void completed(void *arg, const json_t *result, int code ATOLL_UNUSED,
                      const struct atoll_error *error)
{
    const json_t *items = json_is_array(result) ? result : json_object_get(result, "items");
    json_t *list;

    if (error) {
        atoll_toolbox_lsp_fail(arg, error);
        return;
    }
    list = json_pack("{s:b,s:o}", "isIncomplete",
                     json_is_true(json_object_get(result, "isIncomplete")), "items",
                     json_is_array(items) ? json_incref((json_t *)(uintptr_t)items) : json_array());
    atoll_toolbox_lsp_reply(arg, list);
    json_decref(list);
}

static void completion_found(void *arg, const struct atoll_am_entry *entry,
                             const struct atoll_error *error)
{
    struct atoll_toolbox_lsp *l = arg;
    json_t *params;

    if (error) {
        atoll_toolbox_lsp_fail(l, error);
        return;
    }
    l->uri_text = atoll_toolbox_lsp_uri(entry->path);
    params = document(l);
    (void)json_object_set(params, "position", (json_t *)(uintptr_t)l->position);
    if (json_is_object(l->context))
        (void)json_object_set(params, "context", (json_t *)(uintptr_t)l->context);
    atoll_toolbox_lsp_ask(l, "textDocument/completion", params, completed);
}

static void symbols_came(void *arg, const json_t *result, int code ATOLL_UNUSED,
                         const struct atoll_error *error)
{
    struct atoll_toolbox_lsp *l = arg;

    if (error) {
        atoll_toolbox_lsp_fail(l, error);
        return;
    }
    l->symbols = json_array();
    atoll_toolbox_lsp_symbols(l->symbols, result, l->uri_text, NULL);
    atoll_toolbox_lsp_reply(l, l->symbols);
}

static void symbols_found(void *arg, const struct atoll_am_entry *entry,
                          const struct atoll_error *error)
{
    struct atoll_toolbox_lsp *l = arg;

    if (error) {
        atoll_toolbox_lsp_fail(l, error);
        return;
    }
    l->uri_text = atoll_toolbox_lsp_uri(entry->path);
    atoll_toolbox_lsp_ask(l, "textDocument/documentSymbol", document(l), symbols_came);
}

/* l NULL: the call has been refused. */
static void find_document(struct atoll_toolbox_lsp *l, atoll_entry_fn *found)
{
    if (l && (find_server(l) || atoll_toolbox_lsp_server(l)))
        atoll_files_stat(l->call->engine, l->call->params.id, NULL, path_of(l->uri), found, l);
}

void atoll_daytona_lsp_open(struct atoll_api_call *call, const uint8_t *body, size_t n)
{
    find_document(from_body(call, body, n, true), open_found);
}

void atoll_daytona_lsp_close(struct atoll_api_call *call, const uint8_t *body, size_t n)
{
    find_document(from_body(call, body, n, true), close_found);
}

void atoll_daytona_lsp_completions(struct atoll_api_call *call, const uint8_t *body, size_t n)
{
    struct atoll_toolbox_lsp *l = from_body(call, body, n, true);

    if (l && !json_is_object(l->position)) {
        atoll_daytona_refuse(call, 400, ATOLL_TOOLBOX_BAD_BODY,
                             "invalid request body: position must be an object");
        atoll_toolbox_lsp_free(l);
    } else {
        find_document(l, completion_found);
    }
}

void atoll_daytona_lsp_document_symbols(struct atoll_api_call *call,
                                        const uint8_t *body ATOLL_UNUSED, size_t n ATOLL_UNUSED)
{
    find_document(from_query(call, true), symbols_found);
}

void atoll_daytona_lsp_workspace_symbols(struct atoll_api_call *call,
                                         const uint8_t *body ATOLL_UNUSED, size_t n ATOLL_UNUSED)
{
    struct atoll_toolbox_lsp *l = from_query(call, false);

    if (!l)
        return;
    if (is_given(l->query, PROJECT_MAX))
        atoll_toolbox_lsp_search(l);
    else
        (void)refuse_missing(l, "query", PROJECT_MAX);
}
