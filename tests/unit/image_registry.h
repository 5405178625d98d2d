#pragma once
/*
 * A registry for tests of its client, with one image, that can misbehave; and a client of it.
 */
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include "base/clock.h"
#include "fake_http.h"
#include "image/registry.h"

#define BLOB_LEN 100000
#define UPLOAD_MAX (1 << 20)
#define BASIC "Basic dXNlcjpwYXNz" /* user:pass */
#define HUB_TYPE "Content-Type: " ATOLL_IMAGE_MEDIA_MANIFEST "\r\n"

enum auth { OPEN, WANTS_BASIC, WANTS_BEARER };

/* What the registry does. Set before the client asks, except what is locked. */
static struct {
    struct fake_http *http, *other; /* other: where blobs are redirected to */
    struct atoll_image_registry *registry;
    enum auth auth;
    int token;               /* locked; number of the newest token, the only one that is accepted */
    int token_status;        /* 0: the token server works */
    const char *token_login; /* the login that it wants; NULL: any */
    int failures;            /* locked; how many requests fail with `failure` */
    const char *failure_headers;
    int failure;
    int breaks; /* locked; how many uploads break */
    size_t cut; /* blobs break after so many bytes; 0: not */
    int cuts;   /* locked; how often */
    bool no_range, flipped, longer, silent, redirects;
    const char *said_digest; /* header of manifests; NULL: the right one */
    const char *index;       /* what the tag "list" has */
    char blob[BLOB_LEN], digest[ATOLL_IMAGE_DIGEST_MAX];
    char config[512], config_digest[ATOLL_IMAGE_DIGEST_MAX];
    char manifest[1024], manifest_digest[ATOLL_IMAGE_DIGEST_MAX];
    char upload[UPLOAD_MAX]; /* locked */
    size_t upload_len;
    bool uploaded, mounts;
    char stored[2048];
    char dir[64];
    int dir_fd;
} w;

static inline void answer(struct fake_request *q, int status, const char *headers,
                          const char *bytes, size_t n, size_t sent)
{
    char head[8192];
    int len = snprintf(head, sizeof(head),
                       "HTTP/1.1 %d X\r\nContent-Length: %zu\r\nConnection: close\r\n%s\r\n",
                       status, n, headers);

    if (atoll_fd_write_all(q->fd, head, (size_t)len) == 0 && strcmp(q->method, "HEAD") != 0)
        (void)!atoll_fd_write_all(q->fd, bytes, sent);
}

static inline void say(struct fake_request *q, int status, const char *headers, const char *text)
{
    answer(q, status, headers, text, strlen(text), strlen(text));
}

static inline bool has_header(const struct fake_request *q, const char *line)
{
    return strcasestr(q->head, line) != NULL;
}

static inline bool counts_down(int *counter)
{
    bool some;

    (void)pthread_mutex_lock(&w.http->lock);
    some = *counter > 0 && (*counter)--;
    (void)pthread_mutex_unlock(&w.http->lock);
    return some;
}

static inline bool is_authorized(const struct fake_request *q)
{
    char token[64];

    (void)snprintf(token, sizeof(token), "\r\nAuthorization: Bearer token-%d\r\n", w.token);
    return w.auth == OPEN ||
           (w.auth == WANTS_BASIC && has_header(q, "Authorization: " BASIC "\r\n")) ||
           (w.auth == WANTS_BEARER && has_header(q, token));
}

static inline void challenge(struct fake_request *q)
{
    char header[256] = "WWW-Authenticate: Basic realm=\"test\"\r\n";

    if (w.auth == WANTS_BEARER)
        (void)snprintf(header, sizeof(header),
                       "WWW-Authenticate: Bearer realm=\"%s/token\",service=\"test registry\"\r\n",
                       w.http->url);
    say(q, 401, header, "{\"errors\":[{\"code\":\"UNAUTHORIZED\",\"message\":\"who are you\"}]}");
}

