#pragma once
#include <jansson.h>
#include "api/api.h"
#include "base/buf.h"
#include "base/rand.h"

/*
 * Tools for agents: what a language model calls by name, with JSON arguments. A tool has two names, and so
 * have its arguments: that of coding agents ("Read", "file_path"), for requests to
 * /api/sandboxes/{id}/tools/{tool}; and that of MCP servers ("read_file", "path"). Both lead to the same
 * implementation.
 *
 * A result is a text for the model and an object for programs. A tool that did what it should, but whose
 * command failed, has a result with is_error; a call that could not be made has an error instead.
 *
 * Thread: the loop's.
 */
enum atoll_tool_arg_type {
    ATOLL_TOOL_TEXT,
    ATOLL_TOOL_WHOLE, /* a whole number from 0 */
    ATOLL_TOOL_FLAG,
    ATOLL_TOOL_TEXTS,  /* an array of texts */
    ATOLL_TOOL_EDITS,  /* an array of {old_string, new_string, replace_all} */
    ATOLL_TOOL_ENV,    /* an object whose values are texts */
    ATOLL_TOOL_OBJECT, /* any object */
};

struct atoll_tool_arg {
    const char *name;
    const char *mcp_name; /* NULL: the same */
    enum atoll_tool_arg_type type;
    bool required;
    uint64_t max;      /* of a number; 0: no limit */
    const char *about; /* for the model */
};

struct atoll_tool_call;
struct atoll_tool {
    const char *name;                  /* NULL: only for MCP */
    const char *mcp_name;              /* NULL: not for MCP */
    const char *about;                 /* for the model */
    const struct atoll_tool_arg *args; /* ends with a row without a name */
    bool reads_only;
    bool without_sandbox; /* it is not about one sandbox; MCP: others also take "sandbox" */
    void (*run)(struct atoll_tool_call *call);
    const json_t *object; /* of the registry, with places; NULL: a row of the table */
};

/* The built-in tools; ends with a row without a `run`. */
extern const struct atoll_tool atoll_tools[];

/*
 * Tools of the registry have one name for REST and MCP; a built-in tool of the same name takes precedence.
 * References keep a tool while a call uses it and the registry changes; those to built-in tools are free.
 */
/* NULL: there is no such tool. Return the reference with atoll_tool_unref(). */
const struct atoll_tool *atoll_tool_find(const struct atoll_api *api, const char *name, bool mcp);
/* All tools with a name of that kind: starts with *pos = 0; NULL at the end. References, as above. */
const struct atoll_tool *atoll_tool_next(const struct atoll_api *api, bool mcp, size_t *pos);
/* Accepts NULL, and returns it. */
const struct atoll_tool *atoll_tool_unref(const struct atoll_tool *tool);

/* Names that other sandbox servers have for tools of MCP, and for their arguments: aliases.c. Another name is returned as
 * it is. */
const char *atoll_tool_alias(const char *name);
/* Renames the arguments of a call by that name; those that have no meaning here are removed. */
void atoll_tool_alias_args(const char *name, json_t *args);

/* The JSON schema of the arguments; owned by the caller, NULL: out of memory. */
json_t *atoll_tool_schema(const struct atoll_tool *tool, bool mcp);
/* The schema of the object of its results: outputs.c. Owned by the caller; NULL: its results are text. */
json_t *atoll_tool_output(const struct atoll_tool *tool);
/* Checks arguments and renames those of MCP to the names of the table. INVALID_ARGUMENT says which argument
 * is wrong, and what it must be. */
int atoll_tool_check(const struct atoll_tool *tool, bool mcp, json_t *args,
                     struct atoll_error *err) ATOLL_MUST_CHECK;

/* --- calls --- */

struct atoll_tool_result {
    const char *text; /* UTF-8 */
    const json_t *data;
    bool is_error;
    const char *image; /* base64 of a PNG; NULL: none */
};
/* Borrowed during the call. Either the result or the error is NULL. */
typedef void atoll_tool_done_fn(void *arg, const struct atoll_tool_result *result,
                                const struct atoll_error *error);

#define ATOLL_TOOL_PATH_MAX 4096
struct atoll_tool_request {
    struct atoll_api *api;
    const struct atoll_tool *tool; /* the call takes a reference of its own */
    const char *tenant;
    const char *sandbox_id; /* of the tenant; "" for a tool without one */
    json_t *args;           /* checked; ownership passes */
    /* Paths below `outside` are those below `inside` in the sandbox, and others are refused. NULL: paths
     * are those of the sandbox. */
    const char *outside, *inside;
    atoll_tool_done_fn *done;
    void *arg;
};
/* Starts a call. Returns what can be cancelled; NULL if done was called already. */
struct atoll_tool_call *atoll_tool_start(const struct atoll_tool_request *request);
/* No callback is called any more; a command that runs for it is killed. */
void atoll_tool_cancel(struct atoll_tool_call *call);
