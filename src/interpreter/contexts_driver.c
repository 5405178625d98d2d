/*
 * The interpreter process of a context. Steps: find the programs of the language in the sandbox,
 * write the driver's file, start it, wait for its ready line; then read its output line by line
 * until it ends. Each step continues from the callback of the previous one, which holds a
 * reference. A context that no longer needs the driver has cleared driver->context; a process that
 * was started then is killed.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include "base/fd.h"
#include "base/text.h"
#include "engine/provider/providers.h"
#include "interpreter/contexts_internal.h"

#define DRIVERS_DIR "/run/atoll/drivers"
#define DRIVER_MODE 0644
#define READY_MS 30000
#define WARM_MAX ((size_t)16 * 1024)
#define WHO_UNWANTED "the daemon, because its context is gone"

/* Where to search for programs; the same as the agent's default PATH. */
static const char *const program_dirs[] = {"/usr/local/bin",  "/usr/bin",  "/bin",
                                           "/usr/local/sbin", "/usr/sbin", "/sbin"};

static void unref(struct atoll_driver *d)
{
    if (--d->refs > 0)
        return;
    atoll_timer_cancel(&d->timer);
    d->reader = atoll_reader_close(d->reader);
    atoll_lines_done(&d->lines);
    free(d);
}

static struct atoll_driver *ref(struct atoll_driver *d)
{
    d->refs++;
    return d;
}

static struct atoll_driver *driver_new(struct atoll_context *c)
{
    struct atoll_driver *d = atoll_context_alloc(sizeof(*d));

    d->refs = 1; /* the context's */
    d->contexts = c->contexts;
    d->context = c;
    d->language = c->language;
    memcpy(d->sandbox_id, c->sandbox_id, sizeof(d->sandbox_id));
    atoll_lines_init(&d->lines, &c->contexts->lines, c->owner);
    c->driver = d;
    return d;
}

void atoll_driver_detach(struct atoll_context *c)
{
    struct atoll_driver *d = ATOLL_TAKE_PTR(c->driver);

    if (!d)
        return;
    d->context = NULL;
    atoll_timer_cancel(&d->timer);
    d->reader = atoll_reader_close(d->reader);
    unref(d);
}

static struct atoll_exec *find_exec(const struct atoll_driver *d)
{
    struct atoll_sandbox *s = atoll_engine_peek(d->contexts->config.engine, d->sandbox_id);

    return s && d->started ? atoll_sandbox_find_exec(s, d->exec_id) : NULL;
}

void atoll_driver_signal(struct atoll_driver *d, int signo, bool tree, const char *who)
{
    struct atoll_exec *exec = find_exec(d);

    /* Without an exec, its end has been reported or is about to be. */
    if (exec)
        atoll_exec_signal(exec, signo, tree, who, atoll_context_ignore, NULL);
}

void atoll_driver_give_up(struct atoll_driver *d, const char *who)
{
    if (!d->given_up)
        atoll_driver_signal(d, SIGKILL, true, who);
    d->given_up = true;
}

void atoll_driver_set_resting(struct atoll_driver *d, bool resting)
{
    struct atoll_exec *exec = find_exec(d);

    if (exec)
        atoll_exec_set_resting(exec, resting);
}

void atoll_driver_discard(struct atoll_context *c, const char *who, atoll_done_fn *done, void *arg)
{
    struct atoll_exec *exec = c->driver ? find_exec(c->driver) : NULL;
    struct atoll_exec_view view = {0};

    if (exec)
        atoll_exec_get(exec, &view);
    atoll_driver_detach(c);
    if (exec && !view.result)
        atoll_exec_signal(exec, SIGKILL, true, who, done ? done : atoll_context_ignore, arg);
    else if (done)
        done(arg, NULL);
}

/* Reports that the driver could not be started, and detaches it from its context. */
static void fail_start(struct atoll_driver *d, const struct atoll_error *error)
{
    struct atoll_context *c = d->context;

    if (!c)
        return;
    atoll_driver_discard(c, "the daemon, because it was not ready in time", NULL, NULL);
    atoll_context_start_failed(c, error);
}

/* Output. */

static void keep_tail(struct atoll_driver *d, const uint8_t *bytes, size_t n)
{
    size_t room = sizeof(d->tail) - 1, drop;

    if (n > room) {
        bytes += n - room;
        n = room;
    }
    drop = d->tail_len + n > room ? d->tail_len + n - room : 0;
    memmove(d->tail, d->tail + drop, d->tail_len - drop);
    d->tail_len -= drop;
    memcpy(d->tail + d->tail_len, bytes, n);
    d->tail_len += n;
    d->tail[d->tail_len] = '\0';
}

