#pragma once
#include "base/defs.h"

/* Fills buf with getrandom(2); aborts if that fails. */
void atoll_rand_bytes(void *buf, size_t n);

/* A random id of n characters out of a-z0-9 (5.17 bits each) and a NUL: buf holds n + 1 bytes.
 * 26 characters carry 134 bits: unguessable, and safe as file, cgroup and host name. */
#define ATOLL_ID_LEN 26
void atoll_rand_id(char *buf, size_t n);

/* A random UUID (RFC 9562, version 4), with a NUL: buf holds ATOLL_UUID_LEN + 1 bytes. */
#define ATOLL_UUID_LEN 36
void atoll_rand_uuid(char *buf);
