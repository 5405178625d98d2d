#include "store/templates.h"

#include <stdio.h>
#include <string.h>
#include "store/sqlite/rows.h"

#define TAG_MAX 129

#define COLUMN(name, type, member) ATOLL_COLUMN(struct atoll_store_template, name, type, member)
static const struct atoll_column template_columns[] = {
    COLUMN("owner", TEXT, owner),
    COLUMN("name", TEXT, name),
    COLUMN("shares", TEXT, shares),
    COLUMN("created_unix_ms", I64, created_unix_ms),
};
#undef COLUMN
static struct atoll_rows templates = {.table = "templates",
                                      .rest = "ORDER BY owner, name",
                                      .columns = template_columns,
                                      .count = ATOLL_ARRAY_LEN(template_columns)};

#define COLUMN(name, type, member) ATOLL_COLUMN(struct atoll_store_version, name, type, member)
static const struct atoll_column version_columns[] = {
    COLUMN("id", TEXT, id),
    COLUMN("owner", TEXT, owner),
    COLUMN("name", TEXT, name),
    COLUMN("digest", TEXT, digest),
    COLUMN("kind", I32, kind),
    COLUMN("layers", TEXT, layers),
    COLUMN("layer_base", U32, layer_base),
    COLUMN("provider", TEXT, provider),
    COLUMN("image", TEXT, image),
    COLUMN("size_bytes", I64, size_bytes),
    COLUMN("config", TEXT, config),
    COLUMN("source", TEXT, source),
    COLUMN("definition", TEXT, definition),
    COLUMN("start_cmd", TEXT, start_cmd),
    COLUMN("ready_cmd", TEXT, ready_cmd),
    COLUMN("report", TEXT, report),
    COLUMN("cpu_millis", U32, cpu_millis),
    COLUMN("memory_bytes", I64, memory_bytes),
    COLUMN("disk_bytes", I64, disk_bytes),
    COLUMN("created_unix_ms", I64, created_unix_ms),
    COLUMN("parent", TEXT, parent),
    COLUMN("sandbox", TEXT, sandbox),
};
#undef COLUMN
static struct atoll_rows versions = {.table = "template_versions",
                                     .rest = "ORDER BY created_unix_ms, id",
                                     .columns = version_columns,
                                     .count = ATOLL_ARRAY_LEN(version_columns)};

#define COLUMN(name, type, member) ATOLL_COLUMN(struct atoll_store_tag, name, type, member)
static const struct atoll_column tag_columns[] = {
    COLUMN("owner", TEXT, owner),
    COLUMN("name", TEXT, name),
    COLUMN("tag", TEXT, tag),
    COLUMN("version_id", TEXT, version_id),
};
#undef COLUMN
static struct atoll_rows tags = {.table = "template_tags",
                                 .rest = "ORDER BY owner, name, tag",
                                 .columns = tag_columns,
                                 .count = ATOLL_ARRAY_LEN(tag_columns)};

#define COLUMN(name, type, member) ATOLL_COLUMN(struct atoll_store_layer, name, type, member)
static const struct atoll_column layer_columns[] = {
    COLUMN("name", TEXT, name),
    COLUMN("diff_id", TEXT, diff_id),
    COLUMN("size_bytes", I64, size_bytes),
    COLUMN("files", I64, files),
    COLUMN("created_unix_ms", I64, created_unix_ms),
    COLUMN("implied", I64, implied),
};
#undef COLUMN
static struct atoll_rows layers = {.table = "layers",
                                   .rest = "ORDER BY name",
                                   .columns = layer_columns,
                                   .count = ATOLL_ARRAY_LEN(layer_columns)};

#define COLUMN(name, type, member) ATOLL_COLUMN(struct atoll_store_step, name, type, member)
static const struct atoll_column step_columns[] = {
    COLUMN("tenant", TEXT, tenant),
    COLUMN("key", TEXT, key),
    COLUMN("layers", TEXT, layers),
    COLUMN("config", TEXT, config),
    COLUMN("created_unix_ms", I64, created_unix_ms),
    COLUMN("used_unix_ms", I64, used_unix_ms),
};
#undef COLUMN
static struct atoll_rows steps = {.table = "build_steps",
                                  .rest = "ORDER BY used_unix_ms",
                                  .columns = step_columns,
                                  .count = ATOLL_ARRAY_LEN(step_columns)};

