#pragma once
#include "api/call.h"

/*
 * A log that is appended to a file as the response to a request: from an offset, and until its end if the
 * client follows it. A client that reads slowly gets the rest later: the log is on disk.
 */
#define ATOLL_LOG_PIECE ((size_t)64 * 1024)

struct atoll_log_source {
    /* Copies at most n bytes from offset; 0 at the end so far; -errno. */
    ssize_t (*read)(const struct atoll_api_call *call, const char *id, uint64_t offset, void *buf,
                    size_t n);
    /* Whether nothing more will be written. */
    bool (*ended)(const struct atoll_api_call *call, const char *id);
    /* fn is called when the log has grown or has ended. */
    int (*watch)(const struct atoll_api_call *call, const char *id, void (*fn)(void *arg),
                 void *arg, void **ret_watch, struct atoll_error *err);
    void (*unwatch)(void *watch); /* accepts NULL */
};
extern const struct atoll_log_source atoll_build_log_source; /* build_log.c */

struct atoll_log_feed {
    const struct atoll_log_source *source;
    const char *id; /* of the build, task …; copied */
    uint64_t offset;
    bool follow;
    const char *content_type;
    /* Sends what it can use of a piece, which has at most ATOLL_LOG_PIECE bytes. Returns how many bytes it
     * used; the rest comes again with what follows. -EPIPE: the client is gone. */
    ssize_t (*write)(struct atoll_http_request *req, const char *piece, size_t n);
};
/* Writes a piece as it is. */
ssize_t atoll_log_feed_raw(struct atoll_http_request *req, const char *piece, size_t n);
/* On an error of watch(), for a log that is followed, nothing was sent. */
int atoll_log_feed_send(struct atoll_api_call *call, const struct atoll_log_feed *feed,
                        struct atoll_error *err) ATOLL_MUST_CHECK;
