#include "guard/match.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "base/memory.h"

/*
 * Two questions are answered by the same search: may the pattern match, if holes become what it needs; and must it
 * match, whatever they become. Then only "*" of the pattern may cover a hole.
 */

/* Patterns. */

static int refuse(struct atoll_error *err, const char *text, const char *why)
{
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "command pattern \"%.80s\": %s",
                      text, why);
}

/* Copies one word to out, and returns what follows; NULL: a quote is not closed. */
static const char *read_word(const char *p, char *out)
{
    char quote = 0;

    for (; *p && (quote || (*p != ' ' && *p != '\t')); p++) {
        if (quote && *p == quote) {
            quote = 0;
        } else if (!quote && (*p == '\'' || *p == '"')) {
            quote = *p;
        } else if (!quote && *p == '\\' && p[1]) {
            *out++ = *++p;
        } else {
            *out++ = quote       ? *p
                     : *p == '*' ? ATOLL_PATTERN_ANY
                     : *p == '?' ? ATOLL_PATTERN_ONE
                                 : *p;
        }
    }
    *out = '\0';
    return quote ? NULL : p;
}

int atoll_pattern_parse(const char *text, struct atoll_pattern *ret, struct atoll_error *err)
{
    char word[ATOLL_PATTERN_MAX + 1];
    const char *p = text;

    *ret = (struct atoll_pattern){0};
    if (strlen(text) > ATOLL_PATTERN_MAX)
        return refuse(err, text, "it has more than 256 bytes");
    for (const char *c = text; *c; c++)
        if ((unsigned char)*c < ' ' && *c != '\t')
            return refuse(err, text, "it has control characters");
    ret->words = atoll_alloc((ATOLL_PATTERN_MAX / 2 + 2) * sizeof(*ret->words));
    while (p && *(p += strspn(p, " \t"))) {
        p = read_word(p, word);
        if (p)
            ret->words[ret->count++] = strdup(word);
    }
    if (p && ret->count > 0)
        return 0;
    atoll_pattern_done(ret);
    return refuse(err, text, p ? "it is empty" : "a quote is not closed");
}

int atoll_pattern_check(const char *text, struct atoll_error *err)
{
    static const char *const operators[] = {"|", "||", "|&", "&", "&&", ";",
                                            "(", ")",  "<",  ">", ">>"};
    char word[ATOLL_PATTERN_MAX + 1];
    const char *p = text, *end;

    for (; *(p += strspn(p, " \t")); p = end) {
        end = read_word(p, word);
        if (!end)
            return 0; /* atoll_pattern_parse() refuses it */
        for (size_t i = 0; i < ATOLL_ARRAY_LEN(operators); i++)
            if (strlen(operators[i]) == (size_t)(end - p) &&
                strncmp(p, operators[i], (size_t)(end - p)) == 0)
                return refuse(err, text,
                              "it is compared with each command of a line by itself, so that it "
                              "never matches: write a rule for one command, without operators");
        if (end[-1] == ';' && (end - p < 2 || end[-2] != '\\'))
            return refuse(err, text, "it is more than one command: write a rule for each");
    }
    return 0;
}

void atoll_pattern_done(struct atoll_pattern *pattern)
{
    for (size_t i = 0; i < pattern->count; i++)
        free(pattern->words[i]);
    free(pattern->words);
    *pattern = (struct atoll_pattern){0};
}

/* Matching. */

struct search {
    bool must;
    size_t *work;
    bool gave_up;
};

static bool spend(struct search *s, size_t steps)
{
    if (*s->work < steps) {
        s->gave_up = true;
        *s->work = 0;
        return false;
    }
    *s->work -= steps;
    return true;
}

/* row[k]: the pattern so far matches the first k characters of the text. */
static bool match_text(struct search *s, const char *pattern, const char *text)
{
    size_t n = strlen(text);
    bool *row, ok = false;

    if (!strchr(text, ATOLL_SHELL_HOLE) && !strpbrk(pattern, "\x02\x03"))
        return strcmp(pattern, text) == 0;
    if (!spend(s, (strlen(pattern) + 1) * (n + 1)) || !(row = calloc(n + 1, sizeof(*row))))
        return false;
    row[0] = true;
    for (size_t k = 0; k < n && !s->must; k++)
        row[k + 1] = row[k] && text[k] == ATOLL_SHELL_HOLE;
    for (const char *p = pattern; *p; p++) {
        bool diagonal = row[0];

        row[0] = row[0] && *p == ATOLL_PATTERN_ANY;
        for (size_t k = 0; k < n; k++) {
            bool was = row[k + 1], hole = text[k] == ATOLL_SHELL_HOLE;
            bool one = diagonal && !hole && (*p == ATOLL_PATTERN_ONE || *p == text[k]);

            if (*p == ATOLL_PATTERN_ANY)
                row[k + 1] = was || row[k] || diagonal;
            else if (hole && !s->must)
                row[k + 1] = was || row[k] || diagonal; /* the hole takes the character, or ends */
            else
                row[k + 1] = one;
            diagonal = was;
        }
    }
    ok = row[n];
    free(row);
    return ok;
}

static bool is_star(const char *word)
{
    return word[0] == ATOLL_PATTERN_ANY && !word[1];
}

static bool match_word(struct search *s, const struct atoll_pattern *pattern, size_t i,
                       const struct atoll_shell_command *command, size_t k)
{
    const char *text = command->words[k].text, *slash = strrchr(text, '/');

    if (i == 0 && k == 0 && slash && !strchr(pattern->words[0], '/'))
        text = slash + 1;
    return match_text(s, pattern->words[i], text);
}

/* As in match_text(), by words. */
static bool match_words(struct search *s, const struct atoll_pattern *pattern,
                        const struct atoll_shell_command *command)
{
    size_t n = command->count;
    bool *row = calloc(n + 1, sizeof(*row)), ok;

    if (!row)
        return false;
    row[0] = true;
    for (size_t k = 0; k < n && !s->must; k++)
        row[k + 1] = row[k] && command->words[k].many;
    for (size_t i = 0; i < pattern->count; i++) {
        bool diagonal = row[0], star = is_star(pattern->words[i]);

        if (!spend(s, n + 1))
            break;
        row[0] = row[0] && star;
        for (size_t k = 0; k < n; k++) {
            bool was = row[k + 1], many = command->words[k].many;

            if (star)
                row[k + 1] = was || row[k] || diagonal;
            else if (many && !s->must)
                row[k + 1] = was || row[k] || diagonal;
            else
                row[k + 1] = diagonal && !many && match_word(s, pattern, i, command, k);
            diagonal = was;
        }
    }
    ok = row[n];
    free(row);
    return ok;
}

enum atoll_match atoll_pattern_match(const struct atoll_pattern *pattern,
                                     const struct atoll_shell_command *command, size_t *work)
{
    struct search may = {.must = false, .work = work}, must = {.must = true, .work = work};
    bool may_match = match_words(&may, pattern, command);

    if (may.gave_up)
        return ATOLL_MATCH_MAYBE;
    if (!may_match)
        return ATOLL_MATCH_NO;
    return match_words(&must, pattern, command) && !must.gave_up ? ATOLL_MATCH_YES
                                                                 : ATOLL_MATCH_MAYBE;
}
