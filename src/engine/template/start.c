#include "engine/template/start.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/memory.h"
#include "engine/engine_internal.h"

/* $1 is the command. A login shell, bash if there is one: so E2B runs commands of templates. */
#define SHELL                                                    \
    "run() { if [ -x /bin/bash ]; then /bin/bash -l -c \"$1\"; " \
    "else /bin/sh -l -c \"$1\"; fi; }; "
static const char start_script[] =
    "[ -x /bin/bash ] && exec /bin/bash -l -c \"$1\"; exec /bin/sh -l -c \"$1\"";
static const char ready_script[] =
    SHELL "until run \"$1\" >/dev/null 2>&1; do sleep 0.05 2>/dev/null || sleep 1; done";

struct command {
    struct starting *owner;
    struct atoll_reader *reader; /* owned; NULL: it does not run */
};

struct starting {
    struct atoll_engine *engine;
    char sandbox_id[ATOLL_ID_LEN + 1];
    struct command start, ready;
    char *ready_cmd; /* owned; NULL: none */
    uint32_t ready_ms;
    char said[300]; /* the end of the start command's output */
    bool asked; /* for the ready command, without an answer yet, which frees this if it has ended */
    atoll_done_fn *done; /* NULL: it has ended */
    void *arg;
};

static void starting_free(struct starting *s)
{
    free(s->ready_cmd);
    free(s);
}

static void end(struct starting *s, const struct atoll_error *error)
{
    atoll_done_fn *done = ATOLL_TAKE_PTR(s->done);
    void *arg = s->arg;

    s->start.reader = atoll_reader_close(s->start.reader);
    s->ready.reader = atoll_reader_close(s->ready.reader);
    if (!s->asked)
        starting_free(s);
    done(arg, error);
}

static void fail(struct starting *s, enum atoll_error_kind kind, int errnum, const char *what)
{
    struct atoll_error err;

    (void)atoll_fail(&err, kind, errnum, "%s%s%s", what, *s->said ? ": " : "", s->said);
    end(s, &err);
}

static void keep_output(struct starting *s, const struct atoll_reader_item *item)
{
    size_t n = ATOLL_MIN((size_t)item->length, sizeof(s->said) - 1);

    memcpy(s->said, item->data + item->length - n, n);
    s->said[n] = '\0';
    while (n > 0 && (s->said[n - 1] == '\n' || s->said[n - 1] == ' '))
        s->said[--n] = '\0';
}

/* 1: *ret is how the command ended, lost if its output cannot be read; 0: it runs. */
static int read_command(struct command *c, struct atoll_exec_result *ret)
{
    struct atoll_reader_item item;
    int r = 0;

    while (c->reader && (r = atoll_reader_next(c->reader, &item)) > 0) {
        if (item.kind == ATOLL_READ_DATA && c == &c->owner->start)
            keep_output(c->owner, &item);
        if (item.kind != ATOLL_READ_END)
            continue;
        *ret = *item.result;
        return 1;
    }
    *ret = (struct atoll_exec_result){.kind = ATOLL_END_LOST};
    return r < 0;
}

static bool is_good(const struct atoll_exec_result *result)
{
    return result->kind == ATOLL_END_EXITED && result->code == 0;
}

/* The start command may end well before it is ready: some start a server in the background. */
static void on_start(void *arg)
{
    struct command *c = arg;
    struct starting *s = c->owner;
    struct atoll_exec_result result;
    char what[120];

    if (read_command(c, &result) == 0)
        return;
    if (is_good(&result)) {
        c->reader = atoll_reader_close(c->reader);
        return;
    }
    (void)snprintf(what, sizeof(what), "the start command failed before it was ready (%s %d)",
                   atoll_end_kind_name(result.kind), result.code ? result.code : result.signal);
    fail(s, ATOLL_ERR_FAILED_PRECONDITION, EPIPE, what);
}

static void on_ready(void *arg)
{
    struct command *c = arg;
    struct starting *s = c->owner;
    struct atoll_exec_result result;
    char what[120];

    if (read_command(c, &result) == 0)
        return;
    if (is_good(&result)) {
        end(s, NULL);
    } else if (result.kind == ATOLL_END_TIMED_OUT) {
        (void)snprintf(what, sizeof(what), "the start command was not ready after %u s",
                       s->ready_ms / 1000);
        fail(s, ATOLL_ERR_DEADLINE_EXCEEDED, ETIMEDOUT, what);
    } else {
        (void)snprintf(what, sizeof(what), "the ready command of the template ended (%s)",
                       atoll_end_kind_name(result.kind));
        fail(s, ATOLL_ERR_ABORTED, ECANCELED, what);
    }
}

