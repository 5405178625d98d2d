/* The registry: what its files may say, where a refusal points, and what a reload does. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "base/log.h"
#include "registry/json_schema.h"
#include "registry/places.h"
#include "registry/registry_internal.h"
#include "sys/tree.h"
#include "test.h"

/* YAML against the tables: every refusal says where. */

static void expect_refused(enum atoll_registry_kind kind, const char *text, const char *expected)
{
    struct atoll_error err = {0};
    json_t *object = NULL;
    int r =
        atoll_yaml_load("f.yaml", text, strlen(text), atoll_registry_tables[kind], &object, &err);

    if (r == 0) {
        r = atoll_registry_check(kind, object, &err);
        json_decref(object);
    }
    if (r == 0)
        fail_msg("accepted: %s", text);
    assert_int_equal(err.kind, ATOLL_ERR_INVALID_ARGUMENT);
    if (!strstr(err.text, expected))
        fail_msg("\"%s\" is not in \"%s\"", expected, err.text);
}

#define REST "language: x\ninterpreters: {x: {run: [a, \"{file}\"], extension: e}}\n"

static void test_environment_refusals(void **state)
{
    static const struct {
        const char *text, *expected;
    } cases[] = {
        {"", "f.yaml:1:1: the file must hold a mapping"},
        {"- a\n", "f.yaml:1:1: the file must be a mapping"},
        {"template: host\nlanguage: x\n", "f.yaml:1:1: the field \"interpreters\" is missing"},
        {"template: host\n" REST "colour: red\n", "f.yaml:4:1: there is no field \"colour\"; known "
                                                  "are description"},
        {"template: a/b\n" REST, "f.yaml:1:11: template must be a name"},
        {"template:\n" REST, "f.yaml:1:1: template must be a name"},
        {"template: host\n" REST "limits:\n  memoryMB: much\n",
         "f.yaml:5:13: limits.memoryMB must be a number from 8 to 1048576 (got \"much\")"},
        {"template: host\n" REST "limits:\n  memoryMB: 1\n", "f.yaml:5:13: limits.memoryMB"},
        {"template: host\n" REST "limits:\n  pids: 5.5\n",
         "f.yaml:5:9: limits.pids must be a whole"},
        {"template: host\n" REST "limits:\n  speed: 5\n",
         "f.yaml:5:3: there is no field \"limits.speed\""},
        {"template: host\n" REST "limits: 5\n", "f.yaml:4:9: limits must be a mapping"},
        {"template: host\n" REST "env:\n  A: [1]\n", "f.yaml:5:3: env.A must be a text"},
        {"template: host\n" REST "env:\n  A=B: x\n", "f.yaml:5:3: env must be a mapping from"},
        {"template: host\n" REST "start: ls\n", "f.yaml:4:8: start must be a list of 1 to 64"},
        {"template: host\n" REST "start: []\n", "f.yaml:4:1: start must be a list of 1 to 64"},
        {"template: host\n" REST "requires:\n  - program: /bin/x\n    install: y\n",
         "f.yaml:5:14: requires[0].program must be the name of a program"},
        {"template: host\n" REST "requires:\n  - program: x\n", "the field \"install\" is missing"},
        {"template: host\ntemplate: host\n" REST, "f.yaml:2:1: duplicate key"},
        {"template: [host\n" REST, "f.yaml:"},
        {"template: &a host\nimage: *a\n" REST, "f.yaml:2:9: image must be written out"},
        {"template: !!str host\n" REST, "template must be without a tag"},
        {"template: host\n" REST "---\na: b\n", "one document only"},
        {"template: host\n" REST "description: \"a\xff\"\n",
         "f.yaml:4:16: the text is not valid UTF-8"},
        {"template: host\n" REST "description: a\x01\n",
         "f.yaml:4:15: the text is not valid UTF-8"},
        {"template: host\n" REST "description: \"a\\0\"\n",
         "f.yaml:4:15: description must be a text"},
        {REST, "one of \"template\", \"image\" and \"dockerfile\""},
        {"template: host\nimage: x\n" REST, "one of \"template\", \"image\" and \"dockerfile\""},
        {"image: x\ndockerfile: |\n  FROM a\n" REST, "one of \"template\", \"image\" and"},
        {"dockerfile: |\n  FROM a\n  RUNN b\n" REST,
         "dockerfile: line 2: unknown instruction RUNN; did you mean RUN?"},
        {"dockerfile: |\n  FROM a\npackages: {pip: [x]}\n" REST, "install \"packages\" in"},
        {"template: host\npackages: {brew: [x]}\n" REST, "there is no installer \"brew\""},
        {"template: host\npackages: {pip: [-x]}\n" REST, "\"-x\" is not the name of a package"},
        {"template: host\npackages: [x]\n" REST, "f.yaml:2:1: packages must be a mapping"},
        {"template: host\nlanguage: y\ninterpreters: {x: {run: [\"{file}\"], extension: e}}\n",
         "no entry for the language y"},
        {"template: host\nlanguage: x\ninterpreters: {x: {run: [a], extension: e}}\n",
         "no argument \"{file}\""},
    };

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(cases); i++)
        expect_refused(ATOLL_REGISTRY_ENVIRONMENT, cases[i].text, cases[i].expected);
}

