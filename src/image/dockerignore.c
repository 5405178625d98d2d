#include "image/dockerignore.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <string.h>
#include "base/fd.h"

#define FILE_MAX ((size_t)256 * 1024)

/* Matches one path component against one component of a pattern. */
static bool match_name(const char *pattern, size_t pattern_len, const char *name, size_t name_len)
{
    char p[256], n[256];

    if (pattern_len >= sizeof(p) || name_len >= sizeof(n))
        return false;
    memcpy(p, pattern, pattern_len);
    p[pattern_len] = '\0';
    memcpy(n, name, name_len);
    n[name_len] = '\0';
    return fnmatch(p, n, 0) == 0;
}

static const char *behind(const char *text, size_t n)
{
    return text + n + (text[n] == '/');
}

/* On a mismatch it backtracks to the last "**", which then consumes one more component; an earlier "**"
 * never has to be revisited. */
bool atoll_dockerignore_names(const char *pattern, const char *path)
{
    const char *rest = NULL;  /* pattern after the last "**" */
    const char *taken = NULL; /* path after what that "**" has consumed */

    while (*pattern) {
        size_t p = strcspn(pattern, "/"), n = strcspn(path, "/");

        if (p == 2 && memcmp(pattern, "**", 2) == 0) {
            rest = pattern = behind(pattern, p);
            taken = path;
            if (!*pattern)
                return *path != '\0';
        } else if (n > 0 && match_name(pattern, p, path, n)) {
            pattern = behind(pattern, p);
            path = behind(path, n);
        } else if (rest && *taken) {
            taken = path = behind(taken, strcspn(taken, "/"));
            pattern = rest;
        } else {
            return false;
        }
    }
    return true;
}

bool atoll_dockerignore_match(const struct atoll_dockerignore *d, const char *path)
{
    bool ignored = false;

    for (size_t i = 0; i < d->count; i++)
        if (ignored == d->lines[i].except && atoll_dockerignore_names(d->lines[i].pattern, path))
            ignored = !d->lines[i].except;
    return ignored;
}

static int add(struct atoll_dockerignore *d, const char *line, size_t n, struct atoll_error *err)
{
    bool except = n > 0 && *line == '!';
    char *pattern;

    if (except) {
        line++;
        n--;
    }
    for (size_t skip = 1; n > 0 && skip > 0; line += skip, n -= skip)
        skip = *line == '/' ? 1 : n > 1 && line[0] == '.' && line[1] == '/' ? 2 : 0;
    while (n > 0 && line[n - 1] == '/')
        n--;
    if (n == 0)
        return 0;
    if (d->count == ATOLL_DOCKERIGNORE_MAX)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, E2BIG,
                          ".dockerignore has more than %d lines", ATOLL_DOCKERIGNORE_MAX);
    pattern = strndup(line, n);
    if (!pattern)
        return atoll_fail_errno(err, ENOMEM, ".dockerignore");
    d->lines[d->count].pattern = pattern;
    d->lines[d->count++].except = except;
    d->excepts = d->excepts || except;
    return 0;
}

int atoll_dockerignore_add(struct atoll_dockerignore *d, const char *pattern,
                           struct atoll_error *err)
{
    return add(d, pattern, strlen(pattern), err);
}

int atoll_dockerignore_parse(struct atoll_dockerignore *d, const char *text,
                             struct atoll_error *err)
{
    int r = 0;

    d->count = 0;
    d->excepts = false;
    while (r == 0 && *text) {
        size_t whole = strcspn(text, "\n"), skip = strspn(text, " \t"), n;
        const char *line = text + ATOLL_MIN(skip, whole);

        for (n = whole - (size_t)(line - text); n > 0 && strchr(" \t\r", line[n - 1]); n--)
            ;
        if (n > 0 && *line != '#')
            r = add(d, line, n, err);
        text += whole + (text[whole] == '\n');
    }
    return r;
}

int atoll_dockerignore_load(struct atoll_dockerignore *d, int dir_fd, struct atoll_error *err)
{
    ATOLL_AUTOFREE char *text = malloc(FILE_MAX);
    int r = text ? (int)atoll_fd_read_file(dir_fd, ".dockerignore", text, FILE_MAX) : -ENOMEM;

    if (r == -ENOENT)
        return atoll_dockerignore_parse(d, "", err);
    if (r < 0)
        return atoll_fail_errno(err, -r, ".dockerignore");
    return atoll_dockerignore_parse(d, text, err);
}

void atoll_dockerignore_done(struct atoll_dockerignore *d)
{
    for (size_t i = 0; i < d->count; i++)
        free(d->lines[i].pattern);
    d->count = 0;
}
