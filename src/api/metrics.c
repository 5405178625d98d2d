#include "api/metrics.h"

#include <stdio.h>
#include "base/clock.h"

const char *atoll_api_status_text(int status)
{
    static char texts[500][4];
    char *text = texts[status >= 100 && status < 600 ? status - 100 : 400];

    if (!*text)
        (void)snprintf(text, sizeof(texts[0]), "%d", status >= 100 && status < 600 ? status : 500);
    return text;
}

void atoll_api_measure(const struct atoll_api_call *call, int status)
{
    const char *method = call->route ? atoll_http_method_name(call->route->method) : "";
    const char *route = call->route ? call->route->path : "";

    atoll_metric_add(ATOLL_METRIC_HTTP_REQUESTS,
                     ATOLL_LABELS(method, route, atoll_api_status_text(status)), 1);
    atoll_metric_observe(ATOLL_METRIC_HTTP_SECONDS, ATOLL_LABELS(method, route),
                         (double)(atoll_clock_us() - call->started_us) / 1e6);
}
