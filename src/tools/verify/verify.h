#pragma once
#include <jansson.h>
#include "base/error.h"
#include "client/link.h"

/*
 * Verifies the isolation of sandboxes on this host. Every promise is a check with a name. A check is an
 * attack: from inside a new sandbox of each tier (inside.h), through the daemon's own interfaces
 * (attacks.h), and as a control outside of any sandbox, where the same attack must succeed; otherwise the
 * check proves nothing. Every attack is harmless where it succeeds.
 * Blocking; one thread.
 */

enum atoll_verdict {
    ATOLL_VERDICT_HOLDS,       /* the attack failed */
    ATOLL_VERDICT_FOUND,       /* the attack succeeded: a finding */
    ATOLL_VERDICT_UNKNOWN,     /* could not be decided on this host; the evidence says why */
    ATOLL_VERDICT_NOT_OFFERED, /* this tier does not promise it (docs/security.md) */
};

/* A promise of all tiers. */
struct atoll_check {
    const char *id;     /* "fs.host_canary", "api.tar_slip" */
    const char *row;    /* of the list of promises in docs/security.md: "12", "D6" */
    const char *what;   /* the promise, in one line, for people */
    const char *advice; /* what to do about a finding */
};

/* Where a check was made: "native", "native, root inside", "docker", "gvisor", "daemon", "control". */
struct atoll_report;

/* Adds one result. The check and the name of the tier are borrowed as long as the report exists. Of two
 * results for the same check and tier the worse one counts. */
void atoll_report_add(struct atoll_report *report, const char *tier,
                      const struct atoll_check *check, enum atoll_verdict verdict,
                      const char *evidence, ...) ATOLL_PRINTF(5, 6);

/* The context of a verification. */
struct atoll_verify {
    struct atoll_client *client; /* the daemon; borrowed */
    struct atoll_report *report; /* borrowed */
    const char *scratch;         /* a directory of our own on the host, 0700, removed at the end */
    const char *probe;           /* path of the program that attacks from inside */
    const char *only;            /* ids of checks, or prefixes, separated by commas; or NULL */

    /* What is known about the daemon; each may be NULL. */
    const char *state_dir;    /* its state directory */
    const char *socket_path;  /* its unix socket */
    const char *listen;       /* its TCP address, HOST:PORT */
    const char *launcher_env; /* the name of a variable in its environment */
    const char *launcher_key; /* a key in the session keyring that it shares with us */
    bool rootless;            /* it runs as an ordinary user */
};

/* Whether `only` selects this check. */
bool atoll_verify_wants(const struct atoll_verify *v, const struct atoll_check *check);
