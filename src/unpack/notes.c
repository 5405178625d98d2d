#include "unpack/notes.h"

#include <string.h>
#include "base/fd.h"
#include "base/text.h"

#define LINE_MAX_BYTES ((size_t)64 * 1024)

void atoll_notes_add(struct atoll_notes *notes, const char *kind, const char *path,
                     const char *text)
{
    struct atoll_buf line;

    if (notes->count++ >= ATOLL_NOTES_PRINTED || notes->fd < 0)
        return;
    atoll_buf_init(&line, LINE_MAX_BYTES);
    /* A note that does not fit is only counted; a reader that is gone ends the program elsewhere. */
    if (atoll_buf_appendf(&line, "{\"note\":\"%s\",\"path\":", kind) == 0 &&
        atoll_text_json_quote(&line, path, strlen(path)) == 0 &&
        atoll_buf_appends(&line, ",\"text\":") == 0 &&
        atoll_text_json_quote(&line, text, strlen(text)) == 0 &&
        atoll_buf_appends(&line, "}\n") == 0)
        (void)!atoll_fd_write_all(notes->fd, atoll_buf_head(&line), atoll_buf_size(&line));
    atoll_buf_done(&line);
}
