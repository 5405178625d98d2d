#include "base/rand.h"

#include <errno.h>
#include <stdio.h>
#include <sys/random.h>

void atoll_rand_bytes(void *buf, size_t n)
{
    uint8_t *p = buf;

    while (n > 0) {
        ssize_t got = getrandom(p, n, 0);
        if (got < 0) {
            if (errno == EINTR)
                continue;
            abort();
        }
        p += got;
        n -= (size_t)got;
    }
}

void atoll_rand_id(char *buf, size_t n)
{
    static const char alphabet[] = "abcdefghijklmnopqrstuvwxyz0123456789";
    size_t i = 0;

    while (i < n) {
        uint8_t bytes[64];
        atoll_rand_bytes(bytes, sizeof(bytes));
        for (size_t k = 0; k < sizeof(bytes) && i < n; k++)
            if (bytes[k] < 252) /* 7 * 36: drop the rest so that every letter is equally likely */
                buf[i++] = alphabet[bytes[k] % 36];
    }
    buf[n] = '\0';
}

void atoll_rand_uuid(char *buf)
{
    uint8_t u[16];

    atoll_rand_bytes(u, sizeof(u));
    (void)snprintf(buf, ATOLL_UUID_LEN + 1,
                   "%02x%02x%02x%02x-%02x%02x-4%x%02x-8%x%02x-%02x%02x%02x%02x%02x%02x", u[0], u[1],
                   u[2], u[3], u[4], u[5], u[6] & 15u, u[7], u[8] & 15u, u[9], u[10], u[11], u[12],
                   u[13], u[14], u[15]);
}
