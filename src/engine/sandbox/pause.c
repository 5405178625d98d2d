#include <errno.h>
#include <string.h>
#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "engine/engine_internal.h"
#include "engine/state/capture_queue.h"

/*
 * Pause and resume: running ⇄ paused. (Stopped sandboxes, of which only the disk exists, are in
 * stop.c.)
 *
 * Pause: the agent suspends the time limits of commands (and ends all commands, if requested), the
 * row is set to paused, then the provider freezes everything, the agent included. Resume does the
 * same in reverse order. The row is written before the freeze and after the thaw. So the next
 * daemon freezes a sandbox whose row says paused again, in whatever state it is, and a sandbox
 * whose row says running answers.
 *
 * Then the provider frees the memory of the frozen processes as far as it can, within some seconds. The
 * sandbox is paused already: a resume does not wait for that, and a failure changes nothing.
 */

#define LEFT_CHECK_MS 5
#define LEFT_CHECKS_MAX 1000 /* five seconds */

/* An operation in progress. Holds the id: the sandbox may be destroyed meanwhile. */
struct changing {
    struct atoll_engine *engine;
    char id[ATOLL_ID_LEN + 1];
    bool keep_processes, to_disk;
    uint64_t memory_before;
    struct atoll_timer leaving;
    unsigned tries;
    atoll_done_fn *done;
    void *arg;
    struct atoll_error error; /* why it could not be frozen or thawed */
};

void atoll_sandbox_abort_resumes(struct atoll_sandbox *s, const char *why)
{
    struct atoll_error err;

    (void)atoll_fail(&err, ATOLL_ERR_ABORTED, ECANCELED, "sandbox %s: %s", s->spec.id, why);
    atoll_waiters_tell(&s->resumers, &err);
}

static struct changing *changing_new(struct atoll_sandbox *s)
{
    struct changing *c = atoll_alloc(sizeof(*c));

    c->engine = s->engine;
    memcpy(c->id, s->spec.id, sizeof(c->id));
    return c;
}

/* NULL when the operation was superseded: the sandbox was destroyed, died or was stopped. */
static struct atoll_sandbox *still(const struct changing *c, enum atoll_phase phase)
{
    struct atoll_sandbox *s = atoll_map_get(&c->engine->sandboxes, c->id);

    return s && s->phase == phase ? s : NULL;
}

static void ignore_answer(void *arg, const struct atoll_reply *answer)
{
    (void)arg;
    (void)answer;
}

/* Pausing. */

static void end_pause(struct changing *c, const struct atoll_error *error)
{
    c->done(c->arg, error);
    free(c);
}

static void pause_aborted(struct changing *c)
{
    struct atoll_error err;

    (void)atoll_fail(&err, ATOLL_ERR_ABORTED, ECANCELED,
                     "sandbox %s ended while it was being paused", c->id);
    end_pause(c, &err);
}

static void ignore_adopted(void *arg)
{
    (void)arg;
}

/* Undoes the pause: the sandbox continues to run. */
static void pause_failed(struct atoll_sandbox *s, struct changing *c,
                         const struct atoll_error *error)
{
    struct atoll_error err;

    if (s->phase == ATOLL_PHASE_FREEZING)
        atoll_sandbox_arm_deadline(s);
    atoll_sandbox_apply(s, ATOLL_ON_NOT_PAUSED, NULL);
    (void)!atoll_sandbox_ask(s, ATOLL_AGENT_RESUME, NULL, NULL, ignore_answer, NULL, &err);
    atoll_lifetime_begin(s);
    if (!s->agent) /* lost while FREEZING, when no reattach is started */
        atoll_sandbox_adopt(s, ignore_adopted, NULL);
    atoll_waiters_tell(&s->resumers, NULL);
    end_pause(c, error);
}

static void on_not_frozen(void *arg, const struct atoll_error *error)
{
    struct changing *c = arg;
    struct atoll_sandbox *s = still(c, ATOLL_PHASE_FREEZING);

    (void)error; /* it was not frozen, or cannot be thawed */
    if (s)
        pause_failed(s, c, &c->error);
    else
        pause_aborted(c);
}

/* Freeing memory. */

static void on_measured_after(void *arg, const struct atoll_provider_stats *stats,
                              const struct atoll_error *error)
{
    struct changing *c = arg;
    struct atoll_sandbox *s = still(c, ATOLL_PHASE_PAUSED);

    if (s && !error && s->memory_before)
        s->memory_after = stats->memory_bytes;
    end_pause(c, NULL);
}

static void on_reclaimed(void *arg, const struct atoll_error *error)
{
    struct changing *c = arg;
    struct atoll_sandbox *s = still(c, ATOLL_PHASE_PAUSED);

    if (error && error->kind != ATOLL_ERR_ABORTED)
        atoll_log(ATOLL_LOG_WARN, "memory of a paused sandbox was not freed", "sandbox", c->id,
                  "error", error->text, NULL);
    if (s)
        s->provider->ops->stats(s->provider, &s->spec, on_measured_after, c);
    else
        end_pause(c, NULL);
}