static inline void serve_token(struct fake_request *q)
{
    char text[128];

    if (w.token_status != 0) {
        say(q, w.token_status, "", "{\"details\":\"no\"}");
        return;
    }
    if (w.token_login && !has_header(q, w.token_login)) {
        say(q, 401, "", "{\"details\":\"incorrect username or password\"}");
        return;
    }
    (void)snprintf(text, sizeof(text), "{\"token\":\"token-%d\",\"expires_in\":300}", w.token);
    say(q, 200, "", text);
}

static inline void serve_blob(struct fake_request *q)
{
    const char *range = strcasestr(q->head, "\r\nRange: bytes=");
    size_t from = range && !w.no_range ? strtoul(range + 15, NULL, 10) : 0, n = BLOB_LEN - from;
    bool cut = w.cut > 0 && counts_down(&w.cuts);
    char headers[256] = "", bytes[BLOB_LEN + 1] = "";

    if (from > BLOB_LEN) {
        say(q, 416, "", "");
        return;
    }
    memcpy(bytes, w.blob + from, n);
    if (w.flipped)
        bytes[n - 1] ^= 1;
    if (from > 0)
        (void)snprintf(headers, sizeof(headers), "Content-Range: bytes %zu-%d/%d\r\n", from,
                       BLOB_LEN - 1, BLOB_LEN);
    answer(q, from > 0 ? 206 : 200, headers, bytes, n + w.longer,
           cut ? ATOLL_MIN(w.cut, n) : n + w.longer);
}

static inline void serve_manifest(struct fake_request *q, const char *version)
{
    char headers[512];

    if (w.index && strcmp(version, "list") == 0) {
        say(q, 200, "Content-Type: " ATOLL_IMAGE_MEDIA_INDEX "\r\n", w.index);
        return;
    }
    if (strcmp(version, "latest") != 0 && strcmp(version, w.manifest_digest) != 0) {
        say(q, 404, "", "{\"errors\":[{\"code\":\"MANIFEST_UNKNOWN\"}]}");
        return;
    }
    (void)snprintf(headers, sizeof(headers), HUB_TYPE "Docker-Content-Digest: %s\r\n",
                   w.said_digest ? w.said_digest : w.manifest_digest);
    say(q, 200, headers, w.manifest);
}

/* PATCH and PUT of an upload; a PATCH that fails has stored the first half. */
static inline void serve_upload(struct fake_request *q)
{
    char headers[256];
    bool patch = strcmp(q->method, "PATCH") == 0;
    bool broken = patch && counts_down(&w.breaks);
    size_t n = broken ? q->body_len / 2 : q->body_len;

    (void)pthread_mutex_lock(&w.http->lock);
    if (patch && w.upload_len + n <= sizeof(w.upload)) {
        memcpy(w.upload + w.upload_len, q->body, n);
        w.upload_len += n;
    }
    (void)snprintf(headers, sizeof(headers), "Location: /up/%zu?state=x\r\nRange: 0-%zu\r\n",
                   w.upload_len, w.upload_len > 0 ? w.upload_len - 1 : 0);
    (void)pthread_mutex_unlock(&w.http->lock);
    if (broken)
        say(q, 500, "", "");
    else if (strcmp(q->method, "PUT") == 0)
        w.uploaded = strstr(q->path, w.digest) != NULL, say(q, 201, "", "");
    else
        say(q, patch ? 202 : 204, headers, "");
}

static inline void serve_push(struct fake_request *q)
{
    if (w.mounts && strstr(q->path, "?mount="))
        say(q, 201, "", "");
    else if (strstr(q->path, "/blobs/uploads/"))
        say(q, 202, "Location: /up/0?state=x\r\n", "");
    else
        (void)snprintf(w.stored, sizeof(w.stored), "%s %s", q->path, q->body), say(q, 201, "", "");
}

