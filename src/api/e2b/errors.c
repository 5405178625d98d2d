/*
 * Errors in the format of E2B. Some clients read the code in the body, not the status.
 */
#include <stdio.h>
#include <string.h>
#include "api/e2b/e2b_internal.h"

/* One text for a sandbox that is destroyed, never existed, or belongs to another tenant. */
static bool is_about_sandbox(const struct atoll_api_call *call, int status)
{
    return status == 404 && call->params.id[0] && call->route &&
           strstr(call->route->path, "{sandboxID}") != NULL;
}

void atoll_e2b_fail(struct atoll_api_call *call, int status, const struct atoll_error *error)
{
    char missing[120];
    const char *text = error->text;
    struct atoll_buf buf;
    struct atoll_json_out out;

    if (is_about_sandbox(call, status)) {
        (void)snprintf(missing, sizeof(missing),
                       "Sandbox \"%s\" doesn't exist or you don't have access to it",
                       call->params.id);
        text = missing;
    } else if (status == 500) {
        text = "internal error of the daemon";
    }
    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '{');
    atoll_json_i64(&out, "code", status);
    atoll_json_text(&out, "message", text);
    if (status == 500)
        atoll_json_text(&out, "error_code", "internal_server_error");
    atoll_json_close(&out, '}');
    atoll_api_reply(call, status, &out);
}
