#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include "base/fd.h"
#include "base/switches.h"
#include "base/text.h"
#include "spawn/disk_pool.h"
#include "spawn/hidden.h"
#include "spawn/paths.h"
#include "spawn/plan_run.h"
#include "sys/mnt.h"
#include "sys/ns.h"

/*
 * The root of a sandbox: read-only layers, id-mapped to the sandbox's ids, below a writable layer.
 */

static int clone_source(const struct atoll_plan_run *b, const char *source)
{
    ATOLL_AUTOCLOSE int dir = ATOLL_NO_FD;

    /* The only host tree that a plan may mount; all other sources are below the state directory. */
    if (strcmp(source, "/usr") == 0)
        return atoll_mnt_clone(AT_FDCWD, "/usr", false);
    dir = strcmp(source, ATOLL_PLAN_HIDDEN) == 0
              ? atoll_hidden_open_layer(b->state_fd)
              : atoll_paths_open(b->state_fd, source, O_PATH | O_DIRECTORY);
    return dir < 0 ? dir : atoll_mnt_clone(dir, "", false);
}

/* The id map that shows files with the ids of a layer as the sandbox's. ATOLL_NO_FD: none is needed; the
 * layers of a builder have its ids already. */
static int map_of(const struct atoll_plan_run *b, const struct atoll_po_layer *layer)
{
    int map;

    if (b->ids.mode != ATOLL_IDS_RANGE ||
        (layer->disk_base != 0 && layer->disk_base == b->ids.outside))
        return ATOLL_NO_FD;
    map = layer->disk_base == 0                   ? b->userns_fd
          : layer->disk_base == b->ids.layer_base ? b->layer_userns_fd
                                                  : ATOLL_NO_FD;
    return map < 0 ? -EINVAL : map;
}

/* Layers that are snapshots are links to the pool, which is beside the directory of the layers. */
static int attach_pool(struct atoll_plan_run *b, const struct atoll_po_layer *layer,
                       struct atoll_error *err)
{
    const char *slash = strrchr(layer->source, '/');
    ATOLL_AUTOCLOSE int tree = ATOLL_NO_FD;
    char path[64];
    int map = map_of(b, layer), r;

    (void)snprintf(path, sizeof(path), "%.*s" ATOLL_DISK_POOL,
                   slash ? (int)(slash - layer->source) + 1 : 0, layer->source);
    r = tree = clone_source(b, path);
    if (r == -ENOENT)
        return 0;
    if (r >= 0 && map >= 0)
        r = atoll_mnt_idmap(tree, map);
    if (r >= 0)
        r = atoll_mnt_set_attr(tree, ATOLL_MNT_RDONLY, false);
    if (r >= 0 && mkdir(ATOLL_DISK_POOL, 0755) < 0 && errno != EEXIST)
        r = -errno;
    if (r >= 0)
        r = atoll_mnt_attach(tree, AT_FDCWD, ATOLL_DISK_POOL);
    return r < 0 ? atoll_fail_errno(err, -r, "attach the pool") : 0;
}

int atoll_step_layer(struct atoll_plan_run *b, const void *step, struct atoll_error *err)
{
    const struct atoll_po_layer *layer = step;
    ATOLL_AUTOCLOSE int tree = ATOLL_NO_FD;
    int map, r;

    if (!atoll_text_is_id(layer->slot))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "layer slot is not a plain name");
    if (mkdir(layer->slot, 0755) < 0 && !(errno == EEXIST && b->existing_disk))
        return atoll_fail_errno(err, errno, "create the directory of layer %s", layer->slot);
    tree = clone_source(b, layer->source);
    if (tree == -ETIMEDOUT)
        return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, ETIMEDOUT,
                          "the host's /usr is still being scanned for private files; try again, "
                          "and see the log if this persists");
    if (tree < 0)
        return atoll_fail_errno(err, -tree, "open layer %s", layer->slot);
    map = map_of(b, layer);
    r = map == -EINVAL ? map : map >= 0 ? atoll_mnt_idmap(tree, map) : 0;
    if (r < 0)
        return atoll_fail_errno(err, -r, "id-map layer %s", layer->slot);
    r = atoll_mnt_attach(tree, AT_FDCWD, layer->slot);
    if (r < 0)
        return atoll_fail_errno(err, -r, "attach layer %s", layer->slot);
    if (strcmp(layer->slot, ATOLL_SLOT_STACK) != 0)
        return 0;
    b->has_stack = true;
    return attach_pool(b, layer, err);
}

/* Creates the upper and work directories of the overlay at `target`: u and w for the root, u.usr
 * and w.usr for usr. The target shows the attributes of the upper directory. */
