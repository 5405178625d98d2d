/*
 * One container: create, start, dial, remove.
 *
 * The agent binds its socket in a directory that the container shares with us. As soon as it
 * answers, the socket is moved elsewhere and the directory is removed: the mount inside then shows
 * a deleted directory. So root inside can neither replace the agent's socket nor write to our disk.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include "base/clock.h"
#include "base/text.h"
#include "provider/docker/docker_internal.h"
#include "provider/docker/stream.h"
#include "sys/tree.h"
#include "sys/unix_socket.h"

#define AGENT_START_MS 30000
#define LOOK_EVERY_MS 250
#define LAST_WORDS_MAX 200
#define AGENT_LATE                                                                          \
    "the agent did not start in time; an engine that does not see this host's files needs " \
    "`remote: true`"

/* --- directory --- */

static int dir_remove(const struct atoll_docker *d, const char *name, struct atoll_error *err)
{
    ATOLL_AUTOCLOSE int fd = open(d->state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int r = fd < 0 ? -errno : atoll_tree_remove(fd, name);

    return r < 0 && r != -ENOENT ? atoll_fail_errno(err, -r, "remove the directory of %s", name)
                                 : 0;
}

/* "STATE/NAME" or "STATE/NAME/run"; malloc'd. */
static char *dir_path(const struct atoll_docker *d, const char *name, bool run)
{
    char *path = NULL;
    return asprintf(&path, "%s/%s%s", d->state_dir, name, run ? "/run" : "") < 0 ? NULL : path;
}

static int dir_make(const struct atoll_docker *d, const char *name, struct atoll_error *err)
{
    ATOLL_AUTOFREE char *dir = dir_path(d, name, false);
    ATOLL_AUTOFREE char *run = dir_path(d, name, true);
    int r = dir_remove(d, name, err);

    if (r < 0)
        return r;
    if (!dir || !run || mkdir(dir, 0700) < 0 || mkdir(run, 0700) < 0)
        return atoll_fail_errno(err, errno, "directory of container %s", name);
    return 0;
}

static int dir_seal(const char *dir, const char *run, struct atoll_error *err)
{
    ATOLL_AUTOCLOSE int from = open(run, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ATOLL_AUTOCLOSE int to = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (renameat(from, ATOLL_DOCKER_SOCKET, to, ATOLL_DOCKER_SOCKET) < 0 || rmdir(run) < 0)
        return atoll_fail_errno(err, errno, "move the agent's socket");
    return 0;
}

/* --- waiting for the agent --- */

struct words {
    struct atoll_docker_demux demux;
    char text[LAST_WORDS_MAX];
    size_t len;
};

static int keep_words(void *arg, const void *bytes, size_t n)
{
    struct words *w = arg;
    const uint8_t *at = bytes;

    while (n > 0) {
        int stream;
        size_t len;
        ssize_t used = atoll_docker_demux_next(&w->demux, at, n, &stream, &len);
        if (used < 0)
            return -EPROTO;
        for (const uint8_t *c = at + used - len; c < at + used && w->len + 1 < sizeof(w->text); c++)
            w->text[w->len++] = (char)(*c < ' ' ? ' ' : *c);
        at += used;
        n -= (size_t)used;
    }
    return 0;
}

/* Fails if the container has ended, with its last output. */
static int still_runs(struct atoll_docker *d, const struct atoll_sync_call *call,
                      const char *handle, struct atoll_error *err)
{
    ATOLL_DOCKER_AUTOJSON json_t *inspect = NULL;
    ATOLL_AUTOFREE char *path = NULL;
    struct atoll_docker_ask ask = {.method = "GET", .sink = keep_words};
    struct atoll_provider_inspection inspection;
    struct words words = {0};
    struct atoll_error unused;
    int r =
        atoll_docker_http_askf(d->http, call, &inspect, err, "GET", "/containers/%s/json", handle);

    if (r < 0)
        return r;
    atoll_docker_inspect_parse(inspect, &inspection);
    if (inspection.state != ATOLL_INSPECT_EXITED)
        return 0;
    ask.sink_arg = &words;
    if (asprintf(&path, "/containers/%s/logs?stdout=1&stderr=1&tail=3", handle) < 0)
        path = NULL;
    ask.path = path;
    if (path)
        (void)!atoll_docker_http_ask(d->http, call, &ask, NULL, &unused);
    return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, ECHILD,
                      "the image cannot be used: the agent did not start in it: %s%s%s",
                      inspection.cause, words.len ? ": " : "", words.text);
}

/* Waits until a file appears in the directory or ms have passed. late: the error text at the
 * deadline. */
static int wait_a_little(const struct atoll_sync_call *call, int notify_fd, int ms,
                         const char *late, struct atoll_error *err)
{
    struct pollfd fds[2] = {{.fd = notify_fd, .events = POLLIN},
                            {.fd = call->cancel_fd, .events = POLLIN}};
    char events[4096];

    (void)poll(fds, 2, ATOLL_MIN(ms, atoll_sync_left_ms(call)));
    if (fds[0].revents)
        (void)!read(notify_fd, events, sizeof(events));
    if (atoll_sync_cancelled(call))
        return atoll_fail(err, ATOLL_ERR_ABORTED, ECANCELED, "the request was cancelled");
    if (atoll_sync_left_ms(call) == 0)
        return atoll_fail(err, ATOLL_ERR_DEADLINE_EXCEEDED, ETIMEDOUT, "%s", late);
    return 0;
}

/* notify_fd has watched `run` since before the container was started. */
static int wait_for_agent(struct atoll_docker *d, const struct atoll_sync_call *call,
                          const char *handle, const char *run, int notify_fd,
                          struct atoll_error *err)
{
    int64_t look_ms = atoll_clock_ms() + LOOK_EVERY_MS;
    struct atoll_sync_call bounded = *call;

    bounded.deadline_ms = ATOLL_MIN(call->deadline_ms, atoll_clock_ms() + AGENT_START_MS);
    for (;;) {
        ATOLL_AUTOCLOSE int fd = atoll_unix_connect(run, ATOLL_DOCKER_SOCKET);
        int r = 0;
        if (fd >= 0)
            return 0;
        if (fd != -ENOENT && fd != -ECONNREFUSED)
            return atoll_fail_errno(err, -fd, "reach the agent");
        if (atoll_clock_ms() >= look_ms) {
            look_ms = atoll_clock_ms() + LOOK_EVERY_MS;
            r = still_runs(d, &bounded, handle, err);
        }
        if (r == 0) /* bound but not listening yet, which inotify does not report */
            r = wait_a_little(&bounded, notify_fd, fd == -ENOENT ? LOOK_EVERY_MS : 1, AGENT_LATE,
                              err);
        if (r < 0)
            return r;
    }
}

/* The same for a remote engine, through a relay. */
static int wait_for_remote(struct atoll_docker *d, const struct atoll_sync_call *call,
                           const char *handle, struct atoll_error *err)
{
    struct atoll_sync_call bounded = *call;
    int r;

    bounded.deadline_ms = ATOLL_MIN(call->deadline_ms, atoll_clock_ms() + AGENT_START_MS);
    for (;;) {
        r = still_runs(d, &bounded, handle, err);
        if (r == 0)
            r = atoll_docker_remote_greet(d, &bounded, handle, err);
        if (r == 0 || err->kind != ATOLL_ERR_UNAVAILABLE)
            return r;
        r = wait_a_little(&bounded, ATOLL_NO_FD, 20, AGENT_LATE, err);
        if (r < 0)
            return r;
    }
}

/* --- create --- */

static int check_limits(const struct atoll_docker_info *info, const struct atoll_spec *spec,
                        struct atoll_error *err)
{
    uint32_t missing = info->missing & ~spec->waived;

    if (missing == 0)
        return 0;
    return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EOPNOTSUPP,
                      "this Docker engine cannot enforce these limits:%s%s%s; waive them or ask "
                      "for another provider",
                      missing & ATOLL_LIMIT_MEMORY ? " memory" : "",
                      missing & ATOLL_LIMIT_CPU ? " cpu" : "",
                      missing & ATOLL_LIMIT_PIDS ? " pids" : "");
}

