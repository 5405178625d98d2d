#include "base/log.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/fd.h"
#include "base/memory.h"
#include "base/text.h"
#include "engine/json_memory.h"
#include "task/task_internal.h"

/*
 * The log of a task: lines of JSON in tasks/ID.log. It is appended only, so that the next daemon continues
 * it and readers keep their offsets.
 */
#define LINE_MAX_BYTES ((size_t)128 * 1024)
#define TEXT_MAX \
    ((size_t)16 * 1024) /* of one line of output; quoting can make it six times as long */
#define LINE_COST 128   /* of an entry, beside its text */
#define OUTPUT_MAX (UINT64_C(16) << 20)

struct atoll_task_watch {
    struct atoll_list node;
    void (*fn)(void *arg);
    void *arg;
};

static void name_of(const char *id, char out[static ATOLL_ID_LEN + 8])
{
    (void)snprintf(out, ATOLL_ID_LEN + 8, "%s.log", id);
}

void atoll_task_log_measure(struct atoll_task *task)
{
    char name[ATOLL_ID_LEN + 8];
    struct stat st;

    name_of(task->id, name);
    if (fstatat(task->tasks->dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
        task->log_bytes = (uint64_t)st.st_size;
}

int atoll_task_log_open(struct atoll_task *task, struct atoll_error *err)
{
    char name[ATOLL_ID_LEN + 8];
    struct stat st;

    name_of(task->id, name);
    task->log_fd = openat(task->tasks->dir_fd, name, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (task->log_fd < 0)
        return atoll_fail_errno(err, errno, "the log of a task");
    task->log_bytes = fstat(task->log_fd, &st) == 0 ? (uint64_t)st.st_size : 0;
    return 0;
}

void atoll_task_log_close(struct atoll_task *task)
{
    if (task->log_fd >= 0)
        (void)close(ATOLL_TAKE_FD(task->log_fd));
}

void atoll_task_log_remove(struct atoll_tasks *tasks, const char *id)
{
    char name[ATOLL_ID_LEN + 8];

    name_of(id, name);
    (void)unlinkat(tasks->dir_fd, name, 0);
    (void)snprintf(name, sizeof(name), "%s.pr.md", id); /* the text of its pull request */
    (void)unlinkat(tasks->dir_fd, name, 0);
}

static bool is_left(const struct atoll_tasks *tasks, const char *name)
{
    char id[ATOLL_ID_LEN + 1];
    size_t n = strcspn(name, ".");

    if (n != ATOLL_ID_LEN || (strcmp(name + n, ".log") != 0 && strcmp(name + n, ".pr.md") != 0))
        return false;
    (void)snprintf(id, sizeof(id), "%.*s", ATOLL_ID_LEN, name);
    return !atoll_map_get(&tasks->by_id, id);
}

void atoll_task_log_sweep(struct atoll_tasks *tasks)
{
    int fd = openat(tasks->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    struct dirent *entry;

    while (dir && (entry = readdir(dir)))
        if (is_left(tasks, entry->d_name))
            (void)unlinkat(tasks->dir_fd, entry->d_name, 0);
    if (dir)
        (void)closedir(dir);
    else if (fd >= 0)
        (void)close(fd);
}

static void tell(void *arg)
{
    struct atoll_task *task = arg;

    ATOLL_LIST_FOREACH (&task->watches, node) {
        struct atoll_task_watch *watch = ATOLL_CONTAINER_OF(node, struct atoll_task_watch, node);
        watch->fn(watch->arg);
    }
}

void atoll_task_unwatched(struct atoll_task *task)
{
    while (!atoll_list_empty(&task->watches)) {
        struct atoll_task_watch *watch =
            ATOLL_CONTAINER_OF(task->watches.next, struct atoll_task_watch, node);
        atoll_list_remove(&watch->node);
        watch->fn(watch->arg); /* which finds no task */
    }
}

void atoll_task_changed(struct atoll_task *task)
{
    if (!atoll_list_empty(&task->watches) && !task->telling.loop)
        atoll_timer_set(&task->telling, task->tasks->config.loop, 0, tell, task);
}

/* {"t": …, "level": …, "step": …, "percent": …, "message": … */
static void begin(const struct atoll_task *task, struct atoll_buf *line, const char *level,
                  const char *text, size_t n)
{
    atoll_buf_init(line, LINE_MAX_BYTES);
    (void)!atoll_buf_appendf(
        line, "{\"t\":%lld,\"level\":\"%s\",\"step\":\"%s\",\"percent\":%d,\"message\":",
        (long long)atoll_clock_unix_ms(), level, atoll_task_step_name(task->at),
        atoll_task_step_percent(task->at));
    if (atoll_text_json_quote(line, text, n) < 0)
        (void)!atoll_buf_appends(line, "\"…\"");
}

/* A log that cannot be written does not fail the task. */
static void finish(struct atoll_task *task, struct atoll_buf *line)
{
    int r;

    (void)!atoll_buf_appends(line, "}\n");
    r = task->log_fd < 0
            ? 0
            : atoll_fd_write_all(task->log_fd, atoll_buf_head(line), atoll_buf_size(line));
    if (r < 0) {
        atoll_log(ATOLL_LOG_WARN, "log of a task is not written", "task", task->id, "error",
                  strerror(-r), NULL);
        atoll_task_log_close(task);
    } else if (task->log_fd >= 0) {
        task->log_bytes += atoll_buf_size(line);
    }
    atoll_buf_done(line);
    atoll_task_changed(task);
}

void atoll_task_log(struct atoll_task *task, const char *level, const char *fmt, ...)
{
    struct atoll_buf line;
    char message[4096];
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(message, sizeof(message), fmt, ap);
    va_end(ap);
    begin(task, &line, level, message, ATOLL_MIN((size_t)ATOLL_MAX(n, 0), sizeof(message) - 1));
    finish(task, &line);
}

void atoll_task_log_output(struct atoll_task *task, int stream, const char *text, size_t n,
                           uint64_t end)
{
    struct atoll_buf line;

    task->output_bytes += n + LINE_COST;
    if (task->output_bytes > OUTPUT_MAX) {
        if (!task->output_is_cut)
            atoll_task_log(task, "info", "more output than is kept: the rest is left out");
        task->output_is_cut = true;
        return;
    }
    begin(task, &line, "output", text, ATOLL_MIN(n, TEXT_MAX));
    (void)!atoll_buf_appendf(&line, ",\"stream\":\"%s\",\"end\":%llu",
                             stream == ATOLL_STREAM_STDERR ? "stderr" : "stdout",
                             (unsigned long long)end);
    finish(task, &line);
}

/* --- reading --- */

/* Takes one line of the log into account. */
static void note_offset(const struct atoll_task *task, const char *line, size_t n,
                        uint64_t ret[static ATOLL_STREAM_STDERR + 1])
{
    json_error_t why;
    json_t *entry = atoll_json_load(line, n, 0, &why);
    const char *step = json_string_value(json_object_get(entry, "step"));
    const char *stream = json_string_value(json_object_get(entry, "stream"));
    const char *level = json_string_value(json_object_get(entry, "level"));
    json_int_t end = json_integer_value(json_object_get(entry, "end"));

    if (step && level && strcmp(step, atoll_task_step_name(task->at)) == 0) {
        if (stream)
            ret[strcmp(stream, "stderr") == 0 ? ATOLL_STREAM_STDERR : ATOLL_STREAM_STDOUT] =
                (uint64_t)end;
        else if (strcmp(level, "command") == 0) /* another command begins */
            ret[ATOLL_STREAM_STDOUT] = ret[ATOLL_STREAM_STDERR] = 0;
    }
    json_decref(entry);
}

void atoll_task_log_offsets(struct atoll_task *task, uint64_t ret[static ATOLL_STREAM_STDERR + 1])
{
    char *text = task->log_bytes && task->log_fd >= 0 ? malloc(task->log_bytes) : NULL;
    ssize_t n = text ? pread(task->log_fd, text, task->log_bytes, 0) : 0;
    const char *at = text, *newline;

    ret[ATOLL_STREAM_STDOUT] = ret[ATOLL_STREAM_STDERR] = 0;
    while (n > 0 && (newline = memchr(at, '\n', (size_t)(text + n - at)))) {
        note_offset(task, at, (size_t)(newline - at), ret);
        at = newline + 1;
    }
    free(text);
}

ssize_t atoll_tasks_log(struct atoll_tasks *tasks, const char *id, uint64_t offset, void *buf,
                        size_t n, struct atoll_error *err)
{
    const struct atoll_task *task = atoll_task_get(tasks, NULL, id, err);
    char name[ATOLL_ID_LEN + 8];
    ssize_t got;
    int fd;

    if (!task)
        return -ENOENT;
    name_of(id, name);
    fd = openat(tasks->dir_fd, name, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? 0 : atoll_fail_errno(err, errno, "the log of a task");
    got = pread(fd, buf, n, (off_t)offset);
    if (got < 0)
        got = atoll_fail_errno(err, errno, "the log of a task");
    (void)close(fd);
    return got;
}

int atoll_tasks_watch(struct atoll_tasks *tasks, const char *id, void (*fn)(void *arg), void *arg,
                      struct atoll_task_watch **ret, struct atoll_error *err)
{
    struct atoll_task *task = atoll_task_get(tasks, NULL, id, err);
    struct atoll_task_watch *watch;

    if (!task)
        return -ENOENT;
    watch = atoll_alloc(sizeof(*watch));
    watch->fn = fn;
    watch->arg = arg;
    atoll_list_push_back(&task->watches, &watch->node);
    *ret = watch;
    return 0;
}

struct atoll_task_watch *atoll_tasks_unwatch(struct atoll_task_watch *watch)
{
    if (watch)
        atoll_list_remove(&watch->node);
    free(watch);
    return NULL;
}
