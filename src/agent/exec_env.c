/*
 * The environment of a command: a few defaults of its user, then the request's variables.
 * ATOLL_EXEC marks every process of a command that keeps its environment; tree.c searches for it.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "agent/agent_internal.h"
#include "base/switches.h"

#define DEFAULTS_MAX 10

/* The length of NAME in NAME=VALUE; 0 if malformed. */
static size_t name_len(const char *var)
{
    const char *eq = strchr(var, '=');
    return eq ? (size_t)(eq - var) : 0;
}

static bool same_name(const char *a, const char *b)
{
    size_t n = name_len(a);
    return n == name_len(b) && strncmp(a, b, n) == 0;
}

/* Writes the defaults into env->text, one after the other. */
static int add_defaults(struct atoll_agent_env *env, const struct atoll_agent_env_spec *spec)
{
    const struct atoll_agent_user *u = spec->user;
    const struct {
        const char *name, *value;
    } defaults[] = {
        {ATOLL_AGENT_MARK, spec->mark},
        {"PATH=", ATOLL_AGENT_PATH_DEFAULT},
        {"HOME=", u->home},
        {"USER=", u->name},
        {"LOGNAME=", u->name},
        {"SHELL=", u->shell},
        {"LANG=", "C.UTF-8"},
        /* Debian's pip refuses to install into the system's Python (PEP 668) otherwise. */
        {"PIP_BREAK_SYSTEM_PACKAGES=", "1"},
        {"TERM=", spec->terminal ? "xterm-256color" : NULL},
    };
    size_t size = 0, at = 0;

    _Static_assert(ATOLL_ARRAY_LEN(defaults) < DEFAULTS_MAX, "room for every default");
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(defaults); i++)
        if (defaults[i].value)
            size += strlen(defaults[i].name) + strlen(defaults[i].value) + 1;
    env->text = malloc(size);
    if (!env->text)
        return -ENOMEM;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(defaults); i++) {
        if (!defaults[i].value)
            continue;
        env->vars[env->len++] = env->text + at;
        at += (size_t)snprintf(env->text + at, size - at, "%s%s", defaults[i].name,
                               defaults[i].value) +
              1;
    }
    return 0;
}

static void put(struct atoll_agent_env *env, size_t defaults, const char *var)
{
    char *borrowed = (char *)(uintptr_t)var;

    for (size_t i = 0; i < defaults; i++)
        if (same_name(env->vars[i], var)) {
            env->vars[i] = borrowed;
            return;
        }
    env->vars[env->len++] = borrowed;
}

int atoll_agent_env_init(struct atoll_agent_env *env, const struct atoll_agent_env_spec *spec,
                         struct atoll_error *err)
{
    size_t defaults, base_len = 0, leaked_len = 0;
    int r = 0;

    while (spec->base && spec->base[base_len])
        base_len++;
    while (atoll_weakened("environment") && environ[leaked_len])
        leaked_len++;
    *env = (struct atoll_agent_env){
        .vars =
            calloc(base_len + leaked_len + spec->extra_len + DEFAULTS_MAX + 1, sizeof(*env->vars))};
    if (!env->vars || add_defaults(env, spec) < 0) {
        atoll_agent_env_done(env);
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, ENOMEM,
                          "out of memory for the environment");
    }
    defaults = env->len;
    for (size_t i = 0; i < leaked_len; i++)
        put(env, defaults, environ[i]);
    for (size_t i = 0; i < base_len; i++)
        if (!same_name(spec->base[i], ATOLL_AGENT_MARK))
            put(env, defaults, spec->base[i]);
    defaults = env->len;
    for (size_t i = 0; i < spec->extra_len && r == 0; i++) {
        if (name_len(spec->extra[i]) == 0)
            r = atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                           "environment entry %zu is not of the form NAME=VALUE", i + 1);
        else if (!same_name(spec->extra[i], ATOLL_AGENT_MARK))
            put(env, defaults, spec->extra[i]);
    }
    if (r < 0)
        atoll_agent_env_done(env);
    return r;
}

const char *atoll_agent_env_get(const struct atoll_agent_env *env, const char *name)
{
    size_t n = strlen(name);

    for (size_t i = 0; i < env->len; i++)
        if (name_len(env->vars[i]) == n && strncmp(env->vars[i], name, n) == 0)
            return env->vars[i] + n + 1;
    return "";
}

void atoll_agent_env_done(struct atoll_agent_env *env)
{
    free(env->vars);
    free(env->text);
    *env = (struct atoll_agent_env){0};
}
