#pragma once
#include "cli/copy.h"
#include "cli/sync_plan.h"

/*
 * The lists that `atoll sync` compares, and the file that keeps what the sides were: one JSON array for each pair of folder
 * and sandbox, in $XDG_STATE_HOME/atoll/sync. Texts of the lists are owned by them.
 */
#define ATOLL_SYNC_ENTRIES_MAX 1000000

struct atoll_sync_filter {
    const char *const
        *patterns; /* as in base/glob.h; one without a slash also matches names at any depth */
    size_t count;
};

/* The tree below dir_fd. Special files are left out. */
int atoll_sync_list_local(int dir_fd, const struct atoll_sync_filter *filter,
                          struct atoll_sync_list *ret, struct atoll_error *err) ATOLL_MUST_CHECK;
/* The tree of the sandbox below `top`, an absolute path. Names that could lead out of a folder are left out. */
int atoll_sync_list_remote(struct atoll_cli_copy *copy, const char *top,
                           const struct atoll_sync_filter *filter, struct atoll_sync_list *ret,
                           struct atoll_error *err) ATOLL_MUST_CHECK;
/* A list of the sandbox has no entries below a directory that its user cannot read. That is not the same as an empty one:
 * takes what is below it out of `local`, too, so that nothing there seems to be removed, and reports it as skipped. */
int atoll_sync_leave_unreadable(struct atoll_cli_copy *copy, const char *top,
                                struct atoll_sync_list *local, const struct atoll_sync_list *remote,
                                struct atoll_error *err) ATOLL_MUST_CHECK;
void atoll_sync_list_done(struct atoll_sync_list *list);
/* A time of an answer in milliseconds; 0: none. */
int64_t atoll_sync_time(const char *text);
/* NULL: none of that path. */
const struct atoll_sync_entry *atoll_sync_find(const struct atoll_sync_list *list,
                                               const char *path);

/* out: the path of the file for that pair; "" if there is no place for it. */
void atoll_sync_base_path(const char *folder, const char *sandbox_id, const char *top,
                          char out[static ATOLL_CLI_COPY_PATH_MAX]);
/* A file that is missing or not readable is an empty base. */
void atoll_sync_base_load(const char *path, struct atoll_sync_base *ret);
int atoll_sync_base_save(const char *path, const struct atoll_sync_base *base,
                         struct atoll_error *err) ATOLL_MUST_CHECK;
void atoll_sync_base_done(struct atoll_sync_base *base);
/* Copies the texts. */
void atoll_sync_base_add(struct atoll_sync_base *base, const struct atoll_sync_entry *local,
                         const struct atoll_sync_entry *remote);
