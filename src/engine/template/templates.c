#include "store/templates.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/text.h"
#include "engine/engine_internal.h"

/*
 * Templates as requests see them: names are resolved for a tenant, and shown as views.
 */

#define SHARES_MAX 4096

struct atoll_template_view atoll_version_get(struct atoll_engine *engine,
                                             const struct atoll_version *v)
{
    return (struct atoll_template_view){
        .name = v->tmpl->name,
        .kind = v->kind,
        .digest = v->digest,
        .size_bytes = v->size_bytes,
        .created_unix_ms = v->created_unix_ms,
        .owner = v->tmpl->owner,
        .provider = v->provider,
        .id = v->id,
        .tags = v->tags ? v->tags : "",
        .layers = v->layers,
        .config_json = v->config,
        .source = v->source,
        .definition = v->definition,
        .start_cmd = v->start_cmd,
        .ready_cmd = v->ready_cmd,
        .report_json = v->report,
        .cpu_millis = v->cpu_millis,
        .memory_bytes = v->memory_bytes,
        .disk_bytes = v->disk_bytes,
        .parent = v->parent,
        .sandbox_id = v->sandbox_id,
        .shares = v->tmpl->shares,
        .version_count = v->tmpl->version_count,
        .sandboxes = atoll_version_sandboxes(engine, v),
    };
}

static bool may_use(const char *owner, const char *shares, const char *tenant)
{
    return !*owner || strcmp(owner, tenant) == 0 || strcmp(shares, "*") == 0 ||
           atoll_words_have(shares, tenant);
}

bool atoll_template_may_use(const struct atoll_template_view *view, const char *tenant)
{
    return may_use(view->owner, view->shares, tenant);
}

/* TENANT/NAME, if that tenant shares it. */
static struct atoll_template *find_of_other(struct atoll_engine *engine, const char *tenant,
                                            const char *name)
{
    const char *slash = strchr(name, '/');
    struct atoll_template *t;
    char owner[65];

    if (!slash || slash == name || (size_t)(slash - name) >= sizeof(owner))
        return NULL;
    (void)snprintf(owner, sizeof(owner), "%.*s", (int)(slash - name), name);
    t = atoll_template_get(engine, owner, slash + 1);
    return t && may_use(t->owner, t->shares, tenant) ? t : NULL;
}

static struct atoll_template *find(struct atoll_engine *engine, const char *tenant,
                                   const char *name)
{
    struct atoll_template *t = *tenant ? atoll_template_get(engine, tenant, name) : NULL;

    if (!t)
        t = atoll_template_get(engine, "", name);
    return t ? t : find_of_other(engine, tenant, name);
}

struct atoll_version *atoll_version_resolve(struct atoll_engine *engine, const char *tenant,
                                            const char *reference, struct atoll_error *err)
{
    struct atoll_version *v = NULL;
    struct atoll_template *t;
    struct atoll_template_reference ref;

    if (atoll_template_reference_parse(reference, &ref, err) < 0)
        return NULL;
    t = find(engine, tenant, ref.name);
    if (!t) {
        (void)atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT,
                         "there is no template %.150s; see `atoll template ls`", reference);
        return NULL;
    }
    if (*ref.digest)
        v = atoll_template_by_digest(t, ref.digest);
    else if (*ref.tag)
        v = atoll_template_by_tag(t, ref.tag);
    else
        v = atoll_template_version(t);
    /* Of forks that may all be removed: only their own creates, which pin it, may use it. */
    if (v && strcmp(v->source, ATOLL_SOURCE_FORKING) == 0 && v->pins == 0)
        v = NULL;
    if (!v)
        (void)atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT,
                         "template %.64s has no %s %.128s; see `atoll template history %.64s`",
                         ref.name, *ref.digest ? "version" : "tag",
                         *ref.digest ? ref.digest : ref.tag, ref.name);
    return v;
}

int atoll_template_resolve(struct atoll_engine *engine, const char *tenant, const char *reference,
                           struct atoll_template_view *ret, struct atoll_error *err)
{
    const struct atoll_version *v = atoll_version_resolve(engine, tenant, reference, err);

    if (!v)
        return err->kind == ATOLL_ERR_NOT_FOUND ? -ENOENT : -EINVAL;
    *ret = atoll_version_get(engine, v);
    return 0;
}

