#pragma once
#include <jansson.h>
#include "base/buf.h"
#include "base/error.h"
#include "provider/remote/provider.h"

/*
 * Messages to and from an E2B service: texts, JSON and the envelopes of streams (a byte of flags, a
 * big-endian length, JSON). Answers are hostile until they are checked. Pure.
 */
#define ATOLL_E2B_TOKEN_MAX 512
#define ATOLL_E2B_DOMAIN_MAX 253
#define ATOLL_E2B_MESSAGE_MAX ((size_t)1024 * 1024) /* one envelope */

/* A sandbox as the service describes it. */
struct atoll_e2b_remote {
    struct atoll_remote_sandbox of;
    char token[ATOLL_E2B_TOKEN_MAX + 1];   /* of its envd; "": no token */
    char domain[ATOLL_E2B_DOMAIN_MAX + 1]; /* "": the configured domain */
};

/* Reads the answer to create, connect or inspect, or one element of a list. UNAVAILABLE: not
 * such an answer. */
int atoll_e2b_read_remote(const json_t *answer, struct atoll_e2b_remote *ret,
                          struct atoll_error *err) ATOLL_MUST_CHECK;

/* The last sample in an answer to /metrics. -ENODATA if there is none yet. */
struct atoll_e2b_sample {
    uint64_t memory_bytes, memory_total_bytes;
    uint64_t disk_bytes, disk_total_bytes;
    double cpus, cpu_percent; /* percentage of all CPUs together: at most 100 */
};
int atoll_e2b_read_sample(const json_t *answer, struct atoll_e2b_sample *ret) ATOLL_MUST_CHECK;

/* The meaning of its refusals. */
extern const struct atoll_remote_service atoll_e2b_service;
/* Hours in "Timeout cannot be greater than N hours", 0 for any other text. */
uint32_t atoll_e2b_most_hours(const char *body, size_t n);

/* Parameters of a new sandbox. */
struct atoll_e2b_create_params {
    const char *template_id;
    uint32_t timeout_s;
    bool internet;
    json_t *metadata, *env; /* ownership passes */
    json_t *network;        /* borrowed; NULL: all that the service permits */
};
/* The body of a create; NULL when out of memory. */
json_t *atoll_e2b_create_message(const struct atoll_e2b_create_params *request);

/* network.c: a policy in its canonical form as "network" of a create; NULL: everything. *ret NULL: the
 * member is left out. UNIMPLEMENTED: the service cannot enforce it; the text says what. */
int atoll_e2b_network(const char *policy_json, json_t **ret,
                      struct atoll_error *err) ATOLL_MUST_CHECK;

/* Appends the envelope of a message. */
int atoll_e2b_envelope(struct atoll_buf *out, const char *message) ATOLL_MUST_CHECK;

/* The body of process.Process/Start. args ends with NULL. */
json_t *atoll_e2b_start_message(const char *cmd, const char *const *args, bool with_stdin);
/* The bodies of SendInput, CloseStdin and SendSignal (SIGKILL). */
int atoll_e2b_input_message(struct atoll_buf *out, uint32_t pid, const void *bytes,
                            size_t n) ATOLL_MUST_CHECK;
json_t *atoll_e2b_close_message(uint32_t pid);
json_t *atoll_e2b_kill_message(uint32_t pid);

/* An event in the stream of a process. */
struct atoll_e2b_event {
    enum {
        ATOLL_E2B_EVENT_START, /* pid */
        ATOLL_E2B_EVENT_STDOUT,
        ATOLL_E2B_EVENT_STDERR,
        ATOLL_E2B_EVENT_EXIT, /* code, text */
        ATOLL_E2B_EVENT_ALIVE,
        ATOLL_E2B_EVENT_END, /* the last event; kind NONE: success, else text */
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
/* Calls fn for every complete event. A negative result of fn stops and is returned. -EBADMSG,
 * -EMSGSIZE, -ENOMEM: not a valid stream. */
int atoll_e2b_events_feed(struct atoll_e2b_events *e, const void *bytes, size_t n,
                          atoll_e2b_event_fn *fn, void *arg) ATOLL_MUST_CHECK;
