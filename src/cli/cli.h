#pragma once
#include "base/error.h"
#include "cli/options.h"

/*
 * The frame of the `atoll` program. Verbs are rows of a table in verbs.c; each has its own file.
 *
 * main() finds the verb, fills its options struct from its table, and calls run(). A verb returns
 * the exit status of the program, or a negative errno with *err filled, which main() prints.
 */

/* Exit statuses that do not come from a command in a sandbox. */
enum atoll_cli_status {
    ATOLL_CLI_OK = 0,
    ATOLL_CLI_FAILED = 1,
    ATOLL_CLI_USAGE = 2,
    ATOLL_CLI_NOT_RUNNING = 3, /* of `atoll status` */
    ATOLL_CLI_TIMED_OUT = 124,
    ATOLL_CLI_BROKEN = 125, /* Atoll itself failed, so there is no status of the command */
    ATOLL_CLI_NOT_EXECUTABLE = 126,
    ATOLL_CLI_NOT_FOUND = 127,
    ATOLL_CLI_OUT_OF_MEMORY = 137,
};

struct atoll_cli;

struct atoll_cli_verb {
    const char *name; /* "run"; "template ls" for a verb of a group */
    const char *args; /* what follows the name in the usage line; words of words.h */
    const char *summary;
    const char *help;                       /* what summary and options do not say, then examples */
    const struct atoll_cli_option *options; /* NULL: only the common ones */
    size_t options_size;    /* of the struct, which starts with a struct atoll_cli_common */
    int min_args, max_args; /* max -1: any number */
    int command_arg; /* N: argument N (from 1) begins a command whose options are not ours; 0: none */
    int failure;     /* exit status when run() fails; 0 means ATOLL_CLI_FAILED */
    const struct atoll_cli_collection *collection; /* for the verbs of cli/collection.h */
    int (*run)(struct atoll_cli *cli, const void *options, int argc, char **argv,
               struct atoll_error *err);
};

/* Must be the first member of every options struct; ATOLL_CLI_COMMON() has its table rows. */
struct atoll_cli_common {
    bool json;
    bool help;
    const char *ca_file;
};
extern const struct atoll_cli_option atoll_cli_common_options[];

#define ATOLL_CLI_COMMON(type)                                     \
    {                                                              \
        .kind = ATOLL_CLI_TABLE, .offset = offsetof(type, common), \
        .table = atoll_cli_common_options                          \
    }

/* The options of a verb, including the common ones. */
const struct atoll_cli_option *atoll_cli_options_of(const struct atoll_cli_verb *verb);

