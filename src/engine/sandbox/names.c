#include <errno.h>
#include <string.h>
#include "base/text.h"
#include "engine/engine_internal.h"

/*
 * Names of sandboxes, and the ways to refer to one: by its id, by its name, or by the beginning of
 * its id.
 */

#define PREFIX_MIN 4

static bool looks_like_id(const char *text)
{
    return strlen(text) == ATOLL_ID_LEN && atoll_text_is_id(text);
}

int atoll_name_check(const char *name, struct atoll_error *err)
{
    if (!atoll_text_is_name(name))
        return atoll_fail(
            err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
            "name must be a letter or digit, then up to 63 of letters, digits, \".\", "
            "\"_\" and \"-\" (got \"%.64s\")",
            name);
    if (looks_like_id(name))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "name must not have the form of a sandbox id (got \"%s\")", name);
    return 0;
}

int atoll_tenant_check_name(const struct atoll_engine *engine, const char *owner, const char *name,
                            struct atoll_error *err)
{
    const struct atoll_sandbox *s = name ? atoll_engine_find_name(engine, owner, name) : NULL;

    if (!s)
        return 0;
    return atoll_fail(
        err, ATOLL_ERR_ALREADY_EXISTS, EEXIST,
        "sandbox %s has the name %s already; destroy or rename it, or create this one "
        "with another name",
        s->spec.id, name);
}

struct atoll_sandbox *atoll_engine_find_name(const struct atoll_engine *engine, const char *owner,
                                             const char *name)
{
    const struct atoll_tenant *t = atoll_tenant_find(engine, owner ? owner : ATOLL_OPERATOR_TENANT);

    return t ? atoll_map_get(&t->names, name) : NULL;
}

void atoll_name_enter(struct atoll_sandbox *s)
{
    int r = s->options.name ? atoll_map_put(&s->tenant->names, s->options.name, s) : 0;

    if (r == -ENOMEM)
        abort(); /* a small object: the daemon is crash-only */
}

void atoll_name_leave(struct atoll_sandbox *s)
{
    const char *name = s->options.name;

    if (name && atoll_map_get(&s->tenant->names, name) == s)
        (void)atoll_map_remove(&s->tenant->names, name);
}

int atoll_engine_set_name(struct atoll_engine *engine, const char *id, const char *name,
                          struct atoll_error *err)
{
    struct atoll_sandbox *s = atoll_engine_find(engine, id);
    char *copy = NULL;
    int r;

    if (!s || !s->tenant)
        return atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT, "there is no sandbox %.32s", id);
    if (s->options.name && strcmp(name, s->options.name) == 0)
        return 0;
    r = *name ? atoll_name_check(name, err) : 0;
    if (r == 0 && *name)
        r = atoll_tenant_check_name(engine, s->spec.tenant, name, err);
    if (r < 0)
        return r;
    copy = *name ? strdup(name) : NULL;
    if (*name && !copy)
        return atoll_fail_errno(err, ENOMEM, "name of a sandbox");
    atoll_name_leave(s);
    atoll_options_set_text(&s->options.name, copy);
    atoll_name_enter(s);
    atoll_persist_sandbox_later(s);
    return 0;
}

/* The one sandbox whose id begins like this. */
static int find_prefix(const struct atoll_ordered *all, const char *prefix,
                       struct atoll_sandbox **ret, struct atoll_error *err)
{
    size_t n = strlen(prefix);

    *ret = NULL;
    for (size_t i = 0; i < all->count; i++) {
        struct atoll_sandbox *s = all->items[i];
        if (s->hidden || strncmp(s->spec.id, prefix, n) != 0)
            continue;
        if (*ret)
            return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                              "several sandbox ids begin with \"%s\"; give more of it", prefix);
        *ret = s;
    }
    return 0;
}

int atoll_engine_no_sandbox(const char *text, struct atoll_error *err)
{
    int r = atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT, "sandbox %.64s does not exist", text);

    atoll_advise(err, "it may have been destroyed or have reached the end of its lifetime; see "
                      "docs/troubleshooting.md");
    return r;
}

int atoll_engine_resolve(struct atoll_engine *engine, const char *owner, bool all, const char *text,
                         struct atoll_sandbox **ret, struct atoll_error *err)
{
    const struct atoll_tenant *t = atoll_tenant_find(engine, owner);
    int r = 0;

    *ret = atoll_engine_find(engine, text);
    if (!*ret)
        *ret = atoll_engine_find_name(engine, owner, text);
    if (!*ret && strlen(text) >= PREFIX_MIN && (all || t))
        r = find_prefix(all ? &engine->ordered : &t->sandboxes, text, ret, err);
    return r == 0 && !*ret ? atoll_engine_no_sandbox(text, err) : r;
}
