#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "engine/engine_internal.h"
#include "engine/json_memory.h"
#include "engine/state/merge.h"
#include "engine/state/state.h"

/*
 * Tries: forks, a command in each, the best is merged, all forks are destroyed. The best is kept if it could not be
 * merged. The forks are provisional until then: if the daemon dies, the next one destroys them.
 */
#define TAIL_MAX 2048 /* of the output, for the score and for the client */
#define WHO "the end of the try"

/* The last bytes of a text. */
struct tail {
    char bytes[TAIL_MAX + 1];
    size_t len;
};

struct attempt {
    struct trying *trying;
    char id[ATOLL_ID_LEN + 1];
    struct atoll_reader *reader;
    struct tail out; /* of its standard output */
    struct tail all; /* with its standard error */
    bool ended;
    int code; /* exit status; -1: it did not exit by itself */
    double score;
    char error[200];
};

struct trying {
    struct atoll_engine *engine;
    struct atoll_list node; /* in engine->tries */
    char target[ATOLL_ID_LEN + 1];
    uint32_t count, waiting;
    struct attempt *attempts; /* owned */
    char **argv, **env;       /* owned */
    char *user, *cwd;         /* owned, or NULL */
    uint32_t timeout_ms;
    int best;     /* -1: none */
    char *report; /* of the merge; owned, or NULL */
    bool keeps;   /* the best fork, because it was not merged */
    bool failed;
    struct atoll_error error; /* of the merge */
    atoll_merge_fn *done;
    void *arg;
};

static char *copy(const char *text)
{
    char *made = text ? strdup(text) : NULL;

    if (text && !made)
        abort(); /* the daemon is crash-only */
    return made;
}

static void trying_free(struct trying *t)
{
    atoll_list_remove(&t->node);
    for (uint32_t i = 0; i < t->count; i++)
        t->attempts[i].reader = atoll_reader_close(t->attempts[i].reader);
    free(t->attempts);
    atoll_strings_free(t->argv);
    atoll_strings_free(t->env);
    free(t->user);
    free(t->cwd);
    free(t->report);
    free(t);
}

/* Bytes that are not UTF-8, and NUL, become U+FFFD. */
static json_t *text_of(const struct tail *tail)
{
    const uint8_t *p = (const uint8_t *)tail->bytes;
    char text[3 * TAIL_MAX + 1];
    size_t used = 0, i = 0;

    while (tail->len == TAIL_MAX && i < 4 && (p[i] & 0xc0) == 0x80)
        i++; /* the rest of a character that was cut */
    while (i < tail->len) {
        size_t len = p[i] == 0 ? 0 : atoll_text_utf8_len(p + i, tail->len - i);

        memcpy(text + used, len > 0 ? tail->bytes + i : "\xef\xbf\xbd", len > 0 ? len : 3);
        used += len > 0 ? len : 3;
        i += ATOLL_MAX(len, (size_t)1);
    }
    return json_stringn(text, used);
}

static json_t *describe(const struct attempt *a, uint32_t number)
{
    json_t *made = json_pack("{s:i, s:f, s:o}", "try", (int)number, "score", a->score, "output",
                             text_of(&a->all));

    if (a->code >= 0)
        (void)json_object_set_new(made, "exit_code", json_integer(a->code));
    if (*a->error)
        (void)json_object_set_new(made, "error", json_string(a->error));
    return made;
}

/* Why the best was not merged, for the client. */
static const char *merge_error(const struct trying *t)
{
    if (t->error.kind != ATOLL_ERR_INTERNAL)
        return t->error.text;
    atoll_log(ATOLL_LOG_ERROR, "try", "sandbox", t->target, "error", t->error.text, NULL);
    return "the merge failed inside of the daemon; see its log";
}

static void tell(struct trying *t)
{
    json_t *report = json_object(), *tries = json_array();
    char *text;

    for (uint32_t i = 0; i < t->count; i++)
        (void)json_array_append_new(tries, describe(&t->attempts[i], i));
    (void)json_object_set_new(report, "tries", tries);
    (void)json_object_set_new(report, "best", t->best < 0 ? json_null() : json_integer(t->best));
    (void)json_object_set_new(report, "merge",
                              t->report ? atoll_json_load_own(t->report) : json_null());
    (void)json_object_set_new(report, "kept",
                              t->keeps ? json_string(t->attempts[t->best].id) : json_null());
    if (t->failed)
        (void)json_object_set_new(report, "error", json_string(merge_error(t)));
    text = atoll_json_dump(report, JSON_COMPACT);
    t->done(t->arg, text ? text : "{}", NULL);
    free(text);
    json_decref(report);
}

