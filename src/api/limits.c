#include "api/limits.h"

#include <stdio.h>
#include <string.h>
#include "base/list.h"
#include "base/map.h"

struct bucket {
    struct atoll_list node; /* sorted by last use, oldest first */
    char name[ATOLL_BUCKET_NAME_MAX];
    int64_t millitokens;
    int64_t at_ms; /* time at which the count was valid */
};

struct atoll_buckets {
    struct atoll_rate rate;
    size_t max;
    struct atoll_map by_name; /* of struct bucket, owned */
    struct atoll_list by_use; /* the same buckets */
};

struct atoll_buckets *atoll_buckets_new(struct atoll_rate rate, size_t max)
{
    struct atoll_buckets *buckets = calloc(1, sizeof(*buckets));

    if (!buckets)
        abort();
    buckets->rate = rate;
    buckets->max = max;
    atoll_map_init(&buckets->by_name);
    atoll_list_init(&buckets->by_use);
    return buckets;
}

struct atoll_buckets *atoll_buckets_free(struct atoll_buckets *buckets)
{
    if (!buckets)
        return NULL;
    ATOLL_LIST_FOREACH (&buckets->by_use, node)
        free(ATOLL_CONTAINER_OF(node, struct bucket, node));
    atoll_map_done(&buckets->by_name);
    free(buckets);
    return NULL;
}

static struct bucket *add(struct atoll_buckets *buckets, const char *name, int64_t now_ms)
{
    struct bucket *bucket;

    if (buckets->by_name.used >= buckets->max) {
        bucket = ATOLL_CONTAINER_OF(buckets->by_use.next, struct bucket, node);
        (void)atoll_map_remove(&buckets->by_name, bucket->name);
        atoll_list_remove(&bucket->node);
    } else {
        bucket = malloc(sizeof(*bucket));
    }
    if (!bucket)
        abort();
    *bucket = (struct bucket){.millitokens = (int64_t)buckets->rate.burst * 1000, .at_ms = now_ms};
    (void)snprintf(bucket->name, sizeof(bucket->name), "%s", name);
    if (atoll_map_put(&buckets->by_name, bucket->name, bucket) < 0)
        abort();
    return bucket;
}

int64_t atoll_buckets_take(struct atoll_buckets *buckets, const char *name, int64_t now_ms)
{
    int64_t rate = buckets->rate.per_second, full = (int64_t)buckets->rate.burst * 1000, gained;
    struct bucket *bucket;

    if (rate == 0)
        return 0;
    bucket = atoll_map_get(&buckets->by_name, name);
    if (bucket)
        atoll_list_remove(&bucket->node);
    else
        bucket = add(buckets, name, now_ms);
    atoll_list_push_back(&buckets->by_use, &bucket->node);
    /* One token per second is one millitoken per millisecond. A long idle time must not
     * overflow. */
    gained = ATOLL_MIN(now_ms - bucket->at_ms, full / rate + 1) * rate;
    bucket->millitokens = ATOLL_MIN(bucket->millitokens + gained, full);
    bucket->at_ms = now_ms;
    if (bucket->millitokens < 1000)
        return (1000 - bucket->millitokens + rate - 1) / rate;
    bucket->millitokens -= 1000;
    return 0;
}

void atoll_buckets_return(struct atoll_buckets *buckets, const char *name)
{
    struct bucket *bucket = atoll_map_get(&buckets->by_name, name);

    if (bucket)
        bucket->millitokens += 1000;
}
