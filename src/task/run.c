#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "task/task_internal.h"

/*
 * The steps that install the agent and run it.
 */
#define STALL_CPU_PERCENT 5 /* of one CPU: what an agent that waits may use */

/* --- installing --- */

/* What is missing for it, if that can be said: a network, or hosts that the client's policy denies. */
static void find_missing(const struct atoll_task *task, const json_t *hosts, struct atoll_buf *out)
{
    struct atoll_sandbox_view view;
    json_t *denied;

    if (json_array_size(hosts) > 0 && !atoll_task_has_network(task, &view))
        (void)!atoll_buf_appends(out, "the sandbox has no network");
    denied = atoll_task_denied_hosts(task, hosts);
    if (json_array_size(denied) > 0) {
        (void)!atoll_buf_appends(out, "\"network\" of the sandbox does not allow ");
        atoll_task_list_hosts(denied, out);
    }
    json_decref(denied);
}

static void installed(struct atoll_task *task, const struct atoll_exec_result *result,
                      const char *tail, const struct atoll_error *error)
{
    const json_t *agent = NULL;
    struct atoll_error failed;
    struct atoll_buf missing;

    atoll_buf_init(&missing, 4096);
    if (!error && !(result->kind == ATOLL_END_EXITED && result->code == 0) &&
        atoll_task_agent_now(task, &agent, &failed) == 0)
        find_missing(task, json_object_get(agent, "installHosts"), &missing);
    if (atoll_buf_size(&missing) > 0) {
        (void)atoll_fail(&failed, ATOLL_ERR_FAILED_PRECONDITION, ENETUNREACH,
                         "%.150s, which installing it needs: use a template or an environment that "
                         "has the agent, or another \"network\"; the command said: %.120s",
                         atoll_buf_str(&missing), tail);
        atoll_task_step_done(task, &failed);
    } else {
        atoll_task_command_ended(task, result, tail, error);
    }
    atoll_buf_done(&missing);
}

static void install_as(struct atoll_task *task, const char *user,
                       void (*done)(struct atoll_task *task, const struct atoll_exec_result *result,
                                    const char *tail, const struct atoll_error *error))
{
    const char *argv[] = {"/bin/sh", "-c", NULL, NULL};
    const json_t *agent = NULL;
    struct atoll_error error;

    if (atoll_task_agent_now(task, &agent, &error) < 0 || !json_object_get(agent, "install")) {
        (void)atoll_fail(&error, ATOLL_ERR_ABORTED, ENOENT, "the registry has changed");
        atoll_task_step_done(task, &error);
        return;
    }
    argv[2] = json_string_value(json_object_get(agent, "install"));
    atoll_task_command_run(
        task, &(struct atoll_task_command_request){.name = user ? "install" : "install-as-user",
                                                   .argv = argv,
                                                   .user = user,
                                                   .shown = argv[2],
                                                   .timeout_ms = atoll_task_step_ms(task),
                                                   .done = done});
}

/* A sandbox with one user id has no root. */
static void installed_by_root(struct atoll_task *task, const struct atoll_exec_result *result,
                              const char *tail, const struct atoll_error *error)
{
    if (error && error->kind == ATOLL_ERR_FAILED_PRECONDITION)
        install_as(task, NULL, installed);
    else
        installed(task, result, tail, error);
}

/* As root, like a build of a template: programs go to /usr/local. */
static void install_now(struct atoll_task *task)
{
    install_as(task, "root", installed_by_root);
}

static void allowed(void *arg, const struct atoll_error *error)
{
    struct atoll_task *task = arg;

    if (error)
        atoll_task_log(task, "info", "%s", error->text);
    install_now(task); /* which ends if the task was stopped meanwhile */
}

static void install_here(struct atoll_task *task, const json_t *agent)
{
    json_t *denied = atoll_task_denied_hosts(task, json_object_get(agent, "installHosts"));

    if (json_array_size(denied) > 0 && atoll_task_owns_network(task))
        atoll_task_allow_hosts(task, denied, "installing the agent", allowed);
    else
        install_now(task);
    json_decref(denied);
}

/* Without the template the agent is installed in the sandbox itself. */
static void has_no_layer(struct atoll_task *task, const struct atoll_error *error)
{
    const json_t *agent = NULL;
    struct atoll_error failed;

    if (task->steps.error.kind != ATOLL_ERR_NONE) { /* stopped meanwhile */
        atoll_task_step_done(task, error);
        return;
    }
    atoll_task_log(task, "info", "%s; installing it in this sandbox", error->text);
    if (atoll_task_agent_now(task, &agent, &failed) < 0)
        atoll_task_step_done(task, &failed);
    else
        install_here(task, agent);
}

