/*
 * Advice about a Dockerfile: rules with the names and the meaning of BuildKit's checks, as far as they need
 * neither the base image nor the files of the build.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include "base/memory.h"
#include "image/dockerfile.h"
#include "image/lex.h"
#include "image/recipe_internal.h"
#include "image/scope.h"

#define WARNINGS_MAX 200

struct lint {
    const struct atoll_recipe *recipe;
    struct atoll_recipe_memory memory;
    struct atoll_recipe_scope *scope; /* without build arguments; NULL: a global ARG has an error */
    struct atoll_dockerfile_warning found[WARNINGS_MAX];
    size_t count;
};

static void warn(struct lint *l, int line, const char *rule, const char *fmt, ...)
    ATOLL_PRINTF(4, 5);

static void warn(struct lint *l, int line, const char *rule, const char *fmt, ...)
{
    struct atoll_dockerfile_warning *w = &l->found[l->count];
    va_list args;

    if (l->count == WARNINGS_MAX)
        return;
    l->count++;
    w->line = line;
    w->rule = rule;
    va_start(args, fmt);
    (void)vsnprintf(w->text, sizeof(w->text), fmt, args);
    va_end(args);
}

static bool has_upper(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (text[i] >= 'A' && text[i] <= 'Z')
            return true;
    return false;
}

static bool has_lower(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (text[i] >= 'a' && text[i] <= 'z')
            return true;
    return false;
}

static size_t word_len(const char *text)
{
    return strcspn(text, " \t\v\f\r\n");
}

static const char *next_word(const char *text)
{
    text += word_len(text);
    return text + strspn(text, " \t\v\f\r\n");
}

/* Instructions are all in capitals or all in small letters: the majority decides. */
static void count_case(const char *text, int *upper, int *lower)
{
    size_t n = word_len(text);

    *upper += !has_lower(text, n);
    *lower += !has_upper(text, n);
}

static void check_case(struct lint *l, const char *text, int line, bool upper)
{
    size_t n = word_len(text);

    if (upper ? has_lower(text, n) : has_upper(text, n))
        warn(l, line, "ConsistentInstructionCasing",
             "%.*s should be written in %s letters like most instructions here", (int)n, text,
             upper ? "capital" : "small");
}

static void lint_cases(struct lint *l)
{
    const struct atoll_recipe *r = l->recipe;
    int upper = 0, lower = 0;

    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < r->stage_count; i++) {
            const struct atoll_recipe_stage *stage = &r->stages[i];
            if (pass == 0)
                count_case(stage->text, &upper, &lower);
            else
                check_case(l, stage->text, stage->line, upper >= lower);
            for (size_t k = 0; k < stage->step_count; k++) {
                const struct atoll_recipe_step *step = stage->steps[k];
                if (pass == 0)
                    count_case(step->text, &upper, &lower);
                else
                    check_case(l, step->text, step->line, upper >= lower);
            }
        }
    }
}

/* "FROM x AS Name". */
static void lint_as(struct lint *l, const struct atoll_recipe_stage *stage)
{
    const char *as = stage->text, *name = stage->text;
    size_t from = word_len(stage->text), n;

    for (const char *p = next_word(stage->text); *p; p = next_word(p)) {
        as = name;
        name = p;
    }
    n = word_len(name);
    if (has_upper(name, n))
        warn(l, stage->line, "StageNameCasing",
             "the name of the stage %.*s should be in small letters", (int)ATOLL_MIN(n, (size_t)60),
             name);
    if ((!has_lower(stage->text, from) && has_lower(as, word_len(as))) ||
        (!has_upper(stage->text, from) && has_upper(as, word_len(as))))
        warn(l, stage->line, "FromAsCasing",
             "FROM and AS should be both in capital or small letters");
}

static void lint_name(struct lint *l, size_t index)
{
    const struct atoll_recipe_stage *stage = &l->recipe->stages[index];

    if (!stage->name)
        return;
    lint_as(l, stage);
    if (strcmp(stage->name, "scratch") == 0 || strcmp(stage->name, "context") == 0)
        warn(l, stage->line, "ReservedStageName",
             "%s has a meaning of its own; choose another name", stage->name);
    for (size_t i = 0; i < index; i++) {
        if (l->recipe->stages[i].name && strcmp(l->recipe->stages[i].name, stage->name) == 0) {
            warn(l, stage->line, "DuplicateStageName", "a stage %.60s exists already in line %d",
                 stage->name, l->recipe->stages[i].line);
            break;
        }
    }
}

