/*
 * Engines that do not see our files: they get our agent as a volume that sandboxes mount read-only,
 * and a stream is a relay executed in the container.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include "base/buf.h"
#include "base/sha1.h"
#include "proto/agent_proto.h"
#include "provider/docker/docker_internal.h"

#define AGENT_MAX (64 * 1024 * 1024)
#define AGENT_BIN ATOLL_DOCKER_INSIDE "/bin"

/* The name includes a hash of the contents: another version of the agent has another volume. */
static int volume_name(const struct atoll_docker *d, char *out, struct atoll_error *err)
{
    ATOLL_AUTOCLOSE int fd = open(d->agent_path, O_RDONLY | O_CLOEXEC);
    uint8_t digest[ATOLL_SHA1_BYTES];
    struct atoll_buf all;
    ssize_t n = 1;

    if (fd < 0)
        return atoll_fail_errno(err, errno, "open the agent");
    atoll_buf_init(&all, AGENT_MAX);
    while (n > 0) {
        uint8_t *tail;
        if (atoll_buf_reserve(&all, 256 * 1024, &tail) < 0) {
            n = -1;
            break;
        }
        n = read(fd, tail, 256 * 1024);
        if (n > 0)
            atoll_buf_commit(&all, (size_t)n);
    }
    if (n == 0)
        atoll_sha1(atoll_buf_head(&all), atoll_buf_size(&all), digest);
    atoll_buf_done(&all);
    if (n < 0)
        return atoll_fail_errno(err, EIO, "read the agent");
    (void)snprintf(out, 64, "atoll-agent-%02x%02x%02x%02x%02x%02x", digest[0], digest[1], digest[2],
                   digest[3], digest[4], digest[5]);
    return 0;
}

/* Files are copied into a volume through a container that never runs; any image will do. */
static int fill_volume(struct atoll_docker *d, const struct atoll_sync_call *call,
                       const char *container, struct atoll_error *err)
{
    struct atoll_docker_tar *tar = NULL;
    struct atoll_docker_ask put = {.method = "PUT", .read = atoll_docker_tar_read};
    char path[256];
    int r = atoll_docker_tar_file(d->agent_path, "atoll-agent", &tar, err);

    if (r < 0)
        return r;
    (void)snprintf(path, sizeof(path), "/containers/%s/archive?path=" AGENT_BIN, container);
    put.path = path;
    put.read_arg = tar;
    r = atoll_docker_http_ask(d->http, call, &put, NULL, err);
    tar = atoll_docker_tar_free(tar);
    return r < 0 ? r : 0;
}

static int send_agent(struct atoll_docker *d, const struct atoll_sync_call *call,
                      const char *image_id, const char *volume, struct atoll_error *err)
{
    ATOLL_DOCKER_AUTOJSON json_t *answer = NULL;
    struct atoll_docker_ask create = {.method = "POST", .path = "/containers/create"};
    struct atoll_sync_call after;
    const char *container;
    struct atoll_error unused;
    int r;

    create.json = json_pack("{s:s, s:[s], s:{s:s}, s:{s:s, s:[{s:s, s:s, s:s}]}}", "Image",
                            image_id, "Entrypoint", "/", "Labels", ATOLL_DOCKER_LABEL, d->daemon_id,
                            "HostConfig", "NetworkMode", "none", "Mounts", "Type", "volume",
                            "Source", volume, "Target", AGENT_BIN);
    r = atoll_docker_http_ask(d->http, call, &create, &answer, err);
    if (r < 0)
        return r;
    container = json_string_value(json_object_get(answer, "Id"));
    if (!container)
        return atoll_fail(err, ATOLL_ERR_INTERNAL, EPROTO, "Docker's answer has no container id");
    r = fill_volume(d, call, container, err);
    after = atoll_docker_after();
    (void)!atoll_docker_http_askf(d->http, &after, NULL, &unused, "DELETE",
                                  "/containers/%s?force=1", container);
    return r;
}

