/* The verb diff. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/fd.h"
#include "base/text.h"
#include "cli/collection.h"
#include "cli/diff_mount.h"
#include "cli/print.h"

#define TIMEOUT_MS (15 * 60 * 1000)
#define LIMIT "10000"
#define COMPONENTS_MAX 64 /* deeper directories are printed without more indentation */

struct diff_options {
    struct atoll_cli_common common;
    bool patch, export, apply, force;
    const char *relative, *mount;
};

static const struct atoll_cli_option diff_table[] = {
    {"patch", 'p', ATOLL_CLI_FLAG, offsetof(struct diff_options, patch), NULL,
     "a unified patch instead of a tree", NULL},
    {"export", 0, ATOLL_CLI_FLAG, offsetof(struct diff_options, export), NULL,
     "a patch for `git apply`, of --relative (default: /home/user)", NULL},
    {"relative", 0, ATOLL_CLI_TEXT, offsetof(struct diff_options, relative), "DIR",
     "only what is in DIR of the sandbox; paths of a patch are relative to it", NULL},
    {"mount", 0, ATOLL_CLI_TEXT, offsetof(struct diff_options, mount), "PATH",
     "how a folder of this host that is mounted there with the mode cow would change", NULL},
    {"apply", 0, ATOLL_CLI_FLAG, offsetof(struct diff_options, apply), NULL,
     "with --mount: write the changes to the folder", NULL},
    {"force", 0, ATOLL_CLI_FLAG, offsetof(struct diff_options, force), NULL,
     "with --apply: also over what has changed in the folder since", NULL},
    ATOLL_CLI_COMMON(struct diff_options),
    {0},
};

static int by_path(const void *a, const void *b)
{
    const json_t *x = *(json_t *const *)a, *y = *(json_t *const *)b;
    return strcmp(atoll_link_text(x, "path", ""), atoll_link_text(y, "path", ""));
}

static char sign_of(const json_t *change)
{
    const char *kind = atoll_link_text(change, "kind", "");

    return strcmp(kind, "added") == 0 ? '+' : strcmp(kind, "removed") == 0 ? '-' : '~';
}

/* Prints the directories of `path` that the entry before was not in. Returns the depth of its name. */
static int print_directories(const char *before, const char *path, const char **ret_name)
{
    int depth = 0;
    bool same = true;

    for (const char *p = path + 1, *slash; (slash = strchr(p, '/')) != NULL; p = slash + 1) {
        size_t n = (size_t)(slash - path);

        same = same && strncmp(before, path, n) == 0 && (before[n] == '/' || before[n] == '\0');
        if (!same)
            (void)printf("  %*s%.*s\n", 2 * depth, "", (int)(slash - p) + 1, p);
        depth += depth < COMPONENTS_MAX;
    }
    *ret_name = strrchr(path, '/') + 1;
    return depth;
}

static void print_change(const json_t *change, const char *before)
{
    const json_t *was = json_object_get(change, "before"), *is = json_object_get(change, "after");
    const char *type = atoll_link_text(is ? is : was, "type", "");
    const char *name;
    char size[16];
    int depth = print_directories(before, atoll_link_text(change, "path", "/"), &name);

    (void)printf("%c %*s%s%s", sign_of(change), 2 * depth, "", name,
                 strcmp(type, "directory") == 0 ? "/" : "");
    if (strcmp(type, "file") == 0 && is)
        (void)printf("  %s", atoll_text_format_size(atoll_link_count(is, "size"), size));
    if (was && is && !json_is_true(json_object_get(change, "content")) &&
        strcmp(atoll_link_text(was, "type", ""), type) == 0)
        (void)printf("  mode %04o", (unsigned)atoll_link_count(is, "mode"));
    (void)printf("\n");
}