static inline void serve(struct fake_request *q)
{
    static const char manifests[] = "/v2/a/b/manifests/";
    char byte, location[2048];

    if (w.silent)
        (void)!read(q->fd, &byte, 1); /* until the client gives up */
    else if (strncmp(q->path, "/token", 6) == 0)
        serve_token(q);
    else if (strcmp(q->path, "/v2/") == 0)
        say(q, 200, "", "{}");
    else if (counts_down(&w.failures))
        say(q, w.failure, w.failure_headers ? w.failure_headers : "", "{}");
    else if (!is_authorized(q))
        challenge(q);
    else if (strncmp(q->path, "/up/", 4) == 0)
        serve_upload(q);
    else if (strcmp(q->method, "POST") == 0 || strcmp(q->method, "PUT") == 0)
        serve_push(q);
    else if (strncmp(q->path, manifests, sizeof(manifests) - 1) == 0)
        serve_manifest(q, q->path + sizeof(manifests) - 1);
    else if (strstr(q->path, w.config_digest))
        say(q, 200, "", w.config);
    else if (strstr(q->path, w.digest) && strcmp(q->method, "HEAD") == 0)
        say(q, w.uploaded ? 200 : 404, "", "");
    else if (strstr(q->path, w.digest) && w.redirects)
        (void)snprintf(location, sizeof(location), "Location: %s%s\r\n", w.other->url, q->path),
            say(q, 307, location, "");
    else if (strstr(q->path, w.digest))
        serve_blob(q);
    else
        say(q, 404, "", "{\"errors\":[{\"code\":\"NAME_UNKNOWN\",\"message\":\"no such thing\"}]}");
}

static inline void serve_other(struct fake_request *q)
{
    if (has_header(q, "\r\nAuthorization:"))
        say(q, 400, "", "the login is here");
    else
        serve_blob(q);
}

static inline void make_image(void)
{
    for (size_t i = 0; i < BLOB_LEN; i++)
        w.blob[i] = (char)(i * 7 + i / 251);
    atoll_image_digest(w.blob, BLOB_LEN, w.digest);
    (void)snprintf(w.config, sizeof(w.config),
                   "{\"os\":\"linux\",\"architecture\":\"amd64\",\"config\":{\"User\":\"me\"},"
                   "\"rootfs\":{\"type\":\"layers\",\"diff_ids\":[\"%s\"]}}",
                   w.digest);
    atoll_image_digest(w.config, strlen(w.config), w.config_digest);
    (void)snprintf(w.manifest, sizeof(w.manifest),
                   "{\"schemaVersion\":2,\"mediaType\":\"" ATOLL_IMAGE_MEDIA_MANIFEST
                   "\",\"config\":{\"mediaType\":\"" ATOLL_IMAGE_MEDIA_CONFIG
                   "\",\"digest\":\"%s\",\"size\":%zu},\"layers\":[{\"mediaType\":"
                   "\"" ATOLL_IMAGE_MEDIA_LAYER "+gzip\",\"digest\":\"%s\",\"size\":%d}]}",
                   w.config_digest, strlen(w.config), w.digest, BLOB_LEN);
    atoll_image_digest(w.manifest, strlen(w.manifest), w.manifest_digest);
}

static inline void new_client(const struct atoll_image_registry_config *config)
{
    struct atoll_error err;

    w.registry = atoll_image_registry_free(w.registry);
    if (atoll_image_registry_new(config, &w.registry, &err) < 0)
        fail_msg("%s", err.text);
}

