/*
 * A table says for each operation how its command is made. Commands are programs with arguments, or
 * constant scripts of sh with arguments: no text of a client becomes part of a script.
 *
 * Options of a client that git would take for its own options ("--upload-pack=…") are refused, and
 * paths of files are given on standard input or as literal pathspecs.
 */
#include "git/command.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "base/memory.h"
#include "git/porcelain.h"

#define ARGS_MAX 48 /* besides files */
#define ENV_MAX 24
#define FILES_MAX 16384     /* git takes a time that grows with the square */
#define ARGV_FILES_MAX 1024 /* of commands that take files as arguments */
#define INPUT_MAX ((size_t)8 * 1024 * 1024)
#define LOCAL_MS (120 * 1000)
#define NETWORK_MS (600 * 1000)
#define LOG_LIMIT 100
/* How often git may ask for the credentials: once for each repository it talks to. */
#define ANSWERS 4
#define ANSWERS_SUBMODULES 64

/*
 * Beginnings of scripts: n runs a git that talks to a server, c closes the credentials, w prints the
 * current branch and commit of the repository $d.
 *
 * With credentials, standard input becomes descriptor 9, from which only the credential helper
 * reads: one answer of two lines for each question. GIT_ALLOW_PROTOCOL excludes transports that are
 * programs; a detached gc would keep the descriptor.
 */
#define WHERE                                                                  \
    "w() { printf '%s\\0' \"$(git -C \"$d\" symbolic-ref -q --short HEAD)\"\n" \
    "git -C \"$d\" log -1 -z '--format=tformat:" ATOLL_GIT_COMMIT_FORMAT "' 2>/dev/null || :; }\n"
#define PLAIN               \
    "n() { git \"$@\"; }\n" \
    "c() { :; }\n" WHERE
#define SECRET                                                                       \
    "exec 9<&0 </dev/null\n"                                                         \
    "h='!f() { test \"$1\" = get || exit 0; while IFS== read -r k v; do case $k in " \
    "protocol) p=$v ;; host) h=$v ;; esac; done; case $ATOLL_GIT_SERVER in "         \
    "\"\" | \"$h\" | \"$p://$h\") ;; *) exit 0 ;; esac; "                            \
    "IFS= read -r u <&9 && IFS= read -r w <&9 && "                                   \
    "printf \"username=%s\\npassword=%s\\n\" \"$u\" \"$w\"; }; f'\n"                 \
    "n() { GIT_ALLOW_PROTOCOL=http:https git -c credential.helper= "                 \
    "-c \"credential.helper=$h\" -c core.hooksPath=/dev/null -c gc.auto=0 "          \
    "-c maintenance.auto=false \"$@\"; }\n"                                          \
    "c() { exec 9<&-; }\n" WHERE

/* How a command is made. */
struct maker {
    const char *name;
    bool network;       /* it talks to a server */
    const char *script; /* NULL: git with arguments */
    int (*fill)(const struct atoll_git_request *r, struct atoll_git_command *c,
                struct atoll_error *err);
};

static void add(struct atoll_git_command *c, const char *arg)
{
    c->argv[c->argc++] = arg;
}

static void add_if(struct atoll_git_command *c, bool condition, const char *arg)
{
    if (condition)
        add(c, arg);
}

static const char *keep(struct atoll_git_command *c, char *text)
{
    if (!text)
        abort(); /* a short text */
    c->texts[c->text_count++] = text;
    return text;
}

static void add_number(struct atoll_git_command *c, const char *before, uint32_t number,
                       const char *after)
{
    char *text = NULL;

    if (asprintf(&text, "%s%" PRIu32 "%s", before, number, after) < 0)
        text = NULL;
    add(c, keep(c, text));
}

static void add_env(struct atoll_git_command *c, const char *name, const char *value)
{
    char *text = NULL;

    if (asprintf(&text, "%s=%s", name, value) < 0)
        text = NULL;
    c->env[c->envc++] = keep(c, text);
}

static const char * or (const char *text, const char *other)
{
    return text ? text : other;
}

static int refuse(struct atoll_error *err, const char *name, const char *what)
{
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "%s %s", name, what);
}

static int need(struct atoll_error *err, const char *name, const char *value)
{
    return value && *value ? 0 : refuse(err, name, "is missing: a string");
}

/* Files on standard input, for --pathspec-from-file. ":(literal)" turns patterns off, without the
 * environment variable that hooks would inherit. */
static int add_files(const struct atoll_git_request *r, struct atoll_git_command *c,
                     struct atoll_error *err)
{
    size_t n = 0;