static void fail_early(struct atoll_driver *d, const struct atoll_exec_result *end)
{
    struct atoll_error error;

    (void)atoll_fail(&error, ATOLL_ERR_FAILED_PRECONDITION, ECHILD,
                     "the interpreter for %s could not be started (%s, status %d)%s%.200s",
                     d->language->name, atoll_end_kind_name(end->kind), end->code,
                     d->tail_len ? ": " : "",
                     d->tail + (d->tail_len > 200 ? d->tail_len - 200 : 0));
    fail_start(d, &error);
}

static void on_end(struct atoll_driver *d, const struct atoll_exec_result *end)
{
    struct atoll_context *c = d->context;
    const struct atoll_exec_result kept =
        *end; /* a copy: the exec may be freed with its last reader */

    if (!d->ready) {
        fail_early(d, end);
        return;
    }
    atoll_driver_detach(c);
    atoll_context_died(c, &kept, d->tail);
}

static void become_ready(struct atoll_driver *d)
{
    struct atoll_context *c = d->context;

    d->ready = true;
    atoll_timer_cancel(&d->timer);
    memcpy(c->exec_id, d->exec_id, sizeof(c->exec_id));
    atoll_context_ready(c);
}

/* It could not import a module of the environment's list. */
static void fail_warm(struct atoll_driver *d, const char *why)
{
    struct atoll_error error;

    (void)atoll_fail(&error, ATOLL_ERR_FAILED_PRECONDITION, ATOLL_CONTEXT_NO_MODULE,
                     "the interpreter for %s could not be started: %.260s (a module of \"warm\" in "
                     "its environment; install it in the template or take it off the list)",
                     d->language->name, why);
    fail_start(d, &error);
}

static void handle_line(struct atoll_driver *d, const char *line, size_t n)
{
    enum atoll_line_type type;
    struct atoll_line parsed;

    if (d->ready) {
        atoll_context_on_line(d->context, line, n);
        return;
    }
    type = atoll_line_parse(line, n, 0, &parsed);
    if (type == ATOLL_DRIVER_FAILED)
        fail_warm(d, parsed.json);
    atoll_line_done(&parsed);
    if (type == ATOLL_DRIVER_READY)
        become_ready(d);
    else if (type == ATOLL_DRIVER_NO_MEMORY)
        atoll_driver_give_up(d, ATOLL_WHO_NO_MEMORY);
}

/* Handles one line or one item of output; false when there is none left. */
static bool step(struct atoll_driver *d)
{
    struct atoll_reader_item item;
    const char *line;
    size_t n;
    int r = atoll_lines_next(&d->lines, &line, &n);

    if (r > 0) {
        if (!d->given_up) /* output is missing: an end line must not be taken as success */
            handle_line(d, line, n);
        return true;
    }
    if (r < 0) {
        atoll_context_on_long_line(d->context);
        return true;
    }
    /* All complete lines have been processed: the agent may drop them. */
    atoll_reader_forget(d->reader, 0, 0);
    r = atoll_reader_next(d->reader, &item);
    if (r > 0 && item.kind == ATOLL_READ_DATA && item.stream == ATOLL_STREAM_STDOUT) {
        if (!d->given_up && atoll_lines_add(&d->lines, item.data, (size_t)item.length) < 0)
            atoll_driver_give_up(d, ATOLL_WHO_NO_MEMORY);
    } else if (r > 0 && item.kind == ATOLL_READ_DATA)
        keep_tail(d, item.data, (size_t)item.length);
    else if (r > 0 && item.kind == ATOLL_READ_END)
        on_end(d, item.result);
    else if (r < 0)
        atoll_driver_give_up(d, "the daemon, because its output cannot be read");
    else if (r > 0 && item.stream == ATOLL_STREAM_STDOUT && !(d->adopted && item.offset == 0))
        atoll_driver_give_up(d,
                             "the daemon, because part of its output is missing: the disk is full");
    return r > 0;
}

static bool is_paused(const struct atoll_driver *d)
{
    return d->context->current && d->context->current->paused;
}

