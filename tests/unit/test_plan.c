/* Plans: the policy they carry, and the codec that meets bytes from outside. */
#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include "proto/plan.h"
#include "sandbox/plan_builder.h"
#include "sandbox/seccomp.h"
#include "test.h"

static const struct atoll_plan_host root_host = {.root = true, .cgroup_version = 1, .stacks = true};

static struct atoll_spec default_spec(void)
{
    struct atoll_spec spec = {.limits = {.memory_bytes = UINT64_C(512) << 20,
                                         .cpu_millis = 1500,
                                         .pids = 99,
                                         .disk_bytes = UINT64_C(256) << 20,
                                         .inodes = 1000,
                                         .open_files = 512},
                              .outside_id = 1u << 28};
    atoll_rand_id(spec.id, ATOLL_ID_LEN);
    return spec;
}

static struct atoll_buf build(const struct atoll_plan_host *host, const struct atoll_spec *spec)
{
    struct atoll_buf plan, seccomp;
    struct atoll_error err;

    atoll_buf_init(&plan, ATOLL_PLAN_MAX);
    atoll_buf_init(&seccomp, 64);
    assert_int_equal(atoll_buf_appends(&seccomp, "12345678"), 0);
    assert_int_equal(atoll_plan_build(host, spec, &seccomp, &plan, &err), 0);
    atoll_buf_done(&seccomp);
    return plan;
}

/* The nth step of that operation, decoded. */
static bool find(const struct atoll_buf *plan, enum atoll_plan_op op, size_t nth,
                 const struct atoll_msg_desc *desc, void *ret, size_t *ret_index)
{
    const uint8_t *p = atoll_buf_head(plan);
    size_t n = atoll_buf_size(plan), index = 0;
    struct atoll_plan_step step;
    struct atoll_error err;

    for (; atoll_plan_next(&p, &n, &step) > 0; index++) {
        if (step.op != op || nth-- > 0)
            continue;
        if (desc)
            assert_int_equal(atoll_msg_decode(desc, step.payload, step.len, ret, &err), 0);
        if (ret_index)
            *ret_index = index;
        return true;
    }
    return false;
}

static void limits_reach_the_steps(void **state)
{
    struct atoll_spec spec = default_spec();
    struct atoll_buf plan = build(&root_host, &spec);
    struct atoll_po_cgroup cgroup;
    struct atoll_po_disk disk;
    struct atoll_po_ids ids;

    (void)state;
    assert_true(find(&plan, ATOLL_PLAN_CGROUP, 0, &atoll_po_cgroup_desc, &cgroup, NULL));
    assert_int_equal(cgroup.memory_bytes, UINT64_C(512) << 20);
    assert_int_equal(cgroup.cpu_millis, 1500);
    assert_int_equal(cgroup.pids, 99);
    assert_true(find(&plan, ATOLL_PLAN_DISK, 0, &atoll_po_disk_desc, &disk, NULL));
    assert_int_equal(disk.kind, ATOLL_DISK_TMPFS);
    assert_int_equal(disk.size_bytes, UINT64_C(256) << 20);
    assert_int_equal(disk.inodes, 1000);
    assert_true(find(&plan, ATOLL_PLAN_IDS, 0, &atoll_po_ids_desc, &ids, NULL));
    assert_int_equal(ids.mode, ATOLL_IDS_RANGE);
    assert_int_equal(ids.outside, 1u << 28);
    assert_int_equal(ids.count, 65536);
    atoll_buf_done(&plan);
}

static void rights_are_dropped_in_order(void **state)
{
    struct atoll_spec spec = default_spec();
    struct atoll_buf plan = build(&root_host, &spec);
    size_t start = 0, pivot = 0, identity = 0, seccomp = 0, agent = 0;

    (void)state;
    assert_true(find(&plan, ATOLL_PLAN_START, 0, NULL, NULL, &start));
    assert_true(find(&plan, ATOLL_PLAN_PIVOT, 0, NULL, NULL, &pivot));
    assert_true(find(&plan, ATOLL_PLAN_IDENTITY, 0, NULL, NULL, &identity));
    assert_true(find(&plan, ATOLL_PLAN_SECCOMP, 0, NULL, NULL, &seccomp));
    assert_true(find(&plan, ATOLL_PLAN_AGENT, 0, NULL, NULL, &agent));
    assert_true(start < pivot && pivot < identity && identity < seccomp && seccomp + 1 == agent);
    atoll_buf_done(&plan);
}

