#include <errno.h>
#include <string.h>
#include "api/tool/tool_internal.h"

static size_t count(const char *text, size_t n, const char *old, size_t len)
{
    const char *at = text;
    size_t found = 0;

    while (n > 0 && (at = memmem(at, n - (size_t)(at - text), old, len)) != NULL) {
        at += len;
        found++;
    }
    return found;
}

static int replace(const struct atoll_buf *text, const struct atoll_tool_edit *edit, size_t times,
                   struct atoll_buf *out)
{
    const char *from = (const char *)atoll_buf_head(text), *end = from + atoll_buf_size(text), *at;
    size_t len = strlen(edit->old_text);
    int r = 0;

    for (; r == 0 && times > 0; times--) {
        at = memmem(from, (size_t)(end - from), edit->old_text, len);
        r = atoll_buf_append(out, from, (size_t)(at - from));
        if (r == 0)
            r = atoll_buf_appends(out, edit->new_text);
        from = at + len;
    }
    return r < 0 ? r : atoll_buf_append(out, from, (size_t)(end - from));
}

int atoll_tool_edit_apply(struct atoll_buf *text, const struct atoll_tool_edit *edit,
                          size_t *ret_count, struct atoll_error *err)
{
    struct atoll_buf out;
    size_t found;
    int r;

    if (!*edit->old_text)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "the text to replace is empty; write the whole file instead");
    found = count((const char *)atoll_buf_head(text), atoll_buf_size(text), edit->old_text,
                  strlen(edit->old_text));
    if (found == 0)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, ENOENT,
                          "the text to replace is not in the file; read the file again");
    if (found > 1 && !edit->all)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EEXIST,
                          "the text to replace is in the file %zu times; give more of the text "
                          "around it, or replace all",
                          found);
    atoll_buf_init(&out, text->max);
    r = replace(text, edit, found, &out);
    if (r < 0) {
        atoll_buf_done(&out);
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, -r,
                          "the edited file would be too large");
    }
    atoll_buf_done(text);
    *text = out;
    *ret_count = found;
    return 0;
}
