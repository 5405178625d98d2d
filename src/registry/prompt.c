#include "registry/prompt.h"

#include <errno.h>
#include "registry/places.h"

static int check_given(const struct atoll_registry_item *prompt, const json_t *variables,
                       struct atoll_error *err)
{
    const json_t *declared = json_object_get(prompt->object, "variables");
    const char *name;
    json_t *value;

    json_object_foreach((json_t *)(uintptr_t)variables, name, value)
    {
        if (!json_object_get(declared, name))
            return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                              "the prompt %s has no variable %.64s", prompt->name, name);
        if (!json_is_string(value))
            return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                              "the variable %.64s must be a text", name);
    }
    return 0;
}

/* A text for every variable that is declared. */
static int complete(const struct atoll_registry_item *prompt, const json_t *variables,
                    json_t *values, struct atoll_error *err)
{
    const char *name;
    json_t *declared;

    json_object_foreach(json_object_get(prompt->object, "variables"), name, declared)
    {
        json_t *value = json_object_get(variables, name);

        if (!value)
            value = json_object_get(declared, "default");
        if (!value && json_is_true(json_object_get(declared, "required")))
            return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                              "the variable %.64s of the prompt %s is missing", name, prompt->name);
        if (json_object_set_new(values, name, value ? json_incref(value) : json_string("")) < 0)
            return atoll_fail_errno(err, ENOMEM, "a prompt");
    }
    return 0;
}

int atoll_prompt_render(const struct atoll_registry_item *prompt, const json_t *variables,
                        struct atoll_buf *out, struct atoll_error *err)
{
    const char *text = json_string_value(json_object_get(prompt->object, "text"));
    json_t *values = json_object();
    int r = check_given(prompt, variables, err);

    if (r == 0)
        r = complete(prompt, variables, values, err);
    if (r == 0 && atoll_places_fill(text, values, out) < 0)
        r = atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, EFBIG,
                       "the text of the prompt %s becomes too long", prompt->name);
    json_decref(values);
    return r;
}
