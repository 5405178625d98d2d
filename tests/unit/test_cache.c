/* Downloads that are kept: which, in what order they go, and what is found again. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "egress/blake2b.h"
#include "egress/cache.h"
#include "test.h"

#define MAX_BYTES ((uint64_t)90 * 1024) /* room for four files of 16 KiB with their heads */
#define SIZE ((size_t)16 * 1024)

static struct atoll_loop *loop;
static char dir[] = "/tmp/atoll-cache-XXXXXX";
static uint8_t content[SIZE];

static struct atoll_cache_table *make_table(const char *text)
{
    struct atoll_cache_table *table = NULL;
    struct atoll_error err;
    json_t *json = json_loads(text, 0, NULL);

    assert_non_null(json);
    assert_int_equal(atoll_cache_table_parse(json, &table, &err), 0);
    json_decref(json);
    return table;
}

static const char rows[] =
    "{\"downloads\": [{\"name\": \"a\", \"hosts\": [\"a.test:443\", \"*.b.test\"],"
    "                  \"paths\": [\"/f/**/*.bin\", \"/**/@v/v[0-9]*.[0-9]*.[0-9]*.info\"]},"
    "                 {\"name\": \"d\", \"hosts\": [\"d.test\"], \"paths\": [\"/p/**\"],"
    "                  \"digest\": \"sha256\"}]}";

static void test_table(void **state)
{
    static const char digits[] = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
    static const struct {
        const char *host, *target;
        uint16_t port;
        bool found;
    } cases[] = {
        {"a.test", "/f/x/a.bin", 443, true},         {"A.test", "/f/x/a.bin", 443, true},
        {"a.test", "/f/x/a.bin", 444, false},        {"x.b.test", "/f/a.bin", 80, true},
        {"b.test", "/f/a.bin", 80, false},           {"xb.test", "/f/a.bin", 80, false},
        {"a.test", "/f/x/a.txt", 443, false},        {"a.test", "/f/../a.bin", 443, false},
        {"a.test", "/f/%2E%2e/a.bin", 443, false},   {"a.test", "/f//a.bin", 443, false},
        {"a.test", "/f/a.bin?x=a.bin", 443, false},  {"a.test", "*", 443, false},
        {"a.test", "/m/@v/v1.2.3.info", 443, true},  {"a.test", "/m/@v/v1.2.info", 443, false},
        {"a.test", "/m/@v/master.info", 443, false}, {"d.test", "/p/a.bin", 443, false},
    };
    struct atoll_cache_table *table = make_table(rows);
    struct atoll_cache_expected expected;
    char target[200];

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(cases); i++)
        if (atoll_cache_table_find(table, cases[i].host, cases[i].port, cases[i].target,
                                   &expected) != cases[i].found)
            fail_msg("%s %s", cases[i].host, cases[i].target);
    (void)snprintf(target, sizeof(target), "/p/%.2s/%.2s/%s/name", digits, digits + 2, digits + 4);
    assert_true(atoll_cache_table_find(table, "d.test", 1, target, &expected));
    assert_int_equal(expected.kind, ATOLL_CACHE_SHA256);
    assert_int_equal(expected.bytes[0], 0);
    assert_int_equal(expected.bytes[31], 31);
    (void)snprintf(target, sizeof(target), "/p/by-hash/%s", digits);
    assert_true(atoll_cache_table_find(table, "d.test", 1, target, &expected));
    (void)snprintf(target, sizeof(target), "/p/%s0/name", digits);
    assert_false(atoll_cache_table_find(table, "d.test", 1, target, &expected));
    assert_true(atoll_cache_table_has_host(table, "d.test", 9));
    assert_false(atoll_cache_table_has_host(table, "e.test", 9));
    assert_false(atoll_cache_table_has_host(NULL, "d.test", 9));
    (void)atoll_cache_table_free(table);
}

