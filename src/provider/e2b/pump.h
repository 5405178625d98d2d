#pragma once
#include <curl/curl.h>
#include "provider/e2b/remotes.h"
#include "provider/sync.h"

/*
 * One thread that carries all streams to agents, and moves the time to live of sandboxes on. A stream is
 * a process of the service: what it prints comes as the answer to its start, what it is to read goes in
 * requests of their own, one after the other. The engine has one end of a socket pair, the thread the
 * other; half-closes travel in the engine's direction, and the end of either side is that of both.
 *
 * Memory and streams are bounded: output waits at the service while the engine does not read.
 * Thread: any. The thread is started with the first stream.
 */
struct atoll_e2b_pump;

#define ATOLL_E2B_STREAMS_MAX 512

/* Borrowed; outlives the pump. */
struct atoll_e2b_pump_config {
    const char *api_url;
    const char *ca; /* as in http.h */
    const struct curl_slist *api_headers;
    const char *key; /* appears in no error */
    struct atoll_e2b_remotes *remotes;
};

int atoll_e2b_pump_new(const struct atoll_e2b_pump_config *config, struct atoll_e2b_pump **ret,
                       struct atoll_error *err) ATOLL_MUST_CHECK;
/* Ends the thread. Every stream is closed. */
struct atoll_e2b_pump *atoll_e2b_pump_free(struct atoll_e2b_pump *p);

struct atoll_e2b_open {
    const char *handle;
    const char *url;                  /* of its envd */
    const struct curl_slist *headers; /* of every request there; copied */
    const char *cmd;
    const char *const *args; /* NULL at the end */
};
/* Blocks until the process runs. Errors as in http.h and messages.h; RESOURCE_EXHAUSTED. */
int atoll_e2b_pump_open(struct atoll_e2b_pump *p, const struct atoll_sync_call *call,
                        const struct atoll_e2b_open *open, int *ret_fd,
                        struct atoll_error *err) ATOLL_MUST_CHECK;
