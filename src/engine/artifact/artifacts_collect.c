/*
 * Collecting the artifacts of a sandbox, before it is destroyed or while it runs. The agent lists the files and opens
 * those that match a pattern; their bytes are copied from the descriptors it passes: a worker
 * reads, the loop writes to a file of the daemon. The daemon never opens a path of a tenant itself.
 * Every step runs from a timer, one piece per iteration of the loop, so that other requests are not
 * delayed and no callback of the agent's connection closes that connection.
 *
 * A destroy waits for its collector: meanwhile the sandbox is in state "stopping" and is not freed. The
 * collector of a capture looks in each turn whether the sandbox still runs. Every wait of a collector
 * has a time limit.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "base/clock.h"
#include "base/fd.h"
#include "base/glob.h"
#include "base/ignore.h"
#include "base/memory.h"
#include "base/text.h"
#include "engine/artifact/artifacts_internal.h"
#include "engine/file/inband.h"

#define DEPTH_MAX 64
#define ENTRIES_MAX 20000
#define PATHS_BYTES_MAX ((size_t)4 * 1024 * 1024)
#define MATCH_STEPS ((size_t)4 * 1024 * 1024) /* steps of atoll_glob_match() per iteration */
#define ALL_MS 60000
#define ANSWER_MS 5000 /* between two frames of the agent */
#define RULES ".gitignore"
#define RULES_MAX ((size_t)64 * 1024) /* of one such file */

/* A file that was listed. */
struct candidate {
    int64_t mtime_ms;
    char path[]; /* absolute */
};

struct collector {
    struct atoll_list node; /* in atoll_artifacts.captures, if it is one */
    struct atoll_artifacts *artifacts;
    struct atoll_sandbox *sandbox;
    void (*done)(struct atoll_sandbox *sandbox); /* of a destroy; NULL: a capture */
    atoll_done_fn *captured;
    void *captured_arg;
    char **patterns; /* owned */
    char dir_name[ATOLL_ID_LEN + 16];
    struct atoll_timer turn, answer, all;
    bool asked; /* an answer of the agent is pending */
    bool over;  /* finished, except for a pending answer */

    struct candidate **found; /* owned */
    size_t found_count, found_cap, path_bytes, next;
    size_t root_len;      /* length of the directory's part of the paths, with its slash */
    size_t pattern_bytes; /* size of all patterns */
    /* With the pattern ATOLL_ARTIFACTS_GITIGNORE: first the files with rules are read. */
    struct atoll_ignore *ignore; /* owned; NULL: nothing is ignored */
    bool reading_rules;
    struct atoll_buf rules; /* of the file being read */

    struct atoll_kept *kept;            /* owned until it is added */
    struct atoll_store_artifact *files; /* owned; their paths are in found */
    struct atoll_tenant_file *in;       /* the file being copied; owned, or NULL */
    int dir_fd, out_fd;                 /* owned */
    uint32_t handle;                    /* the agent's handle of the file being fetched */
    uint64_t offset, size_bytes;        /* of the file being copied */
};

static void step(void *arg);

static void go_on(struct collector *c)
{
    atoll_timer_cancel(&c->answer);
    atoll_timer_set(&c->turn, c->artifacts->engine->loop, 0, step, c);
}

/* Marks the set as incomplete; the first reason is kept. */
static void note(struct collector *c, const char *what, const char *why)
{
    if (c->kept->complete)
        (void)snprintf(c->kept->reason, sizeof(c->kept->reason), "%.120s%s%.70s", what,
                       *what ? ": " : "", why);
    c->kept->complete = false;
}

/* Counts bytes of the file being copied. */
static void reserve(struct collector *c, uint64_t bytes)
{
    c->size_bytes = bytes;
    c->kept->size_bytes += bytes;
    c->artifacts->copying_bytes += bytes;
}

static void release(struct collector *c, uint64_t bytes)
{
    c->size_bytes -= bytes;
    c->kept->size_bytes -= bytes;
    c->artifacts->copying_bytes -= bytes;
}

