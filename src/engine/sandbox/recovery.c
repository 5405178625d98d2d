#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "engine/build/build_internal.h"
#include "engine/engine_internal.h"
#include "engine/network/network.h"
#include "engine/state/checkpoint.h"
#include "engine/state/state.h"
#include "sandbox/stack.h"

/*
 * Recovery after the death of a daemon. The store has the records, the providers list the living
 * sandboxes, the agents list the running commands. Living sandboxes are adopted, and their readers
 * can continue at their offsets; a sandbox without a row is removed; a sandbox with a row that does
 * not live any more is failed with its cause.
 *
 * If a provider does not answer, its sandboxes become UNREACHABLE, which says nothing about their
 * real state; the provider is asked again when it is healthy. The start waits for slow providers
 * only for a short time.
 *
 * Later, providers are asked periodically for orphans: a create whose answer did not come in time
 * may still have succeeded.
 */

/* A sandbox that expired while no daemon ran is adopted before it is ended, since it may have to be
 * paused or stopped instead of destroyed. */
#define ADOPTION_MS 500

/* How long the daemon's start waits for a provider. */
#define START_WAIT_MS 5000

/* How long recovery waits for an agent that does not answer. */
#define AGENT_MS 3000

#define ORPHANS_MS 300000

/* The recovery at the daemon's start. */
struct recovery {
    struct atoll_engine *engine;
    unsigned waiting; /* providers that have not answered, plus one for the start itself */
    struct atoll_timer timeout;
    void (*done)(void *arg, const struct atoll_error *error);
    void *arg;
};

/* The recovery of one provider's sandboxes. */
struct recovering {
    struct atoll_provider_entry *entry;
    struct atoll_map found; /* by id, of struct found, owned: what the provider has */
    unsigned waiting;       /* adoptions in progress, plus one for the listing itself */
    struct recovery *start; /* the start that waits for this, or NULL */
};

struct found {
    char id[ATOLL_ID_LEN + 1];
    char handle[129];
    bool alive;
};

/* An adoption in progress. Holds the id: the sandbox may be destroyed meanwhile. */
struct adoption {
    struct atoll_engine *engine;
    char id[ATOLL_ID_LEN + 1];
    struct atoll_timer timeout; /* for the agent's list of commands */
    void (*done)(void *arg);    /* NULL once it was called */
    void *arg;
};

static void release(struct recovery *r, const struct atoll_error *error)
{
    if (error == NULL && --r->waiting > 0)
        return;
    atoll_timer_cancel(&r->timeout);
    r->engine->recovering = false;
    r->engine->recovery = NULL;
    atoll_network_recovered(r->engine->network);
    atoll_pool_refill(r->engine);
    if (!error)
        atoll_makes_recover(r->engine);
    r->done(r->arg, error);
    free(r);
}

static void end_recovering(struct recovering *h)
{
    struct recovery *start = h->start;
    size_t pos = 0;
    struct found *f;

    if (--h->waiting > 0)
        return;
    h->entry->listing = false;
    while ((f = atoll_map_next(&h->found, &pos)) != NULL)
        free(f);
    atoll_map_done(&h->found);
    h->entry->recovering = NULL;
    free(h);
    if (start)
        release(start, NULL);
}

/* Loading the rows. */

/* Rows of earlier versions of Atoll have the name of the template only. */
static struct atoll_version *version_of(struct atoll_engine *engine,
                                        const struct atoll_store_sandbox *row)
{
    struct atoll_version *v = NULL;
    struct atoll_error ignored;

    if (*row->version)
        v = atoll_map_get(&engine->template_tables.versions, row->version);
    else
        v = atoll_version_resolve(engine, row->owner, row->template_name, &ignored);
    /* Removed meanwhile: the record only needs a name to show. */
    return v ? v : engine->template_tables.host;
}

static bool is_half(const struct atoll_version *v)
{
    return strcmp(v->source, ATOLL_SOURCE_FORKING) == 0;
}

