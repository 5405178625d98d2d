/*
 * A Debian template: mmdebstrap resolves, unpacks and configures the packages, and writes a tar that is
 * streamed to the daemon. Nothing is stored locally.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/text.h"
#include "cli/print.h"
#include "cli/template.h"

/* Packages that a minimal Debian lacks and that code in a sandbox usually needs. */
#define USEFUL_PACKAGES "ca-certificates,curl,git,less,procps,python3,unzip,xz-utils"

/* Adds the user that commands run as: a template has its own /etc/passwd. */
#define ADD_USER                                                \
    "--customize-hook=if [ -x \"$1/usr/sbin/useradd\" ]; then " \
    "chroot \"$1\" useradd --create-home --uid 1000 --shell /bin/bash user; fi"

#define ARGS_MAX 16

struct options {
    struct atoll_cli_common common;
    const char *suite, *packages, *variant, *mirror;
};

#define AT(field) offsetof(struct options, field)
static const struct atoll_cli_option options_table[] = {
    {"suite", 's', ATOLL_CLI_TEXT, AT(suite), "NAME", "the release (default: bookworm)", NULL},
    {"packages", 'p', ATOLL_CLI_TEXT, AT(packages), "A,B,C",
     "packages to add (default: " USEFUL_PACKAGES ")", NULL},
    {"variant", 0, ATOLL_CLI_TEXT, AT(variant), "NAME",
     "base set of packages: minbase (default), apt, buildd, standard …", NULL},
    {"mirror", 0, ATOLL_CLI_TEXT, AT(mirror), "URL",
     "mirror to download packages from, or a sources.list file", NULL},
    ATOLL_CLI_COMMON(struct options),
    {0},
};
#undef AT

/* The value becomes an argument of mmdebstrap, which would take a leading dash for an option. */
static int check_word(const char *option, const char *word, struct atoll_error *err)
{
    if (!word || (*word && *word != '-'))
        return 0;
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "--%s: \"%.100s\" is not a name",
                      option, word);
}

static int build(struct atoll_cli *cli, const struct options *o, const char *name,
                 struct atoll_error *err)
{
    char program[] = "mmdebstrap", to[] = "-", hook[] = ADD_USER, format[] = "--format=tar";
    char mode[32], variant[64], suite[64], include[2048], mirror[1024];
    char *argv[ARGS_MAX] = {program, mode, variant, include, format, hook, suite, to, NULL};

    (void)snprintf(mode, sizeof(mode), "--mode=%s", geteuid() == 0 ? "root" : "unshare");
    (void)snprintf(suite, sizeof(suite), "%s", o->suite ? o->suite : "bookworm");
    (void)snprintf(variant, sizeof(variant), "--variant=%s", o->variant ? o->variant : "minbase");
    if ((size_t)snprintf(include, sizeof(include), "--include=%s",
                         o->packages ? o->packages : USEFUL_PACKAGES) >= sizeof(include) ||
        (size_t)snprintf(mirror, sizeof(mirror), "%s", o->mirror ? o->mirror : "") >=
            sizeof(mirror))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, E2BIG, "too many packages");
    if (o->mirror)
        argv[8] = mirror;
    return atoll_cli_template_send_output(cli, name, argv, err);
}

static int run(struct atoll_cli *cli, const void *options, int argc ATOLL_UNUSED, char **argv,
               struct atoll_error *err)
{
    const struct options *o = options;
    int r = check_word("suite", o->suite, err);

    if (r == 0)
        r = check_word("mirror", o->mirror, err);
    if (r == 0)
        r = atoll_cli_template_check_name(argv[0], err);
    if (r == 0)
        r = build(cli, o, argv[0], err);
    if (r < 0 && err->kind == ATOLL_ERR_NOT_FOUND && err->errnum == ENOENT)
        (void)snprintf(cli->hint, sizeof(cli->hint), "install it with: apt install mmdebstrap");
    return r;
}

const struct atoll_cli_verb atoll_cli_template_debian = {
    .name = "template debian",
    .args = "[OPTION]... NAME",
    .summary = "create a template with a new Debian system",
    .help = "Runs mmdebstrap and sends its output to the daemon. A user other than root needs\n"
            "user namespaces and sub-ids for this (see `atoll doctor`).\n"
            "\n"
            "Examples:\n"
            "  atoll template debian debian\n"
            "  atoll template debian --suite trixie --packages nodejs,npm,git node\n"
            "  atoll run --template node -- node -e 'console.log(6*7)'\n",
    .options = options_table,
    .options_size = sizeof(struct options),
    .min_args = 1,
    .max_args = 1,
    .run = run,
};
