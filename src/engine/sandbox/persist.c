#include <errno.h>
#include <string.h>
#include "base/log.h"
#include "engine/engine_internal.h"
#include "engine/json_memory.h"

/*
 * Engine objects as rows of the store. If a row cannot be written, the caller gets the error if it
 * can still fail the request; otherwise the error is logged and the write is retried until it
 * succeeds.
 */
#define AGAIN_MS 1000

static void complain(const char *what, const char *id, const struct atoll_error *err)
{
    atoll_log(ATOLL_LOG_ERROR, "state not stored", "what", what, "id", id, "error", err->text,
              NULL);
}

static void write_again(void *arg);

static void remember(struct atoll_engine *engine)
{
    if (!engine->unsaved.loop)
        atoll_timer_set(&engine->unsaved, engine->loop, AGAIN_MS, write_again, engine);
}

int atoll_persist_sandbox(struct atoll_sandbox *s, struct atoll_error *err)
{
    ATOLL_AUTOFREE char *mounts = atoll_mounts_write(s->options.mounts, s->options.mount_count);
    struct atoll_store_sandbox row = {
        .id = s->spec.id,
        .owner = s->spec.tenant,
        .template_name = s->version->tmpl->name,
        .cause = s->cause,
        .state = atoll_phase_facts(s->phase)->stored,
        .hidden = s->hidden,
        .pooled = s->pooled,
        .outside_id = s->spec.outside_id,
        .boot_us = (uint64_t)(s->boot_ms * 1000),
        .created_unix_ms = s->created_unix_ms,
        .expires_unix_ms = s->expires_unix_ms,
        .paused_unix_ms = s->paused_unix_ms,
        .cpu_spent_us = s->cpu_spent_us,
        .output_spent_bytes = s->output_spent_bytes,
        .history_bytes = s->spec.history_bytes,
        .version = s->version->kind == ATOLL_TEMPLATE_HOST ? "" : s->version->id,
        .layer = s->spec.layer,
        .layers = s->spec.layers ?: "",
        .provider = s->provider->ops->name,
        .handle = s->spec.handle,
        .image = s->spec.image,
        .mounts = mounts,
        .options = s->options,
    };
    bool skip = s->hidden || row.state == ATOLL_NOT_STORED;
    int r;

    row.options.limits = s->spec.limits;
    row.options.waived = s->spec.waived;
    r = skip ? 0 : atoll_store_put_sandbox(s->engine->config.store, &row, err);
    s->unsaved = r < 0;
    s->stored = s->stored || (r == 0 && !skip);
    if (r < 0) {
        complain("sandbox", s->spec.id, err);
        remember(s->engine);
    }
    return r;
}

void atoll_persist_sandbox_later(struct atoll_sandbox *s)
{
    struct atoll_error err;
    (void)!atoll_persist_sandbox(s, &err);
}

/* The member "ended" of what the facade stores about the sandbox; NULL: nothing stays. */
static char *facade_facts(const struct atoll_sandbox *s)
{
    json_t *facts = atoll_json_load_own(s->options.facade_json);
    const json_t *stay = json_object_get(facts, "ended");
    char *text = stay ? atoll_json_dump(stay, JSON_COMPACT) : NULL;

    json_decref(facts);
    return text;
}

int atoll_persist_drop(struct atoll_sandbox *s, bool *ret_more, struct atoll_error *err)
{
    struct atoll_store_end end;
    bool is_kept = s->stored && atoll_ended_describe(s, &end);
    ATOLL_AUTOFREE char *facade = is_kept ? facade_facts(s) : NULL;
    int r = 0;

    if (is_kept)
        end.facade_json = facade;
    if (s->stored)
        r = atoll_store_drop_sandbox(s->engine->config.store, s->spec.id, is_kept ? &end : NULL,
                                     s->life.execs_from_unix_ms, err);
    s->life.recorded = r >= 0 && is_kept;
    if (s->life.recorded)
        atoll_ended_added(s->engine);
    *ret_more = r > 0;
    s->stored = s->stored && r < 0;
    if (r < 0) {
        complain("end of sandbox", s->spec.id, err);
        remember(s->engine);
    }
    return r < 0 ? r : 0;
}

