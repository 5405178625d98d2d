/*
 * `atoll events`: the daemon's stream of Server-Sent Events, one line for each event.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "cli/lines.h"
#include "cli/print.h"
#include "cli/words.h"

#define LINE_MAX_BYTES (1024u * 1024)

struct options {
    struct atoll_cli_common common;
    double since_seconds;
    bool all;
};

static const struct atoll_cli_option options_table[] = {
    {"since", 0, ATOLL_CLI_TIME, offsetof(struct options, since_seconds), "TIME",
     "begin with the events of this time until now, as far as they are kept", NULL},
    {"all-tenants", 0, ATOLL_CLI_FLAG, offsetof(struct options, all), NULL,
     "show the events of every tenant (needs an admin key)", NULL},
    ATOLL_CLI_COMMON(struct options),
    {0},
};

struct feed {
    double since_seconds; /* older events are skipped; 0: none is old */
    bool json;
};

static void print(const struct feed *feed, const json_t *event)
{
    static const char *const members[] = {"time", "kind", "sandbox_id", "exec_id", "detail"};
    double age = atoll_cli_age_of(atoll_link_text(event, "time", ""));
    struct atoll_error ignored;

    if (feed->since_seconds > 0 && age > feed->since_seconds)
        return;
    if (feed->json) {
        /* Standard output that is closed ends the program by SIGPIPE. */
        if (atoll_cli_print_json(event, &ignored) < 0)
            return;
    } else if (json_object_get(event, "truncated")) {
        atoll_cli_say("earlier events are no longer kept");
    } else {
        for (size_t i = 0; i < ATOLL_ARRAY_LEN(members); i++) {
            const char *text = atoll_link_text(event, members[i], "");
            if (*text && i > 0)
                (void)fputc(' ', stdout);
            atoll_cli_put(stdout, text);
        }
        (void)fputc('\n', stdout);
    }
    (void)fflush(stdout);
}

static void take_line(void *arg, const char *text, size_t n)
{
    ATOLL_AUTOJSON json_t *event = NULL;

    if (strncmp(text, "data: ", 6) == 0)
        event = atoll_link_parse_json(text + 6, n - 6);
    if (event)
        print(arg, event);
}

/* Events are found by id. A sandbox that has ended is known by nothing else. */
static int find_id(struct atoll_cli *cli, const char *sandbox, char *out, struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *reply = NULL;
    struct atoll_link_target target;
    int r = atoll_link_check_id("sandbox", sandbox, err);

    if (r == 0)
        r = atoll_link_target(&target, err, "/api/sandboxes/%s", sandbox);
    if (r == 0)
        r = atoll_cli_call(cli, "GET", target.text, NULL, &reply, err);
    if (r < 0 && err->kind != ATOLL_ERR_NOT_FOUND)
        return r;
    (void)snprintf(out, ATOLL_LINK_ID_MAX, "%s", atoll_link_text(reply, "id", sandbox));
    return 0;
}

static int run(struct atoll_cli *cli, const void *options, int argc, char **argv,
               struct atoll_error *err)
{
    const struct options *o = options;
    struct feed feed = {.json = cli->json, .since_seconds = o->since_seconds};
    struct atoll_cli_lines lines;
    struct atoll_http_transfer transfer = {
        .length = -1, .write = atoll_cli_lines_write, .arg = &lines};
    struct atoll_link_target target;
    char id[ATOLL_LINK_ID_MAX] = "";
    int r = argc > 0 ? find_id(cli, argv[0], id, err) : 0;

    if (r < 0)
        return r;
    (void)snprintf(target.text, sizeof(target.text), "/api/events?%s%s%s%s",
                   o->since_seconds > 0 ? "after=0&" : "", o->all ? "all=true&" : "",
                   argc > 0 ? "sandbox=" : "", id);
    atoll_cli_lines_init(&lines, LINE_MAX_BYTES, take_line, &feed);
    atoll_cli_set_timeout(cli, -1);
    r = atoll_cli_stream(cli, "GET", target.text, &transfer, NULL, err);
    atoll_cli_lines_done(&lines);
    return r;
}

const struct atoll_cli_verb atoll_cli_events = {
    .name = "events",
    .args = "[OPTION]... [SANDBOX]",
    .summary = "show what happens to sandboxes and commands, as it happens",
    .help = "Until Ctrl-C. With --json: one JSON object per line.\n"
            "\n"
            "Examples:\n"
            "  atoll events\n"
            "  atoll events --since 1h $id\n",
    .options = options_table,
    .options_size = sizeof(struct options),
    .max_args = 1,
    .run = run,
};
