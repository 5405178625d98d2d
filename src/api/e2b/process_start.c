/*
 * Start: starts a command of the engine from a message, then streams its output. Connect: streams
 * the output of a running process.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "api/e2b/process.h"

#define ARGS_MAX 4000                       /* the agent accepts vectors of 4096 */
#define PART_BYTES ((size_t)128 * 1024 - 1) /* Linux takes no longer argument */
#define PARTS_MAX 9
/* Limits of what is kept about a process; larger envs are passed to it but not shown in List. */
#define TAG_MAX 256
#define KEPT_ENVS_MAX ((size_t)16 * 1024)

struct start {
    struct atoll_api_call *call;
    json_t *message; /* owned; the strings below point into it */
    const char **argv, **env;
    char *texts; /* owned: strings of variables, NAME=VALUE */
    char *parts; /* owned: a long script in several arguments, or NULL */
    char user[ATOLL_ENVD_USER_MAX];
    const char *tag;
    const json_t *envs;
};

static void start_free(struct start *s)
{
    json_decref(s->message);
    free(s->argv);
    free(s->env);
    free(s->texts);
    free(s->parts);
    free(s);
}

/* Translates errors of the agent into the texts that clients expect. */
static void explain(const struct start *s, const struct atoll_error *error, struct atoll_error *ret)
{
    static const char cwd[] = "cwd ", missing[] = " does not exist";
    size_t n = strlen(error->text);

    *ret = *error;
    if (!atoll_envd_is_running(s->call))
        ret->kind = ATOLL_ERR_UNAVAILABLE;
    else if (error->kind == ATOLL_ERR_INVALID_ARGUMENT && error->errnum == ESRCH)
        (void)atoll_fail(ret, ATOLL_ERR_UNAUTHENTICATED, ESRCH, "invalid username: '%s'", s->user);
    else if (error->errnum == ENOENT && strncmp(error->text, cwd, sizeof(cwd) - 1) == 0 &&
             n > sizeof(missing) + sizeof(cwd))
        (void)atoll_fail(ret, ATOLL_ERR_INVALID_ARGUMENT, ENOENT, "cwd '%.*s' does not exist",
                         (int)(n - (sizeof(missing) - 1) - (sizeof(cwd) - 1)),
                         error->text + sizeof(cwd) - 1);
    else if (error->kind == ATOLL_ERR_NOT_FOUND || error->kind == ATOLL_ERR_PERMISSION_DENIED)
        (void)atoll_fail(ret, ATOLL_ERR_INVALID_ARGUMENT, error->errnum,
                         "error starting process: %.300s", error->text);
}

static void started(void *arg, struct atoll_exec *exec, const struct atoll_error *error)
{
    struct start *s = arg;
    struct atoll_api_call *call = s->call;
    struct atoll_exec_view view;
    struct atoll_error shown;

    if (error) {
        explain(s, error, &shown);
        atoll_api_fail(call, &shown);
    } else {
        atoll_exec_get(exec, &view);
        atoll_process_note(atoll_e2b_plane_of(call->api), &view, s->tag, s->envs);
        if (call->req)
            atoll_process_stream(call, exec, true, 0);
        else
            atoll_api_drop(call);
    }
    start_free(s);
}

static bool is_shell(const char *cmd)
{
    const char *slash = strrchr(cmd, '/');
    const char *name = slash ? slash + 1 : cmd;

    return strcmp(name, "bash") == 0 || strcmp(name, "sh") == 0;
}

/* The script of "bash -l -c SCRIPT" may be longer than an argument: then the shell gets it in parts
 * and joins them. It runs with the same $0, without parameters and with the same status. */
static void split_script(struct start *s, size_t args)
{
    static const char join[] = "eval \"set --; $1$2$3$4$5$6$7$8$9\"";
    const char *script = s->argv[args];
    size_t left = strlen(script), n;
    const char **arg = s->argv + args;
    char *part;

    if (left <= PART_BYTES || left > (PARTS_MAX - 1) * PART_BYTES || args < 2 || args > 3 ||
        strcmp(s->argv[args - 1], "-c") != 0 || !is_shell(s->argv[0]))
        return;
    part = s->parts = atoll_api_alloc(left + PARTS_MAX);
    *arg++ = join;
    for (*arg++ = s->argv[0]; left > 0; left -= n, script += n) {
        n = ATOLL_MIN(left, PART_BYTES);
        while (n < left && ((uint8_t)script[n] & 0xc0) == 0x80) /* do not split a character */
            n--;
        memcpy(part, script, n);
        *arg++ = part;
        part += n + 1; /* the memory is zeroed */
    }
}

static int take_argv(struct start *s, const json_t *process, struct atoll_error *err)
{
    const json_t *args = atoll_connect_get(process, "args");
    size_t n = json_array_size(args);
    const char *cmd = NULL;
    int r = atoll_connect_text(process, "cmd", &cmd, err);

    if (r < 0)
        return r;
    if (!cmd || !*cmd || n > ARGS_MAX || (args && !json_is_array(args)))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "cmd must be a string and args an array of at most %d", ARGS_MAX);
    s->argv = atoll_api_alloc((n + 2 + PARTS_MAX + 1) * sizeof(*s->argv));
    s->argv[0] = cmd;
    for (size_t i = 0; i < n; i++) {
        s->argv[i + 1] = json_string_value(json_array_get(args, i));
        if (!s->argv[i + 1])
            return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "args must be strings");
    }
    split_script(s, n);
    return 0;
}

