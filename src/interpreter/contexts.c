/*
 * The list of contexts. A context ends with its sandbox. This module learns of that from the
 * engine's events, and checks again at every lookup.
 */
#include "interpreter/contexts.h"

#include <errno.h>
#include <string.h>
#include "base/clock.h"
#include "base/text.h"
#include "interpreter/contexts_internal.h"

#define WHO_REMOVES "the daemon, because its context was removed"
#define WHO_RESTARTS "the daemon, because its context was restarted"

void *atoll_context_alloc(size_t n)
{
    void *p = calloc(1, n);

    if (!p)
        abort(); /* small fixed objects: the daemon is crash-only */
    return p;
}

void atoll_context_ignore(void *arg, const struct atoll_error *error)
{
    (void)arg;
    (void)error;
}

void atoll_context_view(const struct atoll_context *c, struct atoll_context_view *ret)
{
    *ret = (struct atoll_context_view){
        .id = c->id,
        .sandbox_id = c->sandbox_id,
        .language = c->language->name,
        .cwd = c->cwd,
        .user = c->user,
        .exec_id = c->exec_id,
        .is_default = c->is_default,
    };
}

/* Adding and removing. */

void atoll_context_unref(struct atoll_context *c)
{
    if (--c->refs == 0)
        free(c);
}

/* Finds or makes the entry of a sandbox; NULL: no memory. */
static struct atoll_context_box *need_box(struct atoll_contexts *contexts, const char *sandbox_id)
{
    struct atoll_context_box *box = atoll_map_get(&contexts->boxes, sandbox_id);

    if (box)
        return box;
    box = atoll_context_alloc(sizeof(*box));
    atoll_list_init(&box->contexts);
    (void)!atoll_text_copy(box->sandbox_id, sizeof(box->sandbox_id), sandbox_id);
    if (atoll_map_put(&contexts->boxes, box->sandbox_id, box) < 0) {
        free(box);
        return NULL;
    }
    return box;
}

struct atoll_context *atoll_context_new(struct atoll_contexts *contexts, const char *sandbox_id,
                                        const struct atoll_language *language)
{
    const struct atoll_sandbox *sandbox = atoll_engine_find(contexts->config.engine, sandbox_id);
    struct atoll_context_box *box = need_box(contexts, sandbox_id);
    struct atoll_sandbox_view view = {.owner = ""};
    struct atoll_context *c;

    if (!box)
        return NULL;
    c = atoll_context_alloc(sizeof(*c));
    c->refs = 1;
    c->contexts = contexts;
    c->language = language;
    (void)!atoll_text_copy(c->sandbox_id, sizeof(c->sandbox_id), sandbox_id);
    if (sandbox)
        atoll_sandbox_get(sandbox, &view);
    (void)!atoll_text_copy(c->owner, sizeof(c->owner), view.owner);
    atoll_rand_id(c->id, ATOLL_ID_LEN);
    c->number = ++contexts->last_number;
    atoll_list_init(&c->queue);
    atoll_list_init(&c->waiters);
    atoll_list_push_back(&box->contexts, &c->node);
    box->count++;
    return c;
}

void atoll_context_take_out(struct atoll_context *c)
{
    struct atoll_contexts *contexts = c->contexts;
    struct atoll_context_box *box = atoll_map_get(&contexts->boxes, c->sandbox_id);

    c->is_gone = true;
    atoll_context_drop_row(contexts, c->id);
    atoll_list_remove(&c->node);
    if (--box->count == 0) {
        (void)atoll_map_remove(&contexts->boxes, box->sandbox_id);
        free(box);
    }
}

void atoll_contexts_drop_box(struct atoll_contexts *contexts, const char *sandbox_id)
{
    char id[ATOLL_ID_LEN + 1]; /* a copy: the caller's string may be freed with the box */
    struct atoll_context_box *box;
    struct atoll_error error;

    (void)!atoll_text_copy(id, sizeof(id), sandbox_id);
    (void)atoll_fail(&error, ATOLL_ERR_UNAVAILABLE, ESHUTDOWN, "sandbox %s has ended", id);
    while ((box = atoll_map_get(&contexts->boxes, id))) {
        struct atoll_context *c =
            ATOLL_CONTAINER_OF(box->contexts.next, struct atoll_context, node);
        atoll_context_take_out(c);
        atoll_driver_detach(c);
        atoll_context_start_failed(c, &error);
        atoll_context_unref(c);
    }
}

