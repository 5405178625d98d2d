/*
 * A real atoll-spawn, driven with real plans that are made to fail after each of their steps in
 * turn: the error names the step, and nothing of the sandbox is left. Needs root.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include "base/clock.h"
#include "base/fd.h"
#include "live_spawn.h"
#include "proto/spawn_proto.h"
#include "provider/spawn_client.h"
#include "sandbox/host_template.h"
#include "sandbox/plan_builder.h"
#include "sandbox/seccomp.h"
#include "sys/cgroup.h"
#include "sys/netspace.h"
#include "sys/tree.h"

static int setup_as_root(void **state)
{
    return geteuid() == 0 ? setup(state) : 0;
}

static void count_group(void *arg, const char *id)
{
    (void)id;
    ++*(int *)arg;
}

static void assert_empty(struct fixture *f, const char *name)
{
    char path[128];
    struct dirent *entry;
    DIR *dir;

    (void)snprintf(path, sizeof(path), "%s/%s", f->state, name);
    dir = opendir(path);
    assert_non_null(dir);
    while ((entry = readdir(dir)) != NULL)
        assert_true(entry->d_name[0] == '.');
    (void)closedir(dir);
}

static void assert_nothing_left(struct fixture *f)
{
    struct atoll_cgroups cgroups;
    int groups = 0;

    assert_int_equal(atoll_cgroups_open(&cgroups, f->info.instance, f->info.cgroup_path), 0);
    assert_int_equal(atoll_cgroups_each(&cgroups, count_group, &groups), 0);
    atoll_cgroups_close(&cgroups);
    assert_int_equal(groups, 0);
    assert_empty(f, "sandboxes");
}

static void build_plan(struct fixture *f, struct atoll_spec *spec, struct atoll_buf *plan)
{
    const struct atoll_plan_host host = {
        .root = true, .cgroup_version = (int)f->info.cgroup_version, .hides = f->info.hides};
    struct atoll_error err;

    *spec = (struct atoll_spec){.limits = {.memory_bytes = UINT64_C(64) << 20,
                                           .cpu_millis = 500,
                                           .pids = 32,
                                           .disk_bytes = UINT64_C(16) << 20,
                                           .inodes = 1000,
                                           .open_files = 256},
                                .outside_id = f->info.id_bases[0],
                                .network = ATOLL_NETWORK_BRIDGE};
    atoll_rand_id(spec->id, ATOLL_ID_LEN);
    atoll_buf_init(plan, ATOLL_PLAN_MAX);
    assert_int_equal(atoll_plan_build(&host, spec, &f->seccomp, plan, &err), 0);
}

/* The plan up to and including step `last`, then ABORT. Returns how many steps the whole one has. */
static size_t cut_plan(const struct atoll_buf *whole, size_t last, struct atoll_buf *ret)
{
    const uint8_t *p = atoll_buf_head(whole);
    size_t n = atoll_buf_size(whole), count = 0;
    struct atoll_plan_step step;

    atoll_buf_init(ret, ATOLL_PLAN_MAX);
    while (atoll_plan_next(&p, &n, &step) > 0) {
        if (count == last) {
            size_t taken = (size_t)(p - atoll_buf_head(whole));
            assert_int_equal(atoll_buf_append(ret, atoll_buf_head(whole), taken), 0);
            assert_int_equal(atoll_plan_add(ret, ATOLL_PLAN_ABORT, NULL, NULL), 0);
        }
        count++;
    }
    return count;
}

static void aborts_cleanly_after_each_step(void **state)
{
    struct fixture *f = need(state);
    size_t count = 2;

    for (size_t last = 0; last + 1 < count; last++) {
        struct atoll_buf whole, cut;
        struct atoll_spec spec;
        struct answer a;

        build_plan(f, &spec, &whole);
        count = cut_plan(&whole, last, &cut);
        a = ask_create(f, spec.id, &cut);
        assert_false(a.ok);
        assert_int_equal(a.error.kind, ATOLL_ERR_ABORTED);
        assert_non_null(strstr(a.error.text, "(abort): stopped on purpose"));
        assert_nothing_left(f);
        atoll_buf_done(&whole);
        atoll_buf_done(&cut);
    }
    assert_true(count > 20); /* a plan of a few steps would have tested little */
}

