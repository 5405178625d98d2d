#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "api/api_internal.h"
#include "api/tool/tool_internal.h"
#include "base/memory.h"
#include "engine/artifact/artifacts.h"
#include "task/swarm.h"
#include "task/task.h"

/*
 * Tasks: a tool that lets another agent work, and waits for its result. Swarms: tools for the memory of one.
 */
#define CONTENTS_MAX \
    ((size_t)64 * 1024) /* of captured files, in the result; others are only named */
#define PATTERNS_MAX 32

struct waiting {
    struct atoll_task_watch *watch; /* owned */
    char id[ATOLL_ID_LEN + 1];
};

static struct atoll_tasks *tasks_of(const struct atoll_tool_call *call)
{
    return call->api->config.tasks;
}

static void waiting_free(struct waiting *w)
{
    (void)atoll_tasks_unwatch(w->watch);
    free(w);
}

/* --- files that the task has captured --- */

struct files {
    struct atoll_engine *engine;
    const char *sandbox_id, *patch; /* patch: its path, or "" */
    json_t *list;
    size_t room; /* for contents */
};

static json_t *content_of(struct files *f, const struct atoll_artifact *file)
{
    char *bytes = malloc((size_t)file->size_bytes + 1);
    json_t *content = NULL;
    struct atoll_error error;
    uint64_t size;
    ssize_t n = -1;
    int fd;

    if (bytes &&
        atoll_artifacts_open(f->engine, f->sandbox_id, file->path, &fd, &size, &error) == 0) {
        n = read(fd, bytes, (size_t)file->size_bytes);
        (void)close(fd);
    }
    if (n >= 0)
        content = atoll_tool_json_bytes(bytes, (size_t)n);
    f->room -= (size_t)file->size_bytes;
    free(bytes);
    return content;
}

static void add_file(void *arg, const struct atoll_artifact *file)
{
    struct files *f = arg;
    json_t *one;

    if (strncmp(file->path, ".git/", 5) == 0 || strcmp(file->path, f->patch) == 0)
        return;
    one = json_pack("{s:o, s:I}", "path", atoll_tool_json_bytes(file->path, strlen(file->path)),
                    "size_bytes", (json_int_t)file->size_bytes);
    if (file->size_bytes <= f->room)
        (void)json_object_set_new(one, "content", content_of(f, file));
    (void)json_array_append_new(f->list, one);
}

static void add_files(const struct atoll_tool_call *call, const struct atoll_task_view *view,
                      json_t *data)
{
    struct files f = {.engine = call->engine, .room = CONTENTS_MAX};
    struct atoll_artifacts_view kept;
    struct atoll_error error;
    const char *patch;

    f.sandbox_id = json_string_value(json_object_get(view->facts, "sandbox_id"));
    if (!json_object_get(view->request, "capturePatterns") || !f.sandbox_id ||
        !atoll_artifacts_find(f.engine, f.sandbox_id, &kept))
        return;
    patch = json_string_value(json_object_get(view->facts, "patch"));
    f.patch = patch ? patch : "";
    f.list = json_array();
    (void)!atoll_artifacts_files(f.engine, f.sandbox_id, add_file, &f, &error);
    (void)json_object_set_new(data, "files", f.list);
}

/* --- the call --- */

static void finish(struct atoll_tool_call *call, const struct atoll_task_view *view)
{
    static const char *const facts[] = {"output",  "branch",     "commit",    "pushed",  "usage",
                                        "changes", "sandbox_id", "exit_code", "provider"};
    json_t *data =
        json_pack("{s:s, s:s}", "id", view->id, "state", atoll_task_state_name(view->state));

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(facts); i++)
        if (json_object_get(view->facts, facts[i]))
            (void)json_object_set(data, facts[i], json_object_get(view->facts, facts[i]));
    if (view->error->kind != ATOLL_ERR_NONE)
        (void)json_object_set_new(data, "error",
                                  json_string(view->error->kind == ATOLL_ERR_INTERNAL
                                                  ? "internal error"
                                                  : view->error->text));
    add_files(call, view, data);
    atoll_tool_finish_json(call, data, view->state != ATOLL_TASK_SUCCEEDED);
}

static void may_have_ended(void *arg)
{
    struct atoll_tool_call *call = arg;
    struct waiting *w = call->state;
    struct atoll_task_view view;
    struct atoll_error error;
    int r = atoll_tasks_find(tasks_of(call), NULL, w->id, &view, &error);

    if (r == 0 && view.state < ATOLL_TASK_SUCCEEDED)
        return;
    waiting_free(w);
    if (r < 0)
        atoll_tool_fail(call, &error);
    else
        finish(call, &view);
}

