/*
 * /volumecontent/{volumeID}/…: the files of a volume. volume_write.c has the requests that change them.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include "api/e2b/volumes.h"
#include "api/kit/file_send.h"
#include "base/text.h"

#define DEPTH_MAX 64

/* The protocol. */

void atoll_e2b_volume_fail(struct atoll_api_call *call, int status, const struct atoll_error *error)
{
    struct atoll_buf buf;
    struct atoll_json_out out;
    char code[12];

    (void)snprintf(code, sizeof(code), "%d", status);
    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '{');
    atoll_json_text(&out, "code", code);
    atoll_json_text(&out, "message", status == 500 ? "internal error of the daemon" : error->text);
    atoll_json_close(&out, '}');
    atoll_api_reply(call, status, &out);
}

/* The token is TENANT.MAC. */
static bool token_fits(const struct atoll_api_call *call, const char *shown, char tenant[65])
{
    char token[ATOLL_E2B_VOLUME_TOKEN_MAX + 1];
    const char *dot = strrchr(shown, '.');

    if (!dot || dot - shown > 64)
        return false;
    memcpy(tenant, shown, (size_t)(dot - shown));
    tenant[dot - shown] = '\0';
    atoll_e2b_volume_token(call->api, tenant, call->params.name, token);
    return atoll_text_is_name(tenant) && atoll_token_fits(dot + 1, strrchr(token, '.') + 1);
}

int atoll_e2b_volume_admit(struct atoll_api_call *call, struct atoll_error *err)
{
    const char *shown = atoll_http_header(call->req, "authorization");
    struct atoll_caller caller = {.scope = ATOLL_SCOPE_WRITE, .uid = (uid_t)-1};

    if (!shown || strncasecmp(shown, "Bearer ", 7) != 0 ||
        !token_fits(call, shown + 7, caller.tenant))
        return atoll_fail(err, ATOLL_ERR_UNAUTHENTICATED, EACCES,
                          "the token of the volume is missing or wrong");
    (void)snprintf(caller.key_id, sizeof(caller.key_id), "token of a volume");
    call->caller = caller;
    return 0;
}

/* Entering. */

static void entered(void *arg, struct atoll_volume_use *use, const struct atoll_error *error)
{
    struct atoll_e2b_volume_file *file = arg;
    struct atoll_api_call *call = file->call;

    call->volume = use;
    if (error) {
        atoll_e2b_volume_file_fail(file, error);
    } else if (!call->req) {
        free(file);
        atoll_api_drop(call);
    } else {
        (void)!atoll_text_copy(call->params.id, sizeof(call->params.id), atoll_volume_sandbox(use));
        file->next(file);
    }
}

void atoll_e2b_volume_enter(struct atoll_api_call *call, struct atoll_e2b_volume_file *file,
                            void (*next)(struct atoll_e2b_volume_file *file))
{
    const char *path = atoll_http_query(call->req, "path");
    struct atoll_error error;
    int r = 0;

    file->call = call;
    file->next = next;
    if (!path || !*path)
        r = atoll_fail(&error, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "path is missing");
    if (r == 0)
        r = atoll_volume_path(path, file->path, sizeof(file->path), &error);
    if (r < 0)
        atoll_e2b_volume_file_fail(file, &error);
    else
        atoll_volume_enter(call->engine,
                           &(struct atoll_volume_request){.tenant = call->caller.tenant,
                                                          .name = call->params.name},
                           entered, file);
}

static struct atoll_e2b_volume_file *file_new(void)
{
    return atoll_api_alloc(sizeof(struct atoll_e2b_volume_file));
}

/* Answers. */

static void view_stat(struct atoll_json_out *out, const struct atoll_am_entry *e)
{
    static const char *const types[] = {[ATOLL_ENTRY_FILE] = "file",
                                        [ATOLL_ENTRY_DIRECTORY] = "directory",
                                        [ATOLL_ENTRY_SYMLINK] = "symlink"};
    const char *path = atoll_volume_shown(e->path), *slash = strrchr(path, '/');
    const char *name = slash && slash[1] ? slash + 1 : path;
    bool known = e->type < ATOLL_ARRAY_LEN(types) && types[e->type];

    atoll_json_open(out, NULL, '{');
    atoll_json_bytes(out, "name", name, strlen(name));
    atoll_json_text(out, "type", known ? types[e->type] : "unknown");
    atoll_json_bytes(out, "path", path, strlen(path));
    atoll_json_u64(out, "size", e->size_bytes);
    atoll_json_u64(out, "mode", e->mode & 07777);
    atoll_json_u64(out, "uid", e->uid);
    atoll_json_u64(out, "gid", e->gid);
    /* The agent reports one time. */
    atoll_json_time(out, "atime", e->mtime_ms);
    atoll_json_time(out, "mtime", e->mtime_ms);
    atoll_json_time(out, "ctime", e->mtime_ms);
    if (e->type == ATOLL_ENTRY_SYMLINK)
        atoll_json_bytes(out, "target", e->target, strlen(e->target));
    atoll_json_close(out, '}');
}

