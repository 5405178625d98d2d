#include "api/kit/metadata.h"

#include <stdlib.h>
#include <string.h>
#include "engine/json_memory.h"

int atoll_metadata_check(const json_t *object, const char *name, struct atoll_error *err)
{
    json_t *value;
    const char *member;

    if (!json_is_object(object))
        return atoll_fields_refuse(err, "", name, object, "an object of strings");
    /* jansson's iterators are not const */
    json_object_foreach((json_t *)(uintptr_t)object, member, value)
    {
        if (!json_is_string(value))
            return atoll_fields_refuse(err, name, member, value, "a string");
    }
    return 0;
}

int atoll_metadata_take(const json_t *object, struct atoll_body *body, const char **ret,
                        struct atoll_error *err)
{
    char *text = json_is_object(object) ? atoll_json_dump(object, JSON_COMPACT) : strdup("{}");

    if (!text)
        return atoll_fields_no_memory(err);
    atoll_body_take(body, text);
    *ret = text;
    return 0;
}

const char *atoll_name_or_id(const struct atoll_sandbox_view *view)
{
    return view->options.name && *view->options.name ? view->options.name : view->id;
}
