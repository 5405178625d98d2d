/* What the daemon knows of sessions of MCP: bounded for each tenant. */
#include <stdio.h>
#include <string.h>
#include "api/mcp/mcp_internal.h"
#include "test.h"

static struct atoll_mcp mcp;

static int set_up(void **state)
{
    (void)state;
    mcp = (struct atoll_mcp){0};
    atoll_list_init(&mcp.tenants);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    atoll_mcp_tenants_free(&mcp);
    assert_true(mcp.tenant_count == 0);
    return 0;
}

static const char *id_of(unsigned number)
{
    static char id[ATOLL_MCP_SESSION_LEN + 1];

    (void)snprintf(id, sizeof(id), "%032x", number);
    return id;
}

static void tenants_do_not_displace_the_ids_of_one_another(void **state)
{
    (void)state;
    atoll_mcp_ids_add(&atoll_mcp_tenant_get(&mcp, "one")->ended, id_of(0));
    for (unsigned i = 0; i <= ATOLL_MCP_IDS_MAX; i++)
        atoll_mcp_ids_add(&atoll_mcp_tenant_get(&mcp, "two")->ended, id_of(i));
    assert_true(atoll_mcp_ids_has(&atoll_mcp_tenant_get(&mcp, "one")->ended, id_of(0)));
    assert_false(atoll_mcp_ids_has(&atoll_mcp_tenant_get(&mcp, "one")->ended, id_of(1)));
    assert_false(atoll_mcp_ids_has(&atoll_mcp_tenant_get(&mcp, "two")->ended, id_of(0)));
    assert_true(atoll_mcp_ids_has(&atoll_mcp_tenant_get(&mcp, "two")->ended, id_of(1)));
}

static void an_id_is_there_once(void **state)
{
    struct atoll_mcp_ids *ids = &atoll_mcp_tenant_get(&mcp, "one")->used;

    (void)state;
    atoll_mcp_ids_add(ids, id_of(1));
    for (unsigned i = 0; i <= ATOLL_MCP_IDS_MAX; i++)
        atoll_mcp_ids_add(ids, id_of(2));
    assert_true(atoll_mcp_ids_has(ids, id_of(1)));
    assert_true(atoll_mcp_ids_remove(ids, id_of(2)));
    assert_false(atoll_mcp_ids_remove(ids, id_of(2)));
}

static void tenants_are_bounded(void **state)
{
    char name[16];

    (void)state;
    for (unsigned i = 0; i <= ATOLL_MCP_TENANTS_MAX; i++) {
        (void)snprintf(name, sizeof(name), "t%u", i);
        atoll_mcp_ids_add(&atoll_mcp_tenant_get(&mcp, name)->ended, id_of(i));
        assert_true(atoll_mcp_ids_has(&atoll_mcp_tenant_get(&mcp, "t0")->ended, id_of(0)));
    }
    assert_true(mcp.tenant_count == ATOLL_MCP_TENANTS_MAX);
    assert_true(atoll_mcp_ids_has(&atoll_mcp_tenant_get(&mcp, "t2")->ended, id_of(2)));
    assert_false(atoll_mcp_ids_has(&atoll_mcp_tenant_get(&mcp, "t1")->ended, id_of(1)));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(tenants_do_not_displace_the_ids_of_one_another),
        TEST(an_id_is_there_once),
        TEST(tenants_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
