/*
 * What one tenant may have at a time: sandboxes, creations under way, commands that run. A creation
 * or command beyond that waits in the tenant's queue, first come first served; a queue has an end,
 * and nobody waits in it for ever. All facades pass here, since this is where atoll_engine_create()
 * and atoll_engine_exec() are.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/trace.h"
#include "engine/engine_internal.h"

#define WAIT_MAX_MS 30000

enum kind { CREATE, EXEC, KINDS };

static const char *const kind_names[KINDS] = {"sandboxes being created", "commands running"};

/* Exists while the tenant uses or waits for something. */
struct tenant {
    char name[65];
    struct atoll_engine *engine;
    uint32_t busy[KINDS];
    size_t waiting[KINDS];
    struct atoll_list queue[KINDS]; /* of struct request.node */
    struct atoll_timer wake;        /* something has become free */
};

/* A request that waits, with its own copy of everything, or a creation under way. */
struct request {
    struct atoll_list node;
    struct tenant *tenant; /* lives on, because of us */
    enum kind kind;
    struct atoll_timer late;
    struct atoll_create create;
    char sandbox_id[ATOLL_ID_LEN + 1];
    struct atoll_exec_start start;
    struct atoll_origin origin;
    void *copies[10]; /* owned: texts */
    char **env, **argv, **artifacts;
    struct atoll_mount *mounts;         /* owned */
    struct atoll_registry_login *login; /* owned */
    atoll_sandbox_fn *created;
    atoll_exec_fn *started;
    void *arg;
};

void atoll_quota_fill(struct atoll_quota *quota)
{
    quota->creates = quota->creates ? quota->creates : 64;
    quota->execs = quota->execs ? quota->execs : 1024;
    quota->queue = quota->queue ? quota->queue : 1024;
}

static uint32_t limit_of(const struct atoll_engine *engine, enum kind kind)
{
    return kind == CREATE ? engine->config.quota.creates : engine->config.quota.execs;
}

/* Tenants. */

static struct tenant *tenant_get(struct atoll_engine *engine, const char *name)
{
    struct tenant *t = atoll_map_get(&engine->tenants, name);

    if (t)
        return t;
    t = calloc(1, sizeof(*t));
    if (!t)
        abort();
    t->engine = engine;
    (void)snprintf(t->name, sizeof(t->name), "%s", name);
    for (size_t k = 0; k < KINDS; k++)
        atoll_list_init(&t->queue[k]);
    if (atoll_map_put(&engine->tenants, t->name, t) < 0)
        abort();
    return t;
}

static void tenant_free(struct tenant *t)
{
    atoll_timer_cancel(&t->wake);
    free(t);
}

static void tenant_release(struct tenant *t)
{
    for (size_t k = 0; k < KINDS; k++)
        if (t->busy[k] > 0 || t->waiting[k] > 0)
            return;
    (void)atoll_map_remove(&t->engine->tenants, t->name);
    tenant_free(t);
}

static void run_queues(void *arg);

/* From the loop: whoever has just ended is in the middle of something. */
static void leave(struct tenant *t, enum kind kind)
{
    t->busy[kind]--;
    if (t->waiting[kind] > 0)
        atoll_timer_set(&t->wake, t->engine->loop, 0, run_queues, t);
    else
        tenant_release(t);
}

static size_t count_sandboxes(struct atoll_engine *engine, const char *owner)
{
    struct atoll_sandbox *s;
    size_t pos = 0, count = 0;

    while ((s = atoll_engine_next(engine, &pos)) != NULL)
        count += strcmp(s->owner, owner) == 0;
    return count;
}

/* Requests. */

static struct request *request_free(struct request *q)
{
    atoll_timer_cancel(&q->late);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(q->copies); i++)
        free(q->copies[i]);
    atoll_strings_free(q->env);
    atoll_strings_free(q->argv);
    atoll_strings_free(q->artifacts);
    free(q->mounts);
    q->login = atoll_login_free(q->login);
    free(q);
    return NULL;
}

static void request_fail(struct request *q, const struct atoll_error *error)
{
    if (q->kind == CREATE)
        q->created(q->arg, NULL, error);
    else
        q->started(q->arg, NULL, error);
}

