#include "cli/progress.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "cli/lines.h"
#include "cli/print.h"

#define LINE_MAX_BYTES ((size_t)16 * 1024 * 1024)

struct request {
    const char *label;
    bool quiet, terminal;
    const char *body; /* the rest of it */
    struct atoll_cli_lines lines;
    json_t *last; /* owned; the first line that is no progress */
};

static void show(const struct request *q, const char *text)
{
    if (q->quiet)
        return;
    (void)fputs(q->terminal ? "\r\033[K" : "", stderr);
    atoll_cli_put(stderr, q->label);
    (void)fputs(": ", stderr);
    atoll_cli_put(stderr, text);
    (void)fputs(q->terminal ? "" : "\n", stderr);
    (void)fflush(stderr);
}

static void take_line(void *arg, const char *text, size_t n)
{
    struct request *q = arg;
    json_t *o = atoll_link_parse_json(text, n);
    const char *progress = atoll_link_text(o, "progress", NULL);

    if (progress)
        show(q, progress);
    else if (o && !q->last)
        q->last = json_incref(o);
    json_decref(o);
}

static ssize_t read_body(void *arg, void *buf, size_t n)
{
    struct request *q = arg;

    n = ATOLL_MIN(n, strlen(q->body));
    memcpy(buf, q->body, n);
    q->body += n;
    return (ssize_t)n;
}

static int take_answer(void *arg, const void *bytes, size_t n)
{
    struct request *q = arg;

    return atoll_cli_lines_write(&q->lines, bytes, n);
}

static int post(struct atoll_cli *cli, const char *target, const json_t *json, struct request *q,
                struct atoll_error *err)
{
    ATOLL_AUTOFREE char *text = json_dumps(json, JSON_COMPACT);
    const struct atoll_http_transfer transfer = {.read = read_body,
                                                 .length = text ? (int64_t)strlen(text) : 0,
                                                 .write = take_answer,
                                                 .arg = q};
    int r;

    if (!text)
        return atoll_fail_errno(err, ENOMEM, "request");
    q->body = text;
    atoll_cli_lines_init(&q->lines, LINE_MAX_BYTES, take_line, q);
    atoll_cli_set_timeout(cli, -1); /* the daemon has the timeout */
    r = atoll_cli_stream(cli, "POST", target, &transfer, NULL, err);
    atoll_cli_lines_done(&q->lines);
    explicit_bzero(text, strlen(text)); /* it may have a password */
    return r;
}

int atoll_cli_post_progress(struct atoll_cli *cli, const char *target, const json_t *request,
                            const char *label, bool quiet, json_t **ret, struct atoll_error *err)
{
    struct request q = {.label = label, .quiet = quiet, .terminal = isatty(STDERR_FILENO) == 1};
    int r = post(cli, target, request, &q, err);

    if (q.terminal && !quiet)
        (void)fputs("\r\033[K", stderr);
    if (r >= 0 && json_object_get(q.last, "error"))
        r = atoll_link_daemon_error(cli->client, q.last, 0, err);
    else if (r >= 0 && !q.last)
        r = atoll_fail(err, ATOLL_ERR_UNAVAILABLE, EPIPE,
                       "the daemon's answer ended early: the result is unknown");
    if (r >= 0)
        *ret = ATOLL_TAKE_PTR(q.last);
    json_decref(q.last);
    return r < 0 ? r : 0;
}
