#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "base/log.h"
#include "engine/artifact/artifacts.h"
#include "registry/environment_create.h"
#include "task/task_internal.h"

/*
 * The steps of a task. Each can be run again from its beginning: what it did before is found or repeated
 * without harm.
 */
#define WORK_DIR "/work"
#define AGENT_TIMEOUT_S 3600
#define SETUP_TIMEOUT_MS (20 * 60 * 1000)
#define SANDBOX_EXTRA_S 1800 /* of its time limit, beyond the agent's */
#define WHO "a task"

static void make_sandbox(struct atoll_task *task);
static void set_up(struct atoll_task *task);
static void install_agent(struct atoll_task *task);
static void run_agent(struct atoll_task *task);
static void check(struct atoll_task *task);
static void clean_up(struct atoll_task *task);

static const struct {
    const char *name, *text;
    int percent;
    void (*run)(struct atoll_task *task);
} table[] = {
    {"sandbox", "creating the sandbox", 0, make_sandbox},
    {"clone", "getting the repository", 10, atoll_task_source},
    {"branch", "making the branch", 20, atoll_task_branch},
    {"setup", "setting up", 25, set_up},
    {"install", "installing the agent", 35, install_agent},
    {"run", "running the agent", 45, run_agent},
    {"check", "checking the result", 75, check},
    {"capture", "comparing the files", 80, atoll_task_capture},
    {"commit", "committing", 85, atoll_task_commit},
    {"push", "pushing", 90, atoll_task_push},
    {"cleanup", "cleaning up", 95, clean_up},
};
#define COUNT ATOLL_ARRAY_LEN(table)

size_t atoll_task_step_count(void)
{
    return COUNT;
}

const char *atoll_task_step_name(size_t at)
{
    return at < COUNT ? table[at].name : "";
}

int atoll_task_step_percent(size_t at)
{
    return at < COUNT ? table[at].percent : 100;
}

size_t atoll_task_step_find(const char *name)
{
    size_t i = 0;

    while (i < COUNT && strcmp(table[i].name, name) != 0)
        i++;
    return i;
}

/* --- the runner --- */

static void run_step(void *arg)
{
    struct atoll_task *task = arg;
    struct atoll_error error;

    task->at = task->steps.at;
    task->tries = 0;
    if (atoll_task_store(task, &error) < 0) {
        atoll_task_step_done(task, &error);
        return;
    }
    atoll_task_changed(task);
    table[task->at].run(task);
}

void atoll_task_step_done(struct atoll_task *task, const struct atoll_error *error)
{
    struct atoll_error wrapped;

    if (error) {
        wrapped = *error;
        (void)atoll_wrap(&wrapped, "%s", table[task->at].text);
        error = &wrapped;
    }
    atoll_steps_done(&task->steps, error);
}

static void removed(void *arg, const struct atoll_error *error)
{
    struct atoll_task *task = arg;
    struct atoll_error why = task->steps.error;

    if (error && error->kind != ATOLL_ERR_NOT_FOUND)
        atoll_log(ATOLL_LOG_WARN, "sandbox of a task is not removed", "task", task->id, "error",
                  error->text, NULL);
    atoll_task_ended(task, &why);
}

static const char *cleanup_of(const struct atoll_task *task)
{
    const json_t *automatic = atoll_task_object(task, "autoCleanup");
    const char *cleanup = atoll_task_text(task, "cleanup");

    if (cleanup)
        return cleanup;
    return automatic ? (json_is_true(automatic) ? "always" : "never") : "success";
}

static bool is_own_sandbox(const struct atoll_task *task)
{
    return !atoll_task_text(task, "sandboxId");
}

static void kept(void *arg, const struct atoll_error *error)
{
    struct atoll_task *task = arg;
    struct atoll_error why = task->steps.error;

    if (error)
        atoll_task_log(task, "info", "files are not captured: %s", error->text);
    atoll_task_ended(task, &why);
}

