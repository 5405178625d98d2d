/*
 * How it works: every operation becomes a request with the sandbox as JSON, and its answer becomes
 * the result that sync.h defines. The program is asked for its capabilities once, when the provider
 * is opened.
 */
#include "provider/plugin/plugin.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/text.h"
#include "provider/plugin/process.h"
#include "sandbox/stack.h"
#include "sys/unix_socket.h"

#define PROTOCOL_VERSION 1
#define DESCRIBE_MS 5000
#define LISTED_MAX 65536

struct plugin {
    struct atoll_sync_provider base;
    struct atoll_sync_ops ops; /* the operations that the program supports */
    char name[65], isolation[33];
    uint32_t enforced; /* ATOLL_LIMIT_* */
    struct atoll_plugin_process *process;
};

static struct plugin *plugin_of(struct atoll_sync_provider *p)
{
    return ATOLL_CONTAINER_OF(p, struct plugin, base);
}

/* A sandbox as JSON. */

static const char *const networks[] = {
    [ATOLL_NETWORK_NONE] = "none",
    [ATOLL_NETWORK_ISOLATED] = "isolated",
    [ATOLL_NETWORK_BRIDGE] = "bridge",
};

static const struct {
    const char *name;
    uint32_t bit;
} limit_names[] = {
    {"memory", ATOLL_LIMIT_MEMORY}, {"cpu", ATOLL_LIMIT_CPU}, {"pids", ATOLL_LIMIT_PIDS},
    {"disk", ATOLL_LIMIT_DISK},     {"io", ATOLL_LIMIT_IO},
};

/* Waived limits are sent as 0: not enforced. */
static json_t *limits_json(const struct atoll_limits *l, uint32_t waived)
{
    return json_pack("{sI,si,si,sI,sI,sI}", "memory_bytes",
                     (json_int_t)(waived & ATOLL_LIMIT_MEMORY ? 0 : l->memory_bytes), "cpu_millis",
                     waived & ATOLL_LIMIT_CPU ? 0 : (int)l->cpu_millis, "pids",
                     waived & ATOLL_LIMIT_PIDS ? 0 : (int)l->pids, "disk_bytes",
                     (json_int_t)(waived & ATOLL_LIMIT_DISK ? 0 : l->disk_bytes), "io_bytes",
                     (json_int_t)(waived & ATOLL_LIMIT_IO ? 0 : l->io_bytes), "timeout_s",
                     (json_int_t)l->timeout_s);
}

static json_t *strings_json(const char *const *strings)
{
    json_t *array = json_array();

    for (size_t i = 0; strings && strings[i]; i++)
        (void)json_array_append_new(array, json_string(strings[i]));
    return array;
}

static json_t *request(const char *op, const struct atoll_sync_call *call)
{
    return json_pack("{ss,si}", "op", op, "timeout_ms", atoll_sync_left_ms(call));
}

/* The fields by which the program finds a sandbox, needed by every operation. */
static json_t *request_about(const char *op, const struct atoll_sync_call *call,
                             const struct atoll_spec *spec)
{
    json_t *message = request(op, call);

    (void)json_object_set_new(message, "sandbox",
                              json_pack("{ss,ss}", "id", spec->id, "handle", spec->handle));
    return message;
}

static json_t *request_create(const struct atoll_sync_call *call, const struct atoll_spec *spec)
{
    json_t *message = request_about("create", call, spec);
    json_t *sandbox = json_object_get(message, "sandbox");
    json_t *metadata = spec->metadata_json ? json_loads(spec->metadata_json, 0, NULL) : NULL;

    (void)json_object_set_new(sandbox, "tenant", json_string(spec->tenant));
    (void)json_object_set_new(sandbox, "image", json_string(spec->image));
    (void)json_object_set_new(sandbox, "layer", json_string(atoll_stack_single(spec) ?: ""));
    (void)json_object_set_new(sandbox, "layers", json_string(spec->layers ?: ""));
    (void)json_object_set_new(sandbox, "network", json_string(networks[spec->network]));
    (void)json_object_set_new(sandbox, "limits", limits_json(&spec->limits, spec->waived));
    (void)json_object_set_new(sandbox, "env", strings_json(spec->env));
    (void)json_object_set_new(sandbox, "metadata", metadata ? metadata : json_object());
    return message;
}

/* Streams to the agent. */

static int bad_answer(struct atoll_error *err, const char *what)
{
    return atoll_fail(err, ATOLL_ERR_INTERNAL, EBADMSG, "the plugin's answer has no usable %s",
                      what);
}

