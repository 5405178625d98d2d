/*
 * Layers from archives that are files: of the requests for one layer, the first unpacks it and the others
 * wait for the result.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/memory.h"
#include "base/text.h"
#include "engine/engine_internal.h"
#include "engine/template/unpack.h"

struct waiter {
    struct atoll_list node;
    atoll_unpacked_fn *done;
    void *arg;
};

struct unpack_file {
    struct atoll_engine *engine;
    char layer[72];            /* key in engine->unpack_files */
    struct atoll_list waiters; /* of struct waiter */
    int fd;                    /* owned, until it is in `file` */
    uint64_t offset, length;
    struct atoll_tenant_file *file;
    struct atoll_unpack *unpack;
    bool pumping, writing, failed;
    struct atoll_error error; /* of a write, if failed */
};

static void add_waiter(struct unpack_file *f, atoll_unpacked_fn *done, void *arg)
{
    struct waiter *w = atoll_alloc(sizeof(*w));

    w->done = done;
    w->arg = arg;
    atoll_list_push_back(&f->waiters, &w->node);
}

static void file_free(struct unpack_file *f)
{
    (void)atoll_map_remove(&f->engine->unpack_files, f->layer);
    ATOLL_LIST_FOREACH (&f->waiters, node)
        free(ATOLL_CONTAINER_OF(node, struct waiter, node));
    f->file = atoll_tenant_file_close(f->file);
    if (f->fd >= 0)
        (void)close(f->fd);
    free(f);
}

/* Tells all; each gets a hold of the layer. */
static void conclude(struct unpack_file *f, const struct atoll_unpacked *made,
                     const struct atoll_error *error)
{
    struct atoll_error err;

    (void)atoll_map_remove(&f->engine->unpack_files, f->layer);
    ATOLL_LIST_FOREACH (&f->waiters, node) {
        struct waiter *w = ATOLL_CONTAINER_OF(node, struct waiter, node);

        if (!error && atoll_layer_hold(f->engine, f->layer, &err) < 0)
            error = &err;
        w->done(w->arg, error ? NULL : made, error);
    }
    if (made)
        atoll_layer_release(f->engine, f->layer); /* the hold of the unpack itself */
    file_free(f);
}

static void on_made(void *arg, const struct atoll_unpacked *made, const struct atoll_error *error)
{
    conclude(arg, made, error);
}

static void pump(void *arg);

static void on_written(void *arg, const struct atoll_error *error)
{
    struct unpack_file *f = arg;

    f->writing = false;
    f->failed = error != NULL;
    if (error)
        f->error = *error;
    if (!f->pumping)
        pump(f);
}

static void fail(struct unpack_file *f, const struct atoll_error *error)
{
    atoll_unpack_drop(ATOLL_TAKE_PTR(f->unpack));
    conclude(f, NULL, error);
}

static void pump(void *arg)
{
    struct unpack_file *f = arg;
    const uint8_t *bytes;
    struct atoll_error err;
    ssize_t n = 1;

    f->pumping = true;
    while (!f->writing && !f->failed && (n = atoll_tenant_file_read(f->file, &bytes)) > 0) {
        f->writing = true;
        atoll_unpack_write(f->unpack, bytes, (size_t)n, on_written, f);
    }
    f->pumping = false;
    if (f->failed) {
        err = f->error;
        fail(f, &err);
    } else if (n == 0) {
        f->file = atoll_tenant_file_close(f->file);
        atoll_unpack_finish(ATOLL_TAKE_PTR(f->unpack), on_made, f);
    } else if (n < 0 && n != -EAGAIN) {
        (void)atoll_fail_errno(&err, (int)-n, "read the archive of a layer");
        fail(f, &err);
    }
}

static void on_ready(void *arg, struct atoll_unpack *unpack, const struct atoll_error *error)
{
    struct unpack_file *f = arg;
    struct atoll_lane lane = {.tenant = ATOLL_OPERATOR_TENANT};
    struct atoll_error err;
    int r;

    if (error) {
        conclude(f, NULL, error);
        return;
    }
    f->unpack = unpack;
    (void)snprintf(lane.sandbox, sizeof(lane.sandbox), "%.32s", f->layer);
    r = atoll_tenant_file_open(f->engine->offload, &lane, ATOLL_TAKE_FD(f->fd), &f->file);
    if (r < 0) {
        (void)atoll_fail_errno(&err, -r, "read the archive of a layer");
        fail(f, &err);
        return;
    }
    if (f->length > 0)
        atoll_tenant_file_cut(f->file, f->offset, f->length);
    atoll_tenant_file_on_ready(f->file, pump, f);
    pump(f);
}

/* The layer exists: answers with what the store knows of it. */
static void tell_found(struct atoll_engine *engine, const struct atoll_layer_facts *facts,
                       atoll_unpacked_fn *done, void *arg)
{
    const struct atoll_unpacked made = {.layer = facts->name,
                                        .digest = "",
                                        .diff_id = facts->diff_id ? facts->diff_id : "",
                                        .bytes = facts->size_bytes,
                                        .files = facts->files,
                                        .note = ""};
    struct atoll_error err;
    int r = atoll_layer_hold(engine, facts->name, &err);

    done(arg, r < 0 ? NULL : &made, r < 0 ? &err : NULL);
}

void atoll_unpack_file(struct atoll_engine *engine, const struct atoll_unpack_request *request,
                       int fd, atoll_unpacked_fn *done, void *arg)
{
    struct unpack_file *f = atoll_map_get(&engine->unpack_files, request->layer);
    struct atoll_layer_facts facts;

    if (atoll_layer_find(engine, request->layer, &facts)) {
        (void)close(fd);
        tell_found(engine, &facts, done, arg);
        return;
    }
    if (f) {
        (void)close(fd);
        add_waiter(f, done, arg);
        return;
    }
    f = atoll_alloc(sizeof(*f));
    f->engine = engine;
    f->fd = fd;
    f->offset = request->offset;
    f->length = request->length;
    atoll_list_init(&f->waiters);
    (void)snprintf(f->layer, sizeof(f->layer), "%s", request->layer);
    if (atoll_map_put(&engine->unpack_files, f->layer, f) < 0)
        abort();
    add_waiter(f, done, arg);
    atoll_unpack_open(engine, request, on_ready, f);
}

void atoll_unpack_files_done(struct atoll_engine *engine)
{
    struct unpack_file *f;
    size_t pos = 0;

    while ((f = atoll_map_next(&engine->unpack_files, &pos)) != NULL)
        file_free(f);
    atoll_map_done(&engine->unpack_files);
}
