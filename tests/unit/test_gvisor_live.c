/*
 * The gVisor provider with a real runsc, as root. ATOLL_TEST_GVISOR is a state directory for it;
 * tests/integration/test_gvisor.py makes one and runs this. Without it every test here is skipped.
 */
#include "live_provider.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include "provider/gvisor/gvisor_internal.h"
#include "sandbox/plan_builder.h"

static const char *state_dir;

static struct atoll_sync_provider *provider(void)
{
    const struct atoll_gvisor_config config = {.state_dir = state_dir,
                                               .program_dir = getenv("ATOLL_BUILD_DIR")};
    struct atoll_sync_provider *p = NULL;
    struct atoll_error err = {0};

    if (atoll_gvisor_provider_new(&config, &p, &err) < 0)
        fail_msg("%s", err.text);
    return p;
}

static struct atoll_spec spec_of(void)
{
    struct atoll_spec spec = {.limits = {.memory_bytes = UINT64_C(256) << 20,
                                         .cpu_millis = 2000,
                                         .pids = 64,
                                         .disk_bytes = UINT64_C(32) << 20,
                                         .inodes = 10000,
                                         .open_files = 1024},
                              .allow_sudo = true};

    atoll_rand_id(spec.id, ATOLL_ID_LEN);
    return spec;
}

/* Nothing in our directory has its name. */
static void assert_no_trace(const struct atoll_spec *spec)
{
    static const char *const suffixes[] = {"sock", "run", "img", "log", "disk"};
    char path[256];

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(suffixes); i++) {
        (void)snprintf(path, sizeof(path), "%s/gvisor/sandboxes/%s.%s", state_dir, spec->id,
                       suffixes[i]);
        assert_int_equal(access(path, F_OK), -1);
    }
}

/* How many ranges of ids are taken. */
static unsigned ranges(struct atoll_sync_provider *p)
{
    return ATOLL_CONTAINER_OF(p, struct atoll_gvisor, base)->slots.used;
}

/* Waits until its end is known. */
static struct atoll_provider_inspection await_end(struct atoll_sync_provider *p,
                                                  const struct atoll_spec *spec)
{
    int64_t deadline = atoll_clock_ms() + 20000;
    struct atoll_provider_inspection seen;

    while ((seen = look(p, spec)).state != ATOLL_INSPECT_EXITED) {
        assert_true(atoll_clock_ms() < deadline);
        (void)usleep(10000);
    }
    return seen;
}

