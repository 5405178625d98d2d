/*
 * libatoll: the C client for Atoll, sandboxes for untrusted code.
 *
 *     struct atoll_client *client;
 *     struct atoll_client_error error;
 *     struct atoll_client_result *result;
 *     const char *const argv[] = {"python3", "-c", "print(6 * 7)", NULL};
 *     struct atoll_client_command command = {.size = sizeof(command), .argv = argv};
 *
 *     if (atoll_client_open(NULL, &client, &error) < 0 ||
 *         atoll_client_run(client, NULL, &command, &result, &error) < 0)
 *         errx(1, "%s", error.message);
 *     fwrite(result->output[ATOLL_CLIENT_STDOUT].bytes, 1, …);
 *
 * A client of the daemon's HTTP API; docs/api.md describes each request.
 *
 * Results      0 or more is success; a failure is a negative errno, and *error (error may be NULL)
 *              is filled. Decide by error->code, not by the errno.
 * Blocking     every call, up to the timeout of the client, unless it says otherwise.
 * Threads      a client, and the processes started with it, may be used by one thread at a time.
 *              Different clients are independent.
 * Ownership    strings that are passed in are borrowed for the call. The caller owns what is returned
 *              in `**ret` and frees it with the function named after its type; everything that such an
 *              object points to stays valid until then. Free functions accept NULL.
 * ABI          structs that the caller fills begin with `size`, their sizeof. Structs that the library
 *              returns are allocated by the library. Both grow only at their end, so a program works
 *              with every later libatoll.so.0. Zero means "the daemon's default" everywhere.
 */
#ifndef ATOLL_ATOLL_H
#define ATOLL_ATOLL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ATOLL_CLIENT_API __attribute__((visibility("default")))

/* The version of the library that is loaded, such as "0.1.0". */
ATOLL_CLIENT_API const char *atoll_client_version(void);

/* Errors. */

/* Error codes: those of gRPC. */
enum atoll_client_code {
    ATOLL_CLIENT_OK = 0,
    ATOLL_CLIENT_CANCELED = 1, /* a callback of the caller returned an error */
    ATOLL_CLIENT_UNKNOWN = 2,
    ATOLL_CLIENT_INVALID_ARGUMENT = 3,
    ATOLL_CLIENT_DEADLINE_EXCEEDED = 4,
    ATOLL_CLIENT_NOT_FOUND = 5,
    ATOLL_CLIENT_ALREADY_EXISTS = 6,
    ATOLL_CLIENT_PERMISSION_DENIED = 7,
    ATOLL_CLIENT_RESOURCE_EXHAUSTED = 8,
    ATOLL_CLIENT_FAILED_PRECONDITION = 9,
    ATOLL_CLIENT_ABORTED = 10,
    ATOLL_CLIENT_OUT_OF_RANGE = 11,
    ATOLL_CLIENT_UNIMPLEMENTED = 12,
    ATOLL_CLIENT_INTERNAL = 13,
    ATOLL_CLIENT_UNAVAILABLE = 14, /* no daemon answers, or it closed the connection */
    ATOLL_CLIENT_DATA_LOSS = 15,
    ATOLL_CLIENT_UNAUTHENTICATED = 16,
};

struct atoll_client_error {
    enum atoll_client_code code;
    int errnum;          /* the underlying errno; EREMOTEIO if the daemon refused */
    char message[512];   /* for people; never "" after a failure */
    char hint[512];      /* what to do about it, one or more lines, or "" */
    char request_id[64]; /* id of the request in the daemon's log, or "" */
    char reserved[128];
};

/* "not_found" and the like. */
ATOLL_CLIENT_API const char *atoll_client_code_name(enum atoll_client_code code);

/* The client. */

struct atoll_client;

struct atoll_client_options {
    size_t size;
    /* The path of the daemon's socket (with a '/' in it), "http://HOST:PORT" or "https://HOST:PORT".
     * NULL: ATOLL_SOCKET, else ATOLL_URL, else the default socket of root or of this user. */
    const char *address;
    const char *api_key; /* for TCP. NULL: ATOLL_API_KEY */
    const char *ca_file; /* PEM, certificates to trust. NULL: ATOLL_CA_FILE, else the system's */
    bool insecure;       /* accept any certificate; same as ATOLL_INSECURE=1 */
    int timeout_ms;      /* how long to wait for data from the daemon; 0: 60 s, -1: for ever */
};

