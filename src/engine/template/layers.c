#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/rand.h"
#include "base/text.h"
#include "engine/engine_internal.h"
#include "sandbox/stack.h"
#include "store/templates.h"

/*
 * Layers: which are on the disk, and how many versions, sandboxes, cached steps and requests use each.
 * The row of a layer goes before its directory: a directory without users is removed at the next start.
 */

static struct atoll_layer_table *table(struct atoll_engine *engine)
{
    return &engine->template_tables.layers;
}

bool atoll_layer_is_name(const char *name)
{
    bool made_here = name[0] == 'x';
    size_t n = strlen(name);

    return n == (made_here ? 33 : ATOLL_DIGEST_LEN) &&
           strspn(name + made_here, "0123456789abcdef") == n - made_here;
}

void atoll_layer_new_name(char out[static 34])
{
    uint8_t bytes[16];

    atoll_rand_bytes(bytes, sizeof(bytes));
    out[0] = 'x';
    for (size_t i = 0; i < sizeof(bytes); i++)
        (void)snprintf(out + 1 + 2 * i, 3, "%02x", bytes[i]);
}

void atoll_layers_digest(const char *what, const char *layers, char out[static 65])
{
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    uint8_t digest[EVP_MAX_MD_SIZE];

    if (!ctx || EVP_DigestInit_ex(ctx, EVP_sha256(), NULL) != 1 ||
        EVP_DigestUpdate(ctx, what, strlen(what) + 1) != 1 ||
        EVP_DigestUpdate(ctx, layers, strlen(layers)) != 1 ||
        EVP_DigestFinal_ex(ctx, digest, NULL) != 1)
        abort(); /* out of memory: the daemon is crash-only */
    EVP_MD_CTX_free(ctx);
    for (size_t i = 0; i < 32; i++)
        (void)snprintf(out + 2 * i, 3, "%02x", digest[i]);
}

static struct atoll_layer *get(struct atoll_engine *engine, const char *name)
{
    return atoll_map_get(&table(engine)->map, name);
}

static struct atoll_layer *make(struct atoll_engine *engine, const char *name)
{
    struct atoll_layer *layer = get(engine, name);

    if (layer)
        return layer;
    layer = atoll_alloc(sizeof(*layer));
    if (atoll_text_copy(layer->name, sizeof(layer->name), name) < 0 ||
        atoll_map_put(&table(engine)->map, layer->name, layer) < 0) {
        free(layer);
        return NULL;
    }
    return layer;
}

static bool is_step_only(const struct atoll_layer *layer)
{
    return layer->is_stored && layer->step_uses > 0 && layer->uses == layer->step_uses;
}

/* Changes the counts, and the sums that depend on them. */
static void count(struct atoll_engine *engine, struct atoll_layer *layer, int uses, int step_uses)
{
    if (is_step_only(layer))
        table(engine)->step_bytes -= layer->size_bytes;
    layer->uses = (unsigned)((int)layer->uses + uses);
    layer->step_uses = (unsigned)((int)layer->step_uses + step_uses);
    if (is_step_only(layer)) {
        table(engine)->step_bytes += layer->size_bytes;
        atoll_templates_collect_soon(engine);
    }
}

static int hold(struct atoll_engine *engine, const char *name, int step_uses,
                struct atoll_error *err)
{
    struct atoll_layer *layer;

    if (!atoll_text_is_name(name))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "not the name of a layer");
    layer = make(engine, name);
    if (!layer)
        return atoll_fail_errno(err, ENOMEM, "layer");
    count(engine, layer, 1, step_uses);
    return 0;
}

int atoll_layer_hold(struct atoll_engine *engine, const char *name, struct atoll_error *err)
{
    return hold(engine, name, 0, err);
}

int atoll_layer_hold_step(struct atoll_engine *engine, const char *name, struct atoll_error *err)
{
    return hold(engine, name, 1, err);
}

