#pragma once
#include "base/error.h"

/*
 * Raw mode of the user's terminal during a PTY session. The mode is restored by the caller, at exit(),
 * and when a fatal signal ends the program.
 */

/* Whether standard input and output are both a terminal. */
bool atoll_cli_terminal_is_ours(void);
/* Size of the terminal of standard output or input; 80 by 24 if neither is a terminal. */
void atoll_cli_terminal_size(unsigned *ret_cols, unsigned *ret_rows);
/* Switches to raw mode. No effect if standard input is not a terminal. INTERNAL. */
int atoll_cli_terminal_raw(struct atoll_error *err) ATOLL_MUST_CHECK;
/* Restores the saved mode. May be called at any time, also in a signal handler. */
void atoll_cli_terminal_restore(void);
