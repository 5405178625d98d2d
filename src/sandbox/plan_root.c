#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include "base/switches.h"
#include "base/text.h"
#include "sandbox/host_folders.h"
#include "sandbox/plan_builder.h"
#include "sandbox/plan_internal.h"
#include "sandbox/stack.h"

/*
 * The root of a sandbox in a plan: its layers, and what builders have besides.
 */

#define SLOT_HOST_FILES "hostfiles"
#define MIB ((uint64_t)1024 * 1024)
/* Of a volume with a limit. */
#define BYTES_PER_INODE 16384
#define INODES_LEAST 1024

static int add_layer(struct atoll_buf *plan, const char *slot, const char *source,
                     uint32_t disk_base)
{
    struct atoll_po_layer layer = {slot, source, disk_base};
    return atoll_plan_add(plan, ATOLL_PLAN_LAYER, &atoll_po_layer_desc, &layer);
}

static int add_overlay(struct atoll_buf *plan, const char *target, const char *lowers,
                       bool writable)
{
    struct atoll_po_overlay overlay = {
        .target = target, .lowers = lowers, .writable = writable, .below = "", .within = ""};
    return atoll_plan_add(plan, ATOLL_PLAN_OVERLAY, &atoll_po_overlay_desc, &overlay);
}

static int add_layers(struct atoll_buf *plan, struct atoll_po_overlay overlay, const char *layers)
{
    char names[ATOLL_LAYERS_MAX][ATOLL_LAYER_NAME_MAX + 1];
    const char *items[ATOLL_LAYERS_MAX];

    overlay.stack = (struct atoll_strv){items, atoll_stack_split(layers, names)};
    overlay.userxattr = true;
    for (size_t i = 0; i < overlay.stack.len; i++)
        items[i] = names[i];
    return atoll_plan_add(plan, ATOLL_PLAN_OVERLAY, &atoll_po_overlay_desc, &overlay);
}

/* A stack below `lowers`. */
static int add_stack(struct atoll_buf *plan, const char *target, const char *lowers,
                     const char *layers, bool writable)
{
    const struct atoll_po_overlay overlay = {
        .target = target, .lowers = lowers, .writable = writable, .below = "", .within = ""};

    return add_layers(plan, overlay, layers);
}

/* First id of the layers on disk. */
static uint32_t base_of(const struct atoll_spec *spec)
{
    return spec->builder ? ATOLL_LAYER_BASE : spec->layer_base;
}

static bool has_stack(const struct atoll_spec *spec)
{
    return spec->layers && *spec->layers;
}

/* The layers of the host's /usr. */
static int add_usr_layers(const struct atoll_plan_host *host, const char *tools,
                          struct atoll_buf *plan)
{
    int r = add_layer(plan, "usr", "/usr", 0);

    if (r == 0 && host->hides)
        r = add_layer(plan, "hidden", ATOLL_PLAN_HIDDEN, 0);
    return r < 0 ? r : add_layer(plan, "tools", tools, 0);
}

/* The host's /usr is mounted through an overlay, not a bind mount: an overlay has its own inodes,
 * so file locks on a shared program are not a channel between sandboxes. */
static int add_usr(const struct atoll_plan_host *host, const struct atoll_spec *spec,
                   struct atoll_buf *plan)
{
    if (!host->hides)
        return add_overlay(plan, "usr", "tools:usr", false);
    return add_overlay(plan, "usr", atoll_weakened("hidden") ? "tools:usr" : "tools:hidden:usr",
                       !spec->builder);
}

static int add_host_root(const struct atoll_plan_host *host, const struct atoll_spec *spec,
                         struct atoll_buf *plan)
{
    int r = add_layer(plan, "base", "template/host", 0);

    if (r == 0)
        r = add_usr_layers(host, "template/usr", plan);
    if (r == 0)
        r = add_overlay(plan, "", "base", true);
    return r < 0 ? r : add_usr(host, spec, plan);
}

