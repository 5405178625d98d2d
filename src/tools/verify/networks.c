#include "tools/verify/networks.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include "base/fd.h"
#include "tools/verify/canary.h"
#include "tools/verify/child.h"
#include "tools/verify/probe_run.h"
#include "tools/verify/report.h"

#define OUTPUT_MAX 4096
#define RUN_MS 30000
#define ARRIVE_MS 300

#define REACHED                                                                                    \
    "the sandbox reaches the host: look at --network-internal of atolld, and ask for networkMode " \
    "\"none\" until it is fixed"
#define CHANGED                                                                               \
    "a sandbox can change its own network, so its policy can be evaded: ask for networkMode " \
    "\"none\", and report it as SECURITY.md says"

enum { HOST_SERVICE, WALLS };

const struct atoll_check atoll_network_checks[] = {
    [HOST_SERVICE] = {"egress.host_service", "92",
                      "with a network, services of the host are out of reach", REACHED},
    [WALLS] = {"egress.walls", "92", "nor can its addresses, routes, rules or port be changed",
               CHANGED},
};
const size_t atoll_network_checks_count = ATOLL_ARRAY_LEN(atoll_network_checks);

/* A service of the host: a connection that reaches it stays in its queue. */
struct service {
    int fd;
    char address[64], port[8];
};

/* -errno: this host has no address but loopback, or no socket. */
static int service_open(struct service *s, const struct atoll_canary *canary)
{
    struct sockaddr_in any = {.sin_family = AF_INET};
    socklen_t len = sizeof(any);

    (void)snprintf(s->address, sizeof(s->address), "%s",
                   atoll_link_text(canary->facts, "addr", ""));
    s->fd = *s->address ? socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0) : -1;
    if (!*s->address)
        return -EADDRNOTAVAIL;
    if (s->fd < 0 || bind(s->fd, (struct sockaddr *)&any, len) < 0 || listen(s->fd, 8) < 0 ||
        getsockname(s->fd, (struct sockaddr *)&any, &len) < 0)
        return -errno;
    (void)snprintf(s->port, sizeof(s->port), "%u", ntohs(any.sin_port));
    return 0;
}

static void service_close(struct service *s)
{
    if (s->fd >= 0)
        (void)close(s->fd);
}

static bool service_reached(const struct service *s)
{
    struct pollfd p = {.fd = s->fd, .events = POLLIN};
    return poll(&p, 1, ARRIVE_MS) == 1;
}

/* What --walls printed. */
static void add_walls(const struct atoll_verify *v, const struct atoll_tier *tier,
                      const char *output)
{
    const struct atoll_check *check = &atoll_network_checks[WALLS];
    ATOLL_AUTOJSON json_t *line = atoll_link_parse_json(output, strcspn(output, "\n"));
    const char *what = line ? atoll_link_text(line, "what", "") : "the probe said nothing";
    enum atoll_verdict verdict = !line   ? ATOLL_VERDICT_UNKNOWN
                                 : *what ? ATOLL_VERDICT_FOUND
                                         : ATOLL_VERDICT_HOLDS;

    if (tier)
        atoll_tier_add(v, tier, check, verdict, "%s", *what ? what : "all refused");
    else
        atoll_report_add(v->report, ATOLL_TIER_CONTROL, check, verdict, "%s",
                         *what ? what : "all refused");
}

static int run_walls(const struct atoll_verify *v, const struct atoll_tier *tier,
                     const struct atoll_box *box, struct atoll_error *err)
{
    static const char *const argv[] = {ATOLL_PROBE_INSIDE, "--walls", NULL};
    ATOLL_AUTOJSON json_t *reply = NULL;
    int r;

    if (!atoll_verify_wants(v, &atoll_network_checks[WALLS]))
        return 0;
    r = atoll_box_exec(box, tier->kind.user, argv, NULL, RUN_MS / 1000, &reply, err);
    if (r == 0)
        add_walls(v, tier, atoll_link_text(reply, "stdout", ""));
    return r;
}

static int run_host_service(const struct atoll_verify *v, const struct atoll_tier *tier,
                            const struct atoll_canary *canary, const struct atoll_box *box,
                            struct atoll_error *err)
{
    const struct atoll_check *check = &atoll_network_checks[HOST_SERVICE];
    ATOLL_AUTOJSON json_t *reply = NULL;
    struct service s;
    int r = 0;