    for (; r->files[n]; n++) {
        const char *f = r->files[n];
        if (!*f || n >= FILES_MAX || atoll_buf_appends(&c->input, ":(literal)") < 0 ||
            atoll_buf_append(&c->input, f, strlen(f) + 1) < 0)
            return refuse(err, "files", !*f ? "has an empty path" : "has too many paths");
    }
    add(c, "--pathspec-from-file=-");
    add(c, "--pathspec-file-nul");
    return n > 0 ? 0 : refuse(err, "files", "is empty");
}

static int add_file_args(const struct atoll_git_request *r, struct atoll_git_command *c)
{
    add(c, "--");
    for (size_t i = 0; r->files && r->files[i]; i++)
        add(c, r->files[i]);
    return 0;
}

/* Operations. */

static int fill_clone(const struct atoll_git_request *r, struct atoll_git_command *c,
                      struct atoll_error *err)
{
    const char *path = or (r->path, c->url.name);

    if (!*path)
        return need(err, "path", path);
    add(c, path);
    add(c, or (r->commit, ""));
    add(c, r->submodules ? "1" : "");
    add(c, r->bare ? "1" : "");
    add(c, or (r->remote, "origin"));
    add_if(c, r->bare, "--bare");
    if (r->ref) {
        add(c, "--branch");
        add(c, r->ref);
    }
    if (r->depth)
        add_number(c, "--depth=", r->depth, "");
    add_if(c, r->remote, "--origin");
    add_if(c, r->remote, r->remote);
    add(c, "--");
    add(c, c->url.text);
    add(c, path);
    return 0;
}

static const char clone_script[] =
    "d=$1 k=$2 s=$3 b=$4 o=$5\n"
    "shift 5\n"
    "n clone --no-checkout \"$@\" >&2 || exit\n"
    "if test -n \"$k\" && ! git -C \"$d\" cat-file -e \"$k^{commit}\" 2>/dev/null; then\n"
    "  n -C \"$d\" fetch \"$o\" \"$k\" >&2 || exit\n"
    "fi\n"
    "test -n \"$s\" || c\n"
    "if test -n \"$k\"; then git -C \"$d\" checkout -q --detach \"$k\" -- >&2 || exit\n"
    "elif test -z \"$b\" && git -C \"$d\" rev-parse -q --verify HEAD >/dev/null; then\n"
    "  git -C \"$d\" checkout -q >&2 || exit\n"
    "fi\n"
    "test -z \"$s\" || n -C \"$d\" submodule update --init --recursive >&2 || exit\n"
    "w\n";

static int fill_init(const struct atoll_git_request *r, struct atoll_git_command *c,
                     struct atoll_error *err ATOLL_UNUSED)
{
    add(c, "init");
    add(c, "-q");
    add_if(c, r->bare, "--bare");
    if (r->ref) {
        add(c, "-b");
        add(c, r->ref);
    }
    add(c, "--");
    add(c, or (r->path, "."));
    return 0;
}

static int fill_status(const struct atoll_git_request *r, struct atoll_git_command *c,
                       struct atoll_error *err ATOLL_UNUSED)
{
    c->env[c->envc++] = "GIT_OPTIONAL_LOCKS=0";
    add(c, "status");
    add(c, "--porcelain=v2");
    add(c, "--branch");
    add(c, "--show-stash");
    add(c, "-z");
    add(c, "--untracked-files=all");
    add_if(c, r->ignored, "--ignored=matching");
    return 0;
}

static int fill_add(const struct atoll_git_request *r, struct atoll_git_command *c,
                    struct atoll_error *err)
{
    add(c, "add");
    if (r->all && !r->files) {
        add(c, "--all");
        return 0;
    }
    return r->files ? add_files(r, c, err) : refuse(err, "files", "is missing: a list of paths");
}

static int fill_commit(const struct atoll_git_request *r, struct atoll_git_command *c,
                       struct atoll_error *err)
{
    if (!r->message && !r->amend)
        return need(err, "message", NULL);
    add_if(c, r->amend, "--amend");
    add_if(c, r->amend && !r->message, "--no-edit");
    add_if(c, r->message, "-m");
    add_if(c, r->message, r->message);
    add_if(c, r->allow_empty, "--allow-empty");
    add_if(c, r->all, "--all");
    return r->files ? add_files(r, c, err) : 0;
}

static const char commit_script[] = "git -C \"$d\" commit \"$@\" >&2 || exit\n"
                                    "w\n";

static int fill_log(const struct atoll_git_request *r, struct atoll_git_command *c,
                    struct atoll_error *err ATOLL_UNUSED)
{
    add(c, "log");
    add(c, "-z");
    add(c, "--format=tformat:" ATOLL_GIT_COMMIT_FORMAT);
    add_number(c, "--max-count=", r->limit ? r->limit : LOG_LIMIT, "");
    if (r->skip)
        add_number(c, "--skip=", r->skip, "");
    add_if(c, r->ref, r->ref);
    return add_file_args(r, c);
}

