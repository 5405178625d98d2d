#pragma once
#include "base/error.h"

/*
 * The audit log: one JSON object per line for every call that changes state. It is the file
 * audit.log in the state directory, with mode 0600. An entry says who did what to which sandbox,
 * and the result; it never contains request data. A file that reaches its maximum size is renamed
 * to audit.log.1, and a new file is started.
 *
 * Blocking: an append to a local file. A failed write is logged at most once a minute.
 */
struct atoll_audit;

struct atoll_audit_entry {
    const char *tenant, *key_id; /* "" when unknown, or when the caller used no key */
    int64_t uid;                 /* of a caller on the unix socket, else -1 */
    const char *peer;            /* address, "" after the client disconnected */
    const char *method, *route, *sandbox_id, *exec_id, *name, *request_id;
    int status;
};

#define ATOLL_AUDIT_MAX_BYTES ((uint64_t)64 * 1024 * 1024)

/* state_fd is borrowed. max_bytes 0: ATOLL_AUDIT_MAX_BYTES, or 1/64 of a smaller disk. INTERNAL. */
int atoll_audit_open(int state_fd, uint64_t max_bytes, struct atoll_audit **ret,
                     struct atoll_error *err) ATOLL_MUST_CHECK;
struct atoll_audit *atoll_audit_close(struct atoll_audit *audit);
/* Sum of the sizes of both files, and the maximum of that sum. */
void atoll_audit_sizes(const struct atoll_audit *audit, uint64_t *ret_bytes,
                       uint64_t *ret_max_bytes);
void atoll_audit_write(struct atoll_audit *audit, const struct atoll_audit_entry *entry);