static void garbage_is_refused(void **state)
{
    struct fixture *f = need(state);
    uint8_t noise[512];

    for (int round = 0; round < 50; round++) {
        char id[ATOLL_ID_LEN + 1];
        struct atoll_sm_create create = {id, {noise, sizeof(noise)}};
        atoll_rand_id(id, ATOLL_ID_LEN);
        atoll_rand_bytes(noise, sizeof(noise));
        assert_false(ask(f, ATOLL_SPAWN_CREATE, &atoll_sm_create_desc, &create).ok);
    }
    for (size_t i = 0; i < 3; i++) {
        static const char *const bad[] = {"../escape", "", "UPPER"};
        struct atoll_sm_create create = {bad[i], {noise, 0}};
        assert_false(ask(f, ATOLL_SPAWN_CREATE, &atoll_sm_create_desc, &create).ok);
    }
    assert_nothing_left(f);
}

static void ids_of_the_host_are_refused(void **state)
{
    struct fixture *f = need(state);
    struct atoll_spec spec;
    struct atoll_buf plan;

    build_plan(f, &spec, &plan);
    atoll_buf_clear(&plan);
    struct atoll_po_ids ids = {.mode = ATOLL_IDS_RANGE, .outside = 0, .count = 65536};
    assert_int_equal(atoll_plan_add(&plan, ATOLL_PLAN_IDS, &atoll_po_ids_desc, &ids), 0);
    struct answer a = ask_create(f, spec.id, &plan);
    assert_false(a.ok);
    assert_int_equal(a.error.kind, ATOLL_ERR_INVALID_ARGUMENT);
    assert_nothing_left(f);
    atoll_buf_done(&plan);
}

static void a_whole_plan_runs_and_is_removed(void **state)
{
    struct fixture *f = need(state);
    struct atoll_spec spec;
    struct atoll_buf plan;
    char path[64];

    build_plan(f, &spec, &plan);
    struct answer a = ask_create(f, spec.id, &plan);
    assert_true(a.ok);
    (void)snprintf(path, sizeof(path), "/proc/%u", a.pid);
    assert_int_equal(access(path, F_OK), 0);
    /* The same id twice is refused and does not hurt the first. */
    assert_false(ask_create(f, spec.id, &plan).ok);
    assert_int_equal(access(path, F_OK), 0);
    struct atoll_sm_remove ref = {.id = spec.id};
    assert_true(ask(f, ATOLL_SPAWN_REMOVE, &atoll_sm_remove_desc, &ref).ok);
    assert_int_not_equal(access(path, F_OK), 0);
    assert_nothing_left(f);
    /* Removing what is not there is fine. */
    assert_true(ask(f, ATOLL_SPAWN_REMOVE, &atoll_sm_remove_desc, &ref).ok);
    atoll_buf_done(&plan);
}

/* One daemon began to remove it and died, the next one asks for the same: both get what they want. */
static void a_removal_under_way_is_joined(void **state)
{
    struct fixture *f = need(state);
    struct atoll_spec spec;
    struct atoll_buf plan;

    build_plan(f, &spec, &plan);
    struct atoll_sm_remove ref = {.id = spec.id};
    assert_true(ask_create(f, spec.id, &plan).ok);
    assert_int_equal(atoll_channel_send(&f->channel, ATOLL_SPAWN_REMOVE, 0, &atoll_sm_remove_desc,
                                        &ref, NULL, 0),
                     0); /* 0: nobody waits for its answer */
    assert_true(ask(f, ATOLL_SPAWN_REMOVE, &atoll_sm_remove_desc, &ref).ok);
    assert_nothing_left(f);
    atoll_buf_done(&plan);
}

