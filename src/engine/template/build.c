#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "base/memory.h"
#include "base/rand.h"
#include "base/text.h"
#include "engine/engine_internal.h"

/*
 * Builds an image from a Dockerfile. The archive is sent to the provider through a socket, and the
 * provider returns the output of the build line by line. The image gets a random name that cannot
 * be guessed, because at the provider names are the only separation between tenants; clients use
 * the name of the template.
 */

#define CONTEXT_MAX (UINT64_C(4) << 30)
#define MEMORY_DEFAULT (UINT64_C(2) << 30)
#define EARLY_MAX ((size_t)256 * 1024)
#define IMAGE_NAME "atoll-template:"

struct atoll_build {
    struct atoll_engine *engine;
    struct atoll_list node; /* in engine->builds */
    char name[65];
    char provider[65];
    char image[64];
    uint64_t size_bytes; /* bytes of the archive received so far */
    int fd;              /* our end of the socket; closed at the end of the archive */
    struct atoll_watch watch;
    uint8_t *piece; /* the bytes that are being sent; owned */
    size_t piece_len, piece_at;
    atoll_done_fn *taken;
    void *taken_arg;
    struct atoll_buf early; /* output before atoll_build_finish(): lines with their NUL */
    bool ended;             /* the provider has reported the result */
    bool failed;
    struct atoll_error error;
    struct atoll_provider_image made;
    struct atoll_timer later;
    bool dropped;
    void (*said)(void *arg, const char *line);
    atoll_template_fn *done;
    void *arg;
};

void atoll_image_name(char out[64])
{
    (void)snprintf(out, 64, IMAGE_NAME);
    atoll_rand_id(out + strlen(out), ATOLL_ID_LEN);
}

/* named: also those that are used only for requests that name them. */
static struct atoll_provider_entry *first_that(const struct atoll_engine *engine, bool named,
                                               bool (*can)(const struct atoll_provider_caps *caps))
{
    for (size_t i = 0; i < engine->entry_count; i++)
        if (!engine->entries[i]->retired && (named || !engine->entries[i]->config.named_only) &&
            can(engine->entries[i]->provider->ops->caps(engine->entries[i]->provider)))
            return engine->entries[i];
    return NULL;
}

/* Adds a hint: a provider that can, or a kind of provider that could. */
static void advise(const struct atoll_engine *engine,
                   bool (*can)(const struct atoll_provider_caps *caps), struct atoll_error *err)
{
    const struct atoll_route_kinds *kinds = atoll_engine_kinds(engine);
    const struct atoll_provider_entry *other = first_that(engine, true, can);

    for (size_t i = 0; !other && i < kinds->count; i++)
        if (can(&kinds->list[i].caps))
            atoll_advise_kind(&kinds->list[i], err);
    if (other)
        atoll_advise(err, "provider %s can%s", other->provider->ops->name,
                     other->config.named_only ? ", for requests that name it" : "");
}

struct atoll_provider_entry *atoll_provider_entry_for(
    struct atoll_engine *engine, const char *provider,
    bool (*can)(const struct atoll_provider_caps *caps), const char *what, struct atoll_error *err)
{
    struct atoll_provider_entry *entry =
        provider ? atoll_provider_entry_by_name(engine, provider) : NULL;

    if (provider && strcmp(provider, "auto") == 0)
        provider = NULL;
    if (!provider)
        entry = first_that(engine, false, can);
    if (entry && entry->retired)
        entry = NULL;
    if (entry && can(entry->provider->ops->caps(entry->provider)))
        return entry;
    if (provider && !entry) {
        (void)atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "there is no provider %.64s",
                         provider);
        atoll_advise_name(atoll_engine_kinds(engine), provider, err);
    } else {
        (void)atoll_fail(err, ATOLL_ERR_UNIMPLEMENTED, EOPNOTSUPP, "%s%s cannot %s",
                         provider ? "provider " : "the providers of this daemon",
                         provider ? provider : "", what);
        advise(engine, can, err);
    }
    atoll_advise_reload(engine, err);
    return NULL;
}

static void close_input(struct atoll_build *b)
{
    atoll_watch_close(&b->watch);
    if (b->fd >= 0)
        (void)close(ATOLL_TAKE_FD(b->fd));
}