static int load_sandbox(void *arg, const struct atoll_store_sandbox *row, struct atoll_error *err)
{
    struct recovery *r = arg;
    struct atoll_version *v = version_of(r->engine, row);
    struct atoll_spec spec = {
        .limits = row->options.limits,
        .waived = row->options.waived,
        .outside_id = row->outside_id,
        .persistent = row->options.lifetime.persistent,
        .network = row->options.network,
        .allow_sudo = true,
    };
    struct atoll_provider_entry *provider_entry;
    struct atoll_sandbox *s;

    if (!atoll_text_is_id(row->id) || strlen(row->id) != ATOLL_ID_LEN)
        return atoll_fail(err, ATOLL_ERR_DATA_LOSS, EBADMSG, "stored sandbox has the id %.40s",
                          row->id);
    spec.template_kind = v->kind;
    spec.layer_base = v->layer_base;
    if (*row->layer ||
        *row->layers) { /* the layer at that time: a stopped sandbox starts on the same one */
        spec.template_kind = ATOLL_TEMPLATE_ROOTFS;
        spec.layer_base = ATOLL_LAYER_BASE;
    }
    spec.layers = row->layers;
    if (atoll_text_copy(spec.layer, sizeof(spec.layer), row->layer) < 0 ||
        (*row->layers && atoll_stack_check(row->layers, err) < 0))
        return atoll_fail(err, ATOLL_ERR_DATA_LOSS, EBADMSG, "stored sandbox has a bad layer");
    if (atoll_text_copy(spec.handle, sizeof(spec.handle), row->handle) < 0 ||
        atoll_text_copy(spec.image, sizeof(spec.image), row->image) < 0)
        return atoll_fail(err, ATOLL_ERR_DATA_LOSS, EBADMSG, "stored sandbox has a bad handle");
    provider_entry = atoll_provider_entry_by_name(r->engine, row->provider);
    if (!provider_entry &&
        !(provider_entry = atoll_provider_entry_absent(r->engine, row->provider, err)))
        return -ENOMEM;
    s = atoll_sandbox_prepare_as(r->engine, &spec, v, row->id);
    if (!s)
        return atoll_fail_errno(err, ENOMEM, "sandbox");
    /* A dead daemon had not made all sandboxes of a fork. */
    if (atoll_sandbox_load_phase(s, is_half(v) ? ATOLL_SANDBOX_STOPPING : row->state, err) < 0)
        return -EBADMSG;
    s->keeps_env = s->phase == ATOLL_PHASE_UNRESTORED;
    s->entry = provider_entry;
    s->provider = provider_entry->provider;
    if (atoll_options_dup(&s->options, &row->options, err) < 0)
        return -ENOMEM;
    s->spec.credential = s->options.credential;
    s->options.network_is_given = true; /* it has its network, whatever the default is now */
    r->engine->public_count++;
    s->was_loaded = s->stored = true;
    s->pooled = row->pooled;
    s->boot_ms = (double)row->boot_us / 1000;
    s->created_unix_ms = row->created_unix_ms;
    s->created_ms = atoll_clock_ms() - (atoll_clock_unix_ms() - row->created_unix_ms);
    s->expires_unix_ms = row->expires_unix_ms;
    s->paused_unix_ms = row->paused_unix_ms;
    (void)snprintf(s->cause, sizeof(s->cause), "%s", row->cause);
    (void)snprintf(s->spec.tenant, sizeof(s->spec.tenant), "%s", row->owner);
    s->spec.history_bytes = row->history_bytes;
    atoll_tenant_enter(s);
    s->options.mounts = atoll_mounts_read(row->mounts, &s->options.mount_count);
    s->spec.disk_choice = atoll_options_disk(&s->options);
    s->cpu_spent_us = row->cpu_spent_us;
    s->output_spent_bytes = row->output_spent_bytes;
    return 0;
}

static int load_exec(void *arg, const struct atoll_store_exec *row, struct atoll_error *err)
{
    struct recovery *r = arg;
    struct atoll_sandbox *s = atoll_map_get(&r->engine->sandboxes, row->sandbox_id);

    return s ? atoll_exec_restore(s, row, err) : 0;
}

