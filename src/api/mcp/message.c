#include <string.h>
#include "api/fields.h"
#include "api/mcp/mcp_internal.h"

/*
 * Messages of JSON-RPC 2.0. Batches are refused, as the protocol does since 2025-06-18.
 */
static int check(struct atoll_mcp_message *m, const char **ret_why)
{
    const json_t *version = json_object_get(m->root, "jsonrpc");
    const json_t *method = json_object_get(m->root, "method");
    const json_t *id = json_object_get(m->root, "id");
    const json_t *params = json_object_get(m->root, "params");

    *ret_why = NULL;
    if (json_is_array(m->root))
        *ret_why = "batches are not supported: send one message in each request";
    else if (!json_is_object(m->root))
        *ret_why = "a message must be an object";
    else if (!json_is_string(version) || strcmp(json_string_value(version), "2.0") != 0)
        *ret_why = "jsonrpc must be \"2.0\"";
    else if (method && !json_is_string(method))
        *ret_why = "method must be a string";
    else if (id && !json_is_string(id) && !json_is_number(id))
        *ret_why = "id must be a string or a number";
    else if (params && !json_is_object(params))
        *ret_why = "params must be an object";
    else if (!method && !json_object_get(m->root, "result") && !json_object_get(m->root, "error"))
        *ret_why = "method is missing";
    if (*ret_why)
        return ATOLL_MCP_INVALID_REQUEST;
    m->method = json_string_value(method);
    m->id = method ? id : NULL;
    m->params = params;
    return 0;
}

int atoll_mcp_parse(const uint8_t *bytes, size_t n, struct atoll_mcp_message *ret,
                    const char **ret_why)
{
    json_error_t why;

    *ret = (struct atoll_mcp_message){0};
    ret->root = json_loadb((const char *)bytes, n, JSON_REJECT_DUPLICATES, &why);
    if (!ret->root) {
        *ret_why = "the body is not JSON";
        return ATOLL_MCP_PARSE_ERROR;
    }
    return check(ret, ret_why);
}

void atoll_mcp_message_done(struct atoll_mcp_message *message)
{
    json_decref(message->root);
    *message = (struct atoll_mcp_message){0};
}
