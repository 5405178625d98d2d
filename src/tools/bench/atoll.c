/*
 * Measures Atoll through its API over one connection: creating and destroying sandboxes, commands in a
 * running sandbox, many sandboxes at once, and the memory of idle ones.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/clock.h"
#include "tools/bench/bench.h"

#define AT_A_TIME 8
#define RATE_EACH 25 /* sandboxes that each of those creates and destroys */
#define RATE_EACH_QUICK 5
#define IDLE 200 /* sandboxes whose memory is measured */
#define IDLE_QUICK 60
#define SETTLE_LOOKS 10 /* readings, one per second, at most */
#define SETTLED_KB 1024

/* Not the disk size of pooled sandboxes, so such a sandbox never comes from the pool. */
#define COLD_DISK_MB 255

/* Attempts to get a pooled sandbox, and the wait before each: the pool is filled in the background. */
#define POOL_TRIES 20
#define POOL_WAIT_US 50000

static json_t *options(const struct atoll_bench_subject *s)
{
    json_t *request = json_object();

    if (s->provider && request)
        (void)json_object_set_new(request, "provider", json_string(s->provider));
    if (s->cold && request)
        (void)json_object_set_new(request, "limits", json_pack("{s:i}", "diskMB", COLD_DISK_MB));
    return request;
}

static int destroy(struct atoll_client *client, const char *id, struct atoll_error *err)
{
    struct atoll_link_target target;
    int r = atoll_link_target(&target, err, "/api/sandboxes/%s", id);

    return r < 0 ? r : atoll_link_call(client, "DELETE", target.text, NULL, NULL, err);
}

static int create(struct atoll_client *client, const struct atoll_bench_subject *s, char *id,
                  size_t size, struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *request = options(s);
    ATOLL_AUTOJSON json_t *reply = NULL;
    int r = atoll_link_call(client, "POST", "/api/sandboxes", request, &reply, err);

    if (r < 0)
        return r;
    (void)snprintf(id, size, "%s", atoll_link_text(reply, "id", ""));
    if (!s->pooled || json_is_true(json_object_get(reply, "pooled")))
        return 0;
    (void)!destroy(client, id, err);
    return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EAGAIN,
                      "no sandbox was ready; start the daemon with --pool 8");
}

static int check_end(const json_t *reply, struct atoll_error *err)
{
    const json_t *result = json_object_get(reply, "result");

    if (strcmp(atoll_link_text(result, "kind", ""), "exited") == 0 &&
        atoll_link_number(result, "exit_code", -1) == 0)
        return 0;
    return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, 0, "`true` did not exit with 0");
}

static int exec_true(struct atoll_client *client, const char *id, struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *request = json_pack("{s:[s]}", "cmd", "true");
    ATOLL_AUTOJSON json_t *reply = NULL;
    struct atoll_link_target target;
    int r = atoll_link_target(&target, err, "/api/sandboxes/%s/execs?wait=true", id);

    if (r == 0)
        r = atoll_link_call(client, "POST", target.text, request, &reply, err);
    return r < 0 ? r : check_end(reply, err);
}

static int live(struct atoll_client *client, struct atoll_bench_subject *s, struct atoll_error *err)
{
    struct atoll_error ignored;
    char id[64];
    int r = create(client, s, id, sizeof(id), err);

    if (r < 0)
        return r;
    r = exec_true(client, id, err);
    if (r < 0)
        (void)!destroy(client, id, &ignored);
    return r < 0 ? r : destroy(client, id, err);
}

/* Waits until the pool has a sandbox. */
static int pool_open(struct atoll_bench *b, struct atoll_bench_subject *s, struct atoll_error *err)
{
    int r = -EAGAIN;

    for (int i = 0; i < POOL_TRIES && r == -EAGAIN; i++) {
        (void)usleep(POOL_WAIT_US);
        r = live(b->client, s, err);
    }
    return r;
}

static int start_round(struct atoll_bench *b, struct atoll_bench_subject *s, double *ret_sample,
                       struct atoll_error *err)
{
    int64_t begun = atoll_clock_us();
    int r = live(b->client, s, err);

