#include "engine/build/cache_mounts.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "engine/build/build_internal.h"
#include "engine/json_memory.h"

#define INDEX "caches.json"
#define INDEX_MAX ((size_t)1 << 20)
#define SOON_MS 1000
#define PLACE "/.atoll/cache" /* and a number */

struct cache {
    struct atoll_list node;
    char tenant[65], name[65];
    uint64_t bytes;
    int64_t used_unix_ms;
    bool dirty; /* used since it was measured */
};

static struct atoll_cache_mounts *mounts_of(struct atoll_engine *engine)
{
    return &atoll_makes(engine)->mounts;
}

static struct cache *at(struct atoll_list *node)
{
    return ATOLL_CONTAINER_OF(node, struct cache, node);
}

static struct cache *find(struct atoll_cache_mounts *m, const char *tenant, const char *name)
{
    ATOLL_LIST_FOREACH (&m->all, node)
        if (strcmp(at(node)->name, name) == 0 && strcmp(at(node)->tenant, tenant) == 0)
            return at(node);
    return NULL;
}

static struct cache *add(struct atoll_cache_mounts *m, const char *tenant, const char *name)
{
    struct cache *c = atoll_alloc(sizeof(*c));

    (void)snprintf(c->tenant, sizeof(c->tenant), "%s", tenant);
    (void)snprintf(c->name, sizeof(c->name), "%s", name);
    c->dirty = true;
    atoll_list_push_back(&m->all, &c->node);
    m->count++;
    return c;
}

static void drop(struct atoll_cache_mounts *m, struct cache *c)
{
    atoll_list_remove(&c->node);
    m->bytes -= c->bytes;
    m->count--;
    free(c);
}

uint64_t atoll_cache_mounts_bytes(struct atoll_engine *engine)
{
    return engine->makes ? engine->makes->mounts.bytes : 0;
}

/* The index. */

