#include "api/rest/requests.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "api/kit/metadata.h"
#include "api/rest/rest_internal.h"
#include "api/rest/views.h"
#include "base/text.h"
#include "engine/artifact/artifacts.h"
#include "engine/json_memory.h"
#include "engine/network/request.h"
#include "engine/provider/providers.h"
#include "guard/policy.h"

#define MONTH_S (31.0 * 24 * 3600)

#define AT(member) offsetof(struct atoll_limits, member)
static const struct atoll_field limit_fields[] = {
#define LIMIT(member, name, unit, least, most) \
    {name, ATOLL_FIELD_##unit, AT(member), least, most, NULL, 0},
#include "sandbox/limits.def"
    {"networkMbps", ATOLL_FIELD_CEIL,
     offsetof(struct atoll_rest_sandbox, limits_mbps) -
         offsetof(struct atoll_rest_sandbox, options.limits),
     0, 1e6, NULL, 0},
    {0},
};
#undef AT

#define AT(member)                                 \
    (offsetof(struct atoll_rest_sandbox, member) - \
     offsetof(struct atoll_rest_sandbox, options.lifetime))
static const struct atoll_field lifetime_fields[] = {
    {"idleSeconds", ATOLL_FIELD_CEIL, AT(options.lifetime.idle_s), 0, 12 * MONTH_S, NULL, 0},
    {"leaseSeconds", ATOLL_FIELD_CEIL, AT(options.lifetime.lease_s), 0, 12 * MONTH_S, NULL, 0},
    {"leaseConnection", ATOLL_FIELD_BOOL, AT(options.lifetime.connection_lease), 0, 0, NULL, 0},
    {"cpuSeconds", ATOLL_FIELD_CEIL, AT(options.lifetime.cpu_budget_s), 0, 1e9, NULL, 0},
    {"outputBytes", ATOLL_FIELD_U64, AT(options.lifetime.output_budget_bytes), 0, 1e15, NULL, 0},
    {"onDeadline", ATOLL_FIELD_STRING, AT(on_deadline), 1, 32, NULL, 0},
    {0},
};
#undef AT

#define AT(member) offsetof(struct atoll_rest_login, member)
const struct atoll_field atoll_rest_login_fields[] = {
    {"username", ATOLL_FIELD_STRING, AT(username), 0, 255, NULL, 0},
    {"password", ATOLL_FIELD_STRING, AT(password), 0, 4096, NULL, 0},
    {0},
};
#undef AT

#define AT(member) offsetof(struct atoll_rest_service, member)
static const struct atoll_field e2b_fields[] = {
    {"apiKey", ATOLL_FIELD_STRING, AT(api_key), 1, 256, NULL, 0},
    {"templateId", ATOLL_FIELD_STRING, AT(template_id), 1, 64, NULL, 0},
    {"region", ATOLL_FIELD_STRING, AT(region), 1, 63, NULL, 0},
    {0},
};
static const struct atoll_field daytona_fields[] = {
    {"apiKey", ATOLL_FIELD_STRING, AT(api_key), 1, 256, NULL, 0},
    {"snapshot", ATOLL_FIELD_STRING, AT(template_id), 1, 64, NULL, 0},
    {"target", ATOLL_FIELD_STRING, AT(region), 1, 63, NULL, 0},
    {0},
};
static const struct atoll_field vercel_fields[] = {
    {"token", ATOLL_FIELD_STRING, AT(api_key), 1, 128, NULL, 0},
    {"teamId", ATOLL_FIELD_STRING, AT(team), 1, 63, NULL, 0},
    {"projectId", ATOLL_FIELD_STRING, AT(project), 1, 63, NULL, 0},
    {"source", ATOLL_FIELD_STRING, AT(template_id), 1, 64, NULL, 0},
    {"region", ATOLL_FIELD_STRING, AT(region), 1, 63, NULL, 0},
    {0},
};
#undef AT

#define AT(member) offsetof(struct atoll_rest_disk, member)
static const struct atoll_field disk_fields[] = {
    {"kind", ATOLL_FIELD_STRING, AT(kind), 1, 16, NULL, 0},
    {0},
};
#undef AT

#define AT(member) offsetof(struct atoll_rest_sandbox, member)
const struct atoll_field atoll_rest_sandbox_fields[] = {
    {"template", ATOLL_FIELD_STRING, AT(options.template_name), 1, ATOLL_TEMPLATE_REFERENCE_MAX,
     NULL, 0},
    {"name", ATOLL_FIELD_STRING, AT(options.name), 1, 64, NULL, 0},
    {"workdir", ATOLL_FIELD_STRING, AT(options.workdir), 1, 1024, NULL, 0},
    {"readOnly", ATOLL_FIELD_BOOL, AT(options.read_only), 0, 0, NULL, 0},
    {"checkpoints", ATOLL_FIELD_STRING, AT(checkpoints), 1, 32, NULL, 0},
    {"disk", ATOLL_FIELD_OBJECT, AT(disk), 0, 0, disk_fields, 0},
    {"getOrCreate", ATOLL_FIELD_BOOL, AT(get_or_create), 0, 0, NULL, 0},
    {"limits", ATOLL_FIELD_OBJECT, AT(options.limits), 0, 0, limit_fields, 0},
    {"env", ATOLL_FIELD_ENV, AT(options.env), 0, 0, NULL, 0},
    {"metadata", ATOLL_FIELD_JSON, AT(metadata), 0, 0, NULL, 0},
    {"networkMode", ATOLL_FIELD_STRING, AT(network_mode), 1, 32, NULL, 0},
    {"network", ATOLL_FIELD_JSON, AT(network), 0, 0, NULL, 0},
    {"toolPolicy", ATOLL_FIELD_JSON, AT(tool_policy), 0, 0, NULL, 0},
    {"networkMbps", ATOLL_FIELD_U32, AT(network_mbps), 0, 1e6, NULL, 0},
    {"waive", ATOLL_FIELD_STRINGS, AT(waive), 0, 16, NULL, 0},
    {"lifetime", ATOLL_FIELD_OBJECT, AT(options.lifetime), 0, 0, lifetime_fields, 0},
    {"persistent", ATOLL_FIELD_BOOL, AT(options.lifetime.persistent), 0, 0, NULL, 0},
    {"provider", ATOLL_FIELD_STRING, AT(options.provider), 1, 64, NULL, 0},
    {"image", ATOLL_FIELD_STRING, AT(options.image), 1, 255, NULL, 0},
    {"isolation", ATOLL_FIELD_STRING, AT(options.isolation), 1, 32, NULL, 0},
    {"language", ATOLL_FIELD_STRING, AT(options.language), 1, 32, NULL, 0},
    {"gpus", ATOLL_FIELD_U32, AT(options.gpus), 0, 64, NULL, 0},
    {"registry", ATOLL_FIELD_OBJECT, AT(registry), 0, 0, atoll_rest_login_fields, AT(has_registry)},
    {"e2b", ATOLL_FIELD_OBJECT, AT(e2b), 0, 0, e2b_fields, 0},
    {"daytona", ATOLL_FIELD_OBJECT, AT(daytona), 0, 0, daytona_fields, 0},
    {"vercel", ATOLL_FIELD_OBJECT, AT(vercel), 0, 0, vercel_fields, 0},
    {"volumes", ATOLL_FIELD_JSON, AT(volumes), 0, 0, NULL, 0},
    {"recreate", ATOLL_FIELD_BOOL, AT(options.recreate), 0, 0, NULL, 0},
    {"artifacts", ATOLL_FIELD_STRINGS, AT(options.artifacts), 0, ATOLL_ARTIFACTS_PATTERNS_MAX, NULL,
     0},
    {0},
};
#undef AT

#define AT(member) offsetof(struct atoll_rest_size, member)
const struct atoll_field atoll_rest_size_fields[] = {
    {"cols", ATOLL_FIELD_U32, AT(cols), 1, 65535, NULL, 0},
    {"rows", ATOLL_FIELD_U32, AT(rows), 1, 65535, NULL, 0},
    {0},
};
#undef AT

#define AT(member) offsetof(struct atoll_rest_signal, member)
const struct atoll_field atoll_rest_signal_fields[] = {
    {"signal", ATOLL_FIELD_JSON, AT(signal), 0, 0, NULL, 0},
    {"tree", ATOLL_FIELD_BOOL, AT(tree), 0, 0, NULL, 0},
    {0},
};
#undef AT

#define AT(member) offsetof(struct atoll_rest_exec, member)
const struct atoll_field atoll_rest_exec_fields[] = {
    {"cmd", ATOLL_FIELD_STRINGS, AT(argv), 1, 65536, NULL, 0},
    {"user", ATOLL_FIELD_STRING, AT(user), 0, 64, NULL, 0},
    {"cwd", ATOLL_FIELD_STRING, AT(cwd), 0, 4095, NULL, 0},
    {"env", ATOLL_FIELD_ENV, AT(env), 0, 0, NULL, 0},
    {"timeoutSeconds", ATOLL_FIELD_MILLI, AT(timeout_ms), 0, MONTH_S, NULL, 0},
    {"stdin", ATOLL_FIELD_JSON, AT(stdin_json), 0, 0, NULL, 0},
    {"pty", ATOLL_FIELD_OBJECT, AT(pty), 0, 0, atoll_rest_size_fields, AT(has_pty)},
    {0},
};
#undef AT

static int check_network(const struct atoll_rest_sandbox *s, struct atoll_body *body,
                         struct atoll_options *o, struct atoll_error *err)
{
    const struct atoll_network_request request = {.mode = s->network_mode,
                                                  .network = s->network,
                                                  .mbps = s->network_mbps ? s->network_mbps
                                                                          : s->limits_mbps};
    char *json = NULL;
    int r;

    if (s->limits_mbps && request.mbps != s->limits_mbps)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "networkMbps and limits.networkMbps differ: give one of them");
    r = atoll_network_request_check(&request, &o->network, &json, err);
    if (json)
        atoll_body_take(body, json);
    o->network_json = json;
    o->network_is_given = s->network_mode || json_is_object(s->network);
    return r;
}

