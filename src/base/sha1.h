#pragma once
#include "base/defs.h"

/*
 * SHA-1 (FIPS 180-4) for the WebSocket handshake, where it only shows that the peer speaks the protocol.
 * Not for security. Implemented here so that the command line does not have to load a crypto library.
 */
#define ATOLL_SHA1_BYTES 20
void atoll_sha1(const void *bytes, size_t n, uint8_t digest[ATOLL_SHA1_BYTES]);
