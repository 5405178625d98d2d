#pragma once
#include <sys/types.h>
#include "base/defs.h"

/*
 * Small helpers on descriptors. All return -errno and retry EINTR.
 */

/* Writes everything or fails; for blocking descriptors. */
int atoll_fd_write_all(int fd, const void *bytes, size_t n) ATOLL_MUST_CHECK;
/* Reads exactly n bytes; -EPIPE if the input ends earlier. */
int atoll_fd_read_all(int fd, void *bytes, size_t n) ATOLL_MUST_CHECK;
/* Reads a small file (procfs, cgroupfs, config) below dirfd as a string; -EFBIG when it does not
 * fit. Returns the length. */
int atoll_fd_read_file(int dirfd, const char *path, char *buf, size_t cap) ATOLL_MUST_CHECK;
/* Opens an existing file below dirfd and writes text with one write(2), as procfs and cgroupfs need. */
int atoll_fd_write_file(int dirfd, const char *path, const char *text) ATOLL_MUST_CHECK;
/* Writes a file for its owner only, by way of a temporary file named path.new: after a crash it is
 * whole, or as it was before. Waits for the disk. */
int atoll_fd_replace_file(int dirfd, const char *path, const void *bytes,
                          size_t n) ATOLL_MUST_CHECK;
int atoll_fd_set_nonblock(int fd, bool on) ATOLL_MUST_CHECK;
/* Lets the process have as many descriptors as its hard limit permits: programs that walk deep trees. */
void atoll_fd_raise_limit(void);

/* Most descriptors in one of our messages, and in any message (SCM_MAX_FD of the kernel). */
#define ATOLL_FD_PASS_MAX 8
#define ATOLL_FD_RECV_MAX 253

/* sendmsg with descriptors (nfds may be 0), MSG_NOSIGNAL. Returns bytes sent or -errno. */
ssize_t atoll_fd_send(int sock, const void *bytes, size_t n, const int *fds,
                      size_t nfds) ATOLL_MUST_CHECK;
/* recvmsg: stores all received descriptors (close-on-exec), up to ATOLL_FD_RECV_MAX, in fds and their
 * number in *ret_nfds; the caller owns them. It accepts all of them because the kernel would close the
 * others on this thread, which may block. Returns bytes received, 0 at end, or -errno. */
ssize_t atoll_fd_recv(int sock, void *bytes, size_t n, int *fds, size_t *ret_nfds) ATOLL_MUST_CHECK;
