/*
 * GET /api/builds/{id}/log: the log of a build from an offset, as lines of JSON; with follow=true until the
 * build has ended.
 */
#include "api/kit/log_feed.h"
#include "api/rest/rest_internal.h"
#include "api/rest/template/builds.h"

void atoll_rest_make_log(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                         size_t n ATOLL_UNUSED)
{
    struct atoll_log_feed log = {.source = &atoll_build_log_source,
                                 .id = call->params.name,
                                 .content_type = "application/x-ndjson",
                                 .write = atoll_log_feed_raw};
    struct atoll_make_view view;
    struct atoll_error error;

    if (atoll_rest_make_find(call, &view, &error) < 0 ||
        atoll_api_query_u64(call, "offset", 0, UINT64_MAX / 2, &log.offset, &error) < 0 ||
        atoll_api_query_flag(call, "follow", &log.follow, &error) < 0 ||
        atoll_log_feed_send(call, &log, &error) < 0)
        atoll_api_fail(call, &error);
}