static void print_tree(const json_t *reply)
{
    const json_t *changes = json_object_get(reply, "changes");
    const json_t *summary = json_object_get(reply, "summary");
    size_t n = json_array_size(changes);
    json_t **sorted = calloc(n + 1, sizeof(json_t *));
    const char *before = "";
    char size[16];

    for (size_t i = 0; sorted && i < n; i++)
        sorted[i] = json_array_get(changes, i);
    if (sorted)
        qsort(sorted, n, sizeof(json_t *), by_path);
    for (size_t i = 0; sorted && i < n; i++) {
        print_change(sorted[i], before);
        before = atoll_link_text(sorted[i], "path", "");
    }
    free(sorted);
    (void)printf("%llu added, %llu changed, %llu removed, %s%s\n",
                 (unsigned long long)atoll_link_count(summary, "added"),
                 (unsigned long long)(atoll_link_count(summary, "changed") +
                                      atoll_link_count(summary, "type")),
                 (unsigned long long)atoll_link_count(summary, "removed"),
                 atoll_text_format_size(atoll_link_count(summary, "bytes"), size),
                 json_is_true(json_object_get(summary, "truncated")) ? "; not all are listed" : "");
}

static int write_patch(void *arg ATOLL_UNUSED, const void *bytes, size_t n)
{
    return atoll_fd_write_all(STDOUT_FILENO, bytes, n);
}

static int run_diff(struct atoll_cli *cli, const void *options, int argc, char **argv,
                    struct atoll_error *err)
{
    const struct diff_options *o = options;
    const struct atoll_http_transfer transfer = {.length = -1, .write = write_patch};
    bool patch = o->patch || o->export;
    const char *path = o->relative ? o->relative : o->export ? "/home/user" : "/";
    ATOLL_AUTOJSON json_t *reply = NULL;
    struct atoll_link_target target;
    int r = atoll_link_check_id("sandbox", argv[0], err);

    if (r == 0 && (o->mount ? patch || o->relative || argc > 1 || (o->force && !o->apply)
                            : o->apply || o->force))
        return atoll_fail(
            err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
            "--mount has no moments and no patch; --apply needs --mount, --force needs --apply");
    if (r == 0 && o->mount)
        return atoll_cli_diff_mount(cli, argv[0], o->mount, o->apply, o->force, err);
    if (r == 0)
        r = atoll_link_target(&target, err,
                              "/api/sandboxes/%s/diff?from=%s&to=%s&format=%s&path=%s&limit=" LIMIT,
                              argv[0], argc > 1 ? argv[1] : "start", argc > 2 ? argv[2] : "now",
                              patch ? "patch" : "json", path);
    if (r < 0)
        return r;
    atoll_cli_set_timeout(cli, TIMEOUT_MS);
    if (patch)
        return atoll_cli_stream(cli, "GET", target.text, &transfer, NULL, err);
    r = atoll_cli_call(cli, "GET", target.text, NULL, &reply, err);
    if (r < 0)
        return r;
    if (cli->json)
        return atoll_cli_print_json(reply, err);
    print_tree(reply);
    return ATOLL_CLI_OK;
}

const struct atoll_cli_verb atoll_cli_diff = {
    .name = "diff",
    .args = "[OPTION]... SANDBOX [FROM [TO]]",
    .summary = "show which files of a sandbox have changed",
    .help =
        "FROM and TO are moments: start (its template), now, the name of a snapshot, or, with\n"
        "--checkpoints command, the number of a command: the files after it.\n"
        "Without them: from the start until now.\n"
        "\n"
        "Signs: + added, ~ changed, - removed.\n"
        "\n"
        "--mount compares a mounted folder of this host with what the sandbox made of it, by size, time and\n"
        "mode, and --apply makes the folder the same. What has changed in both is listed with !, is not\n"
        "overwritten, and makes the exit status 1.\n"
        "\n"
        "Examples:\n"
        "  atoll diff $id\n"
        "  atoll diff --patch $id before\n"
        "  atoll diff --export --relative /home/user/app $id | git apply\n"
        "  atoll diff --mount /work --apply $id\n",
    .options = diff_table,
    .options_size = sizeof(struct diff_options),
    .min_args = 1,
    .max_args = 3,
    .run = run_diff,
};
