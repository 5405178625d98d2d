/*
 * What sudo runs: the target user, the command or shell, and an environment that is reset as sudo
 * does. The caller's ATOLL_EXEC mark is kept, so that killing a command's tree includes processes
 * started with sudo.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "agent/sudo_internal.h"

#define COMMAND_TEXT_MAX 4096
#define MARK_DIGITS 16

/* Variables of the caller that survive the reset. */
static const char *const kept[] = {"TERM=", "LANG=", "LANGUAGE=", "LC_", "COLORTERM=", "TZ="};

static bool is_kept(const char *var)
{
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(kept); i++)
        if (strncmp(var, kept[i], strlen(kept[i])) == 0)
            return true;
    return false;
}

/* The caller's ATOLL_EXEC mark, if it is well formed. */
static bool find_mark(const struct atoll_strv *env, char mark[MARK_DIGITS + 1])
{
    size_t prefix = strlen(ATOLL_AGENT_MARK);

    for (size_t i = 0; i < env->len; i++) {
        const char *value = env->items[i] + prefix;
        if (strncmp(env->items[i], ATOLL_AGENT_MARK, prefix) != 0 ||
            strspn(value, "0123456789abcdef") != MARK_DIGITS || value[MARK_DIGITS] != '\0')
            continue;
        memcpy(mark, value, MARK_DIGITS + 1);
        return true;
    }
    return false;
}

/* The SUDO_ variables. */
struct sudo_vars {
    char user[ATOLL_AGENT_NAME_MAX + 16];
    char uid[32], gid[32];
    char command[COMMAND_TEXT_MAX];
    char home[ATOLL_AGENT_PATH_MAX / 4 + 8];
};

static void fill_sudo_vars(struct atoll_agent *a, const struct atoll_agent_sudo_caller *caller,
                           const struct atoll_sudo_run *run, const struct atoll_agent_user *target,
                           struct sudo_vars *t)
{
    char name[ATOLL_AGENT_NAME_MAX];
    size_t len;

    (void)snprintf(t->user, sizeof(t->user), "SUDO_USER=%s",
                   atoll_agent_user_name(a, caller->uid, name));
    (void)snprintf(t->uid, sizeof(t->uid), "SUDO_UID=%u", caller->uid);
    (void)snprintf(t->gid, sizeof(t->gid), "SUDO_GID=%u", caller->gid);
    (void)snprintf(t->home, sizeof(t->home), "HOME=%s", target->home);
    len = (size_t)snprintf(t->command, sizeof(t->command), "SUDO_COMMAND=%s",
                           run->argv.len == 0 ? target->shell : "");
    for (size_t i = 0; i < run->argv.len && len < sizeof(t->command); i++)
        len += (size_t)snprintf(t->command + len, sizeof(t->command) - len, "%s%s", i ? " " : "",
                                run->argv.items[i]);
}

/* The variables that override the defaults: kept ones, SUDO_*, then those of the command line. */
static size_t collect(const struct atoll_sudo_run *run, const struct sudo_vars *t, const char **out)
{
    size_t n = 0;

    for (size_t i = 0; i < run->env.len; i++)
        if (strchr(run->env.items[i], '=') > run->env.items[i] &&
            ((run->flags & ATOLL_SUDO_KEEP_ENV) || is_kept(run->env.items[i])))
            out[n++] = run->env.items[i];
    out[n++] = t->user;
    out[n++] = t->uid;
    out[n++] = t->gid;
    out[n++] = t->command;
    if (run->flags & (ATOLL_SUDO_HOME | ATOLL_SUDO_LOGIN))
        out[n++] = t->home;
    for (size_t i = 0; i < run->vars.len; i++)
        out[n++] = run->vars.items[i];
    return n;
}
#define COLLECTED_MORE 5

/* The arguments as one line for a shell, with special characters escaped by backslashes. */
static int quote_line(const struct atoll_strv *argv, struct atoll_buf *out)
{
    int r = 0;

    for (size_t i = 0; i < argv->len && r == 0; i++) {
        if (i > 0)
            r = atoll_buf_append(out, " ", 1);
        for (const char *p = argv->items[i]; *p && r == 0; p++)
            r = isalnum((unsigned char)*p) || strchr("_-$./,:=@+%", *p)
                    ? atoll_buf_append(out, p, 1)
                : *p == '\n' ? atoll_buf_append(out, "'\n'", 3)
                             : atoll_buf_appendf(out, "\\%c", *p);
    }
    return r < 0 ? r : atoll_buf_append(out, "", 1);
}

/* Builds argv: the command itself, or a shell that runs it. `argv` has room for all, and one slot
 * before argv[0]. */
static int build_argv(const struct atoll_sudo_run *run, const struct atoll_agent_user *target,
                      struct atoll_buf *line, const char **argv, struct atoll_error *err)
{
    size_t n = 0;

