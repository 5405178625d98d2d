#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/switches.h"
#include "base/text.h"
#include "engine/engine_internal.h"
#include "engine/network/network.h"
#include "engine/state/capture_queue.h"
#include "engine/state/checkpoint.h"
#include "sandbox/spec_layers.h"

/*
 * Create, destroy and failure of a sandbox, and the connection to its agent.
 */

#define REMOVE_AGAIN_MS INT64_C(1000)
#define REMOVE_STUCK_MS INT64_C(30000)
#define REMOVE_MAX_MS INT64_C(300000)

const char *atoll_sandbox_state_name(enum atoll_sandbox_state state)
{
    static const char *const names[] = {"creating", "running", "stopping",   "failed",
                                        "paused",   "stopped", "unreachable"};
    return names[state];
}

static const char *stack_of(const struct atoll_spec *spec)
{
    return spec->layers && *spec->layers ? spec->layers : spec->layer;
}

struct atoll_sandbox *atoll_sandbox_prepare(struct atoll_engine *engine,
                                            const struct atoll_spec *spec,
                                            struct atoll_version *version)
{
    char id[ATOLL_ID_LEN + 1];

    atoll_rand_id(id, ATOLL_ID_LEN);
    return atoll_sandbox_prepare_as(engine, spec, version, id);
}

struct atoll_sandbox *atoll_sandbox_prepare_as(struct atoll_engine *engine,
                                               const struct atoll_spec *spec,
                                               struct atoll_version *version, const char *id)
{
    struct atoll_sandbox *s = calloc(1, sizeof(*s));
    struct atoll_error ignored;

    if (!s)
        return NULL;
    s->engine = engine;
    s->spec = *spec;
    atoll_spec_own_layers(&s->spec);
    s->entry = engine->builder;
    s->provider = s->entry->provider;
    memcpy(s->spec.id, id, sizeof(s->spec.id));
    s->version = version;
    s->phase = ATOLL_PHASE_CREATING;
    s->created_unix_ms = atoll_clock_unix_ms();
    s->created_ms = atoll_clock_ms();
    atoll_map_init(&s->execs);
    atoll_list_init(&s->exec_list);
    atoll_list_init(&s->watches);
    atoll_list_init(&s->destroyers);
    atoll_list_init(&s->resumers);
    atoll_list_init(&s->stoppers);
    atoll_list_init(&s->capture_waits);
    if (atoll_layers_hold(engine, stack_of(&s->spec), &ignored) < 0) {
        atoll_spec_free_layers(&s->spec);
        free(s);
        return NULL;
    }
    if (atoll_map_put(&engine->sandboxes, s->spec.id, s) < 0) {
        atoll_layers_release(engine, stack_of(&s->spec));
        atoll_spec_free_layers(&s->spec);
        free(s);
        return NULL;
    }
    return s;
}

/* Also used for a sandbox whose resources at the provider are gone. */
void atoll_sandbox_discard(struct atoll_sandbox *s)
{
    struct atoll_engine *engine = s->engine;

    atoll_pool_forget(s);
    atoll_timer_cancel(&s->deadline);
    atoll_timer_cancel(&s->removal);
    atoll_timer_cancel(&s->departure);
    atoll_sandbox_end_reattach(s);
    s->agent = atoll_rpc_close(s->agent);
    s->attachment = atoll_attachment_free(s->attachment);
    atoll_checkpoints_close(s);
    atoll_capture_abort(s);
    atoll_exec_drop_all(s);
    (void)atoll_map_remove(&engine->sandboxes, s->spec.id);
    atoll_tenant_leave(s);
    atoll_options_free(&s->options);
    s->history = atoll_history_free(s->history);
    atoll_layers_release(engine, stack_of(&s->spec));
    atoll_templates_collect_soon(engine);
    atoll_spec_free_layers(&s->spec);
    atoll_strings_free(s->command);
    free(s);
}

void atoll_sandbox_forget(struct atoll_sandbox *s)
{
    ATOLL_LIST_FOREACH (&s->exec_list, node)
        ATOLL_CONTAINER_OF(node, struct atoll_exec, node)->kept = true;
    atoll_sandbox_discard(s);
}

/* The agent's connection. */

static int decode_error(const struct atoll_frame *frame, struct atoll_error *ret_error,
                        struct atoll_error *err)
{
    struct atoll_am_error msg;
    int r = atoll_msg_decode(&atoll_am_error_desc, frame->payload, frame->len, &msg, err);

    if (r < 0)
        return r;
    if (msg.kind == ATOLL_ERR_NONE || msg.kind > ATOLL_ERR_UNAUTHENTICATED)
        msg.kind = ATOLL_ERR_UNKNOWN;
    (void)atoll_fail(ret_error, (enum atoll_error_kind)msg.kind, msg.errnum, "%s", msg.text);
    return 0;
}

