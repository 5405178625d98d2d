#include "cli/client.h"

#include <errno.h>
#include <stdio.h>

void atoll_cli_init(struct atoll_cli *cli)
{
    *cli = (struct atoll_cli){0};
}

void atoll_cli_done(struct atoll_cli *cli)
{
    atoll_client_close(cli->client);
    json_decref(cli->ids);
    cli->client = NULL;
    cli->ids = NULL;
}

void atoll_cli_set_timeout(struct atoll_cli *cli, int timeout_ms)
{
    cli->timeout_ms = timeout_ms;
    if (cli->client)
        atoll_client_set_timeout(cli->client, timeout_ms);
}

int atoll_cli_open(struct atoll_cli *cli, struct atoll_error *err)
{
    const struct atoll_client_options options = {
        .size = sizeof(options), .ca_file = cli->ca_file, .timeout_ms = cli->timeout_ms};

    return cli->client ? 0 : atoll_link_open(&options, &cli->client, err);
}

const char *atoll_cli_hint(const struct atoll_cli *cli)
{
    if (*cli->hint)
        return cli->hint;
    return cli->client ? atoll_link_hint(cli->client) : "";
}

int atoll_cli_take_error(struct atoll_cli *cli, int r, const struct atoll_client_error *error,
                         struct atoll_error *err)
{
    if (r >= 0)
        return r;
    (void)snprintf(cli->hint, sizeof(cli->hint), "%s", error->hint);
    return atoll_fail(err, (enum atoll_error_kind)error->code, error->errnum, "%s", error->message);
}

int atoll_cli_call(struct atoll_cli *cli, const char *method, const char *target, json_t *body,
                   json_t **ret_reply, struct atoll_error *err)
{
    int r = atoll_cli_open(cli, err);
    return r < 0 ? r : atoll_link_call(cli->client, method, target, body, ret_reply, err);
}

int atoll_cli_stream(struct atoll_cli *cli, const char *method, const char *target,
                     const struct atoll_http_transfer *transfer, json_t **ret_reply,
                     struct atoll_error *err)
{
    int r = atoll_cli_open(cli, err);
    return r < 0 ? r : atoll_link_stream(cli->client, method, target, transfer, ret_reply, err);
}

int atoll_cli_print_json(const json_t *value, struct atoll_error *err)
{
    if (json_dumpf(value, stdout, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(15)) < 0 ||
        fputc('\n', stdout) == EOF || fflush(stdout) == EOF)
        return atoll_fail_errno(err, errno, "standard output");
    return 0;
}