/* Does not connect yet: the first request does. options NULL: use the environment variables.
 * INVALID_ARGUMENT. */
ATOLL_CLIENT_API int atoll_client_open(const struct atoll_client_options *options,
                                       struct atoll_client **ret_client,
                                       struct atoll_client_error *error);
/* Free processes that were started with the client first. */
ATOLL_CLIENT_API void atoll_client_close(struct atoll_client *client);
/* The address of the daemon: a socket path or URL. */
ATOLL_CLIENT_API const char *atoll_client_address(const struct atoll_client *client);
ATOLL_CLIENT_API void atoll_client_set_timeout(struct atoll_client *client, int timeout_ms);

/* Any other request of the API. `json` is the body, or NULL. *ret_json (ret_json may be NULL) is the
 * text of the answer, "" if it is empty; free it with atoll_client_release(). Answers other than 2xx are
 * errors. */
ATOLL_CLIENT_API int atoll_client_request(struct atoll_client *client, const char *method,
                                          const char *target, const char *json, char **ret_json,
                                          struct atoll_client_error *error);
/* Frees plain bytes that this library returned. */
ATOLL_CLIENT_API void atoll_client_release(void *memory);

/* Sandboxes. */

enum atoll_client_at_deadline {
    ATOLL_CLIENT_AT_DEADLINE_DEFAULT = 0,
    ATOLL_CLIENT_AT_DEADLINE_DESTROY = 1,
    ATOLL_CLIENT_AT_DEADLINE_PAUSE = 2,
};

/* Lists of strings end with NULL and may be NULL. */
struct atoll_client_sandbox_options {
    size_t size;
    const char *template_name;
    uint64_t memory_bytes, disk_bytes; /* rounded up to whole MiB */
    uint64_t pids;
    double cpus;
    double timeout_seconds;      /* lifetime; then the sandbox is destroyed or paused */
    const char *const *env;      /* "NAME=VALUE", for every command */
    const char *const *metadata; /* "NAME=VALUE" */
    const char *const *waive;  /* limits that need not be enforced: "memory", "cpu", "pids", … */
    double idle_seconds;       /* ends after this time without a command or request */
    double lease_seconds;      /* ends after this time without a heartbeat */
    double cpu_budget_seconds; /* limit on the total CPU time of all commands */
    uint64_t output_budget_bytes;
    enum atoll_client_at_deadline at_deadline;
    bool persistent;              /* its disk survives atoll_client_sandbox_stop() and restarts */
    const char *const *artifacts; /* patterns of files to keep when it ends, such as "*.png" */
    /* Chosen by the caller: a repeated request with the same key creates one sandbox only. */
    const char *idempotency_key;
    const char *provider;     /* name of a provider; NULL: any that can */
    const char *image;        /* a container image instead of a template */
    const char *isolation;    /* "namespaces", "container", "gvisor", "microvm"; NULL: any */
    const char *network_mode; /* "none", "isolated", "bridge" */
    bool recreate;            /* create it again, without its files, if its provider loses it */
    double io_mbps;           /* disk bandwidth limit in MiB per second, each way; 0: the default */
    /* Domains, addresses and ranges, such as "*.example.org", "203.0.113.0/24:443": with network_allow
     * nothing else is reached; network_deny goes first. Both mean the network mode "bridge". */
    const char *const *network_allow, *const *network_deny;
    const char *network_name; /* sandboxes of the tenant with the same one reach each other */
    uint64_t network_mbps;    /* bandwidth limit in each direction, 10^6 bits per second; 0: none */
};

/* The state of a sandbox at the time of the request. Times are RFC 3339 in UTC. */
struct atoll_client_sandbox {
    const char *id;
    const char *state; /* "running", "paused", "stopped", "failed", … */
    const char *cause; /* why it failed or stopped, or "" */
    const char *template_name;
    const char *created_at, *expires_at; /* expires_at is "" without a deadline */
    uint64_t memory_bytes, disk_bytes, pids;
    double cpus;
    const char *json; /* the daemon's complete answer */
};

