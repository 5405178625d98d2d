/*
 * Implementation. A reload builds a new set of objects file by file and then replaces the old set.
 * An object without a file is dropped; an object whose file fails the check is copied from the old
 * set.
 */
#include "registry/registry.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "registry/registry_internal.h"

#define SUFFIX ".yaml"

struct item {
    char name[65];
    json_t *object; /* referenced */
};

struct problem {
    char text[ATOLL_ERROR_TEXT_MAX];
    bool kept;
};

/* The content of the registry after one reload. */
struct set {
    struct item *items[ATOLL_REGISTRY_KINDS]; /* owned, sorted by name */
    size_t counts[ATOLL_REGISTRY_KINDS];
    struct problem *problems; /* owned, ATOLL_REGISTRY_PROBLEMS_MAX of them */
    size_t problem_count;
};

struct atoll_registry {
    struct atoll_loop *loop;
    char *dir; /* owned; NULL: no directory */
    uint64_t generation;
    void (*changed)(void *arg); /* or NULL */
    void *changed_arg;
    struct set set;
    struct atoll_registry_watch watch;
};

const char *atoll_registry_kind_name(enum atoll_registry_kind kind)
{
    static const char *const names[ATOLL_REGISTRY_KINDS] = {
        [ATOLL_REGISTRY_ENVIRONMENT] = "environments",
        [ATOLL_REGISTRY_AGENT] = "agents",
        [ATOLL_REGISTRY_TOOL] = "tools",
        [ATOLL_REGISTRY_PROMPT] = "prompts",
        [ATOLL_REGISTRY_RUNTIME] = "runtimes",
        [ATOLL_REGISTRY_SETUP] = "setups",
    };
    return names[kind];
}

static void set_init(struct set *set)
{
    *set = (struct set){0};
    set->problems = calloc(ATOLL_REGISTRY_PROBLEMS_MAX, sizeof(*set->problems));
    if (!set->problems)
        abort();
    for (int kind = 0; kind < ATOLL_REGISTRY_KINDS; kind++) {
        set->items[kind] = calloc(ATOLL_REGISTRY_ITEMS_MAX, sizeof(**set->items));
        if (!set->items[kind])
            abort();
    }
}

static void set_done(struct set *set)
{
    for (int kind = 0; kind < ATOLL_REGISTRY_KINDS; kind++) {
        for (size_t i = 0; i < set->counts[kind]; i++)
            json_decref(set->items[kind][i].object);
        free(set->items[kind]);
    }
    free(set->problems);
}

static const struct item *find_item(const struct set *set, enum atoll_registry_kind kind,
                                    const char *name)
{
    for (size_t i = 0; i < set->counts[kind]; i++)
        if (strcmp(set->items[kind][i].name, name) == 0)
            return &set->items[kind][i];
    return NULL;
}

static void add_problem(struct set *set, const char *text, bool kept)
{
    struct problem *p = &set->problems[set->problem_count];

    if (set->problem_count == ATOLL_REGISTRY_PROBLEMS_MAX)
        return;
    set->problem_count++;
    (void)snprintf(p->text, sizeof(p->text), "%s", text);
    p->kept = kept;
}

static void add_item(struct set *set, enum atoll_registry_kind kind, const char *name,
                     json_t *object)
{
    struct item *item = &set->items[kind][set->counts[kind]++];

    (void)!atoll_text_copy(item->name, sizeof(item->name), name);
    item->object = object;
}

/* Reading the files. */

static int read_text(int dir_fd, const char *name, const char *shown, char *buf, size_t *ret_len,
                     struct atoll_error *err)
{
    ATOLL_AUTOCLOSE int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat st;
    size_t len = 0;
    ssize_t n = 0;

    if (fd < 0 || fstat(fd, &st) < 0)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, errno, "%s: cannot be read: %s", shown,
                          strerror(errno));
    if (!S_ISREG(st.st_mode))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "%s: not a regular file", shown);
    while (len <= ATOLL_REGISTRY_FILE_MAX &&
           (n = read(fd, buf + len, ATOLL_REGISTRY_FILE_MAX + 1 - len)) > 0)
        len += (size_t)n;
    if (n < 0)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, errno, "%s: cannot be read: %s", shown,
                          strerror(errno));
    if (len > ATOLL_REGISTRY_FILE_MAX)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EFBIG, "%s: is larger than %zu KiB",
                          shown, ATOLL_REGISTRY_FILE_MAX / 1024);
    *ret_len = len;
    return 0;
}

/* Gets the object's name from its file's name; false when the file is not a registry file. */
static bool name_of_file(const char *file, char *out, size_t cap)
{
    size_t n = strlen(file), suffix = strlen(SUFFIX);

    if (file[0] == '.' || n <= suffix || strcmp(file + n - suffix, SUFFIX) != 0)
        return false;
    (void)snprintf(out, cap, "%.*s", (int)(n - suffix), file);
    return true;
}

