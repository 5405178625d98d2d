/*
 * /process/execute and /process/code-run: a command, or code of a language, and its whole output. The
 * process continues when the client disconnects.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "api/api_internal.h"
#include "api/daytona/daytona_internal.h"
#include "api/daytona/toolbox_internal.h"
#include "api/kit/json_value.h"
#include "interpreter/contexts.h"

#define ARGS_MAX 1000
#define CHART_MARK "dtn_artifact_k39fd2:" /* of drivers/python.py, and of Daytona */
#define TEXT_MAX ((double)ATOLL_BODY_FILES)

struct execution {
    struct atoll_api_call *call;
    struct atoll_body body; /* the strings below point into it */
    const char *command, *code, *language, *cwd;
    const char *const *env, *const *args;
    const json_t *timeout;
    bool draws;     /* charts are taken out of the output */
    json_t *charts; /* owned */
    struct atoll_toolbox_output output;
};

#define AT(member) offsetof(struct execution, member)
static const struct atoll_field execute_fields[] = {
    {"command", ATOLL_FIELD_STRING, AT(command), 0, TEXT_MAX, NULL, 0},
    {"cwd", ATOLL_FIELD_STRING, AT(cwd), 0, ATOLL_TOOLBOX_PATH_MAX, NULL, 0},
    {"envs", ATOLL_FIELD_ENV, AT(env), 0, 0, NULL, 0},
    {"timeout", ATOLL_FIELD_JSON, AT(timeout), 0, 0, NULL, 0},
    ATOLL_FIELDS_TOLERANT,
    {0},
};
static const struct atoll_field code_fields[] = {
    {"code", ATOLL_FIELD_STRING, AT(code), 0, TEXT_MAX, NULL, 0},
    {"language", ATOLL_FIELD_STRING, AT(language), 0, 64, NULL, 0},
    {"argv", ATOLL_FIELD_STRINGS, AT(args), 0, ARGS_MAX, NULL, 0},
    {"envs", ATOLL_FIELD_ENV, AT(env), 0, 0, NULL, 0},
    {"timeout", ATOLL_FIELD_JSON, AT(timeout), 0, 0, NULL, 0},
    ATOLL_FIELDS_TOLERANT,
    {0},
};
#undef AT

static void execution_free(struct execution *x)
{
    atoll_toolbox_output_done(&x->output);
    json_decref(x->charts);
    atoll_body_done(&x->body);
    free(x);
}

static void client_gone(struct atoll_api_call *call)
{
    execution_free(call->state);
    atoll_api_drop(call);
}

/* The response. */

static void reply_timeout(struct execution *x)
{
    struct atoll_buf buf;
    struct atoll_json_out out;

    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '{');
    atoll_daytona_error_members(&out, x->call, 408, ATOLL_TOOLBOX_TIMEOUT,
                                "command execution timeout");
    atoll_toolbox_output_plain(&x->output, &out);
    atoll_json_close(&out, '}');
    atoll_api_reply(x->call, 408, &out);
}

/* {"type":"chart","value":{…}} */
static void take_chart(void *arg, const char *text, size_t n)
{
    struct execution *x = arg;
    bool no_memory = false;
    json_error_t why;
    json_t *line = atoll_fields_load(text, n, &why, &no_memory);
    json_t *chart = json_object_get(line, "value");

    if (json_is_object(chart))
        (void)json_array_append(x->charts, chart);
    json_decref(line);
}

static void write_charts(struct execution *x, struct atoll_json_out *out)
{
    if (json_array_size(x->charts) == 0)
        return;
    atoll_json_open(out, "artifacts", '{');
    atoll_json_value(out, "charts", x->charts);
    atoll_json_close(out, '}');
}

static void reply_output(struct execution *x, const struct atoll_exec_result *result)
{
    struct atoll_buf buf;
    struct atoll_json_out out;

    if (x->draws) {
        x->charts = json_array();
        atoll_toolbox_output_cut(&x->output, CHART_MARK, take_chart, x);
    }
    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '{');
    atoll_json_i64(&out, "exitCode", atoll_exit_code(result));
    atoll_toolbox_output_plain(&x->output, &out);
    write_charts(x, &out);
    atoll_json_close(&out, '}');
    atoll_api_reply(x->call, 200, &out);
}

