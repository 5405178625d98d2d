#pragma once
#include <sys/stat.h>
#include "base/shares.h"
#include "loop/workers.h"

/*
 * Descriptors and files that came out of a sandbox. Whatever is done with them can block for as long as
 * a tenant likes: a write waits for the lock of an inode that a hundred processes inside write to, a
 * close waits for SO_LINGER. So it is done by worker threads, never by the loop's. Of one sandbox (lane)
 * one thread at most is blocked; of one tenant so few that as many are left for others; see workers.h.
 * docs/adr/0015 has the reasons.
 *
 * Thread: the loop's.
 */
struct atoll_offload;

#define ATOLL_OFFLOAD_THREADS 32
/* Files open and descriptors that wait to be closed, of all tenants; see base/shares.h. */
#define ATOLL_OFFLOAD_MAX 512

/* Which sandbox a descriptor came from. */
struct atoll_lane {
    char tenant[ATOLL_SHARE_NAME_MAX];
    char sandbox[40];
};

int atoll_offload_new(struct atoll_loop *loop, struct atoll_offload **ret,
                      struct atoll_error *err) ATOLL_MUST_CHECK;
/* Waits for what is under way. What is asked for later fails, and descriptors stay open. Accepts NULL. */
void atoll_offload_stop(struct atoll_offload *o);
/* Files must be closed before. */
struct atoll_offload *atoll_offload_free(struct atoll_offload *o);

/* Whether the tenant may have another descriptor out of its sandboxes. RESOURCE_EXHAUSTED. NULL: no
 * bound. */
int atoll_offload_check(const struct atoll_offload *o, const struct atoll_lane *lane,
                        struct atoll_error *err) ATOLL_MUST_CHECK;
/* Closes fd, whatever it is; a socket without waiting for what it has not sent. o NULL: at once. */
void atoll_offload_close(struct atoll_offload *o, const struct atoll_lane *lane, int fd);

struct atoll_offload_counts {
    size_t waiting, running; /* jobs */
    size_t held;             /* of ATOLL_OFFLOAD_MAX */
};
struct atoll_offload_counts atoll_offload_count(struct atoll_offload *o);

/*
 * One regular file, read or written from its start to its end. Two pieces are in memory at most: while
 * the caller uses one, a worker reads or writes the other.
 *
 * Without an offload everything is done at once, by the caller's thread: for files that are not a
 * tenant's, and for tests.
 */
struct atoll_tenant_file;

/* Takes fd in every case. -EINVAL: not a regular file. */
int atoll_tenant_file_open(struct atoll_offload *o, const struct atoll_lane *lane, int fd,
                           struct atoll_tenant_file **ret) ATOLL_MUST_CHECK;
/* No callback comes after this. Bytes that are not flushed are lost. Accepts NULL; returns NULL. */
struct atoll_tenant_file *atoll_tenant_file_close(struct atoll_tenant_file *f);

/* Ends it without a close: the descriptor is the caller's, for one that is not a tenant's. Nothing may be
 * under way. */
int atoll_tenant_file_release(struct atoll_tenant_file *f);

/* As it was when it was opened. */
const struct stat *atoll_tenant_file_stat(const struct atoll_tenant_file *f);
/* Called from the loop when a read, write or flush that had to wait is worth another try. */
void atoll_tenant_file_on_ready(struct atoll_tenant_file *f, void (*fn)(void *arg), void *arg);

/* Reads only this part; before the first read. */
void atoll_tenant_file_cut(struct atoll_tenant_file *f, uint64_t offset, uint64_t length);
/* The next piece, which is good until the next call. 0: that was all, -EAGAIN: on_ready follows, -errno. */
ssize_t atoll_tenant_file_read(struct atoll_tenant_file *f,
                               const uint8_t **ret_bytes) ATOLL_MUST_CHECK;

/* Bytes of the next piece, which the next read gives. As atoll_tenant_file_read() otherwise. */
ssize_t atoll_tenant_file_peek(struct atoll_tenant_file *f) ATOLL_MUST_CHECK;

/* Takes all of the bytes. 1: on_ready follows, and nothing more should come before; -errno, also of an
 * earlier write. */
int atoll_tenant_file_write(struct atoll_tenant_file *f, const void *bytes,
                            size_t n) ATOLL_MUST_CHECK;
/* 0: all is written, 1: on_ready follows, -errno. */
int atoll_tenant_file_flush(struct atoll_tenant_file *f) ATOLL_MUST_CHECK;
/* The same, and the descriptor is closed: the sandbox can execute the file (ETXTBSY otherwise). */
int atoll_tenant_file_finish(struct atoll_tenant_file *f) ATOLL_MUST_CHECK;
