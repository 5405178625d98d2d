#pragma once
#include "proto/frame.h"

/*
 * The agent protocol: messages between the daemon and the agent (PID 1 of a sandbox).
 * docs/agent-protocol.md describes it; this file is authoritative for types and fields.
 *
 * The daemon sends requests (frame id: a request number of its choice, never 0). The agent answers
 * each request with exactly one REPLY or ERROR of that id, after any number of PARTs where the
 * request is documented to have them.
 * Frames from the agent with id 0 are events. Both sides treat the other's bytes as hostile.
 */
#define ATOLL_AGENT_VERSION 1

enum atoll_agent_type {
    /* answers and events, agent → daemon */
    ATOLL_AGENT_REPLY = 1,       /* payload by the request */
    ATOLL_AGENT_ERROR = 2,       /* atoll_am_error */
    ATOLL_AGENT_PART = 3,        /* payload by the request; more follow */
    ATOLL_AGENT_EXEC_OUTPUT = 4, /* event, atoll_am_output */
    ATOLL_AGENT_EXEC_EXIT = 5,   /* event, atoll_am_exit */
    ATOLL_AGENT_WATCH_EVENT = 6, /* event, atoll_am_watch_event */

    /* requests, daemon → agent */
    ATOLL_AGENT_HELLO = 32, /* atoll_am_hello → atoll_am_hello; first frame of a connection */
    /* Instead of HELLO: atoll_am_connect → empty; from then on the connection is a byte stream to
     * that port. */
    ATOLL_AGENT_TUNNEL = 33,

    ATOLL_AGENT_EXEC_START = 40,       /* atoll_am_exec_start → atoll_am_exec_started */
    ATOLL_AGENT_EXEC_STDIN = 41,       /* atoll_am_stdin → empty, once buffered */
    ATOLL_AGENT_EXEC_STDIN_CLOSE = 42, /* atoll_am_exec_ref → empty */
    ATOLL_AGENT_EXEC_SIGNAL = 43,      /* atoll_am_signal → empty */
    ATOLL_AGENT_EXEC_RESIZE = 44,      /* atoll_am_resize → empty */
    ATOLL_AGENT_EXEC_RESUME = 45,      /* atoll_am_resume → empty; re-sends from the offsets */
    ATOLL_AGENT_EXEC_LIST = 46,        /* empty → PART atoll_am_exec_info …, REPLY empty */
    ATOLL_AGENT_EXEC_ACK = 47,         /* atoll_am_ack; no answer */
    ATOLL_AGENT_EXEC_FORGET =
        48, /* atoll_am_exec_ref; no answer; the daemon has stored the record */
    ATOLL_AGENT_PROCESS_LIST = 49, /* empty → PART atoll_am_process …, REPLY empty */

    ATOLL_AGENT_FILE_STAT = 60,   /* atoll_am_path → atoll_am_entry */
    ATOLL_AGENT_FILE_LIST = 61,   /* atoll_am_list → PART atoll_am_entry …, REPLY empty */
    ATOLL_AGENT_FILE_OPEN = 62,   /* atoll_am_path → atoll_am_opened (+ descriptor) */
    ATOLL_AGENT_FILE_READ = 63,   /* atoll_am_read → atoll_am_data; short only at the end */
    ATOLL_AGENT_FILE_CREATE = 64, /* atoll_am_create → atoll_am_opened (+ descriptor) */
    ATOLL_AGENT_FILE_WRITE = 65,  /* atoll_am_write → empty */
    ATOLL_AGENT_FILE_COMMIT = 66, /* atoll_am_handle → atoll_am_entry; the file is in place now */
    ATOLL_AGENT_FILE_CLOSE = 67,  /* atoll_am_handle → empty; drops an uncommitted file */
    ATOLL_AGENT_FILE_MKDIR = 68,  /* atoll_am_mkdir → atoll_am_entry */
    ATOLL_AGENT_FILE_RENAME = 69, /* atoll_am_two_paths → atoll_am_entry */
    ATOLL_AGENT_FILE_REMOVE = 70, /* atoll_am_path (recursive) → empty */
    ATOLL_AGENT_FILE_CHMOD = 71,  /* atoll_am_chmod → empty */
    ATOLL_AGENT_FILE_CHOWN = 72,  /* atoll_am_chown → empty */
    ATOLL_AGENT_FILE_SYMLINK = 73, /* atoll_am_two_paths (target, link) → empty */
    ATOLL_AGENT_XATTR_GET = 74,    /* atoll_am_xattr → atoll_am_data */
    ATOLL_AGENT_XATTR_SET = 75,    /* atoll_am_xattr → empty */
    ATOLL_AGENT_XATTR_LIST = 76,   /* atoll_am_xattr → PART atoll_am_xattr …, REPLY empty */
    ATOLL_AGENT_XATTR_REMOVE = 77, /* atoll_am_xattr → empty */

