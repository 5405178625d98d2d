#pragma once
#include <sys/types.h>
#include "cli/cli.h"

/*
 * The daemon on this machine: its paths, its process, and the note (up.json) that `atoll up` writes when
 * it starts one. A process is identified by pid and start time, because pids are reused.
 */
#define ATOLL_CLI_PATH_MAX 1024

struct atoll_cli_place {
    char state[ATOLL_CLI_PATH_MAX]; /* directory; all paths are absolute */
    char socket[ATOLL_CLI_PATH_MAX];
    char log[ATOLL_CLI_PATH_MAX];  /* log file of a daemon that `up` started */
    char note[ATOLL_CLI_PATH_MAX]; /* up.json */
};

/* Paths come from the options (may be NULL), else from ATOLL_STATE and ATOLL_SOCKET, else they are
 * atolld's defaults. INVALID_ARGUMENT. */
int atoll_cli_place_find(struct atoll_cli_place *place, const char *state, const char *socket_path,
                         struct atoll_error *err) ATOLL_MUST_CHECK;

struct atoll_cli_daemon {
    pid_t pid; /* 0: none */
    uint64_t start_ticks;
    char listen[256];   /* HOST:PORT, or "" */
    bool started_by_up; /* its note says so */
};

/* Reads the note. .pid is 0 if there is no note or that process has ended. */
struct atoll_cli_daemon atoll_cli_place_noted(const struct atoll_cli_place *place);
/* Writes the note. INTERNAL. */
int atoll_cli_place_note(const struct atoll_cli_place *place, const struct atoll_cli_daemon *daemon,
                         struct atoll_error *err) ATOLL_MUST_CHECK;

/* The process that listens on a unix socket; .pid is 0 if no process does. */
struct atoll_cli_daemon atoll_cli_daemon_at(const char *socket_path);
/* Whether the program file was replaced since the daemon started (a newer build). */
bool atoll_cli_daemon_is_outdated(const struct atoll_cli_daemon *daemon);
/* Seconds since the daemon started; negative if unknown. */
double atoll_cli_daemon_uptime(const struct atoll_cli_daemon *daemon);
/* The daemon of a place: the noted one, else the one that answers at the socket; .pid is 0 if no
 * daemon runs. If the latter was started with `up --state DIR`, *place becomes that place. */
struct atoll_cli_daemon atoll_cli_place_daemon(struct atoll_cli_place *place);
/* Whether the daemon holds the lock of that state directory. */
bool atoll_cli_daemon_owns(const struct atoll_cli_daemon *daemon,
                           const struct atoll_cli_place *place);
/* Sends SIGTERM, upon which the daemon destroys its sandboxes, or SIGKILL, and waits until the process has
 * ended. DEADLINE_EXCEEDED, PERMISSION_DENIED. */
int atoll_cli_daemon_stop(const struct atoll_cli_daemon *daemon, int signo,
                          struct atoll_error *err) ATOLL_MUST_CHECK;
