#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include "task/task_internal.h"

/*
 * Why an agent failed, as far as its words say it: each cause has a kind, and advice that leads to a retry.
 */
enum cause { OTHER, MISSING, KEY, RATE, SERVER };

static const struct {
    const char *name; /* in `failures` of an agent */
    enum atoll_error_kind kind;
    const char *advice; /* the id of the task is added to it */
} causes[] = {
    [OTHER] = {"", ATOLL_ERR_FAILED_PRECONDITION, "The log of the task says more; try again with"},
    [MISSING] =
        {"missing", ATOLL_ERR_FAILED_PRECONDITION,
         "The program of the agent is not in the sandbox: use an environment or a template that "
         "has it, or add \"install\" to the agent in the registry; then"},
    [KEY] =
        {"key", ATOLL_ERR_UNAUTHENTICATED,
         "The server of the model does not accept the key: store a valid one with `atoll secret "
         "create --replace NAME`, then"},
    [RATE] =
        {"rate", ATOLL_ERR_RESOURCE_EXHAUSTED,
         "The server of the model has a limit that was reached: wait, or give another model or "
         "key, then"},
    [SERVER] =
        {"server", ATOLL_ERR_UNAVAILABLE,
         "The server of the model was not reached, or failed: see that the sandbox may reach it "
         "(\"network\" of the sandbox, \"hosts\" of the agent, …_BASE_URL), then"},
};

/* Words of servers and of agents. The first that is found decides. */
static const struct {
    const char *text;
    enum cause cause;
} words[] = {
    {"authentication_error", KEY},
    {"invalid x-api-key", KEY},
    {"invalid api key", KEY},
    {"incorrect api key", KEY},
    {"api key not valid", KEY},
    {"api_key_invalid", KEY},
    {"AuthenticationError", KEY},
    {"unauthorized", KEY},
    {"401", KEY},
    {"rate limit", RATE},
    {"rate_limit", RATE},
    {"ratelimit", RATE},
    {"too many requests", RATE},
    {"resource_exhausted", RATE},
    {"quota", RATE},
    {"overloaded", RATE},
    {"429", RATE},
    {"econnrefused", SERVER},
    {"enotfound", SERVER},
    {"econnreset", SERVER},
    {"etimedout", SERVER},
    {"connection refused", SERVER},
    {"connectionrefused", SERVER},
    {"connection error", SERVER},
    {"connection reset", SERVER},
    {"could not resolve", SERVER},
    {"unable to connect", SERVER},
    {"fetch failed", SERVER},
    {"error sending request", SERVER},
    {"stream disconnected", SERVER},
    {"bad gateway", SERVER},
    {"service unavailable", SERVER},
    {"internal server error", SERVER},
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* "enotfound" in "ModuleNotFoundError", but not "RateLimit" in "OpenAIRateLimitError". */
static bool is_inside_word(const char *text, const char *at)
{
    return at > text && *at >= 'a' && *at <= 'z' && at[-1] >= 'a' && at[-1] <= 'z';
}

/* Numbers are found as whole numbers only, words not in the middle of others. */
static bool contains(const char *text, const char *wanted)
{
    size_t n = strlen(wanted);

    for (const char *at = text; (at = strcasestr(at, wanted)); at++)
        if (is_digit(*wanted) ? (at == text || !is_digit(at[-1])) && !is_digit(at[n])
                              : !is_inside_word(text, at))
            return true;
    return false;
}

static enum cause find_cause(const json_t *agent, const struct atoll_exec_result *result,
                             const char *text)
{
    const json_t *rules = json_object_get(agent, "failures");

    if (result->kind == ATOLL_END_EXITED && (result->code == 126 || result->code == 127))
        return MISSING;
    for (size_t i = 0; i < json_array_size(rules); i++) {
        const json_t *rule = json_array_get(rules, i);
        const char *is = json_string_value(json_object_get(rule, "is"));
        for (size_t k = 0; k < ATOLL_ARRAY_LEN(causes); k++)
            if (strcmp(causes[k].name, is) == 0 &&
                contains(text, json_string_value(json_object_get(rule, "text"))))
                return (enum cause)k;
    }
    /* An agent without a model, such as a shell, says such words about something else. */
    for (size_t i = 0;
         json_array_size(json_object_get(agent, "keys")) > 0 && i < ATOLL_ARRAY_LEN(words); i++)
        if (contains(text, words[i].text))
            return words[i].cause;
    return OTHER;
}

bool atoll_task_ran_out(const struct atoll_task *task, const struct atoll_exec_result *result,
                        const char *tail, struct atoll_error *err)
{
    /* The shell or program that has started it says so by 128 + SIGKILL. */
    bool killed = result->kind == ATOLL_END_OOM_KILLED ||
                  (result->kind == ATOLL_END_SIGNALED && result->signal == SIGKILL) ||
                  (result->kind == ATOLL_END_EXITED && result->code == 128 + SIGKILL);

    if (!killed || (result->oom_kills == 0 && result->kind != ATOLL_END_OOM_KILLED))
        return false;
    (void)atoll_fail(
        err, ATOLL_ERR_RESOURCE_EXHAUSTED, ENOMEM,
        "the memory of the sandbox was used up (limits.memoryMB is %llu), and the "
        "command was killed%s%.*s; `atoll task retry %s%s --memory SIZE` gives it more",
        (unsigned long long)(result->oom_limit_bytes >> 20), *tail ? ": " : "", 110, tail, task->id,
        atoll_task_repo_option(task));
    return true;
}

/* False: the agent has not had too little time. */
static bool ran_too_long(const struct atoll_task *task, const json_t *agent,
                         const struct atoll_exec_result *result, const char *tail,
                         struct atoll_error *err)
{
    if (result->kind != ATOLL_END_TIMED_OUT)
        return false;
    (void)atoll_fail(err, ATOLL_ERR_DEADLINE_EXCEEDED, ETIMEDOUT,
                     "the agent took longer than %.6g s (timeoutSeconds), and was killed%s%.*s; "
                     "`atoll task retry %s%s --timeout TIME` gives it more",
                     atoll_task_number(task, agent, "timeoutSeconds", ATOLL_TASK_AGENT_TIMEOUT_S),
                     *tail ? ": " : "", 110, tail, task->id, atoll_task_repo_option(task));
    return true;
}

void atoll_task_explain(const struct atoll_task *task, const json_t *agent,
                        const struct atoll_exec_result *result, const char *tail,
                        struct atoll_error *err)
{
    const char *said = atoll_task_fact(task, "agent_error");
    enum cause cause;
    char how[300];

    if (atoll_task_ran_out(task, result, tail, err) || ran_too_long(task, agent, result, tail, err))
        return;
    said = *said ? said : *tail ? tail : "it printed nothing";
    cause = find_cause(agent, result, said);
    if (cause == OTHER && *tail)
        cause = find_cause(agent, result, tail);
    if (result->kind == ATOLL_END_EXITED && result->code == 0)
        (void)snprintf(how, sizeof(how), "exited with status 0, but did not succeed");
    else
        atoll_task_describe_end(result, how, sizeof(how));
    /* All of it fits into the text of an error; the log has what is cut. */
    (void)atoll_fail(err, causes[cause].kind, ECHILD,
                     "the agent %.60s: %.*s. %s `atoll task retry %s%s`", how,
                     cause == OTHER ? 180 : 110, said, causes[cause].advice, task->id,
                     atoll_task_repo_option(task));
}
