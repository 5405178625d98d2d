/*
 * Stacks of layers and builders, with a real atoll-spawn and the agents of its sandboxes: as root, and once
 * more as a user without rights, in a process of its own.
 */
#include "live_boxes.h"

#define NOBODY 65534

/* --- stacks --- */

/* Layer i has a file of its own, replaces `top`, and removes the file of the layer before it. The middle
 * one has an opaque directory. */
static void put_layer(struct fixture *f, size_t i, size_t count)
{
    char name[16], path[16], text[16];

    (void)snprintf(name, sizeof(name), "l%zu", i);
    (void)snprintf(text, sizeof(text), "%zu", i);
    put_directory(f, name, "");
    (void)snprintf(path, sizeof(path), "f%zu", i);
    put_file(f, name, path, text);
    put_file(f, name, "top", text);
    if (i > 1) {
        (void)snprintf(path, sizeof(path), "f%zu", i - 1);
        put_whiteout(f, name, path);
    }
    if (i != (count + 1) / 2)
        return;
    put_opaque(f, name, "d");
    put_file(f, name, "d/high", text);
}

static void a_stack_of(struct fixture *f, size_t count)
{
    char layers[ATOLL_STACK_CAP] = BASE, wanted[64];
    struct atoll_spec spec;
    struct box b;

    put_base(f);
    for (size_t i = 1; i < count; i++) { /* the base is one of them */
        put_layer(f, i, count);
        (void)snprintf(layers + strlen(layers), sizeof(layers) - strlen(layers), " l%zu", i);
    }
    assert_int_equal(atoll_stack_count(layers), count);
    spec = spec_of(f, ATOLL_BUILDER_NONE, layers);
    open_box(f, &b, &spec);
    (void)snprintf(wanted, sizeof(wanted), "%zu", count - 1);
    expect(f, &b, "cat /top", wanted);
    (void)snprintf(wanted, sizeof(wanted), "/f%zu\n", count - 1);
    expect(f, &b, "ls -d /f*", wanted);
    expect(f, &b, "ls /d", "high\n");
    /* The writable layer marks what it removes in the same way. */
    if (!f->rootless) {
        expect(f, &b, "rm -r /d && mkdir /d && touch /d/new && ls /d", "new\n");
        expect(f, &b, "rm /top && ls /top 2>/dev/null; cat /etc/hosts | wc -l", "2\n");
    }
    close_box(f, &b);
    for (size_t i = 1; i < count; i++) {
        char name[16];

        (void)snprintf(name, sizeof(name), "l%zu", i);
        drop_layer(f, name);
    }
}

static void a_stack_of_two(void **state)
{
    a_stack_of(need(state), 2);
}

static void a_stack_of_ten(void **state)
{
    a_stack_of(need(state), 10);
}

static void a_stack_of_the_most(void **state)
{
    a_stack_of(need(state), ATOLL_LAYERS_MAX);
}

/* Images often contain the empty layer several times. */
static void a_layer_may_occur_twice(void **state)
{
    struct fixture *f = need(state);
    struct atoll_spec spec = spec_of(f, ATOLL_BUILDER_NONE, "base e base e");
    struct box b;

    put_base(f);
    put_directory(f, "e", "");
    put_file(f, "e", "top", "e");
    open_box(f, &b, &spec);
    expect(f, &b, "cat /top", "e");
    close_box(f, &b);
    drop_layer(f, "e");
}

static void a_missing_layer_is_an_error(void **state)
{
    struct fixture *f = need(state);
    struct atoll_spec spec = spec_of(f, ATOLL_BUILDER_NONE, "base nosuch");
    struct answer a;

    put_base(f);
    a = try_box(f, &spec);
    assert_false(a.ok);
    assert_int_equal(a.error.kind, ATOLL_ERR_FAILED_PRECONDITION);
}

/* Nothing of the layers of others, nor of the disk, is to be seen. */
static void only_the_root_is_mounted(void **state)
{
    struct fixture *f = need(state);
    struct atoll_spec spec = spec_of(f, ATOLL_BUILDER_NONE, BASE);
    struct box b;

    put_base(f);
    open_box(f, &b, &spec);
    expect(f, &b, "grep -c ' / ' /proc/mounts; grep -c '^[^ ]* [^ ]*layers' /proc/mounts",
           "1\n0\n");
    close_box(f, &b);
}

