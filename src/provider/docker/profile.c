#include "provider/docker/profile.h"

#include <errno.h>
#include <seccomp.h>
#include <string.h>
#include "sandbox/seccomp_policy.h"

#define CALLS_MAX 1024
#define ARGS 6

#if defined(__x86_64__)
#define ARCH "SCMP_ARCH_X86_64"
#elif defined(__aarch64__)
#define ARCH "SCMP_ARCH_AARCH64"
#else
#error "the profile is not written for this architecture"
#endif

/* The argument bits that are fixed so far. */
struct cell {
    uint32_t known[ARGS], value[ARGS];
};

static json_t *rule(json_t *names, int errnum)
{
    if (errnum == 0)
        return json_pack("{s:o, s:s}", "names", names, "action", "SCMP_ACT_ALLOW");
    return json_pack("{s:o, s:s, s:i}", "names", names, "action", "SCMP_ACT_ERRNO", "errnoRet",
                     errnum == ATOLL_SECCOMP_PRETEND ? 0 : errnum);
}

static int add_cell(json_t *rules, const char *name, int errnum, const struct cell *cell)
{
    json_t *args = json_array();
    json_t *one = rule(json_pack("[s]", name), errnum);
    int r = 0;

    for (int i = 0; i < ARGS; i++)
        if (cell->known[i] != 0)
            r |= json_array_append_new(args, json_pack("{s:i, s:I, s:I, s:s}", "index", i, "value",
                                                       (json_int_t)cell->known[i], "valueTwo",
                                                       (json_int_t)cell->value[i], "op",
                                                       "SCMP_CMP_MASKED_EQ"));
    r |= json_object_set_new(one, "args", args);
    return r | json_array_append_new(rules, one);
}

/* The result of a row's comparison for the cell: 0 no match, 1 match, -1 undecided. */
static int compare(const struct atoll_seccomp_row *row, size_t i, const struct cell *cell)
{
    unsigned arg = row->when[i].arg;
    uint32_t seen = row->when[i].mask & cell->known[arg];

    if ((cell->value[arg] & seen) != (row->when[i].value & seen))
        return 0;
    return seen == row->when[i].mask ? 1 : -1;
}

/* Splits the cell until one row decides each part; the depth is at most the number of argument
 * bits. */
static int add_rows(json_t *rules, const struct atoll_seccomp_row *row, struct cell cell)
{
    const char *name = row->name;

    for (; row->name && strcmp(row->name, name) == 0; row++) {
        int first = compare(row, 0, &cell), second = compare(row, 1, &cell);
        size_t i = first < 0 ? 0 : 1;
        unsigned arg = row->when[i].arg;
        uint32_t bit;
        int r;
        if (first == 0 || second == 0)
            continue;
        if (first == 1 && second == 1)
            return add_cell(rules, name, row->errnum, &cell);
        bit = 1u << (31 - __builtin_clz(row->when[i].mask & ~cell.known[arg]));
        cell.known[arg] |= bit;
        r = add_rows(rules, row, cell);
        cell.value[arg] |= bit;
        return r | add_rows(rules, row, cell);
    }
    /* Not reached: the last row of every call matches always. */
    return add_cell(rules, name, ENOSYS, &cell);
}

static int add_names(json_t *rules, const char *const *names, int errnum, bool *listed)
{
    json_t *array = json_array();
    int r = 0;

    for (; *names; names++) {
        int call = seccomp_syscall_resolve_name(*names);
        if (call >= 0 && call < CALLS_MAX)
            listed[call] = true;
        r |= json_array_append_new(array, json_string(*names));
    }
    return r | json_array_append_new(rules, rule(array, errnum));
}

/* Adds all other known calls by name: engines before 23.0 return EPERM for calls without a rule. */
static int add_rest(json_t *rules, const bool *listed)
{
    json_t *array = json_array();
    int r = 0;

    for (int call = 0; call < CALLS_MAX; call++) {
        char *name = listed[call] ? NULL : seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, call);
        if (name)
            r |= json_array_append_new(array, json_string(name));
        free(name);
    }
    return r | json_array_append_new(rules, rule(array, ENOSYS));
}

json_t *atoll_docker_profile(void)
{
    bool listed[CALLS_MAX] = {false};
    json_t *rules = json_array();
    json_t *profile =
        json_pack("{s:s, s:i, s:[s], s:o}", "defaultAction", "SCMP_ACT_ERRNO", "defaultErrnoRet",
                  ENOSYS, "architectures", ARCH, "syscalls", rules);
    const char *last = "";
    int r = profile ? 0 : -1;

    r |= add_names(rules, atoll_seccomp_allowed, 0, listed);
    r |= add_names(rules, atoll_seccomp_refused, EPERM, listed);
    for (const struct atoll_seccomp_row *row = atoll_seccomp_rows; row->name; row++) {
        int call = seccomp_syscall_resolve_name(row->name);
        if (call >= 0 && call < CALLS_MAX)
            listed[call] = true;
        if (strcmp(row->name, last) != 0)
            r |= add_rows(rules, row, (struct cell){0});
        last = row->name;
    }
    r |= add_rest(rules, listed);
    if (r != 0) {
        json_decref(profile);
        return NULL;
    }
    return profile;
}
