#include "api/daytona/lsp_frames.h"

#include <errno.h>
#include <string.h>

static const char head[] = "Content-Length:";
#define HEAD_LEN (sizeof(head) - 1)

/* The length that the digits at `text` name; false: they are no length, or no line break follows. */
static bool take_length(const uint8_t *text, size_t n, size_t *ret)
{
    size_t at = 0, digits = 0;

    *ret = 0;
    while (at < n && text[at] == ' ')
        at++;
    for (; at < n && text[at] >= '0' && text[at] <= '9'; at++, digits++)
        if (*ret <= ATOLL_LSP_MESSAGE_MAX)
            *ret = *ret * 10 + (size_t)(text[at] - '0');
    return digits > 0 && at < n && text[at] == '\r';
}

/* Bytes at the end that can be the beginning of a head. */
static size_t open_end(size_t n)
{
    return n < HEAD_LEN ? n : HEAD_LEN - 1;
}

int atoll_lsp_next(const uint8_t *bytes, size_t n, struct atoll_lsp_message *ret, size_t *ret_used)
{
    const uint8_t *at = bytes, *end, *found, *blank;
    size_t len, left;

    *ret_used = 0;
    if (n == 0)
        return 0; /* the bytes of an empty buffer are NULL */
    end = bytes + n;
    while ((found = memmem(at, (size_t)(end - at), head, HEAD_LEN))) {
        at = found + HEAD_LEN;
        left = ATOLL_MIN((size_t)(end - at), (size_t)ATOLL_LSP_HEAD_MAX);
        blank = memmem(at, left, "\r\n\r\n", 4);
        *ret_used = (size_t)(found - bytes);
        if (!blank && left < ATOLL_LSP_HEAD_MAX)
            return 0;
        if (!blank || !take_length(at, left, &len))
            continue;
        if (len > ATOLL_LSP_MESSAGE_MAX)
            return -EMSGSIZE;
        *ret = (struct atoll_lsp_message){blank + 4, len};
        if ((size_t)(end - ret->json) < len)
            return 0;
        *ret_used = (size_t)(ret->json - bytes) + len;
        return 1;
    }
    *ret_used = (size_t)(end - at) - open_end((size_t)(end - at)) + (size_t)(at - bytes);
    return 0;
}

int atoll_lsp_append(struct atoll_buf *out, const char *json)
{
    int r = atoll_buf_appendf(out, "Content-Length: %zu\r\n\r\n", strlen(json));

    return r < 0 ? r : atoll_buf_appends(out, json);
}
