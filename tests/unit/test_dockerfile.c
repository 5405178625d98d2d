/* Dockerfiles to recipes: each row is a text and its steps in JSON, with ' for ", or an error. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include "image/dockerfile.h"
#include "image/lex.h"
#include "test.h"

#define BASE "FROM a\n"

static char *as_text(json_t *json)
{
    char *text = json_dumps(json, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY);

    assert_non_null(text);
    for (char *p = text; *p; p++)
        if (*p == '"')
            *p = '\'';
    json_decref(json);
    return text;
}

struct row {
    const char *text;
    const char *expected; /* of the first step of the first stage; or NULL */
    const char *error;    /* how the error text begins */
};

/* One instruction behind "FROM a", which is line 1. */
static const struct row rows[] = {
    /* RUN */
    {"RUN make", "{'args':['make'],'kind':'RUN'}", NULL},
    {"run make", "{'args':['make'],'kind':'RUN'}", NULL},
    {"  RUN\tmake  all  ", "{'args':['make  all'],'kind':'RUN'}", NULL},
    {"RUN [\"a\", \"b c\"]", "{'args':['a','b c'],'json':true,'kind':'RUN'}", NULL},
    {"RUN [\"a\", b]", "{'args':['[\\'a\\', b]'],'kind':'RUN'}", NULL},
    {"RUN [ -f /x ] && y", "{'args':['[ -f /x ] && y'],'kind':'RUN'}", NULL},
    {"RUN [\"a\", 1]", NULL, "line 2: a JSON array must have strings only"},
    {"RUN", NULL, "line 2: RUN requires a command"},
    {"RUN []", NULL, "line 2: RUN requires a command"},
    {"RUN a \\\n  b", "{'args':['a   b'],'kind':'RUN'}", NULL},
    {"RUN a\\\n# comment\n b", "{'args':['a b'],'kind':'RUN'}", NULL},
    {"RUN a \\\n\n  b", "{'args':['a   b'],'kind':'RUN'}", NULL},
    {"RUN a \\  \n b", "{'args':['a  b'],'kind':'RUN'}", NULL},
    {"RUN a \\\\\nUSER x", "{'args':['a \\\\\\\\'],'kind':'RUN'}", NULL},
    {"RUN a \\", "{'args':['a'],'kind':'RUN'}", NULL},
    {"RUN a\\\r\nb\r\n", "{'args':['ab'],'kind':'RUN'}", NULL},
    {"RUN echo $X ${Y:-z} 'q' \"r\"", "{'args':['echo $X ${Y:-z} 'q' \\'r\\''],'kind':'RUN'}",
     NULL},
    {"RUN --network=none make", "{'args':['make'],'flags':{'network':'none'},'kind':'RUN'}", NULL},
    {"RUN --network=all make", NULL, "line 2: the flag --network is default, none or host"},
    {"RUN --security=insecure a", "{'args':['a'],'flags':{'security':'insecure'},'kind':'RUN'}",
     NULL},
    {"RUN --security=no a", NULL, "line 2: the flag --security is sandbox or insecure"},
    {"RUN --wrong=1 a", NULL, "line 2: RUN has no flag --wrong"},
    {"RUN --network a", NULL, "line 2: the flag --network needs a value"},
    {"RUN --network=none --network=none a", NULL, "line 2: the flag --network is given twice"},
    {"RUN -- --network=none a", "{'args':['--network=none a'],'kind':'RUN'}", NULL},
    {"RUN --mount=type=cache,target=/c a",
     "{'args':['a'],'flags':{'mounts':[{'id':'/c','target':'/c','type':'cache'}]},'kind':'RUN'}",
     NULL},
    {"RUN --mount=type=cache,id=x,dst=/c,sharing=locked,uid=1,gid=2,mode=0700 a",
     "{'args':['a'],'flags':{'mounts':[{'gid':2,'id':'x','mode':448,'sharing':'locked','target':'/"
     "c','type':'cache','uid':1}]},'kind':'RUN'}",
     NULL},
    {"RUN --mount=target=/x,from=b,src=/s,rw a",
     "{'args':['a'],'flags':{'mounts':[{'from':'b','source':'/s','target':'/x','type':'bind'}]},"
     "'kind':'RUN'}",
     NULL},
    {"RUN --mount=target=/x a",
     "{'args':['a'],'flags':{'mounts':[{'readonly':true,'target':'/x','type':'bind'}]},'kind':"
     "'RUN'}",
     NULL},
    {"RUN --mount=type=secret,id=s a",
     "{'args':['a'],'flags':{'mounts':[{'id':'s','readonly':true,'target':'/run/secrets/s','type':"
     "'secret'}]},'kind':'RUN'}",
     NULL},
    {"RUN --mount=type=secret,id=s,env=S,required a",
     "{'args':['a'],'flags':{'mounts':[{'env':'S','id':'s','readonly':true,'required':true,'type':"
     "'secret'}]},'kind':'RUN'}",
     NULL},
    {"RUN --mount=type=secret,target=/a/key a",
     "{'args':['a'],'flags':{'mounts':[{'id':'key','readonly':true,'target':'/a/key','type':"
     "'secret'}]},'kind':'RUN'}",
     NULL},
    {"RUN --mount=type=tmpfs,target=/t,size=64m a",
     "{'args':['a'],'flags':{'mounts':[{'sizeBytes':67108864,'target':'/t','type':'tmpfs'}]},"
     "'kind':'RUN'}",
     NULL},
    {"RUN --mount=type=ssh a",
     "{'args':['a'],'flags':{'mounts':[{'id':'default','readonly':true,'type':'ssh'}]},'kind':"
     "'RUN'}",
     NULL},
    {"RUN --mount='type=bind,\"target=/a,b\"' a",
     "{'args':['a'],'flags':{'mounts':[{'readonly':true,'target':'/a,b','type':'bind'}]},'kind':"
     "'RUN'}",
     NULL},
    {"RUN --mount=from=b a",
     "{'args':['a'],'flags':{'mounts':[{'from':'b','readonly':true,'target':'.','type':'bind'}]},"
     "'kind':'RUN'}",
     NULL},
    {"RUN --mount=type=what,target=/x a", NULL, "line 2: --mount: type=what: it must be bind"},
    {"RUN --mount=type=secret a", NULL, "line 2: --mount: a secret needs an id"},
    {"RUN --mount=type=secret,id=a,src=b a", NULL, "line 2: --mount: a secret has an id or"},
    {"RUN --mount=target=/x,size=1 a", NULL, "line 2: --mount: only type tmpfs"},
    {"RUN --mount=target=/x,mode=7 a", NULL, "line 2: --mount: type bind has no mode"},
    {"RUN --mount=target=/x,sharing=shared a", NULL, "line 2: --mount: only type cache"},
    {"RUN --mount=target=/x,required a", NULL, "line 2: --mount: only types secret"},
    {"RUN --mount=target=/x,from=$A a", NULL, "line 2: --mount: from cannot have a variable"},
    {"RUN --mount=type=cache,target=/x,mode=9 a", NULL, "line 2: --mount: mode=9"},
    {"RUN --mount=type=cache,target=/x,uid=-1 a", NULL, "line 2: --mount: uid=-1"},
    {"RUN --mount=target=/x,what=1 a", NULL, "line 2: --mount has no key \"what\""},
    {"RUN --mount=target a", NULL, "line 2: --mount: target needs a value"},
    {"RUN --mount=type=cache,target=/x,uid=$U a",
     "{'args':['a'],'flags':{'mounts':[{'id':'/x','target':'/x','type':'cache'}]},'kind':'RUN'}",
     NULL},
    /* here-documents */
    {"RUN <<EOF\na\n  b\nEOF",
     "{'args':['<<EOF'],'heredocs':[{'expand':true,'name':'EOF','text':'a\\n  b\\n'}],'kind':'RUN'}",
     NULL},
    {"RUN <<-EOF\n\ta\n\t\tb\n\tEOF",
     "{'args':['<<-EOF'],'heredocs':[{'expand':true,'name':'EOF','text':'a\\nb\\n'}],'kind':'RUN'}",
     NULL},
    {"RUN <<'EOF'\n$a\nEOF",
     "{'args':['<<'EOF''],'heredocs':[{'name':'EOF','text':'$a\\n'}],'kind':'RUN'}", NULL},
    {"RUN cat <<A <<B > /x\n1\nA\n2\nB",
     "{'args':['cat <<A <<B > /x'],'heredocs':[{'expand':true,'name':'A','text':'1\\n'},{'expand':"
     "true,'name':'B','text':'2\\n'}],'kind':'RUN'}",
     NULL},
    {"RUN cat <<< word", "{'args':['cat <<< word'],'kind':'RUN'}", NULL},
    {"RUN echo \"<<EOF\"", "{'args':['echo \\'<<EOF\\''],'kind':'RUN'}", NULL},
    {"RUN <<EOF\na", NULL, "line 2: the here-document <<EOF has no line EOF"},
    {"RUN <<EOF\n# not a comment \\\nEOF",
     "{'args':['<<EOF'],'heredocs':[{'expand':true,'name':'EOF','text':'# not a comment "
     "\\\\\\n'}],'kind':'RUN'}",
     NULL},
    {"RUN python3 <<EOF\r\nx\r\nEOF\r\n",
     "{'args':['python3 <<EOF'],'heredocs':[{'expand':true,'name':'EOF','text':'x\\r\\n'}],'kind':"
     "'RUN'}",
     NULL},
    {"COPY <<f.txt <<\"g\" b /d/\none $X\nf.txt\ntwo\ng",
     "{'args':['b'],'dest':'/d/','heredocs':[{'expand':true,'name':'f.txt','text':'one "
     "$X\\n'},{'name':'g','text':'two\\n'}],'kind':'COPY'}",
     NULL},
    {"COPY a <<EOF\nx\nEOF", NULL, "line 2: COPY cannot have a here-document as destination"},
    {"COPY [\"<<EOF\", \"b\"]", "{'args':['<<EOF'],'dest':'b','json':true,'kind':'COPY'}", NULL},
    {"CMD cat <<EOF", "{'args':['cat <<EOF'],'kind':'CMD'}", NULL},
    /* COPY, ADD */
    {"COPY a b", "{'args':['a'],'dest':'b','kind':'COPY'}", NULL},
    {"COPY a b c/", "{'args':['a','b'],'dest':'c/','kind':'COPY'}", NULL},
    {"COPY [\"a b\", \"c d\"]", "{'args':['a b'],'dest':'c d','json':true,'kind':'COPY'}", NULL},
    {"COPY a", NULL, "line 2: COPY requires at least two arguments"},
    {"COPY", NULL, "line 2: COPY requires at least one argument"},
    {"COPY --from=build /x /y",
     "{'args':['/x'],'dest':'/y','flags':{'from':'build'},'kind':'COPY'}", NULL},
    {"COPY --chown=1:2 --chmod=755 --link --parents a b",
     "{'args':['a'],'dest':'b','flags':{'chmod':'755','chown':'1:2','link':true,'parents':true},"
     "'kind':'COPY'}",
     NULL},
    {"COPY --link=false a b", "{'args':['a'],'dest':'b','kind':'COPY'}", NULL},
    {"COPY --link=what a b", NULL, "line 2: the flag --link is true or false"},
    {"COPY --link= a b", NULL, "line 2: the flag --link needs a value"},
    {"COPY --exclude=*.o --exclude=x a b",
     "{'args':['a'],'dest':'b','flags':{'exclude':['*.o','x']},'kind':'COPY'}", NULL},
    {"COPY --checksum=x a b", NULL, "line 2: COPY has no flag --checksum"},
    {"ADD --checksum=sha256:0 --keep-git-dir=true --unpack=false https://h/f /x",
     "{'args':['https://h/f'],'dest':'/x','flags':{'checksum':'sha256:0','keepGitDir':true,"
     "'unpack':0},'kind':'ADD'}",
     NULL},
    {"ADD --unpack a b", "{'args':['a'],'dest':'b','flags':{'unpack':1},'kind':'ADD'}", NULL},
    {"ADD --from=x a b", NULL, "line 2: ADD has no flag --from"},
    /* ENV, LABEL, ARG */
    {"ENV a=b", "{'kind':'ENV','pairs':[{'name':'a','value':'b'}]}", NULL},
    {"ENV a=b c='d e' f=\"g\\\" h\" i=j\\ k",
     "{'kind':'ENV','pairs':[{'name':'a','value':'b'},{'name':'c','value':''d e''},{'name':'f',"
     "'value':'\\'g\\\\\\' h\\''},{'name':'i','value':'j\\\\ k'}]}",
     NULL},
    {"ENV a b c", "{'kind':'ENV','pairs':[{'name':'a','value':'b c'}]}", NULL},
    {"ENV a", NULL, "line 2: ENV requires a value"},
    {"ENV", NULL, "line 2: ENV requires at least one argument"},
    {"ENV a=b c", NULL, "line 2: ENV: \"c\" must have the form NAME=value"},
    {"ENV =b", NULL, "line 2: ENV has a blank name"},
    {"ENV a=", "{'kind':'ENV','pairs':[{'name':'a','value':''}]}", NULL},
    {"ENV a=b \\\n    c=d",
     "{'kind':'ENV','pairs':[{'name':'a','value':'b'},{'name':'c','value':'d'}]}", NULL},
    {"LABEL \"x.y\"=\"z\" k=v",
     "{'kind':'LABEL','pairs':[{'name':'\\'x.y\\'','value':'\\'z\\''},{'name':'k','value':'v'}]}",
     NULL},
    {"ARG a", "{'kind':'ARG','pairs':[{'name':'a'}]}", NULL},
    {"ARG a=1 b c=",
     "{'kind':'ARG','pairs':[{'name':'a','value':'1'},{'name':'b'},{'name':'c','value':''}]}",
     NULL},
    {"ARG", NULL, "line 2: ARG requires at least one argument"},
    {"ARG =1", NULL, "line 2: ARG has a blank name"},
    /* the others */
    {"WORKDIR /a b", "{'args':['/a b'],'kind':'WORKDIR'}", NULL},
    {"WORKDIR", NULL, "line 2: WORKDIR requires exactly one argument"},
    {"USER app:app", "{'args':['app:app'],'kind':'USER'}", NULL},
    {"USER", NULL, "line 2: USER requires exactly one argument"},
    {"STOPSIGNAL SIGQUIT", "{'args':['SIGQUIT'],'kind':'STOPSIGNAL'}", NULL},
    {"MAINTAINER A B <c@d>", "{'args':['A B <c@d>'],'kind':'MAINTAINER'}", NULL},
    {"EXPOSE 80 443/tcp", "{'args':['80','443/tcp'],'kind':'EXPOSE'}", NULL},
    {"EXPOSE", NULL, "line 2: EXPOSE requires at least one argument"},
    {"VOLUME /a /b", "{'args':['/a','/b'],'kind':'VOLUME'}", NULL},
    {"VOLUME [\"/a\", \"/b c\"]", "{'args':['/a','/b c'],'json':true,'kind':'VOLUME'}", NULL},
    {"VOLUME [\"\"]", NULL, "line 2: VOLUME has an empty path"},
    {"CMD [\"a\"]", "{'args':['a'],'json':true,'kind':'CMD'}", NULL},
    {"CMD a b", "{'args':['a b'],'kind':'CMD'}", NULL},
    {"CMD []", "{'json':true,'kind':'CMD'}", NULL},
    {"ENTRYPOINT [\"a\", \"-b\"]", "{'args':['a','-b'],'json':true,'kind':'ENTRYPOINT'}", NULL},
    {"ENTRYPOINT exec a", "{'args':['exec a'],'kind':'ENTRYPOINT'}", NULL},
    {"SHELL [\"/bin/bash\", \"-c\"]", "{'args':['/bin/bash','-c'],'json':true,'kind':'SHELL'}",
     NULL},
    {"SHELL /bin/bash", NULL, "line 2: SHELL requires a JSON array"},
    {"SHELL []", NULL, "line 2: SHELL requires a JSON array"},
    {"HEALTHCHECK NONE", "{'health':{'none':true},'kind':'HEALTHCHECK'}", NULL},
    {"HEALTHCHECK --interval=1m30s --timeout=1.5s --retries=3 CMD curl x",
     "{'args':['curl x'],'health':{'intervalNs':90000000000,'retries':3,'timeoutNs':1500000000},"
     "'kind':'HEALTHCHECK'}",
     NULL},
    {"HEALTHCHECK CMD [\"a\"]", "{'args':['a'],'json':true,'kind':'HEALTHCHECK'}", NULL},
    {"HEALTHCHECK --interval=1 CMD a", NULL, "line 2: the flag --interval is a duration"},
    {"HEALTHCHECK --interval=1us CMD a", NULL, "line 2: the flag --interval is a duration"},
    {"HEALTHCHECK --retries=-1 CMD a", NULL, "line 2: the flag --retries is a number"},
    {"HEALTHCHECK CMD", NULL, "line 2: HEALTHCHECK CMD requires a command"},
    {"HEALTHCHECK NONE x", NULL, "line 2: HEALTHCHECK NONE takes no arguments"},
    {"HEALTHCHECK curl", NULL, "line 2: HEALTHCHECK requires CMD"},
    {"ONBUILD RUN make", "{'args':['RUN make'],'kind':'ONBUILD'}", NULL},
    {"ONBUILD COPY <<EOF /x\na\nEOF", "{'args':['COPY <<EOF /x\\na\\nEOF'],'kind':'ONBUILD'}",
     NULL},
    {"ONBUILD", NULL, "line 2: ONBUILD requires an instruction"},
    {"ONBUILD ONBUILD RUN a", NULL, "line 2: ONBUILD is not allowed in ONBUILD"},
    {"ONBUILD FROM a", NULL, "line 2: FROM is not allowed in ONBUILD"},
    {"ONBUILD COPY a", NULL, "line 2: COPY requires at least two arguments"},
    {"ONBUILD FLY a", NULL, "line 2: unknown instruction FLY"},
    /* errors of the whole */
    {"COPPY a b", NULL, "line 2: unknown instruction COPPY; did you mean COPY?"},
    {"\n\n# x\nblah a b", NULL, "line 5: unknown instruction blah"},
    {"FROM", NULL, "line 2: FROM has the form"},
    {"FROM a b", NULL, "line 2: FROM has the form"},
    {"FROM a as 1b", NULL, "line 2: \"1b\" is not a name for a stage"},
    {"FROM --what=1 a", NULL, "line 2: FROM has no flag --what"},
    {"RUN a\xff", NULL, "line 2: a character that is not UTF-8"},
};