static int add_template(struct atoll_db *db, const struct atoll_store_template *row,
                        struct atoll_error *err)
{
    static const char sql[] = "INSERT OR IGNORE INTO templates (owner, name, shares, "
                              "created_unix_ms) VALUES (?, ?, ?, ?)";
    sqlite3_stmt *stmt;
    int r = atoll_db_prepare(db, sql, &stmt, err);

    if (r < 0)
        return r;
    atoll_db_bind_text(stmt, 1, row->owner);
    atoll_db_bind_text(stmt, 2, row->name);
    atoll_db_bind_text(stmt, 3, row->shares ? row->shares : "");
    atoll_db_bind_i64(stmt, 4, row->created_unix_ms);
    return atoll_db_run(db, stmt, err);
}

static int put_tags(struct atoll_store *store, const struct atoll_store_version *version,
                    const char *names, struct atoll_error *err)
{
    char tag[TAG_MAX];
    int r = 0;

    while (r == 0 && *names) {
        size_t n = strcspn(names, " ");

        (void)snprintf(tag, sizeof(tag), "%.*s", (int)n, names);
        if (n > 0)
            r = atoll_rows_put(
                store, &tags,
                &(struct atoll_store_tag){version->owner, version->name, tag, version->id}, err);
        names += n + (names[n] == ' ');
    }
    return r;
}

int atoll_store_put_version(struct atoll_store *store, const struct atoll_store_template *tmpl,
                            const struct atoll_store_version *version, const char *tag_names,
                            struct atoll_error *err)
{
    struct atoll_db *db = atoll_db_of(store);
    int r = atoll_db_begin(db, "version", err);

    if (r < 0)
        return r;
    r = add_template(db, tmpl, err);
    if (r == 0)
        r = atoll_rows_put(store, &versions, version, err);
    if (r == 0)
        r = put_tags(store, version, tag_names, err);
    return atoll_db_end(db, r, err);
}

int atoll_store_put_template(struct atoll_store *store, const struct atoll_store_template *row,
                             struct atoll_error *err)
{
    return atoll_rows_put(store, &templates, row, err);
}

int atoll_store_put_tag(struct atoll_store *store, const struct atoll_store_tag *row,
                        struct atoll_error *err)
{
    return atoll_rows_put(store, &tags, row, err);
}

/* Runs a statement with three parameters. */
static int run_three(struct atoll_db *db, const char *sql, const char *first, const char *second,
                     const char *third, struct atoll_error *err)
{
    sqlite3_stmt *stmt;
    int r = atoll_db_prepare(db, sql, &stmt, err);

    if (r < 0)
        return r;
    atoll_db_bind_text(stmt, 1, first);
    atoll_db_bind_text(stmt, 2, second);
    atoll_db_bind_text(stmt, 3, third);
    return atoll_db_run(db, stmt, err);
}

int atoll_store_drop_tag(struct atoll_store *store, const char *owner, const char *name,
                         const char *tag, struct atoll_error *err)
{
    return run_three(atoll_db_of(store),
                     "DELETE FROM template_tags WHERE owner = ? AND name = ? AND tag = ?", owner,
                     name, tag, err);
}

/* Runs statements with the same two parameters. */
static int run_all(struct atoll_db *db, const char *const *sql, const char *first,
                   const char *second, struct atoll_error *err)
{
    int r = 0;

    for (; r == 0 && *sql; sql++)
        r = atoll_db_run_with(db, *sql, first, second, err);
    return r;
}

