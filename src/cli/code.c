/*
 * `atoll code`: a context in a new or an existing sandbox runs code; its output is shown as it comes.
 */
#include "cli/code.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "cli/lines.h"
#include "cli/print.h"
#include "cli/request.h"
#include "client/compose.h"

#define LINE_MAX_BYTES ((size_t)40 * 1024 * 1024)

struct options {
    struct atoll_cli_common common;
    struct atoll_cli_sandbox_options sandbox;
    struct atoll_cli_env env;
    const char *in, *file, *user, *cwd;
    double timeout_seconds;
};

static const struct atoll_cli_option options_table[] = {
    {"in", 0, ATOLL_CLI_TEXT, offsetof(struct options, in), "SANDBOX",
     "run it in this sandbox instead of a new one", NULL},
    {"file", 'f', ATOLL_CLI_TEXT, offsetof(struct options, file), "FILE", "run the code of a file",
     NULL},
    {"timeout", 0, ATOLL_CLI_TIME, offsetof(struct options, timeout_seconds), "TIME",
     "interrupt the code after this time", NULL},
    {"user", 'u', ATOLL_CLI_TEXT, offsetof(struct options, user), "USER",
     "user to run the interpreter as (default: user, uid 1000)", NULL},
    {"cwd", 'w', ATOLL_CLI_TEXT, offsetof(struct options, cwd), "PATH",
     "working directory (default: that of the sandbox)", NULL},
    {.kind = ATOLL_CLI_TABLE,
     .offset = offsetof(struct options, env),
     .table = atoll_cli_env_options},
    {.kind = ATOLL_CLI_TABLE,
     .offset = offsetof(struct options, sandbox),
     .table = atoll_cli_sandbox_options},
    ATOLL_CLI_COMMON(struct options),
    {0},
};

/* Where the code runs. */
struct place {
    char sandbox[ATOLL_LINK_ID_MAX], context[ATOLL_LINK_ID_MAX];
};

static int copy_id(char *out, const json_t *reply, const char *member, struct atoll_error *err)
{
    const char *id = atoll_link_text(reply, member, "");
    int r = atoll_link_check_id("daemon's", id, err);

    if (r == 0)
        (void)snprintf(out, ATOLL_LINK_ID_MAX, "%s", id);
    return r;
}

/* If this program is killed, its connection closes, and the sandbox ends. */
static int bind_to_connection(json_t *request, struct atoll_error *err)
{
    json_t *lifetime = json_object_get(request, "lifetime");

    if (!lifetime && json_object_set_new(request, "lifetime", json_object()) == 0)
        lifetime = json_object_get(request, "lifetime");
    return json_object_set_new(lifetime, "leaseConnection", json_true()) < 0
               ? atoll_fail_errno(err, ENOMEM, "request")
               : 0;
}

static int make_sandbox(struct atoll_cli *cli, const struct options *o, struct place *place,
                        struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *request = json_object();
    ATOLL_AUTOJSON json_t *reply = NULL;
    int r = atoll_cli_add_sandbox(request, &o->sandbox, 0, err);

    if (r == 0)
        r = bind_to_connection(request, err);
    if (r == 0)
        r = atoll_cli_call(cli, "POST", "/api/sandboxes", request, &reply, err);
    return r < 0 ? r : copy_id(place->sandbox, reply, "id", err);
}

static int make_context(struct atoll_cli *cli, const struct options *o, const char *language,
                        struct place *place, struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *request = json_object();
    ATOLL_AUTOJSON json_t *reply = NULL;
    struct atoll_link_target target;
    int r = atoll_compose_text(request, "language", language, err);

    if (r == 0)
        r = atoll_compose_text(request, "user", o->user, err);
    if (r == 0)
        r = atoll_compose_text(request, "cwd", o->cwd, err);
    if (r == 0)
        r = atoll_link_target(&target, err, "/api/sandboxes/%s/contexts", place->sandbox);
    if (r == 0)
        r = atoll_cli_call(cli, "POST", target.text, request, &reply, err);
    return r < 0 ? r : copy_id(place->context, reply, "context_id", err);
}

/* Removes what was made for this call: the sandbox, or the context in one that stays. */
static void clean_up(struct atoll_cli *cli, bool owns_sandbox, const struct place *place)
{
    struct atoll_link_target target;
    struct atoll_error err;
    int r = 0;

    if (owns_sandbox && *place->sandbox)
        r = atoll_link_target(&target, &err, "/api/sandboxes/%s", place->sandbox);
    else if (*place->context)
        r = atoll_link_target(&target, &err, "/api/sandboxes/%s/contexts/%s", place->sandbox,
                              place->context);
    else
        return;
    atoll_cli_set_timeout(cli, 0);
    if (r == 0)
        r = atoll_cli_call(cli, "DELETE", target.text, NULL, NULL, &err);
    if (r < 0 && err.kind != ATOLL_ERR_NOT_FOUND)
        atoll_cli_say("%s could not be removed: %s", place->sandbox, err.text);
}

struct execution {
    const char *body; /* of the request */
    size_t body_left;
    struct atoll_cli_lines lines;
    int status;
    bool ended;
};

