#pragma once
#include <sys/stat.h>
#include "loop/loop.h"

/*
 * A listening socket on the loop: a unix path or HOST:PORT.
 * Running out of descriptors does not stop it: a descriptor held in reserve is spent to accept and
 * drop the caller (who then sees an end instead of hanging), and accepting rests for a moment.
 *
 * Blocking: opening may (name resolution of HOST); accepting never.
 * Thread: the loop's.
 * Ownership: accepted descriptors belong to the callback. Closing a listener leaves the socket file
 * where it is: the next one to listen there replaces it.
 */
struct atoll_listener;

/* fd is connected, non-blocking and close-on-exec, with TCP_NODELAY and keep-alive on TCP. */
typedef void atoll_listener_accept_fn(void *arg, int fd, bool is_unix);

/* A socket file nobody answers on is replaced; one in use is ALREADY_EXISTS, and any other file
 * there is FAILED_PRECONDITION. `mode` is exact, whatever the umask. The path may be longer than
 * sockaddr_un allows; its last part may not (INVALID_ARGUMENT). */
int atoll_listener_open_unix(struct atoll_loop *loop, const char *path, mode_t mode,
                             atoll_listener_accept_fn *on_accept, void *arg,
                             struct atoll_listener **ret_listener,
                             struct atoll_error *err) ATOLL_MUST_CHECK;

/* "127.0.0.1:8000", "[::1]:8000", "localhost:0". INVALID_ARGUMENT, ALREADY_EXISTS (in use),
 * PERMISSION_DENIED. ret_port (may be NULL) is the port really bound. */
int atoll_listener_open_tcp(struct atoll_loop *loop, const char *host_port,
                            atoll_listener_accept_fn *on_accept, void *arg, uint16_t *ret_port,
                            struct atoll_listener **ret_listener,
                            struct atoll_error *err) ATOLL_MUST_CHECK;

struct atoll_listener *atoll_listener_close(struct atoll_listener *l);
