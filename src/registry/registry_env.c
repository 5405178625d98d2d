/* Environments: from checked JSON to struct atoll_environment. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include "engine/engine.h"
#include "registry/registry_internal.h"

#define MIB 1048576.0
/* Default time limit for code: long enough for work, short enough to end an infinite loop. */
#define EXECUTE_TIMEOUT_S 300

static double number_of(const json_t *object, const char *name)
{
    return json_number_value(json_object_get(object, name)); /* 0 when the field is absent */
}

#define FROM_MIB(number) (uint64_t)((number)*MIB)
#define FROM_MILLI(number) (uint32_t) ceil((number)*1000)
#define FROM_CEIL(number) (uint32_t) ceil(number)
#define FROM_U32(number) (uint32_t)(number)
#define FROM_U64(number) (uint64_t)(number)

struct atoll_limits atoll_yaml_limits(const json_t *object)
{
    return (struct atoll_limits){
#define LIMIT(member, name, unit, ...) .member = FROM_##unit(number_of(object, name)),
#include "sandbox/limits.def"
    };
}

static void list_names(const struct atoll_registry *registry, char *out, size_t cap)
{
    struct atoll_registry_item item;
    size_t pos = 0, len = 0;

    out[0] = '\0';
    while (len < cap && atoll_registry_next(registry, ATOLL_REGISTRY_ENVIRONMENT, &pos, &item))
        len += (size_t)snprintf(out + len, cap - len, "%s%s", len ? ", " : "", item.name);
}

static bool has_alias(const json_t *object, const char *name)
{
    const json_t *aliases = json_object_get(object, "aliases");

    for (size_t i = 0; i < json_array_size(aliases); i++)
        if (strcasecmp(json_string_value(json_array_get(aliases, i)), name) == 0)
            return true;
    return false;
}

static bool find_item(const struct atoll_registry *registry, const char *name,
                      struct atoll_registry_item *ret)
{
    size_t pos = 0;

    if (atoll_registry_find(registry, ATOLL_REGISTRY_ENVIRONMENT, name, ret))
        return true;
    while (atoll_registry_next(registry, ATOLL_REGISTRY_ENVIRONMENT, &pos, ret))
        if (has_alias(ret->object, name))
            return true;
    return false;
}

int atoll_environment_find(const struct atoll_registry *registry, const char *name,
                           struct atoll_environment *ret, struct atoll_error *err)
{
    struct atoll_registry_item item;
    char known[200];

    if (!find_item(registry, name, &item)) {
        list_names(registry, known, sizeof(known));
        return atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT,
                          "there is no environment \"%.64s\"; there are: %s", name,
                          *known ? known : "none, the registry is empty");
    }
    *ret = (struct atoll_environment){
        .name = item.name,
        .template_name = json_string_value(json_object_get(item.object, "template")),
        .image = json_string_value(json_object_get(item.object, "image")),
        .dockerfile = json_string_value(json_object_get(item.object, "dockerfile")),
        .fallback = json_string_value(json_object_get(item.object, "fallback")),
        .aliases = json_object_get(item.object, "aliases"),
        .language = json_string_value(json_object_get(item.object, "language")),
        .port = (uint16_t)number_of(item.object, "port"),
        .limits = atoll_yaml_limits(json_object_get(item.object, "limits")),
        .env = json_object_get(item.object, "env"),
        .network = json_object_get(item.object, "network"),
        .volumes = json_object_get(item.object, "volumes"),
        .start = json_object_get(item.object, "start"),
        .packages = json_object_get(item.object, "packages"),
        .requires = json_object_get(item.object, "requires"),
        .warm = json_object_get(item.object, "warm"),
        .pool = (uint32_t)number_of(item.object, "pool"),
        .ignore = json_object_get(item.object, "ignore"),
        .execute_timeout_s = json_object_get(item.object, "executeTimeoutSeconds")
                                 ? number_of(item.object, "executeTimeoutSeconds")
                                 : EXECUTE_TIMEOUT_S,
    };
    return 0;
}

const char *atoll_environment_template(const struct atoll_environment *environment,
                                       struct atoll_engine *engine)
{
    struct atoll_template_view view;
    size_t pos = 0;

    if (!environment->fallback)
        return environment->template_name;
    while (atoll_templates_next(engine, &pos, &view))
        if (!(view.owner && *view.owner) && strcmp(view.name, environment->template_name) == 0)
            return environment->template_name;
    return environment->fallback;
}

int atoll_environment_interpreter(const struct atoll_registry *registry,
                                  const struct atoll_environment *environment, const char *language,
                                  struct atoll_interpreter *ret, struct atoll_error *err)
{
    struct atoll_registry_item item = {0};
    json_t *interpreters, *value;
    const char *name;
    char known[200] = "";
    size_t len = 0;

    (void)atoll_registry_find(registry, ATOLL_REGISTRY_ENVIRONMENT, environment->name, &item);
    interpreters = json_object_get(item.object, "interpreters");
    language = language && *language ? language : environment->language;
    value = json_object_get(interpreters, language);
    if (value) {
        *ret = (struct atoll_interpreter){
            .language = language,
            .extension = json_string_value(json_object_get(value, "extension")),
            .run = json_object_get(value, "run"),
        };
        return 0;
    }
    json_object_foreach(interpreters, name, value)
    {
        if (len < sizeof(known))
            len +=
                (size_t)snprintf(known + len, sizeof(known) - len, "%s%s", len ? ", " : "", name);
    }
    return atoll_fail(
        err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
        "the environment %s has no interpreter for the language \"%.32s\"; it has: %s",
        environment->name, language, known);
}
