#include "git/problem.h"

#include <errno.h>
#include <string.h>

#define WORDS_SHOWN 300

static const struct {
    const char *name;
    enum atoll_error_kind kind;
    int errnum;
    const char *hint;
} problems[] = {
    [ATOLL_GIT_FAILED] = {"failed", ATOLL_ERR_FAILED_PRECONDITION, EIO, NULL},
    [ATOLL_GIT_AUTH_FAILED] = {"auth_failed", ATOLL_ERR_PERMISSION_DENIED, EACCES,
                               "give \"credentials\" that the git server accepts; see "
                               "docs/troubleshooting.md"},
    [ATOLL_GIT_REMOTE_NOT_FOUND] = {"remote_not_found", ATOLL_ERR_NOT_FOUND, ENOENT,
                                    "check the URL; servers also say this when credentials are "
                                    "missing"},
    [ATOLL_GIT_NO_REMOTE] = {"no_remote", ATOLL_ERR_FAILED_PRECONDITION, ENOENT,
                             "name the remote and the branch, or add a remote"},
    [ATOLL_GIT_UNREACHABLE] = {"unreachable", ATOLL_ERR_UNAVAILABLE, EHOSTUNREACH,
                               "check the URL and the sandbox's network policy; see "
                               "docs/troubleshooting.md"},
    [ATOLL_GIT_NOT_A_REPOSITORY] = {"not_a_repository", ATOLL_ERR_NOT_FOUND, ENOENT,
                                    "clone or init a repository there, or give another path"},
    [ATOLL_GIT_PATH_NOT_FOUND] = {"path_not_found", ATOLL_ERR_NOT_FOUND, ENOENT, NULL},
    [ATOLL_GIT_REF_NOT_FOUND] = {"ref_not_found", ATOLL_ERR_NOT_FOUND, ENOENT, NULL},
    [ATOLL_GIT_EXISTS] = {"exists", ATOLL_ERR_ALREADY_EXISTS, EEXIST, NULL},
    [ATOLL_GIT_CONFLICT] = {"conflict", ATOLL_ERR_FAILED_PRECONDITION, EEXIST,
                            "resolve the files, add and commit them, and in a rebase run git "
                            "rebase --continue; or reset with mode abort"},
    [ATOLL_GIT_DIRTY] = {"dirty", ATOLL_ERR_FAILED_PRECONDITION, EBUSY,
                         "commit, stash or restore the files first"},
    [ATOLL_GIT_NON_FAST_FORWARD] = {"non_fast_forward", ATOLL_ERR_FAILED_PRECONDITION, EEXIST,
                                    "pull first"},
    [ATOLL_GIT_NOT_MERGED] = {"not_merged", ATOLL_ERR_FAILED_PRECONDITION, ENOTEMPTY,
                              "merge the branch, or delete it with force"},
    [ATOLL_GIT_REMOTE_REJECTED] = {"remote_rejected", ATOLL_ERR_FAILED_PRECONDITION, EPERM,
                                   "the git server refuses it by a rule or hook"},
    [ATOLL_GIT_NOTHING_TO_COMMIT] = {"nothing_to_commit", ATOLL_ERR_FAILED_PRECONDITION, ENODATA,
                                     "add changes first"},
    [ATOLL_GIT_NO_IDENTITY] = {"no_identity", ATOLL_ERR_FAILED_PRECONDITION, ENODATA,
                               "give an author, or set user.name and user.email"},
    [ATOLL_GIT_LOCKED] = {"locked", ATOLL_ERR_ABORTED, EBUSY,
                          "try again when the other git has ended; a killed git leaves its lock "
                          "file, which must be removed"},
    [ATOLL_GIT_UNTRUSTED] = {"untrusted", ATOLL_ERR_FAILED_PRECONDITION, EPERM,
                             "give the owner of the repository as \"user\""},
    [ATOLL_GIT_DISK_FULL] = {"disk_full", ATOLL_ERR_RESOURCE_EXHAUSTED, ENOSPC, NULL},
    [ATOLL_GIT_NO_GIT] = {"no_git", ATOLL_ERR_FAILED_PRECONDITION, ENOEXEC,
                          "install git in the sandbox, or use a template that has it"},
    [ATOLL_GIT_TIMED_OUT] = {"timed_out", ATOLL_ERR_DEADLINE_EXCEEDED, ETIMEDOUT,
                             "give a larger timeoutSeconds; see "
                             "docs/troubleshooting.md"},
    [ATOLL_GIT_KILLED] = {"killed", ATOLL_ERR_ABORTED, ECANCELED, NULL},
};

const char *atoll_git_problem_name(enum atoll_git_problem problem)
{
    return problems[problem].name;
}

