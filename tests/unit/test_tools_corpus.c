/* Replays the corpus of the fuzzer of tools and MCP: what it once found stays found. */
#include "../fuzz/fuzz_tools.c"
#include "test_corpus_util.h"

static void test_corpus(void **state)
{
    (void)state;
    replay_corpus("tests/fuzz/corpus/tools", 16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_corpus)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
