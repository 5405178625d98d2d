/* The output of a language server. A message lies inside of the bytes, after the bytes that are used no
 * message is lost, and a cut does not change what is found. */
#include <string.h>
#include "api/daytona/lsp_frames.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct atoll_lsp_message m, again;
    size_t used = 0, more = 0;
    int r = atoll_lsp_next(data, size, &m, &used);

    FUZZ_CHECK(r < 0 || used <= size);
    if (r == 1) {
        FUZZ_CHECK(m.json >= data && m.json + m.len == data + used);
        FUZZ_CHECK(atoll_lsp_next(data, used, &again, &more) == 1 && again.json == m.json);
        FUZZ_CHECK(atoll_lsp_next(data, used - 1, &again, &more) == 0 || m.len == 0);
    } else if (r == 0) {
        FUZZ_CHECK(atoll_lsp_next(data + used, size - used, &again, &more) == 0 && more == 0);
    }
    return 0;
}
