#pragma once
#include <stdarg.h>
#include <sys/types.h>
#include "base/buf.h"
#include "tools/verify/verify.h"

/*
 * What the attacks on the daemon share: the daemon as an attacker meets it (requests of any shape,
 * raw bytes, keys of two tenants), sandboxes to attack from, canaries on the host, and what can be
 * seen of the daemon's process. All that was made is taken away again by atoll_raid_done().
 *
 * Blocking: everything, up to WAIT_MS of silence per request.
 */

#define ATOLL_RAID_ID_MAX 41
#define ATOLL_RAID_BOXES_MAX 32
#define ATOLL_RAID_WAIT_MS 20000
#define ATOLL_RAID_TENANTS 2

struct atoll_raid {
    const struct atoll_verify *v;
    struct atoll_http_client *http; /* owned */
    char mark[ATOLL_RAID_ID_MAX];   /* random: nothing else on this host says it by chance */
    char canary[512];               /* a file on the host that says `mark`, below v->scratch */
    char drop[512];                 /* a directory on the host that has to stay empty */
    char box[ATOLL_RAID_ID_MAX];    /* the sandbox most attacks share; "" while there is none */
    char boxes[ATOLL_RAID_BOXES_MAX][ATOLL_RAID_ID_MAX]; /* all that were made and still are */
    struct atoll_raid_tenant {
        char key_id[ATOLL_RAID_ID_MAX];
        char key[80];
        char name[64];
    } tenants[ATOLL_RAID_TENANTS];
    bool missed; /* one of those was gone when it was to be destroyed */
    bool tenants_tried;
    bool probe_there; /* the probe is in `box` */
    pid_t daemon;     /* 0 when the kernel does not tell */
    int slow_fd;      /* a request that is never finished; opened first, judged last */
    int64_t slow_since_ms;
    uint16_t tcp_port; /* plain HTTP of the daemon on this host's loopback; 0 for none */
    char domain[256];  /* of previews */
};

/* Connects, makes the canaries and looks for the daemon's TCP port. UNAVAILABLE. */
int atoll_raid_init(struct atoll_raid *raid, const struct atoll_verify *v,
                    struct atoll_error *err) ATOLL_MUST_CHECK;
void atoll_raid_done(struct atoll_raid *raid);

/* Whether somebody else removed one of its sandboxes since the last call. */
bool atoll_raid_was_disturbed(struct atoll_raid *raid);

/* What an attack comes to; HOLDS until somebody says otherwise. */
struct atoll_raid_outcome {
    enum atoll_verdict verdict;
    char text[900];
};

/* A finding; several are listed. */
void atoll_outcome_found(struct atoll_raid_outcome *o, const char *fmt, ...) ATOLL_PRINTF(2, 3);
/* It could not be tried. A finding counts for more. */
void atoll_outcome_unknown(struct atoll_raid_outcome *o, const char *fmt, ...) ATOLL_PRINTF(2, 3);
/* What was tried, in case that it holds. */
void atoll_outcome_note(struct atoll_raid_outcome *o, const char *fmt, ...) ATOLL_PRINTF(2, 3);

/* One attack, or its control: there "found" means that the careless stand-in fell for it. */
typedef void atoll_attack_fn(struct atoll_raid *raid, struct atoll_raid_outcome *o);

/* Requests. */

struct atoll_ask {
    const char *method, *target;
    const char *key; /* of a tenant; NULL: as whoever runs this */
    const void *body;
    size_t size;
    bool once; /* 429 is an answer like any other */
    struct atoll_http_field extra[4];
};

/* The status, or 0 when no answer came. *reply is always to be released with
 * atoll_http_reply_done(). Waits while the daemon says 429 to one of our keys. */
int atoll_raid_ask(struct atoll_raid *raid, const struct atoll_ask *ask,
                   struct atoll_http_reply *reply);
/* The same without the answer's text. `body` may be NULL. */
int atoll_raid_call(struct atoll_raid *raid, const char *method, const char *target,
                    const char *body);
/* The same, with a target in which each %s is percent-encoded. */
int atoll_raid_callf(struct atoll_raid *raid, const char *method, const char *fmt, ...)
    ATOLL_PRINTF(3, 4);
/* A JSON answer, the caller's; NULL when there is none. */
json_t *atoll_raid_json(struct atoll_raid *raid, const char *method, const char *target,
                        const char *body);
/* Whether the daemon still answers; says so in the outcome if not. */
bool atoll_raid_alive(struct atoll_raid *raid, struct atoll_raid_outcome *o, const char *after);

#define ATOLL_AUTOREPLY ATOLL_CLEANUP(atoll_http_reply_done)

/* Raw bytes. */

/* A connection to the daemon's socket, or to its TCP port. -errno; -EPROTONOSUPPORT where only TLS
 * leads to it. */
