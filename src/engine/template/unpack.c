#include "engine/template/unpack.h"

#include <errno.h>
#include <jansson.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include "base/memory.h"
#include "base/metrics.h"
#include "base/text.h"
#include "engine/engine_internal.h"
#include "engine/json_memory.h"
#include "loop/steps.h"
#include "sandbox/programs.h"
#include "sandbox/stack.h"

#define TREE "/import" /* in the builder sandbox */
#define LAYERS "/.atoll/layers"
#define MANIFEST "/tmp/manifest"
#define MANIFEST_MAX ((size_t)64 << 20)
#define LINE_MAX_BYTES ((size_t)64 * 1024)

struct atoll_unpack {
    struct atoll_engine *engine;
    struct atoll_list all;  /* in engine->unpacks */
    struct atoll_list node; /* in engine->unpack_queue while it waits for its turn */
    bool running;           /* counted in engine->unpacking */
    struct atoll_unpack_request request;
    char *stack;                       /* owned; NULL: an archive is unpacked */
    const char *verb;                  /* of atoll-unpack, for the stack; static */
    bool bounded;                      /* it has --max-bytes */
    char layer[72], expected[72];      /* expected: the diff id, "": any */
    char sandbox_id[ATOLL_ID_LEN + 1]; /* "" while no sandbox exists */
    char exec_id[17];
    EVP_MD_CTX *digest; /* owned */
    char archive[72];   /* its digest, at the end */
    uint64_t received;
    struct atoll_reader *reader; /* of the command that runs */
    struct atoll_buf line;       /* of its stdout */
    char said[300];              /* the last of its stderr */
    /* What it reported; refusal: its error, if it has a kind. */
    bool reported;
    struct atoll_error refusal;
    char diff_id[72], note[200];
    uint64_t bytes, files, skipped, implied;
    struct atoll_buf manifest;
    struct atoll_tenant_file *file; /* the manifest while it is read */
    unsigned pending;               /* callbacks that are still to come */
    bool dropped;
    bool held;          /* the layer */
    bool ended, failed; /* the command that unpacks has ended; failed: with `error` */
    struct atoll_error error;
    struct atoll_steps steps;
    atoll_unpack_fn
        *ready; /* NULL: there is nothing to write, and `done` is set from the beginning */
    atoll_done_fn *taken; /* of the write in progress, or NULL */
    atoll_unpacked_fn *done;
    void *ready_arg, *taken_arg, *done_arg;
};

static void begin(struct atoll_unpack *u);

/* Starts the next one that waits. */
static void next_turn(struct atoll_engine *engine)
{
    struct atoll_list *node = engine->unpack_queue.next;

    if (engine->ending || engine->unpacking >= ATOLL_UNPACKS ||
        atoll_list_empty(&engine->unpack_queue))
        return;
    atoll_list_remove(node);
    begin(ATOLL_CONTAINER_OF(node, struct atoll_unpack, node));
}

static void unpack_free(struct atoll_unpack *u)
{
    struct atoll_engine *engine = u->engine;
    struct atoll_sandbox *s = atoll_map_get(&engine->sandboxes, u->sandbox_id);
    bool running = u->running;

    atoll_list_remove(&u->all);
    atoll_list_remove(&u->node);
    u->reader = atoll_reader_close(u->reader);
    u->file = atoll_tenant_file_close(u->file);
    if (s)
        atoll_sandbox_destroy(s, "the end of the import", NULL, NULL);
    EVP_MD_CTX_free(u->digest);
    atoll_buf_done(&u->line);
    atoll_buf_done(&u->manifest);
    free(u->stack);
    free(u);
    engine->unpacking -= running;
    if (running)
        next_turn(engine);
}

/* Call at the begin of each callback: false when it was dropped, and is gone. */
static bool is_wanted(struct atoll_unpack *u)
{
    u->pending--;
    if (!u->dropped)
        return true;
    if (u->pending == 0)
        unpack_free(u);
    return false;
}

