#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "base/memory.h"
#include "base/rand.h"
#include "base/switches.h"
#include "base/text.h"
#include "engine/engine_internal.h"
#include "engine/json_memory.h"
#include "sandbox/stack.h"
#include "store/templates.h"

/*
 * Makes versions: checks what a builder gives, stores version and tags in one transaction, and then
 * changes the tables in memory.
 */

#define TEXT_MAX ((size_t)256 * 1024)
#define COMMAND_MAX ((size_t)16 * 1024)
#define TEMPLATES_MAX 1000 /* of one tenant */
#define VERSIONS_MAX 1000  /* of one template */

static int refuse(struct atoll_error *err, const char *why)
{
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "%s", why);
}

/* Checks. */

struct checking {
    struct atoll_engine *engine;
    struct atoll_template *tmpl; /* NULL: it is new */
    struct atoll_error *err;
    int result;
    size_t count;
};

static void check_tag(void *arg, const char *tag)
{
    struct checking *c = arg;

    if (c->result == 0 && !atoll_tag_is_name(tag))
        c->result =
            refuse(c->err, "a tag is 1 to 128 letters, digits, dots, dashes or underscores");
    c->count += !c->tmpl || !atoll_template_by_tag(c->tmpl, tag);
}

static void check_layer(void *arg, const char *name)
{
    struct checking *c = arg;

    c->count++;
    if (c->result == 0 && strcmp(name, ATOLL_STACK_HOST) != 0 &&
        !atoll_layer_find(c->engine, name, NULL))
        c->result = atoll_fail(c->err, ATOLL_ERR_FAILED_PRECONDITION, ENOENT,
                               "layer %.64s is not on the disk", name);
}

static int check_tags(struct atoll_engine *engine, struct atoll_template *t, const char *tags,
                      struct atoll_error *err)
{
    struct checking c = {.engine = engine, .tmpl = t, .err = err, .count = t ? t->tag_count : 0};

    atoll_words_each(tags, check_tag, &c);
    if (c.result == 0 && c.count > ATOLL_TEMPLATE_TAGS_MAX)
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, EAGAIN,
                          "a template has at most %d tags; remove some", ATOLL_TEMPLATE_TAGS_MAX);
    return c.result;
}

static int check_layers(struct atoll_engine *engine, const char *layers, struct atoll_error *err)
{
    struct checking c = {.engine = engine, .err = err};

    atoll_words_each(layers ? layers : "", check_layer, &c);
    if (c.result == 0 && c.count == 0)
        return refuse(err, "a template needs a file system: the result has no layer");
    if (c.result == 0 && c.count > ATOLL_LAYERS_MAX)
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, E2BIG,
                          "a template has at most %d layers", ATOLL_LAYERS_MAX);
    return c.result;
}

static int check_config(const char *text, struct atoll_error *err)
{
    json_t *config;
    bool is_object;

    if (!text)
        return 0;
    config = atoll_json_load(text, strlen(text), 0, NULL);
    is_object = json_is_object(config);
    json_decref(config);
    return is_object ? 0 : refuse(err, "the configuration of the template is not a JSON object");
}

static int check_texts(const struct atoll_version_new *n, struct atoll_error *err)
{
    const struct {
        const char *text, *what;
        size_t max;
    } texts[] = {
        {n->definition, "definition", TEXT_MAX},      {n->config_json, "configuration", TEXT_MAX},
        {n->report_json, "report", TEXT_MAX},         {n->start_cmd, "start command", COMMAND_MAX},
        {n->ready_cmd, "ready command", COMMAND_MAX},
    };

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(texts); i++)
        if (texts[i].text && strlen(texts[i].text) > texts[i].max)
            return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, EFBIG,
                              "the %s of the template is longer than %zu bytes", texts[i].what,
                              texts[i].max);
    if (n->digest && (strlen(n->digest) != ATOLL_DIGEST_LEN ||
                      strspn(n->digest, "0123456789abcdef") != ATOLL_DIGEST_LEN))
        return refuse(err, "a digest has 64 hex digits");
    if (n->id && strlen(n->id) != ATOLL_VERSION_ID_LEN)
        return refuse(err, "the id of a version is a UUID");
    if (!n->source || !atoll_text_is_name(n->source))
        return refuse(err, "the source of a version is a name");
    return check_config(n->config_json, err);
}

static int check_room(struct atoll_engine *engine, const char *owner,
                      const struct atoll_template *t, struct atoll_error *err)
{
    if (!t && *owner && atoll_templates_count(engine, owner) >= TEMPLATES_MAX)
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, EAGAIN,
                          "there are %d templates, the most a tenant may have; remove some",
                          TEMPLATES_MAX);
    if (t && t->version_count >= VERSIONS_MAX)
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, EAGAIN,
                          "template %.64s has %d versions, the most there may be; remove some",
                          t->name, VERSIONS_MAX);
    return 0;
}

