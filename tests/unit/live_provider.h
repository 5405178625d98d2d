#pragma once
#include "agent_client.h"

#include "base/rand.h"
#include "provider/sync.h"

/*
 * What the tests of providers with a real back end share: a call with a deadline, the agent of a
 * sandbox, and operations that have to succeed.
 */

static inline struct atoll_sync_call call_for(int ms)
{
    return (struct atoll_sync_call){.deadline_ms = atoll_clock_ms() + ms, .cancel_fd = ATOLL_NO_FD};
}

/* Speaks with the agent of one of p's over fd, which it takes over; fds: descriptors pass. Our agent is the first process
 * everywhere but in the sandboxes of somebody who has templates of his own. */
static inline void greet(struct agent_client *c, int fd, const struct atoll_sync_provider *p,
                         bool fds)
{
    struct atoll_am_hello hello = {.version = ATOLL_AGENT_VERSION,
                                   .features = ATOLL_AGENT_FEATURE_FDS};
    struct atoll_am_hello reply;

    *c = (struct agent_client){.acks = true};
    c->frames = calloc(CLIENT_FRAMES_MAX, sizeof(*c->frames));
    assert_int_equal(atoll_channel_init(&c->ch, fd, 64 << 20), 0);
    c->connected = true;
    client_call(c, ATOLL_AGENT_HELLO, &atoll_am_hello_desc, &hello, &atoll_am_hello_desc, &reply,
                NULL);
    assert_int_equal(reply.pid == 1, !p->ops->caps.own_templates);
    assert_int_equal((reply.features & ATOLL_AGENT_FEATURE_FDS) != 0, fds);
}

static inline void leave(struct agent_client *c)
{
    client_drop(c);
    free(c->frames);
}

static inline void create(struct atoll_sync_provider *p, struct atoll_spec *spec,
                          struct agent_client *c)
{
    struct atoll_sync_call call = call_for(60000);
    struct atoll_error err = {0};
    int fd;

    if (p->ops->create(p, &call, spec, &fd, &err) < 0)
        fail_msg("create: %s", err.text);
    greet(c, fd, p, p->ops->caps.descriptors);
}

static inline void dial(struct atoll_sync_provider *p, const struct atoll_spec *spec,
                        struct agent_client *c)
{
    struct atoll_sync_call call = call_for(10000);
    struct atoll_error err = {0};
    int fd;

    if (p->ops->dial(p, &call, spec, &fd, &err) < 0)
        fail_msg("dial: %s", err.text);
    greet(c, fd, p, p->ops->caps.descriptors);
}

static inline void destroy(struct atoll_sync_provider *p, const struct atoll_spec *spec)
{
    struct atoll_sync_call call = call_for(30000);
    struct atoll_error err = {0};

    if (p->ops->destroy(p, &call, spec, &err) < 0)
        fail_msg("destroy: %s", err.text);
}

static inline struct atoll_provider_inspection look(struct atoll_sync_provider *p,
                                                    const struct atoll_spec *spec)
{
    struct atoll_sync_call call = call_for(10000);
    struct atoll_provider_inspection ret;
    struct atoll_error err = {0};

    if (p->ops->inspect(p, &call, spec, &ret, &err) < 0)
        fail_msg("look: %s", err.text);
    return ret;
}

/* How many it lists; one that does not live counts a hundred. */
static inline void count_one(void *arg, const char *id, const char *handle, bool alive)
{
    (void)handle;
    assert_int_equal(strlen(id), ATOLL_ID_LEN);
    *(int *)arg += alive ? 1 : 100;
}

static inline int count(struct atoll_sync_provider *p)
{
    struct atoll_sync_call call = call_for(10000);
    struct atoll_error err = {0};
    int n = 0;

    if (p->ops->list(p, &call, count_one, &n, &err) < 0)
        fail_msg("list: %s", err.text);
    return n;
}

/* As `user`, "" for the default one; stdout as expected. */
static inline void expect_as(struct agent_client *c, const char *user, const char *script,
                             const char *output)
{
    struct atoll_am_exec_start msg = client_command(7, CLIENT_SH(script));
    struct run_result r;

    msg.user = user;
    client_run(c, &msg, &r);
    if (strcmp(atoll_buf_str(&r.out), output) != 0)
        fail_msg("%s: \"%s\" (\"%s\") instead of \"%s\"", script, atoll_buf_str(&r.out),
                 atoll_buf_str(&r.err), output);
    run_result_done(&r);
}

/* A sandbox of its own for one test. Takes p over. */
struct live {
    struct atoll_sync_provider *p;
    struct atoll_spec spec;
    struct agent_client c;
};

static inline void live_open(struct live *l, struct atoll_sync_provider *p, struct atoll_spec spec)
{
    l->p = p;
    l->spec = spec;
    create(l->p, &l->spec, &l->c);
}

static inline void live_close(struct live *l)
{
    leave(&l->c);
    destroy(l->p, &l->spec);
    l->p = l->p->ops->free(l->p);
}

/* What can be measured and changed while it runs. */
static inline void expect_changes(struct atoll_sync_provider *p, const struct atoll_spec *spec,
                                  uint64_t memory_bytes)
{
    struct atoll_sync_call call = call_for(60000);
    struct atoll_limits limits = spec->limits;
    struct atoll_provider_stats stats;
    struct atoll_error err = {0};

    assert_int_equal(count(p), 1);
    assert_int_equal(look(p, spec).state, ATOLL_INSPECT_ALIVE);
    assert_int_equal(p->ops->stats(p, &call, spec, &stats, &err), 0);
    assert_int_equal(stats.memory_limit_bytes, spec->limits.memory_bytes);
    assert_true(stats.memory_bytes > 0 && stats.processes >= 1);
    limits.memory_bytes = memory_bytes;
    assert_int_equal(p->ops->set_limits(p, &call, spec, &limits, &err), 0);
    assert_int_equal(p->ops->stats(p, &call, spec, &stats, &err), 0);
    assert_int_equal(stats.memory_limit_bytes, memory_bytes);
    for (int twice = 0; twice < 2; twice++)
        assert_int_equal(p->ops->pause(p, &call, spec, &err), 0);
    assert_int_equal(look(p, spec).state, ATOLL_INSPECT_PAUSED);
    for (int twice = 0; twice < 2; twice++)
        assert_int_equal(p->ops->resume(p, &call, spec, &err), 0);
    assert_int_equal(look(p, spec).state, ATOLL_INSPECT_ALIVE);
}

/* As another daemon on the same state would find it; fds: as in greet(). Then it is gone. */
static inline void expect_again(struct atoll_sync_provider *p, const struct atoll_spec *spec,
                                bool fds)
{
    struct atoll_sync_call call = call_for(60000);
    struct atoll_error err = {0};
    struct agent_client c;
    int fd;

    assert_int_equal(count(p), 1);
    assert_int_equal(p->ops->dial(p, &call, spec, &fd, &err), 0);
    greet(&c, fd, p, fds);
    expect_as(&c, "", "echo again", "again\n");
    leave(&c);
    for (int twice = 0; twice < 2; twice++)
        destroy(p, spec);
    assert_int_equal(count(p), 0);
    assert_int_equal(look(p, spec).state, ATOLL_INSPECT_GONE);
}
