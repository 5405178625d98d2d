#include "sandbox/self.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include "base/buf.h"
#include "base/switches.h"
#include "sandbox/seccomp.h"
#include "sys/caps.h"
#include "sys/landlock.h"

#define FILES_WANTED \
    262144 /* below the default fs.nr_open; about one per sandbox, command and connection */
#define FILTER_MAX (BPF_MAXINSNS * sizeof(struct sock_filter))

void atoll_self_raise_files(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return;
    /* Root can raise the hard limit; the programs it starts inherit that. */
    if (limit.rlim_max < FILES_WANTED) {
        struct rlimit more = {FILES_WANTED, FILES_WANTED};

        if (setrlimit(RLIMIT_NOFILE, &more) == 0)
            return;
    }
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
}

/* LeakSanitizer uses ptrace, and valgrind does not know seccomp(2): such builds run without the
 * filter. */
static bool is_filtered(void)
{
    return !ATOLL_IS_SANITIZED && !atoll_weakened("own_filter");
}

/* The process needs no system call beyond those that sandboxes have, so it gets the same filter.
 * TSYNC applies it to all threads; new threads and programs inherit it. */
static int filter_calls(struct atoll_error *err)
{
    struct atoll_buf program;
    struct sock_fprog fprog;
    int r;

    atoll_buf_init(&program, FILTER_MAX);
    r = atoll_seccomp_build(&program, err);
    fprog = (struct sock_fprog){.len = (unsigned short)(program.len / sizeof(struct sock_filter)),
                                .filter = (struct sock_filter *)(void *)program.data};
    if (r == 0 && is_filtered() &&
        syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &fprog) != 0)
        r = atoll_fail_errno(err, errno, "installing the seccomp filter");
    atoll_buf_done(&program);
    return r;
}

/* No core dumps, which would contain secrets. A limit of 1 means none at all; 0 is ignored where the
 * kernel pipes them to a program (fs/coredump.c). PR_SET_DUMPABLE does the same, but it hides the daemon
 * from its own user's `atoll up` and `atoll verify`: it is for users who may not raise their limit of 0. */
static int forbid_core_dumps(void)
{
    const struct rlimit one = {1, 1};

    if (setrlimit(RLIMIT_CORE, &one) == 0)
        return 0;
    return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 ? -errno : 0;
}

int atoll_self_confine(struct atoll_error *err)
{
    int r = forbid_core_dumps();

    if (r == 0 && geteuid() == 0)
        r = atoll_caps_bound(0);
    if (r == 0)
        r = atoll_caps_set(0, 0, 0);
    if (r == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        r = -errno;
    if (r == 0)
        r = atoll_landlock_enter();
    return r < 0 ? atoll_fail_errno(err, -r, "dropping privileges") : filter_calls(err);
}