static void ended(void *arg, const struct atoll_exec_result *result,
                  const struct atoll_error *error)
{
    struct execution *x = arg;

    x->call->on_gone = NULL;
    if (error)
        atoll_api_fail(x->call, error);
    else if (result->kind == ATOLL_END_TIMED_OUT)
        reply_timeout(x);
    else if (result->kind == ATOLL_END_LOST)
        atoll_daytona_refuse(x->call, 502, NULL, "the result of the command is unknown: %s",
                             result->reason);
    else
        reply_output(x, result);
    execution_free(x);
}

/* A command that cannot be started, for instance because its directory does not exist, is a result
 * for these clients. */
static void reply_unstarted(struct atoll_api_call *call, const struct atoll_error *error)
{
    struct atoll_buf buf;
    struct atoll_json_out out;

    if (error->kind != ATOLL_ERR_NOT_FOUND && error->kind != ATOLL_ERR_PERMISSION_DENIED &&
        error->kind != ATOLL_ERR_INVALID_ARGUMENT) {
        atoll_api_fail(call, error);
        return;
    }
    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '{');
    atoll_json_i64(&out, "exitCode", -1);
    atoll_json_text(&out, "result", error->text);
    atoll_json_text(&out, "stdout", "");
    atoll_json_text(&out, "stderr", error->text);
    atoll_json_close(&out, '}');
    atoll_api_reply(call, 200, &out);
}

/* The code is standard input; before it the driver, if that runs the code. */
static void feed(const struct execution *x, struct atoll_exec *exec)
{
    size_t n = strlen(x->code), len = 0;
    const uint8_t *driver =
        x->draws ? atoll_contexts_driver(x->call->api->config.contexts, "python", &len) : NULL;
    struct atoll_buf input;
    int r;

    atoll_buf_init(&input, len + n + 32);
    r = driver ? atoll_buf_appendf(&input, "%zu\n", len) : 0;
    if (r == 0 && driver)
        r = atoll_buf_append(&input, driver, len);
    if (r == 0)
        r = atoll_buf_append(&input, x->code, n);
    /* Without memory the code is empty, and ends. */
    atoll_exec_feed(exec, atoll_buf_head(&input), r == 0 ? atoll_buf_size(&input) : 0);
    atoll_buf_done(&input);
}

static void started(void *arg, struct atoll_exec *exec, const struct atoll_error *error)
{
    struct execution *x = arg;
    struct atoll_api_call *call = x->call;

    if (exec && call->req) {
        if (x->code)
            feed(x, exec);
        call->state = x;
        call->on_gone = client_gone;
        atoll_toolbox_output_start(&x->output, atoll_http_loop(call->req), exec, true, ended, x);
        return;
    }
    if (exec && x->code)
        feed(x, exec);
    execution_free(x);
    if (error)
        reply_unstarted(call, error);
    else
        atoll_api_drop(call);
}

static bool take_timeout(struct execution *x, uint32_t *ret_ms)
{
    struct atoll_error error;

    if (atoll_fields_timeout(x->timeout, "timeout", ret_ms, &error) == 0)
        return true;
    atoll_daytona_refuse(x->call, 400, ATOLL_TOOLBOX_BAD_BODY, "invalid request body: %s",
                         error.text);
    return false;
}

/* NULL: the call has been refused. */
static struct execution *execution_new(struct atoll_api_call *call, const uint8_t *body, size_t n,
                                       const struct atoll_field *table, uint32_t *ret_timeout_ms)
{
    struct execution *x = atoll_api_alloc(sizeof(*x));

    x->call = call;
    if (!atoll_toolbox_decode(call, &x->body, body, n, table, x)) {
        free(x);
        return NULL;
    }
    if (take_timeout(x, ret_timeout_ms))
        return x;
    execution_free(x);
    return NULL;
}

/* The text is that of Daytona, which clients compare. */
static void refuse_missing(struct execution *x, const char *type, const char *field)
{
    atoll_daytona_refuse(x->call, 400, ATOLL_TOOLBOX_BAD_BODY,
                         "invalid body request: invalid request body: Key: '%s.%s' "
                         "Error:Field validation for '%s' failed on the 'required' tag",
                         type, field, field);
    execution_free(x);
}