static const char *usr_below(const struct atoll_plan_host *host)
{
    return host->hides && !atoll_weakened("hidden") ? "hidden:usr" : "usr";
}

/*
 * A stack on the host template. The root and /usr are two overlays, so a layer is part of both: the root
 * has all of it, /usr has its directory usr. prefix: of the native instance. above: slots on top.
 */
static int add_host_stack(const struct atoll_plan_host *host, const struct atoll_spec *spec,
                          const char *prefix, const char *above, struct atoll_buf *plan)
{
    const char *layers = atoll_stack_above_host(spec->layers);
    char base[64], usr[64], all[64];
    int r;

    (void)snprintf(base, sizeof(base), "%stemplate/host", prefix);
    (void)snprintf(usr, sizeof(usr), "%stemplate/usr", prefix);
    (void)snprintf(all, sizeof(all), "%slayers", prefix);
    r = add_layer(plan, "base", base, 0);
    if (r == 0)
        r = add_usr_layers(host, usr, plan);
    if (r == 0)
        r = add_layer(plan, ATOLL_SLOT_STACK, all, base_of(spec));
    if (r == 0)
        r = add_layers(
            plan,
            (struct atoll_po_overlay){
                .target = "", .lowers = above, .writable = true, .below = "base", .within = ""},
            layers);
    if (r < 0)
        return r;
    return add_layers(plan,
                      (struct atoll_po_overlay){.target = "usr",
                                                .lowers = "tools",
                                                .writable = true,
                                                .below = usr_below(host),
                                                .within = "usr"},
                      layers);
}

/* The base of a root, slot "base" or a stack, with the layers in `above` on top. */
static int add_base(struct atoll_buf *plan, const struct atoll_spec *spec, const char *prefix,
                    const char *above)
{
    char source[96], lowers[48];
    bool stack = has_stack(spec);
    int r;

    (void)snprintf(source, sizeof(source), "%slayers%s%s", prefix, stack ? "" : "/",
                   stack ? "" : spec->layer);
    (void)snprintf(lowers, sizeof(lowers), "%s:base", above);
    r = add_layer(plan, stack ? ATOLL_SLOT_STACK : "base", source, base_of(spec));
    if (r < 0)
        return r;
    return stack ? add_stack(plan, "", above, spec->layers, true)
                 : add_overlay(plan, "", lowers, true);
}

/* The layer "mounts" has the mount points of a step, so that they are not in its result. It is above
 * the stack: whatever an image has there, or has removed, the mount points exist. */
static int add_rootfs_root(const struct atoll_plan_host *host, const struct atoll_spec *spec,
                           struct atoll_buf *plan)
{
    bool step = spec->builder == ATOLL_BUILDER_STEP;
    int r = step ? add_layer(plan, "mounts", "template/mounts", 0) : 0;

    if (r == 0 && atoll_stack_is_host(spec->layers))
        return add_host_stack(host, spec, "", step ? "mounts" : "", plan);
    if (r == 0)
        r = add_layer(plan, "tools", "template/tools", 0);
    return r < 0 ? r : add_base(plan, spec, "", step ? "tools:mounts" : "tools");
}

int atoll_plan_add_root(const struct atoll_plan_host *host, const struct atoll_spec *spec,
                        struct atoll_buf *plan)
{
    return spec->template_kind == ATOLL_TEMPLATE_HOST ? add_host_root(host, spec, plan)
                                                      : add_rootfs_root(host, spec, plan);
}

/* Uses the templates and layers of the native instance, in the directory "above"; the agent is one
 * more layer. */
int atoll_plan_add_runsc_root(const struct atoll_plan_host *host, const struct atoll_spec *spec,
                              struct atoll_buf *plan)
{
    int r = add_layer(plan, "agent", "layer", 0);

