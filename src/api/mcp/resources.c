#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "api/api_internal.h"
#include "api/json_out.h"
#include "api/kit/collect.h"
#include "api/kit/file_read.h"
#include "api/mcp/mcp_internal.h"
#include "api/tool/tool_internal.h"
#include "base/base64.h"
#include "net/url.h"

/*
 * Files of sandboxes as resources: atoll://SANDBOX/PATH, where SANDBOX is an id or a name; and the output of
 * their commands: atoll-log://SANDBOX/COMMAND.
 */
#define SCHEME "atoll://"
#define LOG_SCHEME "atoll-log://"
#define LIST_MAX 200
#define FILE_MAX ((size_t)8 * 1024 * 1024)

void atoll_mcp_resource_templates(struct atoll_mcp_request *req)
{
    atoll_mcp_answer(req,
                     json_pack("{s:[{s:s, s:s, s:s}, {s:s, s:s, s:s}]}", "resourceTemplates",
                               "uriTemplate", SCHEME "{sandbox}/{+path}", "name", "file",
                               "description", "A file of a sandbox, by the sandbox's id or name.",
                               "uriTemplate", LOG_SCHEME "{sandbox}/{command}", "name", "log",
                               "description", "The output of a command of a sandbox so far."));
}

static json_t *describe_log(const struct atoll_exec_view *exec)
{
    char uri[128];
    json_t *title = atoll_tool_json_bytes(exec->argv[0], strlen(exec->argv[0]));

    (void)snprintf(uri, sizeof(uri), LOG_SCHEME "%s/%s", exec->sandbox_id, exec->id);
    return json_pack("{s:s, s:s, s:o, s:s, s:s}", "uri", uri, "name", exec->id, "title", title,
                     "mimeType", "text/plain", "description",
                     exec->result ? "output of a command that ended"
                                  : "output of a command that runs");
}

static void list_logs(struct atoll_sandbox *sandbox, json_t *all)
{
    struct atoll_exec *exec;
    size_t pos = 0;

    while (json_array_size(all) < LIST_MAX && (exec = atoll_sandbox_next_exec(sandbox, &pos))) {
        struct atoll_exec_view view;

        atoll_exec_get(exec, &view);
        if (!view.held && view.argv && view.argv[0])
            (void)json_array_append_new(all, describe_log(&view));
    }
}

/* Logs of commands, newest sandbox first. Files are not listed: there may be very many, and the tools find
 * them. */
void atoll_mcp_resources_list(struct atoll_mcp_request *req)
{
    json_t *all = json_array();
    struct atoll_sandbox *sandbox = atoll_engine_after(req->engine, req->tenant, 0, "");
    struct atoll_sandbox_view view;

    for (size_t i = 0; sandbox && i < LIST_MAX; i++) {
        list_logs(sandbox, all);
        atoll_sandbox_get(sandbox, &view);
        sandbox = atoll_engine_after(req->engine, req->tenant, view.created_unix_ms, view.id);
    }
    atoll_mcp_answer(req, json_pack("{s:o}", "resources", all));
}

static json_t *contents(const struct atoll_mcp_request *req, const uint8_t *bytes, size_t n)
{
    const char *uri = json_string_value(json_object_get(req->message.params, "uri"));
    struct atoll_buf coded;
    json_t *one;

    if (atoll_json_utf8_prefix(bytes, n) == n && !memchr(bytes, 0, n))
        return json_pack("{s:[{s:s, s:s, s:s%}]}", "contents", "uri", uri, "mimeType", "text/plain",
                         "text", n ? (const char *)bytes : "", n);
    atoll_buf_init(&coded, 2 * FILE_MAX);
    one = atoll_base64_encode(&coded, bytes, n) < 0
              ? NULL
              : json_pack("{s:[{s:s, s:s, s:s}]}", "contents", "uri", uri, "mimeType",
                          "application/octet-stream", "blob", atoll_buf_str(&coded));
    atoll_buf_done(&coded);
    return one;
}

static void was_read(void *arg, const uint8_t *bytes, size_t n, uint32_t mode ATOLL_UNUSED,
                     const struct atoll_error *error)
{
    struct atoll_mcp_request *req = arg;

    if (error)
        atoll_mcp_fail(req, error);
    else
        atoll_mcp_answer(req, contents(req, bytes, n));
}

/* Logs. */

struct log {
    struct atoll_mcp_request *req;
    struct atoll_collect collect;
};