ATOLL_CLIENT_API int atoll_client_sandbox_create(struct atoll_client *client,
                                                 const struct atoll_client_sandbox_options *options,
                                                 struct atoll_client_sandbox **ret_sandbox,
                                                 struct atoll_client_error *error);
/* NOT_FOUND. */
ATOLL_CLIENT_API int atoll_client_sandbox_get(struct atoll_client *client, const char *id,
                                              struct atoll_client_sandbox **ret_sandbox,
                                              struct atoll_client_error *error);
/* Lists the sandboxes of the caller's tenant, oldest first; with all_tenants (needs an admin key) those
 * of all tenants. The array ends with NULL. Returns their number. */
ATOLL_CLIENT_API int atoll_client_sandbox_list(struct atoll_client *client, bool all_tenants,
                                               struct atoll_client_sandbox ***ret_sandboxes,
                                               struct atoll_client_error *error);
/* Returns when the sandbox is completely removed. NOT_FOUND. */
ATOLL_CLIENT_API int atoll_client_sandbox_destroy(struct atoll_client *client, const char *id,
                                                  struct atoll_client_error *error);
/* Freezes the sandbox. Without keep_processes its commands are ended first. FAILED_PRECONDITION,
 * UNIMPLEMENTED if the host cannot. */
ATOLL_CLIENT_API int atoll_client_sandbox_pause(struct atoll_client *client, const char *id,
                                                bool keep_processes,
                                                struct atoll_client_error *error);
/* Continues a paused sandbox, or starts a stopped one with its disk. */
ATOLL_CLIENT_API int atoll_client_sandbox_resume(struct atoll_client *client, const char *id,
                                                 struct atoll_client_error *error);
/* Ends every process of a persistent sandbox and keeps its disk. */
ATOLL_CLIENT_API int atoll_client_sandbox_stop(struct atoll_client *client, const char *id,
                                               struct atoll_client_error *error);
/* Sets the remaining lifetime, from now on; 0: for ever. */
ATOLL_CLIENT_API int atoll_client_sandbox_set_timeout(struct atoll_client *client, const char *id,
                                                      double seconds,
                                                      struct atoll_client_error *error);
ATOLL_CLIENT_API void atoll_client_sandbox_free(struct atoll_client_sandbox *sandbox);
ATOLL_CLIENT_API void atoll_client_sandbox_list_free(struct atoll_client_sandbox **sandboxes);

/* Commands. */

struct atoll_client_command {
    size_t size;
    const char *const *argv; /* the program, searched in PATH, and its arguments; ends with NULL */
    const char *user, *cwd;  /* default: "user", the user's home */
    const char *const *env;  /* "NAME=VALUE"; overrides the sandbox's */
    double timeout_seconds;  /* then the command and all processes it started are killed */
    const void *input;       /* for run and exec: all of its standard input */
    size_t input_size;
    uint64_t output_max_bytes; /* for run and exec: most bytes kept of each stream; 0: 64 MiB */
    bool open_input;           /* for start: the caller will write input; else input is empty */
    bool pty;                  /* run on a pseudo-terminal; all output is then standard output */
    unsigned cols, rows;
};

/* Streams by the numbers of their descriptors. */
enum { ATOLL_CLIENT_STDOUT = 1, ATOLL_CLIENT_STDERR = 2, ATOLL_CLIENT_STREAMS = 3 };

/* How a command ended. Exactly one applies; the daemon reports it, it is never guessed. */
enum atoll_client_end {
    ATOLL_CLIENT_EXITED = 1,     /* by itself: exit_code */
    ATOLL_CLIENT_SIGNALED = 2,   /* by a signal from inside */
    ATOLL_CLIENT_TIMED_OUT = 3,  /* by its timeout */
    ATOLL_CLIENT_OOM_KILLED = 4, /* by the kernel: memory ran out */
    ATOLL_CLIENT_KILLED_BY = 5,  /* by a request, or with its sandbox: who */
    ATOLL_CLIENT_LOST = 6,       /* unknown: see reason */
};

struct atoll_client_output {
    const char *bytes; /* a NUL follows the last one */
    size_t size;
    bool truncated; /* there was more output than was kept */
};

