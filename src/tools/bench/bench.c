#include "tools/bench/bench.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/clock.h"

/* Pause between samples, so that the kernel finishes the cleanup of the last one. */
#define SETTLE_US 20000

const struct atoll_bench_measure atoll_bench_measures[ATOLL_BENCH_MEASURES] = {
    [ATOLL_BENCH_START] = {"start", "create a sandbox, run `true`, destroy it", "ms", false, 40, 8},
    [ATOLL_BENCH_EXEC] = {"exec", "`true` in a running sandbox", "ms", false, 60, 10},
    [ATOLL_BENCH_RATE] = {"rate", "create, run `true`, destroy: 8 at a time", "/s", true, 3, 1},
    [ATOLL_BENCH_MEMORY] = {"memory", "memory of an idle sandbox", "MB", false, 1, 1},
    [ATOLL_BENCH_UPLOAD] = {"upload", "a file of 64 MiB into a sandbox", "MB/s", true, 8, 2},
    [ATOLL_BENCH_DOWNLOAD] = {"download", "a file of 64 MiB out of a sandbox", "MB/s", true, 8, 2},
    [ATOLL_BENCH_PREVIEW] = {"preview", "a request to a server inside", "ms", false, 200, 40},
    [ATOLL_BENCH_CODE] = {"code", "1+1 in Python", "ms", false, 60, 10},
};

struct atoll_bench_subject *atoll_bench_enter(struct atoll_bench *b, int measure, const char *tier,
                                              const char *name)
{
    const struct atoll_bench_measure *m = &atoll_bench_measures[measure];
    struct atoll_bench_subject *s;

    if ((b->only && strcmp(b->only, m->id) != 0) || b->count >= ATOLL_BENCH_SUBJECTS_MAX)
        return NULL;
    s = &b->subjects[b->count++];
    *s = (struct atoll_bench_subject){.measure = m, .tier = tier};
    (void)snprintf(s->name, sizeof(s->name), "%s", name);
    return s;
}

int atoll_bench_command(char *const *argv, struct atoll_error *err)
{
    extern char **environ;
    posix_spawn_file_actions_t actions;
    int status, r;
    pid_t pid;

    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    (void)posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    (void)posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
    r = posix_spawnp(&pid, argv[0], &actions, NULL, argv, environ);
    (void)posix_spawn_file_actions_destroy(&actions);
    if (r != 0)
        return atoll_fail(err, ATOLL_ERR_NOT_FOUND, r, "%s is not installed", argv[0]);
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return atoll_fail_errno(err, errno, "wait for %s", argv[0]);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, 0, "`%s %s …` failed with status %d",
                          argv[0], argv[1] ? argv[1] : "",
                          WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    return 0;
}

int atoll_bench_timed_command(struct atoll_bench *b ATOLL_UNUSED, struct atoll_bench_subject *s,
                              double *ret_sample, struct atoll_error *err)
{
    int64_t begun = atoll_clock_us();
    int r = atoll_bench_command(s->argv, err);

    *ret_sample = (double)(atoll_clock_us() - begun) / 1e3;
    return r;
}

static void take_out(struct atoll_bench_subject *s, const struct atoll_error *err)
{
    (void)snprintf(s->problem, sizeof(s->problem), "%s", err->text);
    s->count = 0;
}

static void shuffle(struct atoll_bench_subject **list, size_t n, unsigned *seed)
{
    for (size_t i = n; i > 1; i--) {
        size_t j = (size_t)rand_r(seed) % i;
        struct atoll_bench_subject *swap = list[i - 1];
        list[i - 1] = list[j];
        list[j] = swap;
    }
}

/* Measures all subjects of one measure in turns. */
static void take_turns(struct atoll_bench *b, const struct atoll_bench_measure *m)
{
    struct atoll_bench_subject *running[ATOLL_BENCH_SUBJECTS_MAX];
    unsigned rounds = b->quick ? m->quick_rounds : m->rounds, seed = 1;
    struct atoll_error err;
    size_t n = 0;
    double sample;

    for (size_t i = 0; i < b->count; i++) {
        struct atoll_bench_subject *s = &b->subjects[i];
        if (s->measure != m)
            continue;
        if (b->progress)
            b->progress(s->name);
        /* A first round to warm up caches and lazy setup. Measures with few rounds do that themselves. */
        if ((s->open && s->open(b, s, &err) < 0) ||
            (rounds > 3 && s->round(b, s, &sample, &err) < 0))
            take_out(s, &err);
        else
            running[n++] = s;
    }
    for (unsigned turn = 0; turn < rounds; turn++) {
        shuffle(running, n, &seed);
        for (size_t i = 0; i < n; i++) {
            struct atoll_bench_subject *s = running[i];
            if (*s->problem)
                continue;
            if (b->progress)
                b->progress(s->name);
            if (s->round(b, s, &sample, &err) < 0)
                take_out(s, &err);
            else if (s->count < ATOLL_BENCH_SAMPLES_MAX)
                s->samples[s->count++] = sample;
            (void)usleep(SETTLE_US);
        }
    }
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int check_only(const struct atoll_bench *b, struct atoll_error *err)
{
    char names[160] = "";

    for (size_t i = 0; i < ATOLL_BENCH_MEASURES; i++) {
        size_t len = strlen(names);
        if (!b->only || strcmp(b->only, atoll_bench_measures[i].id) == 0)
            return 0;
        (void)snprintf(names + len, sizeof(names) - len, "%s%s", len ? ", " : "",
                       atoll_bench_measures[i].id);
    }
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                      "there is no measure \"%s\"; known are %s", b->only, names);
}

int atoll_bench_run(struct atoll_bench *b, struct atoll_error *err)
{
    int r = check_only(b, err);

    if (r == 0)
        r = atoll_link_call(b->client, "GET", "/api/providers", NULL, NULL, err);
    if (r < 0)
        return r;
    b->subjects = calloc(ATOLL_BENCH_SUBJECTS_MAX, sizeof(*b->subjects));
    if (!b->subjects)
        return atoll_fail_errno(err, ENOMEM, "subjects");
    atoll_bench_enter_atoll(b);
    atoll_bench_enter_traffic(b);
    atoll_bench_enter_others(b);
    atoll_bench_enter_docker(b);
    for (size_t i = 0; i < ATOLL_BENCH_MEASURES; i++)
        take_turns(b, &atoll_bench_measures[i]);
    for (size_t i = 0; i < b->count; i++) {
        struct atoll_bench_subject *s = &b->subjects[i];
        if (s->close)
            s->close(b, s);
        qsort(s->samples, s->count, sizeof(s->samples[0]), by_size);
    }
    return 0;
}

void atoll_bench_done(struct atoll_bench *b)
{
    free(b->subjects);
    b->subjects = NULL;
    b->count = 0;
}

double atoll_bench_percentile(const struct atoll_bench_subject *s, unsigned percent)
{
    size_t rank = (s->count * percent + 99) / 100;
    return s->count == 0 ? 0 : s->samples[rank > 0 ? rank - 1 : 0];
}
