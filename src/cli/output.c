#include "cli/output.h"

#include <errno.h>
#include <string.h>
#include "base/fd.h"
#include "client/follow.h"

static int show(void *arg, int stream, const void *bytes, size_t n, struct atoll_error *err)
{
    return atoll_cli_outcome_output(arg, stream, bytes, n, err);
}

static void tell_gap(void *arg, int stream, uint64_t from, uint64_t to)
{
    atoll_cli_outcome_gap(arg, stream, from, to, false);
}

static int copy_line(void *arg ATOLL_UNUSED, const char *line, size_t n, struct atoll_error *err)
{
    int r = atoll_fd_write_all(STDOUT_FILENO, line, n);

    if (r == 0)
        r = atoll_fd_write_all(STDOUT_FILENO, "\n", 1);
    return r < 0 ? atoll_fail_errno(err, -r, "standard output") : 0;
}

static int read_all(struct atoll_cli *cli, struct atoll_cli_outcome *outcome,
                    struct atoll_follow *journal, struct atoll_error *err)
{
    int r = atoll_cli_open(cli, err);

    if (r < 0)
        return r;
    journal->sandbox_id = outcome->sandbox_id;
    journal->exec_id = outcome->exec_id;
    if (!journal->arg)
        journal->arg = outcome;
    memcpy(journal->seen, outcome->seen, sizeof(journal->seen));
    r = atoll_follow_read(cli->client, journal, err);
    memcpy(outcome->seen, journal->seen, sizeof(journal->seen));
    if (journal->result) {
        json_decref(outcome->result);
        outcome->result = journal->result;
    }
    return r;
}

int atoll_cli_output_read(struct atoll_cli *cli, struct atoll_cli_outcome *outcome, bool follow,
                          struct atoll_error *err)
{
    struct atoll_follow journal = {.follow = follow, .output = show, .dropped = tell_gap};
    return read_all(cli, outcome, &journal, err);
}

/* The last lines of the output, both streams as they were written. */
struct tail {
    struct piece {
        int stream;
        struct atoll_buf bytes;
    } * pieces; /* a ring; owned */
    uint64_t max, first, n;
};

/* A new piece for output of that stream; the oldest one goes if there is no room. */
static struct piece *next_piece(struct tail *tail, int stream)
{
    struct piece *piece;

    if (tail->n == tail->max) {
        atoll_buf_done(&tail->pieces[tail->first].bytes);
        tail->first = (tail->first + 1) % tail->max;
        tail->n--;
    }
    piece = &tail->pieces[(tail->first + tail->n++) % tail->max];
    piece->stream = stream;
    atoll_buf_init(&piece->bytes, SIZE_MAX / 2);
    return piece;
}

/* The last piece, if its line has not ended and it is of that stream. */
static struct piece *open_piece(struct tail *tail, int stream)
{
    struct piece *piece;
    size_t n;

    if (tail->n == 0)
        return NULL;
    piece = &tail->pieces[(tail->first + tail->n - 1) % tail->max];
    n = atoll_buf_size(&piece->bytes);
    if (piece->stream != stream || (n > 0 && atoll_buf_head(&piece->bytes)[n - 1] == '\n'))
        return NULL;
    return piece;
}

static int keep_tail(void *arg, int stream, const void *bytes, size_t n, struct atoll_error *err)
{
    struct tail *tail = arg;
    const char *p = bytes, *end = p + n;

    while (tail->max > 0 && p < end) {
        const char *newline = memchr(p, '\n', (size_t)(end - p));
        const char *stop = newline ? newline + 1 : end;
        struct piece *piece = open_piece(tail, stream);
        if (!piece)
            piece = next_piece(tail, stream);
        if (atoll_buf_append(&piece->bytes, p, (size_t)(stop - p)) < 0)
            return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, ENOMEM,
                              "no memory for the output");
        p = stop;
    }
    return 0;
}

static int write_tail(struct tail *tail, struct atoll_cli_outcome *outcome, struct atoll_error *err)
{
    int r = 0;

    for (uint64_t i = 0; r == 0 && i < tail->n; i++) {
        const struct piece *piece = &tail->pieces[(tail->first + i) % tail->max];
        r = atoll_cli_outcome_output(outcome, piece->stream, atoll_buf_head(&piece->bytes),
                                     atoll_buf_size(&piece->bytes), err);
    }
    return r;
}

static void free_tail(struct tail *tail)
{
    for (uint64_t i = 0; i < tail->n; i++)
        atoll_buf_done(&tail->pieces[(tail->first + i) % tail->max].bytes);
    free(tail->pieces);
}

int atoll_cli_output_tail(struct atoll_cli *cli, struct atoll_cli_outcome *outcome, uint64_t lines,
                          bool follow, struct atoll_error *err)
{
    struct tail tail = {.max = lines,
                        .pieces = calloc(ATOLL_MAX(lines, (uint64_t)1), sizeof(*tail.pieces))};
    struct atoll_follow journal = {.output = keep_tail, .arg = &tail};
    uint64_t seen[ATOLL_CLIENT_STREAMS];
    int r = tail.pieces ? read_all(cli, outcome, &journal, err)
                        : atoll_fail_errno(err, ENOMEM, "--tail");

    memcpy(seen, outcome->seen, sizeof(seen));
    if (r == 0)
        r = write_tail(&tail, outcome, err);
    free_tail(&tail);
    memcpy(outcome->seen, seen, sizeof(seen));
    return r < 0 || !follow || outcome->result ? r : atoll_cli_output_read(cli, outcome, true, err);
}

int atoll_cli_output_wait(struct atoll_cli *cli, struct atoll_cli_outcome *outcome,
                          struct atoll_error *err)
{
    struct atoll_follow journal = {.follow = true};
    return read_all(cli, outcome, &journal, err);
}

int atoll_cli_output_copy(struct atoll_cli *cli, struct atoll_cli_outcome *outcome, bool follow,
                          struct atoll_error *err)
{
    struct atoll_follow journal = {.follow = follow, .line = copy_line};
    return read_all(cli, outcome, &journal, err);
}
