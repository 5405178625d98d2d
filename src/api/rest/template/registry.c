/*
 * The registry for clients: its objects, and the files that were refused, with the reason.
 */
#include <errno.h>
#include <string.h>
#include "api/api_internal.h"
#include "api/fields.h"
#include "api/kit/json_value.h"
#include "api/kit/list_reply.h"
#include "api/rest/rest_internal.h"
#include "engine/json_memory.h"
#include "registry/prompt.h"

#define BASE "/api/registry/"

static const struct atoll_registry *registry_of(const struct atoll_api_call *call)
{
    return atoll_sessions_registry(call->api->config.sessions);
}

/* Each kind has its own routes; the path segment after the base names the kind. */
static enum atoll_registry_kind kind_of(const struct atoll_api_call *call)
{
    const char *folder = call->route->path + strlen(BASE);
    int kind = 0;

    while (kind + 1 < ATOLL_REGISTRY_KINDS &&
           strncmp(folder, atoll_registry_kind_name((enum atoll_registry_kind)kind),
                   strcspn(folder, "/")) != 0)
        kind++;
    return (enum atoll_registry_kind)kind;
}

/* The object as in its file, plus its name. */
static void view_item(struct atoll_json_out *out, const char *key,
                      const struct atoll_registry_item *item)
{
    json_t *object = (json_t *)item->object, *value; /* jansson's iterators are not const */
    const char *field;

    atoll_json_open(out, key, '{');
    atoll_json_text(out, "name", item->name);
    json_object_foreach(object, field, value)
    {
        atoll_json_value(out, field, value);
    }
    atoll_json_close(out, '}');
}

static void view_problems(struct atoll_json_out *out, const struct atoll_registry *registry)
{
    struct atoll_registry_problem problem;
    size_t pos = 0;

    atoll_json_open(out, "problems", '[');
    while (atoll_registry_next_problem(registry, &pos, &problem)) {
        atoll_json_open(out, NULL, '{');
        atoll_json_text(out, "message", problem.text);
        atoll_json_text(out, "in_force", problem.kept ? "last good version" : "nothing");
        atoll_json_close(out, '}');
    }
    atoll_json_close(out, ']');
}

void atoll_rest_registry_get(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                             size_t n ATOLL_UNUSED)
{
    const struct atoll_registry *registry = registry_of(call);
    struct atoll_registry_item item;
    struct atoll_buf buf;
    struct atoll_json_out out;

    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '{');
    atoll_json_u64(&out, "generation", atoll_registry_generation(registry));
    for (int kind = 0; kind < ATOLL_REGISTRY_KINDS; kind++) {
        size_t pos = 0;
        atoll_json_open(&out, atoll_registry_kind_name((enum atoll_registry_kind)kind), '[');
        while (atoll_registry_next(registry, (enum atoll_registry_kind)kind, &pos, &item))
            atoll_json_text(&out, NULL, item.name);
        atoll_json_close(&out, ']');
    }
    view_problems(&out, registry);
    atoll_json_close(&out, '}');
    atoll_api_reply(call, 200, &out);
}

void atoll_rest_registry_list(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                              size_t n ATOLL_UNUSED)
{
    enum atoll_registry_kind kind = kind_of(call);
    struct atoll_registry_item item;
    struct atoll_list_reply *list;
    size_t pos = 0;

    list = atoll_list_reply_new(call, atoll_registry_kind_name(kind), ']');
    while (atoll_registry_next(registry_of(call), kind, &pos, &item))
        view_item(&list->out, NULL, &item);
    atoll_list_reply_done(list, NULL);
}

void atoll_rest_registry_item(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                              size_t n ATOLL_UNUSED)
{
    enum atoll_registry_kind kind = kind_of(call);
    struct atoll_registry_item item;
    struct atoll_error error;
    struct atoll_buf buf;
    struct atoll_json_out out;

    if (!atoll_registry_find(registry_of(call), kind, call->params.name, &item)) {
        (void)atoll_fail(&error, ATOLL_ERR_NOT_FOUND, ENOENT, "the registry has no %s in %s",
                         call->params.name, atoll_registry_kind_name(kind));
        atoll_api_fail(call, &error);
        return;
    }
    atoll_api_reply_init(&buf, &out);
    view_item(&out, NULL, &item);
    atoll_api_reply(call, 200, &out);
}

static const struct atoll_field render_fields[] = {
    {"variables", ATOLL_FIELD_JSON, 0, 0, 0, NULL, 0},
    {0},
};

void atoll_rest_prompt_render(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    struct atoll_registry_item item;
    struct atoll_body body = {0};
    const json_t *variables = NULL;
    struct atoll_json_out out;
    struct atoll_error error;
    struct atoll_buf buf, text;
    int r = atoll_body_decode(&body, bytes, n, render_fields, &variables, &error);

    atoll_buf_init(&text, ATOLL_PROMPT_TEXT_MAX);
    if (r == 0 && variables && !json_is_object(variables))
        r = atoll_fields_refuse(&error, "", "variables", variables, "an object of texts");
    if (r == 0 &&
        !atoll_registry_find(registry_of(call), ATOLL_REGISTRY_PROMPT, call->params.name, &item))
        r = atoll_fail(&error, ATOLL_ERR_NOT_FOUND, ENOENT, "the registry has no prompt %s",
                       call->params.name);
    if (r == 0)
        r = atoll_prompt_render(&item, variables, &text, &error);
    if (atoll_api_reply_begin(call, r < 0 ? &error : NULL, &buf, &out)) {
        atoll_json_open(&out, NULL, '{');
        atoll_json_text(&out, "name", item.name);
        atoll_json_text(&out, "text", atoll_buf_str(&text));
        atoll_json_close(&out, '}');
        atoll_api_reply(call, 200, &out);
    }
    atoll_buf_done(&text);
    atoll_body_done(&body);
}
