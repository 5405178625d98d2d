/* Requesting and abandoning executions. contexts_run.c runs them. */
#include <errno.h>
#include <string.h>
#include "engine/json_memory.h"
#include "interpreter/contexts_internal.h"
#include "interpreter/explain.h"

void atoll_execution_free(struct atoll_execution *e)
{
    atoll_shares_drop(&e->context->contexts->pending, e->context->owner, e->request_len);
    free(e->request);
    free(e);
}

/* NULL when an entry is not NAME=VALUE in UTF-8. */
static json_t *env_object(const char *const *env)
{
    json_t *object = json_object();

    for (size_t i = 0; object && env && env[i]; i++) {
        const char *equals = strchr(env[i], '=');
        if (!equals || json_object_setn_new(object, env[i], (size_t)(equals - env[i]),
                                            json_string(equals + 1)) < 0) {
            json_decref(object);
            return NULL;
        }
    }
    return object;
}

static int no_memory(struct atoll_error *err)
{
    return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, ENOMEM, "out of memory for code");
}

/* Encodes the request as one line with its newline. */
static int make_request(struct atoll_execution *e, const struct atoll_context_run *run,
                        struct atoll_error *err)
{
    json_t *code, *env, *request;

    atoll_json_memory_begin();
    code = json_stringn(run->code, run->code_len);
    env = env_object(run->env);
    if (!code || !env) {
        json_decref(code);
        json_decref(env);
        if (atoll_json_memory_failed())
            return no_memory(err);
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "%s must be UTF-8",
                          code ? "env" : "code");
    }
    request = json_pack("{s:I, s:s, s:o, s:o}", "id", (json_int_t)e->id, "op", "execute", "code",
                        code, "env", env);
    e->request = request ? atoll_json_dump(request, JSON_COMPACT | JSON_ENSURE_ASCII) : NULL;
    json_decref(request);
    if (!e->request)
        return no_memory(err);
    e->request_len = strlen(e->request);
    e->request[e->request_len++] = '\n'; /* replaces the NUL: the length is stored */
    atoll_shares_add(&e->context->contexts->pending, e->context->owner, e->request_len);
    return 0;
}

static int check_run(const struct atoll_context *c, const struct atoll_context_run *run,
                     struct atoll_error *err)
{
    if (run->code_len > ATOLL_CONTEXT_CODE_MAX)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, E2BIG,
                          "code must be at most %zu MiB long; write it to a file and run that",
                          ATOLL_CONTEXT_CODE_MAX >> 20);
    if (c->queued >= ATOLL_CONTEXT_QUEUE)
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, EBUSY,
                          "%d executions wait in this context already; use another context",
                          ATOLL_CONTEXT_QUEUE);
    if (!atoll_shares_fits(&c->contexts->pending, c->owner, run->code_len))
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, EBUSY,
                          "too much code waits to be run already");
    return 0;
}

struct atoll_execution *atoll_execution_new(struct atoll_context *c)
{
    struct atoll_execution *e = atoll_context_alloc(sizeof(*e));

    e->context = c;
    e->id = ++c->contexts->last_request;
    return e;
}

/* NULL when it has ended. */
static struct atoll_execution *find_execution(struct atoll_context *c, uint64_t id)
{
    if (c->current && c->current->id == id)
        return c->current;
    ATOLL_LIST_FOREACH (&c->queue, node) {
        struct atoll_execution *e = ATOLL_CONTAINER_OF(node, struct atoll_execution, node);
        if (e->id == id)
            return e;
    }
    return NULL;
}

struct atoll_execution *atoll_context_execute(struct atoll_context *c,
                                              const struct atoll_context_run *run,
                                              const struct atoll_context_events *events, void *arg,
                                              struct atoll_error *err)
{
    struct atoll_execution *e;
    uint64_t id;

    *err = (struct atoll_error){0};
    if (check_run(c, run, err) < 0)
        return NULL;
    e = atoll_execution_new(c);
    if (make_request(e, run, err) < 0) {
        atoll_execution_free(e);
        return NULL;
    }
    e->timeout_ms = run->timeout_ms;
    e->is_command = atoll_code_is_command(run->code, run->code_len);
    e->events = *events;
    e->arg = arg;
    id = e->id;
    atoll_list_push_back(&c->queue, &e->node);
    c->queued++;
    atoll_context_next(c);
    return find_execution(c, id);
}

struct atoll_execution *atoll_execution_abandon(struct atoll_execution *e)
{
    struct atoll_context *c;

    if (!e)
        return NULL;
    c = e->context;
    e->events = (struct atoll_context_events){0};
    if (e->ending) /* its last callback is running; it is freed after that */
        return NULL;
    if (e != c->current) {
        atoll_list_remove(&e->node);
        c->queued--;
        atoll_execution_free(e);
        return NULL;
    }
    atoll_context_interrupt(c);
    atoll_execution_resume(e);
    return NULL;
}

void atoll_execution_pause(struct atoll_execution *e)
{
    e->paused = true;
}

void atoll_execution_resume(struct atoll_execution *e)
{
    struct atoll_context *c = e->context;

    if (!e->paused)
        return;
    e->paused = false;
    if (c->driver && c->driver->ready)
        atoll_driver_pump(c->driver);
}

const struct atoll_exec_result *atoll_execution_end(const struct atoll_execution *e)
{
    return e->end;
}

bool atoll_execution_timed_out(const struct atoll_execution *e)
{
    return e->timed_out;
}

const char *atoll_execution_exec_id(const struct atoll_execution *e)
{
    return e->exec_id;
}
