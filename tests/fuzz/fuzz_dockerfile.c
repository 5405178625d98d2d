/*
 * Definitions of images. The input is a Dockerfile; or, with "{" at the beginning, a recipe in JSON; or,
 * with the byte 1, a manifest, NUL, and a COPY. What is accepted has all its parts, is stored and read back
 * as the same, and goes through a build as far as it is pure: stages, variables, configs, sources.
 */
#include <jansson.h>
#include <string.h>
#include "fuzz.h"
#include "image/config_apply.h"
#include "image/copy_match.h"
#include "image/dockerfile.h"
#include "image/scope.h"

static const char files[] =
    "d 755 0 0 0 - . -\n"
    "l 777 0 0 0 - a b/c\n"
    "d 755 0 0 0 - b -\n"
    "f 644 0 0 0 "
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa b/c -\n";

static void check_warning(const struct atoll_dockerfile_warning *w, void *arg)
{
    int *line = arg;

    FUZZ_CHECK(w->line >= *line && w->rule && *w->text);
    *line = w->line;
}

static void check_json(const struct atoll_recipe *r)
{
    json_t *one = atoll_recipe_to_json(r), *two;
    struct atoll_recipe *again = NULL;

    FUZZ_CHECK(atoll_recipe_from_json(one, &again, NULL) == 0);
    two = atoll_recipe_to_json(again);
    FUZZ_CHECK(json_equal(one, two));
    json_decref(one);
    json_decref(two);
    atoll_recipe_free(again);
}

static void check_copy(const struct atoll_copy_tree *tree, const struct atoll_recipe_step *step)
{
    struct atoll_copy_match match, again;

    if (atoll_copy_match(tree, step, &match, NULL) < 0)
        return;
    FUZZ_CHECK(strlen(match.digest) == 64);
    for (size_t i = 0; i < match.pair_count; i++)
        FUZZ_CHECK(match.pairs[i].path[0] != '/' && !strstr(match.pairs[i].path, "../"));
    FUZZ_CHECK(atoll_copy_match(tree, step, &again, NULL) == 0);
    FUZZ_CHECK(strcmp(match.digest, again.digest) == 0 && match.pair_count == again.pair_count);
    atoll_copy_match_done(&match);
    atoll_copy_match_done(&again);
}

static void check_step(struct atoll_recipe_scope *scope, const struct atoll_recipe_step *step,
                       const struct atoll_copy_tree *tree, json_t *config, bool *cmd_set)
{
    struct atoll_recipe_memory m = {0};
    struct atoll_recipe_step expanded;
    json_t *key;
    bool script;

    FUZZ_CHECK(atoll_recipe_step_is_whole(step));
    if (step->kind == ATOLL_RECIPE_RUN && !step->json)
        FUZZ_CHECK(atoll_dockerfile_script(&m, step, &script));
    atoll_recipe_memory_done(&m);
    if (atoll_recipe_scope_expand(scope, step, &expanded, NULL) < 0)
        return;
    key = atoll_recipe_step_to_json(&expanded, true);
    FUZZ_CHECK(json_object_get(key, "kind"));
    json_decref(key);
    (void)!atoll_image_config_apply(config, &expanded, cmd_set, NULL);
    if (step->kind == ATOLL_RECIPE_COPY || step->kind == ATOLL_RECIPE_ADD)
        check_copy(tree, &expanded);
}

static void check_stage(const struct atoll_recipe *r, const struct atoll_recipe_inputs *inputs,
                        size_t index, const struct atoll_copy_tree *tree)
{
    struct atoll_recipe_scope *scope = atoll_recipe_scope_new(r, inputs), *child;
    struct atoll_recipe_variable v;
    json_t *config = json_object();
    bool cmd_set = false;
    size_t pos = 0;

    if (scope) {
        for (size_t i = 0; i < r->stages[index].step_count; i++)
            check_step(scope, r->stages[index].steps[i], tree, config, &cmd_set);
        while (atoll_recipe_scope_next(scope, &pos, &v))
            FUZZ_CHECK(v.name && v.value);
        child = atoll_recipe_scope_child(scope);
        FUZZ_CHECK(child);
        atoll_recipe_scope_free(child);
    }
    atoll_recipe_scope_free(scope);
    json_decref(config);
}

static void check_recipe(const struct atoll_recipe *r)
{
    static const struct atoll_recipe_pair args[] = {{"A", "x y"}, {"HTTP_PROXY", "p"}};
    const struct atoll_recipe_inputs inputs = {args, 2, NULL, "linux/amd64"};
    struct atoll_copy_tree *tree;
    struct atoll_recipe_plan *plan;
    int line = 0;

    check_json(r);
    atoll_dockerfile_lint(r, check_warning, &line);
    FUZZ_CHECK(atoll_copy_tree_parse(files, strlen(files), &tree, NULL) == 0);
    if (atoll_recipe_plan(r, &inputs, &plan, NULL) == 0) {
        for (size_t i = 0; i < plan->stage_count; i++)
            for (size_t k = 0; k < plan->stages[i].need_count; k++)
                FUZZ_CHECK(plan->stages[i].needs[k] < i);
        atoll_recipe_plan_free(plan);
    }
    for (size_t i = 0; i < r->stage_count; i++)
        check_stage(r, &inputs, i, tree);
    atoll_copy_tree_free(tree);
}

static void fuzz_json(const char *text, size_t n)
{
    json_t *json = json_loadb(text, n, 0, NULL);
    struct atoll_recipe *r = NULL;

    if (json && atoll_recipe_from_json(json, &r, NULL) == 0) {
        check_recipe(r);
        atoll_recipe_free(r);
    }
    json_decref(json);
}

static void fuzz_manifest(const char *text, size_t n)
{
    const char *nul = memchr(text, '\0', n);
    size_t len = nul ? (size_t)(nul - text) : n;
    struct atoll_recipe_memory m = {0};
    struct atoll_recipe_step step;
    struct atoll_copy_tree *tree;

    if (!nul || atoll_copy_tree_parse(text, len, &tree, NULL) < 0)
        return;
    if (atoll_dockerfile_parse_step(&m, nul + 1, n - len - 1, '\\', &step, NULL) == 0 &&
        (step.kind == ATOLL_RECIPE_COPY || step.kind == ATOLL_RECIPE_ADD))
        check_copy(tree, &step);
    atoll_recipe_memory_done(&m);
    atoll_copy_tree_free(tree);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    struct atoll_recipe *r = NULL;
    struct atoll_error err = {0};

    if (size > 0 && *text == '{') {
        fuzz_json(text, size);
    } else if (size > 0 && *text == 1) {
        fuzz_manifest(text + 1, size - 1);
    } else if (atoll_dockerfile_parse(text, size, &r, &err) == 0) {
        check_recipe(r);
        atoll_recipe_free(r);
    } else {
        FUZZ_CHECK(err.kind == ATOLL_ERR_RESOURCE_EXHAUSTED ||
                   (err.kind == ATOLL_ERR_INVALID_ARGUMENT && strncmp(err.text, "line ", 5) == 0));
    }
    return 0;
}