static void test_health(void **state)
{
    struct atoll_sync_provider *p = provider();
    struct atoll_sync_call call = call_for(30000);
    struct atoll_error err = {0};
    char detail[100] = "";

    (void)state;
    if (p->ops->health(p, &call, detail, sizeof(detail), &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(strncmp(detail, "runsc ", 6), 0);
    assert_int_equal(count(p), 0); /* what it tried out with is gone */
    p = p->ops->free(p);
}

/* Makes a layer with a file, and one that removes it; the lowest has a shell. */
static void put_layers(void)
{
    char command[1024];

    (void)snprintf(
        command, sizeof(command),
        "set -e; mkdir -p %s/layers; cd %s/layers; mkdir -p low/bin low/d low/etc mid/d top/d; "
        "cp /bin/busybox low/bin; for i in sh cat ls id grep; do ln -s busybox low/bin/$i; "
        "done; echo root:x:0:0::/:/bin/sh > low/etc/passwd; "
        "echo 1 > low/d/a; echo 1 > low/gone; echo 2 > mid/d/b; mknod mid/gone c 0 0; "
        "echo 3 > top/d/a; chown -hR %u:%u low mid top",
        state_dir, state_dir, ATOLL_LAYER_BASE, ATOLL_LAYER_BASE);
    assert_int_equal(system(command), 0);
}

static void test_stack(void **state)
{
    struct atoll_sync_provider *p = provider();
    struct atoll_spec spec = spec_of();
    struct agent_client c;
    char command[256];

    (void)state;
    spec.template_kind = ATOLL_TEMPLATE_ROOTFS;
    spec.layers = "low mid top";
    spec.layer_base = ATOLL_LAYER_BASE;
    put_layers();
    create(p, &spec, &c);
    expect_as(&c, "root", "cat /d/a /d/b; ls /gone 2>/dev/null; id -u", "3\n2\n0\n");
    expect_as(&c, "root", "echo 4 > /d/a; cat /d/a; ls -d /layers 2>/dev/null", "4\n");
    leave(&c);
    destroy(p, &spec);
    assert_no_trace(&spec);
    p = p->ops->free(p);
    (void)snprintf(command, sizeof(command), "cd %s/layers && rm -r low mid top", state_dir);
    assert_int_equal(system(command), 0);
}

static void test_life(void **state)
{
    struct atoll_sync_provider *p = provider();
    struct atoll_sync_call call = call_for(60000);
    struct atoll_spec spec = spec_of();
    struct atoll_error err = {0};
    struct agent_client c;
    int fd;

    (void)state;
    create(p, &spec, &c);
    expect_as(&c, "", "echo $((6*7)); id -un; pwd", "42\nuser\n/home/user\n");
    expect_as(&c, "", "sudo id -u", "0\n");
    expect_changes(p, &spec, 300 << 20);
    expect_as(&c, "", "echo goes on", "goes on\n");
    leave(&c);
    p = p->ops->free(p);
    p = provider();
    expect_again(p, &spec, false);
    assert_true(p->ops->dial(p, &call, &spec, &fd, &err) < 0);
    assert_int_equal(err.kind, ATOLL_ERR_NOT_FOUND);
    assert_no_trace(&spec);
    p = p->ops->free(p);
}

/* Tells one client where it wanted to go. */
static void *tell_client(void *arg)
{
    const int *listener = arg;
    struct pollfd p = {.fd = *listener, .events = POLLIN};
    struct sockaddr_in6 wanted = {0};
    socklen_t len = sizeof(wanted);
    char text[INET6_ADDRSTRLEN] = "", line[80];
    int fd = poll(&p, 1, 20000) == 1 ? accept4(*listener, NULL, NULL, SOCK_CLOEXEC) : -1;

    if (fd < 0)
        return NULL;
    (void)getsockname(fd, (struct sockaddr *)&wanted, &len);
    (void)inet_ntop(AF_INET6, &wanted.sin6_addr, text, sizeof(text));
    (void)snprintf(line, sizeof(line), "%s %u\n", text, ntohs(wanted.sin6_port));
    (void)!write(fd, line, strlen(line));
    (void)close(fd);
    return NULL;
}

/* gVisor uses the sockets of the host's kernel, in the sandbox's namespace. */
static void test_network(void **state)
{
    struct atoll_sync_call call = call_for(60000);
    struct atoll_error err = {0};
    struct atoll_spec spec = spec_of();
    pthread_t server;
    int tcp, dns;
    struct live l;

    (void)state;
    spec.network = ATOLL_NETWORK_BRIDGE;
    live_open(&l, provider(), spec);
    assert_true(l.p->ops->caps.sockets);
    tcp = l.p->ops->keeper(l.p); /* with it, atoll-egress stays as long as the sandboxes do */
    assert_true(tcp >= 0);
    (void)close(tcp);
    if (l.p->ops->sockets(l.p, &call, &l.spec, &tcp, &dns, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(pthread_create(&server, NULL, tell_client, &tcp), 0);
    /* On a busy machine runsc can end a blocking read with EAGAIN; the next read has the bytes. */
    expect_as(
        &l.c, "",
        "bash -c 'exec 3</dev/tcp/192.0.2.7/80; until cat <&3 2>/dev/null; do sleep .1; done'",
        "::ffff:192.0.2.7 80\n");
    assert_int_equal(pthread_join(server, NULL), 0);
    expect_as(&l.c, "", "cat /etc/resolv.conf", "nameserver 100.64.0.1\n");
    expect_as(&l.c, "", "bash -c 'cat </dev/tcp/127.0.0.1/80' 2>/dev/null || echo no", "no\n");
    (void)close(tcp);
    (void)close(dns);
    live_close(&l);
}

/* gVisor's kernel is what they see; nothing reaches the host, and the disk has its size. */
static void test_walls(void **state)
{
    struct live l;

    (void)state;
    live_open(&l, provider(), spec_of());
    expect_as(&l.c, "", "dmesg | grep -o 'Starting gVisor'", "Starting gVisor\n");
    expect_as(&l.c, "root", "grep -h '^CapBnd' /proc/self/status", "CapBnd:\t00000000000000fb\n");
    expect_as(&l.c, "root", "ls -A /.atoll/run", "");
    expect_as(&l.c, "root", "touch /.atoll/run/x 2>/dev/null || echo no", "no\n");
    expect_as(&l.c, "root", "mkdir /.atoll/run/x 2>/dev/null || echo no", "no\n");
    expect_as(&l.c, "", "touch /usr/x 2>/dev/null || echo no", "no\n");
    expect_as(&l.c, "root", "touch /usr/atoll-live && ls /usr/atoll-live", "/usr/atoll-live\n");
    assert_int_equal(access("/usr/atoll-live", F_OK), -1);
    expect_as(&l.c, "root", "mount -t tmpfs t /mnt 2>/dev/null || echo no", "no\n");
    expect_as(&l.c, "", "cat /etc/shadow 2>/dev/null || echo no", "no\n");
    expect_as(&l.c, "", "cat /proc/net/dev | grep -c eth", "0\n");
    expect_as(&l.c, "", "head -c 50000000 /dev/zero 2>/dev/null >big || echo full; rm big",
              "full\n");
    expect_as(&l.c, "", "head -c 50000000 /dev/zero 2>/dev/null >/tmp/b || echo full; rm /tmp/b",
              "full\n");
    expect_as(&l.c, "", "ulimit -n; ulimit -c", "1024\n0\n");
    /* See agent/preload/automount.c. */
    expect_as(&l.c, "", "touch a; mv a b; ls; ls -d /", "b\n/\n");
    live_close(&l);
}

/* A disk that memory cannot back. */
static void test_large_disk(void **state)
{
    struct atoll_sync_call call = call_for(60000);
    struct atoll_spec spec = spec_of();
    struct atoll_provider_stats stats;
    struct atoll_error err = {0};
    struct live l;

    (void)state;
    spec.limits.disk_bytes = UINT64_C(400) << 20;
    spec.waived = ATOLL_LIMIT_MEMORY;
    live_open(&l, provider(), spec);
    expect_as(&l.c, "", "head -c 200000000 /dev/zero >big && wc -c <big", "200000000\n");
    /* What was waived is not limited later, by other limits that change. */
    assert_int_equal(l.p->ops->set_limits(l.p, &call, &l.spec, &l.spec.limits, &err), 0);
    assert_int_equal(l.p->ops->stats(l.p, &call, &l.spec, &stats, &err), 0);
    assert_int_equal(stats.memory_limit_bytes, 0);
    live_close(&l);
    assert_no_trace(&l.spec);
}

static void test_out_of_memory(void **state)
{
    struct atoll_am_exec_start msg =
        client_command(5, CLIENT_SH("exec python3 -c 'b = bytearray(400 << 20)'"));
    struct atoll_provider_inspection seen;
    struct live l;

    (void)state;
    live_open(&l, provider(), spec_of());
    (void)client_exec(&l.c, &msg);
    seen = await_end(l.p, &l.spec);
    assert_true(seen.exit.oom_kills > 0);
    assert_non_null(strstr(seen.cause, "memory limit"));
    live_close(&l);
}

/* It is found out and told, and create() begins by clearing away what an earlier try left. */
static void test_end(void **state)
{
    struct atoll_sync_provider *p = provider();
    struct atoll_sync_call call = call_for(60000);
    struct atoll_spec spec = spec_of();
    struct atoll_error err = {0};
    struct agent_client c;
    int cancel = eventfd(1, EFD_CLOEXEC), fd;

    (void)state;
    create(p, &spec, &c);
    leave(&c);
    create(p, &spec, &c); /* the same id */
    assert_int_equal(count(p), 1);
    assert_int_equal(ranges(p), 1);
    leave(&c);
    destroy(p, &spec);
    call.cancel_fd = cancel;
    assert_true(p->ops->create(p, &call, &spec, &fd, &err) < 0);
    assert_int_equal(err.kind, ATOLL_ERR_ABORTED);
    assert_int_equal(count(p), 0);
    assert_no_trace(&spec);
    call = call_for(1);
    assert_true(p->ops->create(p, &call, &spec, &fd, &err) < 0);
    assert_int_equal(err.kind, ATOLL_ERR_DEADLINE_EXCEEDED);
    assert_int_equal(count(p), 0);
    assert_int_equal(ranges(p), 0);
    (void)close(cancel);
    p = p->ops->free(p);
}

static void test_refusals(void **state)
{
    struct atoll_sync_provider *p = provider();
    struct atoll_sync_call call = call_for(10000);
    struct atoll_spec spec = spec_of();
    struct atoll_error err = {0};
    int fd;

    (void)state;
    (void)snprintf(spec.image, sizeof(spec.image), "debian");
    assert_true(p->ops->create(p, &call, &spec, &fd, &err) < 0);
    assert_int_equal(err.kind, ATOLL_ERR_UNIMPLEMENTED);
    spec = spec_of();
    spec.persistent = true;
    assert_true(p->ops->create(p, &call, &spec, &fd, &err) < 0);
    assert_int_equal(err.kind, ATOLL_ERR_UNIMPLEMENTED);
    p = p->ops->free(p);
}

/* Nobody else can open the files that a disk is formatted in: whoever tries waits. */
#define LEASES 4

static void hold_format(struct atoll_sync_provider *p, const struct atoll_spec *spec,
                        int leases[LEASES])
{
    struct atoll_gvisor *g = ATOLL_CONTAINER_OF(p, struct atoll_gvisor, base);
    char image[64], path[256];

    (void)signal(SIGIO, SIG_IGN);
    assert_true(atoll_plan_needs_image(&g->plan_host, spec, image, sizeof(image)));
    (void)snprintf(path, sizeof(path), "%s/%.*s", g->state_dir, (int)strcspn(image, "/"), image);
    (void)mkdir(path, 0700);
    for (int i = 0; i < LEASES; i++) {
        (void)snprintf(path, sizeof(path), "%s/%s.%d", g->state_dir, image, i + 1);
        leases[i] = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        assert_int_equal(fcntl(leases[i], F_SETLEASE, F_WRLCK), 0);
    }
}

static bool is_formatting(const int leases[LEASES])
{
    for (int i = 0; i < LEASES; i++)
        if (fcntl(leases[i], F_GETLEASE) != F_WRLCK)
            return true;
    return false;
}

static void kill_spawn(struct atoll_sync_provider *p)
{
    struct atoll_gvisor *g = ATOLL_CONTAINER_OF(p, struct atoll_gvisor, base);
    struct pollfd gone = {.fd = g->link.channel.fd};
    struct ucred peer;
    socklen_t len = sizeof(peer);

    (void)signal(SIGPIPE, SIG_IGN);
    assert_int_equal(getsockopt(g->link.channel.fd, SOL_SOCKET, SO_PEERCRED, &peer, &len), 0);
    assert_int_equal(kill(peer.pid, SIGKILL), 0);
    assert_int_equal(poll(&gone, 1, 20000), 1);
}

struct beginning {
    struct atoll_sync_provider *p;
    struct atoll_spec spec;
    struct atoll_error err;
    int fd, result;
};

static void *begin(void *arg)
{
    struct beginning *b = arg;
    struct atoll_sync_call call = call_for(60000);

    b->result = b->p->ops->create(b->p, &call, &b->spec, &b->fd, &b->err);
    return NULL;
}

/* atoll-spawn dies while a disk is formatted: the ids of that sandbox are others' by then. */
static void test_lost_while_formatting(void **state)
{
    struct beginning b = {.p = provider(), .spec = spec_of()};
    struct atoll_spec second = spec_of();
    struct atoll_error err = {0};
    struct atoll_sync_call call = call_for(10000);
    int leases[LEASES], n = 0;
    struct agent_client c;
    pthread_t thread;

    (void)state;
    b.spec.limits.disk_bytes = UINT64_C(401) << 20;
    hold_format(b.p, &b.spec, leases);
    assert_int_equal(pthread_create(&thread, NULL, begin, &b), 0);
    for (int64_t end = atoll_clock_ms() + 20000; !is_formatting(leases);) {
        assert_true(atoll_clock_ms() < end);
        (void)usleep(1000);
    }
    kill_spawn(b.p);
    assert_true(b.p->ops->list(b.p, &call, count_one, &n, &err) < 0); /* finds out */
    create(b.p, &second, &c);
    for (int i = 0; i < LEASES; i++)
        (void)close(leases[i]);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(b.spec.outside_id, second.outside_id);
    assert_true(b.result < 0);
    assert_int_equal(b.err.kind, ATOLL_ERR_UNAVAILABLE);
    assert_int_equal(count(b.p), 1);
    assert_int_equal(ranges(b.p), 1); /* what was not made gives nothing back */
    assert_no_trace(&b.spec);
    leave(&c);
    destroy(b.p, &second);
    assert_int_equal(ranges(b.p), 0);
    b.p = b.p->ops->free(b.p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_health),        cmocka_unit_test(test_life),
        cmocka_unit_test(test_stack),         cmocka_unit_test(test_network),
        cmocka_unit_test(test_walls),         cmocka_unit_test(test_large_disk),
        cmocka_unit_test(test_out_of_memory), cmocka_unit_test(test_end),
        cmocka_unit_test(test_refusals),      cmocka_unit_test(test_lost_while_formatting),
    };

    state_dir = getenv("ATOLL_TEST_GVISOR");
    if (!state_dir) {
        (void)puts("test_gvisor_live: skipped, ATOLL_TEST_GVISOR names no state directory");
        return 77;
    }
    if (getenv("ATOLL_TEST_GVISOR_ONLY"))
        cmocka_set_test_filter(getenv("ATOLL_TEST_GVISOR_ONLY"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