/* A sandbox with a tree that takes long to remove. */
static void create_large(struct fixture *f, struct atoll_spec *spec)
{
    struct atoll_buf plan;
    char path[160];
    int len;

    build_plan(f, spec, &plan);
    struct answer a = ask_create(f, spec->id, &plan);
    assert_true(a.ok);
    len = snprintf(path, sizeof(path), "%s/sandboxes/%s.disk", f->state, spec->id);
    assert_int_equal(mkdir(path, 0755), 0);
    len += snprintf(path + len, sizeof(path) - (size_t)len, "/u");
    assert_int_equal(mkdir(path, 0755), 0);
    for (int i = 0; i < 3000; i++) {
        (void)snprintf(path + len, sizeof(path) - (size_t)len, "/%d", i);
        assert_int_equal(mkdir(path, 0755), 0);
    }
    atoll_buf_done(&plan);
}

static pid_t spawn_of(const struct fixture *f)
{
    struct ucred peer;
    socklen_t len = sizeof(peer);

    assert_int_equal(getsockopt(f->channel.fd, SOL_SOCKET, SO_PEERCRED, &peer, &len), 0);
    return peer.pid;
}

/* Whether it has let go of what spawn has open, which is many times as much, and has the tree of the sandbox open:
 * spawn has other children, too. */
static bool sweeps(pid_t pid, const char *id)
{
    char path[64], target[PATH_MAX];
    bool has_tree = false;
    int count = 0;
    struct dirent *entry;
    DIR *dir;

    (void)snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
    dir = opendir(path);
    while (dir && (entry = readdir(dir))) {
        ssize_t n = readlinkat(dirfd(dir), entry->d_name, target, sizeof(target) - 1);
        target[ATOLL_MAX(n, (ssize_t)0)] = '\0';
        has_tree = has_tree || strstr(target, id);
        count++;
    }
    if (dir)
        (void)closedir(dir);
    return has_tree && count < 12;
}

/* Stops the process that removes the tree while it is at it. */
static pid_t stop_sweeper(pid_t spawn, const char *id)
{
    char path[64], children[256], *save;

    (void)snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)spawn, (int)spawn);
    for (int64_t end = atoll_clock_ms() + 5000; atoll_clock_ms() < end;) {
        assert_true(atoll_fd_read_file(AT_FDCWD, path, children, sizeof(children)) >= 0);
        for (char *pid = strtok_r(children, " ", &save); pid; pid = strtok_r(NULL, " ", &save))
            if (sweeps(atoi(pid), id) && kill(atoi(pid), SIGSTOP) == 0)
                return atoi(pid);
    }
    fail_msg("nobody removes the tree");
    return 0;
}

static void begin_removal(struct fixture *f, const struct atoll_spec *spec)
{
    struct atoll_sm_remove ref = {.id = spec->id};

    assert_int_equal(atoll_channel_send(&f->channel, ATOLL_SPAWN_REMOVE, ++f->next_id,
                                        &atoll_sm_remove_desc, &ref, NULL, 0),
                     0);
    assert_true(atoll_channel_flush(&f->channel) >= 0);
}

static void a_large_tree_may_take_its_time(void **state)
{
    struct fixture *f = need(state);
    struct pollfd p = {.events = POLLIN};
    struct answer a = {0};
    struct atoll_spec spec;
    pid_t sweeper;

    create_large(f, &spec);
    begin_removal(f, &spec);
    sweeper = stop_sweeper(spawn_of(f), spec.id);
    p.fd = f->channel.fd;
    assert_int_equal(poll(&p, 1, 6500), 0); /* no answer: it is not gone, and nothing has failed */
    assert_int_equal(kill(sweeper, SIGCONT), 0);
    while (!a.got) {
        assert_int_equal(poll(&p, 1, 20000), 1);
        assert_true(atoll_channel_receive(&f->channel, on_frame, &a) >= 0);
    }
    assert_true(a.ok);
    assert_nothing_left(f);
}