int atoll_raid_connect(const struct atoll_raid *raid, bool tcp) ATOLL_MUST_CHECK;
/* "Authorization: …\r\n" as far as the connection of _connect(raid, false) needs it. */
const char *atoll_raid_credentials(const struct atoll_raid *raid, char *out, size_t cap);
/* Sends and gathers what comes, as much as *answer holds, up to the end or `silence_ms` of silence. Returns the status
 * of the first answer, 0 for none, or -errno when nothing could be sent. */
int atoll_raid_raw(const struct atoll_raid *raid, bool tcp, const void *bytes, size_t n,
                   int silence_ms, struct atoll_buf *answer, bool *ret_closed);

/* A listener on this host's loopback; *ret_port is where. -errno. */
int atoll_raid_listen(uint16_t *ret_port) ATOLL_MUST_CHECK;
/* Whether somebody connected to it within ms; who did is turned away. */
bool atoll_raid_was_called(int listener, int ms);
/* A connection to it, with a time limit for reading; -errno. */
int atoll_raid_dial(uint16_t port, int read_ms) ATOLL_MUST_CHECK;

/* Sandboxes. */

/* The id of the shared one, or NULL with the outcome UNKNOWN. */
const char *atoll_raid_box(struct atoll_raid *raid, struct atoll_raid_outcome *o);
/* A new one; `body` is JSON, NULL for an ordinary one, `key` as in an ask. False likewise. */
bool atoll_raid_make(struct atoll_raid *raid, struct atoll_raid_outcome *o, const char *key,
                     const char *body, char *ret_id);
int atoll_raid_drop(struct atoll_raid *raid, const char *id);
/* Runs a shell command inside, or `argv` when it is given; *out gets its standard output, up to `cap`
 * bytes. The exit status, or -1. */
int atoll_raid_sh(struct atoll_raid *raid, const char *id, const char *user, const char *script,
                  char *out, size_t cap);
/* Puts the probe into a sandbox as /home/user/.probe. */
#define ATOLL_RAID_PROBE "/home/user/.probe"
bool atoll_raid_put_probe(struct atoll_raid *raid, struct atoll_raid_outcome *o, const char *id);
/* Into the shared one, once. */
bool atoll_raid_arm(struct atoll_raid *raid, struct atoll_raid_outcome *o);
/* The end of a command that was started without waiting for it; false when it cannot start. */
bool atoll_raid_start(struct atoll_raid *raid, const char *id, const char *script,
                      char *ret_exec_id);

/* Keys of two tenants, made at first use: key 0 or 1, or NULL with the outcome UNKNOWN. */
const char *atoll_raid_key(struct atoll_raid *raid, struct atoll_raid_outcome *o, int which);

/* The host (raid_host.c). */

/* Whether the canary is as it was and nothing was dropped; says so if not. */
bool atoll_raid_canaries_sing(struct atoll_raid *raid, struct atoll_raid_outcome *o,
                              const char *after);
/* As they were at first, after a control has spoilt them. */
void atoll_raid_reset_canaries(struct atoll_raid *raid);
/* Whether `n` bytes hold the canary's text. */
bool atoll_raid_leaks(const struct atoll_raid *raid, const void *bytes, size_t n);
bool atoll_raid_reply_leaks(const struct atoll_raid *raid, const struct atoll_http_reply *reply);
/* A path below v->scratch. */
const char *atoll_raid_path(const struct atoll_raid *raid, const char *name, char *out, size_t cap);
int atoll_raid_write_file(const char *path, const void *bytes, size_t n) ATOLL_MUST_CHECK;
/* Up to cap - 1 bytes and a NUL; -errno. */
ssize_t atoll_raid_read_file(const char *path, char *out, size_t cap) ATOLL_MUST_CHECK;

/* How many processes of the host, but this one, say `marker` in their arguments. */
size_t atoll_raid_processes(const char *marker);
/* Waits until there are none, up to ms; how many there still are. */
size_t atoll_raid_wait_gone(const char *marker, int ms);
/* A field of a file like /proc/PID/status, without blanks at its front; false when it is not there. */
bool atoll_raid_status_field(const char *path, const char *field, char *out, size_t cap);
/* In KiB; -1 when it cannot be told. */
int64_t atoll_raid_daemon_memory(const struct atoll_raid *raid);
/* Where the daemon keeps its files, by a file it has open; false when that cannot be seen. */
bool atoll_raid_state_dir(const struct atoll_raid *raid, char *out, size_t cap);
/* The file that is its log; false when that is no file. */
bool atoll_raid_log_file(const struct atoll_raid *raid, char *out, size_t cap);
/* Where bytes are in a file, looking at its last 64 MiB: 1, 0, -errno. */
int atoll_raid_grep(int dirfd, const char *path, const void *needle, size_t n);
