/*
 * Building a template: POST /v3/templates gives the build an id, and POST …/builds/{id} sends its
 * steps and starts it. The build itself is the engine's.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "api/api_internal.h"
#include "api/e2b/e2b_internal.h"
#include "api/e2b/template_requests.h"
#include "api/e2b/template_steps.h"
#include "api/kit/network_mode.h"
#include "base/text.h"
#include "engine/build/build.h"
#include "engine/json_memory.h"
#include "registry/environment_build.h"

#define MIB UINT64_C(1048576)
#define TAGS_MAX 15
#define NAME_TEXT_MAX 256
/* Images by E2B whose content a template of this daemon has. */
#define OWN_IMAGES "e2bdev/"

/* The request. */

struct wanted {
    const char *name, *alias;
    const char *const *tags;
    uint32_t cpu_count;
    uint64_t memory_bytes;
};

#define AT(member) offsetof(struct wanted, member)
static const struct atoll_field wanted_fields[] = {
    {"name", ATOLL_FIELD_STRING, AT(name), 1, NAME_TEXT_MAX, NULL, 0},
    {"alias", ATOLL_FIELD_STRING, AT(alias), 1, NAME_TEXT_MAX, NULL, 0},
    {"tags", ATOLL_FIELD_STRINGS, AT(tags), 0, TAGS_MAX, NULL, 0},
    {"cpuCount", ATOLL_FIELD_U32, AT(cpu_count), 1, 1024, NULL, 0},
    {"memoryMB", ATOLL_FIELD_MIB, AT(memory_bytes), 16, 1048576, NULL, 0},
    ATOLL_FIELDS_TOLERANT,
    {0},
};
#undef AT

static int refuse_tag(struct atoll_error *err, const char *tag)
{
    return atoll_fail(
        err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
        "a tag has lower-case letters, digits, \"-\", \"_\" and \".\" and is not a UUID "
        "(got \"%.80s\")",
        tag);
}

/* Adds a tag to a text with spaces between, each once. */
static void add_tag(char *tags, size_t cap, const char *tag)
{
    const char *stored = atoll_e2b_tag_stored(tag);
    size_t n = strlen(tags), len = strlen(stored);

    for (const char *p = strstr(tags, stored); p; p = strstr(p + 1, stored))
        if ((p == tags || p[-1] == ' ') && (p[len] == ' ' || !p[len]))
            return;
    (void)snprintf(tags + n, cap - n, "%s%s", n ? " " : "", stored);
}

static int check_wanted(const struct wanted *w, struct atoll_e2b_name *name,
                        struct atoll_error *err)
{
    const char *text = w->name ? w->name : w->alias;

    if (!text)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "name is missing");
    if (atoll_e2b_name_parse(text, name) < 0 || !atoll_text_is_name(name->alias))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "the name of a template has up to 64 letters, digits, \"-\", \"_\" and "
                          "\".\", and may be followed by \":\" and a tag (got \"%.80s\")",
                          text);
    for (size_t i = 0; w->tags && w->tags[i]; i++)
        if (!atoll_e2b_tag_is_valid(w->tags[i]))
            return refuse_tag(err, w->tags[i]);
    return 0;
}

/* A template of all tenants would hide that of the tenant. */
static int check_free(const struct atoll_api_call *call, const struct atoll_e2b_name *name,
                      struct atoll_error *err)
{
    struct atoll_template_view view;

    if (!atoll_templates_find(call->engine, call->caller.tenant, name->alias, &view) ||
        (view.owner && *view.owner))
        return 0;
    return atoll_fail(err, ATOLL_ERR_ALREADY_EXISTS, EEXIST,
                      "%s is the name of a shared template: choose another", name->alias);
}

static void view_tags(struct atoll_json_out *out, const char *key, const char *tags)
{
    char copy[sizeof(((struct atoll_e2b_request *)NULL)->tags)], *rest = copy, *tag;

    (void)snprintf(copy, sizeof(copy), "%s", tags);
    atoll_json_open(out, key, '[');
    while ((tag = strsep(&rest, " ")))
        atoll_json_text(out, NULL, atoll_e2b_tag_shown(tag));
    atoll_json_close(out, ']');
}