void atoll_unpack_drop(struct atoll_unpack *u)
{
    if (!u)
        return;
    u->dropped = true;
    u->taken = NULL;
    u->reader = atoll_reader_close(u->reader);
    if (u->pending == 0)
        unpack_free(u);
}

/* Ends it; the caller has the result from here. */
static void conclude(struct atoll_unpack *u, const struct atoll_error *error)
{
    const struct atoll_unpacked made = {
        .layer = u->held ? u->layer : "",
        .digest = u->archive,
        .diff_id = u->diff_id,
        .bytes = u->bytes,
        .files = u->files,
        .skipped = u->skipped,
        .note = u->note,
        .manifest = u->request.manifest ? atoll_buf_head(&u->manifest) : NULL,
        .manifest_len = atoll_buf_size(&u->manifest),
    };

    atoll_metric_add(ATOLL_METRIC_UNPACKS, ATOLL_LABELS(error ? "failed" : "done"), 1);
    if (!error)
        atoll_metric_add(ATOLL_METRIC_UNPACKED_BYTES, ATOLL_NO_LABELS, (double)u->bytes);
    else if (u->held)
        atoll_layer_release(u->engine, u->layer);
    u->done(u->done_arg, error ? NULL : &made, error);
    unpack_free(u);
}

/* What the program prints: a JSON object on each line. */

/* The diff id is that of an archive. */
static void take_result(struct atoll_unpack *u, const json_t *object)
{
    const char *diff_id = json_string_value(json_object_get(object, "diffId"));

    if (!u->stack &&
        (!diff_id || strncmp(diff_id, "sha256:", strlen("sha256:")) != 0 ||
         atoll_text_copy(u->diff_id, sizeof(u->diff_id), diff_id + strlen("sha256:")) < 0))
        return;
    u->reported = true;
    u->bytes = (uint64_t)json_integer_value(json_object_get(object, "bytes"));
    u->files = (uint64_t)json_integer_value(json_object_get(object, "files"));
    u->skipped = (uint64_t)json_integer_value(json_object_get(object, "skipped"));
    u->implied = (uint64_t)json_integer_value(json_object_get(object, "implied"));
}

static const char *failure_of(const struct atoll_unpack *u)
{
    return u->stack ? "the layers could not be read" : "the archive could not be unpacked";
}

static void take_line(struct atoll_unpack *u, const char *text, size_t n)
{
    json_t *object = atoll_json_load(text, n, JSON_REJECT_DUPLICATES, NULL);
    const char *note = json_string_value(json_object_get(object, "text"));
    const char *path = json_string_value(json_object_get(object, "path"));
    const char *error = json_string_value(json_object_get(object, "error"));
    const char *kind = json_string_value(json_object_get(object, "kind"));

    if (json_object_get(object, "files"))
        take_result(u, object);
    if (error && kind)
        (void)atoll_fail(&u->refusal, atoll_error_kind_by_name(kind), EINVAL, "%s: %.300s",
                         failure_of(u), error);
    if (note && path && !*u->note)
        (void)snprintf(u->note, sizeof(u->note), "%.100s: %.90s", path, note);
    json_decref(object);
}

static void take_stdout(struct atoll_unpack *u, const struct atoll_reader_item *item)
{
    const uint8_t *end;

    if (atoll_buf_append(&u->line, item->data, (size_t)item->length) < 0)
        atoll_buf_consume(&u->line, atoll_buf_size(&u->line)); /* it is too long to be a report */
    while ((end = memchr(atoll_buf_head(&u->line), '\n', atoll_buf_size(&u->line))) != NULL) {
        size_t n = (size_t)(end - atoll_buf_head(&u->line));

        take_line(u, (const char *)atoll_buf_head(&u->line), n);
        atoll_buf_consume(&u->line, n + 1);
    }
}