static void check_row(const struct row *row)
{
    char whole[2048];
    struct atoll_recipe *r = NULL;
    struct atoll_error err = {0};
    int failed;

    (void)snprintf(whole, sizeof(whole), BASE "%s", row->text);
    failed = atoll_dockerfile_parse(whole, strlen(whole), &r, &err);
    if (row->error) {
        if (failed == 0 || strncmp(err.text, row->error, strlen(row->error)) != 0)
            fail_msg("%s\n  error:    %s\n  expected: %s", row->text, err.text, row->error);
        assert_int_equal(err.kind, ATOLL_ERR_INVALID_ARGUMENT);
    } else if (failed < 0) {
        fail_msg("%s\n  %s", row->text, err.text);
    } else {
        char *text = as_text(atoll_recipe_step_to_json(r->stages[0].steps[0], true));
        if (strcmp(text, row->expected) != 0)
            fail_msg("%s\n  is:       %s\n  expected: %s", row->text, text, row->expected);
        free(text);
    }
    atoll_recipe_free(r);
}

static void test_steps(void **state)
{
    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(rows); i++)
        check_row(&rows[i]);
}

static struct atoll_recipe *parse(const char *text)
{
    struct atoll_recipe *r = NULL;
    struct atoll_error err = {0};

    if (atoll_dockerfile_parse(text, strlen(text), &r, &err) < 0)
        fail_msg("%s\n  %s", text, err.text);
    return r;
}

