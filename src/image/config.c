/*
 * The config of an image: the document that its manifest names. Members of `config` are checked once
 * here, by a table, so that code that applies them need not doubt their types.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "image/json.h"
#include "image/manifest.h"

#define LIST_MAX 4096 /* entries of one member */

enum shape {
    TEXT,
    TEXTS,   /* array of texts */
    PAIRS,   /* array of NAME=VALUE */
    KEYS,    /* object; only its names matter */
    STRINGS, /* object of texts */
    OBJECT,
};

static const struct {
    const char *name;
    enum shape shape;
    const char *expected;
} members[] = {
    {"Env", PAIRS, "an array of NAME=VALUE"},
    {"Cmd", TEXTS, "an array of texts"},
    {"Entrypoint", TEXTS, "an array of texts"},
    {"Shell", TEXTS, "an array of texts"},
    {"OnBuild", TEXTS, "an array of texts"},
    {"User", TEXT, "a text"},
    {"WorkingDir", TEXT, "a text"},
    {"StopSignal", TEXT, "a text"},
    {"ExposedPorts", KEYS, "an object"},
    {"Volumes", KEYS, "an object"},
    {"Labels", STRINGS, "an object of texts"},
    {"Healthcheck", OBJECT, "an object"},
};

/* A text without NUL bytes: it becomes a C string. */
static bool is_text(const json_t *value)
{
    const char *text = json_string_value(value);

    return text && strlen(text) == json_string_length(value);
}

static bool are_texts(const json_t *list, bool pairs)
{
    const json_t *entry;
    size_t i;

    if (!json_is_array(list) || json_array_size(list) > LIST_MAX)
        return false;
    json_array_foreach((json_t *)(uintptr_t)list, i, entry)
    {
        if (!is_text(entry))
            return false;
        if (pairs && strcspn(json_string_value(entry), "=") == 0)
            return false;
    }
    return true;
}

static bool is_map(const json_t *map, bool texts)
{
    const char *key;
    const json_t *value;

    if (!json_is_object(map) || json_object_size(map) > LIST_MAX)
        return false;
    json_object_foreach((json_t *)(uintptr_t)map, key, value)
    {
        if (texts && !is_text(value))
            return false;
    }
    return true;
}

static bool fits(const json_t *value, enum shape shape)
{
    switch (shape) {
    case TEXT:
        return is_text(value);
    case TEXTS:
    case PAIRS:
        return are_texts(value, shape == PAIRS);
    case KEYS:
    case STRINGS:
        return is_map(value, shape == STRINGS);
    case OBJECT:
        return json_is_object(value);
    }
    return false;
}

int atoll_image_config_check(json_t *config, struct atoll_error *err)
{
    if (!json_is_object(config))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "the config of the image is not an object");
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(members); i++) {
        const json_t *value = json_object_get(config, members[i].name);
        if (json_is_null(value))
            (void)json_object_del(config, members[i].name);
        else if (value && !fits(value, members[i].shape))
            return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                              "%s in the config of the image is not %s of at most %d entries",
                              members[i].name, members[i].expected, LIST_MAX);
    }
    return 0;
}

static int malformed(struct atoll_error *err, const char *what)
{
    return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EPROTO,
                      "the image is malformed: %s of its config", what);
}

static int read_diff_ids(const json_t *list, struct atoll_image_config *c, struct atoll_error *err)
{
    size_t n = json_array_size(list);

    if (!json_is_array(list))
        return malformed(err, "rootfs.diff_ids");
    if (n > ATOLL_IMAGE_LAYERS_MAX)
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, E2BIG,
                          "the image has more than %d layers", ATOLL_IMAGE_LAYERS_MAX);
    c->diff_ids = calloc(n + 1, sizeof(*c->diff_ids));
    if (!c->diff_ids)
        return atoll_fail_errno(err, ENOMEM, "config of an image");
    for (size_t i = 0; i < n; i++) {
        const char *id = json_string_value(json_array_get(list, i));
        if (!id || !atoll_image_is_digest(id))
            return malformed(err, "rootfs.diff_ids");
        (void)snprintf(c->diff_ids[i], sizeof(c->diff_ids[i]), "%s", id);
    }
    c->diff_id_count = n;
    return 0;
}

static int read_config(struct atoll_image_config *c, struct atoll_error *err)
{
    json_t *config = json_object_get(c->root, "config");
    struct atoll_image_platform *p = &c->platform;

    if (!atoll_image_json_text(c->root, "os", p->os, sizeof(p->os)) ||
        !atoll_image_json_text(c->root, "architecture", p->arch, sizeof(p->arch)) ||
        !atoll_image_json_text(c->root, "variant", p->variant, sizeof(p->variant)))
        return malformed(err, "the platform");
    if (!config || json_is_null(config)) {
        config = json_object();
        if (json_object_set_new(c->root, "config", config) < 0)
            return atoll_fail_errno(err, ENOMEM, "config of an image");
    }
    c->config = config;
    if (atoll_image_config_check(config, err) < 0) {
        err->kind = ATOLL_ERR_FAILED_PRECONDITION;
        return -EPROTO;
    }
    return read_diff_ids(json_object_get(json_object_get(c->root, "rootfs"), "diff_ids"), c, err);
}

int atoll_image_config_parse(const char *bytes, size_t n, struct atoll_image_config *ret,
                             struct atoll_error *err)
{
    struct atoll_image_config c = {0};
    int r = atoll_image_json_load(bytes, n, &c.root, err);

    if (r == 0)
        r = read_config(&c, err);
    if (r == 0)
        *ret = c;
    else
        atoll_image_config_done(&c);
    return r;
}

void atoll_image_config_done(struct atoll_image_config *c)
{
    json_decref(c->root);
    free(c->diff_ids);
    *c = (struct atoll_image_config){0};
}
