#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include "base/switches.h"
#include "base/text.h"
#include "engine/engine_internal.h"

/*
 * Imports a root file system: creates a sandbox of the host template, unpacks the archive with
 * `tar` inside it, and makes the resulting directory a layer that is named by the archive's digest.
 * So a hostile archive can do no more than any program in a sandbox.
 */

#define DIGEST_BYTES 32

/* $1: tar's option for the compression. Device nodes are excluded: /dev is made when a sandbox
 * starts. The script reads its input to the end, because a write to a closed pipe would fail the
 * import. */
static const char unpack_script[] =
    "set -e; "
    "tar -x $1 -p --numeric-owner --same-owner --exclude='./dev/*' --exclude='dev/*' -C /import -f -; "
    "cat >/dev/null; cd /import; mkdir -p etc home proc dev sys tmp run; "
    "touch etc/passwd etc/group; "
    "grep -q '^root:' etc/passwd || echo 'root:x:0:0:root:/root:/bin/sh' >> etc/passwd; "
    "shell=/bin/sh; [ -x bin/bash ] && shell=/bin/bash; "
    "grep -q '^user:' etc/passwd || echo \"user:x:1000:1000:user:/home/user:$shell\" >> etc/passwd; "
    "grep -q '^root:' etc/group || echo 'root:x:0:' >> etc/group; "
    "grep -q '^user:' etc/group || echo 'user:x:1000:' >> etc/group";

static const struct {
    uint8_t magic[6];
    size_t len;
    const char *option;
} compressions[] = {
    {{0x1f, 0x8b}, 2, "-z"},
    {{0xfd, '7', 'z', 'X', 'Z', 0}, 6, "-J"},
    {{0x28, 0xb5, 0x2f, 0xfd}, 4, "--zstd"},
    {{'B', 'Z', 'h'}, 3, "-j"},
};

struct atoll_import {
    struct atoll_engine *engine;
    char name[65];
    char sandbox_id[ATOLL_ID_LEN + 1]; /* "" until it exists */
    char exec_id[17];                  /* "" until tar runs */
    EVP_MD_CTX *digest;                /* owned */
    uint64_t size_bytes;
    char layer[72];
    struct atoll_reader *reader; /* of tar: its messages and its exit status */
    char said[300];              /* its last message */
    atoll_import_fn *ready;
    void *ready_arg;
    uint8_t *held; /* the first piece, until tar has started; owned */
    size_t held_len;
    atoll_done_fn *taken; /* callback of the write in progress, or NULL */
    void *taken_arg;
    atoll_template_fn *done;
    void *done_arg;
};

static void import_free(struct atoll_import *i)
{
    struct atoll_sandbox *s = atoll_map_get(&i->engine->sandboxes, i->sandbox_id);

    i->reader = atoll_reader_close(i->reader);
    if (s)
        atoll_sandbox_destroy(s, "the end of the import", NULL, NULL);
    EVP_MD_CTX_free(i->digest);
    free(i->held);
    free(i);
}

/* Reports the error: to `done`, and frees the import; or to the pending write, whose caller drops
 * the import. */
static void fail(struct atoll_import *i, const struct atoll_error *error)
{
    struct atoll_import waiting = *i;

    i->taken = NULL;
    if (waiting.done) {
        import_free(i);
        waiting.done(waiting.done_arg, NULL, error);
    } else if (waiting.taken) {
        waiting.taken(waiting.taken_arg, error);
    }
}

static int add_version(struct atoll_import *i, struct atoll_template_view *ret,
                       struct atoll_error *err)
{
    const struct atoll_layer_facts facts = {.name = i->layer, .size_bytes = i->size_bytes};
    int r = atoll_layer_put(i->engine, &facts, err);

    return r < 0 ? r
                 : atoll_version_add(i->engine,
                                     &(struct atoll_version_new){.name = i->name,
                                                                 .digest = i->layer,
                                                                 .layers = i->layer,
                                                                 .source = "import"},
                                     ret, err);
}

