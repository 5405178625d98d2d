#pragma once
#include "base/buf.h"
#include "base/error.h"
#include "provider/docker/pull.h"

/*
 * The two framings of the engine's streams, taken in pieces of any size. Pure, but for the clock.
 */

/* Progress of pulls, imports and builds: JSON objects one behind the other. The status is 200 even
 * when it ends in an error; that is the object that says so. */
struct atoll_docker_progress {
    struct atoll_buf line;
    bool failed;
    bool broken; /* a part of it could not be read */
    char error[300];
    char id[80];    /* of an image that was built; "" */
    char step[160]; /* of a build: the last that began, "2/5 : RUN make"; "" */
    struct atoll_docker_pull pull;
    int64_t told_ms;         /* when it was last told how far that is */
    struct atoll_buf output; /* of a build: a line that has no end yet */
    void (*say)(void *arg, const char *text);
    void *arg;
};
/* say: a line of output, or how far a pull is, at most twice a second. */
void atoll_docker_progress_init(struct atoll_docker_progress *p,
                                void (*say)(void *arg, const char *text), void *arg);
void atoll_docker_progress_done(struct atoll_docker_progress *p);
/* A sink for atoll_docker_ask; < 0 for what is no such stream. */
int atoll_docker_progress_take(void *progress, const void *bytes, size_t n);
/* After the last byte. */
int atoll_docker_progress_end(struct atoll_docker_progress *p,
                              struct atoll_error *err) ATOLL_MUST_CHECK;

/* Output of processes without a terminal: pieces with a head of 8 bytes. */
#define ATOLL_DOCKER_STDOUT 1
#define ATOLL_DOCKER_STDERR 2
struct atoll_docker_demux {
    uint8_t head[8];
    size_t head_len;
    uint32_t left; /* of the present piece */
};
/* The next bytes of one stream in [bytes, bytes + n): how many bytes were used, 0 for none left.
 * *ret_len is how many of the last used ones belong to *ret_stream; 0 when only a head came by.
 * -EPROTO. */
ssize_t atoll_docker_demux_next(struct atoll_docker_demux *d, const uint8_t *bytes, size_t n,
                                int *ret_stream, size_t *ret_len) ATOLL_MUST_CHECK;
