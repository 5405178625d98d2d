/* What we ask of Docker and how its answers and streams are understood. */
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "provider/docker/body.h"
#include "provider/docker/docker_internal.h"
#include "provider/docker/stream.h"

static struct atoll_spec spec_of(void)
{
    return (struct atoll_spec){.id = "abcdefghijklmnopqrstuvwxyz",
                               .limits = {.memory_bytes = 64 << 20,
                                          .cpu_millis = 8000,
                                          .pids = 32,
                                          .disk_bytes = 80 << 20,
                                          .open_files = 256}};
}

static json_t *body_of(const struct atoll_spec *spec, enum atoll_docker_disk disk, bool local)
{
    static const struct atoll_docker_image image = {
        .id = "sha256:1", .user = "app", .volumes = {"/data"}, .volume_count = 1};
    struct atoll_docker_place place = {.spec = spec,
                                       .image = &image,
                                       .daemon_id = "d",
                                       .network = "none",
                                       .profile = "{}",
                                       .agent = "/lib/atoll-agent",
                                       .run_dir = local ? "/state/x/run" : NULL,
                                       .agent_volume = "atoll-agent-1",
                                       .cpus = 2,
                                       .disk = disk};
    return atoll_docker_body_create(&place);
}

static json_int_t host_int(const json_t *body, const char *key)
{
    return json_integer_value(json_object_get(json_object_get(body, "HostConfig"), key));
}

static bool has(const json_t *array, const char *text)
{
    const json_t *item;
    size_t i;

    json_array_foreach(array, i, item)
    {
        if (json_is_string(item) && strcmp(json_string_value(item), text) == 0)
            return true;
    }
    return false;
}

static void test_limits_and_rights(void **state)
{
    struct atoll_spec spec = spec_of();
    json_t *body = body_of(&spec, ATOLL_DOCKER_DISK_REFUSE, true);
    const json_t *host = json_object_get(body, "HostConfig");

    (void)state;
    assert_int_equal(host_int(body, "Memory"), 64 << 20);
    assert_int_equal(host_int(body, "MemorySwap"), 64 << 20);
    assert_int_equal(host_int(body, "NanoCpus"), 2000000000); /* no more than there are */
    assert_int_equal(host_int(body, "PidsLimit"), 34);
    assert_true(has(json_object_get(host, "CapDrop"), "ALL"));
    assert_int_equal(json_array_size(json_object_get(host, "CapAdd")), 8);
    assert_false(has(json_object_get(host, "CapAdd"), "SYS_ADMIN"));
    assert_true(has(json_object_get(host, "SecurityOpt"), "no-new-privileges"));
    assert_true(has(json_object_get(host, "SecurityOpt"), "seccomp={}"));
    assert_true(json_is_false(json_object_get(host, "Privileged")));
    assert_true(has(json_object_get(host, "MaskedPaths"), "/proc/kallsyms"));
    assert_true(has(json_object_get(host, "MaskedPaths"), "/sys/firmware"));
    assert_true(has(json_object_get(host, "ReadonlyPaths"), "/proc/sys"));
    assert_string_equal(json_string_value(json_object_get(host, "NetworkMode")), "none");
    assert_true(has(json_object_get(body, "Cmd"), "app"));
    assert_false(has(json_object_get(body, "Cmd"), "--no-fds"));
    assert_null(json_object_get(host, "ReadonlyRootfs"));
    json_decref(body);
}

static void test_waived_limits_are_absent(void **state)
{
    struct atoll_spec spec = spec_of();
    json_t *body;

    (void)state;
    spec.waived = ATOLL_LIMIT_MEMORY | ATOLL_LIMIT_PIDS;
    body = body_of(&spec, ATOLL_DOCKER_DISK_REFUSE, true);
    assert_int_equal(host_int(body, "Memory"), 0);
    assert_int_equal(host_int(body, "PidsLimit"), 0);
    assert_false(has(json_object_get(body, "Cmd"), "--memory-limit"));
    json_decref(body);
}

