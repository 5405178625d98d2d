#include <errno.h>
#include "base/clock.h"
#include "engine/engine_internal.h"

/*
 * Finding sandboxes by id, and what the facades see of one.
 */

struct atoll_sandbox *atoll_engine_find(struct atoll_engine *engine, const char *id)
{
    struct atoll_sandbox *s = atoll_map_get(&engine->sandboxes, id);
    return s && !s->hidden ? s : NULL;
}

struct atoll_sandbox *atoll_engine_peek(struct atoll_engine *engine, const char *id)
{
    return atoll_map_get(&engine->sandboxes, id);
}

struct atoll_sandbox *atoll_engine_next(struct atoll_engine *engine, size_t *pos)
{
    struct atoll_sandbox *s;

    while ((s = atoll_map_next(&engine->sandboxes, pos)) != NULL && s->hidden)
        ;
    return s;
}

int atoll_engine_look(struct atoll_engine *engine, const char *id, struct atoll_sandbox **ret,
                      struct atoll_error *err)
{
    struct atoll_sandbox *s = atoll_map_get(&engine->sandboxes, id);
    enum atoll_sandbox_state state;

    if (!s)
        return atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT, "there is no sandbox %.32s", id);
    state = atoll_sandbox_state(s);
    if (state == ATOLL_SANDBOX_FAILED)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, ESRCH, "sandbox %s has failed: %s",
                          id, s->cause);
    if (state == ATOLL_SANDBOX_UNREACHABLE)
        return atoll_provider_entry_refuse_unreachable(s, err);
    if (state == ATOLL_SANDBOX_PAUSED || state == ATOLL_SANDBOX_STOPPED)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EAGAIN,
                          "sandbox %s is %s; resume it first", id, atoll_sandbox_state_name(state));
    if (s->phase != ATOLL_PHASE_RUNNING)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EAGAIN, "sandbox %s is %s", id,
                          s->phase == ATOLL_PHASE_PAUSING ? "being paused"
                                                          : atoll_sandbox_state_name(state));
    *ret = s;
    return 0;
}

int atoll_engine_running(struct atoll_engine *engine, const char *id, struct atoll_sandbox **ret,
                         struct atoll_error *err)
{
    int r = atoll_engine_look(engine, id, ret, err);

    if (r == 0)
        (*ret)->life.used_ms = atoll_clock_ms();
    return r;
}

void atoll_engine_destroy(struct atoll_engine *engine, const char *id, const char *who,
                          atoll_done_fn *done, void *arg)
{
    struct atoll_sandbox *s = atoll_engine_find(engine, id);
    struct atoll_error err;

    if (s) {
        atoll_sandbox_destroy(s, who, done, arg);
        return;
    }
    (void)atoll_fail(&err, ATOLL_ERR_NOT_FOUND, ENOENT, "there is no sandbox %.32s", id);
    done(arg, &err);
}

void atoll_sandbox_get(const struct atoll_sandbox *s, struct atoll_sandbox_view *ret)
{
    const struct atoll_provider_caps *caps = s->provider->ops->caps(s->provider);
    bool own_template = caps->own_templates && *s->spec.image;

    *ret = (struct atoll_sandbox_view){
        .id = s->spec.id,
        .template_name = own_template ? s->spec.image : s->version->tmpl->name,
        .handle = s->spec.handle,
        .provider = s->provider->ops->name,
        .isolation = caps->isolation,
        .image = own_template ? "" : s->spec.image,
        .own_image = s->version->kind == ATOLL_TEMPLATE_IMAGE,
        .options = s->options,
        .cpu_spent_s = atoll_lifetime_cpu_us(s) / 1000000,
        .output_spent_bytes = s->life.output_bytes,
        .history_bytes = s->spec.history_bytes,
        .owner = s->spec.tenant,
        .state = atoll_sandbox_state(s),
        .snapshotting = s->snapping,
        .cause = s->cause,
        .warning = s->spec.warning,
        .silent_ms = atoll_sandbox_expects(s) ? atoll_rpc_silent_ms(s->agent) : 0,
        .created_unix_ms = s->created_unix_ms,
        .paused_unix_ms = s->paused_unix_ms,
        .memory_before = s->phase == ATOLL_PHASE_PAUSED ? s->memory_before : 0,
        .memory_after = s->phase == ATOLL_PHASE_PAUSED ? s->memory_after : 0,
        .expires_unix_ms = s->expires_unix_ms,
        .boot_ms = s->boot_ms,
        .pooled = s->pooled,
    };
    ret->options.limits = s->spec.limits;
    ret->options.waived = s->spec.waived;
}
