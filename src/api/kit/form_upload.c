#include "api/kit/form_upload.h"

#include <errno.h>
#include <string.h>
#include <strings.h>
#include "base/metrics.h"

#define IN_MAX ((size_t)1024 * 1024) /* maximum of buffered bytes of the body */

/* The end. */

static void conclude(struct atoll_form_upload *f)
{
    struct atoll_error error = f->error;

    atoll_upload_drop(ATOLL_TAKE_PTR(f->file));
    atoll_unpack_done(&f->body);
    atoll_buf_done(&f->text);
    f->ended(f->arg, f->stage, error.kind == ATOLL_ERR_NONE ? NULL : &error);
}

static void end(struct atoll_form_upload *f, enum atoll_form_upload_stage stage,
                const struct atoll_error *error)
{
    f->call->on_gone = NULL;
    f->over = true;
    f->stage = stage;
    if (error)
        f->error = *error;
    if (!f->running)
        conclude(f);
}

static void refuse(struct atoll_form_upload *f, const char *text)
{
    struct atoll_error error;

    (void)atoll_fail(&error, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "%s", text);
    end(f, ATOLL_FORM_BODY, &error);
}

static void cancel(struct atoll_form_upload *f)
{
    struct atoll_error error;

    (void)atoll_fail(&error, ATOLL_ERR_CANCELED, ECANCELED, "the client went away");
    end(f, ATOLL_FORM_BODY, &error);
}

static void client_gone(struct atoll_api_call *call)
{
    struct atoll_form_upload *f = call->state;

    if (!f->waiting) /* else the pending callback ends it */
        cancel(f);
}

/* Requests to the sandbox. */

static void run(struct atoll_form_upload *f);

static void wait_for(struct atoll_form_upload *f)
{
    f->waiting = true;
    if (!f->body_ended)
        atoll_http_body_pause(f->call->req);
}

/* The sandbox has answered. False: the upload has ended. */
static bool wait_over(struct atoll_form_upload *f, enum atoll_form_upload_stage stage,
                      const struct atoll_error *error)
{
    bool is_gone = !f->call->req;

    f->waiting = false;
    if (is_gone)
        cancel(f);
    else if (error)
        end(f, stage, error);
    return !is_gone && !error;
}

static void go_on(struct atoll_form_upload *f)
{
    if (!f->body_ended)
        atoll_http_body_resume(f->call->req);
    if (!f->running)
        run(f);
}

void atoll_form_upload_next(struct atoll_form_upload *f, const struct atoll_error *error)
{
    if (wait_over(f, ATOLL_FORM_PATH, error))
        go_on(f);
}

static void on_finished(void *arg, const struct atoll_am_entry *entry,
                        const struct atoll_error *error)
{
    struct atoll_form_upload *f = arg;
    /* Without descriptors the agent gets the bytes only now. */
    bool is_full = error && atoll_errno_is_full(error->errnum);

    if (!wait_over(f, is_full ? ATOLL_FORM_WRITE : ATOLL_FORM_PATH, error))
        return;
    f->waiting = true;
    f->written(f->arg, entry);
}

/* The buffered bytes are written. If that failed, the next write returns the error. */
static void on_ready(void *arg)
{
    struct atoll_form_upload *f = arg;

    if (wait_over(f, ATOLL_FORM_WRITE, NULL))
        go_on(f);
}

static void on_opened(void *arg, struct atoll_upload *file, const struct atoll_error *error)
{
    struct atoll_form_upload *f = arg;

    if (!error) {
        f->file = file;
        atoll_upload_on_ready(file, on_ready, f);
    }
    if (wait_over(f, ATOLL_FORM_PATH, error))
        go_on(f);
}

/* Files. */

static void begin_file(struct atoll_form_upload *f, const char *name, const char *filename)
{
    struct atoll_error error;
    const char *path;
    int r = f->begin(f->arg, name, filename, &path, &error);

    f->begun = true;
    if (r < 0)
        end(f, ATOLL_FORM_BODY, &error);
    f->in_value = r == 2;
    if (f->in_value)
        atoll_buf_clear(&f->text);
    if (r <= 0 || f->in_value)
        return;
    f->bytes = 0;
    wait_for(f);
    atoll_files_rewrite(f->call->engine, f->call->params.id, f->user, path, 0, on_opened, f);
}

static void add_bytes(struct atoll_form_upload *f, const uint8_t *bytes, size_t n)
{
    int r = atoll_upload_write(f->file, bytes, n);
    struct atoll_error error;

    atoll_metric_add(ATOLL_METRIC_BYTES, ATOLL_LABELS("files", "in"), (double)n);
    f->bytes += n;
    if (r < 0) {
        (void)atoll_fail_errno(&error, -r, "writing the file");
        end(f, ATOLL_FORM_WRITE, &error);
    } else if (r > 0) {
        wait_for(f);
    }
}

static void end_file(struct atoll_form_upload *f)
{
    wait_for(f);
    atoll_upload_finish(ATOLL_TAKE_PTR(f->file), on_finished, f);
}

