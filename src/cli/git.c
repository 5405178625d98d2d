/*
 * `atoll git`: a table says for each action which request it is and what its arguments are called there.
 * The options that are set become members of the request; the daemon refuses those that it does not know.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/buf.h"
#include "cli/git_print.h"

#define ACTIONS_LISTED 400

struct options {
    struct atoll_cli_common common;
    const char *path, *user, *message, *author, *ref, *commit, *mode, *scope, *username, *host;
    uint64_t depth, limit, skip;
    double timeout;
    bool all, amend, allow_empty, bare, checkout, create, drop, ff_only, force, ignored,
        insecure_tls;
    bool prune, rebase, remotes, remove, replace, set_upstream, staged, submodules, tags, untracked;
    bool worktree;
};

#define AT(member) offsetof(struct options, member)
#define FLAG(name, letter, member, help)                           \
    {                                                              \
        name, letter, ATOLL_CLI_FLAG, AT(member), NULL, help, NULL \
    }
#define TEXT(name, letter, member, value, help)                     \
    {                                                               \
        name, letter, ATOLL_CLI_TEXT, AT(member), value, help, NULL \
    }

/* The names are those of the request's members, with dashes. */
static const struct atoll_cli_option options_table[] = {
    TEXT("path", 'C', path, "DIR", "the repository (default: where commands of the sandbox start)"),
    TEXT("user", 'u', user, "NAME", "the user of the sandbox who runs git"),
    {"timeout", 0, ATOLL_CLI_TIME, AT(timeout), "TIME", "end git after this time", NULL},
    TEXT("message", 'm', message, "TEXT", "commit, tag, stash: the message"),
    TEXT("author", 0, author, "NAME",
         "commit, pull, tag: author and committer, as \"Ann <ann@example.org>\""),
    TEXT("ref", 'b', ref, "NAME",
         "clone, init: the branch; log: where it starts; restore: the source"),
    TEXT("commit", 0, commit, "HASH", "clone: a commit to check out"),
    TEXT("mode", 0, mode, "soft|mixed|hard|merge|keep|abort", "reset: how"),
    TEXT("scope", 0, scope, "local|global|system", "config: which file"),
    TEXT("username", 0, username, "NAME",
         "clone, fetch, pull, push: the user of the password in ATOLL_GIT_PASSWORD"),
    TEXT("host", 0, host, "NAME",
         "the only server that gets the password (clone: that of the URL)"),
    {"depth", 0, ATOLL_CLI_COUNT, AT(depth), "N", "clone, fetch: only the newest commits", NULL},
    {"limit", 'n', ATOLL_CLI_COUNT, AT(limit), "N", "log: how many (default: 100)", NULL},
    {"skip", 0, ATOLL_CLI_COUNT, AT(skip), "N", "log: leave out the newest", NULL},
    FLAG("all", 'a', all, "add: all changes; commit: all changes of tracked files"),
    FLAG("amend", 0, amend, "commit: replace the last one"),
    FLAG("allow-empty", 0, allow_empty, "commit: also without a change"),
    FLAG("bare", 0, bare, "clone, init: without a work tree"),
    FLAG("checkout", 0, checkout, "branch: check the new one out"),
    FLAG("create", 0, create, "checkout: make the branch"),
    FLAG("delete", 'd', remove, "branch, remote, tag, stash, config, push: delete it"),
    FLAG("drop", 0, drop, "apply: drop the stash when it was applied"),
    FLAG("ff-only", 0, ff_only, "pull: do not merge"),
    FLAG("force", 'f', force, "push, checkout, branch -d, tag: even if something is lost"),
    FLAG("ignored", 0, ignored, "status: ignored files too"),
    FLAG("insecure-tls", 0, insecure_tls, "do not check the certificate of the server"),
    FLAG("prune", 0, prune, "fetch: remove what the remote no longer has"),
    FLAG("rebase", 0, rebase, "pull: rebase instead of merging"),
    FLAG("remotes", 'r', remotes, "branch: those of remotes too"),
    FLAG("replace", 0, replace, "remote: change the URL"),
    FLAG("set-upstream", 0, set_upstream, "push: remember the remote branch"),
    FLAG("staged", 0, staged, "diff, restore: the index"),
    FLAG("submodules", 0, submodules, "clone: submodules too"),
    FLAG("tags", 0, tags, "fetch, push: all tags"),
    FLAG("untracked", 0, untracked, "stash: untracked files too"),
    FLAG("worktree", 0, worktree, "restore: the work tree too"),
    ATOLL_CLI_COMMON(struct options),
    {0},
};

