#pragma once
#include "base/buf.h"
#include "engine/engine.h"

/*
 * Git for every API: typed requests that run git inside a sandbox, as a command of the sandbox's
 * user, and typed results. Nothing of a repository is read or run outside of the sandbox.
 *
 * One request is one command (an exec with a journal): it runs to its end even when the daemon is
 * killed or the client disconnects, and is in the sandbox's list of commands.
 *
 * Credentials reach git through a pipe that is open only while git talks to the server, and only in
 * answer to the server's own question. They are never in arguments, the environment, .git/config or
 * a journal. While they are readable, no hook of the repository runs. docs/git.md says which
 * programs inside the sandbox can read them nevertheless.
 *
 * Thread: the loop's. Nothing blocks.
 * Ownership: requests are borrowed until atoll_git_run() returns; results are borrowed during the
 * callback. The lists in a result are read with git/porcelain.h.
 */

enum atoll_git_op {
    ATOLL_GIT_CLONE,  /* url, path, ref (branch or tag), commit, depth, submodules, bare; remote */
    ATOLL_GIT_INIT,   /* path, ref (name of the first branch), bare */
    ATOLL_GIT_STATUS, /* ignored */
    ATOLL_GIT_ADD,    /* files, or all */
    ATOLL_GIT_COMMIT, /* message, author, allow_empty, amend, all, files */
    ATOLL_GIT_LOG,    /* ref, limit, skip, files */
    ATOLL_GIT_DIFF,   /* staged; or ref, to; files */
    ATOLL_GIT_CHECKOUT,      /* ref, create, force */
    ATOLL_GIT_RESET,         /* ref, mode; or files, which are taken out of the index */
    ATOLL_GIT_RESTORE,       /* files, ref (source), staged, worktree */
    ATOLL_GIT_FETCH,         /* remote, ref, depth, prune, tags */
    ATOLL_GIT_PULL,          /* remote, ref, rebase, ff_only, author */
    ATOLL_GIT_PUSH,          /* remote, ref, force, set_upstream, tags, remove */
    ATOLL_GIT_BRANCHES,      /* remotes */
    ATOLL_GIT_BRANCH_CREATE, /* name, ref (where it starts), create: check it out as well */
    ATOLL_GIT_BRANCH_DELETE, /* name, force */
    ATOLL_GIT_REMOTES,
    ATOLL_GIT_REMOTE_ADD,    /* name, url, force: replace its URL if it exists; fetch */
    ATOLL_GIT_REMOTE_REMOVE, /* name */
    ATOLL_GIT_TAGS,
    ATOLL_GIT_TAG_CREATE, /* name, ref, message (an annotated tag), author, force */
    ATOLL_GIT_TAG_DELETE, /* name */
    ATOLL_GIT_STASHES,
    ATOLL_GIT_STASH_PUSH,   /* message, all: untracked files too */
    ATOLL_GIT_STASH_APPLY,  /* index, remove: drop it when it was applied */
    ATOLL_GIT_STASH_DROP,   /* index */
    ATOLL_GIT_CONFIG,       /* scope, name (a key); all keys without it */
    ATOLL_GIT_CONFIG_SET,   /* scope, name, value */
    ATOLL_GIT_CONFIG_UNSET, /* scope, name */
    ATOLL_GIT_IDENTITY_SET, /* scope, author: sets user.name and user.email */
    /* url (scheme and host), credentials: stores them in the sandbox, where every program of the user
     * can read them, for clients that ask for exactly that. */
    ATOLL_GIT_CREDENTIALS_STORE,
};
#define ATOLL_GIT_OPS (ATOLL_GIT_CREDENTIALS_STORE + 1)
/* "clone", "branch create", …, for messages. */
const char *atoll_git_op_name(enum atoll_git_op op);

#define ATOLL_GIT_NAME_MAX 256
/* The directory that a clone of the URL makes if the request has no path; "": unknown, and the clone fails. Pure. */
void atoll_git_clone_name(const char *url, char out[static ATOLL_GIT_NAME_MAX]);

struct atoll_git_credentials {
    const char *username, *password; /* password NULL: no credentials */
    /* The only server that gets them, as "github.com" or "host:8443". NULL: that of the URL of a
     * clone; for other requests the server of the remote, which the repository chooses. */
    const char *host;
};

