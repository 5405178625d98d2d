/*
 * Networks of the engine. An isolated network belongs to a tenant and has neither a route out nor
 * an address of the host. It is created for the tenant's first sandbox and removed with the last
 * one.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/sha1.h"
#include "provider/docker/docker_internal.h"

/* The name is a hash: tenants' names may have any characters, and the engine does not need them. */
static void isolated_name(const struct atoll_docker *d, const struct atoll_spec *spec, char *out)
{
    uint8_t digest[ATOLL_SHA1_BYTES];
    char text[sizeof(d->daemon_id) + sizeof(spec->tenant) + 2];

    (void)snprintf(text, sizeof(text), "%s/%s", d->daemon_id, spec->tenant);
    atoll_sha1(text, strlen(text), digest);
    (void)snprintf(out, 80, "atoll-net-%02x%02x%02x%02x%02x%02x%02x%02x", digest[0], digest[1],
                   digest[2], digest[3], digest[4], digest[5], digest[6], digest[7]);
}

static int make_isolated(struct atoll_docker *d, const struct atoll_sync_call *call,
                         const char *name, struct atoll_error *err)
{
    struct atoll_docker_ask ask = {.method = "POST", .path = "/networks/create"};
    int r;

    ask.json = json_pack("{s:s, s:s, s:b, s:b, s:{s:s}, s:{s:s}}", "Name", name, "Driver", "bridge",
                         "Internal", 1, "CheckDuplicate", 1, "Labels", ATOLL_DOCKER_LABEL,
                         d->daemon_id, "Options", "com.docker.network.bridge.inhibit_ipv4", "true");
    r = atoll_docker_http_ask(d->http, call, &ask, NULL, err);
    return r == -EEXIST ? 0 : r; /* another worker created it first */
}

int atoll_docker_network_get(struct atoll_docker *d, const struct atoll_sync_call *call,
                             const struct atoll_spec *spec, char *out, struct atoll_error *err)
{
    int r;

    if (spec->network != ATOLL_NETWORK_ISOLATED) {
        (void)snprintf(out, 80, "%.79s",
                       spec->network == ATOLL_NETWORK_BRIDGE ? d->config.bridge : "none");
        return 0;
    }
    isolated_name(d, spec, out);
    r = atoll_docker_http_askf(d->http, call, NULL, err, "GET", "/networks/%s", out);
    if (r == -ENOENT)
        r = make_isolated(d, call, out, err);
    return r < 0 ? r : 0;
}

bool atoll_docker_lacks_bridge(struct atoll_docker *d, const struct atoll_sync_call *call)
{
    ATOLL_AUTOFREE char *name = atoll_docker_escape(d->config.bridge);
    struct atoll_error unused;

    return name && atoll_docker_http_askf(d->http, call, NULL, &unused, "GET", "/networks/%s",
                                          name) == -ENOENT;
}

void atoll_docker_network_put(struct atoll_docker *d, const struct atoll_sync_call *call,
                              const struct atoll_spec *spec)
{
    struct atoll_error unused;
    char name[80];

    if (spec->network != ATOLL_NETWORK_ISOLATED)
        return;
    isolated_name(d, spec, name);
    /* The engine refuses while a container is connected, which is intended. */
    (void)!atoll_docker_http_askf(d->http, call, NULL, &unused, "DELETE", "/networks/%s", name);
}
