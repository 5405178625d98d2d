#include "tools/verify/attacks/hostile_tar.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "base/fd.h"

#define BLOCK 512

/* The fields of a header block that we use (POSIX.1-1988 "ustar"). */
struct header {
    char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], sum[8], type, link[100], magic[8],
        user[32], group[32], major[8], minor[8], prefix[155], rest[12];
};

_Static_assert(sizeof(struct header) == BLOCK, "a header is one block");

/* Sizes of 8 GiB and more are written in base 256 (GNU format). */
static void put_size(char *field, uint64_t size)
{
    char text[24];

    if (size < (uint64_t)1 << 33) {
        (void)snprintf(text, sizeof(text), "%011llo", (unsigned long long)size);
        memcpy(field, text, 12);
        return;
    }
    memset(field, 0, 12);
    field[0] = (char)0x80;
    for (int i = 11; i >= 4; i--, size >>= 8)
        field[i] = (char)(size & 0xff);
}

static uint64_t get_size(const char *field)
{
    uint64_t size = 0;
    char text[13] = "";

    if ((unsigned char)field[0] & 0x80) {
        for (int i = 4; i < 12; i++)
            size = size << 8 | (unsigned char)field[i];
        return size;
    }
    memcpy(text, field, 12);
    return strtoull(text, NULL, 8);
}

static void fill(struct header *h, const struct atoll_hostile_tar_entry *entry, uint64_t size)
{
    unsigned sum = 0;

    memset(h, 0, sizeof(*h));
    memcpy(h->name, entry->name, strnlen(entry->name, sizeof(h->name)));
    if (entry->link)
        memcpy(h->link, entry->link, strnlen(entry->link, sizeof(h->link)));
    (void)snprintf(h->mode, sizeof(h->mode), "%07o", (entry->mode ? entry->mode : 0644) & 07777);
    memcpy(h->uid, "0000000", 8);
    memcpy(h->gid, "0000000", 8);
    put_size(h->size, size);
    memcpy(h->mtime, "00000000000", 12);
    memcpy(h->major, "0000001", 8);
    memcpy(h->minor, "0000003", 8);
    memcpy(h->magic,
           "ustar\0"
           "00",
           8);
    memset(h->sum, ' ', sizeof(h->sum));
    h->type = entry->type;
    for (size_t i = 0; i < sizeof(*h); i++)
        sum += ((const unsigned char *)h)[i];
    (void)snprintf(h->sum, sizeof(h->sum), "%06o", sum);
}

/* A name that does not fit is written in a GNU long-name entry before the entry. */
static int add_long(struct atoll_buf *out, char type, const char *text)
{
    const struct atoll_hostile_tar_entry entry = {
        .name = "././@LongLink", .type = type, .data = text};

    return text && strlen(text) > sizeof(((struct header *)0)->name)
               ? atoll_hostile_tar_add(out, &entry)
               : 0;
}

int atoll_hostile_tar_add(struct atoll_buf *out, const struct atoll_hostile_tar_entry *entry)
{
    static const char zeros[BLOCK];
    size_t n = entry->data ? strlen(entry->data) : 0;
    struct header h;
    int r = add_long(out, 'L', entry->name);

    if (r == 0)
        r = add_long(out, 'K', entry->link);
    fill(&h, entry, entry->claims ? entry->claims : n);
    if (r == 0)
        r = atoll_buf_append(out, &h, sizeof(h));
    if (r == 0 && n > 0)
        r = atoll_buf_append(out, entry->data, n);
    if (r == 0 && n % BLOCK)
        r = atoll_buf_append(out, zeros, BLOCK - n % BLOCK);
    return r;
}

/* "LENGTH path=VALUE\n", where LENGTH counts itself. */
int atoll_hostile_tar_add_pax_path(struct atoll_buf *out, const char *path)
{
    char record[1200];
    size_t len = strlen(path) + strlen(" path=\n"), total = len + 1;
    struct atoll_hostile_tar_entry entry = {.name = "pax", .type = 'x', .data = record};

    while (total != len + (size_t)snprintf(NULL, 0, "%zu", total))
        total = len + (size_t)snprintf(NULL, 0, "%zu", total);
    if (total >= sizeof(record))
        return -ENOBUFS;
    (void)snprintf(record, sizeof(record), "%zu path=%s\n", total, path);
    return atoll_hostile_tar_add(out, &entry);
}

int atoll_hostile_tar_end(struct atoll_buf *out)
{
    static const char zeros[2 * BLOCK];

    return atoll_buf_append(out, zeros, sizeof(zeros));
}

/* Deflate (RFC 1951): bits are packed from the lowest, Huffman codes from their highest bit. */
struct bits {
    struct atoll_buf *out;
    unsigned held, count;
    int result;
};

static void put_bit(struct bits *b, unsigned bit)
{
    uint8_t byte;

    b->held |= bit << b->count;
    if (++b->count < 8)
        return;
    byte = (uint8_t)b->held;
    if (b->result == 0)
        b->result = atoll_buf_append(b->out, &byte, 1);
    b->held = b->count = 0;
}

