/*
 * Builds of Dockerfiles by this daemon (engine/build/build.h): contexts, start, list, cancel. Their log is in
 * build_log.c.
 */
#include "api/rest/template/builds.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "api/fields.h"
#include "api/kit/context_receive.h"
#include "api/kit/list_reply.h"
#include "api/rest/requests.h"
#include "api/rest/rest_internal.h"
#include "engine/provider/providers.h"
#include "image/dockerfile.h"

#define CONTEXTS_MAX 64

/* --- views --- */

void atoll_view_make(struct atoll_json_out *out, const char *key,
                     const struct atoll_make_view *view)
{
    atoll_json_open(out, key, '{');
    atoll_json_text(out, "id", view->id);
    atoll_json_text(out, "tenant", view->tenant);
    atoll_json_text_or_null(out, "name", view->name);
    atoll_json_text(out, "state", atoll_make_state_name(view->state));
    atoll_json_time(out, "created_at", view->created_unix_ms);
    atoll_json_time(out, "ended_at", view->ended_unix_ms);
    atoll_json_u64(out, "steps", view->steps);
    atoll_json_u64(out, "steps_done", view->steps_done);
    atoll_json_u64(out, "steps_cached", view->steps_cached);
    atoll_json_u64(out, "log_bytes", view->log_bytes);
    atoll_json_text_or_null(out, "version", view->version);
    atoll_json_text_or_null(out, "digest", view->digest);
    atoll_json_text_or_null(out, "debug_template", view->debug_template);
    if (view->error->kind != ATOLL_ERR_NONE) {
        atoll_json_open(out, "error", '{');
        atoll_json_text(out, "code", atoll_error_kind_name(view->error->kind));
        atoll_json_text(out, "message",
                        view->error->kind == ATOLL_ERR_INTERNAL ? "internal error"
                                                                : view->error->text);
        if (view->error_line)
            atoll_json_i64(out, "line", view->error_line);
        if (view->error_step)
            atoll_json_i64(out, "step", view->error_step);
        atoll_json_close(out, '}');
    }
    atoll_json_close(out, '}');
}

/* --- start --- */

struct request {
    struct atoll_make_request make;
    const char *dockerfile, *context, *network_mode;
    const char *const *tags, *const *args;
    const json_t *secrets, *contexts;
};

#define AT(member) offsetof(struct request, member)
static const struct atoll_field fields[] = {
    {"name", ATOLL_FIELD_STRING, AT(make.name), 1, 64, NULL, 0},
    {"tags", ATOLL_FIELD_STRINGS, AT(tags), 0, 16, NULL, 0},
    {"dockerfile", ATOLL_FIELD_STRING, AT(dockerfile), 1, ATOLL_RECIPE_TEXT_MAX, NULL, 0},
    {"context", ATOLL_FIELD_STRING, AT(context), 1, 128, NULL, 0},
    {"contexts", ATOLL_FIELD_JSON, AT(contexts), 0, 0, NULL, 0},
    {"args", ATOLL_FIELD_ENV, AT(args), 0, 0, NULL, 0},
    {"secrets", ATOLL_FIELD_JSON, AT(secrets), 0, 0, NULL, 0},
    {"target", ATOLL_FIELD_STRING, AT(make.target), 1, 128, NULL, 0},
    {"networkMode", ATOLL_FIELD_STRING, AT(network_mode), 1, 32, NULL, 0},
    {"noCache", ATOLL_FIELD_BOOL, AT(make.no_cache), 0, 0, NULL, 0},
    {"debug", ATOLL_FIELD_BOOL, AT(make.debug), 0, 0, NULL, 0},
    {"startCommand", ATOLL_FIELD_STRING, AT(make.start_cmd), 1, 65536, NULL, 0},
    {"readyCommand", ATOLL_FIELD_STRING, AT(make.ready_cmd), 1, 65536, NULL, 0},
    {"sandboxCpuCores", ATOLL_FIELD_MILLI, AT(make.cpu_millis), 0.01, 1024, NULL, 0},
    {"sandboxMemoryMB", ATOLL_FIELD_MIB, AT(make.memory_bytes), 16, 1048576, NULL, 0},
    {"memoryMB", ATOLL_FIELD_MIB, AT(make.limits.memory_bytes), 16, 1048576, NULL, 0},
    {"timeoutSeconds", ATOLL_FIELD_CEIL, AT(make.limits.timeout_s), 1, 86400, NULL, 0},
    {0},
};
#undef AT

