/*
 * Input of commands. Bytes are numbered, so that a daemon that lost its connection can send them
 * again without duplicates. EXEC_STDIN is answered once its bytes fit into the buffer; until then
 * the daemon waits, which is the back-pressure of a command that does not read.
 */
#include <errno.h>
#include <string.h>
#include "agent/agent_internal.h"

/* One more message is accepted while the buffer is within its limit. */
#define BUFFER_MAX (ATOLL_AGENT_STDIN_MAX + ATOLL_FRAME_PAYLOAD_MAX)
#define CTRL_D "\004"

static void fail_request(struct atoll_agent_exec *exec)
{
    struct atoll_error err;

    if (exec->in.request == 0)
        return;
    (void)atoll_fail(&err, ATOLL_ERR_FAILED_PRECONDITION, EPIPE,
                     "the command no longer reads its input");
    atoll_agent_error(exec->agent, exec->in.request, &err);
    exec->in.request = 0;
}

static void close_input(struct atoll_agent_exec *exec)
{
    struct atoll_agent_stdin *in = &exec->in;

    atoll_watch_close(&in->watch);
    if (in->fd >= 0)
        (void)close(ATOLL_TAKE_FD(in->fd));
    atoll_buf_done(&in->buf);
    fail_request(exec);
}

void atoll_agent_stdin_done(struct atoll_agent_exec *exec)
{
    close_input(exec);
}

/* A terminal has no end of input; the EOF character (^D) stands for it. */
static void end_terminal_input(struct atoll_agent_stdin *in)
{
    /* After an unfinished line the first ^D only submits the line. */
    if (in->line_open)
        (void)!atoll_buf_append(&in->buf, CTRL_D, 1);
    (void)!atoll_buf_append(&in->buf, CTRL_D, 1);
}

/* Writes as much as the pipe accepts; then answers a waiting request or closes the input. */
static void feed(struct atoll_agent_exec *exec)
{
    struct atoll_agent_stdin *in = &exec->in;

    while (atoll_buf_size(&in->buf) > 0) {
        ssize_t n = write(in->fd, atoll_buf_head(&in->buf), atoll_buf_size(&in->buf));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno != EAGAIN) {
            close_input(exec);
            return;
        }
        if (n <= 0)
            break;
        atoll_buf_consume(&in->buf, (size_t)n);
    }
    if (in->request != 0 && atoll_buf_size(&in->buf) <= ATOLL_AGENT_STDIN_MAX) {
        atoll_agent_reply(exec->agent, in->request, NULL, NULL);
        in->request = 0;
    }
    if (atoll_buf_size(&in->buf) > 0) {
        if (atoll_watch_set(&in->watch, EPOLLOUT) < 0)
            close_input(exec);
        return;
    }
    atoll_buf_done(&in->buf);
    if (in->closing || atoll_watch_set(&in->watch, 0) < 0)
        close_input(exec);
}

static void input_ready(void *arg, uint32_t events)
{
    struct atoll_agent_exec *exec = arg;

    /* The last reader closed its end: EPOLLERR for a pipe, EPOLLHUP for a terminal. */
    if (events & (EPOLLERR | EPOLLHUP))
        close_input(exec);
    else
        feed(exec);
}

int atoll_agent_stdin_open(struct atoll_agent_exec *exec, int fd)
{
    struct atoll_agent_stdin *in = &exec->in;

    in->fd = fd;
    atoll_buf_init(&in->buf, BUFFER_MAX);
    return atoll_watch_open(&in->watch, exec->agent->loop, fd, 0, input_ready, exec);
}

static int take(struct atoll_agent_exec *exec, const struct atoll_am_stdin *msg, uint32_t request,
                struct atoll_error *err)
{
    struct atoll_agent_stdin *in = &exec->in;
    uint64_t known = in->taken - msg->offset;
    size_t n;
    int r;

    if (known >= msg->data.len)
        return 0; /* received before; the answer was lost */
    n = msg->data.len - (size_t)known;
    if (in->fd < 0 || in->closing)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EPIPE,
                          in->closing ? "the input of the command is closed"
                                      : "the command no longer reads its input");
    if (in->request != 0)
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, EBUSY,
                          "earlier input waits to be read: wait for its answer");
    r = atoll_buf_append(&in->buf, msg->data.data + known, n);
    if (r < 0)
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, -r, "no memory for the input");
    in->taken += n;
    in->line_open = msg->data.data[msg->data.len - 1] != '\n';
    in->request = request;
    feed(exec);
    return ATOLL_AGENT_ANSWERED;
}

static struct atoll_agent_exec *get(struct atoll_agent *a, uint64_t id, struct atoll_error *err)
{
    struct atoll_agent_exec *exec = atoll_agent_exec_get(a, id);

    if (!exec)
        (void)atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT, "there is no command %llu",
                         (unsigned long long)id);
    return exec;
}

int atoll_agent_on_exec_stdin(struct atoll_agent *a, uint32_t request, const void *message,
                              struct atoll_error *err)
{
    const struct atoll_am_stdin *msg = message;
    struct atoll_agent_exec *exec = get(a, msg->exec, err);

    if (!exec)
        return -ENOENT;
    if (msg->offset > exec->in.taken)
        return atoll_fail(err, ATOLL_ERR_OUT_OF_RANGE, ERANGE,
                          "input continues at byte %llu, not at %llu",
                          (unsigned long long)exec->in.taken, (unsigned long long)msg->offset);
    atoll_agent_views_touch(a); /* an idle interpreter is about to run */
    return take(exec, msg, request, err);
}

int atoll_agent_on_exec_stdin_close(struct atoll_agent *a, uint32_t request, const void *message,
                                    struct atoll_error *err)
{
    const struct atoll_am_exec_ref *msg = message;
    struct atoll_agent_exec *exec = get(a, msg->exec, err);

    (void)request;
    if (!exec)
        return -ENOENT;
    if (exec->in.fd < 0 || exec->in.closing)
        return 0;
    exec->in.closing = true;
    if (exec->pty)
        end_terminal_input(&exec->in);
    feed(exec);
    return 0;
}
