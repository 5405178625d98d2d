/* Variables of builds, stages, and what steps do to the config of an image. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include "image/config_apply.h"
#include "image/dockerfile.h"
#include "image/lex.h"
#include "image/scope.h"
#include "test.h"

static const char *get(void *arg, const char *name)
{
    static const struct atoll_recipe_pair all[] = {
        {"PWD", "/home"}, {"SHELL", "bash"},      {"EMPTY", ""}, {"WORDS", "abc  def"},
        {"SIDES", " a "}, {"P", "foo/bar/baz.c"}, {"U", "año"},  {"STARS", "a*b*c"},
    };

    (void)arg;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(all); i++)
        if (strcmp(all[i].name, name) == 0)
            return all[i].value;
    return NULL;
}

static void test_text(void **state)
{
    static const struct {
        const char *text, *expected; /* NULL: an error */
    } rows[] = {
        {"hello", "hello"},
        {"he'll'o", "hello"},
        {"he'llo", NULL},
        {"he\\'llo", "he'llo"},
        {"he\\\\'llo", NULL},
        {"abc\\tdef", "abctdef"},
        {"\"abc\\tdef\"", "abc\\tdef"},
        {"\"abc\\\\tdef\"", "abc\\tdef"},
        {"'abc\\tdef'", "abc\\tdef"},
        {"hello\\", "hello"},
        {"hello\\\\", "hello\\"},
        {"\"hello\\\"", NULL},
        {"'hello\\'", "hello\\"},
        {"\"''\"", "''"},
        {"$.", "$."},
        {"he$1x", "hex"},
        {"he$.x", "he$.x"},
        {"he$pwd.", "he."},
        {"he$PWD", "he/home"},
        {"he\\$PWD", "he$PWD"},
        {"he\\\\$PWD", "he\\/home"},
        {"\"he\\$PWD\"", "he$PWD"},
        {"\\${}", "${}"},
        {"${}", NULL},
        {"he${hi}xx", "hexx"},
        {"he${PWD}", "he/home"},
        {"he${.}", NULL},
        {"he${PWD", NULL},
        {"${", NULL},
        {"${XXX:-000}x", "000x"},
        {"${PWD:-000}x", "/homex"},
        {"${EMPTY:-000}x", "000x"},
        {"${EMPTY-000}x", "x"},
        {"${XXX-000}x", "000x"},
        {"${XXX:-$PWD}x", "/homex"},
        {"${XXX:-${YYY:-yyy}}x", "yyyx"},
        {"${XXX:YYY}", NULL},
        {"${XXX:=YYY}", NULL},
        {"${PWD:?}", "/home"},
        {"${EMPTY:?}", NULL},
        {"${EMPTY?}", ""},
        {"${XXX?gone}", NULL},
        {"${XXX:+${PWD}}x", "x"},
        {"${PWD:+${SHELL}}x", "bashx"},
        {"${EMPTY:+a}x", "x"},
        {"${EMPTY+a}x", "ax"},
        {"'he${XX}'", "he${XX}"},
        {"\"he'$PWD'\"", "he'/home'"},
        {"${XXX:-\\${PWD}z}x", "${PWDz}x"},
        {"${aaa:-bbb {foo}", "bbb {foo"},
        {"${aaa}}", "}"},
        {"${:-b}", NULL},
        {"$$", ""},
        {"$@@", "@"},
        {"${P#foo}", "/bar/baz.c"},
        {"${P#*/}", "bar/baz.c"},
        {"${P##*/}", "baz.c"},
        {"${P%/*}", "foo/bar"},
        {"${P%%/*}", "foo"},
        {"${P%.c}", "foo/bar/baz"},
        {"${P#x}", "foo/bar/baz.c"},
        {"${P%?}", "foo/bar/baz."},
        {"${U#a?}", "o"},
        {"${U%?}", "añ"},
        {"${STARS#a\\*}", "b*c"},
        {"${STARS%\\*c}", "a*b"},
        {"${P#\\q}", NULL},
        {"${P:#foo}", NULL},
        {"${P/o/0}", "f0o/bar/baz.c"},
        {"${P//o/0}", "f00/bar/baz.c"},
        {"${P/\\//-}", "foo-bar/baz.c"},
        {"${P//\\//-}", "foo-bar-baz.c"},
        {"${P//ba?/X}", "foo/X/X.c"},
        {"${P/b*z/X}", "foo/X.c"},
        {"${P/o}", NULL},
        {"${P/o/${SHELL}}", "fbasho/bar/baz.c"},
        {"${XXX/a/b}", ""},
    };
    const struct atoll_lex lex = {.escape = '\\', .get = get};

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(rows); i++) {
        struct atoll_recipe_memory m = {0};
        struct atoll_error err = {0};
        const char *text = NULL;
        int r = atoll_lex_text(&lex, &m, rows[i].text, &text, &err);
        if ((r == 0) != (rows[i].expected != NULL) || (r == 0 && strcmp(text, rows[i].expected)))
            fail_msg("%s: %s, not %s", rows[i].text, r == 0 ? text : err.text, rows[i].expected);
        atoll_recipe_memory_done(&m);
    }
}

