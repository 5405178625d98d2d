#pragma once
#include "provider/sync.h"

/*
 * A provider implemented by the operator's own program: `kind: plugin` in providers.yaml. The
 * program speaks JSON lines on its standard input and output, which are one unix stream socket;
 * docs/plugins.md describes the messages. It makes a place, starts atoll-agent in it and passes
 * streams to that agent. Everything else is the same code as for other providers.
 *
 * The program runs with the daemon's own confinement (ADR 14) and is started again after it ended.
 * Blocking: everything except missing_limits. Thread: any worker, several at a time.
 */
struct atoll_plugin_config {
    const char *name;       /* name of the provider */
    const char *program;    /* absolute path */
    const char *state_dir;  /* its own directory; created if missing, in an existing parent */
    const char *agent_path; /* atoll-agent */
    /* An object that is passed to the program unchanged; NULL: an empty one. */
    const char *settings_json;
};

/* Copies the config. Starts the program once to ask for its capabilities, and ends it again;
 * waits at most five seconds. INVALID_ARGUMENT: its answer cannot be used. UNAVAILABLE: there is
 * no answer. */
int atoll_plugin_provider_new(const struct atoll_plugin_config *config,
                              struct atoll_sync_provider **ret,
                              struct atoll_error *err) ATOLL_MUST_CHECK;
