#pragma once
#include "cli/client.h"
#include "cli/place.h"

/*
 * A daemon started like any other program, in a session of its own, with its log in a file.
 */
#define ATOLL_CLI_LAUNCH_ARGS_MAX 64

/* A TCP port of the loopback: the one asked for, or any when that is 0; 0 when it cannot be had. */
unsigned atoll_cli_free_port(unsigned port);

/* Whether a daemon answers this target with success. */
bool atoll_cli_answers(struct atoll_client *client, const char *target);

/* Starts atolld, the one beside us or the one in PATH, on that place. listen_at: HOST:PORT or "".
 * `more` are further options and end with NULL. NOT_FOUND, INTERNAL. */
int atoll_cli_launch(const struct atoll_cli_place *place, const char *listen_at, char **more,
                     pid_t *ret_pid, struct atoll_error *err) ATOLL_MUST_CHECK;
/* Until it is ready. FAILED_PRECONDITION when it ends instead, with its last words on standard error;
 * DEADLINE_EXCEEDED. */
int atoll_cli_launch_wait(struct atoll_client *client, const struct atoll_cli_place *place,
                          pid_t pid, struct atoll_error *err) ATOLL_MUST_CHECK;
