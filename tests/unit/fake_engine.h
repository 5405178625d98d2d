#pragma once
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include "base/fd.h"
#include "engine/artifact/artifacts.h"
#include "engine/build/waiting.h"
#include "engine/engine.h"
#include "engine/provider/providers.h"
#include "engine/sandbox/ended.h"
#include "engine/state/state.h"
#include "engine/template/archive.h"
#include "engine/template/export.h"
#include "engine/template/pull.h"
#include "engine/template/version_sbom.h"
#include "engine/volume/opened.h"

/*
 * An engine in memory for tests of the API. Answers come at once, or, while `hold` is set, when the
 * test calls fake_release(): that is how a client gets to go away in between. Commands do what the
 * test says with fake_output() and fake_end(). It replaces the real one at link time, so it has to
 * define all of engine.h.
 */
#define FAKE_MAX 16

struct atoll_sandbox {
    bool used;
    char id[ATOLL_ID_LEN + 1], owner[65];
    struct atoll_limits limits;
    uint32_t waived;
    char metadata[256], facade[1024];
    char template[65], interpreter[65], env[256]; /* env: each with a space after it */
};

struct fake_piece {
    int kind, stream;
    uint64_t offset;
    size_t len;
    uint8_t *data;
};

struct atoll_exec {
    bool used, ended, stdin_open, stdin_closed, resting;
    bool gone; /* with its sandbox: only its readers have it */
    char id[17], sandbox_id[ATOLL_ID_LEN + 1];
    struct fake_piece pieces[256];
    size_t count;
    uint64_t offsets[3];
    struct atoll_exec_result result;
    struct atoll_reader *readers[FAKE_MAX];
    int signo;
    uint32_t cols, rows;
    struct atoll_buf input;
    char user[32];
};

struct atoll_reader {
    struct atoll_exec *exec;
    size_t next;
    bool ended, follows;
    void (*ready)(void *arg);
    void *arg;
};

struct atoll_upload {
    int fd;
};

struct atoll_import {
    struct atoll_buf got;
};

/* A callback kept for later. */
struct fake_later {
    void (*call)(struct fake_later *later);
    void (*fn)(void);
    void *arg, *object;
    struct atoll_error error;
    bool failed;
};

struct atoll_engine {
    struct atoll_sandbox sandboxes[FAKE_MAX];
    struct atoll_exec execs[FAKE_MAX];
    struct fake_later later[64];
    size_t later_count;
    bool hold;
    struct atoll_error fail_next; /* of the next create, exec, input, file or import */
    unsigned made, destroyed, uploads_finished, uploads_dropped, imports_dropped, readers;
    size_t pulled;   /* bytes taken by readers */
    size_t let_go;   /* of them, those that one that follows does not need any more */
    char who[64];    /* of the last destroy */
    char file[4096]; /* what is downloaded */
    size_t file_len, file_size;
    struct atoll_buf stored; /* what the last upload or import brought */
    uint32_t mode;
    char path[256];
    uint8_t entry_type;  /* of what is looked at; 0: a file */
    uint8_t listed_type; /* of what is listed, below what was looked at last; 0: a link elsewhere */
};

static struct atoll_engine fake;

static inline void fake_reset(void)
{
    memset(&fake, 0, sizeof(fake));
    atoll_buf_init(&fake.stored, 64 * 1024 * 1024);
    for (int i = 0; i < FAKE_MAX; i++)
        atoll_buf_init(&fake.execs[i].input, 1024 * 1024);
}

static inline void fake_done(void)
{
    atoll_buf_done(&fake.stored);
    for (int i = 0; i < FAKE_MAX; i++) {
        atoll_buf_done(&fake.execs[i].input);
        for (size_t k = 0; k < fake.execs[i].count; k++)
            free(fake.execs[i].pieces[k].data);
    }
}

static inline void fake_answer(void (*call)(struct fake_later *), void (*fn)(void), void *arg,
                               void *object, const struct atoll_error *error)
{
    struct fake_later now = {.call = call, .fn = fn, .arg = arg, .object = object};

    if (error) {
        now.error = *error;
        now.failed = true;
    }
    if (fake.hold)
        fake.later[fake.later_count++] = now;
    else
        call(&now);
}

/* Makes the calls that were held back, and those they lead to. */
static inline void fake_release(void)
{
    fake.hold = false;
    for (size_t i = 0; i < fake.later_count; i++)
        fake.later[i].call(&fake.later[i]);
    fake.later_count = 0;
}

/* Makes the first of them, and holds back what it leads to. */
static inline void fake_step(void)
{
    struct fake_later first = fake.later[0];

    memmove(fake.later, fake.later + 1, --fake.later_count * sizeof(first));
    first.call(&first);
}

/* The failure the test asked for, or one of its own when `found` is NULL; NULL for success. */
static inline const struct atoll_error *fake_failure(const void *found)
{
    static struct atoll_error error;

    error = fake.fail_next;
    fake.fail_next = (struct atoll_error){0};
    if (error.kind == ATOLL_ERR_NONE && !found)
        (void)atoll_fail(&error, ATOLL_ERR_NOT_FOUND, ENOENT, "there is no such sandbox");
    return error.kind == ATOLL_ERR_NONE ? NULL : &error;
}

static inline const struct atoll_error *fake_error(struct fake_later *l)
{
    return l->failed ? &l->error : NULL;
}

static inline void fake_notify(struct atoll_exec *exec)
{
    for (int i = 0; i < FAKE_MAX; i++)
        if (exec->readers[i])
            exec->readers[i]->ready(exec->readers[i]->arg);
}

static inline void fake_output(struct atoll_exec *exec, int stream, const void *bytes, size_t n)
{
    struct fake_piece *p = &exec->pieces[exec->count++];

    *p = (struct fake_piece){ATOLL_READ_DATA, stream, exec->offsets[stream], n, malloc(n)};
    memcpy(p->data, bytes, n);
    exec->offsets[stream] += n;
    fake_notify(exec);
}

static inline void fake_gap(struct atoll_exec *exec, int stream, size_t n)
{
    exec->pieces[exec->count++] =
        (struct fake_piece){ATOLL_READ_GAP, stream, exec->offsets[stream], n, NULL};
    exec->offsets[stream] += n;
    fake_notify(exec);
}

static inline void fake_end(struct atoll_exec *exec, enum atoll_end_kind kind, int code)
{
    if (exec->ended)
        return;
    exec->ended = true;
    exec->result.kind = kind;
    exec->result.code = code;
    exec->result.stdout_bytes = exec->offsets[1];
    exec->result.stderr_bytes = exec->offsets[2];
    fake_notify(exec);
}

/* engine.h */

const char *atoll_engine_host_json(const struct atoll_engine *engine)
{
    (void)engine;
    return "{\"mode\":\"fake\"}";
}

void atoll_engine_queue(const struct atoll_engine *engine, size_t *ret_creates, size_t *ret_execs)
{
    (void)engine;
    *ret_creates = *ret_execs = 0;
}

const char *atoll_sandbox_state_name(enum atoll_sandbox_state state)
{
    (void)state;
    return "running";
}