static void build_free(struct atoll_build *b)
{
    atoll_list_remove(&b->node);
    close_input(b);
    atoll_timer_cancel(&b->later);
    atoll_buf_done(&b->early);
    free(b->piece);
    free(b);
}

/* Calls the callback of atoll_build_write(). */
static void tell_taken(struct atoll_build *b, const struct atoll_error *error)
{
    atoll_done_fn *taken = ATOLL_TAKE_PTR(b->taken);

    free(b->piece);
    b->piece = NULL;
    atoll_watch_close(&b->watch);
    if (taken)
        taken(b->taken_arg, error);
}

static void feed(struct atoll_build *b);

static void on_room(void *arg, uint32_t events)
{
    (void)events;
    feed(arg);
}

static void feed(struct atoll_build *b)
{
    struct atoll_error err;

    while (b->piece_at < b->piece_len) {
        ssize_t n = send(b->fd, b->piece + b->piece_at, b->piece_len - b->piece_at, MSG_NOSIGNAL);
        if (n >= 0) {
            b->piece_at += (size_t)n;
        } else if (errno == EAGAIN) {
            if (!b->watch.loop &&
                atoll_watch_open(&b->watch, b->engine->loop, b->fd, EPOLLOUT, on_room, b) < 0)
                abort();
            return;
        } else if (errno != EINTR) {
            break; /* the provider does not read any more; its result has the reason */
        }
    }
    if (b->failed)
        err = b->error;
    tell_taken(b, b->failed ? &err : NULL);
}

void atoll_build_write(struct atoll_build *b, const uint8_t *bytes, size_t n, atoll_done_fn *done,
                       void *arg)
{
    struct atoll_error err;

    b->taken = done;
    b->taken_arg = arg;
    b->size_bytes += n;
    if (b->failed || b->size_bytes > CONTEXT_MAX) {
        err = b->error;
        if (!b->failed)
            (void)atoll_fail(&err, ATOLL_ERR_RESOURCE_EXHAUSTED, EFBIG,
                             "the files of a build may be %llu GiB at most",
                             (unsigned long long)(CONTEXT_MAX >> 30));
        tell_taken(b, &err);
        return;
    }
    b->piece = malloc(n ? n : 1);
    if (!b->piece)
        abort();
    memcpy(b->piece, bytes, n);
    b->piece_len = n;
    b->piece_at = 0;
    feed(b);
}

static void drop_image(const struct atoll_build *b, struct atoll_provider_entry *entry)
{
    entry->provider->ops->drop_image(entry->provider, b->image, atoll_done_ignore, NULL);
}

/* Stores the template, or fails, and frees the build. */
static void conclude(void *arg)
{
    struct atoll_build *b = arg;
    struct atoll_provider_entry *entry = atoll_provider_entry_by_name(b->engine, b->provider);
    struct atoll_version *v = NULL;
    struct atoll_template_view view;
    struct atoll_error err = b->error;
    atoll_template_fn *done = b->done;
    void *done_arg = b->arg;

    if (!b->failed && !entry)
        (void)atoll_fail(&err, ATOLL_ERR_ABORTED, ENODEV, "provider %s was removed meanwhile",
                         b->provider);
    if (!b->failed && entry &&
        atoll_template_check(b->engine, "", b->name, ATOLL_TEMPLATE_IMAGE, &err) < 0) {
        drop_image(b, entry); /* the name was taken meanwhile */
    } else if (!b->failed && entry) {
        if (atoll_template_keep_image(
                b->engine,
                &(struct atoll_version_new){.owner = "", .name = b->name, .source = "dockerfile"},
                entry, b->image, &b->made, &v, &err) < 0)
            v = NULL;
    }
    if (v)
        view = atoll_version_get(b->engine, v);
    build_free(b);
    done(done_arg, v ? &view : NULL, v ? NULL : &err);
}

static void on_said(void *arg, const char *line)
{
    struct atoll_build *b = arg;

    if (b->said && !b->dropped)
        b->said(b->arg, line);
    else if (!b->dropped)
        (void)!atoll_buf_append(&b->early, line, strlen(line) + 1);
}

