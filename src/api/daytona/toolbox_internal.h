#pragma once
#include "api/daytona/daytona.h"
#include "api/fields.h"
#include "api/kit/exec_pump.h"
#include "api/kit/exit_code.h"
#include "api/kit/ws_link.h"

/*
 * Shared by the files of the toolbox. Processes of the toolbox are execs of the engine: an id that
 * clients choose is in the arguments of the exec, which the engine keeps, so that sessions, their
 * commands and terminals survive a restart of the daemon without records of their own.
 */

/* In the end of a process that a request killed. */
#define ATOLL_TOOLBOX_WHO "daytona-api"
#define ATOLL_TOOLBOX_WHO_DELETED "daytona-api-delete"

/* Codes in error bodies, by which SDKs choose exceptions. */
#define ATOLL_TOOLBOX_BAD_BODY "INVALID_REQUEST_BODY"
#define ATOLL_TOOLBOX_NO_PROCESS "PROCESS_NOT_FOUND"
#define ATOLL_TOOLBOX_TIMEOUT "PROCESS_EXECUTION_TIMEOUT"
#define ATOLL_TOOLBOX_SESSION_ENDED "SESSION_ENDED"
#define ATOLL_TOOLBOX_COMMAND_ENDED "COMMAND_ALREADY_COMPLETED"

#define ATOLL_TOOLBOX_PATH_MAX 4095
#define ATOLL_TOOLBOX_KEY_MAX 255

/* toolbox_mux.c: the format of logs. Each line begins with three bytes that name its stream: 01 01 01
 * is stdout, 02 02 02 is stderr. Pure. */
#define ATOLL_TOOLBOX_LINE_MAX ((size_t)64 * 1024)
struct atoll_toolbox_mux {
    struct atoll_buf held[ATOLL_STREAM_STDERR + 1]; /* lines that are not complete yet */
};
void atoll_toolbox_mux_init(struct atoll_toolbox_mux *mux);
void atoll_toolbox_mux_done(struct atoll_toolbox_mux *mux); /* safe on a zeroed struct */
int atoll_toolbox_mux_add(struct atoll_toolbox_mux *mux, struct atoll_buf *out, int stream,
                          const uint8_t *bytes, size_t n) ATOLL_MUST_CHECK;
/* At the end of the output: completes the last line of each stream. */
int atoll_toolbox_mux_end(struct atoll_toolbox_mux *mux, struct atoll_buf *out) ATOLL_MUST_CHECK;
/* The most bytes that n bytes of output can become. */
#define ATOLL_TOOLBOX_MUX_MAX(n) (4 * (n) + 2 * ATOLL_TOOLBOX_LINE_MAX + 16)

/* toolbox_output.c: collects the output of a command, both streams in the order of arrival. Ownership:
 * the caller's storage; what is inside is freed by _done. */
#define ATOLL_TOOLBOX_OUTPUT_MAX ((size_t)4 * 1024 * 1024)
struct atoll_toolbox_output {
    struct atoll_exec_pump pump;
    struct atoll_buf bytes; /* of both streams */
    struct atoll_buf runs;  /* which bytes are of which stream */
    bool truncated;         /* the output is longer, or some of it was not kept */
    /* Called once. result NULL without an error: the command runs, and this is its output so far. May
     * call atoll_toolbox_output_done(). */
    void (*ended)(void *arg, const struct atoll_exec_result *result,
                  const struct atoll_error *error);
    void *arg;
};
/* follow: until the command has ended. `ended` may be called before this returns, as its last action. */
void atoll_toolbox_output_start(struct atoll_toolbox_output *o, struct atoll_loop *loop,
                                struct atoll_exec *exec, bool follow,
                                void (*ended)(void *arg, const struct atoll_exec_result *result,
                                              const struct atoll_error *error),
                                void *arg);
/* Safe on a zeroed struct. */
void atoll_toolbox_output_done(struct atoll_toolbox_output *o);
/* Members of an open object. _plain: "result", "stdout", "stderr" and, if output was dropped,
 * "truncated". _lines: "output" in the format of logs, "stdout" and "stderr" with whole lines. */