struct action {
    const char *name, *method, *route;
    /* Members for the arguments, in order, separated by blanks; "files*" takes all that follow. */
    const char *members;
    int min_args, max_args;
    bool deletes;  /* chosen with --delete */
    bool networks; /* takes a password */
    atoll_cli_git_printer *print;
};

/* The first row with this name, number of arguments and --delete is taken. */
static const struct action actions[] = {
    {"clone", "POST", "clone", "url path", 1, 2, false, true, atoll_cli_git_print_where},
    {"init", "POST", "init", "path", 0, 1, false, false, NULL},
    {"status", "GET", "status", "", 0, 0, false, false, atoll_cli_git_print_status},
    {"add", "POST", "add", "files*", 0, -1, false, false, NULL},
    {"commit", "POST", "commit", "files*", 0, -1, false, false, atoll_cli_git_print_where},
    {"log", "GET", "log", "files*", 0, -1, false, false, atoll_cli_git_print_log},
    {"diff", "GET", "diff", "ref to", 0, 2, false, false, atoll_cli_git_print_diff},
    {"checkout", "POST", "checkout", "ref", 1, 1, false, false, atoll_cli_git_print_where},
    {"reset", "POST", "reset", "ref", 0, 1, false, false, atoll_cli_git_print_where},
    {"restore", "POST", "restore", "files*", 1, -1, false, false, NULL},
    {"fetch", "POST", "fetch", "remote ref", 0, 2, false, true, atoll_cli_git_print_words},
    {"pull", "POST", "pull", "remote ref", 0, 2, false, true, atoll_cli_git_print_where},
    {"push", "POST", "push", "remote ref", 0, 2, false, true, atoll_cli_git_print_pushed},
    {"branch", "GET", "branches", "", 0, 0, false, false, atoll_cli_git_print_branches},
    {"branch", "DELETE", "branches", "name", 1, 1, true, false, NULL},
    {"branch", "POST", "branches", "name ref", 1, 2, false, false, NULL},
    {"remote", "GET", "remotes", "", 0, 0, false, false, atoll_cli_git_print_remotes},
    {"remote", "DELETE", "remotes", "name", 1, 1, true, false, NULL},
    {"remote", "POST", "remotes", "name url", 2, 2, false, false, NULL},
    {"tag", "GET", "tags", "", 0, 0, false, false, atoll_cli_git_print_tags},
    {"tag", "DELETE", "tags", "name", 1, 1, true, false, NULL},
    {"tag", "POST", "tags", "name ref", 1, 2, false, false, NULL},
    {"stashes", "GET", "stash", "", 0, 0, false, false, atoll_cli_git_print_stashes},
    {"stash", "DELETE", "stash", "index", 0, 1, true, false, NULL},
    {"stash", "POST", "stash", "", 0, 0, false, false, NULL},
    {"apply", "POST", "stash/apply", "index", 0, 1, false, false, NULL},
    {"config", "DELETE", "config", "name", 1, 1, true, false, NULL},
    {"config", "GET", "config", "name", 0, 1, false, false, atoll_cli_git_print_config},
    {"config", "PUT", "config", "name value", 2, 2, false, false, NULL},
};

/* Choosing the action. */

