#pragma once
#include "provider/remote/account.h"
#include "provider/remote/agent.h"
#include "provider/remote/leases.h"
#include "provider/remote/pump.h"
#include "provider/remote/settings.h"
#include "provider/sizes.h"
#include "provider/sync.h"

/*
 * The common part of providers whose sandboxes are made by a service: create, dial, inspect, list and
 * destroy of provider/sync.h, by what the service can do (struct atoll_remote_ops). Sandboxes carry our id
 * and that of this daemon, by which they are found again if nothing else is known.
 *
 * Blocking: the operations. Thread: any worker, several at a time; one more thread carries the streams of
 * all sandboxes and extends leases.
 */

/* A sandbox as the service describes it: first member of the provider's record, which may have more. */
struct atoll_remote_sandbox {
    char handle[ATOLL_REMOTE_HANDLE_MAX + 1];
    char id[33]; /* our id; "": not one of ours */
    enum {
        ATOLL_REMOTE_RUNS,
        ATOLL_REMOTE_PAUSED,
        ATOLL_REMOTE_STOPPED, /* without processes */
    } state;
    bool changing;                      /* its state is about to change */
    char cause[120];                    /* STOPPED: for users; may be "" */
    char key[ATOLL_REMOTE_KEY_MAX + 1]; /* the client's own; "": that of the provider */
};

struct atoll_remote_provider;

/* The requests to a service. `api` has the key of the sandbox. A record is the provider's; the kit sets its
 * `key` after make() and look(). */
struct atoll_remote_ops {
    /* Makes a sandbox that runs. First refuses, with *ret_maybe false, what the service cannot do. On an
     * error record->handle is set if the sandbox may exist and is known by that; else *ret_maybe says
     * whether one may exist that only its labels tell. */
    int (*make)(struct atoll_remote_provider *p, const struct atoll_remote_api *api,
                const struct atoll_sync_call *call, const struct atoll_spec *spec,
                struct atoll_remote_sandbox *record, bool *ret_maybe, struct atoll_error *err);
    /* NOT_FOUND. what: the operation, for error texts. */
    int (*look)(struct atoll_remote_provider *p, const struct atoll_remote_api *api,
                const struct atoll_sync_call *call, const char *what, const char *handle,
                struct atoll_remote_sandbox *record, struct atoll_error *err);
    /* NOT_FOUND is a success for the caller. */
    int (*remove)(struct atoll_remote_provider *p, const struct atoll_remote_api *api,
                  const struct atoll_sync_call *call, const char *handle, struct atoll_error *err);
    /* Reads one page of the list of this daemon's sandboxes; id: only that one, or NULL. *ret_items is an
     * array; *ret_cursor the next page ("": the last). */
    int (*list)(struct atoll_remote_provider *p, const struct atoll_remote_api *api,
                const struct atoll_sync_call *call, const char *what, const char *id,
                const char *cursor, json_t **ret_items, char *ret_cursor, size_t cap,
                struct atoll_error *err);
    /* One element of the list. UNAVAILABLE: not a sandbox. */
    int (*read)(const json_t *item, struct atoll_remote_sandbox *record, struct atoll_error *err);
    /* Installs and starts the agent; may change the record. */
    int (*start_agent)(struct atoll_remote_provider *p, const struct atoll_sync_call *call,
                       struct atoll_remote_sandbox *record, struct atoll_error *err);
    /* Opens a stream to the agent; may change the record. */
    int (*dial_agent)(struct atoll_remote_provider *p, const struct atoll_sync_call *call,
                      struct atoll_remote_sandbox *record, int *ret_fd, struct atoll_error *err);
    /* The request after which it lives lease_s seconds from now, by POST: path and body, malloced, or
     * NULL. On the thread of the streams, as extended(). */
    void (*extend)(const struct atoll_remote_api *api, const struct atoll_remote_sandbox *record,
                   uint32_t lease_s, char **ret_path, char **ret_body);
    /* Reads the answer to that, of status 2xx, into the record; may be NULL. */
    void (*extended)(const json_t *answer, struct atoll_remote_sandbox *record);
    size_t record_size;
};

