/* Replays the corpus of the fuzzer of language servers' messages: what it once found stays found. */
#include "../fuzz/fuzz_lsp.c"
#include "test_corpus_util.h"

static void test_corpus(void **state)
{
    (void)state;
    replay_corpus("tests/fuzz/corpus/lsp", 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_corpus)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
