/*
 * Admission, the first step of a create and of a command: what one tenant may do at a time
 * (sandboxes, creates in progress, running commands). A create or exec beyond the quota waits in the tenant's queue, first come first served; a queue has
 * a maximal length, and a request waits in it for at most 30 s. Creates on this machine also have a
 * limit for all tenants together, and tenants take turns (round robin). All facades pass through
 * here, since atoll_engine_create() and atoll_engine_exec() are defined here. A create that is
 * admitted goes on to placement.c and launch.c: see admit_create().
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "base/memory.h"
#include "base/metrics.h"
#include "base/trace.h"
#include "engine/engine_internal.h"
#include "engine/template/pull.h"
#include "engine/template/start.h"

#define WAIT_MAX_MS 30000
/* Size of the arguments and variables of one tenant's queued requests. */
#define QUEUE_BYTES_MAX ((size_t)16 << 20)
#define ADMITTED_MAX 64 /* per iteration of the loop */

static const char *const turn_names[ATOLL_TURNS] = {"sandboxes being created",
                                                    "sandboxes being created", "commands running"};

/* A queued request, with its own copy of everything, or a create in progress. */
struct request {
    struct atoll_list node;
    struct atoll_tenant *tenant; /* kept alive by this request */
    enum atoll_turn turn;
    struct atoll_timer late;
    struct atoll_options options; /* a copy if it is queued */
    int64_t admitted_us;          /* 0: it was refused */
    bool pulled;                  /* a pull of its image was tried */
    char other[65];       /* a provider that may have the image in its own store; "": none */
    const char *provider; /* tried first, a static string; "": no provider can make it */
    char sandbox_id[ATOLL_ID_LEN + 1];
    struct atoll_exec_start start;
    struct atoll_origin origin;
    void *copies[2]; /* of START, owned */
    char **env, **argv;
    size_t bytes; /* size of all copies */
    atoll_sandbox_fn *created;
    atoll_exec_fn *started;
    void *arg;
};

void atoll_quota_fill(struct atoll_quota *quota)
{
    uint32_t cpus = quota->cpus ? quota->cpus : 2;

    /* More creates at once are not faster, since they share the CPUs. Remote ones do not use our
     * CPUs. */
    quota->elsewhere = quota->creates ? quota->creates : 64;
    quota->creates = quota->creates ? quota->creates : ATOLL_MAX(2 * cpus, 4u);
    quota->all_creates = quota->all_creates ? quota->all_creates : ATOLL_MAX(4 * cpus, 8u);
    quota->execs = quota->execs ? quota->execs : 1024;
    quota->queue = quota->queue ? quota->queue : 1024;
}

static uint32_t limit_of(const struct atoll_engine *engine, enum atoll_turn turn)
{
    const struct atoll_quota *q = &engine->config.quota;

    return turn == ATOLL_TURN_CREATE      ? q->creates
           : turn == ATOLL_TURN_ELSEWHERE ? q->elsewhere
                                          : q->execs;
}

/* Whether the quota admits one more request of the tenant. */
static bool is_free(const struct atoll_tenant *t, enum atoll_turn turn)
{
    const struct atoll_engine *engine = t->engine;

    return t->busy[turn] < limit_of(engine, turn) &&
           (turn != ATOLL_TURN_CREATE || engine->creating < engine->config.quota.all_creates);
}

static void run_turns(void *arg);

/* Deferred to the loop: the caller may be in the middle of ending something. */
static void run_turns_soon(struct atoll_engine *engine)
{
    if (!atoll_list_empty(&engine->turns))
        atoll_timer_set(&engine->turning, engine->loop, 0, run_turns, engine);
}

static void join(struct atoll_tenant *t, enum atoll_turn turn)
{
    t->busy[turn]++;
    t->engine->creating += turn == ATOLL_TURN_CREATE;
}

static void leave(struct atoll_tenant *t, enum atoll_turn turn)
{
    t->busy[turn]--;
    t->engine->creating -= turn == ATOLL_TURN_CREATE;
    run_turns_soon(t->engine);
    atoll_tenant_settle(t);
}

