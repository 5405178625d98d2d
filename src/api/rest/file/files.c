/*
 * The small operations on files. The agent resolves every path inside the sandbox.
 */
#include "api/rest/file/files.h"
#include <errno.h>
#include <string.h>
#include "api/kit/list_reply.h"
#include "api/rest/rest_internal.h"
#include "api/rest/views.h"
#include "engine/volume/opened.h"

#define DEPTH_MAX 64
/* The default user of the sandbox owns what it makes, with root's rights: a volume is the tenant's. */
#define VOLUME_USER "+"

static int take_path(const struct atoll_api_call *call, const char *name, const char **ret,
                     struct atoll_error *err)
{
    const char *path = atoll_http_query(call->req, name);

    if (!path || !*path)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "?%s= is missing: a path, absolute or below the user's home", name);
    if (strlen(path) > ATOLL_REST_PATH_MAX)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, ENAMETOOLONG,
                          "?%s= is longer than %d bytes", name, ATOLL_REST_PATH_MAX);
    *ret = path;
    return 0;
}

/* The entry as clients of its volume see it. */
static struct atoll_am_entry shown(const struct atoll_api_call *call,
                                   const struct atoll_am_entry *entry)
{
    struct atoll_am_entry e = *entry;

    if (call->volume)
        e.path = atoll_volume_shown(e.path);
    return e;
}

bool atoll_rest_file_target(struct atoll_api_call *call, struct atoll_rest_file_target *ret)
{
    const char *user = atoll_http_query(call->req, "user");
    struct atoll_error error;

    if (take_path(call, "path", &ret->path, &error) < 0) {
        atoll_api_fail(call, &error);
        return false;
    }
    if (user && strlen(user) > 64) {
        (void)atoll_fail(&error, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "?user= is too long");
        atoll_api_fail(call, &error);
        return false;
    }
    ret->user = user && *user ? user : call->volume ? VOLUME_USER : NULL;
    if (!call->volume)
        return true;
    if (atoll_volume_path(ret->path, ret->in_volume, sizeof(ret->in_volume), &error) < 0) {
        atoll_api_fail(call, &error);
        return false;
    }
    ret->path = ret->in_volume;
    return true;
}

void atoll_rest_file_entry(void *arg, const struct atoll_am_entry *entry,
                           const struct atoll_error *error)
{
    struct atoll_api_call *call = arg;
    struct atoll_am_entry view;
    struct atoll_buf buf;
    struct atoll_json_out out;

    if (!atoll_api_reply_begin(call, error, &buf, &out))
        return;
    view = shown(call, entry);
    atoll_view_entry(&out, NULL, &view);
    atoll_api_reply(call, 200, &out);
}

void atoll_rest_file_stat(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                          size_t n ATOLL_UNUSED)
{
    struct atoll_rest_file_target t;

    if (atoll_rest_file_target(call, &t))
        atoll_files_stat(call->engine, call->params.id, t.user, t.path, atoll_rest_file_entry,
                         call);
}

void atoll_rest_file_mkdir(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                           size_t n ATOLL_UNUSED)
{
    struct atoll_rest_file_target t;

    if (atoll_rest_file_target(call, &t))
        atoll_files_mkdir(call->engine, call->params.id, t.user, t.path, atoll_rest_file_entry,
                          call);
}

void atoll_rest_file_move(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                          size_t n ATOLL_UNUSED)
{
    struct atoll_rest_file_target t;
    char in_volume[sizeof(t.in_volume)];
    struct atoll_error error;
    const char *to;
    int r;

    if (!atoll_rest_file_target(call, &t))
        return;
    r = take_path(call, "to", &to, &error);
    if (r == 0 && call->volume)
        r = atoll_volume_path(to, in_volume, sizeof(in_volume), &error);
    if (r < 0)
        atoll_api_fail(call, &error);
    else
        atoll_files_move(call->engine, call->params.id, t.user, t.path,
                         call->volume ? in_volume : to, atoll_rest_file_entry, call);
}

void atoll_rest_file_chmod(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                           size_t n ATOLL_UNUSED)
{
    struct atoll_rest_file_target t;
    struct atoll_error error;
    uint32_t mode = UINT32_MAX;
    int r;

    if (!atoll_rest_file_target(call, &t))
        return;
    r = atoll_api_query_mode(call, "mode", &mode, &error);
    if (r == 0 && mode == UINT32_MAX)
        r = atoll_fail(&error, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                       "?mode= is missing: permission bits in octal, such as 0644");
    if (r < 0)
        atoll_api_fail(call, &error);
    else
        atoll_files_chmod(call->engine, call->params.id, t.user, t.path, mode, atoll_rest_done,
                          call);
}

void atoll_rest_file_chown(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                           size_t n ATOLL_UNUSED)
{
    const char *owner = atoll_http_query(call->req, "owner");
    const char *group = atoll_http_query(call->req, "group");
    struct atoll_rest_file_target t;
    struct atoll_error error;

    if (!atoll_rest_file_target(call, &t))
        return;
    owner = owner ? owner : "";
    group = group ? group : "";
    if ((!*owner && !*group) || strlen(owner) > 64 || strlen(group) > 64) {
        (void)atoll_fail(&error, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                         "?owner= or ?group= is needed: a name or a number");
        atoll_api_fail(call, &error);
        return;
    }
    atoll_files_chown(call->engine, call->params.id, t.user, t.path, owner, group, atoll_rest_done,
                      call);
}

void atoll_rest_file_symlink(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                             size_t n ATOLL_UNUSED)
{
    struct atoll_rest_file_target t;
    struct atoll_error error;
    const char *target;

    if (!atoll_rest_file_target(call, &t))
        return;
    if (take_path(call, "target", &target, &error) < 0)
        atoll_api_fail(call, &error);
    else
        atoll_files_symlink(call->engine, call->params.id, t.user, target, t.path, atoll_rest_done,
                            call);
}

void atoll_rest_file_remove(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                            size_t n ATOLL_UNUSED)
{
    struct atoll_rest_file_target t;
    struct atoll_error error;
    bool recursive;

    if (!atoll_rest_file_target(call, &t))
        return;
    if (atoll_api_query_flag(call, "recursive", &recursive, &error) < 0)
        atoll_api_fail(call, &error);
    else
        atoll_files_remove(call->engine, call->params.id, t.user, t.path, recursive,
                           atoll_rest_done, call);
}

static void list_entry(void *arg, const struct atoll_am_entry *entry)
{
    struct atoll_list_reply *l = arg;
    struct atoll_am_entry view = shown(l->call, entry);

    atoll_view_entry(&l->out, NULL, &view);
}

void atoll_rest_file_list(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                          size_t n ATOLL_UNUSED)
{
    struct atoll_rest_file_target t;
    struct atoll_error error;
    uint64_t depth = 1;

    if (!atoll_rest_file_target(call, &t))
        return;
    if (atoll_api_query_u64(call, "depth", 1, DEPTH_MAX, &depth, &error) < 0) {
        atoll_api_fail(call, &error);
        return;
    }
    atoll_files_list(call->engine, call->params.id, t.user, t.path, (uint32_t)depth, list_entry,
                     atoll_list_reply_done, atoll_list_reply_new(call, "entries", ']'));
}