void atoll_driver_pump(struct atoll_driver *driver)
{
    struct atoll_driver *d = ref(driver);

    if (!d->pumping) {
        d->pumping = true;
        while (d->context && d->reader && !is_paused(d) && step(d))
            ;
        d->pumping = false;
    }
    unref(d);
}

static void on_output(void *arg)
{
    atoll_driver_pump(arg);
}

static void start_timed_out(void *arg)
{
    struct atoll_driver *d = arg;
    struct atoll_error error;

    (void)atoll_fail(&error, ATOLL_ERR_DEADLINE_EXCEEDED, ETIMEDOUT,
                     "the interpreter for %s was not ready within %d s%s%.200s", d->language->name,
                     READY_MS / 1000, d->tail_len ? ": " : "",
                     d->tail + (d->tail_len > 200 ? d->tail_len - 200 : 0));
    fail_start(d, &error);
}

/* Input. */

static void written(void *arg, const struct atoll_error *error)
{
    struct atoll_driver *d = arg;

    /* A driver that cannot be written to cannot answer. */
    if (error && d->context)
        atoll_driver_signal(d, SIGKILL, true, "the daemon, because it does not read its requests");
    unref(d);
}

void atoll_driver_write(struct atoll_driver *d, const char *bytes, size_t n)
{
    struct atoll_exec *exec = find_exec(d);

    if (exec)
        atoll_exec_write(exec, (const uint8_t *)bytes, n, false, written, ref(d));
}

/* Starting the process. */

static void started(void *arg, struct atoll_exec *exec, const struct atoll_error *error)
{
    struct atoll_driver *d = arg;
    struct atoll_exec_view view;
    struct atoll_error failed;

    if (error) {
        fail_start(d, error);
    } else if (!d->context) {
        atoll_exec_signal(exec, SIGKILL, true, WHO_UNWANTED, atoll_context_ignore, NULL);
    } else {
        atoll_exec_get(exec, &view);
        (void)!atoll_text_copy(d->exec_id, sizeof(d->exec_id), view.id);
        d->started = true;
        atoll_timer_set(&d->timer, d->contexts->config.loop, READY_MS, start_timed_out, d);
        if (atoll_reader_open(exec, 0, 0, on_output, d, &d->reader, &failed) < 0) {
            fail_start(d, &failed);
        } else {
            atoll_reader_follow(d->reader);
            atoll_driver_pump(d);
        }
    }
    unref(d);
}

/* The modules that the default interpreter of the sandbox imports when it starts, as a variable for
 * its driver; NULL: none. */
static char *warm_variable(const struct atoll_driver *d)
{
    const char *const *modules =
        d->context->is_default
            ? atoll_engine_warm(d->contexts->config.engine, d->sandbox_id, d->language->name)
            : NULL;
    struct atoll_buf text;
    char *variable;

    if (!modules)
        return NULL;
    atoll_buf_init(&text, WARM_MAX);
    for (size_t i = 0; modules[i]; i++)
        (void)!atoll_buf_appendf(&text, "%s%s", i == 0 ? "ATOLL_WARM=" : " ", modules[i]);
    variable = strdup(atoll_buf_str(&text));
    atoll_buf_done(&text);
    return variable;
}

static void launch(struct atoll_driver *d)
{
    const struct atoll_context *c = d->context;
    ATOLL_AUTOFREE char *warm = warm_variable(d);
    const char *const env[] = {warm, NULL};
    const char *argv[20] = {NULL};
    char path[128];
    struct atoll_exec_start start = {.argv = argv,
                                     .env = warm ? env : NULL,
                                     .user = *c->user ? c->user : NULL,
                                     .cwd = *c->cwd ? c->cwd : NULL,
                                     .stdin_open = true,
                                     .held = true};

    (void)snprintf(path, sizeof(path), DRIVERS_DIR "/%s", d->language->file);
    for (size_t i = 0; d->language->run[i]; i++)
        argv[i] = strcmp(d->language->run[i], "{driver}") == 0 ? path : d->language->run[i];
    atoll_engine_exec(d->contexts->config.engine, d->sandbox_id, &start, started, ref(d));
}

/* Installing the file. */

static void installed(void *arg, const struct atoll_am_entry *entry,
                      const struct atoll_error *error)
{
    struct atoll_driver *d = arg;
    struct atoll_error failed;

    (void)entry;
    if (error) {
        failed = *error;
        (void)atoll_wrap(&failed, "installing the interpreter's driver");
        fail_start(d, &failed);
    } else if (d->context) {
        launch(d);
    }
    unref(d);
}

