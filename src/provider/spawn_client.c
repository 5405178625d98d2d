#include "provider/spawn_client.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include "base/clock.h"
#include "base/switches.h"
#include "base/text.h"
#include "sandbox/spec.h"
#include "sys/unix_socket.h"

#define START_TIMEOUT_MS 5000
#define SERVED_US (100 * 1000)
#define WAITING_MAX 65536 /* a daemon that stops destroys all its sandboxes at once */

static int decode_error(const struct atoll_frame *frame, struct atoll_error *ret_error,
                        struct atoll_error *err)
{
    struct atoll_sm_error msg;
    int r = atoll_msg_decode(&atoll_sm_error_desc, frame->payload, frame->len, &msg, err);

    if (r < 0)
        return r;
    (void)atoll_fail(ret_error, (enum atoll_error_kind)msg.kind, msg.errnum, "%s", msg.text);
    if (ret_error->kind == ATOLL_ERR_INTERNAL && atoll_errno_is_full(ret_error->errnum)) {
        ret_error->kind = ATOLL_ERR_RESOURCE_EXHAUSTED;
        atoll_advise(ret_error,
                     "free some space on the disk of the daemon's state directory; if the "
                     "disk of the sandbox is full, in the sandbox");
    }
    return 0;
}

static const uint16_t lists[] = {ATOLL_SPAWN_LIST, 0};

const struct atoll_rpc_protocol atoll_spawn_protocol = {.reply = ATOLL_SPAWN_REPLY,
                                                        .part = ATOLL_SPAWN_PART,
                                                        .error = ATOLL_SPAWN_ERROR,
                                                        .lists = lists,
                                                        .decode_error = decode_error,
                                                        .waiting_max = WAITING_MAX};

const struct atoll_sm_hello atoll_spawn_hello = {.version = ATOLL_SPAWN_VERSION};

struct handshake {
    struct atoll_spawn_info *info;
    bool answered;
    struct atoll_error *err;
};

static uint32_t lacking_limits(const struct atoll_sm_hello *hello)
{
    if (hello->cgroup_version == 0)
        return ATOLL_LIMIT_MEMORY | ATOLL_LIMIT_CPU | ATOLL_LIMIT_PIDS | ATOLL_LIMIT_IO;
    return (hello->cgroup_lacks & ATOLL_SPAWN_LACKS_MEMORY ? ATOLL_LIMIT_MEMORY : 0) |
           (hello->cgroup_lacks & ATOLL_SPAWN_LACKS_CPU ? ATOLL_LIMIT_CPU : 0) |
           (hello->cgroup_lacks & ATOLL_SPAWN_LACKS_PIDS ? ATOLL_LIMIT_PIDS : 0) |
           (hello->gives & ATOLL_SPAWN_GIVES_IO ? 0 : ATOLL_LIMIT_IO);
}

static void note_ids(struct atoll_spawn_info *info, const struct atoll_sm_hello *hello)
{
    size_t more = ATOLL_MIN(hello->id_more.len / sizeof(uint32_t), (size_t)ATOLL_ID_BLOCKS_MAX - 1);

    info->id_slots = hello->id_slots;
    info->id_bases[0] = hello->id_base;
    if (more > 0)
        memcpy(&info->id_bases[1], hello->id_more.data, more * sizeof(uint32_t));
    info->id_blocks = hello->id_slots > 0 ? 1 + more : 0;
}

int atoll_spawn_info_ids(const struct atoll_spawn_info *info, struct atoll_id_pool *ret)
{
    int r = 0;

    atoll_id_pool_init(ret);
    for (size_t i = 0; r == 0 && i < info->id_blocks; i++)
        r = atoll_id_pool_add(ret, info->id_bases[i], info->id_slots);
    if (r < 0)
        atoll_id_pool_done(ret);
    return r;
}

int atoll_spawn_read_hello(const struct atoll_frame *frame, struct atoll_spawn_info *info,
                           struct atoll_error *err)
{
    struct atoll_sm_hello hello;
    int r = atoll_msg_decode(&atoll_sm_hello_desc, frame->payload, frame->len, &hello, err);

    if (r < 0)
        return r;
    info->root = hello.root;
    info->cgroup_version = hello.cgroup_version;
    info->lacking = lacking_limits(&hello);
    note_ids(info, &hello);
    info->hides = hello.hides;
    info->network = hello.gives & ATOLL_SPAWN_GIVES_NETWORK;
    info->saves = hello.gives & ATOLL_SPAWN_GIVES_SAVE;
    info->reclaims = hello.gives & ATOLL_SPAWN_GIVES_RECLAIM;
    info->snapshots = hello.gives & ATOLL_SPAWN_GIVES_SNAPSHOTS;
    info->volumes = hello.gives & ATOLL_SPAWN_GIVES_VOLUMES;
    info->volume_copies = hello.gives & ATOLL_SPAWN_GIVES_VOLUME_COPIES;
    info->volume_images = hello.gives & ATOLL_SPAWN_GIVES_VOLUME_IMAGES;
    info->pool = hello.gives & ATOLL_SPAWN_GIVES_POOL;
    info->folders = hello.gives & ATOLL_SPAWN_GIVES_FOLDERS;
    info->stacks = hello.gives & ATOLL_SPAWN_GIVES_STACKS;
    r = atoll_text_copy(info->instance, sizeof(info->instance), hello.instance);
    if (r == 0)
        r = atoll_text_copy(info->cgroup_path, sizeof(info->cgroup_path),
                            hello.cgroup_path ? hello.cgroup_path : "");
    return r;
}

