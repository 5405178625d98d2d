#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "base/fd.h"
#include "base/text.h"
#include "provider/disk_image.h"
#include "provider/gvisor/gvisor_internal.h"
#include "sandbox/plan_builder.h"
#include "sys/unix_socket.h"

/*
 * Makes a sandbox: atoll-spawn carries out a plan and becomes runsc, runsc starts the agent, and
 * the agent makes its socket in a directory of the host. Then the socket is moved elsewhere and the
 * directory is removed: a removed directory accepts no new files, so that a tenant, even as root
 * inside, cannot fill the host's disk through it. No code of the tenant runs before the first
 * stream is handed out.
 */

#define SOCKET_NAME "agent" /* ATOLL_AGENT_SOCKET_NAME of atoll-spawn */
#define BUNDLE_MAX (32 * 1024)
#define WAIT_US 2000
#define PATH_SIZE 4200
#define LOOK_EVERY 25 /* polls between two checks that it still lives */

static int send_plan(struct atoll_gvisor *g, const struct atoll_sync_call *call,
                     const struct atoll_spec *spec, unsigned life, struct atoll_error *err)
{
    struct atoll_po_runsc runsc = {.program = g->runsc,
                                   .platform = g->platform,
                                   .network = spec->network != ATOLL_NETWORK_NONE};
    struct atoll_sm_create create = {.id = spec->id};
    struct atoll_buf bundle, plan;
    int r;

    atoll_buf_init(&bundle, BUNDLE_MAX);
    atoll_buf_init(&plan, ATOLL_PLAN_MAX);
    r = atoll_gvisor_bundle(spec, &bundle, err);
    runsc.config = (struct atoll_bytes){atoll_buf_head(&bundle), atoll_buf_size(&bundle)};
    if (r == 0)
        r = atoll_plan_build_runsc(&g->plan_host, spec, &runsc, &plan, err);
    create.plan = (struct atoll_bytes){atoll_buf_head(&plan), atoll_buf_size(&plan)};
    if (r == 0)
        r = atoll_gvisor_ask_create(&g->link, call, life, &create, err);
    atoll_buf_done(&plan);
    atoll_buf_done(&bundle);
    return r;
}

/* Adds what runsc wrote about its end. For the log: it may name paths of the host. */
static int tell_why(struct atoll_gvisor *g, const char *id, struct atoll_error *err)
{
    struct atoll_provider_exit exit = {.code = -1};
    char path[PATH_SIZE], text[4096];
    int n;

    (void)snprintf(path, sizeof(path), "%s/%s.log", g->sandboxes, id);
    n = atoll_fd_read_file(AT_FDCWD, path, text, sizeof(text));
    (void)atoll_gvisor_exit_of(&g->link, id, &exit);
    while (n > 0 && text[n - 1] == '\n')
        text[--n] = '\0';
    /* No message from runsc means that its configuration was valid, so a retry may help. */
    return atoll_fail(err, n > 0 ? ATOLL_ERR_INTERNAL : ATOLL_ERR_UNAVAILABLE, EIO,
                      "runsc failed (status %d, signal %d)%s%.300s", exit.code, exit.signal,
                      n > 0 ? ": " : "", n > 0 ? text : "");
}

/* Waits until the agent listens and returns a connection to it. */
static int await_agent(struct atoll_gvisor *g, const struct atoll_sync_call *call, const char *id,
                       struct atoll_error *err)
{
    char dir[PATH_SIZE];

    if ((size_t)snprintf(dir, sizeof(dir), "%s/%s.run", g->sandboxes, id) >= sizeof(dir))
        return atoll_fail_errno(err, ENAMETOOLONG, "state directory");
    for (unsigned waits = 1;; waits++) {
        int fd = atoll_unix_connect(dir, SOCKET_NAME);
        int alive;

        /* EACCES: the socket exists, but its mode is not set yet. */
        if (fd >= 0 || (fd != -ENOENT && fd != -ECONNREFUSED && fd != -EACCES))
            return fd < 0 ? atoll_fail_errno(err, -fd, "connect to the agent") : fd;
        if (atoll_sync_cancelled(call))
            return atoll_fail(err, ATOLL_ERR_ABORTED, ECANCELED, "the request was cancelled");
        if (atoll_sync_left_ms(call) == 0)
            return atoll_fail(err, ATOLL_ERR_DEADLINE_EXCEEDED, ETIMEDOUT,
                              "gVisor did not start the agent in time");
        alive = waits % LOOK_EVERY ? 1 : atoll_gvisor_alive(g, call, id, err);
        if (alive <= 0)
            return alive < 0 ? alive : tell_why(g, id, err);
        (void)usleep(WAIT_US);
    }
}

