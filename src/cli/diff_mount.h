#pragma once
#include "cli/client.h"

/*
 * What a sandbox has changed in a folder of this host that it mounts with the mode cow, and writing it back: on this machine,
 * with the rights of the user. `mount` is the path inside. Returns an exit status.
 */
int atoll_cli_diff_mount(struct atoll_cli *cli, const char *sandbox, const char *mount, bool apply,
                         bool force, struct atoll_error *err) ATOLL_MUST_CHECK;
