#pragma once
#include <curl/curl.h>
#include <sys/socket.h>
#include "base/buf.h"
#include "provider/remote/errors.h"
#include "provider/sync.h"

/*
 * The HTTP client of providers whose sandboxes are made by a service. Requests have a deadline, can
 * be cancelled, and use kept connections. A request with a body is sent at most once unless it asks
 * for more tries: its connection may break after the service has acted on it.
 *
 * Blocking. Thread: any. pump.h runs the same requests without a waiting caller.
 */
struct atoll_remote_http;

struct atoll_remote_http_config {
    const struct atoll_remote_service *service; /* borrowed: must outlive the client */
    const char *socket_path;                    /* of a unix socket; NULL: TCP */
    /* PEM files. ca NULL: the authorities of SSL_CERT_FILE, else the system's; cert and key NULL: none of ours. */
    const char *ca, *cert, *key;
    unsigned connections; /* maximum of requests at the same time, others wait; 0: no maximum */
    bool direct;          /* no proxy of the environment */
    bool http1;           /* HTTP/1.1; else HTTP/2 where TLS settles it */
    bool always_proxy;    /* no_proxy of the environment does not apply */
    bool unverified;      /* any certificate will do */
    /* Whether a connection to that address may be made; NULL: any. A request that finds no other
     * address fails with PERMISSION_DENIED. With a proxy the address is the proxy's. */
    bool (*may_connect)(const struct sockaddr *address);
};

/* Copies the strings of the config. */
int atoll_remote_http_new(const struct atoll_remote_http_config *config,
                          struct atoll_remote_http **ret, struct atoll_error *err) ATOLL_MUST_CHECK;
struct atoll_remote_http *atoll_remote_http_free(struct atoll_remote_http *http);

#define ATOLL_REMOTE_ANSWER_MAX ((size_t)8 * 1024 * 1024)

/* Everything is borrowed until the request has ended. */
struct atoll_remote_request {
    const char *what; /* operation, in front of error texts; NULL: nothing */
    const char *method, *url;
    const struct curl_slist *headers;
    const void *body; /* NULL: the request has no body */
    size_t body_len;
    /* Or a body of unknown length, read in pieces: 0 at its end, < 0 on failure. */
    ssize_t (*read)(void *arg, void *out, size_t cap);
    void *read_arg;
    const uint64_t *read_len; /* its length, if it is known; NULL: it is sent in chunks */
    /* Receives the body of an answer with status 2xx in pieces. < 0: ends the request, which is
     * not an error. 1: the piece was not taken; the transfer of a pump pauses. */
    int (*sink)(void *arg, const void *bytes, size_t n);
    void *sink_arg;
    size_t answer_max;  /* of the body that is kept; 0: ATOLL_REMOTE_ANSWER_MAX */
    const char *header; /* name of a header of the answer to return; NULL: none */
    /* Receives each line of the head of the answer, with its status line; NULL: not wanted. */
    void (*head)(void *arg, const char *line, size_t n);
    void *head_arg;
    int64_t timeout_ms; /* 0: only the deadline of the call */
    uint32_t stall_s;   /* fails as if it had timed out when no byte moves for so long; 0: never */
    /* How often the request may be sent if the service answers "later" (429, 503), which means
     * that it did nothing; see retry.h. 0: once. */
    unsigned tries;
    bool slow; /* takes minutes: does not count as one of config.connections */
};

struct atoll_remote_answer {
    long status; /* 0: no answer */
    uint32_t retry_after_s;
    char header[512]; /* value of request.header, or "" */
    struct atoll_buf body;
};
void atoll_remote_answer_done(struct atoll_remote_answer *answer);
#define ATOLL_REMOTE_AUTOANSWER ATOLL_CLEANUP(atoll_remote_answer_done)

/* Any status is a success: see atoll_remote_refused() for those that are not. The caller clears
 * *ret, also on failure. UNAVAILABLE: the service does not answer. DEADLINE_EXCEEDED, ABORTED.
 * RESOURCE_EXHAUSTED: the answer is too long. INVALID_ARGUMENT: request.read failed.
 * FAILED_PRECONDITION: the certificate is not trusted, or the URL is malformed.
 * PERMISSION_DENIED: config.may_connect. */
int atoll_remote_http_ask(struct atoll_remote_http *http, const struct atoll_sync_call *call,
                          const struct atoll_remote_request *request,
                          struct atoll_remote_answer *ret,
                          struct atoll_error *err) ATOLL_MUST_CHECK;

/* The trimmed value of a line of the head if it is the header `name` (out is "" if it does not fit). */
bool atoll_remote_take_header(const char *line, size_t n, const char *name, char *out, size_t cap);

/* Appends a line to a list of headers; on failure the list is freed. */
int atoll_remote_header(struct curl_slist **list, struct atoll_error *err, const char *fmt, ...)
    ATOLL_PRINTF(3, 4) ATOLL_MUST_CHECK;
/* Appends all lines of `more`; the same otherwise. */
int atoll_remote_headers(struct curl_slist **list, const struct curl_slist *more,
                         struct atoll_error *err) ATOLL_MUST_CHECK;

static inline void atoll_remote_auto_slist(struct curl_slist **list)
{
    curl_slist_free_all(*list);
}
#define ATOLL_REMOTE_AUTOSLIST ATOLL_CLEANUP(atoll_remote_auto_slist)

/* For code that drives a handle of libcurl itself: */

/* One request on an easy handle. */
struct atoll_remote_transfer {
    CURL *easy; /* owned by the user of the transfer */
    struct atoll_remote_request request;
    struct atoll_remote_answer answer; /* status is set when the transfer has ended */
    size_t sent;                       /* bytes of request.body */
    bool sink_ended, too_long, read_failed;
    bool (*may_connect)(const struct sockaddr *address); /* of the client's config */
    bool kept_out;                                       /* it refused an address */
    bool busy;                                           /* see pump_internal.h, also for done */
    void (*done)(struct atoll_remote_transfer *t, CURLcode code);
};
/* Sets all options of t->easy for t->request and clears the answer. */
void atoll_remote_transfer_prepare(const struct atoll_remote_http *http,
                                   struct atoll_remote_transfer *t);
/* The result of a transfer that ended with `code`: 0 if there is an answer. */
int atoll_remote_transfer_result(const struct atoll_remote_http *http,
                                 const struct atoll_remote_transfer *t, CURLcode code,
                                 struct atoll_error *err);
/* Sets the options that every connection to this service has. */
void atoll_remote_http_aim(const struct atoll_remote_http *http, CURL *easy);
/* The error of a transfer without an answer. what may be NULL. */
int atoll_remote_http_broken(const struct atoll_remote_http *http, CURLcode code, const char *what,
                             struct atoll_error *err);
/* The error of a call that waits no longer: ABORTED or DEADLINE_EXCEEDED. */
int atoll_remote_http_given_up(const struct atoll_remote_http *http,
                               const struct atoll_sync_call *call, const char *what,
                               struct atoll_error *err);
