/*
 * Images and volumes through the adapter and the wrapper: what a build says comes in order and before
 * its end, secrets and mounts reach the worker as copies, and who cannot says so.
 */
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "provider/checked.h"
#include "provider/sync.h"

struct world {
    struct atoll_loop *loop;
    struct atoll_workers *workers;
    struct atoll_checked_group group;
    struct atoll_provider *builder, *other;
    char said[64], progress[64], volumes[64];
    int lines, ended;
    struct atoll_error error;
    char digest[72];
};

static struct {
    char login[5000], mount[400];
} seen;

static uint32_t missing(const struct atoll_sync_provider *p, const struct atoll_spec *spec)
{
    (void)p;
    (void)spec;
    return 0;
}

static int create(struct atoll_sync_provider *p, const struct atoll_sync_call *call,
                  struct atoll_spec *spec, int *ret_fd, struct atoll_error *err)
{
    (void)p;
    (void)err;
    (void)snprintf(seen.login, sizeof(seen.login), "%s:%s", spec->login->username,
                   spec->login->password);
    (void)snprintf(seen.mount, sizeof(seen.mount), "%zu %s %s", spec->mount_count,
                   spec->mounts[0].volume, spec->mounts[0].path);
    atoll_sync_say(call, "pulling");
    *ret_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    return 0;
}

/* Says what it reads, a line for each byte; then fails if the image is called so. */
static int build(struct atoll_sync_provider *p, const struct atoll_sync_call *call,
                 const struct atoll_provider_build *b, struct atoll_provider_image *ret,
                 struct atoll_error *err)
{
    char line[2] = "";

    (void)p;
    while (read(b->context_fd, line, 1) == 1)
        atoll_sync_say(call, line);
    if (strcmp(b->image, "bad") == 0)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EIO, "step 1: no");
    if (strcmp(b->image, "loud") == 0)
        for (int i = 0; i < 200000; i++)
            atoll_sync_say(call, "a line");
    *ret = (struct atoll_provider_image){.digest = "sha256:1", .size_bytes = 5};
    return 0;
}

static int list_volumes(struct atoll_sync_provider *p, const struct atoll_sync_call *call,
                        const char *tenant, atoll_provider_volume_fn *each, void *arg,
                        struct atoll_error *err)
{
    int count = strcmp(tenant, "many") == 0 ? 2000 : strcmp(tenant, "too many") == 0 ? 70000 : 3;
    struct atoll_provider_volume v = {0};

    (void)p;
    (void)call;
    (void)err;
    for (int i = 0; i < count; i++) {
        (void)snprintf(v.name, sizeof(v.name), "%s%d", tenant, i);
        each(arg, &v);
    }
    return 0;
}

static struct atoll_sync_provider *nothing_to_free(struct atoll_sync_provider *p)
{
    (void)p;
    return NULL;
}

static const struct atoll_sync_ops builder_ops = {
    .name = "builder",
    .caps = {.isolation = "none", .images = true, .builds = true, .volumes = true},
    .missing_limits = missing,
    .create = create,
    .build = build,
    .list_volumes = list_volumes,
    .free = nothing_to_free,
};
static const struct atoll_sync_ops other_ops = {
    .name = "other",
    .caps = {.isolation = "none"},
    .missing_limits = missing,
    .create = create,
    .free = nothing_to_free,
};
static struct atoll_sync_provider builder = {&builder_ops}, other = {&other_ops};

static void on_exited(void *arg, const char *id, const struct atoll_provider_exit *exit)
{
    (void)arg;
    (void)id;
    (void)exit;
}

static void on_lost(void *arg, const char *why)
{
    (void)arg;
    (void)why;
}

static void on_progress(void *arg, const char *id, const char *text)
{
    struct world *w = arg;
    (void)snprintf(w->progress, sizeof(w->progress), "%s %s", id, text);
}

static const struct atoll_provider_events events = {on_exited, on_lost, on_progress};

static struct atoll_provider *wrap(struct world *w, struct atoll_sync_provider *inner)
{
    struct atoll_provider *sync, *checked;
    struct atoll_error err;

    assert_int_equal(atoll_sync_wrap(w->loop, w->workers, inner, &sync, &err), 0);
    assert_int_equal(atoll_checked_wrap(w->loop, &w->group, NULL, sync, &checked, &err), 0);
    checked->events = &events;
    checked->events_arg = w;
    return checked;
}

static void open_world(struct world *w)
{
    struct atoll_error err;

    memset(w, 0, sizeof(*w));
    assert_int_equal(atoll_loop_new(&w->loop, &err), 0);
    assert_int_equal(atoll_workers_new(w->loop, 2, 10, &w->workers, &err), 0);
    w->builder = wrap(w, &builder);
    w->other = wrap(w, &other);
}

static void close_world(struct world *w)
{
    (void)w->builder->ops->free(w->builder);
    (void)w->other->ops->free(w->other);
    w->workers = atoll_workers_free(w->workers);
    w->loop = atoll_loop_free(w->loop);
}

static void wait_ended(struct world *w)
{
    struct atoll_error err;

    while (!w->ended)
        assert_int_equal(atoll_loop_step(w->loop, 5000, &err), 0);
}

