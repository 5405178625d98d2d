#include "api/kit/git_view.h"

#include <string.h>
#include "git/porcelain.h"

static void text(struct atoll_json_out *out, const char *key, const char *value)
{
    atoll_json_bytes(out, key, value, strlen(value));
}

static void text_or_null(struct atoll_json_out *out, const char *key, const char *value)
{
    if (*value)
        text(out, key, value);
    else
        atoll_json_null(out, key);
}

static struct atoll_git_cursor cursor_of(const struct atoll_git_result *result)
{
    return (struct atoll_git_cursor){result->bytes, result->len};
}

/* Commits. */

static void view_parents(struct atoll_json_out *out, const char *parents)
{
    atoll_json_open(out, "parents", '[');
    while (*parents) {
        size_t n = strcspn(parents, " ");
        atoll_json_bytes(out, NULL, parents, n);
        parents += n + (parents[n] ? 1 : 0);
    }
    atoll_json_close(out, ']');
}

static void view_person(struct atoll_json_out *out, const char *key, const char *name,
                        const char *email, const char *at)
{
    atoll_json_open(out, key, '{');
    text(out, "name", name);
    text(out, "email", email);
    text(out, "at", at);
    atoll_json_close(out, '}');
}

static void view_commit(struct atoll_json_out *out, const char *key,
                        const struct atoll_git_commit *c)
{
    atoll_json_open(out, key, '{');
    text(out, "hash", c->hash);
    view_parents(out, c->parents);
    view_person(out, "author", c->author, c->author_email, c->authored_at);
    view_person(out, "committer", c->committer, c->committer_email, c->committed_at);
    text(out, "refs", c->refs);
    text(out, "message", c->message);
    atoll_json_close(out, '}');
}

static void view_log(struct atoll_json_out *out, struct atoll_git_cursor *c,
                     const struct atoll_git_result *result ATOLL_UNUSED)
{
    struct atoll_git_commit commit;

    atoll_json_open(out, "commits", '[');
    while (atoll_git_commit_next(c, &commit))
        view_commit(out, NULL, &commit);
    atoll_json_close(out, ']');
}

static void view_where(struct atoll_json_out *out, struct atoll_git_cursor *c,
                       const struct atoll_git_result *result ATOLL_UNUSED)
{
    struct atoll_git_commit commit;

    text_or_null(out, "branch", atoll_git_branch_current(c));
    if (atoll_git_commit_next(c, &commit))
        view_commit(out, "commit", &commit);
    else
        atoll_json_null(out, "commit");
}

/* Status. */

static void view_status(struct atoll_json_out *out, struct atoll_git_cursor *c,
                        const struct atoll_git_result *result ATOLL_UNUSED)
{
    struct atoll_git_head head;
    struct atoll_git_file file;

    atoll_git_status_head(c, &head);
    text_or_null(out, "branch", head.branch);
    text_or_null(out, "commit", head.commit);
    text_or_null(out, "upstream", head.upstream);
    if (head.has_counts) {
        atoll_json_u64(out, "ahead", head.ahead);
        atoll_json_u64(out, "behind", head.behind);
    }
    atoll_json_u64(out, "stashes", head.stashes);
    atoll_json_open(out, "files", '[');
    while (atoll_git_status_next(c, &file)) {
        atoll_json_open(out, NULL, '{');
        text(out, "path", file.path);
        if (*file.from)
            text(out, "from", file.from);
        atoll_json_text(out, "staging", atoll_git_state_name(file.staging));
        atoll_json_text(out, "worktree", atoll_git_state_name(file.worktree));
        if (file.submodule)
            atoll_json_bool(out, "submodule", true);
        atoll_json_close(out, '}');
    }
    atoll_json_close(out, ']');
}

/* Differences. */

static void view_change(struct atoll_json_out *out, const struct atoll_git_change *change,
                        const struct atoll_git_count *count)
{
    const char letter[] = {change->status, '\0'};

    atoll_json_open(out, NULL, '{');
    text(out, "path", change->path);
    if (*change->from)
        text(out, "from", change->from);
    text(out, "status", letter);
    if (count && count->binary)
        atoll_json_bool(out, "binary", true);
    if (count && !count->binary) {
        atoll_json_u64(out, "added", count->added);
        atoll_json_u64(out, "deleted", count->deleted);
    }
    atoll_json_close(out, '}');
}