static void on_measured_before(void *arg, const struct atoll_provider_stats *stats,
                               const struct atoll_error *error)
{
    struct changing *c = arg;
    struct atoll_sandbox *s = still(c, ATOLL_PHASE_PAUSED);

    if (!s || error) {
        end_pause(c, NULL);
        return;
    }
    s->memory_before = stats->memory_bytes;
    s->provider->ops->reclaim(s->provider, &s->spec, on_reclaimed, c);
}

static void free_memory(struct atoll_sandbox *s, struct changing *c)
{
    const struct atoll_provider_caps *caps = s->provider->ops->caps(s->provider);

    s->memory_before = s->memory_after = 0;
    if (caps->reclaim && caps->stats && s->phase == ATOLL_PHASE_PAUSED)
        s->provider->ops->stats(s->provider, &s->spec, on_measured_before, c);
    else
        end_pause(c, NULL);
}

/* Its memory is on disk: measures what is left. */
static void measure_rest(struct atoll_sandbox *s, struct changing *c)
{
    s->memory_before = c->memory_before;
    s->memory_after = 0;
    s->provider->ops->stats(s->provider, &s->spec, on_measured_after, c);
}

static void on_frozen(void *arg, const struct atoll_error *error)
{
    struct changing *c = arg;
    struct atoll_sandbox *s = still(c, ATOLL_PHASE_FREEZING);

    if (!s) {
        pause_aborted(c);
        return;
    }
    if (error) {
        /* It may be frozen although the answer was lost: thaw it. */
        c->error = *error;
        s->provider->ops->resume(s->provider, &s->spec, on_not_frozen, c);
        return;
    }
    atoll_sandbox_apply(s, ATOLL_ON_FROZEN, c->keep_processes ? "" : "its processes were ended");
    if (!atoll_list_empty(&s->resumers))
        atoll_sandbox_begin_resume(s);
    if (c->to_disk && s->phase == ATOLL_PHASE_PAUSED)
        measure_rest(s, c);
    else
        free_memory(s, c);
}

/* To disk: the agent leaves its sockets, which are of the host; then the provider saves. */

/* The agent has left its sockets when it closes its connection. */
static void check_left(void *arg)
{
    struct changing *c = arg;
    struct atoll_sandbox *s = still(c, ATOLL_PHASE_FREEZING);
    struct atoll_error err;

    if (!s) {
        pause_aborted(c);
    } else if (!s->agent) {
        s->provider->ops->save(s->provider, &s->spec, on_frozen, c);
    } else if (c->tries++ < LEFT_CHECKS_MAX) {
        atoll_timer_set(&c->leaving, c->engine->loop, LEFT_CHECK_MS, check_left, c);
    } else {
        (void)atoll_fail(&err, ATOLL_ERR_UNAVAILABLE, ETIMEDOUT,
                         "the agent of sandbox %s does not leave its sockets", c->id);
        pause_failed(s, c, &err);
    }
}

static void on_left(void *arg, const struct atoll_reply *answer)
{
    struct changing *c = arg;
    struct atoll_sandbox *s = still(c, ATOLL_PHASE_FREEZING);

    if (!s)
        pause_aborted(c);
    else if (answer->error)
        pause_failed(s, c, answer->error);
    else
        check_left(c);
}

/* gVisor ends a sandbox that it cannot save: a full disk is found out before. */
static int check_room(const struct atoll_sandbox *s, uint64_t bytes, struct atoll_error *err)
{
    const uint64_t reserve = atoll_room_reserve(s->engine);
    char text[16];

    if (atoll_room_free(s->engine->state_fd) >= reserve + bytes)
        return 0;
    return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, ENOSPC,
                      "the daemon's disk has no room for the memory of sandbox %s, %s; free some "
                      "space there, or pause it without toDisk",
                      s->spec.id, atoll_text_format_size(bytes, text));
}

static void on_measured_to_save(void *arg, const struct atoll_provider_stats *stats,
                                const struct atoll_error *error)
{
    struct changing *c = arg;
    struct atoll_sandbox *s = still(c, ATOLL_PHASE_FREEZING);
    struct atoll_error err;

    c->memory_before = error ? 0 : stats->memory_bytes;
    if (!s)
        pause_aborted(c);
    else if (check_room(s, c->memory_before, &err) < 0 ||
             atoll_sandbox_ask(s, ATOLL_AGENT_LEAVE, NULL, NULL, on_left, c, &err) < 0)
        pause_failed(s, c, &err);
}

