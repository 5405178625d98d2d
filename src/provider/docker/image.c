/*
 * Finding and pulling images. build.c makes them.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include "base/base64.h"
#include "base/fd.h"
#include "base/text.h"
#include "provider/docker/docker_internal.h"
#include "provider/docker/stream.h"

#define WAIT_US 20000

struct saying {
    const struct atoll_sync_call *call;
    const char *image; /* image being pulled; NULL: a build, whose lines are passed on unchanged */
};

static void say(void *arg, const char *text)
{
    const struct saying *s = arg;
    char line[400];

    if (s->image)
        (void)snprintf(line, sizeof(line), "pulling %.200s: %.150s", s->image, text);
    atoll_sync_say(s->call, s->image ? line : text);
}

int atoll_docker_ask_progress(struct atoll_docker *d, const struct atoll_sync_call *call,
                              struct atoll_docker_ask *ask, const char *pulled,
                              struct atoll_error *err)
{
    struct saying saying = {call, pulled};
    struct atoll_docker_progress progress;
    int r;

    atoll_docker_progress_init(&progress, say, &saying);
    ask->sink = atoll_docker_progress_take;
    ask->sink_arg = &progress;
    ask->slow = true;
    r = atoll_docker_http_ask(d->http, call, ask, NULL, err);
    if (r >= 0)
        r = atoll_docker_progress_end(&progress, err);
    atoll_docker_progress_done(&progress);
    return r < 0 ? r : 0;
}

int atoll_docker_check_image_name(const char *name, struct atoll_error *err)
{
    if (!atoll_docker_is_image_name(name))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "%.100s is not the name of an image", name);
    return 0;
}

/* --- pulling --- */

char *atoll_docker_header_of(const char *name, const json_t *value)
{
    ATOLL_AUTOFREE char *text = json_dumps(value, JSON_COMPACT);
    ATOLL_AUTOFREE char *encoded = text ? malloc((strlen(text) + 2) / 3 * 4 + 1) : NULL;
    char *header = NULL;

    if (!encoded)
        return NULL;
    atoll_base64_text(encoded, text, strlen(text));
    for (char *c = encoded; *c; c++) /* URL-safe alphabet */
        *c = (char)(*c == '+' ? '-' : *c == '/' ? '_' : *c);
    if (asprintf(&header, "%s: %s", name, encoded) < 0)
        header = NULL;
    explicit_bzero(text, strlen(text));
    explicit_bzero(encoded, strlen(encoded));
    return header;
}

/* "X-Registry-Auth: ..." for the registry of the image; NULL if there are no credentials for it. */
static char *auth_header(const struct atoll_docker *d, const struct atoll_spec *spec,
                         const char *image)
{
    ATOLL_DOCKER_AUTOJSON json_t *auth = NULL;
    char host[256];

    (void)atoll_docker_registry_of(image, host);
    if (spec->login)
        auth = json_pack("{s:s, s:s, s:s}", "username", spec->login->username, "password",
                         spec->login->password, "serveraddress", host);
    for (size_t i = 0; !auth && i < d->config.registry_count; i++) {
        const struct atoll_docker_registry *r = &d->config.registries[i];
        if (strcmp(r->host, host) == 0)
            auth = json_pack("{s:s, s:s, s:s}", "username", r->username, "password", r->password,
                             "serveraddress", r->host);
    }
    return auth ? atoll_docker_header_of("X-Registry-Auth", auth) : NULL;
}

static int check_registry(const struct atoll_docker *d, const char *image, struct atoll_error *err)
{
    char host[256];

    (void)atoll_docker_registry_of(image, host);
    for (size_t i = 0; i < d->config.registry_count; i++)
        if (strcmp(d->config.registries[i].host, host) == 0)
            return 0;
    if (d->config.private_registries || strcmp(host, "docker.io") == 0 ||
        !atoll_docker_registry_is_inner(host))
        return 0;
    return atoll_fail(
        err, ATOLL_ERR_PERMISSION_DENIED, EPERM,
        "images may not come from %.100s: it is an address or in a private network, and "
        "the operator has not allowed it (registries in providers.yaml)",
        host);
}

static int pull_allowed(struct atoll_docker *d, const struct atoll_sync_call *call,
                        const struct atoll_spec *spec, const char *image, struct atoll_error *err)
{
    ATOLL_AUTOFREE char *name = atoll_docker_escape(image);
    ATOLL_AUTOFREE char *header = auth_header(d, spec, image);
    const char *last = strrchr(image, '/');
    bool tagged = strchr(last ? last : image, ':') || strchr(image, '@');
    ATOLL_AUTOFREE char *path = NULL;
    struct atoll_docker_ask ask = {.method = "POST", .header = header};
    int r;

    /* Without a tag the engine would pull all tags. */
    if (!name ||
        asprintf(&path, "/images/create?fromImage=%s%s", name, tagged ? "" : "&tag=latest") < 0) {
        path = NULL;
        return atoll_fail_errno(err, ENOMEM, "pull");
    }
    ask.path = path;
    atoll_sync_say(call, "looking for the image in its registry");
    r = atoll_docker_ask_progress(d, call, &ask, image, err);
    if (header)
        explicit_bzero(header, strlen(header));
    if (r == 0)
        return 0;
    atoll_docker_judge_pull(err);
    /* A failing default image is the provider's fault, not the request's. */
    err->another &= *spec->image != '\0';
    return atoll_wrap(err, "pull image %.120s", image);
}

