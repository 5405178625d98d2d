#include <string.h>
#include "engine/engine_internal.h"

/*
 * Files: the agent opens every path, inside the sandbox; the daemon never resolves a tenant's path.
 * This file has the requests that are answered with entries; transfers.c has those that open files.
 */

/* A request. Its end calls `entry` or `done`, whichever is set; `each` goes with done. */
struct request {
    atoll_entry_fn *entry;
    atoll_done_fn *done;
    void (*each)(void *arg, const struct atoll_am_entry *entry);
    void *arg;
};

static void conclude(struct request *q, const struct atoll_am_entry *entry,
                     const struct atoll_error *error)
{
    if (q->entry)
        q->entry(q->arg, entry, error);
    else
        q->done(q->arg, error);
    free(q);
}

static void on_answer(void *arg, const struct atoll_reply *answer)
{
    struct request *q = arg;
    struct atoll_am_entry entry;
    struct atoll_error err;
    bool has_entry = !answer->error && (answer->more ? q->each != NULL : q->entry != NULL);

    if (has_entry && atoll_msg_decode(&atoll_am_entry_desc, answer->frame->payload,
                                      answer->frame->len, &entry, &err) < 0) {
        if (!answer->more)
            conclude(q, NULL, &err);
        return;
    }
    if (!answer->more)
        conclude(q, has_entry ? &entry : NULL, answer->error);
    else if (has_entry)
        q->each(q->arg, &entry);
}

static void ask(struct atoll_engine *e, const char *id, uint16_t type,
                const struct atoll_msg_desc *desc, const void *msg, const struct request *callbacks)
{
    struct request *q = malloc(sizeof(*q));
    struct atoll_sandbox *s;
    struct atoll_error err;
    int r;

    if (!q)
        abort(); /* a small fixed object: the daemon is crash-only */
    *q = *callbacks;
    r = atoll_engine_running(e, id, &s, &err);
    if (r == 0)
        r = atoll_sandbox_ask(s, type, desc, msg, on_answer, q, &err);
    if (r < 0)
        conclude(q, NULL, &err);
}

void atoll_files_ask_entry(struct atoll_engine *e, const char *id, uint16_t type,
                           const struct atoll_msg_desc *desc, const void *msg, atoll_entry_fn *done,
                           void *arg)
{
    ask(e, id, type, desc, msg, &(struct request){.entry = done, .arg = arg});
}

void atoll_files_stat(struct atoll_engine *e, const char *id, const char *user, const char *path,
                      atoll_entry_fn *done, void *arg)
{
    struct atoll_am_path msg = {.user = user, .path = path};
    ask(e, id, ATOLL_AGENT_FILE_STAT, &atoll_am_path_desc, &msg,
        &(struct request){.entry = done, .arg = arg});
}

void atoll_files_look(struct atoll_engine *e, const char *id, const char *user, const char *path,
                      const char *attributes, atoll_entry_fn *done, void *arg)
{
    struct atoll_am_path msg = {.user = user, .path = path, .attributes = attributes};
    ask(e, id, ATOLL_AGENT_FILE_STAT, &atoll_am_path_desc, &msg,
        &(struct request){.entry = done, .arg = arg});
}

/* The next NUL-terminated text; NULL: none, or not terminated (the agent is not trusted). */
static const char *next_text(const struct atoll_bytes *bytes, size_t *pos)
{
    const char *at, *end;

    if (*pos >= bytes->len)
        return NULL;
    at = (const char *)bytes->data + *pos;
    end = memchr(at, '\0', bytes->len - *pos);
    *pos = end ? *pos + (size_t)(end + 1 - at) : bytes->len;
    return end ? at : NULL;
}

bool atoll_entry_attribute(const struct atoll_am_entry *entry, size_t *pos, const char **ret_name,
                           const char **ret_value)
{
    *ret_name = next_text(&entry->attributes, pos);
    *ret_value = next_text(&entry->attributes, pos);
    return *ret_name && *ret_value;
}

void atoll_files_mkdir(struct atoll_engine *e, const char *id, const char *user, const char *path,
                       atoll_entry_fn *done, void *arg)
{
    atoll_files_mkdir_as(e, id, user, path, 0, true, done, arg);
}

void atoll_files_mkdir_as(struct atoll_engine *e, const char *id, const char *user,
                          const char *path, uint32_t mode, bool parents, atoll_entry_fn *done,
                          void *arg)
{
    struct atoll_am_mkdir msg = {.user = user, .path = path, .mode = mode, .parents = parents};
    ask(e, id, ATOLL_AGENT_FILE_MKDIR, &atoll_am_mkdir_desc, &msg,
        &(struct request){.entry = done, .arg = arg});
}

void atoll_files_move(struct atoll_engine *e, const char *id, const char *user, const char *from,
                      const char *to, atoll_entry_fn *done, void *arg)
{
    struct atoll_am_two_paths msg = {user, from, to};
    ask(e, id, ATOLL_AGENT_FILE_RENAME, &atoll_am_two_paths_desc, &msg,
        &(struct request){.entry = done, .arg = arg});
}

void atoll_files_remove(struct atoll_engine *e, const char *id, const char *user, const char *path,
                        bool recursive, atoll_done_fn *done, void *arg)
{
    struct atoll_am_path msg = {.user = user, .path = path, .recursive = recursive};
    ask(e, id, ATOLL_AGENT_FILE_REMOVE, &atoll_am_path_desc, &msg,
        &(struct request){.done = done, .arg = arg});
}

void atoll_files_chmod(struct atoll_engine *e, const char *id, const char *user, const char *path,
                       uint32_t mode, atoll_done_fn *done, void *arg)
{
    struct atoll_am_chmod msg = {user, path, mode};
    ask(e, id, ATOLL_AGENT_FILE_CHMOD, &atoll_am_chmod_desc, &msg,
        &(struct request){.done = done, .arg = arg});
}

void atoll_files_chown(struct atoll_engine *e, const char *id, const char *user, const char *path,
                       const char *owner, const char *group, atoll_done_fn *done, void *arg)
{
    struct atoll_am_chown msg = {user, path, owner, group};
    ask(e, id, ATOLL_AGENT_FILE_CHOWN, &atoll_am_chown_desc, &msg,
        &(struct request){.done = done, .arg = arg});
}

void atoll_files_symlink(struct atoll_engine *e, const char *id, const char *user,
                         const char *target, const char *path, atoll_done_fn *done, void *arg)
{
    struct atoll_am_two_paths msg = {user, target, path};
    ask(e, id, ATOLL_AGENT_FILE_SYMLINK, &atoll_am_two_paths_desc, &msg,
        &(struct request){.done = done, .arg = arg});
}

void atoll_files_list(struct atoll_engine *e, const char *id, const char *user, const char *path,
                      uint32_t depth, void (*each)(void *arg, const struct atoll_am_entry *entry),
                      atoll_done_fn *done, void *arg)
{
    atoll_files_list_look(e, id, user, path, depth, "", each, done, arg);
}

void atoll_files_list_look(struct atoll_engine *e, const char *id, const char *user,
                           const char *path, uint32_t depth, const char *attributes,
                           void (*each)(void *arg, const struct atoll_am_entry *entry),
                           atoll_done_fn *done, void *arg)
{
    struct atoll_am_list msg = {
        .user = user, .path = path, .depth = depth, .attributes = attributes};
    ask(e, id, ATOLL_AGENT_FILE_LIST, &atoll_am_list_desc, &msg,
        &(struct request){.done = done, .each = each, .arg = arg});
}