static void close_file(struct collector *c)
{
    c->in = atoll_tenant_file_close(c->in);
    if (c->out_fd >= 0)
        (void)close(ATOLL_TAKE_FD(c->out_fd));
    c->offset = c->size_bytes = 0;
}

/* Removes the file being copied, if there is one. */
static void drop_file(struct collector *c)
{
    char number[16];

    (void)snprintf(number, sizeof(number), "%u", (unsigned)c->kept->count);
    if (c->out_fd >= 0)
        (void)unlinkat(c->dir_fd, number, 0);
    release(c, c->size_bytes);
    close_file(c);
}

static void collector_free(struct collector *c)
{
    atoll_strings_free(c->patterns);
    c->ignore = atoll_ignore_free(c->ignore);
    atoll_buf_done(&c->rules);
    for (size_t i = 0; i < c->found_count; i++)
        free(c->found[i]);
    free(c->found);
    free(c->files);
    free(c);
}

static void stop_timers(struct collector *c)
{
    atoll_timer_cancel(&c->turn);
    atoll_timer_cancel(&c->answer);
    atoll_timer_cancel(&c->all);
    if (c->dir_fd >= 0)
        (void)close(ATOLL_TAKE_FD(c->dir_fd));
}

/* The files of a capture replace those of an earlier one. */
static void replace_set(struct collector *c)
{
    struct atoll_artifacts *a = c->artifacts;
    const char *id = c->kept->sandbox_id;
    struct atoll_error err;

    if (atoll_map_get(&a->by_id, id))
        (void)!atoll_artifacts_remove(a->engine, id, &err);
    atoll_artifacts_discard(a, id);
    (void)renameat(a->dir_fd, c->dir_name, a->dir_fd, id);
}

static void end_capture(struct collector *c, const struct atoll_error *error)
{
    atoll_list_remove(&c->node);
    c->captured(c->captured_arg, error);
}

/* Adds the set, and continues the destroy or answers the capture. */
static void finish(struct collector *c)
{
    struct atoll_artifacts *a = c->artifacts;

    drop_file(c);
    stop_timers(c);
    /* The reservation becomes the size of the set. */
    a->copying_bytes -= c->kept->size_bytes;
    if (!c->done)
        replace_set(c);
    atoll_artifacts_add(a, ATOLL_TAKE_PTR(c->kept), c->files);
    c->over = true;
    /* Closes the agent's connection, which answers a pending request with an error. */
    if (c->done)
        c->done(c->sandbox);
    else
        end_capture(c, NULL);
    if (!c->asked)
        collector_free(c);
}

/* Drops what was copied, without a set. */
static void drop(struct collector *c)
{
    drop_file(c);
    stop_timers(c);
    c->artifacts->copying_bytes -= c->kept->size_bytes;
    atoll_artifacts_discard(c->artifacts, c->dir_name);
    free(ATOLL_TAKE_PTR(c->kept));
    c->over = true;
}

/* The sandbox of a capture may end meanwhile. */
static bool is_gone(const struct collector *c)
{
    return !c->done &&
           (atoll_engine_find(c->artifacts->engine, c->kept->sandbox_id) != c->sandbox ||
            atoll_sandbox_state(c->sandbox) != ATOLL_SANDBOX_RUNNING);
}

static void abandon(struct collector *c)
{
    struct atoll_error error;

    (void)atoll_fail(&error, ATOLL_ERR_ABORTED, ECANCELED,
                     "sandbox %s ended while its files were copied", c->kept->sandbox_id);
    drop(c);
    end_capture(c, &error);
    if (!c->asked)
        collector_free(c);
}

static void on_closed(void *arg, const struct atoll_reply *answer)
{
    (void)arg;
    (void)answer;
}

/* Every callback of the agent calls this first. True when the collector has finished already. */
static bool has_finished(struct collector *c, const struct atoll_reply *answer)
{
    c->asked = answer->more;
    return c->over;
}

static void too_long(void *arg)
{
    struct collector *c = arg;

    if (is_gone(c)) {
        abandon(c);
        return;
    }
    note(c, "", "the sandbox did not answer in time");
    finish(c);
}

