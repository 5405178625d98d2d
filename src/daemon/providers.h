#pragma once
#include "daemon/provider_kinds.h"
#include "engine/engine.h"
#include "provider/checked.h"

/*
 * Opens the providers that providers.yaml lists and those that the environment enables; without
 * either only the native provider.
 * docs/operations.md describes the file.
 */
#define ATOLL_DAEMON_PROVIDERS 16
#define ATOLL_DAEMON_WORKERS 32 /* different provider names in the life of the daemon */

struct atoll_daemon_providers {
    struct atoll_daemon_place place;
    struct atoll_checked_group group;
    struct {
        char name[65];
        struct atoll_workers *workers;
    } workers[ATOLL_DAEMON_WORKERS]; /* by name; providers do not wait for each other */
    size_t worker_count;
    struct atoll_opened {
        char name[65];
        const struct atoll_provider_kind *kind;
        char digest[65]; /* of the settings whose change requires opening it again */
    } opened[ATOLL_DAEMON_PROVIDERS];
    size_t opened_count;            /* in use */
    int placement;                  /* enum atoll_placement */
    struct atoll_provider_set *set; /* owned; the list given to the engine borrows from it */
};

/* The path of the file, whether it exists or not. */
void atoll_daemon_providers_file(const struct atoll_daemon_place *place,
                                 char out[ATOLL_CONFIG_PATH_MAX]);

/* Opens all providers for atoll_engine_new(). list has room for ATOLL_DAEMON_PROVIDERS; its
 * strings are valid until atoll_daemon_providers_taken(). INVALID_ARGUMENT names file and line.
 * Call it before dropping privileges. Blocking: starts programs. The strings of place are
 * borrowed for the life of `providers`. */
int atoll_daemon_providers_open(struct atoll_daemon_providers *providers,
                                const struct atoll_daemon_place *place,
                                struct atoll_engine_provider *list, size_t *ret_count,
                                struct atoll_error *err) ATOLL_MUST_CHECK;
void atoll_daemon_providers_taken(struct atoll_daemon_providers *providers);
/* Frees the providers of a list that the engine did not take over. */
void atoll_daemon_providers_drop(struct atoll_engine_provider *list, size_t count);
/* Reads the file again and passes the new providers to the engine. On an error nothing changes.
 * Blocking: reads files. */
int atoll_daemon_providers_reload(struct atoll_daemon_providers *providers,
                                  struct atoll_engine *engine,
                                  struct atoll_error *err) ATOLL_MUST_CHECK;
/* After the providers are freed. */
void atoll_daemon_providers_done(struct atoll_daemon_providers *providers);
