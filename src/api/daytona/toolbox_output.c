#include <errno.h>
#include <string.h>
#include "api/daytona/toolbox_internal.h"

#define RUNS_MAX ((size_t)4 * 1024 * 1024)

/* Bytes of one stream that arrived one after the other. */
struct run {
    uint32_t len;
    int32_t stream;
};

static struct run *last_run(const struct atoll_toolbox_output *o)
{
    size_t n = atoll_buf_size(&o->runs);

    return n == 0 ? NULL : (struct run *)(o->runs.data + o->runs.len - sizeof(struct run));
}

static int note_run(struct atoll_toolbox_output *o, int stream, size_t n)
{
    const struct run run = {(uint32_t)n, stream};
    struct run *last = last_run(o);

    if (!last || last->stream != stream)
        return atoll_buf_append(&o->runs, &run, sizeof(run));
    last->len += (uint32_t)n;
    return 0;
}

static int take_data(void *arg, int stream, uint64_t offset ATOLL_UNUSED, const uint8_t *bytes,
                     size_t n)
{
    struct atoll_toolbox_output *o = arg;
    size_t room = ATOLL_TOOLBOX_OUTPUT_MAX - atoll_buf_size(&o->bytes);
    size_t len = ATOLL_MIN(n, room);

    if (o->truncated)
        return 0;
    o->truncated = n > room;
    if (len > 0 && (note_run(o, stream, len) < 0 || atoll_buf_append(&o->bytes, bytes, len) < 0))
        o->truncated = true;
    return 0;
}

/* Output after a gap is dropped: the result could not show where bytes are missing. */
static int take_gap(void *arg, const struct atoll_reader_item *gap ATOLL_UNUSED)
{
    struct atoll_toolbox_output *o = arg;

    o->truncated = true;
    return 0;
}

static void ended(void *arg, const struct atoll_exec_result *result)
{
    struct atoll_toolbox_output *o = arg;

    o->ended(o->arg, result, NULL);
}

static void failed(void *arg, int r)
{
    struct atoll_toolbox_output *o = arg;
    struct atoll_error error;

    (void)atoll_fail_errno(&error, -r, "reading the output of a command");
    o->ended(o->arg, NULL, &error);
}

static const struct atoll_exec_pump_ops ops = {
    .slice = ATOLL_EXEC_PUMP_SLICE_MAX,
    .data = take_data,
    .gap = take_gap,
    .end = ended,
    .failed = failed,
};

void atoll_toolbox_output_start(struct atoll_toolbox_output *o, struct atoll_loop *loop,
                                struct atoll_exec *exec, bool follow,
                                void (*done)(void *arg, const struct atoll_exec_result *result,
                                             const struct atoll_error *error),
                                void *arg)
{
    const struct atoll_exec_pump_config config = {
        .ops = &ops, .arg = o, .loop = loop, .follow = follow};
    struct atoll_error error;

    *o = (struct atoll_toolbox_output){.ended = done, .arg = arg};
    atoll_buf_init(&o->bytes, ATOLL_TOOLBOX_OUTPUT_MAX);
    atoll_buf_init(&o->runs, RUNS_MAX);
    if (atoll_exec_pump_open(&o->pump, exec, &config, &error) < 0)
        done(arg, NULL, &error);
    else
        atoll_exec_pump_run(&o->pump);
}

void atoll_toolbox_output_done(struct atoll_toolbox_output *o)
{
    atoll_exec_pump_close(&o->pump);
    atoll_buf_done(&o->bytes);
    atoll_buf_done(&o->runs);
}

/* Walks the runs: start with *pos = 0 and *at = 0; NULL at the end. */
static const uint8_t *next_run(const struct atoll_toolbox_output *o, size_t *pos, size_t *at,
                               struct run *ret)
{
    const uint8_t *bytes;

    /* Without a run there may be no bytes to point to. */
    if (*pos + sizeof(*ret) > atoll_buf_size(&o->runs))
        return NULL;
    bytes = atoll_buf_head(&o->bytes) + *at;
    memcpy(ret, atoll_buf_head(&o->runs) + *pos, sizeof(*ret));
    *pos += sizeof(*ret);
    *at += ret->len;
    return bytes;
}

/* Lines of stdout that are not part of the result. */
struct cutting {
    struct atoll_toolbox_output rest; /* only bytes and runs */
    struct atoll_buf line;            /* of stdout, not complete yet */
    const char *mark;
    void (*take)(void *arg, const char *text, size_t n);
    void *arg;
};

static int keep(struct cutting *c, int stream, const void *bytes, size_t n)
{
    int r = n == 0 ? 0 : note_run(&c->rest, stream, n);

    return r < 0 || n == 0 ? r : atoll_buf_append(&c->rest.bytes, bytes, n);
}

static int end_line(struct cutting *c)
{
    size_t n = atoll_buf_size(&c->line), skip = strlen(c->mark);
    const char *text = atoll_buf_str(&c->line);
    int r = 0;

    if (n >= skip && memcmp(text, c->mark, skip) == 0)
        c->take(c->arg, text + skip, n - skip);
    else
        r = keep(c, ATOLL_STREAM_STDOUT, text, n);
    atoll_buf_clear(&c->line);
    return r;
}