static void happened(void *arg, const struct atoll_event *event)
{
    if (strcmp(event->kind, "sandbox.destroyed") == 0)
        atoll_contexts_drop_box(arg, event->sandbox_id);
}

int atoll_contexts_new(const struct atoll_contexts_config *config, struct atoll_contexts **ret,
                       struct atoll_error *err)
{
    struct atoll_contexts *contexts = atoll_context_alloc(sizeof(*contexts));
    int r;

    contexts->config = *config;
    atoll_map_init(&contexts->boxes);
    atoll_shares_init(&contexts->lines, ATOLL_LINES_SHARED_MAX);
    atoll_shares_init(&contexts->pending, ATOLL_CONTEXTS_PENDING_MAX);
    /* Greater than the ids of all earlier daemons, and small enough for a double. */
    contexts->last_request = (uint64_t)atoll_clock_unix_ms() * 1000;
    r = atoll_languages_load(contexts, config->drivers_dir, err);
    if (r == 0)
        r = atoll_contexts_load(contexts, err);
    if (r < 0) {
        (void)atoll_contexts_free(contexts);
        return r;
    }
    atoll_contexts_serve_pool(contexts);
    contexts->subscription = atoll_events_subscribe(config->engine, UINT64_MAX, happened, contexts);
    *ret = contexts;
    return 0;
}

static void context_free(struct atoll_context *c)
{
    atoll_timer_cancel(&c->limit);
    atoll_timer_cancel(&c->interrupt_grace);
    atoll_driver_detach(c);
    if (c->current)
        atoll_execution_free(c->current);
    ATOLL_LIST_FOREACH (&c->queue, node)
        atoll_execution_free(ATOLL_CONTAINER_OF(node, struct atoll_execution, node));
    ATOLL_LIST_FOREACH (&c->waiters, node)
        free(ATOLL_CONTAINER_OF(node, struct atoll_context_waiter, node));
    atoll_context_unref(c);
}

struct atoll_contexts *atoll_contexts_free(struct atoll_contexts *contexts)
{
    struct atoll_context_box *box;
    size_t pos = 0;

    if (!contexts)
        return NULL;
    (void)atoll_events_unsubscribe(contexts->subscription);
    atoll_engine_set_interpreters(contexts->config.engine, &(struct atoll_interpreters){0});
    while ((box = atoll_map_next(&contexts->boxes, &pos))) {
        ATOLL_LIST_FOREACH (&box->contexts, node)
            context_free(ATOLL_CONTAINER_OF(node, struct atoll_context, node));
        free(box);
    }
    atoll_map_done(&contexts->boxes);
    atoll_shares_done(&contexts->lines);
    atoll_shares_done(&contexts->pending);
    atoll_languages_free(contexts);
    free(contexts);
    return NULL;
}

/* Lookup. */

/* NULL also when the sandbox is gone. */
static struct atoll_context_box *find_box(struct atoll_contexts *contexts, const char *sandbox_id)
{
    struct atoll_context_box *box = atoll_map_get(&contexts->boxes, sandbox_id);

    if (!box || atoll_engine_peek(contexts->config.engine, sandbox_id))
        return box;
    atoll_contexts_drop_box(contexts, sandbox_id);
    return NULL;
}

static struct atoll_context *find(struct atoll_contexts *contexts, const char *sandbox_id,
                                  const char *id)
{
    struct atoll_context_box *box = find_box(contexts, sandbox_id);

    if (!box)
        return NULL;
    ATOLL_LIST_FOREACH (&box->contexts, node) {
        struct atoll_context *c = ATOLL_CONTAINER_OF(node, struct atoll_context, node);
        if (!c->is_starting && strcmp(c->id, id) == 0)
            return c;
    }
    return NULL;
}

static int need(struct atoll_contexts *contexts, const char *sandbox_id, const char *id,
                struct atoll_context **ret, struct atoll_error *err)
{
    *ret = find(contexts, sandbox_id, id);
    return *ret ? 0
                : atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT, "context %.64s does not exist", id);
}

