#pragma once
#include "base/error.h"
#include "provider/provider.h"

/*
 * Who is to make a sandbox: those that can do what the request needs, in the operator's order. Pure.
 */
#define ATOLL_PROVIDERS_MAX 16

struct atoll_route_request {
    const char *provider;       /* NULL or "auto": anybody */
    const char *isolation;      /* NULL: any */
    const char *image;          /* NULL: none */
    const char *template_name;  /* NULL: none was asked for by name */
    const char *language;       /* NULL: nobody says */
    struct atoll_limits limits; /* as asked for; 0 fields: not at all */
    bool persistent, pauses;    /* PAUSES: it is to be paused at its deadline */
    bool mounts;                /* volumes, or directories of the host */
    uint32_t gpus;
    enum atoll_network network;
};

/* One provider, as it is now. */
struct atoll_route_offer {
    const char *name, *kind; /* KIND NULL: its name */
    const struct atoll_provider_caps *caps;
    bool named_only;
    bool has_image;           /* of its own, for requests that name nothing */
    bool mute;                /* it does not run the language of the request */
    struct atoll_limits most; /* what a request may ask for; 0 fields: no bound */
    bool down;
    const char *reason;     /* DOWN: why */
    int64_t retry_ms;       /* DOWN: when it is tried again, from now; 0: that is under way */
    uint32_t max_sandboxes; /* 0: no limit */
    size_t sandboxes;
    uint32_t weight;  /* 0: 1 */
    uint32_t missing; /* ATOLL_LIMIT_* that it cannot enforce and nobody waived */
};

/* The indices of those that can, best first; how many (at least one), or an error that says of each
 * why not. One of this host that only lacks limits is chosen where nobody else is left: it refuses by
 * itself, with more to say about the host. */
int atoll_route(const struct atoll_route_request *request, const struct atoll_route_offer *offers,
                size_t count, uint8_t ret[ATOLL_PROVIDERS_MAX],
                struct atoll_error *err) ATOLL_MUST_CHECK;

/* Sorts the result of atoll_route() by how sandboxes are to be divided among providers. */
enum atoll_placement {
    ATOLL_PLACE_ORDER,  /* the operator's order: the next one only when the first cannot */
    ATOLL_PLACE_SPREAD, /* the one with the fewest sandboxes first */
    ATOLL_PLACE_WEIGHT, /* the same, in proportion to their weights */
};
void atoll_route_place(enum atoll_placement placement, const struct atoll_route_offer *offers,
                       uint8_t *chosen, int count);

/* Whether it could ever make it, however it is now. */
bool atoll_route_could(const struct atoll_route_request *request,
                       const struct atoll_route_offer *offer);

/* What to do about it (advice.c). */

/* A kind of provider that the operator could set up. */
struct atoll_route_kind {
    const char *name;
    const char *settings; /* the least the file has to say of it */
    bool at_start;        /* only a new start of the daemon brings it */
    struct atoll_provider_caps caps;
};
struct atoll_route_kinds {
    const struct atoll_route_kind *list;
    size_t count;
};

/* After atoll_route() has failed with *err: the hint. */
void atoll_route_advise(const struct atoll_route_request *request,
                        const struct atoll_route_offer *offers, size_t count,
                        const struct atoll_route_kinds *kinds, struct atoll_error *err);
/* The same where nobody of that name is there; and where this kind is what is missing. */
void atoll_advise_name(const struct atoll_route_kinds *kinds, const char *name,
                       struct atoll_error *err);
void atoll_advise_kind(const struct atoll_route_kind *kind, struct atoll_error *err);