uint32_t atoll_limit_by_name(const char *name)
{
    return strcmp(name, "memory") == 0 ? 1u
           : strcmp(name, "disk") == 0 ? 8u
           : strcmp(name, "all") == 0  ? 15u
                                       : 0;
}

const char *atoll_limit_name(uint32_t limit)
{
    return limit == 1 ? "memory" : limit == 8 ? "disk" : "other";
}

static inline void call_sandbox(struct fake_later *l)
{
    ((atoll_sandbox_fn *)l->fn)(l->arg, l->failed ? NULL : l->object, fake_error(l));
}

void atoll_engine_create(struct atoll_engine *engine, const struct atoll_options *create,
                         atoll_sandbox_fn *done, void *arg)
{
    struct atoll_sandbox *s = &engine->sandboxes[engine->made % FAKE_MAX];
    const struct atoll_error *error = fake_failure(engine->made < FAKE_MAX ? s : NULL);

    if (!error) {
        s->used = true;
        s->limits = create->limits;
        s->waived = create->waived;
        (void)snprintf(s->id, sizeof(s->id), "box%u", engine->made++);
        (void)snprintf(s->owner, sizeof(s->owner), "%s", create->owner ? create->owner : "default");
        (void)snprintf(s->metadata, sizeof(s->metadata), "%s",
                       create->metadata_json ? create->metadata_json : "");
        (void)snprintf(s->facade, sizeof(s->facade), "%s",
                       create->facade_json ? create->facade_json : "");
        (void)snprintf(s->template, sizeof(s->template), "%s",
                       create->template_name ? create->template_name : "");
        (void)snprintf(s->interpreter, sizeof(s->interpreter), "%s",
                       create->interpreter ? create->interpreter : "");
        s->env[0] = '\0';
        for (const char *const *p = create->env; p && *p; p++) {
            size_t n = strlen(s->env);
            (void)snprintf(s->env + n, sizeof(s->env) - n, "%s ", *p);
        }
    }
    fake_answer(call_sandbox, (void (*)(void))done, arg, s, error);
}

struct atoll_sandbox *atoll_engine_find(struct atoll_engine *engine, const char *id)
{
    for (int i = 0; i < FAKE_MAX; i++)
        if (engine->sandboxes[i].used && strcmp(engine->sandboxes[i].id, id) == 0)
            return &engine->sandboxes[i];
    return NULL;
}

int atoll_engine_no_sandbox(const char *text, struct atoll_error *err)
{
    return atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT, "sandbox %.64s does not exist", text);
}

int atoll_engine_resolve(struct atoll_engine *engine, const char *owner, bool all, const char *text,
                         struct atoll_sandbox **ret, struct atoll_error *err)
{
    (void)owner;
    (void)all;
    *ret = atoll_engine_find(engine, text);
    return *ret ? 0 : atoll_engine_no_sandbox(text, err);
}

struct atoll_sandbox *atoll_engine_find_name(const struct atoll_engine *engine, const char *owner,
                                             const char *name)
{
    (void)engine;
    (void)owner;
    (void)name;
    return NULL;
}

int atoll_engine_set_name(struct atoll_engine *engine, const char *id, const char *name,
                          struct atoll_error *err)
{
    (void)engine;
    (void)id;
    (void)name;
    (void)err;
    return 0;
}

int atoll_name_check(const char *name, struct atoll_error *err)
{
    (void)name;
    (void)err;
    return 0;
}

struct atoll_sandbox *atoll_engine_peek(struct atoll_engine *engine, const char *id)
{
    return atoll_engine_find(engine, id);
}

void atoll_engine_set_interpreters(struct atoll_engine *engine,
                                   const struct atoll_interpreters *interpreters)
{
    (void)engine;
    (void)interpreters;
}

void atoll_engine_pause_to_disk(struct atoll_engine *engine ATOLL_UNUSED,
                                const char *id ATOLL_UNUSED, const char *who ATOLL_UNUSED,
                                atoll_done_fn *done, void *arg)
{
    done(arg, NULL);
}

const char *const *atoll_engine_warm(struct atoll_engine *engine ATOLL_UNUSED,
                                     const char *sandbox_id ATOLL_UNUSED,
                                     const char *language ATOLL_UNUSED)
{
    return NULL;
}

bool atoll_pool_next(const struct atoll_engine *engine ATOLL_UNUSED, size_t *pos ATOLL_UNUSED,
                     struct atoll_pool_view *ret ATOLL_UNUSED)
{
    return false;
}

void atoll_engine_note_interpreter(struct atoll_engine *engine, const char *sandbox_id,
                                   const char *language)
{
    (void)engine;
    (void)sandbox_id;
    (void)language;
}

struct atoll_sandbox *atoll_engine_next(struct atoll_engine *engine, size_t *pos)
{
    while (*pos < FAKE_MAX)
        if (engine->sandboxes[(*pos)++].used)
            return &engine->sandboxes[*pos - 1];
    return NULL;
}

/* Few, and in no order but that of their places: their number in the id stands for it. */
static inline int fake_place(const char *id)
{
    return *id ? atoi(id + 3) : -1;
}

struct atoll_sandbox *atoll_engine_after(struct atoll_engine *engine, const char *tenant,
                                         int64_t created_unix_ms, const char *id)
{
    (void)created_unix_ms;
    for (int i = 0; i < FAKE_MAX; i++)
        if (engine->sandboxes[i].used && fake_place(engine->sandboxes[i].id) > fake_place(id) &&
            (!tenant || strcmp(engine->sandboxes[i].owner, tenant) == 0))
            return &engine->sandboxes[i];
    return NULL;
}

size_t atoll_engine_count(const struct atoll_engine *engine, const char *tenant,
                          const char *provider, size_t ret[static ATOLL_SANDBOX_STATES],
                          size_t *ret_silent)
{
    size_t n = 0;

    (void)provider;
    if (ret_silent)
        *ret_silent = 0;
    memset(ret, 0, ATOLL_SANDBOX_STATES * sizeof(*ret));
    for (int i = 0; i < FAKE_MAX; i++)
        n += engine->sandboxes[i].used &&
             (!tenant || strcmp(engine->sandboxes[i].owner, tenant) == 0);
    ret[ATOLL_SANDBOX_RUNNING] = n;
    return n;
}

void atoll_engine_usage(const struct atoll_engine *engine, const char *tenant,
                        struct atoll_usage *ret)
{
    (void)engine;
    (void)tenant;
    *ret = (struct atoll_usage){0};
}

void atoll_engine_largest(const struct atoll_engine *engine, uint64_t ret_promised[static 3])
{
    (void)engine;
    memset(ret_promised, 0, 3 * sizeof(*ret_promised));
}

static inline void call_done(struct fake_later *l)
{
    ((atoll_done_fn *)l->fn)(l->arg, fake_error(l));
}

