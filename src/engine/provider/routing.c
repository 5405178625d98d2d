#include "engine/provider/routing.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include "engine/engine.h"
#include "engine/provider/providers.h"

#define WHY_MAX 200

/* Why a provider cannot make the sandbox. */
struct refusal {
    enum atoll_error_kind kind; /* NONE: it can. Else the error if all others refuse as well */
    bool limits_only;           /* it only cannot enforce some limits */
    char text[WHY_MAX];
};

static void refuse(struct refusal *why, enum atoll_error_kind kind, const char *text)
{
    why->kind = kind;
    (void)snprintf(why->text, sizeof(why->text), "%s", text);
}

static void limit_names(uint32_t set, char *out, size_t cap)
{
    size_t at = 0;

    *out = '\0';
    for (uint32_t bit = 1; bit <= ATOLL_LIMIT_ALL && at < cap; bit <<= 1)
        if (set & bit)
            at +=
                (size_t)snprintf(out + at, cap - at, "%s%s", at ? "," : "", atoll_limit_name(bit));
}

/* Refuses limits above what the operator allows at this provider. */
static void check_sizes(const struct atoll_limits *asked, const struct atoll_limits *most,
                        struct refusal *why)
{
    const struct {
        uint64_t asked, most;
        double unit;
        const char *what;
    } sizes[] = {
        {asked->memory_bytes, most->memory_bytes, 1 << 20, "MiB of memory"},
        {asked->cpu_millis, most->cpu_millis, 1000, "CPUs"},
        {asked->disk_bytes, most->disk_bytes, 1 << 20, "MiB of disk"},
        {asked->pids, most->pids, 1, "processes"},
        {asked->timeout_s, most->timeout_s, 1, "seconds of life"},
        {asked->io_bytes, most->io_bytes, 1 << 20, "MiB a second to and from its disk"},
    };
    char text[WHY_MAX];

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(sizes); i++)
        if (sizes[i].most > 0 && sizes[i].asked > sizes[i].most) {
            (void)snprintf(text, sizeof(text), "gives at most %.12g %s",
                           (double)sizes[i].most / sizes[i].unit, sizes[i].what);
            refuse(why, ATOLL_ERR_INVALID_ARGUMENT, text);
            return;
        }
}

/* Refuses what the provider can never do. */
static void check_abilities(const struct atoll_route_request *w, const struct atoll_route_offer *p,
                            struct refusal *why)
{
    const struct atoll_provider_caps *caps = p->caps;
    const enum atoll_network network =
        w->network_is_given || w->network != ATOLL_NETWORK_NONE ? w->network : p->network;
    char text[WHY_MAX];

