/*
 * Commands of the work tree, and those that talk to other repositories.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "git/command_internal.h"
#include "git/porcelain.h"

#define FILES_MAX 16384 /* git takes a time that grows with the square */
#define LOG_LIMIT 100

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
            return atoll_git_refuse(err, "files", !*f ? "has an empty path" : "has too many paths");
    }
    atoll_git_add(c, "--pathspec-from-file=-");
    atoll_git_add(c, "--pathspec-file-nul");
    return n > 0 ? 0 : atoll_git_refuse(err, "files", "is empty");
}

static int add_file_args(const struct atoll_git_request *r, struct atoll_git_command *c)
{
    atoll_git_add(c, "--");
    for (size_t i = 0; r->files && r->files[i]; i++)
        atoll_git_add(c, r->files[i]);
    return 0;
}

static int fill_clone(const struct atoll_git_request *r, struct atoll_git_command *c,
                      struct atoll_error *err)
{
    const char *path = atoll_git_or(r->path, c->url.name);

    if (!*path)
        return atoll_git_need(err, "path", path);
    atoll_git_add(c, path);
    atoll_git_add(c, atoll_git_or(r->commit, ""));
    atoll_git_add(c, r->submodules ? "1" : "");
    atoll_git_add(c, r->bare ? "1" : "");
    atoll_git_add(c, atoll_git_or(r->remote, "origin"));
    atoll_git_add_if(c, r->bare, "--bare");
    if (r->ref) {
        atoll_git_add(c, "--branch");
        atoll_git_add(c, r->ref);
    }
    if (r->depth)
        atoll_git_add_number(c, "--depth=", r->depth, "");
    atoll_git_add_if(c, r->remote, "--origin");
    atoll_git_add_if(c, r->remote, r->remote);
    atoll_git_add(c, "--");
    atoll_git_add(c, c->url.text);
    atoll_git_add(c, path);
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
    "if test -n \"$b\"; then :\n"
    "elif test -n \"$k\"; then git -C \"$d\" checkout -q --detach \"$k\" -- >&2 || exit\n"
    "elif git -C \"$d\" rev-parse -q --verify HEAD >/dev/null; then\n"
    "  git -C \"$d\" checkout -q >&2 || exit\n"
    "fi\n"
    "test -z \"$s\" || n -C \"$d\" submodule update --init --recursive >&2 || exit\n"
    "w\n";

static int fill_init(const struct atoll_git_request *r, struct atoll_git_command *c,
                     struct atoll_error *err ATOLL_UNUSED)
{
    atoll_git_add(c, "init");
    atoll_git_add(c, "-q");
    atoll_git_add_if(c, r->bare, "--bare");
    if (r->ref) {
        atoll_git_add(c, "-b");
        atoll_git_add(c, r->ref);
    }
    atoll_git_add(c, "--");
    atoll_git_add(c, atoll_git_or(r->path, "."));
    return 0;
}

static int fill_status(const struct atoll_git_request *r, struct atoll_git_command *c,
                       struct atoll_error *err ATOLL_UNUSED)
{
    c->env[c->envc++] = "GIT_OPTIONAL_LOCKS=0";
    atoll_git_add(c, "status");
    atoll_git_add(c, "--porcelain=v2");
    atoll_git_add(c, "--branch");
    atoll_git_add(c, "--show-stash");
    atoll_git_add(c, "-z");
    atoll_git_add(c, "--untracked-files=all");
    atoll_git_add_if(c, r->ignored, "--ignored=matching");
    return 0;
}

static int fill_add(const struct atoll_git_request *r, struct atoll_git_command *c,
                    struct atoll_error *err)
{
    atoll_git_add(c, "add");
    if (r->all && !r->files) {
        atoll_git_add(c, "--all");
        return 0;
    }
    if (r->files)
        return add_files(r, c, err);
    (void)atoll_git_refuse(err, "files", "is missing: a list of paths");
    atoll_advise(
        err, "for all changes give \"all\", or on the command line: atoll git SANDBOX add --all");
    return -EINVAL;
}

static int fill_commit(const struct atoll_git_request *r, struct atoll_git_command *c,
                       struct atoll_error *err)
{
    if (!r->message && !r->amend)
        return atoll_git_need(err, "message", NULL);
    atoll_git_add_if(c, r->amend, "--amend");
    atoll_git_add_if(c, r->amend && !r->message, "--no-edit");
    atoll_git_add_if(c, r->message, "-m");
    atoll_git_add_if(c, r->message, r->message);
    atoll_git_add_if(c, r->allow_empty, "--allow-empty");
    atoll_git_add_if(c, r->all, "--all");
    return r->files ? add_files(r, c, err) : 0;
}

static const char commit_script[] = "git -C \"$d\" commit \"$@\" >&2 || exit\n"
                                    "w\n";

static int fill_log(const struct atoll_git_request *r, struct atoll_git_command *c,
                    struct atoll_error *err ATOLL_UNUSED)
{
    atoll_git_add(c, "log");
    atoll_git_add(c, "-z");
    atoll_git_add(c, "--format=tformat:" ATOLL_GIT_COMMIT_FORMAT);
    atoll_git_add_number(c, "--max-count=", r->limit ? r->limit : LOG_LIMIT, "");
    if (r->skip)
        atoll_git_add_number(c, "--skip=", r->skip, "");
    atoll_git_add_if(c, r->ref, r->ref);
    return add_file_args(r, c);
}

static int fill_diff(const struct atoll_git_request *r, struct atoll_git_command *c,
                     struct atoll_error *err)
{
    if (r->to && !r->ref)
        return atoll_git_refuse(err, "to", "needs \"ref\"");
    if (r->to && r->staged)
        return atoll_git_refuse(err, "to", "and \"staged\" exclude each other");
    c->env[c->envc++] = "GIT_OPTIONAL_LOCKS=0";
    atoll_git_add(c, "diff");
    atoll_git_add(c, "--raw");
    atoll_git_add(c, "--numstat");
    atoll_git_add(c, "--patch");
    atoll_git_add(c, "-z");
    atoll_git_add(c, "--no-ext-diff");
    atoll_git_add(c, "--no-textconv");
    atoll_git_add(c, "--no-color");
    atoll_git_add_if(c, r->staged, "--cached");
    atoll_git_add_if(c, r->ref, r->ref);
    atoll_git_add_if(c, r->to, r->to);
    return add_file_args(r, c);
}

static int fill_checkout(const struct atoll_git_request *r, struct atoll_git_command *c,
                         struct atoll_error *err)
{
    atoll_git_add_if(c, r->force && !r->create, "--force");
    atoll_git_add_if(c, r->create, r->force ? "-B" : "-b");
    atoll_git_add(c, atoll_git_or(r->ref, ""));
    atoll_git_add(c, "--");
    return atoll_git_need(err, "ref", r->ref);
}

static const char checkout_script[] = "git -C \"$d\" checkout -q \"$@\" >&2 || exit\n"
                                      "w\n";

static int fill_reset(const struct atoll_git_request *r, struct atoll_git_command *c,
                      struct atoll_error *err)
{
    static const char *const modes[] = {"soft", "mixed", "hard", "merge", "keep", "abort"};
    char *mode = NULL;
    size_t i = 0;

