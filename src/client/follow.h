#pragma once
#include "client/link.h"

/*
 * The journal of a command: what it has written so far and, if it has ended, how. Can be read from
 * any offset, as often as wanted.
 */
struct atoll_follow {
    const char *sandbox_id, *exec_id;
    bool follow;                         /* stay until it has ended; survives daemon restarts */
    uint64_t seen[ATOLL_CLIENT_STREAMS]; /* in: where to begin; out: where it got to */
    /* Each may be NULL. */
    int (*output)(void *arg, int stream, const void *bytes, size_t n, struct atoll_error *err);
    void (*dropped)(void *arg, int stream, uint64_t from, uint64_t to);
    int (*line)(void *arg, const char *line, size_t n, struct atoll_error *err); /* as it came */
    void *arg;
    json_t *result; /* out, the caller's: set when it has ended */
};

/* NOT_FOUND, UNAVAILABLE, DATA_LOSS, and what the callbacks return. */
int atoll_follow_read(struct atoll_client *client, struct atoll_follow *journal,
                      struct atoll_error *err) ATOLL_MUST_CHECK;

/* What the daemon says was dropped ({"stream","from","to"}): false when it says nothing. */
bool atoll_follow_gap(const json_t *gap, int *ret_stream, uint64_t *ret_from, uint64_t *ret_to);
