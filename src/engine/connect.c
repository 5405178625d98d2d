#include <errno.h>
#include <sys/socket.h>
#include "engine/engine_internal.h"

/*
 * Connections into a sandbox: the agent dials inside and passes the connected socket out, so that
 * no port is published and no address is needed.
 */

struct dialing {
    atoll_connected_fn *done;
    void *arg;
};

/* The agent is not trusted: what it sends must be a stream socket. */
static int take_socket(const struct atoll_answer *answer, struct atoll_error *err)
{
    int type = 0;
    socklen_t len = sizeof(type);

    for (size_t i = 1; i < answer->frame->nfds; i++)
        (void)close(answer->frame->fds[i]);
    if (answer->frame->nfds < 1)
        return atoll_fail(err, ATOLL_ERR_INTERNAL, EBADMSG, "the agent sent no descriptor");
    if (getsockopt(answer->frame->fds[0], SOL_SOCKET, SO_TYPE, &type, &len) < 0 ||
        type != SOCK_STREAM) {
        (void)close(answer->frame->fds[0]);
        return atoll_fail(err, ATOLL_ERR_INTERNAL, EBADMSG,
                          "the agent sent something else than a socket");
    }
    return answer->frame->fds[0];
}

static void on_dialed(void *arg, const struct atoll_answer *answer)
{
    struct dialing *d = arg;
    const struct atoll_error *error = answer->error;
    struct atoll_error err;
    int fd = ATOLL_NO_FD;

    if (!error) {
        fd = take_socket(answer, &err);
        error = fd < 0 ? &err : NULL;
    }
    d->done(d->arg, fd, error);
    free(d);
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
    *d = (struct dialing){done, arg};
    r = atoll_engine_running(engine, id, &s, &err);
    if (r == 0)
        r = atoll_sandbox_ask(s, ATOLL_AGENT_CONNECT, &atoll_am_connect_desc, &msg, on_dialed, d,
                              &err);
    if (r < 0) {
        free(d);
        done(arg, ATOLL_NO_FD, &err);
    }
}
