/*
 * The control plane of E2B, both versions of its API. docs/e2b.md has the same table.
 */
#include <string.h>
#include "api/e2b/e2b_internal.h"
#include "api/e2b/volumes.h"
#include "base/text.h"
#include "network/placeholder.h"

#define BOX "/sandboxes/{sandboxID}"
#define VOLUME "/volumecontent/{name}"
#define NONE ATOLL_BODY_NONE
#define JSON ATOLL_BODY_JSON
#define DEFINITION ((size_t)8 * 1024 * 1024) /* steps with long commands */
#define READ ATOLL_SCOPE_READ
#define WRITE ATOLL_SCOPE_WRITE
#define PUBLIC ATOLL_SCOPE_PUBLIC

/* clang-format off */
static const struct atoll_route rows[] = {
    {ATOLL_GET,    "/health",                  ATOLL_SCOPE_PUBLIC, NONE, atoll_e2b_health, NULL},
    {ATOLL_GET,    "/teams",                   READ,  NONE, atoll_e2b_teams, NULL},

    {ATOLL_POST,   "/sandboxes",               WRITE, JSON, atoll_e2b_create_v1, NULL},
    {ATOLL_POST,   "/v2/sandboxes",            WRITE, JSON, atoll_e2b_create, NULL},
    {ATOLL_GET,    "/sandboxes",               READ,  NONE, atoll_e2b_list_running, NULL},
    {ATOLL_GET,    "/v2/sandboxes",            READ,  NONE, atoll_e2b_list, NULL},
    {ATOLL_GET,    "/sandboxes/metrics",       READ,  NONE, atoll_e2b_metrics_of_many, NULL},
    {ATOLL_GET,    BOX,                        READ,  NONE, atoll_e2b_get, NULL},
    {ATOLL_DELETE, BOX,                        WRITE, NONE, atoll_e2b_kill, NULL},
    {ATOLL_POST,   BOX "/pause",               WRITE, JSON, atoll_e2b_pause, NULL},
    {ATOLL_POST,   BOX "/connect",             WRITE, JSON, atoll_e2b_connect, NULL},
    {ATOLL_POST,   "/v2" BOX "/connect",       WRITE, JSON, atoll_e2b_connect, NULL},
    {ATOLL_POST,   BOX "/resume",              WRITE, JSON, atoll_e2b_resume, NULL},
    {ATOLL_POST,   BOX "/timeout",             WRITE, JSON, atoll_e2b_set_timeout, NULL},
    {ATOLL_POST,   BOX "/refreshes",           WRITE, JSON, atoll_e2b_refresh, NULL},
    {ATOLL_PUT,    BOX "/network",             WRITE, JSON, atoll_e2b_set_network, NULL},
    {ATOLL_GET,    BOX "/metrics",             READ,  NONE, atoll_e2b_metrics, NULL},
    {ATOLL_POST,   BOX "/fork",                WRITE, JSON, atoll_e2b_fork, NULL},
    {ATOLL_POST,   BOX "/snapshots",           WRITE, JSON, atoll_e2b_snapshot_create, NULL},
    {ATOLL_GET,    "/snapshots",               READ,  NONE, atoll_e2b_snapshots, NULL},

    {ATOLL_GET,    "/templates",               READ,  NONE, atoll_e2b_templates, NULL},
    {ATOLL_GET,    "/v2/templates",            READ,  NONE, atoll_e2b_templates, NULL},
    {ATOLL_GET,    "/templates/aliases/{path}", READ, NONE, atoll_e2b_template_alias, NULL},
    {ATOLL_POST,   "/templates/tags",          WRITE, JSON, atoll_e2b_template_tags_assign, NULL},
    {ATOLL_DELETE, "/templates/tags",          WRITE, JSON, atoll_e2b_template_tags_remove, NULL},
    {ATOLL_GET,    "/templates/{template}/tags", READ, NONE, atoll_e2b_template_tags, NULL},
    {ATOLL_GET,    "/templates/{template}/files/{path}", WRITE, NONE, atoll_e2b_template_files, NULL},
    {ATOLL_PUT,    "/templates/{template}/files/{path}", ATOLL_SCOPE_PUBLIC, ATOLL_BODY_STREAM,
     atoll_e2b_template_upload, NULL},
    {ATOLL_GET,    "/templates/{template}/builds/{path}", READ, NONE, atoll_e2b_template_build_get, NULL},
    {ATOLL_GET,    "/templates/{path}",        READ,  NONE, atoll_e2b_template_get, NULL},
    {ATOLL_POST,   "/v3/templates",            WRITE, JSON, atoll_e2b_template_request, NULL},
    {ATOLL_POST,   "/v2/templates",            WRITE, JSON, atoll_e2b_template_request, NULL},
    {ATOLL_POST,   "/v2/templates/{template}/builds/{path}", WRITE, DEFINITION, atoll_e2b_template_start, NULL},
    {ATOLL_PATCH,  "/v2/templates/{path}",     WRITE, JSON, atoll_e2b_template_share, NULL},
    {ATOLL_POST,   "/templates",               WRITE, NONE, atoll_e2b_unsupported, NULL},
    {ATOLL_POST,   "/templates/{path}",        WRITE, NONE, atoll_e2b_unsupported, NULL},
    {ATOLL_PATCH,  "/templates/{path}",        WRITE, JSON, atoll_e2b_template_share, NULL},
    {ATOLL_DELETE, "/templates/{path}",        WRITE, NONE, atoll_e2b_template_remove, NULL},

    {ATOLL_GET,    "/volumes",                 READ,  NONE, atoll_e2b_volume_list, NULL},
    {ATOLL_POST,   "/volumes",                 WRITE, JSON, atoll_e2b_volume_create, NULL},
    {ATOLL_GET,    "/volumes/{name}",          WRITE, NONE, atoll_e2b_volume_get, NULL},
    {ATOLL_DELETE, "/volumes/{name}",          WRITE, NONE, atoll_e2b_volume_remove, NULL},
    {ATOLL_GET,    "/secrets",                 READ,  NONE, atoll_e2b_secret_list, NULL},
    {ATOLL_POST,   "/secrets",                 WRITE, JSON, atoll_e2b_secret_create, NULL},
    {ATOLL_GET,    "/secrets/{secretID}",      READ,  NONE, atoll_e2b_secret_get, NULL},
    {ATOLL_POST,   "/secrets/{secretID}",      WRITE, JSON, atoll_e2b_secret_update, NULL},
    {ATOLL_DELETE, "/secrets/{secretID}",      WRITE, NONE, atoll_e2b_secret_remove, NULL},
};
/* volume_protocol checks the token of the volume. */
static const struct atoll_route volume_rows[] = {
    {ATOLL_GET,    VOLUME "/path",             PUBLIC, NONE, atoll_e2b_volume_stat, NULL},
    {ATOLL_PATCH,  VOLUME "/path",             PUBLIC, JSON, atoll_e2b_volume_update, NULL},
    {ATOLL_DELETE, VOLUME "/path",             PUBLIC, NONE, atoll_e2b_volume_delete, NULL},
    {ATOLL_GET,    VOLUME "/dir",              PUBLIC, NONE, atoll_e2b_volume_dir, NULL},
    {ATOLL_POST,   VOLUME "/dir",              PUBLIC, NONE, atoll_e2b_volume_mkdir, NULL},
    {ATOLL_GET,    VOLUME "/file",             PUBLIC, NONE, atoll_e2b_volume_read, NULL},
    {ATOLL_PUT,    VOLUME "/file",             PUBLIC, ATOLL_BODY_STREAM, atoll_e2b_volume_write, NULL},
};
/* Those of ended sandboxes as well. */
static const struct atoll_route log_rows[] = {
    {ATOLL_GET,    BOX "/logs",                READ,  NONE, atoll_e2b_logs_v1, NULL},
    {ATOLL_GET,    "/v2" BOX "/logs",          READ,  NONE, atoll_e2b_logs, NULL},
};
/* clang-format on */

