#pragma once
#include "base/error.h"

/*
 * The user's terminal while a PTY session uses it. Raw mode is undone on every way out: by the
 * caller, at exit(), and when a fatal signal ends the program.
 */

/* Standard input and output are both a terminal. */
bool atoll_cli_terminal_is_ours(void);
/* Of standard output or input; 80 by 24 when neither is a terminal. */
void atoll_cli_terminal_size(unsigned *ret_cols, unsigned *ret_rows);
/* No effect when standard input is no terminal. INTERNAL. */
int atoll_cli_terminal_raw(struct atoll_error *err) ATOLL_MUST_CHECK;
/* Back to what it was; may be called at any time, and in a signal handler. */
void atoll_cli_terminal_restore(void);
