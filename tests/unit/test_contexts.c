/*
 * Contexts with an engine made of memory: the test is the driver, and behaves as badly as one can.
 */
#include <signal.h>
#include <sys/stat.h>
#include "fake_engine.h"
#include "interpreter/contexts_internal.h"
#include "sys/tree.h"
#include "test.h"

#define READY "{\"type\":\"ready\",\"language\":\"toy\",\"version\":\"1\"}\n"

static struct atoll_loop *loop;
static struct atoll_contexts *contexts;
static char dir[] = "/tmp/atoll-contexts-XXXXXX";
static char box[ATOLL_ID_LEN + 1];

/* What callbacks said. */
struct heard {
    char text[4096];
    size_t len;
    unsigned lines, ends;
    enum atoll_error_kind failed;
    char why[ATOLL_ERROR_TEXT_MAX];
    struct atoll_execution *execution;
    char context[ATOLL_ID_LEN + 1];
    const char *destroy; /* the context to remove when the next line comes */
    bool again;          /* run the same once more at the end */
};

static struct atoll_exec *const driver = &fake.execs[0]; /* of the first context */
static struct heard made;                                /* about it, by setup_made() */

static void write_file(const char *name, const char *text)
{
    char path[100];
    FILE *f;

    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static int open_contexts(struct atoll_error *err)
{
    const struct atoll_contexts_config config = {.loop = loop, .engine = &fake, .drivers_dir = dir};
    return atoll_contexts_new(&config, &contexts, err);
}

static void made_box(void *arg, struct atoll_sandbox *s, const struct atoll_error *error)
{
    (void)arg;
    assert_null(error);
    (void)snprintf(box, sizeof(box), "%s", s->id);
}

static int setup(void **state)
{
    struct atoll_error err;

    (void)state;
    fake_reset();
    (void)snprintf(dir, sizeof(dir), "/tmp/atoll-contexts-XXXXXX");
    assert_non_null(mkdtemp(dir));
    write_file("toy.py", "print('driver')\n");
    write_file(
        "manifest.json",
        "{\"toy\":{\"file\":\"toy.py\",\"run\":[\"toy\",\"{driver}\"],\"requires\":[\"toy\"],"
        "\"aliases\":[\"t\"],\"install\":\"get toy\"}}");
    assert_int_equal(atoll_loop_new(&loop, &err), 0);
    assert_int_equal(open_contexts(&err), 0);
    atoll_engine_create(&fake, &(struct atoll_options){0}, made_box, NULL);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    contexts = atoll_contexts_free(contexts);
    loop = atoll_loop_free(loop);
    assert_int_equal(fake.readers, 0);
    fake_done();
    assert_int_equal(atoll_tree_remove(AT_FDCWD, dir), 0);
    return 0;
}

static void on_made(void *arg, const struct atoll_context_view *view,
                    const struct atoll_error *error)
{
    struct heard *h = arg;

    h->ends++;
    if (error) {
        h->failed = error->kind;
        (void)snprintf(h->why, sizeof(h->why), "%s", error->text);
    } else {
        (void)snprintf(h->context, sizeof(h->context), "%s", view->id);
    }
}

static void on_done(void *arg, const struct atoll_error *error)
{
    struct heard *h = arg;

    h->ends++;
    h->failed = error ? error->kind : ATOLL_ERR_NONE;
}

static void create(struct heard *h, const char *language)
{
    const struct atoll_context_create c = {.sandbox_id = box, .language = language};

    *h = (struct heard){0};
    atoll_contexts_create(contexts, &c, on_made, h);
}

static void say(struct atoll_exec *exec, const char *text)
{
    fake_output(exec, ATOLL_STREAM_STDOUT, text, strlen(text));
}

/* For tests of a context that is there. */
static int setup_made(void **state)
{
    (void)setup(state);
    create(&made, "toy");
    say(driver, READY);
    assert_int_equal(made.ends, 1);
    assert_int_equal(made.failed, ATOLL_ERR_NONE);
    return 0;
}

static void execute(struct heard *h, const char *context, const char *code, uint32_t timeout_ms);

static void on_line(void *arg, enum atoll_context_line_kind kind, const char *json, size_t n)
{
    struct heard *h = arg;

    (void)kind;
    for (size_t i = 0; i < n; i++)
        assert_true(json[i] >= ' ' && json[i] < 127);
    h->lines++;
    if (h->len + n + 2 < sizeof(h->text))
        h->len +=
            (size_t)snprintf(h->text + h->len, sizeof(h->text) - h->len, "%.*s\n", (int)n, json);
    if (h->destroy) {
        struct heard done = {0};
        const char *id = ATOLL_TAKE_PTR(h->destroy);
        atoll_contexts_destroy(contexts, box, id, on_done, &done);
        assert_int_equal(done.ends, 1);
    }
}

static void on_ended(void *arg, const struct atoll_error *error)
{
    struct heard *h = arg;

    h->ends++;
    h->execution = NULL;
    if (error) {
        h->failed = error->kind;
        (void)snprintf(h->why, sizeof(h->why), "%s", error->text);
    }
    if (h->again) {
        h->again = false;
        execute(h, h->context, "again", 0);
    }
}

static void execute(struct heard *h, const char *context, const char *code, uint32_t timeout_ms)
{
    static const struct atoll_context_events events = {on_line, on_ended};
    const struct atoll_context_run run = {
        .code = code, .code_len = strlen(code), .timeout_ms = timeout_ms};
    struct atoll_execution *e = atoll_contexts_execute(contexts, box, context, &run, &events, h);

    if (e)
        h->execution = e;
}

/* The id of the last request the driver got. */
static uint64_t request_id(struct atoll_exec *exec)
{
    const char *text = atoll_buf_str(&exec->input), *last = NULL;

    for (const char *p = text; (p = strstr(p, "{\"id\":")); p++)
        last = p;
    assert_non_null(last);
    return strtoull(last + 6, NULL, 10);
}

static void answer(struct atoll_exec *exec, uint64_t id, const char *rest)
{
    char line[1024];

    (void)snprintf(line, sizeof(line), "{\"id\":%llu,%s}\n", (unsigned long long)id, rest);
    say(exec, line);
}

static void turn(int ms)
{
    struct atoll_error err;
    assert_int_equal(atoll_loop_step(loop, ms, &err), 0);
}

#define END "\"type\":\"end_of_execution\""
#define COUNT "\"type\":\"number_of_executions\",\"execution_count\":1"

static void brings_and_starts_a_driver(void **state)
{
    struct heard h;
    struct atoll_context_view view;
    size_t pos = 0;

    (void)state;
    create(&h, "T");
    assert_int_equal(h.ends, 0);
    assert_string_equal(fake.path, "/run/atoll/drivers/toy.py");
    assert_string_equal(atoll_buf_str(&fake.stored), "print('driver')\n");
    assert_true(driver->stdin_open);
    assert_false(atoll_contexts_next(contexts, box, &pos, &view)); /* not before it is ready */
    say(driver, "noise before\n{\"type\":\"rea");
    assert_int_equal(h.ends, 0);
    say(driver, "dy\"}\n");
    assert_int_equal(h.ends, 1);
    pos = 0;
    assert_true(atoll_contexts_next(contexts, box, &pos, &view));
    assert_string_equal(view.language, "toy");
    assert_string_equal(view.exec_id, "exec0");
    assert_true(driver->resting);
    assert_false(atoll_contexts_next(contexts, box, &pos, &view));
}

static void a_start_that_fails_leaves_nothing(void **state)
{
    struct atoll_context_view view;
    struct heard h;
    size_t pos = 0;

    (void)state;
    create(&h, "cobol");
    assert_int_equal(h.failed, ATOLL_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(h.why, "toy"));
    create(&h, "toy");
    fake_output(driver, ATOLL_STREAM_STDERR, "no such module", 14);
    fake_end(driver, ATOLL_END_EXITED, 1);
    assert_int_equal(h.failed, ATOLL_ERR_FAILED_PRECONDITION);
    assert_non_null(strstr(h.why, "no such module"));
    assert_false(atoll_contexts_next(contexts, box, &pos, &view));
    (void)atoll_fail(&fake.fail_next, ATOLL_ERR_RESOURCE_EXHAUSTED, EBUSY, "full");
    create(&h, "toy");
    assert_int_equal(h.failed, ATOLL_ERR_RESOURCE_EXHAUSTED);
    assert_false(atoll_contexts_next(contexts, box, &pos, &view));
}

static void lines_are_checked_and_rewritten(void **state)
{
    struct heard h = {0};
    uint64_t id;

    (void)state;
    execute(&h, made.context, "1+\xc3\xa4", 0);
    assert_false(driver->resting);
    id = request_id(driver);
    assert_non_null(strstr(atoll_buf_str(&driver->input), "\"code\":\"1+\\u00E4\""));
    answer(driver, id, COUNT);
    answer(driver, id,
           "\"type\":\"stdout\",\"text\":\"\xc3\xa4\\u0000\",\"timestamp\":\"T\",\"evil\":1");
    answer(driver, id, "\"type\":\"stderr\",\"text\":5,\"timestamp\":\"T\"");
    answer(driver, id,
           "\"type\":\"result\",\"text\":\"2\",\"png\":7,\"html\":null,\"json\":{\"a\":[1]},"
           "\"is_main_result\":true");
    answer(driver, id, "\"type\":\"result\",\"json\":[100000000000000000000]");
    answer(driver, id,
           "\"type\":\"stdout\",\"text\":\"\\ud83d \\ud83d\\ude00 \\\\ud83d\",\"timestamp\":\"T\"");
    answer(driver, id, "\"type\":\"error\",\"name\":\"E\",\"value\":\"v\",\"traceback\":\"t\"");
    answer(driver, id, "\"type\":\"error\",\"name\":\"second\"");
    answer(driver, id, COUNT);
    assert_int_equal(h.ends, 0);
    answer(driver, id, END);
    assert_int_equal(h.ends, 1);
    assert_int_equal(h.failed, ATOLL_ERR_NONE);
    assert_string_equal(
        h.text,
        "{\"type\":\"number_of_executions\",\"execution_count\":1}\n"
        "{\"type\":\"stdout\",\"text\":\"\\u00E4\\u0000\",\"timestamp\":\"T\"}\n"
        "{\"type\":\"stderr\",\"text\":\"\",\"timestamp\":\"T\"}\n"
        "{\"type\":\"result\",\"text\":\"2\",\"json\":{\"a\":[1]},\"is_main_result\":true,"
        "\"extra\":{}}\n"
        "{\"type\":\"result\",\"json\":[1e20],\"is_main_result\":false,\"extra\":{}}\n"
        "{\"type\":\"stdout\",\"text\":\"\\uFFFD \\uD83D\\uDE00 \\\\ud83d\",\"timestamp\":\"T\"}\n"
        "{\"type\":\"error\",\"name\":\"E\",\"value\":\"v\",\"traceback\":\"t\"}\n");
    assert_true(driver->resting);
}

static void noise_hurts_nobody_else(void **state)
{
    static const char *const noise[] = {"",
                                        "x",
                                        "[]",
                                        "17",
                                        "null",
                                        "\"end_of_execution\"",
                                        "{",
                                        "{}",
                                        "\xff\xfe",
                                        "{\"type\":\"end_of_execution\"}",
                                        "{\"id\":1,\"type\":\"end_of_execution\"}",
                                        "{\"id\":null,\"type\":\"end_of_execution\"}",
                                        "{\"id\":\"x\",\"type\":\"stdout\"}",
                                        "{\"id\":1,\"type\":5}",
                                        "{\"type\":\"ready\"}",
                                        "{\"id\":1e999,\"type\":\"stdout\"}",
                                        "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["};
    struct heard first = {0}, second = {0};
    uint64_t id;

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(noise); i++) {
        say(driver, noise[i]);
        say(driver, "\n");
    }
    execute(&first, made.context, "a", 0);
    execute(&second, made.context, "b", 0);
    id = request_id(driver);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(noise); i++) {
        say(driver, noise[i]);
        say(driver, "\n");
    }
    answer(driver, id + 1, END); /* of the one that waits: it does not run yet */
    assert_int_equal(second.ends, 0);
    answer(driver, id, END);
    assert_int_equal(first.ends, 1);
    assert_int_equal(first.lines, 1); /* one warning for all of it */
    assert_non_null(strstr(first.text, "\"type\":\"stderr\""));
    assert_int_equal(second.ends, 0);
    assert_true(request_id(driver) > id);
    answer(driver, id, "\"type\":\"stdout\",\"text\":\"late\"");
    answer(driver, request_id(driver), END);
    assert_int_equal(second.ends, 1);
    assert_int_equal(second.lines, 0);
}

