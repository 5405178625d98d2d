#include "engine/state/compare.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/memory.h"
#include "base/metrics.h"
#include "engine/build/build_internal.h"
#include "engine/build/job.h"
#include "sandbox/programs.h"
#include "sandbox/stack.h"

#define PLACE "/.atoll/"
#define TIMEOUT_S 300
#define MEMORY_BYTES (UINT64_C(512) << 20)
#define OUTPUT_MAX ((size_t)32 << 20)

struct compare {
    struct atoll_engine *engine;
    struct atoll_list node; /* in engine->compares */
    struct atoll_run_wait wait;
    struct atoll_buf out;
    bool too_long;
    char said[ATOLL_ERROR_TEXT_MAX]; /* the last line of stderr */
    atoll_compare_fn *done;
    void *arg;
};

/* The number of layers that both stacks begin with. */
static size_t count_common(const char *a, const char *b)
{
    char x[ATOLL_LAYER_NAME_MAX + 1], y[ATOLL_LAYER_NAME_MAX + 1];
    size_t n = 0;

    while (atoll_stack_next(&a, x) && atoll_stack_next(&b, y) && strcmp(x, y) == 0)
        n++;
    return n;
}

/* The stack without its first n names; "" if it has no more. */
static const char *skip(const char *layers, size_t n)
{
    char name[ATOLL_LAYER_NAME_MAX + 1];

    while (n-- > 0 && atoll_stack_next(&layers, name))
        ;
    return layers;
}

/* Where the layer is as a raw tree, which may be part of several views; NULL: there is no place. */
static const char *add_layer(struct atoll_make_job *job, const char *name, struct atoll_error *err)
{
    const char *path;

    for (size_t i = 0; i < job->tree_count; i++)
        if (job->trees[i].layers && strcmp(job->trees[i].layers, name) == 0)
            return job->trees[i].path;
    path = atoll_make_job_textf(job, PLACE "%zu", job->tree_count);
    if (atoll_make_job_add_tree(job, path, atoll_make_job_textf(job, "%s", name), err) < 0)
        return NULL;
    job->trees[job->tree_count - 1].raw = true;
    return path;
}

/* Adds the layers of a view. Returns the argument of atoll-diff: topmost first. */
static const char *add_view(struct atoll_make_job *job, const char *layers, bool base,
                            struct atoll_error *err)
{
    const char *view = base ? "/" : "";
    char name[ATOLL_LAYER_NAME_MAX + 1];

    while (view && atoll_stack_next(&layers, name)) {
        const char *path;

        if (strcmp(name, ATOLL_STACK_HOST) == 0) {
            view = "/"; /* only the lowest one can be the host */
            continue;
        }
        path = add_layer(job, name, err);
        if (!path)
            return NULL;
        view = atoll_make_job_textf(job, "%s%s%s", path, *view ? ":" : "", view);
    }
    return view;
}

static void add_command(struct atoll_make_job *job, const struct atoll_comparison *c,
                        const char *from, const char *to, const char *ours, const char *since)
{
    const char **words = atoll_make_job_words(job, 20);
    struct atoll_make_job_command command = {
        .what = "the comparison", .argv = words, .user = "root", .cwd = "/"};
    size_t n = 0;

    if (!words)
        return;
    words[n++] = ATOLL_DIFF_PROGRAM;
    words[n++] = "--max-lines";
    words[n++] = atoll_make_job_textf(job, "%u", c->lines);
    words[n++] = "--max-bytes";
    words[n++] = atoll_make_job_textf(job, "%llu", (unsigned long long)ATOLL_COMPARE_PATCH_MAX);
    if (c->patch)
        words[n++] = "--patch";
    if (ours) {
        words[n++] = "--merge";
        words[n++] = ours;
    }
    if (since) {
        words[n++] = "--since";
        words[n++] = since;
    }
    if (c->prefer) {
        words[n++] = "--prefer";
        words[n++] = atoll_make_job_textf(job, "%s", c->prefer);
    }
    if (c->stream)
        words[n++] = "--stream";
    if (c->below && *c->below) {
        words[n++] = "--below";
        words[n++] = atoll_make_job_textf(job, "%s", c->below);
    }
    words[n++] = "--";
    words[n++] = from;
    words[n++] = to;
    job->commands[job->command_count++] = command;
}

/* Two stacks that have nothing in common are compared in a sandbox of the host template, which is below one of them or
 * below none. */
static int compose(struct atoll_make_job *job, const struct atoll_comparison *c,
                   struct atoll_error *err)
{
    size_t common = count_common(c->from, c->to);
    const char *own, *from, *to, *ours = NULL, *since = NULL;

