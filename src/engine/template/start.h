#pragma once
#include "engine/engine.h"

/*
 * The start command of a template. It is a shell command that runs in every sandbox made from the
 * template, as the sandbox's default user in its default directory, for as long as it likes. The
 * ready command is repeated until it succeeds; the create is answered only then.
 *
 * A ready command that only sleeps ("sleep 20") gives the start command time while the template is
 * built. New sandboxes do not wait for it.
 *
 * Thread: the loop's. done is called exactly once, possibly before the call returns.
 */
#define ATOLL_READY_CREATE_MS 60000
#define ATOLL_READY_BUILD_MS 600000

struct atoll_start_commands {
    const char *start, *ready; /* NULL or "": none */
    uint32_t ready_ms;         /* how long to wait for the ready command */
    bool building;             /* the template is being built */
};
/* Runs the commands in a running sandbox. DEADLINE_EXCEEDED: not ready in time;
 * FAILED_PRECONDITION: the start command failed before; both have its last output. ABORTED: the
 * sandbox has ended. */
void atoll_start_run(struct atoll_engine *engine, const char *sandbox_id,
                     const struct atoll_start_commands *commands, atoll_done_fn *done, void *arg);

/* The same for a sandbox that a client has just got, with the commands of its template, if it has any.
 * If they fail, the sandbox is destroyed before done is called. */
void atoll_start_sandbox(struct atoll_sandbox *sandbox, atoll_sandbox_fn *done, void *arg);

/* Whether the exec is a start command. Also true for a client's command with the same arguments. */
bool atoll_start_made(const struct atoll_exec *exec);
