#pragma once
#include "api/call.h"

/*
 * Passes a request body of any size to a slow writer: one piece is being written at a time, and the
 * client's socket is not read meanwhile. Ownership: the caller's storage; it must live until
 * `ended` has been called.
 */
struct atoll_body_pump {
    struct atoll_api_call *call; /* its on_gone is used by the pump while it runs */
    /* Takes the next bytes, which are borrowed for the call. */
    void (*write)(void *arg, const uint8_t *bytes, size_t n, atoll_done_fn *done, void *done_arg);
    /* Called once, with no write in progress. NULL: the whole body was written; CANCELED: the
     * client disconnected; else the error of a write. The owner ends the call. */
    void (*ended)(void *arg, const struct atoll_error *error);
    void *arg;

    bool writing, gone;
};

void atoll_body_pump_start(struct atoll_body_pump *pump, struct atoll_api_call *call,
                           void (*write)(void *arg, const uint8_t *bytes, size_t n,
                                         atoll_done_fn *done, void *done_arg),
                           void (*ended)(void *arg, const struct atoll_error *error), void *arg);
