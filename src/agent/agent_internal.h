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
 * What the files of the agent share. The order below is the order a request takes: connection,
 * dispatch, users, commands, files, the rest.
 *
 * Whatever waits for the daemon (jobs, file handles, watches, connects) belongs to the connection
 * that asked for it and is dropped with it; commands and their output outlive connections.
 */

/* Requests and output wait while more than this is queued for the daemon. */
#define ATOLL_AGENT_QUEUE_SOFT (1024 * 1024)
/* The queue itself: one request may add a few answers on top of the soft limit. */
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

/* One large buffer for whatever a single call needs at once; its contents do not outlive the call. */
#define ATOLL_AGENT_SCRATCH (128 * 1024)
extern uint8_t atoll_agent_scratch[ATOLL_AGENT_SCRATCH];

/* What getdents64(2) fills in; readdir(3) would allocate and hide positions. */
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
    bool fds;     /* descriptors pass: both ends said so */
    bool broken;  /* to be closed at the end of the round */
    bool stalled; /* frames wait in the channel until the queue is shorter */
    struct atoll_channel channel;
    struct atoll_watch watch;
};

/* Takes fd over; closes the connection there was. */
void atoll_agent_conn_open(struct atoll_agent *a, int fd);
/* The same with what has come over it already. */
void atoll_agent_conn_take(struct atoll_agent *a, struct atoll_channel *channel);
/* Drops the connection and all that was asked for on it. */
void atoll_agent_conn_close(struct atoll_agent *a);
/* Sends what can be sent; called once per round of the loop. */
void atoll_agent_conn_flush(struct atoll_agent *a);
/* True while there is room in the queue for more than small answers. */
bool atoll_agent_conn_has_room(const struct atoll_agent *a);

/* Queue one frame. A queue that cannot take it means the connection is dropped: the daemon comes
 * back and resumes, nothing is lost. */
void atoll_agent_reply(struct atoll_agent *a, uint32_t request, const struct atoll_msg_desc *desc,
                       const void *msg);
void atoll_agent_reply_fd(struct atoll_agent *a, uint32_t request,
                          const struct atoll_msg_desc *desc, const void *msg, int fd);
void atoll_agent_part(struct atoll_agent *a, uint32_t request, const struct atoll_msg_desc *desc,
                      const void *msg);
void atoll_agent_error(struct atoll_agent *a, uint32_t request, const struct atoll_error *err);
void atoll_agent_event(struct atoll_agent *a, uint16_t type, const struct atoll_msg_desc *desc,
                       const void *msg);

/* --- those who just came (guest.c): the first frame says what a connection is --- */

/* Takes fd over. */
void atoll_agent_guest_open(struct atoll_agent *a, int fd);
void atoll_agent_guests_drop(struct atoll_agent *a);

/* --- dispatch (dispatch.c) --- */

/* Handles one frame; < 0 when it is malformed and the connection must go. */
int atoll_agent_dispatch(struct atoll_agent *a, struct atoll_frame *frame) ATOLL_MUST_CHECK;

/* What a handler returns when it sent its answer itself, or will later. 0: an empty REPLY is due. */
#define ATOLL_AGENT_ANSWERED 1

/* A handler of one request type; msg is decoded by the type's description. < 0: ERROR is due. */
typedef int atoll_agent_handler(struct atoll_agent *a, uint32_t request, const void *msg,
                                struct atoll_error *err);

/* --- jobs (jobs.c): requests whose work is cut into small steps --- */

struct atoll_agent_job {
    struct atoll_list node;
    uint32_t request;
    /* A little work. 1: call again, 0: done (an empty REPLY is due), < 0: failed. */
    int (*step)(struct atoll_agent *a, struct atoll_agent_job *job, struct atoll_error *err);
    void (*free)(struct atoll_agent_job *job);
};

