/*
 * Measures Docker through its command line, with an empty image: the host's /usr is mounted, as for the
 * other subjects. This is the best case for Docker, because no layers are unpacked.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/clock.h"
#include "tools/bench/bench.h"

#define IMAGE "atoll-bench:1"
#define IDLE 10 /* containers whose memory is measured */

static int make_image(struct atoll_bench *b, struct atoll_error *err)
{
    static bool made;
    const char *root = atoll_bench_root(b, err);
    char *version[] = {"docker", "version", NULL};
    char *import[] = {"sh",
                      "-c",
                      "tar -C \"$1\" -c . | docker import - " IMAGE,
                      "import",
                      (char *)(uintptr_t)root,
                      NULL};
    int r = root ? atoll_bench_command(version, err) : -err->errnum;

    if (r < 0 && err->kind == ATOLL_ERR_FAILED_PRECONDITION)
        return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, 0, "no engine answers `docker version`");
    if (r == 0 && !made)
        r = atoll_bench_command(import, err);
    made = made || r == 0;
    return r;
}

static const char *const run_words[] = {"docker", "run",      "--network",
                                        "none",   "--volume", "/usr:/usr:ro"};

/* Makes the command line of `docker run` with our options, then `words`. */
static void compose(char **argv, const char *const *words)
{
    size_t n = 0;

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(run_words); i++)
        argv[n++] = (char *)(uintptr_t)run_words[i];
    while (*words)
        argv[n++] = (char *)(uintptr_t)*words++;
    argv[n] = NULL;
}

static int once_open(struct atoll_bench *b, struct atoll_bench_subject *s, struct atoll_error *err)
{
    static const char *const words[] = {"--rm", IMAGE, "/usr/bin/true", NULL};

    compose(s->argv, words);
    return make_image(b, err);
}

static int start_container(const char *name, struct atoll_error *err)
{
    const char *const words[] = {"--detach",       "--name",   name, IMAGE,
                                 "/usr/bin/sleep", "infinity", NULL};
    char *argv[24];

    compose(argv, words);
    return atoll_bench_command(argv, err);
}

static void remove_container(const char *name)
{
    char *argv[] = {"docker", "rm", "--force", (char *)(uintptr_t)name, NULL};
    struct atoll_error err;

    (void)!atoll_bench_command(argv, &err);
}

static int stay_open(struct atoll_bench *b, struct atoll_bench_subject *s, struct atoll_error *err)
{
    char *argv[] = {"docker", "exec", s->id, "/usr/bin/true", NULL};
    int r = make_image(b, err);

    if (r < 0)
        return r;
    (void)snprintf(s->id, sizeof(s->id), "atoll-bench-%s-%d", s->measure->id, (int)getpid());
    memcpy(s->argv, argv, sizeof(argv));
    return start_container(s->id, err);
}

static void stay_close(struct atoll_bench *b ATOLL_UNUSED, struct atoll_bench_subject *s)
{
    if (*s->id)
        remove_container(s->id);
}

/* docker cp. */

static int make_file(struct atoll_bench *b, char *path, size_t size, struct atoll_error *err)
{
    ATOLL_AUTOCLOSE int fd = ATOLL_NO_FD;

    (void)snprintf(path, size, "%s/file", b->scratch);
    fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || posix_fallocate(fd, 0, ATOLL_BENCH_FILE_BYTES) != 0)
        return atoll_fail_errno(err, errno, "%s", path);
    return 0;
}

static int copy_round(struct atoll_bench *b, struct atoll_bench_subject *s, double *ret_sample,
                      struct atoll_error *err)
{
    bool up = s->measure == &atoll_bench_measures[ATOLL_BENCH_UPLOAD];
    char file[600], back[600], inside[128];
    int64_t begun;
    int r = make_file(b, file, sizeof(file), err);

    (void)snprintf(inside, sizeof(inside), "%s:/tmp/bench", s->id);
    (void)snprintf(back, sizeof(back), "%s/back", b->scratch);
    char *argv[] = {"docker", "cp", up ? file : inside, up ? inside : back, NULL};
    begun = atoll_clock_us();
    if (r == 0)
        r = atoll_bench_command(argv, err);
    *ret_sample = ATOLL_BENCH_FILE_BYTES / (double)(atoll_clock_us() - begun);
    return r;
}

static int copy_open(struct atoll_bench *b, struct atoll_bench_subject *s, struct atoll_error *err)
{
    char file[600], inside[128];
    char *argv[] = {"docker", "cp", file, inside, NULL};
    int r = stay_open(b, s, err);

    if (r == 0)
        r = make_file(b, file, sizeof(file), err);
    (void)snprintf(inside, sizeof(inside), "%s:/tmp/bench", s->id);
    return r < 0 ? r : atoll_bench_command(argv, err);
}

/* Idle containers. */

static int memory_round(struct atoll_bench *b ATOLL_UNUSED, struct atoll_bench_subject *s,
                        double *ret_sample, struct atoll_error *err)
{
    long before = atoll_bench_settled_kb(), after;
    char name[96];
    int r = 0, made = 0;

    for (; made < IDLE && r == 0; made += r == 0) {
        (void)snprintf(name, sizeof(name), "%s-%d", s->id, made);
        r = start_container(name, err);
    }
    after = r == 0 ? atoll_bench_settled_kb() : before;
    while (made-- > 0) {
        (void)snprintf(name, sizeof(name), "%s-%d", s->id, made);
        remove_container(name);
    }
    *ret_sample = (double)(before - after) * 1024 / 1e6 / IDLE;
    if (r == 0 && before <= after)
        r = atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, 0,
                       "the free memory of this machine changes too much by itself");
    return r;
}

void atoll_bench_enter_docker(struct atoll_bench *b)
{
    static const struct {
        int measure;
        const char *name;
        int (*open)(struct atoll_bench *b, struct atoll_bench_subject *s, struct atoll_error *err);
        int (*round)(struct atoll_bench *b, struct atoll_bench_subject *s, double *ret_sample,
                     struct atoll_error *err);
        void (*close)(struct atoll_bench *b, struct atoll_bench_subject *s);
    } ways[] = {
        {ATOLL_BENCH_START, "docker run", once_open, atoll_bench_timed_command, NULL},
        {ATOLL_BENCH_EXEC, "docker exec", stay_open, atoll_bench_timed_command, stay_close},
        {ATOLL_BENCH_RATE, "docker run", once_open, atoll_bench_rate_round, NULL},
        {ATOLL_BENCH_MEMORY, "docker", stay_open, memory_round, stay_close},
        {ATOLL_BENCH_UPLOAD, "docker cp", copy_open, copy_round, stay_close},
        {ATOLL_BENCH_DOWNLOAD, "docker cp", copy_open, copy_round, stay_close},
    };

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(ways); i++) {
        struct atoll_bench_subject *s =
            atoll_bench_enter(b, ways[i].measure, ATOLL_TIER_FILTERED, ways[i].name);
        if (!s)
            continue;
        s->open = ways[i].open;
        s->round = ways[i].round;
        s->close = ways[i].close;
    }
}
