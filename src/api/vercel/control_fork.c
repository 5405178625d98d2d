/*
 * POST /sandboxes/{sandbox}/fork: a new sandbox with the settings of another one, except for those of the
 * request, and with the files of its current snapshot. If the disk that the source keeps is newer, it
 * gets a snapshot first.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "api/repeats.h"
#include "api/vercel/control_create.h"
#include "api/vercel/snapshots.h"
#include "engine/json_memory.h"

/* What the request leaves open comes from the source. The result borrows from the facts. */
static void take_over(struct atoll_vercel_create *q, const json_t *facts)
{
    const struct {
        const char *name;
        const json_t **member;
    } rows[] = {
        {"ports", &q->ports},
        {"timeout", &q->timeout},
        {"persistent", &q->persistent},
        {"snapshotExpiration", &q->expiration},
        {"keepLastSnapshots", &q->keep_last},
        {"mounts", &q->mounts},
        {"failoverRegions", &q->failover},
    };
    const struct {
        const char *name;
        const char **member;
    } texts[] = {{"projectId", &q->project}, {"region", &q->region}, {"networkId", &q->network_id}};

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(rows); i++)
        if (!*rows[i].member)
            *rows[i].member = json_object_get(facts, rows[i].name);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(texts); i++)
        if (!*texts[i].member && *atoll_fact_text(facts, texts[i].name))
            *texts[i].member = atoll_fact_text(facts, texts[i].name);
    if (!q->vcpus && !q->memory) {
        q->vcpus = json_object_get(facts, "vcpus");
        q->memory = json_object_get(facts, "memory");
    }
}

/* Its runtime and image are those of the source, unless it has other files. */
static int take_label(struct atoll_vercel_create *q, const json_t *facts, struct atoll_error *err)
{
    const char *image = atoll_fact_text(facts, "image");
    const bool has_image = q->image && *q->image;

    if (q->source && has_image && strcmp(q->image, image) != 0)
        return atoll_fail(
            err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
            "image must be left out: the source has a snapshot, whose files the fork gets");
    q->forks = q->source || !(has_image || (q->runtime && *q->runtime));
    if (q->forks) {
        q->image = image;
        q->runtime = atoll_fact_text(facts, "runtime");
    }
    return 0;
}

static void fork_box(struct atoll_api_call *call, const struct atoll_vercel_box *source,
                     struct atoll_vercel_create *q, struct atoll_body *body)
{
    const char *snapshot = atoll_fact_text(source->facts, "currentSnapshotId");
    json_t *files =
        *snapshot ? json_pack("{s:s,s:s}", "type", "snapshot", "snapshotId", snapshot) : NULL;
    json_t *tags = atoll_json_load_own(source->view.options.metadata_json);
    bool own_policy = q->policy != NULL;
    struct atoll_options options;
    struct atoll_error error;

    take_over(q, source->facts);
    q->source = files;
    if (!q->tags)
        q->tags = tags;
    if (!q->env)
        q->env = source->view.options.env;
    if (!own_policy)
        q->answer_policy = json_incref(json_object_get(source->facts, "networkPolicy"));
    if (take_label(q, source->facts, &error) < 0 ||
        atoll_vercel_prepare(call, q, body, &options, &error) < 0) {
        atoll_api_fail(call, &error);
    } else {
        if (!own_policy && options.network != ATOLL_NETWORK_NONE)
            options.network_json = source->view.options.network_json;
        atoll_vercel_make(call, &options, NULL);
    }
    json_decref(files);
    json_decref(tags);
}

/* A fork whose source first gets a snapshot of its disk. */
struct forking {
    struct atoll_api_call *call;
    struct atoll_body body;
    struct atoll_vercel_create q; /* borrows from the body */
};

static void finish(struct forking *f)
{
    json_decref(f->q.answer_policy);
    atoll_body_done(&f->body);
    free(f);
}

static void copied(void *arg, const struct atoll_error *error)
{
    struct forking *f = arg;
    struct atoll_vercel_box box;

    if (error) {
        atoll_api_fail(f->call, error);
    } else if (!atoll_vercel_box_get(f->call->engine, f->call->params.id, &box)) {
        atoll_vercel_refuse_missing(f->call, "Sandbox", f->call->params.template);
    } else {
        fork_box(f->call, &box, &f->q, &f->body);
        atoll_vercel_box_done(&box);
    }
    finish(f);
}

void atoll_vercel_sandbox_fork(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    struct atoll_vercel_box box;
    struct atoll_error error;
    struct forking *f;

    if (atoll_repeat_check(call, bytes, n, NULL))
        return;
    if (call->ended || !atoll_vercel_box_get(call->engine, call->params.id, &box)) {
        atoll_vercel_refuse_missing(call, "Sandbox", call->params.template);
        return;
    }
    f = atoll_api_alloc(sizeof(*f));
    f->call = call;
    if (atoll_vercel_create_decode(&f->body, bytes, n, &f->q, &error) < 0)
        copied(f, &error);
    else if (atoll_vercel_disk_is_newer(&box))
        atoll_vercel_disk_copy(call, &box, copied, f);
    else
        copied(f, NULL);
    atoll_vercel_box_done(&box);
}