static int make_upper(struct atoll_plan_run *b, const char *target, char *upper, char *work,
                      size_t cap)
{
    uint32_t owner = b->ids.mode == ATOLL_IDS_RANGE ? b->ids.outside : (uint32_t)-1;
    bool made;

    (void)snprintf(upper, cap, "u%s%s", *target ? "." : "", target);
    (void)snprintf(work, cap, "w%s%s", *target ? "." : "", target);
    if (!*target) /* created with the disk */
        return 0;
    if (strchr(target, '/') || strlen(target) + 3 > cap)
        return -EINVAL;
    made = mkdir(upper, 0755) == 0;
    if (!made && !(errno == EEXIST && b->existing_disk))
        return -errno;
    if (mkdir(work, 0700) < 0 && !(errno == EEXIST && b->existing_disk))
        return -errno;
    return made && chown(upper, owner, owner) < 0 ? -errno : 0;
}

/* Room for the options of an overlay beside its layers. */
#define OPTIONS_MORE 9
#define STACK_PATH_CAP 80
/* fsconfig() takes strings of up to 255 bytes. */
#define OPTION_MAX 255
#define SLOTS_MAX 8

/* An overlay that is being configured. */
struct mounting {
    /* Its disk ends with the sandbox: nothing of it need reach stable storage. Otherwise the end of the mount
     * would write all data of the pool, that of other sandboxes included. */
    bool fleeting;
    const struct atoll_po_overlay *overlay;
    char upper[32], work[32];
    char slots[2][128]; /* of overlay->lowers and below, each with a NUL */
    char (*paths)[STACK_PATH_CAP];
    char joined[OPTION_MAX + 1];
    struct atoll_mnt_option *options;
    size_t count;
};

static void add_option(struct mounting *m, const char *key, const char *value)
{
    m->options[m->count++] = (struct atoll_mnt_option){key, value};
}

static void append_slots(struct mounting *m, const char *slots, char copy[static 128])
{
    char *slot = copy, *rest;

    (void)snprintf(copy, 128, "%s", slots);
    for (size_t i = 0; slot && *slot && i < SLOTS_MAX; slot = rest, i++) {
        rest = strchr(slot, ':');
        if (rest)
            *rest++ = '\0';
        add_option(m, "lowerdir+", slot);
    }
}

/* One option for each layer, which kernels have since 6.7. */
static void append_lowers(struct mounting *m)
{
    const struct atoll_strv *stack = &m->overlay->stack;
    const char *within = m->overlay->within;

    append_slots(m, m->overlay->lowers, m->slots[0]);
    for (size_t i = 0; i < stack->len; i++) {
        (void)snprintf(m->paths[i], sizeof(m->paths[i]), ATOLL_SLOT_STACK "/%s%s%s",
                       stack->items[i], *within ? "/" : "", within);
        add_option(m, "lowerdir+", m->paths[i]);
    }
    append_slots(m, m->overlay->below, m->slots[1]);
}

/* For older kernels: links with short names to the layers, joined in one option. -E2BIG if it is too
 * long, with about 90 layers. */
static int join_lowers(struct mounting *m)
{
    /* Other names at the top of the disk are in lower case. */
    static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    const struct atoll_strv *stack = &m->overlay->stack;
    size_t base = sizeof(digits) - 1;
    int len = snprintf(m->joined, sizeof(m->joined), "%s", m->overlay->lowers);

    for (size_t i = 0; i < stack->len; i++) {
        char name[4] = {i < base ? digits[i] : digits[i / base - 1],
                        i < base ? '\0' : digits[i % base]};

        if ((unlink(name) < 0 && errno != ENOENT) || symlink(m->paths[i], name) < 0)
            return -errno;
        len += snprintf(m->joined + len, sizeof(m->joined) - (size_t)len, "%s%s", len ? ":" : "",
                        name);
        if ((size_t)len >= sizeof(m->joined))
            return -E2BIG;
    }
    if (*m->overlay->below)
        len += snprintf(m->joined + len, sizeof(m->joined) - (size_t)len, "%s%s", len ? ":" : "",
                        m->overlay->below);
    if ((size_t)len >= sizeof(m->joined))
        return -E2BIG;
    add_option(m, "lowerdir", m->joined);
    return 0;
}

static void add_rest(struct mounting *m, bool userxattr)
{
    if (m->overlay->writable) {
        add_option(m, "upperdir", m->upper);
        add_option(m, "workdir", m->work);
        if (m->fleeting)
            add_option(m, "volatile", NULL);
    }
    if (userxattr)
        add_option(m, "userxattr", NULL);
    add_option(m, NULL, NULL);
}

