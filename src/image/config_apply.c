#include "image/config_apply.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include "base/buf.h"
#include "base/text.h"
#include "image/recipe_internal.h"

#define PATH_BYTES_MAX 4096
#define PORT_MAX 65535

struct change {
    json_t *config;
    const struct atoll_recipe_step *step;
    bool *cmd_set;
    struct atoll_error *err;
};

static int no_memory(struct change *c)
{
    return atoll_fail(c->err, ATOLL_ERR_RESOURCE_EXHAUSTED, ENOMEM, "no memory for the config");
}

static int set(struct change *c, const char *name, json_t *value)
{
    return json_object_set_new_nocheck(c->config, name, value) == 0 ? 0 : no_memory(c);
}

/* The member of that name, made if it has another type. Borrowed. */
static json_t *need(json_t *config, const char *name, json_type type)
{
    json_t *value = json_object_get(config, name);

    if (value && json_typeof(value) == type)
        return value;
    value = type == JSON_ARRAY ? json_array() : json_object();
    return json_object_set_new(config, name, value) == 0 ? value : NULL;
}

static json_t *words(const struct atoll_recipe_step *step, const char *first)
{
    json_t *array = json_array();

    if (first)
        (void)json_array_append_new(array, json_string(first));
    for (size_t i = 0; i < step->arg_count; i++)
        (void)json_array_append_new(array, json_string_nocheck(step->args[i]));
    return array;
}

json_t *atoll_image_config_shell(const json_t *config, const char *text)
{
    const json_t *shell = json_object_get(config, "Shell");
    json_t *array = json_array_size(shell) > 0 ? json_copy((json_t *)(uintptr_t)shell)
                                               : json_pack("[ss]", "/bin/sh", "-c");

    (void)json_array_append_new(array, json_string_nocheck(text));
    return array;
}

static json_t *command(struct change *c)
{
    if (c->step->json)
        return words(c->step, NULL);
    return atoll_image_config_shell(c->config, c->step->args[0]);
}

static int apply_cmd(struct change *c)
{
    *c->cmd_set = true;
    return set(c, "Cmd", command(c));
}

static int apply_entrypoint(struct change *c)
{
    if (!*c->cmd_set)
        (void)json_object_del(c->config, "Cmd");
    return set(c, "Entrypoint", command(c));
}

static int apply_shell(struct change *c)
{
    return set(c, "Shell", words(c->step, NULL));
}

/* Where NAME=… is in Env; its size if it is not there. */
static size_t find_env(const json_t *env, const char *name)
{
    size_t n = strlen(name), i;

    for (i = 0; i < json_array_size(env); i++) {
        const char *entry = json_string_value(json_array_get(env, i));
        if (entry && strncmp(entry, name, n) == 0 && entry[n] == '=')
            break;
    }
    return i;
}

static int set_env(struct change *c, json_t *env, const struct atoll_recipe_pair *pair)
{
    size_t at = find_env(env, pair->name);
    struct atoll_buf text;
    json_t *entry = NULL;
    int r;

    atoll_buf_init(&text, ATOLL_RECIPE_MEMORY_MAX);
    if (atoll_buf_appendf(&text, "%s=%s", pair->name, pair->value) == 0)
        entry = json_string_nocheck(atoll_buf_str(&text));
    atoll_buf_done(&text);
    r = at < json_array_size(env) ? json_array_set_new(env, at, entry)
                                  : json_array_append_new(env, entry);
    return r == 0 ? 0 : no_memory(c);
}

static int apply_env(struct change *c)
{
    json_t *env = need(c->config, "Env", JSON_ARRAY);
    int r = env ? 0 : no_memory(c);

    for (size_t i = 0; r == 0 && i < c->step->pair_count; i++)
        r = set_env(c, env, &c->step->pairs[i]);
    return r;
}

