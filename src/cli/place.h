#pragma once
#include <sys/types.h>
#include "cli/cli.h"

/*
 * The daemon on this machine: where it lives, which process it is, and what `atoll up` noted when it
 * started one. A process is known by its pid and the tick it was started at, since pids come again.
 */
#define ATOLL_CLI_PATH_MAX 1024

struct atoll_cli_place {
    char state[ATOLL_CLI_PATH_MAX]; /* directory; absolute, as all of these */
    char socket[ATOLL_CLI_PATH_MAX];
    char log[ATOLL_CLI_PATH_MAX];  /* what a daemon started by `up` says */
    char note[ATOLL_CLI_PATH_MAX]; /* what `up` noted */
};

/* By option (may be NULL), else ATOLL_STATE and ATOLL_SOCKET, else where atolld would look.
 * INVALID_ARGUMENT. */
int atoll_cli_place_find(struct atoll_cli_place *place, const char *state, const char *socket_path,
                         struct atoll_error *err) ATOLL_MUST_CHECK;

struct atoll_cli_daemon {
    pid_t pid; /* 0: none */
    uint64_t start_ticks;
    char listen[256]; /* HOST:PORT, or "" */
};

/* What `up` noted, if that process is still there; else .pid is 0. */
struct atoll_cli_daemon atoll_cli_place_noted(const struct atoll_cli_place *place);
/* INTERNAL. */
int atoll_cli_place_note(const struct atoll_cli_place *place, const struct atoll_cli_daemon *daemon,
                         struct atoll_error *err) ATOLL_MUST_CHECK;

/* Who listens on a unix socket; .pid is 0 when nobody does. */
struct atoll_cli_daemon atoll_cli_daemon_at(const char *socket_path);
/* Whether its program was replaced by a later build since it was started. */
bool atoll_cli_daemon_is_outdated(const struct atoll_cli_daemon *daemon);
/* Seconds since it was started; negative when that is not known. */
double atoll_cli_daemon_uptime(const struct atoll_cli_daemon *daemon);
/* Whether that state directory is this daemon's. */
bool atoll_cli_daemon_owns(const struct atoll_cli_daemon *daemon,
                           const struct atoll_cli_place *place);
/* Asks it to end and waits until it has. DEADLINE_EXCEEDED, PERMISSION_DENIED. */
int atoll_cli_daemon_stop(const struct atoll_cli_daemon *daemon,
                          struct atoll_error *err) ATOLL_MUST_CHECK;
