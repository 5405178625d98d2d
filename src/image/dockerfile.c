#include "image/dockerfile.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include "base/text.h"
#include "image/dockerfile_internal.h"
#include "image/lex.h"

#define NAME_SHOWN 40

/* One instruction that is being parsed. */
struct draft {
    struct atoll_recipe_memory *memory;
    char escape;
    const char *rest; /* behind the flags */
    struct atoll_recipe_step *step;
    struct atoll_error *err;
};

static int refuse(const struct draft *d, const char *text)
{
    return atoll_recipe_refuse(d->err, 0, "%s %s", atoll_recipe_kind_name(d->step->kind), text);
}

static void set_args(struct draft *d, const struct atoll_recipe_words *words)
{
    d->step->args = words->items;
    d->step->arg_count = words->count;
}

/* The rest of the line as one text. */
static int parse_text(struct draft *d)
{
    struct atoll_recipe_words words = {0};

    if (!*d->rest)
        return refuse(d, "requires exactly one argument");
    if (atoll_recipe_add_word(d->memory, &words, d->rest, strlen(d->rest), d->err) < 0)
        return -ENOMEM;
    set_args(d, &words);
    return 0;
}

/* A JSON array, or the rest of the line as one text for a shell. */
static int parse_command(struct draft *d)
{
    struct atoll_recipe_words words = {0};
    int r = atoll_dockerfile_json(d->memory, d->rest, &words, d->err);

    if (r < 0)
        return r;
    d->step->json = r > 0 || !*d->rest;
    if (r == 0)
        return *d->rest ? parse_text(d) : 0;
    set_args(d, &words);
    return 0;
}

static int parse_run(struct draft *d)
{
    int r = parse_command(d);

    return r == 0 && d->step->arg_count == 0 ? refuse(d, "requires a command") : r;
}

static int parse_shell(struct draft *d)
{
    int r = parse_command(d);

    if (r == 0 && (!d->step->json || d->step->arg_count == 0))
        return refuse(d, "requires a JSON array, such as [\"/bin/bash\", \"-c\"]");
    return r;
}

static int parse_list(struct draft *d)
{
    struct atoll_recipe_words words = {0};
    int r = atoll_dockerfile_json(d->memory, d->rest, &words, d->err);

    d->step->json = r > 0;
    if (r == 0)
        r = atoll_dockerfile_fields(d->memory, d->rest, &words, d->err);
    if (r < 0)
        return r;
    set_args(d, &words);
    return words.count > 0 ? 0 : refuse(d, "requires at least one argument");
}

static int parse_fields(struct draft *d)
{
    struct atoll_recipe_words words = {0};

    if (atoll_dockerfile_fields(d->memory, d->rest, &words, d->err) < 0)
        return -ENOMEM;
    set_args(d, &words);
    return words.count > 0 ? 0 : refuse(d, "requires at least one argument");
}

static int parse_volume(struct draft *d)
{
    int r = parse_list(d);

    for (size_t i = 0; r == 0 && i < d->step->arg_count; i++)
        if (!*d->step->args[i])
            r = refuse(d, "has an empty path");
    return r;
}

/* Sources and destination; here-documents are taken out later, when they are read. */
static int parse_copy(struct draft *d)
{
    int r = parse_list(d);

    if (r < 0)
        return r;
    if (d->step->arg_count < 2)
        return refuse(d, "requires at least two arguments: sources and a destination");
    d->step->dest = d->step->args[--d->step->arg_count];
    return 0;
}

static int add_pair(struct draft *d, const char *name, size_t n, const char *value)
{
    struct atoll_recipe_step *step = d->step;
    struct atoll_recipe_pair *pairs;

    if (n == 0)
        return refuse(d, "has a blank name");
    pairs = atoll_recipe_grow(d->memory, (void *)(uintptr_t)step->pairs, step->pair_count,
                              sizeof(*pairs));
    if (!pairs)
        return atoll_recipe_no_room(d->err);
    pairs[step->pair_count].name = atoll_recipe_text(d->memory, name, n);
    pairs[step->pair_count].value =
        value ? atoll_recipe_text(d->memory, value, strlen(value)) : NULL;
    if (!pairs[step->pair_count].name || (value && !pairs[step->pair_count].value))
        return atoll_recipe_no_room(d->err);
    step->pairs = pairs;
    step->pair_count++;
    return 0;
}

