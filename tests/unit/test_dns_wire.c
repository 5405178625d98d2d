/* Messages of DNS: questions of sandboxes, our answers, questions to name servers and their answers. */
#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "egress/dns_wire.h"

#define BYTES(text) (const uint8_t *)(text), sizeof(text) - 1
#define HEAD "\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00"
#define HEAD_EDNS "\x12\x34\x01\x10\x00\x01\x00\x00\x00\x00\x00\x01"
#define NAME "\3wWw\7example\3org\0"
#define A_IN "\0\1\0\1"
#define TXT_IN "\0\x10\0\1"
#define OPT(size) "\0\0\x29" size "\0\0\0\0\0\0"

static struct in6_addr address(const char *text)
{
    struct in6_addr a;

    assert_int_equal(inet_pton(AF_INET6, text, &a), 1);
    return a;
}

static struct atoll_dns_question question(const uint8_t *bytes, size_t n)
{
    struct atoll_dns_question q;

    assert_int_equal(atoll_dns_parse_question(bytes, n, &q), 0);
    return q;
}

static void test_question(void **state)
{
    struct atoll_dns_question q = question(BYTES(HEAD NAME A_IN));

    (void)state;
    assert_int_equal(q.id, 0x1234);
    assert_string_equal(q.name, "www.example.org");
    assert_int_equal(q.type, ATOLL_DNS_A);
    assert_false(q.edns);
    assert_int_equal(q.udp_max, 512);
    q = question(BYTES(HEAD_EDNS NAME A_IN OPT("\x10\x00")));
    assert_true(q.edns);
    assert_int_equal(q.udp_max, 4096);
    q = question(BYTES(HEAD_EDNS NAME A_IN OPT("\xff\xff")));
    assert_int_equal(q.udp_max, ATOLL_DNS_UDP_MAX);
    q = question(BYTES(HEAD_EDNS NAME A_IN OPT("\x00\x01")));
    assert_int_equal(q.udp_max, 512);
    q = question(BYTES(HEAD "\0\0\2\0\1"));
    assert_string_equal(q.name, "");
}

static void test_refused_questions(void **state)
{
    static const struct {
        const char *what;
        const uint8_t *bytes;
        size_t n;
        int expected;
    } cases[] = {
        {"nothing", BYTES(""), -EBADMSG},
        {"half a header", BYTES("\x12\x34\x01\x00\x00\x01"), -EBADMSG},
        {"an answer", BYTES("\x12\x34\x81\x00\0\1\0\0\0\0\0\0" NAME A_IN), -EBADMSG},
        {"an update", BYTES("\x12\x34\x29\x00\0\1\0\0\0\0\0\0" NAME A_IN), ATOLL_DNS_NOTIMP},
        {"no question", BYTES("\x12\x34\x01\x00\0\0\0\0\0\0\0\0"), ATOLL_DNS_FORMERR},
        {"two questions", BYTES("\x12\x34\x01\x00\0\2\0\0\0\0\0\0" NAME A_IN NAME A_IN),
         ATOLL_DNS_FORMERR},
        {"an answer with it", BYTES("\x12\x34\x01\x00\0\1\0\1\0\0\0\0" NAME A_IN),
         ATOLL_DNS_FORMERR},
        {"no end of the name", BYTES(HEAD "\3www"), ATOLL_DNS_FORMERR},
        {"no type", BYTES(HEAD NAME "\0"), ATOLL_DNS_FORMERR},
        {"a pointer to itself", BYTES(HEAD "\xc0\x0c\0\1\0\1"), ATOLL_DNS_FORMERR},
        {"a long label",
         BYTES(HEAD "\x40"
                    "aaaa\0" A_IN),
         ATOLL_DNS_FORMERR},
        {"a dot in a label", BYTES(HEAD "\3a.b\3org\0" A_IN), ATOLL_DNS_FORMERR},
        {"a NUL in a label", BYTES(HEAD "\3a\0b\3org\0" A_IN), ATOLL_DNS_FORMERR},
        {"a blank in a label", BYTES(HEAD "\3a b\3org\0" A_IN), ATOLL_DNS_FORMERR},
        {"class CHAOS", BYTES(HEAD NAME "\0\x10\0\3"), ATOLL_DNS_REFUSED},
        {"OPT is not there", BYTES(HEAD_EDNS NAME A_IN), ATOLL_DNS_FORMERR},
        {"OPT is cut", BYTES(HEAD_EDNS NAME A_IN "\0\0\x29\x10\x00\0\0\0\0\0\4ab"),
         ATOLL_DNS_FORMERR},
        {"two OPT", BYTES("\x12\x34\x01\x00\0\1\0\0\0\0\0\2" NAME A_IN OPT("\4\0") OPT("\4\0")),
         ATOLL_DNS_FORMERR},
        {"EDNS 1", BYTES(HEAD_EDNS NAME A_IN "\0\0\x29\x10\x00\0\1\0\0\0\0"), ATOLL_DNS_BADVERS},
    };
    struct atoll_dns_question q;
    uint8_t out[512];

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(cases); i++) {
        int r = atoll_dns_parse_question(cases[i].bytes, cases[i].n, &q);
        if (r != cases[i].expected)
            fail_msg("%s: %d", cases[i].what, r);
        if (r < 0)
            continue;
        assert_in_range(atoll_dns_write_empty(&q, (unsigned)r, out, sizeof(out)), 12, 512);
        assert_memory_equal(out, "\x12\x34", 2);
        assert_int_equal(out[3] & 15, r & 15);
    }
    assert_int_equal(out[out[5] ? 12 + q.wire_len + 5 : 0], 1); /* BADVERS: the upper bits in OPT */
}