static int check_tool_policy(const struct atoll_rest_sandbox *s, struct atoll_body *body,
                             struct atoll_options *o, struct atoll_error *err)
{
    struct atoll_guard_policy *policy = NULL;
    char *json;
    int r;

    if (!s->tool_policy || json_is_null(s->tool_policy))
        return 0;
    r = atoll_guard_policy_parse(s->tool_policy, &policy, err);
    if (r < 0)
        return r;
    (void)atoll_guard_policy_free(policy);
    json = atoll_json_dump(s->tool_policy, JSON_COMPACT);
    if (!json)
        return atoll_fields_no_memory(err);
    atoll_body_take(body, json);
    o->tool_policy_json = json;
    return 0;
}

/* Checks the syntax of an image name; whether the image exists is known only after the pull. */
static int check_image(const struct atoll_options *s, struct atoll_error *err)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/:@";

    if (!s->image)
        return 0;
    if (s->template_name)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "template and image exclude each other: name one of them");
    if (s->image[strspn(s->image, allowed)] || strchr("._-/:@", s->image[0]) ||
        strstr(s->image, ".."))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "image must be the name of a container image, such as debian:12 (got "
                          "\"%.100s\")",
                          s->image);
    return 0;
}

static bool has_line_end(const char *text)
{
    return text && text[strcspn(text, "\r\n")];
}