static void install(struct atoll_driver *d)
{
    char path[128];

    (void)snprintf(path, sizeof(path), DRIVERS_DIR "/%s", d->language->file);
    atoll_files_put(d->contexts->config.engine, d->sandbox_id, "root", path, DRIVER_MODE,
                    d->language->driver, d->language->driver_len, installed, ref(d));
}

/* Compares the file in the sandbox with ours. It may come from another version of the daemon, or
 * the tenant may have changed it. */
static void compare_piece(void *arg)
{
    struct atoll_driver *d = arg;
    const uint8_t *bytes;
    ssize_t n = 0;

    while (d->context && (n = atoll_tenant_file_read(d->found, &bytes)) > 0) {
        if ((size_t)n > d->language->driver_len - d->compared ||
            memcmp(bytes, d->language->driver + d->compared, (size_t)n) != 0)
            break;
        d->compared += (size_t)n;
    }
    if (n == -EAGAIN)
        return; /* called again when data is available */
    d->found = atoll_tenant_file_close(d->found);
    if (d->context && n == 0 && d->compared == d->language->driver_len)
        launch(d);
    else if (d->context)
        install(d);
    unref(d);
}

static void compared(void *arg, struct atoll_tenant_file *file, uint64_t size,
                     const struct atoll_error *error)
{
    struct atoll_driver *d = arg;

    if (!error && size == d->language->driver_len) {
        d->found = file;
        d->compared = 0;
        atoll_tenant_file_on_ready(file, compare_piece, d);
        compare_piece(d);
        return;
    }
    (void)atoll_tenant_file_close(file);
    if (d->context)
        install(d);
    unref(d);
}

static void compare(struct atoll_driver *d)
{
    char path[128];

    (void)snprintf(path, sizeof(path), DRIVERS_DIR "/%s", d->language->file);
    atoll_files_open(d->contexts->config.engine, d->sandbox_id, "root", path, compared, ref(d));
}

/* Required programs. */

static void find_program(struct atoll_driver *d);

static void fail_missing_program(struct atoll_driver *d)
{
    const struct atoll_sandbox *sandbox =
        atoll_engine_find(d->contexts->config.engine, d->sandbox_id);
    struct atoll_error error;

    (void)atoll_fail(&error, ATOLL_ERR_FAILED_PRECONDITION, ENOENT,
                     "the sandbox does not have the program \"%.64s\" that %s needs; install it in "
                     "the sandbox, or where its template comes from (%s)",
                     d->language->requires[d->requirement], d -> language -> name,
                     d -> language -> install);
    if (sandbox)
        atoll_advise_language(sandbox, d->language->name, &error);
    fail_start(d, &error);
}

static void looked(void *arg, const struct atoll_am_entry *entry, const struct atoll_error *error)
{
    struct atoll_driver *d = arg;

    if (entry && entry->type != ATOLL_ENTRY_DIRECTORY) {
        d->requirement++;
        d->dir = 0;
    } else {
        d->dir++;
    }
    if (error && error->kind != ATOLL_ERR_NOT_FOUND)
        fail_start(d, error);
    else if (d->context)
        find_program(d);
    unref(d);
}

static void find_program(struct atoll_driver *d)
{
    const char *program = d->language->requires[d->requirement];
    char path[300];

    if (!program) {
        compare(d);
    } else if (d->dir == ATOLL_ARRAY_LEN(program_dirs)) {
        fail_missing_program(d);
    } else {
        (void)snprintf(path, sizeof(path), "%s/%.200s", program_dirs[d->dir], program);
        atoll_files_stat(d->contexts->config.engine, d->sandbox_id, "root", path, looked, ref(d));
    }
}

void atoll_driver_start(struct atoll_context *c)
{
    struct atoll_driver *d = ref(driver_new(c));

    find_program(d);
    unref(d);
}

int atoll_driver_adopt(struct atoll_context *c, struct atoll_exec *exec, struct atoll_error *err)
{
    struct atoll_driver *d = driver_new(c);
    int r;

    (void)!atoll_text_copy(d->exec_id, sizeof(d->exec_id), c->exec_id);
    d->started = d->ready = d->adopted = true;
    r = atoll_reader_open(exec, 0, 0, on_output, d, &d->reader, err);
    if (r < 0)
        atoll_driver_detach(c);
    else
        atoll_reader_follow(d->reader);
    return r;
}
