/*
 * libatoll: sandboxes for code nobody has to trust, from C.
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
 * A client of the daemon's HTTP API; docs/api.md says what the daemon does with each call.
 *
 * Results      0 or more is success; a failure is a negative errno, with *error (which may be NULL)
 *              filled. error->code is the reason to act on, never the errno.
 * Blocking     every call, up to the timeout of the client, unless it says otherwise.
 * Threads      a client, and what was started with it, belongs to one thread at a time. Different
 *              clients are independent.
 * Ownership    strings that are passed in are borrowed for the call. What comes out as `**ret` is the
 *              caller's, to be released with the function named after its type; everything such
 *              an object points to lives as long as it does. Release functions accept NULL.
 * Growing      structs that the caller fills begin with `size`, their sizeof. Structs that the library
 *              fills are made by the library. Both grow only at their end, so a program goes on
 *              working with every later libatoll.so.0. Zero means "the daemon's default" everywhere.
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

/* What went wrong, by meaning: the codes of gRPC. */
enum atoll_client_code {
    ATOLL_CLIENT_OK = 0,
    ATOLL_CLIENT_CANCELED = 1, /* a callback of the caller gave up */
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
    ATOLL_CLIENT_UNAVAILABLE = 14, /* no daemon answers there, or it hung up */
    ATOLL_CLIENT_DATA_LOSS = 15,
    ATOLL_CLIENT_UNAUTHENTICATED = 16,
};

struct atoll_client_error {
    enum atoll_client_code code;
    int errnum;          /* the errno behind it; EREMOTEIO when the daemon refused */
    char message[512];   /* for people; never "" after a failure */
    char hint[512];      /* what to do about it, in a line or more, or "" */
    char request_id[64]; /* finds it in the daemon's log, or "" */
    char reserved[128];
};

/* "not_found" and the like. */
ATOLL_CLIENT_API const char *atoll_client_code_name(enum atoll_client_code code);

/* The client. */

struct atoll_client;

struct atoll_client_options {
    size_t size;
    /* The path of the daemon's socket (with a '/' in it), "http://HOST:PORT" or "https://HOST:PORT".
     * NULL: ATOLL_SOCKET, else ATOLL_URL, else the usual socket of root or of this user. */
    const char *address;
    const char *api_key; /* for TCP. NULL: ATOLL_API_KEY */
    const char *ca_file; /* PEM, whom to trust with https. NULL: ATOLL_CA_FILE, else the system's */
    bool insecure;       /* trust anybody; so does ATOLL_INSECURE=1 */
    int timeout_ms;      /* longest silence of the daemon; 0: 60 s, -1: for ever */
};

/* Connects with the first request, not here. options NULL: all by the environment.
 * INVALID_ARGUMENT. */
ATOLL_CLIENT_API int atoll_client_open(const struct atoll_client_options *options,
                                       struct atoll_client **ret_client,
                                       struct atoll_client_error *error);
/* Processes started with it are released first. */
ATOLL_CLIENT_API void atoll_client_close(struct atoll_client *client);
/* Where it looks for the daemon. */
ATOLL_CLIENT_API const char *atoll_client_address(const struct atoll_client *client);
ATOLL_CLIENT_API void atoll_client_set_timeout(struct atoll_client *client, int timeout_ms);

/* Any other request of the API. `json` is the body, or NULL. *ret_json (which may be NULL) is the
 * text of the answer, "" when it has none; release it with atoll_client_release(). Answers other than
 * 2xx are errors. */
ATOLL_CLIENT_API int atoll_client_request(struct atoll_client *client, const char *method,
                                          const char *target, const char *json, char **ret_json,
                                          struct atoll_client_error *error);
/* Releases memory that came out of this library as plain bytes. */
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
    double timeout_seconds;      /* the sandbox is destroyed, or paused, then */
    const char *const *env;      /* "NAME=VALUE", for every command */
    const char *const *metadata; /* "NAME=VALUE" */
    const char *const *waive;    /* limits to do without: "memory", "cpu", "pids", "disk", "all" */
    double idle_seconds;         /* without a command or request before it ends */
    double lease_seconds;        /* without a heartbeat before it ends */
    double cpu_budget_seconds;   /* CPU time of all commands together */
    uint64_t output_budget_bytes;
    enum atoll_client_at_deadline at_deadline;
    bool persistent;              /* its disk survives atoll_client_sandbox_stop() and the daemon */
    const char *const *artifacts; /* patterns of files to keep when it ends, such as "*.png" */
    /* Made up by the caller: the same request with the same key is done once. */
    const char *idempotency_key;
    const char *provider;     /* who makes it; NULL: whoever can */
    const char *image;        /* a container image instead of a template */
    const char *isolation;    /* "namespaces", "container", "gvisor", "microvm"; NULL: any */
    const char *network_mode; /* "none", "isolated", "bridge" */
    bool recreate;            /* made again, without its files, when its provider loses it */
};