/* What a request says to a service. The names are those of its fields. */
static int check_service(const char *kind, const char *template_field, const char *region_field,
                         const struct atoll_rest_service *s, struct atoll_options *o,
                         struct atoll_error *err)
{
    if (!s->api_key && !s->template_id && !s->region)
        return 0;
    if (o->service)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "%s excludes %s", kind,
                          o->service);
    if (has_line_end(s->api_key))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "%s.apiKey must be one line",
                          kind);
    if (s->template_id && (o->template_name || o->image))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "%s.%s excludes template and image", kind, template_field);
    if (s->template_id && !o->provider)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "%s.%s needs \"provider\": the name of a provider of kind %s", kind,
                          template_field, kind);
    if (has_line_end(s->region))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "%s.%s must be one line", kind,
                          region_field);
    if (s->template_id)
        o->template_name = s->template_id;
    o->service = kind;
    o->region = s->region;
    o->credential = s->api_key;
    return 0;
}

static bool is_plain(const char *text)
{
    return text[strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")] ==
           '\0';
}

/* A token of Vercel names no account by itself: team and project follow it in the credential, as
 * provider/remote/account.h reads it. */
static int check_vercel(const struct atoll_rest_service *s, struct atoll_body *body,
                        struct atoll_options *o, struct atoll_error *err)
{
    const char *team = s->team ? s->team : "-", *project = s->project ? s->project : "-";
    char *text;
    int r = check_service("vercel", "source", "region", s, o, err);

    if (r < 0)
        return r;
    if ((s->team || s->project) && !s->api_key)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "vercel.teamId and vercel.projectId need vercel.token");
    if (!is_plain(team) || !is_plain(project))
        return atoll_fail(
            err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
            "vercel.teamId and vercel.projectId must be of letters, digits, '-' and '_'");
    if (!s->api_key)
        return 0;
    if (strchr(s->api_key, ' '))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "vercel.token must not have spaces");
    if (asprintf(&text, "%s %s %s", s->api_key, team, project) < 0)
        return atoll_fields_no_memory(err);
    atoll_body_take(body, text);
    o->credential = text;
    return 0;
}

