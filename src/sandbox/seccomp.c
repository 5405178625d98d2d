#include "sandbox/seccomp.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <string.h>
#include "sandbox/seccomp_policy.h"

/*
 * libseccomp resolves call numbers; the BPF program is generated here: a binary search over ranges
 * of call numbers with the same action, then the rows of the call. It has a quarter of the size of
 * libseccomp's program for this policy and loads in a quarter of the time (docs/adr/0006).
 */

#define CALLS_MAX 1024 /* call numbers from here on are unknown calls */

/* What the filter does with a call: a constant answer, or the rows that begin at `row`. */
struct action {
    uint32_t answer; /* SECCOMP_RET_* */
    const struct atoll_seccomp_row *row;
};

struct range {
    uint32_t first; /* call number; the range ends where the next one begins */
    struct action action;
};

#if defined(__x86_64__)
#define NATIVE_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define NATIVE_ARCH AUDIT_ARCH_AARCH64
#else
#error "the filter is not written for this architecture"
#endif

static uint32_t answer_of(int errnum)
{
    if (errnum == 0)
        return SECCOMP_RET_ALLOW;
    return SECCOMP_RET_ERRNO | (errnum == ATOLL_SECCOMP_PRETEND ? 0 : (uint32_t)errnum);
}

static int emit(struct atoll_buf *out, uint16_t code, uint32_t k, size_t jt, size_t jf)
{
    struct sock_filter f = {code, (uint8_t)jt, (uint8_t)jf, k};

    if (jt > UINT8_MAX || jf > UINT8_MAX)
        return -EOVERFLOW;
    return atoll_buf_append(out, &f, sizeof(f));
}

static int emit_load(struct atoll_buf *out, size_t offset)
{
    return emit(out, BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset, 0, 0);
}

static size_t compare_size(const struct atoll_seccomp_row *row, size_t i)
{
    return row->when[i].mask == 0 ? 0 : row->when[i].mask == UINT32_MAX ? 2 : 3;
}

static size_t row_size(const struct atoll_seccomp_row *row)
{
    return compare_size(row, 0) + compare_size(row, 1) + 1;
}

/* One comparison; if it is false, jumps over `skip` instructions. Little-endian: the low half of an
 * argument comes first. */
static int emit_compare(struct atoll_buf *out, const struct atoll_seccomp_row *row, size_t i,
                        size_t skip)
{
    uint32_t mask = row->when[i].mask;
    int r;

    if (mask == 0)
        return 0;
    r = emit_load(out, offsetof(struct seccomp_data, args) + 8 * row->when[i].arg);
    if (r == 0 && mask != UINT32_MAX)
        r = emit(out, BPF_ALU | BPF_AND | BPF_K, mask, 0, 0);
    return r < 0 ? r : emit(out, BPF_JMP | BPF_JEQ | BPF_K, row->when[i].value, 0, skip);
}

static int emit_row(struct atoll_buf *out, const struct atoll_seccomp_row *row)
{
    int r = emit_compare(out, row, 0, compare_size(row, 1) + 1);

    if (r == 0)
        r = emit_compare(out, row, 1, 1);
    return r < 0 ? r : emit(out, BPF_RET | BPF_K, answer_of(row->errnum), 0, 0);
}

static bool same_call(const struct atoll_seccomp_row *a, const struct atoll_seccomp_row *b)
{
    return a->name && b->name && strcmp(a->name, b->name) == 0;
}

static size_t action_size(const struct action *action)
{
    size_t n = 0;

    if (!action->row)
        return 1;
    for (const struct atoll_seccomp_row *row = action->row; same_call(row, action->row); row++)
        n += row_size(row);
    return n;
}

static int emit_action(struct atoll_buf *out, const struct action *action)
{
    int r = 0;

    if (!action->row)
        return emit(out, BPF_RET | BPF_K, action->answer, 0, 0);
    for (const struct atoll_seccomp_row *row = action->row; r == 0 && same_call(row, action->row);
         row++)
        r = emit_row(out, row);
    return r;
}

static size_t tree_size(const struct range *ranges, size_t n)
{
    size_t size = n - 1;

    for (size_t i = 0; i < n; i++)
        size += action_size(&ranges[i].action);
    return size;
}

/* The binary search. The accumulator holds the call number. */
static int emit_tree(struct atoll_buf *out, const struct range *ranges, size_t n)
{
    size_t left = n / 2;
    int r;

    if (n == 1)
        return emit_action(out, &ranges[0].action);
    r = emit(out, BPF_JMP | BPF_JGE | BPF_K, ranges[left].first, tree_size(ranges, left), 0);
    if (r == 0)
        r = emit_tree(out, ranges, left);
    return r < 0 ? r : emit_tree(out, ranges + left, n - left);
}

static void mark(struct action *actions, const char *name, struct action action)
{
    int call = seccomp_syscall_resolve_name(name);

    if (call >= 0 && call < CALLS_MAX) /* else: not on this architecture or unknown */
        actions[call] = action;
}

static void decide(struct action *actions)
{
    const struct atoll_seccomp_row *last = NULL;

    for (size_t i = 0; i < CALLS_MAX; i++)
        actions[i] = (struct action){.answer = answer_of(ENOSYS)};
    for (const char *const *name = atoll_seccomp_allowed; *name; name++)
        mark(actions, *name, (struct action){.answer = SECCOMP_RET_ALLOW});
    for (const char *const *name = atoll_seccomp_refused; *name; name++)
        mark(actions, *name, (struct action){.answer = answer_of(EPERM)});
    for (const struct atoll_seccomp_row *row = atoll_seccomp_rows; row->name; last = row++)
        if (!last || !same_call(last, row))
            mark(actions, row->name, (struct action){.row = row});
}

static size_t gather(const struct action *actions, struct range *ranges)
{
    size_t n = 0;

    for (uint32_t call = 0; call < CALLS_MAX; call++)
        if (n == 0 || actions[call].answer != ranges[n - 1].action.answer ||
            actions[call].row != ranges[n - 1].action.row)
            ranges[n++] = (struct range){call, actions[call]};
    return n;
}

int atoll_seccomp_build(struct atoll_buf *out, struct atoll_error *err)
{
    ATOLL_AUTOFREE struct action *actions = calloc(CALLS_MAX, sizeof(*actions));
    ATOLL_AUTOFREE struct range *ranges = calloc(CALLS_MAX, sizeof(*ranges));
    int r;

    if (!actions || !ranges)
        return atoll_fail_errno(err, ENOMEM, "filter");
    decide(actions);
    /* Only the native ABI: int 0x80 and x32 (numbers from 0x40000000, beyond the last range) get
     * ENOSYS. */
    r = emit_load(out, offsetof(struct seccomp_data, arch));
    if (r == 0)
        r = emit(out, BPF_JMP | BPF_JEQ | BPF_K, NATIVE_ARCH, 1, 0);
    if (r == 0)
        r = emit(out, BPF_RET | BPF_K, answer_of(ENOSYS), 0, 0);
    if (r == 0)
        r = emit_load(out, offsetof(struct seccomp_data, nr));
    if (r == 0)
        r = emit_tree(out, ranges, gather(actions, ranges));
    return r < 0 ? atoll_fail_errno(err, -r, "write filter") : 0;
}
