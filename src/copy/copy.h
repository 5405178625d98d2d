#pragma once
#include "base/error.h"

/*
 * atoll-copy: COPY and ADD of a Dockerfile, in a builder sandbox whose root is the stack of the step. A static
 * program, so that it runs in any image.
 *
 *   atoll-copy [OPTION…] TREE DEST [PATH NAME]…
 *     TREE   directory of the sources, read-only (/.atoll/…)
 *     DEST   absolute path in the root. With a trailing "/", or with more than one pair, it is a directory
 *     PATH   of a source below TREE, already expanded; "" is TREE itself. Links in it are followed inside TREE
 *     NAME   what it is called below DEST; may have several components (--parents).
 *            A file goes to DEST/NAME if DEST is a directory, else to DEST.
 *            A directory with NAME "" puts its content into DEST, else it becomes DEST/NAME
 *     --stdin            pairs come on stdin instead: PATH NUL NAME NUL …
 *     --chown U[:G]      names or numbers; names are those of /etc/passwd and /etc/group of the root. U
 *                        alone gives the user's group, or the group with its number. Default 0:0
 *     --keep-owner       the owners of the sources, if --chown is not given (COPY --from)
 *     --chmod MODE       octal, for all files and directories copied
 *     --exclude PATH     below TREE, not copied; repeatable
 *     --root DIR         the root (default "/"); DEST and names are resolved in it
 *
 * Links in the path of DEST are followed, but never out of the root. Missing parents are made with 0755
 * and the owner of --chown. Symbolic links among the sources stay links. Hard links become files of their
 * own, as Docker makes them. Times and attributes user.* and security.capability are kept; directories that exist already
 * keep their owner, mode and time. A file replaces a file or link; a directory over a file, or a file over
 * a directory, is an error. Device nodes, sockets and whiteouts are left out.
 *
 * Prints nothing on success; one line on stderr and exit status 1 otherwise (2: wrong usage).
 *
 * Where it is in every sandbox: ATOLL_COPY_PROGRAM (sandbox/programs.h).
 */