/* Of the empty text, of "abc" and of 300 bytes (more than two blocks). */
static void test_blake2b(void **state)
{
    static const char *const wanted[] = {
        "0e5751c026e543b2e8ab2eb06099daa1d1e5df47778f7787faab45cdf12fe3a8",
        "bddd813c634239723171ef3fee98579b94964e3bb1cb3e427262c8c068d52319",
        "0191c3eb5a6d2128509033fab49cb00a21416257a4c104cff5ee37d156e04db2",
    };
    uint8_t out[ATOLL_BLAKE2B_BYTES], again[ATOLL_BLAKE2B_BYTES];
    char bytes[301] = "";
    const char *const texts[] = {"", "abc", bytes};
    struct atoll_blake2b b;

    (void)state;
    memset(bytes, 7, sizeof(bytes) - 1);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(texts); i++) {
        char hex[65];

        atoll_blake2b_init(&b);
        atoll_blake2b_update(&b, texts[i], strlen(texts[i]));
        atoll_blake2b_final(&b, out);
        for (size_t k = 0; k < sizeof(out); k++)
            (void)snprintf(hex + 2 * k, 3, "%02x", out[k]);
        assert_string_equal(hex, wanted[i]);
    }
    atoll_blake2b_init(&b);
    for (size_t i = 0; i < sizeof(bytes) - 1; i++)
        atoll_blake2b_update(&b, bytes + i, 1);
    atoll_blake2b_final(&b, again);
    assert_memory_equal(out, again, sizeof(out));
}

/* Files. */

static struct atoll_egress_cache *open_cache(uint64_t max_bytes)
{
    struct atoll_egress_cache *cache;
    struct atoll_error err;
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    assert_true(fd >= 0);
    assert_int_equal(atoll_cache_open(loop, fd, &cache, &err), 0);
    atoll_cache_set(cache, make_table(rows), max_bytes);
    return cache;
}

static void stop_loop(void *arg)
{
    (void)arg;
    atoll_loop_stop(loop);
}

/* Runs until the cache has so many files. */
static void wait_files(struct atoll_egress_cache *cache, uint64_t files)
{
    struct atoll_cache_counts counts;
    struct atoll_timer timer = {0};
    struct atoll_error err;

    for (int i = 0; i < 2000; i++) {
        atoll_cache_take_counts(cache, &counts);
        if (counts.files == files)
            return;
        atoll_timer_set(&timer, loop, 5, stop_loop, NULL);
        assert_int_equal(atoll_loop_run(loop, &err), 0);
    }
    fail_msg("%u files", (unsigned)counts.files);
}

static void drained(void *arg)
{
    (void)arg;
}

/* False: it is not kept. size: what the head says. */
static bool put(struct atoll_egress_cache *cache, const char *url, uint64_t size, bool complete)
{
    const struct atoll_cache_expected expected = {0};
    struct atoll_buf fields;
    const struct atoll_cache_head head = {url, &fields, size};
    struct atoll_cache_write *w;

    atoll_buf_init(&fields, 100);
    assert_int_equal(atoll_buf_append(&fields, "etag\0x", 7), 0);
    w = atoll_cache_begin(cache, "t", &head, &expected, drained, NULL);
    atoll_buf_done(&fields);
    if (!w)
        return false;
    atoll_cache_write(w, content, SIZE / 2);
    atoll_cache_write(w, content + SIZE / 2, SIZE / 2);
    atoll_cache_end(w, complete);
    return true;
}

struct got {
    struct atoll_cache_read *read;
    size_t bytes;
    bool absent, ended, failed, same;
};

static void on_absent(void *arg)
{
    ((struct got *)arg)->absent = true;
    atoll_loop_stop(loop);
}

static void on_head(void *arg, const struct atoll_cache_head *head)
{
    ((struct got *)arg)->same = head->size == SIZE && atoll_buf_size(head->fields) == 7;
}

static bool on_piece(void *arg, const uint8_t *bytes, size_t n)
{
    struct got *g = arg;

    g->same = g->same && memcmp(bytes, content + g->bytes, n) == 0;
    g->bytes += n;
    return true;
}

static void on_end(void *arg)
{
    ((struct got *)arg)->ended = true;
    atoll_loop_stop(loop);
}

static void on_failed(void *arg)
{
    ((struct got *)arg)->failed = true;
    atoll_loop_stop(loop);
}

static const struct atoll_cache_reader reader = {on_absent, on_head, on_piece, on_end, on_failed};