static void take_stderr(struct atoll_unpack *u, const struct atoll_reader_item *item)
{
    size_t n = ATOLL_MIN((size_t)item->length, sizeof(u->said) - 1);

    memcpy(u->said, item->data + item->length - n, n);
    u->said[n] = '\0';
    for (size_t k = 0; k < n; k++)
        if ((uint8_t)u->said[k] < 0x20)
            u->said[k] = ' ';
    while (n > 0 && u->said[n - 1] == ' ')
        u->said[--n] = '\0';
}

/* Reads the command's output. At its end, or if it cannot be read: *ret and true. */
static bool read_output(struct atoll_unpack *u, const struct atoll_exec_result **ret)
{
    static const struct atoll_exec_result lost = {.kind = ATOLL_END_LOST};
    struct atoll_reader_item item;
    int r;

    while ((r = atoll_reader_next(u->reader, &item)) > 0) {
        if (item.kind == ATOLL_READ_DATA && item.stream == ATOLL_STREAM_STDOUT)
            take_stdout(u, &item);
        else if (item.kind == ATOLL_READ_DATA)
            take_stderr(u, &item);
        *ret = item.result;
        if (item.kind == ATOLL_READ_END)
            return true;
    }
    *ret = &lost;
    return r < 0;
}

static int fail_command(const struct atoll_unpack *u, const struct atoll_exec_result *result,
                        struct atoll_error *err)
{
    enum atoll_error_kind kind = ATOLL_ERR_INVALID_ARGUMENT;

    if (u->refusal.kind != ATOLL_ERR_NONE && result->kind == ATOLL_END_EXITED) {
        *err = u->refusal;
        return -EINVAL;
    }
    if (result->kind == ATOLL_END_LOST)
        kind = ATOLL_ERR_UNAVAILABLE;
    else if (result->kind == ATOLL_END_OOM_KILLED)
        kind = ATOLL_ERR_RESOURCE_EXHAUSTED;
    return atoll_fail(err, kind, EINVAL, "%s (%s %d): %s", failure_of(u),
                      atoll_end_kind_name(result->kind),
                      result->code ? result->code : result->signal, u->said);
}

/* The steps after the archive. */

static void on_script_output(void *arg)
{
    struct atoll_unpack *u = arg;
    const struct atoll_exec_result *result;
    struct atoll_error err;
    bool ok;

    if (!read_output(u, &result))
        return;
    ok = result->kind == ATOLL_END_EXITED && result->code == 0;
    if (!ok)
        (void)fail_command(u, result, &err);
    u->reader = atoll_reader_close(u->reader);
    atoll_steps_done(&u->steps, ok ? NULL : &err);
}

static void on_script_started(void *arg, struct atoll_exec *exec, const struct atoll_error *error)
{
    struct atoll_unpack *u = arg;
    struct atoll_error err;

    u->reader = atoll_reader_close(u->reader);
    if (!error && atoll_reader_open(exec, 0, 0, on_script_output, u, &u->reader, &err) < 0)
        error = &err;
    if (error)
        atoll_steps_done(&u->steps, error);
}

static void run_script(void *arg)
{
    struct atoll_unpack *u = arg;
    const char *argv[] = {"/bin/sh", "-ec", u->request.script, NULL};
    const struct atoll_exec_start start = {.argv = argv, .user = "root", .cwd = TREE};

    if (u->request.script)
        atoll_engine_exec(u->engine, u->sandbox_id, &start, on_script_started, u);
    else
        atoll_steps_done(&u->steps, NULL);
}

static void read_manifest(void *arg)
{
    struct atoll_unpack *u = arg;
    const uint8_t *bytes;
    struct atoll_error err;
    ssize_t n;

    while ((n = atoll_tenant_file_read(u->file, &bytes)) > 0)
        if (atoll_buf_append(&u->manifest, bytes, (size_t)n) < 0) {
            n = -EFBIG;
            break;
        }
    if (n == -EAGAIN)
        return;
    u->file = atoll_tenant_file_close(u->file);
    if (n < 0)
        (void)atoll_fail(&err, ATOLL_ERR_RESOURCE_EXHAUSTED, (int)-n,
                         "the archive has too many entries for a list of them");
    atoll_steps_done(&u->steps, n < 0 ? &err : NULL);
}

