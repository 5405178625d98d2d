#include "image/stages.h"

#include <errno.h>
#include <string.h>
#include <strings.h>
#include "base/memory.h"
#include "base/text.h"
#include "image/recipe_internal.h"
#include "image/scope.h"

struct planner {
    const struct atoll_recipe *recipe;
    struct atoll_recipe_plan *plan;
    struct atoll_recipe_scope *scope;
    struct atoll_error *err;
};

/* The last of the stages before `end` that has the name; -ENOENT. */
static int find_name(const struct atoll_recipe *r, size_t end, const char *name, size_t *ret)
{
    for (size_t i = end; i-- > 0;) {
        if (r->stages[i].name && strcasecmp(r->stages[i].name, name) == 0) {
            *ret = i;
            return 0;
        }
    }
    return -ENOENT;
}

static int refuse_later(size_t stage, size_t found, const char *from, struct atoll_error *err)
{
    if (found == stage)
        return atoll_recipe_refuse(err, 0, "the stage \"%.40s\" uses itself", from);
    return atoll_recipe_refuse(
        err, 0,
        "the stage \"%.40s\" comes later in the Dockerfile; put it before the "
        "stage that uses it",
        from);
}

int atoll_recipe_find_source(const struct atoll_recipe *r, size_t stage, const char *from,
                             struct atoll_recipe_source *ret, struct atoll_error *err)
{
    struct atoll_recipe_source source = {.kind = ATOLL_RECIPE_FROM_STAGE};
    uint64_t number;

    if (!from || !*from) {
        source.kind = ATOLL_RECIPE_FROM_CONTEXT;
    } else if (strcasecmp(from, "scratch") == 0) {
        source.kind = ATOLL_RECIPE_FROM_SCRATCH;
    } else if (atoll_text_u64(from, 0, SIZE_MAX, &number) == 0) {
        if (number >= r->stage_count)
            return atoll_recipe_refuse(err, 0, "there is no stage %.40s", from);
        if (number >= stage)
            return refuse_later(stage, (size_t)number, from, err);
        source.stage = (size_t)number;
    } else if (find_name(r, stage, from, &source.stage) < 0) {
        if (find_name(r, r->stage_count, from, &source.stage) == 0)
            return refuse_later(stage, source.stage, from, err);
        source.kind = ATOLL_RECIPE_FROM_IMAGE;
        source.image = from;
    }
    *ret = source;
    return 0;
}

static int plan_base(struct planner *p, size_t index)
{
    const struct atoll_recipe_stage *stage = &p->recipe->stages[index];
    struct atoll_recipe_plan_stage *ret = &p->plan->stages[index];
    const char *base, *platform = NULL;

    if (atoll_recipe_scope_expand_global(p->scope, stage->base, &base, p->err) < 0 ||
        (stage->platform &&
         atoll_recipe_scope_expand_global(p->scope, stage->platform, &platform, p->err) < 0))
        return -EINVAL;
    if (!*base)
        return atoll_recipe_refuse(p->err, 0,
                                   "the base \"%.60s\" is empty: an ARG before the first FROM has "
                                   "no value",
                                   stage->base);
    if (platform && !*platform)
        return atoll_recipe_refuse(p->err, 0, "the platform \"%.60s\" is empty", stage->platform);
    if (platform) {
        ret->platform = atoll_recipe_text(&p->plan->memory, platform, strlen(platform));
        if (!ret->platform)
            return atoll_recipe_no_room(p->err);
    }
    if (strcasecmp(base, "scratch") == 0)
        return 0;
    ret->base.kind = ATOLL_RECIPE_FROM_STAGE;
    if (find_name(p->recipe, index, base, &ret->base.stage) == 0)
        return 0;
    ret->base.kind = ATOLL_RECIPE_FROM_IMAGE;
    ret->base.image = atoll_recipe_text(&p->plan->memory, base, strlen(base));
    return ret->base.image ? 0 : atoll_recipe_no_room(p->err);
}

static int add_need(struct planner *p, struct atoll_recipe_plan_stage *ret, size_t stage)
{
    size_t *needs = (size_t *)(uintptr_t)ret->needs, at = ret->need_count;

    while (at > 0 && needs[at - 1] > stage)
        at--;
    if (at > 0 && needs[at - 1] == stage)
        return 0;
    needs = atoll_recipe_grow(&p->plan->memory, needs, ret->need_count, sizeof(*needs));
    if (!needs)
        return atoll_recipe_no_room(p->err);
    memmove(&needs[at + 1], &needs[at], (ret->need_count - at) * sizeof(*needs));
    needs[at] = stage;
    ret->needs = needs;
    ret->need_count++;
    return 0;
}

