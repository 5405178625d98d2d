/* e2b.toml. What is accepted is within its bounds, and errors have a line. */
#include <string.h>
#include "fuzz.h"
#include "image/e2b_toml.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct atoll_e2b_toml toml;
    struct atoll_error err = {0};

    if (atoll_e2b_toml_parse((const char *)data, size, &toml, &err) < 0) {
        FUZZ_CHECK(err.kind == ATOLL_ERR_INVALID_ARGUMENT &&
                   (size > ATOLL_E2B_TOML_MAX || strncmp(err.text, "line ", 5) == 0));
        return 0;
    }
    FUZZ_CHECK(toml.cpu_count <= 1024 && toml.memory_mb <= (uint64_t)16 * 1024 * 1024);
    FUZZ_CHECK(!toml.start_cmd || strlen(toml.start_cmd) <= size);
    atoll_e2b_toml_done(&toml);
    return 0;
}
