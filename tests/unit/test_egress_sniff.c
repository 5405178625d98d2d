/* Which name the first bytes of a client have. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include "test.h"

#include "egress/sniff.h"

struct row {
    const char *bytes;
    enum atoll_sniff_kind kind;
    const char *name;
};

static const struct row texts[] = {
    {"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n", ATOLL_SNIFF_HTTP, "example.org"},
    {"GET / HTTP/1.1\r\nA: b\r\nHOST:Example.ORG.:8080\r\n\r\n", ATOLL_SNIFF_HTTP, "example.org"},
    {"\r\n\r\nPOST /x HTTP/1.0\nHost: example.org\n\n", ATOLL_SNIFF_HTTP, "example.org"},
    {"GET / HTTP/1.0\r\n\r\n", ATOLL_SNIFF_HTTP, ""},
    {"GET / HTTP/1.1\r\nHost: 203.0.113.7:80\r\n\r\n", ATOLL_SNIFF_HTTP, ""},
    {"GET / HTTP/1.1\r\nHost: [2001:db8::1]:80\r\n\r\n", ATOLL_SNIFF_HTTP, ""},
    {"GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n", ATOLL_SNIFF_HTTP, "a.example"},
    {"GET http://u@a.example:81/ HTTP/1.1\r\n\r\n", ATOLL_SNIFF_HTTP, "a.example"},
    {"GET /?u=http://b.example HTTP/1.1\r\nHost: a.example\r\n\r\n", ATOLL_SNIFF_HTTP, "a.example"},
    /* A server may see another name than we do. */
    {"GET http://a.example/ HTTP/1.1\r\nHost: b.example\r\n\r\n", ATOLL_SNIFF_BAD, ""},
    {"GET / HTTP/1.1\r\nHost: a.example\r\nHost: b.example\r\n\r\n", ATOLL_SNIFF_BAD, ""},
    {"GET / HTTP/1.1\r\nHost: a.example\r\nhost : b.example\r\n\r\n", ATOLL_SNIFF_BAD, ""},
    {"GET / HTTP/1.1\r\nHost: a.example\r\n .evil.example\r\n\r\n", ATOLL_SNIFF_BAD, ""},
    {"GET / HTTP/1.1\r\nHost: a.example,b.example\r\n\r\n", ATOLL_SNIFF_BAD, ""},
    {"GET / HTTP/1.1\r\nHost:\r\n\r\n", ATOLL_SNIFF_BAD, ""},
    /* Not complete. */
    {"", ATOLL_SNIFF_MORE, ""},
    {"GE", ATOLL_SNIFF_MORE, ""},
    {"GET / HTTP/1.1\r\nHost: a.example\r\n", ATOLL_SNIFF_MORE, ""},
    {"\r\n", ATOLL_SNIFF_MORE, ""},
    {"\x16\x03", ATOLL_SNIFF_MORE, ""},
    /* Other protocols. */
    {"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n", ATOLL_SNIFF_OTHER, ""},
    {"PING\r\n", ATOLL_SNIFF_OTHER, ""},
    {"EHLO a.example\r\n", ATOLL_SNIFF_OTHER, ""},
    {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", ATOLL_SNIFF_OTHER, ""},
    {"CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\n\r\n", ATOLL_SNIFF_OTHER, ""},
    {"hello", ATOLL_SNIFF_OTHER, ""},
    {"\x16\x02\x01\x01\x01\x01\x01", ATOLL_SNIFF_BAD, ""},
};

static void test_texts(void **state)
{
    struct atoll_sniff s;

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(texts); i++) {
        atoll_sniff((const uint8_t *)texts[i].bytes, strlen(texts[i].bytes), &s);
        if (s.kind != texts[i].kind || strcmp(s.name, texts[i].name) != 0)
            fail_msg("row %zu: kind %d, name \"%s\"", i, (int)s.kind, s.name);
    }
}

/* A file of the fuzzer's corpus, which a TLS library wrote. */
static size_t load(const char *name, uint8_t *out, size_t cap)
{
    const char *source = getenv("ATOLL_SOURCE_DIR");
    char path[4096];
    ssize_t n;
    int fd;

    (void)snprintf(path, sizeof(path), "%s/tests/fuzz/corpus/sniff/%s", source ? source : "..",
                   name);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    n = read(fd, out, cap);
    assert_true(n > 0);
    (void)close(fd);
    return (size_t)n;
}

static void test_tls(void **state)
{
    static const struct row files[] = {
        {"tls", ATOLL_SNIFF_TLS, "www.example.org"},
        {"tls12", ATOLL_SNIFF_TLS, "a.example.org"},
        {"tls-fragments", ATOLL_SNIFF_TLS, "www.example.org"},
        {"tls-no-name", ATOLL_SNIFF_TLS, ""},
        {"tls-cut", ATOLL_SNIFF_MORE, ""},
        {"tls-nul", ATOLL_SNIFF_BAD, ""},
        {"tls-length", ATOLL_SNIFF_BAD, ""},
    };
    uint8_t bytes[4096];
    struct atoll_sniff s;

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(files); i++) {
        size_t n = load(files[i].bytes, bytes, sizeof(bytes));

        atoll_sniff(bytes, n, &s);
        if (s.kind != files[i].kind || strcmp(s.name, files[i].name) != 0)
            fail_msg("%s: kind %d, name \"%s\"", files[i].bytes, (int)s.kind, s.name);
        /* Every beginning is undecided, so that no fragment of a client passes unseen. */
        for (size_t k = 1; files[i].kind == ATOLL_SNIFF_TLS && k < n; k++) {
            atoll_sniff(bytes, k, &s);
            assert_int_equal(s.kind, ATOLL_SNIFF_MORE);
        }
    }
}

/* A head that does not end is refused at the limit. */
static void test_limit(void **state)
{
    static uint8_t bytes[ATOLL_SNIFF_MAX];
    struct atoll_sniff s;

    (void)state;
    memset(bytes, 'a', sizeof(bytes));
    memcpy(bytes, "GET / HTTP/1.1\r\nX: ", 19);
    atoll_sniff(bytes, sizeof(bytes) - 1, &s);
    assert_int_equal(s.kind, ATOLL_SNIFF_MORE);
    atoll_sniff(bytes, sizeof(bytes), &s);
    assert_int_equal(s.kind, ATOLL_SNIFF_BAD);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_tls),
        cmocka_unit_test(test_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
