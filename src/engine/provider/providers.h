#pragma once
#include "engine/engine.h"

/*
 * The providers as facades see them: capabilities, health and the reason for it.
 * Thread: the loop's. Strings are borrowed until control returns to the loop.
 */
enum atoll_health {
    ATOLL_HEALTH_UP,
    ATOLL_HEALTH_DEGRADED, /* failed recently, or not checked yet; gets new sandboxes */
    ATOLL_HEALTH_DOWN,     /* gets no new sandboxes until it answers again */
};
const char *atoll_health_name(enum atoll_health health);

struct atoll_provider_view {
    const char *name, *kind, *isolation;
    bool removed;       /* no longer configured, but still has sandboxes */
    bool can_create;    /* it is not down and has fewer than max_sandboxes */
    const char *full;   /* why it has no room, from its last check; "": it has room */
    bool is_builder;    /* it builds templates */
    bool is_default;    /* the first in order */
    bool named_only;    /* used only for requests that name it */
    const char *source; /* where its settings come from; "": unknown */
    bool remote, templates, images, pause, persistent, set_limits, stats;
    bool builds, snapshots, volumes;
    bool policies;          /* enforces network policies */
    uint32_t networks;      /* bit per enum atoll_network */
    uint32_t order;         /* from 1 */
    uint32_t max_sandboxes; /* 0: no limit */
    size_t sandboxes;
    enum atoll_health health;
    const char *reason, *detail;  /* or "" */
    int64_t since_unix_ms;        /* of its health */
    double latency_ms;            /* of the last successful check; 0: none yet */
    struct atoll_limits most;     /* upper bounds of requests; 0 fields: unbounded */
    const char *const *languages; /* NULL-terminated; NULL: not declared */
};
/* Iterates in order of preference: start with *pos = 0; false at the end. */
bool atoll_providers_next(struct atoll_engine *engine, size_t *pos,
                          struct atoll_provider_view *ret);

/* When the operator's file was last read again; 0: not since the start. *ret_error: why it is not
 * in use, or "". */
int64_t atoll_providers_loaded(const struct atoll_engine *engine, const char **ret_error);

/* The name of the operator's file in hints, and its path, which only operators may see ("":
 * unknown). */
#define ATOLL_PROVIDERS_FILE "providers.yaml"
const char *atoll_providers_file(const struct atoll_engine *engine);

/* For an error that the sandbox cannot run code in that language: if it runs its provider's
 * default_image, adds a hint to *err on how the operator can change that. */
void atoll_advise_language(const struct atoll_sandbox *sandbox, const char *language,
                           struct atoll_error *err);

/* The pattern of host names of the sandbox's ports at the remote service that runs it, with
 * "{port}"; false: it has none. */
#define ATOLL_PUBLIC_HOST_MAX 400
bool atoll_sandbox_public_host(const struct atoll_sandbox *sandbox,
                               char out[ATOLL_PUBLIC_HOST_MAX]);

/* "none", "isolated", "bridge" */
const char *atoll_network_name(enum atoll_network network);
/* -EINVAL: unknown name. */
int atoll_network_by_name(const char *name, enum atoll_network *ret) ATOLL_MUST_CHECK;
/* The widest mode of a tenant from the text of --network-max: "MODE" and "TENANT=MODE" with commas;
 * "": bridge. -EINVAL. */
int atoll_network_most(const char *text, const char *tenant,
                       enum atoll_network *ret) ATOLL_MUST_CHECK;