static void await(struct collector *c)
{
    c->asked = true;
    atoll_timer_set(&c->answer, c->artifacts->engine->loop, ANSWER_MS, too_long, c);
}

/* Copying. */

static void file_failed(struct collector *c, const char *why)
{
    note(c, c->found[c->next++]->path + c->root_len, why);
    drop_file(c);
    go_on(c);
}

/* A file that has become shorter is kept with its new size. */
static void file_copied(struct collector *c)
{
    const struct candidate *f = c->found[c->next++];

    release(c, c->size_bytes - c->offset);
    c->files[c->kept->count] = (struct atoll_store_artifact){
        .path = f->path + c->root_len,
        .number = c->kept->count,
        .size_bytes = c->offset,
        .mtime_ms = f->mtime_ms,
    };
    c->kept->count++;
    close_file(c);
    go_on(c);
}

/* Calls go_on() when the worker has read a piece. */
static void piece_ready(void *arg)
{
    go_on(arg);
}

/* The rules of the file that was read apply to its directory. */
static void take_rules(struct collector *c)
{
    char *dir = strdup(c->found[c->next++]->path + c->root_len);
    char *slash = dir ? strrchr(dir, '/') : NULL;

    if (!dir)
        abort();
    *(slash ? slash : dir) = '\0';
    if (atoll_ignore_add(c->ignore, dir, atoll_buf_str(&c->rules), atoll_buf_size(&c->rules)) < 0)
        note(c, dir, "the rules of " RULES " files are too long; some were not applied");
    free(dir);
    atoll_buf_clear(&c->rules);
    close_file(c);
    go_on(c);
}

static int write_piece(struct collector *c, const uint8_t *piece, size_t n)
{
    return c->reading_rules ? atoll_buf_append(&c->rules, piece, n)
                            : atoll_fd_write_all(c->out_fd, piece, n);
}

static void copy_piece(struct collector *c)
{
    const uint8_t *piece;
    ssize_t n = atoll_tenant_file_read(c->in, &piece);
    int r = n > 0 ? write_piece(c, piece, (size_t)n) : (int)n;

    if (r == -EAGAIN)
        return; /* the timer limits the wait */
    if (r < 0) {
        file_failed(c, strerror(-r));
        return;
    }
    c->offset += (uint64_t)n;
    if (n > 0 && c->offset < c->size_bytes)
        go_on(c);
    else if (c->reading_rules)
        take_rules(c);
    else
        file_copied(c);
}

