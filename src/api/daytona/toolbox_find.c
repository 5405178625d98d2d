/*
 * Search in files and for files: grep and find of the sandbox. Names end with NUL in their output, since
 * a name may contain anything else. Of long output the first part is used.
 *
 * find takes "-delete" or "(" for a part of its expression, and grep "-" for its input, so a relative path
 * is given to them with "./", which clients do not see.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "api/daytona/toolbox_internal.h"

#define SEARCH_MS (5 * 60 * 1000)

struct search {
    struct atoll_api_call *call;
    struct atoll_toolbox_output output;
    /* Writes what the program found; text is the output, with a NUL after its n bytes. */
    void (*write)(const struct search *s, struct atoll_json_out *out, const char *text, size_t n);
    const char *program;
    char *path;  /* owned; as the program gets it */
    size_t skip; /* bytes of it that the client did not send */
};

static void search_free(struct search *s)
{
    atoll_toolbox_output_done(&s->output);
    free(s->path);
    free(s);
}

static void client_gone(struct atoll_api_call *call)
{
    search_free(call->state);
    atoll_api_drop(call);
}

/* grep exits with 1 if there is no match; find and grep with other statuses if some file could not be
 * read. What they found counts. */
static bool is_broken(const struct search *s, const struct atoll_exec_result *result)
{
    return result->kind != ATOLL_END_EXITED ||
           (result->code > 1 && memchr(atoll_buf_head(&s->output.bytes), '\0',
                                       atoll_buf_size(&s->output.bytes)) == NULL);
}

static void ended(void *arg, const struct atoll_exec_result *result,
                  const struct atoll_error *error)
{
    struct search *s = arg;
    struct atoll_buf buf;
    struct atoll_json_out out;

    s->call->on_gone = NULL;
    if (error) {
        atoll_api_fail(s->call, error);
    } else if (is_broken(s, result)) {
        atoll_daytona_refuse(s->call, result->kind == ATOLL_END_TIMED_OUT ? 408 : 500, NULL,
                             "%s failed: %.300s", s->program, atoll_buf_str(&s->output.bytes));
    } else {
        atoll_api_reply_init(&buf, &out);
        s->write(s, &out, atoll_buf_str(&s->output.bytes), atoll_buf_size(&s->output.bytes));
        atoll_api_reply(s->call, 200, &out);
    }
    search_free(s);
}

static void started(void *arg, struct atoll_exec *exec, const struct atoll_error *error)
{
    struct search *s = arg;
    struct atoll_api_call *call = s->call;

    if (error || !call->req) {
        if (error)
            atoll_api_fail(call, error);
        else
            atoll_api_drop(call);
        search_free(s);
        return;
    }
    call->state = s;
    call->on_gone = client_gone;
    atoll_toolbox_output_start(&s->output, atoll_http_loop(call->req), exec, true, ended, s);
}

/* The path exists: an error of the program is not about it. */
static void looked(void *arg, const struct atoll_am_entry *entry ATOLL_UNUSED,
                   const struct atoll_error *error)
{
    struct search *s = arg;
    struct atoll_api_call *call = s->call;
    bool is_find = strcmp(s->program, "find") == 0;
    const char *pattern;

    if (error || !call->req) {
        if (error)
            atoll_toolbox_path_fail(call, error);
        else
            atoll_api_drop(call);
        search_free(s);
        return;
    }
    pattern = atoll_http_query(call->req, "pattern");
    const char *const find_argv[] = {"find", s->path, "-name", pattern, "-print0", NULL};
    const char *const grep_argv[] = {"grep",  "-rnIFH", "--null", "-e",
                                     pattern, "--",     s->path,  NULL};
    const struct atoll_exec_start start = {.argv = is_find ? find_argv : grep_argv,
                                           .timeout_ms = SEARCH_MS};
    atoll_engine_exec(call->engine, call->params.id, &start, started, s);
}

static void begin(struct atoll_api_call *call, const char *program,
                  void (*write)(const struct search *s, struct atoll_json_out *out,
                                const char *text, size_t n))
{
    const char *path = atoll_toolbox_query(call, "path");
    struct search *s;

    if (!path || !atoll_toolbox_query(call, "pattern"))
        return;
    s = atoll_api_alloc(sizeof(*s));
    s->call = call;
    s->program = program;
    s->write = write;
    s->skip = *path == '/' || *path == '.' ? 0 : 2;
    if (asprintf(&s->path, "%s%s", s->skip ? "./" : "", path) < 0)
        abort(); /* its size is bounded: the daemon is crash-only */
    atoll_files_stat(call->engine, call->params.id, NULL, path, looked, s);
}

/* As the client knows it. */
static const char *name_of(const struct search *s, const char *name)
{
    return strlen(name) >= s->skip ? name + s->skip : name;
}

/* Lines "FILE\0NUMBER:TEXT". */
static void write_matches(const struct search *s, struct atoll_json_out *out, const char *text,
                          size_t n)
{
    const char *end = text + n, *name = text, *newline, *colon;

    atoll_json_open(out, NULL, '[');
    while (name < end) {
        const char *line = name + strlen(name) + 1;
        newline = line < end ? memchr(line, '\n', (size_t)(end - line)) : NULL;
        colon = newline ? memchr(line, ':', (size_t)(newline - line)) : NULL;
        if (!colon)
            break;
        atoll_json_open(out, NULL, '{');
        atoll_json_text(out, "file", name_of(s, name));
        atoll_json_u64(out, "line", strtoull(line, NULL, 10));
        atoll_json_bytes(out, "content", colon + 1, (size_t)(newline - colon - 1));
        atoll_json_close(out, '}');
        name = newline + 1;
    }
    atoll_json_close(out, ']');
}

void atoll_daytona_file_find(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                             size_t n ATOLL_UNUSED)
{
    begin(call, "grep", write_matches);
}

static void write_names(const struct search *s, struct atoll_json_out *out, const char *text,
                        size_t n)
{
    const char *end = text + n, *name = text;

    atoll_json_open(out, NULL, '{');
    atoll_json_open(out, "files", '[');
    while (name < end && name + strlen(name) < end) { /* the last one may be cut */
        atoll_json_text(out, NULL, name_of(s, name));
        name += strlen(name) + 1;
    }
    atoll_json_close(out, ']');
    atoll_json_close(out, '}');
}

void atoll_daytona_file_search(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                               size_t n ATOLL_UNUSED)
{
    begin(call, "find", write_names);
}