/* A sandbox as it was when asked. Times are RFC 3339 in UTC. */
struct atoll_client_sandbox {
    const char *id;
    const char *state; /* "running", "paused", "stopped", "failed", … */
    const char *cause; /* why it failed or stopped, or "" */
    const char *template_name;
    const char *created_at, *expires_at; /* "" when it lives for ever */
    uint64_t memory_bytes, disk_bytes, pids;
    double cpus;
    const char *json; /* all the daemon says */
};

ATOLL_CLIENT_API int atoll_client_sandbox_create(struct atoll_client *client,
                                                 const struct atoll_client_sandbox_options *options,
                                                 struct atoll_client_sandbox **ret_sandbox,
                                                 struct atoll_client_error *error);
/* NOT_FOUND. */
ATOLL_CLIENT_API int atoll_client_sandbox_get(struct atoll_client *client, const char *id,
                                              struct atoll_client_sandbox **ret_sandbox,
                                              struct atoll_client_error *error);
/* All of the caller's tenant, oldest first; of all tenants for an admin who says so. The array ends
 * with NULL. Returns how many. */
ATOLL_CLIENT_API int atoll_client_sandbox_list(struct atoll_client *client, bool all_tenants,
                                               struct atoll_client_sandbox ***ret_sandboxes,
                                               struct atoll_client_error *error);
/* Done when nothing of it is left. NOT_FOUND. */
ATOLL_CLIENT_API int atoll_client_sandbox_destroy(struct atoll_client *client, const char *id,
                                                  struct atoll_client_error *error);
/* Freezes it. Without keep_processes its commands are ended first. FAILED_PRECONDITION,
 * UNIMPLEMENTED where the host cannot. */
ATOLL_CLIENT_API int atoll_client_sandbox_pause(struct atoll_client *client, const char *id,
                                                bool keep_processes,
                                                struct atoll_client_error *error);
/* Goes on after a pause, or starts a stopped one on the disk it had. */
ATOLL_CLIENT_API int atoll_client_sandbox_resume(struct atoll_client *client, const char *id,
                                                 struct atoll_client_error *error);
/* Ends every process of a persistent sandbox and keeps its disk. */
ATOLL_CLIENT_API int atoll_client_sandbox_stop(struct atoll_client *client, const char *id,
                                               struct atoll_client_error *error);
/* How long it may live from now on; 0: for ever. */
ATOLL_CLIENT_API int atoll_client_sandbox_set_timeout(struct atoll_client *client, const char *id,
                                                      double seconds,
                                                      struct atoll_client_error *error);
ATOLL_CLIENT_API void atoll_client_sandbox_free(struct atoll_client_sandbox *sandbox);
ATOLL_CLIENT_API void atoll_client_sandbox_list_free(struct atoll_client_sandbox **sandboxes);

/* Commands. */

struct atoll_client_command {
    size_t size;
    const char *const *argv; /* the program, looked for in PATH, and its arguments */
    const char *user, *cwd;  /* default: "user", the user's home */
    const char *const *env;  /* "NAME=VALUE", over the sandbox's */
    double timeout_seconds;  /* then it is killed, with all it started */
    const void *input;       /* for run and exec: all of its standard input */
    size_t input_size;
    uint64_t output_max_bytes; /* for run and exec: most that is kept of each stream; 0: 64 MiB */
    bool open_input;           /* for start: the caller will write input; else there is none */
    bool pty;                  /* give it a terminal; all output is then standard output */
    unsigned cols, rows;
};

/* Streams by the numbers of their descriptors. */
enum { ATOLL_CLIENT_STDOUT = 1, ATOLL_CLIENT_STDERR = 2, ATOLL_CLIENT_STREAMS = 3 };

/* How a command ended. Exactly one of these is true, and none is ever inferred. */
enum atoll_client_end {
    ATOLL_CLIENT_EXITED = 1,     /* by itself: exit_code */
    ATOLL_CLIENT_SIGNALED = 2,   /* by a signal from inside */
    ATOLL_CLIENT_TIMED_OUT = 3,  /* by its timeout */
    ATOLL_CLIENT_OOM_KILLED = 4, /* by the kernel: memory ran out */
    ATOLL_CLIENT_KILLED_BY = 5,  /* by a request, or with its sandbox: who */
    ATOLL_CLIENT_LOST = 6,       /* nobody knows: reason */
};

struct atoll_client_output {
    const char *bytes; /* a NUL follows the last one */
    size_t size;
    bool truncated; /* there was more than was kept */
};