static ssize_t send_body(void *arg, void *buf, size_t n)
{
    struct execution *x = ((struct atoll_cli_lines *)arg)->arg;

    n = ATOLL_MIN(n, x->body_left);
    memcpy(buf, x->body, n);
    x->body += n;
    x->body_left -= n;
    return (ssize_t)n;
}

static void print_text(const json_t *line, FILE *to)
{
    const json_t *text = json_object_get(line, "text");

    (void)fwrite(json_string_value(text), 1, json_string_length(text), to);
    (void)fflush(to);
}

static void take_line(void *arg, const char *text, size_t n)
{
    struct execution *x = arg;
    ATOLL_AUTOJSON json_t *line = atoll_link_parse_json(text, n);
    const char *type = atoll_link_text(line, "type", "");

    if (strcmp(type, "stdout") == 0 || strcmp(type, "stderr") == 0) {
        print_text(line, strcmp(type, "stdout") == 0 ? stdout : stderr);
    } else if (strcmp(type, "result") == 0) {
        atoll_cli_code_print_result(line);
    } else if (strcmp(type, "error") == 0) {
        atoll_cli_code_print_error(line);
        x->status = atoll_cli_code_status(line);
    } else if (strcmp(type, "end_of_execution") == 0) {
        x->ended = true;
    }
}

static int stream(struct atoll_cli *cli, const char *target, const char *body,
                  struct atoll_error *err)
{
    struct execution x = {.body = body, .body_left = strlen(body)};
    struct atoll_http_transfer transfer = {.read = send_body,
                                           .length = (int64_t)strlen(body),
                                           .write = atoll_cli_lines_write,
                                           .accept = "application/x-ndjson",
                                           .arg = &x.lines};
    int r;

    atoll_cli_lines_init(&x.lines, LINE_MAX_BYTES, take_line, &x);
    r = atoll_cli_stream(cli, "POST", target, &transfer, NULL, err);
    atoll_cli_lines_done(&x.lines);
    if (r == 0 && !x.ended)
        r = atoll_fail(err, ATOLL_ERR_DATA_LOSS, EPIPE,
                       "the daemon's answer ended early: the sandbox has ended");
    return r < 0 ? r : x.status;
}

static int execute(struct atoll_cli *cli, json_t *request, const struct place *place,
                   struct atoll_error *err)
{
    ATOLL_AUTOFREE char *body = json_dumps(request, JSON_COMPACT);
    ATOLL_AUTOJSON json_t *reply = NULL;
    struct atoll_link_target target;
    int r = body ? 0 : atoll_fail_errno(err, ENOMEM, "request");

    if (r == 0)
        r = atoll_link_target(&target, err, "/api/sandboxes/%s/contexts/%s/execute", place->sandbox,
                              place->context);
    if (r < 0)
        return r;
    atoll_cli_set_timeout(cli, -1);
    if (!cli->json)
        return stream(cli, target.text, body, err);
    r = atoll_cli_call(cli, "POST", target.text, request, &reply, err);
    if (r == 0)
        r = atoll_cli_print_json(reply, err);
    return r < 0 ? r : atoll_cli_code_status(json_object_get(reply, "error"));
}

static int run(struct atoll_cli *cli, const void *options, int argc, char **argv,
               struct atoll_error *err)
{
    const struct options *o = options;
    ATOLL_AUTOJSON json_t *request = json_object();
    struct place place = {"", ""};
    int r = atoll_cli_code_add(request, argc > 1 ? argv[1] : NULL, o->file, err);

    if (r == 0)
        r = atoll_cli_add_env(request, &o->env, err);
    if (r == 0 && atoll_compose_number(request, "timeoutSeconds", o->timeout_seconds) < 0)
        r = atoll_fail_errno(err, ENOMEM, "request");
    if (r == 0 && o->in)
        r = atoll_link_check_id("sandbox", o->in, err);
    if (r < 0)
        return r;
    if (o->in)
        (void)snprintf(place.sandbox, sizeof(place.sandbox), "%s", o->in);
    else
        r = make_sandbox(cli, o, &place, err);
    if (r == 0)
        r = make_context(cli, o, argv[0], &place, err);
    if (r == 0)
        r = execute(cli, request, &place, err);
    clean_up(cli, !o->in, &place);
    return r;
}

const struct atoll_cli_verb atoll_cli_code = {
    .name = "code",
    .args = "[OPTION]... LANGUAGE [CODE]",
    .summary = "run code in a new sandbox, or in a given one",
    .help =
        "LANGUAGE is python, javascript, typescript, bash, r, java or a short form such as\n"
        "js. Without CODE, the code is standard input. Output is shown as it comes, then the\n"
        "value of the last expression. Variables end with the call; `atoll session` keeps them.\n"
        "\n"
        "Exit status: 0; 1 for an uncaught exception, the status of code that exits; 124 if it\n"
        "timed out; 137 if it ran out of memory; 125 if Atoll failed.\n"
        "\n"
        "Examples:\n"
        "  atoll code python '6 * 7'\n"
        "  atoll code js --file job.js --timeout 1m\n"
        "  echo 'print(1)' | atoll code --in $id python\n",
    .options = options_table,
    .options_size = sizeof(struct options),
    .min_args = 1,
    .max_args = 2,
    .failure = ATOLL_CLI_BROKEN,
    .run = run,
};
