/*
 * Runs code in steps, see the table below. The code runs in a context, or as a file that is written
 * first and removed at the end. The steps run to the end even if the client has disconnected.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "base/text.h"
#include "loop/steps.h"
#include "session/sessions_internal.h"

#define CODE_MODE 0600

struct run {
    struct atoll_steps steps;
    struct atoll_list node; /* in sessions->runs */
    struct atoll_sessions *sessions;
    struct atoll_session *session; /* until the sandbox is being started */
    struct atoll_engine *engine;
    char sandbox_id[ATOLL_ID_LEN + 1];
    const struct atoll_session_execute *execute; /* borrowed */
    char language[65];
    json_t *command, *ignore; /* referenced */
    uint32_t timeout_ms;
    char path[ATOLL_SESSION_CODE_MAX]; /* of the code, in the working directory */
    struct atoll_session_file code;
    struct atoll_session_writer writer;
    struct atoll_listing before, after;
    struct atoll_reader *reader; /* owned */
    struct atoll_buf streams[ATOLL_STREAM_STDERR + 1];
    bool truncated[ATOLL_STREAM_STDERR + 1];
    char exec_id[33];
    struct atoll_exec_result end;
    bool in_context;
    struct atoll_context_collect collect; /* when it runs in a context */
    int64_t started_ms;
    atoll_session_result_fn *done;
    void *arg;
};

static void run_free(struct run *run)
{
    atoll_list_remove(&run->node);
    if (run->in_context)
        atoll_context_collect_done(&run->collect);
    for (int i = ATOLL_STREAM_STDOUT; i <= ATOLL_STREAM_STDERR; i++)
        atoll_buf_done(&run->streams[i]);
    atoll_listing_done(&run->before);
    atoll_listing_done(&run->after);
    json_decref(run->command);
    json_decref(run->ignore);
    free(run);
}

/* Delivering the result. */

static void tell(struct run *run)
{
    struct atoll_session_result result = {.exec_id = run->exec_id, .end = &run->end};
    struct atoll_session_artifact *artifacts = atoll_listing_changes(
        &run->before, &run->after, &result.artifact_count, &result.artifacts_complete);

    result.artifacts = artifacts;
    for (int i = ATOLL_STREAM_STDOUT; i <= ATOLL_STREAM_STDERR; i++) {
        const struct atoll_buf *buf = run->in_context ? &run->collect.text[i] : &run->streams[i];
        result.streams[i].bytes = atoll_buf_head(buf);
        result.streams[i].len = atoll_buf_size(buf);
        result.streams[i].truncated =
            run->in_context ? run->collect.truncated[i] : run->truncated[i];
    }
    if (run->in_context) {
        result.context = &run->collect;
        atoll_session_judge(&run->collect, run->end.duration_ms, &run->end, &result.error);
    } else {
        atoll_session_explain(run->truncated[ATOLL_STREAM_STDERR] ? NULL : run->language, &run->end,
                              result.streams[ATOLL_STREAM_STDERR].bytes,
                              result.streams[ATOLL_STREAM_STDERR].len, &result.error);
    }
    if (!run->in_context && atoll_code_is_command(run->execute->code, run->execute->code_len))
        atoll_session_hint(&result.error);
    run->done(run->arg, &result, NULL);
    free(artifacts);
}

/* Running a command. */

static void take(struct run *run, const struct atoll_reader_item *item)
{
    struct atoll_buf *buf = &run->streams[item->stream];
    size_t room = ATOLL_SESSION_OUTPUT_MAX - atoll_buf_size(buf);

    /* Output after a gap is dropped: its position could not be shown. */
    if (item->kind == ATOLL_READ_GAP)
        run->truncated[item->stream] = true;
    if (run->truncated[item->stream])
        return;
    if (item->length > room)
        run->truncated[item->stream] = true;
    if (atoll_buf_append(buf, item->data, (size_t)ATOLL_MIN(item->length, (uint64_t)room)) < 0)
        run->truncated[item->stream] = true;
}

static void pump(void *arg)
{
    struct run *run = arg;
    struct atoll_reader_item item;
    struct atoll_error error;
    int r;

    while ((r = atoll_reader_next(run->reader, &item)) > 0) {
        if (item.kind == ATOLL_READ_END) {
            run->end = *item.result;
            run->reader = atoll_reader_close(run->reader);
            atoll_steps_done(&run->steps, NULL);
            return;
        }
        take(run, &item);
    }
    if (r < 0) {
        run->reader = atoll_reader_close(run->reader);
        (void)atoll_fail_errno(&error, -r, "reading the output of a command");
        atoll_steps_done(&run->steps, &error);
    } else {
        atoll_reader_forget(run->reader, 0, 0);
    }
}

