/* What gVisor is told about a sandbox: config.json of its bundle, and the plan around it. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include "provider/gvisor/gvisor_internal.h"
#include "sandbox/plan_builder.h"
#include "test.h"

static struct atoll_spec spec_of(void)
{
    struct atoll_spec spec = {.limits = {.memory_bytes = UINT64_C(512) << 20,
                                         .cpu_millis = 1000,
                                         .pids = 100,
                                         .disk_bytes = UINT64_C(64) << 20,
                                         .inodes = 1000,
                                         .open_files = 512},
                              .outside_id = 1u << 28};

    atoll_rand_id(spec.id, ATOLL_ID_LEN);
    return spec;
}

static json_t *bundle_of(const struct atoll_spec *spec)
{
    struct atoll_buf out;
    struct atoll_error err = {0};
    json_t *config;

    atoll_buf_init(&out, 64 * 1024);
    assert_int_equal(atoll_gvisor_bundle(spec, &out, &err), 0);
    config = json_loadb((const char *)atoll_buf_head(&out), atoll_buf_size(&out), 0, NULL);
    assert_non_null(config);
    atoll_buf_done(&out);
    return config;
}

static bool has_arg(const json_t *config, const char *text)
{
    const json_t *args = json_object_get(json_object_get(config, "process"), "args");
    const json_t *arg;
    size_t i;

    json_array_foreach(args, i, arg) if (strcmp(json_string_value(arg), text) == 0) return true;
    return false;
}

static void ids_are_mapped_to_the_range(void **state)
{
    struct atoll_spec spec = spec_of();
    json_t *config = bundle_of(&spec);
    const json_t *space = json_object_get(config, "linux");
    const char *const maps[] = {"uidMappings", "gidMappings"};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        const json_t *map = json_array_get(json_object_get(space, maps[i]), 0);
        assert_int_equal(json_integer_value(json_object_get(map, "containerID")), 0);
        assert_int_equal(json_integer_value(json_object_get(map, "hostID")), 1u << 28);
        assert_int_equal(json_integer_value(json_object_get(map, "size")), 65536);
    }
    assert_int_equal(json_array_size(json_object_get(space, "namespaces")), 6);
    json_decref(config);
    spec.network = ATOLL_NETWORK_BRIDGE; /* it runs inside of its user and network namespace */
    config = bundle_of(&spec);
    space = json_object_get(config, "linux");
    assert_int_equal(json_array_size(json_object_get(space, "namespaces")), 4);
    json_decref(config);
}

static void no_path_leads_to_the_host(void **state)
{
    struct atoll_spec spec = spec_of();
    json_t *config = bundle_of(&spec);
    const json_t *mounts = json_object_get(config, "mounts");
    const json_t *mount;
    size_t i;

    (void)state;
    assert_string_equal(json_string_value(json_object_get(json_object_get(config, "root"), "path")),
                        "r");
    json_array_foreach(mounts, i, mount)
        assert_null(strchr(json_string_value(json_object_get(mount, "source")), '/'));
    json_decref(config);
}

static void sudo_only_where_it_is_allowed(void **state)
{
    struct atoll_spec spec = spec_of();
    json_t *config = bundle_of(&spec);

    (void)state;
    assert_false(has_arg(config, "--sudo"));
    assert_true(has_arg(config, "--no-fds"));
    assert_true(has_arg(config, "536870912"));
    assert_true(
        json_is_true(json_object_get(json_object_get(config, "process"), "noNewPrivileges")));
    json_decref(config);
    spec.allow_sudo = true;
    config = bundle_of(&spec);
    assert_true(has_arg(config, "--sudo"));
    json_decref(config);
}

/* The plan is the native one up to the root; then comes runsc, and nothing behind it. */
static void plan_ends_with_runsc(void **state)
{
    const struct atoll_plan_host host = {.root = true, .cgroup_version = 1};
    const struct atoll_po_runsc runsc = {.program = "/usr/bin/runsc", .platform = "ptrace"};
    struct atoll_spec spec = spec_of();
    struct atoll_plan_step step = {0};
    struct atoll_po_cgroup cgroup;
    struct atoll_error err = {0};
    struct atoll_buf plan;
    const uint8_t *p;
    size_t n;

    (void)state;
    atoll_buf_init(&plan, ATOLL_PLAN_MAX);
    assert_int_equal(atoll_plan_build_runsc(&host, &spec, &runsc, &plan, &err), 0);
    p = atoll_buf_head(&plan);
    n = atoll_buf_size(&plan);
    while (atoll_plan_next(&p, &n, &step) > 0) {
        assert_int_not_equal(step.op, ATOLL_PLAN_PIVOT);
        assert_int_not_equal(step.op, ATOLL_PLAN_AGENT);
        if (step.op != ATOLL_PLAN_CGROUP)
            continue;
        assert_int_equal(
            atoll_msg_decode(&atoll_po_cgroup_desc, step.payload, step.len, &cgroup, &err), 0);
        assert_int_equal(cgroup.memory_bytes, UINT64_C(512) << 20);
        assert_true(cgroup.pids > 100);
        assert_int_equal(cgroup.pids, atoll_plan_runsc_tasks(100));
    }
    assert_int_equal(step.op, ATOLL_PLAN_RUNSC);
    assert_int_equal(atoll_plan_runsc_tasks(0), 0);
    assert_true(atoll_plan_runsc_tasks(UINT32_MAX) > UINT32_MAX / 4);
    atoll_buf_done(&plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_are_mapped_to_the_range),
        cmocka_unit_test(no_path_leads_to_the_host),
        cmocka_unit_test(sudo_only_where_it_is_allowed),
        cmocka_unit_test(plan_ends_with_runsc),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