void atoll_engine_destroy(struct atoll_engine *engine, const char *id, const char *who,
                          atoll_done_fn *done, void *arg)
{
    struct atoll_sandbox *s = atoll_engine_find(engine, id);
    const struct atoll_error *error = fake_failure(s);

    if (!error) {
        (void)snprintf(engine->who, sizeof(engine->who), "%s", who);
        s->used = false;
        engine->destroyed++;
        for (int i = 0; i < FAKE_MAX; i++)
            if (engine->execs[i].used && strcmp(engine->execs[i].sandbox_id, id) == 0)
                fake_end(&engine->execs[i], ATOLL_END_KILLED_BY, 0);
    }
    fake_answer(call_done, (void (*)(void))done, arg, NULL, error);
}

void atoll_sandbox_get(const struct atoll_sandbox *sandbox, struct atoll_sandbox_view *ret)
{
    *ret = (struct atoll_sandbox_view){
        .id = sandbox->id,
        .owner = sandbox->owner,
        .state = ATOLL_SANDBOX_RUNNING,
        .template_name = "host",
        .provider = "fake",
        .isolation = "none",
        .image = "",
        .handle = "",
        .cause = "",
        .options = {.metadata_json = sandbox->metadata,
                    .facade_json = sandbox->facade,
                    .limits = sandbox->limits,
                    .waived = sandbox->waived},
        .created_unix_ms = 1,
    };
}

static inline void call_stats(struct fake_later *l)
{
    const struct atoll_sandbox_stats stats = {.memory_bytes = 4711};
    ((atoll_stats_fn *)l->fn)(l->arg, l->failed ? NULL : &stats, fake_error(l));
}

void atoll_engine_stats(struct atoll_engine *engine, const char *id, atoll_stats_fn *done,
                        void *arg)
{
    const struct atoll_error *error = fake_failure(atoll_engine_find(engine, id));
    fake_answer(call_stats, (void (*)(void))done, arg, NULL, error);
}

void atoll_engine_figures(struct atoll_engine *engine, const char *id, atoll_stats_fn *done,
                          void *arg)
{
    atoll_engine_stats(engine, id, done, arg);
}

void atoll_engine_ask_agent(struct atoll_engine *engine, const char *id, atoll_stats_fn *done,
                            void *arg)
{
    atoll_engine_stats(engine, id, done, arg);
}

static inline void call_exec(struct fake_later *l)
{
    ((atoll_exec_fn *)l->fn)(l->arg, l->failed ? NULL : l->object, fake_error(l));
}

void atoll_engine_exec(struct atoll_engine *engine, const char *sandbox_id,
                       const struct atoll_exec_start *start, atoll_exec_fn *done, void *arg)
{
    struct atoll_exec *x = engine->execs;
    const struct atoll_error *error;

    while (x < engine->execs + FAKE_MAX - 1 && x->used)
        x++;
    error = fake_failure(x->used ? NULL : atoll_engine_find(engine, sandbox_id));
    if (!error) {
        x->used = true;
        x->stdin_open = start->stdin_open;
        x->cols = start->cols;
        x->rows = start->rows;
        (void)snprintf(x->user, sizeof(x->user), "%s", start->user ? start->user : "");
        (void)snprintf(x->id, sizeof(x->id), "exec%d", (int)(x - engine->execs));
        (void)snprintf(x->sandbox_id, sizeof(x->sandbox_id), "%s", sandbox_id);
    }
    fake_answer(call_exec, (void (*)(void))done, arg, x, error);
}

/* It has no records of ended sandboxes. */
int atoll_ended_find(struct atoll_engine *engine, const char *id, atoll_store_ended_fn *fn,
                     void *arg, struct atoll_error *err)
{
    (void)engine, (void)id, (void)fn, (void)arg, (void)err;
    return 0;
}

int atoll_ended_find_session(struct atoll_engine *engine, const char *session_id,
                             atoll_store_ended_fn *fn, void *arg, struct atoll_error *err)
{
    return atoll_ended_find(engine, session_id, fn, arg, err);
}

int atoll_ended_each(struct atoll_engine *engine, const char *tenant, int64_t after_number,
                     uint32_t most, atoll_store_ended_fn *fn, void *arg, struct atoll_error *err)
{
    (void)engine, (void)tenant, (void)after_number, (void)most, (void)fn, (void)arg, (void)err;
    return 0;
}

int atoll_ended_execs(struct atoll_engine *engine, const char *sandbox_id,
                      void (*fn)(void *arg, const struct atoll_exec_view *view), void *arg,
                      struct atoll_error *err)
{
    (void)engine, (void)sandbox_id, (void)fn, (void)arg, (void)err;
    return 0;
}

int atoll_ended_exec_open(struct atoll_engine *engine, const char *sandbox_id, const char *exec_id,
                          struct atoll_exec **ret, struct atoll_error *err)
{
    (void)engine, (void)sandbox_id, (void)ret;
    return atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT, "no command %s is kept", exec_id);
}

void atoll_ended_exec_close(struct atoll_exec *exec)
{
    (void)exec;
}

struct atoll_exec *atoll_sandbox_find_exec(struct atoll_sandbox *sandbox, const char *exec_id)
{
    for (int i = 0; i < FAKE_MAX; i++)
        if (fake.execs[i].used && strcmp(fake.execs[i].id, exec_id) == 0 &&
            strcmp(fake.execs[i].sandbox_id, sandbox->id) == 0)
            return &fake.execs[i];
    return NULL;
}

struct atoll_exec *atoll_sandbox_next_exec(struct atoll_sandbox *sandbox, size_t *pos)
{
    (void)sandbox;
    while (*pos < FAKE_MAX)
        if (fake.execs[(*pos)++].used)
            return &fake.execs[*pos - 1];
    return NULL;
}

const char *atoll_end_kind_name(enum atoll_end_kind kind)
{
    return kind == ATOLL_END_EXITED ? "exited" : "killed_by";
}

void atoll_exec_get(const struct atoll_exec *exec, struct atoll_exec_view *ret)
{
    static const char *const argv[] = {"cmd", NULL};
    *ret = (struct atoll_exec_view){.id = exec->id,
                                    .sandbox_id = exec->sandbox_id,
                                    .user = exec->user,
                                    .cwd = "",
                                    .pid = (uint32_t)(exec - fake.execs) + 1,
                                    .argv = argv,
                                    .result = exec->ended ? &exec->result : NULL};
}

static void fed(void *arg, const struct atoll_error *error)
{
    (void)arg;
    (void)error;
}

void atoll_exec_write(struct atoll_exec *exec, const uint8_t *bytes, size_t n, bool close,
                      atoll_done_fn *done, void *arg)
{
    const struct atoll_error *error = fake_failure(exec);

    if (!error && atoll_buf_append(&exec->input, bytes, n) < 0)
        abort();
    exec->stdin_closed |= close;
    fake_answer(call_done, (void (*)(void))done, arg, NULL, error);
}

void atoll_exec_write_patiently(struct atoll_exec *exec, const uint8_t *bytes, size_t n,
                                atoll_done_fn *done, void *arg)
{
    atoll_exec_write(exec, bytes, n, false, done, arg);
}

void atoll_exec_feed(struct atoll_exec *exec, const uint8_t *bytes, size_t n)
{
    atoll_exec_write(exec, bytes, n, true, fed, NULL);
}

