/* Helpers: members of JSON objects, names of signals, structs that begin with their size. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include "base/text.h"
#include "client/link.h"

/* The first real-time signal for programs; glibc reserves 32 and 33. */
#define FIRST_RT_SIGNAL 34

json_t *atoll_link_parse_json(const void *bytes, size_t n)
{
    /* Output of commands may contain NUL bytes. */
    return json_loadb(bytes, n, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
}

const char *atoll_link_text(const json_t *object, const char *key, const char *otherwise)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : otherwise;
}

double atoll_link_number(const json_t *object, const char *key, double otherwise)
{
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : otherwise;
}

uint64_t atoll_link_count(const json_t *object, const char *key)
{
    double value = atoll_link_number(object, key, 0);
    return value > 0 && value < 9e18 ? (uint64_t)value : 0;
}

int atoll_link_signal_number(const json_t *value)
{
    const char *name = json_string_value(value);
    uint64_t number;

    if (json_is_integer(value) && json_integer_value(value) > 0 &&
        json_integer_value(value) < _NSIG)
        return (int)json_integer_value(value);
    if (!name)
        return 0;
    if (atoll_text_u64(name, 1, _NSIG - 1, &number) == 0)
        return (int)number;
    if (strncmp(name, "SIG", 3) == 0)
        name += 3;
    if (strncmp(name, "RTMIN+", 6) == 0 &&
        atoll_text_u64(name + 6, 0, _NSIG - 1 - FIRST_RT_SIGNAL, &number) == 0)
        return FIRST_RT_SIGNAL + (int)number;
    for (int i = 1; i < _NSIG; i++) {
        const char *known = sigabbrev_np(i);
        if (known && strcmp(known, name) == 0)
            return i;
    }
    return 0;
}

const char *atoll_link_signal_name(int signo, char *out)
{
    const char *name = sigabbrev_np(signo);

    if (name)
        (void)snprintf(out, ATOLL_LINK_SIGNAL_MAX, "SIG%s", name);
    else if (signo >= FIRST_RT_SIGNAL)
        (void)snprintf(out, ATOLL_LINK_SIGNAL_MAX, "SIGRTMIN+%d", signo - FIRST_RT_SIGNAL);
    else
        (void)snprintf(out, ATOLL_LINK_SIGNAL_MAX, "%d", signo);
    return out;
}

int atoll_link_check_id(const char *what, const char *id, struct atoll_error *err)
{
    if (id && atoll_text_is_name(id))
        return 0;
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "\"%.80s\" is no %s id",
                      id ? id : "", what);
}

int atoll_link_import(void *to, size_t to_size, const void *from, struct atoll_error *err)
{
    const uint8_t *bytes = from;
    size_t size = 0;

    memset(to, 0, to_size);
    if (!from)
        return 0;
    memcpy(&size, from, sizeof(size));
    if (size < sizeof(size) || size > 64 * to_size)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "the size of a struct is not set: {.size = sizeof(…)}");
    for (size_t i = to_size; i < size; i++)
        if (bytes[i] != 0)
            return atoll_fail(
                err, ATOLL_ERR_INVALID_ARGUMENT, E2BIG,
                "this libatoll (" ATOLL_VERSION
                ") is too old for this program: it does not know an option that is set");
    memcpy(to, from, ATOLL_MIN(size, to_size));
    return 0;
}

const char *atoll_client_version(void)
{
    return ATOLL_VERSION;
}

const char *atoll_client_code_name(enum atoll_client_code code)
{
    return atoll_error_kind_name((enum atoll_error_kind)code);
}

void atoll_client_release(void *memory)
{
    free(memory);
}
