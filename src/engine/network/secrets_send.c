#include <stdio.h>
#include <string.h>
#include "base/log.h"
#include "engine/engine_internal.h"
#include "engine/network/network.h"
#include "engine/network/secrets.h"
#include "network/placeholder.h"

/*
 * Secrets in atoll-egress. It gets those of a tenant before the first policy that names one, and again
 * when one of them changes. It keeps them in memory only: a new worker is told again.
 */

struct told {
    char tenant[65];
    unsigned round; /* of the network: the worker that has them */
};

static void complain(const struct told *told, const struct atoll_error *error)
{
    atoll_log(ATOLL_LOG_ERROR, "secrets not sent", "tenant", told->tenant, "error", error->text,
              NULL);
}

static void on_answer(void *arg, const struct atoll_reply *answer)
{
    /* After a lost connection the next worker is told. */
    if (answer->error && answer->error->kind != ATOLL_ERR_UNAVAILABLE)
        complain(arg, answer->error);
}

static void send_all(struct atoll_networks *n, struct told *told)
{
    struct atoll_em_secrets msg = {.tenant = told->tenant};
    struct atoll_error err;
    struct atoll_buf json;
    int r;

    atoll_buf_init(&json, ATOLL_FRAME_PAYLOAD_MAX);
    r = atoll_secrets_json(n->engine->secrets, told->tenant, &json, &err);
    msg.secrets = (struct atoll_bytes){atoll_buf_head(&json), atoll_buf_size(&json)};
    if (r == 0)
        r = atoll_rpc_ask(n->rpc, ATOLL_EGRESS_SECRETS, &atoll_em_secrets_desc, &msg, on_answer,
                          told, &err);
    atoll_buf_wipe(&json);
    if (r < 0)
        complain(told, &err);
}

void atoll_network_send_secrets(struct atoll_networks *n, const char *tenant, const char *policy)
{
    char name[ATOLL_SECRET_NAME_MAX + 1];
    struct told *told = atoll_map_get(&n->told, tenant);
    const char *end;

    if (!atoll_placeholder_find(policy, &end, name) || (told && told->round == n->round))
        return;
    if (!told) {
        told = calloc(1, sizeof(*told));
        if (!told)
            abort(); /* a small fixed object: the daemon is crash-only */
        (void)snprintf(told->tenant, sizeof(told->tenant), "%s", tenant);
        if (atoll_map_put(&n->told, told->tenant, told) < 0)
            abort();
    }
    told->round = n->round;
    send_all(n, told);
}

static void on_change(void *arg, const char *tenant)
{
    struct atoll_networks *n = arg;
    struct told *told = atoll_map_get(&n->told, tenant);

    if (told && told->round == n->round && n->greeted)
        send_all(n, told);
}

void atoll_network_watch_secrets(struct atoll_networks *n)
{
    atoll_map_init(&n->told);
    if (n->engine->secrets)
        atoll_secrets_watch(n->engine->secrets, on_change, n);
}

void atoll_network_forget_secrets(struct atoll_networks *n)
{
    struct told *told;

    for (size_t pos = 0; (told = atoll_map_next(&n->told, &pos)) != NULL;)
        free(told);
    atoll_map_done(&n->told);
    if (n->engine->secrets)
        atoll_secrets_watch(n->engine->secrets, NULL, NULL);
}
