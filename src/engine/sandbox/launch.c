#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "base/memory.h"
#include "base/text.h"
#include "engine/engine_internal.h"
#include "engine/network/network.h"
#include "engine/state/checkpoint.h"
#include "engine/template/defaults.h"
#include "engine/template/load.h"

/*
 * Launch, the last step of a create: a pooled sandbox is handed over, or a new one is made at its
 * place. When a provider fails, placement.c names the next one.
 */

static int apply_options(struct atoll_sandbox *s, const struct atoll_options *options,
                         struct atoll_error *err)
{
    const char *owner = options->owner ? options->owner : ATOLL_OPERATOR_TENANT;

    if (atoll_text_copy(s->spec.tenant, sizeof(s->spec.tenant), owner) < 0)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, ENAMETOOLONG,
                          "the tenant's name is too long");
    atoll_options_free(&s->options); /* a pooled sandbox has the environment of its pool class */
    if (atoll_options_dup(&s->options, options, err) < 0)
        return -ENOMEM;
    s->options.env_is_common = options->env_is_common || !options->env || !*options->env;
    if (options->network != ATOLL_NETWORK_NONE)
        s->options.network_is_given = true;
    s->options.network = s->spec.network; /* if none is given, the default of its provider */
    atoll_checkpoints_open(s);
    return atoll_env_save(s, err) < 0 ? -EIO : atoll_artifacts_apply_request(s, err);
}

static void announce(struct atoll_sandbox *s)
{
    const struct atoll_interpreters *interpreters = &s->engine->interpreters;

    if (s->hidden)
        return;
    if (s->pooled && interpreters->handed_over)
        interpreters->handed_over(interpreters->arg, s->spec.id);
    atoll_sandbox_apply(s, ATOLL_ON_CREATED, "");
    atoll_lifetime_begin(s);
    atoll_pool_note(s);
}

static void ignore(void *arg, const struct atoll_reply *answer)
{
    (void)arg;
    (void)answer;
}

static int ask_user(struct atoll_sandbox *s, atoll_answer_fn *fn, void *arg,
                    struct atoll_error *err)
{
    const struct atoll_am_user msg = {s->options.user};

    return atoll_sandbox_ask(s, ATOLL_AGENT_USER, &atoll_am_user_desc, &msg, fn, arg, err);
}

static void set_workdir(struct atoll_sandbox *s)
{
    /* "+": the default user, with root's rights. */
    const struct atoll_am_mkdir msg = {.user = "+", .path = s->options.workdir, .parents = 1};
    struct atoll_error err;

    (void)!atoll_sandbox_ask(s, ATOLL_AGENT_WORKDIR, &atoll_am_mkdir_desc, &msg, ignore, NULL,
                             &err);
}

/* The environment may contain secrets: the agent keeps it in memory, and the daemon does not store
 * it. */
void atoll_sandbox_tell_env(struct atoll_sandbox *s)
{
    struct atoll_am_data note;
    struct atoll_buf bytes;
    struct atoll_error err;

    if (!s->options.env)
        return;
    atoll_buf_init(&bytes, ATOLL_AGENT_DATA_MAX);
    if (atoll_strings_join(&bytes, s->options.env) == 0) {
        note.data = (struct atoll_bytes){atoll_buf_head(&bytes), atoll_buf_size(&bytes)};
        (void)!atoll_sandbox_ask(s, ATOLL_AGENT_NOTE_PUT, &atoll_am_data_desc, &note, ignore, NULL,
                                 &err);
    }
    atoll_buf_done(&bytes);
}

/* Its default user is known to the agent. */
static void tell_rest(struct atoll_sandbox *s)
{
    if (s->options.workdir)
        set_workdir(s);
    atoll_sandbox_tell_env(s);
}

void atoll_sandbox_tell_agent(struct atoll_sandbox *s)
{
    struct atoll_error err;

    if (s->options.user)
        (void)!ask_user(s, ignore, NULL, &err);
    tell_rest(s);
}

