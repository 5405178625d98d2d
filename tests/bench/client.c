/*
 * The client that times the daemon. `client --socket PATH MODE` with MODE
 *     life   create, exec /usr/bin/true, destroy: three requests
 *     run    the same in one request
 *     exec   /usr/bin/true in a sandbox that is already running
 * serves rounds (rounds.h) on one kept connection; `fleet` is in client_fleet.c.
 */
#include "client_api.h"
#include "rounds.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct session {
    struct atoll_http http;
    char id[ATOLL_CLIENT_ID_MAX]; /* mode exec: the running sandbox */
};

static int round_life(void *ctx, double *ret_ms, struct atoll_error *err)
{
    struct session *s = ctx;
    char id[ATOLL_CLIENT_ID_MAX];
    double start = atoll_rounds_now_ms();
    int r = atoll_client_create(&s->http, id, err);
    if (r < 0)
        return r;
    r = atoll_client_exec_true(&s->http, id, err);
    struct atoll_error ignored;
    int destroyed = atoll_client_destroy(&s->http, id, r < 0 ? &ignored : err);
    *ret_ms = atoll_rounds_now_ms() - start;
    return r < 0 ? r : destroyed;
}

static int round_run(void *ctx, double *ret_ms, struct atoll_error *err)
{
    struct session *s = ctx;
    double start = atoll_rounds_now_ms();
    int r = atoll_client_run_true(&s->http, err);
    *ret_ms = atoll_rounds_now_ms() - start;
    return r;
}

static int round_exec(void *ctx, double *ret_ms, struct atoll_error *err)
{
    struct session *s = ctx;
    double start = atoll_rounds_now_ms();
    int r = atoll_client_exec_true(&s->http, s->id, err);
    *ret_ms = atoll_rounds_now_ms() - start;
    return r;
}

static const struct mode {
    const char *name;
    atoll_rounds_fn round;
    bool needs_sandbox;
} modes[] = {
    {"life", round_life, false},
    {"run", round_run, false},
    {"exec", round_exec, true},
};

static int serve_mode(const struct mode *mode, const char *socket_path, struct atoll_error *err)
{
    static struct session s; /* too large for a stack frame */
    int r = atoll_http_open(&s.http, socket_path, err);
    if (r >= 0 && mode->needs_sandbox)
        r = atoll_client_create(&s.http, s.id, err);
    if (r >= 0) {
        r = atoll_rounds_serve("", mode->round, &s); /* prints its own failure */
        struct atoll_error ignored;
        if (mode->needs_sandbox && atoll_client_destroy(&s.http, s.id, &ignored) < 0)
            fprintf(stderr, "client: left behind: %s\n", ignored.text);
    }
    atoll_http_close(&s.http);
    return r;
}

int main(int argc, char **argv)
{
    struct atoll_error err = {0};
    int r = -EINVAL;

    if (argc != 4 || strcmp(argv[1], "--socket") != 0) {
        fprintf(stderr, "usage: client --socket PATH life|run|exec|fleet\n");
        return 2;
    }
    atoll_rounds_catch_signals();
    if (strcmp(argv[3], "fleet") == 0)
        r = atoll_client_fleet(argv[2], &err);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(modes); i++) {
        if (strcmp(argv[3], modes[i].name) == 0)
            r = serve_mode(&modes[i], argv[2], &err);
    }
    if (r < 0 && err.text[0])
        return atoll_rounds_report(&err);
    return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
