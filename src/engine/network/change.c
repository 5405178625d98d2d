#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "base/memory.h"
#include "engine/engine_internal.h"
#include "engine/network/network.h"

/*
 * What facades ask of networks: changes of the policy of a living sandbox, stored first and then applied. A
 * provider that enforces policies itself can refuse one, so there it is applied first.
 */

static bool is_changed_there(const struct atoll_sandbox *s)
{
    return !atoll_network_serves(s) && s->provider->ops->caps(s->provider)->set_network;
}

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
    if (!atoll_network_serves(s) && !is_changed_there(s))
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

/* By its provider. */

struct change {
    struct atoll_engine *engine;
    char id[ATOLL_ID_LEN + 1];
    char *policy; /* owned */
    atoll_done_fn *done;
    void *arg;
};

static void on_changed(void *arg, const struct atoll_error *error)
{
    struct change *c = arg;
    struct atoll_sandbox *s = atoll_engine_find(c->engine, c->id);
    struct atoll_error err;

    if (s)
        s->policing = false;
    if (!error && !s) {
        (void)atoll_fail(&err, ATOLL_ERR_NOT_FOUND, ENOENT, "there is no sandbox %.32s", c->id);
        error = &err;
    }
    if (!error && store(s, c->policy, &err) < 0)
        error = &err;
    c->done(c->arg, error);
    free(c->policy);
    free(c);
}

static int begin_change(struct atoll_sandbox *s, const char *policy, atoll_done_fn *done, void *arg,
                        struct atoll_error *err)
{
    struct atoll_sandbox *running;
    struct change *c;
    int r = atoll_engine_running(s->engine, s->spec.id, &running, err);

    if (r < 0)
        return r;
    if (s->policing)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EBUSY,
                          "the network policy of sandbox %s is being changed", s->spec.id);
    c = atoll_alloc(sizeof(*c));
    *c = (struct change){.engine = s->engine, .done = done, .arg = arg};
    memcpy(c->id, s->spec.id, sizeof(c->id));
    if (policy && !(c->policy = strdup(policy)))
        abort(); /* its size is bounded: the daemon is crash-only */
    s->policing = true;
    s->provider->ops->set_network(s->provider, &s->spec, c->policy, on_changed, c);
    return 0;
}

void atoll_engine_set_network(struct atoll_engine *engine, const char *id, const char *policy,
                              atoll_done_fn *done, void *arg)
{
    struct atoll_sandbox *s = NULL;
    struct atoll_error err;
    int r = find(engine, id, &s, &err);

    if (r == 0)
        r = atoll_secrets_check(engine->secrets, s->spec.tenant, policy, &err);
    if (r == 0 && is_changed_there(s)) {
        if (begin_change(s, policy, done, arg, &err) < 0)
            done(arg, &err);
        return;
    }
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
