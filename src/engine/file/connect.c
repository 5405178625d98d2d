#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include "base/text.h"
#include "engine/engine_internal.h"
#include "engine/file/tunnel.h"

/*
 * Connections to ports inside a sandbox. No port is published and no address is needed: the agent
 * connects inside and passes the connected socket to the daemon. If it cannot pass descriptors, a
 * separate stream to the agent becomes the connection (tunnel.h).
 */

struct dialing {
    struct atoll_engine *engine;
    char id[ATOLL_ID_LEN + 1];
    uint16_t port;
    atoll_connected_fn *done;
    void *arg;
};

static void end(struct dialing *d, int fd, const struct atoll_error *error)
{
    d->done(d->arg, fd, error);
    free(d);
}

struct atoll_lane atoll_sandbox_lane(const struct atoll_sandbox *s)
{
    struct atoll_lane lane = {0};

    _Static_assert(sizeof(lane.sandbox) > ATOLL_ID_LEN, "an id fits");
    (void)!atoll_text_copy(lane.tenant, sizeof(lane.tenant), s->spec.tenant);
    (void)!atoll_text_copy(lane.sandbox, sizeof(lane.sandbox), s->spec.id);
    return lane;
}

void atoll_engine_discard(struct atoll_engine *engine, const char *id, int fd)
{
    const struct atoll_sandbox *s = atoll_map_get(&engine->sandboxes, id);
    struct atoll_lane lane = s ? atoll_sandbox_lane(s) : (struct atoll_lane){0};

    (void)!atoll_text_copy(lane.sandbox, sizeof(lane.sandbox), id);
    atoll_offload_close(engine->offload, &lane, fd);
}

struct atoll_offload_counts atoll_engine_offload(const struct atoll_engine *engine)
{
    return engine->offload ? atoll_offload_count(engine->offload)
                           : (struct atoll_offload_counts){0};
}

static int option_of(int fd, int option)
{
    int value = 0;
    socklen_t len = sizeof(value);

    return getsockopt(fd, SOL_SOCKET, option, &value, &len) < 0 ? -1 : value;
}

/* The agent is not trusted: it must send a TCP socket. A unix socket could carry descriptors, which
 * the kernel would close on the thread that reads. */
static int take_socket(const struct atoll_reply *answer, struct atoll_error *err)
{
    int fd, domain;

    if (answer->frame->nfds != 1)
        return atoll_fail(err, ATOLL_ERR_INTERNAL, EBADMSG,
                          "the agent did not send exactly one descriptor");
    fd = answer->frame->fds[0];
    domain = option_of(fd, SO_DOMAIN);
    if ((domain != AF_INET && domain != AF_INET6) || option_of(fd, SO_TYPE) != SOCK_STREAM ||
        option_of(fd, SO_PROTOCOL) != IPPROTO_TCP)
        return atoll_fail(err, ATOLL_ERR_INTERNAL, EBADMSG,
                          "the agent sent a descriptor that is not a TCP socket");
    return ATOLL_TAKE_FD(answer->frame->fds[0]);
}

static void on_tunnel(void *arg, int fd, const struct atoll_error *error)
{
    end(arg, fd, error);
}

static void on_stream(void *arg, int fd, const struct atoll_error *error)
{
    struct dialing *d = arg;

    if (error)
        end(d, ATOLL_NO_FD, error);
    else
        atoll_tunnel_open(d->engine, d->id, fd, d->port, on_tunnel, d);
}

static void tunnel(struct dialing *d)
{
    struct atoll_sandbox *s;
    struct atoll_error err;

    if (atoll_engine_running(d->engine, d->id, &s, &err) < 0)
        end(d, ATOLL_NO_FD, &err);
    else
        s->provider->ops->dial(s->provider, &s->spec, on_stream, d);
}

static void on_dialed(void *arg, const struct atoll_reply *answer)
{
    struct dialing *d = arg;
    struct atoll_error err;
    int fd;

    if (answer->error && answer->error->errnum == EOPNOTSUPP) {
        tunnel(d); /* requested before the agent's features were known */
    } else if (answer->error) {
        end(d, ATOLL_NO_FD, answer->error);
    } else {
        fd = take_socket(answer, &err);
        end(d, fd, fd < 0 ? &err : NULL);
    }
}

void atoll_engine_connect(struct atoll_engine *engine, const char *id, uint16_t port,
                          atoll_connected_fn *done, void *arg)
{
    struct dialing *d = calloc(1, sizeof(*d));
    struct atoll_am_connect msg = {.port = port};
    struct atoll_sandbox *s;
    struct atoll_lane lane;
    struct atoll_error err;
    int r;

    if (!d)
        abort(); /* a small fixed object: the daemon is crash-only */
    *d = (struct dialing){.engine = engine, .port = port, .done = done, .arg = arg};
    (void)snprintf(d->id, sizeof(d->id), "%s", id);
    r = atoll_engine_running(engine, id, &s, &err);
    if (r == 0) {
        lane = atoll_sandbox_lane(s);
        r = atoll_offload_check(engine->offload, &lane, &err);
    }
    if (r == 0 && s->greeted && !(s->features & ATOLL_AGENT_FEATURE_FDS)) {
        tunnel(d);
        return;
    }
    if (r == 0)
        r = atoll_sandbox_ask(s, ATOLL_AGENT_CONNECT, &atoll_am_connect_desc, &msg, on_dialed, d,
                              &err);
    if (r < 0)
        end(d, ATOLL_NO_FD, &err);
}
