#pragma once
#include "api/call.h"
#include "engine/build/build.h"

/*
 * The log of a build as the response to a request: from an offset, and until the build has ended if the
 * client follows it. A client that reads slowly gets the rest later: the log is on disk.
 */
#define ATOLL_BUILD_LOG_PIECE ((size_t)64 * 1024)

struct atoll_build_log {
    const char *id; /* of the build; copied */
    uint64_t offset;
    bool follow;
    const char *content_type;
    /* Sends what it can use of a piece, which has at most ATOLL_BUILD_LOG_PIECE bytes. Returns how many
     * bytes it used; the rest comes again with what follows. -EPIPE: the client is gone. */
    ssize_t (*write)(struct atoll_http_request *req, const char *piece, size_t n);
};
/* On an error of atoll_make_watch(), for a log that is followed, nothing was sent. */
int atoll_build_log_send(struct atoll_api_call *call, const struct atoll_build_log *log,
                         struct atoll_error *err) ATOLL_MUST_CHECK;
