/*
 * PUT …/archive: tar unpacks the body, a tar archive, inside the sandbox, as the requested user. A
 * hostile archive can do no more than any other program there. If tar fails, the client gets its
 * error output.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "api/kit/body_pump.h"
#include "api/kit/collect.h"
#include "api/rest/file/files.h"
#include "api/rest/requests.h"
#include "api/rest/rest_internal.h"

#define SAID_MAX 250

/* $1: target directory, $2: tar's option for the compression. */
static const char unpack[] = "mkdir -p -- \"$1\" && exec tar -x $2 -f - -C \"$1\"";

static const struct {
    const char *name, *option;
} compressions[] = {{"none", ""},
                    {"gzip", "-z"},
                    {"xz", "-J"},
                    {"zstd", "--zstd"},
                    {"bzip2", "-j"}};

struct unpacking {
    struct atoll_api_call *call;
    struct atoll_body_pump pump;
    struct atoll_collect collect;
    char exec_id[33];
    bool body_done;           /* the whole body was written */
    bool ended;               /* tar has ended */
    struct atoll_error error; /* the response; kind NONE: success */
};

static void conclude(struct unpacking *u)
{
    struct atoll_api_call *call = u->call;
    struct atoll_error error = u->error;

    if (!u->body_done || !u->ended)
        return;
    atoll_collect_done(&u->collect);
    free(u);
    if (error.kind != ATOLL_ERR_NONE)
        atoll_api_fail(call, &error);
    else
        atoll_api_reply_empty(call, 204);
}

static struct atoll_exec *find_tar(const struct unpacking *u)
{
    return atoll_rest_find_exec(u->call->engine, u->call->params.id, u->exec_id, NULL);
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
    full = strstr(words, strerror(ENOSPC)) || strstr(words, "Wrote only");
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

static void body_ended(void *arg, const struct atoll_error *error)
{
    struct unpacking *u = arg;
    struct atoll_exec *exec = find_tar(u);

    u->body_done = true;
    /* If tar reads no more, it has failed, and its error output explains why. If input was lost,
     * tar might still exit with success, so it is killed and the error is reported here. */
    if (error && !u->ended && !atoll_rest_input_unwanted(error)) {
        u->error = *error;
        u->ended = true;
        if (exec)
            atoll_exec_signal(exec, 9, true,
                              error->kind == ATOLL_ERR_CANCELED ? ATOLL_REST_WHO_GONE
                                                                : ATOLL_REST_WHO_INPUT,
                              atoll_rest_ignore, NULL);
    } else if (exec) {
        atoll_exec_write(exec, NULL, 0, true, atoll_rest_ignore, NULL);
    }
    conclude(u);
}

static void started(void *arg, struct atoll_exec *exec, const struct atoll_error *error)
{
    struct unpacking *u = arg;
    struct atoll_api_call *call = u->call;
    struct atoll_exec_view view;

    if (error) {
        free(u);
        atoll_api_fail(call, error);
        return;
    }
    atoll_exec_get(exec, &view);
    (void)snprintf(u->exec_id, sizeof(u->exec_id), "%s", view.id);
    if (!call->req) {
        atoll_exec_signal(exec, 9, true, ATOLL_REST_WHO_GONE, atoll_rest_ignore, NULL);
        free(u);
        atoll_api_drop(call);
        return;
    }
    atoll_body_pump_start(&u->pump, call, write_tar, body_ended, u);
    atoll_collect_start(&u->collect, atoll_http_loop(call->req), exec, tar_ended, u);
}

static int take_compression(const struct atoll_api_call *call, const char **ret_option,
                            struct atoll_error *err)
{
    const char *name = atoll_http_query(call->req, "compression");

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(compressions); i++)
        if (strcmp(name ? name : "none", compressions[i].name) == 0) {
            *ret_option = compressions[i].option;
            return 0;
        }
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                      "?compression= must be none, gzip, xz, zstd or bzip2 (got \"%.48s\")", name);
}

static void start_tar(struct unpacking *u, const struct atoll_rest_file_target *t,
                      const char *option)
{
    const char *const argv[] = {"sh", "-c", unpack, "sh", t->path, option, NULL};
    const struct atoll_exec_start start = {.argv = argv, .user = t->user, .stdin_open = true};

    atoll_engine_exec(u->call->engine, u->call->params.id, &start, started, u);
}

void atoll_rest_archive_put(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                            size_t n ATOLL_UNUSED)
{
    struct atoll_rest_file_target t;
    const char *option = "";
    struct atoll_error error;
    struct unpacking *u;

    if (!atoll_rest_file_target(call, &t))
        return;
    if (take_compression(call, &option, &error) < 0) {
        atoll_api_fail(call, &error);
        return;
    }
    u = atoll_api_alloc(sizeof(*u));
    u->call = call;
    start_tar(u, &t, option);
}