void atoll_toolbox_output_plain(const struct atoll_toolbox_output *o, struct atoll_json_out *out);
void atoll_toolbox_output_lines(const struct atoll_toolbox_output *o, struct atoll_json_out *out);
/* Takes the lines of stdout that begin with the mark out of the output, and passes the rest of each to
 * `take`. Without memory the output stays as it is. */
void atoll_toolbox_output_cut(struct atoll_toolbox_output *o, const char *mark,
                              void (*take)(void *arg, const char *text, size_t n), void *arg);
/* Appends the output in the format of logs; out holds ATOLL_TOOLBOX_MUX_MAX(ATOLL_TOOLBOX_OUTPUT_MAX). */
int atoll_toolbox_output_marked(const struct atoll_toolbox_output *o,
                                struct atoll_buf *out) ATOLL_MUST_CHECK;

/* toolbox_body.c: decodes a body; false: the call has been refused. */
bool atoll_toolbox_decode(struct atoll_api_call *call, struct atoll_body *body,
                          const uint8_t *bytes, size_t n, const struct atoll_field *table,
                          void *into);
/* The value of a query parameter that is required; NULL: the call has been refused. */
const char *atoll_toolbox_query(struct atoll_api_call *call, const char *name);
/* Appends the text in single quotes of a shell. */
int atoll_toolbox_quote(struct atoll_buf *out, const char *text, size_t n) ATOLL_MUST_CHECK;

/* toolbox_exec.c: starts a command in a shell: bash, or sh if there is no bash. */
struct atoll_toolbox_shell {
    const char *command;    /* of any length */
    const char *cwd;        /* NULL: the working directory of the sandbox */
    const char *const *env; /* NULL: none */
    uint32_t timeout_ms;    /* 0: no limit */
};
void atoll_toolbox_shell_start(struct atoll_engine *engine, const char *sandbox_id,
                               const struct atoll_toolbox_shell *shell, atoll_exec_fn *done,
                               void *arg);

bool atoll_toolbox_is_running(const struct atoll_api_call *call);
/* The exec of the call's sandbox; NULL: it has no exec of that id. */
struct atoll_exec *atoll_toolbox_find_exec(const struct atoll_api_call *call, const char *exec_id);

ATOLL_DAYTONA_HANDLER(execute);
ATOLL_DAYTONA_HANDLER(code_run);

/*
 * toolbox_session.c: sessions. A session is a shell, and a command of a session is an exec of its own,
 * the relay: it owns the command's input, output and end, while the shell of the session runs the
 * command with them (docs/adr/0038). The id of a command is that of its relay.
 */
struct atoll_toolbox_session {
    struct atoll_exec *shell;
    struct atoll_exec_view view; /* of the shell */
};
/* The session that {key} names; false: the call has been refused. Valid until control returns to the
 * loop. */
bool atoll_toolbox_session_find(struct atoll_api_call *call, struct atoll_toolbox_session *ret);
/* The relay of the command that {item} names, of that session; NULL: the call has been refused. */
struct atoll_exec *atoll_toolbox_command_find(struct atoll_api_call *call,
                                              const struct atoll_toolbox_session *session);
/* Arguments of a relay. */
enum {
    ATOLL_RELAY_KIND = 3,
    ATOLL_RELAY_SHELL, /* exec id of the session's shell */
    ATOLL_RELAY_ECHO,  /* "echo": input is shown in the log */
    ATOLL_RELAY_TEXT,  /* the command, cut if it is long */
};
#define ATOLL_TOOLBOX_SESSION_KIND "daytona-session"
#define ATOLL_TOOLBOX_COMMAND_KIND "daytona-command"
#define ATOLL_TOOLBOX_ENTRYPOINT "entrypoint"
/* Whether the exec was started with these arguments: SHELL -c SCRIPT KIND … */
bool atoll_toolbox_is_kind(const struct atoll_exec_view *view, const char *kind);
/* Sends SIGKILL to the relays of a session that has ended. */
void atoll_toolbox_drop_commands(struct atoll_sandbox *sandbox, const char *shell_id);
/* The exit status of a command that has ended. shell: the end of its session, or NULL. */
int atoll_toolbox_command_code(const struct atoll_exec_result *result,
                               const struct atoll_exec_result *shell);