/* --- builders --- */

/* /import is no overlay: whiteouts can be made there, and no device. The control: not in the root. */
static void an_unpacker_makes_whiteouts(void **state)
{
    struct fixture *f = need(state);
    struct atoll_spec spec = spec_of(f, ATOLL_BUILDER_UNPACK, NULL);
    struct stat st;
    struct box b;
    char mark;

    open_box(f, &b, &spec);
    expect(f, &b,
           "cd /import && mknod gone c 0 0 && mkdir d && echo x > d/f && "
           "python3 -c 'import os; os.setxattr(\"d\", \"user.overlay.opaque\", b\"y\")' && ls",
           "d\ngone\n");
    expect(f, &b, "mknod /import/null c 1 3 2>/dev/null; echo $?", "1\n");
    expect(f, &b, "mknod /import/block b 0 0 2>/dev/null; echo $?", "1\n");
    expect(f, &b, "mknod /tmp/gone c 0 0 2>/dev/null; echo $?", "1\n");
    expect(f, &b, "grep -c ' /import .*nosuid,nodev' /proc/mounts", "1\n");
    assert_true(commit(f, &b, "import", "made").ok);
    assert_int_equal(lstat(path_of(f, "made", "gone"), &st), 0);
    assert_true(S_ISCHR(st.st_mode) && st.st_rdev == 0);
    assert_int_equal(st.st_uid, owner(f));
    assert_int_equal(getxattr(path_of(f, "made", "d"), "user.overlay.opaque", &mark, 1), 1);
    /* Its processes have ended. */
    assert_int_not_equal(kill((pid_t)b.made.pid, 0), 0);
    close_box(f, &b);
    drop_layer(f, "made");
}

static void a_step_that_changes_nothing_keeps_nothing(void **state)
{
    struct fixture *f = need(state);
    struct atoll_spec spec = spec_of(f, ATOLL_BUILDER_STEP, BASE);
    struct box b;

    put_base(f);
    open_box(f, &b, &spec);
    expect(f, &b, "ls -A / /.atoll", /* what the base has, and mount points */
           "/:\n.atoll\nbin\nd\ndev\netc\nproc\ntop\nusr\n\n/.atoll:\n");
    expect(f, &b, "wc -l < /etc/hosts; cat /etc/resolv.conf; test -c /dev/null && echo null",
           "2\n# no network\nnull\n");
    assert_true(commit(f, &b, "", "empty").ok);
    expect_layer(f, "empty", "");
    close_box(f, &b);
    drop_layer(f, "empty");
}

/* The host template below: its /usr is an overlay of its own, whose changes are part of the result. */
static void a_step_on_the_host_template(void **state)
{
    struct fixture *f = need(state);
    struct atoll_spec spec = spec_of(f, ATOLL_BUILDER_STEP, "host");
    struct box b;

    open_box(f, &b, &spec);
    expect(f, &b, "echo x > /usr/new; rm /usr/bin/env; echo y > /etc/new; touch /usr/bin/sudo", "");
    assert_true(commit(f, &b, "", "on-host").ok);
    expect_layer(f, "on-host", "./etc\n./etc/new\n./usr\n./usr/bin\n./usr/bin/env\n./usr/new\n");
    close_box(f, &b);
    spec = spec_of(f, ATOLL_BUILDER_NONE, "host on-host");
    open_box(f, &b, &spec);
    expect(f, &b, "cat /usr/new /etc/new; ls /usr/bin/env 2>/dev/null; ls /usr/bin/sudo",
           "x\ny\n/usr/bin/sudo\n");
    close_box(f, &b);
    drop_layer(f, "on-host");
}