static void test_words(void **state)
{
    static const struct {
        const char *text, *expected; /* words with "," between them */
    } rows[] = {
        {"hello", "hello"},
        {"hello there  ", "hello,there"},
        {"hello\\ there", "hello there"},
        {"x${WORDS}y", "xabc,defy"},
        {"x\"${WORDS}\"y", "xabc  defy"},
        {"x${SIDES}y", "x,a,y"},
        {"hello\\\" there", "hello\",there"},
        {"a '' b", "a,b"},
        {"${EMPTY}", ""},
    };
    const struct atoll_lex lex = {.escape = '\\', .get = get};

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(rows); i++) {
        struct atoll_recipe_memory m = {0};
        struct atoll_error err = {0};
        const char **words = NULL;
        char all[256] = "";
        size_t count = 0;
        assert_int_equal(atoll_lex_words(&lex, &m, rows[i].text, &words, &count, &err), 0);
        for (size_t k = 0; k < count; k++) {
            (void)strcat(all, k ? "," : "");
            (void)strcat(all, words[k]);
        }
        assert_string_equal(all, rows[i].expected);
        atoll_recipe_memory_done(&m);
    }
}

/* Time and memory are bounded, whatever the text is. */
static void test_bounds(void **state)
{
    const struct atoll_lex lex = {.escape = '\\', .get = get};
    struct atoll_recipe_memory m = {0};
    struct atoll_error err = {0};
    char deep[4 * 40 + 1] = "";
    const char *text;

    (void)state;
    for (int i = 0; i < 40; i++)
        (void)strcat(deep, "${A-");
    assert_true(atoll_lex_text(&lex, &m, deep, &text, &err) < 0);
    assert_string_equal(err.text, "too many \"${\" inside one another");
    atoll_recipe_memory_done(&m);
}

struct world {
    struct atoll_recipe *recipe;
    struct atoll_recipe_inputs inputs;
    struct atoll_recipe_scope *scope;
    struct atoll_error err;
};

static void open_world(struct world *w, const char *text)
{
    assert_int_equal(atoll_dockerfile_parse(text, strlen(text), &w->recipe, &w->err), 0);
    w->inputs.platform = "linux/arm64/v8";
    w->scope = atoll_recipe_scope_new(w->recipe, &w->inputs);
    assert_non_null(w->scope);
}

static void close_world(struct world *w)
{
    atoll_recipe_scope_free(w->scope);
    atoll_recipe_free(w->recipe);
}

/* Expands all steps of a stage but the last, which is returned expanded. */
static struct atoll_recipe_step walk(struct world *w, size_t stage)
{
    struct atoll_recipe_step step = {0};

    for (size_t i = 0; i < w->recipe->stages[stage].step_count; i++)
        if (atoll_recipe_scope_expand(w->scope, w->recipe->stages[stage].steps[i], &step, &w->err) <
            0)
            fail_msg("%s", w->err.text);
    return step;
}

