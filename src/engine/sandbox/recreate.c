#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "base/log.h"
#include "engine/engine_internal.h"
#include "engine/network/network.h"

/*
 * A sandbox that its provider lost, and that was created with "recreate": its remains are removed
 * and it is made again, with the same id and without its files. Its commands end as lost. The row
 * keeps saying that it runs, so that if the daemon dies in between, the next one finds it missing
 * and does the same. A restore (state/restore.c) makes the sandbox again in the same way.
 */
#define MOST 5 /* attempts within WITHIN_MS; then it fails */
#define WITHIN_MS (10 * 60 * 1000)

bool atoll_sandbox_may_recreate(struct atoll_sandbox *s)
{
    int64_t now = atoll_clock_ms();

    if (!s->options.recreate || s->engine->ending || !atoll_sandbox_allows(s, ATOLL_ON_RECREATE))
        return false;
    if (now - s->recreated_ms > WITHIN_MS) {
        s->recreated_ms = now;
        s->recreated = 0;
    }
    return s->recreated++ < MOST;
}

static void give_up(struct atoll_sandbox *s, const char *why)
{
    char cause[200];

    (void)snprintf(cause, sizeof(cause), "%.80s%sit could not be made again: %.80s", s->cause,
                   *s->cause ? "; " : "", why);
    s->recreated = MOST; /* do not try again for WITHIN_MS */
    s->recreated_ms = atoll_clock_ms();
    atoll_sandbox_end_failed(s, ATOLL_ON_GIVE_UP, cause);
}

static void on_attached(void *arg, const struct atoll_error *error)
{
    struct atoll_sandbox *s = arg;

    if (s->phase == ATOLL_PHASE_DESTROYING) { /* meanwhile */
        atoll_sandbox_remove_remains(s);
        return;
    }
    if (error) {
        give_up(s, error->text);
        return;
    }
    atoll_sandbox_tell_agent(s);
    atoll_sandbox_runs_again(s, NULL);
    atoll_env_unkeep(s);
}

static void on_made(void *arg, int agent_fd, uint64_t boot_us, const struct atoll_error *error)
{
    struct atoll_sandbox *s = arg; /* not freed before this callback, as during a create */
    struct atoll_error err;

    atoll_provider_entry_note_create(s->entry, error);
    if (s->phase == ATOLL_PHASE_DESTROYING) { /* meanwhile */
        if (agent_fd >= 0)
            atoll_engine_discard(s->engine, s->spec.id, agent_fd);
        s->remains = !error;
        atoll_sandbox_remove_remains(s);
        return;
    }
    if (error && atoll_place_elsewhere(s, error)) {
        atoll_sandbox_make(s, on_made);
        return;
    }
    s->remains = !error;
    if (error) {
        give_up(s, error->text);
        return;
    }
    atoll_tenant_recount(s);
    s->boot_ms = (double)boot_us / 1000;
    s->last_cpu_us = 0;
    s->last_cpu_ms = atoll_clock_ms();
    if (atoll_sandbox_open_agent(s, agent_fd, &err) < 0)
        give_up(s, err.text);
    else
        atoll_network_attach(s, on_attached, s);
}

static void on_cleared(void *arg, const struct atoll_error *error)
{
    struct atoll_sandbox *s = arg;
    struct atoll_error err;

    s->removing = false;
    s->remains = error != NULL;
    if (s->phase == ATOLL_PHASE_DESTROYING) {
        atoll_sandbox_remove_remains(s);
        return;
    }
    if (error || (!s->options.env && atoll_env_load(s, &err) < 0)) {
        give_up(s, error ? error->text : err.text);
        return;
    }
    s->spec.handle[0] = '\0';
    s->candidates.next = 0;
    s->spec.history_bytes = atoll_place_history(s->provider, &s->options, &s->spec.limits);
    atoll_sandbox_make(s, on_made);
}

void atoll_sandbox_make_again(struct atoll_sandbox *s, const char *why, bool remains)
{
    s->removing = true;
    atoll_network_detach(s);
    atoll_sandbox_drop_agent(s, why);
    if (remains)
        s->provider->ops->destroy(s->provider, &s->spec, on_cleared, s);
    else
        on_cleared(s, NULL);
}

void atoll_sandbox_recreate(struct atoll_sandbox *s, const char *why, bool remains)
{
    atoll_log(ATOLL_LOG_WARN, "sandbox lost, made again", "sandbox", s->spec.id, "why", why, NULL);
    atoll_sandbox_apply(s, ATOLL_ON_RECREATE, why);
    s->removing = true;
    atoll_sandbox_abort_resumes(s, why);
    atoll_exec_end_all(s, ATOLL_END_LOST, why);
    atoll_sandbox_make_again(s, why, remains);
}
