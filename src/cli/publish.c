#include "cli/publish.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/text.h"

/* Splits "[[IP:]HOSTPORT:]PORT", as Docker spells it: "8080:80" is port 80 of the sandbox at
 * 127.0.0.1:8080, and "80" alone is at any free port. */
static int split(const char *item, char address[64], uint64_t *ret_port, struct atoll_error *err)
{
    const char *colon = strrchr(item, ':');
    size_t n = colon ? (size_t)(colon - item) : 0;

    (void)snprintf(address, 64, "%.*s", (int)n, colon ? item : "");
    if (!colon)
        (void)snprintf(address, 64, "0");
    if (n >= 64 || !*address || atoll_text_u64(colon ? colon + 1 : item, 1, 65535, ret_port) < 0)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "--publish %.100s: write HOSTPORT:PORT, such as 8080:80", item);
    return 0;
}

static int publish(struct atoll_cli *cli, const char *sandbox, const char *item,
                   struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *request = NULL;
    ATOLL_AUTOJSON json_t *reply = NULL;
    struct atoll_link_target target;
    char address[64];
    uint64_t port;
    int r = split(item, address, &port, err);

    if (r == 0)
        r = atoll_link_target(&target, err, "/api/sandboxes/%s/previews", sandbox);
    if (r < 0)
        return r;
    request = json_pack("{s:I, s:s}", "port", (json_int_t)port, "address", address);
    return atoll_cli_call(cli, "POST", target.text, request, &reply, err);
}

int atoll_cli_publish_check(const struct atoll_cli_list *ports, struct atoll_error *err)
{
    char address[64];
    uint64_t port;
    int r = 0;

    for (size_t i = 0; r == 0 && i < ports->n; i++)
        r = split(ports->items[i], address, &port, err);
    return r;
}

int atoll_cli_publish(struct atoll_cli *cli, const char *sandbox,
                      const struct atoll_cli_list *ports, struct atoll_error *err)
{
    struct atoll_client_error ignored;
    int r = 0;

    for (size_t i = 0; r == 0 && i < ports->n; i++)
        r = publish(cli, sandbox, ports->items[i], err);
    if (r < 0)
        (void)atoll_client_sandbox_destroy(cli->client, sandbox, &ignored);
    return r;
}
