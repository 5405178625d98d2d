#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "registry/environment_build.h"
#include "registry/environment_create.h"
#include "task/task_internal.h"

/*
 * The sandbox of a task: a new one, or one that exists.
 */
#define WORK_DIR "/work"
#define OTHER_WORK_DIR "/tmp/work" /* of providers whose root may be read-only */
#define SANDBOX_EXTRA_S 1800       /* of its time limit, beyond that of the agent or the step */
#define BUILDING "_building"       /* fact: the environment that is built for the sandbox */
#define OWN_TIME "_own_time"       /* fact: the time limit of the sandbox is the task's */

#define BUILDING_LAYER "building a template with the agent"

/* Containers of other engines do not have the directory that their commands begin in. */
static void make_directory_as(struct atoll_task *task, const char *user,
                              void (*done)(struct atoll_task *task,
                                           const struct atoll_exec_result *result, const char *tail,
                                           const struct atoll_error *error))
{
    static const char script[] = "[ -d \"$1\" ] || { mkdir -p \"$1\" && chmod 777 \"$1\"; }";
    const struct atoll_sandbox *sandbox =
        atoll_engine_find(task->tasks->config.engine, atoll_task_fact(task, "sandbox_id"));
    const char *argv[] = {"/bin/sh", "-c", script, "sh", OTHER_WORK_DIR, NULL};
    struct atoll_sandbox_view view;

    if (sandbox) {
        atoll_sandbox_get(sandbox, &view);
        argv[4] = view.options.workdir ? view.options.workdir : OTHER_WORK_DIR;
    }
    atoll_task_command_run(
        task, &(struct atoll_task_command_request){.name = user ? "directory" : "directory-as-user",
                                                   .argv = argv,
                                                   .user = user,
                                                   .cwd = "/",
                                                   .quiet = true,
                                                   .done = done});
}

/* A sandbox with one user id has no root. */
static void made_directory(struct atoll_task *task, const struct atoll_exec_result *result,
                           const char *tail, const struct atoll_error *error)
{
    if (error && error->kind == ATOLL_ERR_FAILED_PRECONDITION)
        make_directory_as(task, NULL, atoll_task_command_ended);
    else
        atoll_task_command_ended(task, result, tail, error);
}

/* Providers that cannot restrict the network refuse what the task asks for by itself. Whether the sandbox may
 * reach everything is for the client to say. */
static void explain_network(const struct atoll_task *task, struct atoll_error *err)
{
    char why[ATOLL_ERROR_TEXT_MAX];

    if (err->kind != ATOLL_ERR_UNIMPLEMENTED || !atoll_task_owns_network(task))
        return;
    (void)snprintf(why, sizeof(why), "%s", err->text);
    (void)atoll_fail(
        err, err->kind, err->errnum,
        "%.200s; without \"network\" a task allows only the hosts that it needs: with "
        "\"network\": {\"mode\": \"bridge\"} in \"sandbox\" (--network bridge) its sandbox "
        "may reach everything",
        why);
}

static void created(void *arg, struct atoll_sandbox *sandbox, const struct atoll_error *error)
{
    struct atoll_task *task = arg;
    struct atoll_sandbox_view view;
    struct atoll_error failed;

    if (*atoll_task_fact(task, BUILDING) && !error)
        atoll_task_log(task, "info", "the environment %s is built",
                       atoll_task_fact(task, BUILDING));
    (void)json_object_del(task->facts, BUILDING);
    if (error) {
        failed = *error;
        explain_network(task, &failed);
        atoll_task_step_done(task, &failed);
        return;
    }
    atoll_sandbox_get(sandbox, &view);
    atoll_task_note(task, "provider", json_string(view.provider));
    atoll_task_log(task, "info", "sandbox %s by provider %s", view.id, view.provider);
    if (strcmp(view.provider, "native") == 0)
        atoll_task_step_done(task, NULL);
    else
        make_directory_as(task, "root", made_directory);
}

double atoll_task_number(const struct atoll_task *task, const json_t *agent, const char *name,
                         double otherwise)
{
    const json_t *value = atoll_task_object(task, name);

    if (!value)
        value = json_object_get(agent, name);
    return value ? json_number_value(value) : otherwise;
}

/* The agent as it is in the registry now. */
int atoll_task_agent_now(struct atoll_task *task, const json_t **ret, struct atoll_error *err)
{
    struct atoll_task_agent agent;
    int r = atoll_task_agent_find(task->tasks, task->request, &agent, err);

    *ret = r == 0 ? agent.object : NULL;
    return r;
}