static void expect_error(const char *text, const char *expected)
{
    struct atoll_recipe *r = NULL;
    struct atoll_error err = {0};

    assert_true(atoll_dockerfile_parse(text, strlen(text), &r, &err) < 0);
    assert_string_equal(err.text, expected);
}

static void test_stages(void **state)
{
    struct atoll_recipe *r =
        parse("\xef\xbb\xbf# syntax = docker/dockerfile:1\n# Escape=`\nARG V=1\n"
              "FROM --platform=$BUILDPLATFORM a:$V AS Build\nRUN x `\n  y\nFROM scratch\n"
              "COPY --from=build /x /\n");

    (void)state;
    assert_string_equal(r->syntax, "docker/dockerfile:1");
    assert_int_equal(r->escape, '`');
    assert_int_equal(r->global_count, 1);
    assert_int_equal(r->globals[0]->line, 3);
    assert_int_equal(r->stage_count, 2);
    assert_string_equal(r->stages[0].name, "build");
    assert_string_equal(r->stages[0].base, "a:$V");
    assert_string_equal(r->stages[0].platform, "$BUILDPLATFORM");
    assert_int_equal(r->stages[0].line, 4);
    assert_int_equal(r->stages[0].steps[0]->line, 5);
    assert_int_equal(r->stages[0].steps[0]->last_line, 6);
    assert_string_equal(r->stages[0].steps[0]->text, "RUN x   y");
    assert_null(r->stages[1].name);
    assert_string_equal(r->stages[1].steps[0]->flags.from, "build");
    atoll_recipe_free(r);
}

