#include "unpack/tar_head.h"

#include <errno.h>
#include <string.h>

#define HEAD_BYTES 512
#define SUM_AT 148
#define SUM_WIDTH 8

static int binary_number(const uint8_t *field, size_t width, int64_t *ret)
{
    bool negative = (field[0] & 0x40) != 0;
    uint64_t value = negative ? UINT64_MAX : 0;

    for (size_t i = 0; i < width; i++) {
        uint8_t byte = i == 0 ? (uint8_t)(negative ? field[0] | 0x80 : field[0] & 0x7f) : field[i];

        if (value >> 55 != (negative ? 0x1ff : 0))
            return -EINVAL;
        value = value << 8 | byte;
    }
    *ret = (int64_t)value;
    return 0;
}

int atoll_tar_number(const uint8_t *field, size_t width, int64_t *ret)
{
    size_t i = 0;
    int64_t value = 0;

    if (field[0] & 0x80)
        return binary_number(field, width, ret);
    while (i < width && (field[i] == ' ' || field[i] == '\0'))
        i++;
    for (; i < width && field[i] >= '0' && field[i] <= '7'; i++) {
        if (value > INT64_MAX >> 3)
            return -EINVAL;
        value = value << 3 | (field[i] - '0');
    }
    for (; i < width; i++)
        if (field[i] != ' ' && field[i] != '\0')
            return -EINVAL;
    *ret = value;
    return 0;
}

bool atoll_tar_sum_is_right(const uint8_t *head)
{
    int64_t expected, is_unsigned = 0, is_signed = 0;

    if (atoll_tar_number(head + SUM_AT, SUM_WIDTH, &expected) < 0)
        return false;
    for (size_t i = 0; i < HEAD_BYTES; i++) {
        uint8_t c = i >= SUM_AT && i < SUM_AT + SUM_WIDTH ? ' ' : head[i];
        is_unsigned += c;
        is_signed += (int8_t)c;
    }
    return expected == is_unsigned || expected == is_signed;
}

int atoll_tar_decimal(const char **text, char end, uint64_t *ret)
{
    const char *p = *text;
    uint64_t value = 0;

    if (*p < '0' || *p > '9')
        return -EINVAL;
    for (; *p >= '0' && *p <= '9'; p++) {
        uint64_t digit = (uint64_t)(*p - '0');

        if (value > ((uint64_t)INT64_MAX - digit) / 10)
            return -EINVAL;
        value = value * 10 + digit;
    }
    if (*p != end)
        return -EINVAL;
    *text = p + (end != '\0');
    *ret = value;
    return 0;
}

/* "1234.5678", "-1.5": seconds, rounded down to nanoseconds. */
static int parse_time(const char *text, int64_t *ret_s, uint32_t *ret_ns)
{
    bool negative = *text == '-';
    uint64_t seconds;
    uint32_t ns = 0, unit = 100000000;
    const char *p = text + negative;
    bool rest = false;

    if (atoll_tar_decimal(&p, p[strspn(p, "0123456789")] == '.' ? '.' : '\0', &seconds) < 0)
        return -EINVAL;
    for (; *p >= '0' && *p <= '9'; p++, unit /= 10) {
        ns += (uint32_t)(*p - '0') * unit;
        rest = rest || (unit == 0 && *p != '0');
    }
    if (*p)
        return -EINVAL;
    if (negative && rest)
        ns++;
    *ret_s = negative ? -(int64_t)seconds - (ns > 0) : (int64_t)seconds;
    *ret_ns = negative && ns > 0 ? 1000000000 - ns : ns;
    if (*ret_ns >= 1000000000)
        return -EINVAL;
    return 0;
}

static int set_number(const char *value, uint64_t *ret, bool *ret_has)
{
    *ret_has = *value != '\0';
    return *value ? atoll_tar_decimal(&value, '\0', ret) : 0;
}

static int add_extent(struct atoll_tar_pax *pax, uint64_t offset)
{
    struct atoll_tar_extent *grown;

    if (pax->extent_count >= ATOLL_TAR_EXTENTS_MAX)
        return -E2BIG;
    if ((pax->extent_count & (pax->extent_count - 1)) == 0) {
        size_t room = ATOLL_MAX(pax->extent_count * 2, (size_t)16);

        grown = reallocarray(pax->extents, room, sizeof(*grown));
        if (!grown)
            return -ENOMEM;
        pax->extents = grown;
    }
    pax->extents[pax->extent_count++] = (struct atoll_tar_extent){.offset = offset};
    return 0;
}