static void view_one_name(struct atoll_json_out *out, const char *key, const char *name)
{
    atoll_json_open(out, key, '[');
    atoll_json_text(out, NULL, name);
    atoll_json_close(out, ']');
}

static void reply_requested(struct atoll_api_call *call, const struct atoll_e2b_request *q)
{
    struct atoll_buf buf;
    struct atoll_json_out out;

    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '{');
    atoll_json_text(&out, "templateID", q->name);
    atoll_json_text(&out, "buildID", q->id);
    atoll_json_bool(&out, "public", false);
    view_one_name(&out, "names", q->name);
    view_one_name(&out, "aliases", q->name);
    view_tags(&out, "tags", q->tags);
    atoll_json_close(&out, '}');
    atoll_api_reply(call, 202, &out);
}

void atoll_e2b_template_request(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    struct wanted w = {0};
    struct atoll_e2b_request *q;
    struct atoll_e2b_name name;
    struct atoll_error error;
    struct atoll_body body;
    int r = atoll_e2b_decode(&body, bytes, n, wanted_fields, &w, &error);

    if (r < 0) {
        atoll_api_fail(call, &error);
        return;
    }
    if (check_wanted(&w, &name, &error) < 0 || check_free(call, &name, &error) < 0) {
        atoll_body_done(&body);
        atoll_api_fail(call, &error);
        return;
    }
    q = atoll_e2b_request_new(atoll_e2b_plane_of(call->api), call->caller.tenant);
    (void)snprintf(q->name, sizeof(q->name), "%s", name.alias);
    if (*name.tag)
        add_tag(q->tags, sizeof(q->tags), name.tag);
    for (size_t i = 0; w.tags && w.tags[i]; i++)
        add_tag(q->tags, sizeof(q->tags), w.tags[i]);
    if (!*q->tags)
        add_tag(q->tags, sizeof(q->tags), "default");
    q->cpu_millis = w.cpu_count * 1000;
    q->memory_bytes = w.memory_bytes;
    atoll_body_done(&body);
    reply_requested(call, q);
}

/* The start. */

#define AT(member) offsetof(struct atoll_e2b_definition, member)
static const struct atoll_field definition_fields[] = {
    {"fromImage", ATOLL_FIELD_STRING, AT(from_image), 0, NAME_TEXT_MAX, NULL, 0},
    {"fromTemplate", ATOLL_FIELD_STRING, AT(from_template), 0, NAME_TEXT_MAX, NULL, 0},
    {"fromImageRegistry", ATOLL_FIELD_JSON, AT(registry), 0, 0, NULL, 0},
    {"steps", ATOLL_FIELD_JSON, AT(steps), 0, 0, NULL, 0},
    {"force", ATOLL_FIELD_BOOL, AT(force), 0, 0, NULL, 0},
    {"startCmd", ATOLL_FIELD_STRING, AT(start_cmd), 0, ATOLL_E2B_COMMAND_MAX, NULL, 0},
    {"readyCmd", ATOLL_FIELD_STRING, AT(ready_cmd), 0, ATOLL_E2B_COMMAND_MAX, NULL, 0},
    ATOLL_FIELDS_TOLERANT,
    {0},
};
#undef AT

struct base {
    struct atoll_registry_login login; /* for the image; username "": none */
    struct atoll_e2b_template template;
    struct atoll_e2b_base found;
    char built[ATOLL_ENVIRONMENT_TEMPLATE_MAX];
    json_t *config; /* owned; NULL: none */
};

static void base_done(struct base *b)
{
    explicit_bzero(&b->login, sizeof(b->login));
    json_decref(b->config);
}

static const char *config_text(const struct base *b, const char *name)
{
    return json_string_value(json_object_get(b->config, name));
}

