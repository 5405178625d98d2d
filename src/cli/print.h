#pragma once
#include <stdio.h>
#include "base/defs.h"

/*
 * What people read. Names, messages and the like may come from code in a sandbox, so they are
 * written with control characters escaped; only the output of a command goes out as it is.
 */

/* Escapes control bytes, bytes that are no UTF-8, and the marks that turn text around. */
void atoll_cli_put(FILE *stream, const char *text);

/* "atoll: " and the message on standard error, in one line, escaped. */
void atoll_cli_say(const char *fmt, ...) ATOLL_PRINTF(1, 2);

/* Colours, if the stream is a terminal that wants them (NO_COLOR is not set). */
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
 * column. Past the maximum of rows further ones are counted but not shown.
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
/* Prints and releases it. */
void atoll_cli_table_finish(struct atoll_cli_table *table, FILE *stream);

/* "3 s", "5 min", "2 h", "4 d"; out holds 16 bytes. */
const char *atoll_cli_format_age(double seconds, char *out);
/* Seconds since an RFC 3339 time in UTC, or a negative number when it is none. */
double atoll_cli_age_of(const char *timestamp);

/*
 * Progress of a transfer, drawn over itself on standard error while that is a terminal.
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
