/* atoll-spawn dies while the native provider makes a sandbox. Needs root. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/fd.h"
#include "base/rand.h"
#include "provider/native/native.h"
#include "sys/tree.h"
#include "test.h"

#define MIB (UINT64_C(1) << 20)

struct made {
    struct atoll_spec spec;
    bool ended;
    int fd; /* owned; ATOLL_NO_FD: it failed */
};

static void on_exited(void *arg, const char *id, const struct atoll_provider_exit *e)
{
    (void)arg;
    (void)id;
    (void)e;
}

static void on_lost(void *arg, const char *why)
{
    (void)why;
    *(bool *)arg = true;
}

static const struct atoll_provider_events events = {on_exited, on_lost, NULL};

static void on_created(void *arg, int fd, uint64_t boot_us, const struct atoll_error *error)
{
    struct made *m = arg;

    (void)boot_us;
    m->fd = error ? ATOLL_NO_FD : fd;
    m->ended = true;
}

static void begin(struct atoll_provider *p, struct made *m, uint64_t disk_bytes)
{
    *m = (struct made){.spec.limits = {.memory_bytes = 64 * MIB,
                                       .cpu_millis = 500,
                                       .pids = 32,
                                       .disk_bytes = disk_bytes,
                                       .inodes = 1000,
                                       .open_files = 256}};
    atoll_rand_id(m->spec.id, ATOLL_ID_LEN);
    p->ops->create(p, &m->spec, on_created, m);
}

static void wait_for(struct atoll_loop *loop, const bool *what)
{
    int64_t end = atoll_clock_ms() + 20000;
    struct atoll_error err;

    while (!*what && atoll_clock_ms() < end)
        assert_int_equal(atoll_loop_step(loop, 100, &err), 0);
    assert_true(*what);
}

static pid_t child_of(pid_t pid)
{
    char path[64], text[64];

    (void)snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)pid, (int)pid);
    assert_true(atoll_fd_read_file(AT_FDCWD, path, text, sizeof(text)) > 0);
    return atoi(text);
}

/* The ids of one whose disk is still being formatted when atoll-spawn comes back are nobody else's. */
static void no_two_have_the_same_ids(void **state)
{
    const char *build = getenv("ATOLL_BUILD_DIR");
    char dir[] = "/tmp/atoll-lost-XXXXXX";
    struct atoll_native_config config = {dir, build};
    struct atoll_provider *p;
    struct atoll_loop *loop;
    struct atoll_error err = {0};
    struct made first, second;
    bool lost = false;
    pid_t keeper;

    (void)state;
    if (geteuid() != 0 || !build)
        skip();
    assert_non_null(mkdtemp(dir));
    assert_int_equal(atoll_loop_new(&loop, &err), 0);
    if (atoll_native_open(loop, &config, &p, &err) < 0)
        fail_msg("%s", err.text);
    p->events = &events;
    p->events_arg = &lost;
    keeper = child_of(getpid());
    begin(p, &first, 300 * MIB); /* more than half of the memory */
    assert_false(first.ended);
    assert_int_equal(kill(child_of(keeper), SIGKILL), 0);
    wait_for(loop, &lost);
    wait_for(loop, &first.ended);
    begin(p, &second, 16 * MIB);
    wait_for(loop, &second.ended);
    assert_true(second.fd >= 0);
    assert_true(first.fd < 0 || first.spec.outside_id != second.spec.outside_id);
    if (first.fd >= 0)
        (void)close(first.fd);
    (void)close(second.fd);
    p->ops->shutdown(p);
    assert_int_equal(atoll_loop_step(loop, 100, &err), 0);
    p = p->ops->free(p);
    loop = atoll_loop_free(loop);
    (void)usleep(200000);
    assert_int_equal(atoll_tree_remove(AT_FDCWD, dir), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(no_two_have_the_same_ids)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
