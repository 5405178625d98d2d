#include "sandbox/seccomp.h"

#include <errno.h>
#include <seccomp.h>
#include <sys/mman.h>
#include "sandbox/seccomp_policy.h"

static uint32_t action_of(int errnum)
{
    if (errnum == 0)
        return SCMP_ACT_ALLOW;
    return SCMP_ACT_ERRNO(errnum == ATOLL_SECCOMP_PRETEND ? 0u : (uint32_t)errnum);
}

static int add_rule(scmp_filter_ctx ctx, const char *name, uint32_t action,
                    const struct scmp_arg_cmp *compare, unsigned count, struct atoll_error *err)
{
    int call = seccomp_syscall_resolve_name(name);
    int r;

    if (call < 0) /* not on this architecture, or newer than libseccomp: the default holds */
        return 0;
    r = seccomp_rule_add_array(ctx, action, call, count, compare);
    return r < 0 ? atoll_fail_errno(err, -r, "seccomp rule for %s", name) : 0;
}

static int add_names(scmp_filter_ctx ctx, const char *const *names, uint32_t action,
                     struct atoll_error *err)
{
    for (; *names; names++) {
        int r = add_rule(ctx, *names, action, NULL, 0, err);
        if (r < 0)
            return r;
    }
    return 0;
}

static int add_arg_rules(scmp_filter_ctx ctx, struct atoll_error *err)
{
    for (const struct atoll_seccomp_arg_rule *rule = atoll_seccomp_arg_rules; rule->name; rule++) {
        struct scmp_arg_cmp compare[2];
        unsigned n = 0;
        int r;

        for (; n < 2 && rule->compare[n].mask; n++)
            compare[n] = SCMP_CMP64(rule->compare[n].arg, SCMP_CMP_MASKED_EQ, rule->compare[n].mask,
                                    rule->compare[n].value);
        r = add_rule(ctx, rule->name, action_of(rule->errnum), compare, n, err);
        if (r < 0)
            return r;
    }
    return 0;
}

static bool is_prefix(const struct atoll_seccomp_except *e, uint32_t mask, uint32_t prefix)
{
    for (size_t i = 0; i < e->count; i++)
        if ((e->values[i] & mask) == prefix)
            return true;
    return false;
}

/* "Every value but these" has no comparison of its own: walk the bits from the top, and where a
 * value leaves the last path to one of them, everything below that branch is covered by one rule. */
static int add_except(scmp_filter_ctx ctx, const struct atoll_seccomp_except *e,
                      struct atoll_error *err)
{
    for (unsigned bit = 32; bit-- > 0;) {
        uint32_t above = bit == 31 ? 0 : ~UINT32_C(0) << (bit + 1);
        uint32_t mask = above | UINT32_C(1) << bit;

        for (size_t i = 0; i < e->count; i++) {
            uint32_t branch = (e->values[i] & mask) ^ UINT32_C(1) << bit;
            struct scmp_arg_cmp compare[2] = {
                SCMP_CMP64(e->arg, SCMP_CMP_MASKED_EQ, mask, branch),
                SCMP_CMP64((unsigned)e->also_arg, SCMP_CMP_MASKED_EQ, 0xffffffffu, e->also_value)};
            int r;
            if (is_prefix(e, mask, branch))
                continue;
            r = add_rule(ctx, e->name, action_of(e->errnum), compare, e->also_arg < 0 ? 1 : 2, err);
            if (r < 0 && err->errnum != EEXIST) /* two values can leave by the same branch */
                return r;
        }
    }
    return 0;
}

static int build(scmp_filter_ctx ctx, struct atoll_error *err)
{
    int r;

    (void)seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ERRNO(ENOSYS));
    (void)seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2); /* binary tree: fewer steps a call */
    r = add_names(ctx, atoll_seccomp_allowed, SCMP_ACT_ALLOW, err);
    if (r == 0)
        r = add_names(ctx, atoll_seccomp_refused, SCMP_ACT_ERRNO(EPERM), err);
    if (r == 0)
        r = add_arg_rules(ctx, err);
    for (const struct atoll_seccomp_except *e = atoll_seccomp_excepts; r == 0 && e->name; e++)
        r = add_except(ctx, e, err);
    return r;
}

/* libseccomp writes programs to descriptors only. */
static int export(scmp_filter_ctx ctx, struct atoll_buf *out, struct atoll_error *err)
{
    ATOLL_AUTOCLOSE int fd = memfd_create("seccomp", MFD_CLOEXEC);
    off_t size;
    uint8_t *tail;
    int r;

    if (fd < 0)
        return atoll_fail_errno(err, errno, "memfd");
    r = seccomp_export_bpf(ctx, fd);
    if (r < 0)
        return atoll_fail_errno(err, -r, "seccomp_export_bpf");
    size = lseek(fd, 0, SEEK_END);
    r = atoll_buf_reserve(out, (size_t)size, &tail);
    if (r < 0)
        return atoll_fail_errno(err, -r, "filter");
    if (pread(fd, tail, (size_t)size, 0) != size)
        return atoll_fail_errno(err, EIO, "read filter");
    atoll_buf_commit(out, (size_t)size);
    return 0;
}

int atoll_seccomp_build(struct atoll_buf *out, struct atoll_error *err)
{
    scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ERRNO(ENOSYS));
    int r;

    if (!ctx)
        return atoll_fail_errno(err, ENOMEM, "seccomp");
    r = build(ctx, err);
    if (r == 0)
        r = export(ctx, out, err);
    seccomp_release(ctx);
    return r;
}
