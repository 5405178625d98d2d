#include "image/manifest.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include "image/json.h"

#define MEDIA_DOCKER_LAYER "application/vnd.docker.image.rootfs.diff.tar"

/* Platforms. */

static const struct {
    const char *machine, *arch, *variant;
} machines[] = {
    {"x86_64", "amd64", ""},
    {"aarch64", "arm64", ""},
    {"armv7l", "arm", "v7"},
    {"armv6l", "arm", "v6"},
    {"i686", "386", ""},
    {"i386", "386", ""},
    {"ppc64le", "ppc64le", ""},
    {"s390x", "s390x", ""},
    {"riscv64", "riscv64", ""},
    {"mips64", "mips64le", ""},
    {"loongarch64", "loong64", ""},
};

void atoll_image_platform_here(struct atoll_image_platform *ret)
{
    struct utsname name;

    *ret = (struct atoll_image_platform){.os = "linux"};
    (void)uname(&name);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(machines); i++)
        if (strcmp(machines[i].machine, name.machine) == 0) {
            (void)snprintf(ret->arch, sizeof(ret->arch), "%s", machines[i].arch);
            (void)snprintf(ret->variant, sizeof(ret->variant), "%s", machines[i].variant);
            return;
        }
    (void)snprintf(ret->arch, sizeof(ret->arch), "%.*s", (int)sizeof(ret->arch) - 1, name.machine);
}

static bool is_word(const char *text)
{
    size_t n = strlen(text);

    return n < sizeof(((struct atoll_image_platform *)0)->os) &&
           strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == n;
}

/* As containerd normalizes them. */
static void normalize(struct atoll_image_platform *p)
{
    static const char *const same[][2] = {
        {"x86_64", "amd64"}, {"x86-64", "amd64"}, {"aarch64", "arm64"}, {"i386", "386"}};

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(same); i++)
        if (strcmp(p->arch, same[i][0]) == 0)
            (void)snprintf(p->arch, sizeof(p->arch), "%s", same[i][1]);
    if ((strcmp(p->arch, "arm64") == 0 && strcmp(p->variant, "v8") == 0) ||
        (strcmp(p->arch, "amd64") == 0 && strcmp(p->variant, "v1") == 0))
        p->variant[0] = '\0';
    if (strcmp(p->arch, "arm") == 0 && !*p->variant)
        (void)snprintf(p->variant, sizeof(p->variant), "v7");
}

int atoll_image_platform_parse(const char *text, struct atoll_image_platform *ret,
                               struct atoll_error *err)
{
    struct atoll_image_platform p = {0};
    char rest[8] = "";
    int n = sscanf(text, "%31[^/]/%31[^/]/%31[^/]%7s", p.os, p.arch, p.variant, rest);
    size_t slashes = 0;

    for (const char *c = text; *c; c++)
        slashes += *c == '/';
    if ((n != 2 && n != 3) || slashes != (size_t)n - 1 || !is_word(p.os) || !is_word(p.arch) ||
        !is_word(p.variant))
        return atoll_fail(
            err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
            "platform \"%.60s\" is not OS/ARCHITECTURE[/VARIANT], such as linux/amd64", text);
    normalize(&p);
    *ret = p;
    return 0;
}

const char *atoll_image_platform_text(const struct atoll_image_platform *p, char *out)
{
    (void)snprintf(out, 100, "%s/%s%s%s", p->os, p->arch, *p->variant ? "/" : "", p->variant);
    return out;
}

/* False if a member has the wrong type. Absent members are "". */
static bool read_platform(const json_t *json, struct atoll_image_platform *ret)
{
    bool good = atoll_image_json_text(json, "os", ret->os, sizeof(ret->os)) &&
                atoll_image_json_text(json, "architecture", ret->arch, sizeof(ret->arch)) &&
                atoll_image_json_text(json, "variant", ret->variant, sizeof(ret->variant)) &&
                is_word(ret->os) && is_word(ret->arch) && is_word(ret->variant);

    if (good)
        normalize(ret);
    return good;
}

/* How well an image for `have` runs on `want`: 0 not, else the more the better. Variants are numbers
 * ("v7"); a processor also runs those below its own. A host without a variant runs only images without. */
static int fitness(const struct atoll_image_platform *want, const struct atoll_image_platform *have)
{
    if (strcmp(want->os, have->os) != 0 || strcmp(want->arch, have->arch) != 0)
        return 0;
    if (strcmp(want->variant, have->variant) == 0)
        return 100;
    if (!*have->variant)
        return 99;
    if (want->variant[0] == 'v' && have->variant[0] == 'v' && strlen(have->variant) == 2 &&
        strlen(want->variant) == 2 && have->variant[1] < want->variant[1])
        return have->variant[1] - '0' + 1;
    return 0;
}