static void add_text(char **at, const char **slot, const char *name, const char *value)
{
    size_t n = strlen(name), m = strlen(value);

    *slot = *at;
    memcpy(*at, name, n);
    (*at)[n] = '=';
    memcpy(*at + n + 1, value, m + 1);
    *at += n + m + 2;
}

/* E2B gives commands no locale, and a shell that loads none starts a third of a millisecond
 * earlier. A locale that was given to the sandbox stays. */
static bool has_locale(const struct atoll_sandbox *sandbox)
{
    struct atoll_sandbox_view view;

    atoll_sandbox_get(sandbox, &view);
    for (size_t i = 0; view.options.env && view.options.env[i]; i++)
        if (strncmp(view.options.env[i], "LANG=", 5) == 0)
            return true;
    return false;
}

/* Our variables come first, so that those of the client override them. */
static int take_env(struct start *s, const json_t *process, struct atoll_error *err)
{
    const struct atoll_sandbox *sandbox = atoll_engine_find(s->call->engine, s->call->params.id);
    struct atoll_e2b_facts facts = {0};
    size_t bytes = 512, count = 0;
    const char *name;
    json_t *value;
    char *at;

    s->envs = atoll_connect_get(process, "envs");
    if (s->envs && (!json_is_object(s->envs) || json_object_size(s->envs) > ARGS_MAX))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "envs must be an object of at most %d strings", ARGS_MAX);
    json_object_foreach((json_t *)s->envs, name, value)
    {
        if (!json_is_string(value))
            return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "envs must be strings");
        bytes += strlen(name) + json_string_length(value) + 2;
    }
    if (sandbox)
        atoll_e2b_facts_get(sandbox, &facts);
    s->env = atoll_api_alloc((json_object_size(s->envs) + 5) * sizeof(*s->env));
    at = s->texts = atoll_api_alloc(bytes);
    if (sandbox && !has_locale(sandbox))
        add_text(&at, &s->env[count++], "LANG", "");
    add_text(&at, &s->env[count++], "E2B_SANDBOX", "true");
    add_text(&at, &s->env[count++], "E2B_SANDBOX_ID", s->call->params.id);
    add_text(&at, &s->env[count++], "E2B_TEMPLATE_ID", facts.template_id);
    json_object_foreach((json_t *)s->envs, name, value)
        add_text(&at, &s->env[count++], name, json_string_value(value));
    atoll_e2b_facts_done(&facts);
    if (bytes > KEPT_ENVS_MAX)
        s->envs = NULL;
    return 0;
}

static int take_tag(struct start *s, struct atoll_error *err)
{
    int r = atoll_connect_text(s->message, "tag", &s->tag, err);

    if (r == 0 && s->tag && strlen(s->tag) > TAG_MAX)
        r = atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "tag must have at most %d bytes",
                       TAG_MAX);
    return r;
}

static int take_terminal(const json_t *message, struct atoll_exec_start *ret,
                         struct atoll_error *err)
{
    const json_t *pty = atoll_connect_get(message, "pty"), *size = atoll_connect_get(pty, "size");
    int r;

    ret->pty = pty != NULL;
    r = atoll_connect_u32(size, "cols", &ret->cols, err);
    if (r == 0)
        r = atoll_connect_u32(size, "rows", &ret->rows, err);
    if (r == 0 && (ret->cols > UINT16_MAX || ret->rows > UINT16_MAX))
        r = atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                       "a terminal has at most 65535 columns and rows");
    return r;
}

static int take_start(struct start *s, struct atoll_exec_start *ret, struct atoll_error *err)
{
    const json_t *process = atoll_connect_get(s->message, "process");
    int r = take_argv(s, process, err);

    if (r == 0)
        r = take_env(s, process, err);
    if (r == 0)
        r = take_terminal(s->message, ret, err);
    if (r == 0)
        r = atoll_connect_text(process, "cwd", &ret->cwd, err);
    if (r == 0)
        r = take_tag(s, err);
    ret->stdin_open = true; /* the default: older clients do not send the field */
    if (r == 0)
        r = atoll_connect_flag(s->message, "stdin", &ret->stdin_open, err);
    if (r == 0)
        r = atoll_connect_timeout(s->call, &ret->timeout_ms, err);
    if (r == 0)
        r = atoll_envd_user(s->call, s->user, err);
    ret->argv = s->argv;
    ret->is_command = true;
    ret->env = s->env;
    ret->user = s->user[0] ? s->user : NULL;
    return r;
}

void atoll_envd_process_start(struct atoll_api_call *call, const uint8_t *body, size_t n)
{
    struct atoll_exec_start start = {0};
    struct atoll_error error;
    struct start *s;
    json_t *message;

    if (!atoll_connect_stream(call, body, n, &message))
        return;
    s = atoll_api_alloc(sizeof(*s));
    s->call = call;
    s->message = message;
    if (take_start(s, &start, &error) == 0) {
        atoll_engine_exec(call->engine, call->params.id, &start, started, s);
        return;
    }
    atoll_api_fail(call, &error);
    start_free(s);
}

void atoll_envd_process_connect(struct atoll_api_call *call, const uint8_t *body, size_t n)
{
    struct atoll_exec *exec;
    struct atoll_error error;
    uint32_t timeout_ms = 0;
    json_t *message;

    if (!atoll_connect_stream(call, body, n, &message))
        return;
    exec = atoll_process_find(call, message, true, &error);
    if (exec && atoll_connect_timeout(call, &timeout_ms, &error) == 0)
        atoll_process_stream(call, exec, false, timeout_ms);
    else
        atoll_api_fail(call, &error);
    json_decref(message);
}