/* "NAME value": the old form, in which the value is the rest of the line. */
static int parse_old_pair(struct draft *d)
{
    size_t n = strcspn(d->rest, " \t\v\f\r");
    const char *value = d->rest + n;

    while (atoll_lex_is_space(*value))
        value++;
    if (!*value)
        return refuse(d, "requires a value: NAME=value");
    return add_pair(d, d->rest, n, value);
}

static int parse_pairs(struct draft *d)
{
    struct atoll_recipe_words words = {0};
    int r = atoll_dockerfile_quoted(d->memory, d->rest, d->escape, &words, d->err);

    if (r < 0)
        return r;
    if (words.count == 0)
        return refuse(d, "requires at least one argument");
    if (!strchr(words.items[0], '='))
        return parse_old_pair(d);
    for (size_t i = 0; r == 0 && i < words.count; i++) {
        const char *equals = strchr(words.items[i], '=');
        if (!equals)
            return atoll_recipe_refuse(d->err, 0, "%s: \"%.40s\" must have the form NAME=value",
                                       atoll_recipe_kind_name(d->step->kind), words.items[i]);
        r = add_pair(d, words.items[i], (size_t)(equals - words.items[i]), equals + 1);
    }
    return r;
}

static int parse_arg(struct draft *d)
{
    struct atoll_recipe_words words = {0};
    int r = atoll_dockerfile_quoted(d->memory, d->rest, d->escape, &words, d->err);

    for (size_t i = 0; r == 0 && i < words.count; i++) {
        const char *word = words.items[i];
        size_t n = strcspn(word, "=");
        r = add_pair(d, word, n, word[n] ? word + n + 1 : NULL);
    }
    return r == 0 && words.count == 0 ? refuse(d, "requires at least one argument") : r;
}

static int parse_health(struct draft *d)
{
    size_t n = strcspn(d->rest, " \t\v\f\r");
    bool none = n == 4 && strncasecmp(d->rest, "NONE", n) == 0;
    const char *rest = d->rest + n;
    int r;

    while (atoll_lex_is_space(*rest))
        rest++;
    if (!none && !(n == 3 && strncasecmp(d->rest, "CMD", n) == 0))
        return refuse(d, "requires CMD with a command, or NONE");
    d->rest = rest;
    d->step->health.none = none;
    if (none)
        return *rest ? refuse(d, "NONE takes no arguments") : 0;
    r = parse_command(d);
    return r == 0 && d->step->arg_count == 0 ? refuse(d, "CMD requires a command") : r;
}

static int parse_onbuild(struct draft *d)
{
    static const char *const refused[] = {"ONBUILD", "MAINTAINER", "FROM"};
    size_t n = strcspn(d->rest, " \t\v\f\r");

    if (n == 0)
        return refuse(d, "requires an instruction");
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(refused); i++)
        if (strlen(refused[i]) == n && strncasecmp(refused[i], d->rest, n) == 0)
            return atoll_recipe_refuse(d->err, 0, "%s is not allowed in ONBUILD", refused[i]);
    return parse_text(d);
}

static int (*const parsers[ATOLL_RECIPE_KINDS])(struct draft *d) = {
    [ATOLL_RECIPE_ADD] = parse_copy,           [ATOLL_RECIPE_ARG] = parse_arg,
    [ATOLL_RECIPE_CMD] = parse_command,        [ATOLL_RECIPE_COPY] = parse_copy,
    [ATOLL_RECIPE_ENTRYPOINT] = parse_command, [ATOLL_RECIPE_ENV] = parse_pairs,
    [ATOLL_RECIPE_EXPOSE] = parse_fields,      [ATOLL_RECIPE_HEALTHCHECK] = parse_health,
    [ATOLL_RECIPE_LABEL] = parse_pairs,        [ATOLL_RECIPE_MAINTAINER] = parse_text,
    [ATOLL_RECIPE_ONBUILD] = parse_onbuild,    [ATOLL_RECIPE_RUN] = parse_run,
    [ATOLL_RECIPE_SHELL] = parse_shell,        [ATOLL_RECIPE_STOPSIGNAL] = parse_text,
    [ATOLL_RECIPE_USER] = parse_text,          [ATOLL_RECIPE_VOLUME] = parse_volume,
    [ATOLL_RECIPE_WORKDIR] = parse_text,
};

