#include "image/reference.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

/* The grammar is that of github.com/distribution/reference, by hand: no regular expressions. */
#define NAME_MAX_LEN 255 /* host and path together, as Docker has it */
#define HEX "0123456789abcdef"
#define SHA256 "sha256:"
#define HEX_LEN 64

static bool is_lower(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

static bool is_letter(char c)
{
    return is_lower(c) || (c >= 'A' && c <= 'Z');
}

bool atoll_image_is_digest(const char *text)
{
    return strncmp(text, SHA256, sizeof(SHA256) - 1) == 0 &&
           strlen(text) == sizeof(SHA256) - 1 + HEX_LEN &&
           strspn(text + sizeof(SHA256) - 1, HEX) == HEX_LEN;
}

/* Length of the port with its colon at p, 0 without a port; -1: malformed. */
static int port_len(const char *p, size_t n)
{
    size_t digits = 0;

    if (n == 0)
        return 0;
    while (1 + digits < n && isdigit((unsigned char)p[1 + digits]))
        digits++;
    return p[0] == ':' && digits >= 1 && digits <= 5 && 1 + digits == n ? (int)n : -1;
}

/* Labels of letters, digits and inner hyphens, with dots between them. */
static bool is_host_name(const char *p, size_t n)
{
    if (n == 0 || !is_letter(p[0]) || !is_letter(p[n - 1]))
        return false;
    for (size_t i = 1; i < n; i++) {
        bool edge = p[i] == '.' || p[i - 1] == '.';
        if (p[i] != '.' && p[i] != '-' && !is_letter(p[i]))
            return false;
        if (edge && !is_letter(p[i]) && !is_letter(p[i - 1]))
            return false;
    }
    return true;
}

static bool is_host(const char *p, size_t n)
{
    const char *end = n > 0 && p[0] == '[' ? memchr(p, ']', n) : memchr(p, ':', n);
    size_t len = end ? (size_t)(end - p) : n;

    if (n == 0 || n >= ATOLL_IMAGE_HOST_MAX)
        return false;
    if (p[0] != '[')
        return is_host_name(p, len) && port_len(p + len, n - len) >= 0;
    for (size_t i = 1; end && i < len; i++)
        if (p[i] != ':' && !isxdigit((unsigned char)p[i]))
            return false;
    return end && len > 2 && port_len(end + 1, n - len - 1) >= 0;
}

bool atoll_image_is_host(const char *text)
{
    return is_host(text, strlen(text));
}

/* Whether the first component of a name with a slash is a host. */
static bool looks_like_host(const char *p, size_t n)
{
    if (n == 9 && memcmp(p, "localhost", 9) == 0)
        return true;
    for (size_t i = 0; i < n; i++)
        if (strchr(".:[", p[i]) || (p[i] >= 'A' && p[i] <= 'Z'))
            return true;
    return false;
}

/* [a-z0-9]+ ((\.|_|__|-+) [a-z0-9]+)* in each component. */
static bool is_path(const char *p, size_t n)
{
    for (size_t i = 0; i < n;) {
        size_t word = i, gap;
        while (i < n && is_lower(p[i]))
            i++;
        if (i == word)
            return false;
        for (gap = i; i < n && p[i] == p[gap] && strchr("._-/", p[i]);)
            i++;
        if (i == gap && i < n)
            return false;
        if (i > gap && (i == n || (p[gap] != '-' && i - gap > (p[gap] == '_' ? 2u : 1u))))
            return false;
    }
    return n > 0;
}

static bool is_tag(const char *tag)
{
    size_t n = strlen(tag);

    if (n == 0 || n >= ATOLL_IMAGE_TAG_MAX || (!is_letter(tag[0]) && tag[0] != '_'))
        return false;
    for (size_t i = 1; i < n; i++)
        if (!is_letter(tag[i]) && !strchr("_.-", tag[i]))
            return false;
    return true;
}

static int refuse(struct atoll_error *err, const char *text, const char *why)
{
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "image \"%.200s\": %s", text, why);
}

/* Splits "name[:tag][@digest]" off its end; returns the length of the name. */
static int take_version(const char *text, struct atoll_image_reference *ret, size_t *ret_len,
                        struct atoll_error *err)
{
    const char *at = strchr(text, '@'), *slash, *colon;
    size_t n = at ? (size_t)(at - text) : strlen(text);

