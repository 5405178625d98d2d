#include "egress/worker.h"

#include <errno.h>
#include <grp.h>
#include <signal.h>
#include <sys/prctl.h>
#include "base/clock.h"
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

#define OVERFLOW_ID 65534 /* what the kernel shows for unmapped ids; owns no files */

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

static int open_parts(struct atoll_egress *egress, int state_fd, struct atoll_error *err)
{
    int r = atoll_loop_new(&egress->loop, err);

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
    return r;
}

static void close_parts(struct atoll_egress *egress)
{
    egress->resolver = atoll_resolver_free(egress->resolver);
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

int atoll_worker_run(int listen_fd, int state_fd, struct atoll_names_kept *names,
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
        r = atoll_control_open(&egress, listen_fd, &control, err);
    if (r == 0)
        r = atoll_loop_run(egress.loop, err);
    control = atoll_control_close(control);
    /* A lookup may block for long; only a leak checker needs an orderly end. */
    if (r == 0 && !ATOLL_IS_SANITIZED)
        _exit(0);
    close_parts(&egress);
    return r;
}