    if (w->gpus > 0) {
        refuse(why, ATOLL_ERR_UNIMPLEMENTED, "has no GPUs");
    } else if (w->isolation && strcmp(w->isolation, caps->isolation) != 0) {
        (void)snprintf(text, sizeof(text), "isolates by %s, not by %.32s", caps->isolation,
                       w->isolation);
        refuse(why, ATOLL_ERR_UNIMPLEMENTED, text);
    } else if (w->image && !caps->images && !caps->stacks) {
        refuse(why, ATOLL_ERR_UNIMPLEMENTED, "cannot run container images");
    } else if (w->template_name && !caps->templates && !caps->images &&
               !(caps->own_templates && w->provider)) {
        (void)snprintf(text, sizeof(text), "cannot run the template %.64s%s", w->template_name,
                       caps->own_templates ? " (name the provider for one of its own)" : "");
        refuse(why, ATOLL_ERR_UNIMPLEMENTED, text);
    } else if (p->lacks_language) {
        (void)snprintf(text, sizeof(text), "does not run %.32s", w->language);
        refuse(why, ATOLL_ERR_UNIMPLEMENTED, text);
    } else if (!w->image && !w->template_name && caps->images && !p->has_image) {
        refuse(why, ATOLL_ERR_FAILED_PRECONDITION,
               "runs images and has no default one (default_image in providers.yaml): name one");
    } else if (!(caps->networks & 1u << network)) {
        (void)snprintf(text, sizeof(text), "has no network mode %s", atoll_network_name(network));
        refuse(why, ATOLL_ERR_UNIMPLEMENTED, text);
    } else if (network != ATOLL_NETWORK_NONE && caps->sockets && p->lacks_egress) {
        refuse(why, ATOLL_ERR_UNIMPLEMENTED,
               "has no networks, because the program atoll-egress is not installed");
    } else if (w->policy && network != ATOLL_NETWORK_NONE && !caps->sockets && !caps->policies) {
        refuse(why, ATOLL_ERR_UNIMPLEMENTED, "cannot enforce a network policy");
    } else if (w->denies && network != ATOLL_NETWORK_NONE && !caps->sockets) {
        refuse(why, ATOLL_ERR_UNIMPLEMENTED,
               "cannot enforce what the operator denies (--network-deny)");
    } else if (w->persistent && !caps->persistent) {
        refuse(why, ATOLL_ERR_UNIMPLEMENTED,
               caps->layers ? "cannot keep the disk of a sandbox (persistent): atolld needs root"
                            : "cannot keep the disk of a sandbox (persistent)");
    } else if (w->mounts && !caps->volumes) {
        refuse(why, ATOLL_ERR_UNIMPLEMENTED, "has no volumes");
    } else if (w->checkpoints && !caps->snapshot_layers) {
        refuse(why, ATOLL_ERR_UNIMPLEMENTED,
               caps->layers ? "has no checkpoints: this host gives the daemon no cgroup freezer"
                            : "has no checkpoints");
    } else if (w->read_only && !caps->read_only) {
        refuse(why, ATOLL_ERR_UNIMPLEMENTED, "cannot make the root read-only (readOnly)");
    } else if (w->disk_choice && !caps->disk_choice) {
        refuse(why, ATOLL_ERR_UNIMPLEMENTED, "has no choice of disks (disk.kind)");
    } else if (w->pauses && !caps->pause) {
        refuse(why, ATOLL_ERR_UNIMPLEMENTED,
               caps->layers
                   ? "cannot pause sandboxes at their deadline: this host gives the daemon "
                     "no cgroup freezer (run atolld as root, or request that they are "
                     "destroyed instead)"
                   : "cannot pause sandboxes");
    } else {
        check_sizes(&w->limits, &p->most, why);
    }
}

bool atoll_route_could(const struct atoll_route_request *request,
                       const struct atoll_route_offer *offer)
{
    struct refusal why = {.kind = ATOLL_ERR_NONE};

    check_abilities(request, offer, &why);
    return why.kind == ATOLL_ERR_NONE;
}

/* Refuses what the provider cannot do at present. */
static void check_state(const struct atoll_route_offer *p, struct refusal *why)
{
    char text[WHY_MAX], names[64], when[32];

    if (p->down) {
        (void)snprintf(when, sizeof(when), "in %" PRId64 " s", (p->retry_ms + 999) / 1000);
        (void)snprintf(text, sizeof(text), "is down: %.130s (it is tried again %s)", p->reason,
                       p->retry_ms > 0 ? when : "right now");
        refuse(why, ATOLL_ERR_UNAVAILABLE, text);
    } else if (p->max_sandboxes > 0 && p->sandboxes >= p->max_sandboxes) {
        (void)snprintf(text, sizeof(text), "has %zu sandboxes, the most it may have", p->sandboxes);
        refuse(why, ATOLL_ERR_RESOURCE_EXHAUSTED, text);
    } else if (p->missing) {
        limit_names(p->missing, names, sizeof(names));
        (void)snprintf(text, sizeof(text),
                       "cannot enforce these limits: %s (waive them, or ask "
                       "for another provider)",
                       names);
        refuse(why, ATOLL_ERR_FAILED_PRECONDITION, text);
        why->limits_only = true;
    }
}

/* The provider that the request names; without a name, all that are not named_only. */
static bool is_considered(const struct atoll_route_request *w, const struct atoll_route_offer *p)
{
    return w->provider ? strcmp(w->provider, p->name) == 0 : !p->named_only;
}

static int unknown_name(const struct atoll_route_request *w, const struct atoll_route_offer *offers,
                        size_t count, struct atoll_error *err)
{
    char names[200] = "";
    size_t at = 0;

    for (size_t i = 0; i < count && at < sizeof(names); i++)
        at +=
            (size_t)snprintf(names + at, sizeof(names) - at, "%s%s", i ? ", " : "", offers[i].name);
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                      "there is no provider %.64s; there are: %s", w->provider, names);
}