static void flow_done(void *arg, const struct atoll_error *error)
{
    struct atoll_task *task = arg;

    if (!error || !*atoll_task_fact(task, "sandbox_id")) {
        atoll_task_ended(task, error);
        return;
    }
    task->steps.error = *error;
    if (strcmp(cleanup_of(task), "always") == 0 && is_own_sandbox(task))
        atoll_engine_destroy(task->tasks->config.engine, atoll_task_fact(task, "sandbox_id"), WHO,
                             removed, task);
    else if (atoll_task_captures(task))
        atoll_task_capture_now(task, kept);
    else
        kept(task, NULL);
}

void atoll_task_run(struct atoll_task *task)
{
    static struct atoll_step steps[COUNT];

    for (size_t i = 0; i < COUNT; i++)
        steps[i] = (struct atoll_step){table[i].text, run_step, NULL};
    task->steps = (struct atoll_steps){
        .steps = steps, .count = COUNT, .arg = task, .done = flow_done, .at = task->at};
    atoll_steps_start(&task->steps);
}

static void ignore(void *arg ATOLL_UNUSED, const struct atoll_error *error ATOLL_UNUSED)
{
}

void atoll_task_kill_commands(struct atoll_task *task, const char *who)
{
    struct atoll_sandbox *sandbox =
        is_own_sandbox(task)
            ? atoll_engine_find(task->tasks->config.engine, atoll_task_fact(task, "sandbox_id"))
            : NULL;
    struct atoll_exec *exec;
    size_t pos = 0;

    while (sandbox && (exec = atoll_sandbox_next_exec(sandbox, &pos))) {
        struct atoll_exec_view view;
        atoll_exec_get(exec, &view);
        if (!view.result)
            atoll_exec_signal(exec, SIGKILL, true, who, ignore, NULL);
    }
}

void atoll_task_interrupt(struct atoll_task *task, const char *who)
{
    struct atoll_error canceled;
    bool waits = task->timer.loop != NULL;

    atoll_steps_cancel(&task->steps, who);
    atoll_timer_cancel(&task->timer);
    task->wants_source = false;
    if (waits) {
        (void)atoll_fail(&canceled, ATOLL_ERR_CANCELED, ECANCELED, "cancelled by %s", who);
        atoll_task_step_done(task, &canceled);
        return;
    }
    atoll_task_command_kill(task, who);
    atoll_task_kill_commands(task, who);
}

/* --- the sandbox --- */

static void created(void *arg, struct atoll_sandbox *sandbox, const struct atoll_error *error)
{
    struct atoll_task *task = arg;
    struct atoll_sandbox_view view;

    if (!error) {
        atoll_sandbox_get(sandbox, &view);
        atoll_task_note(task, "provider", json_string(view.provider));
        atoll_task_log(task, "info", "sandbox %s by provider %s", view.id, view.provider);
    }
    atoll_task_step_done(task, error);
}

static double number_of(const struct atoll_task *task, const json_t *agent, const char *name,
                        double otherwise)
{
    const json_t *value = atoll_task_object(task, name);

    if (!value)
        value = json_object_get(agent, name);
    return value ? json_number_value(value) : otherwise;
}

/* The agent as it is in the registry now. */
static int find_agent(struct atoll_task *task, const json_t **ret, struct atoll_error *err)
{
    struct atoll_task_agent agent;
    int r = atoll_task_agent_find(task->tasks, task->request, &agent, err);

    *ret = r == 0 ? agent.object : NULL;
    return r;
}

/* Without a network in the request: what the repository, the agent and its MCP servers need, and nothing else. */
static int add_network(const struct atoll_task *task, const json_t *agent, json_t *sandbox,
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
    if (json_array_size(allow) > 0 && !json_object_get(sandbox, "network") &&
        !json_object_get(sandbox, "networkMode"))
        (void)json_object_set_new(sandbox, "network",
                                  json_pack("{s:s, s:O}", "mode", "bridge", "allow", allow));
    json_decref(allow);
    return r;
}

static void fill_options(struct atoll_task *task, const json_t *agent, const char **patterns,
                         struct atoll_options *options)
{
    options->owner = task->tenant;
    options->id = atoll_task_fact(task, "sandbox_id");
    options->artifacts = patterns[0] ? patterns : NULL;
    if (!options->workdir)
        options->workdir = WORK_DIR;
    if (!options->limits.timeout_s)
        options->limits.timeout_s =
            (uint32_t)number_of(task, agent, "timeoutSeconds", AGENT_TIMEOUT_S) + SANDBOX_EXTRA_S;
}

