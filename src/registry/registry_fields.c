/*
 * The fields that files of each kind may have. A field is one row here and a paragraph in
 * docs/registry.md.
 */
#include <errno.h>
#include <string.h>
#include "base/text.h"
#include "engine/network/request.h"
#include "image/dockerfile.h"
#include "image/packages.h"
#include "registry/environment_options.h"
#include "registry/json_schema.h"
#include "registry/places.h"
#include "registry/registry_internal.h"

#define TEXT 1024
#define LONG_TEXT 65536
#define MONTH_S (31.0 * 24 * 3600)

/* The same names and bounds as in a request to create a sandbox. */
static const struct atoll_yaml_field limits[] = {
#define LIMIT(member, name, unit, least, most) {name, ATOLL_YAML_##unit, false, least, most, NULL},
#include "sandbox/limits.def"
    {0},
};

static const struct atoll_yaml_field interpreter[] = {
    {"run", ATOLL_YAML_STRINGS, true, 1, 64, NULL},
    {"extension", ATOLL_YAML_NAME, true, 0, 0, NULL},
    {0},
};

static const struct atoll_yaml_field requirement[] = {
    {"program", ATOLL_YAML_PROGRAM, true, 0, 0, NULL},
    {"install", ATOLL_YAML_STRING, true, 1, 200, NULL},
    {0},
};

static const struct atoll_yaml_field volume[] = {
    {"name", ATOLL_YAML_STRING, false, 1, 64, NULL},
    {"hostPath", ATOLL_YAML_STRING, false, 1, 255, NULL},
    {"path", ATOLL_YAML_STRING, true, 1, 255, NULL},
    {"mode", ATOLL_YAML_STRING, false, 2, 3, NULL},
    {0},
};

static const struct atoll_yaml_field environment[] = {
    {"description", ATOLL_YAML_STRING, false, 0, TEXT, NULL},
    {"aliases", ATOLL_YAML_STRINGS, false, 0, 16, NULL},
    {"template", ATOLL_YAML_NAME, false, 0, 0, NULL},
    {"fallback", ATOLL_YAML_NAME, false, 0, 0, NULL},
    {"image", ATOLL_YAML_STRING, false, 1, 255, NULL},
    {"dockerfile", ATOLL_YAML_STRING, false, 1, LONG_TEXT, NULL},
    {"language", ATOLL_YAML_NAME, true, 0, 0, NULL},
    {"interpreters", ATOLL_YAML_NAMED, true, 1, 16, interpreter},
    {"limits", ATOLL_YAML_OBJECT, false, 0, 0, limits},
    {"env", ATOLL_YAML_ENV, false, 0, 0, NULL},
    {"start", ATOLL_YAML_STRINGS, false, 1, 64, NULL},
    {"network", ATOLL_YAML_ANY, false, 0, 0, NULL},
    {"volumes", ATOLL_YAML_OBJECTS, false, 0, ATOLL_MOUNTS_MAX, volume},
    {"port", ATOLL_YAML_WHOLE, false, 1, 65535, NULL},
    {"packages", ATOLL_YAML_LISTS, false, 0, 16, NULL},
    {"requires", ATOLL_YAML_OBJECTS, false, 0, 16, requirement},
    {"ignore", ATOLL_YAML_STRINGS, false, 0, 64, NULL},
    {"warm", ATOLL_YAML_STRINGS, false, 0, 64, NULL},
    {"pool", ATOLL_YAML_WHOLE, false, 0, 1024, NULL},
    {"executeTimeoutSeconds", ATOLL_YAML_NUMBER, false, 0, MONTH_S, NULL},
    {0},
};