/* Descriptors. */

static int malformed(struct atoll_error *err, const char *what)
{
    return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EPROTO, "the image is malformed: %s",
                      what);
}

static bool read_descriptor(const json_t *json, struct atoll_image_descriptor *ret)
{
    const json_t *size = json_object_get(json, "size");

    *ret = (struct atoll_image_descriptor){0};
    if (!json_is_object(json) || !json_is_integer(size) || json_integer_value(size) < 0)
        return false;
    ret->size = (uint64_t)json_integer_value(size);
    return atoll_image_json_text(json, "mediaType", ret->media, sizeof(ret->media)) &&
           atoll_image_json_text(json, "digest", ret->digest, sizeof(ret->digest)) &&
           atoll_image_is_digest(ret->digest);
}

/* Kinds of documents. */

static const struct {
    const char *media;
    enum atoll_image_document kind;
} kinds[] = {
    {ATOLL_IMAGE_MEDIA_INDEX, ATOLL_IMAGE_IS_INDEX},
    {ATOLL_IMAGE_MEDIA_LIST, ATOLL_IMAGE_IS_INDEX},
    {ATOLL_IMAGE_MEDIA_MANIFEST, ATOLL_IMAGE_IS_MANIFEST},
    {ATOLL_IMAGE_MEDIA_DOCKER, ATOLL_IMAGE_IS_MANIFEST},
};

static bool kind_of(const char *media, enum atoll_image_document *ret)
{
    size_t n = strcspn(media, "; ");

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(kinds); i++)
        if (strlen(kinds[i].media) == n && memcmp(kinds[i].media, media, n) == 0) {
            *ret = kinds[i].kind;
            return true;
        }
    return false;
}

int atoll_image_document_kind(const char *bytes, size_t n, const char *media,
                              enum atoll_image_document *ret, struct atoll_error *err)
{
    ATOLL_IMAGE_AUTOJSON json_t *json = NULL;
    char own[ATOLL_IMAGE_MEDIA_MAX];
    int r = atoll_image_json_load(bytes, n, &json, err);

    if (r < 0)
        return r;
    if (!atoll_image_json_text(json, "mediaType", own, sizeof(own)))
        return malformed(err, "mediaType");
    if (json_integer_value(json_object_get(json, "schemaVersion")) == 1)
        return atoll_fail(
            err, ATOLL_ERR_FAILED_PRECONDITION, EPROTO,
            "the image has a manifest of Docker's schema 1, which is obsolete; push it "
            "again with a current client");
    /* The document's own word goes first: it is what the digest protects. */
    if (kind_of(own, ret) || (!*own && media && kind_of(media, ret)))
        return 0;
    if (*own)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EPROTO,
                          "this is not an image but \"%.80s\"", own);
    if (json_is_array(json_object_get(json, "manifests")))
        *ret = ATOLL_IMAGE_IS_INDEX;
    else if (json_is_array(json_object_get(json, "layers")))
        *ret = ATOLL_IMAGE_IS_MANIFEST;
    else
        return malformed(err, "neither a manifest nor an index");
    return 0;
}

/* Index. */

/* Attestations of BuildKit have the platform unknown/unknown. */
static bool is_attestation(const json_t *entry)
{
    const json_t *notes = json_object_get(entry, "annotations");

    return json_object_get(notes, "vnd.docker.reference.type") != NULL;
}

static void note_platform(char *list, size_t cap, const struct atoll_image_platform *p)
{
    size_t at = strlen(list);
    char text[100];

    if (at + sizeof(text) < cap)
        (void)snprintf(list + at, cap - at, "%s%s", at ? ", " : "",
                       atoll_image_platform_text(p, text));
}

static int no_platform(const struct atoll_image_platform *platform, const char *list,
                       struct atoll_error *err)
{
    char text[100];

    return atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT,
                      "the image does not exist for %s; there is: %s",
                      atoll_image_platform_text(platform, text), *list ? list : "nothing");
}

int atoll_image_index_choose(const char *bytes, size_t n,
                             const struct atoll_image_platform *platform,
                             struct atoll_image_descriptor *ret, struct atoll_error *err)
{
    ATOLL_IMAGE_AUTOJSON json_t *json = NULL;
    struct atoll_image_descriptor one;
    const json_t *list, *entry;
    char there[300] = "";
    int best = 0, r = atoll_image_json_load(bytes, n, &json, err);
    size_t i;