static void test_agent_refusals(void **state)
{
    static const struct {
        const char *text, *expected;
    } cases[] = {
        {"environment: e\ninstall: get {package}\n", "stands for {package} in \"install\""},
        {"environment: e\ninstall: get\nversion: '1'\n", "stands for {version} in \"install\""},
        {"environment: e\ninstall: get ${version}\nversion: '1'\n", "stands for {version}"},
        {"environment: e\nversion: '1'\n", "stands for {version} in \"install\""},
        {"environment: e\ninstall: get {package}\npackage: a; b\n", "\"package\" may have letters"},
        {"environment: e\ninstall: get {package}\npackage: -a\n", "\"package\" may have letters"},
    };

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(cases); i++)
        expect_refused(ATOLL_REGISTRY_AGENT, cases[i].text, cases[i].expected);
}

static void test_deep_and_wide(void **state)
{
    char text[9000] = "description: d\ncommand: [x]\nparameters: ";
    size_t len = strlen(text);

    (void)state;
    memset(text + len, '[', 4000);
    memset(text + len + 4000, ']', 4000);
    text[len + 8000] = '\0';
    expect_refused(ATOLL_REGISTRY_TOOL, text, "f.yaml:3:");
}

static void test_types_by_table(void **state)
{
    static const char text[] =
        "description: 12\ncommand: [true, 'no', 3]\nparameters:\n  type: object\n  n: 3\n  f: 2.5\n"
        "  s: '3'\n  t: true\n  z: ~\n  l: [1, a]\n";
    struct atoll_error err;
    json_t *object, *p;

    (void)state;
    assert_int_equal(atoll_yaml_load("f", text, strlen(text),
                                     atoll_registry_tables[ATOLL_REGISTRY_TOOL], &object, &err),
                     0);
    assert_string_equal(json_string_value(json_object_get(object, "description")), "12");
    p = json_object_get(object, "command");
    assert_string_equal(json_string_value(json_array_get(p, 0)), "true");
    assert_string_equal(json_string_value(json_array_get(p, 2)), "3");
    p = json_object_get(object, "parameters");
    assert_int_equal(json_integer_value(json_object_get(p, "n")), 3);
    assert_true(json_is_real(json_object_get(p, "f")));
    assert_true(json_is_string(json_object_get(p, "s")));
    assert_true(json_is_true(json_object_get(p, "t")));
    assert_true(json_is_null(json_object_get(p, "z")));
    assert_int_equal(json_array_size(json_object_get(p, "l")), 2);
    json_decref(object);
}

#define TOOL "description: d\ncommand: [grep, \"{word}\"]\n"