/* A new sandbox. */

static void tell_created(struct atoll_sandbox *s, const struct atoll_error *error)
{
    atoll_sandbox_fn *fn = ATOLL_TAKE_PTR(s->created);

    atoll_options_end_create(&s->options);
    s->spec.login = NULL;
    if (!error)
        announce(s);
    if (fn)
        fn(s->created_arg, error ? NULL : s, error);
}

/* The provider has made it, but it cannot be used. */
static void abandon(struct atoll_sandbox *s, const struct atoll_error *error)
{
    if (s->phase != ATOLL_PHASE_DESTROYING)
        atoll_sandbox_apply(s, ATOLL_ON_UNDO, NULL);
    tell_created(s, error);
    atoll_sandbox_remove_remains(s);
}

/* Its agent knows its user. */
static void complete(struct atoll_sandbox *s)
{
    struct atoll_error err;

    /* Sent before it is stored: a daemon that adopts a stored sandbox does not send it again. */
    tell_rest(s);
    if (!s->hidden) /* the deadline of a pooled one begins when it is handed over */
        atoll_sandbox_arm_deadline(s);
    /* Stored before it is announced, so that it survives a crash. */
    if (atoll_sandbox_apply_stored(s, ATOLL_ON_RUNS, &err) < 0)
        abandon(s, &err);
    else
        tell_created(s, NULL);
}

static void warn_user(struct atoll_sandbox *s)
{
    (void)snprintf(s->spec.warning, sizeof(s->spec.warning),
                   "its commands run as `user`, because this host gives it only one user id");
}

/* Whether the sandbox can go on with the default user of its root. */
static bool goes_without_user(struct atoll_sandbox *s, const struct atoll_error *error)
{
    if (s->options.user_is_optional && (error->kind == ATOLL_ERR_FAILED_PRECONDITION ||
                                        error->kind == ATOLL_ERR_INVALID_ARGUMENT)) {
        atoll_options_set_text(&s->options.user, NULL);
        return true;
    }
    if (error->kind == ATOLL_ERR_FAILED_PRECONDITION) {
        warn_user(s);
        return true;
    }
    return false;
}

static void on_user(void *arg, const struct atoll_reply *answer)
{
    struct atoll_sandbox *s = arg;
    struct atoll_error err;

    if (s->phase == ATOLL_PHASE_DESTROYING) {
        (void)atoll_fail(&err, ATOLL_ERR_ABORTED, ECANCELED,
                         "destroyed while it was being created");
        abandon(s, &err);
    } else if (answer->error && !goes_without_user(s, answer->error)) {
        abandon(s, answer->error);
    } else {
        complete(s);
    }
}

/* Its agent and its network are ready. */
static void on_ready(void *arg, const struct atoll_error *error)
{
    struct atoll_sandbox *s = arg;
    struct atoll_error err;
    int r = 0;

    if (s->phase == ATOLL_PHASE_DESTROYING)
        r = atoll_fail(&err, ATOLL_ERR_ABORTED, ECANCELED, "destroyed while it was being created");
    else if (!error && !s->agent)
        r = atoll_fail(&err, ATOLL_ERR_ABORTED, EPIPE, "it ended while it was being created");
    if (r == 0 && error) {
        abandon(s, error);
        return;
    }
    if (r == 0 && s->options.user)
        r = ask_user(s, on_user, s, &err);
    else if (r == 0)
        complete(s);
    if (r < 0)
        abandon(s, &err);
}

