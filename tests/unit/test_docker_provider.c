/*
 * The Docker provider against engines that are slow, or fall silent in the middle: what was begun is
 * taken back, and nobody waits longer than they have to. What it does with a good one is tested with a
 * real engine, in test_docker_live.c.
 */
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <sys/time.h>
#include "base/clock.h"
#include "fake_http.h"
#include "provider/docker/docker_internal.h"

#define IMAGE "localhost:9/x:1"
#define PATIENCE_S \
    15 /* with a client that should hang up; less than what it would wait by itself */

static char state_dir[64], libexec_dir[72];
static int cancel_fd; /* of the call of the test */
static atomic_bool waited_on;

static struct atoll_sync_provider *provider_at(const struct fake_http *h, unsigned pool)
{
    char host[80];
    struct atoll_docker_config config = {.host = host,
                                         .state_dir = state_dir,
                                         .libexec_dir = libexec_dir,
                                         .default_image = IMAGE,
                                         .disk = ATOLL_DOCKER_DISK_REFUSE,
                                         .private_registries = true,
                                         .pool = pool};
    struct atoll_sync_provider *p = NULL;
    struct atoll_error err = {0};

    (void)snprintf(host, sizeof(host), "tcp%s", strchr(h->url, ':'));
    if (atoll_docker_provider_new(&config, &p, &err) < 0)
        fail_msg("%s", err.text);
    return p;
}

static struct atoll_sync_call within(int ms)
{
    return (struct atoll_sync_call){.deadline_ms = atoll_clock_ms() + ms, .cancel_fd = cancel_fd};
}

static struct atoll_spec spec_of(const char *tenant, const struct atoll_registry_login *login)
{
    struct atoll_spec spec = {.image = IMAGE, .waived = ATOLL_LIMIT_ALL, .login = login};

    atoll_rand_id(spec.id, ATOLL_ID_LEN);
    (void)snprintf(spec.tenant, sizeof(spec.tenant), "%s", tenant);
    return spec;
}

static bool is(const struct fake_request *q, const char *method, const char *part)
{
    return strcmp(q->method, method) == 0 && strstr(q->path, part);
}

/* What every engine here can do. */
static bool serve_basics(struct fake_request *q)
{
    if (is(q, "GET", "/_ping"))
        fake_reply(q, 200, "Api-Version: 1.41\r\n", "OK");
    else if (is(q, "GET", "/info"))
        fake_reply(q, 200, "",
                   "{\"MemoryLimit\":true,\"CpuCfsQuota\":true,\"PidsLimit\":true,\"NCPU\":2}");
    else if (is(q, "GET", "/containers/json"))
        fake_reply(q, 200, "", "[]");
    else
        return false;
    return true;
}

