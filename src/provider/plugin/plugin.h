#pragma once
#include "provider/sync.h"

/*
 * A provider that is a program of the operator's: `kind: plugin` in providers.yaml. The program speaks
 * JSON lines on its standard input and output, which are one unix stream socket; docs/plugins.md
 * describes the messages. It makes a place, starts atoll-agent in it and hands over streams to that
 * agent. Everything else is the same code as for other providers.
 *
 * The program runs with the daemon's own confinement (ADR 14) and is started again when it ends.
 * Blocking: everything but missing_limits. Thread: any worker, several at a time.
 */
struct atoll_plugin_config {
    const char *name;          /* of the provider */
    const char *program;       /* absolute path */
    const char *state_dir;     /* its own, below an existing directory; made when missing */
    const char *agent_path;    /* atoll-agent */
    const char *settings_json; /* an object that the program gets as it is; NULL: an empty one */
};

/* Copies what it needs of the config. Starts the program once to ask what it can do, and ends it again;
 * waits at most five seconds for that. INVALID_ARGUMENT when its answer cannot be used, UNAVAILABLE when
 * there is no answer. */
int atoll_plugin_provider_new(const struct atoll_plugin_config *config,
                              struct atoll_sync_provider **ret,
                              struct atoll_error *err) ATOLL_MUST_CHECK;