void atoll_exec_signal(struct atoll_exec *exec, int signo, bool tree, const char *who,
                       atoll_done_fn *done, void *arg)
{
    (void)who;
    exec->signo = tree ? -signo : signo;
    fake_answer(call_done, (void (*)(void))done, arg, NULL, NULL);
}

void atoll_exec_resize(struct atoll_exec *exec, uint32_t cols, uint32_t rows, atoll_done_fn *done,
                       void *arg)
{
    exec->cols = cols;
    exec->rows = rows;
    fake_answer(call_done, (void (*)(void))done, arg, NULL, NULL);
}

int atoll_reader_open(struct atoll_exec *exec, uint64_t stdout_offset, uint64_t stderr_offset,
                      void (*ready)(void *arg), void *arg, struct atoll_reader **ret,
                      struct atoll_error *err)
{
    int i = 0;

    (void)stdout_offset;
    (void)stderr_offset;
    while (i < FAKE_MAX - 1 && exec->readers[i])
        i++;
    if (exec->readers[i])
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, ENOMEM, "too many readers");
    *ret = exec->readers[i] = calloc(1, sizeof(**ret));
    **ret = (struct atoll_reader){.exec = exec, .ready = ready, .arg = arg};
    fake.readers++;
    return 0;
}

int atoll_reader_next(struct atoll_reader *reader, struct atoll_reader_item *ret)
{
    struct atoll_exec *exec = reader->exec;

    if (reader->next < exec->count) {
        const struct fake_piece *p = &exec->pieces[reader->next++];
        *ret = (struct atoll_reader_item){.kind = p->kind,
                                          .stream = p->stream,
                                          .offset = p->offset,
                                          .length = p->len,
                                          .data = p->data};
        fake.pulled += p->len;
        return 1;
    }
    if (!exec->ended || reader->ended)
        return 0;
    reader->ended = true;
    *ret = (struct atoll_reader_item){.kind = ATOLL_READ_END, .result = &exec->result};
    return 1;
}

struct atoll_reader *atoll_reader_close(struct atoll_reader *reader)
{
    for (int i = 0; reader && i < FAKE_MAX; i++)
        if (reader->exec->readers[i] == reader)
            reader->exec->readers[i] = NULL;
    fake.readers -= reader != NULL;
    if (reader && reader->exec->gone)
        memset(&reader->exec->result, 0x5a, sizeof(reader->exec->result));
    free(reader);
    return NULL;
}

void atoll_reader_follow(struct atoll_reader *reader)
{
    reader->follows = true;
}

void atoll_reader_forget(struct atoll_reader *reader, size_t stdout_less, size_t stderr_less)
{
    if (reader->follows)
        fake.let_go = fake.pulled - stdout_less - stderr_less;
}

void atoll_exec_set_resting(struct atoll_exec *exec, bool resting)
{
    exec->resting = resting;
}

static inline void call_entry(struct fake_later *l)
{
    const struct atoll_am_entry entry = {.path = fake.path,
                                         .type =
                                             fake.entry_type ? fake.entry_type : ATOLL_ENTRY_FILE,
                                         .mode = 0644,
                                         .owner = "user",
                                         .group = "user",
                                         .target = "",
                                         .resolved = "",
                                         .mtime_ms = INT64_MAX};
    ((atoll_entry_fn *)l->fn)(l->arg, l->failed ? NULL : &entry, fake_error(l));
}

static inline void fake_entry(struct atoll_engine *e, const char *id, const char *path,
                              atoll_entry_fn *done, void *arg)
{
    const struct atoll_error *error = fake_failure(atoll_engine_find(e, id));

    (void)snprintf(e->path, sizeof(e->path), "/home/user/%s", path);
    fake_answer(call_entry, (void (*)(void))done, arg, NULL, error);
}

void atoll_files_stat(struct atoll_engine *e, const char *id, const char *user, const char *path,
                      atoll_entry_fn *done, void *arg)
{
    (void)user;
    fake_entry(e, id, path, done, arg);
}

void atoll_files_mkdir(struct atoll_engine *e, const char *id, const char *user, const char *path,
                       atoll_entry_fn *done, void *arg)
{
    (void)user;
    fake_entry(e, id, path, done, arg);
}

void atoll_files_mkdir_as(struct atoll_engine *e, const char *id, const char *user,
                          const char *path, uint32_t mode, bool parents, atoll_entry_fn *done,
                          void *arg)
{
    (void)user;
    (void)mode;
    (void)parents;
    fake_entry(e, id, path, done, arg);
}

void atoll_files_move(struct atoll_engine *e, const char *id, const char *user, const char *from,
                      const char *to, atoll_entry_fn *done, void *arg)
{
    (void)user;
    (void)from;
    fake_entry(e, id, to, done, arg);
}

void atoll_files_remove(struct atoll_engine *e, const char *id, const char *user, const char *path,
                        bool recursive, atoll_done_fn *done, void *arg)
{
    (void)user;
    (void)path;
    (void)recursive;
    fake_answer(call_done, (void (*)(void))done, arg, NULL, fake_failure(atoll_engine_find(e, id)));
}

void atoll_files_chmod(struct atoll_engine *e, const char *id, const char *user, const char *path,
                       uint32_t mode, atoll_done_fn *done, void *arg)
{
    (void)user;
    (void)path;
    e->mode = mode;
    fake_answer(call_done, (void (*)(void))done, arg, NULL, fake_failure(atoll_engine_find(e, id)));
}

void atoll_files_list(struct atoll_engine *e, const char *id, const char *user, const char *path,
                      uint32_t depth, void (*each)(void *arg, const struct atoll_am_entry *entry),
                      atoll_done_fn *done, void *arg)
{
    char inside[sizeof(e->path) + 8];
    const struct atoll_am_entry entry = {.path = e->listed_type ? inside : "/a/\xff",
                                         .type =
                                             e->listed_type ? e->listed_type : ATOLL_ENTRY_SYMLINK,
                                         .owner = "",
                                         .group = "",
                                         .target = "b",
                                         .resolved = ""};

    (void)user;
    (void)path;
    (void)snprintf(inside, sizeof(inside), "%s/inside", e->path);
    for (uint32_t i = 0; i < depth; i++)
        each(arg, &entry);
    fake_answer(call_done, (void (*)(void))done, arg, NULL, fake_failure(atoll_engine_find(e, id)));
}

static inline int fake_file(const char *bytes, size_t n)
{
    int fd = memfd_create("fake", MFD_CLOEXEC);

    if (fd < 0 || write(fd, bytes, n) != (ssize_t)n)
        abort();
    return fd;
}

static inline void call_opened(struct fake_later *l)
{
    struct atoll_tenant_file *file = NULL;

    if (!l->failed && atoll_tenant_file_open(NULL, &(struct atoll_lane){0},
                                             fake_file(fake.file, fake.file_len), &file) < 0)
        abort();
    ((atoll_opened_fn *)l->fn)(l->arg, file, fake.file_size, fake_error(l));
}

