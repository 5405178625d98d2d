#include "client/compose.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#define MIB (1024.0 * 1024)
#define ITEMS_MAX 4096

static int no_memory(struct atoll_error *err)
{
    return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, ENOMEM, "no memory for the request");
}

int atoll_compose_number(json_t *request, const char *key, double value)
{
    bool whole = value == floor(value) && value < 9e15;

    if (!(value > 0))
        return 0;
    return json_object_set_new(request, key,
                               whole ? json_integer((json_int_t)value) : json_real(value));
}

/* json_string() returns NULL for text that is not valid UTF-8. */
int atoll_compose_text(json_t *request, const char *key, const char *text, struct atoll_error *err)
{
    if (text && json_object_set_new(request, key, json_string(text)) < 0)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EILSEQ, "%s is not valid UTF-8", key);
    return 0;
}

static int add_pair(json_t *object, const char *key, const char *item, struct atoll_error *err)
{
    size_t n = strcspn(item, "=");

    if (n == 0 || !item[n])
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "%s: \"%.80s\" is not NAME=VALUE", key, item);
    if (json_object_setn_new(object, item, n, json_string(item + n + 1)) < 0)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EILSEQ, "%s: %.*s is not valid UTF-8",
                          key, (int)ATOLL_MIN(n, (size_t)80), item);
    return 0;
}

static int too_many(const char *key, struct atoll_error *err)
{
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, E2BIG, "%s: more than %d", key, ITEMS_MAX);
}

int atoll_compose_pairs(json_t *request, const char *key, const char *const *items,
                        struct atoll_error *err)
{
    json_t *object = json_object_get(request, key);
    int r = 0;

    if (!items || !items[0])
        return 0;
    if (!object && json_object_set_new(request, key, json_object()) < 0)
        return no_memory(err);
    object = json_object_get(request, key);
    for (size_t i = 0; r == 0 && items[i]; i++)
        r = i < ITEMS_MAX ? add_pair(object, key, items[i], err) : too_many(key, err);
    return r;
}

static int add_texts(json_t *request, const char *key, const char *const *items,
                     struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *array = json_array();

    for (size_t i = 0; items && items[i]; i++) {
        if (i >= ITEMS_MAX)
            return too_many(key, err);
        if (json_array_append_new(array, json_string(items[i])) < 0)
            return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EILSEQ,
                              "%s: \"%.80s\" is not valid UTF-8", key, items[i]);
    }
    if (json_array_size(array) > 0 && json_object_set(request, key, array) < 0)
        return no_memory(err);
    return 0;
}

static int add_limits(json_t *request, const struct atoll_client_sandbox_options *o,
                      struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *limits = json_object();

    if (atoll_compose_number(limits, "memoryMB", ceil((double)o->memory_bytes / MIB)) < 0 ||
        atoll_compose_number(limits, "diskMB", ceil((double)o->disk_bytes / MIB)) < 0 ||
        atoll_compose_number(limits, "pids", (double)o->pids) < 0 ||
        atoll_compose_number(limits, "cpuCores", o->cpus) < 0 ||
        atoll_compose_number(limits, "ioMbps", o->io_mbps) < 0 ||
        atoll_compose_number(limits, "timeoutSeconds", o->timeout_seconds) < 0 ||
        (json_object_size(limits) > 0 && json_object_set(request, "limits", limits) < 0))
        return no_memory(err);
    return 0;
}

static int add_lifetime(json_t *request, const struct atoll_client_sandbox_options *o,
                        struct atoll_error *err)
{
    static const char *const names[] = {
        [ATOLL_CLIENT_AT_DEADLINE_DESTROY] = "destroy",
        [ATOLL_CLIENT_AT_DEADLINE_PAUSE] = "pause",
    };
    ATOLL_AUTOJSON json_t *lifetime = json_object();
    unsigned at = (unsigned)o->at_deadline;

    if (at >= ATOLL_ARRAY_LEN(names))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "at_deadline is not a valid value");
    if (atoll_compose_number(lifetime, "idleSeconds", o->idle_seconds) < 0 ||
        atoll_compose_number(lifetime, "leaseSeconds", o->lease_seconds) < 0 ||
        atoll_compose_number(lifetime, "cpuSeconds", o->cpu_budget_seconds) < 0 ||
        atoll_compose_number(lifetime, "outputBytes", (double)o->output_budget_bytes) < 0 ||
        atoll_compose_text(lifetime, "onDeadline", names[at], err) < 0 ||
        (json_object_size(lifetime) > 0 && json_object_set(request, "lifetime", lifetime) < 0) ||
        (o->persistent && json_object_set_new(request, "persistent", json_true()) < 0))
        return no_memory(err);
    return 0;
}

static int add_network(json_t *request, const struct atoll_client_sandbox_options *o,
                       struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *network = json_object();
    int r = atoll_compose_text(request, "networkMode", o->network_mode, err);

    if (r == 0)
        r = add_texts(network, "allow", o->network_allow, err);
    if (r == 0)
        r = add_texts(network, "deny", o->network_deny, err);
    if (r == 0)
        r = atoll_compose_text(network, "name", o->network_name, err);
    if (r == 0 &&
        ((json_object_size(network) > 0 && json_object_set(request, "network", network) < 0) ||
         atoll_compose_number(request, "networkMbps", (double)o->network_mbps) < 0))
        r = no_memory(err);
    return r;
}

int atoll_compose_sandbox(json_t *request, const struct atoll_client_sandbox_options *options,
                          struct atoll_error *err)
{
    struct atoll_client_sandbox_options o;
    int r = atoll_link_import(&o, sizeof(o), options, err);

    if (r == 0)
        r = atoll_compose_text(request, "template", o.template_name, err);
    if (r == 0)
        r = atoll_compose_text(request, "provider", o.provider, err);
    if (r == 0)
        r = atoll_compose_text(request, "image", o.image, err);
    if (r == 0)
        r = atoll_compose_text(request, "isolation", o.isolation, err);
    if (r == 0)
        r = add_network(request, &o, err);
    if (r == 0 && o.recreate && json_object_set_new(request, "recreate", json_true()) < 0)
        r = no_memory(err);
    if (r == 0)
        r = add_limits(request, &o, err);
    if (r == 0)
        r = add_lifetime(request, &o, err);
    if (r == 0)
        r = atoll_compose_pairs(request, "env", o.env, err);
    if (r == 0)
        r = atoll_compose_pairs(request, "metadata", o.metadata, err);
    if (r == 0)
        r = add_texts(request, "waive", o.waive, err);
    return r < 0 ? r : add_texts(request, "artifacts", o.artifacts, err);
}

int atoll_compose_command(json_t *request, const struct atoll_client_command *command,
                          struct atoll_error *err)
{
    struct atoll_client_command c;
    int r = atoll_link_import(&c, sizeof(c), command, err);

    if (r == 0 && c.argv && !c.argv[0])
        r = atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "there is no command to run");
    if (r == 0 && c.argv)
        r = add_texts(request, "cmd", c.argv, err);
    if (r == 0)
        r = atoll_compose_text(request, "user", c.user, err);
    if (r == 0)
        r = atoll_compose_text(request, "cwd", c.cwd, err);
    if (r == 0)
        r = atoll_compose_pairs(request, "env", c.env, err);
    if (r == 0 && atoll_compose_number(request, "timeoutSeconds", c.timeout_seconds) < 0)
        r = no_memory(err);
    return r;
}
