#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "base/fd.h"
#include "cli/artifacts.h"
#include "cli/child.h"
#include "cli/copy.h"
#include "cli/print.h"
#include "cli/task.h"

#define BUNDLE "/tmp/.atoll-task.bundle" /* in the sandbox */
#define POLL_MS 50

bool atoll_cli_task_is_local(const char *repo)
{
    struct stat st;

    return !strstr(repo, "://") && stat(repo, &st) == 0 && S_ISDIR(st.st_mode);
}

/* A new file that only we can read. Its path is absolute: git works in another directory. */
static int make_file(char *path, size_t cap, int *ret_fd, struct atoll_error *err)
{
    const char *dir = getenv("TMPDIR");

    (void)snprintf(path, cap, "%s/atoll-bundle-XXXXXX", dir && *dir == '/' ? dir : "/tmp");
    *ret_fd = mkostemp(path, O_CLOEXEC);
    return *ret_fd < 0 ? atoll_fail(err, ATOLL_ERR_INTERNAL, errno, "%s: %s", path, strerror(errno))
                       : 0;
}

static int run_git(char *const *argv, int out_fd, struct atoll_error *err)
{
    pid_t pid;
    int status = 0, r = atoll_cli_spawn(argv, out_fd, false, &pid);

    if (r == -ENOENT)
        return atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT,
                          "git is not installed; it is needed for a repository of this machine");
    if (r < 0)
        return atoll_fail_errno(err, -r, "git");
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, ECHILD, "git %s failed", argv[3]);
}

/* The first line of what git prints. -ECHILD: git has failed, and said why on stderr. */
static int ask_git(char *const *argv, char *ret, size_t cap)
{
    struct atoll_cli_child child;
    struct atoll_error ignored;
    size_t at = 0;
    ssize_t n = 1;

    if (atoll_cli_child_start(&child, argv, &ignored) < 0)
        return -ECHILD;
    while (n > 0 && at + 1 < cap) {
        n = atoll_cli_child_read(&child, ret + at, cap - 1 - at);
        at += n > 0 ? (size_t)n : 0;
    }
    ret[at] = '\0';
    ret[strcspn(ret, "\n")] = '\0';
    return atoll_cli_child_finish(&child, &ignored) < 0 || n < 0 ? -ECHILD : 0;
}

/* The top of the repository in which the directory is; the directory itself, if the repository is bare. Before
 * version 2.41, git takes "-" of `git bundle` below the top for a file. */
static int find_top(const char *directory, char ret[static PATH_MAX], struct atoll_error *err)
{
    char *argv[] = {"git", "-C", (char *)(uintptr_t)directory, "rev-parse", "--show-cdup", NULL};
    char up[PATH_MAX];

    if (ask_git(argv, up, sizeof(up)) < 0)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, ECHILD, "git rev-parse failed");
    if (snprintf(ret, PATH_MAX, "%s%s%s", directory, *up ? "/" : "", up) >= PATH_MAX)
        return atoll_fail_errno(err, ENAMETOOLONG, "%.100s", directory);
    return 0;
}

/* What `git bundle` is to put in. */
static void name_ref(const char *branch, char *ref, size_t cap)
{
    (void)snprintf(ref, cap, "%s%s", branch ? "refs/heads/" : "HEAD", branch ? branch : "");
}

int atoll_cli_task_check(const char *directory, const char *branch, struct atoll_error *err)
{
    char ref[512];
    char *argv[] = {"git", "-C", (char *)(uintptr_t)directory, "rev-parse", "-q", "--verify",
                    ref,   NULL};
    ATOLL_AUTOCLOSE int null_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    int r;

    name_ref(branch, ref, sizeof(ref));
    r = run_git(argv, null_fd, err);
    if (r < 0 && err->kind == ATOLL_ERR_FAILED_PRECONDITION)
        r = branch ? atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, ENOENT,
                                "%.300s has no branch %.100s (--base); `git branch` lists them",
                                directory, branch)
                   : atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, ENOENT,
                                "%.300s has no commit for a task to begin with", directory);
    return r;
}

int atoll_cli_task_refuse(const char *repo, struct atoll_error *err)
{
    if (strstr(repo, "://"))
        return 0; /* the daemon says which it takes */
    return atoll_fail(
        err, ATOLL_ERR_INVALID_ARGUMENT, ENOENT,
        "--repo must be a directory of this machine, or a URL that begins with https:// "
        "or http:// (got \"%.200s\")",
        repo);
}

int atoll_cli_task_look(const char *directory, const char *base, const char *branch,
                        struct atoll_error *err)
{
    char *dir = (char *)(uintptr_t)directory, line[512];
    char *inside[] = {"git", "-C", dir, "rev-parse", "--is-inside-work-tree", NULL};
    char *current[] = {"git", "-C", dir, "symbolic-ref", "-q", "--short", "HEAD", NULL};
    char *status[] = {"git", "--no-optional-locks", "-C", dir, "status", "--porcelain", NULL};

    if (ask_git(inside, line, sizeof(line)) < 0 || strcmp(line, "true") != 0)
        return 0; /* a bare repository */
    if (branch && ask_git(current, line, sizeof(line)) == 0 && strcmp(line, branch) == 0)
        return atoll_fail(
            err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
            "%.100s is checked out in %.200s, so that it cannot come back there: give "
            "another --branch, and merge it afterwards",
            branch, directory);
    if (!base && ask_git(status, line, sizeof(line)) == 0 && *line)
        atoll_cli_say("warning: changes that are not committed do not go in; `git status` lists "
                      "them");
    return 0;
}

