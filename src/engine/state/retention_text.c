/* The text of --snapshot-days and --snapshot-keep. */
#include <errno.h>
#include <string.h>
#include "base/text.h"
#include "engine/state/retention.h"

static int read_number(const char *text, size_t n, uint32_t *ret)
{
    char digits[16];
    uint64_t number;

    if (n == 0 || n >= sizeof(digits))
        return -EINVAL;
    memcpy(digits, text, n);
    digits[n] = '\0';
    if (atoll_text_u64(digits, 0, ATOLL_RETENTION_MAX, &number) < 0)
        return -EINVAL;
    *ret = (uint32_t)number;
    return 0;
}

int atoll_retention(const char *text, const char *tenant, uint32_t *ret)
{
    uint32_t general = 0, own = 0, number;
    bool has_own = false;

    for (size_t n; text += strspn(text, ", \t"), (n = strcspn(text, ", \t")) > 0; text += n) {
        const char *equals = memchr(text, '=', n);
        const char *digits = equals ? equals + 1 : text;
        bool is_own = equals && strlen(tenant) == (size_t)(equals - text) &&
                      memcmp(text, tenant, strlen(tenant)) == 0;

        if (equals == text || read_number(digits, (size_t)(text + n - digits), &number) < 0)
            return -EINVAL;
        if (is_own)
            own = number;
        else if (!equals)
            general = number;
        has_own = has_own || is_own;
    }
    *ret = has_own ? own : general;
    return 0;
}