/* Without a network in the request: what the repository, the agent and its MCP servers need, and nothing else. */
static int add_network(struct atoll_task *task, const json_t *agent, json_t *sandbox,
                       struct atoll_error *err)
{
    json_t *allow = json_array();
    const json_t *hosts = json_object_get(agent, "hosts");
    char host[ATOLL_TASK_HOST_MAX];
    int r = atoll_task_mcp_hosts(task, allow, err);

    if (atoll_task_host(task, host)) {
        host[strcspn(host, ":")] = '\0';
        (void)json_array_append_new(allow, json_string(host));
    }
    for (size_t i = 0; i < json_array_size(hosts); i++)
        (void)json_array_append(allow, json_array_get(hosts, i));
    (void)json_object_del(task->facts, ATOLL_TASK_OWN_NETWORK);
    if (json_array_size(allow) > 0 && !json_object_get(sandbox, "network") &&
        !json_object_get(sandbox, "networkMode")) {
        atoll_task_note(task, ATOLL_TASK_OWN_NETWORK, json_true());
        (void)json_object_set_new(sandbox, "network",
                                  json_pack("{s:s, s:O}", "mode", "bridge", "allow", allow));
    }
    json_decref(allow);
    return r;
}

/* Of the runtime that fits the task. */
static void add_provider(const struct atoll_task *task, json_t *sandbox)
{
    json_t *provider = json_object_get(json_object_get(task->facts, "runtime"), "provider");

    if (provider && !json_object_get(sandbox, "provider"))
        (void)json_object_set(sandbox, "provider", provider);
}

/* Whether the task may make a directory at the root of its sandboxes. */
static bool has_own_root(const char *provider)
{
    return !provider || strcmp(provider, "auto") == 0 || strcmp(provider, "native") == 0 ||
           strcmp(provider, "gvisor") == 0;
}

static uint32_t agent_seconds(const struct atoll_task *task, const json_t *agent)
{
    return (uint32_t)atoll_task_number(task, agent, "timeoutSeconds", ATOLL_TASK_AGENT_TIMEOUT_S);
}

static void fill_options(struct atoll_task *task, const json_t *agent, const char **patterns,
                         struct atoll_options *options)
{
    options->owner = task->tenant;
    options->id = atoll_task_fact(task, "sandbox_id");
    options->artifacts = patterns[0] ? patterns : NULL;
    if (!options->workdir)
        options->workdir = has_own_root(options->provider) ? WORK_DIR : OTHER_WORK_DIR;
    (void)json_object_del(task->facts, OWN_TIME);
    if (!options->limits.timeout_s) {
        atoll_task_note(task, OWN_TIME, json_true());
        options->limits.timeout_s = agent_seconds(task, agent) + SANDBOX_EXTRA_S;
    }
}

static int find_environment(const struct atoll_task *task, const json_t *agent,
                            const struct atoll_options *options, struct atoll_environment *ret,
                            struct atoll_error *err)
{
    const char *name = atoll_task_text(task, "environment");

    if (!name && !options->template_name && !options->image)
        name = json_string_value(
            json_object_get(json_object_get(task->facts, "runtime"), "environment"));
    *ret = (struct atoll_environment){0};
    if (!name && !options->template_name && !options->image)
        name = json_string_value(json_object_get(agent, "environment"));
    return name ? atoll_environment_find(task->tasks->config.registry, name, ret, err) : 0;
}

/* --- the agent as a layer of its own --- */

/* The environment with the agent installed on top. */
struct layer {
    struct atoll_environment environment;
    char name[ATOLL_ENVIRONMENT_TEMPLATE_MAX], base[ATOLL_ENVIRONMENT_TEMPLATE_MAX];
};

static bool make_layer(const struct atoll_task *task, const json_t *agent,
                       const struct atoll_environment *environment, struct layer *ret)
{
    const char *install = json_string_value(json_object_get(agent, "install"));
    const char *usual = json_string_value(json_object_get(agent, "environment"));
    bool is_usual = environment->name && usual && strcmp(environment->name, usual) == 0;

    if (!environment->name || !install)
        return false;
    (void)snprintf(ret->name, sizeof(ret->name), "agent-%.25s%s%.25s",
                   atoll_task_fact(task, "agent"), is_usual ? "" : "-in-",
                   is_usual ? "" : environment->name);
    ret->environment = *environment;
    if (atoll_environment_is_built(environment)) {
        if (!atoll_environment_built(task->tasks->config.engine, environment, ret->base))
            return false;
        ret->environment.template_name = ret->base;
        ret->environment.image = NULL;
    }
    ret->environment.name = ret->name;
    ret->environment.dockerfile = NULL;
    ret->environment.packages = NULL;
    ret->environment.network = NULL; /* installing needs what its sandbox may not reach */
    ret->environment.install = install;
    return true;
}

