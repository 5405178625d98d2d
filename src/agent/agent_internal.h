#pragma once
#include <sched.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/types.h>
#include "agent/agent.h"
#include "base/list.h"
#include "loop/loop.h"
#include "proto/agent_proto.h"

/*
 * Declarations shared by the files of the agent, in the order in which a request passes them:
 * connection, dispatch, users, commands, files, the rest.
 *
 * Jobs, file handles, watches and connects belong to the connection that requested them and are
 * dropped with it; commands and their output outlive connections.
 */

/* While more bytes than this are queued for the daemon, requests and output wait. */
#define ATOLL_AGENT_QUEUE_SOFT (1024 * 1024)
/* Size of the queue: one request may add a few answers above the soft limit. */
#define ATOLL_AGENT_QUEUE_MAX (4 * 1024 * 1024)

#define ATOLL_AGENT_WINDOW_DEFAULT (256 * 1024)
#define ATOLL_AGENT_WINDOW_MAX (4 * 1024 * 1024)
#define ATOLL_AGENT_STDIN_MAX (256 * 1024)
#define ATOLL_AGENT_EXECS_DEFAULT 256
#define ATOLL_AGENT_DRAINS_MAX 128
#define ATOLL_AGENT_JOBS_MAX 16
#define ATOLL_AGENT_HANDLES_MAX 64
#define ATOLL_AGENT_CONNECTS_MAX 8
#define ATOLL_AGENT_TUNNELS_MAX 256
#define ATOLL_AGENT_PATH_MAX 4096
#define ATOLL_AGENT_NAME_MAX 64
#define ATOLL_AGENT_GROUPS_MAX 64
#define ATOLL_AGENT_COMM_MAX 64

/* One large scratch buffer; its contents are valid only within one call. */
#define ATOLL_AGENT_SCRATCH (128 * 1024)
extern uint8_t atoll_agent_scratch[ATOLL_AGENT_SCRATCH];

/* A record of getdents64(2); readdir(3) would allocate memory and hide positions. */
struct atoll_agent_dent {
    uint64_t ino;
    int64_t off;
    uint16_t reclen;
    uint8_t type;
    char name[];
};

struct atoll_agent;
struct atoll_agent_views;
struct atoll_agent_watches;
struct atoll_agent_connects;
struct atoll_agent_sudo;

/* --- connection (conn.c) --- */

struct atoll_agent_conn {
    bool open, greeted;
    bool fds;     /* descriptors can be passed: both ends agreed */
    bool broken;  /* closed at the end of the round */
    bool stalled; /* frames wait in the channel until the output queue is shorter */
    struct atoll_channel channel;
    struct atoll_watch watch;
};

/* Takes ownership of fd; closes the previous connection. */
void atoll_agent_conn_open(struct atoll_agent *a, int fd);
/* The same with a channel that may hold received bytes. */
void atoll_agent_conn_take(struct atoll_agent *a, struct atoll_channel *channel);
/* Closes the connection and drops everything that was requested on it. */
void atoll_agent_conn_close(struct atoll_agent *a);
/* Sends as much as the socket accepts; called once per round of the loop. */
void atoll_agent_conn_flush(struct atoll_agent *a);
/* True while the queue has room for more than small answers. */
bool atoll_agent_conn_has_room(const struct atoll_agent *a);

/* Queue one frame. If the queue is full, the connection is dropped; the daemon reconnects and
 * resumes, so nothing is lost. */
void atoll_agent_reply(struct atoll_agent *a, uint32_t request, const struct atoll_msg_desc *desc,
                       const void *msg);
void atoll_agent_reply_fd(struct atoll_agent *a, uint32_t request,
                          const struct atoll_msg_desc *desc, const void *msg, int fd);
void atoll_agent_part(struct atoll_agent *a, uint32_t request, const struct atoll_msg_desc *desc,
                      const void *msg);
void atoll_agent_error(struct atoll_agent *a, uint32_t request, const struct atoll_error *err);
void atoll_agent_event(struct atoll_agent *a, uint16_t type, const struct atoll_msg_desc *desc,
                       const void *msg);

/* --- new connections (accepted.c): the first frame says what a connection is --- */