    if (r == 0 && atoll_stack_is_host(spec->layers))
        return add_host_stack(host, spec, "above/", "agent", plan);
    if (r == 0 && spec->template_kind != ATOLL_TEMPLATE_HOST) {
        r = add_layer(plan, "tools", "above/template/tools", 0);
        return r < 0 ? r : add_base(plan, spec, "above/", "agent:tools");
    }
    if (r == 0)
        r = add_layer(plan, "base", "above/template/host", 0);
    if (r == 0)
        r = add_usr_layers(host, "above/template/usr", plan);
    if (r == 0)
        r = add_overlay(plan, "", "agent:base", true);
    return r < 0 ? r : add_usr(host, spec, plan);
}

static int add_volume(struct atoll_buf *plan, const struct atoll_spec *spec,
                      const struct atoll_mount *m)
{
    char name[2 * 65], image[64] = "";
    struct atoll_po_bind bind = {.kind = m->read_only ? ATOLL_BIND_VOLUME_READ : ATOLL_BIND_VOLUME,
                                 .target = m->path + 1,
                                 .mode = 0777, /* all users of the tenant's sandboxes may write */
                                 .name = name};

    (void)snprintf(name, sizeof(name), "%s/%s", spec->tenant, m->volume);
    if (spec->volume_bytes)
        atoll_plan_volume_image(spec, image, sizeof(image));
    bind.content = (struct atoll_bytes){(const uint8_t *)image, strlen(image)};
    return atoll_plan_add(plan, ATOLL_PLAN_BIND, &atoll_po_bind_desc, &bind);
}

static int add_folder(struct atoll_buf *plan, const struct atoll_spec *spec, size_t i)
{
    const struct atoll_mount *m = &spec->mounts[i];
    const struct atoll_po_folder folder = {.path = m->source,
                                           .target = m->path + 1,
                                           .access = atoll_folder_access_of(m),
                                           .uid = spec->mount_uid,
                                           .gid = spec->mount_gid,
                                           .number = (uint32_t)i};

    return atoll_plan_add(plan, ATOLL_PLAN_FOLDER, &atoll_po_folder_desc, &folder);
}

static int add_bind(struct atoll_buf *plan, enum atoll_plan_bind_kind kind, const char *target,
                    uint32_t mode, const char *name)
{
    struct atoll_po_bind bind = {.kind = kind, .target = target, .mode = mode, .name = name};
    return atoll_plan_add(plan, ATOLL_PLAN_BIND, &atoll_po_bind_desc, &bind);
}

static int add_cache(const struct atoll_spec *spec, const struct atoll_cache *cache,
                     struct atoll_buf *plan)
{
    char name[2 * 65];

    switch (cache->kind) {
    case ATOLL_CACHE_KEPT:
        (void)snprintf(name, sizeof(name), "%s/%s", spec->tenant, cache->name);
        return add_bind(plan, ATOLL_BIND_CACHE, cache->path + 1, 0755, name);
    case ATOLL_CACHE_SCRATCH:
        return add_bind(plan, ATOLL_BIND_DIRECTORY, cache->path + 1, 0755, "");
    case ATOLL_CACHE_FILE:
        return add_bind(plan, ATOLL_BIND_FILE, cache->path + 1, 0600, "");
    }
    return -EINVAL;
}

/* A tree on the host template has the files that Atoll made for that template, such as /etc, but not the
 * host's /usr. */
static int add_tree_stack(struct atoll_buf *plan, const char *target, const char *layers)
{
    const struct atoll_po_overlay overlay = {
        .target = target, .lowers = "empty", .below = SLOT_HOST_FILES, .within = ""};

    if (!atoll_stack_is_host(layers))
        return add_stack(plan, target, "empty", layers, false);
    return add_layers(plan, overlay, atoll_stack_above_host(layers));
}

static int add_raw(struct atoll_buf *plan, const struct atoll_tree *tree)
{
    char name[ATOLL_LAYER_NAME_MAX + 1], target[PATH_MAX];
    const char *rest = tree->layers;
    int r = 0;

    if (atoll_stack_count(tree->layers) == 1)
        return add_bind(plan, ATOLL_BIND_LAYER, tree->path + 1, 0755, tree->layers);
    for (unsigned i = 0; r == 0 && atoll_stack_next(&rest, name); i++) {
        (void)snprintf(target, sizeof(target), "%s/%u", tree->path + 1, i);
        r = add_bind(plan, ATOLL_BIND_LAYER, target, 0755, name);
    }
    return r;
}