    ATOLL_AGENT_WATCH_START = 80, /* atoll_am_watch → atoll_am_handle */
    ATOLL_AGENT_WATCH_STOP = 81,  /* atoll_am_handle → empty */

    ATOLL_AGENT_CONNECT = 90, /* atoll_am_connect → empty + descriptor of the connected socket */
    ATOLL_AGENT_USAGE = 91,   /* empty → atoll_am_usage */
    ATOLL_AGENT_NOTE_PUT =
        92, /* atoll_am_data → empty: bytes the agent keeps for the next daemon */
    ATOLL_AGENT_NOTE_GET = 93, /* empty → atoll_am_data: the bytes of the last NOTE_PUT, or empty */
    ATOLL_AGENT_PAUSE = 94,  /* atoll_am_pause → empty: time limits are suspended until RESUME */
    ATOLL_AGENT_RESUME = 95, /* empty → empty: time limits continue if they were suspended */
    ATOLL_AGENT_PING = 96,   /* empty → empty; an agent without it answers UNIMPLEMENTED */
    /* atoll_am_mkdir → empty: makes the directory, with root's rights, for the user. It is the
     * working directory of commands without one, and relative paths begin there. */
    ATOLL_AGENT_WORKDIR = 97,
    /* atoll_am_user → empty: the default user of requests from now on. INVALID_ARGUMENT: the sandbox has
     * no such user. FAILED_PRECONDITION: it has only one user id, of another user. */
    ATOLL_AGENT_USER = 98,
    /* empty → empty, then the agent closes all connections and its listening socket, and listens again as
     * soon as it can. FAILED_PRECONDITION: a process has a socket that a checkpoint cannot contain. */
    ATOLL_AGENT_LEAVE = 99,
};

/* atoll_am_hello.features */
#define ATOLL_AGENT_FEATURE_FDS 1u /* the transport passes descriptors; used if both sides set it */
#define ATOLL_AGENT_FEATURE_SUDO 2u /* sudo works inside */

struct atoll_am_hello {
    uint32_t version;
    uint32_t features;
    uint32_t pid; /* agent → daemon: 1 in a sandbox of its own */
    int64_t started_unix_ms;
};

struct atoll_am_error {
    uint32_t kind; /* enum atoll_error_kind */
    int32_t errnum;
    const char *text;
};

/* atoll_am_exec_start.flags */
#define ATOLL_EXEC_PTY 1u   /* one terminal; output is all on stdout */
#define ATOLL_EXEC_STDIN 2u /* keep stdin open for EXEC_STDIN; otherwise it is /dev/null */

struct atoll_am_exec_start {
    uint64_t exec; /* chosen by the daemon, unique in this sandbox */
    uint32_t flags;
    const char *user;       /* name or number; "": the template's default user */
    const char *cwd;        /* "": that of WORKDIR, else the user's home */
    struct atoll_strv argv; /* argv[0] is looked up in PATH of env, or in the default PATH */
    struct atoll_strv env;  /* NAME=VALUE, added to the agent's small default environment */
    uint32_t timeout_ms;    /* 0: none. On expiry the whole tree is killed: TIMED_OUT */
    uint32_t cols, rows;    /* of the terminal */
    uint32_t window; /* unacknowledged output kept before back-pressure; 0: default 256 KiB */
};

struct atoll_am_exec_started {
    uint32_t pid; /* in the sandbox's pid namespace */
};

struct atoll_am_exec_ref {
    uint64_t exec;
};

struct atoll_am_stdin {
    uint64_t exec;
    uint64_t offset; /* of the first byte; bytes already received are skipped, a gap is an error */
    struct atoll_bytes data;
};

