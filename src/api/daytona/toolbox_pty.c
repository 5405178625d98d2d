/*
 * Terminals. A terminal is an exec with a terminal, whose arguments have the client's id of it.
 */
#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include "api/daytona/daytona_internal.h"
#include "api/daytona/toolbox_internal.h"
#include "api/kit/exec_kill.h"
#include "base/base64.h"
#include "base/text.h"

#define KIND "daytona-pty"
#define SIZE_MAX_CELLS 1000
#define ENVS_KEPT 2000 /* bytes of variables in the arguments; more are not shown */
#define ENVS_MAX ((size_t)16 * 1024)
#define SIZES \
    "ptySizes" /* member of the facts: [columns, rows] by exec, of terminals that changed */

/* Arguments. */
enum { PTY_ID = 4, PTY_COLS, PTY_ROWS, PTY_LAZY, PTY_ENVS, PTY_ARGS };

static const char find_shell[] = "for s in \"$SHELL\" bash sh; do"
                                 " command -v \"$s\" >/dev/null 2>&1 && exec \"$s\" -il; done";

struct size {
    uint32_t cols, rows;
};

/* Lookup. */

static bool is_pty(const struct atoll_exec_view *view)
{
    size_t count = 0;

    if (!view->pty || view->result || !atoll_toolbox_is_kind(view, KIND))
        return false;
    while (view->argv[count])
        count++;
    return count >= PTY_ARGS;
}

static struct atoll_exec *find(const struct atoll_api_call *call, const char *id,
                               struct atoll_exec_view *ret)
{
    struct atoll_sandbox *sandbox = atoll_engine_find(call->engine, call->params.id);
    struct atoll_exec *exec;

    for (size_t pos = 0; sandbox && (exec = atoll_sandbox_next_exec(sandbox, &pos));) {
        atoll_exec_get(exec, ret);
        if (is_pty(ret) && strcmp(ret->argv[PTY_ID], id) == 0)
            return exec;
    }
    return NULL;
}

/* NULL: the call has been refused. */
static struct atoll_exec *find_or_refuse(struct atoll_api_call *call, struct atoll_exec_view *ret)
{
    struct atoll_exec *exec = find(call, call->params.template, ret);

    if (!exec)
        atoll_daytona_refuse(call, 404, ATOLL_TOOLBOX_NO_PROCESS, "PTY session not found");
    return exec;
}

/* Views. */

static uint32_t number(const char *text)
{
    uint64_t value = 0;

    return atoll_text_u64(text, 0, UINT32_MAX, &value) == 0 ? (uint32_t)value : 0;
}

static json_t *facts_of(const struct atoll_api_call *call)
{
    const struct atoll_sandbox *sandbox = atoll_engine_find(call->engine, call->params.id);

    return sandbox ? atoll_daytona_facts(sandbox) : NULL;
}

static struct size size_of(const struct atoll_exec_view *view, const json_t *facts)
{
    const json_t *size = json_object_get(json_object_get(facts, SIZES), view->id);

    if (json_array_size(size) != 2)
        return (struct size){number(view->argv[PTY_COLS]), number(view->argv[PTY_ROWS])};
    return (struct size){(uint32_t)json_integer_value(json_array_get(size, 0)),
                         (uint32_t)json_integer_value(json_array_get(size, 1))};
}

static void write_pty(struct atoll_json_out *out, const struct atoll_exec_view *view,
                      struct size size)
{
    atoll_json_open(out, NULL, '{');
    atoll_json_text(out, "id", view->argv[PTY_ID]);
    atoll_json_text(out, "cwd", view->cwd);
    atoll_json_raw(out, "envs", view->argv[PTY_ENVS]);
    atoll_json_u64(out, "cols", size.cols);
    atoll_json_u64(out, "rows", size.rows);
    atoll_json_time(out, "createdAt", view->started_unix_ms);
    atoll_json_bool(out, "active", true);
    atoll_json_bool(out, "lazyStart", strcmp(view->argv[PTY_LAZY], "lazy") == 0);
    atoll_json_close(out, '}');
}

void atoll_daytona_pty_list(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                            size_t n ATOLL_UNUSED)
{
    struct atoll_sandbox *sandbox = atoll_engine_find(call->engine, call->params.id);
    json_t *facts = facts_of(call);
    const struct atoll_exec *exec;
    struct atoll_exec_view view;
    struct atoll_buf buf;
    struct atoll_json_out out;

    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '{');
    atoll_json_open(&out, "sessions", '[');
    for (size_t pos = 0; sandbox && (exec = atoll_sandbox_next_exec(sandbox, &pos));) {
        atoll_exec_get(exec, &view);
        if (is_pty(&view))
            write_pty(&out, &view, size_of(&view, facts));
    }
    atoll_json_close(&out, ']');
    atoll_json_close(&out, '}');
    atoll_api_reply(call, 200, &out);
    json_decref(facts);
}

