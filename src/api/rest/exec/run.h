#pragma once
#include "api/kit/file_batch.h"
#include "api/rest/requests.h"

/*
 * A command in a new sandbox: create the sandbox, write files, start the command; at the end
 * destroy the sandbox. The owner delivers the output to the client (run_post.c: collected,
 * ws_run.c: by WebSocket). The sandbox is destroyed with the run unless the client asked for
 * "keep" and has received the sandbox's id.
 */
struct atoll_run;

struct atoll_run_ops {
    bool takes_input; /* "stdin":true is allowed */
    /* The command is running. The owner later calls atoll_run_end() or atoll_run_abandon(). */
    void (*started)(struct atoll_run *run, struct atoll_exec *exec);
    /* Reports the current step of sandbox creation. May be NULL. */
    void (*progress)(struct atoll_run *run, const char *text);
    /* Called once, when nothing is in progress any more. error: why the run failed, or NULL. */
    void (*finished)(struct atoll_run *run, const struct atoll_error *error);
};

struct atoll_run {
    const struct atoll_run_ops *ops;
    struct atoll_engine *engine;
    struct atoll_body body;
    struct atoll_exec_start start; /* borrowed from body, as are the other pointers */
    struct atoll_rest_input input;
    struct atoll_file_batch files;
    bool keep;
    bool leased; /* bound to the connection */
    enum { ATOLL_RUN_PREPARING, ATOLL_RUN_RUNNING, ATOLL_RUN_ENDING } phase;
    bool abandoned;
    struct atoll_error error; /* passed to finished() after the sandbox is destroyed */
    char owner[65];           /* tenant */
    char sandbox_id[33], exec_id[33];
};

/* bytes: sandbox fields, exec fields, "keep" and "files". May call ops before it returns. */
void atoll_run_begin(struct atoll_run *run, const struct atoll_run_ops *ops,
                     struct atoll_engine *engine, const char *owner, const uint8_t *bytes,
                     size_t n);
/* Call when the command has ended. */
void atoll_run_end(struct atoll_run *run);
/* Call when the client has disconnected. finished() is still called. */
void atoll_run_abandon(struct atoll_run *run);
/* Frees the run's data; call after finished(). */
void atoll_run_done(struct atoll_run *run);
