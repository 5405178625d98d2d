/*
 * FILE_LIST: depth-first, each directory sorted by name. A job reads a directory in pieces and then
 * sends its entries a few at a time, so neither a huge directory nor a slow daemon blocks the
 * agent. Only the current directory is open: parents are opened again by path when the listing
 * returns to them, never through a symbolic link.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include "agent/agent_internal.h"

#define ENTRIES_DEFAULT 100000
#define ENTRIES_MAX 1000000
#define NAMES_BYTES_MAX (16 * 1024 * 1024)
/* Work of one step. */
#define SEND_PER_STEP 64
#define DENTS_BYTES (16 * 1024)

/* A directory between the root and the current one. */
struct level {
    struct level *up; /* owned */
    size_t path_len;  /* of its path in list.path */
    char **names;     /* owned, and each name */
    size_t count, cap, next;
    bool sorted;
};

struct list {
    struct atoll_agent_job job;
    struct atoll_agent_user user;
    int root_fd;         /* owned: the root of the listing */
    int dir_fd;          /* owned: the directory of the innermost level, or ATOLL_NO_FD */
    struct level *level; /* owned, innermost first */
    uint32_t depth, depth_max;
    uint64_t entries, entries_max;
    size_t names_bytes;
    size_t root_len;
    char path[ATOLL_AGENT_PATH_MAX];
    char attributes[ATOLL_AGENT_NAME_MAX]; /* "": not requested */
};

static struct level *level_free(struct list *l, struct level *level)
{
    struct level *up = level->up;

    for (size_t i = 0; i < level->count; i++) {
        l->names_bytes -= strlen(level->names[i]) + 1;
        free(level->names[i]);
    }
    free(level->names);
    free(level);
    return up;
}

static void list_free(struct atoll_agent_job *job)
{
    struct list *l = ATOLL_CONTAINER_OF(job, struct list, job);

    while (l->level)
        l->level = level_free(l, l->level);
    if (l->dir_fd >= 0)
        (void)close(l->dir_fd);
    if (l->root_fd >= 0)
        (void)close(l->root_fd);
    free(l);
}

