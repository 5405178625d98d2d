#include "registry/environment_build.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/buf.h"
#include "base/memory.h"
#include "base/text.h"
#include "engine/build/build.h"
#include "engine/json_memory.h"
#include "engine/network/request.h"
#include "image/dockerfile.h"
#include "image/packages.h"
#include "image/stages.h"

#define PREFIX "env-"
#define NAME_MAX_BYTES ATOLL_ENVIRONMENT_TEMPLATE_MAX
#define TEXT_MAX ((size_t)256 * 1024)
#define LOG_TAIL 8192
#define ALL_TENANTS ""

/* A request that waits for a build. */
struct building {
    struct atoll_engine *engine;
    struct atoll_make_watch *watch;
    char id[ATOLL_VERSION_ID_LEN + 1]; /* of the build */
    char name[NAME_MAX_BYTES], environment[NAME_MAX_BYTES];
    atoll_environment_built_fn *done;
    void *arg;
};

bool atoll_environment_is_built(const struct atoll_environment *environment)
{
    return environment->install || environment->dockerfile ||
           json_object_size(environment->packages) > 0;
}

static void write_name(const struct atoll_environment *environment, char out[NAME_MAX_BYTES])
{
    (void)snprintf(out, NAME_MAX_BYTES, PREFIX "%.60s", environment->name);
}

bool atoll_environment_built(struct atoll_engine *engine,
                             const struct atoll_environment *environment,
                             char ret_name[static ATOLL_ENVIRONMENT_TEMPLATE_MAX])
{
    struct atoll_template_view view;

    write_name(environment, ret_name);
    return atoll_templates_find(engine, ALL_TENANTS, ret_name, &view) &&
           !(view.owner && *view.owner);
}

/* The default user of a template or image that is here; "" otherwise. */
static void find_user(struct atoll_engine *engine, const char *base, char *out, size_t cap)
{
    struct atoll_template_view view;
    json_t *config = NULL;
    const char *user;

    if (atoll_templates_find(engine, ALL_TENANTS, base, &view) && view.config_json)
        config = atoll_json_load_own(view.config_json);
    user = json_string_value(json_object_get(config, "User"));
    (void)snprintf(out, cap, "%s", user && !strpbrk(user, " \t\r\n") ? user : "");
    json_decref(config);
}

/* Runs the script of the environment as root. */
static int write_install(const char *base, const char *user, const char *script,
                         struct atoll_buf *out)
{
    if (atoll_buf_appendf(out, "FROM %s\nUSER root\nRUN [\"/bin/sh\", \"-ec\", ", base) < 0 ||
        atoll_text_json_quote(out, script, strlen(script)) < 0 || atoll_buf_appends(out, "]\n") < 0)
        return -ENOMEM;
    return *user ? atoll_buf_appendf(out, "USER %s\n", user) : 0;
}

/* The Dockerfile that is built. */
static int write_dockerfile(struct atoll_engine *engine, const struct atoll_environment *e,
                            struct atoll_buf *out)
{
    char user[NAME_MAX_BYTES];
    const char *base = e->image ? e->image : atoll_environment_template(e, engine);

    if (e->dockerfile)
        return atoll_buf_appends(out, e->dockerfile);
    find_user(engine, base, user, sizeof(user));
    if (e->install)
        return write_install(base, user, e->install, out);
    return atoll_packages_dockerfile(out, &(struct atoll_packages_base){base, user, e->env},
                                     e->packages);
}

/* The digests of the templates that it begins with, as comments: a new version of them is another
 * definition. */
static int write_bases(struct atoll_engine *engine, const struct atoll_recipe *recipe,
                       struct atoll_buf *out, struct atoll_error *err)
{
    const struct atoll_recipe_inputs inputs = {0};
    struct atoll_template_view view;
    struct atoll_recipe_plan *plan;
    int r = atoll_recipe_plan(recipe, &inputs, &plan, err);

    if (r < 0)
        return r;
    for (size_t i = 0; r == 0 && i < plan->stage_count; i++) {
        const struct atoll_recipe_plan_stage *stage = &plan->stages[i];
        if (stage->needed && stage->base.kind == ATOLL_RECIPE_FROM_IMAGE &&
            atoll_templates_find(engine, ALL_TENANTS, stage->base.image, &view) && *view.digest)
            r = atoll_buf_appendf(out, "# %s has the digest %s\n", stage->base.image, view.digest);
    }
    atoll_recipe_plan_free(plan);
    return r < 0 ? atoll_fail_errno(err, -r, "definition") : 0;
}

/* Fills the text of the definition, which says when a template can be used again, and its recipe. */
static int define(struct atoll_engine *engine, const struct atoll_environment *e,
                  struct atoll_buf *text, struct atoll_recipe **ret, struct atoll_error *err)
{
    int r = write_dockerfile(engine, e, text);

    if (r < 0)
        return atoll_fail_errno(err, -r, "definition");
    r = atoll_dockerfile_parse(atoll_buf_str(text), atoll_buf_size(text), ret, err);
    if (r < 0)
        return atoll_wrap(err, "environment %s", e->name);
    r = write_bases(engine, *ret, text, err);
    if (r < 0)
        *ret = atoll_recipe_free(*ret);
    return r;
}

static bool is_current(struct atoll_engine *engine, const char *name, const char *definition)
{
    struct atoll_template_view view;

    return atoll_templates_find(engine, ALL_TENANTS, name, &view) && !(view.owner && *view.owner) &&
           view.definition && strcmp(view.definition, definition) == 0;
}