static int find_environment(const struct atoll_task *task, const json_t *agent,
                            const struct atoll_options *options, struct atoll_environment *ret,
                            struct atoll_error *err)
{
    const char *name = atoll_task_text(task, "environment");

    *ret = (struct atoll_environment){0};
    if (!name && !options->template_name && !options->image)
        name = json_string_value(json_object_get(agent, "environment"));
    return name ? atoll_environment_find(task->tasks->config.registry, name, ret, err) : 0;
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
    int r = find_agent(task, &agent, err);

    sandbox = sandbox ? sandbox : json_object();
    if (r == 0) {
        r = add_network(task, agent, sandbox, err);
    }
    if (r == 0)
        r = atoll_task_keys_plan(task, agent, sandbox, err);
    if (r == 0)
        r = atoll_task_mcp_plan(task, sandbox, err);
    if (r == 0) {
        r = config->decode(sandbox, &create.sandbox, &hold, err);
    }
    if (r == 0)
        r = find_environment(task, agent, &create.sandbox, &environment, err);
    if (r == 0) {
        fill_options(task, agent, patterns, &create.sandbox);
        create.environment = &environment;
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

static void make_sandbox(struct atoll_task *task)
{
    const char *given = atoll_task_text(task, "sandboxId");
    char id[ATOLL_ID_LEN + 1];
    struct atoll_error error;
    int r;

    if (!given &&
        atoll_engine_find(task->tasks->config.engine, atoll_task_fact(task, "sandbox_id"))) {
        atoll_task_step_done(task, NULL); /* made by an earlier daemon */
        return;
    }
    if (!given && !*atoll_task_fact(task, "sandbox_id")) {
        atoll_rand_id(id, ATOLL_ID_LEN);
        atoll_task_note(task, "sandbox_id", json_string(id));
    }
    r = atoll_task_store(task, &error); /* its id, before it can exist */
    if (r == 0)
        r = given ? use_sandbox(task, given, &error) : create_sandbox(task, &error);
    if (r < 0)
        atoll_task_step_done(task, &error);
}

/* --- commands --- */

static void step_command_done(struct atoll_task *task, const struct atoll_exec_result *result,
                              const char *tail, const struct atoll_error *error)
{
    struct atoll_error failed;
    char how[300];

    if (!error && !(result->kind == ATOLL_END_EXITED && result->code == 0)) {
        atoll_task_describe_end(result, how, sizeof(how));
        (void)atoll_fail(&failed, ATOLL_ERR_FAILED_PRECONDITION, ECHILD, "the command %s%s%.400s",
                         how, *tail ? ": " : "", tail);
        error = &failed;
    }
    atoll_task_step_done(task, error);
}

static void run_shell(struct atoll_task *task, const char *name, const char *text,
                      void (*done)(struct atoll_task *task, const struct atoll_exec_result *result,
                                   const char *tail, const struct atoll_error *error))
{
    const char *const argv[] = {"/bin/sh", "-c", text, NULL};

    atoll_task_command_run(task,
                           &(struct atoll_task_command_request){.name = name,
                                                                .argv = argv,
                                                                .shown = text,
                                                                .timeout_ms = SETUP_TIMEOUT_MS,
                                                                .done = done});
}

/* What package managers are told to do with the files that name dependencies. */
static const char set_up_script[] =
    "set -e\n"
    "[ ! -f package-lock.json ] || npm ci\n"
    "[ -f package-lock.json ] || [ ! -f package.json ] || npm install\n"
    "[ ! -f requirements.txt ] || pip install -r requirements.txt\n"
    "[ ! -f go.mod ] || go mod download\n"
    "[ ! -f Cargo.toml ] || cargo fetch\n";

/* What was found out by itself may be wrong: the agent can still do its work. */
static void set_up_tried(struct atoll_task *task, const struct atoll_exec_result *result,
                         const char *tail ATOLL_UNUSED, const struct atoll_error *error)
{
    if (error || result->kind != ATOLL_END_EXITED || result->code != 0)
        atoll_task_log(task, "info",
                       "dependencies are not installed; \"setup\" of the task is the command for "
                       "it, or \"none\"");
    atoll_task_step_done(task, NULL);
}

static bool has_network(const struct atoll_task *task)
{
    const struct atoll_sandbox *sandbox =
        atoll_engine_find(task->tasks->config.engine, atoll_task_fact(task, "sandbox_id"));
    struct atoll_sandbox_view view;

    if (sandbox)
        atoll_sandbox_get(sandbox, &view);
    return sandbox && view.options.network != ATOLL_NETWORK_NONE;
}

static void set_up(struct atoll_task *task)
{
    const char *setup = atoll_task_text(task, "setup");
    bool automatic = !setup || strcmp(setup, "auto") == 0;

    if (setup && !automatic && strcmp(setup, "none") != 0)
        run_shell(task, "setup", setup, step_command_done);
    else if (automatic && atoll_task_has_repository(task) && has_network(task))
        run_shell(task, "setup", set_up_script, set_up_tried);
    else
        atoll_task_step_done(task, NULL);
}

/* --- the agent --- */

static void look_for_agent_done(struct atoll_task *task, const struct atoll_exec_result *result,
                                const char *tail ATOLL_UNUSED, const struct atoll_error *error)
{
    const json_t *agent = NULL;
    struct atoll_error failed;
    const char *install;

    if (error || (result->kind == ATOLL_END_EXITED && result->code == 0)) {
        atoll_task_step_done(task, error);
        return;
    }
    if (find_agent(task, &agent, &failed) < 0) {
        atoll_task_step_done(task, &failed);
        return;
    }
    install = json_string_value(json_object_get(agent, "install"));
    if (install) {
        run_shell(task, "install", install, step_command_done);
        return;
    }
    (void)atoll_fail(&failed, ATOLL_ERR_FAILED_PRECONDITION, ENOENT,
                     "the sandbox does not have the agent, and the registry does not say how to "
                     "install it; use a template or an environment that has it");
    atoll_task_step_done(task, &failed);
}

static void install_agent(struct atoll_task *task)
{
    const char *const argv[] = {"/bin/sh", "-c", NULL, NULL};
    const char *words[4];
    const json_t *agent;
    struct atoll_error error;
    const char *look;

    if (find_agent(task, &agent, &error) < 0) {
        atoll_task_step_done(task, &error);
        return;
    }
    look = json_string_value(json_object_get(agent, "check"));
    if (!look) {
        atoll_task_step_done(task, NULL);
        return;
    }
    memcpy(words, argv, sizeof(words));
    words[2] = look;
    atoll_task_command_run(task, &(struct atoll_task_command_request){.name = "look",
                                                                      .argv = words,
                                                                      .timeout_ms = 60000,
                                                                      .quiet = true,
                                                                      .done = look_for_agent_done});
}

static void agent_said(struct atoll_task *task, const char *line, size_t n)
{
    const json_t *agent;
    struct atoll_error error;

    if (find_agent(task, &agent, &error) < 0)
        return;
    if (json_object_get(agent, "output"))
        atoll_task_agent_line(task, agent, line, n);
    else if (atoll_buf_append(&task->said, line, n) == 0)
        (void)!atoll_buf_appends(&task->said, "\n");
}

static void step_succeeded(struct atoll_task *task)
{
    atoll_task_step_done(task, NULL);
}

static void agent_done(struct atoll_task *task, const struct atoll_exec_result *result,
                       const char *tail, const struct atoll_error *error)
{
    struct atoll_error failed;
    char how[300];

    if (atoll_buf_size(&task->said) > 0)
        atoll_task_note(
            task, "output",
            json_stringn((const char *)atoll_buf_head(&task->said), atoll_buf_size(&task->said)));
    if (!error) {
        if (result->kind == ATOLL_END_EXITED)
            atoll_task_note(task, "exit_code", json_integer(result->code));
        atoll_task_note(task, "agent_ms", json_integer(result->duration_ms));
    }
    if (!error && !(result->kind == ATOLL_END_EXITED && result->code == 0)) {
        const char *said = atoll_task_fact(task, "agent_error");
        atoll_task_describe_end(result, how, sizeof(how));
        (void)atoll_fail(&failed, ATOLL_ERR_FAILED_PRECONDITION, ECHILD, "the agent %s: %.400s",
                         how,
                         *said   ? said
                         : *tail ? tail
                                 : "it printed nothing");
        error = &failed;
    }
    if (error)
        atoll_task_step_done(task, error);
    else
        atoll_task_memory_take(task, step_succeeded);
}

static void start_agent(struct atoll_task *task)
{
    static const char *const results[] = {"output", "usage", "agent_error", "agent_session",
                                          "exit_code"};
    char **argv = NULL, **env = NULL;
    const json_t *agent;
    struct atoll_error error;
    int r = find_agent(task, &agent, &error);

    if (task->steps.error.kind != ATOLL_ERR_NONE) { /* canceled meanwhile */
        atoll_task_step_done(task, NULL);
        return;
    }
    /* The output is read again from its beginning. */
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(results); i++)
        (void)json_object_del(task->facts, results[i]);
    atoll_buf_clear(&task->said);
    if (r == 0)
        r = atoll_task_agent_env(task, agent, &env, &error);
    if (r == 0 && !(argv = atoll_task_agent_argv(task, agent)))
        r = atoll_fail_errno(&error, ENOMEM, "the command of the agent");
    if (r == 0)
        atoll_task_command_run(
            task, &(struct atoll_task_command_request){
                      .name = "run",
                      .argv = (const char *const *)argv,
                      .env = (const char *const *)env,
                      .timeout_ms = (uint32_t)(1000 * number_of(task, agent, "timeoutSeconds",
                                                                AGENT_TIMEOUT_S)),
                      .stall_ms = (uint32_t)(1000 * number_of(task, agent, "stallSeconds", 0)),
                      .shown = atoll_task_fact(task, "agent"),
                      .line = agent_said,
                      .done = agent_done,
                  });
    else
        atoll_task_step_done(task, &error);
    atoll_task_strings_free(argv);
    atoll_task_strings_free(env);
}

static void give_servers(struct atoll_task *task)
{
    atoll_task_mcp_give(task, start_agent);
}

static void give_memory(struct atoll_task *task)
{
    atoll_task_memory_give(task, give_servers);
}

static void run_agent(struct atoll_task *task)
{
    atoll_task_capture_begin(task, give_memory);
}

static void check(struct atoll_task *task)
{
    const char *text = atoll_task_text(task, "check");

    if (text)
        run_shell(task, "check", text, step_command_done);
    else
        atoll_task_step_done(task, NULL);
}

/* --- the end --- */

static void destroyed(void *arg, const struct atoll_error *error)
{
    struct atoll_task *task = arg;

    atoll_task_step_done(task, error && error->kind != ATOLL_ERR_NOT_FOUND ? error : NULL);
}

static void captured(void *arg, const struct atoll_error *error)
{
    atoll_task_step_done(arg, error);
}

static void measured(void *arg, const struct atoll_sandbox_stats *stats,
                     const struct atoll_error *error)
{
    struct atoll_task *task = arg;
    json_t *usage = json_object_get(task->facts, "usage");

    if (!error && !usage) {
        usage = json_object();
        atoll_task_note(task, "usage", usage);
    }
    if (!error) {
        (void)json_object_set_new(usage, "cpu_seconds", json_real(stats->cpu_seconds));
        (void)json_object_set_new(usage, "memory_peak_bytes",
                                  json_integer((json_int_t)stats->memory_peak_bytes));
        (void)json_object_set_new(
            usage, "network_bytes",
            json_integer((json_int_t)(stats->net_rx_bytes + stats->net_tx_bytes)));
    }
    if (strcmp(cleanup_of(task), "never") == 0 || !is_own_sandbox(task))
        atoll_task_capture_now(task, captured);
    else
        atoll_engine_destroy(task->tasks->config.engine, atoll_task_fact(task, "sandbox_id"), WHO,
                             destroyed, task);
}

static void clean_up(struct atoll_task *task)
{
    atoll_engine_figures(task->tasks->config.engine, atoll_task_fact(task, "sandbox_id"), measured,
                         task);
}