struct atoll_client_result {
    enum atoll_client_end end;
    int exit_code; /* -1 unless EXITED */
    int signal;    /* 0 if none */
    const char *who, *reason;
    /* Shell exit status: exit_code, 128 + signal, 124 timed out, 137 out of memory, 125 lost. */
    int status;
    const char *sandbox_id, *exec_id;
    struct atoll_client_output
        output[ATOLL_CLIENT_STREAMS]; /* run and exec only; [0] is not used */
    double duration_seconds, user_seconds, system_seconds;
    uint64_t max_rss_bytes;
    /* The process that the out-of-memory killer ended; set even if the command itself continued. */
    struct {
        const char *process; /* "" if none was killed */
        int pid;
        uint64_t peak_bytes, limit_bytes;
    } oom;
    const char *json; /* the daemon's record */
};

/* Runs a command in a new sandbox, which is destroyed before this returns. sandbox may be NULL. A command
 * that fails is not a failure of this call: see the result. */
ATOLL_CLIENT_API int atoll_client_run(struct atoll_client *client,
                                      const struct atoll_client_sandbox_options *sandbox,
                                      const struct atoll_client_command *command,
                                      struct atoll_client_result **ret_result,
                                      struct atoll_client_error *error);
/* Runs a command in an existing sandbox until it ends. Survives a restart of the daemon. If the command
 * cannot start, fails with NOT_FOUND or another code; then nothing has run. */
ATOLL_CLIENT_API int atoll_client_exec(struct atoll_client *client, const char *sandbox_id,
                                       const struct atoll_client_command *command,
                                       struct atoll_client_result **ret_result,
                                       struct atoll_client_error *error);
ATOLL_CLIENT_API void atoll_client_result_free(struct atoll_client_result *result);

/*
 * A running command, with its output as it arrives. For plain loops (wait, next) and for poll loops:
 * before each poll(), call next with a timeout of 0 until it returns 0, because events may be buffered;
 * then poll atoll_client_process_fd() for atoll_client_process_events().
 * Back-pressure: if the caller stops taking events, the command blocks once the pipes are full.
 */
struct atoll_client_process;

enum atoll_client_event_kind {
    ATOLL_CLIENT_EVENT_STARTED =
        1, /* not returned after atoll_client_start(), which waits for it */
    ATOLL_CLIENT_EVENT_OUTPUT = 2,
    ATOLL_CLIENT_EVENT_DROPPED = 3, /* the daemon dropped bytes of a stream: see from, to */
    ATOLL_CLIENT_EVENT_END = 4,     /* see atoll_client_process_result() */
};

struct atoll_client_event {
    enum atoll_client_event_kind kind;
    int stream;        /* ATOLL_CLIENT_STDOUT or _STDERR */
    const void *bytes; /* borrowed until the next call with this process */
    size_t size;
    uint64_t from, to; /* DROPPED: offsets in the stream */
};

ATOLL_CLIENT_API int atoll_client_start(struct atoll_client *client, const char *sandbox_id,
                                        const struct atoll_client_command *command,
                                        struct atoll_client_process **ret_process,
                                        struct atoll_client_error *error);
/* Frees the object. A command that has not ended keeps running, and the daemon keeps its output. */
ATOLL_CLIENT_API void atoll_client_process_free(struct atoll_client_process *process);
ATOLL_CLIENT_API const char *atoll_client_process_exec_id(const struct atoll_client_process *p);

/* 1: an event, borrowed until the next call. 0: none within timeout_ms (0: do not wait, -1: for
 * ever). UNAVAILABLE if the connection is lost: the command continues, and atoll_client_process_wait()
 * resumes its output. */
ATOLL_CLIENT_API int atoll_client_process_next(struct atoll_client_process *process, int timeout_ms,
                                               const struct atoll_client_event **ret_event,
                                               struct atoll_client_error *error);
/* Calls output(arg, stream, bytes, size) until the command has ended. output may be NULL; if it returns
 * a negative errno, the call fails with CANCELED. Survives a restart of the daemon, except with a
 * pseudo-terminal. */
ATOLL_CLIENT_API int atoll_client_process_wait(struct atoll_client_process *process,
                                               int (*output)(void *arg, int stream,
                                                             const void *bytes, size_t size),
                                               void *arg, struct atoll_client_error *error);
/* How the command ended; NULL if it has not. Valid as long as the process object. */
ATOLL_CLIENT_API const struct atoll_client_result *atoll_client_process_result(
    const struct atoll_client_process *process);

