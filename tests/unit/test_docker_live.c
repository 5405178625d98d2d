/*
 * The Docker provider against a real engine. ATOLL_TEST_DOCKER is its address (unix://...),
 * ATOLL_TEST_DOCKER_IMAGE an image with a shell; tests/integration/test_docker.py starts one and
 * runs this. Without them every test here is skipped.
 */
#include "live_provider.h"

#include <sys/eventfd.h>
#include <sys/stat.h>
#include "provider/docker/docker_internal.h"

static const char *host, *image;
static char state_dir[64];

static struct atoll_docker_config config_of(void)
{
    return (struct atoll_docker_config){.host = host,
                                        .state_dir = state_dir,
                                        .libexec_dir = getenv("ATOLL_BUILD_DIR"),
                                        .default_image = image,
                                        .disk = ATOLL_DOCKER_DISK_REFUSE};
}

static struct atoll_sync_provider *provider(const struct atoll_docker_config *config)
{
    struct atoll_sync_provider *p = NULL;
    struct atoll_error err = {0};

    if (atoll_docker_provider_new(config, &p, &err) < 0)
        fail_msg("%s", err.text);
    return p;
}

static struct atoll_spec spec_of(void)
{
    struct atoll_spec spec = {.limits = {.memory_bytes = 64 << 20,
                                         .cpu_millis = 1000,
                                         .pids = 64,
                                         .disk_bytes = 64 << 20,
                                         .open_files = 1024},
                              .waived = ATOLL_LIMIT_DISK,
                              .allow_sudo = true,
                              .tenant = "default"};

    atoll_rand_id(spec.id, ATOLL_ID_LEN);
    return spec;
}

static bool has_dir(const struct atoll_spec *spec)
{
    char path[160];

    (void)snprintf(path, sizeof(path), "%s/atoll-%s", state_dir, spec->id);
    return access(path, F_OK) == 0;
}

static void test_life(void **state)
{
    struct atoll_docker_config config = config_of();
    struct atoll_sync_provider *p = provider(&config);
    struct atoll_spec spec = spec_of();
    struct agent_client c;

    (void)state;
    create(p, &spec, &c);
    assert_int_equal(strlen(spec.handle), 64);
    expect_as(&c, "", "echo $((6*7)); id -u", "42\n0\n");
    expect_as(&c, "65534", "id -u", "65534\n");
    expect_changes(p, &spec, 96 << 20);
    leave(&c);
    p = p->ops->free(p);
    p = provider(&config);
    expect_again(p, &spec, true);
    assert_false(has_dir(&spec));
    p = p->ops->free(p);
}

/* Root inside has few rights, no network, and no way to the agent's socket or our disk. */
static void test_walls(void **state)
{
    struct atoll_docker_config config = config_of();
    struct live l;

    (void)state;
    live_open(&l, provider(&config), spec_of());
    expect_as(&l.c, "root", "grep -h '^CapBnd\\|^NoNewPrivs\\|^Seccomp:' /proc/self/status",
              "CapBnd:\t00000000000000fb\nNoNewPrivs:\t1\nSeccomp:\t2\n");
    expect_as(&l.c, "root", "ls -A /.atoll/run; touch /.atoll/run/x 2>/dev/null || echo no",
              "no\n");
    expect_as(&l.c, "root", "echo x 2>/dev/null >/.atoll/bin/atoll-agent || echo no", "no\n");
    expect_as(&l.c, "root", "ls /sys/class/net", "lo\n");
    expect_as(&l.c, "root", "mount -t tmpfs t /mnt 2>/dev/null || echo no", "no\n");
    expect_as(&l.c, "root", "unshare -U true 2>/dev/null || echo no", "no\n");
    expect_as(&l.c, "root", "ulimit -n; ulimit -c; hostname", "1024\n0\nsandbox\n");
    expect_as(&l.c, "", "echo $COLOUR", "green\n"); /* the image's */
    live_close(&l);
}

