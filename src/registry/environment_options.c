#include "registry/environment_options.h"

#include <string.h>
#include "base/memory.h"
#include "base/text.h"
#include "engine/network/request.h"
#include "registry/environment_build.h"

static bool is_given(const char *const *env, const char *name)
{
    size_t n = strlen(name);

    for (; env && *env; env++)
        if (strncmp(*env, name, n) == 0 && (*env)[n] == '=')
            return true;
    return false;
}

/* The request's variables, then those of the environment that the request does not set. One block:
 * pointers, then texts. The request's are borrowed. */
static const char **merge_env(const json_t *base, const char *const *given)
{
    json_t *object = (json_t *)base, *value; /* jansson's iterators are not const */
    size_t count = json_object_size(base), bytes = 0, at = 0;
    const char *name, **env;
    char *text;

    for (const char *const *p = given; p && *p; p++)
        count++;
    json_object_foreach(object, name, value) bytes += strlen(name) + json_string_length(value) + 2;
    env = atoll_alloc((count + 1) * sizeof(*env) + bytes);
    text = (char *)(env + count + 1);
    for (const char *const *p = given; p && *p; p++)
        env[at++] = *p;
    json_object_foreach(object, name, value)
    {
        if (is_given(given, name))
            continue;
        env[at++] = text;
        text = stpcpy(stpcpy(stpcpy(text, name), "="), json_string_value(value)) + 1;
    }
    return env;
}

/* NULL: none. */
static const char **list_of(const json_t *array)
{
    size_t n = json_array_size(array);
    const char **list = n ? atoll_alloc((n + 1) * sizeof(*list)) : NULL;

    for (size_t i = 0; i < n; i++)
        list[i] = json_string_value(json_array_get(array, i));
    return list;
}

/* Its list is for its own language. */
static bool is_its_language(const struct atoll_environment *e, const struct atoll_options *request)
{
    return !request->language || strcmp(request->language, e->language) == 0;
}

static int add_network(struct atoll_environment_options *o, const struct atoll_environment *e,
                       struct atoll_error *err)
{
    const struct atoll_network_request network = {.network = e->network};
    int r;

    if (o->sandbox.network_is_given || !e->network)
        return 0;
    r = atoll_network_request_check(&network, &o->sandbox.network, &o->policy, err);
    if (r < 0)
        return r;
    o->sandbox.network_is_given = true;
    o->sandbox.network_json = o->policy ? o->policy : o->sandbox.network_json;
    return 0;
}

int atoll_environment_options_init(struct atoll_environment_options *ret,
                                   const struct atoll_environment *e,
                                   const struct atoll_options *request, struct atoll_engine *engine,
                                   struct atoll_error *err)
{
    struct atoll_options *sandbox = &ret->sandbox;
    int r;

    *ret = (struct atoll_environment_options){.sandbox = *request};
    ret->env = merge_env(e->env, request->env);
    if (is_its_language(e, request))
        ret->warm = list_of(e->warm);
    if (!sandbox->image && !sandbox->template_name && !atoll_environment_is_built(e)) {
        sandbox->image = e->image;
        sandbox->template_name = e->image ? NULL : atoll_environment_template(e, engine);
    }
    sandbox->interpreter = sandbox->language ?: e->language;
    atoll_limits_merge(&sandbox->limits, &e->limits);
    sandbox->env_is_common = !sandbox->env || !*sandbox->env;
    sandbox->env = *ret->env ? ret->env : NULL;
    sandbox->warm = ret->warm;
    r = add_network(ret, e, err);
    if (r < 0)
        atoll_environment_options_done(ret);
    return r;
}

void atoll_environment_options_done(struct atoll_environment_options *o)
{
    free(o->env);
    free(o->warm);
    free(o->policy);
    *o = (struct atoll_environment_options){0};
}
