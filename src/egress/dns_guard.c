#include "egress/dns_guard.h"

#include <string.h>
#include "base/rand.h"

struct atoll_dns_seen {
    uint32_t domain, name; /* hashes */
    int64_t at_ms;
};

void atoll_dns_guard_init(struct atoll_dns_guard *guard)
{
    *guard = (struct atoll_dns_guard){0};
    atoll_rand_bytes(&guard->seed, sizeof(guard->seed));
}

void atoll_dns_guard_done(struct atoll_dns_guard *guard)
{
    free(ATOLL_TAKE_PTR(guard->seen));
}

/* FNV-1a from a secret start. */
static uint32_t hash(const struct atoll_dns_guard *guard, const char *text)
{
    uint64_t h = guard->seed;

    for (; *text; text++)
        h = (h ^ (uint8_t)*text) * 1099511628211u;
    return (uint32_t)(h ^ (h >> 32));
}

/* Start of the label before `at`, which is the start of a label or the end of the name. */
static const char *label_before(const char *name, const char *at)
{
    if (at > name && *at)
        at--;
    while (at > name && at[-1] != '.')
        at--;
    return at;
}

const char *atoll_dns_registered_domain(const char *name)
{
    const char *last = label_before(name, name + strlen(name));
    const char *second = label_before(name, last);

    if (strlen(last) == 2 && last - second <= 4) /* "co." to "com." */
        return label_before(name, second);
    return second;
}

static bool is_short(const char *name)
{
    size_t label = 0;

    if (strlen(name) > ATOLL_DNS_GUARD_NAME)
        return false;
    for (; *name; name++) {
        label = *name == '.' ? 0 : label + 1;
        if (label > ATOLL_DNS_GUARD_LABEL)
            return false;
    }
    return true;
}

static struct atoll_dns_seen *seen_at(struct atoll_dns_guard *guard, size_t i)
{
    return &guard->seen[(guard->first + i) % ATOLL_DNS_GUARD_ALL];
}

static void drop_old(struct atoll_dns_guard *guard, int64_t now_ms)
{
    while (guard->count > 0 && seen_at(guard, 0)->at_ms + ATOLL_DNS_WINDOW_MS <= now_ms) {
        guard->first = (guard->first + 1) % ATOLL_DNS_GUARD_ALL;
        guard->count--;
    }
}

bool atoll_dns_guard_admit(struct atoll_dns_guard *guard, const char *name, bool is_open,
                           int64_t now_ms)
{
    struct atoll_dns_seen new = {
        .domain = hash(guard, atoll_dns_registered_domain(name)),
        .name = hash(guard, name),
        .at_ms = now_ms,
    };
    size_t same = 0;

    if (!is_open && !is_short(name))
        return false;
    if (!guard->seen)
        guard->seen = calloc(ATOLL_DNS_GUARD_ALL, sizeof(*guard->seen));
    if (!guard->seen)
        return false;
    drop_old(guard, now_ms);
    for (size_t i = 0; i < guard->count; i++) {
        if (seen_at(guard, i)->name == new.name)
            return true;
        same += seen_at(guard, i)->domain == new.domain;
    }
    if (same >= (is_open ? ATOLL_DNS_GUARD_OPEN : ATOLL_DNS_GUARD_NARROW) ||
        guard->count == ATOLL_DNS_GUARD_ALL)
        return false;
    *seen_at(guard, guard->count++) = new;
    return true;
}

bool atoll_dns_guard_forward(struct atoll_dns_guard *guard, int64_t now_ms)
{
    if (guard->forwards_since_ms + ATOLL_DNS_WINDOW_MS <= now_ms) {
        guard->forwards_since_ms = now_ms;
        guard->forwards = 0;
    }
    if (guard->forwards >= ATOLL_DNS_GUARD_FORWARDS)
        return false;
    guard->forwards++;
    return true;
}