/* Takes the job over on success. RESOURCE_EXHAUSTED. */
int atoll_agent_job_add(struct atoll_agent *a, struct atoll_agent_job *job,
                        struct atoll_error *err) ATOLL_MUST_CHECK;
/* One step of each job, if the queue to the daemon has room. */
void atoll_agent_jobs_run(struct atoll_agent *a);
/* True when a job could go on at once. */
bool atoll_agent_jobs_waiting(const struct atoll_agent *a);
void atoll_agent_jobs_drop(struct atoll_agent *a);

/* --- users (users.c) and acting as one (identity.c) --- */

struct atoll_agent_user {
    uint32_t uid, gid;
    char name[ATOLL_AGENT_NAME_MAX];
    char home[ATOLL_AGENT_PATH_MAX / 4];
    char shell[256];
    uint32_t groups[ATOLL_AGENT_GROUPS_MAX]; /* supplementary, the primary one first */
    size_t group_count;
    bool as_root; /* "+NAME": paths and new files are the user's, access is root's */
};

/* A small text file of the sandbox, read again when it changed. */
struct atoll_agent_textfile {
    char *text; /* owned, NUL-terminated; NULL when there is none */
    bool fresh; /* text belongs to `seen` */
    struct stat seen;
};

/* name: a user's name or number, "" for the default user. INVALID_ARGUMENT (ESRCH where there is no
 * such user), FAILED_PRECONDITION. */
int atoll_agent_user_find(struct atoll_agent *a, const char *name,
                          struct atoll_agent_user *ret_user,
                          struct atoll_error *err) ATOLL_MUST_CHECK;
/* Numbers for chown; "" gives UINT32_MAX, which leaves it as it is. INVALID_ARGUMENT. */
int atoll_agent_owner_find(struct atoll_agent *a, const char *owner, const char *group,
                           uint32_t *ret_uid, uint32_t *ret_gid,
                           struct atoll_error *err) ATOLL_MUST_CHECK;
int atoll_agent_group_find(struct atoll_agent *a, const char *name, uint32_t *ret_gid,
                           struct atoll_error *err) ATOLL_MUST_CHECK;
/* The name of an id, or its number; out holds ATOLL_AGENT_NAME_MAX bytes. */
const char *atoll_agent_user_name(struct atoll_agent *a, uint32_t uid, char *out);
const char *atoll_agent_group_name(struct atoll_agent *a, uint32_t gid, char *out);
void atoll_agent_users_done(struct atoll_agent *a);

/* Gives up what the agent does not need, once, at its start. */
int atoll_agent_identity_init(struct atoll_agent *a, struct atoll_error *err) ATOLL_MUST_CHECK;
/* File system operations act as this user until atoll_agent_unbecome(). */
int atoll_agent_become(struct atoll_agent *a, const struct atoll_agent_user *user,
                       struct atoll_error *err) ATOLL_MUST_CHECK;
/* The same by bare numbers, without supplementary groups; -errno. */
int atoll_agent_become_ids(struct atoll_agent *a, uint32_t uid, uint32_t gid) ATOLL_MUST_CHECK;
void atoll_agent_unbecome(struct atoll_agent *a);
/* Effective ids too, for calls where the peer sees them (connect to a unix socket). */
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

/* In a child: ids, groups and capability sets of the user, for good. Only system calls. -errno. */
int atoll_agent_child_identity(const struct atoll_agent *a,
                               const struct atoll_agent_user *user) ATOLL_MUST_CHECK;

/* --- starting a process (exec_child.c, exec_env.c) --- */

struct atoll_agent_launch {
    const struct atoll_agent_user *user;
    const char **argv; /* argv[-1] is writable: a script without #! is given to /bin/sh */
    char *const *envp;
    const char *path;  /* value of PATH for the look-up */
    const char *cwd;   /* or NULL: cwd_fd */
    bool cwd_optional; /* the root directory will do as well */
    int cwd_fd;
    int stdio[3]; /* borrowed, all above 2 */
    int terminal; /* which of them becomes the controlling terminal; -1: none */
};

