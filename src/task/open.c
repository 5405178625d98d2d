#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/buf.h"
#include "base/fd.h"
#include "engine/json_memory.h"
#include "task/task_internal.h"

/*
 * The step that opens the result: writes the text of a pull request, and calls the program of the operator
 * that makes one of it. The daemon itself knows no forge.
 */
#define BODY_MAX ((size_t)64 * 1024)
#define INSTRUCTION_SHOWN 16000
#define OUTPUT_SHOWN 8192
#define CHECK_SHOWN 1000
#define CHANGES_SHOWN 200
#define HOOK_TIMEOUT_MS 120000
#define URL_MAX_BYTES 2000
#define TRY_LATER 75 /* EX_TEMPFAIL of sysexits.h */

static const json_t *wanted_of(const struct atoll_task *task)
{
    const json_t *wanted = atoll_task_object(task, "pullRequest");

    return json_is_object(wanted) || json_is_true(wanted) ? wanted : NULL;
}

static void write_changes(const struct atoll_task *task, struct atoll_buf *out)
{
    const json_t *changes = json_object_get(task->facts, "changes");
    size_t n = json_array_size(changes);

    if (n > 0)
        (void)!atoll_buf_appends(out, "\n## Changes\n\n");
    for (size_t i = 0; i < ATOLL_MIN(n, (size_t)CHANGES_SHOWN); i++) {
        const json_t *change = json_array_get(changes, i);
        (void)!atoll_buf_appendf(out, "- %s `%s`\n",
                                 json_string_value(json_object_get(change, "state")),
                                 json_string_value(json_object_get(change, "path")));
    }
    if (n > CHANGES_SHOWN)
        (void)!atoll_buf_appendf(out, "- and %zu more\n", n - CHANGES_SHOWN);
}

/* Appends the beginning of a text, and no part of a character. */
static void put_start(struct atoll_buf *out, const char *text, size_t most)
{
    size_t n = strnlen(text, most);

    while (n > 0 && text[n] && ((unsigned char)text[n] & 0xc0) == 0x80)
        n--;
    (void)!atoll_buf_append(out, text, n);
}

static void write_body(const struct atoll_task *task, struct atoll_buf *out)
{
    const char *given = json_string_value(json_object_get(wanted_of(task), "body"));
    const char *output = atoll_task_fact(task, "output"), *check = atoll_task_text(task, "check");

    if (given) {
        (void)!atoll_buf_appendf(out, "%s\n", given);
    } else {
        put_start(out, atoll_task_text(task, "instruction"), INSTRUCTION_SHOWN);
        (void)!atoll_buf_appends(out, *output ? "\n\n## What the agent says\n\n" : "\n");
        if (*output) {
            put_start(out, output, OUTPUT_SHOWN);
            (void)!atoll_buf_appends(out, "\n");
        }
        write_changes(task, out);
        if (check) {
            (void)!atoll_buf_appends(out, "\nChecked with `");
            put_start(out, check, CHECK_SHOWN);
            (void)!atoll_buf_appends(out, "`.\n");
        }
    }
    (void)!atoll_buf_appendf(out, "\nAtoll-Task: %s\n", task->id);
}

/* Writes the file of the body; its path goes to the program. */
static int write_file(const struct atoll_task *task, const struct atoll_buf *body, char *path,
                      size_t cap, struct atoll_error *err)
{
    char name[ATOLL_ID_LEN + 8];
    int fd, r;

    (void)snprintf(name, sizeof(name), "%s.pr.md", task->id);
    (void)snprintf(path, cap, "%s/tasks/%s", task->tasks->config.state_dir, name);
    fd = openat(task->tasks->dir_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return atoll_fail_errno(err, errno, "the text of a pull request");
    r = atoll_fd_write_all(fd, atoll_buf_head(body), atoll_buf_size(body));
    (void)close(fd);
    return r < 0 ? atoll_fail_errno(err, -r, "the text of a pull request") : 0;
}

static const char *title_of(const struct atoll_task *task, char subject[static 80])
{
    const char *given = json_string_value(json_object_get(wanted_of(task), "title"));

    atoll_task_subject(atoll_task_text(task, "instruction"), subject);
    return given ? given : subject;
}

/* What the program gets; it is called again for the same task after a crash, and on a retry. */
static char *input_of(const struct atoll_task *task, const char *title, const char *body,
                      const char *file)
{
    const json_t *wanted = wanted_of(task), *repo = atoll_task_object(task, "repo");
    const json_t *base = json_object_get(wanted, "base");
    json_t *input =
        json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:b}", "task", task->id, "tenant",
                  task->tenant, "branch", atoll_task_fact(task, "branch"), "commit",
                  atoll_task_fact(task, "commit"), "title", title, "body", body, "body_file", file,
                  "draft", json_is_true(json_object_get(wanted, "draft")));
    char *text;

    if (!base)
        base = json_object_get(repo, "branch");
    if (base)
        (void)json_object_set(input, "base", (json_t *)(uintptr_t)base);
    if (json_object_get(repo, "url"))
        (void)json_object_set(input, "repo", json_object_get(repo, "url"));
    text = input ? atoll_json_dump(input, JSON_COMPACT) : NULL;
    json_decref(input);
    return text;
}