    if (c->ours)
        common = ATOLL_MIN(common, count_common(c->from, c->ours));
    if (c->since)
        common = ATOLL_MIN(common, count_common(c->from, c->since));
    own = skip(c->from, common);

    job->layers =
        common == 0
            ? ATOLL_STACK_HOST
            : atoll_make_job_textf(job, "%.*s", (int)(own - c->from) - (*own != '\0'), c->from);
    job->no_result = true;
    job->quick = true;
    job->limits.memory_bytes = MEMORY_BYTES;
    job->limits.timeout_s = TIMEOUT_S;
    (void)snprintf(job->tenant, sizeof(job->tenant), "%s", c->tenant);
    from = add_view(job, own, common > 0, err);
    to = from ? add_view(job, skip(c->to, common), common > 0, err) : NULL;
    if (to && c->ours)
        ours = add_view(job, skip(c->ours, common), common > 0, err);
    if (ours && c->since)
        since = add_view(job, skip(c->since, common), common > 0, err);
    if (!to || (c->ours && !ours) || (c->since && !since))
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, E2BIG,
                          "they differ in more than %d layers, the most that can be compared",
                          ATOLL_TREES_MAX);
    add_command(job, c, from, to, ours, since);
    return atoll_make_job_check(job, err);
}

static void compare_free(struct compare *c)
{
    atoll_run_leave(&c->wait);
    atoll_list_remove(&c->node);
    atoll_buf_done(&c->out);
    free(c);
}

static void end(struct compare *c, const struct atoll_error *error)
{
    atoll_metric_add(ATOLL_METRIC_COMPARISONS, ATOLL_LABELS(error ? "failed" : "done"), 1);
    c->done(c->arg, error ? NULL : atoll_buf_head(&c->out), error ? 0 : atoll_buf_size(&c->out),
            error);
    compare_free(c);
}

static void on_bytes(void *arg, const uint8_t *bytes, size_t n)
{
    struct compare *c = arg;

    c->too_long = c->too_long || atoll_buf_append(&c->out, bytes, n) < 0;
}

static void on_line(void *arg, int stream, const char *line, size_t n)
{
    struct compare *c = arg;

    if (stream == 2)
        (void)snprintf(c->said, sizeof(c->said), "%.*s", (int)ATOLL_MIN(n, sizeof(c->said)), line);
}

/* "KIND: TEXT" on stderr. */
static void explain(const struct compare *c, const struct atoll_error *error,
                    struct atoll_error *ret)
{
    const char *text = strstr(c->said, ": ");
    char kind[32] = "";

    if (text)
        (void)snprintf(kind, sizeof(kind), "%.*s", (int)(text - c->said), c->said);
    *ret = *error;
    if (atoll_error_kind_by_name(kind) != ATOLL_ERR_NONE)
        (void)atoll_fail(ret, atoll_error_kind_by_name(kind), EIO, "%.300s", text + 2);
}

static void on_done(void *arg, const char *layer ATOLL_UNUSED, int code,
                    const struct atoll_error *error)
{
    struct compare *c = arg;
    struct atoll_error err;

    if (error && code != 0)
        explain(c, error, &err);
    else if (error)
        err = *error;
    else if (c->too_long)
        (void)atoll_fail(&err, ATOLL_ERR_RESOURCE_EXHAUSTED, EFBIG,
                         "the comparison is too long; ask for a part of the tree");
    end(c, error || c->too_long ? &err : NULL);
}

void atoll_compare(struct atoll_engine *engine, const struct atoll_comparison *comparison,
                   atoll_compare_fn *done, void *arg)
{
    struct compare *c = atoll_alloc(sizeof(*c));
    struct atoll_make_job *job = atoll_make_job_new();
    struct atoll_error err;

    *c = (struct compare){.engine = engine, .done = done, .arg = arg};
    c->wait =
        (struct atoll_run_wait){.said = on_line, .wrote = on_bytes, .done = on_done, .arg = c};
    atoll_list_push_back(&engine->compares, &c->node);
    atoll_buf_init(&c->out, OUTPUT_MAX);
    if (compose(job, comparison, &err) < 0) {
        atoll_make_job_free(job);
        end(c, &err);
        return;
    }
    atoll_run_start(engine, job, &c->wait);
}

void atoll_compares_done(struct atoll_engine *engine)
{
    ATOLL_LIST_FOREACH (&engine->compares, node) {
        struct compare *c = ATOLL_CONTAINER_OF(node, struct compare, node);

        c->wait.run = NULL; /* the runs are gone */
        compare_free(c);
    }
}