/* Where values are in a line of an agent's output: paths such as "usage/input_tokens". */
static const struct atoll_yaml_field output[] = {
    {"match", ATOLL_YAML_ANY, true, 0, 0, NULL},
    {"output", ATOLL_YAML_STRING, false, 1, 200, NULL},
    {"error", ATOLL_YAML_STRING, false, 1, 200, NULL},
    {"session", ATOLL_YAML_STRING, false, 1, 200, NULL},
    {"inputTokens", ATOLL_YAML_STRING, false, 1, 200, NULL},
    {"outputTokens", ATOLL_YAML_STRING, false, 1, 200, NULL},
    {"costUsd", ATOLL_YAML_STRING, false, 1, 200, NULL},
    {"id", ATOLL_YAML_STRING, false, 1, 200, NULL},
    {"total", ATOLL_YAML_BOOL, false, 0, 0, NULL},
    {"outputPart", ATOLL_YAML_STRING, false, 1, 200, NULL},
    {"outputEnds", ATOLL_YAML_BOOL, false, 0, 0, NULL},
    {0},
};

/* Arguments for what a task may give. */
static const struct atoll_yaml_field agent_options[] = {
    {"model", ATOLL_YAML_STRINGS, false, 1, 16, NULL},
    {"systemPrompt", ATOLL_YAML_STRINGS, false, 1, 16, NULL},
    {"resume", ATOLL_YAML_STRINGS, false, 1, 16, NULL},
    {"allowedTools", ATOLL_YAML_STRINGS, false, 1, 16, NULL},
    {0},
};

/* Which server wants a key, and in which header (task/keys.c). */
static const struct atoll_yaml_field key_server[] = {
    {"host", ATOLL_YAML_STRING, true, 1, 253, NULL},
    {"header", ATOLL_YAML_STRING, true, 1, 128, NULL},
    {"before", ATOLL_YAML_STRING, false, 0, 64, NULL},
    {0},
};

/* What words of the agent mean, beside those that are known (task/failure.c). */
static const struct atoll_yaml_field failure[] = {
    {"text", ATOLL_YAML_STRING, true, 1, 200, NULL},
    {"is", ATOLL_YAML_STRING, true, 1, 16, NULL},
    {0},
};

/* What lines of its output say about a run that ends with status 0 (task/output.c). */
static const struct atoll_yaml_field verdict[] = {
    {"line", ATOLL_YAML_STRING, false, 1, 200, NULL},
    {"match", ATOLL_YAML_ANY, false, 0, 0, NULL},
    {"is", ATOLL_YAML_STRING, true, 1, 16, NULL},
    {"needed", ATOLL_YAML_BOOL, false, 0, 0, NULL},
    {0},
};

/* How an agent gets MCP servers: a file of this form, and what else it takes to have it read. */
static const struct atoll_yaml_field agent_mcp[] = {
    {"form", ATOLL_YAML_NAME, true, 0, 0, NULL},
    {"options", ATOLL_YAML_STRINGS, false, 1, 16, NULL},
    {"env", ATOLL_YAML_ENV, false, 0, 0, NULL},
    {"prepare", ATOLL_YAML_STRING, false, 1, LONG_TEXT, NULL},
    {0},
};

static const struct atoll_yaml_field agent[] = {
    {"description", ATOLL_YAML_STRING, false, 0, TEXT, NULL},
    {"environment", ATOLL_YAML_NAME, true, 0, 0, NULL},
    {"command", ATOLL_YAML_STRINGS, false, 1, 64, NULL},
    {"options", ATOLL_YAML_OBJECT, false, 0, 0, agent_options},
    {"last", ATOLL_YAML_STRINGS, false, 0, 16, NULL},
    {"mcp", ATOLL_YAML_OBJECT, false, 0, 0, agent_mcp},
    {"check", ATOLL_YAML_STRING, false, 1, TEXT, NULL},
    {"install", ATOLL_YAML_STRING, false, 1, LONG_TEXT, NULL},
    {"installHosts", ATOLL_YAML_STRINGS, false, 0, 16, NULL},
    {"package", ATOLL_YAML_STRING, false, 1, 200, NULL},
    {"version", ATOLL_YAML_STRING, false, 1, 64, NULL},
    {"keys", ATOLL_YAML_STRINGS, false, 0, 16, NULL},
    {"keyServers", ATOLL_YAML_NAMED, false, 0, 16, key_server},
    {"hosts", ATOLL_YAML_STRINGS, false, 0, 64, NULL},
    {"output", ATOLL_YAML_OBJECTS, false, 0, 32, output},
    {"failures", ATOLL_YAML_OBJECTS, false, 0, 32, failure},
    {"verdicts", ATOLL_YAML_OBJECTS, false, 0, 32, verdict},
    {"stallSeconds", ATOLL_YAML_NUMBER, false, 0, MONTH_S, NULL},
    {"stallCpuPercent", ATOLL_YAML_NUMBER, false, 0, 10000, NULL},
    {"model", ATOLL_YAML_STRING, false, 1, 200, NULL},
    {"prompt", ATOLL_YAML_NAME, false, 0, 0, NULL},
    {"instructions", ATOLL_YAML_STRING, false, 1, LONG_TEXT, NULL},
    {"env", ATOLL_YAML_ENV, false, 0, 0, NULL},
    {"timeoutSeconds", ATOLL_YAML_NUMBER, false, 0, MONTH_S, NULL},
    {0},
};

