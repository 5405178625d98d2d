#include "provider/call.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/memory.h"

const struct atoll_op_facts atoll_op_facts[] = {
#define OPERATION(NAME, member, label, verb, budget_ms, deadline_ms, ...) \
    [ATOLL_OP_##NAME] = {label, verb, budget_ms, deadline_ms},
#include "provider/operations.def"
};

bool atoll_op_is_supported(struct atoll_provider *p, enum atoll_op op)
{
    const struct atoll_provider_caps *caps = p->ops->caps(p);

    switch (op) {
#define OPERATION(NAME, member, label, verb, budget_ms, deadline_ms, capability, ...) \
    case ATOLL_OP_##NAME:                                                             \
        return (capability) && p->ops->member;
#include "provider/operations.def"
    }
    return false;
}

/* From arguments to a call. */

static struct atoll_call *call_new(struct atoll_provider *p, enum atoll_op op, void *arg)
{
    struct atoll_callee *callee = atoll_callee_of(p);
    struct atoll_call *c = atoll_alloc(callee->call_size);

    c->callee = callee;
    c->op = op;
    c->build.context_fd = ATOLL_NO_FD;
    c->arg = arg;
    atoll_list_push_back(&callee->calls, &c->node);
    return c;
}

void atoll_call_free(struct atoll_call *c)
{
    atoll_list_remove(&c->node);
    if (c->build.context_fd >= 0)
        (void)close(c->build.context_fd);
    if (c->credential)
        explicit_bzero(c->credential, strlen(c->credential));
    free(c->credential);
    free(c->policy);
    free(c);
}

static void keep_spec(struct atoll_call *c, const struct atoll_spec *spec)
{
    c->spec = *spec;
    if (spec->credential && !(c->credential = strdup(spec->credential)))
        abort(); /* small objects: the daemon is crash-only */
    c->spec.credential = c->credential;
    c->spec.metadata_json = NULL;
    c->spec.network_json = NULL;
    c->spec.env = NULL;
    c->spec.mounts = NULL;
    c->spec.mount_count = 0;
    c->spec.login = NULL;
    c->spec.layers = NULL;
    c->spec.trees = NULL;
    c->spec.caches = NULL;
    c->spec.tree_count = c->spec.cache_count = 0;
}

static void keep_policy(struct atoll_call *c, const char *policy)
{
    if (policy && !(c->policy = strdup(policy)))
        abort(); /* its size is bounded: the daemon is crash-only */
}

#define KEEP_TEXT(to, text) ((void)snprintf(to, sizeof(to), "%s", text))

static void keep_build(struct atoll_call *c, const struct atoll_provider_build *build)
{
    KEEP_TEXT(c->image, build->image);
    KEEP_TEXT(c->dockerfile, build->dockerfile);
    c->build = *build;
    c->build.image = c->image;
    c->build.dockerfile = c->dockerfile;
}

#define OPERATION(NAME, member, label, verb, budget_ms, deadline_ms, capability, result, \
                  parameters, keep, pass)                                                \
    static void call_##member parameters                                                 \
    {                                                                                    \
        struct atoll_call *c = call_new(p, ATOLL_OP_##NAME, arg);                        \
                                                                                         \
        keep;                                                                            \
        c->done.result = done;                                                           \
        c->callee->begin(c);                                                             \
    }
#include "provider/operations.def"

static const struct atoll_provider_ops call_ops = {
#define OPERATION(NAME, member, ...) .member = call_##member,
#include "provider/operations.def"
};

void atoll_callee_init(struct atoll_callee *callee, const char *name, size_t call_size,
                       void (*begin_call)(struct atoll_call *call))
{
    callee->ops = call_ops;
    callee->ops.name = name;
    callee->base.ops = &callee->ops;
    callee->call_size = call_size;
    callee->begin = begin_call;
    atoll_list_init(&callee->calls);
}

/* From a result to `done`. */

#define TELL(result, arguments)                                                               \
    static void tell_##result(const struct atoll_call *c, const struct atoll_call_outcome *o, \
                              const struct atoll_error *error)                                \
    {                                                                                         \
        (void)o;                                                                              \
        c->done.result arguments;                                                             \
    }