static int post_create(struct atoll_docker *d, const struct atoll_sync_call *call, const char *name,
                       const struct atoll_docker_place *place, char *ret_handle, size_t cap,
                       struct atoll_error *err)
{
    ATOLL_DOCKER_AUTOJSON json_t *answer = NULL;
    struct atoll_docker_ask ask = {.method = "POST", .json = atoll_docker_body_create(place)};
    char path[128];
    const char *id;
    int r;

    if (!ask.json)
        return atoll_fail_errno(err, ENOMEM, "container");
    (void)snprintf(path, sizeof(path), "/containers/create?name=%s", name);
    ask.path = path;
    r = atoll_docker_http_ask(d->http, call, &ask, &answer, err);
    if (r < 0)
        return r;
    id = json_string_value(json_object_get(answer, "Id"));
    if (!id || atoll_text_copy(ret_handle, cap, id) < 0)
        return atoll_fail(err, ATOLL_ERR_INTERNAL, EPROTO, "Docker's answer has no container id");
    return 0;
}

/* Retries once if a container left by a crash has the name, or if the storage driver does not
 * support quotas after all. */
static int create_container(struct atoll_docker *d, const struct atoll_sync_call *call,
                            const char *name, struct atoll_docker_place *place, char *ret_handle,
                            size_t cap, struct atoll_error *err)
{
    int r = post_create(d, call, name, place, ret_handle, cap, err);

    if (r == -EEXIST) {
        r = atoll_docker_http_askf(d->http, call, NULL, err, "DELETE", "/containers/%s?force=1&v=1",
                                   name);
        if (r >= 0 || r == -ENOENT)
            r = post_create(d, call, name, place, ret_handle, cap, err);
    }
    if (r < 0 && place->disk == ATOLL_DOCKER_DISK_QUOTA && strstr(err->text, "storage-opt") &&
        d->config.disk == ATOLL_DOCKER_DISK_AUTO) {
        (void)pthread_mutex_lock(&d->lock);
        d->info.quota = false;
        (void)pthread_mutex_unlock(&d->lock);
        place->disk = ATOLL_DOCKER_DISK_TMPFS;
        r = post_create(d, call, name, place, ret_handle, cap, err);
    }
    /* The fault is in providers.yaml, not in the request. */
    if (r < 0 && place->runtime && strstr(err->text, "untime specified"))
        r = atoll_fail(err, ATOLL_ERR_UNAVAILABLE, ENOENT,
                       "the Docker engine has no runtime called %.64s", place->runtime);
    return r;
}

