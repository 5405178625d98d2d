#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include "engine/engine_internal.h"
#include "engine/tunnel.h"

/*
 * Connections into a sandbox, so that no port is published and no address is needed: the agent dials
 * inside and passes the connected socket out. Where descriptors do not pass, a stream of its own to
 * the agent becomes the connection (tunnel.h).
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

/* The agent is not trusted: what it sends must be a stream socket. */
static int take_socket(const struct atoll_answer *answer, struct atoll_error *err)
{
    int type = 0;
    socklen_t len = sizeof(type);

    if (answer->frame->nfds < 1)
        return atoll_fail(err, ATOLL_ERR_INTERNAL, EBADMSG, "the agent sent no descriptor");
    if (getsockopt(answer->frame->fds[0], SOL_SOCKET, SO_TYPE, &type, &len) < 0 ||
        type != SOCK_STREAM)
        return atoll_fail(err, ATOLL_ERR_INTERNAL, EBADMSG,
                          "the agent sent something else than a socket");
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
        atoll_tunnel_open(d->engine->loop, fd, d->port, on_tunnel, d);
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

static void on_dialed(void *arg, const struct atoll_answer *answer)
{
    struct dialing *d = arg;
    struct atoll_error err;
    int fd;

    if (answer->error && answer->error->errnum == EOPNOTSUPP) {
        tunnel(d); /* asked before the agent had said what it can do */
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
    struct atoll_error err;
    int r;

    if (!d)
        abort(); /* a small fixed object: the daemon is crash-only */
    *d = (struct dialing){.engine = engine, .port = port, .done = done, .arg = arg};
    (void)snprintf(d->id, sizeof(d->id), "%s", id);
    r = atoll_engine_running(engine, id, &s, &err);
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
