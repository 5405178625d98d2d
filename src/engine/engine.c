#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "base/clock.h"
#include "engine/build/build_internal.h"
#include "engine/engine_internal.h"
#include "engine/file/inband.h"
#include "engine/network/network.h"
#include "engine/network/secrets.h"
#include "engine/state/capture_queue.h"
#include "engine/state/compare.h"
#include "engine/state/diff.h"
#include "engine/state/history.h"
#include "engine/state/merge.h"
#include "engine/template/pull.h"
#include "engine/template/unpack.h"
#include "engine/volume/opened.h"

#define PROGRESS_MS 1000 /* minimum interval of progress events of one create */

#define DEFAULT_MAX_SANDBOXES 4096
#define DEFAULT_JOURNAL_MAX (UINT64_C(64) * 1024 * 1024)

static int open_journals(struct atoll_engine *engine, struct atoll_error *err)
{
    int r = mkdirat(engine->state_fd, "journal", 0700) < 0 && errno != EEXIST ? -errno : 0;

    if (r == 0) {
        engine->journal_fd =
            openat(engine->state_fd, "journal", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        r = engine->journal_fd < 0 ? -errno : 0;
    }
    return r < 0 ? atoll_fail_errno(err, -r, "make the journal directory") : 0;
}

static int open_state(struct atoll_engine *engine, struct atoll_error *err)
{
    int r;

    engine->state_dir = strdup(engine->config.state_dir);
    engine->host_json = strdup(engine->config.host_json ? engine->config.host_json : "{}");
    engine->providers_file =
        strdup(engine->config.providers_file ? engine->config.providers_file : "");
    if (!engine->state_dir || !engine->host_json || !engine->providers_file)
        return atoll_fail_errno(err, ENOMEM, "engine");
    r = atoll_operator_networks_open(&engine->operator_networks, &engine->config, err);
    if (r < 0)
        return r;
    engine->state_fd = open(engine->state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (engine->state_fd < 0)
        return atoll_fail_errno(err, errno, "open the state directory");
    r = open_journals(engine, err);
    if (r == 0)
        atoll_journals_open(engine);
    if (r == 0)
        r = atoll_ended_output_open(engine, err);
    if (r == 0)
        r = atoll_events_new(engine->loop, engine->config.store, &engine->events, err);
    if (r == 0)
        r = atoll_artifacts_new(engine, &engine->artifacts, err);
    if (r == 0)
        r = atoll_secrets_new(engine->config.store, engine->config.quota.secrets, &engine->secrets,
                              err);
    if (r == 0)
        r = atoll_network_open(engine, engine->config.egress_program, err);
    engine->config.egress_program = engine->config.cache_table = NULL; /* borrowed for the start */
    if (r == 0)
        r = atoll_images_new(engine, &engine->config.images, &engine->images, err);
    engine->config.images = (struct atoll_images_config){0}; /* likewise */
    return r < 0 ? r : atoll_templates_load(engine, err);
}

int atoll_engine_new(struct atoll_loop *loop, const struct atoll_engine_config *config,
                     struct atoll_engine **ret, struct atoll_error *err)
{
    struct atoll_engine *engine = calloc(1, sizeof(*engine));
    int r;

    if (!engine) {
        for (size_t i = 0; i < config->provider_count; i++)
            (void)config->providers[i].provider->ops->free(config->providers[i].provider);
        (void)atoll_store_close(config->store);
        return atoll_fail_errno(err, ENOMEM, "engine");
    }
    engine->loop = loop;
    engine->config = *config;
    if (!engine->config.max_sandboxes)
        engine->config.max_sandboxes = DEFAULT_MAX_SANDBOXES;
    if (!engine->config.journal_max_bytes)
        engine->config.journal_max_bytes = DEFAULT_JOURNAL_MAX;
    engine->state_fd = engine->journal_fd = engine->ended_output.fd = ATOLL_NO_FD;
    atoll_quota_fill(&engine->config.quota);
    atoll_map_init(&engine->tenants);
    atoll_list_init(&engine->turns);
    atoll_shares_init(&engine->transfers, ATOLL_TRANSFERS_MAX);
    atoll_map_init(&engine->sandboxes);
    atoll_templates_init(engine);
    atoll_list_init(&engine->builds);
    atoll_list_init(&engine->captures);
    atoll_list_init(&engine->capture_waits);
    atoll_list_init(&engine->volumes);
    atoll_list_init(&engine->compares);
    atoll_list_init(&engine->diffs);
    atoll_list_init(&engine->histories);
    atoll_list_init(&engine->undos);
    atoll_list_init(&engine->merges);
    atoll_list_init(&engine->tries);
    atoll_list_init(&engine->unpacks);
    atoll_list_init(&engine->unpack_queue);
    atoll_map_init(&engine->unpack_files);
    r = atoll_provider_entries_open(engine, config, err);
    engine->config.providers = NULL; /* borrowed for this call only */
    if (r == 0 && config->offload)
        r = atoll_offload_new(loop, &engine->offload, err);
    if (r == 0) {
        atoll_pool_init(engine);
        r = open_state(engine, err);
    }
    if (r < 0) {
        (void)atoll_engine_free(engine);
        return r;
    }
    *ret = engine;
    return 0;
}

static void forget_sandboxes(struct atoll_engine *engine)
{
    struct atoll_sandbox *s;
    size_t pos = 0;

    while ((s = atoll_map_next(&engine->sandboxes, &pos)) != NULL) {
        atoll_sandbox_forget(s);
        pos = 0; /* the map has changed */
    }
}

void atoll_engine_stop_files(struct atoll_engine *engine)
{
    if (engine)
        atoll_offload_stop(engine->offload);
}

struct atoll_engine *atoll_engine_free(struct atoll_engine *engine)
{
    if (!engine)
        return NULL;
    atoll_engine_stop_files(engine);
    atoll_layers_close(engine);
    atoll_makes_done(engine); /* reads from sandboxes, and waits for images */
    atoll_compares_done(engine);
    atoll_images_stop(engine->images);
    if (engine->network && engine->sandboxes.used == 0)
        atoll_network_kill(engine->network);
    forget_sandboxes(engine);
    atoll_provider_entries_close(engine);
    engine->network = atoll_network_free(engine->network);
    atoll_builds_done(engine);
    atoll_unpacks_done(engine);
    atoll_volumes_done(engine);
    atoll_diffs_done(engine);
    atoll_histories_done(engine);
    atoll_undos_done(engine);
    atoll_merges_done(engine);
    atoll_tries_done(engine);
    engine->images = atoll_images_free(engine->images);
    atoll_timer_cancel(&engine->reaper);
    atoll_timer_cancel(&engine->sampler);
    atoll_timer_cancel(&engine->unsaved);
    atoll_timer_cancel(&engine->ended_prune);
    atoll_timer_cancel(&engine->snapshot_expiry);
    atoll_pool_done(engine);
    engine->events = atoll_events_free(engine->events);
    atoll_artifacts_end_captures(engine->artifacts);
    engine->artifacts = atoll_artifacts_free(engine->artifacts);
    engine->secrets = atoll_secrets_free(engine->secrets);
    (void)atoll_store_close(engine->config.store);
    atoll_templates_done(engine);
    atoll_quota_done(engine);
    atoll_shares_done(&engine->transfers);
    atoll_journals_done(engine);
    atoll_ended_output_done(engine);
    atoll_map_done(&engine->sandboxes);
    if (engine->journal_fd >= 0)
        (void)close(engine->journal_fd);
    if (engine->state_fd >= 0)
        (void)close(engine->state_fd);
    engine->offload = atoll_offload_free(engine->offload);
    atoll_operator_networks_close(&engine->operator_networks);
    free(engine->state_dir);
    free(engine->host_json);
    free(engine->providers_file);
    free(engine);
    return NULL;
}

struct atoll_secrets *atoll_engine_secrets(struct atoll_engine *engine)
{
    return engine->secrets;
}

const char *atoll_engine_host_json(const struct atoll_engine *engine)
{
    return engine->host_json;
}

static void maybe_ended(void *arg, const struct atoll_error *error)
{
    struct atoll_engine *engine = arg;
    const struct atoll_sandbox *s;
    size_t pos = 0;

    (void)error;
    /* A sandbox whose removal failed does not delay the end: the next daemon removes it. */
    while ((s = atoll_map_next(&engine->sandboxes, &pos)) != NULL)
        if (s->phase != ATOLL_PHASE_STOPPED &&
            !(atoll_sandbox_state(s) == ATOLL_SANDBOX_FAILED && !s->removing))
            return;
    if (!engine->ended)
        return;
    atoll_provider_entries_shutdown(engine);
    atoll_network_end(engine->network);
    engine->ended(engine->ended_arg);
    engine->ended = NULL;
}

void atoll_engine_shutdown(struct atoll_engine *engine, void (*done)(void *arg), void *arg)
{
    size_t pos = 0;
    struct atoll_sandbox *sandbox;

    engine->ending = true;
    atoll_captures_shutdown(engine);
    while ((sandbox = atoll_map_next(&engine->sandboxes, &pos)) != NULL)
        if (sandbox->options.lifetime.persistent && atoll_sandbox_allows(sandbox, ATOLL_ON_STOP))
            atoll_sandbox_stop(sandbox, "the daemon was stopped", ATOLL_STOP_WRITTEN, maybe_ended,
                               engine);
        else
            atoll_sandbox_destroy(sandbox, "the daemon was stopped", maybe_ended, engine);
    engine->ended = done; /* set last: maybe_ended() must not end before the loop has visited all */
    engine->ended_arg = arg;
    maybe_ended(engine, NULL);
}

/* Describes an exit that was not requested. */
static void describe_exit(const struct atoll_provider_exit *e, char *out, size_t cap)
{
    if (e->oom_kills > 0 && e->signal)
        (void)snprintf(
            out, cap,
            "the sandbox's first process was killed by signal %d after %llu out-of-memory "
            "kills (peak %llu bytes)",
            e->signal, (unsigned long long)e->oom_kills, (unsigned long long)e->memory_peak_bytes);
    else if (e->signal)
        (void)snprintf(out, cap, "the sandbox's first process was killed by signal %d", e->signal);
    else
        (void)snprintf(out, cap, "the sandbox's first process exited with status %d", e->code);
}

static void on_exited(void *arg, const char *id, const struct atoll_provider_exit *exit)
{
    struct atoll_provider_entry *entry = arg;
    struct atoll_sandbox *sandbox = atoll_map_get(&entry->engine->sandboxes, id);
    char why[200];

    if (!sandbox || sandbox->entry != entry)
        return;
    describe_exit(exit, why, sizeof(why));
    atoll_sandbox_fail(sandbox, why, true);
}

static void on_lost(void *arg, const char *why)
{
    struct atoll_provider_entry *entry = arg;
    size_t pos = 0;
    struct atoll_sandbox *sandbox;

    while ((sandbox = atoll_map_next(&entry->engine->sandboxes, &pos)) != NULL)
        if (sandbox->entry == entry)
            atoll_sandbox_fail(sandbox, why, false);
    atoll_network_greet(entry->engine->network);
}

/* Emits progress events. Their interval grows to a tenth of the elapsed time, so that a pull of
 * many minutes causes about fifty. */
static void on_progress(void *arg, const char *id, const char *text)
{
    struct atoll_provider_entry *entry = arg;
    struct atoll_sandbox *s = atoll_map_get(&entry->engine->sandboxes, id);
    int64_t now = atoll_clock_ms();

    if (!s || s->entry != entry || atoll_sandbox_state(s) != ATOLL_SANDBOX_CREATING)
        return;
    if (s->options.progress)
        s->options.progress(s->options.progress_arg, text);
    if (s->progress_since_ms == 0)
        s->progress_since_ms = now;
    else if (now - s->progress_ms <
             ATOLL_MAX((int64_t)PROGRESS_MS, (now - s->progress_since_ms) / 10))
        return;
    s->progress_ms = now;
    atoll_events_emit(s->engine, "provider.pull_progress", s, "", text);
}

const struct atoll_provider_events atoll_provider_entry_events = {on_exited, on_lost, on_progress};