static const uint16_t lists[] = {ATOLL_AGENT_EXEC_LIST, ATOLL_AGENT_PROCESS_LIST,
                                 ATOLL_AGENT_FILE_LIST, ATOLL_AGENT_XATTR_LIST, 0};

const struct atoll_rpc_protocol atoll_agent_protocol = {.reply = ATOLL_AGENT_REPLY,
                                                        .part = ATOLL_AGENT_PART,
                                                        .error = ATOLL_AGENT_ERROR,
                                                        .lists = lists,
                                                        .decode_error = decode_error,
                                                        .silence_ms = ATOLL_AGENT_SILENCE_MS,
                                                        .limit_ms = atoll_agent_limit_ms,
                                                        .ping = ATOLL_AGENT_PING};

static int on_agent_event(void *arg, struct atoll_frame *frame)
{
    return frame->type == ATOLL_AGENT_WATCH_EVENT ? atoll_file_watch_on_event(arg, frame)
                                                  : atoll_exec_on_event(arg, frame);
}

static void on_agent_lost(void *arg, const char *why)
{
    struct atoll_sandbox *s = arg;

    atoll_log(ATOLL_LOG_DEBUG, "agent lost", "sandbox", s->spec.id, "why", why, NULL);
    s->agent = atoll_rpc_close(s->agent);
    atoll_file_watch_end_all(s);
    s->greeted = false;
    s->features = 0;
    /* The agent of a paused sandbox is connected again by the resume. */
    if (atoll_sandbox_state(s) == ATOLL_SANDBOX_RUNNING)
        atoll_sandbox_reattach(s);
}

static const struct atoll_rpc_events agent_events = {.event = on_agent_event,
                                                     .lost = on_agent_lost,
                                                     .expects = atoll_sandbox_expects,
                                                     .heartbeat = atoll_sandbox_heartbeat,
                                                     .silence = atoll_sandbox_silence,
                                                     .late = atoll_sandbox_late};

static int check_agent(const struct atoll_sandbox *s, struct atoll_error *err)
{
    if (atoll_fault("engine.ask") != 0)
        return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, EIO, "a fault of the test");
    if (!s->agent && s->reattach)
        return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, EPIPE,
                          "sandbox %s is out of reach for the moment; try again", s->spec.id);
    if (!s->agent)
        return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, EPIPE, "sandbox %s is ending", s->spec.id);
    return 0;
}

static bool only_reads(uint16_t type)
{
    static const uint16_t reads[] = {ATOLL_AGENT_FILE_STAT,   ATOLL_AGENT_FILE_LIST,
                                     ATOLL_AGENT_FILE_OPEN,   ATOLL_AGENT_FILE_READ,
                                     ATOLL_AGENT_USAGE,       ATOLL_AGENT_PING,
                                     ATOLL_AGENT_PROCESS_LIST};

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(reads); i++)
        if (type == reads[i])
            return true;
    return false;
}

int atoll_sandbox_ask(struct atoll_sandbox *s, uint16_t type, const struct atoll_msg_desc *desc,
                      const void *msg, atoll_answer_fn *fn, void *arg, struct atoll_error *err)
{
    int r = check_agent(s, err);

    if (!only_reads(type))
        atoll_checkpoints_touch(s);
    return r < 0 ? r : atoll_rpc_ask(s->agent, type, desc, msg, fn, arg, err);
}

int atoll_sandbox_ask_patiently(struct atoll_sandbox *s, uint16_t type,
                                const struct atoll_msg_desc *desc, const void *msg,
                                atoll_answer_fn *fn, void *arg, struct atoll_error *err)
{
    int r = check_agent(s, err);

    return r < 0 ? r : atoll_rpc_ask_patiently(s->agent, type, desc, msg, fn, arg, err);
}

static void on_hello(void *arg, const struct atoll_reply *answer)
{
    struct atoll_sandbox *s = arg;
    struct atoll_am_hello hello;
    struct atoll_error err;

    if (answer->error && (atoll_sandbox_state(s) != ATOLL_SANDBOX_RUNNING ||
                          answer->error->kind == ATOLL_ERR_UNAVAILABLE))
        return; /* it is ending already, or the lost connection is being handled */
    if (answer->error) {
        atoll_log(ATOLL_LOG_ERROR, "agent refused", "sandbox", s->spec.id, "error",
                  answer->error->text, NULL);
        return;
    }
    if (atoll_msg_decode(&atoll_am_hello_desc, answer->frame->payload, answer->frame->len, &hello,
                         &err) < 0 ||
        hello.version != ATOLL_AGENT_VERSION) {
        atoll_log(ATOLL_LOG_ERROR, "agent speaks another protocol version", "sandbox", s->spec.id,
                  NULL);
        return;
    }
    s->greeted = true;
    s->features = hello.features;
}