/* Forgets the layer: its row, and what is known of it. */
static void forget(struct atoll_engine *engine, struct atoll_layer *layer)
{
    struct atoll_layer_table *t = table(engine);
    struct atoll_error err;

    if (layer->is_stored) {
        t->count--;
        t->bytes -= layer->size_bytes;
        t->removed++;
        t->removed_bytes += layer->size_bytes;
    }
    if (atoll_store_drop_layer(engine->config.store, layer->name, &err) < 0)
        atoll_log(ATOLL_LOG_ERROR, "state not stored", "what", "removal of a layer", "error",
                  err.text, NULL);
    (void)atoll_map_remove(&t->map, layer->name);
    free(layer);
}

static void release(struct atoll_engine *engine, const char *name, int step_uses,
                    atoll_done_fn *done, void *arg)
{
    struct atoll_layer *layer = get(engine, name);
    char copy[sizeof(layer->name)];

    if (layer)
        count(engine, layer, -1, -step_uses);
    if (!layer || layer->uses > 0 || !table(engine)->is_open) {
        done(arg, NULL);
        return;
    }
    memcpy(copy, layer->name, sizeof(copy));
    forget(engine, layer);
    engine->builder->provider->ops->drop_layer(engine->builder->provider, copy, done, arg);
}

void atoll_layer_release(struct atoll_engine *engine, const char *name)
{
    release(engine, name, 0, atoll_done_ignore, NULL);
}

void atoll_layer_release_step(struct atoll_engine *engine, const char *name)
{
    release(engine, name, 1, atoll_done_ignore, NULL);
}

void atoll_layer_release_then(struct atoll_engine *engine, const char *name, atoll_done_fn *done,
                              void *arg)
{
    release(engine, name, 0, done, arg);
}

bool atoll_layer_is_step_only(struct atoll_engine *engine, const char *name)
{
    const struct atoll_layer *layer = get(engine, name);
    return layer && is_step_only(layer);
}

struct walk {
    struct atoll_engine *engine;
    struct atoll_error *err;
    int result;
    size_t held, left;
};

static void hold_one(void *arg, const char *name)
{
    struct walk *w = arg;

    if (w->result == 0)
        w->result = atoll_layer_hold(w->engine, name, w->err);
    w->held += w->result == 0;
}

static void release_one(void *arg, const char *name)
{
    struct walk *w = arg;

    if (w->left > 0) {
        w->left--;
        atoll_layer_release(w->engine, name);
    }
}

int atoll_layers_hold(struct atoll_engine *engine, const char *layers, struct atoll_error *err)
{
    struct walk w = {.engine = engine, .err = err};

    atoll_words_each(layers, hold_one, &w);
    if (w.result < 0) {
        w.left = w.held;
        atoll_words_each(layers, release_one, &w);
    }
    return w.result;
}

void atoll_layers_release(struct atoll_engine *engine, const char *layers)
{
    struct walk w = {.engine = engine, .left = SIZE_MAX};

    atoll_words_each(layers, release_one, &w);
}

/* What is known of a layer on the disk. */

static void set_facts(struct atoll_engine *engine, struct atoll_layer *layer,
                      const struct atoll_layer_facts *facts)
{
    struct atoll_layer_table *t = table(engine);
    bool step_only = is_step_only(layer);

    if (layer->is_stored) {
        t->count--;
        t->bytes -= layer->size_bytes;
        t->step_bytes -= step_only ? layer->size_bytes : 0;
    }
    (void)snprintf(layer->diff_id, sizeof(layer->diff_id), "%s",
                   facts->diff_id ? facts->diff_id : "");
    layer->size_bytes = facts->size_bytes;
    layer->files = facts->files;
    layer->implied = facts->implied;
    layer->is_stored = true;
    t->count++;
    t->bytes += layer->size_bytes;
    t->step_bytes += is_step_only(layer) ? layer->size_bytes : 0;
}

int atoll_layer_put(struct atoll_engine *engine, const struct atoll_layer_facts *facts,
                    struct atoll_error *err)
{
    struct atoll_layer *layer = get(engine, facts->name);
    int r;

