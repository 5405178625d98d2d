#pragma once
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include "base/buf.h"
#include "fuzz.h"
#include "net/http_server.h"
#include "net/websocket.h"

/*
 * What the fuzzers of HTTP/1 and HTTP/2 share: a handler that lets the path of each request choose
 * what is done with it, so that the fuzzer can reach every way a request can end.
 */
struct world {
    struct atoll_loop *loop;
    struct atoll_http_server *server;
    struct atoll_http_request *kept; /* answered later */
    bool kept_streams;
    struct atoll_ws *ws;
    size_t begun, ended; /* requests */
};

static void on_close(void *arg, struct atoll_http_request *req)
{
    struct world *w = arg;

    w->ended++;
    if (w->kept == req)
        w->kept = NULL;
}

static void respond(struct world *w, struct atoll_http_request *req, const void *bytes, size_t n)
{
    w->ended++;
    if (w->kept == req)
        w->kept = NULL;
    atoll_http_respond(req, 200, "text/plain", bytes, n);
}

static void collected(void *arg, struct atoll_http_request *req, const uint8_t *bytes, size_t n)
{
    FUZZ_CHECK(n <= 64);
    respond(arg, req, bytes, n);
}

static void on_data(void *arg, struct atoll_http_request *req, const uint8_t *bytes, size_t n)
{
    struct world *w = arg;

    FUZZ_CHECK(n > 0);
    if (bytes[0] == 'p')
        atoll_http_body_pause(req);
    if (bytes[0] == 'r')
        respond(w, req, bytes, n);
    if (bytes[0] == 'a') {
        w->ended++;
        w->kept = NULL;
        atoll_http_abort(req);
    }
}

static void on_end(void *arg, struct atoll_http_request *req)
{
    respond(arg, req, "end", 3);
}

static void on_message(void *arg, struct atoll_ws *ws, bool binary, const uint8_t *bytes, size_t n)
{
    (void)arg;
    FUZZ_CHECK(n <= 256);
    (void)!atoll_ws_send(ws, binary, bytes, n);
}

static void ws_closed(void *arg, struct atoll_ws *ws, uint16_t code)
{
    struct world *w = arg;

    FUZZ_CHECK(code >= 1000 && code < 5000);
    w->ws = atoll_ws_free(ws);
}

/* What every handler may rely on. */
static void check_request(struct atoll_http_request *req)
{
    const char *path = atoll_http_path(req), *name, *value;

    FUZZ_CHECK(path[0] == '/' || strcmp(path, "*") == 0);
    FUZZ_CHECK(!strstr(path, "/../") && !strstr(path, "/./"));
    for (size_t i = 0; atoll_http_header_at(req, i, &name, &value); i++) {
        FUZZ_CHECK(*name && !strpbrk(name, " \t\r\n:"));
        FUZZ_CHECK(!strpbrk(value, "\r\n"));
        FUZZ_CHECK(atoll_http_header(req, name));
    }
    (void)atoll_http_query(req, "a");
    FUZZ_CHECK(atoll_http_set_header(req, "X-Path", path) != -ENOMEM);
}

static void in_pieces(struct world *w, struct atoll_http_request *req)
{
    atoll_http_begin(req, 200, "text/plain", atoll_http_query(req, "l") ? 4 : -1);
    (void)!atoll_http_write(req, "some", 4);
    if (atoll_http_query(req, "l"))
        FUZZ_CHECK(atoll_http_write(req, "x", 1) == -EOVERFLOW);
    w->ended++;
    atoll_http_end(req);
}

static void upgrade(struct world *w, struct atoll_http_request *req)
{
    static const struct atoll_ws_callbacks callbacks = {on_message, NULL, ws_closed};

    if (w->ws || atoll_ws_accept(req, &callbacks, w, 256, &w->ws, NULL) < 0)
        respond(w, req, "no", 2);
    else
        w->ended++;
}

static void on_request(void *arg, struct atoll_http_request *req)
{
    struct world *w = arg;
    const char *path = atoll_http_path(req);

    w->begun++;
    check_request(req);
    atoll_http_on_close(req, on_close, w);
    switch (path[0] == '/' ? path[1] : 0) {
    case 'c':
        atoll_http_body_collect(req, 64, collected, NULL, w);
        break;
    case 's':
        atoll_http_body_stream(req, on_data, on_end, w);
        w->kept = req;
        w->kept_streams = true;
        break;
    case 'k':
        w->kept = req;
        w->kept_streams = false;
        break;
    case 'p':
        in_pieces(w, req);
        break;
    case 'w':
        upgrade(w, req);
        break;
    case 'a':
        w->ended++;
        atoll_http_abort(req);
        break;
    default:
        respond(w, req, path, strlen(path));
    }
}

/* Turns the loop, reads what the client gets, and does what was put off. */
static void turn(struct world *w, int fd)
{
    char sink[4096];

    for (int i = 0; i < 3; i++) {
        FUZZ_CHECK(atoll_loop_step(w->loop, 0, NULL) == 0);
        while (recv(fd, sink, sizeof(sink), MSG_DONTWAIT) > 0)
            ;
    }
    if (w->kept && w->kept_streams)
        atoll_http_body_resume(w->kept);
    else if (w->kept)
        respond(w, w->kept, "late", 4);
}
