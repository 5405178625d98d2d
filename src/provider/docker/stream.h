#pragma once
#include "base/buf.h"
#include "base/error.h"
#include "provider/docker/pull.h"

/*
 * Parsers of the engine's two stream formats, for pieces of any size. Pure, except for the clock.
 */

/* Progress of pulls, imports and builds: a sequence of JSON objects. The HTTP status is 200 even
 * if the operation fails; then one of the objects has the error. */
struct atoll_docker_progress {
    struct atoll_buf line;
    bool failed;
    bool broken; /* a part could not be parsed */
    char error[300];
    char id[80];    /* id of a built image, or "" */
    char step[160]; /* build: the current step, "2/5 : RUN make", or "" */
    struct atoll_docker_pull pull;
    int64_t told_ms;         /* time of the last progress report */
    struct atoll_buf output; /* build: the incomplete last line */
    void (*say)(void *arg, const char *text);
    void *arg;
};
/* say: receives lines of output, or the progress of a pull at most twice a second. */
void atoll_docker_progress_init(struct atoll_docker_progress *p,
                                void (*say)(void *arg, const char *text), void *arg);
void atoll_docker_progress_done(struct atoll_docker_progress *p);
/* A sink for struct atoll_docker_ask; < 0 if the bytes are not such a stream. */
int atoll_docker_progress_take(void *progress, const void *bytes, size_t n);
/* Call it after the last byte. */
int atoll_docker_progress_end(struct atoll_docker_progress *p,
                              struct atoll_error *err) ATOLL_MUST_CHECK;

/* Output of processes without a terminal: chunks with a header of 8 bytes. */
#define ATOLL_DOCKER_STDOUT 1
#define ATOLL_DOCKER_STDERR 2
struct atoll_docker_demux {
    uint8_t head[8];
    size_t head_len;
    uint32_t left; /* bytes left of the current chunk */
};
/* Finds the next bytes of one stream in [bytes, bytes + n). Returns how many bytes were used, 0
 * if none are left. The last *ret_len of the used bytes belong to *ret_stream; 0 if only a
 * header was read. -EPROTO. */
ssize_t atoll_docker_demux_next(struct atoll_docker_demux *d, const uint8_t *bytes, size_t n,
                                int *ret_stream, size_t *ret_len) ATOLL_MUST_CHECK;
