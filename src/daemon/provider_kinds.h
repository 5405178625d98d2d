#pragma once
#include <jansson.h>
#include "daemon/config.h"
#include "engine/provider/routing.h"
#include "loop/workers.h"
#include "provider/provider.h"
#include "registry/registry_internal.h"

/*
 * The kinds of providers: the fields that providers.yaml may have for each, and how each is opened.
 */
struct atoll_daemon_place {
    struct atoll_loop *loop;
    const char *state_dir, *program_dir;
    enum atoll_disks disks;
    const char *host_folders;
    const char *file; /* providers.yaml; "": the one in the state directory, if it exists */
};

/* One provider of providers.yaml. */
struct atoll_provider_settings {
    const char *name;
    const json_t *settings; /* NULL: all defaults */
    struct atoll_workers *workers;
    /* Replaces a provider of that name in this process, whose operations in progress continue. */
    bool succeeds;
};

struct atoll_provider_kind {
    const char *name;
    bool by_default;    /* enabled even if the file does not name it */
    bool only_explicit; /* only with "enabled: true": for tests */
    bool at_start; /* opened only at start, while there are privileges; at most one of its kind */
    int (*open)(const struct atoll_daemon_place *place, const struct atoll_provider_settings *entry,
                struct atoll_provider **ret, struct atoll_error *err);
    /* Returns the setting that says where it makes sandboxes (a host, a URL), or "". */
    const char *(*where)(const json_t *settings);
};

extern const struct atoll_provider_kind atoll_provider_kinds[];
extern const size_t atoll_provider_kind_count;
/* The kinds an operator can enable: the engine suggests one when no open provider fits a
 * request. */
extern const struct atoll_route_kinds atoll_provider_choices;
/* The fields of providers.yaml. */
extern const struct atoll_yaml_field atoll_provider_file_fields[];

/* Settings of an object, which may be NULL. NULL, 0 or false if the setting is absent. */
const char *atoll_setting_text(const json_t *object, const char *name);
double atoll_setting_number(const json_t *object, const char *name);
bool atoll_setting_is_true(const json_t *object, const char *name);
