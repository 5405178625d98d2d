#pragma once
#include "base/error.h"

/*
 * Streams to the agent's socket over HTTP, for sandboxes that are reached only through an HTTP proxy of
 * their service. docs/agent-protocol.md has the requests.
 *
 * A relay listens at a free port of 127.0.0.1, or at a given port of all addresses, and accepts requests
 * that show its token. Port and token are in a file that only its owner can read, which the relay keeps
 * locked while it runs.
 */

/* First line of the file and of the output: "atoll-relay PORT TOKEN\n". */
#define ATOLL_AGENT_RELAY_WORD "atoll-relay"
#define ATOLL_AGENT_RELAY_TOKEN_LEN 32

struct atoll_agent_http_relay {
    int listen_fd, lock_fd;
    const char *file;   /* borrowed */
    const char *socket; /* the agent's; borrowed */
    char token[ATOLL_AGENT_RELAY_TOKEN_LEN + 1];
};

/* port: 0 for a free one of 127.0.0.1. Prints the line of the file. Returns 1 if another process serves this file already, else 0: the caller
 * then runs the relay. */
int atoll_agent_http_relay_open(struct atoll_agent_http_relay *relay, const char *file,
                                const char *socket, uint16_t port,
                                struct atoll_error *err) ATOLL_MUST_CHECK;
/* Blocking; does not return. */
_Noreturn void atoll_agent_http_relay_run(struct atoll_agent_http_relay *relay);
