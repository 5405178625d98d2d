#include "image/registry.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include "base/clock.h"
#include "base/text.h"
#include "image/registry_internal.h"
#include "network/policy.h"

#define HUB_HOST "registry-1.docker.io" /* where docker.io's registry is */
#define ACCEPT                                                                          \
    ATOLL_IMAGE_MEDIA_INDEX ", " ATOLL_IMAGE_MEDIA_MANIFEST ", " ATOLL_IMAGE_MEDIA_LIST \
                            ", " ATOLL_IMAGE_MEDIA_DOCKER

static const struct atoll_remote_service service = {.name = "the registry", .label = "registry"};

/* With a proxy for https all connections are to the proxy, which is the operator's, and it decides. */
static bool has_proxy(void)
{
    static const char *const names[] = {"https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"};

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(names); i++)
        if (getenv(names[i]) && *getenv(names[i]))
            return true;
    return false;
}

static int new_clients(struct atoll_image_registry *r, const char *ca, struct atoll_error *err)
{
    struct atoll_remote_http_config config = {.service = &service, .ca = ca};
    int e = atoll_remote_http_new(&config, &r->any, err);

    config.may_connect = has_proxy() ? NULL : atoll_network_is_public;
    config.always_proxy = !config.may_connect;
    if (e == 0)
        e = atoll_remote_http_new(&config, &r->public, err);
    config.may_connect = NULL;
    config.always_proxy = false;
    config.unverified = true;
    return e < 0 ? e : atoll_remote_http_new(&config, &r->unverified, err);
}

static int copy_mirrors(struct atoll_image_registry *r,
                        const struct atoll_image_registry_config *config, struct atoll_error *err)
{
    struct atoll_image_url url;

    r->mirrors = calloc(config->mirror_count + 1, sizeof(*r->mirrors));
    for (size_t i = 0; r->mirrors && i < config->mirror_count; i++) {
        const struct atoll_image_mirror *m = &config->mirrors[i];
        if (!atoll_image_is_host(m->host) || !atoll_image_url_split(m->url, &url))
            return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                              "mirror \"%.100s=%.200s\" is not HOST=URL, such as "
                              "docker.io=https://mirror.example",
                              m->host, m->url);
        r->mirrors[i] = (struct atoll_image_mirror){strdup(m->host), strdup(m->url)};
        r->mirror_count++;
        if (!r->mirrors[i].host || !r->mirrors[i].url)
            return atoll_fail_errno(err, ENOMEM, "mirrors");
    }
    return r->mirrors ? 0 : atoll_fail_errno(err, ENOMEM, "mirrors");
}

static int copy_insecure(struct atoll_image_registry *r,
                         const struct atoll_image_registry_config *config, struct atoll_error *err)
{
    r->insecure = calloc(config->insecure_count + 1, sizeof(*r->insecure));
    for (size_t i = 0; r->insecure && i < config->insecure_count; i++) {
        if (!atoll_image_is_host(config->insecure[i]))
            return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                              "insecure registry \"%.200s\" is not HOST or HOST:PORT",
                              config->insecure[i]);
        r->insecure[i] = strdup(config->insecure[i]);
        r->insecure_count++;
        if (!r->insecure[i])
            return atoll_fail_errno(err, ENOMEM, "insecure registries");
    }
    return r->insecure ? 0 : atoll_fail_errno(err, ENOMEM, "insecure registries");
}

int atoll_image_registry_new(const struct atoll_image_registry_config *config,
                             struct atoll_image_registry **ret, struct atoll_error *err)
{
    struct atoll_image_registry *r = calloc(1, sizeof(*r));
    int e;

    if (!r)
        return atoll_fail_errno(err, ENOMEM, "client of registries");
    (void)pthread_mutex_init(&r->lock, NULL);
    e = copy_mirrors(r, config, err);
    if (e == 0)
        e = copy_insecure(r, config, err);
    if (e == 0)
        e = new_clients(r, config->ca, err);
    if (e == 0)
        *ret = r;
    else
        (void)atoll_image_registry_free(r);
    return e;
}

struct atoll_image_registry *atoll_image_registry_free(struct atoll_image_registry *r)
{
    if (!r)
        return NULL;
    (void)atoll_remote_http_free(r->any);
    (void)atoll_remote_http_free(r->public);
    (void)atoll_remote_http_free(r->unverified);
    for (size_t i = 0; i < r->mirror_count; i++) {
        free((char *)(uintptr_t)r->mirrors[i].host);
        free((char *)(uintptr_t)r->mirrors[i].url);
    }
    for (size_t i = 0; i < r->insecure_count; i++)
        free(r->insecure[i]);
    free(r->mirrors);
    free(r->insecure);
    atoll_image_auth_done(r);
    (void)pthread_mutex_destroy(&r->lock);
    free(r);
    return NULL;
}