static void created(void *arg, struct atoll_sandbox *s, const struct atoll_error *error)
{
    struct request *q = arg;

    q->created(q->arg, s, error);
    leave(q->tenant, CREATE);
    (void)request_free(q);
}

/* Starts what it is about; `create` and `start` may be the caller's own. */
static void admit_create(struct request *q, const struct atoll_create *create)
{
    struct atoll_engine *engine = q->tenant->engine;
    uint32_t most = engine->config.quota.sandboxes;
    struct atoll_error err;

    q->tenant->busy[CREATE]++;
    if (most > 0 && count_sandboxes(engine, q->tenant->name) >= most) {
        (void)atoll_fail(&err, ATOLL_ERR_RESOURCE_EXHAUSTED, EAGAIN,
                         "tenant %s has %u sandboxes, the most it may have; destroy some",
                         q->tenant->name, most);
        created(q, NULL, &err);
        return;
    }
    atoll_engine_create_now(engine, create, created, q);
}

/* One that waited. */
static void admit(struct request *q)
{
    struct tenant *t = q->tenant;
    struct atoll_origin before = atoll_origin_enter(&q->origin);

    atoll_list_remove(&q->node);
    atoll_timer_cancel(&q->late);
    t->waiting[q->kind]--;
    if (q->kind == CREATE) {
        admit_create(q, &q->create);
    } else {
        atoll_engine_exec_now(t->engine, q->sandbox_id, &q->start, q->started, q->arg);
        (void)request_free(q);
    }
    (void)atoll_origin_enter(&before);
}

static void run_queues(void *arg)
{
    struct tenant *t = arg;

    t->busy[CREATE]++; /* keeps the tenant while its requests come and go */
    for (enum kind k = CREATE; k < KINDS; k++)
        while (t->waiting[k] > 0 && t->busy[k] - (k == CREATE) < limit_of(t->engine, k))
            admit(ATOLL_CONTAINER_OF(t->queue[k].next, struct request, node));
    t->busy[CREATE]--;
    tenant_release(t);
}

static void too_late(void *arg)
{
    struct request *q = arg;
    struct tenant *t = q->tenant;
    struct atoll_error err;

    (void)atoll_fail(&err, ATOLL_ERR_RESOURCE_EXHAUSTED, EAGAIN,
                     "waited %d s: tenant %s has %u %s, the most it may have", WAIT_MAX_MS / 1000,
                     t->name, t->busy[q->kind], kind_names[q->kind]);
    atoll_list_remove(&q->node);
    t->waiting[q->kind]--;
    request_fail(q, &err);
    (void)request_free(q);
    tenant_release(t);
}

static int enqueue(struct request *q, struct atoll_error *err)
{
    struct tenant *t = q->tenant;

    if (t->waiting[q->kind] >= t->engine->config.quota.queue)
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, EAGAIN,
                          "tenant %s has %u %s and %zu requests waiting, the most it may have",
                          t->name, t->busy[q->kind], kind_names[q->kind], t->waiting[q->kind]);
    atoll_list_push_back(&t->queue[q->kind], &q->node);
    t->waiting[q->kind]++;
    atoll_timer_set(&q->late, t->engine->loop, WAIT_MAX_MS, too_late, q);
    return 0;
}

/* Copies what the caller only lent. */

static const char *keep_text(struct request *q, size_t slot, const char *text)
{
    if (!text)
        return NULL;
    q->copies[slot] = strdup(text);
    if (!q->copies[slot])
        abort();
    return q->copies[slot];
}

static const char *const *keep_strings(char ***slot, const char *const *strings)
{
    if (!strings)
        return NULL;
    *slot = atoll_strings_dup(strings);
    if (!*slot)
        abort();
    return (const char *const *)*slot;
}

static struct request *request_new(struct tenant *t, enum kind kind, void *arg)
{
    struct request *q = calloc(1, sizeof(*q));

    if (!q)
        abort();
    q->tenant = t;
    q->kind = kind;
    q->arg = arg;
    q->origin = *atoll_origin_get();
    return q;
}

static void refuse(struct request *q, const struct atoll_error *error)
{
    struct tenant *t = q->tenant;

    request_fail(q, error);
    (void)request_free(q);
    tenant_release(t);
}