static void a_line_without_end(void **state)
{
    struct heard h = {0};
    size_t n = (size_t)4 << 20;
    char *piece = malloc(n);

    (void)state;
    memset(piece, 'x', n);
    execute(&h, made.context, "a", 0);
    for (int i = 0; i < 20; i++)
        fake_output(driver, ATOLL_STREAM_STDOUT, piece, n);
    assert_int_equal(contexts->lines.used, 0);
    say(driver, "\n");
    assert_non_null(strstr(h.text, "OutputTooLong"));
    answer(driver, request_id(driver), END);
    assert_int_equal(h.ends, 1);
    assert_int_equal(h.lines, 1);
    /* A long one that is allowed. */
    h = (struct heard){0};
    execute(&h, made.context, "b", 0);
    (void)snprintf(piece, n, "{\"id\":%llu,\"type\":\"stdout\",\"timestamp\":\"\",\"text\":\"",
                   (unsigned long long)request_id(driver));
    say(driver, piece);
    memset(piece, 'y', n);
    for (int i = 0; i < 7; i++)
        fake_output(driver, ATOLL_STREAM_STDOUT, piece, n);
    assert_true(contexts->lines.used > 7 * n);
    say(driver, "\"}\n");
    assert_int_equal(h.lines, 1);
    answer(driver, request_id(driver), END);
    assert_int_equal(h.ends, 1);
    assert_int_equal(contexts->lines.used, 0);
    free(piece);
}

