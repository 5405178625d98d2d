/* Rows 28-31: device nodes and terminals. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tools/verify/probe/probe.h"

#define HIGH_BITS 0xdeadbeef00000000UL

static bool expected_in_dev(const char *name)
{
    static const char *const names[] = {".",      "..",      "null",  "zero",   "full",
                                        "random", "urandom", "tty",   "ptmx",   "pts",
                                        "shm",    "fd",      "stdin", "stdout", "stderr"};

    for (size_t i = 0; i < PROBE_COUNT(names); i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

static void dev_minimal(void)
{
    DIR *dir = opendir("/dev");
    struct dirent *entry;

    if (dir == NULL)
        probe_skip("/dev: %s", strerror(errno));
    while ((entry = readdir(dir)) != NULL)
        if (!expected_in_dev(entry->d_name))
            probe_found("%s", entry->d_name);
    probe_conclude("only the usual harmless nodes");
}

/* Watchdogs are not in the list: opening one arms it. */
static void dev_open(void)
{
    static const char *const nodes[] = {
        "/dev/mem",         "/dev/kmem",        "/dev/port",      "/dev/kvm",  "/dev/fuse",
        "/dev/net/tun",     "/dev/vsock",       "/dev/vhost-net", "/dev/kmsg", "/dev/userfaultfd",
        "/dev/vhost-vsock", "/dev/loop0",       "/dev/vda",       "/dev/sda",  "/dev/nvme0n1",
        "/dev/zram0",       "/dev/loop-control"};

    for (size_t i = 0; i < PROBE_COUNT(nodes); i++) {
        int fd = open(nodes[i], O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);

        if (fd < 0)
            continue;
        probe_found("%s", nodes[i]);
        close(fd);
    }
    probe_conclude("none opens");
}

/* The session id is 0 if the leader is outside our pid namespace. */
static void tty_session(void)
{
    int fd = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC);

    if (fd >= 0)
        probe_fail("a controlling terminal was inherited");
    if (errno != ENXIO && errno != ENOENT)
        probe_fail("/dev/tty: %s", strerror(errno));
    if (getsid(0) == 0)
        probe_fail("the session belongs to a process outside");
    probe_pass("own session %ld without a terminal", (long)getsid(0));
}

/* Makes a new pty our controlling terminal and returns its slave end. */
static int own_terminal(void)
{
    int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    int slave;

    if (master < 0 || grantpt(master) != 0 || unlockpt(master) != 0)
        probe_skip("no pty: %s", strerror(errno));
    slave = open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (slave < 0 || setsid() < 0 || ioctl(slave, TIOCSCTTY, 0) != 0)
        probe_skip("no controlling terminal: %s", strerror(errno));
    return slave;
}

static void judge_ioctl(const char *name, int fd, unsigned long request, const char *arg)
{
    if (syscall(SYS_ioctl, fd, request, arg) == 0)
        probe_found("%s allowed", name);
    else if (errno != EPERM && errno != EIO && errno != EACCES)
        probe_found("%s: %s", name, strerror(errno));
}

static void tty_tiocsti(void)
{
    int fd = own_terminal();

    judge_ioctl("TIOCSTI", fd, TIOCSTI, "x");
    judge_ioctl("TIOCLINUX", fd, TIOCLINUX, "\x0c"); /* 12: which console is in front */
    probe_conclude("refused");
}

/* The kernel uses the low 32 bits of the request, so a filter must not compare 64. */
static void tty_tiocsti_hi32(void)
{
    int fd = own_terminal();

    judge_ioctl("TIOCSTI with high bits", fd, TIOCSTI | HIGH_BITS, "x");
    judge_ioctl("TIOCLINUX with high bits", fd, TIOCLINUX | HIGH_BITS, "\x0c");
    probe_conclude("refused");
}

static const struct probe_check checks[] = {
    {28, "dev.minimal", dev_minimal},         {29, "dev.open", dev_open},
    {30, "tty.session", tty_session},         {31, "tty.tiocsti", tty_tiocsti},
    {31, "c.tiocsti_hi32", tty_tiocsti_hi32},
};

const struct probe_table probe_dev = {checks, PROBE_COUNT(checks)};
