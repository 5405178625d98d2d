/*
 * Files of a session: make a directory, unpack an archive, read a file.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "api/kit/file_send.h"
#include "api/kit/tar_in.h"
#include "api/repeats.h"
#include "api/vercel/session_internal.h"

struct request {
    const char *path, *cwd;
};

#define AT(member) offsetof(struct request, member)
static const struct atoll_field fields[] = {
    {"path", ATOLL_FIELD_STRING, AT(path), 0, ATOLL_VERCEL_PATH_MAX, NULL, 0},
    {"cwd", ATOLL_FIELD_STRING, AT(cwd), 0, ATOLL_VERCEL_PATH_MAX, NULL, 0},
    ATOLL_FIELDS_TOLERANT,
    {0},
};
#undef AT

/* The path of the body; out holds ATOLL_VERCEL_PATH_MAX + 1 bytes. False: the call has been refused. */
static bool take_path(struct atoll_api_call *call, const uint8_t *bytes, size_t n, char *out)
{
    struct request q = {0};
    struct atoll_body body;
    bool taken;

    if (!atoll_vercel_decode(call, &body, bytes, n, fields, &q))
        return false;
    taken = atoll_vercel_path(call, q.path, q.cwd, out);
    atoll_body_done(&body);
    return taken;
}

static void reply_empty(struct atoll_api_call *call)
{
    atoll_api_reply_text(call, 200, "application/json", "{}", 2);
}

/* Errors of a path are the user's; a sandbox that is gone is not. */
static void fail_path(struct atoll_api_call *call, const struct atoll_error *error)
{
    bool exists = atoll_engine_find(call->engine, call->params.id) != NULL;

    if (exists && (error->kind == ATOLL_ERR_NOT_FOUND || error->kind == ATOLL_ERR_ALREADY_EXISTS ||
                   error->kind == ATOLL_ERR_PERMISSION_DENIED))
        atoll_vercel_refuse_error(call, 400, NULL, error);
    else
        atoll_api_fail(call, error);
}

/* Directories. The engine makes missing parents, too, and accepts a directory that exists, which this API
 * does not: both paths are looked up first. */

struct making {
    struct atoll_api_call *call;
    char path[ATOLL_VERCEL_PATH_MAX + 1];
};

static void made(void *arg, const struct atoll_am_entry *entry ATOLL_UNUSED,
                 const struct atoll_error *error)
{
    if (error)
        fail_path(arg, error);
    else
        reply_empty(arg);
}

static void place_found(void *arg, const struct atoll_am_entry *entry ATOLL_UNUSED,
                        const struct atoll_error *error)
{
    struct making *m = arg;
    struct atoll_api_call *call = m->call;

    if (!error)
        atoll_vercel_refuse(call, 400, NULL, "%s exists already", m->path);
    else if (error->kind != ATOLL_ERR_NOT_FOUND)
        fail_path(call, error);
    else
        atoll_files_mkdir(call->engine, call->params.id, NULL, m->path, made, call);
    free(m);
}

static void parent_found(void *arg, const struct atoll_am_entry *entry ATOLL_UNUSED,
                         const struct atoll_error *error)
{
    struct making *m = arg;

    if (!error) {
        atoll_files_stat(m->call->engine, m->call->params.id, NULL, m->path, place_found, m);
        return;
    }
    fail_path(m->call, error);
    free(m);
}

void atoll_vercel_file_mkdir(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    struct making *m;
    char parent[ATOLL_VERCEL_PATH_MAX + 1], *slash;

    if (atoll_repeat_check(call, bytes, n, NULL))
        return;
    m = atoll_api_alloc(sizeof(*m));
    if (!take_path(call, bytes, n, m->path)) {
        free(m);
        return;
    }
    m->call = call;
    for (size_t len = strlen(m->path); len > 1 && m->path[len - 1] == '/'; len--)
        m->path[len - 1] = '\0';
    memcpy(parent, m->path, sizeof(parent));
    slash = strrchr(parent, '/');
    slash[slash == parent] = '\0';
    atoll_files_stat(call->engine, call->params.id, NULL, parent, parent_found, m);
}

/* Write. */

static void unpacked(void *arg, const struct atoll_error *error)
{
    if (error)
        fail_path(arg, error);
    else
        reply_empty(arg);
}

void atoll_vercel_file_write(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                             size_t n ATOLL_UNUSED)
{
    const char *dir = atoll_http_header(call->req, "x-cwd");
    char path[ATOLL_VERCEL_PATH_MAX + 1];

    if (!atoll_vercel_path(call, dir && *dir ? dir : ".", NULL, path))
        return;
    atoll_tar_in(call, &(struct atoll_tar_in){path, NULL, "-z", true}, unpacked);
}

/* Read. */

static void part_known(void *arg, const struct atoll_file_part *part)
{
    atoll_file_send(arg, 200, "application/octet-stream", part);
}

static void opened(void *arg, struct atoll_tenant_file *file, uint64_t size_bytes,
                   const struct atoll_error *error)
{
    struct atoll_api_call *call = arg;

    if (error && error->kind == ATOLL_ERR_PERMISSION_DENIED)
        fail_path(call, error);
    else if (error)
        atoll_api_fail(call, error);
    else
        atoll_file_whole(file, size_bytes, part_known, call);
}

void atoll_vercel_file_read(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    char path[ATOLL_VERCEL_PATH_MAX + 1];

    if (take_path(call, bytes, n, path))
        atoll_files_open(call->engine, call->params.id, NULL, path, opened, call);
}
