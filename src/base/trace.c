#include "base/trace.h"

#include <stdio.h>
#include <string.h>
#include "base/rand.h"

#define HEX "0123456789abcdef"

static bool is_hex(const char *text, size_t n)
{
    return strnlen(text, n) == n && strspn(text, HEX) >= n;
}

static bool is_zero(const char *text, size_t n)
{
    return strspn(text, "0") >= n;
}

/* version "-" trace "-" parent "-" flags; later versions may append "-" and more. */
static bool is_valid(const char *text)
{
    if (strnlen(text, 55) < 55 || !is_hex(text, 2) || strncmp(text, "ff", 2) == 0 ||
        text[2] != '-' || text[35] != '-' || text[52] != '-')
        return false;
    if (!is_hex(text + 3, 32) || is_zero(text + 3, 32) || !is_hex(text + 36, 16) ||
        is_zero(text + 36, 16) || !is_hex(text + 53, 2))
        return false;
    return text[55] == '\0' || (text[55] == '-' && strncmp(text, "00", 2) != 0);
}

/* splitmix64 from a random start: no system call per request. Span ids need not be secret. */
static uint64_t next_span(void)
{
    static uint64_t state;
    uint64_t z;

    if (state == 0)
        atoll_rand_bytes(&state, sizeof(state));
    z = (state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    z ^= z >> 31;
    return z ? z : 1;
}

void atoll_trace_init(struct atoll_trace *trace, const char *traceparent)
{
    *trace = (struct atoll_trace){.id = ""};
    if (!traceparent || !is_valid(traceparent))
        return;
    memcpy(trace->id, traceparent + 3, 32);
    memcpy(trace->flags, traceparent + 53, 2);
    atoll_trace_begin_span(trace);
}

void atoll_trace_begin_span(struct atoll_trace *trace)
{
    if (trace->id[0])
        (void)snprintf(trace->span, sizeof(trace->span), "%016llx",
                       (unsigned long long)next_span());
}

const char *atoll_trace_format(const struct atoll_trace *trace, char *out)
{
    (void)snprintf(out, ATOLL_TRACE_TEXT_MAX, "00-%s-%s-%s", trace->id, trace->span, trace->flags);
    return out;
}

static struct atoll_origin current;

const struct atoll_origin *atoll_origin_get(void)
{
    return &current;
}

struct atoll_origin atoll_origin_enter(const struct atoll_origin *origin)
{
    struct atoll_origin before = current;

    if (origin)
        current = *origin;
    else
        current.request_id[0] = current.trace.id[0] = '\0';
    return before;
}