static void on_manifest(void *arg, struct atoll_tenant_file *file, uint64_t size_bytes,
                        const struct atoll_error *error)
{
    struct atoll_unpack *u = arg;

    (void)size_bytes;
    if (error) {
        atoll_steps_done(&u->steps, error);
        return;
    }
    u->file = file;
    atoll_tenant_file_on_ready(file, read_manifest, u);
    read_manifest(u);
}

static void open_manifest(void *arg)
{
    struct atoll_unpack *u = arg;

    if (u->request.manifest)
        atoll_files_open(u->engine, u->sandbox_id, "root", MANIFEST, on_manifest, u);
    else
        atoll_steps_done(&u->steps, NULL);
}

static void on_kept(void *arg, const struct atoll_provider_layer *made,
                    const struct atoll_error *error)
{
    struct atoll_unpack *u = arg;
    const struct atoll_layer_facts facts = {
        .name = u->layer,
        .diff_id = u->diff_id,
        .size_bytes = u->bytes,
        .files = u->files,
        .implied = u->implied,
    };
    struct atoll_error err;

    (void)made; /* atoll-unpack has counted */
    if (!error && atoll_layer_put(u->engine, &facts, &err) < 0)
        error = &err;
    atoll_steps_done(&u->steps, error);
}

static void keep(void *arg)
{
    struct atoll_unpack *u = arg;
    struct atoll_provider *provider = u->engine->builder->provider;
    struct atoll_sandbox *s = atoll_map_get(&u->engine->sandboxes, u->sandbox_id);
    struct atoll_error err;

    if (u->stack && u->files == 0) { /* no such layer is needed */
        atoll_steps_done(&u->steps, NULL);
        return;
    }
    if (!s) {
        (void)atoll_fail(&err, ATOLL_ERR_UNAVAILABLE, ESRCH, "the sandbox of the import has ended");
        atoll_steps_done(&u->steps, &err);
        return;
    }
    if (atoll_layer_hold(u->engine, u->layer, &err) < 0) {
        atoll_steps_done(&u->steps, &err);
        return;
    }
    u->held = true;
    if (atoll_layer_find(u->engine, u->layer, NULL)) { /* another archive with the same bytes */
        atoll_steps_done(&u->steps, NULL);
        return;
    }
    s->keeping = true;
    provider->ops->keep_layer(provider, &s->spec, "import", u->layer, on_kept, u);
}

static const struct atoll_step finishing[] = {
    {"completing the tree", run_script, NULL},
    {"reading the list of its entries", open_manifest, NULL},
    {"keeping the layer", keep, NULL},
};

static void on_finished(void *arg, const struct atoll_error *error)
{
    conclude(arg, error);
}

static int check_report(struct atoll_unpack *u, struct atoll_error *err)
{
    if (!u->reported)
        return atoll_fail(err, ATOLL_ERR_INTERNAL, EPROTO, "atoll-unpack did not report a result");
    if (*u->expected && strcmp(u->expected, u->diff_id) != 0)
        return atoll_fail(err, ATOLL_ERR_DATA_LOSS, EBADMSG,
                          "a layer has the digest sha256:%.12s… after it was unpacked, and its "
                          "image says sha256:%.12s…",
                          u->diff_id, u->expected);
    return 0;
}

/* Names the layer after the archive, unless the request has a name. */
static void name_layer(struct atoll_unpack *u)
{
    uint8_t bytes[EVP_MAX_MD_SIZE];
    unsigned len = 0;

    if (!u->digest || EVP_DigestFinal_ex(u->digest, bytes, &len) != 1)
        return;
    for (unsigned k = 0; k < len; k++)
        (void)snprintf(u->archive + 2 * k, 3, "%02x", bytes[k]);
    if (!*u->layer)
        memcpy(u->layer, u->archive, sizeof(u->layer));
}

