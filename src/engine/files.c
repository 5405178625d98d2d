#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include "base/fd.h"
#include "engine/engine_internal.h"
#include "engine/inband.h"

/*
 * Files: every path is opened by the agent, inside; what comes out is an entry or a descriptor of a
 * regular file. The daemon never follows a name a tenant made. Where descriptors do not pass,
 * contents are carried to and from a file of ours (inband.h), and callers see no difference.
 */

/* One request with one kind of answer. Exactly one of the callbacks is set. */
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

static void on_answer(void *arg, const struct atoll_answer *answer)
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

/* The agent is not trusted: a text without its end is none. */
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
    struct atoll_am_mkdir msg = {.user = user, .path = path, .parents = 1};
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

/* Opening and uploading: the answer carries a descriptor, or the contents follow. */

struct atoll_upload {
    struct atoll_engine *engine;
    char id[ATOLL_ID_LEN + 1], owner[ATOLL_SHARE_NAME_MAX]; /* INBAND: the latter */
    bool reading; /* FILE_OPEN: the handle inside is not needed once we have the descriptor */
    bool inband;  /* fd is a file of ours */
    uint32_t handle;
    int fd;                /* owned */
    uint64_t written, max; /* INBAND */
    atoll_opened_fn *opened;
    atoll_upload_fn *created;
    atoll_entry_fn *finished;
    void *arg;
};

static void upload_free(struct atoll_upload *u)
{
    if (u->inband && !u->reading)
        atoll_shares_drop(&u->engine->transfers, u->owner, 1);
    if (u->fd >= 0)
        (void)close(u->fd);
    free(u);
}

static void ignore(void *arg, const struct atoll_answer *answer)
{
    (void)arg;
    (void)answer;
}

static void close_handle(struct atoll_upload *u)
{
    struct atoll_am_handle msg = {u->handle};
    struct atoll_sandbox *s;
    struct atoll_error err;

    if (atoll_engine_running(u->engine, u->id, &s, &err) == 0)
        (void)!atoll_sandbox_ask(s, ATOLL_AGENT_FILE_CLOSE, &atoll_am_handle_desc, &msg, ignore,
                                 NULL, &err);
}

static void on_fetched(void *arg, int fd, uint64_t size_bytes, const struct atoll_error *error)
{
    struct atoll_upload *u = arg;

    close_handle(u);
    u->opened(u->arg, fd, size_bytes, error);
    upload_free(u);
}

/* No descriptor came. < 0, or 0: for an upload there is a file of ours, 1: on_fetched() goes on. */
static int go_inband(struct atoll_upload *u, uint64_t size, struct atoll_error *err)
{
    struct atoll_sandbox *s;
    int r = atoll_engine_running(u->engine, u->id, &s, err);

    if (r < 0)
        return r;
    if (u->reading) {
        u->inband = true;
        atoll_inband_fetch(s, u->handle, size, on_fetched, u);
        return 1;
    }
    r = atoll_inband_spool(s, UINT64_MAX, err);
    if (r < 0) {
        close_handle(u);
        return r;
    }
    u->fd = r;
    u->inband = true;
    u->max = atoll_inband_max(s);
    memcpy(u->owner, s->owner, sizeof(u->owner));
    atoll_shares_add(&u->engine->transfers, u->owner, 1);
    return 0;
}

/* Whatever the agent sends, we only ever read and write regular files. 1: not there yet. */
static int take_file(struct atoll_upload *u, const struct atoll_answer *answer, uint64_t *ret_size,
                     struct atoll_error *err)
{
    struct atoll_am_opened opened;
    struct stat st;
    int r = atoll_msg_decode(&atoll_am_opened_desc, answer->frame->payload, answer->frame->len,
                             &opened, err);

    if (r < 0 || answer->frame->nfds > 1)
        return r < 0 ? r : atoll_fail(err, ATOLL_ERR_INTERNAL, EBADMSG, "too many descriptors");
    u->handle = opened.handle;
    if (answer->frame->nfds == 0)
        return go_inband(u, opened.size_bytes, err);
    u->fd = ATOLL_TAKE_FD(answer->frame->fds[0]);
    if (fstat(u->fd, &st) < 0 || !S_ISREG(st.st_mode))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "not a regular file");
    *ret_size = (uint64_t)st.st_size;
    return 0;
}