static int fill_diff(const struct atoll_git_request *r, struct atoll_git_command *c,
                     struct atoll_error *err)
{
    if (r->to && !r->ref)
        return refuse(err, "to", "needs \"ref\"");
    if (r->to && r->staged)
        return refuse(err, "to", "and \"staged\" exclude each other");
    c->env[c->envc++] = "GIT_OPTIONAL_LOCKS=0";
    add(c, "diff");
    add(c, "--raw");
    add(c, "--numstat");
    add(c, "--patch");
    add(c, "-z");
    add(c, "--no-ext-diff");
    add(c, "--no-textconv");
    add(c, "--no-color");
    add_if(c, r->staged, "--cached");
    add_if(c, r->ref, r->ref);
    add_if(c, r->to, r->to);
    return add_file_args(r, c);
}

static int fill_checkout(const struct atoll_git_request *r, struct atoll_git_command *c,
                         struct atoll_error *err)
{
    add_if(c, r->force && !r->create, "--force");
    add_if(c, r->create, r->force ? "-B" : "-b");
    add(c, or (r->ref, ""));
    add(c, "--");
    return need(err, "ref", r->ref);
}

static const char checkout_script[] = "git -C \"$d\" checkout -q \"$@\" >&2 || exit\n"
                                      "w\n";

static int fill_reset(const struct atoll_git_request *r, struct atoll_git_command *c,
                      struct atoll_error *err)
{
    static const char *const modes[] = {"soft", "mixed", "hard", "merge", "keep"};
    char *mode = NULL;
    size_t i = 0;

    add(c, "-q");
    if (r->files && r->mode)
        return refuse(err, "mode", "and \"files\" exclude each other");
    while (i < ATOLL_ARRAY_LEN(modes) && r->mode && strcmp(modes[i], r->mode) != 0)
        i++;
    if (i == ATOLL_ARRAY_LEN(modes))
        return refuse(err, "mode", "must be soft, mixed, hard, merge or keep");
    if (r->mode) {
        if (asprintf(&mode, "--%s", modes[i]) < 0)
            mode = NULL;
        add(c, keep(c, mode));
    }
    if (r->files && add_files(r, c, err) < 0)
        return -EINVAL;
    add_if(c, r->ref, r->ref);
    add(c, "--");
    return 0;
}

static const char reset_script[] = "git -C \"$d\" reset \"$@\" >&2 || exit\n"
                                   "w\n";

static int fill_restore(const struct atoll_git_request *r, struct atoll_git_command *c,
                        struct atoll_error *err)
{
    char *source = NULL;

    add(c, "restore");
    add_if(c, r->staged, "--staged");
    add_if(c, r->worktree, "--worktree");
    if (r->ref) {
        if (asprintf(&source, "--source=%s", r->ref) < 0)
            source = NULL;
        add(c, keep(c, source));
    }
    return r->files ? add_files(r, c, err) : refuse(err, "files", "is missing: a list of paths");
}

static int fill_fetch(const struct atoll_git_request *r, struct atoll_git_command *c,
                      struct atoll_error *err)
{
    add_if(c, r->prune, "--prune");
    add_if(c, r->tags, "--tags");
    if (r->depth)
        add_number(c, "--depth=", r->depth, "");
    add_if(c, r->remote, r->remote);
    add_if(c, r->ref, r->ref);
    return r->ref && !r->remote ? refuse(err, "ref", "needs \"remote\"") : 0;
}

static const char fetch_script[] = "n -C \"$d\" fetch \"$@\" >&2\n";

/* The remote and the branch are those of the current branch if the request names none. */
#define CURRENT                                              \
    "r=$1 f=$2\n"                                            \
    "shift 2\n"                                              \
    "git -C \"$d\" rev-parse --git-dir >/dev/null || exit\n" \
    "b=$(git -C \"$d\" symbolic-ref -q --short HEAD)\n"      \
    "m=$(git -C \"$d\" config \"branch.$b.remote\")\n"       \
    "test -n \"$r\" || r=${m:-origin}\n"

static int fill_pull(const struct atoll_git_request *r, struct atoll_git_command *c,
                     struct atoll_error *err)
{
    add(c, or (r->remote, ""));
    add(c, or (r->ref, ""));
    add(c, r->rebase ? "rebase" : "merge");
    add_if(c, !r->rebase, r->ff_only ? "--ff-only" : "--no-edit");
    return r->rebase && r->ff_only ? refuse(err, "rebase", "and \"ffOnly\" exclude each other") : 0;
}

