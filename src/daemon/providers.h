#pragma once
#include "daemon/provider_kinds.h"
#include "engine/engine.h"
#include "provider/checked.h"

/*
 * Who makes sandboxes here: what providers.yaml says, opened. Without such a file that is the native
 * provider alone. docs/operations.md describes the file.
 */
#define ATOLL_DAEMON_PROVIDERS 16
#define ATOLL_DAEMON_WORKERS 32 /* names there may be in the daemon's life */

struct atoll_daemon_providers {
    struct atoll_daemon_place place;
    struct atoll_checked_group group;
    struct {
        char name[65];
        struct atoll_workers *workers;
    } workers[ATOLL_DAEMON_WORKERS]; /* a few threads for each name: none waits for another */
    size_t worker_count;
    struct atoll_opened {
        char name[65];
        const struct atoll_provider_kind *kind;
        char digest[65]; /* of its own settings: what it would have to be opened again for */
    } opened[ATOLL_DAEMON_PROVIDERS];
    size_t opened_count;            /* in use */
    int placement;                  /* enum atoll_placement */
    struct atoll_provider_set *set; /* what the list given to the engine points into; owned */
};

/* Where the file is, or would be. */
void atoll_daemon_providers_file(const struct atoll_daemon_place *place,
                                 char out[ATOLL_CONFIG_PATH_MAX]);

/* The providers there are to be, for atoll_engine_new(); list has room for ATOLL_DAEMON_PROVIDERS, and
 * its texts are good until atoll_daemon_providers_taken(). INVALID_ARGUMENT with file and line. While there are
 * privileges. Blocking: starts programs. The strings of place are borrowed for good. */
int atoll_daemon_providers_open(struct atoll_daemon_providers *providers,
                                const struct atoll_daemon_place *place,
                                struct atoll_engine_provider *list, size_t *ret_count,
                                struct atoll_error *err) ATOLL_MUST_CHECK;
void atoll_daemon_providers_taken(struct atoll_daemon_providers *providers);
/* Those that nobody took over. */
void atoll_daemon_providers_drop(struct atoll_engine_provider *list, size_t count);
/* The file is read again, and the engine told. On an error everything is as before. Blocking: reads
 * files. */
int atoll_daemon_providers_reload(struct atoll_daemon_providers *providers,
                                  struct atoll_engine *engine,
                                  struct atoll_error *err) ATOLL_MUST_CHECK;
/* After the providers are freed. */
void atoll_daemon_providers_done(struct atoll_daemon_providers *providers);
