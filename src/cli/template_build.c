/*
 * Writes the paths of all files in DIR that .dockerignore does not exclude to a memfd; tar packs those,
 * and its output is streamed to the daemon. The daemon answers with lines of JSON.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include "base/fd.h"
#include "base/text.h"
#include "cli/build.h"
#include "cli/child.h"
#include "cli/lines.h"
#include "cli/print.h"
#include "cli/template.h"
#include "image/dockerignore.h"

#define DEPTH_MAX 64
#define PATH_MAX_BYTES 4096
#define LINE_MAX_BYTES ((size_t)1024 * 1024)

struct options {
    struct atoll_cli_common common;
    const char *provider, *file, *network;
    uint64_t memory_bytes;
};

#define AT(member) offsetof(struct options, member)
static const struct atoll_cli_option options_table[] = {
    {"provider", 0, ATOLL_CLI_TEXT, AT(provider), "NAME",
     "provider that builds it (default: any that can)", NULL},
    {"file", 'f', ATOLL_CLI_TEXT, AT(file), "PATH", "path of the Dockerfile in DIR", NULL},
    {"network", 0, ATOLL_CLI_TEXT, AT(network), "MODE",
     "network of the steps: none (default) or bridge", NULL},
    {"memory", 'm', ATOLL_CLI_SIZE, AT(memory_bytes), "SIZE",
     "memory limit of each step (default: 2G)", NULL},
    ATOLL_CLI_COMMON(struct options),
    {0},
};
#undef AT

/* The files to send. */

struct listing {
    struct atoll_dockerignore ignored;
    const char *dockerfile;
    struct atoll_buf list; /* paths, each terminated by NUL (tar --null) */
    struct atoll_buf path;
};

/* The builder needs the Dockerfile and .dockerignore, even if a pattern excludes them. */
static bool is_wanted(const struct listing *l, const char *path)
{
    return strcmp(path, l->dockerfile) == 0 || strcmp(path, ".dockerignore") == 0 ||
           !atoll_dockerignore_match(&l->ignored, path);
}

static int list_dir(struct listing *l, int dir_fd, const char *name, unsigned depth,
                    struct atoll_error *err);

static int list_entry(struct listing *l, int dir_fd, const char *name, unsigned depth,
                      struct atoll_error *err)
{
    const char *path = atoll_buf_str(&l->path);
    bool wanted = is_wanted(l, path);
    struct stat st;
    int r = 0;

    if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return atoll_fail_errno(err, errno, "%.200s", path);
    if (S_ISSOCK(st.st_mode))
        return 0; /* tar would fail */
    if (wanted)
        r = atoll_buf_append(&l->list, path, strlen(path) + 1);
    if (r < 0)
        return atoll_fail_errno(err, -r, "too many files");
    /* Enter an excluded directory too if a "!" pattern or the Dockerfile may be below it. */
    if (S_ISDIR(st.st_mode) &&
        (wanted || l->ignored.excepts || strncmp(l->dockerfile, path, strlen(path)) == 0))
        r = list_dir(l, dir_fd, name, depth + 1, err);
    return r;
}

static int list_dir(struct listing *l, int dir_fd, const char *name, unsigned depth,
                    struct atoll_error *err)
{
    int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | (depth ? O_NOFOLLOW : 0));
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *entry;
    int r = 0;

    if (!dir || depth > DEPTH_MAX) {
        r = atoll_fail(err, atoll_error_kind_of_path_errno(errno), errno, "%.200s: %s", name,
                       depth > DEPTH_MAX ? "nested too deeply" : strerror(errno));
        if (dir)
            (void)closedir(dir);
        return r;
    }
    while (r == 0 && (entry = readdir(dir)) != NULL) {
        size_t mark = l->path.len;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        if (atoll_buf_appendf(&l->path, "%s%s", depth ? "/" : "", entry->d_name) < 0)
            r = atoll_fail_errno(err, ENAMETOOLONG, "%.200s", entry->d_name);
        else
            r = list_entry(l, fd, entry->d_name, depth, err);
        l->path.len = mark;
    }
    (void)closedir(dir);
    return r;
}