/* What removes a tree for spawn holds neither its connections nor its lock, and ends with it. */
static void a_removal_does_not_keep_a_dead_spawn(void **state)
{
    struct fixture *f = need(state);
    struct pollfd p = {.events = POLLIN};
    struct atoll_error err = {0};
    struct atoll_spec spec;
    pid_t sweeper;
    int fd = ATOLL_NO_FD, r;

    create_large(f, &spec);
    begin_removal(f, &spec);
    sweeper = stop_sweeper(spawn_of(f), spec.id);
    p.fd = f->channel.fd;
    assert_int_equal(kill(spawn_of(f), SIGKILL), 0);
    r = poll(&p, 1, 20000) == 1 ? atoll_spawn_connect(f->state, NULL, NULL, &fd, &f->info, &err)
                                : -EBUSY;
    (void)kill(sweeper, SIGKILL); /* where it is still there */
    assert_int_equal(r, 0);
    atoll_channel_done(&f->channel);
    assert_int_equal(atoll_channel_init(&f->channel, fd, 1024 * 1024), 0);
    assert_true(ask(f, ATOLL_SPAWN_LIST, NULL, NULL).ok);
    assert_nothing_left(f);
}

struct both {
    uint32_t create, remove;
    bool create_failed, removed;
};

static int on_either(void *arg, struct atoll_frame *frame)
{
    struct both *b = arg;

    if (frame->id == b->create)
        b->create_failed = frame->type == ATOLL_SPAWN_ERROR;
    if (frame->id == b->remove)
        b->removed = frame->type == ATOLL_SPAWN_REPLY;
    return 0;
}

/* Whoever asked for it is told, and so is whoever wants it gone. */
static void one_that_is_being_started_is_removed(void **state)
{
    struct fixture *f = need(state);
    struct atoll_spec spec;
    struct atoll_buf plan;
    struct both b;

    build_plan(f, &spec, &plan);
    struct atoll_sm_create create = {spec.id, {atoll_buf_head(&plan), atoll_buf_size(&plan)}};
    struct atoll_sm_remove ref = {.id = spec.id};
    b = (struct both){.create = ++f->next_id, .remove = ++f->next_id};
    assert_int_equal(atoll_channel_send(&f->channel, ATOLL_SPAWN_CREATE, b.create,
                                        &atoll_sm_create_desc, &create, NULL, 0),
                     0);
    assert_int_equal(atoll_channel_send(&f->channel, ATOLL_SPAWN_REMOVE, b.remove,
                                        &atoll_sm_remove_desc, &ref, NULL, 0),
                     0);
    assert_int_equal(atoll_channel_flush(&f->channel), 1);
    while (!b.removed || !b.create_failed) {
        struct pollfd p = {.fd = f->channel.fd, .events = POLLIN};
        assert_int_equal(poll(&p, 1, 5000), 1);
        assert_true(atoll_channel_receive(&f->channel, on_either, &b) >= 0);
    }
    assert_nothing_left(f);
    atoll_buf_done(&plan);
}

static struct answer ask_sockets(struct fixture *f, const char *id)
{
    struct atoll_sm_ref ref = {.id = id};
    return ask(f, ATOLL_SPAWN_SOCKETS, &atoll_sm_ref_desc, &ref);
}

static ino_t socket_number(int fd)
{
    struct stat st;

    assert_int_equal(fstat(fd, &st), 0);
    return st.st_ino;
}

static bool holds_socket(pid_t pid, ino_t number)
{
    char path[64], link[64], wanted[64];
    struct dirent *entry;
    bool found = false;
    DIR *dir;

    (void)snprintf(wanted, sizeof(wanted), "socket:[%llu]", (unsigned long long)number);
    (void)snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
    dir = opendir(path);
    assert_non_null(dir);
    while ((entry = readdir(dir)) != NULL) {
        ssize_t n = readlinkat(dirfd(dir), entry->d_name, link, sizeof(link) - 1);
        found = found || (n == (ssize_t)strlen(wanted) && memcmp(link, wanted, (size_t)n) == 0);
    }
    (void)closedir(dir);
    return found;
}

