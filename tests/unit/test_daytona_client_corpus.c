/* Replays the corpus of the fuzzer of answers of Daytona services: what it once found stays found. */
#include "../fuzz/fuzz_daytona_client.c"
#include "test_corpus_util.h"

static void test_corpus(void **state)
{
    (void)state;
    replay_corpus("tests/fuzz/corpus/daytona_client", 35);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_corpus)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