static int mount_configured(struct mounting *m, bool userxattr, uint64_t attrs)
{
    int r;

    if (m->overlay->stack.len == 0 && !*m->overlay->below) {
        add_option(m, "lowerdir", m->overlay->lowers);
        add_rest(m, userxattr);
        return atoll_mnt_new("overlay", m->options, attrs);
    }
    append_lowers(m);
    add_rest(m, userxattr);
    r = atoll_weakened("lowerdir_append") ? -EINVAL : atoll_mnt_new("overlay", m->options, attrs);
    if (r != -EINVAL)
        return r;
    m->count = 0;
    r = join_lowers(m);
    add_rest(m, userxattr);
    return r < 0 ? r : atoll_mnt_new("overlay", m->options, attrs);
}

static int mount_overlay(struct atoll_plan_run *b, struct mounting *m, struct atoll_error *err)
{
    const struct atoll_po_overlay *overlay = m->overlay;
    uint64_t attrs = atoll_weakened("mount_flags") ? 0 : ATOLL_MNT_NOSUID | ATOLL_MNT_NODEV;
    /* trusted.* attributes need host privileges. */
    bool userxattr = overlay->userxattr || b->ids.mode != ATOLL_IDS_RANGE || b->cow_disk;
    int fd, r;

    m->fleeting = b->cow_disk && !b->kept_disk;
    if (overlay->writable) {
        r = make_upper(b, overlay->target, m->upper, m->work, sizeof(m->upper));
        if (r < 0)
            return atoll_fail_errno(err, -r, "make writable layer");
    } else {
        attrs |= ATOLL_MNT_RDONLY;
    }
    fd = mount_configured(m, userxattr, attrs);
    if (fd == -E2BIG)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, E2BIG,
                          "this kernel cannot stack %zu layers; Linux 6.7 can", overlay->stack.len);
    if (fd == -ENOENT && overlay->stack.len > 0)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, ENOENT,
                          "a layer of the template is missing: import or build it again");
    return fd < 0 ? atoll_fail_errno(err, -fd, "mount overlay") : fd;
}

static bool are_slots(const char *text)
{
    size_t slots = 1;

    for (const char *p = text; (p = strchr(p, ':')) != NULL; p++)
        slots++;
    return !strchr(text, '/') && slots <= SLOTS_MAX && strlen(text) <= 127;
}

static int check_overlay(const struct atoll_plan_run *b, const struct atoll_po_overlay *overlay,
                         struct atoll_error *err)
{
    if (*overlay->target && !atoll_paths_is_inside(overlay->target))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "target is not relative");
    if (!are_slots(overlay->lowers) || !are_slots(overlay->below))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "lower layers are named by slot");
    if (*overlay->within && strcmp(overlay->within, "usr") != 0)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "not a part of layers");
    for (size_t i = 0; i < overlay->stack.len; i++)
        if (!atoll_text_is_name(overlay->stack.items[i]))
            return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "not the name of a layer");
    if (overlay->stack.len > 0 && !b->has_stack)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "the plan opened no layers");
    if (*overlay->target && b->root_fd < 0)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "there is no root yet");
    return 0;
}

/* Trees of a builder may have a mount point that is missing. */
static int attach_overlay(struct atoll_plan_run *b, const struct atoll_po_overlay *overlay, int fd,
                          struct atoll_error *err)
{
    ATOLL_AUTOCLOSE int point = ATOLL_NO_FD;
    int r;

    if (*overlay->target && (overlay->stack.len > 0 || *overlay->below) && !*overlay->within) {
        point = atoll_point_open(b, overlay->target, true, err);
        if (point < 0)
            return point;
        r = atoll_mnt_attach(fd, point, "");
    } else {
        r = atoll_mnt_attach(fd, *overlay->target ? b->root_fd : AT_FDCWD,
                             *overlay->target ? overlay->target : "r");
    }
    return r < 0 ? atoll_fail_errno(err, -r, "attach overlay") : 0;
}

int atoll_step_overlay(struct atoll_plan_run *b, const void *step, struct atoll_error *err)
{
    const struct atoll_po_overlay *overlay = step;
    ATOLL_AUTOCLOSE int fd = ATOLL_NO_FD;
    struct mounting m = {.overlay = overlay};
    int r = check_overlay(b, overlay, err);

    if (r < 0)
        return r;
    m.paths = calloc(overlay->stack.len + 1, sizeof(*m.paths));
    m.options = calloc(overlay->stack.len + 2 * SLOTS_MAX + OPTIONS_MORE, sizeof(*m.options));
    r = fd = m.paths && m.options ? mount_overlay(b, &m, err)
                                  : atoll_fail_errno(err, ENOMEM, "options of the overlay");
    free(m.paths);
    free(m.options);
    if (r >= 0)
        r = attach_overlay(b, overlay, fd, err);
    if (r < 0)
        return r;
    if (!*overlay->target)
        b->root_fd = ATOLL_TAKE_FD(fd);
    return 0;
}

