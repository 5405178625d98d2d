/*
 * POST /sandboxes and /v2/sandboxes: creates a sandbox for an E2B client, with the limits,
 * variables and start command of the environment that the template names.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "api/api_internal.h"
#include "api/e2b/e2b_internal.h"
#include "api/idempotency.h"
#include "api/kit/metadata.h"
#include "api/kit/network_mode.h"
#include "api/kit/volumes.h"
#include "base/text.h"
#include "engine/json_memory.h"
#include "registry/environment_create.h"

#define METADATA_MAX ((size_t)64 * 1024)

struct request {
    const char *template_id;
    uint64_t timeout_s;
    bool auto_pause, auto_pause_memory, secure;
    struct {
        bool enabled;
    } auto_resume;
    const json_t *allow_internet, *network, *metadata, *iam, *volume_mounts;
    const char *const *env;
};

static const struct atoll_field resume_fields[] = {
    {"enabled", ATOLL_FIELD_BOOL, 0, 0, 0, NULL, 0},
    ATOLL_FIELDS_TOLERANT,
    {0},
};

#define AT(member) offsetof(struct request, member)
static const struct atoll_field fields[] = {
    {"templateID", ATOLL_FIELD_STRING, AT(template_id), 1, 128, NULL, 0},
    {"timeout", ATOLL_FIELD_U64, AT(timeout_s), 0, 1e12, NULL, 0},
    {"autoPause", ATOLL_FIELD_BOOL, AT(auto_pause), 0, 0, NULL, 0},
    {"autoPauseMemory", ATOLL_FIELD_BOOL, AT(auto_pause_memory), 0, 0, NULL, 0},
    {"autoResume", ATOLL_FIELD_OBJECT, AT(auto_resume), 0, 0, resume_fields, 0},
    {"secure", ATOLL_FIELD_BOOL, AT(secure), 0, 0, NULL, 0},
    {"allow_internet_access", ATOLL_FIELD_JSON, AT(allow_internet), 0, 0, NULL, 0},
    {"network", ATOLL_FIELD_JSON, AT(network), 0, 0, NULL, 0},
    {"metadata", ATOLL_FIELD_JSON, AT(metadata), 0, 0, NULL, 0},
    {"envVars", ATOLL_FIELD_ENV, AT(env), 0, 0, NULL, 0},
    {"iam", ATOLL_FIELD_JSON, AT(iam), 0, 0, NULL, 0},
    {"volumeMounts", ATOLL_FIELD_JSON, AT(volume_mounts), 0, 0, NULL, 0},
    ATOLL_FIELDS_TOLERANT,
    {0},
};
#undef AT

/* Checks that a table cannot express. */

static int refuse(struct atoll_error *err, const char *text)
{
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "%s", text);
}

static int check_lifecycle(const struct request *q, struct atoll_error *err)
{
    if (!q->auto_pause_memory && !q->auto_pause)
        return refuse(err, "autoPauseMemory=false only applies when autoPause is true.");
    if (!q->auto_pause_memory && q->auto_resume.enabled)
        return refuse(err, "autoPauseMemory=false cannot be combined with autoResume: without its "
                           "memory a sandbox is resumed by connecting to it only.");
    return 0;
}

static int check_metadata(const json_t *metadata, struct atoll_body *body, const char **ret_text,
                          struct atoll_error *err)
{
    int r;

    if (!metadata)
        return 0;
    r = atoll_metadata_check(metadata, "metadata", err);
    if (r == 0)
        r = atoll_metadata_take(metadata, body, ret_text, err);
    if (r == 0 && strlen(*ret_text) > METADATA_MAX)
        r = refuse(err, "metadata must be at most 64 KiB");
    return r;
}

/* Unsupported fields are refused, not ignored. */
static int check_offered(const struct request *q, struct atoll_error *err)
{
    if (json_object_size(json_object_get(q->iam, "tokens")) > 0)
        return atoll_fail(err, ATOLL_ERR_UNIMPLEMENTED, EOPNOTSUPP, "iam tokens are not supported");
    return 0;
}

static int check(const struct atoll_api_call *call, const struct request *q,
                 struct atoll_error *err)
{
    const json_t *is_public = json_object_get(q->network, "allowPublicTraffic");
    int r = q->template_id ? 0 : refuse(err, "templateID is missing");