static int cut_run(struct cutting *c, const uint8_t *bytes, size_t n)
{
    int r = 0;

    while (r == 0 && n > 0) {
        const uint8_t *end = memchr(bytes, '\n', n);
        size_t len = end ? (size_t)(end - bytes) + 1 : n;
        r = atoll_buf_append(&c->line, bytes, len);
        if (r == 0 && end)
            r = end_line(c);
        bytes += len;
        n -= len;
    }
    return r;
}

void atoll_toolbox_output_cut(struct atoll_toolbox_output *o, const char *mark,
                              void (*take)(void *arg, const char *text, size_t n), void *arg)
{
    struct cutting c = {.mark = mark, .take = take, .arg = arg};
    size_t pos = 0, at = 0, size = atoll_buf_size(&o->bytes);
    const uint8_t *bytes;
    struct run run;
    int r = 0;

    if (size == 0 || !memmem(atoll_buf_head(&o->bytes), size, mark, strlen(mark)))
        return;
    atoll_buf_init(&c.rest.bytes, ATOLL_TOOLBOX_OUTPUT_MAX);
    atoll_buf_init(&c.rest.runs, RUNS_MAX);
    atoll_buf_init(&c.line, ATOLL_TOOLBOX_OUTPUT_MAX + 1);
    while (r == 0 && (bytes = next_run(o, &pos, &at, &run)))
        r = run.stream == ATOLL_STREAM_STDOUT ? cut_run(&c, bytes, run.len)
                                              : keep(&c, run.stream, bytes, run.len);
    if (r == 0 && atoll_buf_size(&c.line) > 0)
        r = end_line(&c);
    atoll_buf_done(&c.line);
    if (r < 0) {
        atoll_buf_done(&c.rest.bytes);
        atoll_buf_done(&c.rest.runs);
        return;
    }
    atoll_buf_done(&o->bytes);
    atoll_buf_done(&o->runs);
    o->bytes = c.rest.bytes;
    o->runs = c.rest.runs;
}

static void keep_error(struct atoll_json_out *out, int r)
{
    if (out->error == 0)
        out->error = r;
}

static void write_stream(const struct atoll_toolbox_output *o, struct atoll_json_out *out,
                         const char *key, int stream, bool whole_lines)
{
    size_t pos = 0, at = 0;
    struct atoll_buf text;
    const uint8_t *bytes;
    struct run run;
    int r = 0;

    atoll_buf_init(&text, ATOLL_TOOLBOX_OUTPUT_MAX + 1);
    while (r == 0 && (bytes = next_run(o, &pos, &at, &run)))
        if (run.stream == stream)
            r = atoll_buf_append(&text, bytes, run.len);
    if (r == 0 && whole_lines && atoll_buf_size(&text) > 0 && text.data[text.len - 1] != '\n')
        r = atoll_buf_append(&text, "\n", 1);
    keep_error(out, r);
    atoll_json_bytes(out, key, atoll_buf_head(&text), atoll_buf_size(&text));
    atoll_buf_done(&text);
}

static void write_streams(const struct atoll_toolbox_output *o, struct atoll_json_out *out,
                          bool whole_lines)
{
    write_stream(o, out, "stdout", ATOLL_STREAM_STDOUT, whole_lines);
    write_stream(o, out, "stderr", ATOLL_STREAM_STDERR, whole_lines);
    if (o->truncated)
        atoll_json_bool(out, "truncated", true);
}

void atoll_toolbox_output_plain(const struct atoll_toolbox_output *o, struct atoll_json_out *out)
{
    atoll_json_bytes(out, "result", atoll_buf_head(&o->bytes), atoll_buf_size(&o->bytes));
    write_streams(o, out, false);
}

static int mux_all(const struct atoll_toolbox_output *o, struct atoll_buf *out)
{
    struct atoll_toolbox_mux mux;
    size_t pos = 0, at = 0;
    const uint8_t *bytes;
    struct run run;
    int r = 0;

    atoll_toolbox_mux_init(&mux);
    while (r == 0 && (bytes = next_run(o, &pos, &at, &run)))
        r = atoll_toolbox_mux_add(&mux, out, run.stream, bytes, run.len);
    if (r == 0)
        r = atoll_toolbox_mux_end(&mux, out);
    atoll_toolbox_mux_done(&mux);
    return r;
}

void atoll_toolbox_output_lines(const struct atoll_toolbox_output *o, struct atoll_json_out *out)
{
    struct atoll_buf text;

    atoll_buf_init(&text, ATOLL_TOOLBOX_MUX_MAX(ATOLL_TOOLBOX_OUTPUT_MAX));
    keep_error(out, mux_all(o, &text));
    atoll_json_bytes(out, "output", atoll_buf_head(&text), atoll_buf_size(&text));
    atoll_buf_done(&text);
    write_streams(o, out, true);
}

int atoll_toolbox_output_marked(const struct atoll_toolbox_output *o, struct atoll_buf *out)
{
    return mux_all(o, out);
}
