#include "image/scope.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/map.h"
#include "base/memory.h"
#include "image/lex.h"
#include "image/mount.h"
#include "image/recipe_internal.h"

struct variable {
    const char *name;
    const char *env; /* value by ENV or of the base image; NULL */
    const char *arg; /* value by ARG; NULL */
    bool predefined; /* the ARG was not written in the Dockerfile */
};

struct variables {
    struct atoll_map map;
    struct variable **list;
    size_t count;
    bool sorted;
};

struct atoll_recipe_scope {
    const struct atoll_recipe *recipe;
    const struct atoll_recipe_inputs *inputs;
    struct atoll_recipe_memory memory;
    struct variables globals; /* ARG before the first FROM, and what is predefined there */
    struct variables own;     /* of the stage */
};

/* Build arguments that RUN gets without an ARG. */
static const char *const predefined[] = {
    "HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "FTP_PROXY",
    "ftp_proxy",  "NO_PROXY",   "no_proxy",    "ALL_PROXY",   "all_proxy",
};

/* The variable of that name, made if it is missing; NULL without memory. */
static struct variable *need(struct atoll_recipe_memory *m, struct variables *all, const char *name)
{
    struct variable *v = atoll_map_get(&all->map, name);
    struct variable **list;

    if (v)
        return v;
    v = atoll_recipe_alloc(m, sizeof(*v));
    list = atoll_recipe_grow(m, all->list, all->count, sizeof(*list));
    if (!v || !list)
        return NULL;
    v->name = atoll_recipe_text(m, name, strlen(name));
    if (!v->name || atoll_map_put(&all->map, v->name, v) < 0)
        return NULL;
    list[all->count++] = v;
    all->list = list;
    all->sorted = false;
    return v;
}

static const char *copy_text(struct atoll_recipe_memory *m, const char *text)
{
    return atoll_recipe_text(m, text, strlen(text));
}

static int set_arg(struct atoll_recipe_scope *s, struct variables *all, const char *name,
                   const char *value, bool given_by_default, struct atoll_error *err)
{
    struct variable *v = need(&s->memory, all, name);

    if (!v)
        return atoll_recipe_no_room(err);
    v->arg = copy_text(&s->memory, value);
    v->predefined = given_by_default;
    return v->arg ? 0 : atoll_recipe_no_room(err);
}

static const char *value_of(const struct variables *all, const char *name)
{
    const struct variable *v = atoll_map_get(&all->map, name);

    return !v ? NULL : v->env ? v->env : v->arg;
}

static const char *get_own(void *arg, const char *name)
{
    return value_of(&((struct atoll_recipe_scope *)arg)->own, name);
}

static const char *get_global(void *arg, const char *name)
{
    return value_of(&((struct atoll_recipe_scope *)arg)->globals, name);
}

static const char *given(const struct atoll_recipe_scope *s, const char *name)
{
    for (size_t i = s->inputs->arg_count; i-- > 0;)
        if (s->inputs->args[i].value && strcmp(s->inputs->args[i].name, name) == 0)
            return s->inputs->args[i].value;
    return NULL;
}

/* TARGETPLATFORM and so on, from "os/architecture[/variant]". */
static int set_platform(struct atoll_recipe_scope *s, const char *prefix, struct atoll_error *err)
{
    static const char *const parts[] = {"OS", "ARCH", "VARIANT"};
    const char *platform = s->inputs->platform ? s->inputs->platform : "", *p = platform;
    char name[32], value[64];

    (void)snprintf(name, sizeof(name), "%sPLATFORM", prefix);
    if (set_arg(s, &s->globals, name, platform, false, err) < 0)
        return -ENOMEM;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(parts); i++) {
        size_t n = strcspn(p, "/");
        (void)snprintf(name, sizeof(name), "%s%s", prefix, parts[i]);
        (void)snprintf(value, sizeof(value), "%.*s", (int)ATOLL_MIN(n, sizeof(value) - 1), p);
        if (set_arg(s, &s->globals, name, given(s, name) ? given(s, name) : value, false, err) < 0)
            return -ENOMEM;
        p += n + (p[n] == '/');
    }
    return 0;
}

