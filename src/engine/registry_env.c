/* Environments of the registry, as the engine uses them. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include "engine/registry.h"

#define MIB 1048576.0
/* Long enough for work, short enough that a forgotten loop ends. */
#define EXECUTE_TIMEOUT_S 300

static double number_of(const json_t *object, const char *name)
{
    return json_number_value(json_object_get(object, name)); /* 0 where there is none */
}

static struct atoll_limits limits_of(const json_t *object)
{
    return (struct atoll_limits){
        .memory_bytes = (uint64_t)(number_of(object, "memoryMB") * MIB),
        .cpu_millis = (uint32_t)ceil(number_of(object, "cpuCores") * 1000),
        .pids = (uint32_t)number_of(object, "pids"),
        .disk_bytes = (uint64_t)(number_of(object, "diskMB") * MIB),
        .inodes = (uint64_t)number_of(object, "inodes"),
        .open_files = (uint32_t)number_of(object, "openFiles"),
        .timeout_s = (uint32_t)ceil(number_of(object, "timeoutSeconds")),
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

int atoll_environment_find(const struct atoll_registry *registry, const char *name,
                           struct atoll_environment *ret, struct atoll_error *err)
{
    struct atoll_registry_item item;
    char known[200];

    if (!atoll_registry_find(registry, ATOLL_REGISTRY_ENVIRONMENT, name, &item)) {
        list_names(registry, known, sizeof(known));
        return atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT,
                          "there is no environment \"%.64s\"; there are: %s", name,
                          *known ? known : "none, the registry is empty");
    }
    *ret = (struct atoll_environment){
        .name = item.name,
        .template_name = json_string_value(json_object_get(item.object, "template")),
        .image = json_string_value(json_object_get(item.object, "image")),
        .language = json_string_value(json_object_get(item.object, "language")),
        .limits = limits_of(json_object_get(item.object, "limits")),
        .env = json_object_get(item.object, "env"),
        .start = json_object_get(item.object, "start"),
        .packages = json_object_get(item.object, "packages"),
        .requires = json_object_get(item.object, "requires"),
        .ignore = json_object_get(item.object, "ignore"),
        .execute_timeout_s = json_object_get(item.object, "executeTimeoutSeconds")
                                 ? number_of(item.object, "executeTimeoutSeconds")
                                 : EXECUTE_TIMEOUT_S,
    };
    return 0;
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