static void on_said(void *arg, const char *line)
{
    struct world *w = arg;

    assert_int_equal(w->ended, 0);
    w->lines++;
    if (strlen(line) == 1)
        strcat(w->said, line);
}

static void on_image(void *arg, const struct atoll_provider_image *image,
                     const struct atoll_error *error)
{
    struct world *w = arg;

    w->ended++;
    w->error = error ? *error : (struct atoll_error){0};
    if (image)
        memcpy(w->digest, image->digest, sizeof(w->digest));
}

/* The other end of the context, which says whether it is still open there. */
static int ask_build(struct world *w, struct atoll_provider *p, const char *image,
                     const char *bytes)
{
    int pair[2];
    struct atoll_provider_build b = {.image = image, .dockerfile = "Dockerfile"};

    w->ended = 0;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    assert_int_equal(write(pair[1], bytes, strlen(bytes)), (ssize_t)strlen(bytes));
    assert_int_equal(shutdown(pair[1], SHUT_WR), 0);
    b.context_fd = pair[0];
    p->ops->build(p, &b, on_said, on_image, w);
    wait_ended(w);
    return pair[1];
}

static void expect_closed(int fd)
{
    char byte;

    assert_true(read(fd, &byte, 1) <= 0); /* reset, where something was not read */
    (void)close(fd);
}

static void test_build(void **state)
{
    struct world w;

    (void)state;
    open_world(&w);
    expect_closed(ask_build(&w, w.builder, "good", "abcdef"));
    assert_string_equal(w.said, "abcdef");
    assert_string_equal(w.digest, "sha256:1");
    expect_closed(ask_build(&w, w.builder, "bad", "xy"));
    assert_string_equal(w.said, "abcdefxy");
    assert_int_equal(w.error.kind, ATOLL_ERR_FAILED_PRECONDITION);
    /* What comes faster than it can be told is left out, and that is told. */
    w.lines = 0;
    expect_closed(ask_build(&w, w.builder, "loud", ""));
    assert_true(w.lines > 1000 && w.lines <= 200001);
    close_world(&w);
}

static void test_refusals(void **state)
{
    struct world w;
    struct atoll_spec spec = {0};

    (void)state;
    open_world(&w);
    expect_closed(ask_build(&w, w.other, "good", "abc"));
    assert_int_equal(w.error.kind, ATOLL_ERR_UNIMPLEMENTED);
    assert_string_equal(w.error.text,
                        "provider other cannot build images from a Dockerfile; builder can");
    assert_int_equal(w.lines, 0);
    w.builder->ops->snapshot(w.builder, &spec, "x", on_image, &w);
    assert_string_equal(w.error.text, "provider builder cannot make snapshots of sandboxes");
    close_world(&w);
}

static void on_created(void *arg, int fd, uint64_t boot_us, const struct atoll_error *error)
{
    struct world *w = arg;

    (void)boot_us;
    assert_null(error);
    (void)close(fd);
    w->ended++;
}

static void test_create(void **state)
{
    struct atoll_registry_login login = {"me", "secret"};
    struct atoll_mount mount = {.volume = "v", .path = "/p"};
    struct atoll_spec spec = {.id = "abc", .mounts = &mount, .mount_count = 1, .login = &login};
    struct world w;

    (void)state;
    open_world(&w);
    w.builder->ops->create(w.builder, &spec, on_created, &w);
    memset(&login, 'x', sizeof(login)); /* lent for the call alone */
    memset(&mount, 'x', sizeof(mount));
    wait_ended(&w);
    assert_string_equal(seen.login, "me:secret");
    assert_string_equal(seen.mount, "1 v /p");
    assert_string_equal(w.progress, "abc pulling");
    close_world(&w);
}

static void on_volume(void *arg, const struct atoll_provider_volume *volume)
{
    struct world *w = arg;

    strcat(w->volumes, volume->name);
}

static void on_done(void *arg, const struct atoll_error *error)
{
    struct world *w = arg;

    assert_null(error);
    w->ended++;
}

static void test_volumes(void **state)
{
    struct world w;

    (void)state;
    open_world(&w);
    w.builder->ops->list_volumes(w.builder, "t", on_volume, on_done, &w);
    wait_ended(&w);
    assert_string_equal(w.volumes, "t0t1t2");
    close_world(&w);
}

static unsigned counted;

static void count_volume(void *arg, const struct atoll_provider_volume *volume)
{
    (void)arg;
    (void)volume;
    counted++;
}

static void on_refused(void *arg, const struct atoll_error *error)
{
    struct world *w = arg;

    assert_non_null(error);
    assert_int_equal(error->kind, ATOLL_ERR_RESOURCE_EXHAUSTED);
    w->ended++;
}

/* All of them, or an error: never some. */
static void test_many_volumes(void **state)
{
    struct world w;

    (void)state;
    open_world(&w);
    counted = 0;
    w.builder->ops->list_volumes(w.builder, "many", count_volume, on_done, &w);
    wait_ended(&w);
    assert_int_equal(counted, 2000);
    close_world(&w);

    open_world(&w);
    counted = 0;
    w.builder->ops->list_volumes(w.builder, "too many", count_volume, on_refused, &w);
    wait_ended(&w);
    assert_int_equal(counted, 0);
    close_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_build),        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_create),       cmocka_unit_test(test_volumes),
        cmocka_unit_test(test_many_volumes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
