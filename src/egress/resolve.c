#include "egress/resolve.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/list.h"
#include "base/map.h"
#include "base/rand.h"
#include "base/shares.h"
#include "egress/dns_wire.h"
#include "egress/forward.h"
#include "egress/host_lookup.h"
#include "loop/workers.h"

/* The salt keeps a sandbox, which chooses the names, from choosing collisions in the maps. */
#define SALT_LEN 12
#define KEY_MAX (SALT_LEN + ATOLL_SHARE_NAME_MAX + ATOLL_DNS_NAME_MAX + 2)
/* The bound is the shares', whose total is below 10 times their maximum for 10,000 tenants. */
#define QUEUE_MAX ((size_t)10 * ATOLL_RESOLVER_LOOKUPS)

struct found {
    struct in6_addr addresses[ATOLL_LOOKUP_MAX];
    size_t count;
    int error;
};

/* A name whose addresses are known. */
struct known {
    struct atoll_list by_age;
    int64_t expires_ms;
    struct found found;
    char key[]; /* salt, name */
};

/* A name that a worker asks for, on behalf of one tenant: another tenant's lookup of the same name must
 * not wait for this tenant's turn. */
struct asking {
    struct atoll_job job;
    struct atoll_resolver *r;
    struct atoll_list waiting; /* of struct atoll_lookup */
    struct found found;        /* the worker's until done */
    char owner[ATOLL_SHARE_NAME_MAX];
    char name[ATOLL_DNS_NAME_MAX];
    char key[KEY_MAX]; /* salt, owner, name */
};

struct atoll_lookup {
    struct atoll_list node;  /* of struct asking, or of those that are answered at once */
    struct atoll_timer soon; /* answered from the cache */
    struct found found;      /* then */
    atoll_lookup_fn done;
    void *arg;
};

struct atoll_resolver {
    struct atoll_loop *loop;
    int (*look)(const char *name, struct in6_addr *ret, size_t cap);
    int64_t kept_ms;
    struct atoll_workers *workers;
    struct atoll_forwarder *forwarder;
    struct atoll_shares shares; /* of struct asking, by tenant */
    char salt[SALT_LEN + 1];
    struct atoll_map known;   /* by key */
    struct atoll_list by_age; /* all known, owned; the oldest is first */
    struct atoll_map asking;  /* by key; a job owns it */
    struct atoll_list soon;   /* lookups that are answered at once */
    bool ending;
};

int atoll_resolver_new(struct atoll_loop *loop, const struct atoll_resolver_config *config,
                       struct atoll_resolver **ret, struct atoll_error *err)
{
    static const struct atoll_resolver_config host;
    struct atoll_resolver *r = calloc(1, sizeof(*r));
    int e;

    if (!r)
        return atoll_fail_errno(err, ENOMEM, "resolver");
    if (!config)
        config = &host;
    r->loop = loop;
    r->look = config->look ? config->look : atoll_host_lookup;
    r->kept_ms = config->kept_ms > 0 ? config->kept_ms : ATOLL_RESOLVER_KEPT_MS;
    atoll_rand_id(r->salt, SALT_LEN);
    atoll_map_init(&r->known);
    atoll_map_init(&r->asking);
    atoll_list_init(&r->by_age);
    atoll_list_init(&r->soon);
    atoll_shares_init(&r->shares, ATOLL_RESOLVER_LOOKUPS);
    e = atoll_workers_new(loop, ATOLL_RESOLVER_THREADS, QUEUE_MAX, &r->workers, err);
    if (e == 0)
        e = atoll_forwarder_new(loop, config->resolv_conf, config->port, &r->forwarder, err);
    if (e < 0) {
        atoll_resolver_free(r);
        return e;
    }
    *ret = r;
    return 0;
}

struct atoll_forwarder *atoll_resolver_forwarder(const struct atoll_resolver *r)
{
    return r->forwarder;
}

static void forget(struct atoll_resolver *r, struct known *known)
{
    (void)atoll_map_remove(&r->known, known->key);
    atoll_list_remove(&known->by_age);
    free(known);
}

/* Detaches lookups from a resolver that ends. */
static void leave(struct atoll_list *lookups)
{
    ATOLL_LIST_FOREACH (lookups, node) {
        struct atoll_lookup *lookup = ATOLL_CONTAINER_OF(node, struct atoll_lookup, node);
        atoll_timer_cancel(&lookup->soon);
        atoll_list_remove(&lookup->node);
    }
}

struct atoll_resolver *atoll_resolver_free(struct atoll_resolver *r)
{
    if (!r)
        return NULL;
    r->ending = true;
    leave(&r->soon);
    atoll_forwarder_free(r->forwarder);
    atoll_workers_free(r->workers);
    ATOLL_LIST_FOREACH (&r->by_age, node)
        forget(r, ATOLL_CONTAINER_OF(node, struct known, by_age));
    atoll_map_done(&r->known);
    atoll_map_done(&r->asking);
    atoll_shares_done(&r->shares);
    free(r);
    return NULL;
}

static struct known *find_known(struct atoll_resolver *r, const char *name)
{
    char key[KEY_MAX];
    struct known *known;

    (void)snprintf(key, sizeof(key), "%s%s", r->salt, name);
    known = atoll_map_get(&r->known, key);
    if (known && known->expires_ms <= atoll_loop_now_ms(r->loop)) {
        forget(r, known);
        known = NULL;
    }
    return known;
}