/* Also one that touches all that there is. */
static void a_step_keeps_its_changes_only(void **state)
{
    struct fixture *f = need(state);
    struct atoll_spec spec = spec_of(f, ATOLL_BUILDER_STEP, BASE);
    struct box b;
    struct stat st;

    put_base(f);
    open_box(f, &b, &spec);
    expect(f, &b,
           "echo 10.0.0.1 peer >> /etc/hosts; echo x > /etc/new; rm /top; rm -r /d; mkdir /d; "
           "chmod 700 /.atoll; touch /.atoll/x /dev/shm/x; "
           "touch /usr/bin/sudo /usr/share/atoll /usr/share/atoll/*; "
           "chmod -R g+w /etc /proc /dev 2>/dev/null; cat /etc/hosts | wc -l",
           "3\n");
    assert_true(commit(f, &b, "", "changes").ok);
    expect_layer(f, "changes",
                 "./d\n./etc\n./etc/new\n./etc/passwd\n./top\n./usr\n./usr/bin\n./usr/share\n");
    assert_int_equal(lstat(path_of(f, "changes", "top"), &st), 0);
    assert_true(S_ISCHR(st.st_mode) && st.st_rdev == 0);
    assert_int_equal(getxattr(path_of(f, "changes", "d"), "user.overlay.opaque", NULL, 0), 1);
    close_box(f, &b);
    spec = spec_of(f, ATOLL_BUILDER_NONE, "base changes");
    open_box(f, &b, &spec);
    expect(f, &b, "ls /d; ls /top 2>/dev/null; cat /etc/new; wc -l < /etc/hosts", "x\n2\n");
    close_box(f, &b);
    drop_layer(f, "changes");
}

/* An image has a sudo of its own: that one is a part of its layers. */
static void a_program_of_the_same_name_is_kept(void **state)
{
    struct fixture *f = need(state);
    struct atoll_spec spec = spec_of(f, ATOLL_BUILDER_STEP, BASE);
    struct box b;

    put_base(f);
    open_box(f, &b, &spec);
    expect(f, &b, "rm /usr/bin/sudo; echo own > /usr/bin/sudo; cat /usr/bin/sudo", "own\n");
    assert_true(commit(f, &b, "", "sudo").ok);
    expect_layer(f, "sudo", "./usr\n./usr/bin\n./usr/bin/sudo\n");
    close_box(f, &b);
    drop_layer(f, "sudo");
}

static void trees_are_read_only(void **state)
{
    struct fixture *f = need(state);
    const struct atoll_tree trees[] = {{"/.atoll/context", "one", NULL, false},
                                       {"/from/here", "one two", NULL, false}};
    struct atoll_spec spec = spec_of(f, ATOLL_BUILDER_STEP, BASE);
    struct box b;

    put_base(f);
    put_directory(f, "one", "");
    put_file(f, "one", "a", "1");
    put_file(f, "one", "b", "1");
    put_directory(f, "two", "");
    put_whiteout(f, "two", "a");
    spec.trees = trees;
    spec.tree_count = ATOLL_ARRAY_LEN(trees);
    open_box(f, &b, &spec);
    expect(f, &b, "ls /.atoll/context /from/here", "/.atoll/context:\na\nb\n\n/from/here:\nb\n");
    expect(f, &b,
           "echo 2 2>/dev/null > /.atoll/context/a; rm -f /from/here/b 2>/dev/null; ls /from/here",
           "b\n");
    expect(f, &b, "grep -c ' /from/here overlay ro,nosuid,nodev' /proc/mounts", "1\n");
    assert_true(commit(f, &b, "", "with-trees").ok);
    expect_layer(f, "with-trees", ""); /* the mount point was made for the step */
    assert_true(has(f, "one", "b"));
    close_box(f, &b);
    drop_layer(f, "with-trees");
    drop_layer(f, "one");
    drop_layer(f, "two");
}

/* Links in a tree lead to its own root; and a copy can change what is a mount in a step. */
static void a_copy_has_the_stack_at_import(void **state)
{
    struct fixture *f = need(state);
    const struct atoll_tree trees[] = {{"/mnt/part", "one", "link/a", false}};
    struct atoll_spec spec = spec_of(f, ATOLL_BUILDER_COPY, BASE);
    struct box b;

    put_base(f);
    put_directory(f, "one", "");
    put_directory(f, "one", "d");
    put_file(f, "one", "d/a", "1");
    assert_int_equal(symlink("/d", path_of(f, "one", "link")), 0);
    spec.template_kind = ATOLL_TEMPLATE_HOST;
    spec.trees = trees;
    spec.tree_count = 1;
    open_box(f, &b, &spec);
    expect(f, &b, "cat /mnt/part; cat /import/top; rm /import/top; echo x > /import/etc/hosts",
           "1base");
    assert_true(commit(f, &b, "u.import", "copied").ok);
    expect_layer(f, "copied", "./etc\n./etc/hosts\n./top\n");
    close_box(f, &b);
    drop_layer(f, "copied");
    drop_layer(f, "one");
}