/* Texts. */

static void add_text(struct atoll_form_upload *f, const uint8_t *bytes, size_t n)
{
    if (atoll_buf_append(&f->text, bytes, n) < 0)
        refuse(f, "a text of the form is too long");
}

static void end_text(struct atoll_form_upload *f)
{
    const char *text = atoll_buf_str(&f->text);
    struct atoll_error error;

    f->in_value = false;
    if (strlen(text) != atoll_buf_size(&f->text))
        refuse(f, "a text of the form contains a NUL byte");
    else if (f->value(f->arg, text, &error) < 0)
        end(f, ATOLL_FORM_BODY, &error);
}

/* The body. */

static void on_event(struct atoll_form_upload *f, const struct atoll_multipart_event *event)
{
    if (event->kind == ATOLL_PART_BEGIN)
        begin_file(f, event->name, event->filename);
    else if (event->kind == ATOLL_PART_DATA && f->file)
        add_bytes(f, event->data, event->len);
    else if (event->kind == ATOLL_PART_END && f->file)
        end_file(f);
    else if (event->kind == ATOLL_PART_DATA && f->in_value)
        add_text(f, event->data, event->len);
    else if (event->kind == ATOLL_PART_END && f->in_value)
        end_text(f);
    else if (event->kind == ATOLL_MULTIPART_END)
        f->form_ended = true;
}

/* One step through a form. False: more input is needed. */
static bool step_form(struct atoll_form_upload *f, const uint8_t *p, size_t n)
{
    struct atoll_multipart_event event;
    size_t left = n;
    int r = atoll_multipart_next(&f->form, &p, &left, &event);

    if (r > 0)
        on_event(f, &event);
    else if (r < 0)
        refuse(f, r == -E2BIG ? "the head of a part is too long" : "malformed multipart");
    atoll_unpack_consume(&f->body, n - left); /* not before: the event points into these bytes */
    return r != 0;
}

/* The same for a body that is the file itself. */
static bool step_plain(struct atoll_form_upload *f, const uint8_t *p, size_t n)
{
    if (!f->begun) {
        begin_file(f, NULL, NULL);
        return true;
    }
    if (n == 0)
        return false;
    if (f->file)
        add_bytes(f, p, n);
    atoll_unpack_consume(&f->body, n);
    return true;
}

static void at_end(struct atoll_form_upload *f)
{
    if (!atoll_unpack_is_whole(&f->body))
        refuse(f, "the gzip data is cut off");
    else if (f->is_form && !f->form_ended)
        refuse(f, "malformed multipart: unexpected end");
    else if (f->file)
        end_file(f);
    else
        end(f, ATOLL_FORM_BODY, NULL);
}

static void run(struct atoll_form_upload *f)
{
    bool hungry = false;
    const uint8_t *p;
    size_t n;

    f->running = true;
    while (!f->waiting && !f->over && !hungry) {
        if (atoll_unpack_view(&f->body, &p, &n) < 0) {
            refuse(f, "the body is no valid gzip data");
            break;
        }
        hungry = f->is_form ? !step_form(f, p, n) : !step_plain(f, p, n);
        if (hungry && f->body_ended) {
            at_end(f);
            hungry = false;
        }
    }
    f->running = false;
    if (f->over)
        conclude(f);
}

static void on_data(void *arg, struct atoll_http_request *req ATOLL_UNUSED, const uint8_t *bytes,
                    size_t n)
{
    struct atoll_form_upload *f = arg;
    struct atoll_error error;

    if (atoll_unpack_add(&f->body, bytes, n) == 0) {
        run(f);
        return;
    }
    (void)atoll_fail(&error, ATOLL_ERR_RESOURCE_EXHAUSTED, ENOMEM, "out of memory");
    end(f, ATOLL_FORM_BODY, &error);
}

static void on_end(void *arg, struct atoll_http_request *req ATOLL_UNUSED)
{
    struct atoll_form_upload *f = arg;

    f->body_ended = true;
    run(f);
}

int atoll_form_upload_start(struct atoll_form_upload *f, struct atoll_error *err)
{
    static const char plain[] = "application/octet-stream";
    struct atoll_http_request *req = f->call->req;
    const char *type = atoll_http_header(req, "content-type");

    if (atoll_unpack_init(&f->body, atoll_http_header(req, "content-encoding"), IN_MAX) < 0)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "unsupported content encoding");
    f->is_form = atoll_multipart_init(&f->form, type) == 0;
    if (!f->is_form && (!type || strncasecmp(type, plain, sizeof(plain) - 1) != 0)) {
        atoll_unpack_done(&f->body);
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "the content type must be multipart/form-data with a boundary, or "
                          "application/octet-stream");
    }
    atoll_buf_init(&f->text, ATOLL_FORM_VALUE_MAX + 1);
    f->call->state = f;
    f->call->on_gone = client_gone;
    atoll_http_body_stream(req, on_data, on_end, f);
    return 0;
}
