#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/memory.h"
#include "base/text.h"
#include "engine/engine_internal.h"
#include "engine/file/inband.h"
#include "engine/state/checkpoint.h"

/*
 * Downloads and uploads of whole files: the agent opens the file and passes a descriptor of a
 * regular file, which workers read and write (loop/offload.h). If it cannot pass descriptors, the
 * contents are copied from or to a file of the daemon (inband.h); callers see no difference.
 */

struct atoll_upload {
    struct atoll_engine *engine;
    struct atoll_lane lane;
    bool reading; /* FILE_OPEN: the agent's handle is closed once we have the descriptor */
    bool inband;  /* `file` is the daemon's own spool (inband.h) */
    uint32_t handle;
    struct atoll_tenant_file *file; /* owned, or NULL */
    uint64_t written, max;          /* INBAND */
    const void *bytes;              /* the whole contents, `length` bytes; borrowed, or NULL */
    size_t length;
    atoll_opened_fn *opened;
    atoll_upload_fn *created;
    atoll_entry_fn *finished;
    void *arg;
    void (*ready)(void *arg);
    void *ready_arg;
};

static void upload_free(struct atoll_upload *u)
{
    if (u->inband && !u->reading)
        atoll_shares_drop(&u->engine->transfers, u->lane.tenant, 1);
    (void)atoll_tenant_file_close(u->file);
    free(u);
}

static void ignore(void *arg, const struct atoll_reply *answer)
{
    (void)arg;
    (void)answer;
}

static void close_handle(struct atoll_upload *u)
{
    struct atoll_am_handle msg = {u->handle};
    struct atoll_sandbox *s;
    struct atoll_error err;

    if (atoll_engine_running(u->engine, u->lane.sandbox, &s, &err) == 0)
        (void)!atoll_sandbox_ask(s, ATOLL_AGENT_FILE_CLOSE, &atoll_am_handle_desc, &msg, ignore,
                                 NULL, &err);
}

/* The agent is not trusted: refuses a descriptor that is not a regular file. */
static int take_fd(struct atoll_upload *u, int fd, struct atoll_error *err)
{
    if (atoll_tenant_file_open(u->engine->offload, &u->lane, fd, &u->file) < 0)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "not a regular file");
    return 0;
}

static void on_fetched(void *arg, int fd, uint64_t size_bytes, const struct atoll_error *error)
{
    struct atoll_upload *u = arg;
    struct atoll_error err;

    close_handle(u);
    if (!error && take_fd(u, fd, &err) < 0)
        error = &err;
    u->opened(u->arg, ATOLL_TAKE_PTR(u->file), size_bytes, error);
    upload_free(u);
}

/* The agent passed no descriptor. 0: an upload has a spool; 1: a download continues in
 * on_fetched(). */
static int go_inband(struct atoll_upload *u, uint64_t size, struct atoll_error *err)
{
    struct atoll_sandbox *s;
    int r = atoll_engine_running(u->engine, u->lane.sandbox, &s, err);

    if (r < 0)
        return r;
    if (u->reading) {
        u->inband = true;
        atoll_inband_fetch(s, u->handle, size, on_fetched, u);
        return 1;
    }
    r = atoll_inband_spool(s, UINT64_MAX, err);
    if (r >= 0)
        r = take_fd(u, r, err);
    if (r < 0) {
        close_handle(u);
        return r;
    }
    u->inband = true;
    u->max = atoll_inband_max(s);
    atoll_shares_add(&u->engine->transfers, u->lane.tenant, 1);
    return 0;
}

/* 1: on_fetched() continues. */
static int take_file(struct atoll_upload *u, const struct atoll_reply *answer, uint64_t *ret_size,
                     struct atoll_error *err)
{
    struct atoll_am_opened opened;
    int r = atoll_msg_decode(&atoll_am_opened_desc, answer->frame->payload, answer->frame->len,
                             &opened, err);