/* Does not block: returns the number of bytes accepted, which is less than `size` (even 0) while the
 * command does not read. Then take events, and write the rest later. */
ATOLL_CLIENT_API ssize_t atoll_client_process_write(struct atoll_client_process *process,
                                                    const void *bytes, size_t size,
                                                    struct atoll_client_error *error);
ATOLL_CLIENT_API int atoll_client_process_close_input(struct atoll_client_process *process,
                                                      struct atoll_client_error *error);
/* tree: also signal all processes that it started. FAILED_PRECONDITION if the command has ended. */
ATOLL_CLIENT_API int atoll_client_process_signal(struct atoll_client_process *process, int signo,
                                                 bool tree, struct atoll_client_error *error);
ATOLL_CLIENT_API int atoll_client_process_resize(struct atoll_client_process *process,
                                                 unsigned cols, unsigned rows,
                                                 struct atoll_client_error *error);
ATOLL_CLIENT_API int atoll_client_process_fd(const struct atoll_client_process *process);
/* POLLIN, and POLLOUT while bytes are queued for the daemon. */
ATOLL_CLIENT_API short atoll_client_process_events(const struct atoll_client_process *process);

/* Reads the output of any command of a sandbox from the given offsets, while it runs or after its end.
 * With `follow` waits until the command has ended. *ret_result (ret_result may be NULL) is NULL if it has
 * not ended. */
ATOLL_CLIENT_API int atoll_client_output_read(
    struct atoll_client *client, const char *sandbox_id, const char *exec_id, uint64_t stdout_from,
    uint64_t stderr_from, bool follow,
    int (*output)(void *arg, int stream, const void *bytes, size_t size), void *arg,
    struct atoll_client_result **ret_result, struct atoll_client_error *error);

/* Files. Paths are absolute or below the home of `user`, who opens them (NULL: the default user). */

struct atoll_client_file {
    const char *path, *name;
    const char *type;   /* "file", "directory", "symlink", "other" */
    const char *target; /* of a symlink, else "" */
    const char *owner, *group;
    const char *modified_at;
    unsigned mode;
    uint64_t size;
};

/* Largest file for atoll_client_file_read(). */
#define ATOLL_CLIENT_FILE_READ_MAX ((size_t)256 * 1024 * 1024)

/* Returns the whole file, followed by a NUL; free it with atoll_client_release(). */
ATOLL_CLIENT_API int atoll_client_file_read(struct atoll_client *client, const char *sandbox_id,
                                            const char *user, const char *path, void **ret_bytes,
                                            size_t *ret_size, struct atoll_client_error *error);
/* Writes a file of any size to a descriptor. After a failure part of it may have been written. */
ATOLL_CLIENT_API int atoll_client_file_read_fd(struct atoll_client *client, const char *sandbox_id,
                                               const char *user, const char *path, int fd,
                                               struct atoll_client_error *error);
/* Writes a file atomically: on failure the old file is unchanged. Creates missing directories. mode 0:
 * 0644. */
ATOLL_CLIENT_API int atoll_client_file_write(struct atoll_client *client, const char *sandbox_id,
                                             const char *user, const char *path, unsigned mode,
                                             const void *bytes, size_t size,
                                             struct atoll_client_error *error);
/* The same with the content of a descriptor, up to end of file. */
ATOLL_CLIENT_API int atoll_client_file_write_fd(struct atoll_client *client, const char *sandbox_id,
                                                const char *user, const char *path, unsigned mode,
                                                int fd, struct atoll_client_error *error);
ATOLL_CLIENT_API int atoll_client_file_stat(struct atoll_client *client, const char *sandbox_id,
                                            const char *user, const char *path,
                                            struct atoll_client_file **ret_file,
                                            struct atoll_client_error *error);
/* Lists `depth` levels of a directory, 0 for one. The array ends with NULL. Returns their number. */
ATOLL_CLIENT_API int atoll_client_file_list(struct atoll_client *client, const char *sandbox_id,
                                            const char *user, const char *path, unsigned depth,
                                            struct atoll_client_file ***ret_files,
                                            struct atoll_client_error *error);
ATOLL_CLIENT_API int atoll_client_file_remove(struct atoll_client *client, const char *sandbox_id,
                                              const char *user, const char *path, bool recursive,
                                              struct atoll_client_error *error);
