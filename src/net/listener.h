#pragma once
#include <sys/stat.h>
#include "loop/loop.h"

/*
 * A listening socket on the loop: a unix path or HOST:PORT.
 * When descriptors run out, a reserve descriptor is used to accept and drop one client (which then sees
 * a closed connection instead of hanging), and accepting pauses for a moment.
 *
 * Blocking: opening may (name resolution of HOST); accepting never.
 * Thread: the loop's.
 * Ownership: the callback owns accepted descriptors. Closing a listener does not remove the socket file;
 * the next listener at that path replaces it.
 */
struct atoll_listener;

/* fd is connected, non-blocking and close-on-exec, with TCP_NODELAY and keep-alive on TCP. */
typedef void atoll_listener_accept_fn(void *arg, int fd, bool is_unix);

/* Replaces a socket file on which no process listens. ALREADY_EXISTS if one does, FAILED_PRECONDITION if
 * the path is another kind of file. `mode` does not depend on the umask. The path may be longer than
 * sockaddr_un allows; its last component may not (INVALID_ARGUMENT). */
int atoll_listener_open_unix(struct atoll_loop *loop, const char *path, mode_t mode,
                             atoll_listener_accept_fn *on_accept, void *arg,
                             struct atoll_listener **ret_listener,
                             struct atoll_error *err) ATOLL_MUST_CHECK;

/* "127.0.0.1:8000", "[::1]:8000", "localhost:0". INVALID_ARGUMENT, ALREADY_EXISTS (in use),
 * PERMISSION_DENIED. *ret_port (ret_port may be NULL) is the bound port. */
int atoll_listener_open_tcp(struct atoll_loop *loop, const char *host_port,
                            atoll_listener_accept_fn *on_accept, void *arg, uint16_t *ret_port,
                            struct atoll_listener **ret_listener,
                            struct atoll_error *err) ATOLL_MUST_CHECK;

/* The bound (close-on-exec, non-blocking) socket without a listener, for a program that listens itself;
 * owned by the caller. Errors as above. */
int atoll_listener_bind_tcp(const char *host_port, uint16_t *ret_port,
                            struct atoll_error *err) ATOLL_MUST_CHECK;

struct atoll_listener *atoll_listener_close(struct atoll_listener *l);
