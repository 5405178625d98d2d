#include "base/log.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/fd.h"
#include "base/memory.h"
#include "base/text.h"
#include "engine/build/build_internal.h"

/*
 * The log of a build: lines of JSON in the file "log" of its version. It is appended only, so that a daemon
 * that continues the build continues the log, and readers keep their offsets.
 */
#define LINE_MAX_BYTES ((size_t)64 * 1024)
#define OUTPUT_MAX (UINT64_C(16) << 20)

struct atoll_make_watch {
    struct atoll_list node;
    void (*fn)(void *arg);
    void *arg;
};

int atoll_make_log_open(struct atoll_make *make, struct atoll_error *err)
{
    struct stat st;
    int fd = atoll_version_file(make->engine, make->id, "log", O_RDWR | O_CREAT | O_APPEND, err);

    if (fd < 0)
        return fd;
    make->log_fd = fd;
    make->log_bytes = fstat(fd, &st) == 0 ? (uint64_t)st.st_size : 0;
    return 0;
}

void atoll_make_log_close(struct atoll_make *make)
{
    if (make->log_fd >= 0)
        (void)close(ATOLL_TAKE_FD(make->log_fd));
}

static void tell(void *arg)
{
    struct atoll_make *make = arg;

    ATOLL_LIST_FOREACH (&make->watches, node) {
        struct atoll_make_watch *watch = ATOLL_CONTAINER_OF(node, struct atoll_make_watch, node);
        watch->fn(watch->arg);
    }
}

void atoll_make_changed(struct atoll_make *make)
{
    if (!atoll_list_empty(&make->watches) && !make->telling.loop)
        atoll_timer_set(&make->telling, make->engine->loop, 0, tell, make);
}

/* Begins a line: {"t": …, "kind": "…". */
static void begin(struct atoll_buf *line, const char *kind)
{
    atoll_buf_init(line, LINE_MAX_BYTES);
    (void)!atoll_buf_appendf(line, "{\"t\":%lld,\"kind\":\"%s\"", (long long)atoll_clock_unix_ms(),
                             kind);
}

static void add_number(struct atoll_buf *line, const char *name, int64_t value)
{
    if (value)
        (void)!atoll_buf_appendf(line, ",\"%s\":%lld", name, (long long)value);
}

static void add_text(struct atoll_buf *line, const char *name, const char *text, size_t n)
{
    (void)!atoll_buf_appendf(line, ",\"%s\":", name);
    if (atoll_text_json_quote(line, text, n) < 0)
        (void)!atoll_buf_appends(line, "\"…\"");
}

/* A log that cannot be written does not fail the build. */
static void finish(struct atoll_make *make, struct atoll_buf *line)
{
    int r;

    (void)!atoll_buf_appends(line, "}\n");
    r = make->log_fd < 0
            ? 0
            : atoll_fd_write_all(make->log_fd, atoll_buf_head(line), atoll_buf_size(line));
    if (r < 0) {
        atoll_log(ATOLL_LOG_WARN, "log of a build is not written", "build", make->id, "error",
                  strerror(-r), NULL);
        atoll_make_log_close(make);
    } else if (make->log_fd >= 0) {
        make->log_bytes += atoll_buf_size(line);
    }
    atoll_buf_done(line);
    atoll_make_changed(make);
}

void atoll_make_log_step(struct atoll_make *make, unsigned step, const char *stage, int line_number,
                         const char *text)
{
    struct atoll_buf line;

    begin(&line, "step");
    add_number(&line, "step", step);
    add_number(&line, "of", make->step_count);
    add_text(&line, "stage", stage, strlen(stage));
    add_number(&line, "line", line_number);
    add_text(&line, "text", text, strlen(text));
    finish(make, &line);
}

void atoll_make_log_output(struct atoll_make *make, unsigned step, int stream, const char *text,
                           size_t n)
{
    struct atoll_buf line;

    make->output_bytes += n;
    if (make->output_bytes > OUTPUT_MAX) {
        if (!make->output_is_cut)
            atoll_make_log_note(make, "note", step, 0,
                                "more output than is kept: the rest is left out");
        make->output_is_cut = true;
        return;
    }
    begin(&line, "output");
    add_number(&line, "step", step);
    add_text(&line, "stream", stream == 2 ? "stderr" : "stdout", 6);
    add_text(&line, "text", text, n);
    finish(make, &line);
}

void atoll_make_log_done(struct atoll_make *make, unsigned step, int64_t ms, bool cached)
{
    struct atoll_buf line;

    begin(&line, "done");
    add_number(&line, "step", step);
    (void)!atoll_buf_appendf(&line, ",\"ms\":%lld,\"cached\":%s", (long long)ms,
                             cached ? "true" : "false");
    finish(make, &line);
}

void atoll_make_log_note(struct atoll_make *make, const char *kind, unsigned step, int line_number,
                         const char *text)
{
    struct atoll_buf line;

    begin(&line, kind);
    add_number(&line, "step", step);
    add_number(&line, "line", line_number);
    add_text(&line, "text", text, strlen(text));
    finish(make, &line);
}

void atoll_make_log_end(struct atoll_make *make)
{
    const char *state = atoll_make_state_name(make->state);
    struct atoll_buf line;

    begin(&line, "end");
    add_text(&line, "state", state, strlen(state));
    (void)!atoll_buf_appendf(&line, ",\"ms\":%lld", (long long)(atoll_clock_ms() - make->began_ms));
    if (*make->version)
        add_text(&line, "id", make->version, strlen(make->version));
    if (*make->digest)
        add_text(&line, "digest", make->digest, strlen(make->digest));
    if (*make->debug_template)
        add_text(&line, "debug", make->debug_template, strlen(make->debug_template));
    finish(make, &line);
}

static int find(struct atoll_engine *engine, const char *id, struct atoll_make **ret,
                struct atoll_error *err)
{
    ATOLL_LIST_FOREACH (&atoll_makes(engine)->makes, node) {
        struct atoll_make *make = ATOLL_CONTAINER_OF(node, struct atoll_make, node);
        if (strcmp(make->id, id) == 0) {
            *ret = make;
            return 0;
        }
    }
    return atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT, "there is no build %.64s", id);
}

ssize_t atoll_make_log(struct atoll_engine *engine, const char *id, uint64_t offset, void *buf,
                       size_t n, struct atoll_error *err)
{
    struct atoll_make *make;
    ssize_t got;
    int r = find(engine, id, &make, err);

    if (r < 0)
        return r;
    if (make->log_fd < 0 && atoll_make_log_open(make, err) < 0)
        return 0; /* its version was removed, and its log with it */
    got = pread(make->log_fd, buf, n, (off_t)offset);
    return got < 0 ? atoll_fail_errno(err, errno, "log") : got;
}

int atoll_make_watch(struct atoll_engine *engine, const char *id, void (*fn)(void *arg), void *arg,
                     struct atoll_make_watch **ret, struct atoll_error *err)
{
    struct atoll_make_watch *watch;
    struct atoll_make *make;
    int r = find(engine, id, &make, err);

    if (r < 0)
        return r;
    watch = atoll_alloc(sizeof(*watch));
    watch->fn = fn;
    watch->arg = arg;
    atoll_list_push_back(&make->watches, &watch->node);
    *ret = watch;
    return 0;
}

struct atoll_make_watch *atoll_make_unwatch(struct atoll_make_watch *watch)
{
    if (watch)
        atoll_list_remove(&watch->node);
    free(watch);
    return NULL;
}
