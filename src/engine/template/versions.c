#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/memory.h"
#include "base/rand.h"
#include "base/switches.h"
#include "base/text.h"
#include "engine/engine_internal.h"
#include "engine/template/version_sbom.h"
#include "store/templates.h"

/*
 * The tables of templates, versions and tags in memory, and the removal of what a version uses.
 */

static struct atoll_template_tables *tables(struct atoll_engine *engine)
{
    return &engine->template_tables;
}

static void key_of(const char *owner, const char *name, char *key, size_t cap)
{
    (void)snprintf(key, cap, "%s%s%s", owner, *owner ? "@" : "", name);
}

struct atoll_template *atoll_template_get(struct atoll_engine *engine, const char *owner,
                                          const char *name)
{
    char key[sizeof(((struct atoll_template *)0)->key)];

    key_of(owner, name, key, sizeof(key));
    return atoll_map_get(&tables(engine)->templates, key);
}

struct atoll_template *atoll_template_make(struct atoll_engine *engine, const char *owner,
                                           const char *name)
{
    struct atoll_template *t = atoll_template_get(engine, owner, name);

    if (t)
        return t;
    t = atoll_alloc(sizeof(*t));
    atoll_list_init(&t->versions);
    atoll_list_init(&t->tags);
    t->shares = strdup("");
    if (!t->shares || atoll_text_copy(t->name, sizeof(t->name), name) < 0 ||
        atoll_text_copy(t->owner, sizeof(t->owner), owner) < 0)
        abort(); /* the names were checked; the daemon is crash-only */
    key_of(owner, name, t->key, sizeof(t->key));
    if (atoll_map_put(&tables(engine)->templates, t->key, t) < 0)
        abort();
    return t;
}

void atoll_template_drop_empty(struct atoll_engine *engine, struct atoll_template *t)
{
    if (!atoll_list_empty(&t->versions))
        return;
    (void)atoll_map_remove(&tables(engine)->templates, t->key);
    free(t->shares);
    free(t);
}

static struct atoll_version *version_at(struct atoll_list *node)
{
    return ATOLL_CONTAINER_OF(node, struct atoll_version, node);
}

static struct atoll_tag *tag_at(struct atoll_list *node)
{
    return ATOLL_CONTAINER_OF(node, struct atoll_tag, node);
}

static struct atoll_tag *find_tag(const struct atoll_template *t, const char *name)
{
    ATOLL_LIST_FOREACH (&t->tags, node)
        if (strcmp(tag_at(node)->name, name) == 0)
            return tag_at(node);
    return NULL;
}

struct atoll_version *atoll_template_by_tag(const struct atoll_template *t, const char *tag)
{
    const struct atoll_tag *found = find_tag(t, tag);
    return found ? found->version : NULL;
}

struct atoll_version *atoll_template_version(const struct atoll_template *t)
{
    struct atoll_version *latest = atoll_template_by_tag(t, "latest");
    return latest ? latest : version_at(t->versions.next);
}

/* Providers write "sha256:" before the digits. */
static const char *hex_of(const struct atoll_version *v)
{
    return strncmp(v->digest, "sha256:", 7) == 0 ? v->digest + 7 : v->digest;
}

struct atoll_version *atoll_template_by_digest(const struct atoll_template *t, const char *digest)
{
    size_t n = strlen(digest);

    ATOLL_LIST_FOREACH (&t->versions, node)
        if (n > 0 && strncmp(hex_of(version_at(node)), digest, n) == 0)
            return version_at(node);
    return NULL;
}

bool atoll_version_has_tag(const struct atoll_version *v)
{
    ATOLL_LIST_FOREACH (&v->tmpl->tags, node)
        if (tag_at(node)->version == v)
            return true;
    return false;
}

bool atoll_version_is_temporary(const struct atoll_version *v)
{
    bool is_of_fork =
        strcmp(v->source, ATOLL_SOURCE_FORK) == 0 || strcmp(v->source, ATOLL_SOURCE_FORKING) == 0;

    return atoll_template_is_retired(v->tmpl->name) || (is_of_fork && !atoll_version_has_tag(v));
}