int atoll_docker_remote_agent(struct atoll_docker *d, const struct atoll_sync_call *call,
                              const char *image_id, char *out, struct atoll_error *err)
{
    int r = volume_name(d, out, err);

    if (r == 0)
        r = atoll_docker_lock(&d->sending, call, err);
    if (r < 0)
        return r;
    /* Once per daemon even if the volume exists: an earlier daemon may have been stopped while
     * filling it. */
    if (!d->agent_sent)
        r = send_agent(d, call, image_id, out, err);
    d->agent_sent = d->agent_sent || r == 0;
    (void)pthread_mutex_unlock(&d->sending);
    return r;
}

int atoll_docker_remote_dial(struct atoll_docker *d, const struct atoll_sync_call *call,
                             const char *which, int *ret_fd, struct atoll_error *err)
{
    ATOLL_DOCKER_AUTOJSON json_t *answer = NULL;
    struct atoll_docker_ask ask = {.method = "POST"};
    const char *exec;
    char path[256];
    int r;

    (void)snprintf(path, sizeof(path), "/containers/%s/exec", which);
    ask.path = path;
    ask.json = json_pack("{s:[s, s, s], s:s, s:b, s:b, s:b, s:b}", "Cmd", AGENT_BIN "/atoll-agent",
                         "--relay", ATOLL_DOCKER_INSIDE "/run/" ATOLL_DOCKER_SOCKET, "User", "0:0",
                         "AttachStdin", 1, "AttachStdout", 1, "AttachStderr", 1, "Tty", 0);
    r = atoll_docker_http_ask(d->http, call, &ask, &answer, err);
    if (r == -EEXIST) /* the container does not run; inspect() reports why */
        return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, ECONNREFUSED,
                          "the sandbox's agent does not answer");
    if (r < 0)
        return r;
    exec = json_string_value(json_object_get(answer, "Id"));
    if (!exec || strlen(exec) > 128)
        return atoll_fail(err, ATOLL_ERR_INTERNAL, EPROTO, "Docker's answer has no exec id");
    (void)snprintf(path, sizeof(path), "/exec/%s/start", exec);
    return atoll_docker_http_hijack(d->http, call, path, "{\"Detach\":false,\"Tty\":false}", ret_fd,
                                    err);
}

static int heard(void *arg, struct atoll_frame *frame)
{
    bool *answered = arg;

    *answered = frame->type == ATOLL_AGENT_REPLY;
    return 0;
}

/* A relay ends if the agent does not listen; else it carries the agent's greeting back. */
int atoll_docker_remote_greet(struct atoll_docker *d, const struct atoll_sync_call *call,
                              const char *which, struct atoll_error *err)
{
    struct atoll_am_hello hello = {.version = ATOLL_AGENT_VERSION};
    struct atoll_channel channel;
    bool answered = false;
    int fd, r = atoll_docker_remote_dial(d, call, which, &fd, err);

    if (r < 0)
        return r;
    r = atoll_channel_init(&channel, fd, 64 * 1024);
    if (r == 0)
        r = atoll_channel_send(&channel, ATOLL_AGENT_HELLO, 1, &atoll_am_hello_desc, &hello, NULL,
                               0);
    if (r == 0)
        r = atoll_channel_flush(&channel);
    while (r >= 0 && !answered) {
        struct pollfd fds[2] = {{.fd = fd, .events = POLLIN},
                                {.fd = call->cancel_fd, .events = POLLIN}};
        (void)poll(fds, 2, atoll_sync_left_ms(call));
        if (atoll_sync_left_ms(call) == 0 || atoll_sync_cancelled(call))
            r = -ETIMEDOUT;
        else if (fds[0].revents)
            r = atoll_channel_receive(&channel, heard, &answered);
    }
    atoll_channel_done(&channel);
    if (!answered)
        return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, ECONNREFUSED,
                          "the sandbox's agent does not answer");
    return 0;
}