/* First member of the provider's own struct. */
struct atoll_remote_provider {
    struct atoll_sync_provider base;
    struct atoll_sync_ops ops; /* base.ops, with the capabilities of this service */
    const struct atoll_remote_ops *remote_ops;
    struct atoll_remote_api api; /* owns its http, url and headers; its secret is `key` */
    char *key;                   /* owned; NULL: every request has its own */
    char *daemon_id, *isolation; /* owned */
    struct atoll_size sizes[ATOLL_SIZES_MAX];
    size_t size_count;
    struct atoll_remote_leases *leases; /* of the provider's records */
    struct atoll_remote_pump *pump;
    struct atoll_remote_agent *agent;
};

/* Settings that all such providers have. A field that is NULL or 0 has a default, which the provider
 * names. */
struct atoll_remote_config {
    const char *api_url;
    const char *api_key;            /* the key itself, or */
    const char *api_key_file;       /* a file with only the key, or */
    const char *api_key_env;        /* the environment variable with the key */
    bool key_of_request;            /* no key of its own: spec.credential is required */
    const char *ca_file;            /* PEM; for a certificate that the system does not trust */
    const char *template_id;        /* of requests that name none */
    const struct atoll_size *sizes; /* templates by size: the request's limits choose one */
    size_t size_count;
    uint32_t timeout_s; /* how long a sandbox outlives its daemon: 3600 */
    const char *region;
    const char *isolation;                             /* isolation of the service */
    const struct atoll_remote_header_setting *headers; /* sent with every request to the API */
    size_t header_count;
    const char *daemon_id;  /* marks this daemon's sandboxes: a-z, 0-9 and '-'; required */
    const char *agent_path; /* the static atoll-agent; required */
};

/* What a kind of provider is: constants. */
struct atoll_remote_kind {
    const struct atoll_sync_ops
        *ops; /* its capabilities are copied, with the isolation of the config */
    const struct atoll_remote_ops *remote_ops;
    const struct atoll_remote_service *service;
    const char *key_env;         /* the variable of the key, if the config names none */
    const char *header;          /* of every answer to return: see api.h; may be NULL */
    enum atoll_remote_form form; /* of uploads of the agent */
};

/* p: zeroed, except api.url and further headers of requests. isolation: if the config names none. On
 * failure the caller frees p. */
int atoll_remote_provider_init(struct atoll_remote_provider *p,
                               const struct atoll_remote_kind *kind,
                               const struct atoll_remote_config *config, const char *isolation,
                               struct atoll_error *err) ATOLL_MUST_CHECK;
/* Frees what is inside. Accepts a half-made one. */
void atoll_remote_provider_done(struct atoll_remote_provider *p);

static inline struct atoll_remote_provider *atoll_remote_of(struct atoll_sync_provider *base)
{
    return ATOLL_CONTAINER_OF(base, struct atoll_remote_provider, base);
}

/* The account of a sandbox, and the path PREFIX/HANDLE REST of a request about it; the handle comes from
 * a stored spec and is checked. NOT_FOUND; errors of atoll_remote_account_open(). */
int atoll_remote_about(struct atoll_remote_provider *p, const struct atoll_spec *spec,
                       const char *what, const char *prefix, const char *rest,
                       struct atoll_remote_account *ret_account, char *path, size_t cap,
                       struct atoll_error *err) ATOLL_MUST_CHECK;

/* Adds or replaces the record of the sandbox, with the key of the spec; as atoll_remote_leases_put(). */
int atoll_remote_keep(struct atoll_remote_provider *p, const struct atoll_spec *spec,
                      struct atoll_remote_sandbox *record, bool fresh,
                      struct atoll_error *err) ATOLL_MUST_CHECK;

