#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/buf.h"
#include "task/task_internal.h"

/*
 * The step that installs what the repository depends on. Which files name dependencies, which command installs
 * them and which hosts that takes are data: the folder setups of the registry.
 */
#define FOUND "_setups"   /* fact: names of the setups that fit the repository */
#define ORDER_DEFAULT 100 /* as runtimes */
#define SCRIPT_MAX ((size_t)256 * 1024)
#define FILES_MAX 256
#define LOOK_MS 60000

/* What was found out by itself may be wrong: the agent can still do its work. */
static void go_on_without(struct atoll_task *task, const char *why)
{
    atoll_task_log(task, "info",
                   "dependencies are not installed: %s; \"setup\" of the task is the command for "
                   "it, or \"none\"",
                   why);
    atoll_task_step_done(task, NULL);
}

static bool find_setup(const struct atoll_task *task, size_t i, struct atoll_registry_item *ret)
{
    const char *name = json_string_value(json_array_get(json_object_get(task->facts, FOUND), i));

    return name &&
           atoll_registry_find(task->tasks->config.registry, ATOLL_REGISTRY_SETUP, name, ret);
}

/* The hosts of the setups that fit; owned by the caller. */
static json_t *wanted_hosts(const struct atoll_task *task)
{
    json_t *hosts = json_array();
    struct atoll_registry_item setup;

    for (size_t i = 0; find_setup(task, i, &setup); i++)
        if (json_object_get(setup.object, "hosts"))
            (void)json_array_extend(hosts, json_object_get(setup.object, "hosts"));
    return hosts;
}

/* Those of them that the sandbox may not reach. */
static json_t *denied_hosts(const struct atoll_task *task)
{
    json_t *hosts = wanted_hosts(task), *denied = atoll_task_denied_hosts(task, hosts);

    json_decref(hosts);
    return denied;
}

/* --- the commands --- */

/* Why it may have failed, and what to do. */
static void tried(struct atoll_task *task, const struct atoll_exec_result *result, const char *tail,
                  const struct atoll_error *error)
{
    struct atoll_buf hosts;
    json_t *denied;
    char why[600];

    if (!error && result->kind == ATOLL_END_EXITED && result->code == 0) {
        atoll_task_step_done(task, NULL);
        return;
    }
    if (!error && result->kind == ATOLL_END_TIMED_OUT) { /* the time of the step has passed */
        atoll_task_command_ended(task, result, tail, NULL);
        return;
    }
    denied = denied_hosts(task);
    atoll_buf_init(&hosts, 4096);
    atoll_task_list_hosts(denied, &hosts);
    if (atoll_buf_size(&hosts) > 0)
        (void)snprintf(why, sizeof(why),
                       "the command failed, and \"network\" of the sandbox does not allow %.400s",
                       atoll_buf_str(&hosts));
    else
        (void)snprintf(why, sizeof(why), "the command failed");
    atoll_buf_done(&hosts);
    json_decref(denied);
    go_on_without(task, why);
}

/* Each command in a shell of its own: one that fails does not keep the others from running. */
static void install(struct atoll_task *task)
{
    struct atoll_registry_item setup;
    struct atoll_buf script;

    atoll_buf_init(&script, SCRIPT_MAX);
    (void)!atoll_buf_appends(&script, "failed=0\n");
    for (size_t i = 0; find_setup(task, i, &setup); i++)
        (void)!atoll_buf_appendf(&script, "(\nset -e\n%s\n) || failed=1\n",
                                 json_string_value(json_object_get(setup.object, "command")));
    if (atoll_buf_appends(&script, "exit $failed\n") < 0)
        go_on_without(task, "their commands are too long");
    else
        atoll_task_shell(task, "setup", atoll_buf_str(&script), tried);
    atoll_buf_done(&script);
}

/* --- the network --- */

static void allowed(void *arg, const struct atoll_error *error)
{
    struct atoll_task *task = arg;

    if (task->steps.error.kind != ATOLL_ERR_NONE) /* stopped meanwhile */
        atoll_task_step_done(task, NULL);
    else if (error)
        go_on_without(task, error->text);
    else
        install(task);
}

