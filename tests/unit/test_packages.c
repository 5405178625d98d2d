/* Lists of packages as Dockerfiles. */
#include <string.h>
#include "image/dockerfile.h"
#include "image/packages.h"
#include "test.h"

static void test_dockerfile(void **state)
{
    json_t *packages = json_pack("{s:[s],s:[s,s],s:[s]}", "npm", "@a/b@^1", "pip", "numpy>=1,<2",
                                 "requests[socks]==2.1", "apt", "jq=1.6-2");
    json_t *env = json_pack("{s:s,s:s}", "PIP_INDEX_URL", "http://x/$y\"\\", "LINES", "a\nb");
    const struct atoll_packages_base base = {"python:3", "app", env};
    struct atoll_recipe *r = NULL;
    struct atoll_error err = {0};
    struct atoll_buf text;

    (void)state;
    atoll_buf_init(&text, 4096);
    assert_int_equal(atoll_packages_check(packages, &err), 0);
    assert_int_equal(atoll_packages_dockerfile(&text, &base, packages), 0);
    assert_string_equal(
        atoll_buf_str(&text),
        "FROM python:3\nUSER root\n"
        "ARG PIP_INDEX_URL=\"http://x/\\$y\\\"\\\\\"\n"
        "RUN apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y "
        "--no-install-recommends 'jq=1.6-2' && rm -rf /var/lib/apt/lists/*\n"
        "RUN PIP_BREAK_SYSTEM_PACKAGES=1 PIP_ROOT_USER_ACTION=ignore python3 -m pip install "
        "--no-cache-dir 'numpy>=1,<2' 'requests[socks]==2.1'\n"
        "RUN npm install --global --no-fund --no-audit '@a/b@^1'\n"
        "USER app\n");
    assert_int_equal(atoll_dockerfile_parse(atoll_buf_str(&text), atoll_buf_size(&text), &r, &err),
                     0);
    assert_int_equal(r->stages[0].step_count, 6);
    assert_int_equal(r->stages[0].steps[2]->heredoc_count, 0);
    atoll_recipe_free(r);
    atoll_buf_done(&text);
    json_decref(packages);
    json_decref(env);
}

static void test_refused(void **state)
{
    static const struct {
        const char *json, *error;
    } rows[] = {
        {"{\"brew\": []}", "packages: there is no installer \"brew\""},
        {"{\"pip\": [\"\"]}", "packages.pip: \"\" is not the name of a package"},
        {"{\"pip\": [\"-r\"]}", "packages.pip: \"-r\""},
        {"{\"pip\": [\"a;b\"]}", "packages.pip: \"a;b\""},
        {"{\"pip\": [\"a'b\"]}", "packages.pip: \"a'b\""},
        {"{\"npm\": [\"a b\"]}", "packages.npm: \"a b\""},
        {"{\"npm\": [\"a$(b)\"]}", "packages.npm: \"a$(b)\""},
        {"{\"apt\": [\"./x.deb\"]}", "packages.apt: \"./x.deb\""},
        {"{\"apt\": [\"a\\nb\"]}", "packages.apt: \"a\nb\""},
        {"{\"apt\": [1]}", "packages.apt: \"\""},
    };

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(rows); i++) {
        json_t *json = json_loads(rows[i].json, 0, NULL);
        struct atoll_error err = {0};
        assert_true(atoll_packages_check(json, &err) < 0);
        assert_memory_equal(err.text, rows[i].error, strlen(rows[i].error));
        json_decref(json);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dockerfile),
        cmocka_unit_test(test_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
