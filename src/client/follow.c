#include "client/follow.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include "base/base64.h"
#include "client/result.h"

/* Longest line that the daemon sends: a piece of output in JSON. */
#define LINE_MAX_BYTES (16u * 1024 * 1024)
/* Retries after a lost connection: a restarting daemon is back within this time. */
#define RETRIES 60
#define RETRY_MS 250

struct reader {
    struct atoll_follow *journal;
    struct atoll_buf line;
    struct atoll_buf decoded;
    struct atoll_error error; /* of a callback, which itself returns only an errno */
};

bool atoll_follow_gap(const json_t *gap, int *ret_stream, uint64_t *ret_from, uint64_t *ret_to)
{
    *ret_stream = atoll_result_stream_number(atoll_link_text(gap, "stream", ""));
    *ret_from = atoll_link_count(gap, "from");
    *ret_to = atoll_link_count(gap, "to");
    return *ret_stream != 0 && *ret_to > *ret_from;
}

/* The output bytes of a line, borrowed until the next line; *ret_n is 0 if it has none. */
static int find_data(struct reader *reader, const json_t *object, const char **ret_bytes,
                     size_t *ret_n, struct atoll_error *err)
{
    const json_t *text = json_object_get(object, "data");
    const json_t *coded = json_object_get(object, "data_base64");

    *ret_bytes = json_string_value(text);
    *ret_n = json_string_length(text);
    if (!json_is_string(coded))
        return 0;
    atoll_buf_clear(&reader->decoded);
    if (atoll_base64_decode(&reader->decoded, json_string_value(coded), json_string_length(coded)) <
        0)
        return atoll_fail(err, ATOLL_ERR_DATA_LOSS, EPROTO, "the daemon sent bad base64");
    *ret_bytes = (const char *)atoll_buf_head(&reader->decoded);
    *ret_n = atoll_buf_size(&reader->decoded);
    return 0;
}

static int take_data(struct reader *reader, const json_t *object, struct atoll_error *err)
{
    struct atoll_follow *j = reader->journal;
    int stream = atoll_result_stream_number(atoll_link_text(object, "stream", ""));
    const char *bytes;
    size_t n;
    int r = find_data(reader, object, &bytes, &n, err);

    if (r < 0 || !stream || n == 0)
        return r;
    j->seen[stream] += n;
    return j->output ? j->output(j->arg, stream, bytes, n, err) : 0;
}

static void take_gap(struct atoll_follow *j, const json_t *gap)
{
    uint64_t from, to;
    int stream;

    if (!atoll_follow_gap(gap, &stream, &from, &to))
        return;
    j->seen[stream] = to;
    if (j->dropped)
        j->dropped(j->arg, stream, from, to);
}

static int take_line(struct reader *reader, const char *line, size_t n, struct atoll_error *err)
{
    struct atoll_follow *j = reader->journal;
    ATOLL_AUTOJSON json_t *object = NULL;
    json_t *result;
    int r;

    if (n == 0)
        return 0;
    object = atoll_link_parse_json(line, n);
    if (!object)
        return atoll_fail(err, ATOLL_ERR_DATA_LOSS, EPROTO,
                          "the daemon sent a line that is not JSON");
    result = json_object_get(object, "result");
    if (json_is_object(result)) {
        json_decref(j->result);
        j->result = json_incref(result);
    }
    take_gap(j, json_object_get(object, "truncated"));
    r = take_data(reader, object, err);
    return r < 0 || !j->line ? r : j->line(j->arg, line, n, err);
}

static int on_bytes(void *arg, const void *bytes, size_t n)
{
    struct reader *reader = arg;
    const char *end;
    int r = atoll_buf_append(&reader->line, bytes, n);

    if (r < 0)
        return atoll_fail(&reader->error, ATOLL_ERR_DATA_LOSS, -r,
                          "the daemon sent a line that is too long");
    while (r == 0 && atoll_buf_size(&reader->line) > 0) {
        const char *line = (const char *)atoll_buf_head(&reader->line);
        end = memchr(line, '\n', atoll_buf_size(&reader->line));
        if (!end)
            break;
        r = take_line(reader, line, (size_t)(end - line), &reader->error);
        atoll_buf_consume(&reader->line, (size_t)(end - line) + 1);
    }
    return r;
}

static int read_once(struct atoll_client *client, struct reader *reader, struct atoll_error *err)
{
    const struct atoll_follow *j = reader->journal;
    struct atoll_http_transfer transfer = {.length = -1, .write = on_bytes, .arg = reader};
    char offsets[2][24];
    struct atoll_link_target target;
    int r;

    (void)snprintf(offsets[0], sizeof(offsets[0]), "%llu",
                   (unsigned long long)j->seen[ATOLL_CLIENT_STDOUT]);
    (void)snprintf(offsets[1], sizeof(offsets[1]), "%llu",
                   (unsigned long long)j->seen[ATOLL_CLIENT_STDERR]);
    r = atoll_link_target(
        &target, err, "/api/sandboxes/%s/execs/%s/output?stdout=%s&stderr=%s&follow=%s",
        j->sandbox_id, j->exec_id, offsets[0], offsets[1], j->follow ? "true" : "false");
    if (r < 0)
        return r;
    atoll_buf_clear(&reader->line);
    r = atoll_link_stream(client, "GET", target.text, &transfer, NULL, err);
    if (r < 0 && err->kind == ATOLL_ERR_CANCELED && reader->error.kind != ATOLL_ERR_NONE)
        *err = reader->error;
    return r;
}

static void wait_a_little(void)
{
    struct timespec pause = {.tv_nsec = RETRY_MS * 1000000L};
    (void)nanosleep(&pause, NULL);
}

static uint64_t progress_of(const struct atoll_follow *j)
{
    return j->seen[ATOLL_CLIENT_STDOUT] + j->seen[ATOLL_CLIENT_STDERR];
}

int atoll_follow_read(struct atoll_client *client, struct atoll_follow *j, struct atoll_error *err)
{
    struct reader reader = {.journal = j};
    int r, failures = 0, timeout_ms = atoll_link_timeout(client);

    atoll_client_set_timeout(client, -1); /* a command may be silent for any time */
    atoll_buf_init(&reader.line, LINE_MAX_BYTES);
    atoll_buf_init(&reader.decoded, LINE_MAX_BYTES);
    for (;;) {
        uint64_t before = progress_of(j);
        r = read_once(client, &reader, err);
        if (!j->follow || j->result || (r < 0 && err->kind != ATOLL_ERR_UNAVAILABLE))
            break;
        if (progress_of(j) > before)
            failures = 0;
        if (++failures > RETRIES) {
            if (r == 0)
                r = atoll_fail(err, ATOLL_ERR_DATA_LOSS, EPROTO,
                               "the daemon did not report how the command ended");
            break;
        }
        wait_a_little();
    }
    atoll_buf_done(&reader.line);
    atoll_buf_done(&reader.decoded);
    atoll_client_set_timeout(client, timeout_ms);
    return j->result ? 0 : r;
}