/* Until the client goes. */
static void say_nothing(const struct fake_request *q)
{
    struct timeval patience = {.tv_sec = PATIENCE_S};
    char bytes[4096];
    ssize_t n;

    (void)setsockopt(q->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    while ((n = read(q->fd, bytes, sizeof(bytes))) > 0)
        ;
    if (n < 0 && errno == EAGAIN)
        waited_on = true;
}

static void cancel(void)
{
    assert_int_equal(eventfd_write(cancel_fd, 1), 0);
}

static void await_asked(struct fake_http *h, const char *text)
{
    while (fake_asked(h, text) == 0)
        (void)usleep(1000);
}

/* Private images. */

static void serve_long_pull(struct fake_request *q)
{
    if (serve_basics(q))
        return;
    if (is(q, "POST", "/images/create")) {
        cancel();
        say_nothing(q);
    } else {
        fake_reply(q, 404, "", "{}");
    }
}

/* It may be there all the same, under a name that others know too. */
static void a_private_pull_that_is_given_up_leaves_nothing(void **state)
{
    static const struct atoll_registry_login login = {"me", "secret"};
    struct fake_http *h = fake_http_new(serve_long_pull);
    struct atoll_sync_provider *p = provider_at(h, 0);
    struct atoll_sync_call call = within(60000);
    struct atoll_spec spec = spec_of("alpha", &login);
    struct atoll_error err = {0};
    int fd;

    (void)state;
    assert_true(p->ops->create(p, &call, &spec, &fd, &err) < 0);
    assert_int_equal(err.kind, ATOLL_ERR_ABORTED);
    assert_int_equal(fake_asked(h, "DELETE /v1.41/images/" IMAGE), 1);
    p = p->ops->free(p);
    fake_http_free(h);
}

/* The first to look for the image is answered only when somebody else is just pulling it. */
static void serve_two_tenants(struct fake_request *q)
{
    struct fake_http *h = q->http;

    if (serve_basics(q))
        return;
    if (is(q, "GET", "/images/" IMAGE)) {
        int nth;

        (void)pthread_mutex_lock(&h->lock);
        nth = ++h->counter;
        while (nth == 1 && !h->state[0])
            (void)pthread_cond_wait(&h->changed, &h->lock);
        (void)pthread_mutex_unlock(&h->lock);
        fake_reply(q, nth == 1 ? 200 : 404, "", "{\"Id\":\"sha256:1\",\"Config\":{}}");
    } else if (is(q, "POST", "/images/create") && strcasestr(q->head, "X-Registry-Auth")) {
        (void)pthread_mutex_lock(&h->lock);
        h->state[0] = 1;
        (void)pthread_cond_broadcast(&h->changed);
        (void)pthread_mutex_unlock(&h->lock);
        fake_reply(q, 200, "", "");
    } else if (is(q, "POST", "/images/create")) {
        fake_reply(q, 404, "", "{\"message\":\"access denied\"}");
    } else if (is(q, "POST", "/tag") || is(q, "DELETE", "/images/")) {
        fake_reply(q, 200, "", "");
    } else {
        fake_reply(q, 404, "", "{}");
    }
}

struct other {
    struct atoll_sync_provider *provider;
    pthread_t thread;
    int result;
    struct atoll_error error;
    atomic_bool ended;
};

static void *create_as_beta(void *arg)
{
    struct other *o = arg;
    struct atoll_sync_call call = within(60000);
    struct atoll_spec spec = spec_of("beta", NULL);
    int fd;

    o->result = o->provider->ops->create(o->provider, &call, &spec, &fd, &o->error);
    o->ended = true;
    return NULL;
}

static void a_private_image_is_nobody_elses_while_it_has_its_name(void **state)
{
    static const struct atoll_registry_login login = {"me", "secret"};
    struct fake_http *h = fake_http_new(serve_two_tenants);
    struct other beta = {.provider = provider_at(h, 0)};
    struct atoll_sync_provider *p = beta.provider;
    struct atoll_sync_call call = within(60000);
    struct atoll_spec spec = spec_of("alpha", &login);
    struct atoll_error err = {0};
    int fd;

    (void)state;
    assert_int_equal(pthread_create(&beta.thread, NULL, create_as_beta, &beta), 0);
    await_asked(h, "GET /v1.41/images/" IMAGE);
    assert_true(p->ops->create(p, &call, &spec, &fd, &err) < 0);
    assert_int_equal(pthread_join(beta.thread, NULL), 0);
    assert_true(beta.result < 0);
    assert_int_equal(fake_asked(h, "POST /v1.41/images/create"), 2); /* it had to ask for itself */
    assert_int_equal(fake_asked(h, "/containers/create"), 0);
    p = p->ops->free(p);
    fake_http_free(h);
}

/* Names made by an earlier version, which hashed with SHA-1. */

static char existing[128], answer[512]; /* the object that the engine has */

static void serve_one_object(struct fake_request *q)
{
    if (serve_basics(q))
        return;
    if (*existing && is(q, "GET", existing))
        fake_reply(q, 200, "", answer);
    else if (is(q, "GET", "/volumes?"))
        fake_reply(q, 200, "", "{\"Volumes\":[]}");
    else if (is(q, "GET", ""))
        fake_reply(q, 404, "", "{}");
    else
        fake_reply(q, 200, "", "{}");
}

static void hash(const EVP_MD *algorithm, const char *prefix, const char *text, char out[128])
{
    uint8_t digest[EVP_MAX_MD_SIZE];
    unsigned n = 0;
    int at = snprintf(out, 128, "%s", prefix);

    assert_int_equal(EVP_Digest(text, strlen(text), digest, &n, algorithm, NULL), 1);
    for (unsigned i = 0; i < n; i++)
        at += snprintf(out + at, 128 - (size_t)at, "%02x", digest[i]);
}

static void has_volume(const struct atoll_docker *d, const char *owner)
{
    char text[256];

    (void)snprintf(text, sizeof(text), "%s/alpha/data", d->daemon_id);
    hash(EVP_sha1(), "atoll-volume-", text, existing);
    (void)snprintf(answer, sizeof(answer),
                   "{\"Name\":\"%s\",\"Labels\":{\"" ATOLL_DOCKER_LABEL
                   "\":\"%s\",\"" ATOLL_DOCKER_OWNER "\":\"%s\",\"" ATOLL_DOCKER_VOLUME
                   "\":\"data\"}}",
                   existing, d->daemon_id, owner);
}

static void mount_data(struct atoll_docker *d, char source[128])
{
    static const struct atoll_mount mount = {.volume = "data", .path = "/data"};
    struct atoll_spec spec = spec_of("alpha", NULL);
    struct atoll_sync_call call = within(60000);
    struct atoll_error err = {0};
    json_t *mounts = NULL;

    spec.mounts = &mount;
    spec.mount_count = 1;
    if (atoll_docker_mounts_get(d, &call, &spec, &mounts, &err) != 0)
        fail_msg("%s", err.text);
    (void)snprintf(source, 128, "%s",
                   json_string_value(json_object_get(json_array_get(mounts, 0), "Source")));
    json_decref(mounts);
}

static void volumes_keep_their_former_names(void **state)
{
    struct fake_http *h = fake_http_new(serve_one_object);
    struct atoll_sync_provider *p = provider_at(h, 0);
    struct atoll_docker *d = atoll_docker_of(p);
    struct atoll_sync_call call = within(60000);
    struct atoll_error err = {0};
    char source[128], deletion[160];

    (void)state;
    d->config.volumes = 2;
    has_volume(d, "alpha");
    mount_data(d, source);
    assert_string_equal(source, existing);
    assert_int_equal(fake_asked(h, "/volumes/create"), 0);
    assert_int_equal(p->ops->drop_volume(p, &call, "alpha", "data", &err), 0);
    (void)snprintf(deletion, sizeof(deletion), "DELETE /v1.41/volumes/%s", existing);
    assert_int_equal(fake_asked(h, deletion), 1);
    p = p->ops->free(p);
    fake_http_free(h);
}

static void new_volumes_are_named_by_sha256(void **state)
{
    struct fake_http *h = fake_http_new(serve_one_object);
    struct atoll_sync_provider *p = provider_at(h, 0);
    struct atoll_docker *d = atoll_docker_of(p);
    char text[256], expected[128], source[128];

    (void)state;
    d->config.volumes = 2;
    (void)snprintf(text, sizeof(text), "%s/alpha/data", d->daemon_id);
    hash(EVP_sha256(), "atoll-volume-", text, expected);
    existing[0] = '\0';
    mount_data(d, source);
    assert_string_equal(source, expected);
    assert_int_equal(fake_asked(h, "/volumes/create"), 1);
    has_volume(d, "beta"); /* the former name, with another tenant's label */
    mount_data(d, source);
    assert_string_equal(source, expected);
    p = p->ops->free(p);
    fake_http_free(h);
}

static void private_images_keep_their_former_names(void **state)
{
    static const struct atoll_registry_login login = {"me", "secret"};
    struct fake_http *h = fake_http_new(serve_one_object);
    struct atoll_sync_provider *p = provider_at(h, 0);
    struct atoll_sync_call call = within(60000);
    struct atoll_spec spec = spec_of("alpha", &login);
    struct atoll_docker_image image = {0};
    struct atoll_error err = {0};
    char tag[128];

    (void)state;
    hash(EVP_sha1(), "atoll-private:", "alpha/" IMAGE, existing);
    (void)snprintf(answer, sizeof(answer), "{\"Id\":\"sha256:1\",\"Config\":{}}");
    assert_int_equal(atoll_docker_image_get(atoll_docker_of(p), &call, &spec, &image, &err), 0);
    assert_string_equal(image.id, "sha256:1");
    assert_int_equal(fake_asked(h, "/images/create"), 0);
    existing[0] = '\0';
    assert_true(atoll_docker_image_get(atoll_docker_of(p), &call, &spec, &image, &err) < 0);
    hash(EVP_sha256(), "/tag?repo=atoll-private&tag=", "alpha/" IMAGE, tag);
    assert_int_equal(fake_asked(h, tag), 1);
    p = p->ops->free(p);
    fake_http_free(h);
}

/* Giving up. */

static void serve_build(struct fake_request *q)
{
    if (serve_basics(q))
        return;
    (void)usleep(100 *
                 1000); /* most likely it waits for the context by then; it is right without that */
    cancel();
    say_nothing(q);
}

/* Its context does not come either. */
static void a_build_can_be_given_up(void **state)
{
    struct fake_http *h = fake_http_new(serve_build);
    struct atoll_sync_provider *p = provider_at(h, 0);
    struct atoll_sync_call call = within(60000);
    struct atoll_provider_build build = {.image = "x:1", .dockerfile = "Dockerfile"};
    struct atoll_provider_image made;
    struct atoll_error err = {0};
    int context[2];

    (void)state;
    assert_int_equal(pipe2(context, O_CLOEXEC), 0);
    build.context_fd = context[0];
    (void)alarm(60); /* it would wait for ever */
    assert_true(p->ops->build(p, &call, &build, &made, &err) < 0);
    (void)alarm(0);
    assert_int_equal(err.kind, ATOLL_ERR_ABORTED);
    (void)close(context[0]);
    (void)close(context[1]);
    p = p->ops->free(p);
    fake_http_free(h);
}

static void serve_silence(struct fake_request *q)
{
    if (is(q, "GET", "/containers/json"))
        say_nothing(q);
    else
        (void)serve_basics(q);
}

/* What one has begun and others wait for does not keep those from giving up. */
static void who_waits_for_another_can_be_cancelled(void **state)
{
    struct fake_http *h = fake_http_new(serve_silence);
    struct other beta = {.provider = provider_at(h, 0)};
    struct atoll_sync_provider *p = beta.provider;
    struct atoll_sync_call call = within(60000);
    struct atoll_spec spec = spec_of("alpha", NULL);
    struct atoll_error err = {0};
    int fd;

    (void)state;
    assert_int_equal(pthread_create(&beta.thread, NULL, create_as_beta, &beta), 0);
    await_asked(h, "GET /v1.41/containers/json");
    call.cancel_fd = eventfd(1, EFD_CLOEXEC);
    assert_true(p->ops->create(p, &call, &spec, &fd, &err) < 0);
    assert_int_equal(err.kind, ATOLL_ERR_ABORTED);
    assert_false(beta.ended);
    cancel();
    assert_int_equal(pthread_join(beta.thread, NULL), 0);
    (void)close(call.cancel_fd);
    p = p->ops->free(p);
    fake_http_free(h);
}

static void serve_upload(struct fake_request *q)
{
    if (serve_basics(q))
        return;
    if (is(q, "GET", "/images/")) {
        fake_reply(q, 200, "", "{\"Id\":\"sha256:1\",\"Config\":{}}");
    } else if (is(q, "POST", "/containers/create")) {
        fake_reply(q, 201, "", "{\"Id\":\"helper\"}");
    } else if (is(q, "PUT", "/archive")) {
        cancel();
        say_nothing(q);
    } else {
        fake_reply(q, 204, "", "");
    }
}

/* The container that our agent is sent through goes, wanted or not. */
static void no_helper_is_left(void **state)
{
    struct fake_http *h = fake_http_new(serve_upload);
    struct atoll_sync_provider *p = provider_at(h, 0);
    struct atoll_sync_call call = within(60000);
    struct atoll_spec spec = spec_of("alpha", NULL);
    struct atoll_error err = {0};
    int fd;

    (void)state;
    assert_true(p->ops->create(p, &call, &spec, &fd, &err) < 0);
    assert_int_equal(err.kind, ATOLL_ERR_ABORTED);
    assert_int_equal(fake_asked(h, "DELETE /v1.41/containers/helper"), 1);
    p = p->ops->free(p);
    fake_http_free(h);
}

static void serve_removing(struct fake_request *q)
{
    if (!serve_basics(q))
        fake_reply(q, 409, "", "{\"message\":\"removal is already in progress\"}");
}

static void a_removal_that_does_not_end_is_called_so(void **state)
{
    struct fake_http *h = fake_http_new(serve_removing);
    struct atoll_sync_provider *p = provider_at(h, 0);
    struct atoll_sync_call call = within(500);
    struct atoll_spec spec = spec_of("alpha", NULL);
    struct atoll_error err = {0};

    (void)state;
    assert_true(p->ops->destroy(p, &call, &spec, &err) < 0);
    assert_int_equal(err.kind, ATOLL_ERR_DEADLINE_EXCEEDED);
    assert_null(strstr(err.text, "agent"));
    p = p->ops->free(p);
    fake_http_free(h);
}

/* Whoever frees a provider is the loop: the thread that fills the pool does not keep it waiting. */
static void a_pool_ends_at_once(void **state)
{
    struct fake_http *h = fake_http_new(serve_silence);
    struct atoll_sync_provider *p = provider_at(h, 1);

    (void)state;
    await_asked(h, "GET /v1.41/containers/json");
    p = p->ops->free(p);
    fake_http_free(h);
    assert_false(waited_on);
}

static int set_up(void **state)
{
    (void)state;
    waited_on = false;
    cancel_fd = eventfd(0, EFD_CLOEXEC);
    return cancel_fd < 0;
}

static int tear_down(void **state)
{
    (void)state;
    return close(cancel_fd);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_private_pull_that_is_given_up_leaves_nothing),
        TEST(a_private_image_is_nobody_elses_while_it_has_its_name),
        TEST(volumes_keep_their_former_names),
        TEST(new_volumes_are_named_by_sha256),
        TEST(private_images_keep_their_former_names),
        TEST(a_build_can_be_given_up),
        TEST(who_waits_for_another_can_be_cancelled),
        TEST(no_helper_is_left),
        TEST(a_removal_that_does_not_end_is_called_so),
        TEST(a_pool_ends_at_once),
    };
    char command[256];
    int r;

    (void)snprintf(state_dir, sizeof(state_dir), "/tmp/atoll-test-XXXXXX");
    if (!mkdtemp(state_dir))
        return 1;
    (void)snprintf(libexec_dir, sizeof(libexec_dir), "%s/bin", state_dir);
    (void)snprintf(command, sizeof(command), "mkdir %s && echo agent >%s/atoll-agent", libexec_dir,
                   libexec_dir);
    if (system(command) != 0)
        return 1;
    (void)sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
    r = cmocka_run_group_tests(tests, NULL, NULL);
    (void)snprintf(command, sizeof(command), "rm -r %s", state_dir);
    return system(command) == 0 ? r : 1;
}
