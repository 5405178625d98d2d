#pragma once
#include <libssh/libssh.h>
#include "base/error.h"

/*
 * The key by which clients recognize this host: the file ssh_host_key of the state directory, made at
 * the first start and kept. ssh_host_key.pub is its public half, for the daemon and for people.
 *
 * Blocking: small files.
 */

/* The caller owns *ret_key. FAILED_PRECONDITION: the file is open to other users, or holds no key. */
int atoll_ssh_host_key_open(int state_fd, ssh_key *ret_key,
                            struct atoll_error *err) ATOLL_MUST_CHECK;