/* A row of the table by which a task's type, requirements and resources choose where it runs. */
static const struct atoll_yaml_field runtime[] = {
    {"description", ATOLL_YAML_STRING, false, 0, TEXT, NULL},
    {"order", ATOLL_YAML_NUMBER, false, 0, 1000000, NULL},
    {"types", ATOLL_YAML_STRINGS, false, 0, 64, NULL},
    {"provides", ATOLL_YAML_STRINGS, false, 0, 64, NULL},
    {"most", ATOLL_YAML_OBJECT, false, 0, 0, limits},
    {"environment", ATOLL_YAML_NAME, false, 0, 0, NULL},
    {"provider", ATOLL_YAML_NAME, false, 0, 0, NULL},
    {0},
};

/* How tasks install what the files of a repository name (task/setup.c). */
static const struct atoll_yaml_field setup[] = {
    {"description", ATOLL_YAML_STRING, false, 0, TEXT, NULL},
    {"order", ATOLL_YAML_NUMBER, false, 0, 1000000, NULL},
    {"group", ATOLL_YAML_NAME, false, 0, 0, NULL},
    {"files", ATOLL_YAML_STRINGS, true, 1, 16, NULL},
    {"command", ATOLL_YAML_STRING, true, 1, TEXT, NULL},
    {"hosts", ATOLL_YAML_STRINGS, false, 0, 16, NULL},
    {0},
};

static const struct atoll_yaml_field tool[] = {
    {"description", ATOLL_YAML_STRING, true, 1, 4096, NULL},
    {"parameters", ATOLL_YAML_ANY, false, 0, 0, NULL}, /* a JSON Schema */
    {"environment", ATOLL_YAML_NAME, false, 0, 0, NULL},
    {"command", ATOLL_YAML_STRINGS, true, 1, 64, NULL},
    {"env", ATOLL_YAML_ENV, false, 0, 0, NULL},
    {"stdin", ATOLL_YAML_STRING, false, 1, LONG_TEXT, NULL},
    {"readsOnly", ATOLL_YAML_BOOL, false, 0, 0, NULL},
    {"timeoutSeconds", ATOLL_YAML_NUMBER, false, 0, MONTH_S, NULL},
    {0},
};

static const struct atoll_yaml_field variable[] = {
    {"description", ATOLL_YAML_STRING, false, 0, TEXT, NULL},
    {"required", ATOLL_YAML_BOOL, false, 0, 0, NULL},
    {"default", ATOLL_YAML_STRING, false, 0, LONG_TEXT, NULL},
    {0},
};

static const struct atoll_yaml_field prompt[] = {
    {"description", ATOLL_YAML_STRING, false, 0, TEXT, NULL},
    {"text", ATOLL_YAML_STRING, true, 1, LONG_TEXT, NULL},
    {"variables", ATOLL_YAML_NAMED, false, 0, 64, variable},
    {0},
};

const struct atoll_yaml_field *const atoll_registry_tables[ATOLL_REGISTRY_KINDS] = {
    [ATOLL_REGISTRY_ENVIRONMENT] = environment,
    [ATOLL_REGISTRY_AGENT] = agent,
    [ATOLL_REGISTRY_TOOL] = tool,
    [ATOLL_REGISTRY_PROMPT] = prompt,
    [ATOLL_REGISTRY_RUNTIME] = runtime,
    [ATOLL_REGISTRY_SETUP] = setup,
};

