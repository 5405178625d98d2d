#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/log.h"
#include "base/memory.h"
#include "base/metrics.h"
#include "base/rand.h"
#include "base/switches.h"
#include "engine/state/capture.h"
#include "engine/state/capture_queue.h"

/*
 * Forks: one snapshot, then creates from it with the options of the sandbox. The version belongs to no
 * name that clients use, and the collector removes it after its last sandbox.
 *
 * All or none: until the last create has succeeded the version's source is "forking". If a create
 * fails, the others are destroyed; if the daemon dies, the next one destroys the sandboxes of such a
 * version. That of a provisional fork stays "forking" until atoll_fork_keep.
 */

struct forking {
    struct atoll_engine *engine;
    char sandbox_id[ATOLL_ID_LEN + 1];
    struct atoll_options options;  /* of the new ones; owned */
    struct atoll_version *version; /* pinned, or NULL */
    uint32_t count, waiting;       /* creates or destroys in progress, plus one while they begin */
    uint32_t made;
    char (*ids)[ATOLL_ID_LEN + 1]; /* owned: those that were made */
    bool provisional, failed;
    bool timeout_is_given;
    uint32_t timeout_s;
    struct atoll_error error; /* the first one */
    atoll_fork_fn *done;
    void *arg;
};

static void end(struct forking *f)
{
    if (f->version)
        f->version->pins--;
    atoll_templates_collect_soon(f->engine);
    atoll_metric_add(ATOLL_METRIC_FORKS, ATOLL_LABELS(f->failed ? "failed" : "made"),
                     f->failed ? 1 : f->count);
    f->done(f->arg, (const char(*)[ATOLL_ID_LEN + 1]) f->ids, f->failed ? 0 : f->count,
            f->failed ? &f->error : NULL);
    atoll_options_free(&f->options);
    free(f->ids);
    free(f);
}

static void fail(struct forking *f, const struct atoll_error *error)
{
    if (!f->failed)
        f->error = *error;
    f->failed = true;
}

static void on_destroyed(void *arg, const struct atoll_error *error ATOLL_UNUSED)
{
    struct forking *f = arg;

    if (--f->waiting == 0)
        end(f);
}

static void undo(struct forking *f)
{
    f->waiting = f->made + 1;
    for (uint32_t i = 0; i < f->made; i++)
        atoll_engine_destroy(f->engine, f->ids[i],
                             "the daemon, because a fork of the same request failed", on_destroyed,
                             f);
    on_destroyed(f, NULL);
}

static void finish(struct forking *f)
{
    const struct atoll_sandbox *s = atoll_map_get(&f->engine->sandboxes, f->sandbox_id);
    struct atoll_error err;
    char detail[40];
    int r = atoll_fault("state.fork");

    if (r != 0)
        r = atoll_fail_errno(&err, r, "fork");
    if (!f->failed && r == 0 && !f->provisional)
        r = atoll_version_set_source(f->engine, f->version, ATOLL_SOURCE_FORK, &err);
    if (!f->failed && r < 0)
        fail(f, &err);
    if (f->failed) {
        undo(f);
        return;
    }
    (void)snprintf(detail, sizeof(detail), "%u", f->count);
    if (s)
        atoll_events_emit(f->engine, "sandbox.forked", s, "", detail);
    end(f);
}

static void on_created(void *arg, struct atoll_sandbox *sandbox, const struct atoll_error *error)
{
    struct forking *f = arg;

    if (error)
        fail(f, error);
    else if (sandbox)
        memcpy(f->ids[f->made++], sandbox->spec.id, ATOLL_ID_LEN + 1);
    if (--f->waiting == 0)
        finish(f);
}

static void on_captured(void *arg, struct atoll_version *v,
                        const struct atoll_snapshot_facts *facts ATOLL_UNUSED,
                        const struct atoll_error *error)
{
    struct forking *f = arg;

    if (error) {
        fail(f, error);
        end(f);
        return;
    }
    v->pins++;
    f->version = v;
    f->waiting = f->count + 1;
    for (uint32_t i = 0; i < f->count; i++) {
        if (f->failed) /* a create that failed at once */
            on_created(f, NULL, &f->error);
        else
            atoll_engine_create(f->engine, &f->options, on_created, f);
    }
    if (--f->waiting == 0)
        finish(f);
}

static int check_room(struct atoll_sandbox *s, uint32_t count, struct atoll_error *err)
{
    uint32_t most = s->engine->config.quota.sandboxes;
    int r = atoll_engine_check_room(s->engine, err);

    if (r == 0 && most > 0 && s->tenant && s->tenant->sandboxes.count + count > most) {
        atoll_metric_add(ATOLL_METRIC_QUOTA_REFUSED, ATOLL_LABELS("sandboxes"), 1);
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, EAGAIN,
                          "tenant %s would have more than %u sandboxes, the most it may have "
                          "(--tenant-sandboxes); destroy some",
                          s->spec.tenant, most);
    }
    return r < 0 ? r : atoll_room_admit(s->engine, err);
}

