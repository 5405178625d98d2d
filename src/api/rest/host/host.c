#include <errno.h>
#include <jansson.h>
#include "api/rest/rest_internal.h"

/* Weak points of the host are shown to admins only, since tenants run untrusted code. */
static char *without_hardening(const char *text)
{
    json_t *host = json_loads(text, 0, NULL), *checks = json_object_get(host, "checks");
    char *out;

    for (size_t i = json_array_size(checks); i-- > 0;)
        if (json_is_true(json_object_get(json_array_get(checks, i), "hardening")))
            (void)json_array_remove(checks, i);
    out = json_dumps(host, JSON_COMPACT);
    json_decref(host);
    return out;
}

void atoll_rest_host(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                     size_t n ATOLL_UNUSED)
{
    const char *all = atoll_engine_host_json(call->engine);
    ATOLL_AUTOFREE char *some =
        call->caller.scope >= ATOLL_SCOPE_ADMIN ? NULL : without_hardening(all);
    struct atoll_error error;
    struct atoll_buf buf;
    struct atoll_json_out out;

    if (!some && call->caller.scope < ATOLL_SCOPE_ADMIN) {
        (void)atoll_fail(&error, ATOLL_ERR_RESOURCE_EXHAUSTED, ENOMEM, "no memory for the answer");
        atoll_api_fail(call, &error);
        return;
    }
    atoll_api_reply_init(&buf, &out);
    atoll_json_raw(&out, NULL, some ? some : all);
    atoll_api_reply(call, 200, &out);
}
