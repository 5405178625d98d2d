#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/switches.h"
#include "base/text.h"
#include "engine/engine_internal.h"
#include "engine/json_memory.h"
#include "store/templates.h"

/*
 * Loads the templates at start. Earlier versions of Atoll kept each template as a file
 * templates/NAME.json or templates/TENANT@NAME.json; these become rows, once.
 */

#define RECORD_MAX_BYTES 4096
#define FILE_AGE_S (7 * 24 * 3600) /* files of builds that did not become versions */

/* Records of earlier versions. */

/* "NAME.json" or "OWNER@NAME.json". */
static bool split_file(const char *file, char owner[65], char name[65])
{
    const char *at = strchr(file, '@');
    const char *rest = at ? at + 1 : file;
    size_t len = strlen(rest), n = at ? (size_t)(at - file) : 0;

    if (len <= 5 || len - 5 > 64 || n > 64 || strcmp(rest + len - 5, ".json") != 0)
        return false;
    memcpy(owner, file, n);
    owner[n] = '\0';
    memcpy(name, rest, len - 5);
    name[len - 5] = '\0';
    return atoll_text_is_name(name) && (!at || atoll_text_is_name(owner));
}

/* The same id for the same record, in case this is interrupted and done again. */
static void make_id(const char *file, const char *digest, char out[ATOLL_VERSION_ID_LEN + 1])
{
    static const size_t dashes[] = {8, 13, 18, 23};
    uint8_t hash[SHA256_DIGEST_LENGTH];
    char text[400];
    size_t at = 0;

    (void)snprintf(text, sizeof(text), "%s %s", file, digest);
    (void)SHA256((const uint8_t *)text, strlen(text), hash);
    for (size_t i = 0; at < ATOLL_VERSION_ID_LEN; i++) {
        at += (size_t)snprintf(out + at, 3, "%02x", hash[i]);
        for (size_t k = 0; k < ATOLL_ARRAY_LEN(dashes); k++)
            if (at == dashes[k])
                out[at++] = '-';
    }
    out[at] = '\0';
}

static int store_record(struct atoll_engine *engine, const char *file, json_t *root,
                        struct atoll_error *err)
{
    json_int_t base = 0, size, created;
    const char *digest, *provider = "", *image = "";
    char owner[65], name[65], id[ATOLL_VERSION_ID_LEN + 1];
    struct atoll_store_version row;
    int r = 0;

    if (!split_file(file, owner, name) ||
        json_unpack(root, "{s:s, s?I, s:I, s:I, s?s, s?s}", "digest", &digest, "layer_base", &base,
                    "size_bytes", &size, "created_unix_ms", &created, "provider", &provider,
                    "image", &image) < 0 ||
        (!*image && !atoll_text_is_name(digest)) || strlen(digest) > 71)
        return atoll_fail(err, ATOLL_ERR_DATA_LOSS, EBADMSG, "template record is malformed");
    make_id(file, digest, id);
    row = (struct atoll_store_version){
        .id = id,
        .owner = owner,
        .name = name,
        .digest = digest,
        .kind = *image ? ATOLL_TEMPLATE_IMAGE : ATOLL_TEMPLATE_ROOTFS,
        .layers = *image ? "" : digest,
        .layer_base = (uint32_t)base,
        .provider = provider,
        .image = image,
        .size_bytes = (uint64_t)size,
        .source = *image ? (*owner ? "snapshot" : "dockerfile") : "import",
        .created_unix_ms = created,
    };
    if (!*image)
        r = atoll_store_put_layer(engine->config.store,
                                  &(struct atoll_store_layer){.name = digest,
                                                              .diff_id = "",
                                                              .size_bytes = (uint64_t)size,
                                                              .created_unix_ms = created},
                                  err);
    return r < 0 ? r
                 : atoll_store_put_version(engine->config.store,
                                           &(struct atoll_store_template){owner, name, "", created},
                                           &row, "latest", err);
}

/* A malformed record is logged and left alone: it may be from a newer version. */
static int migrate_one(struct atoll_engine *engine, int dir, const char *file,
                       struct atoll_error *err)
{
    char text[RECORD_MAX_BYTES];
    json_t *root;
    int r;

