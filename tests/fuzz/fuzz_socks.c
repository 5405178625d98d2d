/*
 * Answers of a SOCKS5 proxy. The first byte chooses what is asked for. The result does not depend on how
 * the answers are split, and the bytes after them, which are the server's, are left.
 */
#include <errno.h>
#include <string.h>
#include "egress/socks.h"
#include "fuzz.h"

struct outcome {
    int result;
    size_t left;
    struct atoll_buf out;
};

static void converse(uint8_t kind, const uint8_t *data, size_t size, size_t piece,
                     struct outcome *ret)
{
    static const struct in6_addr address = IN6ADDR_LOOPBACK_INIT;
    struct atoll_socks s = {.user = kind & 1 ? "user" : NULL,
                            .password = "password",
                            .name = kind & 2 ? NULL : "a.example",
                            .address = &address,
                            .port = 443};
    struct atoll_buf in;
    size_t at = 0;

    atoll_buf_init(&in, 4096);
    atoll_buf_init(&ret->out, 4096);
    ret->result = atoll_socks_begin(&s, &ret->out);
    FUZZ_CHECK(ret->result == 0);
    while (ret->result == 0 && at < size) {
        size_t n = ATOLL_MIN(piece, size - at);

        FUZZ_CHECK(atoll_buf_append(&in, data + at, n) == 0);
        at += n;
        ret->result = atoll_socks_feed(&s, &in, &ret->out);
    }
    FUZZ_CHECK(ret->result <= 1);
    ret->left = atoll_buf_size(&in) + size - at;
    atoll_buf_done(&in);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct outcome whole, bytes;

    if (size < 1 || size > 2048)
        return 0;
    converse(data[0], data + 1, size - 1, size, &whole);
    converse(data[0], data + 1, size - 1, 1, &bytes);
    FUZZ_CHECK(whole.result == bytes.result);
    FUZZ_CHECK(whole.result != 1 || whole.left == bytes.left);
    FUZZ_CHECK(atoll_buf_size(&whole.out) == atoll_buf_size(&bytes.out));
    FUZZ_CHECK(memcmp(atoll_buf_head(&whole.out), atoll_buf_head(&bytes.out),
                      atoll_buf_size(&whole.out)) == 0);
    atoll_buf_done(&whole.out);
    atoll_buf_done(&bytes.out);
    return 0;
}