/* Of a COPY, the sources "<<NAME" are its here-documents and no longer paths. */
static int take_heredoc_sources(struct atoll_recipe_memory *m, struct atoll_recipe_step *step,
                                struct atoll_error *err)
{
    struct atoll_recipe_words words = {0};
    struct atoll_dockerfile_end end;

    if (atoll_dockerfile_is_heredoc(m, step->dest, &end, NULL) > 0)
        return atoll_recipe_refuse(err, 0, "%s cannot have a here-document as destination",
                                   atoll_recipe_kind_name(step->kind));
    for (size_t i = 0; i < step->arg_count; i++)
        if (atoll_dockerfile_is_heredoc(m, step->args[i], &end, NULL) <= 0 &&
            atoll_recipe_add_word(m, &words, step->args[i], strlen(step->args[i]), err) < 0)
            return -ENOMEM;
    step->args = words.items;
    step->arg_count = words.count;
    return 0;
}

/* A trigger with its here-documents is one text of several lines. */
static int join_trigger(struct atoll_recipe_memory *m, struct atoll_recipe_step *step,
                        struct atoll_error *err)
{
    struct atoll_recipe_words words = {0};
    struct atoll_buf text;
    int r;

    atoll_buf_init(&text, ATOLL_RECIPE_TEXT_MAX);
    r = atoll_buf_appends(&text, step->args[0]);
    for (size_t i = 0; r == 0 && i < step->heredoc_count; i++)
        r = atoll_buf_appendf(&text, "\n%s%s", step->heredocs[i].text, step->heredocs[i].name);
    r = r < 0 ? atoll_recipe_no_room(err)
              : atoll_recipe_add_word(m, &words, atoll_buf_str(&text), atoll_buf_size(&text), err);
    atoll_buf_done(&text);
    step->args = words.items;
    step->heredocs = NULL;
    step->heredoc_count = 0;
    return r;
}

static bool may_have_heredocs(const struct atoll_recipe_step *step, struct atoll_recipe_memory *m)
{
    struct atoll_dockerfile_parts parts;
    enum atoll_recipe_kind kind = step->kind;

    if (kind == ATOLL_RECIPE_ONBUILD &&
        (atoll_dockerfile_split(m, step->args[0], '\\', &parts, NULL) < 0 ||
         !atoll_recipe_kind_by_name(parts.name, parts.name_len, &kind)))
        return false;
    return !step->json &&
           (kind == ATOLL_RECIPE_ADD || kind == ATOLL_RECIPE_COPY || kind == ATOLL_RECIPE_RUN);
}

/* Parses the trigger of ONBUILD, so that its errors show here and not in a later build. */
static int check_trigger(struct atoll_dockerfile_reader *reader,
                         const struct atoll_recipe_step *step, struct atoll_error *err)
{
    struct atoll_recipe_step trigger;

    return atoll_dockerfile_parse_step(reader->memory, step->args[0], strlen(step->args[0]),
                                       reader->escape, &trigger, err);
}

static int read_heredocs(struct atoll_dockerfile_reader *reader, struct atoll_dockerfile_line *line,
                         struct atoll_recipe_step *step, struct atoll_error *err)
{
    bool onbuild = step->kind == ATOLL_RECIPE_ONBUILD;
    int r = 0;

    if (may_have_heredocs(step, reader->memory) &&
        atoll_dockerfile_heredocs(reader, line, &step->heredocs, &step->heredoc_count, err) < 0)
        return -EINVAL;
    if (step->heredoc_count > 0 && onbuild)
        r = join_trigger(reader->memory, step, err);
    else if (step->heredoc_count > 0 && step->kind != ATOLL_RECIPE_RUN)
        r = take_heredoc_sources(reader->memory, step, err);
    if (r == 0 && onbuild)
        r = check_trigger(reader, step, err);
    return r < 0 ? atoll_recipe_at_line(err, line->line) : 0;
}

/* Swaps, insertions, deletions and replacements between two short words. */
static size_t distance(const char *a, size_t n, const char *b)
{
    size_t m = strlen(b), row[16] = {0};

    if (n >= ATOLL_ARRAY_LEN(row) || m >= ATOLL_ARRAY_LEN(row))
        return SIZE_MAX;
    for (size_t j = 0; j <= m; j++)
        row[j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t corner = row[0];
        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t up = row[j], same = strncasecmp(&a[i - 1], &b[j - 1], 1) == 0 ? 0 : 1;
            row[j] = ATOLL_MIN(ATOLL_MIN(row[j - 1], up) + 1, corner + same);
            corner = up;
        }
    }
    return row[m];
}