    if (r < 0 || answer->frame->nfds > 1)
        return r < 0 ? r : atoll_fail(err, ATOLL_ERR_INTERNAL, EBADMSG, "too many descriptors");
    u->handle = opened.handle;
    if (answer->frame->nfds == 0)
        return go_inband(u, opened.size_bytes, err);
    r = take_fd(u, ATOLL_TAKE_FD(answer->frame->fds[0]), err);
    if (r == 0)
        *ret_size = (uint64_t)atoll_tenant_file_stat(u->file)->st_size;
    return r;
}

static void put_all(struct atoll_upload *u);

static void tell_created(struct atoll_upload *u, const struct atoll_error *error)
{
    if (!error && u->bytes) {
        put_all(u);
    } else if (!error) {
        u->created(u->arg, u, NULL);
    } else {
        if (u->created)
            u->created(u->arg, NULL, error);
        else
            u->finished(u->arg, NULL, error);
        upload_free(u);
    }
}

static void on_file(void *arg, const struct atoll_reply *answer)
{
    struct atoll_upload *u = arg;
    const struct atoll_error *error = answer->error;
    struct atoll_error err;
    uint64_t size = 0;
    int r = error ? 0 : take_file(u, answer, &size, &err);

    if (r > 0)
        return;
    if (r < 0)
        error = &err;
    if (!u->reading) {
        tell_created(u, error);
        return;
    }
    if (!error)
        close_handle(u);
    u->opened(u->arg, ATOLL_TAKE_PTR(u->file), size, error);
    upload_free(u);
}

static void ask_file(struct atoll_upload *u, uint16_t type, const struct atoll_msg_desc *desc,
                     const void *msg)
{
    struct atoll_reply failed = {0};
    struct atoll_sandbox *s;
    struct atoll_error err;
    int r = atoll_engine_running(u->engine, u->lane.sandbox, &s, &err);

    if (r == 0) {
        u->lane = atoll_sandbox_lane(s);
        r = atoll_offload_check(u->engine->offload, &u->lane, &err);
    }
    if (r == 0)
        r = atoll_sandbox_ask(s, type, desc, msg, on_file, u, &err);
    if (r < 0) {
        failed.error = &err;
        on_file(u, &failed);
    }
}

static struct atoll_upload *upload_new(struct atoll_engine *e, const char *id)
{
    struct atoll_upload *u = atoll_alloc(sizeof(*u));

    u->engine = e;
    (void)!atoll_text_copy(u->lane.sandbox, sizeof(u->lane.sandbox), id);
    return u;
}

void atoll_files_open(struct atoll_engine *e, const char *id, const char *user, const char *path,
                      atoll_opened_fn *done, void *arg)
{
    struct atoll_upload *u = upload_new(e, id);
    struct atoll_am_path msg = {.user = user, .path = path, .follow = 1};

    u->reading = true;
    u->opened = done;
    u->arg = arg;
    ask_file(u, ATOLL_AGENT_FILE_OPEN, &atoll_am_path_desc, &msg);
}

int atoll_engine_file(struct atoll_engine *e, const char *tenant, int fd,
                      struct atoll_tenant_file **ret, struct atoll_error *err)
{
    struct atoll_lane lane = {0};
    int r;

    (void)snprintf(lane.tenant, sizeof(lane.tenant), "%s", tenant);
    (void)snprintf(lane.sandbox, sizeof(lane.sandbox), "descriptor %d", fd);
    r = atoll_tenant_file_open(e->offload, &lane, fd, ret);
    return r < 0 ? atoll_fail(err, ATOLL_ERR_INTERNAL, -r, "not a regular file") : 0;
}

static void create(struct atoll_engine *e, const char *id, const struct atoll_am_create *msg,
                   atoll_upload_fn *done, void *arg)
{
    struct atoll_upload *u = upload_new(e, id);

    u->created = done;
    u->arg = arg;
    ask_file(u, ATOLL_AGENT_FILE_CREATE, &atoll_am_create_desc, msg);
}

void atoll_files_create(struct atoll_engine *e, const char *id, const char *user, const char *path,
                        uint32_t mode, atoll_upload_fn *done, void *arg)
{
    struct atoll_am_create msg = {.user = user, .path = path, .mode = mode, .parents = 1};
    create(e, id, &msg, done, arg);
}

