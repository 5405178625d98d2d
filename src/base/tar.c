#include "base/tar.h"

#include <stdio.h>
#include <string.h>

/* ustar, POSIX.1-2017 pax(1) "ustar Interchange Format". All fields are text. */
struct head {
    char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], type;
    char target[100], magic[6], version[2], owner[32], group[32], dev_major[8], dev_minor[8];
    char prefix[155], unused[12];
};
_Static_assert(sizeof(struct head) == ATOLL_TAR_BLOCK, "a head is one block");

/* The largest size and time that eleven octal digits can express. */
#define SIZE_MAX_OCTAL UINT64_C(077777777777)
#define ID_MAX_OCTAL 07777777u
#define RECORDS_MAX ((size_t)1024 * 1024) /* with attributes */

size_t atoll_tar_padding(uint64_t size)
{
    return (size_t)((ATOLL_TAR_BLOCK - size % ATOLL_TAR_BLOCK) % ATOLL_TAR_BLOCK);
}

/* Copies up to the width of the field; a text that fills it has no NUL. */
static void put(char *field, size_t width, const char *text)
{
    memcpy(field, text, strnlen(text, width));
}

static void put_octal(char *field, size_t width, uint64_t value)
{
    char text[32];

    (void)snprintf(text, sizeof(text), "%0*llo", (int)width - 1, (unsigned long long)value);
    put(field, width, text);
}

static int append_head(struct atoll_buf *out, struct head *h)
{
    unsigned sum = 0;

    put(h->magic, sizeof(h->magic), "ustar");
    put(h->version, sizeof(h->version), "00");
    memset(h->checksum, ' ', sizeof(h->checksum));
    for (size_t i = 0; i < sizeof(*h); i++)
        sum += ((const uint8_t *)h)[i];
    put_octal(h->checksum, sizeof(h->checksum) - 1, sum);
    return atoll_buf_append(out, h, sizeof(*h));
}

/* Appends "LENGTH key=value\n", where LENGTH includes its own digits. */
static int append_bytes(struct atoll_buf *out, const char *prefix, const char *key,
                        const void *value, size_t n)
{
    size_t rest = strlen(prefix) + strlen(key) + n + 3, len = rest + 1;
    char digits[24];
    int r;

    while (rest + (size_t)snprintf(digits, sizeof(digits), "%zu", len) != len)
        len = rest + strlen(digits);
    r = atoll_buf_appendf(out, "%zu %s%s=", len, prefix, key);
    if (r == 0)
        r = atoll_buf_append(out, value, n);
    return r < 0 ? r : atoll_buf_appends(out, "\n");
}

static int append_record(struct atoll_buf *out, const char *key, const char *value)
{
    return append_bytes(out, "", key, value, strlen(value));
}

static int append_number(struct atoll_buf *out, const char *key, uint64_t value)
{
    char digits[24];

    (void)snprintf(digits, sizeof(digits), "%llu", (unsigned long long)value);
    return append_record(out, key, digits);
}

/* Seconds with a fraction; a negative time is that of the nearest second before, plus nanoseconds. */
static int append_time(struct atoll_buf *out, int64_t s, uint32_t ns)
{
    char text[48], *end;
    bool borrowed = s < 0 && ns > 0;
    uint64_t whole = s < 0 ? (uint64_t) - (s + borrowed) : (uint64_t)s;

    (void)snprintf(text, sizeof(text), "%s%llu.%09u", s < 0 ? "-" : "", (unsigned long long)whole,
                   borrowed ? 1000000000 - ns : ns);
    for (end = text + strlen(text); end[-1] == '0'; end--)
        end[-1] = '\0';
    if (end[-1] == '.')
        end[-1] = '\0';
    return append_record(out, "mtime", text);
}

static int pad(struct atoll_buf *out, uint64_t size)
{
    static const uint8_t zeros[ATOLL_TAR_BLOCK];
    return atoll_buf_append(out, zeros, atoll_tar_padding(size));
}