static int take_args(struct atoll_body *body, struct request *q, struct atoll_error *err)
{
    struct atoll_recipe_pair *pairs;
    size_t n = 0;

    while (q->args && q->args[n])
        n++;
    pairs = calloc(n + 1, sizeof(*pairs));
    if (!pairs)
        return atoll_fields_no_memory(err);
    atoll_body_take(body, pairs);
    for (size_t i = 0; i < n; i++) {
        const char *equals = strchr(q->args[i], '=');
        char *name = strndup(q->args[i], (size_t)(equals - q->args[i]));
        if (!name)
            return atoll_fields_no_memory(err);
        /* Freed with the request: the list is short. */
        pairs[i] = (struct atoll_recipe_pair){name, equals + 1};
    }
    q->make.args = pairs;
    q->make.arg_count = n;
    return 0;
}

static void free_args(const struct request *q)
{
    for (size_t i = 0; i < q->make.arg_count; i++)
        free((char *)(uintptr_t)q->make.args[i].name);
}

static int take_secrets(struct atoll_body *body, struct request *q, struct atoll_error *err)
{
    struct atoll_make_secret *secrets;
    const char *id;
    json_t *value;
    size_t n = 0;

    if (!q->secrets)
        return 0;
    if (!json_is_object(q->secrets) || json_object_size(q->secrets) > CONTEXTS_MAX)
        return atoll_fields_refuse(err, "", "secrets", q->secrets, "an object of at most 64 texts");
    secrets = calloc(json_object_size(q->secrets) + 1, sizeof(*secrets));
    if (!secrets)
        return atoll_fields_no_memory(err);
    atoll_body_take(body, secrets);
    json_object_foreach((json_t *)(uintptr_t)q->secrets, id, value)
    {
        if (!json_is_string(value))
            return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                              "secrets.%.64s must be a text", id);
        secrets[n++] =
            (struct atoll_make_secret){id, json_string_value(value), json_string_length(value)};
    }
    q->make.secrets = secrets;
    q->make.secret_count = n;
    return 0;
}

static int take_contexts(struct atoll_body *body, struct request *q, struct atoll_error *err)
{
    struct atoll_make_context *contexts;
    const char *name;
    json_t *value;
    size_t n = 0;

    if (q->contexts &&
        (!json_is_object(q->contexts) || json_object_size(q->contexts) > CONTEXTS_MAX))
        return atoll_fields_refuse(err, "", "contexts", q->contexts,
                                   "an object of at most 64 names of contexts");
    contexts = calloc(json_object_size(q->contexts) + 1, sizeof(*contexts));
    if (!contexts)
        return atoll_fields_no_memory(err);
    atoll_body_take(body, contexts);
    if (q->context)
        contexts[n++] = (struct atoll_make_context){"", q->context};
    json_object_foreach((json_t *)(uintptr_t)q->contexts, name, value)
    {
        if (!json_is_string(value) || !*name)
            return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                              "contexts.%.64s must be the name of a context", name);
        contexts[n++] = (struct atoll_make_context){name, json_string_value(value)};
    }
    q->make.contexts = contexts;
    q->make.context_count = n;
    return 0;
}

static int take_tags(struct atoll_body *body, struct request *q, struct atoll_error *err)
{
    struct atoll_buf text;
    int r = 0;

    if (!q->tags)
        return 0;
    atoll_buf_init(&text, 65536);
    for (size_t i = 0; r == 0 && q->tags[i]; i++)
        r = atoll_buf_appendf(&text, "%s%s", i ? " " : "", q->tags[i]);
    if (r == 0 && !(q->make.tags = strdup(atoll_buf_str(&text))))
        r = -ENOMEM;
    atoll_buf_done(&text);
    if (r < 0)
        return atoll_fields_no_memory(err);
    atoll_body_take(body, (void *)(uintptr_t)q->make.tags);
    return 0;
}

/* Templates of an operator are for all tenants, unless it acts for a tenant; others have their own. */
static const char *owner_of(const struct atoll_api_call *call)
{
    const bool is_operator = call->caller.scope >= ATOLL_SCOPE_ADMIN &&
                             strcmp(call->caller.tenant, ATOLL_OPERATOR_TENANT) == 0;
    return is_operator ? "" : call->caller.tenant;
}