struct atoll_git_request {
    enum atoll_git_op op;
    /* Of the repository, inside the sandbox; relative to the directory in which commands start.
     * NULL: that directory; for a clone, the last part of the URL. */
    const char *path;
    const char *user;    /* NULL: the sandbox's default user */
    uint32_t timeout_ms; /* 0: two minutes, ten for requests that use the network */

    const char *url;    /* may contain user:password@, which is treated as credentials */
    const char *remote; /* NULL: the branch's, else origin */
    const char *ref, *to, *commit;
    const char *name, *value, *message, *mode, *scope;
    const char *const *files; /* paths in the work tree, taken literally; NULL or NULL-terminated */
    const char *author_name, *author_email; /* of a commit; NULL: as git is configured */
    uint32_t depth, limit, skip, index;
    bool all, force, create, remove, bare, staged, worktree, amend, allow_empty, ignored, remotes;
    bool set_upstream, tags, prune, rebase, ff_only, submodules, fetch;
    bool insecure_tls; /* do not check the certificate of the server */
    struct atoll_git_credentials credentials;
};

/* Why git refused; git's own words are in struct atoll_git_failure. */
enum atoll_git_problem {
    ATOLL_GIT_FAILED,           /* for another reason */
    ATOLL_GIT_AUTH_FAILED,      /* the server did not accept the credentials, or wants some */
    ATOLL_GIT_REMOTE_NOT_FOUND, /* the server has no such repository */
    ATOLL_GIT_NO_REMOTE,        /* no remote of that name, or the branch has no upstream */
    ATOLL_GIT_UNREACHABLE,      /* the server does not answer, or the sandbox may not reach it */
    ATOLL_GIT_NOT_A_REPOSITORY,
    ATOLL_GIT_PATH_NOT_FOUND,
    ATOLL_GIT_REF_NOT_FOUND,
    ATOLL_GIT_EXISTS,   /* a branch, tag, remote or directory of that name */
    ATOLL_GIT_CONFLICT, /* changes that do not merge: files */
    ATOLL_GIT_DIRTY,    /* local changes would be overwritten: files */
    ATOLL_GIT_NON_FAST_FORWARD,
    ATOLL_GIT_NOT_MERGED,      /* a branch whose commits are on no other branch */
    ATOLL_GIT_REMOTE_REJECTED, /* a hook or a rule of the server */
    ATOLL_GIT_NOTHING_TO_COMMIT,
    ATOLL_GIT_NO_IDENTITY, /* git knows no author */
    ATOLL_GIT_LOCKED,      /* another git works on the repository */
    ATOLL_GIT_UNTRUSTED,   /* the repository belongs to another user of the sandbox */
    ATOLL_GIT_DISK_FULL,
    ATOLL_GIT_NO_GIT, /* git is not installed in the sandbox */
    ATOLL_GIT_TIMED_OUT,
    ATOLL_GIT_KILLED,
};
#define ATOLL_GIT_PROBLEMS (ATOLL_GIT_KILLED + 1)
/* "auth_failed", … */
const char *atoll_git_problem_name(enum atoll_git_problem problem);

struct atoll_git_failure {
    enum atoll_git_problem problem;
    const char *words; /* what git printed; "" if nothing */
    /* CONFLICT, DIRTY: NUL-terminated paths, read with atoll_git_path_next(). */
    const uint8_t *files;
    size_t files_len;
};

struct atoll_git_result {
    enum atoll_git_op op;
    const char *exec_id; /* of the command; "" when it was not started */
    /* The output of the operation in the form that git/porcelain.h reads. */
    const uint8_t *bytes;
    size_t len;
    bool truncated;    /* there was more than ATOLL_GIT_OUTPUT_MAX */
    const char *words; /* what git told the user, such as the progress of a push */
    const struct atoll_git_failure *failure; /* set together with an error, if git ran */
};
#define ATOLL_GIT_OUTPUT_MAX ((size_t)8 * 1024 * 1024)
#define ATOLL_GIT_WORDS_MAX ((size_t)16 * 1024)

/* error: NULL, or the problem as an error for clients. result is never NULL. */
typedef void atoll_git_fn(void *arg, const struct atoll_git_result *result,
                          const struct atoll_error *error);
/* INVALID_ARGUMENT, and what docs/git.md has for each problem. done is called exactly once,
 * possibly before this returns. */
void atoll_git_run(struct atoll_engine *engine, const char *sandbox_id,
                   const struct atoll_git_request *request, atoll_git_fn *done, void *arg);
