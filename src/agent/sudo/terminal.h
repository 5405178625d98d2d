#pragma once
#include <termios.h>
#include "base/defs.h"

/*
 * A terminal for the command when we have one: the command runs in a session of its own and cannot
 * have ours for a controlling terminal, so it gets a new one and we carry the bytes.
 */
struct atoll_sudo_terminal {
    int master, slave; /* owned; -1: there is no terminal */
    int tty;           /* ours, borrowed: where output goes */
    int tty_in;        /* ours, borrowed: where input comes from; -1: none */
    bool is_ours[3];   /* which of stdin, stdout, stderr the new terminal replaces */
    int first;         /* the first of them, -1: none */
    bool raw;          /* `saved` is to be restored */
    struct termios saved;
};

/* Without a terminal on stdio this does nothing. -errno. */
int atoll_sudo_terminal_open(struct atoll_sudo_terminal *t) ATOLL_MUST_CHECK;
/* Restores ours. */
void atoll_sudo_terminal_close(struct atoll_sudo_terminal *t);
/* The command has its side; ours is closed, so that its end can be seen. */
void atoll_sudo_terminal_handed_over(struct atoll_sudo_terminal *t);
/* Copies what the command printed. */
void atoll_sudo_terminal_output(struct atoll_sudo_terminal *t);
/* Copies what was typed. */
void atoll_sudo_terminal_input(struct atoll_sudo_terminal *t);
/* The command has ended: what it printed last is still to be copied. */
void atoll_sudo_terminal_drain(struct atoll_sudo_terminal *t);
/* Ours has a new size. */
void atoll_sudo_terminal_resize(struct atoll_sudo_terminal *t);