    if (at && !atoll_image_is_digest(at + 1))
        return refuse(err, text, "what follows \"@\" must be sha256: and 64 hex digits");
    if (at)
        memcpy(ret->digest, at + 1, sizeof(ret->digest));
    slash = memrchr(text, '/', n);
    colon = memrchr(text, ':', n);
    *ret_len = n;
    if (!colon || (slash && colon < slash)) {
        (void)snprintf(ret->tag, sizeof(ret->tag), "%s", at ? "" : "latest");
        return 0;
    }
    *ret_len = (size_t)(colon - text);
    n -= *ret_len + 1;
    if (n >= sizeof(ret->tag))
        return refuse(err, text, "the tag is longer than 128 characters");
    memcpy(ret->tag, colon + 1, n);
    ret->tag[n] = '\0';
    return is_tag(ret->tag)
               ? 0
               : refuse(err, text, "a tag consists of letters, digits, \"_\", \".\" and \"-\"");
}

static int take_name(const char *text, size_t n, struct atoll_image_reference *ret,
                     struct atoll_error *err)
{
    const char *slash = memchr(text, '/', n), *path = text;
    const char *official = "";

    (void)snprintf(ret->host, sizeof(ret->host), "%s", ATOLL_IMAGE_DOCKER_HUB);
    if (slash && looks_like_host(text, (size_t)(slash - text))) {
        if (!is_host(text, (size_t)(slash - text)))
            return refuse(err, text, "the part before the first \"/\" is not a host name");
        (void)snprintf(ret->host, sizeof(ret->host), "%.*s", (int)(slash - text), text);
        path = slash + 1;
    }
    if (strcmp(ret->host, "index.docker.io") == 0 || strcmp(ret->host, "registry-1.docker.io") == 0)
        (void)snprintf(ret->host, sizeof(ret->host), "%s", ATOLL_IMAGE_DOCKER_HUB);
    n -= (size_t)(path - text);
    if (strcmp(ret->host, ATOLL_IMAGE_DOCKER_HUB) == 0 && !memchr(path, '/', n))
        official = "library/";
    if (n == HEX_LEN && path == text && strspn(text, HEX) == HEX_LEN)
        return refuse(err, text, "an image id is not a name");
    if (!is_path(path, n))
        return refuse(err, text,
                      "a name consists of lower-case letters and digits, with single \".\", \"_\", "
                      "\"-\" or \"/\" between them");
    if (strlen(ret->host) + 1 + strlen(official) + n > NAME_MAX_LEN)
        return refuse(err, text, "the name is longer than 255 characters");
    (void)snprintf(ret->path, sizeof(ret->path), "%s%.*s", official, (int)n, path);
    return 0;
}

int atoll_image_reference_parse(const char *text, struct atoll_image_reference *ret,
                                struct atoll_error *err)
{
    struct atoll_image_reference ref = {0};
    size_t n = 0;
    int r;

    if (!*text)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "the name of the image is empty");
    r = take_version(text, &ref, &n, err);
    if (r == 0)
        r = take_name(text, n, &ref, err);
    if (r == 0)
        *ret = ref;
    return r;
}

static const char *format(const struct atoll_image_reference *ref, const char *host,
                          const char *path, char out[ATOLL_IMAGE_REFERENCE_MAX])
{
    (void)snprintf(out, ATOLL_IMAGE_REFERENCE_MAX, "%s%s%s%s%s%s%s", host, *host ? "/" : "", path,
                   *ref->tag ? ":" : "", ref->tag, *ref->digest ? "@" : "", ref->digest);
    return out;
}

const char *atoll_image_reference_text(const struct atoll_image_reference *ref,
                                       char out[ATOLL_IMAGE_REFERENCE_MAX])
{
    return format(ref, ref->host, ref->path, out);
}

const char *atoll_image_reference_short(const struct atoll_image_reference *ref,
                                        char out[ATOLL_IMAGE_REFERENCE_MAX])
{
    static const char library[] = "library/";
    const char *path = ref->path;
    bool hub = strcmp(ref->host, ATOLL_IMAGE_DOCKER_HUB) == 0;

    if (hub && strncmp(path, library, sizeof(library) - 1) == 0 &&
        !strchr(path + sizeof(library) - 1, '/'))
        path += sizeof(library) - 1;
    /* Without its host "a.b/c" would be of the host a.b. */
    if (hub && strchr(path, '/') && looks_like_host(path, strcspn(path, "/")))
        hub = false;
    return format(ref, hub ? "" : ref->host, path, out);
}
