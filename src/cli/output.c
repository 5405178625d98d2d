#include "cli/output.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include "base/base64.h"
#include "base/fd.h"
#include "cli/print.h"

/* Longest line the daemon sends: a piece of output in JSON. */
#define LINE_MAX_BYTES (16u * 1024 * 1024)
/* A daemon that restarts is back within this time. */
#define RETRIES 60
#define RETRY_MS 250

struct reader {
    struct atoll_cli_outcome *outcome;
    bool copy; /* write the lines themselves */
    struct atoll_buf line;
    struct atoll_buf decoded;
    struct atoll_error error; /* of a callback, which can only return an errno */
};

/* The bytes of a line, borrowed until the next one; *ret_n is 0 when it holds none. */
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
    int stream = atoll_cli_stream_number(atoll_cli_text(object, "stream", ""));
    const char *bytes;
    size_t n;
    int r = find_data(reader, object, &bytes, &n, err);

    if (r < 0 || !stream || n == 0)
        return r;
    if (!reader->copy)
        return atoll_cli_outcome_output(reader->outcome, stream, bytes, n, err);
    reader->outcome->seen[stream] += n;
    return 0;
}

static int take_line(struct reader *reader, const char *line, size_t n, struct atoll_error *err)
{
    ATOLL_CLI_AUTOJSON json_t *object = NULL;
    json_t *result;
    int r;

    if (n == 0)
        return 0;
    object = atoll_cli_parse_json(line, n);
    if (!object)
        return atoll_fail(err, ATOLL_ERR_DATA_LOSS, EPROTO,
                          "the daemon sent a line that is no JSON");
    result = json_object_get(object, "result");
    if (json_is_object(result)) {
        json_decref(reader->outcome->result);
        reader->outcome->result = json_incref(result);
    }
    atoll_cli_outcome_gap(reader->outcome, json_object_get(object, "truncated"), reader->copy);
    r = take_data(reader, object, err);
    if (r < 0 || !reader->copy)
        return r;
    r = atoll_fd_write_all(STDOUT_FILENO, line, n);
    if (r == 0)
        r = atoll_fd_write_all(STDOUT_FILENO, "\n", 1);
    return r < 0 ? atoll_fail_errno(err, -r, "standard output") : 0;
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

static int read_once(struct atoll_cli *cli, struct reader *reader, bool follow,
                     struct atoll_error *err)
{
    const struct atoll_cli_outcome *o = reader->outcome;
    struct atoll_http_transfer transfer = {.length = -1, .write = on_bytes, .arg = reader};
    char offsets[2][24];
    struct atoll_cli_target target;
    int r;

    (void)snprintf(offsets[0], sizeof(offsets[0]), "%llu",
                   (unsigned long long)o->seen[ATOLL_CLI_STDOUT]);
    (void)snprintf(offsets[1], sizeof(offsets[1]), "%llu",
                   (unsigned long long)o->seen[ATOLL_CLI_STDERR]);
    r = atoll_cli_target(
        &target, err, "/api/sandboxes/%s/execs/%s/output?stdout=%s&stderr=%s&follow=%s",
        o->sandbox_id, o->exec_id, offsets[0], offsets[1], follow ? "true" : "false");
    if (r < 0)
        return r;
    atoll_buf_clear(&reader->line);
    r = atoll_cli_stream(cli, "GET", target.text, &transfer, NULL, err);
    if (r < 0 && err->kind == ATOLL_ERR_CANCELED && reader->error.kind != ATOLL_ERR_NONE)
        *err = reader->error;
    return r;
}

static void wait_a_little(void)
{
    struct timespec pause = {.tv_nsec = RETRY_MS * 1000000L};
    (void)nanosleep(&pause, NULL);
}

static int read_all(struct atoll_cli *cli, struct atoll_cli_outcome *outcome, bool follow,
                    bool copy, struct atoll_error *err)
{
    struct reader reader = {.outcome = outcome, .copy = copy};
    int r, failures = 0;

    /* A command may be silent for as long as it likes. */
    atoll_cli_set_timeout(cli, -1);
    atoll_buf_init(&reader.line, LINE_MAX_BYTES);
    atoll_buf_init(&reader.decoded, LINE_MAX_BYTES);
    for (;;) {
        uint64_t before = outcome->seen[ATOLL_CLI_STDOUT] + outcome->seen[ATOLL_CLI_STDERR];
        r = read_once(cli, &reader, follow, err);
        if (!follow || outcome->result || (r < 0 && err->kind != ATOLL_ERR_UNAVAILABLE))
            break;
        if (outcome->seen[ATOLL_CLI_STDOUT] + outcome->seen[ATOLL_CLI_STDERR] > before)
            failures = 0;
        if (++failures > RETRIES) {
            if (r == 0)
                r = atoll_fail(err, ATOLL_ERR_DATA_LOSS, EPROTO,
                               "the daemon does not tell how the command ended");
            break;
        }
        wait_a_little();
    }
    atoll_buf_done(&reader.line);
    atoll_buf_done(&reader.decoded);
    return outcome->result ? 0 : r;
}

int atoll_cli_output_read(struct atoll_cli *cli, struct atoll_cli_outcome *outcome, bool follow,
                          struct atoll_error *err)
{
    return read_all(cli, outcome, follow, false, err);
}

int atoll_cli_output_copy(struct atoll_cli *cli, struct atoll_cli_outcome *outcome, bool follow,
                          struct atoll_error *err)
{
    return read_all(cli, outcome, follow, true, err);
}
