#pragma once
#include <jansson.h>
#include "api/kit/exec_pump.h"
#include "base/rand.h"
#include "engine/engine.h"

/*
 * Talks to a language server, which is a command of a sandbox with an open stdin. The daemon keeps no
 * state of a server between requests: each request reads the output of the server from then on, until the
 * response with its id comes. Servers thus survive a restart of the daemon. Requests of the server are
 * answered with null.
 */
#define ATOLL_LSP_WAIT_MS 60000
#define ATOLL_LSP_NO_METHOD (-32601) /* JSON-RPC: the server does not have the method */

/* code: of JSON-RPC, if the server refuses; error->text then has its words. Borrowed during the call. */
typedef void atoll_lsp_fn(void *arg, const json_t *result, int code,
                          const struct atoll_error *error);

/* Ownership: the caller's storage, zeroed before use. */
struct atoll_lsp_request {
    struct atoll_engine *engine;
    struct atoll_exec_pump pump;
    struct atoll_buf bytes; /* of the server */
    struct atoll_timer late;
    char id[ATOLL_ID_LEN + 1], sandbox_id[33], exec_id[17];
    atoll_lsp_fn *done;
    void *arg;
};
/* Sends a request; takes ownership of params. done is called once, maybe before this returns, as the last
 * action; the storage can then be used again. FAILED_PRECONDITION: the server has ended;
 * DEADLINE_EXCEEDED: it did not answer in time. */
void atoll_lsp_ask(struct atoll_lsp_request *r, struct atoll_loop *loop,
                   struct atoll_engine *engine, struct atoll_exec *server, const char *method,
                   json_t *params, atoll_lsp_fn *done, void *arg);
/* done is not called any more. Safe on a zeroed struct, and after the end. */
void atoll_lsp_close(struct atoll_lsp_request *r);

/* Sends a notification; takes ownership of params. done is called when the sandbox has taken it. */
void atoll_lsp_tell(struct atoll_exec *server, const char *method, json_t *params,
                    atoll_done_fn *done, void *arg);