    if (atoll_fd_read_file(dir, file, text, sizeof(text)) < 0)
        return 0;
    root = atoll_json_load_own(text);
    r = store_record(engine, file, root, err);
    json_decref(root);
    if (r < 0 && err->kind == ATOLL_ERR_DATA_LOSS) {
        atoll_log(ATOLL_LOG_WARN, err->text, "file", file, NULL);
        return 0;
    }
    if (r < 0)
        return r;
    atoll_fault_die("templates.migrate");
    if (unlinkat(dir, file, 0) < 0)
        return atoll_fail_errno(err, errno, "remove the record of a template");
    return 0;
}

static bool ends_with(const char *name, const char *end)
{
    size_t n = strlen(name), m = strlen(end);
    return n > m && strcmp(name + n - m, end) == 0;
}

static int migrate(struct atoll_engine *engine, struct atoll_error *err)
{
    int fd = openat(engine->state_fd, "templates", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *entry;
    int r = 0;

    if (fd < 0)
        return errno == ENOENT ? 0 : atoll_fail_errno(err, errno, "open templates");
    if (!dir) {
        (void)close(fd);
        return atoll_fail_errno(err, ENOMEM, "open templates");
    }
    while (r == 0 && (entry = readdir(dir)) != NULL)
        if (ends_with(entry->d_name, ".new")) /* a daemon died while it wrote this file */
            (void)unlinkat(dirfd(dir), entry->d_name, 0);
        else if (ends_with(entry->d_name, ".json"))
            r = migrate_one(engine, dirfd(dir), entry->d_name, err);
    (void)closedir(dir);
    if (r == 0)
        (void)unlinkat(engine->state_fd, "templates", AT_REMOVEDIR); /* unless a record is left */
    return r;
}

/* Rows. */

static int bad_row(struct atoll_error *err, const char *id)
{
    return atoll_fail(err, ATOLL_ERR_DATA_LOSS, EBADMSG, "stored version %.40s is malformed", id);
}

static char *copy(const char *text)
{
    char *out = strdup(text);

    if (!out)
        abort();
    return out;
}

static int load_version(void *arg, const struct atoll_store_version *row, struct atoll_error *err)
{
    struct atoll_engine *engine = arg;
    struct atoll_version *v;
    struct atoll_template *t;

    if (strlen(row->owner) > 64 || strlen(row->name) > ATOLL_TEMPLATE_NAME_MAX || !*row->name)
        return bad_row(err, row->id);
    v = atoll_alloc(sizeof(*v));
    if (atoll_text_copy(v->id, sizeof(v->id), row->id) < 0 ||
        atoll_text_copy(v->digest, sizeof(v->digest), row->digest) < 0 ||
        atoll_text_copy(v->provider, sizeof(v->provider), row->provider) < 0 ||
        atoll_text_copy(v->image, sizeof(v->image), row->image) < 0 ||
        atoll_text_copy(v->parent, sizeof(v->parent), row->parent) < 0 ||
        atoll_text_copy(v->sandbox_id, sizeof(v->sandbox_id), row->sandbox) < 0 ||
        atoll_layers_hold(engine, row->layers, err) < 0) {
        free(v);
        return bad_row(err, row->id);
    }
    v->kind = row->kind == ATOLL_TEMPLATE_IMAGE ? ATOLL_TEMPLATE_IMAGE : ATOLL_TEMPLATE_ROOTFS;
    v->layers = copy(row->layers);
    v->layer_base = row->layer_base;
    v->size_bytes = row->size_bytes;
    v->config = copy(row->config);
    v->source = copy(row->source);
    v->definition = copy(row->definition);
    v->start_cmd = copy(row->start_cmd);
    v->ready_cmd = copy(row->ready_cmd);
    v->report = copy(row->report);
    v->cpu_millis = row->cpu_millis;
    v->memory_bytes = row->memory_bytes;
    v->disk_bytes = row->disk_bytes;
    v->created_unix_ms = row->created_unix_ms;
    t = atoll_template_make(engine, row->owner, row->name);
    atoll_version_link(engine, t, v);
    return 0;
}

static int load_template(void *arg, const struct atoll_store_template *row,
                         struct atoll_error *err ATOLL_UNUSED)
{
    struct atoll_template *t = atoll_template_get(arg, row->owner, row->name);

    if (!t)
        return 0;
    free(t->shares);
    t->shares = copy(row->shares);
    t->created_unix_ms = row->created_unix_ms;
    return 0;
}

static int load_tag(void *arg, const struct atoll_store_tag *row,
                    struct atoll_error *err ATOLL_UNUSED)
{
    struct atoll_engine *engine = arg;
    struct atoll_version *v = atoll_map_get(&engine->template_tables.versions, row->version_id);

    if (v && atoll_tag_is_name(row->tag) && strcmp(v->tmpl->owner, row->owner) == 0 &&
        strcmp(v->tmpl->name, row->name) == 0)
        atoll_tag_set(engine, v, row->tag);
    return 0;
}

static void add_host(struct atoll_engine *engine)
{
    struct atoll_version *v = atoll_alloc(sizeof(*v));

    v->kind = ATOLL_TEMPLATE_HOST;
    v->layers = copy("");
    v->config = copy("");
    v->source = copy("host");
    v->definition = copy("");
    v->start_cmd = copy("");
    v->ready_cmd = copy("");
    v->report = copy("");
    v->created_unix_ms = atoll_clock_unix_ms();
    (void)snprintf(v->id, sizeof(v->id), "host");
    atoll_version_link(engine, atoll_template_make(engine, "", "host"), v);
    engine->template_tables.host = v;
}

/* Logs of builds that failed, or that no daemon continued. */
static int sweep_files(struct atoll_engine *engine, struct atoll_error *err)
{
    int64_t now_s = atoll_clock_unix_ms() / 1000;
    char id[ATOLL_VERSION_ID_LEN + 1];
    struct dirent *entry;
    struct stat st;
    DIR *dir;
    int fd;

    if (mkdirat(engine->state_fd, "versions", 0700) < 0 && errno != EEXIST)
        return atoll_fail_errno(err, errno, "make versions");
    fd = openat(engine->state_fd, "versions", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir)
        return atoll_fail_errno(err, errno, "open versions");
    while ((entry = readdir(dir)) != NULL) {
        (void)snprintf(id, sizeof(id), "%.*s", ATOLL_VERSION_ID_LEN, entry->d_name);
        if (entry->d_name[0] != '.' && !atoll_map_get(&engine->template_tables.versions, id) &&
            fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
            now_s - st.st_mtime > FILE_AGE_S)
            (void)unlinkat(dirfd(dir), entry->d_name, 0);
    }
    (void)closedir(dir);
    return 0;
}

int atoll_templates_load(struct atoll_engine *engine, struct atoll_error *err)
{
    struct atoll_store *store = engine->config.store;
    int r = migrate(engine, err);

    add_host(engine);
    if (r == 0)
        r = atoll_layers_load(engine, err);
    if (r == 0)
        r = atoll_store_each_version(store, load_version, engine, err);
    if (r == 0)
        r = atoll_store_each_template(store, load_template, engine, err);
    if (r == 0)
        r = atoll_store_each_tag(store, load_tag, engine, err);
    if (r == 0)
        r = atoll_step_cache_load(engine, err);
    return r == 0 ? sweep_files(engine, err) : r;
}

void atoll_templates_init(struct atoll_engine *engine)
{
    struct atoll_template_tables *t = &engine->template_tables;

    atoll_map_init(&t->templates);
    atoll_list_init(&t->removals);
    atoll_map_init(&t->versions);
    atoll_map_init(&t->layers.map);
    atoll_map_init(&t->steps.map);
    atoll_list_init(&t->steps.used);
}

void atoll_templates_done(struct atoll_engine *engine)
{
    struct atoll_template *t;
    size_t pos = 0;

    atoll_timer_cancel(&engine->template_tables.collector);
    atoll_versions_done(engine);
    while ((t = atoll_map_next(&engine->template_tables.templates, &pos)) != NULL) {
        ATOLL_LIST_FOREACH (&t->tags, node)
            free(ATOLL_CONTAINER_OF(node, struct atoll_tag, node));
        ATOLL_LIST_FOREACH (&t->versions, node)
            (void)atoll_version_free(ATOLL_CONTAINER_OF(node, struct atoll_version, node));
        free(t->shares);
        free(t);
    }
    atoll_map_done(&engine->template_tables.templates);
    atoll_map_done(&engine->template_tables.versions);
    atoll_step_cache_done(engine);
    atoll_layers_done(engine);
}