/* Deletes a process that has ended, and answers the call. It is not shown any more. */
void atoll_toolbox_bury(struct atoll_api_call *call, const char *exec_id);
bool atoll_toolbox_is_buried(struct atoll_sandbox *sandbox, const char *exec_id);

/* While a client waits for a command: ends the relay when the session ends without a status for it.
 * Ownership: the caller's storage, zeroed before use. */
struct atoll_toolbox_guard {
    struct atoll_engine *engine;
    char sandbox_id[33], relay_id[17];
    struct atoll_reader *end; /* owned: of the session's shell */
};
void atoll_toolbox_guard_open(struct atoll_toolbox_guard *guard, struct atoll_engine *engine,
                              struct atoll_exec *shell, const char *relay_id);
void atoll_toolbox_guard_close(struct atoll_toolbox_guard *guard);

ATOLL_DAYTONA_HANDLER(session_create);
ATOLL_DAYTONA_HANDLER(session_list);
ATOLL_DAYTONA_HANDLER(session_get);
ATOLL_DAYTONA_HANDLER(session_delete);
ATOLL_DAYTONA_HANDLER(session_exec); /* toolbox_session_exec.c */
ATOLL_DAYTONA_HANDLER(command_get);
ATOLL_DAYTONA_HANDLER(command_input); /* toolbox_session_input.c */
ATOLL_DAYTONA_HANDLER(command_logs);  /* toolbox_logs.c */
ATOLL_DAYTONA_HANDLER(entrypoint_get);
ATOLL_DAYTONA_HANDLER(entrypoint_logs); /* toolbox_logs.c */

/*
 * toolbox_ws.c: WebSockets of the toolbox.
 */
/* Chooses a subprotocol that the client offers: clients fail otherwise. Before the request is upgraded. */
void atoll_toolbox_ws_choose(struct atoll_http_request *req);
/* atoll_ws_link_accept() with that subprotocol. */
bool atoll_toolbox_ws_accept(struct atoll_ws_link *w, struct atoll_api_call *call,
                             const struct atoll_ws_callbacks *callbacks, void *arg,
                             size_t max_message, void (*drop)(struct atoll_api_session *session));
/* Sends {"type":TYPE,NAME:VALUE}, and so on: the members of an open object. */
struct atoll_json_out atoll_toolbox_ws_begin(struct atoll_buf *buf, const char *type);
void atoll_toolbox_ws_send(struct atoll_ws_link *w, struct atoll_json_out *out);
/* The value of the offered subprotocol that begins with PREFIX, without it; out holds cap bytes. False:
 * it is not offered, or longer. */
bool atoll_toolbox_ws_offered(const struct atoll_http_request *req, const char *prefix, char *out,
                              size_t cap);

/* toolbox_files.c */
#define ATOLL_TOOLBOX_ATTRIBUTES "user.daytona." /* to learn the targets of links */
#define ATOLL_TOOLBOX_ROOT "root"                /* who may give files away */
void atoll_toolbox_path_fail(struct atoll_api_call *call, const struct atoll_error *error);
ATOLL_DAYTONA_HANDLER(file_info);
ATOLL_DAYTONA_HANDLER(file_list);
ATOLL_DAYTONA_HANDLER(file_delete);
ATOLL_DAYTONA_HANDLER(file_move);
ATOLL_DAYTONA_HANDLER(file_permissions);
ATOLL_DAYTONA_HANDLER(folder_create);
ATOLL_DAYTONA_HANDLER(file_upload); /* toolbox_upload.c */
ATOLL_DAYTONA_HANDLER(file_bulk_upload);
ATOLL_DAYTONA_HANDLER(file_download); /* toolbox_download.c */
ATOLL_DAYTONA_HANDLER(file_bulk_download);
ATOLL_DAYTONA_HANDLER(file_find); /* toolbox_find.c */
ATOLL_DAYTONA_HANDLER(file_search);
ATOLL_DAYTONA_HANDLER(file_replace); /* toolbox_replace.c */
ATOLL_DAYTONA_HANDLER(file_watch);   /* toolbox_watch.c */

