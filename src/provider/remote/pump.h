#pragma once
#include "provider/remote/http.h"
#include "provider/remote/leases.h"

/*
 * One thread that carries all streams to agents over HTTP and extends the time to live of
 * sandboxes. A stream is a process at the service: its output comes as the answer to one request,
 * which may also start it; its input is sent in further requests, one after the other. The engine has one
 * end of a socket pair, the thread the other. A half-close is passed on from the engine to the
 * process; the end of either side ends both.
 *
 * Memory and the number of streams are bounded: output waits at the service while the engine does
 * not read. A request for input that the service refuses with "later" is repeated (retry.h); after
 * any other failure the stream is broken, and the engine opens another.
 * Thread: any. The thread is started with the first stream.
 */
struct atoll_remote_pump;
struct atoll_remote_stream;

#define ATOLL_REMOTE_STREAMS_MAX 512

/* How a service encodes streams. `state` is that of one stream. All are called on the pump's
 * thread; the last three append the body of a request and return 0 or a negative errno. */
struct atoll_remote_stream_ops {
    /* Takes bytes of the answer, and reports what is in them by the functions below. < 0: they are
     * not such a stream, which ends. */
    int (*decode)(void *state, struct atoll_remote_stream *s, const void *bytes, size_t n);
    int (*input)(void *state, struct atoll_buf *body, const void *bytes, size_t n);
    int (*end_input)(void *state, struct atoll_buf *body);
    /* Kills the process: the service would leave it running after its stream is closed. */
    int (*kill)(void *state, struct atoll_buf *body);
    void (*free)(void *state);
};

/* The process runs: the stream is open. */
void atoll_remote_stream_opened(struct atoll_remote_stream *s);
/* Output of the process; at most 1 MiB for one decode(). */
int atoll_remote_stream_output(struct atoll_remote_stream *s, const void *bytes,
                               size_t n) ATOLL_MUST_CHECK;
void atoll_remote_stream_exited(struct atoll_remote_stream *s, int code);
/* The service reports an error instead of starting the process. */
void atoll_remote_stream_failed(struct atoll_remote_stream *s, enum atoll_error_kind kind,
                                const char *text);

struct atoll_remote_extension {
    char *url, *body;
    struct curl_slist *headers;
};

/* Borrowed; must outlive the pump. */
struct atoll_remote_pump_config {
    struct atoll_remote_http *http;
    const struct atoll_remote_service *service;
    const char *secret; /* removed from all error texts; may be NULL */
    struct atoll_remote_leases *leases;
    /* The request that gives a sandbox lease_s more seconds. The pump frees what it sets, also after an
     * error. On the pump's thread; < 0: tried again later. */
    int (*extend)(void *arg, const char *handle, uint32_t lease_s,
                  struct atoll_remote_extension *ret);
    /* Receives the answer of the service; may be NULL. The same thread. */
    void (*extended)(void *arg, const char *handle, const struct atoll_remote_answer *answer);
    void *arg;
    const char *extend_method;
};

int atoll_remote_pump_new(const struct atoll_remote_pump_config *config,
                          struct atoll_remote_pump **ret, struct atoll_error *err) ATOLL_MUST_CHECK;
/* Ends the thread and closes every stream. */
struct atoll_remote_pump *atoll_remote_pump_free(struct atoll_remote_pump *p);

/* The requests of a stream. */
enum {
    ATOLL_REMOTE_START, /* its answer is the output */
    ATOLL_REMOTE_INPUT,
    ATOLL_REMOTE_END,  /* of input; may be missing */
    ATOLL_REMOTE_KILL, /* may be missing */
    ATOLL_REMOTE_REQUESTS
};

/* Everything is copied, except state and methods, which are constants. */
struct atoll_remote_open {
    const char *handle;
    struct {
        const char *method; /* NULL: POST */
        const char *url;    /* NULL: the service has no such request */
    } to[ATOLL_REMOTE_REQUESTS];
    const struct curl_slist *start_headers, *headers; /* the latter for all but the start */
    const void *start_body;                           /* NULL: the start has no body */
    size_t start_body_len;
    bool running;       /* the process runs already: the stream is open at once */
    int64_t silence_ms; /* a stream on which nothing came for that long is broken */
    const struct atoll_remote_stream_ops *ops;
    void *state; /* ownership passes, also on failure */
};
/* Blocks until the process runs. Errors as in http.h and errors.h; RESOURCE_EXHAUSTED. */
int atoll_remote_pump_open(struct atoll_remote_pump *p, const struct atoll_sync_call *call,
                           const struct atoll_remote_open *open, int *ret_fd,
                           struct atoll_error *err) ATOLL_MUST_CHECK;
