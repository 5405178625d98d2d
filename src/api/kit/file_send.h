#pragma once
#include "api/call.h"
#include "loop/offload.h"

/*
 * Answers a call with the contents of an open file, at the pace of the client.
 */
struct atoll_file_part {
    struct atoll_tenant_file *file; /* taken */
    uint64_t offset, length;
    bool to_end; /* the length is not known: read until end of file */
};

/* Determines the part that is the whole file. A file of size 0 may still have contents, as files
 * of procfs do, so it is probed. Calls done once, possibly before it returns; done then owns the
 * file in the part. */
void atoll_file_whole(struct atoll_tenant_file *file, uint64_t size_bytes,
                      void (*done)(void *arg, const struct atoll_file_part *part), void *arg);
/* All headers except the content type must be set before. Ends the call. */
void atoll_file_send(struct atoll_api_call *call, int status, const char *content_type,
                     const struct atoll_file_part *part);

/* The same for a response that has begun, of which the file is one piece. Ownership: the caller's
 * storage, zeroed before use. */
struct atoll_file_pump {
    struct atoll_api_call *call;
    struct atoll_file_part part;
    struct atoll_timer turn;
    /* Called once, unless the client disconnects: 0 when all was sent, -ENODATA if the file became
     * shorter while it was read, or another errno. May close the pump. */
    void (*ended)(void *arg, int r);
    void *arg;
};
/* May call `ended` before it returns, as its last action. */
void atoll_file_pump_start(struct atoll_file_pump *p, struct atoll_api_call *call,
                           const struct atoll_file_part *part, void (*ended)(void *arg, int r),
                           void *arg);
/* Closes the file. Safe on a zeroed or closed pump. */
void atoll_file_pump_close(struct atoll_file_pump *p);

/* A Range header: "bytes=from-to", "bytes=from-", "bytes=-last". 1: *part, a whole file, is cut to it;
 * 0: it is to be ignored, as lists of ranges are; -ERANGE: it is not in the file. */
int atoll_file_cut_range(const char *text, struct atoll_file_part *part) ATOLL_MUST_CHECK;

#define ATOLL_FILE_NAME_MAX 255
/* Names the file in the response (RFC 6266 with the encoding of RFC 8187: any byte is possible), and
 * forbids to guess its type. disposition: "attachment" or "inline". */
void atoll_file_name_header(struct atoll_http_request *req, const char *disposition,
                            const char *name);