int atoll_sandbox_open_agent(struct atoll_sandbox *s, int fd, struct atoll_error *err)
{
    bool fds = s->provider->ops->caps(s->provider)->descriptors && !atoll_weakened("descriptors");
    const struct atoll_am_hello hello = {.version = ATOLL_AGENT_VERSION,
                                         .features = fds ? ATOLL_AGENT_FEATURE_FDS : 0};
    struct atoll_lane lane;
    int r = atoll_fault("engine.open_agent");

    if (r != 0) {
        atoll_engine_discard(s->engine, s->spec.id, fd);
        return atoll_fail_errno(err, r, "fault");
    }
    r = atoll_rpc_open(s->engine->loop, fd, &atoll_agent_protocol, &agent_events, s, &s->agent,
                       err);
    if (r == 0) {
        lane = atoll_sandbox_lane(s);
        atoll_rpc_guard(s->agent, s->engine->offload, &lane);
    }
    /* Later requests are queued behind the greeting: no need to wait for its answer. */
    if (r == 0)
        r = atoll_rpc_ask(s->agent, ATOLL_AGENT_HELLO, &atoll_am_hello_desc, &hello, on_hello, s,
                          err);
    return r;
}

/* Destroy and failure. */

static void remove_again(void *arg)
{
    struct atoll_sandbox *s = arg;
    bool is_record = s->phase == ATOLL_PHASE_FAILED && !s->options.lifetime.persistent;

    if ((s->phase != ATOLL_PHASE_UNREMOVED && !is_record) || s->removing || !s->remains ||
        s->engine->ending)
        return;
    atoll_metric_add(ATOLL_METRIC_REMOVALS_RETRIED, ATOLL_LABELS(s->provider->ops->name), 1);
    if (is_record)
        atoll_sandbox_remove_remains(s);
    else
        atoll_sandbox_destroy(s, "the daemon, which retries a destroy", NULL, NULL);
}

/* Retries until the provider confirms the removal, with backoff. A provider that is down is tried
 * sooner; other errors may need the operator. */
static void try_removal_later(struct atoll_sandbox *s, const struct atoll_error *error)
{
    bool down = error->kind == ATOLL_ERR_UNAVAILABLE || error->kind == ATOLL_ERR_DEADLINE_EXCEEDED;
    int64_t after_ms = (down ? REMOVE_AGAIN_MS : REMOVE_STUCK_MS) << ATOLL_MIN(s->removals, 10u);

    s->removals++;
    atoll_timer_set(&s->removal, s->engine->loop, ATOLL_MIN(after_ms, REMOVE_MAX_MS), remove_again,
                    s);
}

static void on_removed(void *arg, const struct atoll_error *error)
{
    struct atoll_sandbox *s = arg;
    char why[200];

    s->removing = false;
    s->remains = error != NULL;
    if (error) {
        try_removal_later(s, error);
        atoll_log(ATOLL_LOG_ERROR, "sandbox cannot be removed", "sandbox", s->spec.id, "error",
                  error->text, NULL);
        (void)snprintf(why, sizeof(why), "it could not be removed: %.150s", error->text);
        atoll_sandbox_apply(s, ATOLL_ON_NOT_REMOVED, why);
        atoll_waiters_tell(&s->destroyers, error);
        return;
    }
    /* A sandbox that failed stays, as a record of the cause, until a client destroys it. */
    if (s->phase == ATOLL_PHASE_DESTROYING || s->hidden)
        atoll_sandbox_depart(s);
}

void atoll_sandbox_drop_agent(struct atoll_sandbox *s, const char *why)
{
    struct atoll_rpc *agent = ATOLL_TAKE_PTR(s->agent);

    s->greeted = false;
    s->features = 0;
    atoll_rpc_fail_all(agent, why);
    (void)atoll_rpc_close(agent);
    atoll_file_watch_end_all(s);
}

void atoll_sandbox_remove_remains(struct atoll_sandbox *s)
{
    if (s->removing)
        return;
    atoll_timer_cancel(&s->removal);
    s->removing = true; /* callbacks below may destroy it, which calls this function again */
    atoll_network_detach(s);
    atoll_sandbox_drop_agent(s, "the sandbox is being destroyed");
    if (!s->remains) {
        on_removed(s, NULL);
        return;
    }
    s->provider->ops->destroy(s->provider, &s->spec, on_removed, s);
}

