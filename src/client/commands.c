/* Commands: run until they end, or started for the caller to follow. */
#include <errno.h>
#include <stdio.h>
#include "client/attach.h"
#include "client/compose.h"
#include "client/follow.h"
#include "client/result.h"

#define COLS_DEFAULT 80
#define ROWS_DEFAULT 24

static int no_memory(struct atoll_error *err)
{
    return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, ENOMEM, "no memory for the request");
}

/* Adds the members of a command; has_input: the client will send standard input. */
static int add_command(json_t *request, const struct atoll_client_command *c, bool has_input,
                       struct atoll_error *err)
{
    int r = atoll_compose_command(request, c, err);

    if (r < 0)
        return r;
    if (has_input && json_object_set_new(request, "stdin", json_true()) < 0)
        return no_memory(err);
    if (c->pty &&
        json_object_set_new(request, "pty",
                            json_pack("{s:i, s:i}", "cols", c->cols ? (int)c->cols : COLS_DEFAULT,
                                      "rows", c->rows ? (int)c->rows : ROWS_DEFAULT)) < 0)
        return no_memory(err);
    return 0;
}

static int open_exec(struct atoll_client *client, const char *sandbox_id,
                     const struct atoll_client_command *c, bool has_input,
                     struct atoll_client_process **ret_process, struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *request = json_object();
    struct atoll_link_target target;
    int r = atoll_link_check_id("sandbox", sandbox_id, err);

    if (r == 0)
        r = add_command(request, c, has_input, err);
    if (r == 0)
        r = atoll_link_target(&target, err, "/api/sandboxes/%s/execs/stream", sandbox_id);
    if (r < 0)
        return r;
    return atoll_attach_open(client, target.text, sandbox_id, request, ret_process, err);
}

static int finish(struct atoll_client_process *process, const struct atoll_client_command *c,
                  struct atoll_client_result **ret_result, struct atoll_error *err)
{
    size_t max = (size_t)ATOLL_MIN(c->output_max_bytes, (uint64_t)SIZE_MAX / 2);
    int r = atoll_attach_finish(process, c->input, c->input_size, max, ret_result, err);

    atoll_client_process_free(process);
    return r;
}

static int exec(struct atoll_client *client, const char *sandbox_id,
                const struct atoll_client_command *command, struct atoll_client_result **ret_result,
                struct atoll_error *err)
{
    struct atoll_client_process *process;
    struct atoll_client_command c;
    int r = atoll_link_import(&c, sizeof(c), command, err);

    c.size = sizeof(c);
    if (r == 0)
        r = open_exec(client, sandbox_id, &c, c.input != NULL, &process, err);
    return r < 0 ? r : finish(process, &c, ret_result, err);
}

int atoll_client_exec(struct atoll_client *client, const char *sandbox_id,
                      const struct atoll_client_command *command,
                      struct atoll_client_result **ret_result, struct atoll_client_error *error)
{
    struct atoll_error err;
    int r = exec(client, sandbox_id, command, ret_result, &err);
    return atoll_link_conclude(client, r, &err, error);
}

/* Destroys the sandbox of a run after its connection was lost. The daemon does that itself when a client
 * disconnects, but not after a restart. */
static void destroy_after_loss(struct atoll_client *client, const char *sandbox_id)
{
    if (*sandbox_id)
        (void)atoll_client_sandbox_destroy(client, sandbox_id, NULL);
}

static int run(struct atoll_client *client, const struct atoll_client_sandbox_options *sandbox,
               const struct atoll_client_command *command, struct atoll_client_result **ret_result,
               struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *request = json_object();
    struct atoll_client_process *process;
    struct atoll_client_command c;
    char id[40] = "";
    bool lost;
    int r = atoll_link_import(&c, sizeof(c), command, err);

    c.size = sizeof(c);
    /* A run has one `env`: the command's variables are added last and override the sandbox's. */
    if (r == 0 && sandbox)
        r = atoll_compose_sandbox(request, sandbox, err);
    if (r == 0)
        r = add_command(request, &c, c.input != NULL, err);
    if (r == 0)
        r = atoll_attach_open(client, "/api/run", NULL, request, &process, err);
    if (r < 0)
        return r;
    r = atoll_attach_finish(process, c.input, c.input_size,
                            (size_t)ATOLL_MIN(c.output_max_bytes, (uint64_t)SIZE_MAX / 2),
                            ret_result, err);
    lost = atoll_client_process_fd(process) < 0;
    (void)snprintf(id, sizeof(id), "%s", atoll_attach_sandbox_id(process));
    atoll_client_process_free(process);
    if (lost)
        destroy_after_loss(client, id);
    return r;
}