/* Which hosts may do what. */

static bool is_loopback(const char *host)
{
    struct in_addr v4;

    return strcasecmp(host, "localhost") == 0 || strcmp(host, "[::1]") == 0 ||
           (inet_pton(AF_INET, host, &v4) == 1 && ntohl(v4.s_addr) >> 24 == 127);
}

static bool is_listed(const struct atoll_image_registry *r, const struct atoll_image_url *url)
{
    for (size_t i = 0; i < r->insecure_count; i++)
        if (strcasecmp(r->insecure[i], url->authority) == 0 ||
            strcasecmp(r->insecure[i], url->host) == 0)
            return true;
    return false;
}

/* Whether the operator named this origin as a mirror. */
static bool is_mirror(const struct atoll_image_registry *r, const struct atoll_image_url *url)
{
    struct atoll_image_url mirror;

    for (size_t i = 0; i < r->mirror_count; i++)
        if (atoll_image_url_split(r->mirrors[i].url, &mirror) &&
            strcmp(mirror.scheme, url->scheme) == 0 &&
            strcasecmp(mirror.authority, url->authority) == 0)
            return true;
    return false;
}

/* Whether the operator named the place itself: only such a place may lead to other hosts that the operator
 * named. Any other registry could use their exemption to reach the daemon's network. */
static bool is_trusted(const struct atoll_image_registry *r, const struct atoll_image_place *place)
{
    struct atoll_image_url u;

    return atoll_image_url_split(place->origin, &u) && (is_listed(r, &u) || is_mirror(r, &u));
}

int atoll_image_client_for(struct atoll_image_registry *r, const struct atoll_image_place *place,
                           const char *url, const struct atoll_image_call *call,
                           struct atoll_remote_http **ret, struct atoll_error *err)
{
    struct atoll_image_url u;
    bool trusted = is_trusted(r, place), listed, mirror, loopback;

    if (!atoll_image_url_split(url, &u))
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EPROTO,
                          "the registry gives an address that is not a URL");
    listed = trusted && is_listed(r, &u);
    mirror = trusted && is_mirror(r, &u);
    loopback = is_loopback(u.host);
    if (strcmp(u.scheme, "http") == 0 && !listed && !mirror && !loopback)
        return atoll_fail(
            err, ATOLL_ERR_FAILED_PRECONDITION, EPROTO,
            "the registry leads to %.200s without encryption, which is allowed only for "
            "hosts that the operator named as insecure",
            u.authority);
    *ret = listed || (loopback && call->allow_private) ? r->unverified
           : mirror || call->allow_private             ? r->any
                                                       : r->public;
    return 0;
}

/* Places. */

static void place_registry(const struct atoll_image_registry *r,
                           const struct atoll_image_reference *ref, struct atoll_image_place *ret)
{
    const bool hub = strcmp(ref->host, ATOLL_IMAGE_DOCKER_HUB) == 0;
    struct atoll_image_url u;

    *ret = (struct atoll_image_place){0};
    (void)snprintf(ret->host, sizeof(ret->host), "%s", hub ? HUB_HOST : ref->host);
    (void)snprintf(ret->origin, sizeof(ret->origin), "https://%s", ret->host);
    (void)snprintf(ret->repository, sizeof(ret->repository), "%s", ref->path);
    ret->may_be_plain =
        atoll_image_url_split(ret->origin, &u) && (is_listed(r, &u) || is_loopback(u.host));
}

/* The path of a mirror's URL is a prefix of repositories there. */
static void place_mirror(const struct atoll_image_mirror *mirror,
                         const struct atoll_image_reference *ref, struct atoll_image_place *ret)
{
    struct atoll_image_url u;
    const char *prefix;
    size_t n;

    *ret = (struct atoll_image_place){.mirror = true};
    (void)atoll_image_url_split(mirror->url, &u);
    (void)snprintf(ret->host, sizeof(ret->host), "%.*s", (int)sizeof(ret->host) - 1, u.authority);
    (void)snprintf(ret->origin, sizeof(ret->origin), "%s://%s", u.scheme, ret->host);
    prefix = u.path + strspn(u.path, "/");
    n = strlen(prefix);
    while (n > 0 && prefix[n - 1] == '/')
        n--;
    (void)snprintf(ret->repository, sizeof(ret->repository), "%.*s%s%s", (int)ATOLL_MIN(n, 250u),
                   prefix, n > 0 ? "/" : "", ref->path);
}

