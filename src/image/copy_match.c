#include "image/copy_match.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include "base/memory.h"
#include "image/copy_pattern.h"
#include "image/copy_tree.h"
#include "image/dockerignore.h"
#include "image/recipe_internal.h"

struct matcher {
    const struct atoll_copy_tree *tree;
    const struct atoll_recipe_step *step;
    struct atoll_dockerignore excludes;
    struct atoll_copy_match *ret;
    EVP_MD_CTX *digest;
    const char *source; /* as written, for errors */
    struct atoll_error *err;
};

static int no_memory(struct matcher *m)
{
    return atoll_fail(m->err, ATOLL_ERR_RESOURCE_EXHAUSTED, ENOMEM, "no memory for the files");
}

static int not_found(struct matcher *m)
{
    atoll_fail(m->err, ATOLL_ERR_NOT_FOUND, ENOENT, "%s: \"%.100s\" does not exist%s",
               atoll_recipe_kind_name(m->step->kind), m->source,
               m->step->flags.from ? "" : " in the build context, or .dockerignore excludes it");
    return -ENOENT;
}

/* Room for one more in an array that doubles. */
static void *grow(void *array, size_t count, size_t size)
{
    if (count > 0 && (count & (count - 1)) != 0)
        return array;
    return realloc(array, (count > 0 ? 2 * count : 1) * size);
}

static int add_pair(struct matcher *m, const char *path, const char *name)
{
    struct atoll_copy_match *ret = m->ret;
    struct atoll_copy_pair *pairs = grow(ret->pairs, ret->pair_count, sizeof(*pairs));

    if (!pairs)
        return no_memory(m);
    ret->pairs = pairs;
    pairs[ret->pair_count] = (struct atoll_copy_pair){strdup(path), strdup(name)};
    ret->pair_count++;
    return pairs[ret->pair_count - 1].path && pairs[ret->pair_count - 1].name ? 0 : no_memory(m);
}

static int add_exclude(struct matcher *m, const char *path)
{
    struct atoll_copy_match *ret = m->ret;
    char **more = grow(ret->excludes, ret->exclude_count, sizeof(*more));

    if (!more)
        return no_memory(m);
    ret->excludes = more;
    more[ret->exclude_count] = strdup(path);
    return more[ret->exclude_count++] ? 0 : no_memory(m);
}

/* Puts what a copy of the entry consists of into the digest, under a name. */
static int hash(struct matcher *m, const struct atoll_copy_entry *e, const char *name)
{
    bool owners = m->step->flags.from != NULL;
    char head[64];
    int n = snprintf(head, sizeof(head), "%c %o %u %u", e->type, e->mode, owners ? e->uid : 0,
                     owners ? e->gid : 0);

    if (EVP_DigestUpdate(m->digest, head, (size_t)n + 1) != 1 ||
        EVP_DigestUpdate(m->digest, name, strlen(name) + 1) != 1 ||
        EVP_DigestUpdate(m->digest, e->target, strlen(e->target) + 1) != 1 ||
        EVP_DigestUpdate(m->digest, e->sha256, sizeof(e->sha256)) != 1)
        return no_memory(m);
    return 0;
}

static const char *below(const struct atoll_copy_entry *top, const struct atoll_copy_entry *e)
{
    size_t n = strlen(top->path);

    return n == 0 ? e->path : e->path[n] ? e->path + n + 1 : "";
}

static const char *last_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

/* Whether --exclude leaves out an entry below `top`; a file that is a source itself goes by its name. */
static bool is_excluded(struct matcher *m, const struct atoll_copy_entry *top,
                        const struct atoll_copy_entry *e)
{
    const char *name = e == top ? last_name(e->path) : below(top, e);

    if (m->excludes.count == 0 || (e == top && e->type == ATOLL_TREE_DIRECTORY))
        return false;
    return atoll_dockerignore_match(&m->excludes, name);
}

/* Whether anything below an excluded directory is included again, by a pattern with "!". */
static bool has_included(struct matcher *m, const struct atoll_copy_entry *top,
                         const struct atoll_copy_entry *directory)
{
    const struct atoll_copy_entry *end = atoll_copy_tree_end(m->tree, directory);

    if (!m->excludes.excepts)
        return false;
    for (const struct atoll_copy_entry *e = directory + 1; e < end; e++)
        if (!is_excluded(m, top, e))
            return true;
    return false;
}

