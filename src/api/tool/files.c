#include <errno.h>
#include <string.h>
#include "api/kit/file_read.h"
#include "api/tool/tool_internal.h"
#include "base/memory.h"

/*
 * Reading, writing and editing files.
 */
#define FILE_MAX ((size_t)16 * 1024 * 1024)  /* the largest file that can be read */
#define EDITED_MAX ((size_t)4 * 1024 * 1024) /* the largest that can be edited */
#define LINES 2000
#define LINE_MAX 2000 /* bytes of a line that are shown */
#define SHOWN_MAX ((size_t)512 * 1024)
#define NEW_MODE 0644

/* An edit of a file: the new contents until they are written. */
struct editing {
    struct atoll_tool_call *call;
    struct atoll_buf text;
    size_t places;
    char path[ATOLL_TOOL_PATH_MAX];
};

/* Fails the call if the argument file_path cannot be used. */
static bool path_of(struct atoll_tool_call *call, char out[static ATOLL_TOOL_PATH_MAX])
{
    struct atoll_error error;

    if (atoll_tool_path(call, atoll_tool_text(call, "file_path"), out, &error) == 0)
        return true;
    atoll_tool_fail(call, &error);
    return false;
}

/* Reading. */

/* Appends one line with its number, as `cat -n` does. */
static int show_line(struct atoll_buf *text, uint64_t number, const char *line, size_t n)
{
    int r = atoll_buf_appendf(text, "%6llu\t", (unsigned long long)number);

    if (r == 0)
        r = atoll_buf_append(text, line, ATOLL_MIN(n, (size_t)LINE_MAX));
    if (r == 0 && n > LINE_MAX)
        r = atoll_buf_appends(text, " [cut]");
    return r < 0 ? r : atoll_buf_appends(text, "\n");
}

static void was_read(void *arg, const uint8_t *bytes, size_t n, uint32_t mode ATOLL_UNUSED,
                     const struct atoll_error *error)
{
    struct atoll_tool_call *call = arg;
    const char *p = n > 0 ? (const char *)bytes : "", *end = p + n, *next;
    uint64_t first = ATOLL_MAX(atoll_tool_whole(call, "offset", 1), UINT64_C(1));
    uint64_t limit = atoll_tool_whole(call, "limit", LINES), number = 0, shown = 0;
    struct atoll_buf text;

    if (error) {
        atoll_tool_fail(call, error);
        return;
    }
    atoll_buf_init(&text, SHOWN_MAX);
    for (; p < end; p = next) {
        const char *newline = memchr(p, '\n', (size_t)(end - p));

        next = newline ? newline + 1 : end;
        number++;
        if (number < first || shown >= limit)
            continue;
        if (show_line(&text, number, p, (size_t)((newline ? newline : end) - p)) < 0)
            break;
        shown++;
    }
    if (n == 0)
        (void)!atoll_buf_appends(&text, "[the file is empty]\n");
    atoll_tool_finish(call, &text,
                      json_pack("{s:I, s:I, s:I}", "lines", (json_int_t)number, "shown",
                                (json_int_t)shown, "bytes", (json_int_t)n),
                      false);
}

void atoll_tool_run_read(struct atoll_tool_call *call)
{
    char path[ATOLL_TOOL_PATH_MAX];

    if (path_of(call, path))
        atoll_file_read_whole(call->engine, call->sandbox_id, path, FILE_MAX, was_read, call);
}

/* Writing. */

static void was_written(void *arg, const struct atoll_am_entry *entry,
                        const struct atoll_error *error)
{
    struct atoll_tool_call *call = arg;
    struct atoll_buf text;

    if (error) {
        atoll_tool_fail(call, error);
        return;
    }
    atoll_buf_init(&text, ATOLL_TOOL_PATH_MAX + 100);
    (void)!atoll_buf_appendf(&text, "Wrote %llu bytes to ", (unsigned long long)entry->size_bytes);
    (void)!atoll_buf_appends(&text, atoll_tool_text(call, "file_path"));
    atoll_tool_finish(call, &text, json_pack("{s:I}", "bytes", (json_int_t)entry->size_bytes),
                      false);
}

void atoll_tool_run_write(struct atoll_tool_call *call)
{
    const json_t *content = json_object_get(call->args, "content");
    char path[ATOLL_TOOL_PATH_MAX];

    if (path_of(call, path))
        atoll_files_put(call->engine, call->sandbox_id, NULL, path, NEW_MODE,
                        json_string_value(content), json_string_length(content), was_written, call);
}

/* Editing. */

static void was_edited(void *arg, const struct atoll_am_entry *entry ATOLL_UNUSED,
                       const struct atoll_error *error)
{
    struct editing *e = arg;
    struct atoll_tool_call *call = e->call;
    size_t places = e->places;
    struct atoll_buf text;

    atoll_buf_done(&e->text);
    free(e);
    if (error) {
        atoll_tool_fail(call, error);
        return;
    }
    atoll_buf_init(&text, 200);
    (void)!atoll_buf_appendf(&text, "Replaced %zu place%s.", places, places == 1 ? "" : "s");
    atoll_tool_finish(call, &text, json_pack("{s:I}", "replaced", (json_int_t)places), false);
}

static int apply(struct editing *e, const json_t *one, struct atoll_error *err)
{
    const struct atoll_tool_edit edit = {
        .old_text = json_string_value(json_object_get(one, "old_string")),
        .new_text = json_string_value(json_object_get(one, "new_string")),
        .all = json_is_true(json_object_get(one, "replace_all")),
    };
    size_t places = 0;
    int r = atoll_tool_edit_apply(&e->text, &edit, &places, err);

    e->places += places;
    return r;
}

static int apply_all(struct editing *e, struct atoll_error *err)
{
    const json_t *edits = json_object_get(e->call->args, "edits");
    int r = 0;

    if (!edits)
        return apply(e, e->call->args, err);
    for (size_t i = 0; r == 0 && i < json_array_size(edits); i++) {
        r = apply(e, json_array_get(edits, i), err);
        if (r < 0)
            (void)atoll_wrap(err, "edit %zu", i + 1);
    }
    return r;
}

static void edit_text(void *arg, const uint8_t *bytes, size_t n, uint32_t mode,
                      const struct atoll_error *error)
{
    struct editing *e = arg;
    struct atoll_tool_call *call = e->call;
    struct atoll_error err;
    int r = 0;

    if (!error) {
        r = atoll_buf_append(&e->text, bytes, n);
        r = r < 0 ? atoll_fail_errno(&err, -r, "edit") : apply_all(e, &err);
        error = r < 0 ? &err : NULL;
    }
    if (error) {
        atoll_buf_done(&e->text);
        free(e);
        atoll_tool_fail(call, error);
        return;
    }
    atoll_files_put(call->engine, call->sandbox_id, NULL, e->path, mode, atoll_buf_head(&e->text),
                    atoll_buf_size(&e->text), was_edited, e);
}

void atoll_tool_run_edit(struct atoll_tool_call *call)
{
    struct editing *e = atoll_alloc(sizeof(*e));

    if (!path_of(call, e->path)) {
        free(e);
        return;
    }
    e->call = call;
    atoll_buf_init(&e->text, EDITED_MAX);
    atoll_file_read_whole(call->engine, call->sandbox_id, e->path, EDITED_MAX, edit_text, e);
}
