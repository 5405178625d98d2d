/*
 * Symbols, by document and by name. For a server that cannot search a project by names, files that contain
 * the text are found first, and the server is asked for the symbols of each.
 */
#include <stdio.h>
#include <string.h>
#include "api/daytona/toolbox_lsp.h"

#define SEARCH_MS 20000

/* At most 50 files, which the server reads itself. */
static const char find_files[] =
    "grep -rliIF --exclude-dir=.git --exclude-dir=node_modules --include='*.py' --include='*.ts'"
    " --include='*.tsx' --include='*.js' --include='*.jsx' -e \"$1\" \"$PWD\" | head -n 50";

static void add_symbol(json_t *array, const json_t *symbol, const char *uri)
{
    json_t *location = json_object_get(symbol, "location");
    json_t *range = json_object_get(symbol, "range");
    json_t *item = json_object();

    (void)json_object_set(item, "name", json_object_get(symbol, "name"));
    (void)json_object_set(item, "kind", json_object_get(symbol, "kind"));
    if (json_is_object(location))
        (void)json_object_set(item, "location", location);
    else
        (void)json_object_set_new(item, "location",
                                  json_pack("{s:s,s:O*}", "uri", uri, "range", range));
    (void)json_array_append_new(array, item);
}

void atoll_toolbox_lsp_symbols(json_t *array, const json_t *result, const char *uri,
                               const char *query)
{
    const json_t *symbol;
    const char *name;
    size_t i;

    json_array_foreach(result, i, symbol)
    {
        name = json_string_value(json_object_get(symbol, "name"));
        if (name && (!query || strcasestr(name, query)))
            add_symbol(array, symbol, uri);
        atoll_toolbox_lsp_symbols(array, json_object_get(symbol, "children"), uri, query);
    }
}

static void next_file(struct atoll_toolbox_lsp *l);

static void file_asked(void *arg, const json_t *result, int code, const struct atoll_error *error)
{
    struct atoll_toolbox_lsp *l = arg;

    if (error && code == 0) { /* the server does not answer any more */
        atoll_toolbox_lsp_fail(l, error);
        return;
    }
    if (!error)
        atoll_toolbox_lsp_symbols(l->symbols, result, l->uri_text, l->query);
    next_file(l);
}

static void next_file(struct atoll_toolbox_lsp *l)
{
    char *line = strsep(&l->next_file, "\n");

    if (!line || !*line) {
        atoll_toolbox_lsp_reply(l, l->symbols);
        return;
    }
    free(l->uri_text);
    l->uri_text = atoll_toolbox_lsp_uri(line);
    atoll_toolbox_lsp_ask(l, "textDocument/documentSymbol",
                          json_pack("{s:{s:s}}", "textDocument", "uri", l->uri_text), file_asked);
}

static void files_found(void *arg, const struct atoll_exec_result *result ATOLL_UNUSED,
                        const struct atoll_error *error)
{
    struct atoll_toolbox_lsp *l = arg;

    if (error) {
        atoll_toolbox_lsp_fail(l, error);
        return;
    }
    l->next_file = (char *)(uintptr_t)atoll_buf_str(&l->files.bytes);
    next_file(l);
}

static void grep_started(void *arg, struct atoll_exec *exec, const struct atoll_error *error)
{
    struct atoll_toolbox_lsp *l = arg;
    struct atoll_api_call *call = l->call;

    if (error) {
        atoll_toolbox_lsp_fail(l, error);
    } else if (!call->req) {
        atoll_toolbox_lsp_free(l);
        atoll_api_drop(call);
    } else {
        atoll_toolbox_lsp_hold(l);
        atoll_toolbox_output_start(&l->files, atoll_http_loop(call->req), exec, true, files_found,
                                   l);
    }
}

static void searched(void *arg, const json_t *result, int code, const struct atoll_error *error)
{
    struct atoll_toolbox_lsp *l = arg;
    const char *const argv[] = {"sh", "-c", find_files, "sh", l->query, NULL};
    const struct atoll_exec_start start = {
        .argv = argv, .cwd = l->project, .timeout_ms = SEARCH_MS};

    l->call->on_gone = NULL;
    l->symbols = json_array();
    if (error && code == ATOLL_LSP_NO_METHOD) {
        atoll_engine_exec(l->call->engine, l->call->params.id, &start, grep_started, l);
    } else if (error) {
        atoll_toolbox_lsp_fail(l, error);
    } else {
        atoll_toolbox_lsp_symbols(l->symbols, result, "", NULL);
        atoll_toolbox_lsp_reply(l, l->symbols);
    }
}

void atoll_toolbox_lsp_search(struct atoll_toolbox_lsp *l)
{
    atoll_toolbox_lsp_ask(l, "workspace/symbol", json_pack("{s:s}", "query", l->query), searched);
}
