#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/metrics.h"
#include "engine/engine_internal.h"
#include "store/ended.h"

/*
 * Output of the commands of ended sandboxes. When a sandbox that leaves a record is destroyed, the
 * journals of the commands in its record move from the directory "journal" to "ended". They are
 * removed with the record, when they are older than the limit for output, or when all of them
 * exceed their maximum: then the oldest sandbox of the tenant that has the most loses its output.
 *
 * A daemon that dies between storing a record and moving its journals leaves them in "journal": the
 * next daemon moves what belongs to no living command and then removes what belongs to no record.
 */

#define BLOCK_BYTES 4096 /* the least that a file uses */
#define DISK_PART 32     /* at most 1/32 of the file system */
#define DAY_MS (INT64_C(24) * 3600 * 1000)
#define NAME_LEN (ATOLL_ID_LEN + 1 + 16) /* SANDBOX-EXEC */

struct tenant {
    char name[65];
    uint64_t bytes;
    struct atoll_list boxes; /* of struct box, oldest first */
};

struct box {
    char id[ATOLL_ID_LEN + 1];
    struct tenant *tenant; /* NULL while its record is unknown; load() */
    struct atoll_list node;
    int64_t ended_unix_ms;
    uint64_t bytes;
    char (*execs)[17]; /* owned: whose journals there are */
    size_t count, cap;
};