static int64_t kept_ms(const struct atoll_resolver *r, const struct found *found)
{
    if (found->count > 0)
        return r->kept_ms;
    return found->error == -ENOENT || found->error == -ENODATA ? ATOLL_RESOLVER_KEPT_NOT_MS
                                                               : ATOLL_RESOLVER_KEPT_FAILED_MS;
}

/* Without memory it is not kept. */
static void keep(struct atoll_resolver *r, const char *name, const struct found *found)
{
    size_t size = strlen(r->salt) + strlen(name) + 1;
    struct known *known = find_known(r, name);

    if (known)
        forget(r, known);
    if (r->known.used >= ATOLL_RESOLVER_CACHE)
        forget(r, ATOLL_CONTAINER_OF(r->by_age.next, struct known, by_age));
    known = calloc(1, sizeof(*known) + size);
    if (!known)
        return;
    (void)snprintf(known->key, size, "%s%s", r->salt, name);
    if (atoll_map_put(&r->known, known->key, known) < 0) {
        free(known);
        return;
    }
    known->found = *found;
    known->expires_ms = atoll_loop_now_ms(r->loop) + kept_ms(r, found);
    atoll_list_push_back(&r->by_age, &known->by_age);
}

static void end_lookup(struct atoll_lookup *lookup)
{
    atoll_timer_cancel(&lookup->soon);
    atoll_list_remove(&lookup->node);
    free(lookup);
}

static void tell(struct atoll_lookup *lookup, const struct found *found)
{
    atoll_lookup_fn done = lookup->done;
    void *arg = lookup->arg;

    end_lookup(lookup);
    done(arg, found->addresses, found->count, found->count > 0 ? 0 : found->error);
}

static void on_soon(void *arg)
{
    struct atoll_lookup *lookup = arg;
    struct found found = lookup->found;

    tell(lookup, &found);
}

/* On a worker. */
static void look(struct atoll_job *job)
{
    struct asking *asking = ATOLL_CONTAINER_OF(job, struct asking, job);
    int n = asking->r->look(asking->name, asking->found.addresses, ATOLL_LOOKUP_MAX);

    asking->found.count = n > 0 ? (size_t)n : 0;
    asking->found.error = n > 0 ? 0 : n < 0 ? n : -ENODATA;
}

/* On the loop. A callback may ask again, or cancel the others. */
static void on_looked(struct atoll_job *job)
{
    struct asking *asking = ATOLL_CONTAINER_OF(job, struct asking, job);
    struct atoll_resolver *r = asking->r;

    if (r->ending) {
        leave(&asking->waiting);
        free(asking);
        return;
    }
    (void)atoll_map_remove(&r->asking, asking->key);
    atoll_shares_drop(&r->shares, asking->owner, 1);
    keep(r, asking->name, &asking->found);
    while (!atoll_list_empty(&asking->waiting))
        tell(ATOLL_CONTAINER_OF(asking->waiting.next, struct atoll_lookup, node), &asking->found);
    free(asking);
}

static struct asking *start_asking(struct atoll_resolver *r, const char *owner, const char *name,
                                   const char *key)
{
    struct asking *asking;

    if (!atoll_shares_fits(&r->shares, owner, 1) || !(asking = calloc(1, sizeof(*asking))))
        return NULL;
    asking->r = r;
    asking->job = (struct atoll_job){.run = look, .done = on_looked, .owner = asking->owner};
    atoll_list_init(&asking->waiting);
    (void)snprintf(asking->owner, sizeof(asking->owner), "%s", owner);
    (void)snprintf(asking->name, sizeof(asking->name), "%s", name);
    (void)snprintf(asking->key, sizeof(asking->key), "%s", key);
    if (atoll_map_put(&r->asking, asking->key, asking) == 0) {
        if (atoll_workers_submit(r->workers, &asking->job, NULL) == 0) {
            atoll_shares_add(&r->shares, asking->owner, 1);
            return asking;
        }
        (void)atoll_map_remove(&r->asking, asking->key);
    }
    free(asking);
    return NULL;
}

/* The lookup of this name by this tenant that is under way, or a new one; NULL: there are too many. */
static struct asking *get_asking(struct atoll_resolver *r, const char *owner, const char *name)
{
    struct asking *asking;
    char key[KEY_MAX];

    (void)snprintf(key, sizeof(key), "%s%.64s/%s", r->salt, owner, name);
    asking = atoll_map_get(&r->asking, key);
    return asking ? asking : start_asking(r, owner, name, key);
}

struct atoll_lookup *atoll_resolver_ask(struct atoll_resolver *r, const char *owner,
                                        const char *name, atoll_lookup_fn done, void *arg)
{
    struct atoll_lookup *lookup;
    struct asking *asking = NULL;
    const struct known *known;

    if (strlen(name) >= ATOLL_DNS_NAME_MAX)
        return NULL;
    known = find_known(r, name);
    if (!known && !(asking = get_asking(r, owner, name)))
        return NULL;
    lookup = calloc(1, sizeof(*lookup));
    if (!lookup)
        return NULL; /* the answer of the worker goes into the cache */
    lookup->done = done;
    lookup->arg = arg;
    atoll_list_push_back(known ? &r->soon : &asking->waiting, &lookup->node);
    if (known) {
        lookup->found = known->found;
        atoll_timer_set(&lookup->soon, r->loop, 0, on_soon, lookup);
    }
    return lookup;
}

struct atoll_lookup *atoll_lookup_cancel(struct atoll_lookup *lookup)
{
    if (lookup)
        end_lookup(lookup);
    return NULL;
}