static void test_out_of_memory(void **state)
{
    struct atoll_docker_config config = config_of();
    struct atoll_am_exec_start msg =
        client_command(5, CLIENT_SH("sleep 0.05; exec tail -c 200000000 /dev/zero"));
    struct live l;
    struct run_result r;

    (void)state;
    live_open(&l, provider(&config), spec_of());
    client_run(&l.c, &msg, &r);
    assert_int_equal(r.exit.kind, ATOLL_END_OOM_KILLED);
    assert_int_equal(r.exit.oom_limit_bytes, 64 << 20);
    assert_true(r.exit.oom_peak_bytes > 32 << 20);
    run_result_done(&r);
    assert_int_equal(look(l.p, &l.spec).state, ATOLL_INSPECT_ALIVE);
    live_close(&l);
}

/* A disk in memory: the image cannot be written to, homes can, up to their share. */
static void test_disk_in_memory(void **state)
{
    struct atoll_docker_config config = config_of();
    struct atoll_spec spec = spec_of();
    struct live l;

    (void)state;
    config.disk = ATOLL_DOCKER_DISK_AUTO;
    spec.waived = 0;
    spec.limits.disk_bytes = 16 << 20;
    live_open(&l, provider(&config), spec);
    expect_as(&l.c, "root", "touch /usr/x 2>/dev/null || echo no", "no\n");
    expect_as(&l.c, "", "cd && head -c 4000000 /dev/zero > small && echo yes", "yes\n");
    expect_as(&l.c, "", "cd && head -c 20000000 /dev/zero > big 2>/dev/null || echo no", "no\n");
    live_close(&l);
}

/* Where the storage can, the whole disk is writable and bounded. */
static void test_with_quota(void **state)
{
    struct atoll_docker_config config = config_of();
    struct atoll_spec spec = spec_of();
    struct live l;

    (void)state;
    config.disk = ATOLL_DOCKER_DISK_QUOTA;
    spec.waived = 0;
    spec.limits.disk_bytes = 32 << 20;
    live_open(&l, provider(&config), spec);
    expect_as(&l.c, "root", "head -c 4000000 /dev/zero > /usr/small && sync && echo yes", "yes\n");
    expect_as(&l.c, "root",
              "dd if=/dev/urandom of=/usr/big bs=1M count=64 conv=fsync 2>/dev/null || echo no",
              "no\n");
    live_close(&l);
}