static int refuse(struct atoll_error *err, const char *text, const char *about)
{
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "%s%.64s", text, about);
}

static bool names_file(const json_t *run)
{
    for (size_t i = 0; i < json_array_size(run); i++)
        if (strcmp(json_string_value(json_array_get(run, i)), "{file}") == 0)
            return true;
    return false;
}

static int check_aliases(const json_t *aliases, struct atoll_error *err)
{
    for (size_t i = 0; i < json_array_size(aliases); i++) {
        const char *alias = json_string_value(json_array_get(aliases, i));
        if (!atoll_text_is_name(alias))
            return refuse(err, "\"aliases\" must be names; this is not a name: ", alias);
    }
    return 0;
}

static int check_network(const json_t *network, struct atoll_error *err)
{
    const struct atoll_network_request request = {.network = network};
    enum atoll_network mode;
    char *json = NULL;
    int r = atoll_network_request_check(&request, &mode, &json, err);

    free(json);
    return r;
}

static int check_volumes(const json_t *volumes, struct atoll_error *err)
{
    struct atoll_mount *mounts = NULL;
    int r = atoll_environment_mounts(volumes, &mounts, err);

    free(mounts);
    return r < 0 ? r : 0;
}

/* The loader has replaced the name of a file by its text. */
static int check_dockerfile(const json_t *dockerfile, struct atoll_error *err)
{
    struct atoll_recipe *recipe = NULL;

    if (!dockerfile)
        return 0;
    if (atoll_dockerfile_parse(json_string_value(dockerfile), json_string_length(dockerfile),
                               &recipe, err) < 0)
        return atoll_wrap(err, "dockerfile");
    atoll_recipe_free(recipe);
    return 0;
}

/* The host template shows the host's programs, but not the database of its package manager. */
static int check_packages(const json_t *object, struct atoll_error *err)
{
    const json_t *packages = json_object_get(object, "packages");
    const char *base = json_string_value(json_object_get(object, "template"));

    if (base && strcmp(base, "host") == 0 && json_array_size(json_object_get(packages, "apt")) > 0)
        return refuse(err,
                      "packages.apt needs a template or an image with a package manager of its "
                      "own (atoll template debian NAME), not the template \"host\"",
                      "");
    return atoll_packages_check(packages, err);
}

/* What its sandboxes are made from. */
static int check_root(const json_t *object, struct atoll_error *err)
{
    static const char *const roots[] = {"template", "image", "dockerfile"};
    size_t given = 0;

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(roots); i++)
        given += json_object_get(object, roots[i]) != NULL;
    if (given != 1)
        return refuse(err, "give one of \"template\", \"image\" and \"dockerfile\"", "");
    if (json_object_get(object, "fallback") && !json_object_get(object, "template"))
        return refuse(err, "\"fallback\" can only be given with \"template\"", "");
    if (json_object_get(object, "dockerfile") && json_object_get(object, "packages"))
        return refuse(err, "install \"packages\" in the \"dockerfile\"", "");
    if (check_dockerfile(json_object_get(object, "dockerfile"), err) < 0)
        return -EINVAL;
    return check_packages(object, err);
}

/* Names of modules as its driver imports them: "os.path", "node:fs", "@scope/name/file.js". */
static bool is_module(const char *name)
{
    size_t n = strlen(name);

    return n > 0 && n <= 128 &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-/@:") ==
               n;
}

static int check_warm(const json_t *object, const char *language, struct atoll_error *err)
{
    static const char *const known[] = {"python", "javascript", "typescript"};
    const json_t *warm = json_object_get(object, "warm");
    size_t i = 0;

    while (i < ATOLL_ARRAY_LEN(known) && strcmp(known[i], language) != 0)
        i++;
    if (warm && i == ATOLL_ARRAY_LEN(known))
        return refuse(
            err, "\"warm\" lists modules of python, javascript and typescript; the language is ",
            language);
    for (i = 0; i < json_array_size(warm); i++) {
        const char *name = json_string_value(json_array_get(warm, i));
        if (!is_module(name))
            return refuse(err, "\"warm\" must be names of modules; this is not one: ", name);
    }
    return 0;
}