static void test_scope(void **state)
{
    static const struct atoll_recipe_pair args[] = {{"A", "given"}, {"HTTP_PROXY", "p"}};
    struct world w = {.inputs = {.args = args, .arg_count = 2}};
    struct atoll_recipe_variable v;
    struct atoll_recipe_step step;
    size_t pos = 0;

    (void)state;
    open_world(&w, "ARG G=1\nARG H=${G}2\nFROM x\n"
                   "ARG A=default\nARG B=b$A C=$B\nARG G\nARG H\nARG UNSET\nARG TARGETARCH\n"
                   "ENV A=env D=$A\nENV E=$A\n"
                   "LABEL l=\"$A-$B-$C-$D-$E-$G-$H-${UNSET-none}-$TARGETARCH-$TARGETOS\"\n");
    step = walk(&w, 0);
    assert_string_equal(step.pairs[0].value, "env-bgiven-bgiven-given-env-1-12-none-arm64-");
    assert_string_equal(atoll_recipe_scope_get(w.scope, "HTTP_PROXY"), "p");
    assert_true(atoll_recipe_scope_next(w.scope, &pos, &v));
    assert_string_equal(v.name, "A");
    assert_string_equal(v.value, "env");
    assert_true(v.env);
    while (strcmp(v.name, "HTTP_PROXY") != 0)
        assert_true(atoll_recipe_scope_next(w.scope, &pos, &v));
    assert_true(v.predefined && !v.env);
    close_world(&w);
}

/* What is expanded, by kind of instruction. */
static void test_kinds(void **state)
{
    static const struct {
        const char *text, *expected; /* JSON with ' for " */
    } rows[] = {
        {"RUN $X", "{'args':['$X'],'kind':'RUN'}"},
        {"RUN --mount=type=cache,id=$X,target=/$X,uid=$N a",
         "{'args':['a'],'flags':{'mounts':[{'id':'v w','target':'/v w','type':'cache','uid':7}]},"
         "'kind':'RUN'}"},
        {"CMD [\"$X\"]", "{'args':['$X'],'json':true,'kind':'CMD'}"},
        {"ENTRYPOINT $X", "{'args':['$X'],'kind':'ENTRYPOINT'}"},
        {"HEALTHCHECK CMD $X", "{'args':['$X'],'kind':'HEALTHCHECK'}"},
        {"SHELL [\"$X\"]", "{'args':['$X'],'json':true,'kind':'SHELL'}"},
        {"ONBUILD RUN $X", "{'args':['RUN $X'],'kind':'ONBUILD'}"},
        {"MAINTAINER $X", "{'args':['$X'],'kind':'MAINTAINER'}"},
        {"COPY --chown=$N:$N --chmod=$N a$N b /$X/",
         "{'args':['a7','b'],'dest':'/v w/','flags':{'chmod':'7','chown':'7:7'},'kind':"
         "'COPY'}"},
        {"COPY [\"$X\", \"b c\"]", "{'args':['v w'],'dest':'b c','json':true,'kind':'COPY'}"},
        {"COPY <<A <<'B' /\n$N 'q' \\$N\nA\n$N\nB",
         "{'dest':'/','heredocs':[{'expand':true,'name':'A','text':'7 'q' $N\\n'},{'name':'B',"
         "'text':'$N\\n'}],'kind':'COPY'}"},
        {"ADD --checksum=$N a b",
         "{'args':['a'],'dest':'b','flags':{'checksum':'7'},'kind':'ADD'}"},
        {"ENV $N='$X' y=$X",
         "{'kind':'ENV','pairs':[{'name':'7','value':'$X'},{'name':'y','value':'v w'}]}"},
        {"EXPOSE $X", "{'args':['v','w'],'kind':'EXPOSE'}"},
        {"VOLUME $X /b", "{'args':['v w','/b'],'kind':'VOLUME'}"},
        {"WORKDIR /a/$X", "{'args':['/a/v w'],'kind':'WORKDIR'}"},
        {"USER $N:${N}", "{'args':['7:7'],'kind':'USER'}"},
        {"STOPSIGNAL $N", "{'args':['7'],'kind':'STOPSIGNAL'}"},
        {"LABEL a.$N=\"$X\"", "{'kind':'LABEL','pairs':[{'name':'a.7','value':'v w'}]}"},
    };

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(rows); i++) {
        struct world w = {0};
        struct atoll_recipe_step step;
        char text[512], *json;
        json_t *object;
        (void)snprintf(text, sizeof(text), "FROM x\nENV X=\"v w\"\nARG N=7\n%s\n", rows[i].text);
        open_world(&w, text);
        step = walk(&w, 0);
        object = atoll_recipe_step_to_json(&step, true);
        json = json_dumps(object, JSON_COMPACT | JSON_SORT_KEYS);
        for (char *p = json; *p; p++)
            *p = *p == '"' ? '\'' : *p;
        assert_string_equal(json, rows[i].expected);
        free(json);
        json_decref(object);
        close_world(&w);
    }
}

