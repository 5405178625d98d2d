/*
 * POST /files/compose: concatenates several files into one, and removes the sources. Workers read
 * and write, one piece at a time.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "api/api_internal.h"
#include "api/e2b/envd_files.h"

#define SOURCES_MAX 1024

struct compose {
    struct atoll_api_call *call;
    json_t *message;       /* owned */
    const json_t *sources; /* points into message */
    const char *to;
    char user[ATOLL_ENVD_USER_MAX];
    size_t next;                  /* index into sources */
    struct atoll_upload *file;    /* owned; to be finished or dropped */
    struct atoll_tenant_file *in; /* the source being read, owned, or NULL */
    struct atoll_timer turn;      /* the next piece, after other connections were served */
};

static struct atoll_api_call *compose_end(struct compose *c)
{
    struct atoll_api_call *call = c->call;

    atoll_timer_cancel(&c->turn);
    atoll_upload_drop(c->file);
    (void)atoll_tenant_file_close(c->in);
    json_decref(c->message);
    free(c);
    return call;
}

static void fail(struct compose *c, const struct atoll_error *error)
{
    char user[ATOLL_ENVD_USER_MAX];

    memcpy(user, c->user, sizeof(user));
    atoll_envd_path_fail(compose_end(c), error, user);
}

static const char *source_at(const struct compose *c, size_t i)
{
    return json_string_value(json_array_get(c->sources, i));
}

static void on_looked(void *arg, const struct atoll_am_entry *entry,
                      const struct atoll_error *error)
{
    struct compose *c = arg;
    struct atoll_buf buf;
    struct atoll_json_out out;

    if (error) {
        fail(c, error);
        return;
    }
    atoll_api_reply_init(&buf, &out);
    atoll_entry_write(&out, NULL, entry);
    atoll_api_reply(compose_end(c), 200, &out);
}

/* The destination is complete: removes the sources, one by one. */
static void remove_next(void *arg, const struct atoll_error *error)
{
    struct compose *c = arg;
    const char *path;

    if (error && error->kind != ATOLL_ERR_NOT_FOUND) {
        fail(c, error);
        return;
    }
    path = source_at(c, c->next++);
    if (path)
        atoll_files_remove(c->call->engine, c->call->params.id, c->user, path, false, remove_next,
                           c);
    else
        atoll_files_look(c->call->engine, c->call->params.id, c->user, c->to, ATOLL_ENVD_ATTRIBUTES,
                         on_looked, c);
}

static void on_finished(void *arg, const struct atoll_am_entry *entry ATOLL_UNUSED,
                        const struct atoll_error *error)
{
    struct compose *c = arg;

    c->next = 0;
    if (error)
        fail(c, error);
    else
        remove_next(c, NULL);
}

static void open_next(struct compose *c);

/* Called for each piece that was read, and when the destination has accepted the last one. */
static void copy_piece(void *arg)
{
    struct compose *c = arg;
    const uint8_t *piece;
    struct atoll_error error;
    ssize_t n;
    int r;

    if (c->turn.loop)
        return;
    n = atoll_tenant_file_read(c->in, &piece);
    if (n == -EAGAIN)
        return;
    r = n > 0 ? atoll_upload_write(c->file, piece, (size_t)n) : (int)n;
    if (r < 0) {
        (void)atoll_upload_fail(r, &error);
        fail(c, &error);
    } else if (n == 0) {
        c->in = atoll_tenant_file_close(c->in);
        open_next(c);
    } else if (r == 0) {
        atoll_timer_set(&c->turn, c->call->api->config.loop, 0, copy_piece, c);
    }
}

static void on_source(void *arg, struct atoll_tenant_file *file, uint64_t size_bytes ATOLL_UNUSED,
                      const struct atoll_error *error)
{
    struct compose *c = arg;

    if (error) {
        fail(c, error);
        return;
    }
    c->in = file;
    atoll_tenant_file_on_ready(file, copy_piece, c);
    copy_piece(c);
}

static void open_next(struct compose *c)
{
    const char *path = source_at(c, c->next++);

    if (path)
        atoll_files_open(c->call->engine, c->call->params.id, c->user, path, on_source, c);
    else
        atoll_upload_finish(ATOLL_TAKE_PTR(c->file), on_finished, c);
}

static void on_created(void *arg, struct atoll_upload *file, const struct atoll_error *error)
{
    struct compose *c = arg;

    if (error) {
        fail(c, error);
        return;
    }
    c->file = file;
    atoll_upload_on_ready(file, copy_piece, c);
    open_next(c);
}

static int take(struct compose *c, struct atoll_error *err)
{
    const char *user = "";
    int r = atoll_connect_text(c->message, "destination", &c->to, err);

    if (r == 0)
        r = atoll_connect_text(c->message, "username", &user, err);
    if (r < 0)
        return r;
    c->sources = atoll_connect_get(c->message, "sourcePaths");
    if (!c->to || !*c->to || !json_is_array(c->sources) || json_array_size(c->sources) < 1 ||
        json_array_size(c->sources) > SOURCES_MAX || strlen(user) > ATOLL_ENVD_USER_MAX - 3)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "destination and 1 to %d source_paths are needed", SOURCES_MAX);
    (void)snprintf(c->user, sizeof(c->user), "+%s", user);
    for (size_t i = 0; i < json_array_size(c->sources); i++)
        if (!source_at(c, i) || strcmp(source_at(c, i), c->to) == 0)
            return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                              "source_paths must be paths other than the destination");
    return 0;
}

/* Writes a temporary file first: the destination may be another name for a source. */
void atoll_envd_compose(struct atoll_api_call *call, const uint8_t *body, size_t n)
{
    struct compose *c = atoll_api_alloc(sizeof(*c));
    struct atoll_error error;
    int r;

    c->call = call;
    r = atoll_connect_parse(body, n, &c->message, &error);
    if (r == 0)
        r = take(c, &error);
    if (r < 0)
        atoll_envd_fail(compose_end(c), 400, error.text);
    else
        atoll_files_create(call->engine, call->params.id, c->user, c->to, 0, on_created, c);
}