TELL(created, (c->arg, o->fd, o->boot_us, error))
TELL(dialed, (c->arg, o->fd, error))
TELL(sockets, (c->arg, o->fd, o->dns_fd, error))
TELL(inspected, (c->arg, o->inspect, error))
TELL(stats, (c->arg, o->stats, error))
TELL(health, (c->arg, o->detail, error))
TELL(image, (c->arg, o->image, error))
TELL(layer, (c->arg, o->layer, error))
TELL(done, (c->arg, error))

void atoll_call_tell(const struct atoll_call *c, const struct atoll_call_outcome *o,
                     const struct atoll_error *error)
{
    static const struct atoll_call_outcome nothing = {
        .fd = ATOLL_NO_FD, .dns_fd = ATOLL_NO_FD, .detail = ""};

    if (error)
        o = &nothing;
    switch (c->op) {
#define OPERATION(NAME, member, label, verb, budget_ms, deadline_ms, capability, result, ...) \
    case ATOLL_OP_##NAME:                                                                     \
        tell_##result(c, o, error);                                                           \
        break;
#include "provider/operations.def"
    }
}

/* From a call to another provider, and from its result to `passed`. */

static void on_created(void *arg, int fd, uint64_t boot_us, const struct atoll_error *error)
{
    struct atoll_call *c = arg;
    c->passed(c, &(struct atoll_call_outcome){.fd = fd, .boot_us = boot_us}, error);
}

static void on_dialed(void *arg, int fd, const struct atoll_error *error)
{
    struct atoll_call *c = arg;
    c->passed(c, &(struct atoll_call_outcome){.fd = fd}, error);
}

static void on_sockets(void *arg, int tcp_fd, int dns_fd, const struct atoll_error *error)
{
    struct atoll_call *c = arg;
    c->passed(c, &(struct atoll_call_outcome){.fd = tcp_fd, .dns_fd = dns_fd}, error);
}

static void on_inspected(void *arg, const struct atoll_provider_inspection *inspection,
                         const struct atoll_error *error)
{
    struct atoll_call *c = arg;
    c->passed(c, &(struct atoll_call_outcome){.fd = ATOLL_NO_FD, .inspect = inspection}, error);
}

static void on_stats(void *arg, const struct atoll_provider_stats *stats,
                     const struct atoll_error *error)
{
    struct atoll_call *c = arg;
    c->passed(c, &(struct atoll_call_outcome){.fd = ATOLL_NO_FD, .stats = stats}, error);
}

static void on_health(void *arg, const char *detail, const struct atoll_error *error)
{
    struct atoll_call *c = arg;
    c->passed(c, &(struct atoll_call_outcome){.fd = ATOLL_NO_FD, .detail = detail}, error);
}

static void on_image(void *arg, const struct atoll_provider_image *image,
                     const struct atoll_error *error)
{
    struct atoll_call *c = arg;
    c->passed(c, &(struct atoll_call_outcome){.fd = ATOLL_NO_FD, .image = image}, error);
}

static void on_layer(void *arg, const struct atoll_provider_layer *layer,
                     const struct atoll_error *error)
{
    struct atoll_call *c = arg;
    c->passed(c, &(struct atoll_call_outcome){.fd = ATOLL_NO_FD, .layer = layer}, error);
}

static void on_done(void *arg, const struct atoll_error *error)
{
    struct atoll_call *c = arg;
    c->passed(c, &(struct atoll_call_outcome){.fd = ATOLL_NO_FD}, error);
}

static void on_each(void *arg, const char *id, const char *handle, bool alive)
{
    const struct atoll_call *c = arg;
    c->each(c->arg, id, handle, alive);
}

static void on_said(void *arg, const char *line)
{
    const struct atoll_call *c = arg;
    c->said(c->arg, line);
}

static void on_volume(void *arg, const struct atoll_provider_volume *volume)
{
    const struct atoll_call *c = arg;
    c->each_volume(c->arg, volume);
}

/* Ownership of the context passes with it. */
static const struct atoll_provider_build *take_build(struct atoll_call *c,
                                                     struct atoll_provider_build *ret)
{
    *ret = c->build;
    c->build.context_fd = ATOLL_NO_FD;
    return ret;
}

void atoll_call_pass(struct atoll_call *c, struct atoll_provider *p, atoll_call_passed_fn *passed)
{
    c->passed = passed;
    switch (c->op) {
#define OPERATION(NAME, member, label, verb, budget_ms, deadline_ms, capability, result, \
                  parameters, keep, pass)                                                \
    case ATOLL_OP_##NAME:                                                                \
        p->ops->member pass;                                                             \
        break;
#include "provider/operations.def"
    }
}
