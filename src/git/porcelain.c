#include "git/porcelain.h"

#include <errno.h>
#include <string.h>

/* The next NUL-terminated field; NULL: at the end, or if the NUL is missing. */
static const char *take_field(struct atoll_git_cursor *c)
{
    const char *field = (const char *)c->bytes;
    const uint8_t *end = c->len > 0 ? memchr(c->bytes, '\0', c->len) : NULL;

    if (!end)
        return NULL;
    c->len -= (size_t)(end + 1 - c->bytes);
    c->bytes = end + 1;
    return field;
}

static bool take_fields(struct atoll_git_cursor *c, const char **const *into, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!(*into[i] = take_field(c)))
            return false;
    return true;
}

static bool starts(const char *text, const char *prefix, const char **ret_rest)
{
    size_t n = strlen(prefix);

    if (strncmp(text, prefix, n) != 0)
        return false;
    *ret_rest = text + n;
    return true;
}

/* Decimal digits at *p, which moves behind them. Saturates. */
static uint64_t take_number(const char **p)
{
    uint64_t n = 0;

    for (; **p >= '0' && **p <= '9'; (*p)++)
        n = n > UINT64_MAX / 10 - 1 ? UINT64_MAX / 10 : n * 10 + (uint64_t)(**p - '0');
    return n;
}

bool atoll_git_path_next(struct atoll_git_cursor *c, const char **ret_path)
{
    while ((*ret_path = take_field(c)))
        if (**ret_path)
            return true;
    return false;
}

/* Status. */

static const struct {
    const char *name;
    char letter; /* in git's two-letter states */
} states[] = {
    [ATOLL_GIT_UNMODIFIED] = {"unmodified", '.'},
    [ATOLL_GIT_MODIFIED] = {"modified", 'M'},
    [ATOLL_GIT_TYPE_CHANGED] = {"type_changed", 'T'},
    [ATOLL_GIT_ADDED] = {"added", 'A'},
    [ATOLL_GIT_DELETED] = {"deleted", 'D'},
    [ATOLL_GIT_RENAMED] = {"renamed", 'R'},
    [ATOLL_GIT_COPIED] = {"copied", 'C'},
    [ATOLL_GIT_UNMERGED] = {"unmerged", 'U'},
    [ATOLL_GIT_UNTRACKED] = {"untracked", '?'},
    [ATOLL_GIT_IGNORED] = {"ignored", '!'},
};

const char *atoll_git_state_name(enum atoll_git_state state)
{
    return states[state].name;
}

static enum atoll_git_state state_of(char letter)
{
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(states); i++)
        if (states[i].letter == letter)
            return (enum atoll_git_state)i;
    return ATOLL_GIT_MODIFIED;
}

/* "+1 -2"; unknown counts are "+? -?". */
static void take_counts(const char *text, struct atoll_git_head *head)
{
    if (*text++ != '+' || *text < '0' || *text > '9')
        return;
    head->ahead = take_number(&text);
    if (*text++ != ' ' || *text++ != '-')
        return;
    head->behind = take_number(&text);
    head->has_counts = true;
}

static void take_header(const char *line, struct atoll_git_head *head)
{
    const char *rest;

    if (starts(line, "branch.oid ", &rest) && *rest != '(')
        head->commit = rest;
    else if (starts(line, "branch.head ", &rest) && strcmp(rest, "(detached)") != 0)
        head->branch = rest;
    else if (starts(line, "branch.upstream ", &rest))
        head->upstream = rest;
    else if (starts(line, "branch.ab ", &rest))
        take_counts(rest, head);
    else if (starts(line, "stash ", &rest))
        head->stashes = take_number(&rest);
}

void atoll_git_status_head(struct atoll_git_cursor *c, struct atoll_git_head *ret)
{
    *ret = (struct atoll_git_head){.branch = "", .commit = "", .upstream = ""};
    while (c->len > 2 && c->bytes[0] == '#' && c->bytes[1] == ' ') {
        const char *line = take_field(c);
        if (!line)
            return;
        take_header(line + 2, ret);
    }
}

/* The field after `count` blanks; NULL if there are fewer. */
static const char *skip_words(const char *line, int count)
{
    while (line && count-- > 0)
        if ((line = strchr(line, ' ')))
            line++;
    return line;
}

/* "1 XY sub mH mI mW hH hI path", "2 XY sub mH mI mW hH hI Xscore path" and then the old path,
 * "u XY sub m1 m2 m3 mW h1 h2 h3 path". False: not in this form. */
