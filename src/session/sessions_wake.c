/*
 * Starts a session's stopped sandbox before code runs in it, then the environment's start command.
 * Requests that come meanwhile wait for the same start.
 */
#include <string.h>
#include "base/log.h"
#include "base/text.h"
#include "engine/waiters.h"
#include "session/sessions_internal.h"

/* Holds the session's id instead of a pointer: the session may end meanwhile. */
struct waking {
    struct atoll_sessions *sessions;
    char id[ATOLL_ID_LEN + 1];
    struct atoll_list waiters; /* see atoll_waiters_add() */
};

static void finish(struct waking *w, const struct atoll_error *error)
{
    struct atoll_session *session = atoll_sessions_find(w->sessions, w->id);

    if (session)
        session->waking = NULL;
    atoll_waiters_tell(&w->waiters, error);
    free(w);
}

static void started(void *arg, struct atoll_exec *exec, const struct atoll_error *error)
{
    struct waking *w = arg;
    struct atoll_session *session = atoll_sessions_find(w->sessions, w->id);
    struct atoll_error wrapped;
    struct atoll_exec_view view;

    if (error) {
        wrapped = *error;
        (void)atoll_wrap(&wrapped, "the start command of the session");
        finish(w, &wrapped);
        return;
    }
    atoll_exec_get(exec, &view);
    if (session) {
        (void)!atoll_text_copy(session->start_exec, sizeof(session->start_exec), view.id);
        if (atoll_sessions_store(w->sessions, session, &wrapped) < 0)
            atoll_log(ATOLL_LOG_ERROR, "session not stored", "session", session->id, "error",
                      wrapped.text, NULL);
    }
    finish(w, NULL);
}

static void resumed(void *arg, const struct atoll_error *error)
{
    struct waking *w = arg;
    const struct atoll_session *session = error ? NULL : atoll_sessions_find(w->sessions, w->id);
    struct atoll_environment e;
    struct atoll_exec_start start = {0};
    struct atoll_error unknown;
    const char **argv;
    size_t n = 0;

    if (session &&
        atoll_environment_find(w->sessions->registry, session->environment, &e, &unknown) == 0)
        n = json_array_size(e.start);
    if (n == 0) {
        finish(w, error);
        return;
    }
    argv = atoll_session_alloc((n + 1) * sizeof(*argv));
    for (size_t i = 0; i < n; i++)
        argv[i] = json_string_value(json_array_get(e.start, i));
    start.argv = argv;
    atoll_engine_exec(w->sessions->engine, session->sandbox_id, &start, started, w);
    free(argv);
}

void atoll_session_wake(struct atoll_sessions *sessions, struct atoll_session *session,
                        atoll_done_fn *done, void *arg)
{
    struct atoll_sandbox *sandbox = atoll_engine_find(sessions->engine, session->sandbox_id);
    struct atoll_sandbox_view view = {0};
    struct waking *w = session->waking;

    if (sandbox)
        atoll_sandbox_get(sandbox, &view);
    if (!w && (!sandbox || view.state != ATOLL_SANDBOX_STOPPED)) {
        done(arg, NULL);
        return;
    }
    if (w) {
        atoll_waiters_add(&w->waiters, done, arg);
        return;
    }
    w = session->waking = atoll_session_alloc(sizeof(*w));
    w->sessions = sessions;
    memcpy(w->id, session->id, sizeof(w->id));
    atoll_list_init(&w->waiters);
    atoll_waiters_add(&w->waiters, done, arg);
    atoll_engine_resume(sessions->engine, session->sandbox_id, resumed, w);
}
