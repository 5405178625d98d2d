/*
 * File operations, as Connect calls.
 */
#include "api/e2b/filesystem.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define PATH_MAX_BYTES 4095
#define DEPTH_MAX 1024

void atoll_fs_explain(const struct atoll_error *error, const char *user, struct atoll_error *ret)
{
    *ret = *error;
    if (error->kind == ATOLL_ERR_INVALID_ARGUMENT && error->errnum == ESRCH)
        (void)atoll_fail(ret, ATOLL_ERR_UNAUTHENTICATED, ESRCH, "invalid username: '%s'",
                         user + (*user == '+'));
    else if (error->kind == ATOLL_ERR_FAILED_PRECONDITION && error->errnum == ENOTDIR)
        ret->kind = ATOLL_ERR_INVALID_ARGUMENT;
}

/* One call in progress. */
struct op {
    struct atoll_api_call *call;
    json_t *message; /* owned */
    const char *path, *to;
    char user[ATOLL_ENVD_USER_MAX];
    struct atoll_buf buf; /* the response */
    struct atoll_json_out out;
};

static void op_free(struct op *op)
{
    json_decref(op->message);
    atoll_buf_done(&op->buf);
    free(op);
}

static void op_fail(struct op *op, const struct atoll_error *error)
{
    struct atoll_error shown;

    atoll_fs_explain(error, op->user, &shown);
    atoll_api_fail(op->call, &shown);
    op_free(op);
}

/* Fails with another prefix for one errno. */
static void op_fail_as(struct op *op, const struct atoll_error *error, int errnum,
                       const char *before)
{
    struct atoll_error shown = *error;

    if (error->errnum == errnum)
        (void)atoll_fail(&shown, error->kind, errnum, "%s%.300s", before, error->text);
    op_fail(op, &shown);
}

static int take_path(const json_t *message, const char *name, const char **ret,
                     struct atoll_error *err)
{
    int r = atoll_connect_text(message, name, ret, err);

    if (r < 0)
        return r;
    if (!*ret || !**ret)
        *ret = "."; /* the user's home */
    if (strlen(*ret) > PATH_MAX_BYTES)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, ENAMETOOLONG, "the path is too long");
    if (**ret == '~' && (*ret)[1] && (*ret)[1] != '/')
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "cannot expand user-specific home dir");
    return 0;
}

/* NULL: the call has been answered. */
static struct op *op_new(struct atoll_api_call *call, const uint8_t *body, size_t n,
                         const char *path, const char *to)
{
    struct atoll_error error;
    struct op *op;
    json_t *message;
    int r;

    if (!atoll_connect_unary(call, body, n, &message))
        return NULL;
    op = atoll_api_alloc(sizeof(*op));
    op->call = call;
    op->message = message;
    atoll_api_reply_init(&op->buf, &op->out);
    r = atoll_envd_file_user(call, op->user, &error);
    if (r == 0)
        r = take_path(message, path, &op->path, &error);
    if (r == 0 && to)
        r = take_path(message, to, &op->to, &error);
    if (r == 0)
        return op;
    atoll_api_fail(call, &error);
    op_free(op);
    return NULL;
}

static void reply_entry(struct op *op, const struct atoll_am_entry *entry)
{
    atoll_json_open(&op->out, NULL, '{');
    atoll_entry_write(&op->out, "entry", entry);
    atoll_json_close(&op->out, '}');
    atoll_api_reply(op->call, 200, &op->out);
    op_free(op);
}

static void look(struct op *op, const char *path, atoll_entry_fn *done)
{
    atoll_files_look(op->call->engine, op->call->params.id, op->user, path, ATOLL_ENVD_ATTRIBUTES,
                     done, op);
}

/* Stat. */

static void on_looked(void *arg, const struct atoll_am_entry *entry,
                      const struct atoll_error *error)
{
    struct atoll_error missing;

    if (error && error->errnum == ENOTDIR) {
        /* A path below a file does not exist: clients use Stat to test for existence. */
        (void)atoll_fail(&missing, ATOLL_ERR_NOT_FOUND, ENOENT, "%s", error->text);
        error = &missing;
    }
    if (error)
        op_fail_as(arg, error, ENOENT, "file not found: lstat ");
    else
        reply_entry(arg, entry);
}

void atoll_envd_fs_stat(struct atoll_api_call *call, const uint8_t *body, size_t n)
{
    struct op *op = op_new(call, body, n, "path", NULL);

    if (op)
        look(op, op->path, on_looked);
}

/* MakeDir. */

static void on_made(void *arg, const struct atoll_am_entry *entry, const struct atoll_error *error)
{
    if (error)
        op_fail(arg, error);
    else
        reply_entry(arg, entry);
}

