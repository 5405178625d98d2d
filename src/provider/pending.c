#include "provider/pending.h"

#include <errno.h>
#include "base/trace.h"

#define INDEX_BITS 16

struct atoll_pending_slot {
    struct atoll_pending_request request; /* fn NULL: the slot is free */
    uint32_t id;                          /* generation << INDEX_BITS | index, while in use */
    uint32_t generation;
    uint32_t next_free; /* index + 1 */
    bool expired;       /* its callback was called; a late answer may still come */
    int64_t due_ms;
    struct atoll_origin origin;
};

void atoll_pending_init(struct atoll_pending *p, uint32_t max)
{
    *p = (struct atoll_pending){.max = ATOLL_MIN(max, UINT32_C(1) << INDEX_BITS)};
}

void atoll_pending_done(struct atoll_pending *p)
{
    free(p->slots);
    *p = (struct atoll_pending){.max = p->max};
}

static int grow(struct atoll_pending *p)
{
    uint32_t cap = ATOLL_MIN(ATOLL_MAX(p->cap * 2, 8u), p->max);
    struct atoll_pending_slot *slots;

    if (cap <= p->cap)
        return -ENOBUFS;
    slots = realloc(p->slots, cap * sizeof(*slots));
    if (!slots)
        return -ENOMEM;
    for (uint32_t i = cap; i-- > p->cap;) {
        slots[i] = (struct atoll_pending_slot){.next_free = p->free_head};
        p->free_head = i + 1;
    }
    p->slots = slots;
    p->cap = cap;
    return 0;
}

static void renew(const struct atoll_pending *p, struct atoll_pending_slot *s)
{
    s->due_ms = p->now_ms + s->request.limit_ms;
}

int atoll_pending_add(struct atoll_pending *p, const struct atoll_pending_request *request,
                      uint32_t *ret_id)
{
    struct atoll_pending_slot *s;
    uint32_t index;

    if (p->free_head == 0) {
        int r = grow(p);
        if (r < 0)
            return r;
    }
    index = p->free_head - 1;
    s = &p->slots[index];
    p->free_head = s->next_free;
    s->generation = (s->generation + 1) & 0xffff;
    s->generation += s->generation == 0; /* so that no id is 0 */
    s->id = s->generation << INDEX_BITS | index;
    s->request = *request;
    s->expired = false;
    renew(p, s);
    s->origin = *atoll_origin_get();
    p->count++;
    *ret_id = s->id;
    return 0;
}

static void release(struct atoll_pending *p, struct atoll_pending_slot *s)
{
    s->request.fn = NULL;
    s->next_free = p->free_head;
    p->free_head = (uint32_t)(s - p->slots) + 1;
    p->count--;
}

static struct atoll_pending_slot *find(struct atoll_pending *p, uint32_t id)
{
    uint32_t index = id & ((UINT32_C(1) << INDEX_BITS) - 1);
    struct atoll_pending_slot *s = index < p->cap ? &p->slots[index] : NULL;

    return s && s->request.fn && s->id == id ? s : NULL;
}

void atoll_pending_forget(struct atoll_pending *p, uint32_t id)
{
    struct atoll_pending_slot *s = find(p, id);

    if (s)
        release(p, s);
}

bool atoll_pending_answer(struct atoll_pending *p, uint32_t id, const struct atoll_reply *answer)
{
    struct atoll_pending_slot *s = find(p, id);
    struct atoll_origin before;
    atoll_answer_fn *fn;
    void *arg;

    if (!s || s->expired || (answer->more && !s->request.takes_parts))
        return false;
    fn = s->request.fn;
    arg = s->request.arg;
    before = atoll_origin_enter(&s->origin);
    if (answer->more)
        renew(p, s);
    else /* before the callback, which may add requests or end the connection */
        release(p, s);
    fn(arg, answer);
    (void)atoll_origin_enter(&before);
    return true;
}

void atoll_pending_fail_all(struct atoll_pending *p, const struct atoll_error *error)
{
    struct atoll_reply answer = {.error = error};

    for (uint32_t i = 0; i < p->cap; i++) {
        struct atoll_pending_slot *s = &p->slots[i];
        if (s->request.fn && s->expired)
            release(p, s);
        else if (s->request.fn)
            (void)atoll_pending_answer(p, s->id, &answer);
    }
}

static void expire(struct atoll_pending_slot *s, const struct atoll_error *error)
{
    struct atoll_reply answer = {.error = error};
    struct atoll_pending_request request = s->request;
    struct atoll_origin before = atoll_origin_enter(&s->origin);

    s->expired = true;
    request.fn(request.arg, &answer); /* the callback may move the slots */
    (void)atoll_origin_enter(&before);
}

size_t atoll_pending_expire(struct atoll_pending *p, bool all, const struct atoll_error *error)
{
    size_t count = 0;

    for (uint32_t i = 0; i < p->cap; i++) {
        struct atoll_pending_slot *s = &p->slots[i];
        if (!s->request.fn || s->expired || s->request.limit_ms == ATOLL_LIMIT_NEVER ||
            (!all && s->due_ms > p->now_ms))
            continue;
        expire(s, error);
        count++;
    }
    return count;
}

uint16_t atoll_pending_late(struct atoll_pending *p, uint32_t id, bool last)
{
    struct atoll_pending_slot *s = find(p, id);
    uint16_t type;

    if (!s || !s->expired)
        return 0;
    type = s->request.type;
    if (last)
        release(p, s);
    return type;
}
