/*
 * Unit tests of the host probe. What a host has differs, so they check that the parts of the
 * answer agree with each other, and that a probe leaves nothing behind.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/fd.h"
#include "sandbox/host.h"

static struct atoll_host_report report;

static const struct atoll_host_check *check_named(const char *name)
{
    for (size_t i = 0; i < report.nchecks; i++)
        if (strcmp(report.checks[i].name, name) == 0)
            return &report.checks[i];
    return NULL;
}

static int probe(void **state)
{
    struct atoll_error err;
    (void)state;

    return atoll_host_probe(&report, &err);
}

/* Fewer process ids than ten thousand busy sandboxes need are told, with what to do. */
static void few_process_ids_are_told(void **state)
{
    const struct atoll_host_check *check = check_named("kernel.pid_max");
    char text[32];
    long most;

    (void)state;
    assert_true(atoll_fd_read_file(AT_FDCWD, "/proc/sys/kernel/pid_max", text, sizeof(text)) > 0);
    most = strtol(text, NULL, 10);
    assert_int_equal(check != NULL, most < 32 * 10000);
    if (check) {
        assert_int_equal(check->state, ATOLL_HOST_WARN);
        assert_non_null(strstr(check->fix, "sysctl -w kernel.pid_max="));
    }
}

static void caps_and_checks_agree(void **state)
{
    const struct atoll_host_caps *caps = &report.caps;
    const struct {
        const char *name;
        bool have;
    } pairs[] = {
        {"user namespaces", caps->userns},
        {"seccomp", caps->seccomp},
        {"pidfd", caps->pidfd},
        {"overlayfs in userns", caps->overlay_userns},
        {"cgroups", caps->cgroup_memory && caps->cgroup_cpu && caps->cgroup_pids},
    };
    (void)state;

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(pairs); i++) {
        const struct atoll_host_check *check = check_named(pairs[i].name);
        assert_non_null(check);
        assert_int_equal(check->state == ATOLL_HOST_OK, pairs[i].have);
    }
    assert_true(caps->kernel_major >= 3);
    assert_true(caps->cpus >= 1 && caps->memory_bytes > 1024 * 1024);
    assert_true(caps->root ? geteuid() == 0 : true);
    assert_int_equal(caps->cgroup_version != 0, caps->cgroup_memory || caps->cgroup_cpu ||
                                                    caps->cgroup_pids || caps->cgroup_freezer);
}

static void the_verdict_follows_from_the_checks(void **state)
{
    bool missing = false;
    (void)state;

    for (size_t i = 0; i < report.nchecks; i++) {
        const struct atoll_host_check *check = &report.checks[i];
        missing |= check->essential && check->state == ATOLL_HOST_MISSING;
        assert_true(*check->name && *check->detail);
        /* A warning one can do nothing about is noise. */
        if (check->state == ATOLL_HOST_WARN)
            assert_true(*check->fix);
    }
    assert_int_equal(report.native, !missing);
    assert_true(*report.summary);
    assert_true(report.nchecks > 10 && report.nchecks < ATOLL_HOST_CHECKS_MAX);
}

static void the_report_is_json(void **state)
{
    struct atoll_buf buf;
    json_t *object;
    (void)state;

    atoll_buf_init(&buf, 256 * 1024);
    assert_int_equal(atoll_host_report_json(&report, &buf), 0);
    object = json_loadb((const char *)atoll_buf_head(&buf), atoll_buf_size(&buf), 0, NULL);
    assert_non_null(object);
    assert_int_equal(json_array_size(json_object_get(object, "checks")), report.nchecks);
    assert_int_equal(json_is_true(json_object_get(object, "native")), report.native);
    assert_string_equal(json_string_value(json_object_get(object, "mode")),
                        report.caps.root ? "root" : "rootless");
    json_decref(object);
    atoll_buf_done(&buf);

    atoll_buf_init(&buf, 100);
    assert_int_equal(atoll_host_report_json(&report, &buf), -ENOBUFS);
    atoll_buf_done(&buf);
}

/* How many file systems are mounted where the probe puts its scratch space. */
static size_t count_scratch_mounts(void)
{
    static const char *const places[] = {" /tmp ", " /run ", " /mnt ", " /var "};
    static char text[256 * 1024];
    size_t n = 0;

    assert_true(atoll_fd_read_file(AT_FDCWD, "/proc/self/mounts", text, sizeof(text)) > 0);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(places); i++)
        for (const char *p = text; (p = strstr(p, places[i])) != NULL; p++)
            n++;
    return n;
}

static void a_probe_leaves_nothing_behind(void **state)
{
    size_t mounts = count_scratch_mounts();
    struct atoll_host_caps caps;
    struct atoll_error err;
    siginfo_t info;
    int next = open("/dev/null", O_RDONLY | O_CLOEXEC), again;
    (void)state;

    assert_true(next >= 0);
    assert_int_equal(close(next), 0);
    assert_int_equal(atoll_host_caps_probe(&caps, &err), 0);
    assert_int_equal(count_scratch_mounts(), mounts);
    assert_int_equal(waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT), -1);
    assert_int_equal(errno, ECHILD);
    again = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_int_equal(again, next);
    assert_int_equal(close(again), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(caps_and_checks_agree),
        cmocka_unit_test(few_process_ids_are_told),
        cmocka_unit_test(the_verdict_follows_from_the_checks),
        cmocka_unit_test(the_report_is_json),
        cmocka_unit_test(a_probe_leaves_nothing_behind),
    };
    return cmocka_run_group_tests(tests, probe, NULL);
}