/* The text of a file of the plan. */
static bool has_file(const struct atoll_buf *plan, const char *path, const char *text)
{
    struct atoll_po_file file;

    for (size_t i = 0; find(plan, ATOLL_PLAN_FILE, i, &atoll_po_file_desc, &file, NULL); i++)
        if (strcmp(file.path, path) == 0)
            return file.content.len == strlen(text) &&
                   memcmp(file.content.data, text, file.content.len) == 0;
    return false;
}

static void a_network_for_those_that_ask(void **state)
{
    struct atoll_spec spec = default_spec();
    struct atoll_buf plan = build(&root_host, &spec);
    size_t loopback = 0, network = 0, identity = 0;

    (void)state;
    assert_false(find(&plan, ATOLL_PLAN_NETWORK, 0, NULL, NULL, NULL));
    assert_true(has_file(&plan, "etc/resolv.conf", "# no network\n"));
    atoll_buf_done(&plan);
    for (int mode = ATOLL_NETWORK_ISOLATED; mode <= ATOLL_NETWORK_BRIDGE; mode++) {
        spec.network = (enum atoll_network)mode;
        plan = build(&root_host, &spec);
        assert_true(find(&plan, ATOLL_PLAN_LOOPBACK, 0, NULL, NULL, &loopback));
        assert_true(find(&plan, ATOLL_PLAN_NETWORK, 0, NULL, NULL, &network));
        assert_true(find(&plan, ATOLL_PLAN_IDENTITY, 0, NULL, NULL, &identity));
        assert_true(loopback < network && network < identity);
        assert_true(has_file(&plan, "etc/resolv.conf", "nameserver 100.64.0.1\n"));
        atoll_buf_done(&plan);
    }
}

static void a_read_only_root(void **state)
{
    struct atoll_spec spec = default_spec();
    struct atoll_buf plan = build(&root_host, &spec);
    struct atoll_po_read_only step;
    size_t proc = 0, at = 0, pivot = 0;

    (void)state;
    assert_false(find(&plan, ATOLL_PLAN_READ_ONLY, 0, NULL, NULL, NULL));
    atoll_buf_done(&plan);
    spec.read_only = true;
    plan = build(&root_host, &spec);
    assert_true(find(&plan, ATOLL_PLAN_PROC, 0, NULL, NULL, &proc));
    assert_true(find(&plan, ATOLL_PLAN_READ_ONLY, 0, &atoll_po_read_only_desc, &step, &at));
    assert_true(find(&plan, ATOLL_PLAN_PIVOT, 0, NULL, NULL, &pivot));
    assert_true(proc < at && at < pivot);
    assert_int_equal(step.mounts.len, 1);
    assert_string_equal(step.mounts.items[0], "usr");
    assert_int_equal(step.writable.len, 5);
    atoll_msg_done(&atoll_po_read_only_desc, &step);
    atoll_buf_done(&plan);
}

/* The stack at /usr, and whether the plan has the layer of whiteouts. */
static bool hides(const struct atoll_buf *plan, const char *lowers, bool writable)
{
    struct atoll_po_overlay overlay;
    struct atoll_po_layer layer = {0};
    bool found = false;

    assert_true(find(plan, ATOLL_PLAN_OVERLAY, 1, &atoll_po_overlay_desc, &overlay, NULL));
    assert_string_equal(overlay.target, "usr");
    assert_string_equal(overlay.lowers, lowers);
    assert_int_equal(overlay.writable, writable);
    atoll_msg_done(&atoll_po_overlay_desc, &overlay);
    for (size_t i = 0; find(plan, ATOLL_PLAN_LAYER, i, &atoll_po_layer_desc, &layer, NULL); i++)
        found |= strcmp(layer.source, ATOLL_PLAN_HIDDEN) == 0;
    return found;
}

