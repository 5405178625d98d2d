/* Replays the corpus of the fuzzer of git's output. */
#include "../fuzz/fuzz_git.c"
#include "test_corpus_util.h"

static void test_corpus(void **state)
{
    (void)state;
    replay_corpus("tests/fuzz/corpus/git", 14);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_corpus)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