static void prepare(struct atoll_task *task)
{
    struct atoll_sandbox_view view;
    struct atoll_registry_item setup;
    struct atoll_buf why;
    json_t *denied;

    if (!atoll_task_has_network(task, &view)) {
        atoll_buf_init(&why, 4096);
        for (size_t i = 0; find_setup(task, i, &setup); i++)
            (void)!atoll_buf_appendf(&why, "%s%s", i ? ", " : "", setup.name);
        (void)!atoll_buf_appends(&why, " needs a network, and the sandbox has none (\"network\": "
                                       "{\"mode\": \"bridge\"} in \"sandbox\")");
        go_on_without(task, atoll_buf_str(&why));
        atoll_buf_done(&why);
        return;
    }
    denied = denied_hosts(task);
    if (json_array_size(denied) > 0 && atoll_task_owns_network(task))
        atoll_task_allow_hosts(task, denied, "dependencies", allowed);
    else
        install(task);
    json_decref(denied);
}

/* --- which of them fit --- */

static double order_of(const json_t *object)
{
    const json_t *order = json_object_get(object, "order");

    return order ? json_number_value(order) : ORDER_DEFAULT;
}

/* Whether one of its files is among the lines. */
static bool fits(const json_t *object, const char *lines)
{
    const json_t *files = json_object_get(object, "files");

    for (size_t i = 0; i < json_array_size(files); i++) {
        const char *file = json_string_value(json_array_get(files, i));
        size_t n = strlen(file);
        for (const char *line = lines; line; line = strchr(line, '\n')) {
            line += *line == '\n';
            if (strncmp(line, file, n) == 0 && (line[n] == '\n' || line[n] == '\0'))
                return true;
        }
    }
    return false;
}

static const char *group_of(const struct atoll_registry_item *item)
{
    const char *group = json_string_value(json_object_get(item->object, "group"));

    return group ? group : item->name;
}

/* Of each group the first one that fits, by order and then by name. */
json_t *atoll_task_setups(const struct atoll_registry *registry, const char *lines)
{
    struct atoll_registry_item item, best;
    json_t *found = json_array(), *groups = json_object();
    size_t pos;

    do {
        best = (struct atoll_registry_item){0};
        pos = 0;
        while (atoll_registry_next(registry, ATOLL_REGISTRY_SETUP, &pos, &item))
            if (!json_object_get(groups, group_of(&item)) && fits(item.object, lines) &&
                (!best.name || order_of(item.object) < order_of(best.object)))
                best = item;
        if (best.name) {
            (void)json_array_append_new(found, json_string(best.name));
            (void)json_object_set_new(groups, group_of(&best), json_true());
        }
    } while (best.name);
    json_decref(groups);
    return found;
}

static void looked(struct atoll_task *task, const struct atoll_exec_result *result ATOLL_UNUSED,
                   const char *tail, const struct atoll_error *error)
{
    json_t *found;

    if (error) {
        atoll_task_step_done(task, error);
        return;
    }
    found = atoll_task_setups(task->tasks->config.registry, tail);
    atoll_task_note(task, FOUND, found);
    if (json_array_size(found) == 0)
        atoll_task_step_skip(task);
    else
        prepare(task);
}

static void look(struct atoll_task *task)
{
    static const char script[] = "for f; do [ ! -f \"$f\" ] || echo \"$f\"; done";
    const char *argv[FILES_MAX + 5] = {"/bin/sh", "-c", script, "sh"};
    struct atoll_registry_item item;
    size_t pos = 0, n = 4;

    while (atoll_registry_next(task->tasks->config.registry, ATOLL_REGISTRY_SETUP, &pos, &item)) {
        const json_t *files = json_object_get(item.object, "files");
        for (size_t i = 0; i < json_array_size(files) && n < FILES_MAX + 4; i++)
            argv[n++] = json_string_value(json_array_get(files, i));
    }
    atoll_task_command_run(task, &(struct atoll_task_command_request){.name = "dependencies",
                                                                      .argv = argv,
                                                                      .timeout_ms = LOOK_MS,
                                                                      .quiet = true,
                                                                      .done = looked});
}

void atoll_task_set_up(struct atoll_task *task)
{
    const char *setup = atoll_task_text(task, "setup");
    bool automatic = !setup || strcmp(setup, "auto") == 0;

    if (setup && !automatic && strcmp(setup, "none") != 0)
        atoll_task_shell(task, "setup", setup, atoll_task_command_ended);
    else if (automatic && atoll_task_has_repository(task))
        look(task);
    else
        atoll_task_step_skip(task);
}
