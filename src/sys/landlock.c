#include "sys/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "base/fd.h"

/* Newer than the headers of Debian 12. */
#define TRUNCATE (UINT64_C(1) << 14)

#define RENAMES_ABI 2
#define TRUNCATE_ABI 3

#define CHANGES                                                                                    \
    (LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR |                               \
     LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_DIR | \
     LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO |   \
     LANDLOCK_ACCESS_FS_MAKE_BLOCK | LANDLOCK_ACCESS_FS_MAKE_SYM | LANDLOCK_ACCESS_FS_REFER)

static int prepared = ATOLL_NO_FD;

static int allow(int rules, const char *path, uint64_t changes)
{
    ATOLL_AUTOCLOSE int fd = open(path, O_PATH | O_CLOEXEC);
    struct landlock_path_beneath_attr rule = {.allowed_access = changes, .parent_fd = fd};

    if (fd < 0 || syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) < 0)
        return -errno;
    return 0;
}

int atoll_landlock_prepare(const char *directory)
{
    long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    uint64_t truncate = abi >= TRUNCATE_ABI ? TRUNCATE : 0;
    struct landlock_ruleset_attr attr = {.handled_access_fs = CHANGES | truncate};
    ATOLL_AUTOCLOSE int rules = ATOLL_NO_FD;
    int r;

    if (abi < RENAMES_ABI)
        return 0;
    rules = (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof(attr), 0);
    r = rules < 0 ? -errno : allow(rules, directory, attr.handled_access_fs);
    if (r == 0)
        r = allow(rules, "/dev/null", LANDLOCK_ACCESS_FS_WRITE_FILE | truncate);
    if (r == 0)
        prepared = ATOLL_TAKE_FD(rules);
    return r;
}

int atoll_landlock_enter(void)
{
    if (prepared < 0)
        return 0;
    return syscall(SYS_landlock_restrict_self, prepared, 0) < 0 ? -errno : 0;
}
