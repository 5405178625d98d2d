#include <errno.h>
#include <stdio.h>
#include "base/text.h"
#include "cli/client.h"
#include "cli/print.h"

struct options {
    struct atoll_cli_common common;
    bool is_public, remove;
};

static const struct atoll_cli_option options_table[] = {
    {"public", 'p', ATOLL_CLI_FLAG, offsetof(struct options, is_public), NULL,
     "allow access without a token", NULL},
    {"rm", 0, ATOLL_CLI_FLAG, offsetof(struct options, remove), NULL,
     "remove the preview of the port", NULL},
    ATOLL_CLI_COMMON(struct options),
    {0},
};

static int list(struct atoll_cli *cli, const char *id, struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *reply = NULL;
    struct atoll_link_target target;
    const json_t *each;
    size_t i;
    int r = atoll_link_target(&target, err, "/api/sandboxes/%s/previews", id);

    if (r == 0)
        r = atoll_cli_call(cli, "GET", target.text, NULL, &reply, err);
    if (r < 0)
        return r;
    if (cli->json)
        return atoll_cli_print_json(reply, err);
    json_array_foreach(json_object_get(reply, "previews"), i, each)(void)
        printf("%.0f\t%s%s%s\n", atoll_link_number(each, "port", 0),
               atoll_link_text(each, "url", atoll_link_text(each, "path_url", "")),
               json_object_get(each, "address") ? "\t" : "", atoll_link_text(each, "address", ""));
    return ATOLL_CLI_OK;
}

static int stop_showing(struct atoll_cli *cli, const char *id, const char *port,
                        struct atoll_error *err)
{
    struct atoll_link_target target;
    ATOLL_AUTOJSON json_t *object = json_pack("{s:[s]}", "removed", port);
    int r = atoll_link_target(&target, err, "/api/sandboxes/%s/previews/%s", id, port);

    if (r == 0)
        r = atoll_cli_call(cli, "DELETE", target.text, NULL, NULL, err);
    return r < 0 || !cli->json ? r : atoll_cli_print_json(object, err);
}

static int show(struct atoll_cli *cli, const char *id, uint64_t port, bool is_public,
                struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *request =
        json_pack("{s:I, s:b}", "port", (json_int_t)port, "public", (int)is_public);
    ATOLL_AUTOJSON json_t *reply = NULL;
    struct atoll_link_target target;
    const char *url;
    int r = atoll_link_target(&target, err, "/api/sandboxes/%s/previews", id);

    if (r == 0)
        r = atoll_cli_call(cli, "POST", target.text, request, &reply, err);
    if (r < 0)
        return r;
    if (cli->json)
        return atoll_cli_print_json(reply, err);
    url = atoll_link_text(reply, "url", NULL);
    if (!url)
        atoll_cli_say("the daemon serves no TCP address, so a browser cannot reach the preview; "
                      "start it with --listen 127.0.0.1:8000. Its path below the API's address is");
    (void)printf("%s\n", url ? url : atoll_link_text(reply, "path_url", ""));
    return ATOLL_CLI_OK;
}

static int run(struct atoll_cli *cli, const void *options, int argc, char **argv,
               struct atoll_error *err)
{
    const struct options *o = options;
    uint64_t port = 0;
    int r = atoll_link_check_id("sandbox", argv[0], err);

    if (r < 0)
        return r;
    if (o->is_public && o->remove)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "--public and --rm exclude each other");
    if (argc == 1 && (o->is_public || o->remove))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "--public and --rm need a PORT");
    if (argc == 1)
        return list(cli, argv[0], err);
    if (atoll_text_u64(argv[1], 1, 65535, &port) < 0)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "a port is a number from 1 to 65535 (got \"%.40s\")", argv[1]);
    if (o->remove)
        return stop_showing(cli, argv[0], argv[1], err);
    return show(cli, argv[0], port, o->is_public, err);
}

static int run_port(struct atoll_cli *cli, const void *options ATOLL_UNUSED, int argc ATOLL_UNUSED,
                    char **argv, struct atoll_error *err)
{
    int r = atoll_link_check_id("sandbox", argv[0], err);
    return r < 0 ? r : list(cli, argv[0], err);
}

const struct atoll_cli_verb atoll_cli_port = {
    .name = "port",
    .args = "SANDBOX",
    .summary = "list the ports of a sandbox that are open, with their URLs",
    .help = "`atoll preview` opens a port, --publish of `atoll run` and `atoll create` also at an\n"
            "address of the host, which is the last column.\n",
    .min_args = 1,
    .max_args = 1,
    .run = run_port,
};

const struct atoll_cli_verb atoll_cli_preview = {
    .name = "preview",
    .args = "[OPTION]... SANDBOX [PORT]",
    .summary = "open a port of a sandbox to a browser and print its URL",
    .help = "Works with every network mode of the sandbox. Unless the preview is public, the\n"
            "URL contains a token that grants access: keep it secret. Without PORT, lists the\n"
            "previews of the sandbox.\n"
            "\n"
            "Examples:\n"
            "  atoll exec --detach $id -- python3 -m http.server 8000\n"
            "  atoll preview $id 8000\n"
            "  atoll preview --rm $id 8000\n",
    .options = options_table,
    .options_size = sizeof(struct options),
    .min_args = 1,
    .max_args = 2,
    .run = run,
};