/* Fails pending resume and stop requests: the sandbox is being destroyed. */
static void fail_pending_changes(struct atoll_sandbox *s)
{
    struct atoll_error err;

    atoll_sandbox_abort_resumes(s, "it is being destroyed");
    (void)atoll_fail(&err, ATOLL_ERR_ABORTED, ECANCELED, "sandbox %s is being destroyed",
                     s->spec.id);
    atoll_waiters_tell(&s->stoppers, &err);
}

static void begin_destroy(struct atoll_sandbox *s, enum atoll_phase_event event, const char *who)
{
    enum atoll_sandbox_state was = atoll_sandbox_state(s);
    bool pending = atoll_phase_facts(s->phase)->pending;

    atoll_pool_forget(s); /* it is not ready any more */
    atoll_ended_note(s, who, was, s->cause);
    atoll_sandbox_apply(s, event, NULL);
    fail_pending_changes(s);
    atoll_exec_end_all(s, ATOLL_END_KILLED_BY, who);
    if (pending && s->provider->ops->cancel)
        s->provider->ops->cancel(s->provider, &s->spec);
    if (!pending && !atoll_artifacts_collect(s, was, atoll_sandbox_remove_remains))
        atoll_sandbox_remove_remains(s);
}

void atoll_sandbox_destroy(struct atoll_sandbox *s, const char *who, atoll_done_fn *done, void *arg)
{
    if (done)
        atoll_waiters_add(&s->destroyers, done, arg);
    if (atoll_sandbox_would_move(s, ATOLL_ON_DESTROY))
        begin_destroy(s, ATOLL_ON_DESTROY, who);
}

void atoll_sandbox_continue_destroy(struct atoll_sandbox *s)
{
    begin_destroy(s, ATOLL_ON_LISTED, "the daemon, which continues a destroy");
}

/* The processes of a persistent sandbox died: it becomes stopped, with that cause. */
static void fail_persistent(struct atoll_sandbox *s, const char *why, bool remains)
{
    if (atoll_sandbox_allows(s, ATOLL_ON_DIED)) {
        atoll_log(ATOLL_LOG_WARN, "sandbox died", "sandbox", s->spec.id, "why", why, NULL);
        s->remains = remains;
        atoll_sandbox_halt(s, ATOLL_END_LOST, why, why);
    } else if (s->phase == ATOLL_PHASE_UNREMOVED) {
        atoll_sandbox_destroy(s, why, NULL, NULL); /* retry: its disk still exists */
    } else if (s->phase == ATOLL_PHASE_FAILED && !remains) {
        atoll_sandbox_apply(s, ATOLL_ON_PROCESSES_GONE, NULL);
    }
}

void atoll_sandbox_fail(struct atoll_sandbox *s, const char *why, bool remains)
{
    atoll_sandbox_end_reattach(s);
    if (s->keeping)
        return; /* the build destroys it when the provider has answered */
    if (s->options.lifetime.persistent) {
        fail_persistent(s, why, remains);
        return;
    }
    if (atoll_sandbox_may_recreate(s)) {
        atoll_sandbox_recreate(s, why, remains);
        return;
    }
    if (s->phase != ATOLL_PHASE_RECREATING && s->phase != ATOLL_PHASE_RESTORING)
        s->remains = remains;
    if (atoll_sandbox_allows(s, ATOLL_ON_DIED))
        atoll_sandbox_end_failed(s, ATOLL_ON_DIED, why);
}

void atoll_sandbox_end_failed(struct atoll_sandbox *s, enum atoll_phase_event event,
                              const char *why)
{
    atoll_log(ATOLL_LOG_WARN, "sandbox died", "sandbox", s->spec.id, "why", why, NULL);
    atoll_sandbox_apply(s, event, why);
    /* Callbacks below may destroy it: keep the record until the end of this function. */
    s->removing = true;
    atoll_sandbox_abort_resumes(s, why);
    atoll_lifetime_ended(s, true);
    atoll_exec_end_all(s, ATOLL_END_LOST, why);
    s->removing = false;
    atoll_sandbox_remove_remains(s);
}

/* The deadline. */

static void on_deadline(void *arg)
{
    atoll_lifetime_over(arg, ATOLL_OVER_DEADLINE);
}

void atoll_sandbox_arm_deadline(struct atoll_sandbox *s)
{
    int64_t after_ms = (int64_t)s->spec.limits.timeout_s * 1000;

    s->overdue = false;
    atoll_capture_next_soon(s);
    if (after_ms == 0)
        return;
    s->expires_unix_ms = atoll_clock_unix_ms() + after_ms;
    atoll_sandbox_arm_deadline_in(s, after_ms);
}

void atoll_sandbox_arm_deadline_in(struct atoll_sandbox *s, int64_t after_ms)
{
    atoll_timer_set(&s->deadline, s->engine->loop, after_ms, on_deadline, s);
}