static void on_made(void *arg, int agent_fd, uint64_t boot_us, const struct atoll_error *error)
{
    struct atoll_sandbox *s = arg;
    struct atoll_error err;

    atoll_provider_entry_note_create(s->entry, error);
    if (error && s->phase == ATOLL_PHASE_CREATING && atoll_place_elsewhere(s, error)) {
        atoll_sandbox_make(s, on_made);
        return;
    }
    s->remains = !error;
    if (error) {
        tell_created(s, error);
        atoll_sandbox_depart(s);
        return;
    }
    atoll_tenant_recount(s);
    s->boot_ms = (double)boot_us / 1000;
    if (atoll_sandbox_open_agent(s, agent_fd, &err) < 0)
        on_ready(s, &err);
    else if (s->hidden && s->spec.builder == ATOLL_BUILDER_NONE)
        /* A pooled one gets its policy when it is handed over. */
        on_ready(s, NULL);
    else
        atoll_network_attach(s, on_ready, s);
}

void atoll_sandbox_launch(struct atoll_sandbox *s, atoll_sandbox_fn *created, void *arg)
{
    struct atoll_error err;

    s->created = created;
    s->created_arg = arg;
    if (!s->engine->ending) {
        atoll_sandbox_make(s, on_made);
        return;
    }
    /* Begun before the end, as by the pull of an image: nothing would end it later. */
    (void)atoll_fail(&err, ATOLL_ERR_UNAVAILABLE, ESHUTDOWN, "the daemon is stopping");
    tell_created(s, &err);
    atoll_sandbox_depart(s);
}

/* What the provider made it from is not what the sandbox is made from. */
static void on_made_from_image(void *arg, int agent_fd, uint64_t boot_us,
                               const struct atoll_error *error)
{
    struct atoll_sandbox *s = arg;

    s->spec.template_kind = ATOLL_TEMPLATE_ROOTFS;
    s->spec.image[0] = '\0';
    s->made(s, agent_fd, boot_us, error);
}

static void on_image(void *arg, const struct atoll_error *error)
{
    struct atoll_sandbox *s = arg;
    struct atoll_error err;

    if (!error && s->phase == ATOLL_PHASE_DESTROYING) {
        (void)atoll_fail(&err, ATOLL_ERR_ABORTED, ECANCELED,
                         "destroyed while it was being created");
        error = &err;
    }
    if (error) {
        on_made_from_image(s, ATOLL_NO_FD, 0, error);
        return;
    }
    s->spec.template_kind = ATOLL_TEMPLATE_IMAGE;
    s->provider->ops->create(s->provider, &s->spec, on_made_from_image, s);
}

/* At a provider without layers, from an image of the template. */
static void make_from_image(struct atoll_sandbox *s, atoll_provider_created_fn *done)
{
    _Static_assert(sizeof(s->spec.image) >= ATOLL_LOADED_IMAGE_MAX, "it is written there");

    s->made = done;
    atoll_load(s->engine, s->entry, s->version, s->spec.image, on_image, s);
}

/* A name other than these is known only inside. */
static void set_mount_owner(struct atoll_spec *spec, const char *user)
{
    char *end;
    unsigned long uid, gid;

    if (!user || strcmp(user, ATOLL_BUILT_IN_USER) == 0) {
        spec->mount_uid = spec->mount_gid = 1000;
        return;
    }
    if (strcmp(user, "root") == 0) {
        spec->mount_uid = spec->mount_gid = 0;
        return;
    }
    spec->mount_uid = spec->mount_gid = UINT32_MAX;
    uid = gid = strtoul(user, &end, 10);
    if (end > user && *end == ':')
        gid = strtoul(end + 1, &end, 10);
    if (*user < '0' || *user > '9' || *end || uid >= ATOLL_ID_RANGE || gid >= ATOLL_ID_RANGE)
        return;
    spec->mount_uid = (uint32_t)uid;
    spec->mount_gid = (uint32_t)gid;
}

