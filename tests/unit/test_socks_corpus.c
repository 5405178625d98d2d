/* Replays the corpus of the fuzzer of answers of SOCKS5 proxies. */
#include "../fuzz/fuzz_socks.c"
#include "test_corpus_util.h"

static void test_corpus(void **state)
{
    (void)state;
    replay_corpus("tests/fuzz/corpus/socks", 12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_corpus)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
