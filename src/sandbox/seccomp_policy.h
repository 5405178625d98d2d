#pragma once
#include <stdint.h>
#include <stddef.h>

/* The policy as tables; seccomp.c turns them into a program. */

extern const char *const atoll_seccomp_allowed[]; /* NULL at the end */
extern const char *const atoll_seccomp_refused[]; /* EPERM; NULL at the end */

#define ATOLL_SECCOMP_PRETEND (-1) /* answer 0 without doing it */

/* When (argument & mask) == value for every comparison with a mask: allow (errnum 0) or fail. */
struct atoll_seccomp_arg_rule {
    const char *name; /* NULL at the end */
    int errnum;
    struct {
        unsigned arg;
        uint32_t mask, value;
    } compare[2];
};
extern const struct atoll_seccomp_arg_rule atoll_seccomp_arg_rules[];

/* For every value of argument `arg` that is not one of `values`: allow (errnum 0) or fail; with
 * also_arg >= 0 only where that argument is also_value. */
struct atoll_seccomp_except {
    const char *name; /* NULL at the end */
    unsigned arg;
    int errnum;
    uint32_t values[5];
    size_t count;
    int also_arg;
    uint32_t also_value;
};
extern const struct atoll_seccomp_except atoll_seccomp_excepts[];
