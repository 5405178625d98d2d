/*
 * Routes that SDKs have and that are not served here: 501, with what to use instead. Without them the answer would
 * be a 404, which SDKs report as an object that does not exist.
 */
#include <string.h>
#include "api/daytona/daytona_internal.h"

/* By a part of the path. */
static const struct {
    const char *part, *reason;
} reasons[] = {
    {"/telemetry/",
     "Measurements of the past are not kept: getMetricsLatest() of the sandbox has the present ones, "
     "and GET /metrics of the daemon is for a collector"},
    {"/warm-pools",
     "Warm pools are not managed here: the operator sets --pool, and sandboxes that fit come from it"},
    {"/secret",
     "Secrets in variables are not supported: store the value with \"atoll secret create\" and name it in a "
     "transform of the network policy"},
};

void atoll_daytona_absent(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                          size_t n ATOLL_UNUSED)
{
    size_t i = 0;

    while (i + 1 < ATOLL_ARRAY_LEN(reasons) && !strstr(call->route->path, reasons[i].part))
        i++;
    atoll_daytona_refuse(call, 501, NULL, "%s", reasons[i].reason);
}
