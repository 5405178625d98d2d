#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/buf.h"
#include "task/task_internal.h"

/*
 * Which runtime fits a task: the runtimes of the registry are a table whose rows say what they are for.
 * The first that fits, by `order` and then by name, gives the environment and the provider.
 */
#define WHY_MAX 512
#define ONLY_RESOURCES                                                          \
    "resources alone choose no runtime: they are limits of the sandbox, which " \
    "is that of the agent; give type or requirements as well"

static bool has_word(const json_t *words, const char *word)
{
    for (size_t i = 0; i < json_array_size(words); i++)
        if (strcasecmp(json_string_value(json_array_get(words, i)), word) == 0)
            return true;
    return false;
}

/* What a runtime lacks; "": it fits. */
static void find_lack(const json_t *runtime, const json_t *request, char out[static WHY_MAX])
{
    const char *type = json_string_value(json_object_get(request, "type")), *name;
    const json_t *types = json_object_get(runtime, "types");
    const json_t *wanted = json_object_get(request, "requirements");
    const json_t *most = json_object_get(runtime, "most");
    json_t *value;

    out[0] = '\0';
    if (json_array_size(types) > 0 && !(type && has_word(types, type)))
        (void)snprintf(out, WHY_MAX, "is not for the type %.64s", type ? type : "of the task");
    for (size_t i = 0; i < json_array_size(wanted); i++) {
        const char *word = json_string_value(json_array_get(wanted, i));
        if (!has_word(json_object_get(runtime, "provides"), word))
            (void)snprintf(out, WHY_MAX, "does not provide %.64s", word);
    }
    json_object_foreach(json_object_get(request, "resources"), name, value)
    {
        const json_t *limit = json_object_get(most, name);
        if (limit && json_number_value(value) > json_number_value(limit))
            (void)snprintf(out, WHY_MAX, "has at most %.6g %.32s", json_number_value(limit), name);
    }
}

static double order_of(const struct atoll_registry_item *item)
{
    const json_t *order = json_object_get(item->object, "order");

    return order ? json_number_value(order) : 100;
}

/* "type web; provides node, git" */
static void describe(const json_t *runtime, const json_t *request, struct atoll_buf *out)
{
    const char *type = json_string_value(json_object_get(request, "type")), *name;
    const json_t *wanted = json_object_get(request, "requirements");
    json_t *value;

    if (type && json_array_size(json_object_get(runtime, "types")) == 0)
        (void)!atoll_buf_appendf(out, "; it is for all types, and thus for %s", type);
    else if (type)
        (void)!atoll_buf_appendf(out, "; it is for the type %s", type);
    for (size_t i = 0; i < json_array_size(wanted); i++)
        (void)!atoll_buf_appendf(out, "%s %s", i ? "," : "; it provides",
                                 json_string_value(json_array_get(wanted, i)));
    json_object_foreach(json_object_get(request, "resources"), name, value)(
        void) !atoll_buf_appendf(out, "; %s %.6g", name, json_number_value(value));
}

static json_t *choice_of(const struct atoll_registry_item *item, const json_t *request)
{
    static const char *const copied[] = {"environment", "provider"};
    json_t *choice = json_pack("{s:s}", "name", item->name);
    struct atoll_buf why;

    atoll_buf_init(&why, 4096);
    (void)!atoll_buf_appendf(&why, "%s is the first runtime of the registry that fits", item->name);
    describe(item->object, request, &why);
    (void)json_object_set_new(choice, "why", json_string(atoll_buf_str(&why)));
    atoll_buf_done(&why);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(copied); i++)
        if (json_object_get(item->object, copied[i]))
            (void)json_object_set(choice, copied[i], json_object_get(item->object, copied[i]));
    return choice;
}

int atoll_task_runtime(const struct atoll_tasks *tasks, const json_t *request, json_t **ret,
                       struct atoll_error *err)
{
    struct atoll_registry_item item, found = {0};
    char lack[WHY_MAX];
    struct atoll_buf lacks;
    size_t pos = 0;

    *ret = NULL;
    if (!json_object_get(request, "type") && !json_object_get(request, "requirements")) {
        if (json_object_size(json_object_get(request, "resources")) > 0)
            *ret = json_pack("{s:s}", "why", ONLY_RESOURCES);
        return 0;
    }
    atoll_buf_init(&lacks, 4096);
    while (atoll_registry_next(tasks->config.registry, ATOLL_REGISTRY_RUNTIME, &pos, &item)) {
        find_lack(item.object, request, lack);
        if (*lack)
            (void)!atoll_buf_appendf(&lacks, "%s%s %s", atoll_buf_size(&lacks) ? ", " : "",
                                     item.name, lack);
        else if (!found.name || order_of(&item) < order_of(&found))
            found = item;
    }
    if (found.name)
        *ret = choice_of(&found, request);
    else
        (void)atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, ENOENT,
                         "no runtime of the registry fits the task: %.280s",
                         atoll_buf_size(&lacks) ? atoll_buf_str(&lacks) : "there are none");
    atoll_buf_done(&lacks);
    return found.name ? 0 : -ENOENT;
}