static int open_out(struct collector *c)
{
    const struct atoll_artifacts *a = c->artifacts;
    char number[16];

    if (c->dir_fd < 0 && mkdirat(a->dir_fd, c->dir_name, 0700) == 0)
        c->dir_fd = openat(a->dir_fd, c->dir_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (c->dir_fd < 0)
        return -errno;
    (void)snprintf(number, sizeof(number), "%u", (unsigned)c->kept->count);
    c->out_fd = openat(c->dir_fd, number, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    return c->out_fd < 0 ? -errno : 0;
}

static void begin_reading(struct collector *c, uint64_t size)
{
    c->size_bytes = size;
    atoll_tenant_file_cut(c->in, 0, size);
    atoll_tenant_file_on_ready(c->in, piece_ready, c);
    go_on(c);
}

/* Gets the size from the descriptor: the file may have changed since it was listed. */
static void begin_copy(struct collector *c, int fd)
{
    uint64_t left = ATOLL_ARTIFACTS_BYTES_MAX - c->kept->size_bytes;
    const struct atoll_lane lane = atoll_sandbox_lane(c->sandbox);
    uint64_t size = 0;
    int r = atoll_tenant_file_open(c->artifacts->engine->offload, &lane, fd, &c->in);

    if (r == 0)
        size = (uint64_t)atoll_tenant_file_stat(c->in)->st_size;
    if (r < 0) {
        file_failed(c, "it is not a regular file any more");
    } else if (c->reading_rules && size <= RULES_MAX) {
        begin_reading(c, size);
    } else if (c->reading_rules || size > left) {
        file_failed(c, "it does not fit in the 256 MiB for a sandbox");
    } else if (!atoll_artifacts_make_room(c->artifacts, size)) {
        file_failed(c, "it does not fit in the daemon's quota for artifacts");
    } else if ((r = open_out(c)) < 0) {
        file_failed(c, strerror(-r));
    } else {
        reserve(c, size);
        begin_reading(c, size);
    }
}

/* Opening. */

/* The agent's handle is not needed once the descriptor is here. */
static void close_handle(struct collector *c, uint32_t handle)
{
    struct atoll_am_handle msg = {handle};
    struct atoll_error err;

    (void)!atoll_sandbox_ask(c->sandbox, ATOLL_AGENT_FILE_CLOSE, &atoll_am_handle_desc, &msg,
                             on_closed, NULL, &err);
}

static void on_fetched(void *arg, int fd, uint64_t size_bytes, const struct atoll_error *error)
{
    struct collector *c = arg;

    (void)size_bytes;
    c->asked = false;
    if (c->over) {
        if (fd >= 0)
            (void)close(fd); /* a file of the daemon: may be closed on the loop's thread */
        return;
    }
    close_handle(c, c->handle);
    if (error)
        file_failed(c, error->text);
    else
        begin_copy(c, fd);
}

/* Without descriptor passing, fetches the content through the connection first. */
static void fetch(struct collector *c, const struct atoll_am_opened *opened)
{
    if (opened->size_bytes > ATOLL_ARTIFACTS_BYTES_MAX - c->kept->size_bytes) {
        close_handle(c, opened->handle);
        file_failed(c, "it does not fit in the 256 MiB for a sandbox");
        return;
    }
    c->asked = true;
    c->handle = opened->handle;
    atoll_timer_cancel(&c->answer); /* many answers follow; the total time limit applies */
    atoll_inband_fetch(c->sandbox, opened->handle, opened->size_bytes, on_fetched, c);
}

static void on_opened(void *arg, const struct atoll_reply *answer)
{
    struct collector *c = arg;
    struct atoll_am_opened opened;
    struct atoll_error err;

    if (has_finished(c, answer))
        return;
    if (answer->error) {
        file_failed(c, answer->error->errnum ? strerror(answer->error->errnum)
                                             : "it cannot be opened");
        return;
    }
    if (atoll_msg_decode(&atoll_am_opened_desc, answer->frame->payload, answer->frame->len, &opened,
                         &err) < 0 ||
        answer->frame->nfds > 1) {
        file_failed(c, "it cannot be opened");
        return;
    }
    if (answer->frame->nfds == 0) {
        fetch(c, &opened);
        return;
    }
    close_handle(c, opened.handle);
    begin_copy(c, ATOLL_TAKE_FD(answer->frame->fds[0]));
}

static void open_file(struct collector *c, const struct candidate *f)
{
    struct atoll_am_path msg = {.path = f->path};
    struct atoll_error err;

    if (c->kept->count == ATOLL_ARTIFACTS_FILES_MAX) {
        note(c, "", "there are more than 1000 files that match");
        c->next = c->found_count;
        go_on(c);
    } else if (atoll_sandbox_ask(c->sandbox, ATOLL_AGENT_FILE_OPEN, &atoll_am_path_desc, &msg,
                                 on_opened, c, &err) < 0) {
        file_failed(c, err.text);
    } else {
        await(c);
    }
}

/* Matching. */

static bool is_wanted(const struct collector *c, const struct candidate *f)
{
    const char *path = f->path + c->root_len;

    if (c->reading_rules) {
        const char *slash = strrchr(path, '/');
        return strcmp(slash ? slash + 1 : path, RULES) == 0 && !atoll_ignore_match(c->ignore, path);
    }
    for (char *const *p = c->patterns; *p; p++)
        if (atoll_glob_match(*p, path))
            return !c->ignore || !atoll_ignore_match(c->ignore, path);
    return false;
}

static void choose(struct collector *c)
{
    for (size_t steps = 0; c->next < c->found_count && steps < MATCH_STEPS; c->next++) {
        const struct candidate *f = c->found[c->next];
        if (is_wanted(c, f)) {
            open_file(c, f);
            return;
        }
        steps += (c->pattern_bytes + (c->ignore ? atoll_ignore_bytes(c->ignore) : 0)) *
                 strlen(f->path + c->root_len);
    }
    if (c->next == c->found_count && c->reading_rules) {
        c->reading_rules = false;
        c->next = 0;
    }
    go_on(c);
}

static void step(void *arg)
{
    struct collector *c = arg;

    if (is_gone(c))
        abandon(c);
    else if (c->in)
        copy_piece(c);
    else if (c->next < c->found_count)
        choose(c);
    else
        finish(c);
}

/* Listing. */

static void take_entry(struct collector *c, const struct atoll_am_entry *entry)
{
    size_t n = strlen(entry->path) + 1;
    struct candidate *f;

    /* The first entry is always in the directory itself. */
    if (c->root_len == 0)
        c->root_len = (size_t)(strrchr(entry->path, '/') - entry->path) + 1;
    if (entry->type != ATOLL_ENTRY_FILE || n <= c->root_len + 1)
        return;
    if (c->found_count == ENTRIES_MAX || c->path_bytes + n > PATHS_BYTES_MAX) {
        note(c, "", "there are too many files");
        return;
    }
    if (c->found_count == c->found_cap) {
        c->found_cap = ATOLL_MAX(c->found_cap * 2, (size_t)64);
        c->found = realloc(c->found, c->found_cap * sizeof(*c->found));
    }
    f = malloc(sizeof(*f) + n);
    if (!c->found || !f)
        abort(); /* bounded: the daemon is crash-only */
    f->mtime_ms = entry->mtime_ms;
    memcpy(f->path, entry->path, n);
    c->path_bytes += n;
    c->found[c->found_count++] = f;
}

static void on_listed(void *arg, const struct atoll_reply *answer)
{
    struct collector *c = arg;
    struct atoll_am_entry entry;
    struct atoll_error err;

    if (has_finished(c, answer))
        return;
    if (answer->more) {
        on_closed(NULL, answer);
        await(c);
        if (atoll_msg_decode(&atoll_am_entry_desc, answer->frame->payload, answer->frame->len,
                             &entry, &err) == 0 &&
            entry.path[0] == '/')
            take_entry(c, &entry);
        return;
    }
    on_closed(NULL, answer);
    if (answer->error)
        note(c, "",
             answer->error->kind == ATOLL_ERR_RESOURCE_EXHAUSTED ? "there are too many files"
                                                                 : answer->error->text);
    go_on(c);
}

static struct atoll_kept *kept_new(const struct atoll_sandbox *s)
{
    struct atoll_kept *kept = atoll_alloc(sizeof(*kept));

    kept->complete = true;
    kept->created_unix_ms = atoll_clock_unix_ms();
    memcpy(kept->sandbox_id, s->spec.id, sizeof(kept->sandbox_id));
    (void)!atoll_text_copy(kept->session_id, sizeof(kept->session_id),
                           s->options.session_id ? s->options.session_id : "");
    memcpy(kept->owner, s->spec.tenant, sizeof(kept->owner));
    return kept;
}

/* Without an agent to ask, adds an empty, incomplete set with the reason, unless an earlier daemon
 * has made one. */
static void add_empty(struct atoll_artifacts *a, const struct atoll_sandbox *s, const char *why)
{
    struct atoll_kept *kept;

    if (atoll_map_get(&a->by_id, s->spec.id))
        return;
    kept = kept_new(s);
    kept->complete = false;
    (void)snprintf(kept->reason, sizeof(kept->reason), "%s", why);
    atoll_artifacts_add(a, kept, NULL);
}

/* patterns: copied; those that are not of files set members of the collector. */
static struct collector *collector_new(struct atoll_sandbox *s, const char *const *patterns)
{
    struct collector *c = atoll_alloc(sizeof(*c));
    size_t n = 0;

    *c = (struct collector){.artifacts = s->engine->artifacts, .sandbox = s};
    atoll_list_init(&c->node);
    c->dir_fd = c->out_fd = ATOLL_NO_FD;
    c->kept = kept_new(s);
    c->files = calloc(ATOLL_ARTIFACTS_FILES_MAX, sizeof(*c->files));
    c->patterns = atoll_strings_dup(patterns);
    if (!c->files || !c->patterns)
        abort();
    atoll_buf_init(&c->rules, RULES_MAX + 1);
    for (size_t i = 0; patterns[i]; i++) {
        if (strcmp(patterns[i], ATOLL_ARTIFACTS_GITIGNORE) == 0) {
            c->reading_rules = true;
            free(c->patterns[i]);
            continue;
        }
        c->patterns[n++] = c->patterns[i];
        c->pattern_bytes += strlen(patterns[i]);
    }
    c->patterns[n] = NULL;
    if (c->reading_rules)
        c->ignore = atoll_ignore_new();
    return c;
}

static void list_files(struct collector *c)
{
    const struct atoll_am_list msg = {.path = ".", .depth = DEPTH_MAX, .max_entries = ENTRIES_MAX};
    struct atoll_error err;

    atoll_timer_set(&c->all, c->artifacts->engine->loop, ALL_MS, too_long, c);
    if (atoll_sandbox_ask(c->sandbox, ATOLL_AGENT_FILE_LIST, &atoll_am_list_desc, &msg, on_listed,
                          c, &err) < 0) {
        note(c, "", err.text);
        go_on(c);
    } else {
        await(c);
    }
}

bool atoll_artifacts_collect(struct atoll_sandbox *s, enum atoll_sandbox_state was,
                             void (*done)(struct atoll_sandbox *sandbox))
{
    struct atoll_artifacts *a = s->engine->artifacts;
    struct atoll_error err;
    struct collector *c;

    if (!s->options.artifacts || was == ATOLL_SANDBOX_FAILED)
        return false;
    if (was != ATOLL_SANDBOX_RUNNING || !s->agent) {
        add_empty(a, s, "the sandbox was not running");
        return false;
    }
    c = collector_new(s, s->options.artifacts);
    c->done = done;
    memcpy(c->dir_name, s->spec.id, sizeof(s->spec.id));
    /* A set from an earlier destroy that failed, or of a capture. */
    if (atoll_map_get(&a->by_id, s->spec.id))
        (void)!atoll_artifacts_remove(s->engine, s->spec.id, &err);
    atoll_artifacts_discard(a, s->spec.id);
    list_files(c);
    return true;
}

static int find_running(struct atoll_engine *engine, const char *id, struct atoll_sandbox **ret,
                        struct atoll_error *err)
{
    *ret = atoll_engine_find(engine, id);
    if (!*ret)
        return atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT, "there is no sandbox %.32s", id);
    if (atoll_sandbox_state(*ret) != ATOLL_SANDBOX_RUNNING || !(*ret)->agent)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EAGAIN,
                          "sandbox %s does not run; files can only be captured while it does", id);
    return 0;
}