/* Why no provider copies memory: docs/adr/0052. */
static int refuse_memory(const struct atoll_sandbox *s, struct atoll_error *err)
{
    static const char instead[] = "fork without memory, or begin with interpreters that have their "
                                  "modules loaded (\"warm\" of an environment)";
    const struct atoll_provider_caps *caps = s->provider->ops->caps(s->provider);
    const char *why = "it has no operation for that";

    if (caps->save)
        why =
            "a saved image can be restored in another sandbox, but no plan does so: the image has the "
            "identity and the commands of the first one, and needs its disk; to keep processes, "
            "pause with toDisk";
    else if (strcmp(caps->isolation, "namespaces") == 0)
        why = "processes of the host's kernel can be copied only by CRIU, which Atoll does not "
              "use, and a process cannot join the pid namespace of another sandbox";
    return atoll_fail(err, ATOLL_ERR_UNIMPLEMENTED, EOPNOTSUPP,
                      "provider %s cannot fork the memory of a sandbox: %s; %s",
                      s->provider->ops->name, why, instead);
}

static int find(struct atoll_engine *engine, const char *sandbox_id,
                const struct atoll_fork_request *q, struct atoll_sandbox **ret,
                struct atoll_error *err)
{
    struct atoll_sandbox *s = *ret = atoll_engine_find(engine, sandbox_id);

    if (q->count < 1 || q->count > ATOLL_FORKS_MAX)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "count must be a number from 1 to %d", ATOLL_FORKS_MAX);
    if (!s)
        return atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT, "there is no sandbox %.32s",
                          sandbox_id);
    return q->memory ? refuse_memory(s, err) : 0;
}

static int check(struct atoll_sandbox *s, uint32_t count, struct atoll_error *err)
{
    struct atoll_sandbox *running;
    int r;

    /* The environment of a paused one may be known to its frozen agent only. */
    if (s->phase == ATOLL_PHASE_PAUSED)
        return atoll_engine_look(s->engine, s->spec.id, &running, err);
    r = atoll_capture_check(s, err);
    if (r == 0)
        r = check_room(s, count, err);
    if (r == 0 && !s->options.env)
        r = atoll_env_load(s, err);
    return r;
}

/* The options of the new sandboxes. */
static int make_options(struct forking *f, const struct atoll_sandbox *s, const char *name,
                        struct atoll_error *err)
{
    struct atoll_options o = s->options;

    o.owner = s->spec.tenant;
    o.limits = s->spec.limits;
    o.waived = s->spec.waived;
    o.network_is_given = true;
    o.template_name = name;
    o.provider = s->provider->ops->name;
    o.image = o.name = o.session_id = o.interpreter = NULL;
    o.warm = NULL;
    o.login = NULL;
    o.progress = NULL;
    if (f->timeout_is_given)
        o.limits.timeout_s = f->timeout_s;
    return atoll_options_dup(&f->options, &o, err);
}

static void begin(void *arg, const struct atoll_error *error)
{
    struct forking *f = arg;
    struct atoll_sandbox *s = atoll_map_get(&f->engine->sandboxes, f->sandbox_id);
    char id[17], name[32];
    struct atoll_error err;

    atoll_rand_id(id, 16);
    (void)snprintf(name, sizeof(name), "fork-%s", id);
    if (!error && (check(s, f->count, &err) < 0 || make_options(f, s, name, &err) < 0))
        error = &err;
    if (error) {
        fail(f, error);
        end(f);
        return;
    }
    atoll_capture(
        s,
        &(struct atoll_capture_request){.name = name, .tags = "", .source = ATOLL_SOURCE_FORKING},
        on_captured, f);
}

void atoll_engine_fork(struct atoll_engine *engine, const char *sandbox_id,
                       const struct atoll_fork_request *request, atoll_fork_fn *done, void *arg)
{
    struct atoll_sandbox *s;
    struct atoll_error err;
    struct forking *f;

    if (find(engine, sandbox_id, request, &s, &err) < 0) {
        done(arg, NULL, 0, &err);
        return;
    }
    f = atoll_alloc(sizeof(*f));
    *f = (struct forking){.engine = engine,
                          .count = request->count,
                          .provisional = request->provisional,
                          .timeout_is_given = request->timeout_is_given,
                          .timeout_s = request->timeout_s,
                          .done = done,
                          .arg = arg};
    memcpy(f->sandbox_id, s->spec.id, sizeof(f->sandbox_id));
    f->ids = atoll_alloc(request->count * sizeof(*f->ids));
    atoll_capture_await(s, arg, begin, f);
}

int atoll_fork_keep(struct atoll_engine *engine, const char *sandbox_id, struct atoll_error *err)
{
    const struct atoll_sandbox *s = atoll_engine_find(engine, sandbox_id);

    if (!s)
        return atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT, "there is no sandbox %.32s",
                          sandbox_id);
    /* One that was restored meanwhile has a version of others, which is not provisional. */
    if (strcmp(s->version->source, ATOLL_SOURCE_FORKING) != 0)
        return 0;
    return atoll_version_set_source(engine, s->version, ATOLL_SOURCE_FORK, err);
}
