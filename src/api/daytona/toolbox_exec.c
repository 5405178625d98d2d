#include <stdio.h>
#include <string.h>
#include "api/daytona/toolbox_internal.h"

#define ARGUMENT_MAX ((size_t)128 * 1024 - 1) /* Linux takes no longer argument */

struct starting {
    struct atoll_engine *engine;
    char sandbox_id[33];
    struct atoll_toolbox_shell shell;
    bool is_plain; /* sh is tried: there is no bash */
    bool feeds;    /* the command is the standard input of the shell */
    atoll_exec_fn *done;
    void *arg;
};

static void start(struct starting *s);

static void started(void *arg, struct atoll_exec *exec, const struct atoll_error *error)
{
    struct starting *s = arg;

    if (error && error->kind == ATOLL_ERR_NOT_FOUND && !s->is_plain) {
        s->is_plain = true;
        start(s);
        return;
    }
    if (exec && s->feeds)
        atoll_exec_feed(exec, (const uint8_t *)s->shell.command, strlen(s->shell.command));
    s->done(s->arg, exec, error);
    free(s);
}

static void start(struct starting *s)
{
    const char *name = s->is_plain ? "sh" : "bash";
    const char *const with_text[] = {name, "-c", s->shell.command, NULL};
    const char *const with_input[] = {name, NULL};
    const struct atoll_exec_start what = {
        .argv = s->feeds ? with_input : with_text,
        .env = s->shell.env,
        .cwd = s->shell.cwd,
        .timeout_ms = s->shell.timeout_ms,
        .stdin_open = s->feeds,
        .is_command = true,
    };

    atoll_engine_exec(s->engine, s->sandbox_id, &what, started, s);
}

void atoll_toolbox_shell_start(struct atoll_engine *engine, const char *sandbox_id,
                               const struct atoll_toolbox_shell *shell, atoll_exec_fn *done,
                               void *arg)
{
    struct starting *s = atoll_api_alloc(sizeof(*s));

    s->engine = engine;
    (void)snprintf(s->sandbox_id, sizeof(s->sandbox_id), "%s", sandbox_id);
    s->shell = *shell;
    /* A shell with one command in its arguments becomes that command: $$ would be another process. */
    s->feeds = strlen(shell->command) > ARGUMENT_MAX || strstr(shell->command, "$$");
    s->done = done;
    s->arg = arg;
    start(s);
}
