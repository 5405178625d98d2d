#pragma once
#include "daemon/config.h"
#include "engine/engine.h"
#include "loop/workers.h"
#include "provider/checked.h"

/*
 * Who makes sandboxes here: what providers.yaml says, opened. Without such a file that is the native
 * provider alone. docs/providers.md describes the file.
 */
#define ATOLL_DAEMON_PROVIDERS 5 /* kinds there are */

struct atoll_daemon_providers {
    struct atoll_checked_group group;
    struct atoll_workers
        *workers[ATOLL_DAEMON_PROVIDERS]; /* one pool each: none waits for another */
    struct atoll_engine_provider list[ATOLL_DAEMON_PROVIDERS];
    char images[ATOLL_DAEMON_PROVIDERS][256];
    double ranks[ATOLL_DAEMON_PROVIDERS]; /* what `list` is sorted by */
    size_t count;
};

struct atoll_daemon_place {
    struct atoll_loop *loop;
    const char *state_dir, *program_dir;
    const char *file; /* providers.yaml; "": the one in the state directory, if there is one */
};

/* INVALID_ARGUMENT with file and line. While there are privileges. Blocking: starts programs. */
int atoll_daemon_providers_open(struct atoll_daemon_providers *providers,
                                const struct atoll_daemon_place *place,
                                struct atoll_error *err) ATOLL_MUST_CHECK;
/* Those that nobody took over. */
void atoll_daemon_providers_drop(struct atoll_daemon_providers *providers);
/* After the providers are freed. */
void atoll_daemon_providers_done(struct atoll_daemon_providers *providers);