/* Takes ownership of fd. */
void atoll_agent_accepted_open(struct atoll_agent *a, int fd);
void atoll_agent_accepted_drop_all(struct atoll_agent *a);

/* --- dispatch (dispatch.c) --- */

/* Handles one frame; < 0 if it is malformed and the connection must be closed. */
int atoll_agent_dispatch(struct atoll_agent *a, struct atoll_frame *frame) ATOLL_MUST_CHECK;

/* Returned by a handler that has sent its answer or will send it later. 0: dispatch sends an empty
 * REPLY. */
#define ATOLL_AGENT_ANSWERED 1

/* A handler of one request type; msg is the decoded message. < 0: dispatch sends ERROR. */
typedef int atoll_agent_handler(struct atoll_agent *a, uint32_t request, const void *msg,
                                struct atoll_error *err);

/* --- jobs (jobs.c): requests whose work is done in small steps --- */

struct atoll_agent_job {
    struct atoll_list node;
    uint32_t request;
    /* Does a little work. 1: call again, 0: done (an empty REPLY is sent), < 0: failed. */
    int (*step)(struct atoll_agent *a, struct atoll_agent_job *job, struct atoll_error *err);
    void (*free)(struct atoll_agent_job *job);
};

/* Takes ownership of the job on success. RESOURCE_EXHAUSTED. */
int atoll_agent_job_add(struct atoll_agent *a, struct atoll_agent_job *job,
                        struct atoll_error *err) ATOLL_MUST_CHECK;
/* Runs one step of each job, if the queue to the daemon has room. */
void atoll_agent_jobs_run(struct atoll_agent *a);
/* True if a job can run now. */
bool atoll_agent_jobs_waiting(const struct atoll_agent *a);
void atoll_agent_jobs_drop(struct atoll_agent *a);

/* --- users (users.c) and acting as one (identity.c) --- */

struct atoll_agent_user {
    uint32_t uid, gid;
    char name[ATOLL_AGENT_NAME_MAX];
    char home[ATOLL_AGENT_PATH_MAX / 4];
    const char *start; /* borrowed from the config: where relative paths begin; NULL: the home */
    char shell[256];
    uint32_t groups[ATOLL_AGENT_GROUPS_MAX]; /* supplementary, the primary one first */
    size_t group_count;
    bool as_root; /* "+NAME": paths and new files are the user's, the rights are root's */
};

/* A small text file of the sandbox, read again after it changed. */
struct atoll_agent_textfile {
    char *text; /* owned, NUL-terminated; NULL: no usable file */
    bool fresh; /* text is the content of the file described by `seen` */
    struct stat seen;
};

/* name: a user's name or number, with ":GROUP" if the group is not the user's own; "" for the default user. INVALID_ARGUMENT (ESRCH if the user does
 * not exist), FAILED_PRECONDITION. */
int atoll_agent_user_find(struct atoll_agent *a, const char *name,
                          struct atoll_agent_user *ret_user,
                          struct atoll_error *err) ATOLL_MUST_CHECK;
/* Ids for chown; "" gives UINT32_MAX, which means unchanged. INVALID_ARGUMENT. */
int atoll_agent_owner_find(struct atoll_agent *a, const char *owner, const char *group,
                           uint32_t *ret_uid, uint32_t *ret_gid,
                           struct atoll_error *err) ATOLL_MUST_CHECK;
int atoll_agent_group_find(struct atoll_agent *a, const char *name, uint32_t *ret_gid,
                           struct atoll_error *err) ATOLL_MUST_CHECK;
/* The name of an id, or its number; out holds ATOLL_AGENT_NAME_MAX bytes. */
const char *atoll_agent_user_name(struct atoll_agent *a, uint32_t uid, char *out);
const char *atoll_agent_group_name(struct atoll_agent *a, uint32_t gid, char *out);
void atoll_agent_users_done(struct atoll_agent *a);

/* Drops the capabilities and groups that the agent does not need. Called once at start. */
int atoll_agent_identity_init(struct atoll_agent *a, struct atoll_error *err) ATOLL_MUST_CHECK;
/* Switches file system operations to this user until atoll_agent_unbecome(). */
int atoll_agent_become(struct atoll_agent *a, const struct atoll_agent_user *user,
                       struct atoll_error *err) ATOLL_MUST_CHECK;