/* An archive as `docker save` writes it becomes an image. */
static void test_load(void **state)
{
    static const char make[] =
        "set -e; mkdir -p %s/r/bin; cd %s; cp /bin/busybox r/bin/busybox; ln -s busybox r/bin/sh; "
        "tar -C r -cf l.tar .; printf "
        "'{\"architecture\":\"amd64\",\"os\":\"linux\",\"config\":{},\"rootfs\":{\"type\":"
        "\"layers\",\"diff_ids\":[\"sha256:%%s\"]}}' $(sha256sum < l.tar | cut -c -64) > c.json; "
        "echo '[{\"Config\":\"c.json\",\"RepoTags\":[\"atoll-layer:l1\"],\"Layers\":[\"l.tar\"]}]' "
        "> manifest.json; tar -cf a.tar manifest.json c.json l.tar";
    struct atoll_docker_config config = config_of();
    struct atoll_sync_provider *p = provider(&config);
    struct atoll_sync_call call = call_for(20000);
    struct atoll_error err = {0};
    struct atoll_spec spec = spec_of();
    struct agent_client c;
    char command[1024], dir[80];
    int fd;

    (void)state;
    (void)snprintf(dir, sizeof(dir), "%s-archive", state_dir);
    (void)snprintf(command, sizeof(command), make, dir, dir);
    assert_int_equal(system(command), 0);
    assert_int_equal(p->ops->load_image(p, &call, "atoll-layer:l1", -1, &err), -ENOENT);
    assert_int_equal(err.kind, ATOLL_ERR_NOT_FOUND);
    (void)snprintf(command, sizeof(command), "%s/a.tar", dir);
    fd = open(command, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    if (p->ops->load_image(p, &call, "atoll-layer:l1", fd, &err) < 0)
        fail_msg("%s", err.text);
    (void)close(fd);
    assert_int_equal(p->ops->load_image(p, &call, "atoll-layer:l1", -1, &err), 0);
    spec.template_kind = ATOLL_TEMPLATE_IMAGE;
    (void)snprintf(spec.image, sizeof(spec.image), "atoll-layer:l1");
    create(p, &spec, &c);
    expect_as(&c, "", "busybox stat -c %u /bin/busybox", "0\n");
    leave(&c);
    destroy(p, &spec);
    assert_int_equal(atoll_docker_image_remove(p, &call, "atoll-layer:l1", &err), 0);
    p = p->ops->free(p);
    (void)snprintf(command, sizeof(command), "rm -r %s", dir);
    assert_int_equal(system(command), 0);
}

/* What cannot be given is refused before anything is made, and a limit nobody can keep is named. */
static void test_refusals(void **state)
{
    struct atoll_docker_config config = config_of();
    struct atoll_sync_provider *p = provider(&config);
    struct atoll_sync_call call = call_for(20000);
    struct atoll_sync_call past = call_for(0);
    struct atoll_error err = {0};
    struct atoll_spec spec = spec_of();
    int fd;

    (void)state;
    spec.waived = 0;
    assert_int_equal(p->ops->missing_limits(p, &spec), ATOLL_LIMIT_DISK);
    spec.waived = ATOLL_LIMIT_DISK;
    assert_true(p->ops->create(p, &past, &spec, &fd, &err) < 0);
    assert_int_equal(err.kind, ATOLL_ERR_DEADLINE_EXCEEDED);
    (void)snprintf(spec.image, sizeof(spec.image), "a?b");
    assert_true(p->ops->create(p, &call, &spec, &fd, &err) < 0);
    assert_int_equal(err.kind, ATOLL_ERR_INVALID_ARGUMENT);
    (void)snprintf(spec.image, sizeof(spec.image), "localhost:9/none");
    assert_true(p->ops->create(p, &call, &spec, &fd, &err) < 0);
    assert_int_equal(err.kind, ATOLL_ERR_PERMISSION_DENIED); /* of this host, unless allowed */
    p = p->ops->free(p);
    config.private_registries = true;
    p = provider(&config);
    assert_true(p->ops->create(p, &call, &spec, &fd, &err) < 0);
    assert_non_null(strstr(err.text, "pull image localhost:9/none"));
    spec.image[0] = '\0';
    call.cancel_fd = eventfd(1, EFD_CLOEXEC);
    assert_true(p->ops->create(p, &call, &spec, &fd, &err) < 0);
    assert_int_equal(err.kind, ATOLL_ERR_ABORTED);
    (void)close(call.cancel_fd);
    assert_int_equal(count(p), 0);
    assert_false(has_dir(&spec));
    p = p->ops->free(p);
    config.default_image = NULL;
    p = provider(&config);
    call.cancel_fd = ATOLL_NO_FD;
    assert_true(p->ops->create(p, &call, &spec, &fd, &err) < 0);
    assert_int_equal(err.kind, ATOLL_ERR_FAILED_PRECONDITION);
    assert_non_null(strstr(err.text, "default_image"));
    p = p->ops->free(p);
}

static void test_no_engine(void **state)
{
    struct atoll_docker_config config = config_of();
    struct atoll_sync_call call = call_for(5000);
    struct atoll_error err = {0};
    struct atoll_spec spec = spec_of();
    struct atoll_provider_inspection ret;
    struct atoll_sync_provider *p;
    char detail[64];

    (void)state;
    config.host = "unix:///nonexistent/docker.sock";
    p = provider(&config);
    assert_true(p->ops->health(p, &call, detail, sizeof(detail), &err) < 0);
    assert_int_equal(err.kind, ATOLL_ERR_UNAVAILABLE);
    assert_true(p->ops->inspect(p, &call, &spec, &ret, &err) < 0);
    assert_int_equal(err.kind, ATOLL_ERR_UNAVAILABLE);
    p = p->ops->free(p);
}

/* The first process is gone: the engine says so, and how. */
static void test_end(void **state)
{
    struct atoll_docker_config config = config_of();
    struct atoll_sync_provider *p = provider(&config);
    struct atoll_sync_call call = call_for(20000);
    struct atoll_error err = {0};
    struct atoll_provider_inspection seen;
    struct atoll_spec spec = spec_of();
    struct agent_client c;

    (void)state;
    create(p, &spec, &c);
    assert_true(atoll_docker_http_askf(atoll_docker_of(p)->http, &call, NULL, &err, "POST",
                                       "/containers/%s/kill", spec.handle) >= 0);
    seen = look(p, &spec);
    assert_int_equal(seen.state, ATOLL_INSPECT_EXITED);
    assert_int_equal(seen.exit.signal, SIGKILL);
    assert_int_equal(count(p), 100);
    leave(&c);
    destroy(p, &spec);
    p = p->ops->free(p);
}

/* An engine that does not see our files: volume, relay, no descriptors. */
static void test_remote(void **state)
{
    struct atoll_docker_config config = config_of();
    struct atoll_sync_call call = call_for(60000);
    struct atoll_error err = {0};
    struct atoll_sync_provider *p;
    struct atoll_spec spec = spec_of();
    struct agent_client c;
    int fd;

    (void)state;
    config.remote = true;
    if (getenv("ATOLL_TEST_DOCKER_TCP"))
        config.host = getenv("ATOLL_TEST_DOCKER_TCP");
    config.ca = getenv("ATOLL_TEST_DOCKER_CA");
    config.cert = getenv("ATOLL_TEST_DOCKER_CERT");
    config.key = getenv("ATOLL_TEST_DOCKER_KEY");
    p = provider(&config);
    assert_false(p->ops->caps.descriptors);
    create(p, &spec, &c);
    expect_as(&c, "", "echo far away", "far away\n");
    expect_as(&c, "root", "echo x 2>/dev/null >/.atoll/bin/x || echo no", "no\n");
    expect_as(&c, "", "head -c 3000000 /dev/zero | tr '\\0' x | md5sum",
              "8e32e22642bddc89698e25a4e9bf528b  -\n");
    leave(&c);
    assert_int_equal(p->ops->dial(p, &call, &spec, &fd, &err), 0);
    greet(&c, fd, p, false);
    expect_as(&c, "", "echo again", "again\n");
    leave(&c);
    destroy(p, &spec);
    p = p->ops->free(p);
}

/* Whether its container was made for the pool: its label is from when that was. */
static bool from_pool(struct atoll_sync_provider *p, const struct atoll_spec *spec)
{
    struct atoll_sync_call call = call_for(10000);
    struct atoll_error err = {0};
    json_t *inspect = NULL;
    const char *first;
    bool pooled;

    assert_true(atoll_docker_http_askf(atoll_docker_of(p)->http, &call, &inspect, &err, "GET",
                                       "/containers/%s/json", spec->handle) >= 0);
    first = json_string_value(
        json_object_get(json_object_get(json_object_get(inspect, "Config"), "Labels"), "atoll.id"));
    pooled = strcmp(first, spec->id) != 0;
    json_decref(inspect);
    return pooled;
}

/* A sandbox from the pool; those that are not go again. */
static struct atoll_spec create_pooled(struct atoll_sync_provider *p, uint64_t memory_bytes)
{
    struct atoll_provider_stats stats;
    struct atoll_error err = {0};
    struct agent_client c;

    for (int i = 0; i < 100; i++) {
        struct atoll_sync_call call = call_for(60000);
        struct atoll_spec spec = spec_of();
        spec.limits.memory_bytes = memory_bytes;
        create(p, &spec, &c);
        expect_as(&c, "", "echo $((6*7))", "42\n");
        leave(&c);
        assert_int_equal(p->ops->stats(p, &call, &spec, &stats, &err), 0);
        assert_int_equal(stats.memory_limit_bytes, memory_bytes);
        if (from_pool(p, &spec))
            return spec;
        destroy(p, &spec);
        (void)usleep(100 * 1000);
    }
    fail_msg("the pool stays empty");
    abort();
}

/* The ids of containers that wait in the pool, one after the other. */
static size_t waiting(struct atoll_sync_provider *p, char *out, size_t cap)
{
    struct atoll_sync_call call = call_for(10000);
    struct atoll_error err = {0};
    json_t *list = NULL, *entry;
    size_t i, n = 0;

    *out = '\0';
    assert_true(atoll_docker_http_askf(atoll_docker_of(p)->http, &call, &list, &err, "GET",
                                       "/containers/json") >= 0);
    json_array_foreach(list, i, entry)
    {
        const char *name = json_string_value(json_array_get(json_object_get(entry, "Names"), 0));
        if (!name || strncmp(name, "/" ATOLL_DOCKER_POOL, sizeof(ATOLL_DOCKER_POOL)) != 0)
            continue;
        (void)snprintf(out + strlen(out), cap - strlen(out), "%s ",
                       json_string_value(json_object_get(entry, "Id")));
        n++;
    }
    json_decref(list);
    return n;
}

/* Whoever has given up before it began takes none of them along. */
static void expect_untouched(struct atoll_sync_provider *p, unsigned size)
{
    struct atoll_sync_call call = call_for(60000);
    struct atoll_spec spec = spec_of();
    struct atoll_error err = {0};
    char before[512], after[512];
    int fd;

    while (waiting(p, before, sizeof(before)) < size) {
        assert_true(atoll_sync_left_ms(&call) > 0);
        (void)usleep(100 * 1000);
    }
    call.cancel_fd = eventfd(1, EFD_CLOEXEC);
    assert_true(p->ops->create(p, &call, &spec, &fd, &err) < 0);
    assert_int_equal(err.kind, ATOLL_ERR_ABORTED);
    (void)close(call.cancel_fd);
    assert_int_equal(waiting(p, after, sizeof(after)), size);
    assert_string_equal(after, before);
}

/* Waiting ones are taken with the caller's limits, and none is left afterwards. */
static void test_pool(void **state)
{
    struct atoll_docker_config config = config_of();
    struct atoll_sync_provider *p;
    struct atoll_spec one, two;

    (void)state;
    config.pool = 2;
    p = provider(&config);
    one = create_pooled(p, 80 << 20);
    two = create_pooled(p, 96 << 20);
    assert_int_equal(count(p), 2); /* those that wait are no sandboxes */
    expect_untouched(p, config.pool);
    destroy(p, &one);
    destroy(p, &two);
    assert_false(has_dir(&one));
    p = p->ops->free(p);
}

/* What a killed daemon left that is no sandbox goes when the next one begins. */
static void test_orphans(void **state)
{
    struct atoll_docker_config config = config_of();
    struct atoll_sync_provider *p = provider(&config);
    struct atoll_sync_call call = call_for(20000);
    struct atoll_error err = {0};
    struct atoll_spec spec = spec_of(), never = spec_of();
    struct agent_client c;
    char path[160], handle[129], warning[ATOLL_WARNING_MAX];

    (void)state;
    create(p, &spec, &c);
    leave(&c);
    (void)snprintf(path, sizeof(path), ATOLL_DOCKER_POOL "%s", never.id);
    assert_int_equal(atoll_docker_container_start(atoll_docker_of(p), &call, path, &never, handle,
                                                  sizeof(handle), warning, &err),
                     0);
    (void)snprintf(path, sizeof(path), "%s/" ATOLL_DOCKER_NAME "%s", state_dir, never.id);
    assert_int_equal(mkdir(path, 0700), 0);
    p = p->ops->free(p);

    p = provider(&config);
    assert_int_equal(count(p), 1);
    assert_true(has_dir(&spec));
    assert_false(has_dir(&never));
    assert_true(atoll_docker_http_askf(atoll_docker_of(p)->http, &call, NULL, &err, "GET",
                                       "/containers/%s/json", handle) == -ENOENT);
    destroy(p, &spec);
    p = p->ops->free(p);
}

struct said {
    int lines, steps;
};

static void count_lines(void *arg, const char *line)
{
    struct said *said = arg;

    said->lines++;
    said->steps += strncmp(line, "Step ", 5) == 0;
    assert_null(strchr(line, '\n'));
}

static void test_images(void **state)
{
    struct atoll_docker_config config = config_of();
    struct atoll_sync_provider *p = provider(&config);
    struct atoll_sync_call call = call_for(60000);
    struct atoll_error err = {0};
    struct atoll_spec spec = spec_of(), copy = spec_of();
    struct agent_client c;
    struct said said = {0};
    struct atoll_provider_image made;
    struct atoll_provider_build build = {
        .image = "atoll-test:built", .dockerfile = "Dockerfile", .memory_bytes = 256 << 20};
    char command[256];
    FILE *tar;

    (void)state;
    call.say = count_lines;
    call.say_arg = &said;
    create(p, &spec, &c);
    expect_as(&c, "root", "echo kept > /kept", "");
    if (p->ops->snapshot(p, &call, &spec, "atoll-test:snap", &made, &err) < 0)
        fail_msg("%s", err.text);
    assert_true(strncmp(made.digest, "sha256:", 7) == 0 && made.size_bytes > 0);
    leave(&c);
    destroy(p, &spec);
    (void)snprintf(copy.image, sizeof(copy.image), "atoll-test:snap");
    create(p, &copy, &c);
    expect_as(&c, "", "cat /kept; id -u", "kept\n0\n");
    leave(&c);
    destroy(p, &copy);

    (void)snprintf(
        command, sizeof(command),
        "d=$(mktemp -d) && printf 'FROM %s\\nCOPY f /f\\nUSER 77:88\\n' > $d/Dockerfile && "
        "echo built > $d/f && tar -C $d -cf - . && rm -r $d",
        image);
    tar = popen(command, "r");
    build.context_fd = fileno(tar);
    if (p->ops->build(p, &call, &build, &made, &err) < 0)
        fail_msg("%s", err.text);
    assert_true(said.lines > 4 && said.steps == 3);
    (void)pclose(tar);
    (void)snprintf(copy.image, sizeof(copy.image), "atoll-test:built");
    atoll_rand_id(copy.id, ATOLL_ID_LEN);
    copy.handle[0] = '\0';
    create(p, &copy, &c);
    expect_as(&c, "", "cat /f; id -u; id -g", "built\n77\n88\n");
    leave(&c);
    destroy(p, &copy);

    tar = popen("d=$(mktemp -d) && printf 'FROM nothing-like-this:1\\n' > $d/Dockerfile && "
                "tar -C $d -cf - . && rm -r $d",
                "r");
    build.image = "atoll-test:bad";
    build.context_fd = fileno(tar);
    assert_true(p->ops->build(p, &call, &build, &made, &err) < 0);
    assert_non_null(strstr(err.text, "not built: step 1/1 : FROM nothing-like-this:1"));
    (void)pclose(tar);
    for (int twice = 0; twice < 2; twice++) {
        assert_int_equal(atoll_docker_image_remove(p, &call, "atoll-test:snap", &err), 0);
        assert_int_equal(atoll_docker_image_remove(p, &call, "atoll-test:built", &err), 0);
    }
    p = p->ops->free(p);
}

/* Sandboxes of one tenant see each other and nothing else. */
static void test_isolated(void **state)
{
    struct atoll_docker_config config = config_of();
    struct atoll_sync_provider *p = provider(&config);
    struct atoll_spec one = spec_of(), two = spec_of(), other = spec_of();
    struct agent_client a, b, c;
    struct run_result r;
    struct atoll_am_exec_start msg = client_command(3, CLIENT_SH("hostname -i"));
    char script[256], address[64];

    (void)state;
    one.network = two.network = other.network = ATOLL_NETWORK_ISOLATED;
    (void)snprintf(other.tenant, sizeof(other.tenant), "other");
    create(p, &one, &a);
    create(p, &two, &b);
    create(p, &other, &c);
    client_run(&a, &msg, &r);
    (void)snprintf(address, sizeof(address), "%s", atoll_buf_str(&r.out));
    address[strcspn(address, " \n")] = '\0';
    run_result_done(&r);
    msg = client_command(4, CLIENT_SH("echo hello | exec nc -l -p 7000"));
    (void)client_exec(&a, &msg);
    (void)snprintf(script, sizeof(script), "nc -w 2 %s 7000 </dev/null 2>/dev/null || echo no",
                   address);
    expect_as(&c, "", script, "no\n");
    (void)snprintf(
        script, sizeof(script),
        "for i in 1 2 3 4 5 6 7 8 9; do nc -w 5 %s 7000 </dev/null 2>/dev/null && break; "
        "sleep 0.2; done",
        address);
    expect_as(&b, "", script, "hello\n");
    leave(&a);
    leave(&b);
    leave(&c);
    destroy(p, &one);
    destroy(p, &two);
    destroy(p, &other);
    p = p->ops->free(p);
}

static void keep_said(void *arg, const char *text)
{
    assert_null(strstr(text, "secret"));
    ++*(int *)arg;
}

/* What came with one tenant's own credentials is there for that tenant, and for nobody else. */
static void expect_login(struct atoll_sync_provider *p, const struct atoll_spec *wanted)
{
    static const struct atoll_registry_login right = {"me", "secret"}, wrong = {"me", "guess"};
    const struct {
        const char *tenant;
        const struct atoll_registry_login *login;
        bool good;
    } cases[] = {{"alpha", &wrong, false}, {"alpha", &right, true}, {"beta", NULL, false},
                 {"beta", &wrong, false},  {"alpha", NULL, true},   {"gamma", &right, true}};
    struct atoll_sync_call call = call_for(60000);

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(cases); i++) {
        struct atoll_spec spec = *wanted;
        struct atoll_error err = {0};
        int fd, r;

        atoll_rand_id(spec.id, ATOLL_ID_LEN);
        (void)snprintf(spec.tenant, sizeof(spec.tenant), "%s", cases[i].tenant);
        spec.login = cases[i].login;
        r = p->ops->create(p, &call, &spec, &fd, &err);
        if ((r == 0) != cases[i].good)
            fail_msg("case %zu: %s", i, err.text);
        if (r < 0) {
            assert_int_equal(err.kind, ATOLL_ERR_PERMISSION_DENIED);
            assert_null(strstr(err.text, "guess"));
            continue;
        }
        (void)close(fd);
        destroy(p, &spec);
    }
}

