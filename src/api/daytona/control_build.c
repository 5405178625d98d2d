/*
 * Sandboxes from Dockerfiles. An image alone is pulled; everything else is built.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include "api/api_internal.h"
#include "api/daytona/builds.h"
#include "api/daytona/socketio.h"
#include "api/kit/network_mode.h"
#include "base/clock.h"
#include "base/metrics.h"
#include "base/rand.h"
#include "base/text.h"
#include "engine/json_memory.h"
#include "image/dockerfile.h"

#define TEMPLATE ATOLL_DAYTONA_BUILD_TEMPLATE

struct atoll_daytona_waiting {
    struct atoll_list node;
    struct atoll_daytona *daytona;
    char id[ATOLL_ID_LEN + 1];
    char build[ATOLL_VERSION_ID_LEN + 1];
    struct atoll_options options; /* owned */
    struct atoll_make_watch *watch;
    const char *state;
    char reason[ATOLL_ERROR_TEXT_MAX];
    int64_t created_unix_ms;
    bool creating; /* the engine makes the sandbox: it must not be freed */
    bool dropped;  /* meanwhile */
};

/* Starting a build. */

static int append_list(struct atoll_buf *text, const char *word, const char *const *list)
{
    int r = atoll_buf_appendf(text, "\n%s [", word);

    for (size_t i = 0; r == 0 && list[i]; i++) {
        r = atoll_buf_append(text, i ? "," : "", i ? 1 : 0);
        if (r == 0)
            r = atoll_text_json_quote(text, list[i], strlen(list[i]));
    }
    return r == 0 ? atoll_buf_append(text, "]", 1) : r;
}

/* The Dockerfile with what the request adds. */
static int write_text(const struct atoll_daytona_definition *d, struct atoll_buf *text)
{
    int r = atoll_buf_append(text, d->dockerfile, strlen(d->dockerfile));

    if (r == 0 && d->entrypoint)
        r = append_list(text, "ENTRYPOINT", d->entrypoint);
    if (r == 0 && d->disk_gib)
        r = atoll_buf_appendf(text, "\nLABEL " ATOLL_DAYTONA_DISK_LABEL "=%u", d->disk_gib);
    return r == 0 ? atoll_buf_append(text, "\n", 1) : r;
}

static int start_parsed(const struct atoll_api_call *call, const struct atoll_daytona_definition *d,
                        const char *text, const struct atoll_recipe *recipe, const char *id,
                        struct atoll_error *err)
{
    const char *colon = strchr(d->name, ':');
    struct atoll_make_context contexts[ATOLL_DAYTONA_CONTEXTS_MAX];
    size_t count = 0;
    char name[65];
    struct atoll_make_request request = {
        .tenant = call->caller.tenant,
        .owner = call->caller.tenant,
        .name = name,
        .tags = colon                            ? colon + 1
                : strcmp(d->name, TEMPLATE) == 0 ? ""
                                                 : NULL,
        .id = id,
        .recipe = recipe,
        .source = "dockerfile",
        .definition = text,
        .contexts = contexts,
        .network = atoll_api_network_mode(call),
        .cpu_millis = d->cpu_millis,
        .memory_bytes = d->memory_bytes,
    };

    (void)snprintf(name, sizeof(name), "%.*s", (int)strcspn(d->name, ":"), d->name);
    for (; d->hashes && d->hashes[count] && count < ATOLL_ARRAY_LEN(contexts); count++)
        contexts[count] = (struct atoll_make_context){.name = "", .context = d->hashes[count]};
    request.context_count = count;
    return atoll_make_start(call->engine, &request, NULL, err);
}

int atoll_daytona_build_start(const struct atoll_api_call *call,
                              const struct atoll_daytona_definition *d,
                              char id[ATOLL_VERSION_ID_LEN + 1], struct atoll_error *err)
{
    struct atoll_recipe *recipe = NULL;
    struct atoll_buf text;
    int r;

    atoll_version_id(id);
    atoll_buf_init(&text, ATOLL_RECIPE_TEXT_MAX);
    r = write_text(d, &text);
    if (r < 0)
        r = atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, E2BIG, "the Dockerfile is too large");
    if (r == 0)
        r = atoll_dockerfile_parse(atoll_buf_str(&text), atoll_buf_size(&text), &recipe, err);
    if (r == 0)
        r = start_parsed(call, d, atoll_buf_str(&text), recipe, id, err);
    atoll_recipe_free(recipe);
    atoll_buf_done(&text);
    return r;
}

/* Waiting sandboxes. */

static void waiting_free(struct atoll_daytona_waiting *w)
{
    atoll_list_remove(&w->node);
    atoll_metric_add(ATOLL_METRIC_DAYTONA, ATOLL_LABELS("waiting_sandboxes"), -1);
    atoll_make_unwatch(w->watch);
    atoll_options_free(&w->options);
    free(w);
}

static const char *owner_of(const struct atoll_daytona_waiting *w)
{
    return w->options.owner;
}

