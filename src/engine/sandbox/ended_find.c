#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "engine/engine_internal.h"
#include "engine/sandbox/ended.h"

/*
 * Reading the records of ended sandboxes.
 */

int atoll_ended_find(struct atoll_engine *engine, const char *id, atoll_store_ended_fn *fn,
                     void *arg, struct atoll_error *err)
{
    return atoll_store_find_ended(engine->config.store, id, fn, arg, err);
}

int atoll_ended_find_session(struct atoll_engine *engine, const char *session_id,
                             atoll_store_ended_fn *fn, void *arg, struct atoll_error *err)
{
    return atoll_store_find_ended_session(engine->config.store, session_id, fn, arg, err);
}

int atoll_ended_each(struct atoll_engine *engine, const char *tenant, int64_t after_number,
                     uint32_t most, atoll_store_ended_fn *fn, void *arg, struct atoll_error *err)
{
    return atoll_store_each_ended(engine->config.store, tenant, after_number, most, fn, arg, err);
}

/* Commands. */

static void read_result(const struct atoll_store_exec *row, struct atoll_exec_result *ret)
{
    atoll_exec_read_result(row, ret);
    if (row->kind == 0) { /* its end could not be stored */
        ret->kind = ATOLL_END_LOST;
        (void)snprintf(ret->reason, sizeof(ret->reason), "its sandbox ended");
    }
}

struct exec_walk {
    void (*fn)(void *arg, const struct atoll_exec_view *view);
    void *arg;
};

static int give_exec(void *arg, const struct atoll_store_exec *row, struct atoll_error *err)
{
    const struct exec_walk *w = arg;
    char **argv = atoll_strings_split(row->argv, row->argv_len);
    struct atoll_exec_result result;
    const struct atoll_exec_view view = {
        .id = row->id,
        .sandbox_id = row->sandbox_id,
        .user = row->user,
        .cwd = row->cwd,
        .argv = (const char *const *)argv,
        .argv_left_out = row->argv_left_out,
        .pid = row->pid,
        .pty = row->pty,
        .held = row->held,
        .started_unix_ms = row->started_unix_ms,
        .result = &result,
    };

    if (!argv)
        return atoll_fail_errno(err, ENOMEM, "command line in the store");
    read_result(row, &result);
    w->fn(w->arg, &view);
    atoll_strings_free(argv);
    return 0;
}

int atoll_ended_execs(struct atoll_engine *engine, const char *sandbox_id,
                      void (*fn)(void *arg, const struct atoll_exec_view *view), void *arg,
                      struct atoll_error *err)
{
    struct exec_walk w = {fn, arg};
    return atoll_store_each_ended_exec(engine->config.store, sandbox_id, give_exec, &w, err);
}

/* One command, with its output. */

struct exec_search {
    struct atoll_engine *engine;
    const char *id;
    struct atoll_exec *found;
};

/* Without a file, or with one that cannot be read, readers get a gap. */
static void open_journal(struct atoll_exec *x)
{
    char name[64];

    (void)snprintf(name, sizeof(name), "%s-%s", x->sandbox_id, x->id);
    atoll_journal_init(&x->journal, x->engine->ended_output.fd, name,
                       x->engine->config.journal_max_bytes);
    if (atoll_journal_reopen(&x->journal, false) < 0)
        atoll_journal_rest(&x->journal);
    x->journal.seen[ATOLL_STREAM_STDOUT] = x->result.stdout_bytes;
    x->journal.seen[ATOLL_STREAM_STDERR] = x->result.stderr_bytes;
}

static int open_exec(void *arg, const struct atoll_store_exec *row, struct atoll_error *err)
{
    struct exec_search *search = arg;
    struct atoll_exec *x;

    if (strcmp(row->id, search->id) != 0)
        return 0;
    x = calloc(1, sizeof(*x));
    if (!x)
        return atoll_fail_errno(err, ENOMEM, "exec");
    x->refs = 1;
    x->engine = search->engine;
    x->ended = x->kept = true;
    (void)snprintf(x->sandbox_id, sizeof(x->sandbox_id), "%s", row->sandbox_id);
    (void)snprintf(x->id, sizeof(x->id), "%s", row->id);
    x->argv = atoll_strings_split(row->argv, row->argv_len);
    x->argv_left_out = row->argv_left_out;
    x->user = strdup(row->user);
    x->cwd = strdup(row->cwd);
    x->pty = row->pty;
    x->pid = row->pid;
    x->started_unix_ms = row->started_unix_ms;
    read_result(row, &x->result);
    atoll_list_init(&x->readers);
    open_journal(x);
    if (!x->argv || !x->user || !x->cwd) {
        atoll_exec_unref(x);
        return atoll_fail_errno(err, ENOMEM, "exec");
    }
    search->found = x;
    return 0;
}

int atoll_ended_exec_open(struct atoll_engine *engine, const char *sandbox_id, const char *exec_id,
                          struct atoll_exec **ret, struct atoll_error *err)
{
    struct exec_search search = {engine, exec_id, NULL};
    int r = atoll_store_each_ended_exec(engine->config.store, sandbox_id, open_exec, &search, err);

    if (r < 0)
        return r;
    if (!search.found)
        return atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT, "no command %s of sandbox %s is kept",
                          exec_id, sandbox_id);
    *ret = search.found;
    return 0;
}

void atoll_ended_exec_close(struct atoll_exec *x)
{
    atoll_exec_unref(x);
}
