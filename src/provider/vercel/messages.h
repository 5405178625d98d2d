#pragma once
#include <jansson.h>
#include "base/buf.h"
#include "provider/remote/provider.h"

/*
 * Messages to and from a Vercel service. Answers are hostile until they are checked. Pure.
 */
#define ATOLL_VERCEL_URL_MAX 300
#define ATOLL_VERCEL_SESSION_MAX 128

/* A sandbox as the service describes it, with its session and its relay. */
struct atoll_vercel_remote {
    struct atoll_remote_sandbox of;
    char session[ATOLL_VERCEL_SESSION_MAX + 1]; /* "": not said, as in lists */
    char url[ATOLL_VERCEL_URL_MAX + 1];         /* of the relay's port; "": not published */
    char subdomain[128];                        /* the same as a name below the service's domain */
    int64_t began_unix_ms, timeout_ms;          /* of the session */
    struct atoll_remote_relay relay;            /* port 0: not known yet */
};

/* Reads {"sandbox", "session", "routes"}: the answer to create and get. port: of the relay. UNAVAILABLE: not
 * such an answer. */
int atoll_vercel_read_answer(const json_t *answer, uint16_t port, struct atoll_vercel_remote *ret,
                             struct atoll_error *err) ATOLL_MUST_CHECK;
/* Reads a sandbox without its session: an element of a list. */
int atoll_vercel_read_sandbox(const json_t *sandbox, struct atoll_vercel_remote *ret,
                              struct atoll_error *err) ATOLL_MUST_CHECK;
/* Reads the times of {"session"}, if they are there. */
void atoll_vercel_read_times(const json_t *session, struct atoll_vercel_remote *remote);
/* The sandboxes and the next cursor in the answer to a list; NULL: not such an answer. */
json_t *atoll_vercel_read_list(const json_t *answer, char *ret_cursor, size_t cap);

/* Reads the lines of a command that was run to its end. UNAVAILABLE: they do not say how it ended, or are
 * not such lines. ret->text: of its standard output if it wrote any and succeeded, else of its standard
 * error. */
int atoll_vercel_read_run(const void *bytes, size_t n, struct atoll_remote_exit *ret,
                          struct atoll_error *err) ATOLL_MUST_CHECK;

/* How many milliseconds the session must get more to live lease_s seconds from now; at least 1000. */
int64_t atoll_vercel_more_ms(const struct atoll_vercel_remote *remote, uint32_t lease_s,
                             int64_t now_unix_ms);

/* The meaning of its refusals. */
extern const struct atoll_remote_service atoll_vercel_service;

/* The team and the project of a scope "TEAM PROJECT"; "-" stands for one that is not given. Empty texts are
 * those that are not given. */
struct atoll_vercel_scope {
    char team[64], project[64];
};
bool atoll_vercel_read_scope(const char *scope, struct atoll_vercel_scope *ret);
/* A path with the team as its query, and the project under its name if that is not NULL. NULL: out of
 * memory. path has no query, or one that ends with '&'. */
char *atoll_vercel_request_path(const char *scope, const char *path, const char *project_name);

/* Adds what a sandbox is made from: "snap_…", "NAME:TAG" or "HOST/NAME" (an image), else a runtime. True:
 * a runtime, which needs an older version of the request. */
bool atoll_vercel_put_source(json_t *body, const char *name);
/* vCPUs for these limits: 1, or an even number; each has 2 GiB of memory. 0: no limit counts. */
uint32_t atoll_vercel_vcpus(const struct atoll_limits *limits, uint32_t waived);

/* network.c: a policy in its canonical form as "networkPolicy"; NULL: everything is allowed, and *ret NULL.
 * UNIMPLEMENTED: the service cannot enforce it; the text says what. */
int atoll_vercel_network(const char *policy_json, json_t **ret,
                         struct atoll_error *err) ATOLL_MUST_CHECK;