static int find_layer(const struct atoll_task *task, const json_t *agent, struct layer *ret)
{
    struct atoll_options options = {0};
    struct atoll_environment environment;
    struct atoll_error error;
    const json_t *sandbox = atoll_task_object(task, "sandbox");
    const char *provider = json_string_value(json_object_get(sandbox, "provider"));
    static const char *const others[] = {"template", "image", "templateId", "dockerfile",
                                         "snapshot"};

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(others); i++)
        if (json_object_get(sandbox, others[i]))
            return -ENOENT;
    if (atoll_task_text(task, "sandboxId") ||
        (provider && strcmp(provider, "native") != 0 && strcmp(provider, "auto") != 0) ||
        find_environment(task, agent, &options, &environment, &error) < 0 ||
        !make_layer(task, agent, &environment, ret))
        return -ENOENT;
    return 0;
}

bool atoll_task_has_layer(const struct atoll_task *task, const json_t *agent)
{
    struct layer layer;

    return strcmp(atoll_task_fact(task, "provider"), "native") == 0 &&
           !*atoll_task_fact(task, "agent_template") && find_layer(task, agent, &layer) == 0;
}

/* --- its time --- */

/* The sandbox is there for so long at least. */
static void extend(struct atoll_task *task, uint32_t seconds)
{
    struct atoll_engine *engine = task->tasks->config.engine;
    const struct atoll_sandbox *sandbox =
        atoll_engine_find(engine, atoll_task_fact(task, "sandbox_id"));
    struct atoll_sandbox_view view;
    struct atoll_error error;

    if (!sandbox || !json_is_true(json_object_get(task->facts, OWN_TIME)))
        return;
    atoll_sandbox_get(sandbox, &view);
    if (view.expires_unix_ms != 0 &&
        view.expires_unix_ms < atoll_clock_unix_ms() + (int64_t)1000 * seconds &&
        atoll_engine_set_timeout(engine, view.id, seconds, &error) < 0)
        atoll_task_log(task, "info", "the time of the sandbox is not extended: %s", error.text);
}

void atoll_task_sandbox_extend(struct atoll_task *task)
{
    uint32_t step_s = atoll_task_step_ms(task) / 1000;
    const json_t *agent;
    struct atoll_error error;

    if (step_s == 0 && atoll_task_agent_now(task, &agent, &error) == 0)
        step_s = agent_seconds(task, agent);
    extend(task, step_s + SANDBOX_EXTRA_S);
}

void atoll_task_sandbox_keep(struct atoll_task *task)
{
    extend(task, ATOLL_TASK_KEPT_S);
}

/* --- making it --- */

/* A build takes minutes, in which nothing else is said. */
static void say_what_is_built(struct atoll_task *task, const struct atoll_options *options,
                              const struct atoll_environment *environment)
{
    if (options->template_name || options->image || !atoll_environment_is_built(environment) ||
        atoll_environment_is_current(task->tasks->config.engine, environment))
        return;
    atoll_task_note(task, BUILDING, json_string(environment->name));
    atoll_task_log(task, "info", "building the environment %s, for this task and later ones",
                   environment->name);
}

static int create_sandbox(struct atoll_task *task, struct atoll_error *err)
{
    const struct atoll_tasks_config *config = &task->tasks->config;
    struct atoll_environment_create create = {0};
    struct atoll_environment environment;
    const char **patterns = atoll_task_patterns(task);
    json_t *sandbox = json_deep_copy(atoll_task_object(task, "sandbox"));
    const json_t *agent;
    void *hold = NULL;
    int r = atoll_task_agent_now(task, &agent, err);

    sandbox = sandbox ? sandbox : json_object();
    if (r == 0) {
        add_provider(task, sandbox);
        r = add_network(task, agent, sandbox, err);
    }
    if (r == 0)
        r = atoll_task_keys_plan(task, agent, sandbox, err);
    if (r == 0)
        r = atoll_task_mcp_plan(task, sandbox, err);
    if (r == 0)
        r = config->decode(sandbox, &create.sandbox, &hold, err);
    if (r == 0)
        r = find_environment(task, agent, &create.sandbox, &environment, err);
    if (r == 0) {
        fill_options(task, agent, patterns, &create.sandbox);
        create.environment = &environment;
        if (*atoll_task_fact(task, "agent_template")) {
            environment.template_name = atoll_task_fact(task, "agent_template");
            environment.image = environment.dockerfile = NULL;
            environment.packages = NULL;
        }
        say_what_is_built(task, &create.sandbox, &environment);
        atoll_environment_create(config->engine, &create, created, task);
    }
    if (hold)
        config->release(hold);
    json_decref(sandbox);
    free(patterns);
    return r;
}