/* 1: http, 0: https, -1: not known. */
static int known_scheme(struct atoll_image_registry *r, const char *host)
{
    int plain = -1;

    (void)pthread_mutex_lock(&r->lock);
    for (size_t i = 0; i < ATOLL_IMAGE_SCHEMES_MAX; i++)
        if (strcmp(r->schemes[i].host, host) == 0)
            plain = r->schemes[i].plain;
    (void)pthread_mutex_unlock(&r->lock);
    return plain;
}

static void note_scheme(struct atoll_image_registry *r, const char *host, int plain)
{
    (void)pthread_mutex_lock(&r->lock);
    for (size_t i = 0; i < ATOLL_IMAGE_SCHEMES_MAX; i++)
        if (strcmp(r->schemes[i].host, host) == 0)
            r->schemes[i].host[0] = '\0';
    if (plain >= 0) {
        struct atoll_image_scheme *s = &r->schemes[r->scheme_next++ % ATOLL_IMAGE_SCHEMES_MAX];
        (void)snprintf(s->host, sizeof(s->host), "%s", host);
        s->plain = plain;
    }
    (void)pthread_mutex_unlock(&r->lock);
}

/* The status that a registry has for /v2/; 0: no answer. */
static long probe(struct atoll_image_registry *r, const struct atoll_image_ask *ask,
                  const struct atoll_image_place *place, const char *scheme)
{
    ATOLL_AUTOFREE struct atoll_image_head *head = calloc(1, sizeof(*head));
    struct atoll_image_place there = *place;
    struct atoll_image_ask q = *ask;
    struct atoll_error ignored = {0};
    char url[sizeof(place->origin) + 16];
    struct atoll_buf body = {0};

    if (!head)
        return 0;
    (void)snprintf(there.origin, sizeof(there.origin), "%s://%s", scheme, place->host);
    (void)snprintf(url, sizeof(url), "%s/v2/", there.origin);
    q.place = &there;
    q.method = "GET";
    q.url = url;
    q.once = true;
    q.head = head;
    (void)!atoll_image_ask(r, &q, &body, &ignored);
    atoll_buf_done(&body);
    return head->status;
}

/* Finds out whether a host that may be insecure has TLS. On a loopback address http is tried first: a
 * server that does not know TLS may not answer at all. One that does answers 400. */
static void settle_scheme(struct atoll_image_registry *r, const struct atoll_image_ask *ask,
                          struct atoll_image_place *place)
{
    struct atoll_image_url u;
    int plain = known_scheme(r, place->host);
    long status;

    if (plain < 0 && atoll_image_url_split(place->origin, &u) && is_loopback(u.host)) {
        status = probe(r, ask, place, "http");
        plain = status != 0 && status != 400;
    } else if (plain < 0) {
        plain = probe(r, ask, place, "https") == 0;
    }
    if (plain)
        (void)snprintf(place->origin, sizeof(place->origin), "http://%s", place->host);
}

static bool is_cancelled(const struct atoll_image_call *call)
{
    struct pollfd cancel = {.fd = call->cancel_fd, .events = POLLIN};

    return call->cancel_fd >= 0 && poll(&cancel, 1, 0) > 0;
}

static bool has_ended(const struct atoll_image_call *call, const struct atoll_error *err)
{
    return err->kind == ATOLL_ERR_ABORTED || err->kind == ATOLL_ERR_INTERNAL ||
           atoll_clock_ms() >= call->deadline_ms;
}

static int at_place(struct atoll_image_registry *r, struct atoll_image_place *place,
                    const struct atoll_image_reference *ref, const struct atoll_image_call *call,
                    bool push, atoll_image_place_fn *fn, void *arg, struct atoll_error *err)
{
    struct atoll_image_ask ask = {.place = place, .ref = ref, .call = call, .push = push};
    ATOLL_AUTOFREE struct atoll_image_head *head = calloc(1, sizeof(*head));
    int e;

    if (!head)
        return atoll_fail_errno(err, ENOMEM, "request to a registry");
    ask.head = head;
    if (place->may_be_plain)
        settle_scheme(r, &ask, place);
    e = fn(r, &ask, arg, err);
    if (place->may_be_plain && head->status != 0)
        note_scheme(r, place->host, strncmp(place->origin, "http:", 5) == 0);
    else if (place->may_be_plain)
        note_scheme(r, place->host, -1);
    if (e < 0 && is_cancelled(call))
        e = atoll_fail(err, ATOLL_ERR_ABORTED, ECANCELED, "the request was cancelled");
    if (e < 0 && err->kind != ATOLL_ERR_INTERNAL)
        err->another = true;
    return e;
}