/* All places that can be written to together are no more than the disk. */
static void test_disk_in_memory(void **state)
{
    struct atoll_spec spec = spec_of();
    json_t *body = body_of(&spec, ATOLL_DOCKER_DISK_TMPFS, true);
    json_t *tmpfs = json_object_get(json_object_get(body, "HostConfig"), "Tmpfs");
    unsigned long long sum = 0, size;
    const char *path;
    json_t *options;

    (void)state;
    assert_true(
        json_is_true(json_object_get(json_object_get(body, "HostConfig"), "ReadonlyRootfs")));
    json_object_foreach(tmpfs, path, options)
    {
        const char *at = strstr(json_string_value(options), "size=");
        assert_non_null(at);
        assert_int_equal(sscanf(at, "size=%llu", &size), 1);
        sum += size;
    }
    assert_non_null(json_object_get(tmpfs, "/home"));
    assert_non_null(json_object_get(tmpfs, "/data"));
    assert_true(sum <= spec.limits.disk_bytes);
    assert_true(sum > spec.limits.disk_bytes / 10 * 9);
    json_decref(body);
}

static void test_quota_and_remote(void **state)
{
    struct atoll_spec spec = spec_of();
    json_t *body = body_of(&spec, ATOLL_DOCKER_DISK_QUOTA, false);
    json_t *host = json_object_get(body, "HostConfig");
    const char *size =
        json_string_value(json_object_get(json_object_get(host, "StorageOpt"), "size"));
    json_t *mount = json_array_get(json_object_get(host, "Mounts"), 0);

    (void)state;
    assert_string_equal(size, "83886080");
    assert_true(has(json_object_get(body, "Cmd"), "--no-fds"));
    assert_int_equal(json_array_size(json_object_get(host, "Mounts")), 1);
    assert_string_equal(json_string_value(json_object_get(mount, "Source")), "atoll-agent-1");
    assert_true(json_is_true(json_object_get(mount, "ReadOnly")));
    assert_non_null(json_object_get(json_object_get(host, "Tmpfs"), "/.atoll/run"));
    json_decref(body);
}

static struct atoll_provider_inspection look_of(const char *text)
{
    json_t *json = json_loads(text, 0, NULL);
    struct atoll_provider_inspection look;

    assert_non_null(json);
    atoll_docker_inspect_parse(json, &look);
    json_decref(json);
    return look;
}

static void test_looks(void **state)
{
    struct atoll_provider_inspection look =
        look_of("{\"State\":{\"Running\":true,\"Paused\":false}}");

    (void)state;
    assert_int_equal(look.state, ATOLL_INSPECT_ALIVE);
    look = look_of("{\"State\":{\"Running\":true,\"Paused\":true}}");
    assert_int_equal(look.state, ATOLL_INSPECT_PAUSED);
    look = look_of("{\"State\":{\"Running\":false,\"OOMKilled\":true,\"ExitCode\":137}}");
    assert_int_equal(look.state, ATOLL_INSPECT_EXITED);
    assert_int_equal(look.exit.signal, 9);
    assert_int_equal(look.exit.code, -1);
    assert_int_equal(look.exit.oom_kills, 1);
    assert_non_null(strstr(look.cause, "memory"));
    look = look_of("{\"State\":{\"Running\":false,\"ExitCode\":3}}");
    assert_int_equal(look.exit.code, 3);
    assert_int_equal(look.exit.signal, 0);
}

static void test_info(void **state)
{
    json_t *json =
        json_loads("{\"Driver\":\"overlay2\",\"DriverStatus\":[[\"Backing Filesystem\","
                   "\"xfs\"]],\"MemoryLimit\":true,\"CpuCfsQuota\":true,"
                   "\"PidsLimit\":false,\"NCPU\":4,\"SecurityOptions\":[\"name=userns\"],"
                   "\"ServerVersion\":\"20.10.24\"}",
                   0, NULL);
    struct atoll_docker_info info;

    (void)state;
    atoll_docker_info_parse(json, &info);
    assert_int_equal(info.missing, ATOLL_LIMIT_PIDS);
    assert_true(info.quota);
    assert_true(info.shifted);
    assert_int_equal(info.cpus, 4);
    json_decref(json);
}

