#include "api/ssh.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "api/api_internal.h"
#include "base/clock.h"

/* The host of the Host header, without its port; "localhost" for a client on the unix socket. */
static void write_host(const struct atoll_api_call *call, char *out, size_t cap)
{
    const char *host = call->req ? atoll_http_header(call->req, "host") : NULL, *colon;
    const struct atoll_ssh_site *site = call->api->config.ssh;
    size_t n;

    if (*site->host)
        host = site->host;
    else if (!host || !*host || atoll_http_peer(call->req)->is_unix)
        host = "localhost";
    colon = strrchr(host, ':');
    n = colon && !strchr(colon, ']') && host != site->host ? (size_t)(colon - host) : strlen(host);
    if (host[0] == '[' && n > 2 && host[n - 1] == ']') { /* as ssh takes it */
        host++;
        n -= 2;
    }
    (void)snprintf(out, cap, "%.*s", (int)n, host);
}

int atoll_ssh_grant(struct atoll_api_call *call, uint64_t minutes, struct atoll_ssh_access *ret,
                    struct atoll_error *err)
{
    const struct atoll_ssh_site *site = call->api->config.ssh;
    struct atoll_sandbox_tokens *tokens = call->api->config.auth.tokens;
    int r;

    if (!site || !tokens)
        return atoll_fail(
            err, ATOLL_ERR_UNIMPLEMENTED, ENOSYS,
            "this daemon serves no SSH: it was started without --ssh-listen "
            "HOST:PORT. Use a terminal (`atoll exec -it %s bash`), or a preview for a "
            "port",
            call->params.id);
    *ret = (struct atoll_ssh_access){.port = site->port, .host_key = site->host_key(site->arg)};
    if (!ret->host_key)
        return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, EAGAIN,
                          "the SSH server is being started; try again in a moment");
    write_host(call, ret->host, sizeof(ret->host));
    r = atoll_sandbox_tokens_create(tokens, call->params.id,
                                    atoll_clock_unix_ms() + (int64_t)minutes * 60 * 1000,
                                    ret->token, &ret->view, err);
    (void)snprintf(ret->command, sizeof(ret->command), "ssh -p %u %s@%s", (unsigned)ret->port,
                   ret->token, ret->host);
    return r;
}