/* Requests. */

static struct request *request_free(struct request *q)
{
    atoll_timer_cancel(&q->late);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(q->copies); i++)
        free(q->copies[i]);
    atoll_strings_free(q->env);
    atoll_strings_free(q->argv);
    atoll_options_free(&q->options);
    free(q);
    return NULL;
}

static void request_fail(struct request *q, const struct atoll_error *error)
{
    if (q->created)
        q->created(q->arg, NULL, error);
    else
        q->started(q->arg, NULL, error);
}

static void created(void *arg, struct atoll_sandbox *s, const struct atoll_error *error)
{
    struct request *q = arg;
    const char *provider = s ? s->provider->ops->name : q->provider;

    if (error && q->admitted_us)
        atoll_metric_add(ATOLL_METRIC_CREATE_ERRORS,
                         ATOLL_LABELS(provider, atoll_error_kind_name(error->kind)), 1);
    if (!error)
        atoll_metric_observe(ATOLL_METRIC_CREATE_SECONDS, ATOLL_LABELS(provider),
                             (double)(atoll_clock_us() - q->admitted_us) / 1e6);
    if (error)
        q->created(q->arg, NULL, error);
    else
        atoll_start_sandbox(s, q->created, q->arg);
    leave(q->tenant, q->turn);
    (void)request_free(q);
}

static int check_quota(const struct atoll_tenant *t, struct atoll_error *err)
{
    uint32_t most = t->engine->config.quota.sandboxes;

    if (most == 0 || t->sandboxes.count < most)
        return 0;
    atoll_metric_add(ATOLL_METRIC_QUOTA_REFUSED, ATOLL_LABELS("sandboxes"), 1);
    return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, EAGAIN,
                      "tenant %s has %u sandboxes, the most it may have (--tenant-sandboxes); "
                      "destroy some",
                      t->name, most);
}

/* Whether the daemon has room for one more sandbox, and permits its network. */
static int check_daemon(const struct atoll_tenant *t, const struct atoll_options *options,
                        struct atoll_error *err)
{
    const struct atoll_engine *engine = t->engine;
    int r = atoll_artifacts_accept(engine, options->artifacts, err);

    if (r == 0)
        r = atoll_network_admit(engine, t->name, options->network, err);
    if (r == 0)
        r = atoll_secrets_check(engine->secrets, t->name, options->network_json, err);
    if (r == 0 && engine->ending)
        r = atoll_fail(err, ATOLL_ERR_UNAVAILABLE, ESHUTDOWN, "the daemon is stopping");
    if (r == 0)
        r = atoll_engine_check_room(engine, err);
    return r < 0 ? r : atoll_room_admit(engine, err);
}

static void place_create(struct request *q, const struct atoll_options *options);

/* The next candidate that runs images from a store of its own, such as a Docker engine. */
static void find_other(struct atoll_engine *engine, const struct atoll_place *place, char out[65])
{
    for (int i = 1; i < place->candidates.count; i++) {
        const struct atoll_provider_entry *entry =
            atoll_provider_entry_by_serial(engine, place->candidates.serials[i]);
        const struct atoll_provider_caps *caps =
            entry ? entry->provider->ops->caps(entry->provider) : NULL;
        if (caps && caps->images && !caps->stacks) {
            (void)snprintf(out, 65, "%s", entry->provider->ops->name);
            return;
        }
    }
}

static bool is_absent(const struct atoll_error *error)
{
    return error->kind == ATOLL_ERR_NOT_FOUND || error->kind == ATOLL_ERR_UNAVAILABLE ||
           error->kind == ATOLL_ERR_UNAUTHENTICATED || error->kind == ATOLL_ERR_PERMISSION_DENIED ||
           error->kind == ATOLL_ERR_DEADLINE_EXCEEDED;
}

