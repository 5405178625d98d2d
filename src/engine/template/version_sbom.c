#include "engine/template/version_sbom.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/fd.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/metrics.h"
#include "base/switches.h"
#include "engine/template/images_internal.h"
#include "engine/waiters.h"
#include "sandbox/programs.h"
#include "sandbox/stack.h"

#define TREE "/.atoll/layer"
#define RESULT "/import/sbom"
#define RESULT_MAX ((uint64_t)64 << 20)
#define RUNNING_MAX 1
#define SOON_MS 500 /* the client that made the version probably creates a sandbox first */
#define TIMEOUT_MS (10 * 60 * 1000)
#define CHUNK ((size_t)256 * 1024)

struct listing {
    struct atoll_images *images;
    struct atoll_list node; /* in images->sboms; those that run are first */
    char version_id[ATOLL_VERSION_ID_LEN + 1];
    bool running;
    bool ending;               /* its version is being removed */
    struct atoll_list waiters; /* for the file */
    struct atoll_list enders;  /* for the end of the sandbox */
    char sandbox_id[ATOLL_ID_LEN + 1];
    struct atoll_reader *reader;
    char said[200]; /* the last of its stderr */
    struct atoll_timer start;
    struct atoll_job job;
    bool ran;
    int fd; /* owned: the list as the sandbox wrote it */
    int r;  /* of the job */
    bool failed;
    struct atoll_error error;
};

static void begin(void *arg);

static struct listing *at(struct atoll_list *node)
{
    return ATOLL_CONTAINER_OF(node, struct listing, node);
}

static struct listing *find(struct atoll_images *images, const char *version_id)
{
    ATOLL_LIST_FOREACH (&images->sboms, node)
        if (strcmp(at(node)->version_id, version_id) == 0)
            return at(node);
    return NULL;
}

/* What its tree has: the host's own system is not part of a version. "": nothing. */
static const char *layers_of(const struct listing *l)
{
    const struct atoll_version *v =
        atoll_map_get(&l->images->engine->template_tables.versions, l->version_id);

    if (!v)
        return "";
    return atoll_stack_is_host(v->layers) ? atoll_stack_above_host(v->layers) : v->layers;
}

static void next_turn(struct atoll_images *images)
{
    ATOLL_LIST_FOREACH (&images->sboms, node) {
        struct listing *l = at(node);

        if (images->stopping || images->engine->ending || images->listing >= RUNNING_MAX)
            return;
        if (l->running)
            continue;
        l->running = true;
        images->listing++;
        atoll_timer_set(&l->start, images->engine->loop,
                        atoll_list_empty(&l->waiters) ? SOON_MS : 0, begin, l);
    }
}

static void listing_free(struct listing *l)
{
    atoll_list_remove(&l->node);
    atoll_timer_cancel(&l->start);
    l->reader = atoll_reader_close(l->reader);
    atoll_waiters_drop(&l->waiters);
    atoll_waiters_drop(&l->enders);
    if (l->fd >= 0)
        (void)close(l->fd);
    free(l);
}

/* It is over, and no sandbox of it is left. */
static void conclude(struct listing *l)
{
    struct atoll_images *images = l->images;
    const struct atoll_error *error = l->failed ? &l->error : NULL;

    atoll_metric_add(ATOLL_METRIC_SBOMS, ATOLL_LABELS(error ? "failed" : "done"), 1);
    if (error && !l->ending && !images->engine->ending && atoll_list_empty(&l->waiters))
        atoll_log(ATOLL_LOG_WARN, "list of packages", "version", l->version_id, "error",
                  error->text, NULL);
    images->listing -= l->running;
    atoll_list_remove(&l->node); /* a new request makes a new one */
    atoll_waiters_tell(&l->waiters, error);
    atoll_waiters_tell(&l->enders, NULL);
    listing_free(l);
    next_turn(images);
}

static void on_removed(void *arg, const struct atoll_error *error ATOLL_UNUSED)
{
    conclude(arg);
}

static void finish(struct listing *l, const struct atoll_error *error)
{
    struct atoll_sandbox *s = atoll_map_get(&l->images->engine->sandboxes, l->sandbox_id);

    l->reader = atoll_reader_close(l->reader);
    l->failed = error != NULL;
    if (error)
        l->error = *error;
    if (s)
        atoll_sandbox_destroy(s, "the end of the list of packages", on_removed, l);
    else
        conclude(l);
}

static const struct atoll_error *removed(struct atoll_error *err)
{
    (void)atoll_fail(err, ATOLL_ERR_CANCELED, ECANCELED, "the template was removed");
    return err;
}

/* The file. */

static void write_path(const struct listing *l, const char *suffix, char *out, size_t cap)
{
    (void)snprintf(out, cap, "versions/%s.sbom%s", l->version_id, suffix);
}

static int copy(int from, int to)
{
    uint8_t *bytes = atoll_alloc(CHUNK);
    uint64_t size = 0;
    ssize_t n;
    int r = 0;

    while ((n = pread(from, bytes, CHUNK, (off_t)size)) > 0 && r == 0) {
        size += (uint64_t)n;
        r = size > RESULT_MAX ? -EFBIG : atoll_fd_write_all(to, bytes, (size_t)n);
    }
    free(bytes);
    return n < 0 ? -errno : r;
}

