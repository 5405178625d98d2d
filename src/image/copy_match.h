#pragma once
#include "image/recipe.h"

/*
 * Which files of a tree a COPY or ADD takes, and a digest of them for the key of the step. The tree is
 * known by its manifest only (atoll-unpack --manifest). Patterns are those of Go's filepath.Match; a source
 * that is a symbolic link is followed inside the tree, links below a copied directory are not. Pure.
 */
struct atoll_copy_tree;

/* Reads a manifest; borrows nothing. INVALID_ARGUMENT with the line; RESOURCE_EXHAUSTED. */
int atoll_copy_tree_parse(const char *text, size_t n, struct atoll_copy_tree **ret,
                          struct atoll_error *err) ATOLL_MUST_CHECK;
struct atoll_copy_tree *atoll_copy_tree_free(struct atoll_copy_tree *tree);

struct atoll_copy_match {
    char *
        *paths; /* owned; in the tree, without a leading "/", links followed; "" is the root. In the
                      * order of sources, and in order of names for one source */
    char **names; /* owned; how the source is called at the destination: its last component, or with
                      * --parents the path from the pivot "./" (or from the root) */
    bool *directory; /* owned; its content is copied, not itself (except with --parents) */
    size_t count;
    char digest
        [65]; /* hex SHA-256 over the type, mode, ids, content and relative path of all files */
};
void atoll_copy_match_done(struct atoll_copy_match *m);

/* The step is expanded, its URLs and here-documents are skipped. NOT_FOUND ("line N: …") for a source
 * without a pattern that is not in the tree, INVALID_ARGUMENT for a bad pattern or a path that leaves the
 * tree. A pattern that matches nothing is no error unless nothing at all matches. */
int atoll_copy_match(const struct atoll_copy_tree *tree, const struct atoll_recipe_step *step,
                     struct atoll_copy_match *ret, struct atoll_error *err) ATOLL_MUST_CHECK;