void atoll_sandbox_make(struct atoll_sandbox *s, atoll_provider_created_fn *done)
{
    s->spec.metadata_json = s->options.metadata_json;
    s->spec.env = s->options.env;
    s->spec.region = s->options.region;
    s->spec.network_json = s->options.network_json;
    s->spec.credential = s->options.credential;
    s->spec.mounts = s->options.mounts;
    s->spec.read_only = s->options.read_only;
    s->spec.disk_choice = atoll_options_disk(&s->options);
    s->spec.mount_count = s->options.mount_count;
    set_mount_owner(&s->spec, s->options.user);
    s->spec.login = s->options.login;
    if (atoll_load_is_needed(s->provider, &s->spec))
        make_from_image(s, done);
    else
        s->provider->ops->create(s->provider, &s->spec, done, s);
}

static void make(struct atoll_engine *engine, const struct atoll_options *options,
                 const struct atoll_place *place, atoll_sandbox_fn *done, void *arg)
{
    struct atoll_sandbox *s =
        options->id ? atoll_sandbox_prepare_as(engine, &place->spec, place->version, options->id)
                    : atoll_sandbox_prepare(engine, &place->spec, place->version);
    struct atoll_error err;

    if (!s) {
        (void)atoll_fail_errno(&err, ENOMEM, "sandbox");
        done(arg, NULL, &err);
        return;
    }
    s->entry = place->entry;
    s->provider = place->entry->provider;
    s->candidates = place->candidates;
    s->version = place->version; /* it may have been made for another one with the same layers */
    if (apply_options(s, options, &err) < 0) {
        atoll_env_drop(s);
        atoll_sandbox_discard(s);
        done(arg, NULL, &err);
        return;
    }
    engine->public_count++;
    atoll_tenant_enter(s);
    atoll_sandbox_launch(s, done, arg);
}

/* A pooled sandbox. */

/* Holds the id: the sandbox may end while its limits are set. */
struct handover {
    struct atoll_engine *engine;
    char id[ATOLL_ID_LEN + 1];
    struct atoll_limits was; /* that it was made with */
    atoll_sandbox_fn *done;
    void *arg;
};

static void end_handover(struct handover *h, struct atoll_sandbox *s,
                         const struct atoll_error *error)
{
    struct atoll_error err;

    if (error && s)
        atoll_sandbox_destroy(s, "the daemon, because it could not be handed over", NULL, NULL);
    if (!error)
        atoll_sandbox_arm_deadline(s);
    if (!error && (atoll_persist_sandbox(s, &err) < 0 || atoll_exec_enlist_all(s, &err) < 0)) {
        atoll_sandbox_destroy(s, "the daemon, because the store did not accept it", NULL, NULL);
        error = &err;
    }
    if (!error)
        announce(s);
    h->done(h->arg, error ? NULL : s, error);
    free(h);
}

static struct atoll_sandbox *check_alive(const struct handover *h, const struct atoll_error **error,
                                         struct atoll_error *gone)
{
    struct atoll_sandbox *s = atoll_map_get(&h->engine->sandboxes, h->id);

    if (!*error && (!s || !atoll_sandbox_allows(s, ATOLL_ON_CREATED))) {
        (void)atoll_fail(gone, ATOLL_ERR_ABORTED, ECANCELED, "it ended while it was handed over");
        *error = gone;
    }
    return s;
}

static void on_attached(void *arg, const struct atoll_error *error)
{
    struct atoll_error gone;
    struct atoll_sandbox *s = check_alive(arg, &error, &gone);

    end_handover(arg, s, error);
}

static void on_limits_set(void *arg, const struct atoll_error *error)
{
    struct atoll_error gone;
    struct atoll_sandbox *s = check_alive(arg, &error, &gone);

    if (error)
        end_handover(arg, s, error);
    else
        atoll_network_attach(s, on_attached, arg);
}

/* Its default user is known to the agent, or is the built-in one. */
static void adjust(struct handover *h, struct atoll_sandbox *s)
{
    const struct atoll_limits *was = &h->was, *l = &s->spec.limits;

    tell_rest(s);
    if (was->memory_bytes == l->memory_bytes && was->cpu_millis == l->cpu_millis &&
        was->pids == l->pids)
        on_limits_set(h, NULL);
    else
        s->provider->ops->set_limits(s->provider, &s->spec, &s->spec.limits, on_limits_set, h);
}

