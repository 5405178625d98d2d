#pragma once
#include "base/defs.h"

/* The command line of sudo, as far as it makes sense in a sandbox. */
struct atoll_sudo_options {
    uint32_t flags;           /* ATOLL_SUDO_* */
    const char *user, *group; /* "" when not given */
    char **vars;              /* NAME=VALUE in front of the command, borrowed from argv */
    size_t var_count;
    char **command; /* borrowed from argv; may be empty */
};

/* False when there is nothing to run: everything has been said, *ret_status is the exit status. */
bool atoll_sudo_options_parse(struct atoll_sudo_options *o, int argc, char **argv, int *ret_status);