static void test_stats(void **state)
{
    json_t *json = json_loads("{\"memory_stats\":{\"usage\":1000,\"limit\":9223372036854771712,"
                              "\"max_usage\":1500,\"stats\":{\"inactive_file\":5,"
                              "\"total_inactive_file\":400}},\"cpu_stats\":{\"cpu_usage\":"
                              "{\"total_usage\":7000}},\"pids_stats\":{\"current\":3}}",
                              0, NULL);
    struct atoll_provider_stats stats;

    (void)state;
    atoll_docker_stats_parse(json, &stats);
    assert_int_equal(stats.memory_bytes, 600);
    assert_int_equal(stats.memory_peak_bytes, 1500);
    assert_int_equal(stats.memory_limit_bytes, 0);
    assert_int_equal(stats.cpu_us, 7);
    assert_int_equal(stats.processes, 3);
    json_decref(json);
}

/* On cgroups v2 Docker knows no peak; what is used now is none. */
static void test_stats_without_a_peak(void **state)
{
    json_t *json = json_loads("{\"memory_stats\":{\"usage\":1000,\"limit\":2000,\"stats\":"
                              "{\"inactive_file\":400}}}",
                              0, NULL);
    struct atoll_provider_stats stats;

    (void)state;
    atoll_docker_stats_parse(json, &stats);
    assert_int_equal(stats.memory_bytes, 600);
    assert_int_equal(stats.memory_peak_bytes, 0);
    json_decref(json);
}

static void test_names(void **state)
{
    char host[256], id[ATOLL_ID_LEN + 1];
    json_t *entry = json_pack("{s:[s]}", "Names", "/atoll-abcdefghijklmnopqrstuvwxyz");
    json_t *pooled = json_pack("{s:[s]}", "Names", "/atoll-pool-abcdefghijklmnopqrstuvwxyz");

    (void)state;
    assert_true(atoll_docker_is_image_name("registry.example:5000/a/b:1.0"));
    assert_true(atoll_docker_is_image_name("a@sha256:00ff"));
    assert_false(atoll_docker_is_image_name("a?b=c"));
    assert_false(atoll_docker_is_image_name("../containers/x"));
    assert_false(atoll_docker_is_image_name("a/../b"));
    assert_false(atoll_docker_is_image_name(""));
    assert_string_equal(atoll_docker_registry_of("debian:12", host), "docker.io");
    assert_string_equal(atoll_docker_registry_of("library/debian", host), "docker.io");
    assert_string_equal(atoll_docker_registry_of("r.example/x", host), "r.example");
    assert_string_equal(atoll_docker_registry_of("localhost:5000/x", host), "localhost:5000");
    assert_true(atoll_docker_registry_is_inner("localhost:5000"));
    assert_true(atoll_docker_registry_is_inner("registry"));
    assert_true(atoll_docker_registry_is_inner("127.0.0.1:80"));
    assert_true(atoll_docker_registry_is_inner("127.1"));
    assert_true(atoll_docker_registry_is_inner("0x7f.1"));
    assert_true(atoll_docker_registry_is_inner("8.8.8.8"));
    assert_true(atoll_docker_registry_is_inner("[::1]:80"));
    assert_false(atoll_docker_registry_is_inner("no-such-name.invalid:80"));
    assert_true(atoll_docker_entry_id(entry, id));
    assert_string_equal(id, "abcdefghijklmnopqrstuvwxyz");
    assert_false(atoll_docker_entry_id(pooled, id));
    json_decref(entry);
    json_decref(pooled);
}