    if (r == 0)
        r = atoll_e2b_check_timeout(call, q->timeout_s, err);
    if (r == 0)
        r = check_lifecycle(q, err);
    if (r == 0 && q->allow_internet && !json_is_boolean(q->allow_internet))
        r = atoll_fields_refuse(err, "", "allow_internet_access", q->allow_internet,
                                "true or false");
    if (r == 0)
        r = atoll_e2b_network_check(q->network, json_is_false(q->allow_internet), err);
    if (r == 0 && json_is_false(is_public) && !q->secure)
        r = refuse(err, "network.allowPublicTraffic=false needs a secure sandbox: set secure to "
                        "true.");
    return r < 0 ? r : check_offered(q, err);
}

/* Facts. */

/* The token that comes with X-Supabase-Team is a secret and is not among them. */
static json_t *team_headers(const struct atoll_api_call *call)
{
    static const char *const names[] = {"X-Team-ID", "X-Project-ID", "X-Supabase-Team"};
    json_t *kept = NULL;

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(names); i++) {
        const char *value = atoll_http_header(call->req, names[i]);
        if (!value || strlen(value) > 256)
            continue;
        kept = kept ? kept : json_object();
        (void)json_object_set_new(kept, names[i], json_string(value)); /* ignored if not UTF-8 */
    }
    return kept;
}

static int make_facts(const struct atoll_api_call *call, const struct request *q,
                      const struct atoll_e2b_template *t, struct atoll_body *body,
                      const char **ret_json, struct atoll_error *err)
{
    const char *mask = json_string_value(json_object_get(q->network, "maskRequestHost"));
    struct atoll_e2b_facts facts = {
        .made_here = true,
        .secure = q->secure,
        .public_traffic = !json_is_false(json_object_get(q->network, "allowPublicTraffic")),
        .auto_resume = q->auto_resume.enabled,
        .allow_internet = q->allow_internet ? json_is_true(q->allow_internet) : -1,
        .network = q->network ? atoll_e2b_network_keep(q->network, NULL) : NULL,
        .lifecycle =
            json_pack("{s:s,s:b,s:b}", "onTimeout", q->auto_pause ? "pause" : "kill", "autoResume",
                      q->auto_resume.enabled, "keepMemory", q->auto_pause_memory),
        .team = team_headers(call),
    };
    char *text;

    (void)snprintf(facts.template_id, sizeof(facts.template_id), "%s", q->template_id);
    (void)snprintf(facts.alias, sizeof(facts.alias), "%s", t->alias);
    (void)snprintf(facts.mask_host, sizeof(facts.mask_host), "%s", mask ? mask : "");
    text = atoll_e2b_facts_json(&facts);
    atoll_e2b_facts_done(&facts);
    atoll_body_take(body, text);
    *ret_json = text;
    return strlen(text) <= ATOLL_E2B_FACTS_MAX ? 0 : refuse(err, "network must be at most 64 KiB");
}

/* Creating the sandbox. */

static void forgotten(void *arg ATOLL_UNUSED, const struct atoll_error *error ATOLL_UNUSED)
{
}

static void created(void *arg, struct atoll_sandbox *sandbox, const struct atoll_error *error)
{
    struct atoll_api_call *call = arg;
    struct atoll_sandbox_view view;

    if (error) {
        atoll_api_fail(call, error);
        return;
    }
    atoll_sandbox_get(sandbox, &view);
    if (atoll_api_client_is_gone(call) && !call->idempotency) {
        /* The client did not receive the id, so no client could destroy the sandbox. */
        atoll_engine_destroy(call->engine, view.id, ATOLL_E2B_WHO_GONE, forgotten, NULL);
        atoll_api_drop(call);
        return;
    }
    atoll_engine_keep_history(call->engine, view.id);
    /* For the audit log. */
    (void)snprintf(call->params.id, sizeof(call->params.id), "%s", view.id);
    atoll_e2b_reply_made(call, 201, sandbox);
}

static enum atoll_at_deadline at_deadline_of(const struct request *q)
{
    if (!q->auto_pause)
        return ATOLL_DEADLINE_DESTROY;
    return q->auto_pause_memory ? ATOLL_DEADLINE_PAUSE : ATOLL_DEADLINE_PAUSE_DISK;
}

