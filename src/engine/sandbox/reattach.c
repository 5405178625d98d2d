#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include "base/log.h"
#include "base/memory.h"
#include "engine/engine_internal.h"

/*
 * The connection to an agent broke, but the sandbox may be unharmed. The provider is asked whether
 * it lives (only its answer counts; silence never ends a sandbox), the agent is dialed again, and
 * each command continues at its known offset. Meanwhile requests fail with UNAVAILABLE.
 */

/* Delay before the first attempt: if the sandbox died, the provider's report comes first and has
 * the cause. */
#define FIRST_MS 100
#define PAUSE_MAX_MS 10000
/* Consecutive failures for a living sandbox, after which its agent counts as dead. */
#define TRIES_MAX 8

struct atoll_reattach {
    struct atoll_engine *engine;
    char id[ATOLL_ID_LEN + 1];
    struct atoll_timer timer;
    int64_t pause_ms;
    unsigned tries;
    /* A callback of the provider is pending: it frees this if it is not needed any more. */
    bool busy;
};

/* The sandbox that this belongs to; NULL when it does not need it any more, then this is freed. */
static struct atoll_sandbox *still_needed(struct atoll_reattach *r)
{
    struct atoll_sandbox *s = atoll_map_get(&r->engine->sandboxes, r->id);

    r->busy = false;
    if (s && s->reattach == r && atoll_sandbox_state(s) == ATOLL_SANDBOX_RUNNING)
        return s;
    if (s && s->reattach == r)
        s->reattach = NULL;
    free(r);
    return NULL;
}

void atoll_sandbox_end_reattach(struct atoll_sandbox *s)
{
    struct atoll_reattach *r = ATOLL_TAKE_PTR(s->reattach);

    if (!r)
        return;
    atoll_timer_cancel(&r->timer);
    if (!r->busy)
        free(r);
}

bool atoll_sandbox_reattach_is_busy(const struct atoll_sandbox *s)
{
    return s->reattach && s->reattach->busy;
}

static void step(void *arg);

static void again(struct atoll_sandbox *s)
{
    const int64_t most = s->entry->config.reattach_ms;
    struct atoll_reattach *r = s->reattach;

    r->pause_ms = ATOLL_MIN(2 * r->pause_ms, most ? most : PAUSE_MAX_MS);
    atoll_timer_set(&r->timer, r->engine->loop, r->pause_ms, step, r);
}

/* Retries, or fails the sandbox after too many attempts: it lives, but its agent does not
 * answer. */
static void retry_or_fail(struct atoll_sandbox *s, const char *why)
{
    char cause[200];

    if (++s->reattach->tries < TRIES_MAX) {
        again(s);
        return;
    }
    (void)snprintf(cause, sizeof(cause), "its agent does not answer any more: %.150s", why);
    atoll_sandbox_fail(s, cause, true);
}

static void on_execs_continued(void *arg, const struct atoll_error *error)
{
    struct atoll_reattach *r = arg;
    struct atoll_sandbox *s = still_needed(r);

    if (!s)
        return;
    if (error) {
        /* Its commands cannot be continued over this connection. */
        atoll_sandbox_drop_agent(s, error->text);
        retry_or_fail(s, error->text);
        return;
    }
    atoll_log(ATOLL_LOG_INFO, "agent reached again", "sandbox", s->spec.id, NULL);
    atoll_sandbox_end_reattach(s);
}

static void on_dialed(void *arg, int fd, const struct atoll_error *error)
{
    struct atoll_reattach *r = arg;
    struct atoll_engine *engine = r->engine;
    char id[ATOLL_ID_LEN + 1];
    struct atoll_sandbox *s;
    struct atoll_error err;

    memcpy(id, r->id, sizeof(id));
    s = still_needed(r);
    if (!s) {
        if (fd >= 0)
            atoll_engine_discard(engine, id, fd);
        return;
    }
    if (error) {
        retry_or_fail(s, error->text);
        return;
    }
    if (atoll_sandbox_open_agent(s, fd, &err) < 0) {
        atoll_sandbox_drop_agent(s, err.text);
        retry_or_fail(s, err.text);
        return;
    }
    r->busy = true;
    atoll_sandbox_continue_execs(s, "the agent was started anew and does not know the command",
                                 on_execs_continued, r);
}

static void on_looked(void *arg, const struct atoll_provider_inspection *look,
                      const struct atoll_error *error)
{
    struct atoll_reattach *r = arg;
    struct atoll_sandbox *s = still_needed(r);

    if (!s)
        return;
    if (error || look->state == ATOLL_INSPECT_PAUSED) {
        again(s);
        return;
    }
    if (look->state != ATOLL_INSPECT_ALIVE) {
        if (look->oom)
            s->oom = look->exit;
        atoll_sandbox_fail(
            s, *look->cause ? look->cause : "the connection to the sandbox's agent was lost", true);
        return;
    }
    r->busy = true;
    s->provider->ops->dial(s->provider, &s->spec, on_dialed, r);
}

static void step(void *arg)
{
    struct atoll_reattach *r = arg;
    struct atoll_sandbox *s = still_needed(r);

    if (!s)
        return;
    r->busy = true;
    s->provider->ops->inspect(s->provider, &s->spec, on_looked, r);
}

