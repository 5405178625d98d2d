#include "git/git.h"

#include <errno.h>
#include <string.h>
#include "base/memory.h"
#include "base/metrics.h"
#include "base/text.h"
#include "git/command.h"
#include "git/problem.h"

/* One command, from its start to the result. */
struct run {
    enum atoll_git_op op;
    struct atoll_git_command command;
    struct atoll_reader *reader; /* owned */
    struct atoll_buf out, words;
    bool truncated;
    char exec_id[33];
    atoll_git_fn *done;
    void *arg;
};

static void run_free(struct run *run)
{
    atoll_git_command_done(&run->command);
    atoll_buf_done(&run->out);
    atoll_buf_done(&run->words);
    free(run);
}

static void tell(struct run *run, const struct atoll_git_failure *failure,
                 const struct atoll_error *error)
{
    const struct atoll_git_result result = {.op = run->op,
                                            .exec_id = run->exec_id,
                                            .bytes = atoll_buf_head(&run->out),
                                            .len = atoll_buf_size(&run->out),
                                            .truncated = run->truncated,
                                            .words = atoll_buf_str(&run->words),
                                            .failure = failure};

    run->done(run->arg, &result, error);
    run_free(run);
}

static enum atoll_git_problem find_problem(struct run *run, const struct atoll_exec_result *end)
{
    const char *words = atoll_buf_str(&run->words);

    if (end->kind == ATOLL_END_TIMED_OUT)
        return ATOLL_GIT_TIMED_OUT;
    if (end->kind != ATOLL_END_EXITED)
        return ATOLL_GIT_KILLED;
    if (end->code == 127)
        return ATOLL_GIT_NO_GIT;
    return atoll_git_judge(run->op, run->op == ATOLL_GIT_PUSH ? atoll_buf_str(&run->out) : "",
                           words);
}

static void count(enum atoll_git_op op, const char *problem)
{
    atoll_metric_add(ATOLL_METRIC_GIT, ATOLL_LABELS(atoll_git_op_name(op), problem), 1);
}

static void tell_failure(struct run *run, const struct atoll_exec_result *end)
{
    struct atoll_git_failure failure = {.problem = find_problem(run, end)};
    struct atoll_error error;
    struct atoll_buf files;

    count(run->op, atoll_git_problem_name(failure.problem));
    failure.words = atoll_buf_str(&run->words);
    (void)atoll_git_fail(&error, run->op, failure.problem, failure.words);
    if (failure.problem == ATOLL_GIT_KILLED && *end->reason)
        (void)atoll_fail(&error, ATOLL_ERR_ABORTED, ECANCELED, "git %s was killed by %s",
                         atoll_git_op_name(run->op), end->reason);
    atoll_buf_init(&files, ATOLL_GIT_WORDS_MAX);
    if (failure.problem == ATOLL_GIT_DIRTY) {
        atoll_git_words_files(failure.words, &files);
        failure.files = atoll_buf_head(&files);
        failure.files_len = atoll_buf_size(&files);
    } else if (failure.problem == ATOLL_GIT_CONFLICT) {
        failure.files = atoll_buf_head(&run->out);
        failure.files_len = atoll_buf_size(&run->out);
    }
    tell(run, &failure, &error);
    atoll_buf_done(&files);
}

static void ended(struct run *run, const struct atoll_exec_result *end)
{
    if (end->kind == ATOLL_END_EXITED && end->code == 0) {
        count(run->op, "none");
        tell(run, NULL, NULL);
    } else {
        tell_failure(run, end);
    }
}

/* Collecting the output. */

static void take(struct run *run, const struct atoll_reader_item *item)
{
    bool is_out = item->stream == ATOLL_STREAM_STDOUT;
    struct atoll_buf *buf = is_out ? &run->out : &run->words;
    size_t room = (is_out ? ATOLL_GIT_OUTPUT_MAX : ATOLL_GIT_WORDS_MAX) - atoll_buf_size(buf);
    size_t n = (size_t)ATOLL_MIN(item->length, (uint64_t)room);

    if (is_out && run->truncated)
        return;
    /* What follows a gap could not be told from what precedes it. */
    if (item->kind == ATOLL_READ_GAP || n < item->length)
        run->truncated = run->truncated || is_out;
    if (item->kind == ATOLL_READ_DATA && atoll_buf_append(buf, item->data, n) < 0)
        run->truncated = run->truncated || is_out;
}

static void pump(void *arg)
{
    struct run *run = arg;
    struct atoll_reader_item item;
    struct atoll_exec_result end;
    struct atoll_error error;
    int r;

    while ((r = atoll_reader_next(run->reader, &item)) > 0) {
        if (item.kind == ATOLL_READ_END) {
            end = *item.result;
            run->reader = atoll_reader_close(run->reader);
            ended(run, &end);
            return;
        }
        take(run, &item);
    }
    if (r == 0) {
        atoll_reader_forget(run->reader, 0, 0);
        return;
    }
    run->reader = atoll_reader_close(run->reader);
    (void)atoll_fail_errno(&error, -r, "reading the output of git");
    tell(run, NULL, &error);
}

/* Why the command did not start; the agent says so when there is no such program. */
static void tell_not_started(struct run *run, const struct atoll_error *error)
{
    const struct atoll_git_failure failure = {.problem = ATOLL_GIT_NO_GIT, .words = error->text};
    struct atoll_error named;

    if (error->kind != ATOLL_ERR_NOT_FOUND || !strstr(error->text, "command not found")) {
        tell(run, NULL, error);
        return;
    }
    count(run->op, atoll_git_problem_name(failure.problem));
    (void)atoll_git_fail(&named, run->op, failure.problem, failure.words);
    tell(run, &failure, &named);
}

static void started(void *arg, struct atoll_exec *exec, const struct atoll_error *error)
{
    struct run *run = arg;
    struct atoll_exec_view view;
    struct atoll_error failed;

    if (error) {
        tell_not_started(run, error);
        return;
    }
    atoll_exec_get(exec, &view);
    (void)!atoll_text_copy(run->exec_id, sizeof(run->exec_id), view.id);
    if (atoll_buf_size(&run->command.input) > 0)
        atoll_exec_feed(exec, atoll_buf_head(&run->command.input),
                        atoll_buf_size(&run->command.input));
    atoll_git_command_done(&run->command);
    atoll_buf_init(&run->command.input, 0);
    if (atoll_reader_open(exec, 0, 0, pump, run, &run->reader, &failed) < 0) {
        tell(run, NULL, &failed);
    } else {
        atoll_reader_follow(run->reader);
        pump(run);
    }
}

void atoll_git_run(struct atoll_engine *engine, const char *sandbox_id,
                   const struct atoll_git_request *request, atoll_git_fn *done, void *arg)
{
    struct run *run = atoll_alloc(sizeof(*run));
    struct atoll_error error;
    struct atoll_exec_start start;

    run->op = request->op;
    run->done = done;
    run->arg = arg;
    atoll_buf_init(&run->out, ATOLL_GIT_OUTPUT_MAX);
    atoll_buf_init(&run->words, ATOLL_GIT_WORDS_MAX + 1);
    if (atoll_git_command_make(request, &run->command, &error) < 0) {
        tell(run, NULL, &error);
        return;
    }
    start = (struct atoll_exec_start){.argv = run->command.argv,
                                      .env = run->command.env,
                                      .user = request->user,
                                      .timeout_ms = run->command.timeout_ms,
                                      .stdin_open = atoll_buf_size(&run->command.input) > 0};
    atoll_engine_exec(engine, sandbox_id, &start, started, run);
}
