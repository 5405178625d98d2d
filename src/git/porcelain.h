#pragma once
#include "base/defs.h"

/*
 * Readers of git's output, one for each format. Pure: no allocation; strings are borrowed from the
 * bytes. Bytes come from a sandbox and may be anything: a reader skips what is not in its format
 * and never reads beyond the end. Every field that is returned is NUL-terminated.
 *
 * Use: struct atoll_git_cursor c = {bytes, len}; while (atoll_git_X_next(&c, &x)) …
 */
struct atoll_git_cursor {
    const uint8_t *bytes;
    size_t len;
};

/* Paths, each ended by NUL. */
bool atoll_git_path_next(struct atoll_git_cursor *c, const char **ret_path);

/* ATOLL_GIT_STATUS: git status --porcelain=v2 --branch --show-stash -z. */
enum atoll_git_state {
    ATOLL_GIT_UNMODIFIED,
    ATOLL_GIT_MODIFIED,
    ATOLL_GIT_TYPE_CHANGED,
    ATOLL_GIT_ADDED,
    ATOLL_GIT_DELETED,
    ATOLL_GIT_RENAMED,
    ATOLL_GIT_COPIED,
    ATOLL_GIT_UNMERGED,
    ATOLL_GIT_UNTRACKED,
    ATOLL_GIT_IGNORED,
};
const char *atoll_git_state_name(enum atoll_git_state state); /* "unmodified", … */

struct atoll_git_head {
    const char *branch;   /* "" when HEAD is detached */
    const char *commit;   /* "" before the first commit */
    const char *upstream; /* "" without one */
    bool has_counts;      /* ahead and behind are known: the upstream exists */
    uint64_t ahead, behind, stashes;
};
struct atoll_git_file {
    const char *path, *from;                /* from: of a rename or copy; else "" */
    enum atoll_git_state staging, worktree; /* index against HEAD; work tree against index */
    bool submodule;
};
/* Reads the headers, which come first. */
void atoll_git_status_head(struct atoll_git_cursor *c, struct atoll_git_head *ret);
bool atoll_git_status_next(struct atoll_git_cursor *c, struct atoll_git_file *ret);

/* ATOLL_GIT_LOG, and one commit for CLONE, COMMIT, CHECKOUT, RESET and PULL. */
struct atoll_git_commit {
    const char *hash, *parents; /* parents: hashes separated by blanks; "" for a root */
    const char *author, *author_email, *authored_at;
    const char *committer, *committer_email, *committed_at; /* times: ISO 8601 */
    const char *refs; /* names that point to it, as in "HEAD -> main, tag: v1" */
    const char *message;
};
#define ATOLL_GIT_COMMIT_FORMAT "%H%x00%P%x00%an%x00%ae%x00%aI%x00%cn%x00%ce%x00%cI%x00%D%x00%B"
bool atoll_git_commit_next(struct atoll_git_cursor *c, struct atoll_git_commit *ret);

/* ATOLL_GIT_DIFF: git diff --raw --numstat --patch -z. Read the changes, then the counts, which are
 * in the same order, then take the patch, which is the rest. */
struct atoll_git_change {
    char status; /* A, C, D, M, R, T, U */
    const char *path, *from;
    const char *old_mode, *new_mode;
};
struct atoll_git_count {
    bool binary; /* has no lines */
    uint64_t added, deleted;
    const char *path;
};
bool atoll_git_change_next(struct atoll_git_cursor *c, struct atoll_git_change *ret);
bool atoll_git_count_next(struct atoll_git_cursor *c, struct atoll_git_count *ret);
/* Skips the separator; *c is the patch then. */
void atoll_git_patch(struct atoll_git_cursor *c);

/* ATOLL_GIT_BRANCHES: first the name that HEAD points to, then the branches. */
struct atoll_git_branch {
    const char *ref;  /* refs/heads/main, refs/remotes/origin/main */
    const char *name; /* main, origin/main */
    const char *commit, *upstream, *subject, *committed_at;
    bool current, remote, gone; /* gone: its upstream does not exist any more */
    uint64_t ahead, behind;
};
/* "" when HEAD is detached. */
const char *atoll_git_branch_current(struct atoll_git_cursor *c);
bool atoll_git_branch_next(struct atoll_git_cursor *c, struct atoll_git_branch *ret);

/* ATOLL_GIT_TAGS. */
struct atoll_git_tag {
    const char *name, *commit, *subject, *created_at;
    bool annotated;
};
bool atoll_git_tag_next(struct atoll_git_cursor *c, struct atoll_git_tag *ret);

/* ATOLL_GIT_REMOTES: a remote can have several URLs. */
struct atoll_git_remote {
    const char *name, *url;
    bool push;       /* the URL is for pushes only */
    size_t name_len; /* name is not NUL-terminated */
};
bool atoll_git_remote_next(struct atoll_git_cursor *c, struct atoll_git_remote *ret);

/* ATOLL_GIT_STASHES, newest first; the position in the list is the index of a stash. */
struct atoll_git_stash {
    const char *commit, *created_at, *subject;
};
bool atoll_git_stash_next(struct atoll_git_cursor *c, struct atoll_git_stash *ret);

/* ATOLL_GIT_CONFIG. */
struct atoll_git_entry {
    const char *scope; /* "local", "global", "system", … */
    const char *key;   /* not NUL-terminated */
    size_t key_len;
    const char *value; /* "" for a key without a value, which means true */
    bool has_value;
};
bool atoll_git_entry_next(struct atoll_git_cursor *c, struct atoll_git_entry *ret);

/* ATOLL_GIT_PUSH: git push --porcelain, one for each ref. */
struct atoll_git_pushed {
    /* ' ' fast-forward, '+' forced, '-' deleted, '*' new, '!' rejected, '=' up to date */
    char flag;
    const char *refs;    /* from:to, not NUL-terminated */
    const char *summary; /* not NUL-terminated */
    size_t refs_len, summary_len;
};
bool atoll_git_pushed_next(struct atoll_git_cursor *c, struct atoll_git_pushed *ret);