static void on_destroyed(void *arg, const struct atoll_error *error)
{
    struct trying *t = arg;
    struct atoll_error err;

    if (error && error->kind != ATOLL_ERR_NOT_FOUND)
        atoll_log(ATOLL_LOG_WARN, "a fork of a try is not removed yet", "sandbox", t->target,
                  "error", error->text, NULL);
    if (--t->waiting > 0)
        return;
    if (t->keeps && atoll_fork_keep(t->engine, t->attempts[t->best].id, &err) < 0) {
        t->keeps = false;
        t->failed = true;
        t->error = err;
        t->waiting = 1;
        atoll_engine_destroy(t->engine, t->attempts[t->best].id, WHO, on_destroyed, t);
        return;
    }
    if (t->failed && !t->keeps)
        t->done(t->arg, NULL, &t->error);
    else
        tell(t);
    trying_free(t);
}

static void destroy_forks(struct trying *t)
{
    t->waiting = 1;
    for (uint32_t i = 0; i < t->count; i++) {
        if (t->keeps && (int)i == t->best)
            continue;
        t->waiting++;
        atoll_engine_destroy(t->engine, t->attempts[i].id, WHO, on_destroyed, t);
    }
    on_destroyed(t, NULL);
}

static bool is_merged(const char *report)
{
    json_t *value = atoll_json_load_own(report);
    bool merged = json_is_true(json_object_get(value, "merged"));

    json_decref(value);
    return merged;
}

static void on_merged(void *arg, const char *report, const struct atoll_error *error)
{
    struct trying *t = arg;

    t->failed = error != NULL;
    if (error)
        t->error = *error;
    else
        t->report = copy(report);
    t->keeps = (error || !is_merged(report)) &&
               atoll_engine_find(t->engine, t->attempts[t->best].id) != NULL;
    destroy_forks(t);
}

static void merge_best(struct trying *t)
{
    const char *from[2] = {NULL, NULL};
    const struct atoll_merge_request request = {.from = from};

    for (uint32_t i = 0; i < t->count; i++)
        if (t->attempts[i].score > 0 &&
            (t->best < 0 || t->attempts[i].score > t->attempts[t->best].score))
            t->best = (int)i;
    if (t->best < 0) {
        destroy_forks(t);
        return;
    }
    from[0] = t->attempts[t->best].id;
    atoll_engine_merge(t->engine, t->target, &request, on_merged, t);
}

/* The number on the last line that is not empty, or by the exit status. */
static double score_of(struct attempt *a)
{
    struct tail *t = &a->out;
    char *line, *rest;
    double value;

    t->bytes[t->len] = '\0';
    while (t->len > 0 && strchr(" \t\r\n", t->bytes[t->len - 1]))
        t->bytes[--t->len] = '\0';
    line = strrchr(t->bytes, '\n');
    line = line ? line + 1 : t->bytes;
    value = strtod(line, &rest);
    if (rest != line && *rest == '\0' && isfinite(value))
        return value;
    return a->code == 0 ? 1 : 0;
}

static void finish_attempt(struct attempt *a)
{
    struct trying *t = a->trying;

    if (a->ended)
        return;
    a->ended = true;
    a->score = *a->error ? 0 : score_of(a);
    if (--t->waiting == 0)
        merge_best(t);
}

static void add_tail(struct tail *t, const uint8_t *bytes, size_t n)
{
    size_t keep;

    if (n > TAIL_MAX) {
        bytes += n - TAIL_MAX;
        n = TAIL_MAX;
    }
    keep = ATOLL_MIN(t->len, TAIL_MAX - n);
    memmove(t->bytes, t->bytes + t->len - keep, keep);
    memcpy(t->bytes + keep, bytes, n);
    t->len = keep + n;
}