void atoll_files_open(struct atoll_engine *e, const char *id, const char *user, const char *path,
                      atoll_opened_fn *done, void *arg)
{
    (void)user;
    (void)path;
    fake_answer(call_opened, (void (*)(void))done, arg, NULL,
                fake_failure(atoll_engine_find(e, id)));
}

int atoll_engine_file(struct atoll_engine *e, const char *tenant, int fd,
                      struct atoll_tenant_file **ret, struct atoll_error *err)
{
    int r = atoll_tenant_file_open(NULL, &(struct atoll_lane){0}, fd, ret);

    (void)e;
    (void)tenant;
    return r < 0 ? atoll_fail_errno(err, -r, "file") : 0;
}

static inline void call_upload(struct fake_later *l)
{
    struct atoll_upload *u = l->failed ? NULL : calloc(1, sizeof(*u));

    /* /dev/full takes nothing: what a full disk looks like. */
    if (u)
        u->fd =
            strstr(fake.path, "full") ? open("/dev/full", O_WRONLY | O_CLOEXEC) : fake_file("", 0);
    ((atoll_upload_fn *)l->fn)(l->arg, u, fake_error(l));
}

void atoll_files_create(struct atoll_engine *e, const char *id, const char *user, const char *path,
                        uint32_t mode, atoll_upload_fn *done, void *arg)
{
    (void)user;
    e->mode = mode;
    (void)snprintf(e->path, sizeof(e->path), "%s", path);
    fake_answer(call_upload, (void (*)(void))done, arg, NULL,
                fake_failure(atoll_engine_find(e, id)));
}

void atoll_files_rewrite(struct atoll_engine *e, const char *id, const char *user, const char *path,
                         uint32_t mode, atoll_upload_fn *done, void *arg)
{
    atoll_files_create(e, id, user, path, mode, done, arg);
}

void atoll_upload_on_ready(struct atoll_upload *upload, void (*fn)(void *arg), void *arg)
{
    (void)upload;
    (void)fn;
    (void)arg;
}

int atoll_upload_fail(int r, struct atoll_error *err)
{
    return atoll_fail(err, atoll_error_kind_of_path_errno(-r), -r, "%s",
                      r == -ENOSPC ? "the disk of the sandbox is full" : strerror(-r));
}

int atoll_upload_write(struct atoll_upload *upload, const uint8_t *bytes, size_t n)
{
    return atoll_fd_write_all(upload->fd, bytes, n);
}

void atoll_upload_finish(struct atoll_upload *upload, atoll_entry_fn *done, void *arg)
{
    uint8_t piece[65536];
    ssize_t n;

    fake.uploads_finished++;
    atoll_buf_clear(&fake.stored);
    for (off_t at = 0; (n = pread(upload->fd, piece, sizeof(piece), at)) > 0; at += n)
        if (atoll_buf_append(&fake.stored, piece, (size_t)n) < 0)
            abort();
    close(upload->fd);
    free(upload);
    fake_answer(call_entry, (void (*)(void))done, arg, NULL, NULL);
}

void atoll_engine_discard(struct atoll_engine *e, const char *id, int fd)
{
    (void)e;
    (void)id;
    close(fd);
}

struct atoll_offload_counts atoll_engine_offload(const struct atoll_engine *e)
{
    (void)e;
    return (struct atoll_offload_counts){0};
}

static inline void call_put(struct fake_later *l)
{
    struct atoll_error full;

    if (!l->failed && strstr(fake.path, "full")) {
        (void)atoll_upload_fail(-ENOSPC, &full);
        fake.uploads_dropped++;
        ((atoll_entry_fn *)l->fn)(l->arg, NULL, &full);
        return;
    }
    fake.uploads_finished += !l->failed;
    call_entry(l);
}

void atoll_files_put(struct atoll_engine *e, const char *id, const char *user, const char *path,
                     uint32_t mode, const void *bytes, size_t n, atoll_entry_fn *done, void *arg)
{
    (void)user;
    e->mode = mode;
    (void)snprintf(e->path, sizeof(e->path), "%s", path);
    atoll_buf_clear(&fake.stored);
    if (atoll_buf_append(&fake.stored, bytes, n) < 0)
        abort();
    fake_answer(call_put, (void (*)(void))done, arg, NULL, fake_failure(atoll_engine_find(e, id)));
}

void atoll_upload_drop(struct atoll_upload *upload)
{
    if (!upload)
        return;
    fake.uploads_dropped++;
    close(upload->fd);
    free(upload);
}

void atoll_files_chown(struct atoll_engine *e, const char *id, const char *user, const char *path,
                       const char *owner, const char *group, atoll_done_fn *done, void *arg)
{
    (void)user;
    (void)path;
    (void)owner;
    (void)group;
    fake_answer(call_done, (void (*)(void))done, arg, NULL, fake_failure(atoll_engine_find(e, id)));
}

void atoll_files_symlink(struct atoll_engine *e, const char *id, const char *user,
                         const char *target, const char *path, atoll_done_fn *done, void *arg)
{
    (void)user;
    (void)target;
    (void)path;
    fake_answer(call_done, (void (*)(void))done, arg, NULL, fake_failure(atoll_engine_find(e, id)));
}

void atoll_files_look(struct atoll_engine *e, const char *id, const char *user, const char *path,
                      const char *attributes, atoll_entry_fn *done, void *arg)
{
    (void)user;
    (void)attributes;
    fake_entry(e, id, path, done, arg);
}

bool atoll_entry_attribute(const struct atoll_am_entry *entry, size_t *pos, const char **ret_name,
                           const char **ret_value)
{
    (void)entry;
    (void)pos;
    *ret_name = *ret_value = NULL;
    return false;
}

void atoll_files_list_look(struct atoll_engine *e, const char *id, const char *user,
                           const char *path, uint32_t depth, const char *attributes,
                           void (*each)(void *arg, const struct atoll_am_entry *entry),
                           atoll_done_fn *done, void *arg)
{
    (void)attributes;
    atoll_files_list(e, id, user, path, depth, each, done, arg);
}

void atoll_files_xattrs(struct atoll_engine *e, const char *id, const char *user, const char *path,
                        void (*each)(void *arg, const char *name, const uint8_t *value, size_t n),
                        atoll_done_fn *done, void *arg)
{
    (void)user;
    (void)path;
    each(arg, "user.a", (const uint8_t *)"1", 1);
    fake_answer(call_done, (void (*)(void))done, arg, NULL, fake_failure(atoll_engine_find(e, id)));
}

void atoll_files_set_xattr(struct atoll_engine *e, const char *id, const char *user,
                           const char *path, const char *name, const uint8_t *value, size_t n,
                           atoll_done_fn *done, void *arg)
{
    (void)user;
    (void)path;
    (void)name;
    (void)value;
    (void)n;
    fake_answer(call_done, (void (*)(void))done, arg, NULL, fake_failure(atoll_engine_find(e, id)));
}

void atoll_files_remove_xattr(struct atoll_engine *e, const char *id, const char *user,
                              const char *path, const char *name, atoll_done_fn *done, void *arg)
{
    atoll_files_set_xattr(e, id, user, path, name, NULL, 0, done, arg);
}

