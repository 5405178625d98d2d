#pragma once
#include <sys/stat.h>
#include "base/error.h"

/*
 * A tree as overlayfs would show it, from layers as they are on disk: names that a layer has hide those of
 * the layers below, a character device 0:0 removes a name, and a directory with user.overlay.opaque=y hides
 * those below it. The last layer may be a base: an ordinary tree, in which neither has a meaning.
 *
 * The trees may be hostile: links are never followed, and directories are opened by their path below the top of a
 * layer, so that descriptors do not grow with the depth.
 *
 * Blocking. Functions return -errno.
 */
#define ATOLL_DIFF_VIEW_LAYERS_MAX 32

struct atoll_diff_view {
    int tops[ATOLL_DIFF_VIEW_LAYERS_MAX]; /* topmost first; owned */
    size_t count;
    bool has_base; /* the last one is a base */
};

/* Layers of a view, one bit for each. */
typedef uint32_t atoll_diff_view_mask;

/* "DIR:DIR:…", topmost first; "/" is a base and can only be the last one. "" is an empty view. */
int atoll_diff_view_open(struct atoll_diff_view *view, const char *text,
                         struct atoll_error *err) ATOLL_MUST_CHECK;
void atoll_diff_view_close(struct atoll_diff_view *view);
/* The mask of the top directory. */
atoll_diff_view_mask atoll_diff_view_top(const struct atoll_diff_view *view);

/* One directory of a view, opened: what each of its layers has there. */
struct atoll_diff_view_dir {
    const struct atoll_diff_view *view;
    int fds[ATOLL_DIFF_VIEW_LAYERS_MAX]; /* -EBADF: the layer does not have it; owned */
};
/* path: below the top, "" is the top itself. A layer of the mask that does not have the directory is left out. */
int atoll_diff_view_dir_open(struct atoll_diff_view_dir *dir, const struct atoll_diff_view *view,
                             atoll_diff_view_mask mask, const char *path) ATOLL_MUST_CHECK;
void atoll_diff_view_dir_close(struct atoll_diff_view_dir *dir);
/* The layers that it has. */
atoll_diff_view_mask atoll_diff_view_dir_mask(const struct atoll_diff_view_dir *dir);

/* What a view has at a name. */
struct atoll_diff_node {
    bool exists;
    struct stat st;
    int dir_fd;       /* the directory that has it; borrowed from struct atoll_diff_view_dir */
    const char *name; /* in it; borrowed */
    bool in_base;     /* it is that of the base */
    atoll_diff_view_mask mask; /* a directory: the layers it is made of */
};
int atoll_diff_view_find(const struct atoll_diff_view_dir *dir, const char *name,
                         struct atoll_diff_node *ret) ATOLL_MUST_CHECK;
/* What a view has at a path below its top: finds its directory, which the caller closes on success, and the node. */
int atoll_diff_view_lookup(const struct atoll_diff_view *view, const char *path,
                           struct atoll_diff_view_dir *ret_dir,
                           struct atoll_diff_node *ret) ATOLL_MUST_CHECK;
