#include "session/sessions.h"

#include <errno.h>
#include <string.h>
#include "base/log.h"
#include "base/text.h"
#include "session/sessions_internal.h"
#include "store/sessions.h"

void *atoll_session_alloc(size_t n)
{
    void *p = calloc(1, n);

    if (!p)
        abort(); /* small fixed objects: the daemon is crash-only */
    return p;
}

/* The store and the list of sessions. */

static bool is_alive(const struct atoll_sessions *sessions, const struct atoll_session *session)
{
    return atoll_engine_find(sessions->engine, session->sandbox_id) != NULL;
}

/* If the row cannot be dropped, the next start of the daemon drops it. */
void atoll_session_free(struct atoll_session *session)
{
    if (session)
        free(session->agent_config);
    free(session);
}

static void forget(struct atoll_sessions *sessions, struct atoll_session *session)
{
    struct atoll_error error;

    if (sessions->store && atoll_store_drop_session(sessions->store, session->id, &error) < 0)
        atoll_log(ATOLL_LOG_ERROR, "session not dropped from the store", "session", session->id,
                  "error", error.text, NULL);
    (void)atoll_map_remove(&sessions->by_id, session->id);
    atoll_session_free(session);
}

/* Removes sessions whose sandbox is gone. Sandboxes do not report their end to this module. */
static void sweep(struct atoll_sessions *sessions)
{
    struct atoll_session *session;
    size_t pos = 0;

    while ((session = atoll_map_next(&sessions->by_id, &pos)))
        if (!is_alive(sessions, session))
            forget(sessions, session);
}

int atoll_sessions_store(struct atoll_sessions *sessions, const struct atoll_session *session,
                         struct atoll_error *err)
{
    const struct atoll_store_session row = {
        .id = session->id,
        .sandbox_id = session->sandbox_id,
        .environment = session->environment,
        .owner = session->owner,
        .start_exec = session->start_exec,
        .created_unix_ms = session->created_unix_ms,
        .agent_config = session->agent_config,
    };

    return sessions->store ? atoll_store_put_session(sessions->store, &row, err) : 0;
}

int atoll_sessions_add(struct atoll_sessions *sessions, struct atoll_session *session,
                       struct atoll_error *err)
{
    int r;

    /* After this, the number of sessions is bounded by the number of sandboxes. */
    sweep(sessions);
    r = atoll_map_put(&sessions->by_id, session->id, session);
    if (r < 0) {
        atoll_session_free(session);
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, -r, "out of memory for a session");
    }
    r = atoll_sessions_store(sessions, session, err);
    if (r < 0)
        atoll_session_free(atoll_map_remove(&sessions->by_id, session->id));
    return r;
}

static int load_row(void *arg, const struct atoll_store_session *row, struct atoll_error *err)
{
    struct atoll_sessions *sessions = arg;
    struct atoll_session *s = atoll_session_alloc(sizeof(*s));

    if (atoll_text_copy(s->id, sizeof(s->id), row->id) < 0 ||
        atoll_text_copy(s->sandbox_id, sizeof(s->sandbox_id), row->sandbox_id) < 0 ||
        atoll_text_copy(s->environment, sizeof(s->environment), row->environment) < 0 ||
        atoll_text_copy(s->owner, sizeof(s->owner), row->owner) < 0 ||
        atoll_text_copy(s->start_exec, sizeof(s->start_exec), row->start_exec) < 0) {
        atoll_session_free(s);
        return atoll_fail_errno(err, EBADMSG, "a session in the store");
    }
    s->created_unix_ms = row->created_unix_ms;
    s->agent_config = row->agent_config ? strdup(row->agent_config) : NULL;
    if ((row->agent_config && !s->agent_config) || atoll_map_put(&sessions->by_id, s->id, s) < 0) {
        atoll_session_free(s);
        return atoll_fail_errno(err, ENOMEM, "sessions");
    }
    return 0;
}

int atoll_sessions_new(struct atoll_engine *engine, struct atoll_registry *registry,
                       struct atoll_store *store, struct atoll_sessions **ret,
                       struct atoll_error *err)
{
    struct atoll_sessions *sessions = atoll_session_alloc(sizeof(*sessions));
    int r = 0;

    *sessions = (struct atoll_sessions){.engine = engine, .registry = registry, .store = store};
    atoll_map_init(&sessions->by_id);
    atoll_list_init(&sessions->runs);
    if (store)
        r = atoll_store_each_session(store, load_row, sessions, err);
    if (r < 0) {
        (void)atoll_sessions_free(sessions);
        return r;
    }
    sweep(sessions);
    *ret = sessions;
    return 0;
}

void atoll_sessions_use_contexts(struct atoll_sessions *sessions, struct atoll_contexts *contexts)
{
    sessions->contexts = contexts;
}

struct atoll_sessions *atoll_sessions_free(struct atoll_sessions *sessions)
{
    struct atoll_session *session;
    size_t pos = 0;

    if (!sessions)
        return NULL;
    while ((session = atoll_map_next(&sessions->by_id, &pos)))
        atoll_session_free(session);
    atoll_map_done(&sessions->by_id);
    free(sessions);
    return NULL;
}

struct atoll_registry *atoll_sessions_registry(struct atoll_sessions *sessions)
{
    return sessions->registry;
}

/* Lookup. */

struct atoll_session *atoll_sessions_find(struct atoll_sessions *sessions, const char *id)
{
    struct atoll_session *session = atoll_map_get(&sessions->by_id, id);

    if (!session || is_alive(sessions, session))
        return session;
    forget(sessions, session);
    return NULL;
}

struct atoll_session *atoll_sessions_next(struct atoll_sessions *sessions, size_t *pos)
{
    struct atoll_session *session;

    while ((session = atoll_map_next(&sessions->by_id, pos)) && !is_alive(sessions, session))
        forget(sessions, session);
    return session;
}

int atoll_sessions_need(struct atoll_sessions *sessions, const char *id, struct atoll_session **ret,
                        struct atoll_error *err)
{
    *ret = atoll_sessions_find(sessions, id);
    if (*ret)
        return 0;
    return atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT, "session %.32s does not exist", id);
}

void atoll_session_get(const struct atoll_session *session, struct atoll_session_view *ret)
{
    *ret = (struct atoll_session_view){
        .id = session->id,
        .sandbox_id = session->sandbox_id,
        .environment = session->environment,
        .owner = session->owner,
        .start_exec = session->start_exec,
        .created_unix_ms = session->created_unix_ms,
        .agent_config = session->agent_config,
    };
}

/* Destroy. */

struct ending {
    struct atoll_sessions *sessions;
    char id[ATOLL_ID_LEN + 1];
    atoll_done_fn *done;
    void *arg;
};

static void destroyed(void *arg, const struct atoll_error *error)
{
    struct ending *e = arg;

    /* Removes the session if its sandbox is gone; if the sandbox could not be destroyed, the
     * session stays. */
    (void)atoll_sessions_find(e->sessions, e->id);
    e->done(e->arg, error);
    free(e);
}

void atoll_sessions_destroy(struct atoll_sessions *sessions, const char *id, const char *who,
                            atoll_done_fn *done, void *arg)
{
    struct atoll_session *session;
    struct atoll_error error;
    struct ending *e;

    if (atoll_sessions_need(sessions, id, &session, &error) < 0) {
        done(arg, &error);
        return;
    }
    e = atoll_session_alloc(sizeof(*e));
    *e = (struct ending){.sessions = sessions, .done = done, .arg = arg};
    memcpy(e->id, session->id, sizeof(e->id));
    atoll_engine_destroy(sessions->engine, session->sandbox_id, who, destroyed, e);
}
