#pragma once
#include "store/sqlite/db.h"

/*
 * The key of a database, and what is sealed with it: rows of the database, and the environments of
 * sandboxes in disks/ (engine/sandbox/env_file.c).
 * Blocking: reads all such rows and the heads of these files.
 */

/* Gives the database its key. Makes one if the file is missing and nothing is sealed. FAILED_PRECONDITION:
 * something is sealed, and its key is missing, damaged or another one. */
int atoll_sealed_open(struct atoll_db *db, int dir_fd, struct atoll_error *err) ATOLL_MUST_CHECK;
/* Deletes what is sealed with another key, and makes a new one if the file is missing; a damaged file is
 * kept as secret.key.old. */
int atoll_sealed_renew(struct atoll_db *db, int dir_fd, struct atoll_error *err) ATOLL_MUST_CHECK;