static int start_local(struct atoll_docker *d, const struct atoll_sync_call *call,
                       const char *handle, const char *name, struct atoll_error *err)
{
    ATOLL_AUTOCLOSE int notify_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    ATOLL_AUTOFREE char *dir = dir_path(d, name, false);
    ATOLL_AUTOFREE char *run = dir_path(d, name, true);
    int r;

    /* Without inotify the directory is polled. */
    if (notify_fd >= 0 && run)
        (void)inotify_add_watch(notify_fd, run, IN_CREATE);
    if (!dir || !run)
        return atoll_fail_errno(err, ENOMEM, "container");
    r = atoll_docker_http_askf(d->http, call, NULL, err, "POST", "/containers/%s/start", handle);
    if (r >= 0)
        r = wait_for_agent(d, call, handle, run, notify_fd, err);
    return r < 0 ? r : dir_seal(dir, run, err);
}

static int prepare(struct atoll_docker *d, const struct atoll_sync_call *call,
                   const struct atoll_spec *spec, struct atoll_docker_info *info,
                   struct atoll_docker_image *image, char *network, struct atoll_error *err)
{
    int r = atoll_docker_info_get(d, call, info, err);

    if (r == 0)
        r = check_limits(info, spec, err);
    if (r == 0)
        r = atoll_docker_image_get(d, call, spec, image, err);
    return r < 0 ? r : atoll_docker_network_get(d, call, spec, network, err);
}

