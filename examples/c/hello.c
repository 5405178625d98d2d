/*
 * Creates a sandbox, runs a command in it, prints what it wrote and how it ended, and destroys it.
 *
 *     cc hello.c $(pkg-config --cflags --libs libatoll) -o hello && ./hello
 *
 * examples/README.md says how to compile it without an installation.
 */
#include <atoll/atoll.h>
#include <stdio.h>

static int fail(const char *what, const struct atoll_client_error *error)
{
    fprintf(stderr, "%s: %s (%s)\n", what, error->message, atoll_client_code_name(error->code));
    if (error->hint[0])
        fprintf(stderr, "%s\n", error->hint);
    return 1;
}

static int run(struct atoll_client *client, const char *sandbox)
{
    const char *const argv[] = {"sh", "-c", "echo hello from $(id -un); cat; exit 3", NULL};
    struct atoll_client_command command = {
        .size = sizeof(command),
        .argv = argv,
        .timeout_seconds = 10,
        .input = "and from outside\n",
        .input_size = 17,
    };
    struct atoll_client_result *result;
    struct atoll_client_error error;

    if (atoll_client_exec(client, sandbox, &command, &result, &error) < 0)
        return fail("exec", &error);
    fwrite(result->output[ATOLL_CLIENT_STDOUT].bytes, 1, result->output[ATOLL_CLIENT_STDOUT].size,
           stdout);
    if (result->end == ATOLL_CLIENT_EXITED)
        printf("it exited with %d\n", result->exit_code);
    else
        printf("it ended otherwise: %s\n", result->json);
    atoll_client_result_free(result);
    return 0;
}

int main(void)
{
    struct atoll_client_sandbox_options options = {.size = sizeof(options),
                                                   .memory_bytes = 64 << 20};
    struct atoll_client *client;
    struct atoll_client_sandbox *sandbox;
    struct atoll_client_error error;
    int status;

    /* Where the daemon is comes from the environment, as for the atoll command. */
    if (atoll_client_open(NULL, &client, &error) < 0)
        return fail("open", &error);
    if (atoll_client_sandbox_create(client, &options, &sandbox, &error) < 0) {
        atoll_client_close(client);
        return fail("create", &error);
    }
    status = run(client, sandbox->id);
    if (atoll_client_sandbox_destroy(client, sandbox->id, &error) < 0)
        status = fail("destroy", &error);
    atoll_client_sandbox_free(sandbox);
    atoll_client_close(client);
    return status;
}