static void on_built(void *arg, const struct atoll_provider_image *made,
                     const struct atoll_error *error)
{
    struct atoll_build *b = arg;

    b->ended = true;
    b->failed = error != NULL;
    if (error)
        b->error = *error;
    else
        b->made = *made;
    if (b->dropped) {
        struct atoll_provider_entry *entry = atoll_provider_entry_by_name(b->engine, b->provider);
        if (!error && entry)
            drop_image(b, entry);
        build_free(b);
    } else if (b->done) {
        conclude(b);
    } else if (b->failed && b->taken) {
        tell_taken(b, &b->error); /* the rest of the piece will not be read */
    }
}

/* Delivers the early output from the loop, like the output after it. */
static void begin_telling(void *arg)
{
    struct atoll_build *b = arg;

    while (atoll_buf_size(&b->early) > 0) {
        const char *line = (const char *)atoll_buf_head(&b->early);
        b->said(b->arg, line);
        atoll_buf_consume(&b->early, strlen(line) + 1);
    }
    if (b->ended)
        conclude(b);
}

void atoll_build_finish(struct atoll_build *b, void (*said)(void *arg, const char *line),
                        atoll_template_fn *done, void *arg)
{
    close_input(b);
    b->said = said;
    b->done = done;
    b->arg = arg;
    atoll_timer_set(&b->later, b->engine->loop, 0, begin_telling, b);
}

void atoll_build_drop(struct atoll_build *b)
{
    struct atoll_provider_entry *entry;

    if (!b)
        return;
    close_input(b);
    atoll_timer_cancel(&b->later);
    b->taken = NULL;
    entry = atoll_provider_entry_by_name(b->engine, b->provider);
    if (b->ended) {
        if (!b->failed && entry)
            drop_image(b, entry);
        build_free(b);
        return;
    }
    b->dropped = true;
    if (entry)
        entry->provider->ops->cancel_build(entry->provider, b->image);
}

void atoll_builds_done(struct atoll_engine *engine)
{
    ATOLL_LIST_FOREACH (&engine->builds, node)
        build_free(ATOLL_CONTAINER_OF(node, struct atoll_build, node));
}

static bool can_build(const struct atoll_provider_caps *caps)
{
    return caps->builds;
}

static int check_request(struct atoll_engine *engine, const struct atoll_build_request *request,
                         struct atoll_error *err)
{
    const char *file = request->dockerfile ? request->dockerfile : "Dockerfile";

    if (engine->ending)
        return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, ESHUTDOWN, "the daemon is stopping");
    if (!*file || *file == '/' || strlen(file) > 200 || strstr(file, ".."))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "the Dockerfile must be a path among the files, such as "
                          "docker/Dockerfile (got \"%.100s\")",
                          file);
    if (request->network == ATOLL_NETWORK_ISOLATED)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "a build has the network \"none\" or \"bridge\"");
    if (atoll_network_admit(engine, ATOLL_OPERATOR_TENANT, request->network, err) < 0)
        return -EPERM;
    return atoll_template_check(engine, "", request->name, ATOLL_TEMPLATE_IMAGE, err);
}

int atoll_build_start(struct atoll_engine *engine, const struct atoll_build_request *request,
                      struct atoll_build **ret, struct atoll_error *err)
{
    int r = check_request(engine, request, err);
    struct atoll_provider_build build = {
        .dockerfile = request->dockerfile ? request->dockerfile : "Dockerfile",
        .network = request->network,
        .memory_bytes = request->memory_bytes ? request->memory_bytes : MEMORY_DEFAULT,
    };
    struct atoll_provider_entry *entry;
    struct atoll_build *b;
    int fds[2];

    if (r < 0)
        return r;
    entry = atoll_provider_entry_for(engine, request->provider, can_build,
                                     "build images from a Dockerfile", err);
    if (!entry)
        return -EOPNOTSUPP;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) < 0)
        return atoll_fail_errno(err, errno, "build");
    b = atoll_alloc(sizeof(*b));
    b->engine = engine;
    atoll_list_push_back(&engine->builds, &b->node);
    b->fd = fds[0];
    atoll_buf_init(&b->early, EARLY_MAX);
    (void)snprintf(b->name, sizeof(b->name), "%s", request->name);
    (void)snprintf(b->provider, sizeof(b->provider), "%s", entry->provider->ops->name);
    atoll_image_name(b->image);
    build.image = b->image;
    build.context_fd = fds[1];
    entry->provider->ops->build(entry->provider, &build, on_said, on_built, b);
    *ret = b;
    return 0;
}
