#pragma once
#include "api/call.h"

/*
 * Carries a request body of any size to something that takes its time: one piece is under way at
 * once, and meanwhile the client's socket is not read.
 * Ownership: the caller's storage; it must live until `ended` has been called.
 */
struct atoll_body_pump {
    struct atoll_api_call *call; /* its on_gone is ours while the pump runs */
    /* Takes the next bytes, which are borrowed for the call. */
    void (*write)(void *arg, const uint8_t *bytes, size_t n, atoll_done_fn *done, void *done_arg);
    /* Called once, with nothing under way: NULL when the whole body is through, CANCELED when the
     * client went away, else what a write said. Ending the call is up to the owner. */
    void (*ended)(void *arg, const struct atoll_error *error);
    void *arg;

    bool writing, gone;
};

void atoll_body_pump_start(struct atoll_body_pump *pump, struct atoll_api_call *call,
                           void (*write)(void *arg, const uint8_t *bytes, size_t n,
                                         atoll_done_fn *done, void *done_arg),
                           void (*ended)(void *arg, const struct atoll_error *error), void *arg);