static int store(const struct listing *l)
{
    const int state = l->images->engine->state_fd;
    char part[64], path[64];
    int fd, r;

    write_path(l, ".part", part, sizeof(part));
    write_path(l, "", path, sizeof(path));
    fd = openat(state, part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return -errno;
    r = copy(l->fd, fd);
    if (close(fd) < 0 && r == 0)
        r = -errno;
    atoll_fault_die("sbom.store");
    if (r == 0 && renameat(state, part, state, path) < 0)
        r = -errno;
    if (r < 0)
        (void)unlinkat(state, part, 0);
    return r;
}

static void run_job(struct atoll_job *job)
{
    struct listing *l = ATOLL_CONTAINER_OF(job, struct listing, job);

    l->ran = true;
    l->r = store(l);
}

static void end_job(struct atoll_job *job)
{
    struct listing *l = ATOLL_CONTAINER_OF(job, struct listing, job);
    struct atoll_error err;
    char path[64];

    if (!l->ran) /* the daemon is stopping */
        return;
    write_path(l, "", path, sizeof(path));
    if (l->ending)
        (void)unlinkat(l->images->engine->state_fd, path, 0);
    if (l->r < 0)
        (void)atoll_fail_errno(&err, -l->r, "store the list of packages");
    finish(l, l->r < 0 ? &err : NULL);
}

static void on_result(void *arg, struct atoll_tenant_file *file, uint64_t size_bytes,
                      const struct atoll_error *error)
{
    struct listing *l = arg;
    struct atoll_error err;

    (void)size_bytes;
    if (!error) {
        l->fd = atoll_tenant_file_release(file);
        l->job = (struct atoll_job){.run = run_job, .done = end_job};
        if (!l->ending && atoll_workers_submit(l->images->workers, &l->job, &err) == 0)
            return;
        error = l->ending ? removed(&err) : &err;
    }
    finish(l, error);
}

/* The program. */

static void on_ended(struct listing *l, const struct atoll_exec_result *result)
{
    struct atoll_error err;

    l->reader = atoll_reader_close(l->reader);
    if (result->kind == ATOLL_END_EXITED && result->code == 0) {
        atoll_files_open(l->images->engine, l->sandbox_id, "root", RESULT, on_result, l);
        return;
    }
    (void)atoll_fail(
        &err, ATOLL_ERR_UNAVAILABLE, EIO, "the list of packages could not be made (%s %d): %s",
        atoll_end_kind_name(result->kind), result->code ? result->code : result->signal, l->said);
    finish(l, &err);
}

static void keep_output(struct listing *l, const struct atoll_reader_item *item)
{
    size_t n = ATOLL_MIN((size_t)item->length, sizeof(l->said) - 1);

    memcpy(l->said, item->data + item->length - n, n);
    l->said[n] = '\0';
    for (size_t k = 0; k < n; k++)
        if ((uint8_t)l->said[k] < 0x20)
            l->said[k] = ' ';
}

static void on_output(void *arg)
{
    struct listing *l = arg;
    struct atoll_reader_item item;
    struct atoll_error err;
    int r = 0;

    while (!l->images->stopping && (r = atoll_reader_next(l->reader, &item)) > 0) {
        if (item.kind == ATOLL_READ_DATA) {
            keep_output(l, &item);
        } else if (item.kind == ATOLL_READ_END) {
            struct atoll_exec_result result = *item.result;
            on_ended(l, &result);
            return;
        }
    }
    if (!l->images->stopping && r < 0) {
        (void)atoll_fail_errno(&err, -r, "read the list of packages");
        finish(l, &err);
    }
}

static void on_started(void *arg, struct atoll_exec *exec, const struct atoll_error *error)
{
    struct listing *l = arg;
    struct atoll_error err;

    if (!error && l->ending)
        error = removed(&err);
    if (!error && atoll_reader_open(exec, 0, 0, on_output, l, &l->reader, &err) < 0)
        error = &err;
    if (error)
        finish(l, error);
}

static void on_builder(void *arg, struct atoll_sandbox *s, const struct atoll_error *error)
{
    struct listing *l = arg;
    struct atoll_engine *engine = l->images->engine;
    const struct atoll_version *v = atoll_map_get(&engine->template_tables.versions, l->version_id);
    const char *argv[] = {ATOLL_UNPACK_PROGRAM, "sbom", "--output", RESULT, "--name",
                          v ? v->tmpl->name : "",
                          /* A stack of the host template without layers is an empty tree. */
                          *layers_of(l) ? TREE : "/import", NULL};
    const struct atoll_exec_start start = {
        .argv = argv, .user = "root", .cwd = "/", .timeout_ms = TIMEOUT_MS};
    struct atoll_error err;

    if (!s)
        l->sandbox_id[0] = '\0';
    if (!error && l->ending)
        error = removed(&err);
    if (error)
        finish(l, error);
    else
        atoll_engine_exec(engine, l->sandbox_id, &start, on_started, l);
}

static void begin(void *arg)
{
    struct listing *l = arg;
    struct atoll_engine *engine = l->images->engine;
    const char *layers = layers_of(l);
    const struct atoll_tree tree = {.path = TREE, .layers = layers};
    struct atoll_spec spec = {.limits = atoll_limits_default(),
                              .template_kind = ATOLL_TEMPLATE_HOST,
                              .layer_base = ATOLL_LAYER_BASE,
                              .builder = ATOLL_BUILDER_UNPACK,
                              .trees = &tree,
                              .tree_count = *layers ? 1 : 0};
    struct atoll_sandbox *s = NULL;
    struct atoll_error err;

    spec.waived = atoll_place_missing_limits(engine->builder->provider, &spec);
    if (engine->ending)
        (void)atoll_fail(&err, ATOLL_ERR_UNAVAILABLE, ESHUTDOWN, "the daemon is stopping");
    else if (atoll_room_admit(engine, &err) == 0) {
        s = atoll_sandbox_prepare(engine, &spec, engine->template_tables.host);
        if (!s)
            (void)atoll_fail_errno(&err, ENOMEM, "list of packages");
    }
    if (!s) {
        finish(l, &err);
        return;
    }
    s->hidden = true;
    memcpy(l->sandbox_id, s->spec.id, sizeof(l->sandbox_id));
    atoll_sandbox_launch(s, on_builder, l);
}

/* Requests. */

static int check(struct atoll_engine *engine, const char *version_id, struct atoll_error *err)
{
    const struct atoll_version *v = atoll_map_get(&engine->template_tables.versions, version_id);

    if (!v)
        return atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT, "there is no version %.40s",
                          version_id);
    if (!v->layers || !*v->layers)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EOPNOTSUPP,
                          "template %.150s has no layers here, so its packages are not known",
                          v->tmpl->name);
    if (!engine->images || engine->images->stopping || engine->ending)
        return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, ESHUTDOWN, "the daemon is stopping");
    return 0;
}

