#pragma once
#include "unpack/notes.h"
#include "unpack/tar_read.h"

/*
 * Makes the entries of an archive in a directory. Later entries replace earlier ones. Symbolic links in the
 * path of a name are followed, but never out of the directory; links at its end never.
 *
 * Blocking. Ownership: borrows the descriptor of the directory and the notes. Sets the umask to 0.
 */
struct atoll_tree_writer;

/* The attribute of a directory that is only in the paths of other entries. An overlay does not show it. */
#define ATOLL_TREE_IMPLIED "user.overlay.implied"

/* mark: set ATOLL_TREE_IMPLIED, for layers. */
struct atoll_tree_writer *atoll_tree_writer_new(int root, struct atoll_notes *notes, bool mark);
struct atoll_tree_writer *atoll_tree_writer_free(struct atoll_tree_writer *w);

/*
 * path is clean (unpack/names.h); "" is the directory itself. INVALID_ARGUMENT: the archive contradicts
 * itself; RESOURCE_EXHAUSTED: no room on the disk; INTERNAL.
 */
/* A file: *ret_fd is owned by the caller, who writes its content and then calls _file_done(). */
int atoll_tree_file(struct atoll_tree_writer *w, const char *path,
                    const struct atoll_tar_item *item, int *ret_fd,
                    struct atoll_error *err) ATOLL_MUST_CHECK;
/* Owner, mode, attributes and time of a written file; the descriptor stays the caller's. */
int atoll_tree_file_done(struct atoll_tree_writer *w, const char *path,
                         const struct atoll_tar_item *item, int fd,
                         struct atoll_error *err) ATOLL_MUST_CHECK;
int atoll_tree_directory(struct atoll_tree_writer *w, const char *path,
                         const struct atoll_tar_item *item,
                         struct atoll_error *err) ATOLL_MUST_CHECK;
int atoll_tree_symlink(struct atoll_tree_writer *w, const char *path,
                       const struct atoll_tar_item *item, struct atoll_error *err) ATOLL_MUST_CHECK;
int atoll_tree_fifo(struct atoll_tree_writer *w, const char *path,
                    const struct atoll_tar_item *item, struct atoll_error *err) ATOLL_MUST_CHECK;
/* target: clean path of an entry that exists. */
int atoll_tree_hard_link(struct atoll_tree_writer *w, const char *path, const char *target,
                         struct atoll_error *err) ATOLL_MUST_CHECK;
/* Hides what lower layers have at path. What this layer has there stays, as OCI demands. */
int atoll_tree_whiteout(struct atoll_tree_writer *w, const char *path,
                        struct atoll_error *err) ATOLL_MUST_CHECK;
/* Hides all that lower layers have in the directory at path. */
int atoll_tree_opaque(struct atoll_tree_writer *w, const char *path,
                      struct atoll_error *err) ATOLL_MUST_CHECK;

/* Sets the times of directories, which changed while they were filled. Last. */
int atoll_tree_finish(struct atoll_tree_writer *w, struct atoll_error *err) ATOLL_MUST_CHECK;
/* How many directories have the mark; those that later entries removed may be counted too. */
uint64_t atoll_tree_implied(const struct atoll_tree_writer *w);

/* Whether a layer may have this attribute; "user.overlay." would change what an overlay shows. */
bool atoll_tree_is_kept_xattr(const char *name);

/* The error of a system call about a path of the archive. */
int atoll_tree_failed(struct atoll_error *err, int errnum, const char *path, const char *what);
