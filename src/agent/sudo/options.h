#pragma once
#include "base/defs.h"

/* The command line of sudo; options that make no sense in a sandbox are refused or ignored. */
struct atoll_sudo_options {
    uint32_t flags;           /* ATOLL_SUDO_* */
    const char *user, *group; /* "": not given */
    char **vars;              /* NAME=VALUE before the command, borrowed from argv */
    size_t var_count;
    char **command; /* borrowed from argv; may be empty */
};

/* False if there is nothing to run: all output was printed and *ret_status is the exit status. */
bool atoll_sudo_options_parse(struct atoll_sudo_options *o, int argc, char **argv, int *ret_status);
