#pragma once
#include <stddef.h>
#include <stdint.h>

/* The policy as tables; seccomp.c compiles them to a program. A call in none of the tables, or of
 * another ABI, fails with ENOSYS. */

extern const char *const atoll_seccomp_allowed[]; /* NULL at the end */
extern const char *const atoll_seccomp_refused[]; /* EPERM; NULL at the end */

#define ATOLL_SECCOMP_PRETEND (-1) /* return 0 without executing the call */

/* Matches if (argument & mask) == value for each comparison with a mask; a row without comparisons
 * always matches. Then the call is allowed (errnum 0) or fails with errnum. Only the low 32 bits of
 * arguments are compared: every argument used here is an int or has a meaningless upper half, which
 * the kernel ignores, too. */
struct atoll_seccomp_row {
    const char *name; /* NULL at the end */
    int errnum;
    struct {
        unsigned arg;
        uint32_t mask, value;
    } when[2];
};
extern const struct atoll_seccomp_row atoll_seccomp_rows[];
