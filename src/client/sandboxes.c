#include <errno.h>
#include <string.h>
#include "client/compose.h"

#define MIB (1024.0 * 1024)

struct sandbox {
    struct atoll_client_sandbox public; /* first: what the caller has a pointer to */
    json_t *view;                       /* owned */
    char *json;                         /* owned */
};

static uint64_t megabytes(const json_t *limits, const char *key)
{
    double value = atoll_link_number(limits, key, 0) * MIB;
    return value > 0 && value < 9e18 ? (uint64_t)value : 0;
}

static void fill(struct sandbox *s)
{
    const json_t *limits = json_object_get(s->view, "limits");

    s->public = (struct atoll_client_sandbox){
        .id = atoll_link_text(s->view, "id", ""),
        .state = atoll_link_text(s->view, "state", ""),
        .cause = atoll_link_text(s->view, "cause", ""),
        .template_name = atoll_link_text(s->view, "template", ""),
        .created_at = atoll_link_text(s->view, "created_at", ""),
        .expires_at = atoll_link_text(s->view, "expires_at", ""),
        .memory_bytes = megabytes(limits, "memoryMB"),
        .disk_bytes = megabytes(limits, "diskMB"),
        .pids = atoll_link_count(limits, "pids"),
        .cpus = atoll_link_number(limits, "cpuCores", 0),
        .json = s->json,
    };
}

static int sandbox_new(json_t *view, struct atoll_client_sandbox **ret_sandbox,
                       struct atoll_error *err)
{
    struct sandbox *s = calloc(1, sizeof(*s));

    if (s) {
        s->view = json_incref(view);
        s->json = json_dumps(view, JSON_COMPACT | JSON_REAL_PRECISION(15));
    }
    if (!s || !s->json) {
        atoll_client_sandbox_free(s ? &s->public : NULL);
        return atoll_fail(err, ATOLL_ERR_DATA_LOSS, EPROTO, "the daemon's answer is not a sandbox");
    }
    fill(s);
    *ret_sandbox = &s->public;
    return 0;
}

void atoll_client_sandbox_free(struct atoll_client_sandbox *public)
{
    struct sandbox *s = (struct sandbox *)public;

    if (s) {
        json_decref(s->view);
        free(s->json);
        free(s);
    }
}

void atoll_client_sandbox_list_free(struct atoll_client_sandbox **sandboxes)
{
    for (struct atoll_client_sandbox **s = sandboxes; s && *s; s++)
        atoll_client_sandbox_free(*s);
    free(sandboxes);
}

static int create(struct atoll_client *client, const struct atoll_client_sandbox_options *options,
                  struct atoll_client_sandbox **ret_sandbox, struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *request = json_object();
    ATOLL_AUTOJSON json_t *reply = NULL;
    struct atoll_client_sandbox_options own;
    int r = atoll_link_import(&own, sizeof(own), options, err);

    if (r == 0 && options)
        r = atoll_compose_sandbox(request, options, err);
    if (r == 0)
        r = atoll_link_call_once(client, "POST", "/api/sandboxes", request, own.idempotency_key,
                                 &reply, err);
    return r < 0 ? r : sandbox_new(reply, ret_sandbox, err);
}

int atoll_client_sandbox_create(struct atoll_client *client,
                                const struct atoll_client_sandbox_options *options,
                                struct atoll_client_sandbox **ret_sandbox,
                                struct atoll_client_error *error)
{
    struct atoll_error err;
    int r = create(client, options, ret_sandbox, &err);
    return atoll_link_conclude(client, r, &err, error);
}

/* METHOD /api/sandboxes/ID<action>. */
static int act(struct atoll_client *client, const char *method, const char *id, const char *action,
               json_t *body, json_t **ret_reply, struct atoll_error *err)
{
    struct atoll_link_target target;
    int r = atoll_link_check_id("sandbox", id, err);

    if (r == 0)
        r = atoll_link_target(&target, err, "/api/sandboxes/%s", id);
    if (r < 0)
        return r;
    strncat(target.text, action, sizeof(target.text) - strlen(target.text) - 1);
    return atoll_link_call(client, method, target.text, body, ret_reply, err);
}

