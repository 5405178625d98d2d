#include <errno.h>
#include <string.h>
#include "base/text.h"
#include "engine/json_memory.h"
#include "interpreter/contexts.h"

static void take_text(struct atoll_context_collect *k, int stream, const json_t *line)
{
    const json_t *text = json_object_get(line, "text");
    const char *bytes = json_string_value(text);
    struct atoll_buf *buf = &k->text[stream];
    size_t n = json_string_length(text), room = ATOLL_COLLECT_TEXT_MAX - atoll_buf_size(buf);

    if (k->truncated[stream] || !bytes)
        return;
    if (n > room) {
        k->truncated[stream] = true;
        n = room;
        while (n > 0 && ((uint8_t)bytes[n] & 0xc0) == 0x80) /* do not split a UTF-8 character */
            n--;
    }
    k->no_memory |= atoll_buf_append(buf, bytes, n) < 0;
}

static void take_result(struct atoll_context_collect *k, const char *json, size_t n)
{
    size_t before = atoll_buf_size(&k->results);

    /* Beyond the limit, later results are left out. */
    if (k->results_truncated || before + n + 1 > ATOLL_COLLECT_RESULTS_MAX) {
        k->results_truncated = true;
        return;
    }
    k->no_memory |= (before > 0 && atoll_buf_append(&k->results, ",", 1) < 0) ||
                    atoll_buf_append(&k->results, json, n) < 0;
}

static void on_line(void *arg, enum atoll_context_line_kind kind, const char *json, size_t n)
{
    struct atoll_context_collect *k = arg;
    json_t *line;

    if (kind == ATOLL_LINE_RESULT) {
        take_result(k, json, n);
        return;
    }
    atoll_json_memory_begin();
    line = atoll_json_load(json, n, JSON_ALLOW_NUL, NULL);
    k->no_memory |= atoll_json_memory_failed();
    if (kind == ATOLL_LINE_STDOUT)
        take_text(k, ATOLL_STREAM_STDOUT, line);
    else if (kind == ATOLL_LINE_STDERR)
        take_text(k, ATOLL_STREAM_STDERR, line);
    else if (kind == ATOLL_LINE_COUNT)
        k->execution_count = (uint64_t)json_integer_value(json_object_get(line, "execution_count"));
    else if (!k->error)
        k->error = json_incref(line);
    json_decref(line);
}

static void on_ended(void *arg, const struct atoll_error *error)
{
    struct atoll_context_collect *k = arg;
    struct atoll_execution *e = ATOLL_TAKE_PTR(k->execution);
    struct atoll_error own;

    if (!error && k->no_memory) {
        (void)atoll_fail(&own, ATOLL_ERR_UNAVAILABLE, ENOMEM,
                         "the code ran, but the daemon had no memory for its result");
        error = &own;
    }
    if (e && atoll_execution_end(e)) {
        k->end = *atoll_execution_end(e);
        k->has_end = true;
    }
    k->timed_out = e && atoll_execution_timed_out(e);
    if (e)
        (void)!atoll_text_copy(k->exec_id, sizeof(k->exec_id), atoll_execution_exec_id(e));
    k->ended(k->arg, error);
}

void atoll_context_collect_start(struct atoll_context_collect *k, struct atoll_contexts *contexts,
                                 const char *sandbox_id, const char *context_id,
                                 const struct atoll_context_run *run,
                                 void (*ended)(void *arg, const struct atoll_error *error),
                                 void *arg)
{
    static const struct atoll_context_events events = {on_line, on_ended};
    struct atoll_execution *e;

    *k = (struct atoll_context_collect){.ended = ended, .arg = arg};
    for (int i = ATOLL_STREAM_STDOUT; i <= ATOLL_STREAM_STDERR; i++)
        atoll_buf_init(&k->text[i], ATOLL_COLLECT_TEXT_MAX);
    atoll_buf_init(&k->results, ATOLL_COLLECT_RESULTS_MAX);
    e = atoll_contexts_execute(contexts, sandbox_id, context_id, run, &events, k);
    if (e) /* else it has ended, and `k` may be freed */
        k->execution = e;
}

void atoll_context_collect_done(struct atoll_context_collect *k)
{
    k->execution = atoll_execution_abandon(k->execution);
    for (int i = ATOLL_STREAM_STDOUT; i <= ATOLL_STREAM_STDERR; i++)
        atoll_buf_done(&k->text[i]);
    atoll_buf_done(&k->results);
    json_decref(k->error);
    k->error = NULL;
}