bool atoll_templates_find(struct atoll_engine *engine, const char *tenant, const char *reference,
                          struct atoll_template_view *ret)
{
    struct atoll_error ignored;

    return atoll_template_resolve(engine, tenant, reference, ret, &ignored) == 0;
}

int atoll_version_find(struct atoll_engine *engine, const char *version_id,
                       struct atoll_template_view *ret, struct atoll_error *err)
{
    const struct atoll_version *v = atoll_map_get(&engine->template_tables.versions, version_id);

    if (!v)
        return atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT, "there is no version %.40s",
                          version_id);
    *ret = atoll_version_get(engine, v);
    return 0;
}

bool atoll_templates_next(struct atoll_engine *engine, size_t *pos, struct atoll_template_view *ret)
{
    const struct atoll_template *t;

    do {
        t = atoll_map_next(&engine->template_tables.templates, pos);
    } while (t && atoll_version_is_temporary(atoll_template_version(t)));
    if (t)
        *ret = atoll_version_get(engine, atoll_template_version(t));
    return t != NULL;
}

void atoll_template_each_version(struct atoll_engine *engine, const char *owner, const char *name,
                                 void (*fn)(void *arg, const struct atoll_template_view *version,
                                            const char *tags),
                                 void *arg)
{
    const struct atoll_template *t = atoll_template_get(engine, owner, name);

    if (!t)
        return;
    ATOLL_LIST_FOREACH (&t->versions, node) {
        const struct atoll_version *v = ATOLL_CONTAINER_OF(node, struct atoll_version, node);
        struct atoll_template_view view = atoll_version_get(engine, v);

        fn(arg, &view, view.tags);
    }
}

size_t atoll_templates_count(struct atoll_engine *engine, const char *owner)
{
    const struct atoll_template *t;
    size_t pos = 0, n = 0;

    while ((t = atoll_map_next(&engine->template_tables.templates, &pos)) != NULL)
        n += strcmp(t->owner, owner) == 0;
    return n;
}

int atoll_template_check(struct atoll_engine *engine, const char *owner, const char *name,
                         enum atoll_template_kind kind, struct atoll_error *err)
{
    const struct atoll_template *old, *shared;

    if (!atoll_text_is_name(name) && !atoll_template_is_image_name(name))
        return atoll_fail(
            err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
            "a template's name is 1 to 64 letters, digits, dots, dashes or underscores");
    old = atoll_template_get(engine, owner, name);
    shared = atoll_template_get(engine, "", name);
    if (shared && atoll_template_version(shared)->kind == ATOLL_TEMPLATE_HOST)
        return atoll_fail(err, ATOLL_ERR_ALREADY_EXISTS, EEXIST, "the template %s is built in",
                          name);
    if (!old && shared)
        return atoll_fail(err, ATOLL_ERR_ALREADY_EXISTS, EEXIST,
                          "%s is the name of a shared template: choose another", name);
    if (old && atoll_template_version(old)->kind != kind)
        return atoll_fail(err, ATOLL_ERR_ALREADY_EXISTS, EEXIST,
                          "template %s exists and is of another kind: remove it first", name);
    return 0;
}

struct checking {
    bool bad;
};

static void check_share(void *arg, const char *word)
{
    struct checking *c = arg;
    c->bad |= !atoll_text_is_name(word);
}

int atoll_template_share(struct atoll_engine *engine, const char *owner, const char *name,
                         const char *shares, struct atoll_error *err)
{
    struct atoll_template *t = atoll_template_get(engine, owner, name);
    struct checking c = {false};
    char *copy;
    int r;

    if (!t || !*owner)
        return atoll_fail(
            err, t ? ATOLL_ERR_FAILED_PRECONDITION : ATOLL_ERR_NOT_FOUND, EINVAL,
            t ? "template %.150s is one of all tenants" : "there is no template %.150s", name);
    if (strcmp(shares, "*") != 0)
        atoll_words_each(shares, check_share, &c);
    if (c.bad || strlen(shares) > SHARES_MAX)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "a template is shared with tenants by their names, or with *");
    copy = strdup(shares);
    if (!copy)
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, ENOMEM, "out of memory");
    r = atoll_store_put_template(
        engine->config.store,
        &(struct atoll_store_template){t->owner, t->name, shares, t->created_unix_ms}, err);
    if (r < 0) {
        free(copy);
        return r;
    }
    free(t->shares);
    t->shares = copy;
    return 0;
}