static bool exists(struct atoll_engine *engine, const char *version_id)
{
    struct atoll_error err;
    int fd = atoll_version_file(engine, version_id, "sbom", O_RDONLY, &err);

    if (fd >= 0)
        (void)close(fd);
    return fd >= 0;
}

static struct listing *listing_new(struct atoll_images *images, const char *version_id)
{
    struct listing *l = atoll_alloc(sizeof(*l));

    l->images = images;
    l->fd = ATOLL_NO_FD;
    (void)snprintf(l->version_id, sizeof(l->version_id), "%s", version_id);
    atoll_list_init(&l->waiters);
    atoll_list_init(&l->enders);
    atoll_list_push_back(&images->sboms, &l->node);
    return l;
}

void atoll_version_sbom_soon(struct atoll_engine *engine, const char *version_id)
{
    struct atoll_error err;

    if (check(engine, version_id, &err) < 0 || find(engine->images, version_id) ||
        exists(engine, version_id))
        return;
    (void)listing_new(engine->images, version_id);
    next_turn(engine->images);
}

void atoll_version_sbom_make(struct atoll_engine *engine, const char *version_id,
                             atoll_done_fn *done, void *arg)
{
    struct atoll_images *images = engine->images;
    struct atoll_error err;
    struct listing *l;

    if (check(engine, version_id, &err) < 0) {
        done(arg, &err);
        return;
    }
    if (exists(engine, version_id)) {
        done(arg, NULL);
        return;
    }
    l = find(images, version_id);
    if (!l)
        l = listing_new(images, version_id);
    atoll_waiters_add(&l->waiters, done, arg);
    if (l->running && l->start.loop) /* it waits for its time */
        atoll_timer_set(&l->start, engine->loop, 0, begin, l);
    if (!l->running) { /* before those that no client waits for */
        atoll_list_remove(&l->node);
        atoll_list_push_back(images->sboms.next, &l->node);
    }
    next_turn(images);
}

void atoll_version_sbom_end(struct atoll_engine *engine, const char *version_id,
                            atoll_done_fn *done, void *arg)
{
    struct listing *l = engine->images ? find(engine->images, version_id) : NULL;
    struct atoll_sandbox *s;

    if (!l || engine->images->stopping) {
        done(arg, NULL);
        return;
    }
    l->ending = true;
    atoll_waiters_add(&l->enders, done, arg);
    s = atoll_map_get(&engine->sandboxes, l->sandbox_id);
    if (l->running && !l->start.loop) {
        if (s && l->reader) /* the end of the command is that of the listing */
            atoll_sandbox_destroy(s, "the removal of the template", NULL, NULL);
        return;
    }
    (void)removed(&l->error);
    l->failed = true;
    conclude(l);
}

void atoll_version_sboms_cancel(struct atoll_images *images)
{
    ATOLL_LIST_FOREACH (&images->sboms, node) {
        atoll_waiters_drop(&at(node)->waiters);
        atoll_waiters_drop(&at(node)->enders);
    }
}

void atoll_version_sboms_done(struct atoll_images *images)
{
    ATOLL_LIST_FOREACH (&images->sboms, node)
        listing_free(at(node));
}
