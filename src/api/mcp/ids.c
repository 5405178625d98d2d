#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "api/api_internal.h"
#include "api/kit/token.h"
#include "api/mcp/mcp_internal.h"
#include "base/rand.h"

/*
 * Ids of sessions: 8 random bytes and as many of their signature, in hex.
 */
#define RANDOM_LEN (ATOLL_MCP_SESSION_LEN / 2) /* digits */

static size_t find(const struct atoll_mcp_ids *ids, const char *id)
{
    size_t i = 0;

    while (i < ATOLL_MCP_IDS_MAX && strcmp(ids->ids[i], id) != 0)
        i++;
    return i;
}

bool atoll_mcp_ids_has(const struct atoll_mcp_ids *ids, const char *id)
{
    return find(ids, id) < ATOLL_MCP_IDS_MAX;
}

void atoll_mcp_ids_add(struct atoll_mcp_ids *ids, const char *id)
{
    if (atoll_mcp_ids_has(ids, id))
        return;
    memcpy(ids->ids[ids->next], id, ATOLL_MCP_SESSION_LEN + 1);
    ids->next = (ids->next + 1) % ATOLL_MCP_IDS_MAX;
}

bool atoll_mcp_ids_remove(struct atoll_mcp_ids *ids, const char *id)
{
    size_t i = find(ids, id);

    if (i == ATOLL_MCP_IDS_MAX)
        return false;
    ids->ids[i][0] = '\0';
    return true;
}

static struct atoll_mcp_tenant *tenant_at(struct atoll_list *node)
{
    return ATOLL_CONTAINER_OF(node, struct atoll_mcp_tenant, node);
}

static void tenant_free(struct atoll_mcp *mcp, struct atoll_mcp_tenant *tenant)
{
    atoll_list_remove(&tenant->node);
    mcp->tenant_count--;
    free(tenant);
}

struct atoll_mcp_tenant *atoll_mcp_tenant_get(struct atoll_mcp *mcp, const char *name)
{
    struct atoll_mcp_tenant *found = NULL;

    ATOLL_LIST_FOREACH (&mcp->tenants, node)
        if (strcmp(tenant_at(node)->name, name) == 0)
            found = tenant_at(node);
    if (found) {
        atoll_list_remove(&found->node);
    } else {
        if (mcp->tenant_count == ATOLL_MCP_TENANTS_MAX)
            tenant_free(mcp, tenant_at(mcp->tenants.next));
        mcp->tenant_count++;
        found = atoll_api_alloc(sizeof(*found));
        (void)snprintf(found->name, sizeof(found->name), "%s", name);
    }
    atoll_list_push_back(&mcp->tenants, &found->node);
    return found;
}

void atoll_mcp_tenants_free(struct atoll_mcp *mcp)
{
    while (!atoll_list_empty(&mcp->tenants))
        tenant_free(mcp, tenant_at(mcp->tenants.next));
}

static void put_hex(const uint8_t *bytes, char *out)
{
    for (size_t i = 0; i < RANDOM_LEN / 2; i++)
        (void)snprintf(out + 2 * i, 3, "%02x", bytes[i]);
}

/* Fills the digits behind the random ones. */
static void sign(const struct atoll_api *api, const char *tenant, char *id)
{
    char name[RANDOM_LEN + 80], token[ATOLL_TOKEN_LEN + 1];

    (void)snprintf(name, sizeof(name), "%.*s %.64s", RANDOM_LEN, id, tenant);
    atoll_token_make(api, "session of mcp", name, token);
    /* The token is in base64: its first bytes have at least 6 bits of the signature each. */
    put_hex((const uint8_t *)token, id + RANDOM_LEN);
}

void atoll_mcp_id_make(const struct atoll_api *api, const char *tenant,
                       char out[static ATOLL_MCP_SESSION_LEN + 1])
{
    uint8_t bytes[RANDOM_LEN / 2];

    atoll_rand_bytes(bytes, sizeof(bytes));
    put_hex(bytes, out);
    sign(api, tenant, out);
}

bool atoll_mcp_id_check(const struct atoll_api *api, const char *tenant, const char *id)
{
    char made[ATOLL_MCP_SESSION_LEN + 1];

    memcpy(made, id, sizeof(made));
    sign(api, tenant, made);
    return strcmp(made, id) == 0;
}