static int refuse_name(const struct atoll_dockerfile_parts *parts, struct atoll_error *err)
{
    int shown = (int)ATOLL_MIN(parts->name_len, (size_t)NAME_SHOWN);
    const char *best = "FROM";
    size_t least = distance(parts->name, parts->name_len, best);

    for (size_t i = 0; i < ATOLL_RECIPE_KINDS; i++) {
        const char *name = atoll_recipe_kind_name((enum atoll_recipe_kind)i);
        size_t d = distance(parts->name, parts->name_len, name);
        if (d < least) {
            least = d;
            best = name;
        }
    }
    if (least <= 2)
        return atoll_recipe_refuse(err, 0, "unknown instruction %.*s; did you mean %s?", shown,
                                   parts->name, best);
    return atoll_recipe_refuse(err, 0, "unknown instruction %.*s", shown, parts->name);
}

/* Everything of a step but its here-documents. */
static int parse_parts(struct atoll_recipe_memory *m, char escape, const char *text,
                       const struct atoll_dockerfile_parts *parts, struct atoll_recipe_step *ret,
                       struct atoll_error *err)
{
    struct draft d = {m, escape, parts->rest, ret, err};

    *ret = (struct atoll_recipe_step){.text = text};
    if (!atoll_recipe_kind_by_name(parts->name, parts->name_len, &ret->kind))
        return refuse_name(parts, err);
    if (atoll_dockerfile_flags(m, &parts->flags, ret->kind, ret, NULL, err) < 0)
        return -EINVAL;
    return parsers[ret->kind](&d);
}

static int parse_line(struct atoll_dockerfile_reader *reader, struct atoll_dockerfile_line *line,
                      const struct atoll_dockerfile_parts *parts, struct atoll_recipe_step *ret,
                      struct atoll_error *err)
{
    if (parse_parts(reader->memory, reader->escape, line->text, parts, ret, err) < 0)
        return atoll_recipe_at_line(err, line->line);
    ret->line = line->line;
    ret->gap = line->gap;
    if (read_heredocs(reader, line, ret, err) < 0)
        return -EINVAL;
    ret->last_line = line->last_line;
    return 0;
}

int atoll_dockerfile_parse_step(struct atoll_recipe_memory *m, const char *text, size_t n,
                                char escape, struct atoll_recipe_step *ret, struct atoll_error *err)
{
    struct atoll_dockerfile_reader reader = {
        .p = text, .end = text + n, .escape = escape, .directives_done = true, .memory = m};
    struct atoll_dockerfile_line line, more;
    struct atoll_dockerfile_parts parts;
    int r = atoll_dockerfile_next(&reader, &line, err);

    if (r == 0)
        return atoll_recipe_refuse(err, 0, "no instruction");
    if (r < 0 || atoll_dockerfile_split(m, line.text, escape, &parts, err) < 0 ||
        parse_parts(m, escape, line.text, &parts, ret, err) < 0 ||
        read_heredocs(&reader, &line, ret, err) < 0)
        return -EINVAL;
    r = atoll_dockerfile_next(&reader, &more, err);
    return r > 0 ? atoll_recipe_refuse(err, 0, "more than one instruction") : r;
}

static bool is_stage_name(const char *name)
{
    if (*name < 'a' || *name > 'z')
        return false;
    return name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-_.")] == '\0';
}

static int add_from(struct atoll_recipe *r, const struct atoll_dockerfile_line *line,
                    const struct atoll_dockerfile_parts *parts, struct atoll_error *err)
{
    struct atoll_recipe_words words = {0};
    struct atoll_recipe_step step = {0};
    const char *platform = NULL;
    char *name = NULL;

    if (atoll_dockerfile_flags(&r->memory, &parts->flags, ATOLL_RECIPE_KINDS, &step, &platform,
                               err) < 0 ||
        atoll_dockerfile_fields(&r->memory, parts->rest, &words, err) < 0)
        return atoll_recipe_at_line(err, line->line);
    if (words.count != 1 && !(words.count == 3 && strcasecmp(words.items[1], "AS") == 0))
        return atoll_recipe_refuse(err, line->line, "FROM has the form FROM IMAGE [AS NAME]");
    if (words.count == 3) {
        name = atoll_recipe_text(&r->memory, words.items[2], strlen(words.items[2]));
        for (char *p = name; p && *p; p++)
            *p = (char)(*p >= 'A' && *p <= 'Z' ? *p + ('a' - 'A') : *p);
        if (!name || !is_stage_name(name))
            return atoll_recipe_refuse(err, line->line,
                                       "\"%.40s\" is not a name for a stage: a letter, then "
                                       "letters, digits, \"-\", \"_\", \".\"",
                                       words.items[2]);
    }
    return atoll_recipe_add_stage(r, name, words.items[0], platform, line->text, line->line, err);
}