static void reply_pty(struct atoll_api_call *call, const struct atoll_exec_view *view,
                      struct size size)
{
    struct atoll_buf buf;
    struct atoll_json_out out;

    atoll_api_reply_init(&buf, &out);
    write_pty(&out, view, size);
    atoll_api_reply(call, 200, &out);
}

void atoll_daytona_pty_get(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                           size_t n ATOLL_UNUSED)
{
    struct atoll_exec_view view;
    json_t *facts;

    if (!find_or_refuse(call, &view))
        return;
    facts = facts_of(call);
    reply_pty(call, &view, size_of(&view, facts));
    json_decref(facts);
}

/* Size and end. */

struct resizing {
    struct atoll_api_call *call;
    struct size size;
};

/* The sizes of terminals that run, as a value of the facts. */
static json_t *sizes_with(const struct atoll_api_call *call, const json_t *facts,
                          const char *exec_id, struct size size)
{
    json_t *sizes = json_object(), *old = json_object_get(facts, SIZES), *value;
    const char *id;

    json_object_foreach(old, id, value) if (atoll_toolbox_find_exec(call, id))(void)
        json_object_set(sizes, id, value);
    (void)json_object_set_new(sizes, exec_id, json_pack("[i,i]", (int)size.cols, (int)size.rows));
    return sizes;
}

/* A failure is not one of the request: the terminal has its new size. */
static void keep_size(const struct atoll_api_call *call, const char *exec_id, struct size size)
{
    json_t *facts = facts_of(call);
    struct atoll_error error;

    if (facts && !atoll_facts_are_foreign(facts))
        (void)!atoll_daytona_change(call->engine, call->params.id, SIZES,
                                    sizes_with(call, facts, exec_id, size), &error);
    json_decref(facts);
}

static void resized(void *arg, const struct atoll_error *error)
{
    struct resizing *z = arg;
    struct atoll_exec_view view;

    if (error) {
        atoll_api_fail(z->call, error);
    } else if (find_or_refuse(z->call, &view)) {
        keep_size(z->call, view.id, z->size);
        reply_pty(z->call, &view, z->size);
    }
    free(z);
}

#define AT(member) offsetof(struct size, member)
static const struct atoll_field size_fields[] = {
    {"cols", ATOLL_FIELD_U32, AT(cols), 1, SIZE_MAX_CELLS, NULL, 0},
    {"rows", ATOLL_FIELD_U32, AT(rows), 1, SIZE_MAX_CELLS, NULL, 0},
    ATOLL_FIELDS_TOLERANT,
    {0},
};
#undef AT

void atoll_daytona_pty_resize(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    struct size size = {0};
    struct atoll_exec_view view;
    struct atoll_exec *exec;
    struct resizing *z;
    struct atoll_body body;

    if (!atoll_toolbox_decode(call, &body, bytes, n, size_fields, &size))
        return;
    atoll_body_done(&body);
    if (size.cols == 0 || size.rows == 0) {
        atoll_daytona_refuse(call, 400, ATOLL_TOOLBOX_BAD_BODY,
                             "invalid request body: cols and rows must be given");
        return;
    }
    exec = find_or_refuse(call, &view);
    if (!exec)
        return;
    z = atoll_api_alloc(sizeof(*z));
    *z = (struct resizing){call, size};
    atoll_exec_resize(exec, size.cols, size.rows, resized, z);
}

static void deleted(void *arg, const struct atoll_error *error)
{
    static const char text[] = "{\"message\":\"PTY session deleted\"}";

    if (error && error->kind != ATOLL_ERR_FAILED_PRECONDITION)
        atoll_api_fail(arg, error);
    else
        atoll_api_reply_text(arg, 200, "application/json", text, sizeof(text) - 1);
}

void atoll_daytona_pty_delete(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                              size_t n ATOLL_UNUSED)
{
    struct atoll_exec_view view;
    struct atoll_exec *exec = find_or_refuse(call, &view);

    if (exec)
        atoll_exec_kill(call, exec, true, ATOLL_TOOLBOX_WHO_DELETED, deleted);
}

/* Start. */

struct starting {
    struct atoll_api_call *call;
    struct atoll_body body; /* the strings below point into it, or into the request */
    const char *id, *cwd;
    const json_t *envs;
    struct size size;
    bool lazy;
    /* After the start; the call is still to be answered. */
    void (*started)(struct atoll_api_call *call, struct atoll_exec *exec);
};

static void starting_free(struct starting *s)
{
    atoll_body_done(&s->body);
    free(s);
}