static void on_pulled(void *arg, const struct atoll_template_view *version,
                      const struct atoll_error *error)
{
    struct request *q = arg;
    struct atoll_origin before = atoll_origin_enter(&q->origin);
    struct atoll_options options = q->options;

    (void)version;
    q->pulled = true;
    if (error && *q->other && is_absent(error)) {
        options.provider = q->other;
        place_create(q, &options);
    } else if (error) {
        created(q, NULL, error);
    } else {
        place_create(q, &q->options);
    }
    (void)atoll_origin_enter(&before);
}

/* Gets the image, and then goes on. */
static void pull_image(struct request *q, const struct atoll_options *options)
{
    struct atoll_pull_request pull = {.tenant = q->tenant->name,
                                      .progress = options->progress,
                                      .progress_arg = options->progress_arg};
    struct atoll_error err;

    if (options != &q->options && atoll_options_dup(&q->options, options, &err) < 0) {
        created(q, NULL, &err);
        return;
    }
    pull.image = q->options.image;
    pull.login = q->options.login;
    (void)atoll_image_pull(q->tenant->engine, &pull, on_pulled, q);
}

static void place_create(struct request *q, const struct atoll_options *options)
{
    struct atoll_engine *engine = q->tenant->engine;
    struct atoll_place place = {0};
    struct atoll_error err;
    int r = atoll_place(engine, options, &place, &err);

    if (r == 1 && !q->pulled) {
        q->provider = place.entry->provider->ops->name;
        find_other(engine, &place, q->other);
        pull_image(q, options);
        return;
    }
    if (r == 1)
        r = atoll_fail(&err, ATOLL_ERR_ABORTED, ENOENT, "the image was removed meanwhile");
    if (r == 0)
        r = atoll_tenant_admit(engine, q->tenant->name, place.entry, &place.spec, &err);
    if (r < 0) {
        created(q, NULL, &err);
        return;
    }
    q->provider = place.entry->provider->ops->name;
    atoll_launch(engine, options, &place, created, q);
}

/* The path of a create that has its turn. The options may be the caller's own. */
static void admit_create(struct request *q, const struct atoll_options *options)
{
    struct atoll_error err;
    int r;

    join(q->tenant, q->turn);
    r = check_quota(q->tenant, &err);
    if (r == 0) {
        q->admitted_us = atoll_clock_us();
        r = check_daemon(q->tenant, options, &err);
    }
    if (r < 0)
        created(q, NULL, &err);
    else
        place_create(q, options);
}

static void unqueue(struct request *q)
{
    struct atoll_tenant *t = q->tenant;
    size_t left = 0;

    atoll_list_remove(&q->node);
    atoll_timer_cancel(&q->late);
    t->waiting[q->turn]--;
    t->waiting_bytes -= q->bytes;
    for (size_t k = 0; k < ATOLL_TURNS; k++)
        left += t->waiting[k];
    if (left == 0)
        atoll_list_remove(&t->turn);
}

/* Starts a queued request. */
static void admit(struct request *q)
{
    struct atoll_tenant *t = q->tenant;
    struct atoll_origin before = atoll_origin_enter(&q->origin);

    unqueue(q);
    if (q->created) {
        admit_create(q, &q->options);
    } else {
        atoll_engine_exec_now(t->engine, q->sandbox_id, &q->start, q->started, q->arg);
        (void)request_free(q);
    }
    (void)atoll_origin_enter(&before);
}

/* Admits the next request of each queue of the tenant; returns how many were admitted. */
static unsigned give_turn(struct atoll_tenant *t)
{
    unsigned admitted = 0;

    t->held = true;
    for (enum atoll_turn k = 0; k < ATOLL_TURNS; k++) {
        if (t->waiting[k] == 0 || !is_free(t, k))
            continue;
        admit(ATOLL_CONTAINER_OF(t->queue[k].next, struct request, node));
        admitted++;
    }
    t->held = false;
    atoll_tenant_settle(t);
    return admitted;
}

