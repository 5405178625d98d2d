#pragma once
#include "cli/client.h"
#include "cli/print.h"

/* What `ls` and `rm` of keys, templates and the like have in common. */

/* GETs `path` and shows the array `member` of the answer as a table, a row from add_row for each. */
int atoll_cli_collection_list(struct atoll_cli *cli, const char *path, const char *member,
                              const char *const *columns,
                              void (*add_row)(struct atoll_cli_table *table, const json_t *item),
                              struct atoll_error *err) ATOLL_MUST_CHECK;

/* DELETEs each of the names (up to a NULL) and prints it; stops at the first that fails. `target`
 * checks a name and says where it is. */
int atoll_cli_collection_remove(struct atoll_cli *cli, char **names,
                                int (*target)(const char *name, struct atoll_link_target *ret,
                                              struct atoll_error *err),
                                struct atoll_error *err) ATOLL_MUST_CHECK;