/* A missing image is pulled, with what we know for its registry and not otherwise. */
static void test_with_registry(void **state)
{
    struct atoll_docker_registry known = {.username = "me", .password = "secret"};
    struct atoll_docker_config config = config_of();
    struct atoll_sync_call call = call_for(60000);
    struct atoll_error err = {0};
    struct atoll_spec spec = spec_of();
    struct atoll_sync_provider *p;
    struct agent_client c;
    char registry[256];
    int said = 0, fd;

    (void)state;
    call.say = keep_said;
    call.say_arg = &said;
    (void)snprintf(spec.image, sizeof(spec.image), "%s", getenv("ATOLL_TEST_DOCKER_PULL"));
    p = provider(&config);
    assert_true(p->ops->create(p, &call, &spec, &fd, &err) < 0);
    assert_int_equal(err.kind, ATOLL_ERR_PERMISSION_DENIED); /* it is in a private network */
    p = p->ops->free(p);
    config.private_registries = true;
    p = provider(&config);
    assert_true(p->ops->create(p, &call, &spec, &fd, &err) < 0);
    assert_non_null(strstr(err.text, "pull image"));
    expect_login(p, &spec);
    p = p->ops->free(p);
    known.host = atoll_docker_registry_of(spec.image, registry);
    config.registries = &known;
    config.registry_count = 1;
    p = provider(&config);
    said = 0;
    assert_int_equal(p->ops->create(p, &call, &spec, &fd, &err), 0);
    greet(&c, fd, p, true);
    expect_as(&c, "", "echo $COLOUR", "red\n");
    assert_true(said > 0);
    leave(&c);
    destroy(p, &spec);
    p = p->ops->free(p);
}

