#include "registry/environment_create.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/rand.h"
#include "base/text.h"
#include "engine/artifact/artifacts.h"
#include "engine/provider/providers.h"
#include "loop/steps.h"
#include "registry/environment_build.h"
#include "registry/environment_options.h"

#define WHO "the daemon, because its environment could not be set up"

/* Where to search for programs; the same as the agent's default PATH. */
static const char *const program_dirs[] = {"/usr/local/bin",  "/usr/bin",  "/bin",
                                           "/usr/local/sbin", "/usr/sbin", "/sbin"};

struct making {
    struct atoll_steps steps;
    struct atoll_engine *engine;
    const struct atoll_environment_create *create; /* during the first step */
    struct atoll_options options;                  /* a copy, while its template is built */
    char environment[65], language[65];
    char sandbox_id[ATOLL_ID_LEN + 1], start_exec[33];
    struct atoll_environment_made made; /* points to the two above */
    json_t *requires, *start;           /* referenced */
    size_t requirement, dir;            /* being searched for */
    atoll_environment_fn *before_start, *after_start;
    atoll_sandbox_fn *done;
    void *arg;
};

static void *alloc(size_t n)
{
    void *p = calloc(1, n);

    if (!p)
        abort(); /* small objects: the daemon is crash-only */
    return p;
}

/* The sandbox. */

static void created(void *arg, struct atoll_sandbox *sandbox, const struct atoll_error *error)
{
    struct making *m = arg;
    struct atoll_sandbox_view view;

    if (!error) {
        atoll_sandbox_get(sandbox, &view);
        (void)!atoll_text_copy(m->sandbox_id, sizeof(m->sandbox_id), view.id);
        m->made.created_unix_ms = view.created_unix_ms;
    }
    atoll_steps_done(&m->steps, error);
}

static void built(void *arg, const char *template_name, const struct atoll_error *error)
{
    struct making *m = arg;
    char *name = template_name ? strdup(template_name) : NULL;
    struct atoll_options options = m->options; /* the calls below may free m */

    if (error) {
        created(m, NULL, error);
    } else if (!name) {
        abort();
    } else {
        atoll_options_set_text(&options.template_name, name);
        atoll_engine_create(m->engine, &options, created, m);
    }
    atoll_options_free(&options);
}

/* The template of the environment may have to be built first. */
static void create_from(struct making *m, const struct atoll_environment *e,
                        struct atoll_options *sandbox)
{
    struct atoll_error error;

    if (sandbox->image || sandbox->template_name) {
        atoll_engine_create(m->engine, sandbox, created, m);
    } else if (atoll_options_dup(&m->options, sandbox, &error) < 0) {
        created(m, NULL, &error);
    } else {
        if (sandbox->progress)
            sandbox->progress(sandbox->progress_arg, "the template of its environment");
        atoll_environment_build(m->engine, e, built, m);
    }
}

static void create_sandbox(void *arg)
{
    struct making *m = arg;
    const struct atoll_environment *e = m->create->environment;
    struct atoll_environment_options options;
    struct atoll_error err;

    if (atoll_environment_options_init(&options, e, &m->create->sandbox, m->engine, &err) < 0) {
        created(m, NULL, &err);
        return;
    }
    m->create = NULL;
    if (atoll_environment_is_built(e))
        create_from(m, e, &options.sandbox);
    else
        atoll_engine_create(m->engine, &options.sandbox, created, m);
    atoll_environment_options_done(&options);
}

static void destroy_sandbox(void *arg)
{
    struct making *m = arg;

    atoll_artifacts_unwant(m->engine, m->sandbox_id);
    /* The engine logs a failure. */
    atoll_engine_destroy(m->engine, m->sandbox_id, WHO, atoll_steps_done, &m->steps);
}

/* Required programs. */

static void find_program(struct making *m);

static void lacks(struct making *m, const json_t *requirement)
{
    const struct atoll_sandbox *sandbox = atoll_engine_find(m->engine, m->sandbox_id);
    const char *program = json_string_value(json_object_get(requirement, "program"));
    struct atoll_sandbox_view view = {.image = ""};
    struct atoll_error error;

    if (sandbox)
        atoll_sandbox_get(sandbox, &view);
    if (*view.image)
        (void)atoll_fail(
            &error, ATOLL_ERR_FAILED_PRECONDITION, ENOENT,
            "environment %s needs the program \"%s\", which the image %.120s of provider "
            "%s does not have; name an image that has it",
            m->environment, program, view.image, view.provider);
    else
        (void)atoll_fail(
            &error, ATOLL_ERR_FAILED_PRECONDITION, ENOENT,
            "environment %s needs the program \"%s\", which its template does not have; "
            "install it where the template comes from (%s)",
            m->environment, program, json_string_value(json_object_get(requirement, "install")));
    if (sandbox && *m->language)
        atoll_advise_language(sandbox, m->language, &error);
    atoll_steps_done(&m->steps, &error);
}

