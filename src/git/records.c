/*
 * Commands of branches, remotes, tags, stashes and configuration.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/memory.h"
#include "git/command_internal.h"
#include "git/porcelain.h"

#define REF_FORMAT                                                            \
    "%(HEAD)%00%(symref)%00%(refname)%00%(objectname)%00%(upstream:short)%00" \
    "%(upstream:track,nobracket)%00%(committerdate:iso-strict)%00%(subject)%00"

static int fill_branches(const struct atoll_git_request *r, struct atoll_git_command *c,
                         struct atoll_error *err ATOLL_UNUSED)
{
    atoll_git_add(c, "refs/heads");
    atoll_git_add_if(c, r->remotes, "refs/remotes");
    return 0;
}

static const char branches_script[] =
    "git -C \"$d\" rev-parse --git-dir >/dev/null || exit\n"
    "printf '%s\\0' \"$(git -C \"$d\" symbolic-ref -q --short HEAD)\"\n"
    "exec git -C \"$d\" for-each-ref '--format=" REF_FORMAT "' \"$@\"\n";

static int fill_branch_create(const struct atoll_git_request *r, struct atoll_git_command *c,
                              struct atoll_error *err)
{
    atoll_git_add(c, r->create ? "checkout" : "branch");
    atoll_git_add_if(c, r->create, "-q");
    atoll_git_add_if(c, r->create, "-b");
    atoll_git_add(c, atoll_git_or(r->name, ""));
    atoll_git_add_if(c, r->ref, r->ref);
    atoll_git_add_if(c, r->create, "--");
    return atoll_git_need(err, "name", r->name);
}

static int fill_branch_delete(const struct atoll_git_request *r, struct atoll_git_command *c,
                              struct atoll_error *err)
{
    atoll_git_add(c, "branch");
    atoll_git_add(c, r->force ? "-D" : "-d");
    atoll_git_add(c, "--");
    atoll_git_add(c, atoll_git_or(r->name, ""));
    return atoll_git_need(err, "name", r->name);
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
        return atoll_git_refuse(err, "url",
                                "must have no password: give credentials to push and pull");
    atoll_git_add(c, atoll_git_or(r->name, ""));
    atoll_git_add(c, r->url);
    atoll_git_add(c, r->force ? "1" : "");
    atoll_git_add(c, r->fetch ? "1" : "");
    return atoll_git_need(err, "name", r->name);
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
    atoll_git_add(c, "remote");
    atoll_git_add(c, "remove");
    atoll_git_add(c, atoll_git_or(r->name, ""));
    return atoll_git_need(err, "name", r->name);
}

static int fill_tags(const struct atoll_git_request *r ATOLL_UNUSED, struct atoll_git_command *c,
                     struct atoll_error *err ATOLL_UNUSED)
{
    atoll_git_add(c, "for-each-ref");
    atoll_git_add(c, "--sort=-creatordate");
    atoll_git_add(c,
                  "--format=%(refname:strip=2)%00%(objecttype)%00%(objectname)%00%(*objectname)%00"
                  "%(creatordate:iso-strict)%00%(subject)%00");
    atoll_git_add(c, "refs/tags");
    return 0;
}

static int fill_tag_create(const struct atoll_git_request *r, struct atoll_git_command *c,
                           struct atoll_error *err)
{
    atoll_git_add(c, "tag");
    atoll_git_add_if(c, r->force, "--force");
    atoll_git_add_if(c, r->message, "-m");
    atoll_git_add_if(c, r->message, r->message);
    atoll_git_add(c, atoll_git_or(r->name, ""));
    atoll_git_add_if(c, r->ref, r->ref);
    return atoll_git_need(err, "name", r->name);
}

static int fill_tag_delete(const struct atoll_git_request *r, struct atoll_git_command *c,
                           struct atoll_error *err)
{
    atoll_git_add(c, "tag");
    atoll_git_add(c, "-d");
    atoll_git_add(c, "--");
    atoll_git_add(c, atoll_git_or(r->name, ""));
    return atoll_git_need(err, "name", r->name);
}

static int fill_stashes(const struct atoll_git_request *r ATOLL_UNUSED, struct atoll_git_command *c,
                        struct atoll_error *err ATOLL_UNUSED)
{
    atoll_git_add(c, "stash");
    atoll_git_add(c, "list");
    atoll_git_add(c, "-z");
    atoll_git_add(c, "--format=tformat:%H%x00%cI%x00%gs");
    return 0;
}

static int fill_stash_push(const struct atoll_git_request *r, struct atoll_git_command *c,
                           struct atoll_error *err ATOLL_UNUSED)
{
    atoll_git_add(c, "stash");
    atoll_git_add(c, "push");
    atoll_git_add_if(c, r->all, "--include-untracked");
    atoll_git_add_if(c, r->message, "-m");
    atoll_git_add_if(c, r->message, r->message);
    return 0;
}

static int fill_stash_apply(const struct atoll_git_request *r, struct atoll_git_command *c,
                            struct atoll_error *err ATOLL_UNUSED)
{
    atoll_git_add(c, r->remove ? "pop" : "apply");
    atoll_git_add_number(c, "stash@{", r->index, "}");
    return 0;
}

static const char stash_apply_script[] =
    "git -C \"$d\" stash \"$@\" >&2 && exit\n"
    "git -C \"$d\" diff --name-only --diff-filter=U -z 2>/dev/null\n"
    "exit 1\n";

static int fill_stash_drop(const struct atoll_git_request *r, struct atoll_git_command *c,
                           struct atoll_error *err ATOLL_UNUSED)
{
    atoll_git_add(c, "stash");
    atoll_git_add(c, "drop");
    atoll_git_add_number(c, "stash@{", r->index, "}");
    return 0;
}

/* Configuration. */

