#pragma once
#include "tools/verify/child.h"
#include "tools/verify/verify.h"

/*
 * What the host has that a sandbox must not find: a file, a process with listening sockets, locks,
 * shared memory and a secret in its environment. The facts about it are what the probe is told to
 * look for: an object of strings, by the names of src/verify/probe/.
 */
struct atoll_canary {
    struct atoll_child process;
    json_t *facts;         /* owned */
    char directory[256];   /* everybody may enter it: only walls keep a sandbox out */
    char file[300];        /* in it */
    char socket_path[300]; /* in it */
    int listen_fd;
    char launcher[128]; /* NAME=VALUE: what a careless operator has in his shell */
    char *envp[5];
};

/* v->scratch must lie in a directory that others may enter; the canary's is its neighbour. */
int atoll_canary_start(struct atoll_canary *canary, const struct atoll_verify *v,
                       struct atoll_error *err) ATOLL_MUST_CHECK;
void atoll_canary_end(struct atoll_canary *canary);

/* Names and ports that nobody else uses, for a canary process anywhere. The caller's; NULL when out of
 * memory. */
json_t *atoll_canary_names(void);

/* "name=value" for each fact, as arguments. The caller's; NULL when out of memory. */
json_t *atoll_facts_arguments(const json_t *facts);
/* 0, or -1 when out of memory. */
int atoll_facts_set(json_t *facts, const char *name, const char *fmt, ...) ATOLL_PRINTF(3, 4);
