#pragma once
#include "base/defs.h"

/*
 * SHA-1 (FIPS 180-4) for the WebSocket handshake, where it proves nothing but that the peer speaks
 * the protocol. Not for anything that has to be secure. Here and not from a library, so that the
 * command line starts without loading one.
 */
#define ATOLL_SHA1_BYTES 20
void atoll_sha1(const void *bytes, size_t n, uint8_t digest[ATOLL_SHA1_BYTES]);