#define ATOLL_EXEC_EVERY 0 /* with tree: every process except the agent */
struct atoll_am_signal {
    uint64_t exec;
    int32_t signal;
    uint8_t tree;    /* 0: the process only, 1: its descendants too */
    const char *who; /* kept for the KILLED_BY record */
};

struct atoll_am_resize {
    uint64_t exec;
    uint32_t cols, rows;
};

struct atoll_am_resume {
    uint64_t exec;
    uint64_t stdout_offset, stderr_offset; /* first byte wanted */
};

#define ATOLL_STREAM_STDOUT 1
#define ATOLL_STREAM_STDERR 2

struct atoll_am_ack {
    uint64_t exec;
    uint8_t stream;
    uint64_t offset; /* the daemon has stored everything before it */
};

struct atoll_am_output {
    uint64_t exec;
    uint8_t stream;
    uint64_t offset; /* of the first byte */
    struct atoll_bytes data;
};

/* How a command ended. The same numbers are used in records and in the API. */
enum atoll_end_kind {
    ATOLL_END_EXITED = 1,
    ATOLL_END_SIGNALED = 2,
    ATOLL_END_TIMED_OUT = 3,
    ATOLL_END_OOM_KILLED = 4,
    ATOLL_END_KILLED_BY = 5,
    ATOLL_END_LOST = 6, /* set by the daemon, never sent by an agent */
};

struct atoll_am_exit {
    uint64_t exec;
    uint32_t kind;
    int32_t code;   /* EXITED */
    int32_t signal; /* SIGNALED, KILLED_BY, OOM_KILLED, TIMED_OUT */
    const char *who;
    uint64_t stdout_bytes, stderr_bytes; /* the whole output */
    uint64_t user_us, system_us, max_rss_bytes;
    /* Out-of-memory kills that happened while the command ran; oom_kills 0: there were none. */
    uint32_t oom_kills;
    uint32_t oom_pid;        /* 0 if the victim was not this process */
    const char *oom_process; /* the victim's name */
    uint64_t oom_peak_bytes, oom_limit_bytes;
    int64_t ended_unix_ms;
};

struct atoll_am_exec_info {
    uint64_t exec;
    uint32_t pid;
    uint8_t ended;
    uint64_t stdout_bytes, stderr_bytes; /* produced so far */
    uint64_t stdin_bytes;                /* received so far */
    int64_t started_unix_ms;
    uint64_t stdout_acked, stderr_acked; /* acknowledged: earlier bytes were discarded */
};

struct atoll_am_process {
    uint32_t pid, parent, uid;
    uint8_t state; /* letter as in /proc/PID/stat */
    uint64_t rss_bytes, cpu_us;
    const char *command;
};

struct atoll_am_path {
    const char *user;
    const char *path;
    uint8_t follow;    /* FILE_STAT: follow a final symbolic link */
    uint8_t recursive; /* FILE_REMOVE */
    /* FILE_STAT: return extended attributes with this name prefix, and the targets of links; "":
     * neither. */
    const char *attributes;
};

struct atoll_am_list {
    const char *user;
    const char *path;
    uint32_t depth; /* 1: the directory itself only */
    uint32_t max_entries;
    const char *attributes; /* as in atoll_am_path */
};

/* atoll_am_entry.type */
enum atoll_entry_type {
    ATOLL_ENTRY_FILE = 1,
    ATOLL_ENTRY_DIRECTORY = 2,
    ATOLL_ENTRY_SYMLINK = 3,
    ATOLL_ENTRY_OTHER = 4,
};

struct atoll_am_entry {
    const char *path; /* absolute */
    uint8_t type;
    uint32_t mode; /* permission bits */
    uint32_t uid, gid;
    const char *owner, *group; /* names, or numbers if the id has no name */
    uint64_t size_bytes;
    int64_t mtime_ms;
    const char *target; /* of a symbolic link */
    /* Only if the request asked for attributes: */
    struct atoll_bytes attributes; /* name NUL value NUL …; only attributes whose value is text */
    const char *resolved;          /* symbolic link whose target exists: the target's real path, */
    uint8_t resolved_type;         /* its type */
    uint32_t resolved_mode;
};

struct atoll_am_opened {
    uint32_t handle;
    uint64_t size_bytes; /* FILE_OPEN */
};

