#include "sandbox/spec_layers.h"

#include <stdlib.h>
#include <string.h>
#include "base/memory.h"

static const char *copy(const char *text)
{
    char *own = text ? atoll_alloc(strlen(text) + 1) : NULL;

    if (own)
        memcpy(own, text, strlen(text) + 1);
    return own;
}

static void drop(const char *text)
{
    free((void *)(uintptr_t)text);
}

void atoll_spec_own_layers(struct atoll_spec *spec)
{
    struct atoll_tree *trees =
        spec->tree_count ? atoll_alloc(spec->tree_count * sizeof(*trees)) : NULL;
    struct atoll_cache *caches =
        spec->cache_count ? atoll_alloc(spec->cache_count * sizeof(*caches)) : NULL;

    for (size_t i = 0; i < spec->tree_count; i++)
        trees[i] = (struct atoll_tree){copy(spec->trees[i].path), copy(spec->trees[i].layers),
                                       copy(spec->trees[i].part), spec->trees[i].raw};
    for (size_t i = 0; i < spec->cache_count; i++)
        caches[i] = (struct atoll_cache){spec->caches[i].kind, copy(spec->caches[i].path),
                                         copy(spec->caches[i].name)};
    spec->layers = copy(spec->layers);
    spec->trees = trees;
    spec->caches = caches;
}

void atoll_spec_free_layers(struct atoll_spec *spec)
{
    for (size_t i = 0; i < spec->tree_count; i++) {
        drop(spec->trees[i].path);
        drop(spec->trees[i].layers);
        drop(spec->trees[i].part);
    }
    for (size_t i = 0; i < spec->cache_count; i++) {
        drop(spec->caches[i].path);
        drop(spec->caches[i].name);
    }
    free((void *)(uintptr_t)spec->trees);
    free((void *)(uintptr_t)spec->caches);
    drop(spec->layers);
    spec->layers = NULL;
    spec->trees = NULL;
    spec->caches = NULL;
    spec->tree_count = spec->cache_count = 0;
}
