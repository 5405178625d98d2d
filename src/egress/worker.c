#include "egress/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include "base/clock.h"
#include "base/log.h"
#include "egress/cache.h"
#include "egress/closer.h"
#include "egress/control.h"
#include "egress/dns.h"
#include "egress/host_addresses.h"
#include "egress/intercept.h"
#include "egress/names_kept.h"
#include "egress/peers.h"
#include "egress/pipes.h"
#include "egress/report.h"
#include "egress/secrets.h"
#include "sandbox/self.h"

#define CACHE_DIR "egress/cache" /* below the state directory */
#define OVERFLOW_ID 65534        /* what the kernel shows for unmapped ids; owns no files */

/* A worker that was taken over cannot read root's files, nor the state directory. Without CAP_SETUID (a
 * daemon that has confined itself started us) it stays as it is: it has no capability. */
static int leave_root(struct atoll_error *err)
{
    int r = 0;

    if (geteuid() != 0 || setgroups(0, NULL) < 0)
        return 0;
    if (setresgid(OVERFLOW_ID, OVERFLOW_ID, OVERFLOW_ID) < 0 ||
        setresuid(OVERFLOW_ID, OVERFLOW_ID, OVERFLOW_ID) < 0)
        r = atoll_fail_errno(err, errno, "become an unprivileged user");
    return r;
}

/* The directory of the cache. As root it belongs to the user that the worker becomes, and its group to a
 * worker that stays root without capabilities. */
static int open_cache_directory(int state_fd)
{
    bool as_root = geteuid() == 0;
    int fd;

    if (mkdirat(state_fd, CACHE_DIR, 0700) < 0 && errno != EEXIST)
        return -errno;
    fd = openat(state_fd, CACHE_DIR, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return -errno;
    if (as_root && fchown(fd, OVERFLOW_ID, 0) == 0)
        (void)!fchmod(fd, 02770);
    return fd;
}

static void open_cache(struct atoll_egress *egress, int directory_fd)
{
    struct atoll_error err;

    if (directory_fd < 0)
        (void)atoll_fail_errno(&err, -directory_fd, "open " CACHE_DIR);
    else if (atoll_cache_open(egress->loop, directory_fd, &egress->cache, &err) == 0)
        return;
    atoll_log(ATOLL_LOG_WARN, "downloads are not kept", "error", err.text, NULL);
}

static int open_parts(struct atoll_egress *egress, int state_fd, struct atoll_error *err)
{
    int r = atoll_loop_new(&egress->loop, err), directory_fd = open_cache_directory(state_fd);

    if (r == 0)
        r = atoll_interceptor_open(egress->loop, state_fd, &egress->interceptor, err);
    if (r == 0)
        r = leave_root(err);
    if (r == 0)
        r = atoll_self_confine(err);
    if (r == 0)
        r = atoll_host_addresses_open(egress->loop, &egress->host, err);
    if (r == 0)
        r = atoll_resolver_new(egress->loop, NULL, &egress->resolver, err);
    if (r == 0)
        r = atoll_closer_new(egress->loop, &egress->closer, err);
    if (r == 0)
        open_cache(egress, directory_fd);
    else if (directory_fd >= 0)
        (void)close(directory_fd);
    return r;
}

static void close_parts(struct atoll_egress *egress)
{
    egress->resolver = atoll_resolver_free(egress->resolver);
    egress->closer = atoll_closer_free(egress->closer);
    egress->cache = atoll_cache_close(egress->cache);
    egress->interceptor = atoll_interceptor_close(egress->interceptor);
    egress->host = atoll_host_addresses_close(egress->host);
    egress->reports = atoll_reports_free(egress->reports);
    egress->pipes = atoll_pipes_free(egress->pipes);
    atoll_secrets_done(&egress->secrets);
    atoll_shares_done(&egress->shares);
    atoll_peers_done(egress);
    atoll_map_done(&egress->boxes);
    egress->loop = atoll_loop_free(egress->loop);
}

int atoll_worker_run(int listen_fd, int state_fd, int starter_fd, struct atoll_names_kept *names,
                     struct atoll_error *err)
{
    const struct sigaction ignore = {.sa_handler = SIG_IGN};
    struct atoll_egress egress = {.kept_names = names};
    struct atoll_control *control = NULL;
    int r;

    (void)sigaction(SIGPIPE, &ignore, NULL);
    (void)prctl(PR_SET_NAME, "atoll-egress", 0, 0, 0);
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); /* it has secrets in memory */
    atoll_map_init(&egress.boxes);
    atoll_map_init(&egress.secrets);
    atoll_map_init(&egress.names);
    atoll_list_init(&egress.dials);
    atoll_shares_init(&egress.shares, 0);
    egress.reports = atoll_reports_new();
    egress.pipes = atoll_pipes_new();
    atoll_names_kept_begin(names, atoll_clock_ms());
    r = open_parts(&egress, state_fd, err);
    if (r == 0)
        r = atoll_control_open(&egress, listen_fd, starter_fd, &control, err);
    if (r == 0)
        r = atoll_loop_run(egress.loop, err);
    control = atoll_control_close(control);
    /* A lookup may block for long; only a leak checker needs an orderly end. */
    if (r == 0 && !ATOLL_IS_SANITIZED)
        _exit(0);
    close_parts(&egress);
    return r;
}