static int check_waive(const char *const *names, uint32_t *ret_waived, struct atoll_error *err)
{
    for (; names && *names; names++) {
        uint32_t limit = atoll_limit_by_name(*names);
        if (limit == 0)
            return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                              "waive may contain memory, cpu, pids, disk and all (got \"%.48s\")",
                              *names);
        *ret_waived |= limit;
    }
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
    if (r < 0)
        return r;
    if (strlen(*ret_text) > ATOLL_REST_METADATA_MAX)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, E2BIG,
                          "metadata must be at most %zu KiB", ATOLL_REST_METADATA_MAX / 1024);
    return 0;
}

static int check_checkpoints(const char *text, bool *ret, struct atoll_error *err)
{
    *ret = text && strcmp(text, "command") == 0;
    return !text || *ret || strcmp(text, "none") == 0
               ? 0
               : atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                            "checkpoints must be \"command\" or \"none\"");
}

const char *const atoll_rest_disk_kinds[ATOLL_DISK_CHOICES] = {
    [ATOLL_DISK_ANY] = "auto",
    [ATOLL_DISK_IN_POOL] = "cow",
    [ATOLL_DISK_IN_MEMORY] = "memory",
    [ATOLL_DISK_AS_IMAGE] = "image",
};

static int check_disk(const char *kind, enum atoll_disk_choice *ret, struct atoll_error *err)
{
    for (size_t i = 0; i < ATOLL_DISK_CHOICES; i++)
        if (!kind || strcmp(kind, atoll_rest_disk_kinds[i]) == 0) {
            *ret = (enum atoll_disk_choice)i;
            return 0;
        }
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                      "disk.kind must be auto, cow, memory or image (got \"%s\")", kind);
}

static int check_deadline(const char *word, enum atoll_at_deadline *ret, struct atoll_error *err)
{
    if (word && strcmp(word, "pause") == 0)
        *ret = ATOLL_DEADLINE_PAUSE;
    else if (word && strcmp(word, "destroy") != 0)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "lifetime.onDeadline must be \"destroy\" or \"pause\" (got \"%s\")",
                          word);
    return 0;
}

int atoll_rest_sandbox_read(const struct atoll_rest_sandbox *s, struct atoll_body *body,
                            struct atoll_options *ret_options, struct atoll_error *err)
{
    struct atoll_options o = s->options;
    int r = check_network(s, body, &o, err);

    if (r == 0)
        r = check_tool_policy(s, body, &o, err);