static int connect_path(const char *path, int *ret_fd, struct atoll_error *err)
{
    char dir[4096];
    const char *slash = strrchr(path, '/');
    int fd;

    if (path[0] != '/' || slash - path >= (ptrdiff_t)sizeof(dir))
        return bad_answer(err, "\"connect\": it must be unix: and an absolute path");
    (void)snprintf(dir, sizeof(dir), "%.*s", (int)(slash - path), path);
    fd = atoll_unix_connect(*dir ? dir : "/", slash + 1);
    if (fd < 0)
        return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, -fd, "the agent does not answer: %s",
                          strerror(-fd));
    *ret_fd = fd;
    return 0;
}

/* SO_LINGER off: a closed socket must not block the thread that closes it. */
static int accept_socket(int fd, int *ret_fd, struct atoll_error *err)
{
    const struct linger off = {0};
    int type = 0, flags = fcntl(fd, F_GETFL);
    socklen_t len = sizeof(type);

    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) < 0 || type != SOCK_STREAM ||
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &off, sizeof(off)) < 0 || flags < 0 ||
        fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0) {
        (void)close(fd);
        return bad_answer(err, "descriptor: it must be a connected stream socket");
    }
    *ret_fd = fd;
    return 0;
}

/* Takes the stream from "connect": "unix:/path" or from the descriptor that came with the
 * answer. fd: ownership passes. */
static int take_stream(const json_t *answer, int fd, int *ret_fd, struct atoll_error *err)
{
    const char *where = json_string_value(json_object_get(answer, "connect"));

    if (fd >= 0)
        return accept_socket(fd, ret_fd, err);
    if (where && strncmp(where, "unix:", 5) == 0)
        return connect_path(where + 5, ret_fd, err);
    return bad_answer(err, "\"connect\" or descriptor");
}

/* The operations of sync.h. */

static uint32_t missing_limits(const struct atoll_sync_provider *p, const struct atoll_spec *spec)
{
    const struct plugin *plugin = ATOLL_CONTAINER_OF(p, const struct plugin, base);

    (void)spec;
    return ATOLL_LIMIT_ALL & ~plugin->enforced;
}

/* Sends a request and drops the answer. */
static int tell(struct atoll_sync_provider *p, const struct atoll_sync_call *call, json_t *message,
                struct atoll_error *err)
{
    json_t *answer = NULL;
    int r = atoll_plugin_ask(plugin_of(p)->process, call, message, &answer, NULL, err);

    json_decref(answer);
    return r;
}

static int create(struct atoll_sync_provider *p, const struct atoll_sync_call *call,
                  struct atoll_spec *spec, int *ret_fd, struct atoll_error *err)
{
    json_t *answer = NULL;
    const char *handle;
    struct atoll_error ignored;
    int fd = ATOLL_NO_FD;
    int r = atoll_plugin_ask(plugin_of(p)->process, call, request_create(call, spec), &answer, &fd,
                             err);

    if (r < 0)
        return r;
    handle = json_string_value(json_object_get(answer, "handle"));
    r = take_stream(answer, fd, ret_fd, err);
    if (r == 0 && handle && atoll_text_copy(spec->handle, sizeof(spec->handle), handle) < 0) {
        (void)close(*ret_fd);
        r = bad_answer(err, "\"handle\": it must be at most 128 characters");
    }
    if (r < 0)
        (void)tell(p, call, request_about("destroy", call, spec), &ignored);
    json_decref(answer);
    return r;
}

static int dial(struct atoll_sync_provider *p, const struct atoll_sync_call *call,
                const struct atoll_spec *spec, int *ret_fd, struct atoll_error *err)
{
    json_t *answer = NULL;
    int fd = ATOLL_NO_FD;
    int r = atoll_plugin_ask(plugin_of(p)->process, call, request_about("dial", call, spec),
                             &answer, &fd, err);

    if (r == 0)
        r = take_stream(answer, fd, ret_fd, err);
    json_decref(answer);
    return r;
}

static int look(struct atoll_sync_provider *p, const struct atoll_sync_call *call,
                const struct atoll_spec *spec, struct atoll_provider_inspection *ret,
                struct atoll_error *err)
{
    static const char *const states[] = {
        [ATOLL_INSPECT_ALIVE] = "alive",
        [ATOLL_INSPECT_PAUSED] = "paused",
        [ATOLL_INSPECT_EXITED] = "exited",
        [ATOLL_INSPECT_GONE] = "gone",
    };
    json_t *answer = NULL;
    const char *state, *cause;
    size_t i = 0;
    int r = atoll_plugin_ask(plugin_of(p)->process, call, request_about("inspect", call, spec),
                             &answer, NULL, err);