/* Lets tenants take turns until no more requests can be admitted. */
static void run_turns(void *arg)
{
    struct atoll_engine *engine = arg;
    unsigned admitted = 0, fruitless = 0;

    while (!atoll_list_empty(&engine->turns) && fruitless < engine->tenants.used) {
        struct atoll_tenant *t = ATOLL_CONTAINER_OF(engine->turns.next, struct atoll_tenant, turn);
        unsigned n;

        if (admitted >= ADMITTED_MAX) {
            run_turns_soon(engine);
            return;
        }
        atoll_list_remove(&t->turn);
        atoll_list_push_back(&engine->turns, &t->turn);
        n = give_turn(t);
        admitted += n;
        fruitless = n > 0 ? 0 : fruitless + 1;
    }
}

static void refuse(struct request *q, const struct atoll_error *error)
{
    struct atoll_tenant *t = q->tenant;

    atoll_metric_add(ATOLL_METRIC_QUOTA_REFUSED, ATOLL_LABELS(q->created ? "creates" : "execs"), 1);
    request_fail(q, error);
    (void)request_free(q);
    atoll_tenant_settle(t);
}

static void too_late(void *arg)
{
    struct request *q = arg;
    struct atoll_tenant *t = q->tenant;
    struct atoll_error err;

    if (t->busy[q->turn] >= limit_of(t->engine, q->turn))
        (void)atoll_fail(&err, ATOLL_ERR_RESOURCE_EXHAUSTED, EAGAIN,
                         "waited %d s: tenant %s has %u %s, the most it may have",
                         WAIT_MAX_MS / 1000, t->name, t->busy[q->turn], turn_names[q->turn]);
    else
        (void)atoll_fail(&err, ATOLL_ERR_RESOURCE_EXHAUSTED, EAGAIN,
                         "waited %d s: %u sandboxes are being created, the most this daemon makes "
                         "at once (--creates)",
                         WAIT_MAX_MS / 1000, t->engine->creating);
    unqueue(q);
    refuse(q, &err);
}

static int enqueue(struct request *q, struct atoll_error *err)
{
    struct atoll_tenant *t = q->tenant;

    if (t->waiting[q->turn] >= t->engine->config.quota.queue)
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, EAGAIN,
                          "tenant %s has %u %s and %zu requests waiting, the most it may have",
                          t->name, t->busy[q->turn], turn_names[q->turn], t->waiting[q->turn]);
    if (t->waiting_bytes + q->bytes > QUEUE_BYTES_MAX)
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, EAGAIN,
                          "tenant %s has %u %s, and %zu bytes of requests waiting, the most it may "
                          "have",
                          t->name, t->busy[q->turn], turn_names[q->turn], t->waiting_bytes);
    atoll_list_push_back(&t->queue[q->turn], &q->node);
    t->waiting[q->turn]++;
    t->waiting_bytes += q->bytes;
    if (!t->turn.next)
        atoll_list_push_back(&t->engine->turns, &t->turn);
    atoll_timer_set(&q->late, t->engine->loop, WAIT_MAX_MS, too_late, q);
    return 0;
}

/* Copies of borrowed arguments. */

static const char *keep_text(struct request *q, size_t slot, const char *text)
{
    if (!text)
        return NULL;
    q->copies[slot] = strdup(text);
    if (!q->copies[slot])
        abort();
    q->bytes += strlen(text) + 1;
    return q->copies[slot];
}

static const char *const *keep_strings(struct request *q, char ***slot, const char *const *strings)
{
    if (!strings)
        return NULL;
    *slot = atoll_strings_dup(strings);
    if (!*slot)
        abort();
    for (size_t i = 0; strings[i]; i++)
        q->bytes += strlen(strings[i]) + 1 + sizeof(*strings);
    return (const char *const *)*slot;
}

static struct request *request_new(struct atoll_tenant *t, enum atoll_turn turn, void *arg)
{
    struct request *q = atoll_alloc(sizeof(*q));

    q->tenant = t;
    q->turn = turn;
    q->provider = "";
    q->arg = arg;
    q->origin = *atoll_origin_get();
    return q;
}

/* ELSEWHERE for an image, or for a named provider other than the one that builds templates: such
 * creates are not bound by this machine. */
