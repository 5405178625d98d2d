#include <errno.h>
#include <string.h>
#include "engine/engine_internal.h"

/*
 * Changes to a living sandbox: its deadline, its metadata and its environment.
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

/* The old policy is kept if the new one cannot be stored. */
int atoll_engine_set_tool_policy(struct atoll_engine *engine, const char *id, const char *json,
                                 struct atoll_error *err)
{
    struct atoll_sandbox *s = NULL;
    int r = find_changeable(engine, id, &s, err);
    const char *was;
    char *copy;

    if (r < 0)
        return r;
    copy = json ? strdup(json) : NULL;
    if (json && !copy)
        return atoll_fail_errno(err, ENOMEM, "tool policy");
    was = s->options.tool_policy_json;
    s->options.tool_policy_json = copy;
    r = atoll_persist_sandbox(s, err);
    if (r < 0) {
        atoll_options_set_text(&s->options.tool_policy_json, NULL);
        s->options.tool_policy_json = was;
        return r;
    }
    atoll_options_set_text(&was, NULL);
    return 0;
}

/* Environment. */

static bool has_name(const char *variable, const char *name, size_t n)
{
    return strncmp(variable, name, n) == 0 && variable[n] == '=';
}

static bool is_changed(const char *variable, const char *const *set, const char *const *unset)
{
    for (; set && *set; set++)
        if (has_name(variable, *set, strcspn(*set, "=")))
            return true;
    for (; unset && *unset; unset++)
        if (has_name(variable, *unset, strlen(*unset)))
            return true;
    return false;
}

static int append_string(struct atoll_buf *out, const char *text)
{
    return atoll_buf_append(out, text, strlen(text) + 1);
}

/* The new environment, malloced. */
static char **merge_env(const struct atoll_sandbox *s, const char *const *set,
                        const char *const *unset, struct atoll_error *err)
{
    const char *const *old = s->options.env;
    char **merged = NULL;
    struct atoll_buf all;
    int r = 0;

    atoll_buf_init_erasing(&all, ATOLL_AGENT_DATA_MAX);
    for (; r == 0 && old && *old; old++)
        if (!is_changed(*old, set, unset))
            r = append_string(&all, *old);
    for (; r == 0 && set && *set; set++)
        r = append_string(&all, *set);
    if (r == 0)
        merged = atoll_strings_split(atoll_buf_head(&all), atoll_buf_size(&all));
    if (!merged)
        (void)atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, r < 0 ? -r : ENOMEM,
                         "the environment is larger than %d KiB", ATOLL_AGENT_DATA_MAX / 1024);
    atoll_buf_done(&all);
    return merged;
}

int atoll_engine_change_env(struct atoll_engine *engine, const char *id, const char *const *set,
                            const char *const *unset, struct atoll_error *err)
{
    struct atoll_sandbox *s = NULL;
    char **merged;
    int r = find_changeable(engine, id, &s, err);

    if (r == 0 && !s->options.env)
        r = atoll_env_load(s, err);
    if (r < 0)
        return r;
    merged = merge_env(s, set, unset, err);
    if (!merged)
        return -E2BIG;
    atoll_options_set_strings(&s->options.env, merged);
    s->spec.env = s->options.env;
    s->options.env_is_common = false;
    atoll_sandbox_tell_env(s);
    return atoll_env_replace(s, err);
}