/* The archive was unpacked and the caller has finished it. */
static void complete(struct atoll_unpack *u)
{
    struct atoll_error err;

    if (check_report(u, &err) < 0) {
        conclude(u, &err);
        return;
    }
    name_layer(u);
    u->reader = atoll_reader_close(u->reader);
    u->steps = (struct atoll_steps){
        .steps = finishing, .count = ATOLL_ARRAY_LEN(finishing), .arg = u, .done = on_finished};
    atoll_steps_start(&u->steps);
}

/* The archive. */

static void tell_taken(struct atoll_unpack *u, const struct atoll_error *error)
{
    atoll_done_fn *taken = ATOLL_TAKE_PTR(u->taken);

    if (taken)
        taken(u->taken_arg, error);
}

static void on_output(void *arg)
{
    struct atoll_unpack *u = arg;
    const struct atoll_exec_result *result;

    if (u->ended || !read_output(u, &result))
        return;
    u->ended = true;
    if (result->kind != ATOLL_END_EXITED || result->code != 0) {
        u->failed = true;
        (void)fail_command(u, result, &u->error);
    }
    if (u->done && u->failed)
        conclude(u, &u->error);
    else if (u->done)
        complete(u);
    else if (u->pending == 0)
        tell_taken(u, u->failed ? &u->error : NULL);
}

static void on_taken(void *arg, const struct atoll_error *error)
{
    struct atoll_unpack *u = arg;

    if (!is_wanted(u))
        return;
    /* A command that does not read has ended or is about to: its end has the reason. */
    if (!error || u->ended)
        tell_taken(u, u->failed ? &u->error : NULL);
}

static struct atoll_exec *command_of(const struct atoll_unpack *u)
{
    struct atoll_sandbox *s = atoll_map_get(&u->engine->sandboxes, u->sandbox_id);

    return s && *u->exec_id ? atoll_sandbox_find_exec(s, u->exec_id) : NULL;
}

void atoll_unpack_write(struct atoll_unpack *u, const uint8_t *bytes, size_t n, atoll_done_fn *done,
                        void *arg)
{
    struct atoll_exec *x = command_of(u);
    struct atoll_error err;

    u->received += n;
    if (u->digest)
        (void)EVP_DigestUpdate(u->digest, bytes, n);
    if (u->ended || !x) {
        if (!u->ended)
            (void)atoll_fail(&err, ATOLL_ERR_UNAVAILABLE, ESRCH,
                             "the sandbox of the import has ended");
        done(arg, !u->ended ? &err : u->failed ? &u->error : NULL);
        return;
    }
    u->taken = done;
    u->taken_arg = arg;
    u->pending++;
    atoll_exec_write(x, bytes, n, false, on_taken, u);
}

void atoll_unpack_finish(struct atoll_unpack *u, atoll_unpacked_fn *done, void *arg)
{
    struct atoll_exec *x = command_of(u);
    struct atoll_error err;

    u->done = done;
    u->done_arg = arg;
    if (u->failed) {
        conclude(u, &u->error);
    } else if (u->ended) {
        complete(u);
    } else if (x) {
        atoll_exec_write(x, NULL, 0, true, atoll_done_ignore, NULL);
    } else {
        (void)atoll_fail(&err, ATOLL_ERR_UNAVAILABLE, ESRCH, "the sandbox of the import has ended");
        conclude(u, &err);
    }
}

/* The sandbox. */

static void refuse(struct atoll_unpack *u, const struct atoll_error *error)
{
    if (u->ready)
        u->ready(u->ready_arg, NULL, error);
    else
        u->done(u->done_arg, NULL, error);
    unpack_free(u);
}

static void on_started(void *arg, struct atoll_exec *exec, const struct atoll_error *error)
{
    struct atoll_unpack *u = arg;
    struct atoll_exec_view view;
    struct atoll_error err;

    if (!is_wanted(u))
        return;
    if (!error && atoll_reader_open(exec, 0, 0, on_output, u, &u->reader, &err) < 0)
        error = &err;
    if (error) {
        refuse(u, error);
        return;
    }
    atoll_exec_get(exec, &view);
    memcpy(u->exec_id, view.id, sizeof(u->exec_id));
    if (u->ready)
        u->ready(u->ready_arg, u, NULL);
}

