#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "api/json_out.h"
#include "api/kit/file_read.h"
#include "api/tool/tool_internal.h"
#include "base/base64.h"
#include "base/memory.h"

/*
 * Whole files and directories: what MCP clients do in place of the REST API. Unlike read_file and write_file, upload_file
 * and download_file carry any bytes.
 */
#define DOWNLOAD_MAX ((size_t)8 * 1024 * 1024)
#define SHOWN_MAX ((size_t)256 * 1024)
/* As the body of a message, in which base64 stands for less than 12 MiB. */
#define UPLOAD_MAX ((size_t)16 * 1024 * 1024)
#define NEW_MODE 0644

/* Fails the call if the argument cannot be used. */
static bool path_of(struct atoll_tool_call *call, const char *name,
                    char out[static ATOLL_TOOL_PATH_MAX])
{
    struct atoll_error error;

    if (atoll_tool_path(call, atoll_tool_text(call, name), out, &error) == 0)
        return true;
    atoll_tool_fail(call, &error);
    return false;
}

static void finish_entry(struct atoll_tool_call *call, const struct atoll_am_entry *entry)
{
    static const char *const types[] = {[ATOLL_ENTRY_FILE] = "file",
                                        [ATOLL_ENTRY_DIRECTORY] = "directory",
                                        [ATOLL_ENTRY_SYMLINK] = "symlink"};
    const char *type = entry->type < ATOLL_ARRAY_LEN(types) ? types[entry->type] : NULL;
    char mode[8];

    (void)snprintf(mode, sizeof(mode), "%04o", entry->mode & 07777);
    atoll_tool_finish_data(
        call, json_pack("{s:o, s:s, s:I, s:s, s:o, s:o, s:I}", "path",
                        atoll_tool_json_bytes(entry->path, strlen(entry->path)), "type",
                        type ? type : "other", "size_bytes", (json_int_t)entry->size_bytes, "mode",
                        mode, "owner", atoll_tool_json_bytes(entry->owner, strlen(entry->owner)),
                        "group", atoll_tool_json_bytes(entry->group, strlen(entry->group)),
                        "modified_ms", (json_int_t)entry->mtime_ms));
}

static void entry_done(void *arg, const struct atoll_am_entry *entry,
                       const struct atoll_error *error)
{
    struct atoll_tool_call *call = arg;

    if (error)
        atoll_tool_fail(call, error);
    else
        finish_entry(call, entry);
}

void atoll_tool_run_file_info(struct atoll_tool_call *call)
{
    char path[ATOLL_TOOL_PATH_MAX];

    if (path_of(call, "path", path))
        atoll_files_stat(call->engine, call->sandbox_id, NULL, path, entry_done, call);
}

void atoll_tool_run_create_folder(struct atoll_tool_call *call)
{
    char path[ATOLL_TOOL_PATH_MAX];

    if (path_of(call, "path", path))
        atoll_files_mkdir(call->engine, call->sandbox_id, NULL, path, entry_done, call);
}

void atoll_tool_run_move_file(struct atoll_tool_call *call)
{
    char from[ATOLL_TOOL_PATH_MAX], to[ATOLL_TOOL_PATH_MAX];

    if (path_of(call, "source", from) && path_of(call, "destination", to))
        atoll_files_move(call->engine, call->sandbox_id, NULL, from, to, entry_done, call);
}

static void was_deleted(void *arg, const struct atoll_error *error)
{
    struct atoll_tool_call *call = arg;

    if (error)
        atoll_tool_fail(call, error);
    else
        atoll_tool_finish_data(
            call, json_pack("{s:s, s:b}", "path", atoll_tool_text(call, "path"), "deleted", 1));
}

void atoll_tool_run_delete_file(struct atoll_tool_call *call)
{
    char path[ATOLL_TOOL_PATH_MAX];

    if (path_of(call, "path", path))
        atoll_files_remove(call->engine, call->sandbox_id, NULL, path,
                           atoll_tool_flag(call, "recursive"), was_deleted, call);
}

/* Downloads. */