static int add_image(struct planner *p, struct atoll_recipe_plan_stage *ret, const char *image)
{
    struct atoll_recipe_words words = {(const char **)(uintptr_t)ret->images, ret->image_count};
    int r;

    for (size_t i = 0; i < words.count; i++)
        if (strcmp(words.items[i], image) == 0)
            return 0;
    r = atoll_recipe_add_word(&p->plan->memory, &words, image, strlen(image), p->err);
    ret->images = words.items;
    ret->image_count = words.count;
    return r;
}

static int add_source(struct planner *p, size_t index, const char *from)
{
    struct atoll_recipe_plan_stage *ret = &p->plan->stages[index];
    struct atoll_recipe_source source;

    if (atoll_recipe_find_source(p->recipe, index, from, &source, p->err) < 0)
        return -EINVAL;
    if (source.kind == ATOLL_RECIPE_FROM_STAGE)
        return add_need(p, ret, source.stage);
    return source.kind == ATOLL_RECIPE_FROM_IMAGE ? add_image(p, ret, source.image) : 0;
}

static int plan_step(struct planner *p, size_t index, const struct atoll_recipe_step *step)
{
    if (step->flags.from && strchr(step->flags.from, '$'))
        return atoll_recipe_refuse(p->err, 0,
                                   "--from cannot have a variable; use a stage FROM the variable");
    if (add_source(p, index, step->flags.from) < 0)
        return -EINVAL;
    for (size_t i = 0; i < step->flags.mount_count; i++)
        if (add_source(p, index, step->flags.mounts[i].from) < 0)
            return -EINVAL;
    return 0;
}

static int plan_stage(struct planner *p, size_t index)
{
    const struct atoll_recipe_stage *stage = &p->recipe->stages[index];
    struct atoll_recipe_plan_stage *ret = &p->plan->stages[index];

    if (plan_base(p, index) < 0 ||
        (ret->base.kind == ATOLL_RECIPE_FROM_STAGE && add_need(p, ret, ret->base.stage) < 0))
        return atoll_recipe_at_line(p->err, stage->line);
    for (size_t i = 0; i < stage->step_count; i++)
        if (plan_step(p, index, stage->steps[i]) < 0)
            return atoll_recipe_at_line(p->err, stage->steps[i]->line);
    return 0;
}

static int find_target(struct planner *p, const char *target)
{
    const struct atoll_recipe *r = p->recipe;
    uint64_t number;

    p->plan->target = r->stage_count - 1;
    if (!target || !*target || find_name(r, r->stage_count, target, &p->plan->target) == 0)
        return 0;
    if (atoll_text_u64(target, 0, r->stage_count - 1, &number) == 0) {
        p->plan->target = (size_t)number;
        return 0;
    }
    return atoll_fail(p->err, ATOLL_ERR_NOT_FOUND, ENOENT,
                      "the Dockerfile has no stage \"%.60s\" to build", target);
}

/* Needs are lower than their stage, so one pass downwards finds all. */
static void mark_needed(struct atoll_recipe_plan *plan)
{
    plan->stages[plan->target].needed = true;
    for (size_t i = plan->target + 1; i-- > 0;) {
        const struct atoll_recipe_plan_stage *stage = &plan->stages[i];
        for (size_t k = 0; stage->needed && k < stage->need_count; k++)
            plan->stages[stage->needs[k]].needed = true;
    }
}

static int fill(struct planner *p, const struct atoll_recipe_inputs *inputs)
{
    p->plan->stage_count = p->recipe->stage_count;
    p->plan->stages =
        atoll_recipe_alloc(&p->plan->memory, p->plan->stage_count * sizeof(*p->plan->stages));
    if (!p->plan->stages)
        return atoll_recipe_no_room(p->err);
    for (size_t i = 0; i < p->plan->stage_count; i++)
        if (plan_stage(p, i) < 0)
            return -EINVAL;
    if (find_target(p, inputs->target) < 0)
        return -ENOENT;
    mark_needed(p->plan);
    return 0;
}

int atoll_recipe_plan(const struct atoll_recipe *r, const struct atoll_recipe_inputs *inputs,
                      struct atoll_recipe_plan **ret, struct atoll_error *err)
{
    struct planner p = {.recipe = r, .err = err};
    int failed = atoll_recipe_scope_open(r, inputs, &p.scope, err);

    if (failed < 0)
        return failed;
    p.plan = atoll_alloc(sizeof(*p.plan));
    failed = fill(&p, inputs);
    atoll_recipe_scope_free(p.scope);
    if (failed < 0)
        atoll_recipe_plan_free(p.plan);
    else
        *ret = p.plan;
    return failed;
}

struct atoll_recipe_plan *atoll_recipe_plan_free(struct atoll_recipe_plan *plan)
{
    if (plan)
        atoll_recipe_memory_done(&plan->memory);
    free(plan);
    return NULL;
}