/* A second sandbox, of another tenant, with a context. */
static void create_neighbour(struct heard *h)
{
    atoll_engine_create(&fake, &(struct atoll_options){.owner = "neighbour"}, made_box, NULL);
    create(h, "toy");
    say(driver + 1, READY);
    assert_int_equal(h->failed, ATOLL_ERR_NONE);
}

static void lines_of_a_neighbour(void **state)
{
    struct heard h = {0}, hers;
    size_t n = (size_t)4 << 20;
    char *piece = malloc(n);

    (void)state;
    memset(piece, 'x', n);
    contexts->lines.max = n;
    execute(&h, made.context, "a", 0);
    fake_output(driver, ATOLL_STREAM_STDOUT, piece, n);
    create_neighbour(&hers);
    execute(&hers, hers.context, "b", 0);
    (void)snprintf(piece, n, "{\"id\":%llu,\"type\":\"stdout\",\"timestamp\":\"\",\"text\":\"",
                   (unsigned long long)request_id(driver + 1));
    say(driver + 1, piece);
    memset(piece, 'y', n);
    fake_output(driver + 1, ATOLL_STREAM_STDOUT, piece, 3 * ATOLL_LINE_SHORT_MAX / 2);
    say(driver + 1, "\"}\n");
    assert_int_equal(hers.lines, 1);
    assert_null(strstr(hers.text, "OutputTooLong"));
    say(driver, "x"); /* who has more than his part is told */
    say(driver, "\n");
    assert_non_null(strstr(h.text, "OutputTooLong"));
    free(piece);
}