static void test_why_a_pull_failed(void **state)
{
    static const struct {
        const char *text;
        enum atoll_error_kind kind, result;
    } cases[] = {
        {"Head \"http://r/v2/x\": no basic auth credentials", ATOLL_ERR_INTERNAL,
         ATOLL_ERR_PERMISSION_DENIED},
        {"Docker: unauthorized: incorrect username", ATOLL_ERR_FAILED_PRECONDITION,
         ATOLL_ERR_PERMISSION_DENIED},
        {"manifest for r/x:1 not found: manifest unknown", ATOLL_ERR_INTERNAL, ATOLL_ERR_NOT_FOUND},
        {"Get \"https://r/v2/\": dial tcp: lookup r", ATOLL_ERR_INTERNAL, ATOLL_ERR_UNAVAILABLE},
        {"no space left on device", ATOLL_ERR_INTERNAL, ATOLL_ERR_FAILED_PRECONDITION},
        {"the engine is not there: timeout", ATOLL_ERR_DEADLINE_EXCEEDED,
         ATOLL_ERR_DEADLINE_EXCEEDED},
    };
    struct atoll_error err;

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(cases); i++) {
        (void)atoll_fail(&err, cases[i].kind, EIO, "%s", cases[i].text);
        atoll_docker_judge_pull(&err);
        assert_int_equal(err.kind, cases[i].result);
        assert_true(err.another); /* it speaks of the registry */
    }
    (void)atoll_fail(&err, ATOLL_ERR_UNAVAILABLE, EAGAIN, "Docker: toomanyrequests");
    atoll_docker_judge_pull(&err);
    assert_true(err.another);
    (void)atoll_fail(&err, ATOLL_ERR_UNAVAILABLE, ECONNREFUSED, "the engine is not there");
    atoll_docker_judge_pull(&err);
    assert_false(err.another);
}

/* Tenants are told what failed, and nothing of the host's network. */
static void test_resolvers_are_hidden(void **state)
{
    static const struct {
        const char *text, *result;
    } cases[] = {
        {"dial tcp: lookup no.such on 10.1.2.3:53: no such host",
         "dial tcp: lookup no.such: no such host"},
        {"lookup a on [fd00::1]:53: server misbehaving; lookup b on 127.0.0.53:53: i/o timeout",
         "lookup a: server misbehaving; lookup b: i/o timeout"},
        {"lookup a on the moon: no", "lookup a on the moon: no"},
        {"lookup a on 10.1.2.3", "lookup a on 10.1.2.3"},
        {"nothing on 10.1.2.3:53: x", "nothing on 10.1.2.3:53: x"},
    };
    struct atoll_error err;

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(cases); i++) {
        (void)atoll_fail(&err, ATOLL_ERR_INTERNAL, EIO, "%s", cases[i].text);
        atoll_docker_judge_pull(&err);
        assert_string_equal(err.text, cases[i].result);
    }
}

static void count(void *arg, const char *text)
{
    (void)text;
    ++*(int *)arg;
}

/* The same, whatever the pieces. */
static void test_progress(void **state)
{
    static const char text[] =
        "{\"status\":\"Pulling\",\"id\":\"x\"}\r\n{\"stream\":\"Step 1\\n\"}\n"
        "{\"aux\":{\"ID\":\"sha256:9\"}}\n"
        "{\"errorDetail\":{\"message\":\"no such image\"},\"error\":\"e\"}";

    (void)state;
    for (size_t piece = 1; piece < sizeof(text); piece += 3) {
        struct atoll_docker_progress p;
        struct atoll_error err = {0};
        int said = 0;
        atoll_docker_progress_init(&p, count, &said);
        for (size_t at = 0; at < sizeof(text) - 1; at += piece)
            assert_int_equal(
                atoll_docker_progress_take(&p, text + at, ATOLL_MIN(piece, sizeof(text) - 1 - at)),
                0);
        assert_true(atoll_docker_progress_end(&p, &err) < 0);
        assert_non_null(strstr(err.text, "no such image"));
        assert_string_equal(p.id, "sha256:9");
        assert_int_equal(said, 2);
        atoll_docker_progress_done(&p);
    }
}

struct told {
    char text[400];
    int times;
};

static void keep(void *arg, const char *text)
{
    struct told *told = arg;

    (void)snprintf(told->text, sizeof(told->text), "%s", text);
    told->times++;
}

static void feed(struct atoll_docker_progress *p, const char *text)
{
    assert_int_equal(atoll_docker_progress_take(p, text, strlen(text)), 0);
}

