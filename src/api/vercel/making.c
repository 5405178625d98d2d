/*
 * Making a sandbox: the sandbox, its files, its ports; then the answer.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "api/api_internal.h"
#include "api/kit/collect.h"
#include "api/vercel/control_create.h"
#include "git/git.h"
#include "loop/steps.h"

#define WHO_GONE "the daemon, because its creator went away"
#define WHO_FAILED "the daemon, because its files could not be fetched"
#define FETCH_MS (10 * 60 * 1000)

/* Inside of the sandbox, as its user. */
static const char unpack_script[] =
    "set -e; f=$(mktemp); trap 'rm -f \"$f\"' EXIT; "
    "curl -fsSL --retry 2 -o \"$f\" -- \"$0\"; tar -xf \"$f\" -C " ATOLL_VERCEL_CWD;

struct making {
    struct atoll_steps steps;
    struct atoll_api_call *call;
    struct atoll_options options; /* a copy */
    json_t *source;               /* referenced, or NULL */
    char id[ATOLL_ID_LEN + 1];
    struct atoll_collect collect;
};

static const char *source_text(const struct making *m, const char *name)
{
    return json_string_value(json_object_get(m->source, name));
}

/* The sandbox. */

static void create(void *arg);

/* A host without user namespaces for many ids has one user only: then that one serves. */
static bool lacks_user(const struct making *m, const struct atoll_error *error)
{
    return error && error->kind == ATOLL_ERR_FAILED_PRECONDITION && error->errnum == EPERM &&
           m->options.user;
}

/* An image that its registry does not give out is an error of the request, which repeating would not
 * mend; and a login that is missing there is not the caller's key. */
static bool lacks_image(const struct making *m, const struct atoll_error *error)
{
    return error && m->options.image && error->another &&
           error->errnum != EBUSY && /* no worker became free */
           (error->kind == ATOLL_ERR_UNAVAILABLE || error->kind == ATOLL_ERR_DEADLINE_EXCEEDED ||
            error->kind == ATOLL_ERR_UNAUTHENTICATED);
}

static void created(void *arg, struct atoll_sandbox *sandbox, const struct atoll_error *error)
{
    struct making *m = arg;
    struct atoll_sandbox_view view;
    struct atoll_error refusal;

    if (lacks_user(m, error)) {
        atoll_options_set_text(&m->options.user, NULL);
        create(m);
        return;
    }
    if (lacks_image(m, error)) {
        refusal = *error;
        refusal.kind = ATOLL_ERR_INVALID_ARGUMENT;
        error = &refusal;
    }
    if (!error) {
        atoll_sandbox_get(sandbox, &view);
        (void)snprintf(m->id, sizeof(m->id), "%s", view.id);
        /* For the audit log. */
        (void)snprintf(m->call->params.id, sizeof(m->call->params.id), "%s", view.id);
    }
    atoll_steps_done(&m->steps, error);
}

static void create(void *arg)
{
    struct making *m = arg;

    atoll_engine_create(m->call->engine, &m->options, created, m);
}

static void destroy(void *arg)
{
    struct making *m = arg;

    atoll_engine_destroy(m->call->engine, m->id, WHO_FAILED, atoll_steps_done, &m->steps);
}

/* Its files. */

static void cloned(void *arg, const struct atoll_git_result *result ATOLL_UNUSED,
                   const struct atoll_error *error)
{
    struct making *m = arg;
    struct atoll_error refusal;

    /* Whatever the repository's server says, it is the request that cannot be met. */
    if (error)
        (void)atoll_fail(&refusal, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                         "The git source could not be cloned: %.400s", error->text);
    if (error && *error->hint)
        atoll_advise(&refusal, "%s", error->hint);
    atoll_steps_done(&m->steps, error ? &refusal : NULL);
}

static bool is_commit(const char *text)
{
    size_t n = strspn(text, "0123456789abcdef");

    return n >= 7 && n <= 64 && text[n] == '\0';
}

static void clone(struct making *m)
{
    const char *revision = source_text(m, "revision");
    const json_t *depth = json_object_get(m->source, "depth");
    const struct atoll_git_request request = {
        .op = ATOLL_GIT_CLONE,
        .path = ATOLL_VERCEL_CWD,
        .url = source_text(m, "url"),
        .ref = revision && !is_commit(revision) ? revision : NULL,
        .commit = revision && is_commit(revision) ? revision : NULL,
        .depth = json_is_integer(depth) && json_integer_value(depth) > 0
                     ? (uint32_t)ATOLL_MIN(json_integer_value(depth), (json_int_t)1000000)
                     : 0,
        .credentials = {.username = source_text(m, "username"),
                        .password = source_text(m, "password")}};

    atoll_git_run(m->call->engine, m->id, &request, cloned, m);
}