static void exec_started(void *arg, struct atoll_exec *exec, const struct atoll_error *error)
{
    struct starting *s = arg;
    struct atoll_api_call *call = s->call;
    void (*then)(struct atoll_api_call *, struct atoll_exec *) = s->started;

    starting_free(s);
    if (error)
        atoll_api_fail(call, error);
    else if (!call->req)
        atoll_api_drop(call);
    else
        then(call, exec);
}

/* The variables as clients see them: TERM is there in each terminal. Arguments are visible to processes
 * of the sandbox and are stored: they have no values of the client. */
static char *shown_envs(const json_t *envs)
{
    json_t *all = json_object(), *value;
    const char *name;
    char *text;

    if (!all || json_object_set_new(all, "TERM", json_string("xterm-256color")) < 0)
        abort();
    json_object_foreach((json_t *)envs, name,
                        value) if (json_object_set_new(all, name, json_string("")) < 0) abort();
    text = json_dumps(all, JSON_COMPACT);
    json_decref(all);
    if (text && strlen(text) <= ENVS_KEPT)
        return text;
    free(text);
    return strdup("{}");
}

/* NULL-terminated NAME=VALUE; freed by env_free(). */
static char **env_of(const json_t *envs)
{
    char **env = atoll_api_alloc((json_object_size(envs) + 1) * sizeof(*env));
    const char *name;
    json_t *value;
    size_t count = 0;

    json_object_foreach((json_t *)envs, name,
                        value) if (json_is_string(value) && asprintf(&env[count++], "%s=%s", name,
                                                                     json_string_value(value)) < 0)
        abort();
    return env;
}

static void env_free(char **env)
{
    for (size_t i = 0; env[i]; i++)
        free(env[i]);
    free(env);
}

/* The directory is known now: clients expect an absolute path. */
static void looked(void *arg, const struct atoll_am_entry *entry, const struct atoll_error *error)
{
    struct starting *s = arg;
    char *shown, **env, cols[12], rows[12];

    if (error || !s->call->req) { /* without a request, the strings are gone, too */
        if (error)
            atoll_toolbox_path_fail(s->call, error);
        else
            atoll_api_drop(s->call);
        starting_free(s);
        return;
    }
    shown = shown_envs(s->envs);
    env = env_of(s->envs);
    (void)snprintf(cols, sizeof(cols), "%u", s->size.cols);
    (void)snprintf(rows, sizeof(rows), "%u", s->size.rows);
    const char *const argv[] = {
        "sh", "-c", find_shell, KIND, s->id, cols, rows, s->lazy ? "lazy" : "now", shown, NULL};
    const struct atoll_exec_start start = {
        .argv = argv,
        .env = (const char *const *)env,
        .cwd = *entry->resolved ? entry->resolved : entry->path,
        .stdin_open = true,
        .pty = true,
        .cols = s->size.cols,
        .rows = s->size.rows,
    };
    atoll_engine_exec(s->call->engine, s->call->params.id, &start, exec_started, s);
    env_free(env);
    free(shown);
}

static bool is_sound(struct starting *s)
{
    struct atoll_exec_view view;
    const char *name;
    json_t *value;

    if (!s->id || !*s->id || strlen(s->id) > ATOLL_TOOLBOX_KEY_MAX) {
        atoll_daytona_refuse(s->call, 400, NULL, "id must be given, with at most %d bytes",
                             ATOLL_TOOLBOX_KEY_MAX);
        return false;
    }
    if (s->envs && !json_is_object(s->envs)) {
        atoll_daytona_refuse(s->call, 400, NULL, "envs must be an object");
        return false;
    }
    json_object_foreach((json_t *)s->envs, name,
                        value) if (!json_is_string(value) || !*name || strchr(name, '='))
    {
        atoll_daytona_refuse(s->call, 400, NULL, "envs must be strings by name");
        return false;
    }
    if (!find(s->call, s->id, &view))
        return true;
    atoll_daytona_refuse(s->call, 409, NULL, "PTY session with id %.64s already exists", s->id);
    return false;
}

/* Takes s. */
static void start(struct starting *s)
{
    if (s->size.cols == 0)
        s->size.cols = 80;
    if (s->size.rows == 0)
        s->size.rows = 24;
    if (is_sound(s))
        atoll_files_look(s->call->engine, s->call->params.id, NULL,
                         s->cwd && *s->cwd ? s->cwd : ".", ATOLL_TOOLBOX_ATTRIBUTES, looked, s);
    else
        starting_free(s);
}

static void reply_created(struct atoll_api_call *call, struct atoll_exec *exec)
{
    struct atoll_exec_view view;
    struct atoll_buf buf;
    struct atoll_json_out out;

    atoll_exec_get(exec, &view);
    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '{');
    atoll_json_text(&out, "sessionId", view.argv[PTY_ID]);
    atoll_json_close(&out, '}');
    atoll_api_reply(call, 201, &out);
}

