/*
 * Measures bytes through the daemon: files in and out, requests to a server inside, and code for a
 * running interpreter.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/clock.h"
#include "tools/bench/bench.h"

#define PORT 8000
#define SERVER_WAIT_MS 5000
#define SERVER_LOOK_US 20000

/* A minimal HTTP server, so that the measured time is that of the daemon. */
static const char server[] =
    "import socket, sys, threading\n"
    "def serve(c):\n"
    "    c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)\n"
    "    while c.recv(65536):\n"
    "        c.sendall(b'HTTP/1.1 200 OK\\r\\ncontent-length: 2\\r\\n\\r\\nok')\n"
    "s = socket.create_server(('127.0.0.1', int(sys.argv[1])))\n"
    "while True:\n"
    "    threading.Thread(target=serve, args=(s.accept()[0],), daemon=True).start()\n";

/* Files. */

static ssize_t give(void *arg, void *buf, size_t n)
{
    uint64_t *left = arg;

    n = ATOLL_MIN(n, *left);
    memset(buf, 'x', n);
    *left -= n;
    return (ssize_t)n;
}

static int take(void *arg, const void *bytes ATOLL_UNUSED, size_t n)
{
    *(uint64_t *)arg += n;
    return 0;
}

static int transfer(struct atoll_bench *b, struct atoll_bench_subject *s, bool up,
                    double *ret_sample, struct atoll_error *err)
{
    struct atoll_http_transfer t = {.length = -1};
    struct atoll_link_target target;
    uint64_t left = ATOLL_BENCH_FILE_BYTES, got = 0;
    int r = atoll_link_target(&target, err, "/api/sandboxes/%s/files?path=/home/user/bench", s->id);
    int64_t begun = atoll_clock_us();

    if (up)
        t = (struct atoll_http_transfer){
            .read = give, .length = ATOLL_BENCH_FILE_BYTES, .arg = &left};
    else
        t = (struct atoll_http_transfer){.write = take, .length = -1, .arg = &got};
    if (r == 0)
        r = atoll_link_stream(b->client, up ? "PUT" : "GET", target.text, &t, NULL, err);
    if (r == 0 && !up && got != ATOLL_BENCH_FILE_BYTES)
        r = atoll_fail(err, ATOLL_ERR_DATA_LOSS, EIO, "%llu bytes came back of %u",
                       (unsigned long long)got, ATOLL_BENCH_FILE_BYTES);
    *ret_sample = ATOLL_BENCH_FILE_BYTES / (double)(atoll_clock_us() - begun);
    return r;
}

static int upload_round(struct atoll_bench *b, struct atoll_bench_subject *s, double *ret_sample,
                        struct atoll_error *err)
{
    return transfer(b, s, true, ret_sample, err);
}

static int download_open(struct atoll_bench *b, struct atoll_bench_subject *s,
                         struct atoll_error *err)
{
    double ignored;
    int r = atoll_bench_stay_open(b, s, err);

    return r < 0 ? r : transfer(b, s, true, &ignored, err);
}

static int download_round(struct atoll_bench *b, struct atoll_bench_subject *s, double *ret_sample,
                          struct atoll_error *err)
{
    return transfer(b, s, false, ret_sample, err);
}

/* Previews. */

static int preview_round(struct atoll_bench *b, struct atoll_bench_subject *s, double *ret_sample,
                         struct atoll_error *err)
{
    int64_t begun = atoll_clock_us();
    ATOLL_AUTOFREE char *text = NULL;
    int r = atoll_link_call_text(b->client, "GET", s->token, NULL, &text, err);

    *ret_sample = (double)(atoll_clock_us() - begun) / 1e3;
    if (r == 0 && strcmp(text, "ok") != 0)
        r = atoll_fail(err, ATOLL_ERR_DATA_LOSS, EIO, "the server inside said \"%.20s\"", text);
    return r;
}

static int wait_for_server(struct atoll_bench *b, struct atoll_bench_subject *s,
                           struct atoll_error *err)
{
    int64_t until = atoll_clock_ms() + SERVER_WAIT_MS;
    double ignored;
    int r;

    while ((r = s->round(b, s, &ignored, err)) < 0 && atoll_clock_ms() < until)
        (void)usleep(SERVER_LOOK_US);
    return r;
}

static int preview_open(struct atoll_bench *b, struct atoll_bench_subject *s,
                        struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *command =
        json_pack("{s:[s,s,s,s]}", "cmd", "python3", "-c", server, "8000");
    ATOLL_AUTOJSON json_t *preview = json_pack("{s:i,s:b}", "port", PORT, "public", 1);
    struct atoll_link_target target;
    int r = atoll_bench_stay_open(b, s, err);

    if (r == 0)
        r = atoll_link_target(&target, err, "/api/sandboxes/%s/execs", s->id);
    if (r == 0)
        r = atoll_link_call(b->client, "POST", target.text, command, NULL, err);
    if (r == 0)
        r = atoll_link_target(&target, err, "/api/sandboxes/%s/previews", s->id);
    if (r == 0)
        r = atoll_link_call(b->client, "POST", target.text, preview, NULL, err);
    (void)snprintf(s->token, sizeof(s->token), "/preview/%s/%d/", s->id, PORT);
    return r < 0 ? r : wait_for_server(b, s, err);
}