/* A path that is not of the kind that a request reads counts as missing. */
void atoll_e2b_volume_file_fail(struct atoll_e2b_volume_file *file, const struct atoll_error *error)
{
    struct atoll_api_call *call = file->call;
    bool reads = call->route->method == ATOLL_GET;
    struct atoll_error shown = *error;
    bool canceled = error->kind == ATOLL_ERR_CANCELED;

    free(file); /* may hold *error */
    if (shown.errnum == EEXIST)
        shown.kind = ATOLL_ERR_ALREADY_EXISTS;
    else if (shown.errnum == ENOTDIR || shown.errnum == EISDIR)
        shown.kind = reads ? ATOLL_ERR_NOT_FOUND : ATOLL_ERR_ALREADY_EXISTS;
    if (call->req || !canceled)
        atoll_api_fail(call, &shown);
    else
        atoll_api_drop(call);
}

void atoll_e2b_volume_file_reply(struct atoll_e2b_volume_file *file, int status,
                                 const struct atoll_am_entry *entry)
{
    struct atoll_buf buf;
    struct atoll_json_out out;

    atoll_api_reply_init(&buf, &out);
    view_stat(&out, entry);
    atoll_api_reply(file->call, status, &out);
    free(file);
}

/* Stat. */

static void stat_done(void *arg, const struct atoll_am_entry *entry,
                      const struct atoll_error *error)
{
    if (error)
        atoll_e2b_volume_file_fail(arg, error);
    else
        atoll_e2b_volume_file_reply(arg, 200, entry);
}

static void stat_path(struct atoll_e2b_volume_file *f)
{
    atoll_files_stat(f->call->engine, f->call->params.id, ATOLL_E2B_VOLUME_USER, f->path, stat_done,
                     f);
}

void atoll_e2b_volume_stat(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                           size_t n ATOLL_UNUSED)
{
    atoll_e2b_volume_enter(call, file_new(), stat_path);
}

/* List. */

struct listing {
    struct atoll_e2b_volume_file file;
    uint64_t depth;
    struct atoll_buf buf;
    struct atoll_json_out out;
};

static void list_one(void *arg, const struct atoll_am_entry *entry)
{
    struct listing *l = arg;

    view_stat(&l->out, entry);
}

static void listed(void *arg, const struct atoll_error *error)
{
    struct listing *l = arg;

    if (error) {
        atoll_buf_done(&l->buf);
        atoll_e2b_volume_file_fail(&l->file, error);
        return;
    }
    atoll_json_close(&l->out, ']');
    atoll_api_reply(l->file.call, 200, &l->out);
    free(l);
}

static void list(struct atoll_e2b_volume_file *f)
{
    struct listing *l = ATOLL_CONTAINER_OF(f, struct listing, file);

    atoll_api_reply_init(&l->buf, &l->out);
    atoll_json_open(&l->out, NULL, '[');
    atoll_files_list(f->call->engine, f->call->params.id, ATOLL_E2B_VOLUME_USER, f->path,
                     (uint32_t)l->depth, list_one, listed, l);
}

void atoll_e2b_volume_dir(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                          size_t n ATOLL_UNUSED)
{
    struct listing *l = atoll_api_alloc(sizeof(*l));
    struct atoll_error error;

    l->depth = 1;
    if (atoll_api_query_u64(call, "depth", 1, DEPTH_MAX, &l->depth, &error) < 0) {
        free(l);
        atoll_api_fail(call, &error);
    } else {
        atoll_e2b_volume_enter(call, &l->file, list);
    }
}

/* Read. */

static void send_part(void *arg, const struct atoll_file_part *part)
{
    struct atoll_api_call *call = arg;

    if (call->req) {
        atoll_file_send(call, 200, "application/octet-stream", part);
    } else {
        (void)atoll_tenant_file_close(part->file);
        atoll_api_drop(call);
    }
}

static void opened(void *arg, struct atoll_tenant_file *file, uint64_t size_bytes,
                   const struct atoll_error *error)
{
    struct atoll_e2b_volume_file *f = arg;
    struct atoll_api_call *call = f->call;

    if (error) {
        atoll_e2b_volume_file_fail(f, error);
    } else {
        free(f);
        atoll_file_whole(file, size_bytes, send_part, call);
    }
}

static void read_file(struct atoll_e2b_volume_file *f)
{
    atoll_files_open(f->call->engine, f->call->params.id, ATOLL_E2B_VOLUME_USER, f->path, opened,
                     f);
}

void atoll_e2b_volume_read(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                           size_t n ATOLL_UNUSED)
{
    atoll_e2b_volume_enter(call, file_new(), read_file);
}

/* Remove. */

static void removed(void *arg, const struct atoll_error *error)
{
    struct atoll_e2b_volume_file *f = arg;
    struct atoll_api_call *call = f->call;

    if (error) {
        atoll_e2b_volume_file_fail(f, error);
    } else {
        free(f);
        atoll_api_reply_empty(call, 204);
    }
}

static void remove_file(struct atoll_e2b_volume_file *f)
{
    struct atoll_error error;

    if (strcmp(atoll_volume_shown(f->path), "/") == 0) {
        (void)atoll_fail(&error, ATOLL_ERR_NOT_FOUND, ENOENT,
                         "the top of a volume cannot be removed");
        atoll_e2b_volume_file_fail(f, &error);
        return;
    }
    atoll_files_remove(f->call->engine, f->call->params.id, ATOLL_E2B_VOLUME_USER, f->path, true,
                       removed, f);
}

void atoll_e2b_volume_delete(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                             size_t n ATOLL_UNUSED)
{
    atoll_e2b_volume_enter(call, file_new(), remove_file);
}
