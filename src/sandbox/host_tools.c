/*
 * Optional programs and services: other isolation tiers, and programs that build templates.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include "base/clock.h"
#include "base/text.h"
#include "sandbox/host_internal.h"

#define DOCKER_WAIT_MS 500
/* The configuration that makes a tier a provider; see engine/provider/advice.c. */
#define LINE(settings) "\"" settings "\" under \"providers:\" in providers.yaml"
#define DOCKER_LINE LINE("docker: {default_image: 'debian:12'}")

const char *atoll_host_docker_socket(void)
{
    const char *host = getenv("DOCKER_HOST");

    if (host && strncmp(host, "unix://", 7) == 0)
        return host + 7;
    return "/var/run/docker.sock";
}

static int connect_unix(const char *path)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    ATOLL_AUTOCLOSE int fd = ATOLL_NO_FD;

    if (atoll_text_copy(addr.sun_path, sizeof(addr.sun_path), path) < 0)
        return -ENAMETOOLONG;
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)&addr, sizeof(addr)) < 0)
        return -errno;
    return ATOLL_TAKE_FD(fd);
}

int atoll_host_ping_docker(void)
{
    static const char request[] = "GET /_ping HTTP/1.0\r\nHost: docker\r\n\r\n";
    ATOLL_AUTOCLOSE int fd = connect_unix(atoll_host_docker_socket());
    int64_t deadline = atoll_clock_ms() + DOCKER_WAIT_MS;
    char reply[64];
    size_t len = 0;

    if (fd < 0)
        return fd;
    if (send(fd, request, sizeof(request) - 1, MSG_NOSIGNAL) < 0)
        return -errno;
    while (len < 12) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        int64_t left = deadline - atoll_clock_ms();
        ssize_t n;
        if (left <= 0 || poll(&p, 1, (int)left) <= 0)
            return -ETIMEDOUT;
        n = read(fd, reply + len, sizeof(reply) - len);
        if (n <= 0)
            return n == 0 ? -EPIPE : -errno;
        len += (size_t)n;
    }
    return memcmp(reply + 8, " 200", 4) == 0 ? 0 : -EPROTO;
}

static void check_docker(struct atoll_host_report *report)
{
    int r = atoll_host_ping_docker();

    if (r == 0)
        atoll_host_add(report, "Docker", ATOLL_HOST_OK, false, "",
                       "%s answers: containers for requests that name docker, for others with %s",
                       atoll_host_docker_socket(), DOCKER_LINE);
    else if (r == -ENOENT)
        atoll_host_add(report, "Docker", ATOLL_HOST_INFO, false,
                       atoll_host_has_program("dockerd")
                           ? "systemctl start docker"
                           : "apt install docker.io, then " DOCKER_LINE,
                       "no socket at %s", atoll_host_docker_socket());
    else if (r == -EACCES)
        atoll_host_add(report, "Docker", ATOLL_HOST_INFO, false, "sudo usermod -aG docker $USER",
                       "%s cannot be opened by this user", atoll_host_docker_socket());
    else
        atoll_host_add(report, "Docker", ATOLL_HOST_WARN, false, "systemctl restart docker",
                       "%s does not answer: %s", atoll_host_docker_socket(), strerror(-r));
}

static void check_program(struct atoll_host_report *report, const char *name, const char *program,
                          const char *gives, const char *fix)
{
    if (atoll_host_has_program(program))
        atoll_host_add(report, name, ATOLL_HOST_OK, false, "", "%s: %s", program, gives);
    else
        atoll_host_add(report, name, ATOLL_HOST_INFO, false, fix,
                       "%s is not installed; it gives %s", program, gives);
}

static void check_gvisor(struct atoll_host_report *report)
{
    static const char gives[] = "a kernel of its own for each sandbox";

    if (!atoll_host_has_program("runsc"))
        atoll_host_add(report, "gVisor", ATOLL_HOST_INFO, false,
                       "apt install runsc, then " LINE("gvisor: {}") " and a restart of atolld",
                       "runsc is not installed; it gives %s", gives);
    else if (!report->caps.root)
        atoll_host_add(report, "gVisor", ATOLL_HOST_INFO, false, "run atolld as root",
                       "runsc gives %s, and needs root", gives);
    else
        atoll_host_add(report, "gVisor", ATOLL_HOST_OK, false, "", "runsc: %s, with %s", gives,
                       LINE("gvisor: {}"));
}

void atoll_host_check_tools(struct atoll_host_report *report)
{
    check_gvisor(report);
    check_docker(report);
    check_program(report, "mmdebstrap", "mmdebstrap", "`atoll template debian`",
                  "apt install mmdebstrap");
}