static void add_reason(char *reasons, size_t cap, const char *name, const char *text)
{
    size_t at = strlen(reasons);
    (void)snprintf(reasons + at, cap - at, "%s%s %s", at ? "; " : "", name, text);
}

/* Adds the providers that could make it if the request did not name another one. */
static void add_able(const struct atoll_route_request *w, const struct atoll_route_offer *offers,
                     size_t count, char *reasons, size_t cap)
{
    for (size_t i = 0; w->provider && i < count; i++)
        if (strcmp(w->provider, offers[i].name) != 0 && atoll_route_could(w, &offers[i]))
            add_reason(reasons, cap, offers[i].name, "can");
}

int atoll_route(const struct atoll_route_request *given, const struct atoll_route_offer *offers,
                size_t count, uint8_t ret[ATOLL_PROVIDERS_MAX], struct atoll_error *err)
{
    struct atoll_route_request w = *given;
    enum atoll_error_kind kind = ATOLL_ERR_NONE;
    char reasons[ATOLL_ERROR_TEXT_MAX - 40] = "";
    int chosen = 0, short_of_limits = -1, r;
    int64_t soonest_ms = INT_MAX;
    bool considered = false, never = true;

    if (w.provider && strcmp(w.provider, "auto") == 0)
        w.provider = NULL;
    for (size_t i = 0; i < count; i++) {
        struct refusal why = {.kind = ATOLL_ERR_NONE};

        if (!is_considered(&w, &offers[i]))
            continue;
        considered = true;
        check_abilities(&w, &offers[i], &why);
        if (why.kind == ATOLL_ERR_NONE) {
            never = false;
            check_state(&offers[i], &why);
        }
        if (why.kind == ATOLL_ERR_NONE) {
            ret[chosen++] = (uint8_t)i;
            continue;
        }
        if (why.limits_only && short_of_limits < 0 && !offers[i].caps->remote)
            short_of_limits = (int)i;
        /* The error whose cause can pass soonest decides what the client is told to do. */
        if (kind == ATOLL_ERR_NONE || why.kind == ATOLL_ERR_UNAVAILABLE ||
            kind == ATOLL_ERR_UNIMPLEMENTED)
            kind = why.kind;
        if (why.kind == ATOLL_ERR_UNAVAILABLE)
            soonest_ms = ATOLL_MIN(soonest_ms, offers[i].retry_ms);
        add_reason(reasons, sizeof(reasons), offers[i].name, why.text);
    }
    if (!considered && w.provider)
        return unknown_name(&w, offers, count, err);
    if (chosen == 0 && short_of_limits >= 0)
        ret[chosen++] = (uint8_t)short_of_limits;
    if (chosen > 0)
        return chosen;
    if (never)
        add_able(&w, offers, count, reasons, sizeof(reasons));
    r = atoll_fail(err, considered ? kind : ATOLL_ERR_UNAVAILABLE, EOPNOTSUPP, "%s: %s",
                   w.provider ? "it cannot be made there" : "no provider can make it",
                   considered ? reasons : "there is none");
    if (err && soonest_ms < INT_MAX)
        err->retry_ms = (int)soonest_ms;
    return r;
}

/* Whether a comes before b: with one more sandbox it has fewer of them in relation to its
 * weight. */
static bool goes_before(enum atoll_placement placement, const struct atoll_route_offer *a,
                        const struct atoll_route_offer *b)
{
    uint64_t weight_a = placement == ATOLL_PLACE_WEIGHT && a->weight ? a->weight : 1;
    uint64_t weight_b = placement == ATOLL_PLACE_WEIGHT && b->weight ? b->weight : 1;

    return (a->sandboxes + 1) * weight_b < (b->sandboxes + 1) * weight_a;
}

void atoll_route_place(enum atoll_placement placement, const struct atoll_route_offer *offers,
                       uint8_t *chosen, int count)
{
    if (placement == ATOLL_PLACE_ORDER)
        return;
    for (int i = 1; i < count; i++)
        for (int k = i; k > 0 && goes_before(placement, &offers[chosen[k]], &offers[chosen[k - 1]]);
             k--) {
            uint8_t moved = chosen[k];

            chosen[k] = chosen[k - 1];
            chosen[k - 1] = moved;
        }
}