static void unpacked(void *arg, const struct atoll_exec_result *result,
                     const struct atoll_error *error)
{
    struct making *m = arg;
    const struct atoll_buf *words = &m->collect.streams[ATOLL_STREAM_STDERR];
    struct atoll_error refusal;
    bool failed = error || result->kind != ATOLL_END_EXITED || result->code != 0;

    if (failed)
        (void)atoll_fail(&refusal, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                         "The tarball could not be fetched and unpacked: %.*s",
                         (int)ATOLL_MIN(atoll_buf_size(words), (size_t)400),
                         (const char *)atoll_buf_head(words));
    atoll_collect_done(&m->collect);
    atoll_steps_done(&m->steps, failed ? &refusal : NULL);
}

static void unpacking(void *arg, struct atoll_exec *exec, const struct atoll_error *error)
{
    struct making *m = arg;

    if (error)
        atoll_steps_done(&m->steps, error);
    else
        atoll_collect_start(&m->collect, m->call->api->config.loop, exec, unpacked, m);
}

static void unpack(struct making *m)
{
    const char *argv[] = {"sh", "-c", unpack_script, source_text(m, "url"), NULL};
    const struct atoll_exec_start start = {
        .argv = argv, .cwd = ATOLL_VERCEL_CWD, .timeout_ms = FETCH_MS};

    atoll_engine_exec(m->call->engine, m->id, &start, unpacking, m);
}

static void fill(void *arg)
{
    struct making *m = arg;
    const char *type = source_text(m, "type");

    if (type && strcmp(type, "git") == 0)
        clone(m);
    else if (type && strcmp(type, "tarball") == 0)
        unpack(m);
    else
        atoll_steps_done(&m->steps, NULL);
}

/* Its ports. */

static void open_ports(void *arg)
{
    struct making *m = arg;
    struct atoll_vercel_box box;
    struct atoll_error error;
    int r = 0;

    if (atoll_vercel_box_get(m->call->engine, m->id, &box)) {
        r = atoll_vercel_open_ports(m->call->api, &box, &error);
        atoll_vercel_box_done(&box);
    }
    atoll_steps_done(&m->steps, r < 0 ? &error : NULL);
}

static const struct atoll_step steps[] = {
    {"creating the sandbox", create, destroy},
    {"fetching its files", fill, NULL},
    {"opening its ports", open_ports, NULL},
};

static void making_free(struct making *m)
{
    atoll_options_free(&m->options);
    json_decref(m->source);
    free(m);
}

/* The client did not get the answer. If it has repeated the request meanwhile, this call is that of the
 * repeated one, and the name is free again. */
static void unmade(void *arg, const struct atoll_error *error)
{
    struct making *m = arg;

    if (atoll_api_client_is_gone(m->call)) {
        atoll_api_drop(m->call);
    } else if (error) {
        atoll_api_fail(m->call, error);
    } else {
        m->steps.at = 0;
        atoll_steps_start(&m->steps);
        return;
    }
    making_free(m);
}

static void done(void *arg, const struct atoll_error *error)
{
    struct making *m = arg;
    struct atoll_api_call *call = m->call;

    if (!error && atoll_api_client_is_gone(call)) {
        atoll_engine_destroy(call->engine, m->id, WHO_GONE, unmade, m);
        return;
    }
    if (error) {
        call->params.id[0] = '\0'; /* it does not exist */
        atoll_api_fail(call, error);
    } else {
        atoll_vercel_reply_box(call, m->id, false);
    }
    making_free(m);
}

void atoll_vercel_make(struct atoll_api_call *call, const struct atoll_options *options,
                       const json_t *source)
{
    struct making *m = atoll_api_alloc(sizeof(*m));
    struct atoll_error error;

    if (atoll_options_dup(&m->options, options, &error) < 0) {
        free(m);
        atoll_api_fail(call, &error);
        return;
    }
    m->call = call;
    m->source = json_is_object(source) ? json_incref((json_t *)source) : NULL;
    m->steps = (struct atoll_steps){
        .steps = steps, .count = ATOLL_ARRAY_LEN(steps), .arg = m, .done = done};
    atoll_steps_start(&m->steps);
}
