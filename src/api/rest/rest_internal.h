#pragma once
#include "api/call.h"

/* The handlers of the REST API, by file; routes.c maps routes to them. */
typedef void atoll_rest_handler(struct atoll_api_call *call, const uint8_t *body, size_t n);

/* The "who" in records of killed commands. */
#define ATOLL_REST_WHO "an API client"
#define ATOLL_REST_WHO_GONE "the daemon, because the client went away"
#define ATOLL_REST_WHO_INPUT "the daemon, because its input could not be delivered"

/* host.c */
atoll_rest_handler atoll_rest_host;
atoll_rest_handler atoll_rest_quota;
/* ready.c, metrics.c */
atoll_rest_handler atoll_rest_health, atoll_rest_ready, atoll_rest_metrics;
/* sandboxes.c */
atoll_rest_handler atoll_rest_sandbox_create, atoll_rest_sandbox_get, atoll_rest_sandbox_destroy,
    atoll_rest_sandbox_destroy_all, atoll_rest_sandbox_heartbeat;
/* sandbox_list.c, sandbox_change.c */
atoll_rest_handler atoll_rest_sandbox_list, atoll_rest_sandbox_timeout, atoll_rest_sandbox_patch;
/* pause.c */
atoll_rest_handler atoll_rest_sandbox_pause, atoll_rest_sandbox_resume, atoll_rest_sandbox_stop;
/* health.c */
atoll_rest_handler atoll_rest_health_one, atoll_rest_health_all;
/* stats.c */
atoll_rest_handler atoll_rest_stats_one, atoll_rest_stats_all;
/* network.c, connections.c */
atoll_rest_handler atoll_rest_network_get, atoll_rest_network_set, atoll_rest_connections;
/* events.c, providers.c, openapi.c */
atoll_rest_handler atoll_rest_events, atoll_rest_providers, atoll_rest_openapi;
/* exec_start.c */
atoll_rest_handler atoll_rest_exec_start;
/* execs.c */
atoll_rest_handler atoll_rest_exec_list, atoll_rest_exec_get, atoll_rest_exec_signal,
    atoll_rest_exec_resize, atoll_rest_exec_stdin;
/* ws_pty.c */
atoll_rest_handler atoll_rest_ws_pty;
/* exec_output.c */
atoll_rest_handler atoll_rest_exec_output;
/* ws_exec_start.c */
atoll_rest_handler atoll_rest_ws_exec;
/* run_post.c, ws_run.c */
atoll_rest_handler atoll_rest_run, atoll_rest_ws_run;
/* files.c */
atoll_rest_handler atoll_rest_file_stat, atoll_rest_file_list, atoll_rest_file_mkdir,
    atoll_rest_file_move, atoll_rest_file_chmod, atoll_rest_file_chown, atoll_rest_file_symlink,
    atoll_rest_file_remove;
/* batch.c, sign.c, watch.c */
atoll_rest_handler atoll_rest_file_batch, atoll_rest_file_sign, atoll_rest_file_watch;
/* archive_out.c, archive_in.c */
atoll_rest_handler atoll_rest_archive_get, atoll_rest_archive_put;
/* transfer.c */
atoll_rest_handler atoll_rest_file_download, atoll_rest_file_upload;
/* xattrs.c */
atoll_rest_handler atoll_rest_xattr_list, atoll_rest_xattr_set, atoll_rest_xattr_remove;
/* tools.c */
atoll_rest_handler atoll_rest_tool_list, atoll_rest_tool_call;
/* tool/policy.c, tool/calls.c */
atoll_rest_handler atoll_rest_tenant_policy_get, atoll_rest_tenant_policy_set,
    atoll_rest_tenant_policy_remove, atoll_rest_tool_policy_get, atoll_rest_tool_policy_set,
    atoll_rest_tool_policy_remove, atoll_rest_tool_calls, atoll_rest_sandbox_tool_calls,
    atoll_rest_approval_list, atoll_rest_approval_get, atoll_rest_approval_answer;
/* keys.c */
atoll_rest_handler atoll_rest_key_create, atoll_rest_key_list, atoll_rest_key_remove;
/* secrets.c */
atoll_rest_handler atoll_rest_secret_create, atoll_rest_secret_list, atoll_rest_secret_remove;
/* port_tunnel.c */
atoll_rest_handler atoll_rest_port_tunnel;
/* ssh.c */
atoll_rest_handler atoll_rest_ssh_create, atoll_rest_ssh_list, atoll_rest_ssh_remove,
    atoll_rest_sandbox_token;
/* previews.c */
atoll_rest_handler atoll_rest_preview_create, atoll_rest_preview_list, atoll_rest_preview_remove;
/* templates.c */
atoll_rest_handler atoll_rest_template_list, atoll_rest_template_import;
/* images.c */
atoll_rest_handler atoll_rest_image_list, atoll_rest_image_load, atoll_rest_image_pull;
/* template/export.c */
atoll_rest_handler atoll_rest_template_push, atoll_rest_template_archive;
/* build.c, volumes.c */
atoll_rest_handler atoll_rest_template_build;
atoll_rest_handler atoll_rest_volume_list, atoll_rest_volume_create, atoll_rest_volume_remove;
/* volume_files.c */
atoll_rest_handler atoll_rest_volume_download, atoll_rest_volume_upload,
    atoll_rest_volume_file_remove, atoll_rest_volume_stat, atoll_rest_volume_files,
    atoll_rest_volume_mkdir, atoll_rest_volume_move, atoll_rest_volume_chmod,
    atoll_rest_volume_chown, atoll_rest_volume_symlink;