/* The call does not wait for the end of the task, which may come with that of the daemon. */
static void stop(struct atoll_tool_call *call)
{
    struct waiting *w = call->state;
    struct atoll_error error;

    (void)!atoll_tasks_cancel(tasks_of(call), w->id, ATOLL_TOOL_WHO, &error);
    waiting_free(w);
    (void)atoll_fail(&error, ATOLL_ERR_CANCELED, ECANCELED, "the call was cancelled");
    atoll_tool_fail(call, &error);
}

static json_t *request_of(const struct atoll_tool_call *call)
{
    static const char *const texts[][2] = {
        {"instruction", "instruction"},
        {"agent", "agent"},
        {"model", "model"},
        {"system_prompt", "systemPrompt"},
        {"branch", "branch"},
        {"check", "check"},
        {"cleanup", "cleanup"},
    };
    const char *url = atoll_tool_text(call, "repo"), *network = atoll_tool_text(call, "network");
    json_t *request = json_object(), *sandbox = json_object();

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(texts); i++)
        if (atoll_tool_text(call, texts[i][0]))
            (void)json_object_set_new(request, texts[i][1],
                                      json_string(atoll_tool_text(call, texts[i][0])));
    if (url)
        (void)json_object_set_new(request, "repo",
                                  json_pack("{s:s, s:s*, s:s*}", "url", url, "username",
                                            atoll_tool_text(call, "username"), "password",
                                            atoll_tool_text(call, "password")));
    if (json_object_get(call->args, "capture"))
        (void)json_object_set(request, "capturePatterns", json_object_get(call->args, "capture"));
    if (atoll_tool_text(call, "provider"))
        (void)json_object_set(sandbox, "provider", json_object_get(call->args, "provider"));
    if (network)
        (void)json_object_set_new(sandbox, "network", json_pack("{s:s}", "mode", network));
    if (json_object_size(sandbox) > 0)
        (void)json_object_set(request, "sandbox", sandbox);
    json_decref(sandbox);
    return request;
}

/* Of arguments that are no plain texts. */
static int check(const struct atoll_tool_call *call, struct atoll_error *err)
{
    const char *cleanup = atoll_tool_text(call, "cleanup"), *patterns[PATTERNS_MAX + 1] = {NULL};
    const json_t *capture = json_object_get(call->args, "capture");
    static const char *const cleanups[] = {"always", "success", "never"};
    size_t i = 0;

    while (cleanup && i < ATOLL_ARRAY_LEN(cleanups) && strcmp(cleanup, cleanups[i]) != 0)
        i++;
    if (i == ATOLL_ARRAY_LEN(cleanups))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "cleanup must be always, success or never");
    if (json_array_size(capture) > PATTERNS_MAX)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, E2BIG, "capture has at most %d patterns",
                          PATTERNS_MAX);
    for (i = 0; i < json_array_size(capture); i++)
        patterns[i] = json_string_value(json_array_get(capture, i));
    return atoll_artifacts_check(patterns, err);
}

void atoll_tool_run_task(struct atoll_tool_call *call)
{
    struct waiting *w = atoll_alloc(sizeof(*w));
    struct atoll_error error;

    if (check(call, &error) < 0 ||
        atoll_tasks_start(tasks_of(call), call->tenant, request_of(call), w->id, &error) < 0 ||
        atoll_tasks_watch(tasks_of(call), w->id, may_have_ended, call, &w->watch, &error) < 0) {
        free(w);
        atoll_tool_fail(call, &error);
        return;
    }
    call->state = w;
    call->stop = stop;
    may_have_ended(call);
}

/* --- the memory of a swarm --- */

void atoll_tool_run_memory(struct atoll_tool_call *call)
{
    struct atoll_swarm_view view;
    struct atoll_error error;

    if (atoll_swarms_find(call->api->config.swarms, call->tenant, atoll_tool_text(call, "swarm"),
                          &view, &error) < 0)
        atoll_tool_fail(call, &error);
    else
        atoll_tool_finish_data(call, json_pack("{s:O}", "memory", view.memory));
}

void atoll_tool_run_remember(struct atoll_tool_call *call)
{
    struct atoll_swarms *swarms = call->api->config.swarms;
    const char *id = atoll_tool_text(call, "swarm");
    struct atoll_swarm_view view;
    struct atoll_error error;

    if (atoll_swarms_find(swarms, call->tenant, id, &view, &error) < 0 ||
        atoll_swarms_remember(swarms, view.id, json_object_get(call->args, "changes"), &error) < 0)
        atoll_tool_fail(call, &error);
    else
        atoll_tool_run_memory(call);
}