size_t atoll_version_sandboxes(struct atoll_engine *engine, const struct atoll_version *v)
{
    const struct atoll_sandbox *s;
    size_t pos = 0, n = 0;

    while ((s = atoll_map_next(&engine->sandboxes, &pos)) != NULL)
        n += s->version == v && !s->pool_class;
    return n;
}

void atoll_version_link(struct atoll_engine *engine, struct atoll_template *t,
                        struct atoll_version *v)
{
    v->tmpl = t;
    if (atoll_map_put(&tables(engine)->versions, v->id, v) < 0)
        abort();
    /* Newest first. */
    v->node.next = t->versions.next;
    v->node.prev = &t->versions;
    t->versions.next->prev = &v->node;
    t->versions.next = &v->node;
    t->version_count++;
}

/* Writes the texts of tags of all versions again. */
static void write_tags(struct atoll_template *t)
{
    char text[ATOLL_TEMPLATE_TAGS_MAX * (ATOLL_TEMPLATE_TAG_MAX + 1) + 1];

    ATOLL_LIST_FOREACH (&t->versions, node) {
        struct atoll_version *v = version_at(node);
        size_t at = 0;

        text[0] = '\0';
        ATOLL_LIST_FOREACH (&t->tags, tag_node)
            if (tag_at(tag_node)->version == v && at < sizeof(text))
                at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%s", at ? " " : "",
                                       tag_at(tag_node)->name);
        free(v->tags);
        v->tags = strdup(text);
        if (!v->tags)
            abort();
    }
}

/* By name, as they are loaded. */
static void add_tag(struct atoll_template *t, struct atoll_tag *tag)
{
    struct atoll_list *next = t->tags.next;

    while (next != &t->tags && strcmp(tag_at(next)->name, tag->name) < 0)
        next = next->next;
    atoll_list_push_back(next, &tag->node); /* before it */
}

void atoll_tag_set(struct atoll_engine *engine, struct atoll_version *v, const char *name)
{
    struct atoll_tag *tag = find_tag(v->tmpl, name);

    if (!tag) {
        tag = atoll_alloc(sizeof(*tag));
        (void)snprintf(tag->name, sizeof(tag->name), "%s", name);
        add_tag(v->tmpl, tag);
        v->tmpl->tag_count++;
        tables(engine)->tags++;
    }
    tag->version = v;
    write_tags(v->tmpl);
}

void atoll_tag_remove(struct atoll_engine *engine, struct atoll_tag *tag)
{
    struct atoll_template *t = tag->version->tmpl;

    t->tag_count--;
    tables(engine)->tags--;
    atoll_list_remove(&tag->node);
    free(tag);
    write_tags(t);
}

struct atoll_version *atoll_version_free(struct atoll_version *v)
{
    if (v) {
        char *const texts[] = {v->layers,    v->config,    v->source, v->definition,
                               v->start_cmd, v->ready_cmd, v->report, v->tags};
        for (size_t i = 0; i < ATOLL_ARRAY_LEN(texts); i++)
            free(texts[i]);
        free(v);
    }
    return NULL;
}

/* Removal. */

struct removal {
    struct atoll_list node; /* in removals: the end of the daemon ends them */
    unsigned waiting;
    bool failed;
    struct atoll_error error; /* the first one */
    atoll_done_fn *done;
    void *arg;
    struct atoll_engine *engine;
    char *layers; /* owned: of a version, until they are released; or NULL */
};

static void removal_free(struct removal *r)
{
    atoll_list_remove(&r->node);
    free(r->layers);
    free(r);
}

void atoll_versions_done(struct atoll_engine *engine)
{
    ATOLL_LIST_FOREACH (&tables(engine)->removals, node)
        removal_free(ATOLL_CONTAINER_OF(node, struct removal, node));
}

static void part_removed(void *arg, const struct atoll_error *error)
{
    struct removal *r = arg;

    if (error && !r->failed) {
        r->failed = true;
        r->error = *error;
    }
    if (--r->waiting > 0)
        return;
    r->done(r->arg, r->failed ? &r->error : NULL);
    removal_free(r);
}