/* state.c */
atoll_rest_handler atoll_rest_sandbox_snapshot, atoll_rest_snapshot_create,
    atoll_rest_snapshot_list, atoll_rest_sandbox_snapshots, atoll_rest_sandbox_fork,
    atoll_rest_sandbox_restore;
/* diff.c, history.c */
atoll_rest_handler atoll_rest_sandbox_diff, atoll_rest_sandbox_history, atoll_rest_sandbox_blame,
    atoll_rest_sandbox_undo;
/* merge.c */
atoll_rest_handler atoll_rest_sandbox_merge, atoll_rest_sandbox_try, atoll_rest_sandbox_capture;
/* The parameter `path`: absolute, without "." and ".."; NULL: not given, or "/". */
int atoll_rest_read_path(const struct atoll_api_call *call, const char **ret,
                         struct atoll_error *err) ATOLL_MUST_CHECK;
/* builds.c, build_log.c */
atoll_rest_handler atoll_rest_make_create, atoll_rest_make_list, atoll_rest_make_get,
    atoll_rest_make_cancel, atoll_rest_make_log, atoll_rest_make_context_get,
    atoll_rest_make_context_put;
/* sessions.c, session_list.c, sessions_execute.c, sessions_files.c */
atoll_rest_handler atoll_rest_session_create, atoll_rest_session_list, atoll_rest_session_get,
    atoll_rest_session_destroy, atoll_rest_session_execute, atoll_rest_e2b_execute,
    atoll_rest_e2b_file_list, atoll_rest_e2b_file_get, atoll_rest_e2b_file_write;
/* contexts.c */
atoll_rest_handler atoll_rest_context_create, atoll_rest_context_list, atoll_rest_context_remove,
    atoll_rest_context_restart, atoll_rest_context_execute;
/* task/tasks.c */
atoll_rest_handler atoll_rest_task_create, atoll_rest_task_list, atoll_rest_task_get,
    atoll_rest_task_log, atoll_rest_task_cancel, atoll_rest_task_retry, atoll_rest_task_source,
    atoll_rest_task_remove;
/* task/swarms.c */
atoll_rest_handler atoll_rest_swarm_create, atoll_rest_swarm_list, atoll_rest_swarm_get,
    atoll_rest_swarm_cancel, atoll_rest_swarm_heartbeat, atoll_rest_swarm_memory_get,
    atoll_rest_swarm_memory_set;
/* task/agents.c */
atoll_rest_handler atoll_rest_agent_start, atoll_rest_agent_list, atoll_rest_agent_cancel;
/* registry.c */
atoll_rest_handler atoll_rest_registry_get, atoll_rest_registry_list, atoll_rest_registry_item;
atoll_rest_handler atoll_rest_prompt_render;
atoll_rest_handler atoll_rest_gateway_start;
/* gateway.c: POST /api/sandboxes with "mcp". */
void atoll_rest_gateway_create(struct atoll_api_call *call, const struct atoll_options *options,
                               const json_t *servers);
atoll_rest_handler atoll_rest_connector_create, atoll_rest_connector_list, atoll_rest_connector_get,
    atoll_rest_connector_put, atoll_rest_connector_remove, atoll_rest_connector_login;

/* artifacts.c: routes for artifacts of destroyed sandboxes, which the check of owners would not
 * find. */
extern const struct atoll_routes atoll_rest_artifact_routes;
/* template/versions.c: routes whose templates may have slashes in their names. */
extern const struct atoll_routes atoll_rest_template_routes;
/* git/git.c */
extern const struct atoll_routes atoll_rest_git_routes;
#define ATOLL_REST_TEMPLATE_MAX 512
/* {template} of these routes, with its slashes. */
void atoll_rest_template_reference(const struct atoll_api_call *call,
                                   char out[static ATOLL_REST_TEMPLATE_MAX]);

/* The sandbox in the route; NULL: *err is set. Valid until control returns to the loop. */
struct atoll_sandbox *atoll_rest_find_sandbox(const struct atoll_api_call *call,
                                              struct atoll_error *err);
/* Ids of the sandboxes in the caller's lists, in list order; malloc'd. For work that costs more
 * than copying an id, see walk.h. */
char (*atoll_rest_sandbox_ids(struct atoll_api_call *call, size_t *ret_count))[ATOLL_ID_LEN + 1];
struct atoll_exec *atoll_rest_find_exec(struct atoll_engine *engine, const char *sandbox_id,
                                        const char *exec_id, struct atoll_error *err);
/* ?artifacts= of a request that destroys a sandbox (artifacts.c): the files to keep from it. */
int atoll_rest_artifacts_want(struct atoll_api_call *call,
                              struct atoll_error *err) ATOLL_MUST_CHECK;
/* An atoll_done_fn that answers the call in arg. */
void atoll_rest_done(void *arg, const struct atoll_error *error);
/* The end of a creation: answers the call in arg with the new template (templates.c). */
void atoll_rest_template_made(void *arg, const struct atoll_template_view *view,
                              const struct atoll_error *error);
/* An atoll_done_fn that ignores the result. */
void atoll_rest_ignore(void *arg, const struct atoll_error *error);