static inline int setup(void **state)
{
    (void)state;
    memset(&w, 0, sizeof(w));
    w.http = fake_http_new(serve);
    w.other = fake_http_new(serve_other);
    make_image();
    new_client(&(struct atoll_image_registry_config){0});
    (void)snprintf(w.dir, sizeof(w.dir), "/tmp/atoll-blobs-XXXXXX");
    if (!mkdtemp(w.dir))
        return -1;
    w.dir_fd = open(w.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return 0;
}

static inline int teardown(void **state)
{
    char name[ATOLL_IMAGE_DIGEST_MAX];
    char part[ATOLL_IMAGE_DIGEST_MAX + 8];

    (void)state;
    w.registry = atoll_image_registry_free(w.registry);
    fake_http_free(w.http);
    fake_http_free(w.other);
    atoll_image_blob_name(w.digest, name);
    (void)snprintf(part, sizeof(part), "%s.part", name);
    (void)unlinkat(w.dir_fd, name, 0);
    (void)unlinkat(w.dir_fd, part, 0);
    (void)close(w.dir_fd);
    return rmdir(w.dir); /* nothing else may be there */
}

/* Requests. */

static inline struct atoll_image_reference at_version(const char *version)
{
    struct atoll_image_reference ref;
    struct atoll_error err;
    char text[256];

    (void)snprintf(text, sizeof(text), "%s/a/b%s", w.http->url + strlen("http://"), version);
    if (atoll_image_reference_parse(text, &ref, &err) < 0)
        fail_msg("%s: %s", text, err.text);
    return ref;
}

static inline struct atoll_image_call within(int ms)
{
    return (struct atoll_image_call){
        .deadline_ms = atoll_clock_ms() + ms, .cancel_fd = -1, .allow_private = true};
}

static inline int find(const char *version, const struct atoll_image_call *call,
                       struct atoll_error *err)
{
    const struct atoll_image_reference ref = at_version(version);
    struct atoll_image *image = calloc(1, sizeof(*image));
    int r = atoll_image_registry_find(w.registry, &ref, NULL, call, image, err);

    if (r == 0) {
        assert_string_equal(image->digest, w.manifest_digest);
        assert_string_equal(image->manifest.layers[0].digest, w.digest);
        assert_string_equal(json_string_value(json_object_get(image->config.config, "User")), "me");
        atoll_image_done(image);
    } else if (!err->another) {
        fail_msg("not marked as the registry's: %s", err->text);
    }
    free(image);
    return r;
}

static inline void find_must(const char *version)
{
    const struct atoll_image_call call = within(30000);
    struct atoll_error err = {0};

    if (find(version, &call, &err) < 0)
        fail_msg("%s", err.text);
}

static inline struct atoll_error find_fails(const char *version,
                                            const struct atoll_image_login *login,
                                            enum atoll_error_kind kind)
{
    struct atoll_image_call call = within(30000);
    struct atoll_error err = {0};

    call.login = login;
    assert_true(find(version, &call, &err) < 0);
    if (err.kind != kind)
        fail_msg("%s: %s", atoll_error_kind_name(err.kind), err.text);
    return err;
}

static inline struct atoll_image_descriptor layer(void)
{
    struct atoll_image_descriptor d = {.size = BLOB_LEN};

    memcpy(d.digest, w.digest, sizeof(d.digest));
    return d;
}

static inline int get(struct atoll_error *err)
{
    const struct atoll_image_reference ref = at_version("");
    const struct atoll_image_descriptor blob = layer();
    const struct atoll_image_call call = within(30000);

    return atoll_image_registry_get_blob(w.registry, &ref, &blob, w.dir_fd, &call, err);
}

static inline bool has_file(const char *suffix)
{
    char name[ATOLL_IMAGE_DIGEST_MAX], path[128];
    struct stat st;

    (void)snprintf(path, sizeof(path), "%s%s", atoll_image_blob_name(w.digest, name), suffix);
    return fstatat(w.dir_fd, path, &st, 0) == 0;
}

static inline void get_must(void)
{
    char name[ATOLL_IMAGE_DIGEST_MAX], *bytes = malloc(BLOB_LEN + 1);
    struct atoll_error err = {0};
    int fd;

    if (get(&err) < 0)
        fail_msg("%s", err.text);
    fd = openat(w.dir_fd, atoll_image_blob_name(w.digest, name), O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(read(fd, bytes, BLOB_LEN + 1), BLOB_LEN);
    assert_memory_equal(bytes, w.blob, BLOB_LEN);
    (void)close(fd);
    free(bytes);
    assert_false(has_file(".part"));
}

static inline struct atoll_error get_fails(enum atoll_error_kind kind)
{
    struct atoll_error err = {0};

    assert_true(get(&err) < 0);
    if (err.kind != kind)
        fail_msg("%s: %s", atoll_error_kind_name(err.kind), err.text);
    assert_false(has_file(""));
    return err;
}
