#pragma once
#include "access/sandbox_tokens.h"
#include "api/call.h"

/*
 * Access to sandboxes by SSH: tokens for atoll-ssh, which is a client of this API (docs/ssh.md).
 */

/* Where clients reach atoll-ssh. */
struct atoll_ssh_site {
    const char *host; /* "": the name by which the client reaches the API */
    uint16_t port;
    /* "ssh-ed25519 AAAA...", borrowed; NULL: atoll-ssh has not made its key yet. */
    const char *(*host_key)(void *arg);
    void *arg;
};

#define ATOLL_SSH_MINUTES_DEFAULT 60
#define ATOLL_SSH_MINUTES_MAX (7 * 24 * 60)

struct atoll_ssh_access {
    char token[ATOLL_SANDBOX_TOKEN_LEN + 1]; /* secret */
    struct atoll_sandbox_token_view view;
    char host[256], command[400];
    uint16_t port;
    const char *host_key; /* borrowed */
};

/* Makes a token of the sandbox in the route. UNIMPLEMENTED: this daemon has no SSH server. UNAVAILABLE:
 * it is being started. RESOURCE_EXHAUSTED. */
int atoll_ssh_grant(struct atoll_api_call *call, uint64_t minutes, struct atoll_ssh_access *ret,
                    struct atoll_error *err) ATOLL_MUST_CHECK;
