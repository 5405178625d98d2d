/*
 * Backups: a snapshot of the sandbox with a name of its own, which the next backup replaces and the end of the
 * sandbox removes. The last result is stored with the sandbox; that one is being made is not, because
 * the daemon that makes it has to live.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "api/api_internal.h"
#include "api/daytona/daytona_internal.h"
#include "base/clock.h"
#include "base/log.h"
#include "engine/json_memory.h"
#include "engine/state/state.h"

struct backup {
    struct atoll_api_call *call;
    char id[ATOLL_ID_LEN + 1], owner[65];
    char old[ATOLL_DIGEST_LEN + 1]; /* digest of the backup before; or "" */
};

static void name_of(const char *sandbox_id, char out[65])
{
    (void)snprintf(out, 65, "%s%s", ATOLL_DAYTONA_BACKUP, sandbox_id);
}

static void removed(void *arg ATOLL_UNUSED, const struct atoll_error *error)
{
    if (error)
        atoll_log(ATOLL_LOG_WARN, "backup not removed", "error", error->text, NULL);
}

/* Its template, if there is one. */
static bool find(struct atoll_engine *engine, const char *owner, const char *sandbox_id,
                 char name[65], struct atoll_template_view *ret)
{
    struct atoll_error ignored;

    name_of(sandbox_id, name);
    return atoll_template_resolve(engine, owner, name, ret, &ignored) == 0 &&
           strcmp(ret->owner, owner) == 0 && strcmp(ret->sandbox_id, sandbox_id) == 0;
}

void atoll_daytona_drop_backup(struct atoll_engine *engine, const char *owner,
                               const char *sandbox_id)
{
    struct atoll_template_view t;
    char name[65];

    if (find(engine, owner, sandbox_id, name, &t))
        atoll_templates_remove(engine, owner, name, removed, NULL);
}

static void note_use(void *arg, const struct atoll_template_view *version,
                     const char *tags ATOLL_UNUSED)
{
    bool *used = arg;

    *used = *used || version->sandboxes > 0;
}

/* Whether it is a backup whose sandbox has ended, and which no sandbox uses. */
static bool is_orphan(struct atoll_engine *engine, const struct atoll_template_view *t)
{
    bool used = false;
    char name[65];

    if (!*t->sandbox_id || atoll_engine_find(engine, t->sandbox_id))
        return false;
    name_of(t->sandbox_id, name);
    if (strcmp(t->name, name) != 0)
        return false;
    atoll_template_each_version(engine, t->owner, name, note_use, &used);
    return !used;
}

void atoll_daytona_drop_orphaned_backup(struct atoll_engine *engine)
{
    struct atoll_template_view t;
    char name[65], owner[65];

    for (size_t pos = 0; atoll_templates_next(engine, &pos, &t);) {
        if (!is_orphan(engine, &t))
            continue;
        name_of(t.sandbox_id, name);
        (void)snprintf(owner, sizeof(owner), "%s", t.owner);
        atoll_templates_remove(engine, owner, name, removed, NULL);
        return; /* the order of the others may have changed: continue with the next sweep */
    }
}

/* The version before goes, unless the disk is the same. One that a sandbox uses goes with the next. */
static void drop_old(const struct backup *b)
{
    struct atoll_engine *engine = b->call->engine;
    char reference[ATOLL_TEMPLATE_REFERENCE_MAX], name[65];
    struct atoll_template_view t;

    if (!*b->old || !find(engine, b->owner, b->id, name, &t) || strcmp(t.digest, b->old) == 0)
        return;
    (void)snprintf(reference, sizeof(reference), "%s@sha256:%s", name, b->old);
    atoll_templates_remove(engine, b->owner, reference, removed, NULL);
}

static int store_result(const struct backup *b, const struct atoll_error *failure,
                        struct atoll_error *err)
{
    const struct atoll_sandbox *sandbox = atoll_engine_find(b->call->engine, b->id);
    json_t *facts = sandbox ? atoll_daytona_facts(sandbox) : NULL;
    int r = 0;

    if (!facts)
        return 0; /* the answer is 404 */
    if (failure) {
        (void)json_object_set_new(facts, "backupError", json_string(failure->text));
    } else {
        (void)json_object_del(facts, "backupError");
        (void)json_object_set_new(facts, "backupAt", json_integer(atoll_clock_unix_ms()));
    }
    r = atoll_daytona_facts_store(b->call->engine, b->id, facts, err);
    json_decref(facts);
    return r;
}

static void made(void *arg, const struct atoll_template_view *view ATOLL_UNUSED,
                 const struct atoll_snapshot_facts *facts ATOLL_UNUSED,
                 const struct atoll_error *error)
{
    struct backup *b = arg;
    struct atoll_error failure;

    atoll_daytona_set_backing_up(b->call->api, b->id, false);
    if (!atoll_engine_find(b->call->engine, b->id))
        atoll_daytona_drop_backup(b->call->engine, b->owner, b->id);
    else if (!error)
        drop_old(b);
    if (store_result(b, error, &failure) < 0 && !error)
        error = &failure;
    atoll_daytona_done(b->call, error);
    free(b);
}

void atoll_daytona_backup(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                          size_t n ATOLL_UNUSED)
{
    const struct atoll_sandbox *sandbox = atoll_engine_find(call->engine, call->params.id);
    struct atoll_template_view old;
    struct atoll_sandbox_view v;
    struct backup *b;
    char name[65];

    if (!sandbox) {
        atoll_daytona_no_sandbox(call);
        return;
    }
    atoll_sandbox_get(sandbox, &v);
    if (atoll_daytona_is_backing_up(call->api, v.id)) {
        atoll_daytona_refuse(call, 409, NULL, "A backup of the sandbox is in progress");
        return;
    }
    b = atoll_api_alloc(sizeof(*b));
    b->call = call;
    (void)snprintf(b->id, sizeof(b->id), "%s", v.id);
    (void)snprintf(b->owner, sizeof(b->owner), "%s", atoll_api_owner_of(call->engine, v.id));
    if (find(call->engine, b->owner, b->id, name, &old))
        (void)snprintf(b->old, sizeof(b->old), "%s", old.digest);
    atoll_daytona_set_backing_up(call->api, b->id, true);
    atoll_engine_snapshot(call->engine, b->id, name, made, b);
}
