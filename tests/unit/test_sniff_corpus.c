/* Replays the corpus of the fuzzer of first bytes. */
#include "../fuzz/fuzz_sniff.c"
#include "test_corpus_util.h"

static void test_corpus(void **state)
{
    (void)state;
    replay_corpus("tests/fuzz/corpus/sniff", 12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_corpus)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