static int move_socket(struct atoll_gvisor *g, const char *id, struct atoll_error *err)
{
    ATOLL_AUTOCLOSE int dir = open(g->sandboxes, O_PATH | O_DIRECTORY | O_CLOEXEC);
    char from[64], to[48];

    (void)snprintf(from, sizeof(from), "%s.run/" SOCKET_NAME, id);
    (void)snprintf(to, sizeof(to), "%s.sock", id);
    if (dir < 0 || renameat(dir, from, dir, to) < 0)
        return atoll_fail_errno(err, errno, "move the agent's socket");
    (void)snprintf(from, sizeof(from), "%s.run", id);
    if (unlinkat(dir, from, AT_REMOVEDIR) < 0)
        return atoll_fail_errno(err, errno, "remove the socket's directory");
    return 0;
}

int atoll_gvisor_restored(struct atoll_gvisor *g, const struct atoll_sync_call *call,
                          const char *id, struct atoll_error *err)
{
    ATOLL_AUTOCLOSE int dir = open(g->sandboxes, O_PATH | O_DIRECTORY | O_CLOEXEC);
    ATOLL_AUTOCLOSE int fd = ATOLL_NO_FD;
    char name[64];

    (void)snprintf(name, sizeof(name), "%s.run", id);
    if (dir < 0)
        return atoll_fail_errno(err, errno, "open the directory of sandboxes");
    if (faccessat(dir, name, F_OK, 0) < 0)
        return 0; /* it was frozen */
    fd = await_agent(g, call, id, err);
    if (fd < 0)
        return fd;
    (void)snprintf(name, sizeof(name), "%s.saved/checkpoint.img", id);
    (void)unlinkat(dir, name, 0);
    (void)snprintf(name, sizeof(name), "%s.saved", id);
    (void)unlinkat(dir, name, AT_REMOVEDIR);
    return move_socket(g, id, err);
}

static int start(struct atoll_gvisor *g, const struct atoll_sync_call *call,
                 const struct atoll_spec *spec, unsigned life, int *ret_fd, struct atoll_error *err)
{
    ATOLL_AUTOCLOSE int fd = ATOLL_NO_FD;
    char image[64];
    int r = 0;

    if (atoll_plan_needs_image(&g->plan_host, spec, image, sizeof(image)))
        r = atoll_disk_image_make_now(g->state_dir, image, spec->limits.disk_bytes,
                                      spec->limits.inodes, false, err);
    if (r == 0)
        r = send_plan(g, call, spec, life, err);
    if (r == 0)
        r = fd = await_agent(g, call, spec->id, err);
    if (r >= 0)
        r = move_socket(g, spec->id, err);
    if (r == 0)
        *ret_fd = ATOLL_TAKE_FD(fd);
    return r;
}

static int refuse(const struct atoll_spec *spec, struct atoll_error *err)
{
    if (*spec->image && (!spec->layers || !*spec->layers))
        return atoll_fail(err, ATOLL_ERR_UNIMPLEMENTED, EOPNOTSUPP,
                          "provider gvisor runs the layers of images, and got none");
    if (spec->builder || spec->persistent || spec->resume_disk)
        return atoll_fail(err, ATOLL_ERR_UNIMPLEMENTED, EOPNOTSUPP,
                          "provider gvisor has no persistent disks");
    return 0;
}

int atoll_gvisor_create(struct atoll_sync_provider *p, const struct atoll_sync_call *call,
                        struct atoll_spec *spec, int *ret_fd, struct atoll_error *err)
{
    struct atoll_gvisor *g = ATOLL_CONTAINER_OF(p, struct atoll_gvisor, base);
    /* Undoing has a deadline of its own, independent of the caller's. */
    struct atoll_sync_call undo = {.cancel_fd = ATOLL_NO_FD};
    struct atoll_gvisor_range range;
    struct atoll_error ignored;
    int r = refuse(spec, err);

    if (r == 0)
        r = atoll_gvisor_clear(g, call, spec->id, err);
    if (r == 0)
        r = atoll_gvisor_range_take(g, spec, &range, err);
    if (r < 0)
        return r;
    r = start(g, call, spec, range.life, ret_fd, err);
    if (r == 0)
        return 0;
    undo.deadline_ms = atoll_clock_ms() + 10000;
    if (atoll_gvisor_remove(g, &undo, spec->id, &ignored) == 0)
        atoll_gvisor_range_give(g, &range);
    return r;
}