static void on_handed_user(void *arg, const struct atoll_reply *answer)
{
    struct handover *h = arg;
    const struct atoll_error *error = NULL;
    struct atoll_error gone;
    struct atoll_sandbox *s = check_alive(h, &error, &gone);

    if (!error && answer->error && !goes_without_user(s, answer->error))
        error = answer->error;
    if (error)
        end_handover(h, s, error);
    else
        adjust(h, s);
}

static void hand_over(struct atoll_sandbox *s, const struct atoll_options *options,
                      const struct atoll_place *place, atoll_sandbox_fn *done, void *arg)
{
    struct handover *h = atoll_alloc(sizeof(*h));
    struct atoll_error err;

    s->candidates = place->candidates;
    s->version = place->version; /* it may have been made for another one with the same layers */
    if (apply_options(s, options, &err) < 0) {
        atoll_sandbox_destroy(s, "the daemon, because the create failed", NULL, NULL);
        free(h);
        done(arg, NULL, &err);
        return;
    }
    atoll_options_end_create(&s->options);
    *h = (struct handover){.engine = s->engine, .was = s->spec.limits, .done = done, .arg = arg};
    memcpy(h->id, s->spec.id, sizeof(h->id));
    s->spec.limits = place->spec.limits;
    s->created_unix_ms = atoll_clock_unix_ms();
    s->created_ms = atoll_clock_ms();
    s->pooled = true;
    atoll_tenant_enter(s);
    if (!s->options.user)
        adjust(h, s);
    else if (ask_user(s, on_handed_user, h, &err) < 0)
        end_handover(h, s, &err);
}

static void launch(struct atoll_engine *engine, const struct atoll_options *options,
                   const struct atoll_place *place, atoll_sandbox_fn *done, void *arg)
{
    bool fits = place->entry == engine->builder && options->mount_count == 0 && !options->login &&
                !options->read_only && atoll_options_disk(options) == ATOLL_DISK_ANY;
    struct atoll_sandbox *s;
    struct atoll_error err;

    /* From here on the name is taken. */
    if (atoll_tenant_check_name(engine, options->owner, options->name, &err) < 0) {
        done(arg, NULL, &err);
        return;
    }
    s = fits && !options->id ? atoll_pool_take(engine, &place->spec, options) : NULL;
    if (s)
        hand_over(s, options, place, done, arg);
    else
        make(engine, options, place, done, arg);
}

/* The callback of a launch from a version with a config. */
struct from_version {
    char **command; /* owned; for the sandbox */
    atoll_sandbox_fn *done;
    void *arg;
};

static void on_launched(void *arg, struct atoll_sandbox *s, const struct atoll_error *error)
{
    struct from_version *f = arg;
    struct from_version was = *f;

    free(f);
    if (s) {
        atoll_strings_free(s->command);
        s->command = ATOLL_TAKE_PTR(was.command);
    }
    atoll_strings_free(was.command);
    was.done(was.arg, s, error);
}

void atoll_launch(struct atoll_engine *engine, const struct atoll_options *options,
                  const struct atoll_place *place, atoll_sandbox_fn *done, void *arg)
{
    struct atoll_options with = *options;
    struct atoll_defaults defaults;
    struct from_version *f;

    if (!*place->version->config) {
        launch(engine, options, place, done, arg);
        return;
    }
    atoll_defaults_apply(&defaults, place->version->config, place->version->source, &with);
    f = atoll_alloc(sizeof(*f));
    *f = (struct from_version){ATOLL_TAKE_PTR(defaults.command), done, arg};
    launch(engine, &with, place, on_launched, f);
    atoll_defaults_done(&defaults);
}