int atoll_image_each_place(struct atoll_image_registry *r, const struct atoll_image_reference *ref,
                           const struct atoll_image_call *call, bool push, atoll_image_place_fn *fn,
                           void *arg, struct atoll_error *err)
{
    struct atoll_image_place place;
    struct atoll_error local = {0};
    int e;

    err = err ? err : &local;
    for (size_t i = 0; !push && i < r->mirror_count; i++) {
        if (strcmp(r->mirrors[i].host, ref->host) != 0)
            continue;
        place_mirror(&r->mirrors[i], ref, &place);
        e = at_place(r, &place, ref, call, push, fn, arg, err);
        if (e >= 0 || has_ended(call, err))
            return e;
        *err = (struct atoll_error){0};
    }
    place_registry(r, ref, &place);
    return at_place(r, &place, ref, call, push, fn, arg, err);
}

/* Documents. */

static const char *version_of(const struct atoll_image_reference *ref)
{
    return *ref->digest ? ref->digest : ref->tag;
}

static int lost(const struct atoll_image_ask *ask, const char *what, struct atoll_error *err)
{
    return atoll_fail(err, ATOLL_ERR_DATA_LOSS, EBADMSG,
                      "the registry %.200s sent %s that does not match its digest",
                      ask->place->host, what);
}

/* Gets /v2/REPOSITORY/KIND/VERSION; checks the digest if `digest` is not "", else stores it there. */
static int get_document(struct atoll_image_registry *r, struct atoll_image_ask *ask,
                        const char *kind, const char *version, char *digest, struct atoll_buf *ret,
                        struct atoll_error *err)
{
    char url[sizeof(ask->place->origin) + sizeof(ask->place->repository) + 256];
    char found[ATOLL_IMAGE_DIGEST_MAX];
    int e;

    (void)snprintf(url, sizeof(url), "%s/v2/%s/%s/%s", ask->place->origin, ask->place->repository,
                   kind, version);
    ask->method = "GET";
    ask->url = url;
    ask->accept = strcmp(kind, "manifests") == 0 ? ACCEPT : NULL;
    e = atoll_image_ask(r, ask, ret, err);
    if (e < 0)
        return e;
    atoll_image_digest(atoll_buf_head(ret), atoll_buf_size(ret), found);
    if ((*digest && strcmp(digest, found) != 0) ||
        (!*digest && *ask->head->digest && strcmp(ask->head->digest, found) != 0))
        return lost(ask, kind[0] == 'm' ? "a manifest" : "a config", err);
    memcpy(digest, found, sizeof(found));
    return 0;
}

static void buf_auto(struct atoll_buf *b)
{
    atoll_buf_done(b);
}

struct find {
    const struct atoll_image_platform *platform;
    struct atoll_image *image;
};

/* The manifest for the platform: what ref names, or what the index there names. */
static int get_manifest(struct atoll_image_registry *r, struct atoll_image_ask *ask,
                        const struct find *find, struct atoll_buf *ret, struct atoll_error *err)
{
    struct atoll_image *image = find->image;
    struct atoll_image_descriptor chosen;
    enum atoll_image_document kind;
    const char *version = version_of(ask->ref);
    int e;

    (void)snprintf(image->digest, sizeof(image->digest), "%s", ask->ref->digest);
    for (int depth = 0; depth < 2; depth++, version = chosen.digest) {
        atoll_buf_done(ret);
        *ret = (struct atoll_buf){0};
        e = get_document(r, ask, "manifests", version, image->digest, ret, err);
        if (e == 0)
            e = atoll_image_document_kind((const char *)atoll_buf_head(ret), atoll_buf_size(ret),
                                          ask->head->type, &kind, err);
        if (e < 0 || kind == ATOLL_IMAGE_IS_MANIFEST)
            return e;
        e = atoll_image_index_choose((const char *)atoll_buf_head(ret), atoll_buf_size(ret),
                                     find->platform, &chosen, err);
        if (e < 0)
            return e;
        memcpy(image->index_digest, image->digest, sizeof(image->digest));
        memcpy(image->digest, chosen.digest, sizeof(image->digest));
    }
    return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EPROTO,
                      "the index of the image leads to another index");
}