/* Changes and counts are two lists in the same order: the second cursor goes ahead. */
static void view_diff(struct atoll_json_out *out, struct atoll_git_cursor *c,
                      const struct atoll_git_result *result ATOLL_UNUSED)
{
    struct atoll_git_cursor counts = *c;
    struct atoll_git_change change;
    struct atoll_git_count count;

    while (atoll_git_change_next(&counts, &change))
        ;
    atoll_json_open(out, "files", '[');
    while (atoll_git_change_next(c, &change)) {
        bool counted = atoll_git_count_next(&counts, &count);
        view_change(out, &change, counted ? &count : NULL);
    }
    atoll_json_close(out, ']');
    while (atoll_git_count_next(&counts, &count))
        ;
    atoll_git_patch(&counts);
    atoll_json_bytes(out, "patch", counts.bytes, counts.len);
}

/* Lists. */

static void view_branches(struct atoll_json_out *out, struct atoll_git_cursor *c,
                          const struct atoll_git_result *result ATOLL_UNUSED)
{
    struct atoll_git_branch b;

    text_or_null(out, "current", atoll_git_branch_current(c));
    atoll_json_open(out, "branches", '[');
    while (atoll_git_branch_next(c, &b)) {
        atoll_json_open(out, NULL, '{');
        text(out, "name", b.name);
        atoll_json_bool(out, "current", b.current);
        atoll_json_bool(out, "remote", b.remote);
        text(out, "commit", b.commit);
        text_or_null(out, "upstream", b.upstream);
        if (*b.upstream && b.gone)
            atoll_json_bool(out, "upstream_gone", true);
        if (*b.upstream && !b.gone) {
            atoll_json_u64(out, "ahead", b.ahead);
            atoll_json_u64(out, "behind", b.behind);
        }
        text(out, "committed_at", b.committed_at);
        text(out, "subject", b.subject);
        atoll_json_close(out, '}');
    }
    atoll_json_close(out, ']');
}

static void view_remotes(struct atoll_json_out *out, struct atoll_git_cursor *c,
                         const struct atoll_git_result *result ATOLL_UNUSED)
{
    struct atoll_git_remote remote;

    atoll_json_open(out, "remotes", '[');
    while (atoll_git_remote_next(c, &remote)) {
        atoll_json_open(out, NULL, '{');
        atoll_json_bytes(out, "name", remote.name, remote.name_len);
        text(out, "url", remote.url);
        atoll_json_bool(out, "push_only", remote.push);
        atoll_json_close(out, '}');
    }
    atoll_json_close(out, ']');
}

static void view_tags(struct atoll_json_out *out, struct atoll_git_cursor *c,
                      const struct atoll_git_result *result ATOLL_UNUSED)
{
    struct atoll_git_tag tag;

    atoll_json_open(out, "tags", '[');
    while (atoll_git_tag_next(c, &tag)) {
        atoll_json_open(out, NULL, '{');
        text(out, "name", tag.name);
        text(out, "commit", tag.commit);
        atoll_json_bool(out, "annotated", tag.annotated);
        text(out, "created_at", tag.created_at);
        text(out, "subject", tag.subject);
        atoll_json_close(out, '}');
    }
    atoll_json_close(out, ']');
}

static void view_stashes(struct atoll_json_out *out, struct atoll_git_cursor *c,
                         const struct atoll_git_result *result ATOLL_UNUSED)
{
    struct atoll_git_stash stash;
    uint64_t index = 0;

    atoll_json_open(out, "stashes", '[');
    while (atoll_git_stash_next(c, &stash)) {
        atoll_json_open(out, NULL, '{');
        atoll_json_u64(out, "index", index++);
        text(out, "commit", stash.commit);
        text(out, "created_at", stash.created_at);
        text(out, "subject", stash.subject);
        atoll_json_close(out, '}');
    }
    atoll_json_close(out, ']');
}