static int add_name(struct list *l, struct level *level, const char *name)
{
    size_t bytes = strlen(name) + 1;

    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return 0;
    if (l->names_bytes + bytes > NAMES_BYTES_MAX || level->count >= ENTRIES_MAX)
        return -E2BIG;
    if (level->count == level->cap) {
        size_t cap = ATOLL_MAX(level->cap * 2, (size_t)32);
        char **grown = realloc(level->names, cap * sizeof(*grown));
        if (!grown)
            return -ENOMEM;
        level->names = grown;
        level->cap = cap;
    }
    level->names[level->count] = strdup(name);
    if (!level->names[level->count])
        return -ENOMEM;
    level->count++;
    l->names_bytes += bytes;
    return 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Opens the directory list.path below the root, without following links. */
static int open_dir(const struct list *l)
{
    const char *below = l->path + l->root_len;

    below += strspn(below, "/");
    return atoll_agent_path_open_below(l->root_fd, below, O_RDONLY | O_DIRECTORY | O_NONBLOCK);
}

static int push_level(struct list *l)
{
    struct level *level = calloc(1, sizeof(*level));

    if (!level)
        return -ENOMEM;
    level->up = l->level;
    level->path_len = strlen(l->path);
    l->level = level;
    l->depth++;
    return 0;
}

/* The innermost directory is done: returns to its parent. */
static void pop_level(struct list *l)
{
    l->level = level_free(l, l->level);
    l->depth--;
    if (l->dir_fd >= 0)
        (void)close(ATOLL_TAKE_FD(l->dir_fd));
    if (l->level)
        l->path[l->level->path_len] = '\0';
}

/* Reads some names. 1: more may follow, 0: all are read and sorted. */
static int read_names(struct list *l, struct level *level)
{
    char *dents = (char *)atoll_agent_scratch;
    long n = syscall(SYS_getdents64, l->dir_fd, dents, DENTS_BYTES);

    if (n < 0)
        return -errno;
    for (long at = 0; at < n;) {
        const struct atoll_agent_dent *d = (const void *)(dents + at);
        int r = add_name(l, level, d->name);
        if (r < 0)
            return r;
        at += d->reclen;
    }
    if (n > 0)
        return 1;
    if (level->count > 1)
        qsort(level->names, level->count, sizeof(*level->names), by_name);
    level->sorted = true;
    return 0;
}

/* Sends one entry and enters it if it is a directory to be listed. */
static int send_entry(struct atoll_agent *a, struct list *l, struct level *level)
{
    const char *name = level->names[level->next++];
    struct atoll_agent_entry entry;
    int n = snprintf(l->path + level->path_len, sizeof(l->path) - level->path_len, "%s%s",
                     level->path_len > 1 ? "/" : "", name);
    int r;

    if ((size_t)n >= sizeof(l->path) - level->path_len)
        return -ENAMETOOLONG;
    r = atoll_agent_entry_read(a, l->dir_fd, name, l->path, &entry);
    if (r < 0)
        goto back; /* removed meanwhile */
    if (++l->entries > l->entries_max)
        return -E2BIG;
    if (l->attributes[0])
        atoll_agent_entry_add_details(&entry, l->dir_fd, name, l->attributes);
    atoll_agent_part(a, l->job.request, &atoll_am_entry_desc, &entry.msg);
    if (entry.msg.type == ATOLL_ENTRY_DIRECTORY && l->depth < l->depth_max) {
        (void)close(ATOLL_TAKE_FD(l->dir_fd));
        return push_level(l);
    }
back:
    l->path[level->path_len] = '\0';
    return 0;
}

/* Works on the innermost directory. 1: call again, 0: the whole list is sent. */
static int advance(struct atoll_agent *a, struct list *l)
{
    struct level *level = l->level;
    int r;

    if (!level)
        return 0;
    if (level->sorted && level->next == level->count) {
        pop_level(l);
        return 1;
    }
    if (l->dir_fd < 0) {
        l->dir_fd = open_dir(l);
        if (l->dir_fd < 0) {
            /* Removed, or not readable for this user: only its own entry is listed. */
            pop_level(l);
            return 1;
        }
    }
    if (!level->sorted) {
        r = read_names(l, level);
        return r < 0 ? r : 1;
    }
    r = send_entry(a, l, level);
    return r < 0 ? r : 1;
}

static int list_step(struct atoll_agent *a, struct atoll_agent_job *job, struct atoll_error *err)
{
    struct list *l = ATOLL_CONTAINER_OF(job, struct list, job);
    int r = atoll_agent_become(a, &l->user, err);

    if (r < 0)
        return r;
    r = 1;
    for (int i = 0; i < SEND_PER_STEP && r > 0 && atoll_agent_conn_has_room(a); i++)
        r = advance(a, l);
    atoll_agent_unbecome(a);
    if (r == -E2BIG)
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, E2BIG,
                          "there are more than %llu entries: list a smaller directory or depth",
                          (unsigned long long)l->entries_max);
    return r < 0 ? atoll_agent_path_fail(err, -r, l->path) : r;
}

static int list_new(const struct atoll_agent_path *p, const struct atoll_am_list *msg,
                    uint32_t request, struct list **ret_list)
{
    struct list *l = calloc(1, sizeof(*l));
    int r;

    if (!l)
        return -ENOMEM;
    l->job = (struct atoll_agent_job){.request = request, .step = list_step, .free = list_free};
    l->user = p->user;
    l->dir_fd = ATOLL_NO_FD;
    l->depth_max = ATOLL_MAX(msg->depth, 1u);
    l->entries_max = msg->max_entries ? msg->max_entries : ENTRIES_DEFAULT;
    l->entries_max = ATOLL_MIN(l->entries_max, (uint64_t)ENTRIES_MAX);
    l->root_len = strlen(p->text);
    memcpy(l->path, p->text, l->root_len + 1);
    (void)snprintf(l->attributes, sizeof(l->attributes), "%s", msg->attributes);
    l->root_fd = atoll_agent_path_open(AT_FDCWD, p->text, O_RDONLY | O_DIRECTORY | O_NONBLOCK);
    r = l->root_fd < 0 ? l->root_fd : push_level(l);
    if (r < 0)
        list_free(&l->job);
    else
        *ret_list = l;
    return r;
}

int atoll_agent_on_file_list(struct atoll_agent *a, uint32_t request, const void *message,
                             struct atoll_error *err)
{
    const struct atoll_am_list *msg = message;
    ATOLL_AGENT_AUTO_PATH struct atoll_agent_path p;
    struct list *l;
    int r = atoll_agent_path_init(&p, a, msg->user, msg->path, err);

    if (r < 0)
        return r;
    r = list_new(&p, msg, request, &l);
    if (r < 0)
        return atoll_agent_path_fail(err, -r, p.text);
    r = atoll_agent_job_add(a, &l->job, err);
    if (r < 0) {
        list_free(&l->job);
        return r;
    }
    return ATOLL_AGENT_ANSWERED;
}
