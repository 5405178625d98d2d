/*
 * What git prints in a sandbox, and URLs of clients. The first byte chooses the reader. Every reader comes to
 * an end, and what it returns is inside the bytes and has its NUL.
 */
#include <string.h>
#include "fuzz.h"
#include "git/porcelain.h"
#include "git/problem.h"
#include "git/url.h"

static const uint8_t *from, *to;

/* A string inside the bytes, with its end, or a constant of ours. */
static void check_text(const char *text)
{
    const uint8_t *p = (const uint8_t *)text;

    FUZZ_CHECK(text);
    if (*text)
        FUZZ_CHECK(p >= from && p < to && memchr(p, '\0', (size_t)(to - p)));
}

static void check_span(const char *text, size_t n)
{
    FUZZ_CHECK((const uint8_t *)text >= from && (const uint8_t *)text + n <= to);
}

static void read_status(struct atoll_git_cursor c)
{
    struct atoll_git_head head;
    struct atoll_git_file file;

    atoll_git_status_head(&c, &head);
    check_text(head.branch);
    check_text(head.commit);
    check_text(head.upstream);
    while (atoll_git_status_next(&c, &file)) {
        check_text(file.path);
        check_text(file.from);
        FUZZ_CHECK(*file.path && *atoll_git_state_name(file.staging) &&
                   *atoll_git_state_name(file.worktree));
    }
    FUZZ_CHECK(c.len == 0 || !memchr(c.bytes, '\0', c.len));
}

static void read_commits(struct atoll_git_cursor c)
{
    struct atoll_git_commit commit;

    while (atoll_git_commit_next(&c, &commit)) {
        check_text(commit.hash);
        check_text(commit.message);
    }
}

static void read_diff(struct atoll_git_cursor c)
{
    struct atoll_git_change change;
    struct atoll_git_count count;

    while (atoll_git_change_next(&c, &change)) {
        check_text(change.path);
        check_text(change.from);
        check_text(change.new_mode);
        FUZZ_CHECK(change.status);
    }
    while (atoll_git_count_next(&c, &count))
        check_text(count.path);
    atoll_git_patch(&c);
    FUZZ_CHECK(c.bytes + c.len == to);
}

static void read_refs(struct atoll_git_cursor c)
{
    struct atoll_git_cursor tags = c;
    struct atoll_git_branch branch;
    struct atoll_git_tag tag;

    check_text(atoll_git_branch_current(&c));
    while (atoll_git_branch_next(&c, &branch)) {
        check_text(branch.name);
        check_text(branch.subject);
        FUZZ_CHECK(strncmp(branch.ref, "refs/", 5) == 0);
    }
    while (atoll_git_tag_next(&tags, &tag))
        check_text(tag.commit);
}

static void read_config(struct atoll_git_cursor c)
{
    struct atoll_git_cursor remotes = c;
    struct atoll_git_entry entry;
    struct atoll_git_remote remote;

    while (atoll_git_entry_next(&c, &entry)) {
        check_text(entry.scope);
        check_span(entry.key, entry.key_len);
        check_text(entry.value);
    }
    while (atoll_git_remote_next(&remotes, &remote)) {
        check_span(remote.name, remote.name_len);
        FUZZ_CHECK(remote.name_len > 0);
        check_text(remote.url);
    }
}

static void read_transfers(struct atoll_git_cursor c)
{
    struct atoll_git_cursor stashes = c, paths = c;
    struct atoll_git_pushed pushed;
    struct atoll_git_stash stash;
    const char *path;

    while (atoll_git_pushed_next(&c, &pushed)) {
        check_span(pushed.refs, pushed.refs_len);
        check_span(pushed.summary, pushed.summary_len);
    }
    FUZZ_CHECK(c.len == 0);
    while (atoll_git_stash_next(&stashes, &stash))
        check_text(stash.subject);
    while (atoll_git_path_next(&paths, &path))
        FUZZ_CHECK(*path);
}

/* Whatever git says, the client gets a problem with a kind, a text and files that are lines. */
static void read_words(const char *text, size_t n)
{
    struct atoll_error error = {0};
    struct atoll_buf files;
    enum atoll_git_problem problem = atoll_git_judge(ATOLL_GIT_PUSH, text, text);

    FUZZ_CHECK(problem < ATOLL_GIT_PROBLEMS);
    FUZZ_CHECK(atoll_git_fail(&error, ATOLL_GIT_PUSH, problem, text) < 0);
    FUZZ_CHECK(error.kind != ATOLL_ERR_NONE && *error.text);
    atoll_buf_init(&files, ATOLL_GIT_WORDS_MAX);
    atoll_git_words_files(text, &files);
    FUZZ_CHECK(atoll_buf_size(&files) <= n);
    atoll_buf_done(&files);
}

/* A URL that is accepted and has a password has none afterwards; splitting it again changes nothing. */
static void read_url(const char *text)
{
    static struct atoll_git_url url, again;
    struct atoll_error error;

    if (atoll_git_url_split(text, &url, &error) < 0)
        return;
    FUZZ_CHECK(atoll_git_is_credential(url.username) && atoll_git_is_credential(url.password));
    FUZZ_CHECK(!strchr(url.name, '/') && url.name[0] != '.' && url.name[0] != '-');
    FUZZ_CHECK(url.http == (*url.server != '\0'));
    if (url.http)
        FUZZ_CHECK(atoll_git_url_split(url.text, &again, &error) == 0 &&
                   strcmp(again.text, url.text) == 0 && !*again.username && !*again.password);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const readers[])(struct atoll_git_cursor c) = {
        read_status, read_commits, read_diff, read_refs, read_config, read_transfers};
    uint8_t *copy;

    if (size == 0)
        return 0;
    /* Of exactly this size, so that a byte beyond the end is found. */
    copy = malloc(size);
    FUZZ_CHECK(copy);
    memcpy(copy, data + 1, size - 1);
    copy[size - 1] = '\0';
    from = copy;
    to = copy + size - 1;
    if (data[0] % 8 < ATOLL_ARRAY_LEN(readers)) {
        uint8_t *exact = malloc(size - 1 ? size - 1 : 1);
        FUZZ_CHECK(exact);
        memcpy(exact, copy, size - 1);
        from = exact;
        to = exact + size - 1;
        readers[data[0] % 8]((struct atoll_git_cursor){exact, size - 1});
        free(exact);
    } else if (data[0] % 8 == 6) {
        read_words((const char *)copy, size);
    } else {
        read_url((const char *)copy);
    }
    free(copy);
    return 0;
}