int atoll_cli_list_context(const char *dir, const char *dockerfile, int *ret_fd,
                           struct atoll_error *err)
{
    ATOLL_AUTOFREE struct listing *l = calloc(1, sizeof(*l));
    ATOLL_AUTOCLOSE int top = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int r, fd = ATOLL_NO_FD;

    if (!l)
        return atoll_fail_errno(err, ENOMEM, "list of files");
    if (top < 0)
        return atoll_fail(err, atoll_error_kind_of_path_errno(errno), errno, "%.200s: %s", dir,
                          strerror(errno));
    l->dockerfile = dockerfile;
    atoll_buf_init(&l->list, (size_t)256 * 1024 * 1024);
    atoll_buf_init(&l->path, PATH_MAX_BYTES);
    r = atoll_dockerignore_load(&l->ignored, top, err);
    if (r == 0)
        r = list_dir(l, top, ".", 0, err);
    if (r == 0) {
        fd = memfd_create("files", 0);
        r = fd < 0 ? -errno
                   : atoll_fd_write_all(fd, atoll_buf_head(&l->list), atoll_buf_size(&l->list));
        if (r < 0)
            r = atoll_fail_errno(err, -r, "list of files");
    }
    atoll_dockerignore_done(&l->ignored);
    atoll_buf_done(&l->list);
    atoll_buf_done(&l->path);
    *ret_fd = fd;
    return r;
}

/* The daemon's answer. */

struct build {
    struct atoll_cli_child child; /* tar */
    struct atoll_cli_progress progress;
    bool sending;
    struct atoll_cli_lines lines;
    json_t *template; /* owned; set by the last line of a successful build */
    json_t *error;    /* owned; set by the last line of a failed build */
};

static ssize_t read_files(void *arg, void *buf, size_t n)
{
    struct build *b = arg;
    ssize_t r = atoll_cli_child_read(&b->child, buf, n);

    if (r > 0)
        atoll_cli_progress_add(&b->progress, (uint64_t)r);
    return r;
}

static void take_line(void *arg, const char *text, size_t n)
{
    struct build *b = arg;
    json_t *o = atoll_link_parse_json(text, n);
    const char *output = atoll_link_text(o, "output", NULL);

    if (output) {
        atoll_cli_put(stderr, output);
        (void)fputc('\n', stderr);
    }
    if (json_object_get(o, "truncated"))
        atoll_cli_say("some lines of the build's output were dropped");
    if (json_object_get(o, "template") && !b->template)
        b->template = json_incref(json_object_get(o, "template"));
    if (json_object_get(o, "error") && !b->error)
        b->error = json_incref(o);
    json_decref(o);
}

static int take_answer(void *arg, const void *bytes, size_t n)
{
    struct build *b = arg;

    if (b->sending) {
        b->sending = false;
        atoll_cli_progress_end(&b->progress);
    }
    return atoll_cli_lines_write(&b->lines, bytes, n);
}

static int conclude(struct atoll_cli *cli, struct build *b, struct atoll_error *err)
{
    if (b->error)
        return atoll_link_daemon_error(cli->client, b->error, 0, err);
    if (!b->template)
        return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, EPIPE,
                          "the daemon's answer ended early: the result of the build is unknown");
    if (cli->json)
        return atoll_cli_print_json(b->template, err);
    atoll_cli_template_print(b->template);
    return ATOLL_CLI_OK;
}

static int send_files(struct atoll_cli *cli, struct build *b, const char *target,
                      struct atoll_error *err)
{
    struct atoll_http_transfer transfer = {
        .read = read_files, .length = -1, .write = take_answer, .arg = b};
    struct atoll_error failure;
    int r;

