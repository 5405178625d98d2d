/*
 * The control plane of Daytona, and the facade. docs/daytona.md has the same table.
 */
#include "api/daytona/storage.h"

#define BASE ATOLL_DAYTONA_BASE
#define BOX BASE "/sandbox/{id}"
#define SNAPSHOT BASE "/snapshots/{key}"
#define NONE ATOLL_BODY_NONE
#define JSON ATOLL_BODY_JSON
#define PUBLIC ATOLL_SCOPE_PUBLIC
#define READ ATOLL_SCOPE_READ
#define WRITE ATOLL_SCOPE_WRITE

/* clang-format off */
static const struct atoll_route rows[] = {
    {ATOLL_GET,    BASE "/health",             PUBLIC, NONE, atoll_daytona_health, NULL},
    {ATOLL_GET,    BASE "/health/ready",       PUBLIC, NONE, atoll_daytona_health, NULL},
    {ATOLL_GET,    BASE "/config",             PUBLIC, NONE, atoll_daytona_config, NULL},
    {ATOLL_GET,    BASE "/socket.io/",         PUBLIC, NONE, atoll_daytona_socketio, NULL},

    {ATOLL_GET,    BASE "/regions",            READ,  NONE, atoll_daytona_regions, NULL},
    {ATOLL_GET,    BASE "/shared-regions",     PUBLIC, NONE, atoll_daytona_regions, NULL},
    {ATOLL_GET,    BASE "/organizations",      READ,  NONE, atoll_daytona_organizations, NULL},
    {ATOLL_GET,    BASE "/organizations/{key}", READ, NONE, atoll_daytona_organization, NULL},
    {ATOLL_GET,    BASE "/api-keys/current",   READ,  NONE, atoll_daytona_current_key, NULL},

    {ATOLL_POST,   BASE "/sandbox",            WRITE, JSON, atoll_daytona_create, NULL},
    {ATOLL_GET,    BASE "/sandbox",            READ,  NONE, atoll_daytona_list, NULL},
    {ATOLL_GET,    BASE "/sandbox/paginated",  READ,  NONE, atoll_daytona_list_pages, NULL},
    {ATOLL_GET,    BOX,                        READ,  NONE, atoll_daytona_get, NULL},
    {ATOLL_DELETE, BOX,                        WRITE, NONE, atoll_daytona_remove, NULL},
    {ATOLL_POST,   BOX "/start",               WRITE, NONE, atoll_daytona_start, NULL},
    {ATOLL_POST,   BOX "/stop",                WRITE, NONE, atoll_daytona_stop, NULL},
    {ATOLL_POST,   BOX "/pause",               WRITE, NONE, atoll_daytona_pause, NULL},
    {ATOLL_POST,   BOX "/recover",             WRITE, NONE, atoll_daytona_recover, NULL},
    {ATOLL_POST,   BOX "/archive",             WRITE, NONE, atoll_daytona_archive, NULL},
    {ATOLL_POST,   BOX "/backup",              WRITE, NONE, atoll_daytona_backup, NULL},
    {ATOLL_PUT,    BOX "/labels",              WRITE, JSON, atoll_daytona_set_labels, NULL},
    {ATOLL_POST,   BOX "/autostop/{item}",     WRITE, NONE, atoll_daytona_set_autostop, NULL},
    {ATOLL_POST,   BOX "/autopause/{item}",    WRITE, NONE, atoll_daytona_set_autopause, NULL},
    {ATOLL_POST,   BOX "/autoarchive/{item}",  WRITE, NONE, atoll_daytona_set_autoarchive, NULL},
    {ATOLL_POST,   BOX "/autodelete/{item}",   WRITE, NONE, atoll_daytona_set_autodelete, NULL},
    {ATOLL_POST,   BOX "/ttl/{item}",          WRITE, NONE, atoll_daytona_set_ttl, NULL},
    {ATOLL_POST,   BOX "/public/{item}",       WRITE, NONE, atoll_daytona_set_public, NULL},
    {ATOLL_POST,   BOX "/last-activity",       WRITE, NONE, atoll_daytona_note_activity, NULL},
    {ATOLL_GET,    BOX "/toolbox-proxy-url",   READ,  NONE, atoll_daytona_toolbox_url, NULL},
    {ATOLL_GET,    BOX "/ports/{port}/preview-url", WRITE, NONE, atoll_daytona_preview_url, NULL},
    {ATOLL_GET,    BOX "/ports/{port}/signed-preview-url", WRITE, NONE,
     atoll_daytona_signed_preview, NULL},
    {ATOLL_POST,   BOX "/ports/{port}/signed-preview-url/{item}/expire", WRITE, NONE,
     atoll_daytona_expire_preview, NULL},
    {ATOLL_GET,    BOX "/signing-key",         WRITE, NONE, atoll_daytona_signing_key, NULL},
    {ATOLL_POST,   BOX "/signing-key/rotate",  WRITE, NONE, atoll_daytona_rotate_key, NULL},
    {ATOLL_POST,   BOX "/network-settings",    WRITE, JSON, atoll_daytona_set_network, NULL},
    {ATOLL_POST,   BOX "/snapshot",            WRITE, JSON, atoll_daytona_snapshot_sandbox, NULL},
    {ATOLL_POST,   BOX "/fork",                WRITE, JSON, atoll_daytona_fork, NULL},
    {ATOLL_POST,   BOX "/resize",              WRITE, JSON, atoll_daytona_resize, NULL},
    {ATOLL_POST,   BOX "/ssh-access",          WRITE, NONE, atoll_daytona_ssh_create, NULL},
    {ATOLL_DELETE, BOX "/ssh-access",          WRITE, NONE, atoll_daytona_ssh_revoke, NULL},
    {ATOLL_GET,    BASE "/sandbox/ssh-access/validate", READ, NONE, atoll_daytona_ssh_validate, NULL},
    {ATOLL_GET,    BOX "/build-logs-url",      READ,  NONE, atoll_daytona_sandbox_logs_url, NULL},
    {ATOLL_GET,    BOX "/build-logs",          READ,  NONE, atoll_daytona_sandbox_logs, NULL},

    {ATOLL_GET,    BASE "/snapshots",          READ,  NONE, atoll_daytona_snapshot_list, NULL},
    {ATOLL_POST,   BASE "/snapshots",          WRITE, JSON, atoll_daytona_snapshot_create, NULL},
    {ATOLL_GET,    SNAPSHOT,                   READ,  NONE, atoll_daytona_snapshot_get, NULL},
    {ATOLL_DELETE, SNAPSHOT,                   WRITE, NONE, atoll_daytona_snapshot_remove, NULL},
    {ATOLL_POST,   SNAPSHOT "/activate",       WRITE, NONE, atoll_daytona_snapshot_activate, NULL},
    {ATOLL_POST,   SNAPSHOT "/deactivate",     WRITE, NONE, atoll_daytona_snapshot_deactivate, NULL},
    {ATOLL_GET,    SNAPSHOT "/build-logs-url", READ,  NONE, atoll_daytona_snapshot_logs_url, NULL},
    {ATOLL_GET,    SNAPSHOT "/build-logs",     READ,  NONE, atoll_daytona_snapshot_logs, NULL},

    {ATOLL_GET,    BASE "/object-storage/push-access", WRITE, NONE, atoll_daytona_push_access, NULL},

    {ATOLL_GET,    BASE "/volumes",            READ,  NONE, atoll_daytona_volume_list, NULL},
    {ATOLL_POST,   BASE "/volumes",            WRITE, JSON, atoll_daytona_volume_create, NULL},
    {ATOLL_GET,    BASE "/volumes/by-name/{key}", READ, NONE, atoll_daytona_volume_get, NULL},
    {ATOLL_GET,    BASE "/volumes/{key}",      READ,  NONE, atoll_daytona_volume_get, NULL},
    {ATOLL_DELETE, BASE "/volumes/{key}",      WRITE, NONE, atoll_daytona_volume_remove, NULL},

    {ATOLL_GET,    BASE "/secret",             READ,  NONE, atoll_daytona_absent, NULL},
    {ATOLL_POST,   BASE "/secret",             WRITE, JSON, atoll_daytona_absent, NULL},
    {ATOLL_GET,    BASE "/secret/{key}",       READ,  NONE, atoll_daytona_absent, NULL},
    {ATOLL_PATCH,  BASE "/secret/{key}",       WRITE, JSON, atoll_daytona_absent, NULL},
    {ATOLL_DELETE, BASE "/secret/{key}",       WRITE, NONE, atoll_daytona_absent, NULL},
    {ATOLL_PUT,    BOX "/secrets",             WRITE, JSON, atoll_daytona_absent, NULL},
    {ATOLL_GET,    BASE "/warm-pools",         READ,  NONE, atoll_daytona_absent, NULL},
    {ATOLL_POST,   BASE "/warm-pools",         WRITE, JSON, atoll_daytona_absent, NULL},
    {ATOLL_PATCH,  BASE "/warm-pools/{key}",   WRITE, JSON, atoll_daytona_absent, NULL},
    {ATOLL_DELETE, BASE "/warm-pools/{key}",   WRITE, NONE, atoll_daytona_absent, NULL},
    {ATOLL_GET,    BOX "/telemetry/metrics",   READ,  NONE, atoll_daytona_absent, NULL},
    {ATOLL_GET,    BOX "/telemetry/logs",      READ,  NONE, atoll_daytona_absent, NULL},
    {ATOLL_GET,    BOX "/telemetry/traces",    READ,  NONE, atoll_daytona_absent, NULL},
    {ATOLL_GET,    BOX "/telemetry/traces/{item}", READ, NONE, atoll_daytona_absent, NULL},
};
/* clang-format on */

const struct atoll_routes atoll_daytona_control_routes = {
    rows, ATOLL_ARRAY_LEN(rows), &atoll_daytona_control_protocol, atoll_daytona_params,
    ATOLL_DAYTONA_PARAM_COUNT};

static const struct atoll_routes *const tables[] = {
    &atoll_daytona_control_routes, &atoll_daytona_storage_routes, &atoll_daytona_toolbox_routes,
    &atoll_daytona_git_routes, NULL};

const struct atoll_facade atoll_daytona_facade = {.tables = tables,
                                                  .open = atoll_daytona_open,
                                                  .close = atoll_daytona_close,
                                                  .serve = atoll_daytona_serve};