static void private_files_of_usr_are_hidden(void **state)
{
    struct atoll_plan_host host = root_host;
    struct atoll_spec spec = default_spec();
    const struct atoll_po_runsc runsc = {.program = "/usr/bin/runsc", .platform = "ptrace"};
    struct atoll_error err;
    struct atoll_buf plan;

    (void)state;
    host.hides = true;
    plan = build(&host, &spec);
    assert_true(hides(&plan, "tools:hidden:usr", true));
    atoll_buf_clear(&plan);
    assert_int_equal(atoll_plan_build_runsc(&host, &spec, &runsc, &plan, &err), 0);
    assert_true(hides(&plan, "tools:hidden:usr", true));
    atoll_buf_done(&plan);
    spec.builder = true; /* what it keeps is elsewhere */
    plan = build(&host, &spec);
    assert_true(hides(&plan, "tools:hidden:usr", false));
    atoll_buf_done(&plan);
    /* An atoll-spawn of an earlier version knows neither. */
    spec.builder = false;
    plan = build(&root_host, &spec);
    assert_false(hides(&plan, "tools:usr", false));
    atoll_buf_done(&plan);
}

static void expect_overlay(const struct atoll_buf *plan, size_t nth, const char *lowers,
                           const char *below, const char *within, size_t layers)
{
    struct atoll_po_overlay overlay;

    assert_true(find(plan, ATOLL_PLAN_OVERLAY, nth, &atoll_po_overlay_desc, &overlay, NULL));
    assert_string_equal(overlay.lowers, lowers);
    assert_string_equal(overlay.below, below);
    assert_string_equal(overlay.within, within);
    assert_true(overlay.writable && overlay.userxattr);
    assert_int_equal(overlay.stack.len, layers);
    if (layers > 0)
        assert_string_equal(overlay.stack.items[0], "x2");
    atoll_msg_done(&atoll_po_overlay_desc, &overlay);
}

/* Its layers are between the host's files and the sandbox's, at / and at /usr. */
static void a_stack_on_the_host_template(void **state)
{
    struct atoll_plan_host host = root_host;
    struct atoll_spec spec = default_spec();
    struct atoll_buf plan;

    (void)state;
    host.hides = true;
    spec.template_kind = ATOLL_TEMPLATE_ROOTFS;
    spec.layer_base = ATOLL_LAYER_BASE;
    spec.layers = "host x1 x2";
    plan = build(&host, &spec);
    expect_overlay(&plan, 0, "", "base", "", 2);
    expect_overlay(&plan, 1, "tools", "hidden:usr", "usr", 2);
    atoll_buf_done(&plan);
    spec.builder = ATOLL_BUILDER_STEP;
    spec.layers = "host";
    plan = build(&host, &spec);
    expect_overlay(&plan, 0, "mounts", "base", "", 0);
    expect_overlay(&plan, 1, "tools", "hidden:usr", "usr", 0);
    atoll_buf_done(&plan);
}

static void a_large_disk_is_an_image(void **state)
{
    struct atoll_spec spec = default_spec();
    struct atoll_po_disk disk;
    struct atoll_buf plan;
    char name[64];

    (void)state;
    spec.limits.disk_bytes = UINT64_C(300) << 20;
    assert_true(atoll_plan_needs_image(&root_host, &spec, name, sizeof(name)));
    assert_string_equal(name, "images/ext4-300-1000.img");
    plan = build(&root_host, &spec);
    assert_true(find(&plan, ATOLL_PLAN_DISK, 0, &atoll_po_disk_desc, &disk, NULL));
    assert_int_equal(disk.kind, ATOLL_DISK_IMAGE);
    assert_true(find(&plan, ATOLL_PLAN_IMAGE, 0, NULL, NULL, NULL));
    atoll_buf_done(&plan);
}

static void a_disk_with_a_bandwidth_is_an_image(void **state)
{
    const struct atoll_plan_host delegated = {.cgroup_version = 2}, older = {
                                                                        .root = true,
                                                                        .cgroup_version = 1,
                                                                        .lacking = ATOLL_LIMIT_IO,
                                                                    };
    struct atoll_spec spec = default_spec();
    struct atoll_po_disk disk;
    struct atoll_buf plan;
    char name[64];

    (void)state;
    assert_false(atoll_plan_needs_image(&root_host, &spec, name, sizeof(name)));
    spec.limits.io_bytes = UINT64_C(8) << 20;
    assert_true(atoll_plan_needs_image(&root_host, &spec, name, sizeof(name)));
    assert_int_equal(atoll_plan_missing_limits(&root_host, &spec), 0);
    plan = build(&root_host, &spec);
    assert_true(find(&plan, ATOLL_PLAN_DISK, 0, &atoll_po_disk_desc, &disk, NULL));
    assert_int_equal(disk.kind, ATOLL_DISK_IMAGE);
    assert_int_equal(disk.io_bytes, UINT64_C(8) << 20);
    atoll_buf_done(&plan);
    /* Without root there is no device, and an atoll-spawn of an earlier version bounds none. */
    assert_int_equal(atoll_plan_missing_limits(&delegated, &spec), ATOLL_LIMIT_IO);
    assert_int_equal(atoll_plan_missing_limits(&older, &spec), ATOLL_LIMIT_IO);
    spec.waived = ATOLL_LIMIT_IO;
    assert_false(atoll_plan_needs_image(&older, &spec, name, sizeof(name)));
    plan = build(&older, &spec);
    assert_true(find(&plan, ATOLL_PLAN_DISK, 0, &atoll_po_disk_desc, &disk, NULL));
    assert_int_equal(disk.io_bytes, 0);
    atoll_buf_done(&plan);
}