static int write_index(const struct atoll_engine *engine, const char *text)
{
    const int state = engine->state_fd;
    int fd = openat(state, INDEX ".part", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    int r = fd < 0 ? -errno : atoll_fd_write_all(fd, text, strlen(text));

    if (fd >= 0 && close(fd) < 0 && r == 0)
        r = -errno;
    if (r == 0 && renameat(state, INDEX ".part", state, INDEX) < 0)
        r = -errno;
    return r;
}

/* If it fails, the next daemon measures the caches again. */
static void save(struct atoll_engine *engine)
{
    json_t *list = json_array();
    char *text;
    int r;

    ATOLL_LIST_FOREACH (&mounts_of(engine)->all, node) {
        const struct cache *c = at(node);
        if (!c->dirty)
            (void)json_array_append_new(list,
                                        json_pack("{s:s, s:s, s:I, s:I}", "tenant", c->tenant,
                                                  "name", c->name, "bytes", (json_int_t)c->bytes,
                                                  "used", (json_int_t)c->used_unix_ms));
    }
    text = atoll_json_dump(list, JSON_COMPACT);
    json_decref(list);
    r = text ? write_index(engine, text) : -ENOMEM;
    free(text);
    if (r < 0)
        atoll_log(ATOLL_LOG_WARN, "state not stored", "what", INDEX, "error", strerror(-r), NULL);
}

static void load_index(struct atoll_engine *engine)
{
    struct atoll_cache_mounts *m = mounts_of(engine);
    ATOLL_AUTOCLOSE int fd = openat(engine->state_fd, INDEX, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    char *text = fd < 0 ? NULL : malloc(INDEX_MAX);
    ssize_t n = text ? read(fd, text, INDEX_MAX) : 0;
    json_t *list = n > 0 ? atoll_json_load(text, (size_t)n, 0, NULL) : NULL, *item;
    size_t i;

    json_array_foreach(list, i, item)
    {
        const char *tenant = json_string_value(json_object_get(item, "tenant"));
        const char *name = json_string_value(json_object_get(item, "name"));
        struct cache *c;

        if (!tenant || !name || !atoll_text_is_name(tenant) || !atoll_text_is_name(name) ||
            m->count >= ATOLL_CACHE_MOUNTS_MAX || find(m, tenant, name))
            continue;
        c = add(m, tenant, name);
        c->dirty = false;
        c->bytes = (uint64_t)json_integer_value(json_object_get(item, "bytes"));
        c->used_unix_ms = json_integer_value(json_object_get(item, "used"));
        m->bytes += c->bytes;
    }
    json_decref(list);
    free(text);
}

/* Caches on the disk that are not in the index. */
static void scan_tenant(struct atoll_engine *engine, int caches, const char *tenant)
{
    struct atoll_cache_mounts *m = mounts_of(engine);
    int fd = openat(caches, tenant, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *entry;

    if (fd >= 0 && !dir)
        (void)close(fd);
    while (dir && (entry = readdir(dir)) != NULL)
        if (entry->d_name[0] != '.' && atoll_text_is_name(entry->d_name) &&
            !find(m, tenant, entry->d_name))
            (void)add(m, tenant, entry->d_name);
    if (dir)
        (void)closedir(dir);
}

static void scan(struct atoll_engine *engine)
{
    int fd = openat(engine->state_fd, "caches", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *entry;

    if (fd >= 0 && !dir)
        (void)close(fd);
    while (dir && (entry = readdir(dir)) != NULL)
        if (entry->d_name[0] != '.' && atoll_text_is_name(entry->d_name))
            scan_tenant(engine, dirfd(dir), entry->d_name);
    if (dir)
        (void)closedir(dir);
}

/* The sandboxes that measure and empty. */

static void work(void *arg);

static void work_soon(struct atoll_engine *engine, int64_t after_ms)
{
    struct atoll_cache_mounts *m = mounts_of(engine);

    if (!*m->working)
        atoll_timer_set(&m->later, engine->loop, after_ms, work, engine);
}

static void take(struct atoll_cache_mounts *m, struct atoll_make_job *job, struct cache *c)
{
    struct atoll_error err;
    const char *path = atoll_make_job_textf(job, PLACE "%zu", m->looked_count);

    if (m->looked_count == ATOLL_CACHES_MAX ||
        atoll_make_job_add_cache(job, ATOLL_CACHE_KEPT, path,
                                 atoll_make_job_textf(job, "%s", c->name), &err) < 0)
        return;
    m->looked[m->looked_count++] = &c->node;
    c->dirty = false;
}

/* A line of du: BYTES TAB PATH. */
static void on_said(void *arg, int stream, const char *line, size_t n)
{
    struct atoll_engine *engine = arg;
    struct atoll_cache_mounts *m = mounts_of(engine);
    char text[128];
    char *path;
    size_t index;
    struct cache *c;

    (void)snprintf(text, sizeof(text), "%.*s", (int)ATOLL_MIN(n, sizeof(text) - 1), line);
    path = strchr(text, '\t');
    if (m->emptying || stream != 1 || !path || strncmp(path + 1, PLACE, strlen(PLACE)) != 0)
        return;
    index = (size_t)strtoul(path + 1 + strlen(PLACE), NULL, 10);
    if (index >= m->looked_count)
        return;
    c = at(m->looked[index]);
    m->bytes -= c->bytes;
    c->bytes = strtoull(text, NULL, 10);
    m->bytes += c->bytes;
}

static void remove_empty(struct atoll_engine *engine, const struct cache *c)
{
    char path[160];

    (void)snprintf(path, sizeof(path), "caches/%s/%s", c->tenant, c->name);
    (void)unlinkat(engine->state_fd, path, AT_REMOVEDIR);
}

static void on_done(void *arg, const char *layer ATOLL_UNUSED, int code ATOLL_UNUSED,
                    const struct atoll_error *error)
{
    struct atoll_engine *engine = arg;
    struct atoll_cache_mounts *m = mounts_of(engine);

    if (error)
        atoll_log(ATOLL_LOG_WARN, "caches of builds", "what",
                  m->emptying ? "not emptied" : "not measured", "error", error->text, NULL);
    for (size_t i = 0; i < m->looked_count; i++) {
        struct cache *c = at(m->looked[i]);

        if (!m->emptying)
            continue;
        if (!error)
            remove_empty(engine, c);
        drop(m, c); /* one that could not be emptied is measured at the next start or use */
    }
    m->looked_count = 0;
    m->working[0] = '\0';
    save(engine);
    work_soon(engine, 0);
}

static void run(struct atoll_engine *engine, struct atoll_make_job *job)
{
    static const char *const env[] = {"PATH=/usr/bin:/bin", NULL};
    static const char *const du[] = {"/usr/bin/du", "-s", "-x", "-B1"};
    static const char *const find_delete[] = {"/usr/bin/find", PLACE "0", "-xdev", "-mindepth", "1",
                                              "-delete",       NULL};
    struct atoll_cache_mounts *m = mounts_of(engine);
    struct atoll_make_job_command command = {
        .what = "the program", .env = env, .user = "root", .cwd = "/", .argv = find_delete};
    const char **argv = atoll_make_job_words(job, ATOLL_ARRAY_LEN(du) + m->looked_count);
    struct atoll_error err;

    if (argv && !m->emptying) {
        memcpy(argv, du, sizeof(du));
        for (size_t i = 0; i < m->looked_count; i++)
            argv[ATOLL_ARRAY_LEN(du) + i] = job->caches[i].path;
        command.argv = argv;
    }
    (void)!atoll_make_job_add_command(job, &command, &err); /* the first one always fits */
    memcpy(job->tenant, m->working, sizeof(job->tenant));
    job->builder = ATOLL_BUILDER_UNPACK;
    job->no_result = true;
    job->shares_caches = !m->emptying;
    m->wait = (struct atoll_run_wait){.said = on_said, .done = on_done, .arg = engine};
    atoll_run_start(engine, job, &m->wait);
}

static bool is_too_much(const struct atoll_engine *engine, const struct atoll_cache_mounts *m)
{
    return m->count > 0 &&
           (m->bytes > engine->config.build_caches_max_bytes || m->count > ATOLL_CACHE_MOUNTS_MAX);
}

/* Measures caches of one tenant that were used, else empties the one that was not used for longest. */
static void work(void *arg)
{
    struct atoll_engine *engine = arg;
    struct atoll_cache_mounts *m = mounts_of(engine);
    struct atoll_make_job *job;

    if (engine->ending)
        return;
    if (engine->recovering) {
        work_soon(engine, SOON_MS);
        return;
    }
    job = atoll_make_job_new();
    m->emptying = false;
    ATOLL_LIST_FOREACH (&m->all, node) {
        struct cache *c = at(node);
        if (c->dirty && (!*m->working || strcmp(c->tenant, m->working) == 0)) {
            memcpy(m->working, c->tenant, sizeof(m->working));
            take(m, job, c);
        }
    }
    if (!*m->working && is_too_much(engine, m)) {
        m->emptying = true;
        memcpy(m->working, at(m->all.next)->tenant, sizeof(m->working));
        take(m, job, at(m->all.next));
    }
    if (*m->working)
        run(engine, job);
    else
        (void)atoll_make_job_free(job);
}

void atoll_cache_mounts_used(struct atoll_engine *engine, const struct atoll_make_job *job)
{
    struct atoll_cache_mounts *m = mounts_of(engine);
    bool any = false;

    for (size_t i = 0; i < job->cache_count && !job->no_result; i++) {
        const char *name = job->caches[i].name;
        struct cache *c;

        if (job->caches[i].kind != ATOLL_CACHE_KEPT)
            continue;
        c = find(m, job->tenant, name);
        if (!c)
            c = add(m, job->tenant, name);
        c->dirty = any = true;
        c->used_unix_ms = atoll_clock_unix_ms();
        atoll_list_remove(&c->node);
        atoll_list_push_back(&m->all, &c->node);
    }
    if (any)
        work_soon(engine, SOON_MS);
}

void atoll_cache_mounts_load(struct atoll_engine *engine)
{
    load_index(engine);
    scan(engine);
    work_soon(engine, SOON_MS);
}

void atoll_cache_mounts_done(struct atoll_cache_mounts *m)
{
    atoll_timer_cancel(&m->later);
    ATOLL_LIST_FOREACH (&m->all, node)
        free(at(node));
}
