#pragma once
#include "image/recipe.h"

/*
 * Which files of a tree a COPY or ADD takes, and a digest of them for the key of the step. The tree is
 * known by its manifest only (base/tree_line.h). Patterns are those of Go's filepath.Match; with --parents
 * and --exclude those of .dockerignore. A source that is a symbolic link is followed inside the tree, links
 * below a copied directory are not. Pure.
 */
#define ATOLL_COPY_MANIFEST_MAX ((size_t)1024 * 1024 * 1024)

struct atoll_copy_tree;

/* Reads a manifest, of which it keeps a copy. INVALID_ARGUMENT with the line; RESOURCE_EXHAUSTED. */
int atoll_copy_tree_parse(const char *text, size_t n, struct atoll_copy_tree **ret,
                          struct atoll_error *err) ATOLL_MUST_CHECK;
struct atoll_copy_tree *atoll_copy_tree_free(struct atoll_copy_tree *tree);

/* Arguments of atoll-copy (copy/copy.h): paths are below the tree, without a leading "/"; "" is its root. */
struct atoll_copy_match {
    struct atoll_copy_pair {
        char *path; /* owned; links are followed already */
        char *name; /* owned; "": the content of a directory goes to the destination */
    } * pairs;      /* owned; in the order of sources, and in the order of names for one source */
    size_t pair_count;
    char **excludes; /* owned; paths below a pair that are not copied, by --exclude */
    size_t exclude_count;
    char digest
        [65]; /* hex SHA-256 over type, mode, content, name of all files, and their owners with
                      * --from; equal digests give equal copies */
};
void atoll_copy_match_done(struct atoll_copy_match *m);

/* Whether a source of ADD is a URL or a Git repository, which are not in the tree. */
bool atoll_copy_is_remote(const char *source);

/* The step is expanded; its remote sources and here-documents are skipped. NOT_FOUND ("line N: …") for a
 * source without a pattern that is not in the tree, INVALID_ARGUMENT for a bad pattern or too many links.
 * A pattern that matches nothing is no error, as with BuildKit: then there may be no pair at all. */
int atoll_copy_match(const struct atoll_copy_tree *tree, const struct atoll_recipe_step *step,
                     struct atoll_copy_match *ret, struct atoll_error *err) ATOLL_MUST_CHECK;
