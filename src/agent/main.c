/*
 * The stand-alone agent, for sandboxes that atoll-spawn does not start directly: a container,
 * gVisor, a virtual machine. In a native sandbox the agent is a forked child of atoll-spawn
 * instead.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "agent/agent.h"
#include "agent/container.h"
#include "agent/http_relay.h"
#include "agent/transport.h"
#include "base/text.h"
#include "proto/agent_proto.h"

static const char usage[] =
    "usage: atoll-agent TRANSPORT [OPTION...]\n"
    "  --listen PATH       accept the daemon on a unix socket; the newest connection wins\n"
    "    --socket-mode MODE   permissions of the socket (default 0600)\n"
    "    --detach             run in the background once the socket is ready\n"
    "    --pid-file PATH      write the pid of the background process to PATH\n"
    "  --connect PATH      connect to the daemon's unix socket\n"
    "  --serial DEVICE     speak over a serial line or virtio port\n"
    "  --stdio             speak over standard input and output\n"
    "  --relay PATH        no agent: copy standard input and output to and from a unix socket\n"
    "    --http FILE          instead serve streams to that socket over HTTP, at a port of 127.0.0.1;\n"
    "                         FILE and the output get the port and the token of requests\n"
    "    --port N             at this port of all addresses; 0: a free one of 127.0.0.1\n"
    "  --no-fds            do not pass descriptors, even if the transport could\n"
    "  --user NAME --uid N --gid N --home DIR   the default user (default: root)\n"
    "  --in-container USER  use this user (\"\": the image's) and the container's environment and "
    "cgroup\n"
    "    --own DIR            give an empty directory owned by root to that user\n"
    "    --workdir            start commands in the agent's working directory, unless it is /\n"
    "  --sudo              allow that user to use sudo\n"
    "  --one-id            only one user id is mapped\n"
    "  --memory-limit N    memory limit in bytes, for reports of out-of-memory kills\n"
    "  --version           print the versions of the program and of the protocol\n";

enum {
    OPT_LISTEN = 256,
    OPT_CONNECT,
    OPT_SERIAL,
    OPT_STDIO,
    OPT_RELAY,
    OPT_HTTP,
    OPT_PORT,
    OPT_SOCKET_MODE,
    OPT_DETACH,
    OPT_PID_FILE,
    OPT_NO_FDS,
    OPT_VERSION,
    OPT_USER,
    OPT_UID,
    OPT_GID,
    OPT_HOME,
    OPT_IN_CONTAINER,
    OPT_OWN,
    OPT_WORKDIR,
    OPT_SUDO,
    OPT_ONE_ID,
    OPT_MEMORY
};

static const struct option options[] = {
    {"listen", required_argument, NULL, OPT_LISTEN},
    {"connect", required_argument, NULL, OPT_CONNECT},
    {"serial", required_argument, NULL, OPT_SERIAL},
    {"stdio", no_argument, NULL, OPT_STDIO},
    {"relay", required_argument, NULL, OPT_RELAY},
    {"http", required_argument, NULL, OPT_HTTP},
    {"port", required_argument, NULL, OPT_PORT},
    {"socket-mode", required_argument, NULL, OPT_SOCKET_MODE},
    {"detach", no_argument, NULL, OPT_DETACH},
    {"pid-file", required_argument, NULL, OPT_PID_FILE},
    {"no-fds", no_argument, NULL, OPT_NO_FDS},
    {"version", no_argument, NULL, OPT_VERSION},
    {"user", required_argument, NULL, OPT_USER},
    {"uid", required_argument, NULL, OPT_UID},
    {"gid", required_argument, NULL, OPT_GID},
    {"home", required_argument, NULL, OPT_HOME},
    {"in-container", required_argument, NULL, OPT_IN_CONTAINER},
    {"own", required_argument, NULL, OPT_OWN},
    {"workdir", no_argument, NULL, OPT_WORKDIR},
    {"sudo", no_argument, NULL, OPT_SUDO},
    {"one-id", no_argument, NULL, OPT_ONE_ID},
    {"memory-limit", required_argument, NULL, OPT_MEMORY},
    {NULL, 0, NULL, 0},
};

/* The parsed command line. */
struct options {
    struct atoll_agent_config config;
    const char *listen, *connect, *serial, *relay, *http, *pid_file;
    uint32_t socket_mode;
    uint64_t port;
    bool stdio, detach, no_fds, version;
    bool user; /* the default user was given */
};

static int set_number(const char *text, uint64_t max, uint64_t *value, struct atoll_error *err)
{
    if (atoll_text_u64(text, 0, max, value) < 0)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "%s is not a number", text);
    return 0;
}

static int set_mode(const char *text, uint32_t *mode, struct atoll_error *err)
{
    unsigned value;
    char rest;

    if (sscanf(text, "%o%c", &value, &rest) != 1 || value > 0777)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "%s is not a mode such as 0600",
                          text);
    *mode = value;
    return 0;
}

static int apply_transport(struct options *w, int option, const char *arg, struct atoll_error *err)
{
    switch (option) {
    case OPT_LISTEN:
        w->listen = arg;
        break;
    case OPT_CONNECT:
        w->connect = arg;
        break;
    case OPT_SERIAL:
        w->serial = arg;
        break;
    case OPT_STDIO:
        w->stdio = true;
        break;
    case OPT_RELAY:
        w->relay = arg;
        break;
    case OPT_HTTP:
        w->http = arg;
        break;
    case OPT_PORT:
        return set_number(arg, UINT16_MAX, &w->port, err);
    case OPT_SOCKET_MODE:
        return set_mode(arg, &w->socket_mode, err);
    case OPT_DETACH:
        w->detach = true;
        break;
    case OPT_PID_FILE:
        w->pid_file = arg;
        break;
    case OPT_NO_FDS:
        w->no_fds = true;
        break;
    case OPT_VERSION:
        w->version = true;
        break;
    default:
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "%s", usage);
    }
    return 0;
}

