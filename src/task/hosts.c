#include <string.h>
#include "base/buf.h"
#include "engine/json_memory.h"
#include "network/policy.h"
#include "task/task_internal.h"

/*
 * Hosts that a step needs, beside those that the sandbox may reach already.
 */
bool atoll_task_has_network(const struct atoll_task *task, struct atoll_sandbox_view *ret)
{
    const struct atoll_sandbox *sandbox =
        atoll_engine_find(task->tasks->config.engine, atoll_task_fact(task, "sandbox_id"));

    if (sandbox)
        atoll_sandbox_get(sandbox, ret);
    return sandbox && ret->options.network != ATOLL_NETWORK_NONE;
}

json_t *atoll_task_denied_hosts(const struct atoll_task *task, const json_t *hosts)
{
    struct atoll_sandbox_view view;
    const char *text = atoll_task_has_network(task, &view) ? view.options.network_json : NULL;
    json_t *denied = json_array(), *json = text ? atoll_json_load_own(text) : NULL;
    struct atoll_network_policy *policy = NULL;
    struct atoll_error error;

    if (json && atoll_network_policy_parse(json, &policy, &error) == 0)
        for (size_t i = 0; i < json_array_size(hosts); i++)
            if (!atoll_network_decide_name(policy, json_string_value(json_array_get(hosts, i)))
                     .allow)
                (void)json_array_append(denied, json_array_get(hosts, i));
    (void)atoll_network_policy_free(policy);
    json_decref(json);
    return denied;
}

void atoll_task_list_hosts(const json_t *hosts, struct atoll_buf *out)
{
    for (size_t i = 0; i < json_array_size(hosts); i++)
        (void)!atoll_buf_appendf(out, "%s%s", i ? ", " : "",
                                 json_string_value(json_array_get(hosts, i)));
}

bool atoll_task_owns_network(const struct atoll_task *task)
{
    return json_is_true(json_object_get(task->facts, ATOLL_TASK_OWN_NETWORK));
}

void atoll_task_allow_hosts(struct atoll_task *task, const json_t *hosts, const char *what,
                            atoll_done_fn *done)
{
    struct atoll_sandbox_view view;
    const char *was = atoll_task_has_network(task, &view) ? view.options.network_json : NULL;
    json_t *policy = was ? atoll_json_load_own(was) : NULL;
    json_t *rules = json_object_get(policy, "rules");
    struct atoll_error error;
    struct atoll_buf names;
    char *text;

    for (size_t i = 0; i < json_array_size(hosts); i++)
        (void)json_array_append_new(rules, json_pack("{s:O}", "allow", json_array_get(hosts, i)));
    text = rules ? atoll_json_dump(policy, JSON_COMPACT) : NULL;
    atoll_buf_init(&names, 4096);
    atoll_task_list_hosts(hosts, &names);
    if (text) {
        atoll_task_log(task, "info", "the sandbox may reach %s, for %s", atoll_buf_str(&names),
                       what);
        atoll_engine_set_network(task->tasks->config.engine, atoll_task_fact(task, "sandbox_id"),
                                 text, done, task);
    } else {
        (void)atoll_fail(&error, ATOLL_ERR_INTERNAL, 0, "the hosts for %s could not be allowed",
                         what);
        done(task, &error);
    }
    atoll_buf_done(&names);
    free(text);
    json_decref(policy);
}
