/*
 * The small operations on files. Relative paths begin in the working directory of the sandbox.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "api/daytona/daytona_internal.h"
#include "api/daytona/toolbox_internal.h"

#define DEPTH_MAX 64

/* SDKs choose exceptions by these codes. */
void atoll_toolbox_path_fail(struct atoll_api_call *call, const struct atoll_error *error)
{
    if (error->kind == ATOLL_ERR_NOT_FOUND)
        atoll_daytona_fail_as(call, "FILE_NOT_FOUND", error);
    else if (error->kind == ATOLL_ERR_PERMISSION_DENIED)
        atoll_daytona_fail_as(call, "FILE_ACCESS_DENIED", error);
    else if (error->errnum == ENOTDIR || error->errnum == EISDIR || error->errnum == ENOTEMPTY ||
             error->errnum == ENAMETOOLONG || error->errnum == ELOOP)
        atoll_daytona_refuse(call, 400, "INVALID_FILE_PATH", "%s", error->text);
    else
        atoll_api_fail(call, error);
}

/* Entries. */

static bool is_directory(const struct atoll_am_entry *entry)
{
    return entry->type == ATOLL_ENTRY_DIRECTORY ||
           (entry->type == ATOLL_ENTRY_SYMLINK && entry->resolved_type == ATOLL_ENTRY_DIRECTORY);
}

/* As `ls -l` shows it. Links are shown as what they point to. */
static void mode_text(const struct atoll_am_entry *entry, uint32_t mode, char out[11])
{
    static const char letters[] = "rwxrwxrwx";

    out[0] = is_directory(entry) ? 'd' : '-';
    for (int i = 0; i < 9; i++)
        out[i + 1] = mode & (0400u >> i) ? letters[i] : '-';
    out[10] = '\0';
}

static void write_entry(struct atoll_json_out *out, const struct atoll_am_entry *entry)
{
    bool is_link = entry->type == ATOLL_ENTRY_SYMLINK && *entry->resolved;
    uint32_t mode = is_link ? entry->resolved_mode : entry->mode;
    const char *slash = strrchr(entry->path, '/');
    const char *name = slash && slash[1] ? slash + 1 : entry->path;
    char text[11], octal[8];

    mode_text(entry, mode, text);
    (void)snprintf(octal, sizeof(octal), "%04o", mode & 07777);
    atoll_json_open(out, NULL, '{');
    atoll_json_bytes(out, "name", name, strlen(name));
    atoll_json_bytes(out, "path", entry->path, strlen(entry->path));
    atoll_json_u64(out, "size", entry->size_bytes);
    atoll_json_text(out, "mode", text);
    atoll_json_time(out, "modTime", entry->mtime_ms);
    atoll_json_time(out, "modifiedAt", entry->mtime_ms);
    atoll_json_bool(out, "isDir", is_directory(entry));
    atoll_json_text(out, "owner", entry->owner);
    atoll_json_text(out, "group", entry->group);
    atoll_json_text(out, "permissions", octal);
    atoll_json_close(out, '}');
}

/* Answers a call whose response has no body. */
static void done(void *arg, const struct atoll_error *error)
{
    if (error)
        atoll_toolbox_path_fail(arg, error);
    else
        atoll_api_reply_empty(arg, 200);
}

/* Info. */

static void looked(void *arg, const struct atoll_am_entry *entry, const struct atoll_error *error)
{
    struct atoll_buf buf;
    struct atoll_json_out out;

    if (error) {
        atoll_toolbox_path_fail(arg, error);
        return;
    }
    atoll_api_reply_init(&buf, &out);
    write_entry(&out, entry);
    atoll_api_reply(arg, 200, &out);
}

void atoll_daytona_file_info(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                             size_t n ATOLL_UNUSED)
{
    const char *path = atoll_toolbox_query(call, "path");

    if (path)
        atoll_files_look(call->engine, call->params.id, NULL, path, ATOLL_TOOLBOX_ATTRIBUTES,
                         looked, call);
}

/* List. */

struct listing {
    struct atoll_api_call *call;
    struct atoll_buf buf;
    struct atoll_json_out out;
};

static void listed_entry(void *arg, const struct atoll_am_entry *entry)
{
    struct listing *l = arg;

    write_entry(&l->out, entry);
}