static void test_whole_errors(void **state)
{
    (void)state;
    expect_error("", "line 1: the Dockerfile has no FROM");
    expect_error("# x\n\n", "line 2: the Dockerfile has no FROM");
    expect_error("RUN a\nFROM b", "line 1: RUN before the first FROM; only ARG may be there");
    expect_error("# escape=x\nFROM a", "line 1: the directive escape is either \\ or `");
    expect_error("# escape=`\n# escape=`\nFROM a", "line 2: the directive escape is given twice");
}

/* A directive behind a comment or an instruction is a comment. */
static void test_directive_place(void **state)
{
    struct atoll_recipe *r = parse("# hello\n# escape=`\nFROM a\nRUN a \\\n b\n");

    (void)state;
    assert_int_equal(r->escape, '\\');
    assert_string_equal(r->stages[0].steps[0]->args[0], "a  b");
    atoll_recipe_free(r);
}

/* What is stored is what was parsed. */
static void test_json(void **state)
{
    static const char text[] =
        "# syntax=x\n# escape=`\nARG A=1\nFROM a AS b\nRUN --mount=type=cache,target=/c,mode=0700 <<E\n"
        "x\nE\nHEALTHCHECK --interval=1s CMD y\nFROM --platform=linux/arm64 b\n"
        "COPY --from=b --exclude=x --chown=1 /a /b\nENV a=b c=d\nADD --unpack=false c d\n";
    struct atoll_recipe *r = parse(text), *again = NULL;
    struct atoll_error err = {0};
    json_t *json = atoll_recipe_to_json(r);
    char *first, *second;

    (void)state;
    if (atoll_recipe_from_json(json, &again, &err) < 0)
        fail_msg("%s", err.text);
    first = as_text(json);
    second = as_text(atoll_recipe_to_json(again));
    assert_string_equal(first, second);
    free(first);
    free(second);
    atoll_recipe_free(again);
    atoll_recipe_free(r);
}