int atoll_root_drop_layers(struct atoll_plan_run *b, struct atoll_error *err)
{
    if (!b->has_stack)
        return 0;
    b->has_stack = false;
    if (umount2(ATOLL_DISK_POOL, MNT_DETACH) < 0 && errno != EINVAL && errno != ENOENT)
        return atoll_fail_errno(err, errno, "detach the pool");
    return umount2(ATOLL_SLOT_STACK, MNT_DETACH) < 0
               ? atoll_fail_errno(err, errno, "detach the layers")
               : 0;
}

/* Mounts a directory of the root over itself, so that it stays writable. */
static int keep_writable(struct atoll_plan_run *b, const char *path)
{
    ATOLL_AUTOCLOSE int tree = atoll_mnt_clone(b->root_fd, path, false);

    if (tree < 0)
        return tree == -ENOENT ? 0 : tree;
    return atoll_mnt_attach(tree, b->root_fd, path);
}

static int make_read_only(struct atoll_plan_run *b, const char *path)
{
    ATOLL_AUTOCLOSE int fd = openat(b->root_fd, path, O_PATH | O_DIRECTORY | O_CLOEXEC);

    return fd < 0 ? -errno : atoll_mnt_set_attr(fd, ATOLL_MNT_RDONLY, false);
}

int atoll_step_read_only(struct atoll_plan_run *b, const void *step, struct atoll_error *err)
{
    const struct atoll_po_read_only *want = step;
    int r = b->root_fd < 0 ? -EINVAL : 0;

    for (size_t i = 0; r == 0 && i < want->writable.len; i++)
        r = atoll_paths_is_inside(want->writable.items[i])
                ? keep_writable(b, want->writable.items[i])
                : -EINVAL;
    for (size_t i = 0; r == 0 && i < want->mounts.len; i++)
        r = atoll_paths_is_inside(want->mounts.items[i]) ? make_read_only(b, want->mounts.items[i])
                                                         : -EINVAL;
    if (r == 0)
        r = atoll_mnt_set_attr(b->root_fd, ATOLL_MNT_RDONLY, false);
    return r < 0 ? atoll_fail_errno(err, -r, "make the root read-only") : 0;
}

/* Test switch: exposes the host's /tmp, which a security test must detect. */
static int show_host_files(struct atoll_plan_run *b, struct atoll_error *err)
{
    ATOLL_AUTOCLOSE int tree = atoll_mnt_clone(AT_FDCWD, "/tmp", false);
    int r = tree < 0 ? tree : atoll_mnt_attach(tree, b->root_fd, "tmp");

    return r < 0 ? atoll_fail_errno(err, -r, "bind /tmp") : 0;
}

/* The current directory is the top of the disk, which no path reaches from spawn's mount namespace. */
int atoll_root_hand_out_disk(struct atoll_plan_run *b, struct atoll_error *err)
{
    const struct atoll_plan_run_status disk = {.op = ATOLL_PLAN_PIVOT};
    ATOLL_AUTOCLOSE int top = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    ssize_t sent = top < 0 ? -errno : atoll_fd_send(b->status_fd, &disk, sizeof(disk), &top, 1);

    return sent < 0 ? atoll_fail_errno(err, (int)-sent, "hand out the disk") : 0;
}

int atoll_step_pivot(struct atoll_plan_run *b, const void *step, struct atoll_error *err)
{
    char cwd[8];
    int r;

    (void)step;
    if (atoll_root_hand_out_disk(b, err) < 0)
        return -EIO;
    if (b->cow_disk && atoll_disk_pool_limit(b, err) < 0)
        return -EIO;
    if (atoll_weakened("host_files") && show_host_files(b, err) < 0)
        return -EIO;
    r = atoll_sys_pivot_root(b->root_fd);
    if (r < 0)
        return atoll_fail_errno(err, -r, "pivot_root");
    /* The current directory must be inside the new root (CVE-2024-21626). */
    if (!getcwd(cwd, sizeof(cwd)) || strcmp(cwd, "/") != 0)
        return atoll_fail(err, ATOLL_ERR_INTERNAL, EINVAL, "current directory is outside the root");
    return 0;
}