static int add_line(struct atoll_recipe *r, struct atoll_dockerfile_reader *reader,
                    struct atoll_dockerfile_line *line, struct atoll_error *err)
{
    struct atoll_dockerfile_parts parts;
    struct atoll_recipe_step step;

    if (atoll_dockerfile_split(&r->memory, line->text, reader->escape, &parts, err) < 0)
        return atoll_recipe_at_line(err, line->line);
    if (parts.name_len == 4 && strncasecmp(parts.name, "FROM", 4) == 0)
        return add_from(r, line, &parts, err);
    if (parse_line(reader, line, &parts, &step, err) < 0)
        return -EINVAL;
    if (r->stage_count == 0 && step.kind != ATOLL_RECIPE_ARG)
        return atoll_recipe_refuse(err, line->line,
                                   "%s before the first FROM; only ARG may be there",
                                   atoll_recipe_kind_name(step.kind));
    return atoll_recipe_add_step(r, &step, err);
}

static int parse_all(struct atoll_recipe *r, const char *text, size_t n, struct atoll_error *err)
{
    struct atoll_dockerfile_reader reader = {
        .p = text, .end = text + n, .escape = '\\', .memory = &r->memory};
    struct atoll_dockerfile_line line;
    int found;

    while ((found = atoll_dockerfile_next(&reader, &line, err)) > 0)
        if (add_line(r, &reader, &line, err) < 0)
            return -EINVAL;
    r->escape = reader.escape;
    r->syntax = reader.syntax;
    if (found == 0 && r->stage_count == 0)
        return atoll_recipe_refuse(err, ATOLL_MAX(reader.line, 1), "the Dockerfile has no FROM");
    return found;
}

/* A recipe is stored as JSON, which is UTF-8. */
static int check_utf8(const char *text, size_t n, struct atoll_error *err)
{
    int line = 1;

    for (size_t at = 0, len; at < n; at += len) {
        len = atoll_text_utf8_len((const uint8_t *)text + at, n - at);
        if (len == 0)
            return atoll_recipe_refuse(err, line, "a character that is not UTF-8");
        line += text[at] == '\n';
    }
    return 0;
}

int atoll_dockerfile_parse(const char *text, size_t n, struct atoll_recipe **ret,
                           struct atoll_error *err)
{
    struct atoll_recipe *r;

    if (n > ATOLL_RECIPE_TEXT_MAX)
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, E2BIG,
                          "the Dockerfile has more than %zu bytes", ATOLL_RECIPE_TEXT_MAX);
    if (check_utf8(text, n, err) < 0)
        return -EINVAL;
    r = atoll_recipe_new();
    if (parse_all(r, text, n, err) < 0) {
        atoll_recipe_free(r);
        return -EINVAL;
    }
    *ret = r;
    return 0;
}

const char *atoll_dockerfile_script(struct atoll_recipe_memory *m,
                                    const struct atoll_recipe_step *step, bool *ret_script)
{
    struct atoll_dockerfile_end end;
    struct atoll_buf text;
    const char *script = NULL;
    int r;

    *ret_script = false;
    if (step->heredoc_count == 0)
        return step->args[0];
    if (atoll_dockerfile_is_heredoc(m, step->args[0], &end, NULL) > 0) {
        *ret_script = strncmp(step->heredocs[0].text, "#!", 2) == 0;
        return step->heredocs[0].text;
    }
    atoll_buf_init(&text, 2 * ATOLL_RECIPE_TEXT_MAX);
    r = atoll_buf_appends(&text, step->args[0]);
    for (size_t i = 0; r == 0 && i < step->heredoc_count; i++)
        r = atoll_buf_appendf(&text, "\n%s%s", step->heredocs[i].text, step->heredocs[i].name);
    if (r == 0)
        script = atoll_recipe_text(m, atoll_buf_str(&text), atoll_buf_size(&text));
    atoll_buf_done(&text);
    return script;
}