static int check(struct atoll_engine *engine, const struct atoll_version_new *n, const char *owner,
                 const char *tags, struct atoll_error *err)
{
    struct atoll_template *t;
    int r = atoll_template_check(engine, owner, n->name, ATOLL_TEMPLATE_ROOTFS, err);

    if (r == 0 && !n->is_image_name && !atoll_text_is_name(n->name))
        r = refuse(err,
                   "a template's name is 1 to 64 letters, digits, dots, dashes or underscores");
    t = r == 0 ? atoll_template_get(engine, owner, n->name) : NULL;
    if (r == 0)
        r = check_tags(engine, t, tags, err);
    if (r == 0)
        r = check_layers(engine, n->layers, err);
    if (r == 0)
        r = check_texts(n, err);
    return r == 0 ? check_room(engine, owner, t, err) : r;
}

/* Making. */

static void write_hex(const uint8_t *bytes, char out[static ATOLL_DIGEST_LEN + 1])
{
    for (size_t i = 0; i < ATOLL_DIGEST_LEN / 2; i++)
        (void)snprintf(out + 2 * i, 3, "%02x", bytes[i]);
}

/* Of all that decides how a sandbox of this version starts. */
static void make_digest(const struct atoll_version_new *n, char out[static ATOLL_DIGEST_LEN + 1])
{
    const char *const texts[] = {n->layers, n->config_json, n->start_cmd, n->ready_cmd};
    char numbers[48];
    uint8_t bytes[EVP_MAX_MD_SIZE];
    EVP_MD_CTX *digest = EVP_MD_CTX_new();

    if (!digest || EVP_DigestInit_ex(digest, EVP_sha256(), NULL) != 1)
        abort();
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(texts); i++)
        (void)EVP_DigestUpdate(digest, texts[i] ? texts[i] : "",
                               texts[i] ? strlen(texts[i]) + 1 : 1);
    (void)snprintf(numbers, sizeof(numbers), "%u %llu", n->cpu_millis,
                   (unsigned long long)n->memory_bytes);
    (void)EVP_DigestUpdate(digest, numbers, strlen(numbers));
    (void)EVP_DigestFinal_ex(digest, bytes, NULL);
    EVP_MD_CTX_free(digest);
    write_hex(bytes, out);
}

static char *copy(const char *text)
{
    char *out = strdup(text ? text : "");

    if (!out)
        abort(); /* at most 256 KiB each, and checked; the daemon is crash-only */
    return out;
}

static struct atoll_version *version_new(const struct atoll_version_new *n)
{
    struct atoll_version *v = atoll_alloc(sizeof(*v));

    v->kind = ATOLL_TEMPLATE_ROOTFS;
    v->layer_base = ATOLL_LAYER_BASE;
    v->layers = copy(n->layers);
    v->config = copy(n->config_json);
    v->source = copy(n->source);
    v->definition = copy(n->definition);
    v->start_cmd = copy(n->start_cmd);
    v->ready_cmd = copy(n->ready_cmd);
    v->report = copy(n->report_json);
    v->cpu_millis = n->cpu_millis;
    v->memory_bytes = n->memory_bytes;
    v->disk_bytes = n->disk_bytes;
    v->created_unix_ms = atoll_clock_unix_ms();
    (void)snprintf(v->parent, sizeof(v->parent), "%s", n->parent ? n->parent : "");
    (void)snprintf(v->sandbox_id, sizeof(v->sandbox_id), "%s", n->sandbox_id ? n->sandbox_id : "");
    if (n->id)
        memcpy(v->id, n->id, sizeof(v->id));
    else
        atoll_rand_uuid(v->id);
    if (n->digest)
        memcpy(v->digest, n->digest, ATOLL_DIGEST_LEN + 1);
    else if (n->layers)
        make_digest(n, v->digest);
    return v;
}

static int store(struct atoll_engine *engine, const char *owner, const char *name,
                 const struct atoll_version *v, const char *tags, struct atoll_error *err)
{
    const struct atoll_store_template tmpl = {owner, name, "", v->created_unix_ms};
    const struct atoll_store_version row = {
        .id = v->id,
        .owner = owner,
        .name = name,
        .digest = v->digest,
        .kind = v->kind,
        .layers = v->layers,
        .layer_base = v->layer_base,
        .provider = v->provider,
        .image = v->image,
        .size_bytes = v->size_bytes,
        .config = v->config,
        .source = v->source,
        .definition = v->definition,
        .start_cmd = v->start_cmd,
        .ready_cmd = v->ready_cmd,
        .report = v->report,
        .cpu_millis = v->cpu_millis,
        .memory_bytes = v->memory_bytes,
        .disk_bytes = v->disk_bytes,
        .created_unix_ms = v->created_unix_ms,
        .parent = v->parent,
        .sandbox = v->sandbox_id,
    };

    return atoll_store_put_version(engine->config.store, &tmpl, &row, tags, err);
}