/* In the order of the search: words of the cause before words that many causes have. */
static const struct {
    const char *words;
    enum atoll_git_problem problem;
} rows[] = {
    {"No space left on device", ATOLL_GIT_DISK_FULL},
    {"Disk quota exceeded", ATOLL_GIT_DISK_FULL},
    {"detected dubious ownership", ATOLL_GIT_UNTRUSTED},
    {"fatal: cannot change to ", ATOLL_GIT_PATH_NOT_FOUND},
    {"ot a git repository", ATOLL_GIT_NOT_A_REPOSITORY},
    {"can only be used inside a git repository", ATOLL_GIT_NOT_A_REPOSITORY},
    {"not in a git directory", ATOLL_GIT_NOT_A_REPOSITORY},
    {"this operation must be run in a work tree", ATOLL_GIT_NOT_A_REPOSITORY},
    {".lock': File exists", ATOLL_GIT_LOCKED},

    {"Authentication failed", ATOLL_GIT_AUTH_FAILED},
    {"could not read Username", ATOLL_GIT_AUTH_FAILED},
    {"could not read Password", ATOLL_GIT_AUTH_FAILED},
    {"Permission denied (publickey", ATOLL_GIT_AUTH_FAILED},
    {"Host key verification failed", ATOLL_GIT_AUTH_FAILED},
    {"The requested URL returned error: 401", ATOLL_GIT_AUTH_FAILED},
    {"The requested URL returned error: 403", ATOLL_GIT_AUTH_FAILED},
    {"Could not resolve host", ATOLL_GIT_UNREACHABLE},
    {"Failed to connect to", ATOLL_GIT_UNREACHABLE},
    {"Connection refused", ATOLL_GIT_UNREACHABLE},
    {"Connection timed out", ATOLL_GIT_UNREACHABLE},
    {"Network is unreachable", ATOLL_GIT_UNREACHABLE},
    {"Connection reset by peer", ATOLL_GIT_UNREACHABLE},
    {"Empty reply from server", ATOLL_GIT_UNREACHABLE},
    {"SSL certificate problem", ATOLL_GIT_UNREACHABLE},
    {"server certificate verification failed", ATOLL_GIT_UNREACHABLE},
    {"gnutls_handshake() failed", ATOLL_GIT_UNREACHABLE},
    {"The requested URL returned error: 5", ATOLL_GIT_UNREACHABLE},
    {"The requested URL returned error: 404", ATOLL_GIT_REMOTE_NOT_FOUND},
    {"Remote branch ", ATOLL_GIT_REF_NOT_FOUND},
    {"couldn't find remote ref", ATOLL_GIT_REF_NOT_FOUND},
    {"not our ref", ATOLL_GIT_REF_NOT_FOUND},
    {"remote ref does not exist", ATOLL_GIT_REF_NOT_FOUND},
    {"does not appear to be a git repository", ATOLL_GIT_REMOTE_NOT_FOUND},
    {"does not exist in the remote", ATOLL_GIT_REMOTE_NOT_FOUND},
    {"fatal: repository '", ATOLL_GIT_REMOTE_NOT_FOUND},
    {"No such remote", ATOLL_GIT_NO_REMOTE},
    {"No configured push destination", ATOLL_GIT_NO_REMOTE},
    {"No remote repository specified", ATOLL_GIT_NO_REMOTE},
    {"no upstream", ATOLL_GIT_NO_REMOTE},
    {"HEAD is detached:", ATOLL_GIT_NO_REMOTE},

    {"[remote rejected]", ATOLL_GIT_REMOTE_REJECTED},
    {"(non-fast-forward)", ATOLL_GIT_NON_FAST_FORWARD},
    {"(fetch first)", ATOLL_GIT_NON_FAST_FORWARD},
    {"(stale info)", ATOLL_GIT_NON_FAST_FORWARD},
    {"Not possible to fast-forward", ATOLL_GIT_NON_FAST_FORWARD},
    {"(would clobber existing tag)", ATOLL_GIT_EXISTS},
    {"(already exists)", ATOLL_GIT_EXISTS},

    {"would be overwritten by", ATOLL_GIT_DIRTY},
    {"would be removed by", ATOLL_GIT_DIRTY},
    {"You have unstaged changes", ATOLL_GIT_DIRTY},
    {"Your index contains uncommitted changes", ATOLL_GIT_DIRTY},
    {"CONFLICT (", ATOLL_GIT_CONFLICT},
    {"fix conflicts", ATOLL_GIT_CONFLICT},
    {"you need to resolve your current index first", ATOLL_GIT_CONFLICT},
    {"because you have unmerged files", ATOLL_GIT_CONFLICT},
    {"needs merge", ATOLL_GIT_CONFLICT},
    {"is not possible because you have", ATOLL_GIT_CONFLICT},

    {"Please tell me who you are", ATOLL_GIT_NO_IDENTITY},
    {"empty ident name", ATOLL_GIT_NO_IDENTITY},
    {"nothing to commit", ATOLL_GIT_NOTHING_TO_COMMIT},
    {"nothing added to commit", ATOLL_GIT_NOTHING_TO_COMMIT},
    {"no changes added to commit", ATOLL_GIT_NOTHING_TO_COMMIT},
    {"is not fully merged", ATOLL_GIT_NOT_MERGED},
    {"already exists", ATOLL_GIT_EXISTS},
    {"unknown revision or path", ATOLL_GIT_REF_NOT_FOUND},
    {"bad revision", ATOLL_GIT_REF_NOT_FOUND},
    {"bad object", ATOLL_GIT_REF_NOT_FOUND},
    {"invalid reference", ATOLL_GIT_REF_NOT_FOUND},
    {"ot a valid object name", ATOLL_GIT_REF_NOT_FOUND},
    {"Failed to resolve '", ATOLL_GIT_REF_NOT_FOUND},
    {"could not resolve ", ATOLL_GIT_REF_NOT_FOUND},
    {"src refspec ", ATOLL_GIT_REF_NOT_FOUND},
    {"is not a commit", ATOLL_GIT_REF_NOT_FOUND},
    {"not a valid reference", ATOLL_GIT_REF_NOT_FOUND},
    {"No stash entries found", ATOLL_GIT_REF_NOT_FOUND},
    {"stash@{", ATOLL_GIT_REF_NOT_FOUND},
    {"' not found", ATOLL_GIT_REF_NOT_FOUND}, /* branch 'x', tag 'x' */
    {"does not have any commits yet", ATOLL_GIT_REF_NOT_FOUND},
    {"did not match any file", ATOLL_GIT_PATH_NOT_FOUND},
    {"is outside repository", ATOLL_GIT_PATH_NOT_FOUND},
    {"sh: 1: git: not found", ATOLL_GIT_NO_GIT},
    {"git: not found", ATOLL_GIT_NO_GIT},
    {"git: command not found", ATOLL_GIT_NO_GIT},
};

