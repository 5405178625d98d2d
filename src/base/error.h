#pragma once
#include "base/defs.h"

/*
 * The one way failures travel above sys/: a value on the caller's stack that needs no allocation
 * and can cross fork and sockets. The kind is chosen by meaning, never derived from errno; each
 * facade maps kinds to its own statuses. Texts of every kind but INTERNAL are written for the
 * client: they say what to do and hold no host path.
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
    int retry_ms; /* when to try again, by the word of whoever refused; 0: it said nothing */
    char hint[ATOLL_ERROR_HINT_MAX]; /* what to do about it; "": what its kind says */
    bool another; /* somebody else failed, such as whom the request named, not the provider */
};

/* Fills *err (which may be NULL) and returns -errnum, or -EIO when errnum is 0. */
int atoll_fail(struct atoll_error *err, enum atoll_error_kind kind, int errnum, const char *fmt,
               ...) ATOLL_PRINTF(4, 5);

/* INTERNAL with ": strerror(errnum)" appended; for failed system calls nobody could foresee. */
int atoll_fail_errno(struct atoll_error *err, int errnum, const char *fmt, ...) ATOLL_PRINTF(3, 4);

/* Puts "context: " before the text and returns the same negative errno. */
int atoll_wrap(struct atoll_error *err, const char *fmt, ...) ATOLL_PRINTF(2, 3);

/* What to do about a failure that *err (which may be NULL) holds already. May have several lines. */
void atoll_advise(struct atoll_error *err, const char *fmt, ...) ATOLL_PRINTF(2, 3);

/* "not_found" and the like; "unknown" for a number that is no kind. */
const char *atoll_error_kind_name(enum atoll_error_kind kind);
/* The kind of that name; ATOLL_ERR_NONE for any other text. */
enum atoll_error_kind atoll_error_kind_by_name(const char *name);

/* The kind a filesystem errno means to whoever named the path (ENOENT is NOT_FOUND, and so on). */
enum atoll_error_kind atoll_error_kind_of_path_errno(int errnum);
