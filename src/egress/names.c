#include "egress/names.h"

#include <errno.h>
#include <string.h>
#include "base/list.h"
#include "base/map.h"
#include "base/rand.h"
#include "egress/names_kept.h"

/* A pair that is told again and again is kept once in this time. */
#define KEEP_AGAIN_MS (60 * 1000)
/* The salt keeps a sandbox, which chooses the addresses, from choosing collisions in the map. */
#define SALT_LEN 12
#define KEY_MAX (SALT_LEN + 32 + 1)

/* One address. */
struct host {
    char key[KEY_MAX];
    struct atoll_list pairs; /* the newest is last */
};

/* A name of it. */
struct pair {
    struct atoll_list of_host, by_age;
    struct host *host;
    int64_t expires_ms;
    int64_t kept_expires_ms; /* as it was kept for the next worker; 0: never */
    char name[];
};

struct atoll_names {
    struct atoll_names_kept *kept; /* borrowed; or NULL */
    char *id;                      /* of the sandbox; owned */
    char salt[SALT_LEN + 1];
    struct atoll_map hosts;   /* by key, owned */
    struct atoll_list by_age; /* all pairs, owned; the oldest is first */
    size_t count;
};

static void make_key(const struct atoll_names *names, const struct in6_addr *address, char *out)
{
    static const char digits[] = "0123456789abcdef";

    memcpy(out, names->salt, SALT_LEN);
    out += SALT_LEN;
    for (size_t i = 0; i < sizeof(address->s6_addr); i++) {
        *out++ = digits[address->s6_addr[i] >> 4];
        *out++ = digits[address->s6_addr[i] & 15];
    }
    *out = '\0';
}

static struct host *find_host(const struct atoll_names *names, const struct in6_addr *address)
{
    char key[KEY_MAX];

    make_key(names, address, key);
    return atoll_map_get(&names->hosts, key);
}

static struct pair *find_pair(const struct host *host, const char *name)
{
    for (struct atoll_list *node = host->pairs.prev; node != &host->pairs; node = node->prev) {
        struct pair *pair = ATOLL_CONTAINER_OF(node, struct pair, of_host);
        if (strcmp(pair->name, name) == 0)
            return pair;
    }
    return NULL;
}

static struct host *add_host(struct atoll_names *names, const struct in6_addr *address)
{
    struct host *host = find_host(names, address);

    if (host)
        return host;
    host = calloc(1, sizeof(*host));
    if (!host)
        return NULL;
    make_key(names, address, host->key);
    atoll_list_init(&host->pairs);
    if (atoll_map_put(&names->hosts, host->key, host) < 0) {
        free(host);
        return NULL;
    }
    return host;
}

static void forget_if_empty(struct atoll_names *names, struct host *host)
{
    if (!atoll_list_empty(&host->pairs))
        return;
    (void)atoll_map_remove(&names->hosts, host->key);
    free(host);
}

static void forget(struct atoll_names *names, struct pair *pair)
{
    atoll_list_remove(&pair->of_host);
    atoll_list_remove(&pair->by_age);
    forget_if_empty(names, pair->host);
    free(pair);
    names->count--;
}

static struct pair *oldest(const struct atoll_names *names)
{
    return atoll_list_empty(&names->by_age)
               ? NULL
               : ATOLL_CONTAINER_OF(names->by_age.next, struct pair, by_age);
}

/* Makes room for one, and forgets what has expired. */
static void trim(struct atoll_names *names, int64_t now_ms)
{
    struct pair *pair;

    while ((pair = oldest(names)) &&
           (names->count >= ATOLL_NAMES_MAX || pair->expires_ms <= now_ms))
        forget(names, pair);
}

static struct pair *add_pair(struct atoll_names *names, const char *name,
                             const struct in6_addr *address)
{
    struct host *host = add_host(names, address);
    struct pair *pair = host ? find_pair(host, name) : NULL;

    if (!host || pair)
        return pair;
    pair = calloc(1, sizeof(*pair) + strlen(name) + 1);
    if (!pair) {
        forget_if_empty(names, host);
        return NULL;
    }
    memcpy(pair->name, name, strlen(name) + 1);
    pair->host = host;
    names->count++;
    return pair;
}

/* For the next worker. */
static void keep(struct atoll_names *names, struct pair *pair, const struct in6_addr *address)
{
    if (pair->expires_ms - pair->kept_expires_ms < KEEP_AGAIN_MS)
        return;
    pair->kept_expires_ms = pair->expires_ms;
    atoll_names_kept_add(names->kept, names->id, pair->name, address, pair->expires_ms);
}

int atoll_names_add(struct atoll_names *names, const char *name, const struct in6_addr *address,
                    int64_t ttl_ms, int64_t now_ms)
{
    struct pair *pair;

    trim(names, now_ms);
    pair = add_pair(names, name, address);
    if (!pair)
        return -ENOMEM;
    pair->expires_ms = now_ms + ATOLL_MAX(ttl_ms, (int64_t)ATOLL_NAMES_KEPT_MS);
    atoll_list_remove(&pair->of_host);
    atoll_list_push_back(&pair->host->pairs, &pair->of_host);
    atoll_list_remove(&pair->by_age);
    atoll_list_push_back(&names->by_age, &pair->by_age);
    keep(names, pair, address);
    return 0;
}

struct loading {
    struct atoll_names *names;
    int64_t now_ms;
};

static void load(void *arg, const char *name, const struct in6_addr *address)
{
    struct loading *loading = arg;

    (void)!atoll_names_add(loading->names, name, address, 0, loading->now_ms);
}

struct atoll_names *atoll_names_new(struct atoll_names_kept *kept, const char *id, int64_t now_ms)
{
    struct atoll_names *names = calloc(1, sizeof(*names));

    if (!names || !(names->id = strdup(id)))
        abort();
    names->kept = kept;
    atoll_rand_id(names->salt, SALT_LEN);
    atoll_map_init(&names->hosts);
    atoll_list_init(&names->by_age);
    atoll_names_kept_each(kept, id, now_ms, load, &(struct loading){names, now_ms});
    return names;
}

bool atoll_names_has(const struct atoll_names *names, const char *name,
                     const struct in6_addr *address, int64_t now_ms)
{
    const struct host *host = find_host(names, address);
    const struct pair *pair = host ? find_pair(host, name) : NULL;

    return pair && pair->expires_ms > now_ms;
}

size_t atoll_names_find(const struct atoll_names *names, const struct in6_addr *address,
                        int64_t now_ms, const char **ret, size_t cap)
{
    const struct host *host = find_host(names, address);
    size_t found = 0;

    if (!host)
        return 0;
    for (struct atoll_list *node = host->pairs.prev; node != &host->pairs && found < cap;
         node = node->prev) {
        const struct pair *pair = ATOLL_CONTAINER_OF(node, struct pair, of_host);
        if (pair->expires_ms > now_ms)
            ret[found++] = pair->name;
    }
    return found;
}

struct atoll_names *atoll_names_free(struct atoll_names *names)
{
    struct pair *pair;

    if (!names)
        return NULL;
    while ((pair = oldest(names)))
        forget(names, pair);
    atoll_map_done(&names->hosts);
    free(names->id);
    free(names);
    return NULL;
}