/* Succeeds if the provider is not configured any more. */
static void drop_image(struct removal *r, const struct atoll_version *v)
{
    struct atoll_provider_entry *entry = atoll_provider_entry_by_name(r->engine, v->provider);

    if (!entry || !entry->provider->ops->drop_image)
        return;
    r->waiting++;
    entry->provider->ops->drop_image(entry->provider, v->image, part_removed, r);
}

static void drop_one_layer(void *arg, const char *name)
{
    struct removal *r = arg;

    r->waiting++;
    atoll_layer_release_then(r->engine, name, part_removed, r);
}

/* No sandbox of the engine uses them any more. */
static void release_layers(void *arg, const struct atoll_error *error ATOLL_UNUSED)
{
    struct removal *r = arg;

    atoll_words_each(r->layers, drop_one_layer, r);
    part_removed(r, NULL);
}

static void remove_files(struct atoll_engine *engine, const struct atoll_version *v)
{
    static const char *const kinds[] = {"log", "sbom", "sbom.part"};
    char path[64];

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(kinds); i++) {
        (void)snprintf(path, sizeof(path), "versions/%s.%s", v->id, kinds[i]);
        (void)unlinkat(engine->state_fd, path, 0);
    }
}

void atoll_version_discard(struct atoll_engine *engine, struct atoll_version *v,
                           atoll_done_fn *done, void *arg)
{
    struct atoll_template *t = v->tmpl;
    struct removal *r = atoll_alloc(sizeof(*r));

    *r = (struct removal){.waiting = 1, .done = done, .arg = arg, .engine = engine};
    atoll_list_push_back(&tables(engine)->removals, &r->node);
    atoll_pool_leave_version(engine, v);
    ATOLL_LIST_FOREACH (&t->tags, node)
        if (tag_at(node)->version == v)
            atoll_tag_remove(engine, tag_at(node));
    (void)atoll_map_remove(&tables(engine)->versions, v->id);
    atoll_list_remove(&v->node);
    t->version_count--;
    tables(engine)->removed_versions++;
    remove_files(engine, v);
    if (*v->image)
        drop_image(r, v);
    r->layers = ATOLL_TAKE_PTR(v->layers);
    r->waiting++;
    atoll_version_sbom_end(engine, v->id, release_layers, r);
    (void)atoll_version_free(v);
    atoll_template_drop_empty(engine, t);
    part_removed(r, NULL);
}

int atoll_version_drop(struct atoll_engine *engine, struct atoll_version *v,
                       struct atoll_error *err)
{
    int r = atoll_store_drop_version(engine->config.store, v->id, err);

    if (r < 0)
        return r;
    atoll_version_discard(engine, v, atoll_done_ignore, NULL);
    return 0;
}

/* What requests remove. */

static bool refuse_used(struct atoll_engine *engine, const struct atoll_version *v,
                        struct atoll_error *err)
{
    if (v->kind == ATOLL_TEMPLATE_HOST) {
        (void)atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EBUSY,
                         "the template %s is built in and cannot be removed", v->tmpl->name);
        return true;
    }
    if (atoll_version_sandboxes(engine, v) == 0 && v->pins == 0)
        return false;
    (void)atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EBUSY,
                     "template %s is in use: destroy its sandboxes first", v->tmpl->name);
    return true;
}

static void remove_tag(struct atoll_engine *engine, struct atoll_template *t, const char *name,
                       atoll_done_fn *done, void *arg)
{
    struct atoll_tag *tag = find_tag(t, name);
    struct atoll_error err;

    if (!tag) {
        (void)atoll_fail(&err, ATOLL_ERR_NOT_FOUND, ENOENT, "template %s has no tag %s", t->name,
                         name);
        done(arg, &err);
        return;
    }
    if (atoll_store_drop_tag(engine->config.store, t->owner, t->name, name, &err) < 0) {
        done(arg, &err);
        return;
    }
    atoll_tag_remove(engine, tag);
    atoll_templates_collect_soon(engine);
    done(arg, NULL);
}

static void remove_version(struct atoll_engine *engine, struct atoll_version *v,
                           atoll_done_fn *done, void *arg)
{
    struct atoll_error err;

    if (refuse_used(engine, v, &err) ||
        atoll_store_drop_version(engine->config.store, v->id, &err) < 0)
        done(arg, &err);
    else
        atoll_version_discard(engine, v, done, arg);
}