static void looked(struct atoll_task *task, const struct atoll_exec_result *result,
                   const char *tail ATOLL_UNUSED, const struct atoll_error *error)
{
    const json_t *agent = NULL;
    struct atoll_error failed;
    bool installs;

    if (error || (result->kind == ATOLL_END_EXITED && result->code == 0)) {
        atoll_task_step_done(task, error);
        return;
    }
    if (atoll_task_agent_now(task, &agent, &failed) < 0) {
        atoll_task_step_done(task, &failed);
        return;
    }
    installs = json_object_get(agent, "install") != NULL;
    if (installs && atoll_task_has_layer(task, agent)) {
        atoll_task_layer(task, has_no_layer);
        return;
    }
    if (installs) {
        install_here(task, agent);
        return;
    }
    (void)atoll_fail(&failed, ATOLL_ERR_FAILED_PRECONDITION, ENOENT,
                     "the sandbox does not have the agent, and the registry does not say how to "
                     "install it; use a template or an environment that has it, then `atoll task "
                     "retry %s sandbox%s`",
                     task->id, atoll_task_repo_option(task));
    atoll_task_step_done(task, &failed);
}

void atoll_task_install(struct atoll_task *task)
{
    const char *argv[] = {"/bin/sh", "-c", NULL, NULL};
    const json_t *agent;
    struct atoll_error error;

    if (atoll_task_agent_now(task, &agent, &error) < 0) {
        atoll_task_step_done(task, &error);
        return;
    }
    argv[2] = json_string_value(json_object_get(agent, "check"));
    if (!argv[2]) {
        atoll_task_step_skip(task);
        return;
    }
    if (!atoll_engine_find(task->tasks->config.engine, atoll_task_fact(task, "sandbox_id"))) {
        atoll_task_sandbox(task); /* an earlier daemon was about to make it anew, with the agent */
        return;
    }
    atoll_task_command_run(
        task,
        &(struct atoll_task_command_request){
            .name = "look", .argv = argv, .timeout_ms = 60000, .quiet = true, .done = looked});
}

/* --- running --- */

static void agent_said(struct atoll_task *task, const char *line, size_t n)
{
    const json_t *agent;
    struct atoll_error error;

    if (atoll_task_agent_now(task, &agent, &error) < 0)
        return;
    atoll_task_agent_line(task, agent, line, n);
    atoll_task_budget_usage(task);
    if (json_object_get(agent, "output"))
        return;
    if (atoll_buf_append(&task->said, line, n) == 0) {
        (void)!atoll_buf_appends(&task->said, "\n");
    }
}

static void step_succeeded(struct atoll_task *task)
{
    atoll_task_step_done(task, NULL);
}

static bool has_succeeded(struct atoll_task *task, const struct atoll_exec_result *result)
{
    const json_t *agent;
    struct atoll_error gone; /* from the registry: then its status says it */

    return result->kind == ATOLL_END_EXITED && result->code == 0 &&
           (atoll_task_agent_now(task, &agent, &gone) < 0 ||
            atoll_task_agent_succeeded(task, agent));
}

static void agent_done(struct atoll_task *task, const struct atoll_exec_result *result,
                       const char *tail, const struct atoll_error *error)
{
    struct atoll_error failed;
    const json_t *agent;

    if (atoll_buf_size(&task->said) > 0)
        atoll_task_note(
            task, "output",
            json_stringn((const char *)atoll_buf_head(&task->said), atoll_buf_size(&task->said)));
    if (!error) {
        if (result->kind == ATOLL_END_EXITED)
            atoll_task_note(task, "exit_code", json_integer(result->code));
        atoll_task_note(task, "agent_ms", json_integer(result->duration_ms));
    }
    if (!error && !has_succeeded(task, result)) {
        if (atoll_task_agent_now(task, &agent, &failed) == 0)
            atoll_task_explain(task, agent, result, tail, &failed);
        error = &failed;
    }
    if (error)
        atoll_task_step_done(task, error);
    else
        atoll_task_memory_take(task, step_succeeded);
}

static void start_agent(struct atoll_task *task)
{
    char **argv = NULL, **env = NULL;
    const json_t *agent;
    struct atoll_error error;
    int r = atoll_task_agent_now(task, &agent, &error);

    if (task->steps.error.kind != ATOLL_ERR_NONE) { /* canceled meanwhile */
        atoll_task_step_done(task, NULL);
        return;
    }
    /* The output is read again from its beginning. */
    atoll_task_output_forget(task);
    (void)json_object_del(task->facts, "exit_code");
    atoll_buf_clear(&task->said);
    if (r == 0)
        r = atoll_task_agent_env(task, agent, &env, &error);
    if (r == 0)
        atoll_task_budget_warn(task, agent);
    if (r == 0 && !(argv = atoll_task_agent_argv(task, agent)))
        r = atoll_fail_errno(&error, ENOMEM, "the command of the agent");
    if (r == 0)
        atoll_task_command_run(
            task,
            &(struct atoll_task_command_request){
                .name = "run",
                .argv = (const char *const *)argv,
                .env = (const char *const *)env,
                .timeout_ms = (uint32_t)(1000 * atoll_task_number(task, agent, "timeoutSeconds",
                                                                  ATOLL_TASK_AGENT_TIMEOUT_S)),
                .stall_cpu_percent =
                    atoll_task_number(task, agent, "stallCpuPercent", STALL_CPU_PERCENT),
                .stall_ms = (uint32_t)(1000 * atoll_task_number(task, agent, "stallSeconds", 0)),
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

void atoll_task_run_agent(struct atoll_task *task)
{
    atoll_task_capture_begin(task, give_memory);
}