static int apply_label(struct change *c)
{
    json_t *labels = need(c->config, "Labels", JSON_OBJECT);

    for (size_t i = 0; i < c->step->pair_count; i++)
        if (json_object_set_new_nocheck(labels, c->step->pairs[i].name,
                                        json_string_nocheck(c->step->pairs[i].value)) < 0)
            return no_memory(c);
    return 0;
}

static int apply_volume(struct change *c)
{
    json_t *volumes = need(c->config, "Volumes", JSON_OBJECT);

    for (size_t i = 0; i < c->step->arg_count; i++) {
        if (!*c->step->args[i])
            return atoll_recipe_refuse(c->err, 0, "VOLUME has an empty path");
        if (json_object_set_new_nocheck(volumes, c->step->args[i], json_object()) < 0)
            return no_memory(c);
    }
    return 0;
}

static int refuse_port(struct change *c, const char *word)
{
    return atoll_recipe_refuse(c->err, 0, "EXPOSE %.40s: a port is 80, 80/tcp, 53/udp or 7000-7010",
                               word);
}

/* "80", "80-90", with or without "/protocol"; Docker also accepts "host:80" and ignores the host. */
static int expose(struct change *c, json_t *ports, const char *word)
{
    const char *colon = strrchr(word, ':'), *p = colon ? colon + 1 : word;
    size_t n = strcspn(p, "/"), first_len = strcspn(p, "-/");
    const char *protocol = p[n] && p[n + 1] ? p + n + 1 : "tcp";
    char first[8], last[8], name[32];
    uint64_t from, to;

    if (first_len >= sizeof(first) || n - first_len > sizeof(last) ||
        (strcasecmp(protocol, "tcp") != 0 && strcasecmp(protocol, "udp") != 0 &&
         strcasecmp(protocol, "sctp") != 0))
        return refuse_port(c, word);
    (void)snprintf(first, sizeof(first), "%.*s", (int)first_len, p);
    (void)snprintf(last, sizeof(last), "%.*s", (int)(n - first_len), p + first_len);
    if (atoll_text_u64(first, 0, PORT_MAX, &from) < 0)
        return refuse_port(c, word);
    to = from;
    if (*last && atoll_text_u64(last + 1, from, PORT_MAX, &to) < 0)
        return refuse_port(c, word);
    for (; from <= to; from++) {
        (void)snprintf(name, sizeof(name), "%u/%c%c%c%s", (unsigned)from, protocol[0] | ' ',
                       protocol[1] | ' ', protocol[2] | ' ', protocol[3] ? "p" : "");
        if (json_object_set_new(ports, name, json_object()) < 0)
            return no_memory(c);
    }
    return 0;
}

static int apply_expose(struct change *c)
{
    json_t *ports = need(c->config, "ExposedPorts", JSON_OBJECT);
    int r = 0;

    for (size_t i = 0; r == 0 && i < c->step->arg_count; i++)
        r = expose(c, ports, c->step->args[i]);
    return r;
}

/* Appends the components of a path to a clean absolute one. -ENAMETOOLONG. */
static int join_path(char *out, size_t cap, const char *path)
{
    size_t len = strlen(out);

    while (*path) {
        size_t n = strcspn(path, "/");
        if (n == 2 && memcmp(path, "..", 2) == 0) {
            while (len > 0 && out[--len] != '/')
                ;
        } else if (n > 0 && !(n == 1 && *path == '.')) {
            if (len + n + 2 > cap)
                return -ENAMETOOLONG;
            out[len++] = '/';
            memcpy(out + len, path, n);
            len += n;
        }
        out[len] = '\0';
        path += n + (path[n] == '/');
    }
    return 0;
}

static int apply_workdir(struct change *c)
{
    const char *before = json_string_value(json_object_get(c->config, "WorkingDir"));
    const char *path = c->step->args[0];
    char out[PATH_BYTES_MAX] = "";
    int r = 0;

    if (!*path)
        return atoll_recipe_refuse(c->err, 0, "WORKDIR is empty: a variable has no value");
    if (*path != '/' && before)
        r = join_path(out, sizeof(out), before);
    if (r == 0)
        r = join_path(out, sizeof(out), path);
    if (r < 0)
        return atoll_recipe_refuse(c->err, 0, "WORKDIR is longer than %d bytes", PATH_BYTES_MAX);
    return set(c, "WorkingDir", json_string_nocheck(*out ? out : "/"));
}