/* The same by ids, without supplementary groups; -errno. */
int atoll_agent_become_ids(struct atoll_agent *a, uint32_t uid, uint32_t gid) ATOLL_MUST_CHECK;
void atoll_agent_unbecome(struct atoll_agent *a);
/* Switches the effective ids, too, for calls where the peer sees them (connect to a unix
 * socket). */
int atoll_agent_become_effective(struct atoll_agent *a, const struct atoll_agent_user *user,
                                 struct atoll_error *err) ATOLL_MUST_CHECK;
void atoll_agent_unbecome_effective(struct atoll_agent *a);

static inline void atoll_agent_auto_unbecome(struct atoll_agent **a)
{
    if (*a)
        atoll_agent_unbecome(*a);
}
/* Marks a `struct atoll_agent *` whose identity switch ends with the scope. */
#define ATOLL_AGENT_AUTO_UNBECOME ATOLL_CLEANUP(atoll_agent_auto_unbecome)

/* In a child: sets ids, groups and capabilities of the user permanently. Only system calls.
 * -errno. */
int atoll_agent_child_identity(const struct atoll_agent *a,
                               const struct atoll_agent_user *user) ATOLL_MUST_CHECK;

/* --- starting a process (exec_child.c, exec_env.c) --- */

struct atoll_agent_launch {
    const struct atoll_agent_user *user;
    const char **argv; /* argv[-1] is writable: /bin/sh runs a script without #! */
    char *const *envp;
    const char *path;  /* value of PATH for the look-up */
    const char *cwd;   /* or NULL: cwd_fd */
    bool cwd_optional; /* falls back to the root directory */
    int cwd_fd;
    int stdio[3]; /* borrowed, all above 2 */
    int terminal; /* index of the one that becomes the controlling terminal; -1: none */
};

/* Starts a program and returns its pid once it runs; on failure no process is left. */
int atoll_agent_launch(struct atoll_agent *a, const struct atoll_agent_launch *launch,
                       struct atoll_error *err) ATOLL_MUST_CHECK;

/* Commands whose oom_score_adj must still be raised (oom_score.c). */
struct atoll_agent_unscored {
    pid_t pid;
    int tries;
};
void atoll_agent_oom_score_later(struct atoll_agent *a, pid_t pid);
/* Called at the end of each round. */
void atoll_agent_oom_scores_write(struct atoll_agent *a);

#define ATOLL_AGENT_MARK "ATOLL_EXEC="
#define ATOLL_AGENT_PATH_DEFAULT "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

/* The environment of a command: the defaults, overridden by `extra`. */
struct atoll_agent_env {
    char **vars; /* owned array, NULL at the end; strings borrowed or in `text` */
    size_t len;
    char *text; /* owned */
};
struct atoll_agent_env_spec {
    const struct atoll_agent_user *user;
    const char *mark; /* 16 hex digits, or NULL */
    bool terminal;
    const char *const *extra;
    size_t extra_len;
    const char *const *base; /* NULL at the end, or NULL; replaces defaults too */
};
/* INVALID_ARGUMENT for an entry that is not of the form NAME=VALUE. */
int atoll_agent_env_init(struct atoll_agent_env *env, const struct atoll_agent_env_spec *spec,
                         struct atoll_error *err) ATOLL_MUST_CHECK;
/* "" if the variable is not set. */
const char *atoll_agent_env_get(const struct atoll_agent_env *env, const char *name);
void atoll_agent_env_done(struct atoll_agent_env *env);

/* --- output of a command (output.c) --- */

/* Offsets count from the command's first byte: acked <= sent and acked <= produced. */
struct atoll_agent_stream {
    struct atoll_agent_exec *exec;
    uint8_t number; /* ATOLL_STREAM_* */
    int fd;         /* owned; ATOLL_NO_FD at its end */
    struct atoll_watch watch;
    struct atoll_timer again; /* retries the watch after the kernel refused it */
    uint8_t *ring;            /* in exec->rings, exec->window bytes */
    uint64_t acked;           /* the daemon has stored everything before it */
    uint64_t sent;            /* next byte to send on this connection */
    uint64_t produced;
    size_t owed; /* upper bound of the bytes in the pipe when the command ended, not read yet */
};

