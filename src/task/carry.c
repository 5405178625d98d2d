#include <errno.h>
#include <string.h>
#include "base/memory.h"
#include "base/text.h"
#include "loop/offload.h"
#include "task/task_internal.h"

/*
 * A file of one sandbox is copied to another, piece by piece, through the daemon.
 */
#define PATH_BYTES 256

struct atoll_task_carry {
    struct atoll_task *task;
    char to_id[ATOLL_ID_LEN + 1], to[PATH_BYTES];
    uint64_t max_bytes, bytes;
    struct atoll_tenant_file *in; /* owned, or NULL */
    struct atoll_upload *out;     /* owned, or NULL; to be finished or dropped */
    struct atoll_timer turn;      /* the next piece, after others were served */
    void (*done)(struct atoll_task *task, const struct atoll_error *error);
};

static void carry_free(struct atoll_task_carry *c)
{
    atoll_timer_cancel(&c->turn);
    atoll_upload_drop(c->out);
    (void)atoll_tenant_file_close(c->in);
    free(c);
}

void atoll_task_carry_free(struct atoll_task *task)
{
    if (task->carry)
        carry_free(ATOLL_TAKE_PTR(task->carry));
}

static void finish(struct atoll_task_carry *c, const struct atoll_error *error)
{
    struct atoll_task *task = c->task;
    void (*done)(struct atoll_task *, const struct atoll_error *) = c->done;

    task->carry = NULL;
    carry_free(c);
    done(task, error);
}

static void written(void *arg, const struct atoll_am_entry *entry ATOLL_UNUSED,
                    const struct atoll_error *error)
{
    finish(arg, error);
}

/* Called for each piece that was read, and when the last one was taken. */
static void copy_piece(void *arg)
{
    struct atoll_task_carry *c = arg;
    const uint8_t *piece;
    struct atoll_error error;
    ssize_t n;
    int r;

    if (c->turn.loop)
        return;
    n = atoll_tenant_file_read(c->in, &piece);
    if (n == -EAGAIN)
        return;
    c->bytes += n > 0 ? (uint64_t)n : 0;
    if (c->bytes > c->max_bytes) {
        (void)atoll_fail(&error, ATOLL_ERR_RESOURCE_EXHAUSTED, EFBIG,
                         "what is to be pushed is larger than %llu MiB",
                         (unsigned long long)(c->max_bytes >> 20));
        finish(c, &error);
        return;
    }
    r = n > 0 ? atoll_upload_write(c->out, piece, (size_t)n) : (int)n;
    if (r < 0) {
        (void)atoll_upload_fail(r, &error);
        finish(c, &error);
    } else if (n == 0) {
        c->in = atoll_tenant_file_close(c->in);
        atoll_upload_finish(ATOLL_TAKE_PTR(c->out), written, c);
    } else if (r == 0) {
        atoll_timer_set(&c->turn, c->task->tasks->config.loop, 0, copy_piece, c);
    }
}

static void created(void *arg, struct atoll_upload *upload, const struct atoll_error *error)
{
    struct atoll_task_carry *c = arg;

    if (error) {
        finish(c, error);
        return;
    }
    c->out = upload;
    atoll_upload_on_ready(upload, copy_piece, c);
    atoll_tenant_file_on_ready(c->in, copy_piece, c);
    copy_piece(c);
}

static void opened(void *arg, struct atoll_tenant_file *file, uint64_t size_bytes ATOLL_UNUSED,
                   const struct atoll_error *error)
{
    struct atoll_task_carry *c = arg;

    if (error) {
        finish(c, error);
        return;
    }
    c->in = file;
    atoll_files_create(c->task->tasks->config.engine, c->to_id, NULL, c->to, 0600, created, c);
}

void atoll_task_carry(struct atoll_task *task, const struct atoll_task_carry_request *request)
{
    struct atoll_task_carry *c = atoll_alloc(sizeof(*c));

    c->task = task;
    c->max_bytes = request->max_bytes;
    c->done = request->done;
    (void)!atoll_text_copy(c->to_id, sizeof(c->to_id), request->to_id);
    (void)!atoll_text_copy(c->to, sizeof(c->to), request->to);
    task->carry = c;
    atoll_files_open(task->tasks->config.engine, request->from_id, NULL, request->from, opened, c);
}

void atoll_task_carry_stop(struct atoll_task *task)
{
    struct atoll_error error = task->steps.error;

    /* Opening and finishing it are requests that end by themselves. */
    if (task->carry && task->carry->out)
        finish(task->carry, &error);
}
