#include "base/ignore.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/glob.h"
#include "base/memory.h"

/* Paths that are longer are left out: the time of a match grows with their length. */
#define PATH_BYTES_MAX 1024

struct rule {
    struct rule *next; /* older */
    size_t dir_len;   /* of the directory that has the file, in text; the pattern follows its NUL */
    size_t depth;     /* number of components of the directory */
    bool keeps;       /* "!": not left out */
    bool directories; /* only */
    bool anchored;    /* to the directory; else any component below it */
    char text[];
};

struct atoll_ignore {
    struct rule *newest; /* owned. The rule that decides is the newest of the deepest directory. */
    size_t bytes;
};

struct atoll_ignore *atoll_ignore_new(void)
{
    return atoll_alloc(sizeof(struct atoll_ignore));
}

struct atoll_ignore *atoll_ignore_free(struct atoll_ignore *ignore)
{
    while (ignore && ignore->newest) {
        struct rule *rule = ignore->newest;
        ignore->newest = rule->next;
        free(rule);
    }
    free(ignore);
    return NULL;
}

size_t atoll_ignore_bytes(const struct atoll_ignore *ignore)
{
    return ignore->bytes;
}

static size_t depth_of(const char *dir)
{
    size_t n = *dir != '\0';

    for (; *dir; dir++)
        n += *dir == '/';
    return n;
}

/* Inserts it behind rules of deeper directories, so that the first match of a walk decides. */
static void insert(struct atoll_ignore *ignore, struct rule *rule)
{
    struct rule **at = &ignore->newest;

    while (*at && (*at)->depth > rule->depth)
        at = &(*at)->next;
    rule->next = *at;
    *at = rule;
}

static int add_line(struct atoll_ignore *ignore, const char *dir, const char *line, size_t n)
{
    size_t dir_len = strlen(dir);
    bool keeps = n > 0 && *line == '!', directories = false;
    struct rule *rule;

    line += keeps;
    n -= keeps;
    while (n > 0 && (line[n - 1] == ' ' || line[n - 1] == '\r') && (n < 2 || line[n - 2] != '\\'))
        n--;
    if (n > 0 && line[n - 1] == '/') {
        directories = true;
        n--;
    }
    if (n == 0 || (n == 1 && *line == '/') || *line == '#' || memchr(line, '\0', n))
        return 0;
    if (ignore->bytes + dir_len + n > ATOLL_IGNORE_BYTES_MAX)
        return -E2BIG;
    rule = atoll_alloc(sizeof(*rule) + dir_len + n + 2);
    rule->dir_len = dir_len;
    rule->depth = depth_of(dir);
    rule->keeps = keeps;
    rule->directories = directories;
    rule->anchored = memchr(line, '/', n) != NULL;
    memcpy(rule->text, dir, dir_len + 1);
    if (*line == '/')
        line++, n--;
    memcpy(rule->text + dir_len + 1, line, n);
    rule->text[dir_len + 1 + n] = '\0';
    ignore->bytes += dir_len + n;
    insert(ignore, rule);
    return 0;
}

int atoll_ignore_add(struct atoll_ignore *ignore, const char *dir, const char *text, size_t n)
{
    int r = 0;

    while (n > 0 && r == 0) {
        const char *newline = memchr(text, '\n', n);
        size_t len = newline ? (size_t)(newline - text) : n;

        r = add_line(ignore, dir, text, len);
        len += newline != NULL;
        text += len;
        n -= len;
    }
    return r;
}

static bool applies(const struct rule *rule, const char *path, bool is_directory)
{
    const char *pattern = rule->text + rule->dir_len + 1, *below = path, *slash;

    if (rule->directories && !is_directory)
        return false;
    if (rule->dir_len > 0) {
        if (strncmp(path, rule->text, rule->dir_len) != 0 || path[rule->dir_len] != '/')
            return false;
        below = path + rule->dir_len + 1;
    }
    slash = strrchr(below, '/');
    return atoll_glob_match_dots(pattern, rule->anchored || !slash ? below : slash + 1);
}

/* Whether this one entry is left out, whatever its parents are. */
static bool is_ignored(const struct atoll_ignore *ignore, const char *path, bool is_directory)
{
    for (const struct rule *rule = ignore->newest; rule; rule = rule->next)
        if (applies(rule, path, is_directory))
            return !rule->keeps;
    return false;
}

bool atoll_ignore_match(const struct atoll_ignore *ignore, const char *path)
{
    char part[PATH_BYTES_MAX + 1];

    if (strncmp(path, ".git/", 5) == 0 || strstr(path, "/.git/"))
        return false;
    if ((size_t)snprintf(part, sizeof(part), "%s", path) >= sizeof(part))
        return true;
    for (char *slash = strchr(part, '/'); slash; slash = strchr(slash + 1, '/')) {
        bool ignored;

        *slash = '\0';
        ignored = is_ignored(ignore, part, true);
        *slash = '/';
        if (ignored) /* what is below cannot be kept */
            return true;
    }
    return is_ignored(ignore, path, false);
}