    if (!(run->flags & (ATOLL_SUDO_LOGIN | ATOLL_SUDO_SHELL))) {
        if (run->argv.len == 0)
            return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "no command was given");
        memcpy(argv, run->argv.items, run->argv.len * sizeof(*argv));
        return 0;
    }
    argv[n++] = target->shell;
    if (run->flags & ATOLL_SUDO_LOGIN)
        argv[n++] = "-l";
    if (run->argv.len > 0) {
        if (quote_line(&run->argv, line) < 0)
            return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, E2BIG, "the command is too long");
        argv[n++] = "-c";
        argv[n++] = (const char *)atoll_buf_head(line);
    }
    return 0;
}
#define ARGV_MORE 5

static int find_target(struct atoll_agent *a, const struct atoll_agent_sudo_caller *caller,
                       const struct atoll_sudo_run *run, struct atoll_agent_user *user,
                       struct atoll_error *err)
{
    char number[16];
    const char *name = *run->user ? run->user : "root";
    int r;

    if (!*run->user && *run->group) {
        (void)snprintf(number, sizeof(number), "%u", caller->uid);
        name = number;
    }
    /* "#N" is sudo's syntax for a numeric id. */
    r = atoll_agent_user_find(a, name[0] == '#' ? name + 1 : name, user, err);
    if (r == 0 && *run->group) {
        r = atoll_agent_group_find(a, run->group[0] == '#' ? run->group + 1 : run->group,
                                   &user->gid, err);
        user->groups[0] = user->gid;
    }
    return r;
}

static int check_caller(struct atoll_agent *a, const struct atoll_agent_sudo_caller *caller,
                        struct atoll_error *err)
{
    char name[ATOLL_AGENT_NAME_MAX];

    if (!a->config.many_ids)
        return atoll_fail(
            err, ATOLL_ERR_FAILED_PRECONDITION, EPERM,
            "sudo is not available here: only one user id is mapped into this sandbox");
    if (caller->uid != 0 && caller->uid != a->config.default_uid)
        return atoll_fail(err, ATOLL_ERR_PERMISSION_DENIED, EPERM, "%s may not use sudo here",
                          atoll_agent_user_name(a, caller->uid, name));
    return 0;
}

/* Everything that atoll_agent_sudo_start() allocates. */
struct plan {
    struct sudo_vars sudo;
    struct atoll_agent_user user;
    struct atoll_agent_env env;
    struct atoll_buf line;
    const char **argv, **vars; /* owned arrays */
    char mark[MARK_DIGITS + 1];
};

static void plan_done(struct plan *p)
{
    atoll_agent_env_done(&p->env);
    atoll_buf_done(&p->line);
    free(p->argv);
    free(p->vars);
}

static int plan_command(struct plan *p, struct atoll_agent *a,
                        const struct atoll_agent_sudo_caller *caller,
                        const struct atoll_sudo_run *run, struct atoll_error *err)
{
    struct atoll_agent_env_spec spec = {.user = &p->user};
    int r = find_target(a, caller, run, &p->user, err);

    if (r < 0)
        return r;
    atoll_buf_init(&p->line, 2 * ATOLL_FRAME_PAYLOAD_MAX);
    p->argv = calloc(1 + run->argv.len + ARGV_MORE, sizeof(*p->argv));
    p->vars = calloc(run->env.len + run->vars.len + COLLECTED_MORE, sizeof(*p->vars));
    if (!p->argv || !p->vars)
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, ENOMEM, "out of memory");
    r = build_argv(run, &p->user, &p->line, p->argv + 1, err);
    if (r < 0)
        return r;
    fill_sudo_vars(a, caller, run, &p->user, &p->sudo);
    spec.extra = p->vars;
    spec.extra_len = collect(run, &p->sudo, p->vars);
    spec.mark = find_mark(&run->env, p->mark) ? p->mark : NULL;
    return atoll_agent_env_init(&p->env, &spec, err);
}

int atoll_agent_sudo_start(struct atoll_agent *a, const struct atoll_agent_sudo_caller *caller,
                           const struct atoll_sudo_run *run, const int fds[ATOLL_SUDO_FDS],
                           struct atoll_error *err)
{
    struct plan p ATOLL_CLEANUP(plan_done) = {0};
    struct atoll_agent_launch launch = {.user = &p.user,
                                        .cwd_fd = fds[3],
                                        .stdio = {fds[0], fds[1], fds[2]},
                                        .terminal = (int)ATOLL_MIN(run->terminal, 3u) - 1};
    int r = check_caller(a, caller, err);

    if (r == 0)
        r = plan_command(&p, a, caller, run, err);
    if (r < 0)
        return r;
    launch.argv = p.argv + 1;
    launch.envp = p.env.vars;
    launch.path = atoll_agent_env_get(&p.env, "PATH");
    if (run->flags & ATOLL_SUDO_LOGIN) {
        launch.cwd = p.user.home;
        launch.cwd_optional = true;
    }
    return atoll_agent_launch(a, &launch, err);
}