    atoll_git_add(c, "-q");
    if (r->files && r->mode)
        return atoll_git_refuse(err, "mode", "and \"files\" exclude each other");
    if (r->ref && r->mode && strcmp(r->mode, "abort") == 0)
        return atoll_git_refuse(err, "ref", "has no meaning with the mode abort");
    while (i < ATOLL_ARRAY_LEN(modes) && r->mode && strcmp(modes[i], r->mode) != 0)
        i++;
    if (i == ATOLL_ARRAY_LEN(modes))
        return atoll_git_refuse(err, "mode", "must be soft, mixed, hard, merge, keep or abort");
    if (r->mode) {
        if (asprintf(&mode, "--%s", modes[i]) < 0)
            mode = NULL;
        atoll_git_add(c, atoll_git_keep(c, mode));
    }
    if (r->files && add_files(r, c, err) < 0)
        return -EINVAL;
    atoll_git_add_if(c, r->ref, r->ref);
    atoll_git_add(c, "--");
    return 0;
}

/* Aborts what git says is in progress. A conflict without that, as of a stash, is only in the index. */
static const char reset_script[] =
    "case $2 in --abort)\n"
    "  git -C \"$d\" rev-parse --git-dir >/dev/null || exit\n"
    "  CDPATH= cd \"$d\" || exit\n"
    "  d=.\n"
    "  p() { test -e \"$(git rev-parse --git-path \"$1\")\"; }\n"
    "  if p rebase-apply/applying; then set -- am --abort\n"
    "  elif p rebase-merge || p rebase-apply; then set -- rebase --abort\n"
    "  elif p MERGE_HEAD; then set -- merge --abort\n"
    "  elif p CHERRY_PICK_HEAD; then set -- cherry-pick --abort\n"
    "  elif p REVERT_HEAD; then set -- revert --abort\n"
    "  elif test -n \"$(git ls-files -u)\"; then set -- reset -q --merge\n"
    "  else echo 'fatal: nothing is in progress that could be aborted' >&2; exit 128; fi ;;\n"
    "*) set -- reset \"$@\" ;;\n"
    "esac\n"
    "git -C \"$d\" \"$@\" >&2 || exit\n"
    "w\n";

static int fill_restore(const struct atoll_git_request *r, struct atoll_git_command *c,
                        struct atoll_error *err)
{
    char *source = NULL;

