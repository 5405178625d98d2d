#include "engine/build/trial.h"

#include <stdio.h>
#include <string.h>
#include "base/memory.h"
#include "engine/engine_internal.h"
#include "engine/template/start.h"

#define WHO "the end of the trial of its template"

struct trial {
    struct atoll_engine *engine;
    char sandbox_id[ATOLL_ID_LEN + 1];
    char *start_cmd, *ready_cmd; /* owned, or NULL */
    bool failed;
    struct atoll_error error;
    atoll_done_fn *done;
    void *arg;
};

static char *copy(const char *text)
{
    char *made = text && *text ? strdup(text) : NULL;

    if (text && *text && !made)
        abort();
    return made;
}

static void end(struct trial *t)
{
    t->done(t->arg, t->failed ? &t->error : NULL);
    free(t->start_cmd);
    free(t->ready_cmd);
    free(t);
}

static void on_destroyed(void *arg, const struct atoll_error *error ATOLL_UNUSED)
{
    end(arg);
}

static void on_ready(void *arg, const struct atoll_error *error)
{
    struct trial *t = arg;

    t->failed = error != NULL;
    if (error)
        t->error = *error;
    atoll_engine_destroy(t->engine, t->sandbox_id, WHO, on_destroyed, t);
}

static void on_created(void *arg, struct atoll_sandbox *s, const struct atoll_error *error)
{
    struct trial *t = arg;
    const struct atoll_start_commands commands = {.start = t->start_cmd,
                                                  .ready = t->ready_cmd,
                                                  .ready_ms = ATOLL_READY_BUILD_MS,
                                                  .building = true};

    if (error) {
        t->failed = true;
        t->error = *error;
        end(t);
        return;
    }
    memcpy(t->sandbox_id, s->spec.id, sizeof(t->sandbox_id));
    atoll_start_run(t->engine, t->sandbox_id, &commands, on_ready, t);
}

void atoll_trial_run(struct atoll_engine *engine, const struct atoll_trial_request *request,
                     atoll_done_fn *done, void *arg)
{
    struct trial *t = atoll_alloc(sizeof(*t));
    const struct atoll_options options = {.owner = request->tenant,
                                          .template_name = request->reference,
                                          .network = request->network,
                                          .network_is_given = true,
                                          .network_json = request->policy,
                                          .without_start = true};

    t->engine = engine;
    t->start_cmd = copy(request->start_cmd);
    t->ready_cmd = copy(request->ready_cmd);
    t->done = done;
    t->arg = arg;
    atoll_engine_create(engine, &options, on_created, t);
}
