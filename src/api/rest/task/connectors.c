/* Connectors: MCP servers by name (task/connectors.h). No response has a value of a variable or header. */
#include "task/connectors.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "api/api_internal.h"
#include "api/fields.h"
#include "api/kit/list_reply.h"
#include "api/rest/rest_internal.h"
#include "engine/json_memory.h"
#include "task/oauth.h"
#include "task/task.h"

static struct atoll_store *store_of(const struct atoll_api_call *call)
{
    return atoll_tasks_store(call->api->config.tasks);
}

/* --- views --- */

static void view_names(struct atoll_json_out *out, const char *key, const json_t *map)
{
    const char *name;
    json_t *value;

    if (!map)
        return;
    atoll_json_open(out, key, '[');
    json_object_foreach((json_t *)(uintptr_t)map, name, value)
    {
        atoll_json_text(out, NULL, name);
    }
    atoll_json_close(out, ']');
}

/* A query may have a key. */
static void view_url(struct atoll_json_out *out, const char *url)
{
    char text[2048];

    (void)snprintf(text, sizeof(text), "%.*s", (int)strcspn(url, "?#"), url);
    atoll_json_text(out, "url", text);
}

static const char *type_of(const json_t *definition)
{
    const char *type = json_string_value(json_object_get(definition, "type"));

    return type ? type : json_object_get(definition, "url") ? "http" : "stdio";
}

/* Without the secret of the client, and without tokens. */
static void view_oauth(struct atoll_json_out *out, const struct atoll_api_call *call,
                       const struct atoll_connector_view *view)
{
    static const char *const names[][2] = {{"grant", "grant"},
                                           {"tokenUrl", "token_url"},
                                           {"clientId", "client_id"},
                                           {"resource", "resource"}};
    const json_t *oauth = json_object_get(view->definition, "oauth");
    const json_t *scopes = json_object_get(oauth, "scopes");
    struct atoll_oauth_view token;
    const char *text;

    atoll_oauth_look(atoll_tasks_oauth(call->api->config.tasks), call->caller.tenant, view->name,
                     view->definition, &token);
    atoll_json_open(out, "oauth", '{');
    atoll_json_text(out, "state", token.state);
    if (token.reason)
        atoll_json_text(out, "reason", token.reason);
    if (token.expires_unix_ms > 0)
        atoll_json_time(out, "expires_at", token.expires_unix_ms);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(names); i++)
        if ((text = json_string_value(json_object_get(oauth, names[i][0]))))
            atoll_json_text(out, names[i][1], text);
    if (scopes) {
        atoll_json_open(out, "scopes", '[');
        for (size_t i = 0; i < json_array_size(scopes); i++)
            atoll_json_text(out, NULL, json_string_value(json_array_get(scopes, i)));
        atoll_json_close(out, ']');
    }
    atoll_json_close(out, '}');
}

struct writer {
    const struct atoll_api_call *call;
    struct atoll_json_out *out;
};

static void write_connector(void *arg, const struct atoll_connector_view *view)
{
    const struct writer *w = arg;
    struct atoll_json_out *out = w->out;
    const json_t *d = view->definition, *args = json_object_get(d, "args");
    const char *url = json_string_value(json_object_get(d, "url"));
    const char *command = json_string_value(json_object_get(d, "command"));

    atoll_json_open(out, NULL, '{');
    atoll_json_text(out, "name", view->name);
    if (d)
        atoll_json_text(out, "type", type_of(d));
    else
        atoll_json_null(out, "type"); /* its key is lost */
    if (command)
        atoll_json_text(out, "command", command);
    if (args) {
        atoll_json_open(out, "args", '[');
        for (size_t i = 0; i < json_array_size(args); i++)
            atoll_json_text(out, NULL, json_string_value(json_array_get(args, i)));
        atoll_json_close(out, ']');
    }
    if (url)
        view_url(out, url);
    view_names(out, "env", json_object_get(d, "env"));
    view_names(out, "headers", json_object_get(d, "headers"));
    if (json_object_get(d, "oauth"))
        view_oauth(out, w->call, view);
    atoll_json_time(out, "created_at", view->created_unix_ms);
    atoll_json_time(out, "updated_at", view->updated_unix_ms);
    atoll_json_close(out, '}');
}

