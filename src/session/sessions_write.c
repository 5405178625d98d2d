#include "base/text.h"
#include "session/sessions_internal.h"

static void next(struct atoll_session_writer *w);

static void fail(struct atoll_session_writer *w, const struct atoll_error *error)
{
    struct atoll_error wrapped = *error;

    (void)atoll_wrap(&wrapped, "writing %.200s", w->files[w->next].path);
    w->done(w->arg, &wrapped);
}

static void finished(void *arg, const struct atoll_am_entry *entry, const struct atoll_error *error)
{
    struct atoll_session_writer *w = arg;

    (void)entry;
    if (error) {
        fail(w, error);
        return;
    }
    w->next++;
    next(w);
}

static void next(struct atoll_session_writer *w)
{
    const struct atoll_session_file *file;

    if (w->next == w->count) {
        w->done(w->arg, NULL);
        return;
    }
    file = &w->files[w->next];
    atoll_files_put(w->engine, w->sandbox_id, NULL, file->path, file->mode, file->bytes, file->len,
                    finished, w);
}

void atoll_session_write(struct atoll_session_writer *w, struct atoll_engine *engine,
                         const char *sandbox_id, const struct atoll_session_file *files,
                         size_t count, atoll_done_fn *done, void *arg)
{
    *w = (struct atoll_session_writer){
        .engine = engine, .files = files, .count = count, .done = done, .arg = arg};
    (void)!atoll_text_copy(w->sandbox_id, sizeof(w->sandbox_id), sandbox_id);
    next(w);
}
