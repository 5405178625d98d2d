#pragma once
#include "client/link.h"

/*
 * Reads the journal of a command: its output so far and, if it has ended, its terminal record. A journal
 * can be read repeatedly, from any offset.
 */
struct atoll_follow {
    const char *sandbox_id, *exec_id;
    bool follow;                         /* wait until it has ended; survives daemon restarts */
    uint64_t seen[ATOLL_CLIENT_STREAMS]; /* in: offsets to start at; out: offsets reached */
    /* Each may be NULL. */
    int (*output)(void *arg, int stream, const void *bytes, size_t n, struct atoll_error *err);
    void (*dropped)(void *arg, int stream, uint64_t from, uint64_t to);
    int (*line)(void *arg, const char *line, size_t n, struct atoll_error *err); /* raw line */
    void *arg;
    json_t *result; /* out, owned by the caller: set if the command has ended */
};

/* NOT_FOUND, UNAVAILABLE, DATA_LOSS, and errors of the callbacks. */
int atoll_follow_read(struct atoll_client *client, struct atoll_follow *journal,
                      struct atoll_error *err) ATOLL_MUST_CHECK;

/* Parses a report of dropped output ({"stream","from","to"}); false if it is absent or invalid. */
bool atoll_follow_gap(const json_t *gap, int *ret_stream, uint64_t *ret_from, uint64_t *ret_to);