static void code_of_a_neighbour(void **state)
{
    struct heard first = {0}, second = {0}, third = {0}, hers;

    (void)state;
    contexts->pending.max = 100;
    execute(&first, made.context, "runs", 0);
    execute(&second, made.context, "waits, and it is long, which fills what there is for all", 0);
    assert_true(contexts->pending.used >= 100);
    execute(&third, made.context, "more", 0);
    assert_int_equal(third.failed, ATOLL_ERR_RESOURCE_EXHAUSTED);
    create_neighbour(&hers);
    execute(&hers, hers.context, "hers", 0);
    answer(driver + 1, request_id(driver + 1), END);
    assert_int_equal(hers.failed, ATOLL_ERR_NONE);
}

static void death_in_the_middle(void **state)
{
    struct heard h = {0}, next = {0};

    (void)state;
    execute(&h, made.context, "a", 0);
    execute(&next, made.context, "b", 0);
    answer(driver, request_id(driver), COUNT);
    fake_output(driver, ATOLL_STREAM_STDERR, "Fatal error\n", 12);
    fake_end(driver, ATOLL_END_EXITED, 3);
    assert_int_equal(h.ends, 1);
    assert_int_equal(h.failed, ATOLL_ERR_NONE);
    assert_non_null(strstr(h.text, "\"name\":\"ExitCode\""));
    assert_non_null(strstr(h.text, "variables are gone"));
    assert_non_null(strstr(h.text, "Fatal error"));
    /* The next one gets a new driver, and is not told again. */
    assert_true(fake.execs[1].used);
    say(&fake.execs[1], READY);
    answer(&fake.execs[1], request_id(&fake.execs[1]), COUNT);
    answer(&fake.execs[1], request_id(&fake.execs[1]), END);
    assert_int_equal(next.ends, 1);
    assert_int_equal(next.lines, 1);
}