/* The first line that is a URL. */
static bool find_url(const char *said, char out[static URL_MAX_BYTES])
{
    for (const char *line = said; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        size_t n = strcspn(line, " \t\r\n");
        if ((strncmp(line, "https://", 8) == 0 || strncmp(line, "http://", 7) == 0) &&
            n < URL_MAX_BYTES) {
            (void)snprintf(out, URL_MAX_BYTES, "%.*s", (int)n, line);
            return true;
        }
    }
    return false;
}

static void opened(struct atoll_task *task, const struct atoll_task_program_end *end)
{
    json_t *result = json_object_get(task->facts, "pull_request");
    struct atoll_error failed = end->error;
    char url[URL_MAX_BYTES];
    bool exited = end->status >= 0 && WIFEXITED(end->status);
    int code = exited ? WEXITSTATUS(end->status) : -1;

    if (failed.kind == ATOLL_ERR_NONE && code != 0)
        (void)atoll_fail(
            &failed, code == TRY_LATER ? ATOLL_ERR_UNAVAILABLE : ATOLL_ERR_FAILED_PRECONDITION,
            ECHILD,
            "the operator's program for pull requests %s %d: %.160s; the branch is pushed; "
            "`atoll task retry %s open%s` calls it again",
            exited ? "exited with status" : "was ended by signal",
            exited ? code : WTERMSIG(end->status), end->said, task->id,
            atoll_task_repo_option(task));
    if (failed.kind != ATOLL_ERR_NONE) {
        atoll_task_step_done(task, &failed);
        return;
    }
    if (find_url(end->said, url)) {
        (void)json_object_set_new(result, "url", json_string(url));
        atoll_task_log(task, "info", "opened %s", url);
    }
    atoll_task_step_done(task, NULL);
}

static int open_result(struct atoll_task *task, struct atoll_error *err)
{
    const char *hook = task->tasks->config.pull_request_hook;
    char subject[80], path[4200], *input = NULL;
    const char *title = title_of(task, subject);
    struct atoll_buf body;
    json_t *text;
    int r;

    atoll_buf_init(&body, BODY_MAX);
    write_body(task, &body);
    text = json_stringn_nocheck(atoll_buf_str(&body), atoll_buf_size(&body));
    atoll_task_note(task, "pull_request", json_pack("{s:s, s:o}", "title", title, "body", text));
    r = write_file(task, &body, path, sizeof(path), err);
    if (r == 0 && *hook && json_is_true(json_object_get(task->facts, "pushed"))) {
        input = input_of(task, title, atoll_buf_str(&body), path);
        if (input)
            atoll_task_program_run(task, hook, input, HOOK_TIMEOUT_MS, opened);
        else
            r = atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EILSEQ,
                           "the text of the pull request is not valid UTF-8");
        free(input);
    } else if (r == 0) {
        atoll_task_log(task, "info", "%s",
                       *hook ? "nothing is pushed to a server: the pull request is only written"
                             : "this daemon has no program for pull requests "
                               "(--pull-request-hook): it is only written");
        atoll_task_step_done(task, NULL);
    }
    atoll_buf_done(&body);
    return r;
}

void atoll_task_open(struct atoll_task *task)
{
    struct atoll_error error;

    if (!wanted_of(task) || !*atoll_task_fact(task, "commit"))
        atoll_task_step_skip(task);
    else if (open_result(task, &error) < 0)
        atoll_task_step_done(task, &error);
}
