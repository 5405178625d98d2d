/*
 * Replacing a text in files, one after the other. Each file is replaced as a whole; a failure is part of
 * the answer and does not stop the others.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "api/daytona/toolbox_internal.h"

#define FILES_MAX 1000
#define FILE_MAX ((size_t)16 * 1024 * 1024)
#define TEXT_MAX ((double)ATOLL_BODY_JSON)

struct replacing {
    struct atoll_api_call *call;
    struct atoll_body body;
    const char *const *files; /* these three are of the body */
    const char *pattern, *value;
    size_t next;
    struct atoll_tenant_file *file; /* owned: being read */
    struct atoll_buf before, after;
    struct atoll_buf buf;
    struct atoll_json_out out;
};

static void next_file(struct replacing *p);

static void replacing_end(struct replacing *p)
{
    atoll_json_close(&p->out, ']');
    atoll_api_reply(p->call, 200, &p->out);
    (void)atoll_tenant_file_close(p->file);
    atoll_buf_done(&p->before);
    atoll_buf_done(&p->after);
    atoll_body_done(&p->body);
    free(p);
}

/* The result of the current file; error NULL: success. */
static void report(struct replacing *p, const char *error)
{
    atoll_json_open(&p->out, NULL, '{');
    atoll_json_text(&p->out, "file", p->files[p->next]);
    atoll_json_bool(&p->out, "success", !error);
    if (error)
        atoll_json_text(&p->out, "error", error);
    atoll_json_close(&p->out, '}');
    p->file = atoll_tenant_file_close(p->file);
    p->next++;
    next_file(p);
}

static void put(void *arg, const struct atoll_am_entry *entry ATOLL_UNUSED,
                const struct atoll_error *error)
{
    report(arg, error ? error->text : NULL);
}

static int replace_all(struct replacing *p)
{
    const uint8_t *at = atoll_buf_head(&p->before), *hit;
    size_t left = atoll_buf_size(&p->before), len = strlen(p->pattern);
    int r = 0;

    while (r == 0 && (hit = memmem(at, left, p->pattern, len))) {
        r = atoll_buf_append(&p->after, at, (size_t)(hit - at));
        if (r == 0)
            r = atoll_buf_appends(&p->after, p->value);
        left -= (size_t)(hit - at) + len;
        at = hit + len;
    }
    return r < 0 ? r : atoll_buf_append(&p->after, at, left);
}

static void read_whole(struct replacing *p)
{
    p->file = atoll_tenant_file_close(p->file);
    atoll_buf_clear(&p->after);
    if (atoll_buf_size(&p->before) == 0)
        report(p, NULL);
    else if (replace_all(p) < 0)
        report(p, "the file is too large");
    else
        atoll_files_put(p->call->engine, p->call->params.id, NULL, p->files[p->next], 0,
                        atoll_buf_head(&p->after), atoll_buf_size(&p->after), put, p);
}

static void read_more(void *arg)
{
    struct replacing *p = arg;
    const uint8_t *bytes;
    ssize_t n;

    while ((n = atoll_tenant_file_read(p->file, &bytes)) > 0)
        if (atoll_buf_append(&p->before, bytes, (size_t)n) < 0) {
            report(p, "the file is too large");
            return;
        }
    if (n == 0)
        read_whole(p);
    else if (n != -EAGAIN)
        report(p, strerror((int)-n));
}

static void opened(void *arg, struct atoll_tenant_file *file, uint64_t size_bytes ATOLL_UNUSED,
                   const struct atoll_error *error)
{
    struct replacing *p = arg;

    if (error) {
        report(p, error->text);
        return;
    }
    p->file = file;
    atoll_buf_clear(&p->before);
    atoll_tenant_file_on_ready(file, read_more, p);
    read_more(p);
}

static void next_file(struct replacing *p)
{
    if (p->files[p->next])
        atoll_files_open(p->call->engine, p->call->params.id, NULL, p->files[p->next], opened, p);
    else
        replacing_end(p);
}

void atoll_daytona_file_replace(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
#define AT(member) offsetof(struct replacing, member)
    static const struct atoll_field fields[] = {
        {"files", ATOLL_FIELD_STRINGS, AT(files), 0, FILES_MAX, NULL, 0},
        {"pattern", ATOLL_FIELD_STRING, AT(pattern), 0, TEXT_MAX, NULL, 0},
        {"newValue", ATOLL_FIELD_STRING, AT(value), 0, TEXT_MAX, NULL, 0},
        ATOLL_FIELDS_TOLERANT,
        {0},
    };
#undef AT
    struct replacing *p = atoll_api_alloc(sizeof(*p));

    p->call = call;
    if (!atoll_toolbox_decode(call, &p->body, bytes, n, fields, p)) {
        free(p);
        return;
    }
    if (!p->files || !p->files[0] || !p->pattern || !*p->pattern || !p->value) {
        atoll_daytona_refuse(call, 400, ATOLL_TOOLBOX_BAD_BODY,
                             "invalid request body: files, pattern and newValue must be given");
        atoll_body_done(&p->body);
        free(p);
        return;
    }
    atoll_buf_init(&p->before, FILE_MAX);
    atoll_buf_init(&p->after, FILE_MAX);
    atoll_api_reply_init(&p->buf, &p->out);
    atoll_json_open(&p->out, NULL, '[');
    next_file(p);
}
