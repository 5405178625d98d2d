/* Tasks as JSON. */
#include <errno.h>
#include <string.h>
#include <unistd.h>
#include "api/kit/json_value.h"
#include "api/rest/task/tasks.h"
#include "engine/artifact/artifacts.h"
#include "engine/json_memory.h"

#define FILE_MAX ((size_t)64 * 1024) /* a larger one is only named */

static void view_request(struct atoll_json_out *out, const json_t *request)
{
    static const char *const texts[] = {"instruction", "agentName",   "model", "environment",
                                        "swarmId",     "swarmMember", "type"};
    static const char *const objects[] = {"budget", "requirements", "resources", "priority",
                                          "timeoutSeconds"};
    const json_t *repo = json_object_get(request, "repo");
    const char *url = json_string_value(json_object_get(repo, "url"));
    const char *branch = json_string_value(json_object_get(repo, "branch"));

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(texts); i++) {
        const char *text = json_string_value(json_object_get(request, texts[i]));
        if (text)
            atoll_json_text(out, texts[i], text);
    }
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(objects); i++)
        if (json_object_get(request, objects[i]))
            atoll_json_value(out, objects[i], json_object_get(request, objects[i]));
    if (url)
        atoll_json_text(out, "repo", url);
    if (json_is_true(json_object_get(repo, "upload")))
        atoll_json_bool(out, "repo_upload", true);
    if (branch)
        atoll_json_text(out, "repo_branch", branch);
}

/* Left out of lists. */
static bool is_large(const char *fact)
{
    static const char *const names[] = {"output", "changes", "steps", "pull_request"};

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(names); i++)
        if (strcmp(fact, names[i]) == 0)
            return true;
    return false;
}

static void view_facts(struct atoll_json_out *out, const json_t *facts, bool whole)
{
    const char *name;
    json_t *value;

    json_object_foreach((json_t *)(uintptr_t)facts, name, value)
    {
        if (name[0] == '_' || (!whole && is_large(name)))
            continue;
        atoll_json_value(out, name, value);
    }
}

struct files {
    struct atoll_json_out *out;
    struct atoll_engine *engine;
    const char *sandbox_id;
    const char *patch; /* its path, or "" */
    size_t *room;
};

static void view_content(const struct files *f, const char *key, const struct atoll_artifact *file)
{
    char *bytes = malloc((size_t)file->size_bytes + 1);
    struct atoll_error error;
    uint64_t size;
    ssize_t n;
    int fd;

    if (bytes &&
        atoll_artifacts_open(f->engine, f->sandbox_id, file->path, &fd, &size, &error) == 0) {
        n = read(fd, bytes, (size_t)file->size_bytes);
        if (n >= 0)
            atoll_json_bytes(f->out, key, bytes, (size_t)n);
        (void)close(fd);
    }
    free(bytes);
}

static void view_file(void *arg, const struct atoll_artifact *file)
{
    struct files *f = arg;

    if (strncmp(file->path, ".git/", 5) == 0 || strcmp(file->path, f->patch) == 0)
        return;
    atoll_json_open(f->out, NULL, '{');
    atoll_json_text(f->out, "path", file->path);
    atoll_json_u64(f->out, "size_bytes", file->size_bytes);
    if (file->size_bytes <= FILE_MAX && file->size_bytes <= *f->room) {
        *f->room -= (size_t)file->size_bytes;
        view_content(f, "content", file);
    }
    atoll_json_close(f->out, '}');
}

static void view_diff(void *arg, const struct atoll_artifact *file)
{
    const struct files *f = arg;

    if (strcmp(file->path, f->patch) != 0 || file->size_bytes > FILE_MAX)
        return;
    view_content(f, "diff", file);
    *f->room -= ATOLL_MIN((size_t)file->size_bytes, *f->room);
}

static void view_files(struct atoll_json_out *out, struct atoll_engine *engine, const json_t *facts,
                       size_t *room)
{
    const char *id = json_string_value(json_object_get(facts, "sandbox_id"));
    const char *patch = json_string_value(json_object_get(facts, "patch"));
    struct files f = {out, engine, id, patch ? patch : "", room};
    struct atoll_artifacts_view kept;
    struct atoll_error error;

    if (!id || !atoll_artifacts_find(engine, id, &kept))
        return;
    atoll_json_open(out, "files", '[');
    (void)!atoll_artifacts_files(engine, id, view_file, &f, &error);
    atoll_json_close(out, ']');
    if (patch)
        (void)!atoll_artifacts_files(engine, id, view_diff, &f, &error);
    atoll_json_bool(out, "files_complete", kept.complete);
}

void atoll_view_task(struct atoll_json_out *out, const char *key, struct atoll_engine *engine,
                     const struct atoll_task_view *view, size_t *room)
{
    atoll_json_open(out, key, '{');
    atoll_json_text(out, "id", view->id);
    atoll_json_text(out, "tenant", view->tenant);
    atoll_json_text(out, "state", atoll_task_state_name(view->state));
    atoll_json_text_or_null(out, "step", view->step);
    atoll_json_i64(out, "percent", view->percent);
    atoll_json_u64(out, "attempt", view->attempt);
    atoll_json_time(out, "created_at", view->created_unix_ms);
    atoll_json_time(out, "started_at", view->started_unix_ms);
    atoll_json_time(out, "ended_at", view->ended_unix_ms);
    atoll_json_u64(out, "log_bytes", view->log_bytes);
    atoll_json_bool(out, "wants_source", view->wants_source);
    view_request(out, view->request);
    view_facts(out, view->facts, room != NULL);
    if (room)
        view_files(out, engine, view->facts, room);
    if (view->error->kind != ATOLL_ERR_NONE) {
        atoll_json_open(out, "error", '{');
        atoll_json_text(out, "code", atoll_error_kind_name(view->error->kind));
        atoll_json_text(out, "message",
                        view->error->kind == ATOLL_ERR_INTERNAL ? "internal error"
                                                                : view->error->text);
        if (*view->hint && view->error->kind != ATOLL_ERR_INTERNAL)
            atoll_json_text(out, "hint", view->hint);
        atoll_json_close(out, '}');
    }
    atoll_json_close(out, '}');
}
