#pragma once
#include <llhttp.h>
#include "base/buf.h"

/*
 * The answer of an HTTP/1 server, parsed strictly as it arrives: for proxies, which pass it on to their
 * client while it comes.
 *
 * Blocking: nothing here blocks. The parser is plain memory; the events are called from
 * atoll_http1_answer_feed() and must not free it.
 */
struct atoll_http1_answer;

#define ATOLL_HTTP1_ANSWER_HEAD_MAX ((size_t)64 * 1024) /* of a head, and of trailers */

struct atoll_http1_answer_events {
    /* An informational response other than 101 is complete; atoll_http1_answer_next() has its headers.
     * May be NULL. */
    void (*inform)(void *arg, int status);
    /* The head is complete. length: of the body, -1 if it is not known. false: it cannot be passed on. */
    bool (*head)(void *arg, int status, int64_t length);
    /* false: it cannot be passed on. */
    bool (*body)(void *arg, const uint8_t *bytes, size_t n);
};

struct atoll_http1_answer {
    llhttp_t parser;
    const struct atoll_http1_answer_events *events;
    void *arg;
    struct atoll_buf fields; /* "name\0value\0" pairs: of the head, then of the trailers */
    struct atoll_buf reason; /* phrase of the status line */
    size_t head_bytes;       /* so far, while the head is not complete */
    bool to_head;            /* the request was HEAD: the answer has no body */
    bool upgrade;            /* the request asked for an upgrade */
    bool answered;           /* the first byte has arrived */
    bool begun;              /* its head is complete */
    bool informational, switching, complete;
    bool keep; /* complete: the connection can be used again */
};

enum atoll_http1_progress {
    ATOLL_HTTP1_MORE,      /* the answer is not complete */
    ATOLL_HTTP1_COMPLETE,  /* all of it was passed on; atoll_http1_answer_next() has the trailers */
    ATOLL_HTTP1_SWITCHED,  /* 101: the bytes after *ret_used are of the new protocol */
    ATOLL_HTTP1_MALFORMED, /* or an event returned false */
    ATOLL_HTTP1_TOO_LARGE,
};

/* Starts with the answer to a new request; a zeroed struct is valid input. */
void atoll_http1_answer_start(struct atoll_http1_answer *a, bool to_head, bool upgrade,
                              const struct atoll_http1_answer_events *events, void *arg);
void atoll_http1_answer_done(struct atoll_http1_answer *a);

enum atoll_http1_progress atoll_http1_answer_feed(struct atoll_http1_answer *a,
                                                  const uint8_t *bytes, size_t n, size_t *ret_used);
/* The server has closed the connection in an orderly way: whether that completes the answer. */
bool atoll_http1_answer_end(struct atoll_http1_answer *a);

/* The headers, or trailers: start with *at = 0; false at the end. */
bool atoll_http1_answer_next(const struct atoll_http1_answer *a, size_t *at, const char **ret_name,
                             const char **ret_value);
/* The first header of that name, or NULL. */
const char *atoll_http1_answer_field(const struct atoll_http1_answer *a, const char *name);