static void test_bad_json(void **state)
{
    static const struct {
        const char *json, *error;
    } bad[] = {
        {"{}", "recipe: stages must be an array with at least one stage"},
        {"{'stages': [{}]}", "recipe: stage 1: base must be given"},
        {"{'stages': [{'base': 'a', 'text': '', 'steps': [{}]}]}",
         "recipe: stage 1, step 1: kind must be given"},
        {"{'stages': [{'base': 'a', 'text': '', 'steps': [{'kind': 'FLY'}]}]}",
         "recipe: stage 1, step 1: kind must be one of the known names"},
        {"{'stages': [{'base': 'a', 'text': '', 'steps': [{'kind': 'RUN', 'text': ''}]}]}",
         "recipe: stage 1, step 1:  must be an instruction with all its parts"},
        {"{'stages': [{'base': 'a', 'text': '', 'x': 1}]}",
         "recipe: stage 1:  must be an object with known members only"},
        {"{'globals': [{'kind': 'USER', 'text': '', 'args': ['x']}]}",
         "recipe: stage 0, step 1: globals must be ARG only"},
    };

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(bad); i++) {
        struct atoll_recipe *r = NULL;
        struct atoll_error err = {0};
        char text[512];
        json_t *json;
        (void)snprintf(text, sizeof(text), "%s", bad[i].json);
        for (char *p = text; *p; p++)
            if (*p == '\'')
                *p = '"';
        json = json_loads(text, 0, NULL);
        assert_non_null(json);
        assert_true(atoll_recipe_from_json(json, &r, &err) < 0);
        assert_string_equal(err.text, bad[i].error);
        json_decref(json);
    }
}

