/*
 * The archives of layers: `atoll-unpack pack` in a builder sandbox for each. The archive is a file on the
 * sandbox's disk; its descriptor outlives the sandbox.
 */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/text.h"
#include "engine/json_memory.h"
#include "engine/template/export_internal.h"
#include "sandbox/programs.h"

#define TREE "/.atoll/layer"
#define ARCHIVE "/import/archive"

static void next_layer(struct atoll_export *e);

void atoll_export_pack_end(struct atoll_export *e)
{
    struct atoll_sandbox *s = atoll_map_get(&e->images->engine->sandboxes, e->sandbox_id);

    if (s)
        atoll_sandbox_destroy(s, "the end of the export", NULL, NULL);
}

static void end_layer(struct atoll_export *e, const struct atoll_error *error)
{
    struct atoll_error err;

    e->reader = atoll_reader_close(e->reader);
    if (error) {
        err = *error; /* it may be the sandbox's */
        (void)atoll_wrap(&err, "packing a layer");
    }
    atoll_export_pack_end(e);
    e->sandbox_id[0] = '\0';
    if (error) {
        atoll_steps_done(&e->steps, &err);
        return;
    }
    e->at++;
    next_layer(e);
}

static void on_archive(void *arg, struct atoll_tenant_file *file, uint64_t size_bytes,
                       const struct atoll_error *error)
{
    struct atoll_export *e = arg;
    struct atoll_export_layer *layer = &e->layers[e->at];

    if (!error) {
        layer->fd = atoll_tenant_file_release(file);
        layer->blob.size = size_bytes;
    }
    end_layer(e, error);
}

/* The last line of the program; see unpack/unpack.h. */
static bool take_report(struct atoll_export *e)
{
    json_t *object = atoll_json_load(atoll_buf_head(&e->line), atoll_buf_size(&e->line),
                                     JSON_REJECT_DUPLICATES, NULL);
    const char *diff_id = json_string_value(json_object_get(object, "diffId"));
    const char *error = json_string_value(json_object_get(object, "error"));
    bool ok = diff_id && atoll_image_is_digest(diff_id);

    if (ok)
        (void)snprintf(e->layers[e->at].diff_id, sizeof(e->layers[e->at].diff_id), "%s", diff_id);
    if (error)
        (void)snprintf(e->said, sizeof(e->said), "%.290s", error);
    json_decref(object);
    return ok;
}

static void take_data(struct atoll_export *e, const struct atoll_reader_item *item)
{
    size_t n = ATOLL_MIN((size_t)item->length, sizeof(e->said) - 1);

    if (item->stream == ATOLL_STREAM_STDOUT) {
        (void)!atoll_buf_append(&e->line, item->data,
                                (size_t)item->length); /* too long: no report */
        return;
    }
    memcpy(e->said, item->data + item->length - n, n);
    e->said[n] = '\0';
    for (size_t k = 0; k < n; k++)
        if ((uint8_t)e->said[k] < 0x20)
            e->said[k] = ' ';
}

static void on_ended(struct atoll_export *e, const struct atoll_exec_result *result)
{
    struct atoll_engine *engine = e->images->engine;
    bool reported = take_report(e);
    struct atoll_error err;

    if (result->kind == ATOLL_END_EXITED && result->code == 0 && reported) {
        e->reader = atoll_reader_close(e->reader);
        atoll_files_open(engine, e->sandbox_id, "root", ARCHIVE, on_archive, e);
        return;
    }
    (void)atoll_fail(&err,
                     result->kind == ATOLL_END_EXITED ? ATOLL_ERR_FAILED_PRECONDITION
                                                      : ATOLL_ERR_UNAVAILABLE,
                     EINVAL, "atoll-unpack: %s %d: %s", atoll_end_kind_name(result->kind),
                     result->code ? result->code : result->signal, e->said);
    end_layer(e, &err);
}

static void on_output(void *arg)
{
    struct atoll_export *e = arg;
    struct atoll_reader_item item;
    int r;

    while ((r = atoll_reader_next(e->reader, &item)) > 0) {
        if (item.kind == ATOLL_READ_DATA) {
            take_data(e, &item);
        } else if (item.kind == ATOLL_READ_END) {
            on_ended(e, item.result);
            return;
        }
    }
    if (r < 0)
        on_ended(e, &(struct atoll_exec_result){.kind = ATOLL_END_LOST});
}

static void on_started(void *arg, struct atoll_exec *exec, const struct atoll_error *error)
{
    struct atoll_export *e = arg;
    struct atoll_error err;

    if (!error && atoll_reader_open(exec, 0, 0, on_output, e, &e->reader, &err) < 0)
        error = &err;
    if (error)
        end_layer(e, error);
}

static void on_builder(void *arg, struct atoll_sandbox *s, const struct atoll_error *error)
{
    static const char *const argv[] = {ATOLL_UNPACK_PROGRAM, "pack",  "--compress", "gzip",
                                       "--output",           ARCHIVE, TREE,         NULL};
    const struct atoll_exec_start start = {.argv = argv, .user = "root", .cwd = "/"};
    struct atoll_export *e = arg;

    if (!s)
        e->sandbox_id[0] = '\0';
    if (error)
        end_layer(e, error);
    else
        atoll_engine_exec(e->images->engine, e->sandbox_id, &start, on_started, e);
}

static void launch(struct atoll_export *e)
{
    struct atoll_engine *engine = e->images->engine;
    const struct atoll_tree tree = {.path = TREE, .layers = e->layers[e->at].name, .raw = true};
    struct atoll_spec spec = {.limits = atoll_limits_default(),
                              .template_kind = ATOLL_TEMPLATE_HOST,
                              .layer_base = ATOLL_LAYER_BASE,
                              .builder = ATOLL_BUILDER_UNPACK,
                              .trees = &tree,
                              .tree_count = 1};
    struct atoll_sandbox *s;
    struct atoll_error err;

    spec.waived = atoll_place_missing_limits(engine->builder->provider, &spec);
    s = atoll_sandbox_prepare(engine, &spec, engine->template_tables.host);
    if (!s) {
        (void)atoll_fail_errno(&err, ENOMEM, "export");
        end_layer(e, &err);
        return;
    }
    s->hidden = true;
    atoll_buf_clear(&e->line);
    e->said[0] = '\0';
    memcpy(e->sandbox_id, s->spec.id, sizeof(e->sandbox_id));
    atoll_sandbox_launch(s, on_builder, e);
}

static void next_layer(struct atoll_export *e)
{
    struct atoll_error err;

    if (e->cancelled || e->images->engine->ending) {
        (void)atoll_fail(&err, ATOLL_ERR_ABORTED, ECANCELED, "the export was cancelled");
        atoll_steps_done(&e->steps, &err);
    } else if (e->at == e->count) {
        atoll_steps_done(&e->steps, NULL);
    } else {
        launch(e);
    }
}

void atoll_export_pack(void *export)
{
    next_layer(export);
}