static void caches_are_not_part_of_the_result(void **state)
{
    struct fixture *f = need(state);
    const struct atoll_cache caches[] = {
        {ATOLL_CACHE_KEPT, "/d/sub/cache", "pip"},
        {ATOLL_CACHE_KEPT, "/link/cache", "apt"},
        {ATOLL_CACHE_SCRATCH, "/run/secrets", NULL},
        {ATOLL_CACHE_FILE, "/run/secrets/token", NULL},
        {ATOLL_CACHE_FILE, "/top", NULL},
    };
    struct atoll_spec spec = spec_of(f, ATOLL_BUILDER_STEP, "base links");
    struct box b;

    put_base(f);
    put_directory(f, "links", "");
    assert_int_equal(symlink("/d/../../../d", path_of(f, "links", "link")), 0);
    spec.caches = caches;
    spec.cache_count = ATOLL_ARRAY_LEN(caches);
    open_box(f, &b, &spec);
    expect(f, &b,
           "ls /d/sub/cache; echo 1 > /d/sub/cache/kept; echo 2 > /d/cache/kept; "
           "echo secret > /run/secrets/token; echo secret > /run/secrets/other; "
           "echo secret > /top; stat -c %a /top; echo x > /d/new",
           "600\n");
    assert_true(commit(f, &b, "", "cached").ok);
    expect_layer(f, "cached", "./d\n./d/new\n./d/sub\n");
    close_box(f, &b);
    /* The next step finds the cache as it was left, and an empty secret. */
    memcpy(spec.id, spec_of(f, ATOLL_BUILDER_STEP, BASE).id, sizeof(spec.id));
    open_box(f, &b, &spec);
    expect(f, &b, "cat /d/sub/cache/kept /d/cache/kept /run/secrets/token; ls /run/secrets",
           "1\n2\ntoken\n");
    close_box(f, &b);
    /* Another tenant has its own caches. */
    memcpy(spec.id, spec_of(f, ATOLL_BUILDER_STEP, BASE).id, sizeof(spec.id));
    (void)snprintf(spec.tenant, sizeof(spec.tenant), "other");
    open_box(f, &b, &spec);
    expect(f, &b, "ls /d/sub/cache", "");
    close_box(f, &b);
    drop_layer(f, "cached");
    drop_layer(f, "links");
}

/* Links of an image do not lead out of the root. */
static void mount_points_stay_inside(void **state)
{
    struct fixture *f = need(state);
    const struct atoll_cache caches[] = {{ATOLL_CACHE_SCRATCH, "/out/atoll-escape", NULL}};
    struct atoll_spec spec = spec_of(f, ATOLL_BUILDER_STEP, "base escape");
    struct box b;

    put_base(f);
    put_directory(f, "escape", "");
    assert_int_equal(symlink("../../../../../tmp", path_of(f, "escape", "out")), 0);
    spec.caches = caches;
    spec.cache_count = 1;
    open_box(f, &b, &spec);
    expect(f, &b, "ls -d /tmp/atoll-escape", "/tmp/atoll-escape\n");
    assert_int_not_equal(access("/tmp/atoll-escape", F_OK), 0);
    close_box(f, &b);
    drop_layer(f, "escape");
}

/* Processes of the step that run on do not write to the layer. */
static void a_commit_ends_the_processes(void **state)
{
    struct fixture *f = need(state);
    struct atoll_spec spec = spec_of(f, ATOLL_BUILDER_STEP, BASE);
    struct stat before, after;
    struct box b;

    put_base(f);
    open_box(f, &b, &spec);
    expect(f, &b,
           "(while :; do echo x >> /log; done) >/dev/null 2>&1 & while ! test -s /log; do :; done; "
           "echo begun",
           "begun\n");
    assert_true(commit(f, &b, "", "log").ok);
    assert_int_equal(stat(path_of(f, "log", "log"), &before), 0);
    (void)usleep(20000);
    assert_int_equal(stat(path_of(f, "log", "log"), &after), 0);
    assert_int_equal(before.st_size, after.st_size);
    /* The result is taken. */
    assert_false(commit(f, &b, "", "again").ok);
    close_box(f, &b);
    drop_layer(f, "log");
}