static void a_limit_that_cannot_be_given_is_an_error_unless_waived(void **state)
{
    const struct atoll_plan_host rootless = {.root = false};
    struct atoll_spec spec = default_spec();
    struct atoll_buf plan, seccomp;
    struct atoll_error err;

    (void)state;
    atoll_buf_init(&plan, ATOLL_PLAN_MAX);
    atoll_buf_init(&seccomp, 64);
    assert_int_equal(atoll_plan_missing_limits(&rootless, &spec),
                     ATOLL_LIMIT_MEMORY | ATOLL_LIMIT_CPU | ATOLL_LIMIT_PIDS);
    spec.waived = ATOLL_LIMIT_MEMORY | ATOLL_LIMIT_CPU;
    assert_true(atoll_plan_build(&rootless, &spec, &seccomp, &plan, &err) < 0);
    assert_int_equal(err.kind, ATOLL_ERR_FAILED_PRECONDITION);
    assert_non_null(strstr(err.text, "pids"));
    assert_null(strstr(err.text, "memory"));
    spec.waived |= ATOLL_LIMIT_PIDS;
    assert_int_equal(atoll_plan_build(&rootless, &spec, &seccomp, &plan, &err), 0);
    assert_false(find(&plan, ATOLL_PLAN_CGROUP, 0, NULL, NULL, NULL));
    atoll_buf_done(&plan);
}

/* A user to whom only some controllers were delegated. */
static void only_what_is_lacking_must_be_waived(void **state)
{
    const struct atoll_plan_host partial = {.cgroup_version = 2, .lacking = ATOLL_LIMIT_CPU};
    struct atoll_spec spec = default_spec();
    struct atoll_po_cgroup cgroup;
    struct atoll_buf plan, seccomp;
    struct atoll_error err;

    (void)state;
    atoll_buf_init(&plan, ATOLL_PLAN_MAX);
    atoll_buf_init(&seccomp, 64);
    assert_int_equal(atoll_plan_missing_limits(&partial, &spec), ATOLL_LIMIT_CPU);
    spec.waived = ATOLL_LIMIT_CPU;
    assert_int_equal(atoll_plan_build(&partial, &spec, &seccomp, &plan, &err), 0);
    assert_true(find(&plan, ATOLL_PLAN_CGROUP, 0, &atoll_po_cgroup_desc, &cgroup, NULL));
    assert_int_equal(cgroup.cpu_millis, 0);
    assert_int_equal(cgroup.pids, spec.limits.pids);
    assert_int_equal(cgroup.memory_bytes, spec.limits.memory_bytes);
    spec.limits.cpu_millis = 0; /* nothing is lacking that nobody wants */
    assert_int_equal(atoll_plan_missing_limits(&partial, &spec), 0);
    atoll_buf_done(&plan);
}

static void boot_ids_differ(void **state)
{
    struct atoll_spec spec = default_spec();
    struct atoll_buf a = build(&root_host, &spec), b = build(&root_host, &spec);
    struct atoll_po_file first, second;

    (void)state;
    assert_true(find(&a, ATOLL_PLAN_COVER, 0, &atoll_po_file_desc, &first, NULL));
    assert_true(find(&b, ATOLL_PLAN_COVER, 0, &atoll_po_file_desc, &second, NULL));
    assert_string_equal(first.path, "proc/sys/kernel/random/boot_id");
    assert_int_equal(first.content.len, 37);
    assert_memory_not_equal(first.content.data, second.content.data, 36);
    atoll_buf_done(&a);
    atoll_buf_done(&b);
}