/* Starts it and returns its pid once the program runs; on failure nothing is left. */
int atoll_agent_launch(struct atoll_agent *a, const struct atoll_agent_launch *launch,
                       struct atoll_error *err) ATOLL_MUST_CHECK;

/* Commands whose oom_score_adj is still to be raised. */
struct atoll_agent_unscored {
    pid_t pid;
    int tries;
};
void atoll_agent_oom_score_later(struct atoll_agent *a, pid_t pid);
/* Called at the end of each round. */
void atoll_agent_oom_scores_write(struct atoll_agent *a);

#define ATOLL_AGENT_MARK "ATOLL_EXEC="
#define ATOLL_AGENT_PATH_DEFAULT "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

/* The environment of a command: the defaults, then `extra` over them. */
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
/* INVALID_ARGUMENT for an entry that is no NAME=VALUE. */
int atoll_agent_env_init(struct atoll_agent_env *env, const struct atoll_agent_env_spec *spec,
                         struct atoll_error *err) ATOLL_MUST_CHECK;
/* "" when it is not there. */
const char *atoll_agent_env_get(const struct atoll_agent_env *env, const char *name);
void atoll_agent_env_done(struct atoll_agent_env *env);

/* --- output of a command (output.c) --- */

/* Offsets count from the command's first byte: acked <= sent and acked <= produced. */
struct atoll_agent_stream {
    struct atoll_agent_exec *exec;
    uint8_t number; /* ATOLL_STREAM_* */
    int fd;         /* owned; ATOLL_NO_FD at its end */
    struct atoll_watch watch;
    struct atoll_timer again; /* the kernel had no room for the watch */
    uint8_t *ring;            /* in exec->rings, exec->window bytes */
    uint64_t acked;           /* everything before is with the daemon */
    uint64_t sent;            /* next to send on this connection */
    uint64_t produced;
    size_t owed; /* at most so many bytes are left of what there was when the command ended */
};

/* Takes fd over. */
int atoll_agent_stream_open(struct atoll_agent_stream *s, struct atoll_agent_exec *exec,
                            uint8_t number, int fd) ATOLL_MUST_CHECK;
void atoll_agent_stream_done(struct atoll_agent_stream *s);
/* Reads all there is now, as far as the window allows. */
void atoll_agent_stream_drain(struct atoll_agent_stream *s);
/* -EINVAL for bytes that never were. */
int atoll_agent_stream_ack(struct atoll_agent_stream *s, uint64_t offset) ATOLL_MUST_CHECK;
/* OUT_OF_RANGE */
int atoll_agent_stream_resume(struct atoll_agent_stream *s, uint64_t offset,
                              struct atoll_error *err) ATOLL_MUST_CHECK;
/* From now on what comes is thrown away, so that whoever still writes neither blocks nor dies. */
void atoll_agent_stream_abandon(struct atoll_agent_stream *s);
/* Queues output and ends of all commands that have some, fairly, while the queue has room. */
void atoll_agent_output_pump(struct atoll_agent *a);
/* Puts the command among those the pump looks at, if it has something to say. */
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
    uint32_t request; /* waits for room; 0: none */
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
    bool attached; /* output flows on the present connection */
    bool reaped;   /* the main process is gone; its result is in `exit` */
    bool ended;    /* the output is complete: EXIT may go out */
    bool exit_sent;
    uint8_t *rings;                       /* owned; pages cost memory when they are used */
    struct atoll_agent_stream streams[2]; /* stdout, stderr */
    struct atoll_agent_stdin in;
    struct atoll_timer timeout, settle;
    int64_t held_ms; /* what is left of the timeout while that stands still; 0: it does not */
    int64_t reaped_ms, last_output_ms;
    bool timed_out;        /* our timer sent the SIGKILL */
    uint64_t signals_sent; /* bit per signal that EXEC_SIGNAL sent */
    char who[128];         /* who sent the last of them */
    uint64_t oom_base;     /* oom_kill counter at the start */
    char oom_process[ATOLL_AGENT_COMM_MAX];
    struct atoll_am_exit exit;
};