static int add_scope(const struct atoll_git_request *r, struct atoll_git_command *c,
                     const char *fallback, struct atoll_error *err)
{
    static const char *const scopes[] = {"--local", "--global", "--system"};

    for (size_t i = 0; r->scope && i < ATOLL_ARRAY_LEN(scopes); i++)
        if (strcmp(scopes[i] + 2, r->scope) == 0) {
            atoll_git_add(c, scopes[i]);
            return 0;
        }
    atoll_git_add_if(c, !r->scope && fallback, fallback);
    return r->scope ? atoll_git_refuse(err, "scope", "must be local, global or system") : 0;
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
    if (atoll_git_need(err, "name", key) < 0)
        return -EINVAL;
    return strchr(key, '.') && key[0] != '.' && key[strlen(key) - 1] != '.' && !strchr(key, '\n')
               ? 0
               : atoll_git_refuse(err, "name", "must be a key as in \"user.email\"");
}

static int fill_config(const struct atoll_git_request *r, struct atoll_git_command *c,
                       struct atoll_error *err)
{
    atoll_git_add(c, "-z");
    atoll_git_add(c, "--show-scope");
    if (add_scope(r, c, NULL, err) < 0 || (r->name && check_key(r->name, err) < 0))
        return -EINVAL;
    atoll_git_add(c, r->name ? "--get-regexp" : "--list");
    if (r->name)
        atoll_git_add(c, atoll_git_keep(c, key_pattern(r->name)));
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
    atoll_git_add(c, "config");
    if (add_scope(r, c, "--local", err) < 0 || check_key(r->name, err) < 0)
        return -EINVAL;
    atoll_git_add(c, "--replace-all");
    atoll_git_add(c, r->name);
    atoll_git_add(c, atoll_git_or(r->value, ""));
    return r->value ? 0 : atoll_git_need(err, "value", NULL);
}

static int fill_config_unset(const struct atoll_git_request *r, struct atoll_git_command *c,
                             struct atoll_error *err)
{
    if (add_scope(r, c, "--local", err) < 0 || check_key(r->name, err) < 0)
        return -EINVAL;
    atoll_git_add(c, "--unset-all");
    atoll_git_add(c, r->name);
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
    atoll_git_add(c, atoll_git_or(r->author_name, ""));
    atoll_git_add(c, atoll_git_or(r->author_email, ""));
    if (!r->author_name)
        return atoll_git_need(err, "author", NULL);
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
        return atoll_git_need(err, "credentials", NULL);
    if (!c->url.http || !host)
        return atoll_git_refuse(err, "url", "must be an http or https server");
    if (atoll_buf_appendf(&c->input, "protocol=%.*s\nhost=%s\nusername=%s\npassword=%s\n\n",
                          (int)(host - c->url.server), c->url.server, host + 3, k->username,
                          k->password) < 0)
        return atoll_git_refuse(err, "credentials", "are too long");
    return 0;
}

static const char credentials_store_script[] =
    "git config --global --get credential.helper >/dev/null ||\n"
    "  git config --global credential.helper store || exit\n"
    "exec git credential approve\n";

const struct atoll_git_maker atoll_git_records[ATOLL_GIT_OPS] = {
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