static int check_environment(const json_t *object, struct atoll_error *err)
{
    json_t *interpreters = json_object_get(object, "interpreters"), *value;
    const char *language = json_string_value(json_object_get(object, "language")), *name;

    if (check_root(object, err) < 0 || check_aliases(json_object_get(object, "aliases"), err) < 0 ||
        check_network(json_object_get(object, "network"), err) < 0 ||
        check_volumes(json_object_get(object, "volumes"), err) < 0)
        return -EINVAL;
    if (json_object_get(object, "pool") && json_array_size(json_object_get(object, "volumes")) > 0)
        return refuse(err, "sandboxes of a \"pool\" have no ", "\"volumes\"");
    if (!json_object_get(interpreters, language))
        return refuse(err, "\"interpreters\" has no entry for the language ", language);
    if (check_warm(object, language, err) < 0)
        return -EINVAL;
    json_object_foreach(interpreters, name, value)
    {
        if (!names_file(json_object_get(value, "run")))
            return refuse(err, "\"run\" has no argument \"{file}\" in the interpreter ", name);
    }
    return 0;
}

static int check_mcp(const json_t *mcp, struct atoll_error *err)
{
    static const char *const forms[] = {"claude", "codex", "gemini", "opencode"};
    const char *form = json_string_value(json_object_get(mcp, "form"));
    bool known = !form;

    for (size_t i = 0; !known && i < ATOLL_ARRAY_LEN(forms); i++)
        known = strcmp(forms[i], form) == 0;
    return known ? 0
                 : refuse(err, "mcp.form must be claude, codex, gemini or opencode, not ", form);
}

static int check_failures(const json_t *rules, struct atoll_error *err)
{
    static const char *const causes[] = {"missing", "key", "rate", "server"};

    for (size_t i = 0; i < json_array_size(rules); i++) {
        const char *is = json_string_value(json_object_get(json_array_get(rules, i), "is"));
        size_t k = 0;
        while (k < ATOLL_ARRAY_LEN(causes) && strcmp(causes[k], is) != 0)
            k++;
        if (k == ATOLL_ARRAY_LEN(causes))
            return refuse(err, "\"is\" of failures must be missing, key, rate or server, not ", is);
    }
    return 0;
}

static int check_verdicts(const json_t *rules, struct atoll_error *err)
{
    for (size_t i = 0; i < json_array_size(rules); i++) {
        const json_t *rule = json_array_get(rules, i), *match = json_object_get(rule, "match");
        const char *is = json_string_value(json_object_get(rule, "is"));
        if (strcmp(is, "success") != 0 && strcmp(is, "failure") != 0)
            return refuse(err, "\"is\" of verdicts must be success or failure, not ", is);
        if (!match == !json_object_get(rule, "line") || (match && !json_is_object(match)))
            return refuse(err, "each of \"verdicts\" has \"line\", a text, or \"match\", an object",
                          "");
    }
    return 0;
}

/* --- {package} and {version} in "install" of an agent --- */

static const char *const package_names[] = {"package", "version"};

/* The place of a value; "${version}" is a variable of the shell. NULL: there is none. */
static const char *find_place(const char *text, const char *name, size_t *ret_len)
{
    char place[16];
    const char *at = text;

    *ret_len = (size_t)snprintf(place, sizeof(place), "{%s}", name);
    while ((at = strstr(at, place)) && at > text && at[-1] == '$')
        at++;
    return at;
}

/* The values are words of a shell that need no quotes. */
static int check_package(const json_t *object, struct atoll_error *err)
{
    static const char safe[] = "abcdefghijklmnopqrstuvwxyz"
                               "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@/._+-";
    const char *install = json_string_value(json_object_get(object, "install"));
    size_t n;

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(package_names); i++) {
        const char *name = package_names[i];
        const char *text = json_string_value(json_object_get(object, name));

        if (text && (text[0] == '-' || text[strspn(text, safe)]))
            return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                              "\"%s\" may have letters, digits and \"@/._+-\"", name);
        if (!text != !(install && find_place(install, name, &n)))
            return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                              "\"%s\" is what stands for {%s} in \"install\": give both", name,
                              name);
    }
    return 0;
}