static void test_script(void **state)
{
    static const struct {
        const char *text, *script;
        bool file;
    } cases[] = {
        {"RUN a b", "a b", false},
        {"RUN <<EOF\na\nb\nEOF", "a\nb\n", false},
        {"RUN <<EOF\n#!/bin/x\nb\nEOF", "#!/bin/x\nb\n", true},
        {"RUN cat <<EOF >x\na\nEOF", "cat <<EOF >x\na\nEOF", false},
        {"RUN cat <<A <<B\n1\nA\n2\nB", "cat <<A <<B\n1\nA\n2\nB", false},
    };

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(cases); i++) {
        struct atoll_recipe_memory m = {0};
        struct atoll_recipe_step step;
        struct atoll_error err = {0};
        bool file;
        assert_int_equal(atoll_dockerfile_parse_step(&m, cases[i].text, strlen(cases[i].text), '\\',
                                                     &step, &err),
                         0);
        assert_string_equal(atoll_dockerfile_script(&m, &step, &file), cases[i].script);
        assert_int_equal(file, cases[i].file);
        atoll_recipe_memory_done(&m);
    }
}

/* Limits hold, and large input ends soon. */
static void test_limits(void **state)
{
    struct atoll_recipe *r = NULL;
    struct atoll_error err = {0};
    size_t n = ATOLL_RECIPE_TEXT_MAX + 1;
    char *text = malloc(n);

    (void)state;
    assert_non_null(text);
    memset(text, 'x', n);
    assert_true(atoll_dockerfile_parse(text, n, &r, &err) < 0);
    assert_int_equal(err.kind, ATOLL_ERR_RESOURCE_EXHAUSTED);
    memcpy(text, BASE "COPY ", 12);
    for (size_t i = 12; i < n; i++)
        text[i] = i % 2 ? ' ' : 'x';
    assert_true(atoll_dockerfile_parse(text, n - 1, &r, &err) < 0);
    assert_string_equal(err.text, "line 2: more than 1024 words");
    for (size_t i = 0; i + 7 < n; i += 7)
        memcpy(text + i, BASE, 7);
    assert_true(atoll_dockerfile_parse(text, n / 7 * 7, &r, &err) < 0);
    assert_string_equal(err.text, "line 129: more than 128 stages");
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps),        cmocka_unit_test(test_stages),
        cmocka_unit_test(test_whole_errors), cmocka_unit_test(test_directive_place),
        cmocka_unit_test(test_json),         cmocka_unit_test(test_bad_json),
        cmocka_unit_test(test_script),       cmocka_unit_test(test_limits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
