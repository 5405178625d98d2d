#include "guard/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/memory.h"
#include "engine/json_memory.h"
#include "guard/guard_internal.h"
#include "store/tool_calls.h"

/* A tenant with a policy. */
struct entry {
    char tenant[65];
    struct atoll_guard_policy *policy; /* owned */
};

static void entry_free(struct entry *entry)
{
    if (entry)
        (void)atoll_guard_policy_free(entry->policy);
    free(entry);
}

/* Takes the policy. */
static int put_policy(struct atoll_guard *guard, const char *tenant,
                      struct atoll_guard_policy *policy, struct atoll_error *err)
{
    struct entry *entry = atoll_alloc(sizeof(*entry));
    int r;

    (void)snprintf(entry->tenant, sizeof(entry->tenant), "%s", tenant);
    entry->policy = policy;
    entry_free(atoll_map_remove(&guard->policies, tenant));
    r = atoll_map_put(&guard->policies, entry->tenant, entry);
    if (r == 0)
        return 0;
    entry_free(entry);
    return atoll_fail_errno(err, -r, "tool policy");
}

static int load_policy(void *arg, const struct atoll_store_tool_policy *row,
                       struct atoll_error *err)
{
    json_t *json = row->policy ? atoll_json_load_own(row->policy) : NULL;
    struct atoll_guard_policy *policy = NULL;
    int r = json ? atoll_guard_policy_parse(json, &policy, err)
                 : atoll_fail_errno(err, EBADMSG, "a tool policy in the store");

    if (r == 0)
        r = put_policy(arg, row->tenant, policy, err);

    json_decref(json);
    return r < 0 ? atoll_wrap(err, "tool policy of %.64s", row->tenant) : 0;
}

static char *dup_text(const char *text)
{
    char *copy = text && *text ? strdup(text) : NULL;

    if (text && *text && !copy)
        abort(); /* small objects: the daemon is crash-only */
    return copy;
}

int atoll_guard_new(const struct atoll_guard_config *config, struct atoll_guard **ret,
                    struct atoll_error *err)
{
    struct atoll_guard *guard = atoll_alloc(sizeof(*guard));
    int r;

    guard->config = *config;
    guard->config.program = dup_text(config->program);
    guard->config.internal = dup_text(config->internal);
    guard->cancel_fds[0] = guard->cancel_fds[1] = -1;
    atoll_map_init(&guard->policies);
    atoll_list_init(&guard->waiting);
    r = pipe2(guard->cancel_fds, O_CLOEXEC) < 0 ? atoll_fail_errno(err, errno, "pipe of the guard")
                                                : 0;
    if (r == 0 && guard->config.program && config->program_timeout_ms == 0)
        r = atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                       "the tool interceptor needs at least 1 second for its answer");
    if (r == 0 && guard->config.program && access(guard->config.program, X_OK) < 0)
        r = atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, errno,
                       "the tool interceptor %.200s cannot be executed: %s", guard->config.program,
                       strerror(errno));
    if (r == 0)
        r = atoll_store_settle_tool_calls(config->store, &guard->number, err);
    if (r == 0)
        r = atoll_store_each_tool_policy(config->store, load_policy, guard, err);
    if (r < 0) {
        (void)atoll_guard_free(guard);
        return r;
    }
    *ret = guard;
    return 0;
}

struct atoll_guard *atoll_guard_free(struct atoll_guard *guard)
{
    struct entry *entry;
    size_t pos = 0;

    if (!guard)
        return NULL;
    if (guard->cancel_fds[1] >= 0)
        (void)close(guard->cancel_fds[1]); /* the first one becomes readable */
    atoll_guard_hooks_close(guard);
    if (guard->cancel_fds[0] >= 0)
        (void)close(guard->cancel_fds[0]);
    while ((entry = atoll_map_next(&guard->policies, &pos)))
        entry_free(entry);
    atoll_map_done(&guard->policies);
    free((char *)guard->config.program);
    free((char *)guard->config.internal);
    free(guard);
    return NULL;
}

void atoll_guard_drain(struct atoll_guard *guard)
{
    guard->draining = true;
    while (!atoll_list_empty(&guard->waiting))
        atoll_guard_call_answer(
            ATOLL_CONTAINER_OF(guard->waiting.next, struct atoll_guard_call, node), false,
            "the daemon", "it is being stopped");
}

struct atoll_guard_policy *atoll_guard_tenant_policy(const struct atoll_guard *guard,
                                                     const char *tenant)
{
    const struct entry *entry = atoll_map_get(&guard->policies, tenant);

    return entry ? entry->policy : NULL;
}

int atoll_guard_set_tenant_policy(struct atoll_guard *guard, const char *tenant, const json_t *json,
                                  struct atoll_error *err)
{
    struct atoll_guard_policy *policy = NULL;
    char *text;
    int r;

    if (!json) {
        r = atoll_store_drop_tool_policy(guard->config.store, tenant, err);
        if (r == 0)
            entry_free(atoll_map_remove(&guard->policies, tenant));
        return r;
    }
    r = atoll_guard_policy_parse(json, &policy, err);
    if (r < 0)
        return r;
    text = atoll_json_dump(json, JSON_COMPACT);
    r = text ? atoll_store_put_tool_policy(
                   guard->config.store,
                   &(struct atoll_store_tool_policy){.tenant = tenant, .policy = text}, err)
             : atoll_fail_errno(err, ENOMEM, "tool policy");
    if (text)
        explicit_bzero(text, strlen(text)); /* it may have secrets */
    free(text);
    if (r == 0)
        return put_policy(guard, tenant, policy, err);
    (void)atoll_guard_policy_free(policy);
    return r;
}
