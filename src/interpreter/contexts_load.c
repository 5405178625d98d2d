/*
 * Contexts in the store, and their recovery after a restart: an interpreter that still runs is
 * adopted with its variables; one that was being started is killed.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include "base/log.h"
#include "base/text.h"
#include "interpreter/contexts_internal.h"
#include "store/contexts.h"

void atoll_context_save(const struct atoll_context *c, bool is_busy)
{
    struct atoll_store *store = c->contexts->config.store;
    const struct atoll_store_context row = {
        .id = c->id,
        .sandbox_id = c->sandbox_id,
        .language = c->language->name,
        .cwd = c->cwd,
        .user = c->user,
        .exec_id = c->exec_id,
        .is_default = c->is_default,
        .is_busy = is_busy,
        .number = c->number,
    };
    struct atoll_error error;

    if (store && !c->is_gone && !c->is_starting && !c->is_pooled &&
        atoll_store_put_context(store, &row, &error) < 0)
        atoll_log(ATOLL_LOG_ERROR, "context not stored", "context", c->id, "error", error.text,
                  NULL);
}

void atoll_context_drop_row(struct atoll_contexts *contexts, const char *id)
{
    struct atoll_error error;

    if (contexts->config.store && atoll_store_drop_context(contexts->config.store, id, &error) < 0)
        atoll_log(ATOLL_LOG_ERROR, "context not dropped from the store", "context", id, "error",
                  error.text, NULL);
}

static int load_row(void *arg, const struct atoll_store_context *row, struct atoll_error *err)
{
    struct atoll_contexts *contexts = arg;
    const struct atoll_language *language;
    struct atoll_error ignored;
    struct atoll_context *c;

    /* Skips contexts of languages without a driver. Their rows are dropped with the sandbox. */
    if (!atoll_text_is_id(row->sandbox_id) || strlen(row->sandbox_id) > ATOLL_ID_LEN ||
        atoll_language_find(contexts, row->language, &language, &ignored) < 0)
        return 0;
    contexts->last_number = ATOLL_MAX(contexts->last_number, row->number);
    c = atoll_context_new(contexts, row->sandbox_id, language);
    if (!c)
        return atoll_fail_errno(err, ENOMEM, "contexts");
    c->number = row->number;
    c->is_default = row->is_default;
    c->was_busy = row->is_busy;
    if (atoll_text_copy(c->id, sizeof(c->id), row->id) < 0 ||
        atoll_text_copy(c->cwd, sizeof(c->cwd), row->cwd) < 0 ||
        atoll_text_copy(c->user, sizeof(c->user), row->user) < 0 ||
        atoll_text_copy(c->exec_id, sizeof(c->exec_id), row->exec_id) < 0)
        return atoll_fail_errno(err, EBADMSG, "a context in the store");
    return 0;
}

/* Adopts its interpreter, if that still runs. */
static void adopt_interpreter(struct atoll_context *c, struct atoll_sandbox *sandbox)
{
    struct atoll_exec *exec = atoll_sandbox_find_exec(sandbox, c->exec_id);
    struct atoll_exec_view view = {0};
    struct atoll_error error;

    if (!c->exec_id[0])
        return;
    if (exec)
        atoll_exec_get(exec, &view);
    if (!exec || view.result || atoll_driver_adopt(c, exec, &error) < 0) {
        (void)!atoll_text_copy(c->lost, sizeof(c->lost),
                               view.result ? atoll_end_kind_name(view.result->kind) : "lost");
        c->exec_id[0] = '\0';
        atoll_context_save(c, false);
        return;
    }
    atoll_driver_set_resting(c->driver, true);
    if (c->was_busy)
        atoll_context_settle(c);
}

/* Kills interpreters that were being started when a daemon died: they belong to no context. */
static void kill_orphans(struct atoll_contexts *contexts, struct atoll_sandbox *sandbox)
{
    struct atoll_sandbox_view box;
    struct atoll_context_box *known;
    struct atoll_exec *exec;
    size_t pos = 0;

    atoll_sandbox_get(sandbox, &box);
    known = atoll_map_get(&contexts->boxes, box.id);
    while ((exec = atoll_sandbox_next_exec(sandbox, &pos))) {
        struct atoll_exec_view view;
        bool wanted = false;
        atoll_exec_get(exec, &view);
        if (known)
            ATOLL_LIST_FOREACH (&known->contexts, node)
                wanted |= strcmp(ATOLL_CONTAINER_OF(node, struct atoll_context, node)->exec_id,
                                 view.id) == 0;
        if (view.held && !view.result && !wanted)
            atoll_exec_signal(exec, SIGKILL, true, "the daemon, because it belongs to no context",
                              atoll_context_ignore, NULL);
    }
}

int atoll_contexts_load(struct atoll_contexts *contexts, struct atoll_error *err)
{
    struct atoll_engine *engine = contexts->config.engine;
    struct atoll_context_box *box;
    struct atoll_sandbox *sandbox;
    size_t pos = 0;
    int r = contexts->config.store
                ? atoll_store_each_context(contexts->config.store, load_row, contexts, err)
                : 0;

    if (r < 0)
        return r;
    while ((sandbox = atoll_engine_next(engine, &pos)))
        kill_orphans(contexts, sandbox);
    for (pos = 0; (box = atoll_map_next(&contexts->boxes, &pos));) {
        sandbox = atoll_engine_find(engine, box->sandbox_id);
        if (!sandbox) {
            atoll_contexts_drop_box(contexts, box->sandbox_id);
            continue;
        }
        ATOLL_LIST_FOREACH (&box->contexts, node)
            adopt_interpreter(ATOLL_CONTAINER_OF(node, struct atoll_context, node), sandbox);
    }
    return 0;
}