/* Also creates missing parent directories. ALREADY_EXISTS. */
ATOLL_CLIENT_API int atoll_client_file_mkdir(struct atoll_client *client, const char *sandbox_id,
                                             const char *user, const char *path,
                                             struct atoll_client_error *error);
ATOLL_CLIENT_API int atoll_client_file_move(struct atoll_client *client, const char *sandbox_id,
                                            const char *user, const char *path, const char *to,
                                            struct atoll_client_error *error);
ATOLL_CLIENT_API void atoll_client_file_free(struct atoll_client_file *file);
ATOLL_CLIENT_API void atoll_client_file_list_free(struct atoll_client_file **files);

/* Previews: access to a port of a sandbox from a browser. */

struct atoll_client_preview {
    unsigned port;
    bool is_public;
    const char *url;      /* "" while the daemon serves no TCP address */
    const char *path_url; /* below the address of the API */
    const char *token;
};

ATOLL_CLIENT_API int atoll_client_preview_open(struct atoll_client *client, const char *sandbox_id,
                                               unsigned port, bool is_public,
                                               struct atoll_client_preview **ret_preview,
                                               struct atoll_client_error *error);
ATOLL_CLIENT_API int atoll_client_preview_close(struct atoll_client *client, const char *sandbox_id,
                                                unsigned port, struct atoll_client_error *error);
ATOLL_CLIENT_API void atoll_client_preview_free(struct atoll_client_preview *preview);

/* Git in a sandbox: docs/git.md has the operations and what each takes. */

/* method and operation: "POST" and "clone", "GET" and "status", "DELETE" and "branches" …; request_json: an
 * object with the members of the request, or NULL. *ret_json (may be NULL) is the text of the answer, "" if it
 * is empty; free it with atoll_client_release(). The call returns when git has ended. */
ATOLL_CLIENT_API int atoll_client_git(struct atoll_client *client, const char *sandbox_id,
                                      const char *method, const char *operation,
                                      const char *request_json, char **ret_json,
                                      struct atoll_client_error *error);

/* Sessions: a sandbox made from an environment of the registry, and code that runs in it. */

struct atoll_client_session {
    const char *id, *sandbox_id;
    const char *environment, *state, *url;
    const char *json;
};

struct atoll_client_code_options {
    size_t size;
    const char *language;   /* NULL: that of the environment */
    double timeout_seconds; /* 0: the environment's */
};

struct atoll_client_execution {
    const char *id;
    struct atoll_client_output output[ATOLL_CLIENT_STREAMS]; /* [0] is not used */
    int exit_code;                                           /* -1 if it did not exit */
    /* "" if the code succeeded; else the exception, or "TimedOut", "OutOfMemory", … */
    const char *error_name, *error_value, *error_traceback;
    double duration_seconds;
    const char *json; /* the complete answer, with results and artifacts */
};

/* `sandbox` may be NULL: the environment's limits apply. Its template_name is ignored. */
ATOLL_CLIENT_API int atoll_client_session_create(struct atoll_client *client,
                                                 const char *environment,
                                                 const struct atoll_client_sandbox_options *sandbox,
                                                 struct atoll_client_session **ret_session,
                                                 struct atoll_client_error *error);
ATOLL_CLIENT_API int atoll_client_session_get(struct atoll_client *client, const char *id,
                                              struct atoll_client_session **ret_session,
                                              struct atoll_client_error *error);
/* Returns when the code has ended. options may be NULL. Code that fails is not a failure of this call:
 * see error_name. */
ATOLL_CLIENT_API int atoll_client_session_execute(struct atoll_client *client, const char *id,
                                                  const char *code,
                                                  const struct atoll_client_code_options *options,
                                                  struct atoll_client_execution **ret_execution,
                                                  struct atoll_client_error *error);
/* Destroys the session and its sandbox. */
ATOLL_CLIENT_API int atoll_client_session_destroy(struct atoll_client *client, const char *id,
                                                  struct atoll_client_error *error);
ATOLL_CLIENT_API void atoll_client_session_free(struct atoll_client_session *session);
ATOLL_CLIENT_API void atoll_client_execution_free(struct atoll_client_execution *execution);

#ifdef __cplusplus
}
#endif

#endif