void atoll_daytona_execute(struct atoll_api_call *call, const uint8_t *body, size_t n)
{
    struct atoll_toolbox_shell shell = {0};
    struct execution *x = execution_new(call, body, n, execute_fields, &shell.timeout_ms);

    if (!x)
        return;
    if (!x->command || !*x->command) {
        refuse_missing(x, "ExecuteRequest", "Command");
        return;
    }
    shell.command = x->command;
    shell.cwd = x->cwd && *x->cwd ? x->cwd : NULL;
    shell.env = x->env;
    atoll_toolbox_shell_start(call->engine, call->params.id, &shell, started, x);
}

/* Code. */

/* TypeScript needs a file; its name decides how it is compiled. Node strips types itself since 22.6; for
 * an older one the compiler's module does it. */
static const char run_typescript[] =
    "d=$(mktemp -d) || exit 1; trap 'rm -rf \"$d\"' EXIT; cat >\"$d/code.ts\";"
    " if command -v ts-node >/dev/null; then ts-node -T \"$d/code.ts\" \"$@\";"
    " elif command -v tsx >/dev/null; then tsx \"$d/code.ts\" \"$@\";"
    " elif node --experimental-strip-types -e 0 2>/dev/null; then"
    " NODE_NO_WARNINGS=1 node --experimental-strip-types \"$d/code.ts\" \"$@\";"
    " else NODE_PATH=\"${NODE_PATH-}:/usr/share/nodejs:/usr/local/lib/node_modules:/usr/lib/node_modules\""
    " node -e 'const t=require(\"typescript\"),f=require(\"fs\"),s=process.argv[1];"
    "f.writeFileSync(s+\".cjs\",t.transpile(f.readFileSync(s,\"utf8\"),{module:1,target:7,"
    "esModuleInterop:true}))' \"$d/code.ts\" && node \"$d/code.ts.cjs\" \"$@\"; fi";

/* Reads the driver of Python, whose run_script() runs the code and prints charts. */
static const char run_drawing[] =
    "import sys; i = sys.stdin.buffer; d = {'__name__': 'atoll_driver', '__file__': 'driver.py'}; "
    "exec(compile(i.read(int(i.readline())), 'driver.py', 'exec'), d); d['run_script'](i.read())";
static const char *const drawing[] = {"python3", "-u", "-c", run_drawing, NULL};

/* Only code that uses matplotlib pays for it. */
static bool is_drawing(const struct execution *x, const char *language)
{
    size_t n;

    return strcmp(language, "python") == 0 &&
           (strstr(x->code, "matplotlib") || strstr(x->code, "pylab")) &&
           atoll_contexts_driver(x->call->api->config.contexts, "python", &n);
}

static const struct {
    const char *name;
    const char *argv[5];
} languages[] = {
    {"python", {"python3", "-u", "-", NULL}},
    {"javascript", {"node", "-", NULL}},
    {"typescript", {"sh", "-c", run_typescript, "sh", NULL}},
};

static const char *const *program_of(const char *language)
{
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(languages); i++)
        if (strcmp(languages[i].name, language) == 0)
            return languages[i].argv;
    return NULL;
}

void atoll_daytona_code_run(struct atoll_api_call *call, const uint8_t *body, size_t n)
{
    const char *argv[ARGS_MAX + ATOLL_ARRAY_LEN(languages[0].argv)];
    struct atoll_exec_start start = {.is_command = true, .argv = argv, .stdin_open = true};
    struct execution *x = execution_new(call, body, n, code_fields, &start.timeout_ms);
    const char *const *program;
    size_t count = 0;

    if (!x)
        return;
    if (!x->code || !*x->code) {
        refuse_missing(x, "CodeRunRequest", "Code");
        return;
    }
    program = program_of(x->language ? x->language : "python");
    if (!program) {
        atoll_daytona_refuse(call, 400, NULL, "bad request: unsupported language: %s", x->language);
        execution_free(x);
        return;
    }
    x->draws = is_drawing(x, x->language ? x->language : "python");
    for (program = x->draws ? drawing : program; *program; program++)
        argv[count++] = *program;
    for (size_t i = 0; x->args && x->args[i]; i++)
        argv[count++] = x->args[i];
    argv[count] = NULL;
    start.env = x->env;
    atoll_engine_exec(call->engine, call->params.id, &start, started, x);
}
