#include "engine/engine_internal.h"

/*
 * Extended attributes of files inside. The agent refuses names without the prefix "user.".
 */

struct request {
    void (*each)(void *arg, const char *name, const uint8_t *value, size_t n); /* or NULL */
    atoll_done_fn *done;
    void *arg;
};

static void on_answer(void *arg, const struct atoll_reply *answer)
{
    struct request *q = arg;
    struct atoll_am_xattr part;
    struct atoll_error err;

    if (answer->more) {
        if (q->each && atoll_msg_decode(&atoll_am_xattr_desc, answer->frame->payload,
                                        answer->frame->len, &part, &err) == 0)
            q->each(q->arg, part.name, part.value.data, part.value.len);
        return;
    }
    q->done(q->arg, answer->error);
    free(q);
}

static void ask(struct atoll_engine *e, const char *id, uint16_t type,
                const struct atoll_am_xattr *msg, const struct request *callbacks)
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
        r = atoll_sandbox_ask(s, type, &atoll_am_xattr_desc, msg, on_answer, q, &err);
    if (r < 0) {
        q->done(q->arg, &err);
        free(q);
    }
}

void atoll_files_xattrs(struct atoll_engine *e, const char *id, const char *user, const char *path,
                        void (*each)(void *arg, const char *name, const uint8_t *value, size_t n),
                        atoll_done_fn *done, void *arg)
{
    struct atoll_am_xattr msg = {.user = user, .path = path};
    ask(e, id, ATOLL_AGENT_XATTR_LIST, &msg,
        &(struct request){.each = each, .done = done, .arg = arg});
}

void atoll_files_set_xattr(struct atoll_engine *e, const char *id, const char *user,
                           const char *path, const char *name, const uint8_t *value, size_t n,
                           atoll_done_fn *done, void *arg)
{
    struct atoll_am_xattr msg = {.user = user, .path = path, .name = name, .value = {value, n}};
    ask(e, id, ATOLL_AGENT_XATTR_SET, &msg, &(struct request){.done = done, .arg = arg});
}

void atoll_files_remove_xattr(struct atoll_engine *e, const char *id, const char *user,
                              const char *path, const char *name, atoll_done_fn *done, void *arg)
{
    struct atoll_am_xattr msg = {.user = user, .path = path, .name = name};
    ask(e, id, ATOLL_AGENT_XATTR_REMOVE, &msg, &(struct request){.done = done, .arg = arg});
}