static void test_long_names(void **state)
{
    uint8_t message[300] = HEAD;
    struct atoll_dns_question q;
    size_t at = 12;

    (void)state;
    for (int i = 0; i < 4; i++) {
        message[at++] = 63;
        memset(message + at, 'a', 63);
        at += 63;
    }
    at -= 2; /* 253 characters of text, 255 bytes on the wire */
    message[12 + 3 * 64] = 61;
    message[at++] = 0;
    memcpy(message + at, A_IN, 4);
    assert_int_equal(atoll_dns_parse_question(message, at + 4, &q), 0);
    assert_int_equal(strlen(q.name), 253);
    assert_int_equal(q.wire_len, 259);
    message[12 + 3 * 64] = 62;
    message[at - 1] = 'a';
    message[at++] = 0;
    memcpy(message + at, A_IN, 4);
    assert_int_equal(atoll_dns_parse_question(message, at + 4, &q), ATOLL_DNS_FORMERR);
}

static void test_addresses(void **state)
{
    struct atoll_dns_question q = question(BYTES(HEAD_EDNS NAME A_IN OPT("\x04\xd0")));
    const struct in6_addr list[] = {address("::ffff:192.0.2.1"), address("2001:db8::1"),
                                    address("::ffff:192.0.2.2")};
    uint8_t out[512];
    size_t n = atoll_dns_write_addresses(&q, list, 3, 60, out, sizeof(out));

    (void)state;
    static const char expected[] =
        "\x12\x34\x81\x90\0\1\0\2\0\0\0\1" NAME A_IN "\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4\xc0\0\2\1"
        "\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4\xc0\0\2\2" OPT("\x10\x00");
    assert_int_equal(n, sizeof(expected) - 1);
    assert_memory_equal(out, expected, n);
    q.type = ATOLL_DNS_AAAA;
    q.edns = false;
    n = atoll_dns_write_addresses(&q, list, 3, 60, out, sizeof(out));
    assert_int_equal(n, 12 + q.wire_len + 28);
    assert_memory_equal(out + n - 16, &list[1], 16);
}

static void test_truncated(void **state)
{
    struct atoll_dns_question q = question(BYTES(HEAD NAME "\0\x1c\0\1"));
    struct in6_addr list[40];
    uint8_t out[4096];

    (void)state;
    for (size_t i = 0; i < 40; i++)
        list[i] = address("2001:db8::1");
    assert_int_equal(atoll_dns_write_addresses(&q, list, 40, 60, out, 512), 12 + q.wire_len);
    assert_int_equal(out[2] & 2, 2);
    assert_int_equal(out[7], 0);
    assert_int_equal(atoll_dns_write_addresses(&q, list, 40, 60, out, sizeof(out)),
                     12 + q.wire_len + 40 * 28);
    assert_int_equal(out[2] & 2, 0);
    assert_int_equal(out[7], 40);
}

/* A server's answer: TXT, SOA in the authority section, and an address in the additional section. */
#define ANSWER_HEAD "\xab\xcd\x81\xa0\0\1\0\1\0\1\0\1"
#define ANSWER_NAME "\3www\7example\3org\0"
#define TXT_RECORD "\xc0\x0c\0\x10\0\1\0\0\0\x0a\0\3\2hi"
#define SOA_RECORD "\xc0\x10\0\6\0\1\0\0\0\x0a\0\2\xc0\x10"
#define A_RECORD "\xc0\x0c\0\1\0\1\0\0\0\x0a\0\4\x0a\0\0\1"