static void a_commit_needs_a_builder_and_names(void **state)
{
    struct fixture *f = need(state);
    struct atoll_spec spec = spec_of(f, ATOLL_BUILDER_NONE, BASE);
    struct box b;

    put_base(f);
    open_box(f, &b, &spec);
    assert_int_equal(commit(f, &b, "etc", "x").error.kind, ATOLL_ERR_INVALID_ARGUMENT);
    assert_int_equal(commit(f, &b, "../u", "x").error.kind, ATOLL_ERR_INVALID_ARGUMENT);
    assert_int_equal(commit(f, &b, "", "../x").error.kind, ATOLL_ERR_INVALID_ARGUMENT);
    assert_false(commit(f, &b, "", "x").ok); /* its disk is no directory */
    assert_false(has(f, "x", ""));
    close_box(f, &b);
    assert_int_equal(commit(f, &b, "", "x").error.kind, ATOLL_ERR_NOT_FOUND);
}

/* A compromised daemon: names and mount points are checked again. */
static void a_plan_cannot_name_other_places(void **state)
{
    struct fixture *f = need(state);
    static const struct atoll_po_bind binds[] = {
        {.kind = ATOLL_BIND_CACHE, .target = "d", .mode = 0755, .name = "../layers"},
        {.kind = ATOLL_BIND_CACHE, .target = "d", .mode = 0755, .name = "me/../../layers"},
        {.kind = ATOLL_BIND_CACHE, .target = "d", .mode = 0755, .name = "me"},
        {.kind = ATOLL_BIND_DIRECTORY, .target = "../x", .mode = 0755, .name = ""},
        {.kind = 77, .target = "d", .mode = 0755, .name = ""},
    };
    const char *bad[] = {"../../x"};
    const struct atoll_po_overlay stack = {
        .target = "d", .lowers = "", .stack = {bad, 1}, .userxattr = 1};

    put_base(f);
    for (size_t i = 0; i <= ATOLL_ARRAY_LEN(binds); i++) {
        struct atoll_spec spec = spec_of(f, ATOLL_BUILDER_STEP, BASE);
        const struct atoll_plan_host host = {
            .root = true, .cgroup_version = (int)f->info.cgroup_version, .stacks = true};
        struct atoll_buf whole, plan;
        struct atoll_error err;
        const uint8_t *p;
        struct atoll_plan_step step;
        struct answer a;
        size_t n;

        atoll_buf_init(&whole, ATOLL_PLAN_MAX);
        atoll_buf_init(&plan, ATOLL_PLAN_MAX);
        assert_int_equal(atoll_plan_build(&host, &spec, &f->seccomp, &whole, &err), 0);
        p = atoll_buf_head(&whole);
        n = atoll_buf_size(&whole);
        while (atoll_plan_next(&p, &n, &step) > 0 && step.op != ATOLL_PLAN_BIND)
            ;
        n = (size_t)(step.payload - 8 - atoll_buf_head(&whole));
        assert_int_equal(atoll_buf_append(&plan, atoll_buf_head(&whole), n), 0);
        if (i < ATOLL_ARRAY_LEN(binds))
            assert_int_equal(atoll_plan_add(&plan, ATOLL_PLAN_BIND, &atoll_po_bind_desc, &binds[i]),
                             0);
        else
            assert_int_equal(
                atoll_plan_add(&plan, ATOLL_PLAN_OVERLAY, &atoll_po_overlay_desc, &stack), 0);
        a = ask_create(f, spec.id, &plan);
        assert_false(a.ok);
        assert_non_null(strstr(a.error.text, i < ATOLL_ARRAY_LEN(binds) ? "(bind)" : "(overlay)"));
        atoll_buf_done(&whole);
        atoll_buf_done(&plan);
    }
}

