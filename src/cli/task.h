#pragma once
#include "cli/client.h"

/*
 * A repository of this machine for a task: it goes in as a bundle, and the branch comes back as one. Git of
 * this machine makes and reads bundles.
 */

/* Whether the text names a directory, not a URL. */
bool atoll_cli_task_is_local(const char *repo);
/* Waits until the task has a sandbox, and sends HEAD of the repository. */
int atoll_cli_task_send(struct atoll_cli *cli, const char *task, const char *directory,
                        struct atoll_error *err) ATOLL_MUST_CHECK;
/* Takes the branch of an ended task into the repository. No effect if the task made no commit. */
int atoll_cli_task_take(struct atoll_cli *cli, const json_t *task, const char *directory,
                        struct atoll_error *err) ATOLL_MUST_CHECK;