/* A "dockerfile" of one line is the name of a file beside the environment: its text takes its place. */
static int load_dockerfile(int dir_fd, const char *shown, json_t *object, struct atoll_error *err)
{
    static char buf[ATOLL_REGISTRY_FILE_MAX + 1]; /* loop thread only */
    const char *name = json_string_value(json_object_get(object, "dockerfile"));
    char text[400];
    size_t n = 0;

    if (!name || strchr(name, '\n'))
        return 0;
    if (!atoll_text_is_name(name))
        return atoll_fail(
            err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
            "%s:1:1: \"dockerfile\" must be the name of a file in the same folder, or "
            "the lines of a Dockerfile",
            shown);
    (void)snprintf(text, sizeof(text), "%s: dockerfile %.64s", shown, name);
    if (read_text(dir_fd, name, text, buf, &n, err) < 0)
        return -EINVAL;
    if (json_object_set_new(object, "dockerfile", json_stringn(buf, n)) < 0)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "%s: is not UTF-8", text);
    return 0;
}

static int load_file(int dir_fd, enum atoll_registry_kind kind, const char *file, const char *shown,
                     json_t **ret, struct atoll_error *err)
{
    static char buf[ATOLL_REGISTRY_FILE_MAX + 1]; /* loop thread only */
    char name[256];
    size_t n = 0;
    int r;

    (void)name_of_file(file, name, sizeof(name));
    if (!atoll_text_is_name(name))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "%s: a file's name must be a letter or digit, then up to 63 of letters, "
                          "digits, \".\", \"_\" and \"-\", then \"" SUFFIX "\"",
                          shown);
    r = read_text(dir_fd, file, shown, buf, &n, err);
    if (r == 0)
        r = atoll_yaml_load(shown, buf, n, atoll_registry_tables[kind], ret, err);
    if (r == 0 && (r = load_dockerfile(dir_fd, shown, *ret, err)) < 0) {
        json_decref(*ret);
        return r;
    }
    if (r == 0 && (r = atoll_registry_check(kind, *ret, err)) < 0) {
        json_decref(*ret);
        /* The error concerns the whole file: show its first position. */
        (void)atoll_wrap(err, "%s:1:1", shown);
    }
    if (r == 0 && kind == ATOLL_REGISTRY_AGENT)
        atoll_registry_fill_install(*ret);
    return r;
}

static void take_file(const struct set *old, struct set *set, int dir_fd,
                      enum atoll_registry_kind kind, const char *file)
{
    struct atoll_error error;
    const struct item *last;
    char shown[300], name[256];
    json_t *object;
    int r;

    (void)snprintf(shown, sizeof(shown), "%s/%.200s", atoll_registry_kind_name(kind), file);
    if (set->counts[kind] == ATOLL_REGISTRY_ITEMS_MAX) {
        (void)snprintf(error.text, sizeof(error.text), "%s: there are more than %d files", shown,
                       ATOLL_REGISTRY_ITEMS_MAX);
        add_problem(set, error.text, false);
        return;
    }
    r = load_file(dir_fd, kind, file, shown, &object, &error);
    (void)name_of_file(file, name, sizeof(name));
    if (r == 0) {
        add_item(set, kind, name, object);
        return;
    }
    last = find_item(old, kind, name);
    add_problem(set, error.text, last != NULL);
    if (last)
        add_item(set, kind, name, json_incref(last->object));
}

static int is_ours(const struct dirent *entry)
{
    char name[256];
    return name_of_file(entry->d_name, name, sizeof(name));
}

static int load_kind(const char *dir, const struct set *old, struct set *set,
                     enum atoll_registry_kind kind)
{
    char path[4200];
    struct dirent **entries;
    int n, fd;

