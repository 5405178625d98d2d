#pragma once
#include <stddef.h>
#include <stdint.h>

/*
 * A fuzz target is one function. With clang -fsanitize=fuzzer it becomes a fuzzer; linked with
 * replay.c, a program that runs the files and directories it is given through the same function.
 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A broken promise ends the program, sanitizers or not. */
#define FUZZ_CHECK(condition) \
    do {                      \
        if (!(condition))     \
            __builtin_trap(); \
    } while (0)