static void test_answers_of_servers(void **state)
{
    struct atoll_dns_question q = question(BYTES(HEAD NAME TXT_IN));
    static const char server[] = ANSWER_HEAD ANSWER_NAME TXT_IN TXT_RECORD SOA_RECORD A_RECORD;
    static const char passed[] =
        "\x12\x34\x81\x80\0\1\0\1\0\1\0\0" NAME TXT_IN TXT_RECORD SOA_RECORD;
    struct atoll_dns_answer answer;
    uint8_t out[512], asked[512];
    size_t n = atoll_dns_write_question(&q, 0xabcd, asked, sizeof(asked));

    (void)state;
    static const char expected[] = "\xab\xcd\x01\x00\0\1\0\0\0\0\0\1" NAME TXT_IN OPT("\x04\xd0");
    assert_int_equal(n, sizeof(expected) - 1);
    assert_memory_equal(asked, expected, n);

    assert_int_equal(atoll_dns_parse_answer(BYTES(server), &q, 0xabcd, &answer), 0);
    assert_int_equal(answer.rcode, 0);
    assert_false(answer.truncated);
    assert_false(answer.has_address);
    n = atoll_dns_write_answer(&q, &answer, out, sizeof(out));
    assert_int_equal(n, sizeof(passed) - 1);
    assert_memory_equal(out, passed, n);
}

static void test_foreign_answers(void **state)
{
    struct atoll_dns_question q = question(BYTES(HEAD NAME TXT_IN));
    struct atoll_dns_answer answer;
    static const struct {
        const char *what;
        const uint8_t *bytes;
        size_t n;
    } cases[] = {
        {"a question", BYTES("\xab\xcd\x01\x00\0\1\0\0\0\0\0\0" NAME TXT_IN)},
        {"another id", BYTES("\xab\xce\x81\x00\0\1\0\0\0\0\0\0" NAME TXT_IN)},
        {"another name", BYTES("\xab\xcd\x81\x00\0\1\0\0\0\0\0\0\3wwx\7example\3org\0" TXT_IN)},
        {"another type", BYTES("\xab\xcd\x81\x00\0\1\0\0\0\0\0\0" NAME A_IN)},
        {"no question", BYTES("\xab\xcd\x81\x00\0\0\0\0\0\0\0\0" NAME TXT_IN)},
        {"cut", BYTES("\xab\xcd\x81\x00\0\1\0\0\0\0\0\0" NAME "\0")},
        {"no record", BYTES("\xab\xcd\x81\x00\0\1\0\1\0\0\0\0" NAME TXT_IN)},
        {"a forward pointer",
         BYTES("\xab\xcd\x81\x00\0\1\0\1\0\0\0\0" NAME TXT_IN "\xc0\x30\0\x10\0\1\0\0\0\x0a\0\0")},
        {"data is cut", BYTES("\xab\xcd\x81\x00\0\1\0\1\0\0\0\0" NAME TXT_IN
                              "\xc0\x0c\0\x10\0\1\0\0\0\x0a\0\5\2hi")},
    };

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(cases); i++)
        if (atoll_dns_parse_answer(cases[i].bytes, cases[i].n, &q, 0xabcd, &answer) != -EBADMSG)
            fail_msg("%s is accepted", cases[i].what);
    assert_int_equal(atoll_dns_parse_answer(BYTES("\xab\xcd\x83\x83\0\1\0\1\0\0\0\0" NAME TXT_IN),
                                            &q, 0xabcd, &answer),
                     0);
    assert_true(answer.truncated);
    assert_int_equal(answer.rcode, ATOLL_DNS_NXDOMAIN);
    assert_int_equal(
        atoll_dns_parse_answer(BYTES("\xab\xcd\x81\x80\0\1\0\1\0\0\0\0" NAME TXT_IN A_RECORD), &q,
                               0xabcd, &answer),
        0);
    assert_true(answer.has_address);
}

static void test_reverse(void **state)
{
    static const struct {
        const char *name, *address; /* NULL: not an address */
    } cases[] = {
        {"4.3.2.10.in-addr.arpa", "::ffff:10.2.3.4"},
        {"1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa", "2001:db8::1"},
        {"3.2.10.in-addr.arpa", NULL},
        {"5.4.3.2.10.in-addr.arpa", NULL},
        {"4.3.2.256.in-addr.arpa", NULL},
        {"4.3..10.in-addr.arpa", NULL},
        {"-4.3.2.10.in-addr.arpa", NULL},
        {"0-4.3.2.10.in-addr.arpa", NULL},
        {".in-addr.arpa", NULL},
        {"in-addr.arpa", NULL},
        {"1.0.ip6.arpa", NULL},
        {"example.org", NULL},
    };
    struct in6_addr got, expected;

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(cases); i++) {
        bool is = atoll_dns_reverse_address(cases[i].name, &got);
        if (is != (cases[i].address != NULL))
            fail_msg("%s", cases[i].name);
        if (!is)
            continue;
        expected = address(cases[i].address);
        assert_memory_equal(&got, &expected, sizeof(got));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_question),        cmocka_unit_test(test_refused_questions),
        cmocka_unit_test(test_long_names),      cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_truncated),       cmocka_unit_test(test_answers_of_servers),
        cmocka_unit_test(test_foreign_answers), cmocka_unit_test(test_reverse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