/* Takes ownership of fd. */
int atoll_agent_stream_open(struct atoll_agent_stream *s, struct atoll_agent_exec *exec,
                            uint8_t number, int fd) ATOLL_MUST_CHECK;
void atoll_agent_stream_done(struct atoll_agent_stream *s);
/* Reads all available bytes, up to the window. */
void atoll_agent_stream_drain(struct atoll_agent_stream *s);
/* -EINVAL for an offset beyond the produced bytes. */
int atoll_agent_stream_ack(struct atoll_agent_stream *s, uint64_t offset) ATOLL_MUST_CHECK;
/* OUT_OF_RANGE */
int atoll_agent_stream_resume(struct atoll_agent_stream *s, uint64_t offset,
                              struct atoll_error *err) ATOLL_MUST_CHECK;
/* Discards further output, so that a background process that still writes neither blocks nor gets
 * SIGPIPE. */
void atoll_agent_stream_abandon(struct atoll_agent_stream *s);
/* Queues pending output and exit events of all commands, in turn, while the queue has room. */
void atoll_agent_output_pump(struct atoll_agent *a);
/* Adds the command to the pump's list if it has output or an exit event to send. */
void atoll_agent_output_ready(struct atoll_agent_exec *exec);
void atoll_agent_drains_drop(struct atoll_agent *a);

/* --- commands (exec.c, stdin.c, exit.c) --- */

struct atoll_agent_stdin {
    int fd; /* owned; ATOLL_NO_FD once closed */
    struct atoll_watch watch;
    struct atoll_buf buf;
    uint64_t taken;   /* bytes accepted so far */
    bool closing;     /* close when buf is empty */
    bool line_open;   /* the last byte was not a newline: a terminal needs two ^D */
    uint32_t request; /* the request that waits for room in buf; 0: none */
};

struct atoll_agent_exec {
    struct atoll_list node;  /* in agent.execs */
    struct atoll_list ready; /* in agent.ready while there is something to send */
    struct atoll_agent *agent;
    uint64_t id;
    pid_t pid;
    char mark[17]; /* value of ATOLL_EXEC */
    uint32_t window;
    int64_t started_unix_ms;
    bool pty;
    bool attached; /* output is sent on the current connection */
    bool reaped;   /* the main process was reaped; its result is in `exit` */
    bool ended;    /* the output is complete: EXIT may be sent */
    bool exit_sent;
    uint8_t *rings;                       /* owned; untouched pages use no memory */
    struct atoll_agent_stream streams[2]; /* stdout, stderr */
    struct atoll_agent_stdin in;
    struct atoll_timer timeout, settle;
    int64_t held_ms; /* remaining timeout while it is suspended; 0: not suspended */
    int64_t reaped_ms, last_output_ms;
    bool timed_out;        /* our timer sent the SIGKILL */
    uint64_t signals_sent; /* one bit per signal that EXEC_SIGNAL sent */
    char who[128];         /* sender of the last signal */
    uint64_t oom_base;     /* oom_kill counter at the start */
    char oom_process[ATOLL_AGENT_COMM_MAX];
    struct atoll_am_exit exit;
};

struct atoll_agent_exec *atoll_agent_exec_get(struct atoll_agent *a, uint64_t id);
/* NULL if no command's main process has this pid. */
struct atoll_agent_exec *atoll_agent_exec_by_pid(struct atoll_agent *a, pid_t pid);
struct atoll_agent_exec *atoll_agent_exec_free(struct atoll_agent_exec *exec);
/* The connection was closed: no output is sent until EXEC_RESUME. */
void atoll_agent_execs_detach(struct atoll_agent *a);
void atoll_agent_execs_drop(struct atoll_agent *a);
/* Suspends and continues timeouts. */
void atoll_agent_execs_hold(struct atoll_agent *a);
void atoll_agent_execs_release(struct atoll_agent *a);

/* Takes ownership of fd. */
int atoll_agent_stdin_open(struct atoll_agent_exec *exec, int fd) ATOLL_MUST_CHECK;
void atoll_agent_stdin_done(struct atoll_agent_exec *exec);

/* Reaps children that exited; called on SIGCHLD. */
void atoll_agent_reap(struct atoll_agent *a);
/* After the main process exited: checks whether its output is complete. Called when output arrives
 * or a pipe ends. */