bool atoll_environment_is_current(struct atoll_engine *engine,
                                  const struct atoll_environment *environment)
{
    char name[NAME_MAX_BYTES];
    struct atoll_recipe *recipe = NULL;
    struct atoll_buf text;
    struct atoll_error error;
    bool current;

    write_name(environment, name);
    atoll_buf_init(&text, TEXT_MAX);
    current = define(engine, environment, &text, &recipe, &error) == 0 &&
              is_current(engine, name, atoll_buf_str(&text));
    atoll_recipe_free(recipe);
    atoll_buf_done(&text);
    return current;
}

/* The network of the build: that of the environment, or everything that the operator permits. */
static int choose_network(const struct atoll_environment *e, struct atoll_make_request *request,
                          char **ret_policy, struct atoll_error *err)
{
    const struct atoll_network_request network = {.network = e->network};

    request->network = ATOLL_NETWORK_BRIDGE;
    if (!e->network)
        return 0;
    if (atoll_network_request_check(&network, &request->network, ret_policy, err) < 0)
        return -EINVAL;
    request->policy = *ret_policy;
    return 0;
}

static int start(struct atoll_engine *engine, const struct atoll_environment *e,
                 const struct atoll_recipe *recipe, const char *definition, struct building *b,
                 struct atoll_error *err)
{
    struct atoll_make_request request = {
        .name = b->name, .recipe = recipe, .source = "environment", .definition = definition};
    struct atoll_make_view view;
    char *policy = NULL;
    int r = choose_network(e, &request, &policy, err);

    if (r == 0)
        r = atoll_make_start(engine, &request, &view, err);
    if (r == 0)
        (void)snprintf(b->id, sizeof(b->id), "%s", view.id);
    free(policy);
    return r;
}

static bool find_running(struct atoll_engine *engine, struct building *b)
{
    struct atoll_make_view view;
    size_t pos = 0;

    while (atoll_make_next(engine, &pos, &view)) {
        if (view.state <= ATOLL_MAKE_RUNNING && view.name && strcmp(view.name, b->name) == 0 &&
            !(view.owner && *view.owner)) {
            (void)snprintf(b->id, sizeof(b->id), "%s", view.id);
            return true;
        }
    }
    return false;
}

/* Copies the last line of output in the log; "": none. */
static void last_output(struct building *b, uint64_t log_bytes, char *out, size_t cap)
{
    char tail[LOG_TAIL + 1], *line = tail, *end;
    uint64_t from = log_bytes > LOG_TAIL ? log_bytes - LOG_TAIL : 0;
    ssize_t n = atoll_make_log(b->engine, b->id, from, tail, LOG_TAIL, NULL);

    out[0] = '\0';
    tail[n > 0 ? n : 0] = '\0';
    for (; *line; line = end) {
        json_t *object;
        const char *kind;
        end = line + strcspn(line, "\n");
        object = json_loadb(line, (size_t)(end - line), 0, NULL);
        kind = json_string_value(json_object_get(object, "kind"));
        if (kind && strcmp(kind, "output") == 0)
            (void)snprintf(out, cap, "%s",
                           json_string_value(json_object_get(object, "text")) ?: "");
        json_decref(object);
        end += *end == '\n';
    }
}

static void finish(struct building *b, const struct atoll_error *error)
{
    atoll_make_unwatch(b->watch);
    b->done(b->arg, error ? NULL : b->name, error);
    free(b);
}

static void fail(struct building *b, const struct atoll_make_view *view)
{
    struct atoll_error error = *view->error;
    char output[160];

    last_output(b, view->log_bytes, output, sizeof(output));
    (void)atoll_wrap(&error, "the template of environment %s could not be built", b->environment);
    if (*output)
        atoll_advise(&error, "The last line of its output was: %s", output);
    finish(b, &error);
}

static void changed(void *arg)
{
    struct building *b = arg;
    struct atoll_make_view view;
    struct atoll_error error;

    if (atoll_make_find(b->engine, NULL, b->id, &view, &error) < 0)
        finish(b, &error);
    else if (view.state == ATOLL_MAKE_READY)
        finish(b, NULL);
    else if (view.state > ATOLL_MAKE_READY)
        fail(b, &view);
}

static int begin(struct atoll_engine *engine, const struct atoll_environment *e, struct building *b,
                 bool *ret_ready, struct atoll_error *err)
{
    struct atoll_recipe *recipe = NULL;
    struct atoll_buf text;
    int r;

    atoll_buf_init(&text, TEXT_MAX);
    r = define(engine, e, &text, &recipe, err);
    if (r == 0)
        *ret_ready = is_current(engine, b->name, atoll_buf_str(&text));
    if (r == 0 && !*ret_ready && !find_running(engine, b))
        r = start(engine, e, recipe, atoll_buf_str(&text), b, err);
    if (r == 0 && !*ret_ready)
        r = atoll_make_watch(engine, b->id, changed, b, &b->watch, err);
    atoll_recipe_free(recipe);
    atoll_buf_done(&text);
    return r;
}

void atoll_environment_build(struct atoll_engine *engine,
                             const struct atoll_environment *environment,
                             atoll_environment_built_fn *done, void *arg)
{
    struct building *b = atoll_alloc(sizeof(*b));
    struct atoll_error error;
    bool ready = false;

    *b = (struct building){.engine = engine, .done = done, .arg = arg};
    write_name(environment, b->name);
    (void)snprintf(b->environment, sizeof(b->environment), "%s", environment->name);
    if (begin(engine, environment, b, &ready, &error) < 0)
        finish(b, &error);
    else if (ready)
        finish(b, NULL);
}