static bool is_template(const char *text)
{
    return *text && text[strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                      "0123456789._-:%")] == '\0';
}

/* {sandboxID}: older clients append "-" and a suffix. {template}: with an optional team and tag.
 * {secretID}: or a name. */
static const struct atoll_param_kind params[] = {
    {"{sandboxID}", offsetof(struct atoll_route_params, id), 33, atoll_text_is_id, NULL, '-',
     "Invalid sandbox ID"},
    {"{template}", offsetof(struct atoll_route_params, template), 129, is_template,
     "the name of a template", '\0', NULL},
    {"{secretID}", offsetof(struct atoll_route_params, name), 65, atoll_secret_is_name,
     "the id or name of a secret", '\0', NULL},
};

static const struct atoll_protocol protocol = {.fail = atoll_e2b_fail, .takes_slashes = true};

static const struct atoll_routes routes = {rows, ATOLL_ARRAY_LEN(rows), &protocol, params,
                                           ATOLL_ARRAY_LEN(params)};
static const struct atoll_protocol log_protocol = {.fail = atoll_e2b_fail,
                                                   .takes_slashes = true,
                                                   .shows_ended = true};
static const struct atoll_routes log_routes = {log_rows, ATOLL_ARRAY_LEN(log_rows), &log_protocol,
                                               params, ATOLL_ARRAY_LEN(params)};
static const struct atoll_protocol volume_protocol = {.fail = atoll_e2b_volume_fail,
                                                      .admit = atoll_e2b_volume_admit};
static const struct atoll_routes volume_routes = {volume_rows, ATOLL_ARRAY_LEN(volume_rows),
                                                  &volume_protocol, NULL, 0};
static const struct atoll_routes *const tables[] = {&routes, &log_routes, &volume_routes, NULL};

/* Clients derive these names from a domain. */
static const char *const hosts[] = {"api", "sandbox", NULL};

static const struct atoll_facade_option options[] = {
    [ATOLL_E2B_OPTION_MAX_HOURS] = {"e2b-max-hours", "ATOLL_E2B_MAX_HOURS", 8784, "24",
                                    "longest timeout that E2B clients may request; 0: unlimited "
                                    "(24)"},
};

const struct atoll_facade atoll_e2b_facade = {
    .tables = tables,
    .hosts = hosts,
    .key = &atoll_e2b_key,
    .options = options,
    .option_count = ATOLL_ARRAY_LEN(options),
    .open = atoll_e2b_open,
    .close = atoll_e2b_close,
    .serve = atoll_e2b_serve,
};