static int fail_unknown(const char *name, struct atoll_error *err)
{
    char list[ACTIONS_LISTED] = "";
    const char *last = "";

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(actions); i++) {
        size_t len = strlen(list);
        if (strcmp(actions[i].name, last) != 0)
            (void)snprintf(list + len, sizeof(list) - len, "%s%s", len ? ", " : "",
                           actions[i].name);
        last = actions[i].name;
    }
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                      "unknown action \"%.40s\": it is one of %s", name, list);
}

static int choose(const struct options *o, const char *name, int argc, const struct action **ret,
                  struct atoll_error *err)
{
    bool known = false;

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(actions); i++) {
        const struct action *a = &actions[i];
        if (strcmp(a->name, name) != 0)
            continue;
        known = true;
        if (argc < a->min_args || (a->max_args >= 0 && argc > a->max_args) ||
            a->deletes != (o->remove && strcmp(a->name, "push") != 0))
            continue;
        *ret = a;
        return 0;
    }
    return known ? atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                              "git %s: not with %d arguments%s", name, argc,
                              o->remove ? " and --delete" : "")
                 : fail_unknown(name, err);
}

/* The request. */

static void set(json_t *request, const char *member, json_t *value)
{
    (void)json_object_set_new(request, member, value);
}

/* "allow-empty" is "allowEmpty". */
static void name_member(const char *option, char *out, size_t cap)
{
    size_t n = 0;

    if (strcmp(option, "timeout") == 0)
        option = "timeout-seconds";
    for (; *option && n + 1 < cap; option++)
        if (*option == '-')
            out[n++] = (char)toupper((unsigned char)*++option);
        else
            out[n++] = *option;
    out[n] = '\0';
}

static void add_option(json_t *request, const struct atoll_cli_option *row, const void *options)
{
    const void *at = (const char *)options + row->offset;
    char member[32];

    name_member(row->name, member, sizeof(member));
    if (row->kind == ATOLL_CLI_FLAG && *(const bool *)at)
        set(request, member, json_true());
    else if (row->kind == ATOLL_CLI_TEXT && *(const char *const *)at)
        set(request, member, json_string(*(const char *const *)at));
    else if (row->kind == ATOLL_CLI_COUNT && *(const uint64_t *)at > 0)
        set(request, member,
            json_integer((json_int_t)ATOLL_MIN(*(const uint64_t *)at, (uint64_t)INT64_MAX)));
    else if (row->kind == ATOLL_CLI_TIME && *(const double *)at > 0)
        set(request, member, json_real(*(const double *)at));
}

/* "Ann <ann@example.org>" */
static int add_author(json_t *request, const char *author, struct atoll_error *err)
{
    const char *open = author ? strrchr(author, '<') : NULL;
    size_t n = author ? strlen(author) : 0;

    (void)json_object_del(request, "author");
    if (!author)
        return 0;
    if (!open || open < author + 2 || author[n - 1] != '>' || open[-1] != ' ')
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "--author must be \"NAME <EMAIL>\"");
    set(request, "author",
        json_pack("{s:s%, s:s%}", "name", author, (size_t)(open - author - 1), "email", open + 1,
                  (size_t)(author + n - open - 2)));
    return 0;
}

/* The password comes from the environment: other users of the host can read a command line. */
static int add_credentials(json_t *request, const struct options *o, const struct action *action,
                           struct atoll_error *err)
{
    const char *password = getenv("ATOLL_GIT_PASSWORD");
    json_t *credentials;

    (void)json_object_del(request, "username");
    (void)json_object_del(request, "host");
    if (!action->networks || (!password && !o->username && !o->host))
        return 0;
    if (!password || !*password)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "the variable ATOLL_GIT_PASSWORD is not set");
    credentials = json_pack("{s:s, s:s*, s:s*}", "password", password, "username", o->username,
                            "host", o->host);
    if (!credentials)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "the password must be UTF-8");
    set(request, "credentials", credentials);
    return 0;
}

