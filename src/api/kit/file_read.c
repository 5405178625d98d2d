#include "api/kit/file_read.h"

#include <errno.h>
#include <sys/stat.h>
#include "base/buf.h"
#include "base/memory.h"

struct reading {
    struct atoll_tenant_file *file; /* owned */
    struct atoll_buf bytes;
    size_t max;
    atoll_file_read_fn *done;
    void *arg;
};

static void finish(struct reading *r, const struct atoll_error *error)
{
    uint32_t mode = r->file ? atoll_tenant_file_stat(r->file)->st_mode & 07777 : 0;

    r->done(r->arg, atoll_buf_head(&r->bytes), atoll_buf_size(&r->bytes), mode, error);
    (void)atoll_tenant_file_close(r->file);
    atoll_buf_done(&r->bytes);
    free(r);
}

static void read_on(void *arg)
{
    struct reading *r = arg;
    struct atoll_error error;
    const uint8_t *piece;
    ssize_t n;

    while ((n = atoll_tenant_file_read(r->file, &piece)) > 0)
        if (atoll_buf_append(&r->bytes, piece, (size_t)n) < 0) {
            (void)atoll_fail(&error, ATOLL_ERR_RESOURCE_EXHAUSTED, EFBIG,
                             "the file is larger than %zu KiB", r->max / 1024);
            finish(r, &error);
            return;
        }
    if (n == -EAGAIN)
        return; /* it is called again */
    if (n < 0)
        (void)atoll_fail_errno(&error, (int)-n, "read the file");
    finish(r, n < 0 ? &error : NULL);
}

static void opened(void *arg, struct atoll_tenant_file *file, uint64_t size_bytes ATOLL_UNUSED,
                   const struct atoll_error *error)
{
    struct reading *r = arg;

    if (error) {
        finish(r, error);
        return;
    }
    r->file = file;
    atoll_tenant_file_on_ready(file, read_on, r);
    read_on(r);
}

void atoll_file_read_whole(struct atoll_engine *engine, const char *sandbox_id, const char *path,
                           size_t max, atoll_file_read_fn *done, void *arg)
{
    struct reading *r = atoll_alloc(sizeof(*r));

    *r = (struct reading){.max = max, .done = done, .arg = arg};
    atoll_buf_init(&r->bytes, max);
    atoll_files_open(engine, sandbox_id, NULL, path, opened, r);
}
