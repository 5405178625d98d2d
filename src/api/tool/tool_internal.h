#pragma once
#include "api/tool/tool.h"

/* Shared by the files of tools. */

#define ATOLL_TOOL_WHO "a tool call that was cancelled"

struct atoll_tool_call {
    struct atoll_api *api;
    struct atoll_engine *engine;
    struct atoll_loop *loop;
    const struct atoll_tool *tool;
    char tenant[65];
    char sandbox_id[ATOLL_ID_LEN + 1];
    json_t *args;           /* owned */
    char *outside, *inside; /* owned; NULL: no mapping */
    bool starting, finished;
    bool cancelled;
    enum { ATOLL_TOOL_WAITS, ATOLL_TOOL_RUNS, ATOLL_TOOL_HAS_RUN } phase;
    struct atoll_guard_call *guarded; /* NULL: not any more, or the daemon has no guard */
    char *image;                      /* owned; of the result, while interceptors see it */
    /* See guarded.c. */
    char path[ATOLL_TOOL_PATH_MAX], target[ATOLL_TOOL_PATH_MAX], home[80];
    char start[ATOLL_TOOL_PATH_MAX]; /* where relative paths begin */
    char *command;                   /* owned; of atoll_tool_as_command() */
    /* Ends what the tool waits for; its callbacks still come. NULL: nothing can be ended. */
    void (*stop)(struct atoll_tool_call *call);
    void *state; /* the tool's */
    atoll_tool_done_fn *done;
    void *arg;
};

/* Arguments by the names of the table. NULL, 0 or false: not given. */
const char *atoll_tool_text(const struct atoll_tool_call *call, const char *name);
uint64_t atoll_tool_whole(const struct atoll_tool_call *call, const char *name, uint64_t otherwise);
bool atoll_tool_flag(const struct atoll_tool_call *call, const char *name);

/* NAME=VALUE strings of an object of texts, or of NULL; NULL-terminated, owned by the caller. */
char **atoll_tool_variables(const json_t *env);
void atoll_tool_variables_free(char **variables); /* accepts NULL */

/* The path in the sandbox for one that the client wrote. INVALID_ARGUMENT: it is not below the mapped
 * directory, or too long. */
int atoll_tool_path(const struct atoll_tool_call *call, const char *given,
                    char out[static ATOLL_TOOL_PATH_MAX], struct atoll_error *err) ATOLL_MUST_CHECK;
/* The other way, for results: appends it. */
int atoll_tool_show_path(const struct atoll_tool_call *call, const char *path,
                         struct atoll_buf *out) ATOLL_MUST_CHECK;

/* The end of a call, exactly once; it is freed. text is UTF-8 or is made so. Ownership of data passes;
 * NULL: {}. */
void atoll_tool_finish(struct atoll_tool_call *call, struct atoll_buf *text, json_t *data,
                       bool is_error);
/* The text is the same JSON, which models read well; or its size, if it is too long for them. */
void atoll_tool_finish_json(struct atoll_tool_call *call, json_t *data, bool is_error);
void atoll_tool_finish_data(struct atoll_tool_call *call, json_t *data); /* of a success */
void atoll_tool_finish_image(struct atoll_tool_call *call, struct atoll_buf *text, json_t *data,
                             bool is_error, const char *image);
void atoll_tool_fail(struct atoll_tool_call *call, const struct atoll_error *error);
/* Fails with INVALID_ARGUMENT or another kind. */
void atoll_tool_refuse(struct atoll_tool_call *call, enum atoll_error_kind kind, const char *fmt,
                       ...) ATOLL_PRINTF(3, 4);

/* call.c: the answer, past the guard. */
void atoll_tool_deliver(struct atoll_tool_call *call, const struct atoll_tool_result *result,
                        const struct atoll_error *error);
/* guarded.c: asks the guard, and runs the tool if it may run. */
void atoll_tool_guard(struct atoll_tool_call *call);

