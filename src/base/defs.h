#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

/*
 * Compiler attributes and ownership helpers used everywhere.
 * A variable marked ATOLL_AUTO* releases itself at the end of its scope; ATOLL_TAKE_* moves the
 * value out so that the scope no longer owns it.
 */

#define ATOLL_MUST_CHECK __attribute__((warn_unused_result))
#define ATOLL_PRINTF(fmt, first) __attribute__((format(printf, fmt, first)))
#define ATOLL_CLEANUP(fn) __attribute__((cleanup(fn)))
#define ATOLL_UNUSED __attribute__((unused))

/* Whether this is an AddressSanitizer build, whose leak checker uses ptrace. */
#ifdef ATOLL_SANITIZED
#define ATOLL_IS_SANITIZED true
#else
#define ATOLL_IS_SANITIZED false
#endif

#define ATOLL_ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define ATOLL_MIN(a, b) ((a) < (b) ? (a) : (b))
#define ATOLL_MAX(a, b) ((a) > (b) ? (a) : (b))

/* The struct of type `type` whose member `member` lives at `ptr`. */
#define ATOLL_CONTAINER_OF(ptr, type, member) \
    ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

#define ATOLL_STRINGIFY_(x) #x
#define ATOLL_STRINGIFY(x) ATOLL_STRINGIFY_(x)

/* Marks a descriptor variable that owns nothing. Not -1, so that a close() of it stands out in traces. */
#define ATOLL_NO_FD (-9) /* -EBADF */

static inline void atoll_auto_free(void *ptr_to_ptr)
{
    free(*(void **)ptr_to_ptr);
}

static inline void atoll_auto_close(const int *fd)
{
    /* EINTR is not retried: on Linux the descriptor is closed even then. */
    if (*fd >= 0)
        (void)close(*fd);
}

#define ATOLL_AUTOFREE ATOLL_CLEANUP(atoll_auto_free)
#define ATOLL_AUTOCLOSE ATOLL_CLEANUP(atoll_auto_close)

#define ATOLL_TAKE_PTR(p)           \
    __extension__({                 \
        __typeof__(p) taken_ = (p); \
        (p) = NULL;                 \
        taken_;                     \
    })

#define ATOLL_TAKE_FD(fd)   \
    __extension__({         \
        int taken_ = (fd);  \
        (fd) = ATOLL_NO_FD; \
        taken_;             \
    })