/* A client that says nothing about its network gets that of the environment, or the internet. */
static int choose_network(const struct atoll_api_call *call, const struct request *q,
                          const struct atoll_e2b_template *t, struct atoll_body *body,
                          struct atoll_options *create, struct atoll_error *err)
{
    char *policy = NULL;
    int r =
        atoll_e2b_network_policy(q->network, json_is_false(q->allow_internet), NULL, &policy, err);

    if (policy)
        atoll_body_take(body, policy);
    create->network_is_given = q->allow_internet || policy || !t->environment.network;
    create->network = atoll_api_network_mode(call);
    create->network_json = create->network == ATOLL_NETWORK_NONE ? NULL : policy;
    return r;
}

static int take_mounts(const json_t *array, struct atoll_body *body, struct atoll_options *create,
                       struct atoll_error *err)
{
    size_t count = json_array_size(array);
    int r = 0;

    if (json_is_null(array) || (json_is_array(array) && count == 0) || !array)
        return 0;
    if (!json_is_array(array) || count > ATOLL_MOUNTS_MAX)
        return refuse(err, "volumeMounts must be an array of at most 8 objects");
    for (size_t i = 0; r == 0 && i < count; i++) {
        const json_t *m = json_array_get(array, i);
        const char *name = json_string_value(json_object_get(m, "name"));
        const char *path = json_string_value(json_object_get(m, "path"));

        r = name && path
                ? atoll_mounts_add(body, create, name, path, false, err)
                : refuse(err, "a volume mount needs the name of a volume and an absolute path");
    }
    return r;
}

static int prepare(const struct atoll_api_call *call, const struct request *q,
                   struct atoll_body *body, struct atoll_e2b_template *t,
                   struct atoll_options *create, struct atoll_error *err)
{
    int r = check(call, q, err);

    if (r == 0)
        r = atoll_e2b_template_find(call, q->template_id, t, err);
    if (r < 0)
        return r;
    *create = (struct atoll_options){
        .template_name = t->is_environment ? NULL : t->name, /* the environment knows its own */
        .env = q->env,
        .owner = call->caller.tenant,
        .lifetime.at_deadline = at_deadline_of(q),
        .network_is_given = json_is_false(q->allow_internet), /* then it has none */
        /* Timeout 0 means "unlimited" to the engine, but "immediately" to these clients. */
        .limits.timeout_s =
            (uint32_t)ATOLL_MIN(ATOLL_MAX(q->timeout_s, UINT64_C(1)), (uint64_t)UINT32_MAX),
    };
    r = check_metadata(q->metadata, body, &create->metadata_json, err);
    if (r == 0)
        r = take_mounts(q->volume_mounts, body, create, err);
    if (r == 0)
        r = make_facts(call, q, t, body, &create->facade_json, err);
    return r < 0 ? r : choose_network(call, q, t, body, create, err);
}

static void create_sandbox(struct atoll_api_call *call, const uint8_t *bytes, size_t n,
                           struct request *q, bool always_secure)
{
    struct atoll_e2b_template template;
    struct atoll_environment_create create = {.environment = &template.environment};
    struct atoll_error error;
    struct atoll_body body;

    if (atoll_idempotency_check(call, bytes, n))
        return;
    if (atoll_e2b_decode(&body, bytes, n, fields, q, &error) < 0) {
        atoll_api_fail(call, &error);
        return;
    }
    q->secure = q->secure || always_secure;
    if (prepare(call, q, &body, &template, &create.sandbox, &error) < 0)
        atoll_api_fail(call, &error);
    else
        atoll_environment_create(call->engine, &create, created, call);
    atoll_body_done(&body);
}

void atoll_e2b_create_v1(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    struct request q = {.timeout_s = ATOLL_E2B_TIMEOUT_V1_S, .auto_pause_memory = true};

    create_sandbox(call, bytes, n, &q, false);
}

void atoll_e2b_create(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    struct request q = {.timeout_s = ATOLL_E2B_TIMEOUT_S, .auto_pause_memory = true};

    create_sandbox(call, bytes, n, &q, true);
}
