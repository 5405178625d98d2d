/* A sandbox from an environment: what is asked of the engine, and that every failure undoes it. */
#include "engine/artifact/artifacts.h"
#define FAKE_BUILDS
#include "fake_engine.h"
#include "fake_one_build.h"
#include "registry/environment_create.h"
#include "test.h"

struct result {
    char calls[128]; /* of the steps around the start command, and of done */
    const char *fails;
    char id[ATOLL_ID_LEN + 1];
    struct atoll_error error;
};

static unsigned unwanted;

void atoll_artifacts_unwant(struct atoll_engine *engine ATOLL_UNUSED,
                            const char *sandbox_id ATOLL_UNUSED)
{
    unwanted++;
}

static void step(struct result *r, const char *name, const struct atoll_environment_made *made,
                 atoll_done_fn *done, void *done_arg)
{
    size_t n = strlen(r->calls);
    struct atoll_error error;

    (void)snprintf(r->calls + n, sizeof(r->calls) - n, "%s %s %s;", name, made->sandbox_id,
                   *made->start_exec ? "started" : "-");
    if (r->fails && strcmp(r->fails, name) == 0) {
        (void)atoll_fail(&error, ATOLL_ERR_DATA_LOSS, EIO, "%s failed", name);
        done(done_arg, &error);
    } else {
        done(done_arg, NULL);
    }
}

static void before(void *arg, const struct atoll_environment_made *made, atoll_done_fn *done,
                   void *done_arg)
{
    step(arg, "before", made, done, done_arg);
}

static void after(void *arg, const struct atoll_environment_made *made, atoll_done_fn *done,
                  void *done_arg)
{
    step(arg, "after", made, done, done_arg);
}

static void ended(void *arg, struct atoll_sandbox *sandbox, const struct atoll_error *error)
{
    struct result *r = arg;

    assert_true(!sandbox != !error);
    assert_string_equal(r->id, "");
    assert_int_equal(r->error.kind, ATOLL_ERR_NONE);
    if (error)
        r->error = *error;
    else
        (void)snprintf(r->id, sizeof(r->id), "%s", sandbox->id);
}

static struct atoll_environment environment;
static json_t *start, *requires, *packages, *variables;

static int setup(void **state ATOLL_UNUSED)
{
    fake_reset();
    fake_builds_reset();
    unwanted = 0;
    start = json_pack("[s,s]", "serve", "now");
    requires = json_pack("[{s:s,s:s}]", "program", "jq", "install", "apt install jq");
    packages = json_pack("{s:[s]}", "apt", "jq");
    variables = json_pack("{s:s,s:s}", "A", "base", "B", "base");
    environment = (struct atoll_environment){
        .name = "Mine",
        .template_name = "host",
        .language = "sh",
        .env = variables,
        .start = start,
        .requires = requires,
        .limits = {.memory_bytes = 1000, .pids = 7},
    };
    return 0;
}

static int teardown(void **state ATOLL_UNUSED)
{
    json_decref(start);
    json_decref(requires);
    json_decref(packages);
    json_decref(variables);
    fake_done();
    return 0;
}

static void make(struct result *r)
{
    const struct atoll_environment_create create = {
        .environment = &environment,
        .sandbox = {.env = (const char *const[]){"B=mine", "C=mine", NULL}, .limits.pids = 9},
        .check = true,
        .before_start = before,
        .after_start = after,
    };

    atoll_environment_create(&fake, &create, ended, r);
}

static void a_request_is_completed_by_its_environment(void **state ATOLL_UNUSED)
{
    const struct atoll_sandbox *made = &fake.sandboxes[0];
    struct result r = {0};

    make(&r);
    assert_string_equal(r.id, "box0");
    assert_string_equal(r.calls, "before box0 -;after box0 started;");
    assert_string_equal(made->template, "host");
    assert_string_equal(made->interpreter, "sh");
    assert_string_equal(made->env, "B=mine C=mine A=base ");
    assert_int_equal(made->limits.memory_bytes, 1000);
    assert_int_equal(made->limits.pids, 9);
    assert_string_equal(fake.path, "/home/user//usr/local/bin/jq");
    assert_int_equal(fake.destroyed + unwanted, 0);
}

static void an_empty_environment_adds_nothing(void **state ATOLL_UNUSED)
{
    const struct atoll_environment none = {0};
    const struct atoll_environment_create create = {.environment = &none,
                                                    .sandbox.template_name = "own"};
    struct result r = {0};

    atoll_environment_create(&fake, &create, ended, &r);
    assert_string_equal(r.id, "box0");
    assert_string_equal(fake.sandboxes[0].template, "own");
    assert_string_equal(fake.sandboxes[0].env, "");
    assert_false(fake.execs[0].used);
}

static void expect_undone(const struct result *r, enum atoll_error_kind kind, const char *text)
{
    assert_int_equal(r->error.kind, kind);
    if (!strstr(r->error.text, text))
        fail_msg("\"%s\" is not in \"%s\"", text, r->error.text);
    assert_string_equal(r->id, "");
    assert_int_equal(fake.destroyed, fake.made);
    assert_int_equal(unwanted, fake.made);
}

static void each_failure_destroys_the_sandbox(void **state ATOLL_UNUSED)
{
    struct result first = {.fails = "before"}, last = {.fails = "after"};

    make(&first);
    assert_string_equal(first.calls, "before box0 -;");
    assert_false(fake.execs[0].used);
    expect_undone(&first, ATOLL_ERR_DATA_LOSS, "before failed");
    make(&last);
    assert_string_equal(last.calls, "before box1 -;after box1 started;");
    expect_undone(&last, ATOLL_ERR_DATA_LOSS, "after failed");
}