/* Layers one by one become one figure, told at once and then seldom. */
static void test_pull_progress(void **state)
{
    struct atoll_docker_progress p;
    struct atoll_error err = {0};
    struct told told = {0};
    char text[80];

    (void)state;
    atoll_docker_progress_init(&p, keep, &told);
    feed(&p, "{\"status\":\"Pulling fs layer\",\"id\":\"aaaaaaaaaaaa\"}\n");
    for (int i = 1; i <= 1000; i++)
        feed(&p, "{\"status\":\"Downloading\",\"id\":\"aaaaaaaaaaaa\","
                 "\"progressDetail\":{\"current\":1048576,\"total\":4194304}}\n");
    feed(&p, "{\"status\":\"Already exists\",\"id\":\"bbbbbbbbbbbb\"}\n");
    assert_true(told.times < 100);
    assert_string_equal(atoll_docker_pull_text(&p.pull, text), "1 of 2 layers, 1M of 4M");
    feed(&p, "{\"status\":\"Download complete\",\"id\":\"aaaaaaaaaaaa\"}\n"
             "{\"status\":\"Pull complete\",\"id\":\"aaaaaaaaaaaa\"}\n");
    assert_string_equal(told.text, "2 of 2 layers, 4M of 4M");
    assert_int_equal(atoll_docker_progress_end(&p, &err), 0);
    atoll_docker_progress_done(&p);
}

/* Output is told by lines, whatever its pieces, and a failure with the step it was in. */
static void test_build_progress(void **state)
{
    struct atoll_docker_progress p;
    struct atoll_error err = {0};
    struct told told = {0};

    (void)state;
    atoll_docker_progress_init(&p, keep, &told);
    feed(&p, "{\"stream\":\"Step 2/3 : RUN make\\n\"}\n{\"stream\":\"one\\ntw\"}\n");
    assert_string_equal(told.text, "one");
    feed(&p, "{\"stream\":\"o\"}\n{\"stream\":\"\\r\\n\"}\n");
    assert_string_equal(told.text, "two");
    assert_int_equal(told.times, 3);
    feed(&p,
         "{\"stream\":\"rest\"}\n{\"errorDetail\":{\"message\":\"code: 2\"},\"error\":\"e\"}\n");
    assert_true(atoll_docker_progress_end(&p, &err) < 0);
    assert_string_equal(told.text, "rest");
    assert_string_equal(err.text, "step 2/3 : RUN make: code: 2");
    atoll_docker_progress_done(&p);
}

/* What could be an id is made a name, and what is not everybody's is none. */
static void test_requested_names(void **state)
{
    static const struct {
        const char *image, *name;
        int result;
    } cases[] = {
        {"debian", "debian:latest", 0},    {"cafe", "cafe:latest", 0},
        {"debian:12", "debian:12", 0},     {"r.example:5000/a/b", "r.example:5000/a/b:latest", 0},
        {"a@sha256:11", "a@sha256:11", 0}, {"sha256:11", NULL, -EINVAL},
        {"x/sha256:11", NULL, -EINVAL},    {"atoll-template:x", NULL, -EPERM},
        {"atoll-layer:x", NULL, -EPERM},   {"docker.io/library/atoll-private:x", NULL, -EPERM},
        {"atoll-private", NULL, -EPERM},   {"../x", NULL, -EINVAL}};
    char name[264];

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(cases); i++) {
        assert_int_equal(atoll_docker_requested_image(cases[i].image, name), cases[i].result);
        if (cases[i].result == 0)
            assert_string_equal(name, cases[i].name);
    }
}

static void test_progress_refuses_other_things(void **state)
{
    struct atoll_docker_progress p;
    struct atoll_error err = {0};

    (void)state;
    atoll_docker_progress_init(&p, NULL, NULL);
    assert_true(atoll_docker_progress_take(&p, "<html>\n", 7) < 0);
    assert_true(atoll_docker_progress_end(&p, &err) < 0); /* nothing is left of it, and it counts */
    assert_int_equal(err.kind, ATOLL_ERR_UNAVAILABLE);
    atoll_docker_progress_done(&p);
    atoll_docker_progress_init(&p, NULL, NULL);
    assert_int_equal(atoll_docker_progress_take(&p, "{\"status\":", 10), 0);
    assert_true(atoll_docker_progress_end(&p, &err) < 0); /* broke off */
    atoll_docker_progress_done(&p);
}