    if (!atoll_verify_wants(v, check))
        return 0;
    if (service_open(&s, canary) < 0) {
        atoll_tier_add(v, tier, check, ATOLL_VERDICT_UNKNOWN, "this host has no address");
    } else {
        const char *const argv[] = {ATOLL_PROBE_INSIDE, "--dial", s.address, s.port, NULL};
        r = atoll_box_exec(box, tier->kind.user, argv, NULL, RUN_MS / 1000, &reply, err);
        if (r == 0 && service_reached(&s))
            atoll_tier_add(v, tier, check, ATOLL_VERDICT_FOUND, "%s", s.address);
        else if (r == 0)
            atoll_tier_add(v, tier, check, ATOLL_VERDICT_HOLDS, "nothing arrived");
    }
    service_close(&s);
    return r;
}

static bool has_no_network(const struct atoll_error *err)
{
    return err->kind == ATOLL_ERR_UNIMPLEMENTED || err->kind == ATOLL_ERR_INVALID_ARGUMENT ||
           err->kind == ATOLL_ERR_PERMISSION_DENIED || err->kind == ATOLL_ERR_FAILED_PRECONDITION;
}

int atoll_networks_run(const struct atoll_verify *v, const struct atoll_tier *tier,
                       const struct atoll_canary *canary, struct atoll_error *err)
{
    const struct atoll_box_options options = {.provider = tier->provider, .network = "bridge"};
    struct atoll_box box = {0};
    int r;

    if (!atoll_tier_wants(v, atoll_network_checks, atoll_network_checks_count))
        return 0;
    r = atoll_box_create(&box, v->client, &options, err);
    if (r < 0 && has_no_network(err)) {
        for (size_t i = 0; i < atoll_network_checks_count; i++)
            if (atoll_verify_wants(v, &atoll_network_checks[i]))
                atoll_report_add(v->report, tier->name, &atoll_network_checks[i],
                                 ATOLL_VERDICT_NOT_OFFERED, "it has no network");
        return 0;
    }
    if (r == 0)
        r = atoll_box_put(&box, v->probe, ATOLL_PROBE_INSIDE, err);
    if (r == 0)
        r = run_host_service(v, tier, canary, &box, err);
    if (r == 0)
        r = run_walls(v, tier, &box, err);
    atoll_box_done(&box);
    return r;
}

static int enter_network(void *arg)
{
    (void)arg;
    return unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0 ? -1 : 0;
}

static int run_here(const struct atoll_verify *v, char *const *argv, int (*prepare)(void *arg),
                    char **ret_output, struct atoll_error *err)
{
    const struct atoll_child_options options = {
        .argv = argv, .cwd = v->scratch, .prepare = prepare};
    struct atoll_child child;
    int r = atoll_child_start(&child, &options, err);

    return r < 0 ? r : atoll_child_collect(&child, OUTPUT_MAX, RUN_MS, ret_output, err);
}

static void control_host_service(const struct atoll_verify *v, const struct atoll_canary *canary)
{
    const struct atoll_check *check = &atoll_network_checks[HOST_SERVICE];
    static char role[] = "--dial";
    ATOLL_AUTOFREE char *output = NULL;
    struct atoll_error err;
    struct service s;

    if (service_open(&s, canary) < 0) {
        atoll_report_add(v->report, ATOLL_TIER_CONTROL, check, ATOLL_VERDICT_UNKNOWN,
                         "this host has no address");
    } else {
        char *argv[] = {(char *)v->probe, role, s.address, s.port, NULL};
        bool ran = run_here(v, argv, NULL, &output, &err) >= 0;
        atoll_report_add(v->report, ATOLL_TIER_CONTROL, check,
                         ran && service_reached(&s) ? ATOLL_VERDICT_FOUND : ATOLL_VERDICT_HOLDS,
                         "%s", s.address);
    }
    service_close(&s);
}

void atoll_networks_control(const struct atoll_verify *v, const struct atoll_canary *canary)
{
    static char role[] = "--walls";
    char *argv[] = {(char *)v->probe, role, NULL};
    ATOLL_AUTOFREE char *output = NULL;
    struct atoll_error err;

    if (atoll_verify_wants(v, &atoll_network_checks[HOST_SERVICE]))
        control_host_service(v, canary);
    if (!atoll_verify_wants(v, &atoll_network_checks[WALLS]))
        return;
    if (run_here(v, argv, enter_network, &output, &err) < 0)
        atoll_report_add(v->report, ATOLL_TIER_CONTROL, &atoll_network_checks[WALLS],
                         ATOLL_VERDICT_UNKNOWN, "%s", err.text);
    else
        add_walls(v, NULL, output);
}