/* The engine's bridge, and what is at its other end; none of it without. */
static void test_with_bridge(void **state)
{
    struct atoll_docker_config config = config_of();
    struct atoll_sync_provider *p = provider(&config);
    char fetch[200];
    struct agent_client c;

    (void)state;
    (void)snprintf(
        fetch, sizeof(fetch),
        "said=$(printf 'GET /hello HTTP/1.0\\r\\n\\r\\n' | nc -w 5 %s 8000 2>/dev/null | "
        "tail -n 1); echo ${said:-no}",
        getenv("ATOLL_TEST_DOCKER_BRIDGE"));
    for (int mode = ATOLL_NETWORK_NONE; mode <= ATOLL_NETWORK_BRIDGE; mode++) {
        struct atoll_spec spec = spec_of();

        spec.network = (enum atoll_network)mode;
        create(p, &spec, &c);
        expect_as(&c, "", fetch, mode == ATOLL_NETWORK_BRIDGE ? "world\n" : "no\n");
        expect_as(&c, "", "ls /sys/class/net", mode == ATOLL_NETWORK_NONE ? "lo\n" : "eth0\nlo\n");
        leave(&c);
        destroy(p, &spec);
    }
    p = p->ops->free(p);
}

/* Where the engine remaps users, root inside is nobody outside. */
static void test_with_remap(void **state)
{
    struct atoll_docker_config config = config_of();
    struct atoll_sync_provider *p = provider(&config);
    struct atoll_sync_call call = call_for(60000);
    struct atoll_spec spec = spec_of();
    json_t *inspect = NULL;
    struct atoll_error err = {0};
    struct agent_client c;
    struct stat st;
    char path[64];
    int fd;

    (void)state;
    assert_int_equal(p->ops->create(p, &call, &spec, &fd, &err), 0);
    greet(&c, fd, p, false); /* by a relay */
    expect_as(&c, "root", "id -u; touch ~/x && stat -c %u ~/x", "0\n0\n");
    assert_true(atoll_docker_http_askf(atoll_docker_of(p)->http, &call, &inspect, &err, "GET",
                                       "/containers/%s/json", spec.handle) > 0);
    (void)snprintf(
        path, sizeof(path), "/proc/%d",
        (int)json_integer_value(json_object_get(json_object_get(inspect, "State"), "Pid")));
    assert_int_equal(stat(path, &st), 0);
    assert_true(st.st_uid >= 65536 && st.st_gid >= 65536);
    json_decref(inspect);
    leave(&c);
    destroy(p, &spec);
    p = p->ops->free(p);
}