static const char pull_script[] = CURRENT
    "test -n \"$f\" || test \"$r\" != \"$m\" || f=$(git -C \"$d\" config \"branch.$b.merge\")\n"
    "f=${f:-$b}\n"
    "test -n \"$f\" || { echo 'fatal: HEAD is detached: name the branch to pull' >&2; exit 128; }\n"
    "n -C \"$d\" fetch \"$r\" \"$f\" >&2 || exit\n"
    "c\n"
    "git -C \"$d\" \"$@\" FETCH_HEAD >&2 && w && exit\n"
    "git -C \"$d\" diff --name-only --diff-filter=U -z\n"
    "exit 1\n";

static int fill_push(const struct atoll_git_request *r, struct atoll_git_command *c,
                     struct atoll_error *err)
{
    if (r->remove && !r->ref)
        return need(err, "ref", NULL);
    add(c, or (r->remote, ""));
    add(c, or (r->ref, ""));
    add_if(c, r->force, "--force");
    add_if(c, r->set_upstream, "--set-upstream");
    add_if(c, r->tags, "--tags");
    add_if(c, r->remove, "--delete");
    return 0;
}

static const char push_script[] = CURRENT
    "f=${f:-$b}\n"
    "test -n \"$f\" || { echo 'fatal: HEAD is detached: name the ref to push' >&2; exit 128; }\n"
    "n -C \"$d\" push --porcelain \"$@\" \"$r\" \"$f\"\n";

#define REF_FORMAT                                                            \
    "%(HEAD)%00%(symref)%00%(refname)%00%(objectname)%00%(upstream:short)%00" \
    "%(upstream:track,nobracket)%00%(committerdate:iso-strict)%00%(subject)%00"

static int fill_branches(const struct atoll_git_request *r, struct atoll_git_command *c,
                         struct atoll_error *err ATOLL_UNUSED)
{
    add(c, "refs/heads");
    add_if(c, r->remotes, "refs/remotes");
    return 0;
}

static const char branches_script[] =
    "git -C \"$d\" rev-parse --git-dir >/dev/null || exit\n"
    "printf '%s\\0' \"$(git -C \"$d\" symbolic-ref -q --short HEAD)\"\n"
    "exec git -C \"$d\" for-each-ref '--format=" REF_FORMAT "' \"$@\"\n";

static int fill_branch_create(const struct atoll_git_request *r, struct atoll_git_command *c,
                              struct atoll_error *err)
{
    add(c, r->create ? "checkout" : "branch");
    add_if(c, r->create, "-q");
    add_if(c, r->create, "-b");
    add(c, or (r->name, ""));
    add_if(c, r->ref, r->ref);
    add_if(c, r->create, "--");
    return need(err, "name", r->name);
}

static int fill_branch_delete(const struct atoll_git_request *r, struct atoll_git_command *c,
                              struct atoll_error *err)
{
    add(c, "branch");
    add(c, r->force ? "-D" : "-d");
    add(c, "--");
    add(c, or (r->name, ""));
    return need(err, "name", r->name);
}

static int fill_remotes(const struct atoll_git_request *r ATOLL_UNUSED,
                        struct atoll_git_command *c ATOLL_UNUSED,
                        struct atoll_error *err ATOLL_UNUSED)
{
    return 0;
}

static const char remotes_script[] =
    "git -C \"$d\" config --local -z --get-regexp '^remote\\..*\\.(push)?url$'\n"
    "s=$?\n"
    "test $s != 1 || s=0\n"
    "exit $s\n";

static int fill_remote_add(const struct atoll_git_request *r, struct atoll_git_command *c,
                           struct atoll_error *err)
{
    if (*c->url.password)
        return refuse(err, "url", "must have no password: give credentials to push and pull");
    add(c, or (r->name, ""));
    add(c, r->url);
    add(c, r->force ? "1" : "");
    add(c, r->fetch ? "1" : "");
    return need(err, "name", r->name);
}

static const char remote_add_script[] =
    "if test -n \"$3\" && git -C \"$d\" config --local --get \"remote.$1.url\" >/dev/null; then\n"
    "  git -C \"$d\" remote set-url \"$1\" \"$2\" || exit\n"
    "else\n"
    "  git -C \"$d\" remote add \"$1\" \"$2\" || exit\n"
    "fi\n"
    "test -z \"$4\" || n -C \"$d\" fetch \"$1\" >&2\n";

static int fill_remote_remove(const struct atoll_git_request *r, struct atoll_git_command *c,
                              struct atoll_error *err)
{
    add(c, "remote");
    add(c, "remove");
    add(c, or (r->name, ""));
    return need(err, "name", r->name);
}