bool atoll_contexts_find(struct atoll_contexts *contexts, const char *sandbox_id, const char *id,
                         struct atoll_context_view *ret)
{
    struct atoll_context *c = find(contexts, sandbox_id, id);

    if (c)
        atoll_context_view(c, ret);
    return c != NULL;
}

bool atoll_contexts_next(struct atoll_contexts *contexts, const char *sandbox_id, size_t *pos,
                         struct atoll_context_view *ret)
{
    struct atoll_context_box *box = find_box(contexts, sandbox_id);
    size_t at = 0;

    if (!box)
        return false;
    ATOLL_LIST_FOREACH (&box->contexts, node) {
        struct atoll_context *c = ATOLL_CONTAINER_OF(node, struct atoll_context, node);
        if (at++ < *pos)
            continue;
        ++*pos;
        if (c->is_starting)
            continue;
        atoll_context_view(c, ret);
        return true;
    }
    return false;
}

bool atoll_contexts_speaks(const struct atoll_contexts *contexts, const char *language,
                           const char *program)
{
    const struct atoll_language *found;
    struct atoll_error ignored;

    if (atoll_language_find(contexts, language, &found, &ignored) < 0)
        return false;
    for (size_t i = 0; found->requires[i]; i++)
        if (strcmp(found->requires[i], program) == 0)
            return true;
    return false;
}

const uint8_t *atoll_contexts_driver(const struct atoll_contexts *contexts, const char *language,
                                     size_t *ret_len)
{
    const struct atoll_language *found;
    struct atoll_error ignored;

    if (!contexts || atoll_language_find(contexts, language, &found, &ignored) < 0)
        return NULL;
    *ret_len = found->driver_len;
    return found->driver;
}

/* Create, restart, remove. */

static int make(struct atoll_contexts *contexts, const struct atoll_context_create *create,
                const struct atoll_language *language, struct atoll_context **ret,
                struct atoll_error *err)
{
    struct atoll_context_box *box = find_box(contexts, create->sandbox_id);
    struct atoll_context *c;

    if (!atoll_engine_peek(contexts->config.engine, create->sandbox_id))
        return atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT, "sandbox %.32s does not exist",
                          create->sandbox_id);
    if (box && box->count >= ATOLL_CONTEXTS_PER_SANDBOX)
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, EBUSY,
                          "a sandbox has at most %d contexts; remove one first",
                          ATOLL_CONTEXTS_PER_SANDBOX);
    if ((create->cwd && strlen(create->cwd) >= sizeof(c->cwd)) ||
        (create->user && strlen(create->user) >= sizeof(c->user)))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, ENAMETOOLONG,
                          "cwd has at most 1024 bytes, user 64");
    c = atoll_context_new(contexts, create->sandbox_id, language);
    if (!c)
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, ENOMEM,
                          "out of memory for another context");
    (void)!atoll_text_copy(c->cwd, sizeof(c->cwd), create->cwd ? create->cwd : "");
    (void)!atoll_text_copy(c->user, sizeof(c->user), create->user ? create->user : "");
    *ret = c;
    return 0;
}

static void wait_for(struct atoll_context *c, atoll_context_fn *made, atoll_done_fn *done,
                     void *arg)
{
    struct atoll_context_waiter *w = atoll_context_alloc(sizeof(*w));

    *w = (struct atoll_context_waiter){.made = made, .done = done, .arg = arg};
    atoll_list_push_back(&c->waiters, &w->node);
}

/* A create request that waits for the driver. If the driver cannot be started, the context is
 * removed. */
struct creating {
    struct atoll_context *context; /* referenced */
    atoll_context_fn *done;
    void *arg;
};

static void created(void *arg, const struct atoll_context_view *view,
                    const struct atoll_error *error)
{
    struct creating *k = arg;
    struct atoll_context *c = k->context;
    bool known = !c->is_gone;

    if (error && known)
        atoll_context_take_out(c);
    k->done(k->arg, view, error);
    if (error && known)
        c->refs--; /* the reference of the list of contexts */
    atoll_context_unref(c);
    free(k);
}

