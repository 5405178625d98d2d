#include "spawn/own_root.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/switches.h"
#include "sys/mnt.h"
#include "sys/ns.h"

static const struct {
    const char *host_path, *name;
} shown[] = {{"/usr", "usr"}, {"/proc", "proc"}, {"/dev", "dev"}, {".", "state"}, {"/tmp", "tmp"}};

/* The last directory is shown only with the test switch that exposes the host's files. */
static size_t shown_count(void)
{
    return ATOLL_ARRAY_LEN(shown) - (atoll_weakened("host_files") ? 0 : 1);
}

/* The current directory is the state directory; unshare() moved it to the new mount namespace. */
static int fill(int root, struct atoll_error *err)
{
    for (size_t i = 0; i < shown_count(); i++) {
        ATOLL_AUTOCLOSE int tree = atoll_mnt_clone(AT_FDCWD, shown[i].host_path, false);
        int r = tree < 0 ? tree : 0;

        if (r == 0 && mkdirat(root, shown[i].name, 0755) < 0)
            r = -errno;
        if (r == 0)
            r = atoll_mnt_attach(tree, root, shown[i].name);
        if (r < 0)
            return atoll_fail_errno(err, -r, "show %s", shown[i].name);
    }
    if (mkdirat(root, &ATOLL_OWN_BUNDLE[1], 0755) < 0)
        return atoll_fail_errno(err, errno, "create the directory for bundles");
    return 0;
}

static int show_above(struct atoll_spawn_host *host, int root, struct atoll_error *err)
{
    ATOLL_AUTOCLOSE int tree = ATOLL_NO_FD;
    int r;

    if (access("above", F_OK) < 0)
        return 0;
    host->below = true;
    tree = atoll_mnt_clone(AT_FDCWD, "..", false);
    r = tree < 0 ? tree : atoll_mnt_attach(tree, root, "state/above");
    return r < 0 ? atoll_fail_errno(err, -r, "show the directory above") : 0;
}

int atoll_own_root(struct atoll_spawn_host *host, struct atoll_error *err)
{
    const struct atoll_mnt_option options[] = {{"size", "64k"}, {"mode", "0755"}, {0}};
    ATOLL_AUTOCLOSE int root = ATOLL_NO_FD;
    int r;

    /* Private first, so that no mount made here propagates to the host. */
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return atoll_fail_errno(err, errno, "own mount namespace");
    root = atoll_mnt_new("tmpfs", options, ATOLL_MNT_NOSUID | ATOLL_MNT_NODEV);
    /* A mount point that always exists (it has the id locks) and is not part of the new root. */
    r = root < 0 ? root : atoll_mnt_attach(root, AT_FDCWD, "/run/atoll");
    if (r < 0)
        return atoll_fail_errno(err, -r, "own root");
    r = fill(root, err);
    if (r == 0)
        r = atoll_folders_show(&host->folders, root, err);
    if (r == 0)
        r = show_above(host, root, err);
    if (r < 0)
        return r;
    r = atoll_sys_pivot_root(root);
    if (r < 0)
        return atoll_fail_errno(err, -r, "enter own root");
    (void)close(host->state_fd);
    host->state_fd = open(ATOLL_OWN_STATE, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (host->state_fd < 0 || chdir(ATOLL_OWN_STATE) < 0)
        return atoll_fail_errno(err, errno, "enter the state directory");
    return 0;
}