/* The layer is on the disk, and held. */
static void on_kept(void *arg, const struct atoll_error *error)
{
    struct atoll_import *i = arg;
    struct atoll_template_view view;
    struct atoll_error err;
    atoll_template_fn *done = i->done;
    void *done_arg = i->done_arg;

    if (!error && add_version(i, &view, &err) < 0)
        error = &err;
    atoll_layer_release(i->engine, i->layer);
    import_free(i);
    done(done_arg, error ? NULL : &view, error);
}

static void keep(struct atoll_import *i)
{
    struct atoll_provider *provider = i->engine->builder->provider;
    struct atoll_spec spec = {0};
    struct atoll_error err;
    uint8_t bytes[EVP_MAX_MD_SIZE];
    unsigned len;
    size_t at = 0;

    (void)EVP_DigestFinal_ex(i->digest, bytes, &len);
    for (unsigned k = 0; k < DIGEST_BYTES && k < len; k++)
        at += (size_t)snprintf(i->layer + at, sizeof(i->layer) - at, "%02x", bytes[k]);
    memcpy(spec.id, i->sandbox_id, sizeof(spec.id));
    if (atoll_layer_hold(i->engine, i->layer, &err) < 0) {
        fail(i, &err);
        return;
    }
    provider->ops->keep_layer(provider, &spec, "import", i->layer, on_kept, i);
}

static void keep_message(struct atoll_import *i, const struct atoll_reader_item *item)
{
    size_t n = ATOLL_MIN((size_t)item->length, sizeof(i->said) - 1);

    memcpy(i->said, item->data + item->length - n, n);
    i->said[n] = '\0';
    for (size_t k = 0; k < n; k++)
        if ((uint8_t)i->said[k] < 0x20)
            i->said[k] = ' ';
}

static void on_tar(void *arg)
{
    struct atoll_import *i = arg;
    struct atoll_reader_item item;
    struct atoll_error err;

    while (atoll_reader_next(i->reader, &item) > 0) {
        if (item.kind == ATOLL_READ_DATA)
            keep_message(i, &item);
        if (item.kind != ATOLL_READ_END)
            continue;
        if (item.result->kind == ATOLL_END_EXITED && item.result->code == 0 && i->done) {
            keep(i);
            return;
        }
        (void)atoll_fail(&err,
                         item.result->kind == ATOLL_END_LOST ? ATOLL_ERR_UNAVAILABLE
                                                             : ATOLL_ERR_INVALID_ARGUMENT,
                         EINVAL, "the archive could not be unpacked (%s %d): %s",
                         atoll_end_kind_name(item.result->kind),
                         item.result->code ? item.result->code : item.result->signal, i->said);
        i->exec_id[0] = '\0';
        fail(i, &err);
        return;
    }
}

static struct atoll_exec *tar_of(struct atoll_import *i)
{
    struct atoll_sandbox *s = atoll_map_get(&i->engine->sandboxes, i->sandbox_id);
    return s && *i->exec_id ? atoll_sandbox_find_exec(s, i->exec_id) : NULL;
}

static void on_taken(void *arg, const struct atoll_error *error)
{
    struct atoll_import *i = arg;
    atoll_done_fn *taken = ATOLL_TAKE_PTR(i->taken);

    /* If tar died, on_tar() may have reported the error already, with the better reason. */
    if (taken)
        taken(i->taken_arg, error);
}

static void on_tar_started(void *arg, struct atoll_exec *exec, const struct atoll_error *error)
{
    struct atoll_import *i = arg;
    struct atoll_exec_view view;
    struct atoll_error err;
    uint8_t *held;

    if (error) {
        fail(i, error);
        return;
    }
    atoll_exec_get(exec, &view);
    memcpy(i->exec_id, view.id, sizeof(i->exec_id));
    if (atoll_reader_open(exec, 0, 0, on_tar, i, &i->reader, &err) < 0) {
        fail(i, &err);
        return;
    }
    held = ATOLL_TAKE_PTR(i->held); /* on an error the import may be freed during the call */
    atoll_exec_write(exec, held, i->held_len, false, on_taken, i);
    free(held);
}

