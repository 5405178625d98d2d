#pragma once
#include <jansson.h>
#include "daemon/config.h"
#include "engine/provider/routing.h"
#include "loop/workers.h"
#include "provider/provider.h"
#include "registry/registry_internal.h"

/*
 * The kinds of providers there are: what providers.yaml may say about each, and how it is opened.
 */
struct atoll_daemon_place {
    struct atoll_loop *loop;
    const char *state_dir, *program_dir;
    const char *file; /* providers.yaml; "": the one in the state directory, if there is one */
};

/* One provider of the file. */
struct atoll_provider_settings {
    const char *name;
    const json_t *settings; /* NULL: none */
    struct atoll_workers *workers;
    bool succeeds; /* another of that name, in this process: what that has under way goes on */
};

struct atoll_provider_kind {
    const char *name;
    bool by_default; /* there without being named */
    bool by_word;    /* only with "enabled: true": it is for tests */
    bool at_start;   /* only while there are privileges, and one of its kind */
    int (*open)(const struct atoll_daemon_place *place, const struct atoll_provider_settings *entry,
                struct atoll_provider **ret, struct atoll_error *err);
    /* Where it makes sandboxes, as a setting or "". */
    const char *(*where)(const json_t *settings);
};

extern const struct atoll_provider_kind atoll_provider_kinds[];
extern const size_t atoll_provider_kind_count;
/* Those that operators choose from, for what the engine says when none of those there will do. */
extern const struct atoll_route_kinds atoll_provider_choices;
/* The fields of the file. */
extern const struct atoll_yaml_field atoll_provider_file_fields[];

/* Of an object that may be NULL; NULL and 0 for what is not there. */
const char *atoll_setting_text(const json_t *object, const char *name);
double atoll_setting_number(const json_t *object, const char *name);
bool atoll_setting_is_true(const json_t *object, const char *name);