static void log_read(void *arg, const struct atoll_exec_result *result ATOLL_UNUSED,
                     const struct atoll_error *error)
{
    struct log *log = arg;
    struct atoll_mcp_request *req = log->req;
    struct atoll_buf text;
    json_t *valid = NULL;

    if (!error) {
        atoll_buf_init(&text, 2 * ATOLL_COLLECT_MAX + 1);
        for (int i = ATOLL_STREAM_STDOUT; i <= ATOLL_STREAM_STDERR; i++)
            (void)!atoll_buf_append(&text, atoll_buf_head(&log->collect.streams[i]),
                                    atoll_buf_size(&log->collect.streams[i]));
        valid = atoll_tool_json_bytes(atoll_buf_head(&text), atoll_buf_size(&text));
        atoll_buf_done(&text);
    }
    atoll_collect_done(&log->collect);
    free(log);
    if (error)
        atoll_mcp_fail(req, error);
    else
        atoll_mcp_answer(req,
                         json_pack("{s:[{s:s, s:s, s:o}]}", "contents", "uri",
                                   json_string_value(json_object_get(req->message.params, "uri")),
                                   "mimeType", "text/plain", "text", valid));
}

static void read_log(struct atoll_mcp_request *req, const struct atoll_mcp_resource *resource)
{
    struct atoll_sandbox *sandbox = atoll_engine_find(req->engine, resource->sandbox_id);
    struct atoll_exec *exec = sandbox ? atoll_sandbox_find_exec(sandbox, resource->path) : NULL;
    struct log *log;

    if (!exec) {
        atoll_mcp_refuse(req, ATOLL_MCP_NOT_FOUND, "there is no command with the id %.40s",
                         resource->path);
        return;
    }
    log = atoll_api_alloc(sizeof(*log));
    log->req = req;
    atoll_collect_so_far(&log->collect, req->api->config.loop, exec, log_read, log);
}

/* Reading. */

/* Cuts the URI into the sandbox and what follows. */
static int split(const char *uri, struct atoll_mcp_resource *ret, char box[static 65],
                 struct atoll_error *err)
{
    bool is_file = uri && strncmp(uri, SCHEME, strlen(SCHEME)) == 0;
    const char *rest, *slash;

    ret->is_log = uri && strncmp(uri, LOG_SCHEME, strlen(LOG_SCHEME)) == 0;
    rest = is_file ? uri + strlen(SCHEME) : ret->is_log ? uri + strlen(LOG_SCHEME) : NULL;
    slash = rest ? strchr(rest, '/') : NULL;
    if (!slash || slash == rest || slash - rest >= 65 || strlen(slash) >= sizeof(ret->path))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "uri must be " SCHEME "SANDBOX/PATH or " LOG_SCHEME "SANDBOX/COMMAND");
    (void)snprintf(ret->path, sizeof(ret->path), "%s", slash + ret->is_log);
    if (is_file && atoll_url_decode_path(ret->path) != 0)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "the path of the uri must be absolute and without \"..\"");
    (void)snprintf(box, 65, "%.*s", (int)(slash - rest), rest);
    return 0;
}

int atoll_mcp_resource_find(const struct atoll_mcp_request *req, const char *uri,
                            struct atoll_mcp_resource *ret, struct atoll_error *err)
{
    struct atoll_sandbox *sandbox;
    struct atoll_sandbox_view view;
    char box[65];
    int r = split(uri, ret, box, err);

    if (r == 0)
        r = atoll_engine_resolve(req->engine, req->tenant, false, box, &sandbox, err);
    if (r < 0)
        return r;
    atoll_sandbox_get(sandbox, &view);
    if (strcmp(atoll_api_owner_of(req->engine, view.id), req->tenant) != 0)
        return atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT, "there is no sandbox %s", box);
    (void)snprintf(ret->sandbox_id, sizeof(ret->sandbox_id), "%s", view.id);
    return 0;
}

void atoll_mcp_resources_read(struct atoll_mcp_request *req)
{
    const char *uri = json_string_value(json_object_get(req->message.params, "uri"));
    struct atoll_mcp_resource resource;
    struct atoll_error error;

    if (atoll_mcp_resource_find(req, uri, &resource, &error) < 0)
        atoll_mcp_fail(req, &error);
    else if (resource.is_log)
        read_log(req, &resource);
    else
        atoll_file_read_whole(req->engine, resource.sandbox_id, resource.path, FILE_MAX, was_read,
                              req);
}