static bool is_link(const struct atoll_tar_entry *e)
{
    return e->type == ATOLL_TAR_SYMLINK || e->type == ATOLL_TAR_HARD_LINK;
}

static int append_exact(struct atoll_buf *records, const struct atoll_tar_entry *e)
{
    int r = 0;

    if (e->mtime_ns > 0 || e->mtime_s < 0 || (uint64_t)e->mtime_s > SIZE_MAX_OCTAL)
        r = append_time(records, e->mtime_s, e->mtime_ns);
    if (r == 0 && e->uid > ID_MAX_OCTAL)
        r = append_number(records, "uid", e->uid);
    if (r == 0 && e->gid > ID_MAX_OCTAL)
        r = append_number(records, "gid", e->gid);
    return r;
}

static int append_records(struct atoll_buf *records, const struct atoll_tar_entry *e)
{
    struct head h;
    int r = 0;

    if (strlen(e->name) > sizeof(h.name))
        r = append_record(records, "path", e->name);
    if (r == 0 && is_link(e) && strlen(e->target) > sizeof(h.target))
        r = append_record(records, "linkpath", e->target);
    if (r == 0 && e->type == ATOLL_TAR_FILE && e->size > SIZE_MAX_OCTAL)
        r = append_number(records, "size", e->size);
    if (r == 0 && e->exact)
        r = append_exact(records, e);
    for (size_t i = 0; r == 0 && i < e->attribute_count; i++)
        r = append_bytes(records, "SCHILY.xattr.", e->attributes[i].name, e->attributes[i].value,
                         e->attributes[i].len);
    return r;
}

/* Values that do not fit into the fields of the head are written before it, in an entry of type
 * x. */
static int append_extended(struct atoll_buf *out, const struct atoll_tar_entry *e)
{
    struct head h = {.type = 'x'};
    struct atoll_buf records;
    int r;

    atoll_buf_init(&records, e->attribute_count ? RECORDS_MAX : (size_t)16 * 1024);
    r = append_records(&records, e);
    if (r == 0 && atoll_buf_size(&records) > 0) {
        put(h.name, sizeof(h.name), "pax");
        put_octal(h.mode, sizeof(h.mode), 0644);
        put_octal(h.size, sizeof(h.size), atoll_buf_size(&records));
        r = append_head(out, &h);
        if (r == 0)
            r = atoll_buf_append(out, atoll_buf_head(&records), atoll_buf_size(&records));
        if (r == 0)
            r = pad(out, atoll_buf_size(&records));
    }
    atoll_buf_done(&records);
    return r;
}

int atoll_tar_head(struct atoll_buf *out, const struct atoll_tar_entry *e)
{
    const char *target = is_link(e) ? e->target : "";
    uint64_t size = e->type == ATOLL_TAR_FILE ? e->size : 0;
    struct head h = {.type = (char)e->type};
    int r = append_extended(out, e);

    put(h.name, sizeof(h.name), e->name);
    put(h.target, sizeof(h.target), target);
    put(h.owner, sizeof(h.owner) - 1, e->owner ?: "");
    put(h.group, sizeof(h.group) - 1, e->group ?: "");
    put_octal(h.mode, sizeof(h.mode), e->mode & 07777);
    put_octal(h.uid, sizeof(h.uid), ATOLL_MIN(e->uid, ID_MAX_OCTAL));
    put_octal(h.gid, sizeof(h.gid), ATOLL_MIN(e->gid, ID_MAX_OCTAL));
    put_octal(h.size, sizeof(h.size), ATOLL_MIN(size, SIZE_MAX_OCTAL));
    put_octal(h.mtime, sizeof(h.mtime),
              e->mtime_s > 0 ? ATOLL_MIN((uint64_t)e->mtime_s, SIZE_MAX_OCTAL) : 0);
    return r < 0 ? r : append_head(out, &h);
}
