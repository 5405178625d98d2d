#include "cli/request.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#define MIB (1024.0 * 1024)

#define AT(field) offsetof(struct atoll_cli_sandbox_options, field)
const struct atoll_cli_option atoll_cli_sandbox_options[] = {
    {"template", 0, ATOLL_CLI_TEXT, AT(template), "NAME", "what it is made from (default: host)",
     NULL},
    {"memory", 'm', ATOLL_CLI_SIZE, AT(memory_bytes), "SIZE", "most memory (default: 512M)", NULL},
    {"cpus", 0, ATOLL_CLI_DECIMAL, AT(cpus), "N", "most CPUs, such as 0.5 (default: all)", NULL},
    {"disk", 0, ATOLL_CLI_SIZE, AT(disk_bytes), "SIZE", "most disk space (default: 256M)", NULL},
    {"pids", 0, ATOLL_CLI_COUNT, AT(pids), "N", "most processes (default: 256)", NULL},
    {"waive", 0, ATOLL_CLI_LIST, AT(waive), "WHAT",
     "do without a limit this host cannot give: memory, cpu, pids, disk, all", NULL},
    {0},
};
#undef AT

#define AT(field) offsetof(struct atoll_cli_command_options, field)
const struct atoll_cli_option atoll_cli_command_options[] = {
    {"user", 'u', ATOLL_CLI_TEXT, AT(user), "NAME", "who runs it (default: user, uid 1000)", NULL},
    {"cwd", 'w', ATOLL_CLI_TEXT, AT(cwd), "DIR", "where it starts (default: the home)", NULL},
    {"env", 'e', ATOLL_CLI_LIST, AT(env), "K=V", "set a variable; K alone passes yours on", NULL},
    {"timeout", 0, ATOLL_CLI_DECIMAL, AT(timeout_seconds), "SECONDS",
     "kill it, and all it started, after this time", NULL},
    {"stdin", 'i', ATOLL_CLI_FLAG, AT(interactive), NULL,
     "pass standard input on even if it is a terminal", NULL},
    {"tty", 't', ATOLL_CLI_FLAG, AT(tty), NULL, "give it a terminal of its own", NULL},
    {0},
};
#undef AT

static int no_memory(struct atoll_error *err)
{
    return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, ENOMEM, "no memory for the request");
}

/* Whole numbers stay whole: 30, not 30.0. */
static json_t *number(double value)
{
    return value == floor(value) ? json_integer((json_int_t)value) : json_real(value);
}

static int set_number(json_t *object, const char *key, double value)
{
    return value > 0 ? json_object_set_new(object, key, number(value)) : 0;
}

/* jansson takes valid UTF-8 only, and says NULL to everything else. */
static int set_text(json_t *object, const char *key, const char *value, struct atoll_error *err)
{
    if (value && json_object_set_new(object, key, json_string(value)) < 0)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EILSEQ, "%s is not valid UTF-8", key);
    return 0;
}

/* "memory,cpu" means the same as two options. */
static int add_waived(json_t *array, const char *text, struct atoll_error *err)
{
    static const char *const known[] = {"memory", "cpu", "pids", "disk", "all"};

    while (*text) {
        size_t n = strcspn(text, ","), i = 0;
        while (i < ATOLL_ARRAY_LEN(known) &&
               (strlen(known[i]) != n || memcmp(known[i], text, n) != 0))
            i++;
        if (i == ATOLL_ARRAY_LEN(known))
            return atoll_fail(
                err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                "--waive: \"%.*s\" is no limit; there are memory, cpu, pids, disk, all", (int)n,
                text);
        if (json_array_append_new(array, json_string(known[i])) < 0)
            return no_memory(err);
        text += n + (text[n] == ',');
    }
    return 0;
}

int atoll_cli_add_sandbox(json_t *request, const struct atoll_cli_sandbox_options *options,
                          double lifetime_seconds, struct atoll_error *err)
{
    ATOLL_CLI_AUTOJSON json_t *limits = json_object();
    ATOLL_CLI_AUTOJSON json_t *waive = json_array();
    int r = set_text(request, "template", options->template, err);

    for (size_t i = 0; r == 0 && i < options->waive.n; i++)
        r = add_waived(waive, options->waive.items[i], err);
    if (r < 0)
        return r;
    if (set_number(limits, "memoryMB", ceil((double)options->memory_bytes / MIB)) < 0 ||
        set_number(limits, "diskMB", ceil((double)options->disk_bytes / MIB)) < 0 ||
        set_number(limits, "pids", (double)options->pids) < 0 ||
        set_number(limits, "cpuCores", options->cpus) < 0 ||
        set_number(limits, "timeoutSeconds", lifetime_seconds) < 0)
        return no_memory(err);
    if (json_object_size(limits) > 0 && json_object_set(request, "limits", limits) < 0)
        return no_memory(err);
    if (json_array_size(waive) > 0 && json_object_set(request, "waive", waive) < 0)
        return no_memory(err);
    return 0;
}

static int add_variable(json_t *env, const char *item, struct atoll_error *err)
{
    size_t n = strcspn(item, "=");
    const char *value = item[n] ? item + n + 1 : getenv(item);
    char name[256];

    if (n == 0 || n >= sizeof(name))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "--env: \"%.80s\" has no name; write K=V", item);
    if (!value)
        return 0; /* as with `env`: what is not set here is not set there */
    memcpy(name, item, n);
    name[n] = '\0';
    if (json_object_set_new(env, name, json_string(value)) < 0)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EILSEQ, "--env %s: not valid UTF-8",
                          name);
    return 0;
}

int atoll_cli_add_env(json_t *request, const struct atoll_cli_list *env, struct atoll_error *err)
{
    ATOLL_CLI_AUTOJSON json_t *object = json_object();
    int r = 0;

    for (size_t i = 0; r == 0 && i < env->n; i++)
        r = add_variable(object, env->items[i], err);
    if (r == 0 && json_object_size(object) > 0 && json_object_set(request, "env", object) < 0)
        r = no_memory(err);
    return r;
}

int atoll_cli_add_command(json_t *request, const struct atoll_cli_command_options *options,
                          char *const *argv, struct atoll_error *err)
{
    ATOLL_CLI_AUTOJSON json_t *cmd = json_array();
    int r = set_text(request, "user", options->user, err);

    if (r == 0)
        r = set_text(request, "cwd", options->cwd, err);
    if (r == 0)
        r = atoll_cli_add_env(request, &options->env, err);
    if (r < 0)
        return r;
    for (; *argv; argv++)
        if (json_array_append_new(cmd, json_string(*argv)) < 0)
            return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EILSEQ,
                              "argument \"%.80s\" is not valid UTF-8", *argv);
    if (json_object_set(request, "cmd", cmd) < 0 ||
        set_number(request, "timeoutSeconds", options->timeout_seconds) < 0)
        return no_memory(err);
    return 0;
}