extern const struct atoll_cli_verb atoll_cli_run;
extern const struct atoll_cli_verb atoll_cli_create;
extern const struct atoll_cli_verb atoll_cli_ls;
extern const struct atoll_cli_verb atoll_cli_exec;
extern const struct atoll_cli_verb atoll_cli_shell;
extern const struct atoll_cli_verb atoll_cli_ssh;
extern const struct atoll_cli_verb atoll_cli_cp;
extern const struct atoll_cli_verb atoll_cli_sync;
extern const struct atoll_cli_verb atoll_cli_logs;
extern const struct atoll_cli_verb atoll_cli_stats;
extern const struct atoll_cli_verb atoll_cli_providers;
extern const struct atoll_cli_verb atoll_cli_pause;
extern const struct atoll_cli_verb atoll_cli_resume;
extern const struct atoll_cli_verb atoll_cli_stop;
extern const struct atoll_cli_verb atoll_cli_rm;
extern const struct atoll_cli_verb atoll_cli_preview;
extern const struct atoll_cli_verb atoll_cli_pull;
extern const struct atoll_cli_verb atoll_cli_images;
extern const struct atoll_cli_verb atoll_cli_push;
extern const struct atoll_cli_verb atoll_cli_template_ls;
extern const struct atoll_cli_verb atoll_cli_template_import;
extern const struct atoll_cli_verb atoll_cli_template_debian;
extern const struct atoll_cli_verb atoll_cli_template_show;
extern const struct atoll_cli_verb atoll_cli_template_history;
extern const struct atoll_cli_verb atoll_cli_template_sbom;
extern const struct atoll_cli_verb atoll_cli_template_diff;
extern const struct atoll_cli_verb atoll_cli_template_save;
extern const struct atoll_cli_verb atoll_cli_template_tag;
extern const struct atoll_cli_verb atoll_cli_template_share;
extern const struct atoll_cli_verb atoll_cli_template_rm;
extern const struct atoll_cli_verb atoll_cli_template_gc;
extern const struct atoll_cli_verb atoll_cli_template_build;
extern const struct atoll_cli_verb atoll_cli_build;
extern const struct atoll_cli_verb atoll_cli_snapshot;
extern const struct atoll_cli_verb atoll_cli_snapshots;
extern const struct atoll_cli_verb atoll_cli_fork;
extern const struct atoll_cli_verb atoll_cli_restore;
extern const struct atoll_cli_verb atoll_cli_volume_create;
extern const struct atoll_cli_verb atoll_cli_diff;
extern const struct atoll_cli_verb atoll_cli_task_run;
extern const struct atoll_cli_verb atoll_cli_task_ls;
extern const struct atoll_cli_verb atoll_cli_task_show;
extern const struct atoll_cli_verb atoll_cli_task_logs;
extern const struct atoll_cli_verb atoll_cli_task_cancel;
extern const struct atoll_cli_verb atoll_cli_task_retry;
extern const struct atoll_cli_verb atoll_cli_task_take;
extern const struct atoll_cli_verb atoll_cli_task_rm;
extern const struct atoll_cli_verb atoll_cli_history;
extern const struct atoll_cli_verb atoll_cli_undo;
extern const struct atoll_cli_verb atoll_cli_blame;
extern const struct atoll_cli_verb atoll_cli_merge;
extern const struct atoll_cli_verb atoll_cli_try;
extern const struct atoll_cli_verb atoll_cli_volume_ls;
extern const struct atoll_cli_verb atoll_cli_volume_rm;
extern const struct atoll_cli_verb atoll_cli_artifacts_ls;
extern const struct atoll_cli_verb atoll_cli_artifacts_get;
extern const struct atoll_cli_verb atoll_cli_artifacts_rm;
extern const struct atoll_cli_verb atoll_cli_code;
extern const struct atoll_cli_verb atoll_cli_health;
extern const struct atoll_cli_verb atoll_cli_session_create;
extern const struct atoll_cli_verb atoll_cli_session_ls;
extern const struct atoll_cli_verb atoll_cli_session_show;
extern const struct atoll_cli_verb atoll_cli_session_code;
extern const struct atoll_cli_verb atoll_cli_session_rm;
extern const struct atoll_cli_verb atoll_cli_registry_ls;
extern const struct atoll_cli_verb atoll_cli_registry_show;
extern const struct atoll_cli_verb atoll_cli_key_create;
extern const struct atoll_cli_verb atoll_cli_key_ls;
extern const struct atoll_cli_verb atoll_cli_key_rm;
extern const struct atoll_cli_verb atoll_cli_approvals;
extern const struct atoll_cli_verb atoll_cli_secret_create;
extern const struct atoll_cli_verb atoll_cli_secret_ls;
extern const struct atoll_cli_verb atoll_cli_secret_rm;
extern const struct atoll_cli_verb atoll_cli_connector_create;
extern const struct atoll_cli_verb atoll_cli_connector_login;
extern const struct atoll_cli_verb atoll_cli_connector_ls;
extern const struct atoll_cli_verb atoll_cli_connector_show;
extern const struct atoll_cli_verb atoll_cli_connector_rm;
extern const struct atoll_cli_verb atoll_cli_ps;
extern const struct atoll_cli_verb atoll_cli_inspect;
extern const struct atoll_cli_verb atoll_cli_kill;
extern const struct atoll_cli_verb atoll_cli_start;
extern const struct atoll_cli_verb atoll_cli_restart;
extern const struct atoll_cli_verb atoll_cli_rename;
extern const struct atoll_cli_verb atoll_cli_wait;
extern const struct atoll_cli_verb atoll_cli_attach;
extern const struct atoll_cli_verb atoll_cli_git;
extern const struct atoll_cli_verb atoll_cli_net;
extern const struct atoll_cli_verb atoll_cli_mcp;
extern const struct atoll_cli_verb atoll_cli_events;
extern const struct atoll_cli_verb atoll_cli_top;
extern const struct atoll_cli_verb atoll_cli_port;
extern const struct atoll_cli_verb atoll_cli_prune;
extern const struct atoll_cli_verb atoll_cli_up;
extern const struct atoll_cli_verb atoll_cli_down;
extern const struct atoll_cli_verb atoll_cli_reload;
extern const struct atoll_cli_verb atoll_cli_ca;
extern const struct atoll_cli_verb atoll_cli_vercel_env;
extern const struct atoll_cli_verb atoll_cli_vercel_ca;
extern const struct atoll_cli_verb atoll_cli_status;
extern const struct atoll_cli_verb atoll_cli_bench;
extern const struct atoll_cli_verb atoll_cli_doctor;
extern const struct atoll_cli_verb atoll_cli_verify;
extern const struct atoll_cli_verb atoll_cli_completion;
extern const struct atoll_cli_verb atoll_cli_man;
extern const struct atoll_cli_verb atoll_cli_export;
extern const struct atoll_cli_verb atoll_cli_version;
extern const struct atoll_cli_verb atoll_cli_help;

/* All verbs in the order of the help text, ending with NULL. */
extern const struct atoll_cli_verb *const atoll_cli_verbs[];

/* Finds the verb that the first one or two words of argv name; *ret_words is how many. Returns NULL if
 * there is no such verb; *err then suggests the nearest name. */
const struct atoll_cli_verb *atoll_cli_find_verb(char *const *argv, int *ret_words,
                                                 struct atoll_error *err);

/* Whether the word is the first of a two-word verb ("template"). */
bool atoll_cli_is_group(const char *word);

/* Environment variables of the program; ends with a row without name. */
struct atoll_cli_variable {
    const char *name, *help;
};
extern const struct atoll_cli_variable atoll_cli_variables[];

/* Print to standard output: the help of one verb (NULL: the overview of all), and the verbs of a group. */
void atoll_cli_print_help(const struct atoll_cli_verb *verb);
void atoll_cli_print_group(const char *group);
