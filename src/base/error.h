#pragma once
#include "base/defs.h"

/*
 * The error type of all code above sys/: a value on the caller's stack that needs no allocation and can
 * be passed through fork and sockets. The kind is chosen by meaning, not derived from errno; each facade
 * maps kinds to its own statuses. Texts of all kinds except INTERNAL are written for the client: they
 * say what to do and contain no path of the host.
 */

/* The Connect/gRPC codes, by meaning and number. */
enum atoll_error_kind {
    ATOLL_ERR_NONE = 0,
    ATOLL_ERR_CANCELED = 1,
    ATOLL_ERR_UNKNOWN = 2,
    ATOLL_ERR_INVALID_ARGUMENT = 3,
    ATOLL_ERR_DEADLINE_EXCEEDED = 4,
    ATOLL_ERR_NOT_FOUND = 5,
    ATOLL_ERR_ALREADY_EXISTS = 6,
    ATOLL_ERR_PERMISSION_DENIED = 7,
    ATOLL_ERR_RESOURCE_EXHAUSTED = 8,
    ATOLL_ERR_FAILED_PRECONDITION = 9,
    ATOLL_ERR_ABORTED = 10,
    ATOLL_ERR_OUT_OF_RANGE = 11,
    ATOLL_ERR_UNIMPLEMENTED = 12,
    ATOLL_ERR_INTERNAL = 13,
    ATOLL_ERR_UNAVAILABLE = 14,
    ATOLL_ERR_DATA_LOSS = 15,
    ATOLL_ERR_UNAUTHENTICATED = 16,
};

#define ATOLL_ERROR_TEXT_MAX 400
#define ATOLL_ERROR_HINT_MAX 480

struct atoll_error {
    enum atoll_error_kind kind;
    int errnum; /* the errno behind it, 0 if none */
    char text[ATOLL_ERROR_TEXT_MAX];
    int retry_ms;                    /* Retry-After of the party that refused; 0: it gave none */
    char hint[ATOLL_ERROR_HINT_MAX]; /* remedy; "": the default hint of the kind */
    bool another; /* not the provider's failure (but a registry's, say): its health is unaffected */
};

/* Fills *err (which may be NULL) and returns -errnum, or -EIO when errnum is 0. */
int atoll_fail(struct atoll_error *err, enum atoll_error_kind kind, int errnum, const char *fmt,
               ...) ATOLL_PRINTF(4, 5);

/* INTERNAL, with ": strerror(errnum)" appended; for unexpected failures of system calls. */
int atoll_fail_errno(struct atoll_error *err, int errnum, const char *fmt, ...) ATOLL_PRINTF(3, 4);

/* Puts "context: " before the text and returns the same negative errno. */
int atoll_wrap(struct atoll_error *err, const char *fmt, ...) ATOLL_PRINTF(2, 3);

/* Sets the hint of *err (which may be NULL), which is already filled. May have several lines. */
void atoll_advise(struct atoll_error *err, const char *fmt, ...) ATOLL_PRINTF(2, 3);

/* "not_found" and the like; "unknown" for an invalid number. */
const char *atoll_error_kind_name(enum atoll_error_kind kind);
/* The kind of that name; ATOLL_ERR_NONE for any other text. */
enum atoll_error_kind atoll_error_kind_by_name(const char *name);

/* Whether a disk is full: by its size, or by the quota of its owner. */
bool atoll_errno_is_full(int errnum);
/* The kind of a file system errno, for errors about a path that the client named (ENOENT is NOT_FOUND). */
enum atoll_error_kind atoll_error_kind_of_path_errno(int errnum);