/* The same server on the host, without sandbox and proxy. */

static int free_port(void)
{
    struct sockaddr_in where = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof(where);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), port = 0;

    if (fd >= 0 && bind(fd, (struct sockaddr *)&where, sizeof(where)) == 0 &&
        getsockname(fd, (struct sockaddr *)&where, &len) == 0)
        port = ntohs(where.sin_port);
    if (fd >= 0)
        (void)close(fd);
    return port;
}

static int direct_round(struct atoll_bench *b ATOLL_UNUSED, struct atoll_bench_subject *s,
                        double *ret_sample, struct atoll_error *err)
{
    static struct atoll_http_client *client;
    struct atoll_http_reply reply;
    int64_t begun;
    int r = client ? 0 : atoll_http_client_open(s->token, &client, err);

    begun = atoll_clock_us();
    if (r == 0)
        r = atoll_http_client_request(client, "GET", "/", NULL, NULL, 0, 4096, &reply, err);
    *ret_sample = (double)(atoll_clock_us() - begun) / 1e3;
    if (r == 0)
        atoll_http_reply_done(&reply);
    return r;
}

static int direct_open(struct atoll_bench *b, struct atoll_bench_subject *s,
                       struct atoll_error *err)
{
    extern char **environ;
    char port[16];
    char *argv[] = {"/usr/bin/python3", "-c", (char *)(uintptr_t)server, port, NULL};
    int r;

    (void)snprintf(port, sizeof(port), "%d", free_port());
    (void)snprintf(s->token, sizeof(s->token), "http://127.0.0.1:%s", port);
    r = posix_spawnp(&s->pid, argv[0], NULL, NULL, argv, environ);
    if (r != 0) {
        s->pid = 0;
        return atoll_fail(err, ATOLL_ERR_NOT_FOUND, r, "python3 is not installed");
    }
    return wait_for_server(b, s, err);
}

static void direct_close(struct atoll_bench *b ATOLL_UNUSED, struct atoll_bench_subject *s)
{
    if (s->pid <= 0)
        return;
    (void)kill(s->pid, SIGKILL);
    (void)waitpid(s->pid, NULL, 0);
}

/* Code. */

static int code_round(struct atoll_bench *b, struct atoll_bench_subject *s, double *ret_sample,
                      struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *request = json_pack("{s:s}", "code", "1+1");
    ATOLL_AUTOJSON json_t *reply = NULL;
    int64_t begun = atoll_clock_us();
    int r = atoll_link_call(b->client, "POST", s->token, request, &reply, err);

    *ret_sample = (double)(atoll_clock_us() - begun) / 1e3;
    if (r == 0 && json_array_size(json_object_get(reply, "results")) != 1)
        r = atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, 0, "1+1 has no result");
    return r;
}

static int code_open(struct atoll_bench *b, struct atoll_bench_subject *s, struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *request = json_pack("{s:s}", "environment", "Python3");
    ATOLL_AUTOJSON json_t *reply = NULL;
    struct atoll_link_target target;
    int r = atoll_link_call(b->client, "POST", "/api/sessions", request, &reply, err);

    if (r < 0)
        return r;
    (void)snprintf(s->id, sizeof(s->id), "%s", atoll_link_text(reply, "sandbox_id", ""));
    r = atoll_link_target(&target, err, "/api/sessions/%s/execute",
                          atoll_link_text(reply, "session_id", ""));
    if (r == 0 &&
        (size_t)snprintf(s->token, sizeof(s->token), "%s", target.text) >= sizeof(s->token))
        r = atoll_fail(err, ATOLL_ERR_DATA_LOSS, EMSGSIZE, "the id of the session is too long");
    return r;
}

void atoll_bench_enter_traffic(struct atoll_bench *b)
{
    static const struct atoll_bench_subject ours[] = {
        {.open = atoll_bench_stay_open, .round = upload_round, .close = atoll_bench_stay_close},
        {.open = download_open, .round = download_round, .close = atoll_bench_stay_close},
        {.open = preview_open, .round = preview_round, .close = atoll_bench_stay_close},
        {.open = code_open, .round = code_round, .close = atoll_bench_stay_close},
    };
    struct atoll_bench_subject *s;

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(ours); i++) {
        s = atoll_bench_enter(b, ATOLL_BENCH_UPLOAD + (int)i, ATOLL_TIER_NATIVE, "atoll");
        if (!s)
            continue;
        s->provider = "native";
        s->open = ours[i].open;
        s->round = ours[i].round;
        s->close = ours[i].close;
    }
    s = atoll_bench_enter(b, ATOLL_BENCH_PREVIEW, ATOLL_TIER_NONE, "no sandbox, no proxy");
    if (s) {
        s->open = direct_open;
        s->round = direct_round;
        s->close = direct_close;
    }
}
