#pragma once
#include "base/error.h"
#include "provider/provider.h"

/*
 * Routing: which providers can make a sandbox, in the operator's order. Pure functions.
 */
#define ATOLL_PROVIDERS_MAX 16

struct atoll_route_request {
    const char *provider;       /* name; NULL or "auto": any */
    const char *isolation;      /* NULL: any */
    const char *image;          /* NULL: none */
    const char *template_name;  /* NULL: the request names none */
    const char *language;       /* NULL: unknown */
    struct atoll_limits limits; /* as requested; 0 fields: not requested */
    bool persistent, pauses;    /* pauses: at its deadline */
    bool mounts;                /* volumes, or directories of the host */
    bool read_only;             /* its root */
    bool disk_choice;           /* it asks for a kind of disk */
    bool checkpoints;           /* its files are kept before and after commands */
    uint32_t gpus;
    enum atoll_network network;
    bool network_is_given; /* else, with NONE, the default of each provider */
    bool policy;           /* a policy restricts the network, if it has one */
    bool denies;           /* the operator denies targets */
};

/* One provider: what it can do, and its present state. */
struct atoll_route_offer {
    const char *name, *kind; /* kind NULL: the same as its name */
    const struct atoll_provider_caps *caps;
    bool named_only;
    bool has_image;             /* a default image, for requests that name none */
    enum atoll_network network; /* for requests that give none */
    bool lacks_egress;          /* atoll-egress, which its networks need, is not installed */
    bool lacks_language;        /* it does not run the language of the request */
    struct atoll_limits most;   /* upper bounds for requests; 0 fields: unbounded */
    bool down;
    const char *reason;     /* down: why */
    int64_t retry_ms;       /* down: time until it is tried again; 0: in progress */
    uint32_t max_sandboxes; /* 0: no limit */
    size_t sandboxes;
    uint32_t weight;  /* 0: 1 */
    uint32_t missing; /* ATOLL_LIMIT_* that it cannot enforce and that are not waived */
};

/* Writes the indices of the offers that can make it, best first, and returns their number (at least
 * one); or an error that says of each why it cannot. If no other is left, a local provider that only
 * cannot enforce some limits is chosen: its own error says more about the host. */
int atoll_route(const struct atoll_route_request *request, const struct atoll_route_offer *offers,
                size_t count, uint8_t ret[ATOLL_PROVIDERS_MAX],
                struct atoll_error *err) ATOLL_MUST_CHECK;

/* Sorts the result of atoll_route() by the operator's placement. */
enum atoll_placement {
    ATOLL_PLACE_ORDER,  /* the operator's order: another one only when the first cannot */
    ATOLL_PLACE_SPREAD, /* the one with the fewest sandboxes first */
    ATOLL_PLACE_WEIGHT, /* the same, in proportion to their weights */
};
void atoll_route_place(enum atoll_placement placement, const struct atoll_route_offer *offers,
                       uint8_t *chosen, int count);

/* Whether it could make it, whatever its present state. */
bool atoll_route_could(const struct atoll_route_request *request,
                       const struct atoll_route_offer *offer);

/* Hints for the operator (advice.c). */

/* A kind of provider that the operator can configure. */
struct atoll_route_kind {
    const char *name;
    const char *settings; /* the smallest configuration of it in providers.yaml */
    bool at_start;        /* takes effect only when the daemon starts */
    struct atoll_provider_caps caps;
};
struct atoll_route_kinds {
    const struct atoll_route_kind *list;
    size_t count;
};

/* Adds a hint to the error of atoll_route(). */
void atoll_route_advise(const struct atoll_route_request *request,
                        const struct atoll_route_offer *offers, size_t count,
                        const struct atoll_route_kinds *kinds, struct atoll_error *err);
/* The same for a name that no provider has, and for a kind that is not configured. */
void atoll_advise_name(const struct atoll_route_kinds *kinds, const char *name,
                       struct atoll_error *err);
void atoll_advise_kind(const struct atoll_route_kind *kind, struct atoll_error *err);
