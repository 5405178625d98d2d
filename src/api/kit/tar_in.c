#include "api/kit/tar_in.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "api/kit/body_pump.h"
#include "api/kit/collect.h"

#define SAID_MAX 250
#define WHO_GONE "the daemon, because the client went away"
#define WHO_INPUT "the daemon, because its input could not be delivered"

/* $1: target directory; $2 and $3: options of tar, or "". */
static const char unpack[] = "mkdir -p -- \"$1\" && exec tar -x $2 $3 -f - -C \"$1\"";

struct unpacking {
    struct atoll_api_call *call;
    struct atoll_body_pump pump;
    struct atoll_collect collect;
    char exec_id[33];
    bool body_done;           /* the whole body was written */
    bool ended;               /* tar has ended */
    struct atoll_error error; /* the response; kind NONE: success */
    atoll_done_fn *done;
};

static void ignore(void *arg ATOLL_UNUSED, const struct atoll_error *error ATOLL_UNUSED)
{
}

static void conclude(struct unpacking *u)
{
    struct atoll_api_call *call = u->call;
    struct atoll_error error = u->error;
    atoll_done_fn *done = u->done;

    if (!u->body_done || !u->ended)
        return;
    atoll_collect_done(&u->collect);
    free(u);
    done(call, error.kind != ATOLL_ERR_NONE ? &error : NULL);
}

static struct atoll_exec *find_tar(const struct unpacking *u)
{
    struct atoll_sandbox *sandbox = atoll_engine_find(u->call->engine, u->call->params.id);

    return sandbox ? atoll_sandbox_find_exec(sandbox, u->exec_id) : NULL;
}

/* Makes an error from tar's error output, on one line. */
static void describe(struct unpacking *u, const struct atoll_exec_result *result)
{
    const struct atoll_buf *said = &u->collect.streams[ATOLL_STREAM_STDERR];
    size_t n = ATOLL_MIN(atoll_buf_size(said), (size_t)SAID_MAX);
    char words[SAID_MAX + 1];
    bool full;

    memcpy(words, atoll_buf_head(said) ? atoll_buf_head(said) : (const uint8_t *)"", n);
    words[n] = '\0';
    for (size_t i = 0; i < n; i++)
        if ((uint8_t)words[i] < 0x20)
            words[i] = ' ';
    /* GNU tar may report a full disk as a short write. */
    full = strstr(words, strerror(ENOSPC)) || strstr(words, strerror(EDQUOT)) ||
           strstr(words, "Wrote only");
    if (result->kind == ATOLL_END_EXITED)
        (void)atoll_fail(
            &u->error, full ? ATOLL_ERR_RESOURCE_EXHAUSTED : ATOLL_ERR_INVALID_ARGUMENT,
            full ? ENOSPC : EINVAL, "tar exited with status %d: %s", result->code, words);
    else
        (void)atoll_fail(&u->error, ATOLL_ERR_ABORTED, 0, "tar ended as %s: %s",
                         atoll_end_kind_name(result->kind), words);
}

static void tar_ended(void *arg, const struct atoll_exec_result *result,
                      const struct atoll_error *error)
{
    struct unpacking *u = arg;

    u->ended = true;
    if (error)
        u->error = *error;
    else if (result->kind != ATOLL_END_EXITED || result->code != 0)
        describe(u, result);
    conclude(u);
}

static void write_tar(void *arg, const uint8_t *bytes, size_t n, atoll_done_fn *done,
                      void *done_arg)
{
    struct unpacking *u = arg;
    struct atoll_exec *exec = find_tar(u);
    struct atoll_error error;

    if (exec) {
        atoll_exec_write(exec, bytes, n, false, done, done_arg);
        return;
    }
    (void)atoll_fail(&error, ATOLL_ERR_ABORTED, ECANCELED, "the sandbox no longer exists");
    done(done_arg, &error);
}

/* Whether tar takes no more input, or has ended. */
static bool is_unwanted(const struct atoll_error *error)
{
    return error->kind == ATOLL_ERR_FAILED_PRECONDITION || error->kind == ATOLL_ERR_NOT_FOUND;
}

static void body_ended(void *arg, const struct atoll_error *error)
{
    struct unpacking *u = arg;
    struct atoll_exec *exec = find_tar(u);

    u->body_done = true;
    /* If tar reads no more, it has failed, and its error output explains why. If input was lost,
     * tar might still exit with success, so it is killed and the error is reported here. */
    if (error && !u->ended && !is_unwanted(error)) {
        u->error = *error;
        u->ended = true;
        if (exec)
            atoll_exec_signal(exec, 9, true,
                              error->kind == ATOLL_ERR_CANCELED ? WHO_GONE : WHO_INPUT, ignore,
                              NULL);
    } else if (exec) {
        atoll_exec_write(exec, NULL, 0, true, ignore, NULL);
    }
    conclude(u);
}

static void started(void *arg, struct atoll_exec *exec, const struct atoll_error *error)
{
    struct unpacking *u = arg;
    struct atoll_api_call *call = u->call;
    struct atoll_exec_view view;

    if (error) {
        u->error = *error;
        u->body_done = u->ended = true;
        conclude(u);
        return;
    }
    atoll_exec_get(exec, &view);
    (void)snprintf(u->exec_id, sizeof(u->exec_id), "%s", view.id);
    if (!call->req) {
        atoll_exec_signal(exec, 9, true, WHO_GONE, ignore, NULL);
        free(u);
        atoll_api_drop(call);
        return;
    }
    atoll_body_pump_start(&u->pump, call, write_tar, body_ended, u);
    atoll_collect_start(&u->collect, atoll_http_loop(call->req), exec, tar_ended, u);
}

void atoll_tar_in(struct atoll_api_call *call, const struct atoll_tar_in *what, atoll_done_fn *done)
{
    const char *const argv[] = {
        "sh", "-c", unpack, "sh", what->dir, what->compression, what->keep_modes ? "-p" : "", NULL};
    const struct atoll_exec_start start = {.argv = argv,
                                           .user = what->user,
                                           .cwd = *what->dir == '/' ? "/" : NULL,
                                           .stdin_open = true};
    struct unpacking *u = atoll_api_alloc(sizeof(*u));

    u->call = call;
    u->done = done;
    atoll_engine_exec(call->engine, call->params.id, &start, started, u);
}