static int apply_user(struct change *c)
{
    return set(c, "User", json_string_nocheck(c->step->args[0]));
}

static bool is_signal(const char *text)
{
    uint64_t number;

    if (atoll_text_u64(text, 1, (uint64_t)SIGRTMAX, &number) == 0)
        return true;
    if (strncasecmp(text, "SIG", 3) == 0)
        text += 3;
    if (strncasecmp(text, "RTMIN", 5) == 0 || strncasecmp(text, "RTMAX", 5) == 0)
        return !text[5] || ((text[5] == '+' || text[5] == '-') &&
                            atoll_text_u64(text + 6, 0, 30, &number) == 0);
    for (int i = 1; i < __SIGRTMIN; i++)
        if (sigabbrev_np(i) && strcasecmp(sigabbrev_np(i), text) == 0)
            return true;
    return false;
}

static int apply_stopsignal(struct change *c)
{
    if (!is_signal(c->step->args[0]))
        return atoll_recipe_refuse(c->err, 0, "STOPSIGNAL %.40s: not a signal; for example SIGTERM",
                                   c->step->args[0]);
    return set(c, "StopSignal", json_string_nocheck(c->step->args[0]));
}

static int apply_onbuild(struct change *c)
{
    json_t *triggers = need(c->config, "OnBuild", JSON_ARRAY);

    return json_array_append_new(triggers, json_string_nocheck(c->step->args[0])) == 0
               ? 0
               : no_memory(c);
}

static int apply_healthcheck(struct change *c)
{
    const struct atoll_recipe_health *health = &c->step->health;
    const struct {
        const char *name;
        int64_t value;
    } numbers[] = {{"Interval", health->interval_ns},
                   {"Timeout", health->timeout_ns},
                   {"StartPeriod", health->start_ns},
                   {"StartInterval", health->start_interval_ns},
                   {"Retries", health->retries}};
    json_t *object = json_object();

    (void)json_object_set_new(object, "Test",
                              words(c->step, health->none    ? "NONE"
                                             : c->step->json ? "CMD"
                                                             : "CMD-SHELL"));
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(numbers); i++)
        if (numbers[i].value > 0)
            (void)json_object_set_new(object, numbers[i].name, json_integer(numbers[i].value));
    return set(c, "Healthcheck", object);
}

static int (*const changes[ATOLL_RECIPE_KINDS])(struct change *c) = {
    [ATOLL_RECIPE_CMD] = apply_cmd,
    [ATOLL_RECIPE_ENTRYPOINT] = apply_entrypoint,
    [ATOLL_RECIPE_ENV] = apply_env,
    [ATOLL_RECIPE_EXPOSE] = apply_expose,
    [ATOLL_RECIPE_HEALTHCHECK] = apply_healthcheck,
    [ATOLL_RECIPE_LABEL] = apply_label,
    [ATOLL_RECIPE_ONBUILD] = apply_onbuild,
    [ATOLL_RECIPE_SHELL] = apply_shell,
    [ATOLL_RECIPE_STOPSIGNAL] = apply_stopsignal,
    [ATOLL_RECIPE_USER] = apply_user,
    [ATOLL_RECIPE_VOLUME] = apply_volume,
    [ATOLL_RECIPE_WORKDIR] = apply_workdir,
};

int atoll_image_config_apply(json_t *config, const struct atoll_recipe_step *step, bool *cmd_set,
                             struct atoll_error *err)
{
    struct change c = {config, step, cmd_set, err};

    if (changes[step->kind] && changes[step->kind](&c) < 0)
        return atoll_recipe_at_line(err, step->line);
    return 0;
}