static int set_globals(struct atoll_recipe_scope *s, struct atoll_error *err)
{
    const struct atoll_lex lex = {.escape = s->recipe->escape, .get = get_global, .arg = s};

    if (set_platform(s, "BUILD", err) < 0 || set_platform(s, "TARGET", err) < 0)
        return -ENOMEM;
    for (size_t i = 0; i < s->recipe->global_count; i++) {
        const struct atoll_recipe_step *step = s->recipe->globals[i];
        for (size_t k = 0; k < step->pair_count; k++) {
            const struct atoll_recipe_pair *pair = &step->pairs[k];
            const char *value = given(s, pair->name);
            if (!value && pair->value &&
                atoll_lex_text(&lex, &s->memory, pair->value, &value, err) < 0)
                return atoll_recipe_at_line(err, step->line);
            if (value && set_arg(s, &s->globals, pair->name, value, false, err) < 0)
                return -ENOMEM;
        }
    }
    return 0;
}

static int set_predefined(struct atoll_recipe_scope *s, struct atoll_error *err)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < ATOLL_ARRAY_LEN(predefined); i++)
        if (given(s, predefined[i]))
            r = set_arg(s, &s->own, predefined[i], given(s, predefined[i]), true, err);
    return r;
}

static struct atoll_recipe_scope *make(const struct atoll_recipe *r,
                                       const struct atoll_recipe_inputs *inputs)
{
    struct atoll_recipe_scope *s = atoll_alloc(sizeof(*s));

    s->recipe = r;
    s->inputs = inputs;
    atoll_map_init(&s->globals.map);
    atoll_map_init(&s->own.map);
    return s;
}

int atoll_recipe_scope_open(const struct atoll_recipe *r, const struct atoll_recipe_inputs *inputs,
                            struct atoll_recipe_scope **ret, struct atoll_error *err)
{
    struct atoll_recipe_scope *s = make(r, inputs);

    if (set_globals(s, err) < 0 || set_predefined(s, err) < 0) {
        atoll_recipe_scope_free(s);
        return -EINVAL;
    }
    *ret = s;
    return 0;
}

struct atoll_recipe_scope *atoll_recipe_scope_new(const struct atoll_recipe *r,
                                                  const struct atoll_recipe_inputs *inputs)
{
    struct atoll_recipe_scope *s;

    return atoll_recipe_scope_open(r, inputs, &s, NULL) == 0 ? s : NULL;
}

/* Copies variables with their texts. */
static int copy_variables(struct atoll_recipe_memory *m, struct variables *to,
                          const struct variables *from)
{
    for (size_t i = 0; i < from->count; i++) {
        const struct variable *old = from->list[i];
        struct variable *v = need(m, to, old->name);
        if (!v)
            return -ENOMEM;
        v->predefined = old->predefined;
        v->env = old->env ? copy_text(m, old->env) : NULL;
        v->arg = old->arg ? copy_text(m, old->arg) : NULL;
        if ((old->env && !v->env) || (old->arg && !v->arg))
            return -ENOMEM;
    }
    return 0;
}

struct atoll_recipe_scope *atoll_recipe_scope_child(const struct atoll_recipe_scope *parent)
{
    struct atoll_recipe_scope *s = make(parent->recipe, parent->inputs);

    if (copy_variables(&s->memory, &s->globals, &parent->globals) == 0 &&
        copy_variables(&s->memory, &s->own, &parent->own) == 0)
        return s;
    return atoll_recipe_scope_free(s);
}

struct atoll_recipe_scope *atoll_recipe_scope_free(struct atoll_recipe_scope *s)
{
    if (!s)
        return NULL;
    atoll_map_done(&s->globals.map);
    atoll_map_done(&s->own.map);
    atoll_recipe_memory_done(&s->memory);
    free(s);
    return NULL;
}

int atoll_recipe_scope_set_env(struct atoll_recipe_scope *s, const char *name, const char *value,
                               struct atoll_error *err)
{
    struct variable *v = need(&s->memory, &s->own, name);

    if (!v)
        return atoll_recipe_no_room(err);
    v->env = copy_text(&s->memory, value);
    return v->env ? 0 : atoll_recipe_no_room(err);
}

static struct atoll_lex lexer(struct atoll_recipe_scope *s)
{
    return (struct atoll_lex){.escape = s->recipe->escape, .get = get_own, .arg = s};
}

int atoll_recipe_scope_expand_text(struct atoll_recipe_scope *s, const char *text, const char **ret,
                                   struct atoll_error *err)
{
    const struct atoll_lex lex = lexer(s);

