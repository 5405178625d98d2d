#include "image/recipe_internal.h"

#include <errno.h>
#include <stdalign.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include "base/memory.h"

#define CHUNK_BYTES ((size_t)16 * 1024)
#define FIRST_COUNT 8

struct atoll_recipe_chunk {
    struct atoll_recipe_chunk *next;
    size_t used, size; /* of bytes */
    alignas(max_align_t) char bytes[];
};

static const char *const kind_names[ATOLL_RECIPE_KINDS] = {
    [ATOLL_RECIPE_ADD] = "ADD",
    [ATOLL_RECIPE_ARG] = "ARG",
    [ATOLL_RECIPE_CMD] = "CMD",
    [ATOLL_RECIPE_COPY] = "COPY",
    [ATOLL_RECIPE_ENTRYPOINT] = "ENTRYPOINT",
    [ATOLL_RECIPE_ENV] = "ENV",
    [ATOLL_RECIPE_EXPOSE] = "EXPOSE",
    [ATOLL_RECIPE_HEALTHCHECK] = "HEALTHCHECK",
    [ATOLL_RECIPE_LABEL] = "LABEL",
    [ATOLL_RECIPE_MAINTAINER] = "MAINTAINER",
    [ATOLL_RECIPE_ONBUILD] = "ONBUILD",
    [ATOLL_RECIPE_RUN] = "RUN",
    [ATOLL_RECIPE_SHELL] = "SHELL",
    [ATOLL_RECIPE_STOPSIGNAL] = "STOPSIGNAL",
    [ATOLL_RECIPE_USER] = "USER",
    [ATOLL_RECIPE_VOLUME] = "VOLUME",
    [ATOLL_RECIPE_WORKDIR] = "WORKDIR",
};

const char *atoll_recipe_kind_name(enum atoll_recipe_kind kind)
{
    return kind_names[kind];
}

bool atoll_recipe_kind_by_name(const char *name, size_t n, enum atoll_recipe_kind *ret)
{
    for (size_t i = 0; i < ATOLL_RECIPE_KINDS; i++) {
        if (strlen(kind_names[i]) == n && strncasecmp(kind_names[i], name, n) == 0) {
            *ret = (enum atoll_recipe_kind)i;
            return true;
        }
    }
    return false;
}

static struct atoll_recipe_chunk *add_chunk(struct atoll_recipe_memory *m, size_t n)
{
    size_t size = ATOLL_MAX(n, CHUNK_BYTES);
    struct atoll_recipe_chunk *chunk = calloc(1, sizeof(*chunk) + size);

    if (!chunk)
        return NULL;
    chunk->size = size;
    chunk->next = m->chunks;
    m->chunks = chunk;
    return chunk;
}

void *atoll_recipe_alloc(struct atoll_recipe_memory *m, size_t n)
{
    struct atoll_recipe_chunk *chunk = m->chunks;
    void *bytes;

    if (n > ATOLL_RECIPE_MEMORY_MAX)
        return NULL;
    n = (n + alignof(max_align_t) - 1) & ~(alignof(max_align_t) - 1);
    if (n > ATOLL_RECIPE_MEMORY_MAX - m->used)
        return NULL;
    if (!chunk || n > chunk->size - chunk->used)
        chunk = add_chunk(m, n);
    if (!chunk)
        return NULL;
    bytes = chunk->bytes + chunk->used;
    chunk->used += n;
    m->used += n;
    return bytes;
}

char *atoll_recipe_text(struct atoll_recipe_memory *m, const char *bytes, size_t n)
{
    char *text = n < ATOLL_RECIPE_MEMORY_MAX ? atoll_recipe_alloc(m, n + 1) : NULL;

    if (text && n > 0)
        memcpy(text, bytes, n);
    return text;
}

void atoll_recipe_memory_wipe(struct atoll_recipe_memory *m)
{
    for (struct atoll_recipe_chunk *chunk = m->chunks; chunk; chunk = chunk->next)
        explicit_bzero(chunk->bytes, chunk->size);
}

void atoll_recipe_memory_done(struct atoll_recipe_memory *m)
{
    while (m->chunks) {
        struct atoll_recipe_chunk *chunk = m->chunks;
        m->chunks = chunk->next;
        free(chunk);
    }
    m->used = 0;
}

struct atoll_recipe *atoll_recipe_new(void)
{
    struct atoll_recipe *r = atoll_alloc(sizeof(*r));

    r->escape = '\\';
    return r;
}

struct atoll_recipe *atoll_recipe_free(struct atoll_recipe *r)
{
    if (r)
        atoll_recipe_memory_done(&r->memory);
    free(r);
    return NULL;
}

int atoll_recipe_no_room(struct atoll_error *err)
{
    return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, ENOMEM,
                      "the definition needs too much memory");
}

int atoll_recipe_refuse(struct atoll_error *err, int line, const char *fmt, ...)
{
    char text[ATOLL_ERROR_TEXT_MAX];
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "%s", text);
    return line > 0 ? atoll_recipe_at_line(err, line) : -EINVAL;
}

int atoll_recipe_at_line(struct atoll_error *err, int line)
{
    return line > 0 ? atoll_wrap(err, "line %d", line) : -(err && err->errnum ? err->errnum : EIO);
}

