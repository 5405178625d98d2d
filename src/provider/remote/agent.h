#pragma once
#include "provider/sync.h"

/*
 * Installs our agent in a sandbox of a service. A copy with the right hash that is already there is
 * used, else the agent is uploaded; a small script starts it as root. Streams to it are made by
 * running "ATOLL_REMOTE_AGENT --relay ATOLL_REMOTE_SOCKET" in the sandbox, or over HTTP (relay.h).
 *
 * Blocking. Thread: any.
 */
/* The directory of the running agent; only root may access it. */
#define ATOLL_REMOTE_RUN_DIR "/run/atoll-agent"
#define ATOLL_REMOTE_AGENT ATOLL_REMOTE_RUN_DIR "/agent"
#define ATOLL_REMOTE_SOCKET ATOLL_REMOTE_RUN_DIR "/agent.sock"
/* Starts the relay over HTTP, if it does not run, and prints its line: see relay.h. The port follows. */
#define ATOLL_REMOTE_RELAY_COMMAND                                                     \
    ATOLL_REMOTE_AGENT " --relay " ATOLL_REMOTE_SOCKET " --http " ATOLL_REMOTE_RUN_DIR \
                       "/relay --detach --port "

struct atoll_remote_agent;

/* What upload() gets. */
enum atoll_remote_form {
    ATOLL_REMOTE_PLAIN, /* the program */
    ATOLL_REMOTE_GZIP,  /* compressed */
    ATOLL_REMOTE_TGZ,   /* in a compressed archive, as ATOLL_REMOTE_ENTRY */
};
#define ATOLL_REMOTE_ENTRY ".atoll-agent"

/* path: copied; the file is read when it is first needed, once. NULL: out of memory. */
struct atoll_remote_agent *atoll_remote_agent_new(const char *path, enum atoll_remote_form form);
struct atoll_remote_agent *atoll_remote_agent_free(struct atoll_remote_agent *agent);

/* How a process in a sandbox ended. */
struct atoll_remote_exit {
    int code;
    char text
        [200]; /* of its standard error; of both streams if the service does not tell them apart */
};

/* Where the relay over HTTP listens, and the token of its requests. */
struct atoll_remote_relay {
    uint16_t port;
    char token[33];
};

/* What the provider does for the installer, in one sandbox. */
struct atoll_remote_installer {
    /* Runs a program as root to its end. argv ends with NULL. A service whose processes have another user
     * appends the name of that user to argv: it becomes the default user of commands. */
    int (*run)(void *arg, const struct atoll_sync_call *call, const char *const *argv,
               struct atoll_remote_exit *ret, struct atoll_error *err);
    /* Writes a file and makes its parent directories; not always as root. Repeatable. */
    int (*upload)(void *arg, const struct atoll_sync_call *call, const char *path,
                  const void *bytes, size_t n, struct atoll_error *err);
    void *arg;
    const char *upload_to; /* where upload() can write; NULL: anywhere */
    bool http;             /* also starts the relay over HTTP */
    uint16_t port;         /* where it listens, at all addresses; 0: a free port of 127.0.0.1 */
};

/* A command for a shell that runs argv as root and appends the name of the user to argv if it is not
 * root. NULL: out of memory. The caller frees it. */
char *atoll_remote_as_root(const char *const *argv);

/* Uploads the agent if it is not there, and starts it. ret: what the script printed. Errors are those of
 * the installer; FAILED_PRECONDITION if it does not start. */
int atoll_remote_agent_start(struct atoll_remote_agent *agent, const struct atoll_sync_call *call,
                             const struct atoll_remote_installer *installer,
                             struct atoll_remote_exit *ret,
                             struct atoll_error *err) ATOLL_MUST_CHECK;
