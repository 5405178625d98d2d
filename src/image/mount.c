#include "image/mount.h"

#include <errno.h>
#include <string.h>
#include <strings.h>
#include "base/text.h"
#include "image/recipe_internal.h"

#define ID_MAX 4294967295u
#define MODE_MAX 07777
#define DEFAULT_SECRET_DIR "/run/secrets/"

/* A mount while its fields are read; what was not given differs from what is 0. */
struct draft {
    struct atoll_recipe_memory *memory;
    const struct atoll_lex *lex;
    struct atoll_recipe_mount mount;
    bool access_given, sharing_given, required_given, size_given;
    struct atoll_error *err;
};

struct key {
    const char *name;
    int (*set)(struct draft *d, const struct key *key, const char *value);
    size_t offset; /* of a text or a number in the mount */
};

static const char *const type_names[] = {
    [ATOLL_RECIPE_MOUNT_BIND] = "bind",   [ATOLL_RECIPE_MOUNT_CACHE] = "cache",
    [ATOLL_RECIPE_MOUNT_TMPFS] = "tmpfs", [ATOLL_RECIPE_MOUNT_SECRET] = "secret",
    [ATOLL_RECIPE_MOUNT_SSH] = "ssh",
};
static const char *const sharing_names[] = {
    [ATOLL_RECIPE_SHARED] = "shared",
    [ATOLL_RECIPE_PRIVATE] = "private",
    [ATOLL_RECIPE_LOCKED] = "locked",
};

static int find_name(const char *const *names, size_t count, const char *value)
{
    for (size_t i = 0; i < count; i++)
        if (strcasecmp(names[i], value) == 0)
            return (int)i;
    return -EINVAL;
}

static int refuse_value(struct draft *d, const struct key *key, const char *value,
                        const char *wanted)
{
    return atoll_recipe_refuse(d->err, 0, "--mount: %s=%.40s: it must be %s", key->name, value,
                               wanted);
}

/* An empty text is as if it were not given. */
static int set_text(struct draft *d, const struct key *key, const char *value)
{
    const char *copy = *value ? atoll_recipe_text(d->memory, value, strlen(value)) : NULL;

    if (!copy && *value)
        return atoll_recipe_no_room(d->err);
    memcpy((char *)&d->mount + key->offset, &copy, sizeof(copy));
    return 0;
}

static int set_type(struct draft *d, const struct key *key, const char *value)
{
    int type = find_name(type_names, ATOLL_ARRAY_LEN(type_names), value);

    if (type < 0)
        return refuse_value(d, key, value, "bind, cache, tmpfs, secret or ssh");
    d->mount.type = (enum atoll_recipe_mount_type)type;
    return 0;
}

static int set_sharing(struct draft *d, const struct key *key, const char *value)
{
    int sharing = find_name(sharing_names, ATOLL_ARRAY_LEN(sharing_names), value);

    if (sharing < 0)
        return refuse_value(d, key, value, "shared, private or locked");
    d->mount.sharing = (enum atoll_recipe_sharing)sharing;
    d->sharing_given = true;
    return 0;
}

static int read_bool(struct draft *d, const struct key *key, const char *value, bool *ret)
{
    static const char *const words[] = {"0", "1", "f", "t", "false", "true"};
    int word = *value ? find_name(words, ATOLL_ARRAY_LEN(words), value) : 1;

    if (word < 0)
        return refuse_value(d, key, value, "true or false");
    *ret = word % 2 == 1;
    return 0;
}

static int set_readonly(struct draft *d, const struct key *key, const char *value)
{
    d->access_given = true;
    return read_bool(d, key, value, &d->mount.readonly);
}

static int set_readwrite(struct draft *d, const struct key *key, const char *value)
{
    int r = set_readonly(d, key, value);

    d->mount.readonly = !d->mount.readonly;
    return r;
}

static int set_required(struct draft *d, const struct key *key, const char *value)
{
    d->required_given = true;
    return read_bool(d, key, value, &d->mount.required);
}

