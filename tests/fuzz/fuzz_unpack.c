/*
 * What atoll-unpack and atoll-copy read: lines of manifests, names of entries, tar archives and files of
 * package managers. The first byte says which.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/tree_line.h"
#include "fuzz.h"
#include "unpack/names.h"
#include "unpack/sbom_parse.h"
#include "unpack/tar_read.h"

#define ITEMS_MAX 1000

static char *text_of(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);

    FUZZ_CHECK(text);
    memcpy(text, data, size);
    text[size] = '\0';
    return text;
}

/* A line that is read is written as a line that reads the same. */
static void try_line(const uint8_t *data, size_t size)
{
    char *text = text_of(data, size), *again;
    struct atoll_tree_line line, second;
    struct atoll_buf out;

    if (atoll_tree_line_read(text, &line) == 0) {
        atoll_buf_init(&out, 4 * size + 256);
        FUZZ_CHECK(atoll_tree_line_write(&out, &line) == 0);
        again = text_of(atoll_buf_head(&out), atoll_buf_size(&out) - 1);
        FUZZ_CHECK(!strchr(again, '\n') && atoll_tree_line_read(again, &second) == 0);
        FUZZ_CHECK(line.type == second.type && line.mode == second.mode && line.uid == second.uid &&
                   line.gid == second.gid && line.size == second.size &&
                   strcmp(line.sha256, second.sha256) == 0 && strcmp(line.path, second.path) == 0 &&
                   strcmp(line.target, second.target) == 0);
        FUZZ_CHECK(*line.path != '/' && strcmp(line.path, "..") != 0);
        free(again);
        atoll_buf_done(&out);
    }
    free(text);
}

/* A clean name has no "..", and is clean. */
static void try_name(const uint8_t *data, size_t size)
{
    char *text = text_of(data, size);
    struct atoll_buf clean, again;
    const char *name, *path;

    atoll_buf_init(&clean, size + 1);
    atoll_buf_init(&again, size + 1);
    if (atoll_names_clean(&clean, text) == 0) {
        path = atoll_buf_str(&clean);
        FUZZ_CHECK(*path != '/' && !strstr(path, "//") && !strstr(path, "/../"));
        FUZZ_CHECK(atoll_names_clean(&again, path) == 0 &&
                   strcmp(atoll_buf_str(&again), path) == 0);
        switch (atoll_names_kind(path, &name)) {
        case ATOLL_NAMES_WHITEOUT:
            FUZZ_CHECK(*name && !strchr(name, '/') && strcmp(name, ".") != 0 &&
                       strcmp(name, "..") != 0);
            break;
        case ATOLL_NAMES_PLAIN:
            FUZZ_CHECK(!strchr(name, '/') && strncmp(name, ".wh.", 4) != 0);
            break;
        default:
            break;
        }
    }
    (void)atoll_sbom_kind(text);
    atoll_buf_done(&clean);
    atoll_buf_done(&again);
    free(text);
}

struct memory {
    const uint8_t *bytes;
    size_t size, at, piece;
};

static int peek(void *arg, const uint8_t **ret_bytes, size_t *ret_n, struct atoll_error *err)
{
    struct memory *m = arg;
    size_t end = (m->at / m->piece + 1) * m->piece;

    (void)err;
    if (m->at == m->size)
        return 0;
    *ret_bytes = m->bytes + m->at;
    *ret_n = ATOLL_MIN(end, m->size) - m->at;
    return 1;
}

static void skip(void *arg, size_t n)
{
    struct memory *m = arg;

    FUZZ_CHECK(n <= m->size - m->at);
    m->at += n;
}

static uint64_t mix(uint64_t sum, const void *bytes, size_t n)
{
    const uint8_t *p = bytes;

    for (size_t i = 0; i < n; i++)
        sum = (sum ^ p[i]) * UINT64_C(0x100000001b3);
    return sum;
}

static uint64_t read_file(struct atoll_tar_reader *r, const struct atoll_tar_item *item,
                          uint64_t sum)
{
    const uint8_t *bytes;
    uint64_t offset, end = 0;
    struct atoll_error err;
    size_t n;

    while (atoll_tar_reader_data(r, &bytes, &n, &offset, &err) > 0) {
        FUZZ_CHECK(n > 0 && offset >= end && offset + n <= item->size);
        FUZZ_CHECK(item->sparse || offset == end);
        end = offset + n;
        sum = mix(sum, bytes, n);
    }
    return sum;
}

/* A digest of all that the reader finds. */
static uint64_t read_archive(const uint8_t *data, size_t size, size_t piece)
{
    struct memory m = {.bytes = data, .size = size, .piece = piece};
    struct atoll_tar_source source = {peek, skip, &m};
    struct atoll_tar_reader *r = atoll_tar_reader_new(&source);
    struct atoll_tar_item item;
    struct atoll_error err;
    uint64_t sum = 7;
    int got = 0;

    for (int i = 0; i < ITEMS_MAX && (got = atoll_tar_reader_next(r, &item, &err)) > 0; i++) {
        FUZZ_CHECK(*item.path && item.mode <= 07777 && item.mtime_ns < 1000000000);
        FUZZ_CHECK(item.kind == ATOLL_TAR_IS_FILE || item.size == 0);
        FUZZ_CHECK((item.kind == ATOLL_TAR_IS_HARD_LINK || item.kind == ATOLL_TAR_IS_SYMLINK) ==
                   (*item.target != '\0'));
        sum = mix(sum, item.path, strlen(item.path));
        sum = mix(sum, item.target, strlen(item.target));
        sum = mix(sum, &item.mtime_s, sizeof(item.mtime_s));
        for (size_t k = 0; k < item.xattr_count; k++) {
            FUZZ_CHECK(*item.xattrs[k].name);
            sum = mix(sum, item.xattrs[k].value, item.xattrs[k].len);
        }
        /* Every second file is passed over. Entries of unknown types may have data, which is too. */
        if (i % 2 == 0 && item.kind == ATOLL_TAR_IS_FILE)
            sum = read_file(r, &item, sum);
    }
    atoll_tar_reader_free(r);
    return mix(sum, &got, sizeof(got));
}

static void take(void *arg, const struct atoll_sbom_package *package)
{
    unsigned *count = arg;

    FUZZ_CHECK(*package->name && package->version && package->arch && package->license);
    ++*count;
}

static void try_packages(enum atoll_sbom_kind kind, const uint8_t *data, size_t size)
{
    char *text = text_of(data, size);
    unsigned count = 0;

    atoll_sbom_parse(kind, text, size, take, &count);
    FUZZ_CHECK(count <= size);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    switch (data[0]) {
    case 'l':
        try_line(data + 1, size - 1);
        break;
    case 'n':
        try_name(data + 1, size - 1);
        break;
    case 't':
        FUZZ_CHECK(read_archive(data + 1, size - 1, 512) ==
                   read_archive(data + 1, size - 1, (size_t)1 << 20));
        break;
    case 'd':
        try_packages(ATOLL_SBOM_DEB, data + 1, size - 1);
        break;
    case 'a':
        try_packages(ATOLL_SBOM_APK, data + 1, size - 1);
        break;
    case 'p':
        try_packages(ATOLL_SBOM_PYPI, data + 1, size - 1);
        break;
    case 'j':
        try_packages(ATOLL_SBOM_NPM, data + 1, size - 1);
        break;
    case 'o':
        try_packages(ATOLL_SBOM_OS, data + 1, size - 1);
        break;
    default:
        break;
    }
    return 0;
}
