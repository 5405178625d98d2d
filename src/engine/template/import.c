#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/memory.h"
#include "base/text.h"
#include "engine/engine_internal.h"
#include "engine/template/unpack.h"
#include "engine/template/version_sbom.h"

/*
 * Imports a root file system: its archive becomes a layer (unpack.h), with what sandboxes need in addition,
 * and the layer a template.
 */

/* In the tree: mount points, and the users that sandboxes have. */
static const char complete[] =
    "mkdir -p etc home proc dev sys tmp run; touch etc/passwd etc/group; "
    "grep -q '^root:' etc/passwd || echo 'root:x:0:0:root:/root:/bin/sh' >> etc/passwd; "
    "shell=/bin/sh; [ ! -x bin/bash ] || shell=/bin/bash; "
    "grep -q '^user:' etc/passwd || echo \"user:x:1000:1000:user:/home/user:$shell\" >> etc/passwd; "
    "grep -q '^root:' etc/group || echo 'root:x:0:' >> etc/group; "
    "grep -q '^user:' etc/group || echo 'user:x:1000:' >> etc/group";

static const struct atoll_unpack_request request = {.salt = "rootfs\n",
                                                    .plain = true,
                                                    .script = complete};

struct atoll_import {
    struct atoll_engine *engine;
    char name[65];
    struct atoll_unpack *unpack; /* owned, until it is finished */
    uint64_t size_bytes;         /* of the archive so far */
    atoll_import_fn *ready;
    atoll_template_fn *done;
    void *arg;
};

void atoll_import_write(struct atoll_import *i, const uint8_t *bytes, size_t n, atoll_done_fn *done,
                        void *arg)
{
    i->size_bytes += n;
    atoll_unpack_write(i->unpack, bytes, n, done, arg);
}

void atoll_import_drop(struct atoll_import *i)
{
    if (!i)
        return;
    atoll_unpack_drop(i->unpack);
    free(i);
}

static int add_version(const struct atoll_import *i, const struct atoll_unpacked *made,
                       struct atoll_template_view *ret, struct atoll_error *err)
{
    const struct atoll_version_new version = {
        .name = i->name, .digest = made->layer, .layers = made->layer, .source = "import"};
    int r = atoll_version_add(i->engine, &version, ret, err);

    if (r == 0)
        atoll_version_sbom_soon(i->engine, ret->id);
    return r;
}

static void on_made(void *arg, const struct atoll_unpacked *made, const struct atoll_error *error)
{
    struct atoll_import *i = arg;
    struct atoll_import was = *i;
    struct atoll_template_view view;
    struct atoll_error err;

    if (!error && add_version(i, made, &view, &err) < 0)
        error = &err;
    if (made)
        atoll_layer_release(i->engine, made->layer);
    free(i);
    was.done(was.arg, error ? NULL : &view, error);
}

void atoll_import_finish(struct atoll_import *i, atoll_template_fn *done, void *arg)
{
    struct atoll_error err;

    i->done = done;
    i->arg = arg;
    if (i->size_bytes > 0) {
        atoll_unpack_finish(ATOLL_TAKE_PTR(i->unpack), on_made, i);
        return;
    }
    atoll_import_drop(i);
    (void)atoll_fail(&err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "the archive is empty");
    done(arg, NULL, &err);
}

static void on_ready(void *arg, struct atoll_unpack *unpack, const struct atoll_error *error)
{
    struct atoll_import *i = arg;
    atoll_import_fn *ready = i->ready;
    void *ready_arg = i->arg;

    i->unpack = unpack;
    if (error)
        atoll_import_drop(i);
    ready(ready_arg, error ? NULL : i, error);
}

void atoll_templates_import(struct atoll_engine *engine, const char *name, atoll_import_fn *ready,
                            void *arg)
{
    struct atoll_import *i;
    struct atoll_error err;

    if (atoll_template_check(engine, "", name, ATOLL_TEMPLATE_ROOTFS, &err) < 0) {
        ready(arg, NULL, &err);
        return;
    }
    i = atoll_alloc(sizeof(*i));
    i->engine = engine;
    i->ready = ready;
    i->arg = arg;
    (void)snprintf(i->name, sizeof(i->name), "%s", name);
    atoll_unpack_open(engine, &request, on_ready, i);
}