static int keep_text(struct atoll_buf *b, char **ret, size_t *ret_len, struct atoll_error *err)
{
    *ret_len = atoll_buf_size(b);
    *ret = strdup(atoll_buf_str(b));
    return *ret ? 0 : atoll_fail_errno(err, ENOMEM, "document of an image");
}

static int get_config(struct atoll_image_registry *r, struct atoll_image_ask *ask,
                      struct atoll_image *image, struct atoll_error *err)
{
    ATOLL_CLEANUP(buf_auto) struct atoll_buf body = {0};
    int e = get_document(r, ask, "blobs", image->manifest.config.digest,
                         image->manifest.config.digest, &body, err);

    if (e == 0)
        e = keep_text(&body, &image->config_text, &image->config_len, err);
    if (e == 0)
        e = atoll_image_config_parse(image->config_text, image->config_len, &image->config, err);
    if (e == 0 && image->config.diff_id_count != image->manifest.layer_count)
        e = atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EPROTO,
                       "the image is malformed: %zu layers, but %zu diff ids",
                       image->manifest.layer_count, image->config.diff_id_count);
    return e;
}

static int find_at(struct atoll_image_registry *r, struct atoll_image_ask *ask, void *arg,
                   struct atoll_error *err)
{
    ATOLL_CLEANUP(buf_auto) struct atoll_buf body = {0};
    struct find *find = arg;
    struct atoll_image *image = find->image;
    char name[ATOLL_IMAGE_REFERENCE_MAX];
    int e;

    atoll_image_done(image);
    e = get_manifest(r, ask, find, &body, err);
    if (e == 0)
        e = keep_text(&body, &image->manifest_text, &image->manifest_len, err);
    if (e == 0)
        e = atoll_image_manifest_parse(image->manifest_text, image->manifest_len, &image->manifest,
                                       err);
    if (e == 0)
        e = get_config(r, ask, image, err);
    /* What is wrong with the answers does not say whose they are. */
    if (e < 0 && ask->head->status / 100 == 2)
        return atoll_wrap(err, "%.200s", atoll_image_reference_short(ask->ref, name));
    return e;
}

int atoll_image_registry_find(struct atoll_image_registry *r,
                              const struct atoll_image_reference *ref,
                              const struct atoll_image_platform *platform,
                              const struct atoll_image_call *call, struct atoll_image *ret,
                              struct atoll_error *err)
{
    struct atoll_image_platform here;
    struct atoll_image image = {0};
    struct find find = {.platform = platform ? platform : &here, .image = &image};
    int e;

    atoll_image_platform_here(&here);
    e = atoll_image_each_place(r, ref, call, false, find_at, &find, err);
    if (e == 0)
        *ret = image;
    else
        atoll_image_done(&image);
    return e;
}

void atoll_image_done(struct atoll_image *image)
{
    free(image->manifest_text);
    free(image->config_text);
    atoll_image_config_done(&image->config);
    *image = (struct atoll_image){0};
}

/* A registry need not send the digest with HEAD; then the document itself is asked for. */
static int digest_at(struct atoll_image_registry *r, struct atoll_image_ask *ask, void *arg,
                     struct atoll_error *err)
{
    ATOLL_CLEANUP(buf_auto) struct atoll_buf body = {0};
    char url[sizeof(ask->place->origin) + sizeof(ask->place->repository) + 256];
    char *digest = arg;
    int e;

    (void)snprintf(url, sizeof(url), "%s/v2/%s/manifests/%s", ask->place->origin,
                   ask->place->repository, version_of(ask->ref));
    ask->method = "HEAD";
    ask->url = url;
    ask->accept = ACCEPT;
    e = atoll_image_ask(r, ask, &body, err);
    if (e < 0)
        return e;
    (void)snprintf(digest, ATOLL_IMAGE_DIGEST_MAX, "%s", ask->head->digest);
    if (*digest)
        return 0;
    return get_document(r, ask, "manifests", version_of(ask->ref), digest, &body, err);
}

int atoll_image_registry_digest(struct atoll_image_registry *r,
                                const struct atoll_image_reference *ref,
                                const struct atoll_image_call *call,
                                char ret[ATOLL_IMAGE_DIGEST_MAX], struct atoll_error *err)
{
    return atoll_image_each_place(r, ref, call, false, digest_at, ret, err);
}
