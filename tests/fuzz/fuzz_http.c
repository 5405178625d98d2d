/*
 * Bytes of a hostile client against a live connection. The first byte says in which pieces they
 * arrive.
 */
#include "fuzz_handlers.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct atoll_http_limits limits = {
        .header_bytes = 2048, .header_count = 20, .target_bytes = 512};
    struct world w = {0};
    int pair[2];
    size_t piece;

    if (size < 1)
        return 0;
    piece = data[0] == 0 ? size : data[0];
    FUZZ_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0);
    FUZZ_CHECK(atoll_loop_new(&w.loop, NULL) == 0);
    FUZZ_CHECK(atoll_http_server_new(w.loop, &limits, on_request, &w, &w.server, NULL) == 0);
    FUZZ_CHECK(atoll_http_server_adopt(w.server, pair[0], NULL) == 0);
    for (size_t at = 1; at < size; at += piece) {
        size_t n = size - at < piece ? size - at : piece;
        if (send(pair[1], data + at, n, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
            break;
        turn(&w, pair[1]);
    }
    turn(&w, pair[1]);
    (void)close(pair[1]);
    FUZZ_CHECK(atoll_loop_step(w.loop, 0, NULL) == 0);
    FUZZ_CHECK(atoll_loop_step(w.loop, 0, NULL) == 0);
    (void)atoll_http_server_free(w.server);
    FUZZ_CHECK(w.begun == w.ended); /* each request ends exactly once */
    (void)atoll_ws_free(w.ws);
    (void)atoll_loop_free(w.loop);
    return 0;
}