void atoll_files_watch(struct atoll_engine *e, const char *id, const char *user, const char *path,
                       bool recursive, const struct atoll_file_watch_events *events, void *arg)
{
    (void)user;
    (void)path;
    (void)recursive;
    events->started(arg, (struct atoll_file_watch *)&fake, fake_failure(atoll_engine_find(e, id)));
}

struct atoll_file_watch *atoll_files_unwatch(struct atoll_file_watch *watch)
{
    (void)watch;
    return NULL;
}

int atoll_engine_heartbeat(struct atoll_engine *engine, const char *id, struct atoll_error *err)
{
    if (!atoll_engine_find(engine, id))
        return atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT, "there is no such sandbox");
    return 0;
}

void atoll_engine_connection_closed(struct atoll_engine *engine, const char *id)
{
    struct atoll_sandbox *s = atoll_engine_find(engine, id);

    if (s)
        s->used = false;
}

void atoll_engine_touch(struct atoll_engine *engine, const char *id)
{
    (void)engine;
    (void)id;
}

void atoll_engine_use(struct atoll_engine *engine, const char *id, int by)
{
    (void)engine;
    (void)id;
    (void)by;
}

int atoll_engine_set_idle(struct atoll_engine *engine, const char *id, uint32_t seconds,
                          enum atoll_at_deadline then, struct atoll_error *err)
{
    (void)seconds;
    (void)then;
    return atoll_engine_find(engine, id)
               ? 0
               : atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT, "there is no such sandbox");
}

int atoll_engine_set_timeout(struct atoll_engine *engine, const char *id, uint32_t seconds,
                             struct atoll_error *err)
{
    struct atoll_sandbox *s = atoll_engine_find(engine, id);

    if (!s)
        return atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT, "there is no such sandbox");
    s->limits.timeout_s = seconds;
    return 0;
}

int atoll_engine_set_metadata(struct atoll_engine *engine, const char *id, const char *json,
                              struct atoll_error *err)
{
    struct atoll_sandbox *s = atoll_engine_find(engine, id);

    if (!s)
        return atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT, "there is no such sandbox");
    (void)snprintf(s->metadata, sizeof(s->metadata), "%s", json);
    return 0;
}

struct atoll_limits atoll_limits_default(void)
{
    return (struct atoll_limits){.memory_bytes = 512 << 20, .cpu_millis = 1000, .disk_bytes = 1};
}

int atoll_engine_set_facade(struct atoll_engine *engine, const char *id, const char *json,
                            struct atoll_error *err)
{
    (void)json;
    if (!atoll_engine_find(engine, id))
        return atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT, "there is no such sandbox");
    return 0;
}

int atoll_engine_change_env(struct atoll_engine *engine, const char *id, const char *const *set,
                            const char *const *unset, struct atoll_error *err)
{
    (void)set;
    (void)unset;
    if (!atoll_engine_find(engine, id))
        return atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT, "there is no such sandbox");
    return 0;
}

void atoll_engine_resize(struct atoll_engine *engine, const char *id,
                         const struct atoll_limits *limits, atoll_done_fn *done, void *arg)
{
    struct atoll_error err;

    (void)limits;
    if (atoll_engine_find(engine, id)) {
        done(arg, NULL);
        return;
    }
    (void)atoll_fail(&err, ATOLL_ERR_NOT_FOUND, ENOENT, "there is no such sandbox");
    done(arg, &err);
}

const char *atoll_engine_network_problem(const struct atoll_engine *engine)
{
    (void)engine;
    return NULL;
}

void atoll_engine_set_network(struct atoll_engine *engine, const char *id, const char *policy,
                              atoll_done_fn *done, void *arg)
{
    struct atoll_error err;

    (void)policy;
    if (atoll_engine_find(engine, id)) {
        done(arg, NULL);
        return;
    }
    (void)atoll_fail(&err, ATOLL_ERR_NOT_FOUND, ENOENT, "there is no such sandbox");
    done(arg, &err);
}

void atoll_engine_pause(struct atoll_engine *engine, const char *id, bool keep_processes,
                        const char *who, atoll_done_fn *done, void *arg)
{
    (void)id;
    (void)keep_processes;
    (void)who;
    fake_answer(call_done, (void (*)(void))done, arg, NULL, fake_failure(engine));
}

void atoll_engine_resume(struct atoll_engine *engine, const char *id, atoll_done_fn *done,
                         void *arg)
{
    (void)id;
    fake_answer(call_done, (void (*)(void))done, arg, NULL, fake_failure(engine));
}

void atoll_engine_stop(struct atoll_engine *engine, const char *id, const char *who,
                       enum atoll_stop_disk disk, atoll_done_fn *done, void *arg)
{
    (void)id;
    (void)who;
    (void)disk;
    fake_answer(call_done, (void (*)(void))done, arg, NULL, fake_failure(engine));
}

void atoll_engine_keep_history(struct atoll_engine *engine, const char *id)
{
    (void)engine;
    (void)id;
}

size_t atoll_engine_history(struct atoll_engine *engine, const char *id, int64_t from_unix_ms,
                            int64_t to_unix_ms, struct atoll_history_sample *out, size_t max)
{
    (void)engine;
    (void)id;
    (void)from_unix_ms;
    (void)to_unix_ms;
    (void)out;
    (void)max;
    return 0;
}

void atoll_engine_disk(const struct atoll_engine *engine, struct atoll_disk_view *ret)
{
    (void)engine;
    *ret = (struct atoll_disk_view){.store_bytes = 4096, .log_bytes = 1024};
}

int atoll_engine_check_room(const struct atoll_engine *engine, struct atoll_error *err)
{
    (void)engine;
    (void)err;
    return 0;
}

int atoll_engine_check_store(struct atoll_engine *engine, struct atoll_error *err)
{
    (void)engine;
    (void)err;
    return 0;
}

void atoll_advise_language(const struct atoll_sandbox *sandbox, const char *language,
                           struct atoll_error *err)
{
    (void)sandbox;
    (void)language;
    (void)err;
}

const char *atoll_providers_file(const struct atoll_engine *engine)
{
    (void)engine;
    return "/etc/fake/providers.yaml";
}

int64_t atoll_providers_loaded(const struct atoll_engine *engine, const char **ret_error)
{
    (void)engine;
    *ret_error = "";
    return 0;
}

bool atoll_sandbox_public_host(const struct atoll_sandbox *sandbox, char out[ATOLL_PUBLIC_HOST_MAX])
{
    (void)sandbox;
    (void)out;
    return false;
}

void atoll_engine_check(struct atoll_engine *engine, atoll_done_fn *done, void *arg)
{
    fake_answer(call_done, (void (*)(void))done, arg, NULL, fake_failure(engine));
}

bool atoll_providers_next(struct atoll_engine *engine, size_t *pos, struct atoll_provider_view *ret)
{
    (void)engine;
    if (*pos > 0)
        return false;
    ++*pos;
    *ret = (struct atoll_provider_view){.name = "fake",
                                        .kind = "fake",
                                        .isolation = "none",
                                        .source = "",
                                        .is_default = true,
                                        .is_builder = true,
                                        .can_create = true,
                                        .reason = "",
                                        .detail = ""};
    return true;
}