/* Of a tree of which only a part is shown, the whole is mounted at a place of its own. */
static int add_tree(struct atoll_buf *plan, const struct atoll_tree *tree, size_t number)
{
    struct atoll_po_bind bind = {.kind = ATOLL_BIND_PART, .target = tree->path + 1};
    char place[32];
    int r;

    if (tree->raw)
        return add_raw(plan, tree);
    if (!tree->part)
        return add_tree_stack(plan, tree->path + 1, tree->layers);
    (void)snprintf(place, sizeof(place), ".atoll/tree%zu", number);
    r = add_tree_stack(plan, place, tree->layers);
    if (r < 0)
        return r;
    bind.name = place;
    bind.content = (struct atoll_bytes){(const uint8_t *)tree->part, strlen(tree->part)};
    return atoll_plan_add(plan, ATOLL_PLAN_BIND, &atoll_po_bind_desc, &bind);
}

/* A read-only overlay has at least two lower directories, hence the empty one. */
static int add_trees(const struct atoll_spec *spec, struct atoll_buf *plan)
{
    bool copy = spec->builder == ATOLL_BUILDER_COPY, host = false;
    int r = spec->tree_count || copy ? add_layer(plan, "empty", "template/empty", 0) : 0;

    if (r == 0 && ((spec->tree_count && !has_stack(spec)) || copy))
        r = add_layer(plan, ATOLL_SLOT_STACK, "layers", base_of(spec));
    for (size_t i = 0; r == 0 && i < spec->tree_count; i++)
        if (!spec->trees[i].raw && atoll_stack_is_host(spec->trees[i].layers))
            host = true;
    if (r == 0 && host)
        r = add_layer(plan, SLOT_HOST_FILES, "template/host", 0);
    if (r == 0 && copy)
        r = add_stack(plan, "import", "empty", spec->layers, true);
    for (size_t i = 0; r == 0 && i < spec->tree_count; i++)
        r = add_tree(plan, &spec->trees[i], i);
    return r;
}

int atoll_plan_add_builder(const struct atoll_spec *spec, struct atoll_buf *plan)
{
    int r = 0;

    if (spec->builder == ATOLL_BUILDER_UNPACK)
        r = add_bind(plan, ATOLL_BIND_IMPORT, "import", 0755, "");
    if (spec->builder == ATOLL_BUILDER_STEP)
        r = add_bind(plan, ATOLL_BIND_DIRECTORY, ".atoll", 0755, "");
    if (r == 0)
        r = add_trees(spec, plan);
    for (size_t i = 0; r == 0 && i < spec->cache_count; i++)
        r = add_cache(spec, &spec->caches[i], plan);
    return r;
}

int atoll_plan_add_volumes(const struct atoll_spec *spec, struct atoll_buf *plan)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < spec->mount_count; i++)
        r = *spec->mounts[i].volume ? add_volume(plan, spec, &spec->mounts[i])
                                    : add_folder(plan, spec, i);
    return r;
}

void atoll_plan_volume_image(const struct atoll_spec *spec, char *ret_name, size_t cap)
{
    (void)snprintf(ret_name, cap, "images/ext4j-%llu-%llu.img",
                   (unsigned long long)((spec->volume_bytes + MIB - 1) / MIB),
                   (unsigned long long)atoll_plan_volume_inodes(spec));
}

uint64_t atoll_plan_volume_inodes(const struct atoll_spec *spec)
{
    return ATOLL_MAX(spec->volume_bytes / BYTES_PER_INODE, (uint64_t)INODES_LEAST);
}

/* "/a/b", without "." and "..". */
static bool is_absolute(const char *path)
{
    while (*path == '/') {
        size_t n = strcspn(++path, "/");
        if (n == 0 || (n == 1 && path[0] == '.') || (n == 2 && memcmp(path, "..", 2) == 0))
            return false;
        path += n;
        if (*path == '\0')
            return true;
    }
    return false;
}

