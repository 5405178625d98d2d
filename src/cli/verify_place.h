#pragma once
#include "cli/cli.h"
#include "cli/place.h"
#include "client/link.h"

/*
 * What a verification has on this host: a daemon to look at, which is the one every verb would use or
 * one of its own, the probe, and directories that go when it is over.
 */
struct atoll_cli_verify_place {
    char base[128];    /* directory of all of it; others may enter */
    char scratch[160]; /* in it, ours alone */
    char probe[ATOLL_CLI_PATH_MAX];
    struct atoll_cli_place place; /* of the daemon; .state "" when that is not known */
    struct atoll_cli_daemon daemon;
    bool started;       /* for this, and ends with it */
    char variable[128]; /* a name in the daemon's environment, or "" */
    char key[64];       /* a key in its session keyring, or "" */
};

/* `client` is what verbs talk to; it is used when a daemon answers there. If none does and nobody said
 * where one is, or with `start`, one is started. NOT_FOUND, UNAVAILABLE, INTERNAL. */
int atoll_cli_verify_open(struct atoll_cli_verify_place *p, struct atoll_client *client, bool start,
                          struct atoll_error *err) ATOLL_MUST_CHECK;
/* Ends and removes what was made. */
void atoll_cli_verify_close(struct atoll_cli_verify_place *p);