static int fill_tags(const struct atoll_git_request *r ATOLL_UNUSED, struct atoll_git_command *c,
                     struct atoll_error *err ATOLL_UNUSED)
{
    add(c, "for-each-ref");
    add(c, "--sort=-creatordate");
    add(c, "--format=%(refname:strip=2)%00%(objecttype)%00%(objectname)%00%(*objectname)%00"
           "%(creatordate:iso-strict)%00%(subject)%00");
    add(c, "refs/tags");
    return 0;
}

static int fill_tag_create(const struct atoll_git_request *r, struct atoll_git_command *c,
                           struct atoll_error *err)
{
    add(c, "tag");
    add_if(c, r->force, "--force");
    add_if(c, r->message, "-m");
    add_if(c, r->message, r->message);
    add(c, or (r->name, ""));
    add_if(c, r->ref, r->ref);
    return need(err, "name", r->name);
}

static int fill_tag_delete(const struct atoll_git_request *r, struct atoll_git_command *c,
                           struct atoll_error *err)
{
    add(c, "tag");
    add(c, "-d");
    add(c, "--");
    add(c, or (r->name, ""));
    return need(err, "name", r->name);
}

static int fill_stashes(const struct atoll_git_request *r ATOLL_UNUSED, struct atoll_git_command *c,
                        struct atoll_error *err ATOLL_UNUSED)
{
    add(c, "stash");
    add(c, "list");
    add(c, "-z");
    add(c, "--format=tformat:%H%x00%cI%x00%gs");
    return 0;
}

static int fill_stash_push(const struct atoll_git_request *r, struct atoll_git_command *c,
                           struct atoll_error *err ATOLL_UNUSED)
{
    add(c, "stash");
    add(c, "push");
    add_if(c, r->all, "--include-untracked");
    add_if(c, r->message, "-m");
    add_if(c, r->message, r->message);
    return 0;
}

static int fill_stash_apply(const struct atoll_git_request *r, struct atoll_git_command *c,
                            struct atoll_error *err ATOLL_UNUSED)
{
    add(c, r->remove ? "pop" : "apply");
    add_number(c, "stash@{", r->index, "}");
    return 0;
}

static const char stash_apply_script[] =
    "git -C \"$d\" stash \"$@\" >&2 && exit\n"
    "git -C \"$d\" diff --name-only --diff-filter=U -z 2>/dev/null\n"
    "exit 1\n";

static int fill_stash_drop(const struct atoll_git_request *r, struct atoll_git_command *c,
                           struct atoll_error *err ATOLL_UNUSED)
{
    add(c, "stash");
    add(c, "drop");
    add_number(c, "stash@{", r->index, "}");
    return 0;
}

/* Configuration. */

static int add_scope(const struct atoll_git_request *r, struct atoll_git_command *c,
                     const char *fallback, struct atoll_error *err)
{
    static const char *const scopes[] = {"--local", "--global", "--system"};

    for (size_t i = 0; r->scope && i < ATOLL_ARRAY_LEN(scopes); i++)
        if (strcmp(scopes[i] + 2, r->scope) == 0) {
            add(c, scopes[i]);
            return 0;
        }
    add_if(c, !r->scope && fallback, fallback);
    return r->scope ? refuse(err, "scope", "must be local, global or system") : 0;
}

/* The key as git prints it (only the middle part keeps its case), as a regular expression. */
static char *key_pattern(const char *key)
{
    size_t n = strlen(key), len = 0, last = (size_t)(strrchr(key, '.') - key);
    char *out = atoll_alloc(2 * n + 3);

    out[len++] = '^';
    for (size_t i = 0; i < n; i++) {
        bool folds = i < strcspn(key, ".") || i > last;
        if (strchr("\\^$.[]|()*+?{}", key[i]))
            out[len++] = '\\';
        out[len++] = folds ? (char)tolower((unsigned char)key[i]) : key[i];
    }
    out[len++] = '$';
    return out;
}

static int check_key(const char *key, struct atoll_error *err)
{
    if (need(err, "name", key) < 0)
        return -EINVAL;
    return strchr(key, '.') && key[0] != '.' && key[strlen(key) - 1] != '.' && !strchr(key, '\n')
               ? 0
               : refuse(err, "name", "must be a key as in \"user.email\"");
}

static int fill_config(const struct atoll_git_request *r, struct atoll_git_command *c,
                       struct atoll_error *err)
{
    add(c, "-z");
    add(c, "--show-scope");
    if (add_scope(r, c, NULL, err) < 0 || (r->name && check_key(r->name, err) < 0))
        return -EINVAL;
    add(c, r->name ? "--get-regexp" : "--list");
    if (r->name)
        add(c, keep(c, key_pattern(r->name)));
    return 0;
}

