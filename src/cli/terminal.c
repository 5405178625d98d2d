#include "cli/terminal.h"

#include <errno.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>

static struct termios saved;
static volatile sig_atomic_t is_raw;

bool atoll_cli_terminal_is_ours(void)
{
    return isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
}

void atoll_cli_terminal_size(unsigned *ret_cols, unsigned *ret_rows)
{
    struct winsize size;

    *ret_cols = 80;
    *ret_rows = 24;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) < 0 && ioctl(STDIN_FILENO, TIOCGWINSZ, &size) < 0)
        return;
    /* A serial console may not know its size. */
    if (size.ws_col > 0 && size.ws_row > 0) {
        *ret_cols = size.ws_col;
        *ret_rows = size.ws_row;
    }
}

void atoll_cli_terminal_restore(void)
{
    if (!is_raw)
        return;
    is_raw = 0;
    (void)tcsetattr(STDIN_FILENO, TCSANOW, &saved);
}

/* SA_RESETHAND has restored the default action, so raising the signal again ends the program. */
static void restore_and_die(int signo)
{
    atoll_cli_terminal_restore();
    (void)raise(signo);
}

static void watch_fatal_signals(void)
{
    static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    struct sigaction action = {.sa_handler = restore_and_die, .sa_flags = (int)SA_RESETHAND};

    (void)sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(signals); i++)
        (void)sigaction(signals[i], &action, NULL);
}

int atoll_cli_terminal_raw(struct atoll_error *err)
{
    static bool registered;
    struct termios raw;

    if (is_raw || !isatty(STDIN_FILENO))
        return 0;
    if (tcgetattr(STDIN_FILENO, &saved) < 0)
        return atoll_fail_errno(err, errno, "reading the terminal's mode");
    if (!registered) {
        registered = true;
        watch_fatal_signals();
        (void)atexit(atoll_cli_terminal_restore);
    }
    raw = saved;
    cfmakeraw(&raw);
    is_raw = 1;
    if (tcsetattr(STDIN_FILENO, TCSANOW, &raw) < 0) {
        is_raw = 0;
        return atoll_fail_errno(err, errno, "setting the terminal's mode");
    }
    return 0;
}