bool atoll_persist_drop_execs(struct atoll_sandbox *s)
{
    struct atoll_error err;
    int r = atoll_store_drop_execs(s->engine->config.store, s->spec.id, s->life.execs_from_unix_ms,
                                   &err);

    if (r < 0) /* the next daemon drops it */
        complain("end of commands", s->spec.id, &err);
    return r > 0;
}

int atoll_persist_exec(struct atoll_engine *engine, struct atoll_exec *x, struct atoll_error *err)
{
    const struct atoll_exec_result *res = &x->result;
    struct atoll_buf argv;
    struct atoll_store_exec row = {
        .sandbox_id = x->sandbox_id,
        .id = x->id,
        .user = x->user,
        .cwd = x->cwd,
        .pty = x->pty,
        .held = x->held,
        .pid = x->pid,
        .started_unix_ms = x->started_unix_ms,
        .kind = x->ended ? (int)res->kind : 0,
        .code = res->code,
        .signal = res->signal,
        .reason = res->reason,
        .oom_process = res->oom_process,
        .user_us = res->user_us,
        .system_us = res->system_us,
        .max_rss_bytes = res->max_rss_bytes,
        .oom_kills = res->oom_kills,
        .oom_pid = res->oom_pid,
        .oom_peak_bytes = res->oom_peak_bytes,
        .oom_limit_bytes = res->oom_limit_bytes,
        .stdout_bytes = res->stdout_bytes,
        .stderr_bytes = res->stderr_bytes,
        .duration_ms = res->duration_ms,
    };
    int r;

    atoll_buf_init(&argv, ATOLL_FRAME_PAYLOAD_MAX);
    r = atoll_strings_join(&argv, (const char *const *)x->argv);
    if (r < 0)
        r = atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, -r,
                       r == -ENOMEM ? "no memory for the command line"
                                    : "the command line is too long");
    row.argv = atoll_buf_head(&argv);
    row.argv_len = atoll_buf_size(&argv);
    row.argv_left_out = x->argv_left_out;
    if (r == 0)
        r = atoll_store_put_exec(engine->config.store, &row, err);
    if (r < 0)
        complain("command", x->id, err);
    atoll_buf_done(&argv);
    x->unsaved = r < 0 && x->ended; /* a start that cannot be stored fails instead */
    if (x->unsaved)
        remember(engine);
    return r;
}

/* Writes the record again; on success the agent may drop its own. */
static void write_exec_again(struct atoll_exec *x)
{
    struct atoll_am_exec_ref ref = {x->number};
    struct atoll_error err;

    if (atoll_persist_exec(x->sandbox->engine, x, &err) == 0 && x->sandbox->agent)
        (void)!atoll_rpc_tell(x->sandbox->agent, ATOLL_AGENT_EXEC_FORGET, &atoll_am_exec_ref_desc,
                              &ref);
}

/* Retries the drop of one row, which may change the map. False: there is none, or the drop failed
 * again. */
static bool drop_again(struct atoll_engine *engine)
{
    struct atoll_sandbox *s = NULL;
    char id[ATOLL_ID_LEN + 1];
    size_t pos = 0;

    while ((s = atoll_map_next(&engine->sandboxes, &pos)) != NULL &&
           s->phase != ATOLL_PHASE_UNDROPPED)
        ;
    if (!s)
        return false;
    memcpy(id, s->spec.id, sizeof(id));
    atoll_sandbox_depart(s);
    s = atoll_map_get(&engine->sandboxes, id);
    return !s || s->phase != ATOLL_PHASE_UNDROPPED;
}

static void write_again(void *arg)
{
    struct atoll_engine *engine = arg;
    struct atoll_sandbox *s;
    size_t pos = 0;

    while (drop_again(engine))
        ;
    while ((s = atoll_map_next(&engine->sandboxes, &pos)) != NULL) {
        if (s->unsaved)
            atoll_persist_sandbox_later(s);
        ATOLL_LIST_FOREACH (&s->exec_list, node) {
            struct atoll_exec *x = ATOLL_CONTAINER_OF(node, struct atoll_exec, node);
            if (x->unsaved)
                write_exec_again(x);
        }
    }
}

void atoll_persist_drop_exec(struct atoll_engine *engine, const struct atoll_exec *x)
{
    struct atoll_error err;

    if (atoll_store_drop_exec(engine->config.store, x->sandbox_id, x->id, &err) < 0)
        complain("end of command", x->id, &err);
}
