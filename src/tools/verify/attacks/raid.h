#pragma once
#include <stdarg.h>
#include <sys/types.h>
#include "base/buf.h"
#include "tools/verify/verify.h"

/*
 * Context and helpers of the attacks on the daemon ("raid"): arbitrary requests, raw bytes, keys of two
 * tenants, sandboxes to attack from, canaries on the host, and inspection of the daemon's process.
 * atoll_raid_done() removes everything that was made.
 *
 * Blocking: everything; a request waits up to WAIT_MS for data.
 */

#define ATOLL_RAID_ID_MAX 41
#define ATOLL_RAID_BOXES_MAX 32
#define ATOLL_RAID_WAIT_MS 20000
#define ATOLL_RAID_TENANTS 2

struct atoll_raid {
    const struct atoll_verify *v;
    struct atoll_http_client *http; /* owned */
    char mark[ATOLL_RAID_ID_MAX];   /* a random text */
    char canary[512];               /* a file on the host that contains `mark`, below v->scratch */
    char drop[512];                 /* a directory on the host that must stay empty */
    char box[ATOLL_RAID_ID_MAX];    /* the sandbox that most attacks share; "" if there is none */
    char boxes[ATOLL_RAID_BOXES_MAX][ATOLL_RAID_ID_MAX]; /* all our sandboxes that still exist */
    struct atoll_raid_tenant {
        char key_id[ATOLL_RAID_ID_MAX];
        char key[80];
        char name[64];
    } tenants[ATOLL_RAID_TENANTS];
    bool missed; /* one of those did not exist any more when we destroyed it */
    bool tenants_tried;
    bool probe_there; /* the probe was copied to `box` */
    pid_t daemon;     /* 0 if unknown */
    int slow_fd;      /* connection with an unfinished request; opened first, judged last */
    int64_t slow_since_ms;
    uint16_t tcp_port; /* plain HTTP of the daemon on this host's loopback; 0 for none */
    char domain[256];  /* of previews */
};

/* Connects, makes the canaries and looks for the daemon's TCP port. UNAVAILABLE. */
int atoll_raid_init(struct atoll_raid *raid, const struct atoll_verify *v,
                    struct atoll_error *err) ATOLL_MUST_CHECK;
void atoll_raid_done(struct atoll_raid *raid);

/* Whether another client removed one of our sandboxes since the last call. */
bool atoll_raid_was_disturbed(struct atoll_raid *raid);

/* The result of an attack; initially HOLDS. */
struct atoll_raid_outcome {
    enum atoll_verdict verdict;
    char text[900];
};

/* Adds a finding; several are listed. */
void atoll_outcome_found(struct atoll_raid_outcome *o, const char *fmt, ...) ATOLL_PRINTF(2, 3);
/* The attack could not be tried. A finding has precedence. */
void atoll_outcome_unknown(struct atoll_raid_outcome *o, const char *fmt, ...) ATOLL_PRINTF(2, 3);
/* Describes what was tried; the evidence if the promise holds. */
void atoll_outcome_note(struct atoll_raid_outcome *o, const char *fmt, ...) ATOLL_PRINTF(2, 3);

/* An attack, or its control: there "found" means that the attack on the careless implementation
 * succeeded. */
typedef void atoll_attack_fn(struct atoll_raid *raid, struct atoll_raid_outcome *o);

/* Requests. */

struct atoll_ask {
    const char *method, *target;
    const char *key; /* API key of a tenant; NULL: the credentials of this program's user */
    const void *body;
    size_t size;
    bool once; /* do not retry after 429 */
    struct atoll_http_field extra[4];
};

/* Returns the status, or 0 without an answer. Always free *reply with atoll_http_reply_done(). Retries
 * while the daemon answers 429 to one of our keys. */
int atoll_raid_ask(struct atoll_raid *raid, const struct atoll_ask *ask,
                   struct atoll_http_reply *reply);
/* The same without the answer's body. `body` may be NULL. */
int atoll_raid_call(struct atoll_raid *raid, const char *method, const char *target,
                    const char *body);
/* The same, with a target in which each %s is percent-encoded. */
int atoll_raid_callf(struct atoll_raid *raid, const char *method, const char *fmt, ...)
    ATOLL_PRINTF(3, 4);
/* Returns a JSON answer, owned by the caller; NULL on failure. */
json_t *atoll_raid_json(struct atoll_raid *raid, const char *method, const char *target,
                        const char *body);
/* Whether the daemon still answers; adds a finding if not. */
bool atoll_raid_alive(struct atoll_raid *raid, struct atoll_raid_outcome *o, const char *after);

#define ATOLL_AUTOREPLY ATOLL_CLEANUP(atoll_http_reply_done)

/* Raw bytes. */

