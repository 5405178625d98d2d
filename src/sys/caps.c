#include "sys/caps.h"

#include <errno.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

uint64_t atoll_caps_of_sandbox_root(void)
{
    return ATOLL_CAP_BIT(CAP_CHOWN) | ATOLL_CAP_BIT(CAP_DAC_OVERRIDE) | ATOLL_CAP_BIT(CAP_FOWNER) |
           ATOLL_CAP_BIT(CAP_FSETID) | ATOLL_CAP_BIT(CAP_SETUID) | ATOLL_CAP_BIT(CAP_SETGID) |
           ATOLL_CAP_BIT(CAP_KILL);
}

uint64_t atoll_caps_of_agent(void)
{
    return atoll_caps_of_sandbox_root() | ATOLL_CAP_BIT(CAP_SETPCAP);
}

int atoll_caps_set(uint64_t effective, uint64_t permitted, uint64_t inheritable)
{
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2] = {
        {(uint32_t)effective, (uint32_t)permitted, (uint32_t)inheritable},
        {(uint32_t)(effective >> 32), (uint32_t)(permitted >> 32), (uint32_t)(inheritable >> 32)},
    };
    return syscall(SYS_capset, &header, data) < 0 ? -errno : 0;
}

int atoll_caps_raise(void)
{
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2] = {0};

    if (syscall(SYS_capget, &header, data) < 0)
        return -errno;
    data[0].effective = data[0].permitted;
    data[1].effective = data[1].permitted;
    return syscall(SYS_capset, &header, data) < 0 ? -errno : 0;
}

int atoll_caps_bound(uint64_t keep)
{
    /* EINVAL: the kernel has no ambient set (gVisor). */
    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0 && errno != EINVAL)
        return -errno;
    for (unsigned cap = 0; cap < 64; cap++) {
        int set;
        if (keep & ATOLL_CAP_BIT(cap))
            continue;
        set = prctl(PR_CAPBSET_READ, cap, 0, 0, 0);
        if (set < 0)
            break; /* past the kernel's last capability */
        if (set > 0 && prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0)
            return -errno;
    }
    return 0;
}

int atoll_caps_keep(uint64_t keep)
{
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2] = {0};
    uint64_t permitted;
    int r = atoll_caps_bound(keep);

    if (r < 0)
        return r;
    if (syscall(SYS_capget, &header, data) < 0)
        return -errno;
    permitted = (data[0].permitted | (uint64_t)data[1].permitted << 32) & keep;
    return atoll_caps_set(permitted, permitted, 0);
}