static int start(struct atoll_api_call *call, struct atoll_body *body, struct request *q,
                 struct atoll_make_view *view, struct atoll_error *err)
{
    struct atoll_recipe *recipe = NULL;
    int r = 0;

    if (!q->dockerfile)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "dockerfile is missing: the text of the Dockerfile");
    if (q->network_mode && (atoll_network_by_name(q->network_mode, &q->make.network) < 0 ||
                            q->make.network == ATOLL_NETWORK_ISOLATED))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "networkMode must be none or bridge (got \"%.32s\")", q->network_mode);
    q->make.tenant = call->caller.tenant;
    q->make.owner = owner_of(call);
    q->make.source = "dockerfile";
    q->make.definition = q->dockerfile;
    r = take_args(body, q, err);
    if (r == 0)
        r = take_secrets(body, q, err);
    if (r == 0)
        r = take_contexts(body, q, err);
    if (r == 0)
        r = take_tags(body, q, err);
    if (r == 0)
        r = atoll_dockerfile_parse(q->dockerfile, strlen(q->dockerfile), &recipe, err);
    if (r == 0) {
        q->make.recipe = recipe;
        r = atoll_make_start(call->engine, &q->make, view, err);
    }
    atoll_recipe_free(recipe);
    free_args(q);
    return r;
}

void atoll_rest_make_create(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    struct request q = {0};
    struct atoll_make_view view;
    struct atoll_body body;
    struct atoll_error error;
    struct atoll_buf buf;
    struct atoll_json_out out;
    int r = atoll_body_decode(&body, bytes, n, fields, &q, &error);

    if (r == 0)
        r = start(call, &body, &q, &view, &error);
    atoll_body_done(&body);
    if (r < 0) {
        atoll_api_fail(call, &error);
        return;
    }
    atoll_api_reply_init(&buf, &out);
    atoll_view_make(&out, NULL, &view);
    atoll_api_reply(call, 201, &out);
}

/* --- list, get, cancel --- */

void atoll_rest_make_list(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                          size_t n ATOLL_UNUSED)
{
    struct atoll_list_reply *list = atoll_list_reply_new(call, "builds", ']');
    struct atoll_make_view view;
    size_t pos = 0;

    while (atoll_make_next(call->engine, &pos, &view))
        if (atoll_api_sees(call, view.tenant))
            atoll_view_make(&list->out, NULL, &view);
    atoll_list_reply_done(list, NULL);
}

int atoll_rest_make_find(struct atoll_api_call *call, struct atoll_make_view *ret,
                         struct atoll_error *err)
{
    const char *tenant = call->caller.every_tenant ? NULL : (const char *)call->caller.tenant;
    return atoll_make_find(call->engine, tenant, call->params.name, ret, err);
}

void atoll_rest_make_get(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                         size_t n ATOLL_UNUSED)
{
    struct atoll_make_view view;
    struct atoll_error error;
    struct atoll_buf buf;
    struct atoll_json_out out;

    if (atoll_rest_make_find(call, &view, &error) < 0) {
        atoll_api_fail(call, &error);
        return;
    }
    atoll_api_reply_init(&buf, &out);
    atoll_view_make(&out, NULL, &view);
    atoll_api_reply(call, 200, &out);
}

void atoll_rest_make_cancel(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                            size_t n ATOLL_UNUSED)
{
    struct atoll_make_view view;
    struct atoll_error error;

    if (atoll_rest_make_find(call, &view, &error) < 0 ||
        atoll_make_cancel(call->engine, call->params.name, ATOLL_REST_WHO, &error) < 0)
        atoll_api_fail(call, &error);
    else
        atoll_api_reply_empty(call, 204);
}

/* --- contexts --- */

static bool is_digest(const char *name)
{
    return strlen(name) == 64 && strspn(name, "0123456789abcdef") == 64;
}

void atoll_rest_make_context_put(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                                 size_t n ATOLL_UNUSED)
{
    const char *name = call->params.name;

    atoll_context_receive(call, name, is_digest(name) ? name : NULL, atoll_rest_done);
}

void atoll_rest_make_context_get(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                                 size_t n ATOLL_UNUSED)
{
    struct atoll_error error;

    if (atoll_context_find(call->engine, call->caller.tenant, call->params.name)) {
        atoll_api_reply_empty(call, 204);
        return;
    }
    (void)atoll_fail(&error, ATOLL_ERR_NOT_FOUND, ENOENT, "there is no context %.64s",
                     call->params.name);
    atoll_api_fail(call, &error);
}