static void test_expand_errors(void **state)
{
    static const struct {
        const char *text, *error;
    } rows[] = {
        {"WORKDIR ${X:?set X}", "line 2: X: set X"},
        {"WORKDIR '", "line 2: missing the second single quote"},
        {"ENV ${X}=1", "line 2: ENV has a blank name"},
        {"RUN --mount=type=cache,target=/x,uid=$U a", "line 2: --mount: uid=: it must be a number"},
        {"RUN --mount=type=secret,id=$U a", "line 2: --mount: a secret needs an id or a target"},
    };

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(rows); i++) {
        struct world w = {0};
        struct atoll_recipe_step step;
        char text[256];
        (void)snprintf(text, sizeof(text), "FROM x\n%s\n", rows[i].text);
        open_world(&w, text);
        assert_true(
            atoll_recipe_scope_expand(w.scope, w.recipe->stages[0].steps[0], &step, &w.err) < 0);
        assert_string_equal(w.err.text, rows[i].error);
        close_world(&w);
    }
}

/* Doubling a variable ends with an error, not with all memory. */
static void test_growth(void **state)
{
    struct world w = {0};
    struct atoll_recipe_step step;
    int r = 0;

    (void)state;
    open_world(&w, "FROM x\nENV A=$A$A$A$A\n");
    assert_int_equal(atoll_recipe_scope_set_env(w.scope, "A", "0123456789abcdef", &w.err), 0);
    for (int i = 0; r == 0 && i < 100; i++)
        r = atoll_recipe_scope_expand(w.scope, w.recipe->stages[0].steps[0], &step, &w.err);
    assert_true(r < 0);
    assert_int_equal(w.err.kind, ATOLL_ERR_RESOURCE_EXHAUSTED);
    close_world(&w);
}

static void test_child(void **state)
{
    struct world w = {0};
    struct atoll_recipe_scope *child;

    (void)state;
    open_world(&w, "ARG G=g\nFROM x AS a\nARG A=1\nENV E=2\nFROM a\nARG G\nLABEL l=$A$E$G\n");
    (void)walk(&w, 0);
    child = atoll_recipe_scope_child(w.scope);
    atoll_recipe_scope_free(w.scope);
    w.scope = child;
    assert_string_equal(walk(&w, 1).pairs[0].value, "12g");
    close_world(&w);
}

static void plan(const char *text, const char *target, struct atoll_recipe **ret_recipe,
                 struct atoll_recipe_plan **ret)
{
    static const struct atoll_recipe_pair args[] = {{"V", "9"}};
    const struct atoll_recipe_inputs inputs = {args, 1, target, "linux/amd64"};
    struct atoll_error err = {0};

    assert_int_equal(atoll_dockerfile_parse(text, strlen(text), ret_recipe, &err), 0);
    if (atoll_recipe_plan(*ret_recipe, &inputs, ret, &err) < 0)
        fail_msg("%s", err.text);
}

static const char graph[] =
    "ARG V=1\nARG P=linux/$V\n"
    "FROM a:$V AS one\n"
    "FROM --platform=$P one AS two\nRUN x\n"
    "FROM scratch AS three\nCOPY --from=TWO / /\nCOPY --from=0 / /\n"
    "FROM b AS four\nRUN --mount=from=c:1,target=/x a\nCOPY --from=c:1 / /\n"
    "FROM three\nCOPY a b\n";

static void test_plan(void **state)
{
    struct atoll_recipe *r;
    struct atoll_recipe_plan *p;

    (void)state;
    plan(graph, NULL, &r, &p);
    assert_int_equal(p->target, 4);
    assert_true(p->stages[0].needed && p->stages[1].needed && p->stages[2].needed);
    assert_false(p->stages[3].needed);
    assert_int_equal(p->stages[0].base.kind, ATOLL_RECIPE_FROM_IMAGE);
    assert_string_equal(p->stages[0].base.image, "a:9");
    assert_int_equal(p->stages[1].base.kind, ATOLL_RECIPE_FROM_STAGE);
    assert_string_equal(p->stages[1].platform, "linux/9");
    assert_int_equal(p->stages[2].base.kind, ATOLL_RECIPE_FROM_SCRATCH);
    assert_int_equal(p->stages[2].need_count, 2);
    assert_int_equal(p->stages[2].needs[0], 0);
    assert_int_equal(p->stages[2].needs[1], 1);
    assert_int_equal(p->stages[3].image_count, 1);
    assert_string_equal(p->stages[3].images[0], "c:1");
    atoll_recipe_plan_free(p);
    atoll_recipe_free(r);

    plan(graph, "FOUR", &r, &p);
    assert_int_equal(p->target, 3);
    assert_false(p->stages[0].needed || p->stages[4].needed);
    atoll_recipe_plan_free(p);
    atoll_recipe_free(r);

    plan(graph, "1", &r, &p);
    assert_int_equal(p->target, 1);
    atoll_recipe_plan_free(p);
    atoll_recipe_free(r);
}