    (void)snprintf(path, sizeof(path), "%s/%s", dir, atoll_registry_kind_name(kind));
    fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? 0 : -errno;
    n = scandirat(fd, ".", &entries, is_ours, alphasort);
    if (n < 0) {
        n = -errno;
        (void)close(fd);
        return n;
    }
    for (int i = 0; i < n; i++) {
        take_file(old, set, fd, kind, entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
    (void)close(fd);
    return 0;
}

/* Logs the problems that the previous set did not have. */
static void log_problems(const struct set *old, const struct set *set)
{
    for (size_t i = 0; i < set->problem_count; i++) {
        const struct problem *p = &set->problems[i];
        size_t j = 0;
        while (j < old->problem_count && strcmp(old->problems[j].text, p->text) != 0)
            j++;
        if (j == old->problem_count)
            atoll_log(ATOLL_LOG_ERROR, "registry file refused", "error", p->text, "in_force",
                      p->kept ? "its last good version" : "nothing", NULL);
    }
}

static bool set_equals(const struct set *a, const struct set *b)
{
    if (a->problem_count != b->problem_count)
        return false;
    for (size_t i = 0; i < a->problem_count; i++)
        if (strcmp(a->problems[i].text, b->problems[i].text) != 0)
            return false;
    for (int kind = 0; kind < ATOLL_REGISTRY_KINDS; kind++) {
        if (a->counts[kind] != b->counts[kind])
            return false;
        for (size_t i = 0; i < a->counts[kind]; i++)
            if (strcmp(a->items[kind][i].name, b->items[kind][i].name) != 0 ||
                !json_equal(a->items[kind][i].object, b->items[kind][i].object))
                return false;
    }
    return true;
}

void atoll_registry_reload(struct atoll_registry *registry)
{
    struct set set, old = registry->set;
    char text[120];
    bool changed;

    if (!registry->dir)
        return;
    set_init(&set);
    for (int kind = 0; kind < ATOLL_REGISTRY_KINDS; kind++) {
        int r = load_kind(registry->dir, &old, &set, (enum atoll_registry_kind)kind);
        if (r == 0)
            continue;
        (void)snprintf(text, sizeof(text), "%s: the folder cannot be read: %s",
                       atoll_registry_kind_name((enum atoll_registry_kind)kind), strerror(-r));
        add_problem(&set, text, false);
    }
    log_problems(&old, &set);
    changed = !set_equals(&old, &set);
    registry->generation += changed;
    registry->set = set;
    set_done(&old);
    if (changed && registry->changed)
        registry->changed(registry->changed_arg);
}

/* Opens the watch again because a folder may be new, or have been replaced by another of the same
 * name. */
static void on_change(void *arg)
{
    struct atoll_registry *registry = arg;

    (void)!atoll_registry_watch_open(&registry->watch, registry->loop, registry->dir, on_change,
                                     registry);
    atoll_registry_reload(registry);
}

int atoll_registry_open(struct atoll_loop *loop, const char *dir, struct atoll_registry **ret,
                        struct atoll_error *err)
{
    struct atoll_registry *registry = atoll_alloc(sizeof(*registry));
    struct stat st;
    int r = 0;

    registry->loop = loop;
    set_init(&registry->set);
    if (dir && *dir) {
        if (stat(dir, &st) < 0 || !S_ISDIR(st.st_mode)) {
            (void)atoll_registry_close(registry);
            return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, ENOTDIR,
                              "the registry %.300s is not a directory", dir);
        }
        registry->dir = strdup(dir);
        if (!registry->dir)
            abort();
        r = atoll_registry_watch_open(&registry->watch, loop, dir, on_change, registry);
    }
    if (r == -EMFILE) { /* the host's limit of inotify instances: other programs have them all */
        atoll_log(ATOLL_LOG_WARN, "changes of the registry are not noticed", "error", strerror(-r),
                  NULL);
        r = 0;
    }
    if (r < 0) {
        (void)atoll_registry_close(registry);
        return atoll_fail_errno(err, -r, "watch the registry");
    }
    atoll_registry_reload(registry);
    *ret = registry;
    return 0;
}

struct atoll_registry *atoll_registry_close(struct atoll_registry *registry)
{
    if (!registry)
        return NULL;
    atoll_registry_watch_close(&registry->watch);
    set_done(&registry->set);
    free(registry->dir);
    free(registry);
    return NULL;
}

/* Lookup. */

void atoll_registry_on_change(struct atoll_registry *registry, void (*fn)(void *arg), void *arg)
{
    registry->changed = fn;
    registry->changed_arg = arg;
}

uint64_t atoll_registry_generation(const struct atoll_registry *registry)
{
    return registry->generation;
}

bool atoll_registry_find(const struct atoll_registry *registry, enum atoll_registry_kind kind,
                         const char *name, struct atoll_registry_item *ret)
{
    const struct item *item = find_item(&registry->set, kind, name);

    if (item)
        *ret = (struct atoll_registry_item){item->name, item->object};
    return item != NULL;
}

bool atoll_registry_next(const struct atoll_registry *registry, enum atoll_registry_kind kind,
                         size_t *pos, struct atoll_registry_item *ret)
{
    const struct item *item = &registry->set.items[kind][*pos];

    if (*pos >= registry->set.counts[kind])
        return false;
    *ret = (struct atoll_registry_item){item->name, item->object};
    ++*pos;
    return true;
}

size_t atoll_registry_count(const struct atoll_registry *registry, enum atoll_registry_kind kind)
{
    return registry->set.counts[kind];
}

bool atoll_registry_next_problem(const struct atoll_registry *registry, size_t *pos,
                                 struct atoll_registry_problem *ret)
{
    if (*pos >= registry->set.problem_count)
        return false;
    *ret = (struct atoll_registry_problem){registry->set.problems[*pos].text,
                                           registry->set.problems[*pos].kept};
    ++*pos;
    return true;
}
