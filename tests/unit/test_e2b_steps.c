/*
 * Definitions of E2B's Template SDK, as recipes.
 */
#include <stdio.h>
#include <string.h>
#include "api/e2b/template_steps.h"
#include "test.h"

#define HASH "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define FILES "e2b-" HASH

/* The steps of the client, as one line: "3 COPY --from … a b". Steps with line 0 are left out, unless
 * `all`. */
static void describe(const struct atoll_recipe *r, bool all, char *out, size_t cap)
{
    size_t n = 0;

    out[0] = '\0';
    for (size_t i = 0; i < r->stages[0].step_count && n < cap; i++) {
        const struct atoll_recipe_step *s = r->stages[0].steps[i];
        if (s->line == 0 && !all)
            continue;
        n += (size_t)snprintf(out + n, cap - n, "%d %s", s->line, atoll_recipe_kind_name(s->kind));
        if (s->flags.from && n < cap)
            n += (size_t)snprintf(out + n, cap - n, " %.8s %s %s", s->flags.from, s->flags.chown,
                                  s->flags.chmod ? s->flags.chmod : "-");
        for (size_t k = s->json ? 4 : 0; k < s->arg_count && n < cap; k++)
            n += (size_t)snprintf(out + n, cap - n, " %s", s->args[k]);
        for (size_t k = 0; k < s->pair_count && n < cap; k++)
            n += (size_t)snprintf(out + n, cap - n, " %s=%s", s->pairs[k].name, s->pairs[k].value);
        n += n < cap ? (size_t)snprintf(out + n, cap - n, s->dest ? " > %s;" : ";", s->dest) : 0;
    }
}

static const struct atoll_e2b_base image = {.reference = "docker.io/library/debian"};
static const struct atoll_e2b_base template = {.reference = "mine",
                                               .has_user = true,
                                               .user = "dev",
                                               .workdir = "/w"};

static int make(const char *steps, const struct atoll_e2b_base *base, struct atoll_e2b_recipe *ret,
                struct atoll_error *err)
{
    json_t *json = json_loads(steps, JSON_ALLOW_NUL, NULL);
    struct atoll_e2b_definition d = {.steps = json};
    int r;

    assert_non_null(json);
    r = atoll_e2b_recipe_make(&d, base, ret, err);
    json_decref(json);
    return r;
}

static const struct {
    const char *step, *shown;
} good[] = {
    {"{\"type\":\"RUN\",\"args\":[\"echo '$A' && x\"]}", "1 RUN echo '$A' && x;"},
    {"{\"type\":\"RUN\",\"args\":[\"id\",\"user\"]}", "1 RUN id;"},
    {"{\"type\":\"RUN\",\"args\":[\"id\",\"root\"],\"force\":false}",
     "1 USER root;1 RUN id;1 USER user;"},
    {"{\"type\":\"USER\",\"args\":[\"root\"]},{\"type\":\"RUN\",\"args\":[\"id\"]}",
     "1 USER root;2 RUN id;"},
    {"{\"type\":\"WORKDIR\",\"args\":[\"/home/user\"]}", "1 WORKDIR /home/user;"},
    {"{\"type\":\"WORKDIR\",\"args\":[\"/a b$c\"]}", "1 WORKDIR /a b\\$c;"},
    {"{\"type\":\"ENV\",\"args\":[\"A\",\"it's $B\",\"C\",\"\"]}", "1 ENV A=it\\'s $B C=;"},
    {"{\"type\":\"COPY\",\"args\":[\"a\",\"b\",\"\",\"\"],\"filesHash\":\"" HASH "\"}",
     "1 COPY e2b-0123 user - a > b;"},
    {"{\"type\":\"COPY\",\"args\":[\"a\",\"/b/\",\"root:root\",\"0755\"],\"filesHash\":\"" HASH
     "\"}",
     "1 COPY e2b-0123 root:root 0755 a > /b/;"},
    {"{\"type\":\"COPY\",\"args\":[\"*\",\"all\"],\"filesHash\":\"" HASH "\"}",
     "1 COPY e2b-0123 user - ./ > all/;"},
    {"{\"type\":\"COPY\",\"args\":[\"x/y/*.t\",\".\"],\"filesHash\":\"" HASH "\"}",
     "1 COPY e2b-0123 user - x/y/ > ./;"},
    {"{\"type\":\"COPY\",\"args\":[\"x/*/z\",\"d/\"],\"filesHash\":\"" HASH "\"}",
     "1 COPY e2b-0123 user - x/ > d/;"},
};

static void steps_become_instructions(void **state)
{
    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(good); i++) {
        struct atoll_e2b_recipe made;
        struct atoll_error err = {0};
        char steps[1024], shown[1024];

        (void)snprintf(steps, sizeof(steps), "[%s]", good[i].step);
        assert_int_equal(make(steps, &image, &made, &err), 0);
        describe(made.recipe, false, shown, sizeof(shown));
        assert_string_equal(shown, good[i].shown);
        assert_false(made.force);
        atoll_e2b_recipe_done(&made);
    }
}