struct tagging {
    struct atoll_engine *engine;
    struct atoll_version *version;
};

static void set_tag(void *arg, const char *tag)
{
    struct tagging *t = arg;
    atoll_tag_set(t->engine, t->version, tag);
}

static void set_tags(struct atoll_engine *engine, struct atoll_version *v, const char *tags)
{
    struct tagging t = {engine, v};

    atoll_words_each(tags, set_tag, &t);
    atoll_templates_collect_soon(engine);
}

/* Stores v, which is new, and takes it; on failure it is freed and its layers are released. */
static int add(struct atoll_engine *engine, const char *owner, const char *name,
               struct atoll_version *v, const char *tags, struct atoll_error *err)
{
    struct atoll_template *t;
    int r = atoll_fault("templates.save");

    r = r ? atoll_fail_errno(err, r, "save template %s", name)
          : atoll_layers_hold(engine, v->layers, err);
    if (r == 0) {
        r = store(engine, owner, name, v, tags, err);
        if (r < 0)
            atoll_layers_release(engine, v->layers);
    }
    if (r < 0) {
        (void)atoll_version_free(v);
        return r;
    }
    t = atoll_template_make(engine, owner, name);
    t->created_unix_ms = t->created_unix_ms ? t->created_unix_ms : v->created_unix_ms;
    atoll_version_link(engine, t, v);
    set_tags(engine, v, tags);
    return 0;
}

struct missing {
    struct atoll_engine *engine;
    bool any;
};

static void look(void *arg, const char *name)
{
    struct missing *m = arg;
    m->any |= !atoll_layer_find(m->engine, name, NULL);
}

static void swap_text(char **a, char **b)
{
    char *was = *a;

    *a = *b;
    *b = was;
}

/* The template has this version already. It gets the layers of `v` if some of its own are missing on
 * the disk. Frees v. */
static int add_again(struct atoll_engine *engine, struct atoll_version *old,
                     struct atoll_version *v, const char *tags, struct atoll_error *err)
{
    struct missing m = {.engine = engine};
    int r;

    atoll_words_each(old->layers, look, &m);
    r = m.any ? atoll_layers_hold(engine, v->layers, err) : 0;
    if (r == 0 && m.any) {
        swap_text(&old->layers, &v->layers);
        r = store(engine, old->tmpl->owner, old->tmpl->name, old, tags, err);
        if (r < 0)
            swap_text(&old->layers, &v->layers);
        atoll_layers_release(engine, v->layers); /* those that old does not have */
    } else if (r == 0) {
        r = store(engine, old->tmpl->owner, old->tmpl->name, old, tags, err);
    }
    (void)atoll_version_free(v);
    if (r == 0)
        set_tags(engine, old, tags);
    return r;
}

int atoll_version_add(struct atoll_engine *engine, const struct atoll_version_new *n,
                      struct atoll_template_view *ret, struct atoll_error *err)
{
    const char *owner = n->owner ? n->owner : "", *tags = n->tags ? n->tags : "latest";
    struct atoll_version *v, *old;
    const struct atoll_template *t;
    int r = check(engine, n, owner, tags, err);

    if (r < 0)
        return r;
    v = version_new(n);
    v->size_bytes = atoll_layers_size(engine, v->layers);
    t = atoll_template_get(engine, owner, n->name);
    old = t ? atoll_template_by_digest(t, v->digest) : NULL;
    r = old ? add_again(engine, old, v, tags, err) : add(engine, owner, n->name, v, tags, err);
    if (r == 0)
        *ret = atoll_version_get(engine, old ? old : v);
    return r;
}

/* Images that a provider keeps. */

static void drop_image(struct atoll_engine *engine, const char *provider, const char *image)
{
    struct atoll_provider_entry *entry = atoll_provider_entry_by_name(engine, provider);

    if (entry && entry->provider->ops->drop_image)
        entry->provider->ops->drop_image(entry->provider, image, atoll_done_ignore, NULL);
}

/* The provider has built the same image again: its new name replaces the old one. */
static int keep_again(struct atoll_engine *engine, struct atoll_version *old,
                      struct atoll_version *v, const char *tags, struct atoll_error *err)
{
    char was[sizeof(old->image)];
    int r;

    memcpy(was, old->image, sizeof(was));
    memcpy(old->image, v->image, sizeof(was));
    r = store(engine, old->tmpl->owner, old->tmpl->name, old, tags, err);
    if (r < 0)
        memcpy(old->image, was, sizeof(was));
    else
        drop_image(engine, old->provider, was);
    (void)atoll_version_free(v);
    if (r == 0)
        set_tags(engine, old, tags);
    return r;
}

