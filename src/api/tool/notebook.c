#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "api/kit/file_read.h"
#include "api/tool/tool_internal.h"
#include "base/memory.h"
#include "base/rand.h"
#include "engine/json_memory.h"

/*
 * Cells of Jupyter notebooks: JSON whose sources are arrays of lines.
 */
#define NOTEBOOK_MAX ((size_t)4 * 1024 * 1024)
#define CELL_ID_LEN 8

struct editing {
    struct atoll_tool_call *call;
    char path[ATOLL_TOOL_PATH_MAX];
    char *text; /* owned: the new notebook */
    char said[200];
};

static void editing_free(struct editing *e)
{
    free(e->text);
    free(e);
}

/* Lines with their ends, as notebooks have them. */
static json_t *lines_of(const char *source)
{
    json_t *lines = json_array();

    for (const char *p = source; *p;) {
        const char *newline = strchr(p, '\n');
        size_t n = newline ? (size_t)(newline + 1 - p) : strlen(p);

        (void)json_array_append_new(lines, json_stringn(p, n));
        p += n;
    }
    return lines;
}

/* Index of the cell with that id, or "cell-N"; the number of cells: no cell has that id. */
static size_t find_cell(const json_t *cells, const char *id)
{
    size_t count = json_array_size(cells);
    unsigned long long number;
    char rest;

    for (size_t i = 0; i < count; i++) {
        const char *own = json_string_value(json_object_get(json_array_get(cells, i), "id"));

        if (own && strcmp(own, id) == 0)
            return i;
    }
    if (sscanf(id, "cell-%llu%c", &number, &rest) == 1 && number < count)
        return (size_t)number;
    return count;
}

static int refuse(struct atoll_error *err, const char *what)
{
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "%s", what);
}

/* Outputs of a cell belong to its old source. */
static void set_source(json_t *cell, const char *source, const char *type)
{
    bool is_code = strcmp(type, "code") == 0;

    (void)json_object_set_new(cell, "source", lines_of(source));
    (void)json_object_set_new(cell, "cell_type", json_string(type));
    (void)json_object_del(cell, "outputs");
    (void)json_object_del(cell, "execution_count");
    if (is_code) {
        (void)json_object_set_new(cell, "outputs", json_array());
        (void)json_object_set_new(cell, "execution_count", json_null());
    }
}

static json_t *new_cell(const json_t *notebook, const char *source, const char *type)
{
    json_t *cell = json_pack("{s:s, s:{}}", "cell_type", type, "metadata");
    json_int_t minor = json_integer_value(json_object_get(notebook, "nbformat_minor"));
    char id[CELL_ID_LEN + 1];

    if (cell && json_integer_value(json_object_get(notebook, "nbformat")) >= 4 && minor >= 5) {
        atoll_rand_id(id, CELL_ID_LEN);
        (void)json_object_set_new(cell, "id", json_string(id));
    }
    if (cell)
        set_source(cell, source, type);
    return cell;
}

static const char *type_of(const json_t *cell)
{
    const char *type = json_string_value(json_object_get(cell, "cell_type"));

    return type ? type : "code";
}

static int insert(const struct atoll_tool_call *call, json_t *notebook, json_t *cells, size_t at,
                  char said[static 200], struct atoll_error *err)
{
    const char *type = atoll_tool_text(call, "cell_type");
    json_t *cell;

    if (!type)
        return refuse(err, "cell_type is missing: a new cell is code or markdown");
    cell = new_cell(notebook, atoll_tool_text(call, "new_source"), type);
    if (!cell || json_array_insert_new(cells, at, cell) < 0)
        return atoll_fail_errno(err, ENOMEM, "notebook");
    (void)snprintf(said, 200, "Inserted a %s cell at position %zu.", type, at);
    return 0;
}

int atoll_tool_notebook_edit(const struct atoll_tool_call *call, json_t *notebook,
                             char said[static 200], struct atoll_error *err)
{
    const char *mode = atoll_tool_text(call, "edit_mode"), *id = atoll_tool_text(call, "cell_id");
    const char *type = atoll_tool_text(call, "cell_type");
    json_t *cells = json_object_get(notebook, "cells"), *cell;
    size_t count = json_array_size(cells), at = id && cells ? find_cell(cells, id) : count;

    mode = mode ? mode : "replace";
    if (!json_is_array(cells))
        return refuse(err, "the file is not a Jupyter notebook: it has no cells");
    if (type && strcmp(type, "code") != 0 && strcmp(type, "markdown") != 0)
        return refuse(err, "cell_type must be code or markdown");
    if (id && at == count)
        return atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT,
                          "the notebook has no cell %.64s: read it again", id);
    if (strcmp(mode, "insert") == 0)
        return insert(call, notebook, cells, id ? at + 1 : 0, said, err);
    if (!id)
        return refuse(err, "cell_id is missing: which cell is it?");
    cell = json_array_get(cells, at);
    if (strcmp(mode, "delete") == 0) {
        (void)json_array_remove(cells, at);
        (void)snprintf(said, 200, "Deleted cell %.64s.", id);
        return 0;
    }
    if (strcmp(mode, "replace") != 0)
        return refuse(err, "edit_mode must be replace, insert or delete");
    if (!json_is_object(cell))
        return refuse(err, "the file is not a Jupyter notebook: a cell is not an object");
    set_source(cell, atoll_tool_text(call, "new_source"), type ? type : type_of(cell));
    (void)snprintf(said, 200, "Replaced cell %.64s.", id);
    return 0;
}

static void was_written(void *arg, const struct atoll_am_entry *entry,
                        const struct atoll_error *error)
{
    struct editing *e = arg;
    struct atoll_tool_call *call = e->call;
    struct atoll_buf text;

    if (error) {
        editing_free(e);
        atoll_tool_fail(call, error);
        return;
    }
    atoll_buf_init(&text, sizeof(e->said));
    (void)!atoll_buf_appends(&text, e->said);
    editing_free(e);
    atoll_tool_finish(call, &text, json_pack("{s:I}", "bytes", (json_int_t)entry->size_bytes),
                      false);
}

static void was_read(void *arg, const uint8_t *bytes, size_t n, uint32_t mode,
                     const struct atoll_error *error)
{
    struct editing *e = arg;
    struct atoll_tool_call *call = e->call;
    json_t *notebook = NULL;
    struct atoll_error err;
    int r = 0;

    if (!error) {
        notebook = n > 0 ? atoll_json_load(bytes, n, 0, NULL) : NULL;
        r = json_is_object(notebook) ? atoll_tool_notebook_edit(call, notebook, e->said, &err)
                                     : refuse(&err, "the file is not a Jupyter notebook");
        if (r == 0 && !(e->text = atoll_json_dump(notebook, JSON_INDENT(1))))
            r = atoll_fail_errno(&err, ENOMEM, "notebook");
        error = r < 0 ? &err : NULL;
    }
    json_decref(notebook);
    if (error) {
        editing_free(e);
        atoll_tool_fail(call, error);
        return;
    }
    atoll_files_put(call->engine, call->sandbox_id, NULL, e->path, mode, e->text, strlen(e->text),
                    was_written, e);
}

void atoll_tool_run_notebook(struct atoll_tool_call *call)
{
    struct editing *e = atoll_alloc(sizeof(*e));
    struct atoll_error error;

    if (atoll_tool_path(call, atoll_tool_text(call, "notebook_path"), e->path, &error) < 0) {
        free(e);
        atoll_tool_fail(call, &error);
        return;
    }
    e->call = call;
    atoll_file_read_whole(call->engine, call->sandbox_id, e->path, NOTEBOOK_MAX, was_read, e);
}