/* toolbox_pty.c */
ATOLL_DAYTONA_HANDLER(pty_create);
ATOLL_DAYTONA_HANDLER(pty_list);
ATOLL_DAYTONA_HANDLER(pty_get);
ATOLL_DAYTONA_HANDLER(pty_resize);
ATOLL_DAYTONA_HANDLER(pty_delete);
ATOLL_DAYTONA_HANDLER(pty_connect);
ATOLL_DAYTONA_HANDLER(pty_create_connect);

/* toolbox_pty_link.c: answers the call with a WebSocket of the terminal. from: as in struct atoll_exec_pump_config. */
void atoll_toolbox_pty_attach(struct atoll_api_call *call, struct atoll_exec *exec, uint64_t from);

/*
 * toolbox_processes.c: processes with handles, whose output can be read from any position (of Daytona's
 * unreleased branch). The id of a process is that of its exec.
 */
/* The process that {item} names; NULL: the call has been refused. */
struct atoll_exec *atoll_toolbox_process_find(struct atoll_api_call *call,
                                              struct atoll_exec_view *ret);
/* Members of an open object. */
void atoll_toolbox_process_members(struct atoll_json_out *out, const struct atoll_exec_view *view);
void atoll_toolbox_process_result(struct atoll_json_out *out,
                                  const struct atoll_exec_result *result);
ATOLL_DAYTONA_HANDLER(process_list);
ATOLL_DAYTONA_HANDLER(process_create);
ATOLL_DAYTONA_HANDLER(process_get);
ATOLL_DAYTONA_HANDLER(process_delete);
ATOLL_DAYTONA_HANDLER(process_attach);
ATOLL_DAYTONA_HANDLER(process_resize);
ATOLL_DAYTONA_HANDLER(process_stdin);
ATOLL_DAYTONA_HANDLER(process_wait); /* toolbox_process_wait.c */
ATOLL_DAYTONA_HANDLER(process_signal);
ATOLL_DAYTONA_HANDLER(process_logs); /* toolbox_process_logs.c */

/* toolbox_interpreter.c */
ATOLL_DAYTONA_HANDLER(context_create);
ATOLL_DAYTONA_HANDLER(context_list);
ATOLL_DAYTONA_HANDLER(context_delete);
ATOLL_DAYTONA_HANDLER(interpreter_execute);

/* toolbox_lsp.c */
ATOLL_DAYTONA_HANDLER(lsp_start);
ATOLL_DAYTONA_HANDLER(lsp_stop);
ATOLL_DAYTONA_HANDLER(lsp_open);
ATOLL_DAYTONA_HANDLER(lsp_close);
ATOLL_DAYTONA_HANDLER(lsp_completions);
ATOLL_DAYTONA_HANDLER(lsp_document_symbols);
ATOLL_DAYTONA_HANDLER(lsp_workspace_symbols);

/* toolbox_info.c */
ATOLL_DAYTONA_HANDLER(version);
ATOLL_DAYTONA_HANDLER(home_dir);
ATOLL_DAYTONA_HANDLER(work_dir);
ATOLL_DAYTONA_HANDLER(init);
ATOLL_DAYTONA_HANDLER(metrics);
ATOLL_DAYTONA_HANDLER(ports);
ATOLL_DAYTONA_HANDLER(port_in_use);
/* toolbox_proxy.c */
ATOLL_DAYTONA_HANDLER(proxy);
ATOLL_DAYTONA_HANDLER(no_desktop);
ATOLL_DAYTONA_HANDLER(change_env); /* toolbox_env.c */