static void test_tool_and_prompt_refusals(void **state)
{
    static const struct {
        enum atoll_registry_kind kind;
        const char *text, *expected;
    } cases[] = {
        {ATOLL_REGISTRY_TOOL, TOOL, "command has the place {word}, which is not declared"},
        {ATOLL_REGISTRY_TOOL, TOOL "parameters: {type: array}\n", "parameters.type must be object"},
        {ATOLL_REGISTRY_TOOL, TOOL "parameters: {properties: {word: {type: text}}}\n",
         "parameters.properties.word.type must be one of string"},
        {ATOLL_REGISTRY_TOOL, TOOL "parameters: {properties: {word: {pattern: a}}}\n",
         "has a keyword of JSON Schema that is not supported: pattern"},
        {ATOLL_REGISTRY_TOOL, TOOL "parameters: {properties: {word: {}, sandbox: {}}}\n",
         "may not have a property \"sandbox\""},
        {ATOLL_REGISTRY_TOOL,
         "description: d\ncommand: [\"{x}\"]\nparameters: {properties: {x: {}}}\n",
         "the first element of \"command\""},
        {ATOLL_REGISTRY_TOOL, "description: d\ncommand: [a]\nenv: {A: \"{x}\"}\n",
         "env has the place {x}"},
        {ATOLL_REGISTRY_TOOL, "description: d\ncommand: [a]\nstdin: \"{x}\"\n",
         "stdin has the place {x}"},
        {ATOLL_REGISTRY_PROMPT, "text: Hello {name}\n", "write {{name}} for that text"},
        {ATOLL_REGISTRY_PROMPT, "text: a\nvariables: {x: {required: true, default: b}}\n",
         "either \"required\" or has a \"default\": x"},
    };

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(cases); i++)
        expect_refused(cases[i].kind, cases[i].text, cases[i].expected);
}

/* What a schema says about a value; NULL: nothing. */
static void test_schemas(void **state)
{
    static const struct {
        const char *schema, *value, *expected;
    } cases[] = {
        {"{\"type\": \"string\"}", "\"x\"", NULL},
        {"{\"type\": \"string\"}", "1", "v must be a string"},
        {"{\"type\": [\"integer\", \"null\"]}", "1.5", "v must be a whole number or null"},
        {"{\"type\": \"integer\", \"minimum\": 3}", "2", "v must be at least 3"},
        {"{\"maxLength\": 2}", "\"\u00e4\u00f6\"", NULL},
        {"{\"maxLength\": 2}", "\"abc\"", "v must be at most 2 characters"},
        {"{\"minItems\": 1}", "[]", "v must be at least 1 elements"},
        {"{\"enum\": [\"a\", 2]}", "2", NULL},
        {"{\"enum\": [\"a\", 2]}", "3", "v must be one of [\"a\", 2]"},
        {"{\"const\": true}", "false", "v must be true"},
        {"{\"required\": [\"k\"]}", "{}", "v.k is missing"},
        {"{\"properties\": {\"k\": {}}, \"additionalProperties\": false}", "{\"x\": 1}",
         "v.x is not known"},
        {"{\"additionalProperties\": {\"type\": \"number\"}}", "{\"x\": \"1\"}",
         "v.x must be a number"},
        {"{\"items\": {\"items\": {\"type\": \"boolean\"}}}", "[[true], [1]]",
         "v[1][0] must be true or false"},
    };

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(cases); i++) {
        json_t *schema = json_loads(cases[i].schema, 0, NULL);
        json_t *value = json_loads(cases[i].value, JSON_DECODE_ANY, NULL);
        struct atoll_error err = {0};
        int r;

        assert_int_equal(atoll_json_schema_check(schema, "s", &err), 0);
        r = atoll_json_schema_apply(schema, value, "v", &err);
        if (cases[i].expected)
            assert_string_equal(err.text, cases[i].expected);
        else
            assert_int_equal(r, 0);
        json_decref(schema);
        json_decref(value);
    }
}

static void expect_filled(const char *text, const char *expected)
{
    json_t *values = json_pack("{s:s, s:i, s:s}", "a", "$(id) {n}", "n", 7, "empty", "");
    struct atoll_buf out;
    int r;

    atoll_buf_init(&out, 1000);
    r = atoll_places_fill(text, values, &out);
    if (expected) {
        assert_int_equal(r, 1);
        assert_string_equal(atoll_buf_str(&out), expected);
    } else {
        assert_int_equal(r, 0);
    }
    atoll_buf_done(&out);
    json_decref(values);
}

static void test_places(void **state)
{
    (void)state;
    expect_filled("x {a} y", "x $(id) {n} y"); /* a value is never looked at again */
    expect_filled("{n}{n}", "77");
    expect_filled("{{n}} {\"n\": 1} {} { n} ${n", "{n} {\"n\": 1} {} { n} ${n");
    expect_filled("[{empty}]", "[]");
    expect_filled("{missing}", NULL);
    expect_filled("{", "{");
    expect_filled("", "");
}

/* A directory of files, and what becomes of them. */