struct atoll_client_result {
    enum atoll_client_end end;
    int exit_code; /* -1 unless EXITED */
    int signal;    /* 0 when there was none */
    const char *who, *reason;
    /* What a shell would say: exit_code, 128 + signal, 124 timed out, 137 out of memory, 125 lost. */
    int status;
    const char *sandbox_id, *exec_id;
    struct atoll_client_output
        output[ATOLL_CLIENT_STREAMS]; /* run and exec only; [0] is not used */
    double duration_seconds, user_seconds, system_seconds;
    uint64_t max_rss_bytes;
    /* What the kernel killed for memory; also there when the command itself went on. */
    struct {
        const char *process; /* "" when nothing was killed */
        int pid;
        uint64_t peak_bytes, limit_bytes;
    } oom;
    const char *json; /* the record as the daemon has it */
};

/* Runs a command in a sandbox of its own, which is gone when this returns. sandbox may be NULL. That
 * the command failed is no failure of this call: see the result. */
ATOLL_CLIENT_API int atoll_client_run(struct atoll_client *client,
                                      const struct atoll_client_sandbox_options *sandbox,
                                      const struct atoll_client_command *command,
                                      struct atoll_client_result **ret_result,
                                      struct atoll_client_error *error);
/* Runs a command in a sandbox to its end. A daemon that restarts meanwhile does not matter.
 * NOT_FOUND and so on when it cannot start; then nothing has run. */
ATOLL_CLIENT_API int atoll_client_exec(struct atoll_client *client, const char *sandbox_id,
                                       const struct atoll_client_command *command,
                                       struct atoll_client_result **ret_result,
                                       struct atoll_client_error *error);
ATOLL_CLIENT_API void atoll_client_result_free(struct atoll_client_result *result);

/*
 * A command that runs: its output as it comes. Made for plain loops (wait, next) and for poll loops:
 * before each poll call next with a timeout of 0 until it returns 0, since events may be waiting
 * inside; then poll the descriptor for the events told. Whoever stops asking for events stops the
 * command as soon as the pipes are full: that is the back-pressure.
 */
struct atoll_client_process;