static void on_agent_paused(void *arg, const struct atoll_reply *answer)
{
    struct changing *c = arg;
    struct atoll_sandbox *s = still(c, ATOLL_PHASE_PAUSING);
    struct atoll_error err;

    if (!s) {
        pause_aborted(c);
        return;
    }
    if (answer->error) {
        pause_failed(s, c, answer->error);
        return;
    }
    /* Do not freeze it if the row still says running: it would never answer the next daemon. */
    if (atoll_sandbox_apply_stored(s, ATOLL_ON_PREPARED, &err) < 0) {
        pause_failed(s, c, &err);
        return;
    }
    if (c->to_disk)
        s->provider->ops->stats(s->provider, &s->spec, on_measured_to_save, c);
    else
        s->provider->ops->pause(s->provider, &s->spec, on_frozen, c);
}

static int check_to_disk(const struct atoll_sandbox *s, struct atoll_error *err)
{
    if (!s->provider->ops->caps(s->provider)->save)
        return atoll_fail(err, ATOLL_ERR_UNIMPLEMENTED, EOPNOTSUPP,
                          "provider %s cannot write the memory of a sandbox to disk: only the "
                          "kernel of gVisor can, the host's would need CRIU; use provider gvisor, "
                          "or pause without toDisk, which frees what it can",
                          s->provider->ops->name);
    if (s->spec.network != ATOLL_NETWORK_NONE)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EOPNOTSUPP,
                          "sandbox %s has a network, whose sockets cannot be written to disk; "
                          "pause it without toDisk",
                          s->spec.id);
    return 0;
}

static int check_pause(struct atoll_engine *engine, const char *id, struct atoll_sandbox **ret,
                       struct atoll_error *err)
{
    struct atoll_sandbox *s = atoll_engine_find(engine, id);

    if (s && atoll_sandbox_state(s) == ATOLL_SANDBOX_PAUSED)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EALREADY,
                          "sandbox %s is paused already", id);
    if (s && !s->provider->ops->caps(s->provider)->pause)
        return atoll_provider_entry_refuse_pause(s->entry, err);
    return atoll_engine_look(engine, id, ret, err);
}

/* A pause that waits for its turn. */
struct asked {
    struct atoll_sandbox *sandbox;
    bool keep_processes, to_disk;
    const char *who;
    atoll_done_fn *done;
    void *arg;
};

static int begin_pause(const struct asked *a, struct atoll_error *err)
{
    const struct atoll_am_pause msg = {!a->keep_processes, a->who};
    struct atoll_sandbox *s = a->sandbox; /* not freed before its turn */
    struct changing *c;
    int r = check_pause(s->engine, s->spec.id, &s, err);

    if (r == 0 && a->to_disk)
        r = check_to_disk(s, err);
    if (r < 0)
        return r;
    c = changing_new(s);
    c->to_disk = a->to_disk;
    c->keep_processes = a->keep_processes;
    c->done = a->done;
    c->arg = a->arg;
    r = atoll_sandbox_ask(s, ATOLL_AGENT_PAUSE, &atoll_am_pause_desc, &msg, on_agent_paused, c,
                          err);
    if (r < 0) {
        free(c);
        return r;
    }
    atoll_sandbox_apply(s, ATOLL_ON_PAUSE, NULL);
    return 0;
}

static void on_turn(void *arg, const struct atoll_error *error)
{
    struct asked *a = arg;
    struct atoll_error err;

    if (!error && begin_pause(a, &err) < 0)
        error = &err;
    if (error)
        a->done(a->arg, error);
    free(a);
}

void atoll_sandbox_pause_now(struct atoll_sandbox *s, bool keep_processes, const char *who,
                             atoll_done_fn *done, void *arg)
{
    const struct asked asked = {
        .sandbox = s, .keep_processes = keep_processes, .who = who, .done = done, .arg = arg};
    struct atoll_error err;

    if (begin_pause(&asked, &err) < 0)
        done(arg, &err);
}

static void ask_pause(struct atoll_engine *engine, const char *id, const struct asked *asked)
{
    struct atoll_sandbox *s = atoll_engine_find(engine, id);
    struct atoll_error err;
    struct asked *a;

    if (!s) {
        (void)atoll_fail(&err, ATOLL_ERR_NOT_FOUND, ENOENT, "there is no sandbox %.32s", id);
        asked->done(asked->arg, &err);
        return;
    }
    a = atoll_alloc(sizeof(*a));
    *a = *asked;
    a->sandbox = s;
    atoll_capture_await(s, a->arg, on_turn, a);
}

void atoll_engine_pause(struct atoll_engine *engine, const char *id, bool keep_processes,
                        const char *who, atoll_done_fn *done, void *arg)
{
    ask_pause(
        engine, id,
        &(struct asked){.keep_processes = keep_processes, .who = who, .done = done, .arg = arg});
}

