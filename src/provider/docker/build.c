/*
 * Making images: built from a Dockerfile, loaded from an archive, committed from a container.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include "provider/docker/docker_internal.h"

/* "repo=NAME&tag=TAG" */
static char *repo_query(const char *name)
{
    const char *last = strrchr(name, '/');
    const char *colon = strchr(last ? last : name, ':');
    ATOLL_AUTOFREE char *repo = strndup(name, colon ? (size_t)(colon - name) : strlen(name));
    ATOLL_AUTOFREE char *escaped = repo ? atoll_docker_escape(repo) : NULL;
    char *query = NULL;

    if (!escaped || asprintf(&query, "repo=%s&tag=%s", escaped, colon ? colon + 1 : "latest") < 0)
        return NULL;
    return query;
}

/* --- building --- */

struct context {
    const struct atoll_sync_call *call;
    int fd;
};

/* Waits until there is data, the call is cancelled or its deadline is over. */
static ssize_t read_context(void *arg, void *out, size_t cap)
{
    const struct context *c = arg;
    struct pollfd fds[2] = {{.fd = c->fd, .events = POLLIN},
                            {.fd = c->call->cancel_fd, .events = POLLIN}};
    ssize_t n;

    for (;;) {
        if (atoll_sync_cancelled(c->call) || atoll_sync_left_ms(c->call) == 0)
            return -ECANCELED;
        if (poll(fds, 2, atoll_sync_left_ms(c->call)) <= 0 || !fds[0].revents)
            continue; /* a read could block */
        n = read(c->fd, out, cap);
        if (n >= 0 || (errno != EINTR && errno != EAGAIN))
            return n < 0 ? -errno : n;
    }
}

/* Credentials for base images in registries that the operator configured. */
static char *registries_header(const struct atoll_docker *d)
{
    ATOLL_DOCKER_AUTOJSON json_t *all = json_object();

    if (d->config.registry_count == 0)
        return NULL;
    for (size_t i = 0; i < d->config.registry_count; i++) {
        const struct atoll_docker_registry *r = &d->config.registries[i];
        (void)json_object_set_new(
            all, r->host,
            json_pack("{s:s, s:s}", "username", r->username, "password", r->password));
    }
    return atoll_docker_header_of("X-Registry-Config", all);
}

static char *build_path(const struct atoll_docker *d, const struct atoll_provider_build *b)
{
    ATOLL_AUTOFREE char *file = atoll_docker_escape(b->dockerfile);
    ATOLL_AUTOFREE char *tag = atoll_docker_escape(b->image);
    ATOLL_AUTOFREE char *network =
        atoll_docker_escape(b->network == ATOLL_NETWORK_BRIDGE ? d->config.bridge : "none");
    char *path = NULL;

    if (!file || !tag || !network ||
        asprintf(&path,
                 "/build?t=%s&dockerfile=%s&rm=1&forcerm=1&version=1&networkmode=%s&memory=%llu"
                 "&memswap=%llu",
                 tag, file, network, (unsigned long long)b->memory_bytes,
                 (unsigned long long)b->memory_bytes) < 0)
        return NULL;
    return path;
}

/* Asks the engine for digest and size of the new image. */
static int describe(struct atoll_docker *d, const struct atoll_sync_call *call, const char *image,
                    struct atoll_provider_image *ret, struct atoll_error *err)
{
    ATOLL_DOCKER_AUTOJSON json_t *answer = NULL;
    int r = atoll_docker_http_askf(d->http, call, &answer, err, "GET", "/images/%s/json", image);
    const char *id = json_string_value(json_object_get(answer, "Id"));
    json_int_t size = json_integer_value(json_object_get(answer, "Size"));

    if (r < 0)
        return r;
    (void)snprintf(ret->digest, sizeof(ret->digest), "%.71s", id ? id : "");
    ret->size_bytes = size > 0 ? (uint64_t)size : 0;
    return 0;
}

int atoll_docker_build(struct atoll_sync_provider *p, const struct atoll_sync_call *call,
                       const struct atoll_provider_build *build, struct atoll_provider_image *ret,
                       struct atoll_error *err)
{
    struct atoll_docker *d = atoll_docker_of(p);
    struct context context = {call, build->context_fd};
    ATOLL_AUTOFREE char *path = build_path(d, build);
    ATOLL_AUTOFREE char *header = registries_header(d);
    struct atoll_docker_ask ask = {.method = "POST",
                                   .path = path,
                                   .header = header,
                                   .read = read_context,
                                   .read_arg = &context};
    int r = atoll_docker_check_image_name(build->image, err);