static void death_in_between(void **state)
{
    struct heard h = {0};

    (void)state;
    fake_end(driver, ATOLL_END_EXITED, 1);
    execute(&h, made.context, "a", 0);
    say(&fake.execs[1], READY);
    answer(&fake.execs[1], request_id(&fake.execs[1]), COUNT);
    answer(&fake.execs[1], request_id(&fake.execs[1]), END);
    assert_int_equal(h.ends, 1);
    assert_int_equal(h.lines, 2);
    assert_non_null(strstr(h.text, "\"type\":\"stderr\",\"text\":\"the interpreter had ended"));
}

static void abandoning_interrupts(void **state)
{
    struct heard h = {0}, waiting = {0}, next = {0};

    (void)state;
    execute(&h, made.context, "a", 0);
    execute(&waiting, made.context, "b", 0);
    execute(&next, made.context, "c", 0);
    (void)atoll_execution_abandon(waiting.execution);
    assert_int_equal(driver->signo, 0);
    (void)atoll_execution_abandon(h.execution);
    assert_int_equal(driver->signo, SIGINT);
    answer(driver, request_id(driver), "\"type\":\"error\",\"name\":\"KeyboardInterrupt\"");
    answer(driver, request_id(driver), END);
    assert_non_null(strstr(atoll_buf_str(&driver->input), "\"code\":\"c\""));
    assert_null(strstr(atoll_buf_str(&driver->input), "\"code\":\"b\""));
    answer(driver, request_id(driver), END);
    assert_int_equal(h.lines + h.ends + waiting.lines + waiting.ends, 0);
    assert_int_equal(next.ends, 1);
    assert_int_equal(contexts->pending.used, 0);
}

static void time_runs_out(void **state)
{
    struct heard h = {0};

    (void)state;
    execute(&h, made.context, "a", 1);
    while (driver->signo == 0)
        turn(10);
    assert_int_equal(driver->signo, SIGINT);
    answer(driver, request_id(driver),
           "\"type\":\"error\",\"name\":\"KeyboardInterrupt\",\"value\":\"\",\"traceback\":\"tb\"");
    answer(driver, request_id(driver), END);
    assert_int_equal(h.ends, 1);
    assert_non_null(strstr(h.text, "\"name\":\"TimedOut\",\"value\":\"stopped after "));
    assert_non_null(strstr(h.text, "\"traceback\":\"tb\""));
    /* And one that says nothing about it. */
    h = (struct heard){0};
    driver->signo = 0;
    execute(&h, made.context, "a", 1);
    while (driver->signo == 0)
        turn(10);
    answer(driver, request_id(driver), END);
    assert_non_null(strstr(h.text, "\"name\":\"TimedOut\""));
}

static void pausing_holds_back(void **state)
{
    struct heard h = {0};

    (void)state;
    execute(&h, made.context, "a", 0);
    atoll_execution_pause(h.execution);
    answer(driver, request_id(driver), COUNT);
    answer(driver, request_id(driver), END);
    assert_int_equal(h.lines + h.ends, 0);
    atoll_execution_resume(h.execution);
    assert_int_equal(h.lines, 1);
    assert_int_equal(h.ends, 1);
}

static void removing_and_restarting(void **state)
{
    struct heard h = {0}, waiting = {0}, done = {0};

    (void)state;
    execute(&h, made.context, "a", 0);
    execute(&waiting, made.context, "b", 0);
    atoll_contexts_restart(contexts, box, made.context, on_done, &done);
    assert_int_equal(driver->signo, -SIGKILL);
    assert_int_equal(h.ends + waiting.ends, 2);
    assert_non_null(strstr(h.text, "ContextRestarting"));
    assert_non_null(strstr(waiting.text, "ContextRestarting"));
    assert_int_equal(done.ends, 0);
    fake_end(driver, ATOLL_END_KILLED_BY, 0);
    say(&fake.execs[1], READY);
    assert_int_equal(done.ends, 1);
    h = (struct heard){0};
    execute(&h, made.context, "c", 0);
    done = (struct heard){0};
    atoll_contexts_destroy(contexts, box, made.context, on_done, &done);
    assert_int_equal(done.ends, 1);
    assert_int_equal(fake.execs[1].signo, -SIGKILL);
    assert_non_null(strstr(h.text, "ExecutionAborted"));
    atoll_contexts_destroy(contexts, box, made.context, on_done, &done);
    assert_int_equal(done.failed, ATOLL_ERR_NOT_FOUND);
    execute(&h, made.context, "d", 0);
    assert_int_equal(h.failed, ATOLL_ERR_NOT_FOUND);
}

