#include "proto/msg.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

static int put_u32(struct atoll_buf *out, uint32_t value)
{
    value = htole32(value);
    return atoll_buf_append(out, &value, sizeof(value));
}

static int put_u64(struct atoll_buf *out, uint64_t value)
{
    value = htole64(value);
    return atoll_buf_append(out, &value, sizeof(value));
}

static int put_run(struct atoll_buf *out, const void *bytes, size_t n)
{
    int r;

    if (n > UINT32_MAX - 1)
        return -ENOBUFS;
    r = put_u32(out, (uint32_t)n);
    if (r == 0)
        r = atoll_buf_append(out, bytes, n);
    return r < 0 ? r : atoll_buf_append(out, "", 1);
}

static int put_str(struct atoll_buf *out, const char *text)
{
    return text ? put_run(out, text, strlen(text)) : put_run(out, "", 0);
}

static int put_strv(struct atoll_buf *out, const struct atoll_strv *v)
{
    int r = v->len <= ATOLL_STRV_MAX ? put_u32(out, (uint32_t)v->len) : -ENOBUFS;

    for (size_t i = 0; r == 0 && i < v->len; i++)
        r = put_str(out, v->items[i]);
    return r;
}

static int put_field(struct atoll_buf *out, enum atoll_msg_field_type type, const void *at)
{
    const struct atoll_bytes *run = at;

    switch (type) {
    case ATOLL_MSG_U8:
        return atoll_buf_append(out, at, 1);
    case ATOLL_MSG_U32:
    case ATOLL_MSG_I32:
        return put_u32(out, *(const uint32_t *)at);
    case ATOLL_MSG_U64:
    case ATOLL_MSG_I64:
        return put_u64(out, *(const uint64_t *)at);
    case ATOLL_MSG_STR:
        return put_str(out, *(const char *const *)at);
    case ATOLL_MSG_BYTES:
        return put_run(out, run->data, run->len);
    case ATOLL_MSG_STRV:
        return put_strv(out, at);
    }
    return -EINVAL;
}

int atoll_msg_encode(const struct atoll_msg_desc *desc, const void *msg, struct atoll_buf *out)
{
    for (size_t i = 0; i < desc->field_count; i++) {
        int r = put_field(out, desc->fields[i].type, (const char *)msg + desc->fields[i].offset);
        if (r < 0)
            return r;
    }
    return 0;
}

struct reader {
    const uint8_t *p, *end;
};

static int take(struct reader *in, void *value, size_t n)
{
    if ((size_t)(in->end - in->p) < n)
        return -EBADMSG;
    memcpy(value, in->p, n);
    in->p += n;
    return 0;
}

static int take_u32(struct reader *in, uint32_t *value)
{
    int r = take(in, value, sizeof(*value));
    *value = r < 0 ? 0 : le32toh(*value);
    return r;
}

static int take_u64(struct reader *in, uint64_t *value)
{
    int r = take(in, value, sizeof(*value));
    *value = r < 0 ? 0 : le64toh(*value);
    return r;
}

static int take_run(struct reader *in, struct atoll_bytes *run)
{
    uint32_t n;
    int r = take_u32(in, &n);

    if (r < 0)
        return r;
    if ((size_t)(in->end - in->p) < (size_t)n + 1 || in->p[n] != '\0')
        return -EBADMSG;
    *run = (struct atoll_bytes){in->p, n};
    in->p += (size_t)n + 1;
    return 0;
}

/* A string may not contain a NUL: the sender and the receiver would disagree about its end. */
static int take_str(struct reader *in, const char **text)
{
    struct atoll_bytes run;
    int r = take_run(in, &run);

    if (r < 0)
        return r;
    if (memchr(run.data, '\0', run.len))
        return -EBADMSG;
    *text = (const char *)run.data;
    return 0;
}

static int take_strv(struct reader *in, struct atoll_strv *v)
{
    uint32_t n;
    int r = take_u32(in, &n);

    if (r < 0)
        return r;
    if (n > ATOLL_STRV_MAX)
        return -EBADMSG;
    /* One extra item: the NULL at the end makes it usable as argv. */
    v->items = calloc((size_t)n + 1, sizeof(*v->items));
    if (!v->items)
        return -ENOMEM;
    for (; r == 0 && v->len < n; v->len += r == 0)
        r = take_str(in, &v->items[v->len]);
    return r;
}

static int take_field(struct reader *in, enum atoll_msg_field_type type, void *at)
{
    switch (type) {
    case ATOLL_MSG_U8:
        return take(in, at, 1);
    case ATOLL_MSG_U32:
    case ATOLL_MSG_I32:
        return take_u32(in, at);
    case ATOLL_MSG_U64:
    case ATOLL_MSG_I64:
        return take_u64(in, at);
    case ATOLL_MSG_STR:
        return take_str(in, at);
    case ATOLL_MSG_BYTES:
        return take_run(in, at);
    case ATOLL_MSG_STRV:
        return take_strv(in, at);
    }
    return -EINVAL;
}

int atoll_msg_decode(const struct atoll_msg_desc *desc, const uint8_t *bytes, size_t n,
                     void *ret_msg, struct atoll_error *err)
{
    struct reader in = {bytes, bytes + n};

    memset(ret_msg, 0, desc->size);
    for (size_t i = 0; i < desc->field_count && in.p < in.end; i++) {
        int r = take_field(&in, desc->fields[i].type, (char *)ret_msg + desc->fields[i].offset);
        if (r < 0) {
            atoll_msg_done(desc, ret_msg);
            return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, -r, "%s: field %zu is malformed",
                              desc->name, i);
        }
    }
    /* A missing string field becomes "", so that callers need not check for NULL. */
    for (size_t i = 0; i < desc->field_count; i++) {
        const char **text = (const char **)(void *)((char *)ret_msg + desc->fields[i].offset);
        if (desc->fields[i].type == ATOLL_MSG_STR && !*text)
            *text = "";
    }
    return 0;
}

void atoll_msg_done(const struct atoll_msg_desc *desc, void *msg)
{
    for (size_t i = 0; i < desc->field_count; i++)
        if (desc->fields[i].type == ATOLL_MSG_STRV) {
            struct atoll_strv *v = (void *)((char *)msg + desc->fields[i].offset);
            free(v->items);
            *v = (struct atoll_strv){0};
        }
}
