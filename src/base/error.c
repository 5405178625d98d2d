#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static int code_of(int errnum)
{
    return errnum > 0 ? -errnum : -EIO;
}

static ATOLL_PRINTF(4, 0) void fill(struct atoll_error *err, enum atoll_error_kind kind, int errnum,
                                    const char *fmt, va_list ap)
{
    err->kind = kind;
    err->errnum = errnum;
    err->retry_ms = 0;
    err->another = false;
    err->hint[0] = '\0';
    (void)vsnprintf(err->text, sizeof(err->text), fmt, ap);
}

int atoll_fail(struct atoll_error *err, enum atoll_error_kind kind, int errnum, const char *fmt,
               ...)
{
    if (err) {
        va_list ap;
        va_start(ap, fmt);
        fill(err, kind, errnum, fmt, ap);
        va_end(ap);
    }
    return code_of(errnum);
}

int atoll_fail_errno(struct atoll_error *err, int errnum, const char *fmt, ...)
{
    if (err) {
        va_list ap;
        size_t len;
        va_start(ap, fmt);
        fill(err, ATOLL_ERR_INTERNAL, errnum, fmt, ap);
        va_end(ap);
        len = strlen(err->text);
        (void)snprintf(err->text + len, sizeof(err->text) - len, ": %s", strerror(errnum));
    }
    return code_of(errnum);
}

int atoll_wrap(struct atoll_error *err, const char *fmt, ...)
{
    char context[ATOLL_ERROR_TEXT_MAX];
    char whole[2 * ATOLL_ERROR_TEXT_MAX + 2];
    va_list ap;

    if (!err)
        return -EIO;
    va_start(ap, fmt);
    (void)vsnprintf(context, sizeof(context), fmt, ap);
    va_end(ap);
    (void)snprintf(whole, sizeof(whole), "%s: %s", context, err->text);
    whole[sizeof(err->text) - 1] = '\0';
    memcpy(err->text, whole, strlen(whole) + 1);
    return code_of(err->errnum);
}

void atoll_advise(struct atoll_error *err, const char *fmt, ...)
{
    va_list ap;

    if (!err)
        return;
    va_start(ap, fmt);
    (void)vsnprintf(err->hint, sizeof(err->hint), fmt, ap);
    va_end(ap);
}

const char *atoll_error_kind_name(enum atoll_error_kind kind)
{
    static const char *const names[] = {
        [ATOLL_ERR_NONE] = "none",
        [ATOLL_ERR_CANCELED] = "canceled",
        [ATOLL_ERR_UNKNOWN] = "unknown",
        [ATOLL_ERR_INVALID_ARGUMENT] = "invalid_argument",
        [ATOLL_ERR_DEADLINE_EXCEEDED] = "deadline_exceeded",
        [ATOLL_ERR_NOT_FOUND] = "not_found",
        [ATOLL_ERR_ALREADY_EXISTS] = "already_exists",
        [ATOLL_ERR_PERMISSION_DENIED] = "permission_denied",
        [ATOLL_ERR_RESOURCE_EXHAUSTED] = "resource_exhausted",
        [ATOLL_ERR_FAILED_PRECONDITION] = "failed_precondition",
        [ATOLL_ERR_ABORTED] = "aborted",
        [ATOLL_ERR_OUT_OF_RANGE] = "out_of_range",
        [ATOLL_ERR_UNIMPLEMENTED] = "unimplemented",
        [ATOLL_ERR_INTERNAL] = "internal",
        [ATOLL_ERR_UNAVAILABLE] = "unavailable",
        [ATOLL_ERR_DATA_LOSS] = "data_loss",
        [ATOLL_ERR_UNAUTHENTICATED] = "unauthenticated",
    };
    if ((size_t)kind >= ATOLL_ARRAY_LEN(names))
        return "unknown";
    return names[kind];
}

enum atoll_error_kind atoll_error_kind_by_name(const char *name)
{
    for (int kind = ATOLL_ERR_CANCELED; kind <= ATOLL_ERR_UNAUTHENTICATED; kind++)
        if (strcmp(name, atoll_error_kind_name((enum atoll_error_kind)kind)) == 0)
            return (enum atoll_error_kind)kind;
    return ATOLL_ERR_NONE;
}

bool atoll_errno_is_full(int errnum)
{
    return errnum == ENOSPC || errnum == EDQUOT;
}

enum atoll_error_kind atoll_error_kind_of_path_errno(int errnum)
{
    switch (errnum) {
    case ENOENT:
        return ATOLL_ERR_NOT_FOUND;
    case EEXIST:
        return ATOLL_ERR_ALREADY_EXISTS;
    case EACCES:
    case EPERM:
    case EROFS:
        return ATOLL_ERR_PERMISSION_DENIED;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case EMFILE:
    case ENFILE:
        return ATOLL_ERR_RESOURCE_EXHAUSTED;
    case ENOTDIR:
    case EISDIR:
    case EINVAL:
    case ELOOP:
    case ENAMETOOLONG:
        return ATOLL_ERR_INVALID_ARGUMENT;
    case ENOTEMPTY:
    case EBUSY:
        return ATOLL_ERR_FAILED_PRECONDITION;
    default:
        return ATOLL_ERR_INTERNAL;
    }
}
