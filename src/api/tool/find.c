#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>
#include "api/kit/collect.h"
#include "api/tool/tool_internal.h"
#include "base/glob.h"
#include "base/memory.h"

/*
 * Finding files. Glob and LS use the list of the agent; Grep runs grep, which nearly every image has.
 */
#define FOUND_MAX 1000 /* paths in a result */
#define GLOB_DEPTH 64
#define SHOWN_MAX ((size_t)512 * 1024)
#define GREP_MAX ((size_t)30000) /* bytes of grep's output that are shown */
#define GREP_TIMEOUT_MS 60000

struct found {
    char *path; /* owned */
    int64_t mtime_ms;
    bool is_directory;
};

struct finding {
    struct atoll_tool_call *call;
    const char *pattern;           /* Glob; of the call's arguments */
    const json_t *ignore;          /* LS; likewise */
    char top[ATOLL_TOOL_PATH_MAX]; /* the directory as the agent names it */
    struct found found[FOUND_MAX];
    size_t count;
    bool more;
};

static void finding_free(struct finding *f)
{
    for (size_t i = 0; i < f->count; i++)
        free(f->found[i].path);
    free(f);
}

static bool is_ignored(const struct finding *f, const char *name)
{
    for (size_t i = 0; i < json_array_size(f->ignore); i++)
        if (fnmatch(json_string_value(json_array_get(f->ignore, i)), name, 0) == 0)
            return true;
    return false;
}

/* The part of the path below the directory that is listed. */
static const char *relative(const struct finding *f, const char *path)
{
    size_t n = strlen(f->top);

    if (strncmp(path, f->top, n) != 0)
        return path;
    return path + n + strspn(path + n, "/");
}

static void take(void *arg, const struct atoll_am_entry *entry)
{
    struct finding *f = arg;
    const char *rest = relative(f, entry->path), *slash = strrchr(entry->path, '/');
    bool is_directory = entry->type == ATOLL_ENTRY_DIRECTORY;

    if (f->pattern ? is_directory || !atoll_glob_match(f->pattern, rest)
                   : is_ignored(f, slash ? slash + 1 : rest))
        return;
    if (f->count == FOUND_MAX) {
        f->more = true;
        return;
    }
    f->found[f->count] = (struct found){strdup(entry->path), entry->mtime_ms, is_directory};
    if (f->found[f->count].path)
        f->count++;
}

static int newest_first(const void *left, const void *right)
{
    const struct found *a = left, *b = right;

    if (a->mtime_ms != b->mtime_ms)
        return a->mtime_ms < b->mtime_ms ? 1 : -1;
    return strcmp(a->path, b->path);
}

static void listed(void *arg, const struct atoll_error *error)
{
    struct finding *f = arg;
    struct atoll_tool_call *call = f->call;
    struct atoll_buf text;
    json_t *paths = json_array();

    if (error) {
        json_decref(paths);
        finding_free(f);
        atoll_tool_fail(call, error);
        return;
    }
    if (f->pattern)
        qsort(f->found, f->count, sizeof(f->found[0]), newest_first);
    atoll_buf_init(&text, SHOWN_MAX);
    for (size_t i = 0; i < f->count; i++) {
        size_t at = atoll_buf_size(&text);

        (void)!atoll_tool_show_path(call, f->found[i].path, &text);
        (void)!atoll_buf_appends(&text, f->found[i].is_directory ? "/" : "");
        (void)json_array_append_new(
            paths, atoll_tool_json_bytes(atoll_buf_head(&text) + at, atoll_buf_size(&text) - at));
        (void)!atoll_buf_appends(&text, "\n");
    }
    if (f->count == 0)
        (void)!atoll_buf_appends(&text, "No files found\n");
    if (f->more)
        (void)!atoll_buf_appendf(&text, "[more than %d: use a narrower pattern or path]\n",
                                 FOUND_MAX);
    finding_free(f);
    atoll_tool_finish(call, &text, json_pack("{s:o}", "paths", paths), false);
}

/* Directories are named as the agent names them, by their real absolute path. */
static void begin_list(void *arg, const struct atoll_am_entry *entry,
                       const struct atoll_error *error)
{
    struct finding *f = arg;
    struct atoll_tool_call *call = f->call;

    if (error) {
        finding_free(f);
        atoll_tool_fail(call, error);
        return;
    }
    (void)snprintf(f->top, sizeof(f->top), "%s", entry->path);
    atoll_files_list(call->engine, call->sandbox_id, NULL, f->top, f->pattern ? GLOB_DEPTH : 1,
                     take, listed, f);
}

static void find(struct atoll_tool_call *call)
{
    const char *given = atoll_tool_text(call, "path");
    char path[ATOLL_TOOL_PATH_MAX] = ".";
    struct atoll_error error;
    struct finding *f;

    if (!given && call->outside)
        given = call->outside;
    if (given && atoll_tool_path(call, given, path, &error) < 0) {
        atoll_tool_fail(call, &error);
        return;
    }
    f = atoll_alloc(sizeof(*f));
    f->call = call;
    f->pattern = atoll_tool_text(call, "pattern");
    f->ignore = json_object_get(call->args, "ignore");
    atoll_files_stat(call->engine, call->sandbox_id, NULL, path, begin_list, f);
}

void atoll_tool_run_glob(struct atoll_tool_call *call)
{
    find(call);
}

void atoll_tool_run_ls(struct atoll_tool_call *call)
{
    find(call);
}

