#include "registry/environment_options.h"

#include <errno.h>
#include <stdlib.h>
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

static const char *text_of(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));

    return text ? text : "";
}

int atoll_environment_mounts(const json_t *volumes, struct atoll_mount **ret_mounts,
                             struct atoll_error *err)
{
    size_t n = json_array_size(volumes);
    struct atoll_mount *mounts = n ? atoll_alloc(n * sizeof(*mounts)) : NULL;
    int r = 0;

    for (size_t i = 0; r == 0 && i < n; i++) {
        const json_t *v = json_array_get(volumes, i);
        const char *mode = text_of(v, "mode");
        struct atoll_mount *m = &mounts[i];

        *m = (struct atoll_mount){.read_only = false};
        if (atoll_text_copy(m->volume, sizeof(m->volume), text_of(v, "name")) < 0 ||
            atoll_text_copy(m->source, sizeof(m->source), text_of(v, "hostPath")) < 0 ||
            atoll_text_copy(m->path, sizeof(m->path), text_of(v, "path")) < 0)
            r = atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, ENAMETOOLONG,
                           "volumes: a name or a path is too long");
        if (r == 0 && *mode)
            r = atoll_mount_set_mode(m, mode, err);
        if (r == 0)
            r = atoll_mount_check(m, mounts, i, err);
    }
    if (r < 0) {
        free(mounts);
        return r;
    }
    *ret_mounts = mounts;
    return (int)n;
}

static int add_volumes(struct atoll_environment_options *o, const struct atoll_environment *e,
                       struct atoll_error *err)
{
    int r;

    if (o->sandbox.mount_count > 0 || !e->volumes)
        return 0;
    r = atoll_environment_mounts(e->volumes, &o->mounts, err);
    if (r < 0)
        return r;
    o->sandbox.mounts = o->mounts;
    o->sandbox.mount_count = (size_t)r;
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
    if (r == 0)
        r = add_volumes(ret, e, err);
    if (r < 0)
        atoll_environment_options_done(ret);
    return r;
}

void atoll_environment_options_done(struct atoll_environment_options *o)
{
    free(o->env);
    free(o->warm);
    free(o->policy);
    free(o->mounts);
    *o = (struct atoll_environment_options){0};
}
