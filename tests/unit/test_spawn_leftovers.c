/* What a killed atoll-spawn left does not keep the next one from answering. Needs root. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/fanotify.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include "base/clock.h"
#include "provider/spawn_client.h"
#include "sys/cgroup.h"
#include "sys/tree.h"
#include "test.h"

#define LEFT "0leftover0"

struct fixture {
    char state[32];
    struct atoll_spawn_info info;
    struct atoll_channel channel;
};

static void start(struct fixture *f)
{
    struct atoll_error err = {0};
    char program[4096];
    int fd;

    (void)snprintf(program, sizeof(program), "%s/atoll-spawn", getenv("ATOLL_BUILD_DIR"));
    if (atoll_spawn_connect(f->state, program, NULL, &fd, &f->info, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(atoll_channel_init(&f->channel, fd, 65536), 0);
}

static void end(struct fixture *f)
{
    assert_int_equal(atoll_channel_send(&f->channel, ATOLL_SPAWN_END, 0, NULL, NULL, NULL, 0), 0);
    assert_int_equal(atoll_channel_flush(&f->channel), 1);
    while (waitpid(-1, NULL, 0) < 0) /* its keeper */
        assert_int_equal(errno, EINTR);
    atoll_channel_done(&f->channel);
}

static void make_dir(const struct fixture *f, const char *name)
{
    char path[128];

    (void)snprintf(path, sizeof(path), "%s/%s", f->state, name);
    assert_int_equal(mkdir(path, 0755), 0);
}

static int count_entries(const struct fixture *f, const char *name)
{
    const struct dirent *entry;
    char path[128];
    int count = 0;
    DIR *dir;

    (void)snprintf(path, sizeof(path), "%s/%s", f->state, name);
    dir = opendir(path);
    assert_non_null(dir);
    while ((entry = readdir(dir)) != NULL)
        count += *entry->d_name != '.';
    (void)closedir(dir);
    return count;
}

static int on_frame(void *arg, struct atoll_frame *frame)
{
    *(bool *)arg = frame->type == ATOLL_SPAWN_REPLY;
    return 0;
}

static void ask_list(struct fixture *f)
{
    assert_int_equal(atoll_channel_send(&f->channel, ATOLL_SPAWN_LIST, 1, NULL, NULL, NULL, 0), 0);
    assert_int_equal(atoll_channel_flush(&f->channel), 1);
}

static bool is_answered(struct fixture *f, int within_ms)
{
    struct pollfd p = {.fd = f->channel.fd, .events = POLLIN};
    bool got = false;

    if (poll(&p, 1, within_ms) == 1)
        assert_int_equal(atoll_channel_receive(&f->channel, on_frame, &got), 0);
    return got;
}

static int setup(void **state)
{
    struct fixture *f;

    if (geteuid() != 0 || !getenv("ATOLL_BUILD_DIR"))
        return 0;
    f = calloc(1, sizeof(*f));
    assert_non_null(f);
    (void)snprintf(f->state, sizeof(f->state), "/tmp/atoll-left-XXXXXX");
    assert_non_null(mkdtemp(f->state));
    start(f);
    end(f);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    if (!f)
        return 0;
    assert_int_equal(atoll_tree_remove(AT_FDCWD, f->state), 0);
    free(f);
    return 0;
}

/* Whoever opens it waits until the descriptor that is returned is closed. */
static int hold(const struct fixture *f, const char *name)
{
    int fd = fanotify_init(FAN_CLASS_CONTENT | FAN_CLOEXEC, O_RDONLY | O_CLOEXEC);
    char path[128];

    (void)snprintf(path, sizeof(path), "%s/%s", f->state, name);
    if (fd < 0 || fanotify_mark(fd, FAN_MARK_ADD, FAN_OPEN_PERM | FAN_ONDIR, AT_FDCWD, path) < 0)
        skip(); /* not with this kernel */
    return fd;
}

static void files_take_the_time_they_take(void **state)
{
    struct fixture *f = *state;
    int held;

    if (!f)
        skip();
    make_dir(f, "sandboxes/" LEFT ".disk");
    make_dir(f, "sandboxes/" LEFT ".disk/u");
    make_dir(f, "sandboxes/" LEFT ".disk/u/below");
    held = hold(f, "sandboxes/" LEFT ".disk/u");
    start(f);
    ask_list(f);
    assert_true(is_answered(f, 20000));
    assert_int_equal(count_entries(f, "sandboxes"), 0);
    assert_int_equal(count_entries(f, "layers"), 1);
    (void)close(held);
    for (int64_t until = atoll_clock_ms() + 20000; count_entries(f, "layers") > 0;) {
        assert_true(atoll_clock_ms() < until);
        (void)usleep(1000);
    }
    end(f);
}

static void count_group(void *arg, const char *id)
{
    (void)id;
    ++*(int *)arg;
}

/* Whoever comes is greeted, and nothing is done before the last process is gone: here a group that
 * cannot be removed as long as there is one below it. */
static void ids_and_names_are_free_when_processes_are_gone(void **state)
{
    const struct atoll_cgroup_limits none = {0};
    struct fixture *f = *state;
    struct atoll_cgroups cgroups;
    int parent = ATOLL_NO_FD, groups = 0;

    if (!f || f->info.cgroup_version == 0)
        skip();
    assert_int_equal(atoll_cgroups_make(&cgroups, f->info.instance), 0);
    assert_int_equal(atoll_cgroup_create(&cgroups, LEFT, &none), 0);
    for (size_t i = 0; i < ATOLL_CG_COUNT && parent < 0; i++)
        parent = cgroups.parent_fd[i];
    assert_int_equal(mkdirat(parent, LEFT "/below", 0755), 0);
    start(f);
    ask_list(f);
    assert_false(is_answered(f, 500));
    assert_int_equal(unlinkat(parent, LEFT "/below", AT_REMOVEDIR), 0);
    assert_true(is_answered(f, 20000));
    assert_int_equal(atoll_cgroups_each(&cgroups, count_group, &groups), 0);
    assert_int_equal(groups, 0);
    atoll_cgroups_close(&cgroups);
    end(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_take_the_time_they_take),
        cmocka_unit_test(ids_and_names_are_free_when_processes_are_gone),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
