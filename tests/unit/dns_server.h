#pragma once
#include <arpa/inet.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "loop/loop.h"

/*
 * A name server on 127.0.0.1 for tests, by UDP and TCP, on the loop of the test. It answers TXT questions
 * by their first label: "big" (truncated by UDP, 3000 bytes by TCP), "forged" (first an answer with
 * another id), "silent", "fails" (SERVFAIL), "nowhere" (NXDOMAIN); others with one text, "hello".
 */
struct dns_server {
    int udp, tcp, conn;
    uint16_t port;
    unsigned asked; /* questions */
    struct atoll_watch udp_watch, tcp_watch, conn_watch;
    char resolv_conf[64]; /* a file that names it */
};

static inline size_t dns_server_record(uint8_t *out, size_t texts)
{
    size_t at = 0, length = texts == 1 ? 6 : texts * 101;

    memcpy(out, "\xc0\x0c\0\x10\0\1\0\0\0\x0a", 10);
    out[10] = (uint8_t)(length >> 8);
    out[11] = (uint8_t)length;
    at = 12;
    if (texts == 1)
        memcpy(out + at, "\5hello", 6);
    for (size_t i = 0; texts > 1 && i < texts; i++) {
        out[at + i * 101] = 100;
        memset(out + at + i * 101 + 1, 'x', 100);
    }
    return at + length;
}

/* Turns the question in `m` into its answer; 0: none. */
static inline size_t dns_server_answer(struct dns_server *s, uint8_t *m, size_t n, bool tcp)
{
    const char *label = (const char *)m + 13;
    size_t end = 12;

    s->asked++;
    while (end < n && m[end])
        end += m[end] + 1u;
    end += 5;
    if (end > n || strncmp(label, "silent", 6) == 0)
        return 0;
    m[2] = 0x81;
    m[3] = 0x80;
    m[10] = m[11] = 0; /* without OPT */
    if (strncmp(label, "fails", 5) == 0 || strncmp(label, "nowhere", 7) == 0) {
        m[3] |= label[0] == 'f' ? 2 : 3;
        return end;
    }
    if (strncmp(label, "big", 3) == 0 && !tcp) {
        m[2] |= 2;
        return end;
    }
    m[7] = 1;
    return end + dns_server_record(m + end, strncmp(label, "big", 3) == 0 ? 30 : 1);
}

static inline bool dns_server_serve(struct dns_server *s)
{
    struct sockaddr_in from;
    socklen_t len = sizeof(from);
    uint8_t m[4096];
    ssize_t n = recvfrom(s->udp, m, 600, 0, (struct sockaddr *)&from, &len);
    bool forged;

    if (n < 13)
        return false;
    forged = memcmp(m + 13, "forged", 6) == 0;
    n = (ssize_t)dns_server_answer(s, m, (size_t)n, false);
    if (forged) {
        m[0] ^= 1;
        (void)!sendto(s->udp, m, (size_t)n, 0, (struct sockaddr *)&from, len);
        m[0] ^= 1;
    }
    if (n > 0)
        (void)!sendto(s->udp, m, (size_t)n, 0, (struct sockaddr *)&from, len);
    return true;
}

static inline void dns_server_on_udp(void *arg, uint32_t events)
{
    (void)events;
    while (dns_server_serve(arg))
        ;
}

static inline void dns_server_on_conn(void *arg, uint32_t events)
{
    struct dns_server *s = arg;
    uint8_t m[4096];
    ssize_t n = recv(s->conn, m, 600, 0);

    (void)events;
    if (n > 14) {
        n = (ssize_t)dns_server_answer(s, m + 2, (size_t)n - 2, true);
        m[0] = (uint8_t)(n >> 8);
        m[1] = (uint8_t)n;
        (void)!send(s->conn, m, 100, MSG_NOSIGNAL); /* in two pieces */
        (void)!send(s->conn, m + 100, (size_t)n + 2 - 100, MSG_NOSIGNAL);
        return;
    }
    atoll_watch_close(&s->conn_watch);
    (void)close(s->conn);
    s->conn = -1;
}

static inline void dns_server_on_tcp(void *arg, uint32_t events)
{
    struct dns_server *s = arg;
    int fd = accept(s->tcp, NULL, NULL);

    (void)events;
    if (s->conn >= 0) {
        (void)close(fd);
        return;
    }
    s->conn = fd;
    if (atoll_watch_open(&s->conn_watch, s->udp_watch.loop, fd, EPOLLIN, dns_server_on_conn, s) < 0)
        abort();
}

static inline void dns_server_start(struct dns_server *s, struct atoll_loop *loop)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(at);
    FILE *f;
    int fd;

    *s = (struct dns_server){.conn = -1, .resolv_conf = "/tmp/atoll-test-resolv-XXXXXX"};
    s->udp = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    s->tcp = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    /* The same port of both: UDP follows TCP. */
    if (bind(s->tcp, (struct sockaddr *)&at, len) < 0 || listen(s->tcp, 8) < 0 ||
        getsockname(s->tcp, (struct sockaddr *)&at, &len) < 0 ||
        bind(s->udp, (struct sockaddr *)&at, len) < 0)
        abort();
    s->port = ntohs(at.sin_port);
    if (atoll_watch_open(&s->udp_watch, loop, s->udp, EPOLLIN, dns_server_on_udp, s) < 0 ||
        atoll_watch_open(&s->tcp_watch, loop, s->tcp, EPOLLIN, dns_server_on_tcp, s) < 0)
        abort();
    fd = mkstemp(s->resolv_conf);
    f = fdopen(fd, "w");
    fprintf(f, "# servers\nsearch example.org\nnameserver\t127.0.0.1\n");
    fclose(f);
}

static inline void dns_server_stop(struct dns_server *s)
{
    atoll_watch_close(&s->udp_watch);
    atoll_watch_close(&s->tcp_watch);
    atoll_watch_close(&s->conn_watch);
    (void)close(s->udp);
    (void)close(s->tcp);
    if (s->conn >= 0)
        (void)close(s->conn);
    (void)unlink(s->resolv_conf);
}