    if (!layer)
        return atoll_fail(err, ATOLL_ERR_INTERNAL, EINVAL, "layer %.64s is not held", facts->name);
    r = atoll_store_put_layer(engine->config.store,
                              &(struct atoll_store_layer){.name = facts->name,
                                                          .diff_id = facts->diff_id,
                                                          .size_bytes = facts->size_bytes,
                                                          .files = facts->files,
                                                          .implied = facts->implied,
                                                          .created_unix_ms = atoll_clock_unix_ms()},
                              err);
    if (r < 0)
        return r;
    set_facts(engine, layer, facts);
    return 0;
}

bool atoll_layer_find(struct atoll_engine *engine, const char *name, struct atoll_layer_facts *ret)
{
    const struct atoll_layer *layer = get(engine, name);

    if (!layer || !layer->is_stored)
        return false;
    if (ret)
        *ret = (struct atoll_layer_facts){layer->name, layer->diff_id, layer->size_bytes,
                                          layer->files, layer->implied};
    return true;
}

uint64_t atoll_layers_size(struct atoll_engine *engine, const char *layers)
{
    char name[ATOLL_LAYER_NAME_MAX + 1];
    const char *rest = layers;
    uint64_t sum = 0;

    while (atoll_stack_next(&rest, name)) {
        const struct atoll_layer *layer = get(engine, name);
        if (layer && !atoll_stack_has(rest, name))
            sum += layer->size_bytes;
    }
    return sum;
}

/* Start and end. */

/* A row without its directory is of a layer whose removal was interrupted; it goes when the layers are
 * opened, unless the layer is in use. */
static int load_one(void *arg, const struct atoll_store_layer *row, struct atoll_error *err)
{
    struct atoll_engine *engine = arg;
    struct atoll_layer *layer;
    char path[96];
    struct stat st;

    if (!atoll_text_is_name(row->name))
        return atoll_fail(err, ATOLL_ERR_DATA_LOSS, EBADMSG, "stored layer has the name %.70s",
                          row->name);
    (void)snprintf(path, sizeof(path), "layers/%s", row->name);
    layer = make(engine, row->name);
    if (!layer)
        return atoll_fail_errno(err, ENOMEM, "layer");
    if (fstatat(engine->state_fd, path, &st, AT_SYMLINK_NOFOLLOW) == 0)
        set_facts(engine, layer,
                  &(struct atoll_layer_facts){.diff_id = row->diff_id,
                                              .size_bytes = row->size_bytes,
                                              .files = row->files,
                                              .implied = row->implied});
    return 0;
}

int atoll_layers_load(struct atoll_engine *engine, struct atoll_error *err)
{
    return atoll_store_each_layer(engine->config.store, load_one, engine, err);
}

static void remove_unused(struct atoll_engine *engine)
{
    struct atoll_layer *layer;
    size_t pos = 0;

    while ((layer = atoll_map_next(&table(engine)->map, &pos)) != NULL)
        if (layer->uses == 0)
            forget(engine, layer);
}

void atoll_layers_open(struct atoll_engine *engine)
{
    int fd = openat(engine->state_fd, "layers", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *entry;

    table(engine)->is_open = true;
    remove_unused(engine);
    if (fd >= 0 && !dir)
        (void)close(fd);
    while (dir && (entry = readdir(dir)) != NULL)
        if (entry->d_name[0] != '.' && !get(engine, entry->d_name))
            engine->builder->provider->ops->drop_layer(engine->builder->provider, entry->d_name,
                                                       atoll_done_ignore, NULL);
    if (dir)
        (void)closedir(dir);
    atoll_templates_collect_soon(engine);
}

void atoll_layers_close(struct atoll_engine *engine)
{
    table(engine)->is_open = false;
}

void atoll_layers_done(struct atoll_engine *engine)
{
    struct atoll_layer *layer;
    size_t pos = 0;

    while ((layer = atoll_map_next(&table(engine)->map, &pos)) != NULL)
        free(layer);
    atoll_map_done(&table(engine)->map);
}