static void start(struct atoll_context *c, atoll_context_fn *done, void *arg)
{
    struct creating *k = atoll_context_alloc(sizeof(*k));

    *k = (struct creating){c, done, arg};
    c->refs++;
    c->is_starting = true;
    wait_for(c, created, NULL, k);
    atoll_driver_start(c);
}

void atoll_contexts_create(struct atoll_contexts *contexts,
                           const struct atoll_context_create *create, atoll_context_fn *done,
                           void *arg)
{
    const struct atoll_language *language;
    struct atoll_context *c;
    struct atoll_error error;

    if (atoll_language_find(contexts, create->language, &language, &error) < 0 ||
        make(contexts, create, language, &c, &error) < 0) {
        done(arg, NULL, &error);
        return;
    }
    start(c, done, arg);
}

void atoll_context_prepare(struct atoll_contexts *contexts, const char *sandbox_id,
                           const struct atoll_language *language, atoll_context_fn *done, void *arg)
{
    const struct atoll_context_create create = {.sandbox_id = sandbox_id};
    struct atoll_context *c;
    struct atoll_error error;

    if (make(contexts, &create, language, &c, &error) < 0) {
        done(arg, NULL, &error);
        return;
    }
    c->is_default = c->is_pooled = true;
    start(c, done, arg);
}

int atoll_contexts_default(struct atoll_contexts *contexts,
                           const struct atoll_context_create *create,
                           struct atoll_context_view *ret, struct atoll_error *err)
{
    struct atoll_context_box *box = find_box(contexts, create->sandbox_id);
    const struct atoll_language *language;
    struct atoll_context *c;
    int r = atoll_language_find(contexts, create->language, &language, err);

    if (r < 0)
        return r;
    if (box)
        ATOLL_LIST_FOREACH (&box->contexts, node) {
            c = ATOLL_CONTAINER_OF(node, struct atoll_context, node);
            if (c->is_default && c->language == language) {
                atoll_context_view(c, ret);
                return 0;
            }
        }
    r = make(contexts, create, language, &c, err);
    if (r < 0)
        return r;
    c->is_default = true;
    atoll_context_save(c, false);
    atoll_context_view(c, ret);
    return 0;
}

void atoll_contexts_restart(struct atoll_contexts *contexts, const char *sandbox_id, const char *id,
                            atoll_done_fn *done, void *arg)
{
    struct atoll_context *c;
    struct atoll_error error;

    if (need(contexts, sandbox_id, id, &c, &error) < 0) {
        done(arg, &error);
        return;
    }
    c->refs++;
    atoll_driver_discard(c, WHO_RESTARTS, NULL, NULL);
    c->exec_id[0] = c->lost[0] = '\0';
    atoll_context_save(c, false);
    atoll_context_abort(c, "ContextRestarting",
                        "the context was restarted, its variables are gone");
    wait_for(c, NULL, done, arg);
    if (!c->driver) /* a callback may have requested an execution, which starts a driver */
        atoll_driver_start(c);
    atoll_context_unref(c);
}

void atoll_contexts_destroy(struct atoll_contexts *contexts, const char *sandbox_id, const char *id,
                            atoll_done_fn *done, void *arg)
{
    struct atoll_context *c;
    struct atoll_error error;

    if (need(contexts, sandbox_id, id, &c, &error) < 0) {
        done(arg, &error);
        return;
    }
    atoll_context_take_out(c);
    atoll_context_abort(c, "ExecutionAborted", "the context was removed");
    atoll_driver_discard(c, WHO_REMOVES, done, arg);
    atoll_context_unref(c);
}

struct atoll_execution *atoll_contexts_execute(struct atoll_contexts *contexts,
                                               const char *sandbox_id, const char *context_id,
                                               const struct atoll_context_run *run,
                                               const struct atoll_context_events *events, void *arg)
{
    struct atoll_execution *e = NULL;
    struct atoll_context *c;
    struct atoll_error error;

    if (need(contexts, sandbox_id, context_id, &c, &error) == 0) {
        c->refs++;
        e = atoll_context_execute(c, run, events, arg, &error);
        atoll_context_unref(c);
    }
    if (!e && error.kind != ATOLL_ERR_NONE)
        events->ended(arg, &error);
    return e;
}
