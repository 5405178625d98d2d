#pragma once
#include "proto/frame.h"

/*
 * What the `sudo` program inside a sandbox and the agent say to each other, over a unix socket and
 * in the frames of proto/frame.h. The client is a tenant: everything it sends is hostile.
 *
 * One command per connection: RUN, then STARTED or ERROR, signals meanwhile, EXIT at the end. When
 * the client closes first, the command is hung up on.
 */
#define ATOLL_SUDO_DIR "/run/atoll"
#define ATOLL_SUDO_SOCKET ATOLL_SUDO_DIR "/sudo.sock"

enum atoll_sudo_type {
    /* client → agent */
    ATOLL_SUDO_RUN = 1, /* atoll_sudo_run + descriptors: stdin, stdout, stderr, working directory */
    ATOLL_SUDO_SIGNAL = 2, /* atoll_sudo_signal, for the command's process group */
    /* agent → client */
    ATOLL_SUDO_STARTED = 3, /* empty */
    ATOLL_SUDO_ERROR = 4,   /* atoll_sudo_error */
    ATOLL_SUDO_EXIT = 5,    /* atoll_sudo_exit */
};

#define ATOLL_SUDO_FDS 4

/* atoll_sudo_run.flags */
#define ATOLL_SUDO_KEEP_ENV 1u /* -E */
#define ATOLL_SUDO_LOGIN 2u    /* -i: the target's login shell, in its home */
#define ATOLL_SUDO_SHELL 4u    /* -s: a shell */
#define ATOLL_SUDO_HOME 8u     /* -H: HOME of the target even with -E */

struct atoll_sudo_run {
    uint32_t flags;
    const char *user;       /* "" is root, or the caller when a group is given */
    const char *group;      /* "" is the user's */
    struct atoll_strv argv; /* may be empty for a shell */
    struct atoll_strv env;  /* the client's */
    struct atoll_strv vars; /* NAME=VALUE given on the command line */
    uint32_t terminal;      /* 1 + which of stdin, stdout, stderr is a new terminal; 0: none */
};

struct atoll_sudo_signal {
    int32_t signal;
};

struct atoll_sudo_error {
    const char *text;
    int32_t code; /* exit status for the client */
};

struct atoll_sudo_exit {
    int32_t code;
    int32_t signal; /* 0: it exited */
};

extern const struct atoll_msg_desc atoll_sudo_run_desc, atoll_sudo_signal_desc,
    atoll_sudo_error_desc, atoll_sudo_exit_desc;
