/*
 * Images: found, pulled, imported, built, committed.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/base64.h"
#include "base/text.h"
#include "provider/docker/docker_internal.h"
#include "provider/docker/stream.h"

#define LAYER_IMAGE "atoll-layer:" /* and the layer's name */

struct saying {
    const struct atoll_docker *docker;
    const char *id;
};

static void say(void *arg, const char *text)
{
    const struct saying *s = arg;

    if (s->docker->config.progress)
        s->docker->config.progress(s->docker->config.progress_arg, s->id, text);
}

/* A request whose answer is a stream of progress. */
static int ask_progress(struct atoll_docker *d, const struct atoll_sync_call *call,
                        struct atoll_docker_ask *ask, const char *id, struct atoll_error *err)
{
    struct saying saying = {d, id};
    struct atoll_docker_progress progress;
    int r;

    atoll_docker_progress_init(&progress, say, &saying);
    ask->sink = atoll_docker_progress_take;
    ask->sink_arg = &progress;
    r = atoll_docker_http_ask(d->http, call, ask, NULL, err);
    if (r >= 0)
        r = atoll_docker_progress_end(&progress, err);
    atoll_docker_progress_done(&progress);
    return r < 0 ? r : 0;
}

static int check_name(const char *name, struct atoll_error *err)
{
    if (!atoll_docker_is_image_name(name))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "%.100s is not the name of an image", name);
    return 0;
}

/* --- pulling --- */

/* "X-Registry-Auth: ..." for the registry of the image; NULL when we have no credentials for it. */
static char *auth_header(const struct atoll_docker *d, const char *image)
{
    char host[256];
    char *header = NULL;

    (void)atoll_docker_registry_of(image, host);
    for (size_t i = 0; i < d->config.registry_count; i++) {
        const struct atoll_docker_registry *r = &d->config.registries[i];
        ATOLL_DOCKER_AUTOJSON json_t *auth = NULL;
        ATOLL_AUTOFREE char *text = NULL;
        ATOLL_AUTOFREE char *encoded = NULL;
        if (strcmp(r->host, host) != 0)
            continue;
        auth = json_pack("{s:s, s:s, s:s}", "username", r->username, "password", r->password,
                         "serveraddress", r->host);
        text = json_dumps(auth, JSON_COMPACT);
        encoded = text ? malloc((strlen(text) + 2) / 3 * 4 + 1) : NULL;
        if (!encoded)
            return NULL;
        atoll_base64_text(encoded, text, strlen(text));
        for (char *c = encoded; *c; c++) /* the URL's alphabet */
            *c = (char)(*c == '+' ? '-' : *c == '/' ? '_' : *c);
        if (asprintf(&header, "X-Registry-Auth: %s", encoded) < 0)
            return NULL;
        return header;
    }
    return NULL;
}

static int pull(struct atoll_docker *d, const struct atoll_sync_call *call, const char *image,
                const char *id, struct atoll_error *err)
{
    ATOLL_AUTOFREE char *name = atoll_docker_escape(image);
    ATOLL_AUTOFREE char *header = auth_header(d, image);
    const char *last = strrchr(image, '/');
    bool tagged = strchr(last ? last : image, ':') || strchr(image, '@');
    ATOLL_AUTOFREE char *path = NULL;
    struct atoll_docker_ask ask = {.method = "POST", .header = header};
    int r;

    /* Without a tag the engine would pull all there are. */
    if (!name ||
        asprintf(&path, "/images/create?fromImage=%s%s", name, tagged ? "" : "&tag=latest") < 0) {
        path = NULL;
        return atoll_fail_errno(err, ENOMEM, "pull");
    }
    ask.path = path;
    r = ask_progress(d, call, &ask, id, err);
    if (r == 0)
        return 0;
    atoll_docker_judge_pull(err);
    return atoll_wrap(err, "pull image %.120s", image);
}

static int inspect(struct atoll_docker *d, const struct atoll_sync_call *call, const char *image,
                   struct atoll_docker_image *ret, struct atoll_error *err)
{
    ATOLL_DOCKER_AUTOJSON json_t *answer = NULL;
    int r = atoll_docker_http_askf(d->http, call, &answer, err, "GET", "/images/%s/json", image);

    return r < 0 ? r : atoll_docker_image_parse(answer, ret, err);
}

/* --- templates --- */

/* A layer of ours becomes an image once. */
static int import_layer(struct atoll_docker *d, const struct atoll_sync_call *call,
                        const struct atoll_spec *spec, const char *image, struct atoll_error *err)
{
    ATOLL_AUTOFREE char *dir = NULL;
    struct atoll_docker_tar *tar = NULL;
    int r;

    if (!d->config.layers_dir)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EOPNOTSUPP,
                          "templates are not available with this provider: name an image");
    if (asprintf(&dir, "%s/%s", d->config.layers_dir, spec->layer) < 0) {
        dir = NULL;
        return atoll_fail_errno(err, ENOMEM, "template");
    }
    r = atoll_docker_tar_tree(dir, spec->layer_base, &tar, err);
    if (r == 0)
        r = atoll_docker_import(&d->sync, call, image, atoll_docker_tar_read, tar, err);
    tar = atoll_docker_tar_free(tar);
    return r;
}

static int get_layer(struct atoll_docker *d, const struct atoll_sync_call *call,
                     const struct atoll_spec *spec, struct atoll_docker_image *ret,
                     struct atoll_error *err)
{
    char image[sizeof(LAYER_IMAGE) + sizeof(spec->layer)];
    int r;