    if (r == 0 && !path)
        r = atoll_fail_errno(err, ENOMEM, "build");
    if (r == 0)
        r = atoll_docker_ask_progress(d, call, &ask, NULL, err);
    if (header)
        explicit_bzero(header, strlen(header));
    if (r < 0 && atoll_sync_cancelled(call))
        return atoll_fail(err, ATOLL_ERR_ABORTED, ECANCELED, "the build was cancelled");
    return r < 0 ? atoll_wrap(err, "the image was not built")
                 : describe(d, call, build->image, ret, err);
}

/* --- archives --- */

int atoll_docker_load(struct atoll_sync_provider *p, const struct atoll_sync_call *call,
                      const char *image, int archive_fd, struct atoll_error *err)
{
    struct atoll_docker *d = atoll_docker_of(p);
    struct context context = {call, archive_fd};
    struct atoll_docker_ask ask = {.method = "POST",
                                   .path = "/images/load?quiet=1",
                                   .read = read_context,
                                   .read_arg = &context};
    struct atoll_docker_image unused;
    int r = atoll_docker_check_image_name(image, err);

    if (r == 0 && archive_fd >= 0)
        r = atoll_docker_ask_progress(d, call, &ask, NULL, err);
    return r < 0 ? r : atoll_docker_image_inspect(d, call, image, &unused, err);
}

/* --- snapshots --- */

/* Removes the agent as the program, and our labels, from the image's configuration. An empty
 * user has to be stored in a label: if the field is missing, engines copy the container's user. */
static json_t *committed(const json_t *inside)
{
    const json_t *config = json_object_get(inside, "Config");
    const char *user = json_string_value(json_array_get(json_object_get(config, "Cmd"), 1));

    user = user ? user : "";
    return json_pack("{s:s, s:[], s:[], s:{s:s, s:s, s:s, s:s}}", "User", user, "Entrypoint", "Cmd",
                     "Labels", "atoll.id", "", ATOLL_DOCKER_LABEL, "", ATOLL_DOCKER_OWNER, "",
                     ATOLL_DOCKER_USER, user);
}

int atoll_docker_snapshot(struct atoll_sync_provider *p, const struct atoll_sync_call *call,
                          const struct atoll_spec *spec, const char *image,
                          struct atoll_provider_image *ret, struct atoll_error *err)
{
    struct atoll_docker *d = atoll_docker_of(p);
    ATOLL_AUTOFREE char *query = NULL;
    ATOLL_DOCKER_AUTOJSON json_t *inside = NULL;
    ATOLL_AUTOFREE char *path = NULL;
    struct atoll_docker_ask ask = {.method = "POST"};
    int r = atoll_docker_check_image_name(image, err);

    if (r == 0)
        r = atoll_docker_http_askf(d->http, call, &inside, err, "GET", "/containers/%s/json",
                                   spec->handle);
    if (r < 0)
        return r;
    if (json_is_true(json_object_get(json_object_get(inside, "HostConfig"), "ReadonlyRootfs")))
        return atoll_fail(
            err, ATOLL_ERR_FAILED_PRECONDITION, EOPNOTSUPP,
            "the files this sandbox has written are in memory and cannot become an image: "
            "create it with \"waive\": [\"disk\"], or with an engine whose storage "
            "supports quotas (disk: quota)");
    query = repo_query(image);
    if (!query || asprintf(&path, "/commit?container=%s&%s&pause=1", spec->handle, query) < 0) {
        path = NULL;
        return atoll_fail_errno(err, ENOMEM, "snapshot");
    }
    ask.path = path;
    ask.json = committed(inside);
    ask.slow = true;
    r = atoll_docker_http_ask(d->http, call, &ask, NULL, err);
    return r < 0 ? r : describe(d, call, image, ret, err);
}

int atoll_docker_image_remove(struct atoll_sync_provider *p, const struct atoll_sync_call *call,
                              const char *name, struct atoll_error *err)
{
    int r = atoll_docker_check_image_name(name, err);

    if (r == 0)
        r = atoll_docker_http_askf(atoll_docker_of(p)->http, call, NULL, err, "DELETE",
                                   "/images/%s?force=1", name);
    return r < 0 && r != -ENOENT ? r : 0;
}