static bool take_change(struct atoll_git_cursor *c, const char *line, struct atoll_git_file *ret)
{
    int words = line[0] == '1' ? 8 : line[0] == '2' ? 9 : 10;

    if (line[1] != ' ' || !line[2] || !line[3] || line[4] != ' ')
        return false;
    ret->path = skip_words(line, words);
    ret->staging = line[0] == 'u' ? ATOLL_GIT_UNMERGED : state_of(line[2]);
    ret->worktree = line[0] == 'u' ? ATOLL_GIT_UNMERGED : state_of(line[3]);
    ret->submodule = line[5] == 'S';
    if (line[0] == '2' && !(ret->from = take_field(c)))
        return false;
    return ret->path && *ret->path;
}

bool atoll_git_status_next(struct atoll_git_cursor *c, struct atoll_git_file *ret)
{
    const char *line;

    while ((line = take_field(c))) {
        *ret = (struct atoll_git_file){.from = ""};
        if (strchr("?!", line[0]) && line[0] && line[1] == ' ' && line[2]) {
            ret->path = line + 2;
            ret->worktree = state_of(line[0]);
            ret->staging = ret->worktree;
            return true;
        }
        if (line[0] && strchr("12u", line[0]) && take_change(c, line, ret))
            return true;
    }
    return false;
}

/* Commits. */

bool atoll_git_commit_next(struct atoll_git_cursor *c, struct atoll_git_commit *ret)
{
    const char **const into[] = {
        &ret->hash,        &ret->parents,   &ret->author,          &ret->author_email,
        &ret->authored_at, &ret->committer, &ret->committer_email, &ret->committed_at,
        &ret->refs,        &ret->message,
    };

    *ret = (struct atoll_git_commit){0};
    return take_fields(c, into, ATOLL_ARRAY_LEN(into));
}

/* Differences. */

bool atoll_git_change_next(struct atoll_git_cursor *c, struct atoll_git_change *ret)
{
    struct atoll_git_cursor at = *c;
    const char *head;

    *ret = (struct atoll_git_change){.from = ""};
    if (at.len == 0 || at.bytes[0] != ':' || !(head = take_field(&at)))
        return false;
    /* ":100644 100644 bcd1234 0123456 R86" */
    ret->old_mode = head + 1;
    ret->new_mode = skip_words(head, 1);
    head = skip_words(head, 4);
    if (!head || !*head || !(ret->path = take_field(&at)))
        return false;
    ret->status = *head;
    if (ret->status == 'R' || ret->status == 'C') {
        ret->from = ret->path;
        if (!(ret->path = take_field(&at)))
            return false;
    }
    *c = at;
    return true;
}

bool atoll_git_count_next(struct atoll_git_cursor *c, struct atoll_git_count *ret)
{
    struct atoll_git_cursor at = *c;
    const char *line;

    *ret = (struct atoll_git_count){0};
    if (at.len == 0 || !strchr("-0123456789", at.bytes[0]) || !at.bytes[0] ||
        !(line = take_field(&at)))
        return false;
    ret->binary = *line == '-';
    line += ret->binary ? 1 : 0;
    ret->added = take_number(&line);
    if (*line++ != '\t')
        return false;
    line += *line == '-' ? 1 : 0;
    ret->deleted = take_number(&line);
    if (*line++ != '\t')
        return false;
    ret->path = line;
    /* A rename: the old and the new path follow. */
    if (!*line && (!take_field(&at) || !(ret->path = take_field(&at))))
        return false;
    *c = at;
    return true;
}

void atoll_git_patch(struct atoll_git_cursor *c)
{
    if (c->len > 0 && c->bytes[0] == '\0') {
        c->bytes++;
        c->len--;
    }
}

/* Branches and tags: fields ended by NUL, records ended by a newline. */

static void skip_newline(struct atoll_git_cursor *c)
{
    if (c->len > 0 && c->bytes[0] == '\n') {
        c->bytes++;
        c->len--;
    }
}

const char *atoll_git_branch_current(struct atoll_git_cursor *c)
{
    const char *name = take_field(c);
    return name ? name : "";
}

