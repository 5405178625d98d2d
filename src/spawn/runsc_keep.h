#pragma once
#include "base/error.h"

/*
 * The first process of a sandbox of gVisor: starts runsc, and ends with it. At a word of spawn it lets runsc write
 * its memory to disk and end, and start from it again. It keeps the namespaces and the mounts of the sandbox
 * meanwhile, its disk among them.
 */

/* Words on the socket, one byte each: spawn's, and the answers. Another answer: the sandbox ends. */
#define ATOLL_KEEP_SAVE 'S'
#define ATOLL_KEEP_RESTORE 'R'
#define ATOLL_KEEP_SAVED 's'
#define ATOLL_KEEP_RESTORED 'r'
#define ATOLL_KEEP_FAILED 'f'

struct atoll_runsc_keep {
    const char *program, *platform, *id;
    int log_fd;       /* inherited by runsc */
    int socket_fd;    /* to spawn */
    int sandboxes_fd; /* state/sandboxes */
    uint32_t root;    /* host id of root in the sandbox */
};

/* Does not return. */
void atoll_runsc_keep(const struct atoll_runsc_keep *keep) __attribute__((noreturn));

/* Mounts a new directory sandboxes/<id>.run at `at` in the bundle. Both the agent (with the sandbox's ids) and
 * the daemon (which has no capabilities) can write to it. Other users cannot reach it, because the
 * state directory is private. */
int atoll_runsc_socket_directory(int sandboxes_fd, const char *id, uint32_t root,
                                 const char *at) ATOLL_MUST_CHECK;