enum atoll_client_event_kind {
    ATOLL_CLIENT_EVENT_STARTED = 1, /* not seen after atoll_client_start(), which waits for it */
    ATOLL_CLIENT_EVENT_OUTPUT = 2,
    ATOLL_CLIENT_EVENT_DROPPED = 3, /* the daemon did not keep so many bytes of a stream */
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
/* Leaves the command running if it has not ended; its output is kept. */
ATOLL_CLIENT_API void atoll_client_process_free(struct atoll_client_process *process);
ATOLL_CLIENT_API const char *atoll_client_process_exec_id(const struct atoll_client_process *p);

/* 1: an event, borrowed until the next call. 0: none within timeout_ms (0: do not wait, -1: for
 * ever). UNAVAILABLE when the connection is lost: the command goes on, and atoll_client_process_wait()
 * takes its output up where it was. */
ATOLL_CLIENT_API int atoll_client_process_next(struct atoll_client_process *process, int timeout_ms,
                                               const struct atoll_client_event **ret_event,
                                               struct atoll_client_error *error);
/* Calls output(arg, stream, bytes, size) until the command has ended; output may be NULL, and gives up
 * with a negative errno (CANCELED). Survives a restart of the daemon, but with a terminal. */
ATOLL_CLIENT_API int atoll_client_process_wait(struct atoll_client_process *process,
                                               int (*output)(void *arg, int stream,
                                                             const void *bytes, size_t size),
                                               void *arg, struct atoll_client_error *error);
/* How it ended; NULL while it has not. Lives as long as the process object. */
ATOLL_CLIENT_API const struct atoll_client_result *atoll_client_process_result(
    const struct atoll_client_process *process);

/* Does not block: returns how many bytes were taken, fewer than `size` (even 0) while the command
 * does not read. Then take events, and write the rest later. */
ATOLL_CLIENT_API ssize_t atoll_client_process_write(struct atoll_client_process *process,
                                                    const void *bytes, size_t size,
                                                    struct atoll_client_error *error);
ATOLL_CLIENT_API int atoll_client_process_close_input(struct atoll_client_process *process,
                                                      struct atoll_client_error *error);
/* tree: also to everything it started. FAILED_PRECONDITION when it has ended. */
ATOLL_CLIENT_API int atoll_client_process_signal(struct atoll_client_process *process, int signo,
                                                 bool tree, struct atoll_client_error *error);
ATOLL_CLIENT_API int atoll_client_process_resize(struct atoll_client_process *process,
                                                 unsigned cols, unsigned rows,
                                                 struct atoll_client_error *error);
ATOLL_CLIENT_API int atoll_client_process_fd(const struct atoll_client_process *process);
/* POLLIN, and POLLOUT while bytes are waiting to go out. */
ATOLL_CLIENT_API short atoll_client_process_events(const struct atoll_client_process *process);

/* The output of any command of a sandbox from any offset on, during and after its run. With `follow`
 * it stays until the command has ended. *ret_result (may be NULL) is NULL while it has not. */
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

/* Most bytes atoll_client_file_read() takes into memory. */
#define ATOLL_CLIENT_FILE_READ_MAX ((size_t)256 * 1024 * 1024)

/* The whole file and a NUL behind it; release with atoll_client_release(). */
ATOLL_CLIENT_API int atoll_client_file_read(struct atoll_client *client, const char *sandbox_id,
                                            const char *user, const char *path, void **ret_bytes,
                                            size_t *ret_size, struct atoll_client_error *error);
/* Any size, written to a descriptor. After a failure what was written so far is there. */
ATOLL_CLIENT_API int atoll_client_file_read_fd(struct atoll_client *client, const char *sandbox_id,
                                               const char *user, const char *path, int fd,
                                               struct atoll_client_error *error);
/* The file is there whole or as it was before; missing directories are made. mode 0: 0644. */
ATOLL_CLIENT_API int atoll_client_file_write(struct atoll_client *client, const char *sandbox_id,
                                             const char *user, const char *path, unsigned mode,
                                             const void *bytes, size_t size,
                                             struct atoll_client_error *error);
/* From a descriptor to its end. */
ATOLL_CLIENT_API int atoll_client_file_write_fd(struct atoll_client *client, const char *sandbox_id,
                                                const char *user, const char *path, unsigned mode,
                                                int fd, struct atoll_client_error *error);
ATOLL_CLIENT_API int atoll_client_file_stat(struct atoll_client *client, const char *sandbox_id,
                                            const char *user, const char *path,
                                            struct atoll_client_file **ret_file,
                                            struct atoll_client_error *error);
/* `depth` levels of a directory, 0 for one. The array ends with NULL. Returns how many. */
ATOLL_CLIENT_API int atoll_client_file_list(struct atoll_client *client, const char *sandbox_id,
                                            const char *user, const char *path, unsigned depth,
                                            struct atoll_client_file ***ret_files,
                                            struct atoll_client_error *error);
ATOLL_CLIENT_API int atoll_client_file_remove(struct atoll_client *client, const char *sandbox_id,
                                              const char *user, const char *path, bool recursive,
                                              struct atoll_client_error *error);
/* With the directories above it. ALREADY_EXISTS. */
ATOLL_CLIENT_API int atoll_client_file_mkdir(struct atoll_client *client, const char *sandbox_id,
                                             const char *user, const char *path,
                                             struct atoll_client_error *error);
ATOLL_CLIENT_API int atoll_client_file_move(struct atoll_client *client, const char *sandbox_id,
                                            const char *user, const char *path, const char *to,
                                            struct atoll_client_error *error);
ATOLL_CLIENT_API void atoll_client_file_free(struct atoll_client_file *file);
ATOLL_CLIENT_API void atoll_client_file_list_free(struct atoll_client_file **files);

/* Previews: a port of a sandbox for browsers. */

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

/* Sessions: a sandbox of an environment out of the registry, and code run in it. */

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
    int exit_code;                                           /* -1 when it did not exit */
    /* "" when the code ended well; else the exception, or "TimedOut", "OutOfMemory", … */
    const char *error_name, *error_value, *error_traceback;
    double duration_seconds;
    const char *json; /* results and artifacts as well */
};

/* `sandbox` may be NULL: the environment's limits. Its template does not count. */
ATOLL_CLIENT_API int atoll_client_session_create(struct atoll_client *client,
                                                 const char *environment,
                                                 const struct atoll_client_sandbox_options *sandbox,
                                                 struct atoll_client_session **ret_session,
                                                 struct atoll_client_error *error);
ATOLL_CLIENT_API int atoll_client_session_get(struct atoll_client *client, const char *id,
                                              struct atoll_client_session **ret_session,
                                              struct atoll_client_error *error);
/* Answers when the code has ended. options may be NULL. That the code failed is no failure of this
 * call: see error_name. */
ATOLL_CLIENT_API int atoll_client_session_execute(struct atoll_client *client, const char *id,
                                                  const char *code,
                                                  const struct atoll_client_code_options *options,
                                                  struct atoll_client_execution **ret_execution,
                                                  struct atoll_client_error *error);
/* With its sandbox. */
ATOLL_CLIENT_API int atoll_client_session_destroy(struct atoll_client *client, const char *id,
                                                  struct atoll_client_error *error);
ATOLL_CLIENT_API void atoll_client_session_free(struct atoll_client_session *session);
ATOLL_CLIENT_API void atoll_client_execution_free(struct atoll_client_execution *execution);

#ifdef __cplusplus
}
#endif

#endif
