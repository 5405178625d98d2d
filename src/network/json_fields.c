/* Fields of JSON whose errors name their position. */
#include <errno.h>
#include <string.h>
#include "network/policy_internal.h"

int atoll_network_refuse(struct atoll_error *err, const char *where, const char *what)
{
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "network%s%s must be %s",
                      *where ? "." : "", where, what);
}

int atoll_network_no_memory(struct atoll_error *err)
{
    return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, ENOMEM,
                      "the daemon has no memory for this network policy");
}

int atoll_network_known_fields(const json_t *object, const char *where, const char *const *known,
                               struct atoll_error *err)
{
    json_t *fields = (json_t *)object, *value; /* jansson's iterators are not const */
    const char *name;

    if (!json_is_object(object))
        return atoll_network_refuse(err, where, "an object");
    json_object_foreach(fields, name, value)
    {
        size_t i = 0;
        while (known[i] && strcmp(known[i], name) != 0)
            i++;
        if (!known[i])
            return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                              "network%s%s has no field \"%.64s\"", *where ? "." : "", where, name);
    }
    return 0;
}

static bool has_control(const char *text)
{
    for (const unsigned char *p = (const unsigned char *)text; *p; p++)
        if (*p < ' ' || *p == 0x7f)
            return true;
    return false;
}

int atoll_network_text_field(const json_t *value, const char *where, size_t max, bool any,
                             char **ret, struct atoll_error *err)
{
    const char *text = json_string_value(value);

    if (!value || json_is_null(value))
        return 0;
    if (!text || json_string_length(value) > max || strlen(text) != json_string_length(value))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "network.%s must be a string of at most %zu bytes", where, max);
    if (!any && has_control(text))
        return atoll_network_refuse(err, where, "a string without control characters");
    *ret = strdup(text);
    return *ret ? 0 : atoll_network_no_memory(err);
}

int atoll_network_target_field(const json_t *value, const char *where,
                               struct atoll_network_target *ret, struct atoll_error *err)
{
    const char *text = json_string_value(value);

    if (!text)
        return atoll_network_refuse(err, where,
                                    "a string; for example \"*.example.org\", \"203.0.113.0/24\" "
                                    "or \"example.org:443\"");
    if (atoll_network_target_parse(text, ret, err) < 0)
        return atoll_wrap(err, "network.%s", where);
    return 0;
}