    if (r < 0)
        return r;
    state = json_string_value(json_object_get(answer, "state"));
    cause = json_string_value(json_object_get(answer, "cause"));
    while (state && i < ATOLL_ARRAY_LEN(states) && strcmp(state, states[i]) != 0)
        i++;
    if (!state || i == ATOLL_ARRAY_LEN(states)) {
        r = bad_answer(err, "\"state\": it must be alive, paused, exited or gone");
    } else {
        *ret = (struct atoll_provider_inspection){0};
        ret->state = i;
        ret->exit.code = (int)json_integer_value(json_object_get(answer, "exit_code"));
        ret->oom = json_is_true(json_object_get(answer, "oom"));
        (void)snprintf(ret->cause, sizeof(ret->cause), "%s", cause ? cause : "");
    }
    json_decref(answer);
    return r;
}

static int list(struct atoll_sync_provider *p, const struct atoll_sync_call *call,
                void (*each)(void *arg, const char *id, const char *handle, bool alive), void *arg,
                struct atoll_error *err)
{
    json_t *answer = NULL, *sandboxes;
    int r =
        atoll_plugin_ask(plugin_of(p)->process, call, request("list", call), &answer, NULL, err);

    if (r < 0)
        return r;
    sandboxes = json_object_get(answer, "sandboxes");
    if (!json_is_array(sandboxes) || json_array_size(sandboxes) > LISTED_MAX)
        r = bad_answer(err, "\"sandboxes\": it must be an array");
    for (size_t i = 0; r == 0 && i < json_array_size(sandboxes); i++) {
        const json_t *one = json_array_get(sandboxes, i);
        const char *id = json_string_value(json_object_get(one, "id"));
        const char *handle = json_string_value(json_object_get(one, "handle"));
        if (id && strlen(id) == ATOLL_ID_LEN && atoll_text_is_id(id))
            each(arg, id, handle ? handle : "", json_is_true(json_object_get(one, "alive")));
    }
    json_decref(answer);
    return r;
}

static int destroy(struct atoll_sync_provider *p, const struct atoll_sync_call *call,
                   const struct atoll_spec *spec, struct atoll_error *err)
{
    return tell(p, call, request_about("destroy", call, spec), err);
}

static int pause_it(struct atoll_sync_provider *p, const struct atoll_sync_call *call,
                    const struct atoll_spec *spec, struct atoll_error *err)
{
    return tell(p, call, request_about("pause", call, spec), err);
}

static int resume(struct atoll_sync_provider *p, const struct atoll_sync_call *call,
                  const struct atoll_spec *spec, struct atoll_error *err)
{
    return tell(p, call, request_about("resume", call, spec), err);
}

static int set_limits(struct atoll_sync_provider *p, const struct atoll_sync_call *call,
                      const struct atoll_spec *spec, const struct atoll_limits *limits,
                      struct atoll_error *err)
{
    json_t *message = request_about("set_limits", call, spec);

    (void)json_object_set_new(message, "limits", limits_json(limits, spec->waived));
    return tell(p, call, message, err);
}

static int stats(struct atoll_sync_provider *p, const struct atoll_sync_call *call,
                 const struct atoll_spec *spec, struct atoll_provider_stats *ret,
                 struct atoll_error *err)
{
    json_t *answer = NULL;
    int r = atoll_plugin_ask(plugin_of(p)->process, call, request_about("stats", call, spec),
                             &answer, NULL, err);
    const struct {
        const char *name;
        uint64_t *to;
    } figures[] = {
        {"memory_bytes", &ret->memory_bytes},
        {"memory_peak_bytes", &ret->memory_peak_bytes},
        {"memory_limit_bytes", &ret->memory_limit_bytes},
        {"cpu_us", &ret->cpu_us},
        {"processes", &ret->processes},
        {"disk_bytes", &ret->disk_bytes},
        {"disk_limit_bytes", &ret->disk_limit_bytes},
    };

    if (r < 0)
        return r;
    *ret = (struct atoll_provider_stats){0};
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(figures); i++) {
        json_int_t value = json_integer_value(json_object_get(answer, figures[i].name));
        *figures[i].to = value > 0 ? (uint64_t)value : 0;
    }
    json_decref(answer);
    return 0;
}

static int health(struct atoll_sync_provider *p, const struct atoll_sync_call *call, char *detail,
                  size_t cap, struct atoll_error *err)
{
    json_t *answer = NULL;
    const char *text;
    int r =
        atoll_plugin_ask(plugin_of(p)->process, call, request("health", call), &answer, NULL, err);

    text = json_string_value(json_object_get(answer, "detail"));
    (void)snprintf(detail, cap, "%s", text ? text : "");
    json_decref(answer);
    return r;
}

static struct atoll_sync_provider *plugin_free(struct atoll_sync_provider *p)
{
    struct plugin *plugin = p ? plugin_of(p) : NULL;