/* Requests to the engine are held back: one is made to fail at a time. */
static void each_failure_of_the_engine_destroys_the_sandbox(void **state ATOLL_UNUSED)
{
    static const struct {
        size_t requests; /* before the one that fails */
        const char *text;
    } cases[] = {{0, "no luck"}, {1, "no luck"}, {2, "the start command of environment Mine: no"}};

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(cases); i++) {
        struct atoll_error no_luck = {0};
        struct result r = {0};

        (void)atoll_fail(&no_luck, ATOLL_ERR_UNAVAILABLE, EIO, "no luck");
        fake.hold = true;
        if (cases[i].requests == 0)
            fake.fail_next = no_luck;
        make(&r);
        for (size_t k = 1; k <= cases[i].requests; k++) {
            if (k == cases[i].requests)
                fake.fail_next = no_luck;
            fake_step();
        }
        fake_release();
        expect_undone(&r, ATOLL_ERR_UNAVAILABLE, cases[i].text);
    }
}

static void a_missing_program_is_refused(void **state ATOLL_UNUSED)
{
    struct result r = {0};

    fake.entry_type = ATOLL_ENTRY_DIRECTORY;
    make(&r);
    assert_string_equal(fake.path, "/home/user//sbin/jq");
    expect_undone(&r, ATOLL_ERR_FAILED_PRECONDITION, "apt install jq");
}

/* The template is built first; a second request waits for the same build. */
static void packages_become_a_template(void **state ATOLL_UNUSED)
{
    struct result r = {0}, other = {0};

    environment.packages = packages;
    make(&r);
    make(&other);
    assert_int_equal(fake.made, 0);
    assert_int_equal(fake_builds.started, 1);
    assert_string_equal(fake_builds.name, "env-Mine");
    assert_non_null(strstr(fake_builds.definition, "FROM host\nARG A=\"base\"\n"));
    assert_non_null(
        strstr(fake_builds.definition, "apt-get install -y --no-install-recommends 'jq'"));
    assert_int_equal(fake_builds.network, ATOLL_NETWORK_BRIDGE);
    fake_build_end(ATOLL_MAKE_READY);
    assert_int_equal(fake.made, 2);
    assert_string_equal(fake.sandboxes[0].template, "env-Mine");
    assert_string_not_equal(r.id, "");
    assert_string_not_equal(other.id, "");
    assert_int_equal(fake_builds.started, 1);
}

static void a_dockerfile_becomes_a_template(void **state ATOLL_UNUSED)
{
    struct result r = {0};

    environment.template_name = NULL;
    environment.dockerfile = "FROM debian\nRUN true\n";
    make(&r);
    assert_string_equal(fake_builds.definition,
                        "FROM debian\nRUN true\n# debian has the digest sha256-0\n");
    fake_build_end(ATOLL_MAKE_READY);
    assert_string_equal(fake.sandboxes[0].template, "env-Mine");
}

static void a_failed_build_says_why(void **state ATOLL_UNUSED)
{
    struct result r = {0};

    environment.packages = packages;
    make(&r);
    (void)atoll_fail(&fake_builds.error, ATOLL_ERR_FAILED_PRECONDITION, EIO, "line 4: it failed");
    fake_builds.log = "{\"kind\":\"output\",\"text\":\"no jq here\"}\n{\"kind\":\"end\"}\n";
    fake_build_end(ATOLL_MAKE_FAILED);
    assert_int_equal(r.error.kind, ATOLL_ERR_FAILED_PRECONDITION);
    assert_string_equal(r.error.text,
                        "the template of environment Mine could not be built: line 4: it failed");
    assert_non_null(strstr(r.error.hint, "no jq here"));
    assert_int_equal(fake.made, 0);
    make(&r); /* the next request tries again */
    assert_int_equal(fake_builds.started, 2);
    r.error.kind = ATOLL_ERR_NONE;
    fake_build_end(ATOLL_MAKE_READY);
    assert_int_equal(fake.made, 1);
}

/* A template or image of the request takes the place of the environment's. */
static void a_request_with_a_template_builds_nothing(void **state ATOLL_UNUSED)
{
    const struct atoll_environment_create create = {.environment = &environment,
                                                    .sandbox = {.template_name = "other"}};
    struct result r = {0};

    environment.packages = packages;
    atoll_environment_create(&fake, &create, ended, &r);
    assert_int_equal(fake_builds.started, 0);
    assert_string_equal(fake.sandboxes[0].template, "other");
}

static void destroyed(void *arg ATOLL_UNUSED, const struct atoll_error *error ATOLL_UNUSED)
{
}

static void a_client_may_destroy_it_meanwhile(void **state ATOLL_UNUSED)
{
    struct result r = {0};

    fake.hold = true;
    make(&r);
    fake_step(); /* it is made */
    fake_step(); /* it has the program, and is starting */
    atoll_engine_destroy(&fake, "box0", "a client", destroyed, NULL);
    fake_release();
    assert_string_equal(r.id, "");
    assert_int_equal(r.error.kind, ATOLL_ERR_ABORTED);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_request_is_completed_by_its_environment),
        TEST(an_empty_environment_adds_nothing),
        TEST(each_failure_destroys_the_sandbox),
        TEST(each_failure_of_the_engine_destroys_the_sandbox),
        TEST(a_missing_program_is_refused),
        TEST(packages_become_a_template),
        TEST(a_dockerfile_becomes_a_template),
        TEST(a_failed_build_says_why),
        TEST(a_request_with_a_template_builds_nothing),
        TEST(a_client_may_destroy_it_meanwhile),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