struct atoll_am_handle {
    uint32_t handle;
};

struct atoll_am_read {
    uint32_t handle;
    uint64_t offset;
    uint32_t length; /* at most ATOLL_AGENT_DATA_MAX */
};

#define ATOLL_AGENT_DATA_MAX (128 * 1024)

struct atoll_am_data {
    struct atoll_bytes data;
};

struct atoll_am_create {
    const char *user;
    const char *path;
    uint32_t mode;     /* 0: the mode of the file being replaced, else 0644 */
    uint8_t parents;   /* create missing directories */
    uint8_t exclusive; /* fail with ALREADY_EXISTS instead of replacing */
    uint8_t in_place; /* truncate and write the existing file; CLOSE undoes that, COMMIT keeps it */
};

struct atoll_am_write {
    uint32_t handle;
    uint64_t offset;
    struct atoll_bytes data;
};

struct atoll_am_mkdir {
    const char *user;
    const char *path;
    uint32_t mode;   /* 0: 0755 */
    uint8_t parents; /* like mkdir -p: an existing directory is not an error */
};

struct atoll_am_two_paths {
    const char *user;
    const char *from; /* or the target of a symbolic link */
    const char *to;
};

struct atoll_am_chmod {
    const char *user;
    const char *path;
    uint32_t mode;
};

struct atoll_am_chown {
    const char *user; /* the user to act as */
    const char *path;
    const char *owner, *group; /* name or number; "": unchanged */
};

struct atoll_am_xattr {
    const char *user;
    const char *path;
    const char *name; /* with its "user." prefix; other namespaces are refused */
    struct atoll_bytes value;
};

struct atoll_am_watch {
    const char *user;
    const char *path;
    uint8_t recursive;
};

enum atoll_watch_kind {
    ATOLL_WATCH_CREATE = 1,
    ATOLL_WATCH_WRITE = 2,
    ATOLL_WATCH_REMOVE = 3,
    ATOLL_WATCH_RENAME = 4,
    ATOLL_WATCH_CHMOD = 5,
    ATOLL_WATCH_OVERFLOW = 6, /* events were lost: the client must list again */
};

struct atoll_am_watch_event {
    uint32_t handle;
    uint8_t kind;
    const char *name; /* relative to the watched directory */
};

struct atoll_am_connect {
    uint32_t port;    /* TCP on the sandbox's loopback, or */
    const char *path; /* a unix socket */
    const char *user;
};

struct atoll_am_user {
    const char *user; /* NAME, UID, NAME:GROUP … */
};

struct atoll_am_pause {
    uint8_t
        end_processes; /* kill all processes except the agent; answered once they are gone, their
                              exit events are sent and boot_id has a new value */
    const char *who;   /* stored in their KILLED_BY records */
};

struct atoll_am_usage {
    uint32_t processes;
    uint64_t disk_used_bytes, disk_total_bytes;
    uint64_t inodes_used, inodes_total;
    uint64_t net_rx_bytes, net_tx_bytes;
    uint64_t rss_bytes; /* sum over all processes; for hosts without a memory cgroup */
    uint64_t cpu_us;    /* likewise */
};

extern const struct atoll_msg_desc atoll_am_hello_desc, atoll_am_error_desc,
    atoll_am_exec_start_desc, atoll_am_exec_started_desc, atoll_am_exec_ref_desc,
    atoll_am_stdin_desc, atoll_am_signal_desc, atoll_am_resize_desc, atoll_am_resume_desc,
    atoll_am_ack_desc, atoll_am_output_desc, atoll_am_exit_desc, atoll_am_exec_info_desc,
    atoll_am_process_desc, atoll_am_path_desc, atoll_am_list_desc, atoll_am_entry_desc,
    atoll_am_opened_desc, atoll_am_handle_desc, atoll_am_read_desc, atoll_am_data_desc,
    atoll_am_create_desc, atoll_am_write_desc, atoll_am_mkdir_desc, atoll_am_two_paths_desc,
    atoll_am_chmod_desc, atoll_am_chown_desc, atoll_am_xattr_desc, atoll_am_watch_desc,
    atoll_am_watch_event_desc, atoll_am_connect_desc, atoll_am_usage_desc, atoll_am_pause_desc,
    atoll_am_user_desc;