    if (r < 0)
        return r;
    list = json_object_get(json, "manifests");
    if (!json_is_array(list))
        return malformed(err, "an index without manifests");
    if (json_array_size(list) > ATOLL_IMAGE_INDEX_MAX)
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, E2BIG,
                          "the index of the image has more than %d entries", ATOLL_IMAGE_INDEX_MAX);
    json_array_foreach((json_t *)(uintptr_t)list, i, entry)
    {
        const json_t *p = json_object_get(entry, "platform");
        struct atoll_image_platform have = {0};
        /* An index of one image need not say its platform. */
        bool any = !p && json_array_size(list) == 1;
        int fit;
        if (!read_descriptor(entry, &one) || (p && !read_platform(p, &have)))
            return malformed(err, "an entry of its index");
        fit = any ? 100 : p && !is_attestation(entry) ? fitness(platform, &have) : 0;
        if (p && !is_attestation(entry))
            note_platform(there, sizeof(there), &have);
        if (fit > best) {
            best = fit;
            *ret = one;
        }
    }
    return best > 0 ? 0 : no_platform(platform, there, err);
}

/* Manifest. */

static const char *const layer_media[] = {
    ATOLL_IMAGE_MEDIA_LAYER, ATOLL_IMAGE_MEDIA_LAYER "+gzip", ATOLL_IMAGE_MEDIA_LAYER "+zstd",
    MEDIA_DOCKER_LAYER,      MEDIA_DOCKER_LAYER ".gzip",      MEDIA_DOCKER_LAYER ".zstd",
};

static bool is_layer_media(const char *media)
{
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(layer_media); i++)
        if (strcmp(layer_media[i], media) == 0)
            return true;
    return false;
}

static bool is_config_media(const char *media)
{
    return strcmp(media, ATOLL_IMAGE_MEDIA_CONFIG) == 0 ||
           strcmp(media, "application/vnd.docker.container.image.v1+json") == 0;
}

static int read_layers(const json_t *list, struct atoll_image_manifest *ret,
                       struct atoll_error *err)
{
    const json_t *entry;
    size_t i;

    if (!json_is_array(list))
        return malformed(err, "a manifest without layers");
    if (json_array_size(list) > ATOLL_IMAGE_LAYERS_MAX)
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, E2BIG,
                          "the image has more than %d layers", ATOLL_IMAGE_LAYERS_MAX);
    json_array_foreach((json_t *)(uintptr_t)list, i, entry)
    {
        if (!read_descriptor(entry, &ret->layers[i]))
            return malformed(err, "a layer of its manifest");
        if (!is_layer_media(ret->layers[i].media))
            return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EPROTO,
                              "layer %zu of the image is not a tar archive but \"%.100s\"", i + 1,
                              ret->layers[i].media);
    }
    ret->layer_count = json_array_size(list);
    return 0;
}

int atoll_image_manifest_parse(const char *bytes, size_t n, struct atoll_image_manifest *ret,
                               struct atoll_error *err)
{
    ATOLL_IMAGE_AUTOJSON json_t *json = NULL;
    int r = atoll_image_json_load(bytes, n, &json, err);

    if (r < 0)
        return r;
    *ret = (struct atoll_image_manifest){0};
    if (!atoll_image_json_text(json, "mediaType", ret->media, sizeof(ret->media)))
        return malformed(err, "mediaType");
    if (!*ret->media)
        (void)snprintf(ret->media, sizeof(ret->media), "%s", ATOLL_IMAGE_MEDIA_MANIFEST);
    if (!read_descriptor(json_object_get(json, "config"), &ret->config))
        return malformed(err, "the config of its manifest");
    if (!is_config_media(ret->config.media))
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EPROTO,
                          "this is not an image to run: its config is \"%.80s\"",
                          ret->config.media);
    if (ret->config.size > ATOLL_IMAGE_DOCUMENT_MAX)
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, EFBIG,
                          "the config of the image is longer than 4 MiB");
    return read_layers(json_object_get(json, "layers"), ret, err);
}

static json_t *write_descriptor(const struct atoll_image_descriptor *d)
{
    return json_pack("{s:s, s:s, s:I}", "mediaType", d->media, "digest", d->digest, "size",
                     (json_int_t)d->size);
}

char *atoll_image_manifest_write(const struct atoll_image_manifest *m)
{
    ATOLL_IMAGE_AUTOJSON json_t *layers = json_array();
    ATOLL_IMAGE_AUTOJSON json_t *json = NULL;

    for (size_t i = 0; i < m->layer_count; i++)
        if (json_array_append_new(layers, write_descriptor(&m->layers[i])) < 0)
            return NULL;
    json = json_pack("{s:i, s:s, s:o, s:O}", "schemaVersion", 2, "mediaType", m->media, "config",
                     write_descriptor(&m->config), "layers", layers);
    return json ? json_dumps(json, JSON_COMPACT) : NULL;
}