static int apply(struct options *w, int option, const char *arg, struct atoll_error *err)
{
    struct atoll_agent_config *c = &w->config;
    uint64_t number = 0;
    int r = 0;

    switch (option) {
    case OPT_USER:
        c->default_user = arg;
        w->user = true;
        break;
    case OPT_UID:
        r = set_number(arg, UINT32_MAX - 1, &number, err);
        c->default_uid = (uint32_t)number;
        break;
    case OPT_GID:
        r = set_number(arg, UINT32_MAX - 1, &number, err);
        c->default_gid = (uint32_t)number;
        break;
    case OPT_HOME:
        c->default_home = arg;
        break;
    case OPT_IN_CONTAINER:
        w->user = true;
        atoll_agent_container_cgroup(c);
        r = atoll_agent_container_user(c, arg, err);
        if (r == 0)
            r = atoll_agent_container_env(c, err);
        break;
    case OPT_OWN:
        atoll_agent_container_own(c, arg);
        break;
    case OPT_WORKDIR:
        atoll_agent_container_workdir(c);
        break;
    case OPT_SUDO:
        c->allow_sudo = true;
        break;
    case OPT_ONE_ID:
        c->many_ids = false;
        break;
    case OPT_MEMORY:
        r = set_number(arg, UINT64_MAX, &c->memory_limit_bytes, err);
        break;
    default:
        r = apply_transport(w, option, arg, err);
    }
    return r;
}

static int open_transport(struct options *w, struct atoll_error *err)
{
    struct atoll_agent_config *c = &w->config;

    c->fds = (w->listen || w->connect) && !w->no_fds;
    c->listen = w->listen ? atoll_agent_transport_listen : NULL;
    c->listen_path = w->listen;
    c->listen_mode = w->socket_mode;
    if (w->listen)
        return c->listen_fd = atoll_agent_transport_listen(w->listen, w->socket_mode, err);
    if (w->connect)
        return c->conn_fd = atoll_agent_transport_connect(w->connect, err);
    if (w->serial)
        return c->conn_fd = atoll_agent_transport_serial(w->serial, err);
    return c->conn_fd = atoll_agent_transport_stdio(err);
}

static int run_http_relay(const struct options *w, struct atoll_error *err)
{
    struct atoll_agent_http_relay relay;
    int r = atoll_agent_http_relay_open(&relay, w->http, w->relay, (uint16_t)w->port, err);

    if (r > 0)
        exit(0); /* another process serves it */
    if (r == 0 && w->detach)
        r = atoll_agent_detach(w->pid_file, err);
    if (r == 0)
        atoll_agent_http_relay_run(&relay);
    return r;
}

static int run(struct options *w, struct atoll_error *err)
{
    int r;

    if (w->http)
        return run_http_relay(w, err);
    if (w->relay) {
        r = atoll_agent_transport_connect(w->relay, err);
        if (r >= 0)
            atoll_agent_relay(r);
        return r;
    }
    if (geteuid() != 0) { /* only root can act as other users */
        w->config.many_ids = false;
        if (!w->user) {
            r = atoll_agent_own_user(&w->config, err);
            if (r < 0)
                return r;
        }
    }
    r = open_transport(w, err);
    if (r >= 0 && w->detach)
        r = atoll_agent_detach(w->pid_file, err);
    return r < 0 ? r : atoll_agent_run(&w->config, err);
}

/* Exactly one transport, and only options that apply to it. */
static bool is_valid(const struct options *w)
{
    int ways = (w->listen != NULL) + (w->connect != NULL) + (w->serial != NULL) +
               (w->relay != NULL) + w->stdio;

    return w->version ||
           (ways == 1 && (w->listen || w->http || !w->detach) && (w->relay || !w->http) &&
            (w->http || !w->port) && (w->detach || !w->pid_file));
}

int main(int argc, char **argv)
{
    struct options parsed = {
        .config = {.listen_fd = ATOLL_NO_FD,
                   .conn_fd = ATOLL_NO_FD,
                   .oom_fd = ATOLL_NO_FD,
                   .peak_fd = ATOLL_NO_FD,
                   .boot_id_fd = ATOLL_NO_FD,
                   .many_ids = true,
                   .default_user = "root",
                   .default_home = "/root"},
        .socket_mode = ATOLL_AGENT_SOCKET_MODE,
    };
    struct atoll_error err = {0};
    int option, r = 0;

    while (r >= 0 && (option = getopt_long(argc, argv, "", options, NULL)) >= 0)
        r = apply(&parsed, option, optarg, &err);
    if (r >= 0 && (optind < argc || !is_valid(&parsed)))
        r = atoll_fail(&err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "%s", usage);
    if (r >= 0 && parsed.version)
        return printf("atoll-agent %s protocol %d\n", ATOLL_VERSION, ATOLL_AGENT_VERSION) < 0;
    if (r >= 0)
        r = run(&parsed, &err);
    (void)fprintf(stderr, "atoll-agent: %s\n", err.text);
    return r < 0 ? 1 : 0;
}
