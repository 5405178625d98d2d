#pragma once
#include <curl/curl.h>
#include "base/buf.h"
#include "provider/sync.h"

/*
 * HTTP requests with a deadline that can be given up, over connections that are kept.
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
    const void *body;                 /* borrowed; NULL for none */
    size_t body_len;
    size_t sent; /* of it; the transfer's */
};

#define ATOLL_E2B_ANSWER_MAX ((size_t)8 * 1024 * 1024)
struct atoll_e2b_answer {
    long status;
    uint32_t retry_after_s;
    char next_token[512]; /* of a list that goes on */
    struct atoll_buf body;
};
void atoll_e2b_answer_done(struct atoll_e2b_answer *answer);

/* Fills *ret, which is the caller's to clear, with whatever is answered. `what` begins the text of an
 * error: UNAVAILABLE when nobody answers, DEADLINE_EXCEEDED, ABORTED. */
int atoll_e2b_http_ask(struct atoll_e2b_http *http, const struct atoll_sync_call *call,
                       const char *what, const struct atoll_e2b_ask *ask,
                       struct atoll_e2b_answer *ret, struct atoll_error *err) ATOLL_MUST_CHECK;

/* What every transfer is told, whoever drives it; ask and answer live as long as it does. A body is sent
 * once: what happens when its connection breaks is up to whoever knows what a second time would do. */
void atoll_e2b_http_prepare(CURL *easy, struct atoll_e2b_ask *ask);
void atoll_e2b_http_collect(CURL *easy, struct atoll_e2b_answer *answer);
/* A transfer that did not come to an answer, in words. */
int atoll_e2b_http_broken(CURLcode code, const char *what, struct atoll_error *err);