    (void)snprintf(image, sizeof(image), LAYER_IMAGE "%s", spec->layer);
    r = inspect(d, call, image, ret, err);
    if (r != -ENOENT)
        return r;
    (void)pthread_mutex_lock(&d->sending);
    r = inspect(d, call, image, ret, err);
    if (r == -ENOENT)
        r = import_layer(d, call, spec, image, err);
    if (r == 0)
        r = inspect(d, call, image, ret, err);
    (void)pthread_mutex_unlock(&d->sending);
    return r;
}

int atoll_docker_image_get(struct atoll_docker *d, const struct atoll_sync_call *call,
                           const struct atoll_spec *spec, struct atoll_docker_image *ret,
                           struct atoll_error *err)
{
    const char *image = *spec->image ? spec->image : d->config.default_image;
    int r;

    if (!*spec->image && spec->template_kind == ATOLL_TEMPLATE_ROOTFS)
        return get_layer(d, call, spec, ret, err);
    if (!image)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EOPNOTSUPP,
                          "containers cannot use the host's own files: name an image, or a "
                          "default_image for the provider");
    r = check_name(image, err);
    if (r == 0)
        r = inspect(d, call, image, ret, err);
    if (r != -ENOENT)
        return r;
    r = pull(d, call, image, spec->id, err);
    return r < 0 ? r : inspect(d, call, image, ret, err);
}

/* --- making images --- */

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

int atoll_docker_import(struct atoll_sync_provider *p, const struct atoll_sync_call *call,
                        const char *name, atoll_docker_read_fn *read, void *arg,
                        struct atoll_error *err)
{
    struct atoll_docker *d = atoll_docker_of(p);
    struct atoll_docker_ask ask = {.method = "POST", .read = read, .read_arg = arg};
    ATOLL_AUTOFREE char *query = NULL;
    ATOLL_AUTOFREE char *path = NULL;
    int r = check_name(name, err);

    if (r < 0)
        return r;
    query = repo_query(name);
    if (!query || asprintf(&path, "/images/create?fromSrc=-&%s", query) < 0) {
        path = NULL;
        return atoll_fail_errno(err, ENOMEM, "import");
    }
    ask.path = path;
    r = ask_progress(d, call, &ask, name, err);
    return r < 0 ? atoll_wrap(err, "import image %.120s", name) : 0;
}

int atoll_docker_build(struct atoll_sync_provider *p, const struct atoll_sync_call *call,
                       const char *name, const char *dockerfile, atoll_docker_read_fn *read,
                       void *arg, struct atoll_error *err)
{
    struct atoll_docker *d = atoll_docker_of(p);
    struct atoll_docker_ask ask = {.method = "POST", .read = read, .read_arg = arg};
    ATOLL_AUTOFREE char *file = atoll_docker_escape(dockerfile ? dockerfile : "Dockerfile");
    ATOLL_AUTOFREE char *tag = atoll_docker_escape(name);
    ATOLL_AUTOFREE char *path = NULL;
    int r = check_name(name, err);

    if (r < 0)
        return r;
    if (!file || !tag ||
        asprintf(&path, "/build?t=%s&dockerfile=%s&rm=1&forcerm=1&version=1", tag, file) < 0) {
        path = NULL;
        return atoll_fail_errno(err, ENOMEM, "build");
    }
    ask.path = path;
    r = ask_progress(d, call, &ask, name, err);
    return r < 0 ? atoll_wrap(err, "build image %.120s", name) : 0;
}

int atoll_docker_snapshot(struct atoll_sync_provider *p, const struct atoll_sync_call *call,
                          const struct atoll_spec *spec, const char *name, struct atoll_error *err)
{
    struct atoll_docker *d = atoll_docker_of(p);
    ATOLL_AUTOFREE char *query = NULL;
    ATOLL_DOCKER_AUTOJSON json_t *inside = NULL;
    ATOLL_AUTOFREE char *path = NULL;
    struct atoll_docker_ask ask = {.method = "POST"};
    const char *user;
    int r = check_name(name, err);

    /* The agent was this container's program, but not what its user asked for. */
    if (r == 0)
        r = atoll_docker_http_askf(d->http, call, &inside, err, "GET", "/containers/%s/json",
                                   spec->handle);
    if (r < 0)
        return r;
    user = json_string_value(
        json_array_get(json_object_get(json_object_get(inside, "Config"), "Cmd"), 1));
    query = repo_query(name);
    if (!query || asprintf(&path, "/commit?container=%s&%s&pause=1", spec->handle, query) < 0) {
        path = NULL;
        return atoll_fail_errno(err, ENOMEM, "snapshot");
    }
    ask.path = path;
    ask.json = json_pack("{s:s, s:[], s:[]}", "User", user ? user : "", "Entrypoint", "Cmd");
    r = atoll_docker_http_ask(d->http, call, &ask, NULL, err);
    return r < 0 ? r : 0;
}

int atoll_docker_image_remove(struct atoll_sync_provider *p, const struct atoll_sync_call *call,
                              const char *name, struct atoll_error *err)
{
    int r = check_name(name, err);

    if (r == 0)
        r = atoll_docker_http_askf(atoll_docker_of(p)->http, call, NULL, err, "DELETE",
                                   "/images/%s?force=1", name);
    return r < 0 && r != -ENOENT ? r : 0;
}