/* --- without root --- */

static char *self;

/* Runs the tests that do not need root in a process without rights. */
static void without_root(void **state)
{
    int status;
    pid_t pid;

    (void)need(state);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        if (setgroups(0, NULL) < 0 || setresgid(NOBODY, NOBODY, NOBODY) < 0 ||
            setresuid(NOBODY, NOBODY, NOBODY) < 0)
            _exit(2);
        (void)execl(self, self, "rootless", NULL);
        _exit(77); /* the user cannot read the build */
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        skip();
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static int run_rootless(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stack_of_ten),
        cmocka_unit_test(a_stack_of_the_most),
        cmocka_unit_test(an_unpacker_makes_whiteouts),
        cmocka_unit_test(a_step_that_changes_nothing_keeps_nothing),
        cmocka_unit_test(a_step_keeps_its_changes_only),
    };
    return cmocka_run_group_tests_name("without root", tests, setup, teardown);
}

/* --- kernels that take all layers in one option --- */

static void too_many_layers_are_an_error(void **state)
{
    struct fixture *f = need(state);
    char layers[ATOLL_STACK_CAP] = BASE;
    struct atoll_spec spec = spec_of(f, ATOLL_BUILDER_NONE, layers);
    struct answer a;

    put_base(f);
    for (size_t i = 1; i < ATOLL_LAYERS_MAX; i++)
        (void)snprintf(layers + strlen(layers), sizeof(layers) - strlen(layers), " l%zu", i);
    a = try_box(f, &spec);
    assert_false(a.ok);
    assert_int_equal(a.error.kind, ATOLL_ERR_FAILED_PRECONDITION);
    assert_non_null(strstr(a.error.text, "cannot stack 128 layers"));
}

static void a_stack_of_eighty(void **state)
{
    a_stack_of(need(state), 80);
}

static int run_joined(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stack_of_two),
        cmocka_unit_test(a_stack_of_eighty),
        cmocka_unit_test(too_many_layers_are_an_error),
        cmocka_unit_test(trees_are_read_only),
    };
    return cmocka_run_group_tests_name("one option", tests, setup, teardown);
}

static void with_one_option_for_all(void **state)
{
    int status;
    pid_t pid;

    (void)need(state);
#ifndef ATOLL_TEST_SWITCHES
    skip();
#endif
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)setenv("ATOLL_WEAKEN", "lowerdir_append", 1);
        (void)execl(self, self, "joined", NULL);
        _exit(2);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static int setup_as_root(void **state)
{
    return geteuid() == 0 && access(BUSYBOX, X_OK) == 0 ? setup(state) : 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stack_of_two),
        cmocka_unit_test(a_stack_of_ten),
        cmocka_unit_test(a_stack_of_the_most),
        cmocka_unit_test(a_layer_may_occur_twice),
        cmocka_unit_test(a_missing_layer_is_an_error),
        cmocka_unit_test(only_the_root_is_mounted),
        cmocka_unit_test(an_unpacker_makes_whiteouts),
        cmocka_unit_test(a_step_that_changes_nothing_keeps_nothing),
        cmocka_unit_test(a_step_on_the_host_template),
        cmocka_unit_test(a_step_keeps_its_changes_only),
        cmocka_unit_test(a_program_of_the_same_name_is_kept),
        cmocka_unit_test(trees_are_read_only),
        cmocka_unit_test(a_copy_has_the_stack_at_import),
        cmocka_unit_test(caches_are_not_part_of_the_result),
        cmocka_unit_test(mount_points_stay_inside),
        cmocka_unit_test(a_commit_ends_the_processes),
        cmocka_unit_test(a_commit_needs_a_builder_and_names),
        cmocka_unit_test(a_plan_cannot_name_other_places),
        cmocka_unit_test(without_root),
        cmocka_unit_test(with_one_option_for_all),
    };

    self = argv[0];
    if (argc > 1 && strcmp(argv[1], "joined") == 0)
        return run_joined();
    if (argc > 1 && strcmp(argv[1], "rootless") == 0)
        return run_rootless();
    return cmocka_run_group_tests(tests, setup_as_root, teardown);
}