void atoll_agent_exec_settle(struct atoll_agent_exec *exec);
/* The cgroup's count of out-of-memory kills; 0 if it is not available. */
uint64_t atoll_agent_oom_kills(const struct atoll_agent *a);

/* --- processes (process.c, tree.c) --- */

struct atoll_agent_process {
    pid_t pid, parent, session;
    char state;
    uint64_t start;  /* clock ticks since boot: detects that a pid was reused */
    uint64_t cpu_us; /* including its reaped children */
    uint64_t own_cpu_us;
    uint64_t rss_bytes;
};

struct atoll_agent_processes {
    struct atoll_agent_process *items; /* owned, by rising pid */
    size_t len, cap;
};

/* All processes except the agent. -errno. */
int atoll_agent_processes_read(struct atoll_agent *a,
                               struct atoll_agent_processes *ret_processes) ATOLL_MUST_CHECK;
void atoll_agent_processes_done(struct atoll_agent_processes *processes);
/* -ESRCH if it does not exist. */
int atoll_agent_process_read(struct atoll_agent *a, pid_t pid,
                             struct atoll_agent_process *ret_process) ATOLL_MUST_CHECK;

/* Signals all processes that are known to descend from the command (tree.c). For SIGKILL it stops
 * processes and scans again until no new ones appear; other signals take one pass. Returns the
 * number of processes signalled. */
int atoll_agent_tree_kill(struct atoll_agent *a, const struct atoll_agent_exec *exec, int signal);

/* --- files (path.c, files.c, xattr.c, file_tree.c, transfer.c) --- */

/* A path of a request, resolved for the request's user. The agent acts as that user while it
 * exists. */
struct atoll_agent_path {
    struct atoll_agent *agent; /* set while the agent acts as the user */
    struct atoll_agent_user user;
    char text[ATOLL_AGENT_PATH_MAX]; /* absolute */
};
/* INVALID_ARGUMENT, FAILED_PRECONDITION. After success call atoll_agent_path_done(). */
int atoll_agent_path_init(struct atoll_agent_path *p, struct atoll_agent *a, const char *user,
                          const char *path, struct atoll_error *err) ATOLL_MUST_CHECK;
void atoll_agent_path_done(struct atoll_agent_path *p);
#define ATOLL_AGENT_AUTO_PATH ATOLL_CLEANUP(atoll_agent_path_done)

/* Makes `path` absolute for the user: "~" and relative paths start at home. INVALID_ARGUMENT. */
int atoll_agent_path_absolute(const struct atoll_agent_user *user, const char *path, char *out,
                              struct atoll_error *err) ATOLL_MUST_CHECK;
/* Opens without ever following a magic link of /proc. Returns a descriptor or -errno. */
int atoll_agent_path_open(int dir_fd, const char *path, int flags) ATOLL_MUST_CHECK;
/* The same, also without following symbolic links or leaving dir_fd; "" is dir_fd itself. */
int atoll_agent_path_open_below(int dir_fd, const char *path, int flags) ATOLL_MUST_CHECK;
/* Opens the parent directory of `path`; *ret_name points at its last component. */
int atoll_agent_path_open_parent(const char *path, const char **ret_name,
                                 struct atoll_error *err) ATOLL_MUST_CHECK;
/* Sets an error such as "/x/y does not exist". Returns -errnum. */
int atoll_agent_path_fail(struct atoll_error *err, int errnum, const char *path);
/* "/proc/self/fd/N", for calls that do not accept O_PATH descriptors; out holds 32 bytes. */
const char *atoll_agent_path_of_fd(int fd, char *out);
/* Creates the missing directories of `path`, including the last, with the current identity; the
 * user owns them. */
int atoll_agent_path_make_dirs(const struct atoll_agent_user *user, const char *path,
                               uint32_t last_mode, struct atoll_error *err) ATOLL_MUST_CHECK;
/* Gives a file that was just created with root's rights to the user. -errno. */
int atoll_agent_path_give(const struct atoll_agent_user *user, int fd) ATOLL_MUST_CHECK;