enum atoll_git_problem atoll_git_judge(enum atoll_git_op op, const char *out, const char *words)
{
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(rows); i++)
        if (strstr(words, rows[i].words) || (op == ATOLL_GIT_PUSH && strstr(out, rows[i].words)))
            return rows[i].problem;
    return ATOLL_GIT_FAILED;
}

/* What ssh says has a hint of its own, and says more than the words of git after it. */
static const struct remedy {
    const char *words, *hint;
} remedies[] = {
    {"Permission denied (publickey",
     "\"credentials\" are for http and https URLs: use one, or put a key of ssh into the home of "
     "the sandbox, as docs/git.md shows"},
    {"Host key verification failed",
     "add the server to ~/.ssh/known_hosts of the sandbox, as docs/git.md shows"},
    {"cannot run ssh:",
     "install an ssh client in the sandbox, or use an https URL with \"credentials\""},
};

static const struct remedy *find_remedy(const char *words)
{
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(remedies); i++)
        if (strstr(words, remedies[i].words))
            return &remedies[i];
    return NULL;
}

static const char *line_with(const char *words, const char *part, size_t *ret_len)
{
    const char *line = strstr(words, part);

    while (line > words && line[-1] != '\n')
        line--;
    *ret_len = strcspn(line, "\r\n");
    return line;
}

/* The first line that names the cause: one that starts with fatal or error, else the last one. */
static const char *main_line(const char *words, size_t *ret_len)
{
    static const char *const marks[] = {"fatal: ", "error: ", "CONFLICT "};
    const char *line = words, *last = words;

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(marks); i++) {
        const char *at = strstr(words, marks[i]);
        if (at && (at == words || at[-1] == '\n')) {
            *ret_len = strcspn(at, "\n");
            return at;
        }
    }
    for (; *line; line += strcspn(line, "\n"), line += *line ? 1 : 0)
        if (*line != '\n')
            last = line;
    *ret_len = strcspn(last, "\n");
    return last;
}

int atoll_git_fail(struct atoll_error *err, enum atoll_git_op op, enum atoll_git_problem problem,
                   const char *words)
{
    enum atoll_error_kind kind = problems[problem].kind;
    const struct remedy *remedy = find_remedy(words);
    const char *hint = remedy ? remedy->hint : problems[problem].hint;
    int r, errnum = problems[problem].errnum;
    size_t n;
    const char *line = remedy ? line_with(words, remedy->words, &n) : main_line(words, &n);

    if (problem == ATOLL_GIT_NO_GIT)
        r = atoll_fail(err, kind, errnum, "git is not installed in the sandbox");
    else if (problem == ATOLL_GIT_TIMED_OUT)
        r = atoll_fail(err, kind, errnum, "git %s did not end in time and was killed",
                       atoll_git_op_name(op));
    else if (n == 0)
        r = atoll_fail(err, kind, errnum, "git %s failed", atoll_git_op_name(op));
    else
        r = atoll_fail(err, kind, errnum, "git %s: %.*s", atoll_git_op_name(op),
                       (int)ATOLL_MIN(n, (size_t)WORDS_SHOWN), line);
    if (hint)
        atoll_advise(err, "%s", hint);
    return r;
}

void atoll_git_words_files(const char *words, struct atoll_buf *out)
{
    for (const char *line = words; *line;) {
        size_t n = strcspn(line, "\n");
        if (*line == '\t' && n > 1 &&
            (atoll_buf_append(out, line + 1, n - 1) < 0 || atoll_buf_append(out, "", 1) < 0))
            return;
        line += n + (line[n] ? 1 : 0);
    }
}
