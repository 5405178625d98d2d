/*
 * The parts of one instruction: its name, its flags, and words in the three forms that instructions have.
 */
#include <errno.h>
#include <string.h>
#include "base/buf.h"
#include "image/dockerfile_internal.h"
#include "image/lex.h"

static const char *skip_space(const char *p)
{
    while (atoll_lex_is_space(*p))
        p++;
    return p;
}

static const char *skip_word(const char *p)
{
    while (*p && !atoll_lex_is_space(*p))
        p++;
    return p;
}

/* Reads one flag. Quotes are removed and escapes replaced, as BuildKit does it for flags only. */
static const char *read_flag(const char *p, char escape, struct atoll_buf *word, int *failed)
{
    char quote = '\0';

    for (; *p && *failed == 0 && (quote || !atoll_lex_is_space(*p)); p++) {
        if (quote ? *p == quote : *p == '\'' || *p == '"') {
            quote = quote ? '\0' : *p;
            continue;
        }
        if (*p == escape && !*++p)
            break;
        *failed = atoll_buf_append(word, p, 1);
    }
    return p;
}

static int read_flags(struct atoll_recipe_memory *m, const char **text, char escape,
                      struct atoll_recipe_words *ret, struct atoll_error *err)
{
    struct atoll_buf word;
    const char *p = skip_space(*text);
    bool end = false;
    int r = 0;

    atoll_buf_init(&word, ATOLL_RECIPE_TEXT_MAX);
    while (r == 0 && !end && p[0] == '-' && p[1] == '-') {
        atoll_buf_clear(&word);
        p = read_flag(p, escape, &word, &r);
        if (r < 0)
            r = atoll_recipe_no_room(err);
        end = strcmp(atoll_buf_str(&word), "--") == 0;
        if (r == 0 && !end)
            r = atoll_recipe_add_word(m, ret, atoll_buf_str(&word), atoll_buf_size(&word), err);
        p = skip_space(p);
    }
    atoll_buf_done(&word);
    *text = p;
    return r;
}

int atoll_dockerfile_split(struct atoll_recipe_memory *m, const char *text, char escape,
                           struct atoll_dockerfile_parts *ret, struct atoll_error *err)
{
    const char *end;

    *ret = (struct atoll_dockerfile_parts){.name = skip_space(text)};
    end = skip_word(ret->name);
    ret->name_len = (size_t)(end - ret->name);
    ret->rest = end;
    return read_flags(m, &ret->rest, escape, &ret->flags, err);
}

int atoll_dockerfile_fields(struct atoll_recipe_memory *m, const char *rest,
                            struct atoll_recipe_words *ret, struct atoll_error *err)
{
    int r = 0;

    for (const char *p = skip_space(rest), *end; r == 0 && *p; p = skip_space(end)) {
        end = skip_word(p);
        r = atoll_recipe_add_word(m, ret, p, (size_t)(end - p), err);
    }
    return r;
}

/* The end of a word in which quotes protect white space. */
static const char *skip_quoted(const char *p, char escape)
{
    char quote = '\0';

    for (; *p && (quote || !atoll_lex_is_space(*p)); p++) {
        if (*p == escape && quote != '\'' && p[1])
            p++;
        else if (quote ? *p == quote : *p == '\'' || *p == '"')
            quote = quote ? '\0' : *p;
    }
    return p;
}

int atoll_dockerfile_quoted(struct atoll_recipe_memory *m, const char *rest, char escape,
                            struct atoll_recipe_words *ret, struct atoll_error *err)
{
    int r = 0;

    for (const char *p = skip_space(rest), *end; r == 0 && *p; p = skip_space(end)) {
        size_t n;
        end = skip_quoted(p, escape);
        n = (size_t)(end - p);
        /* An escape character at the end of the line escapes nothing. */
        if (!*end && p[n - 1] == escape && (n == 1 || p[n - 2] != escape))
            n--;
        r = n > 0 ? atoll_recipe_add_word(m, ret, p, n, err) : 0;
    }
    return r;
}

int atoll_dockerfile_json(struct atoll_recipe_memory *m, const char *rest,
                          struct atoll_recipe_words *ret, struct atoll_error *err)
{
    json_t *array = *skip_space(rest) == '[' ? json_loads(rest, 0, NULL) : NULL;
    int r = array ? 1 : 0;

    for (size_t i = 0; r > 0 && i < json_array_size(array); i++) {
        const json_t *item = json_array_get(array, i);
        if (!json_is_string(item))
            r = atoll_recipe_refuse(err, 0, "a JSON array must have strings only");
        else if (atoll_recipe_add_word(m, ret, json_string_value(item), json_string_length(item),
                                       err) < 0)
            r = -ENOMEM;
    }
    json_decref(array);
    return r;
}