    if (r == 0 && o.name)
        r = atoll_name_check(o.name, err);
    if (r == 0 && s->get_or_create && !o.name)
        r = atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "getOrCreate needs a name");
    if (r == 0 && o.workdir && o.workdir[0] != '/')
        r = atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                       "workdir must be an absolute path (got \"%.100s\")", o.workdir);
    if (r == 0)
        r = check_service("e2b", "templateId", "region", &s->e2b, &o, err);
    if (r == 0)
        r = check_service("daytona", "snapshot", "target", &s->daytona, &o, err);
    if (r == 0)
        r = check_vercel(&s->vercel, body, &o, err);
    if (r == 0)
        r = check_image(&o, err);
    if (r == 0 && o.template_name && !atoll_template_is_reference(o.template_name))
        r = atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                       "template must be the name of a template (got \"%.64s\")", o.template_name);
    if (r == 0)
        r = check_waive(s->waive, &o.waived, err);
    if (r == 0)
        r = check_metadata(s->metadata, body, &o.metadata_json, err);
    if (r == 0)
        r = check_deadline(s->on_deadline, &o.lifetime.at_deadline, err);
    if (r == 0)
        r = check_checkpoints(s->checkpoints, &o.checkpoints, err);
    if (r == 0)
        r = check_disk(s->disk.kind, &o.disk_choice, err);
    if (r == 0)
        r = atoll_rest_mounts_check(s, body, &o, err);
    if (r == 0)
        r = atoll_artifacts_check(o.artifacts, err);
    if (r == 0)
        *ret_options = o;
    return r;
}

int atoll_rest_sandbox_check(const struct atoll_rest_sandbox *s, struct atoll_body *body,
                             struct atoll_options *ret_options, struct atoll_error *err)
{
    int r = atoll_rest_sandbox_read(s, body, ret_options, err);

    return r == 0 ? atoll_guard_policy_check(s->tool_policy, err) : r;
}

static int check_input(const json_t *value, struct atoll_rest_input *ret, struct atoll_error *err)
{
    *ret = (struct atoll_rest_input){0};
    if (!value || json_is_false(value))
        return 0;
    if (json_is_true(value)) {
        ret->open = true;
    } else if (json_is_string(value)) {
        ret->text = json_string_value(value);
        ret->len = json_string_length(value);
    } else {
        return atoll_fields_refuse(err, "", "stdin", value, "a string, true or false");
    }
    return 0;
}

int atoll_rest_exec_check(const struct atoll_rest_exec *e, struct atoll_exec_start *ret_start,
                          struct atoll_rest_input *ret_input, struct atoll_error *err)
{
    struct atoll_exec_start start = {
        .argv = e->argv,
        .is_command = true,
        .env = e->env,
        .user = e->user && *e->user ? e->user : NULL,
        .cwd = e->cwd && *e->cwd ? e->cwd : NULL,
        .timeout_ms = e->timeout_ms,
        .pty = e->has_pty,
        .cols = e->pty.cols ? e->pty.cols : 80,
        .rows = e->pty.rows ? e->pty.rows : 24,
    };
    int r;

    if (e->argv && !*e->argv[0])
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "cmd[0] must not be empty");
    r = check_input(e->stdin_json, ret_input, err);
    if (r < 0)
        return r;
    start.stdin_open = ret_input->open || ret_input->text;
    *ret_start = start;
    return 0;
}

int atoll_rest_size_check(const struct atoll_rest_size *size, struct atoll_error *err)
{
    if (size->cols == 0 || size->rows == 0)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "cols and rows are both needed");
    return 0;
}

int atoll_rest_signal_check(const struct atoll_rest_signal *request, int *ret_signo,
                            struct atoll_error *err)
{
    const json_t *value = request->signal;
    int signo = 0;

    if (json_is_integer(value) && json_integer_value(value) >= 1 && json_integer_value(value) <= 64)
        signo = (int)json_integer_value(value);
    else if (json_is_string(value))
        signo = atoll_view_signal_number(json_string_value(value));
    if (!value)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "signal is missing");
    if (signo == 0)
        return atoll_fields_refuse(err, "", "signal", value,
                                   "a name such as \"SIGTERM\" or a number from 1 to 64");
    *ret_signo = signo;
    return 0;
}

void atoll_rest_input_send(struct atoll_exec *exec, const struct atoll_rest_input *input)
{
    if (input->text)
        atoll_exec_feed(exec, (const uint8_t *)input->text, input->len);
}

bool atoll_rest_input_unwanted(const struct atoll_error *error)
{
    return error->kind == ATOLL_ERR_FAILED_PRECONDITION || error->kind == ATOLL_ERR_NOT_FOUND;
}