static int skip_all(void)
{
    (void)puts("test_docker_live: skipped, ATOLL_TEST_DOCKER names no engine");
    return 77;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_life),          cmocka_unit_test(test_walls),
        cmocka_unit_test(test_out_of_memory), cmocka_unit_test(test_disk_in_memory),
        cmocka_unit_test(test_refusals),      cmocka_unit_test(test_no_engine),
        cmocka_unit_test(test_end),           cmocka_unit_test(test_remote),
        cmocka_unit_test(test_pool),          cmocka_unit_test(test_orphans),
        cmocka_unit_test(test_images),        cmocka_unit_test(test_isolated),
        cmocka_unit_test(test_load),          cmocka_unit_test(test_with_quota),
        cmocka_unit_test(test_with_registry), cmocka_unit_test(test_with_bridge),
        cmocka_unit_test(test_with_remap),
    };
    char command[128];
    int r;

    host = getenv("ATOLL_TEST_DOCKER");
    image = getenv("ATOLL_TEST_DOCKER_IMAGE");
    if (!host || !image)
        return skip_all();
    /* These need more than an engine, and whoever has it asks for them. */
    if (!getenv("ATOLL_TEST_DOCKER_ONLY"))
        cmocka_set_skip_filter("test_with_*");
    (void)snprintf(state_dir, sizeof(state_dir), "/tmp/atoll-test-XXXXXX");
    if (!mkdtemp(state_dir))
        return 1;
    if (getenv("ATOLL_TEST_DOCKER_ONLY"))
        cmocka_set_test_filter(getenv("ATOLL_TEST_DOCKER_ONLY"));
    r = cmocka_run_group_tests(tests, NULL, NULL);
    (void)snprintf(command, sizeof(command), "rm -rf %s", state_dir);
    return system(command) == 0 ? r : 1;
}