/* Reports "$NAME" in FROM if no ARG before the first FROM declares it. */
struct from_names {
    struct lint *lint;
    int line;
};

static const char *get_from(void *arg, const char *name)
{
    const struct from_names *names = arg;
    const struct atoll_recipe *r = names->lint->recipe;
    static const char *const known[] = {"BUILDPLATFORM",  "BUILDOS",      "BUILDARCH",
                                        "BUILDVARIANT",   "TARGETOS",     "TARGETARCH",
                                        "TARGETPLATFORM", "TARGETVARIANT"};

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(known); i++)
        if (strcmp(known[i], name) == 0)
            return "";
    for (size_t i = 0; i < r->global_count; i++)
        for (size_t k = 0; k < r->globals[i]->pair_count; k++)
            if (strcmp(r->globals[i]->pairs[k].name, name) == 0)
                return "";
    warn(names->lint, names->line, "UndefinedArgInFrom",
         "no ARG before the first FROM declares %.60s", name);
    return NULL;
}

static void lint_from(struct lint *l, const struct atoll_recipe_stage *stage)
{
    struct from_names names = {l, stage->line};
    const struct atoll_lex lex = {.escape = l->recipe->escape, .get = get_from, .arg = &names};
    size_t before = l->count;
    const char *text;

    (void)!atoll_lex_text(&lex, &l->memory, stage->base, &text, NULL);
    if (stage->platform)
        (void)!atoll_lex_text(&lex, &l->memory, stage->platform, &text, NULL);
    if (l->count == before && l->scope && strchr(stage->base, '$') &&
        atoll_recipe_scope_expand_global(l->scope, stage->base, &text, NULL) == 0 &&
        (!*text || strchr(":@/", text[strlen(text) - 1]) || strstr(text, "//") || *text == ':'))
        warn(l, stage->line, "InvalidDefaultArgInFrom",
             "without build arguments the base %.60s is not the name of an image", stage->base);
    if (!stage->platform)
        return;
    if (strcmp(stage->platform, "$TARGETPLATFORM") == 0 ||
        strcmp(stage->platform, "${TARGETPLATFORM}") == 0)
        warn(l, stage->line, "RedundantTargetPlatform",
             "--platform=$TARGETPLATFORM is the default");
    else if (!strchr(stage->platform, '$'))
        warn(l, stage->line, "FromPlatformFlagConstDisallowed",
             "--platform=%.40s should come from a variable", stage->platform);
}

/* Whether a part of the name, between "_", says that the value is secret. */
static bool names_secret(const char *name)
{
    static const char *const words[] = {"apikey",   "auth",  "credential", "credentials", "key",
                                        "password", "pword", "passwd",     "secret",      "token"};
    bool secret = false;

    for (size_t n; *name; name += n + (name[n] == '_')) {
        n = strcspn(name, "_");
        if (n == 6 && strncasecmp(name, "public", n) == 0)
            return false;
        for (size_t i = 0; i < ATOLL_ARRAY_LEN(words); i++)
            if (strlen(words[i]) == n && strncasecmp(words[i], name, n) == 0)
                secret = true;
    }
    return secret;
}

static void lint_pairs(struct lint *l, const struct atoll_recipe_step *step)
{
    const char *first = next_word(step->text), *kind = atoll_recipe_kind_name(step->kind);

    for (size_t i = 0; step->kind != ATOLL_RECIPE_LABEL && i < step->pair_count; i++)
        if (names_secret(step->pairs[i].name))
            warn(l, step->line, "SecretsUsedInArgOrEnv",
                 "%s %.60s: a secret stays in the image; use RUN --mount=type=secret", kind,
                 step->pairs[i].name);
    if (step->kind != ATOLL_RECIPE_ARG && step->pair_count == 1 &&
        !memchr(first, '=', word_len(first)))
        warn(l, step->line, "LegacyKeyValueFormat", "write %s NAME=value instead of NAME value",
             kind);
}