struct fixture {
    char dir[64];
    struct atoll_loop *loop;
    struct atoll_registry *registry;
};

static void put_file(const struct fixture *f, const char *name, const char *text)
{
    char path[200];
    FILE *file;

    (void)snprintf(path, sizeof(path), "%s/%s", f->dir, name);
    file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    struct atoll_error err;
    char path[100];

    (void)snprintf(f->dir, sizeof(f->dir), "/tmp/atoll-registry-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    (void)snprintf(path, sizeof(path), "%s/environments", f->dir);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(atoll_loop_new(&f->loop, &err), 0);
    assert_int_equal(atoll_registry_open(f->loop, f->dir, &f->registry, &err), 0);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    (void)atoll_registry_close(f->registry);
    (void)atoll_loop_free(f->loop);
    assert_int_equal(atoll_tree_remove(AT_FDCWD, f->dir), 0);
    free(f);
    return 0;
}

#define GOOD "template: host\n" REST

static void wait_for_generation(struct fixture *f, uint64_t generation)
{
    struct atoll_error err;

    for (int i = 0; i < 100 && atoll_registry_generation(f->registry) < generation; i++)
        assert_int_equal(atoll_loop_step(f->loop, 50, &err), 0);
    assert_true(atoll_registry_generation(f->registry) >= generation);
}

static void test_reload(void **state)
{
    struct fixture *f = *state;
    struct atoll_registry_problem problem;
    struct atoll_registry_item item;
    struct atoll_environment e;
    struct atoll_error err;
    uint64_t generation = atoll_registry_generation(f->registry);
    size_t pos = 0;

    /* A file that appears. */
    put_file(f, "environments/A.yaml", GOOD "limits: {memoryMB: 64}\n");
    put_file(f, "environments/notes.txt", "not ours");
    wait_for_generation(f, generation + 1);
    assert_int_equal(atoll_environment_find(f->registry, "A", &e, &err), 0);
    assert_int_equal(e.limits.memory_bytes, 64 << 20);
    assert_int_equal(atoll_registry_count(f->registry, ATOLL_REGISTRY_ENVIRONMENT), 1);
    assert_false(atoll_registry_next_problem(f->registry, &pos, &problem));

    /* One that breaks: what it said stays, and the problem is told. */
    generation = atoll_registry_generation(f->registry);
    put_file(f, "environments/A.yaml", GOOD "limits: {memoryMB: none}\n");
    wait_for_generation(f, generation + 1);
    assert_int_equal(atoll_environment_find(f->registry, "A", &e, &err), 0);
    assert_int_equal(e.limits.memory_bytes, 64 << 20);
    assert_true(atoll_registry_next_problem(f->registry, &pos, &problem));
    assert_true(problem.kept);
    assert_non_null(strstr(problem.text, "environments/A.yaml:4:20: limits.memoryMB"));

    /* One that is mended, and a folder that is new. */
    generation = atoll_registry_generation(f->registry);
    put_file(f, "environments/A.yaml", GOOD "limits: {memoryMB: 128}\n");
    wait_for_generation(f, generation + 1);
    pos = 0;
    assert_false(atoll_registry_next_problem(f->registry, &pos, &problem));
    assert_int_equal(atoll_environment_find(f->registry, "A", &e, &err), 0);
    assert_int_equal(e.limits.memory_bytes, 128 << 20);

    /* One that goes. */
    generation = atoll_registry_generation(f->registry);
    {
        char path[100];
        (void)snprintf(path, sizeof(path), "%s/environments/A.yaml", f->dir);
        assert_int_equal(unlink(path), 0);
        (void)snprintf(path, sizeof(path), "%s/prompts", f->dir);
        assert_int_equal(mkdir(path, 0700), 0);
    }
    wait_for_generation(f, generation + 1);
    assert_int_equal(atoll_environment_find(f->registry, "A", &e, &err), -ENOENT);
    assert_non_null(strstr(err.text, "there is no environment \"A\""));

    /* The new folder is watched too. */
    generation = atoll_registry_generation(f->registry);
    put_file(f, "prompts/p.yaml",
             "text: |\n  Hello {{name}}.\nvariables: {name: {required: true}}\n");
    wait_for_generation(f, generation + 1);
    assert_true(atoll_registry_find(f->registry, ATOLL_REGISTRY_PROMPT, "p", &item));
    assert_string_equal(json_string_value(json_object_get(item.object, "text")),
                        "Hello {{name}}.\n");
}

/* A Dockerfile beside the environment is loaded with it. */
static void test_dockerfile(void **state)
{
    struct fixture *f = *state;
    struct atoll_registry_problem problem;
    struct atoll_environment e;
    struct atoll_error err;
    size_t pos = 0;

    put_file(f, "environments/A.yaml", "dockerfile: A.Dockerfile\n" REST);
    put_file(f, "environments/A.Dockerfile", "FROM debian\nRUN true\n");
    put_file(f, "environments/B.yaml", "dockerfile: |\n  FROM alpine\n" REST);
    put_file(f, "environments/C.yaml", "dockerfile: missing\n" REST);
    put_file(f, "environments/D.yaml", "dockerfile: ../A.yaml\n" REST);
    atoll_registry_reload(f->registry);
    assert_int_equal(atoll_environment_find(f->registry, "A", &e, &err), 0);
    assert_string_equal(e.dockerfile, "FROM debian\nRUN true\n");
    assert_int_equal(atoll_environment_find(f->registry, "B", &e, &err), 0);
    assert_string_equal(e.dockerfile, "FROM alpine\n");
    assert_true(atoll_registry_next_problem(f->registry, &pos, &problem));
    assert_non_null(
        strstr(problem.text, "environments/C.yaml: dockerfile missing: cannot be read"));
    assert_true(atoll_registry_next_problem(f->registry, &pos, &problem));
    assert_non_null(strstr(problem.text, "environments/D.yaml:1:1: \"dockerfile\" must be"));
    put_file(f, "environments/A.Dockerfile", "FROM\n");
    atoll_registry_reload(f->registry);
    assert_int_equal(atoll_environment_find(f->registry, "A", &e, &err), 0);
    assert_string_equal(e.dockerfile, "FROM debian\nRUN true\n");
    pos = 0;
    assert_true(atoll_registry_next_problem(f->registry, &pos, &problem));
    assert_true(problem.kept);
    assert_non_null(strstr(problem.text, "dockerfile: line 1: FROM has the form"));
}

static void test_install_of_an_agent(void **state)
{
    struct fixture *f = *state;
    struct atoll_registry_item item;
    char path[100];

    (void)snprintf(path, sizeof(path), "%s/agents", f->dir);
    assert_int_equal(mkdir(path, 0700), 0);
    put_file(f, "agents/A.yaml",
             "environment: e\ninstall: get {package}@{version} {version} ${version}\n"
             "package: '@a/b'\nversion: '1.2'\n");
    atoll_registry_reload(f->registry);
    assert_true(atoll_registry_find(f->registry, ATOLL_REGISTRY_AGENT, "A", &item));
    assert_string_equal(json_string_value(json_object_get(item.object, "install")),
                        "get @a/b@1.2 1.2 ${version}");
}

static void test_bad_files(void **state)
{
    struct fixture *f = *state;
    struct atoll_registry_problem problem;
    static char large[ATOLL_REGISTRY_FILE_MAX + 100];
    char path[100];
    size_t pos = 0, found = 0;

    memset(large, '#', sizeof(large) - 1);
    put_file(f, "environments/large.yaml", large);
    put_file(f, "environments/a b.yaml", GOOD);
    put_file(f, "environments/good.yaml", GOOD);
    (void)snprintf(path, sizeof(path), "%s/environments/fifo.yaml", f->dir);
    assert_int_equal(mkfifo(path, 0600), 0);
    (void)snprintf(path, sizeof(path), "%s/environments/dir.yaml", f->dir);
    assert_int_equal(mkdir(path, 0700), 0);
    atoll_registry_reload(f->registry);
    while (atoll_registry_next_problem(f->registry, &pos, &problem)) {
        assert_false(problem.kept);
        found += strstr(problem.text, "large.yaml: is larger than 64 KiB") != NULL;
        found += strstr(problem.text, "a b.yaml: a file's name must be") != NULL;
        found += strstr(problem.text, "fifo.yaml: not a regular file") != NULL;
        found += strstr(problem.text, "dir.yaml: not a regular file") != NULL;
    }
    assert_int_equal(pos, 4);
    assert_int_equal(found, 4);
    assert_int_equal(atoll_registry_count(f->registry, ATOLL_REGISTRY_ENVIRONMENT), 1);
}

static void test_missing_directory(void **state)
{
    struct atoll_registry *registry;
    struct atoll_loop *loop;
    struct atoll_error err;

    (void)state;
    assert_int_equal(atoll_loop_new(&loop, &err), 0);
    assert_true(atoll_registry_open(loop, "/nonexistent", &registry, &err) < 0);
    assert_int_equal(err.kind, ATOLL_ERR_INVALID_ARGUMENT);
    assert_int_equal(atoll_registry_open(loop, NULL, &registry, &err), 0);
    assert_int_equal(atoll_registry_count(registry, ATOLL_REGISTRY_ENVIRONMENT), 0);
    (void)atoll_registry_close(registry);
    (void)atoll_loop_free(loop);
}

/* What we ship has to pass. */
static void test_shipped(void **state)
{
    static const char *const names[] = {"Python3", "Node", "Bash"};
    const char *source = getenv("ATOLL_SOURCE_DIR");
    struct atoll_registry_problem problem;
    struct atoll_registry *registry;
    struct atoll_interpreter in;
    struct atoll_environment e;
    struct atoll_loop *loop;
    struct atoll_error err;
    char path[4096];
    size_t pos = 0;

    (void)state;
    (void)snprintf(path, sizeof(path), "%s/registry", source ? source : ".");
    assert_int_equal(atoll_loop_new(&loop, &err), 0);
    assert_int_equal(atoll_registry_open(loop, path, &registry, &err), 0);
    assert_false(atoll_registry_next_problem(registry, &pos, &problem));
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(names); i++) {
        assert_int_equal(atoll_environment_find(registry, names[i], &e, &err), 0);
        assert_int_equal(atoll_environment_interpreter(registry, &e, NULL, &in, &err), 0);
        assert_string_equal(in.language, e.language);
        assert_int_equal(atoll_environment_interpreter(registry, &e, "cobol", &in, &err), -EINVAL);
        assert_non_null(strstr(err.text, "bash"));
    }
    (void)atoll_registry_close(registry);
    (void)atoll_loop_free(loop);
}