void atoll_registry_fill_install(json_t *object)
{
    size_t n;

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(package_names); i++) {
        const char *value = json_string_value(json_object_get(object, package_names[i])), *at;
        const char *install = json_string_value(json_object_get(object, "install"));

        while (value && (at = find_place(install, package_names[i], &n))) {
            if (json_object_set_new(
                    object, "install",
                    json_sprintf("%.*s%s%s", (int)(at - install), install, value, at + n)) < 0)
                return;
            install = json_string_value(json_object_get(object, "install"));
        }
    }
}

static int check_agent(const json_t *object, struct atoll_error *err)
{
    if (check_package(object, err) < 0)
        return -EINVAL;
    if (check_failures(json_object_get(object, "failures"), err) < 0 ||
        check_verdicts(json_object_get(object, "verdicts"), err) < 0)
        return -EINVAL;
    if (json_object_get(object, "prompt") && json_object_get(object, "instructions"))
        return refuse(err, "give either \"prompt\" or \"instructions\"", "");
    return check_mcp(json_object_get(object, "mcp"), err);
}

/* The schema of all arguments is that of an object; "sandbox" is added to it for clients of MCP. */
static int check_parameters(const json_t *parameters, struct atoll_error *err)
{
    const json_t *type = json_object_get(parameters, "type");

    if (!parameters)
        return 0;
    if (type && (!json_is_string(type) || strcmp(json_string_value(type), "object") != 0))
        return refuse(err, "parameters.type must be object", "");
    if (json_object_get(json_object_get(parameters, "properties"), "sandbox"))
        return refuse(err, "\"parameters\" may not have a property \"sandbox\"", "");
    return atoll_json_schema_check(parameters, "parameters", err);
}

static int check_tool(const json_t *object, struct atoll_error *err)
{
    const json_t *parameters = json_object_get(object, "parameters");
    const json_t *known = json_object_get(parameters, "properties");
    const json_t *command = json_object_get(object, "command");
    const char *in = json_string_value(json_object_get(object, "stdin")), *name;
    json_t *value;
    int r = check_parameters(parameters, err);

    if (r == 0 && atoll_places_has(json_string_value(json_array_get(command, 0))))
        r = refuse(err, "the first element of \"command\" names the program: it has no places", "");
    for (size_t i = 0; r == 0 && i < json_array_size(command); i++)
        r = atoll_places_check(json_string_value(json_array_get(command, i)), known, "command",
                               err);
    json_object_foreach(json_object_get(object, "env"), name, value)
    {
        if (r == 0)
            r = atoll_places_check(json_string_value(value), known, "env", err);
    }
    return r == 0 && in ? atoll_places_check(in, known, "stdin", err) : r;
}

static int check_prompt(const json_t *object, struct atoll_error *err)
{
    json_t *variables = json_object_get(object, "variables"), *value;
    const char *name;

    json_object_foreach(variables, name, value)
    {
        if (json_is_true(json_object_get(value, "required")) && json_object_get(value, "default"))
            return refuse(err, "a variable is either \"required\" or has a \"default\": ", name);
    }
    return atoll_places_check(json_string_value(json_object_get(object, "text")), variables, "text",
                              err);
}

int atoll_registry_check(enum atoll_registry_kind kind, const json_t *object,
                         struct atoll_error *err)
{
    static int (*const checks[ATOLL_REGISTRY_KINDS])(const json_t *, struct atoll_error *) = {
        [ATOLL_REGISTRY_ENVIRONMENT] = check_environment,
        [ATOLL_REGISTRY_AGENT] = check_agent,
        [ATOLL_REGISTRY_TOOL] = check_tool,
        [ATOLL_REGISTRY_PROMPT] = check_prompt,
    };

    return checks[kind] ? checks[kind](object, err) : 0;
}
