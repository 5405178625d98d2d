#include "network/placeholder.h"

#include <errno.h>
#include <string.h>

static const struct {
    const char *begin;
    bool lower_case;
} forms[] = {
    {"${secret.", false},
    {"${e2b.secrets.", true},
};

bool atoll_secret_is_name(const char *text)
{
    size_t n = strlen(text);

    return n > 0 && n <= ATOLL_SECRET_NAME_MAX && strcmp(text, ".") != 0 &&
           strcmp(text, "..") != 0 &&
           strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") == n;
}

static void copy_name(const char *from, size_t n, bool lower_case, char *name)
{
    *name = '\0';
    if (n > ATOLL_SECRET_NAME_MAX)
        return;
    for (size_t i = 0; i < n; i++)
        name[i] = (char)(lower_case && from[i] >= 'A' && from[i] <= 'Z' ? from[i] + 32 : from[i]);
    name[n] = '\0';
    if (!atoll_secret_is_name(name))
        *name = '\0';
}

const char *atoll_placeholder_find(const char *text, const char **ret_end,
                                   char name[static ATOLL_SECRET_NAME_MAX + 1])
{
    for (const char *at = text; (at = strstr(at, "${")) != NULL; at += 2)
        for (size_t i = 0; i < ATOLL_ARRAY_LEN(forms); i++) {
            size_t n = strlen(forms[i].begin), length = strcspn(at, "}");

            if (strncmp(at, forms[i].begin, n) != 0)
                continue;
            *name = '\0';
            if (at[length] == '}')
                copy_name(at + n, length - n, forms[i].lower_case, name);
            *ret_end = at + length + (at[length] == '}');
            return at;
        }
    return NULL;
}

int atoll_placeholder_fill(const char *text, const char *(*get)(void *arg, const char *name),
                           void *arg, struct atoll_buf *out)
{
    char name[ATOLL_SECRET_NAME_MAX + 1];
    const char *at, *end, *value;
    int r = 0;

    for (; r == 0 && (at = atoll_placeholder_find(text, &end, name)) != NULL; text = end) {
        value = *name ? get(arg, name) : NULL;
        r = value ? atoll_buf_append(out, text, (size_t)(at - text)) : -ENOENT;
        if (r == 0)
            r = atoll_buf_appends(out, value);
    }
    return r < 0 ? r : atoll_buf_appends(out, text);
}
