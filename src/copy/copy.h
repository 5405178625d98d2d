#pragma once
#include <sys/types.h>
#include "base/error.h"

/*
 * atoll-copy: COPY and ADD of a Dockerfile, in a builder sandbox (enum atoll_builder in sandbox/spec.h). A static
 * program, so that it runs in any image.
 *
 *   atoll-copy [OPTION…] TREE DEST [PATH NAME]…
 *     TREE   directory of the sources, read-only (/.atoll/…)
 *     DEST   absolute path in the root. With a trailing "/", or with more than one pair, it is a directory
 *     PATH   of a source below TREE, already expanded; "" is TREE itself. Links in it are followed inside
 *            TREE
 *     NAME   what it is called below DEST; may have several components (--parents).
 *            A file goes to DEST/NAME if DEST is a directory, else to DEST.
 *            A directory with NAME "" puts its content into DEST, else it becomes DEST/NAME
 *     --stdin            pairs come on stdin instead: PATH NUL NAME NUL … A NAME of "/" excludes PATH
 *     --chown U[:G]      names or numbers; names are those of /etc/passwd and /etc/group of the root. U
 *                        alone gives the user's group, or for a number the group with that number.
 *                        Default 0:0
 *     --keep-owner       the owners of the sources, if --chown is not given (COPY --from)
 *     --chmod MODE       octal, for all files and directories copied
 *     --exclude PATH     below TREE, not copied; repeatable
 *     --root DIR         the root (default "/"); DEST and names are resolved in it
 *   atoll-copy --list TREE
 *     prints a manifest of TREE (base/tree_line.h), not sorted, with zeros for the digests of files
 *
 * Links in the path of DEST are followed, but never out of the root. Missing parents, and DEST with a
 * trailing "/", are made with 0755 and the owner of --chown. Symbolic links among the sources stay links.
 * Hard links become files of their own, as Docker makes them. Times, attributes user.* and
 * security.capability are kept. A directory that exists gets owner, mode and time of its source, except DEST itself.
 * A file replaces a file or a link; a directory in the place of a file, or a file in the place of
 * a directory, is an error. Device nodes, sockets and whiteouts are left out.
 *
 * Prints nothing on success; one line on stderr and exit status 1 otherwise (2: wrong usage).
 *
 * Where it is in every sandbox: ATOLL_COPY_PROGRAM (sandbox/programs.h).
 */
struct atoll_copy_options {
    uid_t uid;
    gid_t gid;
    bool keep_owner;
    bool has_mode;
    mode_t mode;
    const char *const *excludes; /* clean paths below the tree, sorted by strcmp() */
    size_t exclude_count;
};

/* dest_is_directory: more than one source. root, tree: borrowed descriptors. Blocking. NOT_FOUND: no such source;
 * FAILED_PRECONDITION: what is at the destination; INVALID_ARGUMENT, RESOURCE_EXHAUSTED, INTERNAL. */
int atoll_copy(int root, int tree, const char *dest, bool dest_is_directory, const char *path,
               const char *name, const struct atoll_copy_options *options,
               struct atoll_error *err) ATOLL_MUST_CHECK;

/* "U[:G]" of --chown, with the names of the root. INVALID_ARGUMENT. */
int atoll_copy_owner(int root, const char *text, uid_t *ret_uid, gid_t *ret_gid,
                     struct atoll_error *err) ATOLL_MUST_CHECK;

/* Writes the manifest of the tree. INTERNAL. */
int atoll_copy_list(int tree, int out, struct atoll_error *err) ATOLL_MUST_CHECK;
