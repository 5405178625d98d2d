/* Sessions and contexts: which code runs in a context, and how the end of an execution maps to the
 * end of a command. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/text.h"
#include "session/sessions_internal.h"

bool atoll_session_has_context(const struct atoll_sessions *sessions,
                               const struct atoll_interpreter *in)
{
    const char *program = json_string_value(json_array_get(in->run, 0));

    return sessions->contexts && program &&
           atoll_contexts_speaks(sessions->contexts, in->language, program);
}

void atoll_session_run_in_context(const struct atoll_sessions *sessions, const char *sandbox_id,
                                  const char *language, const struct atoll_context_run *run,
                                  struct atoll_context_collect *collect,
                                  void (*ended)(void *arg, const struct atoll_error *error),
                                  void *arg)
{
    const struct atoll_context_create create = {.sandbox_id = sandbox_id, .language = language};
    struct atoll_context_view view;
    struct atoll_error error;

    if (atoll_contexts_default(sessions->contexts, &create, &view, &error) < 0)
        ended(arg, &error);
    else
        atoll_context_collect_start(collect, sessions->contexts, sandbox_id, view.id, run, ended,
                                    arg);
}

static const char *text_of(const struct atoll_context_collect *k, const char *key)
{
    const char *text = json_string_value(json_object_get(k->error, key));
    return text ? text : "";
}

/* Errors of drivers that contain the exit status of the code or of its last command. */
static const struct {
    const char *name, *before; /* text in front of the number */
} statuses[] = {
    {"SystemExit", ""},
    {"ExitStatus", ""},
    {"InterpreterEnded", "the interpreter ended with status "},
};

/* -1 for other errors. */
static int status_of(const struct atoll_context_collect *k)
{
    const char *name = text_of(k, "name"), *value = text_of(k, "value");
    uint64_t status;

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(statuses); i++) {
        size_t n = strlen(statuses[i].before);
        if (strcmp(name, statuses[i].name) == 0 && strncmp(value, statuses[i].before, n) == 0 &&
            atoll_text_u64(value + n, 0, 255, &status) == 0)
            return (int)status;
    }
    return -1;
}

void atoll_session_judge(const struct atoll_context_collect *k, int64_t duration_ms,
                         struct atoll_exec_result *end, struct atoll_session_error *error)
{
    int status = k->error ? status_of(k) : 0;

    *end = k->has_end ? k->end : (struct atoll_exec_result){.kind = ATOLL_END_EXITED};
    end->duration_ms = duration_ms;
    if (k->timed_out)
        end->kind = ATOLL_END_TIMED_OUT;
    else if (!k->has_end)
        end->code = status < 0 ? 1 : status; /* interpreters exit with 1 after an error */
    atoll_session_explain(NULL, end, NULL, 0, error);
    if (!k->error || (status >= 0 && !k->has_end && !k->timed_out))
        return;
    error->traceback = text_of(k, "traceback");
    error->traceback_len = strlen(error->traceback);
    if (k->has_end || k->timed_out)
        return; /* the record of the interpreter has the exact cause */
    (void)snprintf(error->name, sizeof(error->name), "%.127s", text_of(k, "name"));
    (void)snprintf(error->value, sizeof(error->value), "%.1023s", text_of(k, "value"));
}