static int pull(struct atoll_docker *d, const struct atoll_sync_call *call,
                const struct atoll_spec *spec, const char *image, struct atoll_error *err)
{
    int r = check_registry(d, image, err);

    return r < 0 ? r : pull_allowed(d, call, spec, image, err);
}

int atoll_docker_image_inspect(struct atoll_docker *d, const struct atoll_sync_call *call,
                               const char *image, struct atoll_docker_image *ret,
                               struct atoll_error *err)
{
    ATOLL_DOCKER_AUTOJSON json_t *answer = NULL;
    int r = atoll_docker_http_askf(d->http, call, &answer, err, "GET", "/images/%s/json", image);

    return r < 0 ? r : atoll_docker_image_parse(answer, ret, err);
}

/* --- private images ---
 *
 * An image pulled with a tenant's own credentials must not become available to other tenants. As
 * soon as it is here, it is renamed to a name derived from tenant and image. Until then requests
 * of other tenants for that image wait. */

/* Finds the tenant's private image, also one that an earlier version named. -ENOENT: `own` is the
 * name for a new one. */
static int find_private(struct atoll_docker *d, const struct atoll_sync_call *call,
                        const struct atoll_spec *spec, const char *image,
                        char own[ATOLL_DOCKER_HASHED_MAX], struct atoll_docker_image *ret,
                        struct atoll_error *err)
{
    char text[sizeof(spec->tenant) + 264 + 2], former[ATOLL_DOCKER_HASHED_MAX];
    int r;

    (void)snprintf(text, sizeof(text), "%s/%s", spec->tenant, image);
    atoll_docker_hashed_name(ATOLL_DOCKER_PRIVATE, text, own);
    r = atoll_docker_image_inspect(d, call, own, ret, err);
    if (r != -ENOENT)
        return r;
    atoll_docker_former_name(ATOLL_DOCKER_PRIVATE, text, former);
    return atoll_docker_image_inspect(d, call, former, ret, err);
}

/* Index of the image among the private pulls in progress; -1 if it is not there. Locked. */
static int find_pull(const struct atoll_docker *d, const char *image)
{
    for (int i = 0; i < ATOLL_DOCKER_PULLS; i++)
        if (strcmp(d->pulling[i], image) == 0)
            return i;
    return -1;
}

/* Waits until no private pull of that image is in progress; if `pulls`, registers ours. Their
 * number is limited. *ret_pulls (may be NULL): for none_since(). */
static int enter(struct atoll_docker *d, const struct atoll_sync_call *call, const char *image,
                 bool pulls, unsigned *ret_pulls, struct atoll_error *err)
{
    for (;;) {
        int place = 0;
        bool clear;

        (void)pthread_mutex_lock(&d->lock);
        clear = find_pull(d, image) < 0 && (!pulls || (place = find_pull(d, "")) >= 0);
        if (clear && pulls)
            (void)snprintf(d->pulling[place], sizeof(d->pulling[0]), "%s", image);
        d->pulls += clear && pulls;
        if (ret_pulls)
            *ret_pulls = d->pulls;
        (void)pthread_mutex_unlock(&d->lock);
        if (clear)
            return 0;
        if (atoll_sync_cancelled(call))
            return atoll_fail(err, ATOLL_ERR_ABORTED, ECANCELED, "the request was cancelled");
        if (atoll_sync_left_ms(call) == 0)
            return atoll_fail(err, ATOLL_ERR_DEADLINE_EXCEEDED, ETIMEDOUT,
                              "another pull of this image did not end in time");
        (void)usleep(WAIT_US);
    }
}

/* A file that exists while a private image may have its public name. If the daemon dies
 * meanwhile, the next one removes that name. */
static void note_path(struct atoll_docker *d, const char *image, char *out, size_t cap)
{
    (void)pthread_mutex_lock(&d->lock);
    (void)snprintf(out, cap, "%s/" ATOLL_DOCKER_PULL_NOTE "%d", d->state_dir, find_pull(d, image));
    (void)pthread_mutex_unlock(&d->lock);
}

static int note(const char *path, const char *image, struct atoll_error *err)
{
    ATOLL_AUTOCLOSE int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    int r = fd < 0 ? -errno : atoll_fd_write_all(fd, image, strlen(image));

    return r < 0 ? atoll_fail_errno(err, -r, "note a pull") : 0;
}