static void sockets_are_handed_out_while_it_lives(void **state)
{
    struct fixture *f = need(state);
    struct atoll_spec first, second;
    struct atoll_buf plan, other;
    ino_t numbers[2] = {0};
    struct answer a;

    build_plan(f, &first, &plan);
    assert_int_equal(ask_sockets(f, first.id).error.kind, ATOLL_ERR_NOT_FOUND);
    a = ask_create(f, first.id, &plan);
    assert_true(a.ok);
    assert_int_equal(a.nfds, 2); /* they come with the answer */
    for (int i = 0; i < 2; i++) {
        numbers[i] = socket_number(a.fds[i]);
        (void)close(a.fds[i]);
    }
    for (int round = 0; round < 40; round++) { /* more than wait in one connection at a time */
        a = ask_sockets(f, first.id);
        assert_true(a.ok);
        assert_int_equal(a.nfds, 2);
        for (int i = 0; i < 2; i++) {
            struct sockaddr_in6 at;
            socklen_t len = sizeof(at);
            assert_int_equal(getsockname(a.fds[i], (struct sockaddr *)&at, &len), 0);
            assert_int_equal(ntohs(at.sin6_port), ATOLL_NETSPACE_PORT);
            assert_true(socket_number(a.fds[i]) == numbers[i]);
            (void)close(a.fds[i]);
        }
    }
    build_plan(f, &second, &other);
    a = ask_create(f, second.id, &other);
    assert_true(a.ok);
    for (int i = 0; i < 2; i++) {
        assert_true(holds_socket(spawn_of(f), numbers[i]));
        assert_false(holds_socket((pid_t)a.pid, numbers[i]));
    }
    for (int i = 0; i < 2; i++) {
        struct atoll_sm_remove ref = {.id = i ? second.id : first.id};
        assert_true(ask(f, ATOLL_SPAWN_REMOVE, &atoll_sm_remove_desc, &ref).ok);
        assert_false(holds_socket(spawn_of(f), numbers[i]));
    }
    assert_int_equal(ask_sockets(f, first.id).error.kind, ATOLL_ERR_NOT_FOUND);
    atoll_buf_done(&plan);
    atoll_buf_done(&other);
}

#define MANY 1000

static int count_sockets(void *arg, struct atoll_frame *frame)
{
    int *count = arg;

    assert_int_equal(frame->type, ATOLL_SPAWN_REPLY);
    assert_int_equal(frame->nfds, 2);
    (void)close(frame->fds[0]);
    (void)close(frame->fds[1]);
    ++*count;
    return 0;
}

/* As a new daemon does that adopts them: more answers with descriptors than the connection holds. */
static void many_requests_for_sockets_wait(void **state)
{
    struct fixture *f = need(state);
    struct pollfd p = {.fd = f->channel.fd, .events = POLLIN};
    struct atoll_spec spec;
    struct atoll_buf plan;
    int count = 0;

    build_plan(f, &spec, &plan);
    struct atoll_sm_ref ref = {.id = spec.id};
    struct atoll_sm_remove remove = {.id = spec.id};
    assert_true(ask_create(f, spec.id, &plan).ok);
    for (int i = 0; i < MANY; i++)
        assert_int_equal(atoll_channel_send(&f->channel, ATOLL_SPAWN_SOCKETS, ++f->next_id,
                                            &atoll_sm_ref_desc, &ref, NULL, 0),
                         0);
    assert_int_equal(atoll_channel_flush(&f->channel), 1);
    (void)usleep(300000); /* until no more answers fit */
    while (count < MANY) {
        assert_int_equal(poll(&p, 1, 5000), 1);
        assert_true(atoll_channel_receive(&f->channel, count_sockets, &count) >= 0);
    }
    assert_int_equal(count, MANY);
    assert_true(ask(f, ATOLL_SPAWN_REMOVE, &atoll_sm_remove_desc, &remove).ok);
    atoll_buf_done(&plan);
}

/* A compromised daemon cannot change the network of the host. */
static void the_network_step_needs_a_namespace(void **state)
{
    struct fixture *f = need(state);

    for (int started = 0; started < 2; started++) {
        const struct atoll_po_start start = {.new_network = 0};
        struct atoll_po_ids ids = {
            .mode = ATOLL_IDS_RANGE, .outside = f->info.id_bases[0], .count = 65536};
        struct atoll_buf plan;
        struct answer a;
        char id[ATOLL_ID_LEN + 1];

        atoll_rand_id(id, ATOLL_ID_LEN);
        atoll_buf_init(&plan, ATOLL_PLAN_MAX);
        assert_int_equal(atoll_plan_add(&plan, ATOLL_PLAN_IDS, &atoll_po_ids_desc, &ids), 0);
        if (started)
            assert_int_equal(atoll_plan_add(&plan, ATOLL_PLAN_START, &atoll_po_start_desc, &start),
                             0);
        assert_int_equal(atoll_plan_add(&plan, ATOLL_PLAN_NETWORK, NULL, NULL), 0);
        a = ask_create(f, id, &plan);
        assert_false(a.ok);
        assert_int_equal(a.error.kind, ATOLL_ERR_INVALID_ARGUMENT);
        assert_non_null(strstr(a.error.text, "(network): no network namespace"));
        atoll_buf_done(&plan);
    }
    assert_nothing_left(f);
}