static void add_arguments(json_t *request, const struct action *action, int argc, char **argv)
{
    const char *p = action->members;
    char member[16];

    for (int i = 0; i < argc; i++) {
        size_t n = strcspn(p, " *");
        (void)snprintf(member, sizeof(member), "%.*s", (int)n, p);
        if (p[n] == '*') {
            if (!json_object_get(request, member))
                set(request, member, json_array());
            (void)json_array_append_new(json_object_get(request, member), json_string(argv[i]));
            continue;
        }
        /* What is not a number is refused by the daemon. */
        if (strcmp(member, "index") == 0 && strspn(argv[i], "0123456789") == strlen(argv[i]))
            set(request, member, json_integer(strtol(argv[i], NULL, 10)));
        else
            set(request, member, json_string(argv[i]));
        p += n + (p[n] ? 1 : 0);
    }
}

static int make_request(const struct options *o, const struct action *action, int argc, char **argv,
                        json_t *request, struct atoll_error *err)
{
    const struct atoll_cli_option *row;

    for (size_t pos = 0; (row = atoll_cli_option_next(options_table, &pos));)
        if (row >= options_table && row < options_table + ATOLL_ARRAY_LEN(options_table) &&
            row->name)
            add_option(request, row, o);
    if (action->deletes)
        (void)json_object_del(request, "delete");
    add_arguments(request, action, argc, argv);
    return add_author(request, o->author, err) < 0 || add_credentials(request, o, action, err) < 0
               ? -EINVAL
               : 0;
}

/* Sending it. */

static int act(struct atoll_cli *cli, const char *box, const struct action *action, json_t *request,
               json_t **ret_reply, struct atoll_error *err)
{
    struct atoll_link_target target;
    bool has_body = *action->method == 'P';
    int r = atoll_link_git_target(&target, action->method, box, action->route, request, err);

    atoll_cli_set_timeout(cli, -1);
    return r < 0 ? r
                 : atoll_cli_call(cli, action->method, target.text, has_body ? request : NULL,
                                  ret_reply, err);
}

static int run(struct atoll_cli *cli, const void *options, int argc, char **argv,
               struct atoll_error *err)
{
    const struct options *o = options;
    ATOLL_AUTOJSON json_t *request = json_object(), *reply = NULL;
    const struct action *action = NULL;
    int r = atoll_link_check_id("sandbox", argv[0], err);

    if (r == 0)
        r = choose(o, argv[1], argc - 2, &action, err);
    if (r == 0)
        r = make_request(o, action, argc - 2, argv + 2, request, err);
    if (r == 0)
        r = act(cli, argv[0], action, request, &reply, err);
    if (r < 0)
        return r;
    if (cli->json && !json_is_null(reply))
        return atoll_cli_print_json(reply, err);
    if (!cli->json && action->print)
        action->print(reply);
    return ATOLL_CLI_OK;
}

const struct atoll_cli_verb atoll_cli_git = {
    .name = "git",
    .args = "[OPTION]... SANDBOX ACTION [ARG]...",
    .summary = "work with git repositories in a sandbox",
    .help = "Actions:\n"
            "  clone URL [DIR]            fetch, pull, push [REMOTE [REF]]\n"
            "  init [DIR]                 branch [NAME [REF]], branch -d NAME\n"
            "  status                     tag [NAME [REF]], tag -d NAME\n"
            "  add FILE..., add -a        remote [NAME URL], remote -d NAME\n"
            "  commit -m TEXT [FILE]...   stash, stashes, apply [N], stash -d [N]\n"
            "  log [FILE]...              config [NAME [VALUE]], config -d NAME\n"
            "  diff [REF [REF]]           checkout REF, reset [REF], restore FILE...\n"
            "\n"
            "Git runs in the sandbox. A password is given to git for this one command and is\n"
            "stored nowhere in the sandbox.\n"
            "\n"
            "Examples:\n"
            "  atoll git $id clone https://github.com/git/git --depth 1\n"
            "  atoll git $id -C git status\n"
            "  ATOLL_GIT_PASSWORD=$token atoll git $id -C site push\n",
    .options = options_table,
    .options_size = sizeof(struct options),
    .min_args = 2,
    .max_args = -1,
    .run = run,
};