static void on_file(void *arg, const struct atoll_answer *answer)
{
    struct atoll_upload *u = arg;
    const struct atoll_error *error = answer->error;
    struct atoll_error err;
    uint64_t size = 0;
    int r = error ? 0 : take_file(u, answer, &size, &err);

    if (r > 0)
        return;
    if (r < 0)
        error = &err;
    if (u->reading) {
        if (!error)
            close_handle(u);
        u->opened(u->arg, error ? ATOLL_NO_FD : ATOLL_TAKE_FD(u->fd), size, error);
        upload_free(u);
    } else if (error) {
        u->created(u->arg, NULL, ATOLL_NO_FD, error);
        upload_free(u);
    } else {
        u->created(u->arg, u, u->fd, NULL);
    }
}

static void ask_file(struct atoll_upload *u, uint16_t type, const struct atoll_msg_desc *desc,
                     const void *msg)
{
    struct atoll_answer failed = {0};
    struct atoll_sandbox *s;
    struct atoll_error err;
    int r = atoll_engine_running(u->engine, u->id, &s, &err);

    if (r == 0)
        r = atoll_sandbox_ask(s, type, desc, msg, on_file, u, &err);
    if (r < 0) {
        failed.error = &err;
        on_file(u, &failed);
    }
}

static struct atoll_upload *upload_new(struct atoll_engine *e, const char *id)
{
    struct atoll_upload *u = calloc(1, sizeof(*u));

    if (!u)
        abort(); /* a small fixed object: the daemon is crash-only */
    u->engine = e;
    u->fd = ATOLL_NO_FD;
    (void)strncpy(u->id, id, sizeof(u->id) - 1);
    return u;
}

void atoll_files_open(struct atoll_engine *e, const char *id, const char *user, const char *path,
                      atoll_opened_fn *done, void *arg)
{
    struct atoll_upload *u = upload_new(e, id);
    struct atoll_am_path msg = {.user = user, .path = path, .follow = 1};

    u->reading = true;
    u->opened = done;
    u->arg = arg;
    ask_file(u, ATOLL_AGENT_FILE_OPEN, &atoll_am_path_desc, &msg);
}

static void create(struct atoll_engine *e, const char *id, const struct atoll_am_create *msg,
                   atoll_upload_fn *done, void *arg)
{
    struct atoll_upload *u = upload_new(e, id);

    u->created = done;
    u->arg = arg;
    ask_file(u, ATOLL_AGENT_FILE_CREATE, &atoll_am_create_desc, msg);
}

void atoll_files_create(struct atoll_engine *e, const char *id, const char *user, const char *path,
                        uint32_t mode, atoll_upload_fn *done, void *arg)
{
    struct atoll_am_create msg = {.user = user, .path = path, .mode = mode, .parents = 1};
    create(e, id, &msg, done, arg);
}

void atoll_files_rewrite(struct atoll_engine *e, const char *id, const char *user, const char *path,
                         uint32_t mode, atoll_upload_fn *done, void *arg)
{
    struct atoll_am_create msg = {
        .user = user, .path = path, .mode = mode, .parents = 1, .in_place = 1};
    create(e, id, &msg, done, arg);
}

int atoll_upload_write(struct atoll_upload *u, const uint8_t *bytes, size_t n)
{
    if (u->inband && n > u->max - u->written)
        return -ENOSPC;
    u->written += n;
    return atoll_fd_write_all(u->fd, bytes, n);
}

static void commit(struct atoll_upload *u)
{
    struct atoll_am_handle msg = {u->handle};

    ask(u->engine, u->id, ATOLL_AGENT_FILE_COMMIT, &atoll_am_handle_desc, &msg,
        &(struct request){.entry = u->finished, .arg = u->arg});
    upload_free(u);
}

static void on_sent(void *arg, const struct atoll_error *error)
{
    struct atoll_upload *u = arg;

    if (!error) {
        commit(u);
        return;
    }
    close_handle(u);
    u->finished(u->arg, NULL, error);
    upload_free(u);
}

void atoll_upload_finish(struct atoll_upload *u, atoll_entry_fn *done, void *arg)
{
    u->finished = done;
    u->arg = arg;
    if (u->inband)
        atoll_inband_send(u->engine, u->id, u->owner, u->handle, ATOLL_TAKE_FD(u->fd), on_sent, u);
    else
        commit(u);
}

void atoll_upload_drop(struct atoll_upload *u)
{
    if (!u)
        return;
    close_handle(u);
    upload_free(u);
}