static bool is_free(const struct tenant *t, enum kind kind)
{
    return t->busy[kind] < limit_of(t->engine, kind) && t->waiting[kind] == 0;
}

void atoll_engine_create(struct atoll_engine *engine, const struct atoll_create *create,
                         atoll_sandbox_fn *done, void *arg)
{
    struct tenant *t = tenant_get(engine, create->owner ? create->owner : "default");
    struct request *q = request_new(t, CREATE, arg);
    struct atoll_error err;

    q->created = done;
    if (is_free(t, CREATE)) {
        admit_create(q, create);
        return;
    }
    q->create = *create;
    q->create.template_name = keep_text(q, 0, create->template_name);
    q->create.metadata_json = keep_text(q, 1, create->metadata_json);
    q->create.owner = keep_text(q, 2, create->owner);
    q->create.facade_json = keep_text(q, 3, create->facade_json);
    q->create.session_id = keep_text(q, 4, create->session_id);
    q->create.provider = keep_text(q, 5, create->provider);
    q->create.image = keep_text(q, 6, create->image);
    q->create.isolation = keep_text(q, 7, create->isolation);
    q->create.language = keep_text(q, 8, create->language);
    q->create.interpreter = keep_text(q, 9, create->interpreter);
    q->create.env = keep_strings(&q->env, create->env);
    q->create.artifacts = keep_strings(&q->artifacts, create->artifacts);
    q->create.mounts = q->mounts = atoll_mounts_dup(create->mounts, create->mount_count);
    q->create.login = q->login = atoll_login_dup(create->login);
    if (enqueue(q, &err) < 0)
        refuse(q, &err);
}

void atoll_engine_exec(struct atoll_engine *engine, const char *sandbox_id,
                       const struct atoll_exec_start *start, atoll_exec_fn *done, void *arg)
{
    const struct atoll_sandbox *s = atoll_map_get(&engine->sandboxes, sandbox_id);
    struct tenant *t = s && !s->hidden ? atoll_map_get(&engine->tenants, s->owner) : NULL;
    struct atoll_error err;
    struct request *q;

    if (!t || is_free(t, EXEC)) {
        atoll_engine_exec_now(engine, sandbox_id, start, done, arg);
        return;
    }
    q = request_new(t, EXEC, arg);
    q->started = done;
    (void)snprintf(q->sandbox_id, sizeof(q->sandbox_id), "%s", sandbox_id);
    q->start = *start;
    q->start.user = keep_text(q, 3, start->user);
    q->start.cwd = keep_text(q, 4, start->cwd);
    q->start.env = keep_strings(&q->env, start->env);
    q->start.argv = keep_strings(&q->argv, start->argv);
    if (enqueue(q, &err) < 0)
        refuse(q, &err);
}

/* Commands, from the moment they are known until they have ended. */

void atoll_quota_exec_enter(struct atoll_exec *x)
{
    if (x->counted || x->ended || x->sandbox->hidden)
        return;
    x->counted = true;
    tenant_get(x->sandbox->engine, x->sandbox->owner)->busy[EXEC]++;
}

void atoll_quota_exec_leave(struct atoll_exec *x)
{
    if (!x->counted)
        return;
    x->counted = false;
    leave(atoll_map_get(&x->sandbox->engine->tenants, x->sandbox->owner), EXEC);
}

void atoll_engine_queue(const struct atoll_engine *engine, size_t *ret_creates, size_t *ret_execs)
{
    const struct tenant *t;
    size_t pos = 0;

    *ret_creates = *ret_execs = 0;
    while ((t = atoll_map_next(&engine->tenants, &pos)) != NULL) {
        *ret_creates += t->waiting[CREATE];
        *ret_execs += t->waiting[EXEC];
    }
}

void atoll_quota_done(struct atoll_engine *engine)
{
    struct tenant *t;
    size_t pos = 0;

    while ((t = atoll_map_next(&engine->tenants, &pos)) != NULL) {
        for (size_t k = 0; k < KINDS; k++)
            ATOLL_LIST_FOREACH (&t->queue[k], node)
                (void)request_free(ATOLL_CONTAINER_OF(node, struct request, node));
        tenant_free(t);
    }
    atoll_map_done(&engine->tenants);
}
