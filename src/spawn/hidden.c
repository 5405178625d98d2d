#include "spawn/hidden.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "spawn/hidden_tree.h"
#include "spawn/paths.h"
#include "sys/ns.h"
#include "sys/tree.h"

#define STAMPS_MS (5 * 1000)     /* interval of checking the stamps */
#define GAP_MS (10 * 1000)       /* minimum time between the starts of two scans of /usr */
#define FULL_MS (10 * 60 * 1000) /* maximum time between them */
#define LIST_AGE_S (5 * 60)      /* a list up to this age is used without a scan */
#define STAMPS_MAX 1024
#define WAIT_US 5000
#define WAIT_TRIES 6000 /* half a minute */

#define K_RENAME_EXCHANGE 2 /* from linux/fs.h */

struct atoll_hidden {
    struct atoll_loop *loop;
    const struct atoll_spawn_host *host;
    struct atoll_timer timer;
    char stamps[STAMPS_MAX]; /* before the last scan that succeeded */
    char begun[STAMPS_MAX];  /* before the scan under way */
    int64_t scanned_ms;      /* when the last scan began; 0: never */
    pid_t pid;               /* of the scanning process, or 0 */
    int pidfd;
    struct atoll_watch watch;
};

/* Directories below /usr whose change times move when packages are installed. */
static const char *const places[] = {
    ".",
    "bin",
    "sbin",
    "lib",
    "lib64",
    "libexec",
    "lib32",
    "include",
    "share",
    "share/doc",
    "src",
    "games",
    "local",
    "local/bin",
    "local/etc",
    "local/sbin",
    "local/lib",
    "local/share",
    "local/src",
    "local/opt",
    "lib/systemd",
    "lib/sysimage/rpm",
    "lib/x86_64-linux-gnu",
    "lib/aarch64-linux-gnu",
};

/* Package databases; the first that exists is used. */
static const char *const databases[] = {"/var/lib/dpkg", "/var/lib/rpm", "/var/lib/pacman/local",
                                        "/lib/apk/db"};