static void lint_ports(struct lint *l, const struct atoll_recipe_step *step)
{
    for (size_t i = 0; i < step->arg_count; i++) {
        const char *port = step->args[i], *slash = strchr(port, '/');
        if (strchr(port, '$'))
            continue;
        if (slash && has_upper(slash, strlen(slash)))
            warn(l, step->line, "ExposeProtoCasing",
                 "the protocol of %.40s should be in small letters", port);
        if (strchr(port, ':'))
            warn(l, step->line, "ExposeInvalidFormat",
                 "%.40s: EXPOSE names ports of the container only", port);
    }
}

/* Facts about the steps of one stage. */
struct seen {
    const struct atoll_recipe_step *last[ATOLL_RECIPE_KINDS];
};

static void lint_step(struct lint *l, const struct atoll_recipe_step *step, const struct seen *seen)
{
    const char *kind = atoll_recipe_kind_name(step->kind);

    if (step->gap)
        warn(l, step->line, "NoEmptyContinuation", "an empty line is between the lines of %s",
             kind);
    switch (step->kind) {
    case ATOLL_RECIPE_ENV:
    case ATOLL_RECIPE_ARG:
    case ATOLL_RECIPE_LABEL:
        lint_pairs(l, step);
        break;
    case ATOLL_RECIPE_EXPOSE:
        lint_ports(l, step);
        break;
    case ATOLL_RECIPE_MAINTAINER:
        warn(l, step->line, "MaintainerDeprecated",
             "MAINTAINER is deprecated; use LABEL org.opencontainers.image.authors=…");
        break;
    case ATOLL_RECIPE_WORKDIR:
        if (!seen->last[ATOLL_RECIPE_WORKDIR] && !strchr("/$\"'", step->args[0][0]))
            warn(l, step->line, "WorkdirRelativePath",
                 "%.60s depends on the working directory of the base image", step->args[0]);
        break;
    case ATOLL_RECIPE_CMD:
    case ATOLL_RECIPE_ENTRYPOINT:
        if (!step->json && !seen->last[ATOLL_RECIPE_SHELL])
            warn(l, step->line, "JSONArgsRecommended",
                 "%s as a JSON array gets signals; in this form a shell gets them", kind);
        break;
    default:
        break;
    }
}

static void lint_once(struct lint *l, const struct atoll_recipe_step *before)
{
    if (before && (before->kind == ATOLL_RECIPE_CMD || before->kind == ATOLL_RECIPE_ENTRYPOINT ||
                   before->kind == ATOLL_RECIPE_HEALTHCHECK))
        warn(l, before->line, "MultipleInstructionsDisallowed",
             "a later %s of this stage replaces this one", atoll_recipe_kind_name(before->kind));
}

static void lint_stage(struct lint *l, size_t index)
{
    const struct atoll_recipe_stage *stage = &l->recipe->stages[index];
    struct seen seen = {0};

    lint_name(l, index);
    lint_from(l, stage);
    for (size_t i = 0; i < stage->step_count; i++) {
        const struct atoll_recipe_step *step = stage->steps[i];
        lint_step(l, step, &seen);
        lint_once(l, seen.last[step->kind]);
        seen.last[step->kind] = step;
    }
}

static int by_line(const void *a, const void *b)
{
    const struct atoll_dockerfile_warning *x = a, *y = b;

    return x->line != y->line ? (x->line > y->line) - (x->line < y->line)
                              : strcmp(x->rule, y->rule);
}

void atoll_dockerfile_lint(const struct atoll_recipe *r,
                           void (*fn)(const struct atoll_dockerfile_warning *w, void *arg),
                           void *arg)
{
    const struct atoll_recipe_inputs inputs = {0};
    struct lint *l = atoll_alloc(sizeof(*l));

    l->recipe = r;
    l->scope = atoll_recipe_scope_new(r, &inputs);
    for (size_t i = 0; i < r->global_count; i++)
        lint_step(l, r->globals[i], &(struct seen){0});
    for (size_t i = 0; i < r->stage_count; i++)
        lint_stage(l, i);
    lint_cases(l);
    qsort(l->found, l->count, sizeof(l->found[0]), by_line);
    for (size_t i = 0; i < l->count; i++)
        fn(&l->found[i], arg);
    atoll_recipe_scope_free(l->scope);
    atoll_recipe_memory_done(&l->memory);
    free(l);
}
