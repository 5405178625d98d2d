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
    ATOLL_CLI_SIZE,    /* uint64_t, bytes; must be above 0; 0 when not given */
    ATOLL_CLI_COUNT,   /* uint64_t; must be above 0; 0 when not given */
    ATOLL_CLI_DECIMAL, /* double; must be above 0; 0 when not given */
    ATOLL_CLI_TIME,    /* double, seconds; must be above 0; 0 when not given */
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

/* For command_at of atoll_cli_parse(): options may come anywhere. */
#define ATOLL_CLI_NO_COMMAND (-1)

/*
 * Parses argv, which ends with NULL, into *options (zeroed by the caller). Moves the remaining
 * arguments to the front of argv; *ret_argc is their number. If command_at is not negative, parsing
 * stops at the argument after that many others: it begins a command with options of its own.
 * INVALID_ARGUMENT; for an unknown option the text names the nearest one.
 */
int atoll_cli_parse(const struct atoll_cli_option *table, int command_at, char **argv,
                    void *options, int *ret_argc, struct atoll_error *err) ATOLL_MUST_CHECK;

/* "90", "1.5", "500ms", "5m", "1h30m", "2d": seconds, or numbers with units. -EINVAL. */
int atoll_cli_parse_time(const char *text, double *ret_seconds) ATOLL_MUST_CHECK;

/* Returns the name closest to `word` among those that next() yields until NULL, or NULL if none is
 * close enough to be a typing error. */
const char *atoll_cli_nearest(const char *word, const char *(*next)(void *arg), void *arg);

/* Iterates over a table and its nested tables: start with *pos = 0; returns NULL at the end. */
const struct atoll_cli_option *atoll_cli_option_next(const struct atoll_cli_option *table,
                                                     size_t *pos);