static int add_xattr(struct atoll_tar_pax *pax, const char *name, const char *value, size_t n)
{
    if (!*name || pax->xattr_count >= ATOLL_TAR_XATTRS_MAX)
        return *name ? -E2BIG : -EINVAL;
    pax->xattrs[pax->xattr_count++] =
        (struct atoll_tar_xattr){.name = name, .value = (const uint8_t *)value, .len = n};
    return 0;
}

/* GNU.sparse.*, as of the three formats. */
static int take_sparse(struct atoll_tar_pax *pax, const char *key, const char *value)
{
    uint64_t number = 0;
    const char *p = value;
    bool is_number = atoll_tar_decimal(&p, '\0', &number) == 0;

    pax->sparse = true;
    if (strcmp(key, "name") == 0)
        pax->sparse_name = value;
    else if (strcmp(key, "map") == 0)
        pax->sparse_map = value;
    else if (!is_number)
        return -EINVAL;
    else if (strcmp(key, "major") == 0)
        pax->sparse_major = number > 9 ? 9 : (unsigned)number;
    else if (strcmp(key, "minor") == 0)
        pax->sparse_minor = number > 9 ? 9 : (unsigned)number;
    else if (strcmp(key, "size") == 0 || strcmp(key, "realsize") == 0)
        pax->sparse_size = number;
    else if (strcmp(key, "offset") == 0)
        return add_extent(pax, number);
    else if (strcmp(key, "numbytes") == 0 && pax->extent_count > 0)
        pax->extents[pax->extent_count - 1].len = number;
    return 0;
}

/* The rest of key after prefix; NULL if it begins otherwise. */
static const char *after(const char *key, const char *prefix)
{
    size_t n = strlen(prefix);
    return strncmp(key, prefix, n) == 0 ? key + n : NULL;
}

/* One record. An empty value cancels the record; the head counts then. */
static int take(struct atoll_tar_pax *pax, const char *key, const char *value, size_t n)
{
    const char *rest;

    if ((rest = after(key, "SCHILY.xattr.")))
        return add_xattr(pax, rest, value, n);
    if (memchr(value, '\0', n))
        return -EINVAL;
    if ((rest = after(key, "GNU.sparse.")))
        return take_sparse(pax, rest, value);
    if (strcmp(key, "path") == 0)
        pax->path = *value ? value : NULL;
    else if (strcmp(key, "linkpath") == 0)
        pax->linkpath = *value ? value : NULL;
    else if (strcmp(key, "size") == 0)
        return set_number(value, &pax->size, &pax->has_size);
    else if (strcmp(key, "uid") == 0)
        return set_number(value, &pax->uid, &pax->has_uid);
    else if (strcmp(key, "gid") == 0)
        return set_number(value, &pax->gid, &pax->has_gid);
    else if (strcmp(key, "mtime") == 0) {
        pax->has_mtime = *value != '\0';
        return *value ? parse_time(value, &pax->mtime_s, &pax->mtime_ns) : 0;
    }
    return 0;
}

int atoll_tar_pax_parse(uint8_t *text, size_t n, struct atoll_tar_pax *ret)
{
    *ret = (struct atoll_tar_pax){0};
    while (n > 0) {
        size_t len = 0, digits = 0;
        uint8_t *equals;
        char *key;
        int r;

        for (; digits < n && text[digits] >= '0' && text[digits] <= '9' && len <= n; digits++)
            len = len * 10 + (size_t)(text[digits] - '0');
        if (digits == 0 || digits >= n || text[digits] != ' ' || len > n || len < digits + 3 ||
            text[len - 1] != '\n')
            return -EINVAL;
        text[len - 1] = '\0';
        key = (char *)text + digits + 1;
        equals = memchr(key, '=', len - digits - 2);
        if (!equals || memchr(key, '\0', (size_t)(equals - (uint8_t *)key)))
            return -EINVAL;
        *equals = '\0';
        r = take(ret, key, (char *)equals + 1, (size_t)(text + len - 1 - (equals + 1)));
        if (r < 0)
            return r;
        text += len;
        n -= len;
    }
    return 0;
}

void atoll_tar_pax_done(struct atoll_tar_pax *pax)
{
    free(pax->extents);
    pax->extents = NULL;
}

bool atoll_tar_extents_are_right(const struct atoll_tar_extent *extents, size_t n, uint64_t size,
                                 uint64_t stored)
{
    uint64_t at = 0, sum = 0;

    for (size_t i = 0; i < n; i++) {
        const struct atoll_tar_extent *e = &extents[i];

        if (e->offset < at || e->offset > size || e->len > size - e->offset)
            return false;
        at = e->offset + e->len;
        sum += e->len;
    }
    return sum == stored;
}