/* Whether the step is behind the one that wants the repository. */
static bool has_source(const char *step)
{
    static const char *const before[] = {"", "sandbox", "install", "clone"};

    for (size_t i = 0; i < sizeof(before) / sizeof(before[0]); i++)
        if (strcmp(step, before[i]) == 0)
            return false;
    return true;
}

/* 1: the task does not want the repository. */
static int await_sandbox(struct atoll_cli *cli, const char *task, char *ret_sandbox, size_t cap,
                         struct atoll_error *err)
{
    struct atoll_link_target target;
    int r = atoll_link_target(&target, err, "/api/tasks/%s", task);

    while (r == 0) {
        ATOLL_AUTOJSON json_t *view = NULL;
        const char *state;

        r = atoll_cli_call(cli, "GET", target.text, NULL, &view, err);
        if (r < 0)
            return r;
        if (json_is_true(json_object_get(view, "wants_source"))) {
            (void)snprintf(ret_sandbox, cap, "%s", atoll_link_text(view, "sandbox_id", ""));
            return 0;
        }
        state = atoll_link_text(view, "state", "");
        if (strcmp(state, "running") != 0 && strcmp(state, "waiting") != 0)
            return 1; /* it has failed; its error is shown at the end */
        if (has_source(atoll_link_text(view, "step", "")))
            return 1;
        (void)nanosleep(&(struct timespec){.tv_nsec = POLL_MS * 1000000L}, NULL);
    }
    return r;
}

static int send_file(struct atoll_cli *cli, const char *task, const char *sandbox, const char *file,
                     struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *reply = NULL;
    struct atoll_link_target target;
    struct atoll_cli_copy copy;
    int r;

    atoll_cli_copy_init(&copy, cli, sandbox, NULL);
    r = atoll_cli_copy_upload(&copy, file, BUNDLE, err);
    atoll_cli_copy_done(&copy);
    if (r == 0)
        r = atoll_link_target(&target, err, "/api/tasks/%s/source", task);
    return r < 0 ? r : atoll_cli_call(cli, "POST", target.text, NULL, &reply, err);
}

static int send_bundle(struct atoll_cli *cli, const char *task, const char *sandbox,
                       const char *directory, const char *branch, struct atoll_error *err)
{
    char file[4096], ref[512], top[PATH_MAX];
    char *argv[] = {"git", "-C", top, "bundle", "create", "-q", "-", ref, NULL};
    ATOLL_AUTOCLOSE int fd = -1;
    int r = find_top(directory, top, err);

    if (r == 0)
        r = make_file(file, sizeof(file), &fd, err);

    if (r < 0)
        return r;
    name_ref(branch, ref, sizeof(ref));
    r = run_git(argv, fd, err);
    if (r == 0)
        r = send_file(cli, task, sandbox, file, err);
    (void)unlink(file);
    return r;
}

/* Whether it still waits for the repository: what failed may be the answer alone. */
static bool wants_source(struct atoll_cli *cli, const char *task)
{
    ATOLL_AUTOJSON json_t *reply = NULL;
    struct atoll_link_target target;
    struct atoll_error ignored;

    return atoll_link_target(&target, &ignored, "/api/tasks/%s", task) < 0 ||
           atoll_cli_call(cli, "GET", target.text, NULL, &reply, &ignored) < 0 ||
           json_is_true(json_object_get(reply, "wants_source"));
}

int atoll_cli_task_send(struct atoll_cli *cli, const char *task, const char *directory,
                        const char *branch, struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *reply = NULL;
    struct atoll_link_target target;
    struct atoll_error ignored;
    char sandbox[64];
    int r = await_sandbox(cli, task, sandbox, sizeof(sandbox), err);

    if (r != 0)
        return r < 0 ? r : 0;
    r = send_bundle(cli, task, sandbox, directory, branch, err);
    if (r < 0 && !wants_source(cli, task))
        return 0;
    if (r < 0 && atoll_link_target(&target, &ignored, "/api/tasks/%s/cancel", task) == 0)
        (void)!atoll_cli_call(cli, "POST", target.text, NULL, &reply, &ignored);
    return r;
}

/* The task has the branch still. */
static int explain(const json_t *task, const char *branch, const char *directory,
                   struct atoll_error *err)
{
    char why[ATOLL_ERROR_TEXT_MAX];

    (void)snprintf(why, sizeof(why), "%s", err->text);
    return atoll_fail(err, err->kind, err->errnum,
                      "the branch %.80s did not come back (%.100s); `atoll task take %s --repo "
                      "%.100s` brings it",
                      branch, why, atoll_link_text(task, "id", "?"), directory);
}

int atoll_cli_task_fetch(struct atoll_cli *cli, const json_t *task, const char *directory,
                         struct atoll_error *err)
{
    const char *bundle = atoll_link_text(task, "bundle", "");
    const char *branch = atoll_link_text(task, "branch", "");
    char file[4096], refs[512];
    ATOLL_AUTOCLOSE int fd = -1;
    int r;

    if (!*bundle)
        return 0;
    r = make_file(file, sizeof(file), &fd, err);
    if (r < 0)
        return r;
    r = atoll_cli_artifact_fetch(cli, atoll_link_text(task, "sandbox_id", ""), bundle, fd, err);
    (void)snprintf(refs, sizeof(refs), "refs/heads/%s:refs/heads/%s", branch, branch);
    if (r == 0) {
        char *argv[] = {"git", "-C", (char *)(uintptr_t)directory, "fetch", "-q", file, refs, NULL};
        r = run_git(argv, STDERR_FILENO, err);
    }
    if (r < 0)
        r = explain(task, branch, directory, err);
    (void)unlink(file);
    return r;
}