/* Journals of other execs belong to ended sandboxes, or to no sandbox. */
static void sweep_journals(struct atoll_engine *engine)
{
    int fd = openat(engine->journal_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *entry;

    while (dir && (entry = readdir(dir)) != NULL) {
        char id[ATOLL_ID_LEN + 1] = "";
        struct atoll_sandbox *s;

        if (entry->d_name[0] == '.')
            continue;
        if (strlen(entry->d_name) == ATOLL_ID_LEN + 1 + 16)
            memcpy(id, entry->d_name, ATOLL_ID_LEN);
        s = atoll_map_get(&engine->sandboxes, id);
        if (!s || !atoll_map_get(&s->execs, entry->d_name + ATOLL_ID_LEN + 1))
            atoll_ended_output_rescue(engine, entry->d_name);
    }
    if (dir)
        (void)closedir(dir);
    atoll_ended_output_load(engine);
}

/* Adoption. */

/* Idle time and lease start now, also if the agent was not reached yet. */
static void report_adopted(struct adoption *a)
{
    void (*done)(void *arg) = ATOLL_TAKE_PTR(a->done);
    struct atoll_sandbox *s = atoll_map_get(&a->engine->sandboxes, a->id);

    if (s && atoll_sandbox_state(s) == ATOLL_SANDBOX_RUNNING)
        atoll_lifetime_begin(s);
    done(a->arg);
}

static void end_adoption(struct adoption *a)
{
    atoll_timer_cancel(&a->timeout);
    if (a->done)
        report_adopted(a);
    free(a);
}

/* A silent agent delays only its own sandbox; its commands are continued when it answers. */
static void on_agent_silent(void *arg)
{
    report_adopted(arg);
}

static void on_plain(void *arg, const struct atoll_reply *answer)
{
    struct atoll_sandbox *s = arg;

    if (answer->error)
        atoll_log(ATOLL_LOG_ERROR, "adoption", "sandbox", s->spec.id, "error", answer->error->text,
                  NULL);
}

static void on_execs_continued(void *arg, const struct atoll_error *error)
{
    struct adoption *a = arg;
    struct atoll_sandbox *s = atoll_map_get(&a->engine->sandboxes, a->id);

    if (error && s && atoll_sandbox_state(s) == ATOLL_SANDBOX_RUNNING) {
        /* Its commands cannot be continued over this connection. */
        atoll_sandbox_drop_agent(s, error->text);
        atoll_sandbox_reattach(s);
    }
    end_adoption(a);
}

static void on_note(void *arg, const struct atoll_reply *answer)
{
    struct atoll_sandbox *s = arg;
    struct atoll_am_data note;
    struct atoll_error err;

    if (!answer->error &&
        atoll_msg_decode(&atoll_am_data_desc, answer->frame->payload, answer->frame->len, &note,
                         &err) == 0 &&
        note.data.len > 0 && !s->options.env)
        s->options.env = (const char *const *)atoll_strings_split(note.data.data, note.data.len);
}

/* NULL when the adoption was superseded: the sandbox was destroyed, stopped or started again. */
static struct atoll_sandbox *still(const struct adoption *a)
{
    struct atoll_sandbox *s = atoll_map_get(&a->engine->sandboxes, a->id);
    bool waits =
        s && (atoll_sandbox_state(s) == ATOLL_SANDBOX_RUNNING || s->phase == ATOLL_PHASE_RESUMING);

    return waits && !s->agent ? s : NULL;
}

static void on_adopted(void *arg, int agent_fd, uint64_t boot_us, const struct atoll_error *error)
{
    struct adoption *a = arg;
    struct atoll_sandbox *s = still(a);
    struct atoll_error err;
    int r = error ? error->errnum : 0;

    (void)boot_us;
    if (!s) {
        if (agent_fd >= 0)
            atoll_engine_discard(a->engine, a->id, agent_fd);
        end_adoption(a);
        return;
    }
    if (error &&
        (error->kind == ATOLL_ERR_UNAVAILABLE || error->kind == ATOLL_ERR_DEADLINE_EXCEEDED)) {
        atoll_sandbox_reattach(s); /* no answer yet, which says nothing about the sandbox */
        end_adoption(a);
        return;
    }
    if (!error)
        r = atoll_sandbox_open_agent(s, agent_fd, &err);
    if (r == 0)
        r = atoll_sandbox_ask(s, ATOLL_AGENT_NOTE_GET, NULL, NULL, on_note, s, &err);
    /* A daemon may have died between the agent's pause and the freeze: undo it. */
    if (r == 0)
        r = atoll_sandbox_ask(s, ATOLL_AGENT_RESUME, NULL, NULL, on_plain, s, &err);
    if (r == 0) {
        atoll_timer_set(&a->timeout, a->engine->loop, AGENT_MS, on_agent_silent, a);
        atoll_sandbox_continue_execs(s, "the daemon died before the command was started",
                                     on_execs_continued, a);
        return;
    }
    atoll_sandbox_fail(s, "its agent could not be reached again", true);
    end_adoption(a);
}

void atoll_sandbox_adopt(struct atoll_sandbox *s, void (*done)(void *arg), void *arg)
{
    struct adoption *a = atoll_alloc(sizeof(*a));

    *a = (struct adoption){.engine = s->engine, .done = done, .arg = arg};
    memcpy(a->id, s->spec.id, sizeof(a->id));
    atoll_sandbox_end_reattach(s); /* otherwise there would be two connections */
    s->remains = true;
    s->provider->ops->adopt(s->provider, &s->spec, on_adopted, a);
}

static void adopted(void *arg)
{
    end_recovering(arg);
}

/* Deciding about each sandbox. */

static void ignore(void *arg, const struct atoll_error *error)
{
    (void)arg;
    (void)error;
}

/* The row says paused; the sandbox may or may not have been frozen already. */
static void on_frozen(void *arg, const struct atoll_error *error)
{
    (void)arg;
    if (error)
        atoll_log(ATOLL_LOG_ERROR, "paused sandbox not frozen", "error", error->text, NULL);
}

/* Paused and stopped sandboxes: their agents are not connected. */
static void decide_resting(struct atoll_sandbox *s, const struct found *f)
{
    s->remains = true;
    if (s->phase == ATOLL_PHASE_PAUSED)
        s->provider->ops->pause(s->provider, &s->spec, on_frozen, NULL);
    else if (f) /* a dead daemon may have begun to stop or start it */
        s->provider->ops->stop(s->provider, &s->spec, ignore, NULL);
}

/* Completes the restore: the row has the new stack. */
static void decide_unrestored(struct atoll_sandbox *s)
{
    atoll_sandbox_apply(s, ATOLL_ON_RESTORE, NULL);
    atoll_exec_end_all(s, ATOLL_END_KILLED_BY, "restore");
    atoll_sandbox_make_again(s, "the sandbox is being restored", true);
}

static void decide(struct recovering *h, struct atoll_sandbox *s)
{
    const struct found *f = atoll_map_get(&h->found, s->spec.id);
    bool lives = f && f->alive;
    int64_t left_ms = s->expires_unix_ms - atoll_clock_unix_ms();

    if (s->options.lifetime.persistent || s->phase == ATOLL_PHASE_PAUSED)
        s->provider->ops->reserve(s->provider, &s->spec);
    s->remains = f != NULL;
    atoll_lifetime_recount(s);
    if (lives && (s->phase == ATOLL_PHASE_RUNNING || s->phase == ATOLL_PHASE_PAUSED))
        atoll_network_attach(s, NULL, NULL);
    if (atoll_sandbox_allows(s, ATOLL_ON_LISTED)) {
        atoll_sandbox_continue_destroy(s);
    } else if (s->phase == ATOLL_PHASE_UNRESTORED) {
        decide_unrestored(s);
    } else if (s->options.lifetime.connection_lease) {
        /* The connection ended with the dead daemon. */
        atoll_lifetime_over(s, ATOLL_OVER_CONNECTION);
    } else if (s->phase == ATOLL_PHASE_STOPPED || (s->phase == ATOLL_PHASE_PAUSED && lives)) {
        decide_resting(s, f);
    } else if (s->phase == ATOLL_PHASE_FAILED && s->options.lifetime.persistent) {
        /* It could not be stopped, and its disk must be kept: the row of a sandbox to be destroyed
         * says STOPPING. */
        atoll_sandbox_halt(s, ATOLL_END_LOST, "a dead daemon could not stop its sandbox", "");
    } else if (atoll_sandbox_allows(s, ATOLL_ON_DIED) && !lives) {
        atoll_sandbox_fail(s, "it ended while no daemon was running", true);
    } else if (s->phase == ATOLL_PHASE_RUNNING) {
        if (s->expires_unix_ms)
            atoll_sandbox_arm_deadline_in(s, ATOLL_MAX(left_ms, (int64_t)ADOPTION_MS));
        h->waiting++;
        atoll_sandbox_adopt(s, adopted, h);
    }
}

static void on_found(void *arg, const char *id, const char *handle, bool alive)
{
    struct recovering *h = arg;
    struct found *f;

    if (atoll_map_get(&h->found, id))
        return; /* the disk of a sandbox that was listed already */
    f = calloc(1, sizeof(*f));
    if (!f || atoll_text_copy(f->id, sizeof(f->id), id) < 0 ||
        atoll_map_put(&h->found, f->id, f) < 0)
        abort(); /* out of memory: the daemon is crash-only */
    (void)snprintf(f->handle, sizeof(f->handle), "%s", handle);
    f->alive = alive;
}

static void remove_orphan(struct atoll_provider *provider, const struct found *f)
{
    struct atoll_spec spec = {0};

    memcpy(spec.id, f->id, sizeof(spec.id));
    memcpy(spec.handle, f->handle, sizeof(spec.handle));
    atoll_log(ATOLL_LOG_INFO, "removing an orphaned sandbox", "provider", provider->ops->name,
              "sandbox", f->id, NULL);
    provider->ops->destroy(provider, &spec, ignore, NULL);
}

/* Marks the provider's sandboxes as unreachable. */
static void mark_unreachable(struct atoll_provider_entry *provider_entry, const char *why)
{
    struct atoll_sandbox *s;
    size_t pos = 0;
    char cause[200];

    (void)snprintf(cause, sizeof(cause), "provider %s does not answer: %.140s",
                   provider_entry->provider->ops->name, why);
    while ((s = atoll_map_next(&provider_entry->engine->sandboxes, &pos)) != NULL) {
        if (s->entry != provider_entry || !s->was_loaded ||
            !atoll_sandbox_allows(s, ATOLL_ON_NO_ANSWER))
            continue;
        atoll_sandbox_apply(s, ATOLL_ON_NO_ANSWER, cause);
        s->remains = true;
    }
}

/* Decides about the sandboxes of an earlier daemon that were not decided yet. */
static void decide_all(struct recovering *h)
{
    struct atoll_engine *engine = h->entry->engine;
    struct atoll_sandbox *s;
    size_t pos = 0;

    while ((s = atoll_map_next(&engine->sandboxes, &pos)) != NULL) {
        if (s->entry != h->entry || !s->was_loaded)
            continue;
        s->was_loaded = false;
        if (atoll_sandbox_state(s) == ATOLL_SANDBOX_UNREACHABLE)
            atoll_sandbox_apply(s, ATOLL_ON_LISTED, "");
        decide(h, s);
        pos = 0; /* the map may have changed */
    }
}

/* A provider lists what its own key can see. A sandbox of a client's own key counts as found: its adoption
 * finds out whether it still exists. */
static void find_those_with_keys(struct recovering *h)
{
    struct atoll_sandbox *s;
    size_t pos = 0;

    while ((s = atoll_map_next(&h->entry->engine->sandboxes, &pos)) != NULL)
        if (s->entry == h->entry && s->was_loaded && s->spec.credential && s->spec.handle[0])
            on_found(h, s->spec.id, s->spec.handle, true);
}

static void on_listed(void *arg, const struct atoll_error *error)
{
    struct recovering *h = arg;
    struct atoll_provider_entry *provider_entry = h->entry;
    struct found *f;
    size_t pos = 0;

    if (error) {
        atoll_log(ATOLL_LOG_WARN, "provider does not list its sandboxes", "provider",
                  provider_entry->provider->ops->name, "error", error->text, NULL);
        mark_unreachable(provider_entry, error->text);
        end_recovering(h);
        return;
    }
    provider_entry->listed = true;
    find_those_with_keys(h);
    decide_all(h);
    for (; (f = atoll_map_next(&h->found, &pos)) != NULL;)
        if (!atoll_map_get(&provider_entry->engine->sandboxes, f->id))
            remove_orphan(provider_entry->provider, f);
    end_recovering(h);
}

static void list_sandboxes(struct atoll_provider_entry *provider_entry, struct recovery *start)
{
    struct recovering *h = atoll_alloc(sizeof(*h));
    uint32_t orphans_ms = provider_entry->config.orphans_ms;

    provider_entry->list_at_ms = atoll_clock_ms() + (orphans_ms ? orphans_ms : ORPHANS_MS);
    *h = (struct recovering){.entry = provider_entry, .waiting = 1, .start = start};
    atoll_map_init(&h->found);
    provider_entry->listing = true;
    provider_entry->recovering = h;
    provider_entry->provider->ops->list(provider_entry->provider, on_found, on_listed, h);
}

void atoll_recover_provider_entry(struct atoll_provider_entry *provider_entry)
{
    if (!provider_entry->listing)
        list_sandboxes(provider_entry, NULL);
}

/* Ends the start; providers that have not answered yet are handled when they do. */
static void start_timed_out(void *arg)
{
    struct recovery *r = arg;
    struct atoll_engine *engine = r->engine;

    for (size_t i = 0; i < engine->entry_count && engine->recovery; i++) {
        struct recovering *h = engine->entries[i]->recovering;

        if (!h || !h->start)
            continue;
        h->start = NULL;
        if (!engine->entries[i]->listed)
            mark_unreachable(engine->entries[i], "it has not listed its sandboxes yet");
        release(r, NULL); /* the last reference ends the recovery */
    }
}

void atoll_engine_recover(struct atoll_engine *engine,
                          void (*done)(void *arg, const struct atoll_error *error), void *arg)
{
    struct recovery *r = atoll_alloc(sizeof(*r));
    struct atoll_error err;
    int result;

    *r = (struct recovery){.engine = engine, .waiting = 1, .done = done, .arg = arg};
    engine->recovering = true;
    engine->recovery = r;
    result = atoll_store_each_sandbox(engine->config.store, load_sandbox, r, &err);
    if (result == 0 && atoll_store_sweep_execs(engine->config.store, &err) < 0)
        atoll_log(ATOLL_LOG_ERROR, "state not stored", "what", "end of commands", "error", err.text,
                  NULL);
    if (result == 0)
        result = atoll_store_each_exec(engine->config.store, load_exec, r, &err);
    if (result == 0)
        result = atoll_checkpoints_load(engine, &err);
    if (result == 0)
        result = atoll_artifacts_load_requests(engine, &err);
    if (result < 0) {
        release(r, &err);
        return;
    }
    sweep_journals(engine);
    atoll_journals_expire(engine);
    atoll_ended_start(engine);
    atoll_snapshots_start(engine);
    atoll_env_sweep(engine);
    atoll_layers_open(engine);
    atoll_timer_set(&r->timeout, engine->loop, START_WAIT_MS, start_timed_out, r);
    for (size_t i = 0; i < engine->entry_count; i++) {
        const struct atoll_provider_entry *entry = engine->entries[i];
        /* The start does not wait for a service that requests may never name. */
        bool waits = !entry->config.named_only || atoll_provider_entry_count_sandboxes(entry) > 0;

        r->waiting += waits;
        list_sandboxes(engine->entries[i], waits ? r : NULL);
    }
    atoll_provider_entries_start(engine);
    release(r, NULL);
}
