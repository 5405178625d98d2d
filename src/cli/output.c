#include "cli/output.h"

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

int atoll_cli_output_copy(struct atoll_cli *cli, struct atoll_cli_outcome *outcome, bool follow,
                          struct atoll_error *err)
{
    struct atoll_follow journal = {.follow = follow, .line = copy_line};
    return read_all(cli, outcome, &journal, err);
}