int atoll_store_drop_version(struct atoll_store *store, const char *id, struct atoll_error *err)
{
    static const char *const sql[] = {
        "DELETE FROM template_tags WHERE version_id = ?",
        "DELETE FROM templates WHERE (owner, name) IN"
        " (SELECT owner, name FROM template_versions WHERE id = ?1) AND NOT EXISTS"
        " (SELECT 1 FROM template_versions AS other WHERE other.owner = templates.owner"
        "  AND other.name = templates.name AND other.id != ?1)",
        "DELETE FROM template_versions WHERE id = ?",
        NULL,
    };
    struct atoll_db *db = atoll_db_of(store);
    int r = atoll_db_begin(db, "drop_version", err);

    return r < 0 ? r : atoll_db_end(db, run_all(db, sql, id, NULL, err), err);
}

int atoll_store_drop_template(struct atoll_store *store, const char *owner, const char *name,
                              struct atoll_error *err)
{
    static const char *const sql[] = {
        "DELETE FROM template_tags WHERE owner = ? AND name = ?",
        "DELETE FROM template_versions WHERE owner = ? AND name = ?",
        "DELETE FROM templates WHERE owner = ? AND name = ?",
        NULL,
    };
    struct atoll_db *db = atoll_db_of(store);
    int r = atoll_db_begin(db, "drop_template", err);

    return r < 0 ? r : atoll_db_end(db, run_all(db, sql, owner, name, err), err);
}

int atoll_store_rename_template(struct atoll_store *store, const char *owner, const char *name,
                                const char *new_name, struct atoll_error *err)
{
    static const char drop_tags[] = "DELETE FROM template_tags WHERE owner = ? AND name = ?";
    static const char *const sql[] = {
        "UPDATE template_versions SET name = ?3 WHERE owner = ?1 AND name = ?2",
        "UPDATE templates SET name = ?3 WHERE owner = ?1 AND name = ?2",
    };
    struct atoll_db *db = atoll_db_of(store);
    int r = atoll_db_begin(db, "rename_template", err);

    if (r < 0)
        return r;
    r = atoll_db_run_with(db, drop_tags, owner, name, err);
    for (size_t i = 0; r == 0 && i < ATOLL_ARRAY_LEN(sql); i++)
        r = run_three(db, sql[i], owner, name, new_name, err);
    return atoll_db_end(db, r, err);
}

int atoll_store_put_layer(struct atoll_store *store, const struct atoll_store_layer *row,
                          struct atoll_error *err)
{
    return atoll_rows_put(store, &layers, row, err);
}

int atoll_store_drop_layer(struct atoll_store *store, const char *name, struct atoll_error *err)
{
    static const char sql[] = "DELETE FROM layers WHERE name = ?";
    return atoll_db_run_with(atoll_db_of(store), sql, name, NULL, err);
}

int atoll_store_put_step(struct atoll_store *store, const struct atoll_store_step *row,
                         struct atoll_error *err)
{
    return atoll_rows_put(store, &steps, row, err);
}

int atoll_store_drop_step(struct atoll_store *store, const char *tenant, const char *key,
                          struct atoll_error *err)
{
    static const char sql[] = "DELETE FROM build_steps WHERE tenant = ? AND key = ?";
    return atoll_db_run_with(atoll_db_of(store), sql, tenant, key, err);
}

#define EACH(what, type, rows)                                                            \
    int atoll_store_each_##what(                                                          \
        struct atoll_store *store,                                                        \
        int (*fn)(void *arg, const struct type *row, struct atoll_error *err), void *arg, \
        struct atoll_error *err)                                                          \
    {                                                                                     \
        struct type row;                                                                  \
        sqlite3_stmt *stmt = NULL;                                                        \
        int r = 0;                                                                        \
                                                                                          \
        while ((r = atoll_rows_next(store, &(rows), &stmt, r, &row, err)) > 0)            \
            r = fn(arg, &row, err);                                                       \
        return r;                                                                         \
    }

EACH(template, atoll_store_template, templates)
EACH(version, atoll_store_version, versions)
EACH(tag, atoll_store_tag, tags)
EACH(layer, atoll_store_layer, layers)
EACH(step, atoll_store_step, steps)
