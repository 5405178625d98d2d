/*
 * Forms of uploads. The first byte says how the rest is cut; what comes out must not depend on that,
 * and the data of all parts together is never more than what went in.
 */
#include <errno.h>
#include <string.h>
#include "api/kit/multipart.h"
#include "base/buf.h"
#include "fuzz.h"

struct transcript {
    struct atoll_buf text;
    int r;
};

static void note(struct transcript *t, const void *bytes, size_t n)
{
    FUZZ_CHECK(atoll_buf_append(&t->text, bytes, n) == 0);
}

static void note_event(struct transcript *t, const struct atoll_multipart_event *e)
{
    uint8_t kind = (uint8_t)e->kind;

    if (e->kind == ATOLL_PART_DATA) {
        FUZZ_CHECK(e->len > 0);
        note(t, e->data, e->len);
        return;
    }
    note(t, &kind, 1);
    if (e->kind == ATOLL_PART_BEGIN) {
        note(t, e->name, strlen(e->name) + 1);
        if (e->filename)
            note(t, e->filename, strlen(e->filename) + 1);
    }
}

static void run(const uint8_t *data, size_t size, size_t piece, struct transcript *t)
{
    struct atoll_multipart m;

    atoll_buf_init(&t->text, (size_t)16 * 1024 * 1024);
    t->r = atoll_multipart_init(&m, "multipart/form-data; boundary=\"b\"");
    FUZZ_CHECK(t->r == 0);
    for (size_t at = 0; at < size && t->r == 0; at += piece) {
        const uint8_t *p = data + at;
        size_t n = size - at < piece ? size - at : piece;
        struct atoll_multipart_event e;
        while ((t->r = atoll_multipart_next(&m, &p, &n, &e)) > 0)
            note_event(t, &e);
        FUZZ_CHECK(t->r == 0 ? n == 0 : t->r == -EBADMSG || t->r == -E2BIG);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct atoll_multipart m;
    struct transcript cut, whole;
    char type[256];

    if (size < 1)
        return 0;
    (void)strncpy(type, (const char *)data, size < sizeof(type) ? size : sizeof(type) - 1);
    type[size < sizeof(type) ? size : sizeof(type) - 1] = '\0';
    (void)!atoll_multipart_init(&m, type);
    run(data + 1, size - 1, (size_t)data[0] + 1, &cut);
    run(data + 1, size - 1, size, &whole);
    FUZZ_CHECK(cut.r == whole.r);
    FUZZ_CHECK(atoll_buf_size(&cut.text) == atoll_buf_size(&whole.text));
    FUZZ_CHECK(atoll_buf_size(&cut.text) == 0 ||
               memcmp(atoll_buf_head(&cut.text), atoll_buf_head(&whole.text),
                      atoll_buf_size(&cut.text)) == 0);
    FUZZ_CHECK(atoll_buf_size(&whole.text) <= size + size);
    atoll_buf_done(&cut.text);
    atoll_buf_done(&whole.text);
    return 0;
}