    *ret_sample = (double)(atoll_clock_us() - begun) / 1e3;
    return r;
}

/* A running sandbox for commands, files and previews. */

int atoll_bench_stay_open(struct atoll_bench *b, struct atoll_bench_subject *s,
                          struct atoll_error *err)
{
    return create(b->client, s, s->id, sizeof(s->id), err);
}

void atoll_bench_stay_close(struct atoll_bench *b, struct atoll_bench_subject *s)
{
    struct atoll_error err;

    if (*s->id)
        (void)!destroy(b->client, s->id, &err);
}

static int exec_round(struct atoll_bench *b, struct atoll_bench_subject *s, double *ret_sample,
                      struct atoll_error *err)
{
    int64_t begun = atoll_clock_us();
    int r = exec_true(b->client, s->id, err);

    *ret_sample = (double)(atoll_clock_us() - begun) / 1e3;
    return r;
}

/* Many sandboxes at once. */

struct worker {
    pthread_t thread;
    struct atoll_bench *bench;
    struct atoll_bench_subject *subject;
    unsigned lives;
    int result;
    struct atoll_error error;
};

static void *work(void *arg)
{
    struct worker *w = arg;
    struct atoll_client *client = NULL;

    w->result = atoll_link_open(w->bench->options, &client, &w->error);
    for (unsigned i = 0; i < w->lives && w->result == 0; i++)
        w->result = w->subject->argv[0] ? atoll_bench_command(w->subject->argv, &w->error)
                                        : live(client, w->subject, &w->error);
    if (client)
        atoll_client_close(client);
    return NULL;
}

int atoll_bench_rate_round(struct atoll_bench *b, struct atoll_bench_subject *s, double *ret_sample,
                           struct atoll_error *err)
{
    struct worker workers[AT_A_TIME];
    int64_t begun = atoll_clock_us();
    unsigned started = 0;
    int r = 0;

    for (; started < AT_A_TIME && r == 0; started++) {
        workers[started] = (struct worker){
            .bench = b, .subject = s, .lives = b->quick ? RATE_EACH_QUICK : RATE_EACH};
        r = -pthread_create(&workers[started].thread, NULL, work, &workers[started]);
    }
    if (r < 0) {
        started--;
        r = atoll_fail_errno(err, -r, "thread");
    }
    for (unsigned i = 0; i < started; i++) {
        (void)pthread_join(workers[i].thread, NULL);
        if (workers[i].result < 0 && r == 0) {
            *err = workers[i].error;
            r = workers[i].result;
        }
    }
    *ret_sample = (double)(started * workers[0].lives) * 1e6 / (double)(atoll_clock_us() - begun);
    return r;
}

/* Idle sandboxes. */

static long available_kb(void)
{
    char line[128];
    long kb = 0;
    FILE *f = fopen("/proc/meminfo", "re");

    while (f && fgets(line, sizeof(line), f))
        if (sscanf(line, "MemAvailable: %ld kB", &kb) == 1)
            break;
    if (f)
        (void)fclose(f);
    return kb;
}

/* Waits until MemAvailable is stable: the kernel updates its counters about once a second. */
long atoll_bench_settled_kb(void)
{
    long last = available_kb();

    for (int i = 0; i < SETTLE_LOOKS; i++) {
        (void)sleep(1);
        long now = available_kb(), moved = labs(now - last);
        last = now;
        if (moved < SETTLED_KB)
            break;
    }
    return last;
}

static int make_idle(struct atoll_bench *b, struct atoll_bench_subject *s, char (*ids)[64],
                     unsigned count, unsigned *ret_made, struct atoll_error *err)
{
    int r = 0;

    for (*ret_made = 0; *ret_made < count && r == 0; *ret_made += r == 0)
        r = create(b->client, s, ids[*ret_made], sizeof(ids[0]), err);
    return r;
}