struct atoll_agent_exec *atoll_agent_exec_get(struct atoll_agent *a, uint64_t id);
/* NULL when no command's main process has this pid. */
struct atoll_agent_exec *atoll_agent_exec_by_pid(struct atoll_agent *a, pid_t pid);
struct atoll_agent_exec *atoll_agent_exec_free(struct atoll_agent_exec *exec);
/* The connection is gone: nothing flows until EXEC_RESUME. */
void atoll_agent_execs_detach(struct atoll_agent *a);
void atoll_agent_execs_drop(struct atoll_agent *a);
/* Timeouts stand still, and go on. */
void atoll_agent_execs_hold(struct atoll_agent *a);
void atoll_agent_execs_release(struct atoll_agent *a);

/* Takes fd over. */
int atoll_agent_stdin_open(struct atoll_agent_exec *exec, int fd) ATOLL_MUST_CHECK;
void atoll_agent_stdin_done(struct atoll_agent_exec *exec);

/* Reaps every child that ended; called on SIGCHLD. */
void atoll_agent_reap(struct atoll_agent *a);
/* Output came in, or a pipe ended, after the main process did: perhaps that was all. */
void atoll_agent_exec_settle(struct atoll_agent_exec *exec);
/* The cgroup's count of out-of-memory kills; 0 when it cannot be known. */
uint64_t atoll_agent_oom_kills(const struct atoll_agent *a);

/* --- processes (process.c, tree.c) --- */

struct atoll_agent_process {
    pid_t pid, parent, session;
    char state;
    uint64_t start;  /* clock ticks since boot: tells two users of one pid apart */
    uint64_t cpu_us; /* with what its reaped children used */
    uint64_t own_cpu_us;
    uint64_t rss_bytes;
};

struct atoll_agent_processes {
    struct atoll_agent_process *items; /* owned, by rising pid */
    size_t len, cap;
};

/* All processes but the agent itself. -errno. */
int atoll_agent_processes_read(struct atoll_agent *a,
                               struct atoll_agent_processes *ret_processes) ATOLL_MUST_CHECK;
void atoll_agent_processes_done(struct atoll_agent_processes *processes);
/* -ESRCH when it is gone. */
int atoll_agent_process_read(struct atoll_agent *a, pid_t pid,
                             struct atoll_agent_process *ret_process) ATOLL_MUST_CHECK;

/* Signals everything the command started that can be found. For SIGKILL it stops and looks again
 * until nothing new appears; other signals are one pass. Returns how many were signalled. */
int atoll_agent_tree_kill(struct atoll_agent *a, const struct atoll_agent_exec *exec, int signal);

/* --- files (path.c, files.c, xattr.c, file_tree.c, transfer.c) --- */

/* A path as the request's user means it, with that user's identity taken on. */
struct atoll_agent_path {
    struct atoll_agent *agent; /* set while the identity is taken */
    struct atoll_agent_user user;
    char text[ATOLL_AGENT_PATH_MAX]; /* absolute */
};
/* INVALID_ARGUMENT, FAILED_PRECONDITION. On success end with atoll_agent_path_done(). */
int atoll_agent_path_init(struct atoll_agent_path *p, struct atoll_agent *a, const char *user,
                          const char *path, struct atoll_error *err) ATOLL_MUST_CHECK;
void atoll_agent_path_done(struct atoll_agent_path *p);
#define ATOLL_AGENT_AUTO_PATH ATOLL_CLEANUP(atoll_agent_path_done)

/* Makes `path` absolute for the user: "~" and relative paths start at home. INVALID_ARGUMENT. */
int atoll_agent_path_absolute(const struct atoll_agent_user *user, const char *path, char *out,
                              struct atoll_error *err) ATOLL_MUST_CHECK;