static void use_config(struct base *b, const struct atoll_template_view *view)
{
    b->config = atoll_json_load_own(view->config_json);
    b->found.user = config_text(b, "User");
    b->found.workdir = config_text(b, "WorkingDir");
    b->found.has_user = b->found.user && strcmp(b->found.user, "user") == 0;
}

/* The template that was made for an environment. */
static int use_built(const struct atoll_api_call *call, struct base *b, struct atoll_error *err)
{
    struct atoll_template_view view;

    if (!atoll_environment_built(call->engine, &b->template.environment, b->built) ||
        !atoll_templates_find(call->engine, call->caller.tenant, b->built, &view))
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, ENOENT,
                          "%s is built when it is first used: create a sandbox from it once",
                          b->template.environment.name);
    b->found.reference = b->built;
    use_config(b, &view);
    return 0;
}

/* The template is the base: its user and directory stay. */
static int use_template(const struct atoll_api_call *call, const char *asked, struct base *b,
                        struct atoll_error *err)
{
    struct atoll_e2b_template *t = &b->template;
    int r = atoll_e2b_template_find(call, asked, t, err);

    if (r < 0)
        return r;
    if (t->is_environment && atoll_environment_is_built(&t->environment))
        return use_built(call, b, err);
    b->found.reference = t->name ? t->name : t->environment.image;
    if (t->has_view)
        use_config(b, &t->view);
    return 0;
}

/* E2B's images are templates here, if there is one of that name: "e2bdev/base" is "base". */
static bool use_own_image(const struct atoll_api_call *call, const char *image, struct base *b)
{
    char name[NAME_TEXT_MAX];

    if (strncmp(image, OWN_IMAGES, strlen(OWN_IMAGES)) != 0)
        return false;
    (void)snprintf(name, sizeof(name), "%s", image + strlen(OWN_IMAGES));
    name[strcspn(name, ":@")] = '\0';
    return use_template(call, name, b, NULL) == 0;
}

/* The credentials of fromImage(), by their type: a user and a password, or a service account of Google,
 * which is the password of the user _json_key. */
static int read_login(const json_t *registry, struct atoll_registry_login *ret,
                      struct atoll_error *err)
{
    const char *type = json_string_value(json_object_get(registry, "type"));
    const char *user = json_string_value(json_object_get(registry, "username"));
    const char *password = json_string_value(json_object_get(registry, "password"));

    if (!registry || json_is_null(registry))
        return 0;
    if (type && strcmp(type, "gcp") == 0) {
        user = "_json_key";
        password = json_string_value(json_object_get(registry, "serviceAccountJson"));
    } else if (type && strcmp(type, "aws") == 0) {
        return atoll_fail(err, ATOLL_ERR_UNIMPLEMENTED, EOPNOTSUPP,
                          "keys of AWS are not supported: give the username AWS and the password "
                          "that `aws ecr get-login-password` prints");
    }
    if (!user || !*user || !password ||
        atoll_text_copy(ret->username, sizeof(ret->username), user) < 0 ||
        atoll_text_copy(ret->password, sizeof(ret->password), password) < 0)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "fromImageRegistry needs a username and a password of at most %zu bytes, "
                          "or a serviceAccountJson",
                          sizeof(ret->password) - 1);
    return 0;
}

static int find_base(const struct atoll_api_call *call, const struct atoll_e2b_definition *d,
                     struct base *b, struct atoll_error *err)
{
    const char *image = d->from_image && *d->from_image ? d->from_image : OWN_IMAGES "base";

    if (d->from_template && *d->from_template)
        return use_template(call, d->from_template, b, err);
    if (use_own_image(call, image, b))
        return 0;
    b->found.reference = image;
    return read_login(d->registry, &b->login, err);
}