static void start_tar(struct atoll_import *i)
{
    const char *argv[] = {"/bin/sh", "-c", unpack_script, "import", "", NULL};
    struct atoll_exec_start start = {.argv = argv, .user = "root", .cwd = "/", .stdin_open = true};

    for (size_t k = 0; k < ATOLL_ARRAY_LEN(compressions); k++)
        if (i->held_len >= compressions[k].len &&
            memcmp(i->held, compressions[k].magic, compressions[k].len) == 0)
            argv[4] = compressions[k].option;
    atoll_engine_exec(i->engine, i->sandbox_id, &start, on_tar_started, i);
}

void atoll_import_write(struct atoll_import *i, const uint8_t *bytes, size_t n, atoll_done_fn *done,
                        void *arg)
{
    struct atoll_exec *tar = tar_of(i);
    struct atoll_error err;

    (void)EVP_DigestUpdate(i->digest, bytes, n);
    i->size_bytes += n;
    i->taken = done;
    i->taken_arg = arg;
    if (tar) {
        atoll_exec_write(tar, bytes, n, false, on_taken, i);
        return;
    }
    if (i->reader || i->held) {
        (void)atoll_fail(&err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                         "the archive could not be unpacked: %s", i->said);
        fail(i, &err);
        return;
    }
    i->held = atoll_fault("base.input") ? NULL : malloc(n ? n : 1);
    if (!i->held) {
        (void)atoll_fail(&err, ATOLL_ERR_RESOURCE_EXHAUSTED, ENOMEM, "out of memory");
        fail(i, &err);
        return;
    }
    memcpy(i->held, bytes, n);
    i->held_len = n;
    start_tar(i);
}

void atoll_import_finish(struct atoll_import *i, atoll_template_fn *done, void *arg)
{
    struct atoll_exec *tar = tar_of(i);
    struct atoll_error err;

    i->done = done;
    i->done_arg = arg;
    if (tar) {
        atoll_exec_write(tar, NULL, 0, true, atoll_done_ignore, NULL);
        return;
    }
    (void)atoll_fail(&err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                     i->size_bytes ? "the archive could not be unpacked" : "the archive is empty");
    fail(i, &err);
}

void atoll_import_drop(struct atoll_import *i)
{
    if (i)
        import_free(i);
}

static void on_builder(void *arg, struct atoll_sandbox *s, const struct atoll_error *error)
{
    struct atoll_import *i = arg;

    if (!s) {
        i->ready(i->ready_arg, NULL, error);
        i->sandbox_id[0] = '\0';
        import_free(i);
        return;
    }
    i->ready(i->ready_arg, i, NULL);
}

static struct atoll_import *import_new(struct atoll_engine *engine, const char *name)
{
    struct atoll_import *i = calloc(1, sizeof(*i));

    if (!i)
        return NULL;
    i->engine = engine;
    i->digest = EVP_MD_CTX_new();
    if (!i->digest || EVP_DigestInit_ex(i->digest, EVP_sha256(), NULL) != 1 ||
        atoll_text_copy(i->name, sizeof(i->name), name) < 0) {
        import_free(i);
        return NULL;
    }
    return i;
}

void atoll_templates_import(struct atoll_engine *engine, const char *name, atoll_import_fn *ready,
                            void *arg)
{
    struct atoll_spec spec = {.limits = atoll_limits_default(),
                              .waived = ATOLL_LIMIT_ALL,
                              .template_kind = ATOLL_TEMPLATE_HOST,
                              .builder = true};
    struct atoll_import *i;
    struct atoll_sandbox *s;
    struct atoll_error err;

    if (atoll_template_check(engine, "", name, ATOLL_TEMPLATE_ROOTFS, &err) < 0) {
        ready(arg, NULL, &err);
        return;
    }
    i = import_new(engine, name);
    s = i ? atoll_sandbox_prepare(engine, &spec, engine->template_tables.host) : NULL;
    if (!s) {
        atoll_import_drop(i);
        (void)atoll_fail_errno(&err, ENOMEM, "import");
        ready(arg, NULL, &err);
        return;
    }
    s->hidden = true;
    memcpy(i->sandbox_id, s->spec.id, sizeof(i->sandbox_id));
    i->ready = ready;
    i->ready_arg = arg;
    atoll_sandbox_launch(s, on_builder, i);
}
