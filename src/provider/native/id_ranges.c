#include "provider/native/id_ranges.h"

#include <errno.h>
#include <string.h>
#include "base/memory.h"

struct holder {
    char id[ATOLL_ID_LEN + 1];
    uint32_t outside_id; /* 0: no range */
    bool persistent;
};

void atoll_id_ranges_init(struct atoll_id_ranges *h)
{
    *h = (struct atoll_id_ranges){0};
    atoll_map_init(&h->by_id);
}

void atoll_id_ranges_done(struct atoll_id_ranges *h)
{
    size_t pos = 0;
    struct holder *holder;

    while ((holder = atoll_map_next(&h->by_id, &pos)) != NULL)
        free(holder);
    atoll_map_done(&h->by_id);
    atoll_id_pool_done(&h->slots);
}

static struct holder *holder_new(const struct atoll_spec *spec)
{
    struct holder *holder = atoll_alloc(sizeof(*holder));

    memcpy(holder->id, spec->id, sizeof(holder->id));
    holder->persistent = spec->persistent;
    return holder;
}

void atoll_id_ranges_open(struct atoll_id_ranges *h, struct atoll_id_pool *slots)
{
    struct atoll_map old = h->by_id;
    struct holder *holder;
    size_t pos = 0;

    atoll_id_pool_done(&h->slots);
    h->slots = *slots;
    atoll_id_pool_init(slots);
    atoll_map_init(&h->by_id);
    while ((holder = atoll_map_next(&old, &pos)) != NULL) {
        if (!holder->persistent || atoll_map_put(&h->by_id, holder->id, holder) < 0) {
            free(holder);
            continue;
        }
        if (holder->outside_id && !atoll_id_pool_mark(&h->slots, holder->outside_id))
            holder->outside_id = 0; /* another block of ids now; see find_holder() */
    }
    atoll_map_done(&old);
}

static int find_holder(const struct atoll_id_ranges *h, const struct atoll_spec *spec,
                       struct atoll_error *err)
{
    const struct holder *holder = atoll_map_get(&h->by_id, spec->id);

    if (holder && holder->outside_id == spec->outside_id)
        return 0;
    return atoll_fail(
        err, ATOLL_ERR_FAILED_PRECONDITION, EBUSY,
        "the ids that own the files of sandbox %s belong to another instance of Atoll "
        "on this host now; stop that one and restart this daemon",
        spec->id);
}

int atoll_id_ranges_take(struct atoll_id_ranges *h, struct atoll_spec *spec,
                         struct atoll_error *err)
{
    struct holder *holder;

    if (spec->resume_disk)
        return find_holder(h, spec, err);
    holder = holder_new(spec);
    if (h->slots.count > 0 && spec->builder) {
        spec->outside_id = ATOLL_LAYER_BASE;
    } else if (h->slots.count > 0) {
        holder->outside_id = spec->outside_id = atoll_id_pool_take(&h->slots);
        if (!spec->outside_id) {
            free(holder);
            return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, EAGAIN,
                              "all %u id ranges are in use, one for each sandbox; destroy some",
                              h->slots.count);
        }
    }
    if (atoll_map_put(&h->by_id, holder->id, holder) < 0) {
        if (holder->outside_id)
            atoll_id_pool_give(&h->slots, holder->outside_id);
        free(holder);
        return atoll_fail(err, ATOLL_ERR_ALREADY_EXISTS, EEXIST, "sandbox %s exists", spec->id);
    }
    return 0;
}

void atoll_id_ranges_reserve(struct atoll_id_ranges *h, const struct atoll_spec *spec)
{
    struct holder *holder;

    if (atoll_map_get(&h->by_id, spec->id))
        return;
    holder = holder_new(spec);
    if (spec->outside_id && !spec->builder && atoll_id_pool_mark(&h->slots, spec->outside_id))
        holder->outside_id = spec->outside_id;
    if (atoll_map_put(&h->by_id, holder->id, holder) < 0)
        abort();
}

void atoll_id_ranges_forget(struct atoll_id_ranges *h, const char *id)
{
    struct holder *holder = atoll_map_remove(&h->by_id, id);

    if (!holder)
        return;
    if (holder->outside_id)
        atoll_id_pool_give(&h->slots, holder->outside_id);
    free(holder);
}