void atoll_sandbox_reattach(struct atoll_sandbox *s)
{
    struct atoll_reattach *r;

    if (s->reattach)
        return;
    r = atoll_alloc(sizeof(*r));
    r->engine = s->engine;
    memcpy(r->id, s->spec.id, sizeof(r->id));
    r->pause_ms = FIRST_MS;
    s->reattach = r;
    atoll_timer_set(&r->timer, s->engine->loop, FIRST_MS, step, r);
}

/* Continuing commands over a new connection. */

struct meeting {
    struct atoll_sandbox *sandbox;
    const char *unknown;
    atoll_done_fn *done;
    void *arg;
};

static void on_plain(void *arg, const struct atoll_reply *answer)
{
    struct atoll_sandbox *s = arg;

    if (answer->error)
        atoll_log(ATOLL_LOG_ERROR, "adoption", "sandbox", s->spec.id, "error", answer->error->text,
                  NULL);
}

/* Sends acknowledgements again: if the last ones were lost, a command that blocks on them would
 * block forever. */
static void acknowledge_again(struct atoll_sandbox *s, const struct atoll_exec *x)
{
    for (uint8_t stream = ATOLL_STREAM_STDOUT; stream <= ATOLL_STREAM_STDERR; stream++) {
        struct atoll_am_ack ack = {x->number, stream, x->acked[stream]};
        (void)!atoll_rpc_tell(s->agent, ATOLL_AGENT_EXEC_ACK, &atoll_am_ack_desc, &ack);
    }
}

/* A command that the agent knows: continue reading at the end of our journal, or let the agent drop
 * it. */
static void continue_exec(struct atoll_sandbox *s, const struct atoll_am_exec_info *info)
{
    struct atoll_exec *x = atoll_exec_by_number(s, info->exec);
    struct atoll_am_exec_ref ref = {info->exec};
    struct atoll_am_signal kill_it = {info->exec, SIGKILL, 1, "the daemon does not know it"};
    struct atoll_am_resume resume;
    struct atoll_error err;

    if (!x)
        (void)!atoll_sandbox_ask(s, ATOLL_AGENT_EXEC_SIGNAL, &atoll_am_signal_desc, &kill_it,
                                 on_plain, s, &err);
    if (!x || x->ended) {
        (void)!atoll_rpc_tell(s->agent, ATOLL_AGENT_EXEC_FORGET, &atoll_am_exec_ref_desc, &ref);
        return;
    }
    x->agent_knows = true;
    x->pid = info->pid;
    x->stdin_offset = info->stdin_bytes;
    /* Output that was acknowledged without being in the journal, which was full then. The agent
     * still has all that follows. */
    x->journal.seen[1] = ATOLL_MAX(x->journal.seen[1], info->stdout_acked);
    x->journal.seen[2] = ATOLL_MAX(x->journal.seen[2], info->stderr_acked);
    x->acked[1] = ATOLL_MAX(atoll_readers_used(x, 1), info->stdout_acked);
    x->acked[2] = ATOLL_MAX(atoll_readers_used(x, 2), info->stderr_acked);
    resume = (struct atoll_am_resume){info->exec, x->journal.seen[1], x->journal.seen[2]};
    (void)!atoll_sandbox_ask(s, ATOLL_AGENT_EXEC_RESUME, &atoll_am_resume_desc, &resume, on_plain,
                             s, &err);
    acknowledge_again(s, x);
    atoll_readers_await(x);
}

static void end_unmet(struct atoll_sandbox *s, const char *why)
{
    struct atoll_exec_result lost = {.kind = ATOLL_END_LOST};

    (void)snprintf(lost.reason, sizeof(lost.reason), "%s", why);
    ATOLL_LIST_FOREACH (&s->exec_list, node) {
        struct atoll_exec *x = ATOLL_CONTAINER_OF(node, struct atoll_exec, node);
        lost.stdout_bytes = x->journal.seen[ATOLL_STREAM_STDOUT];
        lost.stderr_bytes = x->journal.seen[ATOLL_STREAM_STDERR];
        if (!x->ended && !x->agent_knows)
            atoll_exec_finish(x, &lost);
    }
}

static void on_execs(void *arg, const struct atoll_reply *answer)
{
    struct meeting *m = arg;
    struct atoll_am_exec_info info;
    struct atoll_error err;

    if (answer->more) {
        if (atoll_msg_decode(&atoll_am_exec_info_desc, answer->frame->payload, answer->frame->len,
                             &info, &err) == 0)
            continue_exec(m->sandbox, &info);
        return;
    }
    if (!answer->error)
        end_unmet(m->sandbox, m->unknown);
    m->done(m->arg, answer->error);
    free(m);
}

void atoll_sandbox_continue_execs(struct atoll_sandbox *s, const char *unknown, atoll_done_fn *done,
                                  void *arg)
{
    struct meeting *m = atoll_alloc(sizeof(*m));
    struct atoll_error err;

    *m = (struct meeting){s, unknown, done, arg};
    /* Execs that are started from now on over this connection are known to the agent. */
    ATOLL_LIST_FOREACH (&s->exec_list, node)
        ATOLL_CONTAINER_OF(node, struct atoll_exec, node)->agent_knows = false;
    if (atoll_sandbox_ask(s, ATOLL_AGENT_EXEC_LIST, NULL, NULL, on_execs, m, &err) < 0) {
        free(m);
        done(arg, &err);
    }
}