    return atoll_lex_text(&lex, &s->memory, text, ret, err);
}

int atoll_recipe_scope_expand_global(struct atoll_recipe_scope *s, const char *text,
                                     const char **ret, struct atoll_error *err)
{
    const struct atoll_lex lex = {.escape = s->recipe->escape, .get = get_global, .arg = s};

    return atoll_lex_text(&lex, &s->memory, text, ret, err);
}

static int expand_args(struct atoll_recipe_scope *s, struct atoll_recipe_step *step,
                       struct atoll_error *err)
{
    const char **args = atoll_recipe_alloc(&s->memory, (step->arg_count + 1) * sizeof(*args));
    int r = args ? 0 : atoll_recipe_no_room(err);

    for (size_t i = 0; r == 0 && i < step->arg_count; i++)
        r = atoll_recipe_scope_expand_text(s, step->args[i], &args[i], err);
    step->args = args;
    return r;
}

/* A word of EXPOSE may become several. */
static int expand_words(struct atoll_recipe_scope *s, struct atoll_recipe_step *step,
                        struct atoll_error *err)
{
    const struct atoll_lex lex = lexer(s);
    struct atoll_recipe_words all = {0};
    const char **words = NULL;
    size_t count = 0;
    int r = 0;

    for (size_t i = 0; r == 0 && i < step->arg_count; i++) {
        r = atoll_lex_words(&lex, &s->memory, step->args[i], &words, &count, err);
        for (size_t k = 0; r == 0 && k < count; k++)
            r = atoll_recipe_add_word(&s->memory, &all, words[k], strlen(words[k]), err);
    }
    step->args = all.items;
    step->arg_count = all.count;
    return r;
}

static int expand_flag(struct atoll_recipe_scope *s, const char **text, struct atoll_error *err)
{
    return *text ? atoll_recipe_scope_expand_text(s, *text, text, err) : 0;
}

static int expand_heredocs(struct atoll_recipe_scope *s, struct atoll_recipe_step *step,
                           struct atoll_error *err)
{
    const struct atoll_lex lex = {.escape = '\\', .no_quotes = true, .get = get_own, .arg = s};
    struct atoll_recipe_heredoc *docs =
        atoll_recipe_alloc(&s->memory, (step->heredoc_count + 1) * sizeof(*docs));
    int r = docs ? 0 : atoll_recipe_no_room(err);

    for (size_t i = 0; r == 0 && i < step->heredoc_count; i++) {
        docs[i] = step->heredocs[i];
        if (docs[i].expand)
            r = atoll_lex_text(&lex, &s->memory, docs[i].text, &docs[i].text, err);
    }
    step->heredocs = docs;
    return r;
}

static int expand_copy(struct atoll_recipe_scope *s, struct atoll_recipe_step *step,
                       struct atoll_error *err)
{
    if (expand_args(s, step, err) < 0 || expand_flag(s, &step->dest, err) < 0 ||
        expand_flag(s, &step->flags.chown, err) < 0 ||
        expand_flag(s, &step->flags.chmod, err) < 0 ||
        expand_flag(s, &step->flags.checksum, err) < 0)
        return -EINVAL;
    return expand_heredocs(s, step, err);
}

/* Reads mounts again, now with values for their variables. */
static int expand_mounts(struct atoll_recipe_scope *s, struct atoll_recipe_step *step,
                         struct atoll_error *err)
{
    struct atoll_recipe_flags *flags = &step->flags;
    struct atoll_recipe_mount *mounts =
        atoll_recipe_alloc(&s->memory, (flags->mount_count + 1) * sizeof(*mounts));
    const struct atoll_lex lex = lexer(s);
    int r = mounts ? 0 : atoll_recipe_no_room(err);

    for (size_t i = 0; r == 0 && i < flags->mount_count; i++)
        r = atoll_recipe_mount_parse(&s->memory, flags->mounts[i].text, &lex, &mounts[i], err);
    flags->mounts = mounts;
    return r;
}

static struct atoll_recipe_pair *new_pairs(struct atoll_recipe_scope *s,
                                           const struct atoll_recipe_step *step)
{
    return atoll_recipe_alloc(&s->memory, (step->pair_count + 1) * sizeof(*step->pairs));
}

