#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/memory.h"
#include "base/text.h"
#include "engine/build/build_internal.h"
#include "engine/template/unpack.h"
#include "sandbox/stack.h"

/*
 * Contexts: an archive from a client, unpacked to a layer, with its manifest. They are rows of the cache of
 * steps, so that its limit holds for them too.
 */
#define NAME_MAX_LEN 128
#define CONTEXT_MAX_BYTES (UINT64_C(4) << 30)

struct atoll_context_upload {
    struct atoll_engine *engine;
    char tenant[65], name[NAME_MAX_LEN + 1];
    char digest[65]; /* that it must have; "": any */
    struct atoll_unpack *unpack;
    atoll_context_upload_fn *ready;
    atoll_done_fn *done;
    void *arg;
    bool dropped;
};

static void key_of(const char *name, char out[65])
{
    json_t *facts = json_pack("{s:s}", "context", name);

    atoll_make_key(facts, out);
    json_decref(facts);
}

static const char *tenant_of(const char *tenant)
{
    return tenant ? tenant : ATOLL_OPERATOR_TENANT;
}

static bool is_name(const char *name)
{
    size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.");
    return n > 0 && n <= NAME_MAX_LEN && name[n] == '\0';
}

bool atoll_context_find(struct atoll_engine *engine, const char *tenant, const char *name)
{
    struct atoll_cached_step found;
    char key[65];

    if (!is_name(name))
        return false;
    key_of(name, key);
    return atoll_steps_get(engine, tenant_of(tenant), key, &found);
}

static void on_open(void *arg, struct atoll_unpack *unpack, const struct atoll_error *error)
{
    struct atoll_context_upload *upload = arg;
    atoll_context_upload_fn *ready = upload->ready;
    void *ready_arg = upload->arg;

    if (error || upload->dropped) {
        atoll_unpack_drop(unpack);
        if (!upload->dropped)
            ready(ready_arg, NULL, error);
        free(upload);
        return;
    }
    upload->unpack = unpack;
    ready(ready_arg, upload, NULL);
}

void atoll_context_open(struct atoll_engine *engine, const char *tenant, const char *name,
                        atoll_context_upload_fn *ready, void *arg)
{
    static const struct atoll_unpack_request request = {
        .random = true, .plain = true, .manifest = true, .max_bytes = CONTEXT_MAX_BYTES};
    struct atoll_context_upload *upload;
    struct atoll_error err;

    if (!is_name(name)) {
        (void)atoll_fail(
            &err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
            "the name of a context has up to %d letters, digits, \"-\", \"_\" and \".\"",
            NAME_MAX_LEN);
        ready(arg, NULL, &err);
        return;
    }
    upload = atoll_alloc(sizeof(*upload));
    upload->engine = engine;
    upload->ready = ready;
    upload->arg = arg;
    (void)snprintf(upload->tenant, sizeof(upload->tenant), "%s", tenant_of(tenant));
    (void)snprintf(upload->name, sizeof(upload->name), "%s", name);
    atoll_unpack_open(engine, &request, on_open, upload);
}

void atoll_context_write(struct atoll_context_upload *upload, const uint8_t *bytes, size_t n,
                         atoll_done_fn *done, void *arg)
{
    atoll_unpack_write(upload->unpack, bytes, n, done, arg);
}

static int keep(const struct atoll_context_upload *upload, const struct atoll_unpacked *made,
                struct atoll_error *err)
{
    struct atoll_cached_step step = {.layers = made->layer};
    char *manifest, key[65];
    int r;

    if (*upload->digest && strcmp(upload->digest, made->digest) != 0)
        return atoll_fail(err, ATOLL_ERR_DATA_LOSS, EBADMSG,
                          "the archive is not the announced one: its SHA-256 is %s", made->digest);
    manifest = strndup((const char *)made->manifest, made->manifest_len);
    if (!manifest)
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, ENOMEM, "out of memory");
    step.config = manifest;
    key_of(upload->name, key);
    r = atoll_steps_put(upload->engine, upload->tenant, key, &step, err);
    free(manifest);
    return r;
}

static void on_unpacked(void *arg, const struct atoll_unpacked *made,
                        const struct atoll_error *error)
{
    struct atoll_context_upload *upload = arg;
    struct atoll_error err;

    if (!error && keep(upload, made, &err) < 0)
        error = &err;
    if (made)
        atoll_layer_release(upload->engine, made->layer);
    upload->done(upload->arg, error);
    free(upload);
}

void atoll_context_finish(struct atoll_context_upload *upload, const char *digest,
                          atoll_done_fn *done, void *arg)
{
    upload->done = done;
    upload->arg = arg;
    (void)snprintf(upload->digest, sizeof(upload->digest), "%s", digest ? digest : "");
    atoll_unpack_finish(ATOLL_TAKE_PTR(upload->unpack), on_unpacked, upload);
}

void atoll_context_drop(struct atoll_context_upload *upload)
{
    if (!upload)
        return;
    atoll_unpack_drop(upload->unpack);
    free(upload);
}

/* Appends what the cache has of a context. NOT_FOUND. */
static int append_context(const struct atoll_make *make, const char *context,
                          struct atoll_buf *manifest, struct atoll_buf *layers,
                          struct atoll_error *err)
{
    struct atoll_cached_step found;
    char key[65];
    int r;

    key_of(context, key);
    if (!is_name(context) || !atoll_steps_get(make->engine, make->tenant, key, &found))
        return atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT,
                          "there is no context %.128s: upload its files first", context);
    r = atoll_buf_append(manifest, found.config, strlen(found.config));
    if (r == 0)
        r = atoll_buf_appendf(layers, "%s%s", atoll_buf_size(layers) > 0 ? " " : "", found.layers);
    if (r < 0)
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, E2BIG, "too many files");
    return 0;
}

static int load(struct atoll_make *make, struct atoll_make_source *source,
                struct atoll_buf *manifest, struct atoll_buf *layers, struct atoll_error *err)
{
    int r = 0;

    for (struct atoll_make_source *s = make->sources; r == 0 && s <= source; s++)
        if (strcmp(s->name, source->name) == 0)
            r = append_context(make, s->context, manifest, layers, err);
    if (r == 0)
        r = atoll_copy_tree_parse(atoll_buf_str(manifest), atoll_buf_size(manifest), &source->tree,
                                  err);
    if (r == 0)
        r = atoll_layers_hold(make->engine, atoll_buf_str(layers), err);
    if (r < 0)
        return r;
    source->layer = strdup(atoll_buf_str(layers));
    if (!source->layer)
        abort();
    return 0;
}

int atoll_make_load_source(struct atoll_make *make, struct atoll_make_source *source,
                           struct atoll_error *err)
{
    struct atoll_buf manifest, layers;
    int r;

    for (size_t i = 0; i < make->source_count; i++)
        if (&make->sources[i] > source && strcmp(make->sources[i].name, source->name) == 0)
            return 0; /* the last one of the name has the files of all */
    atoll_buf_init(&manifest, ATOLL_COPY_MANIFEST_MAX);
    atoll_buf_init(&layers, ATOLL_STACK_CAP);
    r = load(make, source, &manifest, &layers, err);
    atoll_buf_done(&manifest);
    atoll_buf_done(&layers);
    return r;
}