    atoll_git_add(c, "restore");
    atoll_git_add_if(c, r->staged, "--staged");
    atoll_git_add_if(c, r->worktree, "--worktree");
    if (r->ref) {
        if (asprintf(&source, "--source=%s", r->ref) < 0)
            source = NULL;
        atoll_git_add(c, atoll_git_keep(c, source));
    }
    return r->files ? add_files(r, c, err)
                    : atoll_git_refuse(err, "files", "is missing: a list of paths");
}

static int fill_fetch(const struct atoll_git_request *r, struct atoll_git_command *c,
                      struct atoll_error *err)
{
    atoll_git_add_if(c, r->prune, "--prune");
    atoll_git_add_if(c, r->tags, "--tags");
    if (r->depth)
        atoll_git_add_number(c, "--depth=", r->depth, "");
    atoll_git_add_if(c, r->remote, r->remote);
    atoll_git_add_if(c, r->ref, r->ref);
    return r->ref && !r->remote ? atoll_git_refuse(err, "ref", "needs \"remote\"") : 0;
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
    atoll_git_add(c, atoll_git_or(r->remote, ""));
    atoll_git_add(c, atoll_git_or(r->ref, ""));
    atoll_git_add(c, r->rebase ? "rebase" : "merge");
    atoll_git_add_if(c, !r->rebase, r->ff_only ? "--ff-only" : "--no-edit");
    return r->rebase && r->ff_only
               ? atoll_git_refuse(err, "rebase", "and \"ffOnly\" exclude each other")
               : 0;
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
        return atoll_git_need(err, "ref", NULL);
    atoll_git_add(c, atoll_git_or(r->remote, ""));
    atoll_git_add(c, atoll_git_or(r->ref, ""));
    atoll_git_add_if(c, r->force, "--force");
    atoll_git_add_if(c, r->set_upstream, "--set-upstream");
    atoll_git_add_if(c, r->tags, "--tags");
    atoll_git_add_if(c, r->remove, "--delete");
    return 0;
}

static const char push_script[] = CURRENT
    "f=${f:-$b}\n"
    "test -n \"$f\" || { echo 'fatal: HEAD is detached: name the ref to push' >&2; exit 128; }\n"
    "n -C \"$d\" push --porcelain \"$@\" \"$r\" \"$f\"\n";

const struct atoll_git_maker atoll_git_work[ATOLL_GIT_OPS] = {
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
};