static void test_plan_errors(void **state)
{
    static const struct {
        const char *text, *target, *error;
    } rows[] = {
        {"FROM $X", NULL, "line 1: the base \"$X\" is empty"},
        {"FROM --platform=$X a", NULL, "line 1: the platform \"$X\" is empty"},
        {"ARG A=${X:?no}\nFROM a", NULL, "line 1: X: no"},
        {"FROM a AS b\nCOPY --from=b x y", NULL, "line 2: the stage \"b\" uses itself"},
        {"FROM a\nCOPY --from=0 x y", NULL, "line 2: the stage \"0\" uses itself"},
        {"FROM a\nCOPY --from=c x y\nFROM b AS c", NULL, "line 2: the stage \"c\" comes later"},
        {"FROM a\nRUN --mount=from=1,target=/x y\nFROM b", NULL, "line 2: the stage \"1\" comes"},
        {"FROM a\nCOPY --from=7 x y", NULL, "line 2: there is no stage 7"},
        {"FROM a\nCOPY --from=$X x y", NULL, "line 2: --from cannot have a variable"},
        {"FROM a", "x", "the Dockerfile has no stage \"x\" to build"},
    };

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(rows); i++) {
        const struct atoll_recipe_inputs inputs = {.target = rows[i].target};
        struct atoll_recipe *r;
        struct atoll_recipe_plan *p;
        struct atoll_error err = {0};
        assert_int_equal(atoll_dockerfile_parse(rows[i].text, strlen(rows[i].text), &r, &err), 0);
        assert_true(atoll_recipe_plan(r, &inputs, &p, &err) < 0);
        if (strncmp(err.text, rows[i].error, strlen(rows[i].error)) != 0)
            fail_msg("%s: %s", rows[i].text, err.text);
        atoll_recipe_free(r);
    }
}

