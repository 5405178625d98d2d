#pragma once
#include "api/fields.h"
#include "engine/engine.h"

/*
 * The JSON objects with which clients request sandboxes and commands: field tables, and the checks
 * that a table cannot express. All decoded values are borrowed from the body.
 */

#define ATOLL_REST_METADATA_MAX ((size_t)64 * 1024)

/* Credentials for a registry of images. */
struct atoll_rest_login {
    const char *username, *password;
};
extern const struct atoll_field atoll_rest_login_fields[];
/* mounts.c. The result is owned by the body. INVALID_ARGUMENT. */
int atoll_rest_login_check(const struct atoll_rest_login *login, struct atoll_body *body,
                           const struct atoll_registry_login **ret,
                           struct atoll_error *err) ATOLL_MUST_CHECK;

struct atoll_rest_sandbox {
    struct atoll_options options; /* what the field table decodes completely */
    /* What atoll_rest_sandbox_check() translates into options. */
    bool get_or_create;
    const char *const *waive;
    const char *network_mode, *on_deadline, *checkpoints;
    struct atoll_rest_disk {
        const char *kind;
    } disk;
    const json_t *metadata, *volumes, *network, *tool_policy;
    uint32_t network_mbps, limits_mbps; /* the same: networkMbps, and that of limits */
    bool has_registry;
    struct atoll_rest_login registry;
    struct atoll_rest_service {
        const char *api_key, *template_id, *region;
        const char *team, *project; /* of Vercel */
    } e2b, daytona, vercel;
};

struct atoll_rest_exec {
    const char *const *argv;
    const char *const *env;
    const char *user, *cwd;
    uint32_t timeout_ms;
    const json_t *stdin_json;
    bool has_pty;
    struct {
        uint32_t cols, rows;
    } pty;
};

/* The names of enum atoll_disk_choice. */
extern const char *const atoll_rest_disk_kinds[ATOLL_DISK_CHOICES];
extern const struct atoll_field atoll_rest_sandbox_fields[];
extern const struct atoll_field atoll_rest_exec_fields[];

/* INVALID_ARGUMENT, UNIMPLEMENTED. */
int atoll_rest_sandbox_read(const struct atoll_rest_sandbox *sandbox, struct atoll_body *body,
                            struct atoll_options *ret_options,
                            struct atoll_error *err) ATOLL_MUST_CHECK;
/* The same for a new request: it is also refused for what earlier versions accepted, so that requests which they have
 * stored can still be read. */
int atoll_rest_sandbox_check(const struct atoll_rest_sandbox *sandbox, struct atoll_body *body,
                             struct atoll_options *ret_options,
                             struct atoll_error *err) ATOLL_MUST_CHECK;

/* mounts.c: the requested mounts, and the credentials for the image registry; borrowed from the
 * body. */
int atoll_rest_mounts_check(const struct atoll_rest_sandbox *sandbox, struct atoll_body *body,
                            struct atoll_options *options,
                            struct atoll_error *err) ATOLL_MUST_CHECK;

/* Standard input, as given in the request. */
struct atoll_rest_input {
    bool open;        /* keep stdin open for later input */
    const char *text; /* or the whole input; NULL: none */
    size_t len;
};

int atoll_rest_exec_check(const struct atoll_rest_exec *exec, struct atoll_exec_start *ret_start,
                          struct atoll_rest_input *ret_input,
                          struct atoll_error *err) ATOLL_MUST_CHECK;

/* {"cols","rows"}. */
struct atoll_rest_size {
    uint32_t cols, rows;
};
extern const struct atoll_field atoll_rest_size_fields[];
int atoll_rest_size_check(const struct atoll_rest_size *size,
                          struct atoll_error *err) ATOLL_MUST_CHECK;

/* {"signal":"SIGTERM"|15,"tree":bool}. */
struct atoll_rest_signal {
    const json_t *signal;
    bool tree;
};
extern const struct atoll_field atoll_rest_signal_fields[];
int atoll_rest_signal_check(const struct atoll_rest_signal *request, int *ret_signo,
                            struct atoll_error *err) ATOLL_MUST_CHECK;

/* Starts sending the whole input to a command, and reports no result. A command that does not
 * read its input is not an error. */
void atoll_rest_input_send(struct atoll_exec *exec, const struct atoll_rest_input *input);
/* Whether a write failed only because the command has ended or closed its stdin. After any other
 * failure the command has lost input, and must not mistake the rest for all of it. */
bool atoll_rest_input_unwanted(const struct atoll_error *error);