/* An entry message with the storage of its strings. */
struct atoll_agent_entry {
    struct atoll_am_entry msg;
    char owner[ATOLL_AGENT_NAME_MAX], group[ATOLL_AGENT_NAME_MAX];
    char target[ATOLL_AGENT_PATH_MAX];
};
/* Adds the extended attributes with the name prefix `attributes` and the target of a link; they are
 * stored in atoll_agent_scratch. */
void atoll_agent_entry_add_details(struct atoll_agent_entry *entry, int dir_fd, const char *name,
                                   const char *attributes);
/* atoll_entry_type of a file mode. */
uint8_t atoll_agent_entry_type(mode_t mode);
/* Describes `name` below dir_fd (name "": dir_fd itself); path is borrowed. -errno. */
int atoll_agent_entry_read(struct atoll_agent *a, int dir_fd, const char *name, const char *path,
                           struct atoll_agent_entry *ret_entry) ATOLL_MUST_CHECK;

/* An open file of the connection. */
struct atoll_agent_handle {
    uint32_t id; /* 0: free */
    int fd;      /* owned */
    /* For a file being written: its destination. */
    bool writing, exclusive, in_place;
    bool is_new; /* in_place: the file did not exist before */
    int dir_fd;  /* owned */
    uint32_t mode;
    struct atoll_agent_user *user; /* owned */
    char *path, *name, *temp_name; /* owned */
};
void atoll_agent_handles_drop(struct atoll_agent *a);

/* --- connections to servers inside the sandbox (dial.c, connect.c, tunnel.c) --- */

/* fd: connected and non-blocking; the callback owns it. */
typedef void atoll_agent_dialed_fn(void *arg, int fd, const struct atoll_error *error);

struct atoll_agent_dial {
    struct atoll_agent *agent; /* NULL: no attempt is under way */
    uint32_t port;
    size_t family; /* index of the one being tried */
    int fd;        /* owned */
    struct atoll_watch watch;
    struct atoll_timer timer;
    atoll_agent_dialed_fn *done;
    void *arg;
};

/* done is called once, possibly before this returns; it may free *d. msg is not kept. */
void atoll_agent_dial_start(struct atoll_agent_dial *d, struct atoll_agent *a,
                            const struct atoll_am_connect *msg, atoll_agent_dialed_fn *done,
                            void *arg);
/* done will not be called. Safe on a zeroed or finished dial. */
void atoll_agent_dial_cancel(struct atoll_agent_dial *d);

void atoll_agent_connects_drop(struct atoll_agent *a);

/* Takes ownership of a channel whose first frame is a TUNNEL with a payload of the given length. */
void atoll_agent_tunnel_take(struct atoll_agent *a, struct atoll_channel *channel, uint32_t request,
                             size_t request_len);
void atoll_agent_tunnels_drop(struct atoll_agent *a);

/* --- the rest: watch.c, pause.c, sudo.c --- */

void atoll_agent_watches_drop(struct atoll_agent *a);
/* The queue has room again: delayed events can be sent. */
void atoll_agent_watches_resume(struct atoll_agent *a);
void atoll_agent_pause_drop(struct atoll_agent *a); /* pause.c */

/* Listens for sudo clients. If the socket cannot be created, sudo is off. */
void atoll_agent_sudo_open(struct atoll_agent *a);
/* True if sudo commands can run. */
bool atoll_agent_sudo_works(const struct atoll_agent *a);
void atoll_agent_sudo_close(struct atoll_agent *a);
/* True if the pid was a command started by sudo. */
bool atoll_agent_sudo_reaped(struct atoll_agent *a, pid_t pid, int status);

/* --- netlink sockets of the sandbox (netlink.c) --- */

/* Bounds them for every process that is started from here on. They are not bounded if the kernel
 * cannot do this, or if the system calls of the sandbox are not filtered. */
void atoll_agent_netlink_open(struct atoll_agent *a);
void atoll_agent_netlink_close(struct atoll_agent *a);

/* --- views of /proc with the sandbox's limits (views.c) --- */

void atoll_agent_views_open(struct atoll_agent *a, const struct atoll_view_fds *fds);
void atoll_agent_views_close(struct atoll_agent *a);
/* A process is about to run or to read /proc: updates views that are too old. */
void atoll_agent_views_touch(struct atoll_agent *a);
/* Chooses the CPUs for a new command, as many as the CPU limit allows; false if that is all
 * CPUs. */