static int on_hello(void *arg, struct atoll_frame *frame)
{
    struct handshake *h = arg;
    int r;

    if (frame->type != ATOLL_SPAWN_REPLY) {
        r = decode_error(frame, h->err, h->err);
        return r < 0 ? r : -EPROTO;
    }
    h->answered = true;
    return atoll_spawn_read_hello(frame, h->info, h->err);
}

/* The handshake, before the connection is on the loop. */
static int handshake(int fd, struct atoll_spawn_info *info, struct atoll_error *err)
{
    struct handshake h = {info, false, err};
    struct atoll_channel channel;
    int r = atoll_channel_init(&channel, fd, 4096);

    (void)atoll_fail(err, ATOLL_ERR_UNAVAILABLE, EPROTO, "atoll-spawn does not answer");
    if (r == 0)
        r = atoll_channel_send(&channel, ATOLL_SPAWN_HELLO, 1, &atoll_sm_hello_desc,
                               &atoll_spawn_hello, NULL, 0);
    if (r == 0)
        r = atoll_channel_flush(&channel);
    while (r >= 0 && !h.answered) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        r = poll(&p, 1, START_TIMEOUT_MS) == 1 ? atoll_channel_receive(&channel, on_hello, &h)
                                               : -ETIMEDOUT;
    }
    channel.fd = ATOLL_NO_FD; /* the caller keeps it */
    atoll_channel_done(&channel);
    return r < 0 ? r : 0;
}

/* The program leaves our session by itself and outlives the daemon; it inherits our standard
 * error for its log. */
static int start_program(const char *program, const char *state_dir, const char *const *folders,
                         pid_t *ret_pid, struct atoll_error *err)
{
    char *argv[3 + ATOLL_HOST_FOLDERS_MAX] = {(char *)(uintptr_t)program,
                                              (char *)(uintptr_t)state_dir};
    int r;

    for (size_t i = 0; folders && folders[i] && i < ATOLL_HOST_FOLDERS_MAX; i++)
        argv[2 + i] = (char *)(uintptr_t)folders[i];
    r = posix_spawn(ret_pid, program, NULL, NULL, argv,
                    atoll_weakened("environment") ? environ : atoll_switches_env());

    return r ? atoll_fail_errno(err, r, "start %s", program) : 0;
}

int atoll_spawn_try(const char *state_dir)
{
    return atoll_unix_connect(state_dir, "spawn.sock");
}

/* Connects and does the handshake. -EAGAIN if no atoll-spawn answers yet: there is no socket, or
 * its owner is just ending. */
static int try_connect(const char *state_dir, int *ret_fd, struct atoll_spawn_info *info,
                       struct atoll_error *err)
{
    int fd = atoll_spawn_try(state_dir);
    int r;

    if (fd == -ENOENT || fd == -ECONNREFUSED)
        return -EAGAIN;
    if (fd < 0)
        return atoll_fail_errno(err, -fd, "connect to atoll-spawn");
    r = handshake(fd, info, err);
    if (r == 0) {
        *ret_fd = fd;
        return 0;
    }
    (void)close(fd);
    return r == -EPIPE || r == -ECONNRESET ? -EAGAIN : r;
}

int atoll_spawn_connect(const char *state_dir, const char *program, const char *const *folders,
                        int *ret_fd, struct atoll_spawn_info *ret_info, struct atoll_error *err)
{
    int64_t deadline = atoll_clock_ms() + START_TIMEOUT_MS;
    pid_t child = 0;
    int r, status = 0;

    while ((r = try_connect(state_dir, ret_fd, ret_info, err)) == -EAGAIN) {
        if (program && child == 0) {
            r = start_program(program, state_dir, folders, &child, err);
            if (r < 0)
                return r;
        }
        if (child > 0 && waitpid(child, &status, WNOHANG) != 0) {
            if (!WIFEXITED(status) || WEXITSTATUS(status) != ATOLL_SPAWN_SERVED)
                return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, ECHILD,
                                  "atoll-spawn ended while starting; its reason is in the log");
            /* The keeper of a killed one was faster, and that one will listen; or one is just ending. */
            child = 0;
            (void)usleep(SERVED_US);
        }
        if (atoll_clock_ms() > deadline)
            return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, ETIMEDOUT,
                              program ? "atoll-spawn does not start" : ATOLL_SPAWN_GONE);
        (void)usleep(500);
    }
    return r;
}