static void was_read(void *arg, const uint8_t *bytes, size_t n, uint32_t mode ATOLL_UNUSED,
                     const struct atoll_error *error)
{
    struct atoll_tool_call *call = arg;
    struct atoll_buf content, text;
    bool is_text;

    if (error) {
        atoll_tool_fail(call, error);
        return;
    }
    is_text = n == 0 || (atoll_json_utf8_prefix(bytes, n) == n && !memchr(bytes, 0, n));
    atoll_buf_init(&content, 2 * DOWNLOAD_MAX);
    if (is_text)
        (void)!atoll_buf_append(&content, bytes, n);
    else
        (void)!atoll_base64_encode(&content, bytes, n);
    atoll_buf_init(&text, SHOWN_MAX + 100);
    if (atoll_buf_append(&text, atoll_buf_head(&content), atoll_buf_size(&content)) < 0)
        (void)!atoll_buf_appendf(&text, "%zu bytes; the content is in the structured result", n);
    atoll_tool_finish(call, &text,
                      json_pack("{s:s, s:I, s:s, s:s%}", "path", atoll_tool_text(call, "path"),
                                "bytes", (json_int_t)n, "encoding", is_text ? "text" : "base64",
                                "content", atoll_buf_str(&content), atoll_buf_size(&content)),
                      false);
    atoll_buf_done(&content);
}

void atoll_tool_run_download_file(struct atoll_tool_call *call)
{
    char path[ATOLL_TOOL_PATH_MAX];

    if (path_of(call, "path", path))
        atoll_file_read_whole(call->engine, call->sandbox_id, path, DOWNLOAD_MAX, was_read, call);
}

/* Uploads. */

struct uploading {
    struct atoll_tool_call *call;
    struct atoll_buf bytes;
    char path[ATOLL_TOOL_PATH_MAX];
};

static void uploading_free(struct uploading *u)
{
    atoll_buf_done(&u->bytes);
    free(u);
}

static void was_written(void *arg, const struct atoll_am_entry *entry,
                        const struct atoll_error *error)
{
    struct uploading *u = arg;
    struct atoll_tool_call *call = u->call;

    uploading_free(u);
    entry_done(call, entry, error);
}

static void put(struct uploading *u)
{
    atoll_files_put(u->call->engine, u->call->sandbox_id, NULL, u->path, NEW_MODE,
                    atoll_buf_head(&u->bytes), atoll_buf_size(&u->bytes), was_written, u);
}

/* For a client that does not want to overwrite. */
static void looked(void *arg, const struct atoll_am_entry *entry ATOLL_UNUSED,
                   const struct atoll_error *error)
{
    struct uploading *u = arg;
    struct atoll_tool_call *call = u->call;

    if (error && error->kind == ATOLL_ERR_NOT_FOUND) {
        put(u);
        return;
    }
    uploading_free(u);
    if (error)
        atoll_tool_fail(call, error);
    else
        atoll_tool_refuse(call, ATOLL_ERR_ALREADY_EXISTS, "%.200s exists",
                          atoll_tool_text(call, "path"));
}

/* False: the call has ended. */
static bool decode(struct uploading *u)
{
    const char *encoding = atoll_tool_text(u->call, "encoding");
    const json_t *content = json_object_get(u->call->args, "content");
    const char *text = json_string_value(content);
    size_t n = json_string_length(content);
    bool plain = encoding && strcmp(encoding, "text") == 0;
    int r;

    if (encoding && !plain && strcmp(encoding, "base64") != 0) {
        atoll_tool_refuse(u->call, ATOLL_ERR_INVALID_ARGUMENT, "encoding must be base64 or text");
        return false;
    }
    r = plain ? atoll_buf_append(&u->bytes, text, n) : atoll_base64_decode(&u->bytes, text, n);
    if (r < 0)
        atoll_tool_refuse(u->call, ATOLL_ERR_INVALID_ARGUMENT,
                          r == -EINVAL ? "content is not base64 with padding"
                                       : "content is too long");
    return r >= 0;
}

void atoll_tool_run_upload_file(struct atoll_tool_call *call)
{
    struct uploading *u = atoll_alloc(sizeof(*u));
    const json_t *overwrite = json_object_get(call->args, "overwrite");

    u->call = call;
    atoll_buf_init(&u->bytes, UPLOAD_MAX);
    if (!path_of(call, "path", u->path) || !decode(u))
        uploading_free(u);
    else if (json_is_false(overwrite))
        atoll_files_stat(call->engine, call->sandbox_id, NULL, u->path, looked, u);
    else
        put(u);
}
