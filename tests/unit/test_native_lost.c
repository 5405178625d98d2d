/* atoll-spawn dies or hangs while the native provider waits for it. Needs root. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/fd.h"
#include "base/rand.h"
#include "provider/native/native_internal.h"
#include "sys/tree.h"
#include "test.h"

#define MIB (UINT64_C(1) << 20)

struct made {
    struct atoll_spec spec;
    bool ended;
    int fd; /* owned; ATOLL_NO_FD: it failed */
    enum atoll_error_kind kind;
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
    assert_false(m->ended);
    m->fd = error ? ATOLL_NO_FD : fd;
    m->kind = error ? error->kind : ATOLL_ERR_NONE;
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

struct place {
    char dir[32];
    struct atoll_loop *loop;
    struct atoll_provider *p;
    pid_t spawn;
    bool lost;
};

static void open_place(struct place *at)
{
    const char *build = getenv("ATOLL_BUILD_DIR");
    struct atoll_native_config config = {.state_dir = at->dir, .program_dir = build};
    struct atoll_error err = {0};

    if (geteuid() != 0 || !build)
        skip();
    *at = (struct place){.dir = "/tmp/atoll-lost-XXXXXX"};
    assert_non_null(mkdtemp(at->dir));
    assert_int_equal(atoll_loop_new(&at->loop, &err), 0);
    if (atoll_native_open(at->loop, &config, &at->p, &err) < 0)
        fail_msg("%s", err.text);
    at->p->events = &events;
    at->p->events_arg = &at->lost;
    at->spawn = child_of(child_of(getpid()));
}

static void close_place(struct place *at)
{
    struct atoll_error err;

    at->p->ops->shutdown(at->p);
    assert_int_equal(atoll_loop_step(at->loop, 100, &err), 0);
    at->p = at->p->ops->free(at->p);
    at->loop = atoll_loop_free(at->loop);
    while (waitpid(-1, NULL, 0) < 0 && errno == EINTR) /* its keeper */
        ;
    assert_int_equal(atoll_tree_remove(AT_FDCWD, at->dir), 0);
}

/* The ids of one whose disk is still being formatted when atoll-spawn comes back are nobody else's. */
static void no_two_have_the_same_ids(void **state)
{
    struct made first, second;
    struct place at;

    (void)state;
    open_place(&at);
    begin(at.p, &first, 300 * MIB); /* more than half of the memory */
    assert_false(first.ended);
    assert_int_equal(kill(at.spawn, SIGKILL), 0);
    wait_for(at.loop, &at.lost);
    wait_for(at.loop, &first.ended);
    begin(at.p, &second, 16 * MIB);
    wait_for(at.loop, &second.ended);
    assert_true(second.fd >= 0);
    assert_true(first.fd < 0 || first.spec.outside_id != second.spec.outside_id);
    if (first.fd >= 0)
        (void)close(first.fd);
    (void)close(second.fd);
    close_place(&at);
}

struct told {
    bool ended;
    enum atoll_error_kind kind;
};

static void on_done(void *arg, const struct atoll_error *error)
{
    struct told *t = arg;

    assert_false(t->ended);
    *t = (struct told){true, error ? error->kind : ATOLL_ERR_NONE};
}

static void on_one(void *arg, const char *id, const char *handle, bool alive)
{
    (void)id;
    (void)handle;
    (void)alive;
    assert_false(((struct told *)arg)->ended);
}

static void stop_spawn(pid_t spawn)
{
    char path[64], text[512] = "";

    assert_int_equal(kill(spawn, SIGSTOP), 0);
    (void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)spawn);
    while (!strstr(text, ") T "))
        assert_true(atoll_fd_read_file(AT_FDCWD, path, text, sizeof(text)) > 0);
}

static void assert_no_sandboxes(const struct place *at)
{
    char path[64];

    (void)snprintf(path, sizeof(path), "%s/sandboxes", at->dir);
    assert_int_equal(rmdir(path), 0); /* only when it is empty */
}

/* Whoever waits is told, and when it goes on nothing is left of what nobody waits for. */
static void a_spawn_that_hangs_keeps_nobody(void **state)
{
    struct told destroyed = {0}, listed = {0};
    struct made first, second;
    struct atoll_native *n;
    struct atoll_error err;
    struct place at;

    (void)state;
    open_place(&at);
    n = atoll_native_of(at.p);
    begin(at.p, &first, 16 * MIB);
    wait_for(at.loop, &first.ended);
    assert_true(first.fd >= 0);
    stop_spawn(at.spawn);
    n->answer_ms = 50;
    begin(at.p, &second, 16 * MIB);
    at.p->ops->destroy(at.p, &first.spec, on_done, &destroyed);
    at.p->ops->list(at.p, on_one, on_done, &listed);
    wait_for(at.loop, &second.ended);
    wait_for(at.loop, &destroyed.ended);
    wait_for(at.loop, &listed.ended);
    assert_true(second.fd < 0);
    assert_int_equal(second.kind, ATOLL_ERR_DEADLINE_EXCEEDED);
    assert_int_equal(destroyed.kind, ATOLL_ERR_DEADLINE_EXCEEDED);
    assert_int_equal(listed.kind, ATOLL_ERR_DEADLINE_EXCEEDED);
    assert_int_equal(n->homes.by_id.used, 2); /* both may be there */
    n->answer_ms = ATOLL_NATIVE_ANSWER_MS;
    assert_int_equal(kill(at.spawn, SIGCONT), 0);
    for (int64_t end = atoll_clock_ms() + 20000; n->homes.by_id.used > 0;) {
        assert_true(atoll_clock_ms() < end);
        assert_int_equal(atoll_loop_step(at.loop, 100, &err), 0);
    }
    assert_false(at.lost);
    assert_no_sandboxes(&at);
    (void)close(first.fd);
    close_place(&at);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_spawn_that_hangs_keeps_nobody),
                                       cmocka_unit_test(no_two_have_the_same_ids)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
