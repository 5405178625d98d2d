/*
 * File metadata: headers of an upload, stored as extended attributes. Commands inside the sandbox
 * can read and change them.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include "api/e2b/envd_files.h"
#include "base/rand.h"

#define HEADER "x-metadata-"
#define KEY_MAX 246 /* with the prefix, the kernel's limit of 255 */
#define TOTAL_MAX ((size_t)4096)
#define NAMES_MAX ((size_t)64 * 1024)

static bool is_printable(const char *text)
{
    for (; *text; text++)
        if (*text < 0x20 || *text > 0x7e)
            return false;
    return true;
}

static int add(struct atoll_envd_metadata *m, const char *key, const char *value,
               struct atoll_error *err)
{
    char name[sizeof(ATOLL_ENVD_ATTRIBUTES) + KEY_MAX];
    size_t n = strlen(key);

    if (n == 0 || n > KEY_MAX || !is_printable(key) || !is_printable(value))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "metadata key '%.100s' and its value must be printable ASCII, the key at "
                          "most %d bytes",
                          key, KEY_MAX);
    (void)snprintf(name, sizeof(name), ATOLL_ENVD_ATTRIBUTES "%s", key);
    for (char *p = name; *p; p++)
        *p = (char)(*p >= 'A' && *p <= 'Z' ? *p - 'A' + 'a' : *p);
    if (atoll_buf_append(&m->pairs, name, strlen(name) + 1) < 0 ||
        atoll_buf_append(&m->pairs, value, strlen(value) + 1) < 0)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, E2BIG,
                          "metadata is at most %zu bytes in all", TOTAL_MAX);
    return 0;
}

int atoll_envd_metadata_take(struct atoll_envd_metadata *m, const struct atoll_http_request *req,
                             struct atoll_error *err)
{
    const char *name, *value;
    int r = 0;

    atoll_buf_init(&m->pairs, TOTAL_MAX);
    for (size_t i = 0; r == 0 && atoll_http_header_at(req, i, &name, &value); i++)
        if (strncasecmp(name, HEADER, sizeof(HEADER) - 1) == 0)
            r = add(m, name + sizeof(HEADER) - 1, value, err);
    return r;
}

void atoll_envd_metadata_done(struct atoll_envd_metadata *m)
{
    atoll_buf_done(&m->pairs);
}

/* Applying metadata: removes unwanted attributes, then sets the others, one after the other. */

struct applying {
    const struct atoll_envd_metadata *wanted;
    struct atoll_engine *engine;
    char sandbox_id[ATOLL_ID_LEN + 1], user[ATOLL_ENVD_USER_MAX];
    char *path;             /* owned */
    struct atoll_buf stale; /* names, each with its NUL */
    size_t stale_at, set_at;
    atoll_done_fn *done;
    void *arg;
};

static void conclude(struct applying *a, const struct atoll_error *error)
{
    a->done(a->arg, error);
    atoll_buf_done(&a->stale);
    free(a->path);
    free(a);
}

static const char *next_text(const struct atoll_buf *texts, size_t *at)
{
    const char *text;

    if (*at >= atoll_buf_size(texts))
        return NULL;
    text = (const char *)atoll_buf_head(texts) + *at;
    *at += strlen(text) + 1;
    return text;
}

static bool is_wanted(const struct applying *a, const char *name)
{
    const char *known;

    for (size_t at = 0; (known = next_text(&a->wanted->pairs, &at));) {
        if (strcmp(known, name) == 0)
            return true;
        (void)next_text(&a->wanted->pairs, &at);
    }
    return false;
}

static void on_attribute(void *arg, const char *name, const uint8_t *value ATOLL_UNUSED,
                         size_t n ATOLL_UNUSED)
{
    struct applying *a = arg;

    if (strncmp(name, ATOLL_ENVD_ATTRIBUTES, sizeof(ATOLL_ENVD_ATTRIBUTES) - 1) == 0 &&
        !is_wanted(a, name))
        (void)!atoll_buf_append(&a->stale, name, strlen(name) + 1);
}

static void go_on(void *arg, const struct atoll_error *error)
{
    struct applying *a = arg;
    const char *name, *value;

    /* It is not an error if another process removed the attribute first. */
    if (error && !(error->kind == ATOLL_ERR_NOT_FOUND && error->errnum == ENODATA)) {
        /* A file system without attributes has nothing to remove. */
        bool fine = error->errnum == EOPNOTSUPP && atoll_buf_size(&a->wanted->pairs) == 0;
        conclude(a, fine ? NULL : error);
        return;
    }
    if ((name = next_text(&a->stale, &a->stale_at))) {
        atoll_files_remove_xattr(a->engine, a->sandbox_id, a->user, a->path, name, go_on, a);
    } else if ((name = next_text(&a->wanted->pairs, &a->set_at))) {
        value = next_text(&a->wanted->pairs, &a->set_at);
        atoll_files_set_xattr(a->engine, a->sandbox_id, a->user, a->path, name,
                              (const uint8_t *)value, strlen(value), go_on, a);
    } else {
        conclude(a, NULL);
    }
}

void atoll_envd_metadata_apply(const struct atoll_envd_metadata *m, struct atoll_engine *engine,
                               const char *sandbox_id, const char *user, const char *path,
                               atoll_done_fn *done, void *arg)
{
    struct applying *a = atoll_api_alloc(sizeof(*a));

    *a = (struct applying){.wanted = m, .engine = engine, .done = done, .arg = arg};
    (void)snprintf(a->sandbox_id, sizeof(a->sandbox_id), "%s", sandbox_id);
    (void)snprintf(a->user, sizeof(a->user), "%s", user);
    a->path = strdup(path);
    if (!a->path)
        abort();
    atoll_buf_init(&a->stale, NAMES_MAX);
    atoll_files_xattrs(engine, sandbox_id, a->user, a->path, on_attribute, go_on, a);
}