/* Adds the entry and all below it; `relative` is the root for patterns of --exclude. */
static int add_tree(struct matcher *m, const struct atoll_copy_entry *relative,
                    const struct atoll_copy_entry *top, const char *name)
{
    const struct atoll_copy_entry *end = atoll_copy_tree_end(m->tree, top), *next;
    int r = is_excluded(m, relative, top) ? 0 : hash(m, top, name);

    if (is_excluded(m, relative, top) && !has_included(m, relative, top))
        return 0;
    if (r == 0)
        r = add_pair(m, top->path, name);
    for (const struct atoll_copy_entry *e = top + 1; r == 0 && e < end; e = next) {
        next = e + 1;
        if (!is_excluded(m, relative, e)) {
            r = hash(m, e, below(top, e));
        } else if (e->type != ATOLL_TREE_DIRECTORY || !has_included(m, relative, e)) {
            r = add_exclude(m, e->path);
            next = atoll_copy_tree_end(m->tree, e);
        }
    }
    return r;
}

/* One source without a pattern, or one match of a pattern. */
static int add_source(struct matcher *m, const char *path)
{
    bool loop;
    const struct atoll_copy_entry *entry = atoll_copy_tree_walk(m->tree, path, &loop);

    if (loop)
        return atoll_recipe_refuse(m->err, 0, "\"%.100s\" has too many links", m->source);
    if (!entry)
        return not_found(m);
    if (entry->type == ATOLL_TREE_DIRECTORY)
        return add_tree(m, entry, entry, "");
    return add_tree(m, entry, entry, last_name(path));
}

static int bad_pattern(struct matcher *m)
{
    return atoll_recipe_refuse(m->err, 0, "\"%.100s\" is not a valid pattern", m->source);
}

/* Splits a path behind the components that have no pattern: "a/b/c*" is "a/b" and "c*". */
static const char *split_pattern(const char *path, char *base, size_t cap)
{
    size_t at = 0;

    while (path[at]) {
        size_t n = strcspn(path + at, "/");
        if (atoll_copy_has_pattern(path + at, n))
            break;
        at += n + (path[at + n] == '/');
    }
    if (at >= cap)
        return NULL;
    memcpy(base, path, at);
    base[at] = '\0';
    return path + at;
}

static int add_matches(struct matcher *m, const struct atoll_copy_entry *base, const char *pattern)
{
    const struct atoll_copy_entry *end = atoll_copy_tree_end(m->tree, base), *next;
    int r = 0;

    for (const struct atoll_copy_entry *e = base + 1; r == 0 && e < end; e = next) {
        int match = atoll_copy_pattern_match(pattern, below(base, e));
        next = e + 1;
        if (match < 0)
            return bad_pattern(m);
        if (match == 0)
            continue;
        r = add_source(m, e->path);
        next = atoll_copy_tree_end(m->tree, e);
    }
    return r;
}

static int add_pattern(struct matcher *m, const char *path)
{
    char *base = atoll_alloc(strlen(path) + 1);
    const char *pattern = split_pattern(path, base, strlen(path) + 1);
    const struct atoll_copy_entry *entry;
    bool loop;
    int r;

    if (atoll_copy_pattern_match(pattern, "") < 0) {
        r = bad_pattern(m);
    } else {
        entry = atoll_copy_tree_walk(m->tree, base, &loop);
        r = entry ? add_matches(m, entry, pattern) : 0;
    }
    free(base);
    return r;
}

/* --parents: what is below `base` and matches keeps its path from there. */
static int add_with_parents(struct matcher *m, const struct atoll_copy_entry *base,
                            const char *pattern)
{
    const struct atoll_copy_entry *end = atoll_copy_tree_end(m->tree, base), *next;
    bool found = false;
    int r = 0;

    if (!*pattern)
        return add_tree(m, base, base, "");
    for (const struct atoll_copy_entry *e = base + 1; r == 0 && e < end; e = next) {
        next = e + 1;
        if (!atoll_dockerignore_names(pattern, below(base, e)))
            continue;
        found = true;
        r = add_tree(m, base, e, below(base, e));
        next = atoll_copy_tree_end(m->tree, e);
    }
    if (r == 0 && !found && !atoll_copy_has_pattern(pattern, strlen(pattern)))
        return not_found(m);
    return r;
}