static void reply_one(struct atoll_api_call *call, int status, const char *name)
{
    struct atoll_connector_view view;
    json_t *definition = NULL;
    struct atoll_json_out out;
    struct atoll_error error;
    struct atoll_buf buf;
    int r = atoll_connectors_find(store_of(call), call->caller.tenant, name, &view, &definition,
                                  &error);

    if (atoll_api_reply_begin(call, r < 0 ? &error : NULL, &buf, &out)) {
        write_connector(&(struct writer){call, &out}, &view);
        atoll_api_reply(call, status, &out);
    }
    json_decref(definition);
}

/* --- changes --- */

/* Takes a member out of the body, so that the definition is left. */
static bool take_replace(json_t *root, bool *ret_replace)
{
    const json_t *value = json_object_get(root, "replace");
    bool good = !value || json_is_boolean(value);

    *ret_replace = json_is_true(value);
    (void)json_object_del(root, "replace");
    return good;
}

static void put(struct atoll_api_call *call, json_t *root, const char *name, bool replace)
{
    struct atoll_error error;
    int r = atoll_connector_check(root, name, &error);

    if (r == 0 && replace) /* a token of the old definition is not for the new one */
        atoll_oauth_forget(atoll_tasks_oauth(call->api->config.tasks), call->caller.tenant, name);
    if (r == 0)
        r = atoll_connectors_put(store_of(call), call->caller.tenant, name, root, replace, &error);
    if (r < 0)
        atoll_api_fail(call, &error);
    else
        reply_one(call, r > 0 ? 201 : 200, name);
}

void atoll_rest_connector_create(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    struct atoll_body body = {0};
    struct atoll_error error;
    bool replace = false;
    char name[65];
    const char *given;
    int r = atoll_body_parse(&body, bytes, n, &error);

    given = r == 0 ? json_string_value(json_object_get(body.root, "name")) : NULL;
    if (r == 0 && !atoll_connector_is_name(given))
        r = atoll_fields_refuse(&error, "", "name", json_object_get(body.root, "name"),
                                "1 to 64 letters, digits, \"_\" and \"-\"");
    else if (r == 0 && !take_replace(body.root, &replace))
        r = atoll_fail(&error, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "replace must be true or false");
    if (r < 0) {
        atoll_api_fail(call, &error);
    } else {
        (void)snprintf(name, sizeof(name), "%s", given);
        (void)json_object_del(body.root, "name");
        put(call, body.root, name, replace);
    }
    atoll_body_done(&body);
}

void atoll_rest_connector_put(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    struct atoll_body body = {0};
    struct atoll_error error;

    if (atoll_body_parse(&body, bytes, n, &error) < 0)
        atoll_api_fail(call, &error);
    else
        put(call, body.root, call->params.name, true);
    atoll_body_done(&body);
}

void atoll_rest_connector_get(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                              size_t n ATOLL_UNUSED)
{
    reply_one(call, 200, call->params.name);
}

void atoll_rest_connector_list(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                               size_t n ATOLL_UNUSED)
{
    struct atoll_list_reply *list = atoll_list_reply_new(call, "connectors", ']');
    struct writer writer = {call, &list->out};
    struct atoll_error error;

    if (atoll_connectors_each(store_of(call), call->caller.tenant, write_connector, &writer,
                              &error) < 0)
        atoll_list_reply_done(list, &error);
    else
        atoll_list_reply_done(list, NULL);
}

void atoll_rest_connector_remove(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                                 size_t n ATOLL_UNUSED)
{
    struct atoll_error error;

    atoll_oauth_forget(atoll_tasks_oauth(call->api->config.tasks), call->caller.tenant,
                       call->params.name);
    if (atoll_connectors_remove(store_of(call), call->caller.tenant, call->params.name, &error) < 0)
        atoll_api_fail(call, &error);
    else
        atoll_api_reply_empty(call, 204);
}
