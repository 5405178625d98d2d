#pragma once
#include "cli/client.h"

/* Writes a kept file of an ended sandbox to a descriptor, which is borrowed. NOT_FOUND. */
int atoll_cli_artifact_fetch(struct atoll_cli *cli, const char *sandbox, const char *path, int fd,
                             struct atoll_error *err) ATOLL_MUST_CHECK;
