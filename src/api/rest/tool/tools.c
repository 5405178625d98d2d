#include <errno.h>
#include <string.h>
#include "api/fields.h"
#include "api/rest/rest_internal.h"
#include "api/tool/tool.h"

/*
 * Tools for agents that run elsewhere: an agent's call of "Read" or "Bash" becomes a request here.
 */

/* The list, in the form that a vendor's API takes. */

static json_t *as_anthropic(const struct atoll_tool *t)
{
    return json_pack("{s:s, s:s, s:o}", "name", t->name, "description", t->about, "input_schema",
                     atoll_tool_schema(t, false));
}

static json_t *as_openai(const struct atoll_tool *t)
{
    return json_pack("{s:s, s:{s:s, s:s, s:o}}", "type", "function", "function", "name", t->name,
                     "description", t->about, "parameters", atoll_tool_schema(t, false));
}

static json_t *as_mcp(const struct atoll_tool *t)
{
    return json_pack("{s:s, s:s, s:o}", "name", t->name, "description", t->about, "inputSchema",
                     atoll_tool_schema(t, false));
}

static const struct {
    const char *name;
    json_t *(*make)(const struct atoll_tool *t);
} formats[] = {{"anthropic", as_anthropic}, {"openai", as_openai}, {"mcp", as_mcp}};

static void reply_json(struct atoll_api_call *call, json_t *value)
{
    char *text = value ? json_dumps(value, JSON_COMPACT) : NULL;
    struct atoll_error error;

    json_decref(value);
    if (text) {
        atoll_api_reply_text(call, 200, "application/json", text, strlen(text));
    } else {
        (void)atoll_fail_errno(&error, ENOMEM, "tools");
        atoll_api_fail(call, &error);
    }
    free(text);
}

void atoll_rest_tool_list(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                          size_t n ATOLL_UNUSED)
{
    const char *format = atoll_http_query(call->req, "format");
    json_t *all = json_array();
    const struct atoll_tool *tool;
    struct atoll_error error;
    size_t at = 0, pos = 0;

    while (format && at < ATOLL_ARRAY_LEN(formats) && strcmp(formats[at].name, format) != 0)
        at++;
    if (at == ATOLL_ARRAY_LEN(formats)) {
        json_decref(all);
        (void)atoll_fail(&error, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                         "format must be anthropic, openai or mcp");
        atoll_api_fail(call, &error);
        return;
    }
    while ((tool = atoll_tool_next(call->api, false, &pos))) {
        (void)json_array_append_new(all, formats[at].make(tool));
        (void)atoll_tool_unref(tool);
    }
    reply_json(call, json_pack("{s:o}", "tools", all));
}

/* Calls. */

struct running {
    struct atoll_api_call *call;
    struct atoll_tool_call *tool_call;
};

static void done(void *arg, const struct atoll_tool_result *result, const struct atoll_error *error)
{
    struct running *r = arg;
    struct atoll_api_call *call = r->call;
    json_t *answer;

    free(r);
    call->on_gone = NULL;
    if (error) {
        atoll_api_fail(call, error);
        return;
    }
    answer = json_pack("{s:s, s:b, s:O?}", "text", result->text, "is_error", result->is_error,
                       "data", result->data);
    if (answer && result->image)
        (void)json_object_set_new(answer, "image_png", json_string(result->image));
    reply_json(call, answer);
}

static void client_gone(struct atoll_api_call *call)
{
    struct running *r = call->state;

    if (r->tool_call)
        atoll_tool_cancel(r->tool_call);
    free(r);
    atoll_api_drop(call);
}

/* map=OUTSIDE:INSIDE, two absolute directories. Cuts the text at the colon. */
static int read_map(char *map, const char **ret_inside, struct atoll_error *err)
{
    char *colon = strchr(map, ':');

    if (*map != '/' || !colon || colon[1] != '/' || strchr(colon + 1, ':') || strstr(map, "/.."))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "map must be OUTSIDE:INSIDE, two absolute directories, such as "
                          "/repo:/home/user/repo");
    *colon = '\0';
    *ret_inside = colon + 1;
    return 0;
}

static void start(struct atoll_api_call *call, const struct atoll_tool *tool, json_t *args,
                  const char *outside, const char *inside)
{
    struct running *r = atoll_api_alloc(sizeof(*r));
    struct atoll_tool_call *started;

    r->call = call;
    call->state = r;
    call->on_gone = client_gone;
    started = atoll_tool_start(&(struct atoll_tool_request){.api = call->api,
                                                            .tool = tool,
                                                            .tenant = call->caller.tenant,
                                                            .sandbox_id = call->params.id,
                                                            .args = args,
                                                            .outside = outside,
                                                            .inside = inside,
                                                            .done = done,
                                                            .arg = r});
    if (started)
        r->tool_call = started;
}

void atoll_rest_tool_call(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    const struct atoll_tool *tool = atoll_tool_find(call->api, call->params.name, false);
    const char *query = atoll_http_query(call->req, "map"), *inside = NULL;
    ATOLL_AUTOFREE char *map = query ? strdup(query) : NULL;
    struct atoll_body body = {0};
    struct atoll_error error;
    int r = 0;

    if (!tool)
        r = atoll_fail(&error, ATOLL_ERR_NOT_FOUND, ENOENT,
                       "there is no tool %s; GET /api/tools lists them", call->params.name);
    if (r == 0 && map)
        r = read_map(map, &inside, &error);
    if (r == 0)
        r = atoll_body_parse(&body, bytes, n, &error);
    if (r == 0)
        r = atoll_tool_check(tool, false, body.root, &error);
    if (r < 0)
        atoll_api_fail(call, &error);
    else
        start(call, tool, json_incref(body.root), map, inside);
    (void)atoll_tool_unref(tool);
    atoll_body_done(&body);
}