/* Opens without ever following a magic link of /proc. Returns a descriptor or -errno. */
int atoll_agent_path_open(int dir_fd, const char *path, int flags) ATOLL_MUST_CHECK;
/* The same, and neither through a symbolic link nor out of dir_fd; "" is dir_fd itself. */
int atoll_agent_path_open_below(int dir_fd, const char *path, int flags) ATOLL_MUST_CHECK;
/* Opens the directory `path` is in; *ret_name points at its last component. */
int atoll_agent_path_open_parent(const char *path, const char **ret_name,
                                 struct atoll_error *err) ATOLL_MUST_CHECK;
/* A path error in words: "/x/y does not exist". Returns -errnum. */
int atoll_agent_path_fail(struct atoll_error *err, int errnum, const char *path);
/* "/proc/self/fd/N", for calls that take no descriptor of an O_PATH file; out holds 32 bytes. */
const char *atoll_agent_path_of_fd(int fd, char *out);
/* Makes the missing directories of `path`, itself included, as the present identity; they are the
 * user's. */
int atoll_agent_path_make_dirs(const struct atoll_agent_user *user, const char *path,
                               uint32_t last_mode, struct atoll_error *err) ATOLL_MUST_CHECK;
/* What was just made with root's access becomes the user's. -errno. */
int atoll_agent_path_give(const struct atoll_agent_user *user, int fd) ATOLL_MUST_CHECK;

/* An entry as it travels, with the storage its strings need. */
struct atoll_agent_entry {
    struct atoll_am_entry msg;
    char owner[ATOLL_AGENT_NAME_MAX], group[ATOLL_AGENT_NAME_MAX];
    char target[ATOLL_AGENT_PATH_MAX];
};
/* Adds what `attributes` (a prefix of names) asks for; it is in atoll_agent_scratch. */
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
    /* Of a file being written: where it will be. */
    bool writing, exclusive, in_place;
    bool is_new; /* of one in place: it was made for this */
    int dir_fd;  /* owned */
    uint32_t mode;
    struct atoll_agent_user *user; /* owned */
    char *path, *name, *temp_name; /* owned */
};
void atoll_agent_handles_drop(struct atoll_agent *a);

/* --- connections to what listens inside (dial.c, connect.c, tunnel.c) --- */

/* fd: connected and non-blocking, the callback's. */
typedef void atoll_agent_dialed_fn(void *arg, int fd, const struct atoll_error *error);

struct atoll_agent_dial {
    struct atoll_agent *agent; /* NULL: nothing is under way */
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
/* done will not be called. Safe on a zeroed or ended one. */
void atoll_agent_dial_cancel(struct atoll_agent_dial *d);

void atoll_agent_connects_drop(struct atoll_agent *a);

/* Takes over a channel whose first frame, with so many bytes of payload, is a TUNNEL. */
void atoll_agent_tunnel_take(struct atoll_agent *a, struct atoll_channel *channel, uint32_t request,
                             size_t request_len);
void atoll_agent_tunnels_drop(struct atoll_agent *a);

/* --- the rest: watch.c, pause.c, sudo.c --- */

void atoll_agent_watches_drop(struct atoll_agent *a);
/* The queue has room again: events that waited may come. */
void atoll_agent_watches_resume(struct atoll_agent *a);
void atoll_agent_pause_drop(struct atoll_agent *a); /* pause.c */

/* Listens for sudo clients; without a place for the socket sudo is off. */
void atoll_agent_sudo_open(struct atoll_agent *a);
/* True when sudo commands can run. */
bool atoll_agent_sudo_works(const struct atoll_agent *a);
void atoll_agent_sudo_close(struct atoll_agent *a);
/* True when the pid was a command started by sudo. */
bool atoll_agent_sudo_reaped(struct atoll_agent *a, pid_t pid, int status);

/* --- what /proc shows of the sandbox's limits (views.c) --- */

void atoll_agent_views_open(struct atoll_agent *a, const struct atoll_view_fds *fds);
void atoll_agent_views_close(struct atoll_agent *a);
/* Something is about to run, or to be looked at. */
void atoll_agent_views_touch(struct atoll_agent *a);
/* The CPUs for a new command, as many as its limit is worth; false where that is all of them. */
bool atoll_agent_views_pick_cpus(struct atoll_agent *a, cpu_set_t *ret);

/* --- the agent itself (agent.c) --- */

struct atoll_agent {
    struct atoll_agent_config config;
    struct atoll_loop *loop;
    pid_t pid;
    int64_t started_unix_ms;
    int null_fd, proc_fd;
    struct rlimit files; /* RLIMIT_NOFILE as it was, for the children */
    struct atoll_signals signals;