static int start(struct atoll_docker *d, const struct atoll_sync_call *call, const char *name,
                 const struct atoll_spec *spec, char *ret_handle, size_t cap,
                 char ret_warning[ATOLL_WARNING_MAX], struct atoll_error *err)
{
    ATOLL_AUTOFREE char *run = dir_path(d, name, true);
    struct atoll_docker_info info;
    struct atoll_docker_image image;
    char network[80], volume[64];
    struct atoll_docker_place place = {.spec = spec,
                                       .image = &image,
                                       .daemon_id = d->daemon_id,
                                       .network = network,
                                       .profile = d->profile,
                                       .agent = d->agent_path,
                                       .sudo = spec->allow_sudo ? d->sudo_path : NULL,
                                       .agent_volume = volume,
                                       .runtime = d->config.runtime,
                                       .binds = d->config.binds,
                                       .bind_count = d->config.bind_count};
    ATOLL_DOCKER_AUTOJSON json_t *mounts = NULL;
    int r = prepare(d, call, spec, &info, &image, network, err);

    if (r == 0)
        r = atoll_docker_mounts_get(d, call, spec, &mounts, err);
    if (r < 0)
        return r;
    place.mounts = mounts;
    place.cpus = info.cpus;
    place.disk = atoll_docker_disk_of(d, &info, spec);
    if (atoll_docker_shares_files(d, &info)) {
        place.run_dir = run;
        r = dir_make(d, name, err);
    } else {
        r = atoll_docker_remote_agent(d, call, image.id, volume, err);
    }
    if (r == 0)
        r = create_container(d, call, name, &place, ret_handle, cap, err);
    if (r < 0)
        return r;
    if (place.disk == ATOLL_DOCKER_DISK_TMPFS) {
        atoll_docker_hidden_look(d, call, ret_handle, image.id);
        atoll_docker_hidden_get(d, image.id, ret_warning, ATOLL_WARNING_MAX);
    }
    if (place.run_dir)
        return start_local(d, call, ret_handle, name, err);
    r = atoll_docker_http_askf(d->http, call, NULL, err, "POST", "/containers/%s/start",
                               ret_handle);
    return r < 0 ? r : wait_for_remote(d, call, ret_handle, err);
}

int atoll_docker_container_start(struct atoll_docker *d, const struct atoll_sync_call *call,
                                 const char *name, const struct atoll_spec *spec, char *ret_handle,
                                 size_t cap, char ret_warning[ATOLL_WARNING_MAX],
                                 struct atoll_error *err)
{
    struct atoll_sync_call after;
    struct atoll_error unused;
    int r = atoll_docker_clean(d, call, err);

    if (r < 0)
        return r;
    ret_warning[0] = '\0';
    r = start(d, call, name, spec, ret_handle, cap, ret_warning, err);
    if (r >= 0)
        return 0;
    after = atoll_docker_after();
    (void)!atoll_docker_container_remove(d, &after, name, name, &unused);
    atoll_docker_network_put(d, &after, spec);
    return r;
}

int atoll_docker_container_remove(struct atoll_docker *d, const struct atoll_sync_call *call,
                                  const char *which, const char *name, struct atoll_error *err)
{
    int r;

    for (;;) {
        r = atoll_docker_http_askf(d->http, call, NULL, err, "DELETE", "/containers/%s?force=1&v=1",
                                   which);
        if (r != -EEXIST)
            break;
        /* Another request is removing it: wait for that. */
        r = wait_a_little(call, ATOLL_NO_FD, 50, "the Docker engine did not remove it in time",
                          err);
        if (r < 0)
            break;
    }
    if (r < 0 && r != -ENOENT)
        return r;
    return dir_remove(d, name, err);
}

int atoll_docker_container_dial(struct atoll_docker *d, const struct atoll_sync_call *call,
                                const char *which, const char *name, int *ret_fd,
                                struct atoll_error *err)
{
    ATOLL_AUTOFREE char *dir = dir_path(d, name, false);
    int fd;

    if (!dir)
        return atoll_fail_errno(err, ENOMEM, "container");
    /* The directory tells how the container was created: the engine's settings may have changed
     * since. */
    if (access(dir, F_OK) < 0 && errno == ENOENT)
        return atoll_docker_remote_dial(d, call, which, ret_fd, err);
    fd = atoll_unix_connect(dir, ATOLL_DOCKER_SOCKET);
    if (fd == -ENOENT || fd == -ECONNREFUSED || fd == -EAGAIN)
        return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, -fd, "the sandbox's agent does not answer");
    if (fd < 0)
        return atoll_fail_errno(err, -fd, "reach the agent");
    *ret_fd = fd;
    return 0;
}
