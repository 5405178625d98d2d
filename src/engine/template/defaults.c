#include "engine/template/defaults.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include "engine/engine_internal.h"
#include "engine/json_memory.h"

static char *dup_text(const char *text)
{
    char *copy = strdup(text);

    if (!copy)
        abort();
    return copy;
}

/* Whether the request sets the variable of NAME=VALUE. */
static bool is_given(const char *const *env, const char *variable)
{
    size_t n = strcspn(variable, "=");

    for (; env && *env; env++)
        if (strncmp(*env, variable, n) == 0 && (*env)[n] == '=')
            return true;
    return false;
}

/* The texts of two lists; of the first, only those that the second does not give. */
static char **merge(const json_t *list, const char *const *env)
{
    size_t more = env ? atoll_strings_count(env) : 0, n = 0;
    char **all = calloc(json_array_size(list) + more + 1, sizeof(*all));
    const json_t *item;
    size_t i;

    if (!all)
        abort();
    json_array_foreach((json_t *)list, i,
                       item) if (json_is_string(item) && !is_given(env, json_string_value(item)))
        all[n++] = dup_text(json_string_value(item));
    for (i = 0; i < more; i++)
        all[n++] = dup_text(env[i]);
    return all;
}

static char **command_of(const json_t *config)
{
    const json_t *parts[] = {json_object_get(config, "Entrypoint"), json_object_get(config, "Cmd")};
    size_t n = 0;
    char **all = calloc(json_array_size(parts[0]) + json_array_size(parts[1]) + 1, sizeof(*all));

    if (!all)
        abort();
    for (size_t k = 0; k < ATOLL_ARRAY_LEN(parts); k++)
        for (size_t i = 0; i < json_array_size(parts[k]); i++) {
            const char *word = json_string_value(json_array_get(parts[k], i));

            if (word)
                all[n++] = dup_text(word);
        }
    if (n > 0)
        return all;
    free(all);
    return NULL;
}

static const char *text_of(const json_t *config, const char *name)
{
    const char *text = json_string_value(json_object_get(config, name));

    return text && *text ? text : NULL;
}

const char *atoll_defaults_user(const char *source)
{
    bool like_docker = strcmp(source, "image") == 0 || strcmp(source, "dockerfile") == 0;

    return like_docker ? "root" : NULL;
}

void atoll_defaults_apply(struct atoll_defaults *ret, const char *config_json, const char *source,
                          struct atoll_options *options)
{
    json_t *config = atoll_json_load_own(config_json);
    const char *user = text_of(config, "User"), *workdir = text_of(config, "WorkingDir");

    *ret = (struct atoll_defaults){0};
    if (!user)
        user = atoll_defaults_user(source);
    if (json_array_size(json_object_get(config, "Env")) > 0) {
        ret->env = merge(json_object_get(config, "Env"), options->env);
        options->env_is_common = options->env_is_common || !options->env || !*options->env;
        options->env = (const char *const *)ret->env;
    }
    if (user && !options->user)
        options->user = ret->user = dup_text(user);
    if (workdir && *workdir == '/' && !options->workdir)
        options->workdir = ret->workdir = dup_text(workdir);
    ret->command = command_of(config);
    json_decref(config);
}

void atoll_defaults_done(struct atoll_defaults *d)
{
    atoll_strings_free(d->env);
    atoll_strings_free(d->command);
    free(d->user);
    free(d->workdir);
    *d = (struct atoll_defaults){0};
}
