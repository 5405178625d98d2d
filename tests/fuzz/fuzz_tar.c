/*
 * Heads of tar archives made of what an agent says about files: names and targets of any bytes and
 * length, any sizes, times and ids. Whoever unpacks them, here a small reader of our own, must find what
 * was said, and nothing else.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/tar.h"
#include "fuzz.h"
#include "proto/agent_proto.h"

#define OCTAL_MAX UINT64_C(077777777777)

/* What a reader knows of the next entry. */
struct seen {
    char name[16 * 1024], target[16 * 1024];
    uint64_t size, mtime, mode;
    char type;
};

static uint64_t octal(const uint8_t *field, size_t width)
{
    char text[16] = "";

    memcpy(text, field, width);
    FUZZ_CHECK(strspn(text, "01234567") == strlen(text) && strlen(text) < width);
    return strtoull(text, NULL, 8);
}

static void check_sum(const uint8_t *head)
{
    unsigned sum = 0;

    for (size_t i = 0; i < ATOLL_TAR_BLOCK; i++)
        sum += i >= 148 && i < 156 ? ' ' : head[i];
    FUZZ_CHECK(strtoul((const char *)head + 148, NULL, 8) == sum);
}

/* "LENGTH key=value\n" … */
static void read_records(const char *text, size_t n, struct seen *seen)
{
    while (n > 0) {
        char *rest;
        size_t len = strtoul(text, &rest, 10), key;
        const char *end = text + len;
        FUZZ_CHECK(*rest == ' ' && len <= n && len > (size_t)(rest - text) && end[-1] == '\n');
        rest++;
        key = strcspn(rest, "=");
        if (key == 4 && memcmp(rest, "path", 4) == 0)
            (void)snprintf(seen->name, sizeof(seen->name), "%.*s", (int)(end - 1 - rest - 5),
                           rest + 5);
        else if (key == 8 && memcmp(rest, "linkpath", 8) == 0)
            (void)snprintf(seen->target, sizeof(seen->target), "%.*s", (int)(end - 1 - rest - 9),
                           rest + 9);
        else if (key == 4 && memcmp(rest, "size", 4) == 0)
            seen->size = strtoull(rest + 5, NULL, 10);
        else
            FUZZ_CHECK(false);
        text = end;
        n -= len;
    }
}

static void read_head(const uint8_t *head, struct seen *seen)
{
    check_sum(head);
    FUZZ_CHECK(memcmp(head + 257,
                      "ustar\0"
                      "00",
                      8) == 0);
    if (!*seen->name)
        (void)snprintf(seen->name, sizeof(seen->name), "%.100s", (const char *)head);
    if (!*seen->target)
        (void)snprintf(seen->target, sizeof(seen->target), "%.100s", (const char *)head + 157);
    seen->mode = octal(head + 100, 8);
    if (seen->size == 0)
        seen->size = octal(head + 124, 12);
    seen->mtime = octal(head + 136, 12);
    seen->type = (char)head[156];
}

static void read_all(const uint8_t *bytes, size_t n, struct seen *seen)
{
    *seen = (struct seen){.type = 0};
    FUZZ_CHECK(n >= ATOLL_TAR_BLOCK && n % ATOLL_TAR_BLOCK == 0);
    if (bytes[156] == 'x') {
        size_t size = (size_t)octal(bytes + 124, 12);
        size_t whole = ATOLL_TAR_BLOCK + size + atoll_tar_padding(size);
        check_sum(bytes);
        FUZZ_CHECK(whole < n);
        read_records((const char *)bytes + ATOLL_TAR_BLOCK, size, seen);
        bytes += whole;
        n -= whole;
    }
    FUZZ_CHECK(n == ATOLL_TAR_BLOCK);
    read_head(bytes, seen);
}

static struct atoll_tar_entry entry_of(const struct atoll_am_entry *e)
{
    return (struct atoll_tar_entry){
        .type = e->type == ATOLL_ENTRY_DIRECTORY ? ATOLL_TAR_DIRECTORY
                : e->type == ATOLL_ENTRY_SYMLINK ? ATOLL_TAR_SYMLINK
                                                 : ATOLL_TAR_FILE,
        .name = e->path,
        .target = e->target,
        .owner = e->owner,
        .group = e->group,
        .mode = e->mode,
        .uid = e->uid,
        .gid = e->gid,
        .size = e->size_bytes,
        .mtime_s = e->mtime_ms / 1000,
    };
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct seen seen;
    struct atoll_am_entry e;
    struct atoll_tar_entry entry;
    struct atoll_buf out;

    if (atoll_msg_decode(&atoll_am_entry_desc, data, size, &e, NULL) < 0 || !*e.path)
        return 0;
    atoll_buf_init(&out, (size_t)64 * 1024);
    entry = entry_of(&e);
    if (atoll_tar_head(&out, &entry) == 0) {
        read_all(atoll_buf_head(&out), atoll_buf_size(&out), &seen);
        FUZZ_CHECK(strcmp(seen.name, e.path) == 0);
        FUZZ_CHECK(e.type != ATOLL_ENTRY_SYMLINK || strcmp(seen.target, e.target) == 0);
        FUZZ_CHECK(seen.size == (entry.type == ATOLL_TAR_FILE ? e.size_bytes : 0) &&
                   seen.mode == (e.mode & 07777));
        FUZZ_CHECK(e.mtime_ms <= 0
                       ? seen.mtime == 0
                       : seen.mtime == ATOLL_MIN((uint64_t)e.mtime_ms / 1000, OCTAL_MAX));
    } else {
        FUZZ_CHECK(strlen(e.path) + strlen(e.target) > (size_t)15 * 1024);
    }
    FUZZ_CHECK(atoll_tar_padding(e.size_bytes) < ATOLL_TAR_BLOCK);
    atoll_buf_done(&out);
    return 0;
}