    if (!plugin)
        return NULL;
    (void)atoll_plugin_process_free(plugin->process);
    free(plugin);
    return NULL;
}

static const struct atoll_sync_ops all_ops = {
    .missing_limits = missing_limits,
    .create = create,
    .dial = dial,
    .inspect = look,
    .list = list,
    .destroy = destroy,
    .pause = pause_it,
    .resume = resume,
    .set_limits = set_limits,
    .stats = stats,
    .health = health,
    .free = plugin_free,
};

/* Capabilities. */

static bool holds(const json_t *array, const char *text)
{
    for (size_t i = 0; i < json_array_size(array); i++) {
        const char *one = json_string_value(json_array_get(array, i));
        if (one && strcmp(one, text) == 0)
            return true;
    }
    return false;
}

static int take_description(struct plugin *plugin, const json_t *answer, struct atoll_error *err)
{
    const char *isolation = json_string_value(json_object_get(answer, "isolation"));
    const json_t *can = json_object_get(answer, "capabilities");
    const json_t *enforces = json_object_get(answer, "enforces");
    const json_t *modes = json_object_get(answer, "networks");
    struct atoll_provider_caps *caps = &plugin->ops.caps;

    if (json_integer_value(json_object_get(answer, "version")) != PROTOCOL_VERSION)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EPROTO,
                          "the plugin does not speak version %d of the protocol", PROTOCOL_VERSION);
    if (!isolation || atoll_text_copy(plugin->isolation, sizeof(plugin->isolation), isolation) < 0)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EPROTO,
                          "the plugin must give its \"isolation\" in at most 32 characters");
    *caps = (struct atoll_provider_caps){
        .isolation = plugin->isolation,
        .remote = holds(can, "remote"),
        .templates = holds(can, "templates"),
        .images = holds(can, "images"),
        .own_templates = holds(can, "own_templates"),
        .descriptors = holds(can, "descriptors"),
        .pause = holds(can, "pause"),
        .set_limits = holds(can, "set_limits"),
        .stats = holds(can, "stats"),
    };
    for (unsigned i = 0; i < ATOLL_ARRAY_LEN(networks); i++)
        caps->networks |= holds(modes, networks[i]) ? 1u << i : 0;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(limit_names); i++)
        plugin->enforced |= holds(enforces, limit_names[i].name) ? limit_names[i].bit : 0;
    return 0;
}

/* Removes the operations that the program does not support: checked.h refuses them. */
static void leave_out(struct atoll_sync_ops *ops)
{
    if (!ops->caps.pause)
        ops->pause = ops->resume = NULL;
    if (!ops->caps.set_limits)
        ops->set_limits = NULL;
    if (!ops->caps.stats)
        ops->stats = NULL;
}

static json_t *hello(const struct atoll_plugin_config *config)
{
    json_t *settings = config->settings_json ? json_loads(config->settings_json, 0, NULL) : NULL;

    return json_pack("{ss,si,ss,ss,ss,so}", "op", "hello", "version", PROTOCOL_VERSION, "provider",
                     config->name, "state_dir", config->state_dir, "agent", config->agent_path,
                     "settings", settings ? settings : json_object());
}

static int open_plugin(struct plugin *plugin, const struct atoll_plugin_config *config,
                       struct atoll_error *err)
{
    json_t *answer = NULL;
    int r;

    if (config->program[0] != '/')
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "\"program\" of a plugin must be an absolute path");
    if (mkdir(config->state_dir, 0700) < 0 && errno != EEXIST)
        return atoll_fail_errno(err, errno, "make the directory of a plugin");
    r = atoll_plugin_process_new(config->program, hello(config), &plugin->process, err);
    if (r == 0)
        r = atoll_plugin_describe(plugin->process, DESCRIBE_MS, &answer, err);
    if (r == 0)
        r = take_description(plugin, answer, err);
    json_decref(answer);
    return r;
}

int atoll_plugin_provider_new(const struct atoll_plugin_config *config,
                              struct atoll_sync_provider **ret, struct atoll_error *err)
{
    struct plugin *plugin = calloc(1, sizeof(*plugin));
    int r;

    if (!plugin)
        return atoll_fail_errno(err, ENOMEM, "plugin");
    plugin->base.ops = &plugin->ops;
    plugin->ops = all_ops;
    plugin->ops.name = plugin->name;
    (void)snprintf(plugin->name, sizeof(plugin->name), "%s", config->name);
    r = open_plugin(plugin, config, err);
    if (r < 0) {
        (void)plugin_free(&plugin->base);
        return atoll_wrap(err, "plugin %s", config->name);
    }
    leave_out(&plugin->ops);
    *ret = &plugin->base;
    return 0;
}
