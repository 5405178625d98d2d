#pragma once
#include <jansson.h>
#include "base/buf.h"
#include "base/error.h"

/*
 * What is said to an E2B service and what it answers, without the saying: texts, JSON and the envelopes
 * of streams (a byte of flags, a big-endian length, JSON). Answers are hostile until they are read.
 * Pure.
 */
#define ATOLL_E2B_HANDLE_MAX 128
#define ATOLL_E2B_TOKEN_MAX 512
#define ATOLL_E2B_DOMAIN_MAX 253
#define ATOLL_E2B_MESSAGE_MAX ((size_t)1024 * 1024) /* one envelope */

/* A sandbox as the service knows it. */
struct atoll_e2b_remote {
    char handle[ATOLL_E2B_HANDLE_MAX + 1];
    char token[ATOLL_E2B_TOKEN_MAX + 1];   /* of its envd; "" for none */
    char domain[ATOLL_E2B_DOMAIN_MAX + 1]; /* "": that of the config */
    char id[33];                           /* what we call it, from its metadata; "" for none */
    bool paused;
};

/* Of the answers to create, connect and look, or of one element of a list. UNAVAILABLE for what is no
 * such answer. */
int atoll_e2b_read_remote(const json_t *answer, struct atoll_e2b_remote *ret,
                          struct atoll_error *err) ATOLL_MUST_CHECK;

/* The last sample of an answer to /metrics. -ENODATA while there is none. */
struct atoll_e2b_sample {
    uint64_t memory_bytes, memory_total_bytes;
    uint64_t disk_bytes, disk_total_bytes;
    double cpus, cpu_percent; /* of all of them together: at most 100 */
};
int atoll_e2b_read_sample(const json_t *answer, struct atoll_e2b_sample *ret) ATOLL_MUST_CHECK;

/* The error an answer with this status means. `what` says what was tried; secret (may be NULL) is
 * left out should the service repeat it. retry_after_s: 0 when it does not say. */
int atoll_e2b_refusal(struct atoll_error *err, const char *what, long status, const char *body,
                      size_t n, uint32_t retry_after_s, const char *secret);
/* Hours in "Timeout cannot be greater than N hours", 0 for any other text. */
uint32_t atoll_e2b_most_hours(const char *body, size_t n);

/* What a new sandbox is to be. */
struct atoll_e2b_wish {
    const char *template_id;
    uint32_t timeout_s;
    bool internet;
    const char *id, *daemon_id;
    const char *metadata_json; /* an object of texts, or NULL: ours have the last word in it */
    const char *const *env;    /* NAME=VALUE, NULL-terminated, or NULL */
};
/* The body of a create; NULL when out of memory. */
json_t *atoll_e2b_create_message(const struct atoll_e2b_wish *request);

/* A body, compact; NULL when out of memory. Takes over the message. */
char *atoll_e2b_dump(json_t *message);
/* Appends the envelope of a message. */
int atoll_e2b_envelope(struct atoll_buf *out, const char *message) ATOLL_MUST_CHECK;

/* The body of process.Process/Start. args ends with NULL. */
json_t *atoll_e2b_start_message(const char *cmd, const char *const *args, bool with_stdin);
/* The bodies of SendInput, CloseStdin and SendSignal (SIGKILL). */
int atoll_e2b_input_message(struct atoll_buf *out, uint32_t pid, const void *bytes,
                            size_t n) ATOLL_MUST_CHECK;
json_t *atoll_e2b_close_message(uint32_t pid);
json_t *atoll_e2b_kill_message(uint32_t pid);

/* What a stream of a process says. */
struct atoll_e2b_event {
    enum {
        ATOLL_E2B_EVENT_START, /* pid */
        ATOLL_E2B_EVENT_STDOUT,
        ATOLL_E2B_EVENT_STDERR,
        ATOLL_E2B_EVENT_EXIT, /* code, text */
        ATOLL_E2B_EVENT_ALIVE,
        ATOLL_E2B_EVENT_END, /* nothing comes after it; kind NONE: it went well, else text */
    } type;
    uint32_t pid;
    const uint8_t *bytes;
    size_t len;
    int code;
    enum atoll_error_kind kind;
    const char *text;
};
typedef int atoll_e2b_event_fn(void *arg, const struct atoll_e2b_event *event);

struct atoll_e2b_events {
    struct atoll_buf pending, decoded;
    bool ended;
};
void atoll_e2b_events_init(struct atoll_e2b_events *e);
void atoll_e2b_events_done(struct atoll_e2b_events *e);
/* Calls fn for every event that is whole now. What fn returns below 0 ends it and is returned;
 * -EBADMSG, -EMSGSIZE, -ENOMEM for a stream that is none. */
int atoll_e2b_events_feed(struct atoll_e2b_events *e, const void *bytes, size_t n,
                          atoll_e2b_event_fn *fn, void *arg) ATOLL_MUST_CHECK;