static void test_aliases(void **state)
{
    struct fixture *f = *state;
    struct atoll_registry_problem problem;
    struct atoll_environment e;
    struct atoll_error err;
    size_t pos = 0;

    put_file(f, "environments/A.yaml", "aliases: [first, B]\n" GOOD);
    put_file(f, "environments/B.yaml", "aliases: [first, Second]\nfallback: host\n" GOOD);
    put_file(f, "environments/C.yaml", "aliases: [\"no name\"]\n" GOOD);
    put_file(f, "environments/D.yaml", "image: x\nfallback: host\n" REST);
    atoll_registry_reload(f->registry);
    assert_int_equal(atoll_environment_find(f->registry, "FIRST", &e, &err), 0);
    assert_string_equal(e.name, "A");
    assert_null(e.fallback);
    assert_int_equal(atoll_environment_find(f->registry, "second", &e, &err), 0);
    assert_string_equal(e.name, "B");
    assert_string_equal(e.fallback, "host");
    assert_int_equal(json_array_size(e.aliases), 2);
    /* A name comes before an alias. */
    assert_int_equal(atoll_environment_find(f->registry, "B", &e, &err), 0);
    assert_string_equal(e.name, "B");
    assert_int_equal(atoll_environment_find(f->registry, "third", &e, &err), -ENOENT);
    assert_true(atoll_registry_next_problem(f->registry, &pos, &problem));
    assert_non_null(strstr(problem.text, "environments/C.yaml:1:1: \"aliases\" must be names"));
    assert_true(atoll_registry_next_problem(f->registry, &pos, &problem));
    assert_non_null(strstr(problem.text, "environments/D.yaml:1:1: \"fallback\""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_environment_refusals),
        cmocka_unit_test(test_agent_refusals),
        cmocka_unit_test(test_tool_and_prompt_refusals),
        cmocka_unit_test(test_schemas),
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_deep_and_wide),
        cmocka_unit_test(test_types_by_table),
        cmocka_unit_test_setup_teardown(test_reload, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_dockerfile, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_install_of_an_agent, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_bad_files, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_aliases, set_up, tear_down),
        cmocka_unit_test(test_missing_directory),
        cmocka_unit_test(test_shipped),
    };

    atoll_log_set_level(ATOLL_LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