static void started(void *arg, struct atoll_exec *exec, const struct atoll_error *error)
{
    struct run *run = arg;
    struct atoll_exec_view view;
    struct atoll_error failed;

    if (error) {
        atoll_steps_done(&run->steps, error);
        return;
    }
    atoll_exec_get(exec, &view);
    (void)!atoll_text_copy(run->exec_id, sizeof(run->exec_id), view.id);
    if (atoll_reader_open(exec, 0, 0, pump, run, &run->reader, &failed) < 0) {
        atoll_steps_done(&run->steps, &failed);
    } else {
        atoll_reader_follow(run->reader);
        pump(run);
    }
}

/* Replaces "{file}" in the command by the path of the code. */
static void start(struct run *run)
{
    size_t n = json_array_size(run->command);
    const char **argv = atoll_session_alloc((n + 1) * sizeof(*argv));
    struct atoll_exec_start exec;

    for (size_t i = 0; i < n; i++) {
        argv[i] = json_string_value(json_array_get(run->command, i));
        if (strcmp(argv[i], "{file}") == 0)
            argv[i] = run->path;
    }
    exec = (struct atoll_exec_start){.argv = argv, .timeout_ms = run->timeout_ms};
    atoll_engine_exec(run->engine, run->sandbox_id, &exec, started, run);
    free(argv);
}

/* Running in a context. */

static void code_written(void *arg, const struct atoll_error *error)
{
    struct run *run = arg;

    if (error)
        atoll_steps_done(&run->steps, error);
    else
        start(run);
}

/* The driver needs a program that is missing; the environment's interpreter may not need it. */
static void run_as_file(struct run *run)
{
    atoll_context_collect_done(&run->collect);
    run->in_context = false;
    atoll_session_write(&run->writer, run->engine, run->sandbox_id, &run->code, 1, code_written,
                        run);
}

static void ran(void *arg, const struct atoll_error *error)
{
    struct run *run = arg;

    run->end.duration_ms = atoll_clock_ms() - run->started_ms;
    memcpy(run->exec_id, run->collect.exec_id, sizeof(run->exec_id));
    /* Without a usable interpreter a file will do, unless its environment lists modules wrongly. */
    if (error && error->kind == ATOLL_ERR_FAILED_PRECONDITION &&
        error->errnum != ATOLL_CONTEXT_NO_MODULE && !run->collect.has_end)
        run_as_file(run);
    else
        atoll_steps_done(&run->steps, run->collect.has_end ? NULL : error);
}

static void start_in_context(struct run *run)
{
    const struct atoll_context_run what = {.code = run->execute->code,
                                           .code_len = run->execute->code_len,
                                           .timeout_ms = run->timeout_ms};

    run->started_ms = atoll_clock_ms();
    atoll_session_run_in_context(run->sessions, run->sandbox_id, run->language, &what,
                                 &run->collect, ran, run);
}

/* The steps. */

static void wake(void *arg)
{
    struct run *run = arg;

    atoll_session_wake(run->sessions, run->session, atoll_steps_done, &run->steps);
}

static void write_files(void *arg)
{
    struct run *run = arg;

    atoll_session_write(&run->writer, run->engine, run->sandbox_id, run->execute->files,
                        run->execute->file_count, atoll_steps_done, &run->steps);
}

static void write_code(void *arg)
{
    struct run *run = arg;

    atoll_session_write(&run->writer, run->engine, run->sandbox_id, &run->code,
                        run->in_context ? 0 : 1, atoll_steps_done, &run->steps);
}

/* For what does not change the result when it fails. */
static void done_anyway(void *arg, const struct atoll_error *error ATOLL_UNUSED)
{
    atoll_steps_done(arg, NULL);
}

static void remove_code(void *arg)
{
    struct run *run = arg;

    if (run->in_context)
        atoll_steps_done(&run->steps, NULL);
    else
        atoll_files_remove(run->engine, run->sandbox_id, NULL, run->path, false, done_anyway,
                           &run->steps);
}

static bool is_running(const struct run *run, const char *path)
{
    ATOLL_LIST_FOREACH (&run->sessions->runs, node) {
        const struct run *other = ATOLL_CONTAINER_OF(node, struct run, node);
        if (strcmp(other->sandbox_id, run->sandbox_id) == 0 && strcmp(other->path, path) == 0)
            return true;
    }
    return false;
}

static void ignore(void *arg, const struct atoll_error *error)
{
    (void)arg;
    (void)error;
}

/* Removes files with code that a killed daemon left behind. An interpreter that still runs one has
 * it open already. */
static void remove_stale(const struct run *run)
{
    for (size_t i = 0; i < run->before.code_count; i++)
        if (!is_running(run, run->before.codes[i]))
            atoll_files_remove(run->engine, run->sandbox_id, NULL, run->before.codes[i], false,
                               ignore, NULL);
}

static void listed_before(void *arg, const struct atoll_error *error)
{
    struct run *run = arg;

    if (!error)
        remove_stale(run);
    atoll_steps_done(&run->steps, error);
}

static void list_before(void *arg)
{
    struct run *run = arg;

    atoll_listing_take(&run->before, run->engine, run->sandbox_id, run->ignore, listed_before, run);
}

static void run_code(void *arg)
{
    struct run *run = arg;

    if (run->in_context)
        start_in_context(run);
    else
        start(run);
}