int atoll_client_run(struct atoll_client *client,
                     const struct atoll_client_sandbox_options *sandbox,
                     const struct atoll_client_command *command,
                     struct atoll_client_result **ret_result, struct atoll_client_error *error)
{
    struct atoll_error err;
    int r = run(client, sandbox, command, ret_result, &err);
    return atoll_link_conclude(client, r, &err, error);
}

static int start(struct atoll_client *client, const char *sandbox_id,
                 const struct atoll_client_command *command,
                 struct atoll_client_process **ret_process, struct atoll_error *err)
{
    const struct atoll_client_event *event;
    struct atoll_client_process *process;
    struct atoll_client_command c;
    int r = atoll_link_import(&c, sizeof(c), command, err);

    c.size = sizeof(c);
    if (r == 0)
        r = open_exec(client, sandbox_id, &c, c.open_input || c.pty, &process, err);
    if (r < 0)
        return r;
    r = atoll_attach_next(process, -1, &event, err);
    if (r >= 0 && !atoll_attach_has_started(process))
        r = atoll_fail(err, ATOLL_ERR_DATA_LOSS, EPROTO,
                       "the daemon did not return the id of the command");
    if (r < 0)
        atoll_client_process_free(process);
    else
        *ret_process = process;
    return ATOLL_MIN(r, 0);
}

int atoll_client_start(struct atoll_client *client, const char *sandbox_id,
                       const struct atoll_client_command *command,
                       struct atoll_client_process **ret_process, struct atoll_client_error *error)
{
    struct atoll_error err;
    int r = start(client, sandbox_id, command, ret_process, &err);
    return atoll_link_conclude(client, r, &err, error);
}

/* Output of any command. */

struct reading {
    int (*output)(void *arg, int stream, const void *bytes, size_t size);
    void *arg;
};

static int give(void *arg, int stream, const void *bytes, size_t n, struct atoll_error *err)
{
    const struct reading *reading = arg;
    int r = reading->output ? reading->output(reading->arg, stream, bytes, n) : 0;
    return r < 0 ? atoll_fail(err, ATOLL_ERR_CANCELED, -r, "the callback canceled the call") : 0;
}

static int read_output(struct atoll_client *client, struct atoll_follow *journal,
                       struct atoll_client_result **ret_result, struct atoll_error *err)
{
    int r = atoll_link_check_id("sandbox", journal->sandbox_id, err);

    if (r == 0)
        r = atoll_link_check_id("exec", journal->exec_id, err);
    if (r == 0)
        r = atoll_follow_read(client, journal, err);
    if (r == 0 && ret_result) {
        *ret_result = NULL;
        if (journal->result)
            r = atoll_result_new(journal->result, journal->sandbox_id, journal->exec_id, NULL, NULL,
                                 ret_result, err);
    }
    json_decref(journal->result);
    return r;
}

int atoll_client_output_read(struct atoll_client *client, const char *sandbox_id,
                             const char *exec_id, uint64_t stdout_from, uint64_t stderr_from,
                             bool follow,
                             int (*output)(void *arg, int stream, const void *bytes, size_t size),
                             void *arg, struct atoll_client_result **ret_result,
                             struct atoll_client_error *error)
{
    struct reading reading = {output, arg};
    struct atoll_follow journal = {
        .sandbox_id = sandbox_id,
        .exec_id = exec_id,
        .follow = follow,
        .seen = {0, stdout_from, stderr_from},
        .output = give,
        .arg = &reading,
    };
    struct atoll_error err;
    int r = read_output(client, &journal, ret_result, &err);
    return atoll_link_conclude(client, r, &err, error);
}
