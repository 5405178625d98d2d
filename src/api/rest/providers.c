/*
 * GET /api/providers: who makes sandboxes here, and what those can do.
 */
#include <jansson.h>
#include <string.h>
#include "api/rest/rest_internal.h"

/* Commands and files go through our agent, the same for every provider that runs it. */
static const char *const capabilities[] = {"exec",  "pty",   "files",     "archive", "watch",
                                           "ports", "stats", "templates", "timeout"};

/* What the doctor found at the start. */
static void write_state(struct atoll_json_out *out, const char *host_json)
{
    json_t *host = json_loads(host_json, 0, NULL);
    bool works = !json_is_false(json_object_get(host, "native"));
    const char *summary = json_string_value(json_object_get(host, "summary"));
    const char *mode = json_string_value(json_object_get(host, "mode"));

    atoll_json_text(out, "state", works ? "ready" : "unavailable");
    if (summary)
        atoll_json_text(out, "detail", summary);
    if (mode)
        atoll_json_text(out, "mode", mode);
    json_decref(host);
}

void atoll_rest_providers(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                          size_t n ATOLL_UNUSED)
{
    struct atoll_buf buf;
    struct atoll_json_out out;
    size_t pos = 0, count = 0;

    while (atoll_rest_next_sandbox(call, &pos))
        count++;
    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '{');
    atoll_json_open(&out, "providers", '[');
    atoll_json_open(&out, NULL, '{');
    atoll_json_text(&out, "name", atoll_engine_provider_name(call->engine));
    atoll_json_bool(&out, "default", true);
    write_state(&out, atoll_engine_host_json(call->engine));
    atoll_json_u64(&out, "sandboxes", count);
    atoll_json_open(&out, "capabilities", '[');
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(capabilities); i++)
        atoll_json_text(&out, NULL, capabilities[i]);
    atoll_json_close(&out, ']');
    atoll_json_close(&out, '}');
    atoll_json_close(&out, ']');
    atoll_json_close(&out, '}');
    atoll_api_reply(call, 200, &out);
}
