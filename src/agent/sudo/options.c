#include "agent/sudo/options.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include "proto/sudo_proto.h"

#ifndef ATOLL_VERSION
#define ATOLL_VERSION "unknown"
#endif

static const char usage[] =
    "usage: sudo [-EHinSs] [-u user] [-g group] [VAR=value] [command [argument...]]\n"
    "       sudo -h | -V | -l | -v | -k | -K\n"
    "This is the sudo of an Atoll sandbox: it asks for no password and has no sudoers file.\n";

static const struct option long_options[] = {
    {"user", required_argument, NULL, 'u'},
    {"group", required_argument, NULL, 'g'},
    {"login", no_argument, NULL, 'i'},
    {"shell", no_argument, NULL, 's'},
    {"set-home", no_argument, NULL, 'H'},
    {"preserve-env", optional_argument, NULL, 'E'},
    {"preserve-groups", no_argument, NULL, 'P'},
    {"non-interactive", no_argument, NULL, 'n'},
    {"stdin", no_argument, NULL, 'S'},
    {"prompt", required_argument, NULL, 'p'},
    {"reset-timestamp", no_argument, NULL, 'k'},
    {"remove-timestamp", no_argument, NULL, 'K'},
    {"validate", no_argument, NULL, 'v'},
    {"list", no_argument, NULL, 'l'},
    {"version", no_argument, NULL, 'V'},
    {"help", no_argument, NULL, 'h'},
    {"askpass", no_argument, NULL, 'A'},
    {"background", no_argument, NULL, 'b'},
    {"bell", no_argument, NULL, 'B'},
    {"close-from", required_argument, NULL, 'C'},
    {"chdir", required_argument, NULL, 'D'},
    {"chroot", required_argument, NULL, 'R'},
    {"command-timeout", required_argument, NULL, 'T'},
    {"edit", no_argument, NULL, 'e'},
    {"host", required_argument, NULL, 'h' + 256},
    {"other-user", required_argument, NULL, 'U'},
    {NULL, 0, NULL, 0},
};

/* What an option letter means. */
enum effect { FLAG, IGNORED, UNSUPPORTED, ONLY };

static const struct meaning {
    int letter;
    enum effect effect;
    uint32_t flag; /* FLAG */
} meanings[] = {
    {'E', FLAG, ATOLL_SUDO_KEEP_ENV},
    {'H', FLAG, ATOLL_SUDO_HOME},
    {'i', FLAG, ATOLL_SUDO_LOGIN},
    {'s', FLAG, ATOLL_SUDO_SHELL},
    {'n', IGNORED, 0},
    {'S', IGNORED, 0},
    {'A', IGNORED, 0},
    {'B', IGNORED, 0},
    {'p', IGNORED, 0},
    {'k', ONLY, 0},
    {'K', ONLY, 0},
    {'v', ONLY, 0},
    {'P', UNSUPPORTED, 0},
    {'b', UNSUPPORTED, 0},
    {'C', UNSUPPORTED, 0},
    {'D', UNSUPPORTED, 0},
    {'R', UNSUPPORTED, 0},
    {'T', UNSUPPORTED, 0},
    {'e', UNSUPPORTED, 0},
    {'U', UNSUPPORTED, 0},
    {'h' + 256, UNSUPPORTED, 0},
};

static const struct meaning *meaning_of(int letter)
{
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(meanings); i++)
        if (meanings[i].letter == letter)
            return &meanings[i];
    return NULL;
}

/* Applies one option. False: done, with *ret_status. */
static bool apply(struct atoll_sudo_options *o, int letter, bool *only, int *ret_status)
{
    const struct meaning *m = meaning_of(letter);

    *ret_status = 0;
    if (letter == 'u') {
        o->user = optarg;
    } else if (letter == 'g') {
        o->group = optarg;
    } else if (letter == 'h') {
        (void)fputs(usage, stdout);
        return false;
    } else if (letter == 'V') {
        (void)printf("sudo of Atoll %s\n", ATOLL_VERSION);
        return false;
    } else if (letter == 'l') {
        (void)puts("You may run the following commands in this sandbox:\n    (ALL) NOPASSWD: ALL");
        return false;
    } else if (!m || m->effect == UNSUPPORTED) {
        if (m)
            (void)fprintf(stderr, "sudo: option -%c is not supported in a sandbox\n",
                          letter & 0xff);
        (void)fputs(usage, stderr);
        *ret_status = 1;
        return false;
    } else if (m->effect == FLAG) {
        o->flags |= m->flag;
    } else if (m->effect == ONLY) {
        *only = true;
    }
    return true;
}

/* NAME=VALUE with a NAME a shell would accept. */
static bool is_variable(const char *text)
{
    size_t n = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
    return n > 0 && text[n] == '=';
}

bool atoll_sudo_options_parse(struct atoll_sudo_options *o, int argc, char **argv, int *ret_status)
{
    bool only = false;
    int letter;

    *o = (struct atoll_sudo_options){.user = "", .group = ""};
    while ((letter = getopt_long(argc, argv, "+u:g:isHEPnSp:kKvlVhAbBC:D:R:T:eU:", long_options,
                                 NULL)) >= 0)
        if (!apply(o, letter, &only, ret_status))
            return false;
    o->vars = argv + optind;
    while (optind < argc && is_variable(argv[optind])) {
        optind++;
        o->var_count++;
    }
    o->command = argv + optind;
    if (!*o->command && !(o->flags & (ATOLL_SUDO_LOGIN | ATOLL_SUDO_SHELL))) {
        *ret_status = only ? 0 : 1;
        if (!only)
            (void)fputs(usage, stderr);
        return false;
    }
    return true;
}
