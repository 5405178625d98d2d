#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "engine/artifact/artifacts.h"
#include "task/task_internal.h"

/*
 * Files that a task keeps, and what they differ from its start. In a repository that is the commit that
 * was cloned. Else the files are put into a repository of their own before the agent runs, outside of the
 * working directory; where the sandbox has no git, there is no diff.
 */
#define CHANGES_MAX 1000

#define SHADOW \
    "git --git-dir=\"$1\" --work-tree=. -c core.quotePath=false -c core.hooksPath=/dev/null "

static const char begin_script[] = "command -v git >/dev/null || exit 0\n"
                                   "rm -rf \"$1\" && git init -q --bare \"$1\" &&\n" SHADOW
                                   "add -A && " SHADOW "write-tree >\"$1/atoll-start\"";

/* $1: directory of the own repository, $2: base commit or "", $3: file for the patch. */
static const char end_script[] =
    "command -v git >/dev/null || exit 3\n"
    "if [ -n \"$2\" ]; then\n"
    "  git add -AN . && git diff --no-ext-diff --no-textconv --binary \"$2\" >\"$3\"\n"
    "  exit\n"
    "fi\n"
    "[ -s \"$1/atoll-start\" ] || exit 3\n"
    "start=$(cat \"$1/atoll-start\")\n" SHADOW "add -A || exit\n" SHADOW
    "diff --no-ext-diff --no-textconv --cached --no-renames --name-status \"$start\" || exit\n" SHADOW
    "diff --no-ext-diff --no-textconv --cached --binary \"$start\" >\"$3\" || exit\n"
    "rm -rf \"$1\"";
#define NO_GIT 3

bool atoll_task_captures(const struct atoll_task *task)
{
    return json_array_size(atoll_task_object(task, "capturePatterns")) > 0 ||
           json_is_true(atoll_task_object(task, "captureFiles"));
}

const char **atoll_task_patterns(const struct atoll_task *task)
{
    const json_t *given = atoll_task_object(task, "capturePatterns");
    const char **patterns = calloc(json_array_size(given) + 4, sizeof(*patterns));
    size_t n = 0;

    if (!patterns)
        abort(); /* small: the daemon is crash-only */
    for (size_t i = 0; i < json_array_size(given); i++)
        patterns[n++] = json_string_value(json_array_get(given, i));
    if (n == 0 && atoll_task_captures(task))
        patterns[n++] = "**";
    if (n > 0 && !json_is_true(atoll_task_object(task, "captureIgnored")))
        patterns[n++] = ATOLL_ARTIFACTS_GITIGNORE;
    if (n > 0 && *atoll_task_fact(task, "patch"))
        patterns[n++] = atoll_task_fact(task, "patch");
    return patterns;
}

/* Where the repository for the diff is, in the sandbox. */
static void shadow_of(const struct atoll_task *task, char out[static 64])
{
    (void)snprintf(out, 64, "/tmp/.atoll-start.%s", task->id);
}

/* --- before the agent --- */

static void begun(struct atoll_task *task, const struct atoll_exec_result *result, const char *tail,
                  const struct atoll_error *error)
{
    if (error) {
        atoll_task_step_done(task, error);
        return;
    }
    if (result->kind != ATOLL_END_EXITED || result->code != 0)
        atoll_task_log(task, "info", "there will be no diff: %.200s", tail);
    task->next(task);
}

void atoll_task_capture_begin(struct atoll_task *task, void (*next)(struct atoll_task *task))
{
    char shadow[64];
    const char *const argv[] = {"/bin/sh", "-c", begin_script, "sh", shadow, NULL};

    if (!atoll_task_captures(task) || atoll_task_has_repository(task)) {
        next(task);
        return;
    }
    shadow_of(task, shadow);
    task->next = next;
    atoll_task_command_run(task, &(struct atoll_task_command_request){
                                     .name = "start", .argv = argv, .quiet = true, .done = begun});
}

/* --- after it --- */

/* "M\tpath": one changed file of a task without a repository. */
static void take_change(struct atoll_task *task, const char *line, size_t n)
{
    json_t *changes = json_object_get(task->facts, "changes");
    const char *state = n > 0 && *line == 'A'   ? "added"
                        : n > 0 && *line == 'D' ? "deleted"
                                                : "modified";

    if (n > 2 && line[1] == '\t' && json_array_size(changes) < CHANGES_MAX)
        (void)json_array_append_new(
            changes, json_pack("{s:s%, s:s}", "path", line + 2, n - 2, "state", state));
}

static void compared(struct atoll_task *task, const struct atoll_exec_result *result,
                     const char *tail, const struct atoll_error *error)
{
    const char *const patterns[] = {atoll_task_fact(task, "patch"), NULL};
    struct atoll_error failed;

    if (!error && (result->kind != ATOLL_END_EXITED || result->code != 0)) {
        (void)json_object_del(task->facts, "patch");
        atoll_task_log(task, "info", "there is no diff: %.200s",
                       result->kind == ATOLL_END_EXITED && result->code == NO_GIT
                           ? "the sandbox has no git"
                           : tail);
    } else if (!error && !atoll_task_text(task, "sandboxId") &&
               atoll_artifacts_want(task->tasks->config.engine, atoll_task_fact(task, "sandbox_id"),
                                    patterns, &failed) < 0) {
        error = &failed;
    }
    atoll_task_step_done(task, error);
}

void atoll_task_capture(struct atoll_task *task)
{
    char shadow[64];
    const char *base = atoll_task_fact(task, "base");
    const char *file = *base ? ".git/atoll.patch" : ".atoll.patch";
    const char *const argv[] = {"/bin/sh", "-c", end_script, "sh", shadow, base, file, NULL};

    if (!atoll_task_captures(task)) {
        atoll_task_step_skip(task);
        return;
    }
    shadow_of(task, shadow);
    atoll_task_note(task, "patch", json_string(file));
    if (!*base)
        atoll_task_note(task, "changes", json_array());
    atoll_task_command_run(
        task,
        &(struct atoll_task_command_request){
            .name = "capture", .argv = argv, .quiet = true, .line = take_change, .done = compared});
}

/* --- the copies --- */

void atoll_task_capture_now(struct atoll_task *task, atoll_done_fn *done)
{
    const char **patterns = atoll_task_text(task, "sandboxId") ? atoll_task_patterns(task) : NULL;

    if (patterns && !patterns[0])
        done(task, NULL); /* nothing is wanted of a sandbox that is not its own */
    else
        atoll_artifacts_capture(task->tasks->config.engine, atoll_task_fact(task, "sandbox_id"),
                                patterns, done, task);
    free(patterns);
}
