#include <errno.h>
#include <stdio.h>
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
    atoll_exec_read_result(row, &result);
    if (row->kind == 0) { /* its end could not be stored */
        result.kind = ATOLL_END_LOST;
        (void)snprintf(result.reason, sizeof(result.reason), "its sandbox ended");
    }
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