static void enter(struct atoll_daytona_waiting *w, const char *state, const char *reason)
{
    const char *old = w->state;

    if (strcmp(old, state) == 0)
        return;
    w->state = state;
    (void)snprintf(w->reason, sizeof(w->reason), "%s", reason);
    /* SDKs take only the state from an event: they get the reason of a failure when they ask. */
    if (!*reason)
        atoll_daytona_tell(w->daytona, owner_of(w), w->id, old, state);
}

static void forgotten(void *arg ATOLL_UNUSED, const struct atoll_error *error ATOLL_UNUSED)
{
}

static void created(void *arg, struct atoll_sandbox *sandbox, const struct atoll_error *error)
{
    struct atoll_daytona_waiting *w = arg;

    w->creating = false;
    if (!error && w->dropped)
        atoll_engine_destroy(w->daytona->api->config.engine, w->id, ATOLL_DAYTONA_WHO, forgotten,
                             NULL);
    if (error && !w->dropped) {
        enter(w, "error", error->text);
        return;
    }
    (void)sandbox;
    waiting_free(w);
}

/* The build is done. */
static void create_sandbox(struct atoll_daytona_waiting *w, const struct atoll_make_view *made)
{
    struct atoll_options options = w->options;
    char reference[200];

    (void)snprintf(reference, sizeof(reference), TEMPLATE "@sha256:%s", made->digest);
    options.id = w->id;
    options.template_name = reference;
    w->creating = true;
    w->watch = atoll_make_unwatch(w->watch);
    enter(w, "creating", "");
    atoll_engine_create(w->daytona->api->config.engine, &options, created, w);
}

static void on_build(void *arg)
{
    struct atoll_daytona_waiting *w = arg;
    struct atoll_make_view view;
    struct atoll_error error;

    if (atoll_make_find(w->daytona->api->config.engine, NULL, w->build, &view, &error) < 0) {
        enter(w, "build_failed", error.text);
        return;
    }
    switch (view.state) {
    case ATOLL_MAKE_WAITING:
        return;
    case ATOLL_MAKE_RUNNING:
        enter(w, "building_snapshot", "");
        return;
    case ATOLL_MAKE_READY:
        create_sandbox(w, &view);
        return;
    case ATOLL_MAKE_FAILED:
    case ATOLL_MAKE_CANCELED:
        w->watch = atoll_make_unwatch(w->watch);
        enter(w, "build_failed", view.error->text);
        return;
    }
}

struct atoll_daytona_waiting *atoll_daytona_waiting_find(const struct atoll_api *api,
                                                         const char *tenant, const char *text)
{
    ATOLL_LIST_FOREACH (&atoll_daytona_of(api)->waiting, node) {
        struct atoll_daytona_waiting *w =
            ATOLL_CONTAINER_OF(node, struct atoll_daytona_waiting, node);
        if (!w->dropped && strcmp(owner_of(w), tenant) == 0 &&
            (strcmp(w->id, text) == 0 || (w->options.name && strcmp(w->options.name, text) == 0)))
            return w;
    }
    return NULL;
}

const char *atoll_daytona_waiting_id(const struct atoll_daytona_waiting *w)
{
    return w->id;
}

const char *atoll_daytona_waiting_build(const struct atoll_daytona_waiting *w)
{
    return w->build;
}

void atoll_daytona_waiting_view(struct atoll_json_out *out, const struct atoll_daytona_waiting *w,
                                const char *origin, enum atoll_daytona_detail detail)
{
    struct atoll_sandbox_view v = {.id = w->id,
                                   .owner = owner_of(w),
                                   .template_name = TEMPLATE,
                                   .provider = "",
                                   .options = w->options,
                                   .state = ATOLL_SANDBOX_CREATING,
                                   .cause = w->reason,
                                   .created_unix_ms = w->created_unix_ms};
    json_t *facts = atoll_json_load_own(w->options.facade_json);

    (void)json_object_set_new(facts, "state", json_string(w->state));
    atoll_daytona_view_of(out, NULL, w->daytona->api, origin, &v, facts, detail);
    json_decref(facts);
}

void atoll_daytona_waiting_drop(struct atoll_daytona_waiting *w)
{
    struct atoll_error ignored;

    (void)!atoll_make_cancel(w->daytona->api->config.engine, w->build, ATOLL_DAYTONA_WHO, &ignored);
    if (w->creating)
        w->dropped = true;
    else
        waiting_free(w);
}

void atoll_daytona_waiting_drop_all(struct atoll_daytona *daytona)
{
    ATOLL_LIST_FOREACH (&daytona->waiting, node)
        waiting_free(ATOLL_CONTAINER_OF(node, struct atoll_daytona_waiting, node));
}

/* Creating. */

/* The image of a Dockerfile that is only "FROM image". */
static bool take_image(const char *dockerfile, char *out, size_t cap)
{
    const char *p = dockerfile + strspn(dockerfile, " \t\r\n");
    size_t n;

    if (strncasecmp(p, "FROM", 4) != 0 || !isspace((unsigned char)p[4]))
        return false;
    p += 4 + strspn(p + 4, " \t");
    n = strcspn(p, " \t\r\n");
    if (n == 0 || n >= cap || *p == '-' || p[n + strspn(p + n, " \t\r\n")] != '\0')
        return false;
    memcpy(out, p, n);
    out[n] = '\0';
    return true;
}