static int check_path(const char *path, struct atoll_error *err)
{
    return is_absolute(path) ? 0
                             : atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                                          "%.100s is not an absolute path without . and ..", path);
}

static int check_builder(const struct atoll_spec *spec, struct atoll_error *err)
{
    int r = 0;

    if (spec->tree_count > ATOLL_TREES_MAX || spec->cache_count > ATOLL_CACHES_MAX)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, E2BIG,
                          "a step can have %d trees and %d caches", ATOLL_TREES_MAX,
                          ATOLL_CACHES_MAX);
    for (size_t i = 0; r == 0 && i < spec->tree_count; i++) {
        r = check_path(spec->trees[i].path, err);
        if (r == 0)
            r = atoll_stack_check(spec->trees[i].layers, err);
    }
    for (size_t i = 0; r == 0 && i < spec->cache_count; i++) {
        const struct atoll_cache *cache = &spec->caches[i];

        r = check_path(cache->path, err);
        if (r == 0 && cache->kind == ATOLL_CACHE_KEPT &&
            !(atoll_text_is_name(spec->tenant) && cache->name && atoll_text_is_name(cache->name)))
            r = atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "not the name of a cache");
    }
    return r;
}

static int check_folder(const struct atoll_plan_host *host, const struct atoll_spec *spec,
                        const struct atoll_mount *m, struct atoll_error *err)
{
    if (!host->folders)
        return atoll_fail(
            err, ATOLL_ERR_FAILED_PRECONDITION, EOPNOTSUPP,
            "the running atoll-spawn is of an earlier version and mounts no folders of the host; it ends "
            "with its last sandbox when atolld is stopped");
    if (spec->mount_uid >= ATOLL_ID_RANGE || spec->mount_gid >= ATOLL_ID_RANGE)
        return atoll_fail(
            err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
            "a sandbox with a folder of the host needs a default user whose number is known: the USER of the template must "
            "be user, root or a number");
    return check_path(m->source, err);
}

static int check_mounts(const struct atoll_plan_host *host, const struct atoll_spec *spec,
                        struct atoll_error *err)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < spec->mount_count; i++) {
        const struct atoll_mount *m = &spec->mounts[i];

        r = check_path(m->path, err);
        if (r == 0 && !*m->volume)
            r = check_folder(host, spec, m, err);
        else if (r == 0 && !(atoll_text_is_name(spec->tenant) && atoll_text_is_name(m->volume)))
            r = atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "not the name of a volume");
    }
    return r;
}

int atoll_plan_check_layers(const struct atoll_plan_host *host, const struct atoll_spec *spec,
                            struct atoll_error *err)
{
    bool host_form = spec->template_kind == ATOLL_TEMPLATE_HOST;

    if (check_mounts(host, spec, err) < 0)
        return -EINVAL;
    if (!has_stack(spec) && !spec->builder && !spec->tree_count && !spec->cache_count)
        return 0;
    if (!host->stacks)
        return atoll_fail(
            err, ATOLL_ERR_FAILED_PRECONDITION, EOPNOTSUPP,
            "the running atoll-spawn is of an earlier version and mounts no stacks of "
            "layers; it ends with its last sandbox when atolld is stopped");
    if (!spec->builder && (spec->tree_count || spec->cache_count))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "only builders have trees and caches");
    if ((spec->builder == ATOLL_BUILDER_UNPACK && !host_form) ||
        (spec->builder == ATOLL_BUILDER_COPY && (!host_form || !has_stack(spec))) ||
        (spec->builder == ATOLL_BUILDER_STEP && (host_form || !has_stack(spec))))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "a step needs a stack, an unpacker the host template, a copy both");
    if (has_stack(spec) && atoll_stack_check(spec->layers, err) < 0)
        return -EINVAL;
    return check_builder(spec, err);
}