static void put_code(struct bits *b, unsigned code, unsigned width)
{
    while (width-- > 0)
        put_bit(b, code >> width & 1);
}

int atoll_hostile_tar_gzip_bomb(struct atoll_buf *out, uint64_t size)
{
    static const uint8_t head[] = {0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3};
    /* A stored block of one header, not the last. */
    static const uint8_t stored[] = {0, BLOCK & 0xff, BLOCK >> 8, 0xff, (~BLOCK >> 8) & 0xff};
    const struct atoll_hostile_tar_entry entry = {.name = "bomb", .type = '0', .claims = size};
    struct bits b = {.out = out};
    struct header h;

    fill(&h, &entry, size);
    b.result = atoll_buf_append(out, head, sizeof(head));
    if (b.result == 0)
        b.result = atoll_buf_append(out, stored, sizeof(stored));
    if (b.result == 0)
        b.result = atoll_buf_append(out, &h, sizeof(h));
    put_bit(&b, 1); /* the last block, with the fixed codes */
    put_bit(&b, 1);
    put_bit(&b, 0);
    put_code(&b, 0x30, 8); /* a zero byte */
    for (uint64_t done = 1; done < size && b.result == 0; done += 258) {
        put_code(&b, 0xc5, 8); /* repeat the last byte 258 times */
        put_code(&b, 0, 5);
    }
    put_code(&b, 0, 7);
    while (b.count != 0)
        put_bit(&b, 0);
    return b.result;
}

/* The careless extractor. */

static void place(const char *dir, const char *name, char *out, size_t cap)
{
    (void)snprintf(out, cap, *name == '/' ? "%s%s" : "%s/%s", *name == '/' ? "" : dir, name);
}

static void make(const char *path, const char *dir, const struct header *h, const char *link,
                 const void *data, size_t n, struct atoll_hostile_tar_carelessness *ret)
{
    uint64_t claims = get_size(h->size);
    char mode_text[9] = "", target[2048];
    ATOLL_AUTOCLOSE int fd = ATOLL_NO_FD;
    struct stat st;

    memcpy(mode_text, h->mode, 8);
    if (h->type == '2')
        (void)!symlink(link, path);
    if (h->type == '1') {
        place(dir, link, target, sizeof(target));
        (void)!linkat(AT_FDCWD, target, AT_FDCWD, path, 0);
    }
    if (h->type == '5')
        (void)mkdir(path, 0700);
    if (h->type != '0')
        return;
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK, 0644);
    if (fd < 0)
        return;
    if (claims > n)
        (void)!ftruncate(fd, (off_t)claims);
    (void)!atoll_fd_write_all(fd, data, n);
    if (strtoul(mode_text, NULL, 8) != 0644)
        (void)fchmod(fd, (mode_t)strtoul(mode_text, NULL, 8));
    if (fstat(fd, &st) == 0) {
        ret->entries++;
        ret->reserved = ATOLL_MAX(ret->reserved, (uint64_t)st.st_size);
        ret->kept_setuid |= (st.st_mode & S_ISUID) != 0;
    }
    if (ret->kept_setuid)
        (void)fchmod(fd, 0600);
}

/* Stores the name from a long-name entry or pax header for the next entry. */
static void note_name(char type, const char *data, size_t n, char *name, char *link, size_t cap)
{
    const char *path = memmem(data, n, "path=", 5);

    if (type == 'L')
        (void)snprintf(name, cap, "%.*s", (int)n, data);
    if (type == 'K')
        (void)snprintf(link, cap, "%.*s", (int)n, data);
    if (type == 'x' && path)
        (void)snprintf(name, cap, "%.*s", (int)strcspn(path + 5, "\n"), path + 5);
}

void atoll_hostile_tar_unpack_carelessly(const char *dir, const void *bytes, size_t n,
                                         struct atoll_hostile_tar_carelessness *ret)
{
    char name[1024] = "", link[1024] = "", path[2048];
    const char *p = bytes, *end = p + n;

    memset(ret, 0, sizeof(*ret));
    while (end - p >= BLOCK && *p) {
        const struct header *h = (const void *)p;
        uint64_t claims = get_size(h->size);
        size_t here = (size_t)(end - p) - BLOCK, size = claims < here ? (size_t)claims : here;
        if (strchr("LKx", h->type)) {
            note_name(h->type, p + BLOCK, size, name, link, sizeof(name));
        } else {
            if (!*name)
                (void)snprintf(name, sizeof(name), "%.100s", h->name);
            if (!*link)
                (void)snprintf(link, sizeof(link), "%.100s", h->link);
            place(dir, name, path, sizeof(path));
            make(path, dir, h, link, p + BLOCK, size, ret);
            name[0] = link[0] = '\0';
        }
        p += BLOCK + ATOLL_MIN(here, (size + BLOCK - 1) / BLOCK * BLOCK);
    }
}
