#pragma once
#include "cli/client.h"
#include "cli/place.h"

/*
 * Starts a daemon in the background, in a session of its own, with its log in a file.
 */
#define ATOLL_CLI_LAUNCH_ARGS_MAX 64

/* Returns `port`, or any port if that is 0, if it is free on 127.0.0.1; else 0. */
unsigned atoll_cli_free_port(unsigned port);

/* Whether a daemon answers this target with success. */
bool atoll_cli_answers(struct atoll_client *client, const char *target);

/* Starts atolld (in the directory of this program, else in PATH) with the state directory, socket and
 * log of `place`. listen_at: HOST:PORT or "". `more`: further options, ending with NULL.
 * NOT_FOUND, INTERNAL. */
int atoll_cli_launch(const struct atoll_cli_place *place, const char *listen_at, char **more,
                     pid_t *ret_pid, struct atoll_error *err) ATOLL_MUST_CHECK;
/* The same with all arguments as argv, which ends with NULL; argv[0] is replaced by the program. */
int atoll_cli_relaunch(const struct atoll_cli_place *place, char **argv, pid_t *ret_pid,
                       struct atoll_error *err) ATOLL_MUST_CHECK;
/* Waits until the daemon is ready. FAILED_PRECONDITION if it exits instead; the end of its log is then
 * printed to standard error. DEADLINE_EXCEEDED. */
int atoll_cli_launch_wait(struct atoll_client *client, const struct atoll_cli_place *place,
                          pid_t pid, struct atoll_error *err) ATOLL_MUST_CHECK;