static int expand_pairs(struct atoll_recipe_scope *s, struct atoll_recipe_step *step,
                        struct atoll_error *err)
{
    struct atoll_recipe_pair *pairs = new_pairs(s, step);
    int r = pairs ? 0 : atoll_recipe_no_room(err);

    for (size_t i = 0; r == 0 && i < step->pair_count; i++) {
        r = atoll_recipe_scope_expand_text(s, step->pairs[i].name, &pairs[i].name, err);
        if (r == 0)
            r = atoll_recipe_scope_expand_text(s, step->pairs[i].value, &pairs[i].value, err);
        if (r == 0 && !*pairs[i].name)
            r = atoll_recipe_refuse(err, 0, "%s has a blank name",
                                    atoll_recipe_kind_name(step->kind));
    }
    step->pairs = pairs;
    return r;
}

/* All values are those from before the instruction: "ENV a=1 b=$a" has the old a. */
static int expand_env(struct atoll_recipe_scope *s, struct atoll_recipe_step *step,
                      struct atoll_error *err)
{
    int r = expand_pairs(s, step, err);

    for (size_t i = 0; r == 0 && i < step->pair_count; i++)
        r = atoll_recipe_scope_set_env(s, step->pairs[i].name, step->pairs[i].value, err);
    return r;
}

/* Here each name counts for those behind it. */
static int expand_arg(struct atoll_recipe_scope *s, struct atoll_recipe_step *step,
                      struct atoll_error *err)
{
    struct atoll_recipe_pair *pairs = new_pairs(s, step);
    int r = pairs ? 0 : atoll_recipe_no_room(err);

    for (size_t i = 0; r == 0 && i < step->pair_count; i++) {
        const char *name = step->pairs[i].name, *value = given(s, name);
        if (!value && step->pairs[i].value)
            r = atoll_recipe_scope_expand_text(s, step->pairs[i].value, &value, err);
        else if (!value)
            value = value_of(&s->globals, name);
        pairs[i] = (struct atoll_recipe_pair){name, value};
        if (r == 0 && value)
            r = set_arg(s, &s->own, name, value, false, err);
    }
    step->pairs = pairs;
    return r;
}

static int (*const expanders[ATOLL_RECIPE_KINDS])(struct atoll_recipe_scope *s,
                                                  struct atoll_recipe_step *step,
                                                  struct atoll_error *err) = {
    [ATOLL_RECIPE_ADD] = expand_copy,     [ATOLL_RECIPE_ARG] = expand_arg,
    [ATOLL_RECIPE_COPY] = expand_copy,    [ATOLL_RECIPE_ENV] = expand_env,
    [ATOLL_RECIPE_EXPOSE] = expand_words, [ATOLL_RECIPE_LABEL] = expand_pairs,
    [ATOLL_RECIPE_RUN] = expand_mounts,   [ATOLL_RECIPE_STOPSIGNAL] = expand_args,
    [ATOLL_RECIPE_USER] = expand_args,    [ATOLL_RECIPE_VOLUME] = expand_args,
    [ATOLL_RECIPE_WORKDIR] = expand_args,
};

int atoll_recipe_scope_expand(struct atoll_recipe_scope *s, const struct atoll_recipe_step *step,
                              struct atoll_recipe_step *ret, struct atoll_error *err)
{
    struct atoll_recipe_step copy = *step;

    if (expanders[step->kind] && expanders[step->kind](s, &copy, err) < 0)
        return atoll_recipe_at_line(err, step->line);
    *ret = copy;
    return 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(struct variable *const *)a)->name, (*(struct variable *const *)b)->name);
}

bool atoll_recipe_scope_next(struct atoll_recipe_scope *s, size_t *pos,
                             struct atoll_recipe_variable *ret)
{
    const struct variable *v;

    if (!s->own.sorted && s->own.count > 0)
        qsort(s->own.list, s->own.count, sizeof(*s->own.list), by_name);
    s->own.sorted = true;
    if (*pos >= s->own.count)
        return false;
    v = s->own.list[(*pos)++];
    *ret = (struct atoll_recipe_variable){
        .name = v->name,
        .value = v->env ? v->env : v->arg,
        .env = v->env != NULL,
        .predefined = !v->env && v->predefined,
    };
    return true;
}

const char *atoll_recipe_scope_get(const struct atoll_recipe_scope *s, const char *name)
{
    return value_of(&s->own, name);
}