static void callbacks_may_do_anything(void **state)
{
    struct heard h = {0};

    (void)state;
    h.again = true;
    memcpy(h.context, made.context, sizeof(h.context));
    execute(&h, made.context, "a", 0);
    answer(driver, request_id(driver), END);
    assert_non_null(strstr(atoll_buf_str(&driver->input), "\"code\":\"again\""));
    h.destroy = made.context;
    answer(driver, request_id(driver), COUNT);
    assert_int_equal(h.ends, 2);
    assert_non_null(strstr(h.text, "ExecutionAborted"));
}

static void a_sandbox_that_ends(void **state)
{
    struct heard h = {0}, waiting = {0}, gone = {0};

    (void)state;
    execute(&h, made.context, "a", 0);
    execute(&waiting, made.context, "b", 0);
    atoll_engine_destroy(&fake, box, "the test", on_done, &gone);
    assert_int_equal(h.failed, ATOLL_ERR_UNAVAILABLE);
    assert_int_equal(waiting.failed, ATOLL_ERR_UNAVAILABLE);
    execute(&h, made.context, "c", 0);
    assert_int_equal(h.failed, ATOLL_ERR_NOT_FOUND);
}

/* Whoever reads slowly has the last hold of the command. */
static void a_sandbox_that_ended_unheard(void **state)
{
    struct heard h = {0};

    (void)state;
    execute(&h, made.context, "a", 0);
    atoll_execution_pause(h.execution);
    (void)snprintf(driver->result.reason, sizeof(driver->result.reason), "somebody");
    fake_end(driver, ATOLL_END_KILLED_BY, 0);
    fake.sandboxes[0].used = false;
    driver->gone = true;
    assert_int_equal(h.ends, 0);
    atoll_execution_resume(h.execution);
    assert_int_equal(h.ends, 1);
    assert_int_equal(h.failed, ATOLL_ERR_UNAVAILABLE);
    assert_non_null(strstr(h.why, "has ended: somebody"));
}

static void everything_is_bounded(void **state)
{
    struct heard waiting[ATOLL_CONTEXT_QUEUE + 2] = {0};
    const struct atoll_context_create c = {.sandbox_id = box, .language = "toy"};
    struct atoll_context_view view;
    size_t n = ATOLL_CONTEXT_CODE_MAX + 1;
    char *code = malloc(n + 1);

    (void)state;
    memset(code, ' ', n);
    code[n] = '\0';
    execute(&waiting[0], made.context, code, 0);
    assert_int_equal(waiting[0].failed, ATOLL_ERR_INVALID_ARGUMENT);
    free(code);
    execute(&waiting[0], made.context, "\xff", 0);
    assert_int_equal(waiting[0].failed, ATOLL_ERR_INVALID_ARGUMENT);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(waiting); i++)
        execute(&waiting[i], made.context, "a", 0);
    assert_int_equal(waiting[ATOLL_CONTEXT_QUEUE].failed, ATOLL_ERR_NONE);
    assert_int_equal(waiting[ATOLL_CONTEXT_QUEUE + 1].failed, ATOLL_ERR_RESOURCE_EXHAUSTED);
    fake.hold = true; /* they are being made for ever */
    for (int i = 1; i < ATOLL_CONTEXTS_PER_SANDBOX && i < 60; i++)
        atoll_contexts_create(contexts, &c, on_made, &made);
    assert_int_equal(atoll_contexts_default(contexts, &c, &view, &(struct atoll_error){0}), 0);
    for (int i = 0; i < 4; i++)
        atoll_contexts_create(contexts, &c, on_made, &made);
    assert_int_equal(made.failed, ATOLL_ERR_RESOURCE_EXHAUSTED);
    assert_int_equal(made.ends, 2);
    atoll_engine_find(&fake, box)->used = false;
    fake_release();
    assert_false(atoll_contexts_find(contexts, box, view.id, &view));
}