const char *atoll_health_name(enum atoll_health health)
{
    return health == ATOLL_HEALTH_UP ? "up" : "down";
}

const char *atoll_network_name(enum atoll_network network)
{
    static const char *const names[] = {"none", "isolated", "bridge"};
    return names[network];
}

int atoll_network_by_name(const char *name, enum atoll_network *ret)
{
    for (*ret = ATOLL_NETWORK_NONE; *ret <= ATOLL_NETWORK_BRIDGE; ++*ret)
        if (strcmp(name, atoll_network_name(*ret)) == 0)
            return 0;
    return -EINVAL;
}

enum atoll_network atoll_engine_network_most(const struct atoll_engine *engine, const char *tenant)
{
    (void)engine, (void)tenant;
    return ATOLL_NETWORK_BRIDGE;
}

void atoll_engine_connect(struct atoll_engine *engine, const char *id, uint16_t port,
                          atoll_connected_fn *done, void *arg)
{
    struct atoll_error error;

    (void)engine;
    (void)id;
    (void)atoll_fail(&error, ATOLL_ERR_UNAVAILABLE, ECONNREFUSED, "nothing listens on port %u",
                     (unsigned)port);
    done(arg, ATOLL_NO_FD, &error);
}

bool atoll_engine_is_network_port(struct atoll_engine *engine, const char *id, unsigned port)
{
    (void)engine;
    (void)id;
    (void)port;
    return false;
}

/* Nothing ever happens here. */
int atoll_engine_set_tool_policy(struct atoll_engine *engine, const char *id, const char *json,
                                 struct atoll_error *err)
{
    (void)engine;
    (void)id;
    (void)json;
    (void)err;
    return 0;
}

void atoll_engine_emit(struct atoll_engine *engine, const char *sandbox_id, const char *kind,
                       const char *detail)
{
    (void)engine;
    (void)sandbox_id;
    (void)kind;
    (void)detail;
}

struct atoll_subscription *atoll_events_subscribe(struct atoll_engine *engine, uint64_t after,
                                                  void (*fn)(void *arg,
                                                             const struct atoll_event *event),
                                                  void *arg)
{
    (void)after;
    (void)fn;
    (void)arg;
    return (struct atoll_subscription *)engine;
}

struct atoll_subscription *atoll_events_unsubscribe(struct atoll_subscription *subscription)
{
    (void)subscription;
    return NULL;
}

#ifndef FAKE_BUILDS /* a test that has its own */
#include "fake_makes.h"
#endif
#include "fake_templates.h"

bool atoll_templates_next(struct atoll_engine *engine, size_t *pos, struct atoll_template_view *ret)
{
    (void)engine;
    *ret = fake_template("host", ATOLL_TEMPLATE_HOST);
    return (*pos)++ == 0;
}

static inline void call_pulled(struct fake_later *l)
{
    const struct atoll_template_view view = {.name = "image",
                                             .owner = "",
                                             .digest = "",
                                             .source = "image",
                                             .config_json = "",
                                             .definition = "",
                                             .parent = "",
                                             .sandbox_id = ""};

    ((atoll_template_fn *)l->fn)(l->arg, l->failed ? NULL : &view, fake_error(l));
}

struct atoll_pull_waiter *atoll_image_pull(struct atoll_engine *engine,
                                           const struct atoll_pull_request *request,
                                           atoll_template_fn *done, void *arg)
{
    (void)request;
    fake_answer(call_pulled, (void (*)(void))done, arg, NULL, fake_failure(engine));
    return NULL;
}

int atoll_image_archive_open(struct atoll_engine *engine, const char *tenant, const char *name,
                             struct atoll_image_archive **ret, struct atoll_error *err)
{
    (void)engine;
    (void)tenant;
    (void)name;
    (void)ret;
    return atoll_fail(err, ATOLL_ERR_UNIMPLEMENTED, ENOSYS, "no archives here");
}

void atoll_image_archive_write(struct atoll_image_archive *archive, const uint8_t *bytes, size_t n,
                               atoll_done_fn *done, void *arg)
{
    (void)archive;
    (void)bytes;
    (void)n;
    done(arg, NULL);
}

void atoll_image_archive_finish(struct atoll_image_archive *archive, atoll_template_fn *done,
                                void *arg)
{
    (void)archive;
    (void)done;
    (void)arg;
}

void atoll_image_archive_drop(struct atoll_image_archive *archive)
{
    (void)archive;
}

int atoll_image_template(const char *image, char out[static ATOLL_IMAGE_NAME_MAX],
                         struct atoll_error *err)
{
    (void)err;
    (void)snprintf(out, ATOLL_IMAGE_NAME_MAX, "%s", image);
    return 0;
}

void atoll_image_pull_leave(struct atoll_pull_waiter *waiter)
{
    (void)waiter;
}

static inline void call_exported(struct fake_later *l)
{
    const struct atoll_exported made = {
        .digest = "sha256:0", .reference = "docker.io/library/x:1", .fd = -1};

    ((atoll_export_fn *)l->fn)(l->arg, l->failed ? NULL : &made, fake_error(l));
}

struct atoll_export *atoll_template_export(struct atoll_engine *engine,
                                           const struct atoll_export_request *request,
                                           atoll_export_fn *done, void *arg)
{
    (void)request;
    fake_answer(call_exported, (void (*)(void))done, arg, NULL, fake_failure(engine));
    return NULL;
}

void atoll_template_export_drop(struct atoll_export *e)
{
    (void)e;
}

void atoll_version_sbom_make(struct atoll_engine *engine, const char *version_id,
                             atoll_done_fn *done, void *arg)
{
    (void)version_id;
    fake_answer(call_done, (void (*)(void))done, arg, NULL, fake_failure(engine));
}

int atoll_exec_refuse_empty(struct atoll_error *err)
{
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "cmd is missing");
}

static inline void call_import(struct fake_later *l)
{
    struct atoll_import *i = l->failed ? NULL : calloc(1, sizeof(*i));
    ((atoll_import_fn *)l->fn)(l->arg, i, fake_error(l));
}

void atoll_templates_import(struct atoll_engine *engine, const char *name, atoll_import_fn *ready,
                            void *arg)
{
    (void)name;
    atoll_buf_clear(&engine->stored);
    fake_answer(call_import, (void (*)(void))ready, arg, NULL, fake_failure(engine));
}

void atoll_import_write(struct atoll_import *import, const uint8_t *bytes, size_t n,
                        atoll_done_fn *done, void *arg)
{
    const struct atoll_error *error = fake_failure(import);

    if (atoll_buf_append(&fake.stored, bytes, n) < 0)
        abort();
    fake_answer(call_done, (void (*)(void))done, arg, NULL, error);
}

static inline void call_template(struct fake_later *l)
{
    const struct atoll_template_view view = fake_template("made", ATOLL_TEMPLATE_ROOTFS);
    ((atoll_template_fn *)l->fn)(l->arg, l->failed ? NULL : &view, fake_error(l));
}