struct order {
    uint32_t answered[4]; /* in the order in which they came */
    int count;
};

static int note_order(void *arg, struct atoll_frame *frame)
{
    struct order *o = arg;

    assert_int_equal(frame->type, ATOLL_SPAWN_REPLY);
    assert_true(o->count < 4);
    o->answered[o->count++] = frame->id;
    return 0;
}

static void make_layer(struct fixture *f, const char *name)
{
    char path[160];

    (void)snprintf(path, sizeof(path), "%s/layers/%s", f->state, name);
    assert_int_equal(mkdir(path, 0755), 0);
    (void)snprintf(path, sizeof(path), "%s/layers/%s/below", f->state, name);
    assert_int_equal(mkdir(path, 0755), 0);
}

/* Whoever asks for something else meanwhile does not wait, and the name is free at once. */
static void layers_are_removed_beside_the_loop(void **state)
{
    struct fixture *f = *state;
    struct atoll_sm_ref first = {.id = "first"}, second = {.id = "gone-before"};
    struct order o = {0};
    uint32_t list;

    if (!f)
        skip();
    make_layer(f, first.id);
    make_layer(f, second.id); /* as one is left by a spawn that was killed in the middle */
    assert_int_equal(atoll_channel_send(&f->channel, ATOLL_SPAWN_DROP_LAYER, ++f->next_id,
                                        &atoll_sm_ref_desc, &first, NULL, 0),
                     0);
    assert_int_equal(atoll_channel_send(&f->channel, ATOLL_SPAWN_DROP_LAYER, ++f->next_id,
                                        &atoll_sm_ref_desc, &second, NULL, 0),
                     0);
    assert_int_equal(atoll_channel_send(&f->channel, ATOLL_SPAWN_DROP_LAYER, ++f->next_id,
                                        &atoll_sm_ref_desc, &first, NULL, 0),
                     0);
    list = ++f->next_id;
    assert_int_equal(atoll_channel_send(&f->channel, ATOLL_SPAWN_LIST, list, NULL, NULL, NULL, 0),
                     0);
    assert_int_equal(atoll_channel_flush(&f->channel), 1);
    while (o.count < 4) {
        struct pollfd p = {.fd = f->channel.fd, .events = POLLIN};
        assert_int_equal(poll(&p, 1, 20000), 1);
        assert_true(atoll_channel_receive(&f->channel, note_order, &o) >= 0);
    }
    assert_int_equal(o.answered[0], list - 1);
    assert_int_equal(o.answered[1], list);
    assert_int_equal(o.answered[2], list - 3);
    assert_int_equal(o.answered[3], list - 2);
    assert_empty(f, "layers");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_large_tree_may_take_its_time),
        cmocka_unit_test(a_removal_does_not_keep_a_dead_spawn),
        cmocka_unit_test(a_removal_under_way_is_joined),
        cmocka_unit_test(a_whole_plan_runs_and_is_removed),
        cmocka_unit_test(aborts_cleanly_after_each_step),
        cmocka_unit_test(garbage_is_refused),
        cmocka_unit_test(ids_of_the_host_are_refused),
        cmocka_unit_test(layers_are_removed_beside_the_loop),
        cmocka_unit_test(many_requests_for_sockets_wait),
        cmocka_unit_test(one_that_is_being_started_is_removed),
        cmocka_unit_test(sockets_are_handed_out_while_it_lives),
        cmocka_unit_test(the_network_step_needs_a_namespace),
    };
    return cmocka_run_group_tests(tests, setup_as_root, teardown);
}