/* as_command.c: the call as a command of a shell, owned by the caller; NULL: the tool is like no command. Pure. */
char *atoll_tool_as_command(const struct atoll_tool *tool, const json_t *args) ATOLL_MUST_CHECK;

/* A text from bytes of a sandbox; those that are not UTF-8, and NUL, become U+FFFD. */
json_t *atoll_tool_json_bytes(const void *bytes, size_t n);

#define ATOLL_TOOL_RUN(name) void atoll_tool_run_##name(struct atoll_tool_call *call)
/* registered.c: tools of the registry */
ATOLL_TOOL_RUN(registered);
const struct atoll_tool *atoll_tool_ref(const struct atoll_tool *tool);
json_t *atoll_tool_registered_schema(const struct atoll_tool *tool);
int atoll_tool_registered_check(const struct atoll_tool *tool, const json_t *args,
                                struct atoll_error *err) ATOLL_MUST_CHECK;

/* shell.c */
/* Runs a command and finishes the call with what it prints. All is borrowed, except for env: an array of
 * atoll_tool_variables(), or NULL, whose ownership passes. */
struct atoll_tool_command {
    const char *const *argv;
    char **env;
    const char *cwd; /* of the client; NULL: the mapped directory, or the default */
    uint32_t timeout_ms;
    const void *input; /* for its standard input; NULL: none */
    size_t input_len;
};
void atoll_tool_run_command(struct atoll_tool_call *call, const struct atoll_tool_command *command);
ATOLL_TOOL_RUN(bash);
ATOLL_TOOL_RUN(bash_output);
ATOLL_TOOL_RUN(kill_shell);
/* code.c */
ATOLL_TOOL_RUN(code);
/* files.c */
ATOLL_TOOL_RUN(read);
ATOLL_TOOL_RUN(write);
ATOLL_TOOL_RUN(edit);
/* notebook.c */
ATOLL_TOOL_RUN(notebook);
/* Pure: changes the notebook as the arguments say. */
int atoll_tool_notebook_edit(const struct atoll_tool_call *call, json_t *notebook,
                             char said[static 200], struct atoll_error *err) ATOLL_MUST_CHECK;
/* web_fetch.c */
ATOLL_TOOL_RUN(web_fetch);
/* html.c: appends the text of a page; what does not fit is left out. Pure. */
void atoll_tool_html_text(const char *html, size_t n, struct atoll_buf *out);
/* find.c */
ATOLL_TOOL_RUN(glob);
ATOLL_TOOL_RUN(ls);
ATOLL_TOOL_RUN(grep);
/* boxes.c */
ATOLL_TOOL_RUN(create);
ATOLL_TOOL_RUN(list);
ATOLL_TOOL_RUN(info);
ATOLL_TOOL_RUN(destroy);
ATOLL_TOOL_RUN(preview);
/* states.c */
ATOLL_TOOL_RUN(snapshot);
ATOLL_TOOL_RUN(fork);
ATOLL_TOOL_RUN(restore);
/* git.c */
ATOLL_TOOL_RUN(git);
/* manage.c */
ATOLL_TOOL_RUN(file_info);
ATOLL_TOOL_RUN(create_folder);
ATOLL_TOOL_RUN(move_file);
ATOLL_TOOL_RUN(delete_file);
ATOLL_TOOL_RUN(upload_file);
ATOLL_TOOL_RUN(download_file);
/* tasks.c */
ATOLL_TOOL_RUN(task);
ATOLL_TOOL_RUN(memory);
ATOLL_TOOL_RUN(remember);

/* edits.c, pure. Replaces old with new in the text, once or everywhere. FAILED_PRECONDITION: it is not
 * there, or more than once and `all` is false. */
struct atoll_tool_edit {
    const char *old_text, *new_text;
    bool all;
};
int atoll_tool_edit_apply(struct atoll_buf *text, const struct atoll_tool_edit *edit,
                          size_t *ret_count, struct atoll_error *err) ATOLL_MUST_CHECK;
