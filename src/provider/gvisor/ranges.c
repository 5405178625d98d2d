#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include "provider/gvisor/gvisor_internal.h"

/* Marks the ranges of live sandboxes as taken. */
static int mark_living(struct atoll_gvisor *g)
{
    DIR *dir = opendir(g->sandboxes);
    struct dirent *entry;
    struct stat st;

    if (!dir)
        return -errno;
    while ((entry = readdir(dir)) != NULL)
        if (fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0)
            (void)atoll_id_pool_mark(&g->slots, st.st_uid);
    (void)closedir(dir);
    return 0;
}

/* A new atoll-spawn may have other ranges, and has none of the earlier sandboxes. */
static int refresh(struct atoll_gvisor *g, struct atoll_error *err)
{
    struct atoll_spawn_info info;
    unsigned life = atoll_gvisor_link_info(&g->link, &info);
    int r;

    if (life == g->slots_life)
        return 0;
    atoll_id_pool_done(&g->slots);
    r = atoll_spawn_info_ids(&info, &g->slots);
    if (r == 0)
        r = mark_living(g);
    if (r < 0)
        return atoll_fail_errno(err, -r, "id ranges");
    g->slots_life = life;
    return 0;
}

int atoll_gvisor_range_take(struct atoll_gvisor *g, struct atoll_spec *spec,
                            struct atoll_gvisor_range *ret, struct atoll_error *err)
{
    uint32_t count;
    int r;

    (void)pthread_mutex_lock(&g->lock);
    r = refresh(g, err);
    count = g->slots.count;
    spec->outside_id = r == 0 ? atoll_id_pool_take(&g->slots) : 0;
    *ret = (struct atoll_gvisor_range){spec->outside_id, g->slots_life};
    (void)pthread_mutex_unlock(&g->lock);
    if (r == 0 && spec->outside_id == 0)
        r = atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, EAGAIN,
                       "all %u id ranges that gvisor has are in use, one for each sandbox; destroy "
                       "some",
                       count);
    return r;
}

struct atoll_gvisor_range atoll_gvisor_range_of(struct atoll_gvisor *g, const char *id)
{
    static const char *const suffixes[] = {"sock", "run"};
    struct atoll_gvisor_range range = {0};
    struct atoll_spawn_info info;
    char path[4200];
    struct stat st;

    range.life = atoll_gvisor_link_info(&g->link, &info);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(suffixes); i++) {
        (void)snprintf(path, sizeof(path), "%s/%s.%s", g->sandboxes, id, suffixes[i]);
        if (range.first_id == 0 && lstat(path, &st) == 0)
            range.first_id = st.st_uid;
    }
    return range;
}

void atoll_gvisor_range_give(struct atoll_gvisor *g, const struct atoll_gvisor_range *range)
{
    (void)pthread_mutex_lock(&g->lock);
    if (range->life == g->slots_life)
        atoll_id_pool_give(&g->slots, range->first_id);
    (void)pthread_mutex_unlock(&g->lock);
}
