/*
 * `atoll net`: the connections of a sandbox, and its network policy.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/text.h"
#include "cli/collection.h"
#include "cli/lines.h"

#define LINE_MAX_BYTES (64u * 1024)
#define SHOWN "100" /* connections, without --follow */

struct options {
    struct atoll_cli_common common;
    bool follow;
    const char *set;
};

static const struct atoll_cli_option options_table[] = {
    {"follow", 'f', ATOLL_CLI_FLAG, offsetof(struct options, follow), NULL,
     "show connections when they begin and when they end, until Ctrl-C", NULL},
    {"set", 0, ATOLL_CLI_TEXT, offsetof(struct options, set), "FILE",
     "replace the policy by the JSON in FILE (-: standard input); it holds at once, and\n"
     "connections that it denies are closed",
     NULL},
    ATOLL_CLI_COMMON(struct options),
    {0},
};

/* Cells. */

static const char *format_bytes(const json_t *c, const char *member, char *out)
{
    double bytes = atoll_link_number(c, member, 0);

    return atoll_text_format_size(bytes > 0 && bytes < 9e18 ? (uint64_t)bytes : 0, out);
}

static void format_port(const json_t *c, char *out, size_t cap)
{
    if (strcmp(atoll_link_text(c, "kind", ""), "dns") == 0)
        (void)snprintf(out, cap, "dns");
    else
        (void)snprintf(out, cap, "%.0f", atoll_link_number(c, "port", 0));
}

/* A denied connection with the option that would allow it, an unreachable one with the reason. */
static enum atoll_cli_colour format_end(const json_t *c, char *out, size_t cap)
{
    const char *end = atoll_link_text(c, "end", "?"), *hint = atoll_link_text(c, "hint", "");
    const char *why = atoll_link_text(c, "error", "");

    (void)snprintf(out, cap, "%s%s%s%s%s", end, *hint ? "; --allow " : "", hint, *why ? ": " : "",
                   why);
    if (strcmp(end, "open") == 0)
        return ATOLL_CLI_GREEN;
    return strcmp(end, "closed") == 0 ? ATOLL_CLI_PLAIN : ATOLL_CLI_RED;
}

/* Listing. */

static void add_connection(struct atoll_cli_table *table, const json_t *c)
{
    char port[16], in[16], out[16], end[600];
    enum atoll_cli_colour colour = format_end(c, end, sizeof(end));

    format_port(c, port, sizeof(port));
    atoll_cli_table_add(table, ATOLL_CLI_PLAIN, "%.19s", atoll_link_text(c, "started_at", "?"));
    atoll_cli_table_add(table, ATOLL_CLI_PLAIN, "%s", atoll_link_text(c, "name", "-"));
    atoll_cli_table_add(table, ATOLL_CLI_PLAIN, "%s", atoll_link_text(c, "address", "-"));
    atoll_cli_table_add(table, ATOLL_CLI_PLAIN, "%s", port);
    atoll_cli_table_add(table, ATOLL_CLI_PLAIN, "%s", atoll_link_text(c, "rule", "-"));
    atoll_cli_table_add(table, ATOLL_CLI_PLAIN, "%s", format_bytes(c, "rx_bytes", in));
    atoll_cli_table_add(table, ATOLL_CLI_PLAIN, "%s", format_bytes(c, "tx_bytes", out));
    atoll_cli_table_add(table, colour, "%s", end);
}

/* The newest last, where the prompt is. */
static int list(struct atoll_cli *cli, const char *box, struct atoll_error *err)
{
    static const char *const names[] = {"TIME", "NAME", "ADDRESS", "PORT", "RULE",
                                        "IN",   "OUT",  "END",     NULL};
    ATOLL_AUTOJSON json_t *reply = NULL;
    const json_t *connections;
    struct atoll_link_target target;
    struct atoll_cli_table table;
    int r =
        atoll_link_target(&target, err, "/api/sandboxes/%s/network/connections?limit=" SHOWN, box);

    if (r == 0)
        r = atoll_cli_call(cli, "GET", target.text, NULL, &reply, err);
    if (r < 0)
        return r;
    if (cli->json)
        return atoll_cli_print_json(reply, err);
    connections = json_object_get(reply, "connections");
    atoll_cli_table_init(&table, names);
    for (size_t i = json_array_size(connections); i > 0; i--)
        add_connection(&table, json_array_get(connections, i - 1));
    atoll_cli_table_finish(&table, stdout);
    return 0;
}

