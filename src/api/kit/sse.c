#include "api/kit/sse.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

bool atoll_sse_wanted(const struct atoll_http_request *req)
{
    const char *accept = atoll_http_header(req, "accept");
    return accept && strcasestr(accept, "text/event-stream");
}

void atoll_sse_begin(struct atoll_api_call *call)
{
    (void)atoll_http_set_header(call->req, "Cache-Control", "no-store");
    (void)atoll_http_set_header(call->req, "X-Accel-Buffering", "no");
    atoll_api_begin(call, 200, "text/event-stream", -1);
}

int atoll_sse_write(struct atoll_http_request *req, const char *event, const char *id,
                    const struct atoll_buf *data)
{
    char head[200];
    int n = snprintf(head, sizeof(head), "%s%s%sevent: %s\ndata: ", id ? "id: " : "", id ? id : "",
                     id ? "\n" : "", event);
    int r = atoll_http_write(req, head, (size_t)n);

    if (r == 0)
        r = atoll_http_write(req, atoll_buf_head(data), atoll_buf_size(data));
    return r < 0 ? r : atoll_http_write(req, "\n\n", 2);
}
