/* Replays the corpus of the fuzzer of an E2B service's answers: what it once found stays found. */
#include "../fuzz/fuzz_e2b_client.c"
#include "test_corpus_util.h"

static void test_corpus(void **state)
{
    (void)state;
    replay_corpus("tests/fuzz/corpus/e2b_client", 35);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_corpus)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