static void run(struct starting *s, const char *script, const char *command, uint32_t timeout_ms,
                atoll_exec_fn *started)
{
    const char *argv[] = {"/bin/sh", "-c", script, "sh", command, NULL};
    const struct atoll_exec_start start = {.argv = argv, .timeout_ms = timeout_ms};

    atoll_engine_exec(s->engine, s->sandbox_id, &start, started, s);
}

static void ready_started(void *arg, struct atoll_exec *exec, const struct atoll_error *error)
{
    struct starting *s = arg;
    struct atoll_error err;

    s->asked = false;
    if (!s->done) { /* the start command has failed meanwhile */
        starting_free(s);
        return;
    }
    if (!error && atoll_reader_open(exec, 0, 0, on_ready, &s->ready, &s->ready.reader, &err) < 0)
        error = &err;
    if (error)
        end(s, error);
}

static void await_ready(struct starting *s)
{
    s->asked = s->ready_cmd != NULL;
    if (s->ready_cmd)
        run(s, ready_script, s->ready_cmd, s->ready_ms, ready_started);
    else
        end(s, NULL);
}

static void start_started(void *arg, struct atoll_exec *exec, const struct atoll_error *error)
{
    struct starting *s = arg;
    struct atoll_error err;

    if (!error && atoll_reader_open(exec, 0, 0, on_start, &s->start, &s->start.reader, &err) < 0)
        error = &err;
    if (error)
        end(s, error);
    else
        await_ready(s);
}

/* "sleep 20", "sleep 0.5" */
static bool only_sleeps(const char *command)
{
    size_t n;

    if (strncmp(command, "sleep ", 6) != 0)
        return false;
    n = strspn(command + 6, "0123456789.");
    return n > 0 && !command[6 + n];
}

void atoll_start_run(struct atoll_engine *engine, const char *sandbox_id,
                     const struct atoll_start_commands *commands, atoll_done_fn *done, void *arg)
{
    struct starting *s = atoll_alloc(sizeof(*s));
    const char *ready = commands->ready;

    s->engine = engine;
    (void)snprintf(s->sandbox_id, sizeof(s->sandbox_id), "%s", sandbox_id);
    s->start.owner = s->ready.owner = s;
    s->ready_ms = commands->ready_ms;
    if (ready && *ready && (commands->building || !only_sleeps(ready))) {
        s->ready_cmd = strdup(ready);
        if (!s->ready_cmd)
            abort();
    }
    s->done = done;
    s->arg = arg;
    if (commands->start && *commands->start)
        run(s, start_script, commands->start, 0, start_started);
    else
        await_ready(s);
}

bool atoll_start_made(const struct atoll_exec *x)
{
    return atoll_strings_count((const char *const *)x->argv) > 2 &&
           strcmp(x->argv[2], start_script) == 0;
}

/* A new sandbox of a client. */

struct beginning {
    struct atoll_engine *engine;
    char sandbox_id[ATOLL_ID_LEN + 1];
    struct atoll_error error;
    atoll_sandbox_fn *done;
    void *arg;
};

static void on_destroyed(void *arg, const struct atoll_error *error ATOLL_UNUSED)
{
    struct beginning *b = arg;

    b->done(b->arg, NULL, &b->error);
    free(b);
}

static void on_begun(void *arg, const struct atoll_error *error)
{
    struct beginning *b = arg;
    struct atoll_sandbox *s = atoll_engine_find(b->engine, b->sandbox_id);

    if (!error && s) {
        b->done(b->arg, s, NULL);
        free(b);
        return;
    }
    if (error)
        b->error = *error;
    else
        (void)atoll_fail(&b->error, ATOLL_ERR_ABORTED, ECANCELED,
                         "the sandbox was destroyed while its start command ran");
    atoll_engine_destroy(b->engine, b->sandbox_id,
                         "the daemon, because the start command of its template failed",
                         on_destroyed, b);
}

void atoll_start_sandbox(struct atoll_sandbox *s, atoll_sandbox_fn *done, void *arg)
{
    const struct atoll_version *version = s->version;
    struct atoll_start_commands commands = {.ready_ms = ATOLL_READY_CREATE_MS};
    struct beginning *b;

    if (version && !s->options.without_start) {
        commands.start = version->start_cmd;
        commands.ready = version->ready_cmd;
    }
    if (!commands.start || !*commands.start) {
        done(arg, s, NULL);
        return;
    }
    b = atoll_alloc(sizeof(*b));
    *b = (struct beginning){.engine = s->engine, .done = done, .arg = arg};
    memcpy(b->sandbox_id, s->spec.id, sizeof(b->sandbox_id));
    atoll_start_run(s->engine, b->sandbox_id, &commands, on_begun, b);
}