static enum atoll_turn turn_of(struct atoll_engine *engine, const struct atoll_options *options)
{
    const char *name = options->provider;
    bool named = name && *name && strcmp(name, "auto") != 0;

    return options->image || (named && strcmp(name, engine->builder->provider->ops->name) != 0)
               ? ATOLL_TURN_ELSEWHERE
               : ATOLL_TURN_CREATE;
}

void atoll_engine_create(struct atoll_engine *engine, const struct atoll_options *options,
                         atoll_sandbox_fn *done, void *arg)
{
    struct atoll_tenant *t =
        atoll_tenant_get(engine, options->owner ? options->owner : ATOLL_OPERATOR_TENANT);
    struct request *q = request_new(t, turn_of(engine, options), arg);
    struct atoll_error err;

    q->created = done;
    if (t->waiting[q->turn] == 0 && is_free(t, q->turn)) {
        admit_create(q, options);
        return;
    }
    q->bytes = atoll_options_size(options);
    if (atoll_options_dup(&q->options, options, &err) < 0 || enqueue(q, &err) < 0)
        refuse(q, &err);
}

void atoll_engine_exec(struct atoll_engine *engine, const char *sandbox_id,
                       const struct atoll_exec_start *start, atoll_exec_fn *done, void *arg)
{
    const struct atoll_sandbox *s = atoll_map_get(&engine->sandboxes, sandbox_id);
    struct atoll_tenant *t = s && !s->hidden ? s->tenant : NULL;
    struct atoll_error err;
    struct request *q;

    if (!t || (t->waiting[ATOLL_TURN_EXEC] == 0 && is_free(t, ATOLL_TURN_EXEC))) {
        atoll_engine_exec_now(engine, sandbox_id, start, done, arg);
        return;
    }
    q = request_new(t, ATOLL_TURN_EXEC, arg);
    q->started = done;
    (void)snprintf(q->sandbox_id, sizeof(q->sandbox_id), "%s", sandbox_id);
    q->start = *start;
    q->start.user = keep_text(q, 0, start->user);
    q->start.cwd = keep_text(q, 1, start->cwd);
    q->start.env = keep_strings(q, &q->env, start->env);
    q->start.argv = keep_strings(q, &q->argv, start->argv);
    if (enqueue(q, &err) < 0)
        refuse(q, &err);
}

/* Running commands, counted from their start to their end. */

void atoll_quota_exec_enter(struct atoll_exec *x)
{
    if (x->counted || x->ended || x->sandbox->hidden)
        return;
    x->counted = true;
    join(atoll_tenant_get(x->sandbox->engine, x->sandbox->spec.tenant), ATOLL_TURN_EXEC);
}

void atoll_quota_exec_leave(struct atoll_exec *x)
{
    if (!x->counted)
        return;
    x->counted = false;
    leave(atoll_tenant_get(x->sandbox->engine, x->sandbox->spec.tenant), ATOLL_TURN_EXEC);
}

void atoll_engine_queue(const struct atoll_engine *engine, size_t *ret_creates, size_t *ret_execs)
{
    *ret_creates = *ret_execs = 0;
    ATOLL_LIST_FOREACH (&engine->turns, node) {
        const struct atoll_tenant *t = ATOLL_CONTAINER_OF(node, struct atoll_tenant, turn);

        *ret_creates += t->waiting[ATOLL_TURN_CREATE] + t->waiting[ATOLL_TURN_ELSEWHERE];
        *ret_execs += t->waiting[ATOLL_TURN_EXEC];
    }
}

void atoll_quota_done(struct atoll_engine *engine)
{
    struct atoll_tenant *t;
    size_t pos = 0;

    atoll_timer_cancel(&engine->turning);
    while ((t = atoll_map_next(&engine->tenants, &pos)) != NULL)
        for (size_t k = 0; k < ATOLL_TURNS; k++)
            ATOLL_LIST_FOREACH (&t->queue[k], node)
                (void)request_free(ATOLL_CONTAINER_OF(node, struct request, node));
    atoll_tenants_done(engine);
}