static void looked(void *arg, const struct atoll_am_entry *entry, const struct atoll_error *error)
{
    struct making *m = arg;

    if (entry && entry->type != ATOLL_ENTRY_DIRECTORY) {
        m->requirement++;
        m->dir = 0;
        find_program(m);
    } else if (error && error->kind != ATOLL_ERR_NOT_FOUND) {
        atoll_steps_done(&m->steps, error);
    } else if (++m->dir < ATOLL_ARRAY_LEN(program_dirs)) {
        find_program(m);
    } else {
        lacks(m, json_array_get(m->requires, m->requirement));
    }
}

static void find_program(struct making *m)
{
    const json_t *requirement = json_array_get(m->requires, m->requirement);
    char path[100];

    if (!requirement) {
        atoll_steps_done(&m->steps, NULL);
        return;
    }
    (void)snprintf(path, sizeof(path), "%s/%s", program_dirs[m->dir],
                   json_string_value(json_object_get(requirement, "program")));
    atoll_files_stat(m->engine, m->sandbox_id, NULL, path, looked, m);
}

static void find_programs(void *arg)
{
    find_program(arg);
}

/* The start command, and the caller's steps around it. */

void atoll_environment_start(struct atoll_engine *engine, const json_t *start,
                             const char *sandbox_id, atoll_exec_fn *done, void *arg)
{
    size_t n = json_array_size(start);
    const char **argv;

    if (n == 0) {
        done(arg, NULL, NULL);
        return;
    }
    argv = alloc((n + 1) * sizeof(*argv));
    for (size_t i = 0; i < n; i++)
        argv[i] = json_string_value(json_array_get(start, i));
    atoll_engine_exec(engine, sandbox_id, &(struct atoll_exec_start){.argv = argv}, done, arg);
    free(argv);
}

static void started(void *arg, struct atoll_exec *exec, const struct atoll_error *error)
{
    struct making *m = arg;
    struct atoll_error wrapped;
    struct atoll_exec_view view;

    if (error) {
        wrapped = *error;
        (void)atoll_wrap(&wrapped, "the start command of environment %s", m->environment);
        error = &wrapped;
    } else if (exec) {
        atoll_exec_get(exec, &view);
        (void)!atoll_text_copy(m->start_exec, sizeof(m->start_exec), view.id);
    }
    atoll_steps_done(&m->steps, error);
}

static void start(void *arg)
{
    struct making *m = arg;

    atoll_environment_start(m->engine, m->start, m->sandbox_id, started, m);
}

static void call_step(struct making *m, atoll_environment_fn *fn)
{
    if (fn)
        fn(m->arg, &m->made, atoll_steps_done, &m->steps);
    else
        atoll_steps_done(&m->steps, NULL);
}

static void before_start(void *arg)
{
    struct making *m = arg;

    call_step(m, m->before_start);
}

static void after_start(void *arg)
{
    struct making *m = arg;

    call_step(m, m->after_start);
}

static const struct atoll_step steps[] = {
    {"creating the sandbox", create_sandbox, destroy_sandbox},
    {"checking the required programs", find_programs, NULL},
    {"preparing the start command", before_start, NULL},
    {"starting the start command", start, NULL},
    {"completing the sandbox", after_start, NULL},
};

static void finish(void *arg, const struct atoll_error *error)
{
    struct making *m = arg;
    struct atoll_sandbox *sandbox = error ? NULL : atoll_engine_find(m->engine, m->sandbox_id);
    struct atoll_error gone;

    if (!error && !sandbox) {
        (void)atoll_fail(&gone, ATOLL_ERR_ABORTED, ECANCELED,
                         "the sandbox was destroyed while it was created");
        error = &gone;
    }
    m->done(m->arg, sandbox, error);
    json_decref(m->requires);
    json_decref(m->start);
    free(m);
}

static void copy_name(char out[static 65], const char *name)
{
    (void)snprintf(out, 65, "%s", name ? name : "");
}

void atoll_environment_create(struct atoll_engine *engine,
                              const struct atoll_environment_create *create, atoll_sandbox_fn *done,
                              void *arg)
{
    const struct atoll_environment *e = create->environment;
    struct making *m = alloc(sizeof(*m));

    *m = (struct making){
        .engine = engine,
        .create = create,
        .requires = create->check ? json_incref((json_t *)e->requires) : NULL,
        .start = json_incref((json_t *)e->start),
        .before_start = create->before_start,
        .after_start = create->after_start,
        .done = done,
        .arg = arg,
    };
    m->made.sandbox_id = m->sandbox_id;
    m->made.start_exec = m->start_exec;
    copy_name(m->environment, e->name);
    copy_name(m->language, create->sandbox.language ?: e->language);
    m->steps = (struct atoll_steps){
        .steps = steps, .count = ATOLL_ARRAY_LEN(steps), .arg = m, .done = finish};
    atoll_steps_start(&m->steps);
}
