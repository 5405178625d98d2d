#include <errno.h>
#include <string.h>
#include "engine/engine_internal.h"

/*
 * Copies of the options of a sandbox. The table lists every member that points to something: a new
 * option that is a pointer is one row here.
 */
enum kind { TEXT, SECRET, STRINGS, MOUNTS, LOGIN };

#define AT(member) offsetof(struct atoll_options, member)
static const struct {
    size_t at;
    enum kind kind;
} pointers[] = {
    {AT(id), TEXT},
    {AT(owner), TEXT},
    {AT(name), TEXT},
    {AT(template_name), TEXT},
    {AT(image), TEXT},
    {AT(provider), TEXT},
    {AT(isolation), TEXT},
    {AT(language), TEXT},
    {AT(interpreter), TEXT},
    {AT(warm), STRINGS},
    {AT(session_id), TEXT},
    {AT(metadata_json), TEXT},
    {AT(facade_json), TEXT},
    {AT(env), STRINGS},
    {AT(workdir), TEXT},
    {AT(user), TEXT},
    {AT(artifacts), STRINGS},
    {AT(mounts), MOUNTS},
    {AT(login), LOGIN},
    {AT(network_json), TEXT},
    {AT(service), TEXT},
    {AT(region), TEXT},
    {AT(tool_policy_json), TEXT},
    {AT(credential), SECRET},
};
#undef AT

static void *get(const struct atoll_options *options, size_t i)
{
    void *value;

    memcpy(&value, (const char *)options + pointers[i].at, sizeof(value));
    return value;
}

static void set(struct atoll_options *options, size_t i, const void *value)
{
    memcpy((char *)options + pointers[i].at, &value, sizeof(value));
}

static void *dup_bytes(const void *bytes, size_t n)
{
    void *copy = malloc(ATOLL_MAX(n, (size_t)1));

    return copy ? memcpy(copy, bytes, n) : NULL;
}

static size_t size_of(const struct atoll_options *options, size_t i)
{
    const char *const *strings = get(options, i);
    size_t n = 0;

    switch (pointers[i].kind) {
    case TEXT:
    case SECRET:
        return strlen(get(options, i)) + 1;
    case STRINGS:
        for (; *strings; strings++)
            n += strlen(*strings) + 1 + sizeof(*strings);
        return n;
    case MOUNTS:
        return options->mount_count * sizeof(*options->mounts);
    case LOGIN:
        return sizeof(*options->login);
    }
    return 0;
}

size_t atoll_options_size(const struct atoll_options *options)
{
    size_t n = 0;

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(pointers); i++)
        n += get(options, i) ? size_of(options, i) : 0;
    return n;
}

int atoll_options_dup(struct atoll_options *ret, const struct atoll_options *options,
                      struct atoll_error *err)
{
    bool failed = false;

    *ret = *options;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(pointers); i++) {
        const void *value = get(options, i);
        void *copy = NULL;

        if (value && !failed)
            copy = pointers[i].kind == STRINGS ? (void *)atoll_strings_dup(value)
                                               : dup_bytes(value, size_of(options, i));
        failed |= value && !copy;
        set(ret, i, copy);
    }
    if (!failed)
        return 0;
    atoll_options_free(ret);
    return atoll_fail_errno(err, ENOMEM, "options of a sandbox");
}

/* A pointer of a copy, whose target is ours. */
static void *own(const void *pointer)
{
    return (void *)(uintptr_t)pointer;
}

void atoll_options_set_text(const char **member, char *text)
{
    free(own(*member));
    *member = text;
}

void atoll_options_set_strings(const char *const **member, char **strings)
{
    atoll_strings_free(own(*member));
    *member = (const char *const *)strings;
}

void atoll_options_end_create(struct atoll_options *options)
{
    if (options->login)
        explicit_bzero(own(options->login), sizeof(*options->login));
    free(own(options->login));
    options->login = NULL;
    options->progress = NULL;
}

void atoll_options_free(struct atoll_options *options)
{
    atoll_options_end_create(options);
    if (options->credential)
        explicit_bzero(own(options->credential), strlen(options->credential));
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(pointers); i++)
        if (pointers[i].kind == STRINGS)
            atoll_strings_free(get(options, i));
        else
            free(get(options, i));
    *options = (struct atoll_options){0};
}

bool atoll_options_name_root(const struct atoll_options *options)
{
    return options->image ||
           (options->template_name && strcmp(options->template_name, "host") != 0);
}