void *atoll_recipe_grow(struct atoll_recipe_memory *m, void *array, size_t count, size_t size)
{
    void *more;

    if (count > 0 && (count < FIRST_COUNT || (count & (count - 1)) != 0))
        return array;
    more = atoll_recipe_alloc(m, ATOLL_MAX(2 * count, (size_t)FIRST_COUNT) * size);
    if (more && count > 0)
        memcpy(more, array, count * size);
    return more;
}

int atoll_recipe_add_word(struct atoll_recipe_memory *m, struct atoll_recipe_words *w,
                          const char *text, size_t n, struct atoll_error *err)
{
    const char **items;
    char *word;

    if (w->count == ATOLL_RECIPE_WORDS_MAX)
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, E2BIG, "more than %d words",
                          ATOLL_RECIPE_WORDS_MAX);
    items = atoll_recipe_grow(m, w->items, w->count, sizeof(*items));
    word = atoll_recipe_text(m, text, n);
    if (!items || !word)
        return atoll_recipe_no_room(err);
    items[w->count++] = word;
    w->items = items;
    return 0;
}

int atoll_recipe_add_stage(struct atoll_recipe *r, const char *name, const char *base,
                           const char *platform, const char *text, int line,
                           struct atoll_error *err)
{
    struct atoll_recipe_memory *m = &r->memory;
    struct atoll_recipe_stage stage = {.line = line};
    struct atoll_recipe_stage *stages;

    if (r->stage_count == ATOLL_RECIPE_STAGES_MAX)
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, E2BIG, "line %d: more than %d stages",
                          line, ATOLL_RECIPE_STAGES_MAX);
    stages = atoll_recipe_grow(m, r->stages, r->stage_count, sizeof(*stages));
    stage.name = name ? atoll_recipe_text(m, name, strlen(name)) : NULL;
    stage.platform = platform ? atoll_recipe_text(m, platform, strlen(platform)) : NULL;
    stage.base = atoll_recipe_text(m, base, strlen(base));
    stage.text = atoll_recipe_text(m, text, strlen(text));
    if (!stages || (name && !stage.name) || (platform && !stage.platform) || !stage.base ||
        !stage.text)
        return atoll_recipe_no_room(err);
    stages[r->stage_count++] = stage;
    r->stages = stages;
    return 0;
}

int atoll_recipe_add_step(struct atoll_recipe *r, const struct atoll_recipe_step *step,
                          struct atoll_error *err)
{
    struct atoll_recipe_stage *stage = r->stage_count > 0 ? &r->stages[r->stage_count - 1] : NULL;
    const struct atoll_recipe_step ***list = stage ? &stage->steps : &r->globals;
    size_t *count = stage ? &stage->step_count : &r->global_count;
    const struct atoll_recipe_step **more;
    struct atoll_recipe_step *copy;

    if (r->step_count == ATOLL_RECIPE_STEPS_MAX)
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, E2BIG,
                          "line %d: more than %d instructions", step->line, ATOLL_RECIPE_STEPS_MAX);
    more = atoll_recipe_grow(&r->memory, *list, *count, sizeof(**list));
    copy = atoll_recipe_alloc(&r->memory, sizeof(*copy));
    if (!more || !copy)
        return atoll_recipe_no_room(err);
    *copy = *step;
    more[(*count)++] = copy;
    *list = more;
    r->step_count++;
    return 0;
}

/* How many `args` a kind has: at least, and in shell form exactly one. */
static bool args_are_whole(const struct atoll_recipe_step *step)
{
    switch (step->kind) {
    case ATOLL_RECIPE_CMD:
    case ATOLL_RECIPE_ENTRYPOINT:
        return step->json || step->arg_count == 1;
    case ATOLL_RECIPE_RUN:
        return step->json ? step->arg_count > 0 && step->heredoc_count == 0 : step->arg_count == 1;
    case ATOLL_RECIPE_HEALTHCHECK:
        return step->health.none || (step->json ? step->arg_count > 0 : step->arg_count == 1);
    case ATOLL_RECIPE_ADD:
    case ATOLL_RECIPE_COPY:
        return step->dest && step->arg_count + step->heredoc_count > 0;
    case ATOLL_RECIPE_ARG:
    case ATOLL_RECIPE_ENV:
    case ATOLL_RECIPE_LABEL:
        return step->pair_count > 0;
    case ATOLL_RECIPE_EXPOSE:
    case ATOLL_RECIPE_SHELL:
    case ATOLL_RECIPE_VOLUME:
        return step->arg_count > 0;
    default:
        return step->arg_count == 1;
    }
}

bool atoll_recipe_step_is_whole(const struct atoll_recipe_step *step)
{
    for (size_t i = 0; i < step->pair_count; i++)
        if (!step->pairs[i].name || !*step->pairs[i].name ||
            (!step->pairs[i].value && step->kind != ATOLL_RECIPE_ARG))
            return false;
    for (size_t i = 0; i < step->heredoc_count; i++)
        if (!step->heredocs[i].name || !step->heredocs[i].text)
            return false;
    for (size_t i = 0; i < step->flags.mount_count; i++)
        if (!step->flags.mounts[i].text)
            return false;
    return step->text && args_are_whole(step);
}