static void listed(void *arg, const struct atoll_error *error)
{
    struct listing *l = arg;

    atoll_json_close(&l->out, ']');
    if (error) {
        atoll_buf_done(&l->buf);
        atoll_toolbox_path_fail(l->call, error);
    } else {
        atoll_api_reply(l->call, 200, &l->out);
    }
    free(l);
}

void atoll_daytona_file_list(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                             size_t n ATOLL_UNUSED)
{
    const char *path = atoll_http_query(call->req, "path");
    struct atoll_error error;
    uint64_t depth = 1;
    struct listing *l;

    if (atoll_api_query_u64(call, "depth", 1, DEPTH_MAX, &depth, &error) < 0) {
        atoll_api_fail(call, &error);
        return;
    }
    if (path && strlen(path) > ATOLL_TOOLBOX_PATH_MAX) {
        atoll_daytona_refuse(call, 400, "INVALID_FILE_PATH", "the path is too long");
        return;
    }
    l = atoll_api_alloc(sizeof(*l));
    l->call = call;
    atoll_api_reply_init(&l->buf, &l->out);
    atoll_json_open(&l->out, NULL, '[');
    atoll_files_list_look(call->engine, call->params.id, NULL, path && *path ? path : ".",
                          (uint32_t)depth, ATOLL_TOOLBOX_ATTRIBUTES, listed_entry, listed, l);
}

/* Folders: a mode is set after the directory was made. */

struct change {
    struct atoll_api_call *call;
    char *path, *owner, *group;    /* owned; owner and group "": unchanged */
    char *home_owner, *home_group; /* owned, or NULL */
    bool has_mode;
    uint32_t mode;
    int status;
};

static void change_end(struct change *c, const struct atoll_error *error)
{
    struct atoll_api_call *call = c->call;
    int status = c->status;

    free(c->path);
    free(c->owner);
    free(c->group);
    free(c->home_owner);
    free(c->home_group);
    free(c);
    if (error)
        atoll_toolbox_path_fail(call, error);
    else
        atoll_api_reply_empty(call, status);
}

static void changed_mode(void *arg, const struct atoll_error *error)
{
    change_end(arg, error);
}

static void change_mode(struct change *c)
{
    if (c->has_mode)
        atoll_files_chmod(c->call->engine, c->call->params.id, NULL, c->path, c->mode, changed_mode,
                          c);
    else
        change_end(c, NULL);
}

static char *copy(const char *text)
{
    char *result = strdup(text ? text : "");

    if (!result)
        abort();
    return result;
}

/* NULL: the call has been refused. */
static struct change *change_new(struct atoll_api_call *call, int status)
{
    const char *mode = atoll_http_query(call->req, "mode");
    const char *path = atoll_toolbox_query(call, "path"); /* the last: it may end the call */
    uint32_t bits = 0;
    struct change *c;

    if (!path)
        return NULL;
    if (mode && *mode && atoll_api_parse_mode(mode, &bits) < 0) {
        atoll_daytona_refuse(call, 400, NULL, "mode must be octal, such as 0755 (got %.20s)", mode);
        return NULL;
    }
    c = atoll_api_alloc(sizeof(*c));
    *c = (struct change){.call = call, .status = status, .mode = bits};
    c->has_mode = mode && *mode;
    c->path = copy(path);
    c->owner = copy(atoll_http_query(call->req, "owner"));
    c->group = copy(atoll_http_query(call->req, "group"));
    return c;
}

static void made(void *arg, const struct atoll_am_entry *entry ATOLL_UNUSED,
                 const struct atoll_error *error)
{
    if (error)
        change_end(arg, error);
    else
        change_mode(arg);
}

void atoll_daytona_folder_create(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                                 size_t n ATOLL_UNUSED)
{
    struct change *c = change_new(call, 201);

    if (c)
        atoll_files_mkdir(call->engine, call->params.id, NULL, c->path, made, c);
}

/* Permissions. */

static void chown_as(struct change *c, atoll_done_fn *then)
{
    atoll_files_chown(c->call->engine, c->call->params.id, ATOLL_TOOLBOX_ROOT, c->path, c->owner,
                      c->group, then, c);
}

static void chowned(void *arg, const struct atoll_error *error)
{
    if (error)
        change_end(arg, error);
    else
        change_mode(arg);
}

static bool is_daytona(const char *name)
{
    return strcmp(name, ATOLL_DAYTONA_USER) == 0;
}

static char *translate(char *name, const char *user)
{
    if (!is_daytona(name))
        return name;
    free(name);
    return copy(user);
}

