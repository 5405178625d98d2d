/*
 * A connection to a port of a sandbox: the request is upgraded to the protocol "tcp", which is the bytes
 * as they are, once the server in the sandbox has accepted.
 */
#include <errno.h>
#include <string.h>
#include <strings.h>
#include "api/api_internal.h"
#include "api/kit/ports.h"
#include "api/preview.h"
#include "api/rest/rest_internal.h"

#define PROTOCOL "tcp"

static uint16_t port_of(const struct atoll_api_call *call)
{
    return (uint16_t)strtoul(call->params.port, NULL, 10);
}

/* The call still exists when the client has left meanwhile. */
static void connected(void *arg, int fd, const struct atoll_error *error)
{
    struct atoll_api_call *call = arg;
    struct atoll_ports *ports = atoll_api_ports(call->api);
    struct atoll_error busy;

    if (error) {
        atoll_api_fail(call, error);
    } else if (atoll_api_client_is_gone(call)) {
        atoll_engine_discard(call->engine, call->params.id, fd);
        atoll_api_drop(call);
    } else if (atoll_ports_join(ports, call->req, PROTOCOL, call->params.id, port_of(call), fd) <
               0) {
        (void)atoll_fail(&busy, ATOLL_ERR_RESOURCE_EXHAUSTED, EAGAIN,
                         "too many connections to ports are open; close some, or wait");
        atoll_api_fail(call, &busy);
    } else { /* the request has ended */
        call->req = NULL;
        call->upgraded = true;
        atoll_api_drop(call);
    }
}

void atoll_rest_port_tunnel(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                            size_t n ATOLL_UNUSED)
{
    const char *wanted = atoll_http_wanted_upgrade(call->req);
    struct atoll_error error;

    if (!wanted || strcasecmp(wanted, PROTOCOL) != 0) {
        (void)atoll_fail(&error, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                         "a tunnel needs the headers Connection: Upgrade and Upgrade: " PROTOCOL
                         ", over HTTP/1.1");
        atoll_api_fail(call, &error);
    } else if (!atoll_api_ports(call->api)) {
        (void)atoll_fail(&error, ATOLL_ERR_UNIMPLEMENTED, ENOSYS,
                         "ports are disabled in this daemon");
        atoll_api_fail(call, &error);
    } else {
        atoll_engine_connect(call->engine, call->params.id, port_of(call), connected, call);
    }
}