static const struct {
    const char *step, *why;
} bad[] = {
    {"1", "step 1: must be an object"},
    {"{}", "step 1: must be an object with the field type"},
    {"{\"type\":\"FROM\"}", "step 1: unknown type"},
    {"{\"type\":\"RUN\"}", "step 1: RUN needs a command"},
    {"{\"type\":\"RUN\",\"args\":\"id\"}", "step 1: args must be an array"},
    {"{\"type\":\"RUN\",\"args\":[1]}", "step 1: args must be an array of strings"},
    {"{\"type\":\"USER\",\"args\":[\"\"]}", "step 1: USER needs a name"},
    {"{\"type\":\"WORKDIR\",\"args\":[]}", "step 1: WORKDIR needs a path"},
    {"{\"type\":\"ENV\",\"args\":[\"A\"]}", "step 1: ENV needs names and values"},
    {"{\"type\":\"ENV\",\"args\":[\"A=B\",\"\"]}", "step 1: ENV: a name"},
    {"{\"type\":\"COPY\",\"args\":[\"a\",\"b\"]}", "step 1: COPY needs filesHash"},
    {"{\"type\":\"COPY\",\"args\":[\"a\",\"b\"],\"filesHash\":\"../up\"}",
     "step 1: COPY needs filesHash"},
    {"{\"type\":\"COPY\",\"args\":[\"/a\",\"b\"],\"filesHash\":\"" HASH "\"}",
     "step 1: COPY needs a source"},
    {"{\"type\":\"COPY\",\"args\":[\"a\",\"b\",\"\",\"rwx\"],\"filesHash\":\"" HASH "\"}",
     "step 1: COPY: the mode"},
};

static void bad_steps_are_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(bad); i++) {
        struct atoll_e2b_recipe made;
        struct atoll_error err = {0};
        char steps[512];

        (void)snprintf(steps, sizeof(steps), "[%s]", bad[i].step);
        assert_true(make(steps, &image, &made, &err) < 0);
        assert_int_equal(err.kind, ATOLL_ERR_INVALID_ARGUMENT);
        assert_non_null(strstr(err.text, bad[i].why));
    }
}

static void a_base_is_given_the_user(void **state)
{
    struct atoll_e2b_recipe made;
    struct atoll_error err;
    char shown[2048];

    (void)state;
    assert_int_equal(make("[]", &image, &made, &err), 0);
    describe(made.recipe, true, shown, sizeof(shown));
    assert_string_equal(shown, "0 USER root;0 RUN ;0 USER user;0 WORKDIR /home/user;");
    assert_string_equal(made.recipe->stages[0].base, "docker.io/library/debian");
    atoll_e2b_recipe_done(&made);
    assert_int_equal(make("[]", &template, &made, &err), 0);
    describe(made.recipe, true, shown, sizeof(shown));
    assert_string_equal(shown, "0 USER dev;0 WORKDIR /w;");
    atoll_e2b_recipe_done(&made);
}

static void contexts_are_listed_once(void **state)
{
    static const char copy[] =
        "{\"type\":\"COPY\",\"args\":[\"a\",\"b\"],\"filesHash\":\"" HASH "\"}";
    struct atoll_e2b_recipe made;
    struct atoll_error err;
    char steps[512];

    (void)state;
    (void)snprintf(steps, sizeof(steps),
                   "[%s,%s,{\"type\":\"RUN\",\"args\":[\"id\"],\"force\":true}]", copy, copy);
    assert_int_equal(make(steps, &image, &made, &err), 0);
    assert_int_equal(made.context_count, 1);
    assert_string_equal(made.contexts[0], FILES);
    assert_false(made.force); /* of one step, not of all */
    assert_true(made.recipe->stages[0].steps[made.recipe->stages[0].step_count - 1]->fresh);
    assert_false(made.recipe->stages[0].steps[0]->fresh);
    atoll_e2b_recipe_done(&made);
}

static void too_many_steps(void **state)
{
    json_t *steps = json_array();
    struct atoll_e2b_definition d = {.steps = steps};
    struct atoll_e2b_recipe made;
    struct atoll_error err;

    (void)state;
    for (int i = 0; i <= ATOLL_E2B_STEPS_MAX; i++)
        assert_int_equal(
            json_array_append_new(steps, json_pack("{s:s,s:[s]}", "type", "RUN", "args", "id")), 0);
    assert_true(atoll_e2b_recipe_make(&d, &image, &made, &err) < 0);
    assert_non_null(strstr(err.text, "at most 1000 steps"));
    json_decref(steps);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_become_instructions),
        cmocka_unit_test(bad_steps_are_named),
        cmocka_unit_test(a_base_is_given_the_user),
        cmocka_unit_test(contexts_are_listed_once),
        cmocka_unit_test(too_many_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
