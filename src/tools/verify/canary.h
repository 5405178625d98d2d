#pragma once
#include "tools/verify/child.h"
#include "tools/verify/verify.h"

/*
 * Canaries: things of the host that a sandbox must not find, namely a file, and a process with listening
 * sockets, locks, shared memory and a secret in its environment. Facts about them are passed to the
 * probe, as an object of strings with the names that probe/ uses.
 */
struct atoll_canary {
    struct atoll_child process;
    json_t *facts;         /* owned */
    char directory[256];   /* all users may enter it: only isolation keeps a sandbox out */
    char file[300];        /* in it */
    char socket_path[300]; /* in it */
    int listen_fd;
    char launcher
        [128]; /* NAME=VALUE: a secret in the environment that the daemon was started with */
    char *envp[5];
};

/* v->scratch must be in a directory that others may enter; the canary's directory is made beside it. */
int atoll_canary_start(struct atoll_canary *canary, const struct atoll_verify *v,
                       struct atoll_error *err) ATOLL_MUST_CHECK;
void atoll_canary_end(struct atoll_canary *canary);

/* Random names and free ports for a canary process. Owned by the caller; NULL without memory. */
json_t *atoll_canary_names(void);

/* "name=value" arguments, one for each fact. Owned by the caller; NULL without memory. */
json_t *atoll_facts_arguments(const json_t *facts);
/* 0, or -1 without memory. */
int atoll_facts_set(json_t *facts, const char *name, const char *fmt, ...) ATOLL_PRINTF(3, 4);