static void chown_as_home(struct change *c)
{
    c->owner = translate(c->owner, c->home_owner);
    c->group = translate(c->group, c->home_group);
    chown_as(c, chowned);
}

static void chowned_first(void *arg, const struct atoll_error *error)
{
    struct change *c = arg;

    if (error && error->kind == ATOLL_ERR_INVALID_ARGUMENT)
        chown_as_home(c);
    else
        chowned(c, error);
}

/* Clients of Daytona mean the user who runs commands. It has another name where our own default user runs
 * them, and in images that have no user of this name. */
static void looked_at_home(void *arg, const struct atoll_am_entry *entry,
                           const struct atoll_error *error)
{
    struct change *c = arg;

    if (error) {
        change_end(c, error);
        return;
    }
    c->home_owner = copy(entry->owner);
    c->home_group = copy(entry->group);
    if (strcmp(entry->owner, ATOLL_DAYTONA_OTHER_USER) == 0)
        chown_as_home(c);
    else
        chown_as(c, chowned_first);
}

/* Relative paths of root begin in another directory. */
static void looked_before(void *arg, const struct atoll_am_entry *entry,
                          const struct atoll_error *error)
{
    struct change *c = arg;

    if (error) {
        change_end(c, error);
        return;
    }
    free(c->path);
    c->path = copy(entry->path);
    if (is_daytona(c->owner) || is_daytona(c->group))
        atoll_files_stat(c->call->engine, c->call->params.id, NULL, ".", looked_at_home, c);
    else
        chown_as(c, chowned);
}

void atoll_daytona_file_permissions(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                                    size_t n ATOLL_UNUSED)
{
    struct change *c = change_new(call, 200);

    if (!c)
        return;
    if (*c->owner || *c->group)
        atoll_files_stat(call->engine, call->params.id, NULL, c->path, looked_before, c);
    else
        change_mode(c);
}

/* Delete. */

static void removed(void *arg, const struct atoll_error *error)
{
    if (error)
        atoll_toolbox_path_fail(arg, error);
    else
        atoll_api_reply_empty(arg, 204);
}

static void looked_for_removal(void *arg, const struct atoll_am_entry *entry,
                               const struct atoll_error *error)
{
    struct atoll_api_call *call = arg;

    if (error)
        atoll_toolbox_path_fail(call, error);
    else if (entry->type == ATOLL_ENTRY_DIRECTORY)
        atoll_daytona_refuse(call, 400, NULL, "cannot delete directory without recursive flag");
    else
        atoll_files_remove(call->engine, call->params.id, NULL, entry->path, false, removed, call);
}

void atoll_daytona_file_delete(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                               size_t n ATOLL_UNUSED)
{
    const char *path = atoll_toolbox_query(call, "path");
    struct atoll_error error;
    bool recursive = false;

    if (!path)
        return;
    if (atoll_api_query_flag(call, "recursive", &recursive, &error) < 0)
        atoll_api_fail(call, &error);
    else if (recursive)
        atoll_files_remove(call->engine, call->params.id, NULL, path, true, removed, call);
    else
        atoll_files_stat(call->engine, call->params.id, NULL, path, looked_for_removal, call);
}

/* Move: does not replace. */

static void moved(void *arg, const struct atoll_am_entry *entry ATOLL_UNUSED,
                  const struct atoll_error *error)
{
    done(arg, error);
}

static void looked_at_target(void *arg, const struct atoll_am_entry *entry,
                             const struct atoll_error *error)
{
    struct atoll_api_call *call = arg;

    if (!call->req)
        atoll_api_drop(call);
    else if (!error)
        atoll_daytona_refuse(call, 409, NULL, "destination already exists: %.300s", entry->path);
    else if (error->kind != ATOLL_ERR_NOT_FOUND)
        atoll_toolbox_path_fail(call, error);
    else
        atoll_files_move(call->engine, call->params.id, NULL, atoll_http_query(call->req, "source"),
                         atoll_http_query(call->req, "destination"), moved, call);
}

void atoll_daytona_file_move(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                             size_t n ATOLL_UNUSED)
{
    const char *source = atoll_toolbox_query(call, "source");
    const char *destination = source ? atoll_toolbox_query(call, "destination") : NULL;

    if (destination)
        atoll_files_stat(call->engine, call->params.id, NULL, destination, looked_at_target, call);
}
