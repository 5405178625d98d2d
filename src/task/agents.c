#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/buf.h"
#include "engine/network/secrets.h"
#include "registry/prompt.h"
#include "task/task_internal.h"

/*
 * Agents of the registry: their command lines and their variables. What is found in their output: output.c.
 */
#define DEFAULT_AGENT "shell"
#define ARGS_MAX 256
#define ARG_MAX_BYTES ((size_t)256 * 1024)
#define VARIABLES_MAX 256

static const char *request_text(const json_t *request, const char *name)
{
    return json_string_value(json_object_get(request, name));
}

/* `agent`, or `agentName` if the registry has an agent of that name: for other programs that is a label. */
int atoll_task_agent_find(const struct atoll_tasks *tasks, const json_t *request,
                          struct atoll_task_agent *ret, struct atoll_error *err)
{
    const char *name = request_text(request, "agent");
    const char *label = request_text(request, "agentName");
    struct atoll_registry_item item;
    struct atoll_buf names;
    size_t pos = 0;

    if (!name && label &&
        atoll_registry_find(tasks->config.registry, ATOLL_REGISTRY_AGENT, label, &item))
        name = label;
    if (!name)
        name = DEFAULT_AGENT;
    if (atoll_registry_find(tasks->config.registry, ATOLL_REGISTRY_AGENT, name, &item)) {
        if (!json_object_get(item.object, "command"))
            return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, ENOEXEC,
                              "agent %s of the registry has no \"command\", so tasks cannot run it",
                              name);
        *ret = (struct atoll_task_agent){item.name, item.object};
        return 0;
    }
    atoll_buf_init(&names, 2048);
    while (atoll_registry_next(tasks->config.registry, ATOLL_REGISTRY_AGENT, &pos, &item))
        (void)!atoll_buf_appendf(&names, "%s%s", atoll_buf_size(&names) ? ", " : "", item.name);
    (void)atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT, "agent %.64s does not exist; there are: %s",
                     name, atoll_buf_size(&names) ? atoll_buf_str(&names) : "none");
    atoll_buf_done(&names);
    return -ENOENT;
}

/* --- what a task may give --- */

static bool names_place(const json_t *texts, const char *place)
{
    const char *key, *text;
    json_t *value;

    for (size_t i = 0; i < json_array_size(texts); i++) {
        text = json_string_value(json_array_get(texts, i));
        if (text && strstr(text, place))
            return true;
    }
    json_object_foreach((json_t *)(uintptr_t)texts, key, value)
    {
        text = json_string_value(value);
        if (text && strstr(text, place))
            return true;
    }
    return false;
}

/* Whether the agent's file has a place for the value. */
static bool takes(const json_t *agent, const char *name)
{
    static const char *const members[] = {"command", "last", "env"};
    char place[32];

    if (json_object_get(json_object_get(agent, "options"), name))
        return true;
    (void)snprintf(place, sizeof(place), "{%s}", name);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(members); i++)
        if (names_place(json_object_get(agent, members[i]), place) ||
            (strcmp(name, "systemPrompt") == 0 &&
             names_place(json_object_get(agent, members[i]), "{prompt}")))
            return true;
    return false;
}

int atoll_task_agent_takes(const json_t *request, const struct atoll_task_agent *agent,
                           struct atoll_error *err)
{
    static const char *const names[] = {"model", "systemPrompt", "resume", "allowedTools"};

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(names); i++)
        if (json_object_get(request, names[i]) && !takes(agent->object, names[i]))
            return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                              "the agent %.64s takes no %s: leave it out, or add options.%s to the "
                              "agent in the registry",
                              agent->name, names[i], names[i]);
    return 0;
}

/* The text of the agent's own "instructions", or of its "prompt". */
static int own_prompt(const struct atoll_tasks *tasks, const struct atoll_task_agent *agent,
                      json_t **ret, struct atoll_error *err)
{
    const char *name = request_text(agent->object, "prompt");
    struct atoll_registry_item prompt;
    struct atoll_buf text;
    int r = 0;

    *ret = json_incref(json_object_get(agent->object, "instructions"));
    if (!name)
        return 0;
    if (!atoll_registry_find(tasks->config.registry, ATOLL_REGISTRY_PROMPT, name, &prompt))
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, ENOENT,
                          "the agent %.64s has the prompt %.64s, which the registry lacks",
                          agent->name, name);
    atoll_buf_init(&text, ARG_MAX_BYTES);
    r = atoll_prompt_render(&prompt, NULL, &text, err);
    if (r == 0)
        *ret = json_string(atoll_buf_str(&text));
    else
        r = atoll_wrap(err, "prompt %.64s of the agent %.64s", name, agent->name);
    atoll_buf_done(&text);
    return r;
}