static int set_size(struct draft *d, const struct key *key, const char *value)
{
    d->size_given = true;
    if (atoll_text_size(value, &d->mount.size_bytes) < 0)
        return refuse_value(d, key, value, "a size, such as 64m");
    return 0;
}

static int set_id(struct draft *d, const struct key *key, const char *value)
{
    uint64_t number;

    if (atoll_text_u64(value, 0, ID_MAX, &number) < 0)
        return refuse_value(d, key, value, "a number");
    *(int64_t *)(void *)((char *)&d->mount + key->offset) = (int64_t)number;
    return 0;
}

static int set_mode(struct draft *d, const struct key *key, const char *value)
{
    int64_t mode = 0;

    for (const char *p = value; *p; p++) {
        if (*p < '0' || *p > '7' || mode > MODE_MAX)
            return refuse_value(d, key, value, "an octal mode");
        mode = mode * 8 + (*p - '0');
    }
    if (!*value || mode > MODE_MAX)
        return refuse_value(d, key, value, "an octal mode");
    d->mount.mode = mode;
    return 0;
}

#define AT(member) offsetof(struct atoll_recipe_mount, member)

static const struct key keys[] = {
    {"type", set_type, 0},
    {"from", set_text, AT(from)},
    {"source", set_text, AT(source)},
    {"src", set_text, AT(source)},
    {"target", set_text, AT(target)},
    {"dst", set_text, AT(target)},
    {"destination", set_text, AT(target)},
    {"id", set_text, AT(id)},
    {"env", set_text, AT(env)},
    {"sharing", set_sharing, 0},
    {"readonly", set_readonly, 0},
    {"ro", set_readonly, 0},
    {"readwrite", set_readwrite, 0},
    {"rw", set_readwrite, 0},
    {"required", set_required, 0},
    {"size", set_size, 0},
    {"mode", set_mode, 0},
    {"uid", set_id, AT(uid)},
    {"gid", set_id, AT(gid)},
};

static const struct key *find_key(const char *name, size_t n)
{
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(keys); i++)
        if (strlen(keys[i].name) == n && strncasecmp(keys[i].name, name, n) == 0)
            return &keys[i];
    return NULL;
}

static bool is_switch(const struct key *key)
{
    return key->set == set_readonly || key->set == set_readwrite || key->set == set_required;
}

/* One "key=value" or "key". */
static int read_field(struct draft *d, const char *field)
{
    const char *equals = strchr(field, '='), *value = equals ? equals + 1 : "";
    size_t n = equals ? (size_t)(equals - field) : strlen(field);
    const struct key *key = find_key(field, n);

    if (!key)
        return atoll_recipe_refuse(d->err, 0, "--mount has no key \"%.*s\"",
                                   (int)ATOLL_MIN(n, (size_t)40), field);
    if (!equals && !is_switch(key))
        return atoll_recipe_refuse(d->err, 0, "--mount: %s needs a value", key->name);
    if (strchr(value, '$') && key->set == set_text && key->offset == AT(from))
        return atoll_recipe_refuse(
            d->err, 0, "--mount: from cannot have a variable; use a stage FROM the variable");
    if (d->lex && atoll_lex_text(d->lex, d->memory, value, &value, d->err) < 0)
        return -EINVAL;
    if (!d->lex && strchr(value, '$') && key->set != set_text)
        return 0;
    return key->set(d, key, value);
}

/* Copies the next field of comma-separated values, quoted or not, and skips its comma. */
static int next_field(struct draft *d, const char **text, const char **ret)
{
    size_t size = strlen(*text) + 1, n = 0;
    char *out = atoll_recipe_alloc(d->memory, size);
    const char *p = *text;
    bool quoted = *p == '"';

    if (!out)
        return atoll_recipe_no_room(d->err);
    for (p += quoted; *p && (quoted || *p != ','); p++) {
        if (quoted && *p == '"' && p[1] != '"') {
            quoted = false;
            continue;
        }
        if (quoted && *p == '"')
            p++;
        out[n++] = *p;
    }
    if (quoted)
        return atoll_recipe_refuse(d->err, 0, "--mount: missing the second double quote");
    *text = *p ? p + 1 : p;
    *ret = out;
    return 0;
}