void atoll_daytona_pty_create(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
#define AT(member) offsetof(struct starting, member)
    static const struct atoll_field fields[] = {
        {"id", ATOLL_FIELD_STRING, AT(id), 0, ATOLL_TOOLBOX_KEY_MAX, NULL, 0},
        {"cwd", ATOLL_FIELD_STRING, AT(cwd), 0, ATOLL_TOOLBOX_PATH_MAX, NULL, 0},
        {"envs", ATOLL_FIELD_JSON, AT(envs), 0, 0, NULL, 0},
        {"cols", ATOLL_FIELD_U32, AT(size.cols), 0, SIZE_MAX_CELLS, NULL, 0},
        {"rows", ATOLL_FIELD_U32, AT(size.rows), 0, SIZE_MAX_CELLS, NULL, 0},
        {"lazyStart", ATOLL_FIELD_BOOL, AT(lazy), 0, 0, NULL, 0},
        ATOLL_FIELDS_TOLERANT,
        {0},
    };
#undef AT
    struct starting *s = atoll_api_alloc(sizeof(*s));

    s->call = call;
    s->started = reply_created;
    if (atoll_toolbox_decode(call, &s->body, bytes, n, fields, s))
        start(s);
    else
        free(s);
}

/* Connections. */

static void connect_new(struct atoll_api_call *call, struct atoll_exec *exec)
{
    atoll_toolbox_pty_attach(call, exec, 0);
}

static bool is_upgrade(struct atoll_api_call *call)
{
    if (atoll_ws_wanted(call->req))
        return true;
    atoll_daytona_refuse(call, 400, NULL,
                         "this is a WebSocket; the request must ask for an upgrade");
    return false;
}

/* ?from= replays output from that offset on. Otherwise a client gets what comes from now on; the first
 * client of a terminal that was to wait for it gets all. */
void atoll_daytona_pty_connect(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                               size_t n ATOLL_UNUSED)
{
    uint64_t from = ATOLL_READ_FROM_END;
    struct atoll_exec_view view;
    struct atoll_error error;
    struct atoll_exec *exec;

    if (!is_upgrade(call))
        return;
    exec = find_or_refuse(call, &view);
    if (!exec)
        return;
    if (strcmp(view.argv[PTY_LAZY], "lazy") == 0)
        from = 0;
    if (atoll_api_query_u64(call, "from", 0, INT64_MAX, &from, &error) < 0)
        atoll_api_fail(call, &error);
    else
        atoll_toolbox_pty_attach(call, exec, from);
}

/* Variables come as a subprotocol: JSON in base64 of URLs, without padding. */
static bool take_envs(struct starting *s)
{
    char text[ENVS_MAX + 4];
    struct atoll_buf bytes;
    struct atoll_error error;
    size_t n;
    int r;

    if (!atoll_toolbox_ws_offered(s->call->req, "X-Daytona-Pty-Envs~", text, ENVS_MAX))
        return true;
    for (n = 0; text[n]; n++)
        text[n] = text[n] == '-' ? '+' : text[n] == '_' ? '/' : text[n];
    while (n % 4 != 0)
        text[n++] = '=';
    atoll_buf_init(&bytes, ENVS_MAX);
    r = atoll_base64_decode(&bytes, text, n);
    if (r == 0)
        r = atoll_body_parse(&s->body, atoll_buf_head(&bytes), atoll_buf_size(&bytes), &error);
    atoll_buf_done(&bytes);
    s->envs = r == 0 ? s->body.root : NULL;
    if (r < 0)
        atoll_daytona_refuse(s->call, 400, NULL, "the variables are not JSON in base64");
    return r == 0;
}

void atoll_daytona_pty_create_connect(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                                      size_t n ATOLL_UNUSED)
{
    uint64_t cols = 80, rows = 24;
    struct atoll_error error;
    struct starting *s;

    if (!is_upgrade(call))
        return;
    if (atoll_api_query_u64(call, "cols", 1, SIZE_MAX_CELLS, &cols, &error) < 0 ||
        atoll_api_query_u64(call, "rows", 1, SIZE_MAX_CELLS, &rows, &error) < 0) {
        atoll_api_fail(call, &error);
        return;
    }
    s = atoll_api_alloc(sizeof(*s));
    s->call = call;
    s->id = atoll_http_query(call->req, "id");
    s->cwd = atoll_http_query(call->req, "cwd");
    s->size = (struct size){(uint32_t)cols, (uint32_t)rows};
    s->started = connect_new;
    if (take_envs(s))
        start(s);
    else
        starting_free(s);
}