static void remove_all(struct atoll_engine *engine, struct atoll_template *t, atoll_done_fn *done,
                       void *arg)
{
    struct removal *r;
    struct atoll_error err;
    size_t left = t->version_count;

    ATOLL_LIST_FOREACH (&t->versions, node)
        if (refuse_used(engine, version_at(node), &err)) {
            done(arg, &err);
            return;
        }
    atoll_fault_die("templates.remove");
    if (atoll_store_drop_template(engine->config.store, t->owner, t->name, &err) < 0) {
        done(arg, &err);
        return;
    }
    r = atoll_alloc(sizeof(*r));
    *r = (struct removal){.waiting = 1, .done = done, .arg = arg, .engine = engine};
    atoll_list_push_back(&tables(engine)->removals, &r->node);
    for (; left > 0; left--) { /* the template is freed with its last version */
        r->waiting++;
        atoll_version_discard(engine, version_at(t->versions.next), part_removed, r);
    }
    part_removed(r, NULL);
}

void atoll_templates_remove(struct atoll_engine *engine, const char *owner, const char *reference,
                            atoll_done_fn *done, void *arg)
{
    struct atoll_template *t = NULL;
    struct atoll_version *v = NULL;
    struct atoll_template_reference ref;
    struct atoll_error err;

    if (atoll_template_reference_parse(reference, &ref, &err) < 0) {
        done(arg, &err);
        return;
    }
    t = atoll_template_get(engine, owner ? owner : "", ref.name);
    if (t && *ref.digest)
        v = atoll_template_by_digest(t, ref.digest);
    if (!t || (*ref.digest && !v)) {
        (void)atoll_fail(&err, ATOLL_ERR_NOT_FOUND, ENOENT, "there is no template %.150s",
                         reference);
        done(arg, &err);
    } else if (v) {
        remove_version(engine, v, done, arg);
    } else if (*ref.tag) {
        remove_tag(engine, t, ref.tag, done, arg);
    } else {
        remove_all(engine, t, done, arg);
    }
}

/* Retired templates: their names have a character that no name in a request may have. */

#define RETIRED '~'

bool atoll_template_is_retired(const char *name)
{
    return strchr(name, RETIRED) != NULL;
}

static bool is_used(struct atoll_engine *engine, const struct atoll_template *t)
{
    ATOLL_LIST_FOREACH (&t->versions, node)
        if (atoll_version_sandboxes(engine, version_at(node)) > 0 || version_at(node)->pins > 0)
            return true;
    return false;
}

static int retire(struct atoll_engine *engine, struct atoll_template *t, struct atoll_error *err)
{
    char name[sizeof(t->name)], id[17];
    int r;

    atoll_rand_id(id, sizeof(id) - 1);
    (void)snprintf(name, sizeof(name), "%.200s%c%s", t->name, RETIRED, id);
    r = atoll_store_rename_template(engine->config.store, t->owner, t->name, name, err);
    if (r < 0)
        return r;
    ATOLL_LIST_FOREACH (&t->tags, node)
        atoll_tag_remove(engine, tag_at(node));
    ATOLL_LIST_FOREACH (&t->versions, node)
        atoll_pool_leave_version(engine, version_at(node));
    (void)atoll_map_remove(&tables(engine)->templates, t->key);
    memcpy(t->name, name, sizeof(name));
    key_of(t->owner, t->name, t->key, sizeof(t->key));
    if (atoll_map_put(&tables(engine)->templates, t->key, t) < 0)
        abort();
    atoll_templates_collect_soon(engine);
    return 0;
}

void atoll_templates_retire(struct atoll_engine *engine, const char *owner, const char *name,
                            atoll_done_fn *done, void *arg)
{
    struct atoll_template *t = atoll_template_get(engine, owner, name);
    struct atoll_error err;

    if (t && t != tables(engine)->host->tmpl && is_used(engine, t))
        done(arg, retire(engine, t, &err) < 0 ? &err : NULL);
    else
        atoll_templates_remove(engine, owner, name, done, arg);
}
