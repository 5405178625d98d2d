#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "api/api_internal.h"
#include "api/tool/tool_internal.h"
#include "base/memory.h"
#include "interpreter/contexts.h"

/*
 * Code in the default interpreter of a language. The text for the model is what the code printed, then its
 * results as text, then its error.
 */
#define SHOWN_MAX ((size_t)256 * 1024)
#define TIMEOUT_MS 120000

struct code {
    struct atoll_tool_call *call;
    struct atoll_context_collect collect;
};

static void show_text(struct atoll_buf *text, const struct atoll_buf *stream)
{
    size_t n = atoll_buf_size(stream);

    (void)!atoll_buf_append(text, atoll_buf_head(stream), ATOLL_MIN(n, SHOWN_MAX / 4));
    if (n > SHOWN_MAX / 4)
        (void)!atoll_buf_appends(text, "\n[the rest is left out]\n");
}

/* The results as an array; NULL: they cannot be read. */
static json_t *results_of(const struct atoll_context_collect *k)
{
    struct atoll_buf all;
    json_t *results = NULL;

    atoll_buf_init(&all, ATOLL_COLLECT_RESULTS_MAX + 2);
    if (atoll_buf_appends(&all, "[") == 0 &&
        atoll_buf_append(&all, atoll_buf_head(&k->results), atoll_buf_size(&k->results)) == 0 &&
        atoll_buf_appends(&all, "]") == 0)
        results = json_loadb((const char *)atoll_buf_head(&all), atoll_buf_size(&all), 0, NULL);
    atoll_buf_done(&all);
    return results;
}

/* Appends the texts of the results; returns the first image. */
static const char *show_results(struct atoll_buf *text, const json_t *results)
{
    const char *image = NULL;

    for (size_t i = 0; i < json_array_size(results); i++) {
        const json_t *one = json_array_get(results, i);
        const char *plain = json_string_value(json_object_get(one, "text"));
        const char *png = json_string_value(json_object_get(one, "png"));

        if (plain)
            (void)!atoll_buf_appendf(text, "%s%.*s\n", atoll_buf_size(text) > 0 ? "\n" : "",
                                     (int)(SHOWN_MAX / 8), plain);
        image = image ? image : png;
    }
    return image;
}

static void show_error(struct atoll_buf *text, const json_t *error)
{
    const char *trace = json_string_value(json_object_get(error, "traceback"));
    const char *name = json_string_value(json_object_get(error, "name"));
    const char *value = json_string_value(json_object_get(error, "value"));

    if (trace && *trace)
        (void)!atoll_buf_appendf(text, "%s\n", trace);
    else
        (void)!atoll_buf_appendf(text, "%s: %s\n", name ? name : "error", value ? value : "");
}

static void ended(void *arg, const struct atoll_error *error)
{
    struct code *c = arg;
    struct atoll_tool_call *call = c->call;
    const struct atoll_context_collect *k = &c->collect;
    struct atoll_buf text;
    json_t *results = error ? NULL : results_of(k), *data;
    bool failed = k->error || k->timed_out || k->has_end;
    const char *image;

    call->stop = NULL;
    if (error) {
        atoll_tool_fail(call, error);
    } else {
        atoll_buf_init(&text, 2 * SHOWN_MAX);
        show_text(&text, &k->text[ATOLL_STREAM_STDOUT]);
        show_text(&text, &k->text[ATOLL_STREAM_STDERR]);
        image = show_results(&text, results);
        if (k->error)
            show_error(&text, k->error);
        if (k->timed_out)
            (void)!atoll_buf_appends(&text, "interrupted: it ran longer than its timeout\n");
        data = json_pack("{s:o, s:o, s:O?, s:O?}", "stdout",
                         atoll_tool_json_bytes(atoll_buf_head(&k->text[ATOLL_STREAM_STDOUT]),
                                               atoll_buf_size(&k->text[ATOLL_STREAM_STDOUT])),
                         "stderr",
                         atoll_tool_json_bytes(atoll_buf_head(&k->text[ATOLL_STREAM_STDERR]),
                                               atoll_buf_size(&k->text[ATOLL_STREAM_STDERR])),
                         "results", results, "error", k->error);
        atoll_tool_finish_image(call, &text, data, failed, image);
    }
    json_decref(results);
    atoll_context_collect_done(&c->collect);
    free(c);
}

/* The execution is abandoned, and no callback comes: the call ends here. */
static void stop(struct atoll_tool_call *call)
{
    struct code *c = call->state;
    struct atoll_error error;

    atoll_context_collect_done(&c->collect);
    free(c);
    (void)atoll_fail(&error, ATOLL_ERR_CANCELED, ECANCELED, "the call was cancelled");
    atoll_tool_fail(call, &error);
}

void atoll_tool_run_code(struct atoll_tool_call *call)
{
    struct atoll_contexts *contexts = call->api->config.contexts;
    const char *language = atoll_tool_text(call, "language");
    const char *code = atoll_tool_text(call, "code");
    struct atoll_context_view view;
    struct atoll_error error;
    struct code *c;

    if (!contexts) {
        atoll_tool_refuse(call, ATOLL_ERR_UNIMPLEMENTED,
                          "interpreters are disabled in this daemon");
        return;
    }
    if (atoll_contexts_default(
            contexts,
            &(struct atoll_context_create){.sandbox_id = call->sandbox_id,
                                           .language = language ? language : "python"},
            &view, &error) < 0) {
        atoll_tool_fail(call, &error);
        return;
    }
    c = atoll_alloc(sizeof(*c));
    c->call = call;
    call->state = c;
    call->stop = stop;
    atoll_context_collect_start(
        &c->collect, contexts, call->sandbox_id, view.id,
        &(struct atoll_context_run){.code = code,
                                    .code_len = strlen(code),
                                    .timeout_ms =
                                        (uint32_t)atoll_tool_whole(call, "timeout", TIMEOUT_MS)},
        ended, c);
}