/* Following. */

static void print_line(const json_t *c)
{
    char port[16], in[16], out[16], end[600];
    enum atoll_cli_colour colour = format_end(c, end, sizeof(end));
    const char *name = atoll_link_text(c, "name", "");

    format_port(c, port, sizeof(port));
    (void)printf("%.19s ", atoll_link_text(c, "started_at", "?"));
    if (*name) {
        atoll_cli_put(stdout, name);
        (void)fputc(' ', stdout);
    }
    atoll_cli_put(stdout, atoll_link_text(c, "address", ""));
    (void)printf("%s%s  [", strcmp(port, "dns") == 0 ? "" : ":", port);
    atoll_cli_put(stdout, atoll_link_text(c, "rule", "-"));
    (void)printf("]  in %s out %s  ", format_bytes(c, "rx_bytes", in),
                 format_bytes(c, "tx_bytes", out));
    atoll_cli_put_colour(stdout, colour, end);
    (void)fputc('\n', stdout);
}

static void take_line(void *arg, const char *text, size_t n)
{
    const struct atoll_cli *cli = arg;
    ATOLL_AUTOJSON json_t *c = NULL;
    struct atoll_error ignored;

    if (strncmp(text, "data: ", 6) == 0)
        c = atoll_link_parse_json(text + 6, n - 6);
    if (!c)
        return;
    if (cli->json)
        (void)!atoll_cli_print_json(c, &ignored);
    else
        print_line(c);
    (void)fflush(stdout);
}

static int follow(struct atoll_cli *cli, const char *box, struct atoll_error *err)
{
    struct atoll_cli_lines lines;
    struct atoll_http_transfer transfer = {
        .length = -1, .write = atoll_cli_lines_write, .arg = &lines};
    struct atoll_link_target target;
    int r = atoll_link_target(&target, err,
                              "/api/sandboxes/%s/network/connections?follow=true&after=0", box);

    if (r < 0)
        return r;
    atoll_cli_lines_init(&lines, LINE_MAX_BYTES, take_line, cli);
    atoll_cli_set_timeout(cli, -1);
    r = atoll_cli_stream(cli, "GET", target.text, &transfer, NULL, err);
    atoll_cli_lines_done(&lines);
    return r;
}

/* The policy. */

static int set(struct atoll_cli *cli, const char *box, const char *file, struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *policy = NULL, *reply = NULL;
    struct atoll_link_target target;
    json_error_t why;
    int r = atoll_link_target(&target, err, "/api/sandboxes/%s/network", box);

    if (r < 0)
        return r;
    policy = strcmp(file, "-") == 0 ? json_loadf(stdin, JSON_REJECT_DUPLICATES, &why)
                                    : json_load_file(file, JSON_REJECT_DUPLICATES, &why);
    if (!policy)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "%s: line %d: %s", file,
                          why.line, why.text);
    r = atoll_cli_call(cli, "PUT", target.text, policy, &reply, err);
    return r == 0 && cli->json ? atoll_cli_print_json(reply, err) : r;
}

static int run(struct atoll_cli *cli, const void *options, int argc, char **argv,
               struct atoll_error *err)
{
    const struct options *o = options;
    int r = atoll_link_check_id("sandbox", argv[0], err);

    (void)argc;
    if (r == 0 && o->set)
        r = set(cli, argv[0], o->set, err);
    if (r == 0 && o->follow)
        return follow(cli, argv[0], err);
    return r < 0 || o->set ? r : list(cli, argv[0], err);
}

const struct atoll_cli_verb atoll_cli_net = {
    .name = "net",
    .args = "[OPTION]... SANDBOX",
    .summary = "show the connections of a sandbox, or change its network policy",
    .help = "Shows the newest 100 connections, what was denied and why; a denied one with the\n"
            "option of `atoll run` and `atoll create` that would allow it. IN and OUT are the\n"
            "bytes that the sandbox received and sent.\n"
            "\n"
            "Examples:\n"
            "  atoll net -f $id\n"
            "  echo '{\"allow\": [\"*.example.org\"]}' | atoll net $id --set -\n",
    .options = options_table,
    .options_size = sizeof(struct options),
    .min_args = 1,
    .max_args = 1,
    .run = run,
};