void atoll_artifacts_capture(struct atoll_engine *engine, const char *sandbox_id,
                             const char *const *patterns, atoll_done_fn *done, void *arg)
{
    struct atoll_sandbox *s = NULL;
    struct atoll_error err;
    struct collector *c;
    char suffix[9];
    int r = find_running(engine, sandbox_id, &s, &err);

    patterns = s && !patterns ? s->options.artifacts : patterns;
    if (r == 0 && patterns)
        r = atoll_artifacts_accept(engine, patterns, &err);
    if (r < 0 || !patterns) {
        done(arg, r < 0 ? &err : NULL);
        return;
    }
    c = collector_new(s, patterns);
    c->captured = done;
    c->captured_arg = arg;
    atoll_rand_id(suffix, sizeof(suffix) - 1);
    (void)snprintf(c->dir_name, sizeof(c->dir_name), "%s.%s", s->spec.id, suffix);
    atoll_list_push_back(&engine->artifacts->captures, &c->node);
    list_files(c);
}

void atoll_artifacts_end_captures(struct atoll_artifacts *a)
{
    while (a && !atoll_list_empty(&a->captures)) {
        struct collector *c = ATOLL_CONTAINER_OF(a->captures.next, struct collector, node);

        atoll_list_remove(&c->node);
        drop(c);
        collector_free(c);
    }
}