static int add_build_id(struct atoll_daytona_waiting *w, struct atoll_error *err)
{
    json_t *facts = atoll_json_load_own(w->options.facade_json);
    char *text;

    (void)json_object_set_new(facts, "buildId", json_string(w->build));
    text = atoll_json_dump(facts, JSON_COMPACT);
    json_decref(facts);
    if (!text)
        return atoll_fields_no_memory(err);
    atoll_options_set_text(&w->options.facade_json, text);
    return 0;
}

static int begin(struct atoll_daytona_waiting *w, const struct atoll_api_call *call,
                 const struct atoll_daytona_create *q, const struct atoll_options *options,
                 struct atoll_error *err)
{
    const struct atoll_daytona_definition definition = {
        .dockerfile = q->dockerfile,
        .hashes = q->hashes && q->hashes[0] ? q->hashes : NULL,
        .name = TEMPLATE,
    };
    int r = atoll_daytona_build_start(call, &definition, w->build, err);

    if (r == 0)
        r = atoll_options_dup(&w->options, options, err);
    if (r == 0)
        r = add_build_id(w, err);
    if (r == 0)
        r = atoll_make_watch(call->engine, w->build, on_build, w, &w->watch, err);
    return r;
}

static bool has_ended(const struct atoll_daytona_waiting *w)
{
    return strcmp(w->state, "build_failed") == 0 || strcmp(w->state, "error") == 0;
}

/* The number of waiting sandboxes of the tenant, and the oldest of them that has ended. tenant NULL:
 * of all tenants. */
static size_t count_waiting(const struct atoll_daytona *daytona, const char *tenant,
                            struct atoll_daytona_waiting **ret_ended)
{
    size_t count = 0;

    *ret_ended = NULL;
    ATOLL_LIST_FOREACH (&daytona->waiting, node) {
        struct atoll_daytona_waiting *w =
            ATOLL_CONTAINER_OF(node, struct atoll_daytona_waiting, node);
        if (tenant && strcmp(owner_of(w), tenant) != 0)
            continue;
        count++;
        if (!*ret_ended && has_ended(w))
            *ret_ended = w;
    }
    return count;
}

/* Whether one more sandbox of the tenant may wait; ended ones give way, the oldest first. */
static bool make_room(struct atoll_daytona *daytona, const char *tenant)
{
    struct atoll_daytona_waiting *ended;

    if (count_waiting(daytona, tenant, &ended) >= ATOLL_DAYTONA_TENANT_WAITING_MAX) {
        if (!ended)
            return false;
        waiting_free(ended);
    }
    if (count_waiting(daytona, NULL, &ended) >= ATOLL_DAYTONA_WAITING_MAX) {
        if (!ended)
            return false;
        waiting_free(ended);
    }
    return true;
}

static void wait_for_build(struct atoll_api_call *call, const struct atoll_daytona_create *q,
                           const struct atoll_options *options)
{
    struct atoll_daytona *daytona = atoll_daytona_of(call->api);
    struct atoll_daytona_waiting *w;
    char origin[ATOLL_ORIGIN_MAX];
    struct atoll_error error;
    struct atoll_buf buf;
    struct atoll_json_out out;

    if (!make_room(daytona, call->caller.tenant)) {
        atoll_metric_add(ATOLL_METRIC_QUOTA_REFUSED, ATOLL_LABELS("waiting_sandboxes"), 1);
        atoll_daytona_refuse(call, 429, NULL, "too many sandboxes wait for their builds");
        return;
    }
    w = atoll_api_alloc(sizeof(*w));
    w->daytona = daytona;
    w->state = "pending_build";
    w->created_unix_ms = atoll_clock_unix_ms();
    atoll_rand_id(w->id, ATOLL_ID_LEN);
    atoll_list_push_back(&daytona->waiting, &w->node);
    atoll_metric_add(ATOLL_METRIC_DAYTONA, ATOLL_LABELS("waiting_sandboxes"), 1);
    if (begin(w, call, q, options, &error) < 0) {
        waiting_free(w);
        atoll_api_fail(call, &error);
        return;
    }
    atoll_origin(call->api, call->req, origin);
    atoll_api_reply_init(&buf, &out);
    atoll_daytona_waiting_view(&out, w, origin, atoll_daytona_detail_for(call));
    atoll_api_reply(call, 200, &out);
}

void atoll_daytona_create_built(struct atoll_api_call *call, const struct atoll_daytona_create *q,
                                const struct atoll_options *options)
{
    struct atoll_options changed = *options;
    char image[256];

    if (!take_image(q->dockerfile, image, sizeof(image))) {
        wait_for_build(call, q, options);
        return;
    }
    changed.template_name = NULL;
    changed.image = image;
    atoll_engine_create(call->engine, &changed, atoll_daytona_created, call);
}