static bool get(struct atoll_egress_cache *cache, const char *url)
{
    struct got g = {0};
    struct atoll_error err;

    if (!atoll_cache_find(cache, url, "t", &reader, &g))
        return false;
    assert_int_equal(atoll_loop_run(loop, &err), 0);
    if (g.ended)
        assert_true(g.same && g.bytes == SIZE);
    return g.ended;
}

static void test_order(void **state)
{
    static const char *const urls[] = {"u:0", "u:1", "u:2", "u:3", "u:4"};
    struct atoll_egress_cache *cache = open_cache(MAX_BYTES);
    struct atoll_cache_counts counts;

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        assert_true(put(cache, urls[i], SIZE, true));
        wait_files(cache, i + 1);
    }
    assert_true(get(cache, "u:0")); /* then u:1 is the least recently used */
    assert_true(put(cache, "u:4", SIZE, true));
    atoll_cache_take_counts(cache, &counts);
    assert_int_equal(counts.evictions, 1);
    assert_true(counts.bytes <= MAX_BYTES);
    wait_files(cache, 4);
    assert_true(get(cache, "u:0"));
    assert_false(get(cache, "u:1"));
    (void)atoll_cache_close(cache);

    /* Another process finds them, in the same order. */
    cache = open_cache(MAX_BYTES);
    wait_files(cache, 4);
    assert_true(put(cache, "u:1", SIZE, true));
    wait_files(cache, 4);
    assert_false(get(cache, "u:2"));
    assert_true(get(cache, "u:0"));
    /* A smaller bound holds at once. */
    atoll_cache_set(cache, make_table(rows), SIZE * 2);
    wait_files(cache, 1);
    (void)atoll_cache_close(cache);
}

static void test_not_kept(void **state)
{
    struct atoll_egress_cache *cache = open_cache(MAX_BYTES);
    struct atoll_cache_counts counts;

    (void)state;
    atoll_cache_set(cache, make_table(rows), 0);
    atoll_cache_set(cache, make_table(rows), MAX_BYTES);
    wait_files(cache, 0);
    assert_false(put(cache, "u:large", MAX_BYTES / 2, true));
    assert_true(put(cache, "u:aborted", SIZE, false));
    assert_true(put(cache, "u:short", SIZE + 1, true));
    assert_true(put(cache, "u:whole", SIZE, true));
    wait_files(cache, 1);
    assert_false(get(cache, "u:aborted"));
    assert_false(get(cache, "u:short"));
    assert_true(get(cache, "u:whole"));
    for (int i = 0; i < 50; i++)
        assert_true(put(cache, "u:whole", SIZE, true) || i > 2); /* no room for more at a time */
    (void)atoll_cache_close(cache);
    cache = open_cache(MAX_BYTES);
    atoll_cache_take_counts(cache, &counts);
    assert_int_equal(counts.files, 1);
    assert_true(get(cache, "u:whole"));
    (void)atoll_cache_close(cache);
}

static void test_cancelled(void **state)
{
    struct atoll_egress_cache *cache = open_cache(MAX_BYTES);
    struct got g = {0};

    (void)state;
    assert_true(put(cache, "u:whole", SIZE, true));
    wait_files(cache, 1);
    for (int i = 0; i < 20; i++) {
        g.read = atoll_cache_find(cache, "u:whole", "t", &reader, &g);
        assert_non_null(g.read);
        atoll_cache_read_cancel(g.read);
    }
    (void)atoll_cache_close(cache);
    assert_false(g.ended || g.absent || g.failed);
}

static int set_up(void **state)
{
    struct atoll_error err;

    (void)state;
    for (size_t i = 0; i < SIZE; i++)
        content[i] = (uint8_t)(i * 7 + i / 256);
    return mkdtemp(dir) && atoll_loop_new(&loop, &err) == 0 ? 0 : -1;
}

static int tear_down(void **state)
{
    char command[100];

    (void)state;
    loop = atoll_loop_free(loop);
    (void)snprintf(command, sizeof(command), "rm -rf %s", dir);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),     cmocka_unit_test(test_blake2b),
        cmocka_unit_test(test_order),     cmocka_unit_test(test_not_kept),
        cmocka_unit_test(test_cancelled),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
