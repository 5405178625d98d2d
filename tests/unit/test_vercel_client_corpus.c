/* Replays the corpus of the fuzzer of answers of Vercel services: what it once found stays found. */
#include "../fuzz/fuzz_vercel_client.c"
#include "test_corpus_util.h"

static void test_corpus(void **state)
{
    (void)state;
    replay_corpus("tests/fuzz/corpus/vercel_client", 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_corpus)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