int atoll_task_agent_defaults(const struct atoll_tasks *tasks, json_t *request,
                              const struct atoll_task_agent *agent, struct atoll_error *err)
{
    json_t *model = json_object_get(agent->object, "model"), *prompt = NULL;
    int r = 0;

    if (model && !json_object_get(request, "model"))
        (void)json_object_set(request, "model", model);
    if (!json_object_get(request, "systemPrompt"))
        r = own_prompt(tasks, agent, &prompt, err);
    if (prompt)
        (void)json_object_set(request, "systemPrompt", prompt);
    json_decref(prompt);
    return r;
}

/* --- command line --- */

static const char *const values[] = {"instruction", "model",     "systemPrompt",
                                     "resume",      "mcpConfig", "allowedTools"};

/* What stands for a value in the command line and the variables of an agent. */
static const char *value_of(const struct atoll_task *task, const char *name)
{
    return strcmp(name, "mcpConfig") == 0 ? ATOLL_TASK_MCP_FILE : atoll_task_text(task, name);
}

/* {prompt}: the instruction, with the system prompt in front of it. */
static size_t add_prompt(const struct atoll_task *task, const char *text, struct atoll_buf *out)
{
    static const char place[] = "{prompt}";
    const char *before = atoll_task_text(task, "systemPrompt");

    if (strncmp(text, place, sizeof(place) - 1) != 0)
        return 0;
    if (before)
        (void)!atoll_buf_appendf(out, "%s\n\n", before);
    (void)!atoll_buf_appends(out, atoll_task_text(task, "instruction"));
    return sizeof(place) - 1;
}

/* The text with {instruction} and so on replaced. */
static char *expand(const struct atoll_task *task, const char *text)
{
    struct atoll_buf out;
    char *copy;

    atoll_buf_init(&out, ARG_MAX_BYTES);
    while (*text) {
        const char *value = NULL;
        size_t skip = add_prompt(task, text, &out);

        if (skip > 0) {
            text += skip;
            continue;
        }
        skip = 1;
        for (size_t i = 0; *text == '{' && i < ATOLL_ARRAY_LEN(values); i++) {
            size_t n = strlen(values[i]);
            if (strncmp(text + 1, values[i], n) == 0 && text[1 + n] == '}') {
                value = value_of(task, values[i]);
                value = value ? value : "";
                skip = n + 2;
            }
        }
        (void)!(value ? atoll_buf_appends(&out, value) : atoll_buf_append(&out, text, 1));
        text += skip;
    }
    copy = strdup(atoll_buf_str(&out));
    atoll_buf_done(&out);
    return copy;
}

struct words {
    char **items;
    size_t count;
};

static int add_word(struct words *w, char *word)
{
    if (!word || w->count == ARGS_MAX) {
        free(word);
        return -ENOMEM;
    }
    w->items[w->count++] = word;
    return 0;
}

static int add_list(const struct atoll_task *task, struct words *w, const json_t *list)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < json_array_size(list); i++)
        r = add_word(w, expand(task, json_string_value(json_array_get(list, i))));
    return r;
}

void atoll_task_strings_free(char **strings)
{
    for (size_t i = 0; strings && strings[i]; i++) {
        explicit_bzero(strings[i], strlen(strings[i]));
        free(strings[i]);
    }
    free(strings);
}

char **atoll_task_agent_argv(const struct atoll_task *task, const json_t *agent)
{
    struct words w = {.items = calloc(ARGS_MAX + 1, sizeof(char *))};
    const json_t *options = json_object_get(agent, "options");
    int r = w.items ? add_list(task, &w, json_object_get(agent, "command")) : -ENOMEM;

    for (size_t i = 0; r == 0 && i < ATOLL_ARRAY_LEN(values); i++)
        if (atoll_task_text(task, values[i]))
            r = add_list(task, &w, json_object_get(options, values[i]));
    if (r == 0 && atoll_task_has_mcp(task))
        r = add_list(task, &w, json_object_get(json_object_get(agent, "mcp"), "options"));
    if (r == 0)
        r = add_list(task, &w, json_object_get(agent, "last"));
    if (r == 0)
        return w.items;
    atoll_task_strings_free(w.items);
    return NULL;
}