/* Grep. */

struct grep {
    struct atoll_tool_call *call;
    struct atoll_collect collect;
};

/* Appends output with paths as the client writes them: each line of grep begins with a path. */
static void show_lines(const struct atoll_tool_call *call, const struct atoll_buf *output,
                       struct atoll_buf *text)
{
    size_t size = atoll_buf_size(output);
    const char *p = size > 0 ? (const char *)atoll_buf_head(output) : "", *end = p + size, *next;
    uint64_t left = atoll_tool_whole(call, "head_limit", UINT64_MAX);
    char line[ATOLL_TOOL_PATH_MAX];

    for (; p < end && left > 0; p = next, left--) {
        const char *newline = memchr(p, '\n', (size_t)(end - p));

        next = newline ? newline + 1 : end;
        if (atoll_buf_size(text) + (size_t)(next - p) > GREP_MAX) {
            (void)!atoll_buf_appends(text,
                                     "[more is left out: use head_limit or a narrower path]\n");
            return;
        }
        (void)snprintf(line, sizeof(line), "%.*s", (int)(next - p), p);
        (void)!atoll_tool_show_path(call, line, text);
    }
}

static void searched(void *arg, const struct atoll_exec_result *result,
                     const struct atoll_error *error)
{
    struct grep *g = arg;
    struct atoll_tool_call *call = g->call;
    struct atoll_buf text;
    /* 1: no line matches. */
    bool failed = !result || result->kind != ATOLL_END_EXITED || result->code > 1;

    if (error) {
        atoll_tool_fail(call, error);
    } else {
        atoll_buf_init(&text, 4 * GREP_MAX);
        show_lines(call, &g->collect.streams[ATOLL_STREAM_STDOUT], &text);
        if (failed)
            (void)!atoll_buf_append(
                &text, atoll_buf_head(&g->collect.streams[ATOLL_STREAM_STDERR]),
                ATOLL_MIN(atoll_buf_size(&g->collect.streams[ATOLL_STREAM_STDERR]), GREP_MAX));
        else if (atoll_buf_size(&text) == 0)
            (void)!atoll_buf_appends(&text, "No matches found\n");
        atoll_tool_finish(call, &text, json_pack("{s:b}", "found", result && result->code == 0),
                          failed);
    }
    atoll_collect_done(&g->collect);
    free(g);
}

static void grep_started(void *arg, struct atoll_exec *exec, const struct atoll_error *error)
{
    struct grep *g = arg;

    if (error) {
        atoll_tool_fail(g->call, error);
        free(g);
        return;
    }
    atoll_collect_start(&g->collect, g->call->loop, exec, searched, g);
}

#define GREP_ARGS 24
struct grep_line {
    const char *argv[GREP_ARGS];
    char numbers[3][24], include[512], path[ATOLL_TOOL_PATH_MAX];
    size_t count;
};

static void add_lines_around(const struct atoll_tool_call *call, struct grep_line *line)
{
    static const char *const names[] = {"-A", "-B", "-C"};

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(names); i++) {
        if (!json_object_get(call->args, names[i]))
            continue;
        (void)snprintf(line->numbers[i], sizeof(line->numbers[i]), "%s%llu", names[i],
                       (unsigned long long)atoll_tool_whole(call, names[i], 0));
        line->argv[line->count++] = line->numbers[i];
    }
}

static int make_grep_line(const struct atoll_tool_call *call, struct grep_line *line,
                          struct atoll_error *err)
{
    const char *mode = atoll_tool_text(call, "output_mode"), *glob = atoll_tool_text(call, "glob");
    const char *given = atoll_tool_text(call, "path");
    bool content = mode && strcmp(mode, "content") == 0;

    if (mode && !content && strcmp(mode, "count") != 0 && strcmp(mode, "files_with_matches") != 0)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "output_mode must be content, files_with_matches or count");
    if (!given && call->outside)
        given = call->outside;
    if (given && atoll_tool_path(call, given, line->path, err) < 0)
        return -EINVAL;
    line->argv[line->count++] = "grep";
    line->argv[line->count++] = "-rIEH";
    line->argv[line->count++] = "--exclude-dir=.git";
    if (content)
        add_lines_around(call, line);
    if (atoll_tool_flag(call, "-i"))
        line->argv[line->count++] = "-i";
    if (content && atoll_tool_flag(call, "-n"))
        line->argv[line->count++] = "-n";
    if (!content)
        line->argv[line->count++] = mode && strcmp(mode, "count") == 0 ? "-c" : "-l";
    if (glob) {
        (void)snprintf(line->include, sizeof(line->include), "--include=%s", glob);
        line->argv[line->count++] = line->include;
    }
    line->argv[line->count++] = "-e";
    line->argv[line->count++] = atoll_tool_text(call, "pattern");
    line->argv[line->count++] = "--";
    line->argv[line->count++] = given ? line->path : ".";
    return 0;
}

void atoll_tool_run_grep(struct atoll_tool_call *call)
{
    struct grep_line line = {0};
    struct atoll_error error;
    struct grep *g;

    if (make_grep_line(call, &line, &error) < 0) {
        atoll_tool_fail(call, &error);
        return;
    }
    g = atoll_alloc(sizeof(*g));
    g->call = call;
    atoll_engine_exec(call->engine, call->sandbox_id,
                      &(struct atoll_exec_start){.argv = line.argv, .timeout_ms = GREP_TIMEOUT_MS},
                      grep_started, g);
}
