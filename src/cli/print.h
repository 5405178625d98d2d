#pragma once
#include <stdio.h>
#include "base/defs.h"

/*
 * Output for people. Names and messages may come from code in a sandbox, so control characters in them
 * are escaped; only the output of a command is written unchanged.
 */

/* Writes the text; escapes control bytes, invalid UTF-8 and bidirectional marks. */
void atoll_cli_put(FILE *stream, const char *text);
/* The same, but for tabs and newlines, except at its end: `indent` is in front of each further line. */
void atoll_cli_put_lines(FILE *stream, const char *text, const char *indent);

/* Writes "atoll: " and the message to standard error, as one line, escaped. */
void atoll_cli_say(const char *fmt, ...) ATOLL_PRINTF(1, 2);

/* Colours are used if the stream is a terminal and NO_COLOR is not set. */
enum atoll_cli_colour {
    ATOLL_CLI_PLAIN,
    ATOLL_CLI_BOLD,
    ATOLL_CLI_DIM,
    ATOLL_CLI_RED,
    ATOLL_CLI_GREEN,
    ATOLL_CLI_YELLOW,
};
void atoll_cli_put_colour(FILE *stream, enum atoll_cli_colour colour, const char *text);
bool atoll_cli_has_colour(FILE *stream);

/*
 * A table with aligned columns. Cells are added from left to right; the row ends with the last
 * column. Rows beyond a maximum are counted but not shown.
 */
#define ATOLL_CLI_COLUMNS_MAX 12

struct atoll_cli_table {
    size_t ncolumns;
    size_t ncells, cap;
    struct atoll_cli_cell *cells; /* owned */
    size_t left_out;
};

/* Column names end with NULL. */
void atoll_cli_table_init(struct atoll_cli_table *table, const char *const *names);
void atoll_cli_table_add(struct atoll_cli_table *table, enum atoll_cli_colour colour,
                         const char *fmt, ...) ATOLL_PRINTF(3, 4);
/* Prints the table and frees its cells. */
void atoll_cli_table_finish(struct atoll_cli_table *table, FILE *stream);

/* "3 s", "5 min", "2 h", "4 d"; out holds 16 bytes. */
const char *atoll_cli_format_age(double seconds, char *out);
/* Seconds since an RFC 3339 time in UTC; negative if it cannot be parsed. */
double atoll_cli_age_of(const char *timestamp);

/*
 * Progress line of a transfer, redrawn in place on standard error if that is a terminal.
 */
struct atoll_cli_progress {
    bool shown;
    const char *name;     /* borrowed */
    uint64_t done, total; /* total 0: not known */
    int64_t drawn_ms;
};
void atoll_cli_progress_start(struct atoll_cli_progress *p, const char *name, uint64_t total);
void atoll_cli_progress_add(struct atoll_cli_progress *p, uint64_t bytes);
void atoll_cli_progress_end(struct atoll_cli_progress *p);
