#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "engine/engine_internal.h"

/*
 * After the death of a daemon: the store says what there was, the provider says what lives, the
 * agents say which commands run. Living sandboxes are adopted and their readers can go on where they
 * were; what has no row is removed; what has a row and does not live any more ends truthfully.
 */

/* One whose time was over while no daemon was there is taken over before it is ended: it may be one
 * that is not to be destroyed. */
#define ADOPTION_MS 500

struct recovery {
    struct atoll_engine *engine;
    struct atoll_map found; /* by id, of struct found, owned: what the provider has */
    unsigned waiting;       /* adoptions under way, and one for ourselves */
    void (*done)(void *arg, const struct atoll_error *error);
    void *arg;
};

struct found {
    char id[ATOLL_ID_LEN + 1];
    char handle[129];
    bool alive;
};

/* An adoption under way. */
struct adoption {
    struct atoll_sandbox *sandbox;
    void (*done)(void *arg);
    void *arg;
};

static void release(struct recovery *r, const struct atoll_error *error)
{
    size_t pos = 0;
    struct found *f;

    if (error == NULL && --r->waiting > 0)
        return;
    while ((f = atoll_map_next(&r->found, &pos)) != NULL)
        free(f);
    atoll_map_done(&r->found);
    r->engine->recovering = false;
    atoll_pool_refill(r->engine);
    r->done(r->arg, error);
    free(r);
}

/* Loading the rows. */

static int load_sandbox(void *arg, const struct atoll_store_sandbox *row, struct atoll_error *err)
{
    struct recovery *r = arg;
    struct atoll_template *t = atoll_map_get(&r->engine->templates, row->template_name);
    struct atoll_spec spec = {
        .limits = {row->memory_bytes, row->cpu_millis, row->pids, row->disk_bytes, row->inodes,
                   row->open_files, row->timeout_s},
        .waived = row->waived,
        .outside_id = row->outside_id,
        .allow_sudo = true,
    };
    struct atoll_sandbox *s;

    if (!atoll_text_is_id(row->id) || strlen(row->id) != ATOLL_ID_LEN)
        return atoll_fail(err, ATOLL_ERR_DATA_LOSS, EBADMSG, "stored sandbox has the id %.40s",
                          row->id);
    if (!t) /* removed meanwhile: the record only needs a name to show */
        t = atoll_map_get(&r->engine->templates, "host");
    spec.template_kind = t->kind;
    spec.layer_base = t->layer_base;
    spec.persistent = row->persistent;
    if (*row->layer) { /* as it was then: a stopped one starts on the same */
        spec.template_kind = ATOLL_TEMPLATE_ROOTFS;
        spec.layer_base = ATOLL_LAYER_BASE;
    }
    if (atoll_text_copy(spec.layer, sizeof(spec.layer), row->layer) < 0)
        return atoll_fail(err, ATOLL_ERR_DATA_LOSS, EBADMSG, "stored sandbox has a bad layer");
    s = atoll_sandbox_prepare_as(r->engine, &spec, t, row->id);
    if (!s)
        return atoll_fail_errno(err, ENOMEM, "sandbox");
    r->engine->public_count++;
    s->state = (enum atoll_sandbox_state)row->state;
    s->pooled = row->pooled;
    s->boot_ms = (double)row->boot_us / 1000;
    s->created_unix_ms = row->created_unix_ms;
    s->created_ms = atoll_clock_ms() - (atoll_clock_unix_ms() - row->created_unix_ms);
    s->expires_unix_ms = row->expires_unix_ms;
    s->paused_unix_ms = row->paused_unix_ms;
    (void)snprintf(s->cause, sizeof(s->cause), "%s", row->cause);
    (void)snprintf(s->owner, sizeof(s->owner), "%s", row->owner);
    memcpy(s->spec.tenant, s->owner, sizeof(s->owner));
    s->metadata_json = row->metadata_json ? strdup(row->metadata_json) : NULL;
    s->facade_json = row->facade_json ? strdup(row->facade_json) : NULL;
    s->lifetime = (struct atoll_lifetime){
        .idle_s = row->idle_s,
        .lease_s = row->lease_s,
        .connection_lease = row->connection_lease,
        .cpu_budget_s = row->cpu_budget_s,
        .output_budget_bytes = row->output_budget_bytes,
        .at_deadline = (enum atoll_at_deadline)row->at_deadline,
        .persistent = row->persistent,
    };
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

/* Output of commands nobody can ask for any more. */
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
            (void)unlinkat(dirfd(dir), entry->d_name, 0);
    }
    if (dir)
        (void)closedir(dir);
}

