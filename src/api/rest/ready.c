/*
 * /healthz says that the daemon answers, /readyz that it can do its work: the store takes a write
 * and whatever makes sandboxes answers. Both are for monitors, which on this host need no key.
 */
#include <errno.h>
#include <string.h>
#include "api/api_internal.h"
#include "api/metrics.h"
#include "api/rest/rest_internal.h"

#define ANSWER_MS 2000

/* Behind a proxy on this host everybody would seem to be here: whoever passes a request on says so. */
static bool is_near(const struct atoll_http_request *req)
{
    const struct atoll_http_peer *peer = atoll_http_peer(req);

    if (atoll_http_header(req, "x-forwarded-for") || atoll_http_header(req, "forwarded"))
        return false;
    return peer->is_unix || strncmp(peer->address, "127.", 4) == 0 ||
           strncmp(peer->address, "[::1]:", 6) == 0;
}

bool atoll_api_allow_near(struct atoll_api_call *call)
{
    struct atoll_error error;

    if (is_near(call->req) || atoll_api_authorize(call, ATOLL_SCOPE_READ, &error) == 0)
        return true;
    atoll_api_fail(call, &error);
    return false;
}

void atoll_rest_health(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                       size_t n ATOLL_UNUSED)
{
    struct atoll_buf buf;
    struct atoll_json_out out;

    if (!atoll_api_allow_near(call))
        return;
    atoll_api_reply_init(&buf, &out);
    atoll_json_raw(&out, NULL, "{\"status\":\"ok\",\"version\":\"" ATOLL_VERSION "\"}");
    atoll_api_reply(call, 200, &out);
}

/* The check may take longer than we wait, and then ends alone. */
struct check {
    struct atoll_api_call *call; /* NULL once it is answered */
    struct atoll_timer timer;
};

static void answer(struct check *check, const char *reason)
{
    struct atoll_api_call *call = ATOLL_TAKE_PTR(check->call);
    struct atoll_buf buf;
    struct atoll_json_out out;

    atoll_timer_cancel(&check->timer);
    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '{');
    atoll_json_text(&out, "status", reason ? "unavailable" : "ready");
    atoll_json_open(&out, "reasons", '[');
    if (reason)
        atoll_json_text(&out, NULL, reason);
    atoll_json_close(&out, ']');
    atoll_json_close(&out, '}');
    atoll_api_reply(call, reason ? 503 : 200, &out);
}

static void checked(void *arg, const struct atoll_error *error)
{
    struct check *check = arg;

    if (check->call)
        answer(check, error ? error->text : NULL);
    free(check);
}

static void too_late(void *arg)
{
    answer(arg, "what makes sandboxes does not answer");
}

void atoll_rest_ready(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                      size_t n ATOLL_UNUSED)
{
    struct check *check;

    if (!atoll_api_allow_near(call))
        return;
    check = atoll_api_alloc(sizeof(*check));
    check->call = call;
    if (call->api->draining) {
        answer(check, "the daemon is shutting down");
        free(check);
        return;
    }
    atoll_timer_set(&check->timer, call->api->config.loop, ANSWER_MS, too_late, check);
    atoll_engine_check(call->engine, checked, check);
}