static void view_config(struct atoll_json_out *out, struct atoll_git_cursor *c,
                        const struct atoll_git_result *result ATOLL_UNUSED)
{
    struct atoll_git_entry entry;

    atoll_json_open(out, "entries", '[');
    while (atoll_git_entry_next(c, &entry)) {
        if (strcmp(entry.scope, "command") == 0) /* the settings of this request */
            continue;
        atoll_json_open(out, NULL, '{');
        atoll_json_bytes(out, "name", entry.key, entry.key_len);
        if (entry.has_value)
            text(out, "value", entry.value);
        else
            atoll_json_null(out, "value");
        text(out, "scope", entry.scope);
        atoll_json_close(out, '}');
    }
    atoll_json_close(out, ']');
}

/* Transfers. */

static void view_words(struct atoll_json_out *out, struct atoll_git_cursor *c ATOLL_UNUSED,
                       const struct atoll_git_result *result)
{
    text(out, "words", result->words);
}

static const char *pushed_name(char flag)
{
    static const char *const names[] = {" fast_forward", "+forced",   "-deleted",
                                        "*new",          "!rejected", "=up_to_date"};

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(names); i++)
        if (names[i][0] == flag)
            return names[i] + 1;
    return "";
}

static void view_pushed(struct atoll_json_out *out, struct atoll_git_cursor *c,
                        const struct atoll_git_result *result)
{
    struct atoll_git_pushed pushed;

    atoll_json_open(out, "refs", '[');
    while (atoll_git_pushed_next(c, &pushed)) {
        const char *colon = memchr(pushed.refs, ':', pushed.refs_len);
        size_t from = colon ? (size_t)(colon - pushed.refs) : pushed.refs_len;
        atoll_json_open(out, NULL, '{');
        atoll_json_text(out, "state", pushed_name(pushed.flag));
        atoll_json_bytes(out, "from", pushed.refs, from);
        if (colon)
            atoll_json_bytes(out, "to", colon + 1, pushed.refs_len - from - 1);
        atoll_json_bytes(out, "summary", pushed.summary, pushed.summary_len);
        atoll_json_close(out, '}');
    }
    atoll_json_close(out, ']');
    text(out, "words", result->words);
}

typedef void view_fn(struct atoll_json_out *out, struct atoll_git_cursor *c,
                     const struct atoll_git_result *result);

static view_fn *const views[ATOLL_GIT_OPS] = {
    [ATOLL_GIT_CLONE] = view_where,       [ATOLL_GIT_STATUS] = view_status,
    [ATOLL_GIT_COMMIT] = view_where,      [ATOLL_GIT_LOG] = view_log,
    [ATOLL_GIT_DIFF] = view_diff,         [ATOLL_GIT_CHECKOUT] = view_where,
    [ATOLL_GIT_RESET] = view_where,       [ATOLL_GIT_FETCH] = view_words,
    [ATOLL_GIT_PULL] = view_where,        [ATOLL_GIT_PUSH] = view_pushed,
    [ATOLL_GIT_BRANCHES] = view_branches, [ATOLL_GIT_REMOTES] = view_remotes,
    [ATOLL_GIT_TAGS] = view_tags,         [ATOLL_GIT_STASHES] = view_stashes,
    [ATOLL_GIT_CONFIG] = view_config,
};

bool atoll_git_view(struct atoll_json_out *out, const struct atoll_git_result *result)
{
    struct atoll_git_cursor c = cursor_of(result);

    if (!views[result->op])
        return false;
    atoll_json_open(out, NULL, '{');
    views[result->op](out, &c, result);
    if (result->truncated)
        atoll_json_bool(out, "truncated", true);
    atoll_json_text_or_null(out, "exec_id", result->exec_id);
    atoll_json_close(out, '}');
    return true;
}

void atoll_git_view_failure(struct atoll_json_out *out, const struct atoll_git_failure *failure)
{
    struct atoll_git_cursor c = {failure->files, failure->files_len};
    const char *path;

    atoll_json_open(out, "git", '{');
    atoll_json_text(out, "problem", atoll_git_problem_name(failure->problem));
    text(out, "words", failure->words);
    if (failure->files_len > 0) {
        atoll_json_open(out, "files", '[');
        while (atoll_git_path_next(&c, &path))
            text(out, NULL, path);
        atoll_json_close(out, ']');
    }
    atoll_json_close(out, '}');
}