static void test_demux(void **state)
{
    static const uint8_t bytes[] = {1, 0, 0, 0, 0, 0, 0,   3, 'a', 'b', 'c', 2,  0,
                                    0, 0, 0, 0, 0, 1, 'e', 1, 0,   0,   0,   0,  0,
                                    0, 0, 1, 0, 0, 0, 0,   0, 0,   2,   'd', 'f'};

    (void)state;
    for (size_t piece = 1; piece <= sizeof(bytes); piece++) {
        struct atoll_docker_demux d = {0};
        char out[3][16] = {{0}};
        for (size_t at = 0; at < sizeof(bytes);) {
            size_t n = ATOLL_MIN(piece, sizeof(bytes) - at), len, used = 0;
            while (used < n) {
                int stream;
                ssize_t r = atoll_docker_demux_next(&d, bytes + at + used, n - used, &stream, &len);
                assert_true(r > 0);
                used += (size_t)r;
                strncat(out[stream], (const char *)bytes + at + used - len, len);
            }
            at += n;
        }
        assert_string_equal(out[1], "abcdf");
        assert_string_equal(out[2], "e");
    }
}

static void test_demux_refuses(void **state)
{
    static const uint8_t html[] = "<html><body>";
    struct atoll_docker_demux d = {0};
    size_t len;
    int stream;

    (void)state;
    assert_int_equal(atoll_docker_demux_next(&d, html, sizeof(html), &stream, &len), -EPROTO);
}

/* tar(1) reads what we write. */
static void test_tar(void **state)
{
    char dir[] = "/tmp/atoll-test-XXXXXX", command[512], piece[777];
    struct atoll_docker_tar *tar = NULL;
    struct atoll_error err = {0};
    ssize_t n;
    FILE *out;

    (void)state;
    assert_non_null(mkdtemp(dir));
    (void)snprintf(command, sizeof(command),
                   "cd %s && head -c 5000 /dev/urandom > z && chmod 4711 z", dir);
    assert_int_equal(system(command), 0);
    (void)snprintf(command, sizeof(command), "%s/z", dir);
    assert_int_equal(atoll_docker_tar_file(command, "bin/z", &tar, &err), 0);
    (void)snprintf(command, sizeof(command), "mkdir %s/u && tar -C %s/u -xpf -", dir, dir);
    out = popen(command, "w");
    assert_non_null(out);
    while ((n = atoll_docker_tar_read(tar, piece, sizeof(piece))) > 0)
        assert_int_equal(fwrite(piece, 1, (size_t)n, out), n);
    assert_int_equal(n, 0);
    assert_int_equal(pclose(out), 0);
    tar = atoll_docker_tar_free(tar);
    (void)snprintf(command, sizeof(command),
                   "cmp %s/z %s/u/bin/z && test \"$(stat -c %%a %s/u/bin/z)\" = 4711 && rm -r %s",
                   dir, dir, dir, dir);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_limits_and_rights),
        cmocka_unit_test(test_waived_limits_are_absent),
        cmocka_unit_test(test_disk_in_memory),
        cmocka_unit_test(test_quota_and_remote),
        cmocka_unit_test(test_looks),
        cmocka_unit_test(test_info),
        cmocka_unit_test(test_stats),
        cmocka_unit_test(test_stats_without_a_peak),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_why_a_pull_failed),
        cmocka_unit_test(test_resolvers_are_hidden),
        cmocka_unit_test(test_progress),
        cmocka_unit_test(test_progress_refuses_other_things),
        cmocka_unit_test(test_pull_progress),
        cmocka_unit_test(test_build_progress),
        cmocka_unit_test(test_requested_names),
        cmocka_unit_test(test_demux),
        cmocka_unit_test(test_demux_refuses),
        cmocka_unit_test(test_tar),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
