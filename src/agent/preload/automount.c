/*
 * Preloaded into every program of a sandbox that runs under gVisor. gVisor releases such as Debian
 * 12's refuse AT_NO_AUTOMOUNT, which ls, stat, cp and mv of current coreutils always pass. The flag
 * has no effect without automounts, so it is removed here; otherwise the system call is unchanged.
 * Uses only errno of the C library, so that it works with any.
 */
#include <fcntl.h>
#include <sys/syscall.h>

#ifndef AT_NO_AUTOMOUNT
#define AT_NO_AUTOMOUNT 0x800
#endif

extern int *__errno_location(void);
int statx(int dir, const char *path, int flags, unsigned mask, void *out);
int fstatat(int dir, const char *path, void *out, int flags);
int fstatat64(int dir, const char *path, void *out, int flags);

#if defined(__x86_64__)
static long call(long number, long a, long b, long c, long d, long e)
{
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    long r;

    __asm__ volatile("syscall"
                     : "=a"(r)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8)
                     : "rcx", "r11", "memory");
    return r;
}
#elif defined(__aarch64__)
static long call(long number, long a, long b, long c, long d, long e)
{
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;

    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4) : "memory");
    return x0;
}
#else
#error "gVisor runs on x86-64 and arm64"
#endif

static int result(long r)
{
    if (r >= 0)
        return 0;
    *__errno_location() = (int)-r;
    return -1;
}

int statx(int dir, const char *path, int flags, unsigned mask, void *out)
{
    return result(call(SYS_statx, dir, (long)path, flags & ~AT_NO_AUTOMOUNT, mask, (long)out));
}

int fstatat(int dir, const char *path, void *out, int flags)
{
    return result(call(SYS_newfstatat, dir, (long)path, (long)out, flags & ~AT_NO_AUTOMOUNT, 0));
}

int fstatat64(int dir, const char *path, void *out, int flags)
{
    return fstatat(dir, path, out, flags);
}
