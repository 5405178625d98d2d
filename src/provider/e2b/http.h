#pragma once
#include <curl/curl.h>
#include "base/buf.h"
#include "provider/sync.h"

/*
 * HTTP requests with a deadline and cancellation, over kept connections.
 * Blocking. Thread: any.
 */
struct atoll_e2b_http;

int atoll_e2b_http_new(struct atoll_e2b_http **ret, struct atoll_error *err) ATOLL_MUST_CHECK;
struct atoll_e2b_http *atoll_e2b_http_free(struct atoll_e2b_http *http);

struct atoll_e2b_ask {
    const char *method;
    const char *url;
    const char *ca;                   /* file of the certificates to trust; NULL: the system's */
    const struct curl_slist *headers; /* borrowed */
    const void *body;                 /* borrowed; NULL: no body */
    size_t body_len;
    size_t sent; /* bytes sent so far; used by the transfer */
};

#define ATOLL_E2B_ANSWER_MAX ((size_t)8 * 1024 * 1024)
struct atoll_e2b_answer {
    long status;
    uint32_t retry_after_s;
    char next_token[512]; /* cursor of the next page of a list */
    struct atoll_buf body;
};
void atoll_e2b_answer_done(struct atoll_e2b_answer *answer);

/* Fills *ret with any answer; the caller clears it. Error texts begin with `what`: UNAVAILABLE
 * if the service does not answer, DEADLINE_EXCEEDED, ABORTED. */
int atoll_e2b_http_ask(struct atoll_e2b_http *http, const struct atoll_sync_call *call,
                       const char *what, const struct atoll_e2b_ask *ask,
                       struct atoll_e2b_answer *ret, struct atoll_error *err) ATOLL_MUST_CHECK;

/* Sets the options of every transfer, including those of the pump; ask and answer must outlive
 * it. A body is sent only once: the caller decides whether a request may be repeated after its
 * connection broke. */
void atoll_e2b_http_prepare(CURL *easy, struct atoll_e2b_ask *ask);
void atoll_e2b_http_collect(CURL *easy, struct atoll_e2b_answer *answer);
/* The error of a transfer without an answer. */
int atoll_e2b_http_broken(CURLcode code, const char *what, struct atoll_error *err);