void atoll_import_finish(struct atoll_import *import, atoll_template_fn *done, void *arg)
{
    free(import);
    fake_answer(call_template, (void (*)(void))done, arg, NULL, NULL);
}

void atoll_import_drop(struct atoll_import *import)
{
    fake.imports_dropped++;
    free(import);
}

int atoll_build_start(struct atoll_engine *engine, const struct atoll_build_request *wish,
                      struct atoll_build **ret, struct atoll_error *err)
{
    (void)engine;
    (void)wish;
    (void)ret;
    return atoll_fail(err, ATOLL_ERR_UNIMPLEMENTED, EOPNOTSUPP, "the fake builds nothing");
}

void atoll_build_write(struct atoll_build *build, const uint8_t *bytes, size_t n,
                       atoll_done_fn *done, void *arg)
{
    (void)build;
    (void)bytes;
    (void)n;
    done(arg, NULL);
}

void atoll_build_finish(struct atoll_build *build, void (*said)(void *arg, const char *line),
                        atoll_template_fn *done, void *arg)
{
    (void)build;
    (void)said;
    (void)done;
    (void)arg;
}

void atoll_build_drop(struct atoll_build *build)
{
    (void)build;
}

static inline void call_snapshot(struct fake_later *l)
{
    const struct atoll_template_view view = fake_template("made", ATOLL_TEMPLATE_ROOTFS);
    const struct atoll_snapshot_facts facts = {4096, 1, 250, 0};

    ((atoll_snapshot_fn *)l->fn)(l->arg, l->failed ? NULL : &view, &facts, fake_error(l));
}

void atoll_engine_snapshot(struct atoll_engine *engine, const char *sandbox_id, const char *name,
                           atoll_snapshot_fn *done, void *arg)
{
    (void)sandbox_id;
    (void)name;
    fake_answer(call_snapshot, (void (*)(void))done, arg, NULL, fake_failure(engine));
}

void atoll_snapshots_each(struct atoll_engine *engine, const char *tenant, const char *sandbox_id,
                          void (*fn)(void *arg, const struct atoll_template_view *view), void *arg)
{
    const struct atoll_template_view view = fake_template("made", ATOLL_TEMPLATE_ROOTFS);

    (void)engine;
    (void)tenant;
    (void)sandbox_id;
    fn(arg, &view);
}

static inline void call_forked(struct fake_later *l)
{
    char ids[1][ATOLL_ID_LEN + 1];

    (void)snprintf(ids[0], sizeof(ids[0]), "%s", "fork");
    ((atoll_fork_fn *)l->fn)(l->arg, (const char(*)[ATOLL_ID_LEN + 1]) ids, l->failed ? 0 : 1,
                             fake_error(l));
}

void atoll_engine_fork(struct atoll_engine *engine, const char *sandbox_id,
                       const struct atoll_fork_request *request, atoll_fork_fn *done, void *arg)
{
    (void)sandbox_id;
    (void)request;
    fake_answer(call_forked, (void (*)(void))done, arg, NULL, fake_failure(engine));
}

void atoll_engine_restore(struct atoll_engine *engine, const char *sandbox_id,
                          const char *reference, const char *who, atoll_done_fn *done, void *arg)
{
    (void)sandbox_id;
    (void)reference;
    (void)who;
    fake_answer(call_done, (void (*)(void))done, arg, NULL, fake_failure(engine));
}

bool atoll_capture_cancel(struct atoll_engine *engine, const void *arg)
{
    (void)engine;
    (void)arg;
    return false;
}

#include "fake_state.h"

void atoll_volumes_list(struct atoll_engine *engine, const char *tenant, const char *provider,
                        void (*each)(void *arg, const struct atoll_volume_view *view),
                        atoll_done_fn *done, void *arg)
{
    (void)tenant;
    (void)provider;
    (void)each;
    fake_answer(call_done, (void (*)(void))done, arg, NULL, fake_failure(engine));
}

void atoll_volumes_copy(struct atoll_engine *engine, const char *tenant, const char *provider,
                        const char *from, const char *to, atoll_done_fn *done, void *arg)
{
    (void)tenant;
    (void)provider;
    (void)from;
    (void)to;
    fake_answer(call_done, (void (*)(void))done, arg, NULL, fake_failure(engine));
}

void atoll_volumes_remove(struct atoll_engine *engine, const char *tenant, const char *provider,
                          const char *name, atoll_done_fn *done, void *arg)
{
    (void)tenant;
    (void)provider;
    (void)name;
    fake_answer(call_done, (void (*)(void))done, arg, NULL, fake_failure(engine));
}

void atoll_volume_enter(struct atoll_engine *engine, const struct atoll_volume_request *request,
                        atoll_volume_fn *done, void *arg)
{
    static int only; /* the use of every request: the tests need no more */
    const struct atoll_error *error = fake_failure(engine);

    (void)request;
    done(arg, error ? NULL : (struct atoll_volume_use *)(void *)&only, error);
}

const char *atoll_volume_sandbox(const struct atoll_volume_use *use)
{
    (void)use;
    return "volume0000000000";
}

const char *atoll_volume_shown(const char *path)
{
    return path;
}

const char *atoll_volume_name(const struct atoll_volume_use *use)
{
    (void)use;
    return "";
}

int atoll_volume_path(const char *path, char *out, size_t cap, struct atoll_error *err)
{
    (void)err;
    (void)snprintf(out, cap, "/%s", path);
    return 0;
}

void atoll_volume_leave(struct atoll_volume_use *use)
{
    (void)use;
}

void atoll_artifacts_capture(struct atoll_engine *engine, const char *sandbox_id,
                             const char *const *patterns, atoll_done_fn *done, void *arg)
{
    (void)sandbox_id;
    (void)patterns;
    fake_answer(call_done, (void (*)(void))done, arg, NULL, fake_failure(engine));
}

void atoll_templates_remove(struct atoll_engine *engine, const char *owner, const char *name,
                            atoll_done_fn *done, void *arg)
{
    (void)owner;
    (void)name;
    fake_answer(call_done, (void (*)(void))done, arg, NULL, fake_failure(engine));
}

void atoll_templates_retire(struct atoll_engine *engine, const char *owner, const char *name,
                            atoll_done_fn *done, void *arg)
{
    atoll_templates_remove(engine, owner, name, done, arg);
}

bool atoll_template_is_retired(const char *name)
{
    (void)name;
    return false;
}

/* Sandboxes that wait for builds: none is stored. */

int atoll_make_waiting_put(struct atoll_engine *engine, const struct atoll_store_waiting *row,
                           struct atoll_error *err)
{
    (void)engine;
    (void)row;
    (void)err;
    return 0;
}

int atoll_make_waiting_drop(struct atoll_engine *engine, const char *id, struct atoll_error *err)
{
    (void)engine;
    (void)id;
    (void)err;
    return 0;
}

int atoll_make_waiting_each(struct atoll_engine *engine,
                            int (*fn)(void *arg, const struct atoll_store_waiting *row,
                                      struct atoll_error *err),
                            void *arg, struct atoll_error *err)
{
    (void)engine;
    (void)fn;
    (void)arg;
    (void)err;
    return 0;
}
