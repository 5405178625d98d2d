#include "cli/sync_plan.h"

#include <string.h>

bool atoll_sync_same(const struct atoll_sync_entry *a, const struct atoll_sync_entry *b)
{
    if (a->kind != b->kind)
        return false;
    switch (a->kind) {
    case ATOLL_SYNC_FILE:
        return a->size == b->size && a->mtime_ms / 1000 == b->mtime_ms / 1000;
    case ATOLL_SYNC_LINK:
        return strcmp(a->target, b->target) == 0;
    case ATOLL_SYNC_DIRECTORY:
        return true;
    }
    return false;
}

/* Whether one side is what it was. The time of a directory changes with its entries. */
static bool is_unchanged(const struct atoll_sync_entry *now, const struct atoll_sync_entry *was)
{
    if (!now || !was || !was->path)
        return !now && (!was || !was->path);
    if (now->kind != was->kind || strcmp(now->target, was->target) != 0)
        return false;
    return now->kind == ATOLL_SYNC_LINK ||
           (now->mode == was->mode && (now->kind == ATOLL_SYNC_DIRECTORY ||
                                       (now->size == was->size && now->mtime_ms == was->mtime_ms)));
}

static enum atoll_sync_act act_of(const struct atoll_sync_step *s, bool two_way)
{
    bool local_same = is_unchanged(s->local, s->base ? &s->base->local : NULL);
    bool remote_same = is_unchanged(s->remote, s->base ? &s->base->remote : NULL);

    if (!s->base && !s->local)
        return two_way ? ATOLL_SYNC_PULL : ATOLL_SYNC_IGNORE;
    if (local_same && remote_same)
        return ATOLL_SYNC_KEEP;
    if ((!s->local && !s->remote) ||
        (s->local && s->remote && atoll_sync_same(s->local, s->remote) &&
         (local_same || !s->base || !remote_same)))
        return ATOLL_SYNC_KEEP;
    if (remote_same)
        return s->local ? ATOLL_SYNC_PUSH : ATOLL_SYNC_REMOVE_REMOTE;
    if (!local_same)
        return ATOLL_SYNC_CONFLICT;
    if (two_way)
        return s->remote ? ATOLL_SYNC_PULL : ATOLL_SYNC_REMOVE_LOCAL;
    /* Only the sandbox's side changed: what it removed is sent again, what it wrote stays. */
    return s->remote ? ATOLL_SYNC_CONFLICT : ATOLL_SYNC_PUSH;
}

static const char *least(const char *a, const char *b)
{
    return !a || (b && strcmp(b, a) < 0) ? b : a;
}

static bool is_at(const char *path, const char *at)
{
    return path && strcmp(path, at) == 0;
}

size_t atoll_sync_plan(const struct atoll_sync_list *local, const struct atoll_sync_list *remote,
                       const struct atoll_sync_base *base, bool two_way,
                       struct atoll_sync_step *steps)
{
    size_t l = 0, r = 0, b = 0, n = 0;

    for (;;) {
        const char *at_l = l < local->count ? local->entries[l].path : NULL;
        const char *at_r = r < remote->count ? remote->entries[r].path : NULL;
        const char *at_b = b < base->count ? base->pairs[b].local.path : NULL;
        const char *at = least(least(at_l, at_r), at_b);
        struct atoll_sync_step *s = &steps[n];

        if (!at)
            return n;
        *s = (struct atoll_sync_step){.local = is_at(at_l, at) ? &local->entries[l++] : NULL,
                                      .remote = is_at(at_r, at) ? &remote->entries[r++] : NULL,
                                      .base = is_at(at_b, at) ? &base->pairs[b++] : NULL};
        s->act = act_of(s, two_way);
        n++;
    }
}

const char *atoll_sync_step_path(const struct atoll_sync_step *s)
{
    return s->local ? s->local->path : s->remote ? s->remote->path : s->base->local.path;
}