/* Adopting. */

static void end_adoption(struct adoption *a)
{
    a->done(a->arg);
    free(a);
}

static void on_plain(void *arg, const struct atoll_answer *answer)
{
    struct atoll_sandbox *s = arg;

    if (answer->error)
        atoll_log(ATOLL_LOG_ERROR, "adoption", "sandbox", s->spec.id, "error", answer->error->text,
                  NULL);
}

static void on_met(void *arg, const struct atoll_error *error)
{
    struct adoption *a = arg;

    if (!error)
        atoll_lifetime_begin(a->sandbox);
    end_adoption(a);
}

static void on_note(void *arg, const struct atoll_answer *answer)
{
    struct atoll_sandbox *s = arg;
    struct atoll_am_data note;
    struct atoll_error err;

    if (!answer->error &&
        atoll_msg_decode(&atoll_am_data_desc, answer->frame->payload, answer->frame->len, &note,
                         &err) == 0 &&
        note.data.len > 0 && !s->env)
        s->env = atoll_strings_split(note.data.data, note.data.len);
}

static void on_adopted(void *arg, int agent_fd, uint64_t boot_us, const struct atoll_error *error)
{
    struct adoption *a = arg;
    struct atoll_sandbox *s = a->sandbox;
    struct atoll_error err;
    int r = error ? error->errnum : 0;

    (void)boot_us;
    if (!error)
        r = atoll_sandbox_open_agent(s, agent_fd, &err);
    if (r == 0)
        r = atoll_sandbox_ask(s, ATOLL_AGENT_NOTE_GET, NULL, NULL, on_note, s, &err);
    /* A daemon may have died on the way to a pause that never was. */
    if (r == 0)
        r = atoll_sandbox_ask(s, ATOLL_AGENT_RESUME, NULL, NULL, on_plain, s, &err);
    if (r == 0) {
        atoll_sandbox_meet_execs(s, "the daemon died before the command was started", on_met, a);
        return;
    }
    atoll_sandbox_fail(s, "its agent could not be reached again", true);
    end_adoption(a);
}

void atoll_sandbox_adopt(struct atoll_sandbox *s, void (*done)(void *arg), void *arg)
{
    struct adoption *a = calloc(1, sizeof(*a));

    if (!a)
        abort(); /* a small fixed object: the daemon is crash-only */
    *a = (struct adoption){s, done, arg};
    s->remains = true;
    s->provider->ops->adopt(s->provider, &s->spec, on_adopted, a);
}

static void adopted(void *arg)
{
    release(arg, NULL);
}

/* Deciding. */

static void ignore(void *arg, const struct atoll_error *error)
{
    (void)arg;
    (void)error;
}

/* Whether it was frozen already or not: the row says that it is to be. */
static void on_frozen(void *arg, const struct atoll_error *error)
{
    (void)arg;
    if (error)
        atoll_log(ATOLL_LOG_ERROR, "paused sandbox not frozen", "error", error->text, NULL);
}

/* Those that do not run: nobody is asked inside. */
static void decide_resting(struct atoll_sandbox *s, const struct found *f)
{
    s->remains = true;
    if (s->state == ATOLL_SANDBOX_PAUSED)
        s->provider->ops->pause(s->provider, &s->spec, on_frozen, NULL);
    else if (f) /* a dead daemon may have begun to stop it, or to start it */
        s->provider->ops->stop(s->provider, &s->spec, ignore, NULL);
}

