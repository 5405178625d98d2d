#pragma once
#include "base/error.h"

/*
 * The audit log: one JSON object a line for every call that changes something, in the file audit.log
 * of the state directory, for nobody but its owner. It says who did what to which sandbox and how it
 * ended; never what was sent. At its maximum it becomes audit.log.1, and a new one is begun.
 *
 * Blocking: an append to a local file. A disk that does not take it is logged, once a minute.
 */
struct atoll_audit;

struct atoll_audit_entry {
    const char *tenant, *key_id; /* "" where it is not known, or is not by a key */
    int64_t uid;                 /* of a caller on the unix socket, else -1 */
    const char *peer;            /* address, "" once it is gone */
    const char *method, *route, *sandbox_id, *exec_id, *name, *request_id;
    int status;
};

#define ATOLL_AUDIT_MAX_BYTES ((uint64_t)64 * 1024 * 1024)

/* state_fd is borrowed. max_bytes 0: ATOLL_AUDIT_MAX_BYTES, or 1/64 of a smaller disk. INTERNAL. */
int atoll_audit_open(int state_fd, uint64_t max_bytes, struct atoll_audit **ret,
                     struct atoll_error *err) ATOLL_MUST_CHECK;
struct atoll_audit *atoll_audit_close(struct atoll_audit *audit);
/* What both files have and may have. */
void atoll_audit_sizes(const struct atoll_audit *audit, uint64_t *ret_bytes,
                       uint64_t *ret_max_bytes);
void atoll_audit_write(struct atoll_audit *audit, const struct atoll_audit_entry *entry);
