#pragma once
#include "api/rest/file/file_batch.h"
#include "api/rest/requests.h"

/*
 * A command in a sandbox of its own: create, bring files, start; at the end destroy. How output
 * gets to the client is its owner's business (run.c: gathered, run_stream.c: by WebSocket).
 * The sandbox lives no longer than the run unless "keep" was asked for and its id has been told.
 */
struct atoll_run;

struct atoll_run_ops {
    bool takes_input; /* "stdin":true makes sense */
    /* The command runs. Leads to atoll_run_end() or atoll_run_abandon(). */
    void (*started)(struct atoll_run *run, struct atoll_exec *exec);
    /* What making the sandbox is busy with. May be NULL. */
    void (*progress)(struct atoll_run *run, const char *text);
    /* It is over, once, and nothing is under way: with what went wrong, or NULL. */
    void (*finished)(struct atoll_run *run, const struct atoll_error *error);
};

struct atoll_run {
    const struct atoll_run_ops *ops;
    struct atoll_engine *engine;
    struct atoll_body body;
    struct atoll_exec_start start; /* borrowed from body, like all that is not an array here */
    struct atoll_rest_input input;
    struct atoll_file_batch files;
    bool keep;
    bool leased; /* to the connection */
    enum { ATOLL_RUN_PREPARING, ATOLL_RUN_RUNNING, ATOLL_RUN_ENDING } phase;
    bool abandoned;
    struct atoll_error error; /* for finished(), once the sandbox is gone */
    char owner[65];           /* tenant */
    char sandbox_id[33], exec_id[33];
};

/* bytes: sandbox fields, exec fields, "keep" and "files". Calls ops, possibly before it returns. */
void atoll_run_begin(struct atoll_run *run, const struct atoll_run_ops *ops,
                     struct atoll_engine *engine, const char *owner, const uint8_t *bytes,
                     size_t n);
/* The command has ended. */
void atoll_run_end(struct atoll_run *run);
/* Nobody waits any more. finished() comes all the same. */
void atoll_run_abandon(struct atoll_run *run);
/* After finished(). */
void atoll_run_done(struct atoll_run *run);