int atoll_ended_output_open(struct atoll_engine *engine, struct atoll_error *err)
{
    struct atoll_ended_output *o = &engine->ended_output;
    int r = mkdirat(engine->state_fd, "ended", 0700) < 0 && errno != EEXIST ? -errno : 0;

    atoll_map_init(&o->boxes);
    atoll_map_init(&o->tenants);
    if (r == 0) {
        o->fd = openat(engine->state_fd, "ended", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        r = o->fd < 0 ? -errno : 0;
    }
    if (r < 0)
        return atoll_fail_errno(err, -r, "make the directory of output of ended sandboxes");
    o->max_bytes = ATOLL_MIN(engine->config.ended_output_bytes, atoll_room_size(o->fd) / DISK_PART);
    return 0;
}

static void box_free(struct box *b)
{
    free(b->execs);
    free(b);
}

void atoll_ended_output_done(struct atoll_engine *engine)
{
    struct atoll_ended_output *o = &engine->ended_output;
    struct tenant *t;
    struct box *b;

    for (size_t pos = 0; (b = atoll_map_next(&o->boxes, &pos)) != NULL;)
        box_free(b);
    for (size_t pos = 0; (t = atoll_map_next(&o->tenants, &pos)) != NULL;)
        free(t);
    atoll_map_done(&o->boxes);
    atoll_map_done(&o->tenants);
    if (o->fd >= 0)
        (void)close(ATOLL_TAKE_FD(o->fd));
}

void atoll_ended_output_view(const struct atoll_engine *engine, struct atoll_disk_view *ret)
{
    ret->ended_output_bytes = engine->ended_output.bytes;
    ret->ended_output_max_bytes = engine->ended_output.max_bytes;
}

/* Accounts. Small fixed objects: the daemon is crash-only. */

static struct tenant *tenant_get(struct atoll_ended_output *o, const char *name)
{
    struct tenant *t = atoll_map_get(&o->tenants, name);

    if (t)
        return t;
    t = atoll_alloc(sizeof(*t));
    (void)snprintf(t->name, sizeof(t->name), "%s", name);
    atoll_list_init(&t->boxes);
    if (atoll_map_put(&o->tenants, t->name, t) < 0)
        abort();
    return t;
}

static struct box *box_get(struct atoll_ended_output *o, const char *id)
{
    struct box *b = atoll_map_get(&o->boxes, id);

    if (b)
        return b;
    b = atoll_alloc(sizeof(*b));
    (void)snprintf(b->id, sizeof(b->id), "%s", id);
    if (atoll_map_put(&o->boxes, b->id, b) < 0)
        abort();
    return b;
}

static void box_enter(struct atoll_ended_output *o, struct box *b, const char *tenant,
                      int64_t ended_unix_ms)
{
    b->tenant = tenant_get(o, tenant);
    b->tenant->bytes += b->bytes;
    b->ended_unix_ms = ended_unix_ms;
    atoll_list_push_back(&b->tenant->boxes, &b->node);
}

static void box_add(struct atoll_ended_output *o, struct box *b, const char *exec, uint64_t bytes)
{
    const uint64_t used = (bytes + BLOCK_BYTES - 1) / BLOCK_BYTES * BLOCK_BYTES;

    if (b->count == b->cap) {
        b->cap = b->cap ? 2 * b->cap : 4;
        b->execs = reallocarray(b->execs, b->cap, sizeof(b->execs[0]));
        if (!b->execs)
            abort();
    }
    (void)snprintf(b->execs[b->count++], sizeof(b->execs[0]), "%s", exec);
    b->bytes += used;
    o->bytes += used;
    if (b->tenant)
        b->tenant->bytes += used;
}

/* Removal. */

static void box_remove(struct atoll_ended_output *o, struct box *b)
{
    struct tenant *t = b->tenant;
    char name[NAME_LEN + 1];

    for (size_t i = 0; i < b->count; i++) {
        (void)snprintf(name, sizeof(name), "%s-%s", b->id, b->execs[i]);
        (void)unlinkat(o->fd, name, 0);
    }
    o->bytes -= b->bytes;
    (void)atoll_map_remove(&o->boxes, b->id);
    if (t) {
        atoll_list_remove(&b->node);
        t->bytes -= b->bytes;
        if (atoll_list_empty(&t->boxes)) {
            (void)atoll_map_remove(&o->tenants, t->name);
            free(t);
        }
    }
    box_free(b);
}

void atoll_ended_output_drop(struct atoll_engine *engine, const char *sandbox_id)
{
    struct box *b = atoll_map_get(&engine->ended_output.boxes, sandbox_id);

    if (b)
        box_remove(&engine->ended_output, b);
}

static struct box *oldest(const struct tenant *t)
{
    return ATOLL_CONTAINER_OF(t->boxes.next, struct box, node);
}

static void give_way(struct atoll_ended_output *o, struct box *b, const char *why)
{
    atoll_metric_add(ATOLL_METRIC_JOURNALS_REMOVED, ATOLL_LABELS(why), (double)b->count);
    box_remove(o, b);
}

static void make_room(struct atoll_ended_output *o)
{
    while (o->bytes > o->max_bytes) {
        struct tenant *t, *most = NULL;

        for (size_t pos = 0; (t = atoll_map_next(&o->tenants, &pos)) != NULL;)
            if (!most || t->bytes > most->bytes)
                most = t;
        if (!most)
            return;
        give_way(o, oldest(most), "ended");
    }
}

void atoll_ended_output_expire(struct atoll_engine *engine)
{
    struct atoll_ended_output *o = &engine->ended_output;
    const int64_t days = engine->config.output.days, before = atoll_clock_unix_ms() - days * DAY_MS;
    struct tenant *t;
    size_t pos = 0;

    while (days > 0 && (t = atoll_map_next(&o->tenants, &pos)) != NULL)
        if (oldest(t)->ended_unix_ms < before) {
            give_way(o, oldest(t), "age");
            pos = 0; /* the map may have changed */
        }
}

/* Adding. */

void atoll_ended_output_keep(struct atoll_exec *x)
{
    struct atoll_ended_output *o = &x->engine->ended_output;
    const uint64_t bytes = atoll_journal_file_bytes(&x->journal);
    struct atoll_error err;
    struct box *b;

    if (x->held || bytes == 0 || o->max_bytes == 0 || atoll_room_admit(x->engine, &err) < 0)
        return;
    if (renameat(x->journal.dir_fd, x->journal.name, o->fd, x->journal.name) < 0)
        return; /* it is removed, as without a record */
    x->journal.dir_fd = o->fd;
    x->kept = true;
    atoll_journals_charge(x);
    b = box_get(o, x->sandbox_id);
    if (!b->tenant)
        box_enter(o, b, x->sandbox->spec.tenant, atoll_clock_unix_ms());
    box_add(o, b, x->id, bytes);
    make_room(o);
}

/* At the start. */

static bool is_name(const char *name)
{
    return strlen(name) == NAME_LEN && name[ATOLL_ID_LEN] == '-';
}

static void take_file(struct atoll_ended_output *o, const char *name)
{
    char id[ATOLL_ID_LEN + 1] = "";
    struct stat st;

    if (!is_name(name) || fstatat(o->fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        (void)unlinkat(o->fd, name, 0);
        return;
    }
    memcpy(id, name, ATOLL_ID_LEN);
    box_add(o, box_get(o, id), name + ATOLL_ID_LEN + 1, (uint64_t)st.st_size);
}

static int take_record(void *arg, const struct atoll_store_ended *row, struct atoll_error *err)
{
    struct atoll_ended_output *o = arg;
    struct box *b = atoll_map_get(&o->boxes, row->id);

    (void)err;
    if (b && !b->tenant)
        box_enter(o, b, row->owner, row->ended_unix_ms);
    return 0;
}

void atoll_ended_output_rescue(struct atoll_engine *engine, const char *name)
{
    if (!is_name(name) || renameat(engine->journal_fd, name, engine->ended_output.fd, name) < 0)
        (void)unlinkat(engine->journal_fd, name, 0);
}

void atoll_ended_output_load(struct atoll_engine *engine)
{
    struct atoll_ended_output *o = &engine->ended_output;
    int fd = openat(o->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *entry;
    struct atoll_error err;
    struct box *b;
    int r = 0;

    while (dir && (entry = readdir(dir)) != NULL)
        if (entry->d_name[0] != '.')
            take_file(o, entry->d_name);
    if (dir)
        (void)closedir(dir);
    if (o->boxes.used > 0)
        r = atoll_store_each_ended(engine->config.store, NULL, 0, UINT32_MAX, take_record, o, &err);
    if (r < 0)
        atoll_log(ATOLL_LOG_ERROR, "records of ended sandboxes not read", "error", err.text, NULL);
    for (size_t pos = 0; r >= 0 && (b = atoll_map_next(&o->boxes, &pos)) != NULL;)
        if (!b->tenant)
            box_remove(o, b);
    make_room(o);
}