void atoll_docker_forget_pull(struct atoll_docker *d, const struct atoll_sync_call *call,
                              const char *name)
{
    char path[PATH_MAX], image[sizeof(d->pulling[0])];
    struct atoll_error unused;
    int r;

    (void)snprintf(path, sizeof(path), "%s/%s", d->state_dir, name);
    r = atoll_fd_read_file(AT_FDCWD, path, image, sizeof(image));
    if (r > 0 && atoll_docker_is_image_name(image))
        r = atoll_docker_http_askf(d->http, call, NULL, &unused, "DELETE", "/images/%s?force=1",
                                   image);
    if (r >= 0 || r == -ENOENT)
        (void)unlink(path);
}

static void leave(struct atoll_docker *d, const char *image)
{
    (void)pthread_mutex_lock(&d->lock);
    d->pulling[find_pull(d, image)][0] = '\0';
    (void)pthread_mutex_unlock(&d->lock);
}

/* Whether no private pull has started since: then an image that was found is public. */
static bool none_since(struct atoll_docker *d, unsigned pulls)
{
    bool none;

    (void)pthread_mutex_lock(&d->lock);
    none = d->pulls == pulls;
    (void)pthread_mutex_unlock(&d->lock);
    return none;
}

static int take_name(struct atoll_docker *d, const struct atoll_sync_call *call, const char *image,
                     const char *own, struct atoll_error *err)
{
    int r =
        atoll_docker_http_askf(d->http, call, NULL, err, "POST", "/images/%s/tag?repo=%.*s&tag=%s",
                               image, (int)strcspn(own, ":"), own, strchr(own, ':') + 1);

    return r < 0 ? r
                 : atoll_docker_http_askf(d->http, call, NULL, err, "DELETE",
                                          "/images/%s?noprune=1", image);
}

static int pull_private(struct atoll_docker *d, const struct atoll_sync_call *call,
                        const struct atoll_spec *spec, const char *image, const char *own,
                        struct atoll_docker_image *ret, struct atoll_error *err)
{
    struct atoll_sync_call after;
    struct atoll_error unused;
    char path[PATH_MAX];
    int r = enter(d, call, image, true, NULL, err);

    if (r < 0)
        return r;
    note_path(d, image, path, sizeof(path));
    /* An earlier waiting request may have pulled it publicly. */
    r = atoll_docker_image_inspect(d, call, image, ret, err);
    if (r == -ENOENT) {
        r = note(path, image, err);
        if (r == 0)
            r = pull(d, call, spec, image, err);
        if (r == 0)
            r = take_name(d, call, image, own, err);
        /* On any failure, and on cancellation, the image may already be here under its public
         * name: remove that. */
        after = atoll_docker_after();
        if (r < 0)
            (void)!atoll_docker_http_askf(d->http, &after, NULL, &unused, "DELETE",
                                          "/images/%s?force=1", image);
        else
            r = atoll_docker_image_inspect(d, call, own, ret, err);
        (void)unlink(path);
    }
    leave(d, image);
    return r;
}

static int name_of_request(const char *named, char image[264], struct atoll_error *err)
{
    int r = atoll_docker_requested_image(named, image);

    if (r == -EPERM)
        return atoll_fail(err, ATOLL_ERR_PERMISSION_DENIED, EPERM,
                          "%.100s is a reserved image name: name the template instead", named);
    if (r < 0)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "%.100s is not the name of an image", named);
    return 0;
}

int atoll_docker_image_get(struct atoll_docker *d, const struct atoll_sync_call *call,
                           const struct atoll_spec *spec, struct atoll_docker_image *ret,
                           struct atoll_error *err)
{
    const char *named = *spec->image ? spec->image : d->config.default_image;
    char image[264], own[ATOLL_DOCKER_HASHED_MAX];
    unsigned pulls;
    int r;

    if (!named)
        return atoll_fail(
            err, ATOLL_ERR_FAILED_PRECONDITION, EOPNOTSUPP,
            "containers cannot use the host template: name an image in the request, or set "
            "default_image of the provider");
    /* Images of the engine's templates are never pulled from a registry. */
    if (spec->template_kind == ATOLL_TEMPLATE_IMAGE)
        return atoll_docker_image_inspect(d, call, named, ret, err);
    r = name_of_request(named, image, err);
    if (r < 0)
        return r;
    do {
        r = enter(d, call, image, false, &pulls, err);
        if (r == 0)
            r = atoll_docker_image_inspect(d, call, image, ret, err);
    } while (r == 0 && !none_since(d, pulls));
    if (r != -ENOENT)
        return r;
    r = find_private(d, call, spec, image, own, ret, err);
    if (r != -ENOENT)
        return r;
    if (spec->login)
        return pull_private(d, call, spec, image, own, ret, err);
    r = pull(d, call, spec, image, err);
    return r < 0 ? r : atoll_docker_image_inspect(d, call, image, ret, err);
}
