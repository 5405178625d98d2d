#pragma once
#include "base/defs.h"

/*
 * Shows the log of a build on standard error: steps with numbers and times, their output, and on a terminal
 * a line with the progress, which is redrawn in place.
 */
struct atoll_cli_build_print {
    bool quiet;
    bool drawn;       /* the progress line is shown */
    unsigned of;      /* number of steps */
    unsigned done;    /* that have ended */
    unsigned running; /* the newest */
};

/* A line of the log; arg is the struct. */
void atoll_cli_build_print_line(void *arg, const char *text, size_t n);
void atoll_cli_build_print_end(struct atoll_cli_build_print *p);
