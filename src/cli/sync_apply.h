#pragma once
#include "cli/sync_tree.h"

/*
 * Carries out a plan. All that goes to the sandbox is one archive; what comes from it is copied file by file, with
 * the checks of cli/copy.h, to temporary names. What a step of the plan would overwrite is looked at again before.
 */
struct atoll_sync_job {
    struct atoll_cli_copy *copy;
    const char *top; /* in the sandbox, absolute */
    int dir_fd;      /* the folder */
    const struct atoll_sync_step *steps;
    size_t count;
};

/* Opens the directory of `path` in the folder, through no link. *ret_name: its last component. Returns a descriptor or
 * -errno. */
int atoll_sync_open_parent(const struct atoll_sync_job *job, const char *path,
                           const char **ret_name) ATOLL_MUST_CHECK;

int atoll_sync_push(struct atoll_sync_job *job, struct atoll_error *err) ATOLL_MUST_CHECK;
int atoll_sync_pull(struct atoll_sync_job *job, struct atoll_error *err) ATOLL_MUST_CHECK;
/* On both sides, the deepest paths first. */
int atoll_sync_remove(struct atoll_sync_job *job, struct atoll_error *err) ATOLL_MUST_CHECK;
