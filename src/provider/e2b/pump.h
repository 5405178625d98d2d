#pragma once
#include <curl/curl.h>
#include "provider/e2b/remotes.h"
#include "provider/sync.h"

/*
 * One thread that carries all streams to agents and extends the time to live of sandboxes. A stream
 * is a process of the service: its output comes as the answer to its start, its input is sent in
 * separate requests, one after the other. The engine has one end of a socket pair, the thread the
 * other. A half-close is passed on from the engine to the process; the end of either side ends
 * both.
 *
 * Memory and the number of streams are bounded: output waits at the service while the engine does
 * not read.
 * Thread: any. The thread is started with the first stream.
 */
struct atoll_e2b_pump;

#define ATOLL_E2B_STREAMS_MAX 512

/* Borrowed; must outlive the pump. */
struct atoll_e2b_pump_config {
    const char *api_url;
    const char *ca; /* as in http.h */
    const struct curl_slist *api_headers;
    const char *key; /* removed from all error texts */
    struct atoll_e2b_remotes *remotes;
};

int atoll_e2b_pump_new(const struct atoll_e2b_pump_config *config, struct atoll_e2b_pump **ret,
                       struct atoll_error *err) ATOLL_MUST_CHECK;
/* Ends the thread and closes every stream. */
struct atoll_e2b_pump *atoll_e2b_pump_free(struct atoll_e2b_pump *p);

struct atoll_e2b_open {
    const char *handle;
    const char *url;                  /* URL of the sandbox's envd */
    const struct curl_slist *headers; /* sent with every request there; copied */
    const char *cmd;
    const char *const *args; /* ends with NULL */
};
/* Blocks until the process runs. Errors as in http.h and messages.h; RESOURCE_EXHAUSTED. */
int atoll_e2b_pump_open(struct atoll_e2b_pump *p, const struct atoll_sync_call *call,
                        const struct atoll_e2b_open *open, int *ret_fd,
                        struct atoll_error *err) ATOLL_MUST_CHECK;