/* Status 1: no such key. */
static const char config_script[] = "git -C \"$d\" config \"$@\"\n"
                                    "s=$?\n"
                                    "test $s != 1 || s=0\n"
                                    "exit $s\n";

static int fill_config_set(const struct atoll_git_request *r, struct atoll_git_command *c,
                           struct atoll_error *err)
{
    add(c, "config");
    if (add_scope(r, c, "--local", err) < 0 || check_key(r->name, err) < 0)
        return -EINVAL;
    add(c, "--replace-all");
    add(c, r->name);
    add(c, or (r->value, ""));
    return r->value ? 0 : need(err, "value", NULL);
}

static int fill_config_unset(const struct atoll_git_request *r, struct atoll_git_command *c,
                             struct atoll_error *err)
{
    if (add_scope(r, c, "--local", err) < 0 || check_key(r->name, err) < 0)
        return -EINVAL;
    add(c, "--unset-all");
    add(c, r->name);
    return 0;
}

/* Status 5: no such key. */
static const char config_unset_script[] = "git -C \"$d\" config \"$@\"\n"
                                          "s=$?\n"
                                          "test $s != 5 || s=0\n"
                                          "exit $s\n";

static int fill_identity_set(const struct atoll_git_request *r, struct atoll_git_command *c,
                             struct atoll_error *err)
{
    add(c, or (r->author_name, ""));
    add(c, or (r->author_email, ""));
    if (!r->author_name)
        return need(err, "author", NULL);
    return add_scope(r, c, "--local", err);
}

static const char identity_set_script[] =
    "git -C \"$d\" config \"$3\" --replace-all user.name \"$1\" &&\n"
    "  git -C \"$d\" config \"$3\" --replace-all user.email \"$2\"\n";

/* In the format of git credential. */
static int fill_credentials_store(const struct atoll_git_request *r, struct atoll_git_command *c,
                                  struct atoll_error *err)
{
    const struct atoll_git_credentials *k = &r->credentials;
    const char *host = strstr(c->url.server, "://");

    if (!k->password || !k->username)
        return need(err, "credentials", NULL);
    if (!c->url.http || !host)
        return refuse(err, "url", "must be an http or https server");
    if (atoll_buf_appendf(&c->input, "protocol=%.*s\nhost=%s\nusername=%s\npassword=%s\n\n",
                          (int)(host - c->url.server), c->url.server, host + 3, k->username,
                          k->password) < 0)
        return refuse(err, "credentials", "are too long");
    return 0;
}

static const char credentials_store_script[] =
    "git config --global --get credential.helper >/dev/null ||\n"
    "  git config --global credential.helper store || exit\n"
    "exec git credential approve\n";

static const struct maker makers[] = {
    [ATOLL_GIT_CLONE] = {"clone", true, clone_script, fill_clone},
    [ATOLL_GIT_INIT] = {"init", false, NULL, fill_init},
    [ATOLL_GIT_STATUS] = {"status", false, NULL, fill_status},
    [ATOLL_GIT_ADD] = {"add", false, NULL, fill_add},
    [ATOLL_GIT_COMMIT] = {"commit", false, commit_script, fill_commit},
    [ATOLL_GIT_LOG] = {"log", false, NULL, fill_log},
    [ATOLL_GIT_DIFF] = {"diff", false, NULL, fill_diff},
    [ATOLL_GIT_CHECKOUT] = {"checkout", false, checkout_script, fill_checkout},
    [ATOLL_GIT_RESET] = {"reset", false, reset_script, fill_reset},
    [ATOLL_GIT_RESTORE] = {"restore", false, NULL, fill_restore},
    [ATOLL_GIT_FETCH] = {"fetch", true, fetch_script, fill_fetch},
    [ATOLL_GIT_PULL] = {"pull", true, pull_script, fill_pull},
    [ATOLL_GIT_PUSH] = {"push", true, push_script, fill_push},
    [ATOLL_GIT_BRANCHES] = {"branches", false, branches_script, fill_branches},
    [ATOLL_GIT_BRANCH_CREATE] = {"branch create", false, NULL, fill_branch_create},
    [ATOLL_GIT_BRANCH_DELETE] = {"branch delete", false, NULL, fill_branch_delete},
    [ATOLL_GIT_REMOTES] = {"remotes", false, remotes_script, fill_remotes},
    [ATOLL_GIT_REMOTE_ADD] = {"remote add", false, remote_add_script, fill_remote_add},
    [ATOLL_GIT_REMOTE_REMOVE] = {"remote remove", false, NULL, fill_remote_remove},
    [ATOLL_GIT_TAGS] = {"tags", false, NULL, fill_tags},
    [ATOLL_GIT_TAG_CREATE] = {"tag create", false, NULL, fill_tag_create},
    [ATOLL_GIT_TAG_DELETE] = {"tag delete", false, NULL, fill_tag_delete},
    [ATOLL_GIT_STASHES] = {"stashes", false, NULL, fill_stashes},
    [ATOLL_GIT_STASH_PUSH] = {"stash push", false, NULL, fill_stash_push},
    [ATOLL_GIT_STASH_APPLY] = {"stash apply", false, stash_apply_script, fill_stash_apply},
    [ATOLL_GIT_STASH_DROP] = {"stash drop", false, NULL, fill_stash_drop},
    [ATOLL_GIT_CONFIG] = {"config", false, config_script, fill_config},
    [ATOLL_GIT_CONFIG_SET] = {"config set", false, NULL, fill_config_set},
    [ATOLL_GIT_IDENTITY_SET] = {"identity set", false, identity_set_script, fill_identity_set},
    [ATOLL_GIT_CREDENTIALS_STORE] = {"credentials store", true, credentials_store_script,
                                     fill_credentials_store},
    [ATOLL_GIT_CONFIG_UNSET] = {"config unset", false, config_unset_script, fill_config_unset},
};

