/*
 * Interpreters that are started in pooled sandboxes. Such a context is complete except for its row
 * in the store, which is written when the sandbox is handed to a tenant.
 */
#include "base/text.h"
#include "interpreter/contexts_internal.h"

struct preparing {
    atoll_done_fn *done;
    void *arg;
};

static void prepared(void *arg, const struct atoll_context_view *view,
                     const struct atoll_error *error)
{
    struct preparing p = *(struct preparing *)arg;

    (void)view;
    free(arg);
    p.done(p.arg, error);
}

static void prepare(void *arg, const char *sandbox_id, const char *language, atoll_done_fn *done,
                    void *done_arg)
{
    struct atoll_contexts *contexts = arg;
    const struct atoll_language *found;
    struct atoll_error error;
    struct preparing *p;

    if (atoll_language_find(contexts, language, &found, &error) < 0) {
        done(done_arg, &error);
        return;
    }
    p = atoll_context_alloc(sizeof(*p));
    *p = (struct preparing){done, done_arg};
    atoll_context_prepare(contexts, sandbox_id, found, prepared, p);
}

static void handed_over(void *arg, const char *sandbox_id)
{
    struct atoll_contexts *contexts = arg;
    struct atoll_context_box *box = atoll_map_get(&contexts->boxes, sandbox_id);
    struct atoll_sandbox_view view;

    if (!box)
        return;
    atoll_sandbox_get(atoll_engine_find(contexts->config.engine, sandbox_id), &view);
    ATOLL_LIST_FOREACH (&box->contexts, node) {
        struct atoll_context *c = ATOLL_CONTAINER_OF(node, struct atoll_context, node);
        (void)!atoll_text_copy(c->owner, sizeof(c->owner), view.owner);
        if (c->driver)
            atoll_lines_set_owner(&c->driver->lines, c->owner);
        c->is_pooled = false;
        atoll_context_save(c, false);
    }
}

void atoll_contexts_serve_pool(struct atoll_contexts *contexts)
{
    const struct atoll_interpreters interpreters = {prepare, handed_over, contexts};

    atoll_engine_set_interpreters(contexts->config.engine, &interpreters);
}
