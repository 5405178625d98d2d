#pragma once
#include "api/call.h"

/*
 * Signed URLs: the holder may read, or write, one file of one sandbox until the URL expires,
 * without a key. The signature is an HMAC-SHA256, with a secret of this daemon, over every part of
 * the URL that grants something; a changed URL is not accepted.
 */
struct atoll_signed_url {
    enum atoll_http_method method; /* GET or PUT */
    const char *sandbox_id, *path;
    const char *user, *mode; /* "" if not given */
    uint64_t expires_unix_s;
};

#define ATOLL_SIGNATURE_LEN 64                        /* hex digits */
#define ATOLL_SIGNED_PATH "/api/sandboxes/{id}/files" /* the route that accepts them */

/* Reads the secret from the file url-secret in state_fd; creates the file if it does not exist.
 * FAILED_PRECONDITION when it is readable by others. Blocking: one small file. */
int atoll_signed_url_load(uint8_t *secret, int state_fd, struct atoll_error *err) ATOLL_MUST_CHECK;

/* out holds ATOLL_SIGNATURE_LEN + 1 bytes. */
void atoll_signed_url_sign(const struct atoll_api *api, const struct atoll_signed_url *url,
                           char *out);

/* 0: the request has no signature, or its route accepts none; 1: the signature is valid, and
 * call->caller is set. UNAUTHENTICATED when the signature is wrong or expired. */
int atoll_signed_url_check(struct atoll_api_call *call, struct atoll_error *err) ATOLL_MUST_CHECK;