/* The definition as JSON, for the version. */
static char *definition_text(const struct atoll_e2b_definition *d)
{
    json_t *root = json_object();
    char *text;

    if (d->from_template && *d->from_template)
        (void)json_object_set_new(root, "fromTemplate", json_string(d->from_template));
    else if (d->from_image)
        (void)json_object_set_new(root, "fromImage", json_string(d->from_image));
    if (d->steps)
        (void)json_object_set(root, "steps", (json_t *)d->steps);
    text = atoll_json_dump(root, JSON_COMPACT);
    json_decref(root);
    return text;
}

static const char *or_null(const char *text)
{
    return text && *text ? text : NULL;
}

static int start_make(const struct atoll_api_call *call, const struct atoll_e2b_request *q,
                      const struct atoll_e2b_definition *d, const struct base *base,
                      const struct atoll_e2b_recipe *made, struct atoll_error *err)
{
    ATOLL_AUTOFREE struct atoll_make_context *contexts =
        calloc(made->context_count + 1, sizeof(*contexts));
    ATOLL_AUTOFREE char *text = definition_text(d);
    struct atoll_make_request request = {
        .tenant = q->tenant,
        .owner = q->tenant,
        .name = q->name,
        .tags = q->tags,
        .id = q->id,
        .recipe = made->recipe,
        .source = "steps",
        .definition = text,
        .contexts = contexts,
        .context_count = made->context_count,
        .login_image = base->found.reference,
        .login = *base->login.username ? &base->login : NULL,
        .network = atoll_api_network_mode(call),
        .limits = {.cpu_millis = q->cpu_millis, .memory_bytes = q->memory_bytes},
        .no_cache = made->force,
        .start_cmd = or_null(d->start_cmd),
        .ready_cmd = or_null(d->ready_cmd),
        .cpu_millis = q->cpu_millis,
        .memory_bytes = q->memory_bytes,
    };

    if (!contexts || !text)
        return atoll_fields_no_memory(err);
    for (size_t i = 0; i < made->context_count; i++)
        contexts[i] = (struct atoll_make_context){made->contexts[i], made->contexts[i]};
    return atoll_make_start(call->engine, &request, NULL, err);
}

/* Clients learn from the build that its base is missing, and show where their program names it. */
static void fail_base(struct atoll_api_call *call, struct atoll_e2b_request *q,
                      const struct atoll_error *error)
{
    q->failed = true;
    q->error = *error;
    atoll_api_reply_empty(call, 202);
}

static void start(struct atoll_api_call *call, struct atoll_e2b_request *q,
                  const struct atoll_e2b_definition *d)
{
    struct atoll_e2b_recipe made;
    struct atoll_error error;
    struct base base = {0};
    int r = find_base(call, d, &base, &error);

    q->started = true;
    if (r < 0) {
        fail_base(call, q, &error);
        base_done(&base);
        return;
    }
    r = atoll_e2b_recipe_make(d, &base.found, &made, &error);
    if (r == 0) {
        r = start_make(call, q, d, &base, &made, &error);
        atoll_e2b_recipe_done(&made);
    }
    base_done(&base);
    if (r < 0) {
        q->started = false;
        atoll_api_fail(call, &error);
    } else {
        atoll_api_reply_empty(call, 202);
    }
}

void atoll_e2b_template_start(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    struct atoll_e2b_definition d = {0};
    struct atoll_e2b_request *q = atoll_e2b_request_find(atoll_e2b_plane_of(call->api),
                                                         call->caller.tenant, call->params.path);
    struct atoll_error error;
    struct atoll_body body;

    if (!q || q->started) {
        (void)atoll_fail(
            &error, q ? ATOLL_ERR_FAILED_PRECONDITION : ATOLL_ERR_NOT_FOUND, q ? EALREADY : ENOENT,
            q ? "build '%.64s' was started already" : "build '%.64s' not found", call->params.path);
        atoll_api_fail(call, &error);
        return;
    }
    if (atoll_e2b_decode(&body, bytes, n, definition_fields, &d, &error) < 0) {
        atoll_api_fail(call, &error);
        return;
    }
    start(call, q, &d);
    atoll_body_done(&body);
}
