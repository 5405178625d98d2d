/*
 * DNS messages. The first byte chooses: the question of a sandbox, or the answer of a name server to a
 * question that the input begins with. What is written must be read again, by a reader of our own, as what
 * was asked and given.
 */
#include <errno.h>
#include <string.h>
#include "egress/dns_wire.h"
#include "fuzz.h"

static unsigned get16(const uint8_t *p)
{
    return (unsigned)p[0] << 8 | p[1];
}

/* Counts the records of an answer that we wrote; names are a pointer to the question, or the root. */
static unsigned count_records(const uint8_t *m, size_t n, size_t at)
{
    unsigned records = 0;

    while (at < n) {
        at += m[at] == 0 ? 1 : 2;
        FUZZ_CHECK(at + 10 <= n);
        at += 10 + get16(m + at + 8);
        FUZZ_CHECK(at <= n);
        records++;
    }
    return records;
}

static void check_reply(const struct atoll_dns_question *q, const uint8_t *m, size_t n, size_t cap)
{
    FUZZ_CHECK(n >= ATOLL_DNS_HEADER + q->wire_len && n <= cap);
    FUZZ_CHECK(get16(m) == q->id && (m[2] & 0x80));
    FUZZ_CHECK(get16(m + 4) == (q->wire_len > 0));
    FUZZ_CHECK(memcmp(m + ATOLL_DNS_HEADER, q->wire, q->wire_len) == 0);
    FUZZ_CHECK(get16(m + 10) == q->edns);
}

static void check_addresses(const struct atoll_dns_question *q, size_t cap)
{
    static const struct in6_addr list[] = {
        {.s6_addr = {[10] = 0xff, [11] = 0xff, [12] = 192, [14] = 2, [15] = 1}},
        {.s6_addr = {0x20, 1, 0x0d, 0xb8, [15] = 1}},
        {.s6_addr = {[10] = 0xff, [11] = 0xff, [12] = 192, [14] = 2, [15] = 2}},
    };
    uint8_t out[ATOLL_DNS_UDP_MAX];
    size_t n = atoll_dns_write_addresses(q, list, 3, 60, out, cap);
    unsigned expected = q->type == ATOLL_DNS_A ? 2 : 1;

    check_reply(q, out, n, cap);
    FUZZ_CHECK(get16(out + 6) == ((out[2] & 2) ? 0 : expected));
    FUZZ_CHECK(count_records(out, n, ATOLL_DNS_HEADER + q->wire_len) ==
               get16(out + 6) + get16(out + 10));
}

static void check_name(const char *name)
{
    size_t label = 0;

    FUZZ_CHECK(strlen(name) < ATOLL_DNS_NAME_MAX);
    for (const char *p = name; *p; p++) {
        FUZZ_CHECK(*p > ' ' && *p <= '~' && *p != '\\' && !(*p >= 'A' && *p <= 'Z'));
        label = *p == '.' ? 0 : label + 1;
        FUZZ_CHECK(label <= ATOLL_DNS_LABEL_MAX && !(label == 0 && (p == name || p[1] == '\0')));
    }
}

static int ask(const uint8_t *data, size_t size, struct atoll_dns_question *q)
{
    uint8_t out[ATOLL_DNS_UDP_MAX];
    struct in6_addr address;
    int r = atoll_dns_parse_question(data, size, q);

    if (r < 0) {
        FUZZ_CHECK(r == -EBADMSG);
        return r;
    }
    FUZZ_CHECK(q->udp_max >= ATOLL_DNS_UDP_PLAIN && q->udp_max <= ATOLL_DNS_UDP_MAX);
    check_reply(q, out, atoll_dns_write_empty(q, (unsigned)r, out, ATOLL_DNS_UDP_PLAIN),
                ATOLL_DNS_UDP_PLAIN);
    if (r > 0)
        return r;
    check_name(q->name);
    check_addresses(q, ATOLL_DNS_UDP_PLAIN);
    check_addresses(q, q->udp_max);
    (void)atoll_dns_reverse_address(q->name, &address);
    return 0;
}

/* The same question again, as a server reads it. */
static void check_asked(const struct atoll_dns_question *q)
{
    uint8_t out[ATOLL_DNS_UDP_PLAIN];
    size_t n = atoll_dns_write_question(q, 0x4711, out, sizeof(out));
    struct atoll_dns_question again;

    FUZZ_CHECK(n <= sizeof(out) && atoll_dns_parse_question(out, n, &again) == 0);
    FUZZ_CHECK(again.id == 0x4711 && again.edns && strcmp(again.name, q->name) == 0 &&
               again.type == q->type);
}

static void answer(const uint8_t *data, size_t size, const struct atoll_dns_question *q)
{
    static uint8_t out[ATOLL_DNS_MESSAGE_MAX];
    struct atoll_dns_answer a;

    if (size < 2 || atoll_dns_parse_answer(data, size, q, (uint16_t)get16(data), &a) < 0)
        return;
    FUZZ_CHECK(a.kept <= size);
    check_reply(q, out, atoll_dns_write_answer(q, &a, out, ATOLL_DNS_UDP_PLAIN),
                ATOLL_DNS_UDP_PLAIN);
    FUZZ_CHECK((out[3] & 15) == a.rcode);
    if (size + 11 > sizeof(out))
        return;
    check_reply(q, out, atoll_dns_write_answer(q, &a, out, sizeof(out)), size + 11);
    FUZZ_CHECK(a.truncated || memcmp(out + 6, data + 6, 4) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct atoll_dns_question q;
    size_t first;

    if (size < 1)
        return 0;
    first = data[0] == 0 ? size - 1 : ATOLL_MIN((size_t)data[0], size - 1);
    if (ask(data + 1, first, &q) != 0)
        return 0;
    check_asked(&q);
    answer(data + 1 + first, size - 1 - first, &q);
    return 0;
}