static void list_after(void *arg)
{
    struct run *run = arg;

    /* On an error the listing is marked incomplete. */
    atoll_listing_take(&run->after, run->engine, run->sandbox_id, run->ignore, done_anyway,
                       &run->steps);
}

static const struct atoll_step steps[] = {
    {"starting the sandbox", wake, NULL},
    {"writing the files of the request", write_files, NULL},
    {"writing the code", write_code, remove_code},
    {"listing the files before the code runs", list_before, NULL},
    {"running the code", run_code, NULL},
    {"listing the files after the code ran", list_after, NULL},
    {"removing the code", remove_code, NULL},
};

static void finish(void *arg, const struct atoll_error *error)
{
    struct run *run = arg;

    if (error)
        run->done(run->arg, NULL, error);
    else
        tell(run);
    run_free(run);
}

static struct run *run_new(const struct atoll_session *session,
                           const struct atoll_session_execute *execute,
                           const struct atoll_environment *e, const struct atoll_interpreter *in)
{
    struct run *run = atoll_session_alloc(sizeof(*run));
    char id[17];

    atoll_rand_id(id, 16);
    (void)snprintf(run->path, sizeof(run->path), ATOLL_SESSION_CODE_PREFIX "%s.%s", id,
                   in->extension);
    memcpy(run->sandbox_id, session->sandbox_id, sizeof(run->sandbox_id));
    (void)!atoll_text_copy(run->language, sizeof(run->language), in->language);
    run->execute = execute;
    run->command = json_incref((json_t *)in->run);
    run->ignore = json_incref((json_t *)e->ignore);
    run->timeout_ms =
        execute->has_timeout ? execute->timeout_ms : (uint32_t)(e->execute_timeout_s * 1000);
    run->code = (struct atoll_session_file){run->path, (const uint8_t *)execute->code,
                                            execute->code_len, CODE_MODE};
    atoll_listing_init(&run->before);
    atoll_listing_init(&run->after);
    for (int i = ATOLL_STREAM_STDOUT; i <= ATOLL_STREAM_STDERR; i++)
        atoll_buf_init(&run->streams[i], ATOLL_SESSION_OUTPUT_MAX);
    return run;
}

/* NOT_FOUND; FAILED_PRECONDITION when the environment has left the registry since the session was
 * created. */
static int find_environment(struct atoll_sessions *sessions, const char *id,
                            struct atoll_session **ret_session, struct atoll_environment *ret,
                            struct atoll_error *err)
{
    int r = atoll_sessions_need(sessions, id, ret_session, err);

    if (r < 0)
        return r;
    if (atoll_environment_find(sessions->registry, (*ret_session)->environment, ret, err) < 0)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, ENOENT,
                          "environment %s of this session is no longer in the registry",
                          (*ret_session)->environment);
    return 0;
}

void atoll_sessions_execute(struct atoll_sessions *sessions, const char *id,
                            const struct atoll_session_execute *execute,
                            atoll_session_result_fn *done, void *arg)
{
    struct atoll_environment e;
    struct atoll_interpreter in;
    struct atoll_session *session;
    struct atoll_error error;
    struct run *run;
    int r = find_environment(sessions, id, &session, &e, &error);

    if (r == 0)
        r = atoll_environment_interpreter(sessions->registry, &e, execute->language, &in, &error);
    if (r < 0) {
        done(arg, NULL, &error);
        return;
    }
    run = run_new(session, execute, &e, &in);
    run->sessions = sessions;
    run->in_context = atoll_session_has_context(sessions, &in);
    atoll_list_push_back(&sessions->runs, &run->node);
    run->engine = sessions->engine;
    run->done = done;
    run->arg = arg;
    run->session = session;
    run->steps = (struct atoll_steps){
        .steps = steps, .count = ATOLL_ARRAY_LEN(steps), .arg = run, .done = finish};
    atoll_steps_start(&run->steps);
}

/* Listing only. */

struct looking {
    struct atoll_listing listing;
    atoll_session_list_fn *done;
    void *arg;
};

static void looked(void *arg, const struct atoll_error *error)
{
    struct looking *k = arg;
    struct atoll_session_artifact *files;
    size_t count;
    bool all;

    files = atoll_listing_changes(NULL, &k->listing, &count, &all);
    k->done(k->arg, files, count, all, error);
    free(files);
    atoll_listing_done(&k->listing);
    free(k);
}

void atoll_sessions_list_files(struct atoll_sessions *sessions, const char *id,
                               atoll_session_list_fn *done, void *arg)
{
    struct atoll_environment e;
    struct atoll_session *session;
    struct atoll_error error;
    struct looking *k;

    if (find_environment(sessions, id, &session, &e, &error) < 0) {
        done(arg, NULL, 0, false, &error);
        return;
    }
    k = atoll_session_alloc(sizeof(*k));
    k->done = done;
    k->arg = arg;
    atoll_listing_init(&k->listing);
    atoll_listing_take(&k->listing, sessions->engine, session->sandbox_id, e.ignore, looked, k);
}
