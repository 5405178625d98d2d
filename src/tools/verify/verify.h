#pragma once
#include <jansson.h>
#include "base/error.h"
#include "client/link.h"

/*
 * The proof that sandboxes hold, made on the host they run on. Everything that is promised is a
 * check with a name. A check is carried out by attacking: from inside a fresh sandbox of each tier
 * (inside.h), from beside it through the daemon's own interfaces (attacks.h), and once more outside
 * of any sandbox as a control, where the same attempt must succeed, or the check proves nothing.
 * Every attempt is harmless where it succeeds.
 * Blocking; one thread.
 */

enum atoll_verdict {
    ATOLL_VERDICT_HOLDS,       /* the attempt was refused, or what it got was harmless */
    ATOLL_VERDICT_FOUND,       /* it was not: a finding */
    ATOLL_VERDICT_UNKNOWN,     /* this host or this run could not tell; the evidence says why */
    ATOLL_VERDICT_NOT_OFFERED, /* this tier does not promise it, as docs/security.md says */
};

/* What is promised, whatever tier it is asked of. Tables of these are constant. */
struct atoll_check {
    const char *id;     /* "fs.host_canary", "api.tar_slip" */
    const char *row;    /* of the list of promises in docs/security.md: "12", "D6" */
    const char *what;   /* the promise, in one line, for people */
    const char *advice; /* what to do when it does not hold */
};

/* Where a check was made: "native", "native, root inside", "docker", "gvisor", "daemon", "control". */
struct atoll_report;

/* Adds one result; the check and the tier's name are borrowed and must stay. A second result for the
 * same check and tier counts when it is worse. */
void atoll_report_add(struct atoll_report *report, const char *tier,
                      const struct atoll_check *check, enum atoll_verdict verdict,
                      const char *evidence, ...) ATOLL_PRINTF(5, 6);

/* What a verification works with. */
struct atoll_verify {
    struct atoll_client *client; /* the daemon; borrowed */
    struct atoll_report *report; /* borrowed */
    const char *scratch;         /* a directory of our own on the host, 0700, removed at the end */
    const char *probe;           /* path of the program that attacks from inside */
    const char *only;            /* ids of checks or starts of such, with commas; or NULL */

    /* What is known about the daemon; each may be NULL. */
    const char *state_dir;    /* its state directory */
    const char *socket_path;  /* its unix socket */
    const char *listen;       /* its TCP address, HOST:PORT */
    const char *launcher_env; /* the name of a variable in its environment */
    const char *launcher_key; /* a key in the session keyring it was started with, which is ours */
    bool rootless;            /* it is an ordinary user's */
};

/* Whether `only` lets this check be made. */
bool atoll_verify_wants(const struct atoll_verify *v, const struct atoll_check *check);
