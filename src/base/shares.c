#include "base/shares.h"

#include <stdio.h>
#include <stdlib.h>
#include "base/memory.h"

struct share {
    char name[ATOLL_SHARE_NAME_MAX];
    size_t used; /* more than 0 */
};

void atoll_shares_init(struct atoll_shares *shares, size_t max)
{
    shares->max = max;
    shares->used = 0;
    atoll_map_init(&shares->by_name);
}

void atoll_shares_done(struct atoll_shares *shares)
{
    struct share *share;

    for (size_t pos = 0; (share = atoll_map_next(&shares->by_name, &pos));)
        free(share);
    atoll_map_done(&shares->by_name);
}

bool atoll_shares_fits(const struct atoll_shares *shares, const char *name, size_t n)
{
    const struct share *share;
    size_t own, part;

    if (n <= shares->max && shares->used <= shares->max - n)
        return true;
    share = atoll_map_get(&shares->by_name, name);
    own = share ? share->used : 0;
    part = ATOLL_MAX(shares->max / (shares->by_name.used + !share), (size_t)1);
    return n <= part && own <= part - n;
}

bool atoll_shares_is_large(const struct atoll_shares *shares, const char *name)
{
    const struct share *share = atoll_map_get(&shares->by_name, name);

    return share && share->used >= shares->used / shares->by_name.used;
}

void atoll_shares_add(struct atoll_shares *shares, const char *name, size_t n)
{
    struct share *share = atoll_map_get(&shares->by_name, name);

    if (n == 0)
        return;
    if (!share) {
        share = atoll_alloc(sizeof(*share));
        (void)snprintf(share->name, sizeof(share->name), "%s", name);
        if (atoll_map_put(&shares->by_name, share->name, share) < 0)
            abort();
    }
    share->used += n;
    shares->used += n;
}

void atoll_shares_drop(struct atoll_shares *shares, const char *name, size_t n)
{
    struct share *share = n > 0 ? atoll_map_get(&shares->by_name, name) : NULL;

    if (!share)
        return;
    share->used -= n;
    shares->used -= n;
    if (share->used == 0) {
        (void)atoll_map_remove(&shares->by_name, share->name);
        free(share);
    }
}