static void on_output(void *arg)
{
    struct attempt *a = arg;
    struct atoll_reader_item item;
    int r = 0;

    while (a->reader && (r = atoll_reader_next(a->reader, &item)) > 0) {
        if (item.kind == ATOLL_READ_DATA && item.stream == ATOLL_STREAM_STDOUT)
            add_tail(&a->out, item.data, (size_t)item.length);
        if (item.kind == ATOLL_READ_DATA)
            add_tail(&a->all, item.data, (size_t)item.length);
        if (item.kind != ATOLL_READ_END)
            continue;
        a->code = item.result->kind == ATOLL_END_EXITED ? item.result->code : -1;
        if (a->code < 0)
            (void)snprintf(a->error, sizeof(a->error), "the command ended as %s",
                           atoll_end_kind_name(item.result->kind));
        a->reader = atoll_reader_close(a->reader);
        finish_attempt(a);
        return;
    }
    if (r < 0) {
        (void)snprintf(a->error, sizeof(a->error), "reading the output of the command: %s",
                       strerror(-r));
        a->reader = atoll_reader_close(a->reader);
        finish_attempt(a);
    }
}

static void on_started(void *arg, struct atoll_exec *exec, const struct atoll_error *error)
{
    struct attempt *a = arg;
    struct atoll_error err;

    if (!error && atoll_reader_open(exec, 0, 0, on_output, a, &a->reader, &err) < 0)
        error = &err;
    if (!error)
        return;
    (void)snprintf(a->error, sizeof(a->error), "%.199s", error->text);
    finish_attempt(a);
}

static void start(struct trying *t, uint32_t number)
{
    struct attempt *a = &t->attempts[number];
    size_t n = t->env ? atoll_strings_count((const char *const *)t->env) : 0;
    const char **env = atoll_alloc((n + 2) * sizeof(*env));
    struct atoll_exec_start what = {.argv = (const char *const *)t->argv,
                                    .env = env,
                                    .user = t->user,
                                    .cwd = t->cwd,
                                    .timeout_ms = t->timeout_ms,
                                    .is_command = true};
    char variable[32];

    for (size_t i = 0; i < n; i++)
        env[i] = t->env[i];
    (void)snprintf(variable, sizeof(variable), "ATOLL_TRY=%u", number);
    env[n] = variable;
    atoll_engine_exec(t->engine, a->id, &what, on_started, a);
    free(env);
}

static void on_forked(void *arg, const char (*ids)[ATOLL_ID_LEN + 1], size_t count,
                      const struct atoll_error *error)
{
    struct trying *t = arg;

    if (error) {
        t->done(t->arg, NULL, error);
        trying_free(t);
        return;
    }
    t->attempts = atoll_alloc(count * sizeof(*t->attempts));
    t->count = (uint32_t)count;
    t->waiting = t->count + 1;
    for (uint32_t i = 0; i < t->count; i++) {
        t->attempts[i].trying = t;
        t->attempts[i].code = -1;
        memcpy(t->attempts[i].id, ids[i], sizeof(t->attempts[i].id));
    }
    for (uint32_t i = 0; i < t->count; i++)
        start(t, i);
    if (--t->waiting == 0)
        merge_best(t);
}

void atoll_engine_try(struct atoll_engine *engine, const char *sandbox_id,
                      const struct atoll_try_request *request, atoll_merge_fn *done, void *arg)
{
    const struct atoll_fork_request fork = {.count = request->count, .provisional = true};
    struct trying *t = atoll_alloc(sizeof(*t));

    *t = (struct trying){.engine = engine,
                         .timeout_ms = request->timeout_ms,
                         .best = -1,
                         .argv = atoll_strings_dup(request->argv),
                         .env = request->env ? atoll_strings_dup(request->env) : NULL,
                         .user = copy(request->user),
                         .cwd = copy(request->cwd),
                         .done = done,
                         .arg = arg};
    (void)snprintf(t->target, sizeof(t->target), "%s", sandbox_id);
    atoll_list_push_back(&engine->tries, &t->node);
    atoll_engine_fork(engine, sandbox_id, &fork, on_forked, t);
}

void atoll_tries_done(struct atoll_engine *engine)
{
    ATOLL_LIST_FOREACH (&engine->tries, node)
        trying_free(ATOLL_CONTAINER_OF(node, struct trying, node));
}