/* "a/./b/c": a is the base, which may be a pattern; without "./" it is the root. */
static int add_parents(struct matcher *m, const char *path)
{
    const char *pivot = strstr(path, "/./"), *pattern = pivot ? pivot + 3 : path;
    const struct atoll_copy_entry *entry = &m->tree->entries[0];
    char *base = atoll_alloc(strlen(path) + 1), *clean = atoll_alloc(strlen(path) + 1);
    bool loop;
    int r = 0;

    if (pivot)
        memcpy(base, path, (size_t)(pivot - path));
    atoll_copy_clean(pattern, clean);
    if (atoll_copy_has_pattern(base, strlen(base))) {
        for (size_t i = 1; r == 0 && i < m->tree->count; i++)
            if (m->tree->entries[i].type == ATOLL_TREE_DIRECTORY &&
                atoll_copy_pattern_match(base, m->tree->entries[i].path) > 0)
                r = add_with_parents(m, &m->tree->entries[i], clean);
    } else {
        entry = atoll_copy_tree_walk(m->tree, base, &loop);
        r = entry ? add_with_parents(m, entry, clean) : not_found(m);
    }
    free(base);
    free(clean);
    return r;
}

static int add_one(struct matcher *m, const char *source)
{
    char *clean;
    int r;

    m->source = source;
    if (m->step->flags.parents)
        return add_parents(m, source + strspn(source, "/"));
    clean = atoll_alloc(strlen(source) + 1);
    atoll_copy_clean(source, clean);
    r = atoll_copy_has_pattern(clean, strlen(clean)) ? add_pattern(m, clean) : add_source(m, clean);
    free(clean);
    return r;
}

bool atoll_copy_is_remote(const char *source)
{
    return strncmp(source, "http://", 7) == 0 || strncmp(source, "https://", 8) == 0 ||
           strncmp(source, "git@", 4) == 0 || strncmp(source, "ssh://", 6) == 0 ||
           strncmp(source, "git://", 6) == 0;
}

static int match_all(struct matcher *m)
{
    const struct atoll_recipe_step *step = m->step;
    int r = 0;

    for (size_t i = 0; r == 0 && i < step->flags.exclude_count; i++)
        r = atoll_dockerignore_add(&m->excludes, step->flags.excludes[i], m->err);
    for (size_t i = 0; r == 0 && i < step->arg_count; i++)
        if (step->kind != ATOLL_RECIPE_ADD || !atoll_copy_is_remote(step->args[i]))
            r = add_one(m, step->args[i]);
    return r;
}

static int finish(struct matcher *m)
{
    uint8_t sum[EVP_MAX_MD_SIZE];
    unsigned n;

    if (EVP_DigestFinal_ex(m->digest, sum, &n) != 1)
        return no_memory(m);
    for (unsigned i = 0; i < n; i++)
        (void)snprintf(m->ret->digest + 2 * (size_t)i, 3, "%02x", sum[i]);
    return 0;
}

int atoll_copy_match(const struct atoll_copy_tree *tree, const struct atoll_recipe_step *step,
                     struct atoll_copy_match *ret, struct atoll_error *err)
{
    struct matcher *m = atoll_alloc(sizeof(*m));
    int r;

    *ret = (struct atoll_copy_match){0};
    m->tree = tree;
    m->step = step;
    m->ret = ret;
    m->err = err;
    m->digest = EVP_MD_CTX_new();
    if (!m->digest || EVP_DigestInit_ex(m->digest, EVP_sha256(), NULL) != 1)
        r = no_memory(m);
    else
        r = match_all(m);
    if (r == 0)
        r = finish(m);
    if (r < 0) {
        atoll_copy_match_done(ret);
        r = atoll_recipe_at_line(err, step->line);
    }
    EVP_MD_CTX_free(m->digest);
    atoll_dockerignore_done(&m->excludes);
    free(m);
    return r;
}

void atoll_copy_match_done(struct atoll_copy_match *m)
{
    for (size_t i = 0; i < m->pair_count; i++) {
        free(m->pairs[i].path);
        free(m->pairs[i].name);
    }
    for (size_t i = 0; i < m->exclude_count; i++)
        free(m->excludes[i]);
    free(m->pairs);
    free(m->excludes);
    *m = (struct atoll_copy_match){0};
}
