#include "sandbox/stack.h"

#include <errno.h>
#include <string.h>
#include "base/text.h"

bool atoll_stack_next(const char **pos, char ret_name[static ATOLL_LAYER_NAME_MAX + 1])
{
    size_t n = *pos ? strcspn(*pos, " ") : 0;

    if (n == 0 || n > ATOLL_LAYER_NAME_MAX)
        return false;
    memcpy(ret_name, *pos, n);
    ret_name[n] = '\0';
    *pos += n;
    *pos += **pos == ' ';
    return true;
}

bool atoll_stack_is_host(const char *layers)
{
    size_t n = strlen(ATOLL_STACK_HOST);

    return layers && strncmp(layers, ATOLL_STACK_HOST, n) == 0 && (!layers[n] || layers[n] == ' ');
}

const char *atoll_stack_above_host(const char *layers)
{
    const char *pos = layers + strlen(ATOLL_STACK_HOST);

    return *pos ? pos + 1 : pos;
}

size_t atoll_stack_count(const char *layers)
{
    char name[ATOLL_LAYER_NAME_MAX + 1];
    size_t n = 0;

    while (atoll_stack_next(&layers, name))
        n++;
    return n;
}

bool atoll_stack_has(const char *layers, const char *name)
{
    char one[ATOLL_LAYER_NAME_MAX + 1];

    while (atoll_stack_next(&layers, one))
        if (strcmp(one, name) == 0)
            return true;
    return false;
}

int atoll_stack_check(const char *layers, struct atoll_error *err)
{
    char name[ATOLL_LAYER_NAME_MAX + 1];
    const char *pos = layers;
    size_t n = 0;

    while (atoll_stack_next(&pos, name)) {
        if (!atoll_text_is_name(name))
            return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                              "%.64s is not the name of a layer", name);
        n++;
    }
    if (n == 0 || *pos || layers[strlen(layers) - 1] == ' ')
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "not a stack of layers");
    if (n > ATOLL_LAYERS_MAX)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, E2BIG,
                          "%zu layers: a template has at most %d", n, ATOLL_LAYERS_MAX);
    return 0;
}

size_t atoll_stack_split(const char *layers, char (*ret_names)[ATOLL_LAYER_NAME_MAX + 1])
{
    size_t count = atoll_stack_count(layers), n = 0;
    const char *pos = layers;

    if (count > ATOLL_LAYERS_MAX)
        return 0;
    /* Filled from the end, so that the last name of the text is the first. */
    for (size_t i = count; i > 0; i--)
        (void)atoll_stack_next(&pos, ret_names[i - 1]);
    for (size_t i = 0; i < count; i++) {
        size_t k = 0;

        while (k < n && strcmp(ret_names[k], ret_names[i]) != 0)
            k++;
        if (k == n && n++ != i)
            memcpy(ret_names[n - 1], ret_names[i], sizeof(*ret_names));
    }
    return n;
}

const char *atoll_stack_single(const struct atoll_spec *spec)
{
    if (!spec->layers || !*spec->layers)
        return spec->layer;
    return strchr(spec->layers, ' ') ? NULL : spec->layers;
}
