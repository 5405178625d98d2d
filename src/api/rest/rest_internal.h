#pragma once
#include "api/call.h"

/* The handlers of the REST API, by file; routes.c says what they serve. */
typedef void atoll_rest_handler(struct atoll_api_call *call, const uint8_t *body, size_t n);

/* Who the records of killed commands name. */
#define ATOLL_REST_WHO "an API client"
#define ATOLL_REST_WHO_GONE "the daemon, because the client went away"

/* host.c */
atoll_rest_handler atoll_rest_health, atoll_rest_host;
/* sandboxes.c */
atoll_rest_handler atoll_rest_sandbox_create, atoll_rest_sandbox_list, atoll_rest_sandbox_get,
    atoll_rest_sandbox_destroy, atoll_rest_sandbox_destroy_all;
/* stats.c */
atoll_rest_handler atoll_rest_stats_one, atoll_rest_stats_all;
/* execs.c */
atoll_rest_handler atoll_rest_exec_start, atoll_rest_exec_list, atoll_rest_exec_get,
    atoll_rest_exec_signal, atoll_rest_exec_resize, atoll_rest_exec_stdin;
/* exec_output.c */
atoll_rest_handler atoll_rest_exec_output;
/* exec_stream.c */
atoll_rest_handler atoll_rest_exec_stream;
/* run_post.c, run_stream.c */
atoll_rest_handler atoll_rest_run, atoll_rest_run_stream;
/* files.c */
atoll_rest_handler atoll_rest_file_stat, atoll_rest_file_list, atoll_rest_file_mkdir,
    atoll_rest_file_move, atoll_rest_file_chmod, atoll_rest_file_remove;
/* transfer.c */
atoll_rest_handler atoll_rest_file_download, atoll_rest_file_upload;
/* templates.c */
atoll_rest_handler atoll_rest_template_list, atoll_rest_template_import, atoll_rest_template_remove;

/* The sandbox the route names; NULL fills *err. Good until control goes back to the loop. */
struct atoll_sandbox *atoll_rest_find_sandbox(const struct atoll_api_call *call,
                                              struct atoll_error *err);
struct atoll_exec *atoll_rest_find_exec(struct atoll_engine *engine, const char *sandbox_id,
                                        const char *exec_id, struct atoll_error *err);
/* For an atoll_done_fn that only has to answer the call in arg. */
void atoll_rest_done(void *arg, const struct atoll_error *error);
/* For one that nobody waits for. */
void atoll_rest_ignore(void *arg, const struct atoll_error *error);