static void start(struct atoll_unpack *u, const char *const *argv)
{
    const struct atoll_exec_start command = {
        .argv = argv, .user = "root", .cwd = "/", .stdin_open = !u->stack};

    u->pending++;
    atoll_engine_exec(u->engine, u->sandbox_id, &command, on_started, u);
}

static void start_on_stack(struct atoll_unpack *u)
{
    const char *argv[ATOLL_LAYERS_MAX + 6] = {ATOLL_UNPACK_PROGRAM, u->verb};
    char bytes[24];
    char paths[ATOLL_LAYERS_MAX][sizeof(LAYERS) + 4];
    const size_t count = atoll_stack_count(u->stack);
    size_t n = 2;

    if (u->bounded) {
        (void)snprintf(bytes, sizeof(bytes), "%llu", (unsigned long long)u->request.max_bytes);
        argv[n++] = "--max-bytes";
        argv[n++] = bytes;
    }
    argv[n++] = TREE;
    for (size_t i = 0; i < count; i++) {
        (void)snprintf(paths[i], sizeof(paths[i]), LAYERS "/%zu", i);
        argv[n++] = paths[i];
    }
    start(u, argv);
}

static void start_unpacking(struct atoll_unpack *u)
{
    char bytes[24], files[24], ratio[24];
    const char *argv[14] = {ATOLL_UNPACK_PROGRAM, "--max-bytes", bytes, "--max-files", files,
                            "--max-ratio",        ratio};
    size_t n = 7;

    (void)snprintf(bytes, sizeof(bytes), "%llu", (unsigned long long)u->request.max_bytes);
    (void)snprintf(files, sizeof(files), "%llu", (unsigned long long)u->request.max_files);
    (void)snprintf(ratio, sizeof(ratio), "%d", ATOLL_UNPACK_RATIO);
    if (u->request.plain)
        argv[n++] = "--plain";
    if (u->request.manifest) {
        argv[n++] = "--manifest";
        argv[n++] = MANIFEST;
    }
    argv[n++] = TREE;
    start(u, argv);
}

static void on_builder(void *arg, struct atoll_sandbox *s, const struct atoll_error *error)
{
    struct atoll_unpack *u = arg;

    if (!s)
        u->sandbox_id[0] = '\0';
    if (!is_wanted(u))
        return;
    if (error)
        refuse(u, error);
    else if (u->stack)
        start_on_stack(u);
    else
        start_unpacking(u);
}

static void begin(struct atoll_unpack *u)
{
    struct atoll_engine *engine = u->engine;
    const struct atoll_tree tree = {.path = LAYERS, .layers = u->stack, .raw = true};
    struct atoll_spec spec = {.limits = atoll_limits_default(),
                              .template_kind = ATOLL_TEMPLATE_HOST,
                              .layer_base = u->stack ? ATOLL_LAYER_BASE : 0,
                              .builder = ATOLL_BUILDER_UNPACK,
                              .trees = &tree,
                              .tree_count = u->stack ? 1 : 0};
    struct atoll_sandbox *s;
    struct atoll_error err;

    spec.waived = atoll_place_missing_limits(engine->builder->provider, &spec);
    engine->unpacking++;
    u->running = true;
    s = atoll_sandbox_prepare(engine, &spec, engine->template_tables.host);
    if (!s) {
        (void)atoll_fail_errno(&err, ENOMEM, "import");
        refuse(u, &err);
        return;
    }
    s->hidden = true;
    memcpy(u->sandbox_id, s->spec.id, sizeof(u->sandbox_id));
    u->pending++;
    atoll_sandbox_launch(s, on_builder, u);
}