int atoll_client_sandbox_get(struct atoll_client *client, const char *id,
                             struct atoll_client_sandbox **ret_sandbox,
                             struct atoll_client_error *error)
{
    ATOLL_AUTOJSON json_t *reply = NULL;
    struct atoll_error err;
    int r = act(client, "GET", id, "", NULL, &reply, &err);

    if (r == 0)
        r = sandbox_new(reply, ret_sandbox, &err);
    return atoll_link_conclude(client, r, &err, error);
}

static int list(struct atoll_client *client, bool all, struct atoll_client_sandbox ***ret_sandboxes,
                struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *reply = NULL;
    struct atoll_client_sandbox **found;
    json_t *views;
    size_t n;
    int r = atoll_link_call(client, "GET", all ? "/api/sandboxes?all=true" : "/api/sandboxes", NULL,
                            &reply, err);

    if (r < 0)
        return r;
    views = json_object_get(reply, "sandboxes");
    n = json_array_size(views);
    found = calloc(n + 1, sizeof(struct atoll_client_sandbox *));
    if (!found)
        return atoll_fail_errno(err, ENOMEM, "list");
    for (size_t i = 0; r == 0 && i < n; i++)
        r = sandbox_new(json_array_get(views, i), &found[i], err);
    if (r < 0)
        atoll_client_sandbox_list_free(found);
    else
        *ret_sandboxes = found;
    return r < 0 ? r : (int)n;
}

int atoll_client_sandbox_list(struct atoll_client *client, bool all_tenants,
                              struct atoll_client_sandbox ***ret_sandboxes,
                              struct atoll_client_error *error)
{
    struct atoll_error err;
    int r = list(client, all_tenants, ret_sandboxes, &err);
    return atoll_link_conclude(client, r, &err, error);
}

int atoll_client_sandbox_destroy(struct atoll_client *client, const char *id,
                                 struct atoll_client_error *error)
{
    struct atoll_error err;
    int r = act(client, "DELETE", id, "", NULL, NULL, &err);
    return atoll_link_conclude(client, r, &err, error);
}

int atoll_client_sandbox_pause(struct atoll_client *client, const char *id, bool keep_processes,
                               struct atoll_client_error *error)
{
    ATOLL_AUTOJSON json_t *body = json_pack("{s:b}", "keepProcesses", (int)keep_processes);
    struct atoll_error err;
    int r = act(client, "POST", id, "/pause", body, NULL, &err);
    return atoll_link_conclude(client, r, &err, error);
}

int atoll_client_sandbox_resume(struct atoll_client *client, const char *id,
                                struct atoll_client_error *error)
{
    struct atoll_error err;
    int r = act(client, "POST", id, "/resume", NULL, NULL, &err);
    return atoll_link_conclude(client, r, &err, error);
}

int atoll_client_sandbox_stop(struct atoll_client *client, const char *id,
                              struct atoll_client_error *error)
{
    struct atoll_error err;
    int r = act(client, "POST", id, "/stop", NULL, NULL, &err);
    return atoll_link_conclude(client, r, &err, error);
}

int atoll_client_sandbox_set_timeout(struct atoll_client *client, const char *id, double seconds,
                                     struct atoll_client_error *error)
{
    ATOLL_AUTOJSON json_t *body = json_object();
    struct atoll_error err;
    int r = seconds > 0 ? atoll_compose_number(body, "seconds", seconds)
                        : json_object_set_new(body, "seconds", json_integer(0));

    if (r < 0)
        r = atoll_fail_errno(&err, ENOMEM, "request");
    else
        r = act(client, "POST", id, "/timeout", body, NULL, &err);
    return atoll_link_conclude(client, r, &err, error);
}
