#pragma once
#include <termios.h>
#include "base/defs.h"

/*
 * A terminal for the command if we have one: the command runs in a new session and cannot use our
 * controlling terminal, so it gets a new one and we copy the bytes.
 */
struct atoll_sudo_terminal {
    int master, slave; /* owned; -1: no terminal */
    int tty;           /* our terminal, borrowed: receives the output */
    int tty_in;        /* our terminal, borrowed: source of the input; -1: none */
    bool is_ours[3];   /* the standard streams that the new terminal replaces */
    int first;         /* index of the first of them; -1: none */
    bool raw;          /* `saved` must be restored */
    struct termios saved;
};

/* Without a terminal on stdio this does nothing. -errno. */
int atoll_sudo_terminal_open(struct atoll_sudo_terminal *t) ATOLL_MUST_CHECK;
/* Restores our terminal. */
void atoll_sudo_terminal_close(struct atoll_sudo_terminal *t);
/* The command has the slave; closes our copy, so that the end of its output can be detected. */
void atoll_sudo_terminal_handed_over(struct atoll_sudo_terminal *t);
/* Copies output of the command. */
void atoll_sudo_terminal_output(struct atoll_sudo_terminal *t);
/* Copies input to the command. */
void atoll_sudo_terminal_input(struct atoll_sudo_terminal *t);
/* The command has ended: copies its remaining output. */
void atoll_sudo_terminal_drain(struct atoll_sudo_terminal *t);
/* Our terminal has a new size. */
void atoll_sudo_terminal_resize(struct atoll_sudo_terminal *t);
