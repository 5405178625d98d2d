#pragma once
#include "engine/engine.h"

/*
 * Those who make sandboxes, as facades see them: what each can do, how it is, and why not.
 * Thread: the loop's. Strings are borrowed until control goes back to the loop.
 */
enum atoll_health {
    ATOLL_HEALTH_UP,
    ATOLL_HEALTH_DEGRADED, /* it failed lately, or has not been checked yet; takes new sandboxes */
    ATOLL_HEALTH_DOWN,     /* takes none until it answers again */
};
const char *atoll_health_name(enum atoll_health health);

struct atoll_provider_view {
    const char *name, *kind, *isolation;
    bool removed;     /* not configured any more: there because of the sandboxes it has */
    bool can_create;  /* it is not down and has fewer than max_sandboxes */
    const char *full; /* why it has no room, as of its last check; "": it has */
    bool is_builder;  /* it builds templates */
    bool is_default;  /* the first that is asked */
    bool named_only;  /* only for requests that name it */
    bool remote, templates, images, pause, persistent, set_limits, stats;
    bool builds, snapshots, volumes;
    uint32_t networks;      /* bit per enum atoll_network */
    uint32_t order;         /* from 1 */
    uint32_t max_sandboxes; /* 0: no limit of its own */
    size_t sandboxes;
    enum atoll_health health;
    const char *reason, *detail;  /* "" where there is nothing to say */
    int64_t since_unix_ms;        /* of its health */
    double latency_ms;            /* of the last check it answered; 0: none yet */
    struct atoll_limits most;     /* that a request may ask for; 0 fields: no bound */
    const char *const *languages; /* NULL-terminated; NULL: nobody says */
};
/* In the order they are asked: start with *pos = 0; false at the end. */
bool atoll_providers_next(struct atoll_engine *engine, size_t *pos,
                          struct atoll_provider_view *ret);

/* When the operator's file was read last, if it ever was again: 0; and what was wrong with it, "" when
 * it is in force. */
int64_t atoll_providers_loaded(const struct atoll_engine *engine, const char **ret_error);

/* What hints call the operator's file; and where it is or would be, "" when nobody says: for operators
 * only. */
#define ATOLL_PROVIDERS_FILE "providers.yaml"
const char *atoll_providers_file(const struct atoll_engine *engine);

/* Its sandbox lacks what code in that language needs: where it runs its provider's default_image, since
 * nobody named another, *err is told what the operator can do about that. */
void atoll_advise_language(const struct atoll_sandbox *sandbox, const char *language,
                           struct atoll_error *err);

/* The host names of a sandbox's ports at the service that runs it, with "{port}" in them; false where
 * there is no such service. */
#define ATOLL_PUBLIC_HOST_MAX 400
bool atoll_sandbox_public_host(const struct atoll_sandbox *sandbox,
                               char out[ATOLL_PUBLIC_HOST_MAX]);

/* "none", "isolated", "bridge" */
const char *atoll_network_name(enum atoll_network network);
/* -EINVAL for a word that is none. */
int atoll_network_by_name(const char *name, enum atoll_network *ret) ATOLL_MUST_CHECK;