/* Connects to the daemon's socket, or to its TCP port. -errno; -EPROTONOSUPPORT if it needs TLS. */
int atoll_raid_connect(const struct atoll_raid *raid, bool tcp) ATOLL_MUST_CHECK;
/* "Authorization: …\r\n" for a connection of atoll_raid_connect(raid, false), or "" if not needed. */
const char *atoll_raid_credentials(const struct atoll_raid *raid, char *out, size_t cap);
/* Sends bytes and collects the answer, up to the size of `answer`, until the connection ends or is silent
 * for silence_ms. Returns the status of the first answer, 0 for none, or -errno if sending failed. */
int atoll_raid_raw(const struct atoll_raid *raid, bool tcp, const void *bytes, size_t n,
                   int silence_ms, struct atoll_buf *answer, bool *ret_closed);

/* Makes a listener on this host's loopback, at port *ret_port. -errno. */
int atoll_raid_listen(uint16_t *ret_port) ATOLL_MUST_CHECK;
/* Whether a connection arrives within ms milliseconds; it is closed. */
bool atoll_raid_was_called(int listener, int ms);
/* Connects to a port of the loopback, with a timeout for reading; -errno. */
int atoll_raid_dial(uint16_t port, int read_ms) ATOLL_MUST_CHECK;

/* Sandboxes. */

/* Returns the id of the shared sandbox, or NULL with the outcome UNKNOWN. */
const char *atoll_raid_box(struct atoll_raid *raid, struct atoll_raid_outcome *o);
/* Makes a new sandbox. body: JSON, or NULL for the defaults; key as in struct atoll_ask. False with the
 * outcome UNKNOWN. */
bool atoll_raid_make(struct atoll_raid *raid, struct atoll_raid_outcome *o, const char *key,
                     const char *body, char *ret_id);
int atoll_raid_drop(struct atoll_raid *raid, const char *id);
/* Runs a shell script inside; `out` gets its standard output, up to `cap` bytes. Returns the exit status,
 * or -1. */
int atoll_raid_sh(struct atoll_raid *raid, const char *id, const char *user, const char *script,
                  char *out, size_t cap);
/* Copies the probe to a sandbox as /home/user/.probe. */
#define ATOLL_RAID_PROBE "/home/user/.probe"
bool atoll_raid_put_probe(struct atoll_raid *raid, struct atoll_raid_outcome *o, const char *id);
/* Copies the probe to the shared sandbox, once. */
bool atoll_raid_arm(struct atoll_raid *raid, struct atoll_raid_outcome *o);
/* Starts a command and does not wait for its end; false if it cannot start. */
bool atoll_raid_start(struct atoll_raid *raid, const char *id, const char *script,
                      char *ret_exec_id);

/* The key of tenant 0 or 1, created on first use; NULL with the outcome UNKNOWN. */
const char *atoll_raid_key(struct atoll_raid *raid, struct atoll_raid_outcome *o, int which);

/* The host (raid_host.c). */

/* Whether the canary is unchanged and `drop` is empty; adds a finding if not. */
bool atoll_raid_canaries_sing(struct atoll_raid *raid, struct atoll_raid_outcome *o,
                              const char *after);
/* Restores canary and `drop` after a control has changed them. */
void atoll_raid_reset_canaries(struct atoll_raid *raid);
/* Whether the bytes contain the canary's text. */
bool atoll_raid_leaks(const struct atoll_raid *raid, const void *bytes, size_t n);
bool atoll_raid_reply_leaks(const struct atoll_raid *raid, const struct atoll_http_reply *reply);
/* A path below v->scratch. */
const char *atoll_raid_path(const struct atoll_raid *raid, const char *name, char *out, size_t cap);
int atoll_raid_write_file(const char *path, const void *bytes, size_t n) ATOLL_MUST_CHECK;
/* Up to cap - 1 bytes and a NUL; -errno. */
ssize_t atoll_raid_read_file(const char *path, char *out, size_t cap) ATOLL_MUST_CHECK;

/* The number of processes of the host, except this one, with `marker` in their arguments. */
size_t atoll_raid_processes(const char *marker);
/* Waits up to ms milliseconds until there are none; returns how many are left. */
size_t atoll_raid_wait_gone(const char *marker, int ms);
/* Reads a field of a file like /proc/PID/status, without leading blanks; false if it is absent. */
bool atoll_raid_status_field(const char *path, const char *field, char *out, size_t cap);
/* Memory of the daemon in KiB; -1 if unknown. */
int64_t atoll_raid_daemon_memory(const struct atoll_raid *raid);
/* The daemon's state directory, found through a file it has open; false if that is not visible. */
bool atoll_raid_state_dir(const struct atoll_raid *raid, char *out, size_t cap);
/* The daemon's log file; false if the log is not a file. */
bool atoll_raid_log_file(const struct atoll_raid *raid, char *out, size_t cap);
/* Whether the last 64 MiB of a file contain the bytes: 1, 0, -errno. */
int atoll_raid_grep(int dirfd, const char *path, const void *needle, size_t n);
