/*
 * Changes to an existing sandbox: its remaining lifetime and its metadata.
 */
#include <errno.h>
#include <string.h>
#include "api/rest/requests.h"
#include "api/rest/rest_internal.h"
#include "api/rest/views.h"
#include "engine/json_memory.h"

#define YEAR_S (366.0 * 24 * 3600)

struct timeout_request {
    uint32_t seconds;
};

static const struct atoll_field timeout_table[] = {
    {"seconds", ATOLL_FIELD_CEIL, offsetof(struct timeout_request, seconds), 0, YEAR_S, NULL, 0},
    {0},
};

void atoll_rest_sandbox_timeout(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    struct timeout_request request = {.seconds = UINT32_MAX};
    struct atoll_body body;
    struct atoll_error error;
    int r = atoll_body_decode(&body, bytes, n, timeout_table, &request, &error);

    if (r == 0 && request.seconds == UINT32_MAX)
        r = atoll_fail(&error, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                       "seconds is missing: the lifetime from now, 0 for unlimited");
    if (r == 0)
        r = atoll_engine_set_timeout(call->engine, call->params.id, request.seconds, &error);
    atoll_body_done(&body);
    if (r < 0)
        atoll_api_fail(call, &error);
    else
        atoll_rest_sandbox_get(call, NULL, 0);
}

/* As in RFC 7396: null removes a key, a string sets it, other keys are unchanged. */
static int merge(json_t *metadata, const json_t *patch, struct atoll_error *err)
{
    json_t *value, *iterated = (json_t *)patch; /* jansson's iterators are not const */
    const char *name;

    json_object_foreach(iterated, name, value)
    {
        if (json_is_null(value))
            (void)json_object_del(metadata, name);
        else if (!json_is_string(value))
            return atoll_fields_refuse(err, "metadata", name, value, "a string or null");
        else if (json_object_set(metadata, name, value) < 0)
            return atoll_fields_no_memory(err);
    }
    return 0;
}

static int change_metadata(struct atoll_api_call *call, const json_t *patch,
                           struct atoll_error *err)
{
    const struct atoll_sandbox *sandbox = atoll_rest_find_sandbox(call, err);
    struct atoll_sandbox_view view;
    ATOLL_AUTOFREE char *text = NULL;
    json_t *metadata;
    bool has_any;
    int r;

    if (!sandbox)
        return -ENOENT;
    if (!json_is_object(patch))
        return atoll_fail(
            err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
            "metadata (an object of strings, null to remove a key) or name is missing");
    atoll_sandbox_get(sandbox, &view);
    has_any = view.options.metadata_json && *view.options.metadata_json;
    metadata = atoll_json_load_own(has_any ? view.options.metadata_json : "{}");
    r = merge(metadata, patch, err);
    text = r == 0 ? atoll_json_dump(metadata, JSON_COMPACT) : NULL;
    json_decref(metadata);
    if (r == 0 && !text)
        r = atoll_fields_no_memory(err);
    if (r == 0 && strlen(text) > ATOLL_REST_METADATA_MAX)
        r = atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, E2BIG, "metadata must be at most %zu KiB",
                       ATOLL_REST_METADATA_MAX / 1024);
    return r < 0 ? r : atoll_engine_set_metadata(call->engine, call->params.id, text, err);
}

struct patch_request {
    const json_t *metadata;
    const char *name;
};

static const struct atoll_field patch_table[] = {
    {"metadata", ATOLL_FIELD_JSON, offsetof(struct patch_request, metadata), 0, 0, NULL, 0},
    {"name", ATOLL_FIELD_STRING, offsetof(struct patch_request, name), 0, 64, NULL, 0},
    {0},
};

void atoll_rest_sandbox_patch(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    struct patch_request request = {0};
    struct atoll_body body;
    struct atoll_error error;
    int r = atoll_body_decode(&body, bytes, n, patch_table, &request, &error);

    if (r == 0 && request.name)
        r = atoll_engine_set_name(call->engine, call->params.id, request.name, &error);
    if (r == 0 && (request.metadata || !request.name))
        r = change_metadata(call, request.metadata, &error);
    atoll_body_done(&body);
    if (r < 0)
        atoll_api_fail(call, &error);
    else
        atoll_rest_sandbox_get(call, NULL, 0);
}
