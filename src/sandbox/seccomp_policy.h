#pragma once
#include <stddef.h>
#include <stdint.h>

/* The policy as tables; seccomp.c turns them into a program. A call that is in none of them, or of
 * another ABI, is ENOSYS. */

extern const char *const atoll_seccomp_allowed[]; /* NULL at the end */
extern const char *const atoll_seccomp_refused[]; /* EPERM; NULL at the end */

#define ATOLL_SECCOMP_PRETEND (-1) /* answer 0 without doing it */

/* When (argument & mask) == value for each comparison with a mask: allow (errnum 0) or fail. A row
 * without comparisons always matches. Arguments are compared on their low 32 bits: every argument
 * named here is an int (or its upper half means nothing), and that is what the kernel looks at. */
struct atoll_seccomp_row {
    const char *name; /* NULL at the end */
    int errnum;
    struct {
        unsigned arg;
        uint32_t mask, value;
    } when[2];
};
extern const struct atoll_seccomp_row atoll_seccomp_rows[];