const char *atoll_git_op_name(enum atoll_git_op op)
{
    return makers[op].name;
}

/* What all operations have in common. */

static int check_words(const struct atoll_git_request *r, struct atoll_error *err)
{
    const struct {
        const char *name, *value;
    } words[] = {{"ref", r->ref},   {"to", r->to},         {"commit", r->commit},
                 {"name", r->name}, {"remote", r->remote}, {"path", r->path}};

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(words); i++) {
        const char *v = words[i].value;
        if (v && (!*v || *v == '-' || !atoll_git_is_credential(v)))
            return refuse(err, words[i].name,
                          "must not be empty, begin with \"-\" or have control characters");
    }
    if (!r->author_name != !r->author_email)
        return refuse(err, "author", "needs a name and an email");
    return 0;
}

static int check_credentials(const struct atoll_git_request *r, const struct maker *maker,
                             const struct atoll_git_url *url, struct atoll_error *err)
{
    const struct atoll_git_credentials *k = &r->credentials;

    if (!k->password)
        return k->username || k->host ? refuse(err, "credentials", "have no password") : 0;
    if (!maker->network || (r->op == ATOLL_GIT_CLONE && !url->http))
        return refuse(err, "credentials", "are for repositories at http and https URLs");
    if (!*k->password || strlen(k->password) >= ATOLL_GIT_SECRET_MAX ||
        strlen(or (k->username, "")) >= ATOLL_GIT_SECRET_MAX ||
        !atoll_git_is_credential(k->password) || !atoll_git_is_credential(or (k->username, "")) ||
        !atoll_git_is_credential(or (k->host, "")))
        return refuse(err, "credentials", "have an empty, too long or unprintable member");
    return 0;
}

static bool has_helper(const struct atoll_git_request *r)
{
    return r->credentials.password && r->op != ATOLL_GIT_CREDENTIALS_STORE;
}

/* Answers for the credential helper: lines of user names and passwords. */
static int add_secret(const struct atoll_git_request *r, struct atoll_git_command *c,
                      struct atoll_error *err)
{
    const struct atoll_git_credentials *k = &r->credentials;
    /* Servers that take tokens as passwords do not look at the user name, but git needs one. */
    const char *user = k->username && *k->username ? k->username : "git";
    unsigned answers = r->submodules ? ANSWERS_SUBMODULES : ANSWERS;
    size_t one = strlen(user) + strlen(k->password) + 2;
    uint8_t *tail;

    if (atoll_buf_reserve(&c->input, one * answers + 1, &tail) < 0)
        return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, ENOMEM, "no memory for the credentials");
    for (unsigned i = 0; i < answers; i++)
        (void)!atoll_buf_appendf(&c->input, "%s\n%s\n", user, k->password);
    add_env(c, "ATOLL_GIT_SERVER", or (k->host, c->url.server));
    return 0;
}

static void add_identity(const struct atoll_git_request *r, struct atoll_git_command *c)
{
    if (!r->author_name)
        return;
    add_env(c, "GIT_AUTHOR_NAME", r->author_name);
    add_env(c, "GIT_AUTHOR_EMAIL", r->author_email);
    add_env(c, "GIT_COMMITTER_NAME", r->author_name);
    add_env(c, "GIT_COMMITTER_EMAIL", r->author_email);
}

