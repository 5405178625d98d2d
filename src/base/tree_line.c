#include "base/tree_line.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define FIELDS 8

static bool is_escaped(uint8_t c)
{
    return c <= ' ' || c == '\\' || c == 0x7f;
}

/* An empty text, which only a target can be, is "-". */
static int write_text(struct atoll_buf *out, const char *text)
{
    int r = 0;

    if (!*text)
        return atoll_buf_appends(out, "-");
    if (strcmp(text, "-") == 0)
        return atoll_buf_appends(out, "\\055");
    while (r == 0 && *text) {
        size_t plain = 0;

        while (text[plain] && !is_escaped((uint8_t)text[plain]))
            plain++;
        r = atoll_buf_append(out, text, plain);
        text += plain;
        if (r == 0 && *text)
            r = atoll_buf_appendf(out, "\\%03o", (unsigned)(uint8_t)*text++);
    }
    return r;
}

int atoll_tree_line_write(struct atoll_buf *out, const struct atoll_tree_line *line)
{
    size_t start = out->len - out->off;
    int r =
        atoll_buf_appendf(out, "%c %o %u %u %llu %s ", line->type, line->mode, line->uid, line->gid,
                          (unsigned long long)line->size, *line->sha256 ? line->sha256 : "-");

    if (r == 0)
        r = write_text(out, *line->path ? line->path : ".");
    if (r == 0)
        r = atoll_buf_appends(out, " ");
    if (r == 0)
        r = write_text(out, line->target);
    if (r == 0)
        r = atoll_buf_appends(out, "\n");
    if (r < 0)
        out->len = out->off + start;
    return r;
}

static int octal_digits(const char *text)
{
    int value = 0;

    for (int i = 0; i < 3; i++) {
        if (text[i] < '0' || text[i] > '7')
            return -EINVAL;
        value = value * 8 + (text[i] - '0');
    }
    return value > 0 && value < 256 ? value : -EINVAL;
}

/* Replaces escapes in place. */
static int read_text(char *text)
{
    char *to = text;

    if (strcmp(text, "-") == 0) {
        *text = '\0';
        return 0;
    }
    while (*text) {
        int c = (uint8_t)*text;

        if (c == '\\') {
            c = octal_digits(text + 1);
            if (c < 0)
                return c;
            text += 3;
        } else if (is_escaped((uint8_t)c)) {
            return -EINVAL;
        }
        *to++ = (char)c;
        text++;
    }
    *to = '\0';
    return 0;
}

static int read_number(const char *text, unsigned base, uint64_t max, uint64_t *ret)
{
    uint64_t value = 0;

    if (!*text)
        return -EINVAL;
    for (; *text; text++) {
        unsigned digit = (unsigned)(*text - '0');

        if (*text < '0' || digit >= base || value > (max - digit) / base)
            return -EINVAL;
        value = value * base + digit;
    }
    *ret = value;
    return 0;
}

static int read_digest(const char *text, char *out)
{
    if (strcmp(text, "-") == 0) {
        *out = '\0';
        return 0;
    }
    if (strlen(text) != 64 || strspn(text, "0123456789abcdef") != 64)
        return -EINVAL;
    memcpy(out, text, 65);
    return 0;
}

/* Splits at single spaces; exactly FIELDS fields, none of them empty. */
static int split(char *text, char **fields)
{
    for (size_t i = 0; i < FIELDS; i++) {
        char *end = strchr(text, ' ');

        fields[i] = text;
        if ((end == NULL) != (i + 1 == FIELDS) || *text == '\0' || end == text)
            return -EINVAL;
        if (end) {
            *end = '\0';
            text = end + 1;
        }
    }
    return 0;
}

/* No component is "..", "." or empty. */
static bool is_clean(const char *path)
{
    while (*path) {
        size_t n = strcspn(path, "/");

        if (n == 0 || (n == 1 && *path == '.') || (n == 2 && memcmp(path, "..", 2) == 0))
            return false;
        path += n;
        if (*path == '/' && !*++path)
            return false;
    }
    return true;
}

int atoll_tree_line_read(char *text, struct atoll_tree_line *ret)
{
    struct atoll_tree_line line = {0};
    char *fields[FIELDS];
    uint64_t mode, uid, gid;

    if (split(text, fields) < 0 || strlen(fields[0]) != 1 || !strchr("fdlpw", *fields[0]) ||
        read_number(fields[1], 8, 07777, &mode) < 0 ||
        read_number(fields[2], 10, UINT32_MAX, &uid) < 0 ||
        read_number(fields[3], 10, UINT32_MAX, &gid) < 0 ||
        read_number(fields[4], 10, INT64_MAX, &line.size) < 0 ||
        read_digest(fields[5], line.sha256) < 0)
        return -EINVAL;
    line.type = (enum atoll_tree_type)(uint8_t)*fields[0];
    if (strcmp(fields[6], ".") == 0)
        *fields[6] = '\0';
    else if (strcmp(fields[6], "-") == 0 || read_text(fields[6]) < 0 || !is_clean(fields[6]))
        return -EINVAL;
    if (read_text(fields[7]) < 0 || (line.type == ATOLL_TREE_LINK) != (*fields[7] != '\0') ||
        (line.type == ATOLL_TREE_FILE) != (*line.sha256 != '\0'))
        return -EINVAL;
    line.mode = (uint32_t)mode;
    line.uid = (uint32_t)uid;
    line.gid = (uint32_t)gid;
    line.path = fields[6];
    line.target = fields[7];
    *ret = line;
    return 0;
}
