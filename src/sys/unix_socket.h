#pragma once
#include "base/defs.h"

/* Connects to the unix stream socket dir/name; dir may be longer than sun_path. A sandbox may be able to write
 * to dir: if `name` is a link, or no socket, the answer is -ECONNREFUSED. Returns the (close-on-exec)
 * descriptor or -errno. Does not wait: -EAGAIN if the listener's backlog is full. */
int atoll_unix_connect(const char *dir, const char *name) ATOLL_MUST_CHECK;

/* A pidfd (close-on-exec) of the process that listened at the other end of a connected socket, or
 * -errno. */
int atoll_unix_peer_pidfd(int fd) ATOLL_MUST_CHECK;
