#pragma once
#include "base/error.h"

/*
 * Command-line options as tables. A row says how an option is spelled and where in the verb's
 * options struct its value goes; the parser does the rest, so that no verb has a getopt loop.
 *
 * Both "--name VALUE" and "--name=VALUE", "-nVALUE" and "-n VALUE" are understood, flags may be
 * joined ("-it"), and "--" ends the options.
 */

/* Most times one option may be repeated. */
#define ATOLL_CLI_LIST_MAX 256

struct atoll_cli_list {
    size_t n;
    const char *items[ATOLL_CLI_LIST_MAX]; /* borrowed from argv */
};

enum atoll_cli_option_kind {
    ATOLL_CLI_FLAG,    /* bool */
    ATOLL_CLI_TEXT,    /* const char *, borrowed from argv; NULL when not given */
    ATOLL_CLI_LIST,    /* struct atoll_cli_list, one item for each use */
    ATOLL_CLI_SIZE,    /* uint64_t, bytes; 0 when not given, and not accepted */
    ATOLL_CLI_COUNT,   /* uint64_t; likewise */
    ATOLL_CLI_DECIMAL, /* double; likewise */
    ATOLL_CLI_TABLE,   /* the rows of `table`, whose struct is found at this offset */
};

/* Tables end with a row without name and table. */
struct atoll_cli_option {
    const char *name; /* without the dashes */
    char letter;      /* 0: none */
    enum atoll_cli_option_kind kind;
    size_t offset;
    const char *value; /* what help calls the value, NULL for a flag */
    const char *help;
    const struct atoll_cli_option *table;
};

/* Every argument may be an option; otherwise see command_at of the parser. */
#define ATOLL_CLI_NO_COMMAND (-1)

/*
 * Parses argv, which ends with NULL, into *options (zeroed by the caller) and moves what is left to
 * the front of argv; *ret_argc says how many that are. When command_at is not negative, the first
 * argument after that many others starts a command whose own options are not ours.
 * INVALID_ARGUMENT with a text that names the nearest option there is.
 */
int atoll_cli_parse(const struct atoll_cli_option *table, int command_at, char **argv,
                    void *options, int *ret_argc, struct atoll_error *err) ATOLL_MUST_CHECK;

/* The name most like `word` among those that next() yields until NULL, or NULL when none is near
 * enough to be a slip of the finger. */
const char *atoll_cli_nearest(const char *word, const char *(*next)(void *arg), void *arg);

/* Walks a table and the tables it holds, for help: start with *pos = 0, ends with NULL. */
const struct atoll_cli_option *atoll_cli_option_next(const struct atoll_cli_option *table,
                                                     size_t *pos);