static void decide(struct recovery *r, struct atoll_sandbox *s)
{
    const struct found *f = atoll_map_get(&r->found, s->spec.id);
    bool lives = f && f->alive;
    int64_t left_ms = s->expires_unix_ms - atoll_clock_unix_ms();

    if (s->lifetime.persistent || s->state == ATOLL_SANDBOX_PAUSED)
        s->provider->ops->reserve(s->provider, &s->spec);
    s->remains = f != NULL;
    atoll_lifetime_recount(s);
    if (s->state == ATOLL_SANDBOX_STOPPING) {
        s->state = ATOLL_SANDBOX_RUNNING; /* so that destroying begins anew */
        atoll_sandbox_destroy(s, "the destruction a dead daemon had begun", NULL, NULL);
    } else if (s->lifetime.connection_lease) {
        atoll_lifetime_over(s, ATOLL_OVER_CONNECTION); /* it was open to a daemon that is dead */
    } else if (s->state == ATOLL_SANDBOX_STOPPED || (s->state == ATOLL_SANDBOX_PAUSED && lives)) {
        decide_resting(s, f);
    } else if ((s->state == ATOLL_SANDBOX_RUNNING || s->state == ATOLL_SANDBOX_PAUSED) && !lives) {
        atoll_sandbox_fail(s, "it ended while no daemon was there", true);
    } else if (s->state == ATOLL_SANDBOX_RUNNING) {
        if (s->expires_unix_ms)
            atoll_sandbox_arm_deadline_in(s, ATOLL_MAX(left_ms, (int64_t)ADOPTION_MS));
        r->waiting++;
        atoll_sandbox_adopt(s, adopted, r);
    }
}

static void on_found(void *arg, const char *id, const char *handle, bool alive)
{
    struct recovery *r = arg;
    struct found *f;

    if (atoll_map_get(&r->found, id))
        return; /* the disk of one that was named already */
    f = calloc(1, sizeof(*f));
    if (!f || atoll_text_copy(f->id, sizeof(f->id), id) < 0 ||
        atoll_map_put(&r->found, f->id, f) < 0)
        abort(); /* out of memory at the start: nothing is lost yet */
    (void)snprintf(f->handle, sizeof(f->handle), "%s", handle);
    f->alive = alive;
}

static void remove_stray(struct atoll_provider *provider, const struct found *f)
{
    struct atoll_spec spec = {0};

    memcpy(spec.id, f->id, sizeof(spec.id));
    memcpy(spec.handle, f->handle, sizeof(spec.handle));
    provider->ops->destroy(provider, &spec, ignore, NULL);
}

static void on_listed(void *arg, const struct atoll_error *error)
{
    struct recovery *r = arg;
    struct atoll_provider *provider = r->engine->config.provider;
    struct atoll_sandbox *s;
    struct found *f;
    size_t pos = 0;

    if (error) {
        release(r, error);
        return;
    }
    while ((s = atoll_map_next(&r->engine->sandboxes, &pos)) != NULL)
        decide(r, s);
    for (pos = 0; (f = atoll_map_next(&r->found, &pos)) != NULL;)
        if (!atoll_map_get(&r->engine->sandboxes, f->id))
            remove_stray(provider, f);
    sweep_journals(r->engine);
    atoll_env_sweep(r->engine);
    release(r, NULL);
}

void atoll_engine_recover(struct atoll_engine *engine,
                          void (*done)(void *arg, const struct atoll_error *error), void *arg)
{
    struct recovery *r = calloc(1, sizeof(*r));
    struct atoll_error err;
    int result;

    if (!r)
        abort(); /* a small fixed object: the daemon is crash-only */
    *r = (struct recovery){.engine = engine, .waiting = 1, .done = done, .arg = arg};
    atoll_map_init(&r->found);
    engine->recovering = true;
    result = atoll_store_each_sandbox(engine->config.store, load_sandbox, r, &err);
    if (result == 0)
        result = atoll_store_each_exec(engine->config.store, load_exec, r, &err);
    if (result == 0)
        result = atoll_artifacts_load_wishes(engine, &err);
    if (result < 0)
        release(r, &err);
    else
        engine->config.provider->ops->list(engine->config.provider, on_found, on_listed, r);
}