int atoll_template_keep_image(struct atoll_engine *engine, const struct atoll_version_new *n,
                              const struct atoll_provider_entry *entry, const char *image,
                              const struct atoll_provider_image *made, struct atoll_version **ret,
                              struct atoll_error *err)
{
    const char *provider = entry->provider->ops->name, *tags = n->tags ? n->tags : "latest";
    const struct atoll_template *t = atoll_template_get(engine, n->owner, n->name);
    struct atoll_version *v = version_new(n);
    struct atoll_version *old;
    int r;

    v->kind = ATOLL_TEMPLATE_IMAGE;
    v->size_bytes = made->size_bytes;
    (void)snprintf(v->digest, sizeof(v->digest), "%s", *made->digest ? made->digest : v->id);
    (void)snprintf(v->image, sizeof(v->image), "%s", image);
    (void)snprintf(v->provider, sizeof(v->provider), "%s", provider);
    old = t ? atoll_template_by_digest(t, strncmp(v->digest, "sha256:", 7) == 0 ? v->digest + 7
                                                                                : v->digest)
            : NULL;
    *ret = old ? old : v;
    r = old && strcmp(old->provider, provider) == 0 ? keep_again(engine, old, v, tags, err)
                                                    : add(engine, n->owner, n->name, v, tags, err);
    if (r < 0)
        drop_image(engine, provider, image);
    return r;
}

/* Changes. */

int atoll_version_set_report(struct atoll_engine *engine, const char *version_id,
                             const char *report_json, struct atoll_error *err)
{
    struct atoll_version *v = atoll_map_get(&engine->template_tables.versions, version_id);
    char *report;
    int r;

    if (!v || v->kind == ATOLL_TEMPLATE_HOST)
        return atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT, "there is no version %.40s",
                          version_id);
    if (strlen(report_json) > TEXT_MAX)
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, EFBIG, "the report is too long");
    report = copy(report_json);
    swap_text(&v->report, &report);
    r = store(engine, v->tmpl->owner, v->tmpl->name, v, "", err);
    if (r < 0)
        swap_text(&v->report, &report);
    free(report);
    return r;
}

int atoll_version_set_source(struct atoll_engine *engine, struct atoll_version *v,
                             const char *source, struct atoll_error *err)
{
    char *text = copy(source);
    int r;

    swap_text(&v->source, &text);
    r = store(engine, v->tmpl->owner, v->tmpl->name, v, "", err);
    if (r < 0)
        swap_text(&v->source, &text);
    free(text);
    return r;
}

int atoll_template_tag(struct atoll_engine *engine, const char *owner, const char *reference,
                       const char *tag, struct atoll_error *err)
{
    struct atoll_version *v;
    struct atoll_template *t;
    struct atoll_template_reference ref;
    int r = atoll_template_reference_parse(reference, &ref, err);

    if (r < 0)
        return r;
    t = atoll_template_get(engine, owner, ref.name);
    v = !t            ? NULL
        : *ref.digest ? atoll_template_by_digest(t, ref.digest)
        : *ref.tag    ? atoll_template_by_tag(t, ref.tag)
                      : atoll_template_version(t);
    if (!v)
        return atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT, "there is no template %.150s",
                          reference);
    if (v->kind == ATOLL_TEMPLATE_HOST)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EINVAL,
                          "the template %s is built in and has no tags", t->name);
    if (!atoll_tag_is_name(tag))
        return refuse(err, "a tag is 1 to 128 letters, digits, dots, dashes or underscores");
    r = check_tags(engine, t, tag, err);
    if (r == 0)
        r = atoll_store_put_tag(engine->config.store,
                                &(struct atoll_store_tag){t->owner, t->name, tag, v->id}, err);
    if (r == 0)
        set_tags(engine, v, tag);
    return r;
}

/* Files. */

void atoll_version_id(char out[static ATOLL_VERSION_ID_LEN + 1])
{
    atoll_rand_uuid(out);
}

int atoll_version_file(struct atoll_engine *engine, const char *version_id, const char *what,
                       int flags, struct atoll_error *err)
{
    char path[64];
    int fd;

    if (strlen(version_id) != ATOLL_VERSION_ID_LEN || !atoll_text_is_name(version_id) ||
        (strcmp(what, "log") != 0 && strcmp(what, "sbom") != 0))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "not a file of a version");
    (void)snprintf(path, sizeof(path), "versions/%s.%s", version_id, what);
    fd = openat(engine->state_fd, path, flags | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 && errno == ENOENT)
        return atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT, "this version has no %s", what);
    return fd < 0 ? atoll_fail_errno(err, errno, "open the %s of a version", what) : fd;
}