static void a_persistent_disk_is_an_image_that_is_kept(void **state)
{
    struct atoll_spec spec = default_spec();
    struct atoll_po_image image;
    struct atoll_po_disk disk;
    struct atoll_buf plan;
    char name[64];

    (void)state;
    assert_false(atoll_plan_needs_image(&root_host, &spec, name, sizeof(name)));
    spec.persistent = true;
    assert_true(atoll_plan_needs_image(&root_host, &spec, name, sizeof(name)));
    assert_string_equal(name, "images/ext4j-256-1000.img");
    for (int again = 0; again < 2; again++) {
        spec.resume_disk = again;
        plan = build(&root_host, &spec);
        assert_true(find(&plan, ATOLL_PLAN_DISK, 0, &atoll_po_disk_desc, &disk, NULL));
        assert_int_equal(disk.kind, ATOLL_DISK_IMAGE);
        assert_true(find(&plan, ATOLL_PLAN_IMAGE, 0, &atoll_po_image_desc, &image, NULL));
        assert_true(image.keep);
        assert_int_equal(image.existing, again);
        atoll_buf_done(&plan);
    }
    spec.limits.disk_bytes = UINT64_C(300) << 20; /* the control: an image, but nobody's to keep */
    spec.persistent = spec.resume_disk = false;
    plan = build(&root_host, &spec);
    assert_true(find(&plan, ATOLL_PLAN_IMAGE, 0, &atoll_po_image_desc, &image, NULL));
    assert_false(image.keep);
    atoll_buf_done(&plan);
}

static void a_persistent_one_needs_root(void **state)
{
    const struct atoll_plan_host rootless = {.root = false};
    struct atoll_spec spec = default_spec();
    struct atoll_buf plan, seccomp;
    struct atoll_error err;

    (void)state;
    atoll_buf_init(&plan, ATOLL_PLAN_MAX);
    atoll_buf_init(&seccomp, 64);
    spec.waived = ATOLL_LIMIT_ALL;
    spec.persistent = true;
    assert_true(atoll_plan_build(&rootless, &spec, &seccomp, &plan, &err) < 0);
    assert_int_equal(err.kind, ATOLL_ERR_UNIMPLEMENTED);
    assert_non_null(strstr(err.text, "root"));
    atoll_buf_done(&plan);
}

static void broken_plans_are_told(void **state)
{
    static const uint8_t cut[] = {1, 0, 0, 0, 9, 0, 0, 0, 'x'};
    static const uint8_t odd[] = {1, 0, 7, 0, 0, 0, 0, 0};
    const uint8_t *p = cut;
    size_t n = sizeof(cut);
    struct atoll_plan_step step;

    (void)state;
    assert_int_equal(atoll_plan_next(&p, &n, &step), -EBADMSG);
    p = odd;
    n = sizeof(odd);
    assert_int_equal(atoll_plan_next(&p, &n, &step), -EBADMSG);
    n = 3;
    assert_int_equal(atoll_plan_next(&p, &n, &step), -EBADMSG);
    n = 0;
    assert_int_equal(atoll_plan_next(&p, &n, &step), 0);
}

static void the_filter_is_built(void **state)
{
    struct atoll_buf filter;
    struct atoll_error err;

    (void)state;
    atoll_buf_init(&filter, 65536);
    assert_int_equal(atoll_seccomp_build(&filter, &err), 0);
    assert_true(atoll_buf_size(&filter) > 1000);
    assert_int_equal(atoll_buf_size(&filter) % 8, 0);
    atoll_buf_done(&filter);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(limits_reach_the_steps),
        cmocka_unit_test(rights_are_dropped_in_order),
        cmocka_unit_test(a_network_for_those_that_ask),
        cmocka_unit_test(a_read_only_root),
        cmocka_unit_test(private_files_of_usr_are_hidden),
        cmocka_unit_test(a_stack_on_the_host_template),
        cmocka_unit_test(a_large_disk_is_an_image),
        cmocka_unit_test(a_disk_with_a_bandwidth_is_an_image),
        cmocka_unit_test(a_limit_that_cannot_be_given_is_an_error_unless_waived),
        cmocka_unit_test(only_what_is_lacking_must_be_waived),
        cmocka_unit_test(a_persistent_disk_is_an_image_that_is_kept),
        cmocka_unit_test(a_persistent_one_needs_root),
        cmocka_unit_test(boot_ids_differ),
        cmocka_unit_test(broken_plans_are_told),
        cmocka_unit_test(the_filter_is_built),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