/* Until the sandbox has that state, by look(). FAILED_PRECONDITION: it has another one that does not change
 * by itself. The record has what is known of it. */
int atoll_remote_await(struct atoll_remote_provider *p, const struct atoll_remote_api *api,
                       const struct atoll_sync_call *call, const char *what, int state,
                       struct atoll_remote_sandbox *record,
                       struct atoll_error *err) ATOLL_MUST_CHECK;

/* missing_limits of a service whose templates have sizes: memory and CPUs hold if a size fits. */
uint32_t atoll_remote_missing_limits(const struct atoll_sync_provider *base,
                                     const struct atoll_spec *spec);
/* The template of a request: the one it names, else the smallest size that fits, else the default. */
const char *atoll_remote_template(const struct atoll_remote_provider *p,
                                  const struct atoll_spec *spec, const char *otherwise);
/* Labels of a new sandbox: the caller's metadata as far as it is text, and our marks. NULL: no memory. */
json_t *atoll_remote_labels(const struct atoll_remote_provider *p, const struct atoll_spec *spec);
#define ATOLL_REMOTE_LABEL_ID "atoll_id"
#define ATOLL_REMOTE_LABEL_DAEMON "atoll_daemon"
/* Adds a text to the body of a request, unless it is NULL or "". */
void atoll_remote_put_text(json_t *body, const char *name, const char *text);
/* NAME=VALUE as an object; values that are not UTF-8 are left out: the agent gives them to commands. */
json_t *atoll_remote_env(const char *const *env);

/* Reading answers, which are hostile until checked: they become parts of URLs and headers. Absent or null
 * is "". */
bool atoll_remote_take_field(const json_t *object, const char *name, char *out, size_t cap);
bool atoll_remote_is_made_of(const char *text, const char *more); /* letters, digits, and `more` */
bool atoll_remote_is_token(const char *text);                     /* printable, without spaces */
/* Whether the service may name this URL: http only if its own is, and no user, query or fragment. */
bool atoll_remote_is_safe_url(const struct atoll_remote_provider *p, const char *url);
/* The cause of a sandbox that is stopped, from a text of the service; made printable. */
void atoll_remote_set_cause(struct atoll_remote_sandbox *record, const char *before,
                            const char *reason);
/* Our id in the labels of a sandbox, or "". */
void atoll_remote_take_id(const json_t *labels, char out[33]);
uint64_t atoll_remote_take_count(const json_t *object, const char *name);

/* Operations of provider/sync.h. */
int atoll_remote_op_create(struct atoll_sync_provider *base, const struct atoll_sync_call *call,
                           struct atoll_spec *spec, int *ret_fd,
                           struct atoll_error *err) ATOLL_MUST_CHECK;
int atoll_remote_op_dial(struct atoll_sync_provider *base, const struct atoll_sync_call *call,
                         const struct atoll_spec *spec, int *ret_fd,
                         struct atoll_error *err) ATOLL_MUST_CHECK;
int atoll_remote_op_inspect(struct atoll_sync_provider *base, const struct atoll_sync_call *call,
                            const struct atoll_spec *spec, struct atoll_provider_inspection *ret,
                            struct atoll_error *err) ATOLL_MUST_CHECK;
int atoll_remote_op_list(struct atoll_sync_provider *base, const struct atoll_sync_call *call,
                         atoll_provider_each_fn *each, void *arg,
                         struct atoll_error *err) ATOLL_MUST_CHECK;
int atoll_remote_op_destroy(struct atoll_sync_provider *base, const struct atoll_sync_call *call,
                            const struct atoll_spec *spec,
                            struct atoll_error *err) ATOLL_MUST_CHECK;

/* These, in a table of operations. */
#define ATOLL_REMOTE_OPERATIONS                                       \
    .create = atoll_remote_op_create, .dial = atoll_remote_op_dial,   \
    .inspect = atoll_remote_op_inspect, .list = atoll_remote_op_list, \
    .destroy = atoll_remote_op_destroy
