/*
 * Starts a session's stopped sandbox before code runs in it, then the environment's start command.
 * Requests that come meanwhile wait for the same start.
 */
#include <string.h>
#include "base/log.h"
#include "base/text.h"
#include "engine/waiters.h"
#include "loop/steps.h"
#include "registry/environment_create.h"
#include "session/sessions_internal.h"

/* Holds the session's id instead of a pointer: the session may end meanwhile. */
struct waking {
    struct atoll_steps steps;
    struct atoll_sessions *sessions;
    char id[ATOLL_ID_LEN + 1];
    struct atoll_list waiters; /* see atoll_waiters_add() */
};

static void resume(void *arg)
{
    struct waking *w = arg;
    const struct atoll_session *session = atoll_sessions_find(w->sessions, w->id);

    atoll_engine_resume(w->sessions->engine, session->sandbox_id, atoll_steps_done, &w->steps);
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
        error = &wrapped;
    } else if (exec && session) {
        atoll_exec_get(exec, &view);
        (void)!atoll_text_copy(session->start_exec, sizeof(session->start_exec), view.id);
        if (atoll_sessions_store(w->sessions, session, &wrapped) < 0)
            atoll_log(ATOLL_LOG_ERROR, "session not stored", "session", session->id, "error",
                      wrapped.text, NULL);
    }
    atoll_steps_done(&w->steps, error);
}

static void start(void *arg)
{
    struct waking *w = arg;
    const struct atoll_session *session = atoll_sessions_find(w->sessions, w->id);
    struct atoll_environment e;
    struct atoll_error unknown;

    if (!session ||
        atoll_environment_find(w->sessions->registry, session->environment, &e, &unknown) < 0)
        atoll_steps_done(&w->steps, NULL);
    else
        atoll_environment_start(w->sessions->engine, e.start, session->sandbox_id, started, w);
}

/* A sandbox whose start command fails stays up: it is the client's. */
static const struct atoll_step steps[] = {
    {"resuming the sandbox", resume, NULL},
    {"starting the start command", start, NULL},
};

static void finish(void *arg, const struct atoll_error *error)
{
    struct waking *w = arg;
    struct atoll_session *session = atoll_sessions_find(w->sessions, w->id);

    if (session)
        session->waking = NULL;
    atoll_waiters_tell(&w->waiters, error);
    free(w);
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
    *w = (struct waking){
        .steps = {.steps = steps, .count = ATOLL_ARRAY_LEN(steps), .arg = w, .done = finish},
        .sessions = sessions,
    };
    memcpy(w->id, session->id, sizeof(w->id));
    atoll_list_init(&w->waiters);
    atoll_waiters_add(&w->waiters, done, arg);
    atoll_steps_start(&w->steps);
}
