#include <errno.h>
#include <string.h>
#include "engine/engine_internal.h"

/*
 * Changes to a living sandbox: its deadline and its metadata.
 */

static int find_changeable(struct atoll_engine *engine, const char *id, struct atoll_sandbox **ret,
                           struct atoll_error *err)
{
    struct atoll_sandbox *s = atoll_engine_find(engine, id);

    if (!s)
        return atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT, "there is no sandbox %.32s", id);
    if (atoll_sandbox_state(s) == ATOLL_SANDBOX_STOPPING)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EAGAIN, "sandbox %s is stopping", id);
    *ret = s;
    return 0;
}

int atoll_engine_set_timeout(struct atoll_engine *engine, const char *id, uint32_t seconds,
                             struct atoll_error *err)
{
    struct atoll_sandbox *s = NULL;
    int r = find_changeable(engine, id, &s, err);

    if (r < 0)
        return r;
    atoll_timer_cancel(&s->deadline);
    s->spec.limits.timeout_s = seconds;
    s->expires_unix_ms = 0;
    if (atoll_sandbox_state(s) ==
        ATOLL_SANDBOX_RUNNING) /* else it is armed when the sandbox runs again */
        atoll_sandbox_arm_deadline(s);
    atoll_persist_sandbox_later(s);
    return 0;
}

static int set_text(struct atoll_sandbox *s, const char **member, const char *text,
                    struct atoll_error *err)
{
    char *copy = strdup(text);

    if (!copy)
        return atoll_fail_errno(err, ENOMEM, "text of a sandbox");
    atoll_options_set_text(member, copy);
    atoll_persist_sandbox_later(s);
    return 0;
}

int atoll_engine_set_metadata(struct atoll_engine *engine, const char *id, const char *json,
                              struct atoll_error *err)
{
    struct atoll_sandbox *s = NULL;
    int r = find_changeable(engine, id, &s, err);

    if (r == 0)
        r = set_text(s, &s->options.metadata_json, json, err);
    if (r == 0)
        s->spec.metadata_json = s->options.metadata_json; /* a create in progress may use it */
    return r;
}

int atoll_engine_set_facade(struct atoll_engine *engine, const char *id, const char *json,
                            struct atoll_error *err)
{
    struct atoll_sandbox *s = NULL;
    int r = find_changeable(engine, id, &s, err);

    return r < 0 ? r : set_text(s, &s->options.facade_json, json, err);
}