    struct atoll_watch listen_watch;
    struct atoll_timer accept_again;
    struct atoll_agent_conn conn;
    struct atoll_list guests, tunnels;
    size_t guest_count, tunnel_count;
    struct atoll_list jobs;
    size_t job_count;

    struct atoll_agent_textfile passwd, group;
    bool acting; /* as a user of the sandbox: see identity.c */
    /* The kernel is gVisor's: it has no ids for files alone (setfsuid), so that the effective ones
     * have to do, and does not tell by CLONE_CHILD_CLEARTID that a child runs its program. */
    bool in_gvisor;
    int parent_death_signal;

    bool zombies_left; /* more than one round reaps */
    struct atoll_list execs, ready;
    size_t exec_count;
    uint64_t oom_attributed; /* kills that are some command's OOM_KILLED already */
    struct atoll_agent_unscored unscored[64];
    size_t unscored_count;
    struct atoll_timer unscored_timer;
    struct atoll_list drains; /* oldest first */
    size_t drain_count;

    struct atoll_agent_handle handles[ATOLL_AGENT_HANDLES_MAX];
    uint32_t handle_serial;

    struct atoll_agent_views *views;       /* owned; NULL where /proc is left as it is */
    struct atoll_agent_watches *watches;   /* owned */
    struct atoll_agent_connects *connects; /* owned */
    struct atoll_agent_sudo *sudo;         /* owned; NULL when sudo is off */
    struct atoll_buf note;                 /* see note.c */

    uint32_t ending_request; /* waits for all processes to be gone; 0: none does */
    struct atoll_timer ending;
    unsigned ending_looks;
};

/* Handlers, by the file that holds them; dispatch.c has the table. */
atoll_agent_handler atoll_agent_on_note_put, atoll_agent_on_note_get;
atoll_agent_handler atoll_agent_on_pause, atoll_agent_on_resume;
atoll_agent_handler atoll_agent_on_exec_start, atoll_agent_on_exec_signal,
    atoll_agent_on_exec_resize, atoll_agent_on_exec_resume, atoll_agent_on_exec_list,
    atoll_agent_on_exec_ack, atoll_agent_on_exec_forget, atoll_agent_on_exec_stdin,
    atoll_agent_on_exec_stdin_close, atoll_agent_on_process_list, atoll_agent_on_usage,
    atoll_agent_on_file_stat, atoll_agent_on_file_mkdir, atoll_agent_on_file_rename,
    atoll_agent_on_file_chmod, atoll_agent_on_file_chown, atoll_agent_on_file_symlink,
    atoll_agent_on_xattr_get, atoll_agent_on_xattr_set, atoll_agent_on_xattr_list,
    atoll_agent_on_xattr_remove, atoll_agent_on_file_list, atoll_agent_on_file_remove,
    atoll_agent_on_file_open, atoll_agent_on_file_read, atoll_agent_on_file_create,
    atoll_agent_on_file_write, atoll_agent_on_file_commit, atoll_agent_on_file_close,
    atoll_agent_on_watch_start, atoll_agent_on_watch_stop, atoll_agent_on_connect;