void atoll_hidden_prepare(struct atoll_spawn_host *host)
{
    host->packages_fd = host->shared_fd = ATOLL_NO_FD;
    for (size_t i = 0; host->packages_fd < 0 && i < ATOLL_ARRAY_LEN(databases); i++)
        host->packages_fd = open(databases[i], O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (host->root)
        host->shared_fd = open("/run/atoll", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static void add_stamp(int dir, const char *path, char *out, size_t cap)
{
    size_t len = strlen(out);
    struct stat st = {0};

    if (dir >= 0)
        (void)fstatat(dir, path, &st, AT_EMPTY_PATH);
    (void)snprintf(out + len, cap - len, " %llx.%lx", (unsigned long long)st.st_ctim.tv_sec,
                   (unsigned long)st.st_ctim.tv_nsec);
}

static void read_stamps(const struct atoll_hidden *h, char out[static STAMPS_MAX])
{
    ATOLL_AUTOCLOSE int usr = open("/usr", O_PATH | O_DIRECTORY | O_CLOEXEC);
    struct stat st = {0};

    if (usr >= 0)
        (void)fstat(usr, &st);
    (void)snprintf(out, STAMPS_MAX, "1 %llx.%llx", (unsigned long long)st.st_dev,
                   (unsigned long long)st.st_ino);
    add_stamp(h->host->packages_fd, "", out, STAMPS_MAX);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(places); i++)
        add_stamp(usr, places[i], out, STAMPS_MAX);
}

/* A list is a line with the stamps, followed by the paths. Reads it if it has these stamps and is
 * recent enough. 1: read, 0: no usable list. */
static int read_list(int dir, const char *path, const char *stamps, struct atoll_buf *ret)
{
    ATOLL_AUTOCLOSE int fd = dir < 0 ? ATOLL_NO_FD : openat(dir, path, O_RDONLY | O_CLOEXEC);
    size_t len = strlen(stamps);
    struct stat st;
    int64_t age;
    uint8_t *tail;

    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid())
        return 0;
    age = (int64_t)time(NULL) - st.st_mtim.tv_sec;
    if (age < 0 || age > LIST_AGE_S || (size_t)st.st_size <= len ||
        atoll_buf_reserve(ret, (size_t)st.st_size, &tail) < 0 ||
        atoll_fd_read_all(fd, tail, (size_t)st.st_size) < 0 || memcmp(tail, stamps, len) != 0 ||
        tail[len] != '\n')
        return 0;
    atoll_buf_commit(ret, (size_t)st.st_size);
    return 1;
}

static int write_list(int dir, const char *path, const struct atoll_buf *list)
{
    char fresh[64];
    ATOLL_AUTOCLOSE int fd = ATOLL_NO_FD;
    int r;

    (void)snprintf(fresh, sizeof(fresh), "%s.%d", path, (int)getpid());
    fd = openat(dir, fresh, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    r = fd < 0 ? -errno : atoll_fd_write_all(fd, atoll_buf_head(list), atoll_buf_size(list));
    if (r == 0 && renameat(dir, fresh, dir, path) < 0)
        r = -errno;
    if (r < 0 && fd >= 0)
        (void)unlinkat(dir, fresh, 0);
    return r;
}

static const char *paths_of(struct atoll_buf *list, size_t *ret_len)
{
    const char *text = (const char *)atoll_buf_head(list);
    const char *line = memchr(text, '\n', atoll_buf_size(list));

    *ret_len = atoll_buf_size(list) - (size_t)(line + 1 - text);
    return line + 1;
}

static unsigned count(const char *paths, size_t len)
{
    unsigned n = 0;

    for (size_t i = 0; i < len; i++)
        n += paths[i] == '\0';
    return n;
}

/* In the scanning process. */
static int make_list(const struct atoll_hidden *h, int usr, struct atoll_buf *list)
{
    int r;

    if (read_list(h->host->shared_fd, "hidden", h->begun, list) > 0)
        return 0;
    atoll_buf_clear(list);
    r = atoll_buf_appendf(list, "%s\n", h->begun);
    if (r == 0)
        r = atoll_hidden_find(usr, list);
    if (r == 0 && h->host->shared_fd >= 0)
        (void)!write_list(h->host->shared_fd, "hidden", list); /* for other instances */
    return r;
}

/* True if the current layer hides exactly these paths. */
static bool is_in_place(int state, struct atoll_buf *list)
{
    ATOLL_AUTOCLOSE int fd = openat(state, "hidden/list", O_RDONLY | O_CLOEXEC);
    ATOLL_AUTOFREE char *old = NULL;
    const char *line, *paths;
    struct stat st;
    size_t len;

    if (fd < 0 || fstat(fd, &st) < 0 || st.st_size > (off_t)ATOLL_HIDDEN_LIST_MAX)
        return false;
    old = malloc((size_t)st.st_size + 1);
    if (!old || atoll_fd_read_all(fd, old, (size_t)st.st_size) < 0)
        return false;
    line = memchr(old, '\n', (size_t)st.st_size);
    paths = paths_of(list, &len);
    return line && (size_t)st.st_size - (size_t)(line + 1 - old) == len &&
           memcmp(line + 1, paths, len) == 0;
}

/* Exchanges the layers atomically, so that a layer exists at every moment. */
static int put_in_place(int state)
{
    char old[32];

    if (syscall(SYS_renameat2, state, "hidden.new", state, "hidden", K_RENAME_EXCHANGE) < 0)
        return errno == ENOENT && renameat(state, "hidden.new", state, "hidden") == 0 ? 0 : -errno;
    for (unsigned number = 0;; number++) {
        (void)snprintf(old, sizeof(old), ATOLL_HIDDEN_OLD "%u", number);
        if (renameat(state, "hidden.new", state, old) == 0)
            return 0;
        if (errno != EEXIST && errno != ENOTEMPTY)
            return -errno;
    }
}

static int replace_layer(int state, int usr, struct atoll_buf *list)
{
    ATOLL_AUTOCLOSE int fresh = ATOLL_NO_FD;
    ATOLL_AUTOCLOSE int tree = ATOLL_NO_FD;
    const char *paths;
    size_t len;
    int r = atoll_tree_remove(state, "hidden.new");

    if (r < 0)
        return r;
    if (mkdirat(state, "hidden.new", 0755) < 0 || mkdirat(state, "hidden.new/usr", 0755) < 0)
        return -errno;
    fresh = openat(state, "hidden.new", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    tree = fresh < 0 ? ATOLL_NO_FD : openat(fresh, "usr", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (tree < 0)
        return -errno;
    paths = paths_of(list, &len);
    r = atoll_hidden_lay_out(usr, paths, len, tree);
    if (r == 0)
        r = write_list(fresh, "list", list);
    return r < 0 ? r : put_in_place(state);
}

static int scan(const struct atoll_hidden *h)
{
    ATOLL_AUTOCLOSE int usr = open("/usr", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int64_t begun = atoll_clock_ms();
    struct atoll_buf list;
    char found[16], took[16];
    const char *paths;
    size_t len;
    int r = usr < 0 ? -errno : 0;

    atoll_buf_init(&list, ATOLL_HIDDEN_LIST_MAX);
    if (r == 0)
        r = make_list(h, usr, &list);
    if (r == 0 && is_in_place(h->host->state_fd, &list))
        return write_list(h->host->state_fd, "hidden/list", &list);
    if (r == 0)
        r = replace_layer(h->host->state_fd, usr, &list);
    if (r < 0)
        return r;
    paths = paths_of(&list, &len);
    (void)snprintf(found, sizeof(found), "%u", count(paths, len));
    (void)snprintf(took, sizeof(took), "%lld", (long long)(atoll_clock_ms() - begun));
    atoll_log(ATOLL_LOG_INFO, "private files of /usr are hidden from sandboxes", "entries", found,
              "ms", took, NULL);
    return 0;
}

static int by_value(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

static _Noreturn void run_scan(const struct atoll_hidden *h, pid_t spawn)
{
    int keep[] = {h->host->state_fd, h->host->shared_fd};
    char error[16];
    int r;

    qsort(keep, ATOLL_ARRAY_LEN(keep), sizeof(keep[0]), by_value);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || getppid() != spawn ||
        atoll_sys_close_except(3, keep, ATOLL_ARRAY_LEN(keep)) < 0)
        _exit(1);
    (void)umask(0);
    /* Lowers the priority only if a layer exists; otherwise sandboxes are waiting for this scan. */
    if (faccessat(h->host->state_fd, "hidden", F_OK, 0) == 0)
        (void)setpriority(PRIO_PROCESS, 0, 19);
    r = scan(h);
    (void)snprintf(error, sizeof(error), "%d", -r);
    if (r < 0)
        atoll_log(ATOLL_LOG_ERROR, "the scan of /usr for private files failed", "errno", error,
                  NULL);
    _exit(r < 0);
}

static void look_ended(void *arg, uint32_t events)
{
    struct atoll_hidden *h = arg;
    int status = 0;

    (void)events;
    atoll_watch_close(&h->watch);
    (void)close(ATOLL_TAKE_FD(h->pidfd));
    while (waitpid(h->pid, &status, 0) < 0 && errno == EINTR)
        ;
    h->pid = 0;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        memcpy(h->stamps, h->begun, sizeof(h->stamps));
}

static void begin_scan(struct atoll_hidden *h)
{
    pid_t spawn = getpid();
    int r;

    h->scanned_ms = atoll_clock_ms();
    h->pid = atoll_sys_clone(0, -1, &h->pidfd);
    if (h->pid == 0)
        run_scan(h, spawn);
    r = h->pid < 0 ? h->pid
                   : atoll_watch_open(&h->watch, h->loop, h->pidfd, EPOLLIN, look_ended, h);
    if (r >= 0)
        return;
    atoll_log(ATOLL_LOG_ERROR, "the scan of /usr for private files failed", NULL);
    if (h->pid > 0) {
        (void)kill(h->pid, SIGKILL);
        look_ended(h, 0);
    }
    h->pid = 0;
}

static void tick(void *arg)
{
    struct atoll_hidden *h = arg;
    int64_t since = atoll_clock_ms() - h->scanned_ms;

    atoll_timer_set(&h->timer, h->loop, STAMPS_MS, tick, h);
    if (h->pid > 0 || since < GAP_MS)
        return;
    read_stamps(h, h->begun);
    if (since >= FULL_MS || strcmp(h->begun, h->stamps) != 0)
        begin_scan(h);
}

int atoll_hidden_start(struct atoll_loop *loop, const struct atoll_spawn_host *host,
                       struct atoll_hidden **ret, struct atoll_error *err)
{
    struct atoll_hidden *h = calloc(1, sizeof(*h));
    struct atoll_buf list;
    int r = 0;

    if (!h)
        return atoll_fail_errno(err, ENOMEM, "hidden entries");
    *h = (struct atoll_hidden){.loop = loop, .host = host, .pidfd = ATOLL_NO_FD};
    read_stamps(h, h->begun);
    atoll_buf_init(&list, ATOLL_HIDDEN_LIST_MAX);
    if (read_list(host->state_fd, "hidden/list", h->begun, &list) > 0) {
        memcpy(h->stamps, h->begun, sizeof(h->stamps));
        h->scanned_ms = atoll_clock_ms();
    } else {
        r = atoll_tree_remove(host->state_fd, "hidden");
    }
    atoll_buf_done(&list);
    if (r < 0) {
        free(h);
        return atoll_fail_errno(err, -r, "remove the hidden layers of an earlier run");
    }
    if (!*h->stamps)
        begin_scan(h);
    atoll_timer_set(&h->timer, loop, STAMPS_MS, tick, h);
    *ret = h;
    return 0;
}

int atoll_hidden_open_layer(int state_fd)
{
    int fd = -ENOENT;

    for (int tries = 0; fd == -ENOENT && tries < WAIT_TRIES; tries++) {
        if (tries > 0)
            (void)usleep(WAIT_US);
        fd = atoll_paths_open(state_fd, ATOLL_PLAN_HIDDEN, O_PATH | O_DIRECTORY);
    }
    return fd == -ENOENT ? -ETIMEDOUT : fd;
}