bool atoll_agent_views_pick_cpus(struct atoll_agent *a, cpu_set_t *ret);

/* --- the agent itself (agent.c) --- */

struct atoll_agent {
    struct atoll_agent_config config;
    struct atoll_loop *loop;
    pid_t pid;
    int64_t started_unix_ms;
    int null_fd, proc_fd;
    struct rlimit files; /* the original RLIMIT_NOFILE, for the children */
    struct atoll_signals signals;

    struct atoll_watch listen_watch;
    struct atoll_timer accept_again;
    struct atoll_timer leave; /* leave.c */
    struct atoll_agent_conn conn;
    struct atoll_list accepted, tunnels;
    size_t accepted_count, tunnel_count;
    struct atoll_list jobs;
    size_t job_count;

    char workdir[ATOLL_AGENT_PATH_MAX]; /* config.workdir points here after WORKDIR */
    /* After USER: config.default_user and default_home point into this, and `first` has what they were. */
    struct atoll_agent_user chosen;
    struct atoll_agent_config first;
    struct atoll_agent_textfile passwd, group;
    bool acting; /* file operations are switched to a user: see identity.c */
    /* The kernel is gVisor's. It has no setfsuid(), so the effective ids are switched instead, and
     * CLONE_CHILD_CLEARTID does not signal that a child has executed its program. */
    bool in_gvisor;
    int parent_death_signal;

    bool zombies_left; /* more zombies than one round reaps */
    struct atoll_list execs, ready;
    size_t exec_count;
    uint64_t oom_attributed; /* kills already reported as a command's OOM_KILLED */
    struct atoll_agent_unscored unscored[64];
    size_t unscored_count;
    struct atoll_timer unscored_timer;
    struct atoll_list drains; /* oldest first */
    size_t drain_count;

    struct atoll_agent_handle handles[ATOLL_AGENT_HANDLES_MAX];
    uint32_t handle_serial;

    struct atoll_agent_netlink *netlink;   /* owned; NULL: not bounded */
    struct atoll_agent_views *views;       /* owned; NULL: no views of /proc */
    struct atoll_agent_watches *watches;   /* owned */
    struct atoll_agent_connects *connects; /* owned */
    struct atoll_agent_sudo *sudo;         /* owned; NULL if sudo is off */
    struct atoll_buf note;                 /* see note.c */

    uint32_t ending_request; /* the request that waits for all processes to exit; 0: none */
    struct atoll_timer ending;
    unsigned ending_checks;
};

/* Handlers, by the file that holds them; dispatch.c has the table. */
atoll_agent_handler atoll_agent_on_note_put, atoll_agent_on_note_get;
atoll_agent_handler atoll_agent_on_pause, atoll_agent_on_resume;
atoll_agent_handler atoll_agent_on_leave; /* leave.c */
/* agent.c: watches config.listen_fd. */
int atoll_agent_listen(struct atoll_agent *agent, struct atoll_error *err) ATOLL_MUST_CHECK;
atoll_agent_handler atoll_agent_on_exec_start, atoll_agent_on_exec_signal,
    atoll_agent_on_exec_resize, atoll_agent_on_exec_resume, atoll_agent_on_exec_list,
    atoll_agent_on_exec_ack, atoll_agent_on_exec_forget, atoll_agent_on_exec_stdin,
    atoll_agent_on_exec_stdin_close, atoll_agent_on_process_list, atoll_agent_on_usage,
    atoll_agent_on_file_stat, atoll_agent_on_file_mkdir, atoll_agent_on_workdir,
    atoll_agent_on_user, atoll_agent_on_file_rename, atoll_agent_on_file_chmod,
    atoll_agent_on_file_chown, atoll_agent_on_file_symlink, atoll_agent_on_xattr_get,
    atoll_agent_on_xattr_set, atoll_agent_on_xattr_list, atoll_agent_on_xattr_remove,
    atoll_agent_on_file_list, atoll_agent_on_file_remove, atoll_agent_on_file_open,
    atoll_agent_on_file_read, atoll_agent_on_file_create, atoll_agent_on_file_write,
    atoll_agent_on_file_commit, atoll_agent_on_file_close, atoll_agent_on_watch_start,
    atoll_agent_on_watch_stop, atoll_agent_on_connect;