static void on_looked_before(void *arg, const struct atoll_am_entry *entry,
                             const struct atoll_error *error)
{
    struct op *op = arg;
    struct atoll_error there;

    if (error && error->errnum == ENOENT) {
        atoll_files_mkdir(op->call->engine, op->call->params.id, op->user, op->path, on_made, op);
        return;
    }
    if (!error &&
        (entry->type == ATOLL_ENTRY_DIRECTORY || entry->resolved_type == ATOLL_ENTRY_DIRECTORY))
        (void)atoll_fail(&there, ATOLL_ERR_ALREADY_EXISTS, EEXIST,
                         "directory already exists: %.300s", entry->path);
    else if (!error)
        (void)atoll_fail(&there, ATOLL_ERR_INVALID_ARGUMENT, ENOTDIR,
                         "path already exists but it is not a directory: %.300s", entry->path);
    op_fail(op, error ? error : &there);
}

void atoll_envd_fs_make_dir(struct atoll_api_call *call, const uint8_t *body, size_t n)
{
    struct op *op = op_new(call, body, n, "path", NULL);

    if (op)
        look(op, op->path, on_looked_before);
}

/* Move: creates the parent directories of the destination. */

static void on_moved(void *arg, const struct atoll_am_entry *entry, const struct atoll_error *error)
{
    struct op *op = arg;

    (void)entry;
    if (error)
        op_fail_as(op, error, ENOENT, "source file not found: ");
    else
        look(op, op->to, on_looked);
}

static void on_way_made(void *arg, const struct atoll_am_entry *entry,
                        const struct atoll_error *error)
{
    struct op *op = arg;

    (void)entry;
    if (error)
        op_fail(op, error);
    else
        atoll_files_move(op->call->engine, op->call->params.id, op->user, op->path, op->to,
                         on_moved, op);
}

void atoll_envd_fs_move(struct atoll_api_call *call, const uint8_t *body, size_t n)
{
    struct op *op = op_new(call, body, n, "source", "destination");
    const char *slash;
    char way[PATH_MAX_BYTES + 1];

    if (!op)
        return;
    slash = strrchr(op->to, '/');
    if (!slash || slash == op->to) {
        on_way_made(op, NULL, NULL);
        return;
    }
    (void)snprintf(way, sizeof(way), "%.*s", (int)(slash - op->to), op->to);
    atoll_files_mkdir(call->engine, call->params.id, op->user, way, on_way_made, op);
}

/* ListDir. */

static void on_entry(void *arg, const struct atoll_am_entry *entry)
{
    struct op *op = arg;
    atoll_entry_write(&op->out, NULL, entry);
}

static void on_listed(void *arg, const struct atoll_error *error)
{
    struct op *op = arg;
    struct atoll_error shown;

    if (error && error->errnum == ENOTDIR) {
        (void)atoll_fail(&shown, ATOLL_ERR_INVALID_ARGUMENT, ENOTDIR,
                         "path is not a directory: %.300s", op->path);
        op_fail(op, &shown);
    } else if (error) {
        op_fail_as(op, error, ENOENT, "directory not found: ");
    } else {
        atoll_json_close(&op->out, ']');
        atoll_json_close(&op->out, '}');
        atoll_api_reply(op->call, 200, &op->out);
        op_free(op);
    }
}

void atoll_envd_fs_list_dir(struct atoll_api_call *call, const uint8_t *body, size_t n)
{
    struct op *op = op_new(call, body, n, "path", NULL);
    struct atoll_error error;
    uint32_t depth = 1;

    if (!op)
        return;
    if (atoll_connect_u32(op->message, "depth", &depth, &error) < 0) {
        op_fail(op, &error);
        return;
    }
    depth = ATOLL_MIN(ATOLL_MAX(depth, 1u), (uint32_t)DEPTH_MAX);
    atoll_json_open(&op->out, NULL, '{');
    atoll_json_open(&op->out, "entries", '[');
    atoll_files_list_look(call->engine, call->params.id, op->user, op->path, depth,
                          ATOLL_ENVD_ATTRIBUTES, on_entry, on_listed, op);
}

/* Remove: a path that does not exist is a success. */

static void on_removed(void *arg, const struct atoll_error *error)
{
    struct op *op = arg;

    if (error && error->kind != ATOLL_ERR_NOT_FOUND && error->errnum != ENOENT) {
        op_fail(op, error);
        return;
    }
    atoll_connect_reply_empty(op->call);
    op_free(op);
}

void atoll_envd_fs_remove(struct atoll_api_call *call, const uint8_t *body, size_t n)
{
    struct op *op = op_new(call, body, n, "path", NULL);

    if (op)
        atoll_files_remove(call->engine, call->params.id, op->user, op->path, true, on_removed, op);
}