static int check_kind(struct draft *d)
{
    const struct atoll_recipe_mount *mount = &d->mount;
    const char *type = type_names[mount->type];
    bool secret = mount->type == ATOLL_RECIPE_MOUNT_SECRET;
    bool ids =
        secret || mount->type == ATOLL_RECIPE_MOUNT_SSH || mount->type == ATOLL_RECIPE_MOUNT_CACHE;

    if (!ids && (mount->mode >= 0 || mount->uid >= 0 || mount->gid >= 0))
        return atoll_recipe_refuse(d->err, 0, "--mount: type %s has no mode, uid or gid", type);
    if (d->sharing_given && mount->type != ATOLL_RECIPE_MOUNT_CACHE)
        return atoll_recipe_refuse(d->err, 0, "--mount: only type cache has sharing");
    if (d->size_given && mount->type != ATOLL_RECIPE_MOUNT_TMPFS)
        return atoll_recipe_refuse(d->err, 0, "--mount: only type tmpfs has a size");
    if (d->required_given && !secret && mount->type != ATOLL_RECIPE_MOUNT_SSH)
        return atoll_recipe_refuse(d->err, 0, "--mount: only types secret and ssh are required");
    if (secret && mount->from)
        return atoll_recipe_refuse(d->err, 0, "--mount: a secret has no from");
    if (secret && !mount->source && !mount->target && !mount->id)
        return atoll_recipe_refuse(d->err, 0, "--mount: a secret needs an id or a target");
    if (secret && mount->source && mount->id)
        return atoll_recipe_refuse(d->err, 0, "--mount: a secret has an id or a source, not both");
    return 0;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash && slash[1] ? slash + 1 : path;
}

/* The id and the target of a secret, when they were not given. */
static int fill_secret(struct draft *d)
{
    struct atoll_recipe_mount *mount = &d->mount;
    const char *name;
    char *target;

    if (!mount->id)
        mount->id = mount->source ? mount->source : base_name(mount->target);
    if (mount->target || mount->env)
        return 0;
    name = base_name(mount->id);
    target = atoll_recipe_alloc(d->memory, sizeof(DEFAULT_SECRET_DIR) + strlen(name));
    if (!target)
        return atoll_recipe_no_room(d->err);
    memcpy(target, DEFAULT_SECRET_DIR, sizeof(DEFAULT_SECRET_DIR) - 1);
    memcpy(target + sizeof(DEFAULT_SECRET_DIR) - 1, name, strlen(name));
    mount->target = target;
    return 0;
}

static int fill_defaults(struct draft *d)
{
    struct atoll_recipe_mount *mount = &d->mount;

    if (!d->access_given)
        mount->readonly =
            mount->type != ATOLL_RECIPE_MOUNT_CACHE && mount->type != ATOLL_RECIPE_MOUNT_TMPFS;
    if (mount->type <= ATOLL_RECIPE_MOUNT_TMPFS && !mount->target)
        mount->target = ".";
    if (mount->type == ATOLL_RECIPE_MOUNT_CACHE && !mount->id)
        mount->id = mount->target;
    if (mount->type == ATOLL_RECIPE_MOUNT_SSH && !mount->id)
        mount->id = "default";
    return mount->type == ATOLL_RECIPE_MOUNT_SECRET ? fill_secret(d) : 0;
}

int atoll_recipe_mount_parse(struct atoll_recipe_memory *m, const char *text,
                             const struct atoll_lex *lex, struct atoll_recipe_mount *ret,
                             struct atoll_error *err)
{
    struct draft d = {.memory = m, .lex = lex, .err = err};
    const char *field = "";

    d.mount.mode = d.mount.uid = d.mount.gid = -1;
    d.mount.text = atoll_recipe_text(m, text, strlen(text));
    if (!d.mount.text)
        return atoll_recipe_no_room(err);
    while (*text)
        if (next_field(&d, &text, &field) < 0 || read_field(&d, field) < 0)
            return -EINVAL;
    if (check_kind(&d) < 0 || fill_defaults(&d) < 0)
        return -EINVAL;
    *ret = d.mount;
    return 0;
}