void atoll_files_rewrite(struct atoll_engine *e, const char *id, const char *user, const char *path,
                         uint32_t mode, atoll_upload_fn *done, void *arg)
{
    struct atoll_am_create msg = {
        .user = user, .path = path, .mode = mode, .parents = 1, .in_place = 1};
    create(e, id, &msg, done, arg);
}

void atoll_files_put(struct atoll_engine *e, const char *id, const char *user, const char *path,
                     uint32_t mode, const void *bytes, size_t n, atoll_entry_fn *done, void *arg)
{
    struct atoll_am_create msg = {.user = user, .path = path, .mode = mode, .parents = 1};
    struct atoll_upload *u = upload_new(e, id);

    u->bytes = n > 0 ? bytes : "";
    u->length = n;
    u->finished = done;
    u->arg = arg;
    ask_file(u, ATOLL_AGENT_FILE_CREATE, &atoll_am_create_desc, &msg);
}

static void may_write(void *arg)
{
    struct atoll_upload *u = arg;
    u->ready(u->ready_arg);
}

void atoll_upload_on_ready(struct atoll_upload *u, void (*fn)(void *arg), void *arg)
{
    u->ready = fn;
    u->ready_arg = arg;
    atoll_tenant_file_on_ready(u->file, may_write, u);
}

/* The next request may find room. */
static int written(const struct atoll_upload *u, int r)
{
    if (r < 0 && atoll_errno_is_full(-r))
        atoll_checkpoints_disk_full(u->engine, u->lane.sandbox);
    return r;
}

int atoll_upload_write(struct atoll_upload *u, const uint8_t *bytes, size_t n)
{
    if (u->inband && n > u->max - u->written)
        return -ENOSPC;
    u->written += n;
    return written(u, atoll_tenant_file_write(u->file, bytes, n));
}

int atoll_upload_fail(int r, struct atoll_error *err)
{
    return atoll_fail(err, atoll_error_kind_of_path_errno(-r), -r, "%s",
                      atoll_errno_is_full(-r) ? "the disk of the sandbox is full" : strerror(-r));
}

static void give_up(struct atoll_upload *u, const struct atoll_error *error)
{
    close_handle(u);
    u->finished(u->arg, NULL, error);
    upload_free(u);
}

static void commit(struct atoll_upload *u)
{
    struct atoll_am_handle msg = {u->handle};

    atoll_files_ask_entry(u->engine, u->lane.sandbox, ATOLL_AGENT_FILE_COMMIT,
                          &atoll_am_handle_desc, &msg, u->finished, u->arg);
    upload_free(u);
}

static void on_sent(void *arg, const struct atoll_error *error)
{
    struct atoll_upload *u = arg;

    if (error)
        give_up(u, error);
    else
        commit(u);
}

static void flush(void *arg)
{
    struct atoll_upload *u = arg;
    struct atoll_error err;
    int r = written(u, u->inband ? atoll_tenant_file_flush(u->file)
                                 : atoll_tenant_file_finish(u->file));

    if (r > 0)
        return; /* called again when the file is ready */
    if (r < 0) {
        (void)atoll_upload_fail(r, &err);
        give_up(u, &err);
    } else if (u->inband) {
        atoll_inband_send(u->engine, u->lane.sandbox, u->lane.tenant, u->handle,
                          atoll_tenant_file_release(ATOLL_TAKE_PTR(u->file)), on_sent, u);
    } else {
        commit(u);
    }
}

void atoll_upload_finish(struct atoll_upload *u, atoll_entry_fn *done, void *arg)
{
    u->finished = done;
    u->arg = arg;
    atoll_tenant_file_on_ready(u->file, flush, u);
    flush(u);
}

static void put_all(struct atoll_upload *u)
{
    struct atoll_error err;
    int r = atoll_upload_write(u, u->bytes, u->length);

    if (r < 0) {
        (void)atoll_upload_fail(r, &err);
        give_up(u, &err);
    } else {
        atoll_upload_finish(u, u->finished, u->arg);
    }
}

void atoll_upload_drop(struct atoll_upload *u)
{
    if (!u)
        return;
    close_handle(u);
    upload_free(u);
}