static int use_sandbox(struct atoll_task *task, const char *id, struct atoll_error *err)
{
    struct atoll_sandbox *sandbox;
    struct atoll_sandbox_view view;
    int r =
        atoll_engine_resolve(task->tasks->config.engine, task->tenant, false, id, &sandbox, err);

    if (r < 0)
        return r;
    atoll_sandbox_get(sandbox, &view);
    if (strcmp(view.owner, task->tenant) != 0)
        return atoll_engine_no_sandbox(id, err);
    atoll_task_note(task, "sandbox_id", json_string(view.id));
    atoll_task_note(task, "provider", json_string(view.provider));
    atoll_task_step_done(task, NULL);
    return 0;
}

static void create_now(struct atoll_task *task)
{
    struct atoll_error error;

    if (create_sandbox(task, &error) < 0)
        atoll_task_step_done(task, &error);
}

/* The template with the agent is current. Without it the agent is installed later. */
static void layer_is_ready(void *arg, const char *template_name, const struct atoll_error *error)
{
    struct atoll_task *task = arg;

    if (error)
        atoll_task_log(task, "info", "%s", error->text);
    else
        atoll_task_note(task, "agent_template", json_string(template_name));
    create_now(task);
}

/* The template with the agent is used if an earlier task has made it. */
static void create(struct atoll_task *task)
{
    char name[ATOLL_ENVIRONMENT_TEMPLATE_MAX];
    struct atoll_engine *engine = task->tasks->config.engine;
    const json_t *agent = NULL;
    struct layer layer;
    struct atoll_error error;

    (void)json_object_del(task->facts, "agent_template");
    if (atoll_task_agent_now(task, &agent, &error) < 0)
        atoll_task_step_done(task, &error);
    else if (find_layer(task, agent, &layer) == 0 &&
             atoll_environment_built(engine, &layer.environment, name)) {
        if (!atoll_environment_is_current(engine, &layer.environment))
            atoll_task_log(task, "info", BUILDING_LAYER);
        atoll_environment_build(engine, &layer.environment, layer_is_ready, task);
    } else {
        create_now(task);
    }
}

/* Its id is stored before it can exist. */
static int choose_id(struct atoll_task *task, struct atoll_error *err)
{
    char id[ATOLL_ID_LEN + 1];

    atoll_rand_id(id, ATOLL_ID_LEN);
    atoll_task_note(task, "sandbox_id", json_string(id));
    return atoll_task_store(task, err);
}

void atoll_task_sandbox(struct atoll_task *task)
{
    const char *given = atoll_task_text(task, "sandboxId");
    struct atoll_error error;
    int r = 0;

    if (!given &&
        atoll_engine_find(task->tasks->config.engine, atoll_task_fact(task, "sandbox_id"))) {
        atoll_task_step_done(task, NULL); /* made by an earlier daemon */
        return;
    }
    if (given)
        r = use_sandbox(task, given, &error);
    else if (!*atoll_task_fact(task, "sandbox_id"))
        r = choose_id(task, &error);
    if (r < 0)
        atoll_task_step_done(task, &error);
    else if (!given)
        atoll_task_oauth_wait(task, create);
}

/* --- the layer is made --- */

static void replace(void *arg, const struct atoll_error *error)
{
    struct atoll_task *task = arg;
    struct atoll_error failed;

    if (error && error->kind != ATOLL_ERR_NOT_FOUND)
        atoll_task_step_done(task, error);
    else if (choose_id(task, &failed) < 0)
        atoll_task_step_done(task, &failed);
    else
        atoll_task_sandbox(task);
}

static void layer_is_built(void *arg, const char *template_name, const struct atoll_error *error)
{
    struct atoll_task *task = arg;

    if (error || task->steps.error.kind != ATOLL_ERR_NONE) {
        task->layer_failed(task, error);
        return;
    }
    atoll_task_log(task, "info", "the agent is in the template %s, for this task and later ones",
                   template_name);
    atoll_engine_destroy(task->tasks->config.engine, atoll_task_fact(task, "sandbox_id"), "a task",
                         replace, task);
}

void atoll_task_layer(struct atoll_task *task,
                      void (*failed)(struct atoll_task *task, const struct atoll_error *error))
{
    const json_t *agent = NULL;
    struct layer layer;
    struct atoll_error error;

    task->layer_failed = failed;
    if (atoll_task_agent_now(task, &agent, &error) < 0 || find_layer(task, agent, &layer) < 0) {
        (void)atoll_fail(&error, ATOLL_ERR_ABORTED, ENOENT, "the registry has changed");
        failed(task, &error);
        return;
    }
    atoll_task_log(task, "info", BUILDING_LAYER);
    atoll_environment_build(task->tasks->config.engine, &layer.environment, layer_is_built, task);
}