static void test_config(void **state)
{
    static const struct {
        const char *before, *text, *after, *error;
    } rows[] = {
        {"{}", "ENV a=1 b=2\nENV a=3", "{'Env':['a=3','b=2']}", NULL},
        {"{'Env':['PATH=/bin']}", "ENV PATH=/x:$PATH", "{'Env':['PATH=/x:/bin']}", NULL},
        {"{}", "LABEL a=1 b=\"x y\"", "{'Labels':{'a':'1','b':'x y'}}", NULL},
        {"{}", "EXPOSE 80 53/UDP 7000-7001",
         "{'ExposedPorts':{'53/udp':{},'7000/tcp':{},'7001/tcp':{},'80/tcp':{}}}", NULL},
        {"{}", "EXPOSE 127.0.0.1:80:8080/sctp", "{'ExposedPorts':{'8080/sctp':{}}}", NULL},
        {"{}", "EXPOSE x", NULL, "line 2: EXPOSE x: a port is"},
        {"{}", "EXPOSE 70000", NULL, "line 2: EXPOSE 70000: a port is"},
        {"{}", "EXPOSE 9-8", NULL, "line 2: EXPOSE 9-8: a port is"},
        {"{}", "EXPOSE 80/what", NULL, "line 2: EXPOSE 80/what: a port is"},
        {"{}", "EXPOSE 111111111-2", NULL, "line 2: EXPOSE 111111111-2: a port is"},
        {"{}", "VOLUME /a [b", "{'Volumes':{'/a':{},'[b':{}}}", NULL},
        {"{}", "WORKDIR a\nWORKDIR ../b/./c//d/", "{'WorkingDir':'/b/c/d'}", NULL},
        {"{'WorkingDir':'/x'}", "WORKDIR y", "{'WorkingDir':'/x/y'}", NULL},
        {"{'WorkingDir':'/x'}", "WORKDIR /", "{'WorkingDir':'/'}", NULL},
        {"{}", "WORKDIR $NO", NULL, "line 2: WORKDIR is empty"},
        {"{}", "USER 1000:1000", "{'User':'1000:1000'}", NULL},
        {"{}", "STOPSIGNAL SIGTERM", "{'StopSignal':'SIGTERM'}", NULL},
        {"{}", "STOPSIGNAL 9", "{'StopSignal':'9'}", NULL},
        {"{}", "STOPSIGNAL RTMIN+3", "{'StopSignal':'RTMIN+3'}", NULL},
        {"{}", "STOPSIGNAL SIGNOT", NULL, "line 2: STOPSIGNAL SIGNOT: not a signal"},
        {"{}", "CMD a b", "{'Cmd':['/bin/sh','-c','a b']}", NULL},
        {"{}", "CMD [\"a\"]", "{'Cmd':['a']}", NULL},
        {"{}", "SHELL [\"bash\",\"-c\"]\nCMD a", "{'Cmd':['bash','-c','a'],'Shell':['bash','-c']}",
         NULL},
        {"{'Cmd':['x']}", "ENTRYPOINT [\"e\"]", "{'Entrypoint':['e']}", NULL},
        {"{'Cmd':['x']}", "CMD [\"y\"]\nENTRYPOINT e",
         "{'Cmd':['y'],'Entrypoint':['/bin/sh','-c','e']}", NULL},
        {"{'Entrypoint':['x']}", "ENTRYPOINT []", "{'Entrypoint':[]}", NULL},
        {"{}", "HEALTHCHECK --interval=2s --start-period=1m CMD a b",
         "{'Healthcheck':{'Interval':2000000000,'StartPeriod':60000000000,'Test':['CMD-SHELL','a b']}}",
         NULL},
        {"{}", "HEALTHCHECK --retries=2 CMD [\"a\"]",
         "{'Healthcheck':{'Retries':2,'Test':['CMD','a']}}", NULL},
        {"{}", "HEALTHCHECK NONE", "{'Healthcheck':{'Test':['NONE']}}", NULL},
        {"{}", "ONBUILD RUN a\nONBUILD USER x", "{'OnBuild':['RUN a','USER x']}", NULL},
        {"{}", "RUN a\nCOPY a b\nARG x=1\nMAINTAINER m", "{}", NULL},
        {"{'Env':1,'Volumes':[]}", "ENV a=1\nVOLUME /x", "{'Env':['a=1'],'Volumes':{'/x':{}}}",
         NULL},
    };

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(rows); i++) {
        struct world w = {0};
        struct atoll_recipe_step step;
        char text[256], *dump;
        bool cmd_set = false;
        json_t *config;
        int r = 0;
        (void)snprintf(text, sizeof(text), "%s", rows[i].before);
        for (char *p = text; *p; p++)
            *p = *p == '\'' ? '"' : *p;
        config = json_loads(text, 0, NULL);
        assert_non_null(config);
        (void)snprintf(text, sizeof(text), "FROM x\n%s\n", rows[i].text);
        open_world(&w, text);
        assert_int_equal(atoll_recipe_scope_set_env(w.scope, "PATH", "/bin", &w.err), 0);
        for (size_t k = 0; r == 0 && k < w.recipe->stages[0].step_count; k++) {
            assert_int_equal(
                atoll_recipe_scope_expand(w.scope, w.recipe->stages[0].steps[k], &step, &w.err), 0);
            r = atoll_image_config_apply(config, &step, &cmd_set, &w.err);
        }
        if (rows[i].error) {
            assert_true(r < 0);
            assert_memory_equal(w.err.text, rows[i].error, strlen(rows[i].error));
        } else {
            dump = json_dumps(config, JSON_COMPACT | JSON_SORT_KEYS);
            for (char *p = dump; *p; p++)
                *p = *p == '"' ? '\'' : *p;
            assert_string_equal(dump, rows[i].after);
            free(dump);
        }
        json_decref(config);
        close_world(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text),   cmocka_unit_test(test_words),
        cmocka_unit_test(test_bounds), cmocka_unit_test(test_scope),
        cmocka_unit_test(test_kinds),  cmocka_unit_test(test_expand_errors),
        cmocka_unit_test(test_growth), cmocka_unit_test(test_child),
        cmocka_unit_test(test_plan),   cmocka_unit_test(test_plan_errors),
        cmocka_unit_test(test_config),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
