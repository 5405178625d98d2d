#pragma once
#include "diff/view.h"

/*
 * Compares two views and calls a function for each entry that differs: in content, type, mode, owner, or the
 * target of a link. Times and attributes are not compared.
 *
 * Only names that a layer of either view has are looked at, unless one view has the base at a place and the
 * other one does not: what both have from the base is the same.
 */
enum atoll_diff_change_kind {
    ATOLL_DIFF_CHANGE_ADDED,
    ATOLL_DIFF_CHANGE_CHANGED,
    ATOLL_DIFF_CHANGE_REMOVED,
    ATOLL_DIFF_CHANGE_TYPE, /* a file has become a directory, and the like */
};
#define ATOLL_DIFF_CHANGE_KINDS 4

struct atoll_diff_change {
    enum atoll_diff_change_kind kind;
    const char *path;                    /* below the top, without a leading "/" */
    const struct atoll_diff_node *a, *b; /* before and after; one of them may not exist */
    bool content;                        /* two files: the bytes differ */
};
typedef int atoll_diff_change_fn(void *arg, const struct atoll_diff_change *change,
                                 struct atoll_error *err);

struct atoll_diff_compare {
    const struct atoll_diff_view *a, *b;
    const char *below; /* only this directory: "a/b"; "": all */
    bool skip_git;     /* no entries named .git */
    atoll_diff_change_fn *fn;
    void *arg;
};
/* Entries of a directory are sorted by name and come before those of its directories. RESOURCE_EXHAUSTED: too
 * many names. */
int atoll_diff_compare(const struct atoll_diff_compare *compare,
                       struct atoll_error *err) ATOLL_MUST_CHECK;