void atoll_engine_pause_to_disk(struct atoll_engine *engine, const char *id, const char *who,
                                atoll_done_fn *done, void *arg)
{
    ask_pause(engine, id,
              &(struct asked){
                  .keep_processes = true, .to_disk = true, .who = who, .done = done, .arg = arg});
}

/* Resuming. */

void atoll_sandbox_runs_again(struct atoll_sandbox *s, const char *detail)
{
    atoll_sandbox_apply(s, ATOLL_ON_RUNS, detail);
    atoll_lifetime_begin(s);
    atoll_waiters_tell(&s->resumers, NULL);
}

/* The sandbox stays paused. */
static void resume_failed(struct atoll_sandbox *s, const struct atoll_error *error)
{
    atoll_sandbox_apply(s, ATOLL_ON_NOT_RESUMED, NULL);
    atoll_waiters_tell(&s->resumers, error);
}

static void on_not_thawed(void *arg, const struct atoll_error *error)
{
    struct changing *c = arg;
    struct atoll_sandbox *s = still(c, ATOLL_PHASE_RESUMING);

    (void)error; /* it was not thawed, or cannot be frozen */
    if (s)
        resume_failed(s, &c->error);
    free(c);
}

/* It may run although the answer was lost: freeze it. But if the agent's connection broke, the
 * agent may be dying; a freeze would prevent that. The handler of the sandbox's death continues
 * then. */
static void freeze_again(struct atoll_sandbox *s, struct changing *c,
                         const struct atoll_error *error)
{
    if (error->errnum == EPIPE) {
        free(c);
        resume_failed(s, error);
        return;
    }
    c->error = *error;
    s->provider->ops->pause(s->provider, &s->spec, on_not_thawed, c);
}

static void on_agent_resumed(void *arg, const struct atoll_reply *answer)
{
    struct changing *c = arg;
    struct atoll_sandbox *s = still(c, ATOLL_PHASE_RESUMING);

    if (s && answer->error) {
        freeze_again(s, c, answer->error);
        return;
    }
    free(c);
    if (s) {
        atoll_sandbox_arm_deadline(s);
        atoll_sandbox_runs_again(s, "");
    }
}

static void ask_agent(struct atoll_sandbox *s, struct changing *c)
{
    struct atoll_error err;

    if (atoll_sandbox_ask(s, ATOLL_AGENT_RESUME, NULL, NULL, on_agent_resumed, c, &err) < 0)
        freeze_again(s, c, &err);
}

static void on_adopted(void *arg)
{
    struct changing *c = arg;
    struct atoll_sandbox *s = still(c, ATOLL_PHASE_RESUMING);

    if (s)
        ask_agent(s, c);
    else
        free(c); /* the agent could not be reached, and the sandbox has failed */
}

static void on_thawed(void *arg, const struct atoll_error *error)
{
    struct changing *c = arg;
    struct atoll_sandbox *s = still(c, ATOLL_PHASE_RESUMING);

    if (!s) {
        free(c);
        return;
    }
    if (error) {
        freeze_again(s, c, error);
        return;
    }
    /* The agent of a sandbox that was paused by an earlier daemon is not connected yet. */
    if (s->agent)
        ask_agent(s, c);
    else
        atoll_sandbox_adopt(s, on_adopted, c);
}

void atoll_sandbox_begin_resume(struct atoll_sandbox *s)
{
    if (s->phase == ATOLL_PHASE_STOPPED) {
        atoll_sandbox_start_again(s);
        return;
    }
    atoll_sandbox_apply(s, ATOLL_ON_RESUME, NULL);
    s->provider->ops->resume(s->provider, &s->spec, on_thawed, changing_new(s));
}

/* Whether the sandbox can be resumed. */
static int check_resume(struct atoll_engine *engine, const struct atoll_sandbox *s, const char *id,
                        struct atoll_error *err)
{
    struct atoll_sandbox *running;

    if (engine->ending)
        return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, ESHUTDOWN, "the daemon is stopping");
    if (s && atoll_sandbox_allows(s, ATOLL_ON_RESUME))
        return 1;
    return atoll_engine_look(engine, id, &running, err);
}

void atoll_engine_resume(struct atoll_engine *engine, const char *id, atoll_done_fn *done,
                         void *arg)
{
    struct atoll_sandbox *s = atoll_engine_find(engine, id);
    struct atoll_error err;
    int r = check_resume(engine, s, id, &err);

    if (r <= 0) {
        done(arg, r < 0 ? &err : NULL);
        return;
    }
    atoll_waiters_add(&s->resumers, done, arg);
    /* Else it begins when the operation in progress ends. */
    if (atoll_sandbox_would_move(s, ATOLL_ON_RESUME) && !s->snapping)
        atoll_sandbox_begin_resume(s);
}
