#pragma once
#include "api/daytona/lsp_peer.h"
#include "api/daytona/toolbox_internal.h"

/*
 * One request about a language server. A server is an exec whose arguments name its language and project,
 * both as the client gave them. Ownership: atoll_toolbox_lsp_free().
 */
struct atoll_toolbox_lsp {
    struct atoll_api_call *call;
    struct atoll_body body;
    const char *language, *project, *uri, *query; /* of the body or of the request's target */
    const json_t *position, *context;
    char exec_id[17];
    struct atoll_lsp_request request;
    struct atoll_toolbox_output files; /* toolbox_lsp_symbols.c: where the text occurs */
    char *next_file;
    json_t *symbols; /* owned */
    char *uri_text;  /* owned: the URI of the document for the server */
};
void atoll_toolbox_lsp_free(struct atoll_toolbox_lsp *l);
/* While l waits for something that the client can abandon: frees l when the client disconnects. */
void atoll_toolbox_lsp_hold(struct atoll_toolbox_lsp *l);
/* Ends the call with an error and frees l. */
void atoll_toolbox_lsp_fail(struct atoll_toolbox_lsp *l, const struct atoll_error *error);
/* The server of the request; NULL: it has ended, and the call was refused and l freed. */
struct atoll_exec *atoll_toolbox_lsp_server(struct atoll_toolbox_lsp *l);
/* Sends a request to the server; the call and l end if no server runs, or if the client is gone. */
void atoll_toolbox_lsp_ask(struct atoll_toolbox_lsp *l, const char *method, json_t *params,
                           atoll_lsp_fn *done);
/* "file://" and the path with escapes, malloced. */
char *atoll_toolbox_lsp_uri(const char *path);

/* toolbox_lsp_symbols.c: answers the call with symbols whose names contain the query, and frees l. */
void atoll_toolbox_lsp_search(struct atoll_toolbox_lsp *l);
/* Adds the symbols of a response about a document to the array; with a query, those whose names contain
 * it. Symbols in a tree are added one by one. */
void atoll_toolbox_lsp_symbols(json_t *array, const json_t *result, const char *uri,
                               const char *query);
void atoll_toolbox_lsp_reply(struct atoll_toolbox_lsp *l, const json_t *value);
