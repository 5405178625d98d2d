/*
 * Creates a session: a sandbox from its environment (registry/environment_create.h), with the
 * request's files in it before the start command runs. Then the session is added.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/text.h"
#include "registry/environment_create.h"
#include "session/sessions_internal.h"

struct creating {
    struct atoll_sessions *sessions;
    const struct atoll_session_create *create; /* borrowed */
    struct atoll_session *session;             /* owned until it is added */
    struct atoll_session *added;
    struct atoll_session_writer writer;
    atoll_session_fn *done;
    void *arg;
};

static void write_files(void *arg, const struct atoll_environment_made *made, atoll_done_fn *done,
                        void *done_arg)
{
    struct creating *c = arg;

    atoll_session_write(&c->writer, c->sessions->engine, made->sandbox_id, c->create->files,
                        c->create->file_count, done, done_arg);
}

static void add(void *arg, const struct atoll_environment_made *made, atoll_done_fn *done,
                void *done_arg)
{
    struct creating *c = arg;
    struct atoll_session *s = ATOLL_TAKE_PTR(c->session);
    struct atoll_error error;
    int r;

    (void)!atoll_text_copy(s->sandbox_id, sizeof(s->sandbox_id), made->sandbox_id);
    (void)!atoll_text_copy(s->start_exec, sizeof(s->start_exec), made->start_exec);
    s->created_unix_ms = made->created_unix_ms;
    r = atoll_sessions_add(c->sessions, s, &error);
    if (r == 0)
        c->added = s;
    done(done_arg, r < 0 ? &error : NULL);
}

static void created(void *arg, struct atoll_sandbox *sandbox ATOLL_UNUSED,
                    const struct atoll_error *error)
{
    struct creating *c = arg;

    c->done(c->arg, error ? NULL : c->added, error);
    atoll_session_free(c->session);
    free(c);
}

/* The name of the environment for an image: "docker.io/library/python:3.12" gives "python". */
static void name_of_image(const char *image, char *out, size_t cap)
{
    const char *start = strrchr(image, '/') ? strrchr(image, '/') + 1 : image;
    size_t n = strcspn(start, ":@");

    (void)snprintf(out, cap, "%.*s", (int)ATOLL_MIN(n, cap - 1), start);
}

/* *ret_image: the name is not that of an environment but of an image; else NULL. */
static int find_environment(const struct atoll_sessions *sessions,
                            const struct atoll_session_create *create, struct atoll_environment *e,
                            const char **ret_image, struct atoll_error *err)
{
    int r = atoll_environment_find(sessions->registry, create->environment, e, err);
    struct atoll_error unused;
    char name[65];

    *ret_image = NULL;
    if (r == 0 || create->sandbox.image || !strpbrk(create->environment, ":/"))
        return r;
    *ret_image = create->environment;
    name_of_image(create->environment, name, sizeof(name));
    if (atoll_environment_find(sessions->registry, name, e, &unused) == 0)
        return 0;
    return atoll_environment_find(sessions->registry, "Bash", e, err);
}

void atoll_sessions_create(struct atoll_sessions *sessions,
                           const struct atoll_session_create *create, atoll_session_fn *done,
                           void *arg)
{
    struct atoll_environment_create from = {
        .sandbox = create->sandbox,
        .check = true,
        .before_start = write_files,
        .after_start = add,
    };
    struct atoll_environment e;
    struct atoll_error error;
    struct creating *c;
    const char *image;

    if (find_environment(sessions, create, &e, &image, &error) < 0) {
        done(arg, NULL, &error);
        return;
    }
    c = atoll_session_alloc(sizeof(*c));
    *c = (struct creating){.sessions = sessions, .create = create, .done = done, .arg = arg};
    c->session = atoll_session_alloc(sizeof(*c->session));
    atoll_rand_id(c->session->id, ATOLL_ID_LEN);
    (void)!atoll_text_copy(c->session->environment, sizeof(c->session->environment), e.name);
    (void)!atoll_text_copy(c->session->owner, sizeof(c->session->owner),
                           create->sandbox.owner ?: "default");
    c->session->agent_config = create->agent_config ? strdup(create->agent_config) : NULL;
    if (create->agent_config && !c->session->agent_config) {
        (void)atoll_fail_errno(&error, ENOMEM, "agent_config");
        created(c, NULL, &error);
        return;
    }
    from.environment = &e;
    if (image)
        from.sandbox.image = image;
    from.sandbox.session_id = c->session->id;
    from.sandbox.language = create->sandbox.language ?: e.language;
    atoll_environment_create(sessions->engine, &from, created, c);
}
