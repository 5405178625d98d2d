#pragma once
#include "cli/client.h"

/*
 * A repository of this machine for a task: it goes in as a bundle, and the branch comes back as one. Git of
 * this machine makes and reads bundles.
 */

/* Whether the text names a directory, not a URL. */
bool atoll_cli_task_is_local(const char *repo);
/* Whether the repository has what is to be sent: a branch, or NULL for HEAD. FAILED_PRECONDITION. */
int atoll_cli_task_check(const char *directory, const char *branch,
                         struct atoll_error *err) ATOLL_MUST_CHECK;
/* A repository that is no directory of this machine: whether it can be a URL. INVALID_ARGUMENT. */
int atoll_cli_task_refuse(const char *repo, struct atoll_error *err) ATOLL_MUST_CHECK;
/* Whether the branch that the task makes, or NULL, can come back; warns of changes that do not go in.
 * INVALID_ARGUMENT. */
int atoll_cli_task_look(const char *directory, const char *base, const char *branch,
                        struct atoll_error *err) ATOLL_MUST_CHECK;
/* Waits until the task wants the repository, and sends the branch, or HEAD. No effect if the task has it. A
 * task whose repository cannot be sent is canceled. */
int atoll_cli_task_send(struct atoll_cli *cli, const char *task, const char *directory,
                        const char *branch, struct atoll_error *err) ATOLL_MUST_CHECK;
/* Takes the branch of an ended task into the repository. No effect if the task made no commit. */
int atoll_cli_task_fetch(struct atoll_cli *cli, const json_t *task, const char *directory,
                         struct atoll_error *err) ATOLL_MUST_CHECK;
