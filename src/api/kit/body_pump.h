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

/*
 * The same for an upload that has a beginning and an end of its own, such as an archive that is unpacked. The
 * target is what a function of the engine returned to be written to.
 */
struct atoll_body_sink {
    void (*write)(void *target, const uint8_t *bytes, size_t n, atoll_done_fn *done,
                  void *done_arg);
    void (*drop)(void *target); /* the body did not come, or was refused; the call is failed then */
    /* The whole body was written; it ends the call. */
    void (*finish)(void *target, struct atoll_api_call *call);
};
/* sink: static. With an error, target is not used and the call is failed. Else exactly one of drop() and
 * finish() is called, possibly before this returns: the client may be gone already. */
void atoll_body_pump_into(struct atoll_api_call *call, const struct atoll_body_sink *sink,
                          void *target, const struct atoll_error *error);

void atoll_body_pump_start(struct atoll_body_pump *pump, struct atoll_api_call *call,
                           void (*write)(void *arg, const uint8_t *bytes, size_t n,
                                         atoll_done_fn *done, void *done_arg),
                           void (*ended)(void *arg, const struct atoll_error *error), void *arg);