/* --- variables --- */

static int add_variable(struct words *w, const char *name, const char *value)
{
    char *text = NULL;

    if (w->count == VARIABLES_MAX || asprintf(&text, "%s=%s", name, value) < 0)
        return -ENOMEM;
    w->items[w->count++] = text;
    return 0;
}

static int add_object(const struct atoll_task *task, struct words *w, const json_t *env)
{
    const char *name;
    json_t *value;
    int r = 0;

    json_object_foreach((json_t *)(uintptr_t)env, name, value)
    {
        char *text = r == 0 ? expand(task, json_string_value(value)) : NULL;
        if (r == 0)
            r = text ? add_variable(w, name, text) : -ENOMEM;
        free(text);
    }
    return r;
}

/* 1: it is there; 0: there is no such key. */
static int add_key(const struct atoll_task *task, const json_t *agent, struct words *w,
                   const char *name)
{
    struct atoll_buf value;
    int r;

    atoll_buf_init_erasing(&value, ATOLL_SECRET_VALUE_MAX + 1);
    r = atoll_task_key_variable(task, agent, name, &value);
    if (r > 0 && atoll_buf_size(&value) > 0 && add_variable(w, name, atoll_buf_str(&value)) < 0)
        r = -ENOMEM;
    atoll_buf_done(&value);
    return r;
}

/* At least one of the agent's keys must be found, if it needs any. */
static int add_keys(const struct atoll_task *task, const json_t *agent, struct words *w,
                    struct atoll_error *err)
{
    const json_t *keys = json_object_get(agent, "keys");
    struct atoll_buf names;
    size_t found = 0;
    int r = 0;

    atoll_buf_init(&names, 1024);
    for (size_t i = 0; r >= 0 && i < json_array_size(keys); i++) {
        const char *name = json_string_value(json_array_get(keys, i));
        r = add_key(task, agent, w, name);
        found += r > 0;
        (void)!atoll_buf_appendf(&names, "%s%s", i ? " or " : "", name);
    }
    if (r >= 0 && found == 0 && json_array_size(keys) > 0)
        r = atoll_fail(
            err, ATOLL_ERR_FAILED_PRECONDITION, ENOKEY,
            "the agent needs a key: store it with `atoll secret create %s`, or give it in "
            "\"env\" of the task",
            atoll_buf_str(&names));
    else if (r < 0)
        r = atoll_fail_errno(err, -r, "the variables of the agent");
    atoll_buf_done(&names);
    return r < 0 ? r : 0;
}

int atoll_task_agent_env(const struct atoll_task *task, const json_t *agent, char ***ret,
                         struct atoll_error *err)
{
    struct words w = {0};
    int r = atoll_task_keys_check(task, agent, err);

    if (r < 0)
        return r;
    w.items = calloc(VARIABLES_MAX + 1, sizeof(char *));
    r = w.items ? add_variable(&w, "ATOLL_TASK", task->id) : -ENOMEM;

    if (r == 0 && atoll_task_text(task, "swarmId"))
        r = add_variable(&w, "ATOLL_SWARM", atoll_task_text(task, "swarmId"));
    if (r == 0 && atoll_task_text(task, "swarmId"))
        r = add_variable(&w, "ATOLL_SWARM_MEMORY", ATOLL_TASK_MEMORY_FILE);
    if (r == 0)
        r = add_object(task, &w, json_object_get(agent, "env"));
    if (r == 0 && atoll_task_has_mcp(task))
        r = add_object(task, &w, json_object_get(json_object_get(agent, "mcp"), "env"));
    if (r == 0)
        r = add_object(task, &w, atoll_task_object(task, "env"));
    r = r < 0 ? atoll_fail_errno(err, -r, "the variables of the agent")
              : add_keys(task, agent, &w, err);
    if (r < 0) {
        atoll_task_strings_free(w.items);
        return r;
    }
    *ret = w.items;
    return 0;
}
