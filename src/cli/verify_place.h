#pragma once
#include "cli/cli.h"
#include "cli/place.h"
#include "client/link.h"

/*
 * What a verification uses on this host: a daemon (the one that all verbs use, or a temporary one), the
 * probe program, and temporary directories.
 */
struct atoll_cli_verify_place {
    char base[128];    /* temporary directory; others may enter it */
    char scratch[160]; /* private directory in `base` */
    char probe[ATOLL_CLI_PATH_MAX];
    struct atoll_cli_place place; /* of the daemon; .state is "" if unknown */
    struct atoll_cli_daemon daemon;
    bool started;       /* the daemon is temporary: atoll_cli_verify_close() stops it */
    char variable[128]; /* a name in the daemon's environment, or "" */
    char key[64];       /* a key in its session keyring, or "" */
};

/* Uses the daemon of `client` if it answers. Starts a temporary daemon if `start` is set, or if none
 * answers and neither ATOLL_SOCKET nor ATOLL_URL is set. NOT_FOUND, UNAVAILABLE, INTERNAL. */
int atoll_cli_verify_open(struct atoll_cli_verify_place *p, struct atoll_client *client, bool start,
                          struct atoll_error *err) ATOLL_MUST_CHECK;
/* Stops a temporary daemon and removes the directories. */
void atoll_cli_verify_close(struct atoll_cli_verify_place *p);
