#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "api/json_out.h"
#include "api/kit/file_read.h"
#include "api/mcp/mcp_internal.h"
#include "base/base64.h"
#include "net/url.h"

/*
 * Files of sandboxes as resources: atoll://SANDBOX/PATH, where SANDBOX is an id or a name.
 */
#define SCHEME "atoll://"
#define FILE_MAX ((size_t)8 * 1024 * 1024)

void atoll_mcp_resource_templates(struct atoll_mcp_request *req)
{
    atoll_mcp_answer(req, json_pack("{s:[{s:s, s:s, s:s}]}", "resourceTemplates", "uriTemplate",
                                    SCHEME "{sandbox}/{+path}", "name", "file", "description",
                                    "A file of a sandbox, by the sandbox's id or name."));
}

/* Files are not listed: there may be very many. The tools find them. */
void atoll_mcp_resources_list(struct atoll_mcp_request *req)
{
    atoll_mcp_answer(req, json_pack("{s:[]}", "resources"));
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

void atoll_mcp_resources_read(struct atoll_mcp_request *req)
{
    const char *uri = json_string_value(json_object_get(req->message.params, "uri"));
    const char *rest =
        uri && strncmp(uri, SCHEME, strlen(SCHEME)) == 0 ? uri + strlen(SCHEME) : NULL;
    const char *slash = rest ? strchr(rest, '/') : NULL;
    struct atoll_sandbox *sandbox;
    struct atoll_sandbox_view view;
    struct atoll_error error;
    char box[65], path[ATOLL_TOOL_PATH_MAX];

    if (!slash || slash == rest || slash - rest >= (ptrdiff_t)sizeof(box) ||
        strlen(slash) >= sizeof(path)) {
        atoll_mcp_refuse(req, ATOLL_MCP_INVALID_PARAMS, "uri must be " SCHEME "SANDBOX/PATH");
        return;
    }
    (void)snprintf(path, sizeof(path), "%s", slash);
    if (atoll_url_decode_path(path) != 0) {
        atoll_mcp_refuse(req, ATOLL_MCP_INVALID_PARAMS,
                         "the path of the uri must be absolute and without \"..\"");
        return;
    }
    (void)snprintf(box, sizeof(box), "%.*s", (int)(slash - rest), rest);
    if (atoll_engine_resolve(req->call->engine, req->call->caller.tenant, false, box, &sandbox,
                             &error) < 0) {
        atoll_mcp_fail(req, &error);
        return;
    }
    if (!atoll_api_sees_sandbox(req->call, sandbox)) {
        atoll_mcp_refuse(req, ATOLL_MCP_NOT_FOUND, "there is no sandbox %s", box);
        return;
    }
    atoll_sandbox_get(sandbox, &view);
    atoll_file_read_whole(req->call->engine, view.id, path, FILE_MAX, was_read, req);
}
