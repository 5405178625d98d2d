#include "provider/docker/stream.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include "base/clock.h"

#define LINE_MAX_BYTES (1024 * 1024)
#define PIECE_MAX (64 * 1024 * 1024)
#define LINE_MAX_SAID ((size_t)4096)
#define TELL_EVERY_MS 500

void atoll_docker_progress_init(struct atoll_docker_progress *p,
                                void (*say)(void *arg, const char *text), void *arg)
{
    *p = (struct atoll_docker_progress){.say = say, .arg = arg};
    atoll_buf_init(&p->line, LINE_MAX_BYTES);
    atoll_buf_init(&p->output, 2 * LINE_MAX_SAID); /* with its NUL */
}

void atoll_docker_progress_done(struct atoll_docker_progress *p)
{
    atoll_buf_done(&p->line);
    atoll_buf_done(&p->output);
}

/* Reports a line of a build. */
static void say_line(struct atoll_docker_progress *p, const char *line)
{
    if (strncmp(line, "Step ", 5) == 0)
        (void)snprintf(p->step, sizeof(p->step), "%.159s", line + 5);
    if (p->say && *line)
        p->say(p->arg, line);
}

static void say_output(struct atoll_docker_progress *p)
{
    if (atoll_buf_size(&p->output) > 0)
        say_line(p, atoll_buf_str(&p->output));
    atoll_buf_clear(&p->output);
}

/* Output comes in pieces of any length; lines that are too long are split. */
static void take_output(struct atoll_docker_progress *p, const char *text)
{
    while (*text) {
        size_t n = strcspn(text, "\r\n");
        size_t part = ATOLL_MIN(n, LINE_MAX_SAID - atoll_buf_size(&p->output));

        if (atoll_buf_append(&p->output, text, part) < 0)
            return;
        text += part;
        if (*text == '\r' || *text == '\n')
            text++;
        else if (!*text && atoll_buf_size(&p->output) < LINE_MAX_SAID)
            return; /* wait for the rest of the line */
        say_output(p);
    }
}

static void say_pull(struct atoll_docker_progress *p, const json_t *o)
{
    bool whole = json_is_string(json_object_get(o, "status")) &&
                 strcmp(json_string_value(json_object_get(o, "status")), "Pull complete") == 0;
    int64_t now = atoll_clock_ms();
    char text[80];

    if (!p->say || (!whole && p->told_ms && now - p->told_ms < TELL_EVERY_MS))
        return;
    p->told_ms = now;
    p->say(p->arg, atoll_docker_pull_text(&p->pull, text));
}

/* Reports the first line only. */
static void say_status(const struct atoll_docker_progress *p, const char *status)
{
    char line[256];

    (void)snprintf(line, sizeof(line), "%.*s",
                   (int)ATOLL_MIN(strcspn(status, "\r\n"), sizeof(line) - 1), status);
    if (p->say && *line)
        p->say(p->arg, line);
}

static void say(struct atoll_docker_progress *p, const json_t *o)
{
    const char *status = json_string_value(json_object_get(o, "status"));
    const char *output = json_string_value(json_object_get(o, "stream"));

    if (output)
        take_output(p, output);
    else if (atoll_docker_pull_take(&p->pull, o))
        say_pull(p, o);
    else if (status)
        say_status(p, status);
}

static int take_object(struct atoll_docker_progress *p, const char *text, size_t n)
{
    json_t *o = json_loadb(text, n, 0, NULL);
    const char *error = json_string_value(json_object_get(o, "error"));
    const char *detail =
        json_string_value(json_object_get(json_object_get(o, "errorDetail"), "message"));
    const char *id = json_string_value(json_object_get(json_object_get(o, "aux"), "ID"));
    int r = json_is_object(o) ? 0 : -EPROTO;

    if (!p->failed && (error || detail)) {
        p->failed = true;
        (void)snprintf(p->error, sizeof(p->error), "%.299s", detail ? detail : error);
    }
    if (id)
        (void)snprintf(p->id, sizeof(p->id), "%.79s", id);
    say(p, o);
    json_decref(o);
    return r;
}

int atoll_docker_progress_take(void *progress, const void *bytes, size_t n)
{
    struct atoll_docker_progress *p = progress;
    const char *end;
    int r = atoll_buf_append(&p->line, bytes, n);

    while (r == 0 && (end = memchr(atoll_buf_head(&p->line), '\n', atoll_buf_size(&p->line)))) {
        const char *start = (const char *)atoll_buf_head(&p->line);
        size_t len = (size_t)(end - start);
        if (len > 1)
            r = take_object(p, start, len);
        atoll_buf_consume(&p->line, len + 1);
        if (atoll_buf_size(&p->line) == 0)
            break;
    }
    p->broken = p->broken || r < 0;
    return r;
}

int atoll_docker_progress_end(struct atoll_docker_progress *p, struct atoll_error *err)
{
    int r = 0;

    if (atoll_buf_size(&p->line) > 0)
        r = take_object(p, (const char *)atoll_buf_head(&p->line), atoll_buf_size(&p->line));
    say_output(p);
    if (p->failed && *p->step)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EIO, "step %.120s: %s", p->step,
                          p->error);
    if (p->failed)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EIO, "Docker: %s", p->error);
    if (r < 0 || p->broken)
        return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, EPROTO,
                          "the Docker engine's answer broke off");
    return 0;
}

ssize_t atoll_docker_demux_next(struct atoll_docker_demux *d, const uint8_t *bytes, size_t n,
                                int *ret_stream, size_t *ret_len)
{
    size_t used = 0, len;

    *ret_len = 0;
    while (d->left == 0 && used < n) {
        d->head[d->head_len++] = bytes[used++];
        if (d->head_len < sizeof(d->head))
            continue;
        d->head_len = 0;
        d->left = (uint32_t)d->head[4] << 24 | (uint32_t)d->head[5] << 16 |
                  (uint32_t)d->head[6] << 8 | d->head[7];
        if (d->head[0] > ATOLL_DOCKER_STDERR || d->head[1] || d->head[2] || d->head[3] ||
            d->left > PIECE_MAX)
            return -EPROTO;
    }
    len = ATOLL_MIN(n - used, (size_t)d->left);
    d->left -= (uint32_t)len;
    *ret_stream = d->head[0];
    *ret_len = len;
    return (ssize_t)(used + len);
}