static void add_environment(const struct atoll_git_request *r, struct atoll_git_command *c)
{
    static const char *const always[] = {
        "LC_ALL=C",
        "GIT_TERMINAL_PROMPT=0",
        "GIT_ASKPASS=",
        "GIT_PAGER=cat",
        "GIT_EDITOR=:",
        "GIT_LFS_SKIP_SMUDGE=1",
        "GIT_CONFIG_COUNT=3",
        "GIT_CONFIG_KEY_0=core.quotePath",
        "GIT_CONFIG_VALUE_0=false",
        "GIT_CONFIG_KEY_1=core.fsmonitor",
        "GIT_CONFIG_VALUE_1=false",
        "GIT_CONFIG_KEY_2=log.showSignature",
        "GIT_CONFIG_VALUE_2=false",
    };

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(always); i++)
        c->env[c->envc++] = always[i];
    if (r->insecure_tls)
        c->env[c->envc++] = "GIT_SSL_NO_VERIFY=1";
    add_identity(r, c);
}

static void begin_program(const struct atoll_git_request *r, struct atoll_git_command *c)
{
    add(c, "git");
    /* A clone and an init make the directory. */
    if (r->path && r->op != ATOLL_GIT_INIT) {
        add(c, "-C");
        add(c, r->path);
    }
    /* No hook runs in these, which would inherit the setting. */
    add_if(c, r->op == ATOLL_GIT_LOG || r->op == ATOLL_GIT_DIFF, "--literal-pathspecs");
}

static void begin_script(const struct atoll_git_request *r, const struct maker *maker,
                         struct atoll_git_command *c)
{
    char *script = NULL;
    bool has_path = r->op != ATOLL_GIT_CLONE; /* which has it among its own arguments */

    if (asprintf(&script, "%s%s%s", has_helper(r) ? SECRET : PLAIN, has_path ? "d=$1\nshift\n" : "",
                 maker->script) < 0)
        script = NULL;
    add(c, "sh");
    add(c, "-c");
    add(c, keep(c, script));
    add(c, "git");
    if (has_path)
        add(c, or (r->path, "."));
}

static int fill(const struct atoll_git_request *r, const struct maker *maker,
                struct atoll_git_command *c, struct atoll_error *err)
{
    size_t files = 0;

    while (r->files && r->files[files])
        files++;
    if ((r->op == ATOLL_GIT_LOG || r->op == ATOLL_GIT_DIFF) && files > ARGV_FILES_MAX)
        return refuse(err, "files", "has too many paths");
    c->argv = atoll_alloc((ARGS_MAX + ATOLL_MIN(files, (size_t)ARGV_FILES_MAX)) * sizeof(*c->argv));
    c->env = atoll_alloc(ENV_MAX * sizeof(*c->env));
    add_environment(r, c);
    if (maker->script)
        begin_script(r, maker, c);
    else
        begin_program(r, c);
    if (maker->fill(r, c, err) < 0)
        return -EINVAL;
    return has_helper(r) ? add_secret(r, c, err) : 0;
}

int atoll_git_command_make(const struct atoll_git_request *request, struct atoll_git_command *ret,
                           struct atoll_error *err)
{
    const struct maker *maker = &makers[request->op];
    struct atoll_git_request whole = *request;
    int r = 0;

    *ret = (struct atoll_git_command){0};
    atoll_buf_init(&ret->input, INPUT_MAX);
    if (request->op == ATOLL_GIT_CLONE || request->op == ATOLL_GIT_REMOTE_ADD ||
        request->op == ATOLL_GIT_CREDENTIALS_STORE)
        r = request->url ? atoll_git_url_split(request->url, &ret->url, err)
                         : need(err, "url", NULL);
    if (r == 0 && request->op == ATOLL_GIT_CLONE && *ret->url.password &&
        !whole.credentials.password)
        whole.credentials = (struct atoll_git_credentials){.username = ret->url.username,
                                                           .password = ret->url.password};
    if (r == 0)
        r = check_words(&whole, err);
    if (r == 0)
        r = check_credentials(&whole, maker, &ret->url, err);
    if (r == 0)
        r = fill(&whole, maker, ret, err);
    ret->timeout_ms = whole.timeout_ms ? whole.timeout_ms : maker->network ? NETWORK_MS : LOCAL_MS;
    return r;
}

void atoll_git_command_done(struct atoll_git_command *command)
{
    for (size_t i = 0; i < command->text_count; i++)
        free(command->texts[i]);
    free(command->argv);
    free(command->env);
    atoll_buf_wipe(&command->input);
    explicit_bzero(&command->url, sizeof(command->url));
    command->text_count = 0;
    command->argv = command->env = NULL;
}
