/*
 * The round protocol of the helpers, see rounds.h. Text lines on purpose: a helper can be tried by
 * hand with `echo 5 | helper ...`.
 */
#include "rounds.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define ROUNDS_MAX 100000 /* per request */

static volatile sig_atomic_t stopped;

static void on_signal(int sig)
{
    (void)sig;
    stopped = 1;
}

void atoll_rounds_catch_signals(void)
{
    struct sigaction sa = {.sa_handler = on_signal}; /* no SA_RESTART: a blocked read must return */
    (void)sigaction(SIGINT, &sa, NULL);
    (void)sigaction(SIGTERM, &sa, NULL);
}

bool atoll_rounds_stopped(void)
{
    return stopped != 0;
}

double atoll_rounds_now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

int atoll_rounds_report(const struct atoll_error *err)
{
    printf("error %s\n", err->text);
    (void)fflush(stdout);
    return EXIT_FAILURE;
}

static int run_batch(long count, atoll_rounds_fn round, void *ctx, struct atoll_error *err)
{
    for (long i = 0; i < count && !stopped; i++) {
        double ms = 0;
        int r = round(ctx, &ms, err);
        if (r < 0)
            return r;
        printf("%.4f\n", ms);
    }
    (void)fflush(stdout);
    return 0;
}

int atoll_rounds_serve(const char *hello, atoll_rounds_fn round, void *ctx)
{
    printf("ready %s\n", hello);
    (void)fflush(stdout);

    char line[64];
    while (!stopped && fgets(line, sizeof(line), stdin)) {
        struct atoll_error err = {0};
        char *end;
        long count = strtol(line, &end, 10);
        int r;
        if (end == line || count < 1 || count > ROUNDS_MAX)
            r = atoll_fail(&err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                           "expected a number of rounds from 1 to %d", ROUNDS_MAX);
        else
            r = run_batch(count, round, ctx, &err);
        if (r < 0) {
            (void)atoll_rounds_report(&err);
            return r;
        }
    }
    return 0;
}
