/*
 * The first bytes of a client. The verdict about a beginning of the input stays when more follows, names
 * are host names, and the limit of bytes always leads to a verdict.
 */
#include <ctype.h>
#include <string.h>
#include "egress/sniff.h"
#include "fuzz.h"

static void check_name(const struct atoll_sniff *s)
{
    size_t n = strnlen(s->name, sizeof(s->name));

    FUZZ_CHECK(n < sizeof(s->name));
    FUZZ_CHECK(n == 0 || s->kind == ATOLL_SNIFF_TLS || s->kind == ATOLL_SNIFF_HTTP);
    for (size_t i = 0; i < n; i++)
        FUZZ_CHECK(islower((unsigned char)s->name[i]) || isdigit((unsigned char)s->name[i]) ||
                   strchr("-_.", s->name[i]));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct atoll_sniff whole, part;

    atoll_sniff(data, size, &whole);
    check_name(&whole);
    FUZZ_CHECK(size < ATOLL_SNIFF_MAX || whole.kind != ATOLL_SNIFF_MORE);
    for (size_t n = 0; n < ATOLL_MIN(size, (size_t)600); n += 1 + n / 16) {
        atoll_sniff(data, n, &part);
        check_name(&part);
        if (part.kind == ATOLL_SNIFF_MORE)
            continue;
        FUZZ_CHECK(part.kind == whole.kind && strcmp(part.name, whole.name) == 0);
        break;
    }
    return 0;
}