static int memory_round(struct atoll_bench *b, struct atoll_bench_subject *s, double *ret_sample,
                        struct atoll_error *err)
{
    static char ids[IDLE][64];
    unsigned count = b->quick ? IDLE_QUICK : IDLE, made;
    struct atoll_error ignored;
    long before, after;
    int r;

    /* Warms up slabs and page cache, which the first sandbox fills. */
    r = live(b->client, s, err);
    if (r < 0)
        return r;
    before = atoll_bench_settled_kb();
    r = make_idle(b, s, ids, count, &made, err);
    after = r == 0 ? atoll_bench_settled_kb() : before;
    while (made > 0)
        (void)!destroy(b->client, ids[--made], &ignored);
    if (r < 0)
        return r;
    if (before <= after)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, 0,
                          "the free memory of this machine changes too much by itself");
    *ret_sample = (double)(before - after) * 1024 / 1e6 / count;
    return 0;
}

/* The subjects. */

static void enter_provider(struct atoll_bench *b, const char *provider, const char *tier)
{
    char name[40];
    struct atoll_bench_subject *s;

    (void)snprintf(name, sizeof(name), "atoll on %s", provider);
    s = atoll_bench_enter(b, ATOLL_BENCH_START, tier, name);
    if (s) {
        s->provider = provider;
        s->round = start_round;
    }
    s = atoll_bench_enter(b, ATOLL_BENCH_EXEC, tier, name);
    if (s) {
        s->provider = provider;
        s->open = atoll_bench_stay_open;
        s->round = exec_round;
        s->close = atoll_bench_stay_close;
    }
}

static void enter_others_of_ours(struct atoll_bench *b)
{
    ATOLL_AUTOJSON json_t *reply = NULL;
    struct atoll_error err;
    size_t i;
    json_t *one;

    if (atoll_link_call(b->client, "GET", "/api/providers", NULL, &reply, &err) < 0)
        return;
    json_array_foreach(json_object_get(reply, "providers"), i, one)
    {
        const char *name = atoll_link_text(one, "name", "");
        if (strcmp(name, "docker") == 0)
            enter_provider(b, "docker", ATOLL_TIER_FILTERED);
        if (strcmp(name, "gvisor") == 0)
            enter_provider(b, "gvisor", ATOLL_TIER_KERNEL);
    }
}

static void enter_run(struct atoll_bench *b)
{
    char *argv[] = {(char *)(uintptr_t)b->program, "run", "--", "true", NULL};
    struct atoll_bench_subject *s =
        atoll_bench_enter(b, ATOLL_BENCH_START, ATOLL_TIER_NATIVE, "atoll run");

    if (!s)
        return;
    memcpy(s->argv, argv, sizeof(argv));
    s->round = atoll_bench_timed_command;
}

void atoll_bench_enter_atoll(struct atoll_bench *b)
{
    static const struct {
        int measure;
        const char *name;
        bool cold, stays;
        int (*round)(struct atoll_bench *b, struct atoll_bench_subject *s, double *ret_sample,
                     struct atoll_error *err);
    } ours[] = {
        {ATOLL_BENCH_START, "atoll, pooled", false, false, start_round},
        {ATOLL_BENCH_START, "atoll, cold", true, false, start_round},
        {ATOLL_BENCH_EXEC, "atoll", false, true, exec_round},
        {ATOLL_BENCH_RATE, "atoll, cold", true, false, atoll_bench_rate_round},
        {ATOLL_BENCH_MEMORY, "atoll", true, false, memory_round},
    };

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(ours); i++) {
        struct atoll_bench_subject *s =
            atoll_bench_enter(b, ours[i].measure, ATOLL_TIER_NATIVE, ours[i].name);
        if (!s)
            continue;
        s->provider = "native";
        s->cold = ours[i].cold;
        s->round = ours[i].round;
        s->pooled = ours[i].measure == ATOLL_BENCH_START && !ours[i].cold;
        s->open = ours[i].stays ? atoll_bench_stay_open : s->pooled ? pool_open : NULL;
        s->close = ours[i].stays ? atoll_bench_stay_close : NULL;
    }
    enter_run(b);
    enter_others_of_ours(b);
}