static int fill(struct atoll_unpack *u, const struct atoll_unpack_request *request,
                struct atoll_error *err)
{
    const char *salt = request->salt ? request->salt : "";

    u->request = *request;
    u->request.max_bytes = request->max_bytes ? request->max_bytes : ATOLL_UNPACK_BYTES;
    u->request.max_files = request->max_files ? request->max_files : ATOLL_UNPACK_FILES;
    if (request->random)
        atoll_layer_new_name(u->layer);
    if (atoll_text_copy(u->expected, sizeof(u->expected),
                        request->diff_id ? request->diff_id : "") < 0 ||
        (request->layer && atoll_text_copy(u->layer, sizeof(u->layer), request->layer) < 0))
        return atoll_fail_errno(err, ENAMETOOLONG, "layer");
    if (request->layer)
        return 0;
    u->digest = EVP_MD_CTX_new();
    if (!u->digest || EVP_DigestInit_ex(u->digest, EVP_sha256(), NULL) != 1 ||
        EVP_DigestUpdate(u->digest, salt, strlen(salt)) != 1)
        return atoll_fail_errno(err, ENOMEM, "import");
    return 0;
}

static struct atoll_unpack *unpack_new(struct atoll_engine *engine)
{
    struct atoll_unpack *u = atoll_alloc(sizeof(*u));

    u->engine = engine;
    atoll_list_push_back(&engine->unpacks, &u->all);
    atoll_buf_init(&u->line, LINE_MAX_BYTES);
    atoll_buf_init(&u->manifest, MANIFEST_MAX);
    return u;
}

/* Begins, now or when it is its turn. */
static void admit(struct atoll_unpack *u, const struct atoll_unpack_request *request)
{
    struct atoll_engine *engine = u->engine;
    struct atoll_error err;
    int r = fill(u, request, &err);

    if (r == 0 && engine->ending)
        r = atoll_fail(&err, ATOLL_ERR_UNAVAILABLE, ESHUTDOWN, "the daemon is stopping");
    if (r == 0)
        r = atoll_room_admit(engine, &err);
    if (r < 0)
        refuse(u, &err);
    else if (engine->unpacking < ATOLL_UNPACKS)
        begin(u);
    else
        atoll_list_push_back(&engine->unpack_queue, &u->node);
}

void atoll_unpack_open(struct atoll_engine *engine, const struct atoll_unpack_request *request,
                       atoll_unpack_fn *ready, void *arg)
{
    struct atoll_unpack *u = unpack_new(engine);

    u->ready = ready;
    u->ready_arg = arg;
    admit(u, request);
}

static void work_on_stack(struct atoll_engine *engine, const char *verb, const char *stack,
                          const struct atoll_unpack_request *request, atoll_unpacked_fn *done,
                          void *arg)
{
    struct atoll_unpack *u = unpack_new(engine);

    u->verb = verb;
    u->bounded = request->max_bytes > 0;
    u->stack = strdup(stack);
    if (!u->stack)
        abort();
    u->done = done;
    u->done_arg = arg;
    admit(u, request);
}

void atoll_unpack_settle(struct atoll_engine *engine, const char *stack, const char *layer,
                         atoll_unpacked_fn *done, void *arg)
{
    const struct atoll_unpack_request request = {.layer = layer};

    work_on_stack(engine, "settle", stack, &request, done, arg);
}

void atoll_unpack_squash(struct atoll_engine *engine, const char *layers, uint64_t max_bytes,
                         atoll_unpacked_fn *done, void *arg)
{
    const struct atoll_unpack_request request = {.random = true, .max_bytes = max_bytes};

    work_on_stack(engine, "squash", layers, &request, done, arg);
}

void atoll_unpacks_done(struct atoll_engine *engine)
{
    engine->unpacking = ATOLL_UNPACKS; /* no other one begins */
    atoll_unpack_files_done(engine);
    ATOLL_LIST_FOREACH (&engine->unpacks, node)
        unpack_free(ATOLL_CONTAINER_OF(node, struct atoll_unpack, all));
}