static void the_default_context(void **state)
{
    const struct atoll_context_create c = {
        .sandbox_id = box, .language = "toy", .cwd = "/x", .user = "root"};
    struct atoll_context_view first, again;
    struct heard h = {0};
    struct atoll_error err;
    char id[ATOLL_ID_LEN + 1];

    (void)state;
    assert_int_equal(atoll_contexts_default(contexts, &c, &first, &err), 0);
    (void)snprintf(id, sizeof(id), "%s", first.id);
    assert_false(driver->used);
    assert_int_equal(atoll_contexts_default(contexts, &c, &again, &err), 0);
    assert_string_equal(id, again.id);
    assert_true(again.is_default);
    execute(&h, id, "a", 0);
    assert_true(driver->used);
    assert_string_equal(driver->user, "root");
    say(driver, READY);
    answer(driver, request_id(driver), END);
    assert_int_equal(h.ends, 1);
    assert_true(atoll_contexts_speaks(contexts, "toy", "toy"));
    assert_false(atoll_contexts_speaks(contexts, "toy", "other"));
    assert_false(atoll_contexts_speaks(contexts, "other", "toy"));
}

static void bad_manifests(void **state)
{
    static const struct {
        const char *text, *says;
    } rows[] = {
        {"{", "manifest.json:1"},
        {"[]", "must be an object"},
        {"{\"a b\":{}}", "short name"},
        {"{\"a\":{\"nope\":1}}", "nope"},
        {"{\"a\":{\"file\":\"../x\",\"install\":\"i\",\"run\":[\"{driver}\"]}}", "file"},
        {"{\"a\":{\"file\":\"toy.py\",\"install\":\"i\",\"run\":[\"x\"]}}", "{driver}"},
        {"{\"a\":{\"file\":\"toy.py\",\"install\":\"i\",\"run\":[]}}", "run"},
        {"{\"a\":{\"file\":\"toy.py\",\"install\":\"i\",\"run\":[\"{driver}\"],\"aliases\":[5]}}",
         "aliases"},
        {"{\"a\":{\"file\":\"none.py\",\"install\":\"i\",\"run\":[\"{driver}\"]}}", "none.py"},
    };
    struct atoll_error err;

    (void)state;
    contexts = atoll_contexts_free(contexts);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(rows); i++) {
        write_file("manifest.json", rows[i].text);
        assert_true(open_contexts(&err) < 0);
        assert_int_equal(err.kind, ATOLL_ERR_INVALID_ARGUMENT);
        if (!strstr(err.text, rows[i].says))
            fail_msg("%s: %s", rows[i].text, err.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(brings_and_starts_a_driver, setup, teardown),
        cmocka_unit_test_setup_teardown(a_start_that_fails_leaves_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(lines_are_checked_and_rewritten, setup_made, teardown),
        cmocka_unit_test_setup_teardown(noise_hurts_nobody_else, setup_made, teardown),
        cmocka_unit_test_setup_teardown(a_line_without_end, setup_made, teardown),
        cmocka_unit_test_setup_teardown(lines_of_a_neighbour, setup_made, teardown),
        cmocka_unit_test_setup_teardown(code_of_a_neighbour, setup_made, teardown),
        cmocka_unit_test_setup_teardown(death_in_the_middle, setup_made, teardown),
        cmocka_unit_test_setup_teardown(death_in_between, setup_made, teardown),
        cmocka_unit_test_setup_teardown(abandoning_interrupts, setup_made, teardown),
        cmocka_unit_test_setup_teardown(time_runs_out, setup_made, teardown),
        cmocka_unit_test_setup_teardown(pausing_holds_back, setup_made, teardown),
        cmocka_unit_test_setup_teardown(removing_and_restarting, setup_made, teardown),
        cmocka_unit_test_setup_teardown(callbacks_may_do_anything, setup_made, teardown),
        cmocka_unit_test_setup_teardown(a_sandbox_that_ends, setup_made, teardown),
        cmocka_unit_test_setup_teardown(a_sandbox_that_ended_unheard, setup_made, teardown),
        cmocka_unit_test_setup_teardown(everything_is_bounded, setup_made, teardown),
        cmocka_unit_test_setup_teardown(the_default_context, setup, teardown),
        cmocka_unit_test_setup_teardown(bad_manifests, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
