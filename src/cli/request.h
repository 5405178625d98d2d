#pragma once
#include "cli/client.h"

/*
 * Options that describe a sandbox or a command, shared by several verbs, and their translation to the
 * daemon's JSON (with client/compose.h).
 */
struct atoll_cli_sandbox_options {
    const char *template, *name, *workdir;
    uint64_t memory_bytes, disk_bytes, pids;
    double cpus, io_mbps;
    struct atoll_cli_list waive, artifacts, volumes, labels, allow, deny, publish;
    const char *registry_user;
    double idle_seconds, lease_seconds, cpu_budget_seconds;
    uint64_t output_budget_bytes;
    const char *on_deadline;
    bool persistent, recreate, read_only;
    const char *checkpoints, *disk_kind;
    const char *provider, *image, *isolation, *network, *network_name;
    uint64_t network_mbps;
};
extern const struct atoll_cli_option atoll_cli_sandbox_options[];

/* Environment variables; the items override the files. */
struct atoll_cli_env {
    struct atoll_cli_list items, files;
};
extern const struct atoll_cli_option atoll_cli_env_options[];

struct atoll_cli_command_options {
    const char *user, *cwd;
    double timeout_seconds;
    struct atoll_cli_env env;
    bool interactive, tty;
};
extern const struct atoll_cli_option atoll_cli_command_options[];

/* Add members to *request. lifetime_seconds 0: the daemon's default. INVALID_ARGUMENT. */
int atoll_cli_add_sandbox(json_t *request, const struct atoll_cli_sandbox_options *options,
                          double lifetime_seconds, struct atoll_error *err) ATOLL_MUST_CHECK;
int atoll_cli_add_command(json_t *request, const struct atoll_cli_command_options *options,
                          char *const *argv, struct atoll_error *err) ATOLL_MUST_CHECK;
/* The same for a command that is started without being connected: --stdin and --tty keep its input open
 * for `atoll attach`. */
int atoll_cli_add_detached(json_t *request, const struct atoll_cli_command_options *options,
                           char *const *argv, struct atoll_error *err) ATOLL_MUST_CHECK;
/* Adds "registry": the user with the password in ATOLL_REGISTRY_PASSWORD (other users of the host can read
 * a command line); without a user, the login that Docker has for the registry of the image. */
int atoll_cli_add_registry(json_t *request, const char *image, const char *user,
                           struct atoll_error *err) ATOLL_MUST_CHECK;
/* If the daemon's error text begins with a JSON field, replaces that by the option of `options`. */
void atoll_cli_name_option(const struct atoll_cli_option *options, struct atoll_error *err);
/* Adds "env" from items and lines of files, K=V; a K without "=" is copied from our own environment. */
int atoll_cli_add_env(json_t *request, const struct atoll_cli_env *env,
                      struct atoll_error *err) ATOLL_MUST_CHECK;