    atoll_cli_set_timeout(cli, -1); /* a step may be silent for long; the daemon has the timeout */
    atoll_cli_progress_start(&b->progress, "files", 0);
    b->sending = true;
    r = atoll_cli_stream(cli, "POST", target, &transfer, NULL, err);
    if (b->sending)
        atoll_cli_progress_end(&b->progress);
    if (atoll_cli_child_finish(&b->child, &failure) < 0 && r < 0)
        *err = failure; /* the failure of tar caused the failed request */
    return r;
}

static bool has_file(const char *dir, const char *file)
{
    ATOLL_AUTOCLOSE int top = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return top >= 0 && faccessat(top, file, R_OK, 0) == 0;
}

static int build(struct atoll_cli *cli, const struct options *o, const char *name, char *dir,
                 struct atoll_error *err)
{
    static char tar[] = "tar", in[] = "-C", nul[] = "--null", plain[] = "--no-recursion",
                verbatim[] = "--verbatim-files-from", root[] = "--owner=0", group[] = "--group=0",
                make[] = "-cf", to[] = "-";
    const char *file = o->file ? o->file : "Dockerfile";
    struct build b = {0};
    char from[32], memory[24];
    char *argv[] = {tar, in, dir, nul, plain, verbatim, root, group, from, make, to, NULL};
    ATOLL_AUTOCLOSE int list_fd = ATOLL_NO_FD;
    struct atoll_link_target target;
    int r = atoll_cli_list_context(dir, file, &list_fd, err);

    if (r < 0)
        return r;
    if (!has_file(dir, file))
        return atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT, "there is no %.100s in %.200s", file,
                          dir);
    (void)snprintf(from, sizeof(from), "-T/dev/fd/%d", list_fd);
    (void)snprintf(
        memory, sizeof(memory), "%llu",
        (unsigned long long)(o->memory_bytes ? (o->memory_bytes + 1048575) >> 20 : 2048));
    r = atoll_link_target(
        &target, err, "/api/templates/%s/build?file=%s&network=%s&provider=%s&memoryMB=%s", name,
        file, o->network ? o->network : "none", o->provider ? o->provider : "auto", memory);
    if (r == 0)
        r = atoll_cli_child_start(&b.child, argv, err);
    if (r < 0)
        return r;
    atoll_cli_lines_init(&b.lines, LINE_MAX_BYTES, take_line, &b);
    r = send_files(cli, &b, target.text, err);
    if (r == 0)
        r = conclude(cli, &b, err);
    atoll_cli_lines_done(&b.lines);
    json_decref(b.template);
    json_decref(b.error);
    return r;
}

static int run(struct atoll_cli *cli, const void *options, int argc, char **argv,
               struct atoll_error *err)
{
    static char here[] = ".";
    const struct options *o = options;
    int r;

    if (argc < 2)
        return atoll_cli_build_e2b(cli, o->network, argc > 0 ? argv[0] : here, err);
    r = atoll_cli_template_check_name(argv[0], err);
    return r < 0 ? r : build(cli, o, argv[0], argv[1], err);
}

const struct atoll_cli_verb atoll_cli_template_build = {
    .name = "template build",
    .args = "[OPTION]... [[NAME] DIR]",
    .summary = "build what e2b.toml says, or an image at a provider",
    .help = "Without NAME, builds what the e2b.toml in DIR (or here) says, as E2B's command line\n"
            "does: its Dockerfile, start and ready commands, processors and memory.\n"
            "With NAME, sends the files of DIR, except those in its .dockerignore, to a provider\n"
            "that builds images (docker). The output of the build goes to standard error.\n"
            "\n"
            "Examples:\n"
            "  cd my-e2b-template && atoll template build\n"
            "  atoll template build app .\n"
            "  atoll template build --network bridge --file docker/Dockerfile app src\n"
            "  atoll run --template app -- ./test.sh\n",
    .options = options_table,
    .options_size = sizeof(struct options),
    .min_args = 0,
    .max_args = 2,
    .run = run,
};