/* "ahead 1, behind 2", "gone", "". */
static void take_track(const char *text, struct atoll_git_branch *ret)
{
    const char *ahead = strstr(text, "ahead "), *behind = strstr(text, "behind ");

    ret->gone = strcmp(text, "gone") == 0;
    if (ahead) {
        ahead += strlen("ahead ");
        ret->ahead = take_number(&ahead);
    }
    if (behind) {
        behind += strlen("behind ");
        ret->behind = take_number(&behind);
    }
}

bool atoll_git_branch_next(struct atoll_git_cursor *c, struct atoll_git_branch *ret)
{
    const char *head, *symref, *track;
    const char **const into[] = {
        &head,          &symref, &ret->ref,          &ret->commit,
        &ret->upstream, &track,  &ret->committed_at, &ret->subject,
    };

    do {
        *ret = (struct atoll_git_branch){0};
        skip_newline(c);
        if (!take_fields(c, into, ATOLL_ARRAY_LEN(into)))
            return false;
        ret->remote = starts(ret->ref, "refs/remotes/", &ret->name);
    } while (*symref || (!ret->remote && !starts(ret->ref, "refs/heads/", &ret->name)));
    ret->current = *head == '*';
    take_track(track, ret);
    return true;
}

bool atoll_git_tag_next(struct atoll_git_cursor *c, struct atoll_git_tag *ret)
{
    const char *object, *peeled, *type;
    const char **const into[] = {&ret->name,       &type,        &object, &peeled,
                                 &ret->created_at, &ret->subject};

    *ret = (struct atoll_git_tag){0};
    skip_newline(c);
    if (!take_fields(c, into, ATOLL_ARRAY_LEN(into)))
        return false;
    ret->annotated = strcmp(type, "tag") == 0;
    ret->commit = *peeled ? peeled : object;
    return true;
}

/* Configuration. */

/* "key\nvalue"; a key without a value has no newline. */
static void take_entry(const char *text, struct atoll_git_entry *ret)
{
    const char *end = strchr(text, '\n');

    ret->key = text;
    ret->has_value = end != NULL;
    ret->key_len = end ? (size_t)(end - text) : strlen(text);
    ret->value = end ? end + 1 : "";
}

bool atoll_git_entry_next(struct atoll_git_cursor *c, struct atoll_git_entry *ret)
{
    const char *text;

    *ret = (struct atoll_git_entry){.scope = take_field(c)};
    if (!ret->scope || !(text = take_field(c)))
        return false;
    take_entry(text, ret);
    return true;
}

bool atoll_git_remote_next(struct atoll_git_cursor *c, struct atoll_git_remote *ret)
{
    static const size_t before = sizeof("remote.") - 1;
    struct atoll_git_entry entry;
    const char *text, *last;

    while ((text = take_field(c))) {
        take_entry(text, &entry);
        last = memrchr(entry.key, '.', entry.key_len);
        if (strncmp(text, "remote.", before) != 0 || !last || last <= text + before)
            continue;
        *ret = (struct atoll_git_remote){.name = text + before,
                                         .name_len = (size_t)(last - text) - before,
                                         .url = entry.value,
                                         .push = last[1] == 'p'};
        return true;
    }
    return false;
}

/* Stashes. */

bool atoll_git_stash_next(struct atoll_git_cursor *c, struct atoll_git_stash *ret)
{
    const char **const into[] = {&ret->commit, &ret->created_at, &ret->subject};

    *ret = (struct atoll_git_stash){0};
    return take_fields(c, into, ATOLL_ARRAY_LEN(into));
}

/* Pushes: lines "FLAG\tFROM:TO\tSUMMARY", among others. */

bool atoll_git_pushed_next(struct atoll_git_cursor *c, struct atoll_git_pushed *ret)
{
    while (c->len > 0) {
        const char *line = (const char *)c->bytes, *tab;
        const char *newline = memchr(line, '\n', c->len);
        const char *end = newline ? newline : line + c->len;

        c->len -= (size_t)(end - line) + (newline ? 1 : 0);
        c->bytes = (const uint8_t *)end + (newline ? 1 : 0);
        if (end - line < 3 || line[1] != '\t' || !strchr(" +-*!=", line[0]) || !line[0])
            continue;
        tab = memchr(line + 2, '\t', (size_t)(end - line) - 2);
        if (!tab)
            continue;
        *ret = (struct atoll_git_pushed){.flag = line[0],
                                         .refs = line + 2,
                                         .refs_len = (size_t)(tab - line) - 2,
                                         .summary = tab + 1,
                                         .summary_len = (size_t)(end - tab) - 1};
        return true;
    }
    return false;
}
