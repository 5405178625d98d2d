#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "engine/engine_internal.h"
#include "engine/network/network.h"

/*
 * What facades ask of networks: changes of the policy of a living sandbox, stored first and then applied.
 */

static int find(struct atoll_engine *engine, const char *id, struct atoll_sandbox **ret,
                struct atoll_error *err)
{
    struct atoll_sandbox *s = atoll_engine_find(engine, id);

    if (!s)
        return atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT, "there is no sandbox %.32s", id);
    if (atoll_sandbox_state(s) == ATOLL_SANDBOX_STOPPING ||
        atoll_sandbox_state(s) == ATOLL_SANDBOX_FAILED)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EAGAIN, "sandbox %s is %s", id,
                          atoll_sandbox_state_name(atoll_sandbox_state(s)));
    if (s->spec.network == ATOLL_NETWORK_NONE)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, ENETDOWN,
                          "sandbox %s was created without a network: create one with the network "
                          "mode bridge or isolated",
                          id);
    if (!atoll_network_serves(s))
        return atoll_fail(err, ATOLL_ERR_UNIMPLEMENTED, EOPNOTSUPP,
                          s->provider->ops->caps(s->provider)->policies
                              ? "provider %s cannot change the network policy of a sandbox: create "
                                "another one"
                              : "provider %s cannot enforce a network policy",
                          s->provider->ops->name);
    *ret = s;
    return 0;
}

/* The old policy is kept if the new one cannot be stored. */
static int store(struct atoll_sandbox *s, const char *json, struct atoll_error *err)
{
    const char *was = s->options.network_json;
    char *copy = json ? strdup(json) : NULL;
    int r;

    if (json && !copy)
        return atoll_fail_errno(err, ENOMEM, "policy");
    s->options.network_json = copy;
    r = atoll_persist_sandbox(s, err);
    if (r == 0) {
        atoll_options_set_text(&was, NULL);
        return 0;
    }
    s->options.network_json = was;
    free(copy);
    return r;
}

void atoll_engine_set_network(struct atoll_engine *engine, const char *id, const char *policy,
                              atoll_done_fn *done, void *arg)
{
    struct atoll_sandbox *s = NULL;
    struct atoll_error err;
    int r = find(engine, id, &s, &err);

    if (r == 0)
        r = atoll_secrets_check(engine->secrets, s->spec.tenant, policy, &err);
    if (r == 0)
        r = store(s, policy, &err);
    if (r < 0)
        done(arg, &err);
    else if (s->attachment)
        atoll_network_attach(s, done, arg);
    else
        done(arg, NULL); /* it is stopped: the policy holds from its next start on */
}

const char *atoll_engine_network_problem(const struct atoll_engine *engine)
{
    return atoll_network_problem(engine->network);
}
