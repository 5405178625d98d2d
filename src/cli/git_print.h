#pragma once
#include "cli/collection.h"

/* Prints results of `atoll git` for people. */
typedef void atoll_cli_git_printer(const json_t *reply);

atoll_cli_git_printer atoll_cli_git_print_where, atoll_cli_git_print_status,
    atoll_cli_git_print_log, atoll_cli_git_print_diff, atoll_cli_git_print_words,
    atoll_cli_git_print_pushed, atoll_cli_git_print_branches, atoll_cli_git_print_remotes,
    atoll_cli_git_print_tags, atoll_cli_git_print_stashes, atoll_cli_git_print_config;
