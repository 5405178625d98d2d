#include <errno.h>
#include <signal.h>
#include <string.h>
#include "base/memory.h"
#include "base/switches.h"
#include "engine/engine_internal.h"

/*
 * Control of a running command: input, signals, terminal size. Writes to its stdin wait for each other, so
 * that the pieces of one stay together.
 */

/* Stdin is sent in pieces that fit in a frame; the next piece is sent when the last was taken. */
#define PIECE_MAX (64 * 1024)

struct telling {
    struct atoll_exec *exec; /* referenced */
    uint8_t *bytes;          /* owned copy of what is left to write, or NULL */
    size_t len, at;
    bool close, patient; /* patient: without a deadline */
    bool is_write, started;
    struct telling *next; /* the write that follows */
    atoll_done_fn *done;
    void *arg;
};

static void write_more(struct telling *t);

/* Starts the first write, and those behind it that fail at once. */
static void run_writes(struct atoll_exec *x)
{
    if (x->writes.running)
        return;
    x->writes.running = true;
    while (x->writes.first && !x->writes.first->started) {
        x->writes.first->started = true;
        write_more(x->writes.first);
    }
    x->writes.running = false;
}

static void conclude(struct telling *t, const struct atoll_error *error)
{
    if (t->is_write)
        t->exec->writes.first = t->next;
    t->done(t->arg, error);
    if (t->is_write)
        run_writes(t->exec);
    atoll_exec_unref(t->exec);
    if (t->bytes)
        explicit_bzero(t->bytes, t->len); /* input may be a password */
    free(t->bytes);
    free(t);
}

static int check_running(const struct atoll_exec *x, struct atoll_error *err)
{
    if (x->ended || !x->sandbox)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, ESRCH, "command %s has ended", x->id);
    return 0;
}

static struct telling *telling_new(struct atoll_exec *x, atoll_done_fn *done, void *arg)
{
    struct telling *t = atoll_alloc(sizeof(*t));

    x->refs++;
    *t = (struct telling){.exec = x, .done = done, .arg = arg};
    return t;
}

static void on_told(void *arg, const struct atoll_reply *answer)
{
    conclude(arg, answer->error);
}

static void ask(struct telling *t, uint16_t type, const struct atoll_msg_desc *desc,
                const void *msg, atoll_answer_fn *fn)
{
    struct atoll_error err;
    int r = check_running(t->exec, &err);

    if (r == 0 && t->patient)
        r = atoll_sandbox_ask_patiently(t->exec->sandbox, type, desc, msg, fn, t, &err);
    else if (r == 0)
        r = atoll_sandbox_ask(t->exec->sandbox, type, desc, msg, fn, t, &err);
    if (r < 0)
        conclude(t, &err);
}

static size_t piece_of(const struct telling *t)
{
    return ATOLL_MIN(t->len - t->at, (size_t)PIECE_MAX);
}

/* A piece that the agent has refused is not part of the input. One whose answer did not come may be. */
static bool is_refusal(const struct atoll_error *error)
{
    return error->kind == ATOLL_ERR_RESOURCE_EXHAUSTED || error->kind == ATOLL_ERR_OUT_OF_RANGE;
}

static void on_written(void *arg, const struct atoll_reply *answer)
{
    struct telling *t = arg;
    size_t n = piece_of(t);

    if (answer->error) {
        if (is_refusal(answer->error))
            t->exec->stdin_offset -= n;
        conclude(t, answer->error);
        return;
    }
    t->at += n;
    write_more(t);
}

static void write_more(struct telling *t)
{
    struct atoll_exec *x = t->exec;

    if (t->at < t->len) {
        size_t n = piece_of(t);
        struct atoll_am_stdin msg = {x->number, x->stdin_offset, {t->bytes + t->at, n}};
        x->stdin_offset += n;
        ask(t, ATOLL_AGENT_EXEC_STDIN, &atoll_am_stdin_desc, &msg, on_written);
    } else if (t->close) {
        struct atoll_am_exec_ref ref = {x->number};
        ask(t, ATOLL_AGENT_EXEC_STDIN_CLOSE, &atoll_am_exec_ref_desc, &ref, on_told);
    } else {
        conclude(t, NULL);
    }
}

static void write_input(struct telling *t, const uint8_t *bytes, size_t n)
{
    struct atoll_exec *x = t->exec;
    struct atoll_error err;

    if (n > 0) {
        t->bytes = atoll_fault("base.input") ? NULL : malloc(n);
        if (!t->bytes) {
            (void)atoll_fail(&err, ATOLL_ERR_RESOURCE_EXHAUSTED, ENOMEM, "out of memory for input");
            conclude(t, &err);
            return;
        }
        memcpy(t->bytes, bytes, n);
        t->len = n;
    }
    t->is_write = true;
    *(x->writes.first ? &x->writes.last->next : &x->writes.first) = t;
    x->writes.last = t;
    run_writes(x);
}

void atoll_exec_write(struct atoll_exec *x, const uint8_t *bytes, size_t n, bool close,
                      atoll_done_fn *done, void *arg)
{
    struct telling *t = telling_new(x, done, arg);

    t->close = close;
    write_input(t, bytes, n);
}

void atoll_exec_write_patiently(struct atoll_exec *x, const uint8_t *bytes, size_t n,
                                atoll_done_fn *done, void *arg)
{
    struct telling *t = telling_new(x, done, arg);

    t->patient = true;
    write_input(t, bytes, n);
}

/* A command that has ended or closed its stdin (NOT_FOUND, FAILED_PRECONDITION) does not need its
 * input. After another error it would wait for it forever, so it is killed. */
static void on_input_written(void *arg, const struct atoll_error *error)
{
    struct atoll_exec *x = arg;

    if (error && error->kind != ATOLL_ERR_FAILED_PRECONDITION && error->kind != ATOLL_ERR_NOT_FOUND)
        atoll_exec_signal(x, SIGKILL, true, "the daemon, because its input could not be delivered",
                          atoll_done_ignore, NULL);
}

void atoll_exec_feed(struct atoll_exec *x, const uint8_t *bytes, size_t n)
{
    struct telling *t = telling_new(x, on_input_written, x);

    t->close = t->patient = true;
    write_input(t, bytes, n);
}

void atoll_exec_signal(struct atoll_exec *x, int signo, bool tree, const char *who,
                       atoll_done_fn *done, void *arg)
{
    struct atoll_am_signal msg = {x->number, signo, tree, who};
    ask(telling_new(x, done, arg), ATOLL_AGENT_EXEC_SIGNAL, &atoll_am_signal_desc, &msg, on_told);
}

void atoll_exec_resize(struct atoll_exec *x, uint32_t cols, uint32_t rows, atoll_done_fn *done,
                       void *arg)
{
    struct atoll_am_resize msg = {x->number, cols, rows};
    ask(telling_new(x, done, arg), ATOLL_AGENT_EXEC_RESIZE, &atoll_am_resize_desc, &msg, on_told);
}
