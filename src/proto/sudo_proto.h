#pragma once
#include "proto/frame.h"

/*
 * Messages between the `sudo` program inside a sandbox (the client) and the agent, over a unix
 * socket in the frames of proto/frame.h. The client belongs to a tenant: its input is hostile.
 *
 * One command per connection: RUN, then STARTED or ERROR, any number of SIGNALs, EXIT at the end.
 * If the client closes first, the command gets SIGHUP.
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
#define ATOLL_SUDO_HOME 8u     /* -H: the target's HOME even with -E */

struct atoll_sudo_run {
    uint32_t flags;
    const char *user;       /* "": root, or the caller if a group is given */
    const char *group;      /* "": the user's primary group */
    struct atoll_strv argv; /* may be empty for a shell */
    struct atoll_strv env;  /* the client's environment */
    struct atoll_strv vars; /* NAME=VALUE given on the command line */
    uint32_t terminal; /* 1 + index of the standard stream that is a new terminal; 0: no terminal */
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
